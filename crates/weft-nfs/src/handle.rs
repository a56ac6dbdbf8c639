//! File handles: what a client is given to name a file by, sealed so that it cannot make one up.
//!
//! ```text
//! byte 0  version, 1
//! byte 1  kind: 1 a file behind the gateway, 2 an object behind a data server (kept for pNFS), 3 a directory on the
//!         way to an export
//! byte 2  number of the key that sealed it
//! byte 3  rights: bit 0 read, bit 1 write, bit 2 everything is synchronous
//! then    the body, by kind; a file's, 20 bytes, big-endian:
//!           export (4), inode (8), generation (8)
//!         that of a directory on the way, 8 bytes: its number
//! last 16 HMAC-SHA-256 over all that is before, cut to its first 16 bytes
//! ```
//!
//! A handle says what may be done with it, without a table: any gateway of the cluster that has the key opens it,
//! after any restart. At most 64 bytes, so that NFSv3 can carry every kind; a data server's body (object, byte range,
//! epoch) has 44 bytes to fit in.
//!
//! Keys have numbers so that they can be changed: a new one seals, the old ones still open.

use bytes::Bytes;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of the longest handle: NFSv3's bound. NFSv4 allows twice as many.
pub const HANDLE_BYTES_MAX: usize = 64;
/// Bytes of a file's handle.
pub const FILE_HANDLE_BYTES: usize = HEAD_BYTES + FILE_BODY_BYTES + SEAL_BYTES;
/// Bytes of a key: as many as the hash has, which is as much as HMAC makes use of.
pub const KEY_BYTES: usize = 32;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 4;
const FILE_BODY_BYTES: usize = 20;
/// Half of the hash: guessing it takes 2^127 calls, and RFC 2104 advises no less.
const SEAL_BYTES: usize = 16;

const _: () = assert!(FILE_HANDLE_BYTES <= HANDLE_BYTES_MAX);

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, directory or whatever else has an inode.
    File = 1,
    /// An object of a data server.
    Object = 2,
    /// A directory above exports, which shows the way to them and nothing else.
    Way = 3,
}

/// What may be done by a handle, beside what the file's mode says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Reading.
    pub read: bool,
    /// Changing.
    pub write: bool,
    /// Whatever is done through it is synchronous: it was given out by such an export.
    pub sync: bool,
}

impl Rights {
    fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 1 | u8::from(self.sync) << 2
    }

    fn of(bits: u8) -> Option<Rights> {
        (bits < 8).then_some(Rights {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            sync: bits & 4 != 0,
        })
    }
}

/// The name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHandle {
    /// The export by which the client came to it.
    pub export: u32,
    /// The inode's number.
    pub inode: u64,
    /// What tells apart what the number named at different times, after a restore for instance.
    pub generation: u64,
    /// What may be done by it.
    pub rights: Rights,
}

/// What a handle says, once its seal was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What it names.
    pub kind: Kind,
    /// What may be done by it.
    pub rights: Rights,
    /// By kind.
    pub body: Bytes,
}

/// Why a handle is refused. To the client all of it is NFS3ERR_BADHANDLE or NFS4ERR_BADHANDLE, but for
/// [`HandleError::Key`], which is a stale handle.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HandleError {
    /// No handle of any version has this length.
    #[error("a handle of {0} bytes")]
    Length(usize),
    /// Of a version, kind or with rights that are not known here.
    #[error("a handle of an unknown form")]
    Form,
    /// Sealed with a key that is no longer kept, or not yet known here.
    #[error("a handle sealed with key {0}, which is not kept")]
    Key(u8),
    /// The seal is not what the key makes: made up, or damaged.
    #[error("a handle with a wrong seal")]
    Seal,
}

/// Why keys cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// No key at all.
    #[error("no key to seal handles with: give one")]
    None,
    /// Two keys of one number.
    #[error("two keys have the number {0}: number them differently")]
    Twice(u8),
}

/// Seals handles and opens them.
pub struct Sealer {
    keys: BTreeMap<u8, Hmac<Sha256>>,
    /// The one that seals.
    current: u8,
}

impl Sealer {
    /// With these keys, by their numbers; the last one given seals, all of them open.
    ///
    /// # Errors
    /// No key, or two with one number.
    pub fn new(keys: &[(u8, [u8; KEY_BYTES])]) -> Result<Sealer, KeyError> {
        let Some((current, _)) = keys.last() else {
            return Err(KeyError::None);
        };
        let mut prepared = BTreeMap::new();
        for (number, key) in keys {
            // Hashed into the state once, here.
            let Ok(mac) = Hmac::new_from_slice(key) else {
                unreachable!("HMAC takes keys of any length");
            };
            if prepared.insert(*number, mac).is_some() {
                return Err(KeyError::Twice(*number));
            }
        }
        Ok(Sealer {
            keys: prepared,
            current: *current,
        })
    }

    /// The handle of a file.
    pub fn seal_file(&self, file: &FileHandle) -> Bytes {
        let mut body = [0; FILE_BODY_BYTES];
        body[..4].copy_from_slice(&file.export.to_be_bytes());
        body[4..12].copy_from_slice(&file.inode.to_be_bytes());
        body[12..].copy_from_slice(&file.generation.to_be_bytes());
        self.seal(Kind::File, file.rights, &body)
    }

    /// The file that a handle names.
    ///
    /// # Errors
    /// If this is no file's handle that was sealed with one of the keys.
    pub fn open_file(&self, handle: &Bytes) -> Result<FileHandle, HandleError> {
        let opened = self.open(handle)?;
        let body: &[u8; FILE_BODY_BYTES] = match (opened.kind, opened.body[..].try_into()) {
            (Kind::File, Ok(body)) => body,
            _ => return Err(HandleError::Form),
        };
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&body[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        Ok(FileHandle {
            export: (word(0) >> 32) as u32,
            inode: word(4),
            generation: word(12),
            rights: opened.rights,
        })
    }

    /// The handle of a directory on the way to an export.
    pub fn seal_way(&self, number: u64) -> Bytes {
        self.seal(Kind::Way, Rights::default(), &number.to_be_bytes())
    }

    /// The number of the directory on the way to an export that a handle names.
    ///
    /// # Errors
    /// If this is no such handle that was sealed with one of the keys.
    pub fn open_way(&self, handle: &Bytes) -> Result<u64, HandleError> {
        let opened = self.open(handle)?;
        match (opened.kind, opened.body[..].try_into()) {
            (Kind::Way, Ok(number)) => Ok(u64::from_be_bytes(number)),
            _ => Err(HandleError::Form),
        }
    }

    /// A handle with this body.
    ///
    /// # Panics
    /// If the body is longer than there is room: bodies have a length by their kind.
    pub fn seal(&self, kind: Kind, rights: Rights, body: &[u8]) -> Bytes {
        let length = HEAD_BYTES + body.len() + SEAL_BYTES;
        assert!(length <= HANDLE_BYTES_MAX, "a handle of {length} bytes");
        let mut handle = Vec::with_capacity(length);
        handle.extend([VERSION, kind as u8, self.current, rights.bits()]);
        handle.extend_from_slice(body);
        let mut mac = self.keys[&self.current].clone();
        mac.update(&handle);
        handle.extend_from_slice(&mac.finalize().into_bytes()[..SEAL_BYTES]);
        handle.into()
    }

    /// What a handle says. The seal is compared in a time that does not depend on how much of it is right.
    ///
    /// # Errors
    /// If it was not sealed with one of the keys.
    pub fn open(&self, handle: &Bytes) -> Result<Opened, HandleError> {
        let length = handle.len();
        if !(HEAD_BYTES + SEAL_BYTES..=HANDLE_BYTES_MAX).contains(&length) {
            return Err(HandleError::Length(length));
        }
        let (sealed, seal) = handle.split_at(length - SEAL_BYTES);
        let [version, kind, key, rights] = [handle[0], handle[1], handle[2], handle[3]];
        if version != VERSION {
            return Err(HandleError::Form);
        }
        let Some(mac) = self.keys.get(&key) else {
            return Err(HandleError::Key(key));
        };
        let mut mac = mac.clone();
        mac.update(sealed);
        mac.verify_truncated_left(seal)
            .map_err(|_| HandleError::Seal)?;
        let kind = match kind {
            1 => Kind::File,
            2 => Kind::Object,
            3 => Kind::Way,
            _ => return Err(HandleError::Form),
        };
        Ok(Opened {
            kind,
            rights: Rights::of(rights).ok_or(HandleError::Form)?,
            body: handle.slice(HEAD_BYTES..length - SEAL_BYTES),
        })
    }
}
