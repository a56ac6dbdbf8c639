//! What a client may go on with when its session has ended behind its back.

use super::builder::Cluster;
use super::run::{Options, draw_shape};
use crate::World;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, Errno, OpenFlags};

const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    sync: false,
    execute: false,
    keep_atime: false,
};

async fn client(cluster: &Rc<Cluster>, name: &str) -> Client {
    let env = cluster.world.node(name).env();
    let settings = cluster.client_settings(name);
    Client::connect(env, settings).await.expect("a session")
}

#[test]
fn what_only_another_session_keeps_is_there_for_nobody_else() {
    let world = World::new(1);
    world.set_limit(Duration::from_secs(200));
    let shape = draw_shape(&world, &Options::default());
    let term = shape.session_term;
    let cluster = Rc::new(Cluster::new(&world, shape));
    world.clone().block_on(async move {
        cluster.start().await.expect("a cluster");
        let (sleeper, other) = (client(&cluster, "a").await, client(&cluster, "b").await);
        let cred = Cred::default();
        let flags = CreateFlags {
            exclusive: true,
            open: RW,
        };
        let made = sleeper.create(&cred, sleeper.root(), b"f", 0o644, flags);
        let (known, handle) = made.await.expect("a file");
        let ino = known.attr.ino;
        let kept = other.open(&cred, ino, RW).await.expect("a file");
        // The session of one ends, and nobody asks it when the file's only name goes.
        cluster.world.node("a").pause();
        cluster.world.sleep(term * 2).await;
        other
            .unlink(&cred, other.root(), b"f")
            .await
            .expect("a name");
        cluster.world.node("a").resume();
        cluster.world.sleep(term).await;
        // Nor is it there any more for who has had it open under a session that is over.
        let known = sleeper.getattr(ino).await;
        assert_eq!(known.err(), Some(Errno(libc::ESTALE)));
        let opened = sleeper.open(&cred, ino, RW).await;
        assert_eq!(opened.err(), Some(Errno(libc::ESTALE)));
        // The other one may: the file stays until it has closed that, too.
        let again = other.open(&cred, ino, RW).await.expect("its file");
        other.release(kept, None).await.expect("a handle");
        other.read(again, 0, 1).await.expect("its file");
        sleeper.release(handle, None).await.expect("a handle");
    });
}
