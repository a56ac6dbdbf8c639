//! Changes that are refused, or of which nobody knows whether they were done: what was there before stays.

use crate::support::*;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;

const OLD: usize = 100_000;
/// Where the write lies that a cut or a hole would destroy, and how long it is.
const AT: usize = 20_000;
const LENGTH: usize = 4_000;

fn create_flags(truncate: bool) -> CreateFlags {
    CreateFlags {
        exclusive: false,
        open: OpenFlags { truncate, ..RW },
    }
}

/// A file of synced bytes with others over them that are only buffered; and what it holds.
async fn file(client: &Client, name: &str) -> (u64, HandleId, Vec<u8>) {
    let (cred, root_ino) = (root(), client.root());
    let created = client.create(&cred, root_ino, name.as_bytes(), 0o644, create_flags(false));
    let (known, handle) = created.await.unwrap();
    let mut content = vec![b'A'; OLD];
    client
        .write(handle, 0, content.clone().into(), false)
        .await
        .unwrap();
    client.fsync(handle, false).await.unwrap();
    content[AT..AT + LENGTH].fill(b'B');
    let written = client.write(handle, AT as u64, Bytes::from(vec![b'B'; LENGTH]), false);
    written.await.unwrap();
    (known.attr.ino, handle, content)
}

async fn read(client: &Client, handle: HandleId) -> Vec<u8> {
    client.read(handle, 0, 2 * OLD).await.unwrap().concat()
}

/// The ways of cutting a file.
async fn cut(client: &Client, way: usize, name: &str, ino: u64, handle: HandleId) -> Result<()> {
    let to = |size| SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    let truncate = OpenFlags {
        truncate: true,
        ..RW
    };
    let cred = root();
    match way {
        0 => client
            .setattr(&cred, ino, to(10_000), Some(handle))
            .await
            .map(drop),
        1 => client.setattr(&cred, ino, to(0), None).await.map(drop),
        2 => client.open(&cred, ino, truncate).await.map(drop),
        _ => {
            let flags = create_flags(true);
            let created = client.create(&cred, client.root(), name.as_bytes(), 0o644, flags);
            created.await.map(drop)
        }
    }
}

/// What was written is there: for its writer, and once it is synced for others.
async fn is_there(cluster: &Cluster, client: &Client, ino: u64, handle: HandleId, content: &[u8]) {
    assert!(read(client, handle).await == content, "not for its writer");
    client.fsync(handle, false).await.unwrap();
    let other = cluster.client().await;
    let opened = other.open(&root(), ino, RO).await.unwrap();
    assert!(read(&other, opened).await == content, "not for others");
    other.close().await.unwrap();
}

#[test]
fn a_cut_that_is_refused_leaves_what_was_written() {
    with_cluster(2, async |cluster| {
        for errno in [libc::ENOSPC, libc::EIO, libc::EDQUOT, libc::EPERM] {
            for way in 0..4 {
                let client = cluster.client().await;
                let name = format!("{errno} {way}");
                let (ino, handle, content) = file(&client, &name).await;
                cluster.refuse_changes(errno);
                let refused = cut(&client, way, &name, ino, handle).await;
                assert_eq!(refused, Err(Errno(errno)), "way {way}");
                cluster.refuse_changes(0);
                is_there(&cluster, &client, ino, handle, &content).await;
                // And it can be cut.
                cut(&client, way, &name, ino, handle).await.unwrap();
                let left = if way == 0 { 10_000 } else { 0 };
                assert!(read(&client, handle).await == content[..left], "way {way}");
                client.close().await.unwrap();
            }
        }
    });
}

#[test]
fn a_cut_that_nobody_answers_leaves_what_was_written_if_it_was_not_done() {
    with_stand_ins(1, async |cluster| {
        for way in 0..4 {
            let settings = Settings {
                patience_ms: 700,
                ..cluster.settings()
            };
            let client = Client::connect(cluster.env.clone(), settings)
                .await
                .unwrap();
            let name = format!("{way}");
            let (ino, handle, content) = file(&client, &name).await;
            let server = cluster.meta.borrow_mut().take().unwrap();
            server.stop().await;
            let cut = cut(&client, way, &name, ino, handle).await;
            assert_eq!(cut, Err(Errno(libc::EIO)), "way {way}");
            cluster.start_meta(&cluster.dir).await;
            // Until it is known, and the pairs are served again.
            cluster.serving(1).await;
            cluster.env.sleep(Duration::from_millis(300)).await;
            is_there(&cluster, &client, ino, handle, &content).await;
            client.close().await.unwrap();
        }
    });
}

#[test]
fn a_hole_that_one_pair_refuses_leaves_what_was_written() {
    with_stand_ins(2, async |cluster| {
        let holes = [
            Allocate::PunchHole,
            Allocate::ZeroRange { keep_size: false },
        ];
        for (errno, hole) in [libc::ENOSPC, libc::EIO].into_iter().zip(holes) {
            let client = cluster.client().await;
            let (ino, handle, content) = file(&client, &format!("{errno}")).await;
            for store in &cluster.stores {
                store.shape_errno.set(errno);
            }
            let refused = client.fallocate(handle, hole, 10_000, 50_000).await;
            assert_eq!(refused, Err(Errno(errno)));
            for store in &cluster.stores {
                store.shape_errno.set(0);
            }
            is_there(&cluster, &client, ino, handle, &content).await;
            client
                .fallocate(handle, hole, 10_000, 50_000)
                .await
                .unwrap();
            let mut holed = content;
            holed[10_000..60_000].fill(0);
            assert!(read(&client, handle).await == holed);
            client.close().await.unwrap();
        }
    });
}

/// A face that notes what it was made to forget.
#[derive(Default)]
struct Face(RefCell<Vec<u64>>);

impl Invalidator for Face {
    fn inode(&self, ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        self.0.borrow_mut().push(ino);
        Box::pin(async { true })
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

#[test]
fn what_was_refused_is_forgotten_before_fsync_says_so() {
    with_stand_ins(1, async |cluster| {
        let client = cluster.client().await;
        let face = Rc::new(Face::default());
        client.set_invalidator(face.clone());
        let (ino, handle, content) = file(&client, "f").await;
        client.fsync(handle, false).await.unwrap();
        assert!(!face.0.borrow().contains(&ino));
        cluster.stores[0].write_errno.set(libc::ENOSPC);
        let new = Bytes::from(vec![b'C'; 5_000]);
        client.write(handle, 40_000, new, false).await.unwrap();
        let refused = client.fsync(handle, false).await;
        assert!(face.0.borrow().contains(&ino), "forgotten before");
        assert_eq!(refused, Err(Errno(libc::ENOSPC)));
        cluster.stores[0].write_errno.set(0);
        assert!(read(&client, handle).await == content, "what is there");
    });
}
