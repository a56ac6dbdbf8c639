//! Where bytes that were read come from: for reports. Called by [`super::linearize`].
//!
//! Eight bytes of a pattern tell its write and the place within it, so a run is found wherever it
//! came to lie.

use super::content;
use super::history::{Op, Record};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of one write, or zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// File offset.
    start: u64,
    end: u64,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Zeros,
    /// Record number, and index of the first byte.
    Write(usize, u64),
    Unknown,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { start, end, source } = self;
        match source {
            Source::Zeros => write!(f, "{start}..{end}: zeros"),
            Source::Write(number, index) => {
                write!(f, "{start}..{end}: write #{number} from its byte {index}")
            }
            Source::Unknown => write!(f, "{start}..{end}: of no write"),
        }
    }
}

const WORD: usize = 8;

/// The runs of `data`, which was read at `offset`.
pub(super) fn of(records: &[Record], offset: u64, data: &[u8]) -> Vec<Run> {
    let mut words = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        if let Op::Write { length, .. } = record.op {
            let bytes = content::bytes(number, length);
            for (index, word) in bytes.chunks_exact(WORD).enumerate() {
                words.insert(word.to_vec(), (number, (index * WORD) as u64));
            }
        }
    }
    let mut sources = vec![Source::Unknown; data.len()];
    for (source, &byte) in sources.iter_mut().zip(data) {
        if byte == 0 {
            *source = Source::Zeros;
        }
    }
    for at in 0..data.len().saturating_sub(WORD - 1) {
        let Some(&(number, index)) = words.get(&data[at..at + WORD]) else {
            continue;
        };
        // The first byte of the write lay here, if all of it was there.
        let base = (at as u64).wrapping_sub(index);
        let fits = |place: &usize| {
            let index = (*place as u64).wrapping_sub(base);
            matches!(records[number].op, Op::Write { length, .. } if index < length)
                && content::pattern(number, index) == data[*place]
        };
        let before = (0..at).rev().take(WORD - 1).take_while(fits);
        let after = (at..data.len()).take(2 * WORD).take_while(fits);
        for place in before.chain(after) {
            let index = (place as u64).wrapping_sub(base);
            sources[place] = Source::Write(number, index);
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (at, &source) in sources.iter().enumerate() {
        let start = offset + at as u64;
        match runs.last_mut() {
            Some(run) if run.source.after(start - run.start) == source => run.end += 1,
            _ => runs.push(Run {
                start,
                end: start + 1,
                source,
            }),
        }
    }
    runs
}

impl Source {
    /// The source of the byte that follows so many bytes later.
    fn after(self, bytes: u64) -> Source {
        match self {
            Source::Write(number, index) => Source::Write(number, index + bytes),
            same => same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::history::{History, Outcome, Reply};

    #[test]
    fn bytes_are_found_wherever_they_lie() {
        let history = History::default();
        for append in [false, true] {
            let op = Op::Write {
                ino: 7,
                offset: 0,
                length: 40,
                append,
                sync: false,
            };
            let number = history.begin(1, op, 0);
            history.end(number, Outcome::Known(Reply::Done), 1);
        }
        let mut data = content::bytes(0, 40)[3..30].to_vec();
        data.extend([0; 5]);
        data.extend(content::bytes(1, 40));
        data.extend([1, 2, 3]);
        let runs: Vec<String> = of(&history.records(), 1_000, &data)
            .iter()
            .map(Run::to_string)
            .collect();
        assert_eq!(
            runs,
            [
                "1000..1027: write #0 from its byte 3",
                "1027..1032: zeros",
                "1032..1072: write #1 from its byte 0",
                "1072..1075: of no write",
            ]
        );
    }
}
