//! CEFT's write benchmark in virtual time: prints JSON lines as `cargo xtask bench ceft --json` writes
//! them, and on standard error how each point came about.
//!
//! `cargo run --release -p weft-sim --example ceft -- --pairs 32 --clients 1,2,4,8,16,32,64,128 --rate
//! 100mbit`
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use clap::Parser;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use weft_sim::Link;
use weft_sim::ceft::{Point, Setting, measure};
use weft_wire::proto::Protocol;

/// Shown as systems beside the protocols, as in `cargo xtask bench ceft`.
const HALF: &str = "half, no mirroring";
const ALL: &str = "all, no mirroring";
/// In the order in which they are measured.
const SYSTEMS: [&str; 7] = [
    HALF,
    "server-async",
    "server-sync",
    "client-async",
    "client-sync",
    "hybrid",
    ALL,
];

/// n clients write files of their own; every protocol beside half of the servers and all of them
/// without mirroring.
#[derive(Parser)]
struct Options {
    /// Numbers of pairs: 32 is 32 servers that mirror 32.
    #[arg(long, value_delimiter = ',', default_value = "4",
          value_parser = clap::value_parser!(u32).range(1..=32))]
    pairs: Vec<u32>,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Vec<u32>,
    /// What every link carries each way, headers of frames included: 100mbit, 1gbit.
    #[arg(long, default_value = "50mbit", value_parser = parse_rate)]
    rate: Link,
    /// Seconds that a node's processor needs for each GiB, sent or received.
    #[arg(long, default_value_t = 0.0, value_parser = parse_processor)]
    processor: f64,
    /// Only this protocol or baseline; may be given several times.
    #[arg(long = "system", value_parser = SYSTEMS)]
    systems: Vec<String>,
    /// KiB that each client writes.
    #[arg(long, default_value_t = 16 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    kib: u64,
    /// KiB of a stripe unit, a power of two; by default at most 1024, and so small that each file lies on
    /// all servers.
    #[arg(long)]
    unit: Option<u32>,
    /// KiB that a connection may have on its way and unread, each way.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    window: u32,
    /// Microseconds from node to node, from and to.
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "30,300")]
    latency: Vec<u64>,
    /// `pair.lease_ms`.
    #[arg(long, default_value_t = Setting::default().lease_ms)]
    lease_ms: u64,
    /// `link_patience_ms`.
    #[arg(long, default_value_t = Setting::default().link_patience_ms)]
    link_patience_ms: u64,
    /// Everything random comes from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn parse_rate(text: &str) -> Result<Link, String> {
    let units = [
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
    ];
    let bits = units.iter().find_map(|(unit, factor)| {
        let number: u64 = text.to_ascii_lowercase().strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor)
    });
    match bits {
        Some(bits) if bits >= 1_000_000 => Ok(Link::of_rate(bits / 8)),
        _ => Err("1mbit or more, as in 100mbit or 1gbit".into()),
    }
}

fn parse_processor(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    match (0.0..=10_000.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("0 to 10000".into()),
    }
}

/// Largest stripe unit under which a file of `bytes` has a part on each of `servers`.
fn unit_for(bytes: u64, servers: u32) -> u32 {
    let part = (bytes / u64::from(servers)).clamp(64 << 10, 1 << 20);
    1 << part.ilog2()
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut absent = 0;
    for &pairs in &options.pairs {
        for system in SYSTEMS {
            if !options.systems.is_empty() && !options.systems.iter().any(|name| name == system) {
                continue;
            }
            for &clients in &options.clients {
                let setting = setting(&options, pairs, system);
                let start = Instant::now();
                let what = format!("{pairs}+{pairs} {system}, {clients} clients");
                match measure(&setting, clients as usize) {
                    Ok(point) => {
                        tell(&what, &point, start);
                        print(pairs, system, clients, &point);
                    }
                    Err(why) => {
                        eprintln!("{what}: absent: {why}");
                        absent += 1;
                        // More clients would fail alike.
                        break;
                    }
                }
            }
        }
    }
    if absent == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn setting(options: &Options, pairs: u32, system: &str) -> Setting {
    let protocol = match system {
        "server-async" => Protocol::ServerAsync,
        "client-async" => Protocol::ClientAsync,
        "client-sync" => Protocol::ClientSync,
        "hybrid" => Protocol::Hybrid,
        _ => Protocol::ServerSync,
    };
    let bytes = options.kib << 10;
    Setting {
        seed: options.seed,
        pairs: if system == ALL { 2 * pairs } else { pairs },
        is_mirrored: ![HALF, ALL].contains(&system),
        protocol,
        bytes,
        stripe_unit: options
            .unit
            .map_or_else(|| unit_for(bytes, 2 * pairs), |kib| kib << 10),
        link: Link {
            // A GiB is a Mi of KiB.
            processor: (options.processor * 1e9 / f64::from(1 << 20)) as u64,
            ..options.rate
        },
        latency: 1_000 * options.latency[0]..1_000 * options.latency[1],
        window: (options.window as usize) << 10,
        lease_ms: options.lease_ms,
        link_patience_ms: options.link_patience_ms,
        ..Setting::default()
    }
}

fn tell(what: &str, point: &Point, start: Instant) {
    eprintln!(
        "{what}: overall {:.1}, raw {:.1} MB/s; clients took {:.3} to {:.3} s; {} steps in {:.1} s, digest {:016x}",
        point.overall,
        point.raw,
        point.seconds[0],
        point.seconds[1],
        point.steps,
        start.elapsed().as_secs_f64(),
        point.digest
    );
    for line in point.grave.iter().take(5) {
        eprintln!("    {line}");
    }
    if point.grave.len() > 5 {
        eprintln!("    and {} more of WARN and ERROR", point.grave.len() - 5);
    }
}

fn print(pairs: u32, system: &str, clients: u32, point: &Point) {
    let case = match clients {
        1 => "1 client".to_owned(),
        more => format!("{more} clients"),
    };
    for (figure, value) in [("overall", point.overall), ("raw", point.raw)] {
        let line = json!({
            "bench": "ceft",
            "system": system,
            "figure": format!("{pairs}+{pairs} {figure}, different files"),
            "case": case,
            "value": value,
            "unit": "MB/s",
        });
        println!("{line}");
    }
}
