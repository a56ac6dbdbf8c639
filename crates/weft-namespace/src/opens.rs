//! Files that sessions have open on behalf of others who deny others something, or may keep the file as it is.
//!
//! Not every open file is here: who denies nothing, and keeps nothing, is known to its gateway alone, as long as that
//! has a lease on the file (`docs/protocols/nfs4.md`).

use crate::errno::Errno;
use crate::locks::Owner;
use std::collections::BTreeMap;
use weft_types::SessionId;
use weft_wire::proto::SetOpen;

/// Most of one inode, as [`crate::LOCKS_MAX`].
pub const OPENS_MAX: usize = 4096;

/// In what is kept: the holder reads the file by itself, and locks it to read.
const KEPT_TO_READ: u32 = 1;
/// In what is kept: the holder changes the file by itself, and locks it.
pub(crate) const KEPT_TO_CHANGE: u32 = 2;

/// What is kept from who changes the file, or locks it for himself alone; or only looks at it, or locks it to read.
pub(crate) fn kept_from(exclusive: bool) -> u32 {
    match exclusive {
        true => KEPT_TO_READ | KEPT_TO_CHANGE,
        false => KEPT_TO_CHANGE,
    }
}

/// What is to be kept for the holder to have locked the file by itself: for itself alone, or to read.
pub(crate) fn kept_to_lock(exclusive: bool) -> u32 {
    match exclusive {
        true => KEPT_TO_CHANGE,
        false => KEPT_TO_READ | KEPT_TO_CHANGE,
    }
}

/// What may be said of reading and writing.
const BOTH: u32 = 3;

/// What somebody does with a file, denies others, and keeps. The bits are those of `SetOpen`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Opened {
    pub behalf: u64,
    pub access: u32,
    pub deny: u32,
    pub kept: u32,
}

impl Opened {
    /// What a request says.
    ///
    /// # Errors
    /// EINVAL: it is on nobody's behalf, or says what there is not.
    pub(crate) fn new(op: &SetOpen) -> Result<Opened, Errno> {
        let is_known = [op.access, op.deny, op.kept].iter().all(|it| *it <= BOTH);
        match is_known && op.behalf != 0 {
            true => Ok(Opened {
                behalf: op.behalf,
                access: op.access,
                deny: op.deny,
                kept: op.kept,
            }),
            false => Err(Errno::EINVAL),
        }
    }

    /// The file is not open any more.
    pub(crate) fn is_nothing(&self) -> bool {
        self.access | self.deny | self.kept == 0
    }

    fn excludes(&self, other: &Opened) -> bool {
        self.access & other.deny | self.deny & other.access != 0
    }
}

/// Who has one inode open.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Opens(BTreeMap<Owner, Opened>);

impl Opens {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in a fixed order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Owner, Opened)> + '_ {
        self.0.iter().map(|(owner, opened)| (*owner, *opened))
    }

    fn is_same(owner: Owner, opened: &Opened, of: (Owner, &Opened)) -> bool {
        owner == of.0 || owner.owner == of.0.owner && opened.behalf == of.1.behalf
    }

    /// Another owner has the file open in a way that excludes this.
    pub(crate) fn is_excluded(&self, owner: Owner, wanted: &Opened) -> bool {
        let mut others = self
            .iter()
            .filter(|(its, opened)| !Opens::is_same(*its, opened, (owner, wanted)));
        others.any(|(_, opened)| opened.excludes(wanted))
    }

    /// Somebody denies others something.
    pub(crate) fn deny_any(&self) -> bool {
        self.0.values().any(|opened| opened.deny != 0)
    }

    /// What the same owner, on the same behalf, has by way of other sessions.
    pub(crate) fn elsewhere(&self, owner: Owner, wanted: &Opened) -> Vec<(SessionId, Opened)> {
        let same = self.iter().filter(|(its, opened)| {
            its.session != owner.session && Opens::is_same(*its, opened, (owner, wanted))
        });
        same.map(|(its, opened)| (its.session, opened)).collect()
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<Opened> {
        self.0.get(&owner).copied()
    }

    pub(crate) fn insert(&mut self, owner: Owner, opened: Opened) {
        self.0.insert(owner, opened);
    }

    pub(crate) fn remove(&mut self, owner: Owner) {
        self.0.remove(&owner);
    }

    /// Of what a session has only what is not of these is left.
    pub(crate) fn keep_behalf(&mut self, session: SessionId, gone: &[u64]) {
        self.0
            .retain(|owner, opened| owner.session != session || !gone.contains(&opened.behalf));
    }

    pub(crate) fn drop_session(&mut self, session: SessionId) {
        self.0.retain(|owner, _| owner.session != session);
    }

    pub(crate) fn has_session(&self, session: SessionId) -> bool {
        self.0.keys().any(|owner| owner.session == session)
    }

    pub(crate) fn has_behalf(&self, session: SessionId, behalf: u64) -> bool {
        let mut all = self.iter();
        all.any(|(owner, opened)| owner.session == session && opened.behalf == behalf)
    }
}
