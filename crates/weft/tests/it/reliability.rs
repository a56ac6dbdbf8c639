//! `weft reliability` as a process: what it prints, what it writes, and how it refuses.

use crate::support::{Dev, WEFT, can_mount};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

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

/// The answer of `weft reliability --live --json` once `field` is `measured`, and it tells what is wanted: data servers tell
/// the service now and then what they have counted.
fn live(dev: &Dev, field: &str, tells: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let said = dev.done(&["reliability", "--live", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        if json["live"]["from"][field] == "measured" && tells(&json) {
            return json;
        }
        assert!(Instant::now() < deadline, "{field} is not told: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_running_cluster_tells_what_it_has_measured() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--mount", mount.to_str().unwrap(), "--pairs", "1"],
    );
    let untouched = dev.done(&["reliability", "--live"]);
    assert!(untouched.contains("no recovery has run yet"), "{untouched}");
    assert!(untouched.contains("1 pairs;"), "{untouched}");

    let directory = mount.join("d");
    std::fs::create_dir(&directory).unwrap();
    let policy = Command::new(WEFT)
        .args(["policy", "set", "--protocol", "server-async"])
        .arg(&directory)
        .output()
        .unwrap();
    assert!(policy.status.success(), "{}", text(&policy.stderr));
    for file in 0..8 {
        let path = directory.join(format!("f{file}"));
        std::fs::write(&path, vec![7; 4 << 20]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    let seconds = |json: &serde_json::Value, pointer: &str| json.pointer(pointer).unwrap().as_f64();
    // At least 32 pieces were written in the time that the cluster is up.
    let json = live(&dev, "mttd_server_async", |json| {
        let over = seconds(json, "/live/over_seconds").unwrap();
        seconds(json, "/mttw_seconds").is_some_and(|mttw| mttw > 0.0 && mttw <= over / 30.0)
    });
    assert_eq!(json["live"]["from"]["mttw"], "measured");
    assert_eq!(json["live"]["from"]["mttd_client_async"], "default");
    assert_eq!(json["live"]["from"]["mttr_node"], "default");
    let mttd = seconds(&json, "/mttd_seconds/server-async").unwrap();
    assert!(mttd > 0.0 && mttd < 5.0, "{mttd}");
    assert_eq!(json["protocols"].as_array().unwrap().len(), 5);

    dev.done(&["dev", "kill", "data:0.1"]);
    std::fs::write(directory.join("more"), vec![8; 20 << 20]).unwrap();
    dev.done(&["dev", "start", "data:0.1"]);
    dev.done(&["fsck", "--data", "--wait", "60"]);
    let json = live(&dev, "mttr_node", |_| true);
    let repair = seconds(&json, "/mttr_node_seconds").unwrap();
    assert!(
        repair > 86_400.0,
        "a day until the node is replaced: {repair}"
    );
    // What is given on the command line is taken.
    let given = dev.done(&[
        "reliability",
        "--live",
        "--json",
        "--mttr-node",
        "12h",
        "--pairs",
        "4",
    ]);
    let given: serde_json::Value = serde_json::from_str(&given).unwrap();
    assert_eq!(given["live"]["from"]["mttr_node"], "given");
    assert_eq!(
        (&given["mttr_node_seconds"], &given["pairs"]),
        (&43_200.0.into(), &4.into())
    );
    // Nothing is written while it looks.
    let idle = dev.done(&["reliability", "--live", "--json", "--over", "1s"]);
    let idle: serde_json::Value = serde_json::from_str(&idle).unwrap();
    assert_eq!(idle["live"]["from"]["mttw"], "default", "{idle}");
    dev.end();
}
