//! What a server finds when it starts: the newest good image, the journal after it.

use crate::{MetaError, Settings};
use std::path::PathBuf;
use weft_env::Env;
use weft_group::Shape;
use weft_journal::{
    ImageReader, Journal, JournalError, Location, Reader, SyncPolicy, Tail, images,
};
use weft_namespace::{Loader, State};
use weft_types::{Epoch, GroupId, Sn};
use weft_wire::proto::Batch;

/// What a directory holds.
pub(crate) struct Found {
    /// With all that the journal holds.
    pub state: State,
    /// As the image says, which is all that is known to be committed.
    pub imaged: State,
    /// Which batches the journal holds after the image.
    pub shape: Shape,
    /// Time of the last entry, in nanoseconds since 1970.
    pub last_time: i128,
    /// Entries since the image that was loaded.
    pub entries_since_image: u64,
    /// Where the journal goes on.
    pub tail: Tail,
}

pub(crate) fn location(settings: &Settings) -> Location {
    Location {
        dir: settings.dir.clone(),
        cluster_id: settings.cluster_id.clone(),
        group: GroupId(settings.group),
    }
}

/// Time of an entry, in nanoseconds since 1970.
fn nanos(entry: &weft_wire::proto::Entry) -> i128 {
    entry.time.as_ref().map_or(0, |time| {
        i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
    })
}

/// Applies a batch of the journal; answers the time of its last entry.
pub(crate) fn replay(state: &mut State, batch: &Batch) -> i128 {
    for entry in &batch.entries {
        state.apply(entry);
    }
    batch.entries.iter().map(nanos).max().unwrap_or_default()
}

/// Opens the journal for appending: from here on the directory is written to.
pub(crate) async fn open(env: &Env, settings: &Settings, tail: Tail) -> Result<Journal, MetaError> {
    let journal = Journal::open(env, location(settings), settings.journal.sync, tail);
    Ok(journal.await?)
}

/// Loads image and journal. Changes nothing there.
pub(crate) async fn load(env: &Env, settings: &Settings) -> Result<Found, MetaError> {
    let location = location(settings);
    let (imaged, sn, image_epoch) = newest_image(env, &location).await?;
    let mut state = imaged.clone();
    let mut reader = Reader::open(env, &location, sn).await?;
    let mut shape = Shape::after(image_epoch, sn);
    let (mut last_time, mut entries) = (0, 0);
    while let Some(batch) = reader.next().await? {
        if Epoch(batch.epoch) < shape.rank().0 {
            return Err(MetaError::Corrupt(format!(
                "batch {} of the journal in {} is of epoch {}, but the image of batch {sn} is of epoch {}: \
                 one of them is not this server's",
                batch.sn,
                settings.dir.display(),
                batch.epoch,
                shape.rank().0
            )));
        }
        last_time = last_time.max(replay(&mut state, &batch));
        entries += batch.entries.len() as u64;
        shape.extend(Epoch(batch.epoch), Sn(batch.sn));
    }
    let tail = reader.finish()?;
    tracing::info!(image = %sn, entries, next = %tail.next, "journal read");
    Ok(Found {
        state,
        imaged,
        shape,
        last_time,
        entries_since_image: entries,
        tail,
    })
}

/// The last batch and the digest of the state that image and journal of a server that does not run
/// hold. Changes nothing there.
///
/// # Errors
/// If they cannot be read.
pub async fn on_disk(env: &Env, settings: &Settings) -> Result<(Sn, u128), MetaError> {
    let location = location(settings);
    let (mut state, mut sn, _) = newest_image(env, &location).await?;
    let mut reader = Reader::open(env, &location, sn).await?;
    while let Some(batch) = reader.next().await? {
        replay(&mut state, &batch);
        sn = Sn(batch.sn);
    }
    Ok((sn, state.digest()))
}

/// The newest image that is good, and its sn; an empty name space at sn 0 if there is none.
async fn newest_image(env: &Env, location: &Location) -> Result<(State, Sn, Epoch), MetaError> {
    let all = images(env, &location.dir)?;
    for sn in all.iter().rev() {
        match read_image(env, location, *sn).await {
            Ok((state, epoch)) => return Ok((state, *sn, epoch)),
            Err(error @ JournalError::Corrupt { .. }) => {
                // An older one and the journal after it hold the same.
                tracing::error!(%error, "an image is damaged; taking an older one");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((State::new(), Sn(0), Epoch(0)))
}

/// Reads one image.
pub(crate) async fn read_image(
    env: &Env,
    location: &Location,
    sn: Sn,
) -> Result<(State, Epoch), JournalError> {
    let mut reader = ImageReader::open(env, location, sn).await?;
    let mut loader = Loader::new();
    while let Some(record) = reader.next().await? {
        loader
            .push(&record)
            .map_err(|error| reader.damaged(error.to_string()))?;
    }
    let state = loader
        .finish()
        .map_err(|error| reader.damaged(error.to_string()))?;
    Ok((state, reader.epoch()))
}

/// Holds the time since which the machine has run, as of when the journal was whole; made when it first was.
fn intact_path(settings: &Settings) -> PathBuf {
    settings.dir.join("intact")
}

async fn noted(env: &Env, settings: &Settings) -> Result<Option<Vec<u8>>, MetaError> {
    let path = intact_path(settings);
    env.read_file(&path).await.map_err(|source| MetaError::Io {
        what: format!("reading {}", path.display()),
        source,
    })
}

/// Whether the journal has ever been whole in this directory.
pub(crate) async fn has_been_intact(env: &Env, settings: &Settings) -> Result<bool, MetaError> {
    Ok(noted(env, settings).await?.is_some())
}

/// Whether the disk has all of the journal that this member has ever told others that it had. False where
/// the directory is new, or where the machine was started again since and the journal is not flushed.
pub(crate) async fn is_intact(env: &Env, settings: &Settings) -> Result<bool, MetaError> {
    let Some(found) = noted(env, settings).await? else {
        return Ok(false);
    };
    let boot = env.boot();
    let is_same = boot != 0 && found == boot.to_le_bytes();
    Ok(settings.journal.sync != SyncPolicy::Never || is_same)
}

/// Notes that the journal is whole.
pub(crate) async fn note_intact(env: &Env, settings: &Settings) -> std::io::Result<()> {
    let boot = env.boot().to_le_bytes().to_vec();
    env.replace_file(&intact_path(settings), boot).await
}
