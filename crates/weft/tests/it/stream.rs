//! `weft bench stream`: a client that needs no mount, waits to be let go, and says how long it took.

use crate::support::{Dev, WEFT};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn stream(meta: &str, input: &[u8], arguments: &[&str]) -> Output {
    let mut child = Command::new(WEFT)
        .args(["bench", "stream", "--meta", meta])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that refuses its arguments does not read.
    let _: std::io::Result<()> = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The one JSON object after `ready`.
fn times(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    let (ready, json) = text.split_once('\n').unwrap();
    assert_eq!(ready, "ready");
    serde_json::from_str(json).unwrap()
}

#[test]
fn it_writes_reads_and_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Dev::up(&directory.path().join("cluster"), &["--pairs", "2"]);
    let status: Value = serde_json::from_str(&dev.done(&["status", "--json"])).unwrap();
    assert_eq!(status["pairs"].as_array().unwrap().len(), 2);
    let config = std::fs::read_to_string(dev.directory.join("cluster.toml")).unwrap();
    let meta = config
        .lines()
        .skip_while(|line| !line.contains("meta"))
        .find_map(|line| line.trim().strip_prefix("address = "))
        .unwrap()
        .trim_matches('"')
        .to_owned();

    let write = ["--file", "/a/b", "--protocol", "client-sync", "--sync"];
    let written = times(&stream(
        &meta,
        b"go\n",
        &[&write[..], &["--write", "3000001"]].concat(),
    ));
    assert_eq!(written["bytes"], 3_000_001);
    let sum: f64 = ["open_s", "transfer_s", "close_s"]
        .iter()
        .map(|step| written[step].as_f64().unwrap())
        .sum();
    assert!((written["total_s"].as_f64().unwrap() - sum).abs() < 1e-9);
    assert!(written["transfer_s"].as_f64().unwrap() > 0.0);

    times(&stream(
        &meta,
        b"go\n",
        &["--file", "a/b", "--read", "3000001"],
    ));
    // The last byte is there, and none after it.
    let last = ["--file", "a/b", "--offset", "3000000", "--read"];
    times(&stream(&meta, b"go\n", &[&last[..], &["1"]].concat()));
    let beyond = stream(&meta, b"go\n", &[&last[..], &["2"]].concat());
    assert_eq!(beyond.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&beyond.stderr).contains("ends at byte 3000001"));

    let removed = ["--file", "a/c", "--write", "1", "--remove"];
    times(&stream(&meta, b"go\n", &removed));
    let missing = stream(&meta, b"go\n", &["--file", "a/c", "--read", "1"]);
    assert_eq!(missing.status.code(), Some(1));

    // Whoever goes away without a word lets nothing begin.
    let unsaid = stream(&meta, b"", &["--file", "a/d", "--write", "1"]);
    assert_eq!(unsaid.status.code(), Some(2));
    for wrong in [
        &["--file", "a/b"][..],
        &["--file", "a/b", "--read", "1", "--write", "1"],
        &["--file", "a/../b", "--read", "1"],
        &["--file", "a/b", "--write", "0"],
        &["--file", "a/b", "--write", "1", "--record", "0"],
        &[
            "--file",
            "a/b",
            "--write",
            "1",
            "--offset",
            "18446744073709551615",
        ],
    ] {
        assert_eq!(
            stream(&meta, b"go\n", wrong).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
    dev.end();
}
