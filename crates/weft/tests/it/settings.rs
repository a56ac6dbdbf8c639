//! What is wrong with a configuration is said by `weft config check` as by a start, in the same words.

use super::support::{Process, WEFT};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A refusal needs no time; a start that waits for others would take for ever.
const AT_ONCE: Duration = Duration::from_secs(20);

/// A line of settings that replaces the one of the same key in what is good otherwise, or is added; and what is said.
const META: &[(&str, &str)] = &[
    ("cluster_id = \"\"", "cluster_id"),
    ("member = 0", "counts from 1"),
    ("members = [0]", "count from 1"),
    ("members = [1, 2]", "needs a coordinator"),
    ("groups = 0", "groups must be"),
    ("groups = 1025", "groups must be"),
    ("groups = 2", "need a coordinator"),
    ("dir = \"\"", "dir is not set"),
    ("listen = \"127.0.0.1\"", "it has no port"),
    ("listen = \"127.0.0.1:70000\"", "no number up to 65535"),
    ("listen = \"0.0.0.0:0\"", "the others are told it"),
    ("listen = \"192.0.2.1:7400\"", "no address of this machine"),
    ("listen = \"no.such.name.invalid:7400\"", "is not known"),
    ("metrics_listen = \"x\"", "it has no port"),
    ("coordinator = \"consul://a:1\"", "etcd://host:port"),
    ("coordinator = \"file:relative\"", "begins with /"),
    ("coordinator = \"etcd://a\"", "is no address"),
    (
        "coordinator = \"etcd://no.such.name.invalid:1\"",
        "is not known",
    ),
    ("session_term_ms = 1", "session_term_ms must be"),
    ("image_every_entries = 0", "image_every_entries"),
    ("root_uid = 4294967295", "must be ids"),
    (
        "group_terms = { beat_ms = 100, patience_ms = 100 }",
        "three times",
    ),
    (
        "pair = { beat_ms = 100, lease_ms = 100 }",
        "twice pair.beat_ms",
    ),
    ("lisen = \"127.0.0.1:0\"", "nearest known key is `listen`"),
];

const DATA: &[(&str, &str)] = &[
    ("member = 2", "neither 0 nor 1"),
    ("pair = -1", "-1"),
    ("dir = \"\"", "is not set"),
    ("cluster_id = \"\"", "is not set"),
    ("meta = []", "names no metadata server"),
    ("meta = [\"127.0.0.1\"]", "it has no port"),
    ("meta = [\"127.0.0.1:0\"]", "nobody is at port 0"),
    ("meta = [\"no.such.name.invalid:1\"]", "is not known"),
    ("listen = \"here\"", "it has no port"),
    ("listen = \"[::]:0\"", "or set advertise"),
    (
        "advertise = \"0.0.0.0:1\"",
        "no address at which others reach",
    ),
    ("listen = \"192.0.2.1:0\"", "no address of this machine"),
    ("metrics_listen = \"fd00::1:5\"", "stands in brackets"),
    ("link_patience_ms = 0", "must be above 0"),
];

const MOUNT: &[(&str, &str)] = &[
    ("mountpoint = \"\"", "mountpoint is not set"),
    (
        "mountpoint = \"/no/such/directory\"",
        "mkdir -p /no/such/directory",
    ),
    ("mountpoint = \"/proc/self/status\"", "is no directory"),
    ("metrics_listen = \"x\"", "it has no port"),
    (
        "client = { cluster_id = \"blue\" }",
        "names no metadata server",
    ),
    (
        "client = { meta = [\"127.0.0.1:1\"] }",
        "`cluster_id` is not set",
    ),
    (
        "client = { meta = [\"x\"], cluster_id = \"blue\" }",
        "it has no port",
    ),
    (
        "client = { meta = [\"no.such.name.invalid:1\"], cluster_id = \"blue\" }",
        "is not known",
    ),
];

const NFS: &[(&str, &str)] = &[
    ("listen = \"2049\"", "it has no port"),
    ("listen = \"192.0.2.1:2049\"", "no address of this machine"),
    ("lease_seconds = 0", "lease_seconds: from"),
    (
        "client = { cluster_id = \"blue\" }",
        "names no metadata server",
    ),
    (
        "client = { meta = [\"127.0.0.1:1\"] }",
        "`cluster_id` is not set",
    ),
    ("export = [{ path = \"scratch\" }]", "begins with /"),
    (
        "export = [{ path = \"/\", rule = [{ clients = [\"host\"] }] }]",
        "is no address",
    ),
];

/// Settings that a start takes.
fn good(kind: &str, base: &Path) -> Vec<String> {
    let client = "client = { meta = [\"127.0.0.1:1\"], cluster_id = \"blue\" }".to_owned();
    let listen = "listen = \"127.0.0.1:0\"".to_owned();
    let dir = format!("dir = {:?}", base.join(kind));
    let cluster = "cluster_id = \"blue\"".to_owned();
    match kind {
        "meta" => vec![listen, dir, cluster],
        "data" => vec![listen, dir, cluster, "meta = [\"127.0.0.1:1\"]".into()],
        "mount" => vec![format!("mountpoint = {base:?}"), client],
        _ => vec![listen, client],
    }
}

/// How it ended, and what it said. One that goes on is ended.
fn outcome(arguments: &[&str]) -> (Option<i32>, String) {
    let child = Command::new(WEFT)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Process(child);
    let deadline = Instant::now() + AT_ONCE;
    while process.0.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            return (None, "it goes on".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut said = String::new();
    std::io::Read::read_to_string(process.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    (process.0.wait().unwrap().code(), said)
}

#[test]
fn what_a_start_refuses_the_check_refuses_in_the_same_words() {
    let base = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (kind, cases) in [
        ("meta", META),
        ("data", DATA),
        ("mount", MOUNT),
        ("nfs", NFS),
    ] {
        let file = base.path().join(format!("{kind}.toml"));
        let file = file.to_str().unwrap();
        fs::write(file, good(kind, base.path()).join("\n")).unwrap();
        let (code, said) = outcome(&["config", "check", "--kind", kind, file]);
        assert_eq!(code, Some(0), "{kind}: {said}");
        for (line, reason) in cases {
            let key = line.split('=').next().unwrap();
            let mut lines = good(kind, base.path());
            lines.retain(|good| good.split('=').next() != Some(key));
            lines.push((*line).to_owned());
            fs::write(file, lines.join("\n")).unwrap();
            let check = outcome(&["config", "check", "--kind", kind, file]);
            let start = outcome(&[kind, "--config", file]);
            let is_right =
                |(code, said): &(Option<i32>, String)| *code == Some(2) && said.contains(reason);
            if !is_right(&check) || !is_right(&start) || check.1 != start.1 {
                wrong.push(format!(
                    "{kind} {line}:\n  check: {check:?}\n  start: {start:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_for_another_machine_is_checked_for_what_holds_there_too() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("mount.toml");
    let text = "mountpoint = \"/no/such/directory\"\n\
                client = { meta = [\"no.such.name.invalid:1\"], cluster_id = \"blue\" }\n";
    fs::write(&file, text).unwrap();
    let check = |more: &[&str]| {
        let mut arguments = vec!["config", "check", file.to_str().unwrap()];
        arguments.extend(more);
        outcome(&arguments).0
    };
    assert_eq!(check(&[]), Some(2));
    assert_eq!(check(&["--elsewhere"]), Some(0));
    fs::write(&file, text.replace(":1", "")).unwrap();
    assert_eq!(check(&["--elsewhere"]), Some(2));
}
