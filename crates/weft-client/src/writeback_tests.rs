use super::*;
use crate::node::NodeState;
use weft_types::{PairId, StripeMap};
use weft_wire::proto::{Durability, Protocol};

const UNIT: u64 = 64 << 10;

fn file(width: u32) -> NodeState {
    let map = StripeMap::new(UNIT as u32, (0..width).map(PairId).collect()).unwrap();
    NodeState {
        layout: Some(Rc::new(FileLayout {
            map,
            protocol: Protocol::ServerSync,
            durability: Durability::Memory,
            generation: 1,
        })),
        ..NodeState::default()
    }
}

/// One pair, and stripes that are longer than pieces.
fn wide_unit() -> NodeState {
    let map = StripeMap::new(1 << 20, vec![PairId(0)]).unwrap();
    let mut state = file(1);
    let layout = (**state.layout.as_ref().unwrap()).clone();
    state.layout = Some(Rc::new(FileLayout { map, ..layout }));
    state
}

fn put(state: &mut NodeState, at: u64, bytes: usize, fill: u8) {
    let round = state.buffer.round;
    state
        .buffer
        .waiting
        .insert(at, vec![fill; bytes].into(), round);
}

/// Everything that may be sent now; checks what must hold of every message.
fn drain(state: &mut NodeState, piece: u64) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = next_message(1, state, piece) {
        let parts: usize = message.parts.iter().map(Bytes::len).sum();
        let extents: u64 = message.extents.iter().map(|e| u64::from(e.length)).sum();
        assert_eq!(parts as u64, message.bytes);
        assert_eq!(extents, message.bytes);
        assert!(message.bytes <= piece && message.bytes > 0);
        assert!(message.extents.len() <= EXTENTS_MAX);
        let layout = state.layout.as_ref().unwrap();
        for extent in &message.extents {
            assert_eq!(layout.map.leader(extent.offset), message.leader);
        }
        messages.push(message);
    }
    messages
}

#[test]
fn scattered_writes_share_messages_by_object_and_leader() {
    let mut state = file(2);
    for i in 0..64 {
        put(&mut state, i * 16 * 1024, 4096, i as u8);
    }
    assert!(
        next_message(1, &mut state, 256 << 10).is_none(),
        "nobody wants it yet"
    );
    state.buffer.wanted = Some(0);
    let messages = drain(&mut state, 256 << 10);
    // 16 units on two pairs with two leaders each.
    assert_eq!(messages.len(), 4);
    assert!(state.buffer.waiting.is_empty());
    assert_eq!(state.buffer.flying.bytes(), 64 * 4096);
    let all: u64 = messages.iter().map(|m| m.bytes).sum();
    assert_eq!(all, 64 * 4096);
}

#[test]
fn a_long_run_goes_in_pieces_in_order() {
    let mut state = file(1);
    put(&mut state, 1000, 200_000, 7);
    state.buffer.wanted = Some(0);
    let messages = drain(&mut state, 32 << 10);
    let mut at = 1000;
    let mut ranges: Vec<(u64, u64)> = messages.iter().flat_map(|m| m.ranges.clone()).collect();
    ranges.sort_unstable();
    for (start, end) in ranges {
        assert_eq!(start, at);
        at = end;
    }
    assert_eq!(at, 201_000);
}

#[test]
fn newer_bytes_wait_for_older_ones_on_their_way() {
    let mut state = file(1);
    put(&mut state, 0, 8192, 1);
    state.buffer.wanted = Some(0);
    let first = drain(&mut state, 256 << 10);
    assert_eq!(first.len(), 1);
    put(&mut state, 4096, 8192, 2);
    state.buffer.wanted = Some(0);
    let second = drain(&mut state, 256 << 10);
    assert_eq!(second.len(), 1);
    assert_eq!(
        second[0].ranges,
        [(8192, 12288)],
        "only what is not on its way"
    );
    assert_eq!(state.buffer.waiting.bytes(), 4096);
    // The answer to the first lets the rest go.
    state.buffer.flying.remove(0, 8192);
    let third = drain(&mut state, 256 << 10);
    assert_eq!(third[0].ranges, [(4096, 8192)]);
    assert!(third[0].parts.iter().all(|p| p.iter().all(|b| *b == 2)));
}

#[test]
fn a_whole_piece_goes_at_once_and_the_rest_stays() {
    let mut state = file(2);
    put(&mut state, 0, UNIT as usize + 100, 3);
    state.buffer.ready.push_back(0);
    let messages = drain(&mut state, 256 << 10);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].ranges, [(0, UNIT)]);
    assert_eq!(state.buffer.waiting.bytes(), 100);
}

#[test]
fn long_writes_go_early_while_little_is_on_its_way_and_short_ones_are_gathered() {
    const PIECE: u64 = 256 << 10;
    let mut state = wide_unit();
    let write = |state: &mut NodeState, at: u64, bytes: usize| {
        put(state, at, bytes, 1);
        note_written(&mut state.buffer, PIECE, at, at + bytes as u64);
        let messages = drain(state, PIECE);
        let ranges = messages.into_iter().flat_map(|message| message.ranges);
        ranges.collect::<Vec<_>>()
    };
    const K: u64 = 1 << 10;
    for at in 0..7 {
        assert_eq!(write(&mut state, at * 4 * K, 4096), [], "4 KiB at a time");
    }
    // All that waits goes with the first long one.
    let first = write(&mut state, 28 * K, 64 << 10);
    assert_eq!(first, [(0, 64 * K), (64 * K, 92 * K)]);
    assert_eq!(write(&mut state, 92 * K, 64 << 10), [(92 * K, 156 * K)]);
    assert_eq!(
        write(&mut state, 156 * K, 64 << 10),
        [],
        "enough is under way"
    );
    // What is left of the piece goes when it is whole.
    assert_eq!(write(&mut state, 220 * K, 64 << 10), [(156 * K, 256 * K)]);
    assert_eq!(write(&mut state, 284 * K, 64 << 10), []);
    state.buffer.flying.remove(0, 220 * K);
    let ranges = |state: &mut NodeState| {
        let messages = drain(state, PIECE).into_iter();
        messages
            .flat_map(|message| message.ranges)
            .collect::<Vec<_>>()
    };
    let next = ranges(&mut state);
    assert_eq!(next, [(256 * K, 320 * K), (320 * K, 348 * K)]);
    state.buffer.flying.remove(0, u64::MAX);
    assert_eq!(write(&mut state, 348 * K, 4096), []);
    // Up to the end of a piece and no further.
    assert_eq!(write(&mut state, 352 * K, 256 << 10), [(348 * K, 512 * K)]);
    state.buffer.flying.remove(0, u64::MAX);
    let next = ranges(&mut state);
    assert_eq!(next, [(512 * K, 576 * K), (576 * K, 608 * K)]);
    assert!(state.buffer.waiting.is_empty());
}

#[test]
fn what_was_written_again_goes_whole() {
    const PIECE: u64 = 64 << 10;
    let mut state = wide_unit();
    put(&mut state, 0, 40 << 10, 1);
    note_written(&mut state.buffer, PIECE, 0, 40 << 10);
    assert_eq!(drain(&mut state, PIECE).len(), 1);
    put(&mut state, 0, 64 << 10, 2);
    note_written(&mut state.buffer, PIECE, 0, 64 << 10);
    // Not over what is on its way.
    let next = drain(&mut state, PIECE);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].ranges, [(40 << 10, 64 << 10)]);
    state.buffer.flying.remove(0, u64::MAX);
    let next = drain(&mut state, PIECE);
    assert_eq!(next[0].ranges, [(0, 40 << 10)]);
    assert!(
        next[0]
            .parts
            .iter()
            .all(|part| part.iter().all(|b| *b == 2))
    );
}

#[test]
fn a_flush_is_over_when_its_round_is() {
    let mut state = file(1);
    put(&mut state, 0, 4096, 1);
    state.buffer.round = 1;
    put(&mut state, 4096, 4096, 2);
    assert!(state.buffer.is_outstanding(0));
    state.buffer.waiting.remove(0, 4096);
    assert!(
        !state.buffer.is_outstanding(0),
        "the younger bytes are another round's"
    );
    assert!(state.buffer.is_outstanding(1));
}
