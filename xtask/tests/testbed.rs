//! The test bed as its users meet it: links keep their rates, a cut is a cut, and nothing stays
//! behind though the chore is killed. Needs root and a kernel that makes network name spaces; says
//! so where it is left out.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "acts on real processes and name spaces"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Mbit/s of every link in these tests.
const RATE: f64 = 40.0;

/// A bed of two nodes without servers, ended when dropped.
struct Bed {
    child: Child,
    lines: Receiver<String>,
    directory: tempfile::TempDir,
}

impl Bed {
    /// None where none can be made.
    fn up() -> Option<Bed> {
        if !can_make_spaces() {
            println!(
                "left out: no network name spaces can be made here (not root, or no ip, tc, bridge)"
            );
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["testbed", "--bare", "--pairs", "0", "--clients", "2"])
            .args(["--rate", &format!("{RATE}mbit"), "--dir"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _: Result<(), _> = sender.send(line);
            }
        });
        let bed = Bed {
            child,
            lines,
            directory,
        };
        bed.wait_for("the bed is up");
        Some(bed)
    }

    fn wait_for(&self, start: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap();
            if line.starts_with(start) {
                return;
            }
        }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
        self.wait_for("ok");
    }

    fn spaces(&self) -> Vec<String> {
        let own = format!("weft-bed-{}-", self.child.id());
        let all = std::fs::read_dir("/run/netns").unwrap();
        all.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(&own))
            .collect()
    }

    fn space(&self, node: &str) -> String {
        format!("/run/netns/weft-bed-{}-{node}", self.child.id())
    }

    /// Runs on a thread that is in a node's name space.
    fn inside<T: Send + 'static>(
        &self,
        node: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let space = self.space(node);
        std::thread::spawn(move || {
            let file = std::fs::File::open(space).unwrap();
            // SAFETY: setns takes an open descriptor and a flag; it concerns this thread only.
            let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(entered, 0);
            work()
        })
    }

    /// Waits until nothing is left of it.
    fn wait_gone(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.spaces().is_empty() || std::fs::read_dir(&self.directory).unwrap().count() > 0 {
            assert!(Instant::now() < end, "left behind: {:?}", self.spaces());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _: std::io::Result<_> = self.child.wait();
    }
}

/// Tries it with a name space, a bridge, a veth pair and a tbf of its own, all gone with the space.
fn can_make_spaces() -> bool {
    let name = format!(
        "weft-try-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let name = name.replace(['(', ')'], "");
    let done = |program: &str, arguments: &str| {
        Command::new(program)
            .args(arguments.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let all = done("ip", &format!("netns add {name}"))
        && done("ip", &format!("-n {name} link add name br0 type bridge"))
        && done(
            "ip",
            &format!("-n {name} link add name veth0 type veth peer name veth1"),
        )
        && done(
            "tc",
            &format!("-n {name} qdisc add dev veth0 root tbf rate 10mbit burst 32768 latency 20ms"),
        );
    done("ip", &format!("netns del {name}"));
    all
}

/// Addresses in the order in which nodes are made: meta, then clients.
const ADDRESSES: [&str; 2] = ["10.77.0.2:5000", "10.77.0.3:5000"];

#[test]
fn a_link_keeps_its_rate_and_can_be_cut() {
    let Some(mut bed) = Bed::up() else { return };
    let listener = bed
        .inside("client0", || TcpListener::bind(ADDRESSES[0]).unwrap())
        .join()
        .unwrap();
    // Sockets stay in the name space where they were made.
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = 0;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(got @ 1..) = stream.read(&mut buffer) {
                bytes += got;
            }
            sender.send(bytes).unwrap();
        }
    });
    const MEGABYTES: usize = 4;
    let transfer = |bed: &Bed| {
        let start = Instant::now();
        let sending = bed.inside("client1", || {
            let mut stream = TcpStream::connect(ADDRESSES[0]).unwrap();
            stream.write_all(&vec![7; MEGABYTES * 1_000_000]).unwrap();
        });
        sending.join().unwrap();
        let bytes = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(bytes, MEGABYTES * 1_000_000);
        start.elapsed().as_secs_f64()
    };
    let least = MEGABYTES as f64 * 8.0 / RATE;
    let took = transfer(&bed);
    // A burst goes through at once; a machine that is busy takes longer.
    assert!(took > 0.9 * least, "{took} s at {RATE} Mbit/s");
    bed.order("rate client1 none");
    bed.order("rate client0 none");
    let took = transfer(&bed);
    assert!(took < 0.9 * least, "{took} s without a limit");

    bed.order("cut client0 in");
    let reach = |bed: &Bed| {
        let connecting = bed.inside("client1", || {
            let address = ADDRESSES[0].parse().unwrap();
            TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok()
        });
        connecting.join().unwrap()
    };
    assert!(!reach(&bed), "a cut link lets nothing in");
    bed.order("heal client0");
    assert!(reach(&bed));
}

#[test]
fn nothing_stays_when_the_chore_is_killed() {
    let Some(mut bed) = Bed::up() else { return };
    assert!(bed.spaces().len() >= 4, "{:?}", bed.spaces());
    let mut lingering = Command::new("nsenter")
        .arg(format!("--net={}", bed.space("client0")))
        .args(["sleep", "600"])
        .spawn()
        .unwrap();
    bed.child.kill().unwrap();
    bed.wait_gone();
    let end = Instant::now() + Duration::from_secs(5);
    while lingering.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "what ran in a node is ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_orderly_end_leaves_nothing() {
    let Some(bed) = Bed::up() else { return };
    // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
    let sent = unsafe { libc::kill(bed.child.id() as i32, libc::SIGINT) };
    assert_eq!(sent, 0);
    bed.wait_for("the bed is being removed");
    bed.wait_gone();
    assert!(!Path::new(&bed.space("meta")).exists());
}
