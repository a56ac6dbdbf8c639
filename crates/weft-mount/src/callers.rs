//! What the machine says of a thread that asks, and the request does not.
//!
//! FUSE tells user and group of the caller but not the other groups. The kernel's own check (mount
//! option `default_permissions`) knows them; the metadata server must be told. They are read only
//! after a denial, since few accesses depend on them and reading costs more than the operation.
//! Nor does it tell for which system call a name is looked up; that is asked only when two answers
//! are possible, of which one is wrong for a rename and the other for everything else (`aliases.rs`).
//!
//! Reads `/proc` of the machine that the kernel mount is on, which no simulation has: the one
//! place of this crate that opens a file by itself.

/// The system calls that rename, by number, where we know them.
#[cfg(target_arch = "x86_64")]
const RENAMES: &[libc::c_long] = &[libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
#[cfg(target_arch = "aarch64")]
const RENAMES: &[libc::c_long] = &[libc::SYS_renameat, libc::SYS_renameat2];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const RENAMES: &[libc::c_long] = &[libc::SYS_renameat2];

/// The groups of a thread; empty if it is gone or not visible.
#[allow(clippy::disallowed_methods)]
pub fn groups_of(thread: u32) -> Vec<u32> {
    match std::fs::read(format!("/proc/{thread}/status")) {
        Ok(status) => parse_groups(&status),
        Err(_) => Vec::new(),
    }
}

/// A thread that waits for an answer waits in a system call that renames. None if that is not to be seen: another user's
/// thread may be hidden from us, and so is what a ring (io_uring) does for one.
#[allow(clippy::disallowed_methods)]
pub fn is_renaming(thread: u32) -> Option<bool> {
    is_rename(&std::fs::read(format!("/proc/{thread}/syscall")).ok()?)
}

/// Looks at the number that a file `syscall` begins with (proc(5)); none while the thread runs, and a negative one of a
/// thread that is in no system call. Programs of 32 bits have other numbers: those that ours are there look up no name.
fn is_rename(call: &[u8]) -> Option<bool> {
    let number = call.split(|&byte| byte == b' ').next()?;
    let number: libc::c_long = std::str::from_utf8(number).ok()?.parse().ok()?;
    (number >= 0).then(|| RENAMES.contains(&number))
}

/// Finds the line `Groups:` of a status file.
fn parse_groups(status: &[u8]) -> Vec<u32> {
    let line = status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Groups:"));
    let Some(Ok(line)) = line.map(std::str::from_utf8) else {
        return Vec::new();
    };
    line.split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_among_the_lines() {
        let status = b"Name:\tcat\nUid:\t1\t1\t1\t1\nGroups:\t4 24 100 \nNStgid:\t1\n";
        assert_eq!(parse_groups(status), [4, 24, 100]);
        assert_eq!(parse_groups(b"Groups:\t \n"), [0u32; 0]);
        assert_eq!(parse_groups(b""), [0u32; 0]);
    }

    #[test]
    fn a_thread_that_is_gone_has_none() {
        assert!(groups_of(0).is_empty());
        assert!(groups_of(u32::MAX).is_empty());
        assert_eq!(is_renaming(0), None);
        assert_eq!(is_renaming(u32::MAX), None);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_thread_renames_if_its_system_call_does() {
        let call =
            |number: libc::c_long| format!("{number} 0x7ffd2 0x7ffd8 0x0 0x0 0x0 0x0 0x7 0x7f\n");
        for (number, renames) in [
            (libc::SYS_renameat2, true),
            (libc::SYS_openat, false),
            (libc::SYS_linkat, false),
        ] {
            assert_eq!(
                is_rename(call(number).as_bytes()),
                Some(renames),
                "{number}"
            );
        }
        for other in ["running\n", "-1 0x0 0x0\n", "", " ", "\n"] {
            assert_eq!(is_rename(other.as_bytes()), None, "{other:?}");
        }
        // The one that asks reads meanwhile: `thread-self` is no number, and means just it.
        let own = std::fs::read("/proc/thread-self/syscall").unwrap();
        assert_eq!(is_rename(&own), Some(false));
    }
}
