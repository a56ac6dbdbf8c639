//! Checkpoints while clients work, over one group and several, and restores of them: with nothing else going on,
//! after all metadata servers were killed and one lost its disk, and with servers dying at every step.

mod restored;

use restored::{MS, Operator, SECOND, Working, connect, is_sound, judge, nothing_is_left, spoil};
use std::rc::Rc;
use std::time::Duration;
use weft_sim::World;
use weft_sim::cluster::builder::Cluster;

/// Nothing takes longer in these worlds.
const LIMIT: Duration = Duration::from_secs(900);

fn in_world<F: Future<Output = ()> + 'static>(
    seed: u64,
    (groups, members): (u32, u32),
    scenario: impl FnOnce(World, Rc<Cluster>) -> F,
) {
    let world = World::new(seed);
    world.set_limit(LIMIT);
    let cluster = Rc::new(Cluster::new(&world, restored::shape(groups, members)));
    let scene = scenario(world.clone(), cluster.clone());
    world.block_on(async move {
        cluster.start().await.unwrap();
        scene.await;
        (0..cluster.meta.len()).for_each(|member| cluster.stop_meta(member, false));
    });
}

/// What is killed, and when.
#[derive(Clone, Copy, Debug)]
enum Kill {
    Nobody,
    /// The active of this group, so long after it was asked for.
    Active(usize, Duration),
    /// All of them.
    All(Duration),
}

impl Kill {
    async fn carry_out(self, world: &World, cluster: &Rc<Cluster>) {
        let (group, after) = match self {
            Kill::Nobody => return,
            Kill::Active(group, after) => (Some(group), after),
            Kill::All(after) => (None, after),
        };
        world.sleep(after).await;
        let killed: Vec<usize> = match group {
            Some(group) => cluster.active(group).into_iter().collect(),
            None => (0..cluster.meta.len()).collect(),
        };
        for member in &killed {
            cluster.stop_meta(*member, true);
        }
        world.sleep(300 * MS).await;
        for member in killed {
            cluster.start_meta(member);
        }
    }
}

async fn beside(world: &World, cluster: &Rc<Cluster>, kill: Kill) -> weft_env::Task {
    let (scene, killed) = (world.clone(), cluster.clone());
    let env = world.env();
    env.spawn("kill", async move { kill.carry_out(&scene, &killed).await })
}

async fn is_over(world: &World, task: &weft_env::Task) {
    while !task.is_finished() {
        world.sleep(10 * MS).await;
    }
}

/// Work, a checkpoint in the midst of it, more work and much that is spoilt, a restore, and a look.
async fn there_and_back(world: World, cluster: Rc<Cluster>, create: Kill, restore: Kill) {
    let operator = Operator::new(&cluster);
    let working = Working::begin(&cluster, "maker", None).await;
    world.sleep(400 * MS).await;
    let (mut before, mut begun);
    let mut tries = 0;
    loop {
        tries += 1;
        before = working.done.answered();
        let kill = if tries == 1 { create } else { Kill::Nobody };
        let killing = beside(&world, &cluster, kill).await;
        let made = operator.create("c").await;
        begun = working.done.begun();
        is_over(&world, &killing).await;
        let list = operator.list().await.checkpoints;
        match made {
            Some(made) => {
                assert!(made.held_us < 41_000, "{made:?}");
                assert_eq!(list.len(), 1, "{list:?}");
                break;
            }
            // It was kept, though nobody was told, or goes.
            None if list
                .iter()
                .any(|it| it.stage() == weft_wire::proto::checkpoint::Stage::Kept) =>
            {
                operator.delete("c").await;
            }
            None => world.sleep(100 * MS).await,
        }
        assert!(tries < 100, "no checkpoint is ever made");
    }
    world.sleep(300 * MS).await;
    let at = working.at.clone();
    working.end(&world).await;
    let vandal = connect(&cluster, "vandal").await;
    spoil(&vandal, &at).await;
    // Whatever may be dropped is.
    world.sleep(4 * SECOND).await;
    let begin = world.now();
    let killing = beside(&world, &cluster, restore).await;
    operator.restore("c").await;
    println!(
        "{create:?} {restore:?}: restored in {:?}, checkpoint made at attempt {tries}",
        world.now() - begin
    );
    is_over(&world, &killing).await;
    drop(vandal);
    let client = connect(&cluster, "judge").await;
    let kept = judge(&client, &at, &before, &begun).await;
    assert!(
        kept.values().any(|rounds| *rounds > 0),
        "there was nothing to keep"
    );
    is_sound(&cluster).await;
    // It is a name space like any other, and can be brought back to again.
    let places = restored::Places {
        a: at.a,
        b: at.b,
        moves: true,
    };
    spoil(&client, &places).await;
    world.sleep(4 * SECOND).await;
    operator.restore("c").await;
    let again = connect(&cluster, "judge2").await;
    assert_eq!(judge(&again, &at, &before, &begun).await, kept);
    is_sound(&cluster).await;
    client.close().await.ok();
    spoil(&again, &places).await;
    operator.delete("c").await;
    again.close().await.ok();
    nothing_is_left(&cluster).await;
}

#[test]
fn what_is_restored_is_one_moment() {
    for (seed, shape) in [
        (1, (1, 1)),
        (2, (2, 1)),
        (3, (3, 1)),
        (4, (2, 3)),
        (5, (3, 3)),
    ] {
        in_world(seed, shape, |world, cluster| {
            there_and_back(world, cluster, Kill::Nobody, Kill::Nobody)
        });
    }
}

/// The first group's active reaches the others slowly, clients reach all fast: without a hold they would see, in a
/// group that has not cut, what followed from changes behind the first one's cut.
#[test]
fn groups_that_are_far_apart_cut_at_one_moment() {
    for seed in 130..138 {
        in_world(seed, (3, 1), |world, cluster| async move {
            let slow = weft_sim::Pace {
                latency: 14_000_000..15_000_000,
                ..weft_sim::Pace::default()
            };
            for other in [1, 2] {
                let (first, other) = (cluster.meta[0].name(), cluster.meta[other].name());
                world.net().set_pace(&first, &other, slow.clone());
                world.net().set_pace(&other, &first, slow.clone());
            }
            let operator = Operator::new(&cluster);
            let planner = connect(&cluster, "planner").await;
            let places = restored::Places {
                moves: false,
                ..restored::places(&planner, 3).await
            };
            let working = Working::begin(&cluster, "maker", Some(places)).await;
            world.sleep(400 * MS).await;
            let before = working.done.answered();
            let made = operator.create("c").await.unwrap();
            assert!((28_000..41_000).contains(&made.held_us), "{made:?}");
            let begun = working.done.begun();
            let at = working.at.clone();
            working.end(&world).await;
            operator.restore("c").await;
            let client = connect(&cluster, "judge").await;
            judge(&client, &at, &before, &begun).await;
            is_sound(&cluster).await;
        });
    }
}

#[test]
fn a_create_that_is_broken_off_leaves_nothing_and_keeps_nobody() {
    let mut seed = 10;
    for shape in [(2, 1), (3, 3)] {
        for step in 0..6u32 {
            seed += 1;
            let after = step * 9 * MS;
            let kill = match step % 3 {
                0 => Kill::Active(0, after),
                1 => Kill::Active(1, after),
                _ => Kill::All(after),
            };
            in_world(seed, shape, move |world, cluster| {
                there_and_back(world, cluster, kill, Kill::Nobody)
            });
        }
    }
}

#[test]
fn a_restore_is_brought_to_its_end_whoever_dies() {
    let mut seed = 40;
    for shape in [(2, 1), (3, 3)] {
        for step in 0..12u32 {
            seed += 1;
            let after = step * 9 * MS;
            let kill = match step % 3 {
                0 => Kill::Active(0, after),
                1 => Kill::Active(1, after),
                _ => Kill::All(after),
            };
            in_world(seed, shape, move |world, cluster| {
                there_and_back(world, cluster, Kill::Nobody, kill)
            });
        }
    }
}

/// With so much to load that it takes many entries, and is gone through in many: whoever leads next goes on.
#[test]
fn a_large_name_space_is_loaded_piece_by_piece() {
    for step in 0..6u32 {
        in_world(
            110 + u64::from(step),
            (2, 3),
            move |world, cluster| async move {
                let operator = Operator::new(&cluster);
                let client = connect(&cluster, "maker").await;
                let at = restored::places(&client, 2).await;
                restored::bulk(&client, at.a, "kept", 5_000).await;
                operator.create("c").await.unwrap();
                let before = restored::names(&client, at.a).await;
                restored::bulk(&client, at.a, "later", 3_000).await;
                for (name, _) in before.iter().take(600) {
                    client
                        .unlink(&restored::root(), at.a, name.as_bytes())
                        .await
                        .unwrap();
                }
                let group = client.group_of(at.a) as usize;
                drop(client);
                let begin = world.now();
                let mut killed = Vec::new();
                for number in 0..3u32 {
                    let kill = Kill::Active(group, (40 + 23 * step + 400 * number) * MS);
                    killed.push(beside(&world, &cluster, kill).await);
                }
                operator.restore("c").await;
                println!("step {step}: restored in {:?}", world.now() - begin);
                for kill in &killed {
                    is_over(&world, kill).await;
                }
                let client = connect(&cluster, "judge").await;
                assert_eq!(restored::names(&client, at.a).await, before);
                is_sound(&cluster).await;
            },
        );
    }
}

#[test]
fn a_checkpoint_outlives_all_servers_and_one_disk() {
    for (seed, groups) in [(70, 1), (71, 2), (72, 3)] {
        in_world(seed, (groups, 3), |world, cluster| async move {
            let operator = Operator::new(&cluster);
            let working = Working::begin(&cluster, "maker", None).await;
            world.sleep(500 * MS).await;
            let before = working.done.answered();
            operator.create("c").await.unwrap();
            let begun = working.done.begun();
            world.sleep(500 * MS).await;
            let at = working.at.clone();
            working.end(&world).await;
            let vandal = connect(&cluster, "vandal").await;
            spoil(&vandal, &at).await;
            drop(vandal);
            (0..cluster.meta.len()).for_each(|member| cluster.stop_meta(member, true));
            world.sleep(SECOND).await;
            // Of each group one; of the first one which had led, perhaps.
            let lost = (0..cluster.meta.len()).step_by(3);
            for member in 0..cluster.meta.len() {
                match member % 3 {
                    0 => cluster.wipe_meta(member),
                    _ => cluster.start_meta(member),
                }
            }
            for member in lost {
                cluster.replace_meta(member).await;
            }
            cluster.ready().await.unwrap();
            operator.restore("c").await;
            let client = connect(&cluster, "judge").await;
            judge(&client, &at, &before, &begun).await;
            is_sound(&cluster).await;
            // Those that lost theirs have it again, so the others may go.
            world.sleep(6 * SECOND).await;
            for group in 0..cluster.meta.len() / 3 {
                for member in [1, 2] {
                    cluster.stop_meta(group * 3 + member, false);
                    world.sleep(2 * SECOND).await;
                }
            }
            cluster.ready().await.unwrap();
            spoil(&client, &at).await;
            operator.restore("c").await;
            let again = connect(&cluster, "judge2").await;
            judge(&again, &at, &before, &begun).await;
            one_tree(&cluster).await;
        });
    }
}

async fn one_tree(cluster: &Cluster) {
    weft_sim::invariants::one_tree::check(cluster)
        .await
        .unwrap();
}

/// Service stands still for no longer than 50 ms, however often a checkpoint is made.
#[test]
fn clients_hardly_notice_a_create() {
    in_world(90, (3, 3), |world, cluster| async move {
        let operator = Operator::new(&cluster);
        let working = Working::begin(&cluster, "maker", None).await;
        world.sleep(2 * SECOND).await;
        working.done.slowest.set(Duration::ZERO);
        world.sleep(3 * SECOND).await;
        let without = working.done.slowest.replace(Duration::ZERO);
        for number in 0..12 {
            let name = format!("c{number}");
            let made = operator.create(&name).await.unwrap();
            println!(
                "{name}: held for {} us, attempt {}",
                made.held_us, made.attempts
            );
            assert!(made.held_us < 41_000);
            world.sleep(100 * MS).await;
        }
        let with = working.done.slowest.get();
        println!("the slowest round took {without:?} without, {with:?} with checkpoints");
        assert!(with < without + 50 * MS, "{without:?} {with:?}");
        working.end(&world).await;
    });
}
