//! Stores that went back in time (`docs/protocols/founding.md`): each renews its *life* now and then, a number that is
//! noted in the journal. A store that comes with another one is an older copy; or it is the name space that is older.

use super::place::Store;
use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_pair::StoreKey;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Member, PairId};
use weft_wire::Failed;
use weft_wire::proto::{self, RenewLifeReply, RenewLifeRequest, op};

/// What a store's life says beside the one that was noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// It is the store as it was known last.
    Known,
    /// It is an older copy.
    Older,
    /// It has lived on since this name space noted that: the name space went back.
    Newer,
    /// It has lived, and another one has come in its place since.
    Former,
}

/// A store renews its life one by one. Some more may have been noted in what the name space has lost.
const AHEAD_MAX: u64 = 1 << 24;

/// The later of two lives has the greater count.
fn count(life: u64) -> u64 {
    life >> 32
}

pub(super) fn age(core: &Core, pair: PairId, member: Member, store: &Store) -> Age {
    let known = core.pairs.by_id.get(&pair);
    let is_known =
        known.is_some_and(|known| known.state().stores[member.index()] == Some(store.key));
    let noted = match core.state.life(pair, member) {
        Some(noted) if noted.store == store.key.0 => noted.life,
        // New.
        _ if count(store.life) == 0 => return Age::Known,
        Some(_) if !is_known => return Age::Former,
        // The pair knows it, and its first life was lost.
        Some(_) => return Age::Newer,
        None => return Age::Newer,
    };
    // It may have been killed before it heard that what it offered was noted.
    let is_known = noted == store.life || noted == store.offered;
    match count(store.life) > count(noted) {
        _ if is_known => Age::Known,
        true => Age::Newer,
        false => Age::Older,
    }
}

/// A store is newer than this name space: what was decided since is lost, and no number that was given then is given again.
pub(super) fn went_back(
    meta: &Rc<Meta>,
    core: &mut Core,
    pair: PairId,
    member: Member,
    store: &Store,
) {
    // Once in a reign: what is given since is above all that can have been given before.
    if std::mem::replace(&mut core.pairs.has_skipped, true) {
        return note_known(meta, core, (pair, member), store);
    }
    let skip = proto::SkipNumbers { forced: 0 };
    let (_, sn) = meta.apply_own(core, op::Op::SkipNumbers(skip));
    core.pairs.may_have_lost();
    meta.when_committed(core, sn, move |_, _, result| {
        // Else another server leads, and may well have noted that life.
        if result.is_ok() {
            tracing::error!(%pair, %member,
                "the metadata service has an older state than this data server knew: names and changes since then are lost. If \
                 its newer directories are there, put them back; numbers of inodes go on above those that may have been given");
        }
    });
    note_known(meta, core, (pair, member), store);
}

/// A pair that is not there yet has its lives noted when it is.
fn note_known(meta: &Rc<Meta>, core: &mut Core, (pair, member): (PairId, Member), store: &Store) {
    if core.state.pair_state(pair).is_some() {
        note(meta, core, pair, member, store.key, store.life);
    }
}

fn note(
    meta: &Rc<Meta>,
    core: &mut Core,
    pair: PairId,
    member: Member,
    store: StoreKey,
    life: u64,
) -> (proto::OpReply, weft_types::Sn) {
    let note = proto::NoteLife {
        pair: pair.0,
        member: member.index() as u32,
        store: store.0.get(),
        life,
    };
    meta.apply_own(core, op::Op::NoteLife(note))
}

pub(crate) fn on_renew(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: RenewLifeRequest,
    replier: Replier,
) {
    let id = PairId(request.pair);
    let key = StoreKey::of(&request.store_id);
    let registered = Member::from_index(request.member)
        .filter(|member| core.pairs.number_of(id, *member, connection).is_some())
        .filter(|member| {
            let pair = core.pairs.by_id.get(&id);
            pair.is_some_and(|pair| pair.state().stores[member.index()] == Some(key))
        });
    let Some(member) = registered else {
        return replier.fail(Failed::Unavailable(
            "the pair does not know this store yet".into(),
        ));
    };
    let noted = core.state.life(id, member);
    let noted = noted.filter(|noted| noted.store == key.0);
    let last = noted.map_or(0, |noted| noted.life);
    if last != request.life && count(request.life) <= count(last) {
        return replier.fail(Failed::Misplaced(
            "a later life of this store was noted: another copy of its directory has been in use since".into(),
        ));
    }
    if count(request.life) - count(last) > AHEAD_MAX {
        return replier.fail(Failed::Refused("no store has so many lives at once".into()));
    }
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    let (_, sn) = note(meta, core, id, member, key, request.life);
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(_) => replier.send::<RenewLifeRequest>(&RenewLifeReply {}, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}
