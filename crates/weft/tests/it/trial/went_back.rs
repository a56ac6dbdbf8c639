//! An old copy of a directory is put back: of a data server, and of the only metadata server.

use super::{REFUSED, started};
use crate::support::mounts::until;
use crate::support::{Dev, can_mount};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.unwrap().success());
}

/// A cluster of one pair and one metadata server, mounted.
fn cluster(base: &Path) -> Dev {
    let mount = base.join("mnt");
    let mount = mount.to_str().unwrap();
    let arguments = ["--pairs", "1", "--members", "1", "--mount", mount];
    Dev::up(&base.join("c"), &arguments)
}

fn is_both(dev: &Dev) {
    until("both", || dev.done(&["pair", "status"]).contains("both"));
}

#[test]
fn an_older_copy_of_a_data_servers_store_never_serves() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let dev = cluster(base.path());
    let file = base.path().join("mnt/file");
    fs::write(&file, vec![1; 300_000]).unwrap();
    let dir = dev.directory.join("data-0.1");
    dev.done(&["dev", "kill", "data:0.1"]);
    copy(&dir, &dir.with_extension("copy"));
    dev.done(&["dev", "start", "data:0.1"]);
    is_both(&dev);
    fs::write(&file, vec![2; 300_000]).unwrap();
    let synced = Command::new("sync").arg(&file).status().unwrap();
    assert!(synced.success());
    // It has renewed its life by then.
    std::thread::sleep(std::time::Duration::from_secs(2));
    dev.done(&["dev", "kill", "data:0.1"]);
    let newest = dir.with_extension("newest");
    fs::rename(&dir, &newest).unwrap();
    fs::rename(dir.with_extension("copy"), &dir).unwrap();
    let (code, said) = started("data", &dev.directory.join("data-0.1.toml"));
    assert_eq!(code, Some(REFUSED), "{said}");
    let expected = "an older copy of the store of member 1 of pair 0";
    assert!(said.contains(expected), "{said}");

    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&newest, &dir).unwrap();
    dev.done(&["dev", "start", "data:0.1"]);
    is_both(&dev);
    assert!(fs::read(&file).unwrap() == vec![2; 300_000]);
    dev.end();
}

#[test]
fn an_older_name_space_gives_no_number_again_that_the_newer_one_has_given() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let dev = cluster(base.path());
    let mount = base.path().join("mnt");
    fs::write(mount.join("before"), vec![1; 100_000]).unwrap();
    dev.end();
    let dir = base.path().join("c/meta-1");
    copy(&dir, &dir.with_extension("copy"));

    let dev = cluster(base.path());
    let lost: Vec<u64> = (0..20)
        .map(|at| {
            let file = mount.join(format!("lost.{at}"));
            fs::write(&file, vec![7; 100_000]).unwrap();
            fs::metadata(&file).unwrap().ino()
        })
        .collect();
    dev.end();
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(dir.with_extension("copy"), &dir).unwrap();

    let dev = cluster(base.path());
    is_both(&dev);
    assert!(fs::read(mount.join("before")).unwrap() == vec![1; 100_000]);
    for at in 0..40 {
        let file = mount.join(format!("new.{at}"));
        let new = fs::File::create(&file).unwrap();
        let ino = new.metadata().unwrap().ino();
        assert!(!lost.contains(&ino), "{ino} was given before: {lost:?}");
        new.set_len(100_000).unwrap();
        drop(new);
        // Nothing of what others had written under a number that was given twice.
        assert!(fs::read(&file).unwrap() == vec![0; 100_000]);
    }
    dev.end();
}
