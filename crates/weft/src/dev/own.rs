//! The directory of a development cluster is its user's own: somebody else's may hold links that lead elsewhere, and who
//! can write in it can kill the servers and wipe them.

use crate::error::{Error, Result, Tried};
use crate::log::tell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weft_env::private;

/// Makes it, if it is not there; otherwise looks whether it can be used, and closes it to others.
///
/// # Errors
/// [`Error::Usage`] if it is a symbolic link, no directory, or another user's.
pub fn make(directory: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(directory) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return private::create_dir_all(directory).tried_on("cannot make", directory);
        }
        Err(error) => return Err(error).tried_on("cannot look at", directory),
    };
    let refused = |why: String| {
        let place = directory.display();
        Err(Error::Usage(format!(
            "{place} {why}: choose another directory with --dir"
        )))
    };
    if found.is_symlink() {
        return refused("is a symbolic link, which somebody else may lead elsewhere".into());
    }
    if !found.is_dir() {
        return refused("is no directory".into());
    }
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return refused(format!("belongs to user {owner}, and this is user {user}"));
    }
    if private::close_dir(directory).tried_on("cannot close to others", directory)? {
        tell!(
            "weft dev: other users could read in {}: they cannot any more",
            directory.display()
        );
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_directory_of_ones_own_is_used() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("cluster");
        make(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        make(&directory).unwrap();
        let mode = directory.metadata().unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let why = |path: &Path| match make(path) {
            Err(Error::Usage(why)) => why,
            other => panic!("{other:?}"),
        };
        let link = base.path().join("link");
        symlink(&directory, &link).unwrap();
        assert!(why(&link).contains("symbolic link"));
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(why(&file).contains("no directory"));
        // Another user's, which only root can make for a test.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
            assert!(why(&directory).contains("belongs to user 65534"));
        }
    }
}
