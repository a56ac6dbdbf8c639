//! Histories that are right and histories that are not: the oracle itself must tell them apart.

use super::content;
use super::history::{History, Kind, Op, Outcome, Reply, Seen};
use super::linearize::{Violation, check, check_at_once, check_in_parts, prepared};
use super::seams::ByCache;

struct Script {
    history: History,
}

const ROOT: u64 = 1;
/// Enough for the histories here.
const STATES_FEW: usize = 5_000;

fn file(ino: u64, size: u64) -> Reply {
    Reply::Entry(Seen {
        ino,
        kind: Kind::File,
        mode: 0o644,
        nlink: 1,
        size,
    })
}

fn create(name: &str) -> Op {
    Op::Create {
        parent: ROOT,
        name: name.into(),
        mode: 0o644,
        exclusive: false,
        truncate: false,
    }
}

fn lookup(name: &str) -> Op {
    Op::Lookup {
        parent: ROOT,
        name: name.into(),
    }
}

fn unlink(name: &str) -> Op {
    Op::Unlink {
        parent: ROOT,
        name: name.into(),
    }
}

fn write(ino: u64, offset: u64, length: u64) -> Op {
    Op::Write {
        ino,
        offset,
        length,
        append: false,
        sync: false,
    }
}

fn read(ino: u64, offset: u64, length: u64) -> Op {
    Op::Read {
        ino,
        offset,
        length,
    }
}

impl Script {
    fn new() -> Script {
        Script {
            history: History::default(),
        }
    }

    fn op(&self, client: u32, from: u64, to: u64, op: Op, reply: Reply) -> usize {
        let number = self.history.begin(client, op, from);
        self.history.end(number, Outcome::Known(reply), to);
        number
    }

    fn unknown(&self, client: u32, from: u64, until: u64, op: Op) -> usize {
        let number = self.history.begin(client, op, from);
        self.history.end(number, Outcome::Unknown { until }, until);
        number
    }

    fn verdict(&self) -> Result<(), Violation> {
        let records = prepared(self.history.records());
        let verdict = check(&records, ROOT).map(|_| ());
        // What is right as a whole is right in parts.
        verdict.and_then(|()| check_in_parts(&records, ROOT, STATES_FEW))
    }
}

fn data(write: usize, length: u64) -> Reply {
    Reply::Bytes(content::bytes(write, length).into())
}

#[test]
fn a_plain_history_is_right() {
    let script = Script::new();
    script.op(1, 0, 10, lookup("a"), Reply::Absent);
    script.op(1, 10, 20, create("a"), file(7, 0));
    let written = script.op(1, 20, 30, write(7, 0, 64), Reply::Done);
    script.op(2, 30, 40, lookup("a"), file(7, 64));
    script.op(2, 40, 50, read(7, 0, 100), data(written, 64));
    script.op(2, 50, 60, unlink("a"), Reply::Done);
    script.op(1, 60, 70, lookup("a"), Reply::Absent);
    script.verdict().unwrap();
}

#[test]
fn attributes_with_an_answer_may_be_younger_than_the_change_but_not_older() {
    for (size, right) in [(0, true), (64, true), (10, false)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 10), Reply::Done);
        let again = Op::Create {
            parent: ROOT,
            name: "a".into(),
            mode: 0o644,
            exclusive: false,
            truncate: true,
        };
        script.op(2, 30, 50, again, file(7, size));
        script.op(1, 40, 45, write(7, 0, 64), Reply::Done);
        script.op(2, 60, 70, lookup("a"), file(7, 64));
        assert_eq!(script.verdict().is_ok(), right, "{size}");
    }
}

#[test]
fn many_unknown_operations_on_many_things_stay_few_states() {
    let script = Script::new();
    for number in 0..40 {
        script.unknown(1, number, 900, create(&format!("f{number}")));
        script.unknown(2, number, 900, unlink(&format!("g{number}")));
    }
    script.op(3, 100, 110, lookup("f7"), file(77, 0));
    script.op(3, 110, 120, lookup("f8"), Reply::Absent);
    script.op(4, 200, 210, write(77, 0, 5), Reply::Done);
    script.op(4, 300, 310, lookup("f7"), file(77, 5));
    script.verdict().unwrap();
}

#[test]
fn a_history_with_too_many_states_in_all_is_undecided() {
    let script = Script::new();
    for at in 0..100 {
        script.op(1, at * 10, at * 10 + 5, lookup("f"), Reply::Absent);
    }
    let records = prepared(script.history.records());
    // One for each operation, which is few for any of them.
    assert!(check_at_once(&records, ROOT, 100).is_ok());
    let violation = check_at_once(&records, ROOT, 99).unwrap_err();
    assert!(violation.is_undecided, "{}", violation.text);
}

#[test]
fn what_is_undecided_of_one_file_does_not_multiply_what_is_of_another() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let inos = || (7..).take(names.len());
    let script = Script::new();
    for (name, ino) in names.into_iter().zip(inos()) {
        script.op(1, ino, ino, create(name), file(ino, 0));
    }
    // Each of these may have been done before, between or after those that are known, or not at all.
    for ino in inos() {
        script.unknown(1, 50, 900, Op::Truncate { ino, size: 10 });
    }
    for (at, ino) in inos().enumerate() {
        let at = 100 + 20 * at as u64;
        script.op(2, at, at + 5, write(ino, 32, 64), Reply::Done);
        script.op(2, at + 10, at + 15, write(ino, 16, 64), Reply::Done);
    }
    let entry = |(name, ino): (&str, u64)| (name.into(), ino, Kind::File);
    let all = Reply::Listing(names.into_iter().zip(inos()).map(entry).collect());
    script.op(3, 950, 960, Op::List { dir: ROOT }, all);
    let records = prepared(script.history.records());
    assert!(
        check_at_once(&records, ROOT, STATES_FEW)
            .unwrap_err()
            .is_undecided
    );
    check_in_parts(&records, ROOT, STATES_FEW).unwrap();
    // And each is judged.
    let bytes = vec![0; 96];
    let wrong = script.op(3, 500, 510, read(9, 0, 96), Reply::Bytes(bytes.into()));
    let records = prepared(script.history.records());
    let violation = check_in_parts(&records, ROOT, STATES_FEW).unwrap_err();
    assert_eq!(
        (violation.number, violation.is_undecided),
        (wrong, false),
        "{}",
        violation.text
    );
}

#[test]
fn each_part_is_judged() {
    let lock = || Op::Lock {
        ino: 7,
        owner: 1,
        first: 0,
        last: 0,
        exclusive: Some(true),
        wait: false,
    };
    let again = Op::Open {
        ino: 7,
        truncate: true,
    };
    let wrong: [(Op, Reply); 5] = [
        (lookup("a"), Reply::Absent),
        (lookup("a"), file(7, 65)),
        (lock(), Reply::Done),
        (read(7, 0, 64), Reply::Bytes(vec![0; 64].into())),
        (again, Reply::Done),
    ];
    for (op, reply) in wrong {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        let number = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        script.op(1, 20, 30, lock(), Reply::Done);
        script.op(2, 40, 50, op, reply);
        script.op(3, 60, 70, read(7, 0, 64), data(number, 64));
        script.op(3, 80, 90, lookup("a"), file(7, 64));
        let records = prepared(script.history.records());
        let violation = check_in_parts(&records, ROOT, STATES_FEW).unwrap_err();
        assert!(!violation.is_undecided, "{}", violation.text);
    }
}

#[test]
fn nothing_is_asked_of_a_file_that_has_gone() {
    let script = Script::new();
    script.op(1, 0, 10, create("a"), file(7, 0));
    let number = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
    script.op(2, 20, 30, read(7, 0, 64), data(number, 64));
    script.op(2, 30, 40, unlink("a"), Reply::Done);
    script.op(1, 40, 50, Op::Close { ino: 7, owner: 1 }, Reply::Done);
    script.op(2, 60, 70, read(7, 0, 64), Reply::Bytes(vec![].into()));
    script.op(2, 80, 90, read(7, 0, 64), Reply::Error(libc::ESTALE));
    script.verdict().unwrap();
}

#[test]
fn a_lost_acknowledged_create_is_found() {
    let script = Script::new();
    script.op(1, 10, 20, create("a"), file(7, 0));
    let at = script.op(2, 30, 40, lookup("a"), Reply::Absent);
    assert_eq!(script.verdict().unwrap_err().number, at);
}

#[test]
fn concurrent_operations_may_go_either_way_but_only_one_way() {
    let exclusive = || Op::Mkdir {
        parent: ROOT,
        name: "d".into(),
        mode: 0o755,
    };
    let made = |ino| {
        Reply::Entry(Seen {
            ino,
            kind: Kind::Directory,
            mode: 0o755,
            nlink: 2,
            size: 0,
        })
    };
    let script = Script::new();
    script.op(1, 0, 50, exclusive(), Reply::Error(libc::EEXIST));
    script.op(2, 10, 60, exclusive(), made(7));
    script.verdict().unwrap();
    let script = Script::new();
    script.op(1, 0, 50, exclusive(), made(8));
    script.op(2, 10, 60, exclusive(), made(7));
    script.verdict().unwrap_err();
    let script = Script::new();
    script.op(1, 0, 5, exclusive(), Reply::Error(libc::EEXIST));
    script.op(2, 10, 60, exclusive(), made(7));
    script.verdict().unwrap_err();
}

#[test]
fn a_stale_read_is_found_and_a_concurrent_one_is_not_stale() {
    for (begin, right) in [(25, true), (35, false)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        let first = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        script.op(1, 21, 30, write(7, 0, 64), Reply::Done);
        script.op(2, begin, 45, read(7, 0, 64), data(first, 64));
        assert_eq!(script.verdict().is_ok(), right);
    }
}

#[test]
fn reads_do_not_go_back() {
    let script = Script::new();
    script.op(1, 0, 10, create("a"), file(7, 0));
    let first = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
    let second = script.op(1, 20, 100, write(7, 0, 64), Reply::Done);
    script.op(2, 30, 40, read(7, 0, 64), data(second, 64));
    script.op(3, 50, 60, read(7, 0, 64), data(first, 64));
    script.verdict().unwrap_err();
}

#[test]
fn unknown_operations_happen_or_not_and_not_too_late() {
    for (seen, when, right) in [
        (true, 40, true),
        (false, 40, true),
        (true, 400, false),
        (false, 400, true),
    ] {
        let script = Script::new();
        script.unknown(1, 0, 300, create("a"));
        script.op(2, 20, 25, lookup("a"), Reply::Absent);
        if when == 400 {
            script.op(2, 320, 330, lookup("a"), Reply::Absent);
        }
        let reply = if seen { file(9, 0) } else { Reply::Absent };
        script.op(2, when, when + 5, lookup("a"), reply);
        assert_eq!(script.verdict().is_ok(), right, "{seen} {when}");
    }
    // Seen once, it stays.
    let script = Script::new();
    script.unknown(1, 0, 300, create("a"));
    script.op(2, 20, 25, lookup("a"), file(9, 0));
    script.op(2, 30, 35, lookup("a"), Reply::Absent);
    script.verdict().unwrap_err();
}

#[test]
fn a_dead_clients_unsynced_write_may_be_lost_a_synced_one_not() {
    for (synced, lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        let number = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        if synced {
            let fsync = Op::Fsync {
                ino: 7,
                data_only: false,
            };
            script.op(1, 21, 30, fsync, Reply::Done);
        }
        let end = script.history.client_dies(1, 40, 45);
        script.history.end(end, Outcome::Known(Reply::Done), 1000);
        let reply = if lost {
            Reply::Bytes(Default::default())
        } else {
            data(number, 64)
        };
        script.op(2, 500, 600, read(7, 0, 64), reply);
        assert_eq!(script.verdict().is_ok(), !(synced && lost));
    }
}

#[test]
fn a_client_that_left_in_good_order_has_lost_nothing() {
    let script = Script::new();
    script.op(1, 0, 10, create("a"), file(7, 0));
    let number = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
    script.history.session_left(1, 30, 40);
    script.op(2, 50, 60, read(7, 0, 64), data(number, 64));
    script.verdict().unwrap();
    script.op(2, 70, 80, read(7, 0, 64), Reply::Bytes(Default::default()));
    script.verdict().unwrap_err();
}

#[test]
fn what_nobody_took_may_be_missing_before_its_writer_dies_if_it_was_to_be_told() {
    for (was_lost, dies, right) in [
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        let zeros = Reply::Bytes(vec![0; 64].into());
        script.op(2, 30, 40, read(7, 0, 64), zeros);
        if was_lost {
            script.history.lost_untold(1, 7);
        }
        if dies {
            script.history.client_dies(1, 50, 60);
        }
        script.history.settled(70);
        assert_eq!(script.verdict().is_ok(), right, "{was_lost} {dies}");
    }
}

#[test]
fn a_name_and_the_file_of_another_group_that_it_stands_for_are_asked_for_one_after_the_other() {
    let far = weft_types::Ino::new(weft_types::Slot(9), 7).0;
    for (ino, is_right) in [(7, false), (far, true)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(ino, 0));
        let link = Op::Link {
            ino,
            parent: ROOT,
            name: b"b".to_vec(),
        };
        let Reply::Entry(seen) = file(ino, 0) else {
            panic!("no entry");
        };
        let of_two = Reply::Entry(Seen { nlink: 2, ..seen });
        script.op(1, 10, 20, link, of_two);
        script.op(1, 30, 50, unlink("a"), Reply::Done);
        // The name is of before, the number of names of after.
        script.op(2, 35, 60, lookup("a"), file(ino, 0));
        assert_eq!(script.verdict().is_ok(), is_right, "{ino:x}");
        script.op(2, 70, 80, lookup("a"), file(ino, 0));
        assert!(script.verdict().is_err());
    }
}

#[test]
fn a_file_that_is_opened_and_cut_may_lose_its_last_name_between_the_two_and_is_cut() {
    for (seen, is_right) in [(64, true), (0, true), (10, false)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        let open = |truncate| Op::Open { ino: 7, truncate };
        script.op(1, 20, 25, open(false), Reply::Done);
        script.op(2, 30, 100, open(true), Reply::Done);
        script.op(1, 40, 50, unlink("a"), Reply::Done);
        let Reply::Entry(of_one) = file(7, seen) else {
            panic!("no entry");
        };
        let getattr = || Op::Getattr { ino: 7 };
        let of_none = Reply::Entry(Seen { nlink: 0, ..of_one });
        script.op(1, 60, 70, getattr(), of_none.clone());
        assert_eq!(script.verdict().is_ok(), is_right, "{seen}");
        script.op(1, 110, 120, getattr(), of_none);
        assert_eq!(script.verdict().is_ok(), seen == 0, "{seen}");
    }
}

#[test]
fn a_file_that_may_be_another_groups_is_found_by_its_name_and_cut_then() {
    let of_another_slot = 1 << 52 | 7;
    for (ino, may_cross) in [(7, false), (of_another_slot, true)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(ino, 0));
        let cutting = Op::Create {
            parent: ROOT,
            name: "a".into(),
            mode: 0o644,
            exclusive: false,
            truncate: true,
        };
        let rename = Op::Rename {
            parent: ROOT,
            name: "a".into(),
            new_parent: ROOT,
            new_name: "b".into(),
            no_replace: false,
            exchange: false,
        };
        script.op(1, 40, 50, rename, Reply::Done);
        script.op(1, 60, 70, write(ino, 0, 64), Reply::Done);
        script.op(2, 30, 100, cutting, file(ino, 0));
        script.op(1, 110, 120, lookup("b"), file(ino, 0));
        assert_eq!(script.verdict().is_ok(), may_cross);
    }
}

#[test]
fn a_write_that_was_refused_does_not_show_that_what_another_had_written_is_safe() {
    let append = |bytes| Op::Write {
        ino: 7,
        offset: 0,
        length: bytes,
        append: true,
        sync: true,
    };
    for is_refused in [true, false] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        let number = script.history.begin(2, append(8), 30);
        let outcome = match is_refused {
            true => Outcome::Partly,
            false => Outcome::Known(Reply::Done),
        };
        script.history.end(number, outcome, 40);
        script.history.client_dies(1, 50, 60);
        script.history.settled(70);
        script.op(2, 80, 90, read(7, 0, 8), Reply::Bytes(Default::default()));
        assert_eq!(script.verdict().is_ok(), is_refused);
    }
}

#[test]
fn what_failed_after_a_close_may_be_lost_though_another_has_looked_at_the_file() {
    let zeros = || Reply::Bytes(vec![0; 64].into());
    for (fails, synced, lost) in [
        (true, false, true),
        (true, false, false),
        (true, true, true),
        (false, false, true),
    ] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        let number = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        if synced {
            let fsync = Op::Fsync {
                ino: 7,
                data_only: false,
            };
            // Operations that touch may have been done in either order.
            script.op(1, 21, 24, fsync, Reply::Done);
        }
        script.op(1, 25, 30, Op::Close { ino: 7, owner: 1 }, Reply::Done);
        script.op(2, 40, 50, lookup("a"), file(7, 64));
        if fails {
            script.history.sync_failed(1, 60, 70);
            script.history.session_lost(1, 60, 70);
        } else {
            script.history.session_left(1, 60, 70);
        }
        let reply = if lost { zeros() } else { data(number, 64) };
        script.op(2, 80, 90, read(7, 0, 64), reply);
        let right = !lost || fails && !synced;
        assert_eq!(script.verdict().is_ok(), right, "{fails} {synced} {lost}");
        // It is not there one moment and gone the next.
        script.op(2, 100, 110, read(7, 0, 64), zeros());
        script.op(2, 120, 130, read(7, 0, 64), data(number, 64));
        script.verdict().unwrap_err();
    }
}

#[test]
fn open_files_outlive_their_names_and_locks_exclude() {
    let lock = |exclusive| Op::Lock {
        ino: 7,
        owner: 1,
        first: 0,
        last: 2,
        exclusive,
        wait: false,
    };
    let script = Script::new();
    script.op(1, 0, 10, create("a"), file(7, 0));
    script.op(2, 10, 20, unlink("a"), Reply::Done);
    let number = script.op(1, 20, 30, write(7, 5, 3), Reply::Done);
    let mut bytes = vec![0; 5];
    bytes.extend(content::bytes(number, 3));
    script.op(1, 30, 40, read(7, 0, 9), Reply::Bytes(bytes.into()));
    script.op(1, 41, 42, lock(Some(true)), Reply::Done);
    script.op(2, 43, 44, lock(Some(false)), Reply::Error(libc::EAGAIN));
    script.op(1, 45, 46, lock(None), Reply::Done);
    script.op(2, 47, 48, lock(Some(false)), Reply::Done);
    script.op(1, 50, 60, Op::Close { ino: 7, owner: 1 }, Reply::Done);
    script.op(
        2,
        60,
        70,
        Op::Getattr { ino: 7 },
        Reply::Error(libc::ESTALE),
    );
    script.verdict().unwrap();
    let link = Op::Link {
        ino: 7,
        parent: ROOT,
        name: "b".into(),
    };
    script.op(2, 71, 72, link, file(7, 8));
    script.verdict().unwrap_err();
}

#[test]
fn two_holders_of_one_lock_are_found() {
    let script = Script::new();
    let lock = || Op::Lock {
        ino: 7,
        owner: 1,
        first: 1,
        last: 1,
        exclusive: Some(true),
        wait: false,
    };
    script.op(1, 0, 10, create("a"), file(7, 0));
    script.op(1, 10, 20, lock(), Reply::Done);
    script.op(2, 15, 30, lock(), Reply::Done);
    script.verdict().unwrap_err();
}

#[test]
fn renames_move_whole_and_exchange() {
    let rename = |name: &str, new: &str, exchange| Op::Rename {
        parent: ROOT,
        name: name.into(),
        new_parent: ROOT,
        new_name: new.into(),
        no_replace: false,
        exchange,
    };
    let script = Script::new();
    script.op(1, 0, 1, create("a"), file(7, 0));
    script.op(1, 1, 2, create("b"), file(8, 0));
    script.op(1, 2, 3, rename("a", "b", true), Reply::Done);
    script.op(1, 3, 4, lookup("a"), file(8, 0));
    script.op(1, 4, 5, rename("a", "b", false), Reply::Done);
    script.op(1, 5, 6, lookup("b"), file(8, 0));
    script.op(
        1,
        6,
        7,
        Op::List { dir: ROOT },
        Reply::Listing(vec![("b".into(), 8, Kind::File)]),
    );
    script.op(1, 7, 8, rename("a", "b", true), Reply::Error(libc::ENOENT));
    script.verdict().unwrap();
    script.op(1, 8, 9, Op::List { dir: ROOT }, Reply::Listing(vec![]));
    script.verdict().unwrap_err();
}

#[test]
fn a_copy_may_be_seen_half_done_while_it_goes_on_and_no_other_way() {
    // What is seen, of what is new and what was there.
    type Seen<'a> = &'a dyn Fn(&[u8], &[u8]) -> Vec<u8>;
    let script = |seen: Seen<'_>, at: u64| {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        let new = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        script.op(1, 20, 30, create("b"), file(8, 0));
        let old = script.op(1, 30, 40, write(8, 0, 48), Reply::Done);
        let copy = Op::Copy {
            source: 7,
            from: 0,
            ino: 8,
            to: 0,
            length: 64,
        };
        script.op(1, 100, 200, copy, Reply::Number(64));
        let (new, old) = (content::bytes(new, 64), content::bytes(old, 48));
        let reply = Reply::Bytes(seen(&new, &old).into());
        script.op(2, at, at + 5, read(8, 0, 64), reply);
        script.op(
            3,
            160,
            170,
            read(8, 0, 64),
            Reply::Bytes(mix(&new, &old, 50).into()),
        );
        script.op(
            2,
            210,
            220,
            read(8, 0, 64),
            Reply::Bytes(new.clone().into()),
        );
        script.verdict()
    };
    script(&|_, old| old.to_vec(), 50).unwrap();
    script(&|new, _| new.to_vec(), 50).unwrap_err();
    script(&|new, old| mix(new, old, 32), 50).unwrap_err();
    for done in [0, 32, 64] {
        script(&|new, old| mix(new, old, done), 120).unwrap();
    }
    script(&|_, _| vec![1; 64], 120).unwrap_err();
    script(&|_, old| old.to_vec(), 230).unwrap_err();
    script(&|new, old| mix(new, old, 50), 230).unwrap_err();
}

/// What a file holds to whose beginning so many bytes were copied.
fn mix(new: &[u8], old: &[u8], done: usize) -> Vec<u8> {
    let mut mixed = new[..done].to_vec();
    mixed.extend_from_slice(old.get(done..).unwrap_or_default());
    mixed
}

#[test]
fn a_directory_may_be_gone_when_it_is_listed() {
    let mkdir = || Op::Mkdir {
        parent: ROOT,
        name: "d".into(),
        mode: 0o755,
    };
    let rmdir = || Op::Rmdir {
        parent: ROOT,
        name: "d".into(),
    };
    let made = Reply::Entry(Seen {
        ino: 7,
        kind: Kind::Directory,
        mode: 0o755,
        nlink: 2,
        size: 4096,
    });
    for (removed, right) in [(20, true), (31, false)] {
        let script = Script::new();
        script.op(1, 0, 10, mkdir(), made.clone());
        script.op(1, removed, 40, rmdir(), Reply::Done);
        script.op(2, 25, 30, Op::List { dir: 7 }, Reply::Error(libc::ESTALE));
        assert_eq!(script.verdict().is_ok(), right, "removed at {removed}");
    }
}

impl Script {
    fn by_cache(&self, number: usize, saw_end: bool, made_up_from: u64) {
        let how = ByCache {
            saw_end,
            made_up_from,
        };
        self.history.went_by_cache(number, how);
    }
}

/// Another client makes the file longer, and then writes its beginning anew, while it is read.
#[test]
fn a_cached_read_may_see_the_end_earlier_than_the_bytes_but_not_than_it_began() {
    for (began, by_cache, saw_end, right) in [
        (25, false, true, false),
        (25, true, true, true),
        (35, true, true, false),
        (35, true, false, true),
    ] {
        let script = Script::new();
        script.history.mounted(1);
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        script.op(2, 22, 30, write(7, 64, 64), Reply::Done);
        let anew = script.op(2, 32, 40, write(7, 0, 64), Reply::Done);
        let seen = script.op(1, began, 50, read(7, 0, 200), data(anew, 64));
        if by_cache {
            script.by_cache(seen, saw_end, u64::MAX);
        }
        let case = (began, by_cache, saw_end);
        assert_eq!(script.verdict().is_ok(), right, "{case:?}");
    }
}

#[test]
fn a_cached_read_is_of_one_moment_in_each_page() {
    const PAGE: u64 = 4096;
    // Where what it shows of the write begins and ends; whether that may be.
    for (shown, right) in [
        (0..2 * PAGE, true),
        (0..PAGE, true),
        (PAGE..2 * PAGE, true),
        (0..0, true),
        (0..PAGE + 100, false),
        (100..PAGE, false),
    ] {
        let script = Script::new();
        script.history.mounted(1);
        script.op(1, 0, 10, create("a"), file(7, 0));
        let old = script.op(1, 10, 20, write(7, 0, 2 * PAGE), Reply::Done);
        let new = script.op(2, 30, 60, write(7, 0, 2 * PAGE), Reply::Done);
        let mut bytes = content::bytes(old, 2 * PAGE);
        let shown_bytes = shown.start as usize..shown.end as usize;
        bytes[shown_bytes.clone()].copy_from_slice(&content::bytes(new, 2 * PAGE)[shown_bytes]);
        let seen = script.op(1, 40, 50, read(7, 0, 2 * PAGE), Reply::Bytes(bytes.into()));
        script.by_cache(seen, true, u64::MAX);
        assert_eq!(script.verdict().is_ok(), right, "{shown:?}");
    }
}

/// The file had been cut, which the kernel did not know.
#[test]
fn what_a_kernel_makes_up_is_not_the_files() {
    for (made_up_from, right) in [(64, true), (100, false)] {
        let script = Script::new();
        script.history.mounted(1);
        script.op(1, 0, 10, create("a"), file(7, 0));
        let written = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        let mut bytes = content::bytes(written, 64);
        bytes.resize(200, 0);
        let seen = script.op(1, 40, 50, read(7, 0, 200), Reply::Bytes(bytes.into()));
        script.by_cache(seen, true, made_up_from);
        assert_eq!(script.verdict().is_ok(), right, "{made_up_from}");
    }
}

/// Nobody has it open, and a mount's kernel may still come with its number.
#[test]
fn what_a_client_does_by_the_number_of_a_file_that_lingers_may_have_been_done() {
    for (size, right) in [(64, true), (200, true), (100, false)] {
        let script = Script::new();
        script.history.mounted(1);
        script.op(1, 0, 10, create("a"), file(7, 0));
        let written = script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        let close = Op::Close { ino: 7, owner: 0 };
        script.op(1, 20, 22, close, Reply::Done);
        script.op(1, 22, 25, unlink("a"), Reply::Done);
        let longer = Op::Truncate { ino: 7, size: 200 };
        script.op(2, 30, 40, longer, Reply::Inode(7, Kind::File));
        let open = Op::Open {
            ino: 7,
            truncate: false,
        };
        script.op(1, 50, 60, open, Reply::Done);
        let mut bytes = content::bytes(written, 64);
        bytes.resize(size, 0);
        script.op(1, 60, 70, read(7, 0, 300), Reply::Bytes(bytes.into()));
        let verdict = script.verdict();
        assert_eq!(verdict.is_ok(), right, "{size} {verdict:?}");
    }
}

#[test]
fn a_write_that_is_sent_in_parts_is_seen_in_parts() {
    for (sent, size, right) in [
        (&[64, 100][..], 64, true),
        (&[64, 100], 80, false),
        (&[], 64, false),
    ] {
        let script = Script::new();
        script.history.mounted(1);
        script.op(1, 0, 10, create("a"), file(7, 0));
        let written = script.op(1, 20, 60, write(7, 30, 170), Reply::Done);
        sent.iter()
            .for_each(|end| script.history.sent_until(written, *end));
        script.op(2, 30, 40, lookup("a"), file(7, size));
        // And written into.
        let between = script.op(2, 45, 50, write(7, 0, 200), Reply::Done);
        let mut bytes = content::bytes(between, 200);
        let last = 100..200;
        bytes[last.clone()].copy_from_slice(&content::bytes(written, 170)[70..]);
        let seen = read(7, 0, 300);
        script.op(2, 70, 80, seen, Reply::Bytes(bytes.into()));
        assert_eq!(script.verdict().is_ok(), right, "{sent:?} {size}");
    }
}

#[test]
fn a_write_that_was_taken_in_part_has_done_that_and_perhaps_the_next_step_and_nothing_beyond() {
    let before = content::bytes(1, 300);
    let after = content::bytes(2, 300);
    let mixed = |new: &[(usize, usize)]| {
        let mut bytes = before.clone();
        for &(from, to) in new {
            bytes[from..to].copy_from_slice(&after[from..to]);
        }
        bytes
    };
    for (by_kernel, seen, right) in [
        (true, mixed(&[(0, 100)]), true),
        (true, mixed(&[(0, 200)]), true),
        (true, mixed(&[(0, 150)]), true),
        (true, mixed(&[]), false),
        (true, mixed(&[(0, 50)]), false),
        (true, mixed(&[(100, 200)]), false),
        (true, mixed(&[(0, 300)]), false),
        (true, mixed(&[(0, 100), (200, 300)]), false),
        // Nobody else sends it in steps: any part of the rest may be there.
        (false, mixed(&[(0, 100)]), true),
        (false, mixed(&[(0, 300)]), true),
        (false, mixed(&[(0, 50)]), false),
    ] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        assert_eq!(script.op(1, 10, 20, write(7, 0, 300), Reply::Done), 1);
        if by_kernel {
            script.history.mounted(2);
        }
        let written = script.op(2, 30, 40, write(7, 0, 300), Reply::Written(100));
        assert_eq!(written, 2);
        if by_kernel {
            script.history.sent_until(written, 100);
            script.history.sent_until(written, 200);
        }
        let bytes = Reply::Bytes(seen.into());
        script.op(3, 50, 60, read(7, 0, 300), bytes);
        let verdict = script.verdict();
        assert_eq!(verdict.is_ok(), right, "{by_kernel} {verdict:?}");
    }
    // Where an append went is not known.
    let append = Op::Write {
        ino: 7,
        offset: 0,
        length: 300,
        append: true,
        sync: false,
    };
    for (size, right) in [(64, true), (164, true), (364, true), (365, false)] {
        let script = Script::new();
        script.op(1, 0, 10, create("a"), file(7, 0));
        script.op(1, 10, 20, write(7, 0, 64), Reply::Done);
        script.op(2, 30, 40, append.clone(), Reply::Written(100));
        script.op(3, 50, 60, lookup("a"), file(7, size));
        assert_eq!(script.verdict().is_ok(), right, "{size}");
    }
}

#[test]
fn a_kernel_looks_at_the_names_of_a_rename_one_after_the_other() {
    for (is_mounted, until, right) in [(true, 50, true), (false, 50, false), (true, 25, false)] {
        let script = Script::new();
        if is_mounted {
            script.history.mounted(1);
        }
        let rename = |name: &str, new_name: &str, exchange| Op::Rename {
            parent: ROOT,
            name: name.into(),
            new_parent: ROOT,
            new_name: new_name.into(),
            no_replace: false,
            exchange,
        };
        let mkdir = Op::Mkdir {
            parent: ROOT,
            name: b"dir".to_vec(),
            mode: 0o755,
        };
        script.op(2, 0, 10, create("a"), file(7, 0));
        script.op(2, 10, 20, mkdir, Reply::Inode(8, Kind::Directory));
        script.op(2, 30, 40, rename("a", "dir", true), Reply::Done);
        let refused = Reply::Error(libc::EISDIR);
        script.op(1, 22, until, rename("a", "a", false), refused);
        assert_eq!(script.verdict().is_ok(), right, "{is_mounted} {until}");
    }
}
