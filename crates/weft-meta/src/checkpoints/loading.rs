//! How a group brings its name space back: its active journals the records of the kept image, has the name space
//! exchanged, and goes through what was there before.

use super::files;
use crate::reign::{Core, Meta};
use crate::startup;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_journal::{ImageReader, JournalError};
use weft_types::Sn;
use weft_wire::Failed;
use weft_wire::proto::{self, Restore, op::Op};

/// Bytes of records in one entry: some milliseconds of work.
const CHUNK_BYTES: usize = 192 << 10;
/// Entries that may be on their way to the journals.
const UNDER_WAY_MAX: usize = 8;
/// Inodes that are gone through in one entry: some milliseconds of work.
const SWEPT_MAX: u32 = 2048;
/// After something failed it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Sees to it that a good image of the cut is here. What it waits for, if so.
pub(super) fn make_ready(meta: &Rc<Meta>, core: &mut Core, checkpoint: u64) -> Option<String> {
    let known = &mut core.checkpoints;
    if known.verified.contains(&checkpoint) {
        return None;
    }
    if !std::mem::replace(&mut known.is_at_work, true) {
        let working = meta.clone();
        meta.spawn("read checkpoint", async move {
            let trouble = ready(&working, checkpoint).await;
            let known = &mut working.core.borrow_mut().checkpoints;
            known.is_at_work = false;
            match trouble {
                None => {
                    known.verified.insert(checkpoint);
                    known.trouble.clear();
                }
                Some(trouble) => known.trouble = trouble,
            }
        });
    }
    Some(match &*known.trouble {
        "" => "the image of the checkpoint is read".to_owned(),
        trouble => trouble.to_owned(),
    })
}

/// Reads the image; fetches another if it is not good. Why there is none, if so.
async fn ready(meta: &Rc<Meta>, checkpoint: u64) -> Option<String> {
    let (env, settings) = (&meta.env, &meta.settings);
    let Err(error) = files::verify(env, settings, checkpoint).await else {
        return None;
    };
    tracing::warn!(checkpoint, %error, "the image of a checkpoint is not here, or damaged: another member is asked");
    let others = {
        let core = meta.core.borrow();
        let voters = crate::group::voters(&core.view, settings.group).into_iter();
        voters
            .filter(|(member, _)| *member != settings.member)
            .map(|(_, address)| address)
            .collect()
    };
    let to = (&**settings, files::PART_OF_REIGN);
    let fetched = files::fetch_from(env, to, others, checkpoint).await;
    let why = fetched.err()?;
    env.sleep(RETRY).await;
    Some(format!(
        "no good image of the checkpoint ({error}; from others: {why})"
    ))
}

/// Sees to it that the name space is brought back. What it waits for, if so.
pub(super) fn load(meta: &Rc<Meta>, core: &mut Core, closed: Restore) -> Option<String> {
    if core.state.is_brought_back() {
        return None;
    }
    if core.state.statistics().sessions > 0 {
        return Some("sessions end".into());
    }
    if let Some(waits) = make_ready(meta, core, closed.checkpoint) {
        return Some(waits);
    }
    if !std::mem::replace(&mut core.checkpoints.is_at_work, true) {
        let loading = meta.clone();
        meta.spawn("load checkpoint", async move {
            let trouble = bring_back(&loading, closed).await.err();
            if let Some(trouble) = &trouble {
                tracing::error!(
                    trouble,
                    "a checkpoint is not restored yet: it is tried again"
                );
                loading.env.sleep(RETRY).await;
            }
            let known = &mut loading.core.borrow_mut().checkpoints;
            known.is_at_work = false;
            if trouble.is_some() {
                // Whatever is wrong with it, it is read anew, or fetched.
                known.verified.remove(&closed.checkpoint);
            }
            known.trouble = trouble.unwrap_or_default();
        });
    }
    Some(match core.state.loaded() {
        Some(records) => format!("{records} records of the checkpoint are loaded"),
        None => "what there was is gone through".into(),
    })
}

async fn bring_back(meta: &Rc<Meta>, closed: Restore) -> Result<(), String> {
    let restore = closed.restore;
    let begun = meta.env.now();
    let loaded = meta.core.borrow().state.loaded();
    if let Some(loaded) = loaded {
        load_records(meta, closed, loaded)
            .await
            .map_err(|error| error.to_string())??;
        apply(meta, Op::TakeLoaded(proto::TakeLoaded { restore }))?;
    }
    let sweep = proto::SweepReplaced {
        restore,
        max: SWEPT_MAX,
    };
    let mut under_way = UnderWay::default();
    loop {
        let (more, sn) = apply(meta, Op::SweepReplaced(sweep))?;
        under_way.push(meta, sn).await?;
        if !more {
            break;
        }
    }
    under_way.end(meta).await?;
    tracing::info!(restore, took = ?meta.env.now().since(begun), "the name space is as it was at the checkpoint");
    Ok(())
}

/// Journals the records that have not been loaded.
async fn load_records(
    meta: &Rc<Meta>,
    closed: Restore,
    loaded: u64,
) -> Result<Result<(), String>, JournalError> {
    let location = startup::location(&meta.settings);
    let mut reader = ImageReader::open_kept(&meta.env, &location, closed.checkpoint).await?;
    let mut under_way = UnderWay::default();
    let (mut at, mut next) = (loaded, 0);
    let (mut records, mut bytes) = (Vec::new(), 0);
    loop {
        let record = reader.next().await?;
        let is_end = record.is_none();
        if let Some(record) = record {
            next += 1;
            if next > loaded {
                bytes += record.len();
                records.push(record);
            }
        }
        if bytes < CHUNK_BYTES && !is_end {
            continue;
        }
        if !records.is_empty() {
            let count = records.len() as u64;
            let op = Op::LoadRecords(proto::LoadRecords {
                restore: closed.restore,
                at,
                records: std::mem::take(&mut records),
            });
            let sent = match apply(meta, op) {
                Ok((_, sn)) => under_way.push(meta, sn).await,
                Err(why) => Err(why),
            };
            if let Err(why) = sent {
                return Ok(Err(why));
            }
            (at, bytes) = (at + count, 0);
        }
        if is_end {
            return Ok(under_way.end(meta).await);
        }
    }
}

/// Applies an entry of the restore. Answers whether there is more to do, and its batch.
fn apply(meta: &Rc<Meta>, op: Op) -> Result<(bool, Sn), String> {
    let core = &mut *meta.core.borrow_mut();
    if let Some(failed) = core.commits.refusal() {
        return Err(failed.to_string());
    }
    let (reply, sn) = meta.apply_own(core, op);
    match reply.failure_errno {
        0 => Ok((reply.created, sn)),
        errno => Err(format!(
            "the image of the checkpoint is not taken (errno {errno})"
        )),
    }
}

/// Batches that are on their way to the journals.
#[derive(Default)]
struct UnderWay(VecDeque<Sn>);

impl UnderWay {
    /// One more; waits while there are too many.
    async fn push(&mut self, meta: &Rc<Meta>, sn: Sn) -> Result<(), String> {
        self.0.push_back(sn);
        // Requests and beats are answered in between.
        meta.env.sleep(Duration::ZERO).await;
        while self.0.len() > UNDER_WAY_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            committed(meta, oldest).await?;
        }
        Ok(())
    }

    async fn end(mut self, meta: &Rc<Meta>) -> Result<(), String> {
        match self.0.pop_back() {
            Some(last) => committed(meta, last).await,
            None => Ok(()),
        }
    }
}

async fn committed(meta: &Rc<Meta>, sn: Sn) -> Result<(), String> {
    let ended = |failed: Failed| failed.to_string();
    meta.committed(sn).await.map_err(ended)
}
