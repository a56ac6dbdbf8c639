//! Links: what a node can send and receive, shared by all its connections.
//!
//! A node with a [`Link`] has one way out and one way in, each by itself (full duplex), through a
//! switch that is not the limit, and a processor that takes its time for each byte of either. Connections
//! that have something to send take turns, a segment each: so they share what there is equally, as TCP
//! flows about do, and none waits for more than one segment of each other one. A segment waits for the
//! sender's processor and way out, travels (the latency of the [`super::Pace`]), and waits for the
//! receiver's way in and processor. All that time it counts against its connection's window, which
//! is what bounds the queues: nothing is dropped.
//!
//! Left out, as it would be small: acknowledgements take no room, and what a node sends to itself
//! takes nothing.

use super::state::{Packet, State};
use crate::world::Inner;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of a connection that one frame carries, and what it takes on the wire besides: Ethernet
/// (14), IPv4 (20), TCP with timestamps (32).
const FRAME_BYTES: usize = 1448;
const FRAME_HEADERS: usize = 66;
/// What a connection sends in one turn: whole frames, few enough that a heartbeat gets through many
/// busy connections in some ten milliseconds, enough that the simulator has not too much to do.
const SEGMENT_BYTES: usize = 4 * FRAME_BYTES;
/// A writer that found no room waits until this part of its connection's window is free, as under
/// Linux: else it would send smaller and smaller pieces, each in a frame of its own.
const WINDOW_PART: usize = 3;

/// What one node can send and receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes a second on the wire (headers of frames included), each way; 0 counts as 1.
    pub rate: u64,
    /// Nanoseconds that the node's processor needs for each KiB, sent or received: what it does
    /// for the one it cannot do for the other.
    pub processor: u64,
}

impl Link {
    /// Only the wire.
    pub fn of_rate(rate: u64) -> Link {
        Link { rate, processor: 0 }
    }

    /// Nanoseconds that a packet of `bytes` takes at a stage.
    fn nanos(self, stage: Stage, bytes: usize) -> u64 {
        let nanos = match stage {
            Stage::Sending | Stage::Receiving => bytes as u128 * u128::from(self.processor) / 1024,
            Stage::Out | Stage::In => {
                let frames = bytes.div_ceil(FRAME_BYTES).max(1);
                let wire = (bytes + frames * FRAME_HEADERS) as u128;
                wire * 1_000_000_000 / u128::from(self.rate.max(1))
            }
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Where a packet waits, in the order of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The sender's processor.
    Sending,
    /// The sender's way out.
    Out,
    /// The receiver's way in.
    In,
    /// The receiver's processor.
    Receiving,
}

impl Stage {
    /// Of the sender's node; else of the receiver's.
    fn is_near(self) -> bool {
        matches!(self, Stage::Sending | Stage::Out)
    }

    /// What is used there, as an index: out, in, processor.
    fn resource(self) -> usize {
        match self {
            Stage::Out => 0,
            Stage::In => 1,
            Stage::Sending | Stage::Receiving => 2,
        }
    }
}

/// A node's link, and who waits for it.
pub(super) struct LinkState {
    pub(super) link: Link,
    /// By [`Stage::resource`].
    turns: [Turns; 3],
}

impl LinkState {
    pub(super) fn new(link: Link) -> LinkState {
        LinkState {
            link,
            turns: Default::default(),
        }
    }
}

/// Pipes (connection and side) that wait for something, in the order of their turns, each with the
/// stage at which it waits; the first one is being served while it is busy.
#[derive(Default)]
struct Turns {
    pipes: VecDeque<(u64, usize, Stage)>,
    is_busy: bool,
}

/// What of a pipe waits at one stage.
#[derive(Default)]
struct Lane {
    packets: VecDeque<Packet>,
    /// It has its place among the turns.
    has_turn: bool,
}

/// What of a pipe is somewhere on links.
#[derive(Default)]
pub(super) struct Lanes {
    /// By stage.
    stages: [Lane; 4],
    /// Between the two nodes.
    travelling: VecDeque<Packet>,
    /// When the last of these ends its travel.
    last_travel: u64,
}

impl Lanes {
    /// What is on the way is lost.
    pub(super) fn clear(&mut self) {
        for lane in &mut self.stages {
            lane.packets.clear();
        }
        self.travelling.clear();
    }
}

impl State {
    /// A link has part in what goes from one node to the other.
    pub(super) fn is_linked(&self, from: usize, to: usize) -> bool {
        from != to && (self.links.contains_key(&from) || self.links.contains_key(&to))
    }

    /// Bytes that must be free in a window before a writer that waits goes on: any, without links.
    pub(super) fn least_room(&self, from: usize, to: usize, window: usize) -> usize {
        match self.is_linked(from, to) {
            true => window.div_ceil(WINDOW_PART),
            false => 1,
        }
    }

    /// Sends a packet of `pipes[side]` on its way, in segments.
    pub(super) fn send_by_link(&mut self, inner: &Rc<Inner>, id: u64, side: usize, packet: Packet) {
        match packet {
            Packet::Data(mut bytes) => {
                while bytes.len() > SEGMENT_BYTES {
                    let segment = Packet::Data(bytes.split_to(SEGMENT_BYTES));
                    self.enter(inner, id, side, Stage::Sending, segment);
                }
                self.enter(inner, id, side, Stage::Sending, Packet::Data(bytes));
            }
            end => self.enter(inner, id, side, Stage::Sending, end),
        }
    }

    /// A packet has come to a stage: it waits for its turn, or goes on where it takes no time.
    fn enter(&mut self, inner: &Rc<Inner>, id: u64, side: usize, stage: Stage, packet: Packet) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let end = if stage.is_near() { side } else { 1 - side };
        let node = connection.ends[end].node;
        let state = match self.links.get_mut(&node) {
            Some(state) if stage.resource() < 2 || state.link.processor > 0 => state,
            _ => return self.leave(inner, id, side, stage, packet),
        };
        let lane = &mut connection.pipes[side].lanes.stages[stage as usize];
        lane.packets.push_back(packet);
        if !std::mem::replace(&mut lane.has_turn, true) {
            let turns = &mut state.turns[stage.resource()];
            turns.pipes.push_back((id, side, stage));
        }
        self.serve(inner, node, stage.resource());
    }

    /// Begins with the next packet, if nothing is being served and something waits.
    fn serve(&mut self, inner: &Rc<Inner>, node: usize, resource: usize) {
        let Some(state) = self.links.get_mut(&node) else {
            return;
        };
        let turns = &mut state.turns[resource];
        while !turns.is_busy
            && let Some(&(id, side, stage)) = turns.pipes.front()
        {
            let lane = self
                .connections
                .get_mut(&id)
                .map(|connection| &mut connection.pipes[side].lanes.stages[stage as usize]);
            if let Some(packet) = lane.as_ref().and_then(|lane| lane.packets.front()) {
                turns.is_busy = true;
                let end = inner.executor.now() + state.link.nanos(stage, packet.bytes());
                inner.executor.at(end, move |inner| {
                    inner.net.0.borrow_mut().served(inner, node, resource);
                });
            } else {
                // The connection is over, or what waited was lost with a machine.
                turns.pipes.pop_front();
                if let Some(lane) = lane {
                    lane.has_turn = false;
                }
            }
        }
    }

    /// The packet whose turn it was is through.
    fn served(&mut self, inner: &Rc<Inner>, node: usize, resource: usize) {
        let Some(state) = self.links.get_mut(&node) else {
            return;
        };
        let turns = &mut state.turns[resource];
        turns.is_busy = false;
        let Some((id, side, stage)) = turns.pipes.pop_front() else {
            return;
        };
        let mut done = None;
        if let Some(connection) = self.connections.get_mut(&id) {
            let lane = &mut connection.pipes[side].lanes.stages[stage as usize];
            done = lane.packets.pop_front();
            lane.has_turn = !lane.packets.is_empty();
            if lane.has_turn {
                turns.pipes.push_back((id, side, stage));
            }
        }
        if let Some(packet) = done {
            self.leave(inner, id, side, stage, packet);
        }
        self.serve(inner, node, resource);
    }

    /// A packet is through a stage: it goes on to the next one, or is there.
    fn leave(&mut self, inner: &Rc<Inner>, id: u64, side: usize, stage: Stage, packet: Packet) {
        match stage {
            Stage::Sending => self.enter(inner, id, side, Stage::Out, packet),
            Stage::Out => self.travel(inner, id, side, packet),
            Stage::In => self.enter(inner, id, side, Stage::Receiving, packet),
            Stage::Receiving => {
                let Some(connection) = self.connections.get_mut(&id) else {
                    return;
                };
                let pipe = &mut connection.pipes[side];
                // Behind what was sent before there was a link.
                pipe.last_arrival = pipe.last_arrival.max(inner.executor.now());
                pipe.wire.push_back((pipe.last_arrival, packet));
                self.schedule_pump(inner, id, side);
            }
        }
    }

    fn travel(&mut self, inner: &Rc<Inner>, id: u64, side: usize, packet: Packet) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let (from, to) = (connection.ends[side].node, connection.ends[1 - side].node);
        let pace = self.paces.get(&(from, to)).unwrap_or(&self.pace);
        let arrival = inner.executor.now() + self.latency.within(pace.latency.clone());
        let lanes = &mut connection.pipes[side].lanes;
        lanes.last_travel = lanes.last_travel.max(arrival);
        lanes.travelling.push_back(packet);
        inner.executor.at(lanes.last_travel, move |inner| {
            inner.net.0.borrow_mut().travelled(inner, id, side);
        });
    }

    fn travelled(&mut self, inner: &Rc<Inner>, id: u64, side: usize) {
        let packet = self
            .connections
            .get_mut(&id)
            .and_then(|connection| connection.pipes[side].lanes.travelling.pop_front());
        if let Some(packet) = packet {
            self.enter(inner, id, side, Stage::In, packet);
        }
    }
}
