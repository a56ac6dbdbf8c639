//! File handles: what a client is given for a file, sealed so that it cannot make one itself
//! (`docs/protocols/gateway.md`, "File handles").

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of the cluster's key.
pub(crate) const KEY_BYTES: usize = 32;
/// A file of an export.
const KIND_FILE: u8 = 1;
/// What stands before the code.
const BODY_BYTES: usize = 18;
/// Bytes of the code: the first half of HMAC-SHA256.
const CODE_BYTES: usize = 16;
/// Bytes of a handle.
pub(crate) const HANDLE_BYTES: usize = BODY_BYTES + CODE_BYTES;

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileHandle {
    pub export: u32,
    pub ino: u64,
}

/// Seals handles, and opens them.
pub(crate) struct Sealer(Hmac<Sha256>);

impl Sealer {
    /// With the cluster's key.
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Sealer {
        // A key of any length is one.
        let Ok(mac) = Hmac::new_from_slice(key) else {
            unreachable!("HMAC takes keys of any length")
        };
        Sealer(mac)
    }

    /// A file's handle.
    pub(crate) fn seal(&self, file: FileHandle) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HANDLE_BYTES);
        bytes.put_u8(KIND_FILE);
        // Rights and epoch: of files none yet.
        bytes.put_u8(0);
        bytes.put_u32(0);
        bytes.put_u32(file.export);
        bytes.put_u64(file.ino);
        let mut mac = self.0.clone();
        mac.update(&bytes);
        bytes.put_slice(&mac.finalize().into_bytes()[..CODE_BYTES]);
        bytes.freeze()
    }

    /// What a handle stands for. None: it is none of this cluster's.
    pub(crate) fn open(&self, handle: &[u8]) -> Option<FileHandle> {
        let (body, code) = handle.split_first_chunk::<BODY_BYTES>()?;
        let code: &[u8; CODE_BYTES] = code.try_into().ok()?;
        let mut mac = self.0.clone();
        mac.update(body);
        mac.verify_truncated_left(code).ok()?;
        let [KIND_FILE, 0, 0, 0, 0, 0, rest @ ..] = body else {
            return None;
        };
        let (export, ino) = rest.split_first_chunk::<4>()?;
        Some(FileHandle {
            export: u32::from_be_bytes(*export),
            ino: u64::from_be_bytes(ino.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_and_nothing_else() {
        let sealer = Sealer::new(&[7; KEY_BYTES]);
        let file = FileHandle {
            export: 0x0102_0304,
            ino: u64::MAX - 5,
        };
        let handle = sealer.seal(file);
        assert_eq!(handle.len(), HANDLE_BYTES);
        assert_eq!(sealer.open(&handle), Some(file));
        assert_eq!(Sealer::new(&[8; KEY_BYTES]).open(&handle), None);
        for bit in 0..handle.len() * 8 {
            let mut forged = handle.to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(&forged), None, "bit {bit}");
        }
        for length in 0..handle.len() {
            assert_eq!(sealer.open(&handle[..length]), None);
        }
        let longer = [&handle[..], &[0]].concat();
        assert_eq!(sealer.open(&longer), None);
    }

    /// Handles that clients have must be good for ever.
    #[test]
    fn handles_stay_as_they_are() {
        let file = FileHandle { export: 1, ino: 2 };
        let handle = Sealer::new(&[0; KEY_BYTES]).seal(file);
        assert_eq!(
            &handle[..BODY_BYTES],
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
        );
    }
}
