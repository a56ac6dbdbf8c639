//! The reference's answers to single operations, right ones and wrong ones.

use super::content;
use super::history::{ClientId, History, Kind, Op, Outcome, Reply, Seen};
use super::linearize::{check, check_in_parts, prepared};

const ROOT: u64 = 1;

/// A history of operations one after the other, unless they say when.
#[derive(Default)]
struct Story {
    history: History,
    now: u64,
}

impl Story {
    /// File 7, called `a`, mode 644, with 100 bytes at 4096.
    fn with_a_file() -> (Story, usize) {
        let mut story = Story::default();
        let create = Op::Create {
            parent: ROOT,
            name: b"a".to_vec(),
            mode: 0o644,
            exclusive: true,
            truncate: false,
        };
        let seen = Seen {
            ino: 7,
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            size: 0,
        };
        story.did(1, create, Reply::Entry(seen));
        let write = Op::Write {
            ino: 7,
            offset: 4096,
            length: 100,
            append: false,
            sync: true,
        };
        let number = story.did(1, write, Reply::Done);
        (story, number)
    }

    fn did(&mut self, client: ClientId, op: Op, reply: Reply) -> usize {
        self.now += 20;
        self.during(client, (self.now, self.now + 10), op, reply)
    }

    fn during(&mut self, client: ClientId, (from, to): (u64, u64), op: Op, reply: Reply) -> usize {
        let number = self.history.begin(client, op, from);
        self.history.end(number, Outcome::Known(reply), to);
        number
    }

    fn is_right(&self) -> bool {
        let records = prepared(self.history.records());
        // What is right as a whole is right in parts.
        let in_parts = || check_in_parts(&records, ROOT, 10_000).is_ok();
        check(&records, ROOT).is_ok() && in_parts()
    }

    /// What becomes of the story of one file if this comes after it.
    fn judges(op: Op, reply: Reply) -> bool {
        let (mut story, _) = Story::with_a_file();
        story.did(2, op, reply);
        story.is_right()
    }
}

fn lock(exclusive: Option<bool>, wait: bool) -> Op {
    Op::Lock {
        ino: 7,
        owner: 0,
        first: 1,
        last: 2,
        exclusive,
        wait,
    }
}

#[test]
fn who_waits_for_a_lock_gets_it_when_it_is_free() {
    let story = || {
        let (mut story, _) = Story::with_a_file();
        story.did(1, lock(Some(true), false), Reply::Done);
        story
    };
    let mut early = story();
    early.during(2, (100, 200), lock(Some(true), true), Reply::Done);
    assert!(!early.is_right(), "nobody freed it");
    early.during(1, (150, 160), lock(None, false), Reply::Done);
    assert!(early.is_right());
    early.during(
        1,
        (210, 220),
        lock(Some(false), false),
        Reply::Error(libc::EAGAIN),
    );
    assert!(early.is_right());
    let mut circle = story();
    let deadlock = Reply::Error(libc::EDEADLK);
    circle.during(2, (100, 200), lock(Some(false), true), deadlock.clone());
    assert!(circle.is_right());
    assert!(
        !Story::judges(lock(Some(false), true), deadlock),
        "it is free"
    );
    let mut impatient = story();
    let again = Reply::Error(libc::EAGAIN);
    impatient.during(2, (100, 200), lock(Some(false), true), again);
    assert!(!impatient.is_right(), "waiting is not answered with EAGAIN");
}

#[test]
fn a_lock_goes_with_a_session_that_had_nothing_to_sync() {
    let (mut story, _) = Story::with_a_file();
    story.did(1, lock(Some(true), false), Reply::Done);
    story.history.session_left(1, 100, 300);
    story.during(2, (90, 200), lock(Some(true), true), Reply::Done);
    assert!(story.is_right());
}

#[test]
fn holes_and_data_are_found_where_they_are() {
    let seek = |offset, hole| Op::Seek {
        ino: 7,
        offset,
        hole,
    };
    assert!(Story::judges(seek(0, false), Reply::Number(4096)));
    assert!(!Story::judges(seek(0, false), Reply::Number(4100)));
    assert!(Story::judges(seek(0, true), Reply::Number(0)));
    assert!(Story::judges(seek(4100, true), Reply::Number(4196)));
    assert!(!Story::judges(seek(4100, true), Reply::Number(4150)));
    let past = || Reply::Error(libc::ENXIO);
    assert!(Story::judges(seek(4196, true), past()));
    assert!(!Story::judges(seek(4100, false), past()));
}

#[test]
fn a_copy_is_the_original_unless_something_came_between() {
    let copied = |reply: u64, between: bool, spoilt: bool| {
        let (mut story, number) = Story::with_a_file();
        let make = Op::Create {
            parent: ROOT,
            name: b"b".to_vec(),
            mode: 0o644,
            exclusive: true,
            truncate: false,
        };
        let seen = Seen {
            ino: 8,
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            size: 0,
        };
        story.did(2, make, Reply::Entry(seen));
        let copy = Op::Copy {
            source: 7,
            from: 4106,
            ino: 8,
            to: 0,
            length: 500,
        };
        story.during(2, (100, 200), copy, Reply::Number(reply));
        if between {
            let punch = Op::Punch {
                ino: 7,
                offset: 4106,
                length: 1,
            };
            story.during(1, (150, 160), punch, Reply::Done);
        }
        let mut bytes = content::bytes(number, 100).split_off(10);
        if spoilt {
            bytes[0] = 0;
        }
        let read = Op::Read {
            ino: 8,
            offset: 0,
            length: 500,
        };
        story.during(1, (300, 310), read, Reply::Bytes(bytes.into()));
        story.is_right()
    };
    assert!(copied(90, false, false));
    assert!(!copied(90, false, true));
    assert!(!copied(80, false, false), "there was more to copy");
    assert!(copied(90, true, true));
}

#[test]
fn who_owns_nothing_may_do_what_the_mode_lets_others() {
    let denied = || Reply::Error(libc::EACCES);
    let access = |mask| Op::Access { ino: 7, mask };
    assert!(Story::judges(access(4), Reply::Done));
    assert!(!Story::judges(access(4), denied()));
    assert!(Story::judges(access(6), denied()));
    assert!(!Story::judges(access(1), Reply::Done));
    let open = |write| Op::OpenAsUser { ino: 7, write };
    assert!(Story::judges(open(false), Reply::Done));
    assert!(!Story::judges(open(true), Reply::Done));
    assert!(Story::judges(open(true), denied()));
    let chmod = || Op::ChmodAsUser { ino: 7 };
    assert!(Story::judges(chmod(), Reply::Error(libc::EPERM)));
    assert!(!Story::judges(chmod(), Reply::Done));
    let remove = || Op::UnlinkAsUser {
        parent: ROOT,
        name: b"a".to_vec(),
    };
    assert!(Story::judges(remove(), denied()));
    assert!(!Story::judges(remove(), Reply::Done));
    assert!(!Story::judges(remove(), Reply::Error(libc::ENOENT)));
}
