//! Attributes: answered under leases, changed by the server, or here where this client owns them.

use crate::access;
use crate::core::{Core, root_cred};
use crate::departed::Keeping;
use crate::held::KeptBack;
use crate::leases::Mode;
use crate::node::{Node, NodeState, mark_changed};
use crate::session::{Link, Stopped, Unacknowledged};
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_wire::proto::{self, ChangeReply, GetxattrRequest, Setattr, StatfsRequest, op};

/// A day: relatime writes a time of access that is older.
const ATIME_AGE_SECONDS: i64 = 24 * 3600;

impl Core {
    pub async fn getattr(self: &Rc<Self>, ino: u64) -> Result<Known> {
        Ok(self.known(ino).await?.1)
    }

    pub async fn access(self: &Rc<Self>, cred: &Cred, ino: u64, mask: u32) -> Result<()> {
        let (_, known) = self.known_here(ino).await?;
        access::check(&known.attr, cred, mask)
    }

    pub async fn setattr(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        set: SetAttr,
        handle: Option<HandleId>,
    ) -> Result<Known> {
        let by_handle = match handle {
            Some(handle) => self.handles.file(handle)?.flags.write,
            None => false,
        };
        let sized = match set.size {
            Some(size) => Some(self.set_size(cred, ino, size, by_handle).await?),
            None => None,
        };
        let rest = SetAttr { size: None, ..set };
        if let Some((node, attr)) = sized {
            // A truncation that sets the time of modification, too, needs no more rights than itself.
            let is_all = rest == SetAttr::default()
                || self.set_times_here(&root_cred(), ino, &rest).is_some();
            if is_all {
                return Ok(self.freshest(&node, attr).await);
            }
        } else if rest == SetAttr::default() {
            return self.getattr(ino).await;
        }
        if let Some(known) = self.set_times_here(cred, ino, &rest) {
            return Ok(known);
        }
        if let Some(node) = self.nodes.get(ino) {
            // Or a time that is told later would take the place of what is set now.
            self.tell_if_shared(&node).await?;
        }
        let change = Setattr {
            ino,
            mode: rest.mode.map(|mode| mode & 0o7777),
            uid: rest.uid,
            gid: rest.gid,
            atime: time_at(rest.atime),
            mtime: time_at(rest.mtime),
            atime_now: rest.atime == Some(SetTime::Now),
            mtime_now: rest.mtime == Some(SetTime::Now),
            by_handle,
            ..Setattr::default()
        };
        // Times that are owed and replaced now must not be told again afterwards.
        let owner = self.nodes.get(ino);
        // A file without a name that was closed here a moment ago is asked about below: the answer does not have what is
        // owed of it.
        let _keeping = owner.as_deref().map(Keeping::begin);
        let (reply, link) = self
            .change_at(ino, cred.clone(), op::Op::Setattr(change), true)
            .await?;
        let attr = reply
            .reply
            .and_then(|reply| reply.attr)
            .ok_or(Errno(libc::EIO))?;
        self.take_leases(&link, &reply.leases, ino);
        let granted = self.granted(&link, &reply.leases, ino);
        let node = self.take_changed(&link, &attr, granted);
        if let Some(owner) = &owner {
            let mut state = owner.state.borrow_mut();
            if state.lease.mode() == Mode::Write
                && let Some(own) = &mut state.attr
            {
                if rest.atime.is_some() {
                    own.atime = attr.atime;
                }
                if rest.mtime.is_some() {
                    own.mtime = attr.mtime;
                }
            }
        }
        Ok(self.freshest(&node, attr).await)
    }

    /// As [`Core::known_or`]; without a lease it asks again, since this client may have owed size and
    /// times and given them back with its lease meanwhile. What is answered is of one moment: others
    /// may have changed all of it since the change was made, and what was so before and what was so
    /// after them may never have been so together.
    pub async fn freshest(self: &Rc<Self>, node: &Rc<Node>, attr: Attr) -> Known {
        let known = self.known_or(node, attr);
        if known.leased && known.attr.shards == 0 {
            return known;
        }
        // If it has gone since, the reply is the last news of it.
        self.getattr(node.ino).await.unwrap_or(known)
    }

    /// Sets times without a message, where this client owns them. None: the server has to do it.
    fn set_times_here(self: &Rc<Self>, cred: &Cred, ino: u64, set: &SetAttr) -> Option<Known> {
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            return None;
        }
        let node = self.nodes.get(ino)?;
        if !self.is_valid(ino) {
            return None;
        }
        let mut state = node.state.borrow_mut();
        if !state.lease.owns() {
            return None;
        }
        let owns = state
            .attr
            .is_some_and(|attr| cred.uid == 0 || cred.uid == attr.uid);
        if !owns {
            // The server knows what others may.
            return None;
        }
        let now = self.wall();
        let attr = state.attr.as_mut()?;
        let time = |set: Option<SetTime>, old| match set {
            Some(SetTime::Now) => Some(now),
            Some(SetTime::At(time)) => Some(time),
            None => old,
        };
        attr.atime = time(set.atime, attr.atime);
        attr.mtime = time(set.mtime, attr.mtime);
        mark_changed(attr, now);
        state.buffer.changes += 1;
        drop(state);
        self.tell_if_closed(&node);
        node.known()
    }

    /// What is owed of an open file is told when it is closed; else now.
    fn tell_if_closed(self: &Rc<Self>, node: &Rc<Node>) {
        if !node.is_open() {
            self.want_tell(node);
        }
    }

    async fn set_size(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        size: u64,
        by_handle: bool,
    ) -> Result<(Rc<Node>, Attr)> {
        if size > weft_types::FILE_BYTES_MAX {
            return Err(Errno(libc::EFBIG));
        }
        let (node, known) = self.known(ino).await?;
        match known.attr.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno(libc::EISDIR)),
            _ => return Err(Errno(libc::EINVAL)),
        }
        if !by_handle {
            access::check(&known.attr, cred, access::WRITE)?;
        }
        let begun = self.begin(&node, Mode::Write).await?;
        {
            let mut state = node.state.borrow_mut();
            if size > state.reach()? {
                return Err(Errno(libc::EFBIG));
            }
            let set_id = state.attr.is_some_and(|attr| attr.mode & 0o6000 != 0);
            let is_growth = state.attr.is_some_and(|attr| size >= attr.size);
            // Set-id bits go with a change of size, by rules that the server knows.
            if is_growth && !set_id {
                let now = self.wall();
                let mut grown = known.attr;
                if let Some(attr) = &mut state.attr {
                    attr.size = size;
                    attr.mtime = Some(now);
                    mark_changed(attr, now);
                    grown = *attr;
                }
                state.buffer.changes += 1;
                state.version += 1;
                drop(state);
                self.tell_if_closed(&node);
                return Ok((node, grown));
            }
        }
        drop(begun);
        let attr = self.cut(cred, &node, size, by_handle).await?;
        Ok((node, attr))
    }

    /// Makes a file shorter: nothing of it is on its way to where it ends now, the server is told,
    /// remains are trimmed. Answers what the server said of it.
    ///
    /// # Errors
    /// The server's refusal: all is as it was. EIO when the patience is over: writes wait until it is known whether the
    /// file was cut.
    pub async fn cut(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        size: u64,
        by_handle: bool,
    ) -> Result<Attr> {
        self.announced(node).await;
        let cutting = self.begin_cutting(node).await?;
        // The lease is not in use while the server is asked: it may be asked back before that.
        let begun = self.begin_cut(node).await?;
        let mut kept_back = self.keep_back(node, size..u64::MAX).await?;
        drop(begun);
        kept_back.unacknowledged = Some(Unacknowledged::from_now(&self.session_of(node.ino)));
        let change = Setattr {
            ino: node.ino,
            size: Some(size),
            by_handle,
            ..Setattr::default()
        };
        let op = op::Op::Setattr(change);
        let changed = self.change_or_doubt(node.ino, cred.clone(), op, true);
        let (reply, link) = match changed.await {
            Ok(answer) => answer,
            Err(Stopped::InDoubt(doubt)) => {
                let (core, node) = (self.clone(), node.clone());
                self.env.spawn("cut in doubt", async move {
                    let _cutting = cutting;
                    // Every change of a file's content is answered with where that lies; what changes nothing is not.
                    let has_layout = |answer: &(ChangeReply, Link)| {
                        let reply = answer.0.reply.as_ref();
                        reply.is_some_and(|reply| reply.layout.is_some())
                    };
                    let answer = doubt.end(&core, node.ino).await.filter(has_layout);
                    tracing::info!(
                        ino = node.ino,
                        was_cut = answer.is_some(),
                        "no doubt any more"
                    );
                    if let Some((reply, link)) = answer {
                        // Whoever asked was told that nobody knows.
                        let _: Result<Attr> = core.take_cut(&node, kept_back, reply, &link).await;
                    }
                });
                return Err(Errno(libc::EIO));
            }
            Err(stopped) => return Err(stopped.errno()),
        };
        let cut = self.take_cut(node, kept_back, reply, &link).await;
        drop(cutting);
        cut
    }

    /// The server has cut a file.
    async fn take_cut(
        self: &Rc<Self>,
        node: &Rc<Node>,
        kept_back: KeptBack,
        reply: ChangeReply,
        link: &Link,
    ) -> Result<Attr> {
        self.take_leases(link, &reply.leases, node.ino);
        let granted = self.granted(link, &reply.leases, node.ino);
        let reply = reply.reply.unwrap_or_default();
        let attr = reply.attr.ok_or(Errno(libc::EIO))?;
        let owns = {
            let mut state = node.state.borrow_mut();
            if granted || state.layout.is_some() {
                state.take_layout(reply.layout.as_ref());
            }
            // The answer grants nothing while the lease is being asked back, or after the connection
            // was lost; yet it, or a part of it, may be kept, and whoever writes under it has to trim
            // first. What others have done since shows in what is known.
            let is_kept =
                state.lease.owes() && state.attr.is_some_and(|known| known.change <= attr.change);
            if (granted || is_kept) && reply.trim_seq != 0 {
                state.take_remains(reply.trim_seq, reply.trim_from);
            }
            state.lease.owns()
        };
        match attr.size {
            0 => self.was_emptied(node, &attr),
            _ => self.was_cut(node, &attr),
        }
        self.take_changed(link, &attr, granted);
        kept_back.make_void().await;
        if owns && reply.trim_seq != 0 {
            // Under the lease and before any other write; if that fails, the next writer does it. (The
            // file may have lost its last name since it was cut.)
            if let Err(errno) = self.begin_cut(node).await {
                tracing::debug!(ino = node.ino, %errno, "remains of a cut stay for now");
            }
        }
        Ok(attr)
    }

    /// Keeps writes, and what is told of size and times, away from a file that is being cut. What
    /// was owed has been told when this is over: a size from before must not reach the server after
    /// the cut, nor be lost if the lease goes before it.
    pub async fn begin_cutting(self: &Rc<Self>, node: &Rc<Node>) -> Result<Cutting> {
        self.patiently(async {
            loop {
                let wake = node.wake.notified();
                let owes = {
                    let mut state = node.state.borrow_mut();
                    let is_busy = state.is_cut() || state.buffer.telling;
                    let owes = state.buffer.owes() && state.lease.owes();
                    if !is_busy && !owes {
                        return Ok(Cutting::of(node, &mut state));
                    }
                    !is_busy
                };
                if owes {
                    self.tell(node).await?;
                } else {
                    wake.await;
                }
            }
        })
        .await
    }

    /// The server has cut a file: size and times are what it says, nothing is owed. (Told late, this may be known
    /// already, and more since.)
    pub fn was_cut(&self, node: &Node, told: &Attr) {
        let mut state = node.state.borrow_mut();
        state.version += 1;
        if state.attr.is_some_and(|known| known.change >= told.change) {
            return;
        }
        state.buffer.told = state.buffer.changes;
        state.counted = 0..0;
        if let Some(attr) = &mut state.attr {
            *attr = *told;
        }
    }

    /// The same, to nothing.
    pub fn was_emptied(&self, node: &Node, told: &Attr) {
        self.was_cut(node, told);
        node.state.borrow_mut().replaced = true;
    }

    /// A file was read: its time of access moves as relatime lets it, without anybody waiting.
    pub fn was_read(self: &Rc<Self>, node: &Rc<Node>) {
        if !self.settings.relatime {
            return;
        }
        let now = self.wall();
        let mut state = node.state.borrow_mut();
        let owns = state.lease.owns();
        let Some(attr) = &mut state.attr else { return };
        let key = |time: Option<Time>| time.map(|time| (time.seconds, time.nanos));
        let atime = key(attr.atime);
        let is_due = atime <= key(attr.mtime)
            || atime <= key(attr.ctime)
            || attr
                .atime
                .is_none_or(|atime| now.seconds.saturating_sub(atime.seconds) >= ATIME_AGE_SECONDS);
        if !is_due || key(Some(now)) <= atime {
            return;
        }
        attr.atime = Some(now);
        if owns {
            state.buffer.changes += 1;
            return;
        }
        drop(state);
        let change = op::Op::Setattr(Setattr {
            ino: node.ino,
            atime: Some(now),
            owed: true,
            ..Setattr::default()
        });
        let (core, ino) = (self.clone(), node.ino);
        self.env.spawn("relatime", async move {
            // Whoever reads next tries again.
            let told = core.change_at(ino, root_cred(), change, false);
            if let Err(errno) = told.await {
                tracing::debug!(ino, %errno, "a time of access was not taken");
            }
        });
    }

    // ---- extended attributes ----

    /// The names of the extended attributes, kept under the lease.
    pub async fn listxattr(self: &Rc<Self>, cred: &Cred, ino: u64) -> Result<Rc<Vec<Bytes>>> {
        if self.is_valid(ino)
            && let Some(node) = self.nodes.get(ino)
        {
            let state = node.state.borrow();
            if state.lease.may_answer()
                && let Some(names) = &state.xattr_names
            {
                return Ok(names.clone());
            }
        }
        // Under one lease from before the question to after the answer, or they are not kept.
        let (node, _) = self.known_here(ino).await?;
        let losses = node.state.borrow().lease.losses();
        let changes = node.state.borrow().version;
        let (reply, link) = self
            .ask_at(ino, |link| GetxattrRequest {
                session: link.session,
                epoch: link.epoch,
                cred: Some(cred.clone()),
                ino,
                name: Bytes::new(),
            })
            .await?;
        let names = Rc::new(reply.names);
        let mut state = node.state.borrow_mut();
        let stands = state.lease.may_answer()
            && state.lease.losses() == losses
            && state.version == changes
            && self.is_current(&link);
        if stands {
            state.xattr_names = Some(names.clone());
        }
        Ok(names)
    }

    pub async fn getxattr(self: &Rc<Self>, cred: &Cred, ino: u64, name: &[u8]) -> Result<Bytes> {
        if name.is_empty() {
            return Err(Errno(libc::EINVAL));
        }
        // Most files have none, and kernels ask for some all the time.
        let names = self.listxattr(cred, ino).await?;
        if !names.iter().any(|known| known[..] == *name) {
            return Err(Errno(libc::ENODATA));
        }
        let (reply, _) = self
            .ask_at(ino, |link| GetxattrRequest {
                session: link.session,
                epoch: link.epoch,
                cred: Some(cred.clone()),
                ino,
                name: Bytes::copy_from_slice(name),
            })
            .await?;
        Ok(reply.value)
    }

    /// A reply that grants a lease says that the inode has no extended attributes; `changes` is what
    /// [`Core::xattr_changes`] was before the question. Kernels ask for some of each file that is listed.
    pub fn take_no_xattrs(&self, node: &Node, changes: u64) {
        let mut state = node.state.borrow_mut();
        // An answer from before one of this client's own changes may be read after that has ended.
        if self.xattr_changes.get() == changes && state.lease.may_answer() {
            state.xattr_names.get_or_insert_default();
        }
    }

    async fn change_xattr(self: &Rc<Self>, cred: &Cred, ino: u64, op: op::Op) -> Result<()> {
        if let Some(node) = self.nodes.get(ino) {
            let mut state = node.state.borrow_mut();
            state.xattr_names = None;
            // An answer to a question asked before this is not kept.
            state.version += 1;
        }
        self.xattr_changes.set(self.xattr_changes.get() + 1);
        let result = self.change_at(ino, cred.clone(), op, true).await;
        self.xattr_changes.set(self.xattr_changes.get() + 1);
        if let Some(node) = self.nodes.get(ino) {
            let mut state = node.state.borrow_mut();
            state.xattr_names = None;
            state.version += 1;
        }
        let (reply, link) = result?;
        self.take_leases(&link, &reply.leases, ino);
        if let Some(attr) = reply.reply.and_then(|reply| reply.attr) {
            self.take_changed(&link, &attr, self.granted(&link, &reply.leases, attr.ino));
        }
        Ok(())
    }

    pub async fn setxattr(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        name: &[u8],
        value: Bytes,
        flags: XattrFlags,
    ) -> Result<()> {
        let op = op::Op::Setxattr(proto::Setxattr {
            ino,
            name: Bytes::copy_from_slice(name),
            value,
            create_only: flags == XattrFlags::Create,
            replace_only: flags == XattrFlags::Replace,
        });
        self.change_xattr(cred, ino, op).await
    }

    pub async fn removexattr(self: &Rc<Self>, cred: &Cred, ino: u64, name: &[u8]) -> Result<()> {
        let op = op::Op::Removexattr(proto::Removexattr {
            ino,
            name: Bytes::copy_from_slice(name),
        });
        self.change_xattr(cred, ino, op).await
    }

    pub async fn policy(self: &Rc<Self>, ino: u64) -> Result<Policy> {
        let (inode, _, _) = self.ask_inode(ino, Mode::None).await?;
        inode.policy.ok_or(Errno(libc::ENOTDIR))
    }

    pub async fn set_policy(self: &Rc<Self>, cred: Cred, ino: u64, policy: Policy) -> Result<()> {
        let op = op::Op::SetPolicy(proto::SetPolicy {
            ino,
            policy: Some(policy),
        });
        let (reply, link) = self.change_at(ino, cred, op, true).await?;
        self.take_leases(&link, &reply.leases, ino);
        if let Some(attr) = reply.reply.and_then(|reply| reply.attr) {
            self.take_changed(&link, &attr, self.granted(&link, &reply.leases, attr.ino));
        }
        Ok(())
    }

    pub async fn statfs(self: &Rc<Self>) -> Result<Space> {
        let (reply, _) = self
            .first_session()
            .ask(self, |link| StatfsRequest {
                session: link.session,
            })
            .await?;
        Ok(Space {
            total_bytes: reply.total_bytes,
            free_bytes: reply.free_bytes,
            inodes: reply.inodes,
        })
    }
}

/// See [`Core::begin_cutting`].
pub(crate) struct Cutting(Rc<Node>);

impl Cutting {
    fn of(node: &Rc<Node>, state: &mut NodeState) -> Cutting {
        state.cuts += 1;
        Cutting(node.clone())
    }

    /// The same for longer: it is not known what became of the cut.
    pub fn longer(node: &Rc<Node>) -> Cutting {
        Cutting::of(node, &mut node.state.borrow_mut())
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        self.0.state.borrow_mut().cuts -= 1;
        self.0.wake.notify_waiters();
    }
}

fn time_at(set: Option<SetTime>) -> Option<Time> {
    match set {
        Some(SetTime::At(time)) => Some(time),
        Some(SetTime::Now) | None => None,
    }
}
