//! Connections, their pipes, and what is on the wire.

use super::Pace;
use super::links::{Lanes, LinkState};
use crate::rng::Rng;
use crate::world::Inner;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::Waker;

pub(super) enum Packet {
    Data(Bytes),
    Fin,
    Reset,
}

impl Packet {
    /// Bytes of the connection that it carries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Packet::Data(bytes) => bytes.len(),
            Packet::Fin | Packet::Reset => 0,
        }
    }
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) wire: VecDeque<(u64, Packet)>,
    /// Arrival of the last packet put on the wire.
    pub(super) last_arrival: u64,
    /// An event that will pump is scheduled.
    pub(super) pumping: bool,
    /// Met a cut or a dark host: pumped again when that ends.
    pub(super) stalled: bool,
    /// On the wire and before links.
    pub(super) wire_bytes: usize,
    /// Before links and between them, on its way to the wire.
    pub(super) lanes: Lanes,
    pub(super) received: VecDeque<Bytes>,
    pub(super) received_bytes: usize,
    /// Read, but not yet acknowledged to the sender.
    pub(super) credit: usize,
    pub(super) window: usize,
    /// What must be free of it before a writer that waits goes on.
    pub(super) least_room: usize,
    pub(super) fin_sent: bool,
    pub(super) fin: bool,
    pub(super) reset: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Pipe {
    pub(super) fn room(&self) -> usize {
        self.window
            .saturating_sub(self.wire_bytes + self.received_bytes + self.credit)
    }

    /// True if a writer that waits, and has `wanted` bytes to send, may go on.
    pub(super) fn has_room_for(&self, wanted: usize) -> bool {
        self.room() >= self.least_room.min(wanted)
    }

    /// Wakes who waits for what has come. A writer that waits for more room is left alone.
    pub(super) fn wake_for_arrival(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.reader.take());
        if self.least_room <= 1 || self.reset || self.has_room_for(usize::MAX) {
            wakers.extend(self.writer.take());
        }
    }

    /// What is on its way is lost.
    pub(super) fn lose(&mut self) {
        self.wire.clear();
        self.lanes.clear();
        self.wire_bytes = 0;
    }

    pub(super) fn wake(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.reader.take());
        wakers.extend(self.writer.take());
    }
}

pub(super) struct End {
    pub(super) node: usize,
    pub(super) address: String,
    /// The process still holds it.
    pub(super) open: bool,
    /// Its machine lost power: packets are answered by nobody, later by a reset.
    pub(super) lost: bool,
}

pub(super) struct Connection {
    pub(super) ends: [End; 2],
    /// `pipes[side]` carries what `ends[side]` writes.
    pub(super) pipes: [Pipe; 2],
}

pub(super) struct ListenerState {
    pub(super) life: u64,
    pub(super) backlog: VecDeque<u64>,
    pub(super) waker: Option<Waker>,
}

pub(super) struct State {
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) listeners: BTreeMap<(usize, u32), ListenerState>,
    /// (from, to): nothing gets through in this direction.
    pub(super) cuts: BTreeSet<(usize, usize)>,
    pub(super) paces: BTreeMap<(usize, usize), Pace>,
    pub(super) pace: Pace,
    /// By node.
    pub(super) links: BTreeMap<usize, LinkState>,
    /// Of new connections; none: drawn for each.
    pub(super) window: Option<usize>,
    pub(super) next_port: u32,
    pub(super) latency: Rng,
    pub(super) chunks: Rng,
}

impl State {
    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Nanoseconds that `bytes` take from one node to another.
    pub(super) fn delay(&mut self, from: usize, to: usize, bytes: usize) -> u64 {
        let pace = if from == to {
            // The loopback interface.
            &Pace {
                latency: 5_000..30_000,
                rate: 4 << 30,
                ..Pace::default()
            }
        } else {
            self.paces.get(&(from, to)).unwrap_or(&self.pace)
        };
        let transfer = (bytes as u64).saturating_mul(1_000_000_000) / pace.rate.max(1);
        let mut latency = self.latency.within(pace.latency.clone());
        if !self.is_linked(from, to) && self.latency.chance(pace.detours_ppm) {
            latency += self.latency.below(20_000_000);
        }
        latency + transfer
    }

    /// Puts a packet on the wire of `pipes[side]`.
    pub(super) fn send(&mut self, inner: &Rc<Inner>, id: u64, side: usize, packet: Packet) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (from, to) = (connection.ends[side].node, connection.ends[1 - side].node);
        let bytes = packet.bytes();
        if self.is_linked(from, to) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.pipes[side].wire_bytes += bytes;
            }
            return self.send_by_link(inner, id, side, packet);
        }
        let delay = self.delay(from, to, bytes);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        let arrival = (inner.executor.now() + delay).max(pipe.last_arrival);
        pipe.last_arrival = arrival;
        pipe.wire_bytes += bytes;
        pipe.wire.push_back((arrival, packet));
        self.schedule_pump(inner, id, side);
    }

    pub(super) fn schedule_pump(&mut self, inner: &Rc<Inner>, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        if pipe.pumping || pipe.stalled {
            return;
        }
        if let Some(&(arrival, _)) = pipe.wire.front() {
            pipe.pumping = true;
            inner
                .executor
                .at(arrival, move |inner| inner.net.pump(inner, id, side));
        }
    }

    /// The process lets go of its end: what it sent still arrives, then the end of the stream; or
    /// a reset, if it had not read all that had come.
    pub(super) fn close(&mut self, inner: &Rc<Inner>, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let unread = connection.pipes[1 - side].received_bytes > 0;
        let end = &mut connection.ends[side];
        if !std::mem::replace(&mut end.open, false) {
            return;
        }
        let incoming = &mut connection.pipes[1 - side];
        incoming.received.clear();
        incoming.received_bytes = 0;
        if unread {
            self.send(inner, id, side, Packet::Reset);
        } else if !connection.pipes[side].fin_sent {
            connection.pipes[side].fin_sent = true;
            self.send(inner, id, side, Packet::Fin);
        }
        self.forget_if_over(id);
    }

    /// Forgets a connection that no process can see any more.
    pub(super) fn forget_if_over(&mut self, id: u64) {
        if let Some(connection) = self.connections.get(&id)
            && connection.ends.iter().all(|end| !end.open)
        {
            self.connections.remove(&id);
        }
    }
}
