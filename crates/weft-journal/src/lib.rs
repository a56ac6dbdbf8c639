//! The two kinds of files that a metadata server keeps: journal and images.
//!
//! The journal is the log of batches, each with (epoch, sn), in segments; an image is the saved state
//! at one sn. [`Journal`] appends, discards the end and begins anew, [`Reader`] reads back,
//! [`ImageWriter`] and [`ImageReader`] write and read images. What is in the entries and records is
//! not known here.
//!
//! What this crate keeps true: a batch that was appended is read back as it was, or, after a crash
//! before it was appended, not at all; a torn end of the last segment is cut, anything else that is not
//! as it was written is refused with the file, the offset and what to do about it. `weft-meta` is the
//! caller. The bytes are drawn in `docs/formats/journal.md` and `docs/formats/image.md`.

mod cut;
mod error;
mod files;
mod image;
mod journal;
mod kept;
mod reader;
mod record;
mod restart;
mod sealed;

pub use error::JournalError;
pub use files::{
    Location, SyncPolicy, image_path, images, make_dir, remove_images, remove_segments, segments,
};
pub use image::{ImageReader, ImageWriter, RECORD_MAX as IMAGE_RECORD_MAX};
pub use journal::{BATCH_BYTES_MAX, Journal, SEGMENT_BYTES};
pub use kept::{kept, kept_path, remove_kept};
pub use reader::{Cut, Reader, Tail};
pub use sealed::{BadBatch, Sealed};
