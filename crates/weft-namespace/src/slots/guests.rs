//! Guests: sessions of other groups that have something in slots that have come from there.

use crate::locks::Owner;
use crate::sessions::Session;
use crate::state::State;
use weft_types::{Ino, SessionId, Slot};
use weft_wire::proto::op::Op;

impl State {
    /// The session is another group's.
    pub fn is_guest(&self, session: SessionId) -> bool {
        session.group() != self.group
    }

    /// All guests, each with a slot in which it has something, in order.
    pub fn guests(&self) -> impl Iterator<Item = (SessionId, Slot)> + '_ {
        let guests = self.sessions.iter().filter(|(id, _)| self.is_guest(**id));
        guests.map(|(id, guest)| {
            let ino = guest.locks.first().or_else(|| guest.holds.first());
            let ino = ino.or_else(|| guest.opens.first());
            (*id, ino.copied().unwrap_or_default().slot())
        })
    }

    /// The session is a guest that has something here.
    pub fn has_guest(&self, session: SessionId) -> bool {
        self.is_guest(session) && self.sessions.contains_key(&session)
    }

    /// The sessions that keep an inode open, or have locks on it.
    pub fn has_something_of(&self, ino: Ino) -> Vec<SessionId> {
        let holders = self.holds.get(&ino).into_iter().flatten().copied();
        let locks = self.locks.get(&ino).into_iter();
        let owners = locks.flat_map(|locks| locks.iter().map(|(_, range)| range.owner.session));
        let opens = self.opens.get(&ino).into_iter();
        let openers = opens.flat_map(|opens| opens.iter().map(|(owner, _)| owner.session));
        holders.chain(owners).chain(openers).collect()
    }

    /// A change, by a session, that cannot be answered before it is known who a guest is: that may be the
    /// same client.
    pub fn waits_for_guests(&self, op: &Op) -> bool {
        match op {
            Op::SetLock(op) => self.is_locked_by_guest(Ino(op.ino)),
            Op::SetOpen(op) => self.is_opened_by_guest(Ino(op.ino)),
            Op::Setattr(op) => self.is_kept_by_guest(Ino(op.ino)),
            Op::Setxattr(op) => self.is_kept_by_guest(Ino(op.ino)),
            Op::Removexattr(op) => self.is_kept_by_guest(Ino(op.ino)),
            Op::WriteLease(op) => self.is_kept_by_guest(Ino(op.ino)),
            _ => false,
        }
    }

    /// A guest has a lock on the inode.
    pub fn is_locked_by_guest(&self, ino: Ino) -> bool {
        let locks = self.locks.get(&ino);
        locks.is_some_and(|locks| {
            locks
                .iter()
                .any(|(_, range)| self.is_guest(range.owner.session))
        })
    }

    /// A guest has the inode open on behalf of somebody.
    fn is_opened_by_guest(&self, ino: Ino) -> bool {
        let opens = self.opens.get(&ino);
        opens.is_some_and(|opens| opens.iter().any(|(owner, _)| self.is_guest(owner.session)))
    }

    /// The inode has no name, and a guest has it open.
    pub fn is_kept_by_guest(&self, ino: Ino) -> bool {
        let Some(holders) = self.holds.get(&ino) else {
            return false;
        };
        let has_name = self.inodes.get(&ino).is_none_or(|inode| inode.nlink > 0);
        !has_name && holders.iter().any(|session| self.is_guest(*session))
    }

    /// What a guest has is `session`'s from now on.
    pub(crate) fn adopt(&mut self, guest: SessionId, session: SessionId) {
        let Some(had) = self.sessions.remove(&guest) else {
            return;
        };
        for ino in had.holds {
            if let Some(holders) = self.holds.get_mut(&ino) {
                holders.remove(&guest);
            }
            self.hold(ino, session);
        }
        for ino in had.opens {
            let opens = self.opens.get(&ino).into_iter();
            let of_guest: Vec<_> = opens
                .flat_map(|opens| opens.iter())
                .filter(|(owner, _)| owner.session == guest)
                .collect();
            for (owner, opened) in of_guest {
                self.close_for(ino, owner);
                self.open_for(ino, Owner { session, ..owner }, opened);
            }
        }
        for ino in had.locks {
            if let Some(locks) = self.locks.get_mut(&ino) {
                locks.rename(guest, session);
            }
            if let Some(keeper) = self.sessions.get_mut(&session) {
                keeper.locks.insert(ino);
            }
        }
    }

    /// A guest that has nothing any more is none.
    pub(crate) fn forget_idle_guest(&mut self, session: SessionId) {
        let is_idle = |guest: &Session| {
            guest.holds.is_empty() && guest.locks.is_empty() && guest.opens.is_empty()
        };
        if self.is_guest(session) && self.sessions.get(&session).is_some_and(is_idle) {
            self.sessions.remove(&session);
        }
    }
}
