//! Checkpoints (`docs/protocols/checkpoints.md`): whatever happens after a cut, a restore brings all groups
//! back to it, and what files had then has neither been dropped nor is it taken for anything else later.

use crate::groups::{Groups, Member, Running, is_kept_by_images, user};
use std::collections::{BTreeMap, BTreeSet};
use weft_namespace::State;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    AddPair, Attr, BeginRestore, CloseForRestore, CloseSession, Create, Cut, DrainPair, DropCut,
    DropLease, Dropped, EndCheckpoint, EndRestore, FileKind, ForgetCheckpoint, Job, KeepCheckpoint,
    Link, LoadRecords, OpenSession, PlanCheckpoint, ReleaseHeld, Rename, ReopenRestored, Rmdir,
    Setattr, StartJob, SweepReplaced, TakeLoaded, Unlink, WriteLease, job::What,
};

/// A small random number generator, so that a seed tells everything.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

type Records = Vec<Vec<u8>>;

fn records(state: &State) -> Records {
    let mut records = Vec::new();
    state.save(&mut |record| records.push(record.to_vec()));
    records
}

fn cut(member: &mut Member, id: u64) -> Records {
    member.own(Op::Cut(Cut { id }));
    is_kept_by_images(&member.state);
    records(&member.state)
}

/// Brings one group back; records come some at a time, and what was there is swept in small steps.
fn bring_back(member: &mut Member, restore: u64, checkpoint: u64, image: &Records) {
    let close = Op::CloseForRestore(CloseForRestore {
        restore,
        checkpoint,
    });
    member.own(close.clone());
    // Asked for twice, it is done once.
    member.own(close);
    assert_eq!(member.state.closed().unwrap().restore, restore);
    let sessions: Vec<u64> = member.state.sessions().map(|it| it.session.0).collect();
    for session in sessions {
        let clean = false;
        member.own(Op::CloseSession(CloseSession {
            session,
            clean,
            ..CloseSession::default()
        }));
    }
    is_kept_by_images(&member.state);
    let load = |at: usize, records: &[Vec<u8>]| {
        Op::LoadRecords(LoadRecords {
            restore,
            at: at as u64,
            records: records.iter().map(|it| it.clone().into()).collect(),
        })
    };
    // Another active begins anew.
    member.own(load(0, &image[..2]));
    assert_eq!(member.state.loaded(), Some(2));
    let mut at = 0;
    for some in image.chunks(3) {
        member.own(load(at, some));
        at += some.len();
    }
    let wrong = member.apply(1, 0, &user(0), load(at + 1, &[]));
    assert_ne!(wrong.failure_errno, 0);
    member.own(Op::TakeLoaded(TakeLoaded { restore }));
    let sweep = Op::SweepReplaced(SweepReplaced { restore, max: 3 });
    while member.own(sweep.clone()).created {
        assert!(member.state.is_sweeping());
    }
    assert!(member.state.is_brought_back());
    is_kept_by_images(&member.state);
}

fn reopen(member: &mut Member, restore: u64) {
    member.own(Op::ReopenRestored(ReopenRestored { restore }));
    assert_eq!(member.state.restored(), restore);
    let name = "anew".to_owned();
    member.session = member
        .own(Op::OpenSession(OpenSession {
            name,
            ..OpenSession::default()
        }))
        .session;
    is_kept_by_images(&member.state);
}

/// What data servers have: objects of which the group's deletion queue has not been carried out.
#[derive(Default)]
struct Objects {
    dropped: BTreeSet<(u64, u32)>,
    /// Every generation that a file ever wrote to.
    given: BTreeSet<(u64, u32)>,
}

impl Objects {
    /// Carries some deletions out.
    fn drop_some(&mut self, member: &mut Member, max: usize) {
        let due = member.state.deletions(max);
        for one in &due {
            let object = (one.object.ino.0, one.object.generation);
            assert!(self.dropped.insert(object), "{object:?} is dropped twice");
        }
        let queue_ids = due.iter().map(|one| one.queue_id).collect();
        member.own(Op::Dropped(Dropped { queue_ids }));
    }
}

fn files(groups: &Groups) -> BTreeMap<u64, (Attr, u32)> {
    let all = groups.whole();
    let regular = all
        .into_iter()
        .filter(|(_, attr)| attr.kind() == FileKind::Regular);
    regular
        .map(|(ino, attr)| {
            let layout = groups.of(ino).inode(Ino(ino)).unwrap().layout.unwrap();
            (ino, (attr, layout.generation))
        })
        .collect()
}

fn directories(groups: &Groups) -> Vec<u64> {
    let mut known = vec![ROOT_INO.0];
    for member in &groups.members {
        let (mut after, mut more) = (0, true);
        while more {
            let page = member.state.survey_inodes(Ino(after), 100);
            let found = page.0.iter().filter(|it| it.kind() == FileKind::Directory);
            known.extend(found.map(|it| it.ino));
            after = page.0.last().map_or(after, |last| last.ino);
            more = page.1;
        }
    }
    known
}

/// One change at random; names are few, so that they meet.
fn change(groups: &mut Groups, rng: &mut Rng, objects: &mut Objects) -> Option<Op> {
    let known = directories(groups);
    let any = |rng: &mut Rng| known[rng.below(known.len() as u64) as usize];
    let name = |rng: &mut Rng| bytes::Bytes::from(format!("n{}", rng.below(6)));
    let parent = any(rng);
    Some(match rng.below(12) {
        0..=2 => Op::Create(Create {
            parent,
            name: name(rng),
            kind: FileKind::Regular as i32,
            mode: 0o666,
            ..Create::default()
        }),
        3 | 4 => Op::Create(Create {
            parent,
            name: name(rng),
            kind: FileKind::Directory as i32,
            mode: 0o777,
            exclusive: true,
            ..Create::default()
        }),
        5 => Op::Unlink(Unlink {
            parent,
            name: name(rng),
            keep_open: rng.below(3) == 0,
            ..Unlink::default()
        }),
        6 => Op::Rmdir(Rmdir {
            parent,
            name: name(rng),
        }),
        7 => Op::Rename(Rename {
            parent,
            name: name(rng),
            new_parent: any(rng),
            new_name: name(rng),
            ..Rename::default()
        }),
        _ => {
            // Of a file that has a name here.
            let state = groups.of(parent);
            let found = state.lookup(&user(0), Ino(parent), &name(rng)).ok()??;
            let attr = found.attr?;
            if attr.kind() != FileKind::Regular {
                return None;
            }
            let ino = attr.ino;
            match rng.below(4) {
                0 => Op::Link(Link {
                    ino,
                    parent: any(rng),
                    name: name(rng),
                    unnamed: false,
                }),
                _ => {
                    let group = groups.group_of(Ino(ino).slot());
                    let member = &mut groups.members[group];
                    let session = member.session;
                    let lease = Op::WriteLease(WriteLease {
                        ino,
                        ..WriteLease::default()
                    });
                    let size = [0, 0, 4_096, 1_000_000][rng.below(4) as usize];
                    let told = Op::Setattr(Setattr {
                        ino,
                        size: Some(size),
                        ..Setattr::default()
                    });
                    if member.apply(5_000, session, &user(0), lease).failure_errno != 0 {
                        return None;
                    }
                    note_given(&member.state, ino, objects);
                    member.apply(5_000, session, &user(0), told);
                    note_given(&member.state, ino, objects);
                    if rng.below(2) == 0 {
                        let drop = Op::DropLease(DropLease { ino });
                        member.apply(5_000, session, &user(0), drop);
                    }
                    return None;
                }
            }
        }
    })
}

/// A file that is written writes to objects that never were another content's after they had been dropped.
fn note_given(state: &State, ino: u64, objects: &mut Objects) {
    let Some(layout) = state.inode(Ino(ino)).ok().and_then(|inode| inode.layout) else {
        return;
    };
    let object = (ino, layout.generation);
    assert!(
        !objects.dropped.contains(&object),
        "{object:?} was dropped and is written"
    );
    let is_queued =
        |one: &weft_namespace::Deletion| (one.object.ino.0, one.object.generation) == object;
    assert!(
        !state.deletions(100_000).iter().any(is_queued),
        "{object:?} is written and waits to be dropped"
    );
    objects.given.insert(object);
}

fn work(
    groups: &mut Groups,
    rng: &mut Rng,
    (steps, objects): (u64, &mut Objects),
    running: &mut Vec<Running>,
) {
    for _ in 0..steps {
        if !running.is_empty() && rng.below(3) > 0 {
            let at = rng.below(running.len() as u64) as usize;
            groups.step(&mut running[at]);
            running.retain(|it| !it.is_over);
        }
        if let Some(op) = change(groups, rng, objects)
            && !groups.waits(&op)
        {
            match groups.spans(&op) {
                true => running.extend(groups.begin(&user(0), op).ok()),
                false => {
                    groups.change(&user(0), op);
                }
            }
        }
        if rng.below(8) == 0 {
            let group = rng.below(groups.members.len() as u64) as usize;
            objects.drop_some(&mut groups.members[group], 2);
        }
    }
}

fn settle(groups: &mut Groups, running: &mut Vec<Running>) {
    for mut one in running.drain(..) {
        while !one.is_over {
            groups.step(&mut one);
        }
    }
}

/// Sessions end, so that nothing is held open.
fn end_sessions(groups: &mut Groups) {
    for member in &mut groups.members {
        let session = member.session;
        let clean = true;
        member.own(Op::CloseSession(CloseSession {
            session,
            clean,
            ..CloseSession::default()
        }));
        let name = "next".to_owned();
        member.session = member
            .own(Op::OpenSession(OpenSession {
                name,
                ..OpenSession::default()
            }))
            .session;
    }
}

/// What groups ask each other after a takeover, or after a restore.
fn recover(groups: &mut Groups) {
    groups
        .own
        .iter_mut()
        .for_each(|own| *own = Default::default());
    groups.ask();
    for home in 0..groups.members.len() {
        let decided: Vec<_> = groups.members[home].state.decided().collect();
        for (id, others) in decided {
            for group in others {
                groups.finish(group.0 as usize, id, true);
            }
        }
    }
}

/// What a restore must bring back: the tree as it would have become had all homes died at the cut.
fn expected(groups: &Groups) -> BTreeMap<u64, Attr> {
    let members = groups.members.iter().map(|member| Member {
        state: member.state.clone(),
        session: member.session,
    });
    let mut copy = Groups::of_members(members.collect());
    recover(&mut copy);
    end_sessions(&mut copy);
    copy.whole()
}

fn without_change(all: BTreeMap<u64, Attr>) -> BTreeMap<u64, Attr> {
    let plain = |(ino, attr)| {
        let change = 0;
        (ino, Attr { change, ..attr })
    };
    all.into_iter().map(plain).collect()
}

#[test]
fn all_groups_come_back_to_one_moment_whatever_has_happened_since() {
    let mut held_most = 0;
    for seed in 1..=60u64 {
        let rng = &mut Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let count = 1 + (seed % 3) as usize;
        let mut groups = Groups::new(count);
        let (mut objects, mut running) = (Objects::default(), Vec::new());
        work(&mut groups, rng, (200, &mut objects), &mut running);
        // Three checkpoints, with transactions under way, and a restore to each in some order.
        let mut kept: Vec<(u64, Vec<Records>, BTreeMap<u64, Attr>)> = Vec::new();
        let mut content: BTreeMap<u64, BTreeMap<u64, u32>> = BTreeMap::new();
        for id in 1..=3 {
            let images = groups.members.iter_mut().map(|member| cut(member, id));
            let images: Vec<Records> = images.collect();
            let tree = expected(&groups);
            let mut generations = BTreeMap::new();
            for (ino, attr) in &tree {
                if attr.kind() == FileKind::Regular {
                    let inode = groups.of(*ino).inode(Ino(*ino)).unwrap();
                    generations.insert(*ino, inode.layout.unwrap().generation);
                }
            }
            content.insert(id, generations);
            kept.push((id, images, tree));
            work(&mut groups, rng, (150, &mut objects), &mut running);
        }
        for restore in 1..=4 {
            let (id, images, tree) = &kept[rng.below(3) as usize];
            let held: u64 = groups.members.iter().map(|it| it.state.held(None)).sum();
            held_most = held_most.max(held);
            for (member, image) in groups.members.iter_mut().zip(images) {
                bring_back(member, restore, *id, image);
            }
            // Those that were under way know nothing of what is there now, and end with the closing.
            running.clear();
            groups
                .members
                .iter_mut()
                .for_each(|member| reopen(member, restore));
            recover(&mut groups);
            end_sessions(&mut groups);
            let found = without_change(groups.whole());
            assert_eq!(
                found,
                without_change(tree.clone()),
                "seed {seed}, checkpoint {id}"
            );
            for (ino, (attr, generation)) in files(&groups) {
                assert_eq!(generation, content[id][&ino], "the objects of {ino}");
                if objects.given.contains(&(ino, generation)) && attr.size > 0 {
                    note_given(groups.of(ino), ino, &mut objects);
                }
            }
            // Of what is kept nothing goes, and of what is written anew nothing is dropped later.
            for member in &mut groups.members {
                objects.drop_some(member, 100_000);
            }
            for (of, _, _) in &kept {
                for (ino, generation) in &content[of] {
                    let object = (*ino, *generation);
                    if objects.given.contains(&object) {
                        assert!(
                            !objects.dropped.contains(&object),
                            "seed {seed}: {object:?} of checkpoint {of} was dropped"
                        );
                    }
                }
            }
            work(&mut groups, rng, (100, &mut objects), &mut running);
        }
        // Without checkpoints nothing is held, and nobody's objects are left.
        settle(&mut groups, &mut running);
        end_sessions(&mut groups);
        for member in &mut groups.members {
            for id in 1..=3 {
                member.own(Op::DropCut(DropCut { id }));
            }
            while member.own(Op::ReleaseHeld(ReleaseHeld { max: 2 })).created {}
            assert_eq!(
                (member.state.held(None), member.state.has_dropped_cuts()),
                (0, false)
            );
            let late = member.apply(1, 0, &user(0), Op::Cut(Cut { id: 3 }));
            assert_ne!(late.failure_errno, 0, "it was dropped");
            objects.drop_some(member, 100_000);
            is_kept_by_images(&member.state);
        }
        let alive = files(&groups);
        for (ino, generation) in &objects.given {
            let is_alive = alive
                .get(ino)
                .is_some_and(|(_, current)| current == generation);
            assert_ne!(
                is_alive,
                objects.dropped.contains(&(*ino, *generation)),
                "seed {seed}: object {ino:#x}.{generation}"
            );
        }
    }
    assert!(held_most > 3, "{held_most}");
}

fn single() -> Member {
    let mut member = Member::begin(None);
    member.own(Op::AddPair(AddPair { pair: 1 }));
    member
}

fn plan(member: &mut Member, name: &str) -> Result<u64, i32> {
    let name = name.to_owned();
    let op = Op::PlanCheckpoint(PlanCheckpoint { name });
    let reply = member.apply(7, 0, &user(0), op);
    match reply.failure_errno {
        0 => Ok(reply.session),
        errno => Err(errno as i32),
    }
}

fn fails(member: &mut Member, op: Op) -> i32 {
    let before = member.state.clone();
    let errno = member.apply(8, 0, &user(0), op).failure_errno;
    assert_ne!(errno, 0);
    assert_eq!(member.state, before);
    errno as i32
}

#[test]
fn the_list_knows_what_may_be_done_with_each() {
    let mut member = single();
    for bad in ["", ".x", "-x", "a b", "a/b", "ü", &"x".repeat(65)] {
        assert_eq!(plan(&mut member, bad), Err(libc::EINVAL), "{bad:?}");
    }
    let id = plan(&mut member, "monday").unwrap();
    assert_eq!(plan(&mut member, "monday"), Err(libc::EEXIST));
    assert_eq!(
        fails(&mut member, Op::BeginRestore(BeginRestore { id })),
        libc::ENOENT
    );
    member.own(Op::Cut(Cut { id }));
    member.own(Op::KeepCheckpoint(KeepCheckpoint { id }));
    assert_eq!(
        fails(&mut member, Op::ForgetCheckpoint(ForgetCheckpoint { id })),
        libc::EBUSY
    );
    let restore = member.own(Op::BeginRestore(BeginRestore { id })).session;
    assert_eq!(restore, 1);
    assert_eq!(
        fails(&mut member, Op::BeginRestore(BeginRestore { id })),
        libc::EALREADY
    );
    assert_eq!(
        fails(&mut member, Op::EndCheckpoint(EndCheckpoint { id })),
        libc::EBUSY
    );
    assert_eq!(plan(&mut member, "tuesday"), Err(libc::EBUSY));
    assert_eq!(fails(&mut member, Op::Cut(Cut { id: id + 1 })), libc::EBUSY);
    is_kept_by_images(&member.state);
    member.own(Op::EndRestore(EndRestore { restore }));
    assert_eq!(
        fails(&mut member, Op::EndRestore(EndRestore { restore })),
        libc::ESTALE
    );
    member.own(Op::EndCheckpoint(EndCheckpoint { id }));
    // The name is free at once, the number never again.
    assert_eq!(plan(&mut member, "monday"), Ok(id + 1));
    member.own(Op::DropCut(DropCut { id }));
    member.own(Op::ForgetCheckpoint(ForgetCheckpoint { id }));
    assert_eq!(fails(&mut member, Op::Cut(Cut { id })), libc::ESTALE);
    is_kept_by_images(&member.state);
}

#[test]
fn a_pair_that_a_checkpoint_names_is_not_drained() {
    let mut member = single();
    let drain = |pair| {
        Op::StartJob(StartJob {
            job: Some(Job {
                what: Some(What::Drain(DrainPair { pair })),
                ..Job::default()
            }),
        })
    };
    member.own(Op::Cut(Cut { id: 1 }));
    member.own(Op::AddPair(AddPair { pair: 2 }));
    assert_eq!(fails(&mut member, drain(0)), libc::EBUSY);
    assert_eq!(member.state.cut_with_pair(weft_types::PairId(2)), None);
    member.own(drain(2));
    assert!(member.state.hinders_restore(1).unwrap().contains("job"));
    assert_eq!(fails(&mut member, Op::Cut(Cut { id: 2 })), libc::EBUSY);
    member.own(Op::DropCut(DropCut { id: 1 }));
    member.own(drain(0));
}

#[test]
fn a_damaged_image_is_not_taken() {
    let mut member = single();
    let image = cut(&mut member, 1);
    let close = |restore| {
        Op::CloseForRestore(CloseForRestore {
            restore,
            checkpoint: 1,
        })
    };
    member.own(close(1));
    let session = member.session;
    let clean = true;
    let load = |at: usize, records: &[Vec<u8>]| {
        Op::LoadRecords(LoadRecords {
            restore: 1,
            at: at as u64,
            records: records.iter().map(|it| it.clone().into()).collect(),
        })
    };
    assert_eq!(
        fails(&mut member, load(0, &image)),
        libc::EBUSY,
        "a session is open"
    );
    member.own(Op::CloseSession(CloseSession {
        session,
        clean,
        ..CloseSession::default()
    }));
    let take = Op::TakeLoaded(TakeLoaded { restore: 1 });
    // The end is missing; then one record is another.
    member.own(load(0, &image[..image.len() - 1]));
    let inodes = member.state.statistics().inodes;
    assert_ne!(member.apply(9, 0, &user(0), take.clone()).failure_errno, 0);
    assert_eq!(
        (member.state.statistics().inodes, member.state.loaded()),
        (inodes, Some(0))
    );
    let mut damaged = image.clone();
    damaged.swap(1, 2);
    assert_ne!(damaged, image);
    member.apply(9, 0, &user(0), load(0, &damaged));
    assert_ne!(member.apply(9, 0, &user(0), take.clone()).failure_errno, 0);
    member.own(load(0, &image));
    member.own(take);
    assert!(member.state.is_between());
    // Neither that restore again, nor a late one.
    while member
        .own(Op::SweepReplaced(SweepReplaced { restore: 1, max: 1 }))
        .created
    {}
    assert_eq!(fails(&mut member, close(2)), libc::EBUSY);
    member.own(Op::ReopenRestored(ReopenRestored { restore: 1 }));
    assert_eq!(fails(&mut member, close(1)), libc::ESTALE);
}
