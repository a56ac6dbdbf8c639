//! A store's modified list, losses and identity on a disk that stops in each of its changes in turn:
//! by kill -9 and by power cut, in the middle of the change, at any byte. Whatever the instant, the
//! store opens again, every mark that was promised is there, and the list goes on.

mod promises;

use promises::{Death, Promises, State};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, OpenMode};
use weft_objects::{Loss, Purpose, Store};
use weft_sim::{Disk, DiskFaults, Node, Rng, World};
use weft_types::{Epoch, Ino, Member, Mode, ObjectId, PairId};

const DIR: &str = "/store";
const LIST: &str = "/store/modified";
const SOON: Duration = Duration::from_micros(100);

fn id(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(number),
        generation: 1,
    }
}

async fn open(env: Env) -> weft_objects::Result<Store> {
    Store::open(env, Path::new(DIR), PairId(0), Member::Zero).await
}

/// How the disk is found by the process that is to be stopped.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Empty.
    Empty,
    /// With a store that has marks and a loss.
    Used,
    /// The same, and somebody has taken the list away.
    ListGone,
    /// The same, with a flipped bit in the list.
    ListDamaged,
    /// The same, and the disk is full: the list cannot be made anew.
    Full,
}

/// One thing that is asked of a store.
#[derive(Clone, Debug)]
enum Step {
    Mark(u64, Range<u32>, Purpose, bool),
    Clear(u64, Range<u32>),
    ClearEverything,
    Tidy,
    NoteLoss(u64),
    ClearLoss(u64),
    Record(State),
    /// The process ends well and another begins.
    Reopen,
}

/// A process's use of its store, and what it was promised.
#[derive(Clone)]
struct Life {
    env: Env,
    disk: Disk,
    promises: Rc<RefCell<Promises>>,
}

impl Life {
    /// The answer came before the disk stopped.
    fn heard(&self) -> bool {
        !self.disk.has_stopped()
    }

    /// False if it failed; the promises are then what they were. None: a process could not open it again.
    async fn step(&self, at: &mut Option<Store>, step: &Step) -> bool {
        let promises = || self.promises.borrow_mut();
        let Some(store) = at else {
            return false;
        };
        let done = match step {
            Step::Mark(number, regions, purpose, durable) => {
                let marked = store.mark(id(*number), regions.clone(), *purpose, *durable);
                let marked = marked.await;
                if marked.is_ok() && self.heard() {
                    promises().marked(id(*number), regions.clone(), *durable);
                }
                marked
            }
            Step::Clear(number, regions) => {
                promises().clears(id(*number), regions.clone());
                store.clear(id(*number), regions.clone());
                Ok(())
            }
            Step::ClearEverything => {
                promises().clears_everything();
                store.clear_everything();
                Ok(())
            }
            Step::Tidy => store.tidy().await,
            Step::NoteLoss(number) => {
                promises().changes_loss(id(*number), 0);
                let noted = store.note_losses(&[loss(*number)]).await;
                if noted.is_ok() && self.heard() {
                    promises().noted_loss(id(*number), 0);
                }
                noted
            }
            Step::ClearLoss(number) => {
                promises().changes_loss(id(*number), 0);
                let whole = 0..u64::MAX;
                let cleared = store.clear_losses(id(*number), &[whole]).await;
                if cleared.is_ok() && self.heard() {
                    promises().cleared_loss(id(*number), 0);
                }
                cleared
            }
            Step::Record(state) => {
                promises().records(*state);
                let recorded = store.record_state(state.0, state.1, state.2, state.3).await;
                if recorded.is_ok() && self.heard() {
                    promises().recorded();
                }
                recorded
            }
            Step::Reopen => {
                *at = None;
                let opened = open(self.env.clone()).await;
                if let Ok(store) = &opened
                    && self.heard()
                {
                    promises().check(store, Death::Kill, "opened anew");
                }
                opened.map(|store| *at = Some(store))
            }
        };
        done.is_ok()
    }
}

fn loss(number: u64) -> Loss {
    Loss {
        object: id(number),
        range: 0..4096 * number,
        session: 7,
        member: Member::One,
        can_return: true,
        epoch: Epoch(3),
        noted: 5,
    }
}

/// Makes the directory as [`Start`] says, everything stable.
async fn prepare(node: &Node, start: Start, promises: &Rc<RefCell<Promises>>) {
    let disk = node.disk();
    disk.make_durable_dir(DIR);
    if matches!(start, Start::Empty) {
        return;
    }
    let env = node.env();
    let life = Life {
        env: env.clone(),
        disk: disk.clone(),
        promises: promises.clone(),
    };
    let mut store = Some(open(env.clone()).await.unwrap());
    for step in [
        Step::Mark(1, 0..3, Purpose::Write, true),
        Step::Mark(2, 7..8, Purpose::Write, true),
        Step::Clear(1, 1..2),
        Step::NoteLoss(9),
        Step::Record((Epoch(3), Some(Mode::Both), true, false)),
    ] {
        assert!(life.step(&mut store, &step).await);
    }
    drop(store);
    let path = Path::new(LIST);
    match start {
        Start::Empty | Start::Used => {}
        Start::ListGone => {
            env.remove_file(path).unwrap();
            env.sync_dir(Path::new(DIR)).await.unwrap();
            promises.borrow_mut().expect_everything();
        }
        Start::ListDamaged => {
            let list = env.open(path, OpenMode::Write).await.unwrap();
            list.write_at(40, vec![vec![0x55].into()]).await.unwrap();
            list.sync_data().await.unwrap();
            promises.borrow_mut().expect_everything();
        }
        Start::Full => disk.set_capacity(disk.used()),
    }
}

/// Where and how a run is ended.
#[derive(Clone, Copy, Debug)]
struct End {
    /// In which change of the disk; `None`: after the last.
    stop: Option<u64>,
    death: Death,
    /// Torn at any byte, not at pages and sectors.
    bytes: bool,
    seed: u64,
}

/// Runs the steps one after the other until the end comes, and looks at what is left. Returns how
/// many changes of the disk they took.
fn run_to(end: End, start: Start, gaps: bool, steps: &[Step]) -> u64 {
    let world = World::new(end.seed);
    world.set_limit(Duration::from_secs(100));
    let node = world.node("data");
    let steps = steps.to_vec();
    let scenario = world.clone();
    let changes = Rc::new(Cell::new(0));
    let counted = changes.clone();
    world.block_on(async move {
        let what = format!("{start:?}, {end:?}");
        let promises: Rc<RefCell<Promises>> = Rc::default();
        let disk = node.disk();
        if end.bytes {
            disk.tear_at(1);
        }
        prepare(&node, start, &promises).await;
        if gaps {
            promises.borrow_mut().expect_gaps();
        }
        let begun = disk.changes();
        disk.stop_at(end.stop);
        let finished = Rc::new(Cell::new(false));
        let life = Life {
            env: node.env(),
            disk: disk.clone(),
            promises: promises.clone(),
        };
        let over = finished.clone();
        node.start(|env| async move {
            let life = Life { env, ..life };
            let mut store = match open(life.env.clone()).await {
                Ok(store) => Some(store),
                Err(error) if life.heard() => panic!("{error}"),
                Err(_) => return,
            };
            for step in steps {
                assert!(
                    life.step(&mut store, &step).await || !life.heard(),
                    "{step:?} failed"
                );
            }
            over.set(true);
            std::future::pending().await
        });
        while !finished.get() && !disk.has_stopped() {
            scenario.sleep(SOON).await;
        }
        counted.set(disk.changes() - begun);
        die(&node, end.death);
        // What is found now counts, also if the power goes before anything else is done.
        let opened = open(node.env()).await;
        let store = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
        promises.borrow_mut().check(&store, end.death, &what);
        drop(store);
        die(&node, Death::PowerCut);
        disk.set_capacity(1 << 40);
        settle(&node, &promises, Death::PowerCut, &what).await;
    });
    changes.get()
}

fn die(node: &Node, death: Death) {
    match death {
        Death::Kill => node.kill(),
        Death::PowerCut => {
            node.power_cut();
            node.start(|_| async {});
        }
    }
}

/// Opens the store after a death, sees that it keeps its promises and goes on.
async fn settle(node: &Node, promises: &Rc<RefCell<Promises>>, death: Death, what: &str) {
    let opened = open(node.env()).await;
    let store = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    promises.borrow_mut().check(&store, death, what);
    let mut store = Some(store);
    let life = Life {
        env: node.env(),
        disk: node.disk(),
        promises: promises.clone(),
    };
    for step in [
        Step::Mark(1, 1..2, Purpose::Write, true),
        Step::Mark(50, 0..2, Purpose::Write, false),
        Step::Clear(50, 0..1),
        Step::Tidy,
        Step::Tidy,
        Step::Mark(51, 3..4, Purpose::Free, true),
        Step::NoteLoss(52),
    ] {
        assert!(life.step(&mut store, &step).await, "{what}: {step:?}");
    }
    drop(store);
    node.kill();
    let store = open(node.env()).await.unwrap();
    promises.borrow_mut().check(&store, Death::Kill, what);
    drop(store);
    node.kill();
}

/// The steps with an end in every change of the disk, of both kinds, each torn in several ways.
fn every_end(start: Start, gaps: bool, steps: &[Step], at_least: u64) {
    for death in [Death::Kill, Death::PowerCut] {
        for (seed, bytes) in (0..6).zip([false, true].into_iter().cycle()) {
            let end = End {
                stop: None,
                death,
                bytes,
                seed,
            };
            let total = run_to(end, start, gaps, steps);
            assert!(total >= at_least, "{start:?}: only {total} changes");
            for stop in 0..total {
                let stop = Some(stop);
                run_to(End { stop, ..end }, start, gaps, steps);
            }
        }
    }
}

/// Marks, clears and tidying, the next start among them, losses and states.
fn a_bit_of_all(durable: bool) -> Vec<Step> {
    use Purpose::{Free, Write};
    vec![
        Step::Mark(3, 0..4, Write, durable),
        Step::Mark(1, 0..2, Write, durable),
        Step::Clear(3, 1..3),
        Step::Mark(3, 2..6, Write, durable),
        Step::Tidy,
        Step::Clear(2, 7..8),
        Step::Record((Epoch(4), Some(Mode::Only(Member::Zero)), true, true)),
        Step::Tidy,
        Step::NoteLoss(8),
        Step::Mark(2, 7..8, Free, durable),
        Step::Clear(3, 0..1),
        Step::Tidy,
        Step::Tidy,
        Step::Mark(3, 0..1, Write, durable),
        Step::Reopen,
        Step::Mark(4, 0..1, Write, durable),
        Step::Clear(4, 0..1),
        Step::ClearLoss(9),
        Step::Mark(4, 0..2, Write, durable),
        Step::Tidy,
        Step::Record((Epoch(5), None, false, false)),
        Step::Reopen,
        Step::Mark(5, 0..1, Free, durable),
    ]
}

#[test]
fn durable_marks_survive_an_end_in_any_change() {
    every_end(Start::Used, true, &a_bit_of_all(true), 45);
}

/// The record that is being written when the end comes is told from damage, wherever it is cut.
#[test]
fn a_record_cut_short_is_no_damage() {
    let mark = |region| Step::Mark(3, region..region + 1, Purpose::Write, true);
    let steps: Vec<Step> = (0..20).map(|number| mark(number * 2)).collect();
    every_end(Start::Used, false, &steps, 45);
}

#[test]
fn marks_survive_a_kill_in_any_change() {
    every_end(Start::Used, true, &a_bit_of_all(false), 40);
}

#[test]
fn a_store_is_made_whatever_ends_its_making() {
    let steps = [Step::Mark(1, 0..1, Purpose::Write, true)];
    for death in [Death::Kill, Death::PowerCut] {
        for bytes in [false, true] {
            let end = End {
                stop: None,
                death,
                bytes,
                seed: 3,
            };
            let total = run_to(end, Start::Empty, false, &steps);
            assert!(total > 256, "{total}");
            for stop in 0..total {
                let stop = Some(stop);
                run_to(End { stop, ..end }, Start::Empty, false, &steps);
            }
        }
    }
}

/// A list that was damaged or taken away says so until everything has been compared, whatever ends
/// the process that finds it.
#[test]
fn that_everything_may_differ_survives_an_end_in_any_change() {
    let steps = [
        Step::Mark(3, 0..4, Purpose::Write, true),
        Step::Reopen,
        Step::Clear(3, 1..3),
        Step::Tidy,
        Step::Mark(3, 1..2, Purpose::Write, true),
        Step::ClearEverything,
        Step::Mark(4, 1..2, Purpose::Write, true),
        Step::Tidy,
        Step::Mark(3, 2..3, Purpose::Write, true),
        Step::Reopen,
    ];
    for start in [Start::ListGone, Start::ListDamaged] {
        every_end(start, true, &steps, 20);
    }
}

/// When the list cannot be made anew the old one is used: it promises the same.
#[test]
fn a_full_disk_breaks_no_promise() {
    let steps = [
        // In the list as it was found: a life before this one need not have synced it.
        Step::Mark(1, 0..3, Purpose::Write, false),
        Step::Mark(3, 0..4, Purpose::Free, false),
        Step::Clear(3, 0..1),
        Step::Mark(4, 0..2, Purpose::Free, false),
        Step::Reopen,
        Step::Mark(3, 1..4, Purpose::Free, true),
        Step::Mark(1, 0..3, Purpose::Write, true),
        Step::Reopen,
        Step::Mark(4, 0..2, Purpose::Free, true),
    ];
    every_end(Start::Full, true, &steps, 5);
}

/// A change of the losses that failed may be on the disk or not; the next one that succeeds says what
/// is true, even if it is what was true before.
#[test]
fn losses_are_what_was_answered_last() {
    let mut failed = 0;
    for seed in 0..80 {
        let world = World::new(seed);
        world.set_limit(Duration::from_secs(100));
        let node = world.node("data");
        let failures = world.block_on(async move {
            let promises: Rc<RefCell<Promises>> = Rc::default();
            prepare(&node, Start::Used, &promises).await;
            let life = Life {
                env: node.env(),
                disk: node.disk(),
                promises: promises.clone(),
            };
            let mut store = Some(open(node.env()).await.unwrap());
            let faults = |sync_error_ppm| DiskFaults {
                sync_error_ppm,
                ..DiskFaults::default()
            };
            // Number 9 is lost already.
            let (first, second) = match seed % 2 {
                0 => (Step::ClearLoss(9), Step::NoteLoss(9)),
                _ => (Step::NoteLoss(8), Step::ClearLoss(8)),
            };
            node.disk().set_faults(faults(500_000));
            let failed = !life.step(&mut store, &first).await;
            node.disk().set_faults(faults(0));
            assert!(life.step(&mut store, &second).await);
            drop(store);
            node.kill();
            let store = open(node.env()).await.unwrap();
            let mut promises = promises.borrow_mut();
            promises.check(&store, Death::Kill, &format!("seed {seed}"));
            failed
        });
        failed += u64::from(failures);
    }
    assert!(failed > 20, "{failed}");
}

/// Draws what one of several users of a store asks for next; they share no object.
fn drawn(rng: &mut Rng, user: u64, epoch: &Cell<u64>) -> Step {
    let number = user * 10 + rng.below(3);
    let region = rng.below(6) as u32;
    let some = region..region + 1 + rng.below(3) as u32;
    let purpose = if rng.once_in(4) {
        Purpose::Free
    } else {
        Purpose::Write
    };
    match rng.below(40) {
        0..=23 => Step::Mark(number, some, purpose, rng.once_in(3)),
        24..=32 => Step::Clear(number, region..region + 1),
        33..=34 => Step::Tidy,
        35 => Step::ClearEverything,
        36 => Step::NoteLoss(number + 1),
        37 => Step::ClearLoss(number + 1),
        // States are recorded by one.
        _ if user == 0 => {
            epoch.set(epoch.get() + 1);
            let serving = rng.once_in(2);
            Step::Record((
                Epoch(epoch.get()),
                rng.once_in(2).then_some(Mode::Down(Member::One)),
                serving,
                serving && rng.once_in(2),
            ))
        }
        _ => Step::Mark(number, some, purpose, true),
    }
}

/// Draws what goes wrong with a disk for one life of its process.
fn trouble(rng: &mut Rng, disk: &Disk) {
    disk.set_capacity(match rng.below(6) {
        0 => disk.used() + (rng.below(100) << 12),
        _ => 1 << 40,
    });
    let (sync_error_ppm, write_error_ppm) = match rng.below(3) {
        0 => (100_000, 0),
        1 => (30_000, 30_000),
        _ => (0, 0),
    };
    disk.set_faults(DiskFaults {
        sync_error_ppm,
        write_error_ppm,
        ..DiskFaults::default()
    });
}

/// Many lives on one disk, several users in each at the same time, while writes and syncs fail and
/// room is short; what one life leaves open the next must settle.
fn lives(seed: u64, count: u64) -> (u64, usize) {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(1_000));
    let node = world.node("data");
    let scenario = world.clone();
    let stops = Rc::new(Cell::new((0, 0)));
    let counted = stops.clone();
    world.block_on(async move {
        let promises: Rc<RefCell<Promises>> = Rc::default();
        let disk = node.disk();
        if seed.is_multiple_of(2) {
            disk.tear_at(1);
        }
        prepare(&node, Start::Used, &promises).await;
        promises.borrow_mut().expect_gaps();
        let mut rng = scenario.rng("lives");
        let epoch = Rc::new(Cell::new(10));
        for life in 0..count {
            let what = format!("seed {seed}, life {life}");
            trouble(&mut rng, &disk);
            let within = [5, 40, 400][rng.below(3) as usize];
            disk.stop_at(Some(rng.below(within)));
            let using = Life {
                env: node.env(),
                disk: disk.clone(),
                promises: promises.clone(),
            };
            let (epoch, dice) = (epoch.clone(), rng.bits());
            node.start(|env| async move {
                let life = Life { env, ..using };
                let Ok(store) = open(life.env.clone()).await else {
                    return;
                };
                let users = (0..4).map(|user| {
                    let (life, epoch) = (life.clone(), epoch.clone());
                    let mut store = Some(store.clone());
                    let mut rng = Rng::stream(dice, "user", user);
                    async move {
                        for _ in 0..200 {
                            let step = drawn(&mut rng, user, &epoch);
                            life.step(&mut store, &step).await;
                        }
                    }
                });
                futures_util::future::join_all(users).await;
            });
            let until = scenario.now() + Duration::from_secs(3);
            while !disk.has_stopped() && scenario.now() < until {
                scenario.sleep(SOON).await;
            }
            counted.set((
                counted.get().0 + u64::from(disk.has_stopped()),
                counted.get().1.max(promises.borrow().marks()),
            ));
            let death = if rng.once_in(2) {
                Death::Kill
            } else {
                Death::PowerCut
            };
            die(&node, death);
            // What is found counts from now on, also if the list cannot be made anew: the room is
            // still what it was, and only reading must go well.
            disk.set_faults(DiskFaults::default());
            let opened = open(node.env()).await;
            let store = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            promises.borrow_mut().check(&store, death, &what);
            drop(store);
            node.kill();
        }
        disk.set_capacity(1 << 40);
        settle(
            &node,
            &promises,
            Death::Kill,
            &format!("seed {seed}, the last"),
        )
        .await;
    });
    stops.get()
}

#[test]
fn many_lives_with_failing_disks_lose_no_mark() {
    let (mut stops, mut most) = (0, 0);
    for seed in 0..30 {
        let (stopped, marks) = lives(seed, 10);
        stops += stopped;
        most = most.max(marks);
    }
    assert!(stops > 150, "{stops}");
    assert!(most > 30, "{most}");
}
