//! A metadata server is started on an empty directory: the wrong path, or its disk is not mounted.

use super::{REFUSED, is_empty, started, unmount};
use crate::support::Dev;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn an_only_metadata_server_founds_nothing_and_goes_on_when_its_disk_is_back() {
    let base = tempfile::tempdir().unwrap();
    let place = base.path().join("c");
    let arguments = ["--no-mount", "--pairs", "1", "--members", "1"];
    let dev = Dev::up(&place, &arguments);
    let id = fs::read(place.join("data-0.0/store")).unwrap()[40..56].to_vec();
    dev.end();

    let dir = place.join("meta-1");
    let away = unmount(&dir);
    let (code, said) = started("meta", &place.join("meta-1.toml"));
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("has not been founded"), "{said}");
    assert!(said.contains(&dir.display().to_string()), "{said}");
    assert!(is_empty(&dir));

    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&away, &dir).unwrap();
    let dev = Dev::up(&place, &arguments);
    dev.done(&["pair", "status"]);
    assert_eq!(fs::read(dir.join("store")).unwrap()[24..40], id);
    dev.end();
}

#[test]
fn an_empty_directory_takes_a_members_place_only_when_that_is_lost() {
    let base = tempfile::tempdir().unwrap();
    let place = base.path().join("c");
    let dev = Dev::up(&place, &["--no-mount", "--pairs", "1"]);
    let group = || -> serde_json::Value {
        serde_json::from_str(&dev.done(&["group", "status", "--json"])).unwrap()
    };
    let active = group()["active"].as_u64().unwrap();
    let member = active % 3 + 1;
    dev.done(&["dev", "kill", &format!("meta:{member}")]);
    let dir = place.join(format!("meta-{member}"));
    let away = unmount(&dir);
    let config = place.join(format!("meta-{member}.toml"));
    let (code, said) = started("meta", &config);
    assert_eq!(code, Some(REFUSED), "{said}");
    let expected = format!("is empty, and member {member} of group 0 has its journal in another");
    assert!(said.contains(&expected), "{said}");
    assert!(
        said.contains(&format!("weft group replace {member}")),
        "{said}"
    );
    assert!(is_empty(&dir));

    // It is lost: the empty one takes its place, and the old one has none any more.
    dev.done(&["group", "replace", &member.to_string()]);
    dev.done(&["dev", "start", &format!("meta:{member}")]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let role = || {
        let all = group()["members"].clone();
        let found = all.as_array().unwrap().iter().find(|it| it["id"] == member);
        found.unwrap()["role"].as_str().unwrap().to_owned()
    };
    while role() != "standby" {
        assert!(Instant::now() < deadline, "it stays {}", role());
        std::thread::sleep(Duration::from_millis(100));
    }
    dev.done(&["dev", "kill", &format!("meta:{member}")]);
    let new = place.join("new");
    fs::rename(&dir, &new).unwrap();
    fs::rename(&away, &dir).unwrap();
    let (code, said) = started("meta", &config);
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("was removed, or replaced"), "{said}");
    fs::rename(&dir, &away).unwrap();
    fs::rename(&new, &dir).unwrap();
    dev.done(&["dev", "start", &format!("meta:{member}")]);
    dev.end();
}
