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
