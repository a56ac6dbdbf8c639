//! `ls -l` of a large directory: by a native client (`ls` itself on a mount), by an NFS client of a gateway, and by one of
//! NFS-Ganesha over a mount. Each finds a directory of which it knows nothing, and then the same one again.

use super::ganesha::{self, Ganesha};
use super::nfs::{Client, Export, Listed};
use super::writers::with_client;
use super::{BENCH, DnfspOptions};
use crate::bench::report::{self, Line};
use crate::cluster::{Cluster, Mount, cannot_mount};
use crate::run::Outcome;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Within which a native client shows 20,000 files.
const GOAL_SECONDS: f64 = 1.0;
/// Of how many files the goal speaks.
const GOAL_FILES: u64 = 20_000;
/// Threads that make the files.
const MAKERS: u64 = 4;
/// In the figures.
const MOUNT: &str = "mount";
const GATEWAY: &str = "gateway";
const GANESHA: &str = "ganesha";

/// Who wrote the files.
#[derive(Clone, Copy)]
enum Writer {
    /// A mount that has gone since: nobody has their tokens.
    Gone,
    /// A mount that is still there, and has the tokens of all of them.
    There,
}

impl Writer {
    fn figure(self, files: u64) -> String {
        match self {
            Writer::Gone => format!("ls -l of {files} files"),
            Writer::There => format!("ls -l of {files} files whose writer is there"),
        }
    }
}

/// Measures all three, or those that can be had.
///
/// # Errors
/// If the cluster cannot be brought up, or a client fails.
pub fn run(options: &DnfspOptions, weft: &Path, all: &mut Vec<Line>) -> Outcome {
    if let Some(why) = cannot_mount() {
        println!("listings are left out: {why}");
        return Ok(());
    }
    let without = ganesha::left_out();
    if let Some(why) = without {
        println!("NFS-Ganesha is left out: {why}");
    }
    let home = tempfile::Builder::new().prefix("weft-").tempdir();
    let home = home.map_err(|error| format!("a directory for the cluster: {error}"))?;
    let at = |name: &str| home.path().join(name);
    for name in ["first", "second"] {
        fs::create_dir(at(name)).map_err(|error| format!("{}: {error}", at(name).display()))?;
    }
    let more = ["--pairs", "2", "--nfs", "1", "--nfs-squash", "none"];
    let cluster = Cluster::up(weft, &at("cluster"), &at("first"), &more)?;
    let gateway = cluster.gateways(1)?.remove(0);
    let stand = Stand {
        cluster: &cluster,
        first: at("first"),
        second: at("second"),
        gateway: Export::of_gateway(gateway),
        has_ganesha: without.is_none(),
        files: options.listed,
    };
    let mut lines = Vec::new();
    for round in 0..options.rounds {
        for writer in [Writer::Gone, Writer::There] {
            stand.measure(round, writer, &mut lines)?;
        }
    }
    cluster.down()?;
    all.extend(compared(&report::medians(lines)));
    Ok(())
}

struct Stand<'a> {
    cluster: &'a Cluster,
    /// The cluster's mount, and where others are mounted for a while.
    first: std::path::PathBuf,
    second: std::path::PathBuf,
    gateway: Export,
    has_ganesha: bool,
    files: u64,
}

impl Stand<'_> {
    /// Each system lists a directory of its own: where tokens are held, the first listing takes some of them away.
    fn measure(&self, round: usize, writer: Writer, lines: &mut Vec<Line>) -> Outcome {
        let mut note = |system: &str, case: &str, took: Duration| {
            let (figure, seconds) = (writer.figure(self.files), took.as_secs_f64());
            println!("{system}, {figure}, {case}: {seconds:.3} s");
            lines.push(Line::of(BENCH, system, &figure, case, seconds, "s"));
        };
        let name = |system: &str| match writer {
            Writer::Gone => format!("{system}-{round}"),
            Writer::There => format!("{system}-{round}-there"),
        };

        let directory = name(MOUNT);
        self.make(&directory, writer)?;
        let mount = self.mount()?;
        for case in ["first", "again"] {
            note(MOUNT, case, self.ls(&self.second.join(&directory))?);
        }
        mount.down()?;

        let directory = name(GATEWAY);
        self.make(&directory, writer)?;
        for case in ["first", "again"] {
            note(GATEWAY, case, self.list(&self.gateway, &directory)?);
        }

        if self.has_ganesha {
            let directory = name(GANESHA);
            self.make(&directory, writer)?;
            let mount = self.mount()?;
            let ganesha = Ganesha::over(&self.second)?;
            for case in ["first", "again"] {
                note(GANESHA, case, self.list(&ganesha.export(), &directory)?);
            }
            ganesha.stop()?;
            mount.down()?;
        }
        Ok(())
    }

    fn mount(&self) -> Result<Mount, String> {
        self.cluster.mount_again(&self.second)
    }

    fn make(&self, name: &str, writer: Writer) -> Outcome {
        match writer {
            Writer::Gone => {
                let mount = self.mount()?;
                make_files(&self.second.join(name), self.files)?;
                mount.down()
            }
            Writer::There => make_files(&self.first.join(name), self.files),
        }
    }

    fn ls(&self, directory: &Path) -> Result<Duration, String> {
        let begin = Instant::now();
        let listed = Command::new("ls").arg("-l").arg(directory).output();
        let took = begin.elapsed();
        let listed = listed.map_err(|error| format!("ls: {error}"))?;
        // "total", and a line for each.
        let lines = listed.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
        match listed.status.success() && lines == self.files + 1 {
            true => Ok(took),
            false => Err(format!(
                "ls -l of {} files showed {lines} lines: {}",
                self.files,
                String::from_utf8_lossy(&listed.stderr).trim()
            )),
        }
    }

    fn list(&self, export: &Export, directory: &str) -> Result<Duration, String> {
        let (files, directory) = (self.files as usize, directory.to_owned());
        let (took, listed) = with_client(export, async move |client: Client| {
            let begin = Instant::now();
            let directory = client.lookup(&client.root, &directory).await?;
            let listed = client.list(&directory).await?;
            Ok((begin.elapsed(), listed))
        })?;
        let Listed {
            entries,
            asked,
            pages,
        } = listed;
        println!("  {pages} pages; attributes of {asked} entries were asked for one by one");
        // Servers may leave out `.` and `..`.
        match (files..=files + 2).contains(&entries) {
            true => Ok(took),
            false => Err(format!("a listing of {files} files has {entries} entries")),
        }
    }
}

/// Files of some bytes, as if somebody worked with them.
fn make_files(directory: &Path, files: u64) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir(directory).map_err(failed)?;
    let make = |maker: u64| {
        let mut own = (0..files).filter(|number| number % MAKERS == maker);
        own.try_for_each(|number| {
            let path = directory.join(format!("a-file-{number:06}"));
            fs::write(path, vec![7; 100 + number as usize % 100]).map_err(failed)
        })
    };
    let made: Vec<Outcome> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..MAKERS)
            .map(|maker| scope.spawn(move || make(maker)))
            .collect();
        let joined = makers.into_iter().map(|maker| maker.join());
        joined
            .map(|done| done.map_err(|_| "a thread panicked".to_owned())?)
            .collect()
    });
    made.into_iter().collect()
}

/// The lines, with what they are of a second, and of Ganesha's.
fn compared(medians: &[Line]) -> Vec<Line> {
    let mut all = Vec::new();
    for line in medians {
        all.push(line.clone());
        if line.system == MOUNT && line.figure == Writer::Gone.figure(GOAL_FILES) {
            all.push(line.beside_at_most("1 s", 1.0, Some(GOAL_SECONDS)));
        }
        let is_ganeshas = |its: &&Line| {
            its.system == GANESHA && its.figure == line.figure && its.case == line.case
        };
        let ganeshas = medians.iter().find(is_ganeshas);
        if let Some(ganeshas) = ganeshas.filter(|_| line.system != GANESHA) {
            all.push(line.beside(GANESHA, ganeshas.value, None));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_has_a_second_for_twenty_thousand() {
        let line = |system, files, value| {
            let figure = Writer::Gone.figure(files);
            Line::of(BENCH, system, &figure, "first", value, "s")
        };
        let judged = |files| {
            let both = [line(MOUNT, files, 1.5), line(GANESHA, files, 3.0)];
            let all = compared(&both).into_iter();
            let judged = all.filter_map(|line| Some((line.baseline?, line.ratio?, line.ok)));
            judged.collect::<Vec<_>>()
        };
        let beside = (GANESHA.to_owned(), 0.5, None);
        let goal = ("1 s".to_owned(), 1.5, Some(false));
        assert_eq!(judged(GOAL_FILES), [goal, beside.clone()]);
        // The goal speaks of no other number.
        assert_eq!(judged(100), [beside]);
    }

    #[test]
    fn all_files_are_made() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("d");
        make_files(&made, 10).unwrap();
        assert_eq!(fs::read_dir(made).unwrap().count(), 10);
    }
}
