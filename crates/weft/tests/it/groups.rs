//! Tools and a real cluster of two groups: each sees what is kept in either.

use crate::support::{Dev, WEFT, can_mount};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a tool that finds its cluster by a path says.
fn of_path(arguments: &[&str], path: &Path) -> (bool, String) {
    let output = Command::new(WEFT)
        .args(arguments)
        .arg(path)
        .output()
        .unwrap();
    let (said, refused) = (output.stdout, output.stderr);
    let text = String::from_utf8([said, refused].concat()).unwrap();
    (output.status.success(), text)
}

#[test]
fn tools_see_what_either_group_keeps() {
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

    // So many that both groups have some of them.
    for number in 0..12 {
        let directory = mount.join(format!("d{number}"));
        fs::create_dir(&directory).unwrap();
        // Its size is to be known to the service.
        let mut file = fs::File::create(directory.join("f")).unwrap();
        write!(file, "{number}").unwrap();
        file.sync_all().unwrap();
    }
    fs::hard_link(mount.join("d0/f"), mount.join("d1/linked")).unwrap();
    fs::rename(mount.join("d2"), mount.join("d3/moved")).unwrap();
    let status = json(&dev.done(&["status", "--json"]));
    let of_group = |group: usize| status["groups"][group]["inodes"].as_u64().unwrap();
    assert_eq!(of_group(0) + of_group(1), 25);
    assert!(of_group(1) > 0, "{status}");
    assert_eq!(status["inodes"], 25);
    assert!(
        dev.done(&["status"])
            .contains("2 metadata groups: 25 inodes")
    );

    for path in ["d0/f", "d1/linked", "d3/moved/f", "d11/f"] {
        let (is_done, text) = of_path(&["explain", "--json"], &mount.join(path));
        assert!(is_done, "{text}");
        let explained = json(&text);
        assert_eq!(explained["stripes"][0]["pair_state"], "both", "{explained}");
    }
    let (is_done, text) = of_path(&["losses", "acknowledge"], &mount.join("d3/moved/f"));
    assert!(is_done && text.contains("nothing of it was lost"), "{text}");
    let set = ["policy", "set", "--recursive", "--width", "1"];
    let (is_done, text) = of_path(&set, &mount.join("d4"));
    assert!(!is_done && text.contains("Nothing was set"), "{text}");

    for group in ["0", "1"] {
        let members = json(&dev.done(&["group", "--group", group, "status", "--json"]));
        assert_eq!(members["group"].to_string(), group);
        assert_eq!(members["members"][0]["answers"], true, "{members}");
    }
    let refused = dev.tool(&["group", "--group", "7", "status"]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("no group 7; it has 0, 1"), "{why}");

    let checked = json(&dev.done(&["fsck", "--meta", "--json"]));
    assert_eq!(checked["sound"], true, "{checked}");
    assert_eq!(
        (&checked["wrong"], &checked["undecided"]),
        (&0.into(), &0.into())
    );
    assert_eq!(checked["inodes"], 25);
    assert!(
        dev.done(&["fsck", "--meta"])
            .contains("2 group(s), 25 inodes")
    );

    // The second group is away: it is shown so, and the check says that it cannot be made.
    dev.done(&["dev", "kill", "meta:1.1"]);
    let status = json(&dev.done(&["status", "--json"]));
    assert_eq!(status["groups"][1]["answers"], false, "{status}");
    assert_eq!(dev.tool(&["fsck", "--meta"]).status.code(), Some(3));
    dev.done(&["dev", "start", "meta:1.1"]);
    dev.end();
}
