//! Runs a range of seeds, one line each; a single seed with its whole history.
//!
//! `cargo run -p weft-sim --example seeds -- 0..100`, `-- 17`, `-- 17 debug`,
//! `-- 0..9 info MetaKill` for storms of one kind of fault; `-- --members 3 0..100` with three metadata
//! servers, `-- --groups 2 --members 3 0..100` with two groups of three; `--slots`, `--spread` and
//! `--mounts` as for `cargo xtask sim`.
#![allow(clippy::disallowed_macros)]

use std::collections::BTreeMap;
use weft_sim::cluster::{coverage, faults, workload};
use weft_sim::{Fault, Options, run};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut number_of = |option: &str| match arguments.iter().position(|word| word == option) {
        Some(at) => {
            let said: Vec<String> = arguments.splice(at..at + 2, []).collect();
            said[1].parse().expect("a number")
        }
        None => 1,
    };
    let (groups, members) = (number_of("--groups"), number_of("--members"));
    let mut has = |option: &str| {
        let at = arguments.iter().position(|word| word == option);
        at.map(|at| arguments.remove(at)).is_some()
    };
    let (slots, spread, mounts) = (has("--slots"), has("--spread"), has("--mounts"));
    let mut arguments = arguments.into_iter();
    let range = arguments.next().unwrap_or_else(|| "0..20".into());
    let options = Options {
        level: match arguments.next().as_deref() {
            Some("debug") => tracing::Level::DEBUG,
            Some("trace") => tracing::Level::TRACE,
            _ => tracing::Level::INFO,
        },
        storm: arguments
            .next()
            .map(|name| Fault::called(&name).expect("a kind of fault")),
        groups,
        members,
        slots,
        spread,
        mounts,
        ..Options::default()
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (from, to) = match range.split_once("..") {
        Some((from, to)) => (number(from), number(to)),
        None => (number(&range), number(&range) + 1),
    };
    let mut failed = Vec::new();
    let mut reached = BTreeMap::new();
    for seed in from..to {
        let report = run(seed, &options);
        coverage::add(&mut reached, &report.coverage);
        let why = report.failure.as_deref().unwrap_or("");
        let head: Vec<String> = why
            .lines()
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.chars().take(260).collect())
            .take(2)
            .collect();
        println!(
            "seed {seed}: {:.1?} {} steps {:016x} {} ops {:?} {}{}",
            report.time,
            report.steps,
            report.digest,
            report.operations,
            report.kinds,
            match (why.is_empty(), &report.undecided) {
                (false, _) => "FAILED ",
                (true, Some(_)) => "undecided ",
                (true, None) => "",
            },
            head.join(" | ")
        );
        if to - from == 1 {
            let mut lines: Vec<(u64, String)> = report
                .log
                .iter()
                .map(|line| (line.nanos, line.to_string()))
                .collect();
            for (number, record) in report.history.iter().enumerate() {
                lines.push((record.invoked, format!("      #{number} {record}")));
            }
            lines.sort();
            for (_, line) in lines {
                println!("{line}");
            }
            println!("{why}");
        }
        if !why.is_empty() {
            failed.push(seed);
        }
    }
    if to - from > 1 {
        let names: Vec<&'static str> = std::iter::once(coverage::CALM)
            .chain(faults::all(members).map(|kind| kind.name()))
            .collect();
        let (table, zeros) = coverage::render(&reached, workload::OPERATIONS, &names);
        println!("{table}\nnever met: {zeros:?}\nfailed: {failed:?}");
    }
}
