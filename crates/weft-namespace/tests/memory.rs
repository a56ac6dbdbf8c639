//! How much memory an inode takes, by an allocator that counts. The figures are those of
//! docs/performance.md, "Memory per inode".
//!
//! One test only: the count is of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use weft_namespace::State;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    self, AddPair, Create, Cred, DropLease, Entry, FileKind, OpenSession, Time,
};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// What the allocator takes for a request: 16 bytes at least, in steps of 16, as mimalloc's smallest
/// classes are.
fn rounded(layout: Layout) -> usize {
    layout.size().max(16).next_multiple_of(16)
}

// SAFETY: passes every call on to the system's allocator unchanged and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(rounded(layout), Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(rounded(layout), Relaxed);
        // SAFETY: as above; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FILES: u64 = 100_000;

fn apply(state: &mut State, op: Op) -> proto::OpReply {
    let reply = state.apply(&Entry {
        session: 1,
        cred: Some(Cred::default()),
        time: Some(Time {
            seconds: 1_700_000_000,
            nanos: 5,
        }),
        op: Some(proto::Op { op: Some(op) }),
        ..Entry::default()
    });
    assert_eq!(reply.failure_errno, 0);
    reply
}

fn fresh() -> State {
    let mut state = State::new();
    for op in [
        Op::AddPair(AddPair { pair: 0 }),
        Op::AddPair(AddPair { pair: 1 }),
        Op::OpenSession(OpenSession {
            name: "memory".into(),
            ..OpenSession::default()
        }),
    ] {
        let op = Some(proto::Op { op: Some(op) });
        assert_eq!(
            state
                .apply(&Entry {
                    op,
                    ..Entry::default()
                })
                .failure_errno,
            0
        );
    }
    state
}

fn make(state: &mut State, parent: Ino, name: String, kind: FileKind) -> Ino {
    let reply = apply(
        state,
        Op::Create(Create {
            parent: parent.0,
            name: name.into(),
            kind: kind as i32,
            mode: 0o755,
            exclusive: true,
            ..Create::default()
        }),
    );
    let ino = Ino(reply.attr.expect("made").ino);
    if kind == FileKind::Regular {
        apply(state, Op::DropLease(DropLease { ino: ino.0 }));
    }
    ino
}

// The figures are what this test is for: `cargo test -- --nocapture` shows them.
#[allow(clippy::disallowed_macros)]
/// Bytes for each of `FILES` inodes that `fill` makes; the estimate of `statistics` must be near.
fn measure(what: &str, fill: impl FnOnce(&mut State)) -> u64 {
    let mut state = fresh();
    let (before, guessed_before) = (LIVE.load(Relaxed), state.statistics().memory_bytes);
    fill(&mut state);
    let taken = (LIVE.load(Relaxed) - before) as u64;
    let guessed = state.statistics().memory_bytes - guessed_before;
    let each = taken / FILES;
    let ratio = guessed as f64 / taken as f64;
    assert!(
        (0.8..1.25).contains(&ratio),
        "{what}: {taken} bytes taken, {guessed} estimated"
    );

    // What an image gives is packed at least as well.
    let mut records = Vec::new();
    state.save(&mut |record| records.push(record.to_vec()));
    let image: usize = records.iter().map(Vec::len).sum();
    drop(state);
    let before = LIVE.load(Relaxed);
    let loaded = State::load(&records).expect("our own image");
    let loaded_each = (LIVE.load(Relaxed) - before) as u64 / FILES;
    drop(loaded);
    println!(
        "{what}: {each} bytes an inode, {loaded_each} when loaded from an image, {} in the image; estimate {ratio:.2} of the truth",
        image as u64 / FILES
    );
    each
}

#[test]
fn an_inode_takes_little_memory() {
    let one = measure("files in one directory", |state| {
        for i in 0..FILES {
            make(state, ROOT_INO, format!("file-{i:08}"), FileKind::Regular);
        }
    });
    assert!(one < 300, "{one} bytes an inode");
    let many = measure("files in directories of 100", |state| {
        for d in 0..FILES / 100 {
            let dir = make(state, ROOT_INO, format!("dir-{d:05}"), FileKind::Directory);
            for i in 1..100 {
                make(state, dir, format!("file-{i:08}"), FileKind::Regular);
            }
        }
    });
    assert!(many < 320, "{many} bytes an inode");
    let few = measure("directories of one file", |state| {
        for d in 0..FILES / 2 {
            let dir = make(state, ROOT_INO, format!("dir-{d:08}"), FileKind::Directory);
            make(state, dir, "file".into(), FileKind::Regular);
        }
    });
    assert!(few < 600, "{few} bytes an inode");
    let empty = measure("empty directories", |state| {
        for d in 0..FILES {
            make(state, ROOT_INO, format!("dir-{d:08}"), FileKind::Directory);
        }
    });
    assert!(empty < 400, "{empty} bytes an inode");
}
