//! Points in time.

use std::ops::Add;
use std::time::Duration;

/// Monotonic time in nanoseconds since an origin of the node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Mono;

    fn add(self, duration: Duration) -> Mono {
        Mono(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// Wall clock: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wall(pub i128);

impl Wall {
    /// Whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000) as i64
    }

    /// Nanoseconds within the second.
    pub fn subsecond_nanos(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }
}
