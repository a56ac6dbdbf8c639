//! Which files there are, their names and their first bytes.

use crate::JournalError;
use std::path::{Path, PathBuf};
use weft_env::Env;
use weft_types::{GroupId, Sn};

/// The version of segments that this build writes. It reads version 1 as well, which has no batches
/// that were written together, and version 2, which has no zeros after the batches.
const JOURNAL_VERSION: u32 = 3;
/// The version of images that this build writes. It reads no other.
const IMAGE_VERSION: u32 = 1;
/// First bytes of a segment.
pub(crate) const JOURNAL_MAGIC: &[u8; 8] = b"WEFTJRNL";
/// First bytes of an image.
pub(crate) const IMAGE_MAGIC: &[u8; 8] = b"WEFTIMAG";
/// Bytes of the header of either.
pub(crate) const HEADER_BYTES: usize = 104;
/// Longest cluster id, in bytes: what the header has room for.
const CLUSTER_ID_MAX: usize = 64;

/// Where the files of one metadata server are and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The server's directory. Segments are in `journal/` below it, images beside that.
    pub dir: PathBuf,
    /// At most 64 bytes.
    pub cluster_id: String,
    /// The replica group.
    pub group: GroupId,
}

/// When a batch counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncPolicy {
    /// Each change is written and flushed to the device by itself.
    Always,
    /// Changes that arrive together are flushed to the device together.
    #[default]
    Group,
    /// Written to the operating system, which flushes when it likes: survives the death of the process,
    /// not of the machine.
    Never,
}

/// The header of a segment or an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Segment: sn of the first batch. Image: sn of the last batch that is in it.
    pub sn: Sn,
    /// Image: epoch of that batch. Segment: 0.
    pub epoch: u64,
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// The oldest and the newest version of a kind of file that this build reads; it writes the newest.
fn versions(magic: &[u8; 8]) -> (u32, u32) {
    if magic == JOURNAL_MAGIC {
        (1, JOURNAL_VERSION)
    } else {
        (IMAGE_VERSION, IMAGE_VERSION)
    }
}

/// Why bytes are no header.
pub(crate) enum NoHeader {
    /// They are not as any version writes them.
    Damaged(String),
    /// They are another's.
    Foreign(String),
}

impl NoHeader {
    pub(crate) fn at(self, path: &Path) -> JournalError {
        match self {
            NoHeader::Foreign(what) => JournalError::Foreign {
                path: path.to_owned(),
                what,
            },
            NoHeader::Damaged(what) => JournalError::Corrupt {
                path: path.to_owned(),
                offset: 0,
                what,
                advice: "Put a good copy of the file in its place".into(),
            },
        }
    }
}

impl Header {
    pub(crate) fn encode(
        &self,
        magic: &[u8; 8],
        location: &Location,
    ) -> Result<Vec<u8>, JournalError> {
        let id = location.cluster_id.as_bytes();
        if id.len() > CLUSTER_ID_MAX {
            return Err(JournalError::Foreign {
                path: location.dir.clone(),
                what: format!(
                    "a cluster id has at most {CLUSTER_ID_MAX} bytes, not {}",
                    id.len()
                ),
            });
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(magic);
        bytes.extend_from_slice(&versions(magic).1.to_le_bytes());
        bytes.extend_from_slice(&location.group.0.to_le_bytes());
        bytes.extend_from_slice(&self.sn.0.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.push(id.len() as u8);
        bytes.extend_from_slice(id);
        bytes.resize(HEADER_BYTES - 4, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn decode(
        bytes: &[u8],
        magic: &[u8; 8],
        location: &Location,
    ) -> Result<Header, NoHeader> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != *magic {
            return Err(NoHeader::Damaged("it does not begin with a header".into()));
        }
        let version = word32(bytes, 8);
        let (oldest, newest) = versions(magic);
        if !(oldest..=newest).contains(&version) {
            return Err(NoHeader::Foreign(format!(
                "format version {version}; this build reads versions {oldest} to {newest}"
            )));
        }
        if crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) != word32(bytes, HEADER_BYTES - 4) {
            return Err(NoHeader::Damaged("the header's checksum is wrong".into()));
        }
        let id = &bytes[33..33 + usize::from(bytes[32]).min(CLUSTER_ID_MAX)];
        if id != location.cluster_id.as_bytes() {
            return Err(NoHeader::Foreign(format!(
                "belongs to cluster {:?}, not to {:?}",
                String::from_utf8_lossy(id),
                location.cluster_id
            )));
        }
        let group = word32(bytes, 12);
        if group != location.group.0 {
            return Err(NoHeader::Foreign(format!(
                "belongs to group {group}, not to group {}",
                location.group
            )));
        }
        Ok(Header {
            sn: Sn(word64(bytes, 16)),
            epoch: word64(bytes, 24),
        })
    }
}

pub(crate) fn journal_dir(dir: &Path) -> PathBuf {
    dir.join("journal")
}

pub(crate) fn segment_path(dir: &Path, first: Sn) -> PathBuf {
    journal_dir(dir).join(format!("{:020}.journal", first.0))
}

/// Where the image of this sn is.
pub fn image_path(dir: &Path, sn: Sn) -> PathBuf {
    dir.join(format!("image-{:020}", sn.0))
}

/// Makes a directory (and its parents) that survives a power cut together with what will be in it.
///
/// # Errors
/// If it cannot be made.
pub async fn make_dir(env: &Env, dir: &Path) -> Result<(), JournalError> {
    env.create_dir_all(dir)
        .map_err(|error| JournalError::io(dir, "making the directory", error))?;
    // Also when it was there: the run that made it may have died before it did this.
    let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    match env.sync_dir(parent).await {
        // Whoever may not read the directory above has not made this one either.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        result => result.map_err(|error| JournalError::io(parent, "flushing it", error)),
    }
}

pub(crate) fn listed(env: &Env, dir: &Path) -> Result<Vec<String>, JournalError> {
    let items = match env.read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|error| JournalError::io(dir, "listing the directory", error))?,
    };
    Ok(items
        .into_iter()
        .filter(|item| !item.is_dir)
        .map(|item| item.name)
        .collect())
}

/// The 20 digits of a file's name, and nothing else. The greatest number is none: no batch could
/// follow it.
pub(crate) fn number(digits: &str) -> Option<Sn> {
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok().filter(|number| *number < u64::MAX))
        .flatten()
        .map(Sn)
}

/// First sn of each segment, ascending. None if there is no journal.
///
/// # Errors
/// If the directory cannot be listed.
pub fn segments(env: &Env, dir: &Path) -> Result<Vec<Sn>, JournalError> {
    let names = listed(env, &journal_dir(dir))?;
    let mut found: Vec<Sn> = names
        .iter()
        .filter_map(|name| number(name.strip_suffix(".journal")?))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// The sn of each image, ascending.
///
/// # Errors
/// If the directory cannot be listed.
pub fn images(env: &Env, dir: &Path) -> Result<Vec<Sn>, JournalError> {
    let names = listed(env, dir)?;
    let mut found: Vec<Sn> = names
        .iter()
        .filter_map(|name| number(name.strip_prefix("image-")?))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Removes all images but the newest `keep`, and what is left of images that were never finished.
/// Answers the sn of those that stay, ascending.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_images(env: &Env, dir: &Path, keep: usize) -> Result<Vec<Sn>, JournalError> {
    let remove = |path: PathBuf| {
        env.remove_file(&path)
            .map_err(|error| JournalError::io(&path, "removing it", error))
    };
    for name in listed(env, dir)? {
        if name.starts_with("image-") && name.ends_with(crate::image::UNFINISHED) {
            remove(dir.join(name))?;
        }
    }
    let mut all = images(env, dir)?;
    let kept = all.split_off(all.len().saturating_sub(keep));
    for sn in all {
        remove(image_path(dir, sn))?;
    }
    Ok(kept)
}

/// Removes the segments that hold no batch above `sn`. The last one always stays.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_segments(env: &Env, dir: &Path, sn: Sn) -> Result<(), JournalError> {
    let all = segments(env, dir)?;
    for two in all.windows(2) {
        // Everything in the first one is below where the second begins.
        if two[1].0 <= sn.0.saturating_add(1) {
            let path = segment_path(dir, two[0]);
            env.remove_file(&path)
                .map_err(|error| JournalError::io(&path, "removing it", error))?;
        }
    }
    Ok(())
}
