//! Whose a member's place in its pair is (`docs/protocols/founding.md`): a store has it from the first registration on,
//! until an operator has given that store up and another one has come.

use super::life::{self, Age};
use crate::group::view::id_of;
use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_pair::StoreKey;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Member, NameSpaceId, PairId};
use weft_wire::Failed;
use weft_wire::proto::{PlaceReply, PlaceRequest};

/// The store that wants a place.
#[derive(Clone, Copy)]
pub(super) struct Store {
    /// None: it does not know.
    pub name_space: Option<NameSpaceId>,
    pub key: StoreKey,
    /// As in [`weft_wire::proto::RegisterRequest`].
    pub life: u64,
    pub offered: u64,
}

/// Whether a store may have a member's place. `None`: the directory is empty.
///
/// # Errors
/// [`Failed::Misplaced`] if another one has it, or it is of another name space; [`Failed::Refused`] while an order stands
/// that an operator may take back: who asks again has it then.
pub(super) fn check(
    core: &Core,
    pair: PairId,
    member: Member,
    store: Option<Store>,
) -> Result<(), Failed> {
    if core.pairs.terms.is_none() {
        let why = "the first group decides about pairs: register there";
        return Err(Failed::Refused(why.into()));
    }
    let ours = id_of(&core.view);
    let theirs = store.and_then(|store| store.name_space);
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && ours != theirs
    {
        return Err(Failed::Misplaced(format!(
            "the directory is of name space {theirs}, and cluster {:?} is name space {ours}: set `dir` to a directory of this \
             cluster, or `meta` to the metadata servers of the one that the directory is of",
            core.view.cluster_id
        )));
    }
    if core.state.is_removed(pair) {
        return Err(Failed::Refused(format!(
            "pair {pair} was drained and removed: stop this server, or let the pair in again with \
             `weft pair add {pair}`"
        )));
    }
    let retired = core.state.retired_store(pair, member);
    let known = core.pairs.by_id.get(&pair);
    let known = known.and_then(|known| known.state().stores[member.index()]);
    let key = store.map(|store| store.key);
    // Another one may have come in its place since.
    let is_replaced = known.is_some_and(|known| retired == Some(known.0));
    if is_replaced && key == known {
        return Err(Failed::Refused(format!(
            "member {member} of pair {pair} is being replaced: stop this server, and start one with an \
             empty directory in its place, or take it back with `weft pair replace {pair} --member \
             {member} --cancel`"
        )));
    }
    let age = store.map(|store| life::age(core, pair, member, &store));
    // So of one that is let in again after it was drained, when no store is known.
    if age == Some(Age::Older) {
        return Err(Failed::Misplaced(format!(
            "the directory is an older copy of the store of member {member} of pair {pair}: what was written since it was \
             made is not in it. Put the newest one back; or, if that is lost for good, say `weft pair replace {pair} --member \
             {member}`, and start this server with another directory, which is empty. Keep this one until both copies are \
             equal"
        )));
    }
    match key {
        Some(_) if age == Some(Age::Former) => Err(former(pair, member)),
        _ if known.is_none() || is_replaced || key == known => Ok(()),
        None => Err(Failed::Misplaced(format!(
            "the directory is empty, and member {member} of pair {pair} has its store in another one. If its disk is not \
             mounted, mount it; if `dir` is not its directory, set it. If the store is lost for good: `weft pair replace \
             {pair} --member {member}`, then start this server again"
        ))),
        Some(_) => Err(former(pair, member)),
    }
}

fn former(pair: PairId, member: Member) -> Failed {
    Failed::Misplaced(format!(
        "the directory has another store than member {member} of pair {pair}: one that was given up or replaced, or that of \
         another cluster. Set `dir` to the member's own; or, if that is lost for good, say `weft pair replace {pair} --member \
         {member}`, and start this server with another directory, which is empty. Keep this one until both copies are equal"
    ))
}

pub(crate) fn on_place(
    _meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: PlaceRequest,
    replier: Replier,
) {
    let Some(member) = Member::from_index(request.member) else {
        return replier.fail(Failed::Refused("a pair has members 0 and 1".into()));
    };
    if let Err(failed) = check(core, PairId(request.pair), member, None) {
        return replier.fail(failed);
    }
    let name_space = core.view.name_space.clone();
    replier.send::<PlaceRequest>(&PlaceReply { name_space }, Payload::none());
}
