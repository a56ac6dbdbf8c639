//! NFS-Ganesha over a directory, as users of other file systems export them today: over the cluster's mount.
//!
//! It registers with a port mapper and would find the machine's own, so both run in name spaces of their own: what is
//! inside cannot be reached from outside but by a thread that enters.

use super::links::patiently;
use super::nfs::Export;
use super::writers::with_client;
use crate::run::{Outcome, has};
use crate::spaces;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Where it listens, in its own name space.
const NFS_PORT: u16 = 2049;
const MOUNT_PORT: u16 = 20048;
/// What does not end by then after SIGTERM are killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of its log that are shown if it does not serve.
const SHOWN_LINES: usize = 10;

/// Why it is left out; None if it can be started.
pub fn left_out() -> Option<&'static str> {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("it takes root");
    }
    let has_mapper = ["/sbin/rpcbind", "/usr/sbin/rpcbind"];
    let has_mapper = has_mapper.iter().any(|path| Path::new(path).exists());
    if !has("ganesha.nfsd", "-v") || !has_mapper {
        return Some("install it: apt-get install nfs-ganesha nfs-ganesha-vfs rpcbind");
    }
    None
}

/// A server; it ends when dropped.
pub struct Ganesha {
    space: String,
    child: Child,
    /// The directory that it exports.
    path: String,
    _home: tempfile::TempDir,
}

impl Ganesha {
    /// Starts one over a directory and waits until it serves.
    ///
    /// # Errors
    /// In words, with what it wrote to its log.
    pub fn over(directory: &Path) -> Result<Ganesha, String> {
        let io = |error: std::io::Error| format!("a directory for NFS-Ganesha: {error}");
        let home = tempfile::Builder::new().prefix("weft-ganesha-").tempdir();
        let home = home.map_err(io)?;
        let path = directory.to_string_lossy().into_owned();
        let config = home.path().join("ganesha.conf");
        fs::write(&config, settings(&path, home.path())).map_err(io)?;
        fs::create_dir(home.path().join("state")).map_err(io)?;
        let space = format!("weft-ganesha-{}", std::process::id());
        spaces::add(&space)?;
        let started = spaces::command(&space, "unshare")
            .args(["--mount", "sh", "-c", SCRIPT, "sh"])
            .arg(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                spaces::remove(&[space], Duration::ZERO)?;
                return Err(format!("cannot start unshare: {error}"));
            }
        };
        let ganesha = Ganesha {
            space,
            child,
            path,
            _home: home,
        };
        let export = ganesha.export();
        let serves = || with_client(&export, async |client| client.getattr(&client.root).await);
        match patiently(serves) {
            Ok(_) => Ok(ganesha),
            Err(why) => Err(format!("NFS-Ganesha: {why}\n{}", ganesha.last_words())),
        }
    }

    /// What it serves.
    pub fn export(&self) -> Export {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Export {
            nfs: at(NFS_PORT),
            mount: at(MOUNT_PORT),
            path: self.path.clone(),
            space: Some(self.space.clone()),
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self._home.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// Ends it: nothing of it holds the directory any more.
    ///
    /// # Errors
    /// If it stays.
    pub fn stop(mut self) -> Outcome {
        self.end()
    }

    fn end(&mut self) -> Outcome {
        if self.space.is_empty() {
            return Ok(());
        }
        let space = std::mem::take(&mut self.space);
        let removed = spaces::remove(&[space], END_PATIENCE);
        // All in the name space has been killed.
        let _: std::io::Result<_> = self.child.wait();
        removed
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        if let Err(why) = self.end() {
            eprintln!("{why}");
        }
    }
}

/// A port mapper, and then Ganesha, with a `/run` of their own. Both write there, and look there for others.
const SCRIPT: &str = "set -e; home=$1; mount -t tmpfs tmpfs /run; mkdir -p /run/ganesha /run/rpcbind /run/sendsigs.omit.d; \
    PATH=$PATH:/usr/sbin:/sbin; rpcbind -f -w & \
    for try in 1 2 3 4 5 6 7 8 9 10; do [ -S /run/rpcbind.sock ] && break; sleep 0.2; done; \
    exec ganesha.nfsd -F -f $home/ganesha.conf -L $home/log -p /run/ganesha/pid";

fn settings(path: &str, home: &Path) -> String {
    let state = home.join("state");
    let state = state.display();
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3,4; NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT}; \
         Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; RecoveryRoot = \"{state}\"; }}\n\
         EXPORT {{ Export_Id = 7; Path = \"{path}\"; Pseudo = \"/export\"; Access_Type = RW; \
         Squash = No_root_squash; SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n"
    )
}
