//! `weft bench net`: what the network between nodes carries, and whether it or Weft is the limit.
//!
//! The probe is weft-probe's (docs/protocols/bench-net.md); here are its command line, the peers of this process, what is
//! measured in which order, and what people get of it: tables, JSON, a plot (`show.rs`, `plot.rs`), and a sentence that
//! sets what Weft reaches (`reached.rs`) beside what the network carries.

mod peers;
mod plot;
mod reached;
mod show;

use crate::error::{Error, Result, Tried};
use crate::output::{say, show};
use crate::policy::ProtocolName;
use crate::tool::Where;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use weft_env::Env;
use weft_probe::limit::{Judgement, Links, Work, judge};
use weft_probe::model::Parameters;
use weft_probe::{Driver, Flow, Plan, Route};

/// Peers of this process: as many threads, each with a loop of its own.
const LOCAL_MAX: u64 = 16;
/// Above so many peers each pair of them alone takes minutes: it must be asked for.
const MATRIX_PEERS: usize = 16;

/// `weft bench net ...`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "On each node:  weft bench net serve --listen NODE:7500\n\
                  On one:        weft bench net --peers n1:7500,n2:7500,n3:7500\n\
                  On a client, with what Weft reaches from it:\n               \
                  weft bench net --here CLIENT:0 --peers n1:7500,n2:7500 --mount /scratch\n\
                  The first node stands for a client, the others for data servers."
)]
pub struct NetCommand {
    #[command(subcommand)]
    part: Option<NetPart>,
    #[command(flatten)]
    options: NetOptions,
}

#[derive(Subcommand)]
enum NetPart {
    /// Runs a peer, until it is told to stop: measured with others by who names it with --peers.
    Serve(ServeOptions),
}

/// A peer.
#[derive(Args)]
struct ServeOptions {
    /// HOST:PORT at which it is asked.
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// The port at which it takes the measured bytes; 0: any. For firewalls.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    lane_port: u16,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Parameters of LogP from the first node to the second, by size of message.
    Parameters,
    /// Round trip and bandwidth from each node to each other, one at a time.
    Matrix,
    /// Gap and bandwidth when ever more pairs of nodes transfer at the same time.
    Pairs,
    /// What links carry as files use them: out of the first node to all others, into it, and around the others.
    Links,
}

impl Part {
    const ALL: [Part; 4] = [Part::Parameters, Part::Matrix, Part::Pairs, Part::Links];
}

#[derive(Args)]
struct NetOptions {
    /// Peers (`weft bench net serve`) on the nodes to be measured: HOST:PORT,HOST:PORT,...
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    peers: Vec<String>,
    /// Makes this node a peer, too, and the first of all: HOST:PORT by which the others reach it (port 0: any).
    #[arg(long, value_name = "ADDRESS", requires = "peers")]
    here: Option<String>,
    /// So many peers in this process, over loopback: to try it out, or to see what the machine itself can.
    #[arg(
        long,
        value_name = "PEERS",
        num_args = 0..=1,
        default_missing_value = "4",
        conflicts_with_all = ["peers", "here"],
        value_parser = clap::value_parser!(u64).range(2..=LOCAL_MAX)
    )]
    local: Option<u64>,
    /// Only these parts. The matrix of more than 16 nodes must be asked for.
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Bytes of messages, as in 1,1K,64K,1M.
    #[arg(long, value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u32>,
    /// Round trips for each size.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// How long the messages follow one another without a pause, for the gap.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    flood: humantime::Duration,
    /// The same when several routes are in use.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    together: humantime::Duration,
    /// Bytes of messages in the matrix, between pairs and for links.
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_bytes)]
    message: u32,
    /// One JSON object: seconds, bytes, bytes a second.
    #[arg(long)]
    json: bool,
    /// Writes a plot as SVG: times and bandwidth by size, gap and bandwidth by pairs at the same time.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    weft: WeftOptions,
}

/// What Weft reaches, to be set beside the network.
#[derive(Args)]
#[command(next_help_heading = "What Weft reaches beside it")]
pub(super) struct WeftOptions {
    /// A directory on a mount of this node: a file is written and read through it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["meta", "dir"])]
    mount: Option<PathBuf>,
    /// Writes and reads as a client of this cluster, without a mount (or --dir).
    #[command(flatten)]
    cluster: Where,
    /// MiB of that file.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    size: u64,
    /// What Weft writes, MB/s, as measured otherwise.
    #[arg(long, value_name = "MB/S", value_parser = parse_rate, conflicts_with_all = ["mount", "meta", "dir"], requires = "pairs")]
    writes: Option<f64>,
    /// What Weft reads, MB/s, as measured otherwise.
    #[arg(long, value_name = "MB/S", value_parser = parse_rate, conflicts_with_all = ["mount", "meta", "dir"], requires = "pairs")]
    reads: Option<f64>,
    /// Clients that reach that together, each on a node of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Pairs of data servers that files are striped over; asked from the cluster where it is known.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pairs: Option<u32>,
    /// The protocol that files are written with; asked from the cluster where it is known.
    #[arg(long, value_enum)]
    protocol: Option<ProtocolName>,
}

/// Everything that was measured.
#[derive(Serialize, Default)]
struct Report {
    nodes: Vec<String>,
    message_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    matrix: Vec<Flow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<Together>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<Shared>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    judgements: Vec<Judgement>,
}

/// Routes in use at the same time.
#[derive(Serialize)]
struct Together {
    flows: Vec<Flow>,
    /// Bytes a second in all.
    bandwidth: f64,
}

impl Together {
    fn new(flows: Vec<Flow>) -> Together {
        let bandwidth = flows.iter().map(|flow| flow.bandwidth).sum();
        Together { flows, bandwidth }
    }

    /// Bytes a second of one route, on average.
    fn each(&self) -> f64 {
        self.bandwidth / self.flows.len().max(1) as f64
    }
}

/// What links carry as files use them.
#[derive(Serialize)]
struct Shared {
    out: Together,
    into: Together,
    /// Each of the others to the next one. None of fewer than two others.
    #[serde(skip_serializing_if = "Option::is_none")]
    around: Option<Together>,
}

impl Shared {
    fn links(&self) -> Links {
        // With one server there is none that it could exchange anything with: what came to it, and from it.
        let (server_in, server_out) = match &self.around {
            Some(around) => (around.each(), around.each()),
            None => (self.out.each(), self.into.each()),
        };
        Links {
            client_out: self.out.bandwidth,
            client_in: self.into.bandwidth,
            server_in,
            server_out,
        }
    }
}

/// Runs `weft bench net`.
///
/// # Errors
/// If a peer cannot be reached or fails, an address cannot be listened on, or the cluster refuses.
pub fn run(command: NetCommand) -> Result<()> {
    match command.part {
        Some(NetPart::Serve(options)) => crate::block_on(|env| serve(env, options)),
        None => crate::block_on(|env| measure(env, command.options)),
    }
}

async fn serve(env: Env, options: ServeOptions) -> Result<()> {
    let serving = weft_probe::serve(&env, &options.listen, options.lane_port).await;
    let serving = serving.map_err(|error| Error::Usage(format!("--listen: {error}")))?;
    say!("peer at {}, lanes at {}", serving.address, serving.lanes)?;
    crate::server::told_to_stop().await
}

fn failed(error: weft_probe::Error) -> Error {
    use weft_probe::Error as Probe;
    let said = error.to_string();
    match error {
        Probe::Asked(_) | Probe::NotAPeer { .. } | Probe::Version { .. } => Error::Usage(said),
        Probe::Unreachable { .. } | Probe::Lost { .. } => Error::Unreachable(said),
        Probe::Between { .. } | Probe::Lane { .. } => Error::Failed(said),
    }
}

async fn measure(env: Env, options: NetOptions) -> Result<()> {
    let plan = plan_of(&options)?;
    // What is wrong with the cluster is said before the network is measured for a minute.
    let subject = reached::Subject::of(&env, &options.weft).await?;
    let own = match (&options.here, options.local) {
        (Some(here), _) => peers::Own::at(vec![here.clone()])?,
        (None, Some(count)) => peers::Own::at(vec!["127.0.0.1:0".into(); count as usize])?,
        (None, None) if options.peers.is_empty() => {
            return Err(Error::Usage(
                "name peers with --peers HOST:PORT,HOST:PORT, or try it out with --local".into(),
            ));
        }
        (None, None) => peers::Own::default(),
    };
    let mut addresses = own.addresses.clone();
    addresses.extend(options.peers.iter().cloned());
    let driver = Driver::connect(&env, &addresses).await.map_err(failed)?;
    let mut measuring = Measuring {
        driver,
        plan,
        options: &options,
        report: Report {
            nodes: addresses,
            message_bytes: options.message,
            ..Report::default()
        },
    };
    measuring.parts(subject.is_some()).await?;
    let Measuring {
        mut report, driver, ..
    } = measuring;
    // Nothing is to be measured beside Weft.
    drop(driver);
    if let Some(subject) = subject {
        judge_by(&env, subject, &mut report, options.json).await?;
    }
    if let Some(path) = &options.plot {
        let drawn = plot::draw(&report).map_err(|why| Error::Failed(format!("no plot: {why}")))?;
        std::fs::write(path, drawn).tried_on("cannot write", path)?;
    }
    if options.json {
        let json = serde_json::to_string(&report)
            .map_err(|error| Error::Failed(format!("no JSON: {error}")))?;
        say!("{json}")?;
    }
    Ok(())
}

fn plan_of(options: &NetOptions) -> Result<Plan> {
    let stock = Plan::default();
    let plan = Plan {
        sizes: match options.sizes.is_empty() {
            true => stock.sizes,
            false => options.sizes.clone(),
        },
        rounds: options.rounds,
        flood: options.flood.into(),
        long_message: options.message,
        together: options.together.into(),
    };
    plan.checked().map_err(failed)
}

struct Measuring<'a> {
    driver: Driver,
    plan: Plan,
    options: &'a NetOptions,
    report: Report,
}

impl Measuring<'_> {
    /// The parts that were asked for, each shown as it comes. Whoever wants to know who is the limit needs the links.
    async fn parts(&mut self, is_judged: bool) -> Result<()> {
        let nodes = self.report.nodes.len();
        let asked = &self.options.parts;
        let wanted = |part: Part| match part {
            Part::Links if is_judged => true,
            Part::Matrix if asked.is_empty() => nodes <= MATRIX_PEERS,
            _ => asked.is_empty() || asked.contains(&part),
        };
        let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| wanted(*part)).collect();
        if !self.options.json {
            show!("{}", show::nodes(&self.report))?;
        }
        for part in parts {
            let shown = match part {
                Part::Parameters => self.parameters().await?,
                Part::Matrix => self.matrix().await?,
                Part::Pairs => self.pairs().await?,
                Part::Links => self.links().await?,
            };
            if !self.options.json {
                show!("\n{shown}")?;
            }
        }
        Ok(())
    }

    async fn parameters(&mut self) -> Result<String> {
        let route = Route { from: 0, to: 1 };
        let found = self.driver.parameters(route, &self.plan).await;
        let found = found.map_err(failed)?;
        let shown = show::parameters(&found);
        self.report.parameters = Some(found);
        Ok(shown)
    }

    async fn matrix(&mut self) -> Result<String> {
        let nodes = self.report.nodes.len();
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                let flow = self.driver.alone(Route { from, to }, &self.plan).await;
                self.report.matrix.push(flow.map_err(failed)?);
            }
        }
        Ok(show::matrix(&self.report))
    }

    /// The paper's figures 4 and 5: one pair of nodes, two at the same time, and so on.
    async fn pairs(&mut self) -> Result<String> {
        let most = self.report.nodes.len() / 2;
        for count in 1..=most {
            let routes: Vec<Route> = (0..count)
                .map(|pair| Route {
                    from: 2 * pair,
                    to: 2 * pair + 1,
                })
                .collect();
            let together = self.together(routes).await?;
            self.report.pairs.push(together);
        }
        Ok(show::pairs(&self.report))
    }

    async fn links(&mut self) -> Result<String> {
        let nodes = self.report.nodes.len();
        let out = (1..nodes).map(|to| Route { from: 0, to }).collect();
        let into = (1..nodes).map(|from| Route { from, to: 0 }).collect();
        let next = |from| if from + 1 < nodes { from + 1 } else { 1 };
        let around = (1..nodes).map(|from| Route {
            from,
            to: next(from),
        });
        let shared = Shared {
            out: self.sharing(out).await?,
            into: self.sharing(into).await?,
            around: match nodes {
                ..3 => None,
                _ => Some(self.together(around.collect()).await?),
            },
        };
        let shown = show::links(&self.report.nodes, &shared);
        self.report.links = Some(shared);
        Ok(shown)
    }

    async fn together(&self, routes: Vec<Route>) -> Result<Together> {
        let carried = self.driver.together(&routes, &self.plan).await;
        let carried = carried.map_err(failed)?;
        Ok(Together::new(carried.flows))
    }

    /// The same of routes that share a link.
    async fn sharing(&self, routes: Vec<Route>) -> Result<Together> {
        let carried = self.driver.together(&routes, &self.plan).await;
        let carried = carried.map_err(failed)?;
        Ok(Together {
            flows: carried.flows,
            bandwidth: carried.shared,
        })
    }
}

/// Measures what Weft reaches where it is not known, and says who is the limit.
async fn judge_by(
    env: &Env,
    subject: reached::Subject,
    report: &mut Report,
    json: bool,
) -> Result<()> {
    let Some(shared) = &report.links else {
        return Ok(());
    };
    let links = shared.links();
    let reached = subject.measure(env).await?;
    for (work, rate) in [(Work::Write, reached.write), (Work::Read, reached.read)] {
        let judged = rate.and_then(|rate| judge(&links, reached.shape, work, rate));
        report.judgements.extend(judged);
    }
    if !json {
        show!("\n{}", show::judgements(report, reached.shape))?;
    }
    Ok(())
}

fn parse_bytes(text: &str) -> std::result::Result<u32, String> {
    let upper = text.trim_end_matches("iB").to_ascii_uppercase();
    let (digits, factor) = match upper.strip_suffix('K') {
        Some(digits) => (digits.to_owned(), 1 << 10),
        None => match upper.strip_suffix('M') {
            Some(digits) => (digits.to_owned(), 1 << 20),
            None => (upper, 1),
        },
    };
    let number = digits.parse::<u32>().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("{text:?} is no number of bytes: 64, 4K or 1M, as it may be"))
}

/// MB/s, as bytes a second.
fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim_end_matches("MB/s").trim().parse::<f64>().ok();
    number
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .map(|rate| rate * 1e6)
        .ok_or_else(|| format!("{text:?} is no rate: give MB/s, as in 117.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_rates_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("1", 1),
            ("64", 64),
            ("4k", 4096),
            ("4KiB", 4096),
            ("2M", 2 << 20),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "K", "-1", "1G", "4096M", "1.5K"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_rate("117.5"), Ok(117.5e6));
        assert_eq!(parse_rate("12 MB/s"), Ok(12e6));
        for wrong in ["", "0", "-3", "inf", "fast"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_server_is_what_came_to_it_and_from_it() {
        let flow = |bandwidth| Flow {
            route: Route { from: 0, to: 1 },
            round_trip: None,
            gap: weft_probe::model::Summary::of(vec![1.0]).unwrap(),
            bandwidth,
        };
        let mut shared = Shared {
            out: Together::new(vec![flow(10.0)]),
            into: Together::new(vec![flow(20.0)]),
            around: None,
        };
        let links = shared.links();
        assert_eq!((links.server_in, links.server_out), (10.0, 20.0));
        assert_eq!((links.client_out, links.client_in), (10.0, 20.0));
        shared.around = Some(Together::new(vec![flow(6.0), flow(8.0)]));
        shared.out = Together::new(vec![flow(5.0), flow(5.0)]);
        let links = shared.links();
        assert_eq!((links.server_in, links.server_out), (7.0, 7.0));
        assert_eq!(links.client_out, 10.0);
    }
}
