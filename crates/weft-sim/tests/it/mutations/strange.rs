//! Calls that nobody sends who means well: valid ones, put together anew and changed here and there.

use super::calls::{operations, valid};
use bytes::Bytes;
use weft_sim::Rng;

/// Words that are more likely than others to be at an edge of something.
const EDGES: [u32; 14] = [
    0,
    1,
    2,
    3,
    7,
    255,
    256,
    4096,
    1 << 20,
    (1 << 20) + 1,
    i32::MAX as u32,
    1 << 31,
    u32::MAX - 1,
    u32::MAX,
];

/// Bytes of a call at most.
const LONGEST: usize = 20_000;

/// Makes them, from what a seed says.
pub struct Strange {
    rng: Rng,
    operations: Vec<Bytes>,
    valid: Vec<Vec<u8>>,
}

impl Strange {
    pub fn new(seed: u64) -> Strange {
        Strange {
            rng: Rng::stream(seed, "strange calls", 0),
            operations: operations(),
            valid: valid(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// The next one, as [`super::Gauntlet::feed`] takes it.
    pub fn call(&mut self) -> Vec<u8> {
        let mut call = match self.below(4) {
            0 | 1 => self.mixed(),
            _ => {
                let at = self.below(self.valid.len());
                self.valid[at].clone()
            }
        };
        for _ in 0..self.below(5) {
            self.change(&mut call);
        }
        if self.rng.once_in(20) {
            self.as_record(&mut call);
        }
        call.truncate(LONGEST);
        call
    }

    /// Operations in any order.
    fn mixed(&mut self) -> Vec<u8> {
        let count = 1 + self.below(6);
        let mut call = vec![self.below(2) as u8, count as u8];
        for _ in 0..count {
            let at = self.below(self.operations.len());
            call.extend_from_slice(&self.operations[at]);
        }
        call
    }

    fn change(&mut self, call: &mut Vec<u8>) {
        let words = call.len().saturating_sub(2) / 4;
        let at = 2 + 4 * self.below(words.max(1));
        match self.below(9) {
            0..=2 => {
                let word = EDGES[self.below(EDGES.len())];
                if let Some(room) = call.get_mut(at..at + 4) {
                    room.copy_from_slice(&word.to_be_bytes());
                }
            }
            3 | 4 => {
                // A number that is near by: another enum's value, one byte more or less.
                let by = self.below(5) as u32;
                if let Some(room) = call.get_mut(at..at + 4) {
                    let word = u32::from_be_bytes([room[0], room[1], room[2], room[3]]);
                    let word = word.wrapping_add(by).wrapping_sub(2);
                    room.copy_from_slice(&word.to_be_bytes());
                }
            }
            5 => {
                let byte = self.below(call.len());
                call[byte] ^= 1 << self.below(8);
            }
            6 => call.truncate(at),
            7 => call[1] = self.below(256) as u8,
            _ => {
                // A piece of it once more, somewhere.
                let length = 4 * self.below(20);
                let piece = call[at.min(call.len())..(at + length).min(call.len())].to_vec();
                let to = 2 + 4 * self.below(words.max(1));
                let to = to.min(call.len());
                call.splice(to..to, piece);
            }
        }
    }

    /// A whole record of its own: the header may be wrong, too.
    fn as_record(&mut self, call: &mut Vec<u8>) {
        let program = [100_003, 100_005, 100_000, 7][self.below(4)];
        let (version, procedure) = ([3, 4, 2][self.below(3)], self.below(8) as u32);
        let mut record = vec![4, 0];
        for word in [9, 0, 2, program, version, procedure, 0, 0, 0, 0] {
            let word: u32 = match self.rng.once_in(15) {
                true => EDGES[self.below(EDGES.len())],
                false => word,
            };
            record.extend_from_slice(&word.to_be_bytes());
        }
        record.extend_from_slice(&call[2.min(call.len())..]);
        *call = record;
    }
}
