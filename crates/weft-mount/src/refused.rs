//! What FUSE refuses, in words that say what to do: the kernel's device, the system call, fusermount3.

use rustix::io::Errno;
use std::io;

/// The kernel's FUSE device.
pub const DEVICE: &str = "/dev/fuse";

const NO_FUSE: &str = "load the kernel's module (modprobe fuse); in a container give it the device and the right to mount \
                       (--device /dev/fuse --cap-add SYS_ADMIN)";

/// [`DEVICE`] could not be opened.
pub fn by_device(errno: Errno) -> io::Error {
    let why = match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            format!("this machine has no {DEVICE}: {NO_FUSE}")
        }
        Errno::ACCESS | Errno::PERM => format!(
            "{DEVICE} is not open to this user ({errno}): it is usually open to all (chmod 666 {DEVICE}, as root); where a \
             group has it, be in that group; in a container allow the device (--device {DEVICE})"
        ),
        _ => format!("{DEVICE} cannot be opened: {errno}"),
    };
    io::Error::other(why)
}

/// The system call did not mount.
pub fn by_call(errno: Errno) -> io::Error {
    let why = match errno {
        Errno::PERM | Errno::ACCESS => {
            "root of this container may not mount (it lacks CAP_SYS_ADMIN): start it with --cap-add SYS_ADMIN".to_owned()
        }
        Errno::NODEV => format!("the kernel knows no FUSE: {NO_FUSE}"),
        _ => return errno.into(),
    };
    io::Error::new(io::Error::from(errno).kind(), format!("{why} ({errno})"))
}

/// fusermount3 could not be started.
pub fn by_start(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(
            "fusermount3 is not installed (Debian: apt-get install fuse3); only root mounts without it",
        ),
        _ => io::Error::other(format!("fusermount3 cannot be started: {error}")),
    }
}

/// What fusermount3 says, and what to do about it.
const ADVICE: &[(&str, &str)] = &[
    (
        "user_allow_other",
        "root has to write that line into /etc/fuse.conf; or leave allow_other out, and only you see the mount",
    ),
    (
        "has no write access to mountpoint",
        "who mounts must be able to write in the directory: take one of your own",
    ),
    (
        "mounting over filesystem type",
        "this file system takes no mounts of users: take a directory on another one, or mount as root",
    ),
    (
        "too many FUSE filesystems mounted",
        "raise mount_max in /etc/fuse.conf",
    ),
    (
        "Operation not permitted",
        "fusermount3 must belong to root and have its set-user-id bit (chmod u+s, as root), on a file system that is not \
         mounted nosuid; in a container --cap-add SYS_ADMIN",
    ),
];

/// fusermount3 ended without mounting, and said this. It names itself in it.
pub fn by_helper(said: &str, status: std::process::ExitStatus) -> io::Error {
    let said = said.trim();
    if said.is_empty() {
        return io::Error::other(format!("fusermount3 ended with {status}, without a word"));
    }
    let advice = ADVICE.iter().find(|(part, _)| said.contains(part));
    io::Error::other(match advice {
        Some((_, what)) => format!("{said}: {what}"),
        None => said.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_refusal_says_what_to_do() {
        let failed = std::process::ExitStatus::from_raw(256);
        for (refused, what) in [
            (by_device(Errno::NOENT), "modprobe fuse"),
            (by_device(Errno::ACCESS), "chmod 666 /dev/fuse"),
            (by_device(Errno::MFILE), "cannot be opened"),
            (by_call(Errno::PERM), "--cap-add SYS_ADMIN"),
            (by_call(Errno::NODEV), "modprobe fuse"),
            (
                by_start(io::ErrorKind::NotFound.into()),
                "apt-get install fuse3",
            ),
            (
                by_helper(
                    "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n",
                    failed,
                ),
                "leave allow_other out",
            ),
            (
                by_helper(
                    "fusermount3: user has no write access to mountpoint /mnt",
                    failed,
                ),
                "one of your own",
            ),
            (
                by_helper("fusermount3: mount failed: Operation not permitted", failed),
                "set-user-id bit",
            ),
            (by_helper("", failed), "without a word"),
            (
                by_helper("fusermount3: something else", failed),
                "something else",
            ),
        ] {
            let said = refused.to_string();
            assert!(said.contains(what), "{said}");
        }
    }
}
