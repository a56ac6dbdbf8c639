use super::*;
use crate::{ImageError, Loader};
use prost::Message;
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::{FileLock, ImageRecord, Policy, SetLock, SetPolicy, Setxattr};

/// A state with something of everything.
fn full() -> World {
    let mut w = World::new();
    let cred = Cred {
        uid: 1,
        gid: 1,
        groups: vec![2],
    };
    let d = w.mkdir(&cred, ROOT_INO, "d", 0o755);
    let policy = Policy {
        stripe_unit: 1 << 16,
        width: 1,
        ..Policy::default()
    };
    w.ok(
        &cred,
        Op::SetPolicy(SetPolicy {
            ino: d.0,
            policy: Some(policy),
        }),
    );
    let kinds = [
        FileKind::Regular,
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
    ];
    for (i, kind) in kinds.into_iter().enumerate() {
        w.make(&cred, d, &format!("k{i}"), kind, 0o4644);
    }
    for (name, kind) in [("c", FileKind::CharDevice), ("b", FileKind::BlockDevice)] {
        let op = Create {
            rdev: 77,
            ..create(d, name, kind, 0o600)
        };
        w.ok(&root(), Op::Create(op));
    }
    let f = w.file(&cred, ROOT_INO, "f", 0o600);
    w.ok(&cred, link(f, d, "f2"));
    w.ok(
        &cred,
        Op::Setattr(Setattr {
            size: Some(1 << 40),
            ..setattr(f)
        }),
    );
    w.ok(
        &cred,
        Op::Setattr(Setattr {
            size: Some(77),
            ..setattr(f)
        }),
    );
    let xattr = Setxattr {
        ino: f.0,
        name: "user.x".into(),
        value: vec![0, 255].into(),
        ..Default::default()
    };
    w.ok(&cred, Op::Setxattr(xattr));
    for (kind, flock) in [(Kind::Exclusive, false), (Kind::Shared, true)] {
        let lock = FileLock {
            kind: kind as i32,
            flock,
            owner: 5,
            start: 3,
            last: 9,
            pid: 6,
            ..FileLock::default()
        };
        w.ok(
            &cred,
            Op::SetLock(SetLock {
                ino: f.0,
                lock: Some(lock),
                wait: false,
                ..SetLock::default()
            }),
        );
    }
    let gone = w.file(&cred, d, "gone", 0o600);
    let op = Unlink {
        parent: d.0,
        name: "gone".into(),
        keep_open: true,
        ..Unlink::default()
    };
    w.ok(&cred, Op::Unlink(op));
    w.service(Op::Orphan(proto::Orphan {
        ino: d.0,
        session: w.session,
    }));
    w.file(&cred, d, "dropped", 0o600);
    w.ok(&cred, unlink(d, "dropped"));
    w.mkdir(&cred, d, "removed", 0o755);
    let removed = w.find(d, "removed").unwrap();
    w.service(Op::Orphan(proto::Orphan {
        ino: removed.0,
        session: w.session,
    }));
    w.ok(&cred, rmdir(d, "removed"));
    for operation in [3, 9] {
        let op = Op::Create(create(d, "recorded", FileKind::Directory, 0o755));
        w.state.apply(&Entry {
            session: w.session,
            operation,
            acknowledged_below: 2,
            cred: Some(cred.clone()),
            time: Some(time(7)),
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        });
    }
    w.service(Op::NewReign(proto::NewReign { epoch: 3 }));
    assert_eq!(w.attr(gone).nlink, 0);
    w
}

fn image(state: &State) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    state.save(&mut |record| records.push(record.to_vec()));
    records
}

/// As whoever begins with its image has it.
pub fn read_again(state: &State) -> State {
    forged(&image(state), |_| ()).unwrap()
}

#[test]
fn a_session_that_only_moves_files_is_known_for_that_in_an_image() {
    let mut w = World::new();
    let [mover, other] = [true, false].map(|only_moves| {
        let open = OpenSession {
            name: "mover".into(),
            only_moves,
            ..OpenSession::default()
        };
        SessionId(w.service(Op::OpenSession(open)).session)
    });
    for state in [&w.state, &read_again(&w.state)] {
        assert!(state.only_moves(mover) && !state.only_moves(other));
    }
}

#[test]
fn an_image_reads_back_as_the_same_state() {
    let mut w = full();
    let records = image(&w.state);
    let mut again = State::load(&records).unwrap();
    assert_eq!(again, w.state);
    assert_eq!(again.digest(), w.state.digest());
    assert_eq!(image(&again), records);
    // And it goes on alike.
    let entry = Entry {
        session: w.session,
        operation: 3,
        op: Some(proto::Op {
            op: Some(rmdir(ROOT_INO, "x")),
        }),
        ..Entry::default()
    };
    assert_eq!(again.apply(&entry), w.state.apply(&entry));
    let op = Op::Create(create(ROOT_INO, "next", FileKind::Regular, 0o644));
    let entry = Entry {
        op: Some(proto::Op { op: Some(op) }),
        ..Entry::default()
    };
    assert_eq!(again.apply(&entry), w.state.apply(&entry));
    assert_eq!(again.digest(), w.state.digest());
}

#[test]
fn the_digest_tells_states_apart() {
    let w = full();
    let digest = w.state.digest();
    let f = w.find(ROOT_INO, "f").unwrap();
    let ops = [
        Op::Setattr(Setattr {
            mode: Some(0o601),
            ..setattr(f)
        }),
        Op::Release(proto::Release {
            ino: w.find(ROOT_INO, "d").unwrap().0,
        }),
        Op::DropLease(proto::DropLease { ino: f.0 }),
        Op::SetLock(SetLock {
            ino: f.0,
            lock: Some(FileLock {
                owner: 8,
                last: 1,
                kind: 1,
                ..Default::default()
            }),
            wait: false,
            ..SetLock::default()
        }),
    ];
    for op in ops {
        let mut other = World {
            state: w.state.clone(),
            ..full()
        };
        other.ok(&root(), op);
        assert_ne!(other.state.digest(), digest);
    }
    let mut other = w.state.clone();
    let op = Op::OpenSession(OpenSession {
        name: String::new(),
        ..OpenSession::default()
    });
    other.apply(&Entry {
        op: Some(proto::Op { op: Some(op) }),
        ..Entry::default()
    });
    assert_ne!(other.digest(), digest);
}

/// Shapes that no file uses any more are no part of the state.
#[test]
fn history_does_not_show_in_the_digest() {
    let mut a = World::new();
    let mut b = World::new();
    let op = |random| Entry {
        random,
        op: Some(proto::Op {
            op: Some(Op::Create(create(ROOT_INO, "f", FileKind::Regular, 0))),
        }),
        ..Entry::default()
    };
    a.state.apply(&op(0));
    b.state.apply(&op(1));
    assert_ne!(a.state.digest(), b.state.digest());
    for state in [&mut a.state, &mut b.state] {
        let op = Some(proto::Op {
            op: Some(unlink(ROOT_INO, "f")),
        });
        state.apply(&Entry {
            op,
            ..Entry::default()
        });
    }
    assert_eq!(a.state.digest(), b.state.digest());
    assert_eq!(a.state, b.state);
}

#[test]
fn images_that_are_cut_off_or_mixed_up_are_refused() {
    let records = image(&full().state);
    for end in 0..records.len() {
        let found = State::load(&records[..end]).unwrap_err();
        assert_eq!(
            found,
            ImageError::CutOff {
                records: end as u64
            }
        );
    }
    for i in 0..records.len() {
        let mut without = records.clone();
        without.remove(i);
        State::load(&without).unwrap_err();
        let mut twice = records.clone();
        twice.insert(i, records[i].clone());
        State::load(&twice).unwrap_err();
        let mut swapped = records.clone();
        swapped.swap(i, (i + 1) % records.len());
        State::load(&swapped).unwrap_err();
    }
    assert!(matches!(
        State::load([[0u8; 0]]),
        Err(ImageError::Malformed { record: 0, .. })
    ));
}

#[test]
fn another_version_is_named() {
    let header = proto::ImageHeader {
        version: 9,
        ..Default::default()
    };
    let record = ImageRecord {
        record: Some(Record::Header(header)),
    }
    .encode_to_vec();
    let error = State::load([record]).unwrap_err();
    assert_eq!(error, ImageError::Version { found: 9 });
    assert!(error.to_string().contains("version 9"));
}

/// Rewrites one record and makes the digest right again, so that only the checks can find it.
fn forged(records: &[Vec<u8>], mut change: impl FnMut(&mut Record)) -> Result<State, ImageError> {
    let mut loader = Loader::new();
    let mut digest = crate::image::Digest::new();
    for bytes in records {
        let mut record = ImageRecord::decode(&bytes[..]).unwrap().record.unwrap();
        change(&mut record);
        if let Record::End(end) = &mut record {
            let now = digest.finish();
            (end.digest_high, end.digest_low) = ((now >> 64) as u64, now as u64);
        }
        let bytes = ImageRecord {
            record: Some(record),
        }
        .encode_to_vec();
        digest.add(&bytes);
        loader.push(&bytes)?;
    }
    loader.finish()
}

#[test]
fn what_makes_no_name_space_is_refused() {
    let records = image(&full().state);
    forged(&records, |_| {}).unwrap();
    type Forgery = (&'static str, fn(&mut Record));
    let forgeries: [Forgery; 26] = [
        ("links", |r| {
            if let Record::Inode(i) = r {
                i.nlink += 1
            }
        }),
        ("mode", |r| {
            if let Record::Inode(i) = r {
                i.mode = 0o10000
            }
        }),
        ("number", |r| {
            if let Record::Inode(i) = r {
                i.ino += 100
            }
        }),
        ("time", |r| {
            if let Record::Inode(i) = r {
                i.ctime = None
            }
        }),
        ("kind", |r| {
            if let Record::Inode(i) = r {
                i.kind = 0
            }
        }),
        ("change", |r| {
            if let Record::Inode(i) = r {
                i.change = u64::MAX
            }
        }),
        ("parent", |r| {
            if let Record::Inode(i) = r {
                i.parent += 1
            }
        }),
        ("shape", |r| {
            if let Record::Inode(i) = r {
                i.shape = 9
            }
        }),
        ("target", |r| {
            if let Record::Inode(i) = r {
                i.target = Default::default()
            }
        }),
        ("policy", |r| {
            if let Record::Inode(i) = r {
                i.policy = None
            }
        }),
        ("cookies", |r| {
            if let Record::Inode(i) = r {
                i.next_cookie = 3
            }
        }),
        ("holder", |r| {
            if let Record::Inode(i) = r {
                i.holders.clear()
            }
        }),
        ("strange holder", |r| {
            if let Record::Inode(i) = r {
                i.holders.push(50)
            }
        }),
        ("trim", |r| {
            if let Record::Inode(i) = r {
                i.trim_from = u64::MAX
            }
        }),
        ("writer", |r| {
            if let Record::Inode(i) = r {
                i.writer = 50
            }
        }),
        ("generation", |r| {
            if let Record::Inode(i) = r {
                i.generation = 0
            }
        }),
        ("names", |r| {
            if let Record::Entries(e) = r {
                e.entries.iter_mut().for_each(|e| e.name = "x/y".into())
            }
        }),
        ("children", |r| {
            if let Record::Entries(e) = r {
                e.entries[0].ino = 1
            }
        }),
        ("order", |r| {
            if let Record::Entries(e) = r {
                e.entries.reverse()
            }
        }),
        ("session", |r| {
            if let Record::Session(s) = r {
                s.session = 77
            }
        }),
        ("reply", |r| {
            if let Record::Reply(s) = r {
                s.reply = vec![255].into()
            }
        }),
        ("acknowledged", |r| {
            if let Record::Reply(s) = r {
                s.operation = 1
            }
        }),
        ("lock", |r| {
            if let Record::Lock(l) = r {
                l.lock = None
            }
        }),
        ("deletion", |r| {
            if let Record::Deletion(d) = r {
                d.queue_id = 99
            }
        }),
        ("pair", |r| {
            if let Record::Pair(p) = r {
                p.mode = 0
            }
        }),
        ("counter", |r| {
            if let Record::Header(h) = r {
                h.next_trim = u64::MAX
            }
        }),
    ];
    for (what, forge) in forgeries {
        let found = forged(&records, forge);
        assert!(
            matches!(found, Err(ImageError::Malformed { .. })),
            "{what}: {found:?}"
        );
    }
    // Two directories inside each other, and away from the root.
    let mut w = World::new();
    let a = w.mkdir(&root(), ROOT_INO, "a", 0o755);
    let b = w.mkdir(&root(), a, "b", 0o755);
    let is_root_entries = |bytes: &Vec<u8>| {
        let record = ImageRecord::decode(&bytes[..]).unwrap().record.unwrap();
        matches!(record, Record::Entries(e) if e.directory == ROOT_INO.0)
    };
    // The name of the outer one moves into the inner one, whose records come later.
    let mut records = image(&w.state);
    let entries = records.remove(records.iter().position(is_root_entries).unwrap());
    records.insert(records.len() - 1, entries);
    let circle = forged(&records, |record| match record {
        Record::Inode(i) if i.ino == a.0 => i.parent = b.0,
        Record::Inode(i) if i.ino == b.0 => (i.nlink, i.next_cookie) = (3, 4),
        Record::Inode(i) if i.ino == ROOT_INO.0 => i.nlink = 2,
        Record::Entries(e) if e.directory == ROOT_INO.0 => e.directory = b.0,
        _ => {}
    });
    let circle = circle.unwrap_err().to_string();
    assert!(circle.contains("inside itself"), "{circle}");
}

#[test]
fn a_flipped_bit_is_found() {
    let records = image(&full().state);
    for (i, record) in records.iter().enumerate() {
        for bit in 0..record.len() * 8 {
            let mut bad = records.clone();
            bad[i][bit / 8] ^= 1 << (bit % 8);
            State::load(&bad).unwrap_err();
        }
    }
}
