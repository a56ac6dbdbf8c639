//! Directories that are spread: everybody else sees one directory, this client its shards
//! (`docs/protocols/spread.md`).
//!
//! `names.rs` does what concerns a name where the name is, `whole.rs` makes attributes of many directories those
//! of one, `listing.rs` lists them as one. Which shards a directory has is for ever, so it is kept here without a
//! lease: about 50 bytes for each shard of a directory that was met.

mod listing;
mod names;
mod whole;

use crate::core::Core;
use crate::leases::Mode;
use crate::types::Result;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_types::{FixedMap, SHARDS_MAX, name_hash, shard_of_hash};
use weft_wire::proto;

/// What is to be of one moment is asked for again so often, if others' changes come between.
const MOMENT_TRIES: u32 = 100;
/// After a pause that grows up to this.
const MOMENT_PAUSE_MAX: Duration = Duration::from_millis(20);

/// The shards of a directory, as it told them.
#[derive(Clone)]
pub(crate) struct Shards {
    pub inos: Rc<[u64]>,
    /// Names whose hash is below it are in the shards, the others still in the directory. It only grows.
    border: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Spreads {
    shards: RefCell<FixedMap<u64, Shards>>,
    wholes: RefCell<FixedMap<u64, u64>>,
}

impl Spreads {
    /// Notes what an inode tells of itself.
    pub fn learn(&self, ino: u64, inode: &proto::Inode) {
        if inode.shard_of != 0 {
            self.wholes.borrow_mut().insert(ino, inode.shard_of);
        }
        let count = inode.shards.len();
        if count == 0 {
            // It may have been spread in a time that was taken back by a restore.
            self.shards.borrow_mut().remove(&ino);
            return;
        }
        if let Some(known) = self.shards.borrow_mut().get_mut(&ino) {
            known.border = inode.border;
            return;
        }
        if !count.is_power_of_two() || count > SHARDS_MAX {
            tracing::error!(ino, count, "a directory cannot have so many shards");
            return;
        }
        for shard in &inode.shards {
            self.wholes.borrow_mut().insert(*shard, ino);
        }
        let shards = Shards {
            inos: inode.shards.as_slice().into(),
            border: inode.border,
        };
        self.shards.borrow_mut().insert(ino, shards);
    }

    /// A session has ended: perhaps because the name space is again as it was before.
    pub fn doubt_all(&self) {
        // What is a shard of what was told under numbers that are never given again.
        self.shards.borrow_mut().clear();
    }

    /// The shards of a directory, if it is known to be spread.
    pub fn shards(&self, dir: u64) -> Option<Rc<[u64]>> {
        let shards = self.shards.borrow();
        shards.get(&dir).map(|shards| shards.inos.clone())
    }

    /// The directory as everybody else knows it.
    pub fn whole(&self, ino: u64) -> u64 {
        self.wholes.borrow().get(&ino).copied().unwrap_or(ino)
    }

    /// The directory, or the shard of it, that has a name.
    pub fn place(&self, dir: u64, name: &[u8]) -> u64 {
        let shards = self.shards.borrow();
        let Some(Shards { inos, border }) = shards.get(&dir) else {
            return dir;
        };
        let hash = name_hash(name);
        let shard = inos.get(shard_of_hash(hash, inos.len()));
        let shard = shard.filter(|_| *border == u64::MAX || hash < *border);
        shard.copied().unwrap_or(dir)
    }
}

impl Core {
    /// Asks a directory whether it is spread.
    pub(crate) async fn learn_shards(self: &Rc<Self>, dir: u64) -> Result<()> {
        let (inode, leases, link) = self.ask_inode(dir, Mode::None).await?;
        let granted = self.take_leases(&link, &leases, dir);
        self.take_inode(&inode, granted);
        Ok(())
    }

    /// Waits before what is to be of one moment is asked for once more.
    async fn moment_pause(&self, tries: u32) {
        let grown = Duration::from_micros(100) * (1 << tries.min(8));
        let most = grown.min(MOMENT_PAUSE_MAX).as_nanos() as u64;
        let drawn = Duration::from_nanos(self.env.random() % most.max(1));
        self.env.sleep(drawn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_shards_that_their_hashes_say() {
        let spreads = Spreads::default();
        assert_eq!(spreads.place(7, b"a"), 7);
        let inode = proto::Inode {
            shards: vec![70, 71, 72, 73],
            border: name_hash(b"a"),
            ..proto::Inode::default()
        };
        spreads.learn(7, &inode);
        assert_eq!(spreads.place(7, b"a"), 7, "it has not gone yet");
        let inode = proto::Inode {
            border: u64::MAX,
            ..inode
        };
        spreads.learn(7, &inode);
        let place = spreads.place(7, b"a");
        let expected = 70 + (name_hash(b"a") >> 62);
        assert_eq!((place, spreads.whole(place)), (expected, 7));
        assert_eq!((spreads.whole(7), spreads.place(8, b"a")), (7, 8));
        let odd = proto::Inode {
            shards: vec![1, 2, 3],
            ..proto::Inode::default()
        };
        spreads.learn(9, &odd);
        assert!(spreads.shards(9).is_none());
        let shard = proto::Inode {
            shard_of: 40,
            ..proto::Inode::default()
        };
        spreads.learn(41, &shard);
        assert_eq!(spreads.whole(41), 40);
        spreads.learn(7, &proto::Inode::default());
        assert_eq!((spreads.place(7, b"a"), spreads.whole(place)), (7, 7));
    }
}
