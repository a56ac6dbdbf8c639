//! A checkpoint of a real cluster of two groups, and the way back to it: after a tree was removed, and after all
//! metadata servers were killed and one had lost its disk.

use crate::support::{Dev, can_mount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nothing below may wait this long.
const LONG: Duration = Duration::from_secs(120);

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn content(number: usize) -> Vec<u8> {
    (0..50_000 + number * 1_000)
        .map(|at| (at * (number + 3)) as u8)
        .collect()
}

/// Every path below, with what the file has.
fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let is_directory = fs::symlink_metadata(&path).unwrap().is_dir();
            if is_directory {
                rest.push(path.clone());
            }
            let held = (!is_directory).then(|| fs::read(&path).unwrap());
            all.insert(name, held);
        }
    }
    all
}

fn spoil(mount: &Path) {
    for number in 0..10 {
        let directory = mount.join(format!("d{number}"));
        match number % 5 {
            0 => fs::remove_dir_all(&directory).unwrap(),
            1 => fs::write(directory.join("f"), b"other").unwrap(),
            2 => fs::rename(&directory, mount.join(format!("away{number}"))).unwrap(),
            3 => {
                fs::write(directory.join("new"), b"new").unwrap();
                fs::rename(directory.join("new"), directory.join("f")).unwrap();
            }
            _ => fs::hard_link(directory.join("f"), mount.join(format!("link{number}"))).unwrap(),
        }
    }
    fs::create_dir(mount.join("later")).unwrap();
}

/// A mount whose session has ended opens another one: until then it may answer otherwise.
fn is_again(mount: &Path, dev: &Dev, expected: &BTreeMap<String, Option<Vec<u8>>>) {
    let deadline = Instant::now() + LONG;
    while fs::read_dir(mount).is_err() {
        assert!(
            Instant::now() < deadline,
            "the mount does not come back; {}",
            dev.logs()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let found = tree(mount);
    let names = |tree: &BTreeMap<String, Option<Vec<u8>>>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(expected), "{}", dev.logs());
    for (name, held) in &found {
        assert!(*held == expected[name], "the content of {name}");
    }
}

#[test]
fn what_was_removed_is_back_also_after_all_servers_were_killed() {
    if !can_mount() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let (mount, directory) = (base.path().join("mnt"), base.path().join("dev"));
    let options = [
        "--mount",
        mount.to_str().unwrap(),
        "--pairs",
        "1",
        "--groups",
        "2",
        "--members",
        "3",
    ];
    let dev = Dev::up(&directory, &options);
    for number in 0..10 {
        let directory = mount.join(format!("d{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("f"), content(number)).unwrap();
    }
    let expected = tree(&mount);

    let made = json(&dev.done(&["checkpoint", "create", "first", "--json"]));
    assert!(made["held_us"].as_u64().unwrap() < 50_000, "{made}");
    assert_eq!(made["unwritten"], 0, "{made}");
    let again = dev.tool(&["checkpoint", "create", "first"]);
    let why = String::from_utf8(again.stderr).unwrap();
    assert!(
        !again.status.success() && why.contains("first already"),
        "{why}"
    );
    for (command, name, part) in [
        ("create", "no name", "no name of a checkpoint"),
        ("delete", "second", "there is no checkpoint second"),
        ("restore", "second", "there is no checkpoint second"),
    ] {
        let refused = dev.tool(&["checkpoint", command, name]);
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && why.contains(part), "{why}");
    }

    spoil(&mount);
    let asked = dev.tool(&["checkpoint", "restore", "first"]);
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8(asked.stderr).unwrap().contains("--yes"));
    assert!(mount.join("later").exists());
    let said = dev.done(&["checkpoint", "restore", "first", "--yes"]);
    println!("{said}");
    is_again(&mount, &dev, &expected);
    let checked = json(&dev.done(&["fsck", "--meta", "--json"]));
    assert_eq!(checked["sound"], true, "{checked}");

    // All metadata servers are killed, and one has lost its disk.
    spoil(&mount);
    let status = json(&dev.done(&["status", "--json"]));
    let mut servers = Vec::new();
    for (group, said) in status["groups"].as_array().unwrap().iter().enumerate() {
        for member in said["members"].as_array().unwrap() {
            servers.push(match group {
                0 => format!("meta:{}", member["id"]),
                _ => format!("meta:{group}.{}", member["id"]),
            });
        }
    }
    assert_eq!(servers.len(), 6);
    let lost = directories(&directory).into_iter().next_back().unwrap();
    println!("{} is lost", lost.display());
    // First, so that those that are left had all that counts when they died.
    let name = lost.file_name().unwrap().to_str().unwrap();
    let first = name.replacen('-', ":", 1);
    servers.sort_by_key(|server| *server != first);
    assert_eq!(servers[0], first);
    for server in &servers {
        dev.done(&["dev", "kill", server]);
    }
    fs::remove_dir_all(&lost).unwrap();
    fs::create_dir(&lost).unwrap();
    for server in &servers[1..] {
        dev.done(&["dev", "start", server]);
    }
    let deadline = Instant::now() + LONG;
    let (group, member) = match name.strip_prefix("meta-").unwrap().split_once('.') {
        Some((group, member)) => (group, member),
        None => ("0", name.strip_prefix("meta-").unwrap()),
    };
    let replace = ["group", "replace", member, "--group", group];
    while !dev.tool(&replace).status.success() {
        assert!(Instant::now() < deadline, "nobody leads; {}", dev.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
    dev.done(&["dev", "start", &first]);
    while !dev.tool(&["checkpoint", "list"]).status.success() {
        assert!(Instant::now() < deadline, "nobody leads; {}", dev.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
    let list = json(&dev.done(&["checkpoint", "list", "--json"]));
    assert_eq!(list["checkpoints"][0]["stage"], "kept", "{list}");
    assert!(
        list["checkpoints"][0]["held"].as_u64().unwrap() > 0,
        "{list}"
    );
    while !dev
        .tool(&["checkpoint", "restore", "first", "--yes"])
        .status
        .success()
    {
        // A group that has just been started has no active yet.
        assert!(
            Instant::now() < deadline,
            "it is not restored; {}",
            dev.logs()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    is_again(&mount, &dev, &expected);
    assert!(dev.done(&["fsck", "--meta"]).contains("nothing is wrong"));
    dev.done(&["checkpoint", "delete", "first"]);
    assert!(dev.done(&["checkpoint", "list"]).contains("no checkpoints"));
    is_again(&mount, &dev, &expected);
    dev.end();
}

/// Those in which a metadata server keeps a journal.
fn directories(base: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(base).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<_> = paths.filter(|path| path.join("journal").is_dir()).collect();
    found.sort();
    found
}
