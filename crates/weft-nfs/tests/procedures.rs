//! Every procedure reaches its method and brings its results back, over a real loopback socket.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, real};
use weft_nfs::*;
use weft_oncrpc::{CallError, Connection, Credential, Limits, Server, serve};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::{accept_stat, authsys_parms};
use weft_xdr::{mount3::*, portmap2::*};

const NO: nfsstat3 = nfsstat3::NFS3ERR_NOTSUPP;

fn attributes() -> fattr3 {
    let time = nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    fattr3 {
        r#type: ftype3::NF3REG,
        mode: 0o644,
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        used: 5,
        rdev: specdata3 {
            specdata1: 6,
            specdata2: 7,
        },
        fsid: 8,
        fileid: 9,
        atime: time.clone(),
        mtime: time.clone(),
        ctime: time,
    }
}

fn wcc() -> wcc_data {
    wcc_data {
        before: None,
        after: Some(attributes()),
    }
}

fn handle() -> nfs_fh3 {
    nfs_fh3 {
        data: Bytes::from_static(b"handle"),
    }
}

fn place(name: &'static str) -> diropargs3 {
    diropargs3 {
        dir: handle(),
        name: Bytes::from_static(name.as_bytes()),
    }
}

fn settings() -> sattr3 {
    sattr3 {
        mode: Some(0o600),
        uid: None,
        gid: None,
        size: Some(0),
        atime: set_atime::default(time_how::DONT_CHANGE),
        mtime: set_mtime::default(time_how::SET_TO_SERVER_TIME),
    }
}

/// For each procedure arguments, and the results that the server is to answer.
macro_rules! all {
    ($($procedure:ident $method:ident $arguments:ident $results:ident: $asks:expr => $answers:expr;)*) => {
        struct Recorder {
            env: Env,
            is_slow: bool,
            seen: RefCell<Vec<(&'static str, Caller)>>,
        }

        impl Procedures3 for Recorder {
            $(fn $method(&self, caller: Caller, arguments: $arguments) -> LocalBoxFuture<'static, $results> {
                assert!(arguments == $asks, "{arguments:?}");
                self.seen.borrow_mut().push((stringify!($method), caller));
                let (env, is_slow) = (self.env.clone(), self.is_slow);
                async move {
                    if is_slow {
                        env.sleep(Duration::from_millis(2)).await;
                    }
                    $answers
                }
                .boxed_local()
            })*
        }

        /// Calls all of them, and returns their names in order.
        async fn call_all(client: &Connection, credential: &Credential) -> Vec<&'static str> {
            $(
                let results = client.call::<$procedure>(credential, &$asks).await.unwrap();
                assert!(results == $answers, "{results:?}");
            )*
            vec![$(stringify!($method)),*]
        }
    };
}

all! {
    NFSPROC3_GETATTR getattr GETATTR3args GETATTR3res: GETATTR3args { object: handle() }
        => GETATTR3res::NFS3_OK(GETATTR3resok { obj_attributes: attributes() });
    NFSPROC3_SETATTR setattr SETATTR3args SETATTR3res: SETATTR3args { object: handle(), new_attributes: settings(), guard: None }
        => SETATTR3res::default(nfsstat3::NFS3ERR_NOT_SYNC, SETATTR3resfail { obj_wcc: wcc() });
    NFSPROC3_LOOKUP lookup LOOKUP3args LOOKUP3res: LOOKUP3args { what: place("a") }
        => LOOKUP3res::NFS3_OK(LOOKUP3resok { object: handle(), obj_attributes: Some(attributes()), dir_attributes: None });
    NFSPROC3_ACCESS access ACCESS3args ACCESS3res: ACCESS3args { object: handle(), access: 63 }
        => ACCESS3res::NFS3_OK(ACCESS3resok { obj_attributes: None, access: 31 });
    NFSPROC3_READLINK readlink READLINK3args READLINK3res: READLINK3args { symlink: handle() }
        => READLINK3res::NFS3_OK(READLINK3resok { symlink_attributes: None, data: Bytes::from_static(b"../x") });
    NFSPROC3_READ read READ3args READ3res: READ3args { file: handle(), offset: 1, count: 99_999 }
        => READ3res::NFS3_OK(READ3resok { file_attributes: None, count: 99_999, eof: true, data: vec![7; 99_999].into() });
    NFSPROC3_WRITE write WRITE3args WRITE3res: WRITE3args { file: handle(), offset: 1, count: 99_999, stable: stable_how::FILE_SYNC, data: vec![7; 99_999].into() }
        => WRITE3res::NFS3_OK(WRITE3resok { file_wcc: wcc(), count: 99_999, committed: stable_how::FILE_SYNC, verf: [3; 8] });
    NFSPROC3_CREATE create CREATE3args CREATE3res: CREATE3args { r#where: place("a"), how: createhow3::EXCLUSIVE([4; 8]) }
        => CREATE3res::NFS3_OK(CREATE3resok { obj: Some(handle()), obj_attributes: None, dir_wcc: wcc() });
    NFSPROC3_MKDIR mkdir MKDIR3args MKDIR3res: MKDIR3args { r#where: place("a"), attributes: settings() }
        => MKDIR3res::default(nfsstat3::NFS3ERR_EXIST, MKDIR3resfail { dir_wcc: wcc() });
    NFSPROC3_SYMLINK symlink SYMLINK3args SYMLINK3res: SYMLINK3args { r#where: place("a"), symlink: symlinkdata3 { symlink_attributes: settings(), symlink_data: Bytes::from_static(b"to") } }
        => SYMLINK3res::NFS3_OK(SYMLINK3resok { obj: None, obj_attributes: None, dir_wcc: wcc() });
    NFSPROC3_MKNOD mknod MKNOD3args MKNOD3res: MKNOD3args { r#where: place("a"), what: mknoddata3::NF3FIFO(settings()) }
        => MKNOD3res::default(NO, MKNOD3resfail { dir_wcc: wcc() });
    NFSPROC3_REMOVE remove REMOVE3args REMOVE3res: REMOVE3args { object: place("a") }
        => REMOVE3res::NFS3_OK(REMOVE3resok { dir_wcc: wcc() });
    NFSPROC3_RMDIR rmdir RMDIR3args RMDIR3res: RMDIR3args { object: place("b") }
        => RMDIR3res::default(nfsstat3::NFS3ERR_NOTEMPTY, RMDIR3resfail { dir_wcc: wcc() });
    NFSPROC3_RENAME rename RENAME3args RENAME3res: RENAME3args { from: place("a"), to: place("b") }
        => RENAME3res::NFS3_OK(RENAME3resok { fromdir_wcc: wcc(), todir_wcc: wcc() });
    NFSPROC3_LINK link LINK3args LINK3res: LINK3args { file: handle(), link: place("b") }
        => LINK3res::NFS3_OK(LINK3resok { file_attributes: None, linkdir_wcc: wcc() });
    NFSPROC3_READDIR readdir READDIR3args READDIR3res: READDIR3args { dir: handle(), cookie: 0, cookieverf: [0; 8], count: 4096 }
        => READDIR3res::NFS3_OK(READDIR3resok { dir_attributes: None, cookieverf: [1; 8], reply: dirlist3 {
            entries: (0..50).map(|fileid| entry3 { fileid, name: Bytes::from_static(b"a name"), cookie: fileid + 1 }).collect(),
            eof: false,
        } });
    NFSPROC3_READDIRPLUS readdirplus READDIRPLUS3args READDIRPLUS3res: READDIRPLUS3args { dir: handle(), cookie: 9, cookieverf: [1; 8], dircount: 512, maxcount: 4096 }
        => READDIRPLUS3res::NFS3_OK(READDIRPLUS3resok { dir_attributes: None, cookieverf: [1; 8], reply: dirlistplus3 {
            entries: (0..5).map(|fileid| entryplus3 { fileid, name: Bytes::from_static(b"x"), cookie: fileid, name_attributes: Some(attributes()), name_handle: Some(handle()) }).collect(),
            eof: true,
        } });
    NFSPROC3_FSSTAT fsstat FSSTAT3args FSSTAT3res: FSSTAT3args { fsroot: handle() }
        => FSSTAT3res::default(nfsstat3::NFS3ERR_STALE, FSSTAT3resfail { obj_attributes: None });
    NFSPROC3_FSINFO fsinfo FSINFO3args FSINFO3res: FSINFO3args { fsroot: handle() }
        => FSINFO3res::NFS3_OK(FSINFO3resok {
            obj_attributes: None, rtmax: 1 << 20, rtpref: 1 << 20, rtmult: 4096, wtmax: 1 << 20, wtpref: 1 << 20, wtmult: 4096, dtpref: 65536,
            maxfilesize: 1 << 60, time_delta: nfstime3 { seconds: 0, nseconds: 1 }, properties: FSF3_LINK | FSF3_SYMLINK,
        });
    NFSPROC3_PATHCONF pathconf PATHCONF3args PATHCONF3res: PATHCONF3args { object: handle() }
        => PATHCONF3res::default(nfsstat3::NFS3ERR_BADHANDLE, PATHCONF3resfail { obj_attributes: None });
    NFSPROC3_COMMIT commit COMMIT3args COMMIT3res: COMMIT3args { file: handle(), offset: 0, count: 0 }
        => COMMIT3res::NFS3_OK(COMMIT3resok { file_wcc: wcc(), verf: [5; 8] });
}

struct Paths;

impl Exports for Paths {
    fn mount(&self, caller: &Caller, path: &[u8]) -> Result<Bytes, mountstat3> {
        match path {
            b"/" if caller.peer.starts_with("127.0.0.1:") => Ok(handle().data),
            b"/secret" => Err(mountstat3::MNT3ERR_ACCES),
            _ => Err(mountstat3::MNT3ERR_NOENT),
        }
    }

    fn list(&self) -> Vec<Export> {
        let export = |path: &str, groups: &[&str]| Export {
            path: Bytes::copy_from_slice(path.as_bytes()),
            groups: groups
                .iter()
                .map(|name| Bytes::copy_from_slice(name.as_bytes()))
                .collect(),
        };
        let (long_path, long_name) = ("/".repeat(1025), "x".repeat(256));
        vec![
            export("/", &["a", &long_name, "b"]),
            export(&long_path, &[]),
            export("/secret", &[]),
        ]
    }
}

async fn gateway(env: &Env, is_slow: bool) -> (Server, Rc<Recorder>) {
    let recorder = Rc::new(Recorder {
        env: env.clone(),
        is_slow,
        seen: RefCell::default(),
    });
    let served = [(NFS_PROGRAM, NFS_V3), (MOUNT_PROGRAM, MOUNT_V3)];
    let served = served.map(|(program, version)| Served {
        program,
        version,
        port: 2049,
    });
    let programs: Vec<Rc<dyn weft_oncrpc::Program>> = vec![
        Rc::new(Nfs3::new(env, recorder.clone())),
        Rc::new(Mount3::new(Rc::new(Paths))),
        Rc::new(Portmap2::new(served.to_vec())),
    ];
    let server = serve(env, "127.0.0.1:0", Limits::default(), programs)
        .await
        .unwrap();
    (server, recorder)
}

async fn client(env: &Env, server: &Server) -> Connection {
    Connection::connect(env, server.address(), Limits::default(), vec![])
        .await
        .unwrap()
}

fn user() -> Credential {
    Credential::Sys(authsys_parms {
        stamp: 0,
        machinename: Bytes::from_static(b"m"),
        uid: 11,
        gid: 12,
        gids: vec![13],
    })
}

#[test]
fn every_procedure_reaches_its_method_and_comes_back_at_once_or_later() {
    for is_slow in [false, true] {
        real::run(|env| async move {
            let (server, recorder) = gateway(&env, is_slow).await;
            let client = client(&env, &server).await;
            client
                .call::<NFSPROC3_NULL>(&Credential::None, &())
                .await
                .unwrap();
            let names = call_all(&client, &user()).await;
            assert_eq!(names.len(), 21);
            let seen = recorder.seen.borrow();
            let methods: Vec<_> = seen.iter().map(|(method, _)| *method).collect();
            assert_eq!(methods, names);
            assert!(
                seen.iter().all(|(_, caller)| caller.credential == user()
                    && caller.peer.starts_with("127.0.0.1:"))
            );
        })
        .unwrap();
    }
}

#[test]
fn slow_calls_do_not_hold_up_one_another() {
    real::run(|env| async move {
        let (server, _recorder) = gateway(&env, true).await;
        let client = client(&env, &server).await;
        let (user, asks) = (user(), GETATTR3args { object: handle() });
        let begun = env.now();
        let calls = (0..60).map(|_| client.call::<NFSPROC3_GETATTR>(&user, &asks));
        for result in futures_util::future::join_all(calls).await {
            result.unwrap();
        }
        let took = env.now().since(begun);
        assert!(
            took < Duration::from_millis(60),
            "{took:?} for 50 of 2 ms each"
        );
    })
    .unwrap();
}

#[test]
fn a_path_becomes_a_handle() {
    real::run(|env| async move {
        let (server, _recorder) = gateway(&env, false).await;
        let client = client(&env, &server).await;
        let mount = async |path: &'static str| {
            let path = Bytes::from_static(path.as_bytes());
            client.call::<MOUNTPROC3_MNT>(&user(), &path).await.unwrap()
        };
        let mounted = mountres3_ok {
            fhandle: handle().data,
            auth_flavors: vec![1],
        };
        assert_eq!(mount("/").await, mountres3::MNT3_OK(mounted));
        assert_eq!(
            mount("/secret").await,
            mountres3::default(mountstat3::MNT3ERR_ACCES)
        );
        assert_eq!(
            mount("").await,
            mountres3::default(mountstat3::MNT3ERR_NOENT)
        );
        let exports = client
            .call::<MOUNTPROC3_EXPORT>(&user(), &())
            .await
            .unwrap();
        let shown: Vec<_> = exports
            .iter()
            .map(|its| (&its.ex_dir[..], its.ex_groups.len()))
            .collect();
        // What is longer than the protocol allows is not shown.
        assert_eq!(shown, [(&b"/"[..], 2), (b"/secret", 0)]);
        assert_eq!(
            client.call::<MOUNTPROC3_DUMP>(&user(), &()).await,
            Ok(vec![])
        );
        client
            .call::<MOUNTPROC3_UMNT>(&user(), &Bytes::from_static(b"/"))
            .await
            .unwrap();
        client
            .call::<MOUNTPROC3_UMNTALL>(&user(), &())
            .await
            .unwrap();
    })
    .unwrap();
}

#[test]
fn programs_have_ports_and_nobody_registers() {
    real::run(|env| async move {
        let (server, _recorder) = gateway(&env, false).await;
        let client = client(&env, &server).await;
        let none = Credential::None;
        let ask = |prog, vers, prot| mapping {
            prog,
            vers,
            prot,
            port: 0,
        };
        for (wanted, port) in [
            (ask(NFS_PROGRAM, 3, IPPROTO_TCP), 2049),
            (ask(MOUNT_PROGRAM, 3, IPPROTO_TCP), 2049),
            (ask(MOUNT_PROGRAM, 1, IPPROTO_TCP), 2049),
            (ask(NFS_PROGRAM, 3, IPPROTO_UDP), 0),
            (ask(100_021, 4, IPPROTO_TCP), 0),
        ] {
            assert_eq!(
                client.call::<PMAPPROC_GETPORT>(&none, &wanted).await,
                Ok(port),
                "{wanted:?}"
            );
        }
        assert_eq!(
            client
                .call::<PMAPPROC_DUMP>(&none, &())
                .await
                .unwrap()
                .len(),
            2
        );
        let mine = mapping {
            prog: NFS_PROGRAM,
            vers: 3,
            prot: IPPROTO_TCP,
            port: 1,
        };
        assert_eq!(client.call::<PMAPPROC_SET>(&none, &mine).await, Ok(false));
        assert_eq!(client.call::<PMAPPROC_UNSET>(&none, &mine).await, Ok(false));
        let through = call_args {
            prog: NFS_PROGRAM,
            vers: 3,
            proc: 0,
            args: Bytes::new(),
        };
        assert_eq!(
            client.call::<PMAPPROC_CALLIT>(&none, &through).await,
            Err(CallError::Refused(accept_stat::PROC_UNAVAIL))
        );
    })
    .unwrap();
}
