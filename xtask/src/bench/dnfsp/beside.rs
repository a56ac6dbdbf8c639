//! Gateways beside the cluster's mount and beside NFS-Ganesha over that mount, in one run: figure 3, and one large file
//! written and read.

use super::ganesha::{self, Ganesha};
use super::nfs::{Client, Export};
use super::writers::{Amount, Way, by_nfs, on_mount, with_client};
use super::{BENCH, CLIENTS, DnfspOptions, GATEWAYS, draw, figure_3};
use crate::bench::report::{self, Line};
use crate::cluster::{Cluster, cannot_mount};
use crate::run::Outcome;
use rustix::fs::Advice;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A gateway's throughput of one large file, of the mount's.
const SEQUENTIAL_GOAL: f64 = 0.7;
/// Bytes that a program reads of a mount at a time.
const READ_BYTES: usize = 1 << 20;
/// In the figures.
const MOUNT: &str = "mount";
const GANESHA: &str = "ganesha";

/// Measures all three, or those that can be had.
///
/// # Errors
/// If the cluster cannot be brought up, or a client fails.
pub fn run(options: &DnfspOptions, weft: &Path, all: &mut Vec<Line>) -> Outcome {
    if let Some(why) = cannot_mount() {
        println!("gateways beside the mount are left out: {why}");
        return Ok(());
    }
    let home = tempfile::Builder::new().prefix("weft-").tempdir();
    let home = home.map_err(|error| format!("a directory for the cluster: {error}"))?;
    let (directory, mount) = (home.path().join("cluster"), home.path().join("mnt"));
    std::fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
    let more = [
        "--pairs",
        "2",
        "--nfs",
        &CLIENTS.to_string(),
        "--nfs-squash",
        "none",
    ];
    let cluster = Cluster::up(weft, &directory, &mount, &more)?;
    let by_gateways = cluster.gateways(CLIENTS)?.into_iter();
    let by_gateways = by_gateways.map(|address| Way::Nfs(Export::of_gateway(address)));
    let mut systems: Vec<(&str, Vec<Way>)> = vec![
        (GATEWAYS, by_gateways.collect()),
        (MOUNT, vec![Way::Mount(mount.clone()); CLIENTS]),
    ];
    let ganesha = match ganesha::left_out() {
        None => Some(Ganesha::over(&mount)?),
        Some(why) => {
            println!("NFS-Ganesha is left out: {why}");
            None
        }
    };
    if let Some(ganesha) = &ganesha {
        systems.push((GANESHA, vec![Way::Nfs(ganesha.export()); CLIENTS]));
    }
    let mut lines = figure_3(
        options,
        &systems,
        "4 clients write, beside Ganesha",
        Some(&mount),
    )?;
    for round in 0..options.rounds {
        for (system, ways) in &systems {
            lines.extend(large(options, &mount, system, &ways[0], round)?);
        }
    }
    let stopped = ganesha.map_or(Ok(()), Ganesha::stop);
    cluster.down()?;
    stopped?;
    let medians = report::medians(lines);
    draw(options, &systems, &medians, "figure-3-beside.svg")?;
    all.extend(compared(&medians));
    Ok(())
}

/// One file, written and then read, by one client.
fn large(
    options: &DnfspOptions,
    mount: &Path,
    system: &str,
    way: &Way,
    round: usize,
) -> Result<Vec<Line>, String> {
    let amount = Amount {
        bytes: options.large * 1_000_000,
        files: 1,
        piece: super::nfs::PIECE,
    };
    let name = format!("{}-large-{round}", system.replace(' ', "-"));
    let directory = mount.join(&name);
    let (wrote, read) = match way {
        Way::Nfs(export) => {
            let write = || by_nfs(export, &name, amount, || Ok(()));
            let wrote = std::thread::scope(|scope| scope.spawn(write).join());
            let wrote = wrote.map_err(|_| "a client panicked".to_owned())??;
            // Of what serves NFS from a mount, the pages; a gateway keeps none.
            forget_pages(&directory.join("0"))?;
            (wrote, read_by_nfs(export, &name, amount)?)
        }
        Way::Mount(_) => {
            let wrote = on_mount(&directory, amount, || ())?;
            let file = directory.join("0");
            forget_pages(&file)?;
            (wrote, read_on_mount(&file, amount)?)
        }
    };
    std::fs::remove_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let case = format!("{} MB", options.large);
    let line = |figure: &str, took: Duration| {
        let rate = amount.bytes as f64 / took.as_secs_f64() / 1e6;
        println!("{system}, {figure}: {rate:.0} MB/s");
        Line::of(BENCH, system, figure, &case, rate, "MB/s")
    };
    Ok(vec![
        line("one file written", wrote),
        line("one file read", read),
    ])
}

fn read_by_nfs(export: &Export, directory: &str, amount: Amount) -> Result<Duration, String> {
    let directory = directory.to_owned();
    with_client(export, async move |client: Client| {
        let directory = client.lookup(&client.root, &directory).await?;
        let file = client.lookup(&directory, "0").await?;
        let begin = Instant::now();
        let bytes = client.read_file(&file).await?;
        let took = begin.elapsed();
        match bytes == amount.bytes {
            true => Ok(took),
            false => Err(format!("{bytes} bytes were read of {}", amount.bytes)),
        }
    })
}

fn read_on_mount(path: &PathBuf, amount: Amount) -> Result<Duration, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut piece = vec![0; READ_BYTES];
    let mut sum = 0;
    let begin = Instant::now();
    let mut file = File::open(path).map_err(failed)?;
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => break,
            bytes => sum += bytes as u64,
        }
    }
    let took = begin.elapsed();
    match sum == amount.bytes {
        true => Ok(took),
        false => Err(format!("{}: {sum} bytes were read", path.display())),
    }
}

/// What the kernel keeps of a file on the mount is read from the cluster the next time.
fn forget_pages(path: &Path) -> Outcome {
    let failed = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.to_string()))
}

/// The lines, with what gateways are of the mount and of Ganesha.
fn compared(medians: &[Line]) -> Vec<Line> {
    let mut all = Vec::new();
    for line in medians {
        all.push(line.clone());
        if line.system != GATEWAYS {
            continue;
        }
        let of = |system: &str| {
            let is_it = |its: &&Line| {
                its.system == system && its.figure == line.figure && its.case == line.case
            };
            medians.iter().find(is_it).map(|line| line.value)
        };
        let is_rate = line.unit == "MB/s";
        if let Some(mount) = of(MOUNT) {
            let goal = is_rate.then_some(SEQUENTIAL_GOAL);
            all.push(line.beside(MOUNT, mount, goal));
        }
        if let Some(ganesha) = of(GANESHA) {
            all.push(line.beside(GANESHA, ganesha, None));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_held_against_the_mount_and_ganesha() {
        let line = |system, value| Line::of(BENCH, system, "one file read", "4 MB", value, "MB/s");
        let three = [
            line(GATEWAYS, 60.0),
            line(MOUNT, 100.0),
            line(GANESHA, 30.0),
        ];
        let judged: Vec<_> = compared(&three)
            .into_iter()
            .filter_map(|line| Some((line.baseline?, line.ratio?, line.ok)))
            .collect();
        let expected = [
            (MOUNT.to_owned(), 0.6, Some(false)),
            (GANESHA.to_owned(), 2.0, None),
        ];
        assert_eq!(judged, expected);
        assert_eq!(compared(&three[..2]).len(), 3);
    }
}
