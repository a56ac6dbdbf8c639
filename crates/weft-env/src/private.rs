//! What is made on a real machine's disks is for the user who runs Weft, and for nobody else, whatever the umask is.
//!
//! The one place where modes are decided: [`crate::real`] makes all files and directories of servers and clients by it,
//! and `weft dev` what it makes itself. Symbolic links are not followed at the name that is made or written: somebody
//! else may have put one there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What groups and others may not have of anything.
const OTHERS: u32 = 0o077;

/// To make a file, or to open one for writing. The caller says the rest.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Opens with [`options`] that say the rest; a symbolic link is told from other failures.
///
/// # Errors
/// As the operating system's.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::new(
                error.kind(),
                "it is a symbolic link, which is not followed here: put what it names in its place",
            ),
            _ => error,
        })
}

/// Writes a whole file, made or cut to nothing before.
///
/// # Errors
/// As the operating system's.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = options();
    options.write(true).create(true).truncate(true);
    let mut file = open(&options, path)?;
    close_file(&file)?;
    file.write_all(content)
}

/// Makes a directory and its parents; no error if it is there.
///
/// # Errors
/// As the operating system's.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Takes from others what they may have of an open file. It may have been made by an earlier version.
///
/// # Errors
/// As the operating system's.
pub fn close_file(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    match mode & OTHERS {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(mode & 0o7700)),
    }
}

/// Takes from others what they may have of a directory, and so of all below it. True: they had something.
///
/// # Errors
/// As the operating system's: most likely it is another user's.
pub fn close_dir(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = open(options.read(true).custom_flags(flags), path)?;
    let was_open = directory.metadata()?.mode() & OTHERS != 0;
    close_file(&directory)?;
    Ok(was_open)
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "acts on real files"
)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_its_users_alone_and_links_are_not_followed() {
        // SAFETY: it takes a plain number. Other tests of this program make nothing whose mode they look at.
        unsafe { libc::umask(0) };
        let base = std::env::temp_dir().join(format!("weft-private-{}", std::process::id()));
        let (dir, file) = (base.join("a/b"), base.join("a/b/f"));
        create_dir_all(&dir).unwrap();
        write(&file, b"one").unwrap();
        for made in [&base, &base.join("a"), &dir] {
            assert_eq!(mode(made), 0o700, "{}", made.display());
        }
        assert_eq!(mode(&file), 0o600);
        // What an earlier version has left open is closed.
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        write(&file, b"two").unwrap();
        assert_eq!(mode(&file), 0o600);
        std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        assert!(close_dir(&dir).unwrap());
        assert!(!close_dir(&dir).unwrap());
        assert_eq!(mode(&dir), 0o700);
        // Somebody else's links.
        symlink(&file, base.join("link")).unwrap();
        let refused = write(&base.join("link"), b"three").unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        symlink(&dir, base.join("link-dir")).unwrap();
        assert!(close_dir(&base.join("link-dir")).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        std::fs::remove_dir_all(&base).unwrap();
    }
}
