//! Two builds of Weft, each with a cluster of its own, both up all the time: one figure of one, then the same of the
//! other. What a change costs is a few parts in a hundred, and shared machines differ by more from one minute to the
//! next; so each round gives a ratio of two measurements that are seconds apart, and the rounds' ratios are judged.

use super::BuildsOptions;
use super::peers::parse;
use super::report::{self, Line};
use crate::cluster::{Cluster, build_weft};
use crate::run::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name in the figures.
const BENCH: &str = "builds";
/// As the two builds are called.
const BEFORE: &str = "before";
const NOW: &str = "now";

/// What is measured, one figure at a time: by which `weft bench`, and the figure.
const FIGURES: &[(&str, &str)] = &[
    ("io", "seq_write"),
    ("io", "seq_read"),
    ("io", "rand_read_4k"),
    ("io", "rand_write_4k"),
    ("io", "par_files_write"),
    ("io", "par_files_read"),
    ("io", "one_file_write"),
    ("io", "split"),
    ("meta", "create"),
    ("meta", "stat_hot"),
    ("meta", "stat_cold"),
    ("meta", "readdir"),
    ("meta", "rename"),
    ("meta", "unlink"),
    ("meta", "mkdir"),
    ("meta", "create_one_dir"),
    ("meta", "small_write"),
    ("meta", "small_read"),
    ("tree", "unpack"),
    ("tree", "find"),
    ("tree", "grep"),
    ("tree", "remove"),
];

/// A build with its cluster.
struct Side {
    name: &'static str,
    // Ends before its directory goes.
    _cluster: Cluster,
    mount: PathBuf,
}

impl Side {
    fn up(name: &'static str, weft: &Path, parent: &Path) -> Result<Side, String> {
        let (directory, mount) = (parent.join(name), parent.join(format!("{name}-mount")));
        std::fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let more = ["--pairs", "2", "--members", "1"];
        let cluster = Cluster::up(weft, &directory, &mount, &more)?;
        Ok(Side {
            name,
            _cluster: cluster,
            mount,
        })
    }
}

/// Brings both up, measures in turns, reports.
///
/// # Errors
/// If a cluster does not come up, or a figure cannot be measured; what was measured before is reported.
pub fn run(options: &BuildsOptions) -> Outcome {
    for figure in &options.only {
        if !FIGURES.iter().any(|(_, known)| known == figure) {
            let known: Vec<&str> = FIGURES.iter().map(|(_, figure)| *figure).collect();
            let known = known.join(", ");
            return Err(format!("no figure is called {figure:?}; there are {known}"));
        }
    }
    let weft = match &options.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let directory = tempfile::Builder::new()
        .prefix("weft-builds-")
        .tempdir_in(&parent)
        .map_err(|error| format!("no directory in {}: {error}", parent.display()))?;
    let sides = [
        Side::up(BEFORE, &options.before, directory.path())?,
        Side::up(NOW, &weft, directory.path())?,
    ];
    let mut lines = Vec::new();
    let mut all = || -> Outcome {
        for round in 0..options.rounds {
            println!("== round {} of {}", round + 1, options.rounds);
            for (run, figure) in FIGURES {
                if !options.only.is_empty() && !options.only.iter().any(|only| only == figure) {
                    continue;
                }
                // Who is second finds a machine that the first has used.
                for turn in 0..2 {
                    let side = &sides[(round + turn) % 2];
                    measure(&weft, side, (run, figure), options, &mut lines)?;
                }
            }
        }
        Ok(())
    };
    let whole = all();
    let reported = compare(&lines);
    if !reported.is_empty() {
        report::write(&reported, &options.report, options.json.as_deref())?;
    }
    whole
}

fn measure(
    driver: &Path,
    side: &Side,
    (run, figure): (&str, &str),
    options: &BuildsOptions,
    lines: &mut Vec<Line>,
) -> Outcome {
    let mut command = Command::new(driver);
    command.args(["bench", run]).arg(&side.mount);
    command.args(["--json", "--only", figure]);
    match run {
        "io" => {
            command.args(["--size", &options.size.to_string()]);
            command.args(["--seconds", &options.seconds.to_string()]);
        }
        "meta" => {
            command.args(["--files", &options.files.to_string()]);
        }
        _ => {}
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("weft bench: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // What a figure needs is measured on the way, and not what was asked for.
    let measured = text.lines().flat_map(|line| parse(side.name, line));
    lines.extend(measured.filter(|line| line.figure.split(' ').next() == Some(figure)));
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "weft bench {run} --only {figure} on {} ended with {}",
            side.name, output.status
        )),
    }
}

/// The medians of both, and beside the new one's what it is of the old one's: the median of the rounds' ratios, and the
/// bounds between which that of ever more rounds lies with 95 of 100 (as far as rounds are alike).
fn compare(lines: &[Line]) -> Vec<Line> {
    let mut reported = report::medians(lines.to_vec());
    let own = |side: &str, line: &Line| -> Vec<f64> {
        let same = lines.iter().filter(|other| {
            (other.system.as_str(), &other.figure, &other.case) == (side, &line.figure, &line.case)
        });
        same.map(|line| line.value).collect()
    };
    let mut judged = Vec::new();
    for line in reported.iter_mut() {
        line.bench = BENCH;
        if line.system != NOW {
            continue;
        }
        let pairs = own(NOW, line).into_iter().zip(own(BEFORE, line));
        let mut ratios: Vec<f64> = pairs
            .filter(|(_, before)| *before > 0.0)
            .map(|(now, before)| now / before)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let Some(median) = ratios.get(ratios.len() / 2).copied() else {
            continue;
        };
        let (low, high) = bounds(&ratios);
        let mut beside = line.beside(BEFORE, line.value / median, None);
        beside.baseline = Some(format!("{BEFORE} ({low:.2} to {high:.2})"));
        judged.push(beside);
    }
    reported.extend(judged);
    reported
}

/// Bounds of a median, of sorted values: as many are left out at each end as lie on one side of it in 25 of 1000 samples
/// at most (binomial distribution). With less than six, none.
fn bounds(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let samples = (count as f64).exp2();
    // Those of which `rank` values or fewer lie on one side; and of which just so many do.
    let (mut rank, mut fewer, mut just) = (0, 1.0, 1.0);
    while fewer / samples <= 0.025 && rank < count / 2 {
        rank += 1;
        just *= (count - rank + 1) as f64 / rank as f64;
        fewer += just;
    }
    let left_out = rank.saturating_sub(1);
    let last = count.checked_sub(1 + left_out);
    match (sorted.get(left_out), last.and_then(|last| sorted.get(last))) {
        (Some(low), Some(high)) => (*low, *high),
        _ => (f64::NAN, f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(system: &str, value: f64) -> Line {
        Line::new(system, "create", "1 job", value, "op/s")
    }

    #[test]
    fn rounds_are_compared_in_pairs() {
        // The machine gets ever slower, and the new build is a tenth slower than the old one.
        let mut lines = Vec::new();
        for round in 1..=9 {
            let speed = 1000.0 / f64::from(round);
            lines.push(line(BEFORE, speed));
            lines.push(line(NOW, 0.9 * speed));
        }
        let reported = compare(&lines);
        assert_eq!(reported.len(), 3);
        let judged = reported.last().unwrap();
        assert!((judged.ratio.unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(judged.baseline.as_deref(), Some("before (0.90 to 0.90)"));
    }

    #[test]
    fn bounds_of_a_median_are_those_of_tables() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(bounds(&values[..5]), (1.0, 5.0));
        assert_eq!(bounds(&values[..6]), (1.0, 6.0));
        assert_eq!(bounds(&values[..9]), (2.0, 8.0));
        assert_eq!(bounds(&values[..15]), (4.0, 12.0));
        assert_eq!(bounds(&values), (6.0, 15.0));
        assert!(bounds(&[]).0.is_nan());
    }
}
