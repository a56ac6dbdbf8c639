//! The reference file system: what POSIX says that an operation does and answers.
//!
//! Written apart from the one under test, on purpose: plain maps, no leases, no times, and of
//! permissions only what somebody who owns nothing may do (all that is made is root's). [`State::apply`] answers which states the reference may be in
//! after an operation that had this outcome; none, if it cannot have had it.

use super::content::{Content, Value};
use super::history::{ClientId, FLOCK_UNIT, Kind, Op, Outcome, Record, Reply, Seen};
use super::lingering::Lingering;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;

/// An inode of the reference: the number of the record that made it (the root: `usize::MAX`), so
/// that the same operations in another order give the same state.
pub(super) type Id = usize;
const ROOT: Id = usize::MAX;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inode {
    /// The number that the system gave it, once a client has seen it.
    pub(super) ino: Option<u64>,
    pub(super) kind: Kind,
    mode: u32,
    /// Names; of a directory not counted.
    pub(super) names: u32,
    /// When the last name of one that lingers went, at the earliest.
    pub(super) left_at: u64,
    parent: Id,
    entries: BTreeMap<Vec<u8>, Id>,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) content: Content,
}

/// An inode that states have in common until one changes it. To compare it with itself costs nothing, and most
/// of what two states hold is that.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<Inode>);

impl Deref for Shared {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.0
    }
}

impl Ord for Shared {
    fn cmp(&self, other: &Shared) -> Ordering {
        match Rc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Shared) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Shared) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Shared {}

/// Who holds a lock: a session and an owner within it.
type Owner = (ClientId, u64);
/// A unit of an inode that can be locked.
type Unit = (Id, u8);

/// A state of the reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    pub(super) inodes: BTreeMap<Id, Shared>,
    /// Open handles of each session.
    opens: BTreeMap<(ClientId, Id), u32>,
    /// Holders of each unit of each inode; true: exclusive.
    pub(super) locks: BTreeMap<Unit, BTreeMap<Owner, bool>>,
    /// Numbers of inodes that are gone.
    gone: BTreeSet<u64>,
    /// Clients that are dead. What they have open keeps files that only they could ask for.
    dead: BTreeSet<ClientId>,
    /// Clients that have lost a session. What they had open without a name they may have kept for the next one, if it
    /// is there for others still.
    have_lost: BTreeSet<ClientId>,
    /// What becomes of inodes without a name, if it is not that they are gone.
    pub(super) lingering: Option<Lingering>,
}

/// What an operation does: the state after it, or the errors of which it gives one.
pub(super) type Effect = Result<State, Vec<i32>>;

pub(super) const GONE: [i32; 2] = [libc::ENOENT, libc::ESTALE];

impl State {
    /// An empty tree.
    pub fn new(root_ino: u64) -> State {
        let root = Inode {
            ino: Some(root_ino),
            kind: Kind::Directory,
            mode: 0o755,
            names: 1,
            left_at: 0,
            parent: ROOT,
            entries: BTreeMap::new(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            content: Content::default(),
        };
        State {
            inodes: BTreeMap::from([(ROOT, Shared(Rc::new(root)))]),
            opens: BTreeMap::new(),
            locks: BTreeMap::new(),
            gone: BTreeSet::new(),
            dead: BTreeSet::new(),
            have_lost: BTreeSet::new(),
            lingering: None,
        }
    }

    /// Nothing but a file that has a name for good. `gone`: numbers of which nothing is known.
    pub(super) fn with_file(ino: u64, mode: u32, gone: BTreeSet<u64>) -> State {
        const FILE: Id = usize::MAX - 1;
        let mut state = State::new(0);
        state.add(FILE, ROOT, b"file", Kind::File, mode);
        state.edit(FILE).ino = Some(ino);
        state.gone = gone;
        state
    }

    pub(super) fn find(&self, ino: u64) -> Result<Id, Vec<i32>> {
        self.inodes
            .iter()
            .find(|(_, inode)| inode.ino == Some(ino))
            .map(|(&id, _)| id)
            .ok_or(GONE.to_vec())
    }

    pub(super) fn directory(&self, ino: u64) -> Result<Id, Vec<i32>> {
        let id = self.find(ino)?;
        match self.inodes[&id].kind {
            Kind::Directory => Ok(id),
            _ => Err(vec![libc::ENOTDIR]),
        }
    }

    pub(super) fn get(&self, id: Id) -> &Inode {
        &self.inodes[&id]
    }

    fn edit(&mut self, id: Id) -> &mut Inode {
        let inode = self.inodes.get_mut(&id).expect("ids come from the state");
        Rc::make_mut(&mut inode.0)
    }

    pub(super) fn entry(&self, directory: Id, name: &[u8]) -> Option<Id> {
        self.get(directory).entries.get(name).copied()
    }

    /// True if `inner` is `outer` or below it.
    fn within(&self, mut inner: Id, outer: Id) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            if inner == ROOT {
                return false;
            }
            inner = self.get(inner).parent;
        }
    }

    fn links(&self, id: Id) -> u32 {
        let inode = self.get(id);
        if inode.kind != Kind::Directory {
            return inode.names;
        }
        let below = inode
            .entries
            .values()
            .filter(|&&child| self.get(child).kind == Kind::Directory)
            .count();
        2 + below as u32
    }

    /// Removes an inode that has no names and is not open, unless it lingers.
    fn collect(&mut self, id: Id) {
        let inode = self.get(id);
        if inode.names == 0 && !self.is_open(id) && !self.may_linger(id) {
            self.gone.extend(inode.ino);
            self.inodes.remove(&id);
            self.locks.retain(|&(locked, _), _| locked != id);
        }
    }

    /// An inode loses a name, at `now` at the earliest.
    fn drop_name(&mut self, id: Id, now: u64) {
        let lingers = self.may_linger(id);
        let inode = self.edit(id);
        inode.names -= 1;
        if lingers && inode.names == 0 {
            inode.left_at = now;
        }
        self.collect(id);
    }

    /// Takes note of what a client was told of an inode: false if it cannot be.
    fn see(&mut self, client: ClientId, id: Id, seen: &Seen) -> bool {
        let links = self.links(id);
        let is_ghost = self.may_be_ghost(client, id);
        if links != seen.nlink || self.get(id).mode != seen.mode && !is_ghost {
            return false;
        }
        if !self.see_number(id, seen.ino, seen.kind) {
            return false;
        }
        match seen.kind {
            Kind::File if !is_ghost => self.edit(id).content.see_size(client, seen.size),
            _ => true,
        }
    }

    /// Takes note of an inode's number: false if it cannot have it.
    fn see_number(&mut self, id: Id, ino: u64, kind: Kind) -> bool {
        let inode = self.get(id);
        if inode.kind != kind {
            return false;
        }
        match inode.ino {
            Some(known) => known == ino,
            // Numbers are never used again.
            None if self.find(ino).is_ok() || self.gone.contains(&ino) => false,
            None => {
                self.edit(id).ino = Some(ino);
                true
            }
        }
    }

    fn add(&mut self, number: usize, parent: Id, name: &[u8], kind: Kind, mode: u32) -> Id {
        let inode = Inode {
            ino: None,
            kind,
            mode,
            names: 1,
            left_at: 0,
            parent,
            entries: BTreeMap::new(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            content: Content::default(),
        };
        self.inodes.insert(number, Shared(Rc::new(inode)));
        self.edit(parent).entries.insert(name.to_vec(), number);
        number
    }

    /// What a client has open.
    pub(super) fn opens_of(&self, client: ClientId) -> impl Iterator<Item = &(ClientId, Id)> {
        self.opens
            .range((client, 0)..=(client, usize::MAX))
            .map(|(open, _)| open)
    }

    pub(super) fn has_open(&self, client: ClientId, id: Id) -> bool {
        self.opens.contains_key(&(client, id))
    }

    pub(super) fn is_open(&self, id: Id) -> bool {
        self.opens.keys().any(|&(_, open)| open == id)
    }

    fn open(&mut self, client: ClientId, id: Id) {
        if self.dead.contains(&client) {
            return;
        }
        *self.opens.entry((client, id)).or_default() += 1;
    }

    fn close_all(&mut self, client: ClientId) {
        let opened: Vec<Id> = self.opens_of(client).map(|&(_, id)| id).collect();
        for id in opened {
            self.opens.remove(&(client, id));
            self.collect(id);
        }
    }

    fn close(&mut self, client: ClientId, id: Id) {
        if let Some(count) = self.opens.get_mut(&(client, id)) {
            *count -= 1;
            if *count == 0 {
                self.opens.remove(&(client, id));
                self.collect(id);
            }
        }
    }

    /// All but what files hold: states that have this in common may include one another.
    pub(super) fn skeleton(&self) -> State {
        let mut bare = self.clone();
        for inode in bare.inodes.values_mut() {
            if inode.content != Content::default() {
                Rc::make_mut(&mut inode.0).content = Content::default();
            }
        }
        bare
    }

    /// True if everything that `other`, of the same skeleton, allows is allowed here, too.
    pub(super) fn includes(&self, other: &State) -> bool {
        let mut pairs = self.inodes.values().zip(other.inodes.values());
        pairs.all(|(mine, theirs)| mine == theirs || mine.content.includes(&theirs.content))
    }

    /// The states that the reference may be in after operation `number`, which came out like this.
    pub fn apply(&self, number: usize, record: &Record) -> Vec<State> {
        let reply = match &record.outcome {
            Outcome::Known(reply) => Some(reply),
            Outcome::Unknown { .. } | Outcome::Partly => None,
        };
        if let Some(Reply::Error(libc::ENOSPC | libc::EDQUOT)) = reply {
            // Nothing was made or changed; whether that may be, an invariant of its own says.
            return vec![self.clone()];
        }
        if self.means_nothing(record) {
            // It was done, or not.
            let done = self.effect(number, record, None).ok();
            let is_refused = matches!(reply, Some(Reply::Error(_)));
            let done = done.filter(|done| !is_refused && *done != *self);
            return done.into_iter().chain([self.clone()]).collect();
        }
        match (self.effect(number, record, reply), reply) {
            (Ok(_), Some(Reply::Error(_))) => Vec::new(),
            (Ok(state), _) if self.may_be_done_by_a_ghost(record) => vec![state, self.clone()],
            (Ok(state), None) if record.op.writes_data() => {
                vec![self.perhaps_refused(state, record)]
            }
            (Ok(state), _) => vec![state],
            (Err(errors), Some(Reply::Error(errno))) if errors.contains(errno) => {
                vec![self.clone()]
            }
            // Whatever stood in its way, it is over.
            (Err(_), None) if record.outcome == Outcome::Partly => vec![self.clone()],
            (Err(_), _) => Vec::new(),
        }
    }

    /// `next`, unless the operation was refused before it had the file: others may have been asked for nothing of what
    /// they have written.
    fn perhaps_refused(&self, mut next: State, record: &Record) -> State {
        if let Some(ino) = record.op.inode()
            && let Ok(id) = self.find(ino)
            && next.inodes.contains_key(&id)
        {
            let before = &self.get(id).content;
            next.edit(id)
                .content
                .others_unsynced_as(before, record.client);
        }
        next
    }

    /// What the operation does here. With a reply, an effect that contradicts it is `Err(vec![])`.
    fn effect(&self, number: usize, record: &Record, reply: Option<&Reply>) -> Effect {
        let client = record.client;
        if let Some(effect) = self.of_nameless(record, reply) {
            return effect;
        }
        if let (Some(ino), Some(Reply::Error(errno))) = (record.op.inode(), reply)
            && let Ok(id) = self.find(ino)
            && self.get(id).names == 0
            && !self.opens.contains_key(&(client, id))
            && GONE.contains(errno)
        {
            // It lives on only because another session has it open.
            return Err(GONE.to_vec());
        }
        if let Some(ino) = record.op.inode()
            && self.gone.contains(&ino)
            && !matches!(record.op, Op::Link { .. })
        {
            // No name leads to it and nobody has it open: only a caller that keeps inode numbers,
            // as this workload does and no kernel, can ask, and what it is told means nothing.
            return match reply {
                Some(Reply::Error(errno)) => Err(vec![*errno]),
                _ => Ok(self.clone()),
            };
        }
        let mut next = self.clone();
        match &record.op {
            Op::Lookup { parent, name } => {
                let parent = match self.directory(*parent) {
                    // ENOENT says of a directory that is gone, too, that the name is not there.
                    Err(errors) if errors == GONE && reply == Some(&Reply::Absent) => {
                        return Ok(next);
                    }
                    parent => parent?,
                };
                match (self.entry(parent, name), reply) {
                    (None, Some(Reply::Absent)) | (_, None) => Ok(next),
                    (Some(id), Some(_)) => next.seen(client, id, reply),
                    _ => Err(vec![]),
                }
            }
            Op::Create {
                parent,
                name,
                mode,
                exclusive,
                truncate,
            } => {
                let parent = self.directory(*parent)?;
                let id = match self.entry(parent, name) {
                    Some(_) if *exclusive => return Err(vec![libc::EEXIST]),
                    Some(id) => match self.get(id).kind {
                        Kind::Directory => return Err(vec![libc::EISDIR]),
                        Kind::File => {
                            if *truncate {
                                next.edit(id).content.truncate(client, 0);
                            }
                            id
                        }
                        // What opening these means is the kernel's business, not the service's.
                        Kind::Symlink | Kind::Fifo => return Err(strange(reply)),
                    },
                    None => next.add(number, parent, name, Kind::File, *mode),
                };
                next.open(client, id);
                next.seen(client, id, reply)
            }
            Op::Mkdir { parent, name, mode } => self.make(
                next,
                record,
                number,
                reply,
                *parent,
                name,
                Kind::Directory,
                *mode,
            ),
            Op::Mkfifo { parent, name, mode } => self.make(
                next,
                record,
                number,
                reply,
                *parent,
                name,
                Kind::Fifo,
                *mode,
            ),
            Op::Symlink {
                parent,
                name,
                target,
            } => {
                let kind = Kind::Symlink;
                let mut made =
                    self.make(next, record, number, reply, *parent, name, kind, 0o777)?;
                made.edit(number).target = target.clone();
                Ok(made)
            }
            Op::Readlink { ino } => {
                let inode = self.get(self.find(*ino)?);
                if inode.kind != Kind::Symlink {
                    return Err(vec![libc::EINVAL]);
                }
                let right = match reply {
                    Some(Reply::Bytes(bytes)) => bytes[..] == inode.target[..],
                    _ => reply.is_none(),
                };
                yes(right, next)
            }
            Op::Link { ino, parent, name } => {
                let mut errors = Vec::new();
                let id = self.find(*ino);
                let parent = self.directory(*parent);
                match &id {
                    Ok(id) => match self.get(*id) {
                        Inode {
                            kind: Kind::Directory,
                            ..
                        } => errors.push(libc::EPERM),
                        Inode { names: 0, .. } => errors.push(libc::ENOENT),
                        _ => {}
                    },
                    Err(gone) => errors.extend(gone),
                }
                match &parent {
                    Ok(parent) if self.entry(*parent, name).is_some() => {
                        errors.push(libc::EEXIST);
                    }
                    Ok(_) => {}
                    Err(gone) => errors.extend(gone),
                }
                let (Ok(id), Ok(parent), true) = (id, parent, errors.is_empty()) else {
                    return Err(errors);
                };
                next.edit(parent).entries.insert(name.clone(), id);
                next.edit(id).names += 1;
                next.seen(client, id, reply)
            }
            Op::Unlink { parent, name } => {
                let parent = self.directory(*parent)?;
                let id = self.entry(parent, name).ok_or(vec![libc::ENOENT])?;
                if self.get(id).kind == Kind::Directory {
                    return Err(vec![libc::EISDIR]);
                }
                next.edit(parent).entries.remove(name);
                next.drop_name(id, record.invoked);
                done(reply, next)
            }
            Op::Rmdir { parent, name } => {
                let parent = self.directory(*parent)?;
                let id = self.entry(parent, name).ok_or(vec![libc::ENOENT])?;
                if self.get(id).kind != Kind::Directory {
                    return Err(vec![libc::ENOTDIR]);
                }
                if !self.get(id).entries.is_empty() {
                    return Err(vec![libc::ENOTEMPTY, libc::EEXIST]);
                }
                next.edit(parent).entries.remove(name);
                next.drop_name(id, record.invoked);
                done(reply, next)
            }
            Op::Rename { .. } => done(reply, self.rename(record)?),
            Op::Getattr { ino } => {
                let id = self.find(*ino)?;
                next.seen(client, id, reply)
            }
            Op::Chmod { ino, mode } => {
                let id = self.find(*ino)?;
                next.edit(id).mode = *mode;
                next.seen(client, id, reply)
            }
            Op::Truncate { ino, size } => {
                let id = self.find(*ino)?;
                match self.get(id).kind {
                    Kind::File => {}
                    Kind::Directory => return Err(vec![libc::EISDIR]),
                    Kind::Symlink | Kind::Fifo => return Err(vec![libc::EINVAL]),
                }
                next.edit(id).content.truncate(client, *size);
                next.seen(client, id, reply)
            }
            Op::Getxattr { ino, name } => {
                let inode = self.get(self.find(*ino)?);
                let value = inode.xattrs.get(name).ok_or(vec![libc::ENODATA])?;
                let right = match reply {
                    Some(Reply::Bytes(bytes)) => bytes[..] == value[..],
                    _ => reply.is_none(),
                };
                yes(right, next)
            }
            Op::Setxattr { ino, name, value } => {
                let id = self.find(*ino)?;
                next.edit(id).xattrs.insert(name.clone(), value.clone());
                done(reply, next)
            }
            Op::Removexattr { ino, name } => {
                let id = self.find(*ino)?;
                let removed = next.edit(id).xattrs.remove(name);
                removed.ok_or(vec![libc::ENODATA])?;
                done(reply, next)
            }
            Op::Listxattr { ino } => {
                let inode = self.get(self.find(*ino)?);
                let right = match reply {
                    Some(Reply::Names(names)) => {
                        let mut names = names.clone();
                        names.sort();
                        names.iter().eq(inode.xattrs.keys())
                    }
                    _ => reply.is_none(),
                };
                yes(right, next)
            }
            Op::List { dir } => {
                let id = self.directory(*dir)?;
                let Some(reply) = reply else {
                    return Ok(next);
                };
                let Reply::Listing(seen) = reply else {
                    return Err(vec![]);
                };
                let entries = self.get(id).entries.clone();
                if entries.len() != seen.len() {
                    return Err(vec![]);
                }
                for (name, ino, kind) in seen {
                    let child = *entries.get(name).ok_or(vec![])?;
                    if !next.see_number(child, *ino, *kind) {
                        return Err(vec![]);
                    }
                }
                Ok(next)
            }
            Op::Open { ino, truncate } => {
                let id = self.file(*ino)?;
                let may_claim = self.may_claim(record) || self.have_lost.contains(&client);
                let has_it = self.has_open(client, id) || may_claim;
                if self.get(id).names == 0 && !has_it {
                    // Only a name can be opened.
                    return Err(GONE.to_vec());
                }
                if *truncate {
                    next.edit(id).content.truncate(client, 0);
                }
                next.open(client, id);
                done(reply, next)
            }
            Op::Close { ino, owner } => {
                let id = self.file(*ino)?;
                // What was written may still be on its way: only fsync says that it has arrived.
                next.unlock_all(id, (client, *owner));
                next.close(client, id);
                done(reply, next)
            }
            Op::Read {
                ino,
                offset,
                length,
            } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                let right = match reply {
                    Some(Reply::Bytes(data)) => {
                        content.see_bytes(client, *offset, *length, data).is_ok()
                    }
                    _ => reply.is_none(),
                };
                yes(right, next)
            }
            Op::Write {
                ino,
                offset,
                length,
                append,
                sync,
            } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                let (low, high) = content.size();
                if *append {
                    // Where the file ends only one that writes alone knows.
                    content.touch(client);
                }
                if *append && low != high {
                    match reply {
                        Some(_) if !record.lost_perhaps => {
                            content.append_somewhere(client, *length);
                        }
                        _ => content.maybe_append_somewhere(client, *length),
                    }
                    return done(reply, next);
                }
                let base = if *append { low } else { *offset };
                let range = base..base + length;
                let (write, base) = record.part_of.unwrap_or((number, base));
                let value = Value::Written { write, base };
                match reply {
                    Some(_) if !record.lost_perhaps => content.write(client, range, value, *sync),
                    None if record.unheard => content.maybe_write_unheard(client, range, value),
                    _ => content.maybe_write(client, range, value),
                }
                done(reply, next)
            }
            Op::Fsync { ino, .. } => {
                let id = self.file(*ino)?;
                match reply {
                    Some(_) => next.edit(id).content.synced(client),
                    None => next.edit(id).content.failed(client),
                }
                done(reply, next)
            }
            Op::Punch {
                ino,
                offset,
                length,
            } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                let range = *offset..offset + length;
                match reply {
                    Some(_) if !record.lost_perhaps => content.punch(client, range),
                    _ => content.maybe_punch(client, range),
                }
                done(reply, next)
            }
            Op::ZeroRange {
                ino,
                offset,
                length,
                keep_size,
            } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                let range = *offset..offset + length;
                content.zero(client, range.clone(), *keep_size);
                if reply.is_none() || record.lost_perhaps {
                    content.failed(client);
                }
                done(reply, next)
            }
            Op::Extend {
                ino,
                offset,
                length,
            } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                content.extend(client, offset + length);
                if reply.is_none() || record.lost_perhaps {
                    content.failed(client);
                }
                done(reply, next)
            }
            Op::Seek { ino, offset, hole } => {
                let id = self.file(*ino)?;
                let content = &mut next.edit(id).content;
                match reply {
                    Some(Reply::Number(found)) => {
                        yes(content.may_seek(client, *offset, *hole, Some(*found)), next)
                    }
                    Some(_) if content.may_seek(client, *offset, *hole, None) => {
                        Err(vec![libc::ENXIO])
                    }
                    _ => yes(reply.is_none(), next),
                }
            }
            Op::Copy { .. } => self.copy(next, record, reply),
            Op::Access { ino, mask } => {
                let mode = self.get(self.find(*ino)?).mode;
                self.allowed(mode, *mask, reply)
            }
            Op::OpenAsUser { ino, write } => {
                let mode = self.get(self.file(*ino)?).mode;
                self.allowed(mode, if *write { 2 } else { 4 }, reply)
            }
            Op::ChmodAsUser { ino } => {
                self.find(*ino)?;
                Err(vec![libc::EPERM])
            }
            Op::UnlinkAsUser { parent, name } => {
                let parent = self.directory(*parent)?;
                let missing = self.entry(parent, name).is_none();
                Err(if missing {
                    vec![libc::ENOENT, libc::EACCES]
                } else {
                    vec![libc::EACCES]
                })
            }
            Op::Lock {
                ino,
                owner,
                first,
                last,
                exclusive,
                wait,
            } => {
                let id = self.find(*ino)?;
                let owner = (client, *owner);
                for unit in *first..=*last {
                    let holders = next.locks.entry((id, unit)).or_default();
                    holders.remove(&owner);
                    let Some(exclusive) = exclusive else {
                        continue;
                    };
                    if holders.values().any(|&other| other || *exclusive) {
                        // Who waits is answered once it is free, or would wait for ever.
                        let errno = if *wait { libc::EDEADLK } else { libc::EAGAIN };
                        return Err(vec![errno]);
                    }
                    holders.insert(owner, *exclusive);
                }
                next.locks.retain(|_, holders| !holders.is_empty());
                done(reply, next)
            }
            Op::Loses | Op::Dies | Op::SyncsAll => {
                let unsynced = |inode: &Shared| inode.content.is_unsynced_by(client);
                let ids = self.inodes.iter().filter(|(_, inode)| unsynced(inode));
                for (&id, _) in ids {
                    let content = &mut next.edit(id).content;
                    match record.op {
                        Op::SyncsAll if reply.is_some() => content.synced(client),
                        _ => content.client_gone(client),
                    }
                }
                if record.op == Op::Loses {
                    next.have_lost.insert(client);
                }
                if record.op == Op::Dies {
                    next.dead.insert(client);
                    next.close_all(client);
                }
                Ok(next)
            }
            Op::SessionEnds => {
                for holders in next.locks.values_mut() {
                    holders.retain(|&(holder, _), _| holder != client);
                }
                next.locks.retain(|_, holders| !holders.is_empty());
                next.close_all(client);
                Ok(next)
            }
        }
    }

    /// What somebody who owns nothing may do with an inode of this mode. (All inodes are root's.)
    fn allowed(&self, mode: u32, mask: u32, reply: Option<&Reply>) -> Effect {
        if mode & mask == mask {
            done(reply, self.clone())
        } else {
            Err(vec![libc::EACCES])
        }
    }

    fn copy(&self, mut next: State, record: &Record, reply: Option<&Reply>) -> Effect {
        let Op::Copy {
            source,
            from,
            ino,
            to,
            length,
        } = record.op
        else {
            return Err(vec![]);
        };
        let client = record.client;
        let target = self.file(ino)?;
        let original = match self.file(source) {
            // Of an inode that no name leads to, only its users know anything.
            Ok(id) if self.get(id).names > 0 || self.opens.contains_key(&(client, id)) => Some(id),
            Ok(_) => None,
            Err(_) if self.gone.contains(&source) => None,
            Err(errors) => return Err(errors),
        };
        if let (None, Some(Reply::Error(errno))) = (original, reply) {
            return Err(vec![*errno]);
        }
        if let (Some(id), Some(Reply::Number(count))) = (original, reply) {
            let read = from..from.saturating_add((*count).min(length));
            next.edit(id).content.touch_bytes(client, read);
        }
        let original = original.map(|id| next.get(id).content.clone());
        let content = &mut next.edit(target).content;
        content.end_copy(client);
        let count = match reply {
            Some(Reply::Number(count)) if *count <= length => *count,
            Some(_) => return Err(vec![]),
            None => {
                content.maybe_write(client, to..to + length, Value::Any);
                return Ok(next);
            }
        };
        // It goes on by steps, and ends where one fails. Of that one, which nobody is told of, some may be written.
        let readable = original.as_ref().map_or(length, |original| {
            original.size().1.saturating_sub(from).min(length)
        });
        if (1..readable).contains(&count) {
            content.maybe_write(client, to + count..to + readable, Value::Any);
        }
        match original.filter(|_| record.is_undisturbed) {
            original if record.begins => {
                let known = original.filter(|_| !record.lost_perhaps);
                content.begin_copy(client, known.as_ref(), from, to, count);
            }
            _ if record.lost_perhaps => {
                content.maybe_write(client, to..to + count, Value::Any);
            }
            None => content.write_anything(client, to..to + count),
            Some(original) => {
                let (low, high) = original.size();
                let [least, most] = [low, high].map(|size| size.saturating_sub(from).min(length));
                if !(least..=most).contains(&count) {
                    return Err(vec![]);
                }
                content.copy(client, &original, from, to, count);
            }
        }
        Ok(next)
    }

    fn file(&self, ino: u64) -> Result<Id, Vec<i32>> {
        let id = self.find(ino)?;
        match self.get(id).kind {
            Kind::File => Ok(id),
            _ => Err(vec![libc::EINVAL, libc::EISDIR]),
        }
    }

    fn unlock_all(&mut self, id: Id, owner: Owner) {
        for unit in 0..=FLOCK_UNIT {
            if let Some(holders) = self.locks.get_mut(&(id, unit)) {
                holders.remove(&owner);
            }
        }
        self.locks.retain(|_, holders| !holders.is_empty());
    }

    /// The state itself, if the reply's attributes can be those of `id`.
    fn seen(mut self, client: ClientId, id: Id, reply: Option<&Reply>) -> Effect {
        match reply {
            None => Ok(self),
            Some(Reply::Entry(seen)) => yes(self.see(client, id, seen), self),
            Some(Reply::Inode(ino, kind)) => yes(self.see_number(id, *ino, *kind), self),
            Some(_) => Err(vec![]),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn make(
        &self,
        mut next: State,
        record: &Record,
        number: usize,
        reply: Option<&Reply>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u32,
    ) -> Effect {
        let parent = self.directory(parent)?;
        if self.entry(parent, name).is_some() {
            return Err(vec![libc::EEXIST]);
        }
        let id = next.add(number, parent, name, kind, mode);
        next.seen(record.client, id, reply)
    }

    fn rename(&self, record: &Record) -> Effect {
        let Op::Rename {
            parent,
            name,
            new_parent,
            new_name,
            no_replace,
            exchange,
        } = &record.op
        else {
            return Err(vec![]);
        };
        let (old, new) = (self.directory(*parent)?, self.directory(*new_parent)?);
        let mut errors = Vec::new();
        let source = self.entry(old, name);
        let target = self.entry(new, new_name);
        if source.is_none() {
            errors.push(libc::ENOENT);
        }
        if target.is_some() && *no_replace {
            errors.push(libc::EEXIST);
        }
        if target.is_none() && *exchange {
            errors.push(libc::ENOENT);
        }
        let Some(source) = source else {
            return Err(errors);
        };
        if self.within(new, source) {
            errors.push(libc::EINVAL);
        }
        let is_directory = |id: Id| self.get(id).kind == Kind::Directory;
        if let Some(target) = target.filter(|&target| target != source) {
            if self.within(old, target) {
                errors.push(if *exchange {
                    libc::EINVAL
                } else {
                    libc::ENOTEMPTY
                });
            }
            if !exchange {
                match (is_directory(source), is_directory(target)) {
                    (true, false) => errors.push(libc::ENOTDIR),
                    (false, true) => errors.push(libc::EISDIR),
                    _ => {}
                }
                if is_directory(target) && !self.get(target).entries.is_empty() {
                    errors.extend([libc::ENOTEMPTY, libc::EEXIST]);
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut next = self.clone();
        if target == Some(source) {
            return Ok(next);
        }
        if *exchange {
            let target = target.ok_or(vec![])?;
            next.edit(old).entries.insert(name.clone(), target);
            next.edit(new).entries.insert(new_name.clone(), source);
            next.edit(source).parent = new;
            next.edit(target).parent = old;
            return Ok(next);
        }
        next.edit(old).entries.remove(name);
        next.edit(new).entries.insert(new_name.clone(), source);
        next.edit(source).parent = new;
        if let Some(target) = target {
            next.drop_name(target, record.invoked);
        }
        Ok(next)
    }

    /// The whole tree, for reports.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.describe_below(ROOT, "", &mut text);
        let unnamed: Vec<String> = self
            .inodes
            .values()
            .filter(|inode| inode.names == 0)
            .map(|inode| format!("{:x?}", inode.ino))
            .collect();
        text.push_str(&format!(
            "unnamed: {unnamed:?}\nopen: {:?}\nlocks: {:?}\n",
            self.opens, self.locks
        ));
        text
    }

    fn describe_below(&self, directory: Id, path: &str, text: &mut String) {
        for (name, &id) in &self.get(directory).entries {
            let inode = self.get(id);
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            text.push_str(&format!(
                "{path} ino {:x?} {:?} mode {:o} nlink {} size {:?}\n",
                inode.ino,
                inode.kind,
                inode.mode,
                self.links(id),
                inode.content.size()
            ));
            if inode.kind == Kind::Directory {
                self.describe_below(id, &path, text);
            }
        }
    }

    /// Why a read cannot have given this, for reports; `None` for other operations.
    pub fn why_not(&self, record: &Record) -> Option<String> {
        let (
            Op::Read {
                ino,
                offset,
                length,
            },
            Outcome::Known(Reply::Bytes(data)),
        ) = (&record.op, &record.outcome)
        else {
            return None;
        };
        let id = self.file(*ino).ok()?;
        let mut content = self.get(id).content.clone();
        content
            .see_bytes(record.client, *offset, *length, data)
            .err()
    }
}

fn yes(right: bool, state: State) -> Effect {
    if right { Ok(state) } else { Err(vec![]) }
}

fn done(reply: Option<&Reply>, state: State) -> Effect {
    yes(matches!(reply, None | Some(Reply::Done)), state)
}

/// Any error will do.
fn strange(reply: Option<&Reply>) -> Vec<i32> {
    match reply {
        Some(Reply::Error(errno)) => vec![*errno],
        _ => Vec::new(),
    }
}
