//! Messages between gateways and the metadata service, with tokens and as if there were none.

mod counting;

use crate::gates;
use crate::group::in_world;
use counting::{Amount, Cost, Costs, Keeping, Kind, Workload, measure};
use std::cell::RefCell;
use std::rc::Rc;

/// What a run in a world of its own costs.
fn costs(keeping: Keeping, workload: Workload, amount: Amount) -> Costs {
    let told: Rc<RefCell<Costs>> = Rc::default();
    let tell = told.clone();
    in_world(7, async move |world| {
        let (_group, _servers, gates) = gates::cluster::<3>(&world).await;
        *tell.borrow_mut() = measure(&world, &gates, keeping, workload, amount).await;
    });
    told.take()
}

const AMOUNT: Amount = Amount {
    gateways: 3,
    files: 2,
    rounds: 5,
};

#[test]
fn what_is_ones_own_is_told_without_a_message() {
    let with = costs(Keeping::Tokens, Workload::Own, AMOUNT);
    let without = costs(Keeping::Nothing, Workload::Own, AMOUNT);
    for kind in [Kind::Lookup, Kind::Getattr, Kind::Read] {
        // Of what was read the time of access is told, once, when the file is closed.
        let told = match kind {
            Kind::Read => 2 * with[&kind].operations,
            _ => 0,
        };
        assert_eq!(with[&kind].messages, told, "{kind:?}");
        assert_eq!(with[&kind].operations, without[&kind].operations);
        assert!(without[&kind].messages >= 2 * without[&kind].operations);
    }
    // Who has the token is no worse off than who fetches once and tells what is old.
    let (all, relaxed) = (counting::all(&with), counting::all(&with).relaxed);
    assert_eq!(all.revocations, 0);
    assert_eq!((all.messages, all.stale), (relaxed, 0));
}

#[test]
fn what_is_being_written_costs_others_four_messages() {
    let with = costs(Keeping::Tokens, Workload::Written, AMOUNT);
    let without = costs(Keeping::Nothing, Workload::Written, AMOUNT);
    let looked = with[&Kind::Getattr];
    let each = |of: fn(&Cost) -> u64| looked.each(of);
    assert_eq!(looked.operations, 2 * 2 * 5);
    assert!(each(|it| it.messages) <= 4.0, "{looked:?}");
    assert!(each(|it| it.revocations) <= 1.0, "{looked:?}");
    assert!(looked.revocations > 0, "the writer is asked: {looked:?}");
    let asked = without[&Kind::Getattr];
    assert_eq!(
        (asked.messages, asked.revocations),
        (2 * asked.operations, 0)
    );
    // Fetched once, then old: all but the first look at a file from each of the two others.
    assert_eq!((looked.relaxed, looked.stale), (2 * 2 * 2, 2 * 2 * 4));
}

#[test]
fn what_nobody_writes_is_asked_for_once() {
    let with = costs(Keeping::Tokens, Workload::Read, AMOUNT);
    let more = Amount {
        rounds: 10,
        ..AMOUNT
    };
    let longer = costs(Keeping::Tokens, Workload::Read, more);
    for kind in [Kind::Lookup, Kind::Getattr, Kind::Read] {
        assert_eq!(with[&kind].messages, longer[&kind].messages, "{kind:?}");
        assert!(longer[&kind].operations > with[&kind].operations);
    }
    let looked = counting::all(&with);
    assert_eq!(looked.stale, 0);
}
