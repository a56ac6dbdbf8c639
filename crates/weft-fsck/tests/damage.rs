//! Name spaces of two groups: whole ones are found whole, also while changes go on between any two questions, and
//! each kind of damage is found.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_macros,
    dead_code,
    reason = "a test; the groups are shared with the tests of the name space, which use more of them"
)]

#[path = "../../weft-namespace/tests/groups/mod.rs"]
mod groups;

use groups::{Groups, Running, user};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weft_fsck::{Ask, Finding, Report, Survey, Terms, check, path_of};
use weft_namespace::{State, transaction_to};
use weft_types::{GroupId, Ino, ROOT_INO};
use weft_wire::Rpc;
use weft_wire::proto::op::Op;
use weft_wire::proto::surveyed_transaction::Stage;
use weft_wire::proto::{
    Create, FileKind, Link, Rename, Rmdir, SurveyGroupReply, SurveyGroupRequest, SurveyInodesReply,
    SurveyInodesRequest, SurveyLookReply, SurveyLookRequest, SurveyNamesRequest,
    SurveyedTransaction, Unlink,
};

const BOTH: [GroupId; 2] = [GroupId(0), GroupId(1)];

/// Groups that are asked, and change in between.
struct Cluster {
    groups: RefCell<Groups>,
    /// What goes on between two questions, and how many there have been.
    between: RefCell<Option<Work>>,
    questions: Cell<u64>,
}

/// The answer of a question, as the service gives it: small pages, so that much happens between them.
fn answer(state: &State, group: GroupId, method: u16, request: &[u8]) -> Vec<u8> {
    let sn = 1;
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
            }
            .encode_to_vec()
        }
        method => panic!("method {method}"),
    }
}

impl Ask for Cluster {
    type Error = String;

    async fn ask<R: Rpc>(&self, group: GroupId, request: &R) -> Result<R::Reply, String> {
        self.questions.set(self.questions.get() + 1);
        let groups = &mut *self.groups.borrow_mut();
        if let Some(work) = &mut *self.between.borrow_mut() {
            work.go_on(groups);
        }
        let state = &groups.members[group.0 as usize].state;
        let bytes = answer(state, group, R::METHOD, &request.encode_to_vec());
        Ok(R::Reply::decode(&bytes[..]).unwrap())
    }
}

/// Random changes, several of them under way at a time.
struct Work {
    random: u64,
    /// Directories, and files, that there were.
    directories: Vec<u64>,
    files: Vec<u64>,
    running: Vec<Running>,
    done: u64,
}

impl Work {
    fn new(seed: u64) -> Work {
        Work {
            random: seed.wrapping_mul(2).wrapping_add(1),
            directories: vec![ROOT_INO.0],
            files: Vec::new(),
            running: Vec::new(),
            done: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
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

    fn go_on(&mut self, groups: &mut Groups) {
        for _ in 0..self.below(9) {
            match self.below(3) {
                0 if self.running.len() < 4 => {
                    let op = self.op();
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

    fn finish(&mut self, groups: &mut Groups) {
        for mut running in self.running.drain(..) {
            while !running.is_over {
                groups.step(&mut running);
            }
        }
    }
}

fn checked(cluster: &Cluster) -> Report {
    let terms = Terms {
        pause: Duration::from_micros(10),
        confirmations: 3,
        ..Terms::default()
    };
    let run = async |env| check(&env, cluster, &BOTH, &terms).await;
    weft_env::real::run(run).unwrap().unwrap()
}

fn cluster(groups: Groups, between: Option<Work>) -> Cluster {
    Cluster {
        groups: RefCell::new(groups),
        between: RefCell::new(between),
        questions: Cell::new(0),
    }
}

/// A name space in which something has happened.
fn lived_in(seed: u64) -> (Groups, Work) {
    let mut groups = Groups::new(2);
    let mut work = Work::new(seed);
    for _ in 0..400 {
        work.go_on(&mut groups);
    }
    (groups, work)
}

#[test]
fn nothing_is_wrong_while_changes_go_on() {
    let (mut suspects, mut undecided, mut changes) = (0, 0, 0);
    for seed in 1..=200 {
        let (groups, work) = lived_in(seed);
        let before = work.done;
        let cluster = cluster(groups, Some(work));
        let report = checked(&cluster);
        assert_eq!(report.wrong, [], "seed {seed}");
        suspects += report.suspects;
        undecided += report.undecided.len();
        let mut groups = cluster.groups.into_inner();
        let mut work = cluster.between.into_inner().unwrap();
        changes += work.done - before;
        // And when all is over nothing is even suspicious.
        work.finish(&mut groups);
        let report = checked(&self::cluster(groups, None));
        assert_eq!((report.wrong, report.suspects), (vec![], 0), "seed {seed}");
        assert!(report.inodes > 3 && report.names > 3, "seed {seed}");
    }
    println!("{suspects} suspects, {undecided} undecided, during {changes} changes");
    assert!(suspects > 1_000 && changes > 5_000, "{suspects}, {changes}");
}

/// A directory and a file of each group below the root, by group: directory, its name, file.
fn tree(groups: &mut Groups) -> Vec<(u64, String, u64)> {
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

type Damage = fn(&mut Groups, &[(u64, String, u64)]);

fn state_of(groups: &mut Groups, ino: u64) -> &mut State {
    let group = groups.group_of(Ino(ino).slot());
    &mut groups.members[group].state
}

/// The second group's file gets its name in the first group's directory.
fn move_across(groups: &mut Groups, tree: &[(u64, String, u64)]) {
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

#[test]
fn each_kind_of_damage_is_found() {
    let cases: [(&[&str], Damage); 10] = [
        (&["names_nothing"], |groups, tree| {
            state_of(groups, tree[1].2).damage_inode(Ino(tree[1].2));
        }),
        (&["other_kind"], |groups, tree| {
            move_across(groups, tree);
            state_of(groups, tree[1].2).damage_kind(Ino(tree[1].2));
        }),
        (&["links"], |groups, tree| {
            state_of(groups, tree[1].2).damage_links(Ino(tree[1].2), 2);
        }),
        // A second name in another group's directory, that no link knows.
        (&["links"], |groups, tree| {
            move_across(groups, tree);
            let (directory, file) = (tree[0].0, tree[1].2);
            state_of(groups, directory).damage_entry(Ino(directory), b"g", Some(Ino(file)));
        }),
        (&["links"], |groups, tree| {
            state_of(groups, tree[1].0).damage_entry(Ino(tree[1].0), b"f", None);
        }),
        (&["nameless"], |groups, tree| {
            let of = state_of(groups, tree[0].2);
            of.damage_links(Ino(tree[0].2), 0);
            of.damage_entry(Ino(tree[0].0), b"f", None);
        }),
        (&["not_in_parent", "subdirectories"], |groups, tree| {
            state_of(groups, 1).damage_entry(ROOT_INO, tree[1].1.as_bytes(), None);
        }),
        (&["subdirectories"], |groups, tree| {
            state_of(groups, tree[1].0).damage_links(Ino(tree[1].0), 5);
        }),
        // In two places: what it says is its parent has it, and another one.
        (&["second_place", "subdirectories"], |groups, tree| {
            let directory = Ino(tree[0].0);
            state_of(groups, tree[0].0).damage_entry(directory, b"again", Some(directory));
        }),
        (&["second_place"], |groups, tree| {
            state_of(groups, tree[1].0).damage_parent(Ino(tree[1].0), Ino(tree[0].0));
        }),
    ];
    for (number, (kinds, damage)) in cases.into_iter().enumerate() {
        let mut groups = Groups::new(2);
        let tree = tree(&mut groups);
        let whole = checked(&cluster(groups, None));
        assert!(whole.is_sound() && whole.is_complete(), "{whole:?}");
        assert_eq!(whole.inodes, 5);

        let mut groups = Groups::new(2);
        let _ = self::tree(&mut groups);
        damage(&mut groups, &tree);
        let report = checked(&cluster(groups, None));
        let mut found: Vec<&str> = report.wrong.iter().map(Finding::kind).collect();
        found.sort_unstable();
        assert_eq!(found, kinds, "case {number}: {:?}", report.wrong);
        assert!(report.is_complete(), "{report:?}");
        for finding in &report.wrong {
            assert!(finding.to_string().contains("0x"), "{finding}");
        }
    }
}

#[test]
fn directories_within_each_other_are_found() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let (zero, one) = (Ino(tree[0].0), Ino(tree[1].0));
    for name in [&tree[0].1, &tree[1].1] {
        groups.members[0]
            .state
            .damage_entry(ROOT_INO, name.as_bytes(), None);
    }
    groups.members[0].state.damage_links(ROOT_INO, 2);
    for (directory, below) in [(zero, one), (one, zero)] {
        let state = state_of(&mut groups, directory.0);
        state.damage_links(directory, 3);
        state.damage_parent(directory, below);
    }
    // An entry of a directory needs its kind: the group of the root knew it.
    for (directory, below, name) in [(zero, one, "one"), (one, zero, "zero")] {
        state_of(&mut groups, directory.0).damage_foreign(directory, name.as_bytes(), below);
    }
    let report = checked(&cluster(groups, None));
    let found: Vec<&str> = report.wrong.iter().map(Finding::kind).collect();
    assert_eq!(found, ["circle"], "{:?}", report.wrong);
}

#[test]
fn a_transaction_that_waits_is_told_and_what_it_locks_is_not_wrong() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let home = groups.group_of(Ino(tree[0].0).slot());
    let link = Op::Link(Link {
        ino: tree[1].2,
        parent: tree[0].0,
        name: "linked".into(),
    });
    let mut running = groups.begin(&user(0), link).unwrap();
    while running.reply.is_none() {
        groups.step(&mut running);
    }
    assert!(!running.is_over, "the other group has not heard of it");
    let cluster = cluster(groups, None);
    let report = checked(&cluster);
    assert_eq!(report.wrong, []);
    // The name stands, the link is not counted yet.
    assert_eq!(report.undecided.len(), 1, "{:?}", report.undecided);
    let [waiting] = &report.waiting[..] else {
        panic!("{:?}", report.waiting);
    };
    assert_eq!(waiting.asked, [GroupId(home as u32)]);
    assert_eq!((waiting.stage, waiting.age_ms), ("prepared", 7_000));
    assert!(!report.is_sound() && !report.is_complete());
}

#[test]
fn paths_lead_through_groups() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let below = Op::Create(Create {
        parent: tree[1].0,
        name: "below".into(),
        kind: FileKind::Directory as i32,
        mode: 0o755,
        ..Create::default()
    });
    let below = groups.change(&user(0), below).attr.unwrap().ino;
    let cluster = cluster(groups, None);
    let found = weft_env::real::run(async |_| {
        let survey = Survey::of(&cluster, &BOTH).await?;
        path_of(&survey, Ino(below)).await
    });
    let wanted = format!("/{}/below", tree[1].1).into_bytes();
    assert_eq!(found.unwrap(), Ok(Some(wanted)));
}
