//! Operations on names.

use super::measure::{Count, Report};
use super::{MetaOptions, Scratch, drop_caches, noise};
use crate::error::{Error, Result, Tried};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A small file.
const SMALL: usize = 4 << 10;

/// Runs all figures that the report wants, with one job and with several.
pub fn run(options: &MetaOptions, scratch: &Path, report: &Report) -> Result<()> {
    if options.files == 0 || options.jobs == 0 {
        return Err(Error::Usage("--files and --jobs must not be 0".into()));
    }
    let several = (options.jobs > 1).then_some(options.jobs);
    for jobs in std::iter::once(1).chain(several) {
        let case = if jobs == 1 {
            "1 job".to_owned()
        } else {
            format!("{jobs} jobs")
        };
        names(options.files, jobs, &case, scratch, report)?;
        small_files(options.files.div_ceil(2), jobs, &case, scratch, report)?;
    }
    Ok(())
}

fn names(files: usize, jobs: usize, case: &str, scratch: &Path, report: &Report) -> Result<()> {
    let top = Scratch::inside(scratch, "names")?;
    let home = |index: usize| top.join(format!("d{index}"));
    for index in 0..jobs {
        Scratch::inside(&top, &format!("d{index}"))?;
    }
    let file = |index: usize, at: usize| home(index).join(format!("f{at}"));
    let renamed = |index: usize, at: usize| home(index).join(format!("g{at}"));
    let directory = |index: usize, at: usize| home(index).join(format!("s{at}"));
    // Later figures need what earlier ones make, so all run; what was not asked for is not shown.
    let figure = |name: &str, work: &(dyn Fn(usize, usize) -> std::io::Result<()> + Sync)| {
        if report.wants(name) || name == "create" {
            report.figure("meta", name, case, Count::Operations, jobs, |job| {
                let index = job.index;
                (0..files).try_for_each(|at| job.operation(0, || work(index, at)))
            })
        } else {
            Ok(())
        }
    };
    figure("create", &|index, at| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file(index, at))
            .map(drop)
    })?;
    figure("stat_hot", &|index, at| {
        fs::symlink_metadata(file(index, at)).map(drop)
    })?;
    drop_caches();
    figure("stat_cold", &|index, at| {
        fs::symlink_metadata(file(index, at)).map(drop)
    })?;
    if report.wants("readdir") {
        drop_caches();
        report.figure("meta", "readdir", case, Count::Operations, jobs, |job| {
            let mut entries = fs::read_dir(home(job.index))?;
            while let Some(entry) = job.operation(0, || entries.next().transpose())? {
                drop(entry);
            }
            Ok(())
        })?;
    }
    figure("rename", &|index, at| {
        fs::rename(file(index, at), renamed(index, at))
    })?;
    let last = |index: usize, at: usize| {
        if report.wants("rename") {
            renamed(index, at)
        } else {
            file(index, at)
        }
    };
    figure("unlink", &|index, at| fs::remove_file(last(index, at)))?;
    figure("mkdir", &|index, at| fs::create_dir(directory(index, at)))?;
    if report.wants("mkdir") {
        figure("rmdir", &|index, at| fs::remove_dir(directory(index, at)))?;
    }
    fs::remove_dir_all(&top).tried_on("cannot remove", &top)?;
    if jobs > 1 && report.wants("create_one_dir") {
        let top = Scratch::inside(scratch, "one")?;
        report.figure(
            "meta",
            "create_one_dir",
            case,
            Count::Operations,
            jobs,
            |job| {
                let index = job.index;
                (0..files).try_for_each(|at| {
                    let path: PathBuf = top.join(format!("{index}.{at}"));
                    job.operation(0, || File::create_new(path).map(drop))
                })
            },
        )?;
        fs::remove_dir_all(&top).tried_on("cannot remove", &top)?;
    }
    Ok(())
}

fn small_files(
    files: usize,
    jobs: usize,
    case: &str,
    scratch: &Path,
    report: &Report,
) -> Result<()> {
    if !report.wants("small_write") && !report.wants("small_read") {
        return Ok(());
    }
    let top = Scratch::inside(scratch, "small")?;
    for index in 0..jobs {
        Scratch::inside(&top, &format!("d{index}"))?;
    }
    let path = |index: usize, at: usize| top.join(format!("d{index}/f{at}"));
    let content = noise(SMALL, 7);
    report.figure(
        "meta",
        "small_write",
        case,
        Count::Operations,
        jobs,
        |job| {
            let index = job.index;
            (0..files).try_for_each(|at| {
                job.operation(SMALL as u64, || {
                    File::create_new(path(index, at))?.write_all(&content)
                })
            })
        },
    )?;
    drop_caches();
    report.figure("meta", "small_read", case, Count::Operations, jobs, |job| {
        let index = job.index;
        let mut buffer = Vec::with_capacity(SMALL);
        (0..files).try_for_each(|at| {
            buffer.clear();
            job.operation(SMALL as u64, || {
                File::open(path(index, at))?.read_to_end(&mut buffer)
            })?;
            if buffer == content {
                Ok(())
            } else {
                Err(std::io::Error::other("a small file came back different"))
            }
        })
    })?;
    fs::remove_dir_all(&top).tried_on("cannot remove", &top)
}
