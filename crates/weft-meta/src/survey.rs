//! What a check of the whole name space asks (`docs/protocols/fsck.md`): pages of inodes and of entries, single
//! ones, and transactions that have not ended. Each is answered when what was seen is committed.

use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_namespace::transaction_to;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, TransactionId};
use weft_wire::proto::surveyed_transaction::Stage;
use weft_wire::proto::{
    SurveyGroupReply, SurveyGroupRequest, SurveyInodesReply, SurveyInodesRequest, SurveyLookReply,
    SurveyLookRequest, SurveyNamesRequest, SurveyedTransaction,
};
use weft_wire::{Failed, Rpc};

/// Inodes or names of one page: below a millisecond of this server's time, some 200 kB.
const PAGE_MAX: usize = 4_096;
/// Inodes that are gone through for a page of names: most name nothing.
const STEPS_MAX: usize = 20_000;
/// Inodes and places of one look.
const LOOKS_MAX: usize = 1_024;
/// Entries that are counted for one look: some ten milliseconds.
const COUNTED_MAX: usize = 200_000;
/// Transactions that are told.
const TRANSACTIONS_MAX: usize = 4_096;

/// Answers when all that there is now is committed.
fn answer<R: Rpc>(meta: &Rc<Meta>, core: &mut Core, reply: R::Reply, replier: Replier)
where
    R::Reply: 'static,
{
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<R>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// METHOD 96.
pub(crate) fn on_inodes(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: SurveyInodesRequest,
    replier: Replier,
) {
    let max = (request.max as usize).clamp(1, PAGE_MAX);
    let (inodes, more) = core.state.survey_inodes(Ino(request.after), max);
    let reply = SurveyInodesReply {
        inodes,
        more,
        sn: core.commits.newest().0,
    };
    answer::<SurveyInodesRequest>(meta, core, reply, replier);
}

/// METHOD 97.
pub(crate) fn on_names(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: SurveyNamesRequest,
    replier: Replier,
) {
    let max = (request.max as usize).clamp(1, PAGE_MAX);
    let from = (Ino(request.directory), request.cookie);
    let mut reply = core.state.survey_names(from, max, STEPS_MAX);
    reply.sn = core.commits.newest().0;
    answer::<SurveyNamesRequest>(meta, core, reply, replier);
}

/// METHOD 98.
pub(crate) fn on_look(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: SurveyLookRequest,
    replier: Replier,
) {
    if request.inos.len() + request.places.len() > LOOKS_MAX {
        let why = format!("a look at more than {LOOKS_MAX} inodes and places");
        return replier.fail(Failed::Refused(why));
    }
    let mut steps = COUNTED_MAX;
    let inos = request.inos.iter();
    let sights = inos.map(|ino| core.state.survey_sight(Ino(*ino), &mut steps));
    let sights = sights.collect();
    let places = request.places.iter();
    let places = places.map(|place| core.state.survey_place(place, &mut steps));
    let reply = SurveyLookReply {
        sights,
        places: places.collect(),
        sn: core.commits.newest().0,
    };
    answer::<SurveyLookRequest>(meta, core, reply, replier);
}

/// METHOD 99.
pub(crate) fn on_group(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: SurveyGroupRequest,
    replier: Replier,
) {
    let now = meta.env.now();
    let told = |id: TransactionId, stage: Stage, age_ms: u128| SurveyedTransaction {
        transaction: Some(transaction_to(id)),
        stage: stage as i32,
        age_ms: u64::try_from(age_ms).unwrap_or(u64::MAX),
        ..SurveyedTransaction::default()
    };
    let wall = meta.env.wall().0;
    let prepared = core.state.prepared().map(|id| {
        let since = core.state.prepared_at(id).unwrap_or(wall);
        let age_ms = wall.saturating_sub(since).max(0).unsigned_abs() / 1_000_000;
        let inos = core.state.concerned_by(id).into_iter();
        SurveyedTransaction {
            groups: vec![id.home.0],
            inos: inos.map(|ino| ino.0).collect(),
            ..told(id, Stage::Prepared, age_ms)
        }
    });
    let undecided = core.running.undecided();
    let undecided =
        undecided.map(|(id, since)| told(id, Stage::Undecided, now.since(since).as_millis()));
    let telling = core.state.decided().map(|(id, others)| {
        let since = core.running.decided_at(id).unwrap_or(now);
        SurveyedTransaction {
            groups: others.iter().map(|group| group.0).collect(),
            ..told(id, Stage::Telling, now.since(since).as_millis())
        }
    });
    let all = prepared.chain(undecided).chain(telling);
    // One more than are told shows whether there are more.
    let mut transactions: Vec<SurveyedTransaction> = all.take(TRANSACTIONS_MAX + 1).collect();
    let more = transactions.len() > TRANSACTIONS_MAX;
    transactions.truncate(TRANSACTIONS_MAX);
    let reply = SurveyGroupReply {
        group: meta.settings.group,
        slots: core.state.slot_ranges(),
        transactions,
        sn: core.commits.newest().0,
        more,
        splits: core.splits,
    };
    answer::<SurveyGroupRequest>(meta, core, reply, replier);
}
