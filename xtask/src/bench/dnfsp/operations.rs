//! Operations a second by 1, 2 and 4 gateways, behind links: what four clients do in all. The gateways' links are so
//! slow that they are the limit, as the gateways themselves would be where each has a machine of its own; here all of
//! them share one.

use super::links::{Behind, SERVERS_MANY, Size, patiently};
use super::nfs::{Client, Export};
use super::{BENCH, CLIENTS, DnfspOptions};
use crate::bench::bed_of;
use crate::bench::report::Line;
use crate::run::Outcome;
use clap::Args;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

/// As many gateways, as many operations; nearly.
const GOAL: f64 = 0.9;
/// Calls of a client that are on their way at a time.
const IN_FLIGHT: usize = 32;

/// What is measured, in this order: the later ones find what the first has made.
const OPERATIONS: [&str; 3] = ["CREATE", "LOOKUP", "GETATTR"];

/// Measures with 1, 2 and 4 gateways.
///
/// # Errors
/// If no bed can be made, or a client fails.
pub fn run(options: &DnfspOptions, weft: &Path, lines: &mut Vec<Line>) -> Outcome {
    let dir = options.dir.as_deref();
    let (mut bed, _) = bed_of(dir, Some(weft), options.rate, [SERVERS_MANY, CLIENTS])?;
    for gateway in 0..CLIENTS {
        bed.add(&format!("g{gateway}"), Some(options.calls_rate))?;
    }
    let mut alone = [None; OPERATIONS.len()];
    for gateways in [1, 2, 4] {
        let name = format!("operations-by-{gateways}");
        let size = Size {
            servers: SERVERS_MANY,
            gateways,
            clients: CLIENTS,
        };
        let behind = Behind::start(&mut bed, weft, &name, size)?;
        let measured = measure(&behind, &bed, &name, options.calls);
        behind.stop(&mut bed)?;
        for ((operation, rate), first) in OPERATIONS.iter().zip(measured?).zip(&mut alone) {
            println!("behind links, {gateways} gateways: {rate:.0} {operation}/s");
            let figure = format!(
                "{operation} by gateways behind links of {}",
                options.calls_rate
            );
            let line = Line::of(
                BENCH,
                "weft",
                &figure,
                &format!("{gateways} gateways"),
                rate,
                "op/s",
            );
            let first = *first.get_or_insert(rate);
            if gateways > 1 {
                lines.push(line.beside("1 gateway", first, Some(GOAL * gateways as f64)));
            }
            lines.push(line);
        }
    }
    Ok(())
}

/// Operations a second of each kind, of all clients.
fn measure(
    behind: &Behind,
    bed: &crate::testbed::Bed,
    name: &str,
    calls: u64,
) -> Result<Vec<f64>, String> {
    let calls = calls.to_string();
    let mut clients = behind.clients(bed, "dnfsp-caller", |client| {
        let of = format!("{name}-{client}");
        vec!["--name".into(), of, "--calls".into(), calls.clone()]
    })?;
    let mut rates = Vec::new();
    for operation in OPERATIONS {
        clients
            .iter_mut()
            .try_for_each(|client| client.wait_ready())?;
        clients.iter_mut().try_for_each(|client| client.go())?;
        let (mut longest, mut done) = (0.0_f64, 0);
        for client in &mut clients {
            let line = client.line()?;
            let wrong = || format!("a client said {line:?} of {operation}");
            let said: Value = serde_json::from_str(&line).map_err(|_| wrong())?;
            longest = longest.max(said["seconds"].as_f64().ok_or_else(wrong)?);
            done += said["calls"].as_u64().ok_or_else(wrong)?;
        }
        rates.push(done as f64 / longest);
    }
    Ok(rates)
}

/// A client of a gateway, for who starts it in a node: before each kind of operation it says `ready`, waits for a line,
/// does it, and says how long that took.
#[derive(Args)]
pub struct CallerOptions {
    #[arg(long)]
    gateway: SocketAddr,
    /// Of its directory.
    #[arg(long)]
    name: String,
    /// Of each kind.
    #[arg(long)]
    calls: u64,
}

/// Runs it.
///
/// # Errors
/// What it was told.
pub fn caller(options: &CallerOptions) -> Outcome {
    let address = options.gateway;
    patiently(|| {
        let reached = std::net::TcpStream::connect(address).map(drop);
        reached.map_err(|error| format!("gateway {address}: {error}"))
    })?;
    let ran = weft_env::real::run(|env| async move {
        let client = Client::connect(&env, &Export::of_gateway(address)).await?;
        let dir = client.make_directory(&client.root, &options.name).await?;
        let names: Vec<String> = (0..options.calls)
            .map(|number| number.to_string())
            .collect();
        let mut files = Vec::new();
        for operation in OPERATIONS {
            wait_for_word()?;
            let begin = Instant::now();
            match operation {
                "CREATE" => {
                    let made = names.iter().map(|name| client.create(&dir, name));
                    files = stream::iter(made).buffered(IN_FLIGHT).try_collect().await?;
                }
                "LOOKUP" => {
                    let found = names.iter().map(|name| client.lookup(&dir, name));
                    let found = stream::iter(found).buffered(IN_FLIGHT);
                    let found: Vec<_> = found.try_collect().await?;
                    if found != files {
                        return Err("names do not lead to what was made under them".into());
                    }
                }
                _ => {
                    let told = files.iter().map(|file| client.getattr(file));
                    let told = stream::iter(told).buffered(IN_FLIGHT);
                    told.try_for_each(async |_| Ok(())).await?;
                }
            }
            let (seconds, calls) = (begin.elapsed().as_secs_f64(), names.len());
            println!(
                "{}",
                serde_json::json!({"seconds": seconds, "calls": calls})
            );
        }
        Ok(())
    });
    ran.map_err(|error| error.to_string())?
}

fn wait_for_word() -> Outcome {
    println!("ready");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map(drop)
        .map_err(|error| format!("no word to begin: {error}"))
}
