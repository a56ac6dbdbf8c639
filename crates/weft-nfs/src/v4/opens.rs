//! Open files, and what their openers let others do (RFC 8881, 9.7 to 9.11). Pure.

use super::stateids::{Name, next};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_xdr::nfs4::{nfsstat4, stateid4};

/// What an opener does, and denies others: bit 0 reading, bit 1 writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    pub access: u32,
    pub deny: u32,
}

/// Reading, as a bit of a [`Share`].
pub(super) const READ: u32 = 1;
/// Writing.
pub(super) const WRITE: u32 = 2;

impl Share {
    fn with(self, other: Share) -> Share {
        Share {
            access: self.access | other.access,
            deny: self.deny | other.deny,
        }
    }

    fn is_within(self, other: Share) -> bool {
        self.with(other) == other
    }

    fn excludes(self, other: Share) -> bool {
        self.access & other.deny != 0 || other.access & self.deny != 0
    }
}

/// A file that an owner of a client has open.
#[derive(Debug)]
pub(super) struct Open {
    pub client: u64,
    /// As whom the metadata service knows the client.
    pub behalf: u64,
    pub number: u32,
    pub owner: Bytes,
    pub ino: u64,
    /// The gateway's session by which the metadata service knows of it (`kept.rs`); 0: it does not.
    pub kept_in: Cell<u64>,
    /// The service knew of it, and does no more.
    pub is_lost: Cell<bool>,
    share: Cell<Share>,
    /// Of each OPEN that is in effect.
    parts: RefCell<BTreeSet<Share>>,
    seqid: Cell<u32>,
}

impl Open {
    pub(super) fn stateid(&self) -> stateid4 {
        self.name().stateid()
    }

    pub(super) fn name(&self) -> Name {
        Name {
            client: self.client,
            number: self.number,
            seqid: self.seqid.get(),
        }
    }

    pub(super) fn may(&self, access: u32) -> bool {
        self.share.get().access & access == access
    }

    pub(super) fn share(&self) -> Share {
        self.share.get()
    }

    fn changed(&self) {
        self.seqid.set(next(self.seqid.get()));
    }

    /// A part of it that was new is not to be after all.
    pub(super) fn withdraw(&self, part: Share) {
        let mut parts = self.parts.borrow_mut();
        parts.remove(&part);
        let all = parts.iter().fold(Share::default(), |all, it| all.with(*it));
        self.share.set(all);
    }

    /// What is no longer wanted is given up.
    ///
    /// # Errors
    /// INVAL if no part of what was opened is just this.
    pub(super) fn downgrade(&self, to: Share) -> Result<(), nfsstat4> {
        let mut parts = self.parts.borrow_mut();
        let kept: BTreeSet<Share> = parts
            .iter()
            .copied()
            .filter(|it| it.is_within(to))
            .collect();
        let all = kept.iter().fold(Share::default(), |all, it| all.with(*it));
        if to.access == 0 || all != to {
            return Err(nfsstat4::NFS4ERR_INVAL);
        }
        *parts = kept;
        self.share.set(to);
        self.changed();
        Ok(())
    }
}

/// What is new of an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// The owner did not have the file open.
    All,
    /// Not in this way.
    Part,
    None,
}

/// All opens, by file.
#[derive(Debug, Default)]
pub(super) struct Opens(BTreeMap<u64, Vec<Rc<Open>>>);

impl Opens {
    /// Opens a file, or opens it once more. `number` is taken if the owner does not have it open yet.
    ///
    /// # Errors
    /// SHARE_DENIED.
    pub(super) fn open(
        &mut self,
        (client, behalf, owner): (u64, u64, &Bytes),
        ino: u64,
        share: Share,
        number: u32,
    ) -> Result<(Rc<Open>, Novelty), nfsstat4> {
        let is_own = |open: &Open| open.client == client && open.owner == owner;
        let of_file = self.0.entry(ino).or_default();
        let others = of_file.iter().filter(|open| !is_own(open));
        if others
            .into_iter()
            .any(|open| open.share.get().excludes(share))
        {
            return Err(nfsstat4::NFS4ERR_SHARE_DENIED);
        }
        if let Some(open) = of_file.iter().find(|open| is_own(open)) {
            open.share.set(open.share.get().with(share));
            let is_part_new = open.parts.borrow_mut().insert(share);
            open.changed();
            let novelty = match is_part_new {
                true => Novelty::Part,
                false => Novelty::None,
            };
            return Ok((open.clone(), novelty));
        }
        let open = Rc::new(Open {
            client,
            behalf,
            number,
            owner: owner.clone(),
            ino,
            kept_in: Cell::new(0),
            is_lost: Cell::new(false),
            share: Cell::new(share),
            parts: RefCell::new([share].into()),
            seqid: Cell::new(1),
        });
        of_file.push(open.clone());
        Ok((open, Novelty::All))
    }

    /// Whether somebody denies this to everybody else. `but`: not counting this one.
    pub(super) fn denies(&self, ino: u64, access: u32, but: Option<&Open>) -> bool {
        let opens = self.0.get(&ino).into_iter().flatten();
        let is_other = |open: &Rc<Open>| but.is_none_or(|but| !std::ptr::eq(but, open.as_ref()));
        opens
            .filter(|open| is_other(open))
            .any(|open| open.share.get().deny & access != 0)
    }

    /// Another client than this one has it open.
    pub(super) fn is_open_beside(&self, ino: u64, client: u64) -> bool {
        let mut opens = self.0.get(&ino).into_iter().flatten();
        opens.any(|open| open.client != client)
    }

    /// Somebody has it open for writing.
    pub(super) fn are_writing(&self, ino: u64) -> bool {
        let mut opens = self.0.get(&ino).into_iter().flatten();
        opens.any(|open| open.may(WRITE))
    }

    /// Those of a file.
    pub(super) fn of(&self, ino: u64) -> Vec<Rc<Open>> {
        self.0.get(&ino).cloned().unwrap_or_default()
    }

    pub(super) fn close(&mut self, open: &Open) {
        if let Some(of_file) = self.0.get_mut(&open.ino) {
            of_file.retain(|its| !std::ptr::eq(its.as_ref(), open));
            if of_file.is_empty() {
                self.0.remove(&open.ino);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Bytes = Bytes::from_static(b"a");
    const B: Bytes = Bytes::from_static(b"b");

    fn share(access: u32, deny: u32) -> Share {
        Share { access, deny }
    }

    #[test]
    fn what_one_denies_another_may_not_have() {
        // Every pair of shares: the second is let in if and only if neither denies what the other does.
        for first in 0..16 {
            for second in 0..16 {
                let (one, two) = (share(first % 4, first / 4), share(second % 4, second / 4));
                let mut opens = Opens::default();
                opens.open((1, 9, &A), 5, one, 1).unwrap();
                let fits = one.access & two.deny == 0 && two.access & one.deny == 0;
                assert_eq!(opens.open((1, 9, &B), 5, two, 2).is_ok(), fits);
                assert!(opens.open((1, 9, &B), 6, two, 3).is_ok());
                // Nobody is in his own way.
                opens.open((1, 9, &A), 7, one, 4).unwrap();
                assert!(opens.open((1, 9, &A), 7, two, 5).is_ok());
            }
        }
    }

    #[test]
    fn an_owner_opens_once_more_and_gives_up_what_it_opened() {
        let mut opens = Opens::default();
        let (open, novelty) = opens.open((1, 9, &A), 5, share(READ, 0), 1).unwrap();
        assert!(novelty == Novelty::All && !open.may(WRITE));
        let (again, novelty) = opens.open((1, 9, &A), 5, share(WRITE, READ), 2).unwrap();
        assert!(Rc::ptr_eq(&open, &again) && novelty == Novelty::Part);
        assert_eq!((open.name().seqid, open.number), (2, 1));
        assert!(open.may(READ | WRITE));
        assert!(opens.denies(5, READ, None) && !opens.denies(5, READ, Some(&open)));
        for wrong in [share(0, 0), share(READ, READ), share(READ | WRITE, 0)] {
            assert_eq!(open.downgrade(wrong), Err(nfsstat4::NFS4ERR_INVAL));
        }
        open.downgrade(share(READ, 0)).unwrap();
        assert_eq!(open.name().seqid, 3);
        assert!(!open.may(WRITE) && !opens.denies(5, READ, None));
        let (_, novelty) = opens.open((1, 9, &A), 5, share(READ, 0), 3).unwrap();
        assert_eq!(novelty, Novelty::None);
        opens.open((1, 9, &A), 5, share(WRITE, WRITE), 4).unwrap();
        open.withdraw(share(WRITE, WRITE));
        assert_eq!(open.share(), share(READ, 0));
        opens.close(&open);
        assert!(opens.0.is_empty());
    }
}
