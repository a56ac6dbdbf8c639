//! The real binary: a cluster of real processes, mounted, with servers killed.
//!
//! Left out, with a plain message, where nothing can be mounted. Everything that is started is ended
//! by its id; everything that is written lies in a temporary directory.

mod logs;

use crate::support::{Dev, WEFT, can_mount};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that tell their place: a piece that ends up elsewhere is seen.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

type Expected = BTreeMap<PathBuf, Vec<u8>>;

fn write_some(mount: &Path, round: u64, expected: &mut Expected) {
    let directory = mount.join(format!("round{round}"));
    fs::create_dir(&directory).unwrap();
    for (at, length) in [0, 1, 4096, 100_000, 3 << 20, 9_000_001]
        .into_iter()
        .enumerate()
    {
        let path = directory.join(format!("f{at}"));
        let bytes = content(round * 100 + at as u64, length);
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        if at % 2 == 0 {
            file.sync_all().unwrap();
        }
        expected.insert(path, bytes);
    }
}

fn check(expected: &Expected) {
    for (path, bytes) in expected {
        let mut found = Vec::new();
        fs::File::open(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            .read_to_end(&mut found)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == *bytes, "{} came back different", path.display());
    }
}

/// Waits until `weft health` finds these checks and no others. (The machine's own disk may be nearly full.)
fn finds(dev: &Dev, checks: &[&str], exit_code: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let output = dev.tool(&["health", "--json"]);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            output.status.code().map(|code| code as u64),
            said["exit_code"].as_u64()
        );
        let findings = said["findings"].as_array().unwrap().iter();
        let found: Vec<&str> = findings.filter_map(|it| it["check"].as_str()).collect();
        let others: Vec<&str> = found.iter().copied().filter(|it| *it != "room").collect();
        let is_so =
            others == checks && (said["exit_code"] == exit_code || found.len() > others.len());
        if is_so {
            return;
        }
        assert!(Instant::now() < deadline, "{checks:?} are wrong: {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_cluster_goes_on_when_servers_are_killed() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("cluster");
    let mount = base.path().join("mnt");
    let mount_option = mount.to_str().unwrap().to_owned();
    let dev = Dev::up(&directory, &["--mount", &mount_option]);
    let mut expected = Expected::new();
    write_some(&mount, 1, &mut expected);
    finds(&dev, &[], 0);

    // A second one on the same directory is refused, and says why.
    let second = Command::new(WEFT)
        .args(["dev", "--dir"])
        .arg(&directory)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(why.contains("already runs on"), "{why}");

    // A data server dies: reading and writing go on.
    dev.done(&["dev", "kill", "data:0.0"]);
    write_some(&mount, 2, &mut expected);
    let changed = mount.join("round1/f5");
    let file = fs::OpenOptions::new().write(true).open(&changed).unwrap();
    file.write_all_at(b"changed while one was away", 4_500_000)
        .unwrap();
    file.sync_all().unwrap();
    expected.get_mut(&changed).unwrap()[4_500_000..4_500_026]
        .copy_from_slice(b"changed while one was away");
    fs::remove_file(mount.join("round1/f4")).unwrap();
    expected.remove(&mount.join("round1/f4"));
    check(&expected);
    let alone = dev.tool(&["fsck", "--data"]);
    assert_eq!(alone.status.code(), Some(4), "one copy is not sound");
    finds(&dev, &["one-copy"], 2);
    let status = dev.done(&["status"]);
    assert!(status.starts_with("health: critical"), "{status}");
    assert!(
        status.contains("away ") && !status.contains("away 0 ms"),
        "{status}"
    );

    // It comes back, and gets what it missed.
    dev.done(&["dev", "start", "data:0.0"]);
    dev.done(&["fsck", "--data", "--wait", "60"]);

    // Another loses its disk.
    dev.done(&["dev", "kill", "data:1.1"]);
    dev.done(&["dev", "wipe", "data:1.1"]);
    write_some(&mount, 3, &mut expected);
    dev.done(&["dev", "start", "data:1.1"]);
    dev.done(&["fsck", "--data", "--wait", "60"]);

    // The metadata server that leads dies: another goes on, and it comes back as one of the others.
    dev.done(&["dev", "kill", "active"]);
    finds(&dev, &["members"], 1);
    dev.done(&["dev", "start", "active"]);
    check(&expected);
    write_some(&mount, 4, &mut expected);

    let explained = Command::new(WEFT)
        .args(["explain", "--json"])
        .arg(mount.join("round4/f5"))
        .output()
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(
        explained.contains("\"protocol\":\"server-sync\""),
        "{explained}"
    );
    let status = dev.done(&["dev", "status", "--json"]);
    assert!(status.contains("\"state\":\"both\""), "{status}");
    dev.end();

    // The data survives the end of everything.
    let dev = Dev::up(&directory, &["--mount", &mount_option]);
    check(&expected);
    dev.done(&["fsck", "--data", "--wait", "60"]);
    dev.done(&["scrub"]);
    dev.end();
    assert!(fs::read_dir(&mount).unwrap().next().is_none(), "unmounted");
}

#[test]
fn whichever_metadata_server_is_killed_another_goes_on() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("cluster");
    let mount = base.path().join("mnt");
    let mount_option = mount.to_str().unwrap().to_owned();
    let options = ["--pairs", "1", "--mount", &mount_option];
    let dev = Dev::up(&directory, &options);
    let mut expected = Expected::new();
    write_some(&mount, 1, &mut expected);
    for round in 2..5 {
        // Each time another one, for what was killed is started again as a standby.
        let said = dev.done(&["dev", "kill", "active"]);
        let killed = said.split_whitespace().next().unwrap().to_owned();
        assert!(killed.starts_with("meta:"), "{said}");
        write_some(&mount, round, &mut expected);
        check(&expected);
        dev.done(&["dev", "start", &killed]);
        while !all_count(&dev) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    dev.end();
    let dev = Dev::up(&directory, &["--mount", &mount_option]);
    check(&expected);
    dev.end();
}

#[test]
fn groups_share_a_name_space_whoever_is_killed() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let mount_option = mount.to_str().unwrap().to_owned();
    let options = ["--groups", "2", "--pairs", "1", "--mount", &mount_option];
    let directory = base.path().join("cluster");
    let dev = Dev::up(&directory, &options);
    let kept = mount.join("kept");
    fs::create_dir(&kept).unwrap();
    let is_over = AtomicBool::new(false);
    // Directories are of either group, as their names fall: most of these changes are of both.
    let work = || {
        let mut made = 0;
        while !is_over.load(Ordering::Relaxed) {
            let (dir, moved) = (mount.join(format!("d{made}")), mount.join("moved"));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("file"), content(made, 100)).unwrap();
            fs::rename(dir.join("file"), &moved).unwrap();
            fs::hard_link(&moved, dir.join("link")).unwrap();
            fs::remove_file(&moved).unwrap();
            fs::create_dir(dir.join("inner")).unwrap();
            fs::rename(&dir, kept.join(format!("d{made}"))).unwrap();
            made += 1;
        }
        made
    };
    let kill = || {
        for _ in 0..2 {
            for active in ["active", "active:1"] {
                let said = dev.done(&["dev", "kill", active]);
                let killed = said.split_whitespace().next().unwrap().to_owned();
                std::thread::sleep(Duration::from_millis(300));
                dev.done(&["dev", "start", &killed]);
                while !all_count(&dev) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let made = std::thread::scope(|scope| {
        let working = scope.spawn(work);
        kill();
        working.join().unwrap()
    });
    assert!(made > 10, "only {made} rounds");
    let compare = || {
        assert_eq!(fs::read_dir(&mount).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&kept).unwrap().count() as u64, made);
        for number in 0..made {
            let dir = kept.join(format!("d{number}"));
            let mut names: Vec<_> = fs::read_dir(&dir).unwrap().collect();
            assert_eq!(names.drain(..).flatten().count(), 2);
            assert_eq!(fs::read(dir.join("link")).unwrap(), content(number, 100));
            assert_eq!(fs::metadata(dir.join("link")).unwrap().nlink(), 1);
            assert_eq!(fs::metadata(&dir).unwrap().nlink(), 3);
        }
    };
    compare();
    dev.end();
    let dev = Dev::up(&directory, &["--mount", &mount_option]);
    compare();
    for number in 0..made {
        fs::remove_dir_all(kept.join(format!("d{number}"))).unwrap();
    }
    assert_eq!(fs::metadata(&kept).unwrap().nlink(), 2);
    fs::remove_dir(&kept).unwrap();
    dev.end();
}

/// Every metadata server counts in its group.
fn all_count(dev: &Dev) -> bool {
    let status = dev.done(&["status", "--json"]);
    let roles: serde_json::Value = serde_json::from_str(&status).unwrap();
    let groups = roles["groups"].as_array().unwrap();
    groups.iter().all(|group| {
        let members = group["members"].as_array().unwrap();
        members.iter().all(|one| one["role"] != "junior")
    })
}

#[test]
fn a_program_that_runs_is_not_emptied() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--mount", mount.to_str().unwrap(), "--pairs", "1"],
    );
    let program = mount.join("program");
    // A copy of what comes with every system, with its mode.
    let bytes = fs::copy("/bin/sleep", &program).unwrap();
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    let emptied = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_TRUNC)
        .open(&program);
    let left = fs::metadata(&program).unwrap().len();
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(emptied.unwrap_err().raw_os_error(), Some(libc::ETXTBSY));
    assert_eq!(left, bytes);
    // When it has ended it can be.
    fs::File::create(&program).unwrap();
    assert_eq!(fs::metadata(&program).unwrap().len(), 0);
    dev.end();
}

#[test]
fn a_policy_is_inherited_and_shown() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--mount", mount.to_str().unwrap(), "--pairs", "1"],
    );
    let directory = mount.join("d");
    fs::create_dir(&directory).unwrap();
    let weft = |arguments: &[&str]| {
        let output = Command::new(WEFT)
            .args(arguments)
            .arg(&directory)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (code, _) = weft(&[
        "policy",
        "set",
        "--protocol",
        "client-sync",
        "--stripe-unit",
        "128K",
        "--durability",
        "disk",
    ]);
    assert_eq!(code, Some(0), "{}", dev.logs());
    let (_, policy) = weft(&["policy", "get", "--json"]);
    assert!(policy.contains("\"stripe_unit\":131072"), "{policy}");
    assert!(policy.contains("\"durability\":\"disk\""), "{policy}");
    let (code, _) = weft(&["policy", "set", "--protocol", "raid"]);
    assert_eq!(code, Some(2), "no such protocol");
    for protocol in ["server-async", "client-async", "hybrid", "client-sync"] {
        let (code, _) = weft(&["policy", "set", "--protocol", protocol]);
        assert_eq!(code, Some(0), "{protocol}");
    }
    // What is made there, also further down, lies as the policy says.
    fs::create_dir(directory.join("below")).unwrap();
    let file = directory.join("below/f");
    fs::write(&file, content(1, 500_000)).unwrap();
    let explained = Command::new(WEFT)
        .arg("explain")
        .arg(&file)
        .output()
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(
        explained.contains("stripes of 128.0 KiB") && explained.contains("protocol client-sync"),
        "{explained}"
    );
    assert_eq!(fs::read(&file).unwrap(), content(1, 500_000));
    dev.end();
}

#[test]
fn orders_and_tools_say_what_is_wrong() {
    let base = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], code: i32, word: &str| {
        let output = Command::new(WEFT)
            .args(arguments)
            .current_dir(base.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    };
    fails(&["dev", "kill", "data:0.0"], 3, "no `weft dev` runs on");
    fails(&["dev", "kill", "disk:7"], 2, "names are");
    fails(&["dev", "--members", "0", "--no-mount"], 2, "from 1 to");
    fails(&["dev", "--pairs", "0", "--no-mount"], 2, "from 1 to");
    fails(
        &["status", "--meta", "127.0.0.1:1"],
        3,
        "no Weft server answers",
    );
    fails(&["health", "--wrong"], 3, "--wrong");
    let health = Command::new(WEFT)
        .args(["health", "--meta", "127.0.0.1:1,127.0.0.1:2"])
        .output()
        .unwrap();
    assert_eq!(health.status.code(), Some(3));
    let said = String::from_utf8_lossy(&health.stdout).into_owned();
    assert!(
        said.contains("no metadata server answers (asked: 127.0.0.1:1, 127.0.0.1:2)"),
        "{said}"
    );
    fails(&["explain", "/"], 2, "not on a mount of Weft");
    fails(&["meta", "--config", "none.toml"], 1, "none.toml");
    fs::write(
        base.path().join("data.toml"),
        "dir = \"x\"\nmeat = [\"h:1\"]\n",
    )
    .unwrap();
    fails(
        &["config", "check", "data.toml"],
        2,
        "data.toml:2: unknown key `meat`; the nearest known key is `meta`",
    );
}

/// One HTTP request, as a scraper sends it.
fn scrape(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// How many metrics a page has; all of them must stand in the operators' table.
fn listed_metrics(page: &str) -> usize {
    const TABLE: &str = include_str!("../../../../docs/operating/metrics.md");
    let types = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split_once(' ').unwrap());
    types
        .map(|(name, kind)| {
            // Counters are scraped with `_total` behind the name of their type line.
            let total = if kind == "counter" { "_total" } else { "" };
            let row = format!("| `{name}{total}` | {kind} |");
            assert!(TABLE.contains(&row), "the table lacks: {row}");
        })
        .count()
}

/// The value of a metric, labels included.
fn figure(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.trim().parse().unwrap()
}

#[test]
fn a_mount_shows_its_figures() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let at = mount.to_str().unwrap();
    let directory = base.path().join("cluster");
    // With others nobody would wait for the one that hangs.
    let options = ["--mount", at, "--pairs", "1", "--members", "1"];
    let dev = Dev::up(&directory, &options);
    let status: serde_json::Value =
        serde_json::from_str(&dev.done(&["dev", "status", "--json"])).unwrap();
    let processes = status["processes"].as_array().unwrap();
    let process = processes.iter().find(|one| one["name"] == "mount").unwrap();
    let page = || scrape(process["metrics"].as_str().unwrap());
    let file = mount.join("f");
    fs::write(&file, content(1, 100_000)).unwrap();
    let seen = page();
    assert_eq!(figure(&seen, "weft_mount_written_bytes_total "), 100_000.0);
    assert!(figure(&seen, "weft_mount_requests_total{kind=\"create\"} ") == 1.0);
    assert!(figure(&seen, "weft_mount_cached_inodes ") >= 2.0);
    assert_eq!(figure(&seen, "weft_mount_read_bytes_total "), 0.0);
    // Removing an attribute that is not there reaches the mount, whatever the kernel keeps.
    let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
    // SAFETY: both strings end in NUL and outlive the call.
    let failed = unsafe { libc::removexattr(path.as_ptr(), c"user.none".as_ptr()) };
    assert_eq!(failed, -1);
    let seen = page();
    let errors = "weft_mount_errors_total{errno=\"ENODATA\"} ";
    assert!(figure(&seen, errors) >= 1.0, "{seen}");
    // Its own, and the one that every process has: lines of its log that were lost.
    let rows = include_str!("../../../../docs/operating/metrics.md").matches("| `weft_mount_");
    assert_eq!(listed_metrics(&seen), rows.count() + 1);

    // What waits for a server that hangs is seen while it waits, and afterwards.
    let buffered = figure(&page(), "weft_mount_buffered_bytes ");
    assert!(buffered <= 100_000.0, "{buffered}");
    dev.done(&["dev", "stop", "active"]);
    let new = mount.join("new");
    let waits = std::thread::spawn(move || fs::create_dir(new));
    std::thread::sleep(Duration::from_millis(1_500));
    let seen = page();
    assert!(figure(&seen, "weft_mount_requests_waiting ") >= 1.0);
    assert!(figure(&seen, "weft_mount_longest_wait_seconds ") > 1.0);
    dev.done(&["dev", "cont", "active"]);
    waits.join().unwrap().unwrap();
    let seen = page();
    assert!(figure(&seen, "weft_mount_longest_wait_seconds ") > 1.0);
    assert_eq!(figure(&seen, "weft_mount_requests_waiting "), 0.0);
    dev.end();
}

#[test]
fn tools_do_not_mind_that_nobody_reads_what_they_say() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("data.toml");
    fs::write(
        &file,
        "dir = \"data\"\ncluster_id = \"few\"\nmeta = [\"127.0.0.1:1\"]\n",
    )
    .unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let told = Command::new(WEFT)
        .args(["config", "check", "--kind", "data"])
        .arg(&file)
        .stdout(writer)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && errors.is_empty(), "{errors}");
}

#[test]
fn a_mount_that_was_killed_is_replaced_by_a_new_one() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let directory = base.path().join("cluster");
    let at = mount.to_str().unwrap();
    let dev = Dev::up(&directory, &["--mount", at, "--pairs", "1"]);
    let file = mount.join("f");
    let mut written = fs::File::create(&file).unwrap();
    written.write_all(&content(1, 100_000)).unwrap();
    written.sync_all().unwrap();
    // The kernel keeps the attributes of the mount point from now on.
    fs::metadata(&mount).unwrap();
    dev.done(&["dev", "kill", "mount"]);
    let gone = fs::read_dir(&mount).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::ENOTCONN));
    dev.done(&["dev", "start", "mount"]);
    assert_eq!(fs::read(&file).unwrap(), content(1, 100_000));
    drop(written);
    dev.end();
}

#[test]
fn strangers_are_hung_up_on_and_metrics_stand_in_the_operators_table() {
    let base = tempfile::tempdir().unwrap();
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--no-mount", "--pairs", "1"],
    );
    let status: serde_json::Value =
        serde_json::from_str(&dev.done(&["dev", "status", "--json"])).unwrap();
    let processes = status["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 5);
    for process in processes {
        let (name, address) = (&process["name"], process["address"].as_str().unwrap());
        for round in 0..20 {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut bytes = content(round, 2_000);
            if round % 2 == 1 {
                // Begins as a frame does.
                bytes[..5].copy_from_slice(b"WEFT\x01");
            }
            // The server may hang up before it has taken everything.
            let _: std::io::Result<()> = stream.write_all(&bytes);
            let _: std::io::Result<()> = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            // An end or a reset, but not silence.
            if let Err(error) = stream.read_to_end(&mut answer) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{name}");
            }
        }
        // The last line may be written after the stranger was hung up on.
        let deadline = Instant::now() + Duration::from_secs(5);
        let refused = || {
            let log = fs::read_to_string(process["log"].as_str().unwrap()).unwrap();
            let lines = ["handshake refused", "hung up in the handshake"];
            lines
                .map(|line| log.matches(line).count())
                .iter()
                .sum::<usize>()
        };
        while refused() < 20 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(refused(), 20, "{name}: a line for each stranger");
        let page = scrape(process["metrics"].as_str().unwrap());
        assert!(listed_metrics(&page) > 10, "{name}: {page}");
    }
    // They live, and serve.
    let status = dev.done(&["status", "--json"]);
    assert!(status.contains("\"serves\":true"), "{status}");
    dev.end();
}

#[test]
fn servers_raise_their_limit_of_open_files_and_do_not_start_with_too_few() {
    let base = tempfile::tempdir().unwrap();
    let start = |limits: &str, role: &str, file: &Path| {
        let line = format!("{limits}; exec \"$0\" {role} --config {}", file.display());
        let output = Command::new("sh").args(["-c", &line, WEFT]).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    let client = "meta = [\"127.0.0.1:1\"]\ncluster_id = \"few\"\n";
    let mount = format!(
        "mountpoint = \"{}\"\n[client]\n{client}",
        base.path().display()
    );
    let nfs = format!("[client]\n{client}[[export]]\npath = \"/\"\n");
    for (role, settings) in [
        ("meta", "listen = \"127.0.0.1:0\"\n"),
        (
            "data",
            "dir = \"d\"\ncluster_id = \"few\"\nlisten = \"127.0.0.1:0\"\nmeta = [\"127.0.0.1:1\"]\n",
        ),
        ("mount", &mount),
        ("nfs", &nfs),
    ] {
        let file = base.path().join(format!("{role}.toml"));
        fs::write(&file, settings).unwrap();
        let few = start("ulimit -n 60", role, &file);
        assert!(
            few.contains("60 files open, and needs 256"),
            "{role}: {few}"
        );
        let nowhere = Path::new("/nowhere/weft.toml");
        let raised = start("ulimit -Hn 300; ulimit -Sn 60", role, nowhere);
        assert!(raised.contains("/nowhere/weft.toml"), "{role}: {raised}");
    }
}
