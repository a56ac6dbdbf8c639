//! What somebody else has cut off an object's file, or removed with it, behind the store's back.
//!
//! Nothing in a file says how long it was, and a hole is read as zeros. But while both members serve, both have
//! objects of one length: **who finds less than was asked for asks its twin whether that has more**, and takes it
//! from there. What was never written is at neither. Reads come here that go past the end of an object, which
//! few do (a client cuts at the end of the file), and each object is asked about once for each length that it has;
//! a scrub asks about all objects.
//!
//! A change that was done at one member only makes the copies of two lengths as well. Who was to do it knows: while it
//! goes on it comes first, and where it has failed its regions are in doubt, and nothing is taken here.

use crate::link::TwinError;
use crate::server::{Node, from_name};
use crate::settle::{self, Manner, Unsettled};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_pair::Mode;
use weft_pair::recovery::regions_of;
use weft_rpc::Payload;
use weft_types::{Epoch, Ino, ObjectId, REGION_BYTES, Run};
use weft_wire::proto;

/// Objects of which is remembered that the twin has no more of them; then all are forgotten, and asked about
/// again. Some hundred kilobytes.
const REMEMBERED: usize = 4096;
/// Objects of the twin asked for at a time.
const PAGE: u32 = 1024;

/// Objects of which the twin has no more than this member: under which epoch, and how long they were here.
#[derive(Default)]
pub(crate) struct Ends(RefCell<BTreeMap<ObjectId, (Epoch, u64)>>);

impl Ends {
    fn is_known(&self, object: ObjectId, epoch: Epoch, length: u64) -> bool {
        self.0.borrow().get(&object) == Some(&(epoch, length))
    }

    fn remember(&self, object: ObjectId, epoch: Epoch, length: u64) {
        let known = &mut *self.0.borrow_mut();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(object, (epoch, length));
    }
}

/// After a read that found nothing from some place before `end` on: takes from the twin what that has more of
/// the object. True: there is more now. Nothing of the object may be locked.
///
/// # Errors
/// [`Unsettled`]: there is more, and it is not here yet.
pub(crate) async fn bring_back(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    end: u64,
) -> Result<bool, Unsettled> {
    let ours = node.store.length(object).await;
    let ours = ours.map_err(|error| settle::of_store(node, error))?;
    if ours >= end || !both_serve(node, epoch) || node.ends.is_known(object, epoch, ours) {
        return Ok(false);
    }
    let theirs = length_at_twin(node, object).await?;
    if theirs <= ours {
        node.ends.remember(object, epoch, ours);
        return Ok(false);
    }
    // Somebody may be writing there, and the twin have done it first.
    let now = node.store.length(object).await;
    if now.map_err(|error| settle::of_store(node, error))? >= theirs {
        return Ok(true);
    }
    take(node, epoch, object, theirs).await
}

/// The same for all objects of the twin; how many there is more of now.
pub(crate) async fn bring_all_back(node: &Rc<Node>, epoch: Epoch) -> u64 {
    let (mut after, mut brought) = (None, 0);
    while both_serve(node, epoch) {
        let listed = match list_twin(node, after, PAGE).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::info!(?error, "the twin does not say which objects it has");
                break;
            }
        };
        let Some((last, _)) = listed.last() else {
            break;
        };
        after = Some(*last);
        for (object, theirs) in listed {
            let more = match node.store.length(object).await {
                Ok(ours) if ours < theirs => take(node, epoch, object, theirs).await,
                Ok(_) => Ok(false),
                Err(error) => Err(settle::of_store(node, error)),
            };
            match more {
                Ok(more) => brought += u64::from(more),
                Err(error) => tracing::warn!(%object, ?error,
                    "what an object lacks cannot be taken from the twin now"),
            }
        }
    }
    brought
}

fn both_serve(node: &Node, epoch: Epoch) -> bool {
    let side = node.side.borrow();
    side.epoch() == epoch && side.mode() == Some(Mode::Both)
}

async fn list_twin(
    node: &Node,
    after: Option<ObjectId>,
    max: u32,
) -> Result<Vec<(ObjectId, u64)>, TwinError> {
    let request = proto::ListRequest {
        after_ino: after.map_or(0, |object| object.ino.0),
        after_generation: after.map_or(0, |object| object.generation),
        max,
    };
    let (reply, _) = node.link.call(&request, Payload::none()).await?;
    let listed = reply.objects.iter();
    let listed = listed.filter_map(|one| Some((from_name(one.object).ok()?, one.length)));
    Ok(listed.collect())
}

async fn length_at_twin(node: &Node, object: ObjectId) -> Result<u64, TwinError> {
    let before = match object.generation.checked_sub(1) {
        Some(generation) => ObjectId {
            generation,
            ..object
        },
        None => ObjectId {
            ino: Ino(object.ino.0 - 1),
            generation: u32::MAX,
        },
    };
    let listed = list_twin(node, Some(before), 1).await?;
    let found = listed.first().filter(|(listed, _)| *listed == object);
    Ok(found.map_or(0, |(_, length)| *length))
}

/// Takes from the twin what the object here lacks of `theirs` bytes.
async fn take(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    theirs: u64,
) -> Result<bool, Unsettled> {
    let ours = node.store.length(object).await;
    let ours = ours.map_err(|error| settle::of_store(node, error))?;
    if ours >= theirs {
        return Ok(false);
    }
    let first = u32::try_from(ours / REGION_BYTES).unwrap_or(u32::MAX);
    let mut regions = first..regions_of(theirs);
    let manner = Manner {
        truth: node.me.twin(),
        carefully: true,
        takes_lost: true,
        clear: false,
    };
    let mut differed = false;
    while !regions.is_empty() {
        let run = Run {
            object,
            regions: regions.clone(),
        };
        let compared = match settle::settle(node, epoch, &run, manner).await {
            // A client that sends both copies itself is at it, or a change has failed.
            Err(Unsettled::Unconfirmed) => return Ok(false),
            compared => compared?,
        };
        differed |= compared.differed;
        regions.start = compared.upto;
    }
    if differed {
        tracing::error!(%object, here = ours, twin = theirs,
            "somebody has cut off a part of an object's file, or removed it: taken from the twin");
    }
    Ok(differed)
}
