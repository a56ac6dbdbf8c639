//! `cargo xtask guests`: a whole cluster used through its NFS gateways by the Linux kernel's own client, in two
//! virtual machines, under each version of the protocol.
//!
//! The virtual machines are started by a program of yours, named by the variable `WEFT_GUEST` of the environment
//! (`guest.rs` says how it is called): a machine on which tests run needs no NFS client of its own then, and none
//! of its mounts are touched. What is checked stands in docs/nfs-clients.md, with what is left out and why.

mod checks;
mod front;
mod guest;

use crate::cluster::{Cluster, build_weft};
use crate::run::{Outcome, cargo, root};
use crate::suites;
use checks::{CHECKS, Ground};
use guest::{Guest, PROGRAM};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Gateways, two for each guest.
const GATEWAYS: usize = 4;
/// Versions of NFS.
const VERSIONS: [&str; 3] = ["3", "4.1", "4.2"];

/// Which checks to run; all if none is named.
#[derive(clap::Args, Debug, Clone)]
pub struct Guests {
    /// Only these.
    #[arg(value_parser = CHECKS.map(|(name, _)| name))]
    only: Vec<String>,
    /// Versions of NFS, one after the other.
    #[arg(long, value_delimiter = ',', default_values = VERSIONS, value_parser = VERSIONS)]
    versions: Vec<String>,
    /// Pass this to pjdfstest: only tests whose names contain it.
    #[arg(long)]
    filter: Option<String>,
    /// Leave what was made in target/guests.
    #[arg(long)]
    keep: bool,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// Runs them all and says what each did; fails if any did.
///
/// # Errors
/// The names of those that failed, or why nothing could be run.
pub fn guests(arguments: &Guests) -> Outcome {
    let Some(program) = std::env::var_os(PROGRAM) else {
        return Err(format!(
            "{PROGRAM} is to name a program that runs a script on a Linux with an NFS client: \
             `$ {PROGRAM} run --name NAME --timeout SECONDS --log FILE SCRIPT ARGS...`"
        ));
    };
    let is_wanted =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let tools = root().join("target/suites/tools");
    suites::install(&tools, &is_wanted)?;
    let weft = match &arguments.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let run = root().join("target/guests");
    let failed = |error| format!("{}: {error}", run.display());
    if run.exists() {
        fs::remove_dir_all(&run).map_err(failed)?;
    }
    fs::create_dir_all(&run).map_err(failed)?;
    let directory = run.join("cluster");
    let gateways = GATEWAYS.to_string();
    // The suites are several users, root among them; and a virtual machine's ports are not its host's.
    let more = ["--pairs", "2", "--nfs", &gateways, "--nfs-squash", "none"];
    let cluster = Cluster::up_unmounted(&weft, &directory, &more)?;
    let ground = Ground {
        cluster: &cluster,
        gateways: cluster.gateways(GATEWAYS)?,
        guests: [
            Guest::start(Path::new(&program), "one", &run)?,
            Guest::start(Path::new(&program), "two", &run)?,
        ],
        sources: sources()?,
        tools,
        run: run.clone(),
        filter: arguments.filter.clone(),
    };
    let mut failures = Vec::new();
    for version in &arguments.versions {
        if let Err(why) = ground.mount(version) {
            println!("== version {version}: cannot be mounted: {why}");
            failures.push(format!("mounting version {version}"));
            continue;
        }
        for (name, check) in CHECKS.iter().filter(|(name, _)| is_wanted(name)) {
            let start = Instant::now();
            let outcome = check(&ground, version);
            let seconds = start.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => println!("== version {version}, {name}: passed, {seconds:.1} s"),
                Err(why) => {
                    println!("== version {version}, {name}: FAILED after {seconds:.1} s: {why}");
                    failures.push(format!("{name} by version {version}"));
                }
            }
        }
        ground.unmount()?;
    }
    drop(ground);
    cluster.down()?;
    if !failures.is_empty() {
        return Err(format!(
            "{} (logs in {})",
            failures.join(", "),
            run.display()
        ));
    }
    match arguments.keep {
        true => Ok(()),
        false => fs::remove_dir_all(&run).map_err(failed),
    }
}

/// Sources in C with some history: the allocator that is one of our dependencies.
fn sources() -> Result<PathBuf, String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "libmimalloc-sys")
        .find_map(|package| package["manifest_path"].as_str());
    let directory = manifest.and_then(|manifest| Path::new(manifest).parent());
    let sources = directory.map(|directory| directory.join("c_src/mimalloc/v3"));
    sources
        .filter(|sources| sources.is_dir())
        .ok_or_else(|| "libmimalloc-sys is no dependency any more, or has no sources".into())
}
