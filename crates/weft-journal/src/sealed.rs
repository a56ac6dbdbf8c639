//! A batch in the bytes in which it is written and sent.

use crate::BATCH_BYTES_MAX;
use bytes::Bytes;
use prost::Message;
use thiserror::Error;
use weft_types::{Epoch, Sn};
use weft_wire::proto::Batch;

/// A batch as it stands in a journal and travels between members: encoded once. All members keep the
/// same bytes, also where a later build would encode the batch in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    epoch: Epoch,
    sn: Sn,
    /// The encoded [`Batch`]; at most [`BATCH_BYTES_MAX`] bytes.
    content: Bytes,
}

/// Why bytes that another member sent are no batch.
#[derive(Debug, Error)]
pub enum BadBatch {
    /// No journal takes so many bytes as one batch.
    #[error("a batch has at most {BATCH_BYTES_MAX} bytes, not {bytes}")]
    TooLong {
        /// How many there are.
        bytes: usize,
    },
    /// They are no `Batch` message, or one of another version.
    #[error("it does not decode as a batch: {0}")]
    Undecodable(#[from] prost::DecodeError),
}

impl Sealed {
    /// Encodes a batch of our own making, which gathering has kept below [`BATCH_BYTES_MAX`].
    pub fn new(batch: &Batch) -> Sealed {
        let content = batch.encode_to_vec();
        assert!(
            content.len() <= BATCH_BYTES_MAX,
            "gathering stops below the longest batch"
        );
        Sealed {
            epoch: Epoch(batch.epoch),
            sn: Sn(batch.sn),
            content: content.into(),
        }
    }

    /// Takes what another member sent. `content` is kept as it is; it may share the memory of the
    /// frame in which it came.
    ///
    /// # Errors
    /// [`BadBatch`]: it is too long, or no batch.
    pub fn read(content: Bytes) -> Result<(Sealed, Batch), BadBatch> {
        if content.len() > BATCH_BYTES_MAX {
            let bytes = content.len();
            return Err(BadBatch::TooLong { bytes });
        }
        let batch = Batch::decode(content.clone())?;
        let sealed = Sealed {
            epoch: Epoch(batch.epoch),
            sn: Sn(batch.sn),
            content,
        };
        Ok((sealed, batch))
    }

    /// The epoch of the active that made it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Its place in the journal.
    pub fn sn(&self) -> Sn {
        self.sn
    }

    /// The encoded [`Batch`].
    pub fn content(&self) -> &Bytes {
        &self.content
    }
}
