//! What was acknowledged is there at the end: names that the metadata service confirmed, bytes that
//! were written under O_SYNC or synced.
//!
//! Independent of the oracle, and simple on purpose: it holds only what nothing else touched since
//! (nor at the same time, nor with an unknown outcome), and so needs no search. What the oracle could
//! not decide is judged here all the same.

use crate::oracle::content::pattern;
use crate::oracle::history::{ClientId, Kind, Op, Outcome, Record, Reply};
use std::collections::BTreeMap;

type Listing = Vec<(Vec<u8>, u64, Kind)>;

/// What the reader found at the end.
struct End<'a> {
    directories: BTreeMap<u64, &'a Listing>,
    files: BTreeMap<u64, &'a [u8]>,
}

/// Judges a run's history, at whose end `reader` read everything.
///
/// # Errors
/// The first thing that is missing or has come back.
pub fn check(records: &[Record], reader: ClientId) -> Result<(), String> {
    let mut end = End {
        directories: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    for record in records.iter().filter(|record| record.client == reader) {
        match (&record.op, &record.outcome) {
            (Op::List { dir }, Outcome::Known(Reply::Listing(entries))) => {
                end.directories.insert(*dir, entries);
            }
            (Op::Read { ino, .. }, Outcome::Known(Reply::Bytes(bytes))) => {
                end.files.insert(*ino, bytes);
            }
            (_, Outcome::Known(Reply::Error(errno))) => {
                return Err(format!("the reader got errno {errno}: {record}"));
            }
            (op, Outcome::Unknown { .. }) if !op.is_event() => {
                return Err(format!("the reader got no answer: {record}"));
            }
            _ => {}
        }
    }
    names(records, &end)?;
    contents(records, &end)
}

/// The names that an operation may have changed.
fn changed_names(record: &Record) -> Vec<(u64, &[u8])> {
    let failed = matches!(record.outcome, Outcome::Known(Reply::Error(_)));
    if failed || matches!(record.op, Op::Lookup { .. }) {
        return Vec::new();
    }
    record.op.names()
}

fn names(records: &[Record], end: &End<'_>) -> Result<(), String> {
    let mut changes: BTreeMap<(u64, &[u8]), Vec<&Record>> = BTreeMap::new();
    for record in records {
        for name in changed_names(record) {
            changes.entry(name).or_default().push(record);
        }
    }
    for ((parent, name), changes) in changes {
        let Some(last) = latest(&changes) else {
            continue;
        };
        let Outcome::Known(reply) = &last.outcome else {
            continue;
        };
        let listing = end.directories.get(&parent);
        let found = listing.and_then(|entries| entries.iter().find(|entry| entry.0 == name));
        let (expected, right) = match (&last.op, reply) {
            (Op::Unlink { .. } | Op::Rmdir { .. }, Reply::Done) => (None, found.is_none()),
            (_, Reply::Entry(seen)) => {
                let is_it = found.is_some_and(|entry| entry.1 == seen.ino && entry.2 == seen.kind);
                (Some(seen.ino), is_it)
            }
            // Whether the old name stays depends on what the new one was.
            (
                Op::Rename {
                    new_parent,
                    new_name,
                    ..
                },
                Reply::Done,
            ) if (*new_parent, &new_name[..]) == (parent, name) => (Some(0), found.is_some()),
            _ => continue,
        };
        if !right {
            return Err(format!(
                "{:?} in directory {parent:x} must be {}, and is {found:x?}: acknowledged by {last}",
                String::from_utf8_lossy(name),
                expected.map_or("gone".to_owned(), |ino| format!("inode {ino:x} (0: any)")),
            ));
        }
    }
    Ok(())
}

/// The one that ended after all others had, if there is one.
fn latest<'a>(changes: &[&'a Record]) -> Option<&'a Record> {
    let last = changes.iter().max_by_key(|record| record.invoked)?;
    let is_after = |other: &&Record| std::ptr::eq(*other, *last) || other.returned < last.invoked;
    changes.iter().all(is_after).then_some(*last)
}

/// From where to where an operation may have changed the bytes of `ino`, other than by appending.
fn changed_bytes(record: &Record, ino: u64) -> Option<(u64, u64)> {
    if matches!(record.outcome, Outcome::Known(Reply::Error(_))) {
        return None;
    }
    let is_unknown = matches!(record.outcome, Outcome::Unknown { .. });
    match &record.op {
        Op::Create { truncate: true, .. } => {
            let is_it = match &record.outcome {
                Outcome::Known(Reply::Entry(seen)) => seen.ino == ino,
                _ => is_unknown,
            };
            is_it.then_some((0, u64::MAX))
        }
        op if op.inode() != Some(ino) => None,
        Op::Open { truncate: true, .. } => Some((0, u64::MAX)),
        Op::Truncate { size, .. } => Some((*size, u64::MAX)),
        Op::Write { append: true, .. } => None,
        Op::Copy { to, length, .. } => Some((*to, to + length)),
        Op::Write { offset, length, .. }
        | Op::Punch { offset, length, .. }
        | Op::ZeroRange { offset, length, .. } => Some((*offset, offset + length)),
        _ => None,
    }
}

fn contents(records: &[Record], end: &End<'_>) -> Result<(), String> {
    for (number, record) in records.iter().enumerate() {
        let Op::Write {
            ino,
            offset,
            length,
            append: false,
            ..
        } = record.op
        else {
            continue;
        };
        let Some(bytes) = end.files.get(&ino).filter(|_| is_durable(records, record)) else {
            continue;
        };
        let touched: Vec<(u64, u64)> = records
            .iter()
            .filter(|other| !std::ptr::eq(*other, record) && other.returned >= record.invoked)
            .filter_map(|other| changed_bytes(other, ino))
            .collect();
        let mut at = offset;
        while at < offset + length {
            if let Some(&(_, to)) = touched.iter().find(|(from, to)| (*from..*to).contains(&at)) {
                at = to;
                continue;
            }
            let expected = pattern(number, at - offset);
            let found = bytes.get(at as usize);
            if found != Some(&expected) {
                return Err(format!(
                    "byte {at} of inode {ino:x} must be {expected:#04x}, and is {found:02x?} in a file \
                     of {} bytes: durable by #{number} {record}",
                    bytes.len()
                ));
            }
            at += 1;
        }
    }
    Ok(())
}

/// The write was acknowledged as durable: by itself, or by an fsync of its client later.
fn is_durable(records: &[Record], write: &Record) -> bool {
    let Op::Write { ino, sync, .. } = write.op else {
        return false;
    };
    let is_done = |record: &Record| record.outcome == Outcome::Known(Reply::Done);
    let syncs = |record: &Record| {
        record.client == write.client
            && matches!(record.op, Op::Fsync { ino: of, .. } if of == ino)
            && record.invoked > write.returned
            && is_done(record)
    };
    is_done(write) && (sync || !write.lost_perhaps && records.iter().any(syncs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::content;
    use crate::oracle::history::{History, Seen};

    /// A history of operations one after the other.
    #[derive(Default)]
    struct Story {
        history: History,
        now: u64,
    }

    const READER: ClientId = 9;

    impl Story {
        fn did(&mut self, client: ClientId, op: Op, reply: Reply) -> usize {
            let number = self.history.begin(client, op, self.now);
            self.now += 10;
            self.history.end(number, Outcome::Known(reply), self.now);
            self.now += 10;
            number
        }

        fn tried(&mut self, client: ClientId, op: Op) {
            let number = self.history.begin(client, op, self.now);
            let until = self.now + 1_000;
            self.history
                .end(number, Outcome::Unknown { until }, self.now + 10);
            self.now += 20;
        }

        /// What a reader that finds these says to it.
        fn ends(&mut self, names: &[(&[u8], u64)], bytes: &[u8]) -> Result<(), String> {
            let entry = |&(name, ino): &(&[u8], u64)| (name.to_vec(), ino, Kind::File);
            let listing = Reply::Listing(names.iter().map(entry).collect());
            self.did(READER, Op::List { dir: 1 }, listing);
            let read = Op::Read {
                ino: 5,
                offset: 0,
                length: 1_000,
            };
            self.did(READER, read, Reply::Bytes(bytes.to_vec().into()));
            check(&self.history.records(), READER)
        }
    }

    fn create(name: &[u8]) -> Op {
        Op::Create {
            parent: 1,
            name: name.to_vec(),
            mode: 0o644,
            exclusive: false,
            truncate: false,
        }
    }

    fn unlink(name: &[u8]) -> Op {
        Op::Unlink {
            parent: 1,
            name: name.to_vec(),
        }
    }

    fn file(ino: u64) -> Reply {
        Reply::Entry(Seen {
            ino,
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            size: 0,
        })
    }

    fn write(offset: u64, length: u64, sync: bool) -> Op {
        Op::Write {
            ino: 5,
            offset,
            length,
            append: false,
            sync,
        }
    }

    #[test]
    fn names_stay_and_stay_away() {
        let made = || {
            let mut story = Story::default();
            story.did(1, create(b"a"), file(5));
            story
        };
        assert!(made().ends(&[(b"a", 5)], b"").is_ok());
        assert!(made().ends(&[], b"").is_err());
        assert!(made().ends(&[(b"a", 6)], b"").is_err());
        let removed = || {
            let mut story = made();
            story.did(2, unlink(b"a"), Reply::Done);
            story
        };
        assert!(removed().ends(&[], b"").is_ok());
        assert!(removed().ends(&[(b"a", 5)], b"").is_err());
        let mut unknown = made();
        unknown.tried(2, unlink(b"a"));
        assert!(unknown.ends(&[], b"").is_ok());
    }

    #[test]
    fn synced_bytes_stay() {
        let fsync = Op::Fsync {
            ino: 5,
            data_only: false,
        };
        let story = |sync: bool, fsyncs: bool| {
            let mut story = Story::default();
            story.did(1, create(b"a"), file(5));
            let number = story.did(1, write(0, 100, sync), Reply::Done);
            if fsyncs {
                story.did(1, fsync.clone(), Reply::Done);
            }
            (story, content::bytes(number, 100))
        };
        for (sync, fsyncs) in [(true, false), (false, true)] {
            let (mut story, bytes) = story(sync, fsyncs);
            assert!(story.ends(&[(b"a", 5)], &bytes).is_ok());
            assert!(story.ends(&[(b"a", 5)], &bytes[..99]).is_err());
            assert!(story.ends(&[(b"a", 5)], &[0; 100]).is_err());
        }
        let (mut unsynced, _) = story(false, false);
        assert!(unsynced.ends(&[(b"a", 5)], b"").is_ok());
        // What may have been replaced in part is held for the rest.
        let (mut punched, mut bytes) = story(true, false);
        punched.tried(
            2,
            Op::Punch {
                ino: 5,
                offset: 0,
                length: 50,
            },
        );
        bytes[..50].fill(0);
        assert!(punched.ends(&[(b"a", 5)], &bytes).is_ok());
        bytes[50] ^= 1;
        assert!(punched.ends(&[(b"a", 5)], &bytes).is_err());
    }
}
