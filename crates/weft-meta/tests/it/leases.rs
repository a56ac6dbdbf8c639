//! Leases between sessions, and the end of sessions.

use crate::support::*;
use std::path::Path;
use std::time::Duration;
use weft_env::Env;
use weft_meta::Server;
use weft_wire::Failed;
use weft_wire::proto::{self, *};

const SHARED: i32 = LeaseMode::LeaseShared as i32;
const NONE: i32 = LeaseMode::LeaseNone as i32;
const READ: i32 = LeaseMode::LeaseRead as i32;
const WRITE: i32 = LeaseMode::LeaseWrite as i32;

/// All bytes of a file, to be written.
fn whole(ino: u64) -> WriteLease {
    WriteLease {
        ino,
        ..WriteLease::default()
    }
}

fn mode_of(leases: &[Lease], ino: u64) -> i32 {
    leases
        .iter()
        .find(|lease| lease.ino == ino)
        .map_or(NONE, |lease| lease.mode)
}

fn unlink(parent: u64, name: &str) -> op::Op {
    op::Op::Unlink(Unlink {
        parent,
        name: name.to_owned().into(),
        ..Unlink::default()
    })
}

/// A service with a pair of data servers, and two clients that renew.
async fn served(env: &Env, dir: &Path) -> (Server, [Member; 2], [Client; 2]) {
    let server = server(env, dir).await;
    let members = pair(env, server.address(), 0).await;
    let a = Client::open(env, server.address()).await;
    let b = Client::open(env, server.address()).await;
    a.keep_alive();
    b.keep_alive();
    (server, members, [a, b])
}

#[test]
fn a_change_first_takes_what_others_have_cached() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let absent = a.lookup(1, "f").await.unwrap();
        assert_eq!(mode_of(&absent.leases, 1), READ);
        let (made, leases) = b.done(create(1, "f")).await;
        assert_eq!(a.manners.asked.borrow()[..], [(1, NONE, false)]);
        let ino = made.attr.unwrap().ino;
        assert_eq!((mode_of(&leases, ino), mode_of(&leases, 1)), (WRITE, READ));
        let seq = leases.iter().find(|lease| lease.ino == 1).unwrap().seq;

        // The size is asked from who owns it, and it writes on; or it does not write any more.
        *b.manners.owed.borrow_mut() = Some(Setattr {
            size: Some(4711),
            allocated: Some(8192),
            ..Default::default()
        });
        let found = a.lookup(1, "f").await.unwrap();
        assert_eq!(b.manners.asked.borrow()[..], [(ino, SHARED, false)]);
        assert_eq!(found.inode.unwrap().attr.unwrap().size, 4711);
        assert_eq!(mode_of(&found.leases, ino), NONE);
        let own = b.inode(ino).await.unwrap();
        assert_eq!(mode_of(&own.leases, ino), WRITE);
        b.manners.done.set(true);
        let found = a.lookup(1, "f").await.unwrap();
        assert_eq!(b.manners.asked.borrow()[1..], [(ino, SHARED, false)]);
        assert_eq!(mode_of(&found.leases, ino), READ);
        assert!(found.leases.iter().all(|lease| lease.seq > seq));

        // Both read now; to write one has to take the other's lease.
        let (_, leases) = a.done(op::Op::WriteLease(whole(ino))).await;
        assert_eq!(mode_of(&leases, ino), WRITE);
        assert_eq!(b.manners.asked.borrow()[2..], [(ino, SHARED, false)]);
        // A listing leaves out what another writes.
        let listed = b.list(1, true).await;
        assert!(listed.entries[0].inode.is_none());
        assert_eq!(mode_of(&listed.leases, 1), READ);
        server.stop().await;
    });
}

#[test]
fn who_opens_what_another_writes_shares_it() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = a.create(1, "f").await;
        let kept = proto::Range {
            start: 0,
            end: 1 << 63,
        };
        a.manners.kept.borrow_mut()[0] = vec![kept];
        let shared = proto::LeaseMode::LeaseShared;
        let opened = b.inode_for(ino, shared).await.unwrap();
        assert_eq!(mode_of(&opened.leases, ino), SHARED);
        assert!(
            opened
                .leases
                .iter()
                .all(|lease| lease.ino != ino || lease.end == 0),
            "no bytes"
        );
        // For that, and for the size.
        let asked = [(ino, SHARED, false); 2];
        assert_eq!(a.manners.asked.borrow()[..], asked);
        // One that keeps nothing does not write it any more.
        let other = a.create(1, "g").await;
        a.manners.kept.take();
        let opened = b.inode_for(other, shared).await.unwrap();
        assert_eq!(mode_of(&opened.leases, other), READ);
        server.stop().await;
    });
}

#[test]
fn who_comes_back_as_one_of_several_writers_is_not_asked_as_the_only_one() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = a.create(1, "f").await;
        // It lost its connection, and with it the answer by which it became the only writer.
        a.connection.close("cut");
        let early = env.timeout(Duration::from_millis(50), b.inode(ino)).await;
        assert!(early.is_err(), "the writer has not been heard");

        let kept = proto::Range {
            start: 4096,
            end: 1 << 63,
        };
        let back = SessionRequest {
            session: a.session,
            shared_leases: vec![SharedLease {
                ino,
                write: vec![kept],
            }],
            ..Default::default()
        };
        let a = Client::with(&env, server.address(), back).await.unwrap();
        a.keep_alive();
        let read = b.inode(ino).await.unwrap();
        assert_eq!(mode_of(&read.leases, ino), SHARED);
        let asked = a.manners.asked.take();
        assert!(
            !asked.is_empty() && asked.iter().all(|(_, to, _)| *to == SHARED),
            "{asked:?}"
        );
        server.stop().await;
    });
}

#[test]
fn who_reads_the_whole_gives_that_back_before_a_part_is_granted() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _members = pair(&env, server.address(), 0).await;
        let [a, b, c] = [(); 3].map(|()| Client::open(&env, server.address()));
        let (a, b, c) = futures_util::join!(a, b, c);
        for client in [&a, &b, &c] {
            client.keep_alive();
        }
        let ino = a.create(1, "f").await;
        let range = |start, end| proto::Range { start, end };
        let to_write = |start, end| {
            let lease = WriteLease {
                start,
                end,
                ..whole(ino)
            };
            op::Op::WriteLease(lease)
        };
        // Two write it, a third reads a part, and keeps that when nobody writes any more.
        a.manners.kept.borrow_mut()[0] = vec![range(0, 4096)];
        let (_, leases) = c.done(to_write(8192, 12_288)).await;
        assert_eq!(mode_of(&leases, ino), SHARED);
        a.manners.kept.take();
        let reading = LeaseRangeRequest {
            session: b.session,
            epoch: b.epoch,
            ino,
            start: 0,
            end: 4096,
            write: false,
        };
        let leases = b.call(&reading).await.unwrap().leases;
        assert_eq!(mode_of(&leases, ino), SHARED);
        c.done(op::Op::DropLease(DropLease { ino })).await;
        let read = a.inode(ino).await.unwrap();
        assert_eq!(mode_of(&read.leases, ino), READ);
        a.manners.asked.take();
        let (_, leases) = a.done(to_write(8192, 12_288)).await;
        assert_eq!(mode_of(&leases, ino), SHARED);
        assert_eq!(a.manners.asked.take(), [(ino, SHARED, false)]);
        // What it read of the rest it has given back: another who writes that need not ask for it.
        let (_, leases) = c.done(to_write(0, 4096)).await;
        assert_eq!(mode_of(&leases, ino), SHARED);
        assert!(a.manners.asked.take().is_empty());
        server.stop().await;
    });
}

#[test]
fn an_open_file_lives_on_when_another_unlinks_it() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = a.create(1, "f").await;
        a.manners.open.borrow_mut().insert(ino);
        // It loses its lease but has it open still: it is asked again when that matters.
        let (_, _) = b.done(op::Op::WriteLease(whole(ino))).await;
        assert_eq!(a.manners.asked.borrow()[..], [(ino, SHARED, false)]);
        a.manners.asked.borrow_mut().clear();
        b.done(unlink(1, "f")).await;
        assert_eq!(
            a.manners.asked.borrow()[..],
            [(1, NONE, false), (ino, NONE, true)]
        );
        assert_eq!(
            a.inode(ino)
                .await
                .unwrap()
                .inode
                .unwrap()
                .attr
                .unwrap()
                .nlink,
            0
        );
        // It is there for nobody else: it may go any time, with what others would write.
        let gone = Failed::Errno(libc::ESTALE);
        assert_eq!(failed(b.inode(ino).await.unwrap_err()), gone);
        let refused = b.change(op::Op::WriteLease(whole(ino))).await;
        assert_eq!(failed(refused.unwrap_err()), gone);
        a.manners.open.borrow_mut().remove(&ino);
        a.done(op::Op::Release(Release { ino })).await;
        assert_eq!(
            failed(a.inode(ino).await.unwrap_err()),
            Failed::Errno(libc::ESTALE)
        );
        server.stop().await;
    });
}

#[test]
fn who_lets_a_file_without_a_name_go_gives_its_lease_back() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = a.create(1, "f").await;
        a.manners.open.borrow_mut().insert(ino);
        b.manners.open.borrow_mut().insert(ino);
        b.done(op::Op::Unlink(Unlink {
            parent: 1,
            name: "f".into(),
            keep_open: true,
            victim: Some(ino),
        }))
        .await;
        let (_, leases) = b.done(op::Op::WriteLease(whole(ino))).await;
        assert_eq!(mode_of(&leases, ino), WRITE);
        b.manners.asked.borrow_mut().clear();
        b.manners.open.borrow_mut().remove(&ino);
        b.done(op::Op::Release(Release { ino })).await;
        let asked = b.manners.asked.clone();
        until(&env, "it is asked", || !asked.borrow().is_empty()).await;
        assert_eq!(asked.borrow()[..], [(ino, NONE, false)]);
        // Nothing of it stands in the way of who keeps the file.
        let (_, leases) = a.done(op::Op::WriteLease(whole(ino))).await;
        assert_eq!(mode_of(&leases, ino), WRITE);
        assert_eq!(asked.borrow().len(), 1);
        server.stop().await;
    });
}

#[test]
fn the_objects_of_deleted_files_are_dropped_and_forgotten() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let members = pair(&env, server.address(), 0).await;
        let a = Client::open(&env, server.address()).await;
        a.keep_alive();
        let mut inos = Vec::new();
        for i in 0..10 {
            let name = format!("f{i}");
            inos.push(a.create(1, &name).await);
            a.done(unlink(1, &name)).await;
        }
        let dropped = members[0].dropped.clone();
        until(&env, "all objects are dropped", || {
            dropped.borrow().len() == 10
        })
        .await;
        let names: Vec<u64> = dropped.borrow().iter().map(|object| object.ino).collect();
        assert_eq!(names, inos);
        for _ in 0..200 {
            if a.call(&StatusRequest {}).await.unwrap().deletions_queued == 0 {
                return server.stop().await;
            }
            env.sleep(Duration::from_millis(10)).await;
        }
        panic!("the queue is never empty");
    });
}

#[test]
fn what_a_cut_file_had_is_not_dropped_before_its_cutter_has_acknowledged_the_cut() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let members = pair(&env, server.address(), 0).await;
        let a = Client::open(&env, server.address()).await;
        a.keep_alive();
        let ino = a.create(1, "f").await;
        let empty = op::Op::Setattr(Setattr {
            ino,
            size: Some(0),
            by_handle: true,
            ..Default::default()
        });
        let cut = a.request(empty);
        let reply = a.call(&cut).await.unwrap().reply.unwrap();
        assert_eq!((reply.failure_errno, reply.cut), (0, true));
        // Others' are not held back for that.
        let other = a.create(1, "g").await;
        a.done(unlink(1, "g")).await;
        let dropped = members[0].dropped.clone();
        let inos = || -> Vec<u64> { dropped.borrow().iter().map(|object| object.ino).collect() };
        until(&env, "what is gone is dropped", || inos() == [other]).await;
        // The queue is looked at once a second.
        env.sleep(Duration::from_millis(2500)).await;
        assert_eq!(inos(), [other]);
        let renewal = |acknowledged_below| RenewRequest {
            session: a.session,
            epoch: a.epoch,
            acknowledged_below,
            ..Default::default()
        };
        a.call(&renewal(cut.operation)).await.unwrap();
        env.sleep(Duration::from_millis(1500)).await;
        assert_eq!(inos(), [other]);
        a.call(&renewal(cut.operation + 1)).await.unwrap();
        until(&env, "it is dropped", || inos() == [other, ino]).await;
        server.stop().await;
    });
}

#[test]
fn who_does_not_answer_is_fenced_and_what_it_wrote_is_found_again() {
    run(|env, dir| async move {
        let (server, members, [a, b]) = served(&env, &dir).await;
        let ino = a.create(1, "f").await;
        members.iter().for_each(|member| member.length.set(5000));
        a.manners.deaf.set(true);
        let found = b.lookup(1, "f").await.unwrap().inode.unwrap();
        assert_eq!(found.attr.unwrap().size, 5000);
        for member in &members {
            assert!(
                member
                    .fenced
                    .borrow()
                    .iter()
                    .all(|fence| fence.session == a.session)
            );
            assert!(!member.fenced.borrow().is_empty());
        }
        let asked: Vec<u64> = members
            .iter()
            .flat_map(|member| member.fenced.borrow().clone())
            .flat_map(|fence| fence.objects)
            .map(|object| object.ino)
            .collect();
        assert_eq!(asked, [ino], "one member is asked");
        let fenced = Client::with(
            &env,
            server.address(),
            SessionRequest {
                session: a.session,
                ..Default::default()
            },
        )
        .await
        .err()
        .unwrap();
        assert!(matches!(failed(fenced), Failed::Fenced(_)));
        server.stop().await;
    });
}

#[test]
fn nobody_gets_what_a_renewed_session_may_still_believe_in() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _members = pair(&env, server.address(), 0).await;
        let a = Client::open(&env, server.address()).await;
        let b = Client::open(&env, server.address()).await;
        b.keep_alive();
        let cached = b.create(1, "cached").await;
        a.inode(cached).await.unwrap();
        let written = a.create(1, "written").await;
        a.manners.deaf.set(true);
        // It answers no revocation, but renews until it is not answered. If that were not heard, it
        // would believe for a term from when it sent the last renewal that was.
        let renewing = async {
            let (session, epoch) = (a.session, a.epoch);
            let mut renewed = env.now();
            loop {
                let sent = env.now();
                if a.call(&RenewRequest {
                    session,
                    epoch,
                    ..Default::default()
                })
                .await
                .is_err()
                {
                    return renewed;
                }
                renewed = sent;
                env.sleep(Duration::from_millis(20)).await;
            }
        };
        let taking = async |ino| {
            b.done(op::Op::WriteLease(whole(ino))).await;
            env.now()
        };
        let begun = env.now();
        let (renewed, cached, written) =
            futures_util::future::join3(renewing, taking(cached), taking(written)).await;
        assert!(renewed.since(begun) > TERM / 2, "it was not renewed");
        for taken in [cached, written] {
            assert!(taken.since(renewed) >= TERM, "{:?}", taken.since(renewed));
            assert!(taken.since(begun) < TERM * 10, "{:?}", taken.since(begun));
        }
        server.stop().await;
    });
}

#[test]
fn who_waits_for_data_servers_only_is_waited_for() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _members = pair(&env, server.address(), 0).await;
        let a = Client::open(&env, server.address()).await;
        let b = Client::open(&env, server.address()).await;
        b.keep_alive();
        let ino = a.create(1, "f").await;
        a.manners.deaf.set(true);
        let begun = env.now();
        let renewing = async {
            let (session, epoch) = (a.session, a.epoch);
            loop {
                let gives_back = env.now().since(begun) < TERM * 4;
                let renewal = RenewRequest {
                    session,
                    epoch,
                    giving_back: if gives_back { vec![ino] } else { Vec::new() },
                    ..Default::default()
                };
                if a.call(&renewal).await.is_err() {
                    assert!(!gives_back, "ended while it gave the lease back");
                    return;
                }
                env.sleep(TERM / 10).await;
            }
        };
        let taking = async {
            b.done(op::Op::WriteLease(whole(ino))).await;
            env.now()
        };
        let ((), taken) = futures_util::future::join(renewing, taking).await;
        assert!(taken.since(begun) > TERM * 4);
        server.stop().await;
    });
}

#[test]
fn a_session_that_is_not_renewed_ends_and_its_locks_are_free() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = b.create(1, "f").await;
        let lock = |owner| {
            op::Op::SetLock(SetLock {
                ino,
                lock: Some(FileLock {
                    kind: proto::file_lock::Kind::Exclusive as i32,
                    flock: true,
                    owner,
                    last: u64::MAX,
                    ..Default::default()
                }),
                wait: false,
                ..SetLock::default()
            })
        };
        a.done(lock(1)).await;
        let refused = b.change(lock(2)).await.unwrap().reply.unwrap();
        assert_eq!(refused.failure_errno, libc::EAGAIN as u32);
        assert!(refused.conflict.is_some() && b.manners.freed.borrow().is_empty());
        a.stop_renewing();
        until(&env, "the lock is freed", || {
            b.manners.freed.borrow()[..] == [ino]
        })
        .await;
        b.done(lock(2)).await;
        server.stop().await;
    });
}

#[test]
fn a_circle_of_locks_is_one_only_if_all_are_known_to_wait_at_one_moment() {
    run(|env, dir| async move {
        let (server, _members, [a, b]) = served(&env, &dir).await;
        let ino = b.create(1, "f").await;
        let lock = |start, wait| {
            op::Op::SetLock(SetLock {
                ino,
                lock: Some(FileLock {
                    kind: proto::file_lock::Kind::Exclusive as i32,
                    owner: 1,
                    start,
                    last: start,
                    ..Default::default()
                }),
                wait,
                ..SetLock::default()
            })
        };
        let waits = async |client: &Client, start| {
            let reply = client.change(lock(start, true)).await.unwrap();
            reply.reply.unwrap().failure_errno as i32
        };
        a.done(lock(1, false)).await;
        b.done(lock(2, false)).await;
        assert_eq!(waits(&a, 2).await, libc::EAGAIN);
        env.sleep(Duration::from_millis(100)).await;
        // Perhaps the first has given up meanwhile, and that was not heard yet.
        assert_eq!(waits(&b, 1).await, libc::EAGAIN);
        // It has not: but it was not the last to begin.
        env.sleep(Duration::from_millis(100)).await;
        assert_eq!(waits(&a, 2).await, libc::EAGAIN);
        assert_eq!(waits(&b, 1).await, libc::EDEADLK);
        // Who has been refused does not wait, and who does not ask any more has given up.
        assert_eq!(waits(&a, 2).await, libc::EAGAIN);
        env.sleep(Duration::from_secs(2)).await;
        for _ in 0..2 {
            assert_eq!(waits(&b, 1).await, libc::EAGAIN);
        }
        server.stop().await;
    });
}

#[test]
fn sessions_of_an_earlier_reign_count_as_readers_until_they_are_back() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let members = pair(&env, first.address(), 0).await;
        let a = Client::open(&env, first.address()).await;
        let b = Client::open(&env, first.address()).await;
        let ino = a.create(1, "open").await;
        let owned = b.create(1, "owned").await;
        drop(members);
        first.stop().await;

        let second = server(&env, &dir).await;
        let taken_up = |session, open: &[u64], writes: &[u64]| SessionRequest {
            session,
            open_inodes: open.to_vec(),
            write_leases: writes.to_vec(),
            ..Default::default()
        };
        let b = Client::with(&env, second.address(), taken_up(b.session, &[], &[owned]))
            .await
            .unwrap();
        b.keep_alive();
        assert_eq!(b.opened.write_leases, [owned]);
        // `a` may have the directory cached: the change waits for it to come back.
        let begin = env.now();
        let request = b.request(unlink(1, "open"));
        let (connection, inner) = (b.connection.clone(), env.clone());
        let done = std::rc::Rc::new(std::cell::Cell::new(None));
        let tell = done.clone();
        let task = env.spawn("unlink", async move {
            let reply = connection
                .call(&request, weft_rpc::Payload::none())
                .await
                .unwrap()
                .0;
            assert_eq!(reply.reply.unwrap().failure_errno, 0);
            tell.set(Some(inner.now()));
        });
        env.sleep(Duration::from_millis(100)).await;
        assert!(
            done.get().is_none(),
            "nobody may unlink what a client may have cached"
        );
        let a = Client::with(&env, second.address(), taken_up(a.session, &[ino], &[ino]))
            .await
            .unwrap();
        a.keep_alive();
        until(&env, "the unlink is done", || task.is_finished()).await;
        assert!(done.get().unwrap().since(begin) >= Duration::from_millis(100));
        assert_eq!(a.manners.asked.borrow()[..], [(ino, NONE, true)]);
        assert_eq!(
            a.inode(ino)
                .await
                .unwrap()
                .inode
                .unwrap()
                .attr
                .unwrap()
                .nlink,
            0
        );
        second.stop().await;
    });
}

#[test]
fn who_never_comes_back_delays_others_by_a_term_only() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let _gone = Client::open(&env, first.address()).await;
        first.stop().await;
        let second = server(&env, &dir).await;
        let b = Client::open(&env, second.address()).await;
        b.keep_alive();
        let begin = env.now();
        b.mkdir(1, "d").await;
        let waited = env.now().since(begin);
        assert!(waited >= TERM * 3 / 4, "{waited:?}");
        assert!(waited < TERM * 4, "{waited:?}");
        let begin = env.now();
        b.mkdir(1, "e").await;
        assert!(env.now().since(begin) < TERM / 2);
        second.stop().await;
    });
}

#[test]
fn a_lease_given_back_as_the_reign_ended_is_settled() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let members = pair(&env, first.address(), 0).await;
        let a = Client::open(&env, first.address()).await;
        let ino = a.create(1, "f").await;
        drop(members);
        first.stop().await;

        let second = server(&env, &dir).await;
        // It says nothing of the lease that the journal knows: it must have given it back.
        let back = SessionRequest {
            session: a.session,
            ..Default::default()
        };
        let a = Client::with(&env, second.address(), back).await.unwrap();
        a.keep_alive();
        assert!(a.opened.write_leases.is_empty());
        let b = Client::open(&env, second.address()).await;
        b.keep_alive();
        let looking = b.lookup(1, "f");
        let early = env.timeout(Duration::from_millis(100), looking).await;
        assert!(
            early.is_err(),
            "answered before the pair could say how long the file is"
        );
        let members = [0, 1].map(|member| Member::start(&env, second.address(), 0, member));
        let members = futures_util::future::join_all(members).await;
        members.iter().for_each(|member| member.length.set(7000));
        let found = b.lookup(1, "f").await.unwrap().inode.unwrap();
        assert_eq!(found.attr.unwrap().size, 7000);
        let fenced = members[0].fenced.borrow().clone();
        assert!(
            fenced.iter().all(|fence| fence.session == 0),
            "nobody is fenced: {fenced:?}"
        );
        a.done(op::Op::WriteLease(whole(ino))).await;
        second.stop().await;
    });
}

#[test]
fn a_pair_that_is_down_locks_only_what_lies_on_it() {
    run(|env, dir| async move {
        let (server, [zero, one], [a, b]) = served(&env, &dir).await;
        a.create(1, "written").await;
        let other = a.mkdir(1, "other").await;
        one.die();
        until(&env, "zero serves alone", || {
            zero.mode().0 == pair_state::Mode::Only
        })
        .await;
        zero.die();
        a.stop_renewing();
        a.connection.close("gone");
        env.sleep(TERM * 3 / 2).await;
        let looking = b.lookup(1, "written");
        assert!(
            env.timeout(Duration::from_millis(300), looking)
                .await
                .is_err()
        );
        assert!(b.lookup(1, "other").await.unwrap().inode.is_some());
        b.mkdir(other, "free").await;
        let zero = Member::start(&env, server.address(), 0, 0).await;
        zero.length.set(123);
        let found = b.lookup(1, "written").await.unwrap().inode.unwrap();
        assert_eq!(found.attr.unwrap().size, 123);
        server.stop().await;
    });
}

#[test]
fn what_came_back_is_not_lent_again_while_the_rest_is_waited_for() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _members = pair(&env, server.address(), 0).await;
        let silent = Client::open(&env, server.address()).await;
        let reader = Client::open(&env, server.address()).await;
        let changer = Client::open(&env, server.address()).await;
        for client in [&silent, &reader, &changer] {
            client.keep_alive();
        }
        let x = changer.create(1, "x").await;
        let y = changer.create(1, "y").await;
        silent.inode(x).await.unwrap();
        silent.manners.deaf.set(true);
        let read = reader.inode(y).await.unwrap();
        assert_eq!(mode_of(&read.leases, y), READ);
        let exchange = op::Op::Rename(Rename {
            parent: 1,
            name: "x".into(),
            new_parent: 1,
            new_name: "y".into(),
            exchange: true,
            ..Rename::default()
        });
        let exchanging = changer.done(exchange);
        let asking = async {
            while !reader.manners.asked.borrow().contains(&(y, NONE, false)) {
                env.sleep(Duration::from_millis(1)).await;
            }
            let read = reader.inode(y).await.unwrap();
            assert_eq!(mode_of(&read.leases, y), NONE, "it would be taken back");
        };
        futures_util::future::join(exchanging, asking).await;
        let read = reader.inode(y).await.unwrap();
        assert_eq!(mode_of(&read.leases, y), READ, "nobody waits any more");
        server.stop().await;
    });
}
