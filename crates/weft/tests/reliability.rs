//! `weft reliability` as a process: what it prints, what it writes, and how it refuses.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "acts on real processes and files"
)]

mod support;

use std::process::{Command, Output};
use support::WEFT;

fn reliability(arguments: &[&str]) -> Output {
    Command::new(WEFT)
        .arg("reliability")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn it_needs_no_cluster_and_prints_a_table_or_json() {
    let table = reliability(&[]);
    assert!(table.status.success());
    let table = text(&table.stdout);
    for name in ["server-async", "hybrid", "no mirrors", "RAID-1 limit"] {
        assert!(table.contains(name), "{table}");
    }
    let json = reliability(&[
        "--json",
        "--pairs",
        "1",
        "--mttf-switch",
        "never",
        "--protocol",
        "client-sync",
    ]);
    assert!(json.status.success());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["protocols"].as_array().unwrap().len(), 1);
    assert!(json["mttf_switch_seconds"].is_null());
    // One pair behind a network that holds: (3 lambda + mu) / (2 lambda^2).
    let (lambda, mu) = (1.0 / 365.25, 0.5);
    let days = json["protocols"][0]["weft"]["mttdl_seconds"]
        .as_f64()
        .unwrap()
        / 86_400.0;
    let expected = (3.0 * lambda + mu) / (2.0 * lambda * lambda);
    assert!((days / expected - 1.0).abs() < 1e-9, "{days} {expected}");
}

#[test]
fn it_plots_what_was_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plot.svg");
    let done = reliability(&[
        "--plot",
        path.to_str().unwrap(),
        "--pairs",
        "4",
        "--protocol",
        "client-async",
    ]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let plot = std::fs::read_to_string(&path).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    for label in ["4 pairs", "32 pairs", "CEFT, client-async", "no mirrors"] {
        assert!(plot.contains(label), "no {label}");
    }
    assert!(!plot.contains("server-async") && !plot.contains("NaN"));
}

#[test]
fn it_refuses_with_what_to_do_instead() {
    for (arguments, says) in [
        (["--mttd", "server-sync=1s"], "no time to duplication"),
        (["--mttf-node", "1d"], "--mttr-node"),
    ] {
        let refused = reliability(&arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(says));
    }
    let no_place = reliability(&["--plot", "/proc/nowhere/plot.svg"]);
    assert_eq!(no_place.status.code(), Some(1));
    assert!(text(&no_place.stderr).contains("/proc/nowhere/plot.svg"));
    assert!(no_place.stdout.is_empty());
}
