//! Images: the whole state as a stream of records (`proto/image.proto`), and the digest of it.
//!
//! Equal states give equal streams, because every table is walked in its order; so the digest is the
//! hash of the stream, and an image is read back right if what was read has the digest that stands
//! at its end. Where and how records are kept on disk is the journal's matter, not ours.

mod check;
mod checkpoints;
mod load;
mod save;

pub use load::Loader;
pub use save::Records;
pub(crate) use save::{inode_record, open_record};

use crate::state::State;
use prost::Message;
use twox_hash::xxhash3_128;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::{ImageEnd, ImageRecord};

/// The version of the format. A change that older images cannot be read under needs a new one, and
/// the reading of the old one stays.
pub(crate) const VERSION: u32 = 1;

/// Most entries of a directory in one record, so that records stay small (below 100 KiB).
const ENTRIES_MAX: usize = 256;

/// Why an image cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageError {
    /// Written by another version of Weft: take that one, or another image.
    #[error("image of format version {found}, this build reads version {VERSION}")]
    Version {
        /// What the image says.
        found: u32,
    },
    /// The end is missing: take another image.
    #[error("the image is cut off after {records} records")]
    CutOff {
        /// Records that were there.
        records: u64,
    },
    /// The image is damaged, or was never right: take another one.
    #[error("record {record} of the image is wrong: {what}")]
    Malformed {
        /// Which record, from 0; the number of records for what shows only at the end.
        record: u64,
        /// What is wrong with it.
        what: String,
    },
    /// All records are there and make sense, but they are not those that were written.
    #[error("the image has digest {found:032x}, written was {expected:032x}")]
    Digest {
        /// What the image says at its end.
        expected: u128,
        /// What the records give.
        found: u128,
    },
}

/// Whether the records of an image are all there and as they were written: by their digest, without the
/// memory that a state takes.
pub struct ImageCheck {
    digest: Digest,
    records: u64,
    end: Option<ImageEnd>,
}

impl Default for ImageCheck {
    fn default() -> ImageCheck {
        ImageCheck {
            digest: Digest::new(),
            records: 0,
            end: None,
        }
    }
}

impl ImageCheck {
    /// Takes the next record.
    ///
    /// # Errors
    /// [`ImageError::Malformed`] if it is none, or comes after the last one.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        let malformed = |what: String| ImageError::Malformed {
            record: self.records,
            what,
        };
        if self.end.is_some() {
            return Err(malformed("a record after the last one".into()));
        }
        let record = ImageRecord::decode(bytes).map_err(|error| malformed(error.to_string()))?;
        if let Some(Record::End(end)) = record.record {
            self.end = Some(end);
            return Ok(());
        }
        self.digest.add(bytes);
        self.records += 1;
        Ok(())
    }

    /// All has come.
    ///
    /// # Errors
    /// [`ImageError::CutOff`] or [`ImageError::Digest`] if that is not so.
    pub fn finish(&self) -> Result<(), ImageError> {
        let records = self.records;
        let Some(end) = self.end.filter(|end| end.records == records) else {
            return Err(ImageError::CutOff { records });
        };
        let expected = u128::from(end.digest_high) << 64 | u128::from(end.digest_low);
        match self.digest.finish() {
            found if found == expected => Ok(()),
            found => Err(ImageError::Digest { expected, found }),
        }
    }
}

/// The hash of a stream of records.
#[derive(Clone)]
pub(crate) struct Digest(xxhash3_128::Hasher);

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(xxhash3_128::Hasher::with_seed(u64::from(VERSION)))
    }

    pub(crate) fn add(&mut self, record: &[u8]) {
        self.0.write(&(record.len() as u64).to_le_bytes());
        self.0.write(record);
    }

    pub(crate) fn finish(&self) -> u128 {
        self.0.finish_128()
    }
}

impl State {
    /// Equal states have equal digests, whatever happened on the way to them; states that differ have
    /// different ones but for chance. Walks the whole state.
    pub fn digest(&self) -> u128 {
        let mut records = self.records();
        while records.next().is_some() {}
        records.digest()
    }

    /// The image, record by record.
    pub fn records(&self) -> Records<'_> {
        Records::new(self)
    }

    /// Hands the image to `sink`, record by record, in order. Records are small, mostly below
    /// 100 bytes and hardly ever above 100 KiB.
    pub fn save(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut records = self.records();
        while let Some(record) = records.next() {
            sink(record);
        }
    }

    /// Rebuilds the state from the records of an image. Everything is checked; nothing that a record
    /// may hold makes it panic. [`Loader`] does the same piece by piece.
    pub fn load<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Result<State, ImageError> {
        let mut loader = Loader::new();
        for record in records {
            loader.push(record.as_ref())?;
        }
        loader.finish()
    }
}
