//! The view as bytes, the same in every service, and the marks that tell who wrote it.
//!
//! ```text
//! 0   8  magic "WEFTVIEW"
//! 8   4  version of the format, 1
//! 12  4  CRC-32C of what follows
//! 16     the View message
//! ```
//! Numbers are little-endian.

use crate::CoordinatorError;
use prost::Message;
use weft_wire::proto::View;

const MAGIC: &[u8; 8] = b"WEFTVIEW";
const FORMAT_VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
/// Below the least bound of the services (ZooKeeper drops the connection of whoever sends a megabyte):
/// what one takes, all take. A view of 10,000 pairs has about half of it.
const VIEW_BYTES_MAX: usize = 900_000;
/// Versions that a writer may be behind and still find out whether it wrote one of them. Who is further
/// behind gets `Unknown`; each costs 8 bytes in every view that is sent.
const MARKS_MAX: usize = 32;

/// The bytes of a view.
pub(crate) fn encode(view: &View) -> Result<Vec<u8>, CoordinatorError> {
    let message = view.encode_to_vec();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&message).to_le_bytes());
    bytes.extend_from_slice(&message);
    if bytes.len() > VIEW_BYTES_MAX {
        return Err(CoordinatorError::TooLarge {
            bytes: bytes.len(),
            max: VIEW_BYTES_MAX,
        });
    }
    Ok(bytes)
}

/// The view of a service's record; that of version 0 if there is none, `None` if the bytes are no view.
pub fn decode(bytes: &[u8]) -> Option<View> {
    if bytes.is_empty() {
        return Some(View::default());
    }
    let message = bytes.get(HEAD_BYTES..)?;
    let good = bytes[..8] == *MAGIC
        && bytes[8..12] == FORMAT_VERSION.to_le_bytes()
        && bytes[12..16] == crc32c::crc32c(message).to_le_bytes();
    good.then(|| View::decode(message).ok()).flatten()
}

/// Marks `view` as the one that follows `before`.
pub(crate) fn stamp(view: &mut View, before: &View, mark: u64) {
    view.marks = Vec::with_capacity(MARKS_MAX);
    view.marks.push(mark);
    view.marks
        .extend(before.marks.iter().take(MARKS_MAX - 1).copied());
}

/// Whether `version` was written with `mark`, as far as `view`, read later, tells: yes; no, and it never
/// will be; or (`None`) undecided: `view` is older than that, so that it may still happen, or 32 or
/// more versions newer, so that nobody knows any more.
pub fn written_by(view: &View, version: u64, mark: u64) -> Option<bool> {
    let back = usize::try_from(view.version.checked_sub(version)?).ok()?;
    Some(*view.marks.get(back)? == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damage_is_noticed() {
        let mut good = encode(&View {
            version: 3,
            marks: vec![1, 2, 3],
            ..View::default()
        })
        .unwrap();
        assert_eq!(decode(&good).unwrap().version, 3);
        for at in 0..good.len() {
            good[at] ^= 1;
            assert!(decode(&good).is_none(), "byte {at}");
            good[at] ^= 1;
            if at > 0 {
                assert!(decode(&good[..at]).is_none(), "cut to {at}");
            }
        }
    }

    #[test]
    fn a_view_that_not_every_service_takes_is_refused() {
        let view = View {
            cluster_id: "x".repeat(VIEW_BYTES_MAX),
            ..View::default()
        };
        assert!(matches!(
            encode(&view),
            Err(CoordinatorError::TooLarge { .. })
        ));
    }

    #[test]
    fn a_writer_knows_its_version_again_for_as_long_as_its_mark_is_kept() {
        let mut view = View::default();
        for version in 1..=40u64 {
            let before = view.clone();
            view.version = version;
            stamp(&mut view, &before, 100 + version);
        }
        assert_eq!(written_by(&view, 41, 141), None, "not yet");
        for version in 9..=40 {
            assert_eq!(written_by(&view, version, 100 + version), Some(true));
            assert_eq!(written_by(&view, version, 7), Some(false));
        }
        assert_eq!(written_by(&view, 8, 108), None, "forgotten");
    }
}
