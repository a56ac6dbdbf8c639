//! Parametrised LogP and LogGP from samples. Pure: seconds and bytes in, parameters out.
//!
//! Parametrised LogP (Kielmann, Bal, Verstoep: *Fast Measurement of LogP Parameters for Message Passing Platforms*, IPDPS
//! workshops 2000) describes a network of P nodes by the latency L and, for messages of m bytes, the send overhead os(m),
//! the receive overhead or(m) and the gap g(m), the least time between the beginnings of two messages. LogGP (Alexandrov,
//! Ionescu, Schauser, Scheiman, SPAA 1995) has instead a gap G for each byte of long messages. Streams have no message
//! of 0 bytes: the smallest here, [`SMALLEST`], stands for it.

mod stats;

pub use stats::{Line, Summary, line};

use serde::Serialize;

/// Bytes of the message that stands for an empty one.
pub const SMALLEST: u32 = 1;

/// What one round on a lane gave, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// From the beginning to the answer, or until the message was taken.
    pub seconds: f64,
    /// Until the last byte was handed to the system.
    pub send: f64,
    /// How many messages.
    pub messages: u64,
}

/// All rounds with messages of one size.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Bytes of a message.
    pub bytes: u32,
    /// A message there, the smallest one back.
    pub round_trips: Vec<Sample>,
    /// Messages without a pause, then the smallest one back.
    pub floods: Vec<Sample>,
    /// Taking a message that has been there for a while.
    pub receipts: Vec<Sample>,
}

/// What is known of messages of one size. Seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtSize {
    /// m.
    pub bytes: u32,
    /// RTT(m): m bytes there, the smallest message back.
    pub round_trip: Summary,
    /// os(m).
    pub send: Summary,
    /// or(m).
    pub receive: Summary,
    /// g(m).
    pub gap: Summary,
    /// T(m) as measured: from the beginning of a message to its end on the other side, when nothing else is under way.
    pub delivery: f64,
    /// T(m) as LogGP has it, for comparison.
    pub delivery_by_model: f64,
}

impl AtSize {
    /// Bytes a second of messages that follow one another: m / g(m).
    pub fn bandwidth(&self) -> f64 {
        f64::from(self.bytes) / self.gap.median
    }

    /// Bytes a second of one message alone: m / T(m), as in dNFSp's figure 5.
    pub fn bandwidth_alone(&self) -> f64 {
        f64::from(self.bytes) / self.delivery
    }
}

/// The parameters of the way from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// L, seconds.
    pub latency: f64,
    /// LogGP's g, seconds: what a message costs however short it is.
    pub gap: f64,
    /// LogGP's G, seconds a byte.
    pub gap_per_byte: f64,
    /// How far g(m) is from g + (m-1)G, as a share of it (root of the mean square).
    pub error: f64,
    /// By m, growing.
    pub sizes: Vec<AtSize>,
}

impl Parameters {
    /// Computes them. None if there is no sample of the smallest message or of a larger one.
    ///
    /// - os(m) is how long the call that sends takes, and RTT(m) until the answer: one round gives both (Kielmann et al.).
    ///   Of messages longer than what the system buffers, os(m) has the wait for room in it.
    /// - or(m) is how long it takes to take a message that was asked for so long before that it has come (Kielmann et al.).
    /// - g(m) is by saturation, for every m: (time of n messages and an answer - RTT(m)) / (n - 1), which is free of latency
    ///   (Hoefler, Lichei, Rehm: *Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks*, IPDPS 2007).
    ///   Kielmann et al. saturate for g(0) alone and take g(m) = RTT(m) - RTT(0) + g(0): on TCP that is off, as one message
    ///   alone meets a window that has still to open.
    /// - L = RTT(0)/2 - g(0) (Kielmann et al.: RTT(0) = 2 (L + g(0))).
    /// - G is the slope of g(m) by least squares, see [`line`].
    /// - T(m) = RTT(m) - RTT(0)/2 as measured. By LogGP os + (m-1) G + L' + or, whose L' is without what a message costs at
    ///   both ends: L' = L + g(0) - os(0) - or(0) (Kielmann et al., table 1), so that the overheads cancel out. Measured, it
    ///   is at least RTT(m)/2.
    pub fn of(mut samples: Vec<Samples>) -> Option<Parameters> {
        samples.sort_by_key(|samples| samples.bytes);
        let mut sizes: Vec<AtSize> = samples.iter().filter_map(at_size).collect();
        let smallest = sizes.first().filter(|size| size.bytes == SMALLEST)?.clone();
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .map(|size| (f64::from(size.bytes - 1), size.gap.median))
            .collect();
        let line = line(&points)?;
        let half = smallest.round_trip.median / 2.0;
        let latency = (half - smallest.gap.median).max(0.0);
        for size in &mut sizes {
            // No message comes sooner than the smallest one goes back: less was measured among other things.
            let least = size.round_trip.median / 2.0;
            size.delivery = (size.round_trip.median - half).max(least);
            let long = f64::from(size.bytes - 1) * line.slope;
            size.delivery_by_model = latency + smallest.gap.median + long;
        }
        Some(Parameters {
            latency,
            gap: line.at_zero.max(0.0),
            gap_per_byte: line.slope,
            error: line.error,
            sizes,
        })
    }

    /// Bytes a second that G leaves to endless messages.
    pub fn bandwidth(&self) -> f64 {
        1.0 / self.gap_per_byte
    }
}

fn at_size(samples: &Samples) -> Option<AtSize> {
    let of = |samples: &[Sample], value: fn(&Sample) -> f64| -> Option<Summary> {
        Summary::of(samples.iter().map(value).collect())
    };
    let round_trip = of(&samples.round_trips, |sample| sample.seconds)?;
    let gaps = samples.floods.iter();
    let gaps = gaps.filter_map(|flood| gap(flood, Some(round_trip.median)));
    Some(AtSize {
        bytes: samples.bytes,
        send: of(&samples.round_trips, |sample| sample.send)?,
        receive: of(&samples.receipts, |sample| sample.seconds)?,
        gap: Summary::of(gaps.collect())?,
        round_trip,
        delivery: 0.0,
        delivery_by_model: 0.0,
    })
}

/// The gap of a flood, where one message alone and its answer take `round_trip`; where that is not known, a gap that is
/// too long by one of so many latencies. None of a flood of no length.
pub fn gap(flood: &Sample, round_trip: Option<f64>) -> Option<f64> {
    let (all, count) = (flood.seconds, flood.messages as f64);
    if all <= 0.0 || count < 1.0 {
        return None;
    }
    // A round trip that took as long as the flood met something that the flood did not.
    match round_trip.filter(|&trip| count >= 2.0 && trip < all) {
        Some(trip) => Some((all - trip) / (count - 1.0)),
        None => Some(all / count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: f64 = 120e-6;
    const OVERHEAD: f64 = 3e-6;
    const GAP: f64 = 8e-6;
    const PER_BYTE: f64 = 80e-9;

    fn gap_of(bytes: u32) -> f64 {
        GAP + f64::from(bytes - 1) * PER_BYTE
    }

    fn sample(seconds: f64, send: f64, messages: u64) -> Sample {
        Sample {
            seconds,
            send,
            messages,
        }
    }

    /// What a network that is exactly LogGP's would have shown.
    fn samples(bytes: u32) -> Samples {
        let there = LATENCY + gap_of(bytes);
        let trip = there + LATENCY + gap_of(SMALLEST);
        Samples {
            bytes,
            round_trips: vec![sample(trip, OVERHEAD, 1); 9],
            floods: vec![sample(trip + 99.0 * gap_of(bytes), 0.0, 100); 5],
            receipts: vec![sample(OVERHEAD / 2.0, 0.0, 1); 9],
        }
    }

    fn assert_near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 1e-6,
            "{value} beside {expected}"
        );
    }

    #[test]
    fn what_a_network_was_made_of_is_found_again() {
        let sizes = [1, 64, 1 << 10, 64 << 10, 1 << 20];
        let found = Parameters::of(sizes.map(samples).to_vec()).unwrap();
        assert_near(found.latency, LATENCY);
        assert_near(found.gap, GAP);
        assert_near(found.gap_per_byte, PER_BYTE);
        assert_near(found.bandwidth(), 12.5e6);
        assert!(found.error < 1e-6, "{}", found.error);
        for size in &found.sizes {
            assert_near(size.gap.median, gap_of(size.bytes));
            assert_near(size.send.median, OVERHEAD);
            assert_near(size.receive.median, OVERHEAD / 2.0);
            assert_near(size.delivery, LATENCY + gap_of(size.bytes));
            assert_near(size.delivery_by_model, size.delivery);
            assert_near(size.bandwidth(), f64::from(size.bytes) / gap_of(size.bytes));
        }
    }

    #[test]
    fn rounds_that_met_something_else_change_nothing() {
        let disturbed = |bytes| {
            let mut samples = samples(bytes);
            for at in [0, 4, 7] {
                samples.round_trips[at].seconds *= 40.0;
                samples.round_trips[at].send *= 40.0;
                samples.receipts[at].seconds *= 40.0;
            }
            samples.floods[2].seconds *= 3.0;
            samples
        };
        let sizes = [1, 1 << 10, 1 << 20];
        let found = Parameters::of(sizes.map(disturbed).to_vec()).unwrap();
        assert_near(found.latency, LATENCY);
        assert_near(found.gap_per_byte, PER_BYTE);
        assert_eq!(found.sizes[1].round_trip.outliers, 3);
        assert_eq!(found.sizes[1].gap.outliers, 1);
    }

    #[test]
    fn no_message_is_there_before_the_smallest_could_be() {
        let mut slow_at_first = samples(1);
        for trip in &mut slow_at_first.round_trips {
            trip.seconds *= 40.0;
        }
        let found = Parameters::of(vec![slow_at_first, samples(64), samples(1 << 20)]).unwrap();
        for size in &found.sizes {
            assert!(size.delivery >= size.round_trip.median / 2.0, "{size:?}");
            assert!(size.bandwidth_alone() < 1e12, "{size:?}");
        }
    }

    #[test]
    fn without_the_smallest_message_or_a_longer_one_nothing_is_known() {
        assert_eq!(Parameters::of(vec![]), None);
        assert_eq!(Parameters::of(vec![samples(1)]), None);
        assert_eq!(Parameters::of(vec![samples(2), samples(100)]), None);
        let mut silent = samples(1);
        silent.floods.clear();
        assert_eq!(Parameters::of(vec![silent, samples(100)]), None);
    }

    #[test]
    fn a_gap_is_never_negative_or_of_nothing() {
        let of = |seconds, messages, trip| gap(&sample(seconds, 0.0, messages), trip);
        assert_eq!(of(0.0, 5, Some(0.1)), None);
        assert_eq!(of(1.0, 0, Some(0.1)), None);
        assert_eq!(of(1.0, 1, Some(0.1)), Some(1.0));
        assert_eq!(of(1.0, 4, Some(2.0)), Some(0.25));
        assert_eq!(of(1.0, 4, Some(0.4)), Some(0.6 / 3.0));
        // Not known: all of the time is the messages'.
        assert_eq!(of(1.0, 4, None), Some(0.25));
    }
}
