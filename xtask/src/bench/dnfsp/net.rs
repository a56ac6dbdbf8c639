//! Section 5 of the paper behind links of a rate: what the network between the nodes of a cluster carries, alone and when
//! ever more pairs transfer at the same time (figures 4 and 5), and what Weft reaches beside it. By `weft bench net`.

use super::{BENCH, DnfspOptions};
use crate::bench::bed_of;
use crate::bench::report::Line;
use crate::run::Outcome;
use crate::testbed::{Bed, Cluster, Seat};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Of data servers; each has a peer beside it.
const SERVERS: usize = 8;
/// Where peers listen.
const PORT: u16 = 7900;
/// A peer that does not listen by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
/// MiB that the client writes and reads.
const FILE_MIB: &str = "128";

/// Measures from a client's node, and reports.
///
/// # Errors
/// If no bed can be made, or a peer or the cluster does not start.
pub fn network(options: &DnfspOptions, weft: &Path, lines: &mut Vec<Line>) -> Outcome {
    let dir = options.dir.as_deref();
    let (mut bed, _) = bed_of(dir, Some(weft), options.rate, [SERVERS, 1])?;
    let servers: Vec<String> = (0..SERVERS).map(|server| format!("s{server}")).collect();
    let seats = Seat::pairs(&servers);
    let cluster = Cluster::start(&mut bed, weft, "net", "meta", &seats, false, true)?;
    let mut peers = Vec::new();
    for server in &servers {
        peers.push(start_peer(&mut bed, weft, server)?);
    }
    let measured = measure(&bed, &cluster, options, weft, &peers);
    cluster.stop(&mut bed)?;
    let measured = measured?;
    for judged in measured["judgements"].as_array().into_iter().flatten() {
        println!("{judged}");
    }
    lines.extend(lines_of(&measured, &format!("links of {}", options.rate)));
    Ok(())
}

fn start_peer(bed: &mut Bed, weft: &Path, node: &str) -> Result<String, String> {
    let address = format!("{}:{PORT}", bed.address(node)?);
    let name = format!("{node}-peer");
    let arguments = ["bench", "net", "serve", "--listen", &address];
    let arguments = arguments.map(str::to_owned).to_vec();
    bed.start(node, &name, weft, arguments)?;
    let late = Instant::now() + UP_PATIENCE;
    while !bed.last_words(&name).contains("peer at") {
        if let Some(words) = bed.has_ended(&name) {
            return Err(words);
        }
        if Instant::now() > late {
            return Err(format!("{name} does not listen"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(address)
}

fn measure(
    bed: &Bed,
    cluster: &Cluster,
    options: &DnfspOptions,
    weft: &Path,
    peers: &[String],
) -> Result<Value, String> {
    let report = &options.report;
    std::fs::create_dir_all(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let mut command = bed.command("c0", weft)?;
    command.args(["bench", "net", "--json", "--meta", &cluster.meta]);
    command.args(["--here", &format!("{}:0", bed.address("c0")?)]);
    command.args(["--peers", &peers.join(","), "--size", FILE_MIB]);
    // Not the matrix: all links are alike here, and there are 72 routes.
    command.args(["--parts", "parameters,pairs,links"]);
    command.arg("--plot").arg(report.join("network.svg"));
    let output = command
        .output()
        .map_err(|error| format!("weft bench net: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).map_err(|error| format!("weft bench net said {said:?}: {error}"))
}

/// What it found, as figures of the report.
fn lines_of(measured: &Value, links: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add =
        |system: &str, figure: &str, case: &str, value: &Value, scale: f64, unit: &str| {
            // What was not measured is left out.
            if let Some(value) = value.as_f64() {
                let figure = format!("{figure}, {links}");
                let value = value * scale;
                lines.push(Line::of(BENCH, system, &figure, case, value, unit));
            }
        };
    let parameters = &measured["parameters"];
    add("network", "L", "0 to 1", &parameters["latency"], 1e6, "us");
    let per_byte = &parameters["gap_per_byte"];
    add("network", "G", "0 to 1", per_byte, 1e9, "ns/B");
    for at in parameters["sizes"].as_array().into_iter().flatten() {
        let case = format!("{} B", at["bytes"]);
        let figures = [("g(m)", "gap"), ("os(m)", "send"), ("or(m)", "receive")];
        for (figure, name) in figures {
            add("network", figure, &case, &at[name]["median"], 1e6, "us");
        }
        add("network", "T(m)", &case, &at["delivery"], 1e6, "us");
        let by_model = &at["delivery_by_model"];
        add("network", "T(m) by LogGP", &case, by_model, 1e6, "us");
    }
    for together in measured["pairs"].as_array().into_iter().flatten() {
        let flows = together["flows"].as_array().map_or(0, Vec::len);
        let case = format!("{flows} pairs");
        let all = &together["bandwidth"];
        add(
            "network",
            "pairs at the same time",
            &case,
            all,
            1e-6,
            "MB/s",
        );
    }
    for (name, case) in [
        ("out", "client to all"),
        ("into", "all to client"),
        ("around", "each to the next"),
    ] {
        let all = &measured["links"][name]["bandwidth"];
        add("network", "links", case, all, 1e-6, "MB/s");
    }
    for judged in measured["judgements"].as_array().into_iter().flatten() {
        let work = judged["work"].as_str().unwrap_or_default();
        let (figure, reached) = (format!("one client, {work}"), &judged["reached"]);
        add("weft", &figure, "1 client", reached, 1e-6, "MB/s");
        let bound = &judged["bounds"][0]["rate"];
        add("network", &figure, "1 client", bound, 1e-6, "MB/s");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_measured_becomes_lines_and_nothing_else_does() {
        let measured = json!({
            "parameters": {"latency": 1e-4, "gap_per_byte": 8e-8, "sizes": [
                {"bytes": 64, "gap": {"median": 2e-6}, "delivery": 1e-4}
            ]},
            "pairs": [{"flows": [{}, {}], "bandwidth": 23e6}],
            "judgements": [{"work": "write", "reached": 11e6, "bounds": [{"rate": 12e6}]}],
        });
        let lines = lines_of(&measured, "links of 100mbit");
        let find = |figure: &str| {
            let found: Vec<f64> = lines
                .iter()
                .filter(|line| line.figure.starts_with(figure))
                .map(|line| line.value)
                .collect();
            found
        };
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
            }
        };
        near(find("L,"), &[100.0]);
        near(find("G,"), &[80.0]);
        near(find("g(m)"), &[2.0]);
        near(find("os(m)"), &[]);
        near(find("pairs"), &[23.0]);
        near(find("one client, write"), &[11.0, 12.0]);
        assert!(lines_of(&json!({}), "").is_empty());
    }
}
