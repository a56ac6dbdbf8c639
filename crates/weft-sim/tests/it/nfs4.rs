//! NFS gateways in a simulated cluster, and clients that speak NFS version 4 to them (`docs/protocols/nfs4.md`).

use crate::compounds::{ANONYMOUS, MINOR, Nfs4, made, mkdir, mode, put, there};
use crate::gates::{Gate, believed, cluster, export, user};
use crate::group::{Group, MS, SECOND, in_world};
use bytes::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_nfs::Rule;
use weft_oncrpc::{Connection, Limits};
use weft_sim::World;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;

const ALL: (nfs_lock_type4, u64, u64) = (nfs_lock_type4::WRITE_LT, 0, u64::MAX);
const SHARED: (nfs_lock_type4, u64, u64) = (nfs_lock_type4::READ_LT, 0, 10);

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
fn who_waits_for_a_lock_is_told_when_it_is_free() {
    in_world(74, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let near = Nfs4::to(&world, &first, 0, "near").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, of_one) = one.make(&root, "f").await;
        let (_, of_two) = two.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        let (_, of_near) = near.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        // Held at the other gateway, and at the same one.
        let holders = [(&two, &of_two), (&near, &of_near)];
        let times = holders.into_iter().flat_map(|of| [(of, false), (of, true)]);
        for ((holder, state), in_parts) in times {
            for client in [&one, &near, &two] {
                client.does(vec![OP_PUTROOTFH]).await.unwrap();
            }
            let all = (nfs_lock_type4::WRITE_LT, 0, 100);
            let held = holder.lock(&file, state, "holder", all).await.unwrap();
            let start = world.now();
            let waits = (nfs_lock_type4::WRITEW_LT, 50, 10);
            let denied = one.lock(&file, &of_one, "waiter", waits).await;
            assert!(matches!(denied, Err(Some(_))));
            // He is not kept waiting for long, and then told of nothing as long as there is nothing to tell.
            assert!(world.now() - start < Duration::from_secs(5));
            world.sleep(5 * SECOND).await;
            assert!(one.asked.freed.borrow().is_empty());
            let mut held = held;
            if in_parts {
                // What is freed beside it is of no use to him.
                holder.unlock(&file, &held, 0, 40).await;
                held.seqid = 0;
                world.sleep(2 * SECOND).await;
                assert!(one.asked.freed.borrow().is_empty());
            }
            holder.unlock(&file, &held, 0, 100).await;
            let start = world.now();
            while one.asked.freed.borrow().is_empty() {
                world.sleep(MS).await;
            }
            let took = world.now() - start;
            // The word of it has come before, once, and it is asked again: once a second.
            let bound = Duration::from_millis(if in_parts { 1_500 } else { 100 });
            assert!(took < bound, "{took:?}");
            let freed = one.asked.freed.borrow_mut().pop().unwrap();
            assert_eq!(freed.cnla_fh, file);
            let owner = &freed.cnla_lock_owner;
            assert_eq!(
                (owner.clientid, &owner.owner[..]),
                (one.client, &b"waiter"[..])
            );
            let mine = one.lock(&file, &of_one, "waiter", waits).await.unwrap();
            // Once is enough; and who would not wait is not told.
            let tries = (nfs_lock_type4::WRITE_LT, 0, 100);
            assert!(holder.lock(&file, state, "holder", tries).await.is_err());
            one.unlock(&file, &mine, 50, 10).await;
            world.sleep(3 * SECOND).await;
            assert!(one.asked.freed.borrow().is_empty());
            assert!(holder.asked.freed.borrow().is_empty());
        }
        // Who has got it by asking again is not told any more.
        let all = (nfs_lock_type4::WRITE_LT, 0, 100);
        let held = two.lock(&file, &of_two, "holder", all).await.unwrap();
        let waits = (nfs_lock_type4::WRITEW_LT, 0, 100);
        assert!(one.lock(&file, &of_one, "waiter", waits).await.is_err());
        let again = one.lock(&file, &of_one, "waiter", waits);
        let frees = async {
            world.sleep(500 * MS).await;
            two.unlock(&file, &held, 0, 100).await;
        };
        let (got, ()) = futures_util::join!(again, frees);
        assert!(got.is_ok());
        let told = one.asked.freed.take().len();
        world.sleep(3 * SECOND).await;
        let later = one.asked.freed.borrow().len();
        assert!(told + later <= 1, "{told}, {later}");
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
                while one.asked.recalls.borrow().is_empty() {
                    world.sleep(MS).await;
                }
                // For as long as it keeps it nobody has changed it.
                world.sleep(200 * MS).await;
                assert!(!changed.get(), "{whose}");
                let recall = one.asked.recalls.borrow_mut().remove(0);
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
        assert_eq!(one.asked.recalls.borrow().len(), 1);
    });
}

#[test]
fn a_file_is_not_given_out_while_it_is_changed() {
    in_world(72, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let near = Nfs4::to(&world, &first, 0, "near").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        one.write(&file, &state, 0, b"before").await.unwrap();
        one.close(&file, &state).await.unwrap();
        // A client of the other gateway has it, and this one's gateway a lease to read.
        let (_, kept) = two.keep(&root, "f").await.unwrap();
        one.read(&file, &ANONYMOUS, 0, 1).await.unwrap();
        let is_written = Cell::new(false);
        let write = async {
            // With no open: nothing but the write itself says that the file is changed.
            near.write(&file, &ANONYMOUS, 0, b"behind").await.unwrap();
            is_written.set(true);
        };
        let open = async {
            // The write waits for the other gateway's client.
            while two.asked.recalls.borrow().is_empty() {
                world.sleep(MS).await;
            }
            let open = OP_OPEN(OPEN4args {
                seqid: 0,
                share_access: OPEN4_SHARE_ACCESS_READ,
                share_deny: 0,
                owner: state_owner4 {
                    clientid: one.client,
                    owner: Bytes::from_static(b"reader"),
                },
                openhow: there(),
                claim: open_claim4::CLAIM_NULL(Bytes::from_static(b"f")),
            });
            let opening = one.does(vec![put(&root), open]);
            let give_back = async {
                world.sleep(100 * MS).await;
                assert!(!is_written.get());
                two.give_back(&file, &kept).await;
            };
            futures_util::join!(opening, give_back).0
        };
        let ((), opened) = futures_util::join!(write, open);
        let opened = opened.unwrap();
        let [_, nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened))] = &opened[..] else {
            panic!("{opened:?}")
        };
        let is_given = matches!(opened.delegation, open_delegation4::OPEN_DELEGATE_READ(_));
        assert!(is_written.get());
        assert!(!is_given, "given while another client was writing it");
    });
}

/// Somebody beside the client that has a file.
enum Beside {
    Nfs4(Nfs4),
    Nfs3(Connection),
    Mount(weft_client::Client),
}

impl Beside {
    async fn nfs3(world: &World, gate: &Gate) -> Beside {
        let env = world.node("client").env();
        let address = &gate.settings.listen;
        let connecting = Connection::connect(&env, address, Limits::default(), Vec::new());
        Beside::Nfs3(connecting.await.unwrap())
    }

    /// Reads the front of a file, again if it is to come later.
    async fn read(&self, world: &World, file: &Bytes) -> Bytes {
        use weft_xdr::nfs3::*;
        loop {
            match self {
                Beside::Nfs4(client) => match client.read(file, &ANONYMOUS, 0, 1000).await {
                    Err(nfsstat4::NFS4ERR_DELAY) => {}
                    read => return read.unwrap().0,
                },
                Beside::Nfs3(connection) => {
                    let read = READ3args {
                        file: nfs_fh3 { data: file.clone() },
                        offset: 0,
                        count: 1000,
                    };
                    let read = connection.call::<NFSPROC3_READ>(&user(0), &read).await;
                    match read.unwrap() {
                        READ3res::NFS3_OK(read) => return read.data,
                        READ3res::default(nfsstat3::NFS3ERR_JUKEBOX, _) => {}
                        other => panic!("{other:?}"),
                    }
                }
                Beside::Mount(client) => {
                    let ino = inode_of(client).await;
                    let flags = weft_client::OpenFlags {
                        read: true,
                        ..Default::default()
                    };
                    let cred = weft_client::Cred::default();
                    let handle = client.open(&cred, ino, flags).await.unwrap();
                    let read = client.read(handle, 0, 1000).await.unwrap().concat();
                    client.release(handle, None).await.unwrap();
                    return read.into();
                }
            }
            world.sleep(100 * MS).await;
        }
    }

    async fn size(&self, file: &Bytes) -> u64 {
        use weft_xdr::nfs3::*;
        match self {
            Beside::Nfs4(client) => client.getattr(file).await.unwrap().0,
            Beside::Nfs3(connection) => {
                let object = nfs_fh3 { data: file.clone() };
                let get = GETATTR3args { object };
                match connection.call::<NFSPROC3_GETATTR>(&user(0), &get).await {
                    Ok(GETATTR3res::NFS3_OK(found)) => found.obj_attributes.size,
                    other => panic!("{other:?}"),
                }
            }
            Beside::Mount(client) => {
                let ino = inode_of(client).await;
                client.getattr(ino).await.unwrap().attr.size
            }
        }
    }
}

/// The file `f` of the root directory, which mounts find by its name.
async fn inode_of(client: &weft_client::Client) -> u64 {
    let cred = weft_client::Cred::default();
    let found = client.lookup(&cred, client.root(), b"f").await.unwrap();
    found.entry.unwrap().attr.ino
}

/// One that has no clients in common with the others: at the same gateway, at another one, of version 3, and a mount.
async fn all_beside(
    world: &World,
    group: &Group,
    gates: &[Gate; 2],
) -> Vec<(&'static str, Beside)> {
    let [first, second] = gates;
    vec![
        (
            "near",
            Beside::Nfs4(Nfs4::to(world, first, 0, "near").await),
        ),
        ("far", Beside::Nfs4(Nfs4::to(world, second, 0, "far").await)),
        ("near, version 3", Beside::nfs3(world, first).await),
        ("far, version 3", Beside::nfs3(world, second).await),
        ("mount", Beside::Mount(group.client("mount").await)),
    ]
}

#[test]
fn what_a_client_keeps_unwritten_it_writes_before_others_read_it() {
    in_world(75, async |world| {
        let (group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        for (who, beside) in all_beside(&world, &group, &gates).await {
            let (file, had) = one.have(&root, "f").await;
            one.keeps(8);
            let is_read = Cell::new(false);
            let reads = async {
                let read = beside.read(&world, &file).await;
                is_read.set(true);
                read
            };
            let writes = async {
                let recall = one.recalled(&world).await;
                assert_eq!((&recall.stateid, &recall.fh), (&had, &file), "{who}");
                // It takes its time, and longer than a silent client has; what it writes is done meanwhile.
                for (at, byte) in b"keptkept".iter().enumerate() {
                    world.sleep(SECOND).await;
                    assert!(!is_read.get(), "{who}");
                    one.write(&file, &had, at as u64, &[*byte]).await.unwrap();
                }
                one.give_back(&file, &had).await;
            };
            let (read, ()) = futures_util::join!(reads, writes);
            assert_eq!(read, "keptkept", "{who}");
            let remove = OP_REMOVE(REMOVE4args {
                target: Bytes::from_static(b"f"),
            });
            one.does(vec![put(&root), remove]).await.unwrap();
            assert!(one.asked.recalls.borrow().is_empty(), "{who}");
        }
    });
}

#[test]
fn others_are_told_how_large_a_file_is_with_what_a_client_keeps() {
    in_world(76, async |world| {
        let (group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, had) = one.have(&root, "f").await;
        one.write(&file, &had, 0, b"written").await.unwrap();
        let beside = all_beside(&world, &group, &gates).await;
        let mut size = 7;
        for (who, beside) in &beside {
            // What it does not keep the gateway knows.
            assert_eq!(beside.size(&file).await, size.max(7), "{who}");
            size += 1000;
            one.keeps(size);
            assert_eq!(beside.size(&file).await, size, "{who}");
        }
        // It was asked, and keeps it.
        assert!(one.asked.looks.get() > 0 && one.asked.recalls.borrow().is_empty());
        // Each look is told of another change, as nobody knows whether there was one.
        let Beside::Nfs4(near) = &beside[0].1 else {
            panic!("it is the first")
        };
        let (_, before) = near.getattr(&file).await.unwrap();
        world.sleep(MS).await;
        assert!(near.getattr(&file).await.unwrap().1 > before);
        let listed = near.list(&root, 4096).await.unwrap();
        assert_eq!(listed.len(), 1);
        // What is never written does not make it longer for good.
        one.give_back(&file, &had).await;
        for (who, beside) in &beside {
            assert_eq!(beside.size(&file).await, 7, "{who}");
        }
        // One that does not say what it keeps is asked for the file.
        for (at, (who, beside)) in beside.iter().enumerate() {
            let remove = OP_REMOVE(REMOVE4args {
                target: Bytes::from_static(b"f"),
            });
            one.does(vec![put(&root), remove]).await.unwrap();
            let (file, had) = one.have(&root, "f").await;
            one.asked.kept.set(None);
            let writes = async {
                one.recalled(&world).await;
                one.write(&file, &had, 0, &vec![1; at + 1]).await.unwrap();
                one.give_back(&file, &had).await;
            };
            let (size, ()) = futures_util::join!(beside.size(&file), writes);
            assert_eq!(size, at as u64 + 1, "{who}");
        }
    });
}

#[test]
fn who_does_not_give_a_file_back_loses_it_and_who_writes_for_ever_too() {
    in_world(77, async |world| {
        let (group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        for (who, beside) in all_beside(&world, &group, &gates).await {
            let (file, had) = one.have(&root, "f").await;
            one.keeps(8);
            let start = world.now();
            assert_eq!(beside.read(&world, &file).await, "", "{who}");
            let took = world.now() - start;
            let bounds = Duration::from_secs(2)..Duration::from_secs(6);
            assert!(bounds.contains(&took), "{who}: {took:?}");
            let lost = one.write(&file, &had, 0, b"too late").await;
            assert_eq!(lost.unwrap_err(), nfsstat4::NFS4ERR_DELEG_REVOKED, "{who}");
            let free = OP_FREE_STATEID(FREE_STATEID4args { fsa_stateid: had });
            one.does(vec![free]).await.unwrap();
            one.recalled(&world).await;
            let remove = OP_REMOVE(REMOVE4args {
                target: Bytes::from_static(b"f"),
            });
            one.does(vec![put(&root), remove]).await.unwrap();
        }
        // Nobody waits for ever for who goes on writing.
        for (who, gate) in ["near", "far"].into_iter().zip(&gates) {
            let beside = Beside::Nfs4(Nfs4::to(&world, gate, 0, &format!("late, {who}")).await);
            let (file, had) = one.have(&root, "f").await;
            let start = world.now();
            let writes = async {
                let mut at = 0;
                while one.write(&file, &had, at, b".").await.is_ok() {
                    world.sleep(SECOND).await;
                    at += 1;
                }
            };
            let (read, ()) = futures_util::join!(beside.read(&world, &file), writes);
            let took = world.now() - start;
            let bounds = Duration::from_secs(50)..Duration::from_secs(70);
            assert!(bounds.contains(&took), "{who}: {took:?}");
            assert!(read.len() > 50, "{who}: {read:?}");
            let remove = OP_REMOVE(REMOVE4args {
                target: Bytes::from_static(b"f"),
            });
            one.does(vec![put(&root), remove]).await.unwrap();
            one.asked.recalls.take();
        }
    });
}

#[test]
fn a_file_is_given_for_writing_to_one_who_has_it_for_himself() {
    in_world(78, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 5, "one").await;
        let near = Nfs4::to(&world, &gates[0], 0, "near").await;
        let far = Nfs4::to(&world, &gates[1], 5, "far").await;
        let root = near.walk(&[]).await.unwrap();
        let everybodys = vec![put(&root), mkdir("d", 0o777)];
        near.does(everybodys).await.unwrap();
        let root = near.walk(&["d"]).await.unwrap();
        let writes =
            |given: &open_delegation4| matches!(given, open_delegation4::OPEN_DELEGATE_WRITE(_));
        let why = |given: &open_delegation4| match given {
            open_delegation4::OPEN_DELEGATE_NONE_EXT(why) => Some(why.ond_why()),
            _ => None,
        };
        // As it is wanted.
        let wants = [
            (OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE, None),
            (OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG, None),
            (OPEN4_SHARE_ACCESS_WANT_ANY_DELEG, None),
            (
                OPEN4_SHARE_ACCESS_WANT_READ_DELEG,
                Some(why_no_delegation4::WND4_RESOURCE),
            ),
            (
                OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
                Some(why_no_delegation4::WND4_NOT_WANTED),
            ),
            (
                OPEN4_SHARE_ACCESS_WANT_CANCEL,
                Some(why_no_delegation4::WND4_CANCELLED),
            ),
        ];
        let opened = near.open(&root, "no", (3, 0), "me", made(0o600)).await;
        let (file, state) = opened.unwrap();
        near.close(&file, &state).await.unwrap();
        let forbidden = one.open(&root, "no", (2, 0), "me", there()).await;
        assert_eq!(forbidden.err(), Some(nfsstat4::NFS4ERR_ACCESS));
        for (at, (want, refused)) in wants.into_iter().enumerate() {
            let name = format!("wanted-{at}");
            let (file, open, given) = one.open_wanting(&root, &name, 3 | want, made(0o644)).await;
            let given = match want {
                // Who does not say is given it when he comes once more.
                OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE => {
                    assert!(matches!(given, open_delegation4::OPEN_DELEGATE_NONE));
                    one.close(&file, &open).await.unwrap();
                    one.open_wanting(&root, &name, 3 | want, there()).await.2
                }
                _ => given,
            };
            assert_eq!((writes(&given), why(&given)), (refused.is_none(), refused));
        }
        // One that was there, as nobody else has it open.
        let (file, state) = far.make(&root, "f").await;
        far.write(&file, &state, 0, b"far").await.unwrap();
        far.close(&file, &state).await.unwrap();
        let any = OPEN4_SHARE_ACCESS_WANT_ANY_DELEG;
        for _ in 0..4 {
            world.sleep(5 * SECOND).await;
            for client in [&one, &near, &far] {
                client.does(vec![OP_PUTROOTFH]).await.unwrap();
            }
        }
        one.read(&file, &ANONYMOUS, 0, 1).await.unwrap();
        let (_, open, given) = one.open_wanting(&root, "f", 2 | any, there()).await;
        let open_delegation4::OPEN_DELEGATE_WRITE(had) = given else {
            panic!("{given:?}")
        };
        // Another one of the same client needs none; who reads under it may read.
        let (_, _, given) = one.open_wanting(&root, "f", 1 | any, there()).await;
        assert_eq!(why(&given), Some(why_no_delegation4::WND4_NOT_SUPP_UPGRADE));
        let read = one.read(&file, &had.stateid, 0, 10).await.unwrap();
        assert_eq!(read.0, "far");
        // Who opens it beside has it asked back, and its opens and locks are told while that is so: though the
        // mode says now that nobody may.
        let none = OP_SETATTR(SETATTR4args {
            stateid: ANONYMOUS,
            obj_attributes: mode(0),
        });
        one.does(vec![put(&file), none]).await.unwrap();
        let opens = async {
            loop {
                match near.open(&root, "f", (1, 0), "me", there()).await {
                    Err(nfsstat4::NFS4ERR_DELAY) => {}
                    opened => return opened.unwrap(),
                }
            }
        };
        let tells = async {
            one.recalled(&world).await;
            let open = one.open_again(&file, 3, &had.stateid).await;
            let locked = one.lock(&file, &open, "local", ALL).await;
            one.give_back(&file, &had.stateid).await;
            locked.unwrap()
        };
        let ((_, of_near), locked) = futures_util::join!(opens, tells);
        let reads = (nfs_lock_type4::READ_LT, 0, 1);
        assert!(matches!(
            near.lock(&file, &of_near, "p", reads).await,
            Err(Some(_))
        ));
        one.unlock(&file, &locked, 0, u64::MAX).await;
        // While others have it open it is given to nobody for writing; nor soon after.
        let open = stateid4 { seqid: 0, ..open };
        one.close(&file, &open).await.unwrap();
        let again = OP_SETATTR(SETATTR4args {
            stateid: ANONYMOUS,
            obj_attributes: mode(0o644),
        });
        one.does(vec![put(&file), again]).await.unwrap();
        for wait in [0, 5] {
            for _ in 0..wait {
                world.sleep(5 * SECOND).await;
                for client in [&one, &near, &far] {
                    client.does(vec![OP_PUTROOTFH]).await.unwrap();
                }
            }
            let (_, _, given) = one.open_wanting(&root, "f", 2 | any, there()).await;
            assert_eq!(
                why(&given),
                Some(why_no_delegation4::WND4_CONTENTION),
                "{wait}"
            );
        }
    });
}

#[test]
fn who_locks_a_file_elsewhere_comes_after_who_has_it() {
    in_world(79, async |world| {
        let (group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, had) = one.have(&root, "f").await;
        // It asks for the lock alone: with nothing open, nobody has heard of it before.
        let mount = group.client("mount").await;
        let cred = weft_client::Cred::default();
        let ino = inode_of(&mount).await;
        assert!(one.asked.recalls.borrow().is_empty());
        let lock = weft_client::FileLock {
            kind: weft_client::LockKind::Exclusive as i32,
            owner: 5,
            last: u64::MAX,
            ..Default::default()
        };
        // The answer by which it has the file may be on its way still.
        one.asked.unknown.set(3);
        let locks = mount.setlk(&cred, ino, lock, false);
        let tells = async {
            one.recalled(&world).await;
            let open = one.open_again(&file, 3, &had).await;
            let first = (nfs_lock_type4::WRITE_LT, 0, 10);
            one.lock(&file, &open, "local", first).await.unwrap();
            one.give_back(&file, &had).await;
        };
        let (locked, ()) = futures_util::join!(locks, tells);
        assert_eq!(locked.unwrap_err().0, libc::EAGAIN);
    });
}

/// Who has a file for reading locks it by himself, too: so that others may read it.
#[test]
fn who_locks_a_file_alone_comes_after_who_has_it_for_reading() {
    for seed in 111..116 {
        in_world(seed, async move |world| {
            let (_group, _servers, gates) = cluster::<2>(&world).await;
            let one = Nfs4::to(&world, &gates[0], 0, "one").await;
            let other = Nfs4::to(&world, &gates[1], 0, "other").await;
            let root = one.walk(&[]).await.unwrap();
            let (file, open) = other.make(&root, "f").await;
            other.write(&file, &open, 0, b"before").await.unwrap();
            let (_, had) = one.keep(&root, "f").await.unwrap();
            // Beside others that read.
            let beside = other.lock(&file, &open, "beside", SHARED).await.unwrap();
            other.unlock(&file, &beside, 0, 10).await;
            assert!(one.asked.recalls.borrow().is_empty());
            let locks = other.lock(&file, &open, "alone", ALL);
            let tells = async {
                one.recalled(&world).await;
                let open = one.open_again(&file, 1, &had).await;
                one.lock(&file, &open, "local", SHARED).await.unwrap();
                one.give_back(&file, &had).await;
            };
            let (locked, ()) = futures_util::join!(locks, tells);
            let denied = locked
                .unwrap_err()
                .expect("refused for what one had locked");
            assert_eq!(denied.locktype, nfs_lock_type4::READ_LT);
        });
    }
}

#[test]
fn a_file_that_somebody_has_locked_alone_is_given_to_nobody_else() {
    in_world(117, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let other = Nfs4::to(&world, &gates[1], 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = other.make(&root, "f").await;
        other.write(&file, &open, 0, b"before").await.unwrap();
        let lock = other.lock(&file, &open, "alone", (nfs_lock_type4::WRITE_LT, 3, 1));
        let lock = lock.await.unwrap();
        assert!(one.keep(&root, "f").await.is_none());
        other.unlock(&file, &lock, 3, 1).await;
        assert!(one.keep(&root, "f").await.is_some());
    });
}

/// One that has mounted two gateways, that is: what it keeps by way of the one it does not know by way of the other.
#[test]
fn a_client_excludes_itself_by_way_of_another_gateway() {
    in_world(118, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let here = Nfs4::to(&world, &gates[0], 0, "one").await;
        let there = Nfs4::to(&world, &gates[1], 0, "one").await;
        let root = here.walk(&[]).await.unwrap();
        let (file, open) = here.make(&root, "f").await;
        here.write(&file, &open, 0, b"before").await.unwrap();
        let lock = here.lock(&file, &open, "alone", ALL).await.unwrap();
        assert!(there.keep(&root, "f").await.is_none());
        here.unlock(&file, &lock, 0, u64::MAX).await;
        let (_, had) = there.keep(&root, "f").await.unwrap();
        let locks = here.lock(&file, &open, "alone", ALL);
        let tells = async {
            there.recalled(&world).await;
            let open = there.open_again(&file, 1, &had).await;
            there.lock(&file, &open, "local", SHARED).await.unwrap();
            there.give_back(&file, &had).await;
        };
        let (locked, ()) = futures_util::join!(locks, tells);
        assert!(locked.is_err(), "locked by two");
    });
}

/// The one is told that the file is its own, the other that it is locked, at any moment of each other.
#[test]
fn a_file_is_not_given_to_one_while_another_locks_it() {
    for seed in 120..200 {
        in_world(seed, async move |world| {
            let (_group, _servers, gates) = cluster::<2>(&world).await;
            let one = Nfs4::to(&world, &gates[0], 0, "one").await;
            let other = Nfs4::to(&world, &gates[1], 0, "other").await;
            let root = one.walk(&[]).await.unwrap();
            let (file, open) = other.make(&root, "f").await;
            other.write(&file, &open, 0, b"before").await.unwrap();
            one.walk(&["f"]).await.unwrap();
            let is_had = Cell::new(false);
            let keeps = async {
                world
                    .sleep(world.rng("keeps").below(3_000) as u32 * Duration::from_micros(1))
                    .await;
                is_had.set(one.keep(&root, "f").await.is_some());
                if is_had.get() {
                    let recall = one.recalled(&world).await;
                    is_had.set(false);
                    one.give_back(&file, &recall.stateid).await;
                }
            };
            let locks = async {
                world
                    .sleep(world.rng("locks").below(20_000) as u32 * Duration::from_micros(1))
                    .await;
                other.lock(&file, &open, "alone", ALL).await.unwrap();
                world.sleep(10 * MS).await;
                assert!(!is_had.get(), "locked, and had by another");
            };
            let both = async { futures_util::join!(keeps, locks) };
            let _ = world.env().timeout(SECOND, both).await;
        });
    }
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
fn a_hole_of_many_tib_is_not_gone_through() {
    in_world(68, async |world| {
        let (_group, _servers, [gate, _]) = cluster(&world).await;
        let nfs = Nfs4::to(&world, &gate, 0, "one").await;
        let root = nfs.walk(&[]).await.unwrap();
        let (file, state) = nfs.make(&root, "f").await;
        const MIB: u64 = 1 << 20;
        // A file on one pair can be a little longer.
        const FAR: u64 = 14 << 40;
        let bytes = vec![7; 4096];
        nfs.write(&file, &state, MIB, &bytes).await.unwrap();
        let far = OP_ALLOCATE(ALLOCATE4args {
            aa_stateid: state.clone(),
            aa_offset: FAR,
            aa_length: MIB,
        });
        nfs.does(vec![put(&file), far]).await.unwrap();
        let before = world.now();
        let size = FAR + MIB;
        for (sa_offset, found) in [(0, (MIB, false)), (2 * MIB, (size, true))] {
            let seek = OP_SEEK(SEEK4args {
                sa_stateid: state.clone(),
                sa_offset,
                sa_what: data_content4::NFS4_CONTENT_DATA,
            });
            match &nfs.does(vec![put(&file), seek]).await.unwrap()[..] {
                [_, nfs_resop4::OP_SEEK(SEEK4res::NFS4_OK(said))] => {
                    assert_eq!((said.sr_offset, said.sr_eof), found);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(world.now() - before < SECOND);
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

/// All bytes of a file as READ_PLUS tells them, and which of them are in holes.
/// As many units as that nobody can go through one by one.
#[test]
fn a_hole_in_the_longest_file_is_made_at_once() {
    in_world(67, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs4::to(&world, &gates[0], 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one.make(&root, "f").await;
        one.write(&file, &open, 5, b"x").await.unwrap();
        let asked = vec![1 << FATTR4_MAXFILESIZE];
        let asking = OP_GETATTR(GETATTR4args {
            attr_request: asked,
        });
        let told = one.does(vec![put(&file), asking]).await.unwrap();
        let nfs_resop4::OP_GETATTR(GETATTR4res::NFS4_OK(told)) = &told[1] else {
            panic!("{told:?}");
        };
        let longest = weft_types::OBJECT_REACH;
        assert_eq!(told.obj_attributes.attr_vals[..], longest.to_be_bytes());
        let allocate = |aa_length| {
            OP_ALLOCATE(ALLOCATE4args {
                aa_stateid: open.clone(),
                aa_offset: 0,
                aa_length,
            })
        };
        // What is too long is refused at once, and changes nothing.
        for length in [longest + 1, 1 << 60, u64::MAX] {
            let refused = one.does(vec![put(&file), allocate(length)]).await;
            assert_eq!(refused.unwrap_err(), nfsstat4::NFS4ERR_FBIG, "{length}");
        }
        for offset in [longest, 1 << 60, u64::MAX - 1] {
            let refused = one.write(&file, &open, offset, b"x").await;
            assert_eq!(refused.unwrap_err(), nfsstat4::NFS4ERR_FBIG, "{offset}");
        }
        assert_eq!(one.getattr(&file).await.unwrap().0, 6);
        one.does(vec![put(&file), allocate(longest)]).await.unwrap();
        let deallocate = OP_DEALLOCATE(DEALLOCATE4args {
            da_stateid: open.clone(),
            da_offset: 0,
            da_length: longest,
        });
        one.does(vec![put(&file), deallocate]).await.unwrap();
        assert_eq!(one.getattr(&file).await.unwrap().0, longest);
        let (read, ..) = one.read(&file, &open, 0, 10).await.unwrap();
        assert_eq!(&read[..], [0; 10]);
    });
}

async fn with_holes(client: &Nfs4, file: &Bytes, count: u32) -> (Vec<u8>, Vec<(u64, u64)>) {
    let (mut bytes, mut holes): (Vec<u8>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
    loop {
        let at = bytes.len() as u64;
        let read = client.read_plus(file, &ANONYMOUS, at, count).await.unwrap();
        for content in &read.rpr_contents {
            match content {
                read_plus_content::NFS4_CONTENT_DATA(data) => {
                    assert_eq!(data.d_offset, bytes.len() as u64);
                    bytes.extend(&data.d_data);
                }
                read_plus_content::NFS4_CONTENT_HOLE(hole) => {
                    assert_eq!(hole.di_offset, bytes.len() as u64);
                    bytes.resize(bytes.len() + hole.di_length as usize, 0);
                    match holes.last_mut() {
                        Some(last) if last.1 == hole.di_offset => last.1 += hole.di_length,
                        _ => holes.push((hole.di_offset, hole.di_offset + hole.di_length)),
                    }
                }
            }
        }
        assert!(bytes.len() as u64 - at <= u64::from(count));
        if read.rpr_eof {
            return (bytes, holes);
        }
        assert!(bytes.len() as u64 > at, "no end, and nothing read");
    }
}

#[test]
fn who_reads_is_told_of_holes() {
    in_world(73, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        const KIB: u64 = 1 << 10;
        let mut expected = vec![0; 3 << 20];
        let write = async |client: &Nfs4, expected: &mut Vec<u8>, offset: u64, bytes: &[u8]| {
            let written = client.write(&file, &ANONYMOUS, offset, bytes).await;
            assert_eq!(u64::from(written.unwrap().count), bytes.len() as u64);
            expected[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        // At the front, two with a small gap between, and the last byte; nothing else.
        write(&one, &mut expected, 0, &[1; 100]).await;
        write(&one, &mut expected, 1024 * KIB, &[2; 4096]).await;
        write(&one, &mut expected, 1056 * KIB, &[3; 4096]).await;
        write(&one, &mut expected, 3072 * KIB - 1, &[4]).await;
        let holes = vec![(4 * KIB, 1024 * KIB), (1060 * KIB, 3068 * KIB)];
        // Each gateway tells the same, one of what it has not yet written back; in whatever steps.
        for client in [&one, &two] {
            for count in [128 << 10, 300_001, 1 << 20, u32::MAX] {
                let (bytes, told) = with_holes(client, &file, count).await;
                assert!(bytes == expected, "{count}");
                let is_in_hole =
                    |hole: &(u64, u64)| holes.iter().any(|it| it.0 <= hole.0 && hole.1 <= it.1);
                assert!(told.iter().all(is_in_hole), "{told:?}");
                let total = |of: &[(u64, u64)]| of.iter().map(|it| it.1 - it.0).sum::<u64>();
                // What is left of a hole at the end of a step may be too small for its mention.
                let steps = (3 << 20) / u64::from(count).min(1 << 20) + 1;
                let least = total(&holes).saturating_sub(2 * 64 * KIB * steps);
                assert!(total(&told) >= least, "{count}: {told:?}");
            }
        }
        let all = with_holes(&two, &file, 1 << 20).await.1;
        assert_eq!(all, holes);
        // What another one writes into a hole is not told as one.
        write(&two, &mut expected, 512 * KIB, &[5; 10]).await;
        let (bytes, told) = with_holes(&one, &file, 1 << 20).await;
        assert!(bytes == expected);
        assert_eq!(told[..2], [(4 * KIB, 512 * KIB), (516 * KIB, 1024 * KIB)]);
        // A file without holes is told as READ tells it.
        let (full, _) = one.make(&root, "full").await;
        one.write(&full, &ANONYMOUS, 0, &[7; 200_000])
            .await
            .unwrap();
        let read = two
            .read_plus(&full, &ANONYMOUS, 1000, 150_000)
            .await
            .unwrap();
        let [read_plus_content::NFS4_CONTENT_DATA(data)] = &read.rpr_contents[..] else {
            panic!("{read:?}")
        };
        assert!(!read.rpr_eof && data.d_data == vec![7; 150_000]);
        // There is nothing behind the end, and who may not read is told nothing.
        for offset in [200_000, u64::MAX] {
            let read = two.read_plus(&full, &ANONYMOUS, offset, 10).await.unwrap();
            assert!(read.rpr_eof && read.rpr_contents.is_empty());
        }
        let (_, writing) = one
            .open(&root, "f", (2, 0), "writer", there())
            .await
            .unwrap();
        let made_up = stateid4 {
            seqid: 1,
            other: [9; 12],
        };
        let bad = one.read_plus(&file, &made_up, 0, 10).await;
        assert_eq!(bad.err(), Some(nfsstat4::NFS4ERR_BAD_STATEID));
        for state in [state, writing] {
            one.close(&file, &state).await.unwrap();
        }
    });
}

#[test]
fn what_is_not_done_is_refused_by_its_name() {
    in_world(80, async |world| {
        let (_group, _servers, [first, _]) = cluster(&world).await;
        let mut one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        one.write(&file, &state, 0, b"bytes").await.unwrap();
        let elsewhere = || netloc4::NL4_NAME(Bytes::from_static(b"another.example"));
        let refused = [
            OP_CLONE(CLONE4args {
                cl_src_stateid: state.clone(),
                cl_dst_stateid: state.clone(),
                cl_src_offset: 0,
                cl_dst_offset: 1 << 20,
                cl_count: 0,
            }),
            OP_IO_ADVISE(IO_ADVISE4args {
                iaa_stateid: state.clone(),
                iaa_offset: 0,
                iaa_count: 0,
                iaa_hints: vec![1 << IO_ADVISE_type4::IO_ADVISE4_SEQUENTIAL as u32],
            }),
            OP_OFFLOAD_CANCEL(OFFLOAD_CANCEL4args {
                oca_stateid: state.clone(),
            }),
            OP_OFFLOAD_STATUS(OFFLOAD_STATUS4args {
                osa_stateid: state.clone(),
            }),
            OP_COPY_NOTIFY(COPY_NOTIFY4args {
                cna_src_stateid: state.clone(),
                cna_destination_server: elsewhere(),
            }),
            OP_COPY(COPY4args {
                ca_src_stateid: state.clone(),
                ca_dst_stateid: state.clone(),
                ca_src_offset: 0,
                ca_dst_offset: 1 << 20,
                ca_count: 5,
                ca_consecutive: true,
                ca_synchronous: true,
                ca_source_server: vec![elsewhere()],
            }),
        ];
        for operation in refused {
            let number = operation.argop();
            for (minor, why) in [
                (2, nfsstat4::NFS4ERR_NOTSUPP),
                (1, nfsstat4::NFS4ERR_OP_ILLEGAL),
            ] {
                one.minor = minor;
                one.sequence.set(one.sequence.get() + 1);
                let sequence = one.sequence(one.sequence.get());
                let both = vec![sequence, put(&file), OP_SAVEFH, operation.clone(), OP_GETFH];
                let answer = one.call(both).await;
                // What stands before it is done, and nothing behind it.
                assert_eq!(
                    (answer.status, answer.resarray.len()),
                    (why, 4),
                    "{number:?}"
                );
                let named = match minor {
                    2 => number,
                    _ => nfs_opnum4::OP_ILLEGAL,
                };
                assert_eq!(answer.resarray[3].resop(), named);
            }
        }
        one.minor = MINOR;
        assert_eq!(one.getattr(&file).await.unwrap().0, 5);
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
