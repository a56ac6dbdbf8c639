//! A data server is started on a directory that is not its own: its disk is not mounted, another disk is, or an old copy
//! was put back.

use super::{REFUSED, is_empty, started, unmount};
use crate::support::mounts::until;
use crate::support::{Dev, can_mount};
use std::fs;
use std::path::Path;

const BYTES: usize = 300_000;

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 / 3) as u8).collect()
}

fn is_now(dev: &Dev, state: &str) {
    until(state, || dev.done(&["pair", "status"]).contains(state));
}

/// A cluster of one pair with a file on its mount.
fn cluster(base: &Path) -> Dev {
    let root = base.join("mnt");
    let mount = root.to_str().unwrap();
    let arguments = ["--pairs", "1", "--members", "1", "--mount", mount];
    let dev = Dev::up(&base.join("c"), &arguments);
    fs::write(root.join("file"), content()).unwrap();
    dev
}

/// The server is refused, and leaves the directory as it was.
fn is_refused(dev: &Dev, name: &str, because: &[&str]) {
    let (code, said) = started("data", &dev.directory.join(format!("{name}.toml")));
    assert_eq!(code, Some(REFUSED), "{said}");
    for because in because {
        assert!(said.contains(because), "{said}");
    }
}

#[test]
fn an_empty_directory_is_not_filled_in_the_place_of_a_disk_that_is_not_mounted() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let dev = cluster(base.path());
    let dir = dev.directory.join("data-0.1");
    dev.done(&["dev", "kill", "data:0.1"]);
    is_now(&dev, "only 0");
    let away = unmount(&dir);
    let because = [
        "the directory is empty, and member 1 of pair 0 has its store in another one",
        "weft pair replace 0 --member 1",
    ];
    is_refused(&dev, "data-0.1", &because);
    assert!(is_empty(&dir));
    // Not even the mount point is there.
    fs::remove_dir(&dir).unwrap();
    is_refused(&dev, "data-0.1", &because);
    assert!(!dir.exists());

    fs::rename(&away, &dir).unwrap();
    dev.done(&["dev", "start", "data:0.1"]);
    is_now(&dev, "both");
    assert!(fs::read(base.path().join("mnt/file")).unwrap() == content());
    dev.end();
}

#[test]
fn an_old_copy_of_a_store_that_was_replaced_does_not_come_back() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let dev = cluster(base.path());
    let dir = dev.directory.join("data-0.1");
    dev.done(&["dev", "kill", "data:0.1"]);
    is_now(&dev, "only 0");
    let away = unmount(&dir);
    dev.done(&["pair", "replace", "0", "--member", "1"]);
    dev.done(&["dev", "start", "data:0.1"]);
    is_now(&dev, "both");
    dev.done(&["dev", "kill", "data:0.1"]);
    let new = dir.with_extension("new");
    fs::rename(&dir, &new).unwrap();
    fs::rename(&away, &dir).unwrap();
    is_refused(&dev, "data-0.1", &["another store than member 1 of pair 0"]);
    fs::rename(&dir, &away).unwrap();
    fs::rename(&new, &dir).unwrap();
    dev.done(&["dev", "start", "data:0.1"]);
    is_now(&dev, "both");
    assert!(fs::read(base.path().join("mnt/file")).unwrap() == content());
    dev.end();
}

#[test]
fn a_server_of_another_cluster_is_told_so_and_ends() {
    let base = tempfile::tempdir().unwrap();
    let arguments = ["--no-mount", "--pairs", "1", "--members", "1"];
    let (blue, red) = (base.path().join("blue"), base.path().join("red"));
    let (blue, red) = (Dev::up(&blue, &arguments), Dev::up(&red, &arguments));
    let read = |dev: &Dev, name: &str| -> toml::Table {
        let text = fs::read_to_string(dev.directory.join(format!("{name}.toml"))).unwrap();
        text.parse().unwrap()
    };
    red.done(&["dev", "kill", "data:0.1"]);
    // The other cluster's servers, and then its name, too.
    let mut settings = read(&red, "data-0.1");
    let ours = read(&blue, "data-0.1");
    let ids = [&settings, &ours].map(|table| table["cluster_id"].to_string());
    settings.insert("meta".into(), ours["meta"].clone());
    let because = [&ids[0][..], &ids[1][..], "this is cluster"];
    for because in [&because[..], &["is of name space", "both of a cluster"]] {
        let text = toml::to_string(&settings).unwrap();
        fs::write(red.directory.join("data-0.1.toml"), text).unwrap();
        is_refused(&red, "data-0.1", because);
        settings.insert("cluster_id".into(), ours["cluster_id"].clone());
    }
    // A start writes the configuration anew.
    red.done(&["dev", "start", "data:0.1"]);
    is_now(&red, "both");
    is_now(&blue, "both");
    red.end();
    blue.end();
}
