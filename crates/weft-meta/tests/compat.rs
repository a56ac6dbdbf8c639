//! A server's directory of version 1 is kept in `tests/compat/meta-v1`: an image, the journal after it
//! and the view. A server starts from it and knows everything.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use std::path::Path;
use support::*;
use weft_meta::{Settings, start};
use weft_rpc::Payload;
use weft_wire::proto::*;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/compat/meta-v1");

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let to = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &to);
        } else {
            std::fs::copy(item.path(), to).unwrap();
        }
    }
}

#[test]
fn a_directory_of_version_1_is_served() {
    run(|env, dir| async move {
        copy(Path::new(KEPT), &dir);
        let server = server(&env, &dir).await;
        let tool = tool(&env, server.address()).await;
        let status = tool
            .call(&StatusRequest {}, Payload::none())
            .await
            .unwrap()
            .0;
        assert_eq!((status.epoch, status.inodes), (3, 4));
        assert_eq!(
            status.pairs[0].state.unwrap().mode(),
            pair_state::Mode::Both
        );
        assert_eq!(status.pairs[0].members[1].address, "127.0.0.1:9001");
        let explain = ExplainRequest {
            path: "/dir/file".into(),
            ..ExplainRequest::default()
        };
        let explained = tool.call(&explain, Payload::none()).await.unwrap().0;
        let inode = explained.inode.unwrap();
        assert_eq!(inode.attr.unwrap().size, 4711);
        assert_eq!(inode.layout.unwrap().pairs, [0]);
        // The session of its writer is still known.
        let request = SessionRequest {
            session: explained.writer,
            write_leases: vec![inode.attr.unwrap().ino],
            ..Default::default()
        };
        let client = Client::with(&env, server.address(), request).await.unwrap();
        assert_eq!(client.opened.write_leases, [inode.attr.unwrap().ino]);
        let link = client.lookup(1, "link").await.unwrap().inode.unwrap();
        assert_eq!(link.target, "dir/file");
        server.stop().await;
    });
}

/// How the directory was made. Run by hand when there is a new version.
#[test]
#[ignore = "writes what the other test reads"]
fn write_the_kept_directory() {
    run(|env, dir| async move {
        let often = Settings {
            image_every_entries: 5,
            ..settings(&dir)
        };
        let server = start(env.clone(), often.clone()).await.unwrap();
        let _members = pair(&env, server.address(), 0).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let sub = client.mkdir(1, "dir").await;
        let file = client.create(sub, "file").await;
        env.sleep(std::time::Duration::from_secs(1)).await;
        let owed = Setattr {
            ino: file,
            size: Some(4711),
            owed: true,
            ..Default::default()
        };
        client.done(op::Op::Setattr(owed)).await;
        server.stop().await;
        let server = start(env.clone(), settings(&dir)).await.unwrap();
        let request = SessionRequest {
            session: client.session,
            write_leases: vec![file],
            ..Default::default()
        };
        let client = Client::with(&env, server.address(), request).await.unwrap();
        let symlink = op::Op::Create(Create {
            parent: 1,
            name: "link".into(),
            kind: FileKind::Symlink as i32,
            target: "dir/file".into(),
            exclusive: true,
            ..Default::default()
        });
        client.done(symlink).await;
        server.stop().await;
        copy(&dir, Path::new(KEPT));
    });
}
