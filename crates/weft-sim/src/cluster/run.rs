//! One run: a cluster, clients, faults from the seed; then everything healed, and judged.

use super::builder::{Cluster, Shape};
use super::coverage::Table;
use super::faults::{Faults, Kind};
use super::workload::Worker;
use crate::invariants;
use crate::oracle::history::Record;
use crate::oracle::{linearize, model};
use crate::rng::Rng;
use crate::{LogLine, Logs, World};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;
use weft_client::Client;
use weft_wire::proto::{Durability, Protocol};

/// What a run can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Operations that each client does.
    pub operations: usize,
    /// Only these kinds of faults; none: as the seed draws them.
    pub kinds: Option<Vec<Kind>>,
    /// Only this kind of fault, all the time, and all kinds of operations equally often and
    /// slowly: for what few runs would reach.
    pub storm: Option<Kind>,
    /// Collect log lines of this level.
    pub level: tracing::Level,
    /// Pairs of data servers; none: as the seed draws it.
    pub pairs: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            operations: 150,
            kinds: None,
            storm: None,
            level: tracing::Level::INFO,
            pairs: None,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Why it failed, if it did; the last line is the command that does it again.
    pub failure: Option<String>,
    /// So much was unknown that no order of the operations could be found or excluded: the first
    /// operation where that is so, with the reason. The rest was judged.
    pub undecided: Option<String>,
    /// Over every decision of the run: equal for equal seeds.
    pub digest: u64,
    /// Virtual time.
    pub time: Duration,
    /// Steps of the executor.
    pub steps: u64,
    /// Operations that clients did.
    pub operations: usize,
    /// Operation by fault.
    pub coverage: Table,
    /// Kinds of faults.
    pub kinds: Vec<Kind>,
    /// The last lines of the log.
    pub log: Vec<LogLine>,
    /// What clients did.
    pub history: Vec<Record>,
}

/// Mean pause between the faults of a storm.
const STORM_PAUSE_MS: u64 = 1_000;
/// Faults come for at most this long; then clients may finish in peace.
const FAULTS_FOR: Duration = Duration::from_secs(60);
/// Clients that have not finished by then hang.
const CLIENTS_FOR: Duration = Duration::from_secs(400);
/// A run that takes longer hangs.
const RUN_FOR: Duration = Duration::from_secs(1_000);

/// What a run has found out so far, in case it panics.
#[derive(Default)]
struct Progress {
    digest: u64,
    time: Duration,
    steps: u64,
    operations: usize,
    coverage: Table,
    kinds: Vec<Kind>,
    history: Vec<Record>,
    undecided: Option<String>,
}

/// Runs `seed`.
pub fn run(seed: u64, options: &Options) -> Report {
    let logs = Logs::new(options.level);
    let progress = Rc::new(RefCell::new(Progress::default()));
    let noted = progress.clone();
    let result = logs.collect(|| {
        catch_unwind(AssertUnwindSafe(|| {
            let world = World::new(seed);
            world.set_limit(RUN_FOR);
            let result = scenario(&world, options, &noted);
            let mut noted = noted.borrow_mut();
            noted.digest = world.digest();
            noted.time = world.now();
            noted.steps = world.steps();
            result
        }))
    });
    let failure = match result {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(panic) => Some(format!("panic: {}", message(&*panic))),
    };
    let storm = options
        .storm
        .map_or(String::new(), |kind| format!(" --storm {kind:?}"));
    let failure =
        failure.map(|why| format!("{why}\nto see it again: cargo xtask sim --seed {seed}{storm}"));
    let progress = progress.take();
    Report {
        seed,
        failure,
        undecided: progress.undecided,
        digest: progress.digest,
        time: progress.time,
        steps: progress.steps,
        operations: progress.operations,
        coverage: progress.coverage,
        kinds: progress.kinds,
        log: logs.lines(),
        history: progress.history,
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

fn draw_shape(world: &World, options: &Options) -> Shape {
    let mut rng = world.rng("shape");
    let drawn = 1 + rng.below(2) as u32;
    let pairs = options.pairs.unwrap_or(drawn);
    Shape {
        pairs,
        clients: 2 + rng.below(3) as u32,
        operations: options.operations,
        even: options.storm.is_some(),
        session_term: Duration::from_secs(5),
        client: weft_client::Settings {
            write_buffer_bytes: 1 << rng.within(17..24),
            write_window_bytes: 1 << rng.within(17..22),
            flush_age_ms: [50, 500, 2_000][rng.below(3) as usize],
            piece_bytes: 1 << rng.within(14..19),
            readahead_bytes: if rng.once_in(2) { 0 } else { 256 << 10 },
            cached_inodes: if rng.once_in(3) { 10 } else { 1_000 },
            ..weft_client::Settings::default()
        },
        meta: weft_meta::Settings {
            image_every_entries: 1 << rng.within(4..12),
            pair: weft_meta::PairSettings {
                alone_after_ms: 2_000,
                ..weft_meta::PairSettings::default()
            },
            ..weft_meta::Settings::default()
        },
        data: weft_data::Settings {
            clear_after_ms: [100, 1_000, 60_000][rng.below(3) as usize],
            ..weft_data::Settings::default()
        },
        policy: weft_client::Policy {
            stripe_unit: 64 << 10,
            width: pairs,
            protocol: if rng.once_in(3) {
                Protocol::ClientSync
            } else {
                Protocol::ServerSync
            } as i32,
            durability: if rng.once_in(4) {
                Durability::Disk
            } else {
                Durability::Memory
            } as i32,
        },
    }
}

fn scenario(world: &World, options: &Options, noted: &Rc<RefCell<Progress>>) -> Result<(), String> {
    let shape = draw_shape(world, options);
    let cluster = Rc::new(Cluster::new(world, shape));
    let storm = options.storm.map(|kind| vec![kind]);
    let kinds = storm.or_else(|| options.kinds.clone());
    let pause_ms = options.storm.map(|_| STORM_PAUSE_MS);
    let driven = cluster.clone();
    let drawn = noted.clone();
    let driven = world.block_on(async move {
        let cluster = driven;
        cluster.start().await?;
        for index in 0..cluster.clients.len() {
            cluster.start_client(index);
        }
        let mut faults = Faults::new(&cluster, kinds.as_deref(), pause_ms);
        drawn.borrow_mut().kinds = faults.kinds().to_vec();
        let until = cluster.world.now() + FAULTS_FOR;
        faults.run(until).await;
        let until = cluster.world.now() + CLIENTS_FOR;
        while !cluster.clients_are_done() {
            if cluster.world.now() > until {
                return Err("a client does not come to its end".to_owned());
            }
            cluster.watch_sessions();
            cluster.world.sleep(Duration::from_millis(50)).await;
        }
        cluster.settle().await?;
        super::scrub::run(&cluster).await?;
        let copies = invariants::copies_equal::check(&cluster).await;
        read_all(&cluster).await?;
        copies
    });
    {
        let mut noted = noted.borrow_mut();
        noted.coverage = cluster.shared.coverage.table();
        noted.operations = cluster.shared.history.next();
        noted.history = cluster.shared.history.records();
    }
    let records = linearize::prepared(cluster.shared.history.records());
    let judged = match linearize::check(&records, 1) {
        Ok(_) => Ok(()),
        Err(violation) if violation.is_undecided => {
            noted.borrow_mut().undecided = Some(violation.text);
            Ok(())
        }
        Err(violation) => Err(violation.text),
    };
    // What clients saw first: it says what difference the rest made.
    match (judged, driven) {
        (Err(seen), Err(driven)) => Err(format!("{seen}\nand: {driven}")),
        (judged, driven) => judged.and(driven),
    }
}

/// A new client reads everything, as part of the history.
async fn read_all(cluster: &Rc<Cluster>) -> Result<(), String> {
    let node = cluster.world.node("reader");
    let id = cluster.take_client_id();
    let env = node.env();
    let settings = cluster.client_settings("reader");
    let client = Client::connect(env.clone(), settings)
        .await
        .map_err(|error| format!("the reader cannot connect: {error}"))?;
    let rng = Rng::stream(cluster.world.seed(), "workload", u64::from(id));
    let mut worker = Worker::new(id, env, client, cluster.shared.clone(), rng);
    worker.read_everything().await;
    worker
        .leave()
        .await
        .map_err(|error| format!("the reader leaves with {error}"))
}

/// For reports: the reference's state at the end.
pub fn describe(state: &model::State) -> String {
    state.describe()
}
