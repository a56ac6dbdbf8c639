//! The object file: where blocks lie, and the checksum page in front of each group.
//!
//! ```text
//! object file:  | page 0 | block 0 | ... | block 507 | page 1 | block 508 | ...      all 4096 bytes
//!               |<------------- group 0 ------------>|<------- group 1 ---
//!
//! page:   0       4      6     8            16     24          28      32
//!         | magic | ver  |  0  | group index | ino | generation | crc   | entry 0 | ... | entry 507 |
//!         | WFOB  | u16  | u16 | u64         | u64 | u32        | u32   | 8 bytes each              |
//! entry:  0      4      8
//!         | new  | old  |      0 a hole, 1 lost, else the stored CRC-32C
//! ```
//!
//! All numbers are little-endian; `crc` is the CRC-32C of bytes 0..28. A page of zeros (a hole in
//! the file) is a group in which nothing was ever written. The file ends with the last byte of the
//! object: its length says the object's. docs/formats/object.md tells why each thing is as it is.

use weft_types::{BLOCK_BYTES, ObjectId};

/// Version of the object file that is written.
pub(crate) const VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"WFOB";
/// Bytes of a checksum page, and of a block.
pub(crate) const PAGE: usize = BLOCK_BYTES as usize;
const HEADER: usize = 32;
/// Blocks under one checksum page.
pub(crate) const GROUP_BLOCKS: u64 = ((PAGE - HEADER) / 8) as u64;
/// Bytes of an object in one group.
pub(crate) const GROUP_DATA: u64 = GROUP_BLOCKS * BLOCK_BYTES;
/// Bytes of the file in one group.
pub(crate) const GROUP_FILE: u64 = GROUP_DATA + BLOCK_BYTES;

/// An entry's half for a block that was never written, or punched.
pub(crate) const HOLE: u32 = 0;
/// An entry's half that no content answers to.
pub(crate) const LOST: u32 = 1;

pub(crate) static ZEROS: [u8; PAGE] = [0; PAGE];

/// Where the page of a group begins in the file.
pub(crate) fn page_at(group: u64) -> u64 {
    group * GROUP_FILE
}

/// Where a block (by its index in the object) begins in the file.
pub(crate) fn block_at(block: u64) -> u64 {
    block / GROUP_BLOCKS * GROUP_FILE + BLOCK_BYTES + block % GROUP_BLOCKS * BLOCK_BYTES
}

/// The length of the file of an object of `length` bytes.
pub(crate) fn physical(length: u64) -> u64 {
    match length.checked_sub(1) {
        None => 0,
        Some(last) => block_at(last / BLOCK_BYTES) + last % BLOCK_BYTES + 1,
    }
}

/// The length of the object in a file of `physical` bytes. A file that ends within a page (a kill
/// came between the page and the first data of its group) holds nothing of that group.
pub(crate) fn logical(physical: u64) -> u64 {
    physical / GROUP_FILE * GROUP_DATA + (physical % GROUP_FILE).saturating_sub(BLOCK_BYTES)
}

/// The checksum of a block as entries hold it: of `content` and of zeros up to the end of the
/// block. 0 and 1 have a meaning of their own in entries; contents that sum to them count as 2, 3.
pub(crate) fn checksum(content: &[u8]) -> u32 {
    let mut crc = crc32c::crc32c(content);
    if content.len() < PAGE {
        crc = crc32c::crc32c_append(crc, &ZEROS[content.len()..]);
    }
    if crc < 2 { crc + 2 } else { crc }
}

/// What a block's content may be: `new` or `old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub new: u32,
    pub old: u32,
}

/// What a look at a block's content shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Data with this checksum.
    Data(u32),
    /// Zeros.
    Hole,
    /// Zeros by the entry, though the file holds something else there.
    StaleHole,
    /// Neither of what the entry allows.
    Bad,
}

impl Verdict {
    /// The half of an entry that stands for the content.
    pub fn current(self) -> u32 {
        match self {
            Verdict::Data(crc) => crc,
            Verdict::Hole | Verdict::StaleHole => HOLE,
            Verdict::Bad => LOST,
        }
    }
}

impl Entry {
    pub const HOLE: Entry = Entry {
        new: HOLE,
        old: HOLE,
    };

    /// Both halves the same: it is known which content the block has.
    pub fn settled(current: u32) -> Entry {
        Entry {
            new: current,
            old: current,
        }
    }

    pub fn is_settled(self) -> bool {
        self.new == self.old
    }

    /// Compares a block's content (cut short by the end of the file, perhaps) with the entry.
    pub fn judge(self, content: &[u8]) -> Verdict {
        if self == Entry::HOLE {
            return if is_zero(content) {
                Verdict::Hole
            } else {
                Verdict::StaleHole
            };
        }
        let crc = checksum(content);
        let answers = |half: u32| match half {
            HOLE => is_zero(content).then_some(Verdict::Hole),
            half => (half == crc).then_some(Verdict::Data(crc)),
        };
        // Zeros may answer to both, as a hole and as what was written: then the last change is the one that
        // came to its end, and has been on both members since.
        let answered = answers(self.new).or_else(|| answers(self.old));
        answered.unwrap_or(Verdict::Bad)
    }
}

pub(crate) fn is_zero(content: &[u8]) -> bool {
    content
        .chunks(PAGE)
        .all(|chunk| chunk == &ZEROS[..chunk.len()])
}

/// The entries of one group. Entries past the end of the vector are holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    pub fn get(&self, block: u64) -> Entry {
        self.0.get(block as usize).copied().unwrap_or(Entry::HOLE)
    }

    pub fn set(&mut self, block: u64, entry: Entry) {
        debug_assert!(block < GROUP_BLOCKS);
        let block = block as usize;
        if block >= self.0.len() {
            if entry == Entry::HOLE {
                return;
            }
            self.0.resize(block + 1, Entry::HOLE);
        }
        self.0[block] = entry;
    }

    /// One more than the last block that may be anything but a hole.
    pub fn end(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The bytes of a page.
pub(crate) fn encode(object: ObjectId, group: u64, entries: &Entries) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE);
    page.extend_from_slice(&MAGIC);
    page.extend_from_slice(&VERSION.to_le_bytes());
    page.extend_from_slice(&[0, 0]);
    page.extend_from_slice(&group.to_le_bytes());
    page.extend_from_slice(&object.ino.0.to_le_bytes());
    page.extend_from_slice(&object.generation.to_le_bytes());
    let crc = crc32c::crc32c(&page);
    page.extend_from_slice(&crc.to_le_bytes());
    for entry in &entries.0 {
        page.extend_from_slice(&(u64::from(entry.old) << 32 | u64::from(entry.new)).to_le_bytes());
    }
    page.resize(PAGE, 0);
    page
}

/// A page as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub entries: Entries,
    /// The header is not one that Weft wrote for this group: entries that stand for a hole cannot be
    /// trusted (the page may have been lost in part); the others prove themselves by the content.
    pub damaged: bool,
}

/// Reads a page; `page` may be cut short by the end of the file.
///
/// # Errors
/// The version of an intact page that is not [`VERSION`].
pub(crate) fn decode(object: ObjectId, group: u64, page: &[u8]) -> Result<Decoded, u16> {
    let mut whole = [0; PAGE];
    let given = page.len().min(PAGE);
    whole[..given].copy_from_slice(&page[..given]);
    if is_zero(&whole) {
        return Ok(Decoded {
            entries: Entries::default(),
            damaged: false,
        });
    }
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| whole[at + i]));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let intact = whole[..4] == MAGIC && word(28) == crc32c::crc32c(&whole[..28]);
    if intact && whole[4..6] != VERSION.to_le_bytes() {
        return Err(u16::from_le_bytes([whole[4], whole[5]]));
    }
    let ours = long(8) == group && long(16) == object.ino.0 && word(24) == object.generation;
    let mut entries = Entries::default();
    for (block, half) in whole[HEADER..].as_chunks::<8>().0.iter().enumerate() {
        let both = u64::from_le_bytes(*half);
        if both != 0 {
            entries.set(
                block as u64,
                Entry {
                    new: both as u32,
                    old: (both >> 32) as u32,
                },
            );
        }
    }
    Ok(Decoded {
        entries,
        damaged: !(intact && ours),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::Ino;

    const OBJECT: ObjectId = ObjectId {
        ino: Ino(0x0012_0000_0000_abcd),
        generation: 3,
    };

    #[test]
    fn zeros_are_what_they_were_made_last() {
        let zeros = checksum(&ZEROS);
        let punched = Entry {
            new: HOLE,
            old: zeros,
        };
        assert_eq!(punched.judge(&ZEROS), Verdict::Hole);
        let written = Entry {
            new: zeros,
            old: HOLE,
        };
        assert_eq!(written.judge(&ZEROS), Verdict::Data(zeros));
    }

    #[test]
    fn the_length_of_the_file_and_of_the_object_prove_each_other() {
        let interesting = [
            0,
            1,
            4095,
            4096,
            4097,
            GROUP_DATA - 1,
            GROUP_DATA,
            GROUP_DATA + 1,
            7 * GROUP_DATA,
            7 * GROUP_DATA + 12345,
        ];
        for length in interesting {
            assert_eq!(logical(physical(length)), length, "{length}");
        }
        assert_eq!(physical(1), 4097);
        assert_eq!(physical(GROUP_DATA), GROUP_FILE);
        assert_eq!(physical(GROUP_DATA + 1), GROUP_FILE + 4097);
        assert_eq!(logical(GROUP_FILE + 100), GROUP_DATA);
        assert_eq!(logical(4096), 0);
    }

    #[test]
    fn blocks_and_pages_never_overlap() {
        assert_eq!(GROUP_BLOCKS, 508);
        let mut next = 0;
        for block in 0..3 * GROUP_BLOCKS {
            if block % GROUP_BLOCKS == 0 {
                assert_eq!(page_at(block / GROUP_BLOCKS), next);
                next += BLOCK_BYTES;
            }
            assert_eq!(block_at(block), next);
            next += BLOCK_BYTES;
        }
    }

    #[test]
    fn a_page_comes_back_as_it_was_written() {
        let mut entries = Entries::default();
        entries.set(0, Entry { new: 7, old: HOLE });
        entries.set(507, Entry { new: 9, old: 8 });
        let page = encode(OBJECT, 5, &entries);
        assert_eq!(page.len(), PAGE);
        let decoded = decode(OBJECT, 5, &page).unwrap();
        assert_eq!(decoded.entries, entries);
        assert!(!decoded.damaged);
    }

    #[test]
    fn a_page_of_another_group_or_object_or_with_a_flipped_bit_is_damaged() {
        let page = encode(OBJECT, 5, &Entries::default());
        assert!(decode(OBJECT, 6, &page).unwrap().damaged);
        let mut other = OBJECT;
        other.generation = 4;
        assert!(decode(other, 5, &page).unwrap().damaged);
        for bit in 0..HEADER * 8 {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode(OBJECT, 5, &flipped).unwrap();
            assert!(decoded.damaged, "bit {bit}");
        }
    }

    #[test]
    fn a_page_of_another_version_is_refused_by_name() {
        let mut page = encode(OBJECT, 0, &Entries::default());
        page[4] = 2;
        let crc = crc32c::crc32c(&page[..28]);
        page[28..32].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(OBJECT, 0, &page), Err(2));
    }

    #[test]
    fn a_block_answers_to_either_checksum() {
        let (a, b, c) = ([1u8; PAGE], [2u8; PAGE], [3u8; PAGE]);
        let entry = Entry {
            new: checksum(&a),
            old: checksum(&b),
        };
        assert_eq!(entry.judge(&a), Verdict::Data(checksum(&a)));
        assert_eq!(entry.judge(&b), Verdict::Data(checksum(&b)));
        assert_eq!(entry.judge(&c), Verdict::Bad);
        assert_eq!(entry.judge(&ZEROS), Verdict::Bad);
        let fresh = Entry {
            new: checksum(&a),
            old: HOLE,
        };
        assert_eq!(fresh.judge(&ZEROS), Verdict::Hole);
        assert_eq!(fresh.judge(&[]), Verdict::Hole);
        assert_eq!(Entry::HOLE.judge(&a), Verdict::StaleHole);
        assert_eq!(Entry::settled(LOST).judge(&a), Verdict::Bad);
        assert_eq!(Entry::settled(LOST).judge(&ZEROS), Verdict::Bad);
    }

    #[test]
    fn a_short_block_sums_like_one_padded_with_zeros() {
        let mut whole = [0u8; PAGE];
        whole[..5].copy_from_slice(b"short");
        assert_eq!(checksum(b"short"), checksum(&whole));
    }
}
