//! A busy node is not a failed one: the machine does all that it can for a long time (streams and small files on a mount,
//! all servers on the same processors and disk), nothing fails, and no active is to step down.

use super::{BENCH, Setting, add, at_most};
use crate::bench::report::Line;
use crate::cluster::Cluster;
use crate::run::Outcome;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that write large files and read them back.
const STREAMS: usize = 2;
/// Threads that make, rename, read and remove small ones.
const SMALL: usize = 3;
/// MiB of a large file. It is synced, read back and written again.
const LARGE_MIB: usize = 256;
const MIB: usize = 1 << 20;
/// Small files in a directory at a time.
const FILES: usize = 200;
/// Bytes of a small file.
const SMALL_BYTES: usize = 4096;
/// How often the service is asked who leads.
const LOOK: Duration = Duration::from_secs(2);
/// So many looks in a row may fail; a busy machine is slow to start a tool.
const BLIND_MAX: u32 = 30;

/// What was done.
#[derive(Default)]
struct Done {
    mib: AtomicU64,
    syncs: AtomicU64,
    files: AtomicU64,
}

/// Loads the machine for so many minutes.
///
/// # Errors
/// If the cluster does not come up, an operation on the mount fails, or a file comes back different.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let directory = tempfile::Builder::new()
        .prefix("weft-load-")
        .tempdir_in(&setting.parent)
        .map_err(|error| format!("no directory in {}: {error}", setting.parent.display()))?;
    let mount = directory.path().join("mount");
    fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
    let (members, sync) = (options.members.to_string(), options.sync.to_string());
    let more = [
        "--pairs",
        "2",
        "--members",
        &members,
        "--journal-sync",
        &sync,
    ];
    let cluster = Cluster::up(
        &setting.weft,
        &directory.path().join("cluster"),
        &mount,
        &more,
    )?;
    let first = epoch(&cluster).ok_or("nobody says who leads")?;
    let (done, stop) = (Done::default(), AtomicBool::new(false));
    let length = Duration::from_secs(60 * options.minutes);
    let begun = Instant::now();
    let watched = thread::scope(|scope| {
        let streams = (0..STREAMS).map(|index| {
            let (mount, done, stop) = (&mount, &done, &stop);
            scope.spawn(move || stream(mount, index, done, stop))
        });
        let streams: Vec<_> = streams.collect();
        let small = (0..SMALL).map(|index| {
            let (mount, done, stop) = (&mount, &done, &stop);
            scope.spawn(move || small_files(mount, index, done, stop))
        });
        let workers: Vec<_> = streams.into_iter().chain(small).collect();
        let watched = watch(&cluster, begun + length, || {
            workers.iter().any(|worker| worker.is_finished())
        });
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            let ended = worker.join().map_err(|_| "a thread panicked".to_owned())?;
            ended.map_err(|error| format!("on the mount: {error}"))?;
        }
        watched
    });
    let lasted = begun.elapsed().as_secs_f64();
    cluster.down()?;
    let last = watched?;
    let case = format!("{:.0} min", lasted / 60.0);
    let line = |figure: &str, value: f64, unit: &str| {
        Line::of(BENCH, "full load", figure, &case, value, unit)
    };
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
    add(lines, line("written", count(&done.mib) / lasted, "MiB/s"))?;
    add(lines, line("syncs", count(&done.syncs), "times"))?;
    add(
        lines,
        line("small files", count(&done.files) / lasted, "files/s"),
    )?;
    // The first of them, and one more for each step-down.
    let reigns = line("reigns", (last - first + 1) as f64, "reigns");
    add(lines, reigns.clone())?;
    add(lines, at_most(&reigns, 1.0))
}

/// Looks on until the end, or until a thread has ended, which none does unless it fails. The last epoch.
fn watch(cluster: &Cluster, end: Instant, has_failed: impl Fn() -> bool) -> Result<u64, String> {
    let (mut known, mut blind) = (None, 0);
    while Instant::now() < end && !has_failed() {
        thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        match epoch(cluster) {
            Some(now) => {
                if known.is_some_and(|before| before != now) {
                    println!("epoch {now}: an active has stepped down");
                }
                (known, blind) = (Some(now), 0);
            }
            None if blind == BLIND_MAX => return Err("nobody has said who leads for long".into()),
            None => blind += 1,
        }
    }
    let last = epoch(cluster).or(known);
    last.ok_or_else(|| "nobody has said who leads".into())
}

/// Each time that another member, or the same one again, leads the first group, its epoch is another one.
fn epoch(cluster: &Cluster) -> Option<u64> {
    epoch_of(&cluster.status()?)
}

fn epoch_of(status: &Value) -> Option<u64> {
    status["epoch"].as_u64()
}

/// Different in each MiB of each round.
fn pattern(index: usize, round: u64, at: usize) -> u8 {
    (index as u64 + 3 * round + 7 * at as u64 + 1) as u8
}

fn stream(mount: &Path, index: usize, done: &Done, stop: &AtomicBool) -> io::Result<()> {
    let path = mount.join(format!("stream{index}"));
    let mut block = vec![0; MIB];
    for round in 0.. {
        let mut file = File::create(&path)?;
        for at in 0..LARGE_MIB {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            block.fill(pattern(index, round, at));
            file.write_all(&block)?;
            done.mib.fetch_add(1, Ordering::Relaxed);
        }
        file.sync_all()?;
        done.syncs.fetch_add(1, Ordering::Relaxed);
        let mut file = File::open(&path)?;
        for at in 0..LARGE_MIB {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            file.read_exact(&mut block)?;
            let wanted = pattern(index, round, at);
            if let Some(place) = block.iter().position(|byte| *byte != wanted) {
                let place = at * MIB + place;
                return Err(io::Error::other(format!(
                    "{}: another byte at {place} than was written",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

fn small_files(mount: &Path, index: usize, done: &Done, stop: &AtomicBool) -> io::Result<()> {
    for round in 0_u64.. {
        let directory = mount.join(format!("small{index}.{round}"));
        fs::create_dir(&directory)?;
        let content = vec![pattern(index, round, 0); SMALL_BYTES];
        for at in 0..FILES {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (part, whole) = (
                directory.join(format!("{at}.part")),
                directory.join(at.to_string()),
            );
            fs::write(&part, &content)?;
            fs::rename(&part, &whole)?;
            done.files.fetch_add(1, Ordering::Relaxed);
        }
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if fs::read(&path)? != content {
                let path = path.display();
                return Err(io::Error::other(format!("{path}: not what was written")));
            }
        }
        fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_epoch_is_the_services() {
        assert_eq!(epoch_of(&json!({ "epoch": 7 })), Some(7));
        assert_eq!(epoch_of(&json!({ "pairs": [] })), None);
    }

    #[test]
    fn a_threads_work_ends_when_it_is_told_and_leaves_what_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let (done, stop) = (Done::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let small = scope.spawn(|| small_files(directory.path(), 0, &done, &stop));
            while done.files.load(Ordering::Relaxed) < 2 * FILES as u64 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            small.join().unwrap().unwrap();
        });
        assert!(!directory.path().join("small0.0").exists());
    }
}
