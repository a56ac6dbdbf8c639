//! What this server counts, for operators: the table in `docs/operating/metrics.md` (tested).

use crate::MetaError;
use crate::reign::Core;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::cell::RefCell;
use weft_env::Env;
use weft_health::Check;
use weft_namespace::Statistics;
use weft_wire::method_name;

/// Name, unit and meaning of each metric of a metadata server. Counters get `_total` when served.
pub const METRICS: &[(&str, &str, &str)] = &[
    (
        "weft_meta_requests",
        "requests",
        "Requests that arrived, by message",
    ),
    (
        "weft_meta_batch_entries",
        "entries",
        "Changes in a journal batch when it was written",
    ),
    (
        "weft_meta_revocations",
        "leases",
        "Leases that clients were asked to give back",
    ),
    (
        "weft_meta_sessions_expired",
        "sessions",
        "Sessions that ended because they were not renewed",
    ),
    (
        "weft_meta_pair_changes",
        "changes",
        "Changes of the state of pairs",
    ),
    (
        "weft_meta_objects_dropped",
        "objects",
        "Objects of deleted files that were dropped",
    ),
    ("weft_meta_images", "images", "Images that were written"),
    ("weft_meta_epoch", "epoch", "Number of this server's reign"),
    (
        "weft_meta_sn",
        "batches",
        "Serial number of the last committed batch",
    ),
    (
        "weft_meta_inodes",
        "inodes",
        "Files, directories and others in the name space",
    ),
    (
        "weft_meta_memory_bytes",
        "bytes",
        "Estimated memory of the name space",
    ),
    ("weft_meta_sessions", "sessions", "Open sessions"),
    (
        "weft_meta_read_leases",
        "leases",
        "READ leases given, and open files remembered",
    ),
    (
        "weft_meta_requests_parked",
        "requests",
        "Requests that wait for a lease to come back",
    ),
    (
        "weft_meta_deletions_queued",
        "objects",
        "Objects waiting to be dropped",
    ),
    (
        "weft_health",
        "severity",
        "Of each check, by whoever leads the group: 0 well, 1 degraded, 2 data at one copy or not to be read",
    ),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Checked {
    check: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Message {
    message: &'static str,
}

/// The counters that are kept where things happen; gauges are read when they are asked for.
pub(crate) struct Metrics {
    registry: Registry,
    requests: RefCell<Vec<(u16, Counter)>>,
    family: Family<Message, Counter>,
    health: Family<Checked, Gauge>,
    batch_entries: Histogram,
    pub revocations: Counter,
    pub sessions_expired: Counter,
    pub pair_changes: Counter,
    pub objects_dropped: Counter,
    pub images: Counter,
    gauges: Vec<(&'static str, Gauge)>,
}

fn help(name: &str) -> &'static str {
    METRICS
        .iter()
        .find(|(known, _, _)| *known == name)
        .map(|(_, _, meaning)| *meaning)
        .expect("every metric stands in the table")
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::default();
        let family = Family::<Message, Counter>::default();
        registry.register(
            "weft_meta_requests",
            help("weft_meta_requests"),
            family.clone(),
        );
        // Powers of two up to the largest batch.
        let batch_entries = Histogram::new((0..=12).map(|power| f64::from(1u32 << power)));
        let name = "weft_meta_batch_entries";
        registry.register(name, help(name), batch_entries.clone());
        let mut counter = |name: &'static str| {
            let counter = Counter::default();
            registry.register(name, help(name), counter.clone());
            counter
        };
        let revocations = counter("weft_meta_revocations");
        let sessions_expired = counter("weft_meta_sessions_expired");
        let pair_changes = counter("weft_meta_pair_changes");
        let objects_dropped = counter("weft_meta_objects_dropped");
        let images = counter("weft_meta_images");
        let gauges = [
            "weft_meta_epoch",
            "weft_meta_sn",
            "weft_meta_inodes",
            "weft_meta_memory_bytes",
            "weft_meta_sessions",
            "weft_meta_read_leases",
            "weft_meta_requests_parked",
            "weft_meta_deletions_queued",
        ]
        .map(|name| {
            let gauge = Gauge::default();
            registry.register(name, help(name), gauge.clone());
            (name, gauge)
        });
        let health = Family::<Checked, Gauge>::default();
        registry.register("weft_health", help("weft_health"), health.clone());
        Metrics {
            registry,
            health,
            requests: RefCell::default(),
            family,
            batch_entries,
            revocations,
            sessions_expired,
            pair_changes,
            objects_dropped,
            images,
            gauges: gauges.into(),
        }
    }

    /// A request has arrived.
    pub(crate) fn request(&self, method: u16) {
        let mut requests = self.requests.borrow_mut();
        // A handful of methods: looking through them is cheaper than the family's lock and hash.
        if let Some((_, counter)) = requests.iter().find(|(known, _)| *known == method) {
            counter.inc();
            return;
        }
        let message = Message {
            message: method_name(method),
        };
        let counter = self.family.get_or_create(&message).clone();
        counter.inc();
        if message.message != "unknown" {
            requests.push((method, counter));
        }
    }

    /// The worst that a check has found: 0, 1 or 2.
    pub(crate) fn health(&self, check: Check, worst: i64) {
        let check = check.name();
        self.health.get_or_create(&Checked { check }).set(worst);
    }

    /// Another server leads, and tells what it finds.
    pub(crate) fn judges_no_more(&self) {
        self.health.clear();
    }

    /// A batch has been committed.
    pub(crate) fn batch(&self, entries: usize) {
        self.batch_entries.observe(entries as f64);
    }
}

impl Metrics {
    /// What is served, with each gauge as `gauge` says.
    pub(crate) fn page(&self, value_of: impl Fn(&str) -> u64) -> String {
        for (name, gauge) in &self.gauges {
            gauge.set(value_of(name) as i64);
        }
        let mut page = String::new();
        match encode(&mut page, &self.registry) {
            Ok(()) => page,
            // Writing to a string does not fail.
            Err(error) => format!("# {error}\n"),
        }
    }
}

/// The value of a gauge of the name space; 0 if it is none.
pub(crate) fn gauge_of(statistics: &Statistics, name: &str) -> u64 {
    match name {
        "weft_meta_inodes" => statistics.inodes,
        "weft_meta_memory_bytes" => statistics.memory_bytes,
        "weft_meta_sessions" => statistics.sessions,
        "weft_meta_deletions_queued" => statistics.deletions,
        _ => 0,
    }
}

impl Core {
    /// The value of a gauge.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        match name {
            "weft_meta_epoch" => self.epoch.0,
            "weft_meta_sn" => self.commits.committed().0,
            "weft_meta_read_leases" => self.leases.len() as u64,
            "weft_meta_requests_parked" => self.parking.len() as u64,
            _ => gauge_of(&self.state.statistics(), name),
        }
    }
}

/// Serves the page. Answers the address.
pub(crate) async fn serve(
    env: &Env,
    listen: &str,
    page: impl Fn() -> String + 'static,
) -> Result<String, MetaError> {
    weft_env::serve_text(env, listen, page)
        .await
        .map_err(|source| MetaError::Io {
            what: format!("serving metrics on {listen}"),
            source,
        })
}
