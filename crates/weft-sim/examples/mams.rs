//! What standbys cost clients in virtual time: prints JSON lines as `cargo xtask bench mams --json` writes
//! them.
//!
//! `cargo run --release -p weft-sim --example mams -- --standbys 0,1,2,3,4 --clients 16,32`
#![allow(clippy::disallowed_macros)]

use clap::Parser;
use serde_json::json;
use std::ops::Range;
use std::process::ExitCode;
use weft_sim::Link;
use weft_sim::mams::{Setting, measure};

/// Creates by many clients of one group, with each number of standbys.
#[derive(Parser)]
struct Options {
    /// Numbers of standbys.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3,4",
          value_parser = clap::value_parser!(u32).range(0..=6))]
    standbys: Vec<u32>,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "16,32",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: Vec<u32>,
    /// Files of each client.
    #[arg(long, default_value_t = Setting::default().creates)]
    creates: usize,
    /// Mbit/s that every link carries each way.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    mbit: u64,
    /// Microseconds from node to node, from and to.
    #[arg(long, value_name = "FROM,TO", default_value = "30,60", value_parser = parse_range)]
    latency: Range<u64>,
    /// Microseconds of a flush, from and to.
    #[arg(long, value_name = "FROM,TO", default_value = "500,501", value_parser = parse_range)]
    flush: Range<u64>,
    /// Everything random comes from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let refused = || "two numbers of microseconds, the second above the first: 200,4000".to_owned();
    let (from, to) = text.split_once(',').ok_or_else(refused)?;
    let number = |text: &str| text.parse::<u32>().map(u64::from).map_err(|_| refused());
    let range = number(from)?..number(to)?;
    match range.is_empty() {
        false => Ok(range),
        true => Err(refused()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let nanos = |micros: &Range<u64>| 1_000 * micros.start..1_000 * micros.end;
    for &clients in &options.clients {
        for standbys in &options.standbys {
            let setting = Setting {
                seed: options.seed,
                members: standbys + 1,
                creates: options.creates,
                link: Link::of_rate(options.mbit * 125_000),
                latency: nanos(&options.latency),
                flush: nanos(&options.flush),
            };
            let case = match clients {
                1 => "1 client".to_owned(),
                more => format!("{more} clients"),
            };
            match measure(&setting, clients as usize) {
                Ok(point) => println!(
                    "{}",
                    json!({
                        "bench": "mams",
                        "system": format!("1A{standbys}S"),
                        "figure": format!("create, simulated, flush {} to {} us", options.flush.start, options.flush.end),
                        "case": case,
                        "value": point.rate,
                        "unit": "op/s",
                    })
                ),
                Err(why) => {
                    eprintln!("1A{standbys}S, {case}: {why}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
