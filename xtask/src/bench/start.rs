//! Brings up one system to be measured and ends it again, with everything that belongs to it.
//!
//! Servers of other projects live in a network name space that is made for the run: they bind to an
//! address in it and nothing outside can reach them or be reached. Every process is ended by its id.

use crate::run::{Outcome, has, quiet, root};
use crate::spaces;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a system may take to be mounted, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Servers of others that do not end by then are killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// The address of the peers inside their own name space; never routed.
const ADDRESS: &str = "10.254.253.2";

/// A system that is up.
pub struct System {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Names of its processes, for their processor time.
    pub processes: Vec<&'static str>,
    base: tempfile::TempDir,
    network: Option<Network>,
    child: Option<Child>,
}

/// A network name space with its loopback up.
struct Network(String);

impl Network {
    fn new() -> Result<Network, String> {
        let name = format!("weft-bench-{}", std::process::id());
        spaces::add(&name)?;
        let network = Network(name);
        quiet(
            network
                .command("ip")
                .args(["addr", "add", &format!("{ADDRESS}/32"), "dev", "lo"]),
        )?;
        Ok(network)
    }

    fn command(&self, program: &str) -> Command {
        spaces::command(&self.0, program)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(why) = spaces::remove(std::slice::from_ref(&self.0), END_PATIENCE) {
            eprintln!("{why}");
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // `weft dev` and the passthrough unmount when they are asked to end.
            let _: Outcome = quiet(Command::new("kill").args(["-TERM", &child.id().to_string()]));
            let end = Instant::now() + PATIENCE;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _: std::io::Result<()> = child.kill();
            let _: std::io::Result<std::process::ExitStatus> = child.wait();
        }
        if mounted(&self.mount) {
            let _: Outcome = quiet(Command::new("umount").arg(&self.mount));
        }
        self.network = None;
        if mounted(&self.mount) {
            let _: Outcome = quiet(Command::new("umount").arg("-l").arg(&self.mount));
        }
    }
}

impl System {
    /// Starts the system of this name.
    ///
    /// # Errors
    /// In words, with what it printed.
    pub fn start(name: &str, weft: &Path) -> Result<System, String> {
        let base = tempfile::Builder::new()
            .prefix("weft-bench-")
            .tempdir()
            .map_err(|error| format!("a temporary directory: {error}"))?;
        let mount = base.path().join("mnt");
        fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let mut system = System {
            mount,
            processes: Vec::new(),
            base,
            network: None,
            child: None,
        };
        match name {
            "local" => return Ok(system),
            "passthrough" => system.passthrough()?,
            "moosefs" => system.moosefs()?,
            "gluster" => system.gluster()?,
            "weft" => system.weft(weft, "never")?,
            "weft-group" => system.weft(weft, "group")?,
            other => return Err(format!("no system is called {other:?}")),
        }
        let end = Instant::now() + PATIENCE;
        while !mounted(&system.mount) {
            if Instant::now() > end {
                return Err(format!("{name} was not mounted within {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(system)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        }
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn weft(&mut self, weft: &Path, sync: &str) -> Outcome {
        let mut command = Command::new(weft);
        command
            .arg("dev")
            .arg("--dir")
            .arg(self.path("data"))
            .arg("--mount")
            .arg(&self.mount);
        // One metadata server, as the others have.
        command.args(["--pairs", "2", "--members", "1", "--journal-sync", sync]);
        self.child = Some(background(&mut command, &self.path("log"))?);
        self.processes = vec!["weft"];
        Ok(())
    }

    /// libfuse's own passthrough over a plain directory: what any FUSE file system could reach.
    fn passthrough(&mut self) -> Outcome {
        let program = build_passthrough()?;
        let source = self.path("source");
        fs::create_dir(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        // It keeps a file open for each inode that the kernel knows.
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -n $(ulimit -Hn); exec \"$@\"", "sh"])
            .arg(program)
            .arg("--foreground")
            .arg(&source)
            .arg(&self.mount);
        self.child = Some(background(&mut command, &self.path("log"))?);
        self.processes = vec!["passthrough_hp"];
        Ok(())
    }

    fn moosefs(&mut self) -> Outcome {
        install(&["moosefs-master", "moosefs-chunkserver", "moosefs-client"])?;
        let network = Network::new()?;
        fs::create_dir_all(self.path("master")).map_err(|error| error.to_string())?;
        let data = self.path("master");
        self.file("master/metadata.mfs", "MFSM NEW")?;
        let exports = self.file("master/exports", "*  /  rw,alldirs,admin,maproot=0:0\n")?;
        let topology = self.file("master/topology", "\n")?;
        let master = self.file(
            "master/config",
            &format!(
                "WORKING_USER = root\nWORKING_GROUP = root\nDATA_PATH = {}\nEXPORTS_FILENAME = {}\n\
                 TOPOLOGY_FILENAME = {}\nMATOML_LISTEN_HOST = {ADDRESS}\nMATOML_LISTEN_PORT = 39410\n\
                 MATOCS_LISTEN_HOST = {ADDRESS}\nMATOCS_LISTEN_PORT = 39411\n\
                 MATOCL_LISTEN_HOST = {ADDRESS}\nMATOCL_LISTEN_PORT = 39412\n",
                data.display(),
                exports.display(),
                topology.display()
            ),
        )?;
        quiet(
            network
                .command("mfsmaster")
                .arg("-c")
                .arg(master)
                .arg("start"),
        )?;
        for index in 1..=4 {
            let name = format!("chunk{index}");
            let disk = self.path(&format!("{name}/disk"));
            fs::create_dir_all(&disk).map_err(|error| error.to_string())?;
            let disks = self.file(&format!("{name}/disks"), &format!("{}\n", disk.display()))?;
            let config = self.file(
                &format!("{name}/config"),
                &format!(
                    "WORKING_USER = root\nWORKING_GROUP = root\nDATA_PATH = {}\n\
                     HDD_CONF_FILENAME = {}\nMASTER_HOST = {ADDRESS}\nMASTER_PORT = 39411\n\
                     CSSERV_LISTEN_HOST = {ADDRESS}\nCSSERV_LISTEN_PORT = {}\n",
                    self.path(&name).display(),
                    disks.display(),
                    39420 + index
                ),
            )?;
            quiet(
                network
                    .command("mfschunkserver")
                    .arg("-c")
                    .arg(config)
                    .arg("start"),
            )?;
        }
        // The master takes chunk servers in once a second.
        std::thread::sleep(Duration::from_secs(3));
        quiet(
            network
                .command("mfsmount")
                .args(["-c", "/dev/null", "-H", ADDRESS, "-P", "39412"])
                .arg(&self.mount),
        )?;
        quiet(
            // It asks the master, whose address only this network knows.
            network
                .command("mfssetgoal")
                .args(["-r", "2"])
                .arg(&self.mount),
        )?;
        std::thread::sleep(Duration::from_secs(3));
        self.network = Some(network);
        self.processes = vec!["mfsmaster", "mfschunkserver", "mfsmount"];
        Ok(())
    }

    fn gluster(&mut self) -> Outcome {
        install(&["glusterfs-server", "glusterfs-client", "attr"])?;
        let network = Network::new()?;
        let (work, run) = (self.path("work"), self.path("run"));
        for directory in [&work, &run] {
            fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        }
        let socket = self.path("socket");
        let volfile = self.file(
            "glusterd.vol",
            &format!(
                "volume management\n  type mgmt/glusterd\n  option working-directory {}\n  \
                 option run-directory {}\n  option glusterd-sockfile {}\n  \
                 option transport-type socket\n  option transport.socket.bind-address {ADDRESS}\n  \
                 option transport.address-family inet\nend-volume\n",
                work.display(),
                run.display(),
                socket.display()
            ),
        )?;
        quiet(
            network
                .command("glusterd")
                .arg("-f")
                .arg(volfile)
                .arg("-l")
                .arg(self.path("log")),
        )?;
        let gluster = || {
            let mut command = network.command("gluster");
            command
                .arg("--mode=script")
                .arg(format!("--glusterd-sock={}", socket.display()));
            command
        };
        let end = Instant::now() + PATIENCE;
        while quiet(gluster().args(["volume", "list"])).is_err() {
            if Instant::now() > end {
                return Err("glusterd did not answer".into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut create = gluster();
        create.args(["volume", "create", "bench", "replica", "2"]);
        for index in 1..=4 {
            let brick = self.path(&format!("brick{index}"));
            fs::create_dir(&brick).map_err(|error| error.to_string())?;
            create.arg(format!("{ADDRESS}:{}", brick.display()));
        }
        quiet(create.arg("force"))?;
        quiet(gluster().args(["volume", "start", "bench"]))?;
        std::thread::sleep(Duration::from_secs(2));
        quiet(
            network
                .command("glusterfs")
                .arg(format!("--volfile-server={ADDRESS}"))
                .arg("--volfile-id=bench")
                .arg(&self.mount),
        )?;
        self.network = Some(network);
        self.processes = vec!["glusterd", "glusterfsd", "glusterfs", "glfs_glusterfsd"];
        Ok(())
    }
}

fn background(command: &mut Command, log: &Path) -> Result<Child, String> {
    let shown = format!("{:?}", command.get_program());
    let file = fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let again = file.try_clone().map_err(|error| error.to_string())?;
    command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(again)
        .spawn()
        .map_err(|error| format!("{shown}: {error}"))
}

/// Installs what is missing of Debian's packages. As root.
///
/// # Errors
/// What could not be installed, as the system says it.
pub fn install(packages: &[&str]) -> Outcome {
    let installed = |package: &&&str| quiet(Command::new("dpkg").args(["-s", package])).is_ok();
    let missing: Vec<&&str> = packages
        .iter()
        .filter(|package| !installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    quiet(Command::new("apt-get").arg("update"))?;
    quiet(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "--no-install-recommends"])
            .args(missing),
    )
}

/// Builds libfuse's high-performance passthrough from Debian's source package, once.
fn build_passthrough() -> Result<PathBuf, String> {
    let directory = root().join("target/passthrough");
    let program = directory.join("passthrough_hp");
    if program.exists() {
        return Ok(program);
    }
    install(&["libfuse3-dev", "g++", "pkg-config", "dpkg-dev"])?;
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    // Source packages from where the binary ones come, in lists of our own.
    let script = "set -eu; cd \"$1\"; mkdir -p lists/partial; \
        if [ -f /etc/apt/sources.list.d/debian.sources ]; then \
          sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources > s.sources; S=s.sources; \
        else sed 's/^deb /deb-src /' /etc/apt/sources.list > s.list; S=s.list; fi; \
        A=\"-o Dir::Etc::sourcelist=$1/$S -o Dir::Etc::sourceparts=- -o Dir::State::lists=$1/lists\"; \
        apt-get $A update; apt-get $A source --download-only fuse3; tar xf fuse3_*.orig.tar.?z; \
        cd fuse-3*/example; \
        g++ -O2 -std=c++17 -DHAVE_LIBC_VERSIONED_SYMBOLS=1 -DHAVE_UTIMENSAT=1 -DHAVE_SETXATTR=1 \
          -DHAVE_STRUCT_STAT_ST_ATIM=1 -DHAVE_POSIX_FALLOCATE=1 -DHAVE_FDATASYNC=1 -I.. \
          $(pkg-config --cflags fuse3) passthrough_hp.cc -o \"$1/passthrough_hp\" $(pkg-config --libs fuse3)";
    quiet(
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg("sh")
            .arg(&directory),
    )?;
    Ok(program)
}

fn mounted(path: &Path) -> bool {
    let Ok(mounts) = fs::read_to_string("/proc/self/mounts") else {
        return false;
    };
    let path = path.to_string_lossy();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(path.as_ref()))
}

/// What has to be there before anything is measured.
///
/// # Errors
/// In words.
pub fn prepare() -> Outcome {
    if !has("nsenter", "--version") || !has("ip", "-V") {
        install(&["util-linux", "iproute2"])?;
    }
    install(&["fuse3"])
}
