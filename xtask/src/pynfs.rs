//! `cargo xtask pynfs`: pynfs, a test suite of the protocol that others wrote, against a gateway of a whole cluster.
//!
//! A checkout of it, built as its README says, is named by the variable `WEFT_PYNFS` of the environment; `python3` of
//! the path runs it. What may fail stands in docs/nfs-clients.md with its reason.

use crate::cluster::{Cluster, build_weft};
use crate::run::{Outcome, root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout is named by this variable of the environment.
const CHECKOUT: &str = "WEFT_PYNFS";

/// Minor versions of NFS.
const VERSIONS: [&str; 2] = ["4.1", "4.2"];

/// Flags of tests: those that wait for a lease to end are left out, and what came with 4.2 is not in the suite's `all`.
fn flags(version: &str) -> &'static [&'static str] {
    match version {
        "4.1" => &["all", "nocourteous"],
        _ => &["all", "nocourteous", "xattr", "sparse", "copy"],
    }
}

/// Tests that may fail, each with its reason in docs/nfs-clients.md.
const EXPECTED_FAILURES: [(&str, &str); 5] = [
    ("4.1", "DELEG24"),
    ("4.1", "DELEG25"),
    ("4.2", "DELEG24"),
    ("4.2", "DELEG25"),
    ("4.2", "EID4"),
];

/// Which tests to run.
#[derive(clap::Args, Debug, Clone)]
pub struct Pynfs {
    /// Its flags and codes of tests; by default all that apply.
    tests: Vec<String>,
    /// Versions of NFS, one after the other.
    #[arg(long, value_delimiter = ',', default_values = VERSIONS, value_parser = VERSIONS)]
    versions: Vec<String>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// Runs it and says what failed.
///
/// # Errors
/// The codes of tests that failed and may not, or passed though they are said to fail; or why nothing could be run.
pub fn pynfs(arguments: &Pynfs) -> Outcome {
    let checkout = std::env::var_os(CHECKOUT).map(PathBuf::from);
    let program = checkout.map(|checkout| checkout.join("nfs4.1/testserver.py"));
    let program = program.filter(|program| program.is_file());
    let program = program.ok_or_else(|| {
        format!("{CHECKOUT} is to name a checkout of pynfs, built: it has nfs4.1/testserver.py")
    })?;
    let weft = match &arguments.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let run = root().join("target/pynfs");
    let failed = |error| format!("{}: {error}", run.display());
    if run.exists() {
        fs::remove_dir_all(&run).map_err(failed)?;
    }
    fs::create_dir_all(&run).map_err(failed)?;
    // The suite is several users, root among them.
    let more = ["--nfs", "1", "--nfs-squash", "none"];
    let cluster = Cluster::up_unmounted(&weft, &run.join("cluster"), &more)?;
    let gateway = cluster.gateways(1)?[0].to_string();
    let mut wrong = Vec::new();
    for version in &arguments.versions {
        let minor = version.rsplit('.').next().unwrap_or_default();
        let results = run.join(format!("results-{minor}.json"));
        let tests = match &arguments.tests[..] {
            [] => flags(version)
                .iter()
                .map(|flag| (*flag).to_owned())
                .collect(),
            tests => tests.to_vec(),
        };
        let status = Command::new("python3")
            .arg(&program)
            .arg(format!("{gateway}/pynfs-{minor}"))
            .args(["--maketree", "--hidepass", "--minorversion", minor])
            .arg(format!("--json={}", results.display()))
            .args(tests)
            .current_dir(program.parent().unwrap_or(Path::new("/")))
            .status()
            .map_err(|error| format!("python3: {error}"))?;
        let text = fs::read(&results).map_err(|error| {
            format!("{}: {error}; pynfs ended with {status}", results.display())
        })?;
        let results: Value =
            serde_json::from_slice(&text).map_err(|error| format!("results of pynfs: {error}"))?;
        wrong.extend(judge(version, &results));
    }
    cluster.down()?;
    match wrong.is_empty() {
        true => fs::remove_dir_all(&run).map_err(failed),
        false => Err(wrong.join("; ")),
    }
}

/// Says how a version did. Returns what is not as it should be.
fn judge(version: &str, results: &Value) -> Vec<String> {
    let cases = results["testcase"].as_array().into_iter().flatten();
    let (mut passed, mut skipped, mut wrong) = (0, 0, Vec::new());
    for case in cases {
        let code = case["code"].as_str().unwrap_or("?");
        let has_failed = case.get("failure").is_some() || case.get("error").is_some();
        let may_fail = EXPECTED_FAILURES.contains(&(version, code));
        match (case.get("skipped").is_some(), has_failed, may_fail) {
            (true, _, _) => skipped += 1,
            (_, true, false) => wrong.push(format!("{code} of {version} failed")),
            (_, false, true) => wrong.push(format!("{code} of {version} passed, which is new")),
            (_, true, true) => println!("   {code} failed, as it may"),
            (_, false, false) => passed += 1,
        }
    }
    println!("== pynfs {version}: {passed} passed, {skipped} not asked for or not applicable");
    if passed == 0 {
        wrong.push(format!("no test of {version} passed"));
    }
    wrong
}
