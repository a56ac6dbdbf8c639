//! Beginning anew after the image of another member, which the journal does not lead to.
//!
//! Files cannot be exchanged all at once, so a note says what is to become of them: an empty file
//! `journal/SN.restart`. It is *in force* while the image of that sn is there, and then the journal
//! holds nothing, whatever segments there are. Without that image it means nothing. The life of a
//! restart, each step durable before the next one:
//!
//! 1. the note is written ([`Journal::announce_restart`]);
//! 2. the image gets its name: from now on a start loads it, and finds the note in force;
//! 3. all segments are removed, newest first ([`Journal::restart_after`], or the next start);
//! 4. a segment is begun that will hold what follows the image;
//! 5. the note is removed, and only then is anything appended.
//!
//! So a journal that ends before the newest image and has no note beside it has lost something, and
//! is refused as before.

use crate::files::{HEADER_BYTES, journal_dir, listed, number, segment_path};
use crate::journal::begin_segment;
use crate::{ImageReader, Journal, JournalError, Location, images, segments};
use std::path::{Path, PathBuf};
use weft_env::{Env, File, OpenMode};
use weft_types::Sn;

/// Ends the name of a note.
const NOTE: &str = ".restart";

fn note_path(dir: &Path, sn: Sn) -> PathBuf {
    journal_dir(dir).join(format!("{:020}{NOTE}", sn.0))
}

/// The sn of each note, ascending.
fn notes(env: &Env, dir: &Path) -> Result<Vec<Sn>, JournalError> {
    let mut found: Vec<Sn> = listed(env, &journal_dir(dir))?
        .iter()
        .filter_map(|name| number(name.strip_suffix(NOTE)?))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// The sn of the image after which the journal is to begin anew.
pub(crate) fn in_force(env: &Env, dir: &Path) -> Result<Option<Sn>, JournalError> {
    let notes = notes(env, dir)?;
    if notes.is_empty() {
        return Ok(None);
    }
    let images = images(env, dir)?;
    Ok(notes.into_iter().rfind(|sn| images.contains(sn)))
}

/// Removes all notes but one; to be made durable by the caller.
pub(crate) fn remove_notes(env: &Env, dir: &Path, but: Option<Sn>) -> Result<(), JournalError> {
    for sn in notes(env, dir)? {
        if Some(sn) != but {
            let path = note_path(dir, sn);
            env.remove_file(&path)
                .map_err(|error| JournalError::io(&path, "removing it", error))?;
        }
    }
    Ok(())
}

pub(crate) async fn sync_names(env: &Env, dir: &Path) -> Result<(), JournalError> {
    let dir = journal_dir(dir);
    env.sync_dir(&dir)
        .await
        .map_err(|error| JournalError::io(&dir, "flushing it", error))
}

async fn write_note(env: &Env, dir: &Path, sn: Sn) -> Result<(), JournalError> {
    let path = note_path(dir, sn);
    env.open(&path, OpenMode::Create)
        .await
        .map_err(|error| JournalError::io(&path, "making it", error))?;
    remove_notes(env, dir, Some(sn))?;
    sync_names(env, dir).await
}

/// Steps 3 to 5. The note is on the device.
pub(crate) async fn begin_anew(
    env: &Env,
    location: &Location,
    first: Sn,
) -> Result<(File, PathBuf), JournalError> {
    for old in segments(env, &location.dir)?.into_iter().rev() {
        let path = segment_path(&location.dir, old);
        env.remove_file(&path)
            .map_err(|error| JournalError::io(&path, "removing it", error))?;
    }
    sync_names(env, &location.dir).await?;
    let begun = begin_segment(env, location, first).await?;
    remove_notes(env, &location.dir, None)?;
    sync_names(env, &location.dir).await?;
    Ok(begun)
}

impl Journal {
    /// Says that an image of `sn` is about to get its name and will replace the journal: from then on
    /// a start that finds this image begins the journal anew after it. Without such a note a death
    /// between the image's name and [`Journal::restart_after`] leaves an image to which the journal
    /// does not lead, which a start takes for damage where it can tell. Appending takes
    /// the note back, and so does a start that does not find the image.
    ///
    /// # Errors
    /// [`JournalError::Refused`]: there is a newer image, to which a journal after this one would not lead. If the disk
    /// refuses: the note may be there or not. The journal goes on in either case.
    pub async fn announce_restart(&mut self, sn: Sn) -> Result<(), JournalError> {
        self.check_usable("announcing a restart")?;
        let newest = images(&self.env, &self.location.dir)?.pop();
        if let Some(newest) = newest.filter(|newest| *newest > sn) {
            return Err(JournalError::Refused {
                path: self.location.dir.clone(),
                what: format!("the newest image is of batch {newest}, not {sn}"),
            });
        }
        self.announced = Some(sn);
        write_note(&self.env, &self.location.dir, sn).await
    }

    /// Takes the note back, before anything is appended that it would have thrown away.
    pub(crate) async fn withdraw_restart(&mut self) -> Result<(), JournalError> {
        let Some(sn) = self.announced else {
            return Ok(());
        };
        if in_force(&self.env, &self.location.dir)?.is_some() {
            return Err(JournalError::Refused {
                path: journal_dir(&self.location.dir),
                what: format!("it is to begin anew after the image of batch {sn}"),
            });
        }
        remove_notes(&self.env, &self.location.dir, None)?;
        sync_names(&self.env, &self.location.dir).await?;
        self.announced = None;
        Ok(())
    }

    /// Begins the journal anew after batch `sn` of an image: all segments are removed, newest first,
    /// and the next batch is `sn + 1`. The image must be there, durable, and the newest one. Readers
    /// that were opened before must not be used any more.
    ///
    /// A death at any moment leaves the old journal whole (as long as nothing has been written; see
    /// [`Journal::announce_restart`] for what that means beside the new image), or a note, by which
    /// [`crate::Reader::open`] knows that nothing follows the image, and which [`Journal::open`]
    /// carries out.
    ///
    /// # Errors
    /// [`JournalError::Refused`]: the newest image is another one; its header's errors: it is no
    /// image of this group. Nothing was changed. [`JournalError::Io`]: nothing more is appended by
    /// this process; the next start carries it out.
    pub async fn restart_after(&mut self, sn: Sn) -> Result<(), JournalError> {
        self.check_usable("beginning anew")?;
        let dir = self.location.dir.clone();
        let newest = images(&self.env, &dir)?.pop();
        if newest != Some(sn) {
            let what = match newest {
                Some(newest) => format!("the newest image is of batch {newest}, not {sn}"),
                None => format!("there is no image of batch {sn} to begin after"),
            };
            return Err(JournalError::Refused { path: dir, what });
        }
        let epoch = ImageReader::open(&self.env, &self.location, sn)
            .await?
            .epoch();
        // Until all is done, nothing can be appended that a start would throw away.
        self.broken = true;
        let next = Sn(sn.0 + 1);
        let begun = async {
            write_note(&self.env, &dir, sn).await?;
            begin_anew(&self.env, &self.location, next).await
        };
        let (file, path) = begun.await.map_err(JournalError::half_done)?;
        self.go_on(file, path, HEADER_BYTES as u64, next, epoch);
        self.roll_over = false;
        self.announced = None;
        Ok(())
    }
}
