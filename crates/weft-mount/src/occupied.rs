//! What is at a mount point before anything is mounted there: a mount whose process is gone, which is taken away; one that
//! lives, which is not covered; files, which would be hidden.

use crate::mountpoint::Mountpoint;
use crate::table::{self, Mount};
use rustix::fs::{AtFlags, StatxFlags};
use std::io;
use std::path::{Path, PathBuf};

/// So many names of what is hidden are said.
const NAMES_SHOWN: usize = 3;
/// No more entries of a directory are counted.
const COUNTED: usize = 1_000;

/// Takes away what dead mounts of Weft's have left at a mount point.
///
/// # Errors
/// If Weft is mounted there and lives, if a dead mount is not Weft's, or if the system does not let it be taken away: what
/// to do.
pub fn make_room(path: &Path) -> io::Result<()> {
    let point = resolved(path);
    // Each time one is less there, or it ends.
    while let Some(mount) = table::at(&point) {
        let shown = point.display();
        if !is_dead(&point) {
            return match mount.is_weft() {
                true => Err(io::Error::other(format!(
                    "Weft is mounted there already ({}): unmount it first (umount {shown}), or mount on another directory",
                    mount.source
                ))),
                // As everywhere: what is mounted last is seen.
                false => Ok(()),
            };
        }
        take_away(&mount, &point)?;
    }
    Ok(())
}

fn take_away(mount: &Mount, point: &Path) -> io::Result<()> {
    let shown = point.display();
    let by_hand =
        format!("umount -l {shown} as root, or fusermount3 -uz {shown} as who mounted it");
    if !mount.is_weft() {
        return Err(io::Error::other(format!(
            "a dead mount of {} ({}) is there, which is not Weft's: take it away with {by_hand}",
            mount.source, mount.kind
        )));
    }
    tracing::info!(path = %shown, source = mount.source, "taking away a mount whose process is gone");
    let left = Mountpoint::left_at(point);
    left.unmount(true).map_err(|error| {
        io::Error::other(format!(
            "a mount whose process is gone is there, and cannot be taken away ({error}): {by_hand}"
        ))
    })
}

/// The process behind a FUSE mount on this path is gone. Asks the mount itself: a plain stat of a
/// dead one is answered from what the kernel keeps, for as long as it was told to.
pub fn is_dead(path: &Path) -> bool {
    let asked = rustix::fs::statx(
        rustix::fs::CWD,
        path,
        AtFlags::STATX_FORCE_SYNC,
        StatxFlags::BASIC_STATS,
    );
    matches!(
        asked,
        Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED)
    )
}

/// As the table of mounts names it. A dead mount point cannot be resolved; its parent can.
#[allow(clippy::disallowed_methods)]
fn resolved(path: &Path) -> PathBuf {
    if let Ok(resolved) = std::fs::canonicalize(path) {
        return resolved;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    std::fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
}

/// What a mount on this directory would hide, in words. None: nothing, or it cannot be read.
#[allow(clippy::disallowed_methods)]
pub fn hidden(path: &Path) -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .ok()?
        .take(COUNTED)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let shown: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN)
        .map(|name| format!("{name:?}"))
        .collect();
    let shown = shown.join(", ");
    match names.len() {
        0 => None,
        few if few <= NAMES_SHOWN => Some(shown),
        COUNTED => Some(format!(
            "{shown} and {} or more others",
            COUNTED - NAMES_SHOWN
        )),
        many => Some(format!("{shown} and {} more", many - NAMES_SHOWN)),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_named() {
        let base = std::env::temp_dir().join(format!("weft-hidden-{}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        let mut said = vec![hidden(&base)];
        for name in ["b", "a", "c", "d", "e"] {
            std::fs::write(base.join(name), name).unwrap();
            said.push(hidden(&base));
        }
        std::fs::remove_dir_all(&base).unwrap();
        let said: Vec<Option<&str>> = said.iter().map(Option::as_deref).collect();
        assert_eq!(
            said,
            [
                None,
                Some("\"b\""),
                Some("\"a\", \"b\""),
                Some("\"a\", \"b\", \"c\""),
                Some("\"a\", \"b\", \"c\" and 1 more"),
                Some("\"a\", \"b\", \"c\" and 2 more"),
            ]
        );
        assert_eq!(hidden(&base), None);
    }

    #[test]
    fn where_nothing_is_mounted_there_is_room() {
        make_room(Path::new("/no/such/place")).unwrap();
        // A mount of another kind that lives: it may be covered.
        make_room(Path::new("/proc")).unwrap();
    }
}
