//! Pages that were changed by way of a mapping (`docs/protocols/leases.md`, "The kernel's cache"): the
//! kernel brings them when it is made to forget, and so perhaps when no lease covers them.

use crate::core::Core;
use crate::leases::Mode;
use crate::node::Node;
use crate::types::{Errno, HandleId, Result};
use bytes::Bytes;
use std::rc::Rc;

impl Core {
    /// Takes over pages of a shared mapping. It never waits for a lease: the kernel holds the pages
    /// until it is answered, and the lease may wait for the kernel to forget them. What no WRITE
    /// lease covers is put aside until there is one; reads, changes and syncs wait for that.
    pub async fn write_mapped(
        self: &Rc<Self>,
        id: HandleId,
        offset: u64,
        data: Bytes,
    ) -> Result<usize> {
        let handle = self.handles.file(id)?;
        if !handle.flags.write {
            return Err(Errno(libc::EBADF));
        }
        let (node, length) = (&handle.node, data.len());
        if !node.state.borrow().is_announcing
            && let Some(begun) = self.begin_now(node, Mode::Write)
        {
            let written = self.write_here(node, offset, data, false)?;
            drop(begun);
            self.pump();
            return Ok(written.length);
        }
        let is_first = {
            let mut state = node.state.borrow_mut();
            state.aside.push_back((offset, data));
            !std::mem::replace(&mut state.is_announcing, true)
        };
        if is_first {
            let (core, node) = (self.clone(), node.clone());
            self.env.spawn("mapped pages", async move {
                core.announce_mapped(&node).await;
            });
        }
        Ok(length)
    }

    /// Gets the WRITE lease, by which others learn that the file has changed, and writes under it
    /// what is still aside.
    async fn announce_mapped(self: &Rc<Self>, node: &Rc<Node>) {
        let begun = self.begin(node, Mode::Write).await;
        match &begun {
            Ok(_) => {
                self.write_aside(node);
                let now = self.wall();
                let mut state = node.state.borrow_mut();
                if let Some(attr) = &mut state.attr {
                    (attr.mtime, attr.ctime) = (Some(now), Some(now));
                }
                state.buffer.changes += 1;
            }
            Err(Errno(errno)) => {
                let mut state = node.state.borrow_mut();
                let bytes: usize = state.aside.drain(..).map(|(_, data)| data.len()).sum();
                tracing::error!(ino = node.ino, bytes, errno, "bytes of a mapping are lost");
                self.writeback.fail(&mut state, *errno);
            }
        }
        node.state.borrow_mut().is_announcing = false;
        drop(begun);
        node.wake.notify_waiters();
        self.pump();
    }

    /// Puts what is aside into the buffer: under the WRITE lease, or under one that is being given
    /// back, before whoever waits for that may change the file. False: nothing was there.
    pub fn write_aside(self: &Rc<Self>, node: &Rc<Node>) -> bool {
        let mut state = node.state.borrow_mut();
        let Some(size) = state.attr.map(|attr| attr.size) else {
            return false;
        };
        // Remains of a shorter size have to go first, which only the WRITE lease allows.
        // And beside others that write the file, no bytes but those of its ranges are this client's.
        let is_shared = state.lease.mode() == Mode::Shared;
        if state.aside.is_empty() || state.trim.is_some() || is_shared {
            return false;
        }
        while let Some((offset, data)) = state.aside.pop_front() {
            // The kernel's size may be older: pages end where the file does.
            let length = size.saturating_sub(offset).min(data.len() as u64);
            if length > 0 {
                self.buffer_write(node, &mut state, offset, data.slice(..length as usize));
            }
        }
        state.version += 1;
        true
    }

    /// Waits until others know of what came before by way of mappings.
    pub async fn announced(&self, node: &Node) {
        loop {
            let wake = node.wake.notified();
            if !node.state.borrow().is_announcing {
                return;
            }
            wake.await;
        }
    }
}
