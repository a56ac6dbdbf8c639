//! `weft`: the one binary. Servers, the mount, a whole cluster for development, and the tools.
//!
//! This crate stands outside the simulator: it starts processes, reads configuration, measures and
//! talks to people, so the rules that keep servers and client inside weft-env do not hold for it.
//! What it runs (the servers, the client) keeps them.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "see above: not run in the simulator"
)]

mod bench;
mod checkpoint;
mod config;
mod descriptors;
mod dev;
mod error;
mod explain;
mod exposure;
mod fsck;
mod group;
mod groups;
mod health;
mod helper;
mod init;
mod jobs;
mod log;
mod losses;
mod manual;
mod mounts;
mod needs;
mod output;
mod pair;
mod policy;
mod reliability;
mod scrub;
mod server;
mod slots;
mod spread;
mod status;
mod table;
mod tool;

use clap::{CommandFactory, Parser, Subcommand};
use error::{Error, Result, Tried};
use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;
use weft_env::Env;

/// Servers make and drop many buffers of all sizes; the system's allocator keeps too much of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "weft",
    version,
    about = "Weft: a parallel file system for the local disks of a cluster's own nodes",
    after_help = "WEFT_LOG sets what is logged to standard error, as in WEFT_LOG=debug or WEFT_LOG=weft_meta=debug.\n\
                  Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no cluster answers, 4 the cluster is not sound, 5 a server, or a founding, was refused and nothing changed, 101 a fault of Weft itself (a panic)."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A whole cluster on this machine, and what can be done to it.
    Dev(dev::DevCommand),
    /// Founds a name space: once, before its first metadata server is started.
    Init(init::InitCommand),
    /// Runs a metadata server.
    Meta(server::ServerCommand),
    /// Runs a data server.
    Data(server::ServerCommand),
    /// Mounts a cluster by FUSE.
    Mount(server::MountCommand),
    /// Mounts as mount(8) orders: what `mount -t weft` calls (docs/operating/mount.md).
    #[command(name = "mount.weft", hide = true, disable_help_flag = true)]
    MountHelper {
        /// As mount(8) gives them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs an NFS gateway: any NFS client can mount the cluster by it.
    Nfs(server::ServerCommand),
    /// Checks a configuration file and prints the values in effect.
    Config(config::ConfigCommand),
    /// Pairs, states, epochs, space, rates, recovery.
    Status(status::StatusCommand),
    /// What is wrong, since when, what it means and what to do. Exit codes: 0 well, 1 degraded, 2 data is at one copy or cannot be read, 3 cannot tell.
    Health(health::HealthCommand),
    /// What each data server alone has: what its death could cost now.
    Exposure(exposure::ExposureCommand),
    /// What died with a data server and the client that wrote through it.
    Losses(losses::LossesCommand),
    /// Where a file lies and what its acknowledgements mean.
    Explain(explain::ExplainCommand),
    /// How files made in a directory will lie on the pairs.
    Policy(policy::PolicyCommand),
    /// Adds pairs and takes them away, while files are in use.
    Pair(pair::PairCommand),
    /// Adds metadata servers and takes them away, while files are in use.
    Group(group::GroupCommand),
    /// Which metadata group has which part of the name space; moves parts while they are in use.
    Slots(slots::SlotsCommand),
    /// Has a directory's entries kept by several metadata groups, for directories that many work in.
    Spread(spread::SpreadCommand),
    /// Moves files from fuller to emptier pairs.
    Rebalance(pair::RebalanceCommand),
    /// Reads and checks all data, heals what is bad.
    Scrub(scrub::ScrubCommand),
    /// Keeps the name space as it is now under a name, and brings it back.
    Checkpoint(checkpoint::CheckpointCommand),
    /// Checks the name space, or compares the copies.
    Fsck(fsck::FsckCommand),
    /// How long a cluster would keep its data under each protocol.
    Reliability(reliability::ReliabilityCommand),
    /// Measures a mount.
    Bench(bench::BenchCommand),
    /// Writes manual pages and shell completions (docs/book/operations.md).
    #[command(hide = true)]
    Manual(manual::ManualCommand),
}

/// The command line's definition.
fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs a tool's async part.
fn block_on<T, F: Future<Output = Result<T>>>(main: impl FnOnce(Env) -> F) -> Result<T> {
    let main = |env: Env| async move {
        server::panic_when_armed(&env);
        main(env).await
    };
    weft_env::real::run(main).tried(|| "cannot start".into())?
}

fn main() -> ExitCode {
    log::end_on_panic();
    if let Some(arguments) = helper::called_as() {
        return help_mount(&arguments);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    if let Command::MountHelper { arguments } = &arguments.command {
        return help_mount(arguments);
    }
    let level = match &arguments.command {
        Command::Meta(_) | Command::Data(_) | Command::Mount(_) | Command::Nfs(_) => "info",
        // People get an error once, in words; not as a log line too.
        _ => "error",
    };
    descriptors::raise();
    let code = match log::start(level).and_then(|()| run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        // All has been said.
        Err(Error::Verdict(code)) => ExitCode::from(code),
        Err(error) => {
            log::tell!("weft: {error}");
            ExitCode::from(error.exit_code())
        }
    };
    log::flush();
    code
}

/// `weft health` has a meaning of its own for the usual exit code.
fn misused(error: &clap::Error) -> ExitCode {
    let code = match error.exit_code() {
        0 => 0,
        _ if std::env::args_os().nth(1).is_some_and(|it| it == "health") => {
            weft_health::Verdict::Unknown as u8
        }
        code => u8::try_from(code).unwrap_or(2),
    };
    // Whoever reads it may have gone.
    let _: std::io::Result<()> = error.print();
    ExitCode::from(code)
}

/// As `mount.weft`, with exit codes of mount(8).
fn help_mount(arguments: &[OsString]) -> ExitCode {
    descriptors::raise();
    let code = helper::run(arguments);
    log::flush();
    code
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Dev(command) => dev::run(command),
        Command::Init(command) => init::run(&command),
        Command::Meta(command) => server::meta(&command),
        Command::Data(command) => server::data(&command),
        // Before this: its exit codes are others'.
        Command::MountHelper { .. } => Ok(()),
        Command::Mount(command) => server::mount(&command),
        Command::Nfs(command) => server::nfs(&command),
        Command::Config(command) => config::run(&command),
        Command::Status(command) => block_on(|env| status::run(env, command)),
        Command::Health(command) => block_on(|env| health::run(env, command)),
        Command::Exposure(command) => block_on(|env| exposure::run(env, command)),
        Command::Losses(command) => block_on(|env| losses::run(env, command)),
        Command::Explain(command) => block_on(|env| explain::run(env, command)),
        Command::Policy(command) => block_on(|env| policy::run(env, command)),
        Command::Pair(command) => block_on(|env| pair::run(env, command)),
        Command::Group(command) => block_on(|env| group::run(env, command)),
        Command::Slots(command) => block_on(|env| slots::run(env, command)),
        Command::Spread(command) => block_on(|env| spread::run(env, command)),
        Command::Rebalance(command) => block_on(|env| pair::rebalance(env, command)),
        Command::Scrub(command) => block_on(|env| scrub::run(env, command)),
        Command::Checkpoint(command) => block_on(|env| checkpoint::run(env, command)),
        Command::Fsck(command) => block_on(|env| fsck::run(env, command)),
        Command::Reliability(command) => reliability::run(&command),
        Command::Bench(command) => bench::run(command),
        Command::Manual(command) => manual::run(&command),
    }
}
