//! Throughput and IOPS.

use super::measure::{Count, Report};
use super::{IoOptions, Scratch, drop_caches, next, noise};
use crate::error::{Error, Result, Tried};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BLOCK: usize = 1 << 20;
const SMALL: usize = 4 << 10;

/// Runs all figures that the report wants.
pub fn run(options: &IoOptions, scratch: &Path, report: &Report) -> Result<()> {
    if options.size == 0 || options.jobs == 0 {
        return Err(Error::Usage("--size and --jobs must not be 0".into()));
    }
    let big = scratch.join("big");
    let one = "1 job".to_owned();
    let many = format!("{} jobs", options.jobs);
    let whole = options.size << 20;
    let share = (options.size / options.jobs as u64).max(1) << 20;
    let limit = Duration::from_secs_f64(options.seconds);
    let block = noise(BLOCK, 1);
    if report.wants("seq_write") {
        drop_caches();
        report.figure("io", "seq_write", &one, Count::Bytes, 1, |job| {
            let file = create(&big)?;
            write_all(job, &file, 0, whole, &block)
        })?;
    }
    ensure(&big, whole, &block)?;
    if report.wants("seq_read") {
        drop_caches();
        report.figure("io", "seq_read", &one, Count::Bytes, 1, |job| {
            read_all(job, &File::open(&big)?, 0, whole)
        })?;
    }
    let several = (options.jobs > 1).then_some((options.jobs, &many));
    for (jobs, case) in std::iter::once((1, &one)).chain(several) {
        if report.wants("rand_read_4k") {
            drop_caches();
            report.figure("io", "rand_read_4k", case, Count::Operations, jobs, |job| {
                let file = File::open(&big)?;
                let (mut state, mut buffer) = (job.index as u64 + 11, vec![0; SMALL]);
                while job.elapsed() < limit {
                    let at = next(&mut state) % (whole / SMALL as u64) * SMALL as u64;
                    job.operation(SMALL as u64, || file.read_exact_at(&mut buffer, at))?;
                }
                Ok(())
            })?;
        }
        if report.wants("rand_write_4k") {
            report.figure(
                "io",
                "rand_write_4k",
                case,
                Count::Operations,
                jobs,
                |job| {
                    let file = OpenOptions::new().write(true).open(&big)?;
                    let mut state = job.index as u64 + 23;
                    let small = &block[..SMALL];
                    while job.elapsed() < limit {
                        let at = next(&mut state) % (whole / SMALL as u64) * SMALL as u64;
                        job.operation(SMALL as u64, || file.write_all_at(small, at))?;
                    }
                    file.sync_all()
                },
            )?;
        }
    }
    std::fs::remove_file(&big).tried_on("cannot remove", &big)?;
    if report.wants("par_files_write") || report.wants("par_files_read") {
        let directory = Scratch::inside(scratch, "par")?;
        let name = |index: usize| directory.join(format!("f{index}"));
        drop_caches();
        report.figure(
            "io",
            "par_files_write",
            &many,
            Count::Bytes,
            options.jobs,
            |job| {
                let file = create(&name(job.index))?;
                write_all(job, &file, 0, share, &block)
            },
        )?;
        drop_caches();
        report.figure(
            "io",
            "par_files_read",
            &many,
            Count::Bytes,
            options.jobs,
            |job| read_all(job, &File::open(name(job.index))?, 0, share),
        )?;
        std::fs::remove_dir_all(&directory).tried_on("cannot remove", &directory)?;
    }
    if report.wants("one_file_write") {
        let shared = scratch.join("shared");
        create(&shared).tried_on("cannot make", &shared)?;
        drop_caches();
        report.figure(
            "io",
            "one_file_write",
            &many,
            Count::Bytes,
            options.jobs,
            |job| {
                let file = OpenOptions::new().write(true).open(&shared)?;
                write_all(job, &file, job.index as u64 * share, share, &block)
            },
        )?;
        let length = std::fs::metadata(&shared)
            .tried_on("cannot look at", &shared)?
            .len();
        if length != share * options.jobs as u64 {
            return Err(Error::Unsound(format!(
                "{} jobs wrote {} bytes to one file, which has {length}",
                options.jobs,
                share * options.jobs as u64
            )));
        }
        std::fs::remove_file(&shared).tried_on("cannot remove", &shared)?;
    }
    if report.wants("split") {
        split(options, scratch, report, &block)?;
    }
    Ok(())
}

/// 50 MB for each job, in one file or in many.
fn split(options: &IoOptions, scratch: &Path, report: &Report, block: &[u8]) -> Result<()> {
    const BYTES: u64 = 50_000_000;
    for files in [1u64, 8, 32, 128] {
        let directory = Scratch::inside(scratch, "split")?;
        let case = format!("{files} files");
        drop_caches();
        report.figure("io", "split", &case, Count::Time, options.jobs, |job| {
            for at in 0..files {
                let path: PathBuf = directory.join(format!("{}.{at}", job.index));
                let file = create(&path)?;
                let mut offset = 0;
                while offset < BYTES / files {
                    let length = (BYTES / files - offset).min(BLOCK as u64);
                    job.operation(length, || {
                        file.write_all_at(&block[..length as usize], offset)
                    })?;
                    offset += length;
                }
            }
            Ok(())
        })?;
        std::fs::remove_dir_all(&directory).tried_on("cannot remove", &directory)?;
    }
    Ok(())
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
}

fn ensure(path: &Path, length: u64, block: &[u8]) -> Result<()> {
    let make = || -> io::Result<()> {
        if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == length) {
            return Ok(());
        }
        let file = create(path)?;
        for at in (0..length).step_by(block.len()) {
            file.write_all_at(block, at)?;
        }
        file.sync_all()
    };
    make().tried_on("cannot write", path)
}

/// Blocks one after the other, then fsync, which counts.
fn write_all(
    job: &mut super::measure::Job,
    file: &File,
    start: u64,
    length: u64,
    block: &[u8],
) -> io::Result<()> {
    for at in (0..length).step_by(block.len()) {
        job.operation(block.len() as u64, || file.write_all_at(block, start + at))?;
    }
    file.sync_all()
}

fn read_all(job: &mut super::measure::Job, file: &File, start: u64, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK];
    for at in (0..length).step_by(BLOCK) {
        job.operation(BLOCK as u64, || file.read_exact_at(&mut buffer, start + at))?;
    }
    Ok(())
}
