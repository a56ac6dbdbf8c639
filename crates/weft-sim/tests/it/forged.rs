//! Somebody who reaches the metadata servers speaks in a member's name, of epochs and batches that nobody has: whoever
//! leads goes on, and when it is gone another one leads in the usual time.

use crate::group::{CLUSTER, Group, MS, Maker, PATIENCE, SECOND, in_world};
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Connection, Handler, Local};
use weft_sim::{CoordinatorFaults, World};
use weft_types::Sn;
use weft_wire::proto::identity::Role;
use weft_wire::proto::{GroupMessage, Identity, JournalRun, JournalShape, group_message as wire};

/// Epochs and batches that nobody has.
const FAR: [u64; 2] = [1 << 60, u64::MAX];
/// So often each connection is made anew: members make theirs anew, too, which ends the forged one.
const ROUNDS: usize = 20;
/// What applications wait at most for an active that is gone, as in `members.rs`.
const PAUSE_MAX: Duration = Duration::from_millis(500);

type Kind = wire::Message;

/// What says that there is a later epoch.
fn in_epoch(epoch: u64) -> Vec<Kind> {
    let shape = |epoch, last| {
        let run = |epoch, first| JournalRun { epoch, first };
        Some(JournalShape {
            runs: vec![run(0, 0), run(epoch, 1)],
            last,
        })
    };
    vec![
        Kind::Newer(wire::Newer { epoch }),
        Kind::Collect(wire::Collect { epoch }),
        Kind::Beat(wire::Beat {
            epoch,
            at_us: 1,
            committed: u64::MAX,
            late_us: u64::MAX,
            lease_us: 60_000_000,
        }),
        Kind::Behind(wire::Behind {
            epoch,
            base: u64::MAX,
        }),
        Kind::Withdrawn(wire::Withdrawn { epoch }),
        Kind::BeatAnswer(wire::BeatAnswer {
            epoch,
            at_us: u64::MAX,
        }),
        Kind::Appended(wire::Appended {
            epoch,
            durable: u64::MAX,
        }),
        Kind::Collected(wire::Collected {
            epoch,
            shape: shape(u64::MAX, u64::MAX),
            durable: u64::MAX,
            promised_us: 60_000_000,
            is_intact: true,
        }),
        Kind::Collected(wire::Collected {
            epoch,
            shape: shape(1, u64::MAX),
            durable: u64::MAX,
            promised_us: u64::MAX,
            is_intact: true,
        }),
        Kind::Fetch(wire::Fetch {
            epoch,
            after: 0,
            last: u64::MAX,
        }),
    ]
}

/// A connection to a member, as another member.
async fn in_the_name_of(
    world: &World,
    group: &Group,
    name: usize,
    to: usize,
) -> Option<Connection> {
    let identity = Identity {
        role: Role::Meta as i32,
        id: name as u64 + 1,
        incarnation: 7,
        group: group.settings.group,
    };
    let local = Local::new(CLUSTER.into(), identity);
    let nothing: Handler = Rc::new(|_, _| {});
    let env = world.node("stranger").env();
    weft_rpc::connect(&env, &group.address(to), &local, nothing)
        .await
        .ok()
}

/// Says all that in the name of a member to another one, again and again; the last connection stays.
async fn lie(world: &World, group: &Group, name: usize, to: usize, all: &[Kind]) {
    for _ in 0..ROUNDS {
        let Some(connection) = in_the_name_of(world, group, name, to).await else {
            continue;
        };
        for kind in all {
            connection.notify(&GroupMessage {
                group: group.settings.group,
                batches: Vec::new(),
                message: Some(kind.clone()),
            });
            world.sleep(MS).await;
        }
    }
}

/// The group's epoch, as the coordinator has it.
async fn epoch(world: &World, group: &Group) -> u64 {
    let env = world.node("operator").env();
    let coordinator = group.service.open(&env);
    let view = weft_coordinator::Coordinator::view(&coordinator).await;
    view.unwrap().groups[0].epoch
}

/// Who wins the race for a connection differs from seed to seed.
const SEEDS: u64 = 6;

#[test]
fn forged_epochs_and_numbers_stop_nothing() {
    for seed in 0..SEEDS {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.service.set_faults(CoordinatorFaults::none());
            world.sleep(PATIENCE).await;
            let began = epoch(&world, &group).await;
            let active = group.active().unwrap();
            let standbys: Vec<usize> = (0..3).filter(|member| *member != active).collect();
            let [one, other] = standbys[..] else {
                panic!("{standbys:?}")
            };
            let far: Vec<Kind> = FAR.into_iter().flat_map(in_epoch).collect();
            let now: Vec<Kind> = in_epoch(began);
            let all = [far, now].concat();
            // To the other standby, and to the active; then in the name of the active, of epochs to come.
            lie(&world, &group, one, other, &all).await;
            lie(&world, &group, one, active, &all).await;
            let to_come: Vec<Kind> = FAR.into_iter().flat_map(in_epoch).collect();
            lie(&world, &group, active, one, &to_come).await;
            lie(&world, &group, active, other, &to_come).await;
            maker.make(&world, 20).await;
            group.all_count().await;
            // Connections that were taken over may cost a takeover each, but no more.
            let reached = epoch(&world, &group).await;
            assert!(
                reached < began + 4 * ROUNDS as u64,
                "seed {seed}: epoch {reached}"
            );
            world.sleep(10 * SECOND).await;
            // And another one leads as soon as ever.
            let active = group.active().unwrap();
            maker.longest.set(Duration::ZERO);
            let work = maker.make(&world, 50);
            let kill = async {
                world.sleep(5 * MS).await;
                group.kill(active);
            };
            futures_util::join!(work, kill);
            let pause = maker.longest.get();
            assert!(pause < PAUSE_MAX, "seed {seed}: a pause of {pause:?}");
            group.start(active);
            group.all_count().await;
            group.all_the_same().await;
            let had = group.replicas()[0].map(|(sn, _)| sn);
            assert!(had < Some(Sn(1 << 40)), "{had:?}");
            maker.check(&group).await;
        });
    }
}
