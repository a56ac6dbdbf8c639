//! Images, written in the background by a shadow.
//!
//! The shadow is a second copy of the name space that follows the journal on disk, but only as far as it
//! is committed. When an image is due it takes in what was committed meanwhile and is saved, both a little
//! at a time, so that requests and beats are answered in between. What is saved is thus what a restart would
//! have read. Where the state is small, its digest is compared with that of the member's other copy.

use crate::checkpoints;
use crate::group::Member;
use crate::startup;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use weft_env::{Env, Mono};
use weft_journal::{ImageWriter, JournalError, Reader, remove_images, remove_segments, segments};
use weft_namespace::State;
use weft_types::{Epoch, Sn};

/// Images that are kept: should the newest turn out damaged, the one before it and the journal after
/// that hold the same.
const IMAGES_KEPT: usize = 2;
/// How often it is looked whether an image is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same while somebody waits for the image of a cut.
const LOOK_AT_CUT: Duration = Duration::from_millis(20);
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
    /// The last cut that its state has, of which the image is kept.
    cut: u64,
}

impl Shadow {
    /// Begins with the state after batch `sn`.
    pub(crate) fn new(state: State, sn: Sn, epoch: Epoch) -> Shadow {
        let cut = state.last_cut();
        Shadow {
            state,
            sn,
            epoch,
            cut,
        }
    }

    pub(crate) fn sn(&self) -> Sn {
        self.sn
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last cut that it has come by.
    pub(crate) fn last_cut(&self) -> u64 {
        self.cut
    }

    /// Keeps the image of a cut that the last batch ended with.
    async fn keep_cut(&mut self, member: &Member) -> Result<(), JournalError> {
        let last = self.state.last_cut();
        if last > self.cut && self.state.has_cut(last) {
            checkpoints::keep(member, self, last).await?;
        }
        self.cut = last;
        member.kept.pass(last);
        Ok(())
    }

    /// Takes in the journal up to batch `sn`, and makes that much of it durable.
    async fn follow(&mut self, member: &Member, sn: Sn) -> Result<(), ImageError> {
        let location = startup::location(&member.settings);
        let mut reader = Reader::open(&member.env, &location, self.sn).await?;
        let mut turn = Turn::begin(&member.env);
        self.keep_cut(member).await?;
        while self.sn < sn {
            let Some(batch) = reader.next().await? else {
                return Err(ImageError::Short {
                    found: self.sn,
                    wanted: sn,
                });
            };
            for entry in &batch.entries {
                self.state.apply(entry);
                turn.pause().await;
            }
            self.sn = Sn(batch.sn);
            self.epoch = Epoch(batch.epoch);
            self.keep_cut(member).await?;
        }
        Ok(reader.sync().await?)
    }

    /// Writes the image. Answers the digest.
    async fn save(&self, member: &Member) -> Result<u128, ImageError> {
        let location = startup::location(&member.settings);
        let mut writer = ImageWriter::create(&member.env, &location, self.sn, self.epoch).await?;
        let digest = self.write_to(&member.env, &mut writer).await?;
        writer.finish(&digest.to_le_bytes()).await?;
        Ok(digest)
    }

    /// Writes the records of the state. Answers the digest.
    pub(crate) async fn write_to(
        &self,
        env: &Env,
        writer: &mut ImageWriter,
    ) -> Result<u128, JournalError> {
        let mut records = self.state.records();
        let mut turn = Turn::begin(env);
        while let Some(record) = records.next() {
            writer.add(record).await?;
            turn.pause().await;
        }
        Ok(records.digest())
    }
}

/// How long the shadow has worked without a pause.
struct Turn {
    env: Env,
    since: Mono,
}

impl Turn {
    fn begin(env: &Env) -> Turn {
        Turn {
            env: env.clone(),
            since: env.now(),
        }
    }

    async fn pause(&mut self) {
        let worked = self.env.now().since(self.since);
        if worked >= SLICE {
            self.env.sleep(PAUSE.max(worked)).await;
            self.since = self.env.now();
        }
    }
}

/// Writes images when they are due, until the member's life ends.
pub(crate) async fn run(member: Rc<Member>, mut shadow: Shadow) {
    let env = member.env.clone();
    loop {
        let is_cut = member.cuts().is_some_and(|(_, last)| last > shadow.cut);
        // A cut that is there may have to be committed yet.
        let pause = if is_cut { LOOK_AT_CUT } else { LOOK_EVERY };
        // Either way it is looked.
        let _: Result<(), _> = env.timeout(pause, member.kept.changed.notified()).await;
        // Others may have committed more than a slow disk has.
        let (sn, entries) = (member.imageable(), member.entries_since_image.get());
        if sn <= shadow.sn {
            continue;
        }
        // Writing an image costs in proportion to the last one: half of that is changed first.
        let worth = shadow.state.statistics().inodes / 2;
        let is_due = entries >= member.settings.image_every_entries.max(worth);
        let is_cut = member.cuts().is_some_and(|(_, last)| last > shadow.cut);
        let begin = env.now();
        let written = match (is_due, is_cut) {
            (true, _) => write(&member, &mut shadow, sn).await,
            (false, true) => shadow.follow(&member, sn).await.map(|()| None),
            (false, false) => continue,
        };
        match written {
            Ok(None) => {}
            Ok(Some((digest, other_digest))) => {
                if other_digest.is_some_and(|other| other != digest) {
                    tracing::error!(%sn, "the state that serves is not what its journal says: keep \
                        the directory, restart the server and report this");
                }
                let left = member.entries_since_image.get().saturating_sub(entries);
                member.entries_since_image.set(left);
                member.metrics.images.inc();
                tracing::info!(%sn, took = ?env.now().since(begin), "image written");
            }
            Err(error) => {
                tracing::error!(%error, "writing an image failed; the journal grows meanwhile");
                env.sleep(RETRY).await;
            }
        }
    }
}

/// Writes the image of batch `sn`, and removes what is no longer needed. Answers the digest, and that of the other
/// state if it was taken. None: there is no image of a name space that is being replaced by another.
async fn write(
    member: &Rc<Member>,
    shadow: &mut Shadow,
    sn: Sn,
) -> Result<Option<(u128, Option<u128>)>, ImageError> {
    let other_digest = member.digest_at(sn, DIGEST_INODES_MAX);
    shadow.follow(member, sn).await?;
    if shadow.state.is_between() {
        return Ok(None);
    }
    let digest = shadow.save(member).await?;
    let dir = &member.settings.dir;
    let kept = remove_images(&member.env, dir, IMAGES_KEPT)?;
    // The first image alone is no reason to throw away what it was made from.
    if kept.len() == IMAGES_KEPT {
        remove_segments(&member.env, dir, kept[0])?;
        if let Some(oldest) = segments(&member.env, dir)?.first() {
            member.forget(Sn(oldest.0 - 1));
        }
    }
    Ok(Some((digest, other_digest)))
}
