//! What a mount counts, and the page that shows it (docs/operating/metrics.md). Kept by `fs.rs`,
//! served by `run.rs`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use weft_client::{Client, Errno};
use weft_env::{Env, Mono};

/// Requests of the kernel, by kind.
const REQUESTS: &str = "weft_mount_requests";
/// Requests that were answered with an errno.
const ERRORS: &str = "weft_mount_errors";
/// Bytes that reads have answered.
const READ_BYTES: &str = "weft_mount_read_bytes";
/// Bytes that writes have taken.
const WRITTEN_BYTES: &str = "weft_mount_written_bytes";
/// Leases given back because the metadata service asked.
const REVOCATIONS: &str = "weft_mount_revocations";
/// Bytes written by applications that wait for the data servers.
const BUFFERED_BYTES: &str = "weft_mount_buffered_bytes";
/// Of these, bytes that one data server alone is known to have.
const OWED_BYTES: &str = "weft_mount_owed_bytes";
/// Inodes that the client keeps.
const CACHED_INODES: &str = "weft_mount_cached_inodes";
/// Requests that wait for a server, those for file locks left out.
const WAITING: &str = "weft_mount_requests_waiting";
/// The longest wait of a request in the last minute.
const LONGEST_WAIT: &str = "weft_mount_longest_wait_seconds";

/// The unit in which past waits are forgotten.
const SLOT: Duration = Duration::from_secs(10);
/// Slots that are looked back on: a minute, the one that runs included.
const SLOTS: usize = 6;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failure {
    errno: &'static str,
}

/// How long requests wait for their answers.
#[derive(Default)]
struct Waits {
    /// Those that wait, by number, and when they came.
    open: BTreeMap<u64, Mono>,
    /// The longest wait that ended in a slot: its number since the beginning of time, and the wait.
    past: [(u64, Duration); SLOTS],
}

impl Waits {
    fn slot(now: Mono) -> u64 {
        now.0 / SLOT.as_nanos() as u64
    }

    fn end(&mut self, unique: u64, now: Mono) {
        let Some(came) = self.open.remove(&unique) else {
            return;
        };
        let (waited, slot) = (now.since(came), Waits::slot(now));
        let place = &mut self.past[slot as usize % SLOTS];
        *place = match *place {
            (of, longest) if of == slot => (slot, longest.max(waited)),
            _ => (slot, waited),
        };
    }

    /// Of those that have ended in the last minute and those that wait still.
    fn longest(&self, now: Mono) -> Duration {
        let slot = Waits::slot(now);
        let past = self.past.iter();
        let past = past.filter(|(of, _)| of + SLOTS as u64 > slot);
        let open = self.open.values().map(|came| now.since(*came));
        past.map(|(_, waited)| *waited)
            .chain(open)
            .max()
            .unwrap_or_default()
    }
}

/// Counters and gauges of one mount.
pub struct Metrics {
    env: Env,
    client: Client,
    registry: Registry,
    family: Family<Kind, Counter>,
    requests: RefCell<Vec<(&'static str, Counter)>>,
    errors: Family<Failure, Counter>,
    waits: RefCell<Waits>,
    pub(crate) read_bytes: Counter,
    pub(crate) written_bytes: Counter,
    gauges: Gauges,
}

/// Read from the client and from [`Waits`] when the page is asked for.
#[derive(Default)]
struct Gauges {
    revocations: Counter,
    buffered_bytes: Gauge,
    owed_bytes: Gauge,
    cached_inodes: Gauge,
    waiting: Gauge,
    longest_wait: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Those of a mount of `client`.
    pub fn new(env: Env, client: Client) -> Rc<Metrics> {
        let (family, errors) = (Family::default(), Family::default());
        let (read_bytes, written_bytes) = (Counter::default(), Counter::default());
        let (registry, gauges) = (Registry::default(), Gauges::default());
        let mut metrics = Metrics {
            env,
            client,
            registry,
            family,
            requests: RefCell::default(),
            errors,
            waits: RefCell::default(),
            read_bytes,
            written_bytes,
            gauges,
        };
        metrics.register();
        Rc::new(metrics)
    }

    fn register(&mut self) {
        let (registry, gauges) = (&mut self.registry, &self.gauges);
        registry.register(REQUESTS, "Requests by kind", self.family.clone());
        registry.register(ERRORS, "Requests that failed", self.errors.clone());
        registry.register(READ_BYTES, "Bytes read", self.read_bytes.clone());
        registry.register(WRITTEN_BYTES, "Bytes written", self.written_bytes.clone());
        let help = "Leases given back because the service asked";
        registry.register(REVOCATIONS, help, gauges.revocations.clone());
        let help = "Bytes that wait for the data servers";
        registry.register(BUFFERED_BYTES, help, gauges.buffered_bytes.clone());
        let help = "Of these, bytes that one data server alone is known to have";
        registry.register(OWED_BYTES, help, gauges.owed_bytes.clone());
        let help = "Inodes that the client keeps";
        registry.register(CACHED_INODES, help, gauges.cached_inodes.clone());
        let help = "Requests that wait for a server";
        registry.register(WAITING, help, gauges.waiting.clone());
        let help = "Longest wait of a request in the last minute";
        registry.register(LONGEST_WAIT, help, gauges.longest_wait.clone());
    }

    /// Shows the page on `address`, for as long as these metrics live.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn serve(self: &Rc<Metrics>, address: &str) -> io::Result<()> {
        let weak = Rc::downgrade(self);
        let page = move || weak.upgrade().map_or(String::new(), |all| all.page());
        let bound = weft_env::serve_text(&self.env, address, page).await?;
        tracing::info!(address = %bound, "metrics are shown");
        Ok(())
    }

    /// A request has come.
    pub(crate) fn request(&self, kind: &'static str) {
        let mut requests = self.requests.borrow_mut();
        // Looking through a few dozens is cheaper than the family's lock and hash.
        if let Some((_, counter)) = requests.iter().find(|(known, _)| *known == kind) {
            counter.inc();
            return;
        }
        let counter = self.family.get_or_create(&Kind { kind }).clone();
        counter.inc();
        requests.push((kind, counter));
    }

    /// A request was answered with an errno.
    pub(crate) fn failed(&self, errno: Errno) {
        let errno = name_of(errno);
        self.errors.get_or_create(&Failure { errno }).inc();
    }

    /// A request of that number that came at `came` could not be answered at once.
    pub(crate) fn waits(&self, unique: u64, came: Mono) {
        self.waits.borrow_mut().open.insert(unique, came);
    }

    /// A request was answered, whether it had to wait or not.
    pub(crate) fn answered(&self, unique: u64) {
        let mut waits = self.waits.borrow_mut();
        if !waits.open.is_empty() {
            waits.end(unique, self.env.now());
        }
    }

    /// The page in the text format of Prometheus.
    fn page(&self) -> String {
        let (figures, gauges) = (self.client.figures(), &self.gauges);
        let seen = gauges.revocations.get();
        let new = figures.revocations.saturating_sub(seen);
        gauges.revocations.inc_by(new);
        gauges.buffered_bytes.set(figures.buffered_bytes as i64);
        gauges.owed_bytes.set(figures.owed_bytes as i64);
        gauges.cached_inodes.set(figures.cached_inodes as i64);
        let waits = self.waits.borrow();
        gauges.waiting.set(waits.open.len() as i64);
        let longest = waits.longest(self.env.now());
        gauges.longest_wait.set(longest.as_secs_f64());
        let mut page = String::new();
        encode(&mut page, &self.registry).expect("a String takes everything");
        page
    }
}

/// Those that say something about the cluster, or about who asks; a label must not grow without
/// bound.
fn name_of(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EIO => "EIO",
        libc::ENOSPC => "ENOSPC",
        libc::EDQUOT => "EDQUOT",
        libc::ESTALE => "ESTALE",
        libc::ENOENT => "ENOENT",
        libc::EEXIST => "EEXIST",
        libc::EACCES => "EACCES",
        libc::EPERM => "EPERM",
        libc::ENODATA => "ENODATA",
        libc::EAGAIN => "EAGAIN",
        libc::EINTR => "EINTR",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn the_longest_wait_is_forgotten_after_a_minute() {
        let mut waits = Waits::default();
        for (unique, came, answered) in [(2, 100, 107), (4, 105, 108)] {
            waits.open.insert(unique, at(came));
            waits.end(unique, at(answered));
        }
        waits.end(6, at(109));
        assert_eq!(waits.longest(at(109)), Duration::from_secs(7));
        assert_eq!(waits.longest(at(159)), Duration::from_secs(7));
        assert_eq!(waits.longest(at(160)), Duration::ZERO);
        // A new one in the place of the old one's slot.
        waits.open.insert(8, at(161));
        waits.end(8, at(163));
        assert_eq!(waits.longest(at(163)), Duration::from_secs(2));
    }

    #[test]
    fn who_waits_still_counts() {
        let mut waits = Waits::default();
        waits.open.insert(2, at(10));
        waits.open.insert(4, at(50));
        assert_eq!(waits.longest(at(100)), Duration::from_secs(90));
        waits.end(2, at(100));
        assert_eq!(waits.longest(at(105)), Duration::from_secs(90));
        assert_eq!(waits.longest(at(200)), Duration::from_secs(150));
    }
}
