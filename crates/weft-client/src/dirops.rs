//! Changes of names: made by the server, the caches following the replies
//! (`docs/protocols/a-create.md`).

use crate::access;
use crate::core::Core;
use crate::leases::Mode;
use crate::lookup::{ELSEWHERE_TRIES, check_name};
use crate::names::{NameState, Names};
use crate::node::Node;
use crate::session::Link;
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_wire::proto::{self, Lease, OpReply, op};

impl Core {
    /// The reply's leases (which have been taken) hold one on this inode that stands.
    pub fn granted(&self, link: &Link, leases: &[Lease], ino: u64) -> bool {
        let mut of_inode = leases.iter().filter(|lease| lease.ino == ino);
        of_inode.any(|lease| self.stands(link, lease))
    }

    /// A reply's lease (which has been taken) stands.
    pub fn stands(&self, link: &Link, lease: &Lease) -> bool {
        let node = self.nodes.get(lease.ino);
        self.is_current(link)
            && self.is_of(link, lease.ino)
            && node.is_some_and(|node| node.state.borrow().lease.stands(lease.seq))
    }

    /// Takes over a reply to a change that made something.
    fn take_made(
        self: &Rc<Self>,
        link: &Link,
        parent: u64,
        name: &[u8],
        reply: &OpReply,
        leases: &[Lease],
    ) -> Result<(Rc<Node>, Known)> {
        let attr = reply.attr.ok_or(Errno(libc::EIO))?;
        self.take_leases(link, leases, attr.ino);
        let granted = self.granted(link, leases, attr.ino);
        let node = self.take_changed(link, &attr, granted);
        let mut state = node.state.borrow_mut();
        if granted || state.layout.is_some() {
            state.take_layout(reply.layout.as_ref());
        }
        // Not every change is answered with what is left to be trimmed.
        if granted && reply.trim_seq != 0 {
            state.take_remains(reply.trim_seq, reply.trim_from);
        }
        drop(state);
        self.take_parents(link, reply, leases);
        let change = reply.parent.map_or(0, |parent| parent.change);
        self.put_name(parent, name, NameState::Present(attr.ino), change);
        let known = self.known_or(&node, attr);
        self.make_room();
        Ok((node, known))
    }

    /// A change of names; the group of directory `home` is the change's home.
    async fn change_name(
        self: &Rc<Self>,
        cred: &Cred,
        op: op::Op,
        home: u64,
    ) -> Result<(OpReply, Vec<Lease>, Link)> {
        let (reply, link) = self.change_at(home, cred.clone(), op, true).await?;
        Ok((reply.reply.unwrap_or_default(), reply.leases, link))
    }

    pub async fn make_at(self: &Rc<Self>, cred: &Cred, create: proto::Create) -> Result<Made> {
        check_name(&create.name)?;
        let (parent, name) = (create.parent, create.name.clone());
        let (kind, target, truncate) = (create.kind(), create.target.clone(), create.truncate);
        let op = op::Op::Create(create);
        let (reply, leases, link) = self.change_name(cred, op, parent).await?;
        if reply.elsewhere {
            let (ino, kind) = reply
                .attr
                .map(|attr| (attr.ino, attr.kind()))
                .ok_or(Errno(libc::EIO))?;
            self.take_leases(&link, &leases, 0);
            self.take_parents(&link, &reply, &leases);
            let change = reply.parent.map_or(0, |parent| parent.change);
            self.put_name(parent, &name, NameState::Present(ino), change);
            return Ok(Made::Elsewhere(ino, kind));
        }
        if let Some(attr) = reply.attr.filter(|_| truncate && !reply.created) {
            self.was_emptied(&self.nodes.get_or_new(attr.ino), &attr);
        }
        let (node, known) = self.take_made(&link, parent, &name, &reply, &leases)?;
        if reply.created {
            let mut state = node.state.borrow_mut();
            if kind == FileKind::Symlink {
                state.target = Some(target);
            }
            // A lease on what another group made for this one came after it was made, and others may
            // have been faster.
            if state.lease.may_answer() && self.is_of(&link, node.ino) {
                if kind == FileKind::Directory {
                    state
                        .names
                        .get_or_insert_with(|| Box::new(Names::of_new_directory()));
                }
                state.xattr_names.get_or_insert_default();
            }
        }
        let made = Here {
            node,
            known,
            is_new: reply.created,
            session: link.session,
        };
        Ok(Made::Here(made))
    }

    pub async fn create_at(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: CreateFlags,
    ) -> Result<(Known, HandleId)> {
        for _ in 0..ELSEWHERE_TRIES {
            let ino = match self.create_here(cred, parent, name, mode, flags).await? {
                Created::Here(known, handle) => return Ok((known, handle)),
                Created::Elsewhere(ino) => ino,
            };
            match self.open_elsewhere(cred, ino, flags.open).await {
                // The name was taken away, or stands for another by now.
                Err(Errno(libc::ESTALE)) => self.doubt((parent, name)),
                opened => return opened,
            }
        }
        Err(Errno(libc::ESTALE))
    }

    /// Opens what a name stands for that was to be made and is there, at the group that keeps it.
    async fn open_elsewhere(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        flags: OpenFlags,
    ) -> Result<(Known, HandleId)> {
        let handle = self.open(cred, ino, flags).await?;
        match self.known(ino).await {
            Ok((_, known)) => Ok((known, handle)),
            Err(errno) => {
                self.close_handle(handle);
                Err(errno)
            }
        }
    }

    /// Makes or opens a file, unless the name stands for another group's.
    async fn create_here(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: CreateFlags,
    ) -> Result<Created> {
        // An existing file that is cut must have nothing on its way to the objects it loses, nor must
        // this client tell a size from before. One that has is opened first and cut then: what it holds
        // must not be dropped before the cut is answered.
        let cut = if flags.open.truncate && !flags.exclusive {
            let used = self.used_here(cred, parent, name).await;
            // Another group's is cut there.
            used.filter(|node| self.group_of(node.ino) == self.group_of(parent))
        } else {
            None
        };
        let cutting = match &cut {
            Some(node) => Some(self.begin_cutting(node).await?),
            None => None,
        };
        let is_clean = |node: &Rc<Node>| node.state.borrow().buffer.is_clean();
        let cutting = cutting.filter(|_| cut.as_ref().is_some_and(is_clean));
        let opened_first = cut.is_some() && cutting.is_none();
        let (read, write) = (flags.open.read, flags.open.write || flags.open.truncate);
        let create = proto::Create {
            parent,
            name: Bytes::copy_from_slice(name),
            kind: FileKind::Regular as i32,
            mode: mode & 0o7777,
            exclusive: flags.exclusive,
            truncate: flags.open.truncate && !opened_first,
            cuts: match (&cut, &cutting) {
                (Some(node), Some(_)) => node.ino,
                _ => 0,
            },
            open_access: if read { access::READ } else { 0 }
                | if write { access::WRITE } else { 0 },
            ..proto::Create::default()
        };
        let creating = self.begin_creating(parent);
        let Here {
            node,
            known,
            is_new: created,
            session,
        } = match self.make_at(cred, create).await {
            Ok(Made::Here(made)) => made,
            Ok(Made::Elsewhere(ino, kind)) => {
                check_openable(kind)?;
                return Ok(Created::Elsewhere(ino));
            }
            Err(errno) => {
                if let Some(node) = cut.filter(|_| cutting.is_some() && errno == Errno(libc::EIO)) {
                    // Nobody knows whether it was cut: it is asked. Nothing is owed of it, and writes wait
                    // (`doubts.rs`).
                    node.state.borrow_mut().attr = None;
                }
                return Err(errno);
            }
        };
        if !created {
            check_openable(known.attr.kind())?;
        }
        let handle = self.handles.add_file(node.clone(), flags.open, session);
        drop(creating);
        let is_prepared = cutting.is_some() && cut.is_some_and(|cut| Rc::ptr_eq(&cut, &node));
        drop(cutting);
        let is_own = node.state.borrow().lease.mode() == Mode::Write;
        if flags.open.truncate && !created && (opened_first || !is_prepared && is_own) {
            // Or the name has come to mean this file meanwhile: what was on its way was not kept away.
            if let Err(errno) = self.cut(cred, &node, 0, true).await {
                self.close_handle(handle);
                return Err(errno);
            }
        }
        let known = self.freshest(&node, known.attr).await;
        Ok(Created::Here(known, handle))
    }

    pub async fn readlink(self: &Rc<Self>, ino: u64) -> Result<Bytes> {
        if let Some(node) = self.nodes.get(ino)
            && let Some(target) = &node.state.borrow().target
        {
            return Ok(target.clone());
        }
        let (node, _) = self.fetch_inode(ino, Mode::None).await?;
        let target = node.state.borrow().target.clone();
        target.ok_or(Errno(libc::EINVAL))
    }

    pub async fn link_at(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        parent: u64,
        name: &[u8],
    ) -> Result<Known> {
        check_name(name)?;
        let op = op::Op::Link(proto::Link {
            ino,
            parent,
            name: Bytes::copy_from_slice(name),
            unnamed: self.is_unnamed(ino),
        });
        let (reply, leases, link) = self.change_name(cred, op, parent).await?;
        let (node, known) = self.take_made(&link, parent, name, &reply, &leases)?;
        Ok(self.freshest(&node, known.attr).await)
    }

    pub async fn unlink_at(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let victim = self.victim(cred, parent, name).await;
        let keep_open = victim.is_open();
        let op = op::Op::Unlink(proto::Unlink {
            parent,
            name: Bytes::copy_from_slice(name),
            keep_open,
            victim: victim.told,
        });
        let (reply, leases, link) = self.change_name(cred, op, parent).await?;
        self.take_gone(&link, parent, name, &reply, &leases);
        if let Some(attr) = &reply.victim {
            let is_kept = self.is_of(&link, attr.ino) && victim.is_kept(attr, keep_open);
            self.take_victim(attr, is_kept);
        }
        Ok(())
    }

    /// The inode that may lose its last name, as far as it is known here. One that is not is looked
    /// up if any file is open at all: the server keeps an unlinked file only if it is told.
    async fn victim(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Victim {
        let node = self.used_here(cred, parent, name).await;
        if let Some(node) = &node {
            node.unlinking.set(node.unlinking.get() + 1);
        }
        // Another one could be open here only if any file is.
        let any = self.handles.any_file();
        let told = any.then(|| node.as_ref().map_or(0, |node| node.ino));
        let victim = Victim { node, told };
        if let Some(node) = victim.node.as_ref().filter(|_| !victim.is_open()) {
            // Nothing may be on its way to objects that are dropped.
            self.flush_closed(node).await;
        }
        victim
    }

    /// Waits for what a close has left to be written.
    pub async fn flush_closed(self: &Rc<Self>, node: &Rc<Node>) {
        if let Err(errno) = self.flush_data(node).await {
            // The node keeps what failed for its handles.
            tracing::debug!(ino = node.ino, %errno, "not flushed in time");
        }
    }

    fn take_gone(
        self: &Rc<Self>,
        link: &Link,
        parent: u64,
        name: &[u8],
        reply: &OpReply,
        leases: &[Lease],
    ) {
        self.take_leases(link, leases, 0);
        self.take_parents(link, reply, leases);
        let change = reply.parent.map_or(0, |parent| parent.change);
        self.put_name(parent, name, NameState::Absent, change);
    }

    /// An inode lost a name, maybe its last; `is_kept`: then the server keeps it for this client as that has
    /// said. (Another group than the change's home has asked whether it is open here, and the answer told
    /// it: `Core::answer`.)
    pub fn take_victim(self: &Rc<Self>, victim: &Attr, is_kept: bool) {
        let is_dir = victim.kind == FileKind::Directory as i32;
        if victim.nlink > 0 && !is_dir {
            return;
        }
        self.departs(victim.ino, true);
        let Some(node) = self.nodes.get(victim.ino) else {
            if is_kept {
                self.let_go(self.nodes.get_or_new(victim.ino));
            }
            return;
        };
        if node.is_open() {
            if is_kept {
                node.state.borrow_mut().orphan = true;
            } else {
                // Opened by its number after the service was asked to take the name: it lingers.
                let (core, ino) = (self.clone(), victim.ino);
                self.env.spawn("keeping what is open", async move {
                    // If it is gone, the next operation on the handle finds out.
                    let _: Result<()> = core.keep_nameless(ino).await;
                });
            }
            return;
        }
        if is_kept {
            self.let_go(node.clone());
        }
        // Who comes with its number is served what the servers have; all was sent before the name went, but for what could
        // not be.
        let mut state = node.state.borrow_mut();
        if !is_dir && self.face_has(victim.ino) {
            state.depart(victim.ino);
        }
        let dropped = state.buffer.waiting.bytes();
        state.buffer.waiting = Default::default();
        state.buffer.ready.clear();
        state.buffer.told = state.buffer.changes;
        state.lease.gone();
        state.forget();
        drop(state);
        self.writeback.forget(dropped);
        node.wake.notify_waiters();
    }

    pub async fn rmdir_at(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let op = op::Op::Rmdir(proto::Rmdir {
            parent,
            name: Bytes::copy_from_slice(name),
        });
        let (reply, leases, link) = self.change_name(cred, op, parent).await?;
        self.take_gone(&link, parent, name, &reply, &leases);
        if let Some(attr) = &reply.victim {
            self.take_victim(attr, false);
        }
        Ok(())
    }

    pub async fn rename_at(
        self: &Rc<Self>,
        cred: &Cred,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let victim = match flags.exchange {
            true => Victim::default(),
            false => self.victim(cred, to.0, to.1).await,
        };
        let keep_open = victim.is_open();
        // Whoever replaces a file by a new one has either content after a crash of this client.
        if self.writeback.buffered() > 0
            && let Some(node) = self.used_here(cred, from.0, from.1).await
        {
            self.flush_closed(&node).await;
        }
        let op = op::Op::Rename(proto::Rename {
            parent: from.0,
            name: Bytes::copy_from_slice(from.1),
            new_parent: to.0,
            new_name: Bytes::copy_from_slice(to.1),
            no_replace: flags.no_replace,
            exchange: flags.exchange,
            keep_open,
            victim: victim.told,
            whiteout: flags.whiteout,
        });
        let (reply, leases, link) = self.change_name(cred, op, from.0).await?;
        self.take_leases(&link, &leases, 0);
        self.take_parents(&link, &reply, &leases);
        if let Some(attr) = &reply.attr {
            self.take_changed(&link, attr, self.granted(&link, &leases, attr.ino));
        }
        let old_change = reply.parent.map_or(0, |attr| attr.change);
        let new_change = reply.new_parent.map_or(old_change, |attr| attr.change);
        if !self.is_of(&link, to.0) {
            // What is leased of that directory now came after the change; and perhaps after others.
            self.doubt(to);
        }
        match (reply.attr, reply.victim) {
            (Some(moved), other) if flags.exchange => {
                self.put_own_name(&link, to, moved.ino, new_change);
                if let Some(other) = other {
                    self.put_name(from.0, from.1, NameState::Present(other.ino), old_change);
                } else {
                    self.doubt(from);
                }
            }
            (Some(moved), gone) => {
                // Two names of one file: POSIX leaves both.
                let is_same = gone.is_some_and(|gone| gone.ino == moved.ino);
                if !is_same {
                    self.put_name(from.0, from.1, NameState::Absent, old_change);
                    if flags.whiteout {
                        // What the mark's number is the reply does not say.
                        self.doubt(from);
                    }
                    if let Some(attr) = &gone {
                        let is_kept =
                            self.is_of(&link, attr.ino) && victim.is_kept(attr, keep_open);
                        self.take_victim(attr, is_kept);
                    }
                }
                self.put_own_name(&link, to, moved.ino, new_change);
            }
            (None, _) => {
                self.doubt(from);
                self.doubt(to);
            }
        }
        Ok(())
    }
}

/// open(2) with O_CREAT of a name that is there.
fn check_openable(kind: FileKind) -> Result<()> {
    match kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Errno(libc::EISDIR)),
        // The kernel opens such files itself.
        _ => Err(Errno(libc::EEXIST)),
    }
}

/// What a create has made, or found.
pub(crate) struct Here {
    pub node: Rc<Node>,
    pub known: Known,
    /// It was made now.
    pub is_new: bool,
    /// Under which it was.
    pub session: u64,
}

/// What became of a create.
pub(crate) enum Made {
    Here(Here),
    /// The name is there, and stands for another group's inode.
    Elsewhere(u64, FileKind),
}

/// What became of an open that may make the file.
enum Created {
    Here(Known, HandleId),
    /// The name is there, and stands for a file of another group's.
    Elsewhere(u64),
}

/// An inode that may lose its last name: it is not opened meanwhile.
#[derive(Default)]
struct Victim {
    node: Option<Rc<Node>>,
    /// What the server is told of: its number, or 0 if none was known.
    told: Option<u64>,
}

impl Victim {
    fn is_open(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_open())
    }

    /// The server keeps what has lost its last name, after `keep_open` was said of this one.
    fn is_kept(&self, gone: &Attr, keep_open: bool) -> bool {
        is_kept(gone, keep_open, self.told)
    }
}

/// The same of one of which the server was told `told`.
pub(crate) fn is_kept(gone: &Attr, keep_open: bool, told: Option<u64>) -> bool {
    keep_open || told.is_some_and(|told| told != gone.ino)
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(node) = &self.node {
            node.unlinking.set(node.unlinking.get() - 1);
            node.wake.notify_waiters();
        }
    }
}
