//! `cargo xtask suites`: test suites that others wrote, on mounts of a whole cluster, under every
//! duplication protocol.
//!
//! pjdfstest (POSIX calls, as root), fsx (random operations on one file, checked against memory;
//! undisturbed, through two mounts in turn, and while data servers are killed and started), fio
//! (random and sequential writes, read back and verified by checksum). What is missing is installed:
//! the first two by cargo into `target/suites`, fio by apt. xfstests and LTP run where a checkout of theirs is named.
//! Programs of our own, on two mounts, judge what they see for as long as one likes. Any failure fails the chore; what is
//! left out stands in docs/posix.md with its reason, or beside this file.

mod checkouts;

use crate::bench::PROTOCOLS;
use crate::cluster::{Cluster, build_weft, cannot_mount};
use crate::run::{Outcome, cargo, has, root, step};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Versions that the list of exclusions was made for.
const PJDFSTEST: &str = "0.2.2";
/// See [`PJDFSTEST`].
const FSX: &str = "0.3.2";

/// Operations of each run of fsx.
const FSX_OPERATIONS: &str = "100000";
/// A killed data server stays away for this long, and the pair is left alone for as long after it
/// has recovered.
const AWAY: Duration = Duration::from_secs(2);
/// How long a pair may take to have two equal copies again.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(120);

/// Tests of pjdfstest that may fail, each with its reason in docs/posix.md.
const EXPECTED_FAILURES: [&str; 0] = [];

/// Tests that the suite itself leaves out, with its reason; docs/posix.md has them too.
const SKIPPED: [(&str, &str); 1] = [(
    "link::link_count_max",
    "the C library knows no LINK_MAX of a FUSE file system, and Weft has none",
)];

/// Weight of closing and opening again, which is how fsx comes to the other mount.
pub const SELDOM: &str = "1.0";
/// See [`SELDOM`].
const OFTEN: &str = "10.0";
/// The path that fsx is given leads to the other mount after this long.
const TURN: Duration = Duration::from_millis(1);

/// All calls that Linux has; sizes past several stripes, so that operations cross pairs.
pub const FSX_SETTINGS: &str = "\
flen = 4194304
[opsize]
max = 262144
[weights]
close_open = CLOSE_OPEN
invalidate = 1.0
mapread = 5.0
mapwrite = 5.0
read = 10.0
write = 10.0
truncate = 5.0
fsync = 1.0
fdatasync = 1.0
posix_fallocate = 2.0
punch_hole = 3.0
sendfile = 2.0
posix_fadvise = 1.0
copy_file_range = 3.0
";

/// Which suites to run; all if none is named.
#[derive(clap::Args, Debug, Clone)]
pub struct Suites {
    /// Only these: pjdfstest, fsx, fsx-two, fsx-kill, fio, programs, ltp, xfstests.
    #[arg(value_parser = parse_name)]
    only: Vec<String>,
    /// Protocols of the files, one after the other.
    #[arg(long, value_delimiter = ',', default_values = PROTOCOLS, value_parser = PROTOCOLS)]
    protocols: Vec<String>,
    /// Of pjdfstest, ltp and xfstests: only tests whose names contain it (excluded ones, too).
    #[arg(long)]
    filter: Option<String>,
    /// Leave what was made in target/suites.
    #[arg(long)]
    keep: bool,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
    /// How long the programs run that judge what two mounts show, for each protocol.
    #[arg(long, value_name = "MINUTES", default_value_t = 1)]
    programs: u64,
    /// Run LTP's tests of file calls, too, from this installation of it; or WEFT_LTP.
    #[arg(long, value_name = "DIR")]
    ltp: Option<PathBuf>,
    /// Run xfstests, too (its quick generic tests), from this checkout, in which it was built; or WEFT_XFSTESTS.
    #[arg(long, value_name = "DIR")]
    xfstests: Option<PathBuf>,
    /// Seed of fsx; by default the time, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

/// Those that run under each protocol.
const NAMES: [&str; 6] = ["pjdfstest", "fsx", "fsx-two", "fsx-kill", "fio", "programs"];
/// Those that run once, if it is said where they are.
const BUILT_BY_HAND: [&str; 2] = ["ltp", "xfstests"];

fn parse_name(name: &str) -> Result<String, String> {
    match NAMES.iter().chain(&BUILT_BY_HAND).any(|it| *it == name) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "one of {}, {}",
            NAMES.join(", "),
            BUILT_BY_HAND.join(", ")
        )),
    }
}

impl Suites {
    fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only == name)
    }

    /// Where one is that is to run and was built by hand.
    fn built_by_hand(&self, name: &str) -> Result<Option<PathBuf>, String> {
        if !self.only.is_empty() && !self.names(name) {
            return Ok(None);
        }
        let (option, variable) = match name {
            "ltp" => (&self.ltp, "WEFT_LTP"),
            _ => (&self.xfstests, "WEFT_XFSTESTS"),
        };
        let place = option.clone();
        let place = place.or_else(|| std::env::var_os(variable).map(PathBuf::from));
        match place {
            None if self.names(name) => Err(format!("where is it? --{name} DIR or {variable}")),
            place => Ok(place),
        }
    }
}

/// Runs them all and says what each did; fails if any did.
///
/// # Errors
/// The names of those that failed, or why nothing could be run.
pub fn suites(arguments: &Suites) -> Outcome {
    if let Some(why) = cannot_mount() {
        return Err(format!("the suites need a mount, and {why}"));
    }
    // SAFETY: has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Err("pjdfstest changes users: run the suites as root".into());
    }
    let base = root().join("target/suites");
    let tools = base.join("tools");
    let is_wanted = |name: &str| arguments.only.is_empty() || arguments.names(name);
    let [ltp, xfstests] = BUILT_BY_HAND.map(|name| arguments.built_by_hand(name));
    let (ltp, xfstests) = (ltp?, xfstests?);
    install(&tools, &is_wanted)?;
    let weft = match &arguments.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let run = base.join("run");
    if run.exists() {
        fs::remove_dir_all(&run).map_err(|error| format!("{}: {error}", run.display()))?;
    }
    // pjdfstest makes sockets, whose paths have at most 107 bytes, wherever this checkout lies.
    let mut home = tempfile::Builder::new();
    // Some tests go on as another user.
    let home = home.permissions(fs::Permissions::from_mode(0o755));
    let home = home.prefix("weft-").tempdir();
    let home = home.map_err(|error| format!("a directory for the mounts: {error}"))?;
    let mounts = ["mnt", "two"].map(|name| home.path().join(name));
    for mount in mounts.iter().chain([&run]) {
        fs::create_dir_all(mount).map_err(|error| format!("{}: {error}", mount.display()))?;
    }
    let [mount, second] = &mounts;
    let cluster = Cluster::up(&weft, &run.join("cluster"), mount, &["--pairs", "2"])?;
    let second = cluster.mount_again(second)?;
    let seed = arguments.seed.unwrap_or_else(seed_of_now);
    let mut failed = Vec::new();
    for protocol in &arguments.protocols {
        let place = Place::make(&cluster, &tools, &run, [mount, second.at()], protocol, seed)?;
        for name in NAMES.into_iter().filter(|name| is_wanted(name)) {
            let start = Instant::now();
            let outcome = match name {
                "pjdfstest" => pjdfstest(&place, arguments.filter.as_deref()),
                "fsx" => fsx(&place, name, &place.ground.join(name), SELDOM),
                "fsx-two" => in_turns(&place, name),
                "fsx-kill" => {
                    let file = place.ground.join(name);
                    disturbed(&cluster, || fsx(&place, name, &file, SELDOM))
                }
                "fio" => fio(&place),
                _ => programs(&place, Duration::from_secs(60 * arguments.programs)),
            };
            let seconds = start.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => println!("== {protocol}, {name}: passed, {seconds:.1} s"),
                Err(why) => {
                    println!("== {protocol}, {name}: FAILED after {seconds:.1} s: {why}");
                    failed.push(format!("{name} under {protocol}"));
                }
            }
        }
    }
    second.down()?;
    let checkouts = checkouts::Checkouts {
        weft: &weft,
        run: &run,
        home: home.path(),
        filter: arguments.filter.as_deref(),
    };
    if let Some(ltp) = ltp {
        checkouts::report("ltp", checkouts.ltp(&ltp, mount), &mut failed);
    }
    cluster.down()?;
    if let Some(xfstests) = xfstests {
        checkouts::report("xfstests", checkouts.xfstests(&xfstests), &mut failed);
    }
    if failed.is_empty() {
        if !arguments.keep {
            fs::remove_dir_all(&run).map_err(|error| format!("{}: {error}", run.display()))?;
        }
        Ok(())
    } else {
        Err(format!(
            "{} (seed {seed}; logs in {})",
            failed.join(", "),
            run.display()
        ))
    }
}

/// Where suites run: a directory whose files have one protocol.
struct Place {
    tools: PathBuf,
    /// For logs and what suites leave behind.
    run: PathBuf,
    ground: PathBuf,
    /// The same by the other mount.
    second: PathBuf,
    seed: u64,
}

impl Place {
    fn make(
        cluster: &Cluster,
        tools: &Path,
        run: &Path,
        mounts: [&Path; 2],
        protocol: &str,
        seed: u64,
    ) -> Result<Place, String> {
        let [ground, second] = mounts.map(|mount| mount.join(protocol));
        let run = run.join(protocol);
        for directory in [&ground, &run] {
            fs::create_dir(directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        cluster.set_protocol(&ground, protocol)?;
        Ok(Place {
            tools: tools.to_owned(),
            run,
            ground,
            second,
            seed,
        })
    }
}

/// A seed that differs from run to run.
pub fn seed_of_now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |since| since.as_secs())
}

/// Installs those suites that are wanted and not there yet.
pub fn install(tools: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Outcome {
    for (name, version, wanted) in [
        ("pjdfstest", PJDFSTEST, is_wanted("pjdfstest")),
        (
            "fsx",
            FSX,
            ["fsx", "fsx-two", "fsx-kill"].into_iter().any(is_wanted),
        ),
    ] {
        let marker = tools.join(format!("{name}-{version}"));
        if !wanted || marker.exists() {
            continue;
        }
        step(
            &format!("install {name} {version}"),
            cargo()
                .args(["install", "--locked", "--force", "--version", version])
                .arg(name)
                .arg("--root")
                .arg(tools)
                // Its products would mix with the workspace's.
                .env_remove("CARGO_TARGET_DIR"),
        )?;
        fs::write(&marker, "").map_err(|error| format!("{}: {error}", marker.display()))?;
    }
    if is_wanted("fio") && !has("fio", "--version") {
        step(
            "install fio",
            Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "fio"]),
        )?;
    }
    Ok(())
}

fn pjdfstest(place: &Place, filter: Option<&str>) -> Outcome {
    // The tests that remount read-only run by themselves: another test of this version leaves a
    // descriptor open for writing, after which no file system can be remounted.
    pjdfstest_run(place, "pjdfstest", false, filter)?;
    if filter.is_none() {
        pjdfstest_run(place, "pjdfstest-erofs", true, Some("erofs"))?;
    }
    Ok(())
}

fn pjdfstest_run(place: &Place, name: &str, remounts: bool, filter: Option<&str>) -> Outcome {
    let expected: Vec<String> = EXPECTED_FAILURES
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    let second = place.run.join("second");
    fs::create_dir_all(&second).map_err(|error| format!("{}: {error}", second.display()))?;
    // The two users exist on every Debian; the suite needs two that own nothing.
    let settings = format!(
        "[features]\n\
         posix_fallocate = {{}}\nrename_ctime = {{}}\nutimensat = {{}}\nutime_now = {{}}\n\
         secondary_fs = {second:?}\n\
         [settings]\n\
         naptime = 0.01\nallow_remount = {remounts}\nexpected_failures = [{}]\n\
         [dummy_auth]\n\
         entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n",
        expected.join(", ")
    );
    let file = place.run.join(format!("{name}.toml"));
    fs::write(&file, settings).map_err(|error| format!("{}: {error}", file.display()))?;
    let ground = place.ground.join(name);
    fs::create_dir_all(&ground).map_err(|error| format!("{}: {error}", ground.display()))?;
    let mut command = Command::new(place.tools.join("bin/pjdfstest"));
    command
        .env("PATH", path_with_plain_mount(&place.run)?)
        .arg("-c")
        .arg(&file)
        .arg("-p")
        .arg(&ground)
        .args(filter);
    let output = logged(&mut command, &place.run.join(format!("{name}.log")))?;
    for line in output.lines().filter(|line| line.ends_with("FAILED")) {
        println!("   {line}");
    }
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(test) = line.strip_suffix("skipped") {
            let why = lines.peek().map_or("", |why| why.trim());
            let is_known = SKIPPED.iter().any(|(name, _)| test.trim_end() == *name)
                || !remounts && test.contains("erofs");
            if !is_known {
                return Err(format!("{} was left out: {why}", test.trim_end()));
            }
        }
    }
    let summary = output
        .lines()
        .rfind(|line| line.starts_with("Summary"))
        .ok_or("it did not come to its end")?;
    println!("   {summary}");
    // The suite's exit status is not to be relied on alone.
    if summary.contains(" 0 failed") {
        Ok(())
    } else {
        Err(summary.to_owned())
    }
}

/// A search path on which `mount` is the system's own without helpers. The suite remounts read-only
/// by it; mount(8) leaves that to the helper of FUSE, which takes the source for a program to start.
fn path_with_plain_mount(run: &Path) -> Result<std::ffi::OsString, String> {
    let directory = run.join("bin");
    let script = directory.join("mount");
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(&script, "#!/bin/sh\nexec /bin/mount -i \"$@\"\n"))
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", script.display()))?;
    let mut path = directory.into_os_string();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    Ok(path)
}

fn fsx(place: &Place, name: &str, file: &Path, close_open: &str) -> Outcome {
    let settings = place.run.join(format!("{name}.toml"));
    fs::write(&settings, FSX_SETTINGS.replace("CLOSE_OPEN", close_open))
        .map_err(|error| format!("{}: {error}", settings.display()))?;
    let mut command = Command::new(place.tools.join("bin/fsx"));
    command
        .arg("-f")
        .arg(&settings)
        .args(["-N", FSX_OPERATIONS, "-S", &place.seed.to_string()])
        .arg("-P")
        .arg(&place.run)
        .arg(file);
    println!("   {FSX_OPERATIONS} operations, seed {}", place.seed);
    logged(&mut command, &place.run.join(format!("{name}.log"))).map(drop)
}

/// fsx on one file of two mounts: the path that it opens again and again is a symbolic link, which
/// leads to the one and to the other in turn.
fn in_turns(place: &Place, name: &str) -> Outcome {
    let (link, next) = (place.run.join(name), place.run.join(format!("{name}.next")));
    let turn = |ground: &Path| {
        std::os::unix::fs::symlink(ground.join(name), &next)
            .and_then(|()| fs::rename(&next, &link))
            .map_err(|error| format!("{}: {error}", link.display()))
    };
    turn(&place.ground)?;
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let turner = scope.spawn(|| -> Outcome {
            for ground in [&place.second, &place.ground].into_iter().cycle() {
                if !goes_on.load(Ordering::Acquire) {
                    break;
                }
                turn(ground)?;
                std::thread::sleep(TURN);
            }
            Ok(())
        });
        let outcome = fsx(place, name, &link, OFTEN);
        goes_on.store(false, Ordering::Release);
        let turned = turner
            .join()
            .map_err(|_| "the turner panicked".to_owned())?;
        outcome.and(turned)
    })
}

/// Runs `work` while one data server after the other is killed and started again.
fn disturbed(cluster: &Cluster, work: impl FnOnce() -> Outcome) -> Outcome {
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let disturber = scope.spawn(|| -> Result<u32, String> {
            let mut kills = 0;
            while goes_on.load(Ordering::Acquire) {
                let (pair, member) = (kills % 2, kills / 2 % 2);
                let server = format!("data:{pair}.{member}");
                cluster.order("kill", &server)?;
                std::thread::sleep(AWAY);
                cluster.order("start", &server)?;
                cluster.wait_both(pair, RECOVERY_PATIENCE)?;
                kills += 1;
                std::thread::sleep(AWAY);
            }
            Ok(kills)
        });
        let outcome = work();
        goes_on.store(false, Ordering::Release);
        let kills = disturber
            .join()
            .map_err(|_| "the disturber panicked".to_owned())??;
        println!("   {kills} times a data server was killed and came back");
        if kills == 0 {
            return Err("the work was over before a server was killed".into());
        }
        outcome
    })
}

fn fio(place: &Place) -> Outcome {
    let ground = place.ground.join("fio");
    fs::create_dir_all(&ground).map_err(|error| format!("{}: {error}", ground.display()))?;
    for (name, more) in [
        ("sequential", &["--rw=write", "--bs=1m"][..]),
        ("random", &["--rw=randwrite", "--bs=4k"][..]),
        (
            "random-direct",
            &["--rw=randwrite", "--bs=16k", "--direct=1"][..],
        ),
        (
            "random-mapped",
            &["--rw=randwrite", "--bs=4k", "--ioengine=mmap"][..],
        ),
    ] {
        let mut command = Command::new("fio");
        command
            .arg(format!("--name={name}"))
            .arg(format!("--directory={}", ground.display()))
            .args([
                "--ioengine=psync",
                "--size=64m",
                "--numjobs=2",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--do_verify=1",
                // Otherwise it leaves files in the directory that it is started from.
                "--verify_state_save=0",
                "--group_reporting",
                "--end_fsync=1",
            ])
            .args(more)
            .arg(format!("--randseed={}", place.seed));
        println!("   fio {name}");
        logged(&mut command, &place.run.join(format!("fio-{name}.log")))?;
    }
    Ok(())
}

/// Programs of our own, by both mounts.
fn programs(place: &Place, lasting: Duration) -> Outcome {
    let done = weft_programs::run([&place.ground, &place.second], lasting)?;
    for (name, steps) in done {
        println!("   {name}: {steps} steps");
    }
    Ok(())
}

/// Runs a command with its output in a file; returns it. A status other than success is an error
/// with the last lines.
fn logged(command: &mut Command, log: &Path) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let both = file
        .try_clone()
        .map_err(|error| format!("{}: {error}", log.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both)
        .status()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    let output = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    // pjdfstest's own judgement is read from its summary.
    if status.success() || output.contains("Summary:") {
        return Ok(output);
    }
    let tail: Vec<&str> = output.lines().rev().take(12).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(format!("{name}: {status}\n{}", tail.join("\n")))
}
