//! Servers of etcd and ZooKeeper, and processes that announce themselves, for tests: started on free ports
//! of the loopback with directories of their own, killed with the test.

#![allow(clippy::disallowed_methods, reason = "tests act on real processes")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that dies with this handle, and with the thread that started it.
pub struct Process(Child);

impl Process {
    pub fn start(mut command: Command, hint: &str) -> Process {
        let parent = std::process::id();
        // SAFETY: between fork and exec only prctl and getppid are called, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                if libc::getppid() as u32 != parent {
                    return Err(std::io::Error::other("the test is gone"));
                }
                Ok(())
            });
        }
        match command.spawn() {
            Ok(child) => Process(child),
            Err(error) => panic!("{:?}: {error}; {hint}", command.get_program()),
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the process is ours and has not been waited for.
        let sent = unsafe { libc::kill(self.0.id() as i32, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may be dead already.
        let _: std::io::Result<()> = self.0.kill();
        let _: std::io::Result<_> = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that nobody has at the moment.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Etcd,
    ZooKeeper,
}

/// One server that can be killed and started again on the same port and directory.
pub struct Server {
    kind: Kind,
    port: u16,
    peer_port: u16,
    dir: tempfile::TempDir,
    process: Option<Process>,
}

impl Server {
    pub fn start(kind: Kind) -> Server {
        let mut server = Server {
            kind,
            port: free_port(),
            peer_port: free_port(),
            dir: tempfile::tempdir().unwrap(),
            process: None,
        };
        server.start_again();
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What `connect` takes.
    pub fn place(&self) -> String {
        let scheme = match self.kind {
            Kind::Etcd => "etcd",
            Kind::ZooKeeper => "zookeeper",
        };
        format!("{scheme}://{}/weft-test?answer_ms=3000", self.address())
    }

    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    pub fn signal(&self, signal: i32) {
        self.process.as_ref().unwrap().signal(signal);
    }

    /// Who serves is found out by asking, not here.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none());
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let (mut command, hint) = match self.kind {
            Kind::Etcd => (
                self.etcd(),
                "these tests need etcd: apt-get install etcd-server",
            ),
            Kind::ZooKeeper => (
                self.zookeeper(),
                "these tests need ZooKeeper and Java: apt-get install zookeeper default-jre-headless",
            ),
        };
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.process = Some(Process::start(command, hint));
    }

    /// What the server wrote, for a test that fails.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<_> = text.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn etcd(&self) -> Command {
        let (client, peer) = (
            format!("http://{}", self.address()),
            format!("http://127.0.0.1:{}", self.peer_port),
        );
        let mut command = Command::new("etcd");
        // Nothing from outside: etcd reads settings from the environment.
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (option, value) in [
            ("--name", "test"),
            ("--data-dir", self.dir.path().join("etcd").to_str().unwrap()),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("test={peer}")),
            // The least term of a lease is one and a half elections: a second.
            ("--heartbeat-interval", "50"),
            ("--election-timeout", "500"),
        ] {
            command.arg(option).arg(value);
        }
        command
    }

    fn zookeeper(&self) -> Command {
        let config = self.dir.path().join("zoo.cfg");
        let data = self.dir.path().join("zookeeper");
        std::fs::create_dir_all(&data).unwrap();
        let settings = format!(
            "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime=250\n\
             minSessionTimeout=1000\nmaxSessionTimeout=60000\nadmin.enableServer=false\n\
             maxClientCnxns=0\n",
            data.display(),
            self.port
        );
        std::fs::write(&config, settings).unwrap();
        let mut command = Command::new("java");
        command
            .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(zookeeper_classes())
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(config);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut out = std::io::stderr();
            let _: std::io::Result<()> =
                std::io::Write::write_all(&mut out, format!("{}\n", self.log()).as_bytes());
        }
    }
}

/// Where Debian puts ZooKeeper's classes, whose manifest names those that they need, and what writes its
/// log.
fn zookeeper_classes() -> String {
    let classes = Path::new("/usr/share/java/zookeeper.jar");
    assert!(
        classes.exists(),
        "{} is not there; these tests need ZooKeeper: apt-get install zookeeper",
        classes.display()
    );
    format!("{}:/usr/share/java/slf4j-simple.jar", classes.display())
}
