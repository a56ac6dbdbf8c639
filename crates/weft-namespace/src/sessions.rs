//! Sessions of clients, and the replies that make each change happen exactly once.
//!
//! A session keeps the reply of every change that its client may still ask about: a change that is
//! sent again (after a broken connection, to a new active) is answered from here and not done twice.
//! With each change the client says below which number it has all replies; those are forgotten, and
//! a change with such a number that still arrives is a late copy: refused, never done again.

use crate::errno::Errno;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use weft_types::{Ino, Operation};
use weft_wire::proto::OpReply;

/// Most replies that are kept for one session. A client that has this many changes without having
/// heard of the first is broken: it gets ENOBUFS, and may send the same change again once it has
/// acknowledged some.
pub const REPLIES_MAX: usize = 4096;

/// Longest name of a session, in bytes; what is longer is cut.
pub const SESSION_NAME_MAX: usize = 255;

#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Session {
    pub name: String,
    /// The client has the replies of all operations below this.
    pub acknowledged_below: Operation,
    /// Replies by operation, as protobuf: a tenth of what the struct takes.
    replies: BTreeMap<Operation, Box<[u8]>>,
    /// Which of these say that a file has other objects from then on, and which file.
    cut: BTreeMap<Operation, Ino>,
    reply_bytes: usize,
    pub write_leases: BTreeSet<Ino>,
    /// Inodes that the session has open though they have, or may soon have, no name.
    pub holds: BTreeSet<Ino>,
    /// Inodes on which it holds locks.
    pub locks: BTreeSet<Ino>,
    /// Inodes that it has open on behalf of who denies or keeps something.
    pub opens: BTreeSet<Ino>,
    /// For so many milliseconds after its end what it holds on behalf of others is kept; 0: not at all.
    pub keep_ms: u64,
    /// Its term in milliseconds, if it has one of its own; else 0.
    pub term_ms: u64,
    /// It moves files, and writes nothing but the copies that it makes of them.
    pub only_moves: bool,
    /// It has ended, and is kept (`remnants.rs`).
    pub is_ended: bool,
}

impl Session {
    pub(crate) fn new(name: &str) -> Session {
        let mut end = name.len().min(SESSION_NAME_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Session {
            name: name[..end].to_owned(),
            ..Session::default()
        }
    }

    /// The reply of an operation that was done, or the refusal of one that was done and forgotten.
    pub(crate) fn answered(&self, operation: Operation) -> Option<OpReply> {
        if let Some(bytes) = self.replies.get(&operation) {
            let reply = OpReply::decode(&bytes[..]);
            return Some(reply.expect("encoded by `keep`, or checked when the image was loaded"));
        }
        (operation < self.acknowledged_below).then(|| crate::failure(Errno::ESTALE))
    }

    /// Looks an arriving operation up, and takes in what its client has acknowledged. None: it is new
    /// and is to be done; else this is its answer.
    pub(crate) fn meet(
        &mut self,
        operation: Operation,
        acknowledged_below: Operation,
    ) -> Option<OpReply> {
        let done = self.answered(operation);
        if done.is_some() {
            return done;
        }
        if acknowledged_below > self.acknowledged_below {
            self.acknowledged_below = acknowledged_below;
            self.cut = self.cut.split_off(&acknowledged_below);
            let kept = self.replies.split_off(&acknowledged_below);
            let forgotten = std::mem::replace(&mut self.replies, kept);
            self.reply_bytes -= forgotten.values().map(|r| r.len()).sum::<usize>();
        }
        if operation < self.acknowledged_below {
            return Some(crate::failure(Errno::ESTALE));
        }
        (self.replies.len() >= REPLIES_MAX).then(|| crate::failure(Errno::ENOBUFS))
    }

    /// Files that were given other objects, by operations whose replies are kept.
    pub(crate) fn cut_unheard(&self) -> impl Iterator<Item = (Operation, Ino)> {
        self.cut.iter().map(|(operation, ino)| (*operation, *ino))
    }

    pub(crate) fn keep(&mut self, operation: Operation, reply: &OpReply) {
        self.keep_encoded(operation, reply, reply.encode_to_vec().into());
    }

    /// The same, as it stands in an image.
    ///
    /// # Errors
    /// If it is no reply.
    pub(crate) fn restore_reply(
        &mut self,
        operation: Operation,
        encoded: &[u8],
    ) -> Result<(), prost::DecodeError> {
        let reply = OpReply::decode(encoded)?;
        self.keep_encoded(operation, &reply, encoded.into());
        Ok(())
    }

    fn keep_encoded(&mut self, operation: Operation, reply: &OpReply, encoded: Box<[u8]>) {
        if let Some(attr) = reply.attr.filter(|_| reply.cut) {
            self.cut.insert(operation, Ino(attr.ino));
        }
        self.reply_bytes += encoded.len();
        if let Some(old) = self.replies.insert(operation, encoded) {
            self.reply_bytes -= old.len();
        }
    }

    pub(crate) fn replies(&self) -> impl ExactSizeIterator<Item = (Operation, &[u8])> {
        self.replies
            .iter()
            .map(|(operation, reply)| (*operation, &reply[..]))
    }

    pub(crate) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }
}
