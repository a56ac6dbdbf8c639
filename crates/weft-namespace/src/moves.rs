//! Files that come to lie otherwise: the copies that are being made, the jobs that ask for them, and
//! what a job still has to do (`docs/protocols/relayout.md`).
//!
//! A copy's objects are named by a generation that is given to it alone and never again, so that they
//! can be dropped at any time without touching anything else. The table of copies is what keeps them
//! from being forgotten: an entry leaves it when the copy has become the file, or with its objects
//! into the deletion queue.

use crate::directory::EffectivePolicy;
use crate::errno::Errno;
use crate::inode::{Body, File, Stamp};
use crate::layouts::{Choice, Shape, WIDTH_MAX, merge_policy, stripe_unit};
use crate::state::{Life, State};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::rc::Rc;
use twox_hash::XxHash3_64;
use weft_types::{Ino, Member, ObjectId, PairId, ROOT_INO, SessionId};
use weft_wire::proto::job::What;
use weft_wire::proto::{self, Durability, Job, Protocol};

/// Jobs that may run at a time: each walks the name space.
pub const JOBS_MAX: usize = 16;
/// Jobs that are remembered when they have ended, for people who look later.
pub const ENDED_JOBS_MAX: usize = 8;

/// A copy that is being made of a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Move {
    /// Who makes it. It ends with this session.
    pub session: SessionId,
    pub job: u64,
    /// Generation of the file when it was begun: another one has another content.
    pub from: u32,
    pub generation: u32,
    pub shape: Rc<Shape>,
}

/// A file that a job wants to lie otherwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The file.
    pub ino: Ino,
    /// About how many bytes are to be copied.
    pub bytes: u64,
    /// As it is to lie; no generation.
    pub layout: proto::Layout,
}

/// Where a look at the name space goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Cursor {
    /// The inode that was looked at last; its entries up to `cookie` too.
    ino: Ino,
    cookie: u64,
}

/// What a look found.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Look {
    /// Files to be moved.
    pub files: Vec<Candidate>,
    /// Directories whose policy is to be set.
    pub directories: Vec<Ino>,
    /// Where to go on; None: that was all.
    pub next: Option<Cursor>,
}

/// Bytes on each pair, by what the name space knows of its files.
pub type Usage = BTreeMap<PairId, u64>;

impl State {
    // ---- for the operations ----

    /// The generation of the next copy or content of a file. None: there is none left.
    pub(crate) fn next_generation(&self, ino: Ino, file: &File) -> Option<u32> {
        let given = self.reserved.get(&ino).copied().unwrap_or(0);
        let given = given.max(self.floors.generation);
        file.generation.max(given).checked_add(1)
    }

    /// A layout that somebody asks for, if files may lie so now.
    pub(crate) fn parse_layout(&self, layout: &proto::Layout) -> Result<Shape, Errno> {
        let protocol = Protocol::try_from(layout.protocol).map_err(|_| Errno::EINVAL)?;
        let durability = Durability::try_from(layout.durability).map_err(|_| Errno::EINVAL)?;
        let is_told = protocol != Protocol::Unspecified && durability != Durability::Unspecified;
        let width = layout.pairs.len();
        if !is_told || !(1..=WIDTH_MAX as usize).contains(&width) {
            return Err(Errno::EINVAL);
        }
        let pairs: Box<[PairId]> = layout.pairs.iter().copied().map(PairId).collect();
        for (at, pair) in pairs.iter().enumerate() {
            if !self.pairs.contains_key(pair) && self.removed_pairs.contains_key(pair) {
                // Chosen before it was removed.
                return Err(Errno::EAGAIN);
            }
            if !self.pairs.contains_key(pair) || pairs[..at].contains(pair) {
                return Err(Errno::EINVAL);
            }
        }
        Ok(Shape {
            stripe_unit: stripe_unit(layout.stripe_unit).ok_or(Errno::EINVAL)?,
            pairs,
            protocol,
            durability,
        })
    }

    /// Files are being moved off one of these pairs.
    pub(crate) fn is_any_draining(&self, pairs: &[PairId]) -> bool {
        !self.draining.is_empty() && pairs.iter().any(|pair| self.draining.contains(pair))
    }

    /// A copy is given up: its objects are to be dropped.
    pub(crate) fn end_move(&mut self, ino: Ino) {
        let Some(copy) = self.moves.remove(&ino) else {
            return;
        };
        let object = ObjectId {
            ino,
            generation: copy.generation,
        };
        for pair in &copy.shape.pairs {
            self.deletions.insert(self.next_deletion, (*pair, object));
            self.next_deletion += 1;
        }
    }

    /// All copies of a session that is over.
    pub(crate) fn end_moves_of(&mut self, session: SessionId) {
        let of_session = self.moves.iter().filter(|(_, m)| m.session == session);
        let inos: Vec<Ino> = of_session.map(|(ino, _)| *ino).collect();
        for ino in inos {
            self.end_move(ino);
        }
    }

    /// One more file has been moved for a job.
    pub(crate) fn count_move(&mut self, job: u64, bytes: u64) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.files += 1;
            job.bytes = job.bytes.saturating_add(bytes);
        }
    }

    /// A job that has not ended.
    pub(crate) fn running(&self, id: u64) -> Result<&Job, Errno> {
        let job = self.jobs.get(&id).ok_or(Errno::ENOENT)?;
        if job.ended.is_some() {
            return Err(Errno::ENOENT);
        }
        Ok(job)
    }

    /// A job is over. The oldest of those that were before are forgotten.
    pub(crate) fn end_job(&mut self, id: u64, now: Stamp, cancelled: bool) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.ended = Some(now.to_proto());
            job.cancelled = cancelled;
        }
        let ended = self.jobs.iter().filter(|(_, job)| job.ended.is_some());
        let ended: Vec<u64> = ended.map(|(id, _)| *id).collect();
        for id in &ended[..ended.len().saturating_sub(ENDED_JOBS_MAX)] {
            self.jobs.remove(id);
        }
        self.note_draining();
    }

    /// Derives what is kept for speed from the jobs.
    pub(crate) fn note_draining(&mut self) {
        let running = self.jobs.values().filter(|job| job.ended.is_none());
        self.draining = running
            .filter_map(|job| match job.what {
                Some(What::Drain(drain)) => Some(PairId(drain.pair)),
                _ => None,
            })
            .collect();
    }

    // ---- for the service ----

    /// All jobs by number, the last ones that have ended too.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> + '_ {
        self.jobs.values()
    }

    /// A pair from which everything is being moved.
    pub fn is_draining(&self, pair: PairId) -> bool {
        self.draining.contains(&pair)
    }

    /// The pairs that have been drained and are refused since.
    pub fn removed_pairs(&self) -> impl Iterator<Item = PairId> + '_ {
        let all = self.removed_pairs.iter();
        all.filter(|(_, removed)| !removed.is_admitted)
            .map(|(pair, _)| *pair)
    }

    /// The member that served a removed pair alone at last, or the first one: it has dropped all that was there.
    pub fn served_last(&self, pair: PairId) -> Option<Member> {
        Member::from_index(self.removed_pairs.get(&pair)?.serving)
    }

    /// A pair that has been drained and is refused since.
    pub fn is_removed(&self, pair: PairId) -> bool {
        let removed = self.removed_pairs.get(&pair);
        removed.is_some_and(|removed| !removed.is_admitted)
    }

    /// The store of this member that was given up for another one, as [`proto::PairState`] names it.
    pub fn retired_store(&self, pair: PairId, member: Member) -> Option<NonZeroU64> {
        self.retired.get(&(pair, member)).copied()
    }

    /// How far a member's store is known to have come.
    pub fn life(&self, pair: PairId, member: Member) -> Option<Life> {
        self.lives.get(&(pair, member)).copied()
    }

    /// The last reign that an operator had a member begin, and for which numbers were skipped; 0: none.
    pub fn skipped_for(&self) -> u64 {
        self.floors.forced
    }

    /// Why a drained pair cannot be removed yet, by what names it but files.
    pub fn keeps_pair(&self, pair: PairId) -> Option<&'static str> {
        let mut copies = self.moves.values();
        if copies.any(|copy| copy.shape.pairs.contains(&pair)) {
            return Some("copies that were begun there come to their end");
        }
        if self.cut_with_pair(pair).is_some() {
            return Some("checkpoints that name it are deleted");
        }
        let mut dropped = self.deletions.values();
        dropped
            .any(|(of, _)| *of == pair)
            .then_some("the objects there are being dropped")
    }

    /// Whether an object on a pair is a file's, a copy's, or waits to be dropped, or a checkpoint names it. Any other is nobody's:
    /// it would stay for ever.
    pub fn names_object(&self, pair: PairId, object: ObjectId) -> bool {
        let is_of = |generation: u32, shape: &Shape| {
            generation == object.generation && shape.pairs.contains(&pair)
        };
        let of_file = || match self.inodes.get(&object.ino).map(|inode| &inode.body) {
            Some(Body::File(file)) => is_of(file.generation, &file.shape),
            _ => false,
        };
        let of_copy = || {
            let copy = self.moves.get(&object.ino);
            copy.is_some_and(|copy| is_of(copy.generation, &copy.shape))
        };
        let is_dropped = || {
            self.deletions
                .values()
                .any(|dropped| *dropped == (pair, object))
        };
        of_file() || of_copy() || is_dropped() || self.holds_object(pair, object)
    }

    /// Copies that are being made.
    pub fn moving(&self) -> usize {
        self.moves.len()
    }

    /// The policy that a directory has with these fields set; what is zero stays as it is.
    ///
    /// Errors: ESTALE, ENOTDIR, EINVAL.
    pub fn policy_with(&self, ino: Ino, wanted: &proto::Policy) -> Result<proto::Policy, Errno> {
        let (_, directory) = self.directory(ino)?;
        Ok(merge_policy(wanted, directory.policy)?.to_proto())
    }

    /// The running job that lays a tree otherwise which has something in common with this one: two such
    /// jobs would undo each other's work without end.
    ///
    /// Errors: ESTALE, ENOTDIR.
    pub fn laying(&self, root: Ino) -> Result<Option<u64>, Errno> {
        for job in self.jobs.values().filter(|job| job.ended.is_none()) {
            if let Some(What::Relay(tree)) = &job.what {
                let other = Ino(tree.root);
                // The other's may have been removed meanwhile.
                if self.is_below(root, other)? || self.is_below(other, root).unwrap_or(false) {
                    return Ok(Some(job.id));
                }
            }
        }
        Ok(None)
    }

    /// A directory is `top`, or lies below it.
    fn is_below(&self, mut ino: Ino, top: Ino) -> Result<bool, Errno> {
        while ino != top {
            if ino == ROOT_INO {
                return Ok(false);
            }
            ino = self.directory(ino)?.1.parent;
        }
        Ok(true)
    }

    /// Looks at the next `steps` inodes (or entries, where a job goes by directories) for what a job
    /// still has to do. `usage` is for rebalancing, and is changed as if what is found were moved. Nothing is to be moved to
    /// the pairs `full`, which have little room (by number, in order).
    pub fn look(
        &self,
        job: &Job,
        usage: &mut Usage,
        full: &[u32],
        from: Cursor,
        steps: usize,
    ) -> Look {
        let choice = self.choice(full);
        match &job.what {
            Some(What::Drain(drain)) => {
                let pair = PairId(drain.pair);
                self.look_at_files(from, steps, |ino, file| off_pair(choice, ino, file, pair))
            }
            Some(What::Rebalance(rebalance)) => {
                let percent = u64::from(rebalance.within_percent);
                self.look_at_files(from, steps, |_, file| evened(choice, file, usage, percent))
            }
            Some(What::Relay(tree)) => self.look_at_tree(choice, tree, from, steps),
            None => Look::default(),
        }
    }

    /// Adds up what lies on each pair. Answers where to go on.
    pub fn count_usage(&self, usage: &mut Usage, from: Cursor, steps: usize) -> Option<Cursor> {
        let look = self.look_at_files(from, steps, |_, file| {
            let each = bytes_on_each(file);
            for pair in &file.shape.pairs {
                *usage.entry(*pair).or_default() += each;
            }
            None
        });
        look.next
    }

    fn look_at_files(
        &self,
        from: Cursor,
        steps: usize,
        mut wanted: impl FnMut(Ino, &File) -> Option<Shape>,
    ) -> Look {
        let mut look = Look::default();
        let rest = self.inodes.range((Excluded(from.ino), Unbounded));
        for (seen, (ino, inode)) in rest.enumerate() {
            if seen == steps {
                return look;
            }
            if let Body::File(file) = &inode.body
                && let Some(shape) = wanted(*ino, file)
            {
                look.files.push(candidate(*ino, file, &shape));
            }
            look.next = Some(Cursor {
                ino: *ino,
                cookie: 0,
            });
        }
        look.next = None;
        look
    }

    /// Directories by number, and the entries of each that belongs to the tree.
    fn look_at_tree(
        &self,
        choice: Choice<'_>,
        tree: &proto::RelayTree,
        from: Cursor,
        steps: usize,
    ) -> Look {
        let mut look = Look::default();
        let Some(Ok(policy)) = tree.policy.as_ref().map(effective) else {
            return look;
        };
        let begin = match from.cookie {
            0 => Excluded(from.ino),
            _ => Included(from.ino),
        };
        let mut left = steps;
        for (ino, inode) in self.inodes.range((begin, Unbounded)) {
            if left == 0 {
                return look;
            }
            let cookie = if *ino == from.ino { from.cookie } else { 0 };
            left -= usize::from(cookie == 0);
            if let Body::Directory(directory) = &inode.body
                && (tree.uid == 0 || tree.uid == inode.uid)
                && self.is_within(*ino, Ino(tree.root))
            {
                if cookie == 0 && directory.policy != policy {
                    look.directories.push(*ino);
                }
                // Its entries come next, if not now: no entry has so low a cookie.
                let cookie = cookie.max(1);
                look.next = Some(Cursor { ino: *ino, cookie });
                for (cookie, entry) in directory.after(cookie) {
                    if left == 0 {
                        return look;
                    }
                    left -= 1;
                    look.next = Some(Cursor { ino: *ino, cookie });
                    if let Ok((_, file)) = self.file(entry.ino)
                        && let Some(shape) = self.under_policy(choice, entry.ino, file, policy)
                    {
                        look.files.push(candidate(entry.ino, file, &shape));
                    }
                }
            }
            look.next = Some(Cursor {
                ino: *ino,
                cookie: 0,
            });
        }
        look.next = None;
        look
    }

    fn is_within(&self, ino: Ino, root: Ino) -> bool {
        let mut at = ino;
        while at != root {
            match self.directory(at) {
                Ok((_, directory)) if directory.parent != at => at = directory.parent,
                _ => return false,
            }
        }
        true
    }

    /// As a file is to lie under a policy; None if it does.
    fn under_policy(
        &self,
        choice: Choice<'_>,
        ino: Ino,
        file: &File,
        policy: EffectivePolicy,
    ) -> Option<Shape> {
        // As wide as it may be: where a pair is full for a while, nothing is laid otherwise for that.
        let usable = self.choice(&[]).usable().len().max(1);
        let wanted = match policy.width {
            0 => usable.min(WIDTH_MAX as usize),
            width => usable.min(width as usize),
        };
        let shape = &file.shape;
        let pairs = if shape.pairs.len() == wanted && !self.is_any_draining(&shape.pairs) {
            shape.pairs.clone()
        } else {
            pairs_for(choice, ino, wanted as u32)
        };
        let wanted = Shape {
            stripe_unit: policy.stripe_unit,
            pairs,
            protocol: policy.protocol,
            durability: policy.durability,
        };
        (wanted != **shape).then_some(wanted)
    }
}

/// As a file is to lie that leaves a pair: as wide as it was, as far as there are pairs.
fn off_pair(choice: Choice<'_>, ino: Ino, file: &File, pair: PairId) -> Option<Shape> {
    if !file.shape.pairs.contains(&pair) {
        return None;
    }
    let width = file.shape.pairs.len() as u32;
    Some(Shape {
        pairs: pairs_for(choice, ino, width),
        ..Shape::clone(&file.shape)
    })
}

/// Pairs for a file that exists: the same whenever it is asked for, as long as the pairs are.
fn pairs_for(choice: Choice<'_>, ino: Ino, width: u32) -> Box<[PairId]> {
    choice.take(width, XxHash3_64::oneshot(&ino.0.to_le_bytes()))
}

/// As a file is to lie for the pairs to be filled more evenly; None if it helps little.
fn evened(
    choice: Choice<'_>,
    file: &File,
    usage: &mut Usage,
    within_percent: u64,
) -> Option<Shape> {
    let each = bytes_on_each(file);
    let usable = choice.usable();
    let width = file.shape.pairs.len();
    // A pair that is full may be a small one, and have less than the others.
    let leaves_full = file.shape.pairs.iter().any(|pair| choice.is_full(*pair));
    let has_choice = width < usable.len() || leaves_full && width <= usable.len();
    if each == 0 || !has_choice {
        return None;
    }
    let used = |usage: &Usage, pair: &PairId| usage.get(pair).copied().unwrap_or(0);
    let total: u64 = usable.iter().map(|pair| used(usage, pair)).sum();
    let mean = total / usable.len() as u64;
    let most = mean.saturating_add(mean.saturating_mul(within_percent) / 100);
    let is_full = |usage: &Usage| {
        let mut pairs = file.shape.pairs.iter();
        pairs.any(|pair| used(usage, pair) > most)
    };
    if !is_full(usage) && !leaves_full {
        return None;
    }
    for pair in &file.shape.pairs {
        let used = usage.entry(*pair).or_default();
        *used = used.saturating_sub(each);
    }
    // Runs only: shapes are shared.
    let run = |begin: usize| -> Box<[PairId]> {
        let at = (begin..begin + width).map(|at| usable[at % usable.len()]);
        at.collect()
    };
    let sum = |pairs: &[PairId]| pairs.iter().map(|pair| used(usage, pair)).sum::<u64>();
    let best = (0..usable.len()).map(run).min_by_key(|run| sum(run));
    let best = best.unwrap_or_default();
    // Then the pairs are nearer to each other than before, so that this comes to an end.
    let helps = leaves_full || sum(&best).saturating_add(each) <= sum(&file.shape.pairs);
    let pairs = if helps {
        best
    } else {
        file.shape.pairs.clone()
    };
    for pair in &pairs {
        *usage.entry(*pair).or_default() += each;
    }
    helps.then(|| Shape {
        pairs,
        ..Shape::clone(&file.shape)
    })
}

/// A policy of which every field is told.
pub(crate) fn effective(policy: &proto::Policy) -> Result<EffectivePolicy, Errno> {
    let protocol = Protocol::try_from(policy.protocol).map_err(|_| Errno::EINVAL)?;
    let durability = Durability::try_from(policy.durability).map_err(|_| Errno::EINVAL)?;
    let is_told = protocol != Protocol::Unspecified && durability != Durability::Unspecified;
    if !is_told || policy.width > WIDTH_MAX {
        return Err(Errno::EINVAL);
    }
    Ok(EffectivePolicy {
        stripe_unit: stripe_unit(policy.stripe_unit).ok_or(Errno::EINVAL)?,
        width: policy.width,
        protocol,
        durability,
    })
}

/// Bytes that a copy of the file copies.
pub(crate) fn bytes_of(file: &File) -> u64 {
    file.size.min(file.allocated)
}

fn bytes_on_each(file: &File) -> u64 {
    bytes_of(file) / file.shape.pairs.len().max(1) as u64
}

fn candidate(ino: Ino, file: &File, shape: &Shape) -> Candidate {
    Candidate {
        ino,
        bytes: bytes_of(file),
        layout: shape.to_proto(0),
    }
}
