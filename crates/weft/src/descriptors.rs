//! How many files this process may have open.
//!
//! Every connection, and every object that a data server keeps open, is one. Systems give a process a low bound
//! (for programs that use select(2)) that it may raise by itself up to a high one: all of Weft does so as it
//! starts. What remains, caches are bounded by (`weft_env::Env::files_max`).

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A server, a mount or a gateway does not start with less. A data server has 32 connections to its twin, some to
/// each replica group, a dozen files of its own, and keeps half of what it may open for objects; what is left is one
/// for each client.
pub const FILES_MIN: u64 = 256;
/// No more is asked for, though a system may allow a thousand times that: a million clients are not on one server.
const FILES_WANTED: u64 = 1 << 20;

/// Raises the bound as far as this process may.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(FILES_WANTED).min(FILES_WANTED);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(wanted, %error, "the bound on open files stays as it was");
    }
}

/// # Errors
/// What serves could not have open what it needs.
pub fn suffice() -> Result<()> {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FILES_MIN => Err(Error::Failed(format!(
            "this process may have {files} files open, and needs {FILES_MIN} at least: raise the hard limit \
             (LimitNOFILE= in its systemd unit, or `ulimit -Hn`)"
        ))),
        _ => Ok(()),
    }
}
