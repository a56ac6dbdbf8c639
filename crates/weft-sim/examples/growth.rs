//! Operations a second of the metadata service by its groups, in virtual time: see `weft_sim::growth`.
//!
//! `cargo run --release -p weft-sim --example growth -- --groups 1,2,4,8,16,32,64`
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use clap::Parser;
use std::process::ExitCode;
use weft_sim::growth::{Homes, Setting, measure};

/// Prints a table: creates alone, and with one mkdir in ten; or creates in one directory.
#[derive(Parser)]
struct Options {
    /// Numbers of groups.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    groups: Vec<u32>,
    /// Everything random comes from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nanoseconds of a metadata server's processor for each KiB.
    #[arg(long)]
    processor: Option<u64>,
    /// Operations of each of a client's streams.
    #[arg(long, default_value_t = 60)]
    operations: u32,
    /// All work in one directory, first in one that is as any, then in one that is spread.
    #[arg(long)]
    one_directory: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    println!("groups  mkdir  operations/s  of one group  mkdir across  steps");
    let rounds = match options.one_directory {
        false => [(Homes::Own, 0), (Homes::Own, 10)],
        true => [(Homes::One, 0), (Homes::Spread, 0)],
    };
    for (homes, mkdir_once_in) in rounds {
        let mut first = None;
        for &groups in &options.groups {
            let setting = Setting {
                seed: options.seed,
                processor: options.processor.unwrap_or(Setting::default().processor),
                groups,
                homes,
                mkdir_once_in,
                operations: options.operations,
                ..Setting::default()
            };
            let point = match measure(&setting) {
                Ok(point) => point,
                Err(why) => {
                    eprintln!("{groups} groups: {why}");
                    return ExitCode::FAILURE;
                }
            };
            let one = *first.get_or_insert(point.rate);
            println!(
                "{groups:>6}  {:>5}  {:>12.0}  {:>12.2}  {:>6}/{:<5}  {}",
                match mkdir_once_in {
                    0 => "none".to_owned(),
                    once => format!("1/{once}"),
                },
                point.rate,
                point.rate / one,
                point.across,
                point.directories,
                point.steps
            );
        }
    }
    ExitCode::SUCCESS
}
