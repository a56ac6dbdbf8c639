//! A cluster of three machines is founded by the very commands of docs/book/founding.md. Each machine is a set of directories
//! and an address of the loopback; systemd is played by this test, which does what the units in deploy/ say.

use crate::support::pages::{blocks, root};
use crate::support::{Process, WEFT, can_mount};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = "docs/book/founding.md";
/// Its first and last one; those that it names are among them.
const MACHINES: std::ops::RangeInclusive<usize> = 1..=3;
/// The ports that the page names. Others are taken: a system may have an etcd of its own.
const PORTS: [&str; 6] = ["2379", "2380", "7400", "7401", "7410", "7412"];
/// What is of the machine and not of the cluster: its packages and users.
const NOT_HERE: [&str; 2] = ["useradd ", "chown "];
/// No command of the page takes so long.
const LONG: Duration = Duration::from_secs(60);

struct Machines {
    base: PathBuf,
    ports: BTreeMap<&'static str, u16>,
    /// By machine and unit.
    running: BTreeMap<(usize, String), Process>,
}

impl Machines {
    fn new(base: &Path) -> Machines {
        let mut port = 32_300;
        let mut draw = || {
            loop {
                port += 1;
                let is_free =
                    |machine| TcpListener::bind((format!("127.0.0.{machine}"), port)).is_ok();
                if MACHINES.into_iter().all(is_free) {
                    return port;
                }
            }
        };
        Machines {
            base: base.to_owned(),
            ports: PORTS.iter().map(|named| (*named, draw())).collect(),
            running: BTreeMap::new(),
        }
    }

    fn place(&self, machine: usize) -> PathBuf {
        self.base.join(machine.to_string())
    }

    /// Text of the page, or of a unit, as it is for one of these machines.
    fn here(&self, machine: usize, text: &str) -> String {
        let place = self.place(machine);
        let place = place.display();
        let mut text = text
            .replace("10.0.0.", "127.0.0.")
            .replace("sudo -u weft ", "")
            .replace("sleep 1;", "sleep 0.05;");
        for (named, port) in &self.ports {
            text = text.replace(named, &port.to_string());
        }
        for directory in [
            "/etc/weft",
            "/etc/default",
            "/var/lib",
            "/srv/weft",
            "/scratch",
        ] {
            text = text.replace(directory, &format!("{place}{directory}"));
        }
        text
    }

    fn run(&mut self, machine: usize, line: usize, text: &str) {
        let mut before = String::new();
        for command in text.lines() {
            if NOT_HERE.iter().any(|begin| command.starts_with(begin)) {
                continue;
            }
            match command.strip_prefix("systemctl ") {
                Some(order) => {
                    let words = format!("{before}printf '%s' \"{order}\"\n");
                    let order = self.sh(machine, line, &words);
                    self.systemctl(machine, &order);
                    // What was done is done; its variables are needed again.
                    before = before
                        .lines()
                        .filter(|line| line.starts_with("N="))
                        .flat_map(|line| [line, "\n"])
                        .collect();
                }
                None => {
                    let is_number = command.starts_with("N=");
                    before += &match is_number {
                        true => format!("N={machine}"),
                        false => command.to_owned(),
                    };
                    before.push('\n');
                }
            }
        }
        self.sh(machine, line, &before);
    }

    /// The last line of what it printed.
    fn sh(&self, machine: usize, line: usize, script: &str) -> String {
        let script = self.here(machine, script);
        let path = format!(
            "{}:{}",
            Path::new(WEFT).parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        // An option of timeout(1)'s kind would do; it is not everywhere.
        let child = Command::new("sh")
            .args(["-euc", &script])
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Process(child);
        let deadline = Instant::now() + LONG;
        while process.0.try_wait().unwrap().is_none() {
            assert!(
                Instant::now() < deadline,
                "{PAGE}:{line} does not end:\n{script}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut out, mut error) = (String::new(), String::new());
        let (mut stdout, mut stderr) = (
            process.0.stdout.take().unwrap(),
            process.0.stderr.take().unwrap(),
        );
        std::io::Read::read_to_string(&mut stdout, &mut out).unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut error).unwrap();
        assert!(
            process.0.wait().unwrap().success(),
            "{PAGE}:{line} fails:\n{script}\n{out}{error}\n{}",
            self.logs()
        );
        out.lines().last().unwrap_or_default().to_owned()
    }

    fn systemctl(&mut self, machine: usize, order: &str) {
        let words: Vec<&str> = order.split_whitespace().collect();
        match words[..] {
            ["enable", "--now", ref units @ ..] | ["restart", "--no-block", ref units @ ..] => {
                for unit in units {
                    let process = self.start(machine, unit);
                    self.running.insert((machine, (*unit).to_owned()), process);
                }
            }
            ["kill", "-s", "KILL", ref units @ ..] => {
                for unit in units {
                    let key = (machine, (*unit).to_owned());
                    let mut process = self.running.remove(&key).expect("it runs");
                    process.0.kill().unwrap();
                    process.0.wait().unwrap();
                }
            }
            _ => panic!("systemctl {order}: this test does not know that"),
        }
    }

    fn start(&self, machine: usize, unit: &str) -> Process {
        let mut command = match unit {
            "etcd" => self.etcd(machine),
            _ => self.of_unit(machine, unit),
        };
        let log = fs::File::create(self.base.join(format!("{machine}-{unit}.log"))).unwrap();
        let command = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Process(command.spawn().unwrap())
    }

    /// As Debian's unit does: settings are its environment.
    fn etcd(&self, machine: usize) -> Command {
        let settings = self.place(machine).join("etc/default/etcd");
        let settings = fs::read_to_string(settings).unwrap();
        let mut command = Command::new("etcd");
        command.envs(settings.lines().filter_map(|line| line.split_once('=')));
        command
    }

    fn of_unit(&self, machine: usize, unit: &str) -> Command {
        let (file, instance) = match unit.split_once('@') {
            Some((name, instance)) => (format!("{name}@.service"), instance),
            None => (format!("{unit}.service"), ""),
        };
        let text = fs::read_to_string(root().join("deploy").join(file)).unwrap();
        let text = self.here(machine, &text).replace("%i", instance);
        let line = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            let words = found.unwrap().split_whitespace();
            let mut words = words.map(|word| word.replace("/usr/bin/weft", WEFT));
            let mut command = Command::new(words.next().unwrap());
            command.args(words);
            command
        };
        let check = line("ExecStartPre=").output().unwrap();
        assert!(check.status.success(), "{unit}: {check:?}");
        line("ExecStart=")
    }

    fn logs(&self) -> String {
        let mut all = String::new();
        for (machine, unit) in self.running.keys() {
            let log = self.base.join(format!("{machine}-{unit}.log"));
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(8)..];
            all += &format!("== {machine}: {unit}\n{}\n", last.join("\n"));
        }
        all
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // Mounts first: they write back. Then metadata servers, data servers, and the coordinator last.
        for begin in ["weft-mount", "weft-meta", "weft-data", "etcd"] {
            let ended: Vec<Process> = self
                .running
                .extract_if(.., |(_, unit), _| unit.starts_with(begin))
                .map(|(_, process)| process)
                .collect();
            for process in &ended {
                process.signal(libc::SIGTERM);
            }
        }
    }
}

#[test]
fn a_cluster_of_three_machines_is_founded_as_the_page_says() {
    let has_etcd = Command::new("etcd").arg("--version").output().is_ok();
    if !has_etcd {
        println!("left out: etcd is not installed (./run ci installs it)");
        return;
    }
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut machines = Machines::new(base.path());
    for machine in MACHINES {
        for directory in ["etc/default", "var/lib/etcd"] {
            fs::create_dir_all(machines.place(machine).join(directory)).unwrap();
        }
    }
    let mut ran = 0;
    for block in blocks(PAGE) {
        let on: Vec<usize> = match block.info.as_str() {
            "sh on each" => MACHINES.collect(),
            // Not the one that dies.
            "sh on one" => vec![2],
            "sh on machine 1" => vec![1],
            info => panic!("{PAGE}:{}: where is {info:?} to be run?", block.line),
        };
        for machine in on {
            machines.run(machine, block.line, &block.text);
            ran += 1;
        }
    }
    assert!(ran > 10, "the page has lost its commands");
    let hello = machines.place(2).join("scratch/hello");
    assert_eq!(fs::read_to_string(hello).unwrap(), "hello\nmore\n");
}
