//! One run: a cluster, clients, faults from the seed; then everything healed, and judged.

use super::builder::{Cluster, Shape};
use super::coverage::Table;
use super::damage::Damager;
use super::faults::{Faults, Happened, Kind};
use super::operator::Operator;
use super::slots::Mover;
use super::workload::Worker;
use crate::invariants;
use crate::oracle::history::{ClientId, Record};
use crate::oracle::model;
use crate::rng::Rng;
use crate::{LogLine, Logs, World};
use futures_util::future::{Either, join, select};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
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
    /// Replica groups of metadata servers.
    pub groups: u32,
    /// Metadata servers of each group. (Seeds say nothing of that, or those that are kept would mean something else.)
    pub members: u32,
    /// The name space is checked all the time.
    pub checks: bool,
    /// Slots go from group to group all the time.
    pub slots: bool,
    /// A tree beside the clients' is damaged all the time, and repaired.
    pub damage: bool,
    /// Clients have directories spread, the root first.
    pub spread: bool,
    /// Most of the clients are mounts, with a kernel between the workload and the face.
    pub mounts: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            operations: 150,
            kinds: None,
            storm: None,
            level: tracing::Level::INFO,
            pairs: None,
            groups: 1,
            members: 1,
            checks: false,
            slots: false,
            damage: false,
            spread: false,
            mounts: false,
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
    /// Those that were done; none of a run that was broken off.
    pub faults: Vec<Happened>,
    /// The last lines of the log.
    pub log: Vec<LogLine>,
    /// What clients did.
    pub history: Vec<Record>,
    /// Slots that were ordered to move.
    pub moved: u64,
    /// How often something was damaged, and repaired.
    pub damaged: (u64, u64),
    /// Directories that were spread.
    pub spread: u64,
}

/// Where directories are spread, those that have so many entries are by themselves.
const SPREAD_ENTRIES: u64 = 5;
/// Mean pause between the faults of a storm.
const STORM_PAUSE_MS: u64 = 1_000;
/// A client's patience where what it does is to remain in doubt.
const LITTLE_PATIENCE_MS: u64 = 1_000;
/// Time between two looks at what must hold all through a run.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// And at who of several leads.
const LOOK_WHO_LEADS_EVERY: Duration = Duration::from_millis(1);
/// Disks with room for everything. A client that closes a file need not wait.
const ROOM_PLENTY: u64 = 1 << 40;
/// So little that every close waits, and more than the files of a run take.
const ROOM_LITTLE: u64 = 1 << 30;
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
    /// Faults, once there will be no more.
    happened: Option<Vec<Happened>>,
    reader: Option<ClientId>,
    moved: u64,
    damaged: (u64, u64),
    spread: u64,
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
            let result = scenario(&world, options, &logs, &noted);
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
    let failure = failure.map(|why| {
        let options = arguments(options);
        format!("{why}\nto see it again: cargo xtask sim --seed {seed}{options}")
    });
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
        faults: progress.happened.unwrap_or_default(),
        log: logs.lines(),
        history: progress.history,
        moved: progress.moved,
        damaged: progress.damaged,
        spread: progress.spread,
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

pub(crate) fn draw_shape(world: &World, options: &Options) -> Shape {
    let mut rng = world.rng("shape");
    let drawn = 1 + rng.below(2) as u32;
    let pairs = options.pairs.unwrap_or(drawn);
    let room = if world.rng("room").once_in(5) {
        ROOM_LITTLE
    } else {
        ROOM_PLENTY
    };
    Shape {
        groups: options.groups,
        members: options.members,
        room,
        pairs,
        clients: 2 + rng.below(3) as u32,
        operations: options.operations,
        even: options.storm.is_some(),
        session_term: Duration::from_secs(5),
        client: weft_client::Settings {
            write_buffer_bytes: 1 << rng.within(17..24),
            write_window_bytes: 1 << rng.within(17..22),
            owed_bytes: [0, 64 << 10, 64 << 20][rng.below(3) as usize],
            flush_age_ms: [50, 500, 2_000][rng.below(3) as usize],
            piece_bytes: 1 << rng.within(14..19),
            readahead_bytes: if rng.once_in(2) { 0 } else { 256 << 10 },
            cached_inodes: if rng.once_in(3) { 10 } else { 1_000 },
            patience_ms: match options.storm {
                Some(Kind::Unheard) => LITTLE_PATIENCE_MS,
                _ => weft_client::Settings::default().patience_ms,
            },
            ..weft_client::Settings::default()
        },
        meta: weft_meta::Settings {
            image_every_entries: 1 << rng.within(4..12),
            spread_entries: match options.spread {
                true => SPREAD_ENTRIES,
                false => weft_meta::Settings::default().spread_entries,
            },
            pair: weft_meta::PairSettings {
                alone_after_ms: 2_000,
                ..weft_meta::PairSettings::default()
            },
            ..weft_meta::Settings::default()
        },
        data: weft_data::Settings {
            clear_after_ms: match ([100, 1_000, 60_000][rng.below(3) as usize], options.storm) {
                // What remained in doubt is compared by then, and the run does not last that long.
                (60_000, Some(Kind::Unheard)) => 10_000,
                (drawn, _) => drawn,
            },
            ..weft_data::Settings::default()
        },
        policy: weft_client::Policy {
            stripe_unit: 64 << 10,
            width: pairs,
            protocol: [
                Protocol::ServerSync,
                Protocol::ServerAsync,
                Protocol::ClientSync,
                Protocol::ClientAsync,
                Protocol::Hybrid,
            ][rng.below(5) as usize] as i32,
            durability: if rng.once_in(4) {
                Durability::Disk
            } else {
                Durability::Memory
            } as i32,
        },
    }
}

fn scenario(
    world: &World,
    options: &Options,
    logs: &Logs,
    noted: &Rc<RefCell<Progress>>,
) -> Result<(), String> {
    let shape = draw_shape(world, options);
    let cluster = Rc::new(Cluster::new(world, shape));
    cluster.shared.spreads.set(options.spread.then_some(0));
    if options.mounts {
        // One of them works beside its kernel, as a gateway does.
        cluster
            .shared
            .mounts
            .set(cluster.shape.clients.saturating_sub(1).max(2));
    }
    let cut_off = options.storm == Some(Kind::CutOff);
    cluster.shared.locks_by_handle.set(cut_off);
    let storm = options.storm.map(|kind| vec![kind]);
    let kinds = storm.or_else(|| options.kinds.clone());
    let pause_ms = options.storm.map(|_| STORM_PAUSE_MS);
    let beside = Beside {
        checks: options.checks,
        slots: options.slots,
        damage: options.damage,
    };
    let driven = cluster.clone();
    let drawn = noted.clone();
    let driven = world.block_on(async move {
        let cluster = driven;
        let told = (kinds.as_deref(), pause_ms, beside);
        let story = Box::pin(story(&cluster, told, &drawn));
        match select(story, Box::pin(watch(&cluster))).await {
            Either::Left((told, _)) => told.and_then(|()| cluster.verdict()),
            Either::Right((broken, _)) => Err(broken),
        }
    });
    let grave = logs.grave();
    cluster.note_untold(&grave);
    let (happened, reader) = {
        let mut noted = noted.borrow_mut();
        noted.coverage = cluster.shared.coverage.table();
        noted.operations = cluster.shared.history.next();
        noted.history = cluster.shared.history.records();
        noted.spread = cluster.shared.spreads.get().unwrap_or(0);
        (noted.happened.clone(), noted.reader)
    };
    let records = cluster.shared.history.records();
    let errors = cluster.shared.history.errors();
    let patience = Duration::from_millis(cluster.shape.client.patience_ms);
    let judged = invariants::reads_linearize::check(records.clone(), cluster.shared.root.get())
        .map(|undecided| {
            noted.borrow_mut().undecided = undecided;
        });
    let happened = happened.map(|happened| match cluster.meta.len() {
        1 => happened,
        _ => with_takeovers(happened),
    });
    // A run that was broken off does not know what explains them.
    let (errors, told) = match &happened {
        Some(happened) => {
            let faults: BTreeSet<Kind> = happened.iter().map(|fault| fault.kind).collect();
            let lost = invariants::losses_named::Lost::of(&grave);
            (
                invariants::errors_are_errnos::check(&records, &errors, happened, &lost, patience),
                invariants::no_unexpected_logs::check(&grave, &faults),
            )
        }
        None => (Ok(()), Ok(())),
    };
    let survives = match reader {
        Some(reader) => invariants::acknowledged_survives::check(&records, reader),
        None => Ok(()),
    };
    let locks = invariants::lost_locks_told::check(&records);
    // What clients saw first: it says what difference the rest made.
    let all: Vec<String> = [judged, survives, locks, driven, errors, told]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if all.is_empty() {
        Ok(())
    } else {
        Err(all.join("\nand: "))
    }
}

/// By which one of several metadata servers may have been replaced: that is for clients what a death of the
/// only one is.
fn with_takeovers(happened: Vec<Happened>) -> Vec<Happened> {
    let takes_over = happened.iter().filter(|fault| fault.kind.takes_over());
    let deaths = takes_over.map(|fault| Happened {
        kind: Kind::MetaKill,
        from: fault.from,
    });
    let deaths: Vec<Happened> = deaths.collect();
    happened.into_iter().chain(deaths).collect()
}

/// Looks at the cluster again and again, until something is not as it must be.
async fn watch(cluster: &Cluster) -> String {
    loop {
        cluster.look();
        cluster.watch_sessions();
        if let Err(broken) = cluster.verdict() {
            return broken;
        }
        let until = cluster.world.now() + LOOK_EVERY;
        while cluster.meta.len() > 1 && cluster.world.now() + LOOK_WHO_LEADS_EVERY < until {
            cluster.world.sleep(LOOK_WHO_LEADS_EVERY).await;
            cluster.look_who_leads();
        }
        cluster.world.sleep(until - cluster.world.now()).await;
    }
}

/// What goes on beside faults: see [`Options`].
#[derive(Clone, Copy)]
struct Beside {
    checks: bool,
    slots: bool,
    damage: bool,
}

/// The clients work under faults; then all is healed, compared and read.
async fn story(
    cluster: &Rc<Cluster>,
    (kinds, pause_ms, beside): (Option<&[Kind]>, Option<u64>, Beside),
    noted: &Rc<RefCell<Progress>>,
) -> Result<(), String> {
    cluster.start().await?;
    let Beside {
        checks,
        slots,
        damage,
    } = beside;
    let damager = Damager::new(cluster);
    if damage {
        damager.prepare().await?;
    }
    for index in 0..cluster.clients.len() {
        cluster.start_client(index);
    }
    let mut faults = Faults::new(cluster, kinds, pause_ms);
    noted.borrow_mut().kinds = faults.kinds().to_vec();
    let until = cluster.world.now() + FAULTS_FOR;
    let operator = Operator::new(cluster);
    let mover = Mover::new(cluster);
    let checked = async {
        match checks {
            true => invariants::one_tree::while_clients_work(cluster, until).await,
            false => Ok(()),
        }
    };
    let moved = async {
        if slots {
            mover.work(until).await;
        }
    };
    let damaged = async {
        if damage {
            damager.work(until).await;
        }
    };
    let moved = join(moved, damaged);
    let worked = join(join(operator.work(until), moved), faults.run(until));
    join(worked, checked).await.1?;
    noted.borrow_mut().happened = Some(faults.happened());
    let until = cluster.world.now() + CLIENTS_FOR;
    while !cluster.clients_are_done() {
        if cluster.world.now() > until {
            return Err("a client does not come to its end".to_owned());
        }
        cluster.world.sleep(Duration::from_millis(50)).await;
    }
    operator.finish().await?;
    if slots {
        mover.finish().await?;
        noted.borrow_mut().moved = mover.ordered();
    }
    if damage {
        damager.finish().await?;
        noted.borrow_mut().damaged = damager.done();
    }
    cluster.settle().await?;
    invariants::objects_named::check(cluster).await?;
    if cluster.groups() > 1 {
        invariants::one_tree::check(cluster).await?;
    }
    super::scrub::run(cluster).await?;
    let copies = invariants::copies_equal::check(cluster).await;
    invariants::losses_named::acknowledge(cluster).await?;
    let reader = read_all(cluster).await?;
    noted.borrow_mut().reader = Some(reader);
    cluster.look();
    // What they find on their disks then is compared with what ran.
    if cluster.coordinator.is_some() {
        cluster.members_become_whole().await?;
        cluster.look();
        (0..cluster.meta.len()).for_each(|member| cluster.stop_meta(member, false));
        cluster.compare_disks().await?;
    }
    cluster.start_metas();
    cluster.ready().await?;
    copies
}

/// A new client reads everything, as part of the history.
async fn read_all(cluster: &Rc<Cluster>) -> Result<ClientId, String> {
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
        .map_err(|error| format!("the reader leaves with {error}"))?;
    Ok(id)
}

/// For reports: the reference's state at the end.
pub fn describe(state: &model::State) -> String {
    state.describe()
}

/// What `cargo xtask sim` is to be told besides the seed.
fn arguments(options: &Options) -> String {
    let mut told = String::new();
    let mut tell = |is_told: bool, argument: String| {
        if is_told {
            told = format!("{told} --{argument}");
        }
    };
    tell(options.groups != 1, format!("groups {}", options.groups));
    tell(options.members != 1, format!("members {}", options.members));
    tell(options.slots, "slots".into());
    tell(options.spread, "spread".into());
    tell(options.mounts, "mounts".into());
    let is_calm = options.kinds.as_ref().is_some_and(Vec::is_empty);
    tell(is_calm, "calm".into());
    if let Some(kind) = options.storm {
        tell(true, format!("storm {kind:?}"));
    }
    told
}
