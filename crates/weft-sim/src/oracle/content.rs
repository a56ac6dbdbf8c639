//! What a file may hold, byte by byte.
//!
//! Normally one value for each byte. After a client died with unsynced writes, or was told that a
//! write failed, some bytes may hold one of several values until a read settles which.

use super::history::ClientId;
use super::intervals::Intervals;
use crate::rng::fold;
use std::collections::BTreeMap;
use std::ops::Range;

/// Holes are whole blocks.
const BLOCK: u64 = 4096;

/// What a byte may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A hole, or beyond the end.
    Zero,
    /// The write with this record number, whose first byte went to `base`.
    Written {
        /// Record number.
        write: usize,
        /// File offset of its first byte; of a copy, where that would lie (below zero it wraps).
        base: u64,
    },
    /// Not known at all.
    Any,
}

/// The byte at `index` of the write with this record number; never zero, so that a hole is
/// recognised.
pub fn pattern(write: usize, index: u64) -> u8 {
    let word = fold(write as u64, index / 8).to_le_bytes();
    word[(index % 8) as usize].max(1)
}

/// The bytes of a write.
pub fn bytes(write: usize, length: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(length as usize + 8);
    for chunk in 0..length.div_ceil(8) {
        data.extend(
            fold(write as u64, chunk)
                .to_le_bytes()
                .map(|byte| byte.max(1)),
        );
    }
    data.truncate(length as usize);
    data
}

impl Value {
    fn gives(self, offset: u64, byte: u8) -> bool {
        match self {
            Value::Zero => byte == 0,
            Value::Written { write, base } => byte == pattern(write, offset.wrapping_sub(base)),
            Value::Any => true,
        }
    }
}

impl Value {
    /// What it is in a copy that lies `to` where the original lies `from`.
    fn moved(self, from: u64, to: u64) -> Value {
        match self {
            Value::Written { write, base } => Value::Written {
                write,
                base: base.wrapping_add(to).wrapping_sub(from),
            },
            other => other,
        }
    }
}

/// Sorted, without repetition. Empty only in [`Unsynced::older`], where it means "nothing".
type Values = Vec<Value>;

fn union(a: &Values, b: &Values) -> Values {
    let mut all = a.clone();
    all.extend(b);
    all.sort_unstable();
    all.dedup();
    all
}

fn contains(outer: &Values, inner: &Values) -> bool {
    inner
        .iter()
        .all(|value| outer.contains(value) || outer.contains(&Value::Any))
}

/// What one client has written and not yet synced: what stays if that is lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unsynced {
    older: Intervals<Values>,
    older_size: (u64, u64),
    /// The client was told that its writes failed: what it sees may be its buffer or not.
    failed: bool,
}

/// What a file may hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    bytes: Intervals<Values>,
    /// The size is in this range, both ends included.
    size: (u64, u64),
    /// Of each client that has written. Who reads or writes bytes gets them written back by all others,
    /// and no more than those: the rest of the file may be leased to them further on.
    unsynced: BTreeMap<ClientId, Unsynced>,
    /// Where copies are under way, by client: start and end. What is seen there may be seen otherwise
    /// the next time.
    copying: BTreeMap<ClientId, (u64, u64)>,
}

impl Default for Content {
    fn default() -> Content {
        Content {
            bytes: Intervals::new(vec![Value::Zero]),
            size: (0, 0),
            unsynced: BTreeMap::new(),
            copying: BTreeMap::new(),
        }
    }
}

impl Content {
    /// The sizes it may have.
    pub fn size(&self) -> (u64, u64) {
        self.size
    }

    /// True if `client` has written what it has not synced.
    pub fn is_unsynced_by(&self, client: ClientId) -> bool {
        self.unsynced.contains_key(&client)
    }

    /// True if everything that `other` allows, now and later, is allowed by this, too.
    pub fn includes(&self, other: &Content) -> bool {
        let holds = |outer: (u64, u64), inner: (u64, u64)| outer.0 <= inner.0 && inner.1 <= outer.1;
        let unsynced = other.unsynced.iter().all(|(client, theirs)| {
            self.unsynced.get(client).is_some_and(|mine| {
                mine.failed >= theirs.failed
                    && holds(mine.older_size, theirs.older_size)
                    && mine.older.all_with(&theirs.older, contains)
            })
        });
        let copying = self.copying == other.copying;
        copying
            && unsynced
            && holds(self.size, other.size)
            && self.bytes.all_with(&other.bytes, contains)
    }

    /// `client` uses all of the file: what others had not synced has been written back for that.
    pub fn touch(&mut self, client: ClientId) {
        self.unsynced.retain(|other, _| *other == client);
    }

    /// `client` uses these bytes: what others had not synced of them has been written back for that.
    pub fn touch_bytes(&mut self, client: ClientId, range: Range<u64>) {
        let size = self.size;
        self.unsynced.retain(|other, unsynced| {
            if *other == client {
                return true;
            }
            unsynced.older.set(range.clone(), Vec::new());
            unsynced.older_size != size || unsynced.older != Intervals::new(Vec::new())
        });
    }

    /// What others than `client` have not synced is what it was.
    pub fn others_unsynced_as(&mut self, before: &Content, client: ClientId) {
        for (other, unsynced) in &before.unsynced {
            if *other != client {
                self.unsynced.insert(*other, unsynced.clone());
            }
        }
    }

    /// The file is at least so long, and stays so whoever dies: but for `by`, who only sees what it has
    /// written itself.
    fn grown_for_good(&mut self, size: u64, by: Option<ClientId>) {
        let others = self.unsynced.iter_mut();
        for (_, unsynced) in others.filter(|(other, _)| Some(**other) != by) {
            let (low, high) = unsynced.older_size;
            unsynced.older_size = (low.max(size), high.max(size));
        }
    }

    fn unsynced(&mut self, client: ClientId) -> &mut Unsynced {
        let size = self.size;
        self.unsynced.entry(client).or_insert_with(|| Unsynced {
            older: Intervals::new(Vec::new()),
            older_size: size,
            failed: false,
        })
    }

    /// Bytes in `range` are about to be replaced without being synced.
    fn keep_older(&mut self, client: ClientId, range: Range<u64>) {
        self.touch_bytes(client, range.clone());
        let runs = self.bytes.runs(range);
        let unsynced = self.unsynced(client);
        for (run, values) in runs {
            unsynced.older.edit(run, |_, older| union(older, &values));
        }
    }

    /// Bytes in `range` are replaced on the servers at once.
    fn forget_older(&mut self, client: ClientId, range: Range<u64>) {
        self.touch_bytes(client, range.clone());
        if let Some(unsynced) = self.unsynced.get_mut(&client) {
            unsynced.older.set(range, Vec::new());
        }
    }

    /// A write that was acknowledged.
    pub fn write(&mut self, client: ClientId, range: Range<u64>, value: Value, sync: bool) {
        if range.is_empty() {
            return;
        }
        if sync {
            self.forget_older(client, range.clone());
        } else {
            self.keep_older(client, range.clone());
        }
        self.bytes.set(range.clone(), vec![value]);
        self.size = (self.size.0.max(range.end), self.size.1.max(range.end));
        if sync {
            self.grown_for_good(range.end, None);
        }
    }

    /// `length` bytes of `source` from `from` are written at `to`, unsynced.
    pub fn copy(&mut self, client: ClientId, source: &Content, from: u64, to: u64, length: u64) {
        if length == 0 {
            return;
        }
        let range = to..to + length;
        self.keep_older(client, range.clone());
        for (run, values) in source.bytes.runs(from..from + length) {
            let mut moved: Values = values.iter().map(|value| value.moved(from, to)).collect();
            moved.sort_unstable();
            let start = run.start - from + to;
            self.bytes.set(start..start + (run.end - run.start), moved);
        }
        self.size = (self.size.0.max(range.end), self.size.1.max(range.end));
    }

    /// A copy as [`Content::copy`] begins (of what is not known: none): until it ends, each byte may
    /// be what it was or what it will be.
    pub fn begin_copy(
        &mut self,
        client: ClientId,
        source: Option<&Content>,
        from: u64,
        to: u64,
        length: u64,
    ) {
        if length == 0 {
            return;
        }
        let range = to..to + length;
        let mut copied = self.clone();
        match source {
            Some(source) => copied.copy(client, source, from, to, length),
            None => copied.write_anything(client, range.clone()),
        }
        self.keep_older(client, range.clone());
        for (run, values) in copied.bytes.runs(range.clone()) {
            self.bytes.edit(run, |_, before| union(before, &values));
        }
        self.size.1 = self.size.1.max(range.end);
        self.copying.insert(client, (range.start, range.end));
    }

    /// The client's copy has ended, if one was under way.
    pub fn end_copy(&mut self, client: ClientId) {
        self.copying.remove(&client);
    }

    fn is_being_copied_to(&self, at: u64) -> bool {
        let mut copying = self.copying.values();
        copying.any(|(start, end)| (*start..*end).contains(&at))
    }

    /// Bytes that nobody knows are written, unsynced.
    pub fn write_anything(&mut self, client: ClientId, range: Range<u64>) {
        self.write(client, range, Value::Any, false);
    }

    fn may_be_hole(&self, range: Range<u64>) -> bool {
        let may = |values: &Values| values.contains(&Value::Zero) || values.contains(&Value::Any);
        range.is_empty() || self.bytes.runs(range).iter().all(|(_, values)| may(values))
    }

    /// Looking for data (or a hole) from `offset` on may find it at `found`; none: past the end.
    pub fn may_seek(
        &mut self,
        client: ClientId,
        offset: u64,
        hole: bool,
        found: Option<u64>,
    ) -> bool {
        self.touch(client);
        let (low, high) = self.size;
        match found {
            // A hole is always there: at the end.
            None => low <= offset || !hole && self.may_be_hole(offset..high),
            Some(found) if found < offset || offset >= high => false,
            Some(found) if hole => {
                let block = (found / BLOCK + 1) * BLOCK;
                found <= high && self.may_be_hole(found..block.min(low).max(found))
            }
            Some(found) => found < high && self.may_be_hole(offset..found),
        }
    }

    /// A write of which any part may be done, as the client was told.
    pub fn maybe_write(&mut self, client: ClientId, range: Range<u64>, value: Value) {
        if !range.is_empty() {
            self.maybe_write_unheard(client, range, value);
            self.failed(client);
        }
    }

    /// The same, and nobody was told: what the client wrote before is there still.
    pub fn maybe_write_unheard(&mut self, client: ClientId, range: Range<u64>, value: Value) {
        self.keep_older(client, range.clone());
        self.bytes
            .edit(range.clone(), |_, values| union(values, &vec![value]));
        self.size.1 = self.size.1.max(range.end);
    }

    /// Appends when the size is not known: where it went is not known either.
    pub fn append_somewhere(&mut self, client: ClientId, length: u64) {
        self.touch(client);
        let range = self.size.0..self.size.1 + length;
        self.keep_older(client, range.clone());
        self.bytes.set(range, vec![Value::Any]);
        self.size = (self.size.0 + length, self.size.1 + length);
    }

    /// Appends, or does not, when the size is not known.
    pub fn maybe_append_somewhere(&mut self, client: ClientId, length: u64) {
        self.touch(client);
        let range = self.size.0..self.size.1 + length;
        self.keep_older(client, range.clone());
        self.bytes.set(range, vec![Value::Any]);
        self.size.1 += length;
        self.failed(client);
    }

    /// Cut or extended. A cut is done by the service when it is answered; growth is owed like a
    /// write.
    pub fn truncate(&mut self, client: ClientId, size: u64) {
        self.touch(client);
        let (low, high) = self.size;
        if size >= high {
            return self.extend(client, size);
        }
        if size > low {
            self.keep_older(client, size..u64::MAX);
        } else {
            self.forget_older(client, size..u64::MAX);
            if let Some(unsynced) = self.unsynced.get_mut(&client) {
                unsynced.older_size = (size, size);
            }
        }
        self.bytes.set(size..u64::MAX, vec![Value::Zero]);
        self.size = (size, size);
    }

    /// Made a hole within the file; the size stays.
    pub fn punch(&mut self, client: ClientId, range: Range<u64>) {
        self.touch(client);
        self.forget_older(client, range.clone());
        self.bytes.set(range, vec![Value::Zero]);
    }

    /// Perhaps made a hole.
    pub fn maybe_punch(&mut self, client: ClientId, range: Range<u64>) {
        self.touch(client);
        self.keep_older(client, range.clone());
        self.bytes
            .edit(range, |_, values| union(values, &vec![Value::Zero]));
        self.failed(client);
    }

    /// Zeros that are not synced yet.
    pub fn zero(&mut self, client: ClientId, range: Range<u64>, keep_size: bool) {
        self.touch(client);
        self.keep_older(client, range.clone());
        self.bytes.set(range.clone(), vec![Value::Zero]);
        if !keep_size {
            self.extend(client, range.end);
        }
    }

    /// At least `size` bytes long.
    pub fn extend(&mut self, client: ClientId, size: u64) {
        self.touch(client);
        self.unsynced(client);
        self.size = (self.size.0.max(size), self.size.1.max(size));
    }

    /// All that `client` wrote is on the servers.
    pub fn synced(&mut self, client: ClientId) {
        self.unsynced.remove(&client);
    }

    /// `client` was told that something it had written may be lost.
    pub fn failed(&mut self, client: ClientId) {
        self.add_older(client);
        if let Some(unsynced) = self.unsynced.get_mut(&client) {
            unsynced.failed = true;
        }
    }

    /// The client is gone: any part of what it had not synced may be lost.
    pub fn client_gone(&mut self, client: ClientId) {
        self.add_older(client);
        self.unsynced.remove(&client);
    }

    fn add_older(&mut self, client: ClientId) {
        let Some(unsynced) = self.unsynced.get(&client) else {
            return;
        };
        let size = unsynced.older_size;
        let end = self.size.1.max(size.1).max(1);
        for (run, older) in unsynced.older.runs(0..end) {
            if !older.is_empty() {
                self.bytes.edit(run, |_, values| union(values, &older));
            }
        }
        self.size = (self.size.0.min(size.0), self.size.1.max(size.1));
    }

    /// True if the pins of what a client sees hold for others too.
    fn settles(&self, client: ClientId) -> bool {
        let unsynced = self.unsynced.get(&client);
        !unsynced.is_some_and(|unsynced| unsynced.failed)
    }

    fn set_size_range(&mut self, size: (u64, u64)) {
        self.size = size;
        self.bytes.edit(size.1..u64::MAX, |_, _| vec![Value::Zero]);
    }

    /// `client` was told this size: false if it cannot be.
    pub fn see_size(&mut self, client: ClientId, size: u64) -> bool {
        if size < self.size.0 || size > self.size.1 {
            return false;
        }
        if self.settles(client) && self.copying.is_empty() && self.size != (size, size) {
            self.set_size_range((size, size));
        }
        // Who has made it that long has told so, though its bytes may be on their way still.
        for (other, unsynced) in &mut self.unsynced {
            if *other != client {
                unsynced.older_size = (size, size);
            }
        }
        true
    }

    /// `client` asked for `length` bytes at `offset` and got `data`: why that cannot be, if so.
    pub fn see_bytes(
        &mut self,
        client: ClientId,
        offset: u64,
        length: u64,
        data: &[u8],
    ) -> Result<(), String> {
        let got = data.len() as u64;
        self.touch_bytes(client, offset..offset.saturating_add(got));
        let (low, high) = self.size;
        let size = if got > length {
            return Err(format!("{got} bytes for {length}"));
        } else if got == length {
            (low.max(offset + got), high)
        } else if got > 0 {
            (low.max(offset + got), high.min(offset + got))
        } else {
            (low, high.min(offset))
        };
        if got != 0 && size.0 > size.1 || got == 0 && length > 0 && low > offset {
            return Err(format!(
                "{got} of {length} bytes at {offset} of a file of {low}..={high}"
            ));
        }
        let mut settled: Vec<(Range<u64>, Values)> = Vec::new();
        for (run, values) in self.bytes.runs(offset..offset + got) {
            let part = &data[(run.start - offset) as usize..(run.end - offset) as usize];
            if let [only] = values[..] {
                let wrong = part
                    .iter()
                    .zip(run.clone())
                    .find(|&(&byte, at)| !only.gives(at, byte));
                if let Some((byte, at)) = wrong {
                    return Err(format!("byte {at} is {byte:#04x}, must be of {only:?}"));
                }
                continue;
            }
            for (&byte, at) in part.iter().zip(run) {
                let gives = |value: &Value| value.gives(at, byte);
                if self.is_being_copied_to(at) && values.iter().any(gives) {
                    continue;
                }
                // Byte by byte would be as slow as it is simple: neighbours mostly agree.
                if let Some((range, left)) = settled.last_mut()
                    && range.end == at
                    && values.iter().filter(|value| gives(value)).eq(left.iter())
                {
                    range.end += 1;
                    continue;
                }
                let left: Values = values.iter().copied().filter(gives).collect();
                if left.is_empty() {
                    return Err(format!(
                        "byte {at} is {byte:#04x}, must be of one of {values:?}"
                    ));
                }
                if left.len() < values.len() {
                    settled.push((at..at + 1, left));
                }
            }
        }
        if self.settles(client) {
            for (range, left) in settled {
                self.bytes.set(range, left);
            }
            if length > 0 && size != self.size && self.copying.is_empty() {
                self.set_size_range(size);
            }
            if got > 0 {
                self.grown_for_good(offset + got, Some(client));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: usize, base: u64) -> Value {
        Value::Written { write, base }
    }

    #[test]
    fn a_synced_write_stays_and_an_unsynced_one_may_go() {
        let mut file = Content::default();
        file.write(1, 0..100, written(5, 0), false);
        file.synced(1);
        file.write(1, 50..150, written(6, 50), false);
        let mut lost = file.clone();
        lost.client_gone(1);
        assert_eq!(lost.size(), (100, 150));
        let old = bytes(5, 100);
        let mut kept = lost.clone();
        assert!(lost.see_bytes(2, 0, 200, &old).is_ok());
        assert_eq!(lost.size(), (100, 100));
        // Once seen, it cannot come back.
        let mut both = old[..50].to_vec();
        both.extend(bytes(6, 100));
        assert!(lost.see_bytes(2, 0, 200, &both).is_err());
        assert!(kept.see_bytes(2, 0, 200, &both).is_ok());
        assert!(kept.see_bytes(2, 0, 200, &old).is_err());
        // With the writer alive, it must be there, and then stays when the writer goes.
        assert!(file.clone().see_bytes(2, 0, 200, &old).is_err());
        assert!(file.see_bytes(2, 0, 200, &both).is_ok());
        file.client_gone(1);
        assert!(file.see_bytes(2, 0, 100, &old).is_err());
    }

    #[test]
    fn who_uses_some_bytes_has_no_others_written_back() {
        let mut file = Content::default();
        file.write(1, 0..100, written(1, 0), false);
        file.write(2, 100..200, written(2, 100), false);
        assert!(file.see_bytes(3, 0, 50, &bytes(1, 50)).is_ok());
        file.client_gone(1);
        let mut all = bytes(1, 100);
        all.extend(bytes(2, 100));
        let seen = |all: &[u8]| file.clone().see_bytes(3, 0, 200, all).is_ok();
        assert!(seen(&all));
        all[50..100].fill(0);
        assert!(seen(&all), "nobody had looked at these");
        all[100..].fill(0);
        assert!(!seen(&all), "who wrote these is there still");
        all[100..].copy_from_slice(&bytes(2, 100));
        all[..50].fill(0);
        assert!(!seen(&all), "these were seen");
        // Both go: what nobody has seen or synced may be gone, and the end with it.
        file.client_gone(2);
        assert_eq!(file.size(), (50, 200));
        assert!(file.see_bytes(3, 0, 200, &bytes(1, 50)).is_ok());
    }

    #[test]
    fn who_reads_what_it_has_written_has_not_synced_it() {
        let mut file = Content::default();
        file.write(1, 0..100, written(1, 0), false);
        assert!(file.see_bytes(1, 0, 200, &bytes(1, 100)).is_ok());
        file.client_gone(1);
        assert_eq!(file.size(), (0, 100));
    }

    #[test]
    fn a_copy_holds_what_the_original_held() {
        let mut original = Content::default();
        original.write(1, 100..200, written(1, 100), true);
        let mut copy = Content::default();
        copy.write(1, 0..10, written(2, 0), true);
        copy.copy(2, &original, 90, 5, 60);
        assert_eq!(copy.size(), (65, 65));
        let mut all = bytes(2, 5);
        all.extend([0; 10]);
        all.extend(&bytes(1, 100)[..50]);
        assert!(copy.see_bytes(2, 0, 100, &all).is_ok());
        all[64] ^= 1;
        assert!(copy.see_bytes(2, 0, 100, &all).is_err());
        // Unsynced like any write.
        copy.client_gone(2);
        assert!(copy.see_bytes(3, 0, 100, &bytes(2, 10)).is_ok());
    }

    #[test]
    fn holes_are_where_nothing_was_written() {
        let mut file = Content::default();
        file.write(1, 8192..9000, written(1, 8192), true);
        assert!(file.may_seek(1, 0, false, Some(8192)));
        assert!(file.may_seek(1, 0, false, Some(4096)), "zeros may be data");
        assert!(
            !file.may_seek(1, 0, false, Some(8193)),
            "data was passed by"
        );
        assert!(!file.may_seek(1, 0, false, None));
        assert!(file.may_seek(1, 8500, true, Some(9000)));
        assert!(!file.may_seek(1, 8192, true, Some(8192)), "that is no hole");
        assert!(file.may_seek(1, 0, true, Some(4096)));
        assert!(!file.may_seek(1, 8500, true, None));
        assert!(!file.may_seek(1, 9000, true, Some(9000)));
        assert!(file.may_seek(1, 9000, true, None));
    }

    #[test]
    fn sizes_and_ends_are_checked() {
        let mut file = Content::default();
        file.write(1, 10..20, written(1, 10), true);
        let mut all = vec![0; 10];
        all.extend(bytes(1, 10));
        assert!(file.see_bytes(1, 0, 50, &all).is_ok());
        assert!(file.see_bytes(1, 0, 50, &all[..19]).is_err());
        assert!(file.see_bytes(1, 20, 5, &[]).is_ok());
        assert!(file.see_bytes(1, 19, 5, &[]).is_err());
        assert!(!file.see_size(1, 19));
        file.truncate(2, 15);
        file.truncate(2, 20);
        all[15..].fill(0);
        assert!(file.see_bytes(1, 0, 20, &all).is_ok());
        file.punch(1, 0..12);
        all[10..12].fill(0);
        assert!(file.see_bytes(1, 0, 20, &all).is_ok());
    }

    #[test]
    fn growth_is_owed_and_a_cut_is_not() {
        let mut file = Content::default();
        file.write(1, 0..10, written(1, 0), true);
        let mut grown = file.clone();
        grown.truncate(1, 50);
        assert_eq!(grown.size(), (50, 50));
        grown.client_gone(1);
        assert_eq!(grown.size(), (10, 50));
        file.truncate(1, 5);
        file.client_gone(1);
        assert_eq!(file.size(), (5, 5));
        // Where the size is not known, a client may have taken it for growth or for a cut.
        grown.truncate(2, 20);
        assert_eq!(grown.size(), (20, 20));
        grown.client_gone(2);
        assert_eq!(grown.size(), (10, 50));
    }

    #[test]
    fn an_append_that_failed_where_the_size_was_unknown_may_have_done_nothing() {
        let mut file = Content::default();
        file.maybe_write(1, 0..10, written(1, 0));
        file.maybe_append_somewhere(1, 5);
        assert_eq!(file.size(), (0, 15));
    }

    #[test]
    fn what_allows_more_includes_what_allows_less() {
        let mut old = Content::default();
        old.write(1, 0..8, written(1, 0), true);
        let mut maybe = old.clone();
        maybe.maybe_write(1, 0..8, written(2, 0));
        let mut new = old.clone();
        new.write(1, 0..8, written(2, 0), true);
        assert!(maybe.includes(&old) && maybe.includes(&new) && maybe.includes(&maybe));
        assert!(!old.includes(&maybe) && !old.includes(&new) && !new.includes(&old));
        let mut unsynced = old.clone();
        unsynced.write(1, 0..8, written(2, 0), false);
        assert!(unsynced.includes(&new) && !new.includes(&unsynced));
    }

    #[test]
    fn a_failed_write_is_there_or_not_and_its_writer_may_see_either() {
        let mut file = Content::default();
        file.write(1, 0..8, written(1, 0), true);
        file.maybe_write(1, 0..8, written(2, 0));
        let (old, new) = (bytes(1, 8), bytes(2, 8));
        assert!(file.see_bytes(1, 0, 8, &new).is_ok());
        assert!(file.see_bytes(1, 0, 8, &old).is_ok());
        let mut mixed = new.clone();
        mixed[4..].copy_from_slice(&old[4..]);
        assert!(file.see_bytes(2, 0, 8, &mixed).is_ok());
        assert!(file.see_bytes(2, 0, 8, &new).is_err());
        assert!(file.see_bytes(2, 0, 8, &[0; 8]).is_err());
    }
}
