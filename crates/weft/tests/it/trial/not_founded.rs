//! Servers are started before anybody has founded a name space, or somebody founds one where there is one.

use super::{REFUSED, started};
use std::fs;
use std::path::{Path, PathBuf};

fn config(base: &Path, name: &str, cluster: &str, more: &str) -> PathBuf {
    let config = base.join(format!("{name}.toml"));
    let dir = base.join(name);
    let text = format!("dir = {dir:?}\nlisten = \"127.0.0.1:0\"\ncluster_id = {cluster:?}\n{more}");
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn servers_without_a_common_coordinator_are_no_clusters_each() {
    let base = tempfile::tempdir().unwrap();
    for member in 1..=3 {
        let config = config(base.path(), &format!("meta-{member}"), "blue", "");
        let (code, said) = started("meta", &config);
        assert_eq!(code, Some(REFUSED), "{said}");
        assert!(said.contains("\"blue\" has not been founded"), "{said}");
        assert!(said.contains("weft init"), "{said}");
    }
}

#[test]
fn a_name_space_is_founded_once() {
    let base = tempfile::tempdir().unwrap();
    let view = format!(
        "coordinator = \"file:{}\"\n",
        base.path().join("view").display()
    );
    for (cluster, more) in [("alone", ""), ("together", &view[..])] {
        let config = config(base.path(), cluster, cluster, more);
        let (code, said) = started("init", &config);
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = started("init", &config);
        assert_eq!(code, Some(REFUSED), "{said}");
        let expected = format!("cluster {cluster:?} has been founded already (name space ");
        assert!(said.contains(&expected), "{said}");
    }
    // With the place of the view of another one.
    let other = config(base.path(), "other", "other", &view);
    let (code, said) = started("init", &other);
    assert_eq!(code, Some(REFUSED), "{said}");
    let (code, said) = started("meta", &other);
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("is of cluster \"together\""), "{said}");
}

#[test]
fn a_directory_that_has_lost_its_view_is_not_founded_in_anew() {
    let base = tempfile::tempdir().unwrap();
    let config = config(base.path(), "meta", "blue", "");
    let dir = base.path().join("meta");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("journal-0000000000000001"), b"what was written").unwrap();
    let (code, said) = started("init", &config);
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(
        said.contains("\"journal-0000000000000001\", and no view"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}
