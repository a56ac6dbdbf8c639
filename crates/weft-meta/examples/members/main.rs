//! One member of a replica group, for `cargo xtask bench mams --parts commit,renewing`: journal, disk and
//! connections to the other members are a metadata server's, and entries come from the process itself
//! instead of from clients. Beside it plain two-phase commit, on the same journal.
//!
//! Takes orders on standard input, one a line, and answers each with a JSON object, but for the first
//! line, `ready`:
//!
//! ```text
//! look                        who leads, as far as this process knows
//! fill COUNT                  makes so many files
//! load RATE SECONDS BYTES     entries of so many bytes; RATE 0: as fast as they are committed
//! watch MEMBER                until that one is connected, and counts
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod load;
mod log;
mod two_phase;
mod wire;

use clap::{Parser, Subcommand};
use load::{Committing, Load, fill, ticks};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_env::{Env, real};
use weft_journal::SyncPolicy;
use weft_meta::{JournalSettings, Server, Settings, start};
use weft_wire::proto::Op;

/// How often it is looked who counts.
const LOOK: Duration = Duration::from_micros(500);

#[derive(Parser)]
struct Options {
    /// Where it keeps its journal.
    #[arg(long)]
    dir: PathBuf,
    /// When a batch counts as written: always, group or never.
    #[arg(long, default_value = "group", value_parser = parse_sync)]
    sync: SyncPolicy,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A member of a replica group.
    Member {
        /// Where the members find each other: `file:/directory`.
        #[arg(long)]
        coordinator: String,
        /// Its number, from 1.
        #[arg(long)]
        member: u32,
        /// Members that the group is founded with.
        #[arg(long)]
        members: u32,
        /// `image_every_entries`
        #[arg(long, default_value_t = 500_000)]
        image_every: u64,
    },
    /// One that votes. Says where it listens, as {"address": ...}, instead of ready.
    Participant,
    /// One that asks the others to prepare, and decides. Takes `load` only.
    TwoPhase {
        /// The participants.
        #[arg(long, value_delimiter = ',')]
        with: Vec<String>,
    },
}

fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "always" => Ok(SyncPolicy::Always),
        "group" => Ok(SyncPolicy::Group),
        "never" => Ok(SyncPolicy::Never),
        _ => Err("always, group or never".into()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = real::run(|env| async move {
        match &options.what {
            What::Member { .. } => member(env, options).await,
            What::Participant => two_phase::participate(env, options.dir, options.sync).await,
            What::TwoPhase { with } => {
                let with = with.clone();
                let two =
                    two_phase::TwoPhase::begin(&env, options.dir, options.sync, &with).await?;
                println!("ready");
                let mut orders = orders();
                while let Some(order) = orders.recv().await {
                    let words: Vec<&str> = order.split(' ').collect();
                    println!("{}", Load::parse(&words)?.run(&env, &two).await?);
                }
                Ok(())
            }
        }
    });
    match done.map_err(|error| error.to_string()).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // As the product's errors begin: whoever reads them shows that line.
            eprintln!("weft: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Lines of standard input. Its end is theirs.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Committing for Rc<Server> {
    fn commit(&self, op: Op, then: impl FnOnce(bool) + 'static) -> Result<(), String> {
        self.propose(op, then)
    }
}

async fn member(env: Env, options: Options) -> Result<(), String> {
    let What::Member {
        coordinator,
        member,
        members,
        image_every,
    } = options.what
    else {
        return Err("no member".into());
    };
    let settings = Settings {
        dir: options.dir,
        coordinator,
        member,
        members: (1..=members).collect(),
        listen: "127.0.0.1:0".into(),
        cluster_id: "members".into(),
        journal: JournalSettings { sync: options.sync },
        image_every_entries: image_every,
        ..Settings::default()
    };
    let begun = env.now();
    let server = start(env.clone(), settings).await;
    let server = Rc::new(server.map_err(|error| error.to_string())?);
    let started = env.now().since(begun).as_secs_f64();
    println!("ready");
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let words: Vec<&str> = order.split(' ').collect();
        let answer = match words[..] {
            ["look"] => json!({
                "started_s": started,
                "leads": server.leads(),
                "voters": server.voters(),
                "committed": server.committed().0,
            }),
            ["fill", count] => {
                let count = count.parse().map_err(|_| format!("no number: {count}"))?;
                fill(&env, &server, count).await?
            }
            ["watch", other] => {
                let other = other.parse().map_err(|_| format!("no member: {other}"))?;
                watch(&env, &server, other).await?
            }
            _ => Load::parse(&words)?.run(&env, &server).await?,
        };
        println!("{answer}");
    }
    Ok(())
}

/// Waits until a member is connected, and counts; milliseconds since the order.
async fn watch(env: &Env, server: &Server, other: u32) -> Result<serde_json::Value, String> {
    let begun = env.now();
    let since = || env.now().since(begun).as_secs_f64() * 1e3;
    let look = || {
        let standing = server.standing_of(other);
        standing.ok_or_else(|| "another member leads".to_owned())
    };
    let mut connected = None;
    let mut ticks = ticks(LOOK);
    loop {
        let standing = look()?;
        if standing.is_connected {
            connected.get_or_insert_with(since);
        } else {
            // It begins anew, with an image perhaps.
            connected = None;
        }
        if let (true, Some(connected)) = (standing.counts, connected) {
            return Ok(json!({ "connected_ms": connected, "counted_ms": since() }));
        }
        ticks.recv().await;
    }
}
