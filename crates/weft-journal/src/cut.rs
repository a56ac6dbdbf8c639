//! Discarding the end of the journal: what a former active wrote and no later one has.
//!
//! A crash must leave a beginning of the journal. Cutting a file is not one step: the device may
//! keep the old length and zeros in some of what was cut. So first every discarded batch but the
//! first is marked as written together with the one before (one byte each, which is old or new), and
//! that is flushed: from then on a bad batch among them is a torn tail. Then the file is cut. What is
//! appended next begins a segment.

use crate::files::segment_path;
use crate::journal::MORE_MAGIC;
use crate::reader::{KeptPart, kept_part};
use crate::restart::sync_names;
use crate::{Journal, JournalError, images, segments};
use bytes::Bytes;
use weft_types::Sn;

impl Journal {
    /// Discards all batches after `sn`; the next one to be appended is `sn + 1`, of any epoch that is
    /// not below that of what is left. Nothing happens if nothing follows `sn`.
    ///
    /// `sn` must not precede the newest image, for what is in an image is never discarded, nor the
    /// batch before the oldest segment.
    ///
    /// Later segments are removed, newest first, then the segment that holds `sn` is cut. A death
    /// at any moment leaves a beginning of the journal with everything up to `sn`. All of it is
    /// flushed, whatever the sync policy: nothing of what was discarded can come back behind what is
    /// appended next. A reader that was opened before must not be read past `sn`.
    ///
    /// # Errors
    /// [`JournalError::Refused`]: `sn` lies before what can be kept. [`JournalError::Corrupt`]: the
    /// segment is not as it was written. Nothing was changed in both cases.
    /// [`JournalError::Io`]: nothing more is appended by this process.
    pub async fn cut_after(&mut self, sn: Sn) -> Result<(), JournalError> {
        if sn.0.saturating_add(1) >= self.next.0 {
            return Ok(());
        }
        self.check_usable("discarding batches")?;
        let dir = self.location.dir.clone();
        let refused = |what| JournalError::Refused {
            path: dir.clone(),
            what,
        };
        if let Some(image) = images(&self.env, &dir)?.pop().filter(|image| *image > sn) {
            return Err(refused(format!(
                "batches after {sn} cannot be discarded: there is an image of batch {image}"
            )));
        }
        let all = segments(&self.env, &dir)?;
        let holds = |first: &&Sn| **first <= sn;
        // Where all batches go, the oldest segment stays: without any, a start would miss the journal.
        let kept = all.iter().rfind(holds).or(all.first()).copied();
        let Some(kept) = kept.filter(|first| first.0 <= sn.0 + 1) else {
            return Err(refused(format!(
                "batches after {sn} cannot be discarded: the journal does not reach back to it"
            )));
        };
        let part = kept_part(&self.env, &self.location, kept, sn).await?;
        let later = all.into_iter().filter(|first| *first > kept).collect();
        // Until all is done nothing can be appended.
        self.broken = true;
        self.discard(&part, later)
            .await
            .map_err(JournalError::half_done)?;
        let next = Sn(sn.0 + 1);
        self.go_on(part.file, part.path, part.end, next, part.epoch);
        // What was cut may be of an older version: nothing is added to it.
        self.roll_over = true;
        Ok(())
    }

    async fn discard(&self, part: &KeptPart, later: Vec<Sn>) -> Result<(), JournalError> {
        for first in later.into_iter().rev() {
            let path = segment_path(&self.location.dir, first);
            self.env
                .remove_file(&path)
                .map_err(|error| JournalError::io(&path, "removing it", error))?;
            // One by one: no file system has to keep the order of removals.
            sync_names(&self.env, &self.location.dir).await?;
        }
        let io = |action| move |error| JournalError::io(&part.path, action, error);
        for begin in &part.discarded_begins {
            let last = MORE_MAGIC.len() - 1;
            part.file
                .write_at(
                    begin + last as u64,
                    vec![Bytes::from_static(&MORE_MAGIC[last..])],
                )
                .await
                .map_err(io("marking what is discarded"))?;
        }
        let file = &part.file;
        file.sync_data().await.map_err(io("flushing"))?;
        file.set_len(part.end).map_err(io("cutting it"))?;
        file.sync_data().await.map_err(io("flushing"))
    }
}
