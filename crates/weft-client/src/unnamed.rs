//! Files that are made without a name (O_TMPFILE): the service keeps them for the session, as it keeps those whose last
//! name went while they were open, and a link may give them their first.

use crate::core::Core;
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_wire::proto::{self, op};

impl Core {
    /// Makes a file in a directory that gets no name there, and opens it.
    pub async fn create_unnamed(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        mode: u32,
        open: OpenFlags,
    ) -> Result<(Known, HandleId)> {
        // In a spread directory a name says in which shard it is made: any will do.
        let place = self.creates.get().to_string();
        let made = async |parent| {
            self.create_unnamed_at(cred, parent, &place, mode, open)
                .await
        };
        self.at_name(parent, place.as_bytes(), made).await
    }

    async fn create_unnamed_at(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        place: &str,
        mode: u32,
        open: OpenFlags,
    ) -> Result<(Known, HandleId)> {
        let create = proto::Create {
            parent,
            name: Bytes::copy_from_slice(place.as_bytes()),
            kind: FileKind::Regular as i32,
            mode: mode & 0o7777,
            exclusive: true,
            unnamed: true,
            ..proto::Create::default()
        };
        let creating = self.begin_creating(parent);
        let changed = self.change_at(parent, cred.clone(), op::Op::Create(create), true);
        let (reply, link) = changed.await?;
        let made = reply.reply.unwrap_or_default();
        let attr = made.attr.ok_or(Errno(libc::EIO))?;
        if attr.nlink > 0 {
            // A server of the time before such files has made one with a name.
            self.unlink_at(cred, parent, place.as_bytes()).await?;
            return Err(Errno(libc::EOPNOTSUPP));
        }
        self.take_leases(&link, &reply.leases, attr.ino);
        let granted = self.granted(&link, &reply.leases, attr.ino);
        let node = self.take_changed(&link, &attr, granted);
        {
            let mut state = node.state.borrow_mut();
            if granted {
                state.take_layout(made.layout.as_ref());
                state.xattr_names.get_or_insert_default();
            }
            // The last close tells the service, whether it has got a name by then or not.
            (state.orphan, state.unnamed) = (true, true);
        }
        let known = self.known_or(&node, attr);
        let handle = self.handles.add_file(node, open, link.session);
        drop(creating);
        self.make_room();
        Ok((known, handle))
    }

    /// A file was made here without a name, and the service keeps it for this client since.
    pub fn is_unnamed(&self, ino: u64) -> bool {
        let node = self.nodes.get(ino);
        node.is_some_and(|node| {
            let state = node.state.borrow();
            state.unnamed && state.orphan
        })
    }
}
