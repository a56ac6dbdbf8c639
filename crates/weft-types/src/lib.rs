//! The vocabulary of Weft as types: ids, epochs, serial numbers, layouts, byte ranges.
//!
//! Nothing here does I/O, knows a clock or a message. Every other crate may use it.

mod layout;
mod map;
mod mode;
mod names;
mod regions;

pub use layout::{OBJECT_REACH, Piece, StripeMap, pieces, reach_of};
pub use map::{FixedMap, FixedSet};
pub use mode::Mode;
pub use names::{COOKIE_BITS, SHARDS_MAX, name_hash, shard_of_hash};
pub use regions::{Region, Regions, Run};

use std::fmt;

/// Defines a newtype over an integer with ordering, hashing, display and serde.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug,
            serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Inode number: the slot in the top 12 bits, a counter below, never reused.
    Ino(u64)
);
number!(
    /// One of the [`SLOTS`] hash partitions of the name space.
    Slot(u16)
);
number!(
    /// A pair of data servers, from 0.
    PairId(u32)
);
number!(
    /// A replica group of metadata servers, from 0.
    GroupId(u32)
);
number!(
    /// A client's session with a group: the group in the top 16 bits, a counter below. Never reused; 0
    /// means none.
    SessionId(u64)
);
number!(
    /// A client's own count of its changes, from 1; with the session it names one change for ever.
    Operation(u64)
);
number!(
    /// The number of a reign (of a group's active, or of a pair's state). Only grows.
    Epoch(u64)
);
number!(
    /// A journal batch's serial number. Grows by one from batch to batch.
    Sn(u64)
);

/// Which name space something belongs to: drawn when that was founded, and never again. (A cluster's id is the name that
/// people gave it: two clusters may have one.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NameSpaceId(pub u128);

impl NameSpaceId {
    /// From a message or a file. None: these are not 16 bytes, or all of them are 0.
    pub fn from_bytes(bytes: &[u8]) -> Option<NameSpaceId> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        (number != 0).then_some(NameSpaceId(number))
    }

    /// For a message or a file.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for NameSpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Names a change that several groups take part in, for ever.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct TransactionId {
    /// The group that decides.
    pub home: GroupId,
    /// Of the reign in which it was begun.
    pub epoch: Epoch,
    /// Counted within the reign.
    pub number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.home, self.epoch, self.number)
    }
}

/// How many hash partitions the name space has.
pub const SLOTS: u16 = 4096;
/// Bits of an inode number below the slot.
pub const INO_COUNTER_BITS: u32 = 52;
/// Bits of a session's number below the group's.
pub const SESSION_COUNTER_BITS: u32 = 48;
/// The replica group that has slot 0, and with it the root directory; it decides about the pairs.
pub const FIRST_GROUP: GroupId = GroupId(0);
/// The root directory: slot 0, counter 1.
pub const ROOT_INO: Ino = Ino(1);
/// Longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest target of a symbolic link, in bytes (Linux PATH_MAX without the final NUL).
pub const TARGET_MAX: usize = 4095;
/// Bytes under one checksum.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes under one bit of the modified list; recovery compares and copies by regions.
pub const REGION_BYTES: u64 = 1 << 20;
/// Blocks of a region.
pub const REGION_BLOCKS: u64 = REGION_BYTES / BLOCK_BYTES;
/// Under the asynchronous protocols a client goes on with what only one member has where both members
/// have had something of it before: in such a region, and in this many behind it. What is named as
/// lost may be that much more than what was; what one member may have alone is bounded by it, too.
pub const ANNOUNCED_AHEAD: u32 = 16;
/// And "before" is at most this many of the client's operations ago.
pub const ANNOUNCED_OPERATIONS: u64 = 256;
/// Smallest and largest stripe unit, in bytes. Powers of two between are allowed.
pub const STRIPE_UNIT_MIN: u32 = 64 << 10;
/// See [`STRIPE_UNIT_MIN`].
pub const STRIPE_UNIT_MAX: u32 = 16 << 20;
/// Largest file, in bytes: what a signed 64-bit offset can name, as Linux demands.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Largest payload of one frame. A write of more goes as several, so that a leader forwards one
/// piece while it receives the next.
pub const PAYLOAD_MAX: usize = 1 << 20;

impl Ino {
    /// Joins a slot and a counter (below 2^52).
    pub const fn new(slot: Slot, counter: u64) -> Ino {
        assert!(counter < 1 << INO_COUNTER_BITS);
        Ino(((slot.0 as u64) << INO_COUNTER_BITS) | counter)
    }

    /// All numbers that inodes of a slot may have.
    pub const fn all_of(slot: Slot) -> std::ops::RangeInclusive<Ino> {
        Ino::new(slot, 0)..=Ino::new(slot, (1 << INO_COUNTER_BITS) - 1)
    }

    /// The slot this inode lives in.
    pub const fn slot(self) -> Slot {
        Slot((self.0 >> INO_COUNTER_BITS) as u16)
    }
}

impl SessionId {
    /// The first session of a group (below 2^16), which counts on from there: no two groups' sessions
    /// have the same number.
    pub const fn first_of(group: GroupId) -> SessionId {
        assert!(group.0 < 1 << (u64::BITS - SESSION_COUNTER_BITS));
        SessionId(((group.0 as u64) << SESSION_COUNTER_BITS) + 1)
    }

    /// The group that the session is with.
    pub const fn group(self) -> GroupId {
        GroupId((self.0 >> SESSION_COUNTER_BITS) as u32)
    }
}

/// The two data servers of a pair.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub enum Member {
    /// Member of the primary group.
    Zero,
    /// Member of the backup group.
    One,
}

impl Member {
    /// 0 or 1.
    pub const fn index(self) -> usize {
        match self {
            Member::Zero => 0,
            Member::One => 1,
        }
    }

    /// From 0 or 1; anything else is no member.
    pub const fn from_index(index: u32) -> Option<Member> {
        match index {
            0 => Some(Member::Zero),
            1 => Some(Member::One),
            _ => None,
        }
    }

    /// The other member.
    pub const fn twin(self) -> Member {
        match self {
            Member::Zero => Member::One,
            Member::One => Member::Zero,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index().fmt(f)
    }
}

/// Names an object: the part of one file (or of one generation of it) that lies on one pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId {
    /// The file.
    pub ino: Ino,
    /// The layout generation: a truncation to nothing takes a new one, so that it needs no word
    /// with the data servers.
    pub generation: u32,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.ino.0, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_number_says_its_group() {
        assert_eq!(SessionId::first_of(FIRST_GROUP), SessionId(1));
        let last = SessionId((1 << SESSION_COUNTER_BITS) - 1);
        assert_eq!(last.group(), FIRST_GROUP);
        assert_eq!(SessionId(u64::MAX).group(), GroupId(u32::from(u16::MAX)));
        for group in [GroupId(1), GroupId(4095)] {
            let first = SessionId::first_of(group);
            assert_eq!(first.group(), group);
            // The number before is nobody's: the one before that is the last of the group below.
            assert_eq!(SessionId(first.0 - 2).group(), GroupId(group.0 - 1));
        }
    }
}
