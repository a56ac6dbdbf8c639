//! One inode as this client knows it, and the table of them.
//!
//! A [`Node`] joins the lease (`leases.rs`), what is cached under it, and the write buffer. Nothing
//! here holds a borrow over an await. Keeps true: cached fields are empty while no lease is held.

use crate::extents::ExtentMap;
use crate::leases::{LeaseState, Mode};
use crate::names::Names;
use crate::types::{Attr, Errno, Known};
use crate::unstable::Unstable;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use tokio::sync::Notify;
use weft_env::Mono;
use weft_rpc::Replier;
use weft_types::{BLOCK_BYTES, FixedMap, PairId, StripeMap};
use weft_wire::proto::{self, Durability, Protocol};

/// How many candidates are looked at before the table is allowed to grow beyond its limit: busy
/// nodes stay, whatever the limit says.
const EVICTION_TRIES: usize = 16;

/// How a file lies on the pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLayout {
    pub map: StripeMap,
    pub protocol: Protocol,
    pub durability: Durability,
    pub generation: u32,
}

impl FileLayout {
    /// None for a layout that no server of ours makes.
    pub fn decode(layout: &proto::Layout) -> Option<FileLayout> {
        let unit = layout.stripe_unit;
        if !(weft_types::STRIPE_UNIT_MIN..=weft_types::STRIPE_UNIT_MAX).contains(&unit) {
            return None;
        }
        Some(FileLayout {
            map: StripeMap::new(unit, layout.pairs.iter().copied().map(PairId).collect())?,
            protocol: layout.protocol(),
            durability: layout.durability(),
            generation: layout.generation,
        })
    }
}

/// What of a file is not with the servers yet.
#[derive(Default)]
pub(crate) struct Buffer {
    /// Not sent.
    pub waiting: ExtentMap,
    /// Sent, not answered. Nothing that overlaps it is sent.
    pub flying: ExtentMap,
    /// What waits here is not sent: a change that would destroy it has not been answered (`held.rs`).
    pub kept_back: Option<Range<u64>>,
    /// The flush round that bytes written now belong to.
    pub round: u64,
    /// Everything of this round and before is to be sent.
    pub wanted: Option<u64>,
    /// Where pieces that are whole begin that are to be sent, or what is left of them.
    pub ready: VecDeque<u64>,
    /// The last write was long: what waits is sent early.
    pub is_long: bool,
    /// Where ended what was sent last before its piece was whole.
    pub begun: u64,
    /// Stands in the queue of the write-behind.
    pub queued: bool,
    /// Where the last message of a flush began, in the file.
    pub cursor: u64,
    /// Since when something waits, if it does.
    pub since: Option<Mono>,
    /// How many flushes have failed, and the errno of the last.
    pub failures: u64,
    pub failure: i32,
    /// Nobody has been told of the last one.
    pub is_unheard: bool,
    /// Counts changes of size, times and allocation made here; what the server was told.
    pub changes: u64,
    pub told: u64,
    /// Bytes allocated here, beside others that write the file, that the server was not told of.
    pub allocated_more: u64,
    /// A message that tells them is on its way.
    pub telling: bool,
    /// Stands in the queue of nodes that are to tell.
    pub tell_queued: bool,
    /// To be told when nothing waits or is on its way.
    pub tell_then: bool,
}

impl Buffer {
    pub fn owes(&self) -> bool {
        self.changes != self.told
    }

    pub fn is_clean(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }

    /// Nothing waits any more, nor is on its way.
    pub fn note_clean(&mut self) {
        self.since = None;
        self.wanted = None;
        self.ready.clear();
    }

    /// Bytes of this round or before are not answered yet.
    pub fn is_outstanding(&self, round: u64) -> bool {
        let oldest = |map: &ExtentMap| map.oldest_round().is_some_and(|oldest| oldest <= round);
        oldest(&self.waiting) || oldest(&self.flying)
    }

    pub fn fail(&mut self, errno: i32) {
        self.failures += 1;
        self.failure = errno;
        self.is_unheard = true;
    }

    /// How many failures there have been but for the last, if nobody has been told of that.
    pub fn failures_told(&self) -> u64 {
        self.failures - u64::from(self.is_unheard)
    }
}

#[derive(Default)]
pub(crate) struct NodeState {
    pub lease: LeaseState,
    /// The server is being asked for a lease.
    pub asking: bool,
    pub attr: Option<Attr>,
    pub layout: Option<Rc<FileLayout>>,
    /// What the hybrid protocol is settled as until everything written is on both members.
    pub hybrid: Option<Protocol>,
    /// A symbolic link's target: it never changes, so it outlives leases.
    pub target: Option<Bytes>,
    /// A truncation whose data is still to be trimmed: its number and where remains begin.
    pub trim: Option<(u64, u64)>,
    pub trimming: bool,
    /// The number of the last one that was trimmed here: an answer of before that may still come.
    pub trimmed: Option<u64>,
    /// Who keeps writes away because the file is being cut, or may be.
    pub cuts: u32,
    pub xattr_names: Option<Rc<Vec<Bytes>>>,
    pub names: Option<Box<Names>>,
    pub buffer: Buffer,
    /// Cut to nothing since it was flushed: what it held is gone, what replaces it must not be lost.
    pub replaced: bool,
    /// Pages of mappings that no WRITE lease covered: offset and bytes, oldest first.
    pub aside: VecDeque<(u64, Bytes)>,
    /// The WRITE lease is being fetched for them.
    pub is_announcing: bool,
    /// Blocks that the last writes, one behind the other, have counted as allocated: a block that is written in small
    /// pieces counts once.
    pub counted: Range<u64>,
    /// What was written, punched or trimmed since the last sync to disk.
    pub unstable: Unstable,
    /// As the last lease said: somebody denies others something of it.
    pub denied: bool,
    /// Unlinked while open here, or kept for the face: the server is told when it is neither open nor known to the face.
    pub orphan: bool,
    /// Unlinked by this client, and known to the face still: what it owed then.
    pub departed: Option<Box<proto::Setattr>>,
    /// Made here without a name, and open since.
    pub unnamed: bool,
    /// A revocation that is not answered yet says that the last name goes.
    pub unlinked: bool,
    /// Revocations that are to be answered when the lease has been given back.
    pub answers: Vec<Replier>,
    /// Of [`crate::core::Core::handovers`], the last of this inode.
    pub handover: u64,
    /// The highest count of changes that a change of this client's was answered with: an answer to what was asked
    /// before may come after it, and is older.
    pub newest: u64,
    /// Counts this file's cuts and writes: what was read ahead under another count is not used.
    pub version: u64,
}

pub(crate) struct Node {
    pub ino: u64,
    pub state: RefCell<NodeState>,
    /// Told whenever something that others may wait for has changed.
    pub wake: Notify,
    /// Handles on it.
    pub opens: Cell<u32>,
    /// The session under which it was opened last.
    pub opened_in: Cell<u64>,
    /// Those that can read and write: through them the kernel may have pages that were changed by
    /// way of a mapping, of which it tells only when it is made to forget.
    pub mappable: Cell<u32>,
    /// Changes under way that may take its last name and have told the server whether it is open.
    pub unlinking: Cell<u32>,
    /// Calls under way that have the server keep it though it has no name, or ask again what it is like.
    pub keeping: Cell<u32>,
    recent: Cell<bool>,
}

impl NodeState {
    /// Bytes that the file can have at most. The caller holds a use.
    pub fn reach(&self) -> Result<u64, Errno> {
        let layout = self.layout.as_ref().ok_or(Errno(libc::EIO))?;
        Ok(layout.map.reach())
    }
}

impl Node {
    fn new(ino: u64) -> Node {
        Node {
            ino,
            state: RefCell::default(),
            wake: Notify::new(),
            opens: Cell::new(0),
            opened_in: Cell::new(0),
            mappable: Cell::new(0),
            unlinking: Cell::new(0),
            keeping: Cell::new(0),
            recent: Cell::new(true),
        }
    }

    pub fn is_open(&self) -> bool {
        self.opens.get() > 0
    }

    /// The attributes if the lease lets them be answered. The caller has checked the session.
    pub fn known(&self) -> Option<Known> {
        let state = self.state.borrow();
        let attr = state.attr.filter(|_| state.lease.may_answer())?;
        Some(Known {
            attr,
            leased: state.lease.may_keep(),
        })
    }

    /// Beside others that write the file, this client has written beyond `size`.
    pub fn written_beyond(&self, size: u64) -> bool {
        let state = self.state.borrow();
        let written = state.attr.map_or(0, |attr| attr.size);
        state.lease.shares() && written > size
    }

    /// Size and times were told with the answer to a revocation after so many handovers: what was
    /// asked of the server before that, and came without a lease, may not know them.
    pub fn handed_over_since(&self, handovers: u64) -> bool {
        self.state.borrow().handover > handovers
    }

    /// An errno that a flush left since `seen`, for those who have the file open.
    pub fn failure_beyond(&self, seen: u64) -> Result<(), Errno> {
        let mut state = self.state.borrow_mut();
        if state.buffer.failures == seen {
            return Ok(());
        }
        state.buffer.is_unheard = false;
        Err(Errno(state.buffer.failure))
    }

    /// The same, once.
    pub fn failure_since(&self, seen: &Cell<u64>) -> Result<(), Errno> {
        let failure = self.failure_beyond(seen.get());
        seen.set(self.state.borrow().buffer.failures);
        failure
    }

    /// It is open, and the service keeps it for this session when its last name goes. What was opened
    /// under an earlier session only is used on as long as it is there, but nothing keeps it.
    pub fn is_kept_for(&self, session: u64) -> bool {
        self.is_open() && (self.opened_in.get() == session || self.state.borrow().orphan)
    }

    /// Nobody would miss it.
    fn is_idle(self: &Rc<Node>) -> bool {
        let state = self.state.borrow();
        Rc::strong_count(self) == 1
            && !self.is_open()
            && !state.orphan
            && state.departed.is_none()
            && !state.asking
            && state.buffer.is_clean()
            && state.aside.is_empty()
            && !state.lease.is_leaving()
            && state.lease.giving_back_to().is_none()
    }
}

impl NodeState {
    /// The file is being cut, or it is not known whether it was.
    pub fn is_cut(&self) -> bool {
        self.cuts > 0
    }

    /// Writes wait for a change that is not decided.
    pub fn is_shut(&self) -> bool {
        self.is_cut() || self.buffer.kept_back.is_some()
    }

    /// All that is not with the servers yet lies in what this client keeps of the lease that it gives
    /// back.
    pub fn keeps_all_written(&self) -> bool {
        let waiting = self.buffer.waiting.ranges(0);
        let flying = self.buffer.flying.ranges(0);
        let mut written = waiting.chain(flying);
        written.all(|(start, end)| self.lease.keeps_written(start..end))
    }

    /// What operations under a lease need is known.
    pub fn is_usable(&self) -> bool {
        self.attr.is_some_and(|attr| {
            attr.kind != proto::FileKind::Regular as i32 || self.layout.is_some()
        })
    }

    /// Forgets what only a lease makes true.
    pub fn forget(&mut self) {
        self.attr = None;
        self.layout = None;
        (self.trim, self.trimmed) = (None, None);
        self.xattr_names = None;
        self.names = None;
        self.counted = 0..0;
        self.version += 1;
    }

    /// The file, which several wrote, is this client's alone now: what the server says of it holds, and
    /// what was written here and not told yet. (What was told while the server was asked for the lease may
    /// have been answered first.)
    pub fn take_over(&mut self, attr: &Attr) {
        let newer = self.attr.filter(|known| known.change > attr.change);
        let mut new = newer.unwrap_or(*attr);
        if let Some(old) = self.attr.filter(|_| self.buffer.owes()) {
            new.size = new.size.max(old.size);
            let more = std::mem::take(&mut self.buffer.allocated_more);
            let most = new.size.next_multiple_of(BLOCK_BYTES).max(new.allocated);
            new.allocated = new.allocated.saturating_add(more).min(most);
            if later(old.mtime, new.mtime) {
                (new.mtime, new.ctime) = (old.mtime, old.ctime);
            }
        }
        self.attr = Some(new);
    }

    /// Takes over attributes that the server told, unless they are old. Where this client owns size and times, its own
    /// stand.
    pub fn take_attr(&mut self, attr: &Attr) {
        if self.attr.is_some() || !self.is_old(attr) {
            self.attr = Some(self.joined(attr));
        }
    }

    /// The server told these before it did what a change of this client's was answered with.
    pub fn is_old(&self, attr: &Attr) -> bool {
        attr.change < self.newest
    }

    /// Attributes that the server told as they are to whoever asks here: beside what the server knows stands what this
    /// client has written and not told it.
    pub fn joined(&self, attr: &Attr) -> Attr {
        let mut new = *attr;
        let Some(old) = self.attr else {
            return new;
        };
        if self.lease.mode() == Mode::Shared {
            // Others write, too, and a file does not shrink by that.
            new.size = new.size.max(old.size);
            if old.change > new.change {
                return Attr {
                    size: new.size,
                    ..old
                };
            }
            if later(old.mtime, new.mtime) {
                new.mtime = old.mtime;
            }
            if (new.size, new.mtime) != (attr.size, attr.mtime) {
                // Or there were two sizes with one ctime: what the server says, and what is said here.
                new.ctime = later_of(old.ctime, moment_after(attr.ctime));
            }
            return new;
        }
        if old.change > new.change {
            return old;
        }
        if self.lease.mode() == Mode::Write && self.buffer.owes() {
            new.size = old.size;
            new.mtime = old.mtime;
            new.atime = old.atime;
            new.allocated = old.allocated;
            new.ctime = later_of(old.ctime, moment_after(attr.ctime));
        }
        new
    }

    /// Takes over what the server says of remains of a longer file: number and beginning, as in its
    /// answers.
    pub fn take_remains(&mut self, seq: u64, from: u64) {
        if !self.trimming {
            let is_left = seq != 0 && Some(seq) != self.trimmed;
            self.trim = is_left.then_some((seq, from));
        }
    }

    /// The server knows that the remains of this number are trimmed.
    pub fn remains_are_trimmed(&mut self, seq: u64) {
        (self.trim, self.trimmed) = (None, Some(seq));
    }

    pub fn take_layout(&mut self, layout: Option<&proto::Layout>) {
        let Some(layout) = layout.and_then(FileLayout::decode) else {
            return;
        };
        match &self.layout {
            Some(old) if **old == layout => {}
            // Generations only grow; a reply may be read late.
            Some(old) if old.generation > layout.generation => {}
            _ => self.layout = Some(Rc::new(layout)),
        }
    }
}

/// `a` is after `b`.
pub(crate) fn later(a: Option<proto::Time>, b: Option<proto::Time>) -> bool {
    let key = |t: Option<proto::Time>| t.map(|t| (t.seconds, t.nanos));
    key(a) > key(b)
}

fn later_of(a: Option<proto::Time>, b: Option<proto::Time>) -> Option<proto::Time> {
    if later(a, b) { a } else { b }
}

/// A nanosecond later.
fn moment_after(time: Option<proto::Time>) -> Option<proto::Time> {
    time.map(|time| match time.nanos {
        ..999_999_999 => proto::Time {
            nanos: time.nanos + 1,
            ..time
        },
        _ => proto::Time {
            seconds: time.seconds.saturating_add(1),
            nanos: 0,
        },
    })
}

/// This client changes the file at `now`. Its ctime is never one that was told before with other contents, though the
/// clock here be behind or have stood still: gateways tell clients of changes by it.
pub(crate) fn mark_changed(attr: &mut Attr, now: proto::Time) {
    attr.ctime = later_of(Some(now), moment_after(attr.ctime));
}

/// All nodes by number, the long unused ones leaving first.
pub(crate) struct NodeTable {
    nodes: RefCell<FixedMap<u64, Rc<Node>>>,
    order: RefCell<VecDeque<u64>>,
    limit: usize,
}

impl NodeTable {
    pub fn new(limit: usize) -> NodeTable {
        NodeTable {
            nodes: RefCell::default(),
            order: RefCell::default(),
            limit: limit.max(16),
        }
    }

    pub fn get(&self, ino: u64) -> Option<Rc<Node>> {
        let nodes = self.nodes.borrow();
        let node = nodes.get(&ino)?;
        node.recent.set(true);
        Some(node.clone())
    }

    pub fn get_or_new(&self, ino: u64) -> Rc<Node> {
        if let Some(node) = self.get(ino) {
            return node;
        }
        let node = Rc::new(Node::new(ino));
        self.nodes.borrow_mut().insert(ino, node.clone());
        self.order.borrow_mut().push_back(ino);
        node
    }

    /// Drops nodes beyond the limit that nobody uses. Returns those that hold a WRITE lease, which
    /// has to be given back before they can go; READ leases need no word.
    pub fn evict(&self) -> Vec<Rc<Node>> {
        let mut owners = Vec::new();
        let mut nodes = self.nodes.borrow_mut();
        if nodes.len() <= self.limit {
            return owners;
        }
        let mut order = self.order.borrow_mut();
        for _ in 0..EVICTION_TRIES {
            if nodes.len() <= self.limit {
                break;
            }
            let Some(ino) = order.pop_front() else { break };
            let Some(node) = nodes.get(&ino) else {
                continue;
            };
            if node.recent.replace(false) || !node.is_idle() {
                order.push_back(ino);
                continue;
            }
            if node.state.borrow().lease.owes() {
                owners.push(node.clone());
                order.push_back(ino);
                // Each of them is a message.
                break;
            }
            nodes.remove(&ino);
        }
        owners
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// All nodes in the order of their numbers.
    pub fn all(&self) -> Vec<Rc<Node>> {
        let mut all: Vec<Rc<Node>> = self.nodes.borrow().values().cloned().collect();
        all.sort_by_key(|node| node.ino);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_nodes_leave_first_and_writers_are_told() {
        let table = NodeTable::new(16);
        for ino in 1..=16 {
            table.get_or_new(ino);
        }
        table.get(1).unwrap().opens.set(1);
        table
            .get(2)
            .unwrap()
            .state
            .borrow_mut()
            .lease
            .grant(Mode::Write, 1);
        for ino in 17..=40 {
            table.get_or_new(ino);
        }
        let mut owners = Vec::new();
        for _ in 0..20 {
            for owner in table.evict() {
                owner.state.borrow_mut().lease.leave();
                owners.push(owner);
            }
        }
        assert_eq!(table.all().len(), 16);
        assert_eq!(owners.iter().map(|n| n.ino).collect::<Vec<_>>(), [2]);
        assert!(table.get(1).is_some(), "open");
    }

    #[test]
    fn what_is_owed_stands_against_what_the_server_tells() {
        let mut state = NodeState::default();
        state.lease.grant(Mode::Write, 1);
        state.take_attr(&Attr {
            size: 10,
            change: 3,
            mode: 0o600,
            ..Attr::default()
        });
        state.buffer.changes = 1;
        state.attr.as_mut().unwrap().size = 99;
        state.take_attr(&Attr {
            size: 10,
            change: 4,
            mode: 0o644,
            ..Attr::default()
        });
        let attr = state.attr.unwrap();
        assert_eq!((attr.size, attr.mode), (99, 0o644));
        state.take_attr(&Attr {
            change: 3,
            mode: 0o600,
            ..Attr::default()
        });
        assert_eq!(state.attr.unwrap().mode, 0o644, "an older answer read late");
    }

    #[test]
    fn no_two_sizes_are_shown_with_one_ctime() {
        let at = |nanos| Some(proto::Time { seconds: 7, nanos });
        let told = Attr {
            size: 10,
            change: 4,
            mtime: at(500),
            ctime: at(500),
            ..Attr::default()
        };
        // The clock here is behind that of the server, stands at its time, and is ahead.
        for nanos in [3, 500, 600, 999_999_999] {
            for span in [None, Some(0..BLOCK_BYTES)] {
                let mut seen = std::collections::BTreeMap::new();
                let mut see = |attr: &Attr| {
                    let ctime = attr.ctime.map(|time| (time.seconds, time.nanos));
                    let size = *seen.entry(ctime).or_insert(attr.size);
                    assert_eq!(size, attr.size, "{nanos}: {ctime:?}");
                };
                see(&told);
                let mut state = NodeState::default();
                match span {
                    None => drop(state.lease.grant(Mode::Write, 1)),
                    Some(span) => drop(state.lease.grant_range(span, true, 1)),
                }
                state.take_attr(&told);
                // Two writes in one moment.
                for size in [11, 12] {
                    let attr = state.attr.as_mut().unwrap();
                    (attr.size, attr.mtime) = (size, at(nanos));
                    mark_changed(attr, at(nanos).unwrap());
                    state.buffer.changes += 1;
                    see(&state.attr.unwrap());
                }
                // The same, and what another has told, from before this was told.
                let theirs = Attr {
                    change: 5,
                    ctime: at(700),
                    mtime: at(700),
                    ..told
                };
                for told in [told, theirs] {
                    see(&told);
                    state.take_attr(&told);
                    see(&state.attr.unwrap());
                }
            }
        }
    }

    #[test]
    fn what_was_told_beside_others_is_not_lost_to_an_older_grant_of_the_whole() {
        let mut state = NodeState::default();
        let span = 0..BLOCK_BYTES;
        state.lease.grant_range(span, true, 1);
        let of = |size, change| Attr {
            size,
            change,
            ..Attr::default()
        };
        // Told, and the answer to that came before the grant.
        state.take_attr(&of(10, 4));
        state.lease.grant(Mode::Write, 2);
        state.take_over(&of(0, 3));
        assert_eq!(state.attr.map(|attr| attr.size), Some(10));
    }

    #[test]
    fn remains_are_trimmed_once() {
        let mut state = NodeState::default();
        state.take_remains(7, 100);
        assert_eq!(state.trim, Some((7, 100)));
        state.remains_are_trimmed(7);
        assert_eq!(state.trim, None);
        state.take_remains(7, 100);
        assert_eq!(state.trim, None, "an older answer read late");
        state.take_remains(8, 50);
        assert_eq!(state.trim, Some((8, 50)));
        state.take_remains(0, 0);
        assert_eq!(state.trim, None, "trimmed by another");
    }
}
