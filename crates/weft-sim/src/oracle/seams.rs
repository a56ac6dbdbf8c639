//! What a kernel does in several steps, each of which others may come between: no file system can make it one moment
//! (docs/protocols/kernel-cache.md, "What Linux does in steps").
//!
//! - A read by way of the page cache looks at each page by itself, and asks where the file ends before that.
//! - A write by way of the page cache is sent in several WRITEs if pages of it are not known whole. If one of them
//!   fails, the program is told how far those before it went.
//! - An open with truncation opens the file and then cuts it: its last name may go between the two. (So it is for a
//!   client without a kernel.)
//! - An open that makes a file if there is none, and cuts it if there is one, finds it by its name first. Where name and
//!   file may be two groups' the name may come to stand for another file before this one is cut. (So it is for any file
//!   on a mount; and for one of which the client holds bytes that a full disk refused, which it must not drop before the
//!   cut is answered.)
//! - A rename looks up its two names one after the other, and refuses by itself what they do not allow.
//!
//! [`taken_apart`] makes a record of each step, so that each is judged. Keeps true: a step has its moment within the
//! operation.

use super::content;
use super::history::{Kind, LATE, Op, Outcome, Record, Reply};
use std::collections::BTreeSet;
use std::ops::Range;
use weft_types::Ino;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes that tell which write they are of.
const WORD: usize = 8;

/// A read by way of the page cache, as the kernel knows how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByCache {
    /// Where it stopped, the file ended at a moment of the read: the kernel has taken the answer to its question for the
    /// end, and nothing failed.
    pub saw_end: bool,
    /// From this offset on the kernel has put zeros behind what it was brought, up to an end that it had before.
    pub made_up_from: u64,
}

/// The records, with one for each step where several are known.
pub(super) fn taken_apart(mut records: Vec<Record>) -> Vec<Record> {
    for number in 0..records.len() {
        let record = &records[number];
        let steps = match &record.op {
            Op::Write { .. } => write(record, number),
            Op::Read { .. } if record.by_kernel => read(&records, number),
            Op::Rename { .. } if record.by_kernel => rename(record),
            Op::Open { truncate: true, .. } => open_and_cut(record, number),
            Op::Create { truncate: true, .. } => find_and_cut(&records, number),
            _ => Vec::new(),
        };
        let mut steps = steps.into_iter();
        if let Some(first) = steps.next() {
            records[number] = first;
            records.extend(steps);
        }
    }
    records
}

/// The pages that may have been seen at different moments, and the end.
fn read(records: &[Record], number: usize) -> Vec<Record> {
    let record = &records[number];
    let (
        Some(by_cache),
        &Op::Read {
            ino,
            offset,
            length,
        },
    ) = (record.by_cache, &record.op)
    else {
        return Vec::new();
    };
    let Outcome::Known(Reply::Bytes(bytes)) = &record.outcome else {
        return Vec::new();
    };
    let came = bytes.len() as u64;
    let part = |range: Range<u64>, length: u64| Record {
        op: Op::Read {
            ino,
            offset: range.start,
            length,
        },
        outcome: Outcome::Known(Reply::Bytes(
            bytes.slice((range.start - offset) as usize..(range.end - offset) as usize),
        )),
        by_cache: None,
        ..record.clone()
    };
    let others = records.iter().enumerate().filter(|(other, it)| {
        *other != number && it.invoked <= record.returned && record.invoked <= it.returned
    });
    let changes: Vec<Meanwhile> = others
        .filter_map(|(other, it)| Meanwhile::of(it, other, ino))
        .collect();
    let end = (offset + came).min(by_cache.made_up_from);
    let mut steps = Vec::new();
    let mut from = offset;
    let mut page = (offset / PAGE + 1) * PAGE;
    while page < end {
        if changes.iter().any(|it| it.is_torn_at(page, offset, bytes)) {
            steps.push(part(from..page, page - from));
            from = page;
        }
        page += PAGE;
    }
    if from < end {
        steps.push(part(from..end, end - from));
    }
    if came < length && by_cache.saw_end && end == offset + came {
        steps.push(part(end..end, length - came));
    }
    if steps.is_empty() {
        // Nothing is known of it.
        steps.push(Record {
            outcome: Outcome::Unknown {
                until: record.returned,
            },
            ..record.clone()
        });
    }
    steps
}

/// A change that goes on while a file is read.
enum Meanwhile {
    /// It leaves these bytes there.
    At(Range<u64>, Box<dyn Fn(u64) -> u8>),
    /// It leaves these words, one after the other, nobody knows where.
    Somewhere(BTreeSet<Vec<u8>>),
}

impl Meanwhile {
    /// What this record, if it is one, does to the bytes of `ino`.
    fn of(record: &Record, number: usize, ino: u64) -> Option<Meanwhile> {
        if record.op.inode() != Some(ino) {
            return None;
        }
        match record.op {
            Op::Write {
                append: true,
                length,
                ..
            } => {
                let bytes = content::bytes(number, length);
                let words = bytes.chunks_exact(WORD).map(<[u8]>::to_vec);
                Some(Meanwhile::Somewhere(words.collect()))
            }
            Op::Write { offset, length, .. } => {
                let (write, base) = record.part_of.unwrap_or((number, offset));
                let gives = move |at: u64| content::pattern(write, at - base);
                Some(Meanwhile::At(offset..offset + length, Box::new(gives)))
            }
            Op::Punch { offset, length, .. } | Op::ZeroRange { offset, length, .. } => {
                Some(Meanwhile::At(offset..offset + length, Box::new(|_| 0)))
            }
            Op::Truncate { size, .. } => Some(Meanwhile::At(size..u64::MAX, Box::new(|_| 0))),
            Op::Open { truncate: true, .. } => Some(Meanwhile::At(0..u64::MAX, Box::new(|_| 0))),
            _ => None,
        }
    }

    /// It is seen on one side of a place in what was read at `offset`, and not on the other.
    fn is_torn_at(&self, place: u64, offset: u64, bytes: &[u8]) -> bool {
        let near = match self {
            Meanwhile::At(..) => WORD as u64,
            // Words lie anyhow: one of them is within so many bytes.
            Meanwhile::Somewhere(_) => 2 * WORD as u64,
        };
        let end = offset + bytes.len() as u64;
        let before = place.saturating_sub(near).max(offset)..place;
        let after = place..(place + near).min(end);
        let shown = |side: Range<u64>| match self {
            Meanwhile::At(range, gives) => {
                let is_there = range.start <= side.start && side.end <= range.end;
                is_there.then(|| {
                    let mut all = side.into_iter();
                    all.all(|at| gives(at) == bytes[(at - offset) as usize])
                })
            }
            Meanwhile::Somewhere(words) => {
                let (from, to) = (side.start - offset, side.end - offset);
                let mut near = bytes[from as usize..to as usize].windows(WORD);
                Some(near.any(|word| words.contains(word)))
            }
        };
        matches!((shown(before), shown(after)), (Some(one), Some(other)) if one != other)
    }
}

/// Each WRITE; and what was told to be taken, apart from the one that failed then.
fn write(record: &Record, number: usize) -> Vec<Record> {
    let &Op::Write {
        ino,
        offset,
        length,
        append,
        sync,
    } = &record.op
    else {
        return Vec::new();
    };
    let unknown = |record: &Record| Record {
        outcome: Outcome::Unknown {
            until: record.returned + LATE,
        },
        returned: record.returned + LATE,
        unheard: true,
        ..record.clone()
    };
    let taken = match record.outcome {
        Outcome::Known(Reply::Written(count)) => Some(count),
        _ => None,
    };
    if append {
        // Where it went nobody knows.
        return taken.map(|_| unknown(record)).into_iter().collect();
    }
    let part = |range: Range<u64>| Record {
        op: Op::Write {
            ino,
            offset: range.start,
            length: range.end - range.start,
            append,
            sync,
        },
        part_of: Some((number, offset)),
        ..record.clone()
    };
    let until = taken.map_or(u64::MAX, |count| offset + count);
    let ends = record.sent.iter().copied().chain([offset + length]);
    let mut from = offset;
    let mut steps = Vec::new();
    for end in ends.filter(|end| *end <= offset + length) {
        let done = from..end.min(until);
        if !done.is_empty() {
            steps.push(Record {
                outcome: match taken {
                    Some(_) => Outcome::Known(Reply::Done),
                    None => record.outcome.clone(),
                },
                ..part(done)
            });
        }
        if until < end {
            // This one failed, and what follows it was not sent.
            steps.push(unknown(&part(from.max(until)..end)));
            break;
        }
        from = from.max(end);
    }
    match steps.len() {
        1 => Vec::new(),
        _ => steps,
    }
}

/// It is opened, and cut by way of the handle.
fn open_and_cut(record: &Record, number: usize) -> Vec<Record> {
    let (&Op::Open { ino, .. }, Outcome::Known(Reply::Done)) = (&record.op, &record.outcome) else {
        return Vec::new();
    };
    let opened = Record {
        op: Op::Open {
            ino,
            truncate: false,
        },
        ..record.clone()
    };
    let cut = Record {
        op: Op::Truncate { ino, size: 0 },
        outcome: Outcome::Known(Reply::Inode(ino, Kind::File)),
        after: Some(number),
        ..record.clone()
    };
    vec![opened, cut]
}

/// A name in a directory and the inode that it stands for may be two groups'.
pub(super) fn may_be_apart(parent: u64, ino: u64) -> bool {
    Ino(parent).slot() != Ino(ino).slot()
}

/// The client may hold bytes of a file that it could not write back.
fn may_hold(records: &[Record], record: &Record, ino: u64) -> bool {
    let has_written = |it: &Record| {
        let is_before = it.client == record.client && it.invoked < record.invoked;
        is_before && matches!(it.op, Op::Write { ino: of, .. } if of == ino)
    };
    records.iter().any(has_written)
}

/// It is found by its name, if that may be another group's, or bytes of it are held, and cut then.
fn find_and_cut(records: &[Record], number: usize) -> Vec<Record> {
    let record = &records[number];
    let (
        Op::Create {
            parent,
            name,
            mode,
            exclusive: false,
            ..
        },
        Outcome::Known(Reply::Entry(seen)),
    ) = (&record.op, &record.outcome)
    else {
        return Vec::new();
    };
    if !may_be_apart(*parent, seen.ino) && !may_hold(records, record, seen.ino) {
        return Vec::new();
    }
    let found = Record {
        op: Op::Create {
            parent: *parent,
            name: name.clone(),
            mode: *mode,
            exclusive: false,
            truncate: false,
        },
        outcome: Outcome::Known(Reply::Inode(seen.ino, seen.kind)),
        ..record.clone()
    };
    let cut = Record {
        op: Op::Truncate {
            ino: seen.ino,
            size: 0,
        },
        after: Some(number),
        ..record.clone()
    };
    vec![found, cut]
}

/// What it found of either name, if it refused by itself.
fn rename(record: &Record) -> Vec<Record> {
    let (
        Op::Rename {
            parent,
            name,
            new_parent,
            new_name,
            ..
        },
        Outcome::Known(Reply::Error(errno)),
    ) = (&record.op, &record.outcome)
    else {
        return Vec::new();
    };
    // What others would be told of a name tells what it stands for.
    let is_file = |parent: u64, name: &[u8]| {
        let name = name.to_vec();
        (Op::Rmdir { parent, name }, libc::ENOTDIR)
    };
    let is_dir = |parent: u64, name: &[u8]| {
        let name = name.to_vec();
        (Op::Unlink { parent, name }, libc::EISDIR)
    };
    let is_there = |parent: u64, name: &[u8]| {
        let op = Op::Create {
            parent,
            name: name.to_vec(),
            mode: 0o644,
            exclusive: true,
            truncate: false,
        };
        (op, libc::EEXIST)
    };
    let seen = match *errno {
        libc::EISDIR => [is_file(*parent, name), is_dir(*new_parent, new_name)],
        libc::ENOTDIR => [is_dir(*parent, name), is_file(*new_parent, new_name)],
        libc::EEXIST => [is_there(*parent, name), is_there(*new_parent, new_name)],
        _ => return Vec::new(),
    };
    let step = |(op, errno)| Record {
        op,
        outcome: Outcome::Known(Reply::Error(errno)),
        ..record.clone()
    };
    seen.map(step).into()
}
