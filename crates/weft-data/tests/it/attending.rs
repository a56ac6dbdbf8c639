//! Data servers attend other replica groups than the first: these say which of their sessions live, and
//! give orders about their own objects.

use crate::bed::*;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_pair::Mode;
use weft_rpc::{CallError, Connection, Payload};
use weft_types::{Epoch, GroupId, Ino, Member, ObjectId, SessionId, Slot};
use weft_wire::Failed;
use weft_wire::proto::{self, Protocol};

const SECOND: GroupId = GroupId(1);
/// The second group's first session.
const FIRST_OF_SECOND: u64 = SessionId::first_of(SECOND).0;
/// Sessions of the second group: two that live, one that has ended.
const LIVES: u64 = FIRST_OF_SECOND + 5;
const LIVES_TOO: u64 = FIRST_OF_SECOND + 6;
const ENDED: u64 = FIRST_OF_SECOND + 4;
/// Opened after the list was made.
const LATER: u64 = FIRST_OF_SECOND + 20;
/// Long enough for whatever does not come.
const A_WHILE: Duration = Duration::from_millis(400);

async fn second(env: &Env) -> Rc<Group> {
    let group = Group::start(env, SECOND, "127.0.0.1:0").await;
    *group.live_sessions.borrow_mut() = vec![LIVES, LIVES_TOO];
    group.fenced_below.set(FIRST_OF_SECOND + 10);
    group
}

/// A bed with a second group, which both members attend.
async fn attended(env: &Env, tune: fn(&mut weft_data::Settings)) -> (Bed, Rc<Group>) {
    let group = second(env).await;
    let bed = Bed::among(env.clone(), tune, &[&group]).await;
    until(&bed, || {
        group.is_attended_by(ZERO) && group.is_attended_by(ONE)
    })
    .await;
    for member in [ZERO, ONE] {
        let connection = bed.connect(member).await;
        until_served(&bed, &connection, LIVES).await;
    }
    (bed, group)
}

async fn until(bed: &Bed, is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        bed.env.sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to be so");
}

/// What a session gets that reads.
async fn ask(bed: &Bed, connection: &Connection, session: u64) -> Result<(), Failed> {
    let request = proto::ReadRequest {
        session,
        epoch: bed.meta.state().epoch.0,
        pair: 0,
        object: Some(name(object(1))),
        offset: 0,
        length: 10,
    };
    match connection.call(&request, Payload::none()).await {
        Ok(_) => Ok(()),
        Err(CallError::Failed(failed)) => Err(failed),
        Err(error) => panic!("{error}"),
    }
}

/// The session is refused because its group has not been heard.
async fn assert_unheard(bed: &Bed, connection: &Connection, session: u64) {
    match ask(bed, connection, session).await {
        Err(Failed::Unavailable(why)) => assert!(why.contains("has not been heard"), "{why}"),
        other => panic!("{other:?}"),
    }
}

async fn until_served(bed: &Bed, connection: &Connection, session: u64) {
    for _ in 0..500 {
        if ask(bed, connection, session).await.is_ok() {
            return;
        }
        bed.env.sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", ask(bed, connection, session).await);
}

fn is_fenced(answer: Result<(), Failed>) -> bool {
    matches!(answer, Err(Failed::Fenced(_)))
}

fn is_refused<T>(answer: Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Failed(Failed::Refused(_))))
}

#[test]
fn sessions_of_a_group_are_served_once_it_has_told_which_live() {
    run(|env| async move {
        let group = second(&env).await;
        group.mute_to.set([true; 2]);
        let bed = Bed::among(env, |_| {}, &[&group]).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        bed.env.sleep(A_WHILE).await;
        for connection in [&zero, &one] {
            assert_eq!(ask(&bed, connection, SESSION).await, Ok(()));
            for session in [ENDED, LIVES, LATER] {
                assert_unheard(&bed, connection, session).await;
            }
        }
        let request = bed.write_request(LIVES, object(2), 0, 4);
        let refused = zero.call(&request, Bytes::from_static(b"soon")).await;
        assert!(matches!(
            refused,
            Err(CallError::Failed(Failed::Unavailable(_)))
        ));

        group.mute_to.set([false; 2]);
        for connection in [&zero, &one] {
            until_served(&bed, connection, LIVES).await;
            assert_eq!(ask(&bed, connection, LATER).await, Ok(()));
            assert!(is_fenced(ask(&bed, connection, ENDED).await));
            assert_eq!(ask(&bed, connection, SESSION).await, Ok(()));
        }
        assert!(bed.content(ZERO).await.is_empty(), "it was not done later");
    });
}

#[test]
fn a_fence_outlives_the_active_that_ordered_it_and_the_server_that_took_it() {
    run(|env| async move {
        let (mut bed, group) = attended(&env, |_| {}).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        let request = bed.write_request(LIVES, object(2), 0, 4);
        zero.call(&request, Bytes::from_static(b"mine"))
            .await
            .unwrap();
        // The member that leads sees to it that its twin refuses the session, too.
        assert_eq!(group.fence(ZERO, LIVES, &[object(2)]).await, [4]);
        for connection in [&zero, &one] {
            assert!(is_fenced(ask(&bed, connection, LIVES).await));
        }

        let next = second(&env).await;
        *next.live_sessions.borrow_mut() = vec![LIVES_TOO];
        *bed.meta.groups.borrow_mut() = vec![next.record()];
        *group.deposed_for.borrow_mut() = Some(next.address.clone());
        until(&bed, || {
            next.is_attended_by(ZERO) && next.is_attended_by(ONE)
        })
        .await;
        for connection in [&zero, &one] {
            until_served(&bed, connection, LIVES_TOO).await;
            assert!(is_fenced(ask(&bed, connection, LIVES).await));
        }

        let epoch = bed.meta.state().epoch.0;
        next.mute_to.set([false, true]);
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), epoch + 1).await;
        bed.up(ONE).await;
        bed.until(Mode::Both, epoch + 3).await;
        // The new process knows nothing of what the old one was told.
        let one = bed.connect(ONE).await;
        for session in [LIVES, LIVES_TOO] {
            assert_unheard(&bed, &one, session).await;
        }
        next.mute_to.set([false; 2]);
        until_served(&bed, &one, LIVES_TOO).await;
        assert!(is_fenced(ask(&bed, &one, LIVES).await));
        assert!(is_fenced(ask(&bed, &zero, LIVES).await));
    });
}

#[test]
fn who_comes_back_to_serve_hears_the_groups_first() {
    run(|env| async move {
        let (mut bed, group) = attended(&env, |_| {}).await;
        // Member 1 can be kept from the first group.
        let (other, deposed_for) = bed.meta.listen("127.0.0.1:0").await;
        let all = std::mem::replace(&mut bed.meta_addresses, vec![other]);
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        bed.meta_addresses = all;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        for session in [LIVES, LIVES_TOO] {
            until_served(&bed, &one, session).await;
        }

        // It is cut off from both groups. Its twin serves alone, and is told that a session has ended.
        group.mute_to.set([false, true]);
        *deposed_for.borrow_mut() = Some(String::new());
        until(&bed, || bed.meta.state().mode == Mode::Only(ZERO)).await;
        let settled = async || {
            let fence = proto::FenceRequest {
                session: LIVES,
                objects: vec![name(object(1))],
                ..Default::default()
            };
            group.order(ZERO, &fence).await.is_ok()
        };
        while !settled().await {
            bed.env.sleep(Duration::from_millis(10)).await;
        }
        *group.live_sessions.borrow_mut() = vec![LIVES_TOO];

        // The first group is reached again, and lets it serve: the same process, which has heard the
        // second group's list long ago.
        *deposed_for.borrow_mut() = None;
        bed.until(Mode::Both, 7).await;
        for session in [LIVES, LIVES_TOO] {
            assert_unheard(&bed, &one, session).await;
        }
        // Who has served all along goes on.
        assert_eq!(ask(&bed, &zero, LIVES_TOO).await, Ok(()));
        assert!(is_fenced(ask(&bed, &zero, LIVES).await));
        group.mute_to.set([false; 2]);
        until_served(&bed, &one, LIVES_TOO).await;
        assert!(is_fenced(ask(&bed, &one, LIVES).await));
    });
}

#[test]
fn a_group_orders_what_concerns_its_own_objects_and_sessions() {
    run(|env| async move {
        let (bed, group) = attended(&env, |_| {}).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        for (connection, ino) in [(&zero, 1), (&one, 2)] {
            let request = bed.write_request(LIVES, object(ino), 0, 4);
            let bytes = Bytes::from_static(b"mine");
            connection.call(&request, bytes).await.unwrap();
        }
        let drop = proto::DropObjectsRequest {
            epoch: bed.meta.state().epoch.0,
            objects: vec![name(object(1))],
        };
        group.order(ZERO, &drop).await.unwrap();
        let left: Vec<ObjectId> = bed.content(ONE).await.into_keys().collect();
        assert_eq!(left, [object(2)]);
        bed.assert_equal().await;
        let told = group.order(ONE, &proto::LossesRequest {}).await.unwrap();
        assert_eq!(told.losses, []);
        // Lengths only: nobody is fenced by that.
        assert_eq!(group.fence(ONE, 0, &[object(2)]).await, [4]);

        // What is another group's to order.
        let state = bed.meta.state();
        let alone = weft_pair::PairState {
            epoch: Epoch(state.epoch.0 + 1),
            mode: Mode::Only(ONE),
            ..state
        };
        let order = proto::SetStateRequest {
            state: Some(alone.to_proto()),
            peer_address: String::new(),
        };
        assert!(is_refused(group.order(ONE, &order).await));
        let scrub = proto::ScrubRequest::default();
        assert!(is_refused(group.order(ONE, &scrub).await));
        let fence = |session| proto::FenceRequest {
            session,
            refuse_only: true,
            ..Default::default()
        };
        assert!(is_refused(group.order(ONE, &fence(SESSION)).await));
        assert!(is_refused(bed.meta.order(ONE, &fence(LIVES)).await));
        for session in [SESSION, LIVES] {
            assert_eq!(ask(&bed, &one, session).await, Ok(()));
        }
        assert_eq!(bed.server(ONE).state(), Some(state));
    });
}

#[test]
fn a_recovery_waits_for_the_sessions_of_every_group() {
    run(|env| async move {
        let (mut bed, group) = attended(&env, |_| {}).await;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, b"both").await.unwrap();
        group.unsettled.set(1);
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 3).await;
        bed.up(ZERO).await;
        bed.until(Mode::Recovering(ONE), 4).await;
        let waits = async |why: &str| {
            bed.env.sleep(A_WHILE * 2).await;
            assert_eq!(bed.meta.state().mode, Mode::Recovering(ONE), "{why}");
        };
        waits("a session of the second group").await;
        *group.deposed_for.borrow_mut() = Some(String::new());
        until(&bed, || !group.is_attended_by(ONE)).await;
        group.unsettled.set(0);
        waits("the second group, of which nobody leads").await;
        *group.deposed_for.borrow_mut() = None;
        bed.until(Mode::Both, 5).await;

        // The other way round.
        bed.meta.unsettled.set(1);
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 6).await;
        bed.up(ZERO).await;
        bed.until(Mode::Recovering(ONE), 7).await;
        bed.env.sleep(A_WHILE * 2).await;
        assert_eq!(bed.meta.state().mode, Mode::Recovering(ONE));
        bed.meta.unsettled.set(0);
        bed.until(Mode::Both, 8).await;
        bed.assert_equal().await;
    });
}

/// A client of the second group and the member that alone had what it wrote die.
#[test]
fn what_is_back_is_told_to_the_group_that_has_the_slot() {
    run(|env| async move {
        let group = second(&env).await;
        let mut bed = Bed::among(env, |_| {}, &[&group]).await;
        let range = |first, last, group| proto::SlotRange { first, last, group };
        *bed.meta.slots.borrow_mut() = vec![range(0, 2047, 0), range(2048, 4095, 1)];
        bed.meta.part();
        let (here, there) = (
            object(1),
            ObjectId {
                ino: Ino::new(Slot(3000), 7),
                generation: 2,
            },
        );
        bed.until(Mode::Both, 2).await;
        let send = async |to: &[&Connection], session, object, bytes: &'static [u8]| {
            let mut request = bed.write_request(session, object, 0, bytes.len());
            request.protocol = Protocol::ClientAsync.into();
            for connection in to {
                let payload = Bytes::from_static(bytes);
                connection.call(&request, payload).await.unwrap();
            }
            request.operation + 1
        };
        {
            let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
            until_served(&bed, &zero, LIVES).await;
            until_served(&bed, &one, LIVES).await;
            for (session, object) in [(SESSION, here), (LIVES, there)] {
                let below = send(&[&zero, &one], session, object, b"both").await;
                for connection in [&zero, &one] {
                    connection.notify(&proto::Confirmed {
                        session,
                        below,
                        given_up: Vec::new(),
                    });
                }
                bed.env.sleep(Duration::from_millis(30)).await;
                send(&[&zero], session, object, b"alone").await;
            }
        }
        group.unsettled.set(1);
        bed.meta.unsettled.set(1);
        let epoch = bed.meta.state().epoch.0;
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), epoch + 1).await;
        for (session, object) in [(SESSION, here), (LIVES, there)] {
            let fence = proto::FenceRequest {
                session,
                objects: vec![name(object)],
                settled_epoch: epoch,
                asynchronous: vec![true],
                ..Default::default()
            };
            match session {
                SESSION => drop(bed.meta.order(ONE, &fence).await.unwrap()),
                _ => drop(group.order(ONE, &fence).await.unwrap()),
            }
        }
        assert_eq!(bed.server(ONE).store().losses(None).len(), 2);
        group.unsettled.set(0);
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, epoch + 3).await;
        assert_eq!(bed.content(ONE).await[&there], b"alone");
        until(&bed, || !group.returned.borrow().is_empty()).await;
        until(&bed, || !bed.meta.returned.borrow().is_empty()).await;
        assert_eq!(*group.returned.borrow(), [there]);
        assert_eq!(*bed.meta.returned.borrow(), [here]);
    });
}

#[test]
fn an_active_that_hangs_is_left_for_the_one_that_leads() {
    run(|env| async move {
        // Waiting in vain would take longer than this test does.
        let (bed, group) = attended(&env, |settings| settings.link_patience_ms = 60_000).await;
        let next = second(&env).await;
        *next.deposed_for.borrow_mut() = Some(group.address.clone());
        *bed.meta.groups.borrow_mut() = vec![next.record()];
        // Both members learn of the other address.
        bed.meta.part();
        bed.until(Mode::Both, 2).await;
        let state = bed.meta.state();
        group.mute_to.set([true; 2]);
        bed.env.sleep(A_WHILE).await;
        assert!(group.is_attended_by(ZERO), "nobody else leads");
        *next.deposed_for.borrow_mut() = None;
        until(&bed, || {
            next.is_attended_by(ZERO) && next.is_attended_by(ONE)
        })
        .await;
        until(&bed, || !group.is_attended_by(ZERO)).await;
        // All this proves nothing about the members.
        assert_eq!(bed.meta.state(), state);
        let zero = bed.connect(ZERO).await;
        assert_eq!(ask(&bed, &zero, LIVES_TOO).await, Ok(()));
    });
}

#[test]
fn sessions_are_served_while_their_group_has_no_active() {
    run(|env| async move {
        let (bed, group) = attended(&env, |_| {}).await;
        let (zero, state) = (bed.connect(ZERO).await, bed.meta.state());
        *group.deposed_for.borrow_mut() = Some(String::new());
        until(&bed, || !group.is_attended_by(ZERO)).await;
        bed.env.sleep(A_WHILE).await;
        assert_eq!(ask(&bed, &zero, LIVES).await, Ok(()));
        assert!(is_fenced(ask(&bed, &zero, ENDED).await));
        assert_eq!(bed.meta.state(), state);
        let before: [usize; 2] = group.attended.get();
        *group.deposed_for.borrow_mut() = None;
        until(&bed, || group.is_attended_by(ZERO)).await;
        assert_eq!(group.attended.get()[0], before[0] + 1);
    });
}

#[test]
fn groups_that_come_are_attended_and_groups_that_go_are_left() {
    run(|env| async move {
        let (second, third) = (
            second(&env).await,
            Group::start(&env, GroupId(2), "127.0.0.1:0").await,
        );
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        assert_unheard(&bed, &zero, LIVES).await;
        let by_both =
            |group: &Group| [ZERO, ONE].map(|member: Member| group.is_attended_by(member));
        // Nobody knows the third one's addresses yet, when the members register.
        let mut unknown = third.record();
        unknown.members.clear();
        *bed.meta.groups.borrow_mut() = vec![second.record(), unknown];
        bed.meta.part();
        until(&bed, || by_both(&second) == [true; 2]).await;
        *bed.meta.groups.borrow_mut() = vec![second.record(), third.record()];
        until(&bed, || by_both(&third) == [true; 2]).await;
        until_served(&bed, &zero, LIVES).await;

        *bed.meta.groups.borrow_mut() = vec![third.record()];
        bed.meta.part();
        until(&bed, || by_both(&second) == [false; 2]).await;
        bed.env.sleep(A_WHILE).await;
        assert_eq!(by_both(&second), [false; 2]);
        assert_eq!(by_both(&third), [true; 2]);
        assert_eq!(third.attended.get(), [1; 2], "it was left alone");
    });
}
