//! The coordinator in the simulator: the suite without faults, and many seeds with lost, late and
//! unanswered requests, outages and ended sessions.

use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weft_coordinator::suite::{self, epoch, with_epoch};
use weft_coordinator::{Announced, Coordinator, CoordinatorError, Embedded, written_by};
use weft_env::Env;
use weft_sim::{CoordinatorFaults, CoordinatorService, SimCoordinator, World};
use weft_wire::proto::View;

const SEEDS: u64 = 60;
const WRITERS: u64 = 4;
const CHANGES: u64 = 25;
const TERM_MS: u64 = 3_000;

#[test]
fn the_shared_service_passes_the_suite() {
    for seed in 0..5 {
        let world = World::new(seed);
        world.set_limit(Duration::from_secs(600));
        let service = CoordinatorService::new(&world);
        let env = world.node("a").env();
        world.block_on(async move {
            let open = || -> LocalBoxFuture<'static, Rc<dyn Coordinator>> {
                let handle: Rc<dyn Coordinator> = Rc::new(service.open(&env));
                Box::pin(async move { handle })
            };
            suite::run(&env, &open).await;
        });
    }
}

#[test]
fn the_embedded_one_passes_the_suite_on_a_simulated_disk() {
    for seed in 0..5 {
        let world = World::new(seed);
        world.set_limit(Duration::from_secs(600));
        let env = world.node("a").env();
        world.block_on(async move {
            let open = || -> LocalBoxFuture<'static, Rc<dyn Coordinator>> {
                let env = env.clone();
                Box::pin(async move {
                    let opened = Embedded::open(&env, PathBuf::from("/view")).await;
                    Rc::new(opened.unwrap()) as Rc<dyn Coordinator>
                })
            };
            suite::run(&env, &open).await;
        });
    }
}

#[test]
fn what_a_killed_process_had_locked_is_free() {
    let world = World::new(1);
    world.set_limit(Duration::from_secs(600));
    let node = world.node("a");
    node.start(|env| async move {
        let keeper = Embedded::open(&env, PathBuf::from("/view")).await.unwrap();
        let announcement = keeper.announce("meta/0/1", TERM_MS).await.unwrap();
        announcement.lost().await;
    });
    let scenario = world.clone();
    world.block_on(async move {
        scenario.sleep(Duration::from_secs(1)).await;
        let before = node.env();
        let other = Embedded::open(&before, PathBuf::from("/view"))
            .await
            .unwrap();
        assert_eq!(other.announced().await.unwrap().len(), 1);
        node.kill();
        let other = Embedded::open(&node.env(), PathBuf::from("/view"))
            .await
            .unwrap();
        assert_eq!(other.announced().await.unwrap(), Announced::new());
        let again = other.announce("meta/0/1", TERM_MS).await.unwrap();
        assert_eq!(again.incarnation(), 2);
    });
}

/// Everything that any handle was told.
#[derive(Default)]
struct History {
    views: BTreeMap<u64, View>,
    /// Changes that succeeded.
    made: u64,
    /// Changes whose outcome was not known at first: version and mark.
    unknown: Vec<(u64, u64)>,
}

impl History {
    /// Two different views of one version are never seen.
    fn see(&mut self, view: &View) {
        let known = self
            .views
            .entry(view.version)
            .or_insert_with(|| view.clone());
        assert_eq!(known, view, "two views of version {}", view.version);
    }
}

async fn write(env: Env, handle: SimCoordinator, history: Rc<RefCell<History>>) {
    let mut newest = 0;
    let mut left = CHANGES;
    while left > 0 {
        let now = match handle.view().await {
            Ok(now) => now,
            Err(CoordinatorError::Unavailable(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        assert!(now.version >= newest, "the view went back");
        newest = now.version;
        history.borrow_mut().see(&now);
        let next = with_epoch(&now, epoch(&now) + 1);
        match handle.compare_and_set(next).await {
            Ok(made) => {
                assert_eq!(made.version, now.version + 1);
                history.borrow_mut().see(&made);
                history.borrow_mut().made += 1;
                left -= 1;
            }
            Err(CoordinatorError::Unknown { version, mark, .. }) => {
                history.borrow_mut().unknown.push((version, mark));
                left -= 1;
            }
            Err(CoordinatorError::Conflict { current }) => assert!(current > now.version),
            Err(CoordinatorError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        env.sleep(Duration::from_millis(env.random() % 50)).await;
    }
}

async fn follow(handle: SimCoordinator, history: Rc<RefCell<History>>) {
    let mut at = 0;
    loop {
        let told = handle.watch(at).await.unwrap();
        assert!(told.version > at, "the watch went back");
        at = told.version;
        history.borrow_mut().see(&told);
    }
}

fn storm(world: &World) -> CoordinatorFaults {
    let mut rng = world.rng("storm");
    CoordinatorFaults {
        delay: 100_000..rng.within(1_000_000..300_000_000),
        lose_request: rng.below(200_000) as u32,
        late_request: rng.below(100_000) as u32,
        lose_answer: rng.below(300_000) as u32,
        lose_wake: rng.below(500_000) as u32,
    }
}

/// What a run reached: changes of unknown outcome that were made, and that were not.
fn changes_under_faults(seed: u64) -> (u64, u64) {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(6_000));
    let service = CoordinatorService::new(&world);
    service.set_faults(storm(&world));
    let history = Rc::new(RefCell::new(History::default()));
    let done = Rc::new(Cell::new(0));
    for writer in 0..WRITERS {
        let (service, history, done) = (service.clone(), history.clone(), done.clone());
        world
            .node(&format!("writer{writer}"))
            .start(move |env| async move {
                write(env.clone(), service.open(&env), history).await;
                done.set(done.get() + 1);
            });
    }
    let (watched, seen) = (service.clone(), history.clone());
    world
        .node("watcher")
        .start(move |env| async move { follow(watched.open(&env), seen).await });
    let scenario = world.clone();
    world.block_on(async move {
        let mut rng = scenario.rng("outages");
        while done.get() < WRITERS {
            scenario
                .sleep(Duration::from_millis(rng.below(4_000)))
                .await;
            service.stop();
            scenario
                .sleep(Duration::from_millis(rng.below(2_500)))
                .await;
            service.resume();
        }
        // Healed; what is late arrives.
        service.set_faults(CoordinatorFaults::none());
        scenario.sleep(Duration::from_secs(20)).await;
        let last = service.open(&scenario.env()).view().await.unwrap();
        let mut history = history.borrow_mut();
        history.see(&last);
        let mut made = 0;
        for &(version, mark) in &history.unknown {
            // The watch may not have been told a version that another followed at once: the marks of the
            // versions after it know it.
            let later = history.views.range(version..).next();
            let later = later.map_or(&last, |(_, view)| view);
            made += u64::from(written_by(later, version, mark) == Some(true));
        }
        // Each change added one version and one to the epoch, if and as often as it is said to be made.
        assert_eq!(last.version, history.made + made, "seed {seed}");
        assert_eq!(epoch(&last), last.version, "seed {seed}");
        (made, history.unknown.len() as u64 - made)
    })
}

#[test]
fn under_faults_there_is_one_truth() {
    let (mut made, mut not_made) = (0, 0);
    for seed in 0..SEEDS {
        let (more, fewer) = changes_under_faults(seed);
        made += more;
        not_made += fewer;
    }
    assert!(
        made > 20 && not_made > 20,
        "the faults reach too little: {made} {not_made}"
    );
}

/// A process that announces itself again and again.
async fn stay_announced(handle: SimCoordinator, name: &'static str, lost: Rc<Cell<u64>>) {
    let mut last = 0;
    loop {
        match handle.announce(name, TERM_MS).await {
            Ok(announcement) => {
                assert!(announcement.incarnation() > last, "incarnations rise");
                last = announcement.incarnation();
                announcement.lost().await;
                lost.set(lost.get() + 1);
            }
            Err(CoordinatorError::Taken { .. } | CoordinatorError::Unavailable(_)) => {
                // Whoever waits for a name waits for the list, as the protocol's page says.
                if let Ok(now) = handle.announced().await
                    && now.contains_key(name)
                {
                    handle.watch_announced(&now).await.unwrap();
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn announcements_under_faults(seed: u64) -> u64 {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(6_000));
    let service = CoordinatorService::new(&world);
    service.set_faults(storm(&world));
    let lost = Rc::new(Cell::new(0));
    let names = ["meta/0/1", "meta/0/2"];
    for name in names {
        let (service, lost) = (service.clone(), lost.clone());
        world
            .node(name)
            .start(move |env| async move { stay_announced(service.open(&env), name, lost).await });
    }
    let scenario = world.clone();
    world.block_on(async move {
        let mut rng = scenario.rng("sessions");
        for _ in 0..20 {
            scenario
                .sleep(Duration::from_millis(rng.below(5_000)))
                .await;
            service.end_session(names[rng.below(2) as usize]);
        }
        service.set_faults(CoordinatorFaults::none());
        let handle = service.open(&scenario.env());
        let mut listed = handle.announced().await.unwrap();
        while listed.len() < 2 {
            listed = handle.watch_announced(&listed).await.unwrap();
        }
        scenario.sleep(Duration::from_millis(3 * TERM_MS)).await;
        let settled = handle.announced().await.unwrap();
        assert_eq!(settled.len(), 2, "who lives stays announced");
        // An outage ends nothing.
        service.stop();
        assert!(matches!(
            handle.announced().await,
            Err(CoordinatorError::Unavailable(_))
        ));
        scenario.sleep(Duration::from_millis(5 * TERM_MS)).await;
        service.resume();
        scenario.sleep(Duration::from_millis(2 * TERM_MS)).await;
        assert_eq!(handle.announced().await.unwrap(), settled);
        // A death ends one after its term.
        let killed = scenario.now();
        scenario.node(names[0]).kill();
        let left = handle.watch_announced(&settled).await.unwrap();
        assert_eq!(left.keys().collect::<Vec<_>>(), [names[1]]);
        let took = scenario.now() - killed;
        assert!(took < Duration::from_millis(TERM_MS + 2_000), "{took:?}");
        lost.get()
    })
}

#[test]
fn announcements_come_back_after_lost_sessions() {
    let lost: u64 = (0..SEEDS).map(announcements_under_faults).sum();
    assert!(lost > 100, "the faults reach too little: {lost}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(changes_under_faults(7), changes_under_faults(7));
}
