//! What one member alone is known to have of what this client wrote (docs/protocols/duplication.md),
//! and how much of that there may be.

use std::collections::BTreeMap;
use std::time::Duration;
use weft_env::Mono;

/// Second copies that are owed, whoever makes them.
pub(crate) struct Owed {
    bytes_max: u64,
    age_max: Duration,
    bytes: u64,
    /// In the order in which they began to be owed: since when, and bytes.
    writes: BTreeMap<u64, (Mono, u64)>,
    next: u64,
}

impl Owed {
    /// Nothing yet.
    pub fn new(bytes_max: u64, age_max: Duration) -> Owed {
        Owed {
            bytes_max,
            age_max,
            bytes: 0,
            writes: BTreeMap::new(),
            next: 0,
        }
    }

    /// One member has so many bytes. The number is for [`Owed::end`].
    pub fn begin(&mut self, bytes: u64, now: Mono) -> u64 {
        let number = self.next;
        self.next += 1;
        self.bytes += bytes;
        self.writes.insert(number, (now, bytes));
        number
    }

    /// Both have them, or they are lost.
    pub fn end(&mut self, number: u64) {
        if let Some((_, bytes)) = self.writes.remove(&number) {
            self.bytes -= bytes;
        }
    }

    /// Bytes that one member alone has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Nothing more should be sent before some of it has ended.
    pub fn is_full(&self, now: Mono) -> bool {
        let oldest = self.writes.first_key_value();
        self.bytes >= self.bytes_max && self.bytes > 0
            || oldest.is_some_and(|(_, (since, _))| now.since(*since) >= self.age_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_by_bytes_and_by_age() {
        let second = Duration::from_secs(1);
        let start = Mono(5);
        let mut owed = Owed::new(100, second);
        assert!(!owed.is_full(start));
        let first = owed.begin(60, start);
        assert!(!owed.is_full(start));
        let second_one = owed.begin(60, Mono(6));
        assert!(owed.is_full(Mono(6)) && owed.bytes() == 120);
        owed.end(first);
        assert!(!owed.is_full(Mono(6)));
        assert!(owed.is_full(Mono(6 + 1_000_000_000)), "old");
        owed.end(second_one);
        owed.end(second_one);
        assert!(!owed.is_full(Mono(u64::MAX)) && owed.bytes() == 0);
    }
}
