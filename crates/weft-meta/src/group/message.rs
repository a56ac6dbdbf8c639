//! The engine's messages as they travel.

use crate::settings::{LEASE_BEFORE, LEASE_MAX};
use std::time::Duration;
use weft_group::{Message, Run, Shape};
use weft_journal::Sealed;
use weft_types::{Epoch, Sn};
use weft_wire::proto::{
    Batch, GroupMessage, JournalRun, JournalShape, group_message as wire,
    group_message::Message as Kind,
};

/// What came: the message, and the batches with it.
#[derive(Debug)]
pub(super) struct Arrived {
    pub message: Message,
    pub batches: Vec<(Sealed, Batch)>,
}

/// The batches that a message speaks of: those that follow the base.
pub(super) fn carried(message: &Message) -> Option<&Shape> {
    match message {
        Message::Append { batches, .. } => Some(batches),
        Message::Fetched { batches, .. } => batches.as_ref(),
        _ => None,
    }
}

/// The same message about other batches.
pub(super) fn with_batches(message: &Message, shape: Shape) -> Message {
    let mut message = message.clone();
    match &mut message {
        Message::Append { batches, .. } => *batches = shape,
        Message::Fetched { batches, .. } => *batches = Some(shape),
        _ => {}
    }
    message
}

/// As it is sent, with the batches that it carries.
pub(super) fn encode(group: u32, message: &Message, batches: &[Sealed]) -> GroupMessage {
    let kind = match message {
        Message::Hears => Kind::Hears(wire::Hears {}),
        Message::HearsAnswer { hears, lacks } => Kind::HearsAnswer(wire::HearsAnswer {
            hears: *hears,
            lacks: *lacks,
        }),
        Message::Collect { epoch } => Kind::Collect(wire::Collect { epoch: epoch.0 }),
        Message::Collected {
            epoch,
            shape,
            durable,
            promised,
            is_intact,
        } => Kind::Collected(wire::Collected {
            epoch: epoch.0,
            shape: Some(shape_to_wire(shape)),
            durable: durable.0,
            // Rounded up: it is waited for.
            promised_us: micros(*promised + Duration::from_nanos(999)),
            is_intact: *is_intact,
        }),
        Message::Beat {
            epoch,
            at,
            committed,
            late,
            lease,
        } => Kind::Beat(wire::Beat {
            epoch: epoch.0,
            // Rounded down: promises are counted from then on.
            at_us: micros(*at),
            committed: committed.0,
            late_us: micros(*late),
            lease_us: micros(*lease),
        }),
        Message::BeatAnswer { epoch, at } => Kind::BeatAnswer(wire::BeatAnswer {
            epoch: epoch.0,
            at_us: micros(*at),
        }),
        Message::Append {
            epoch,
            batches,
            committed,
        } => Kind::Append(wire::Append {
            epoch: epoch.0,
            batches: Some(shape_to_wire(batches)),
            committed: committed.0,
        }),
        Message::Appended { epoch, durable } => Kind::Appended(wire::Appended {
            epoch: epoch.0,
            durable: durable.0,
        }),
        Message::Behind { epoch, base } => Kind::Behind(wire::Behind {
            epoch: epoch.0,
            base: base.0,
        }),
        Message::Fetch { epoch, after, last } => Kind::Fetch(wire::Fetch {
            epoch: epoch.0,
            after: after.0,
            last: last.0,
        }),
        Message::Fetched { epoch, batches } => Kind::Fetched(wire::Fetched {
            epoch: epoch.0,
            batches: batches.as_ref().map(shape_to_wire),
        }),
        Message::Withdrawn { epoch } => Kind::Withdrawn(wire::Withdrawn { epoch: epoch.0 }),
        Message::Newer { epoch } => Kind::Newer(wire::Newer { epoch: epoch.0 }),
    };
    GroupMessage {
        group,
        batches: batches
            .iter()
            .map(|batch| batch.content().clone())
            .collect(),
        message: Some(kind),
    }
}

/// What was sent.
///
/// # Errors
/// If it is no message of a member, or the batches are not those that it speaks of: says what is wrong.
pub(super) fn decode(sent: GroupMessage) -> Result<Arrived, String> {
    let kind = sent.message.ok_or("a message without content")?;
    let message = match kind {
        Kind::Hears(_) => Message::Hears,
        Kind::HearsAnswer(answer) => Message::HearsAnswer {
            hears: answer.hears,
            lacks: answer.lacks,
        },
        Kind::Collect(collect) => Message::Collect {
            epoch: Epoch(collect.epoch),
        },
        Kind::Collected(collected) => Message::Collected {
            epoch: Epoch(collected.epoch),
            shape: shape_from_wire(collected.shape)?,
            durable: Sn(collected.durable),
            promised: promised_from_wire(collected.promised_us)?,
            is_intact: collected.is_intact,
        },
        Kind::Beat(beat) => Message::Beat {
            epoch: Epoch(beat.epoch),
            at: Duration::from_micros(beat.at_us),
            committed: Sn(beat.committed),
            late: Duration::from_micros(beat.late_us),
            lease: lease_from_wire(beat.lease_us)?,
        },
        Kind::BeatAnswer(answer) => Message::BeatAnswer {
            epoch: Epoch(answer.epoch),
            at: Duration::from_micros(answer.at_us),
        },
        Kind::Append(append) => Message::Append {
            epoch: Epoch(append.epoch),
            batches: shape_from_wire(append.batches)?,
            committed: Sn(append.committed),
        },
        Kind::Appended(appended) => Message::Appended {
            epoch: Epoch(appended.epoch),
            durable: Sn(appended.durable),
        },
        Kind::Behind(behind) => Message::Behind {
            epoch: Epoch(behind.epoch),
            base: Sn(behind.base),
        },
        Kind::Fetch(fetch) => Message::Fetch {
            epoch: Epoch(fetch.epoch),
            after: Sn(fetch.after),
            last: Sn(fetch.last),
        },
        Kind::Fetched(fetched) => Message::Fetched {
            epoch: Epoch(fetched.epoch),
            batches: match fetched.batches {
                None => None,
                some => Some(shape_from_wire(some)?),
            },
        },
        Kind::Withdrawn(withdrawn) => Message::Withdrawn {
            epoch: Epoch(withdrawn.epoch),
        },
        Kind::Newer(newer) => Message::Newer {
            epoch: Epoch(newer.epoch),
        },
        Kind::Parting(_) => return Err("a connection's last word in its middle".into()),
    };
    let mut batches = Vec::with_capacity(sent.batches.len());
    for content in sent.batches {
        batches.push(Sealed::read(content).map_err(|error| error.to_string())?);
    }
    check(carried(&message), &batches)?;
    Ok(Arrived { message, batches })
}

/// Are these the batches that the shape tells of?
fn check(shape: Option<&Shape>, batches: &[(Sealed, Batch)]) -> Result<(), String> {
    let told = shape.map_or(0, |shape| shape.last().0 - shape.base().0);
    if told != batches.len() as u64 {
        return Err(format!("{told} batches are told, {} came", batches.len()));
    }
    let Some(shape) = shape else { return Ok(()) };
    for (number, (sealed, _)) in batches.iter().enumerate() {
        let sn = Sn(shape.base().0 + 1 + number as u64);
        if sealed.sn() != sn || shape.epoch_at(sn) != Some(sealed.epoch()) {
            return Err(format!(
                "batch {sn} of epoch {:?} is told, batch {} of epoch {} came",
                shape.epoch_at(sn),
                sealed.sn(),
                sealed.epoch()
            ));
        }
    }
    Ok(())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn shape_to_wire(shape: &Shape) -> JournalShape {
    let (runs, last) = shape.parts();
    let run = |run: &Run| JournalRun {
        epoch: run.epoch.0,
        first: run.first.0,
    };
    JournalShape {
        runs: runs.iter().map(run).collect(),
        last: last.0,
    }
}

fn shape_from_wire(shape: Option<JournalShape>) -> Result<Shape, String> {
    let shape = shape.ok_or("a message about no journal")?;
    let run = |run: &JournalRun| Run {
        epoch: Epoch(run.epoch),
        first: Sn(run.first),
    };
    Shape::told(shape.runs.iter().map(run).collect(), Sn(shape.last))
        .ok_or_else(|| format!("what is told of a journal makes no sense: {shape:?}"))
}

/// For how long an active counts on a promise. It is a claim: nobody promises without end.
fn lease_from_wire(micros: u64) -> Result<Duration, String> {
    if micros == 0 {
        return Ok(LEASE_BEFORE);
    }
    let lease = Duration::from_micros(micros);
    if lease > LEASE_MAX {
        return Err(format!(
            "an active counts on a promise of {lease:?}; the longest is {LEASE_MAX:?}"
        ));
    }
    Ok(lease)
}

/// For how long a member has promised others to follow nobody else: no longer than any active counts on. It is told
/// rounded up.
fn promised_from_wire(micros: u64) -> Result<Duration, String> {
    let promised = Duration::from_micros(micros);
    if promised > LEASE_MAX + Duration::from_micros(1) {
        return Err(format!(
            "a promise of {promised:?} is told; the longest is {LEASE_MAX:?}"
        ));
    }
    Ok(promised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, sn: u64) -> Sealed {
        Sealed::new(&Batch {
            epoch,
            sn,
            entries: Vec::new(),
        })
    }

    fn append() -> (Message, Vec<Sealed>) {
        let mut batches = Shape::after(Epoch(1), Sn(4));
        batches.extend(Epoch(1), Sn(5));
        batches.extend(Epoch(3), Sn(6));
        let message = Message::Append {
            epoch: Epoch(3),
            batches,
            committed: Sn(4),
        };
        (message, vec![batch(1, 5), batch(3, 6)])
    }

    #[test]
    fn messages_come_as_they_were_sent() {
        let shape = Shape::after(Epoch(2), Sn(9));
        let (epoch, at) = (Epoch(7), Duration::from_micros(1_234_567));
        let all = [
            Message::Hears,
            Message::HearsAnswer {
                hears: true,
                lacks: true,
            },
            Message::Collect { epoch },
            Message::Collected {
                epoch,
                shape: shape.clone(),
                durable: Sn(8),
                promised: at,
                is_intact: true,
            },
            Message::Beat {
                epoch,
                at,
                committed: Sn(3),
                late: Duration::from_millis(40),
                lease: Duration::from_millis(150),
            },
            Message::BeatAnswer { epoch, at },
            Message::Appended {
                epoch,
                durable: Sn(5),
            },
            Message::Behind { epoch, base: Sn(5) },
            Message::Fetch {
                epoch,
                after: Sn(1),
                last: Sn(2),
            },
            Message::Fetched {
                epoch,
                batches: None,
            },
            Message::Fetched {
                epoch,
                batches: Some(shape),
            },
            Message::Withdrawn { epoch },
            Message::Newer { epoch },
        ];
        for message in all {
            let arrived = decode(encode(0, &message, &[])).expect("it is good");
            assert_eq!(arrived.message, message);
        }
        let (message, batches) = append();
        let arrived = decode(encode(0, &message, &batches)).expect("it is good");
        assert_eq!(arrived.message, message);
        let came: Vec<Sealed> = arrived
            .batches
            .into_iter()
            .map(|(sealed, _)| sealed)
            .collect();
        assert_eq!(came, batches);
    }

    #[test]
    fn promises_are_told_longer_and_beats_earlier_than_they_are() {
        let odd = Duration::from_nanos(1_001);
        let beat = Message::Beat {
            epoch: Epoch(1),
            at: odd,
            committed: Sn(0),
            late: Duration::ZERO,
            lease: Duration::from_millis(150),
        };
        let Ok(Message::Beat { at, .. }) = decode(encode(0, &beat, &[])).map(|it| it.message)
        else {
            panic!("a beat")
        };
        assert!(at <= odd);
        let collected = Message::Collected {
            epoch: Epoch(1),
            shape: Shape::default(),
            durable: Sn(0),
            promised: odd,
            is_intact: true,
        };
        let Ok(Message::Collected { promised, .. }) =
            decode(encode(0, &collected, &[])).map(|it| it.message)
        else {
            panic!("collected")
        };
        assert!(promised >= odd);
    }

    #[test]
    fn other_batches_than_told_are_refused() {
        let (message, batches) = append();
        for wrong in [
            &batches[..1],
            &batches[1..],
            &[batch(1, 5), batch(1, 6)],
            &[batch(1, 5), batch(3, 7)],
            &[batch(3, 6), batch(1, 5)],
        ] {
            assert!(decode(encode(0, &message, wrong)).is_err(), "{wrong:?}");
        }
        assert!(decode(encode(0, &Message::Hears, &batches)).is_err());
        assert!(decode(GroupMessage::default()).is_err());
        let mut odd = encode(0, &message, &batches);
        odd.batches[0] = bytes::Bytes::from_static(b"\xff\xff");
        assert!(decode(odd).is_err());
        let mut falling = encode(0, &message, &batches);
        if let Some(Kind::Append(append)) = &mut falling.message
            && let Some(shape) = &mut append.batches
        {
            shape.runs.reverse();
        }
        assert!(decode(falling).is_err());
    }

    #[test]
    fn what_an_active_counts_on_is_known_and_has_an_end() {
        let beat = |lease| Message::Beat {
            epoch: Epoch(1),
            at: Duration::ZERO,
            committed: Sn(0),
            late: Duration::ZERO,
            lease,
        };
        let told = |lease| match decode(encode(0, &beat(lease), &[])).map(|it| it.message) {
            Ok(Message::Beat { lease, .. }) => Ok(lease),
            other => Err(format!("{other:?}")),
        };
        // An active of an earlier version says nothing of it.
        assert_eq!(told(Duration::ZERO), Ok(LEASE_BEFORE));
        assert_eq!(told(LEASE_MAX), Ok(LEASE_MAX));
        assert!(told(LEASE_MAX + Duration::from_millis(1)).is_err());
        let collected = |promised| Message::Collected {
            epoch: Epoch(1),
            shape: Shape::default(),
            durable: Sn(0),
            promised,
            is_intact: true,
        };
        let told = |promised| decode(encode(0, &collected(promised), &[])).map(|_| ());
        assert_eq!(told(LEASE_MAX), Ok(()));
        assert!(told(LEASE_MAX + Duration::from_millis(1)).is_err());
        assert!(told(Duration::MAX - Duration::from_secs(1)).is_err());
    }
}
