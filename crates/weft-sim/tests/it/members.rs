//! Replica groups of metadata servers: whoever of them is killed, hangs, is cut off or loses its disk, what
//! was acknowledged is there, once, and the others go on.

use crate::group::operator::Operator;
use crate::group::{DIR, Group, MS, Maker, PATIENCE, SECOND, in_world};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tracing::Level;
use weft_client::{Client, CreateFlags, Cred};
use weft_sim::{CoordinatorFaults, Logs, Pace, World};
use weft_types::Sn;

/// What an application waits at most when the active says nothing any more: the patience, what is left of
/// its lease then, and what it takes to find who leads. Members that have just begun have not seen each other's
/// ways yet, and are patient.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The same where all have been steady.
const STEADY_PAUSE_MAX: Duration = Duration::from_millis(200);
/// After so long members that do nothing odd are taken for steady.
const STEADY_AFTER: Duration = Duration::from_secs(20);

#[test]
fn a_killed_active_is_replaced_in_tens_of_milliseconds() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.service.set_faults(CoordinatorFaults::none());
            world.sleep(PATIENCE).await;
            for _ in 0..3 {
                let active = group.active().unwrap();
                maker.longest.set(Duration::ZERO);
                let work = maker.make(&world, 50);
                let kill = async {
                    world.sleep(5 * MS).await;
                    group.kill(active);
                };
                futures_util::join!(work, kill);
                let pause = maker.longest.get();
                assert!(pause < 100 * MS, "seed {seed}: a pause of {pause:?}");
                assert_ne!(group.active(), Some(active));
                group.start(active);
                group.all_count().await;
                group.all_the_same().await;
                // Who has just started has forgotten what it promised, and keeps what it may have.
                world.sleep(PATIENCE).await;
            }
            maker.check(&group).await;
        });
    }
}

#[test]
fn a_create_that_was_done_but_not_answered_is_answered_when_data_servers_are_back() {
    for seed in 0..12 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let _pair = group.pair().await;
            group.service.set_faults(CoordinatorFaults::none());
            world.sleep(PATIENCE).await;
            let clients = futures_util::future::join_all(
                (0..4).map(|number| group.client(["a", "b", "c", "d"][number])),
            );
            let clients = clients.await;
            let longest = Cell::new(Duration::ZERO);
            for round in 0..4 {
                let active = group.active().unwrap();
                longest.set(Duration::ZERO);
                let make = async |client: &Client, whose: usize| {
                    let cred = Cred::default();
                    for number in 0..60 {
                        let name = format!("{round}.{whose}.{number}");
                        let (began, root) = (world.now(), client.root());
                        let flags = CreateFlags::default();
                        let created = client.create(&cred, root, name.as_bytes(), 0o644, flags);
                        let (_, handle) = created.await.unwrap();
                        longest.set(longest.get().max(world.now() - began));
                        client.release(handle, None).await.unwrap();
                    }
                };
                let kill = async {
                    world.sleep(5 * MS).await;
                    group.kill(active);
                };
                let work = clients.iter().enumerate();
                let work = work.map(|(whose, client)| make(client, whose));
                futures_util::join!(futures_util::future::join_all(work), kill);
                let pause = longest.get();
                // The takeover, data servers that find it, and the file's settling: half as long again as a
                // takeover may take. The look that comes 200 ms after the first would be one too many.
                assert!(pause < 150 * MS, "seed {seed}: a pause of {pause:?}");
                group.start(active);
                group.all_count().await;
                world.sleep(PATIENCE).await;
            }
        });
    }
}

#[test]
fn an_active_that_hangs_is_replaced_and_answers_nothing_when_it_wakes() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let work = maker.make(&world, 200);
            let pause = async {
                world.sleep(5 * MS).await;
                group.nodes[active].pause();
                group.led_by(|other| other != active).await;
                world.sleep(SECOND).await;
                group.nodes[active].resume();
            };
            futures_util::join!(work, pause);
            let pause = maker.longest.get();
            assert!(pause < PAUSE_MAX, "seed {seed}: a pause of {pause:?}");
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn an_active_that_is_cut_off_is_replaced() {
    for seed in 0..20 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let work = maker.make(&world, 200);
            let cut = async {
                world.sleep(5 * MS).await;
                if seed % 2 == 0 {
                    // From everybody: nobody hears of it that it does not lead any more.
                    world.net().isolate(&group.nodes[active].name());
                } else {
                    // Clients still reach it.
                    for other in (0..3).filter(|other| *other != active) {
                        let names = [active, other].map(|member| group.nodes[member].name());
                        world.net().cut(&names[0], &names[1]);
                    }
                }
                group.led_by(|other| other != active).await;
                world.sleep(3 * SECOND).await;
                world.net().heal();
            };
            futures_util::join!(work, cut);
            let pause = maker.longest.get();
            assert!(pause < PAUSE_MAX, "seed {seed}: a pause of {pause:?}");
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn a_steady_active_that_falls_silent_is_replaced_within_200_ms() {
    for seed in 0..20 {
        in_world(seed, async move |world| {
            // A message that is late by 20 ms now and then is no quiet network.
            world.net().set_default_pace(Pace {
                detours_ppm: 0,
                ..Pace::default()
            });
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.service.set_faults(CoordinatorFaults::none());
            world.sleep(STEADY_AFTER).await;
            maker.longest.set(Duration::ZERO);
            let active = group.active().unwrap();
            let work = maker.make(&world, 200);
            let silence = async {
                world.sleep((5 + seed as u32 * 7) * MS).await;
                let node = &group.nodes[active];
                match seed % 2 {
                    0 => node.pause(),
                    _ => world.net().isolate(&node.name()),
                }
                group.led_by(|other| other != active).await;
                world.sleep(3 * SECOND).await;
                match seed % 2 {
                    0 => node.resume(),
                    _ => world.net().heal(),
                }
            };
            futures_util::join!(work, silence);
            let pause = maker.longest.get();
            assert!(
                pause < STEADY_PAUSE_MAX,
                "seed {seed}: a pause of {pause:?}"
            );
            group.all_count().await;
            maker.check(&group).await;
        });
    }
}

/// How often another has led by the end, with whoever leads standing still for half a second every three.
fn stalled(seed: u64, patience_max_ms: u64) -> Vec<usize> {
    let leaders = Rc::new(std::cell::RefCell::new(Vec::new()));
    let told = leaders.clone();
    in_world(seed, async move |world| {
        let mut group = Rc::into_inner(Group::new(&world, 3)).unwrap();
        group.settings.group_terms.patience_max_ms = patience_max_ms;
        let group = Rc::new(group);
        group.start_all();
        group.all_count().await;
        let maker = Maker::new(&group, "maker").await;
        let is_done = Cell::new(false);
        let work = async {
            while !is_done.get() {
                maker.make(&world, 5).await;
                world.sleep(50 * MS).await;
            }
        };
        let stalls = async {
            world.sleep(STEADY_AFTER).await;
            for _ in 0..20 {
                let active = group.led_by(|_| true).await;
                told.borrow_mut().push(active);
                group.nodes[active].pause();
                world.sleep(500 * MS).await;
                group.nodes[active].resume();
                world.sleep(3 * SECOND).await;
            }
            is_done.set(true);
        };
        futures_util::join!(work, stalls);
        maker.check(&group).await;
    });
    leaders.take()
}

#[test]
fn an_active_that_was_seen_to_stall_is_borne_with() {
    for seed in 0..5 {
        let leaders = stalled(seed, 1_500);
        // Each member stalls once before that is known of it.
        let later = &leaders[3..];
        assert!(
            later.iter().all(|it| *it == later[0]),
            "seed {seed}: {leaders:?}"
        );
    }
    // Where nobody may be waited for longer each stall is a change.
    let leaders = stalled(1, 150);
    assert!(
        leaders.windows(2).all(|two| two[0] != two[1]),
        "{leaders:?}"
    );
}

#[test]
fn data_servers_too_find_who_leads_when_the_active_hangs() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let _servers = group.pair().await;
            let client = group.client("writer").await;
            let (cred, root) = (Cred::default(), client.root());
            let flags = weft_client::CreateFlags {
                open: weft_client::OpenFlags {
                    read: true,
                    write: true,
                    ..Default::default()
                },
                ..Default::default()
            };
            let (_, file) = loop {
                match client.create(&cred, root, b"f", 0o644, flags).await {
                    Ok(created) => break created,
                    // No data server has registered yet.
                    Err(errno) if errno == weft_client::Errno(libc::ENOSPC) => {
                        world.sleep(10 * MS).await;
                    }
                    Err(errno) => panic!("{errno:?}"),
                }
            };
            let longest = Cell::new(Duration::ZERO);
            let write = async |count: u64| {
                for at in 0..count {
                    let began = world.now();
                    let data = bytes::Bytes::from(vec![at as u8; 4096]);
                    client.write(file, at * 4096, data, false).await.unwrap();
                    client.fsync(file, false).await.unwrap();
                    longest.set(longest.get().max(world.now() - began));
                }
            };
            write(20).await;
            longest.set(Duration::ZERO);
            let active = group.active().unwrap();
            let pause = async {
                world.sleep(5 * MS).await;
                group.nodes[active].pause();
                group.led_by(|other| other != active).await;
                world.sleep(3 * SECOND).await;
                group.nodes[active].resume();
            };
            futures_util::join!(write(1_000), pause);
            let pause = longest.get();
            // The rights of the members of the pair end, and come back with the new active's.
            assert!(pause < SECOND, "seed {seed}: a pause of {pause:?}");
        });
    }
}

#[test]
fn a_slow_active_is_not_left() {
    for seed in 0..9 {
        let logs = Logs::new(Level::INFO);
        let run = || {
            let world = World::new(seed);
            world.set_limit(900 * SECOND);
            world.clone().block_on(async move {
                let group = Group::started(&world, 3).await;
                let maker = Maker::new(&group, "maker").await;
                maker.make(&world, 20).await;
                let active = group.active().unwrap();
                let work = maker.make(&world, 300);
                let faults = async {
                    for _ in 0..10 {
                        world.sleep(5 * MS).await;
                        match seed % 3 {
                            // It has no time, if not for so long that others look for another.
                            0 => {
                                group.nodes[active].pause();
                                world.sleep(PATIENCE * 4 / 5).await;
                                group.nodes[active].resume();
                            }
                            // No disk takes anything.
                            1 => {
                                let hang = |hangs| {
                                    for node in &group.nodes {
                                        node.disk().set_hung(hangs);
                                    }
                                };
                                hang(true);
                                world.sleep(3 * PATIENCE).await;
                                hang(false);
                            }
                            // It was the client that had no time.
                            _ => {
                                let client = world.node("maker");
                                client.pause();
                                world.sleep(3 * PATIENCE).await;
                                client.resume();
                            }
                        }
                    }
                };
                futures_util::join!(work, faults);
                assert_eq!(group.active(), Some(active), "seed {seed}: another leads");
                assert!(maker.longest.get() > PATIENCE / 2);
            });
        };
        logs.collect(run);
        let begun = logs.lines().into_iter().map(|line| line.to_string());
        let begun: Vec<String> = begun
            .filter(|line| line.contains(" maker ") && line.contains("session with the metadata"))
            .collect();
        assert_eq!(begun.len(), 1, "seed {seed}: {begun:#?}");
    }
}

#[test]
fn nothing_is_lost_when_all_lose_their_power_at_once() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            let work = maker.make(&world, 100);
            let cut = async {
                world.sleep(20 * MS).await;
                (0..3).for_each(|member| group.power_cut(member));
                world.sleep(SECOND).await;
                group.start_all();
            };
            futures_util::join!(work, cut);
            maker.check(&group).await;
            group.all_count().await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn without_a_majority_nothing_goes_on_and_nothing_is_wrong() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let [second, third] = [(active + 1) % 3, (active + 2) % 3];
            let work = maker.make(&world, 100);
            let faults = async {
                world.sleep(5 * MS).await;
                // At once: who is left cannot have made them juniors first.
                group.kill(active);
                group.kill(second);
                world.sleep(3 * SECOND).await;
                assert_eq!(group.active(), None);
                let before = maker.made.get();
                world.sleep(3 * SECOND).await;
                assert_eq!(maker.made.get(), before, "something was acknowledged");
                group.start(second);
                group
                    .led_by(|member| member == second || member == third)
                    .await;
            };
            futures_util::join!(work, faults);
            group.start(active);
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn who_was_away_for_long_takes_an_image() {
    in_world(1, async |world| {
        let mut group = Rc::into_inner(Group::new(&world, 3)).unwrap();
        group.settings.image_every_entries = 50;
        let group = Rc::new(group);
        group.start_all();
        group.all_count().await;
        let maker = Maker::new(&group, "maker").await;
        maker.make(&world, 10).await;
        let away = (group.active().unwrap() + 1) % 3;
        for replaced in [false, true] {
            group.kill(away);
            if replaced {
                // Another disk, with nothing on it.
                let node = &group.nodes[away];
                node.disk().wipe();
                node.disk().make_durable_dir(DIR);
                Operator::new(&group).replace(away).await;
            }
            for _ in 0..6 {
                maker.make(&world, 60).await;
                world.sleep(2 * SECOND).await;
                for member in (0..3).filter(|member| *member != away) {
                    // Segments end with a life: what an image has made superfluous can go.
                    group.kill(member);
                    group.start(member);
                    group.led_by(|_| true).await;
                }
            }
            let left = weft_journal::segments(&group.nodes[(away + 1) % 3].env(), Path::new(DIR));
            assert!(left.unwrap()[0] > Sn(1), "the first segment is still there");
            group.start(away);
            group.all_count().await;
            group.all_the_same().await;
        }
        maker.check(&group).await;
    });
}

#[test]
fn whoever_is_killed_whenever_every_change_is_made_once() {
    for seed in 0..20 {
        in_world(100 + seed, async move |world| {
            let members = [3, 3, 5, 2][seed as usize % 4];
            let group = Group::started(&world, members).await;
            let maker = Maker::new(&group, "maker").await;
            let is_done = Rc::new(Cell::new(false));
            let work = async {
                for _ in 0..40 {
                    maker.make(&world, 25).await;
                    world.sleep(50 * MS).await;
                }
                is_done.set(true);
            };
            let faults = async {
                let mut rng = world.rng("who is killed");
                while !is_done.get() {
                    world.sleep(MS * (rng.below(1_000) as u32)).await;
                    let others = rng.below(u64::from(members)) as usize;
                    let victim = match rng.below(2) {
                        0 => group.active().unwrap_or(others),
                        _ => others,
                    };
                    match rng.below(3) {
                        0 => group.power_cut(victim),
                        1 => group.kill(victim),
                        _ => {
                            group.nodes[victim].pause();
                            world.sleep(MS * (rng.below(1_500) as u32)).await;
                            group.nodes[victim].resume();
                            continue;
                        }
                    }
                    world.sleep(MS * (rng.below(2_000) as u32)).await;
                    group.start(victim);
                }
            };
            let watch = async {
                while !is_done.get() {
                    group.active();
                    world.sleep(MS).await;
                }
            };
            futures_util::join!(work, faults, watch);
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
            assert!(group.exits.borrow().is_empty(), "{:?}", group.exits);
        });
    }
}
