//! Whose a metadata server's directory is: the file `store` in it.
//!
//! ```text
//! 0          8     10    12      16       20    24           40         48    52
//! | WEFTMETA | ver | 0   | group | member | 0   | name space | store id | crc |
//! | magic    | u16 | u16 | u32   | u32    | u32 | 16 bytes   | u64      | u32 |
//! ```
//!
//! Little-endian; `crc` is the CRC-32C of bytes 0..48. It is written when the directory takes a place in its group, before
//! anything else is written there, and never changed. Of a directory of before there were such records the file has the
//! store id alone, 8 bytes; it is replaced when the directory takes its place for the first time since.

use super::orders;
use crate::{MetaError, Settings};
use std::path::PathBuf;
use weft_env::Env;
use weft_types::NameSpaceId;

const MAGIC: [u8; 8] = *b"WEFTMETA";
const VERSION: u16 = 2;
const BYTES: usize = 52;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub name_space: NameSpaceId,
    pub group: u32,
    pub member: u32,
    /// The number of the directory, drawn at random. Never 0.
    pub store: u64,
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Superblock(Superblock),
    /// Of before: the store id.
    Before(u64),
}

impl Found {
    pub fn store(self) -> u64 {
        match self {
            Found::Superblock(superblock) => superblock.store,
            Found::Before(store) => store,
        }
    }
}

fn path_of(settings: &Settings) -> PathBuf {
    settings.dir.join("store")
}

impl Superblock {
    /// Of this member's directory.
    pub fn of(settings: &Settings, name_space: NameSpaceId, store: u64) -> Superblock {
        Superblock {
            name_space,
            group: settings.group,
            member: settings.member,
            store,
        }
    }

    /// The directory's. None: it has none.
    ///
    /// # Errors
    /// If it cannot be read, or is none of this version.
    pub async fn load(env: &Env, settings: &Settings) -> Result<Option<Found>, MetaError> {
        let path = path_of(settings);
        let found = env.read_file(&path).await.map_err(|source| MetaError::Io {
            what: format!("reading {}", path.display()),
            source,
        })?;
        let found = found.map(|found| Superblock::decode(&found));
        found.transpose().map_err(|why| {
            MetaError::Corrupt(format!(
                "{}: {why}. Put it back from a copy; or, if this directory is of no use any more, start this member with \
                 an empty one after `weft group replace {}{}`",
                path.display(),
                settings.member,
                orders::of_group(settings.group)
            ))
        })
    }

    /// Writes it; stable when it returns.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn save(&self, env: &Env, settings: &Settings) -> Result<(), MetaError> {
        let path = path_of(settings);
        let saved = env.replace_file(&path, self.encode()).await;
        saved.map_err(|source| MetaError::Io {
            what: format!("making {}", path.display()),
            source,
        })
    }

    /// Refuses a directory that is not of this name space, group and member.
    ///
    /// # Errors
    /// [`MetaError::Refused`], with both sides and what to do.
    pub fn check(&self, settings: &Settings, name_space: NameSpaceId) -> Result<(), MetaError> {
        let dir = settings.dir.display();
        if self.name_space != name_space {
            return Err(MetaError::Refused(format!(
                "{dir} is of name space {}, but cluster {:?} is name space {name_space}: set `dir` to the directory of this \
                 cluster, or `coordinator` and `cluster_id` to those of the directory. Nothing was changed",
                self.name_space, settings.cluster_id
            )));
        }
        if (self.group, self.member) != (settings.group, settings.member) {
            return Err(MetaError::Refused(format!(
                "{dir} is the directory of member {} of group {}, not of member {} of group {}: set `dir` to the directory \
                 of that one, or `member` and `group` to those of this directory. Nothing was changed",
                self.member, self.group, settings.member, settings.group
            )));
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.group.to_le_bytes());
        bytes.extend_from_slice(&self.member.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.name_space.to_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Found, String> {
        if let Ok(store) = bytes.try_into().map(u64::from_le_bytes)
            && store != 0
        {
            return Ok(Found::Before(store));
        }
        if bytes.len() < 10 || bytes[..8] != MAGIC {
            return Err("this does not say whose the directory is".into());
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(format!(
                "format {version}; this version of Weft reads format {VERSION}"
            ));
        }
        let Ok(bytes) = <[u8; BYTES]>::try_from(bytes) else {
            return Err(format!("{} bytes instead of {BYTES}", bytes.len()));
        };
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        if word(48) != crc32c::crc32c(&bytes[..48]) {
            return Err("its checksum is wrong".into());
        }
        let store = u64::from(word(40)) | u64::from(word(44)) << 32;
        match NameSpaceId::from_bytes(&bytes[24..40]) {
            Some(name_space) if store != 0 => Ok(Found::Superblock(Superblock {
                name_space,
                group: word(12),
                member: word(16),
                store,
            })),
            _ => Err("it names no name space, or no store".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERBLOCK: Superblock = Superblock {
        name_space: NameSpaceId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        group: 3,
        member: 2,
        store: 0x0102_0304_0506_0708,
    };

    #[test]
    fn comes_back_as_it_was_written() {
        let bytes = SUPERBLOCK.encode();
        assert_eq!(bytes.len(), BYTES);
        let found = Superblock::decode(&bytes);
        assert_eq!(found, Ok(Found::Superblock(SUPERBLOCK)));
        let before = Superblock::decode(&7_u64.to_le_bytes());
        assert_eq!(before, Ok(Found::Before(7)));
    }

    #[test]
    fn any_flipped_bit_or_cut_is_refused() {
        let bytes = SUPERBLOCK.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&flipped).is_err(), "bit {bit}");
        }
        // What is of 8 bytes is of before.
        for end in (0..bytes.len()).filter(|end| *end != 8) {
            assert!(Superblock::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn another_name_space_member_or_group_is_named() {
        let settings = Settings {
            group: 3,
            member: 2,
            ..Settings::default()
        };
        SUPERBLOCK.check(&settings, SUPERBLOCK.name_space).unwrap();
        let said = |settings: &Settings, id: u128| {
            let refused = SUPERBLOCK.check(settings, NameSpaceId(id)).unwrap_err();
            assert!(matches!(refused, MetaError::Refused(_)));
            refused.to_string()
        };
        let other = said(&settings, 7);
        assert!(
            other.contains("name space 00112233445566778899aabbccddeeff"),
            "{other}"
        );
        assert!(
            other.contains("name space 00000000000000000000000000000007"),
            "{other}"
        );
        let settings = Settings {
            member: 1,
            ..settings
        };
        let other = said(&settings, SUPERBLOCK.name_space.0);
        assert!(
            other.contains("member 2 of group 3, not of member 1"),
            "{other}"
        );
    }
}
