//! What names stand for: known under the lease of their directory, or asked of the group that keeps that.
//! Attributes of another group's inode are asked there (`docs/protocols/partition.md`, "Clients").

use crate::access;
use crate::core::{Core, root_cred};
use crate::names::NameState;
use crate::node::Node;
use crate::session::Link;
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_wire::proto::LookupRequest;

/// A name that stands for another group's inode may be taken away, or put to another, before that group is
/// asked: so often it is looked up again. Each time somebody else's change of it was done.
pub(crate) const ELSEWHERE_TRIES: u32 = 16;

/// Whether a file can have this name: ENOENT, ENAMETOOLONG or EINVAL if not.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(Errno(libc::ENOENT)),
        n if n > weft_types::NAME_MAX => Err(Errno(libc::ENAMETOOLONG)),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// What a name stands for, as its directory's group says.
enum Named {
    /// Nothing, or an inode of which enough is known.
    Here(Found),
    /// An inode that is to be asked about: another group's, or a directory that is spread.
    Elsewhere(u64),
}

impl Core {
    /// What the cache knows of a name; None if the server has to be asked.
    fn cached_name(
        &self,
        cred: &Cred,
        parent: u64,
        name: &[u8],
    ) -> Option<Result<(NameState, bool)>> {
        if !self.is_valid(parent) {
            return None;
        }
        let node = self.nodes.get(parent)?;
        let state = node.state.borrow();
        if !state.lease.may_answer() {
            return None;
        }
        let found = state.names.as_ref()?.get(name)?;
        // Who may search the directory is known only with its attributes; root may always.
        if cred.uid != 0
            && let Err(errno) = access::check(state.attr.as_ref()?, cred, access::EXECUTE)
        {
            return Some(Err(errno));
        }
        Some(Ok((found, state.lease.may_keep())))
    }

    /// A directory's change number as far as it is known here: what is asked now is known at least
    /// at this change. And how often its lease has been lost.
    fn standing_of(&self, dir: u64) -> (u64, u64) {
        let Some(node) = self.nodes.get(dir) else {
            return (0, 0);
        };
        let state = node.state.borrow();
        let change = state.attr.map_or(0, |attr| attr.change);
        (change, state.lease.losses())
    }

    pub fn put_name(&self, parent: u64, name: &[u8], found: NameState, change: u64) -> bool {
        let Some(node) = self.nodes.get(parent) else {
            return false;
        };
        let mut state = node.state.borrow_mut();
        if !state.lease.may_answer() {
            return false;
        }
        state.names.get_or_insert_default().put(name, found, change);
        state.lease.may_keep()
    }

    /// The name is known to stand for an inode, under a lease, so that the caller's cache may keep it.
    pub fn keeps_name(&self, parent: u64, name: &[u8], ino: u64) -> bool {
        self.named(parent, name) == Some(ino)
    }

    /// What the name is known to stand for, likewise.
    pub fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        let place = self.spreads.place(parent, name);
        match self.cached_name(&root_cred(), place, name) {
            Some(Ok((NameState::Present(ino), true))) => Some(ino),
            _ => None,
        }
    }

    pub async fn lookup_at(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
    ) -> Result<Found> {
        if let Err(errno) = check_name(name) {
            return match errno {
                // No such name can be there.
                Errno(libc::EINVAL) => Err(Errno(libc::ENOENT)),
                other => Err(other),
            };
        }
        let mut tries = 0;
        loop {
            let found = match self.look_up(cred, parent, name).await? {
                Named::Here(found) => Ok(found),
                Named::Elsewhere(ino) => self.known(ino).await.map(|(_, known)| Found {
                    entry: Some(known),
                    // While its group was asked the name may have been asked back.
                    name_leased: self.keeps_name(parent, name, ino),
                }),
            };
            // What is kept without a name is not what the name stands for.
            let found = found.and_then(|found| match &found.entry {
                Some(known) if known.attr.nlink == 0 => Err(Errno(libc::ESTALE)),
                _ => Ok(found),
            });
            match found {
                // The name was taken away, or stands for another by now.
                Err(Errno(libc::ESTALE)) if tries < ELSEWHERE_TRIES => {
                    self.doubt((parent, name));
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }

    /// What the directory's group says of a name.
    async fn look_up(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<Named> {
        loop {
            match self.look_up_once(cred, parent, name).await? {
                Ok(named) => return Ok(named),
                // What was written here, beside others, must be told for an answer to know it.
                Err(old) => self.tell_if_shared(&old).await?,
            }
        }
    }

    /// The same, or the file that it stands for of which the answer is of another moment than what is known here.
    async fn look_up_once(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
    ) -> Result<std::result::Result<Named, Rc<Node>>> {
        match self.cached_name(cred, parent, name) {
            Some(Err(errno)) => return Err(errno),
            Some(Ok((NameState::Absent, leased))) => {
                return Ok(Ok(Named::Here(Found {
                    entry: None,
                    name_leased: leased,
                })));
            }
            Some(Ok((NameState::Present(ino), leased))) => {
                if self.is_valid(ino)
                    && let Some(node) = self.nodes.get(ino)
                    && let Some(known) = node.known()
                {
                    if known.attr.shards > 0 {
                        return Ok(Ok(Named::Elsewhere(ino)));
                    }
                    return Ok(Ok(Named::Here(Found {
                        entry: Some(known),
                        name_leased: leased,
                    })));
                }
                if self.group_of(ino) != self.group_of(parent) {
                    return Ok(Ok(Named::Elsewhere(ino)));
                }
            }
            None => {}
        }
        let (change, losses) = self.standing_of(parent);
        let handovers = self.handovers.get();
        let (reply, link) = self
            .ask_at(parent, |link| LookupRequest {
                session: link.session,
                epoch: link.epoch,
                cred: Some(cred.clone()),
                parent,
                name: Bytes::copy_from_slice(name),
            })
            .await?;
        let granted = self.take_leases(&link, &reply.leases, parent);
        let mut found = Found {
            entry: None,
            name_leased: false,
        };
        let mut state = NameState::Absent;
        let mut old = None;
        let mut elsewhere = None;
        if let Some(inode) = &reply.inode {
            let ino = inode.attr.map_or(0, |attr| attr.ino);
            if inode.elsewhere {
                state = NameState::Present(ino);
                elsewhere = Some(ino);
            }
        }
        if let Some(inode) = reply.inode.as_ref().filter(|it| !it.elsewhere) {
            let ino = inode.attr.map_or(0, |attr| attr.ino);
            let of_inode = self.granted(&link, &reply.leases, ino);
            let (node, known) = self.take_inode(inode, of_inode);
            state = NameState::Present(ino);
            let is_old = !known.leased && node.handed_over_since(handovers)
                || node.written_beyond(known.attr.size);
            old = is_old.then_some(node);
            // Of a spread directory this is a part.
            elsewhere = (known.attr.shards > 0).then_some(ino);
            found.entry = Some(known);
        }
        // Or the answer may be of before a change of this client's own that was in doubt.
        if granted && self.standing_of(parent).1 == losses {
            found.name_leased = self.put_name(parent, name, state, change);
        }
        if let Some(old) = old {
            // By now the name may be another's.
            return Ok(Err(old));
        }
        Ok(Ok(elsewhere.map_or(Named::Here(found), Named::Elsewhere)))
    }

    /// The file of a name, if this client may have it open or have bytes to write to it.
    pub async fn used_here(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
    ) -> Option<Rc<Node>> {
        let ino = match self.cached_name(&root_cred(), parent, name) {
            Some(Ok((NameState::Present(ino), _))) => Some(ino),
            Some(_) => None,
            None if !self.handles.any_file() && self.writeback.buffered() == 0 => None,
            None if check_name(name).is_err() => None,
            None => match self.look_up(cred, parent, name).await {
                Ok(Named::Here(found)) => found.entry.map(|known| known.attr.ino),
                Ok(Named::Elsewhere(ino)) => Some(ino),
                // The change itself will say.
                Err(_) => None,
            },
        };
        ino.and_then(|ino| self.nodes.get(ino))
    }

    /// A name came to stand for an inode, in a directory of the group that said so.
    pub fn put_own_name(&self, link: &Link, (dir, name): (u64, &[u8]), ino: u64, change: u64) {
        if self.is_of(link, dir) {
            self.put_name(dir, name, NameState::Present(ino), change);
        }
    }

    pub fn doubt(&self, (dir, name): (u64, &[u8])) {
        if let Some(node) = self.nodes.get(dir)
            && let Some(names) = &mut node.state.borrow_mut().names
        {
            names.doubt(name);
        }
    }
}
