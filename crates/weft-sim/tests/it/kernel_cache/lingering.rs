//! Inodes without a name that a mount's kernel still has, while servers and clients die.

use super::{Program, RDWR, SECOND, SESSION_TERM, Site, under_seeds};
use std::time::Duration;
use weft_client::Errno;
use weft_sim::invariants::reads_linearize;
use weft_sim::kernel::{File, Held};
use weft_sim::oracle::content;
use weft_sim::oracle::history::{History, Kind, Op, Outcome, Reply, Seen};
use weft_types::ROOT_INO;

/// Within this after the removal the inode is there for whoever comes with its number.
const LINGERS_MS: u64 = 1_000;
/// Longer than anything lingers.
const LINGERED: Duration = Duration::from_millis(2_500);
/// Bytes of the file.
const LENGTH: u64 = 5_000;

/// Two mounts; the second has made a file and has it open, the first holds its number.
struct Story {
    site: Site,
    holder: Program,
    remover: Program,
    held: Held,
    open: File,
}

impl Story {
    async fn begin(site: Site) -> Story {
        let (holder, remover) = (site.program(0), site.program(1));
        let root = remover.thread.root();
        let open = remover.create(&root, "file", RDWR).await;
        remover.pwrite(&open, 0, LENGTH, false).await;
        remover.thread.fsync(&open, false).await.unwrap();
        let root = holder.thread.root();
        let held = holder.thread.open_path(&root, b"file").await.unwrap();
        Story {
            site,
            holder,
            remover,
            held,
            open,
        }
    }

    /// The one that leads is killed some time soon, and another leads; the first is started again later.
    async fn another_leads(&self, within_ms: u64) {
        let after = Duration::from_millis(self.holder.below(within_ms));
        self.site.world.sleep(after).await;
        let cluster = &self.site.cluster;
        let active = cluster.active(0).unwrap();
        cluster.stop_meta(active, false);
        while cluster.active(0).is_none_or(|now| now == active) {
            self.site.world.sleep(Duration::from_millis(1)).await;
        }
        cluster.start_meta(active);
    }

    /// The holder has its number, and so what was in it.
    async fn reads(&self, file: &File) {
        let got = self.holder.pread(file, 0, 2 * LENGTH).await;
        assert_eq!(got.len() as u64, LENGTH);
        let stat = self.holder.fstat(file).await;
        assert_eq!((stat.nlink, stat.size), (0, LENGTH));
    }

    /// Nobody has it any more.
    async fn is_gone(&self) -> bool {
        let (client, ino) = (&self.site.connected[0], self.held.ino());
        client.keep_nameless(ino).await == Err(Errno(libc::ESTALE))
    }
}

#[test]
fn what_lingers_is_there_when_another_server_leads() {
    under_seeds(|world| async move {
        let story = Story::begin(Site::with_members(&world, 2, 3).await).await;
        let Story {
            holder,
            remover,
            held,
            ..
        } = &story;
        remover.remove(&remover.thread.root(), "file").await;
        // In some of the runs nobody has it open when the server dies, and nobody has asked for it to be kept.
        let root = remover.thread.root();
        let other = remover.create(&root, "other", RDWR).await;
        remover.thread.close(other).await.unwrap();
        story.another_leads(LINGERS_MS / 2).await;
        let file = holder.open_held(held).await;
        story.reads(&file).await;
        // What is kept outlives who keeps count of it.
        story.another_leads(1).await;
        story.site.world.sleep(LINGERED).await;
        story.reads(&file).await;
        holder.close(file).await;
        story.site.verdict()
    });
}

#[test]
fn what_nobody_has_open_lingers_for_the_next_server_too() {
    under_seeds(|world| async move {
        let mut story = Story::begin(Site::with_members(&world, 2, 3).await).await;
        let (remover, open) = (&story.remover, story.open);
        remover.close(open).await;
        remover.remove(&remover.thread.root(), "file").await;
        story.open = remover.create(&remover.thread.root(), "other", RDWR).await;
        story.another_leads(LINGERS_MS / 2).await;
        let file = story.holder.open_held(&story.held).await;
        story.reads(&file).await;
        story.another_leads(LINGERS_MS).await;
        story.reads(&file).await;
        story.holder.close(file).await;
        story.holder.thread.release(story.held.clone());
        story.site.verdict()
    });
}

#[test]
fn what_a_dead_client_had_open_goes_on_for_who_has_claimed_it() {
    under_seeds(|world| async move {
        let story = Story::begin(Site::with_members(&world, 2, 3).await).await;
        let Story {
            holder,
            remover,
            held,
            ..
        } = &story;
        remover.remove(&remover.thread.root(), "file").await;
        let file = holder.open_held(held).await;
        world.node("mount1").kill();
        // Its session ends under another reign.
        story.another_leads(1).await;
        story.site.world.sleep(2 * SESSION_TERM).await;
        story.reads(&file).await;
        story.another_leads(1).await;
        story.reads(&file).await;
        holder.close(file).await;
        story.site.verdict()
    });
}

#[test]
fn what_a_dead_client_had_claimed_is_let_go() {
    under_seeds(|world| async move {
        let mut story = Story::begin(Site::with_members(&world, 3, 3).await).await;
        story
            .remover
            .remove(&story.remover.thread.root(), "file")
            .await;
        let file = story.holder.open_held(&story.held).await;
        story.reads(&file).await;
        let open = story.open;
        story.remover.close(open).await;
        story.open = file;
        world.node("mount0").kill();
        story.site.connected.swap(0, 2);
        story.another_leads(LINGERS_MS).await;
        story
            .site
            .world
            .sleep(2 * SESSION_TERM + LINGERED + SECOND)
            .await;
        match story.is_gone().await {
            true => Ok(()),
            false => Err("it is kept for nobody".to_owned()),
        }
    });
}

/// A history of two mounts: one makes a file of ten bytes and removes it, the other is told `reply` by an operation
/// that begins so long after that.
fn told(op: impl Fn(u64) -> Op, reply: Reply, after: Duration) -> Result<(), String> {
    const INO: u64 = 7;
    let history = History::default();
    let do_it = |client, op, reply, at: u64| {
        history.mounted(client);
        let number = history.begin(client, op, at);
        history.end(number, Outcome::Known(reply), at + 1);
    };
    let (parent, name) = (ROOT_INO.0, b"file".to_vec());
    let create = Op::Create {
        parent,
        name: name.clone(),
        mode: 0o644,
        exclusive: true,
        truncate: false,
    };
    do_it(1, create, Reply::Inode(INO, Kind::File), 10);
    let write = Op::Write {
        ino: INO,
        offset: 0,
        length: 10,
        append: false,
        sync: false,
    };
    do_it(1, write, Reply::Done, 20);
    do_it(1, Op::Unlink { parent, name }, Reply::Done, 30);
    do_it(1, Op::Close { ino: INO, owner: 0 }, Reply::Done, 40);
    do_it(2, op(INO), reply, 50 + after.as_nanos() as u64);
    reads_linearize::check(history.records(), parent).map(drop)
}

#[test]
fn of_what_has_lost_its_name_a_mount_is_told_the_truth_or_that_it_is_gone() {
    let open = |ino| Op::Open {
        ino,
        truncate: false,
    };
    let stale = || Reply::Error(libc::ESTALE);
    assert_eq!(told(open, Reply::Done, SECOND), Ok(()));
    assert_eq!(told(open, stale(), SECOND), Ok(()));
    assert!(told(open, stale(), SECOND / 2).is_err(), "it lingers");
    assert!(told(open, Reply::Error(libc::EACCES), SECOND).is_err());
    let read = |ino| Op::Read {
        ino,
        offset: 0,
        length: 10,
    };
    // The write was the second operation.
    let bytes = |number| Reply::Bytes(content::bytes(number, 10).into());
    assert_eq!(told(read, bytes(1), SECOND), Ok(()));
    assert!(told(read, bytes(0), SECOND).is_err());
    let getattr = |ino| Op::Getattr { ino };
    let seen = |nlink| {
        Reply::Entry(Seen {
            ino: 7,
            kind: Kind::File,
            mode: 0o600,
            nlink,
            size: 0,
        })
    };
    // Of a ghost nothing else is known.
    assert_eq!(told(getattr, seen(0), SECOND), Ok(()));
    assert!(told(getattr, seen(1), SECOND).is_err());
}
