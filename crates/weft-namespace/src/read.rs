//! Reading the state: what the server asks to answer clients, to revoke leases, to show and to
//! count. Nothing here changes anything.

use crate::access;
use crate::directory::DirectoryEntry;
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::layouts::Choice;
use crate::locks::Wanted;
use crate::names::Name;
use crate::ops::setxattr;
use crate::spread;
use crate::state::State;
use std::ops::Bound::{Excluded, Unbounded};
use weft_types::{
    Epoch, GroupId, Ino, ObjectId, Operation, PairId, ROOT_INO, SessionId, TransactionId,
};
use weft_wire::proto::{self, Cred, FileLock, OpReply};

/// An object that is to be dropped from a pair. It stays in the queue until a Dropped entry with
/// its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deletion {
    /// Names this entry of the queue; grows, never reused.
    pub queue_id: u64,
    /// Where the object lies (on both members).
    pub pair: PairId,
    /// The object.
    pub object: ObjectId,
}

/// A session, for tools and for expiry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSummary {
    /// Its number.
    pub session: SessionId,
    /// What the client called itself.
    pub name: String,
    /// Replies kept for it.
    pub replies: usize,
    /// Write leases that it holds.
    pub write_leases: usize,
    /// Inodes that it holds open without (or soon without) a name.
    pub holds: usize,
    /// Its term in milliseconds, if it has one of its own; else 0.
    pub term_ms: u64,
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Inodes of all kinds, orphans included.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Objects to be dropped.
    pub deletions: u64,
    /// About how much memory the state takes, in bytes.
    pub memory_bytes: u64,
}

impl State {
    /// Finds a name, `.` and `..` too. None if it is not there.
    ///
    /// Errors: ESTALE (no such parent), ENOTDIR, EACCES (the parent may not be searched),
    /// ENAMETOOLONG, ENOENT (empty name), EINVAL (NUL or '/').
    pub fn lookup(
        &self,
        cred: &Cred,
        parent: Ino,
        name: &[u8],
    ) -> Result<Option<proto::Inode>, Errno> {
        let (_, directory) = self.searchable(cred, parent)?;
        let ino = match Name::parse(name)? {
            Name::Dot => Some(parent),
            Name::DotDot => Some(self.whole(directory.parent)),
            Name::Plain(name) => directory.find(name).map(|(_, ino)| ino),
        };
        // A directory that was removed while open may have outlived its parent.
        Ok(ino.and_then(|ino| match self.slots.has(ino.slot()) {
            true => self.inode(ino).ok(),
            false => Some(self.foreign_inode(ino)),
        }))
    }

    /// What may be known of an inode. ESTALE if there is none of this number.
    pub fn inode(&self, ino: Ino) -> Result<proto::Inode, Errno> {
        let inode = self.get(ino)?;
        let trim = self.trims.get(&ino);
        Ok(proto::Inode {
            attr: Some(inode.attr(ino)),
            layout: inode.layout(),
            target: match &inode.body {
                Body::Symlink(target) => target.to_vec().into(),
                _ => Default::default(),
            },
            trim_seq: trim.map_or(0, |trim| trim.seq),
            trim_from: trim.map_or(0, |trim| trim.from),
            policy: match &inode.body {
                Body::Directory(directory) => Some(directory.policy.to_proto()),
                _ => None,
            },
            elsewhere: false,
            no_xattrs: !self.xattrs.contains_key(&ino),
            shards: inode.shards().iter().map(|shard| shard.0).collect(),
            border: match &inode.body {
                Body::Directory(directory) => directory.role.border(),
                _ => 0,
            },
            shard_of: match self.whole(ino) {
                whole if whole == ino => 0,
                whole => whole.0,
            },
        })
    }

    /// What is known here of another group's inode: its number, and what it is. (What has no name here is
    /// the parent of something, so a directory.)
    fn foreign_inode(&self, ino: Ino) -> proto::Inode {
        let kind = self.kind_of(ino).unwrap_or(proto::FileKind::Directory);
        proto::Inode {
            attr: Some(State::foreign_attr(ino, kind)),
            elsewhere: true,
            ..proto::Inode::default()
        }
    }

    pub(crate) fn foreign_attr(ino: Ino, kind: proto::FileKind) -> proto::Attr {
        proto::Attr {
            ino: ino.0,
            kind: kind as i32,
            ..proto::Attr::default()
        }
    }

    /// Other groups' transactions that have parts prepared here: what became of them is to be asked.
    pub fn prepared(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.prepared.keys().copied()
    }

    /// Another group's transaction that has parts prepared here.
    pub fn is_prepared(&self, transaction: TransactionId) -> bool {
        self.prepared.contains_key(&transaction)
    }

    /// This group's transactions of which others are still to hear, and who they are.
    pub fn decided(&self) -> impl Iterator<Item = (TransactionId, Vec<GroupId>)> + '_ {
        let decided = self.decided.iter();
        decided.map(|(id, others)| (*id, others.iter().copied().collect()))
    }

    /// This transaction of this group's is done, and not all have heard of it.
    pub fn is_decided(&self, transaction: TransactionId) -> bool {
        self.decided.contains_key(&transaction)
    }

    /// Another group's transaction that has locked here what this part touches.
    pub fn locked_against(&self, part: &proto::Part, by: TransactionId) -> Option<TransactionId> {
        self.locked.against(part, by)
    }

    /// Lists at most `max` entries after a cookie (0: from the start) in order, without `.` and
    /// `..`. Answers the entries, whether these are the last, and the parent. `DirEntry::inode` is
    /// left absent: [`State::inode`] gives it where attributes are wanted, and showing them needs
    /// search permission besides.
    ///
    /// Errors: ESTALE, ENOTDIR, EACCES (the directory may not be read).
    pub fn readdir(
        &self,
        cred: &Cred,
        ino: Ino,
        after: u64,
        max: usize,
    ) -> Result<(Vec<proto::DirEntry>, bool, Ino), Errno> {
        let (inode, directory) = self.directory(ino)?;
        access::check(cred, inode, access::READ)?;
        let visible = |(_, entry): &(u64, &DirectoryEntry)| !spread::is_hidden(&entry.name);
        let mut rest = directory.after(after).filter(visible);
        let mut entries = Vec::with_capacity(max.min(directory.len()));
        for (cookie, entry) in rest.by_ref().take(max) {
            let kind = self.kind_of(entry.ino).map_or(0, |kind| kind as i32);
            entries.push(proto::DirEntry {
                name: entry.name.to_vec().into(),
                ino: entry.ino.0,
                kind,
                cookie,
                inode: None,
            });
        }
        let end = rest.next().is_none();
        Ok((entries, end, self.whole(directory.parent)))
    }

    /// The cookie of the next entry that is added to a directory; 0 if it is none.
    pub fn next_cookie(&self, ino: Ino) -> u64 {
        self.directory(ino)
            .map_or(0, |(_, directory)| directory.next_cookie())
    }

    /// May the caller read (4), write (2), execute or search (1) it? Errors: ESTALE, EACCES.
    pub fn access(&self, cred: &Cred, ino: Ino, mask: u32) -> Result<(), Errno> {
        access::check(cred, self.get(ino)?, mask)
    }

    /// The value of an extended attribute. Errors: ESTALE, ENODATA, EACCES, EOPNOTSUPP, ERANGE.
    pub fn getxattr(&self, cred: &Cred, ino: Ino, name: &[u8]) -> Result<&[u8], Errno> {
        let inode = self.get(ino)?;
        setxattr::check_readable(cred, inode, name)?;
        let value = self.xattrs.get(&ino).and_then(|xattrs| xattrs.get(name));
        value.map(|value| &**value).ok_or(Errno::ENODATA)
    }

    /// The names of the extended attributes that the caller may know of, sorted. Errors: ESTALE.
    pub fn listxattr(&self, cred: &Cred, ino: Ino) -> Result<Vec<&[u8]>, Errno> {
        self.get(ino)?;
        let names = self
            .xattrs
            .get(&ino)
            .into_iter()
            .flatten()
            .map(|(name, _)| &**name);
        Ok(names
            .filter(|n| access::is_root(cred) || !n.starts_with(b"trusted."))
            .collect())
    }

    /// The lock that would keep the session from setting this one (fcntl F_GETLK). None: it could be
    /// set. Errors: ESTALE, EINVAL.
    pub fn get_lock(
        &self,
        session: SessionId,
        ino: Ino,
        lock: &FileLock,
    ) -> Result<Option<FileLock>, Errno> {
        self.get(ino)?;
        let wanted = Wanted::new(session, lock)?;
        Ok(self
            .locks
            .get(&ino)
            .and_then(|locks| locks.conflict(&wanted)))
    }

    /// The owners of all locks that keep this one from being set.
    pub fn lock_holders(
        &self,
        session: SessionId,
        ino: Ino,
        lock: &FileLock,
    ) -> Vec<(SessionId, u64)> {
        let Ok(wanted) = Wanted::new(session, lock) else {
            return Vec::new();
        };
        let held = self.locks.get(&ino);
        held.map_or_else(Vec::new, |locks| locks.holders(&wanted))
    }

    /// Who holds the write lease alone.
    pub fn write_lease(&self, ino: Ino) -> Option<SessionId> {
        self.write_leases.get(&ino).copied()
    }

    /// The sessions that write it beside one another, in order.
    pub fn sharers(&self, ino: Ino) -> impl Iterator<Item = SessionId> + '_ {
        self.sharers.get(&ino).into_iter().flatten().copied()
    }

    /// Several sessions write the file, or may.
    pub fn is_shared(&self, ino: Ino) -> bool {
        self.sharers.contains_key(&ino)
    }

    /// The session writes the file beside others.
    pub fn shares(&self, ino: Ino, session: SessionId) -> bool {
        let sharers = self.sharers.get(&ino);
        sharers.is_some_and(|sharers| sharers.contains(&session))
    }

    /// The session writes the file, alone or beside others.
    pub fn writes(&self, ino: Ino, session: SessionId) -> bool {
        self.write_leases.get(&ino) == Some(&session) || self.shares(ino, session)
    }

    /// The session writes nothing but copies of files that it moves.
    pub fn only_moves(&self, session: SessionId) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.only_moves)
    }

    /// Files that a session has cut to nothing by operations that it may not have the answers of: until
    /// it has, it may write to the objects that they had before.
    pub fn cut_unheard(&self) -> impl Iterator<Item = (SessionId, Operation, Ino)> {
        let live = self.sessions.iter().filter(|(_, it)| !it.is_ended);
        live.flat_map(|(session, it)| {
            let cuts = it.cut_unheard();
            cuts.map(|(operation, ino)| (*session, operation, ino))
        })
    }

    /// How large a file is, in bytes, as far as has been told. 0: there is no such file.
    pub fn file_size(&self, ino: Ino) -> u64 {
        self.file(ino).map_or(0, |(_, file)| file.size)
    }

    /// Remains of a longer file are still to be trimmed.
    pub fn has_remains(&self, ino: Ino) -> bool {
        self.trims.contains_key(&ino)
    }

    /// What a session calls itself; empty for one that is not known.
    pub fn session_name(&self, session: SessionId) -> &str {
        let known = self.sessions.get(&session);
        known.map_or("", |known| &known.name)
    }

    /// The inodes that a session writes, alone or beside others, in order; not what lingers, of which nothing is to be
    /// settled.
    pub fn write_leases_of(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session).into_iter();
        let inos = known.flat_map(|known| known.write_leases.iter().copied());
        inos.filter(|ino| !self.lingers(*ino)).collect()
    }

    /// The inodes on which a session holds locks, in order: their waiters may try again when it ends.
    pub fn locks_of(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session);
        known
            .map(|s| s.locks.iter().copied().collect())
            .unwrap_or_default()
    }

    /// The inodes that a session holds open without (or soon without) a name, in order.
    pub fn holds_of(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session);
        known
            .map(|s| s.holds.iter().copied().collect())
            .unwrap_or_default()
    }

    /// The inode has a name, or is kept for the session without one.
    pub fn is_there_for(&self, ino: Ino, session: SessionId) -> bool {
        let is_held = || {
            let holders = self.holds.get(&ino);
            holders.is_some_and(|holders| holders.contains(&session))
        };
        let inode = self.inodes.get(&ino);
        inode.is_some_and(|inode| inode.nlink > 0 || is_held())
    }

    /// It is a directory, here or at another group that has told of it.
    pub fn is_directory(&self, ino: Ino) -> bool {
        self.kind_of(ino) == Some(proto::FileKind::Directory)
    }

    /// All open sessions of this group, in order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionSummary> + '_ {
        let own = self.sessions.iter();
        let own = own.filter(|(id, known)| !self.is_guest(**id) && !known.is_ended);
        own.map(|(id, session)| SessionSummary {
            session: *id,
            name: session.name.clone(),
            replies: session.replies().len(),
            write_leases: session.write_leases.len(),
            holds: session.holds.len(),
            term_ms: session.term_ms,
        })
    }

    /// The root directory is as [`State::new`] makes it.
    pub fn is_untouched(&self) -> bool {
        let made = State::new();
        let change = |state: &State| state.get(ROOT_INO).map(|root| root.change);
        change(self) == change(&made)
    }

    /// Sessions that hold a WRITE lease. Looks at every session.
    pub fn writers(&self) -> u32 {
        let sessions = self.sessions.values();
        let writing = sessions.filter(|session| !session.write_leases.is_empty());
        u32::try_from(writing.count()).unwrap_or(u32::MAX)
    }

    /// True while the session is open.
    pub fn session_exists(&self, session: SessionId) -> bool {
        let known = self.sessions.get(&session);
        known.is_some_and(|known| !known.is_ended)
    }

    /// The number that the next session gets: all below that are not open have ended.
    pub fn next_session(&self) -> SessionId {
        SessionId(self.next_session)
    }

    /// The reply of a change that has been done. A change whose reply the client has acknowledged is
    /// answered with ESTALE: its reply is forgotten, and it must not be done again. None: not done,
    /// or no such session.
    pub fn answered(&self, session: SessionId, operation: Operation) -> Option<OpReply> {
        if operation.0 == 0 {
            return None;
        }
        self.sessions.get(&session)?.answered(operation)
    }

    /// The states of all pairs, by pair.
    pub fn pair_states(&self) -> impl ExactSizeIterator<Item = &proto::PairState> + '_ {
        self.pairs.values()
    }

    /// The state of one pair.
    pub fn pair_state(&self, pair: PairId) -> Option<proto::PairState> {
        self.pairs.get(&pair).copied()
    }

    /// The pairs there are, in order.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = PairId> + '_ {
        self.pairs.keys().copied()
    }

    /// Of how many pairs an entry's `random` chooses the one at which a new file begins.
    /// `full` are those with little room, in order.
    pub fn pairs_for_new_files(&self, full: &[u32]) -> usize {
        self.choice(full).count()
    }

    pub(crate) fn choice<'a>(&'a self, full: &'a [u32]) -> Choice<'a> {
        Choice {
            pairs: &self.pairs,
            draining: &self.draining,
            full,
        }
    }

    /// The first `max` objects that are to be dropped, in the order in which they came.
    pub fn deletions(&self, max: usize) -> Vec<Deletion> {
        self.deletions_after(0, max)
    }

    /// The same after a number of the queue: to get past what waits for a pair that is away.
    pub fn deletions_after(&self, after: u64, max: usize) -> Vec<Deletion> {
        let rest = self.deletions.range((Excluded(after), Unbounded)).take(max);
        rest.map(|(id, (pair, object))| Deletion {
            queue_id: *id,
            pair: *pair,
            object: *object,
        })
        .collect()
    }

    /// The reign of the last NewReign.
    pub fn reign(&self) -> Epoch {
        self.reign
    }

    /// How much there is. Cheap: walks the sessions, not the inodes.
    pub fn statistics(&self) -> Statistics {
        let inodes = self.inodes.len() as u64;
        let replies: u64 = self
            .sessions
            .values()
            .map(|s| s.reply_bytes() as u64 + s.replies().len() as u64 * REPLY_BYTES)
            .sum();
        let counts = &self.counts;
        let memory_bytes = inodes * INODE_BYTES
            + counts.directories * DIRECTORY_BYTES
            + counts.inhabited * FIRST_ENTRY_BYTES
            + counts.entries * ENTRY_BYTES
            + counts.name_bytes
            + counts.target_bytes
            + counts.xattrs * XATTR_BYTES
            + counts.xattr_bytes
            + (self.write_leases.len() + self.sharers.len()) as u64 * LEASE_BYTES
            + self.deletions.len() as u64 * DELETION_BYTES
            + self.sessions.len() as u64 * SESSION_BYTES
            + replies;
        Statistics {
            inodes,
            directories: counts.directories,
            sessions: self.sessions.len() as u64,
            deletions: self.deletions.len() as u64,
            memory_bytes,
        }
    }
}

// Sizes for the estimate, in bytes: what the parts take with the unused room of tree nodes (which
// are a little over half full where keys only grow) and the allocator's overhead. tests/memory.rs
// holds the estimate against the truth.
const INODE_BYTES: u64 = size_of::<Inode>() as u64 + 16 + 30;
const DIRECTORY_BYTES: u64 = 96;
// The first entry of a directory takes a whole node of each of its two trees.
const FIRST_ENTRY_BYTES: u64 = 400;
const ENTRY_BYTES: u64 = 58 + 25 + 12;
const XATTR_BYTES: u64 = 32 * 2 + 32;
const LEASE_BYTES: u64 = 30 + 15;
const DELETION_BYTES: u64 = 58;
const SESSION_BYTES: u64 = 300;
const REPLY_BYTES: u64 = 24 * 2 + 16;
