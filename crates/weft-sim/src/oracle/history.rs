//! What clients did and what they were told.

use super::seams::ByCache;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// An operation of which nobody knows whether it was done takes effect within so many nanoseconds after its client has
/// given up or died, if it does: cuts that hold what it has sent end, and so do the terms of others whose leases it
/// waits for.
pub const LATE: u64 = 15_000_000_000;

/// One life of a client: another start is another client.
pub type ClientId = u32;

/// The kinds of inodes that the workload makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
}

/// Attributes as a client was told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Inode number.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Bytes; only regular files' are compared.
    pub size: u64,
}

/// Which part of a lock: four byte ranges that can be locked by fcntl, and flock's whole file.
pub const LOCK_UNITS: u8 = 4;
/// The unit that stands for flock.
pub const FLOCK_UNIT: u8 = LOCK_UNITS;

/// An operation of a client. Inodes and parents are given by number, as the client knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Lookup {
        parent: u64,
        name: Vec<u8>,
    },
    Create {
        parent: u64,
        name: Vec<u8>,
        mode: u32,
        exclusive: bool,
        truncate: bool,
    },
    Mkdir {
        parent: u64,
        name: Vec<u8>,
        mode: u32,
    },
    Mkfifo {
        parent: u64,
        name: Vec<u8>,
        mode: u32,
    },
    Symlink {
        parent: u64,
        name: Vec<u8>,
        target: Vec<u8>,
    },
    Readlink {
        ino: u64,
    },
    Link {
        ino: u64,
        parent: u64,
        name: Vec<u8>,
    },
    Unlink {
        parent: u64,
        name: Vec<u8>,
    },
    Rmdir {
        parent: u64,
        name: Vec<u8>,
    },
    Rename {
        parent: u64,
        name: Vec<u8>,
        new_parent: u64,
        new_name: Vec<u8>,
        no_replace: bool,
        exchange: bool,
    },
    Getattr {
        ino: u64,
    },
    Chmod {
        ino: u64,
        mode: u32,
    },
    Truncate {
        ino: u64,
        size: u64,
    },
    Getxattr {
        ino: u64,
        name: Vec<u8>,
    },
    Setxattr {
        ino: u64,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    Removexattr {
        ino: u64,
        name: Vec<u8>,
    },
    Listxattr {
        ino: u64,
    },
    /// opendir and readdir to the end.
    List {
        dir: u64,
    },
    Open {
        ino: u64,
        truncate: bool,
    },
    /// flush and release of a handle; `owner`'s locks on the file go with it.
    Close {
        ino: u64,
        owner: u64,
    },
    Read {
        ino: u64,
        offset: u64,
        length: u64,
    },
    /// The bytes are those of [`crate::oracle::content::pattern`] with the record's number.
    Write {
        ino: u64,
        offset: u64,
        length: u64,
        append: bool,
        sync: bool,
    },
    Fsync {
        ino: u64,
        data_only: bool,
    },
    Punch {
        ino: u64,
        offset: u64,
        length: u64,
    },
    ZeroRange {
        ino: u64,
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    /// fallocate mode 0.
    Extend {
        ino: u64,
        offset: u64,
        length: u64,
    },
    /// lseek with SEEK_HOLE or SEEK_DATA.
    Seek {
        ino: u64,
        offset: u64,
        hole: bool,
    },
    /// copy_file_range from `source` at `from` to `ino` at `to`.
    Copy {
        source: u64,
        from: u64,
        ino: u64,
        to: u64,
        length: u64,
    },
    /// `exclusive: None` unlocks. Units `first..=last`.
    Lock {
        ino: u64,
        owner: u64,
        first: u8,
        last: u8,
        exclusive: Option<bool>,
        wait: bool,
    },
    /// access by somebody who owns nothing.
    Access {
        ino: u64,
        mask: u32,
    },
    /// open and close by somebody who owns nothing.
    OpenAsUser {
        ino: u64,
        write: bool,
    },
    /// chmod by somebody who owns nothing.
    ChmodAsUser {
        ino: u64,
    },
    /// unlink by somebody who owns nothing: no directory of the workload lets him.
    UnlinkAsUser {
        parent: u64,
        name: Vec<u8>,
    },
    /// The service hears the client no more: what it had not synced may be lost.
    Loses,
    /// The client is dead: besides, nobody can tell any more what it had open.
    Dies,
    /// The client has written back everything; if only partly, it was told so.
    SyncsAll,
    /// The service ends the client's session: its locks and open references go.
    SessionEnds,
}

impl Op {
    /// The inode that it is about, where it is given by number.
    pub fn inode(&self) -> Option<u64> {
        match self {
            Op::Readlink { ino }
            | Op::Link { ino, .. }
            | Op::Getattr { ino }
            | Op::Chmod { ino, .. }
            | Op::Truncate { ino, .. }
            | Op::Getxattr { ino, .. }
            | Op::Setxattr { ino, .. }
            | Op::Removexattr { ino, .. }
            | Op::Listxattr { ino }
            | Op::Open { ino, .. }
            | Op::Close { ino, .. }
            | Op::Read { ino, .. }
            | Op::Write { ino, .. }
            | Op::Fsync { ino, .. }
            | Op::Punch { ino, .. }
            | Op::ZeroRange { ino, .. }
            | Op::Extend { ino, .. }
            | Op::Seek { ino, .. }
            | Op::Copy { ino, .. }
            | Op::Access { ino, .. }
            | Op::OpenAsUser { ino, .. }
            | Op::ChmodAsUser { ino }
            | Op::Lock { ino, .. } => Some(*ino),
            _ => None,
        }
    }

    /// The names that it is about, each with its directory's number.
    pub fn names(&self) -> Vec<(u64, &[u8])> {
        match self {
            Op::Lookup { parent, name }
            | Op::Create { parent, name, .. }
            | Op::Mkdir { parent, name, .. }
            | Op::Mkfifo { parent, name, .. }
            | Op::Symlink { parent, name, .. }
            | Op::Link { parent, name, .. }
            | Op::Unlink { parent, name }
            | Op::UnlinkAsUser { parent, name }
            | Op::Rmdir { parent, name } => vec![(*parent, name)],
            Op::Rename {
                parent,
                name,
                new_parent,
                new_name,
                ..
            } => vec![(*parent, name), (*new_parent, new_name)],
            _ => Vec::new(),
        }
    }

    /// True for operations that send data: if they fail for want of room, a part may be done.
    pub fn writes_data(&self) -> bool {
        matches!(
            self,
            Op::Write { .. }
                | Op::Fsync { .. }
                | Op::Close { .. }
                | Op::Punch { .. }
                | Op::ZeroRange { .. }
                | Op::Extend { .. }
                | Op::Copy { .. }
        )
    }

    /// True for operations by which the bytes of an inode may change, whichever it is.
    pub fn changes_content(&self) -> bool {
        let cuts = matches!(
            self,
            Op::Truncate { .. }
                | Op::Create { truncate: true, .. }
                | Op::Open { truncate: true, .. }
                | Op::Loses
                | Op::Dies
        );
        cuts || self.writes_data() && !matches!(self, Op::Fsync { .. } | Op::Close { .. })
    }

    /// True for operations that, where they succeed, were done by the metadata service.
    fn is_change(&self) -> bool {
        match self {
            Op::Rename {
                parent,
                name,
                new_parent,
                new_name,
                ..
            } => (parent, name) != (new_parent, new_name),
            Op::Mkdir { .. }
            | Op::Mkfifo { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Chmod { .. }
            | Op::Setxattr { .. }
            | Op::Removexattr { .. } => true,
            _ => false,
        }
    }

    /// True for operations whose effect is the metadata service's alone.
    fn is_of_service(&self) -> bool {
        let opens_or_cuts = matches!(
            self,
            Op::Create { .. } | Op::Open { .. } | Op::Truncate { .. } | Op::Lock { .. }
        );
        opens_or_cuts || self.is_change()
    }

    /// It says nothing and does nothing when its outcome is unknown.
    pub fn only_looks(&self) -> bool {
        matches!(
            self,
            Op::Lookup { .. }
                | Op::Readlink { .. }
                | Op::Getattr { .. }
                | Op::Getxattr { .. }
                | Op::Listxattr { .. }
                | Op::List { .. }
                | Op::Read { .. }
                | Op::Seek { .. }
                | Op::Access { .. }
                | Op::OpenAsUser { .. }
        )
    }

    /// True for what nobody is told of: it happens to a client.
    pub fn is_event(&self) -> bool {
        matches!(self, Op::Loses | Op::Dies | Op::SyncsAll | Op::SessionEnds)
    }

    /// A short name, for tables.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Lookup { .. } => "lookup",
            Op::Create { .. } => "create",
            Op::Mkdir { .. } => "mkdir",
            Op::Mkfifo { .. } => "mknod",
            Op::Symlink { .. } => "symlink",
            Op::Readlink { .. } => "readlink",
            Op::Link { .. } => "link",
            Op::Unlink { .. } => "unlink",
            Op::Rmdir { .. } => "rmdir",
            Op::Rename { exchange: true, .. } => "exchange",
            Op::Rename { .. } => "rename",
            Op::Getattr { .. } => "getattr",
            Op::Chmod { .. } => "setattr",
            Op::Truncate { .. } => "truncate",
            Op::Getxattr { .. } => "getxattr",
            Op::Setxattr { .. } => "setxattr",
            Op::Removexattr { .. } => "removexattr",
            Op::Listxattr { .. } => "listxattr",
            Op::List { .. } => "readdir",
            Op::Open { .. } => "open",
            Op::Close { .. } => "close",
            Op::Read { .. } => "read",
            Op::Write { append: true, .. } => "append",
            Op::Write { .. } => "write",
            Op::Fsync { .. } => "fsync",
            Op::Punch { .. } => "punch",
            Op::ZeroRange { .. } => "zero",
            Op::Extend { .. } => "extend",
            Op::Seek { .. } => "seek",
            Op::Copy { .. } => "copy",
            Op::Lock { wait: true, .. } => "wait for lock",
            Op::Lock { .. } => "lock",
            Op::Access { .. } => "access",
            Op::OpenAsUser { .. } => "user's open",
            Op::ChmodAsUser { .. } => "user's chmod",
            Op::UnlinkAsUser { .. } => "user's rm",
            Op::Loses => "loses",
            Op::Dies => "dies",
            Op::SyncsAll => "syncs all",
            Op::SessionEnds => "session ends",
        }
    }
}

/// What a client was told.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reply {
    Error(i32),
    Done,
    /// Lookup of a name that is not there.
    Absent,
    Entry(Seen),
    /// Number and kind alone.
    Inode(u64, Kind),
    Bytes(Bytes),
    /// An offset or a count of bytes.
    Number(u64),
    /// So many bytes of a write were taken, which are not all. What stopped it nobody was told.
    Written(u64),
    /// Name, inode and kind of each entry but `.` and `..`, in any order.
    Listing(Vec<(Vec<u8>, u64, Kind)>),
    Names(Vec<Vec<u8>>),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Error(errno) => write!(f, "errno {errno}"),
            Reply::Done => f.write_str("done"),
            Reply::Absent => f.write_str("absent"),
            Reply::Entry(seen) => write!(f, "{seen:?}"),
            Reply::Number(number) => write!(f, "{number}"),
            Reply::Written(count) => write!(f, "{count} bytes taken"),
            Reply::Inode(ino, kind) => write!(f, "{kind:?} {ino:x}"),
            Reply::Bytes(bytes) => {
                let mut hash = 0;
                for chunk in bytes.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    hash = crate::rng::fold(hash, u64::from_le_bytes(word));
                }
                write!(f, "{} bytes #{hash:016x}", bytes.len())
            }
            Reply::Listing(entries) => {
                for (name, ino, kind) in entries {
                    write!(f, "{}={ino:x}({kind:?}) ", String::from_utf8_lossy(name))?;
                }
                Ok(())
            }
            Reply::Names(names) => {
                for name in names {
                    write!(f, "{} ", String::from_utf8_lossy(name))?;
                }
                Ok(())
            }
        }
    }
}

/// How an operation came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not known whether it took effect; it cannot take effect later than this.
    Unknown {
        /// Virtual nanoseconds.
        until: u64,
    },
    /// It is over, and any part of it may have been done: a write for which there was no room.
    Partly,
    /// The client was told this.
    Known(Reply),
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who did it.
    pub client: ClientId,
    /// Who did it is a mount: a kernel asked, by the numbers of inodes that it holds.
    pub by_kernel: bool,
    /// What it was.
    pub op: Op,
    /// Virtual nanoseconds when it began.
    pub invoked: u64,
    /// When it ended; for an unknown outcome its bound.
    pub returned: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// Of a write that was not synced: the client was told later that writes to the file failed.
    pub lost_perhaps: bool,
    /// Of a copy: nothing changed any file while it went on, so that it is as if done at once.
    pub is_undisturbed: bool,
    /// Of a copy: that it begins. It is done in steps, and from here to its end others may see any of
    /// them.
    pub begins: bool,
    /// It takes effect after this one, if that does.
    pub after: Option<usize>,
    /// When it began, locks that were taken by its handle had been lost.
    pub lock_lost: bool,
    /// Of a read by way of a kernel's page cache.
    pub by_cache: Option<ByCache>,
    /// Of a kernel's write: where the WRITEs that it has sent end, but for the last one.
    pub sent: Vec<u64>,
    /// Of a part of a write: it failed, and who wrote was told how much was taken instead.
    pub unheard: bool,
    /// It is a part of the write with this number, which began at this offset.
    pub part_of: Option<(usize, u64)>,
}

/// An operation with names as text and long values cut.
fn plain(op: &Op) -> String {
    let text = format!("{op:?}");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find('[') {
        let Some(end) = rest[start..].find(']') else {
            break;
        };
        plain.push_str(&rest[..start]);
        let bytes: Option<Vec<u8>> = rest[start + 1..start + end]
            .split(", ")
            .map(|byte| byte.parse().ok())
            .collect();
        match bytes {
            Some(bytes) if bytes.len() > 16 => plain.push_str(&format!("<{}>", bytes.len())),
            Some(bytes) => plain.push_str(&String::from_utf8_lossy(&bytes)),
            None => plain.push_str(&rest[start..=start + end]),
        }
        rest = &rest[start + end + 1..];
    }
    plain.push_str(rest);
    plain
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.6}..{:.6} client {} {} -> {:?}",
            self.invoked as f64 / 1e9,
            self.returned as f64 / 1e9,
            self.client,
            plain(&self.op),
            self.outcome
        )
    }
}

/// The operations of a run, in the order in which they began. Clones share it.
#[derive(Clone, Default)]
pub struct History(
    Rc<RefCell<Vec<Record>>>,
    Rc<RefCell<Vec<ErrorSeen>>>,
    Rc<RefCell<BTreeSet<ClientId>>>,
    Rc<RefCell<BTreeSet<(ClientId, u64)>>>,
    Rc<RefCell<BTreeMap<u64, bool>>>,
);

/// An operation that ended with an errno.
#[derive(Clone, Debug)]
pub struct ErrorSeen {
    /// Its number.
    pub number: usize,
    /// The errno.
    pub errno: i32,
    /// Virtual nanoseconds when the client was told.
    pub at: u64,
}

impl History {
    /// What this client does from now on a kernel asks for.
    pub fn mounted(&self, client: ClientId) {
        self.2.borrow_mut().insert(client);
    }

    /// An operation begins. Returns its number; until [`History::end`] its outcome is unknown.
    pub fn begin(&self, client: ClientId, op: Op, now: u64) -> usize {
        let mut records = self.0.borrow_mut();
        records.push(Record {
            client,
            by_kernel: self.2.borrow().contains(&client),
            op,
            invoked: now,
            returned: u64::MAX,
            outcome: Outcome::Unknown { until: u64::MAX },
            lost_perhaps: false,
            is_undisturbed: false,
            begins: false,
            after: None,
            lock_lost: false,
            by_cache: None,
            sent: Vec::new(),
            unheard: false,
            part_of: None,
        });
        records.len() - 1
    }

    /// Before this operation began its handle had lost what it had locked.
    pub fn lock_was_lost(&self, number: usize) {
        if let Some(record) = self.0.borrow_mut().get_mut(number) {
            record.lock_lost = true;
        }
    }

    /// This read went by way of a kernel's page cache, and how.
    pub fn went_by_cache(&self, number: usize, how: ByCache) {
        if let Some(record) = self.0.borrow_mut().get_mut(number) {
            record.by_cache = Some(how);
        }
    }

    /// A WRITE of this write that ends there has been sent, and others follow.
    pub fn sent_until(&self, number: usize, end: u64) {
        if let Some(record) = self.0.borrow_mut().get_mut(number) {
            record.sent.push(end);
        }
    }

    /// How many changes of clients that have died may still take effect.
    pub fn in_doubt(&self, now: u64) -> usize {
        let records = self.0.borrow();
        let in_doubt = records.iter().filter(|record| {
            let is_over = record.returned == u64::MAX || record.returned <= now;
            let is_unknown = matches!(record.outcome, Outcome::Unknown { .. });
            is_unknown && !is_over && !record.op.only_looks()
        });
        in_doubt.count()
    }

    /// The number that the next operation will have.
    pub fn next(&self) -> usize {
        self.0.borrow().len()
    }

    /// An operation ended.
    pub fn end(&self, number: usize, outcome: Outcome, now: u64) {
        let mut records = self.0.borrow_mut();
        let record = &mut records[number];
        record.returned = match outcome {
            Outcome::Known(_) | Outcome::Partly => now,
            Outcome::Unknown { until } => until,
        };
        record.outcome = outcome;
    }

    /// The client is dead: what it had under way is unknown and takes effect no later than `until`.
    pub fn client_died(&self, client: ClientId, until: u64) {
        for record in self.0.borrow_mut().iter_mut() {
            if record.client == client && record.returned == u64::MAX {
                record.returned = until;
                record.outcome = Outcome::Unknown { until };
            }
        }
    }

    /// Everything that clients left behind has been cleared up by now: whatever has no end yet ends.
    pub fn settled(&self, now: u64) {
        for record in self.0.borrow_mut().iter_mut() {
            if record.returned == u64::MAX {
                record.returned = now;
                record.outcome = match record.op {
                    Op::SessionEnds => Outcome::Known(Reply::Done),
                    _ => Outcome::Unknown { until: now },
                };
            }
        }
    }

    /// The service has ended a dead client's session: nothing of it takes effect any more.
    pub fn client_is_over(&self, client: ClientId, now: u64) {
        self.is_over(client, now, |_| true);
    }

    /// A reign has begun since the client died: what it asked of the one before takes effect no more.
    pub fn reign_is_over(&self, client: ClientId, now: u64) {
        self.is_over(client, now, Op::is_of_service);
    }

    fn is_over(&self, client: ClientId, now: u64, which: impl Fn(&Op) -> bool) {
        for record in self.0.borrow_mut().iter_mut() {
            if let Outcome::Unknown { until } = &mut record.outcome
                && record.client == client
                && *until > now
                && which(&record.op)
            {
                *until = now;
                record.returned = now;
            }
        }
    }

    /// A session that was there at `since` ends, and what was not synced may be lost, at some time
    /// until `now`.
    pub fn session_lost(&self, client: ClientId, since: u64, now: u64) {
        let number = self.loss(client, Op::Loses, since, now);
        self.end(number, Outcome::Known(Reply::Done), now);
    }

    /// The client dies; its session may have been lost since `since`. When the service ends it is not
    /// known until [`History::end`]. Returns the number of that.
    pub fn client_dies(&self, client: ClientId, since: u64, now: u64) -> usize {
        self.loss(client, Op::Dies, since, now)
    }

    fn loss(&self, client: ClientId, op: Op, since: u64, now: u64) -> usize {
        let loss = self.begin(client, op, since);
        self.end(loss, Outcome::Known(Reply::Done), now);
        let number = self.begin(client, Op::SessionEnds, since);
        self.0.borrow_mut()[number].after = Some(loss);
        number
    }

    /// The client, which asked between `since` and `now` for all to be written back, was told that some
    /// of it was not: perhaps what it had written to files that others use since.
    pub fn sync_failed(&self, client: ClientId, since: u64, now: u64) {
        let number = self.begin(client, Op::SyncsAll, since);
        self.end(number, Outcome::Partly, now);
    }

    /// A session that ended between `since` and `now` after all was synced.
    pub fn session_left(&self, client: ClientId, since: u64, now: u64) {
        let synced = self.begin(client, Op::SyncsAll, since);
        let number = self.begin(client, Op::SessionEnds, since);
        self.0.borrow_mut()[number].after = Some(synced);
        for number in [synced, number] {
            self.end(number, Outcome::Known(Reply::Done), now);
        }
    }

    /// Takes note of the errno of an operation that has ended, if it did with one.
    pub fn note_error(&self, number: usize, reply: &Reply, now: u64) {
        if let Reply::Error(errno) = reply {
            self.1.borrow_mut().push(ErrorSeen {
                number,
                errno: *errno,
                at: now,
            });
        }
    }

    /// What this client had written to a file was lost in part, and it died. Had it lived, and not been told, that would
    /// be a fault.
    pub fn lost_untold(&self, client: ClientId, ino: u64) {
        self.3.borrow_mut().insert((client, ino));
    }

    /// What nobody had synced by then may have been lost. Who syncs it later is told. With `synced`, what was synced as
    /// well: it was in memory that files were kept.
    pub fn forgotten(&self, at: u64, synced: bool) {
        self.4.borrow_mut().insert(at, synced);
    }

    /// All errors, in the order in which they were told.
    pub fn errors(&self) -> Vec<ErrorSeen> {
        self.1.borrow().clone()
    }

    /// A copy of the records. Writes whose failure the client was told of later (at an fsync, a
    /// close or another write, as POSIX has it, or when it synced all) are marked.
    pub fn records(&self) -> Vec<Record> {
        let mut records = self.0.borrow().clone();
        bound_unknown_changes(&mut records);
        note_undisturbed(&mut records);
        let mut unsynced: BTreeMap<(ClientId, u64), Vec<usize>> = BTreeMap::new();
        let mut synced: Vec<usize> = Vec::new();
        let mut forgotten = self.4.borrow().clone();
        for number in 0..=records.len() {
            let now = records.get(number).map_or(u64::MAX, |it| it.invoked);
            while let Some(first) = forgotten.first_entry().filter(|at| *at.key() < now) {
                let synced = match first.remove() {
                    true => std::mem::take(&mut synced),
                    false => Vec::new(),
                };
                let unsynced = std::mem::take(&mut unsynced).into_values().flatten();
                for write in unsynced.chain(synced) {
                    records[write].lost_perhaps = true;
                }
            }
            if number == records.len() {
                break;
            }
            let record = &records[number];
            if let (Op::SyncsAll, Outcome::Partly) = (&record.op, &record.outcome) {
                // Of which files, it was not told.
                let client = record.client;
                for (_, writes) in
                    unsynced.extract_if((client, 0)..=(client, u64::MAX), |_, _| true)
                {
                    for write in writes {
                        records[write].lost_perhaps = true;
                    }
                }
                continue;
            }
            if record.op == Op::Dies {
                let client = record.client;
                let lost = self.3.borrow();
                for file in lost.range((client, 0)..=(client, u64::MAX)) {
                    for write in unsynced.remove(file).unwrap_or_default() {
                        records[write].lost_perhaps = true;
                    }
                }
                continue;
            }
            let Some(ino) = record.op.inode().filter(|_| record.op.writes_data()) else {
                continue;
            };
            let writes = unsynced.entry((record.client, ino)).or_default();
            match (&record.op, &record.outcome) {
                (_, Outcome::Partly | Outcome::Unknown { .. }) => {
                    for write in std::mem::take(writes) {
                        records[write].lost_perhaps = true;
                    }
                }
                (Op::Fsync { .. }, _) => synced.append(writes),
                (Op::Write { sync: true, .. }, _) => synced.push(number),
                _ => writes.push(number),
            }
        }
        records
    }
}

/// A copy reads and writes one after the other, and others may come between.
fn note_undisturbed(records: &mut [Record]) {
    let changes: Vec<(usize, u64, u64)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.op.changes_content())
        .map(|(number, record)| (number, record.invoked, record.returned))
        .collect();
    for (number, record) in records.iter_mut().enumerate() {
        if matches!(record.op, Op::Copy { .. }) {
            let (from, to) = (record.invoked, record.returned);
            let meets = |&(other, begin, end): &(usize, u64, u64)| {
                other != number && begin <= to && from <= end
            };
            record.is_undisturbed = !changes.iter().any(meets);
        }
    }
}

/// A change tells the service that its client no longer waits for the ones before it, and those are
/// refused from then on: a change of unknown outcome took effect before the next one was done, if it
/// did.
fn bound_unknown_changes(records: &mut [Record]) {
    let mut next_done: BTreeMap<ClientId, u64> = BTreeMap::new();
    for record in records.iter_mut().rev() {
        match &mut record.outcome {
            Outcome::Known(Reply::Done | Reply::Entry(_)) if record.op.is_change() => {
                next_done.insert(record.client, record.returned);
            }
            Outcome::Unknown { until } if record.op.is_change() => {
                if let Some(&next) = next_done.get(&record.client) {
                    *until = next.min(*until);
                    record.returned = *until;
                }
            }
            _ => {}
        }
    }
}
