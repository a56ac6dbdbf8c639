//! A real cluster of two groups, mounted: slots go to and fro while files in them are written, read, renamed and
//! held open, and a metadata server is killed meanwhile.

use crate::support::{Dev, can_mount};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DIRECTORIES: u64 = 8;

/// The slot of a file or directory.
fn slot(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino() >> 52
}

fn slots_of(dev: &Dev, group: usize) -> BTreeSet<u64> {
    let told: Value = serde_json::from_str(&dev.done(&["slots", "--json"])).unwrap();
    let ranges = told["groups"][group]["ranges"].as_array().unwrap().clone();
    let bound = |range: &Value, at: usize| range[at].as_u64().unwrap();
    let slots = ranges
        .iter()
        .flat_map(|range| bound(range, 0)..=bound(range, 1));
    slots.collect()
}

/// Makes, writes, reads, renames and removes files until it is told to stop. Answers how often.
fn work(mount: &Path, number: u64, stop: &AtomicBool, rounds: &AtomicU64) {
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let from = mount.join(format!("d{}", (number + round) % DIRECTORIES));
        let to = mount.join(format!("d{}", (number + 3 * round + 1) % DIRECTORIES));
        let (name, text) = (format!("w{number}"), format!("{number} in round {round}"));
        fs::write(from.join(&name), &text).unwrap();
        let moved = to.join(format!("{name}.moved"));
        fs::rename(from.join(&name), &moved).unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), text);
        fs::remove_file(&moved).unwrap();
        round += 1;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn slots_move_while_files_are_in_use() {
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
    let directories: Vec<_> = (0..DIRECTORIES)
        .map(|number| mount.join(format!("d{number}")))
        .collect();
    for directory in &directories {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("stays"), "as it is").unwrap();
    }
    // Open, locked, and without a name.
    let mut kept = fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(directories[0].join("kept"))
        .unwrap();
    kept.write_all(b"nobody sees it").unwrap();
    kept.lock().unwrap();
    fs::remove_file(directories[0].join("kept")).unwrap();
    let locked = fs::File::open(directories[1].join("stays")).unwrap();
    locked.lock().unwrap();

    let used: BTreeSet<u64> = directories.iter().map(|path| slot(path)).collect();
    let used: Vec<u64> = used.into_iter().filter(|slot| *slot != 0).collect();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (mount, stop, rounds) = (&mount, &stop, &rounds);
            scope.spawn(move || work(mount, number, stop, rounds));
        }
        for turn in 0..4 {
            for slot in &used {
                let to = (turn + slot) % 2;
                dev.done(&["slots", "move", &slot.to_string(), "--to", &to.to_string()]);
                assert!(slots_of(&dev, to as usize).contains(slot), "{slot} to {to}");
            }
            let before = rounds.load(Ordering::Relaxed);
            if turn % 2 == 1 {
                // Whoever leads has forgotten what was ordered, and nothing else.
                let member = ["meta:0.1", "meta:1.1"][turn as usize / 2];
                dev.done(&["dev", "kill", member]);
                dev.done(&["dev", "start", member]);
            }
            while rounds.load(Ordering::Relaxed) < before + 5 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} rounds, slots {used:?}", rounds.load(Ordering::Relaxed));

    let mut text = String::new();
    kept.rewind().unwrap();
    kept.read_to_string(&mut text).unwrap();
    assert_eq!(text, "nobody sees it");
    let other = fs::File::open(directories[1].join("stays")).unwrap();
    assert!(other.try_lock().is_err(), "the lock has gone with its slot");
    locked.unlock().unwrap();
    other.try_lock().unwrap();
    drop((kept, other, locked));
    for directory in &directories {
        let names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        assert_eq!(names, ["stays"]);
        assert_eq!(
            fs::read_to_string(directory.join("stays")).unwrap(),
            "as it is"
        );
    }

    // Orders that make no sense.
    let refused = |arguments: &[&str]| {
        let output = dev.tool(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let why = refused(&["slots", "move", "7", "--to", "5"]);
    assert!(
        why.contains("there is no group 5: the groups are 0, 1"),
        "{why}"
    );
    assert!(refused(&["slots", "move", "0-9", "--to", "1"]).contains("slot 0"));
    assert!(refused(&["slots", "move", "5000", "--to", "1"]).contains("no slot"));

    dev.done(&["slots", "even"]);
    assert_eq!(slots_of(&dev, 0).len(), 2048);
    assert!(slots_of(&dev, 0).contains(&0));
    assert!(dev.done(&["slots"]).contains("group  slots"));
    let checked: Value = serde_json::from_str(&dev.done(&["fsck", "--meta", "--json"])).unwrap();
    assert_eq!(checked["sound"], true, "{checked}");
    dev.end();
}
