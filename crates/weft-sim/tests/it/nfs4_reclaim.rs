//! NFS clients of version 4 whose gateway dies, or is cut off, and what of opens and locks they find again
//! (`docs/protocols/nfs4.md`, "When a gateway dies").

use crate::compounds::{ANONYMOUS, Nfs4, made, put, there};
use crate::gates::{Gate, cluster};
use crate::group::{MS, SECOND, in_world};
use bytes::Bytes;
use std::cell::Cell;
use std::time::Duration;
use weft_sim::World;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;

const ALL: (nfs_lock_type4, u64, u64) = (nfs_lock_type4::WRITE_LT, 0, u64::MAX);
const SHARED: (nfs_lock_type4, u64, u64) = (nfs_lock_type4::READ_LT, 0, 100);

/// A client that comes to a gateway and may have something to reclaim.
async fn comes(world: &World, gate: &Gate, name: &str, life: u8) -> Nfs4 {
    let mut client = Nfs4::connect(world, gate, 0).await;
    client.meets(name, life).await.unwrap();
    client
}

async fn completes(client: &Nfs4) {
    let complete = OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
    client.does(vec![complete]).await.unwrap();
}

/// Opens again what an owner had open.
async fn reopen(
    client: &Nfs4,
    file: &Bytes,
    share: (u32, u32),
    owner: &str,
) -> Result<stateid4, nfsstat4> {
    let nothing = open_delegation_type4::OPEN_DELEGATE_NONE;
    let opened = reopen_given(client, file, share, owner, nothing).await?;
    assert_eq!(opened.1, open_delegation4::OPEN_DELEGATE_NONE);
    Ok(opened.0)
}

/// The same, of a file that it was given.
async fn reopen_given(
    client: &Nfs4,
    file: &Bytes,
    (access, deny): (u32, u32),
    owner: &str,
    given: open_delegation_type4,
) -> Result<(stateid4, open_delegation4), nfsstat4> {
    let open = OP_OPEN(OPEN4args {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: state_owner4 {
            clientid: client.client,
            owner: owner.to_owned().into(),
        },
        openhow: there(),
        claim: open_claim4::CLAIM_PREVIOUS(given),
    });
    match &client.does(vec![put(file), open]).await?[..] {
        [_, nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened))] => {
            Ok((opened.stateid.clone(), opened.delegation.clone()))
        }
        other => panic!("{other:?}"),
    }
}

/// The same, asked again as long as it is to wait.
async fn reopen_soon(
    world: &World,
    client: &Nfs4,
    file: &Bytes,
    share: (u32, u32),
    given: open_delegation_type4,
) -> Result<(stateid4, open_delegation4), nfsstat4> {
    loop {
        match reopen_given(client, file, share, "me", given).await {
            Err(nfsstat4::NFS4ERR_DELAY) => world.sleep(50 * MS).await,
            opened => return opened,
        }
    }
}

/// Locks again what an owner had locked.
async fn relock(
    client: &Nfs4,
    file: &Bytes,
    open: &stateid4,
    owner: &str,
    (locktype, offset, length): (nfs_lock_type4, u64, u64),
) -> Result<stateid4, nfsstat4> {
    let lock = OP_LOCK(LOCK4args {
        locktype,
        reclaim: true,
        offset,
        length,
        locker: locker4::TRUE(open_to_lock_owner4 {
            open_seqid: 0,
            open_stateid: open.clone(),
            lock_seqid: 0,
            lock_owner: state_owner4 {
                clientid: client.client,
                owner: owner.to_owned().into(),
            },
        }),
    });
    match &client.does(vec![put(file), lock]).await?[..] {
        [_, nfs_resop4::OP_LOCK(LOCK4res::NFS4_OK(locked))] => Ok(locked.lock_stateid.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn locks_outlive_their_gateway_and_nobody_else_gets_them() {
    in_world(81, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one.make(&root, "f").await;
        one.write(&file, &open, 0, b"mine").await.unwrap();
        one.lock(&file, &open, "p", ALL).await.unwrap();
        let (_, of_other) = other.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        first.kill();
        let start = world.now();
        // For as long as the client may take.
        for _ in 0..40 {
            let refused = other.lock(&file, &of_other, "q", SHARED).await;
            assert!(refused.is_err());
            world.sleep(100 * MS).await;
        }
        let again = comes(&world, &second, "one", 1).await;
        let early = again.open(&root, "f", (3, 0), "me", there()).await;
        assert_eq!(early.unwrap_err(), nfsstat4::NFS4ERR_GRACE);
        let open = reopen(&again, &file, (3, 0), "me").await.unwrap();
        // Only what it had, and only who had it.
        let wrong = relock(&again, &file, &open, "other", ALL).await;
        assert_eq!(wrong.unwrap_err(), nfsstat4::NFS4ERR_RECLAIM_BAD);
        let lock = relock(&again, &file, &open, "p", ALL).await.unwrap();
        completes(&again).await;
        assert!(world.now() - start > 4 * SECOND);
        assert!(other.lock(&file, &of_other, "q", SHARED).await.is_err());
        again.write(&file, &lock, 0, b"still").await.unwrap();
        again.unlock(&file, &lock, 0, u64::MAX).await;
        other.lock(&file, &of_other, "q", SHARED).await.unwrap();
        // It is over.
        let late = relock(&again, &file, &open, "p", ALL).await;
        assert_eq!(late.unwrap_err(), nfsstat4::NFS4ERR_NO_GRACE);
        let late = reopen(&again, &file, (3, 0), "me").await;
        assert_eq!(late.unwrap_err(), nfsstat4::NFS4ERR_NO_GRACE);
    });
}

#[test]
fn a_client_goes_on_with_its_locks_at_once() {
    in_world(82, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one.make(&root, "f").await;
        one.lock(&file, &open, "p", ALL).await.unwrap();
        one.write(&file, &open, 0, b"before").await.unwrap();
        first.kill();
        let start = world.now();
        // The session of the gateway has not ended yet.
        let again = comes(&world, &second, "one", 1).await;
        let open = reopen(&again, &file, (3, 0), "me").await.unwrap();
        let lock = relock(&again, &file, &open, "p", ALL).await.unwrap();
        completes(&again).await;
        let (read, _) = again.read(&file, &lock, 0, 100).await.unwrap();
        assert_eq!(&read[..], b"before");
        again.write(&file, &lock, 0, b"behind").await.unwrap();
        let took = world.now() - start;
        assert!(took < Duration::from_secs(2), "{took:?}");
        // When that session has ended, its locks are still the client's.
        world.sleep(3 * SECOND).await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let (_, of_other) = other.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        assert!(other.lock(&file, &of_other, "q", ALL).await.is_err());
    });
}

#[test]
fn who_does_not_come_back_keeps_nobody_waiting_for_ever() {
    in_world(83, async |world| {
        let (group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &first, 0, "two").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, of_one) = one.make(&root, "f").await;
        one.lock(&file, &of_one, "p", (nfs_lock_type4::WRITE_LT, 0, 10))
            .await
            .unwrap();
        let (_, of_two) = two.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        two.lock(&file, &of_two, "p", (nfs_lock_type4::WRITE_LT, 10, 10))
            .await
            .unwrap();
        let (_, of_other) = other.open(&root, "f", (3, 0), "me", there()).await.unwrap();
        first.kill();
        world.sleep(3 * SECOND).await;
        // One comes, and wants nothing of what it had.
        let again = comes(&world, &second, "one", 1).await;
        completes(&again).await;
        world.sleep(SECOND).await;
        let part = |start| (nfs_lock_type4::WRITE_LT, start, 10);
        other.lock(&file, &of_other, "q", part(0)).await.unwrap();
        // The other one does not come. Who leads does not matter.
        assert!(other.lock(&file, &of_other, "r", part(10)).await.is_err());
        group.kill(group.active().unwrap());
        world.sleep(15 * SECOND).await;
        assert!(other.lock(&file, &of_other, "r", part(10)).await.is_err());
        world.sleep(10 * SECOND).await;
        other.does(vec![OP_PUTROOTFH]).await.unwrap();
        other.lock(&file, &of_other, "r", part(10)).await.unwrap();
    });
}

#[test]
fn a_client_that_started_again_has_not_what_it_had_before() {
    in_world(84, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one.make(&root, "f").await;
        one.lock(&file, &open, "p", ALL).await.unwrap();
        first.kill();
        let again = comes(&world, &second, "one", 2).await;
        let open = reopen(&again, &file, (3, 0), "me").await.unwrap();
        let refused = relock(&again, &file, &open, "p", ALL).await;
        assert_eq!(refused.unwrap_err(), nfsstat4::NFS4ERR_RECLAIM_BAD);
    });
}

#[test]
fn a_gateway_that_was_cut_off_keeps_its_clients_locks() {
    in_world(85, async |world| {
        let (group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one
            .open(&root, "f", (3, 2), "me", made(0o644))
            .await
            .unwrap();
        let lock = one.lock(&file, &open, "p", ALL).await.unwrap();
        let servers: Vec<String> = (0..3)
            .map(|member| group.address(member).split(':').next().unwrap().to_owned())
            .collect();
        for server in &servers {
            world.net().cut(&first.node.name(), server);
        }
        let refused = async || {
            let open = other.open(&root, "f", (2, 0), "me", there()).await;
            assert_eq!(open.unwrap_err(), nfsstat4::NFS4ERR_SHARE_DENIED);
            let (_, open) = other.open(&root, "f", (1, 0), "me", there()).await.unwrap();
            assert!(other.lock(&file, &open, "q", SHARED).await.is_err());
            other.close(&file, &open).await.unwrap();
        };
        // Its session with the metadata service ends.
        for _ in 0..6 {
            world.sleep(SECOND).await;
            refused().await;
        }
        for server in &servers {
            world.net().heal_between(&first.node.name(), server);
        }
        let written = loop {
            world.sleep(200 * MS).await;
            match one.write(&file, &lock, 0, b"mine").await {
                Err(nfsstat4::NFS4ERR_DELAY) => {}
                written => break written,
            }
        };
        written.unwrap();
        refused().await;
        one.unlock(&file, &lock, 0, u64::MAX).await;
        one.close(&file, &open).await.unwrap();
        other.open(&root, "f", (3, 3), "me", there()).await.unwrap();
    });
}

#[test]
fn what_one_denies_others_may_not_have_by_way_of_any_gateway() {
    in_world(86, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let two = Nfs4::to(&world, &second, 0, "two").await;
        let root = one.walk(&[]).await.unwrap();
        let denied = nfsstat4::NFS4ERR_SHARE_DENIED;
        for number in 0..5 {
            let (file, open) = one.make(&root, &format!("f{number}")).await;
            one.close(&file, &open).await.unwrap();
        }
        // Of every pair the second is let in if neither denies what the other does.
        for (number, pair) in (0..3 * 4 * 3 * 4).enumerate() {
            let mine = (1 + pair % 3, pair / 3 % 4);
            let its = (1 + pair / 12 % 3, pair / 36);
            let name = format!("f{}", number % 5);
            let (file, open) = one.open(&root, &name, mine, "me", there()).await.unwrap();
            if number % 2 == 0 {
                // The other gateway has looked at it.
                two.getattr(&file).await.unwrap();
            }
            let fits = mine.0 & its.1 == 0 && its.0 & mine.1 == 0;
            let opened = two.open(&root, &name, its, "me", there()).await;
            match opened {
                Ok((_, state)) if fits => two.close(&file, &state).await.unwrap(),
                Err(status) if !fits => assert_eq!(status, denied),
                other => panic!("{mine:?}, {its:?}: {other:?}"),
            }
            one.close(&file, &open).await.unwrap();
            let (_, state) = two.open(&root, &name, its, "me", there()).await.unwrap();
            two.close(&file, &state).await.unwrap();
        }
    });
}

#[test]
fn what_was_denied_is_denied_when_the_gateway_is_dead() {
    in_world(87, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, _) = one
            .open(&root, "f", (3, 2), "me", made(0o644))
            .await
            .unwrap();
        first.kill();
        world.sleep(3 * SECOND).await;
        let write = || other.open(&root, "f", (2, 0), "me", there());
        let denied = nfsstat4::NFS4ERR_SHARE_DENIED;
        assert_eq!(write().await.unwrap_err(), denied);
        let again = comes(&world, &second, "one", 1).await;
        let wrong = reopen(&again, &file, (3, 3), "me").await;
        assert_eq!(wrong.unwrap_err(), nfsstat4::NFS4ERR_RECLAIM_BAD);
        let open = reopen(&again, &file, (3, 2), "me").await.unwrap();
        completes(&again).await;
        assert_eq!(write().await.unwrap_err(), denied);
        again.close(&file, &open).await.unwrap();
        write().await.unwrap();
    });
}

#[test]
fn a_file_that_was_removed_stays_with_who_had_it_open() {
    in_world(88, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, open) = one.make(&root, "f").await;
        one.write(&file, &open, 0, b"kept").await.unwrap();
        let remove = OP_REMOVE(REMOVE4args {
            target: Bytes::from_static(b"f"),
        });
        other.does(vec![put(&root), remove]).await.unwrap();
        first.kill();
        world.sleep(3 * SECOND).await;
        // It is nobody else's.
        let stale = other.read(&file, &ANONYMOUS, 0, 10).await;
        assert_eq!(stale.unwrap_err(), nfsstat4::NFS4ERR_STALE);
        let again = comes(&world, &second, "one", 1).await;
        let open = reopen(&again, &file, (3, 0), "me").await.unwrap();
        completes(&again).await;
        let (read, _) = again.read(&file, &open, 0, 10).await.unwrap();
        assert_eq!(&read[..], b"kept");
        // It is not kept for anybody any more, but open.
        for _ in 0..3 {
            world.sleep(10 * SECOND).await;
            again.does(vec![OP_PUTROOTFH]).await.unwrap();
        }
        again.write(&file, &open, 4, b", and more").await.unwrap();
        again.close(&file, &open).await.unwrap();
        world.sleep(20 * SECOND).await;
        let gone = again.read(&file, &ANONYMOUS, 0, 10).await;
        assert_eq!(gone.unwrap_err(), nfsstat4::NFS4ERR_STALE);
    });
}

#[test]
fn what_a_client_keeps_of_a_dead_gateways_file_nobody_changes_before_it_has_been_heard_of() {
    in_world(89, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let looks = Nfs4::to(&world, &second, 0, "looks").await;
        let root = one.walk(&[]).await.unwrap();
        for comes_back in [false, true] {
            let name = format!("f-{comes_back}");
            let (file, open) = one.make(&root, &name).await;
            one.write(&file, &open, 0, b"before").await.unwrap();
            one.close(&file, &open).await.unwrap();
        }
        let kept = one.keep(&root, "f-true").await.unwrap().0;
        assert!(one.keep(&root, "f-false").await.is_some());
        // It reads by itself, and does not know that its gateway is dead.
        first.kill();
        world.sleep(3 * SECOND).await;
        let is_written = Cell::new(false);
        let start = world.now();
        let write = async {
            let written = loop {
                match other.write(&kept, &ANONYMOUS, 0, b"behind").await {
                    Err(nfsstat4::NFS4ERR_DELAY) => world.sleep(50 * MS).await,
                    written => break written,
                }
            };
            written.unwrap();
            is_written.set(true);
        };
        let comes = async {
            for _ in 0..8 {
                world.sleep(SECOND).await;
                assert!(!is_written.get(), "changed under a client that keeps it");
            }
            let (read, _) = looks.read(&kept, &ANONYMOUS, 0, 10).await.unwrap();
            assert_eq!(&read[..], b"before");
            let again = comes(&world, &second, "one", 1).await;
            completes(&again).await;
        };
        futures_util::join!(write, comes);
        assert!(world.now() - start < 9 * SECOND);
        assert!(is_written.get());
    });
}

#[test]
fn what_a_client_keeps_for_itself_is_its_own_when_the_gateway_is_dead() {
    in_world(90, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, _) = one.have(&root, "f").await;
        first.kill();
        world.sleep(3 * SECOND).await;
        let is_opened = Cell::new(None);
        let open = async {
            let open = loop {
                match other.open(&root, "f", (3, 0), "me", there()).await {
                    // The other client is about to have it again.
                    Err(nfsstat4::NFS4ERR_DELAY) => world.sleep(100 * MS).await,
                    opened => break opened.unwrap().1,
                }
            };
            is_opened.set(Some(world.now()));
            other.lock(&file, &open, "q", ALL).await
        };
        let back = async {
            world.sleep(5 * SECOND).await;
            assert!(
                is_opened.get().is_none(),
                "opened under a client that has it"
            );
            let again = comes(&world, &second, "one", 1).await;
            let open = reopen(&again, &file, (3, 0), "me").await.unwrap();
            // It had locked it by itself.
            let lock = relock(&again, &file, &open, "p", ALL).await.unwrap();
            completes(&again).await;
            again.write(&file, &lock, 0, b"kept").await.unwrap();
        };
        let (locked, ()) = futures_util::join!(open, back);
        assert!(locked.is_err(), "locked by two");
        assert!(is_opened.get().is_some());
    });
}

/// As Linux does: what it has locked by itself it does not reclaim while it believes that it has the file.
#[test]
fn a_file_that_a_client_had_it_has_again_with_all_that_it_locked_by_itself() {
    for seed in 100..110 {
        in_world(seed, async move |world| {
            let (_group, _servers, [first, second]) = cluster(&world).await;
            let one = Nfs4::to(&world, &first, 0, "one").await;
            let near = Nfs4::to(&world, &second, 0, "near").await;
            let root = one.walk(&[]).await.unwrap();
            let (file, _) = one.have(&root, "f").await;
            first.kill();
            // Before the gateway's session ends, or after.
            let pause = world.rng("pause").below(3_000) as u32 * MS;
            let (is_locked, is_over) = (Cell::new(false), Cell::new(false));
            let tries = async {
                // By the gateway that the client comes to.
                while !is_over.get() {
                    if let Ok((_, open)) = near.open(&root, "f", (3, 0), "me", there()).await {
                        is_locked.set(near.lock(&file, &open, "q", ALL).await.is_ok());
                        near.close(&file, &open).await.unwrap();
                    }
                    world.sleep(50 * MS).await;
                }
            };
            let back = async {
                world.sleep(pause).await;
                let again = comes(&world, &second, "one", 1).await;
                let writing = open_delegation_type4::OPEN_DELEGATE_WRITE;
                let (open, given) = reopen_soon(&world, &again, &file, (3, 0), writing)
                    .await
                    .unwrap();
                let open_delegation4::OPEN_DELEGATE_WRITE(given) = given else {
                    panic!("it believes in what it had, and was told {given:?}")
                };
                completes(&again).await;
                while again.asked.recalls.borrow().is_empty() {
                    assert!(!is_locked.get());
                    world.sleep(10 * MS).await;
                }
                assert!(!is_locked.get(), "locked by two");
                let lock = again.lock(&file, &open, "p", ALL).await.unwrap();
                again.give_back(&file, &given.stateid).await;
                world.sleep(SECOND).await;
                assert!(!is_locked.get(), "locked by two");
                again.write(&file, &lock, 0, b"kept").await.unwrap();
                is_over.set(true);
            };
            futures_util::join!(tries, back);
        });
    }
}

#[test]
fn a_client_has_not_again_what_it_did_not_have() {
    in_world(110, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, _) = one.make(&root, "f").await;
        first.kill();
        let again = comes(&world, &second, "one", 1).await;
        let writing = open_delegation_type4::OPEN_DELEGATE_WRITE;
        let opened = reopen_soon(&world, &again, &file, (3, 0), writing).await;
        assert_eq!(opened.unwrap_err(), nfsstat4::NFS4ERR_RECLAIM_BAD);
        // Nothing is left of that.
        let opened = reopen(&again, &file, (3, 0), "me").await.unwrap();
        again.write(&file, &opened, 0, b"mine").await.unwrap();
    });
}

#[test]
fn a_file_that_a_client_had_for_reading_it_has_again_until_it_is_asked_for_it() {
    in_world(120, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = other.walk(&[]).await.unwrap();
        let (file, open) = other.make(&root, "f").await;
        other.write(&file, &open, 0, b"before").await.unwrap();
        other.close(&file, &open).await.unwrap();
        one.keep(&root, "f").await.unwrap();
        first.kill();
        world.sleep(2 * SECOND).await;
        let again = comes(&world, &second, "one", 1).await;
        let reading = open_delegation_type4::OPEN_DELEGATE_READ;
        let opened = reopen_soon(&world, &again, &file, (1, 0), reading)
            .await
            .unwrap();
        let open_delegation4::OPEN_DELEGATE_READ(given) = opened.1 else {
            panic!("it believes in what it had, and was told {:?}", opened.1)
        };
        completes(&again).await;
        let is_written = Cell::new(false);
        let write = async {
            other.write(&file, &ANONYMOUS, 0, b"behind").await.unwrap();
            is_written.set(true);
        };
        let gives_back = async {
            while again.asked.recalls.borrow().is_empty() {
                assert!(!is_written.get(), "nobody was asked for it");
                world.sleep(MS).await;
            }
            let read = again.read(&file, &given.stateid, 0, 100).await.unwrap();
            assert_eq!(read.0, "before");
            again.give_back(&file, &given.stateid).await;
        };
        futures_util::join!(write, gives_back);
    });
}

/// What it has locked to read, that is: who has a file for reading locks it so by itself.
#[test]
fn nobody_locks_alone_what_a_client_of_a_dead_gateway_may_have_locked() {
    in_world(121, async |world| {
        let (_group, _servers, [first, second]) = cluster(&world).await;
        let one = Nfs4::to(&world, &first, 0, "one").await;
        let other = Nfs4::to(&world, &second, 0, "other").await;
        let root = other.walk(&[]).await.unwrap();
        let (file, open) = other.make(&root, "f").await;
        other.write(&file, &open, 0, b"before").await.unwrap();
        one.keep(&root, "f").await.unwrap();
        first.kill();
        let is_locked = Cell::new(false);
        let is_back = Cell::new(false);
        let tries = async {
            while !is_back.get() {
                is_locked.set(other.lock(&file, &open, "q", ALL).await.is_ok());
                assert!(!is_locked.get(), "locked by two");
                world.sleep(50 * MS).await;
            }
            // Together with others that read.
            other.lock(&file, &open, "r", SHARED).await.unwrap();
        };
        let back = async {
            world.sleep(5 * SECOND).await;
            let again = comes(&world, &second, "one", 1).await;
            let open = reopen(&again, &file, (1, 0), "me").await.unwrap();
            let more = relock(&again, &file, &open, "p", ALL).await;
            assert_eq!(more.unwrap_err(), nfsstat4::NFS4ERR_OPENMODE);
            relock(&again, &file, &open, "p", SHARED).await.unwrap();
            completes(&again).await;
            world.sleep(SECOND).await;
            is_back.set(true);
        };
        futures_util::join!(tries, back);
    });
}

/// They have not used it since it was given, and it has to have it again to tell what it has locked.
#[test]
fn who_has_a_file_again_that_others_have_open_is_asked_for_it_at_once() {
    for seed in 130..140 {
        in_world(seed, async move |world| {
            let (_group, _servers, [first, second]) = cluster(&world).await;
            let one = Nfs4::to(&world, &first, 0, "one").await;
            let near = Nfs4::to(&world, &second, 0, "near").await;
            let root = one.walk(&[]).await.unwrap();
            let (file, of_near) = near.make(&root, "f").await;
            let wants = 3 | OPEN4_SHARE_ACCESS_WANT_ANY_DELEG;
            let (.., given) = one.open_wanting(&root, "f", wants, there()).await;
            assert!(matches!(given, open_delegation4::OPEN_DELEGATE_WRITE(_)));
            first.kill();
            let pause = world.rng("pause").below(3_000) as u32 * MS;
            let is_over = Cell::new(false);
            let tries = async {
                while !is_over.get() {
                    let locked = near.lock(&file, &of_near, "q", ALL).await;
                    assert!(locked.is_err(), "locked by two");
                    world.sleep(50 * MS).await;
                }
            };
            let back = async {
                world.sleep(pause).await;
                let again = comes(&world, &second, "one", 1).await;
                let writing = open_delegation_type4::OPEN_DELEGATE_WRITE;
                let (open, given) = reopen_soon(&world, &again, &file, (3, 0), writing)
                    .await
                    .unwrap();
                let open_delegation4::OPEN_DELEGATE_WRITE(given) = given else {
                    panic!("it believes in what it had, and was told {given:?}")
                };
                assert!(given.recall);
                completes(&again).await;
                let lock = again.lock(&file, &open, "p", ALL).await.unwrap();
                again.recalled(&world).await;
                again.write(&file, &lock, 0, b"kept").await.unwrap();
                again.give_back(&file, &given.stateid).await;
                // It has one call under way at a time.
                is_over.set(true);
                world.sleep(SECOND).await;
                let (read, ..) = near.read(&file, &of_near, 0, 10).await.unwrap();
                assert_eq!(read, "kept");
            };
            futures_util::join!(tries, back);
        });
    }
}

/// Others that wait until it has been heard of do not keep from it what it needs to have it again.
#[test]
fn a_client_has_a_file_again_whoever_waits_for_it() {
    for seed in 140..150 {
        in_world(seed, async move |world| {
            let (group, _servers, [first, second]) = cluster(&world).await;
            let one = Nfs4::to(&world, &first, 0, "one").await;
            let near = Nfs4::to(&world, &second, 0, "near").await;
            let mount = group.client("mount").await;
            let cred = weft_client::Cred::default();
            let root = one.walk(&[]).await.unwrap();
            let (file, _) = one.have(&root, "f").await;
            let found = mount.lookup(&cred, mount.root(), b"f").await.unwrap();
            let ino = found.entry.unwrap().attr.ino;
            first.kill();
            let given = Cell::new(false);
            let writes = async {
                let writing = weft_client::OpenFlags {
                    write: true,
                    ..Default::default()
                };
                let handle = mount.open(&cred, ino, writing).await.unwrap();
                let bytes = Bytes::from_static(b"mount");
                mount.write(handle, 0, bytes, false).await.unwrap();
                mount.fsync(handle, false).await.unwrap();
                assert!(given.get(), "changed under a client that has it");
            };
            let writes_near = async {
                while near.write(&file, &ANONYMOUS, 8, b"near").await.is_err() {
                    world.sleep(20 * MS).await;
                }
                assert!(given.get(), "changed under a client that has it");
            };
            let back = async {
                world
                    .sleep(world.rng("pause").below(4_000) as u32 * MS)
                    .await;
                let again = comes(&world, &second, "one", 1).await;
                let writing = open_delegation_type4::OPEN_DELEGATE_WRITE;
                let start = world.now();
                let (_, had) = reopen_soon(&world, &again, &file, (3, 0), writing)
                    .await
                    .unwrap();
                assert!(world.now() - start < 3 * SECOND);
                let open_delegation4::OPEN_DELEGATE_WRITE(had) = had else {
                    panic!("it believes in what it had, and was told {had:?}")
                };
                completes(&again).await;
                again.recalled(&world).await;
                again.write(&file, &had.stateid, 0, b"kept").await.unwrap();
                given.set(true);
                again.give_back(&file, &had.stateid).await;
            };
            futures_util::join!(writes, writes_near, back);
        });
    }
}

#[test]
fn what_one_denied_of_a_file_that_it_had_it_denies_again() {
    for pause in [100 * MS, 3 * SECOND] {
        in_world(150, async move |world| {
            let (_group, _servers, [first, second]) = cluster(&world).await;
            let one = Nfs4::to(&world, &first, 0, "one").await;
            let near = Nfs4::to(&world, &second, 0, "near").await;
            let root = one.walk(&[]).await.unwrap();
            let (file, _) = one.have(&root, "f").await;
            one.open(&root, "f", (3, 2), "me", there()).await.unwrap();
            first.kill();
            world.sleep(pause).await;
            let again = comes(&world, &second, "one", 1).await;
            let open = loop {
                match reopen(&again, &file, (3, 2), "me").await {
                    Err(nfsstat4::NFS4ERR_DELAY) => world.sleep(50 * MS).await,
                    opened => break opened.unwrap(),
                }
            };
            completes(&again).await;
            again.write(&file, &open, 0, b"mine").await.unwrap();
            let denied = near.open(&root, "f", (3, 0), "me", there()).await;
            assert_eq!(denied.unwrap_err(), nfsstat4::NFS4ERR_SHARE_DENIED);
        });
    }
}
