//! Metadata servers of a real cluster come and go while a mount is used, and one is forced to lead where no quorum
//! is left.

use crate::support::{Dev, Process, WEFT, can_mount};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A metadata server beside those of `weft dev`.
struct Fourth {
    config: PathBuf,
    log: PathBuf,
    address: String,
}

impl Fourth {
    fn new(dev: &Dev, base: &Path, member: u32) -> Fourth {
        let cluster = fs::read_to_string(dev.directory.join("cluster.toml")).unwrap();
        let id = cluster
            .lines()
            .find_map(|line| line.strip_prefix("id = "))
            .unwrap();
        // Of those that neither the system nor `weft dev` gives; the tests here run side by side.
        static NEXT: AtomicU16 = AtomicU16::new(32_001);
        let port = std::iter::repeat_with(|| NEXT.fetch_add(1, Relaxed))
            .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .unwrap();
        let address = format!("127.0.0.1:{port}");
        let config = base.join(format!("meta-{member}.toml"));
        let coordinator = format!("file:{}", dev.directory.join("coordinator").display());
        let dir = base.join(format!("meta-{member}"));
        fs::write(
            &config,
            format!(
                "member = {member}\ncluster_id = {id}\ncoordinator = {coordinator:?}\nlisten = \"{address}\"\ndir = {dir:?}\n"
            ),
        )
        .unwrap();
        let log = base.join(format!("meta-{member}.log"));
        Fourth {
            config,
            log,
            address,
        }
    }

    fn start(&self) -> Process {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let child = Command::new(WEFT)
            .args(["meta", "--config"])
            .arg(&self.config)
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    fn says(&self, text: &str) {
        let said = || fs::read_to_string(&self.log).unwrap();
        until(text, || said().contains(text));
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Its exit code, when it has ended by itself.
fn ended(process: &mut Process) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = process.0.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not end");
}

fn status(dev: &Dev) -> Value {
    serde_json::from_str(&dev.done(&["group", "status", "--json"])).unwrap()
}

fn roles(dev: &Dev) -> Vec<(u64, String)> {
    let status = status(dev);
    let members = status["members"].as_array().unwrap().iter();
    members
        .map(|one| {
            (
                one["id"].as_u64().unwrap(),
                one["role"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn refused(output: &Output, code: i32, part: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(code) && said.contains(part),
        "{:?} {said}",
        output.status
    );
}

#[test]
fn metadata_servers_come_and_go_under_a_mount() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("cluster");
    let mount = base.path().join("mnt");
    let options = ["--pairs", "1", "--mount", mount.to_str().unwrap()];
    let dev = Dev::up(&directory, &options);
    fs::write(mount.join("before"), b"before").unwrap();
    let text = dev.done(&["group", "status"]);
    assert!(
        text.starts_with("group 0, epoch 1, led by member "),
        "{text}"
    );

    // It waits until it is let in.
    let fourth = Fourth::new(&dev, base.path(), 4);
    let mut process = fourth.start();
    fourth.says("let it in with `weft group add");
    refused(
        &dev.tool(&["group", "add", "127.0.0.1:1"]),
        1,
        "no metadata server of cluster",
    );
    // Not under a number that is another's.
    let taken = Fourth::new(&dev, base.path(), 2);
    let mut second = taken.start();
    assert_eq!(ended(&mut second), Some(5));
    taken.says("member 2 of group 0 has its journal in another directory");

    let said = dev.done(&["group", "add", &fourth.address, "--wait"]);
    assert!(said.contains("member 4 is a standby"), "{said}");
    assert_eq!(roles(&dev).len(), 4);
    fs::write(mount.join("with four"), b"four").unwrap();

    // Whoever leads is removed: another takes over, and the process ends for good.
    let active = status(&dev)["active"].as_u64().unwrap();
    let said = dev.done(&["group", "remove", &active.to_string()]);
    assert!(said.contains("another takes over first"), "{said}");
    fs::write(mount.join("with three"), b"three").unwrap();
    assert!(
        roles(&dev)
            .iter()
            .all(|(id, role)| *id != active && role != "junior")
    );
    assert_ne!(status(&dev)["active"].as_u64().unwrap(), active);
    refused(
        &dev.tool(&["group", "remove", &active.to_string()]),
        2,
        "has no member",
    );
    if active != 4 {
        let name = format!("meta:{active}");
        until("the removed server has ended", || {
            dev.done(&["dev", "status"])
                .contains("ended with exit code 0")
        });
        refused(
            &dev.tool(&["dev", "start", &name]),
            1,
            "was removed from group 0",
        );
    }

    // The fourth one is one of three now, and goes, too.
    if roles(&dev).iter().any(|(id, _)| *id == 4) {
        dev.done(&["group", "remove", "4"]);
    }
    assert_eq!(ended(&mut process), Some(0));
    fourth.says("was removed from group 0");
    let mut again = fourth.start();
    assert_eq!(ended(&mut again), Some(5), "not by being started again");

    for (name, content) in [
        ("before", "before"),
        ("with four", "four"),
        ("with three", "three"),
    ] {
        assert_eq!(fs::read_to_string(mount.join(name)).unwrap(), content);
    }
    dev.end();
    // Those that are left are a cluster.
    let dev = Dev::up(&directory, &options);
    assert_eq!(fs::read_to_string(mount.join("with four")).unwrap(), "four");
    dev.end();
}

#[test]
fn one_is_forced_to_lead_when_two_of_three_are_gone() {
    let base = tempfile::tempdir().unwrap();
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--no-mount", "--pairs", "1"],
    );
    refused(
        &dev.tool(&["group", "force", "1"]),
        2,
        "nobody need be forced",
    );
    // Both at once, for two that are left go on.
    let pids = dev.done(&["dev", "status", "--json"]);
    let pids: Value = serde_json::from_str(&pids).unwrap();
    let pid_of = |name: &str| {
        let processes = pids["processes"].as_array().unwrap();
        let process = processes.iter().find(|one| one["name"] == name).unwrap();
        process["pid"].as_i64().unwrap() as i32
    };
    let active = status(&dev)["active"].as_u64().unwrap();
    let left = 1 + active % 3;
    for gone in (1..=3).filter(|member| *member != left) {
        // SAFETY: kill takes plain numbers; these are processes of the cluster of this test.
        let sent = unsafe { libc::kill(pid_of(&format!("meta:{gone}")), libc::SIGKILL) };
        assert_eq!(sent, 0);
    }
    until("nobody leads", || status(&dev)["active"].is_null());
    let number = left.to_string();
    let refusal = dev.tool(&["group", "force", &number]);
    refused(&refusal, 2, "nothing was done");
    let warned = String::from_utf8_lossy(&refusal.stdout).into_owned();
    assert_eq!(warned.matches("does not answer").count(), 2, "{warned}");
    let said = dev.done(&["group", "force", &number, "--yes"]);
    assert!(
        said.contains(&format!("member {left} leads since epoch")),
        "{said}"
    );
    assert_eq!(status(&dev)["active"], left);
    // Who is gone for good is removed, and who comes back takes part.
    let others: Vec<u64> = (1..=3).filter(|member| *member != left).collect();
    dev.done(&["group", "remove", &others[0].to_string()]);
    dev.done(&["dev", "start", &format!("meta:{}", others[1])]);
    until("two count", || {
        let roles = roles(&dev);
        roles.len() == 2 && roles.iter().all(|(_, role)| role != "junior")
    });
    dev.end();
}
