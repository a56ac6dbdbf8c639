//! Where inodes are, for people.

use crate::survey::{Ask, Survey};
use std::collections::{BTreeMap, BTreeSet};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{SurveyedName, SurveyedPlace};

/// Directories that a path has at most: twice as many as the longest that Linux takes.
const DEPTH_MAX: usize = 4_096;

/// The path of a directory from the root. None: it is not to be found, or is being moved.
///
/// # Errors
/// What a group answers that does not serve.
pub async fn path_of<A: Ask>(
    survey: &Survey<'_, A>,
    directory: Ino,
) -> Result<Option<Vec<u8>>, A::Error> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = directory;
    while at != ROOT_INO {
        if names.len() == DEPTH_MAX {
            return Ok(None);
        }
        let sight = survey.sights(&[at]).await?.pop().unwrap_or_default();
        let Some(inode) = sight.inode else {
            return Ok(None);
        };
        let place = SurveyedPlace {
            directory: inode.parent,
            ino: at.0,
            ..SurveyedPlace::default()
        };
        let entries = survey.entries(&[place]).await?.pop().unwrap_or_default();
        let Some(name) = entries.first else {
            return Ok(None);
        };
        // Shards of a spread directory are no part of a path (`docs/protocols/spread.md`).
        if !name.name.starts_with(b"/") {
            names.push(name.name.to_vec());
        }
        at = Ino(inode.parent);
    }
    names.reverse();
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend(name);
    }
    Ok(Some(path))
}

/// One entry of each of these inodes, as far as it is among the first `max` entries of its group.
///
/// # Errors
/// What a group answers that does not serve.
pub async fn find_names<A: Ask>(
    survey: &Survey<'_, A>,
    wanted: &BTreeSet<Ino>,
    max: u64,
) -> Result<BTreeMap<Ino, SurveyedName>, A::Error> {
    let mut found = BTreeMap::new();
    for group in survey.groups() {
        if found.len() == wanted.len() {
            break;
        }
        let each = |name: SurveyedName| {
            let ino = Ino(name.ino);
            if wanted.contains(&ino) {
                found.entry(ino).or_insert(name);
            }
        };
        survey.names_up_to(group, max, each).await?;
    }
    Ok(found)
}
