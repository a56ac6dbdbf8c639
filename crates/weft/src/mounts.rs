//! What is mounted on this machine, and which cluster a path belongs to.
//!
//! A Weft mount says in its source (first column of /proc/mounts) where its cluster is:
//! `weft:CLUSTER@ADDRESS,ADDRESS`. Tools that get a path find the metadata service by it.

use crate::error::{Error, Result, Tried};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
pub use weft_mount::table::{Mount, all};

fn absolute(path: &Path) -> PathBuf {
    // A dead mount point cannot be resolved; its parent can.
    path.canonicalize().unwrap_or_else(|_| beside(path))
}

/// As [`absolute`], without asking what is mounted there.
fn beside(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            parent
                .canonicalize()
                .map_or_else(|_| path.to_owned(), |parent| parent.join(name))
        }
        _ => path.to_owned(),
    }
}

/// True if Weft is mounted there.
pub fn is_mounted(point: &Path) -> bool {
    let point = absolute(point);
    all()
        .iter()
        .any(|mount| mount.point == point && mount.is_weft())
}

/// Ends the connection of a mount of Weft's whose process has been killed. One of its threads may wait in the kernel for
/// a page that only an answer of the process's own would free: it does not die before its connection does. Without
/// fusectl (`/sys/fs/fuse/connections`) there is no way to.
pub fn abort(point: &Path) {
    let at = beside(point);
    let mounted = all().into_iter().filter(|mount| mount.point == at);
    for mount in mounted.filter(Mount::is_weft) {
        // It is gone, which is as good.
        let control = format!("/sys/fs/fuse/connections/{}/abort", mount.minor());
        let _: std::io::Result<()> = std::fs::write(control, "1");
    }
}

/// Detaches what a mount whose process is gone has left on its mount point.
///
/// # Errors
/// If something else is mounted there, or the system refuses.
pub fn clear_dead(point: &Path) -> Result<()> {
    let at = absolute(point);
    while let Some(mount) = all().into_iter().rfind(|mount| mount.point == at) {
        if !mount.is_weft() {
            return Err(Error::Usage(format!(
                "{} is a mount point of {} ({}); choose another one with --mount",
                at.display(),
                mount.source,
                mount.kind
            )));
        }
        if !weft_mount::occupied::is_dead(&at) {
            return Err(Error::Usage(format!(
                "Weft is mounted on {} already ({}); choose another mount point with --mount",
                at.display(),
                mount.source
            )));
        }
        if rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH).is_ok() {
            continue;
        }
        // Without the privilege, FUSE's own helper may.
        let helped = Command::new("fusermount3")
            .arg("-uz")
            .arg(&at)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .tried(|| "cannot start fusermount3 (Debian package fuse3)".into())?;
        if !helped.success() {
            return Err(Error::Failed(format!(
                "cannot unmount {}: try fusermount3 -uz {0}",
                at.display()
            )));
        }
    }
    Ok(())
}

/// The Weft mount that a path lies in, and the path from its root.
///
/// # Errors
/// If the path does not exist or lies elsewhere.
pub fn of_path(path: &Path) -> Result<(Mount, PathBuf)> {
    let resolved = path.canonicalize().tried_on("cannot find", path)?;
    let mount = all()
        .into_iter()
        .filter(|mount| resolved.starts_with(&mount.point))
        .enumerate()
        .max_by_key(|(order, mount)| (mount.point.as_os_str().len(), *order))
        .map(|(_, mount)| mount)
        .filter(Mount::is_weft)
        .ok_or_else(|| Error::Usage(format!("{} is not on a mount of Weft", path.display())))?;
    let inside = resolved
        .strip_prefix(&mount.point)
        .map(Path::to_owned)
        .unwrap_or_default();
    Ok((mount, inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_no_mount_of_ours() {
        assert!(of_path(Path::new("/")).is_err());
    }
}
