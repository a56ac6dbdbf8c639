//! Workers that begin at the same time, each in a node and on a mount of its own, of which the slowest
//! counts.

use super::database;
use crate::bench::machine::Machine;
use crate::run::Outcome;
use crate::testbed::{Bed, Cluster, Mount};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A worker that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(1200);
/// How soon the end of one is seen.
const LOOK: Duration = Duration::from_millis(2);
/// Of a wrong answer so much is shown.
const SHOWN: usize = 4;

/// What each worker does with its fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `blastn`.
    Search,
    /// Reads its files one after the other, from the first byte to the last.
    Read,
}

/// What all workers did together.
#[derive(Clone, Debug)]
pub struct Point {
    /// When each was done.
    pub seconds: Vec<f64>,
    /// Share of the machine's processors that was in use, by whomever.
    pub busy: f64,
}

impl Point {
    /// When the slowest was done.
    pub fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

/// On whose data they work.
pub struct Place<'a> {
    /// The binary.
    pub weft: &'a Path,
    /// The cluster that has the database.
    pub cluster: &'a Cluster,
    /// The database's directory on it.
    pub directory: &'a str,
    /// The queries, in a file outside.
    pub queries: &'a Path,
    /// What each must find in its fragment.
    pub hits: &'a [Vec<String>],
}

/// Why there is no figure.
pub enum Absent {
    /// It cannot be trusted; others may be.
    Disturbed(String),
    /// What must not happen has: a worker failed, or found something else.
    Failed(String),
}

impl From<String> for Absent {
    fn from(why: String) -> Absent {
        Absent::Failed(why)
    }
}

impl Place<'_> {
    /// Workers in the nodes `c0`, `c1`, ..., whose mounts are new: they have nothing in a cache.
    ///
    /// # Errors
    /// If a worker fails or finds something else than it must, or a pair has changed its state.
    pub fn measure(&self, bed: &mut Bed, work: Work) -> Result<Point, Absent> {
        let nodes = (0..self.hits.len()).map(|worker| format!("c{worker}"));
        let nodes: Vec<String> = nodes.collect();
        with_mounts(bed, self.weft, self.cluster, &nodes, |bed, mounts| {
            self.on(bed, mounts, work)
        })
    }

    fn on(&self, bed: &mut Bed, mounts: &[Mount], work: Work) -> Result<Point, Absent> {
        let mut commands = Vec::new();
        for (worker, mount) in mounts.iter().enumerate() {
            commands.push(self.command(bed, worker, mount, work)?);
        }
        let epochs = self.cluster.epochs(bed)?;
        let machine = Machine::now()?;
        let began = Instant::now();
        let mut workers = Vec::new();
        for (worker, command) in commands.into_iter().enumerate() {
            let output = bed.directory().join(format!("worker{worker}"));
            workers.push(Worker::start(command, work, output)?);
        }
        let seconds = wait(&mut workers, began);
        let busy = Machine::now()?.busy_since(&machine);
        let seconds = seconds.map_err(|(worker, why)| {
            let said = mounts[worker].last_words(bed);
            format!("worker {worker}: {why}\nits mount said last:\n{said}")
        })?;
        if work == Work::Search {
            for (worker, (process, hits)) in workers.iter().zip(self.hits).enumerate() {
                let wrong = |why| format!("worker {worker} found something else: {why}");
                check(&process.said()?, hits).map_err(wrong)?;
            }
        }
        if self.cluster.epochs(bed)? != epochs {
            self.cluster.wait(bed)?;
            return Err(Absent::Disturbed(
                "a pair changed its state meanwhile".into(),
            ));
        }
        Ok(Point { seconds, busy })
    }

    fn command(
        &self,
        bed: &Bed,
        worker: usize,
        mount: &Mount,
        work: Work,
    ) -> Result<Command, String> {
        let directory = mount.point().join(self.directory);
        let node = format!("c{worker}");
        if work == Work::Read {
            let mut command = bed.command(&node, "cat")?;
            command.args(database::files(&directory, worker)?);
            return Ok(command);
        }
        let mut command = bed.command(&node, "blastn")?;
        command
            .arg("-db")
            .arg(directory.join(database::name(worker)))
            .arg("-query")
            .arg(self.queries)
            .args(["-num_threads", "1", "-outfmt", database::COLUMNS])
            // It would tell its makers of each run, over a network that leads nowhere.
            .env("BLAST_USAGE_REPORT", "false");
        Ok(command)
    }
}

/// Does something with a mount in each of these nodes, and ends the mounts whatever came of it.
///
/// # Errors
/// If a mount does not come up or does not end, or what is done fails.
pub fn with_mounts<T, E: From<String>>(
    bed: &mut Bed,
    weft: &Path,
    cluster: &Cluster,
    nodes: &[String],
    what: impl FnOnce(&mut Bed, &[Mount]) -> Result<T, E>,
) -> Result<T, E> {
    let mut mounts = Vec::new();
    let mut up = Ok(());
    for node in nodes {
        match Mount::start(bed, weft, cluster, node) {
            Ok(mount) => mounts.push(mount),
            Err(why) => {
                up = Err(why);
                break;
            }
        }
    }
    let done = match up {
        Ok(()) => what(bed, &mounts),
        Err(why) => Err(E::from(why)),
    };
    let mut ended = Ok(());
    for mount in mounts {
        ended = ended.and(mount.end(bed));
    }
    let done = done?;
    ended?;
    Ok(done)
}

/// A process that is ended when dropped.
struct Worker {
    child: Child,
    output: PathBuf,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _: std::io::Result<()> = self.child.kill();
        }
        let _: std::io::Result<_> = self.child.wait();
    }
}

impl Worker {
    /// What it finds goes to a file; what is read goes nowhere.
    fn start(mut command: Command, work: Work, output: PathBuf) -> Result<Worker, String> {
        let io = |error: std::io::Error| format!("{}: {error}", output.display());
        let stdout = match work {
            Work::Search => File::create(&output).map_err(io)?.into(),
            Work::Read => Stdio::null(),
        };
        let errors = File::create(output.with_extension("errors")).map_err(io)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        Ok(Worker { child, output })
    }

    fn said(&self) -> Result<String, String> {
        fs::read_to_string(&self.output)
            .map_err(|error| format!("{}: {error}", self.output.display()))
    }
}

/// When each was done; or which one failed, and why.
fn wait(workers: &mut [Worker], began: Instant) -> Result<Vec<f64>, (usize, String)> {
    let mut seconds = vec![None; workers.len()];
    while seconds.iter().any(Option::is_none) {
        for (at, worker) in workers.iter_mut().enumerate() {
            if seconds[at].is_some() {
                continue;
            }
            match worker.child.try_wait() {
                Ok(None) if began.elapsed() < PATIENCE => {}
                Ok(None) => return Err((at, format!("it is not done after {PATIENCE:?}"))),
                Ok(Some(status)) if status.success() => {
                    seconds[at] = Some(began.elapsed().as_secs_f64());
                }
                Ok(Some(status)) => {
                    let errors = worker.output.with_extension("errors");
                    // The status says something, too.
                    let said = fs::read_to_string(errors).unwrap_or_default();
                    return Err((at, format!("{status}: {}", said.trim())));
                }
                Err(error) => return Err((at, error.to_string())),
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(seconds.into_iter().flatten().collect())
}

/// Refuses what was found unless it is what must be, in whatever order.
fn check(said: &str, expected: &[String]) -> Outcome {
    let mut found: Vec<&str> = said.lines().collect();
    found.sort_unstable();
    if found == expected {
        return Ok(());
    }
    let absent = expected.iter().filter(|hit| !found.contains(&hit.as_str()));
    let absent: Vec<&String> = absent.take(SHOWN).collect();
    let more = found
        .iter()
        .filter(|hit| !expected.iter().any(|known| known == *hit));
    let more: Vec<&&str> = more.take(SHOWN).collect();
    Err(format!(
        "{} hits instead of {}; absent {absent:?}, not expected {more:?}",
        found.len(),
        expected.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_right_in_any_order_and_wrong_if_one_differs() {
        let expected = ["a\t1".to_owned(), "b\t2".to_owned()];
        assert_eq!(check("b\t2\na\t1\n", &expected), Ok(()));
        for wrong in [
            "",
            "a\t1\n",
            "a\t1\nb\t3\n",
            "a\t1\nb\t2\nb\t2\n",
            "a\t1\nb\t2\nc\t3\n",
        ] {
            assert!(check(wrong, &expected).is_err(), "{wrong:?}");
        }
        let why = check("a\t1\nc\t3\n", &expected).unwrap_err();
        assert!(
            why.contains(r#"absent ["b\t2"], not expected ["c\t3"]"#),
            "{why}"
        );
    }

    #[test]
    fn the_slowest_counts_and_a_failure_names_its_worker() {
        let directory = tempfile::tempdir().unwrap();
        let start = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Worker::start(command, Work::Search, directory.path().join(name)).unwrap()
        };
        let began = Instant::now();
        let mut workers = [start("0", "echo found"), start("1", "sleep 0.2")];
        let seconds = wait(&mut workers, began).unwrap();
        let point = Point { seconds, busy: 0.0 };
        assert!(point.slowest() >= 0.2 && point.seconds[0] <= point.slowest());
        assert_eq!(workers[0].said().unwrap(), "found\n");
        let mut workers = [
            start("0", "exec sleep 60"),
            start("1", "echo alas >&2; exit 3"),
        ];
        let (worker, why) = wait(&mut workers, began).unwrap_err();
        assert_eq!(worker, 1);
        assert!(why.contains('3') && why.contains("alas"), "{why}");
    }
}
