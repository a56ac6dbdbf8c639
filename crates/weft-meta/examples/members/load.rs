//! Entries at a rate, or as fast as they go, and how long each takes until it is committed.

use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use weft_env::Env;
use weft_wire::proto::{Create, FileKind, Op, Setxattr, op};

/// Takes changes and has them committed.
pub trait Committing {
    /// Begins. `then` is told whether it was committed.
    ///
    /// # Errors
    /// If it is not taken.
    fn commit(&self, op: Op, then: impl FnOnce(bool) + 'static) -> Result<(), String>;
}

/// Entries under way where none waits for its time: two batches of the most entries that one has.
const UNDER_WAY: u64 = 8192;
/// Entries under way at most where each has its time: a server that is behind refuses more than it keeps
/// waiting. Who waits for that counts from when it was due.
const BEHIND_MAX: u64 = 50_000;
/// What is due within this begins together.
const TICK: Duration = Duration::from_micros(100);
/// The course is told for each such time.
const STEP: Duration = Duration::from_millis(100);
/// Bytes of an entry but for the value.
const ENTRY_BYTES: usize = 56;
const ROOT: u64 = 1;

/// See the module.
pub struct Load {
    /// Entries a second; 0: as many as are committed.
    rate: u64,
    seconds: f64,
    /// Bytes of each, about.
    bytes: usize,
}

/// What the entries of a load share.
struct Shared {
    env: Env,
    begun: u64,
    latencies: RefCell<Vec<u64>>,
    /// By step: entries that were committed, and the longest of their latencies.
    course: RefCell<Vec<(u64, u64)>>,
    under_way: Cell<u64>,
    failed: Cell<u64>,
    fewer: Notify,
}

impl Shared {
    fn new(env: &Env) -> Rc<Shared> {
        Rc::new(Shared {
            env: env.clone(),
            begun: env.now().0,
            latencies: RefCell::default(),
            course: RefCell::default(),
            under_way: Cell::new(0),
            failed: Cell::new(0),
            fewer: Notify::new(),
        })
    }

    fn begin(self: &Rc<Self>, place: &impl Committing, op: Op, due: u64) -> Result<(), String> {
        let shared = self.clone();
        self.under_way.set(self.under_way.get() + 1);
        place.commit(op, move |is_committed| shared.end(due, is_committed))
    }

    fn end(&self, due: u64, is_committed: bool) {
        let now = self.env.now().0;
        self.under_way.set(self.under_way.get() - 1);
        self.fewer.notify_one();
        if !is_committed {
            return self.failed.set(self.failed.get() + 1);
        }
        let latency = now.saturating_sub(due);
        self.latencies.borrow_mut().push(latency);
        let step = ((now - self.begun) / STEP.as_nanos() as u64) as usize;
        let course = &mut *self.course.borrow_mut();
        if course.len() <= step {
            course.resize(step + 1, (0, 0));
        }
        course[step].0 += 1;
        course[step].1 = course[step].1.max(latency);
    }

    async fn until_at_most(&self, under_way: u64) {
        while self.under_way.get() > under_way {
            self.fewer.notified().await;
        }
    }
}

/// Makes names in the root directory, as fast as they are committed: what a create of a file is to the
/// journal, without a place for its bytes.
///
/// # Errors
/// If one is refused.
pub async fn fill(env: &Env, place: &impl Committing, count: u64) -> Result<Value, String> {
    let shared = Shared::new(env);
    // Another fill may have been here, also of an earlier process.
    let unique = env.random();
    for number in 0..count {
        let op = Create {
            parent: ROOT,
            name: format!("{:08x}-{number}", unique as u32).into(),
            kind: FileKind::Fifo as i32,
            mode: 0o644,
            exclusive: true,
            ..Create::default()
        };
        shared.until_at_most(UNDER_WAY).await;
        let op = Op {
            op: Some(op::Op::Create(op)),
        };
        shared.begin(place, op, env.now().0)?;
    }
    shared.until_at_most(0).await;
    match shared.failed.get() {
        0 => Ok(json!({ "files": count, "seconds": seconds(env, &shared) })),
        failed => Err(format!("{failed} files were not made")),
    }
}

fn seconds(env: &Env, shared: &Shared) -> f64 {
    (env.now().0 - shared.begun) as f64 / 1e9
}

impl Load {
    /// `load RATE SECONDS BYTES`
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(words: &[&str]) -> Result<Load, String> {
        let refused = || format!("no order: {}", words.join(" "));
        let ["load", rate, seconds, bytes] = words else {
            return Err(refused());
        };
        Ok(Load {
            rate: rate.parse().map_err(|_| refused())?,
            seconds: seconds.parse().map_err(|_| refused())?,
            bytes: bytes.parse().map_err(|_| refused())?,
        })
    }

    /// An attribute of the root directory, which takes its former one's place: the name space does not grow.
    fn op(&self) -> Op {
        let op = Setxattr {
            ino: ROOT,
            name: "user.load".into(),
            value: vec![0x5a; self.bytes.saturating_sub(ENTRY_BYTES)].into(),
            ..Setxattr::default()
        };
        Op {
            op: Some(op::Op::Setxattr(op)),
        }
    }

    /// Runs it to its end, until all is committed.
    ///
    /// # Errors
    /// If an entry is refused, or not committed.
    pub async fn run(&self, env: &Env, place: &impl Committing) -> Result<Value, String> {
        let shared = Shared::new(env);
        let begun = match self.rate {
            0 => self.flood(&shared, place).await?,
            rate => self.pace(&shared, place, rate).await?,
        };
        shared.until_at_most(0).await;
        let took = seconds(env, &shared);
        let mut latencies = shared.latencies.take();
        latencies.sort_unstable();
        let at = |share: f64| {
            let rank = (share * latencies.len() as f64).ceil() as usize;
            let found = latencies.get(rank.clamp(1, latencies.len().max(1)) - 1);
            found.map(|nanos| *nanos as f64 / 1e3)
        };
        let course = shared.course.take();
        let course: Vec<(u64, f64)> = course
            .into_iter()
            .map(|(count, slowest)| (count, slowest as f64 / 1e3))
            .collect();
        match shared.failed.get() {
            0 => Ok(json!({
                "begun": begun,
                "committed": latencies.len(),
                "seconds": took,
                "p50_us": at(0.5),
                "p99_us": at(0.99),
                "max_us": at(1.0),
                "step_ms": STEP.as_millis() as u64,
                "course": course,
            })),
            failed => Err(format!("{failed} entries were not committed")),
        }
    }

    /// As many under way as fit into two batches.
    async fn flood(&self, shared: &Rc<Shared>, place: &impl Committing) -> Result<u64, String> {
        let end = shared.begun + (self.seconds * 1e9) as u64;
        let mut begun = 0;
        loop {
            let now = shared.env.now().0;
            if now >= end {
                return Ok(begun);
            }
            // Some at a time, so that others have their turn.
            for _ in 0..64 {
                shared.begin(place, self.op(), now)?;
                begun += 1;
            }
            tokio::task::yield_now().await;
            shared.until_at_most(UNDER_WAY).await;
        }
    }

    /// Each when it is due, whatever became of those before. What comes late because the process had no
    /// turn counts from when it was due.
    async fn pace(
        &self,
        shared: &Rc<Shared>,
        place: &impl Committing,
        rate: u64,
    ) -> Result<u64, String> {
        let all = (self.seconds * rate as f64) as u64;
        let mut ticks = ticks(TICK);
        let mut begun = 0;
        let due = |number: u64| shared.begun + number * 1_000_000_000 / rate;
        while begun < all {
            let now = shared.env.now().0;
            while begun < all && due(begun) <= now {
                shared.until_at_most(BEHIND_MAX).await;
                shared.begin(place, self.op(), due(begun))?;
                begun += 1;
            }
            // Comes as long as it is listened to.
            ticks.recv().await;
            while ticks.try_recv().is_ok() {}
        }
        Ok(begun)
    }
}

/// Wakes finer than the environment's timer does, which counts milliseconds, until nobody listens.
pub fn ticks(every: Duration) -> mpsc::UnboundedReceiver<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while sender.send(()).is_ok() {
            std::thread::sleep(every);
        }
    });
    receiver
}
