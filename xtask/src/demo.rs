//! `cargo xtask demo`: what Weft is for, on real input, with failures in the middle.
//!
//! A source tree of several thousand files (the vendored dependencies of this workspace) is unpacked and
//! built, first in a plain directory, then at the same path on a mount of a cluster of two pairs. In
//! the middle of the second run one data server of each pair is killed (SIGKILL) and started
//! again. Then the whole cluster is ended and brought back, every file is compared with the first
//! run, and both copies of everything with each other.

use crate::cluster::{Cluster, build_weft, cannot_mount};
use crate::run::{Outcome, cargo, root};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a killed data server stays away.
const AWAY: Duration = Duration::from_secs(4);
/// How long the pair may take to have two equal copies again.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(120);
/// Between two writes of the probe.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// The largest stripe unit: writes this far apart fall on every pair in turn, whatever the policy.
const PROBE_STRIDE: u64 = 1 << 20;
/// Places that the probe writes to, in turn.
const PROBE_PLACES: u64 = 4;

/// Runs it; `keep` leaves the files.
pub fn demo(keep: bool) -> Outcome {
    if let Some(why) = cannot_mount() {
        return Err(format!("the demonstration mounts a file system, and {why}"));
    }
    let start = Instant::now();
    let weft = build_weft()?;
    let base = root().join("target/demo");
    let mount = base.join("job");
    if base.exists() {
        remove(&base)?;
    }
    fs::create_dir_all(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
    say("collecting the sources of this workspace's dependencies (cargo vendor)");
    let tar = pack_sources(&base)?;

    say("first run: unpack and build in a plain directory");
    let (unpacked, built) = job(&tar, &mount, &|| {})?;
    println!("   unpacked in {unpacked:.1} s, built in {built:.1} s");
    let expected = checksums(&mount)?;
    println!(
        "   {} files, {} MiB",
        expected.files.len(),
        expected.bytes >> 20
    );
    fs::rename(&mount, base.join("local")).map_err(|error| error.to_string())?;
    fs::create_dir_all(&mount).map_err(|error| error.to_string())?;

    say(
        "second run: the same at the same path, on a cluster of 2 pairs, killing one data server of each",
    );
    let cluster = Cluster::up(&weft, &base.join("cluster"), &mount, &["--pairs", "2"])?;
    let probe = Probe::start(&mount)?;
    let disturbance = Disturbance::default();
    let job_runs = AtomicBool::new(true);
    let (outcome, disturbed) = std::thread::scope(|scope| {
        let disturber = scope.spawn(|| disturb(&cluster, &probe, &disturbance, &job_runs));
        let outcome = job(&tar, &mount, &|| {
            disturbance.go.store(true, Ordering::Release)
        });
        job_runs.store(false, Ordering::Release);
        disturbance.go.store(true, Ordering::Release);
        (outcome, disturber.join())
    });
    let (unpacked, built) = outcome?;
    println!("   unpacked in {unpacked:.1} s, built in {built:.1} s");
    let pauses = disturbed.map_err(|_| "the disturber panicked".to_owned())??;
    let probe = probe.stop()?;
    for kill in &pauses {
        println!("   {}", kill.in_words(&probe));
    }
    println!(
        "   otherwise the probe's synchronous 4 KiB writes took {:.1} ms (median of {})",
        probe.median().as_secs_f64() * 1e3,
        probe.writes.len()
    );

    say("comparing both copies of everything (weft fsck --data)");
    fsck(&cluster)?;
    say("ending the whole cluster and bringing it back");
    cluster.down()?;
    let cluster = Cluster::up(&weft, &base.join("cluster"), &mount, &[])?;
    say("comparing every file with the first run");
    let found = checksums(&mount)?;
    compare(&expected, &found)?;
    println!(
        "   {} files, {} MiB: all checksums equal",
        found.files.len(),
        found.bytes >> 20
    );
    fsck(&cluster)?;
    cluster.down()?;
    if keep {
        println!("   kept: {}", base.display());
    } else {
        remove(&base)?;
    }
    println!(
        "\nNothing was lost: {} kills, {} files equal, both copies equal. {:.0} s in all.",
        pauses.len(),
        found.files.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn say(what: &str) {
    println!("-- {what}");
}

fn remove(directory: &Path) -> Outcome {
    // What a demonstration that was killed left mounted.
    let _: std::io::Result<_> = Command::new("fusermount3")
        .arg("-uz")
        .arg(directory.join("job"))
        .stderr(Stdio::null())
        .status();
    fs::remove_dir_all(directory)
        .map_err(|error| format!("cannot remove {}: {error}", directory.display()))
}

fn checked(command: &mut Command, what: &str) -> Outcome {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{what}: cannot start {:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = text.lines().rev().take(30).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(format!("{what}: {}\n{}", output.status, tail.join("\n")))
}

/// A tar with the vendored sources and a program that is built from them.
fn pack_sources(base: &Path) -> Result<PathBuf, String> {
    let sources = base.join("sources");
    let program = sources.join("program/src");
    fs::create_dir_all(&program).map_err(|error| error.to_string())?;
    checked(
        cargo()
            .args(["vendor", "--locked", "--versioned-dirs", "--quiet"])
            .arg(sources.join("vendor")),
        "cargo vendor",
    )?;
    let write = |name: &str, text: &str| {
        fs::write(sources.join("program").join(name), text).map_err(|error| error.to_string())
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nclap = { version = \"4\", features = [\"derive\"] }\nregex = \"1\"\nserde_json = \"1\"\n\
         tokio = { version = \"1\", features = [\"rt\", \"net\", \"io-util\", \"sync\", \"time\"] }\ntoml = \"1\"\n",
    )?;
    write(
        "src/main.rs",
        "//! Built by the demonstration.\nfn main() {\n    \
         let value: toml::Value = toml::from_str(\"cloth = ['warp', 'weft']\").unwrap();\n    \
         println!(\"{}\", serde_json::to_string(&value).unwrap());\n}\n",
    )?;
    fs::create_dir_all(sources.join("program/.cargo")).map_err(|error| error.to_string())?;
    write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"../vendor\"\n",
    )?;
    // The versions that this workspace has, which are the ones that were vendored.
    fs::copy(
        root().join("Cargo.lock"),
        sources.join("program/Cargo.lock"),
    )
    .map_err(|error| error.to_string())?;
    let tar = base.join("sources.tar");
    checked(
        Command::new("tar")
            .arg("cf")
            .arg(&tar)
            .arg("-C")
            .arg(&sources)
            .arg("."),
        "tar",
    )?;
    fs::remove_dir_all(&sources).map_err(|error| error.to_string())?;
    Ok(tar)
}

/// Unpacks and builds; seconds of both. `begun` is called when the unpacking has begun.
fn job(tar: &Path, directory: &Path, begun: &dyn Fn()) -> Result<(f64, f64), String> {
    let start = Instant::now();
    begun();
    checked(
        Command::new("tar")
            .arg("xf")
            .arg(tar)
            .arg("--no-same-owner")
            .arg("-C")
            .arg(directory),
        "unpacking",
    )?;
    let unpacked = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut build = cargo();
    build
        .current_dir(directory.join("program"))
        .args(["build", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", directory.join("target"))
        .env("CARGO_INCREMENTAL", "0");
    checked(&mut build, "building")?;
    let program = directory.join("target/debug/program");
    let output = Command::new(&program)
        .output()
        .map_err(|error| format!("the program that was built does not start: {error}"))?;
    if output.stdout != b"{\"cloth\":[\"warp\",\"weft\"]}\n" {
        return Err("the program that was built prints something else".into());
    }
    Ok((unpacked, start.elapsed().as_secs_f64()))
}

#[derive(Default)]
struct Disturbance {
    go: AtomicBool,
}

/// A data server that was killed and came back.
struct Kill {
    name: String,
    at: Instant,
    back: Instant,
    whole_after: Duration,
    while_working: bool,
}

impl Kill {
    fn in_words(&self, probe: &Probed) -> String {
        let killed = probe.longest(self.at, self.back);
        let back = probe.longest(self.back, self.back + self.whole_after);
        format!(
            "{} killed{}: I/O paused {:.0} ms; started again {:.1} s later (longest write {:.0} ms), both copies equal {:.1} s after that",
            self.name,
            if self.while_working {
                ""
            } else {
                " (the job was over already)"
            },
            killed.as_secs_f64() * 1e3,
            (self.back - self.at).as_secs_f64(),
            back.as_secs_f64() * 1e3,
            self.whole_after.as_secs_f64()
        )
    }
}

fn disturb(
    cluster: &Cluster,
    probe: &Probe,
    disturbance: &Disturbance,
    job_runs: &AtomicBool,
) -> Result<Vec<Kill>, String> {
    while !disturbance.go.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut kills = Vec::new();
    for name in ["data:0.0", "data:1.1"] {
        let pair = if name.starts_with("data:0") { 0 } else { 1 };
        let while_working = job_runs.load(Ordering::Acquire);
        let at = Instant::now();
        cluster.order("kill", name)?;
        std::thread::sleep(AWAY);
        let back = Instant::now();
        cluster.order("start", name)?;
        cluster.wait_both(pair, RECOVERY_PATIENCE)?;
        kills.push(Kill {
            name: name.to_owned(),
            at,
            back,
            whole_after: back.elapsed(),
            while_working,
        });
        if probe.failed() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(kills)
}

/// Writes 4 KiB synchronously, over and over, to places on all pairs.
struct Probe {
    stop: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    thread: std::thread::JoinHandle<Vec<(Instant, Duration)>>,
    path: PathBuf,
}

/// What the probe saw: when each write began and how long it took.
struct Probed {
    writes: Vec<(Instant, Duration)>,
}

impl Probe {
    fn start(mount: &Path) -> Result<Probe, String> {
        let path = mount.join("probe");
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_DSYNC)
            .open(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let (stop, failure) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (stopped, failed) = (stop.clone(), failure.clone());
        let thread = std::thread::spawn(move || {
            let mut writes = Vec::new();
            let mut count = 0u64;
            while !stopped.load(Ordering::Acquire) {
                let block = count.to_le_bytes().repeat(512);
                let start = Instant::now();
                let place = count % PROBE_PLACES * PROBE_STRIDE;
                if let Err(error) = file.write_all_at(&block, place) {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Some(error.to_string());
                    }
                    break;
                }
                writes.push((start, start.elapsed()));
                count += 1;
                std::thread::sleep(PROBE_EVERY);
            }
            writes
        });
        Ok(Probe {
            stop,
            failure,
            thread,
            path,
        })
    }

    fn failed(&self) -> bool {
        self.failure.lock().is_ok_and(|failure| failure.is_some())
    }

    fn stop(self) -> Result<Probed, String> {
        self.stop.store(true, Ordering::Release);
        let writes = self.thread.join().map_err(|_| "the probe panicked")?;
        if let Ok(failure) = self.failure.lock()
            && let Some(failure) = &*failure
        {
            return Err(format!("a write of the probe failed: {failure}"));
        }
        fs::remove_file(&self.path).map_err(|error| error.to_string())?;
        if writes.is_empty() {
            return Err("the probe wrote nothing".into());
        }
        Ok(Probed { writes })
    }
}

impl Probed {
    /// The longest write that was under way between two moments.
    fn longest(&self, from: Instant, to: Instant) -> Duration {
        self.writes
            .iter()
            .filter(|(start, took)| *start < to && *start + *took > from)
            .map(|(_, took)| *took)
            .max()
            .unwrap_or_default()
    }

    fn median(&self) -> Duration {
        let mut all: Vec<Duration> = self.writes.iter().map(|(_, took)| *took).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }
}

/// What cargo writes in whatever order its hash table has: two builds on one local directory differ in
/// it, too.
const UNORDERED: &str = ".rustc_info.json";

#[derive(Default)]
struct Checksums {
    files: BTreeMap<PathBuf, [u8; 32]>,
    bytes: u64,
}

/// SHA-256 of every file below but [`UNORDERED`]; symbolic links by where they point.
fn checksums(top: &Path) -> Result<Checksums, String> {
    let mut sums = Checksums::default();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            if entry.file_name() == UNORDERED {
                continue;
            }
            let mut hash = Sha256::new();
            if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(failed)?;
                hash.update(target.as_os_str().as_encoded_bytes());
            } else {
                let mut file = fs::File::open(&path).map_err(failed)?;
                let mut buffer = vec![0; 1 << 20];
                loop {
                    let got = file
                        .read(&mut buffer)
                        .map_err(|error| format!("{}: {error}", path.display()))?;
                    if got == 0 {
                        break;
                    }
                    sums.bytes += got as u64;
                    hash.update(&buffer[..got]);
                }
            }
            let name = path.strip_prefix(top).unwrap_or(&path).to_owned();
            sums.files.insert(name, hash.finalize().into());
        }
    }
    Ok(sums)
}

fn compare(expected: &Checksums, found: &Checksums) -> Outcome {
    let mut wrong = Vec::new();
    for (path, sum) in &expected.files {
        match found.files.get(path) {
            None => wrong.push(format!("{} is missing", path.display())),
            Some(other) if other != sum => wrong.push(format!("{} differs", path.display())),
            Some(_) => {}
        }
    }
    for path in found.files.keys() {
        if !expected.files.contains_key(path) {
            wrong.push(format!("{} is new", path.display()));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let count = wrong.len();
    wrong.truncate(20);
    Err(format!(
        "{count} files are not as in the first run:\n{}",
        wrong.join("\n")
    ))
}

fn fsck(cluster: &Cluster) -> Outcome {
    let mut command = cluster.tool(&["fsck", "--data", "--wait", "120"]);
    let output = command.output().map_err(|error| error.to_string())?;
    let mut out = std::io::stdout();
    out.write_all(b"   ")
        .and_then(|()| out.write_all(&output.stdout))
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "weft fsck: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}
