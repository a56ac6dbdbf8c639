//! `cargo xtask`: the chores of Weft's developers, in Rust so that they run wherever cargo does.
//!
//! Chores act on the machine itself (they start processes, read clocks and files), so the rules that
//! keep servers inside weft-env do not hold here.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod bench;
mod cluster;
mod demo;
mod fix;
mod fuzz;
mod guests;
mod pynfs;
mod run;
mod spaces;
mod suites;
mod testbed;
mod xdr;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Weft's chores", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Benchmarks: one JSON object a line, a table and plots.
    Bench(bench::BenchCommand),
    /// Unpacks and builds a real source tree on a mounted cluster while data servers are killed.
    Demo {
        /// Leave what was made in target/demo.
        #[arg(long)]
        keep: bool,
    },
    /// Feeds every decoder random bytes (needs a nightly compiler; installs cargo-fuzz).
    Fuzz {
        /// Only this target.
        target: Option<String>,
        /// Seconds for each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Formats the source and applies what clippy can mend by itself.
    Fix,
    /// Test suites that others wrote, on a mount of a whole cluster, as root.
    Suites(suites::Suites),
    /// A cluster used through its NFS gateways by the Linux kernel's client, in virtual machines that the program
    /// named by WEFT_GUEST starts.
    Guests(guests::Guests),
    /// Runs pynfs, the protocol's test suite, against a gateway
    Pynfs(pynfs::Pynfs),
    /// Replays one simulated cluster: prints its log, and why it failed if it did (`--help` says more).
    #[command(disable_help_flag = true)]
    Sim(Simulated),
    /// A cluster in which every process has its own network name space, address and link rate.
    /// As root.
    Testbed(testbed::TestbedCommand),
    /// Simulates clusters from fresh seeds (`--help` says more).
    #[command(disable_help_flag = true)]
    Soak(Simulated),
    /// Makes the mistakes that people make with directories, disks and settings, with real processes, and looks what comes of
    /// each (crates/weft/tests/it/trial).
    Trial {
        /// Only this one: the name of its file.
        only: Option<String>,
    },
    /// Writes the types of weft-xdr from the RFCs' definitions.
    Xdr {
        /// Only says whether they are what would be written.
        #[arg(long)]
        check: bool,
    },
}

/// What is told to the simulator's own program.
#[derive(clap::Args)]
struct Simulated {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// In a program of its own: with the simulator all of Weft would be built for every chore.
fn simulate(chore: &str, told: &Simulated) -> run::Outcome {
    let program = [
        "run",
        "--quiet",
        "--package",
        "weft-sim",
        "--example",
        "sim",
    ];
    let mut command = run::cargo();
    command
        .args(program)
        .args(["--", chore])
        .args(&told.arguments);
    let status = command
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{chore} {}", told.arguments.join(" "))),
    }
}

/// One after the other: each starts a cluster. A name that no trial has is refused: it would pass.
fn trial(only: Option<&str>) -> run::Outcome {
    let mistakes = format!("trial::{}", only.unwrap_or_default());
    let test = ["test", "--quiet", "-p", "weft", "--test", "it"];
    let listed = run::cargo()
        .args(test)
        .args(["--", "--list", "trial::"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let all: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    if !all.iter().any(|name| name.contains(&mistakes)) {
        return Err(format!(
            "no trial is called {mistakes}; there are:\n  {}",
            all.join("\n  ")
        ));
    }
    run::step(
        "trial",
        run::cargo()
            .args(test)
            .args(["--", "--test-threads", "1", &mistakes]),
    )
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Bench(command) => bench::run(command),
        Chore::Demo { keep } => demo::demo(keep),
        Chore::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
        Chore::Fix => fix::fix(),
        Chore::Guests(arguments) => guests::guests(&arguments),
        Chore::Pynfs(arguments) => pynfs::pynfs(&arguments),
        Chore::Sim(told) => simulate("sim", &told),
        Chore::Soak(told) => simulate("soak", &told),
        Chore::Suites(arguments) => suites::suites(&arguments),
        Chore::Testbed(command) => testbed::run(command),
        Chore::Trial { only } => trial(only.as_deref()),
        Chore::Xdr { check } => xdr::xdr(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nfailed: {why}");
            ExitCode::FAILURE
        }
    }
}
