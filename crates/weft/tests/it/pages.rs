//! The commands of the pages that somebody reads first are run as they stand there, on one cluster. A page that says what does
//! not work fails here.

use crate::support::pages::{Block, blocks};
use crate::support::{Dev, WEFT, can_mount};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// In this order. The first one says how the cluster is started.
const PAGES: [&str; 3] = [
    "README.md",
    "docs/book/quick-start.md",
    "docs/operating/checkpoints.md",
];

/// What builds Weft, or is all of the tests: it is not run here. Each must be on a page.
const NOT_HERE: [&str; 3] = ["./run demo", "./run ci", "cargo build --release"];

/// What starts a cluster is `weft dev` with options.
const STARTS: [&str; 2] = [
    "cargo run --release -- dev --",
    "target/release/weft dev --",
];

/// A page's figure of what is measured: the shape of the command counts, and what is asked for is made small.
const SMALLER: (&str, &str) = (
    "weft bench io mnt",
    "weft bench io mnt --size 4 --jobs 1 --only seq_write",
);

fn without_comment(line: &str) -> &str {
    line.split_once(" #")
        .map_or(line, |(command, _)| command)
        .trim()
}

/// A block is commands if its first line is one.
fn is_commands(block: &Block) -> bool {
    let first = block.text.split_whitespace().next().unwrap_or_default();
    let known = [
        "weft",
        "target/release/weft",
        "cargo",
        "echo",
        "mkdir",
        "./run",
    ];
    block.info.is_empty() && known.contains(&first)
}

fn run(place: &Path, command: &str) -> Output {
    let path = format!(
        "{}:{}",
        Path::new(WEFT).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    Command::new("sh")
        .args(["-euc", command])
        .current_dir(place)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn the_tours_of_the_first_pages_run_as_they_are_written() {
    let mut left_out = NOT_HERE.to_vec();
    let mut starts: Vec<Vec<String>> = Vec::new();
    let mut commands: Vec<(String, String)> = Vec::new();
    for page in PAGES {
        for block in blocks(page).iter().filter(|block| is_commands(block)) {
            for (at, line) in block.text.lines().enumerate() {
                let command = without_comment(line);
                let place = format!("{page}:{}", block.line + 1 + at);
                if NOT_HERE.contains(&command) {
                    left_out.retain(|left| *left != command);
                } else if let Some(rest) = STARTS.iter().find_map(|s| command.strip_prefix(s)) {
                    let rest = format!("--{rest}");
                    starts.push(rest.split_whitespace().map(str::to_owned).collect());
                } else if !command.is_empty() {
                    commands.push((place, command.to_owned()));
                }
            }
        }
    }
    assert_eq!(
        left_out,
        Vec::<&str>::new(),
        "these are on no page any more"
    );
    assert!(
        starts.len() >= 2 && commands.len() > 30,
        "{starts:?} {commands:?}"
    );
    assert!(commands.iter().any(|(_, command)| command == SMALLER.0));
    // The others are started alike, but for options that the first one has.
    for start in &starts {
        assert!(
            start.iter().all(|word| starts[0].contains(word)),
            "{starts:?}"
        );
    }
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let place = base.path();
    fs::create_dir_all(place.join("target/release")).unwrap();
    std::os::unix::fs::symlink(WEFT, place.join("target/release/weft")).unwrap();
    let mut starter = Command::new(WEFT);
    starter.current_dir(place);
    let more: Vec<&str> = starts[0].iter().map(String::as_str).collect();
    let dev = Dev::start_by(starter, &place.join("weft-dev"), &more);
    dev.wait_up();
    for (at, command) in &commands {
        let begun = std::time::Instant::now();
        let small = match *command == SMALLER.0 {
            true => SMALLER.1,
            false => command,
        };
        let done = run(place, small);
        assert!(
            done.status.success(),
            "{at}: {command}: {}\n{}{}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
            dev.logs()
        );
        println!("{at}: {command}: {} ms", begun.elapsed().as_millis());
    }
    let said = fs::read_to_string(place.join("mnt/hi")).unwrap();
    assert_eq!(said, "hello\nmore\n");
    dev.end();
}

#[test]
fn the_configurations_of_the_pages_are_taken() {
    let base = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for block in blocks("docs/book/operations.md") {
        // Each says in its first line what it is called.
        let name = block
            .text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# /etc/weft/"));
        let Some(name) = name else { continue };
        let name = name.split(':').next().unwrap();
        let file = base.path().join(name);
        fs::write(&file, &block.text).unwrap();
        let check = ["config", "check", "--elsewhere"];
        let done = Command::new(WEFT).args(check).arg(&file).output().unwrap();
        assert!(done.status.success(), "{name}: {done:?}");
        checked += 1;
    }
    assert!(checked >= 4, "the page has lost its configurations");
}
