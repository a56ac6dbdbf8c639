//! Settings of a mount, as they stand in a configuration file.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weft_env::Address;

/// Settings of a mount. `mountpoint` has no default that makes sense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The directory to mount on.
    pub mountpoint: PathBuf,
    /// Address (`host:port`) for the metrics page; empty: none.
    pub metrics_listen: String,
    /// How it is mounted.
    pub options: Options,
    /// The client behind it.
    pub client: weft_client::Settings,
}

/// How it is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What the table of mounts shows as the device.
    pub source: String,
    /// Let others than the user who mounts in. By default so if that is root; others need
    /// `user_allow_other` in /etc/fuse.conf.
    pub allow_other: Option<bool>,
    /// Honour set-id bits of programs on the mount (root only).
    pub suid: bool,
    /// Honour device nodes on the mount (root only).
    pub dev: bool,
    /// Run no programs from the mount.
    pub noexec: bool,
    /// Never change access times.
    pub noatime: bool,
    /// Show inode numbers and positions in directories that 32 bits hold, for programs that were built without large
    /// file support. Two files can then show the same number.
    pub inode32: bool,
    /// Refuse all changes.
    pub read_only: bool,
    /// How long the kernel may keep what a lease covers, in seconds. Revocation invalidates in any
    /// case; smaller values only cost messages.
    pub kernel_cache_seconds: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            source: "weft".into(),
            allow_other: None,
            suid: false,
            dev: false,
            noexec: false,
            noatime: false,
            inode32: false,
            read_only: false,
            kernel_cache_seconds: 24 * 3600,
        }
    }
}

impl Settings {
    /// Refuses what cannot work, as mounting does before anything else.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn check(&self) -> Result<(), String> {
        if self.mountpoint.as_os_str().is_empty() {
            return Err("mountpoint is not set: the directory to mount on".into());
        }
        if !self.metrics_listen.is_empty() {
            Address::to_listen(&self.metrics_listen)
                .map_err(|why| format!("metrics_listen: {why}"))?;
        }
        self.client.check().map_err(|why| format!("client: {why}"))
    }
}
