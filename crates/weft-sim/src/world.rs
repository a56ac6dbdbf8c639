//! The world: its nodes, and what can be done to them.

use crate::disk::{Disk, Disks};
use crate::driver::SimDriver;
use crate::executor::{Executor, Mark, Sleep};
use crate::net::{Net, Network};
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_env::{Env, Lock, OpenMode};

/// Polls at one and the same scenario before it is taken for a livelock: a run of some virtual
/// minutes takes a few million.
const STEPS_MAX: u64 = 200_000_000;
/// Where the wall clocks begin: 2026-01-01, so that times look like times.
const WALL_ORIGIN_NANOS: i128 = 1_767_225_600 * 1_000_000_000;
/// Monotonic clocks of nodes run apart by up to this (parts per million, either way): a bad quartz.
const DRIFT_PPM: u64 = 100;

/// Everything, shared by handles (strong) and by what runs inside (weak).
pub(crate) struct Inner {
    pub(crate) seed: u64,
    pub(crate) executor: Executor,
    pub(crate) net: Net,
    pub(crate) disks: Disks,
    pub(crate) nodes: RefCell<Vec<NodeState>>,
    /// Locked files, by node and path: the life that has each, and which locking it was.
    locks: RefCell<BTreeMap<(usize, PathBuf), (u64, u64)>>,
    lockings: Cell<u64>,
    limit: Cell<u64>,
    this: Weak<Inner>,
}

pub(crate) struct NodeState {
    name: Rc<str>,
    /// Grows when the node dies: what belongs to an earlier life has no effect any more.
    pub(crate) life: u64,
    /// False after a power cut until the next start: nothing answers, not even with a refusal.
    pub(crate) powered: bool,
    /// How often it has been switched on.
    pub(crate) boots: u64,
    pub(crate) running: bool,
    pub(crate) paused: bool,
    pub(crate) wall_offset: i128,
    pub(crate) mono_origin: u64,
    pub(crate) drift_ppm: i64,
    pub(crate) random: Rng,
}

/// A simulated world. Cloning shares it; it ends with the last clone. Tasks of nodes must not keep
/// a `World` or a [`Node`]: scenarios (under [`World::block_on`]) may.
#[derive(Clone)]
pub struct World(pub(crate) Rc<Inner>);

/// The world's time, for what runs inside it and must not keep the world: histories of several
/// nodes need one clock.
#[derive(Clone)]
pub struct Clock(Weak<Inner>);

impl Clock {
    /// Virtual nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.0.upgrade().map_or(0, |inner| inner.executor.now())
    }
}

/// A node of the world: a machine with a name, a disk and one process.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Rc<Inner>,
    pub(crate) index: usize,
}

impl Inner {
    pub(crate) fn node_name(&self, index: usize) -> Rc<str> {
        self.nodes.borrow()[index].name.clone()
    }

    /// The node with this name.
    pub(crate) fn find_node(&self, name: &str) -> Option<usize> {
        self.nodes
            .borrow()
            .iter()
            .position(|node| &*node.name == name)
    }

    /// True while the process that `life` belongs to is alive.
    pub(crate) fn is_alive(&self, node: usize, life: u64) -> bool {
        self.nodes.borrow()[node].life == life
    }

    /// Locks a file, which is made if it is not there. A lock of a dead life counts for nothing.
    pub(crate) fn lock(&self, node: usize, life: u64, path: &Path) -> io::Result<Lock> {
        let key = (node, path.to_owned());
        self.check_unlocked(&key)?;
        if let Some(inner) = self.this.upgrade() {
            self.disks
                .open(&inner, node, life, path, OpenMode::Create)?;
        }
        Ok(self.locked(key, life))
    }

    /// Locks a directory.
    pub(crate) fn lock_dir(&self, node: usize, life: u64, path: &Path) -> io::Result<Lock> {
        let key = (node, path.to_owned());
        self.check_unlocked(&key)?;
        self.disks.read_dir(node, path)?;
        Ok(self.locked(key, life))
    }

    fn check_unlocked(&self, key: &(usize, PathBuf)) -> io::Result<()> {
        let held = self.locks.borrow().get(key).copied();
        match held.is_some_and(|(holder, _)| self.is_alive(key.0, holder)) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    }

    fn locked(&self, key: (usize, PathBuf), life: u64) -> Lock {
        let locking = self.lockings.get() + 1;
        self.lockings.set(locking);
        self.locks.borrow_mut().insert(key.clone(), (life, locking));
        Lock::new(HeldLock {
            inner: self.weak(),
            key,
            locking,
        })
    }

    pub(crate) fn weak(&self) -> Weak<Inner> {
        self.this.clone()
    }
}

/// Lets a file go when it is dropped, unless another process has it by then.
struct HeldLock {
    inner: Weak<Inner>,
    key: (usize, PathBuf),
    locking: u64,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        let mut locks = inner.locks.borrow_mut();
        if locks
            .get(&self.key)
            .is_some_and(|(_, locking)| *locking == self.locking)
        {
            locks.remove(&self.key);
        }
    }
}

impl World {
    /// A world in which everything random comes from `seed`.
    pub fn new(seed: u64) -> World {
        let world = World(Rc::new_cyclic(|this| Inner {
            seed,
            executor: Executor::new(seed),
            net: Net::new(seed),
            disks: Disks::new(seed),
            nodes: RefCell::default(),
            locks: RefCell::default(),
            lockings: Cell::new(0),
            limit: Cell::new(u64::MAX),
            this: this.clone(),
        }));
        // The scenario itself runs on node 0, which no fault touches.
        world.node("world");
        world
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.executor.now())
    }

    /// The world's time.
    pub fn clock(&self) -> Clock {
        Clock(self.0.weak())
    }

    /// A hash over every scheduling decision, timer, delivery and fault so far.
    pub fn digest(&self) -> u64 {
        self.0.executor.digest()
    }

    /// Steps of the executor so far.
    pub fn steps(&self) -> u64 {
        self.0.executor.steps()
    }

    /// A stream of random numbers for the scenario's own `purpose`.
    pub fn rng(&self, purpose: &str) -> Rng {
        Rng::stream(self.0.seed, purpose, u64::MAX)
    }

    /// The node with this name, which is also the host part of its addresses; made on first use.
    pub fn node(&self, name: &str) -> Node {
        let index = self.0.find_node(name).unwrap_or_else(|| {
            let mut nodes = self.0.nodes.borrow_mut();
            let index = nodes.len();
            let mut traits = Rng::stream(self.0.seed, "node", index as u64);
            nodes.push(NodeState {
                name: name.into(),
                life: 1,
                powered: true,
                boots: 1,
                running: false,
                paused: false,
                wall_offset: i128::from(traits.below(2_000_000)) - 1_000_000,
                mono_origin: traits.below(1_000_000_000_000),
                drift_ppm: traits.below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64,
                random: Rng::stream(self.0.seed, "random", index as u64),
            });
            self.0.disks.add(self.0.seed, index);
            index
        });
        Node {
            inner: self.0.clone(),
            index,
        }
    }

    /// The environment of the scenario itself.
    pub fn env(&self) -> Env {
        self.node("world").env()
    }

    /// The network's faults.
    pub fn net(&self) -> Network {
        Network(self.0.clone())
    }

    /// Ends after `duration` of virtual time.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        Sleep::exactly(
            &self.0,
            u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        )
    }

    /// Panics when virtual time passes `limit` within [`World::block_on`].
    pub fn set_limit(&self, limit: Duration) {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.0.limit.set(nanos);
    }

    /// What each poll of a task costs from now on, in virtual nanoseconds; by default 200 to 3,000. All
    /// nodes share that time, as if they ran on one processor: where many nodes work at the same time
    /// and throughput is what counts, `0..0` leaves it to what is modelled node by node. (A task that
    /// never waits then meets the bound on steps instead of the one on time.)
    pub fn set_poll_cost(&self, nanos: Range<u64>) {
        self.0.executor.set_poll_nanos(nanos);
    }

    /// Runs the world until `scenario` is done; it goes no further than that.
    ///
    /// # Panics
    /// If nothing can happen any more while the scenario waits, or if it takes longer than
    /// [`World::set_limit`] allows; the message has the seed and the tasks that are there.
    pub fn block_on<T: 'static>(&self, scenario: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(Cell::new(None));
        let place = output.clone();
        let _place = PlaceOnPanic(self.0.seed);
        self.0.executor.spawn(
            &self.0.this,
            0,
            "scenario",
            Box::pin(async move {
                place.set(Some(scenario.await));
            }),
        );
        loop {
            if let Some(output) = output.take() {
                return output;
            }
            if !self.0.executor.step(&self.0) {
                self.stuck("nothing can happen any more");
            }
            if self.0.executor.now() > self.0.limit.get() {
                self.stuck("the time bound passed");
            }
            if self.0.executor.steps() > STEPS_MAX {
                self.stuck("the step bound passed");
            }
        }
    }

    fn stuck(&self, why: &str) -> ! {
        let tasks = self
            .0
            .executor
            .task_names(|node| self.0.node_name(node).to_string());
        panic!(
            "seed {}: {why} at {:?} after {} steps; tasks: {}",
            self.0.seed,
            self.now(),
            self.steps(),
            tasks.join(", ")
        );
    }
}

/// Says where a run was when it panicked: the message of the panic does not know.
struct PlaceOnPanic(u64);

impl Drop for PlaceOnPanic {
    // A failing run is read by a person, and the test harness shows it only then.
    #[allow(clippy::disallowed_macros)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the world of seed {} stopped at {}",
                self.0,
                crate::logs::current_place()
            );
        }
    }
}

impl Node {
    /// Its name.
    pub fn name(&self) -> String {
        self.inner.node_name(self.index).to_string()
    }

    /// What its present process sees.
    pub fn env(&self) -> Env {
        let life = self.inner.nodes.borrow()[self.index].life;
        Env::new(SimDriver::new(&self.inner, self.index, life))
    }

    /// Starts its process (after a power cut: boots the machine first). A process that runs is
    /// killed before.
    pub fn start<F: Future<Output = ()> + 'static>(&self, main: impl FnOnce(Env) -> F) {
        if self.is_running() {
            self.kill();
        }
        let booted = {
            let mut nodes = self.inner.nodes.borrow_mut();
            let state = &mut nodes[self.index];
            state.running = true;
            let booted = !std::mem::replace(&mut state.powered, true);
            state.boots += u64::from(booted);
            booted
        };
        self.inner
            .executor
            .mark(Mark::Fault, self.index, 1 + u64::from(booted));
        if booted {
            self.inner.net.host_is_back(&self.inner, self.index);
        }
        let env = self.env();
        env.spawn("main", main(env.clone()));
    }

    /// True from its start to its death.
    pub fn is_running(&self) -> bool {
        self.inner.nodes.borrow()[self.index].running
    }

    /// True between `pause` and `resume`.
    pub fn is_paused(&self) -> bool {
        self.inner.nodes.borrow()[self.index].paused
    }

    /// `kill -9`: its tasks are gone, its peers see their connections end, what it has written to
    /// files stays (a write that was under way may be done in part).
    pub fn kill(&self) {
        self.die(true);
    }

    /// The machine loses power: as `kill`, but peers see nothing, connections to it hang until it
    /// is started again, and any part of what was not synced is lost.
    pub fn power_cut(&self) {
        self.die(false);
    }

    fn die(&self, powered: bool) {
        {
            let mut nodes = self.inner.nodes.borrow_mut();
            let state = &mut nodes[self.index];
            state.life += 1;
            state.running = false;
            state.paused = false;
            state.powered = powered;
            // Another start is another process: other random bits, another clock origin.
            let life = state.life << 32 | self.index as u64;
            state.random = Rng::stream(self.inner.seed, "random", life);
            if !powered {
                state.mono_origin = state.random.below(1_000_000_000_000);
            }
        }
        self.inner
            .executor
            .mark(Mark::Fault, self.index, 3 + u64::from(powered));
        self.inner.disks.process_died(self.index);
        self.inner
            .net
            .process_died(&self.inner, self.index, powered);
        self.inner.executor.drop_tasks(self.index);
        if !powered {
            self.inner.disks.power_cut(self.index);
        }
    }

    /// SIGSTOP: no task of it runs; its sockets stay, its disk finishes what it was asked.
    pub fn pause(&self) {
        self.inner.executor.mark(Mark::Fault, self.index, 5);
        self.inner.nodes.borrow_mut()[self.index].paused = true;
        self.inner.executor.set_paused(self.index, true);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.inner.executor.mark(Mark::Fault, self.index, 6);
        self.inner.nodes.borrow_mut()[self.index].paused = false;
        self.inner.executor.set_paused(self.index, false);
    }

    /// Sets its wall clock forward or back. The monotonic clock goes on.
    pub fn jump_wall(&self, nanos: i128) {
        self.inner.executor.mark(Mark::Fault, self.index, 7);
        self.inner.nodes.borrow_mut()[self.index].wall_offset += nanos;
    }

    /// Its disk: faults and inspection.
    pub fn disk(&self) -> Disk {
        Disk {
            inner: self.inner.clone(),
            node: self.index,
        }
    }
}

impl NodeState {
    pub(crate) fn mono(&self, now: u64) -> u64 {
        let drift = now as i128 * i128::from(self.drift_ppm) / 1_000_000;
        self.mono_origin + (now as i128 + drift) as u64
    }

    pub(crate) fn wall(&self, now: u64) -> i128 {
        WALL_ORIGIN_NANOS + i128::from(now) + self.wall_offset
    }

    /// How long `nanos` on this node's clock are in the world's time.
    pub(crate) fn stretch(&self, nanos: u64) -> u64 {
        let rate = (1_000_000 + self.drift_ppm) as u128;
        // One more, for what the clock's own rounding loses.
        let world = (u128::from(nanos) * 1_000_000).div_ceil(rate) + 1;
        u64::try_from(world).unwrap_or(u64::MAX)
    }
}
