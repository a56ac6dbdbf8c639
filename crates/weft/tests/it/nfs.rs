//! Real gateways before a real cluster: a file that is made by one is there by the other and on the mount, a gateway
//! that is killed comes back with the same handles, and what was answered as stable is there.

use crate::support;
use crate::support::Dev;
use bytes::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_env::Env;
use weft_oncrpc::{Connection, Credential, Limits};
use weft_xdr::Procedure;
use weft_xdr::mount3::{MOUNTPROC3_MNT, mountres3};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::authsys_parms;

/// A killed process is started again within this time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a gateway listens.
fn address(directory: &Path, number: u32) -> String {
    let config = directory.join(format!("nfs-{number}.toml"));
    let text = std::fs::read_to_string(config).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("listen"))
        .unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

async fn connect(env: &Env, address: &str) -> Connection {
    let begun = Instant::now();
    loop {
        let connecting = Connection::connect(env, address, Limits::default(), Vec::new());
        match connecting.await {
            Ok(connection) => return connection,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{address}: {error}"),
        }
        env.sleep(Duration::from_millis(20)).await;
    }
}

async fn call<P: Procedure>(to: &Connection, arguments: P::Arguments) -> P::Results {
    let root = Credential::Sys(authsys_parms {
        stamp: 0,
        machinename: Bytes::from_static(b"test"),
        uid: 0,
        gid: 0,
        gids: Vec::new(),
    });
    to.call::<P>(&root, &arguments).await.unwrap()
}

async fn mount(to: &Connection) -> nfs_fh3 {
    match call::<MOUNTPROC3_MNT>(to, Bytes::from_static(b"/")).await {
        mountres3::MNT3_OK(mounted) => nfs_fh3 {
            data: mounted.fhandle,
        },
        mountres3::default(why) => panic!("{why:?}"),
    }
}

async fn create(to: &Connection, dir: &nfs_fh3, name: &str) -> nfs_fh3 {
    let set = sattr3 {
        mode: Some(0o644),
        uid: None,
        gid: None,
        size: None,
        atime: set_atime::default(time_how::DONT_CHANGE),
        mtime: set_mtime::default(time_how::DONT_CHANGE),
    };
    let args = CREATE3args {
        r#where: diropargs3 {
            dir: dir.clone(),
            name: name.to_owned().into(),
        },
        how: createhow3::GUARDED(set),
    };
    match call::<NFSPROC3_CREATE>(to, args).await {
        CREATE3res::NFS3_OK(made) => made.obj.unwrap(),
        CREATE3res::default(why, _) => panic!("{why:?}"),
    }
}

async fn write(to: &Connection, file: &nfs_fh3, offset: u64, data: Bytes) -> [u8; 8] {
    let args = WRITE3args {
        file: file.clone(),
        offset,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data,
    };
    match call::<NFSPROC3_WRITE>(to, args).await {
        WRITE3res::NFS3_OK(done) => done.verf,
        WRITE3res::default(why, _) => panic!("{why:?}"),
    }
}

async fn read(to: &Connection, file: &nfs_fh3, offset: u64, count: u32) -> Bytes {
    let args = READ3args {
        file: file.clone(),
        offset,
        count,
    };
    match call::<NFSPROC3_READ>(to, args).await {
        READ3res::NFS3_OK(done) => done.data,
        READ3res::default(why, _) => panic!("{why:?}"),
    }
}

#[test]
fn gateways_show_one_cluster_and_may_be_killed() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("dev");
    let more = ["--no-mount", "--pairs", "1", "--members", "1", "--nfs", "2"];
    let dev = Dev::up(&directory, &more);
    let whole: Bytes = (0..(3 << 20)).map(|at: u32| (at / 1000) as u8).collect();
    weft_env::real::run(async |env| {
        let one = connect(&env, &address(&directory, 1)).await;
        let root = mount(&one).await;
        let file = create(&one, &root, "file").await;
        let mut verifier = [0; 8];
        for (at, part) in whole.chunks(1 << 20).enumerate() {
            let data = Bytes::copy_from_slice(part);
            verifier = write(&one, &file, (at as u64) << 20, data).await;
        }
        dev.done(&["dev", "kill", "nfs:1"]);
        let two = connect(&env, &address(&directory, 2)).await;
        assert_eq!(mount(&two).await, root);
        for at in 0..3 {
            let found = read(&two, &file, at << 20, 1 << 20).await;
            assert!(found == whole[(at as usize) << 20..][..1 << 20], "{at}");
        }
        dev.done(&["dev", "start", "nfs:1"]);
        let one = connect(&env, &address(&directory, 1)).await;
        let after = write(&one, &file, 5, Bytes::from_static(b"again")).await;
        assert_ne!(after, verifier, "another life, another verifier");
        assert_eq!(&read(&two, &file, 5, 5).await[..], b"again");
    })
    .unwrap();
    // What is wrong is said before anything is served.
    let config = base.path().join("wrong.toml");
    std::fs::write(
        &config,
        "[client]\nmeta = [\"127.0.0.1:1\"]\n[[export]]\npath = \"/a/../b\"\n",
    )
    .unwrap();
    let output = std::process::Command::new(support::WEFT)
        .args(["nfs", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && why.contains("no `..`"), "{why}");
    dev.end();
}
