//! Groups of one name space that are asked as `weft fsck --meta` asks them, and may change between any two
//! questions.

#[path = "../../../../weft-namespace/tests/it/groups/mod.rs"]
pub mod groups;

use groups::{Groups, Running, user};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_fsck::{Ask, Mended, Report, Terms, check, repair};
use weft_namespace::{Errno, State, transaction_to};
use weft_types::{GroupId, Ino, ROOT_INO};
use weft_wire::Rpc;
use weft_wire::proto::op::Op;
use weft_wire::proto::surveyed_transaction::Stage;
use weft_wire::proto::{
    Create, FileKind, Link, OpReply, Rename, RepairReply, RepairRequest, Rmdir, SlotRange, Split,
    Spread, SurveyGroupReply, SurveyGroupRequest, SurveyInodesReply, SurveyInodesRequest,
    SurveyLookReply, SurveyLookRequest, SurveyNamesRequest, SurveyedTransaction, Unlink,
};

pub const BOTH: [GroupId; 2] = [GroupId(0), GroupId(1)];

/// Groups that are asked, and change in between.
pub struct Cluster {
    pub groups: RefCell<Groups>,
    /// What goes on between two questions, and how many there have been.
    pub between: RefCell<Option<Work>>,
    pub questions: Cell<u64>,
    /// Changes that are made before the question of this number.
    pub before: BTreeMap<u64, Op>,
    /// The slots that the second group says it has, whatever is so.
    pub claims: Option<Vec<SlotRange>>,
}

/// The answer of a question, as the service gives it: small pages, so that much happens between them.
fn answer(groups: &Groups, group: GroupId, method: u16, request: &[u8]) -> Vec<u8> {
    let (sn, of) = (1, group.0 as usize);
    let state = &groups.members[of].state;
    match method {
        SurveyInodesRequest::METHOD => {
            let request = SurveyInodesRequest::decode(request).unwrap();
            let (inodes, more) = state.survey_inodes(Ino(request.after), 3);
            SurveyInodesReply { inodes, more, sn }.encode_to_vec()
        }
        SurveyNamesRequest::METHOD => {
            let request = SurveyNamesRequest::decode(request).unwrap();
            let from = (Ino(request.directory), request.cookie);
            state.survey_names(from, 3, 5).encode_to_vec()
        }
        SurveyLookRequest::METHOD => {
            let request = SurveyLookRequest::decode(request).unwrap();
            let mut steps = 1_000;
            let inos = request.inos.iter();
            let sights = inos.map(|ino| state.survey_sight(Ino(*ino), &mut steps));
            let sights = sights.collect();
            let places = request.places.iter();
            let places = places.map(|place| state.survey_place(place, &mut steps));
            SurveyLookReply {
                sights,
                places: places.collect(),
                sn,
            }
            .encode_to_vec()
        }
        SurveyGroupRequest::METHOD => {
            let prepared = state.prepared().map(|id| SurveyedTransaction {
                transaction: Some(transaction_to(id)),
                stage: Stage::Prepared as i32,
                age_ms: 7_000,
                groups: vec![id.home.0],
                inos: state.concerned_by(id).iter().map(|ino| ino.0).collect(),
            });
            SurveyGroupReply {
                group: group.0,
                slots: state.slot_ranges(),
                transactions: prepared.collect(),
                sn,
                more: false,
                splits: groups.splits[of],
            }
            .encode_to_vec()
        }
        method => panic!("method {method}"),
    }
}

/// The same for a repair.
fn repaired(groups: &mut Groups, group: GroupId, request: &[u8]) -> Vec<u8> {
    let group = group.0 as usize;
    let repair = RepairRequest::decode(request).unwrap().repair.unwrap();
    let is_locked = {
        let state = &groups.members[group].state;
        state.locks_repair(&groups.own[group], &repair)
    };
    let reply = match is_locked {
        true => OpReply {
            failure_errno: Errno::EAGAIN.0 as u32,
            ..OpReply::default()
        },
        false => {
            groups.clock += 1;
            groups.members[group].apply(groups.clock, 0, &user(0), Op::Repair(repair))
        }
    };
    RepairReply {
        failure_errno: reply.failure_errno,
        ino: reply.attr.map_or(0, |attr| attr.ino),
    }
    .encode_to_vec()
}

impl Ask for Cluster {
    type Error = String;

    async fn ask<R: Rpc>(&self, group: GroupId, request: &R) -> Result<R::Reply, String> {
        self.questions.set(self.questions.get() + 1);
        let groups = &mut *self.groups.borrow_mut();
        if let Some(op) = self.before.get(&self.questions.get()) {
            let reply = groups.change(&user(0), op.clone());
            assert_eq!(reply.failure_errno, 0, "{op:?}");
        }
        if let Some(work) = &mut *self.between.borrow_mut() {
            work.go_on(groups);
        }
        if R::METHOD == RepairRequest::METHOD {
            let reply = repaired(groups, group, &request.encode_to_vec());
            return Ok(R::Reply::decode(&reply[..]).unwrap());
        }
        let mut bytes = answer(groups, group, R::METHOD, &request.encode_to_vec());
        if let (Some(slots), SurveyGroupRequest::METHOD, GroupId(1)) =
            (&self.claims, R::METHOD, group)
        {
            let mut reply = SurveyGroupReply::decode(&bytes[..]).unwrap();
            reply.slots.clone_from(slots);
            bytes = reply.encode_to_vec();
        }
        Ok(R::Reply::decode(&bytes[..]).unwrap())
    }
}

/// Random changes, several of them under way at a time.
pub struct Work {
    random: u64,
    /// Directories, and files, that there were.
    pub directories: Vec<u64>,
    pub files: Vec<u64>,
    running: Vec<Running>,
    pub done: u64,
    /// Directories are spread, too.
    pub spreads: bool,
}

impl Work {
    pub fn new(seed: u64) -> Work {
        Work {
            random: seed.wrapping_mul(2).wrapping_add(1),
            directories: vec![ROOT_INO.0],
            files: Vec::new(),
            running: Vec::new(),
            done: 0,
            spreads: false,
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) % bound as u64) as usize
    }

    fn directory(&mut self) -> u64 {
        let at = self.below(self.directories.len());
        self.directories[at]
    }

    fn name(&mut self) -> bytes::Bytes {
        let name = ["a", "b", "c", "d", "e"][self.below(5)];
        name.into()
    }

    fn op(&mut self) -> Op {
        let (parent, name) = (self.directory(), self.name());
        if self.spreads && self.below(4) == 0 {
            return match self.below(4) {
                0 => Op::Spread(Spread {
                    ino: parent,
                    shards: 2,
                    // Of either group.
                    slots: vec![6, 7],
                }),
                _ => Op::Split(Split { ino: parent }),
            };
        }
        match self.below(10) {
            0..=2 => Op::Create(Create {
                parent,
                name,
                kind: [FileKind::Regular, FileKind::Directory][self.below(2)] as i32,
                mode: 0o777,
                ..Create::default()
            }),
            3 | 4 if !self.files.is_empty() => {
                let at = self.below(self.files.len());
                Op::Link(Link {
                    ino: self.files[at],
                    parent,
                    name,
                    unnamed: false,
                })
            }
            5 => Op::Unlink(Unlink {
                parent,
                name,
                ..Unlink::default()
            }),
            6 => Op::Rmdir(Rmdir { parent, name }),
            _ => Op::Rename(Rename {
                parent,
                name,
                new_parent: self.directory(),
                new_name: self.name(),
                exchange: self.below(4) == 0,
                ..Rename::default()
            }),
        }
    }

    pub fn go_on(&mut self, groups: &mut Groups) {
        for _ in 0..self.below(9) {
            match self.below(3) {
                0 if self.running.len() < 4 => {
                    let op = groups.placed(&self.op());
                    if groups.spans(&op) {
                        self.running.extend(groups.begin(&user(0), op).ok());
                    } else if !groups.waits(&op) {
                        let kind = match &op {
                            Op::Create(create) => create.kind(),
                            _ => FileKind::Unspecified,
                        };
                        let reply = groups.change(&user(0), op);
                        self.done += u64::from(reply.failure_errno == 0);
                        self.note(kind, reply.attr.map_or(0, |attr| attr.ino));
                    }
                }
                _ if !self.running.is_empty() => {
                    let at = self.below(self.running.len());
                    groups.step(&mut self.running[at]);
                    if self.running[at].is_over {
                        let over = self.running.swap_remove(at);
                        let reply = over.reply.unwrap_or_default();
                        self.done += u64::from(reply.failure_errno == 0);
                        let attr = reply.attr.unwrap_or_default();
                        self.note(attr.kind(), attr.ino);
                    }
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, kind: FileKind, ino: u64) {
        match kind {
            _ if ino == 0 => {}
            FileKind::Directory => self.directories.push(ino),
            FileKind::Regular => self.files.push(ino),
            _ => {}
        }
    }

    pub fn finish(&mut self, groups: &mut Groups) {
        for mut running in self.running.drain(..) {
            while !running.is_over {
                groups.step(&mut running);
            }
        }
    }
}

pub fn checked(cluster: &Cluster) -> Report {
    let run = async |env| check(&env, cluster, &BOTH, &terms()).await;
    weft_env::real::run(run).unwrap().unwrap()
}

pub fn terms() -> Terms {
    Terms {
        pause: Duration::from_micros(10),
        confirmations: 3,
        ..Terms::default()
    }
}

/// Checked, and repaired.
pub fn mended(cluster: &Cluster) -> Mended {
    let run = async |env| {
        let report = check(&env, cluster, &BOTH, &terms()).await?;
        let mut told = Vec::new();
        let tell = |one: &weft_fsck::Repaired| told.push(one.clone());
        let mended = repair(&env, cluster, &BOTH, &terms(), &report, tell).await?;
        assert_eq!(told, mended.repaired);
        Ok::<Mended, String>(mended)
    };
    weft_env::real::run(run).unwrap().unwrap()
}

pub fn cluster_of(groups: Groups, between: Option<Work>) -> Cluster {
    Cluster {
        groups: RefCell::new(groups),
        between: RefCell::new(between),
        questions: Cell::new(0),
        before: BTreeMap::new(),
        claims: None,
    }
}

/// A name space in which something has happened.
pub fn lived_in(seed: u64) -> (Groups, Work) {
    lived_in_with(Work::new(seed))
}

pub fn lived_in_with(mut work: Work) -> (Groups, Work) {
    let mut groups = Groups::new(2);
    for _ in 0..400 {
        work.go_on(&mut groups);
    }
    (groups, work)
}

/// A directory and a file of each group below the root, by group: directory, its name, file.
pub fn tree(groups: &mut Groups) -> Vec<(u64, String, u64)> {
    let mut found: Vec<Option<(u64, String, u64)>> = vec![None, None];
    for number in 0.. {
        let name = format!("d{number}");
        let slot = State::directory_slot(ROOT_INO, name.as_bytes());
        let group = groups.group_of(slot);
        if found[group].is_some() {
            continue;
        }
        let make = |parent, name: &str, kind: FileKind| {
            Op::Create(Create {
                parent,
                name: name.to_owned().into(),
                kind: kind as i32,
                mode: 0o755,
                ..Create::default()
            })
        };
        let directory = make(ROOT_INO.0, &name, FileKind::Directory);
        let directory = groups.change(&user(0), directory).attr.unwrap().ino;
        let file = make(directory, "f", FileKind::Regular);
        let file = groups.change(&user(0), file).attr.unwrap().ino;
        found[group] = Some((directory, name, file));
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.into_iter().flatten().collect()
}

pub type Damage = fn(&mut Groups, &[(u64, String, u64)]);

pub fn state_of(groups: &mut Groups, ino: u64) -> &mut State {
    let group = groups.group_of(Ino(ino).slot());
    &mut groups.members[group].state
}

/// The second group's file gets its name in the first group's directory.
pub fn move_across(groups: &mut Groups, tree: &[(u64, String, u64)]) {
    let rename = Rename {
        parent: tree[1].0,
        name: "f".into(),
        new_parent: tree[0].0,
        new_name: "moved".into(),
        ..Rename::default()
    };
    let reply = groups.change(&user(0), Op::Rename(rename));
    assert_eq!(reply.failure_errno, 0);
}
