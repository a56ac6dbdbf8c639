//! Changes: one file for each operation, and the way of an entry through them.
//!
//! Each operation is `check`, which reads the state and answers a plan or an errno, and `commit`,
//! which does the plan. `touches` asks for plans without doing them.

mod checkpoints;
mod close_session;
pub(crate) mod create;
mod drop_kept;
mod drop_lease;
mod dropped;
mod jobs;
pub(crate) mod link;
mod new_reign;
mod open_session;
mod orphan;
pub(crate) mod pairs;
mod relayout;
mod release;
mod removexattr;
mod rename;
pub(crate) mod repair;
mod rmdir;
mod set_lock;
mod set_open;
pub(crate) mod set_policy;
pub(crate) mod setattr;
mod settled_size;
pub(crate) mod setxattr;
mod skip_numbers;
mod slots;
mod transactions;
mod trim_done;
mod unlink;
mod write_lease;

use crate::access;
use crate::errno::Errno;
use crate::inode::Stamp;
use crate::lingering::{self, Unkept};
use crate::state::{Context, State};
use weft_types::{Ino, Operation, SessionId};
use weft_wire::proto::op::Op;
use weft_wire::proto::{self, OpReply};

/// An inode that a change concerns: what other sessions have cached of its attributes, names or
/// data must be given back before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Touch {
    /// The inode.
    pub ino: Ino,
    /// The change takes its last name away: sessions must say whether they have it open.
    pub unlinking: bool,
    /// So must the session that makes the change: it may not know that this is what it changes.
    pub own: bool,
}

impl Touch {
    fn change(ino: Ino) -> Touch {
        Touch {
            ino,
            unlinking: false,
            own: false,
        }
    }
}

impl<'a> Context<'a> {
    fn of(entry: &'a proto::Entry) -> Context<'a> {
        let none = if entry.session == 0 {
            &access::ROOT
        } else {
            &access::NOBODY
        };
        Context {
            session: SessionId(entry.session),
            cred: entry.cred.as_ref().unwrap_or(none),
            now: Stamp::of_entry(entry.time.as_ref()),
            random: entry.random,
            avoid: &entry.avoid,
            unkept: Unkept::of_entry(entry),
        }
    }

    /// Refuses what only the service may do.
    pub(crate) fn check_service(&self) -> Result<(), Errno> {
        if self.session.0 == 0 {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Refuses what only a session can do.
    fn check_session(&self) -> Result<(), Errno> {
        if self.session.0 == 0 {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    }
}

impl State {
    /// Does a change, or refuses it: then `failure_errno` is set and nothing has changed.
    ///
    /// A change that has been done before, by session and operation number, is answered as it was
    /// and not done again. An unknown session is refused with ESTALE, and so is a late copy of a
    /// change whose reply the client has acknowledged. A session that has [`crate::REPLIES_MAX`]
    /// changes outstanding is refused with ENOBUFS; that refusal is not kept, so that the same change
    /// may be sent again.
    pub fn apply(&mut self, entry: &proto::Entry) -> OpReply {
        let session = SessionId(entry.session);
        let operation = Operation(entry.operation);
        if session.0 != 0 {
            let known = self.sessions.get_mut(&session);
            let Some(known) = known.filter(|known| !known.is_ended) else {
                return crate::failure(Errno::ESTALE);
            };
            if operation.0 != 0
                && let Some(answer) = known.meet(operation, Operation(entry.acknowledged_below))
            {
                return answer;
            }
        }
        let reply = self.perform(entry).unwrap_or_else(crate::failure);
        if operation.0 != 0
            && let Some(known) = self.sessions.get_mut(&session)
        {
            known.keep(operation, &reply);
        }
        reply
    }

    fn perform(&mut self, entry: &proto::Entry) -> Result<OpReply, Errno> {
        let ctx = &Context::of(entry);
        let op = entry
            .op
            .as_ref()
            .and_then(|op| op.op.as_ref())
            .ok_or(Errno::EINVAL)?;
        if self.is_misplaced(op) {
            return Err(Errno::EREMCHG);
        }
        match op {
            Op::Create(op) => {
                let plan = create::check(self, ctx, op)?;
                create::commit(self, ctx, op, plan)
            }
            Op::Link(op) => {
                link::check(self, ctx, op)?;
                Ok(link::commit(self, ctx, op))
            }
            Op::Unlink(op) => {
                let plan = unlink::check(self, ctx, op)?;
                Ok(unlink::commit(self, ctx, op, plan))
            }
            Op::Rmdir(op) => {
                let plan = rmdir::check(self, ctx, op)?;
                Ok(rmdir::commit(self, ctx, op, plan))
            }
            Op::Rename(op) => {
                let plan = rename::check(self, ctx, op)?;
                Ok(rename::commit(self, ctx, op, plan))
            }
            Op::Setattr(op) => {
                let plan = setattr::check(self, ctx, op)?;
                setattr::commit(self, ctx, op, plan)
            }
            Op::Setxattr(op) => {
                setxattr::check(self, ctx, op)?;
                Ok(setxattr::commit(self, ctx, op))
            }
            Op::Removexattr(op) => {
                removexattr::check(self, ctx, op)?;
                Ok(removexattr::commit(self, ctx, op))
            }
            Op::SetPolicy(op) => {
                let policy = set_policy::check(self, ctx, op)?;
                Ok(set_policy::commit(self, ctx, op, policy))
            }
            Op::SetLock(op) => set_lock::apply(self, ctx, op),
            Op::SetOpen(op) => set_open::apply(self, ctx, op),
            Op::DropKept(op) => drop_kept::apply(self, ctx, op),
            Op::WriteLease(op) => {
                write_lease::check(self, ctx, op)?;
                write_lease::commit(self, ctx, op)
            }
            Op::DropLease(op) => drop_lease::apply(self, ctx, op),
            Op::Release(op) => release::apply(self, ctx, op),
            Op::TrimDone(op) => trim_done::apply(self, op),
            Op::OpenSession(op) => open_session::apply(self, ctx, op),
            Op::CloseSession(op) => close_session::apply(self, ctx, op),
            Op::SetPairState(op) => pairs::set_state(self, ctx, op),
            Op::Dropped(op) => dropped::apply(self, ctx, op),
            Op::SettledSize(op) => {
                settled_size::check(self, ctx, op)?;
                Ok(settled_size::commit(self, ctx, op))
            }
            Op::NewReign(op) => new_reign::apply(self, ctx, op),
            Op::AddPair(op) => pairs::add(self, ctx, op),
            Op::Orphan(op) => orphan::apply(self, ctx, op),
            Op::LetGo(op) => lingering::let_go(self, ctx, op),
            Op::RelayoutBegin(op) => relayout::begin(self, ctx, op),
            Op::Relayout(op) => relayout::commit(self, ctx, op),
            Op::RelayoutEnd(op) => relayout::end(self, ctx, op),
            Op::StartJob(op) => jobs::start(self, ctx, op),
            Op::MarkJob(op) => jobs::mark(self, ctx, op),
            Op::EndJob(op) => jobs::end(self, ctx, op),
            Op::RemovePair(op) => pairs::remove(self, ctx, op),
            Op::AdmitPair(op) => pairs::admit(self, ctx, op),
            Op::GivePolicy(op) => jobs::give_policy(self, ctx, op),
            Op::RetireStore(op) => pairs::retire_store(self, ctx, op),
            Op::NoteLife(op) => pairs::note_life(self, ctx, op),
            Op::SkipNumbers(op) => skip_numbers::apply(self, ctx, op),
            Op::Found(op) => transactions::found(self, ctx, op),
            Op::Prepare(op) => transactions::prepare(self, ctx, op),
            Op::Commit(op) => transactions::commit(self, ctx, op),
            Op::Finish(op) => transactions::finish(self, ctx, op),
            Op::Forget(op) => transactions::forget(self, ctx, op),
            Op::PlanCheckpoint(_)
            | Op::KeepCheckpoint(_)
            | Op::EndCheckpoint(_)
            | Op::ForgetCheckpoint(_)
            | Op::BeginRestore(_)
            | Op::EndRestore(_)
            | Op::Cut(_)
            | Op::DropCut(_)
            | Op::ReleaseHeld(_)
            | Op::CloseForRestore(_)
            | Op::LoadRecords(_)
            | Op::TakeLoaded(_)
            | Op::SweepReplaced(_)
            | Op::ReopenRestored(_) => checkpoints::apply(self, ctx, op),
            Op::Receive(op) => slots::receive(self, ctx, op),
            Op::Give(op) => slots::give(self, ctx, op),
            Op::Own(op) => slots::own(self, ctx, op),
            Op::Discard(op) => slots::discard(self, ctx, op),
            Op::Adopt(op) => slots::adopt(self, ctx, op),
            Op::Repair(op) => repair::apply(self, ctx, op),
            // Done by several groups, or not at all.
            Op::Spread(_) | Op::Split(_) => Err(Errno::EXDEV),
            Op::TakeNumbers(op) => transactions::take_numbers(self, ctx, op),
        }
    }

    /// The inodes whose cached attributes, names or data this change would make wrong, in order and
    /// each once; none if the change would be refused anyway. What the asking session itself has
    /// cached counts too: it is for the caller to leave that out.
    ///
    /// Besides what changes, this names an existing file that a Create answers while another session
    /// holds its write lease, because only the holder knows its size.
    pub fn touches(&self, entry: &proto::Entry) -> Vec<Touch> {
        let ctx = &Context::of(entry);
        let Some(op) = entry.op.as_ref().and_then(|op| op.op.as_ref()) else {
            return Vec::new();
        };
        let touched = match op {
            Op::Create(op) => {
                create::check(self, ctx, op).map(|p| create::touches(self, ctx, op, &p))
            }
            Op::Link(op) => link::check(self, ctx, op)
                .map(|()| vec![Touch::change(Ino(op.parent)), Touch::change(Ino(op.ino))]),
            Op::Unlink(op) => unlink::check(self, ctx, op)
                .map(|p| vec![Touch::change(Ino(op.parent)), self.victim(p.victim)]),
            Op::Rmdir(op) => rmdir::check(self, ctx, op)
                .map(|p| vec![Touch::change(Ino(op.parent)), self.victim(p.victim)]),
            Op::Rename(op) => rename::check(self, ctx, op).map(|p| rename::touches(self, op, &p)),
            Op::Setattr(op) => {
                setattr::check(self, ctx, op).map(|plan| setattr::touches(Ino(op.ino), &plan))
            }
            Op::Setxattr(op) => {
                setxattr::check(self, ctx, op).map(|()| vec![Touch::change(Ino(op.ino))])
            }
            Op::Removexattr(op) => {
                removexattr::check(self, ctx, op).map(|()| vec![Touch::change(Ino(op.ino))])
            }
            Op::SetPolicy(op) => {
                set_policy::check(self, ctx, op).map(|_| vec![Touch::change(Ino(op.ino))])
            }
            Op::WriteLease(op) => {
                write_lease::check(self, ctx, op).map(|()| vec![Touch::change(Ino(op.ino))])
            }
            Op::SettledSize(op) => {
                settled_size::check(self, ctx, op).map(|()| vec![Touch::change(Ino(op.ino))])
            }
            // Sessions that have the file open under a lease, for who denies nothing, say so before they give that back.
            Op::SetOpen(op) => match op.deny {
                0 => Ok(Vec::new()),
                _ => Ok(vec![Touch::change(Ino(op.ino))]),
            },
            // These change nothing that a client caches of an inode.
            Op::SetLock(_)
            | Op::DropKept(_)
            | Op::DropLease(_)
            | Op::Release(_)
            | Op::TrimDone(_)
            | Op::OpenSession(_)
            | Op::CloseSession(_)
            | Op::SetPairState(_)
            | Op::Dropped(_)
            | Op::NewReign(_)
            | Op::AddPair(_)
            | Op::Orphan(_)
            | Op::LetGo(_)
            | Op::RelayoutBegin(_)
            | Op::RelayoutEnd(_)
            | Op::StartJob(_)
            | Op::MarkJob(_)
            | Op::EndJob(_)
            | Op::RemovePair(_)
            | Op::AdmitPair(_)
            | Op::GivePolicy(_)
            | Op::RetireStore(_)
            | Op::NoteLife(_)
            | Op::SkipNumbers(_)
            | Op::Found(_)
            | Op::Forget(_)
            | Op::PlanCheckpoint(_)
            | Op::KeepCheckpoint(_)
            | Op::EndCheckpoint(_)
            | Op::ForgetCheckpoint(_)
            | Op::BeginRestore(_)
            | Op::EndRestore(_)
            | Op::Cut(_)
            | Op::DropCut(_)
            | Op::ReleaseHeld(_)
            | Op::CloseForRestore(_)
            | Op::LoadRecords(_)
            | Op::TakeLoaded(_)
            | Op::SweepReplaced(_)
            | Op::ReopenRestored(_)
            | Op::Receive(_)
            | Op::Give(_)
            | Op::Own(_)
            | Op::Discard(_)
            | Op::Adopt(_)
            | Op::Spread(_)
            | Op::Split(_)
            | Op::TakeNumbers(_) => Ok(Vec::new()),
            Op::Prepare(op) => Ok(transactions::touches(self, &op.parts)),
            Op::Commit(op) => Ok(transactions::touches(self, &op.parts)),
            Op::Finish(op) => Ok(transactions::finishes(self, op)),
            Op::Repair(op) => Ok(repair::touches(op)),
            // Others have given everything back before the WRITE lease was given, which its holder has.
            Op::Relayout(_) => Ok(Vec::new()),
        };
        let mut touched = touched.unwrap_or_default();
        // One that is both changed and unlinked is unlinked: true sorts last.
        touched.sort_unstable();
        touched.reverse();
        touched.dedup_by_key(|touch| touch.ino);
        touched.reverse();
        touched
    }

    /// The touch of an inode that loses a name.
    fn victim(&self, ino: Ino) -> Touch {
        let last = self
            .get(ino)
            .is_ok_and(|inode| inode.nlink <= 1 || inode.is_directory());
        Touch {
            unlinking: last,
            ..Touch::change(ino)
        }
    }
}
