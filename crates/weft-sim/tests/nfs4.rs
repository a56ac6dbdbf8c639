//! NFS gateways in a simulated cluster, and clients that speak NFS version 4 to them (`docs/protocols/nfs4.md`).
#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

mod compounds;
mod gates;
mod group;

use bytes::Bytes;
use compounds::{ANONYMOUS, Nfs4, made, mkdir, put, there};
use gates::{Gate, believed, cluster, export};
use group::{Group, MS, SECOND, in_world};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_nfs::Rule;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;

#[test]
fn what_one_gateway_has_answered_the_other_shows() {
    in_world(61, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let dir = one
            .does(vec![put(&root), mkdir("d", 0o755), OP_GETFH])
            .await;
        assert!(dir.is_ok());
        let dir = two.walk(&["d"]).await.unwrap();
        assert_eq!(dir, one.walk(&["d"]).await.unwrap());
        let (file, state) = one.make(&dir, "f").await;
        let before = two.getattr(&file).await.unwrap();
        for round in 0..10u64 {
            let text = format!("round {round}");
            let offset = round * 100;
            one.write(&file, &state, offset, text.as_bytes())
                .await
                .unwrap();
            let (size, change) = two.getattr(&file).await.unwrap();
            assert_eq!(size, offset + text.len() as u64);
            assert!(change > before.1);
            let read = two.read(&file, &ANONYMOUS, offset, 100).await.unwrap();
            assert_eq!(read, (text.into(), true));
        }
        one.close(&file, &state).await.unwrap();
        let bad = Err(nfsstat4::NFS4ERR_BAD_STATEID);
        assert_eq!(one.close(&file, &state).await, bad);
        assert_eq!(two.list(&dir, 4096).await.unwrap().len(), 1);
        // A directory goes only when it is empty.
        let remove = |name: &str| {
            OP_REMOVE(REMOVE4args {
                target: name.to_owned().into(),
            })
        };
        let full = two.does(vec![put(&root), remove("d")]).await;
        assert_eq!(full.err(), Some(nfsstat4::NFS4ERR_NOTEMPTY));
        two.does(vec![put(&dir), remove("f")]).await.unwrap();
        two.does(vec![put(&root), remove("d")]).await.unwrap();
        assert_eq!(one.walk(&["d"]).await, Err(nfsstat4::NFS4ERR_NOENT));
    });
}

#[test]
fn a_call_of_a_session_is_done_once() {
    in_world(62, async |world| {
        let (_group, _servers, [first, _second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let number = one.sequence.get() + 1;
        let call = |number, name: &str| vec![one.sequence(number), put(&root), mkdir(name, 0o755)];
        let done = one.call(call(number, "d")).await;
        assert_eq!(done.status, nfsstat4::NFS4_OK);
        // Sent again, it is answered the same.
        assert_eq!(one.call(call(number, "d")).await, done);
        let other = one.call(call(number, "e")).await;
        assert_eq!(other.status, nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
        let later = one.call(call(number + 2, "e")).await;
        assert_eq!(later.status, nfsstat4::NFS4ERR_SEQ_MISORDERED);
        let next = one.call(call(number + 1, "d")).await;
        assert_eq!(next.status, nfsstat4::NFS4ERR_EXIST);
        assert_eq!(next.resarray.len(), 3);
        // A gateway that starts again knows no session, and the client makes another one.
        first.kill();
        first.begin(&world).await;
        let mut again = Nfs4::connect(&world, &first, 0).await;
        again.session = one.session;
        let refused = again.does(vec![OP_PUTROOTFH]).await;
        assert_eq!(refused.err(), Some(nfsstat4::NFS4ERR_BADSESSION));
        again.meet("one", 1).await;
        // Handles are good for ever.
        let gone = again.does(vec![put(&root), mkdir("d", 0o755)]).await;
        assert_eq!(gone.err(), Some(nfsstat4::NFS4ERR_EXIST));
    });
}

#[test]
fn locks_exclude_at_all_gateways() {
    in_world(63, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, of_one) = one.make(&root, "f").await;
        let (_, of_two) = two.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        let all = (nfs_lock_type4::WRITE_LT, 10, 20);
        let held = one.lock(&file, &of_one, "p", all).await.unwrap();
        let denied = two.lock(&file, &of_two, "p", (nfs_lock_type4::READ_LT, 29, u64::MAX));
        let denied = denied.await.unwrap_err().unwrap();
        let (start, length, kind) = (denied.offset, denied.length, denied.locktype);
        assert_eq!((start, length, kind), (10, 20, nfs_lock_type4::WRITE_LT));
        // At its own gateway others are told whose lock it is.
        let three = Nfs4::to(&world, &first, 0, "three").await;
        let (_, of_three) = three.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        let denied = three
            .lock(&file, &of_three, "p", all)
            .await
            .unwrap_err()
            .unwrap();
        assert_eq!(
            (denied.owner.clientid, &denied.owner.owner[..]),
            (one.client, &b"p"[..])
        );
        // What is not locked can be.
        let beside = (nfs_lock_type4::WRITE_LT, 30, 5);
        two.lock(&file, &of_two, "p", beside).await.unwrap();
        one.unlock(&file, &held, 10, 20).await;
        two.lock(&file, &of_two, "p", all).await.unwrap();
        // Who would wait for a lock is let in as soon as it is free.
        let start = world.now();
        let waited = async {
            let waits = (nfs_lock_type4::WRITEW_LT, 0, u64::MAX);
            let three = three.lock(&file, &of_three, "q", waits).await;
            (three.is_ok(), world.now() - start)
        };
        let frees = async {
            world.sleep(SECOND).await;
            let mine = two.lock(&file, &of_two, "p", all).await.unwrap();
            two.unlock(&file, &mine, 0, u64::MAX).await;
        };
        let ((is_locked, took), ()) = futures_util::join!(waited, frees);
        assert!(is_locked && took < Duration::from_millis(1_500), "{took:?}");
        three.close(&file, &of_three).await.unwrap();
        two.lock(&file, &of_two, "p", all).await.unwrap();
        // Locks go with their file's being closed.
        assert!(one.lock(&file, &of_one, "p", all).await.is_err());
        two.close(&file, &of_two).await.unwrap();
        let held = one.lock(&file, &of_one, "p", all).await.unwrap();
        // And with the gateway that took them, once its session is over.
        let (_, of_two) = two.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        first.kill();
        let mut waited = 0;
        while two.lock(&file, &of_two, "p", all).await.is_err() {
            world.sleep(SECOND).await;
            waited += 1;
            assert!(waited < 60, "the lock of a dead gateway stays");
        }
        let _ = held;
    });
}

#[test]
fn what_a_client_keeps_it_is_asked_for_before_anybody_changes_it() {
    in_world(70, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let near = Nfs4::to(&world, &first, 0, "near").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = two.make(&root, "f").await;
        two.write(&file, &state, 0, b"before").await.unwrap();
        // It is open for writing at another gateway, which has to ask before it writes.
        let (_, kept) = one.keep(&root, "f").await.unwrap();
        let read = one.read(&file, &kept, 0, 100).await.unwrap();
        assert_eq!(read.0, "before");
        let ways: [(&Nfs4, &str); 2] = [(&two, "other gateway"), (&near, "same gateway")];
        let mut kept = kept;
        for (writer, whose) in ways {
            let changed = Rc::new(Cell::new(false));
            let write = async {
                let (file, state) = writer
                    .open(&root, "f", (2, 0), whose, there())
                    .await
                    .unwrap();
                writer.write(&file, &state, 0, b"behind").await.unwrap();
                changed.set(true);
                writer.close(&file, &state).await.unwrap();
            };
            let give_back = async {
                while one.asked.0.borrow().is_empty() {
                    world.sleep(MS).await;
                }
                // For as long as it keeps it nobody has changed it.
                world.sleep(200 * MS).await;
                assert!(!changed.get(), "{whose}");
                let recall = one.asked.0.borrow_mut().remove(0);
                assert_eq!((&recall.stateid, &recall.fh), (&kept, &file));
                let read = one.read(&file, &kept, 0, 100).await.unwrap();
                assert!(read.0 == "before" || whose == "same gateway");
                one.give_back(&file, &kept).await;
            };
            futures_util::join!(write, give_back);
            assert!(changed.get());
            // What was just changed is not given out again soon.
            assert!(one.keep(&root, "f").await.is_none());
            for _ in 0..25 {
                world.sleep(SECOND).await;
                for client in [&one, &two, &near] {
                    client.does(vec![OP_PUTROOTFH]).await.unwrap();
                }
            }
            kept = one.keep(&root, "f").await.unwrap().1;
        }
        // Who does not give it back loses it.
        two.write(&file, &state, 0, b"at last").await.unwrap();
        let lost = one.read(&file, &kept, 0, 100).await;
        assert_eq!(lost.unwrap_err(), nfsstat4::NFS4ERR_DELEG_REVOKED);
        assert_eq!(one.asked.0.borrow().len(), 1);
    });
}

#[test]
fn who_comes_to_another_gateway_goes_on_soon() {
    in_world(69, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        one.does(vec![put(&root), mkdir("d", 0o755)]).await.unwrap();
        let dir = one.walk(&["d"]).await.unwrap();
        let (file, state) = one.make(&dir, "f").await;
        one.write(&file, &state, 0, b"kept").await.unwrap();
        first.kill();
        let start = world.now();
        let again = Nfs4::to(&world, &second, 0, "one").await;
        let (file, state) = again.open(&dir, "f", (3, 0), "me", there()).await.unwrap();
        let read = again.read(&file, &state, 0, 100).await.unwrap();
        assert_eq!(read, (Bytes::from_static(b"kept"), true));
        again.write(&file, &state, 4, b", and more").await.unwrap();
        again.make(&dir, "g").await;
        let took = world.now() - start;
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn a_client_that_is_not_heard_of_loses_what_it_holds() {
    in_world(64, async |world| {
        let (_group, _servers, [first, _]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &first, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let all = (nfs_lock_type4::WRITE_LT, 0, u64::MAX);
        let (file, of_one) = one
            .open(&root, "f", (3, 2), "me", made(0o644))
            .await
            .unwrap();
        one.lock(&file, &of_one, "p", all).await.unwrap();
        let shared = |access| two.open(&root, "f", (access, 0), "me", there());
        let denied = nfsstat4::NFS4ERR_SHARE_DENIED;
        assert_eq!(shared(3).await.unwrap_err(), denied);
        let (_, of_two) = shared(1).await.unwrap();
        let refused = two.write(&file, &ANONYMOUS, 0, b"x").await;
        assert_eq!(refused.unwrap_err(), nfsstat4::NFS4ERR_LOCKED);
        let refused = two.write(&file, &of_two, 0, b"x").await;
        assert_eq!(refused.unwrap_err(), nfsstat4::NFS4ERR_OPENMODE);
        // One that is heard of keeps what it has, the other one not.
        for _ in 0..50 {
            world.sleep(SECOND).await;
            two.does(vec![OP_PUTROOTFH]).await.unwrap();
        }
        let gone = one.does(vec![OP_PUTROOTFH]).await;
        assert_eq!(gone.unwrap_err(), nfsstat4::NFS4ERR_BADSESSION);
        let (_, of_two) = shared(3).await.unwrap();
        two.write(&file, &of_two, 0, b"x").await.unwrap();
        two.lock(&file, &of_two, "p", all).await.unwrap();
    });
}

#[test]
fn exports_are_found_on_the_way_to_them() {
    in_world(65, async |world| {
        let group = Group::started(&world, 3).await;
        let _servers = group.pair().await;
        world.sleep(SECOND).await;
        let gate = Gate::start(&world, &group, "gate1", vec![export("/", believed())]).await;
        let all = Nfs4::to(&world, &gate, 0, "one").await;
        let root = all.walk(&[]).await.unwrap();
        let made = vec![
            put(&root),
            mkdir("a", 0o755),
            mkdir("b", 0o755),
            mkdir("c", 0o755),
        ];
        all.does(made).await.unwrap();
        let (_, opened) = all
            .make(&all.walk(&["a", "b", "c"]).await.unwrap(), "f")
            .await;
        assert_eq!(opened.seqid, 1);
        let read_only = Rule {
            read_only: true,
            ..believed()
        };
        let hidden = Rule {
            clients: vec!["10.0.0.0/8".into()],
            ..believed()
        };
        let mut exports = vec![export("/a/b", read_only), export("/a/b/c", believed())];
        exports.push(weft_nfs::ExportSettings {
            path: "/a/x".into(),
            id: None,
            rules: vec![hidden],
        });
        let gate = Gate::start(&world, &group, "gate2", exports).await;
        let some = Nfs4::to(&world, &gate, 0, "two").await;
        // Above the exports there is nothing but the way to them.
        let names = async |path: &[&str]| {
            let dir = some.walk(path).await.unwrap();
            let listed = some.list(&dir, 1000).await.unwrap();
            listed.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]).await, ["a"]);
        assert_eq!(names(&["a"]).await, ["b"]);
        assert_eq!(names(&["a", "b"]).await, ["c"]);
        assert_eq!(names(&["a", "b", "c"]).await, ["f"]);
        assert_eq!(some.walk(&["a", "x"]).await, Err(nfsstat4::NFS4ERR_NOENT));
        // Each has its own rules.
        let make = async |path: &[&str]| {
            let dir = some.walk(path).await.unwrap();
            let done = some.does(vec![put(&dir), mkdir("new", 0o755)]).await;
            done.map(drop)
        };
        assert_eq!(make(&["a"]).await, Err(nfsstat4::NFS4ERR_ROFS));
        assert_eq!(make(&["a", "b"]).await, Err(nfsstat4::NFS4ERR_ROFS));
        assert_eq!(make(&["a", "b", "c"]).await, Ok(()));
        // And up again.
        let up = async |path: &[&str], levels: usize| {
            let dir = some.walk(path).await.unwrap();
            let ups = vec![OP_LOOKUPP; levels];
            let done = some
                .does([vec![put(&dir)], ups, vec![OP_GETFH]].concat())
                .await?;
            match done.last() {
                Some(nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found))) => Ok(found.object.clone()),
                other => panic!("{other:?}"),
            }
        };
        let new = ["a", "b", "c", "new"];
        for levels in 1..=4 {
            let expected = some.walk(&new[..4 - levels]).await.unwrap();
            assert_eq!(up(&new, levels).await, Ok(expected), "{levels}");
        }
        assert_eq!(up(&new, 5).await, Err(nfsstat4::NFS4ERR_NOENT));
    });
}

#[test]
fn listings_come_in_pages_with_attributes() {
    in_world(66, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        for at in 0..300 {
            one.make(&root, &format!("file-{at:03}")).await;
        }
        for maxcount in [400, 3_000, 1 << 20] {
            let all = two.list(&root, maxcount).await.unwrap();
            let names: std::collections::BTreeSet<_> = all.iter().map(|(name, _)| name).collect();
            assert_eq!((all.len(), names.len()), (300, 300), "{maxcount}");
        }
        let small = two.list(&root, 50).await;
        assert_eq!(small.unwrap_err(), nfsstat4::NFS4ERR_TOOSMALL);
    });
}

#[test]
fn holes_copies_and_attributes_of_users() {
    in_world(67, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        const MIB: u64 = 1 << 20;
        let bytes = vec![7; 1 << 20];
        one.write(&file, &state, 4 * MIB, &bytes).await.unwrap();
        let seek = async |sa_what, sa_offset| {
            let seek = OP_SEEK(SEEK4args {
                sa_stateid: state.clone(),
                sa_offset,
                sa_what,
            });
            match &one.does(vec![put(&file), seek]).await?[..] {
                [_, nfs_resop4::OP_SEEK(SEEK4res::NFS4_OK(found))] => {
                    Ok((found.sr_offset, found.sr_eof))
                }
                other => panic!("{other:?}"),
            }
        };
        let (data, hole) = (
            data_content4::NFS4_CONTENT_DATA,
            data_content4::NFS4_CONTENT_HOLE,
        );
        assert_eq!(seek(data, 0).await, Ok((4 * MIB, false)));
        assert_eq!(seek(hole, 4 * MIB).await, Ok((5 * MIB, true)));
        assert_eq!(seek(data, 5 * MIB).await, Err(nfsstat4::NFS4ERR_NXIO));
        let deallocate = OP_DEALLOCATE(DEALLOCATE4args {
            da_stateid: state.clone(),
            da_offset: 4 * MIB,
            da_length: MIB / 2,
        });
        one.does(vec![put(&file), deallocate]).await.unwrap();
        let allocate = OP_ALLOCATE(ALLOCATE4args {
            aa_stateid: state.clone(),
            aa_offset: 0,
            aa_length: 6 * MIB,
        });
        one.does(vec![put(&file), allocate]).await.unwrap();
        assert_eq!(two.getattr(&file).await.unwrap().0, 6 * MIB);
        let (read, _) = two
            .read(&file, &ANONYMOUS, 4 * MIB, MIB as u32)
            .await
            .unwrap();
        assert!(read[..MIB as usize / 2].iter().all(|byte| *byte == 0));
        assert!(read[MIB as usize / 2..].iter().all(|byte| *byte == 7));
        // A copy at the servers.
        let (other, state_of_other) = one.make(&root, "g").await;
        let copy = |count| {
            OP_COPY(COPY4args {
                ca_src_stateid: state.clone(),
                ca_dst_stateid: state_of_other.clone(),
                ca_src_offset: 4 * MIB,
                ca_dst_offset: 5,
                ca_count: count,
                ca_consecutive: true,
                ca_synchronous: true,
                ca_source_server: Vec::new(),
            })
        };
        let copies = |count| vec![put(&file), OP_SAVEFH, put(&other), copy(count)];
        let copied = one.does(copies(MIB)).await.unwrap();
        let Some(nfs_resop4::OP_COPY(COPY4res::NFS4_OK(copied))) = copied.last() else {
            panic!("{copied:?}")
        };
        assert_eq!(copied.cr_response.wr_count, MIB);
        let (copy_read, _) = two.read(&other, &ANONYMOUS, 5, MIB as u32).await.unwrap();
        assert_eq!(copy_read, read);
        let beyond = one.does(copies(3 * MIB)).await;
        assert_eq!(beyond.unwrap_err(), nfsstat4::NFS4ERR_INVAL);
        // Attributes of users.
        let set = OP_SETXATTR(SETXATTR4args {
            sxa_option: setxattr_option4::SETXATTR4_CREATE,
            sxa_key: Bytes::from_static(b"colour"),
            sxa_value: Bytes::from_static(b"red"),
        });
        one.does(vec![put(&file), set.clone()]).await.unwrap();
        let again = one.does(vec![put(&file), set]).await;
        assert_eq!(again.unwrap_err(), nfsstat4::NFS4ERR_EXIST);
        let list = OP_LISTXATTRS(LISTXATTRS4args {
            lxa_cookie: 0,
            lxa_maxcount: 1000,
        });
        let listed = two.does(vec![put(&file), list]).await.unwrap();
        let Some(nfs_resop4::OP_LISTXATTRS(LISTXATTRS4res::NFS4_OK(listed))) = listed.last() else {
            panic!("{listed:?}")
        };
        assert_eq!(
            (
                listed.lxr_names.len(),
                &listed.lxr_names[0][..],
                listed.lxr_eof
            ),
            (1, &b"colour"[..], true)
        );
        let get = |name: &'static str| {
            vec![
                put(&file),
                OP_GETXATTR(GETXATTR4args {
                    gxa_name: name.into(),
                }),
            ]
        };
        let got = two.does(get("colour")).await.unwrap();
        assert_eq!(
            got[1],
            nfs_resop4::OP_GETXATTR(GETXATTR4res::NFS4_OK("red".into()))
        );
        let none = two.does(get("size")).await;
        assert_eq!(none.unwrap_err(), nfsstat4::NFS4ERR_NOXATTR);
    });
}

#[test]
fn what_was_done_is_counted() {
    in_world(71, async |world| {
        let (_group, _servers, [first, _]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        one.write(&file, &state, 0, b"twelve bytes").await.unwrap();
        let env = world.node("client").env();
        let mut stream = env.connect(&first.settings.metrics_listen).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        for line in [
            "weft_nfs_calls_total{kind=\"OP_OPEN\"} 1",
            "weft_nfs_calls_total{kind=\"OP_WRITE\"} 1",
            "weft_nfs_written_bytes_total 12",
            "weft_nfs_open_files 1",
            "weft_nfs_delegations 0",
        ] {
            assert!(page.lines().any(|its| its == line), "no {line} in {page}");
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_else_suffers() {
    in_world(68, async |world| {
        let (_group, _servers, [first, _]) = cluster(&world).await;
        let mut one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let status = async |operations| one.call(operations).await.status;
        // Outside of sessions.
        let outside = nfsstat4::NFS4ERR_OP_NOT_IN_SESSION;
        assert_eq!(status(vec![OP_PUTROOTFH]).await, outside);
        let destroy = OP_DESTROY_CLIENTID(DESTROY_CLIENTID4args { dca_clientid: 77 });
        let alone = status(vec![destroy.clone()]).await;
        assert_eq!(alone, nfsstat4::NFS4ERR_STALE_CLIENTID);
        let not_alone = status(vec![destroy, OP_PUTROOTFH]).await;
        assert_eq!(not_alone, nfsstat4::NFS4ERR_NOT_ONLY_OP);
        assert_eq!(status(Vec::new()).await, nfsstat4::NFS4_OK);
        // In one.
        let fails = async |operations, why| {
            let done = one.does(operations).await;
            assert_eq!(done.err(), Some(why));
        };
        let second = one.sequence(9);
        fails(vec![second], nfsstat4::NFS4ERR_SEQUENCE_POS).await;
        fails(vec![OP_ILLEGAL], nfsstat4::NFS4ERR_OP_ILLEGAL).await;
        fails(vec![OP_GETFH], nfsstat4::NFS4ERR_NOFILEHANDLE).await;
        let many = one.sequence(one.sequence.get() + 1);
        let many = status([vec![many], vec![OP_PUTROOTFH; 16]].concat()).await;
        assert_eq!(many, nfsstat4::NFS4ERR_TOO_MANY_OPS);
        let forged: Bytes = root.iter().map(|byte| byte ^ 1).collect();
        fails(vec![put(&forged)], nfsstat4::NFS4ERR_BADHANDLE).await;
        let mut turned = root.to_vec();
        *turned.last_mut().unwrap() ^= 1;
        let sealed = vec![put(&turned.into())];
        fails(sealed, nfsstat4::NFS4ERR_BADHANDLE).await;
        for (name, why) in [
            ("", nfsstat4::NFS4ERR_INVAL),
            ("..", nfsstat4::NFS4ERR_BADNAME),
            ("a/b", nfsstat4::NFS4ERR_BADCHAR),
            (&"n".repeat(256), nfsstat4::NFS4ERR_NAMETOOLONG),
        ] {
            fails(vec![put(&root), mkdir(name, 0o755)], why).await;
        }
        let (file, state) = one.make(&root, "f").await;
        let made_up = stateid4 {
            seqid: 1,
            other: [9; 12],
        };
        let bad = one.read(&file, &made_up, 0, 10).await;
        assert_eq!(bad.unwrap_err(), nfsstat4::NFS4ERR_BAD_STATEID);
        let later = stateid4 {
            seqid: 5,
            ..state.clone()
        };
        let bad = one.read(&file, &later, 0, 10).await;
        assert_eq!(bad.unwrap_err(), nfsstat4::NFS4ERR_BAD_STATEID);
        let long = one.read(&file, &state, u64::MAX, u32::MAX).await;
        assert!(
            long.is_ok() || long == Err(nfsstat4::NFS4ERR_INVAL),
            "{long:?}"
        );
        // Minor versions.
        one.minor = 1;
        let seek = OP_SEEK(SEEK4args {
            sa_stateid: state.clone(),
            sa_offset: 0,
            sa_what: data_content4::NFS4_CONTENT_DATA,
        });
        let unknown = one.does(vec![put(&file), seek]).await;
        assert_eq!(unknown.err(), Some(nfsstat4::NFS4ERR_OP_ILLEGAL));
        one.minor = 0;
        let none = one.call(vec![OP_PUTROOTFH]).await;
        let mismatch = nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
        assert_eq!((none.status, none.resarray.len()), (mismatch, 0));
        one.minor = 1;
        one.close(&file, &state).await.unwrap();
    });
}
