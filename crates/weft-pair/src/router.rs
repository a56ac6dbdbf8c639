//! Where a client reads: which member each piece of a read is asked from. Pure; called by
//! weft-client, one [`Router`] for each pair.
//!
//! Both members hold the same bytes, so a large read moves twice as fast from both, and a member
//! that is slow or hot is passed by. The measure is the time that a piece is expected to take: the
//! member's moving averages of latency and of time for each byte, and what is still outstanding
//! there.

use crate::Now;
use crate::state::{Mode, PairState};
use std::time::Duration;
use weft_types::Member;

/// Reads of at least this many bytes are split over both members: below it the second request
/// costs more than the shared transfer saves.
pub const SPLIT_BYTES: u64 = 128 << 10;
/// Parts of a split read are multiples of this, so that neither member verifies a block for both.
const SPLIT_ALIGN: u64 = 64 << 10;
/// Weight of a new sample in the moving averages: an old one counts half after about five.
const WEIGHT: f64 = 0.125;
/// A member that failed is not asked for this long, then twice as long, up to [`SHUN_MAX`].
const SHUN_MIN: Duration = Duration::from_millis(20);
/// See [`SHUN_MIN`]. Long enough to cost nothing, short enough to notice a member that is well
/// again.
const SHUN_MAX: Duration = Duration::from_secs(1);
/// The member that looks slower still gets one read in this many, or its averages would never
/// learn that it is no longer slow.
const PROBE_EVERY: u32 = 32;
/// A piece that takes this many times as long as expected is worth asking the other member for.
const LATE_FACTOR: f64 = 8.0;
/// A member is slow that takes this many times as long as the other.
const SLOW_FACTOR: f64 = 2.0;
/// A part is not late before this: below it a second request costs more than it gains. Whether the other member
/// can help is looked at this often.
pub const LATE_MIN: Duration = Duration::from_millis(50);
/// After this it is asked however much it has to do for this client.
const LATE_MAX: Duration = Duration::from_secs(2);

/// What is known of one member.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Moving average of the time from asking to answer, less the share of the bytes; seconds.
    latency: f64,
    /// Moving average of seconds for each byte.
    per_byte: f64,
    /// Moving average of the time from asking to answer, seconds.
    took: f64,
    samples: u32,
    outstanding_bytes: u64,
    outstanding: u32,
    shun: Duration,
    shun_until: Now,
}

impl Default for Track {
    fn default() -> Track {
        Track {
            latency: 0.0005,
            per_byte: 1.0 / 500e6,
            took: 0.0,
            samples: 0,
            outstanding_bytes: 0,
            outstanding: 0,
            shun: Duration::ZERO,
            shun_until: Now::ZERO,
        }
    }
}

impl Track {
    /// Seconds until `bytes` more would be here.
    fn expected(&self, bytes: u64) -> f64 {
        self.latency * f64::from(1 + self.outstanding.min(64))
            + self.per_byte * (self.outstanding_bytes + bytes) as f64
    }

    fn learn(&mut self, bytes: u64, took: Duration) {
        self.samples = self.samples.saturating_add(1);
        // The first samples count for more, so that the averages leave their guesses soon.
        let weight = WEIGHT.max(1.0 / f64::from(self.samples));
        let took = took.as_secs_f64();
        self.took += weight * (took - self.took);
        let transfer = (self.per_byte * bytes as f64).min(took);
        self.latency += weight * (took - transfer - self.latency);
        if bytes >= SPLIT_ALIGN {
            let rest = (took - self.latency).max(took / 2.0);
            self.per_byte += weight * (rest / bytes as f64 - self.per_byte);
        }
    }
}

/// A part of a read and whom to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whom to ask first.
    pub member: Member,
    /// Where it begins.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Splits and routes the reads of one pair.
#[derive(Clone, Debug, Default)]
pub struct Router {
    tracks: [Track; 2],
    turn: u32,
}

impl Router {
    /// A router that knows nothing yet and uses both members alike.
    pub fn new() -> Router {
        Router::default()
    }

    /// The parts of a read of `length` bytes from `offset` of an object, in order of offset. Empty
    /// while nobody serves.
    pub fn plan(&mut self, state: &PairState, offset: u64, length: u64, now: Now) -> Vec<Part> {
        let whole = |member| {
            vec![Part {
                member,
                offset,
                length,
            }]
        };
        match state.mode {
            Mode::Down(_) => Vec::new(),
            Mode::Only(m) | Mode::Recovering(m) => whole(m),
            Mode::Both => {
                self.turn = self.turn.wrapping_add(1);
                let shunned = [Member::Zero, Member::One].map(|m| self.is_shunned(m, now));
                match shunned {
                    [true, false] => return whole(Member::One),
                    [false, true] => return whole(Member::Zero),
                    _ => {}
                }
                if length < SPLIT_BYTES {
                    return whole(self.sooner(length));
                }
                self.split(offset, length)
            }
        }
    }

    /// The member to ask after `failed` did not answer or was too slow; None if no other serves.
    pub fn other(&self, state: &PairState, failed: Member) -> Option<Member> {
        state.mode.serves(failed.twin()).then_some(failed.twin())
    }

    /// A part of `bytes` was asked from `member`.
    pub fn asked(&mut self, member: Member, bytes: u64) {
        let track = &mut self.tracks[member.index()];
        track.outstanding += 1;
        track.outstanding_bytes += bytes;
    }

    /// It was answered after `took`.
    pub fn answered(&mut self, member: Member, bytes: u64, took: Duration) {
        self.ended(member, bytes);
        let track = &mut self.tracks[member.index()];
        track.shun = Duration::ZERO;
        track.learn(bytes, took);
    }

    /// It failed, or the caller gave up waiting: the member is passed by for a while.
    pub fn failed(&mut self, member: Member, bytes: u64, now: Now) {
        self.ended(member, bytes);
        let track = &mut self.tracks[member.index()];
        track.shun = (track.shun * 2).clamp(SHUN_MIN, SHUN_MAX);
        track.shun_until = now + track.shun;
    }

    /// The caller no longer wants it, having waited so long: the other member was sooner, perhaps. Where
    /// that is longer than was known it is learnt, and as it would have taken longer still, twice as much:
    /// a slow one is known by a few pieces, and one taken for slow wrongly is tried again soon.
    pub fn forgotten(&mut self, member: Member, bytes: u64, waited: Duration) {
        self.ended(member, bytes);
        let track = &mut self.tracks[member.index()];
        if waited.as_secs_f64() > track.took {
            track.learn(bytes, waited * 2);
        }
    }

    /// How long a part may take before the other member should be asked as well.
    pub fn late_after(&self, member: Member, bytes: u64) -> Duration {
        let seconds = if self.is_slow(member) {
            SLOW_FACTOR * self.tracks[member.twin().index()].took
        } else {
            LATE_FACTOR * self.tracks[member.index()].expected(bytes)
        };
        Duration::from_secs_f64(seconds.clamp(0.0, 1e3)).clamp(LATE_MIN, LATE_MAX)
    }

    /// After `waited` for a part that is late, the other member should be asked for it as well: the late
    /// one is known to be slow beside it. Or the other answers in half of the time waited (where both
    /// take as long, both their links are full of what others ask, and asking twice would take from them)
    /// and has at most half as much to do for this client (where both have as much it is the client's own
    /// link that is slow, and asking twice would halve it).
    pub fn may_help(&self, late: Member, waited: Duration) -> bool {
        let [twin, track] = [late.twin(), late].map(|member| &self.tracks[member.index()]);
        let is_idle = twin.outstanding_bytes <= track.outstanding_bytes / 2;
        self.is_slow(late)
            || waited.as_secs_f64() >= SLOW_FACTOR * twin.took && (waited >= LATE_MAX || is_idle)
    }

    /// Known to take longer than the other one, by much.
    fn is_slow(&self, member: Member) -> bool {
        let [twin, track] = [member.twin(), member].map(|member| &self.tracks[member.index()]);
        twin.samples > 0 && track.took > SLOW_FACTOR * twin.took
    }

    fn ended(&mut self, member: Member, bytes: u64) {
        let track = &mut self.tracks[member.index()];
        track.outstanding = track.outstanding.saturating_sub(1);
        track.outstanding_bytes = track.outstanding_bytes.saturating_sub(bytes);
    }

    fn is_shunned(&self, member: Member, now: Now) -> bool {
        now < self.tracks[member.index()].shun_until
    }

    fn sooner(&self, bytes: u64) -> Member {
        let [zero, one] = [0, 1].map(|i| self.tracks[i].expected(bytes));
        let probe = self.turn.is_multiple_of(PROBE_EVERY);
        // Alike within a tenth: take turns.
        if (zero - one).abs() <= 0.1 * zero.min(one) {
            match self.turn.is_multiple_of(2) {
                true => Member::Zero,
                false => Member::One,
            }
        } else if (zero < one) != probe {
            Member::Zero
        } else {
            Member::One
        }
    }

    /// Two parts that are expected to arrive together.
    fn split(&self, offset: u64, length: u64) -> Vec<Part> {
        // x bytes from zero and the rest from one take as long when
        //   expected_0(0) + x p0 = expected_1(0) + (length - x) p1.
        let [zero, one] = &self.tracks;
        let x = (one.expected(length) - zero.expected(0)) / (zero.per_byte + one.per_byte);
        let x = x.clamp(0.0, length as f64);
        // The cut lies on an aligned offset of the object.
        let cut = (offset + x as u64 + SPLIT_ALIGN / 2) / SPLIT_ALIGN * SPLIT_ALIGN;
        let cut = cut.clamp(offset, offset + length);
        let mut first = cut - offset;
        let probe = self.turn.is_multiple_of(PROBE_EVERY);
        if probe && (first == 0 || first == length) {
            first = if first == 0 {
                SPLIT_ALIGN
            } else {
                length - SPLIT_ALIGN
            };
        }
        // Which of them gets the beginning turns, so that neither always reads ahead of the other.
        let parts = [
            Part {
                member: Member::Zero,
                offset,
                length: first,
            },
            Part {
                member: Member::One,
                offset: offset + first,
                length: length - first,
            },
        ];
        parts.into_iter().filter(|part| part.length > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::PairId;

    const ZERO: Member = Member::Zero;
    const ONE: Member = Member::One;

    fn both() -> PairState {
        PairState::new(PairId(0))
    }

    fn covers(parts: &[Part], offset: u64, length: u64) {
        let mut at = offset;
        for part in parts {
            assert_eq!(part.offset, at);
            assert!(part.length > 0);
            at += part.length;
        }
        assert_eq!(at, offset + length);
    }

    /// Feeds the router with members of these speeds until it knows them.
    fn taught(zero: Duration, one: Duration) -> Router {
        let mut router = Router::new();
        for _ in 0..40 {
            for (member, took) in [(ZERO, zero), (ONE, one)] {
                router.asked(member, 64 << 10);
                router.answered(member, 64 << 10, took);
            }
        }
        router
    }

    #[test]
    fn a_large_read_is_halved_between_equals() {
        let ms = Duration::from_millis(1);
        let mut router = taught(ms, ms);
        let parts = router.plan(&both(), 0, 1 << 20, Now::ZERO);
        covers(&parts, 0, 1 << 20);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].length, 512 << 10);
    }

    #[test]
    fn a_slow_member_gets_less_and_small_reads_go_by_it() {
        let mut router = taught(Duration::from_millis(1), Duration::from_millis(10));
        let parts = router.plan(&both(), 4096, 1 << 20, Now::ZERO);
        covers(&parts, 4096, 1 << 20);
        let of_one: u64 = parts
            .iter()
            .filter(|part| part.member == ONE)
            .map(|part| part.length)
            .sum();
        assert!(of_one < 256 << 10, "{parts:?}");
        let small: Vec<Member> = (0..320)
            .map(|_| router.plan(&both(), 0, 4096, Now::ZERO)[0].member)
            .collect();
        let to_one = small.iter().filter(|&&m| m == ONE).count();
        assert!((1..=20).contains(&to_one), "{to_one} of 320");
    }

    #[test]
    fn outstanding_bytes_turn_reads_away() {
        let ms = Duration::from_millis(1);
        let mut router = taught(ms, ms);
        router.asked(ZERO, 8 << 20);
        let small: Vec<Member> = (0..8)
            .map(|_| router.plan(&both(), 0, 4096, Now::ZERO)[0].member)
            .collect();
        assert!(small.iter().filter(|&&m| m == ONE).count() >= 7);
    }

    #[test]
    fn who_has_as_much_to_do_is_not_asked_to_help() {
        let mut router = Router::new();
        let late = LATE_MIN;
        for member in [ZERO, ONE] {
            router.asked(member, 3 << 20);
        }
        assert!(!router.may_help(ZERO, late) && !router.may_help(ONE, late));
        assert!(router.may_help(ZERO, LATE_MAX), "in the end it is");
        // The second one answers, the first one does not.
        router.answered(ONE, 3 << 20, late / 2);
        assert!(router.may_help(ZERO, late) && !router.may_help(ONE, late));
    }

    #[test]
    fn who_answers_as_late_is_not_asked_to_help() {
        let mut router = taught(LATE_MAX, LATE_MAX);
        router.asked(ZERO, 1 << 20);
        assert!(!router.may_help(ZERO, LATE_MAX));
        assert!(!router.may_help(ZERO, LATE_MAX * 19 / 10));
        assert!(router.may_help(ZERO, LATE_MAX * 2));
        // Who is known to be slow is not waited for.
        let mut router = taught(LATE_MAX, LATE_MIN);
        router.asked(ZERO, 64 << 10);
        router.asked(ONE, 1 << 20);
        assert!(router.late_after(ZERO, 64 << 10) < LATE_MIN * 5 / 2);
        assert!(router.may_help(ZERO, LATE_MIN));
    }

    #[test]
    fn who_is_not_waited_for_becomes_known_to_be_slow() {
        let ms = Duration::from_millis(1);
        let mut router = taught(ms, ms);
        for _ in 0..8 {
            router.asked(ZERO, 1 << 20);
            router.forgotten(ZERO, 1 << 20, LATE_MIN);
        }
        let slow = router.plan(&both(), 0, 1 << 20, Now::ZERO);
        let of_zero = slow.iter().filter(|part| part.member == ZERO);
        assert!(of_zero.map(|part| part.length).sum::<u64>() < 256 << 10);
        // That it was given up sooner than it answers says nothing.
        let before = router.tracks[0].took;
        router.asked(ZERO, 1 << 20);
        router.forgotten(ZERO, 1 << 20, ms);
        assert!(router.tracks[0].took.to_bits() == before.to_bits());
    }

    #[test]
    fn a_failed_member_is_passed_by_and_tried_again() {
        let ms = Duration::from_millis(1);
        let mut router = taught(ms, ms);
        router.asked(ONE, 4096);
        router.failed(ONE, 4096, ms);
        let parts = router.plan(&both(), 0, 1 << 20, ms);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].member, ZERO);
        let later = ms + SHUN_MIN;
        assert_eq!(router.plan(&both(), 0, 1 << 20, later).len(), 2);
        assert_eq!(router.other(&both(), ONE), Some(ZERO));
    }

    #[test]
    fn only_members_that_serve_are_asked() {
        let mut router = Router::new();
        for mode in [Mode::Only(ONE), Mode::Recovering(ONE)] {
            let state = PairState { mode, ..both() };
            let parts = router.plan(&state, 0, 1 << 20, Now::ZERO);
            assert_eq!(parts.len(), 1);
            assert_eq!(parts[0].member, ONE);
            assert_eq!(router.other(&state, ONE), None);
        }
        let down = PairState {
            mode: Mode::Down(ONE),
            ..both()
        };
        assert!(router.plan(&down, 0, 4096, Now::ZERO).is_empty());
    }

    #[test]
    fn equals_share_small_reads() {
        let ms = Duration::from_millis(1);
        let mut router = taught(ms, ms);
        let to_one = (0..100)
            .filter(|_| router.plan(&both(), 0, 4096, Now::ZERO)[0].member == ONE)
            .count();
        assert!((40..=60).contains(&to_one), "{to_one}");
    }
}
