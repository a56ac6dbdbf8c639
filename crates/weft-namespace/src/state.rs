//! The state itself, and the small steps that operations are made of.
//!
//! Every table is ordered, so that whatever walks over one does it alike on every replica.

use crate::access;
use crate::checkpoints::Checkpoints;
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::{Body, File, Inode, Stamp};
use crate::layouts::{DEFAULT_POLICY, Shapes};
use crate::lingering::{Unkept, may_linger};
use crate::locks::Locks;
use crate::moves::Move;
use crate::names::Name;
use crate::opens::Opens;
use crate::parts::{Foreigners, Locked, Prepared};
use crate::sessions::Session;
use crate::slots::{Arriving, Given, SlotSet};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use twox_hash::XxHash3_64;
use weft_types::{
    BLOCK_BYTES, Epoch, GroupId, INO_COUNTER_BITS, Ino, Member, ObjectId, PairId, ROOT_INO, SLOTS,
    SessionId, Slot, TransactionId,
};
use weft_wire::proto::{self, Cred};

/// Most hard links of one file (ext4's bound).
pub const LINKS_MAX: u32 = 65_000;
/// Most links of a directory, that is directories in it and two. Far beyond what anybody lists;
/// keeps the count from running over.
pub const DIRECTORY_LINKS_MAX: u32 = 1 << 31;

/// A truncation to a shorter size whose data is still to be cut from the objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trim {
    pub seq: u64,
    /// Bytes from here on are remains.
    pub from: u64,
}

/// A pair that was drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removed {
    /// Its last: should it be added again, it goes on from there, since its members may remember it.
    pub epoch: Epoch,
    /// The only one that served at last, or the first. The other one may not have heard what was dropped since.
    pub serving: u32,
    /// It may be.
    pub is_admitted: bool,
}

pub(crate) type Xattrs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// One group's part of the name space. See the crate's page for how it is used.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub(crate) inodes: BTreeMap<Ino, Box<Inode>>,
    /// The next inode counter of each slot that has been used.
    pub(crate) counters: BTreeMap<Slot, u64>,
    pub(crate) xattrs: BTreeMap<Ino, Xattrs>,
    pub(crate) trims: BTreeMap<Ino, Trim>,
    pub(crate) next_trim: u64,
    /// Who writes a file alone.
    pub(crate) write_leases: BTreeMap<Ino, SessionId>,
    /// Who write a file beside one another: one at least, and then nobody writes it alone.
    pub(crate) sharers: BTreeMap<Ino, BTreeSet<SessionId>>,
    /// Who holds an inode that has (or may soon have) no name open.
    pub(crate) holds: BTreeMap<Ino, BTreeSet<SessionId>>,
    pub(crate) locks: BTreeMap<Ino, Locks>,
    pub(crate) opens: BTreeMap<Ino, Opens>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) next_session: u64,
    pub(crate) pairs: BTreeMap<PairId, proto::PairState>,
    pub(crate) deletions: BTreeMap<u64, (PairId, ObjectId)>,
    pub(crate) next_deletion: u64,
    /// Copies that are being made.
    pub(crate) moves: BTreeMap<Ino, Move>,
    /// The last generation that was given to a copy, where it is above the file's own.
    pub(crate) reserved: BTreeMap<Ino, u32>,
    /// Those that run, and the last ones that have ended.
    pub(crate) jobs: BTreeMap<u64, proto::Job>,
    pub(crate) last_job: u64,
    /// Pairs that were drained.
    pub(crate) removed_pairs: BTreeMap<PairId, Removed>,
    /// The last store of each member that was given up for another one.
    pub(crate) retired: BTreeMap<(PairId, Member), NonZeroU64>,
    /// How far the store of each member is known to have come, of drained pairs, too: they may be let in again.
    pub(crate) lives: BTreeMap<(PairId, Member), Life>,
    pub(crate) floors: Floors,
    pub(crate) reign: Epoch,
    pub(crate) group: GroupId,
    /// What is not in these is another group's.
    pub(crate) slots: SlotSet,
    /// Inodes of other groups that entries name.
    pub(crate) foreign: Foreigners,
    /// Slots that were given to other groups.
    pub(crate) given: BTreeMap<Slot, Given>,
    /// Slots that other groups send.
    pub(crate) arriving: BTreeMap<Slot, Arriving>,
    /// Parts of other groups' transactions that wait for the outcome.
    pub(crate) prepared: BTreeMap<TransactionId, Vec<Prepared>>,
    /// This group's transactions, and which groups are still to hear of them.
    pub(crate) decided: BTreeMap<TransactionId, BTreeSet<GroupId>>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) shapes: Shapes,
    /// Derived from the rest: counted, not saved.
    pub(crate) counts: Counts,
    /// Derived from the jobs: pairs that files are moved off.
    pub(crate) draining: BTreeSet<PairId>,
    /// Derived from what is prepared.
    pub(crate) locked: Locked,
    /// Derived from the entries: how many names an inode of this group, which is no directory, has in
    /// directories of its other slots.
    pub(crate) strays: BTreeMap<Ino, u32>,
    /// Derived from the inodes: directories that are spread and have entries of their own still.
    pub(crate) splitting: BTreeSet<Ino>,
    /// Derived from the inodes: those that have no name, and nobody who holds them.
    pub(crate) lingering: BTreeSet<Ino>,
}

/// A store, as [`proto::PairState`] names it, and its life, as [`proto::RenewLifeRequest`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Which store.
    pub store: NonZeroU64,
    /// The number.
    pub life: u64,
}

/// What is not given any more: see [`proto::SkipNumbers`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Floors {
    /// Numbers of inodes below this one, in each slot.
    pub ino: u64,
    /// Generations of contents up to this one.
    pub generation: u32,
    /// The last reign that an operator had a member begin, and for which numbers were skipped.
    pub forced: u64,
}

/// What is counted as it changes, so that `statistics` need not walk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub directories: u64,
    /// Directories that have entries.
    pub inhabited: u64,
    pub entries: u64,
    pub name_bytes: u64,
    pub target_bytes: u64,
    pub xattrs: u64,
    pub xattr_bytes: u64,
}

/// Who asks, and when.
pub(crate) struct Context<'a> {
    pub session: SessionId,
    pub cred: &'a Cred,
    pub now: Stamp,
    pub random: u64,
    /// See [`proto::Entry::avoid`].
    pub avoid: &'a [u32],
    /// What nobody names or holds any more goes, or lingers.
    pub unkept: Unkept,
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

impl State {
    /// A formatted name space: a root directory of mode 0755 that belongs to root, no pairs, no
    /// sessions.
    pub fn new() -> State {
        let mut state = State::empty();
        state.counters.insert(ROOT_INO.slot(), ROOT_INO.0 + 1);
        let root = Inode {
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            atime: Stamp::default(),
            mtime: Stamp::default(),
            ctime: Stamp::default(),
            change: 1,
            body: Body::Directory(Box::new(Directory::new(ROOT_INO, DEFAULT_POLICY))),
        };
        state.put_inode(ROOT_INO, root);
        state
    }

    /// Nothing at all, not even a root: where an image begins to be loaded.
    pub(crate) fn empty() -> State {
        State {
            inodes: BTreeMap::new(),
            counters: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            trims: BTreeMap::new(),
            next_trim: 1,
            write_leases: BTreeMap::new(),
            sharers: BTreeMap::new(),
            holds: BTreeMap::new(),
            locks: BTreeMap::new(),
            opens: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next_session: 1,
            pairs: BTreeMap::new(),
            deletions: BTreeMap::new(),
            next_deletion: 1,
            moves: BTreeMap::new(),
            reserved: BTreeMap::new(),
            jobs: BTreeMap::new(),
            last_job: 0,
            removed_pairs: BTreeMap::new(),
            retired: BTreeMap::new(),
            lives: BTreeMap::new(),
            floors: Floors::default(),
            reign: Epoch(0),
            group: GroupId(0),
            slots: SlotSet::all(),
            foreign: BTreeMap::new(),
            given: BTreeMap::new(),
            arriving: BTreeMap::new(),
            prepared: BTreeMap::new(),
            decided: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
            shapes: Shapes::default(),
            counts: Counts::default(),
            draining: BTreeSet::new(),
            locked: Locked::default(),
            strays: BTreeMap::new(),
            splitting: BTreeSet::new(),
            lingering: BTreeSet::new(),
        }
    }

    // ---- reading ----

    /// One that lingers is there for nobody.
    pub(crate) fn get(&self, ino: Ino) -> Result<&Inode, Errno> {
        let inode = self.inodes.get(&ino).map(|inode| &**inode);
        inode
            .filter(|inode| inode.nlink > 0 || !self.lingers(ino))
            .ok_or(Errno::ESTALE)
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<(&Inode, &Directory), Errno> {
        let inode = self.get(ino)?;
        match &inode.body {
            Body::Directory(directory) => Ok((inode, directory)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn file(&self, ino: Ino) -> Result<(&Inode, &File), Errno> {
        let inode = self.get(ino)?;
        match &inode.body {
            Body::File(file) => Ok((inode, file)),
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// A directory that the caller may search: what every walk through it needs.
    pub(crate) fn searchable(&self, cred: &Cred, ino: Ino) -> Result<(&Inode, &Directory), Errno> {
        let (inode, directory) = self.directory(ino)?;
        access::check(cred, inode, access::EXECUTE)?;
        Ok((inode, directory))
    }

    /// May the caller add a name here? The directory has been found searchable, the name absent.
    pub(crate) fn check_may_create(&self, cred: &Cred, parent: &Inode) -> Result<(), Errno> {
        if parent.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        access::check(cred, parent, access::WRITE | access::EXECUTE)
    }

    /// May the caller take this name away? `as_directory`: it goes (or is moved) as one.
    pub(crate) fn check_may_delete(
        &self,
        cred: &Cred,
        parent: &Inode,
        victim_ino: Ino,
        as_directory: bool,
    ) -> Result<(), Errno> {
        let victim = self.get(victim_ino)?;
        access::check(cred, parent, access::WRITE | access::EXECUTE)?;
        access::check_sticky(cred, parent, victim)?;
        match (as_directory, victim.is_directory()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            _ if victim_ino == ROOT_INO => Err(Errno::EBUSY),
            _ => Ok(()),
        }
    }

    /// A plain name in a searchable directory.
    pub(crate) fn find_in(
        &self,
        directory: &Directory,
        name: &[u8],
    ) -> Result<Option<(u64, Ino)>, Errno> {
        match Name::parse(name)? {
            Name::Plain(name) => Ok(directory.find(name)),
            Name::Dot | Name::DotDot => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn attr(&self, ino: Ino) -> Option<proto::Attr> {
        self.inodes.get(&ino).map(|inode| inode.attr(ino))
    }

    /// A reply that tells an inode and, for a regular file, its layout and what is to be trimmed:
    /// who caches the file by this reply must know what of the objects reads as zeros.
    pub(crate) fn file_reply(&self, ino: Ino) -> proto::OpReply {
        let inode = self.inodes.get(&ino);
        let trim = self.trims.get(&ino);
        proto::OpReply {
            attr: inode.map(|inode| inode.attr(ino)),
            layout: inode.and_then(|inode| inode.layout()),
            trim_seq: trim.map_or(0, |trim| trim.seq),
            trim_from: trim.map_or(0, |trim| trim.from),
            ..proto::OpReply::default()
        }
    }

    // ---- changing; what these need has been checked ----

    pub(crate) fn get_mut(&mut self, ino: Ino) -> Option<&mut Inode> {
        self.inodes.get_mut(&ino).map(|inode| &mut **inode)
    }

    /// The number of a new inode; None if the slot has no numbers left.
    pub(crate) fn next_ino(&self, slot: Slot) -> Option<Ino> {
        let counter = self.counters.get(&slot).copied().unwrap_or(1);
        let counter = counter.max(self.floors.ino);
        (counter < 1 << INO_COUNTER_BITS).then(|| Ino::new(slot, counter))
    }

    /// The slot of a new directory: fixed by parent and name, so that load spreads over the groups
    /// and every replica, of every version, finds the same.
    pub fn directory_slot(parent: Ino, name: &[u8]) -> Slot {
        let hash = XxHash3_64::oneshot_with_seed(parent.0, name);
        Slot((hash % u64::from(SLOTS)) as u16)
    }

    /// The number is taken and never given again.
    pub(crate) fn use_ino(&mut self, ino: Ino) {
        let counter = ino.0 & ((1 << INO_COUNTER_BITS) - 1);
        self.counters.insert(ino.slot(), counter + 1);
    }

    pub(crate) fn put_inode(&mut self, ino: Ino, inode: Inode) {
        match &inode.body {
            Body::Directory(_) => self.counts.directories += 1,
            Body::Symlink(target) => self.counts.target_bytes += target.len() as u64,
            _ => {}
        }
        if inode.nlink == 0 && may_linger(&inode) {
            // Until it is known who holds it.
            self.lingering.insert(ino);
        }
        self.inodes.insert(ino, Box::new(inode));
    }

    /// The root is another group's.
    pub(crate) fn remove_root(&mut self) {
        if self.inodes.remove(&ROOT_INO).is_some() {
            self.counts.directories -= 1;
        }
        self.counters.remove(&ROOT_INO.slot());
    }

    pub(crate) fn add_entry(&mut self, parent: Ino, name: &[u8], ino: Ino) {
        if let Some(Inode {
            body: Body::Directory(directory),
            ..
        }) = self.get_mut(parent)
        {
            directory.insert(name, ino);
            self.counts.inhabited += u64::from(directory.len() == 1);
            self.counts.entries += 1;
            self.counts.name_bytes += name.len() as u64;
            self.count_stray(parent, ino);
        }
    }

    /// An entry comes from another directory, and keeps its cookie.
    pub(crate) fn take_entry(&mut self, parent: Ino, cookie: u64, name: &[u8], ino: Ino) {
        if let Some(Inode {
            body: Body::Directory(directory),
            ..
        }) = self.get_mut(parent)
        {
            directory.restore(cookie, name, ino);
            self.counts.inhabited += u64::from(directory.len() == 1);
            self.counts.entries += 1;
            self.counts.name_bytes += name.len() as u64;
            self.count_stray(parent, ino);
        }
    }

    pub(crate) fn remove_entry(&mut self, parent: Ino, cookie: u64, name: &[u8]) {
        if let Some(Inode {
            body: Body::Directory(directory),
            ..
        }) = self.get_mut(parent)
        {
            let gone = directory.remove(cookie);
            self.counts.inhabited -= u64::from(directory.is_empty());
            self.counts.entries -= 1;
            self.counts.name_bytes -= name.len() as u64;
            self.unname(parent, gone);
        }
    }

    pub(crate) fn replace_entry(&mut self, parent: Ino, cookie: u64, ino: Ino) {
        if let Some(Inode {
            body: Body::Directory(directory),
            ..
        }) = self.get_mut(parent)
        {
            let gone = directory.replace(cookie, ino);
            self.unname(parent, gone);
            self.count_stray(parent, ino);
        }
    }

    /// A directory has no entry of this inode any more.
    fn unname(&mut self, parent: Ino, gone: Option<Ino>) {
        if let Some(gone) = gone.filter(|gone| gone.slot() != parent.slot()) {
            self.uncount_stray(gone);
        }
    }

    pub(crate) fn set_parent(&mut self, ino: Ino, parent: Ino) {
        if let Some(Inode {
            body: Body::Directory(directory),
            ..
        }) = self.get_mut(ino)
        {
            directory.parent = parent;
        }
    }

    /// A directory's entries changed; `subdirectories` is by how many its directories did.
    pub(crate) fn touch_directory(&mut self, ino: Ino, now: Stamp, subdirectories: i32) {
        if let Some(inode) = self.get_mut(ino) {
            inode.nlink = inode.nlink.saturating_add_signed(subdirectories);
            inode.touch_content(now);
        }
    }

    /// The session has the inode open, though it has (or may soon have) no name.
    pub(crate) fn hold(&mut self, ino: Ino, session: SessionId) {
        if let Some(keeper) = self.sessions.get_mut(&session) {
            keeper.holds.insert(ino);
            self.holds.entry(ino).or_default().insert(session);
            self.lingering.remove(&ino);
        }
    }

    /// The session no longer has it open; an inode without name that nobody else holds goes, or lingers.
    pub(crate) fn release(&mut self, ino: Ino, session: SessionId, unkept: Unkept) {
        if let Some(keeper) = self.sessions.get_mut(&session) {
            keeper.holds.remove(&ino);
        }
        if let Some(holders) = self.holds.get_mut(&ino) {
            holders.remove(&session);
            if holders.is_empty() {
                self.holds.remove(&ino);
            }
        }
        self.end_if_unused(ino, unkept);
    }

    /// One name (of a directory: its only one) was taken away. Answers the inode as it is then.
    pub(crate) fn drop_link(
        &mut self,
        ino: Ino,
        (now, unkept): (Stamp, Unkept),
        keep_open: Option<SessionId>,
    ) -> Option<proto::Attr> {
        self.lose_shards(ino);
        let inode = self.get_mut(ino)?;
        inode.nlink = if inode.is_directory() {
            0
        } else {
            inode.nlink.saturating_sub(1)
        };
        inode.touch(now);
        let attr = inode.attr(ino);
        if attr.nlink == 0 {
            if let Some(session) = keep_open {
                self.hold(ino, session);
            }
            self.end_if_unused(ino, unkept);
        }
        Some(attr)
    }

    pub(crate) fn remove_if_unused(&mut self, ino: Ino) {
        let has_name = self.inodes.get(&ino).is_none_or(|inode| inode.nlink > 0);
        if has_name || self.holds.contains_key(&ino) {
            return;
        }
        let Some(inode) = self.inodes.remove(&ino) else {
            return;
        };
        self.lingering.remove(&ino);
        match &inode.body {
            Body::Directory(_) => self.counts.directories -= 1,
            Body::Symlink(target) => self.counts.target_bytes -= target.len() as u64,
            Body::File(file) => self.queue_objects(ino, file),
            _ => {}
        }
        self.trims.remove(&ino);
        // A copy that is being made of it is ended by who makes it: something may be on its way.
        self.reserved.remove(&ino);
        let writers: Vec<SessionId> = self.writers_of(ino).collect();
        for session in writers {
            self.drop_write_lease(ino, session);
        }
        for (name, value) in self.xattrs.remove(&ino).unwrap_or_default() {
            self.counts.xattrs -= 1;
            self.counts.xattr_bytes -= (name.len() + value.len()) as u64;
        }
        if let Some(locks) = self.locks.remove(&ino) {
            for (_, range) in locks.iter() {
                if let Some(session) = self.sessions.get_mut(&range.owner.session) {
                    session.locks.remove(&ino);
                }
                self.forget_idle_guest(range.owner.session);
                self.forget_empty_remnant(range.owner.session);
            }
        }
        if let Some(opens) = self.opens.remove(&ino) {
            for (owner, _) in opens.iter() {
                if let Some(session) = self.sessions.get_mut(&owner.session) {
                    session.opens.remove(&ino);
                }
                self.forget_empty_remnant(owner.session);
            }
        }
    }

    /// The objects of this generation are to be dropped, if there can be any and no checkpoint names them.
    pub(crate) fn queue_objects(&mut self, ino: Ino, file: &File) {
        if !file.exposed || self.checkpoints.hold(ino, file) {
            return;
        }
        for pair in &file.shape.pairs {
            self.deletions
                .insert(self.next_deletion, (*pair, file.object(ino)));
            self.next_deletion += 1;
        }
    }

    /// Gives the write lease on a regular file that nobody else writes.
    pub(crate) fn give_write_lease(&mut self, ino: Ino, session: SessionId) {
        if self.note_writer(ino, session) {
            self.sharers.remove(&ino);
            self.write_leases.insert(ino, session);
        }
    }

    /// Lets the session write beside the others that share the file. Nobody else writes it alone.
    pub(crate) fn share_write_lease(&mut self, ino: Ino, session: SessionId) {
        if self.note_writer(ino, session) {
            self.write_leases.remove(&ino);
            self.sharers.entry(ino).or_default().insert(session);
        }
    }

    /// Notes at the session and at the file that it is written. False: there is no such session.
    fn note_writer(&mut self, ino: Ino, session: SessionId) -> bool {
        let Some(holder) = self.sessions.get_mut(&session) else {
            return false;
        };
        holder.write_leases.insert(ino);
        if let Some(Inode {
            body: Body::File(file),
            ..
        }) = self.get_mut(ino)
        {
            file.exposed = true;
        }
        true
    }

    /// The session writes the file no longer. Nothing to do if it does not.
    pub(crate) fn drop_write_lease(&mut self, ino: Ino, session: SessionId) {
        if self.write_leases.get(&ino) == Some(&session) {
            self.write_leases.remove(&ino);
        }
        if let Some(sharers) = self.sharers.get_mut(&ino) {
            sharers.remove(&session);
            if sharers.is_empty() {
                self.sharers.remove(&ino);
            }
        }
        if let Some(holder) = self.sessions.get_mut(&session) {
            holder.write_leases.remove(&ino);
        }
    }

    /// All that write the file.
    fn writers_of(&self, ino: Ino) -> impl Iterator<Item = SessionId> + '_ {
        let alone = self.write_lease(ino);
        alone.into_iter().chain(self.sharers(ino))
    }

    /// Refuses a change of content while another session's write lease stands: the active revokes it
    /// first, and what the holder owes would else be taken for the new content.
    pub(crate) fn check_no_other_writer(&self, ino: Ino, session: SessionId) -> Result<(), Errno> {
        match self.writers_of(ino).any(|holder| holder != session) {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }

    /// Cuts a regular file, or makes it longer, at the word of `session`. What the data servers
    /// still have to cut is noted in the trim table. Times and set-id bits are the caller's. True: the
    /// file has other objects now.
    pub(crate) fn set_size(&mut self, ino: Ino, size: u64, session: SessionId) -> bool {
        let is_written = self.writers_of(ino).next().is_some();
        let is_own = self.writes(ino, session);
        let next_trim = self.next_trim;
        let next_generation = self.file(ino).ok();
        let next_generation = next_generation.and_then(|(_, file)| self.next_generation(ino, file));
        let Some(Inode {
            body: Body::File(file),
            ..
        }) = self.inodes.get_mut(&ino).map(|i| &mut **i)
        else {
            return false;
        };
        let old = file.size;
        file.size = size;
        if size < old {
            file.allocated = file.allocated.min(size.next_multiple_of(BLOCK_BYTES));
        }
        if !file.exposed {
            return false;
        }
        if size == 0
            && let Some(generation) = next_generation
        {
            // Nothing is cut: new objects, and the old ones are dropped at leisure.
            let before = file.clone();
            file.generation = generation;
            self.checkpoints.note_generation(generation);
            file.allocated = 0;
            file.exposed = is_written;
            self.trims.remove(&ino);
            self.reserved.remove(&ino);
            self.queue_objects(ino, &before);
            return true;
        }
        // The size of a file that is being written is only known to its writer: it may be cut
        // although it seems to grow.
        let maybe_cut = size < old || is_own;
        let trim = self.trims.get(&ino).copied();
        if maybe_cut {
            let from = trim.map_or(size, |t| t.from.min(size));
            self.trims.insert(
                ino,
                Trim {
                    seq: next_trim,
                    from,
                },
            );
            self.next_trim += 1;
        }
        false
    }
}
