//! Names: creating, looking up, listing, renaming, removing, and small files.

use crate::random::Random;
use crate::workers::{Name, Tally, measure};
use crate::{At, Bench, BenchError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of a small file.
const SMALL_FILE: usize = 4096;

/// How many files.
#[derive(Clone, Debug)]
pub struct MetaPlan {
    /// Files for each process.
    pub files: usize,
    /// Numbers of workers at once, each in a directory of its own.
    pub workers: Vec<usize>,
    /// Small files written and read.
    pub small_files: usize,
}

impl Default for MetaPlan {
    fn default() -> MetaPlan {
        MetaPlan {
            files: 5000,
            workers: vec![1, 4],
            small_files: 2000,
        }
    }
}

fn path(directory: &Path, worker: usize, prefix: &str, index: usize) -> PathBuf {
    directory
        .join(format!("w{worker}"))
        .join(format!("{prefix}{index}"))
}

type Step<'a> = (
    &'a str,
    bool,
    &'a (dyn Fn(usize, &mut Tally) -> Result<(), BenchError> + Sync),
);

/// Creates, cold and hot lookups, listing, renames, removals, directories; small files.
///
/// # Errors
/// If the directories cannot be prepared.
pub fn run_meta(bench: &mut Bench<'_>, plan: &MetaPlan) -> Result<(), BenchError> {
    let directory = bench.directory.join("weft-bench-meta");
    fs::create_dir_all(&directory).at(&directory)?;
    let result = plan
        .workers
        .iter()
        .try_for_each(|&workers| names(bench, plan, workers, &directory))
        .and_then(|()| small_files(bench, plan, &directory));
    fs::remove_dir_all(&directory).at(&directory)?;
    result
}

fn names(
    bench: &mut Bench<'_>,
    plan: &MetaPlan,
    workers: usize,
    directory: &Path,
) -> Result<(), BenchError> {
    for worker in 0..workers {
        let own = directory.join(format!("w{worker}"));
        fs::create_dir_all(&own).at(&own)?;
    }
    let files = plan.files;
    let each = |tally: &mut Tally, operation: &dyn Fn(usize) -> io::Result<()>| {
        for index in 0..files {
            tally.time(1.0, || operation(index));
        }
        Ok(())
    };
    let at = |worker, prefix, index| path(directory, worker, prefix, index);
    let create = |worker, tally: &mut Tally| {
        each(tally, &|index| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(at(worker, "f", index))
                .map(drop)
        })
    };
    let stat = |worker, tally: &mut Tally| {
        each(tally, &|index| {
            fs::metadata(at(worker, "f", index)).map(drop)
        })
    };
    let readdir = |worker: usize, tally: &mut Tally| {
        let own = directory.join(format!("w{worker}"));
        let listed = tally.time(files as f64, || -> io::Result<()> {
            let found = fs::read_dir(&own)?.collect::<io::Result<Vec<_>>>()?.len();
            if found == files {
                Ok(())
            } else {
                Err(io::Error::other("entries are missing"))
            }
        });
        listed.map_or_else(
            || {
                Err(BenchError::Program(format!(
                    "{}: listing failed",
                    own.display()
                )))
            },
            Ok,
        )
    };
    let rename = |worker, tally: &mut Tally| {
        each(tally, &|index| {
            fs::rename(at(worker, "f", index), at(worker, "g", index))
        })
    };
    let unlink =
        |worker, tally: &mut Tally| each(tally, &|index| fs::remove_file(at(worker, "g", index)));
    let mkdir =
        |worker, tally: &mut Tally| each(tally, &|index| fs::create_dir(at(worker, "d", index)));
    let rmdir =
        |worker, tally: &mut Tally| each(tally, &|index| fs::remove_dir(at(worker, "d", index)));
    let steps: [Step<'_>; 8] = [
        ("create", false, &create),
        ("stat_hot", false, &stat),
        ("stat_cold", true, &stat),
        ("readdir", true, &readdir),
        ("rename", false, &rename),
        ("unlink", false, &unlink),
        ("mkdir", false, &mkdir),
        ("rmdir", false, &rmdir),
    ];
    let case = format!("{workers} at once");
    for (figure, cold, step) in steps {
        if cold {
            bench.cool();
        }
        measure(
            bench,
            &Name {
                figure,
                case: &case,
                unit: "op/s",
            },
            workers,
            step,
        )?;
    }
    for worker in 0..workers {
        let own = directory.join(format!("w{worker}"));
        fs::remove_dir(&own).at(&own)?;
    }
    Ok(())
}

fn small_files(bench: &mut Bench<'_>, plan: &MetaPlan, directory: &Path) -> Result<(), BenchError> {
    let content = Random::new(4).bytes(SMALL_FILE);
    let name = |index: usize| directory.join(format!("s{index}"));
    measure(
        bench,
        &Name {
            figure: "small_write",
            case: "4 KiB",
            unit: "file/s",
        },
        1,
        |_, tally| {
            for index in 0..plan.small_files {
                tally.time(1.0, || File::create(name(index))?.write_all(&content));
            }
            Ok(())
        },
    )?;
    bench.cool();
    measure(
        bench,
        &Name {
            figure: "small_read",
            case: "4 KiB",
            unit: "file/s",
        },
        1,
        |_, tally| {
            let mut buffer = Vec::with_capacity(SMALL_FILE);
            for index in 0..plan.small_files {
                buffer.clear();
                tally.time(1.0, || -> io::Result<()> {
                    File::open(name(index))?.read_to_end(&mut buffer)?;
                    if buffer == content {
                        Ok(())
                    } else {
                        Err(io::Error::other("another content"))
                    }
                });
            }
            Ok(())
        },
    )
}
