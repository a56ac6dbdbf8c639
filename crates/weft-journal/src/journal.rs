//! Appending.
//!
//! One write is under way at a time, of one batch or several; its caller gathers the next ones
//! meanwhile. Where a batch counts as written only when it is on the device, one flush serves all its
//! changes, and all batches of the write.

use crate::files::{HEADER_BYTES, Header, JOURNAL_MAGIC, journal_dir, make_dir, segment_path};
use crate::reader::{CHUNK_BYTES, Tail};
use crate::restart::{begin_anew, remove_notes};
use crate::{JournalError, Location, Sealed, SyncPolicy, record};
use bytes::Bytes;
use std::path::PathBuf;
use weft_env::{Env, File, OpenMode};
use weft_types::{Epoch, Sn};

/// A segment that has this many bytes is followed by a new one: small enough that what an image has
/// made superfluous goes soon, large enough that opening files costs nothing.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Longest batch, in bytes. Gathering stops far below; one entry (a name, an xattr of 64 KiB) fits.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// Zeros are written so far ahead of the batches, where each write is flushed: as long as a write lies within
/// the file, its flush has nothing to do for the file system's own journal, which costs twice as much time
/// as the write does, and waits for whatever else is flushed there.
const AHEAD_BYTES: u64 = 128 << 10;
static ZEROS: [u8; AHEAD_BYTES as usize] = [0; AHEAD_BYTES as usize];
/// First bytes of a batch that begins a write.
pub(crate) const BATCH_MAGIC: &[u8; 4] = b"WBAT";
/// First bytes of a batch that was written together with the one before it: if that one is torn, this
/// one was not waited for either. It differs from the other in its last byte only, so that a write
/// that turns the one into the other leaves one of them.
pub(crate) const MORE_MAGIC: &[u8; 4] = b"WBA+";

/// The journal of one metadata server, open for appending.
pub struct Journal {
    pub(crate) env: Env,
    pub(crate) location: Location,
    sync: SyncPolicy,
    file: File,
    path: PathBuf,
    /// Where the next batch goes in the segment.
    pub(crate) offset: u64,
    /// The segment has this many bytes; from `offset` on they are zeros.
    length: u64,
    pub(crate) next: Sn,
    /// Of the last batch; 0 where that is not known.
    epoch: Epoch,
    segment_bytes: u64,
    /// The next batch begins a segment: one that was to be begun may be there in part, or the last
    /// one was cut.
    pub(crate) roll_over: bool,
    /// There may be a note that the journal is to begin anew after an image of this sn.
    pub(crate) announced: Option<Sn>,
    /// The disk failed, or a change of several steps is under way or was not finished: what is on the
    /// disk is no longer known.
    pub(crate) broken: bool,
}

impl Journal {
    /// Opens for appending what was read to its end: cuts a torn tail and begins a new segment. If
    /// the journal was to begin anew after an image, it does so now.
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
        let (file, path) = if tail.anew {
            begin_anew(env, &location, tail.next).await?
        } else {
            // Of an image that never came.
            remove_notes(env, &location.dir, None)?;
            close_last(env, &tail).await?;
            begin_segment(env, &location, tail.next).await?
        };
        Ok(Journal {
            env: env.clone(),
            location,
            sync,
            file,
            path,
            offset: HEADER_BYTES as u64,
            length: HEADER_BYTES as u64,
            next: tail.next,
            epoch: tail.epoch,
            segment_bytes: SEGMENT_BYTES,
            roll_over: false,
            announced: None,
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

    /// Appends several batches, one after the other: written together and flushed once. Returns when
    /// they are as safe as the sync policy says; none is before that. `Always` also flushes once:
    /// batches that come here together are on their way together, and nobody is answered before.
    /// They are in one segment, which may grow beyond [`SEGMENT_BYTES`] by what one call brings; the
    /// caller bounds that, and it is in memory twice meanwhile.
    ///
    /// The first must have [`Journal::next_sn`], and epochs must not fall.
    ///
    /// # Errors
    /// [`JournalError::Full`]: none of them is in the journal; the same call may be made again, or
    /// another. [`JournalError::Io`]: unknown how many of them are; every later call fails too.
    /// [`JournalError::Refused`]: the image that a restart was announced for is there.
    pub async fn append(&mut self, batches: &[Sealed]) -> Result<(), JournalError> {
        let (mut next, mut epoch) = (self.next, self.epoch);
        for batch in batches {
            assert_eq!(batch.sn(), next, "batches are appended in order");
            assert!(batch.epoch() >= epoch, "epochs do not fall");
            (next, epoch) = (Sn(next.0 + 1), batch.epoch());
        }
        self.check_usable("appending")?;
        if batches.is_empty() {
            return Ok(());
        }
        let bytes = encoded(batches);
        let length = bytes.len() as u64;
        // Also if nobody waits for the end of this.
        self.broken = true;
        let written = self.write(bytes).await;
        match &written {
            Ok(()) => {
                self.offset += length;
                self.next = next;
                self.epoch = epoch;
            }
            Err(JournalError::Full { .. }) => self.take_back().await?,
            Err(JournalError::Refused { .. }) => {}
            Err(_) => return written,
        }
        self.broken = false;
        written
    }

    /// Fails if what is on the disk is no longer known.
    pub(crate) fn check_usable(&self, action: &'static str) -> Result<(), JournalError> {
        if self.broken {
            let why = std::io::Error::other("an earlier write failed");
            return Err(JournalError::io(&self.path, action, why));
        }
        Ok(())
    }

    /// The journal is in good order again: the next batch goes to this place.
    pub(crate) fn go_on(&mut self, file: File, path: PathBuf, offset: u64, next: Sn, epoch: Epoch) {
        self.file = file;
        self.path = path;
        self.offset = offset;
        self.length = offset;
        self.next = next;
        self.epoch = epoch;
        self.broken = false;
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), JournalError> {
        self.withdraw_restart().await?;
        let is_empty = self.offset == HEADER_BYTES as u64;
        let is_full = self.offset + bytes.len() as u64 > self.segment_bytes && !is_empty;
        if is_full || self.roll_over {
            // Should it fail, a part of the new segment is there: nothing goes before that.
            self.roll_over = true;
            self.next_segment().await?;
            self.roll_over = false;
        }
        self.put(bytes).await?;
        if self.sync != SyncPolicy::Never {
            // Never `Full`: what a failed flush has left is not known.
            self.flush("flushing batches").await?;
        }
        Ok(())
    }

    /// Writes at the end of the batches. Where that is beyond the file's end, zeros follow, if there is room.
    async fn put(&mut self, bytes: Bytes) -> Result<(), JournalError> {
        let end = self.offset + bytes.len() as u64;
        let length = self.length_for(end);
        // One part: heads are short, and one write is cheaper than gathering many.
        if length > end.max(self.length) {
            let zeros = Bytes::from_static(&ZEROS[..(length - end) as usize]);
            match self.write_parts(vec![bytes.clone(), zeros]).await {
                Ok(()) => {
                    self.length = length;
                    return Ok(());
                }
                Err(JournalError::Full { .. }) => self.cut_rest()?,
                Err(error) => return Err(error),
            }
        }
        self.write_parts(vec![bytes]).await?;
        self.length = self.length.max(end);
        Ok(())
    }

    /// How long the segment is to be when batches end here.
    fn length_for(&self, end: u64) -> u64 {
        match self.sync {
            // Nothing waits for a flush.
            SyncPolicy::Never => end,
            _ if end <= self.length => self.length,
            _ => (end + AHEAD_BYTES).min(self.segment_bytes.max(end)),
        }
    }

    async fn write_parts(&self, parts: Vec<Bytes>) -> Result<(), JournalError> {
        let written = self.file.write_at(self.offset, parts).await;
        written.map_err(|error| JournalError::io(&self.path, "writing batches", error))
    }

    /// Cuts the segment where its batches end. Not flushed.
    fn cut_rest(&mut self) -> Result<(), JournalError> {
        self.file
            .set_len(self.offset)
            .map_err(|error| JournalError::io(&self.path, "cutting what is no batch", error))
            .map_err(JournalError::half_done)?;
        self.length = self.offset;
        Ok(())
    }

    /// Takes a part of what did not fit away, for good: the next call may bring other batches, and
    /// nothing of these may turn up behind those.
    async fn take_back(&mut self) -> Result<(), JournalError> {
        self.cut_rest()?;
        self.flush("flushing").await
    }

    async fn flush(&self, action: &'static str) -> Result<(), JournalError> {
        self.file
            .sync_data()
            .await
            .map_err(|source| JournalError::Io {
                path: self.path.clone(),
                action,
                source,
            })
    }

    async fn next_segment(&mut self) -> Result<(), JournalError> {
        if self.length > self.offset {
            // Only for room's sake: zeros at its end are read as what they are.
            self.cut_rest()?;
        }
        let (file, path) = begin_segment(&self.env, &self.location, self.next).await?;
        let old = std::mem::replace(&mut self.file, file);
        let old_path = std::mem::replace(&mut self.path, path);
        self.offset = HEADER_BYTES as u64;
        self.length = self.offset;
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

/// Makes the last segment durable as it was read: only the last one may be torn, and there is to be a
/// later one.
///
/// The last write is written again. Its flush may have failed while the server ran: then it may be in memory
/// only, and a flush alone would not tell (the system takes what it could not write for written). Whatever
/// was written before it had been flushed, or it would not have begun.
async fn close_last(env: &Env, tail: &Tail) -> Result<(), JournalError> {
    let (path, length) = match (&tail.cut, &tail.last) {
        (Some(cut), _) if cut.offset == 0 => {
            return env
                .remove_file(&cut.path)
                .map_err(|error| JournalError::io(&cut.path, "removing it", error));
        }
        (Some(cut), _) => (&cut.path, Some(cut.offset)),
        (None, Some(last)) => (last, tail.end),
        (None, None) => return Ok(()),
    };
    let io = |action| move |error| JournalError::io(path, action, error);
    let file = env
        .open(path, OpenMode::Write)
        .await
        .map_err(io("opening"))?;
    if let Some(length) = length {
        file.set_len(length)
            .map_err(io("cutting what is no batch"))?;
    }
    if let Some(mut at) = tail.last_write {
        loop {
            let bytes = file.read_at(at, CHUNK_BYTES).await;
            let bytes = bytes.map_err(io("reading its last write"))?;
            if bytes.is_empty() {
                break;
            }
            let length = bytes.len() as u64;
            file.write_at(at, vec![bytes])
                .await
                .map_err(io("writing its last batches again"))?;
            at += length;
        }
    }
    file.sync_data().await.map_err(io("flushing"))
}

/// Batches as they are written: the first says that all before it was written earlier.
fn encoded(batches: &[Sealed]) -> Bytes {
    let contents: usize = batches.iter().map(|batch| batch.content().len()).sum();
    let mut bytes = Vec::with_capacity(contents + batches.len() * record::HEAD_BYTES);
    let mut magic = BATCH_MAGIC;
    for batch in batches {
        bytes.extend_from_slice(&record::head(magic, batch.content()));
        bytes.extend_from_slice(batch.content());
        magic = MORE_MAGIC;
    }
    bytes.into()
}

pub(crate) async fn begin_segment(
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
