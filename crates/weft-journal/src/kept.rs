//! Images that are kept for checkpoints: like any other, but that they go by the checkpoint's number, and stay
//! until somebody says that they are not needed.

use crate::JournalError;
use crate::files::{listed, number};
use crate::image::UNFINISHED;
use std::path::{Path, PathBuf};
use weft_env::Env;

const PREFIX: &str = "checkpoint-";

/// Where the image that is kept for this checkpoint is.
pub fn kept_path(dir: &Path, checkpoint: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{checkpoint:020}"))
}

/// The number of each checkpoint that an image is kept for, ascending.
///
/// # Errors
/// If the directory cannot be listed.
pub fn kept(env: &Env, dir: &Path) -> Result<Vec<u64>, JournalError> {
    let names = listed(env, dir)?;
    let names = names
        .iter()
        .filter_map(|name| number(name.strip_prefix(PREFIX)?));
    let mut found: Vec<u64> = names.map(|number| number.0).collect();
    found.sort_unstable();
    Ok(found)
}

/// Removes the image that is kept for a checkpoint, or what there is of one that was not finished.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_kept(env: &Env, dir: &Path, checkpoint: u64) -> Result<(), JournalError> {
    let path = kept_path(dir, checkpoint);
    let mut unfinished = path.clone().into_os_string();
    unfinished.push(UNFINISHED);
    for path in [path, unfinished.into()] {
        match env.remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(JournalError::io(&path, "removing it", error));
            }
            _ => {}
        }
    }
    Ok(())
}
