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
/// thread may be hidden from us, and what a ring (io_uring) does for one is done elsewhere.
#[allow(clippy::disallowed_methods)]
pub fn is_renaming(thread: u32) -> Option<bool> {
    is_rename(&std::fs::read(format!("/proc/{thread}/syscall")).ok()?)
}

/// Reads a file `syscall` (proc(5)): the number, six arguments, stack pointer and program counter. None while the thread
/// runs, and of one that is in no system call. None as well of what has other numbers than ours or no stack of a
/// program's: programs of 32 bits, whose stack is below 4 GiB, and threads that work for a ring, which show 0.
fn is_rename(call: &[u8]) -> Option<bool> {
    let call = std::str::from_utf8(call).ok()?;
    let mut fields = call.split_ascii_whitespace();
    let number: libc::c_long = fields.next()?.parse().ok()?;
    let stack = fields.nth(6)?.strip_prefix("0x")?;
    let stack = u64::from_str_radix(stack, 16).ok()?;
    let is_ours = number >= 0 && number != libc::SYS_io_uring_enter && stack > u32::MAX.into();
    is_ours.then(|| RENAMES.contains(&number))
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
        let call = |number: libc::c_long| {
            format!("{number} 0x7ffd2 0x7ffd8 0x0 0x0 0x0 0x0 0x7fffc03d4718 0x401000\n")
        };
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
        // rename(2) of a program of 32 bits, which is setitimer(2) for others; a thread that works for a ring.
        let narrow = "38 0x8048 0x8050 0x0 0x0 0x0 0x0 0xffd2a718 0xf7f0c549\n";
        let worker = "426 0x5 0x1 0x0 0x0 0x0 0x8 0x0 0x0\n";
        let ring = call(libc::SYS_io_uring_enter);
        for other in [narrow, worker, &ring, "0 0x1\n", "82 x y\n"] {
            assert_eq!(is_rename(other.as_bytes()), None, "{other:?}");
        }
        for other in ["running\n", "-1 0x0 0x0\n", "", " ", "\n"] {
            assert_eq!(is_rename(other.as_bytes()), None, "{other:?}");
        }
        // The one that asks reads meanwhile: `thread-self` is no number, and means just it.
        let own = std::fs::read("/proc/thread-self/syscall").unwrap();
        assert_eq!(is_rename(&own), Some(false));
    }
}
