//! A real source tree unpacked, searched and removed; and one amount of data in ever more files.

use crate::random::Random;
use crate::workers::{Name, measure};
use crate::{At, Bench, BenchError};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of one write of the split figure.
const SPLIT_WRITE: usize = 128 << 10;

/// Which tree.
#[derive(Clone, Debug)]
pub struct TreePlan {
    /// A tar file with a source tree of some thousand entries.
    pub archive: PathBuf,
    /// A word that `grep -r` looks for.
    pub word: String,
}

fn program(command: &mut Command) -> Result<(), BenchError> {
    let shown = format!("{command:?}");
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| BenchError::Program(format!("{shown}: {error}")))?;
    // grep answers 1 when it finds nothing.
    if status.code().is_some_and(|code| code <= 1) {
        Ok(())
    } else {
        Err(BenchError::Program(format!("{shown} ended with {status}")))
    }
}

/// Unpacks the archive with tar, walks it with find, searches it with grep -r (both cold), removes
/// it with rm -rf.
///
/// # Errors
/// If one of the programs is missing or fails.
pub fn run_tree(bench: &mut Bench<'_>, plan: &TreePlan) -> Result<(), BenchError> {
    let directory = bench.directory.join("weft-bench-tree");
    fs::create_dir_all(&directory).at(&directory)?;
    // Into the page cache, so that reading it is not what is measured.
    fs::read(&plan.archive).at(&plan.archive)?;
    let step = |figure| Name {
        figure,
        case: "",
        unit: "s",
    };
    let run = |command: &mut Command, tally: &mut crate::workers::Tally| {
        let mut result = Ok(());
        tally.time(1.0, || {
            result = program(command);
            result.as_ref().copied().map_err(|_| ())
        });
        result
    };
    measure(bench, &step("untar"), 1, |_, tally| {
        let mut tar = Command::new("tar");
        run(
            tar.arg("xf")
                .arg(&plan.archive)
                .arg("-C")
                .arg(&directory)
                .arg("--no-same-owner"),
            tally,
        )
    })?;
    bench.cool();
    measure(bench, &step("find"), 1, |_, tally| {
        let mut find = Command::new("find");
        run(
            find.arg(&directory)
                .args(["-type", "f", "-newermt", "1990-01-01"]),
            tally,
        )
    })?;
    bench.cool();
    measure(bench, &step("grep_r"), 1, |_, tally| {
        run(
            Command::new("grep")
                .args(["-r", &plan.word])
                .arg(&directory),
            tally,
        )
    })?;
    measure(bench, &step("rm_rf"), 1, |_, tally| {
        run(Command::new("rm").arg("-rf").arg(&directory), tally)
    })
}

/// dNFSp's figure 3: four clients write `mb` MB each, split in 1, 8, 32, 128 files; the time includes
/// making the data stable.
///
/// # Errors
/// If a directory cannot be prepared.
pub fn run_split(bench: &mut Bench<'_>, mb: usize) -> Result<(), BenchError> {
    for files in [1, 8, 32, 128] {
        let directory = bench.directory.join("weft-bench-split");
        fs::create_dir_all(&directory).at(&directory)?;
        bench.cool();
        let content = Random::new(9).bytes(SPLIT_WRITE);
        let case = format!("{files} files each");
        measure(
            bench,
            &Name {
                figure: "split",
                case: &case,
                unit: "s",
            },
            4,
            |index, tally| {
                for file in 0..files {
                    let path = directory.join(format!("c{index}_{file}"));
                    tally.time(1.0, || write_file(&path, mb * 1_000_000 / files, &content));
                }
                let handle = fs::File::open(&directory).at(&directory)?;
                rustix::fs::syncfs(&handle)
                    .map_err(std::io::Error::from)
                    .at(&directory)
            },
        )?;
        fs::remove_dir_all(&directory).at(&directory)?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: usize, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(path)?;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(content.len());
        file.write_all(&content[..now])?;
        left -= now;
    }
    Ok(())
}
