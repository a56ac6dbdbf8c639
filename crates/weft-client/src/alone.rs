//! Files that this client alone has, for a face that passes that on to clients of its own: what they keep of a file
//! unwritten is asked of the face before others see the file.

use crate::core::Core;
use crate::leases::{LeaseState, Mode};
use crate::node::Node;
use crate::types::Result;
use std::rc::Rc;

impl Core {
    /// The lease by which this client alone has a file was held at some moment from now on.
    pub async fn own(self: &Rc<Self>, ino: u64) -> Result<()> {
        let (node, _) = self.known_here(ino).await?;
        self.begin(&node, Mode::Write).await.map(drop)
    }

    /// What is held of an inode is of this kind.
    pub fn holds(&self, ino: u64, what: impl Fn(&LeaseState) -> bool) -> bool {
        let node = self.nodes.get(ino).filter(|_| self.is_valid(ino));
        node.is_some_and(|node| what(&node.state.borrow().lease))
    }

    /// The count of the losses of a lease under which attributes are known here. None: there is no such lease.
    pub fn reads_since(&self, ino: u64) -> Option<u64> {
        let node = self.nodes.get(ino).filter(|_| self.is_valid(ino))?;
        let state = node.state.borrow();
        state.lease.may_keep().then(|| state.lease.losses())
    }

    /// The same; while the lease is given back, too.
    pub fn answers_since(&self, ino: u64) -> Option<u64> {
        let node = self.nodes.get(ino).filter(|_| self.is_valid(ino))?;
        let state = node.state.borrow();
        state.lease.may_answer().then(|| state.lease.losses())
    }

    /// How large a file is that is written alone here, with what the face's own clients keep of it. None: nothing.
    pub async fn size_with_kept(&self, node: &Node) -> Option<u64> {
        let invalidator = self.invalidator.borrow().clone()?;
        if node.state.borrow().lease.mode() != Mode::Write {
            return None;
        }
        let _waits_for_face = self.giving_back.note(node.ino);
        invalidator.size(node.ino).await
    }

    /// What the face's own clients keep of a file that is written alone here is written.
    pub async fn kept_is_written(&self, node: &Node) {
        let Some(invalidator) = self.invalidator.borrow().clone() else {
            return;
        };
        if node.state.borrow().lease.mode() == Mode::Write {
            let _waits_for_face = self.giving_back.note(node.ino);
            invalidator.write_back(node.ino).await;
        }
    }
}
