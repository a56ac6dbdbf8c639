//! Mounting and unmounting: by the system call for root, by fusermount3 for everybody else.
//!
//! Called by `run.rs`. Blocks: unmounting waits until the mount has answered, so it never runs on
//! the client's thread.

use crate::settings::Options;
use crate::{occupied, refused, table};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What mounts show as their type: `fuse.weft`.
const SUBTYPE: &str = "weft";

/// Bytes that the kernel reads ahead of a sequential reader, in KiB: enough to keep both members of
/// several pairs busy. Its default of 128 KiB is smaller than one stripe unit.
const READ_AHEAD_KIB: u32 = 4096;

/// A file system in the tree. Unmounted when told, not when dropped.
#[derive(Clone, Debug)]
pub struct Mountpoint {
    path: PathBuf,
    by_root: bool,
}

impl Mountpoint {
    /// Mounts. The descriptor does not block.
    ///
    /// # Errors
    /// As the system call's, or what fusermount3 said.
    pub fn mount(path: &Path, options: &Options) -> io::Result<(Mountpoint, OwnedFd)> {
        occupied::make_room(path)?;
        // What unmounting and /proc name: the mount stays itself if the working directory changes.
        let path = std::fs::canonicalize(path)?;
        if let Some(names) = occupied::hidden(&path) {
            tracing::warn!(
                path = %path.display(),
                "the directory is not empty: {names} cannot be seen in it while this is mounted"
            );
        }
        let by_root = is_root();
        let fd = if by_root {
            mount_directly(&path, options)?
        } else {
            mount_by_helper(&path, options)?
        };
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok((Mountpoint { path, by_root }, fd))
    }

    /// What a process that is gone has left.
    pub(crate) fn left_at(path: &Path) -> Mountpoint {
        Mountpoint {
            path: path.to_owned(),
            by_root: is_root(),
        }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts. `lazy`: takes it out of the tree though files are open; they go on until closed.
    ///
    /// # Errors
    /// EBUSY if files are open and it is not to be lazy; EINVAL if it is not mounted any more.
    pub fn unmount(&self, lazy: bool) -> io::Result<()> {
        if self.by_root {
            let flags = if lazy {
                UnmountFlags::DETACH | UnmountFlags::NOFOLLOW
            } else {
                UnmountFlags::NOFOLLOW
            };
            return Ok(rustix::mount::unmount(&self.path, flags)?);
        }
        let mut command = Command::new("fusermount3");
        command.arg("-u").arg("-q");
        if lazy {
            command.arg("-z");
        }
        let status = command.arg("--").arg(&self.path).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("fusermount3 -u: {status}")))
        }
    }

    /// Lets the kernel read further ahead than it does by default.
    ///
    /// # Errors
    /// If it does not let us; nothing depends on it but speed.
    pub fn raise_read_ahead(&self) -> io::Result<()> {
        let device = self.device_number()?;
        let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
        write_setting(&file, &READ_AHEAD_KIB.to_string())
    }

    /// `major:minor` as the kernel writes it, from the table of mounts: asking the mount itself
    /// would wait for the thread that asks.
    fn device_number(&self) -> io::Result<String> {
        let mount = table::at(&self.path);
        Ok(mount.ok_or(io::ErrorKind::NotFound)?.device)
    }
}

/// The kernel's device, which this process must be able to open however it mounts.
///
/// # Errors
/// What is in the way, and what to do.
pub fn open_device() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(refused::DEVICE, flags, Mode::empty()).map_err(refused::by_device)
}

fn mount_directly(path: &Path, options: &Options) -> io::Result<OwnedFd> {
    let kind = rustix::fs::stat(path)?.st_mode & libc::S_IFMT;
    if kind != libc::S_IFDIR {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let device = open_device()?;
    let mut data = format!(
        "fd={},rootmode={kind:o},user_id=0,group_id=0,max_read={}",
        device.as_raw_fd(),
        crate::device::DATA_MAX
    );
    for option in shared_options(options) {
        data.push(',');
        data.push_str(option);
    }
    let mut flags = MountFlags::empty();
    for (is_set, flag) in [
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
        (options.noexec, MountFlags::NOEXEC),
        (options.noatime, MountFlags::NOATIME),
        (options.read_only, MountFlags::RDONLY),
    ] {
        flags.set(flag, is_set);
    }
    let data = CString::new(data)?;
    let kind = format!("fuse.{SUBTYPE}");
    rustix::mount::mount(options.source.as_str(), path, kind, flags, Some(&*data))
        .map_err(refused::by_call)?;
    Ok(device)
}

/// Options that the kernel and the helper call the same.
fn shared_options(options: &Options) -> Vec<&'static str> {
    let mut all = vec!["default_permissions"];
    if options.allow_other.unwrap_or(is_root()) {
        all.push("allow_other");
    }
    all
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// As fusermount3 takes a value in its list of options.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// fusermount3 opens the device, mounts it and sends the descriptor over a socket.
fn mount_by_helper(path: &Path, options: &Options) -> io::Result<OwnedFd> {
    // The helper opens it as this user: what is in the way is better said here.
    drop(open_device()?);
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::empty(),
        None,
    )?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    let mut list: Vec<String> = shared_options(options)
        .into_iter()
        .map(String::from)
        .collect();
    list.push(format!("fsname={}", escaped(&options.source)));
    list.push(format!("subtype={SUBTYPE}"));
    list.push(format!("max_read={}", crate::device::DATA_MAX));
    for (is_set, name) in [
        (options.noexec, "noexec"),
        (options.noatime, "noatime"),
        (options.read_only, "ro"),
    ] {
        if is_set {
            list.push(name.into());
        }
    }
    let output = Command::new("fusermount3")
        .arg("-o")
        .arg(list.join(","))
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .output()
        .map_err(refused::by_start)?;
    drop(theirs);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(refused::by_helper(&said, output.status));
    }
    receive_fd(ours.as_fd())
}

fn receive_fd(socket: std::os::fd::BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::other("fusermount3 sent no descriptor"))
}

/// A file of the kernel's own: beside weft-env like the mount itself.
#[allow(clippy::disallowed_methods)]
fn write_setting(path: &str, value: &str) -> io::Result<()> {
    std::fs::write(path, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_does_not_end_the_source() {
        assert_eq!(escaped("weft:x@a:1,b\\:2"), "weft:x@a:1\\,b\\\\:2");
    }
}
