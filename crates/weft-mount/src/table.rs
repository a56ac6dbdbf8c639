//! What is mounted on this machine, as the kernel's table says it (`/proc/self/mountinfo`). Nothing that is mounted is asked
//! itself: a mount whose process hangs would not answer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub point: PathBuf,
    /// File system type.
    pub kind: String,
    /// What.
    pub source: String,
    /// The number of its device, `major:minor`.
    pub device: String,
}

impl Mount {
    /// True for a mount of Weft's.
    pub fn is_weft(&self) -> bool {
        self.kind == "fuse.weft" || (self.kind == "fuse" && self.source.starts_with("weft:"))
    }

    /// Addresses of the metadata servers, from the source: `weft:CLUSTER@ADDRESS,ADDRESS`.
    pub fn meta_addresses(&self) -> Vec<String> {
        self.source
            .strip_prefix("weft:")
            .and_then(|rest| rest.split_once('@'))
            .map(|(_, addresses)| addresses.split(',').map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// The minor number of its device, by which the kernel names a FUSE connection.
    pub fn minor(&self) -> &str {
        self.device.split_once(':').map_or("", |(_, minor)| minor)
    }
}

/// All mounts that this process sees; of those on one point the last one is visible.
pub fn all() -> Vec<Mount> {
    // Without /proc nothing is known to be mounted.
    read().map_or_else(|_| Vec::new(), |text| parse(&text))
}

/// The visible mount on a point, which is absolute and has no symbolic links.
pub fn at(point: &Path) -> Option<Mount> {
    all().into_iter().rfind(|mount| mount.point == point)
}

/// A file of the kernel's own: beside weft-env like the mount itself.
#[allow(clippy::disallowed_methods)]
fn read() -> std::io::Result<Vec<u8>> {
    std::fs::read("/proc/self/mountinfo")
}

fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo
        .split(|&byte| byte == b'\n')
        .filter_map(|line| {
            // id parent major:minor root point options ... - type source options
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let dash = fields.iter().position(|field| field == b"-")?;
            let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
            Some(Mount {
                point: PathBuf::from(OsStr::from_bytes(&unescape(fields.get(4)?))),
                kind: text(fields.get(dash + 1)?),
                source: text(&unescape(fields.get(dash + 2)?)),
                device: text(fields.get(2)?),
            })
        })
        .collect()
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'\\'
            && let Some((digits, after)) = tail.split_first_chunk::<3>()
            && let Ok(text) = std::str::from_utf8(digits)
            && let Ok(byte) = u8::from_str_radix(text, 8)
        {
            plain.push(byte);
            rest = after;
        } else {
            plain.push(*first);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_understood() {
        let line =
            b"36 35 98:7 / /a\\040b rw,noatime shared:1 - fuse.weft weft:0a1b@127.0.0.1:1,h:2 rw\n";
        let [mount] = &parse(line)[..] else { panic!() };
        assert_eq!(mount.point, Path::new("/a b"));
        assert!(mount.is_weft());
        assert_eq!(mount.meta_addresses(), ["127.0.0.1:1", "h:2"]);
        assert_eq!((mount.device.as_str(), mount.minor()), ("98:7", "7"));
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        assert_eq!(parse(b"\n36 35 98:7\n36 35 98:7 / /a rw - ext4\n"), []);
    }

    #[test]
    fn a_backslash_that_begins_no_number_stays() {
        assert_eq!(unescape(b"a\\134b\\x"), b"a\\b\\x");
        assert_eq!(unescape(b"\\04"), b"\\04");
    }
}
