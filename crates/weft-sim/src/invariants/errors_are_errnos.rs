//! Every errno that an application was told is one that its system call may give, and one that the
//! faults of the run explain. That it is the right one at that moment the oracle says
//! ([`super::reads_linearize`]); this holds also where the oracle could not decide, and for what it
//! takes as it comes (EIO, ENOSPC).

use super::losses_named::Lost;
use crate::cluster::faults::{Happened, Kind};
use crate::oracle::history::{ErrorSeen, Op, Outcome, Record, Reply};
use std::time::Duration;

/// Faults of disks by which data is lost or cannot be read, though only one member has them: of a
/// write in progress nothing is left to take from the twin.
const DISK_FAILS: &[Kind] = &[Kind::DiskError, Kind::BitFlip];

/// The service refuses with whatever it pleases.
const REFUSALS: &[Kind] = &[Kind::Refusals];

/// Faults by which a member is out of reach though it works: then the other one, whose disk has died, may be
/// the only one that serves.
const OUT_OF_REACH: &[Kind] = &[
    Kind::Cut,
    Kind::OneWayCut,
    Kind::Slow,
    Kind::DataPause,
    Kind::DataCut,
];

/// Faults by which the answer to the release of a file is lost, and its writer does not know that the
/// inode is gone.
const META_DIES: &[Kind] = &[Kind::MetaKill, Kind::MetaPower];

/// As many operations before an error are shown.
const DONE_BEFORE: usize = 12;

/// A client's clock may go faster than the world's by one part in this many.
const CLOCKS_DIFFER: u32 = 1_000;

/// Judges all errors of a run. `lost`: what logs say was lost.
/// `patience`: a client's, before it gives up.
///
/// # Errors
/// The first one that may not be.
pub fn check(
    records: &[Record],
    errors: &[ErrorSeen],
    happened: &[Happened],
    lost: &Lost,
    patience: Duration,
) -> Result<(), String> {
    errors.iter().try_for_each(|error| {
        let record = &records[error.number];
        if is_told_again(records, errors, error) {
            return Ok(());
        }
        judge(records, record, error, happened, lost, patience).map_err(|why| {
            let before = done_before(records, record);
            format!(
                "errno {}: {why}: #{} {record}{before}",
                error.errno, error.number
            )
        })
    })
}

/// Tells of what could not be written earlier, too.
fn tells(op: &Op) -> bool {
    matches!(
        op,
        Op::Fsync { .. } | Op::Close { .. } | Op::Write { .. } | Op::Copy { .. }
    )
}

/// The client has told of a failed write of the file already, by another descriptor: each is told once.
fn is_told_again(records: &[Record], errors: &[ErrorSeen], error: &ErrorSeen) -> bool {
    let record = &records[error.number];
    let is_earlier = |other: &&ErrorSeen| {
        let told = &records[other.number];
        (other.at, other.number) < (error.at, error.number)
            && other.errno == error.errno
            && told.client == record.client
            && told.op.inode() == record.op.inode()
            && tells(&told.op)
    };
    error.errno == libc::EIO && tells(&record.op) && errors.iter().any(|other| is_earlier(&other))
}

/// What the same client did with the inode last, a line each.
fn done_before(records: &[Record], record: &Record) -> String {
    let ino = record.op.inode();
    let is_such = |other: &&Record| {
        other.client == record.client
            && other.invoked < record.invoked
            && (other.op.is_event() || ino.is_some() && other.op.inode() == ino)
    };
    let mut last: Vec<&Record> = records.iter().filter(is_such).collect();
    last.sort_by_key(|other| other.invoked);
    let last = last.iter().rev().take(DONE_BEFORE).rev();
    last.map(|other| format!("\n  before it: {other}"))
        .collect()
}

fn judge(
    records: &[Record],
    record: &Record,
    error: &ErrorSeen,
    happened: &[Happened],
    lost: &Lost,
    patience: Duration,
) -> Result<(), &'static str> {
    let before = |kinds: &[Kind]| {
        let is_such = |fault: &&Happened| kinds.contains(&fault.kind) && fault.from <= error.at;
        happened.iter().any(|fault| is_such(&fault))
    };
    match error.errno {
        libc::EIO => {
            let lost_session = records.iter().any(|other| {
                other.client == record.client
                    && matches!(other.op, Op::Loses)
                    && other.invoked <= error.at
            });
            let gave_up = waited(records, record, error.at) >= patience - patience / CLOCKS_DIFFER;
            let is_gone = before(META_DIES) && is_gone(records, record);
            let source = match record.op {
                Op::Copy { source, .. } => Some(source),
                _ => None,
            };
            let is_forgotten =
                record.op.writes_data() && lost.forgotten.iter().any(|at| *at <= error.at);
            let is_lost = lost.named.iter().any(|(ino, at)| {
                let reads = record.op.inode() == Some(*ino) || source == Some(*ino);
                reads && *at <= error.at
            });
            let no_disk_left = before(&[Kind::DiskDies]) && before(OUT_OF_REACH);
            let disk_fails = before(DISK_FAILS) || no_disk_left;
            let is_lost = is_lost || is_forgotten;
            if is_lost || lost_session || disk_fails || before(REFUSALS) || gave_up || is_gone {
                Ok(())
            } else {
                Err("no disk failed, the session was not lost, and it did not wait its patience")
            }
        }
        libc::ENOSPC | libc::EDQUOT if before(REFUSALS) => Ok(()),
        libc::ENOSPC if before(&[Kind::DiskFull, Kind::MetaFull]) => Ok(()),
        libc::ENOSPC => Err("no disk has been full"),
        libc::EDEADLK if !is_circle(records, record) => Err("nobody else waited"),
        errno if may_give(&record.op, errno) => Ok(()),
        _ => Err("the call does not give that"),
    }
}

/// How long the client had been at it: what it wrote and has not synced since waits from when it was
/// written, though a later call that tells of failed writes says so.
fn waited(records: &[Record], record: &Record, at: u64) -> Duration {
    let of_file =
        |other: &&Record| other.client == record.client && other.op.inode() == record.op.inode();
    let synced = records
        .iter()
        .filter(of_file)
        .filter(|other| {
            let is_done = matches!(other.outcome, Outcome::Known(Reply::Done));
            matches!(other.op, Op::Fsync { .. }) && is_done && other.returned <= at
        })
        .map(|other| other.returned)
        .max()
        .unwrap_or(0);
    let written = records
        .iter()
        .filter(of_file)
        .filter(|other| other.op.changes_content())
        .map(|other| other.invoked)
        .filter(|invoked| *invoked >= synced)
        .min();
    let begun = match written.filter(|_| tells(&record.op)) {
        Some(written) => written.min(record.invoked),
        None => record.invoked,
    };
    Duration::from_nanos(at.saturating_sub(begun))
}

/// Somebody else waited for a lock, too.
fn is_circle(records: &[Record], record: &Record) -> bool {
    let waits = |other: &Record| {
        other.client != record.client
            && matches!(other.op, Op::Lock { wait: true, .. })
            && other.invoked <= record.returned
            && record.invoked <= other.returned
    };
    records.iter().any(waits)
}

/// No name leads to the inode at the end: only a caller that keeps numbers, as this workload does and
/// no kernel, had anything to ask of it once its last user had closed it.
fn is_gone(records: &[Record], record: &Record) -> bool {
    let Some(ino) = record.op.inode() else {
        return false;
    };
    let listings = records
        .iter()
        .rev()
        .filter_map(|other| match &other.outcome {
            Outcome::Known(Reply::Listing(entries)) => Some((other.client, entries)),
            _ => None,
        });
    // The last client to list anything lists everything.
    let mut listings = listings.peekable();
    let Some(&(reader, _)) = listings.peek() else {
        return false;
    };
    listings
        .take_while(|(client, _)| *client == reader)
        .all(|(_, entries)| entries.iter().all(|entry| entry.1 != ino))
}

/// The manual page of the system call has this errno, for such a caller.
fn may_give(op: &Op, errno: i32) -> bool {
    // An inode that is gone.
    if matches!(errno, libc::ENOENT | libc::ESTALE) {
        return !op.is_event();
    }
    match op {
        Op::Lookup { .. } | Op::List { .. } => errno == libc::ENOTDIR,
        Op::Create { .. } => matches!(
            errno,
            libc::EEXIST | libc::EISDIR | libc::ENOTDIR | libc::ELOOP | libc::ENXIO | libc::EINVAL
        ),
        Op::Mkdir { .. } | Op::Mkfifo { .. } | Op::Symlink { .. } => {
            matches!(errno, libc::EEXIST | libc::ENOTDIR)
        }
        Op::Link { .. } => matches!(errno, libc::EEXIST | libc::ENOTDIR | libc::EPERM),
        Op::Unlink { .. } => matches!(errno, libc::EISDIR | libc::ENOTDIR),
        Op::Rmdir { .. } => matches!(errno, libc::ENOTDIR | libc::ENOTEMPTY | libc::EEXIST),
        Op::Rename { .. } => matches!(
            errno,
            libc::EEXIST | libc::ENOTDIR | libc::EISDIR | libc::ENOTEMPTY | libc::EINVAL
        ),
        Op::Readlink { .. } => errno == libc::EINVAL,
        Op::Truncate { .. } => matches!(errno, libc::EISDIR | libc::EINVAL),
        Op::Getxattr { .. } | Op::Removexattr { .. } => errno == libc::ENODATA,
        Op::Lock { wait, .. } => errno == if *wait { libc::EDEADLK } else { libc::EAGAIN },
        Op::Seek { .. } => errno == libc::ENXIO,
        Op::Access { .. } | Op::OpenAsUser { .. } => errno == libc::EACCES,
        Op::ChmodAsUser { .. } => errno == libc::EPERM,
        Op::UnlinkAsUser { .. } => matches!(errno, libc::EACCES | libc::ENOTDIR),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::history::{History, Kind as FileKind};

    const SECOND: u64 = 1_000_000_000;
    const PATIENCE: Duration = Duration::from_secs(60);

    fn judged(op: Op, errno: i32, seconds: u64, happened: &[Happened]) -> Result<(), String> {
        let history = History::default();
        let number = history.begin(1, op, 5 * SECOND);
        let (reply, now) = (Reply::Error(errno), (5 + seconds) * SECOND);
        history.note_error(number, &reply, now);
        history.end(number, Outcome::Known(reply), now);
        check(
            &history.records(),
            &history.errors(),
            happened,
            &Lost::default(),
            PATIENCE,
        )
    }

    fn fault(kind: Kind, from: u64) -> Happened {
        Happened {
            kind,
            from: from * SECOND,
        }
    }

    #[test]
    fn errors_need_what_explains_them() {
        let read = || Op::Read {
            ino: 2,
            offset: 0,
            length: 10,
        };
        assert!(judged(read(), libc::EIO, 1, &[]).is_err());
        assert!(judged(read(), libc::EIO, 61, &[]).is_ok());
        assert!(judged(read(), libc::EIO, 1, &[fault(Kind::BitFlip, 2)]).is_ok());
        assert!(judged(read(), libc::EIO, 1, &[fault(Kind::BitFlip, 7)]).is_err());
        assert!(judged(read(), libc::EIO, 1, &[fault(Kind::DataKill, 2)]).is_err());
        // A twin whose disk works is there.
        let dies = fault(Kind::DiskDies, 1);
        assert!(judged(read(), libc::EIO, 1, &[dies]).is_err());
        assert!(judged(read(), libc::EIO, 1, &[dies, fault(Kind::Cut, 2)]).is_ok());
        let fsync = || Op::Fsync {
            ino: 2,
            data_only: false,
        };
        assert!(judged(fsync(), libc::ENOSPC, 1, &[]).is_err());
        assert!(judged(fsync(), libc::ENOSPC, 1, &[fault(Kind::DiskFull, 1)]).is_ok());
        assert!(judged(fsync(), libc::EPROTO, 1, &[fault(Kind::DiskFull, 1)]).is_err());
        assert!(judged(read(), libc::EINVAL, 1, &[]).is_err());
        let wait = Op::Lock {
            ino: 2,
            owner: 0,
            first: 0,
            last: 0,
            exclusive: Some(true),
            wait: true,
        };
        assert!(judged(wait, libc::EDEADLK, 1, &[]).is_err(), "no circle");
        assert!(judged(Op::Readlink { ino: 2 }, libc::EINVAL, 1, &[]).is_ok());
    }

    #[test]
    fn what_was_written_waits_from_when_it_was_written() {
        let history = History::default();
        let done = |op, seconds: u64| {
            let number = history.begin(1, op, seconds * SECOND);
            history.end(number, Outcome::Known(Reply::Done), seconds * SECOND + 1);
        };
        let fsync = || Op::Fsync {
            ino: 2,
            data_only: false,
        };
        let write = || Op::Write {
            ino: 2,
            offset: 0,
            length: 10,
            append: false,
            sync: false,
        };
        done(write(), 1);
        done(fsync(), 5);
        done(write(), 10);
        let number = history.begin(1, fsync(), 62 * SECOND);
        for (at, explained) in [(69, false), (71, true)] {
            history.end(number, Outcome::Unknown { until: 99 * SECOND }, at * SECOND);
            history.note_error(number, &Reply::Error(libc::EIO), at * SECOND);
            let errors = history.errors();
            let last = &errors[errors.len() - 1..];
            let judged = check(&history.records(), last, &[], &Lost::default(), PATIENCE);
            assert_eq!(judged.is_ok(), explained, "after {at} s");
        }
        // A read has nothing to do with what was written.
        let read = Op::Read {
            ino: 2,
            offset: 0,
            length: 10,
        };
        let number = history.begin(1, read, 70 * SECOND);
        history.end(number, Outcome::Unknown { until: 99 * SECOND }, 72 * SECOND);
        history.note_error(number, &Reply::Error(libc::EIO), 72 * SECOND);
        let errors = history.errors();
        let last = &errors[errors.len() - 1..];
        let lost = |ino, seconds| {
            let lost = Lost {
                named: vec![(ino, seconds * SECOND)],
                ..Lost::default()
            };
            check(&history.records(), last, &[], &lost, PATIENCE)
        };
        assert!(check(&history.records(), last, &[], &Lost::default(), PATIENCE).is_err());
        assert!(lost(2, 71).is_ok());
        assert!(lost(3, 71).is_err(), "of another file");
        assert!(lost(2, 73).is_err(), "named too late");
        // A power cut has taken what was written: the read may not be told, an fsync may.
        let forgotten = Lost {
            forgotten: vec![71 * SECOND],
            ..Lost::default()
        };
        assert!(check(&history.records(), last, &[], &forgotten, PATIENCE).is_err());
        let history = History::default();
        let number = history.begin(1, fsync(), 69 * SECOND);
        for (at, explained) in [(70, false), (72, true)] {
            history.end(number, Outcome::Unknown { until: 99 * SECOND }, at * SECOND);
            history.note_error(number, &Reply::Error(libc::EIO), at * SECOND);
            let errors = history.errors();
            let last = &errors[errors.len() - 1..];
            let judged = check(&history.records(), last, &[], &forgotten, PATIENCE);
            assert_eq!(judged.is_ok(), explained, "at {at} s");
        }
    }

    #[test]
    fn an_inode_that_is_gone_may_be_told_so_in_any_way_once_the_service_has_died() {
        let history = History::default();
        let fsync = Op::Fsync {
            ino: 2,
            data_only: false,
        };
        let number = history.begin(1, fsync, SECOND);
        history.end(number, Outcome::Unknown { until: 9 * SECOND }, 2 * SECOND);
        history.note_error(number, &Reply::Error(libc::EIO), 2 * SECOND);
        let errors = history.errors();
        let died = [fault(Kind::MetaKill, 1)];
        let judged = |happened: &[Happened]| {
            let lost = Lost::default();
            check(&history.records(), &errors, happened, &lost, PATIENCE)
        };
        assert!(judged(&died).is_err());
        let list = history.begin(9, Op::List { dir: 1 }, 3 * SECOND);
        let there = |ino| Reply::Listing(vec![(b"a".to_vec(), ino, FileKind::File)]);
        history.end(list, Outcome::Known(there(2)), 4 * SECOND);
        assert!(judged(&died).is_err());
        history.end(list, Outcome::Known(there(3)), 4 * SECOND);
        assert!(judged(&died).is_ok());
        assert!(judged(&[]).is_err());
    }

    #[test]
    fn a_session_that_was_lost_explains_what_its_client_is_told_later() {
        let history = History::default();
        history.session_lost(1, 3 * SECOND, 4 * SECOND);
        let mut numbers = Vec::new();
        for client in [1, 2] {
            let close = Op::Close { ino: 2, owner: 0 };
            let number = history.begin(client, close, 5 * SECOND);
            history.end(number, Outcome::Unknown { until: 9 * SECOND }, 6 * SECOND);
            history.note_error(number, &Reply::Error(libc::EIO), 6 * SECOND);
            numbers.push(number);
        }
        let (records, errors) = (history.records(), history.errors());
        assert!(check(&records, &errors[..1], &[], &Lost::default(), PATIENCE).is_ok());
        assert!(check(&records, &errors[1..], &[], &Lost::default(), PATIENCE).is_err());
    }
}
