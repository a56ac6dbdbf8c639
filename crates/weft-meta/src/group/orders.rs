//! What operators ask and order: how far a member is, who comes, who goes, who leads when nobody can be elected
//! any more. `weft group` sends these; the rules are the engine's.

use super::view::{self, group_of};
use super::{Member, restore};
use crate::Settings;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_group::{Input, MemberId};
use weft_rpc::{Payload, Replier, Request};
use weft_wire::proto::{
    AdmitMemberReply, AdmitMemberRequest, DismissMemberReply, DismissMemberRequest,
    ForceMemberReply, ForceMemberRequest, GroupMember, GroupStatusReply, GroupStatusRequest,
    VacateMemberReply, VacateMemberRequest,
};
use weft_wire::{ADDRESS_BYTES_MAX, Failed, MEMBERS_MAX, Rpc};

/// Whoever is asked who it is answers within this time, or is not there.
const WHO_PATIENCE: Duration = Duration::from_secs(1);
/// An order that is not carried out by then goes on by itself as long as the reign lasts, but whoever gave it is
/// told. Less than a tool waits for an answer.
const ORDER_PATIENCE: Duration = Duration::from_secs(6);
/// What could not be done at once is tried again after this.
const RETRY: Duration = Duration::from_millis(20);
/// An active that gives way takes no longer than this to end what it has begun.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// Handles one of them.
pub(crate) fn on_order(member: &Rc<Member>, request: Request) {
    match request.method {
        GroupStatusRequest::METHOD => {
            let reply = status(member);
            let replier = request.replier;
            replier.send::<GroupStatusRequest>(&reply, Payload::none());
        }
        AdmitMemberRequest::METHOD => {
            let of = member.clone();
            handle::<AdmitMemberRequest, _>(member, request, async move |asked, replier| {
                match admit(&of, &asked.address).await {
                    Ok(reply) => replier.send::<AdmitMemberRequest>(&reply, Payload::none()),
                    Err(failed) => replier.fail(failed),
                }
            });
        }
        DismissMemberRequest::METHOD => {
            let of = member.clone();
            handle::<DismissMemberRequest, _>(member, request, async move |asked, replier| {
                dismiss(&of, MemberId(asked.member), replier).await;
            });
        }
        VacateMemberRequest::METHOD => {
            let of = member.clone();
            handle::<VacateMemberRequest, _>(member, request, async move |asked, replier| {
                match vacate(&of, MemberId(asked.member)).await {
                    Ok(reply) => replier.send::<VacateMemberRequest>(&reply, Payload::none()),
                    Err(failed) => replier.fail(failed),
                }
            });
        }
        ForceMemberRequest::METHOD => {
            let of = member.clone();
            handle::<ForceMemberRequest, _>(member, request, async move |asked, replier| {
                match force(&of, MemberId(asked.member)).await {
                    Ok(reply) => replier.send::<ForceMemberRequest>(&reply, Payload::none()),
                    Err(failed) => replier.fail(failed),
                }
            });
        }
        method => {
            let why = format!("method {method} is no order");
            request.replier.fail(Failed::Refused(why));
        }
    }
}

/// In a task that ends with the life.
fn handle<R: Rpc + 'static, F>(member: &Member, request: Request, on: F)
where
    F: AsyncFnOnce(R, Replier) + 'static,
{
    match request.decode::<R>() {
        Ok(asked) => {
            let task = async move { on(asked, request.replier).await };
            member.spawn("order", task);
        }
        Err(failed) => request.replier.fail(failed),
    }
}

/// How far this member is, and what it knows.
fn status(member: &Member) -> GroupStatusReply {
    let view = member.view.borrow();
    let (image_bytes, image_total_bytes) = member.image_progress.get();
    member.look(|engine, now| {
        let (last_epoch, last) = engine.shape().rank();
        let hears = engine.following().filter(|_| engine.hears(now));
        GroupStatusReply {
            group: member.settings.group,
            member: member.settings.member,
            store: member.store,
            address: member.address.clone(),
            record: group_of(&view, member.settings.group).cloned(),
            view_version: view.version,
            epoch: engine.floor().0,
            last: last.0,
            last_epoch: last_epoch.0,
            durable: engine.durable().0,
            committed: engine.committed().0,
            leads: member.answers(),
            hears: hears.map_or(0, |other| other.0),
            is_intact: engine.is_intact(),
            image_bytes,
            image_total_bytes,
        }
    })
}

/// Who answers at an address, and how far that one is.
pub(super) async fn who_is_at(
    env: &Env,
    settings: &Settings,
    address: &str,
) -> std::io::Result<GroupStatusReply> {
    let asking = async {
        let connection = restore::connect(env, settings, address, WHO_PATIENCE).await?;
        let answer = connection
            .call(&GroupStatusRequest {}, Payload::none())
            .await;
        connection.close("it has said who it is");
        answer
            .map(|(reply, _)| reply)
            .map_err(std::io::Error::other)
    };
    let answer = env.timeout(WHO_PATIENCE, asking).await;
    answer.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
}

/// Refuses what only the active does.
fn check_leads(member: &Member) -> Result<(), Failed> {
    match member.reign() {
        Some(_) => Ok(()),
        None => Err(member.who_leads(member.settings.group)),
    }
}

/// What the view has of a member.
fn known(member: &Member, id: MemberId) -> Option<GroupMember> {
    let view = member.view.borrow();
    let mut members = group_of(&view, member.settings.group)?.members.iter();
    members.find(|known| known.id == id.0).cloned()
}

/// Tells the engine again and again, until the view is as wanted.
async fn carry_out(
    member: &Rc<Member>,
    order: Input,
    is_done: impl Fn() -> bool,
) -> Result<(), Failed> {
    let deadline = member.env.now() + ORDER_PATIENCE;
    loop {
        if is_done() {
            return Ok(());
        }
        check_leads(member)?;
        if member.env.now() > deadline {
            return Err(Failed::Unavailable(
                "it could not be done yet, and is tried on while this member leads: look at `weft group status`"
                    .into(),
            ));
        }
        let viewed = member.viewed.notified();
        member.drive(order.clone());
        // Either way it is looked again.
        let _: Result<(), _> = member.env.timeout(RETRY, viewed).await;
    }
}

async fn admit(member: &Rc<Member>, address: &str) -> Result<AdmitMemberReply, Failed> {
    check_leads(member)?;
    let new = applicant(member, address).await?;
    let id = MemberId(new.member);
    if let Some(known) = known(member, id) {
        if known.store == new.store {
            return Ok(AdmitMemberReply {
                member: id.0,
                is_known: true,
            });
        }
        let at = match known.address.as_str() {
            "" => "one that has never been started".to_owned(),
            at => format!("the server at {at}"),
        };
        return Err(Failed::Refused(format!(
            "member {id} is {at}: give the server at {address} a `member` that is not taken"
        )));
    }
    if new.last > 0 {
        return Err(Failed::Refused(format!(
            "the server at {address} has a journal already, of another group or of the time before it was \
             removed: start it with an empty directory"
        )));
    }
    let members = member.look(|engine, _| engine.record().members().count());
    if members >= MEMBERS_MAX {
        return Err(Failed::Refused(format!(
            "the group has {members} members, which is the most"
        )));
    }
    tracing::info!(member = %id, address = new.address, "letting a member in");
    let entry = GroupMember {
        id: id.0,
        address: new.address,
        store: new.store,
        ..GroupMember::default()
    };
    {
        let mut admitted = member.admitted.borrow_mut();
        admitted.retain(|other| other.id != id.0);
        admitted.push(entry);
    }
    carry_out(member, Input::Admit(id), || known(member, id).is_some()).await?;
    Ok(AdmitMemberReply {
        member: id.0,
        is_known: false,
    })
}

/// Who is to be let in: it must be reached where it says that it is.
async fn applicant(member: &Member, address: &str) -> Result<GroupStatusReply, Failed> {
    if address.is_empty() || address.len() > ADDRESS_BYTES_MAX {
        return Err(Failed::Refused("that is no address".into()));
    }
    let (env, settings) = (&member.env, &member.settings);
    let found = who_is_at(env, settings, address).await.map_err(|error| {
        Failed::Refused(format!(
            "no metadata server of cluster {:?} answers at {address} ({error}): start it first, with its \
             `member`, the `coordinator` and the `cluster_id` of this cluster",
            settings.cluster_id
        ))
    })?;
    if found.group != settings.group {
        return Err(Failed::Refused(format!(
            "the server at {address} is set to be of group {}, and this is group {}",
            found.group, settings.group
        )));
    }
    if found.member == settings.member && found.store == member.store {
        return Ok(found);
    }
    let is_right = found.address == address
        || who_is_at(env, settings, &found.address)
            .await
            .is_ok_and(|other| other.store == found.store);
    if !is_right {
        return Err(Failed::Refused(format!(
            "the server at {address} would be sought at {:?}, where it does not answer: set its `listen` to \
             an address that the others reach",
            found.address
        )));
    }
    Ok(found)
}

async fn dismiss(member: &Rc<Member>, id: MemberId, replier: Replier) {
    let outcome = match check_leads(member) {
        Err(failed) => Err(failed),
        Ok(()) if known(member, id).is_none() => Err(Failed::Refused(no_such(member, id))),
        Ok(()) if id.0 == member.settings.member => {
            return match may_give_way(member) {
                Ok(()) => give_way(member, replier).await,
                Err(failed) => replier.fail(failed),
            };
        }
        Ok(()) => {
            tracing::info!(member = %id, "removing a member");
            carry_out(member, Input::Dismiss(id), || known(member, id).is_none()).await
        }
    };
    match outcome {
        Ok(()) => {
            member
                .admitted
                .borrow_mut()
                .retain(|other| other.id != id.0);
            let reply = DismissMemberReply { yields: false };
            replier.send::<DismissMemberRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    }
}

/// The directory of a member is lost: the next empty one that is started under its number takes its place.
async fn vacate(member: &Rc<Member>, id: MemberId) -> Result<VacateMemberReply, Failed> {
    check_leads(member)?;
    let known = known(member, id).ok_or_else(|| Failed::Refused(no_such(member, id)))?;
    if known.store == 0 {
        return Ok(VacateMemberReply { was_vacant: true });
    }
    let (env, settings) = (&member.env, &member.settings);
    let found = match known.address.as_str() {
        "" => None,
        address => who_is_at(env, settings, address).await.ok(),
    };
    let is_it =
        |found: &GroupStatusReply| (found.group, found.store) == (settings.group, known.store);
    if known.id == settings.member || found.as_ref().is_some_and(is_it) {
        return Err(Failed::Refused(format!(
            "member {id} is alive at {}, with its directory: stop it first if that is to be replaced",
            known.address
        )));
    }
    tracing::warn!(member = %id, at = known.address, "an operator says that this member's directory is lost");
    let group = settings.group;
    let vacated = view::change(env, &*member.coordinator, |view| {
        let groups = view.groups.iter_mut().filter(|it| it.id == group);
        let place = groups
            .flat_map(|it| &mut it.members)
            .find(|it| (it.id, it.store, &it.address) == (id.0, known.store, &known.address));
        // Another is there by now, or nobody: nothing is left to do.
        let Some(place) = place else { return Ok(false) };
        place.lost = std::mem::take(&mut place.store);
        place.address.clear();
        Ok(true)
    });
    let vacated = env.timeout(ORDER_PATIENCE, vacated).await;
    match vacated {
        Ok(Ok(_)) => Ok(VacateMemberReply { was_vacant: false }),
        Ok(Err(error)) => Err(Failed::Unavailable(error.to_string())),
        Err(_) => Err(Failed::Unavailable(
            "the coordinator does not answer: try again when it does".into(),
        )),
    }
}

/// What `weft group` is told besides, in messages: which group, where that is not the first.
pub(super) fn of_group(group: u32) -> String {
    match group {
        0 => String::new(),
        group => format!(" --group {group}"),
    }
}

fn no_such(member: &Member, id: MemberId) -> String {
    let members = member.look(|engine, _| {
        let members = engine.record().members();
        members.map(|known| known.to_string()).collect::<Vec<_>>()
    });
    format!(
        "group {} has no member {id}; it has {}",
        member.settings.group,
        members.join(", ")
    )
}

/// Whether the others can go on without this active, as far as it knows.
fn may_give_way(member: &Member) -> Result<(), Failed> {
    let (others, needed) = member.look(|engine, _| {
        let record = engine.record();
        let is_there = |other| other != engine.me() && engine.is_connected(other);
        (record.count(is_there), record.election_quorum())
    });
    match others >= needed {
        true => Ok(()),
        false => Err(Failed::Refused(format!(
            "member {} leads, and no other one could: of the standbys {others} are there, and {needed} are \
             needed. Let others in and wait until they are standbys (`weft group status`)",
            member.settings.member
        ))),
    }
}

/// Another is to lead: what has been begun is ended, and whoever ordered it is told to ask that one.
async fn give_way(member: &Rc<Member>, replier: Replier) {
    tracing::info!("giving way to another active, to be removed");
    if let Some(reign) = member.reign() {
        let drained = member.env.timeout(DRAIN_PATIENCE, reign.drain()).await;
        if drained.is_err() {
            tracing::warn!("giving way although the journals have not taken everything");
        }
    }
    let reply = DismissMemberReply { yields: true };
    replier.send::<DismissMemberRequest>(&reply, Payload::none());
    // Answers that are on their way leave before the connections close.
    member.env.sleep(Duration::from_millis(1)).await;
    member.give_way();
}

async fn force(member: &Rc<Member>, asked: MemberId) -> Result<ForceMemberReply, Failed> {
    let me = member.settings.member;
    if asked.0 != me {
        return Err(Failed::Refused(format!("this is member {me}, not {asked}")));
    }
    if !member.is_member() {
        return Err(Failed::Refused(
            "this server is no member of its group".into(),
        ));
    }
    if member.reign().is_some() {
        return Err(Failed::Refused("this member leads already".into()));
    }
    let deadline = member.env.now() + ORDER_PATIENCE;
    tracing::warn!(
        member = me,
        "an operator forces this member to lead with what it has"
    );
    loop {
        let changed = member.changed.notified();
        if member.answers() {
            member.is_forced.set(false);
            let reply = |engine: &weft_group::Engine| ForceMemberReply {
                epoch: engine.floor().0,
                sn: engine.committed().0,
            };
            return Ok(member.look(|engine, _| reply(engine)));
        }
        let heard = member.look(|engine, now| engine.following().filter(|_| engine.hears(now)));
        if let Some(other) = heard {
            member.is_forced.set(false);
            return Err(Failed::Refused(format!(
                "member {other} leads, or is about to, and is heard here: nobody need be forced"
            )));
        }
        if member.env.now() > deadline {
            member.is_forced.set(false);
            return Err(Failed::Unavailable(
                "it does not lead yet: does the coordinator answer? `weft group status` shows who leads"
                    .into(),
            ));
        }
        member.is_forced.set(true);
        member.drive(Input::Force);
        // Either way it is looked again.
        let _: Result<(), _> = member.env.timeout(RETRY, changed).await;
    }
}
