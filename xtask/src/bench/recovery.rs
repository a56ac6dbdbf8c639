//! `cargo xtask bench recovery`: what clients notice of a data server that is killed, comes back and
//! recovers (docs/operating/testbed.md). Two clients write and two read without a pause, on four pairs;
//! the moment both copies are told to be equal again, the server that had them alone is killed.

use super::client::Client;
use super::report::{self, Line};
use super::{PROTOCOLS, bed_of};
use crate::run::Outcome;
use crate::testbed::{Bed, Cluster, Rate, Seat};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Four pairs: as many servers as saturate the clients, not the other way round.
const SERVERS: usize = 8;
/// Half of them write.
const CLIENTS: usize = 4;
/// Bytes of each client's file, which is written or read again and again.
const BYTES: u64 = 64 << 20;
/// Who is killed first, and who has the copies alone then.
const FIRST: &str = "s1";
const SECOND: &str = "s0";
/// A client says so often how far it is.
const EVERY: Duration = Duration::from_millis(100);
/// Connections are made and links full by then.
const WARM: Duration = Duration::from_secs(3);
/// A recovery that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// What clients have left while a server recovers.
const GOAL: f64 = 0.6;

/// What to measure, and how long.
#[derive(Args)]
pub struct RecoveryOptions {
    /// What every link carries each way.
    #[arg(long, default_value = "50mbit")]
    rate: Rate,
    /// Protocols of the files.
    #[arg(long, value_delimiter = ',', default_values = PROTOCOLS, value_parser = PROTOCOLS)]
    protocols: Vec<String>,
    /// Seconds with all servers, with one of them gone, and with all of them again.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table goes.
    #[arg(long, default_value = "target/recovery-report")]
    report: PathBuf,
    /// Where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// Runs it for each protocol and reports.
///
/// # Errors
/// If no bed can be made, or a client fails, which must not happen whatever is killed.
pub fn run(options: &RecoveryOptions) -> Outcome {
    let (dir, given) = (options.dir.as_deref(), options.weft.as_deref());
    let (mut bed, weft) = bed_of(dir, given, options.rate, [SERVERS, CLIENTS])?;
    let nodes: Vec<String> = (0..SERVERS).map(|server| format!("s{server}")).collect();
    let seats = Seat::pairs(&nodes);
    let mut lines = Vec::new();
    let mut all = || -> Outcome {
        for protocol in &options.protocols {
            println!("== {protocol}");
            let cluster = Cluster::start(&mut bed, &weft, "recovery", "meta", &seats, false, true)?;
            let measured = measure(&mut bed, &weft, &cluster, protocol, options.seconds);
            let stopped = cluster.stop(&mut bed);
            lines.extend(measured?);
            stopped?;
        }
        Ok(())
    };
    // What was measured before something failed is measured.
    let whole = all();
    if !lines.is_empty() {
        report::write(&lines, &options.report, options.json.as_deref())?;
    }
    whole
}

/// One protocol: its figures.
fn measure(
    bed: &mut Bed,
    weft: &Path,
    cluster: &Cluster,
    protocol: &str,
    seconds: u64,
) -> Result<Vec<Line>, String> {
    // What is read lies there, and what is written takes no more room later.
    let writer = |number| start(bed, weft, cluster, (number, "--write"), protocol, false);
    let mut writers: Vec<Client> = (0..CLIENTS).map(writer).collect::<Result<_, _>>()?;
    writers.iter_mut().try_for_each(Client::wait_ready)?;
    writers.iter_mut().try_for_each(Client::go)?;
    for writer in &mut writers {
        writer.line()?;
    }
    drop(writers);
    let mut courses = Vec::new();
    for number in 0..CLIENTS {
        let way = if number % 2 == 0 { "--write" } else { "--read" };
        let mut client = start(bed, weft, cluster, (number, way), protocol, true)?;
        client.wait_ready()?;
        courses.push(client);
    }
    courses.iter_mut().try_for_each(Client::go)?;
    let courses: Vec<Course> = courses.into_iter().map(Course::of).collect();
    let span = Duration::from_secs(seconds);
    let mut phases = Phases {
        cluster,
        courses: &courses,
        protocol,
        lines: Vec::new(),
    };
    std::thread::sleep(WARM);
    let stay = |_: &mut Bed| {
        std::thread::sleep(span);
        Ok(())
    };
    let recover = |bed: &mut Bed| wait_until_both(bed, cluster);
    let recover_and_lose = |bed: &mut Bed| {
        wait_until_both(bed, cluster)?;
        bed.end(SECOND, true)
    };
    let normal = phases.pass(bed, "both members", stay)?;
    bed.end(FIRST, true)?;
    phases.pass(bed, "one member gone", stay)?;
    bed.start_again(FIRST)?;
    let left = phases.pass(bed, "recovering", recover_and_lose)?;
    phases.pass(bed, "the other member gone", stay)?;
    bed.start_again(SECOND)?;
    phases.pass(bed, "the other one recovering", recover)?;
    phases.pass(bed, "both members again", stay)?;
    let mut lines = phases.lines;
    for (figure, left, normal) in [
        (
            "writing while a member recovers",
            left.written,
            normal.written,
        ),
        ("reading while a member recovers", left.read, normal.read),
        ("all while a member recovers", left.all(), normal.all()),
    ] {
        let goal = figure.starts_with("all").then_some(GOAL);
        let line = Line::of("recovery", protocol, figure, "4+4", left, "MB/s");
        lines.push(line.beside("both members", normal, goal));
    }
    let took = left.seconds;
    lines.push(Line::of("recovery", protocol, "recovery", "4+4", took, "s"));
    Ok(lines)
}

fn start(
    bed: &Bed,
    weft: &Path,
    cluster: &Cluster,
    (number, way): (usize, &str),
    protocol: &str,
    is_endless: bool,
) -> Result<Client, String> {
    let mut command = bed.command(&format!("c{number}"), weft)?;
    command.args(["bench", "stream", "--meta", &cluster.meta]);
    command.args(["--file", &format!("{protocol}/{number}")]);
    command.args([way, &BYTES.to_string()]);
    if way == "--write" {
        command.args(["--protocol", protocol]);
    }
    if is_endless {
        let every = EVERY.as_millis().to_string();
        command.args(["--times", &u32::MAX.to_string(), "--every", &every]);
    }
    Client::start(command)
}

/// How far a client was when. Its process ends soon after this does.
struct Course {
    steps: Arc<Mutex<Steps>>,
}

#[derive(Default)]
struct Steps {
    moved: Vec<(Instant, u64)>,
    ended: Option<String>,
}

impl Course {
    fn of(mut client: Client) -> Course {
        let steps = Arc::new(Mutex::new(Steps::default()));
        let told = Arc::downgrade(&steps);
        std::thread::spawn(move || {
            loop {
                let line = client.line();
                // Nobody listens any more: the client ends, too.
                let Some(told) = told.upgrade() else { return };
                let Ok(mut steps) = told.lock() else { return };
                let moved = line.and_then(|line| {
                    let moved = serde_json::from_str::<Value>(&line)
                        .ok()
                        .and_then(|told| told["moved"].as_u64());
                    moved.ok_or(line)
                });
                match moved {
                    Ok(moved) => steps.moved.push((Instant::now(), moved)),
                    Err(why) => {
                        steps.ended = Some(why);
                        return;
                    }
                }
            }
        });
        Course { steps }
    }

    /// Bytes moved by then.
    fn at(&self, time: Instant) -> Result<u64, String> {
        let steps = self.steps.lock().map_err(|error| error.to_string())?;
        if let Some(why) = &steps.ended {
            return Err(format!("a client has ended: {why}"));
        }
        let before = steps.moved.iter().rev().find(|(at, _)| *at <= time);
        Ok(before.map_or(0, |(_, moved)| *moved))
    }
}

/// MB/s of all clients, and of how long.
struct Rates {
    seconds: f64,
    written: f64,
    read: f64,
}

impl Rates {
    fn all(&self) -> f64 {
        self.written + self.read
    }
}

struct Phases<'a> {
    cluster: &'a Cluster,
    courses: &'a [Course],
    protocol: &'a str,
    lines: Vec<Line>,
}

impl Phases<'_> {
    /// Measures how fast the clients are while something passes, and how often pairs change their states.
    fn pass(
        &mut self,
        bed: &mut Bed,
        name: &str,
        what: impl FnOnce(&mut Bed) -> Outcome,
    ) -> Result<Rates, String> {
        let epochs = self.cluster.epochs(bed)?;
        let begun = Instant::now();
        what(bed)?;
        let ended = Instant::now();
        let changes = self.cluster.epochs(bed)?.saturating_sub(epochs);
        // What was moved by now has been told by then.
        std::thread::sleep(2 * EVERY);
        let seconds = ended.duration_since(begun).as_secs_f64();
        let of = |first: usize| -> Result<f64, String> {
            let mut moved = 0;
            for course in self.courses.iter().skip(first).step_by(2) {
                moved += course.at(ended)?.saturating_sub(course.at(begun)?);
            }
            Ok(moved as f64 / 1e6 / seconds)
        };
        let rates = Rates {
            seconds,
            written: of(0)?,
            read: of(1)?,
        };
        println!(
            "{name}: {seconds:.1} s, {:.1} MB/s written, {:.1} MB/s read, {changes} changes of pairs",
            rates.written, rates.read
        );
        for (case, value) in [("written", rates.written), ("read", rates.read)] {
            let line = Line::of("recovery", self.protocol, name, case, value, "MB/s");
            self.lines.push(line);
        }
        Ok(rates)
    }
}

/// Waits until all pairs have two members with equal copies.
fn wait_until_both(bed: &Bed, cluster: &Cluster) -> Outcome {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = cluster.status(bed).unwrap_or_default();
        let pairs = status["pairs"].as_array().map_or(&[][..], Vec::as_slice);
        if pairs.len() == cluster.pairs() && pairs.iter().all(|pair| pair["state"] == "both") {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("after {PATIENCE:?} the pairs are {pairs:?}"));
        }
        std::thread::sleep(EVERY);
    }
}
