//! What tokens cost and save between gateways, in messages for each operation: prints JSON lines as `cargo xtask bench
//! dnfsp --json` writes them. Nothing in it depends on the machine.
//!
//! `cargo run -p weft-sim --example tokens`
#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

#[path = "../tests/it/tokens/counting.rs"]
mod counting;
#[path = "../tests/it/gates/mod.rs"]
mod gates;
#[path = "../tests/it/group/mod.rs"]
mod group;

use clap::Parser;
use counting::{Amount, Cost, Costs, Keeping, Workload, measure};
use group::in_world;
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;

/// Gateways at most: a cluster here has so many.
const GATEWAYS_MAX: usize = 4;

/// Clients of gateways with files of their own, and with files that others write.
#[derive(Parser)]
struct Options {
    /// Numbers of gateways, each with a client.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4",
          value_parser = clap::value_parser!(u64).range(1..=GATEWAYS_MAX as u64))]
    gateways: Vec<u64>,
    /// Files of each client that writes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    files: u64,
    /// How often each is looked at, and written where writing goes on.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: u64,
    /// Everything random comes from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn costs(seed: u64, keeping: Keeping, workload: Workload, amount: Amount) -> Costs {
    let told: Rc<RefCell<Costs>> = Rc::default();
    let tell = told.clone();
    in_world(seed, async move |world| {
        let (_group, _servers, gates) = gates::cluster::<GATEWAYS_MAX>(&world).await;
        *tell.borrow_mut() = measure(&world, &gates, keeping, workload, amount).await;
    });
    told.take()
}

fn say(system: &str, figure: &str, case: &str, value: f64, unit: &str) {
    let line = json!({
        "bench": "dnfsp", "system": system, "figure": figure, "case": case, "value": value, "unit": unit,
    });
    println!("{line}");
}

fn main() {
    let options = Options::parse();
    let workloads = [
        (Workload::Own, "own files"),
        (Workload::Read, "files that one has written"),
        (Workload::Written, "files that one goes on writing"),
    ];
    for (workload, what) in workloads {
        for &gateways in &options.gateways {
            if workload != Workload::Own && gateways == 1 {
                continue;
            }
            let amount = Amount {
                gateways: gateways as usize,
                files: options.files as usize,
                rounds: options.rounds as usize,
            };
            let with = costs(options.seed, Keeping::Tokens, workload, amount);
            let without = costs(options.seed, Keeping::Nothing, workload, amount);
            let figure = format!("{what}, {gateways} gateways");
            let kinds = with
                .keys()
                .map(|kind| (kind.name(), with[kind], without[kind]));
            let sum = (counting::all(&with), counting::all(&without));
            for (case, with, without) in kinds.chain([("all", sum.0, sum.1)]) {
                let messages = |cost: &Cost| cost.messages;
                let unit = "messages/op";
                say("nothing kept", &figure, case, without.each(messages), unit);
                say("tokens", &figure, case, with.each(messages), unit);
                say(
                    "fetched once",
                    &figure,
                    case,
                    with.each(|it| it.relaxed),
                    unit,
                );
                let asked = format!("{figure}, asked back");
                say(
                    "tokens",
                    &asked,
                    case,
                    with.each(|it| it.revocations),
                    "revocations/op",
                );
                let old = format!("{figure}, old answers");
                say(
                    "fetched once",
                    &old,
                    case,
                    with.each(|it| it.stale),
                    "of the answers",
                );
            }
        }
    }
}
