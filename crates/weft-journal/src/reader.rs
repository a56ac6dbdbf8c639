//! Reading back, in order, with every checksum and serial number verified.

use crate::files::{
    HEADER_BYTES, Header, JOURNAL_MAGIC, NoHeader, journal_dir, segment_path, segments,
};
use crate::journal::{BATCH_BYTES_MAX, BATCH_MAGIC, MORE_MAGIC};
use crate::{JournalError, Location, Sealed, record, restart};
use bytes::{Buf, Bytes, BytesMut};
use std::path::{Path, PathBuf};
use weft_env::{Env, File, OpenMode};
use weft_types::{Epoch, Sn};
use weft_wire::proto::Batch;

/// Asked from a segment at a time.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Where reading ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The sn that comes next.
    pub next: Sn,
    /// Epoch of the last batch, 0 if there is none.
    pub epoch: Epoch,
    /// The last segment, if there is any.
    pub last: Option<PathBuf>,
    /// Where the last write in it that has a whole batch begins, if there is one.
    pub(crate) last_write: Option<u64>,
    /// Where its batches end, if nothing but zeros follows.
    pub(crate) end: Option<u64>,
    /// What a crash left unfinished at the end of it.
    pub cut: Option<Cut>,
    /// The journal is to begin anew after an image: whatever segments there are hold nothing.
    pub anew: bool,
}

/// A torn tail: from `offset` on the segment holds no batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub(crate) path: PathBuf,
    /// 0: not even the header is whole.
    pub(crate) offset: u64,
}

struct Segment {
    file: File,
    path: PathBuf,
    /// What was read and not yet taken.
    buffer: BytesMut,
    /// Where `buffer` begins in the file.
    offset: u64,
}

/// Reads the batches after an sn.
pub struct Reader {
    env: Env,
    location: Location,
    /// Batches up to here are verified but not returned.
    after: Sn,
    segment: Option<Segment>,
    tail: Tail,
}

impl Reader {
    /// Begins after batch `after` (of the image that was loaded; 0 for all).
    ///
    /// If the journal was to begin anew after that image ([`crate::Journal::restart_after`]) it is empty,
    /// whatever segments there are; [`crate::Journal::open`] removes them.
    ///
    /// # Errors
    /// If the batch after it is not there although there are others, if the journal was to begin anew
    /// after another image, or files cannot be read.
    pub async fn open(env: &Env, location: &Location, after: Sn) -> Result<Reader, JournalError> {
        if let Some(image) = restart::in_force(env, &location.dir)? {
            return Reader::of_nothing(env, location, after, image);
        }
        let all = segments(env, &location.dir)?;
        let first = all
            .iter()
            .rev()
            .find(|first| first.0 <= after.0 + 1)
            .copied();
        let mut reader = Reader {
            env: env.clone(),
            location: location.clone(),
            after,
            segment: None,
            tail: Tail {
                next: Sn(after.0 + 1),
                ..Tail::default()
            },
        };
        match (first, all.first()) {
            (Some(first), _) => {
                reader.tail.next = first;
                reader.begin(first).await?;
            }
            (None, Some(oldest)) => {
                return Err(gap(
                    &segment_path(&location.dir, *oldest),
                    0,
                    after.0 + 1,
                    oldest.0,
                ));
            }
            (None, None) if after.0 > 0 => {
                return Err(JournalError::Corrupt {
                    path: journal_dir(&location.dir),
                    offset: 0,
                    what: format!("there is an image of sn {after} but no journal"),
                    advice: "Put the journal back".into(),
                });
            }
            (None, None) => {}
        }
        Ok(reader)
    }

    /// The journal is to begin anew after `image`.
    fn of_nothing(
        env: &Env,
        location: &Location,
        after: Sn,
        image: Sn,
    ) -> Result<Reader, JournalError> {
        if after != image {
            return Err(JournalError::Corrupt {
                path: journal_dir(&location.dir),
                offset: 0,
                what: format!(
                    "the journal is to begin anew after the image of batch {image}, but it is read \
                     from batch {after} on"
                ),
                advice: "Put a good copy of that image in its place, or take everything away and \
                         have it fetched from another member"
                    .into(),
            });
        }
        let tail = Tail {
            next: Sn(after.0 + 1),
            anew: true,
            ..Tail::default()
        };
        Ok(Reader {
            env: env.clone(),
            location: location.clone(),
            after,
            segment: None,
            tail,
        })
    }

    /// The next batch; None at the end.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] for anything that is neither a good batch in its place nor a torn
    /// end of the last segment.
    pub async fn next(&mut self) -> Result<Option<Batch>, JournalError> {
        Ok(self.next_sealed().await?.map(|(_, batch)| batch))
    }

    /// As [`Reader::next`], with the batch as it stands there. Its content shares memory with what
    /// was read around it: at least 256 KiB stay as long as one of them does.
    ///
    /// # Errors
    /// As those of [`Reader::next`].
    pub async fn next_sealed(&mut self) -> Result<Option<(Sealed, Batch)>, JournalError> {
        loop {
            let Some(segment) = &mut self.segment else {
                return Ok(None);
            };
            if segment.is_at_end().await? {
                self.tail.end = Some(segment.offset);
                // A clean end, unless there is a later segment.
                let later = segments(&self.env, &self.location.dir)?
                    .into_iter()
                    .find(|first| *first >= self.tail.next);
                match later {
                    Some(first) if first == self.tail.next && !self.is_in(first) => {
                        self.begin(first).await?;
                        continue;
                    }
                    Some(first) if !self.is_in(first) => {
                        let path = segment_path(&self.location.dir, first);
                        return Err(gap(&path, 0, self.tail.next.0, first.0));
                    }
                    _ => return Ok(None),
                }
            }
            let offset = segment.offset;
            let Some((sealed, batch, begins_write)) = segment.take_batch().await? else {
                return self.bad_batch().await;
            };
            let path = &segment.path;
            if batch.sn != self.tail.next.0 {
                return Err(gap(path, offset, self.tail.next.0, batch.sn));
            }
            if batch.epoch < self.tail.epoch.0 {
                return Err(JournalError::Corrupt {
                    path: path.clone(),
                    offset,
                    what: format!(
                        "batch {} is of epoch {}, after one of epoch {}",
                        batch.sn, batch.epoch, self.tail.epoch
                    ),
                    advice: "Two servers have written here: keep the directory and find out".into(),
                });
            }
            if begins_write {
                self.tail.last_write = Some(offset);
            }
            self.tail.next = Sn(batch.sn + 1);
            self.tail.epoch = Epoch(batch.epoch);
            if batch.sn > self.after.0 {
                return Ok(Some((sealed, batch)));
            }
        }
    }

    /// Where reading ended, after [`Reader::next`] has returned None.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] if that is before the batch after which reading was to begin.
    pub fn finish(self) -> Result<Tail, JournalError> {
        if self.tail.next.0 <= self.after.0 {
            return Err(JournalError::Corrupt {
                path: journal_dir(&self.location.dir),
                offset: 0,
                what: format!(
                    "the journal ends before batch {}, but there is an image of batch {}",
                    self.tail.next, self.after
                ),
                advice: "Put the missing segments back".into(),
            });
        }
        Ok(self.tail)
    }

    /// Makes all segments that hold batches after the beginning durable: an image must not survive
    /// a power cut that takes the journal before it.
    ///
    /// # Errors
    /// If flushing fails.
    pub async fn sync(&self) -> Result<(), JournalError> {
        let all = segments(&self.env, &self.location.dir)?;
        let begin = all
            .iter()
            .rposition(|first| first.0 <= self.after.0 + 1)
            .unwrap_or(0);
        for first in &all[begin..] {
            if *first >= self.tail.next {
                break;
            }
            let path = segment_path(&self.location.dir, *first);
            let io = |action| {
                let path = path.clone();
                move |error| JournalError::io(&path, action, error)
            };
            let file = self
                .env
                .open(&path, OpenMode::Write)
                .await
                .map_err(io("opening"))?;
            file.sync_data().await.map_err(io("flushing"))?;
        }
        Ok(())
    }

    fn is_in(&self, first: Sn) -> bool {
        let path = segment_path(&self.location.dir, first);
        self.segment
            .as_ref()
            .is_some_and(|segment| segment.path == path)
    }

    async fn begin(&mut self, first: Sn) -> Result<(), JournalError> {
        let path = segment_path(&self.location.dir, first);
        let mut segment = Segment::open(&self.env, path.clone(), OpenMode::Read).await?;
        self.tail.last = Some(path.clone());
        self.tail.last_write = None;
        self.tail.end = None;
        match Header::decode(&segment.buffer, JOURNAL_MAGIC, &self.location) {
            Ok(header) if header.sn == first => {
                segment.take(HEADER_BYTES);
                self.segment = Some(segment);
                Ok(())
            }
            Ok(header) => Err(gap(&path, 0, first.0, header.sn.0)),
            Err(NoHeader::Damaged(what)) => {
                // A crash while the segment was begun: it holds nothing, and is the last.
                segment.fill(HEADER_BYTES + 1).await?;
                let last = segments(&self.env, &self.location.dir)?.last() == Some(&first);
                if last && segment.buffer.len() <= HEADER_BYTES {
                    tracing::info!(path = %path.display(),
                        "removing a journal segment that was never begun");
                    self.tail.cut = Some(Cut { path, offset: 0 });
                    self.segment = None;
                    return Ok(());
                }
                Err(NoHeader::Damaged(what).at(&path))
            }
            Err(foreign) => Err(foreign.at(&path)),
        }
    }

    /// Decides what bytes that are no batch are: the torn tail of the last segment, or damage.
    ///
    /// A good batch after it that begins a write tells damage: that write was only begun when the bad
    /// one was whole. Batches of the same write may have reached the device in any order.
    async fn bad_batch<T>(&mut self) -> Result<Option<T>, JournalError> {
        let next = self.tail.next;
        let Some(mut segment) = self.segment.take() else {
            return Ok(None);
        };
        let path = segment.path.clone();
        let all = segments(&self.env, &self.location.dir)?;
        let is_last = all
            .last()
            .is_none_or(|last| segment_path(&self.location.dir, *last) == path);
        segment.fill_all().await?;
        let rest = segment.buffer.split_off(1).freeze();
        if !is_last || record::any_good(&rest, BATCH_MAGIC, BATCH_BYTES_MAX) {
            return Err(damaged(&path, segment.offset, next));
        }
        tracing::warn!(path = %path.display(), offset = segment.offset, bytes = rest.len() + 1,
            sn = %next, "cutting the torn tail of the journal");
        self.tail.cut = Some(Cut {
            path,
            offset: segment.offset,
        });
        Ok(None)
    }
}

fn damaged(path: &Path, offset: u64, sn: Sn) -> JournalError {
    JournalError::Corrupt {
        path: path.to_owned(),
        offset,
        what: format!("batch {sn} is not as it was written, and there are later ones"),
        advice: format!(
            "Put a good copy of the file in its place. Only if there is none: cut it here \
             (truncate -s {offset}) and move later segments away; every change from batch {sn} \
             on is then lost"
        ),
    }
}

/// What of a segment stays when all after a batch is discarded.
pub(crate) struct KeptPart {
    /// The segment, open for writing.
    pub file: File,
    pub path: PathBuf,
    /// Where the batches that stay end.
    pub end: u64,
    /// Of the last of them; 0 if there is none.
    pub epoch: Epoch,
    /// Where those of the others begin that also begin a write; not the first of all. What one
    /// segment can hold bounds them.
    pub discarded_begins: Vec<u64>,
}

/// Finds the end of batch `sn` in the segment that begins with batch `first`.
///
/// # Errors
/// If the segment is not as it was written, or does not reach `sn`.
pub(crate) async fn kept_part(
    env: &Env,
    location: &Location,
    first: Sn,
    sn: Sn,
) -> Result<KeptPart, JournalError> {
    let path = segment_path(&location.dir, first);
    let mut segment = Segment::open(env, path, OpenMode::Write).await?;
    let header = Header::decode(&segment.buffer, JOURNAL_MAGIC, location)
        .map_err(|error| error.at(&segment.path))?;
    if header.sn != first {
        return Err(gap(&segment.path, 0, first.0, header.sn.0));
    }
    segment.take(HEADER_BYTES);
    let (mut next, mut end, mut epoch) = (first, segment.offset, Epoch(0));
    let mut discarded_begins = Vec::new();
    loop {
        let offset = segment.offset;
        if segment.is_at_end().await? {
            break;
        }
        let Some((sealed, _, begins_write)) = segment.take_batch().await? else {
            return Err(damaged(&segment.path, offset, next));
        };
        if sealed.sn() != next {
            return Err(gap(&segment.path, offset, next.0, sealed.sn().0));
        }
        if next <= sn {
            (end, epoch) = (segment.offset, sealed.epoch());
        } else if begins_write && offset > end {
            discarded_begins.push(offset);
        }
        next = Sn(next.0 + 1);
    }
    if next <= sn {
        return Err(gap(&segment.path, segment.offset, sn.0, next.0));
    }
    Ok(KeptPart {
        file: segment.file,
        path: segment.path,
        end,
        epoch,
        discarded_begins,
    })
}

fn gap(path: &Path, offset: u64, expected: u64, found: u64) -> JournalError {
    JournalError::Corrupt {
        path: path.to_owned(),
        offset,
        what: format!("here should be batch {expected}, but here is batch {found}"),
        advice: "A segment is missing or was changed: put it back".into(),
    }
}

fn all_zeros<'a>(mut bytes: impl Iterator<Item = &'a u8>) -> bool {
    bytes.all(|byte| *byte == 0)
}

impl Segment {
    /// Opens it and reads its first bytes, as many as the header has if there are so many.
    async fn open(env: &Env, path: PathBuf, mode: OpenMode) -> Result<Segment, JournalError> {
        let file = env
            .open(&path, mode)
            .await
            .map_err(|error| JournalError::io(&path, "opening", error))?;
        let mut segment = Segment {
            file,
            path,
            buffer: BytesMut::new(),
            offset: 0,
        };
        segment.fill(HEADER_BYTES).await?;
        Ok(segment)
    }

    /// Nothing follows, or zeros up to the file's end, which batches may still be written over.
    async fn is_at_end(&mut self) -> Result<bool, JournalError> {
        self.fill(record::HEAD_BYTES).await?;
        let head = self.buffer.iter().take(record::HEAD_BYTES);
        if !all_zeros(head) {
            return Ok(false);
        }
        // They may have been written over since they were read.
        self.buffer.clear();
        let mut at = self.offset;
        loop {
            let chunk = self.read(at, CHUNK_BYTES).await?;
            if chunk.is_empty() || !all_zeros(chunk.iter()) {
                return Ok(chunk.is_empty());
            }
            at += chunk.len() as u64;
        }
    }

    /// The batch that begins here, and whether it begins a write; None if no whole one does, and then
    /// nothing is taken.
    async fn take_batch(&mut self) -> Result<Option<(Sealed, Batch, bool)>, JournalError> {
        if let Some(found) = self.take_buffered().await? {
            return Ok(Some(found));
        }
        // A part of it may have been written since the buffer was read.
        self.buffer.clear();
        self.take_buffered().await
    }

    async fn take_buffered(&mut self) -> Result<Option<(Sealed, Batch, bool)>, JournalError> {
        self.fill(record::HEAD_BYTES).await?;
        let begins_write = self.buffer.get(..4) != Some(MORE_MAGIC);
        let magic = if begins_write {
            BATCH_MAGIC
        } else {
            MORE_MAGIC
        };
        let Some(length) = record::length(&self.buffer, magic, BATCH_BYTES_MAX) else {
            return Ok(None);
        };
        self.fill(record::HEAD_BYTES + length).await?;
        if !record::is_good(&self.buffer, magic, BATCH_BYTES_MAX) {
            return Ok(None);
        }
        let offset = self.offset;
        self.take(record::HEAD_BYTES);
        let content = self.take(length);
        let (sealed, batch) = Sealed::read(content).map_err(|error| JournalError::Corrupt {
            path: self.path.clone(),
            offset,
            what: format!("a batch with a good checksum is none ({error})"),
            advice: "It was written by another version: run that".into(),
        })?;
        Ok(Some((sealed, batch, begins_write)))
    }

    /// Reads on until the buffer holds `bytes` or the file ends.
    async fn fill(&mut self, bytes: usize) -> Result<(), JournalError> {
        while self.buffer.len() < bytes {
            let at = self.offset + self.buffer.len() as u64;
            let wanted = CHUNK_BYTES.max(bytes - self.buffer.len());
            let chunk = self.read(at, wanted).await?;
            // A live journal grows: only nothing at all is its end.
            if chunk.is_empty() {
                return Ok(());
            }
            self.buffer.extend_from_slice(&chunk);
        }
        Ok(())
    }

    async fn fill_all(&mut self) -> Result<(), JournalError> {
        loop {
            let before = self.buffer.len();
            self.fill(before + CHUNK_BYTES).await?;
            if self.buffer.len() == before {
                return Ok(());
            }
        }
    }

    async fn read(&self, at: u64, bytes: usize) -> Result<Bytes, JournalError> {
        self.file
            .read_at(at, bytes)
            .await
            .map_err(|error| JournalError::io(&self.path, "reading", error))
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        self.offset += bytes as u64;
        let mut taken = self.buffer.split_to(bytes);
        taken.copy_to_bytes(bytes)
    }
}
