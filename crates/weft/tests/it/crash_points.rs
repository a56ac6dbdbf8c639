//! Real metadata servers end, as if killed, at each step of a change that two groups take part in and of a slot that
//! moves, while the change is made through a mount: it is done once, nothing is left over, nothing stays locked.

use crate::support::{Dev, WEFT, can_mount};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_meta::CRASH_POINTS;

/// Slots below are the first group's, the others the second's.
const HALF: u64 = 2048;
/// What was done may be told after the one who asked for it is answered, and by a server that starts first.
const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    dev: Dev,
    mount: PathBuf,
    /// Where points are armed.
    armed: PathBuf,
    /// A directory of each group.
    directories: [PathBuf; 2],
    /// A name in the root directory, and one in the second group's directory: directories of these names are the
    /// other group's.
    elsewhere: [PathBuf; 2],
}

fn group_of(path: &Path) -> usize {
    usize::from(fs::symlink_metadata(path).unwrap().ino() >> 52 >= HALF)
}

/// A directory of this group is made below `parent`; its name says which group, always the same.
fn directory_of(parent: &Path, group: usize) -> PathBuf {
    for number in 0.. {
        let path = parent.join(format!("d{number}"));
        if path.exists() {
            continue;
        }
        fs::create_dir(&path).unwrap();
        if group_of(&path) == group {
            return path;
        }
        fs::remove_dir(&path).unwrap();
    }
    unreachable!("one of some names is in each group");
}

impl World {
    fn new(base: &Path) -> World {
        let (mount, armed) = (base.join("mnt"), base.join("armed"));
        fs::create_dir(&armed).unwrap();
        let mut starter = Command::new(WEFT);
        starter.env("WEFT_CRASH_POINTS", &armed);
        let more = [
            "--mount",
            mount.to_str().unwrap(),
            "--pairs",
            "1",
            "--groups",
            "2",
            "--members",
            "3",
        ];
        let dev = Dev::start_by(starter, &base.join("dev"), &more);
        dev.wait_up();
        let directories = [directory_of(&mount, 0), directory_of(&mount, 1)];
        let elsewhere = [directory_of(&mount, 1), directory_of(&directories[1], 0)];
        for path in &elsewhere {
            fs::remove_dir(path).unwrap();
        }
        for (directory, name) in directories.iter().zip(["zero", "one"]) {
            fs::write(directory.join(name), name).unwrap();
        }
        World {
            dev,
            mount,
            armed,
            directories,
            elsewhere,
        }
    }

    /// Does something while a server ends at this point, and starts that again. Answers which it was.
    fn with_death(&self, point: &str, act: impl FnOnce()) -> String {
        let armed = self.armed.join(point);
        fs::write(&armed, "").unwrap();
        act();
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            assert!(
                Instant::now() < deadline,
                "nobody has ended at {point}:\n{}",
                self.dev.logs()
            );
            match self.ended() {
                Some(ended) if !armed.exists() => break ended,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        self.dev.done(&["dev", "start", &ended]);
        ended
    }

    /// The process that does not run.
    fn ended(&self) -> Option<String> {
        let told: Value =
            serde_json::from_str(&self.dev.done(&["dev", "status", "--json"])).unwrap();
        let processes = told["processes"].as_array().unwrap();
        let ended = processes.iter().find(|one| one["pid"].is_null())?;
        Some(ended["name"].as_str().unwrap().to_owned())
    }

    /// The name space is one tree, and nothing waits.
    fn check(&self, after: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.dev.tool(&["fsck", "--meta", "--json"]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let told: Value = serde_json::from_str(&text).unwrap_or_default();
            assert!(
                told["wrong"].is_null() || told["wrong"] == 0,
                "after {after}: {text}\n{}",
                self.dev.logs()
            );
            if told["sound"] == true && told["undecided"] == 0 {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "after {after}: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// A change that both groups take part in, and the one that takes it back.
struct Change {
    name: &'static str,
    act: fn(&World),
    undo: fn(&World),
}

/// Each has been done once, as far as a mount can see.
const CHANGES: [Change; 6] = [
    Change {
        name: "mkdir, home 0",
        act: |world| {
            fs::create_dir(&world.elsewhere[0]).unwrap();
            assert_eq!(group_of(&world.elsewhere[0]), 1);
        },
        undo: |world| fs::remove_dir(&world.elsewhere[0]).unwrap(),
    },
    Change {
        name: "rename of a file, home 0",
        act: |world| {
            let [zero, one] = &world.directories;
            fs::rename(zero.join("zero"), one.join("moved")).unwrap();
            assert!(!zero.join("zero").exists());
            assert_eq!(fs::read_to_string(one.join("moved")).unwrap(), "zero");
        },
        undo: |world| {
            let [zero, one] = &world.directories;
            fs::rename(one.join("moved"), zero.join("zero")).unwrap();
        },
    },
    Change {
        name: "link, home 1",
        act: |world| {
            let [zero, one] = &world.directories;
            fs::hard_link(zero.join("zero"), one.join("linked")).unwrap();
            assert_eq!(fs::metadata(zero.join("zero")).unwrap().nlink(), 2);
        },
        undo: |world| {
            let [zero, one] = &world.directories;
            fs::remove_file(one.join("linked")).unwrap();
            assert_eq!(fs::metadata(zero.join("zero")).unwrap().nlink(), 1);
        },
    },
    Change {
        name: "rmdir, home 1",
        act: |world| {
            // Made without a death, if it is not there.
            fs::remove_dir(&world.elsewhere[1]).unwrap();
            assert!(!world.elsewhere[1].exists());
        },
        undo: |world| fs::create_dir(&world.elsewhere[1]).unwrap(),
    },
    Change {
        name: "unlink, home 0",
        act: |world| {
            let zero = &world.directories[0];
            fs::remove_file(zero.join("of one")).unwrap();
            assert!(!zero.join("of one").exists());
        },
        undo: |world| {
            let [zero, one] = &world.directories;
            fs::hard_link(one.join("one"), zero.join("of one")).unwrap();
        },
    },
    Change {
        name: "rename of a directory over another one, home 1",
        act: |world| {
            let [zero, one] = &world.directories;
            fs::rename(one.join("full"), zero.join("empty")).unwrap();
            assert!(zero.join("empty/file").exists() && !one.join("full").exists());
        },
        undo: |world| {
            let [zero, one] = &world.directories;
            fs::rename(zero.join("empty"), one.join("full")).unwrap();
            fs::create_dir(zero.join("empty")).unwrap();
        },
    },
];

#[test]
fn a_change_of_two_groups_is_done_once_wherever_a_server_ends() {
    if !can_mount() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let world = World::new(base.path());
    let [zero, one] = &world.directories;
    fs::create_dir(&world.elsewhere[1]).unwrap();
    fs::hard_link(one.join("one"), zero.join("of one")).unwrap();
    fs::create_dir(zero.join("empty")).unwrap();
    fs::create_dir(one.join("full")).unwrap();
    fs::write(one.join("full/file"), "").unwrap();

    let points = CRASH_POINTS.iter().filter(|it| !it.starts_with("slot-"));
    let mut dead = [0, 0];
    for point in points {
        for change in &CHANGES {
            let begun = Instant::now();
            let ended = world.with_death(point, || (change.act)(&world));
            let what = format!("{} at {point}, where {ended} ended", change.name);
            dead[usize::from(ended.contains(":1."))] += 1;
            // Nothing is locked: what it concerned can be changed at once.
            (change.undo)(&world);
            world.check(&what);
            println!("{what}: {:?}", begun.elapsed());
        }
    }
    // Both groups were home, and other.
    assert!(dead[0] > 20 && dead[1] > 20, "{dead:?}");
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(zero), ["empty", "of one", "zero"]);
    assert_eq!(names(one).len(), 3, "{:?}", names(one));
    world.dev.end();
}

#[test]
fn a_slot_arrives_wherever_a_server_ends() {
    if !can_mount() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let world = World::new(base.path());
    let directory = &world.directories[1];
    for number in 0..20 {
        fs::write(directory.join(format!("f{number}")), "as it is").unwrap();
    }
    let slot = fs::metadata(directory).unwrap().ino() >> 52;
    let mut at = 1;
    for point in CRASH_POINTS.iter().filter(|it| it.starts_with("slot-")) {
        let begun = Instant::now();
        let to = 1 - at;
        let order = ["slots", "move", &slot.to_string(), "--to", &to.to_string()];
        let ended = world.with_death(point, || {
            // Whoever leads by then is told again.
            let deadline = Instant::now() + PATIENCE;
            while !world.dev.tool(&order).status.success() {
                assert!(Instant::now() < deadline, "{point}:\n{}", world.dev.logs());
            }
        });
        at = to;
        fs::write(directory.join("new"), "new").unwrap();
        assert_eq!(
            fs::read_to_string(directory.join("f7")).unwrap(),
            "as it is"
        );
        fs::remove_file(directory.join("new")).unwrap();
        assert_eq!(fs::read_dir(directory).unwrap().count(), 21);
        let what = format!("{point}, where {ended} ended");
        world.check(&what);
        println!("{what}: {:?}", begun.elapsed());
    }
    assert!(world.mount.exists());
    world.dev.end();
}
