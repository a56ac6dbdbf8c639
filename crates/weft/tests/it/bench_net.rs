//! `weft bench net` with real processes over loopback.

use crate::support::{Dev, Process, WEFT};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

/// Short: figures of a loopback that is shared with other tests are none.
const SHORT: [&str; 6] = ["--rounds", "3", "--flood", "5ms", "--together", "20ms"];

fn net(arguments: &[&str]) -> Output {
    Command::new(WEFT)
        .args(["bench", "net"])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(arguments: &[&str]) -> String {
    let output = net(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&done(&[arguments, &["--json"]].concat())).unwrap()
}

fn refused(code: i32, why: &str, arguments: &[&str]) {
    let output = net(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A peer of its own process, and where it is.
fn peer() -> (Process, String, String) {
    let mut child = Command::new(WEFT)
        .args(["bench", "net", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let (_, rest) = line.trim_end().split_once("peer at ").unwrap();
    let (address, lanes) = rest.split_once(", lanes at ").unwrap();
    (Process(child), address.to_owned(), lanes.to_owned())
}

#[test]
fn it_can_be_tried_without_anything() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("net.svg");
    let plot = plot.to_str().unwrap();
    let sizes = ["--local", "4", "--sizes", "64,4K,64K", "--plot", plot];
    let found = json(&[&SHORT[..], &sizes].concat());
    assert_eq!(found["nodes"].as_array().unwrap().len(), 4);
    let parameters = &found["parameters"];
    assert!(number(&parameters["latency"]) >= 0.0);
    assert!(number(&parameters["gap_per_byte"]) > 0.0);
    let sizes = parameters["sizes"].as_array().unwrap();
    let bytes: Vec<u64> = sizes
        .iter()
        .map(|at| at["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(bytes, [1, 64, 4096, 65536]);
    for at in sizes {
        for figure in ["gap", "send", "receive", "round_trip"] {
            let of = &at[figure];
            assert!(number(&of["median"]) > 0.0, "{figure}: {at}");
            assert!(number(&of["low"]) <= number(&of["high"]), "{figure}: {at}");
        }
        assert!(number(&at["round_trip"]["median"]) > number(&at["send"]["median"]));
    }
    let matrix = found["matrix"].as_array().unwrap();
    assert_eq!(matrix.len(), 12);
    assert!(matrix.iter().all(|flow| number(&flow["bandwidth"]) > 0.0));
    let pairs = found["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    assert_eq!(pairs[1]["flows"].as_array().unwrap().len(), 2);
    let sum: f64 = pairs[1]["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| number(&flow["bandwidth"]))
        .sum();
    assert!((number(&pairs[1]["bandwidth"]) / sum - 1.0).abs() < 1e-9);
    assert_eq!(
        found["links"]["around"]["flows"].as_array().unwrap().len(),
        3
    );
    assert!(found.get("judgements").is_none());
    let drawn = std::fs::read_to_string(plot).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("gap g(m)"));
}

#[test]
fn peers_of_their_own_are_measured_and_outlast_what_strangers_send() {
    let (first, at_first, lanes) = peer();
    let (_second, at_second, _) = peer();
    // Neither port minds what it is sent.
    for address in [&at_first, &lanes] {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0xff; 100_000],
            b"WEFTLANE\x01\0\0\0s\xff\xff\xff\xff",
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may be closed before all is written.
            let _: std::io::Result<()> = stream.write_all(bytes);
            let _: std::io::Result<()> = stream.shutdown(std::net::Shutdown::Write);
            let _: std::io::Result<usize> = stream.read_to_end(&mut Vec::new());
        }
    }
    let both = format!("{at_first},{at_second}");
    let shown = done(&[&SHORT[..], &["--peers", &both, "--here", "127.0.0.1:0"]].concat());
    for part in [
        "from 0 to 1:  L ",
        "os(m)",
        "one route at a time",
        "pairs of nodes",
        "from 2 others to 0",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Given what Weft reaches, it says who is the limit.
    let slow = [
        "--peers", &both, "--parts", "links", "--writes", "0.001", "--pairs", "1",
    ];
    let shown = done(&[&SHORT[..], &slow].concat());
    assert!(shown.contains("Writing: Weft is the limit"), "{shown}");
    assert!(
        shown.contains("stand for the cluster's 2 servers"),
        "{shown}"
    );
    // It ends as a server does.
    let mut first = first;
    first.signal(libc::SIGTERM);
    assert!(first.0.wait().unwrap().success());
    let gone = format!("{at_first},{at_second}");
    let why = format!("weft bench net serve --listen {at_first}");
    refused(3, &why, &["--peers", &gone]);
}

#[test]
fn what_cannot_be_measured_is_refused_in_words() {
    refused(2, "--local", &[]);
    refused(2, "2 to 64 peers", &["--peers", "127.0.0.1:1"]);
    refused(2, "named twice", &["--peers", "127.0.0.1:1,127.0.0.1:1"]);
    refused(2, "HOST:PORT", &["--peers", "n1,n2"]);
    refused(
        2,
        "by which the peers reach",
        &["--peers", "127.0.0.1:1", "--here", "0.0.0.0:0"],
    );
    refused(2, "peers", &["--here", "127.0.0.1:0"]);
    refused(2, "67108864 bytes", &["--local", "--message", "65M"]);
    refused(2, "rounds", &["--local", "--rounds", "1"]);
    refused(2, "60 s", &["--local", "--flood", "2min"]);
    refused(2, "above 1 byte", &["--local", "--sizes", "1"]);
    refused(2, "--pairs", &["--local", "--writes", "100"]);
    refused(2, "Weft", &["--local", "--mount", "/"]);
    refused(2, "--listen", &["serve", "--listen", "nowhere"]);
}

#[test]
fn what_weft_reaches_is_set_beside_the_network() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Dev::up(&directory.path().join("cluster"), &["--pairs", "2"]);
    let of = dev.directory.to_str().unwrap();
    let measured = [
        "--local", "2", "--parts", "links", "--dir", of, "--size", "8",
    ];
    let found = json(&[&SHORT[..], &measured].concat());
    let judged = found["judgements"].as_array().unwrap();
    assert_eq!(judged.len(), 2);
    for (judged, work) in judged.iter().zip(["write", "read"]) {
        assert_eq!(judged["work"], work);
        assert!(number(&judged["reached"]) > 0.0);
        assert_eq!(judged["shape"]["pairs"], 2);
        assert_eq!(judged["shape"]["client_driven"], false);
        let least = number(&judged["bounds"][0]["rate"]);
        let share = number(&judged["reached"]) / least;
        assert!((number(&judged["share"]) / share - 1.0).abs() < 1e-9);
    }
    // The file is gone again: it can be made anew, and is not there.
    let status: Value = serde_json::from_str(&dev.done(&["status", "--json"])).unwrap();
    assert_eq!(status["pairs"].as_array().unwrap().len(), 2);
    // A cluster's own servers are not measured.
    let config = std::fs::read_to_string(dev.directory.join("cluster.toml")).unwrap();
    let addresses = config
        .split("{ address = ")
        .chain(config.split("\naddress = "))
        .skip(1);
    let servers: Vec<&str> = addresses
        .filter_map(|rest| rest.strip_prefix('"')?.split('"').next())
        .collect();
    assert!(servers.len() >= 5, "{config}");
    let (_peer, at, _) = peer();
    for server in servers {
        refused(
            2,
            "server of a cluster",
            &["--peers", &format!("{at},{server}")],
        );
    }
    dev.end();
}
