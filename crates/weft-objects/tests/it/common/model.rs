//! What objects must hold, kept in plain maps, and the operations that tests do to both.

use super::disk::Dice;
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_objects::{Extent, Fill, Purpose, Result, Store, regions_of};
use weft_types::{Ino, ObjectId};

pub const BLOCK: u64 = 4096;
pub const GROUP: u64 = 508;

/// Names of the objects that tests use: in two directories, with generations.
pub fn object(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(0x0030_0000_0000_0100 * (number % 3) + number),
        generation: (number % 2) as u32,
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    Write(Vec<(u64, Vec<u8>)>),
    Punch(u64, u64),
    Truncate(u64),
    Remove,
    /// Blocks with the byte that fills them, holes, and the length.
    Fill(Vec<(u64, u8)>, Vec<u64>, u64),
}

impl Change {
    /// Byte ranges that it touches; `None` for all of them.
    pub fn extent(&self) -> Option<(u64, u64)> {
        match self {
            Change::Write(parts) => {
                let start = parts.iter().map(|part| part.0).min()?;
                let end = parts
                    .iter()
                    .map(|part| part.0 + part.1.len() as u64)
                    .max()?;
                Some((start, end))
            }
            Change::Punch(start, end) => Some((*start, *end)),
            _ => None,
        }
    }

    /// For messages.
    pub fn brief(&self) -> String {
        match self {
            Change::Write(parts) => {
                let parts: Vec<(u64, usize)> = parts.iter().map(|p| (p.0, p.1.len())).collect();
                format!("Write{parts:?} ")
            }
            other => format!("{other:?} "),
        }
    }

    /// A random one. Offsets lie around 0 and around the borders of groups, so that objects stay
    /// small and the borders are met.
    pub fn random(dice: &mut Dice) -> Change {
        let place = |dice: &mut Dice| {
            let base = [0, 0, GROUP - 3, 2 * GROUP - 2][dice.roll(4) as usize] * BLOCK;
            let blocks = dice.roll(6) * BLOCK;
            base + blocks + [0, 0, 1, 100, 4095][dice.roll(5) as usize]
        };
        let bytes = |dice: &mut Dice| {
            let length = [1, 100, 4096, 4096, 8192, 5000, 20480, 70000][dice.roll(8) as usize];
            let mut filler = Dice(dice.roll(1 << 30));
            (0..length)
                .map(|_| filler.roll(255) as u8 + 1)
                .collect::<Vec<u8>>()
        };
        match dice.roll(12) {
            0..=5 => Change::Write(vec![(place(dice), bytes(dice))]),
            6 => {
                // Parts that overlap are written one after the other: a kill may come between.
                let mut parts: Vec<(u64, Vec<u8>)> =
                    (0..3).map(|_| (place(dice), bytes(dice))).collect();
                parts.sort();
                let mut end = 0;
                parts.retain(|(offset, data)| {
                    let apart = *offset >= end;
                    if apart {
                        end = offset + data.len() as u64;
                    }
                    apart
                });
                Change::Write(parts)
            }
            7 | 8 => {
                let start = place(dice);
                Change::Punch(start, start + 1 + dice.roll(30000))
            }
            9 => Change::Truncate(place(dice)),
            10 => {
                let first = place(dice) / BLOCK;
                let blocks = (0..dice.roll(5)).map(|i| (first + i, dice.roll(255) as u8 + 1));
                let blocks: Vec<(u64, u8)> = blocks.collect();
                let holes = (0..dice.roll(4)).map(|i| first + 10 + i).collect();
                Change::Fill(blocks, holes, place(dice))
            }
            _ => {
                if dice.roll(3) == 0 {
                    Change::Remove
                } else {
                    Change::Truncate(place(dice) / BLOCK * BLOCK)
                }
            }
        }
    }

    /// Does it to a store, marked as the data server would.
    pub async fn apply(&self, store: &Store, id: ObjectId) -> Result<()> {
        let (start, end) = self.extent().unwrap_or((0, 4 * GROUP * BLOCK));
        let purpose = match self {
            Change::Write(_) | Change::Fill(..) => Purpose::Write,
            _ => Purpose::Free,
        };
        store
            .mark(id, regions_of(start, end), purpose, false)
            .await?;
        match self {
            Change::Write(parts) => {
                let extents: Vec<Extent> = parts
                    .iter()
                    .map(|(offset, data)| Extent {
                        offset: *offset,
                        length: data.len() as u32,
                    })
                    .collect();
                let payload: Vec<u8> = parts.iter().flat_map(|part| part.1.clone()).collect();
                store.write(id, &extents, payload.into()).await
            }
            Change::Punch(start, end) => {
                store.punch(id, std::slice::from_ref(&(*start..*end))).await
            }
            Change::Truncate(offset) => store.truncate(id, *offset).await,
            Change::Remove => store.remove(id).await,
            Change::Fill(blocks, holes, length) => {
                let payload: Vec<u8> = blocks.iter().flat_map(|(_, byte)| [*byte; 4096]).collect();
                let fill = Fill {
                    blocks: blocks.iter().map(|block| block.0).collect(),
                    payload: Bytes::from(payload),
                    holes: holes.clone(),
                    length: Some(*length),
                    exists: true,
                };
                store.fill(id, &fill).await
            }
        }
    }
}

/// What one object holds: blocks that are not all zeros, and its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub blocks: BTreeMap<u64, Vec<u8>>,
    pub length: u64,
    pub exists: bool,
}

impl Model {
    /// A block, `None` for zeros.
    pub fn block(&self, number: u64) -> Option<&Vec<u8>> {
        self.blocks.get(&number)
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let within = (at % BLOCK) as usize;
            let (part, behind) = rest.split_at(rest.len().min(BLOCK as usize - within));
            let block = self.blocks.entry(at / BLOCK);
            let block = block.or_insert_with(|| vec![0; BLOCK as usize]);
            block[within..within + part.len()].copy_from_slice(part);
            at += part.len() as u64;
            rest = behind;
        }
    }

    fn zero(&mut self, start: u64, end: u64) {
        for (number, block) in self.blocks.range_mut(start / BLOCK..) {
            let first = number * BLOCK;
            let from = start.clamp(first, first + BLOCK) - first;
            let to = end.clamp(first, first + BLOCK) - first;
            block[from as usize..to.max(from) as usize].fill(0);
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.blocks
            .retain(|_, block| block.iter().any(|&byte| byte != 0));
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(parts) => {
                self.exists = true;
                for (offset, data) in parts {
                    self.put(*offset, data);
                    self.length = self.length.max(offset + data.len() as u64);
                }
            }
            Change::Punch(start, end) => self.zero(*start, *end),
            Change::Truncate(offset) => {
                self.length = self.length.min(*offset);
                self.zero(self.length, u64::MAX);
            }
            Change::Remove => *self = Model::default(),
            Change::Fill(blocks, holes, length) => {
                self.exists = true;
                self.length = *length;
                self.zero(*length, u64::MAX);
                for (block, byte) in blocks {
                    self.put(block * BLOCK, &[*byte; 4096]);
                }
                for hole in holes {
                    self.zero(hole * BLOCK, (hole + 1) * BLOCK);
                }
                self.zero(*length, u64::MAX);
            }
        }
    }

    /// What a store holds.
    pub async fn of(store: &Store, id: ObjectId) -> Result<Model> {
        let length = store.length(id).await?;
        let bytes = store.read(id, 0, length).await?.concat();
        assert_eq!(
            bytes.len() as u64,
            length,
            "a read is cut only at the end of the object"
        );
        let mut model = Model {
            blocks: BTreeMap::new(),
            length,
            exists: store.exists(id),
        };
        for (number, block) in (0..).zip(bytes.chunks(BLOCK as usize)) {
            if block != &[0; BLOCK as usize][..block.len()] {
                let mut block = block.to_vec();
                block.resize(BLOCK as usize, 0);
                model.blocks.insert(number, block);
            }
        }
        Ok(model)
    }
}
