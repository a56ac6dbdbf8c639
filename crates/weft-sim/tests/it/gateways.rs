//! Files and names used through several gateways at the same time, while gateways die, metadata servers change and
//! links are cut: no client of any gateway is shown anything older than what was acknowledged to any client of any
//! other before it asked (`docs/protocols/token.md`).

use crate::gates::cluster;
use crate::group::{MS, in_world};
use crate::roaming::{Clients, Course, Faults, Health, RECORD, name_of, place, record};
use bytes::Bytes;
use std::cell::Cell;
use std::time::Duration;
use weft_sim::Rng;
use weft_xdr::mount3::{MOUNTPROC3_MNT, mountres3};
use weft_xdr::nfs3::*;

const GATEWAYS: usize = 3;
const FILES: usize = 4;
const READERS: usize = 4;
/// For so long clients work, and faults come.
const RUN: Duration = Duration::from_secs(40);

/// Writes versions of one file, each call by any gateway, and renames it to the version's name.
async fn write_on(
    clients: &Clients,
    rng: &mut Rng,
    dir: &nfs_fh3,
    (number, file): (usize, &nfs_fh3),
    course: &Course,
    is_over: &Cell<bool>,
) {
    let mut version = 0;
    while !is_over.get() {
        version += 1;
        course.begun.set(version);
        let write = WRITE3args {
            file: file.clone(),
            offset: (version - 1) * RECORD as u64,
            count: RECORD as u32,
            stable: stable_how::FILE_SYNC,
            data: record(version),
        };
        loop {
            let gateway = rng.below(GATEWAYS as u64) as usize;
            match clients.call::<NFSPROC3_WRITE>(gateway, &write).await {
                Some(WRITE3res::NFS3_OK(written)) => {
                    assert_eq!(written.committed, stable_how::FILE_SYNC);
                    assert_eq!(written.count as usize, RECORD);
                    break;
                }
                // Asked again: the same bytes at the same place.
                Some(WRITE3res::default(nfsstat3::NFS3ERR_JUKEBOX, _)) | None => {}
                Some(WRITE3res::default(why, _)) => panic!("file {number}: WRITE: {why:?}"),
            }
        }
        let rename = RENAME3args {
            from: place(dir, name_of(number, version - 1)),
            to: place(dir, name_of(number, version)),
        };
        let mut tries = 0;
        loop {
            let gateway = rng.below(GATEWAYS as u64) as usize;
            match clients.call::<NFSPROC3_RENAME>(gateway, &rename).await {
                Some(RENAME3res::NFS3_OK(_)) => break,
                Some(RENAME3res::default(nfsstat3::NFS3ERR_JUKEBOX, _)) | None => {}
                // It was done when it was asked before.
                Some(RENAME3res::default(nfsstat3::NFS3ERR_NOENT, _)) if tries > 0 => break,
                Some(RENAME3res::default(why, _)) => panic!("file {number}: RENAME: {why:?}"),
            }
            tries += 1;
        }
        course.kept.set(version);
        let pause = rng.below(40);
        clients.world.sleep(pause as u32 * MS).await;
    }
}

/// Looks at files by any gateway: what it sees is no older than what was kept before, and nothing that nobody wrote.
async fn look_at(
    clients: &Clients,
    rng: &mut Rng,
    dir: &nfs_fh3,
    (files, courses): (&[nfs_fh3], &[Course]),
    (is_over, seen): (&Cell<bool>, &Cell<u64>),
) {
    while !is_over.get() {
        let number = rng.below(FILES as u64) as usize;
        let gateway = rng.below(GATEWAYS as u64) as usize;
        let (file, course) = (&files[number], &courses[number]);
        let before = course.kept.get();
        let what = format!("file {number}, version {before}, by gateway {gateway}");
        match rng.below(3) {
            0 => {
                let get = GETATTR3args {
                    object: file.clone(),
                };
                let got = clients.call::<NFSPROC3_GETATTR>(gateway, &get).await;
                if let Some(GETATTR3res::NFS3_OK(got)) = got {
                    let versions = got.obj_attributes.size / RECORD as u64;
                    assert!(versions >= before, "{what}: size of {versions}");
                    assert!(versions <= course.begun.get(), "{what}: size of {versions}");
                }
            }
            1 => {
                let read = READ3args {
                    file: file.clone(),
                    offset: before.saturating_sub(1) * RECORD as u64,
                    count: RECORD as u32,
                };
                let got = clients.call::<NFSPROC3_READ>(gateway, &read).await;
                if let (Some(READ3res::NFS3_OK(got)), 1..) = (got, before) {
                    assert_eq!(got.data, record(before), "{what}");
                }
            }
            _ => {
                let look = LOOKUP3args {
                    what: place(dir, name_of(number, before)),
                };
                let found = clients.call::<NFSPROC3_LOOKUP>(gateway, &look).await;
                let gone = LOOKUP3args {
                    what: place(dir, name_of(number, before.wrapping_sub(1))),
                };
                let old = clients.call::<NFSPROC3_LOOKUP>(gateway, &gone).await;
                // The name is there unless the next one was asked for meanwhile; the one before is not.
                if course.begun.get() == before
                    && let Some(LOOKUP3res::default(nfsstat3::NFS3ERR_NOENT, _)) = found
                {
                    panic!("{what}: its name is not there");
                }
                if before > 0
                    && let Some(LOOKUP3res::NFS3_OK(_)) = old
                {
                    panic!("{what}: the name of the version before is there");
                }
            }
        }
        seen.set(seen.get() + 1);
        clients.world.sleep(rng.below(20) as u32 * MS).await;
    }
}

fn use_gateways(seed: u64) {
    in_world(seed, async |world| {
        let (group, _servers, gates) = cluster::<GATEWAYS>(&world).await;
        let setting = Clients::new(&world, &gates, "setting");
        let root = Bytes::from_static(b"/");
        let root = match setting.call::<MOUNTPROC3_MNT>(0, &root).await {
            Some(mountres3::MNT3_OK(mounted)) => nfs_fh3 {
                data: mounted.fhandle,
            },
            other => panic!("{other:?}"),
        };
        let mut files = Vec::new();
        for number in 0..FILES {
            let create = CREATE3args {
                r#where: place(&root, name_of(number, 0)),
                how: createhow3::EXCLUSIVE([number as u8; 8]),
            };
            match setting.call::<NFSPROC3_CREATE>(0, &create).await {
                Some(CREATE3res::NFS3_OK(made)) => files.push(made.obj.unwrap()),
                other => panic!("{other:?}"),
            }
        }
        let courses: Vec<Course> = (0..FILES).map(|_| Course::default()).collect();
        let (is_over, seen) = (Cell::new(false), Cell::new(0));
        let writers = files.iter().enumerate().map(|(number, file)| {
            let clients = Clients::new(&world, &gates, &format!("writer{number}"));
            let mut rng = world.rng(&format!("writer {number}"));
            let (root, course, is_over) = (&root, &courses[number], &is_over);
            async move {
                write_on(&clients, &mut rng, root, (number, file), course, is_over).await;
            }
        });
        let readers = (0..READERS).map(|number| {
            let clients = Clients::new(&world, &gates, &format!("reader{number}"));
            let mut rng = world.rng(&format!("reader {number}"));
            let (root, of_files, ends) = (&root, (&files[..], &courses[..]), (&is_over, &seen));
            async move { look_at(&clients, &mut rng, root, of_files, ends).await }
        });
        let mut rng = world.rng("faults");
        let health: [Health; GATEWAYS] = Default::default();
        let faults = Faults {
            world: &world,
            group: &group,
            gates: &gates,
            health: &health,
            clients: &[],
        };
        let faults = faults.go_on(&mut rng, &is_over);
        let time = async {
            world.sleep(RUN).await;
            is_over.set(true);
        };
        futures_util::join!(
            futures_util::future::join_all(writers),
            futures_util::future::join_all(readers),
            faults,
            time
        );
        let kept: u64 = courses.iter().map(|course| course.kept.get()).sum();
        assert!(
            kept > 50 && seen.get() > 500,
            "{kept} versions, {} looks",
            seen.get()
        );
    });
}

#[test]
fn nobody_is_shown_anything_older_than_what_was_acknowledged() {
    for seed in 500..506 {
        use_gateways(seed);
    }
}
