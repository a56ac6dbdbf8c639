//! The modified list between the members: asked for by recovery and by fences, piece by piece, for the
//! list of one long object alone may not fit into a message.

use crate::link::TwinError;
use crate::server::{Node, from_name, to_name};
use std::ops::Range;
use weft_rpc::Payload;
use weft_types::{Epoch, Ino, ObjectId, Run};
use weft_wire::{Failed, proto};

/// Objects in one answer.
const OBJECTS_MAX: usize = 2048;
/// Runs of regions in one answer: some ten bytes each, far below a message's bound.
const RUNS_MAX: usize = 100_000;

/// What the twin's list says.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Regions that may differ.
    pub runs: Vec<Run>,
    /// The list was damaged: everything may.
    pub everything: bool,
    /// See [`weft_objects::Store::is_intact`].
    pub intact: bool,
    /// Of the one object that was asked for: what the session has left there.
    pub left: Vec<Range<u64>>,
}

/// Asks the twin for its list, of all objects or of one; of that also for what a session has left that
/// has ended.
///
/// # Errors
/// As the link's.
pub(crate) async fn of_twin(
    node: &Node,
    epoch: Epoch,
    only: Option<(ObjectId, u64)>,
) -> Result<Listed, TwinError> {
    let mut request = proto::DirtyRequest {
        epoch: epoch.0,
        only: only.map(|(object, _)| to_name(object)),
        left_by: only.map_or(0, |(_, session)| session),
        ..Default::default()
    };
    let mut listed = Listed {
        intact: true,
        ..Listed::default()
    };
    loop {
        let (reply, _) = node.link.call(&request, Payload::none()).await?;
        listed.everything |= reply.everything;
        listed.intact &= reply.intact;
        let left = reply.left.iter().map(|range| range.start..range.end);
        listed.left.extend(left);
        let runs = runs_in(&reply.objects);
        let last = runs.last().map(|run| (run.object, run.regions.end));
        listed.runs.extend(runs);
        match last {
            Some((object, end)) if reply.more => {
                request.after_ino = object.ino.0;
                request.after_generation = object.generation;
                request.from_region = end;
                request.left_by = 0;
            }
            _ => return Ok(listed),
        }
    }
}

/// The object that a question goes on behind.
pub(crate) fn after(ino: u64, generation: u32) -> Option<ObjectId> {
    (ino != 0).then_some(ObjectId {
        ino: Ino(ino),
        generation,
    })
}

/// METHOD 81 at the receiver.
pub(crate) fn on_dirty(
    node: &Node,
    message: &proto::DirtyRequest,
) -> Result<proto::DirtyReply, Failed> {
    let mut reply = proto::DirtyReply {
        everything: node.store.everything_dirty(),
        intact: node.store.is_intact(),
        ..Default::default()
    };
    let from = |object| {
        let runs = node
            .store
            .dirty_within(object, message.from_region..u32::MAX);
        (object, runs)
    };
    let listed = match message.only {
        Some(only) => {
            let object = from_name(Some(only))?;
            let left = node.marks.left_by(message.left_by, object).into_iter();
            let left = left.map(|range| proto::Range {
                start: range.start,
                end: range.end,
            });
            reply.left = left.collect();
            vec![from(object)]
        }
        None => {
            let after = after(message.after_ino, message.after_generation);
            let rest = after.filter(|_| message.from_region > 0).map(from);
            let behind = node.store.dirty(after, OBJECTS_MAX);
            reply.more = behind.len() == OBJECTS_MAX;
            rest.into_iter().chain(behind).collect()
        }
    };
    let mut room = RUNS_MAX;
    for (object, mut runs) in listed {
        if runs.len() > room {
            runs.truncate(room);
            reply.more = true;
        }
        room -= runs.len();
        reply.objects.push(of_object(object, &runs));
        if room == 0 {
            reply.more = true;
            break;
        }
    }
    Ok(reply)
}

fn of_object(object: ObjectId, runs: &[Range<u32>]) -> proto::DirtyObject {
    proto::DirtyObject {
        object: Some(to_name(object)),
        runs: runs.iter().map(to_range).collect(),
    }
}

fn to_range(regions: &Range<u32>) -> proto::Range {
    proto::Range {
        start: u64::from(regions.start),
        end: u64::from(regions.end),
    }
}

/// For the wire: neighbours that are of one object are named together.
pub(crate) fn objects_of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<proto::DirtyObject> {
    let mut objects: Vec<proto::DirtyObject> = Vec::new();
    for run in runs {
        let name = to_name(run.object);
        match objects.last_mut() {
            Some(last) if last.object.as_ref() == Some(&name) => {
                last.runs.push(to_range(&run.regions));
            }
            _ => objects.push(of_object(run.object, std::slice::from_ref(&run.regions))),
        }
    }
    objects
}

/// The regions that a message names; nonsense is left out.
pub(crate) fn runs_in(objects: &[proto::DirtyObject]) -> Vec<Run> {
    let mut runs = Vec::new();
    for named in objects {
        let Ok(object) = from_name(named.object) else {
            continue;
        };
        let regions = named.runs.iter().filter_map(|range| {
            let start = u32::try_from(range.start).ok()?;
            let end = u32::try_from(range.end).ok()?;
            (start < end).then_some(start..end)
        });
        runs.extend(regions.map(|regions| Run { object, regions }));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ino: u64, regions: Range<u32>) -> Run {
        let object = ObjectId {
            ino: Ino(ino),
            generation: 1,
        };
        Run { object, regions }
    }

    #[test]
    fn regions_come_over_the_wire_and_nonsense_is_left_out() {
        let runs = [run(1, 0..u32::MAX), run(2, 3..4), run(2, 7..9)];
        let mut objects = objects_of(&runs);
        assert_eq!(objects.len(), 2);
        assert_eq!(runs_in(&objects), runs);
        for (start, end) in [(4, 4), (9, 3), (0, 1 << 32), (u64::MAX, u64::MAX)] {
            objects[1].runs.push(proto::Range { start, end });
        }
        objects.push(proto::DirtyObject {
            object: None,
            runs: vec![to_range(&(0..1))],
        });
        assert_eq!(runs_in(&objects), runs);
    }
}
