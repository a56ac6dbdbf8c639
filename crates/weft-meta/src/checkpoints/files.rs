//! The images that a member keeps for checkpoints: the shadow writes them as it comes by their cuts, what is
//! missing is fetched from another member, and what no cut needs is removed.

use crate::group::{Member, connect};
use crate::images::Shadow;
use crate::reign::Meta;
use crate::startup;
use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Env, OpenMode};
use weft_journal::{ImageReader, ImageWriter, JournalError, kept, kept_path, remove_kept};
use weft_namespace::ImageCheck;
use weft_rpc::Payload;
use weft_wire::proto::FetchImageRequest;

/// What has come of a kept image from another member: for the member, and for a reign that is in a hurry. They may
/// fetch the same one at the same time.
const PART: &str = "checkpoint.part";
pub(super) const PART_OF_REIGN: &str = "checkpoint-reign.part";
/// A piece, or an answer, that has not come by then is asked for again.
const PATIENCE: Duration = Duration::from_secs(5);
/// A member that does not say by then whether it has an image counts as not having it.
const LOOK_PATIENCE: Duration = Duration::from_millis(500);
/// How often a member looks whether it has what it should have, though nothing was said.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Of a member's life.
#[derive(Default)]
pub(crate) struct Kept {
    /// A cut has been applied, or dropped.
    pub changed: Notify,
    /// The shadow has come by all cuts up to this one.
    passed: Cell<u64>,
    /// One is being fetched.
    is_fetching: Cell<bool>,
    /// Of what was said that it cannot be fetched.
    told: RefCell<BTreeSet<u64>>,
}

impl Kept {
    /// The shadow has come by the cuts up to this one.
    pub(crate) fn pass(&self, cut: u64) {
        self.passed.set(cut.max(self.passed.get()));
    }
}

/// Writes the image of the shadow's state for a checkpoint, if it is needed and not there.
pub(crate) async fn keep(
    member: &Member,
    shadow: &Shadow,
    checkpoint: u64,
) -> Result<(), JournalError> {
    let (env, settings) = (&member.env, &member.settings);
    let is_needed = member.has_cut(checkpoint).unwrap_or(true);
    if !is_needed || kept(env, &settings.dir)?.contains(&checkpoint) {
        return Ok(());
    }
    let location = startup::location(settings);
    let (sn, begun) = (shadow.sn(), env.now());
    let mut writer = ImageWriter::keep(env, &location, checkpoint, (sn, shadow.epoch())).await?;
    let digest = shadow.write_to(env, &mut writer).await?;
    writer.finish(&digest.to_le_bytes()).await?;
    tracing::info!(checkpoint, %sn, took = ?env.now().since(begun), "the image of a checkpoint is kept");
    Ok(())
}

/// Sees to it, for as long as a member's life lasts, that it has the images that its state's cuts need, and no
/// others.
pub(crate) async fn look_after(member: Rc<Member>) {
    loop {
        let changed = member.kept.changed.notified();
        if let Err(error) = look(&member).await {
            tracing::error!(%error, "the images of checkpoints cannot be looked after");
        }
        // Either way it is looked again.
        let _: Result<(), _> = member.env.timeout(LOOK_EVERY, changed).await;
    }
}

async fn look(member: &Rc<Member>) -> Result<(), JournalError> {
    let (env, dir) = (&member.env, &member.settings.dir);
    let Some((needed, last)) = member.cuts() else {
        return Ok(());
    };
    let there = kept(env, dir)?;
    for id in there
        .iter()
        .filter(|id| **id <= last && !needed.contains(id))
    {
        remove_kept(env, dir, *id)?;
    }
    let passed = member.kept.passed.get();
    for id in needed.into_iter().filter(|id| *id <= passed) {
        if there.contains(&id) {
            continue;
        }
        if let Err(error) = fetch(member, id).await
            && member.kept.told.borrow_mut().insert(id)
        {
            tracing::warn!(checkpoint = id, %error, "the image of a checkpoint is missing here");
        }
    }
    Ok(())
}

/// Fetches a kept image from whichever other member has a good one.
async fn fetch(member: &Rc<Member>, checkpoint: u64) -> std::io::Result<()> {
    if member.kept.is_fetching.replace(true) {
        return Ok(());
    }
    let others = member.others();
    let to = (&*member.settings, PART);
    let fetched = fetch_from(&member.env, to, others, checkpoint).await;
    member.kept.is_fetching.set(false);
    fetched
}

/// The same for whoever knows where the others are. A damaged image that is there is replaced.
pub(super) async fn fetch_from(
    env: &Env,
    to: (&crate::Settings, &str),
    addresses: Vec<String>,
    checkpoint: u64,
) -> std::io::Result<()> {
    let mut why = std::io::Error::other("no other member has it");
    for address in addresses {
        match fetch_one(env, to, &address, checkpoint).await {
            Ok(true) => {
                tracing::info!(
                    checkpoint,
                    from = address,
                    "the image of a checkpoint was fetched"
                );
                return Ok(());
            }
            Ok(false) => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn fetch_one(
    env: &Env,
    (settings, part): (&crate::Settings, &str),
    address: &str,
    checkpoint: u64,
) -> std::io::Result<bool> {
    let connection = connect(env, settings, address, PATIENCE).await?;
    let part = settings.dir.join(part);
    let received: std::io::Result<bool> = async {
        let file = env.open(&part, OpenMode::CreateEmpty).await?;
        let (mut offset, mut total) = (0, u64::MAX);
        while offset < total {
            let request = FetchImageRequest {
                group: settings.group,
                offset,
                checkpoint,
                ..FetchImageRequest::default()
            };
            let call = connection.call(&request, Payload::none());
            let answer = env.timeout(PATIENCE, call).await;
            let (reply, bytes) = answer
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
                .map_err(std::io::Error::other)?;
            if reply.sn == 0 {
                return Ok(false);
            }
            if bytes.is_empty() {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            total = reply.total_bytes;
            let length = bytes.len() as u64;
            file.write_at(offset, vec![bytes]).await?;
            offset += length;
        }
        file.sync_data().await?;
        Ok(true)
    }
    .await;
    connection.close("no more is asked for");
    if !received? {
        return Ok(false);
    }
    let location = startup::location(settings);
    let reader = ImageReader::open_at(env, &location, part.clone(), None).await;
    let read = match reader {
        Ok(reader) => read_to_end(reader).await,
        Err(error) => Err(error),
    };
    read.map_err(std::io::Error::other)?;
    env.rename(&part, &kept_path(&settings.dir, checkpoint))?;
    env.sync_dir(&settings.dir).await?;
    Ok(true)
}

/// Reads a kept image to its end: all of it is there, and as it was written.
pub(super) async fn verify(
    env: &Env,
    settings: &crate::Settings,
    checkpoint: u64,
) -> Result<(), JournalError> {
    let location = startup::location(settings);
    read_to_end(ImageReader::open_kept(env, &location, checkpoint).await?).await
}

async fn read_to_end(mut reader: ImageReader) -> Result<(), JournalError> {
    // Checksums tell that each record is as it was written; that they are all, and in order, their digest.
    let mut check = ImageCheck::default();
    while let Some(record) = reader.next().await? {
        check
            .push(&record)
            .map_err(|error| reader.damaged(error.to_string()))?;
    }
    check
        .finish()
        .map_err(|error| reader.damaged(error.to_string()))
}

/// How many members of the group that count have the image on their disks, and how many must.
pub(super) async fn count(meta: &Rc<Meta>, checkpoint: u64) -> (u32, u32) {
    let voters = {
        let core = meta.core.borrow();
        crate::group::voters(&core.view, meta.settings.group)
    };
    let needed = voters.len() as u32 / 2 + 1;
    let asked = voters.into_iter().map(|(member, address)| async move {
        if member == meta.settings.member {
            let there = kept(&meta.env, &meta.settings.dir);
            return there.is_ok_and(|there| there.contains(&checkpoint));
        }
        has(meta, &address, checkpoint).await.unwrap_or(false)
    });
    let there = join_all(asked).await.into_iter().filter(|it| *it).count();
    (there as u32, needed)
}

async fn has(meta: &Rc<Meta>, address: &str, checkpoint: u64) -> std::io::Result<bool> {
    let (env, settings) = (&meta.env, &meta.settings);
    let connection = connect(env, settings, address, LOOK_PATIENCE).await?;
    let request = FetchImageRequest {
        group: settings.group,
        checkpoint,
        look: true,
        ..FetchImageRequest::default()
    };
    let call = connection.call(&request, Payload::none());
    let answer = env.timeout(LOOK_PATIENCE, call).await;
    connection.close("no more is asked for");
    match answer {
        Ok(Ok((reply, _))) => Ok(reply.sn != 0),
        _ => Ok(false),
    }
}
