//! What a measurement may ask for, and how long it may take. Peers refuse more; drivers do not ask for it.

use std::time::Duration;

/// Bytes of a message. The paper's are 50 MB; a peer holds none of them whole.
pub const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// Rounds of one measurement: medians get no better, and the answer stays small.
pub const ROUNDS_MAX: u32 = 1_000;
/// Rounds that are made however long each takes: a median of fewer says little.
pub const ROUNDS_MIN: u32 = 3;
/// Nanoseconds of one flood, or of the pause before a message is taken.
pub const RUN_NANOS_MAX: u64 = 60_000_000_000;
/// No further round is begun after this.
pub const RUN_PATIENCE: Duration = Duration::from_secs(10);
/// Messages of a flood at least: its gap is a mean over all but the first.
pub const FLOOD_MESSAGES_MIN: u64 = 4;
/// Messages of a flood at most: the smallest ones, of which a second has a million, need no more.
pub const FLOOD_MESSAGES_MAX: u64 = 1 << 18;
/// Peers of one measurement. Each pair of them is measured: 4,032 of them.
pub const PEERS_MAX: usize = 64;
/// Lanes that a peer keeps for drivers: one to each other peer of a measurement, and as many of another.
pub const LANES_MAX: usize = 2 * PEERS_MAX;
/// Lanes that end at a peer; each has a task and a buffer of [`CHUNK_BYTES`].
pub const ECHOES_MAX: usize = 4 * PEERS_MAX;
/// A lane that is not used for so long is closed: its driver is gone.
pub const LANE_IDLE: Duration = Duration::from_secs(120);
/// What is handed to a socket, or taken from it, at a time. Weft's stripe units are of this order.
pub const CHUNK_BYTES: usize = 256 << 10;
/// A greeting takes one round trip; whoever needs longer is not there.
pub const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// A round may take so long besides what it has to move.
const ROUND_PATIENCE: Duration = Duration::from_secs(30);
/// Slower than this (bytes a second) nothing is measured: modems were.
const SLOWEST: u64 = 50_000;

/// How long one round may take: with a pause or a flood of so long, and messages of so many bytes.
pub fn round_patience(message_bytes: u32, nanos: u64) -> Duration {
    let moved = u64::from(message_bytes) * FLOOD_MESSAGES_MIN / SLOWEST;
    // What a flood has handed over when its time ends is still to be taken on the other side.
    ROUND_PATIENCE + Duration::from_secs(moved) + Duration::from_nanos(nanos) * 2
}

/// How long a driver waits for a peer that still answers pings.
pub fn answer_patience(message_bytes: u32, nanos: u64) -> Duration {
    RUN_PATIENCE + round_patience(message_bytes, nanos) * (ROUNDS_MIN + 1)
}
