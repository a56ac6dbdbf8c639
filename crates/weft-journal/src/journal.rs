//! Appending.
//!
//! One batch is written at a time; its caller gathers the next one meanwhile. Where a batch counts as
//! written only when it is on the device, one flush serves all its changes.

use crate::files::{Header, JOURNAL_MAGIC, journal_dir, make_dir, segment_path};
use crate::reader::Tail;
use crate::{JournalError, Location, SyncPolicy, record};
use bytes::Bytes;
use prost::Message;
use std::path::PathBuf;
use weft_env::{Env, File, OpenMode};
use weft_types::Sn;
use weft_wire::proto::Batch;

/// A segment that has this many bytes is followed by a new one: small enough that what an image has
/// made superfluous goes soon, large enough that opening files costs nothing.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Longest batch, in bytes. Gathering stops far below; one entry (a name, an xattr of 64 KiB) fits.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// First bytes of a batch.
pub(crate) const BATCH_MAGIC: &[u8; 4] = b"WBAT";

/// The journal of one metadata server, open for appending.
pub struct Journal {
    env: Env,
    location: Location,
    sync: SyncPolicy,
    file: File,
    path: PathBuf,
    /// Where the next batch goes in the segment.
    offset: u64,
    next: Sn,
    segment_bytes: u64,
    /// The disk failed: what is on it is no longer known.
    broken: bool,
}

impl Journal {
    /// Opens for appending what was read to its end: cuts a torn tail and begins a new segment.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn open(
        env: &Env,
        location: Location,
        sync: SyncPolicy,
        tail: Tail,
    ) -> Result<Journal, JournalError> {
        let dir = journal_dir(&location.dir);
        make_dir(env, &location.dir).await?;
        make_dir(env, &dir).await?;
        if let Some(cut) = &tail.cut {
            // On the device before there is a later segment: only the last one may be torn.
            let io = |action| move |error| JournalError::io(&cut.path, action, error);
            if cut.offset == 0 {
                env.remove_file(&cut.path).map_err(io("removing it"))?;
            } else {
                let file = env
                    .open(&cut.path, OpenMode::Write)
                    .await
                    .map_err(io("opening"))?;
                file.set_len(cut.offset)
                    .map_err(io("cutting its torn tail"))?;
                file.sync_data().await.map_err(io("flushing"))?;
            }
        } else if let Some(path) = &tail.last {
            let io = |action| move |error| JournalError::io(path, action, error);
            let file = env
                .open(path, OpenMode::Write)
                .await
                .map_err(io("opening"))?;
            file.sync_data().await.map_err(io("flushing"))?;
        }
        let (file, path) = begin_segment(env, &location, tail.next).await?;
        Ok(Journal {
            env: env.clone(),
            location,
            sync,
            file,
            path,
            offset: crate::files::HEADER_BYTES as u64,
            next: tail.next,
            segment_bytes: SEGMENT_BYTES,
            broken: false,
        })
    }

    /// The sn that the next batch must have.
    pub fn next_sn(&self) -> Sn {
        self.next
    }

    /// For tests: segments of another length than [`SEGMENT_BYTES`].
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    /// Appends a batch; returns when it is as safe as the sync policy says.
    ///
    /// # Errors
    /// [`JournalError::Full`]: it is not in the journal; the same batch may be appended again.
    /// [`JournalError::Io`]: unknown whether it is; every later append fails too.
    pub async fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        assert_eq!(batch.sn, self.next.0, "batches are appended in order");
        if self.broken {
            let why = std::io::Error::other("an earlier write failed");
            return Err(JournalError::io(&self.path, "appending", why));
        }
        let content = batch.encode_to_vec();
        assert!(
            content.len() <= BATCH_BYTES_MAX,
            "gathering stops below the longest batch"
        );
        let head = record::head(BATCH_MAGIC, &content);
        let length = (head.len() + content.len()) as u64;
        let empty = self.offset == crate::files::HEADER_BYTES as u64;
        let result = async {
            if self.offset + length > self.segment_bytes && !empty {
                self.next_segment().await?;
            }
            // One part: the head is short, and one write is cheaper than gathering two.
            let mut bytes = Vec::with_capacity(length as usize);
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(&content);
            self.file
                .write_at(self.offset, vec![Bytes::from(bytes)])
                .await
                .map_err(|error| JournalError::io(&self.path, "writing a batch", error))?;
            if self.sync != SyncPolicy::Never {
                self.file
                    .sync_data()
                    .await
                    .map_err(|source| JournalError::Io {
                        // Never `Full`: what a failed flush has left is not known.
                        path: self.path.clone(),
                        action: "flushing a batch",
                        source,
                    })?;
            }
            Ok(())
        }
        .await;
        match result {
            Ok(()) => {
                self.offset += length;
                self.next = Sn(self.next.0 + 1);
                Ok(())
            }
            Err(error) => {
                match &error {
                    JournalError::Full { .. } => {
                        // What was written of it would be cut as a torn tail, or is written over.
                        if let Err(error) = self.file.set_len(self.offset) {
                            tracing::warn!(path = %self.path.display(), %error,
                                "cannot cut the part of a batch that was written");
                        }
                    }
                    _ => self.broken = true,
                }
                Err(error)
            }
        }
    }

    async fn next_segment(&mut self) -> Result<(), JournalError> {
        let (file, path) = begin_segment(&self.env, &self.location, self.next).await?;
        let old = std::mem::replace(&mut self.file, file);
        let old_path = std::mem::replace(&mut self.path, path);
        self.offset = crate::files::HEADER_BYTES as u64;
        if self.sync == SyncPolicy::Never {
            // Batches are not flushed one by one, but what lies before a later segment should not
            // stay unwritten for longer than that takes.
            self.env.spawn("journal flush", async move {
                if let Err(error) = old.sync_data().await {
                    tracing::error!(path = %old_path.display(), %error,
                        "flushing a full journal segment failed");
                }
            });
        }
        Ok(())
    }
}

async fn begin_segment(
    env: &Env,
    location: &Location,
    first: Sn,
) -> Result<(File, PathBuf), JournalError> {
    let path = segment_path(&location.dir, first);
    let header = Header {
        sn: first,
        epoch: 0,
    }
    .encode(JOURNAL_MAGIC, location)?;
    let io = |action| {
        let path = path.clone();
        move |error| JournalError::io(&path, action, error)
    };
    let file = env
        .open(&path, OpenMode::CreateEmpty)
        .await
        .map_err(io("making a segment"))?;
    file.write_at(0, vec![header.into()])
        .await
        .map_err(io("writing its header"))?;
    file.sync_data().await.map_err(io("flushing its header"))?;
    env.sync_dir(&journal_dir(&location.dir))
        .await
        .map_err(io("flushing its name"))?;
    Ok((file, path))
}
