//! Files move from pair to pair while they are written, and while what moves them dies.
//!
//! Left out, with a plain message, where nothing can be mounted. Everything that is started is ended
//! by its id; everything that is written lies in a temporary directory.

use crate::support;
use crate::support::{Dev, Process, WEFT, can_mount};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing below may wait this long.
const LONG: Duration = Duration::from_secs(180);

fn until(what: &str, dev: &Dev, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        if Instant::now() >= deadline {
            let status = dev.tool(&["pair", "status"]);
            let status = String::from_utf8_lossy(&status.stdout).into_owned();
            panic!("never: {what}\n{status}\n{}", dev.logs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes that only this place of this file has, in this round.
fn content(file: u64, round: u64, length: usize) -> Vec<u8> {
    let mut state =
        file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Writes blocks of one file all the time, and knows what it should hold.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(PathBuf, Vec<u8>, u64)>,
}

const BLOCK: usize = 32 << 10;

impl Writer {
    fn start(path: PathBuf, number: u64, blocks: u64) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            let mut expected = vec![0; BLOCK * blocks as usize];
            file.write_all_at(&expected, 0).unwrap();
            let mut round = 0;
            while !told.load(Ordering::Relaxed) {
                round += 1;
                let at = (round * 7 % blocks) as usize * BLOCK;
                let bytes = content(number, round, BLOCK);
                file.write_all_at(&bytes, at as u64).unwrap();
                expected[at..at + BLOCK].copy_from_slice(&bytes);
                if round % 16 == 0 {
                    file.sync_all().unwrap();
                    // What it has written it reads, wherever that lies by now.
                    let mut found = vec![0; BLOCK];
                    file.read_exact_at(&mut found, at as u64).unwrap();
                    assert!(found == bytes, "round {round} of {}", path.display());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            file.sync_all().unwrap();
            (path, expected, round)
        });
        Writer { stop, thread }
    }

    /// Stops it: its file, and what that must hold.
    fn end(self) -> (PathBuf, Vec<u8>) {
        self.stop.store(true, Ordering::Relaxed);
        let (path, expected, rounds) = self.thread.join().unwrap();
        assert!(rounds > 20, "only {rounds} writes to {}", path.display());
        (path, expected)
    }
}

/// Gives orders to `weft dev` from a process of its own that has no file of the mount open: a child of
/// this one closes all of them when it begins, and each close waits for the servers that it is to start.
struct Orders {
    process: Process,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
    directory: PathBuf,
}

impl Orders {
    fn new(dev: &Dev) -> Orders {
        let mut shell = std::process::Command::new("sh");
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process(shell.spawn().unwrap());
        let answers = BufReader::new(process.0.stdout.take().unwrap()).lines();
        Orders {
            process,
            answers,
            directory: dev.directory.clone(),
        }
    }

    fn give(&mut self, order: &str, name: &str) {
        let directory = self.directory.display();
        let line = format!("{WEFT} dev {order} {name} --dir {directory} >&2; echo $?\n");
        let stdin = self.process.0.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        assert_eq!(self.answers.next().unwrap().unwrap(), "0", "{order} {name}");
    }
}

struct Tree {
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Tree {
    /// Small files, some larger ones, one with holes, one with two names.
    fn make(root: &Path) -> Tree {
        let mut files = Vec::new();
        for directory in 0..4 {
            let below = root.join(format!("d{directory}"));
            fs::create_dir(&below).unwrap();
            for file in 0..12_u64 {
                let path = below.join(format!("f{file}"));
                let length = match file {
                    0..4 => 5 << 20,
                    4 => 0,
                    _ => 1_000 + 7_919 * file as usize,
                };
                let bytes = content(directory * 100 + file, 0, length);
                fs::write(&path, &bytes).unwrap();
                files.push((path, bytes));
            }
        }
        let path = root.join("holes");
        let sparse = File::create(&path).unwrap();
        let mut bytes = vec![0; 9 << 20];
        for at in [0, 3 << 20, 8 << 20] {
            let part = content(at as u64, 1, 10_000);
            sparse.write_all_at(&part, at as u64).unwrap();
            bytes[at..at + 10_000].copy_from_slice(&part);
        }
        sparse.set_len(bytes.len() as u64).unwrap();
        sparse.sync_all().unwrap();
        fs::hard_link(&path, root.join("holes too")).unwrap();
        files.push((path, bytes));
        Tree { files }
    }

    fn check(&self) {
        for (path, expected) in &self.files {
            let found = fs::read(path).unwrap();
            assert_eq!(found.len(), expected.len(), "{}", path.display());
            assert!(
                found == *expected,
                "{} holds something else",
                path.display()
            );
        }
    }
}

/// The pairs that a file lies on.
fn pairs_of(dev: &Dev, path: &Path) -> Vec<u64> {
    let output = std::process::Command::new(support::WEFT)
        .args(["explain", "--json"])
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{error}: {text}{said}\n{}", dev.logs())
    });
    let pairs = json["layout"]["pairs"]
        .as_array()
        .unwrap_or_else(|| panic!("{json}"));
    pairs.iter().map(|pair| pair.as_u64().unwrap()).collect()
}

fn jobs(dev: &Dev) -> Vec<serde_json::Value> {
    let text = dev.tool(&["pair", "status", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    json["jobs"].as_array().cloned().unwrap_or_default()
}

fn has_pair(dev: &Dev, pair: u64) -> bool {
    let text = dev.tool(&["pair", "status", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    match json["pairs"].as_array() {
        Some(pairs) => pairs.iter().any(|one| one["pair"] == pair),
        None => true,
    }
}

#[test]
fn a_pair_is_drained_under_writes_while_servers_and_movers_die() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("mnt");
    let mount = root.to_str().unwrap().to_owned();
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--pairs", "3", "--mount", &mount],
    );
    let mut orders = Orders::new(&dev);
    let tree = Tree::make(&root);
    let writers: Vec<Writer> = (0..3)
        .map(|n| Writer::start(root.join(format!("written {n}")), 1_000 + n, 40 * (n + 1)))
        .collect();
    let orphan = root.join("orphan");
    let orphaned = content(77, 0, 300_000);
    fs::write(&orphan, &orphaned).unwrap();
    let open = File::open(&orphan).unwrap();
    fs::remove_file(&orphan).unwrap();

    dev.done(&["pair", "drain", "1"]);
    assert!(!dev.tool(&["pair", "drain", "1"]).status.success());
    until("something has been moved", &dev, || {
        jobs(&dev)
            .iter()
            .any(|job| job["files_moved"].as_u64() > Some(0))
    });
    // Each data server is a mover, too.
    for victim in ["data:0.1", "active", "data:2.0", "data:1.0"] {
        std::thread::sleep(Duration::from_millis(300));
        orders.give("kill", victim);
        std::thread::sleep(Duration::from_millis(300));
        orders.give("start", victim);
    }
    until("the pair is gone", &dev, || !has_pair(&dev, 1));
    assert!(jobs(&dev).iter().all(|job| job["state"] == "done"));

    for writer in writers {
        let (path, expected) = writer.end();
        let found = fs::read(&path).unwrap();
        assert!(found == expected, "{} holds something else", path.display());
        assert!(!pairs_of(&dev, &path).contains(&1));
    }
    tree.check();
    for (path, _) in &tree.files {
        assert!(!pairs_of(&dev, path).contains(&1), "{}", path.display());
    }
    let mut found = vec![0; orphaned.len()];
    open.read_exact_at(&mut found, 0).unwrap();
    assert!(found == orphaned);
    // Its servers run on, and are told that they are not wanted; nothing is left on their disks.
    for member in ["data-1.0", "data-1.1"] {
        let objects = dev.directory.join(member).join("objects");
        assert_eq!(count_files(&objects), 0, "{}", objects.display());
    }
    fs::write(root.join("new"), b"new").unwrap();
    assert!(!pairs_of(&dev, &root.join("new")).contains(&1));
    dev.done(&["fsck", "--data", "--wait", "60"]);

    // It may come back, empty.
    assert!(dev.done(&["pair", "add", "1"]).contains("member = 0"));
    until("the pair is back", &dev, || has_pair(&dev, 1));
    dev.done(&["rebalance", "--wait", "--within", "10"]);
    tree.check();
    let back = tree
        .files
        .iter()
        .filter(|(path, _)| pairs_of(&dev, path).contains(&1));
    assert!(back.count() > 0, "nothing came back");
    dev.end();
}

fn count_files(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { count_files(&path) } else { 1 }
        })
        .sum()
}

#[test]
fn a_tree_is_laid_out_anew() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("mnt");
    let mount = root.to_str().unwrap().to_owned();
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--pairs", "2", "--mount", &mount],
    );
    let tree = Tree::make(&root);
    let outside = root.join("d1/f0");
    let before = pairs_of(&dev, &outside);
    let writer = Writer::start(root.join("d0/written"), 5, 30);
    let set = |arguments: &[&str]| {
        let output = std::process::Command::new(support::WEFT)
            .args(["policy", "set"])
            .arg(root.join("d0"))
            .args(arguments)
            .args(["--recursive", "--wait"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}\n{}", dev.logs());
    };
    set(&["--width", "1", "--stripe-unit", "64K"]);
    assert_eq!(pairs_of(&dev, &root.join("d0/f0")).len(), 1);
    assert_eq!(pairs_of(&dev, &root.join("d0/written")).len(), 1);
    assert_eq!(pairs_of(&dev, &outside), before);
    tree.check();
    // Nothing is copied for another protocol.
    set(&["--protocol", "client-sync"]);
    let last = jobs(&dev).pop().unwrap();
    assert_eq!(last["bytes_moved"], 0, "{last}");
    assert!(last["files_moved"].as_u64() > Some(5), "{last}");
    set(&["--width", "2", "--stripe-unit", "1M"]);
    assert_eq!(pairs_of(&dev, &root.join("d0/f0")).len(), 2);
    let (path, expected) = writer.end();
    assert!(fs::read(&path).unwrap() == expected);
    tree.check();
    // A member gets another store.
    let goes_on_with_one = || {
        until("the pair goes on with one member", &dev, || {
            let status = dev.done(&["status"]);
            status.contains("only 0") && status.contains("is being replaced")
        });
    };
    let replace = ["pair", "replace", "0", "--member", "1"];
    let cancel = [&replace[..], &["--cancel"]].concat();
    assert!(!dev.tool(&cancel).status.success(), "nothing to take back");
    dev.done(&replace);
    goes_on_with_one();
    dev.done(&cancel);
    until("its store is taken back", &dev, || {
        let status = dev.done(&["status"]);
        !status.contains("only 0") && !status.contains("recovering")
    });
    dev.done(&replace);
    goes_on_with_one();
    // The order is remembered, and the server refused when it comes again.
    for order in ["kill", "start"] {
        dev.done(&["dev", order, "active"]);
    }
    std::thread::sleep(Duration::from_secs(2));
    goes_on_with_one();
    // It would lose what only member 0 has.
    assert!(
        !dev.tool(&["pair", "replace", "0", "--member", "0"])
            .status
            .success()
    );
    for order in ["kill", "wipe", "start"] {
        dev.done(&["dev", order, "data:0.1"]);
    }
    tree.check();
    dev.done(&["fsck", "--data", "--wait", "60"]);
    dev.end();
}
