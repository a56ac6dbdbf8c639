//! Supplementary groups of a process that asks.
//!
//! FUSE tells user and group of the caller but not the other groups. The kernel's own check (mount
//! option `default_permissions`) knows them; the metadata server must be told. They are read only
//! after a denial, since few accesses depend on them and reading costs more than the operation.
//!
//! Reads `/proc` of the machine that the kernel mount is on, which no simulation has: the one
//! place of this crate that opens a file by itself.

/// The groups of a thread; empty if it is gone or not visible.
#[allow(clippy::disallowed_methods)]
pub fn of_thread(pid: u32) -> Vec<u32> {
    if pid == 0 {
        return Vec::new();
    }
    match std::fs::read(format!("/proc/{pid}/status")) {
        Ok(status) => parse(&status),
        Err(_) => Vec::new(),
    }
}

/// Finds the line `Groups:` of a status file.
fn parse(status: &[u8]) -> Vec<u32> {
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
        assert_eq!(parse(status), [4, 24, 100]);
        assert_eq!(parse(b"Groups:\t \n"), [0u32; 0]);
        assert_eq!(parse(b""), [0u32; 0]);
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert!(of_thread(0).is_empty());
        assert!(of_thread(u32::MAX).is_empty());
    }
}
