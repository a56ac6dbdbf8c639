//! A real cluster of two groups, mounted: a directory is spread while files are made, renamed, listed and removed in
//! it, and a metadata server is killed meanwhile.

use crate::support::{Dev, Stopping, can_mount};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Files that are there all the time: several steps of a split.
const STAY: usize = 1_500;
/// All of them have gone to the shards by then.
const SPLIT_WITHIN: Duration = Duration::from_secs(120);

/// Makes, renames, lists and removes until it is told to stop.
fn work(dir: &Path, number: u64, stop: &AtomicBool, rounds: &AtomicU64) {
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let text = format!("{number} in round {round}");
        let (name, moved) = (
            dir.join(format!("w{number}")),
            dir.join(format!("m{number}.{round}")),
        );
        fs::write(&name, &text).unwrap();
        fs::rename(&name, &moved).unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), text);
        let below = dir.join(format!("d{number}.{round}"));
        fs::create_dir(&below).unwrap();
        assert_eq!(
            below.join("..").metadata().unwrap().ino(),
            dir.metadata().unwrap().ino()
        );
        fs::remove_dir(&below).unwrap();
        if round.is_multiple_of(5) {
            stay(dir);
        }
        fs::remove_file(&moved).unwrap();
        assert!(!moved.exists());
        round += 1;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is there all the time is listed, each name once.
fn stay(dir: &Path) {
    let names = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let stay: Vec<_> = names
        .filter(|name| name.to_str().unwrap().starts_with("stay"))
        .collect();
    assert_eq!(stay.len(), STAY);
    assert_eq!(stay.iter().collect::<BTreeSet<_>>().len(), STAY);
}

/// Runs a tool that finds the cluster by a path. Answers whether it succeeded, and what it printed.
fn weft(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(arguments)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

fn explained(path: &str) -> Value {
    let (is_done, text) = weft(&["explain", path, "--json"]);
    assert!(is_done, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_directory_is_spread_while_files_in_it_are_in_use() {
    if !can_mount() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let more = [
        "--mount",
        mount.to_str().unwrap(),
        "--pairs",
        "1",
        "--members",
        "1",
        "--groups",
        "2",
    ];
    let dev = Dev::up(&base.path().join("dev"), &more);
    let dir = mount.join("d");
    fs::create_dir(&dir).unwrap();
    for number in 0..STAY {
        match number % 100 {
            0 => fs::create_dir(dir.join(format!("stay{number}"))).unwrap(),
            _ => drop(fs::File::create(dir.join(format!("stay{number}"))).unwrap()),
        }
    }
    let path = dir.to_str().unwrap();
    assert!(explained(path)["shards"].is_null());
    let links = dir.metadata().unwrap().nlink();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // However this ends, the others end, too.
        let _stopping = Stopping(&stop);
        let workers = [0, 1, 2].map(|number| {
            let (dir, stop, rounds) = (&dir, &stop, &rounds);
            scope.spawn(move || work(dir, number, stop, rounds))
        });
        let all_work = || assert!(workers.iter().all(|worker| !worker.is_finished()));
        let (is_done, told) = weft(&["spread", path, "--shards", "4"]);
        assert!(is_done && told.contains("4 shards"), "{told}");
        // Whoever leads next goes on.
        dev.done(&["dev", "kill", "meta:1.1"]);
        dev.done(&["dev", "start", "meta:1.1"]);
        dev.done(&["dev", "kill", "meta:0.1"]);
        dev.done(&["dev", "start", "meta:0.1"]);
        let begun = Instant::now();
        while explained(path)["all_in_shards"] != true {
            assert!(begun.elapsed() < SPLIT_WITHIN, "{}", explained(path));
            all_work();
            std::thread::sleep(Duration::from_millis(50));
        }
        let before = rounds.load(Ordering::Relaxed);
        while rounds.load(Ordering::Relaxed) < before + 10 {
            all_work();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    stay(&dir);
    assert_eq!(dir.metadata().unwrap().nlink(), links);
    assert_eq!(explained(path)["shards"].as_array().unwrap().len(), 4);
    let (_, text) = weft(&["explain", path]);
    assert!(text.contains("all of its names are in 4 shards"), "{text}");

    // As one directory.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o750);
    assert!(fs::remove_dir(&dir).is_err(), "it is not empty");
    let other = mount.join("moved");
    fs::rename(&dir, &other).unwrap();
    stay(&other);
    let path = other.to_str().unwrap();
    let (is_done, why) = weft(&["spread", path]);
    assert!(!is_done && why.contains("spread already"), "{why}");
    assert!(!weft(&["spread", path, "--shards", "3"]).0);
    let checked: Value = serde_json::from_str(&dev.done(&["fsck", "--meta", "--json"])).unwrap();
    assert_eq!(checked["sound"], true, "{checked}");
    fs::remove_dir_all(&other).unwrap();
    assert!(!other.exists());
    let checked: Value = serde_json::from_str(&dev.done(&["fsck", "--meta", "--json"])).unwrap();
    assert_eq!(checked["sound"], true, "{checked}");
    dev.end();
}
