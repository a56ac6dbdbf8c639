//! Directories of servers are kept in `tests/compat`: an image, the journal after it and the view. A server starts
//! from them and knows everything. `meta-v1`: of the first version; `meta-v2`: with a directory that is spread.

use crate::support::*;
use std::path::Path;
use weft_meta::Settings;
use weft_rpc::{Connection, Payload};
use weft_wire::proto::*;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/compat/meta-v1");
const KEPT_SPREAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/compat/meta-v2");
/// Files in the directory before it is spread.
const FILES: u64 = 12;

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
        let server = begin(&env, often.clone()).await;
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
        let server = begin(&env, settings(&dir)).await;
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

async fn explained(tool: &Connection, path: &str) -> ExplainReply {
    let explain = ExplainRequest {
        path: path.to_owned().into(),
        ..ExplainRequest::default()
    };
    tool.call(&explain, Payload::none()).await.unwrap().0
}

#[test]
fn a_spread_directory_is_served() {
    run(|env, dir| async move {
        copy(Path::new(KEPT_SPREAD), &dir);
        let server = server(&env, &dir).await;
        let tool = tool(&env, server.address()).await;
        let wide = explained(&tool, "/wide").await.inode.unwrap();
        assert_eq!((wide.shards.len(), wide.border), (2, u64::MAX));
        let names: Vec<String> = (0..=FILES).map(|number| format!("f{number}")).collect();
        for name in &names {
            let reply = explained(&tool, &format!("/wide/{name}")).await;
            assert!(reply.inode.is_some(), "{name}");
        }
        let client = Client::open(&env, server.address()).await;
        let mut listed = Vec::new();
        for shard in wide.shards {
            let entries = client.list(shard, false).await.entries;
            assert!(!entries.is_empty());
            listed.extend(entries.into_iter().map(|entry| entry.name));
        }
        assert_eq!(listed.len(), names.len());
        server.stop().await;
    });
}

/// How that directory was made. Run by hand when there is a new version.
#[test]
#[ignore = "writes what the other test reads"]
fn write_the_kept_spread_directory() {
    run(|env, dir| async move {
        let often = Settings {
            image_every_entries: 5,
            ..settings(&dir)
        };
        let server = begin(&env, often).await;
        let _members = pair(&env, server.address(), 0).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let wide = client.mkdir(1, "wide").await;
        for number in 0..FILES {
            client.create(wide, &format!("f{number}")).await;
        }
        let spread = Spread {
            ino: wide,
            shards: 2,
            ..Spread::default()
        };
        client.done(op::Op::Spread(spread)).await;
        let inode = loop {
            let inode = client.inode(wide).await.unwrap().inode.unwrap();
            if inode.border == u64::MAX {
                break inode;
            }
            env.sleep(std::time::Duration::from_millis(10)).await;
        };
        // Until an image is written, too.
        env.sleep(std::time::Duration::from_secs(1)).await;
        server.stop().await;
        let server = begin(&env, settings(&dir)).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let name = format!("f{FILES}");
        let hash = weft_types::name_hash(name.as_bytes());
        let shard = inode.shards[weft_types::shard_of_hash(hash, 2)];
        client.mkdir(shard, &name).await;
        server.stop().await;
        copy(&dir, Path::new(KEPT_SPREAD));
    });
}
