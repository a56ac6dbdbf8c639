use super::exactly_once::entry;
use super::*;
use weft_types::FILE_BYTES_MAX;
use weft_wire::proto::{SettledSize, TrimDone, WriteLease};

fn write_lease(ino: Ino) -> Op {
    Op::WriteLease(WriteLease {
        ino: ino.0,
        ..WriteLease::default()
    })
}

fn cut(ino: Ino, size: u64) -> Op {
    Op::Setattr(Setattr {
        size: Some(size),
        ..setattr(ino)
    })
}

/// What the holder of the write lease tells.
fn wrote(ino: Ino, size: u64) -> Op {
    let op = Setattr {
        owed: true,
        size: Some(size),
        allocated: Some(size),
        ..setattr(ino)
    };
    Op::Setattr(Setattr {
        mtime: Some(time(2_000_000)),
        ..op
    })
}

fn written(w: &mut World, name: &str, size: u64) -> Ino {
    let f = w.file(&user(1), ROOT_INO, name, 0o644);
    w.ok(&user(1), wrote(f, size));
    f
}

fn trim_done(ino: Ino, trim_seq: u64) -> Op {
    Op::TrimDone(TrimDone {
        ino: ino.0,
        trim_seq,
    })
}

#[test]
fn cutting_to_nothing_begins_a_new_generation() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    w.drop_lease(f);
    let reply = w.ok(&user(1), cut(f, 0));
    assert_eq!(reply.layout.unwrap().generation, 2);
    assert_eq!(reply.trim_seq, 0);
    let attr = reply.attr.unwrap();
    assert_eq!((attr.size, attr.allocated, attr.mtime), (0, 0, w.now()));
    let queue = w.state.deletions(9);
    assert_eq!(queue.len(), 2);
    assert!(queue.iter().all(|d| d.object.generation == 1));
    // Nobody can have written the new generation.
    w.ok(&user(1), cut(f, 0));
    w.ok(&user(1), cut(f, 100));
    let reply = w.ok(&user(1), cut(f, 50));
    assert_eq!((reply.layout.unwrap().generation, reply.trim_seq), (2, 0));
    w.ok(&user(1), unlink(ROOT_INO, "f"));
    assert_eq!(w.state.deletions(9).len(), 2);
}

#[test]
fn a_generation_that_was_leased_is_dropped_though_its_size_is_nothing() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    // The holder may have written and owe the size.
    assert_eq!(w.ok(&user(1), cut(f, 0)).layout.unwrap().generation, 2);
    assert_eq!(w.state.deletions(9).len(), 2);
    // It still holds the lease: the new generation may be written too.
    assert_eq!(w.ok(&user(1), cut(f, 0)).layout.unwrap().generation, 3);
    assert_eq!(w.state.deletions(9).len(), 4);
}

#[test]
fn cutting_shorter_leaves_remains_to_trim() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    w.drop_lease(f);
    let reply = w.ok(&user(1), cut(f, 100));
    assert_ne!(reply.trim_seq, 0);
    assert_eq!(reply.trim_from, 100);
    assert_eq!(reply.layout.unwrap().generation, 1);
    let first = reply.trim_seq;
    let inode = w.state.inode(f).unwrap();
    assert_eq!((inode.trim_seq, inode.trim_from), (first, 100));
    assert_eq!(inode.attr.unwrap().allocated, 4096);

    // Longer again: what lies between is still remains.
    let reply = w.ok(&user(1), cut(f, 4000));
    assert_eq!((reply.trim_seq, reply.trim_from), (first, 100));
    // Shorter again: one more trimming, from the least size.
    let reply = w.ok(&user(1), cut(f, 3000));
    assert!(reply.trim_seq > first);
    assert_eq!(reply.trim_from, 100);
    let second = reply.trim_seq;
    w.ok(&user(1), trim_done(f, first));
    assert_eq!(w.state.inode(f).unwrap().trim_seq, second);
    // Every reply that lets a client cache the file says so.
    let open = create(ROOT_INO, "f", FileKind::Regular, 0);
    let open = Create {
        exclusive: false,
        ..open
    };
    let opened = w.ok(&user(1), Op::Create(open));
    assert_eq!((opened.trim_seq, opened.trim_from), (second, 100));
    let lease = w.ok(&user(1), write_lease(f));
    assert_eq!((lease.trim_seq, lease.trim_from), (second, 100));
    w.ok(&user(1), trim_done(f, second));
    assert_eq!(w.state.inode(f).unwrap().trim_seq, 0);
    assert_eq!(w.fails(&user(1), trim_done(Ino(99), 1)), Errno::ESTALE);
}

#[test]
fn a_writer_trims_even_when_its_file_seems_to_grow() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    // It may have written 10,000 bytes that it owes.
    let reply = w.ok(&user(1), cut(f, 5000));
    assert_ne!(reply.trim_seq, 0);
    assert_eq!(reply.trim_from, 5000);
    w.drop_lease(f);
    w.ok(&user(1), trim_done(f, reply.trim_seq));
    assert_eq!(w.ok(&user(1), cut(f, 9000)).trim_seq, 0);
}

#[test]
fn cutting_to_nothing_clears_a_trim() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    w.ok(&user(1), cut(f, 10));
    w.ok(&user(1), cut(f, 0));
    let inode = w.state.inode(f).unwrap();
    assert_eq!((inode.trim_seq, inode.layout.unwrap().generation), (0, 2));
}

#[test]
fn cutting_to_the_same_size_changes_nothing_but_through_a_descriptor() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    w.drop_lease(f);
    w.ok(&user(1), cut(f, 70));
    let before = w.attr(f);
    w.ok(&user(1), cut(f, 70));
    assert_eq!(w.attr(f), before);
    let by_handle = Setattr {
        size: Some(70),
        by_handle: true,
        ..setattr(f)
    };
    w.ok(&user(1), Op::Setattr(by_handle));
    assert_eq!(w.attr(f).mtime, w.now());
    w.chmod(f, 0o4755);
    w.ok(&user(1), cut(f, 70));
    assert_eq!((w.attr(f).mode, w.attr(f).mtime), (0o755, w.now()));
}

#[test]
fn what_may_be_cut_and_by_whom() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o777);
    let l = w.make(&root(), ROOT_INO, "l", FileKind::Symlink, 0o777);
    let p = w.make(&root(), ROOT_INO, "p", FileKind::Fifo, 0o777);
    assert_eq!(w.fails(&root(), cut(d, 0)), Errno::EISDIR);
    assert_eq!(w.fails(&root(), cut(l, 0)), Errno::EINVAL);
    assert_eq!(w.fails(&root(), cut(p, 0)), Errno::EINVAL);
    assert_eq!(w.fails(&root(), cut(f, FILE_BYTES_MAX + 1)), Errno::EFBIG);
    assert_eq!(w.fails(&root(), cut(f, u64::MAX)), Errno::EFBIG);
    assert_eq!(w.fails(&user(2), cut(f, 0)), Errno::EACCES);
    let by_handle = Setattr {
        size: Some(7),
        by_handle: true,
        ..setattr(f)
    };
    w.ok(&user(2), Op::Setattr(by_handle));
    w.ok(&root(), cut(f, FILE_BYTES_MAX));
    assert_eq!(w.attr(f).size, FILE_BYTES_MAX);
}

#[test]
fn cutting_clears_set_id_but_for_root() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    w.chmod(f, 0o6777);
    w.ok(&root(), cut(f, 4000));
    assert_eq!(w.attr(f).mode, 0o6777);
    w.ok(&user(1), cut(f, 3000));
    assert_eq!(w.attr(f).mode, 0o777);
    w.chmod(f, 0o6777);
    let open = create(ROOT_INO, "f", FileKind::Regular, 0);
    let open = Create {
        exclusive: false,
        open_access: 2,
        truncate: true,
        ..open
    };
    let reply = w.ok(&user(2), Op::Create(open));
    assert_eq!(reply.layout.unwrap().generation, 2);
    let attr = reply.attr.unwrap();
    assert_eq!((attr.mode, attr.size, attr.mtime), (0o777, 0, w.now()));
}

#[test]
fn a_writer_that_is_not_the_owner_cannot_choose_the_time() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o666);
    let op = Setattr {
        size: Some(5),
        mtime: Some(time(9)),
        ..setattr(f)
    };
    w.ok(&user(2), Op::Setattr(op));
    assert_eq!(w.attr(f).mtime, w.now());
    w.ok(&user(1), Op::Setattr(op));
    assert_eq!(w.attr(f).mtime, Some(time(9)));
    let op = Setattr {
        mtime: None,
        mtime_now: true,
        ..op
    };
    w.ok(&user(2), Op::Setattr(op));
}

#[test]
fn nobody_cuts_what_another_session_writes() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    let other = w.open_session();
    assert_eq!(w.fails_in(other, &root(), cut(f, 0)), Errno::EBUSY);
    let open = create(ROOT_INO, "f", FileKind::Regular, 0);
    let open = Op::Create(Create {
        exclusive: false,
        truncate: true,
        ..open
    });
    assert_eq!(w.fails_in(other, &root(), open.clone()), Errno::EBUSY);
    w.drop_lease(f);
    w.ok_in(other, &root(), open);
    w.ok_in(other, &root(), cut(f, 0));
}

#[test]
fn only_the_holder_owes() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o4755);
    let other = w.open_session();
    assert_eq!(w.fails_in(other, &root(), wrote(f, 9)), Errno::ESTALE);
    assert_eq!(w.fails_in(0, &root(), wrote(f, 9)), Errno::ESTALE);
    let attr = w.ok(&user(99), wrote(f, 9)).attr.unwrap();
    assert_eq!((attr.size, attr.allocated, attr.mode), (9, 9, 0o4755));
    // The time of the write is the time of the change.
    assert_eq!([attr.mtime, attr.ctime], [Some(time(2_000_000)); 2]);
    assert_eq!(w.fails(&root(), wrote(f, FILE_BYTES_MAX + 1)), Errno::EFBIG);
    let mixed = Setattr {
        owed: true,
        size: Some(1),
        mode: Some(0),
        ..setattr(f)
    };
    assert_eq!(w.fails(&root(), Op::Setattr(mixed)), Errno::EINVAL);
    let stray = Setattr {
        allocated: Some(1),
        ..setattr(f)
    };
    assert_eq!(w.fails(&root(), Op::Setattr(stray)), Errno::EINVAL);
    w.drop_lease(f);
    assert_eq!(w.fails(&root(), wrote(f, 9)), Errno::ESTALE);
}

#[test]
fn a_vanished_writers_size_is_settled() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let settled = |ino: Ino, size| {
        Op::SettledSize(SettledSize {
            ino: ino.0,
            size,
            ..SettledSize::default()
        })
    };
    assert_eq!(w.fails(&root(), settled(f, 9)), Errno::EPERM);
    assert_eq!(w.fails_in(0, &root(), settled(f, u64::MAX)), Errno::EFBIG);
    assert_eq!(w.fails_in(0, &root(), settled(ROOT_INO, 1)), Errno::EISDIR);
    let attr = w.service(settled(f, 9999)).attr.unwrap();
    assert_eq!((attr.size, attr.mtime), (9999, w.now()));
    assert_eq!(w.state.write_lease(f), None);
    w.service(settled(f, 10));
    assert_eq!(w.attr(f).size, 10);
    let before = w.attr(f);
    w.service(settled(f, 10));
    assert_eq!(w.attr(f), before);
    // With a trimming to be done, what was found are remains.
    let f = written(&mut w, "g", 5000);
    w.ok(&user(1), cut(f, 100));
    w.service(settled(f, 5000));
    assert_eq!(w.attr(f).size, 100);
}

#[test]
fn whoever_cuts_a_file_by_a_name_that_it_does_not_know_to_be_the_files_gives_its_own_leases_back() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    w.ok(&root(), write_lease(f));
    let own = |cuts: Ino, truncate: bool| {
        let create = Create {
            truncate,
            exclusive: false,
            cuts: cuts.0,
            ..create(ROOT_INO, "f", FileKind::Regular, 0o644)
        };
        let entry = entry(&w, 1, 1, Op::Create(create));
        let touched = w.state.touches(&entry);
        let of_file: Vec<bool> = touched
            .iter()
            .filter(|touch| touch.ino == f)
            .map(|touch| touch.own)
            .collect();
        of_file
    };
    assert_eq!(own(Ino(0), true), [true]);
    assert_eq!(own(ROOT_INO, true), [true]);
    assert_eq!(own(f, true), [false]);
    assert_eq!(own(Ino(0), false), []);
}

#[test]
fn a_file_that_has_other_objects_is_known_until_its_cutter_has_acknowledged_that() {
    let mut w = World::new();
    let f = written(&mut w, "f", 5000);
    let unheard = |w: &World| -> Vec<(u64, Ino)> {
        let unheard = w.state.cut_unheard();
        unheard
            .map(|(_, operation, ino)| (operation.0, ino))
            .collect()
    };
    let part = entry(&w, 5, 5, cut(f, 100));
    assert!(!w.state.apply(&part).cut);
    let whole = entry(&w, 6, 5, cut(f, 0));
    assert!(w.state.apply(&whole).cut);
    assert_eq!(unheard(&w), [(6, f)]);
    // A server that begins with an image knows it, too.
    w.state = images::read_again(&w.state);
    assert_eq!(unheard(&w), [(6, f)]);
    w.state.apply(&entry(&w, 9, 6, cut(f, 100)));
    assert_eq!(unheard(&w), [(6, f)]);
    w.state.apply(&entry(&w, 10, 7, cut(f, 100)));
    assert_eq!(unheard(&w), []);
}
