//! Tasks, timers and virtual time.
//!
//! One step is: fire what is due, then poll one ready task, picked at random. A poll costs a little
//! virtual time, so that a task that never waits meets the time bound instead of hanging the run.
//! When no task is ready, the clock goes on to the next timer.

use crate::logs;
use crate::rng::{Rng, fold};
use crate::world::Inner;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use weft_env::TaskDriver;

/// What one poll costs, in virtual nanoseconds: about what a message costs a real server. (One
/// processor for all nodes: see [`crate::World::set_poll_cost`].)
const POLL_NANOS: Range<u64> = 200..3_000;
/// Timers fire up to this late, as those of a real kernel and runtime do.
const TIMER_LATE_NANOS: u64 = 1_000_000;

/// What is being recorded in the digest.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Poll = 1,
    Timer,
    Spawn,
    End,
    Deliver,
    Connect,
    Reset,
    Disk,
    Fault,
}

/// Wakes one task: its id goes to the list of the woken, once.
struct TaskWaker {
    id: u64,
    queued: AtomicBool,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            woken.push(self.id);
        }
    }
}

struct TaskSlot {
    node: usize,
    name: &'static str,
    /// Taken out while it is being polled.
    future: Option<LocalBoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
    aborted: bool,
    finished: Rc<Cell<bool>>,
}

/// Done when its time comes.
type Due = Box<dyn FnOnce(&Rc<Inner>)>;

pub(crate) struct Executor {
    now: Cell<u64>,
    next_id: Cell<u64>,
    steps: Cell<u64>,
    digest: Cell<u64>,
    tasks: RefCell<BTreeMap<u64, TaskSlot>>,
    ready: RefCell<Vec<u64>>,
    woken: Arc<Mutex<Vec<u64>>>,
    timers: RefCell<BTreeMap<(u64, u64), Due>>,
    /// Ready tasks of paused nodes.
    parked: RefCell<Vec<u64>>,
    paused: RefCell<BTreeSet<usize>>,
    poll_nanos: RefCell<Range<u64>>,
    schedule: RefCell<Rng>,
    lateness: RefCell<Rng>,
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Executor {
        Executor {
            now: Cell::new(0),
            next_id: Cell::new(1),
            steps: Cell::new(0),
            digest: Cell::new(fold(0, seed)),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            woken: Arc::default(),
            timers: RefCell::default(),
            parked: RefCell::default(),
            paused: RefCell::default(),
            poll_nanos: RefCell::new(POLL_NANOS),
            schedule: RefCell::new(Rng::stream(seed, "schedule", 0)),
            lateness: RefCell::new(Rng::stream(seed, "timers", 0)),
        }
    }

    /// Virtual nanoseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(crate) fn set_poll_nanos(&self, nanos: Range<u64>) {
        *self.poll_nanos.borrow_mut() = nanos;
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// A number that no other task, timer, connection or disk operation has.
    pub(crate) fn take_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// Adds an event to the digest.
    pub(crate) fn mark(&self, mark: Mark, node: usize, id: u64) {
        let mut hash = fold(self.digest.get(), self.now.get());
        hash = fold(hash, (mark as u64) << 32 | node as u64);
        self.digest.set(fold(hash, id));
    }

    /// Has `due` done at `at` (or now, if that is past). Returns the key for [`Executor::cancel`].
    pub(crate) fn at(&self, at: u64, due: impl FnOnce(&Rc<Inner>) + 'static) -> (u64, u64) {
        let key = (at.max(self.now.get()), self.take_id());
        self.timers.borrow_mut().insert(key, Box::new(due));
        key
    }

    pub(crate) fn cancel(&self, key: (u64, u64)) {
        let due = self.timers.borrow_mut().remove(&key);
        drop(due);
    }

    /// Spawns a task of `node`.
    pub(crate) fn spawn(
        &self,
        inner: &Weak<Inner>,
        node: usize,
        name: &'static str,
        future: LocalBoxFuture<'static, ()>,
    ) -> SimTask {
        let id = self.take_id();
        self.mark(Mark::Spawn, node, id);
        let finished = Rc::new(Cell::new(false));
        let waker = Arc::new(TaskWaker {
            id,
            queued: AtomicBool::new(false),
            woken: self.woken.clone(),
        });
        waker.wake_by_ref();
        let slot = TaskSlot {
            node,
            name,
            future: Some(future),
            waker,
            aborted: false,
            finished: finished.clone(),
        };
        self.tasks.borrow_mut().insert(id, slot);
        SimTask {
            inner: inner.clone(),
            id,
            finished,
        }
    }

    /// Drops all tasks of `node`.
    pub(crate) fn drop_tasks(&self, node: usize) {
        let ids: Vec<u64> = self
            .tasks
            .borrow()
            .iter()
            .filter(|(_, slot)| slot.node == node)
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            // Destructors may spawn, wake or abort: nothing is borrowed while they run.
            let slot = self.tasks.borrow_mut().remove(&id);
            if let Some(slot) = slot {
                slot.finished.set(true);
                drop(slot);
            }
        }
        self.set_paused(node, false);
    }

    /// Stops running tasks of `node`, or lets them run again.
    pub(crate) fn set_paused(&self, node: usize, pause: bool) {
        if pause {
            self.paused.borrow_mut().insert(node);
        } else if self.paused.borrow_mut().remove(&node) {
            let parked = std::mem::take(&mut *self.parked.borrow_mut());
            self.ready.borrow_mut().extend(parked);
        }
    }

    fn abort(&self, id: u64) {
        if let Some(slot) = self.tasks.borrow_mut().get_mut(&id) {
            slot.aborted = true;
            slot.waker.wake_by_ref();
        }
    }

    /// `node/task` of every task that is there, for reports.
    pub(crate) fn task_names(&self, node_name: impl Fn(usize) -> String) -> Vec<String> {
        self.tasks
            .borrow()
            .iter()
            .map(|(id, slot)| format!("{}/{}#{id}", node_name(slot.node), slot.name))
            .collect()
    }

    fn collect_woken(&self) {
        let woken = {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *woken)
        };
        self.ready.borrow_mut().extend(woken);
    }

    fn fire_due(&self, inner: &Rc<Inner>) -> bool {
        let mut fired = false;
        loop {
            let due = {
                let mut timers = self.timers.borrow_mut();
                match timers.first_entry() {
                    Some(entry) if entry.key().0 <= self.now.get() => Some(entry.remove_entry()),
                    _ => None,
                }
            };
            let Some(((_, id), due)) = due else {
                return fired;
            };
            self.mark(Mark::Timer, 0, id);
            fired = true;
            due(inner);
        }
    }

    /// One step. False when nothing is ready and nothing will ever be.
    pub(crate) fn step(&self, inner: &Rc<Inner>) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.fire_due(inner);
        self.collect_woken();
        let picked = {
            let mut ready = self.ready.borrow_mut();
            if ready.is_empty() {
                None
            } else {
                let at = self.schedule.borrow_mut().below(ready.len() as u64) as usize;
                Some(ready.swap_remove(at))
            }
        };
        let Some(id) = picked else {
            let next = self.timers.borrow().first_key_value().map(|(&key, _)| key);
            let Some((at, _)) = next else {
                return false;
            };
            self.set_now(at);
            self.fire_due(inner);
            return true;
        };
        self.poll(inner, id);
        true
    }

    fn set_now(&self, now: u64) {
        self.now.set(now);
        logs::set_time(now);
    }

    fn poll(&self, inner: &Rc<Inner>, id: u64) {
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(slot) = tasks.get_mut(&id) else {
                return;
            };
            if self.paused.borrow().contains(&slot.node) {
                self.parked.borrow_mut().push(id);
                return;
            }
            slot.waker.queued.store(false, Ordering::Relaxed);
            if slot.aborted {
                let slot = tasks.remove(&id);
                drop(tasks);
                if let Some(slot) = slot {
                    slot.finished.set(true);
                    self.mark(Mark::End, slot.node, id);
                    drop(slot);
                }
                return;
            }
            slot.future
                .take()
                .map(|future| (future, slot.waker.clone(), slot.node, slot.name))
        };
        let Some((mut future, waker, node, name)) = taken else {
            return;
        };
        self.mark(Mark::Poll, node, id);
        let waker = Waker::from(waker);
        let previous = logs::enter(inner.node_name(node), name);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Pending => {
                // The node may have been killed by what the task did: then the slot is gone.
                let mut tasks = self.tasks.borrow_mut();
                match tasks.get_mut(&id) {
                    Some(slot) => slot.future = Some(future),
                    None => {
                        drop(tasks);
                        drop(future);
                    }
                }
            }
            Poll::Ready(()) => {
                let slot = self.tasks.borrow_mut().remove(&id);
                self.mark(Mark::End, node, id);
                if let Some(slot) = slot {
                    slot.finished.set(true);
                }
                drop(future);
            }
        }
        logs::leave(previous);
        let nanos = self.poll_nanos.borrow().clone();
        let cost = self.schedule.borrow_mut().within(nanos);
        self.set_now(self.now.get() + cost);
    }

    /// How late a timer fires.
    fn lateness(&self) -> u64 {
        let mut rng = self.lateness.borrow_mut();
        if rng.once_in(4) {
            rng.below(TIMER_LATE_NANOS)
        } else {
            rng.below(TIMER_LATE_NANOS / 20)
        }
    }
}

/// A task's handle.
pub(crate) struct SimTask {
    inner: Weak<Inner>,
    id: u64,
    finished: Rc<Cell<bool>>,
}

impl TaskDriver for SimTask {
    fn abort(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.executor.abort(self.id);
        }
    }

    fn is_finished(&self) -> bool {
        self.finished.get()
    }
}

/// Ends at a point in virtual time.
pub(crate) struct Sleep {
    inner: Weak<Inner>,
    at: u64,
    key: Option<(u64, u64)>,
    state: Rc<RefCell<SleepState>>,
}

#[derive(Default)]
struct SleepState {
    fired: bool,
    waker: Option<Waker>,
}

impl Sleep {
    /// Sleeps for `nanos` and as late as timers are.
    pub(crate) fn new(inner: &Rc<Inner>, nanos: u64) -> Sleep {
        let late = inner.executor.lateness();
        Sleep::exactly(inner, nanos.saturating_add(late))
    }

    /// Sleeps for exactly `nanos`: for what is inside the simulated kernel.
    pub(crate) fn exactly(inner: &Rc<Inner>, nanos: u64) -> Sleep {
        Sleep {
            inner: Rc::downgrade(inner),
            at: inner.executor.now().saturating_add(nanos),
            key: None,
            state: Rc::default(),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(inner) = self.inner.upgrade() else {
            return Poll::Pending;
        };
        if self.state.borrow().fired || inner.executor.now() >= self.at {
            return Poll::Ready(());
        }
        self.state.borrow_mut().waker = Some(cx.waker().clone());
        if self.key.is_none() {
            let state = self.state.clone();
            self.key = Some(inner.executor.at(self.at, move |_| {
                let waker = {
                    let mut state = state.borrow_mut();
                    state.fired = true;
                    state.waker.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            }));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(key), Some(inner)) = (self.key, self.inner.upgrade()) {
            inner.executor.cancel(key);
        }
    }
}
