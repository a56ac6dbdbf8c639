//! What a gateway counts, and the page that shows it (docs/operating/metrics.md).

use crate::gateway::Shared;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: String,
}

/// Counters and gauges of one gateway.
pub(crate) struct Metrics {
    registry: Registry,
    family: Family<Kind, Counter>,
    /// The counters of kinds that have come, by what says which it is.
    calls: RefCell<Vec<((u32, u32), Counter)>>,
    pub read_bytes: Counter,
    pub written_bytes: Counter,
    revocations: Counter,
    requests: Counter,
    buffered_bytes: Gauge,
    owed_bytes: Gauge,
    cached_inodes: Gauge,
    open_files: Gauge,
    delegations: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::default(),
            family: Family::default(),
            calls: RefCell::default(),
            read_bytes: Counter::default(),
            written_bytes: Counter::default(),
            revocations: Counter::default(),
            requests: Counter::default(),
            buffered_bytes: Gauge::default(),
            owed_bytes: Gauge::default(),
            cached_inodes: Gauge::default(),
            open_files: Gauge::default(),
            delegations: Gauge::default(),
        };
        let all = &mut metrics.registry;
        let help = "Procedures of version 3 and operations of version 4 by kind";
        all.register("weft_nfs_calls", help, metrics.family.clone());
        let mut counter = |name, help, counter: &Counter| all.register(name, help, counter.clone());
        counter("weft_nfs_read_bytes", "Bytes read", &metrics.read_bytes);
        counter(
            "weft_nfs_written_bytes",
            "Bytes written",
            &metrics.written_bytes,
        );
        let help = "Leases given back because the service asked";
        counter("weft_nfs_revocations", help, &metrics.revocations);
        let help = "Requests to the metadata service";
        counter("weft_nfs_meta_requests", help, &metrics.requests);
        let mut gauge = |name, help, gauge: &Gauge| all.register(name, help, gauge.clone());
        let help = "Bytes that wait for the data servers";
        gauge("weft_nfs_buffered_bytes", help, &metrics.buffered_bytes);
        let help = "Of these, bytes that one data server alone is known to have";
        gauge("weft_nfs_owed_bytes", help, &metrics.owed_bytes);
        let help = "Inodes that the gateway keeps";
        gauge("weft_nfs_cached_inodes", help, &metrics.cached_inodes);
        let help = "Files that the gateway has open";
        gauge("weft_nfs_open_files", help, &metrics.open_files);
        let help = "Files that clients may keep";
        gauge("weft_nfs_delegations", help, &metrics.delegations);
        metrics
    }

    /// A call has come: its version and its number in that, and what it is called.
    pub(crate) fn call(&self, which: (u32, u32), name: impl FnOnce() -> String) {
        let mut calls = self.calls.borrow_mut();
        // Looking through a few dozens is cheaper than the family's lock and hash.
        if let Some((_, counter)) = calls.iter().find(|(known, _)| *known == which) {
            counter.inc();
            return;
        }
        let counter = self.family.get_or_create(&Kind { kind: name() }).clone();
        counter.inc();
        calls.push((which, counter));
    }

    /// The page in the text format of Prometheus.
    fn page(&self, shared: &Shared) -> String {
        let figures = shared.client.figures();
        let grow = |counter: &Counter, now: u64| {
            counter.inc_by(now.saturating_sub(counter.get()));
        };
        grow(&self.revocations, figures.revocations);
        grow(&self.requests, figures.requests);
        self.buffered_bytes.set(figures.buffered_bytes as i64);
        self.owed_bytes.set(figures.owed_bytes as i64);
        self.cached_inodes.set(figures.cached_inodes as i64);
        self.open_files.set(shared.files.count() as i64);
        self.delegations.set(shared.delegations.count() as i64);
        let mut page = String::new();
        encode(&mut page, &self.registry).expect("a String takes everything");
        page
    }
}

/// Shows the page on `address`, for as long as the gateway lives.
///
/// # Errors
/// If the address cannot be listened on.
pub(crate) async fn serve(shared: &Rc<Shared>, address: &str) -> io::Result<()> {
    let weak = Rc::downgrade(shared);
    let page = move || {
        let shared = weak.upgrade();
        shared.map_or(String::new(), |shared| shared.metrics.page(&shared))
    };
    let bound = weft_env::serve_text(&shared.env, address, page).await?;
    tracing::info!(address = %bound, "metrics are shown");
    Ok(())
}
