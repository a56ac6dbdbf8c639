//! A client of two replica groups: who is asked for what, and what the loss of one session leaves
//! (`docs/protocols/partition.md`, "Clients").

mod fakes;

use bytes::Bytes;
use fakes::*;
use futures_util::future::{LocalBoxFuture, join};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;
use weft_sim::Pace;
use weft_wire::proto::{self, LeaseMode, op};

fn root() -> Cred {
    Cred::default()
}

/// The inode of a name in the root directory.
async fn find(client: &Client, name: &str) -> Option<u64> {
    let found = client.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
    found.entry.map(|known| known.attr.ino)
}

async fn open(client: &Client, ino: u64) -> HandleId {
    client.open(&root(), ino, RW).await.unwrap()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

fn is_leased(client: &Client, ino: u64) -> bool {
    client.leases().iter().any(|held| held.ino == ino)
}

#[test]
fn attributes_of_another_group_s_inode_are_asked_there() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        other.put(file(there(5)));
        first.name(ROOT, "f", there(5));
        let client = bed.client(&[0]).await;
        assert_eq!(first.take_asked(), ["open session"]);
        assert_eq!(client.sessions().len(), 1, "none that nobody needs");
        let found = client.lookup(&root(), ROOT, b"f").await.unwrap();
        let known = found.entry.unwrap();
        assert_eq!((known.attr.ino, known.attr.mode), (there(5), 0o644));
        assert!(known.leased && found.name_leased);
        assert!(client.keeps_name(ROOT, b"f", there(5)));
        assert_eq!(first.take_asked(), ["lookup f"]);
        let get = format!("get {:x}", there(5));
        assert_eq!(other.take_asked(), ["open session", &get]);
        // Both know it by their leases.
        assert_eq!(find(&client, "f").await, Some(there(5)));
        assert_eq!(
            (first.take_asked(), other.take_asked()),
            (nothing(), nothing())
        );
        // Without the inode's lease, its group is asked, and the name is still known.
        other.revoke(there(5), LeaseMode::LeaseRead, false).await;
        assert_eq!(find(&client, "f").await, Some(there(5)));
        assert_eq!(
            (first.take_asked(), other.take_asked()),
            (nothing(), vec![get.clone()])
        );
        // Without the directory's, its group is.
        first.revoke(ROOT, LeaseMode::LeaseRead, false).await;
        assert!(!client.keeps_name(ROOT, b"f", there(5)));
        assert_eq!(find(&client, "f").await, Some(there(5)));
        assert_eq!(
            (first.take_asked(), other.take_asked()),
            (vec!["lookup f".into()], nothing())
        );
        let sessions = client.sessions();
        assert_eq!(sessions.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(sessions[1].1 >> 48, 1);
    });
}

#[test]
fn a_name_that_is_asked_back_while_its_inode_is_asked_for_is_not_kept() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        other.put(file(there(5)));
        first.name(ROOT, "f", there(5));
        let client = bed.client(&[0]).await;
        let asking = first.clone();
        *other.before_inode.borrow_mut() = Some(Box::new(move |group, _| {
            let asking = asking.clone();
            group.env.spawn("revocation", async move {
                asking.revoke(ROOT, LeaseMode::LeaseRead, false).await;
            });
        }));
        // Long enough for the lease to go before the answer comes.
        let slow = Pace {
            latency: 30_000_000..31_000_000,
            ..Pace::default()
        };
        bed.world.net().set_pace("m1", "c", slow);
        let found = client.lookup(&root(), ROOT, b"f").await.unwrap();
        assert!(found.entry.unwrap().leased && !found.name_leased);
    });
}

#[test]
fn a_name_whose_inode_is_gone_is_looked_up_again() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        first.name(ROOT, "replaced", there(5));
        first.name(ROOT, "removed", there(6));
        other.put(file(there(7)));
        let client = bed.client(&[0]).await;
        let changed = first.clone();
        *other.before_inode.borrow_mut() = Some(Box::new(move |_, ino| match *ino {
            ino if ino == there(5) => changed.name(ROOT, "replaced", there(7)),
            ino if ino == there(6) => changed.unname(ROOT, "removed"),
            _ => {}
        }));
        assert_eq!(find(&client, "replaced").await, Some(there(7)));
        assert_eq!(first.take_asked().len(), 3, "a session, and two lookups");
        assert_eq!(find(&client, "removed").await, None);
        assert_eq!(first.take_asked().len(), 2);
        // One that its directory holds on to is not looked up for ever.
        first.name(ROOT, "lost", there(9));
        let lost = client.lookup(&root(), ROOT, b"lost").await;
        assert_eq!(lost.unwrap_err(), Errno(libc::ESTALE));
        assert!((2..=32).contains(&first.take_asked().len()));
    });
}

#[test]
fn an_inode_is_asked_for_where_the_client_knows_it_to_be() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        // As a service would whose slots differ from the view's.
        first.put(file(here(5)));
        first.name(ROOT, "f", here(5));
        first.confused.set(true);
        let client = bed.client(&[0]).await;
        assert_eq!(find(&client, "f").await, Some(here(5)));
        assert_eq!(other.take_asked(), nothing());
    });
}

#[test]
fn groups_that_send_on_to_each_other_are_not_asked_for_ever() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        first.name(ROOT, "f", there(5));
        let client = bed.client(&[0]).await;
        for group in [first, other] {
            group.sends_away.set(true);
        }
        let begun = bed.world.now();
        let found = client.lookup(&root(), ROOT, b"f").await;
        assert_eq!(found.unwrap_err(), Errno(libc::EIO));
        // Until the patience is over, and at leisure: four hops, then one in five milliseconds.
        let patience = Duration::from_secs(10);
        let taken = bed.world.now() - begun;
        assert!(taken >= patience && taken < 2 * patience, "{taken:?}");
        let asked = first.take_asked().len() + other.take_asked().len();
        assert!((100..2_100).contains(&asked), "{asked}");
    });
}

/// A client that has a file of each group open, with bytes that are not on the servers yet, and a lock.
async fn writer(bed: &Bed) -> (Client, [HandleId; 2]) {
    let [first, other] = &bed.groups;
    first.put(file(here(5)));
    first.name(ROOT, "h", here(5));
    other.put(file(there(5)));
    first.name(ROOT, "t", there(5));
    let client = bed.client(&[0]).await;
    for name in ["h", "t"] {
        find(&client, name).await.unwrap();
    }
    let handles = [open(&client, here(5)).await, open(&client, there(5)).await];
    for (handle, ino) in handles.into_iter().zip([here(5), there(5)]) {
        let data = Bytes::from_static(b"written");
        client.write(handle, 0, data, false).await.unwrap();
        let lock = FileLock {
            kind: proto::file_lock::Kind::Exclusive as i32,
            flock: true,
            owner: 9,
            ..FileLock::default()
        };
        client.setlk(&root(), ino, lock, false).await.unwrap();
    }
    (client, handles)
}

async fn read(client: &Client, handle: HandleId) -> Vec<u8> {
    client.read(handle, 0, 100).await.unwrap().concat()
}

#[test]
fn the_loss_of_one_session_leaves_what_the_other_granted() {
    for lost in [0, 1] {
        with_groups(async move |bed| {
            let (client, handles) = writer(&bed).await;
            let before = client.sessions();
            let inos = [here(5), there(5)];
            let (gone, stays) = (&bed.groups[lost], &bed.groups[1 - lost]);
            gone.end_session(before[lost].1);
            stays.take_asked();
            while client.sessions()[lost].1 == before[lost].1 {
                bed.sleep(10).await;
            }
            bed.sleep(100).await;
            let after = client.sessions();
            assert_eq!(after[1 - lost], before[1 - lost]);
            assert!(after[lost].1 > before[lost].1, "a new one");
            // The other's lease is held, and what is owed under it stands.
            assert!(is_leased(&client, inos[1 - lost]));
            assert_eq!(read(&client, handles[1 - lost]).await, b"written");
            assert_eq!(stays.take_asked(), nothing());
            client.fsync(handles[1 - lost], false).await.unwrap();
            assert_eq!(bed.data.bytes.borrow()[&inos[1 - lost]], b"written");
            // What was owed to the group whose session was lost is lost, and said so.
            let synced = client.fsync(handles[lost], false).await;
            assert_eq!(synced.unwrap_err(), Errno(libc::EIO));
            assert!(!bed.data.bytes.borrow().contains_key(&inos[lost]));
            // The locks that went with the session are not given back, the others are.
            for handle in handles {
                client.release(handle, Some(9)).await.unwrap();
            }
            let locks = |group: &Group| {
                let asked = group.take_asked();
                asked.iter().filter(|it| it.starts_with("lock")).count()
            };
            assert_eq!((locks(gone), locks(stays)), (1, 1), "taken, and given back");
        });
    }
}

#[test]
fn a_connection_that_breaks_gives_back_what_its_group_lent_only() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        assert!(is_leased(&client, ROOT));
        other.put(file(there(8)));
        client.getattr(there(8)).await.unwrap();
        assert!(is_leased(&client, there(8)));
        first.take_asked();
        other.take_asked();
        other.break_connection();
        bed.sleep(200).await;
        let taken_up = format!("take up [{:x}] [{:x}]", there(5), there(5));
        assert_eq!(other.take_asked(), [taken_up]);
        assert!(!is_leased(&client, there(8)));
        assert!(is_leased(&client, ROOT) && is_leased(&client, there(5)));
        first.break_connection();
        bed.sleep(200).await;
        let taken_up = format!("take up [{:x}] [{:x}]", here(5), here(5));
        assert_eq!(first.take_asked(), [taken_up]);
        assert!(!is_leased(&client, ROOT) && is_leased(&client, here(5)));
        for handle in handles {
            client.fsync(handle, false).await.unwrap();
        }
    });
}

#[test]
fn a_group_that_is_away_holds_up_its_own_only() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        other.silent.set(true);
        bed.sleep(2 * TERM.as_millis() as u64).await;
        // Nothing of it is believed, and the other is served.
        assert!(!is_leased(&client, there(5)) && is_leased(&client, here(5)));
        assert_eq!(find(&client, "h").await, Some(here(5)));
        client.fsync(handles[0], false).await.unwrap();
        let late = client.getattr(there(5)).await;
        assert_eq!(late.unwrap_err(), Errno(libc::EIO));
        // It comes back, with what it has journaled.
        other.silent.set(false);
        other.break_connection();
        bed.sleep(500).await;
        assert!(is_leased(&client, there(5)));
        client.fsync(handles[1], false).await.unwrap();
        first.take_asked();
    });
}

#[test]
fn data_servers_are_asked_under_the_session_of_the_inode_s_group() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        for handle in handles {
            client.fsync(handle, false).await.unwrap();
        }
        bed.sleep(500).await;
        let [(_, first), (_, other)] = client.sessions()[..] else {
            panic!("two sessions");
        };
        let asked = |ino| {
            let all = bed.data.sessions.borrow();
            let of = all.iter().filter(|(of, _)| *of == ino);
            of.map(|(_, session)| *session).collect::<Vec<_>>()
        };
        assert_eq!(
            (asked(here(5)), asked(there(5))),
            (vec![first], vec![other])
        );
        assert_eq!(bed.data.connections.get(), 2, "one for each member");
        // What both members have is said for each session.
        let confirmed = bed.data.confirmed.borrow().clone();
        assert_eq!(
            confirmed.keys().copied().collect::<Vec<_>>(),
            [first, other]
        );
        // And reading.
        bed.data.sessions.borrow_mut().clear();
        bed.groups[1]
            .revoke(there(5), LeaseMode::LeaseWrite, false)
            .await;
        assert_eq!(read(&client, handles[1]).await, b"written");
        assert_eq!(asked(there(5)), [other]);
    });
}

#[test]
fn a_write_that_hangs_under_one_session_is_not_said_to_be_done_under_it() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        // Of the other group's file nothing is answered, of the first one's all.
        bed.data.hangs_for.set(there(5));
        client.fsync(handles[0], false).await.unwrap();
        let hanging = client.fsync(handles[1], false);
        let others = async {
            for at in 1..5 {
                let data = Bytes::from_static(b"more");
                client
                    .write(handles[0], at * 10, data, false)
                    .await
                    .unwrap();
                client.fsync(handles[0], false).await.unwrap();
            }
            bed.sleep(500).await;
            let [(_, first), (_, other)] = client.sessions()[..] else {
                panic!("two sessions");
            };
            let confirmed = bed.data.confirmed.borrow().clone();
            let hung = bed.data.hung.get();
            assert!(hung > 0 && confirmed[&first] > hung, "{confirmed:?}");
            assert!(confirmed.get(&other).is_none_or(|below| *below <= hung));
            bed.data.answer();
        };
        let (hung, ()) = join(hanging, others).await;
        hung.unwrap();
    });
}

#[test]
fn both_groups_hear_what_is_settled_and_which_of_their_leases_wait() {
    with_groups(async |bed| {
        let (client, _handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        bed.sleep(TERM.as_millis() as u64).await;
        assert_eq!((first.settled.get(), other.settled.get()), (4, 4));
        // A lease waits for data servers: its group is told.
        let (heard, waits) = (Cell::new(false), other.clone());
        bed.data.hangs_for.set(there(5));
        let revoking = async {
            waits.revoke(there(5), LeaseMode::LeaseWrite, false).await;
            heard.set(true);
        };
        let looking = async {
            bed.sleep(TERM.as_millis() as u64).await;
            assert!(!heard.get());
            assert!(first.giving_back.borrow().is_empty());
            assert_eq!(
                other
                    .giving_back
                    .borrow()
                    .iter()
                    .copied()
                    .collect::<Vec<_>>(),
                [there(5)]
            );
            bed.data.answer();
        };
        join(revoking, looking).await;
        assert!(heard.get() && !is_leased(&client, here(99)));
    });
}

#[test]
fn a_file_of_another_group_that_is_open_here_outlives_its_name() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        client.fsync(handles[1], false).await.unwrap();
        first.take_asked();
        other.take_asked();
        // Its group asks this client, while this client waits for the directory's.
        client.unlink(&root(), ROOT, b"t").await.unwrap();
        assert_eq!(first.take_asked(), ["unlink t"]);
        assert!(other.take_asked().contains(&"asked: open true".to_owned()));
        assert_eq!(find(&client, "t").await, None);
        assert_eq!(read(&client, handles[1]).await, b"written");
        // The one that keeps it is told when it is closed.
        other.take_asked();
        client.release(handles[1], None).await.unwrap();
        bed.sleep(100).await;
        let release = format!("release {:x}", there(5));
        assert!(other.take_asked().contains(&release));
        assert!(!first.take_asked().contains(&release));
    });
}

#[test]
fn a_file_of_another_group_that_is_closed_goes_with_its_name() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        for handle in handles {
            client.flush(handle, None).await.unwrap();
            client.release(handle, None).await.unwrap();
        }
        bed.sleep(100).await;
        other.take_asked();
        client.unlink(&root(), ROOT, b"t").await.unwrap();
        bed.sleep(100).await;
        let asked = other.take_asked();
        assert!(asked.contains(&"asked: open false".to_owned()), "{asked:?}");
        assert!(
            !asked.iter().any(|it| it.starts_with("release")),
            "{asked:?}"
        );
        let gone = client.getattr(there(5)).await;
        assert_eq!(gone.unwrap_err(), Errno(libc::ESTALE));
        assert!(!first.inodes.borrow().contains_key(&there(5)));
    });
}

fn create(truncate: bool, exclusive: bool) -> CreateFlags {
    CreateFlags {
        exclusive,
        open: OpenFlags { truncate, ..RW },
    }
}

#[test]
fn a_create_of_a_name_that_is_another_group_s_file_opens_that() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        client.fsync(handles[1], false).await.unwrap();
        client.release(handles[1], None).await.unwrap();
        first.take_asked();
        other.take_asked();
        let make = async |name: &[u8], flags, cred: Cred| {
            client.create(&cred, ROOT, name, 0o600, flags).await
        };
        let (known, handle) = make(b"t", create(false, false), root()).await.unwrap();
        assert_eq!((known.attr.ino, known.attr.size), (there(5), 7));
        assert_eq!(first.take_asked(), ["create t"]);
        assert_eq!(read(&client, handle).await, b"written");
        // Cut, with what was not sent yet.
        let data = Bytes::from_static(b"more than that");
        client.write(handle, 0, data, false).await.unwrap();
        let (known, cut) = make(b"t", create(true, false), root()).await.unwrap();
        assert_eq!((known.attr.ino, known.attr.size), (there(5), 0));
        let cuts = format!("setattr {:x} Some(0)", there(5));
        assert_eq!(
            other.take_asked().iter().filter(|it| **it == cuts).count(),
            1
        );
        assert_eq!(first.take_asked(), ["create t"]);
        assert_eq!(read(&client, cut).await, b"");
        // Its mode says who may.
        let nobody = Cred {
            uid: 77,
            gid: 77,
            groups: Vec::new(),
        };
        let denied = make(b"t", create(false, false), nobody).await;
        assert_eq!(denied.unwrap_err(), Errno(libc::EACCES));
        let there_is_one = make(b"t", create(false, true), root()).await;
        assert_eq!(there_is_one.unwrap_err(), Errno(libc::EEXIST));
    });
}

#[test]
fn a_create_whose_file_is_gone_is_tried_again() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        first.name(ROOT, "f", there(5));
        let client = bed.client(&[0]).await;
        let changed = first.clone();
        *other.before_inode.borrow_mut() = Some(Box::new(move |_, _| {
            changed.unname(ROOT, "f");
        }));
        let flags = create(true, false);
        let (known, _) = client
            .create(&root(), ROOT, b"f", 0o600, flags)
            .await
            .unwrap();
        assert_eq!(group_of(known.attr.ino), 0, "made");
        let asked = first.take_asked();
        assert_eq!(asked, ["open session", "create f", "create f"]);
    });
}

#[test]
fn a_new_directory_of_another_group_s_is_asked_about_there() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        let client = bed.client(&[0]).await;
        let made = client.mkdir(&root(), ROOT, b"d", 0o755).await.unwrap();
        let dir = made.attr.ino;
        assert_eq!((group_of(dir), made.leased), (1, false));
        assert!(client.keeps_name(ROOT, b"d", dir), "by the parent's lease");
        // Others may have been faster than this client's first lease on it.
        other.put(file(there(6)));
        other.name(dir, "f", there(6));
        let found = client.lookup(&root(), dir, b"f").await.unwrap();
        assert_eq!(found.entry.unwrap().attr.ino, there(6));
        assert_eq!(other.take_asked(), ["open session", "lookup f"]);
        assert_eq!(first.take_asked(), ["open session", "create d"]);
    });
}

#[test]
fn a_new_directory_that_is_leased_before_the_answer_may_have_names() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        let client = bed.client(&[0]).await;
        first.holds_changes.set(true);
        let cred = root();
        let making = client.mkdir(&cred, ROOT, b"d", 0o755);
        let meanwhile = async {
            while first.names.borrow().is_empty() {
                bed.sleep(1).await;
            }
            let dir = *first.names.borrow().values().next().unwrap();
            other.put(file(there(6)));
            other.name(dir, "f", there(6));
            assert!(client.getattr(dir).await.unwrap().leased);
            first.holds_changes.set(false);
            dir
        };
        let (made, dir) = join(making, meanwhile).await;
        assert_eq!(made.unwrap().attr.ino, dir);
        let found = client.lookup(&root(), dir, b"f").await.unwrap();
        assert_eq!(found.entry.unwrap().attr.ino, there(6));
    });
}

#[test]
fn a_name_put_into_another_group_s_directory_is_asked_for() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        let dir = there(4);
        other.put(directory(dir));
        first.put(file(here(5)));
        first.name(ROOT, "f", here(5));
        let client = bed.client(&[0]).await;
        let looked = async || {
            let found = client.lookup(&root(), dir, b"f").await.unwrap();
            found.entry.map(|known| known.attr.ino)
        };
        assert_eq!(looked().await, None);
        first.holds_changes.set(true);
        let cred = root();
        let flags = RenameFlags::default();
        let renaming = client.rename(&cred, ROOT, b"f", dir, b"f", flags);
        let meanwhile = async {
            while other.names.borrow().is_empty() {
                bed.sleep(1).await;
            }
            // Somebody else takes it away, and this client hears that before its rename's answer.
            other.unname(dir, "f");
            assert_eq!(looked().await, None);
            first.holds_changes.set(false);
        };
        let (renamed, ()) = join(renaming, meanwhile).await;
        renamed.unwrap();
        assert_eq!(looked().await, None);
        assert_eq!(find(&client, "f").await, None);
    });
}

#[test]
fn a_group_s_renewal_confirms_nothing_of_another_s() {
    with_groups(async |bed| {
        let (_client, _handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        bed.sleep(TERM.as_millis() as u64).await;
        other.holds_renewals.set(true);
        other.revoke(there(5), LeaseMode::LeaseWrite, false).await;
        other.take_asked();
        // Each has been connected once.
        let renewals = first.renewals.get();
        while first.renewals.get() == renewals {
            bed.sleep(1).await;
        }
        bed.sleep(5).await;
        other.break_connection();
        other.holds_renewals.set(false);
        bed.sleep(100).await;
        let asked = other.take_asked();
        let named = format!("[{:x}]", there(5));
        assert!(asked[0].ends_with(&named), "not confirmed: {asked:?}");
    });
}

#[test]
fn what_is_not_its_own_a_group_neither_gives_nor_takes() {
    with_groups(async |bed| {
        let (client, _handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        let answer = first.revoke(there(5), LeaseMode::LeaseWrite, true).await;
        // The slot may have gone there without the client's knowing: then it has to know that the file is open.
        let only_open = proto::RevokeReply {
            open: true,
            ..proto::RevokeReply::default()
        };
        assert_eq!(answer, only_open);
        assert!(is_leased(&client, there(5)));
        // Nor by a grant that comes with another inode's.
        first.grants_foreign.set(there(8));
        first.put(file(here(9)));
        client.getattr(here(9)).await.unwrap();
        assert!(is_leased(&client, here(9)) && !is_leased(&client, there(8)));
        other.take_asked();
    });
}

/// The size that was told with a lease was not journaled when the server ended. It is asked for in the same
/// moment in which the client hears that it still has the lease, or before.
#[test]
fn what_was_told_and_lost_is_told_again_to_whoever_asks_first() {
    let modes = [
        LeaseMode::LeaseShared,
        LeaseMode::LeaseRead,
        LeaseMode::LeaseNone,
    ];
    for (to, earlier) in modes.into_iter().flat_map(|to| [(to, 0), (to, 20)]) {
        with_groups(async move |bed| {
            let (client, _handles) = writer(&bed).await;
            let first = &bed.groups[0];
            first.holds_renewals.set(true);
            let given = first.revoke(here(5), LeaseMode::LeaseWrite, false).await;
            assert_eq!(given.owed.unwrap().size, Some(7));
            let ino = here(5);
            first.asks_at_once.set(Some(AtOnce { ino, to, earlier }));
            first.break_connection();
            while first.told_at_once.borrow().is_none() {
                bed.sleep(1).await;
            }
            let told = first.told_at_once.take().unwrap();
            let size = told.owed.map(|owed| owed.size);
            assert_eq!(size, Some(Some(7)), "{to:?} {earlier}");
            let is_kept = to != LeaseMode::LeaseNone;
            assert!(!is_kept || is_leased(&client, ino), "{to:?} {earlier}");
        });
    }
}

/// Size and times that were told with a lease, for a file that is not touched any more: a sync of all waits until the
/// service has them for good, and tells them anew if it has lost them. A goodbye comes after that.
#[test]
fn what_was_told_with_a_lease_is_not_synced_until_the_service_has_it_for_good() {
    for closes in [false, true] {
        with_groups(async move |bed| {
            let (client, handles) = writer(&bed).await;
            let [first, other] = &bed.groups;
            client.fsync(handles[1], false).await.unwrap();
            first.holds_renewals.set(true);
            let given = first.revoke(here(5), LeaseMode::LeaseWrite, false).await;
            assert_eq!(given.owed.unwrap().size, Some(7));
            first.take_asked();
            let is_done = Rc::new(Cell::new(false));
            let (syncing, done) = (client.clone(), is_done.clone());
            first.env.spawn("sync", async move {
                match closes {
                    true => syncing.close().await.unwrap(),
                    false => syncing.sync_all().await.unwrap(),
                }
                done.set(true);
            });
            bed.sleep(50).await;
            assert!(!is_done.get(), "nobody has said that it is kept");
            assert_eq!(*other.goodbyes.borrow(), [0; 0]);
            // The server that heard it is gone, and the next one has not heard it.
            first.holds_renewals.set(false);
            first.break_connection();
            while !is_done.get() {
                bed.sleep(1).await;
            }
            let mut asked = first.take_asked();
            asked.retain(|it| it.starts_with("setattr") || it == "goodbye");
            let told = format!("setattr {:x} Some(7)", here(5));
            let expected = [told, "goodbye".to_owned()];
            assert_eq!(asked, expected[..1 + usize::from(closes)]);
        });
    }
}

/// A face that takes a moment to forget.
struct Slow(weft_env::Env);

impl Invalidator for Slow {
    fn inode(&self, _ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        let env = self.0.clone();
        Box::pin(async move {
            env.sleep(Duration::from_millis(2)).await;
            true
        })
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// A lease is given back a second time, with what is owed, while a question for it waits until the first time is
/// confirmed: the question waits for both.
#[test]
fn a_lease_is_not_asked_for_before_all_that_was_told_with_it_is_confirmed() {
    for earlier in [0, 20] {
        with_groups(async move |bed| {
            let (client, handles) = writer(&bed).await;
            let first = &bed.groups[0];
            let ino = here(5);
            client.set_invalidator(Rc::new(Slow(first.env.clone())));
            first.holds_renewals.set(true);
            first.revoke(ino, LeaseMode::LeaseWrite, false).await;
            let (writing, handle) = (client.clone(), handles[0]);
            first.env.spawn("write", async move {
                let more = Bytes::from_static(b"more");
                writing.write(handle, 7, more, false).await.unwrap();
            });
            bed.sleep(10).await;
            let to = LeaseMode::LeaseNone;
            first.asks_at_once.set(Some(AtOnce { ino, to, earlier }));
            // What is told by itself meanwhile is not answered.
            first.holds_changes.set(true);
            first.break_connection();
            while first.told_at_once.borrow().is_none() {
                bed.sleep(1).await;
            }
            first.holds_changes.set(false);
            let told = first.told_at_once.take().unwrap();
            assert_eq!(told.owed.unwrap().size, Some(7), "{earlier}");
            // These left before the face had forgotten: they say nothing of what was told just now.
            let before = first.renewals.get();
            first.take_asked();
            assert!(!first.held_renewals.borrow().is_empty());
            let asks = format!("write lease {ino:x}");
            let is_asked = || first.asked.borrow().contains(&asks);
            while first.renewals.get() - first.held_renewals.borrow().len() < before {
                assert!(!is_asked(), "{earlier}");
                first.answer_renewal();
                bed.sleep(5).await;
            }
            assert!(!is_asked(), "{earlier}");
            while !is_asked() {
                if !first.held_renewals.borrow().is_empty() {
                    first.answer_renewal();
                }
                bed.sleep(1).await;
            }
        });
    }
}

/// A file is asked about, then changed; the change is answered first, without a lease. The other answer is of before
/// the change and brings a lease: it is not believed.
#[test]
fn what_was_asked_before_a_change_and_is_answered_after_it_is_old() {
    with_groups(async |bed| {
        let first = &bed.groups[0];
        first.put(file(here(5)));
        let client = bed.client(&[0]).await;
        first.holds_inodes.set(true);
        let asking = client.clone();
        first.env.spawn("stat", async move {
            asking.getattr(here(5)).await.unwrap();
        });
        bed.sleep(5).await;
        let (root, value) = (root(), Bytes::from_static(b"value"));
        let flags = XattrFlags::Any;
        let changes = client.setxattr(&root, here(5), b"user.a", value, flags);
        changes.await.unwrap();
        first.holds_inodes.set(false);
        bed.sleep(5).await;
        assert!(is_leased(&client, here(5)));
        let known = client.getattr(here(5)).await.unwrap();
        assert_eq!(known.attr.change, 2);
    });
}

#[test]
fn a_client_that_ends_says_goodbye_to_all() {
    with_groups(async |bed| {
        let (client, _handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        let sessions = client.sessions();
        let told_others = Rc::new(Cell::new(0));
        let (told, others) = (told_others.clone(), other.clone());
        *first.before_change.borrow_mut() = Some(Box::new(move |_, change| {
            if let op::Op::CloseSession(_) = change {
                told.set(others.goodbyes.borrow().len());
            }
        }));
        client.close().await.unwrap();
        assert_eq!(*first.goodbyes.borrow(), [sessions[0].1]);
        assert_eq!(*other.goodbyes.borrow(), [sessions[1].1]);
        assert_eq!(told_others.get(), 1, "the first group hears it last");
        for (ino, bytes) in &*bed.data.bytes.borrow() {
            assert_eq!(bytes, b"written", "{ino:x}");
        }
        assert_eq!(bed.data.bytes.borrow().len(), 2);
    });
}

#[test]
fn a_group_that_cannot_be_reached_holds_no_client_up_that_ends() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let [first, other] = &bed.groups;
        for handle in handles {
            client.fsync(handle, false).await.unwrap();
        }
        other.silent.set(true);
        other.take_asked();
        let began = bed.world.now();
        client.close().await.unwrap();
        assert!(bed.world.now() - began < Duration::from_secs(5));
        assert_eq!(first.goodbyes.borrow().len(), 1);
        // Nor is a session opened after that.
        client.getattr(there(5)).await.unwrap_err();
        assert!(!other.take_asked().contains(&"open session".to_owned()));
    });
}

#[test]
fn any_group_s_servers_tell_where_the_others_are() {
    with_groups(async |bed| {
        let [first, other] = &bed.groups;
        other.put(file(there(5)));
        first.name(ROOT, "f", there(5));
        let client = bed.client(&[1]).await;
        assert_eq!(find(&client, "f").await, Some(there(5)));
        assert_eq!(first.take_asked(), ["open session", "lookup f"]);
    });
}

#[test]
fn what_was_told_after_a_renewal_left_is_not_confirmed_by_its_answer() {
    with_groups(async |bed| {
        let (client, handles) = writer(&bed).await;
        let first = &bed.groups[0];
        first.put(file(here(6)));
        let handle = open(&client, here(6)).await;
        let data = Bytes::from_static(b"written");
        client.write(handle, 0, data, false).await.unwrap();
        first.holds_renewals.set(true);
        first.revoke(here(5), LeaseMode::LeaseWrite, false).await;
        // Of two renewals, both on their way when one file had been told of, one is answered before and one
        // after the other is.
        while first.held_renewals.borrow().is_empty() {
            bed.sleep(10).await;
        }
        let syncing = client.fsync(handles[0], false);
        let telling = async {
            while first.held_renewals.borrow().len() < 2 {
                bed.sleep(1).await;
            }
            first.answer_renewal();
            bed.sleep(10).await;
            first.revoke(here(6), LeaseMode::LeaseWrite, false).await;
            first.answer_renewal();
            bed.sleep(10).await;
            first.take_asked();
            first.break_connection();
            bed.sleep(100).await;
            let asked = first.take_asked();
            let named = format!("[{:x}]", here(6));
            assert!(
                asked[0].ends_with(&named),
                "held on until it is confirmed: {asked:?}"
            );
            first.holds_renewals.set(false);
            bed.sleep(1).await;
        };
        let (synced, ()) = join(syncing, telling).await;
        synced.unwrap();
    });
}
