//! Ways out of an export, each tried: a client that may have a part of the tree has no other, whatever it asks, and where
//! another export lies within that one its rules hold there.

use super::*;
use crate::compounds::{Nfs4, mkdir, put};
use crate::gates::cluster;
use weft_nfs::Squash;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::{
    GETFH4res, LINK4args, LOOKUP4args, READDIR4args, READDIR4res, RENAME4args, nfs_resop4, nfsstat4,
};

/// A tree as root made it by another gateway that exports all, and a gateway that exports some of it to everybody as
/// nobody.
struct Tree {
    root_user: Nfs,
    all: nfs_fh3,
    other: nfs_fh3,
    gate: Gate,
}

async fn tree(world: &World) -> (impl Sized, Tree) {
    let (group, servers, [gate1]) = cluster::<1>(world).await;
    let root_user = Nfs::to(world, &gate1, 0).await;
    let all = root_user.mount("/").await.unwrap();
    let public = root_user.mkdir(&all, "pub", 0o777).await;
    let other = root_user.mkdir(&all, "other", 0o777).await;
    root_user.create(&other, "f", guarded(0o644)).await.unwrap();
    let sub = root_user.mkdir(&public, "sub", 0o777).await;
    root_user.mkdir(&sub, "deep", 0o777).await;
    let closed = root_user.mkdir(&public, "closed", 0o700).await;
    let within = root_user.mkdir(&closed, "within", 0o777).await;
    root_user.mkdir(&within, "shown", 0o777).await;
    root_user.mkdir(&public, "inner", 0o777).await;
    root_user.mkdir(&public, "hidden", 0o777).await;
    let link = SYMLINK3args {
        r#where: place(&public, "link"),
        symlink: symlinkdata3 {
            symlink_attributes: set(0o777),
            symlink_data: "/other".to_owned().into(),
        },
    };
    let linked = root_user.call::<NFSPROC3_SYMLINK>(link).await;
    assert!(matches!(linked, SYMLINK3res::NFS3_OK(_)));
    let nobody = Rule {
        squash: Squash::All,
        ..believed()
    };
    let read_only = Rule {
        read_only: true,
        ..nobody.clone()
    };
    let elsewhere = ExportSettings {
        rules: vec![Rule {
            clients: vec!["10.0.0.0/8".into()],
            ..believed()
        }],
        ..export("/pub/hidden", believed())
    };
    let exports = vec![
        export("/pub", nobody.clone()),
        export("/pub/inner", read_only),
        export("/pub/closed/within/shown", nobody),
        elsewhere,
    ];
    let gate = Gate::start(world, &group, "gate2", exports).await;
    let tree = Tree {
        root_user,
        all,
        other,
        gate,
    };
    ((group, servers, gate1), tree)
}

async fn rename(by: &Nfs, from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> Result<(), nfsstat3> {
    let args = RENAME3args {
        from: place(from.0, from.1),
        to: place(to.0, to.1),
    };
    match by.call::<NFSPROC3_RENAME>(args).await {
        RENAME3res::NFS3_OK(_) => Ok(()),
        RENAME3res::default(why, _) => Err(why),
    }
}

async fn listed(by: &Nfs, dir: &nfs_fh3) -> Vec<entryplus3> {
    let args = READDIRPLUS3args {
        dir: dir.clone(),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1 << 16,
        maxcount: 1 << 16,
    };
    match by.call::<NFSPROC3_READDIRPLUS>(args).await {
        READDIRPLUS3res::NFS3_OK(listed) => listed.reply.entries,
        READDIRPLUS3res::default(why, _) => panic!("{why:?}"),
    }
}

async fn made(by: &Nfs, dir: &nfs_fh3) -> Result<(), nfsstat3> {
    let done = by.create(dir, "made", guarded(0o644)).await;
    done.map(drop)
}

#[test]
fn mount_leads_nowhere_but_into_an_export() {
    in_world(20, async |world| {
        let (_all, tree) = tree(&world).await;
        for uid in [0, 7] {
            let caller = Nfs::to(&world, &tree.gate, uid).await;
            for out in [
                "/pub/..",
                "/pub/../other",
                "/pub/../other/f",
                "/pub/./../other",
                "/pub//..//other",
                "/pub/sub/../../other",
                "/pub/sub/..",
                "/../pub",
                "/pub/hidden",
            ] {
                let refused = caller.mount(out).await;
                assert_eq!(refused, Err(mountstat3::MNT3ERR_ACCES), "{out}");
            }
            // Root of the client is nobody here: what nobody may not search he does not pass.
            let refused = caller.mount("/pub/closed/within").await;
            assert_eq!(refused, Err(mountstat3::MNT3ERR_ACCES));
            // No link is followed.
            for link in ["/pub/link", "/pub/link/f"] {
                let refused = caller.mount(link).await;
                assert_eq!(refused, Err(mountstat3::MNT3ERR_NOTDIR), "{link}");
            }
            let public = caller.mount("/pub").await.unwrap();
            let sub = caller.mount("/pub//./sub/").await.unwrap();
            assert_eq!(caller.lookup(&public, "sub").await, Ok(sub));
        }
    });
}

#[test]
fn no_name_leads_out_of_an_export() {
    in_world(21, async |world| {
        let (_all, tree) = tree(&world).await;
        let caller = Nfs::to(&world, &tree.gate, 7).await;
        let public = caller.mount("/pub").await.unwrap();
        let known = caller.getattr(&public).await.unwrap();
        assert_eq!(caller.lookup(&public, "..").await, Ok(public.clone()));
        for name in ["../other", "sub/../..", "/other", "", "..\0"] {
            assert!(caller.lookup(&public, name).await.is_err(), "{name:?}");
        }
        // Nothing is told of what is above, either.
        for entry in listed(&caller, &public).await {
            if entry.name == ".." {
                assert_eq!(entry.fileid, known.fileid);
                let its = entry.name_attributes;
                assert!(its.is_none_or(|its| its.fileid == known.fileid));
                let handle = entry.name_handle;
                assert!(handle.is_none_or(|handle| handle == public));
            }
        }
        for dots in [".", ".."] {
            assert!(caller.remove(&public, dots).await.is_err());
            let renamed = rename(&caller, (&public, dots), (&public, "x")).await;
            assert!(renamed.is_err());
            let renamed = rename(&caller, (&public, "sub"), (&public, dots)).await;
            assert!(renamed.is_err());
            let how = createhow3::UNCHECKED(set(0o644));
            assert!(caller.create(&public, dots, how).await.is_err());
        }
        // A directory that is moved out while a client has its handle takes nobody with it.
        let sub = caller.lookup(&public, "sub").await.unwrap();
        let deep = caller.lookup(&sub, "deep").await.unwrap();
        assert_eq!(caller.lookup(&deep, "..").await, Ok(sub.clone()));
        let from = tree.root_user.lookup(&tree.all, "pub").await.unwrap();
        let moved = rename(&tree.root_user, (&from, "sub"), (&tree.other, "sub")).await;
        assert_eq!(moved, Ok(()));
        for dir in [&sub, &deep] {
            assert_eq!(caller.lookup(dir, "..").await, Err(nfsstat3::NFS3ERR_NOENT));
            for entry in listed(&caller, dir).await {
                if entry.name == ".." {
                    assert_eq!((entry.name_attributes, entry.name_handle), (None, None));
                }
            }
            let four = Nfs4::to(&world, &tree.gate, 7, "up").await;
            let up = four.does(vec![put(&dir.data), OP_LOOKUPP, OP_GETFH]).await;
            assert_eq!(up.err(), Some(nfsstat4::NFS4ERR_NOENT));
        }
    });
}

#[test]
fn an_export_within_another_keeps_its_rules() {
    in_world(22, async |world| {
        let (_all, tree) = tree(&world).await;
        let caller = Nfs::to(&world, &tree.gate, 7).await;
        let public = caller.mount("/pub").await.unwrap();
        let inner = caller.mount("/pub/inner").await.unwrap();
        assert_eq!(caller.lookup(&public, "inner").await, Ok(inner.clone()));
        let refused = caller.lookup(&public, "hidden").await;
        assert_eq!(refused, Err(nfsstat3::NFS3ERR_ACCES));
        for entry in listed(&caller, &public).await {
            match &entry.name[..] {
                b"inner" => assert_eq!(entry.name_handle, Some(inner.clone())),
                b"hidden" => {
                    assert_eq!((entry.name_attributes, entry.name_handle), (None, None));
                }
                _ => {}
            }
        }
        assert_eq!(made(&caller, &public).await, Ok(()));
        assert_eq!(made(&caller, &inner).await, Err(nfsstat3::NFS3ERR_ROFS));
        // From one into the other nothing is moved or linked.
        let moved = rename(&caller, (&public, "made"), (&inner, "made")).await;
        assert!(moved.is_err());
        let shown = caller.mount("/pub/closed/within/shown").await.unwrap();
        let moved = rename(&caller, (&public, "made"), (&shown, "made")).await;
        assert_eq!(moved, Err(nfsstat3::NFS3ERR_XDEV));
        let file = caller.lookup(&public, "made").await.unwrap();
        let link = LINK3args {
            file: file.clone(),
            link: place(&shown, "made"),
        };
        let LINK3res::default(why, _) = caller.call::<NFSPROC3_LINK>(link).await else {
            panic!("linked into another export")
        };
        assert_eq!(why, nfsstat3::NFS3ERR_XDEV);

        let four = Nfs4::to(&world, &tree.gate, 7, "four").await;
        let handle = async |path: &[&str]| four.walk(path).await;
        assert_eq!(handle(&["pub", "inner"]).await, Ok(inner.data.clone()));
        let refused = handle(&["pub", "hidden"]).await;
        assert_eq!(refused, Err(nfsstat4::NFS4ERR_ACCESS));
        // A listing gives the handles that a lookup gives, and none of what may not be had.
        let wanted = vec![1 << weft_xdr::nfs4::FATTR4_FILEHANDLE];
        let list = OP_READDIR(READDIR4args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 1 << 16,
            maxcount: 1 << 16,
            attr_request: wanted,
        });
        let done = four.does(vec![put(&public.data), list]).await.unwrap();
        let Some(nfs_resop4::OP_READDIR(READDIR4res::NFS4_OK(found))) = done.last() else {
            panic!("{done:?}")
        };
        let mut names = Vec::new();
        for entry in &found.reply.entries {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            // Behind the handle's length.
            let told = &entry.attrs.attr_vals[4..];
            if entry.name == "inner" {
                assert_eq!(told, &inner.data[..]);
            }
        }
        names.sort();
        assert_eq!(names, ["closed", "inner", "link", "made", "sub"]);
        let refused = four.does(vec![put(&inner.data), mkdir("x", 0o755)]).await;
        assert_eq!(refused.err(), Some(nfsstat4::NFS4ERR_ROFS));
        let across = OP_LINK(LINK4args {
            newname: Bytes::from_static(b"made"),
        });
        let saved = vec![put(&file.data), OP_SAVEFH, put(&shown.data), across];
        assert_eq!(four.does(saved).await.err(), Some(nfsstat4::NFS4ERR_XDEV));
        let across = OP_RENAME(RENAME4args {
            oldname: Bytes::from_static(b"made"),
            newname: Bytes::from_static(b"made"),
        });
        let saved = vec![put(&public.data), OP_SAVEFH, put(&shown.data), across];
        assert_eq!(four.does(saved).await.err(), Some(nfsstat4::NFS4ERR_XDEV));
    });
}

/// The way up from an export leads through another one, and there as far as who asks could have come down.
#[test]
fn the_way_up_is_as_open_as_the_way_down() {
    in_world(23, async |world| {
        let (_all, tree) = tree(&world).await;
        let four = Nfs4::to(&world, &tree.gate, 7, "four").await;
        let down = ["pub", "closed", "within"].map(|name| {
            OP_LOOKUP(LOOKUP4args {
                objname: name.to_owned().into(),
            })
        });
        let walked = four.does([&[OP_PUTROOTFH][..], &down, &[OP_GETFH]].concat());
        assert_eq!(walked.await.err(), Some(nfsstat4::NFS4ERR_ACCESS));
        let caller = Nfs::to(&world, &tree.gate, 7).await;
        let shown = caller.mount("/pub/closed/within/shown").await.unwrap();
        let up = four
            .does(vec![put(&shown.data), OP_LOOKUPP, OP_GETFH])
            .await;
        assert_eq!(up.err(), Some(nfsstat4::NFS4ERR_ACCESS));
        // Where nothing is in the way it leads on.
        let inner = caller.mount("/pub/inner").await.unwrap();
        let up = four
            .does(vec![put(&inner.data), OP_LOOKUPP, OP_GETFH])
            .await;
        let Some(nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found))) = up.unwrap().pop() else {
            panic!("no handle")
        };
        assert_eq!(found.object, caller.mount("/pub").await.unwrap().data);
    });
}
