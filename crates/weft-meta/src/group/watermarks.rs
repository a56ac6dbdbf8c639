//! What each voter is known to have of the journal, in the view: `GroupMember.has`. By it an older copy of a directory is
//! known that is put back (`docs/protocols/founding.md`, "Going back in time").

use super::member::Member;
use super::view::change;
use crate::MetaError;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_group::MemberId;
use weft_types::Sn;
use weft_wire::proto::{Group, View};

/// A copy that lacks less than what came in this time may not be known for one.
const EVERY: Duration = Duration::from_secs(10);
/// It costs a change of the view: with many groups there is one in this time at most.
const EVERY_OF_ALL: Duration = Duration::from_secs(1);

/// Notes it now and then, while this member leads.
pub(super) async fn keep(member: Rc<Member>) {
    loop {
        let of_all = EVERY_OF_ALL * member.groups() as u32;
        member.env.sleep(EVERY.max(of_all)).await;
        if let Err(error) = note(&member).await {
            tracing::warn!(%error, "the view does not say how much of the journal the members have");
        }
    }
}

async fn note(member: &Member) -> Result<(), MetaError> {
    let led = |engine: &weft_group::Engine| Some((engine.record().epoch.0, engine.had()?));
    let Some((epoch, had)) = member.look(|engine, _| led(engine)) else {
        return Ok(());
    };
    let stores = member.stores();
    let (group, me) = (member.settings.group, member.settings.member);
    change(&member.env, &*member.coordinator, |view: &mut View| {
        let led = |it: &&mut Group| (it.id, it.epoch, it.active) == (group, epoch, me);
        let led = view.groups.iter_mut().find(led);
        Ok(led.is_some_and(|led| raise(led, &had, &stores)))
    })
    .await
    .map(drop)
}

/// Enters what is more than is known. False: nothing is. `stores`: the directories in which the members have it; what is
/// another one's by now is not entered.
fn raise(group: &mut Group, had: &BTreeMap<MemberId, Sn>, stores: &BTreeMap<u32, u64>) -> bool {
    let mut is_raised = false;
    for member in &mut group.members {
        let is_same = stores.get(&member.id) == Some(&member.store);
        let has = had.get(&MemberId(member.id)).filter(|_| is_same);
        if let Some(has) = has.filter(|has| has.0 > member.has) {
            member.has = has.0;
            is_raised = true;
        }
    }
    is_raised
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::GroupMember;

    #[test]
    fn what_a_directory_has_is_entered_beside_it_and_never_lowered() {
        let member = |id, store, has| GroupMember {
            id,
            store,
            has,
            ..GroupMember::default()
        };
        let mut group = Group {
            members: vec![member(1, 11, 5), member(2, 22, 9), member(3, 33, 0)],
            ..Group::default()
        };
        let had = BTreeMap::from([1, 2, 3].map(|id| (MemberId(id), Sn(7))));
        let stores = BTreeMap::from([(1, 11), (2, 22), (3, 30)]);
        assert!(raise(&mut group, &had, &stores));
        let has: Vec<u64> = group.members.iter().map(|member| member.has).collect();
        assert_eq!(has, [7, 9, 0]);
        assert!(!raise(&mut group, &had, &stores));
    }
}
