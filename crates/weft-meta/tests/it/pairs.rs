//! The states of pairs, with data servers that only answer.

use crate::support::*;
use pair_state::Mode;
use std::time::Duration;
use weft_rpc::{CallError, Payload};
use weft_wire::Failed;
use weft_wire::proto::job::What;
use weft_wire::proto::*;

#[test]
fn a_member_that_dies_comes_back_and_is_filled() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let [zero, one] = pair(&env, server.address(), 0).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let epoch = zero.state.borrow().epoch;
        let suspect = SuspectRequest {
            pair: 0,
            epoch,
            member: 1,
        };
        let (connection, begin) = (client.connection.clone(), env.now());
        one.die();
        let told = connection
            .call(&suspect, Payload::none())
            .await
            .unwrap()
            .0
            .state
            .unwrap();
        let took = env.now().since(begin);
        assert_eq!((told.mode(), told.serving), (Mode::Only, 0));
        assert!(
            took < Duration::from_millis(250),
            "its end is seen, not its silence: {took:?}"
        );
        until(&env, "the member is told", || {
            zero.mode() == (Mode::Only, 0)
        })
        .await;
        until(&env, "clients are told", || {
            client
                .manners
                .states
                .borrow()
                .iter()
                .any(|state| state.mode() == Mode::Only)
        })
        .await;

        let one = Member::start(&env, server.address(), 0, 1).await;
        until(&env, "it is being filled", || {
            zero.mode() == (Mode::Recovering, 0) && one.mode() == (Mode::Recovering, 0)
        })
        .await;
        zero.recovered().await;
        until(&env, "both serve", || {
            zero.mode().0 == Mode::Both && one.mode().0 == Mode::Both
        })
        .await;
        server.stop().await;
    });
}

#[test]
fn a_member_that_hangs_is_left_out_when_its_right_has_run_out() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let [zero, one] = pair(&env, server.address(), 0).await;
        let begin = env.now();
        zero.hang();
        until(&env, "the other serves alone", || {
            one.mode() == (Mode::Only, 1)
        })
        .await;
        let took = env.now().since(begin);
        assert!(took >= Duration::from_millis(250), "{took:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        server.stop().await;
    });
}

#[test]
fn a_suspicion_alone_changes_nothing() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let [zero, _one] = pair(&env, server.address(), 0).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let epoch = zero.state.borrow().epoch;
        let begin = env.now();
        let suspect = SuspectRequest {
            pair: 0,
            epoch,
            member: 1,
        };
        let told = client.call(&suspect).await.unwrap();
        assert_eq!(told.state.unwrap().epoch, epoch);
        assert_eq!(
            told.members.unwrap().addresses,
            ["127.0.0.1:9000", "127.0.0.1:9001"]
        );
        let took = env.now().since(begin);
        assert!(
            took > Duration::from_millis(500) && took < Duration::from_secs(3),
            "{took:?}"
        );
        // An old epoch is answered at once.
        let suspect = SuspectRequest {
            pair: 0,
            epoch: epoch - 1,
            member: 1,
        };
        client.call(&suspect).await.unwrap();
        assert!(env.now().since(begin) < took + Duration::from_millis(200));
        server.stop().await;
    });
}

#[test]
fn a_members_place_is_taken_once_and_vacant_again_when_its_store_is_given_up() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let tool = tool(&env, server.address()).await;
        let place = async || {
            let request = PlaceRequest { pair: 0, member: 1 };
            tool.call(&request, Payload::none()).await
        };
        let name_space = place().await.unwrap().0.name_space;
        assert_eq!(name_space.len(), 16);
        let [zero, one] = pair(&env, server.address(), 0).await;
        assert_eq!(
            one.welcome.borrow().as_ref().unwrap().name_space,
            name_space
        );
        let refused = place().await.unwrap_err().to_string();
        assert!(
            refused.contains("weft pair replace 0 --member 1"),
            "{refused}"
        );
        // Neither another store has it, nor its own of another name space.
        let register = |store: &str, name_space: &[u8]| RegisterRequest {
            member: 1,
            address: "127.0.0.1:9009".into(),
            incarnation: 7,
            store_id: store.into(),
            name_space: name_space.to_vec().into(),
            ..RegisterRequest::default()
        };
        let other = [&name_space[..15], &[!name_space[15]]].concat();
        for (request, why) in [
            (register("another", &name_space), "another store"),
            (register("store-0-1", &other), "is of name space"),
        ] {
            let refused = tool.call(&request, Payload::none()).await.unwrap_err();
            assert!(
                matches!(&refused, CallError::Failed(Failed::Misplaced(said)) if said.contains(why)),
                "{refused}"
            );
        }
        assert_eq!(zero.mode().0, Mode::Both);

        one.die();
        until(&env, "one goes on alone", || zero.mode() == (Mode::Only, 0)).await;
        place().await.unwrap_err();
        let replace = ReplaceMemberRequest {
            member: 1,
            ..ReplaceMemberRequest::default()
        };
        tool.call(&replace, Payload::none()).await.unwrap();
        place().await.unwrap();
        let _new = Member::with_store(&env, server.address(), 0, 1, "another").await;
        until(&env, "it is being filled", || {
            zero.mode() == (Mode::Recovering, 0)
        })
        .await;
        zero.recovered().await;
        place().await.unwrap_err();
        let old = register("store-0-1", &name_space);
        let refused = tool.call(&old, Payload::none()).await.unwrap_err();
        assert!(
            matches!(refused, CallError::Failed(Failed::Misplaced(_))),
            "{refused}"
        );
        server.stop().await;
    });
}

#[test]
fn an_older_copy_of_a_store_is_refused_and_a_newer_one_tells_that_the_name_space_went_back() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let [zero, one] = pair(&env, server.address(), 0).await;
        let life = |count: u64, random: u64| count << 32 | random;
        let renew = async |member: &Member, life| {
            let request = RenewLifeRequest {
                pair: 0,
                member: 1,
                store_id: "store-0-1".into(),
                life,
            };
            member.connection.call(&request, Payload::none()).await
        };
        renew(&zero, life(1, 1)).await.unwrap_err();
        for count in 1..=3 {
            renew(&one, life(count, 9)).await.unwrap();
        }
        for earlier in [life(2, 9), life(3, 8)] {
            let refused = renew(&one, earlier).await.unwrap_err().to_string();
            assert!(refused.contains("a later life"), "{refused}");
        }
        one.die();
        until(&env, "one goes on alone", || zero.mode() == (Mode::Only, 0)).await;
        let come = async |life, offered_life| {
            // One that is let in has its connection taken when the next one comes.
            let tool = tool(&env, server.address()).await;
            let request = RegisterRequest {
                member: 1,
                address: "127.0.0.1:9009".into(),
                incarnation: 7,
                store_id: "store-0-1".into(),
                life,
                offered_life,
                ..RegisterRequest::default()
            };
            let come = tool.call(&request, Payload::none());
            let answered = env.timeout(Duration::from_millis(300), come).await;
            match answered {
                Ok(Err(CallError::Failed(Failed::Misplaced(said)))) => Some(said),
                Ok(Err(other)) => panic!("{other}"),
                // It is taken for what it says, and answered when the pair has a part for it.
                Ok(Ok(_)) | Err(_) => None,
            }
        };
        // As it was; of a copy that has gone another way; and of before there were such numbers.
        for (life, offered) in [
            (life(2, 9), 0),
            (life(2, 9), life(3, 8)),
            (life(3, 8), 0),
            (0, 0),
        ] {
            let said = come(life, offered).await.unwrap();
            assert!(
                said.contains("an older copy of the store of member 1"),
                "{said}"
            );
        }
        // The one that was noted; one that was killed before it heard of it; and one that has lived on.
        let next_session = async || Client::open(&env, server.address()).await.session;
        let before = next_session().await;
        assert_eq!(come(life(3, 9), life(4, 4)).await, None);
        assert_eq!(come(life(2, 9), life(3, 9)).await, None);
        assert_eq!(next_session().await, before + 1);
        assert_eq!(come(life(7, 1), 0).await, None);
        assert!(next_session().await > before + (1 << 24));
        assert!(come(life(3, 9), 0).await.is_some());
        server.stop().await;
    });
}

fn drain(pair: u32) -> StartJobRequest {
    StartJobRequest {
        job: Some(Job {
            what: Some(What::Drain(DrainPair { pair })),
            ..Job::default()
        }),
    }
}

#[test]
fn a_drained_pair_is_removed_when_both_members_have_dropped_what_was_there() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _stays = pair(&env, server.address(), 0).await;
        let [zero, one] = pair(&env, server.address(), 1).await;
        one.die();
        until(&env, "one goes on alone", || zero.mode() == (Mode::Only, 0)).await;
        let tool = tool(&env, server.address()).await;
        tool.call(&drain(1), Payload::none()).await.unwrap();
        let is_over = async || {
            let (reply, _) = tool.call(&JobsRequest {}, Payload::none()).await.unwrap();
            reply.jobs[0].job.unwrap().ended.is_some()
        };
        env.sleep(Duration::from_secs(2)).await;
        assert!(!is_over().await);
        let _one = Member::start(&env, server.address(), 1, 1).await;
        until(&env, "it is being filled", || {
            zero.mode() == (Mode::Recovering, 0)
        })
        .await;
        zero.recovered().await;
        while !is_over().await {
            env.sleep(Duration::from_millis(50)).await;
        }
        server.stop().await;
    });
}

#[test]
fn who_suspects_a_pair_that_is_removed_is_told_that_there_is_none() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _stays = pair(&env, server.address(), 0).await;
        let [goes, _twin] = pair(&env, server.address(), 1).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let suspect = SuspectRequest {
            pair: 1,
            epoch: goes.state.borrow().epoch,
            member: 1,
        };
        let tool = tool(&env, server.address()).await;
        tool.call(&drain(1), Payload::none()).await.unwrap();
        // Also who asked before, and waits.
        while client.call(&suspect).await.unwrap() != SuspectReply::default() {}
        server.stop().await;
    });
}

#[test]
fn the_state_of_a_pair_and_its_addresses_survive_a_restart() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let [zero, one] = pair(&env, first.address(), 3).await;
        one.die();
        until(&env, "zero serves alone", || zero.mode() == (Mode::Only, 0)).await;
        let epoch = zero.state.borrow().epoch;
        first.stop().await;

        let second = server(&env, &dir).await;
        let status = tool(&env, second.address())
            .await
            .call(&StatusRequest {}, Payload::none())
            .await
            .unwrap()
            .0;
        let state = status.pairs[0].state.unwrap();
        assert_eq!(
            (state.pair, state.mode(), state.epoch),
            (3, Mode::Only, epoch)
        );
        assert_eq!(status.pairs[0].members[1].address, "127.0.0.1:9007");
        assert_eq!(status.view.unwrap().pairs[0].addresses[0], "127.0.0.1:9006");
        // The one that lacks writes must not serve, however long it waits.
        let one = Member::start(&env, second.address(), 3, 1).await;
        env.sleep(Duration::from_millis(600)).await;
        assert_ne!(one.mode(), (Mode::Only, 1));
        let zero = Member::start(&env, second.address(), 3, 0).await;
        until(&env, "zero fills one", || {
            one.mode() == (Mode::Recovering, 0)
        })
        .await;
        zero.recovered().await;
        until(&env, "both serve", || one.mode().0 == Mode::Both).await;
        second.stop().await;
    });
}

/// The only metadata server's directory is put back from a copy that was made before member 0 served alone.
#[test]
fn an_older_name_space_asks_the_members_who_served_last() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let both = {
            let [zero, _one] = pair(&env, first.address(), 0).await;
            *zero.state.borrow()
        };
        first.stop().await;
        let kept = tempfile::tempdir().unwrap();
        let copied = std::process::Command::new("cp")
            .args(["-a", "--"])
            .arg(dir.join("."))
            .arg(kept.path())
            .status();
        assert!(copied.unwrap().success());

        let second = server(&env, &dir).await;
        let zero = Member::start(&env, second.address(), 0, 0).await;
        let one = Member::start(&env, second.address(), 0, 1).await;
        until(&env, "zero fills one", || zero.mode().0 == Mode::Recovering).await;
        zero.recovered().await;
        until(&env, "both serve", || one.mode().0 == Mode::Both).await;
        one.die();
        until(&env, "zero serves alone", || zero.mode() == (Mode::Only, 0)).await;
        let alone = *zero.state.borrow();
        second.stop().await;

        let third = server(&env, kept.path()).await;
        let come = |member, last| {
            let (env, address) = (&env, third.address());
            async move {
                let store = format!("store-0-{member}");
                Member::that_knows(env, address, 0, member, &store, &last).await
            }
        };
        let one = come(1, both).await;
        env.sleep(Duration::from_millis(100)).await;
        let zero = come(0, alone).await;
        until(&env, "zero fills one", || {
            one.mode() == (Mode::Recovering, 0)
        })
        .await;
        let state = *zero.state.borrow();
        assert!(state.epoch > alone.epoch && state.fill_all && !state.uncertain);
        // And in what this name space has decided since, nobody has a part who knows of another course.
        zero.recovered().await;
        until(&env, "both serve", || one.mode().0 == Mode::Both).await;
        zero.die();
        until(&env, "one serves alone", || one.mode() == (Mode::Only, 1)).await;
        let other = PairState {
            epoch: one.state.borrow().epoch,
            ..alone
        };
        let zero = come(0, other).await;
        env.sleep(Duration::from_millis(500)).await;
        assert!(zero.welcome.borrow().is_none());
        assert_eq!(one.mode(), (Mode::Only, 1));
        third.stop().await;
    });
}

#[test]
fn new_files_lie_on_pairs_with_room() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let [zero, _one] = pair(&env, server.address(), 0).await;
        let _others = pair(&env, server.address(), 1).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let lies_on = async |name: &str| {
            let (reply, _) = client.done(create(1, name)).await;
            reply.layout.unwrap().pairs
        };
        assert_eq!(lies_on("before").await.len(), 2);
        zero.free.set(Some(49));
        let tool = tool(&env, server.address()).await;
        let health = async || {
            let asked = tool.call(&HealthRequest {}, Payload::none());
            let findings = asked.await.unwrap().0.findings;
            let found = findings.into_iter().map(|it| (it.check, it.subject));
            found.collect::<Vec<_>>()
        };
        let room = vec![("room".to_owned(), "data:0.0".to_owned())];
        while health().await != room {
            env.sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(lies_on("full").await, [1]);
        // A little more is not enough: what was moved off it would come back at once.
        zero.free.set(Some(60));
        while health().await == room {
            env.sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(lies_on("still").await, [1]);
        zero.free.set(Some(80));
        env.sleep(Duration::from_millis(200)).await;
        health().await;
        assert_eq!(lies_on("after").await.len(), 2);
        server.stop().await;
    });
}

#[test]
fn space_is_that_of_the_smaller_members() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let _one = pair(&env, server.address(), 0).await;
        let _two = pair(&env, server.address(), 1).await;
        let client = Client::open(&env, server.address()).await;
        env.sleep(Duration::from_millis(100)).await;
        let space = client
            .call(&StatfsRequest {
                session: client.session,
            })
            .await
            .unwrap();
        assert_eq!((space.total_bytes, space.free_bytes), (2000, 1000));
        let scrub = StartScrubRequest {
            pair: 1,
            compare: false,
        };
        client.call(&scrub).await.unwrap();
        let scrub = StartScrubRequest {
            pair: 9,
            compare: false,
        };
        assert!(client.call(&scrub).await.is_err());
        let explain = ExplainRequest {
            path: "/none".into(),
            ..ExplainRequest::default()
        };
        assert!(client.call(&explain).await.is_err());
        client.create(1, "f").await;
        let explain = ExplainRequest {
            path: "/f".into(),
            ..ExplainRequest::default()
        };
        let explained = client.call(&explain).await.unwrap();
        assert_eq!(explained.writer, client.session);
        assert_eq!(explained.pairs.len(), 2);
        server.stop().await;
    });
}
