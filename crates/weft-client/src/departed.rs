//! Inodes that have lost their last name and that the face's own clients may still come with: a kernel goes on using the
//! number of an inode until it has forgotten it (`docs/protocols/leases.md`, "What the kernel still has").
//!
//! The service lets such an inode linger for a moment. Within that this client may have it kept: as if it were
//! open here, until it is neither open nor known to the face.

use crate::core::Core;
use crate::node::{Node, NodeState};
use crate::revoke::owed_setattr;
use crate::types::{Errno, Result};
use std::rc::Rc;
use weft_wire::proto::{self, op};

impl Core {
    /// The face's clients may come with this number, though the inode has no name.
    pub fn face_has(&self, ino: u64) -> bool {
        let face = self.invalidator.borrow().clone();
        face.is_some_and(|face| face.has(ino))
    }

    /// An inode has lost its last name (or is about to): `here`, by this client.
    pub fn departs(&self, ino: u64, here: bool) {
        let face = self.invalidator.borrow().clone();
        if let Some(face) = face {
            face.departs(ino, here);
        }
    }

    /// Has the service keep an inode without a name for this client.
    ///
    /// # Errors
    /// ESTALE: it is gone. EIO as with any change.
    pub async fn keep_nameless(self: &Rc<Self>, ino: u64) -> Result<()> {
        let node = self.nodes.get_or_new(ino);
        // What is being let go is let go first.
        self.patiently(async {
            while node.unlinking.get() > 0 {
                node.wake.notified().await;
            }
            Ok(())
        })
        .await?;
        let keeping = Keeping::begin(&node);
        self.keep(&node).await?;
        drop(keeping);
        self.end_if_unused(&node);
        Ok(())
    }

    /// Asks for what an operation needs of an inode. One that is open here may have lost its last name before the service
    /// knew that: it lingers then, and is kept from now on.
    ///
    /// # Errors
    /// That of the question; ESTALE if it has gone for good.
    pub async fn asked_of_open<T>(
        self: &Rc<Self>,
        node: &Node,
        ask: impl AsyncFn() -> Result<T>,
    ) -> Result<T> {
        match ask().await {
            Err(Errno(libc::ESTALE)) if node.is_open() => {
                self.keep_nameless(node.ino).await?;
                ask().await
            }
            result => result,
        }
    }

    async fn keep(self: &Rc<Self>, node: &Node) -> Result<()> {
        if node.state.borrow().orphan {
            return Ok(());
        }
        let orphan = op::Op::Orphan(proto::Orphan {
            ino: node.ino,
            session: 0,
        });
        self.set_kept(node.ino, orphan).await?;
        let owed = {
            let mut state = node.state.borrow_mut();
            state.orphan = true;
            state.departed.take()
        };
        if let Some(owed) = owed {
            // ESTALE and EPERM: the service has taken the lease back, and it was told otherwise.
            let told = self.set_kept(node.ino, op::Op::Setattr(*owed)).await;
            told.or_else(|errno| match errno {
                Errno(libc::ESTALE | libc::EPERM) => Ok(proto::OpReply::default()),
                errno => Err(errno),
            })?;
        }
        Ok(())
    }

    /// The face's clients will not come with this number again, unless they look it up.
    pub fn face_forgot(self: &Rc<Self>, ino: u64) {
        if let Some(node) = self.nodes.get(ino) {
            node.state.borrow_mut().departed = None;
            self.end_if_unused(&node);
        }
    }

    /// The service need not keep what is neither open here nor known to the face.
    pub fn end_if_unused(self: &Rc<Self>, node: &Rc<Node>) {
        if node.is_open() || !node.state.borrow().orphan {
            return;
        }
        if self.face_has(node.ino) {
            self.departs(node.ino, false);
            return;
        }
        node.state.borrow_mut().orphan = false;
        self.let_go(node.clone());
    }
}

/// A call that is about an inode: it is not let go meanwhile.
pub(crate) struct Keeping<'a>(&'a Node);

impl Keeping<'_> {
    pub fn begin(node: &Node) -> Keeping<'_> {
        node.keeping.set(node.keeping.get() + 1);
        Keeping(node)
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        let Keeping(node) = self;
        node.keeping.set(node.keeping.get() - 1);
        node.wake.notify_waiters();
    }
}

impl NodeState {
    /// This client has taken its last name away, and the face has it still: size and times that were not told are told
    /// if it is kept after all.
    pub fn depart(&mut self, ino: u64) {
        let owes = self.lease.owes() && self.buffer.owes() && !self.is_cut();
        let attr = self.attr.filter(|_| owes);
        let more = std::mem::take(&mut self.buffer.allocated_more);
        let beside_others = self.lease.shares();
        let owed = attr.map(|attr| owed_setattr(ino, &attr, more, beside_others));
        self.departed = owed.map(Box::new);
    }
}
