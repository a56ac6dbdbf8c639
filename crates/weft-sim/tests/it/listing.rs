//! What a listing tells of files beside their names: kernels ask for attributes and extended attributes of each file
//! that they list.

use crate::group::{Group, SECOND, in_world};
use bytes::Bytes;
use futures_util::future::join;
use std::rc::Rc;
use weft_client::{
    Client, CreateFlags, Cred, DirEntry, Errno, FileKind, OpenFlags, RenameFlags, SetAttr,
    XattrFlags,
};
use weft_sim::{Pace, World};

const FILES: u64 = 40;
const LABEL: &[u8] = b"security.selinux";

/// A directory of some files, whose maker has gone, and two clients that know nothing.
async fn directory(world: &World) -> ((Rc<Group>, impl Sized), [Client; 2], u64) {
    let group = Group::started(world, 1).await;
    let servers = group.pair().await;
    world.sleep(SECOND).await;
    let (one, two) = (group.client("one").await, group.client("two").await);
    let (maker, root) = (group.client("maker").await, weft_types::ROOT_INO.0);
    let made = maker
        .mkdir(&Cred::default(), root, b"d", 0o755)
        .await
        .unwrap();
    let dir = made.attr.ino;
    for number in 0..FILES {
        let name = number.to_string();
        let (cred, kind) = (Cred::default(), FileKind::Regular);
        let making = maker.mknod(&cred, dir, name.as_bytes(), kind, 0o644, 0);
        making.await.unwrap();
    }
    maker.close().await.unwrap();
    ((group, servers), [one, two], dir)
}

/// All entries but the dots, with attributes.
async fn list(client: &Client, dir: u64) -> Vec<DirEntry> {
    let handle = client.opendir(&Cred::default(), dir).await.unwrap();
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = client.readdir(handle, after, 16, true).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.cookie;
        all.extend(page);
    }
    client.releasedir(handle);
    all.retain(|entry| entry.name != "." && entry.name != "..");
    all
}

async fn label(client: &Client, ino: u64) -> Result<Bytes, Errno> {
    client.getxattr(&Cred::default(), ino, LABEL).await
}

async fn set_label(client: &Client, ino: u64, value: &'static [u8]) {
    let (cred, value) = (Cred::default(), Bytes::from_static(value));
    let setting = client.setxattr(&cred, ino, LABEL, value, XattrFlags::Any);
    setting.await.unwrap();
}

#[test]
fn nobody_is_asked_for_extended_attributes_that_no_file_has() {
    in_world(1, async |world| {
        let ((group, _servers), [one, two], dir) = directory(&world).await;
        let listed = list(&two, dir).await;
        assert_eq!(listed.len() as u64, FILES);
        let before = two.figures().requests;
        for entry in &listed {
            assert!(entry.known.as_ref().is_some_and(|known| known.leased));
            assert_eq!(label(&two, entry.ino).await, Err(Errno(libc::ENODATA)));
        }
        assert_eq!(two.figures().requests, before);
        // Others may give a file some, and then it is known to have them.
        let file = listed[3].ino;
        set_label(&one, file, b"a").await;
        assert_eq!(&label(&two, file).await.unwrap()[..], b"a");
        let listed = list(&two, dir).await;
        let again = listed.iter().find(|entry| entry.ino == file).unwrap();
        assert_eq!(&label(&two, again.ino).await.unwrap()[..], b"a");
        // And who lists anew: that one is asked for.
        let three = group.client("three").await;
        let listed = list(&three, dir).await;
        for entry in &listed {
            assert_eq!(label(&three, entry.ino).await.is_ok(), entry.ino == file);
        }
    });
}

#[test]
fn an_older_listing_does_not_hide_what_was_set_since() {
    for seed in 0..30 {
        in_world(100 + seed, async |world| {
            let (_cluster, [one, two], dir) = directory(&world).await;
            let file = one.lookup(&Cred::default(), dir, b"7").await.unwrap();
            let file = file.entry.unwrap().attr.ino;
            // The listing may be answered before and taken after.
            join(list(&two, dir), set_label(&two, file, b"mine")).await;
            assert_eq!(&label(&two, file).await.unwrap()[..], b"mine");
            join(list(&one, dir), set_label(&two, file, b"other")).await;
            assert_eq!(&label(&one, file).await.unwrap()[..], b"other");
        });
    }
}

#[test]
fn what_waits_of_a_listing_is_not_older_than_the_question_for_it() {
    in_world(200, async |world| {
        let (_cluster, [one, two], dir) = directory(&world).await;
        let cred = Cred::default();
        let handle = two.opendir(&cred, dir).await.unwrap();
        // All have come, and most of them wait.
        let first = two.readdir(handle, 0, 8, true).await.unwrap();
        let after = first.last().unwrap().cookie;
        let mut changed = list(&one, dir).await;
        changed.retain(|entry| entry.cookie > after);
        assert!(changed.len() > 20);
        for entry in &changed {
            let private = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            let setting = one.setattr(&cred, entry.ino, private, None);
            setting.await.unwrap();
        }
        let rest = two.readdir(handle, after, 1_000, true).await.unwrap();
        assert_eq!(rest.len(), changed.len());
        for entry in rest {
            let known = entry.known.unwrap();
            assert_eq!(known.attr.mode & 0o777, 0o600, "{:?}", entry.name);
        }
    });
}

#[test]
fn files_that_others_write_are_listed_with_attributes() {
    in_world(201, async |world| {
        let (_cluster, [one, two], dir) = directory(&world).await;
        let cred = Cred::default();
        let how = CreateFlags {
            open: OpenFlags {
                write: true,
                ..OpenFlags::default()
            },
            ..CreateFlags::default()
        };
        for number in 0..FILES {
            let name = format!("written{number}");
            let making = one.create(&cred, dir, name.as_bytes(), 0o644, how);
            let (_, file) = making.await.unwrap();
            let data = Bytes::from(vec![1; 1 + number as usize]);
            one.write(file, 0, data, false).await.unwrap();
        }
        // Its writer has each of them for itself. They are asked for side by side.
        let began = world.now();
        let listed = list(&two, dir).await;
        assert!(
            world.now() - began < SECOND / 10,
            "{:?}",
            world.now() - began
        );
        let written = listed
            .iter()
            .filter(|entry| entry.name.starts_with(b"written"));
        let sizes: Vec<u64> = written
            .map(|it| it.known.as_ref().unwrap().attr.size)
            .collect();
        assert_eq!(sizes.len() as u64, FILES);
        assert_eq!(sizes.iter().sum::<u64>(), FILES * (FILES + 1) / 2);
    });
}

#[test]
fn a_name_that_has_gone_since_its_page_came_is_not_to_be_kept() {
    in_world(202, async |world| {
        let (_cluster, [one, two], dir) = directory(&world).await;
        let cred = Cred::default();
        let handle = two.opendir(&cred, dir).await.unwrap();
        let first = two.readdir(handle, 0, 8, true).await.unwrap();
        assert!(first.iter().any(|entry| entry.name_leased));
        let after = first.last().unwrap().cookie;
        let mut renamed = list(&one, dir).await;
        renamed.retain(|entry| entry.cookie > after);
        for entry in &renamed {
            let new = [&entry.name[..], b"-new"].concat();
            let how = RenameFlags::default();
            let renaming = one.rename(&cred, dir, &entry.name, dir, &new, how);
            renaming.await.unwrap();
        }
        let rest = two.readdir(handle, after, 1_000, true).await.unwrap();
        for entry in rest.iter().filter(|entry| !entry.name.ends_with(b"-new")) {
            assert!(!entry.name_leased, "{:?}", entry.name);
        }
    });
}

/// A page waits for the attributes of one file; what was known of the others changes meanwhile.
#[test]
fn what_is_lost_while_a_page_waits_for_attributes_is_not_to_be_kept() {
    in_world(204, async |world| {
        let ((group, _servers), [one, two], dir) = directory(&world).await;
        let (writer, cred) = (group.client("writer").await, Cred::default());
        let how = CreateFlags {
            open: OpenFlags {
                write: true,
                ..OpenFlags::default()
            },
            ..CreateFlags::default()
        };
        let making = writer.create(&cred, dir, b"written", 0o644, how);
        let (_, file) = making.await.unwrap();
        writer
            .write(file, 0, Bytes::from_static(b"more"), false)
            .await
            .unwrap();
        // It has the file for itself, and is far away.
        let slow = Pace {
            latency: 300_000_000..300_000_001,
            ..Pace::default()
        };
        world.net().set_pace("writer", "meta1", slow);
        let handle = two.opendir(&cred, dir).await.unwrap();
        let listing = async {
            let page = two.readdir(handle, 0, 1_000, true).await.unwrap();
            (page, world.now())
        };
        let changing = async {
            world.sleep(SECOND / 10).await;
            let private = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            let seven = one.lookup(&cred, dir, b"7").await.unwrap().entry.unwrap();
            let setting = one.setattr(&cred, seven.attr.ino, private, None);
            setting.await.unwrap();
            let changed = world.now();
            // The directory is asked back from the writer, too, who answers after the listing.
            let how = RenameFlags::default();
            let renaming = one.rename(&cred, dir, b"9", dir, b"nine", how);
            renaming.await.unwrap();
            changed
        };
        let ((page, listed), changed) = join(listing, changing).await;
        assert!(changed < listed, "the page has waited for nothing");
        let of = |name: &str| page.iter().find(|entry| entry.name == name).unwrap();
        assert_eq!(of("written").known.as_ref().unwrap().attr.size, 4);
        let seven = of("7").known.as_ref().unwrap();
        assert!(
            !seven.leased || seven.attr.mode & 0o777 == 0o600,
            "{seven:?}"
        );
        assert!(!of("9").name_leased);
    });
}

/// Everything of a listing is renamed, or removed and made again, as soon as it has been told.
#[test]
fn a_listing_ends_and_tells_no_name_twice_whatever_is_renamed_meanwhile() {
    const MORE: u64 = 1_200;
    for shards in [0, 4] {
        in_world(203, async move |world| {
            let (_cluster, [one, two], dir) = directory(&world).await;
            let (cred, kind) = (Cred::default(), FileKind::Regular);
            for number in 0..MORE {
                let name = format!("more{number}");
                let making = one.mknod(&cred, dir, name.as_bytes(), kind, 0o644, 0);
                making.await.unwrap();
            }
            if shards > 0 {
                one.spread(&cred, dir, shards).await.unwrap();
            }
            let handle = two.opendir(&cred, dir).await.unwrap();
            let (mut told, mut after) = (Vec::new(), 0);
            loop {
                let page = two.readdir(handle, after, 400, false).await.unwrap();
                let Some(last) = page.last() else { break };
                after = last.cookie;
                for entry in page.iter().filter(|entry| !entry.name.starts_with(b".")) {
                    told.push(entry.name.clone());
                    assert!(told.len() as u64 <= FILES + MORE, "no end");
                    if entry.cookie % 2 == 0 {
                        let new = [&entry.name[..], b"-new"].concat();
                        let how = RenameFlags::default();
                        let renaming = one.rename(&cred, dir, &entry.name, dir, &new, how);
                        renaming.await.unwrap();
                    } else {
                        one.unlink(&cred, dir, &entry.name).await.unwrap();
                        let making = one.mknod(&cred, dir, &entry.name, kind, 0o644, 0);
                        making.await.unwrap();
                    }
                }
            }
            // Each of them had been there all the time.
            let mut names = told.clone();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), told.len());
            assert_eq!(names.len() as u64, FILES + MORE);
            // From the start all is told as it is now.
            let now = list(&two, dir).await;
            assert_eq!(now.len() as u64, FILES + MORE);
            assert!(now.iter().any(|entry| entry.name.ends_with(b"-new")));
        });
    }
}
