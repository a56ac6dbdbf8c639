//! Images, written in the background by a shadow.
//!
//! The shadow is a second copy of the name space that follows the journal on disk, as a standby will. When
//! an image is due it takes in what was committed meanwhile and is saved, both a little at a time, so
//! that requests and beats are answered in between. What is saved is thus what a restart would have
//! read. Where the state is small, its digest is compared with that of the state that serves.

use crate::server::Meta;
use crate::startup;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use weft_journal::{ImageWriter, JournalError, Reader, remove_images, remove_segments};
use weft_namespace::State;
use weft_types::{Epoch, Sn};

/// Images that are kept: should the newest turn out damaged, the one before it and the journal after
/// that hold the same.
const IMAGES_KEPT: usize = 2;
/// How often it is looked whether an image is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After a failure (a full disk, most likely) the next try waits this long.
const RETRY: Duration = Duration::from_secs(10);
/// The shadow works this long, then lets others work.
const SLICE: Duration = Duration::from_micros(300);
/// Between two slices at least as long is left to others.
const PAUSE: Duration = Duration::from_micros(600);
/// States of at most this many inodes are compared by their digests: taking one walks them all at
/// once.
const DIGEST_INODES_MAX: u64 = 10_000;

#[derive(Debug, Error)]
enum ImageError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the journal ends at batch {found}, but batch {wanted} was committed")]
    Short { found: Sn, wanted: Sn },
}

/// The copy that images are made of.
pub(crate) struct Shadow {
    state: State,
    /// The last batch that it has taken in, and its epoch.
    sn: Sn,
    epoch: Epoch,
}

impl Shadow {
    /// Begins as a copy of the state after batch `sn`.
    pub(crate) fn new(state: &State, sn: Sn, epoch: Epoch) -> Shadow {
        Shadow {
            state: state.clone(),
            sn,
            epoch,
        }
    }

    /// Takes in the journal up to batch `sn`, and makes that much of it durable.
    async fn follow(&mut self, meta: &Meta, sn: Sn) -> Result<(), ImageError> {
        let location = startup::location(&meta.settings);
        let mut reader = Reader::open(&meta.env, &location, self.sn).await?;
        let mut turn = Turn::begin(meta);
        while self.sn < sn {
            let Some(batch) = reader.next().await? else {
                return Err(ImageError::Short {
                    found: self.sn,
                    wanted: sn,
                });
            };
            for entry in &batch.entries {
                self.state.apply(entry);
                turn.pause(meta).await;
            }
            self.sn = Sn(batch.sn);
            self.epoch = Epoch(batch.epoch);
        }
        Ok(reader.sync().await?)
    }

    /// Writes the image. Answers the digest.
    async fn save(&self, meta: &Meta) -> Result<u128, ImageError> {
        let location = startup::location(&meta.settings);
        let mut writer = ImageWriter::create(&meta.env, &location, self.sn, self.epoch).await?;
        let mut records = self.state.records();
        let mut turn = Turn::begin(meta);
        while let Some(record) = records.next() {
            writer.add(record).await?;
            turn.pause(meta).await;
        }
        let digest = records.digest();
        writer.finish(&digest.to_le_bytes()).await?;
        Ok(digest)
    }
}

/// How long the shadow has worked without a pause.
struct Turn(weft_env::Mono);

impl Turn {
    fn begin(meta: &Meta) -> Turn {
        Turn(meta.env.now())
    }

    async fn pause(&mut self, meta: &Meta) {
        let worked = meta.env.now().since(self.0);
        if worked >= SLICE {
            meta.env.sleep(PAUSE.max(worked)).await;
            self.0 = meta.env.now();
        }
    }
}

/// Writes images when they are due, until the server stops.
pub(crate) async fn run(meta: Rc<Meta>, mut shadow: Shadow) {
    loop {
        meta.env.sleep(LOOK_EVERY).await;
        let (sn, entries, live_digest) = {
            let core = meta.core.borrow();
            let inodes = core.state.statistics().inodes;
            // Writing an image costs in proportion to the last one: half of that is changed first.
            let worth = shadow.state.statistics().inodes / 2;
            if core.entries_since_image < meta.settings.image_every_entries.max(worth) {
                continue;
            }
            let committed = core.commits.committed();
            let at_rest = core.commits.is_at_rest();
            let digest = (at_rest && inodes <= DIGEST_INODES_MAX).then(|| core.state.digest());
            (committed, core.entries_since_image, digest)
        };
        let begin = meta.env.now();
        let written = async {
            shadow.follow(&meta, sn).await?;
            let digest = shadow.save(&meta).await?;
            let kept = remove_images(&meta.env, &meta.settings.dir, IMAGES_KEPT)?;
            // The first image alone is no reason to throw away what it was made from.
            if kept.len() == IMAGES_KEPT {
                remove_segments(&meta.env, &meta.settings.dir, kept[0])?;
            }
            Ok::<u128, ImageError>(digest)
        };
        match written.await {
            Ok(digest) => {
                if live_digest.is_some_and(|live| live != digest) {
                    tracing::error!(%sn, "the state that serves is not what its journal says: keep \
                        the directory, restart the server and report this");
                }
                let core = &mut *meta.core.borrow_mut();
                core.entries_since_image -= entries;
                core.metrics.images.inc();
                tracing::info!(%sn, took = ?meta.env.now().since(begin), "image written");
            }
            Err(error) => {
                tracing::error!(%error, "writing an image failed; the journal grows meanwhile");
                meta.env.sleep(RETRY).await;
            }
        }
    }
}
