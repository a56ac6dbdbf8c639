//! Files that come to lie otherwise, and the jobs that ask for it.

use super::*;
use crate::{Cursor, Loader, Usage};
use std::num::NonZeroU64;
use weft_types::{Member, PairId};
use weft_wire::proto::job::What;
use weft_wire::proto::{
    AddPair, CloseSession, DrainPair, DropLease, Dropped, EndJob, GivePolicy, Job, Layout,
    Rebalance, RelayTree, Relayout, RelayoutBegin, RelayoutEnd, RemovePair, StartJob, WriteLease,
};

fn start(what: What) -> Op {
    Op::StartJob(StartJob {
        job: Some(Job {
            what: Some(what),
            ..Job::default()
        }),
    })
}

fn drain(w: &mut World, pair: u32) -> u64 {
    w.service(start(What::Drain(DrainPair { pair }))).session
}

fn layout(w: &World, ino: Ino) -> Layout {
    w.state.inode(ino).unwrap().layout.unwrap()
}

/// On one pair only.
fn on(w: &World, ino: Ino, pair: u32) -> Layout {
    Layout {
        pairs: vec![pair],
        ..layout(w, ino)
    }
}

fn begin(ino: Ino, job: u64, layout: Layout) -> Op {
    Op::RelayoutBegin(RelayoutBegin {
        ino: ino.0,
        job,
        layout: Some(layout),
    })
}

fn commit(ino: Ino, generation: u32) -> Op {
    Op::Relayout(Relayout {
        ino: ino.0,
        generation,
        ..Relayout::default()
    })
}

fn end(ino: Ino, generation: u32) -> Op {
    Op::RelayoutEnd(RelayoutEnd {
        ino: ino.0,
        generation,
    })
}

fn take(ino: Ino) -> Op {
    Op::WriteLease(WriteLease {
        ino: ino.0,
        ..WriteLease::default()
    })
}

fn cut(ino: Ino) -> Op {
    Op::Setattr(Setattr {
        size: Some(0),
        ..setattr(ino)
    })
}

/// A state goes into an image and comes out as it was.
fn imaged(w: &World) {
    let mut loader = Loader::new();
    let mut records = w.state.records();
    while let Some(record) = records.next() {
        loader.push(record).unwrap();
    }
    let loaded = loader.finish().unwrap();
    assert_eq!(loaded, w.state);
    assert_eq!(loaded.digest(), w.state.digest());
}

fn queue(w: &World) -> Vec<(u32, u64, u32)> {
    let all = w.state.deletions(99);
    all.iter()
        .map(|d| (d.pair.0, d.object.ino.0, d.object.generation))
        .collect()
}

/// A file of one byte that nobody writes, and a session that moves it.
fn world() -> (World, Ino, u64) {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    let told = Setattr {
        owed: true,
        size: Some(1),
        allocated: Some(4096),
        ..setattr(f)
    };
    w.ok(&root(), Op::Setattr(told));
    w.drop_lease(f);
    let mover = w.open_session();
    (w, f, mover)
}

#[test]
fn a_copy_becomes_the_file_at_once_and_the_old_objects_go() {
    let (mut w, f, mover) = world();
    let job = drain(&mut w, 0);
    let before = w.attr(f);
    let target = on(&w, f, 1);
    let begun = w.ok_in(mover, &root(), begin(f, job, target.clone()));
    let generation = begun.layout.unwrap().generation;
    assert_eq!(generation, 2);
    assert_eq!(layout(&w, f).generation, 1);
    imaged(&w);
    assert_eq!(
        w.fails_in(w.session, &root(), begin(f, job, target.clone())),
        Errno::EBUSY
    );
    // Only under the WRITE lease, and only by who made the copy.
    assert_eq!(
        w.fails_in(mover, &root(), commit(f, generation)),
        Errno::EBUSY
    );
    w.ok(&root(), take(f));
    assert_eq!(
        w.fails_in(mover, &root(), commit(f, generation)),
        Errno::EBUSY
    );
    assert_eq!(w.fails(&root(), commit(f, generation)), Errno::ESTALE);
    w.drop_lease(f);
    w.ok_in(mover, &root(), take(f));
    assert_eq!(w.fails_in(mover, &root(), commit(f, 1)), Errno::ESTALE);
    let reply = w.ok_in(mover, &root(), commit(f, generation));
    assert_eq!(reply.layout.as_ref().unwrap().pairs, [1]);
    assert_eq!(
        layout(&w, f),
        Layout {
            generation: 2,
            ..target
        }
    );
    let after = w.attr(f);
    assert_eq!(
        (after.size, after.mtime, after.ctime),
        (before.size, before.mtime, before.ctime)
    );
    assert!(after.change > before.change);
    assert_eq!(queue(&w), [(0, f.0, 1), (1, f.0, 1)].map(|d| d));
    assert_eq!(
        w.fails_in(mover, &root(), commit(f, generation)),
        Errno::ESTALE
    );
    let job = w.state.jobs().next().unwrap();
    assert_eq!((job.files, job.bytes), (1, 1));
    imaged(&w);
}

#[test]
fn a_file_that_was_cut_is_not_replaced_by_its_copy_and_no_name_is_used_twice() {
    let (mut w, f, mover) = world();
    let job = drain(&mut w, 0);
    let target = on(&w, f, 1);
    w.ok_in(mover, &root(), begin(f, job, target.clone()));
    w.ok(&root(), cut(f));
    assert_eq!(layout(&w, f).generation, 3, "2 is the copy's");
    w.ok_in(mover, &root(), take(f));
    assert_eq!(w.fails_in(mover, &root(), commit(f, 2)), Errno::ESTALE);
    imaged(&w);
    assert!(
        !queue(&w).contains(&(1, f.0, 2)),
        "the copy is still being written"
    );
    w.ok_in(mover, &root(), end(f, 2));
    assert!(queue(&w).contains(&(1, f.0, 2)));
    // Given up, and begun again before the file changes: another name.
    let again = w.ok_in(mover, &root(), begin(f, job, target.clone()));
    assert_eq!(again.layout.unwrap().generation, 4);
    w.ok_in(mover, &root(), end(f, 4));
    let again = w.ok_in(mover, &root(), begin(f, job, target));
    assert_eq!(again.layout.unwrap().generation, 5);
    imaged(&w);
    w.ok_in(mover, &root(), end(f, 5));
    w.ok_in(mover, &root(), Op::DropLease(DropLease { ino: f.0 }));
    w.ok(&root(), cut(f));
    // Never leased since the last cut, so nothing to give a new name for; a lease makes it so.
    w.ok(&root(), take(f));
    w.ok(&root(), cut(f));
    assert!(layout(&w, f).generation > 5);
    imaged(&w);
}

#[test]
fn a_copy_ends_with_its_session_and_outlives_its_file() {
    let (mut w, f, mover) = world();
    let job = drain(&mut w, 0);
    let target = on(&w, f, 1);
    w.ok_in(mover, &root(), begin(f, job, target));
    w.ok(&root(), unlink(ROOT_INO, "f"));
    assert!(!queue(&w).contains(&(1, f.0, 2)));
    assert_eq!(w.fails_in(mover, &root(), commit(f, 2)), Errno::ESTALE);
    imaged(&w);
    w.service(Op::CloseSession(CloseSession {
        session: mover,
        clean: false,
        ..CloseSession::default()
    }));
    assert!(queue(&w).contains(&(1, f.0, 2)));
    imaged(&w);
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut w, f, mover) = world();
    let target = on(&w, f, 1);
    assert_eq!(
        w.fails_in(mover, &root(), begin(f, 1, target.clone())),
        Errno::ENOENT
    );
    let job = drain(&mut w, 0);
    assert_eq!(
        w.fails_in(0, &root(), begin(f, job, target.clone())),
        Errno::EINVAL
    );
    assert_eq!(
        w.fails_in(mover, &root(), begin(f, job, on(&w, f, 0))),
        Errno::EAGAIN
    );
    for (pairs, unit) in [
        (vec![7], 1 << 20),
        (vec![1, 1], 1 << 20),
        (vec![], 1 << 20),
        (vec![1], 3),
    ] {
        let bad = Layout {
            pairs,
            stripe_unit: unit,
            ..target.clone()
        };
        assert_eq!(
            w.fails_in(mover, &root(), begin(f, job, bad)),
            Errno::EINVAL
        );
    }
    let same = layout(&w, f);
    w.service(Op::EndJob(EndJob {
        job,
        cancelled: true,
    }));
    assert_eq!(
        w.fails_in(mover, &root(), begin(f, job, same.clone())),
        Errno::ENOENT
    );
    let job = w
        .service(start(What::Rebalance(Rebalance { within_percent: 5 })))
        .session;
    assert_eq!(
        w.fails_in(mover, &root(), begin(f, job, same)),
        Errno::EALREADY
    );
    assert_eq!(
        w.fails_in(mover, &root(), begin(ROOT_INO, job, target.clone())),
        Errno::EISDIR
    );
    // A client begins and ends no jobs.
    assert_eq!(
        w.fails(&root(), start(What::Drain(DrainPair { pair: 0 }))),
        Errno::EPERM
    );
    // A target that is drained while the copy is made.
    w.ok_in(mover, &root(), begin(f, job, target));
    drain(&mut w, 1);
    w.ok_in(mover, &root(), take(f));
    assert_eq!(w.fails_in(mover, &root(), commit(f, 2)), Errno::EAGAIN);
    imaged(&w);
}

#[test]
fn another_protocol_needs_no_copy() {
    let (mut w, f, mover) = world();
    let job = w
        .service(start(What::Rebalance(Rebalance { within_percent: 5 })))
        .session;
    let client_sync = Layout {
        protocol: proto::Protocol::ClientSync as i32,
        ..layout(&w, f)
    };
    let relabel = |layout: Layout| {
        Op::Relayout(Relayout {
            ino: f.0,
            generation: 1,
            job,
            layout: Some(layout),
        })
    };
    assert_eq!(
        w.fails_in(mover, &root(), relabel(client_sync.clone())),
        Errno::EBUSY
    );
    w.ok_in(mover, &root(), take(f));
    assert_eq!(
        w.fails_in(mover, &root(), relabel(on(&w, f, 1))),
        Errno::EINVAL
    );
    w.ok_in(mover, &root(), relabel(client_sync.clone()));
    assert_eq!(layout(&w, f), client_sync);
    assert!(queue(&w).is_empty());
}

#[test]
fn a_pair_goes_when_nothing_names_it_and_comes_back_with_a_later_epoch() {
    let (mut w, f, mover) = world();
    let fails = |w: &mut World, op: Op| w.fails_in(0, &root(), op);
    assert_eq!(
        fails(&mut w, Op::RemovePair(RemovePair { pair: 0 })),
        Errno::EBUSY
    );
    let job = drain(&mut w, 0);
    assert_eq!(
        fails(&mut w, start(What::Drain(DrainPair { pair: 0 }))),
        Errno::EALREADY
    );
    assert_eq!(
        fails(&mut w, start(What::Drain(DrainPair { pair: 1 }))),
        Errno::ENOSPC
    );
    assert_eq!(
        fails(&mut w, start(What::Drain(DrainPair { pair: 9 }))),
        Errno::ENOENT
    );
    // Nothing new lies there.
    for n in 0..20 {
        let new = w.file(&root(), ROOT_INO, &format!("new {n}"), 0o644);
        assert_eq!(layout(&w, new).pairs, [1]);
    }
    let jobs: Vec<Job> = w.state.jobs().copied().collect();
    let look = |w: &World| {
        w.state
            .look(&jobs[0], &mut Usage::new(), &[], Cursor::default(), 999)
    };
    let found = look(&w);
    assert_eq!(found.next, None);
    assert_eq!(found.files.iter().map(|c| c.ino).collect::<Vec<_>>(), [f]);
    assert_eq!(found.files[0].layout.pairs, [1]);
    w.ok_in(mover, &root(), begin(f, job, found.files[0].layout.clone()));
    w.ok_in(mover, &root(), take(f));
    w.ok_in(mover, &root(), commit(f, 2));
    assert!(look(&w).files.is_empty());
    assert_eq!(
        fails(&mut w, Op::RemovePair(RemovePair { pair: 0 })),
        Errno::EBUSY
    );
    let queue_ids = w.state.deletions(99).iter().map(|d| d.queue_id).collect();
    w.service(Op::Dropped(Dropped { queue_ids }));
    // Its other member is away, and has not dropped that.
    let alone = proto::PairState {
        epoch: w.state.pair_state(PairId(0)).unwrap().epoch + 1,
        mode: proto::pair_state::Mode::Only as i32,
        serving: 1,
        ..proto::PairState::default()
    };
    w.service(Op::SetPairState(proto::SetPairState { state: Some(alone) }));
    let epoch = alone.epoch;
    w.service(retire(0, 1, 7));
    w.service(Op::RemovePair(RemovePair { pair: 0 }));
    assert_eq!(w.state.retired_store(PairId(0), Member::One), None);
    assert!(w.state.is_removed(PairId(0)) && !w.state.is_draining(PairId(0)));
    assert!(
        w.state
            .jobs()
            .all(|job| job.ended.is_some() && !job.cancelled)
    );
    imaged(&w);
    assert_eq!(
        fails(&mut w, Op::AddPair(AddPair { pair: 0 })),
        Errno::EPERM
    );
    // Ordered before that, for another job.
    let job = w
        .service(start(What::Rebalance(Rebalance { within_percent: 5 })))
        .session;
    let late = begin(f, job, on(&w, f, 0));
    assert_eq!(w.fails_in(mover, &root(), late), Errno::EAGAIN);
    w.service(Op::AdmitPair(proto::AdmitPair { pair: 0 }));
    imaged(&w);
    w.service(Op::AddPair(AddPair { pair: 0 }));
    let again = w.state.pair_state(PairId(0)).unwrap();
    assert!(again.epoch > epoch);
    assert_eq!(again.serving, 1, "the one that has dropped what lay there");
    imaged(&w);
}

fn retire(pair: u32, member: u32, store: u64) -> Op {
    Op::RetireStore(proto::RetireStore {
        pair,
        member,
        store,
    })
}

#[test]
fn the_last_store_that_was_given_up_is_known_until_it_is_taken_back() {
    let (mut w, _, _) = world();
    let known = |w: &World| w.state.retired_store(PairId(1), Member::One);
    assert_eq!(known(&w), None);
    for store in [7, 8] {
        w.service(retire(1, 1, store));
        assert_eq!(known(&w), NonZeroU64::new(store));
        imaged(&w);
    }
    assert_eq!(w.state.retired_store(PairId(1), Member::Zero), None);
    w.service(retire(1, 1, 0));
    assert_eq!(known(&w), None);
    imaged(&w);
    assert_eq!(w.fails_in(0, &root(), retire(1, 2, 7)), Errno::EINVAL);
    assert_eq!(w.fails_in(0, &root(), retire(99, 1, 7)), Errno::ENOENT);
}

#[test]
fn a_tree_is_walked_in_slices_and_stops_at_other_peoples_directories() {
    let (mut w, _, _) = world();
    let top = w.mkdir(&user(1), ROOT_INO, "top", 0o777);
    let below = w.mkdir(&user(1), top, "below", 0o777);
    let others = w.mkdir(&user(2), top, "others", 0o777);
    let mut inside = Vec::new();
    for n in 0..5 {
        inside.push(w.file(&user(1), top, &format!("a{n}"), 0o644));
        inside.push(w.file(&user(1), below, &format!("b{n}"), 0o644));
        w.file(&user(1), others, &format!("c{n}"), 0o644);
    }
    inside.sort_unstable();
    let wanted = proto::Policy {
        width: 1,
        ..proto::Policy::default()
    };
    let policy = w.state.policy_with(top, &wanted).unwrap();
    let tree = RelayTree {
        root: top.0,
        policy: Some(policy),
        uid: 1,
    };
    assert_eq!(w.state.laying(top), Ok(None));
    let id = w.service(start(What::Relay(tree))).session;
    let beside = w.mkdir(&user(1), ROOT_INO, "beside", 0o777);
    for (ino, job) in [
        (ROOT_INO, Some(id)),
        (top, Some(id)),
        (below, Some(id)),
        (beside, None),
    ] {
        assert_eq!(w.state.laying(ino), Ok(job), "{ino}");
    }
    let job = *w.state.jobs().last().unwrap();
    for steps in [1, 2, 3, 7, 100] {
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let look = w.state.look(&job, &mut Usage::new(), &[], from, steps);
            files.extend(look.files.iter().map(|c| c.ino));
            directories.extend(look.directories);
            assert_ne!(look.next, Some(from), "no step forward");
            cursor = look.next;
        }
        files.sort_unstable();
        directories.sort_unstable();
        assert_eq!(files, inside, "{steps} at a time");
        let mut expected = vec![top, below];
        expected.sort_unstable();
        assert_eq!(directories, expected);
    }
    let before = w.attr(below);
    w.service(Op::GivePolicy(GivePolicy {
        ino: below.0,
        policy: Some(policy),
        job: id,
    }));
    assert_eq!(w.attr(below), before);
    let new = w.file(&user(1), below, "new", 0o644);
    assert_eq!(layout(&w, new).pairs.len(), 1);
    imaged(&w);
}

#[test]
fn pairs_are_filled_evenly() {
    let mut w = World::new();
    w.service(Op::SetPolicy(proto::SetPolicy {
        ino: ROOT_INO.0,
        policy: Some(proto::Policy {
            width: 1,
            ..proto::Policy::default()
        }),
    }));
    for n in 0..40 {
        let f = w.file(&root(), ROOT_INO, &format!("f{n}"), 0o644);
        let told = Setattr {
            owed: true,
            size: Some(1 << 20),
            allocated: Some(1 << 20),
            ..setattr(f)
        };
        w.ok(&root(), Op::Setattr(told));
    }
    w.service(Op::AddPair(AddPair { pair: 2 }));
    w.service(start(What::Rebalance(Rebalance { within_percent: 10 })));
    let job = *w.state.jobs().last().unwrap();
    let mut usage = Usage::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        cursor = w.state.count_usage(&mut usage, from, 3);
    }
    assert_eq!(usage.values().sum::<u64>(), 40 << 20);
    assert!(!usage.contains_key(&PairId(2)));
    let moved = w
        .state
        .look(&job, &mut usage, &[], Cursor::default(), 999)
        .files
        .len();
    assert!((8..=30).contains(&moved), "{moved} moved");
    let mean = (40 << 20) / 3;
    for (pair, bytes) in &usage {
        assert!(
            *bytes <= mean + mean / 10 + (1 << 20),
            "{pair}: {bytes} of {mean}"
        );
    }
    // As if they had been moved: nothing more helps.
    let again = w
        .state
        .look(&job, &mut usage.clone(), &[], Cursor::default(), 999);
    assert!(again.files.len() <= 1, "{:?}", again.files.len());
    // What lies on a pair that is full goes, though it may be a small one, and nothing comes there.
    let full = w
        .state
        .look(&job, &mut usage.clone(), &[0], Cursor::default(), 999);
    assert!(full.files.len() > 5, "{:?}", full.files.len());
    for file in &full.files {
        assert!(!file.layout.pairs.contains(&0), "{:?}", file.layout);
    }
}
