//! A history taken apart, for one that cannot be decided as a whole.
//!
//! What files hold, their locks, and the tree of names are objects by themselves, and a history is right if it is
//! right for each of them by itself (Herlihy and Wing call that locality). What is undecided in one does not
//! multiply what is undecided in another then. Operations that touch several of them, such as a creation that
//! cuts what is there, are looked at in each alone: that they do all at one moment is not asked.
//!
//! Keeps true: each part allows all that the whole allows. Where in doubt an operation is left out, or is one of
//! unknown outcome. Records keep their numbers, which is what bytes that were written are known by.

use super::history::{Kind, Op, Outcome, Record, Reply, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// Files of a part are all of this mode, and have one name.
pub(super) const MODE: u32 = 0o644;

/// A part: which records are in it, as they are seen there.
pub(super) struct Part {
    /// For reports.
    pub(super) what: String,
    /// By the number of the record.
    pub(super) records: BTreeMap<usize, Record>,
    /// The file that is there from the beginning and stays; none: the tree of names, which begins empty.
    pub(super) file: Option<u64>,
}

impl Part {
    /// Of files that are copied to this one, nothing is known here.
    pub(super) fn unknown_sources(&self) -> BTreeSet<u64> {
        let source = |record: &Record| match record.op {
            Op::Copy { source, .. } if Some(source) != self.file => Some(source),
            _ => None,
        };
        self.records.values().filter_map(source).collect()
    }
}

/// A history in parts. `records` are prepared ([`super::linearize::prepared`]).
pub(super) fn of(records: &[Record]) -> Vec<Part> {
    let numbered = || records.iter().enumerate();
    let mut parts = Vec::new();
    let mut add = |what: String, file, seen_there: &dyn Fn(&Record) -> Option<Record>| {
        let there = numbered().filter_map(|(number, record)| Some((number, seen_there(record)?)));
        parts.push(Part {
            what,
            records: there.collect(),
            file,
        });
    };
    for (ino, alive) in files(records) {
        let of = |record: &Record| of_bytes(record, ino).and_then(|record| before(record, alive));
        add(format!("the bytes of inode {ino:x}"), Some(ino), &of);
    }
    let locked: BTreeSet<u64> = records.iter().filter_map(locks).collect();
    for (ino, alive) in files(records) {
        let of = |record: &Record| of_locks(record, ino).and_then(|record| before(record, alive));
        if locked.contains(&ino) {
            add(format!("the locks of inode {ino:x}"), Some(ino), &of);
        }
    }
    add("the names".to_owned(), None, &of_names);
    parts
}

fn is_gone(outcome: &Outcome) -> bool {
    let gone = [libc::ENOENT, libc::ESTALE];
    matches!(outcome, Outcome::Known(Reply::Error(errno)) if gone.contains(errno))
}

/// The files that were seen, each with when it was seen under a name for the last time. Of what is asked of a file
/// that has gone nothing is known, for inode numbers are remembered here as by no kernel.
fn files(records: &[Record]) -> BTreeMap<u64, u64> {
    let mut files = BTreeMap::new();
    let mut alive = |ino: u64, at: u64| {
        let last = files.entry(ino).or_insert(at);
        *last = at.max(*last);
    };
    for record in records {
        match &record.outcome {
            Outcome::Known(Reply::Entry(Seen {
                ino,
                kind: Kind::File,
                nlink: 1..,
                ..
            })) => alive(*ino, record.invoked),
            Outcome::Known(Reply::Listing(all)) => {
                for (_, ino, kind) in all {
                    if *kind == Kind::File {
                        alive(*ino, record.invoked);
                    }
                }
            }
            _ => {}
        }
    }
    files
}

/// What may be done after the file has gone is not asked, and what has begun before that may have done nothing.
fn before(mut record: Record, alive: u64) -> Option<Record> {
    if record.op.is_event() || record.returned <= alive {
        return Some(record);
    }
    if record.invoked > alive {
        return None;
    }
    let until = record.returned;
    record.outcome = Outcome::Unknown { until };
    Some(record)
}

/// An operation as it is for what a file holds.
fn of_bytes(record: &Record, file: u64) -> Option<Record> {
    let is_it = record.op.inode() == Some(file);
    let named = match &record.outcome {
        Outcome::Known(Reply::Entry(seen)) => Some(seen.ino),
        Outcome::Known(Reply::Inode(ino, _)) => Some(*ino),
        _ => None,
    };
    let is_unknown = matches!(record.outcome, Outcome::Unknown { .. });
    let cut = |outcome: &Outcome| Record {
        op: Op::Truncate { ino: file, size: 0 },
        outcome: match outcome {
            Outcome::Known(_) => Outcome::Known(Reply::Inode(file, Kind::File)),
            other => other.clone(),
        },
        ..record.clone()
    };
    match &record.op {
        Op::Loses | Op::Dies | Op::SyncsAll => Some(record.clone()),
        _ if is_gone(&record.outcome) => None,
        Op::Create { truncate: true, .. } if named == Some(file) || is_unknown => {
            Some(cut(&record.outcome))
        }
        Op::Open { truncate: true, .. } if is_it => match record.outcome {
            Outcome::Known(Reply::Error(_)) => None,
            _ => Some(cut(&record.outcome)),
        },
        Op::Read { .. }
        | Op::Write { .. }
        | Op::Fsync { .. }
        | Op::Punch { .. }
        | Op::ZeroRange { .. }
        | Op::Extend { .. }
        | Op::Seek { .. }
        | Op::Copy { .. }
        | Op::Truncate { .. }
            if is_it =>
        {
            Some(record.clone())
        }
        Op::Lookup { .. } | Op::Getattr { .. } => match &record.outcome {
            Outcome::Known(Reply::Entry(seen)) if seen.ino == file => Some(Record {
                op: Op::Getattr { ino: file },
                outcome: Outcome::Known(Reply::Entry(Seen {
                    mode: MODE,
                    nlink: 1,
                    ..seen.clone()
                })),
                ..record.clone()
            }),
            _ => None,
        },
        _ => None,
    }
}

fn locks(record: &Record) -> Option<u64> {
    match record.op {
        Op::Lock { ino, .. } => Some(ino),
        _ => None,
    }
}

/// An operation as it is for a file's locks.
fn of_locks(record: &Record, file: u64) -> Option<Record> {
    let is_of_it = match record.op {
        Op::Lock { ino, .. } | Op::Close { ino, .. } => ino == file && !is_gone(&record.outcome),
        Op::Dies | Op::SessionEnds => true,
        _ => false,
    };
    is_of_it.then(|| record.clone())
}

/// An operation as it is for the tree of names: all files are empty, and nothing is locked.
fn of_names(record: &Record) -> Option<Record> {
    match record.op {
        Op::SyncsAll | Op::Lock { .. } | Op::Truncate { .. } | Op::Copy { .. } => None,
        Op::Read { .. }
        | Op::Write { .. }
        | Op::Fsync { .. }
        | Op::Punch { .. }
        | Op::ZeroRange { .. }
        | Op::Extend { .. }
        | Op::Seek { .. } => is_gone(&record.outcome).then(|| record.clone()),
        _ => {
            let mut seen_there = record.clone();
            if let Outcome::Known(Reply::Entry(seen)) = &mut seen_there.outcome {
                seen.size = 0;
            }
            Some(seen_there)
        }
    }
}
