//! Several groups, each with its part of one name space, and transactions between them that go on one
//! small step at a time.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use weft_namespace::{
    Attempt, Errno, Hashes, Key, Locked, Plan, State, Step, Walk, told, transaction_to,
};
use weft_types::{
    Epoch, GroupId, Ino, ROOT_INO, SLOTS, Slot, TransactionId, name_hash, shard_of_hash,
};
use weft_wire::proto::op::Op;
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{
    self, AddPair, Attr, Commit, Cred, Entry, FileKind, Finish, Forget, Found, OpReply,
    OpenSession, Part, PartReply, Prepare, SlotPiece, SlotRange, TakeNumbers, Time, Told,
};

pub fn user(uid: u32) -> Cred {
    Cred {
        uid,
        gid: uid,
        groups: Vec::new(),
    }
}

/// One name space and its journal's clock.
pub struct Member {
    pub state: State,
    pub session: u64,
}

impl Member {
    pub fn apply(&mut self, clock: i64, session: u64, cred: &Cred, op: Op) -> OpReply {
        let time = Time {
            seconds: clock,
            nanos: 0,
        };
        self.state.apply(&Entry {
            session,
            cred: Some(cred.clone()),
            time: Some(time),
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        })
    }

    pub fn begin(ranges: Option<(u32, Vec<SlotRange>)>) -> Member {
        let mut member = Member {
            state: State::new(),
            session: 0,
        };
        if let Some((group, slots)) = ranges {
            member.own(Op::Found(Found { group, slots }));
        }
        member.own(Op::AddPair(AddPair { pair: 0 }));
        let open = Op::OpenSession(OpenSession {
            name: "test".into(),
            ..OpenSession::default()
        });
        member.session = member.own(open).session;
        member
    }

    pub fn own(&mut self, op: Op) -> OpReply {
        let reply = self.apply(1_000, 0, &user(0), op);
        assert_eq!(reply.failure_errno, 0, "{reply:?}");
        reply
    }
}

/// The groups of a cluster.
pub struct Groups {
    pub members: Vec<Member>,
    /// What each one's own transactions have locked.
    pub own: Vec<Locked>,
    pub clock: i64,
    /// Who has each slot.
    pub owners: Vec<usize>,
    /// How often each one had entries of a directory go to a shard.
    pub splits: Vec<u64>,
    number: u64,
}

/// What a transaction does next.
#[derive(Clone, PartialEq, Debug)]
enum Doing {
    Prepare(Vec<Part>, Vec<PartReply>),
    Walk(Ino, Ino),
    Decide,
    Finish(BTreeSet<usize>, bool),
}

/// A transaction on its way.
#[derive(Clone, Debug)]
pub struct Running {
    pub id: TransactionId,
    pub home: usize,
    op: Op,
    cred: Cred,
    plan: Plan,
    parts: Vec<Part>,
    others: BTreeSet<usize>,
    told: Vec<Told>,
    doing: Doing,
    /// What the client is told, once that is known.
    pub reply: Option<OpReply>,
    /// All have heard of the end.
    pub is_over: bool,
}

fn failure(errno: Errno) -> OpReply {
    OpReply {
        failure_errno: errno.0 as u32,
        ..OpReply::default()
    }
}

impl Groups {
    pub fn new(count: usize) -> Groups {
        let of = |group: usize| {
            let slots = (0..SLOTS).filter(|slot| usize::from(*slot) % count == group);
            let slots = slots.map(|slot| SlotRange {
                first: u32::from(slot),
                last: u32::from(slot),
                group: group as u32,
            });
            Member::begin(Some((group as u32, slots.collect())))
        };
        Groups::of_members((0..count).map(of).collect())
    }

    pub fn of_members(members: Vec<Member>) -> Groups {
        Groups {
            own: vec![Locked::default(); members.len()],
            splits: vec![0; members.len()],
            owners: (0..usize::from(SLOTS))
                .map(|slot| slot % members.len())
                .collect(),
            members,
            clock: 2_000,
            number: 0,
        }
    }

    pub fn group_of(&self, slot: Slot) -> usize {
        self.owners[usize::from(slot.0)]
    }

    /// Moves a slot to a group. False: it cannot go now.
    pub fn move_slot(&mut self, slot: Slot, to: usize) -> bool {
        let from = self.group_of(slot);
        if from == to
            || self.own[from].in_slot(slot)
            || self.members[from].state.check_give(slot).is_err()
        {
            return false;
        }
        self.number += 1;
        let attempt = Attempt {
            epoch: Epoch(1),
            number: self.number,
        };
        self.send(slot, from, to, attempt);
        let (slot_number, attempt) = (u32::from(slot.0), Some(attempt.to_proto()));
        self.members[from].own(Op::Give(proto::Give {
            slot: slot_number,
            to: to as u32,
            attempt,
        }));
        self.members[to].own(Op::Own(proto::Own {
            slot: slot_number,
            attempt,
        }));
        self.owners[usize::from(slot.0)] = to;
        true
    }

    /// Sends all of a slot, some pieces at a time, and has it checked.
    pub fn send(&mut self, slot: Slot, from: usize, to: usize, attempt: Attempt) {
        let mut hashes = Hashes::default();
        let mut at = Some(Key::first_of(slot));
        let mut number = 0;
        while let Some(key) = at {
            let mut pieces = Vec::new();
            let mut each = |key: Key, content: &[u8]| {
                hashes.note(key, content);
                pieces.push(SlotPiece {
                    ino: key.ino.0,
                    part: key.part,
                    content: content.to_vec().into(),
                });
            };
            let source = &self.members[from].state;
            at = source.walk_slot(slot, key, 3, &|_| Vec::new(), &mut each);
            let receive = proto::Receive {
                slot: u32::from(slot.0),
                from: from as u32,
                attempt: Some(attempt.to_proto()),
                number,
                pieces,
            };
            self.members[to].own(Op::Receive(receive.clone()));
            // A late copy.
            self.members[to].own(Op::Receive(receive));
            number += 1;
        }
        let checked = self.members[to].state.check_received(slot, attempt);
        assert_eq!(checked, Ok(hashes.digest()), "slot {slot}");
    }

    pub fn of(&self, ino: u64) -> &State {
        &self.members[self.group_of(Ino(ino).slot())].state
    }

    pub fn attr(&self, ino: u64) -> Attr {
        self.of(ino).inode(Ino(ino)).unwrap().attr.unwrap()
    }

    /// Where a change is sent to.
    pub fn home(&self, op: &Op) -> usize {
        let ino = match op {
            Op::Create(op) => op.parent,
            Op::Link(op) => op.parent,
            Op::Unlink(op) => op.parent,
            Op::Rmdir(op) => op.parent,
            Op::Rename(op) => op.parent,
            Op::Setattr(op) => op.ino,
            Op::SetPolicy(op) => op.ino,
            Op::Spread(op) => op.ino,
            Op::Split(op) => op.ino,
            _ => panic!("not one of these"),
        };
        self.group_of(Ino(ino).slot())
    }

    /// Several groups take part in it.
    pub fn spans(&self, op: &Op) -> bool {
        self.members[self.home(op)].state.spans_groups(op)
    }

    /// A change of one group has to wait for a transaction.
    pub fn waits(&self, op: &Op) -> bool {
        let home = self.home(op);
        let by = self.members[home].state.blocked(&self.own[home], op);
        !self.spans(op) && by.is_some()
    }

    /// A change of one group, or of several without anybody else in between.
    pub fn change(&mut self, cred: &Cred, op: Op) -> OpReply {
        let home = self.home(&op);
        if !self.spans(&op) {
            self.clock += 1;
            let session = self.members[home].session;
            return self.members[home].apply(self.clock, session, cred, op);
        }
        match self.begin(cred, op) {
            Err(errno) => failure(errno),
            Ok(mut running) => {
                while !running.is_over {
                    self.step(&mut running);
                }
                running.reply.expect("it is over")
            }
        }
    }

    pub fn begin(&mut self, cred: &Cred, op: Op) -> Result<Running, Errno> {
        let home = self.home(&op);
        let (plan, step) = Plan::begin(&self.members[home].state, cred, &op)?;
        self.number += 1;
        let id = TransactionId {
            home: GroupId(home as u32),
            epoch: Epoch(1),
            number: self.number,
        };
        let mut running = Running {
            id,
            home,
            op,
            cred: cred.clone(),
            plan,
            parts: Vec::new(),
            others: BTreeSet::new(),
            told: Vec::new(),
            doing: Doing::Decide,
            reply: None,
            is_over: false,
        };
        self.next(&mut running, Ok(step));
        Ok(running)
    }

    /// The home's reign ends: what was not decided never is.
    pub fn lose_home(&mut self, running: &mut Running) {
        if running.reply.is_none() {
            self.give_up(running, Errno::ESTALE);
        }
    }

    /// Each group that has a part prepared asks what became of it.
    pub fn ask(&mut self) {
        for group in 0..self.members.len() {
            let prepared: Vec<TransactionId> = self.members[group].state.prepared().collect();
            for id in prepared {
                let home = &self.members[id.home.0 as usize].state;
                let done = home.is_decided(id);
                self.finish(group, id, done);
            }
        }
    }

    fn next(&mut self, running: &mut Running, step: Result<Step, Errno>) {
        match step {
            Ok(Step::Prepare(parts)) => running.doing = Doing::Prepare(parts, Vec::new()),
            Ok(Step::Walk(from, sought)) => running.doing = Doing::Walk(from, sought),
            Ok(Step::Decide) => running.doing = Doing::Decide,
            Ok(Step::Answer(reply)) => {
                self.give_up(running, Errno(0));
                running.reply = Some(*reply);
            }
            Err(errno) => self.give_up(running, errno),
        }
    }

    fn give_up(&mut self, running: &mut Running, errno: Errno) {
        self.own[running.home].free(running.id);
        running.reply = Some(failure(errno));
        running.is_over = running.others.is_empty();
        running.doing = Doing::Finish(running.others.clone(), false);
    }

    /// One thing that happens at one place.
    pub fn step(&mut self, running: &mut Running) {
        assert!(!running.is_over);
        match running.doing.clone() {
            Doing::Prepare(parts, mut replies) => {
                let part = &parts[replies.len()];
                match self.prepare(running, part) {
                    Err(errno) => self.give_up(running, errno),
                    Ok(reply) => {
                        replies.push(reply);
                        match replies.len() == parts.len() {
                            true => {
                                let step = running.plan.prepared(&replies);
                                self.next(running, step);
                            }
                            false => running.doing = Doing::Prepare(parts, replies),
                        }
                    }
                }
            }
            Doing::Walk(at, sought) => {
                let group = self.group_of(at.slot());
                let state = &self.members[group].state;
                let step = match state.walk(&self.own[group], at, sought, running.id) {
                    Walk::Found => running.plan.walked(true),
                    Walk::Ended => running.plan.walked(false),
                    Walk::Elsewhere(at) => Ok(Step::Walk(at, sought)),
                    Walk::Moving(_) => Err(Errno::EAGAIN),
                };
                self.next(running, step);
            }
            Doing::Decide => self.decide(running),
            Doing::Finish(mut rest, done) => {
                let group = rest.pop_first().expect("not over");
                self.finish(group, running.id, done);
                running.is_over = rest.is_empty();
                running.doing = Doing::Finish(rest, done);
            }
        }
    }

    fn prepare(&mut self, running: &mut Running, part: &Part) -> Result<PartReply, Errno> {
        let group = self.group_of(Plan::place(part));
        let mut part = part.clone();
        if let Some(Kind::Make(make)) = &mut part.part
            && group == running.home
        {
            let take = TakeNumbers {
                slots: vec![make.slot],
            };
            make.ino = self.members[group].own(Op::TakeNumbers(take)).parts[0].found;
        }
        let part = &part;
        let state = &self.members[group].state;
        if self.own[group].against(part, running.id).is_some()
            || state.locked_against(part, running.id).is_some()
        {
            return Err(Errno::EAGAIN);
        }
        if group == running.home {
            let reply = state.check_part(&running.cred, part)?;
            self.own[group].lock(part, running.id);
            running.parts.push(part.clone());
            return Ok(reply);
        }
        self.clock += 1;
        let prepare = Prepare {
            transaction: Some(transaction_to(running.id)),
            parts: vec![part.clone()],
        };
        let op = Op::Prepare(prepare);
        let reply = self.members[group].apply(self.clock, 0, &running.cred, op);
        if reply.failure_errno != 0 {
            return Err(Errno(reply.failure_errno as i32));
        }
        running.others.insert(group);
        running
            .told
            .extend(told(std::slice::from_ref(part), &reply.parts));
        Ok(reply.parts[0].clone())
    }

    fn decide(&mut self, running: &mut Running) {
        let home = running.home;
        running.plan.completed(&mut running.parts);
        let commit = Commit {
            transaction: Some(transaction_to(running.id)),
            parts: running.parts.clone(),
            told: running.told.clone(),
            others: running.others.iter().map(|group| *group as u32).collect(),
            created: matches!(running.op, Op::Create(_)),
        };
        self.clock += 1;
        let session = self.members[home].session;
        let op = Op::Commit(commit);
        let reply = self.members[home].apply(self.clock, session, &running.cred, op);
        assert_eq!(reply.failure_errno, 0, "what is locked has changed");
        self.splits[home] += u64::from(matches!(running.op, Op::Split(_)));
        self.own[home].free(running.id);
        running.reply = Some(reply);
        running.is_over = running.others.is_empty();
        running.doing = Doing::Finish(running.others.clone(), true);
    }

    pub fn finish(&mut self, group: usize, id: TransactionId, done: bool) {
        let transaction = Some(transaction_to(id));
        self.members[group].own(Op::Finish(Finish { transaction, done }));
        let forget = Forget {
            group: group as u32,
            transactions: vec![transaction_to(id)],
        };
        self.members[id.home.0 as usize].own(Op::Forget(forget));
    }

    /// Every inode that there is, whether anything names it or not.
    pub fn inodes(&self) -> BTreeSet<u64> {
        let members = self.members.iter();
        let pages = members.map(|member| member.state.survey_inodes(Ino(0), usize::MAX).0);
        pages.flatten().map(|inode| inode.ino).collect()
    }

    /// Nothing is locked, and all groups' parts make one name space. Answers every inode but for what the
    /// order of steps may change.
    pub fn whole(&self) -> BTreeMap<u64, Attr> {
        for (group, member) in self.members.iter().enumerate() {
            assert!(self.own[group].is_empty());
            assert_eq!(member.state.prepared().count(), 0);
            assert_eq!(member.state.decided().count(), 0);
            is_kept_by_images(&member.state);
        }
        let mut all: BTreeMap<u64, Attr> = BTreeMap::new();
        let mut names: BTreeMap<u64, u32> = BTreeMap::new();
        let mut rest = vec![ROOT_INO.0];
        let mut shards = 0;
        while let Some(ino) = rest.pop() {
            let attr = self.whole_attr(ino);
            assert!(all.insert(ino, attr).is_none(), "{ino} is in two places");
            let entries = self.entries(ino);
            shards += self.shards(ino).len();
            let mut directories = 2;
            for entry in entries {
                let child = self.attr(entry.ino);
                assert_eq!(entry.kind, child.kind, "{entry:?}");
                *names.entry(entry.ino).or_default() += 1;
                if child.kind() == FileKind::Directory {
                    directories += 1;
                    let up = self.of(entry.ino).lookup(&user(0), Ino(entry.ino), b"..");
                    let up = up.unwrap().unwrap().attr.unwrap().ino;
                    let of_shard = self.of(up).inode(Ino(up)).unwrap().shard_of;
                    let up = if of_shard == 0 { up } else { of_shard };
                    assert_eq!(up, ino, "the parent of {}", entry.ino);
                    rest.push(entry.ino);
                } else {
                    all.insert(entry.ino, child);
                }
            }
            assert_eq!(attr.nlink, directories, "links of {ino}");
        }
        for (ino, attr) in &all {
            if attr.kind() != FileKind::Directory {
                assert_eq!(names[ino], attr.nlink, "names of {ino}");
            }
        }
        let count: u64 = self
            .members
            .iter()
            .map(|member| member.state.statistics().inodes)
            .sum();
        let found = (all.len() + shards) as u64;
        assert_eq!(found, count, "inodes that nothing names");
        all
    }

    /// The shards of a directory, which are as it is.
    pub fn shards(&self, ino: u64) -> Vec<u64> {
        let whole = self.of(ino).inode(Ino(ino)).unwrap();
        let attr = whole.attr.unwrap();
        assert_eq!(attr.shards as usize, whole.shards.len());
        for shard in &whole.shards {
            let inode = self.of(*shard).inode(Ino(*shard)).unwrap();
            let of_shard = inode.attr.unwrap();
            assert_eq!((inode.shard_of, inode.policy), (ino, whole.policy));
            assert_eq!(
                (of_shard.mode, of_shard.uid, of_shard.gid),
                (attr.mode, attr.uid, attr.gid),
                "shard {shard} of {ino}"
            );
        }
        whole.shards
    }

    /// Where a name of a directory is.
    pub fn place(&self, dir: u64, name: &[u8]) -> u64 {
        let inode = self.of(dir).inode(Ino(dir)).unwrap_or_default();
        let (shards, hash) = (inode.shards, name_hash(name));
        match shards.get(shard_of_hash(hash, shards.len())) {
            Some(shard) if inode.border == u64::MAX || hash < inode.border => *shard,
            _ => dir,
        }
    }

    /// The change as a client sends it.
    pub fn placed(&self, op: &Op) -> Op {
        let mut op = op.clone();
        let at = |dir: &mut u64, name: &[u8]| *dir = self.place(*dir, name);
        match &mut op {
            Op::Create(op) => at(&mut op.parent, &op.name),
            Op::Link(op) => at(&mut op.parent, &op.name),
            Op::Unlink(op) => at(&mut op.parent, &op.name),
            Op::Rmdir(op) => at(&mut op.parent, &op.name),
            Op::Rename(op) => {
                at(&mut op.parent, &op.name);
                at(&mut op.new_parent, &op.new_name);
            }
            _ => {}
        }
        op
    }

    /// The attributes of a directory with its shards.
    pub fn whole_attr(&self, ino: u64) -> Attr {
        let mut attr = self.attr(ino);
        for shard in self.shards(ino) {
            attr.nlink += self.attr(shard).nlink - 2;
        }
        Attr { shards: 0, ..attr }
    }

    /// Its entries, and those in its shards, in the order of their cookies.
    pub fn entries(&self, ino: u64) -> Vec<proto::DirEntry> {
        let shards = self.shards(ino);
        let all = std::iter::once(ino).chain(shards.iter().copied());
        let of = |ino: u64| {
            self.of(ino)
                .readdir(&user(0), Ino(ino), 0, 1_000)
                .unwrap()
                .0
        };
        let mut entries: Vec<proto::DirEntry> = all.flat_map(of).collect();
        entries.sort_by_key(|entry| entry.cookie);
        assert!(entries.is_sorted_by(|a, b| a.cookie < b.cookie));
        entries
    }
}

pub fn is_kept_by_images(state: &State) {
    let mut records: Vec<Vec<u8>> = Vec::new();
    state.save(&mut |record| records.push(record.to_vec()));
    let loaded = State::load(&records).unwrap();
    assert_eq!(&loaded, state);
    assert_eq!(loaded.digest(), state.digest());
}
