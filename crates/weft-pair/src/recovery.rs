//! The plan of a recovery: what is left to be compared, in which order, how far it is, how fast it
//! may go. Pure; called by weft-data at the serving member.

use crate::Now;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use weft_types::{ObjectId, REGION_BYTES, Region, Regions, Run};

/// What is left to be compared and copied.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    todo: BTreeMap<ObjectId, Regions>,
    regions: u64,
    done: u64,
    /// Regions are taken round: what was added behind the last one waits for the next round.
    at: Option<Region>,
}

impl Plan {
    /// Nothing is left.
    pub fn new() -> Plan {
        Plan::default()
    }

    /// These regions have to be compared (again).
    pub fn add(&mut self, run: Run) {
        let regions = self.todo.entry(run.object).or_default();
        self.regions += count(&regions.missing(run.regions.clone()));
        regions.insert(run.regions);
    }

    /// This region has still to be compared.
    pub fn contains(&self, region: Region) -> bool {
        self.todo
            .get(&region.object)
            .is_some_and(|regions| regions.contains(region.index))
    }

    /// Those of these regions that need not be compared (any more).
    pub fn without(&self, run: &Run) -> Vec<Range<u32>> {
        match self.todo.get(&run.object) {
            Some(regions) => regions.missing(run.regions.clone()),
            None => vec![run.regions.clone()],
        }
    }

    /// The object is gone from both members.
    pub fn drop_object(&mut self, object: ObjectId) {
        if let Some(regions) = self.todo.remove(&object) {
            self.regions -= regions.count();
        }
    }

    /// The next region to compare and those that follow it; they stay in the plan until
    /// [`Plan::finished`]. Asked again, it goes on at the region behind that one. Regions come in order
    /// of object and index, round and round.
    pub fn next_run(&mut self) -> Option<Run> {
        let next = match self.at {
            Some(at) => self.after(at).or_else(|| self.first()),
            None => self.first(),
        };
        self.at = next.as_ref().map(Run::first);
        next
    }

    /// The regions were made equal.
    pub fn finished(&mut self, run: Run) {
        if let Some(regions) = self.todo.get_mut(&run.object) {
            let finished = count(&regions.remove(run.regions));
            self.regions -= finished;
            self.done += finished;
            if regions.is_empty() {
                self.todo.remove(&run.object);
            }
        }
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.regions == 0
    }

    /// Regions that are left.
    pub fn left(&self) -> u64 {
        self.regions
    }

    /// Regions that were made equal.
    pub fn done(&self) -> u64 {
        self.done
    }

    fn first(&self) -> Option<Run> {
        first_of(self.todo.iter().next()?)
    }

    fn after(&self, at: Region) -> Option<Run> {
        use std::ops::Bound::{Excluded, Unbounded};
        let behind = at.index.saturating_add(1)..u32::MAX;
        let regions = self.todo.get(&at.object);
        if let Some(rest) = regions.and_then(|regions| regions.first_within(behind)) {
            return Some(Run {
                object: at.object,
                regions: rest,
            });
        }
        let behind = (Excluded(at.object), Unbounded);
        first_of(self.todo.range(behind).next()?)
    }
}

fn first_of((&object, regions): (&ObjectId, &Regions)) -> Option<Run> {
    let regions = regions.runs().first()?.clone();
    Some(Run { object, regions })
}

fn count(runs: &[Range<u32>]) -> u64 {
    let lengths = runs.iter().map(|run| u64::from(run.end - run.start));
    lengths.sum()
}

/// The regions that an object of `length` bytes has.
pub fn regions_of(length: u64) -> u32 {
    // Objects are far smaller than 2^32 regions; one that is not is compared up to there.
    u32::try_from(length.div_ceil(REGION_BYTES)).unwrap_or(u32::MAX)
}

/// Bounds a rate of bytes: a bucket that fills with time and that is emptied by work. It may be
/// overdrawn by one piece of work, which the next one waits for.
#[derive(Clone, Debug)]
pub struct Bucket {
    bytes_per_s: u64,
    /// Never more than a tenth of a second's worth: a pause does not become a burst.
    level: f64,
    at: Now,
}

impl Bucket {
    /// A full bucket of this rate; 0 means no bound.
    pub fn new(bytes_per_s: u64, now: Now) -> Bucket {
        Bucket {
            bytes_per_s,
            level: bytes_per_s as f64 / 10.0,
            at: now,
        }
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, bytes_per_s: u64, now: Now) {
        self.fill(now);
        self.bytes_per_s = bytes_per_s;
        self.level = self.level.min(bytes_per_s as f64 / 10.0);
    }

    /// Takes `bytes` out; how long to wait before the work that they stand for goes on.
    pub fn take(&mut self, bytes: u64, now: Now) -> Duration {
        if self.bytes_per_s == 0 {
            return Duration::ZERO;
        }
        self.fill(now);
        self.level -= bytes as f64;
        if self.level >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-self.level / self.bytes_per_s as f64)
    }

    fn fill(&mut self, now: Now) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now.max(self.at);
        let rate = self.bytes_per_s as f64;
        self.level = (self.level + passed * rate).min(rate / 10.0);
    }
}

/// Shares a server between its clients and recovery: while clients use it, recovery gets a set
/// share of what the server was seen to be able to move; alone it gets all.
#[derive(Clone, Debug)]
pub struct Share {
    /// 0 to 1.
    share: f64,
    cap_bytes_per_s: u64,
    /// The most bytes that clients and recovery together were seen to move in a second; decays.
    best_bytes_per_s: f64,
    at: Now,
    foreground: u64,
    background: u64,
}

/// Recovery never gets less, so that it ends whatever clients do. Far less than the slowest link that a
/// cluster is built with: 100 Mbit/s carry twelve times as much.
pub const SHARE_MIN_BYTES_PER_S: u64 = 1 << 20;
/// Clients that move less than this count as absent.
const IDLE_BYTES_PER_S: f64 = 256.0 * 1024.0;

impl Share {
    /// `share` of the bandwidth while clients are busy, never more than `cap_bytes_per_s` (0: no
    /// cap).
    pub fn new(share: f64, cap_bytes_per_s: u64, now: Now) -> Share {
        Share {
            share: share.clamp(0.01, 1.0),
            cap_bytes_per_s,
            best_bytes_per_s: 0.0,
            at: now,
            foreground: 0,
            background: 0,
        }
    }

    /// The rate for the next while, from the bytes that clients and recovery have moved since the
    /// server started. To be asked a few times a second. 0 means no bound.
    pub fn rate(&mut self, foreground_total: u64, background_total: u64, now: Now) -> u64 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let clients = foreground_total.saturating_sub(self.foreground) as f64;
        let recovery = background_total.saturating_sub(self.background) as f64;
        self.foreground = foreground_total;
        self.background = background_total;
        self.at = now;
        if passed <= 0.0 {
            return self.cap_bytes_per_s;
        }
        let together = (clients + recovery) / passed;
        self.best_bytes_per_s = (self.best_bytes_per_s * 0.99).max(together);
        if clients / passed < IDLE_BYTES_PER_S {
            return self.cap_bytes_per_s;
        }
        let rate = ((self.best_bytes_per_s * self.share) as u64).max(SHARE_MIN_BYTES_PER_S);
        match self.cap_bytes_per_s {
            0 => rate,
            cap => rate.min(cap),
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use weft_types::Ino;

    fn object(ino: u64) -> ObjectId {
        ObjectId {
            ino: Ino(ino),
            generation: 0,
        }
    }

    fn region(ino: u64, index: u32) -> Region {
        Region {
            object: object(ino),
            index,
        }
    }

    fn run(ino: u64, regions: Range<u32>) -> Run {
        Run {
            object: object(ino),
            regions,
        }
    }

    #[test]
    fn regions_come_once_each_in_order_and_added_ones_again() {
        let mut plan = Plan::new();
        for (ino, index) in [(2, 5), (1, 3), (1, 1), (2, 5)] {
            plan.add(region(ino, index).run());
        }
        assert_eq!(plan.left(), 3);
        let mut seen = Vec::new();
        while let Some(next) = plan.next_run() {
            seen.push(next.clone());
            plan.finished(next);
            if seen.len() == 2 {
                plan.add(region(1, 1).run());
            }
        }
        let all = [(1, 1), (1, 3), (2, 5), (1, 1)];
        assert_eq!(seen, all.map(|(ino, index)| region(ino, index).run()));
        assert!(plan.is_empty());
        assert_eq!(plan.done(), 4);
    }

    #[test]
    fn a_region_that_cannot_be_finished_does_not_stop_the_others() {
        let mut plan = Plan::new();
        plan.add(run(1, 0..1));
        plan.add(run(2, 0..3));
        assert_eq!(plan.next_run(), Some(run(1, 0..1)));
        assert_eq!(plan.next_run(), Some(run(2, 0..3)));
        assert_eq!(plan.next_run(), Some(run(2, 1..3)));
        plan.finished(run(2, 1..3));
        assert_eq!(plan.next_run(), Some(run(1, 0..1)));
        plan.drop_object(object(1));
        assert_eq!(plan.next_run(), Some(run(2, 0..1)));
        assert_eq!((plan.left(), plan.done()), (1, 2));
    }

    #[test]
    fn regions_that_follow_one_another_are_planned_as_one() {
        let mut plan = Plan::new();
        let end = 16 << 20;
        plan.add(run(1, 0..end));
        plan.add(run(1, 7..9));
        assert_eq!(plan.left(), u64::from(end));
        plan.finished(run(1, 5..9));
        assert_eq!(plan.next_run(), Some(run(1, 0..5)));
        assert_eq!(plan.next_run(), Some(run(1, 1..5)));
        assert!(plan.contains(region(1, 4)) && !plan.contains(region(1, 8)));
        assert_eq!(plan.without(&run(1, 3..12)), [5..9]);
        assert_eq!(plan.without(&run(2, 3..12)), [3..12]);
        plan.finished(run(1, 0..end));
        assert!(plan.is_empty() && plan.next_run().is_none());
        assert_eq!(plan.done(), u64::from(end));
    }

    #[test]
    fn a_bucket_keeps_its_rate() {
        let mut now = Now::ZERO;
        let mut bucket = Bucket::new(1 << 20, now);
        let mut moved = 0;
        while now < Duration::from_secs(10) {
            moved += 64 << 10;
            now += bucket.take(64 << 10, now);
        }
        let rate = moved as f64 / now.as_secs_f64();
        assert!((0.95..1.1).contains(&(rate / (1 << 20) as f64)), "{rate}");
        // Idle time is not saved up.
        now += Duration::from_secs(100);
        let waits: Duration = (0..4).map(|_| bucket.take(1 << 20, now)).last().unwrap();
        assert!(waits > Duration::from_secs(3));
        assert_eq!(Bucket::new(0, now).take(1 << 30, now), Duration::ZERO);
    }

    #[test]
    fn recovery_gets_its_share_of_a_busy_server_and_all_of_an_idle_one() {
        let mut share = Share::new(0.25, 0, Now::ZERO);
        let mut now = Duration::from_millis(250);
        assert_eq!(share.rate(0, 50 << 20, now), 0);
        now += Duration::from_millis(250);
        let rate = share.rate(100 << 20, 50 << 20, now);
        assert_eq!(rate, 100 << 20);
        let mut capped = Share::new(0.25, 8 << 20, Now::ZERO);
        assert_eq!(capped.rate(100 << 20, 0, now), 8 << 20);
        let mut slow = Share::new(0.25, 0, Now::ZERO);
        assert_eq!(slow.rate(1 << 20, 0, now), SHARE_MIN_BYTES_PER_S);
    }
}
