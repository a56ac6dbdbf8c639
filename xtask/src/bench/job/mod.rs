//! `cargo xtask bench job`: a real job that reads much and in parallel, as CEFT's authors had in parallel
//! BLAST (Zhu and Jiang, 2006, section 5.5; Zhu, Jiang, Qin and Swanson, 2003).
//!
//! Each worker has a node, a mount and a fragment of the database of its own, and searches that for the
//! same queries; the job is done when the slowest is. Half of the servers without mirroring stand
//! beside all of them mirrored, each with all servers well and with one of them slow. What must be
//! found is known, and whoever finds anything else has failed. A plain read of the same files shows how
//! much of what the file system could give the job takes.

mod database;
mod workers;

use super::bed_of;
use super::report::{self, Line};
use super::start;
use crate::run::{Outcome, has, quiet};
use crate::testbed::{Bed, Cluster, Rate, Seat};
use clap::Args;
use database::Shape;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;
use workers::{Absent, Place, Work, with_mounts};

/// Mirrored, four pairs.
const SERVERS: usize = 8;
/// The systems.
const HALF: &str = "half, no mirroring";
const MIRRORED: &str = "server-sync";
/// Where the database lies in the cluster.
const DIRECTORY: &str = "database";
/// What is measured, and what the figures are called.
const WORKS: [(Work, &str); 2] = [(Work::Search, "search"), (Work::Read, "plain read")];
/// Follows a figure's name.
const SLOW: &str = ", one server slow";
/// A slow server's link has this part of the rate.
const SLOW_PART: u64 = 10;
/// With one server slow, of half the servers that are all well.
const GOAL_SLOW: f64 = 0.9;
/// How much longer CEFT's authors' job took at most when disks were kept busy by others: on PVFS and
/// on CEFT (2003, abstract).
const THEIRS: [(&str, f64); 2] = [(HALF, 21.0), (MIRRORED, 2.0)];

/// What to measure, and how long.
#[derive(Args)]
pub struct JobOptions {
    /// What every server's link carries each way. The workers' links are not limited.
    #[arg(long, default_value = "50mbit")]
    rate: Rate,
    /// Workers, and fragments of the database.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: u64,
    /// MiB of each fragment.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=512))]
    size: u64,
    /// Rounds; the systems take turns, medians are compared.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/job-report")]
    report: PathBuf,
    /// Where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// The job, and the figures as they come.
struct Job<'a> {
    weft: &'a Path,
    rate: Rate,
    database: &'a Path,
    bytes: u64,
    hits: &'a [Vec<String>],
    lines: Vec<Line>,
    absent: Vec<String>,
}

/// Runs it all and reports.
///
/// # Errors
/// If no bed can be made, or a worker fails or finds something else than it must. What was measured
/// before is reported.
pub fn run(options: &JobOptions) -> Outcome {
    let begun = Instant::now();
    install()?;
    let workers = options.workers as usize;
    let shape = Shape {
        fragments: workers,
        mib: options.size as usize,
    };
    let database = shape.made()?;
    let hits: Vec<Vec<String>> = (0..workers).map(|worker| shape.hits(worker)).collect();
    let mut bytes = 0;
    for file in files(&database, workers)? {
        let size = fs::metadata(&file).map(|data| data.len());
        bytes += size.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let (dir, given) = (options.dir.as_deref(), options.weft.as_deref());
    let (mut bed, weft) = bed_of(dir, given, options.rate, [SERVERS, workers])?;
    for worker in 0..workers {
        bed.set_rate(&format!("c{worker}"), None)?;
    }
    let mut job = Job {
        weft: &weft,
        rate: options.rate,
        database: &database,
        bytes,
        hits: &hits,
        lines: Vec::new(),
        absent: Vec::new(),
    };
    // What was measured before something failed is measured.
    let whole = (0..options.rounds.max(1)).try_for_each(|_| job.round(&mut bed));
    let mut lines = report::medians(job.lines);
    set_goals(&mut lines);
    if !lines.is_empty() {
        report::write(&lines, &options.report, options.json.as_deref())?;
    }
    for why in &job.absent {
        println!("absent: {why}");
    }
    println!(
        "links of {}, {workers} workers, {:.1} MB together, {:.0} s",
        options.rate,
        bytes as f64 / 1e6,
        begun.elapsed().as_secs_f64()
    );
    whole?;
    match lines.is_empty() {
        true => Err("nothing could be measured".into()),
        false => Ok(()),
    }
}

fn install() -> Outcome {
    let is_there = || has("blastn", "-version") && has("makeblastdb", "-version");
    if is_there() {
        return Ok(());
    }
    // SAFETY: has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Err("blastn or makeblastdb is missing: install the package ncbi-blast+".into());
    }
    println!("== install ncbi-blast+");
    start::install(&["ncbi-blast+"])?;
    match is_there() {
        true => Ok(()),
        false => Err("ncbi-blast+ is installed, but blastn or makeblastdb does not start".into()),
    }
}

fn files(directory: &Path, fragments: usize) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for fragment in 0..fragments {
        files.extend(database::files(directory, fragment)?);
    }
    Ok(files)
}

impl Job<'_> {
    fn round(&mut self, bed: &mut Bed) -> Outcome {
        for (system, servers) in [(HALF, SERVERS / 2), (MIRRORED, SERVERS)] {
            println!("== {system}");
            let nodes: Vec<String> = (0..servers).map(|server| format!("s{server}")).collect();
            let seats = match system {
                MIRRORED => Seat::pairs(&nodes),
                _ => Seat::alone(&nodes),
            };
            let cluster = Cluster::start(bed, self.weft, "job", "meta", &seats, false, true)?;
            let measured = self.on_cluster(bed, &cluster, system);
            let stopped = cluster.stop(bed);
            measured.and(stopped)?;
        }
        Ok(())
    }

    fn on_cluster(&mut self, bed: &mut Bed, cluster: &Cluster, system: &str) -> Outcome {
        self.fill(bed, cluster, system)?;
        let queries = bed.directory().join("queries");
        fs::write(&queries, database::queries())
            .map_err(|error| format!("{}: {error}", queries.display()))?;
        let place = Place {
            weft: self.weft,
            cluster,
            directory: DIRECTORY,
            queries: &queries,
            hits: self.hits,
        };
        let mut all = || -> Outcome {
            for (parts, follows) in [(1, ""), (SLOW_PART, SLOW)] {
                bed.set_rate("s0", Some(self.rate.part(parts)))?;
                for (work, figure) in WORKS {
                    let figure = format!("{figure}{follows}");
                    self.point(&place, bed, system, work, &figure)?;
                }
            }
            Ok(())
        };
        let measured = all();
        bed.set_rate("s0", Some(self.rate))?;
        measured
    }

    /// Copies the database into the cluster through a mount, which ends then.
    fn fill(&self, bed: &mut Bed, cluster: &Cluster, system: &str) -> Outcome {
        let begun = Instant::now();
        let nodes = ["c0".to_owned()];
        with_mounts(bed, self.weft, cluster, &nodes, |bed, mounts| {
            let Some(mount) = mounts.first() else {
                return Err("there is no mount".to_owned());
            };
            let directory = mount.point().join(DIRECTORY);
            let io = |error: std::io::Error| {
                let said = mount.last_words(bed);
                let directory = directory.display();
                format!("{directory}: {error}; the mount said last:\n{said}")
            };
            fs::create_dir(&directory).map_err(io)?;
            if system == MIRRORED {
                let mut policy = bed.command("c0", self.weft)?;
                policy.args(["policy", "set", "--protocol", MIRRORED]);
                quiet(policy.arg(&directory))?;
            }
            for file in files(self.database, self.hits.len())? {
                let name = file.file_name().unwrap_or_default();
                let copy = directory.join(name);
                fs::copy(&file, &copy).map_err(io)?;
                File::open(&copy)
                    .and_then(|file| file.sync_all())
                    .map_err(io)?;
            }
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("the database is there after {seconds:.1} s");
        Ok(())
    }

    fn point(
        &mut self,
        place: &Place<'_>,
        bed: &mut Bed,
        system: &str,
        work: Work,
        figure: &str,
    ) -> Outcome {
        let point = match place.measure(bed, work) {
            Ok(point) => point,
            Err(Absent::Disturbed(why)) => {
                println!("{figure}: absent: {why}");
                self.absent.push(format!("{system}, {figure}: {why}"));
                return Ok(());
            }
            Err(Absent::Failed(why)) => return Err(format!("{system}, {figure}: {why}")),
        };
        let (slowest, busy) = (point.slowest(), 100.0 * point.busy);
        let rate = self.bytes as f64 / 1e6 / slowest;
        let each: Vec<String> = point.seconds.iter().map(|s| format!("{s:.1}")).collect();
        println!(
            "{figure}: {rate:.1} MB/s, workers done after {} s, processors {busy:.0} % in use",
            each.join(", ")
        );
        for (case, value, unit) in [
            ("all workers", rate, "MB/s"),
            ("the slowest worker", slowest, "s"),
            ("processors in use", busy, "%"),
        ] {
            let line = Line::of("job", system, figure, case, value, unit);
            self.lines.push(line);
        }
        Ok(())
    }
}

/// Adds what figures are beside half of the servers, which are all well, and the job beside a plain read;
/// and how much longer it takes with one server slow, with what CEFT's authors saw below.
fn set_goals(lines: &mut Vec<Line>) {
    let measured = lines.clone();
    let find = |system: &str, figure: &str| {
        let mut all = measured.iter().filter(|line| line.unit == "MB/s");
        all.find(|line| line.system == system && line.figure == figure)
    };
    for (_, well) in WORKS {
        let slow = format!("{well}{SLOW}");
        if let Some(base) = find(HALF, well) {
            for (figure, goal) in [(well, None), (&slow, Some(GOAL_SLOW))] {
                let line = find(MIRRORED, figure);
                lines.extend(line.map(|line| line.beside(HALF, base.value, goal)));
            }
        }
    }
    for system in [HALF, MIRRORED] {
        for follows in ["", SLOW] {
            let [search, read] = WORKS.map(|(_, name)| find(system, &format!("{name}{follows}")));
            if let (Some(search), Some(read)) = (search, read) {
                lines.push(search.beside("plain read", read.value, None));
            }
        }
    }
    let longer = |system: &str, case: &str, value| {
        Line::of("job", system, "search takes longer", case, value, "times")
    };
    let slow = format!("search{SLOW}");
    for system in [HALF, MIRRORED] {
        if let (Some(well), Some(slow)) = (find(system, "search"), find(system, &slow)) {
            lines.push(longer(
                system,
                "with one server slow",
                well.value / slow.value,
            ));
        }
    }
    if lines.len() > measured.len() {
        let theirs = THEIRS.map(|(system, times)| longer(system, "at CEFT's authors", times));
        lines.extend(theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(system: &str, figure: &str, value: f64) -> Line {
        Line::of("job", system, figure, "all workers", value, "MB/s")
    }

    #[test]
    fn a_slow_server_is_beside_half_that_are_all_well() {
        let mut lines = vec![
            line(HALF, "search", 20.0),
            line(HALF, "plain read", 25.0),
            line(HALF, "search, one server slow", 2.0),
            line(MIRRORED, "search", 36.0),
            line(MIRRORED, "search, one server slow", 18.0),
            line(MIRRORED, "plain read, one server slow", 20.0),
        ];
        set_goals(&mut lines);
        let find = |system: &str, figure: &str, baseline: &str| {
            let mut all = lines.iter().filter(|line| line.system == system);
            all.find(|line| line.figure == figure && line.baseline.as_deref() == Some(baseline))
                .map(|line| (line.ratio, line.ok))
        };
        let slow = "search, one server slow";
        assert_eq!(find(MIRRORED, "search", HALF), Some((Some(1.8), None)));
        assert_eq!(find(MIRRORED, slow, HALF), Some((Some(0.9), Some(true))));
        let read = find(MIRRORED, "plain read, one server slow", HALF);
        assert_eq!(read, Some((Some(0.8), Some(false))));
        assert_eq!(find(HALF, "search", "plain read"), Some((Some(0.8), None)));
        assert_eq!(find(MIRRORED, slow, "plain read"), Some((Some(0.9), None)));
        assert_eq!(find(HALF, slow, HALF), None);
        let longer: Vec<(&str, f64)> = lines
            .iter()
            .filter(|line| line.unit == "times")
            .map(|line| (line.system.as_str(), line.value))
            .collect();
        assert_eq!(
            longer,
            [(HALF, 10.0), (MIRRORED, 2.0), (HALF, 21.0), (MIRRORED, 2.0)]
        );
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let mut lines = vec![line(MIRRORED, "search", 36.0)];
        set_goals(&mut lines);
        assert_eq!(lines.len(), 1);
    }
}
