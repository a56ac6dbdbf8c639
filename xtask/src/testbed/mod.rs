//! `cargo xtask testbed`: real processes, each in its own network name space with its own address
//! and link rate (docs/operating/testbed.md). Benchmarks use [`Bed`] and [`Cluster`].

mod bed;
mod keeper;
mod mounts;
mod network;
mod nodes;
mod relay;

pub use bed::Bed;
pub use mounts::Mount;
pub use network::{Rate, Way, check};
pub use nodes::{Cluster, Seat, found};

use crate::cluster::build_weft;
use crate::run::Outcome;
use clap::{Args, Subcommand};
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How soon Ctrl-C is seen.
const LOOK: Duration = Duration::from_millis(50);

/// `cargo xtask testbed`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TestbedCommand {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: TestbedOptions,
}

#[derive(Args)]
struct TestbedOptions {
    /// Pairs of data servers.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=64))]
    pairs: u32,
    /// Nodes for clients.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=256))]
    clients: u32,
    /// What each link carries each way: 100mbit, 1gbit, ...; without it as much as the machine can.
    #[arg(long)]
    rate: Option<Rate>,
    /// One server for each pair: no mirroring.
    #[arg(long)]
    alone: bool,
    /// Put a relay before every server.
    #[arg(long)]
    relay: bool,
    /// Only the nodes: start no server.
    #[arg(long, conflicts_with = "relay")]
    bare: bool,
    /// Where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// What a bed starts of itself.
#[derive(Subcommand)]
enum Part {
    /// Removes the bed when standard input ends.
    #[command(hide = true)]
    Keep(keeper::Kept),
    /// Relays TCP connections.
    #[command(hide = true)]
    Relay(relay::RelayOptions),
}

/// Runs the chore.
///
/// # Errors
/// If no bed can be made here, or the cluster does not serve.
pub fn run(command: TestbedCommand) -> Outcome {
    match command.part {
        Some(Part::Keep(kept)) => keeper::keep(&kept),
        Some(Part::Relay(options)) => relay::run(&options),
        None => stay(&command.options),
    }
}

static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: i32) {
    IS_OVER.store(true, Ordering::SeqCst);
}

fn stay(options: &TestbedOptions) -> Outcome {
    network::check()?;
    let weft = match &options.weft {
        _ if options.bare => PathBuf::new(),
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let handler = on_signal as extern "C" fn(i32);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores into an atomic.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let mut bed = Bed::new(&parent)?;
    let members = if options.alone { 1 } else { 2 };
    let data: Vec<String> = (0..options.pairs)
        .flat_map(|pair| (0..members).map(move |member| format!("data{pair}.{member}")))
        .collect();
    let seats = match options.alone {
        true => Seat::alone(&data),
        false => Seat::pairs(&data),
    };
    let clients = (0..options.clients).map(|client| format!("client{client}"));
    for node in std::iter::once("meta".to_owned())
        .chain(data.iter().cloned())
        .chain(clients)
    {
        bed.add(&node, options.rate)?;
    }
    let cluster = match options.bare {
        true => None,
        false => Some(Cluster::start(
            &mut bed,
            &weft,
            "bed",
            "meta",
            &seats,
            options.relay,
            false,
        )?),
    };
    describe(&bed, cluster.as_ref());
    obey_until_over(&mut bed, cluster.as_ref());
    println!("the bed is being removed");
    Ok(())
}

fn describe(bed: &Bed, cluster: Option<&Cluster>) {
    println!("{:<16} {:<16} {:<10} name space", "node", "address", "rate");
    for (name, node) in bed.network().nodes() {
        let rate = node.rate.map_or("-".to_owned(), |rate| rate.to_string());
        let address = node.address.to_string();
        println!("{name:<16} {address:<16} {rate:<10} {}", node.space);
    }
    println!("\nenter a node:  nsenter --net=/run/netns/NAMESPACE COMMAND");
    if let Some(cluster) = cluster {
        println!("metadata:      {}", cluster.meta);
    }
    println!("data and logs: {}", bed.directory().display());
    println!("orders:        {ORDERS}");
    println!("the bed is up; Ctrl-C removes it");
}

const ORDERS: &str = "rate NODE RATE|none, cut NODE in|out|both, heal NODE, kill NODE, end NODE, start NODE, \
    relay NODE ORDER, status";

/// Takes orders from standard input until a signal comes.
fn obey_until_over(bed: &mut Bed, cluster: Option<&Cluster>) {
    let (sender, lines) = channel();
    // Ends with the process: a read of the terminal cannot be given up.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    while !IS_OVER.load(Ordering::SeqCst) {
        match lines.recv_timeout(LOOK) {
            Ok(line) => match obey(bed, cluster, &line) {
                Ok(()) => println!("ok"),
                Err(why) => println!("{why}"),
            },
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody gives orders; it stays all the same.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
    }
}

fn obey(bed: &mut Bed, cluster: Option<&Cluster>, line: &str) -> Outcome {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["rate", node, "none"] => bed.set_rate(node, None),
        ["rate", node, rate] => bed.set_rate(node, Some(rate.parse()?)),
        ["cut", node, way] => bed.cut(node, way.parse()?),
        ["heal", node] => bed.heal(node),
        ["kill", node] => bed.end(node, true),
        ["end", node] => bed.end(node, false),
        ["start", node] => bed.start_again(node),
        ["relay", node, ref order @ ..] => bed.order_relay(node, &order.join(" ")),
        ["status"] => {
            let status = cluster.and_then(|cluster| cluster.status(bed));
            println!("{}", status.ok_or("the metadata server does not answer")?);
            Ok(())
        }
        _ => Err(format!("{line:?} is no order; there are: {ORDERS}")),
    }
}
