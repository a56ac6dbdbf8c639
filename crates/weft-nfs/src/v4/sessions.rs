//! Sessions: slots, in each of which one call at a time is done, exactly once (RFC 8881, 2.10.6).

use super::back::Back;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use weft_xdr::nfs4::{SEQUENCE4args, channel_attrs4, nfsstat4};

/// Slots of a session at most: a connection may have as many calls unanswered.
const SLOTS_MAX: u32 = 64;
/// Operations of a COMPOUND at most.
pub(super) const OPERATIONS_MAX: u32 = 128;
/// Bytes of a request or a reply at most: the largest READ or WRITE, and what stands around it.
const MESSAGE_BYTES: u32 = super::TRANSFER_MAX + (64 << 10);
/// Bytes of a reply that is kept at most.
const KEPT_BYTES: u32 = 8 << 10;
/// A reply that has less room can hold no SEQUENCE and anything behind it.
const REPLY_BYTES_MIN: u32 = 256;

pub(super) type SessionId = [u8; 16];

/// What was in a slot last.
#[derive(Debug, Default)]
enum Call {
    #[default]
    None,
    /// It is being done.
    Busy,
    /// It was answered so; None: that is not kept.
    Done(Option<Bytes>),
}

#[derive(Debug, Default)]
struct Slot {
    sequence: u32,
    /// Of what the call asks.
    hash: u64,
    call: Call,
}

/// A client's session with this gateway.
pub(super) struct Session {
    pub id: SessionId,
    pub client: u64,
    /// As agreed with the client.
    pub attributes: channel_attrs4,
    pub back: Back,
    slots: RefCell<Vec<Slot>>,
    /// Calls that wait for others.
    waiting: Cell<u32>,
}

/// A call that waits for others, for as long as it does.
pub(super) struct Waits<'a>(&'a Session);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

/// What a SEQUENCE is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    New,
    /// It came before, and this is the answer.
    Again(Bytes),
    /// It came before, and its answer is not kept.
    NotKept,
}

/// What is agreed of the attributes that a client asks for.
pub(super) fn agreed(asked: &channel_attrs4) -> Result<channel_attrs4, nfsstat4> {
    let agreed = channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: asked.ca_maxrequestsize.min(MESSAGE_BYTES),
        ca_maxresponsesize: asked.ca_maxresponsesize.min(MESSAGE_BYTES),
        ca_maxresponsesize_cached: asked.ca_maxresponsesize_cached.min(KEPT_BYTES),
        ca_maxoperations: asked.ca_maxoperations.min(OPERATIONS_MAX),
        ca_maxrequests: asked.ca_maxrequests.min(SLOTS_MAX),
        ca_rdma_ird: Vec::new(),
    };
    let is_usable =
        agreed.ca_maxrequestsize >= REPLY_BYTES_MIN && agreed.ca_maxresponsesize >= REPLY_BYTES_MIN;
    match (is_usable, agreed.ca_maxrequests, agreed.ca_maxoperations) {
        (false, _, _) => Err(nfsstat4::NFS4ERR_TOOSMALL),
        (true, 0, _) | (true, _, 0) => Err(nfsstat4::NFS4ERR_INVAL),
        _ => Ok(agreed),
    }
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        client: u64,
        attributes: channel_attrs4,
        back: Back,
    ) -> Session {
        let slots = (0..attributes.ca_maxrequests).map(|_| Slot::default());
        Session {
            id,
            client,
            back,
            slots: RefCell::new(slots.collect()),
            waiting: Cell::new(0),
            attributes,
        }
    }

    pub(super) fn highest_slot(&self) -> u32 {
        self.attributes.ca_maxrequests - 1
    }

    /// A call is going to wait for others. None: as many do as may, for there must be slots left for those that they
    /// wait for.
    pub(super) fn wait(&self) -> Option<Waits<'_>> {
        if self.waiting.get() >= self.attributes.ca_maxrequests / 2 {
            return None;
        }
        self.waiting.set(self.waiting.get() + 1);
        Some(Waits(self))
    }

    /// A call begins in its slot.
    ///
    /// # Errors
    /// BADSLOT, BAD_HIGH_SLOT, SEQ_MISORDERED; DELAY: it came before, and is being done; SEQ_FALSE_RETRY: another call
    /// came before under its number.
    pub(super) fn begin(&self, args: &SEQUENCE4args, hash: u64) -> Result<Begun, nfsstat4> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(args.sa_slotid as usize);
        let slot = slot.ok_or(nfsstat4::NFS4ERR_BADSLOT)?;
        if args.sa_highest_slotid > self.highest_slot() {
            return Err(nfsstat4::NFS4ERR_BAD_HIGH_SLOT);
        }
        if args.sa_sequenceid == slot.sequence.wrapping_add(1) {
            if matches!(slot.call, Call::Busy) {
                return Err(nfsstat4::NFS4ERR_SEQ_MISORDERED);
            }
            (slot.sequence, slot.hash) = (args.sa_sequenceid, hash);
            slot.call = Call::Busy;
            return Ok(Begun::New);
        }
        match &slot.call {
            _ if args.sa_sequenceid != slot.sequence => Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            Call::None => Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            Call::Busy => Err(nfsstat4::NFS4ERR_DELAY),
            Call::Done(_) if slot.hash != hash => Err(nfsstat4::NFS4ERR_SEQ_FALSE_RETRY),
            Call::Done(Some(reply)) => Ok(Begun::Again(reply.clone())),
            Call::Done(None) => Ok(Begun::NotKept),
        }
    }

    /// A call was answered.
    pub(super) fn done(&self, slot: u32, reply: Option<Bytes>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(slot as usize) {
            slot.call = Call::Done(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> channel_attrs4 {
        channel_attrs4 {
            ca_headerpadsize: 5,
            ca_maxrequestsize: u32::MAX,
            ca_maxresponsesize: 4096,
            ca_maxresponsesize_cached: u32::MAX,
            ca_maxoperations: 8,
            ca_maxrequests: 2,
            ca_rdma_ird: vec![1],
        }
    }

    fn call(slot: u32, sequence: u32) -> SEQUENCE4args {
        SEQUENCE4args {
            sa_sessionid: [0; 16],
            sa_sequenceid: sequence,
            sa_slotid: slot,
            sa_highest_slotid: 1,
            sa_cachethis: true,
        }
    }

    #[test]
    fn attributes_are_cut_to_what_can_be_done() {
        let agreed = agreed(&asked()).unwrap();
        assert_eq!(agreed.ca_maxrequestsize, MESSAGE_BYTES);
        assert_eq!(agreed.ca_maxresponsesize, 4096);
        assert_eq!(agreed.ca_maxresponsesize_cached, KEPT_BYTES);
        assert_eq!((agreed.ca_headerpadsize, agreed.ca_rdma_ird.len()), (0, 0));
        let without = |change: fn(&mut channel_attrs4)| {
            let mut asked = asked();
            change(&mut asked);
            super::agreed(&asked)
        };
        let small = without(|it| it.ca_maxresponsesize = 100);
        assert_eq!(small, Err(nfsstat4::NFS4ERR_TOOSMALL));
        let none = without(|it| it.ca_maxrequests = 0);
        assert_eq!(none, Err(nfsstat4::NFS4ERR_INVAL));
    }

    #[test]
    fn a_call_is_done_once_and_told_again() {
        let session = Session::new([0; 16], 1, agreed(&asked()).unwrap(), Back::new(1, 1, &[]));
        let misordered = Err(nfsstat4::NFS4ERR_SEQ_MISORDERED);
        assert_eq!(session.begin(&call(0, 0), 1), misordered);
        assert_eq!(session.begin(&call(0, 2), 1), misordered);
        assert_eq!(session.begin(&call(0, 1), 1), Ok(Begun::New));
        // While it is being done.
        let delay = Err(nfsstat4::NFS4ERR_DELAY);
        assert_eq!(session.begin(&call(0, 1), 1), delay);
        assert_eq!(session.begin(&call(0, 2), 1), misordered);
        assert_eq!(session.begin(&call(1, 1), 1), Ok(Begun::New));
        let reply = Bytes::from_static(b"done");
        session.done(0, Some(reply.clone()));
        session.done(1, None);
        assert_eq!(session.begin(&call(0, 1), 1), Ok(Begun::Again(reply)));
        let other = Err(nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
        assert_eq!(session.begin(&call(0, 1), 2), other);
        assert_eq!(session.begin(&call(1, 1), 1), Ok(Begun::NotKept));
        assert_eq!(session.begin(&call(0, 2), 1), Ok(Begun::New));
        assert_eq!(session.begin(&call(0, 1), 1), misordered);
        let bad = Err(nfsstat4::NFS4ERR_BADSLOT);
        assert_eq!(session.begin(&call(2, 1), 1), bad);
        let high = SEQUENCE4args {
            sa_highest_slotid: 2,
            ..call(1, 2)
        };
        assert_eq!(
            session.begin(&high, 1),
            Err(nfsstat4::NFS4ERR_BAD_HIGH_SLOT)
        );
    }

    #[test]
    fn not_all_calls_wait() {
        let session = Session::new([0; 16], 1, agreed(&asked()).unwrap(), Back::new(1, 1, &[]));
        let waits = session.wait();
        assert!(waits.is_some() && session.wait().is_none());
        drop(waits);
        assert!(session.wait().is_some());
    }

    #[test]
    fn numbers_of_calls_turn_over() {
        let session = Session::new([0; 16], 1, agreed(&asked()).unwrap(), Back::new(1, 1, &[]));
        session.slots.borrow_mut()[0].sequence = u32::MAX;
        assert_eq!(session.begin(&call(0, 0), 1), Ok(Begun::New));
    }
}
