//! Who a store is: the file `store` in its directory.
//!
//! ```text
//! 0         8     10     11            12    16         32     40           56     64        72    76    80
//! | WEFTSTOR | ver | member | state       | pair | store id | epoch | name space | life | offered | boot | crc |
//! | magic    | u16 | u8     | u8          | u32  | 16 bytes | u64   | 16 bytes   | u64  | u64     | u32  | u32 |
//! ```
//!
//! Of `state`, bit 0 is `was_serving`, bit 1 `was_settled_alone`; bits 2 to 4 are the mode (0: not known, then BOTH, ONLY,
//! RECOVERING, DOWN), and bit 5 the member that it names.
//!
//! Little-endian, but for the name space id; `crc` is the CRC-32C of bytes 0..76. The file is replaced as a whole, so that it
//! holds the old record or the new one after any crash. It is written last when a directory is made
//! a store: without it the directory is no store.
//!
//! Version 1 had no name space and no lives: `boot` at 40, `crc` at 44. It is read, and written as version 2 with the next change.

use crate::error::{Error, IoContext, Result};
use std::path::Path;
use weft_env::Env;
use weft_types::{Epoch, Member, Mode, NameSpaceId, PairId};

pub(crate) const FILE: &str = "store";
const MAGIC: [u8; 8] = *b"WEFTSTOR";
const VERSION: u16 = 2;
const BYTES: usize = 80;
/// Before stores knew their name space.
const VERSION_1: u16 = 1;
/// See [`VERSION_1`].
const BYTES_1: usize = 48;

/// The record in the file `store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Chosen at random when the store was made: a wiped directory becomes another store.
    pub store_id: u128,
    /// The name space it belongs to. `None`: it was made before there were such, and has not registered since.
    pub name_space: Option<NameSpaceId>,
    /// The pair it belongs to.
    pub pair: PairId,
    /// Which of its members it is.
    pub member: Member,
    /// The last epoch of the pair's state that the data server has been told.
    pub last_epoch: Epoch,
    /// The mode of that state. `None`: it did not know this store, or nothing was told yet.
    pub last_mode: Option<Mode>,
    /// Whether it was one that serves, or current, in that state.
    pub was_serving: bool,
    /// It served alone, and what its twin had alone was settled. Only with `was_serving`.
    pub was_settled_alone: bool,
    /// By which an older copy of the store is known: see [`crate::Store::offer_life`]. 0: it has had none.
    pub life: u64,
    /// The next one, while it is not certain that it was noted; else 0.
    pub offered: u64,
    /// A hash of [`weft_env::Env::boot`] when it was that last, or was made; 0: not known.
    pub boot: u32,
}

impl Identity {
    fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(BYTES);
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&VERSION.to_le_bytes());
        record.push(self.member.index() as u8);
        record.push(
            u8::from(self.was_serving)
                | u8::from(self.was_settled_alone) << 1
                | encode_mode(self.last_mode) << 2,
        );
        record.extend_from_slice(&self.pair.0.to_le_bytes());
        record.extend_from_slice(&self.store_id.to_le_bytes());
        record.extend_from_slice(&self.last_epoch.0.to_le_bytes());
        let name_space = self.name_space.map_or([0; 16], NameSpaceId::to_bytes);
        record.extend_from_slice(&name_space);
        record.extend_from_slice(&self.life.to_le_bytes());
        record.extend_from_slice(&self.offered.to_le_bytes());
        record.extend_from_slice(&self.boot.to_le_bytes());
        let crc = crc32c::crc32c(&record);
        record.extend_from_slice(&crc.to_le_bytes());
        record
    }

    fn decode(record: &[u8], path: &Path) -> Result<Identity> {
        let refuse = |reason: String| Error::Format {
            path: path.to_owned(),
            reason,
        };
        if record.len() < 10 || record[..8] != MAGIC {
            return Err(refuse("this is not the identity of a Weft store".into()));
        }
        let version = u16::from_le_bytes([record[8], record[9]]);
        let bytes = match version {
            VERSION => BYTES,
            VERSION_1 => BYTES_1,
            _ => {
                return Err(refuse(format!(
                    "store format {version}; this version of Weft reads formats {VERSION_1} and {VERSION}"
                )));
            }
        };
        if record.len() != bytes {
            return Err(refuse(format!("{} bytes instead of {bytes}", record.len())));
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| record[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(bytes - 4) != crc32c::crc32c(&record[..bytes - 4]) {
            return Err(refuse("its checksum is wrong".into()));
        }
        let Some(member) = Member::from_index(u32::from(record[10])) else {
            return Err(refuse(format!("member {} of a pair", record[10])));
        };
        let last_mode = decode_mode(record[11] >> 2)
            .ok_or_else(|| refuse(format!("{:#04x} is no state", record[11])))?;
        let (name_space, life, offered) = match version {
            VERSION => (NameSpaceId::from_bytes(&record[40..56]), long(56), long(64)),
            _ => (None, 0, 0),
        };
        Ok(Identity {
            store_id: u128::from(long(16)) | u128::from(long(24)) << 64,
            name_space,
            life,
            offered,
            pair: PairId(word(12)),
            member,
            last_epoch: Epoch(long(32)),
            last_mode,
            was_serving: record[11] & 1 != 0,
            was_settled_alone: record[11] & 2 != 0,
            boot: word(bytes - 8),
        })
    }

    /// The record of the store in `dir`, `None` if there is none.
    pub(crate) async fn load(env: &Env, dir: &Path) -> Result<Option<Identity>> {
        let path = dir.join(FILE);
        let record = env.read_file(&path).await.context("read", &path)?;
        record
            .map(|record| Identity::decode(&record, &path))
            .transpose()
    }

    pub(crate) async fn save(&self, env: &Env, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let saved = env.replace_file(&path, self.encode()).await;
        saved.context("write", &path)
    }
}

/// Four bits: the mode in three, and which member it names.
fn encode_mode(mode: Option<Mode>) -> u8 {
    match mode {
        None => 0,
        Some(Mode::Both) => 1,
        Some(Mode::Only(m)) => 2 | (m.index() as u8) << 3,
        Some(Mode::Recovering(m)) => 3 | (m.index() as u8) << 3,
        Some(Mode::Down(m)) => 4 | (m.index() as u8) << 3,
    }
}

/// `None`: these are not the bits of any.
fn decode_mode(bits: u8) -> Option<Option<Mode>> {
    let member = Member::from_index(u32::from(bits >> 3))?;
    Some(match bits & 7 {
        0 if bits == 0 => None,
        1 if bits == 1 => Some(Mode::Both),
        2 => Some(Mode::Only(member)),
        3 => Some(Mode::Recovering(member)),
        4 => Some(Mode::Down(member)),
        _ => return None,
    })
}

/// The operating system's run as the store's identity names it.
pub(crate) fn boot_of(env: &Env) -> u32 {
    let boot = env.boot();
    (boot ^ boot >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        store_id: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        name_space: Some(NameSpaceId(7 << 100 | 9)),
        pair: PairId(7),
        member: Member::One,
        last_epoch: Epoch(42),
        last_mode: Some(Mode::Recovering(Member::One)),
        was_serving: true,
        was_settled_alone: true,
        life: 3 << 32 | 77,
        offered: 4 << 32 | 1,
        boot: 0xabcd_0123,
    };

    #[test]
    fn comes_back_as_it_was_written() {
        let record = IDENTITY.encode();
        assert_eq!(record.len(), BYTES);
        assert_eq!(Identity::decode(&record, Path::new("s")).unwrap(), IDENTITY);
        for bits in 0..=u8::MAX {
            if let Some(mode) = decode_mode(bits) {
                assert_eq!(encode_mode(mode), bits);
            }
        }
    }

    #[test]
    fn any_flipped_bit_or_cut_is_refused() {
        let record = IDENTITY.encode();
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Identity::decode(&flipped, Path::new("s")).is_err(),
                "bit {bit}"
            );
        }
        for end in 0..record.len() {
            assert!(Identity::decode(&record[..end], Path::new("s")).is_err());
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut record = IDENTITY.encode();
        record[8] = 9;
        let error = Identity::decode(&record, Path::new("d/store")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "d/store: store format 9; this version of Weft reads formats 1 and 2"
        );
    }

    #[test]
    fn a_record_of_before_has_no_name_space() {
        let before = Identity {
            name_space: None,
            last_mode: None,
            life: 0,
            offered: 0,
            ..IDENTITY
        };
        let mut record = before.encode();
        record.drain(40..72);
        record[8] = 1;
        let crc = crc32c::crc32c(&record[..44]);
        record[44..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Identity::decode(&record, Path::new("s")).unwrap(), before);
        record[8] = 2;
        assert!(Identity::decode(&record, Path::new("s")).is_err());
    }
}
