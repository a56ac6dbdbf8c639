//! `cargo xtask bench ceft`: the write benchmark of CEFT (Zhu and Jiang, 2006, figure 7) on the test
//! bed, as ratios.
//!
//! n clients write 16 MiB each; overall throughput counts open and close, raw does not; the slowest
//! client decides. Each set of servers is measured with every protocol, and beside it half of the
//! servers and all of them without mirroring (figures 9 to 11, table 1). Figure 8 compares the same
//! file with different files under server-sync. Reads show what both copies are good for: twice the
//! links, and a way around a slow one.

mod measure;
mod paper;
mod simulated;

use super::report::{self, Line};
use super::{PROTOCOLS, bed_of};
use crate::run::Outcome;
use crate::testbed::{Bed, Cluster, Rate, Seat};
use clap::Args;
use measure::{Point, Subject, Work};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// As the paper's clients.
const BYTES: u64 = 16 << 20;
/// Half of the servers and all of them without mirroring, and mirrored.
const CLUSTERS: [&str; 3] = ["half", "mirrored", "all"];
/// Shown as systems beside the protocols.
const HALF: &str = "half, no mirroring";
const ALL: &str = "all, no mirroring";
/// Of half the servers without mirroring, at saturation.
const GOAL_SYNC: f64 = 0.95;
/// The same for the asynchronous protocols.
const GOAL_ASYNC: f64 = 1.0;
/// Of no mirroring, for one client whose own link is the limit.
const GOAL_ONE: f64 = 0.95;
/// A slow server's link has this part of the rate.
const SLOW_PART: u64 = 10;
/// What one client reads alone.
const LARGE_BYTES: u64 = 64 << 20;
/// A large read from both copies, of half the servers without mirroring.
const GOAL_READ: f64 = 1.8;
/// The same with one server slow, of half the servers that are all well.
const GOAL_READ_SLOW: f64 = 0.9;

/// What to measure, and how long.
#[derive(Args)]
pub struct CeftOptions {
    /// In virtual time, without a test bed and without root: the same code of servers and clients in the
    /// simulator, links modelled, with figures of the paper's beside. Takes a minute for 8 servers,
    /// some for 64.
    #[arg(long, conflicts_with_all = ["weft", "dir", "rounds"])]
    simulated: bool,
    /// Numbers of servers: 8 is four mirroring four.
    #[arg(long, value_delimiter = ',', default_value = "8,16", value_parser = parse_servers)]
    servers: Vec<usize>,
    /// What every link carries each way. With more, two processors are the limit instead (the report
    /// says how much of them was in use).
    #[arg(long, default_value = "50mbit")]
    rate: Rate,
    /// Only these protocols (and no mirroring).
    #[arg(long, value_delimiter = ',', default_values = PROTOCOLS, value_parser = PROTOCOLS)]
    protocols: Vec<String>,
    /// Only these clusters; the goals are beside `half`.
    #[arg(long, value_delimiter = ',', default_values = CLUSTERS, value_parser = CLUSTERS)]
    clusters: Vec<String>,
    /// Up to this many clients; by default twice the servers.
    #[arg(long)]
    clients: Option<usize>,
    /// Rounds; the systems take turns, medians are compared.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// The smaller set of servers, fewer numbers of clients: three minutes.
    #[arg(long)]
    quick: bool,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/ceft-report")]
    report: PathBuf,
    /// Where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

fn parse_servers(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|servers| (2..=64).contains(servers) && servers % 2 == 0)
        .ok_or_else(|| "an even number from 2 to 64".into())
}

/// A cluster to be measured, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// As in the report: `4+4`.
    set: String,
    /// As in the report.
    system: String,
    servers: usize,
    is_mirrored: bool,
}

/// Figures as they come.
struct Figures {
    lines: Vec<Line>,
    absent: Vec<String>,
}

impl Figures {
    fn add(&mut self, run: &Run, figure: &str, clients: usize, value: f64, unit: &str) {
        let figure = format!("{} {figure}", run.set);
        let case = match clients {
            1 => "1 client".to_owned(),
            more => format!("{more} clients"),
        };
        let line = Line::of("ceft", &run.system, &figure, &case, value, unit);
        self.lines.push(line);
    }

    /// What was written and with how many; or why there is no figure, which then is absent.
    fn point(
        &mut self,
        run: &Run,
        work: &str,
        clients: usize,
        measured: Result<Point, String>,
    ) -> Option<Point> {
        let what = format!("{} {}, {work}, {clients} clients", run.set, run.system);
        match measured {
            Ok(point) => {
                println!(
                    "{what}: overall {:.1}, raw {:.1} MB/s, {:.2} cpu s/GiB, processors {:.0} % in use",
                    point.overall,
                    point.raw,
                    point.cpu_per_gib,
                    100.0 * point.busy
                );
                Some(point)
            }
            Err(why) => {
                println!("{what}: absent: {why}");
                self.absent.push(format!("{what}: {why}"));
                None
            }
        }
    }
}

/// Runs it all and reports.
///
/// # Errors
/// If no bed can be made or nothing could be measured. What some points lack is told and left out.
pub fn run(options: &CeftOptions) -> Outcome {
    let start = Instant::now();
    let mut servers = options.servers.clone();
    servers.sort_unstable();
    servers.dedup();
    if options.quick {
        servers.truncate(1);
    }
    let most = *servers.last().ok_or("--servers names none")?;
    if options.simulated {
        return simulated::run(options, &servers);
    }
    let clients = options.clients.unwrap_or(2 * most).max(1);
    let (dir, given) = (options.dir.as_deref(), options.weft.as_deref());
    let (mut bed, weft) = bed_of(dir, given, options.rate, [most, clients])?;
    let mut figures = Figures {
        lines: Vec::new(),
        absent: Vec::new(),
    };
    for round in 1..=options.rounds.max(1) {
        for run in runs(&servers, &options.clusters) {
            println!(
                "== {} {}, round {round} of {}",
                run.set, run.system, options.rounds
            );
            let most = options.clients.unwrap_or(2 * set_size(&run)).max(1);
            // What was measured before something failed is measured.
            if let Err(why) = measure(&mut bed, &weft, options, &run, most, &mut figures) {
                figures
                    .absent
                    .push(format!("{} {}: {why}", run.set, run.system));
            }
        }
    }
    let Figures { lines, absent } = figures;
    let mut lines = report::medians(lines);
    set_goals(&mut lines);
    report::write(&lines, &options.report, options.json.as_deref())?;
    for why in &absent {
        println!("absent: {why}");
    }
    println!(
        "links of {}, {} MiB a client, {:.0} s",
        options.rate,
        BYTES >> 20,
        start.elapsed().as_secs_f64()
    );
    if lines.is_empty() {
        return Err("nothing could be measured".into());
    }
    Ok(())
}

/// The clusters of each set of servers: mirrored, half and all without mirroring.
fn runs(servers: &[usize], clusters: &[String]) -> Vec<Run> {
    let of = |servers: usize| {
        let run = |system: &str, servers_used: usize, is_mirrored| Run {
            set: format!("{0}+{0}", servers / 2),
            system: system.to_owned(),
            servers: servers_used,
            is_mirrored,
        };
        [
            run(HALF, servers / 2, false),
            run("mirrored", servers, true),
            run(ALL, servers, false),
        ]
    };
    let wanted = |(_, name): &(Run, &str)| clusters.iter().any(|cluster| cluster == name);
    servers
        .iter()
        .flat_map(|&servers| of(servers).into_iter().zip(CLUSTERS).filter(wanted))
        .map(|(run, _)| run)
        .collect()
}

/// Servers of the set that a run belongs to.
fn set_size(run: &Run) -> usize {
    match run.system.as_str() {
        HALF => 2 * run.servers,
        _ => run.servers,
    }
}

/// Powers of two; with `quick` every other one.
fn steps(most: usize, quick: bool) -> Vec<usize> {
    let mut steps: Vec<usize> = (0..)
        .map(|power| 1 << power)
        .take_while(|&step| step <= most)
        .collect();
    if quick {
        let last = steps.len() - 1;
        steps = steps
            .into_iter()
            .enumerate()
            .filter(|(at, _)| (last - at).is_multiple_of(2) || *at == 0)
            .map(|(_, step)| step)
            .collect();
    }
    steps
}

fn measure(
    bed: &mut Bed,
    weft: &Path,
    options: &CeftOptions,
    run: &Run,
    most: usize,
    figures: &mut Figures,
) -> Outcome {
    let nodes: Vec<String> = (0..run.servers)
        .map(|server| format!("s{server}"))
        .collect();
    let seats = match run.is_mirrored {
        true => Seat::pairs(&nodes),
        false => Seat::alone(&nodes),
    };
    let cluster = Cluster::start(bed, weft, "ceft", "meta", &seats, false, true)?;
    let measured = on_cluster(bed, weft, options, run, &cluster, most, figures);
    let stopped = cluster.stop(bed);
    measured.and(stopped)
}

fn on_cluster(
    bed: &mut Bed,
    weft: &Path,
    options: &CeftOptions,
    run: &Run,
    cluster: &Cluster,
    most: usize,
    figures: &mut Figures,
) -> Outcome {
    let steps = steps(most, options.quick);
    let subject = |protocol| Subject {
        weft,
        cluster,
        protocol,
        bytes: BYTES,
    };
    let protocols: Vec<Option<&str>> = match run.is_mirrored {
        true => options
            .protocols
            .iter()
            .map(|one| Some(one.as_str()))
            .collect(),
        false => vec![None],
    };
    for protocol in protocols {
        let run = Run {
            system: protocol.unwrap_or(&run.system).to_owned(),
            ..run.clone()
        };
        let works = match protocol {
            // The paper's figure 8 is of this one.
            Some("server-sync") => &[
                (Work::Write, "different files"),
                (Work::WriteShared, "same file"),
            ][..],
            _ => &[(Work::Write, "different files")],
        };
        for &(work, name) in works {
            for &clients in &steps {
                let measured = subject(protocol).measure(bed, clients, work);
                let Some(point) = figures.point(&run, name, clients, measured) else {
                    // More clients would fail alike, after as long a wait.
                    break;
                };
                figures.add(
                    &run,
                    &format!("overall, {name}"),
                    clients,
                    point.overall,
                    "MB/s",
                );
                figures.add(&run, &format!("raw, {name}"), clients, point.raw, "MB/s");
                if work == Work::Write {
                    figures.add(&run, "cpu", clients, point.cpu_per_gib, "cpu s/GiB");
                    figures.add(&run, "processors in use", clients, 100.0 * point.busy, "%");
                }
            }
        }
    }
    if run.system == ALL {
        return Ok(());
    }
    let protocol = run.is_mirrored.then_some("server-sync");
    let run = Run {
        system: protocol.unwrap_or(&run.system).to_owned(),
        ..run.clone()
    };
    reads(
        bed,
        &subject(protocol),
        &run,
        options.rate,
        most / 2,
        figures,
    )
}

/// Reads where the servers' links are the limit and the clients' are not: by one client, and by as many
/// as the set has servers; all of them well, and one slow.
fn reads(
    bed: &mut Bed,
    subject: &Subject<'_>,
    run: &Run,
    rate: Rate,
    clients: usize,
    figures: &mut Figures,
) -> Outcome {
    let clients = clients.max(1);
    let written = subject.measure(bed, clients, Work::Prepare);
    if figures
        .point(run, "files to be read", clients, written)
        .is_none()
    {
        return Ok(());
    }
    // The first client's file goes on.
    let large = Subject {
        bytes: LARGE_BYTES,
        ..*subject
    };
    set_clients_rate(bed, clients, None)?;
    let written = large.measure(bed, 1, Work::Prepare);
    let readers = match figures.point(run, "a large file to be read", 1, written) {
        Some(_) => &[(&large, 1), (subject, clients)][..],
        None => &[(subject, clients)],
    };
    for (parts, what) in [(1, "read"), (SLOW_PART, "read, one server slow")] {
        bed.set_rate("s0", Some(rate.part(parts)))?;
        for &(subject, clients) in readers {
            let read = subject.measure(bed, clients, Work::Read);
            if let Some(point) = figures.point(run, what, clients, read) {
                figures.add(run, what, clients, point.raw, "MB/s");
            }
        }
    }
    bed.set_rate("s0", Some(rate))?;
    set_clients_rate(bed, clients, Some(rate))
}

fn set_clients_rate(bed: &mut Bed, clients: usize, rate: Option<Rate>) -> Outcome {
    for client in 0..clients {
        bed.set_rate(&format!("c{client}"), rate)?;
    }
    Ok(())
}

/// Adds what figures are beside no mirroring: at saturation (the greatest figure of each curve), and
/// for one client.
fn set_goals(lines: &mut Vec<Line>) {
    let mut curves: BTreeMap<(String, String), Vec<Line>> = BTreeMap::new();
    for line in lines.iter() {
        let key = (line.figure.clone(), line.system.clone());
        curves.entry(key).or_default().push(line.clone());
    }
    let greatest = |curve: &[Line]| {
        curve
            .iter()
            .max_by(|a, b| a.value.total_cmp(&b.value))
            .cloned()
    };
    for ((figure, system), curve) in &curves {
        let Some((set, what)) = figure.split_once(' ') else {
            continue;
        };
        if system == HALF || system == ALL {
            continue;
        }
        let beside = |baseline: &str| curves.get(&(figure.clone(), baseline.to_owned()));
        if what == "overall, different files" {
            for (baseline, goal) in [(HALF, goal_of(system)), (ALL, None)] {
                if let (Some(peak), Some(base)) = (
                    greatest(curve),
                    beside(baseline).and_then(|base| greatest(base)),
                ) {
                    let mut peak = peak;
                    peak.figure = format!("{set} peak");
                    peak.case = "different files".into();
                    if baseline == HALF {
                        lines.push(peak.clone());
                        let mut of_base = base.clone();
                        of_base.figure.clone_from(&peak.figure);
                        of_base.case.clone_from(&peak.case);
                        if !lines.iter().any(|line| line.key() == of_base.key()) {
                            lines.push(of_base);
                        }
                    }
                    lines.push(peak.beside(baseline, base.value, goal));
                }
            }
            let one = |curve: &[Line]| curve.iter().find(|line| line.case == "1 client").cloned();
            if let (Some(line), Some(base)) = (one(curve), beside(HALF).and_then(|base| one(base)))
            {
                let goal = system.starts_with("server-").then_some(GOAL_ONE);
                lines.push(line.beside(HALF, base.value, goal));
            }
        } else if let Some(goal) = goal_of_reads(what) {
            // A slow server stands for a hot one: beside the baseline as it is when all are well.
            let well = curves.get(&(format!("{set} read"), HALF.to_owned()));
            for line in curve {
                let mut all = well.into_iter().flatten();
                if let Some(base) = all.find(|base| base.case == line.case) {
                    lines.push(line.beside(HALF, base.value, Some(goal)));
                }
            }
        }
    }
}

fn goal_of_reads(figure: &str) -> Option<f64> {
    match figure {
        "read" => Some(GOAL_READ),
        "read, one server slow" => Some(GOAL_READ_SLOW),
        _ => None,
    }
}

/// At saturation, beside half the servers without mirroring. The hybrid has none of its own.
fn goal_of(protocol: &str) -> Option<f64> {
    match protocol {
        name if name.ends_with("-sync") => Some(GOAL_SYNC),
        name if name.ends_with("-async") => Some(GOAL_ASYNC),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_is_measured_beside_half_and_all_of_its_servers() {
        let all = CLUSTERS.map(str::to_owned);
        let runs = runs(&[8], &all);
        let shapes: Vec<(usize, bool)> = runs
            .iter()
            .map(|run| (run.servers, run.is_mirrored))
            .collect();
        assert_eq!(shapes, [(4, false), (8, true), (8, false)]);
        assert!(
            runs.iter()
                .all(|run| run.set == "4+4" && set_size(run) == 8)
        );
        let mirrored = super::runs(&[8, 16], &all[1..2]);
        assert!(mirrored.iter().all(|run| run.is_mirrored) && mirrored.len() == 2);
    }

    #[test]
    fn numbers_of_clients_are_powers_of_two() {
        assert_eq!(steps(16, false), [1, 2, 4, 8, 16]);
        assert_eq!(steps(16, true), [1, 4, 16]);
        assert_eq!(steps(9, true), [1, 2, 8]);
        assert_eq!(steps(1, true), [1]);
    }

    #[test]
    fn ratios_are_of_the_peaks_and_goals_of_those_that_have_one() {
        let line = |system: &str, case: &str, value| {
            Line::of(
                "ceft",
                system,
                "4+4 overall, different files",
                case,
                value,
                "MB/s",
            )
        };
        let mut lines = vec![
            line(HALF, "1 client", 10.0),
            line(HALF, "8 clients", 40.0),
            line(HALF, "16 clients", 30.0),
            line("server-sync", "1 client", 10.0),
            line("server-sync", "8 clients", 30.0),
            line("server-sync", "16 clients", 39.0),
            line("client-async", "1 client", 5.0),
            line("client-async", "8 clients", 39.0),
            line("hybrid", "8 clients", 20.0),
        ];
        let read = |system: &str, figure: &str, value| {
            Line::of("ceft", system, figure, "1 client", value, "MB/s")
        };
        lines.extend([
            read(HALF, "4+4 read", 10.0),
            read(HALF, "4+4 read, one server slow", 2.0),
            read("server-sync", "4+4 read", 17.0),
            read("server-sync", "4+4 read, one server slow", 9.0),
        ]);
        set_goals(&mut lines);
        let find = |system: &str, figure: &str| {
            let mut all = lines.iter().filter(|line| line.baseline.is_some());
            all.find(|line| line.system == system && line.figure.ends_with(figure))
                .map(|line| (line.ratio, line.ok))
        };
        assert_eq!(find("server-sync", "peak"), Some((Some(0.975), Some(true))));
        assert_eq!(find("server-sync", "files"), Some((Some(1.0), Some(true))));
        assert_eq!(
            find("client-async", "peak"),
            Some((Some(0.975), Some(false)))
        );
        assert_eq!(find("client-async", "files"), Some((Some(0.5), None)));
        assert_eq!(find("hybrid", "peak"), Some((Some(0.5), None)));
        assert_eq!(find("hybrid", "files"), None);
        let reads = find("server-sync", "4+4 read");
        assert_eq!(reads, Some((Some(1.7), Some(false))));
        let slow = find("server-sync", "slow");
        assert_eq!(slow, Some((Some(0.9), Some(true))));
    }

    #[test]
    fn a_number_of_servers_is_even() {
        assert_eq!(parse_servers("8"), Ok(8));
        for wrong in ["", "0", "7", "66", "x"] {
            assert!(parse_servers(wrong).is_err(), "{wrong}");
        }
    }
}
