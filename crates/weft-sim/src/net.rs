//! The network: byte streams with delays, bounded buffers, cuts and resets.
//!
//! A connection is two pipes, one for each direction. What is written goes on the wire in pieces
//! with an arrival time (in order within a pipe), then into the receiver's buffer, from which reads
//! take pieces of random length. What is unread or on the wire counts against the pipe's window: a
//! writer that is ahead waits, as under TCP.
//!
//! A cut holds what is on the wire (TCP sends it again until it arrives) and keeps connects
//! waiting; after the cut everything arrives, late. In a one-way cut the other direction still
//! carries data, but what is read is no longer acknowledged, so its window fills up.

use crate::driver::dead;
use crate::executor::{Mark, Sleep};
use crate::rng::Rng;
use crate::world::Inner;
use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_env::{Listener, ListenerDriver, Stream, StreamDriver};

/// Connections that wait for an accept before further ones must wait outside.
const BACKLOG: usize = 128;
/// A connect gives up after this long (Linux: about 130 s).
const CONNECT_PATIENCE_NANOS: u64 = 130_000_000_000;
/// Within this time after a cut heals, TCP sends again what it holds.
const RESEND_NANOS: Range<u64> = 1_000_000..250_000_000;
/// Time between two tries of a connect that gets no answer.
const CONNECT_RETRY_NANOS: Range<u64> = 200_000_000..1_000_000_000;
/// First port given for port 0.
const PORT_FIRST: u32 = 32_768;

/// How quick a link is.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Nanoseconds on the way.
    pub latency: Range<u64>,
    /// Bytes per second.
    pub rate: u64,
}

impl Default for Pace {
    /// A local network: 30 to 300 microseconds, 1 GiB/s.
    fn default() -> Pace {
        Pace {
            latency: 30_000..300_000,
            rate: 1 << 30,
        }
    }
}

enum Packet {
    Data(Bytes),
    Fin,
    Reset,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    wire: VecDeque<(u64, Packet)>,
    /// Arrival of the last packet put on the wire.
    last_arrival: u64,
    /// An event that will pump is scheduled.
    pumping: bool,
    /// Met a cut or a dark host: pumped again when that ends.
    stalled: bool,
    wire_bytes: usize,
    received: VecDeque<Bytes>,
    received_bytes: usize,
    /// Read, but not yet acknowledged to the sender.
    credit: usize,
    window: usize,
    fin_sent: bool,
    fin: bool,
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn room(&self) -> usize {
        self.window
            .saturating_sub(self.wire_bytes + self.received_bytes + self.credit)
    }

    fn wake(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.reader.take());
        wakers.extend(self.writer.take());
    }
}

struct End {
    node: usize,
    address: String,
    /// The process still holds it.
    open: bool,
    /// Its machine lost power: packets are answered by nobody, later by a reset.
    lost: bool,
}

struct Connection {
    ends: [End; 2],
    /// `pipes[side]` carries what `ends[side]` writes.
    pipes: [Pipe; 2],
}

struct ListenerState {
    life: u64,
    backlog: VecDeque<u64>,
    waker: Option<Waker>,
}

/// The state of the network.
pub(crate) struct Net(RefCell<State>);

struct State {
    connections: BTreeMap<u64, Connection>,
    listeners: BTreeMap<(usize, u32), ListenerState>,
    /// (from, to): nothing gets through in this direction.
    cuts: BTreeSet<(usize, usize)>,
    paces: BTreeMap<(usize, usize), Pace>,
    pace: Pace,
    next_port: u32,
    latency: Rng,
    chunks: Rng,
    /// One message in a million that takes a detour.
    detour_ppm: u32,
}

impl Net {
    pub(crate) fn new(seed: u64) -> Net {
        Net(RefCell::new(State {
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            cuts: BTreeSet::new(),
            paces: BTreeMap::new(),
            pace: Pace::default(),
            next_port: PORT_FIRST,
            latency: Rng::stream(seed, "latency", 0),
            chunks: Rng::stream(seed, "chunks", 0),
            detour_ppm: 2_000,
        }))
    }

    pub(crate) fn listen(
        &self,
        inner: &Rc<Inner>,
        node: usize,
        life: u64,
        address: &str,
    ) -> io::Result<Listener> {
        let (host, port) = split(address)?;
        if resolve(inner, node, host) != Some(node) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut state = self.0.borrow_mut();
        let port = if port == 0 {
            state.next_port += 1;
            state.next_port
        } else {
            port
        };
        if state.listeners.contains_key(&(node, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listener = ListenerState {
            life,
            backlog: VecDeque::new(),
            waker: None,
        };
        state.listeners.insert((node, port), listener);
        Ok(Box::new(SimListener {
            inner: Rc::downgrade(inner),
            node,
            life,
            port,
            address: format!("{}:{port}", inner.node_name(node)),
        }))
    }

    pub(crate) fn connect(
        &self,
        inner: &Rc<Inner>,
        node: usize,
        life: u64,
        address: String,
    ) -> LocalBoxFuture<'static, io::Result<Stream>> {
        let inner = Rc::downgrade(inner);
        async move {
            let begun = world(&inner)?.executor.now();
            loop {
                let (pause, attempt) = {
                    let inner = world(&inner)?;
                    inner.net.try_connect(&inner, node, life, &address)?
                };
                let sleep = Sleep::exactly(&world(&inner)?, pause);
                sleep.await;
                let inner = world(&inner)?;
                match attempt {
                    Attempt::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
                    Attempt::Silence => {
                        if inner.executor.now() - begun > CONNECT_PATIENCE_NANOS {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                    }
                    Attempt::Made(stream) => return Ok(Box::new(stream) as Stream),
                }
            }
        }
        .boxed_local()
    }

    /// One SYN: how long until the side that connects knows, and what it then knows.
    fn try_connect(
        &self,
        inner: &Rc<Inner>,
        node: usize,
        life: u64,
        address: &str,
    ) -> io::Result<(u64, Attempt)> {
        let (host, port) = split(address)?;
        let Some(peer) = resolve(inner, node, host) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no such host: {host}"),
            ));
        };
        let powered = inner.nodes.borrow()[peer].powered;
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let silence = state.latency.within(CONNECT_RETRY_NANOS);
        if !powered || state.is_cut(node, peer) || state.is_cut(peer, node) {
            return Ok((silence, Attempt::Silence));
        }
        let there = state.delay(node, peer, 64) + state.delay(peer, node, 64);
        let Some(listener) = state.listeners.get_mut(&(peer, port)) else {
            return Ok((there, Attempt::Refused));
        };
        if listener.backlog.len() >= BACKLOG {
            return Ok((silence, Attempt::Silence));
        }
        let id = inner.executor.take_id();
        inner.executor.mark(Mark::Connect, node, id);
        listener.backlog.push_back(id);
        let waker = listener.waker.take();
        state.next_port += 1;
        let end = |node: usize, port: u32| End {
            node,
            address: format!("{}:{port}", inner.node_name(node)),
            open: true,
            lost: false,
        };
        // Any window is allowed; small ones show what waits for room.
        let window = 4096usize << state.chunks.below(8);
        let pipe = || Pipe {
            window,
            ..Pipe::default()
        };
        let connection = Connection {
            ends: [end(node, state.next_port), end(peer, port)],
            pipes: [pipe(), pipe()],
        };
        state.connections.insert(id, connection);
        if let Some(waker) = waker {
            waker.wake();
        }
        let stream = SimStream {
            inner: Rc::downgrade(inner),
            id,
            side: 0,
            node,
            life,
        };
        Ok((there, Attempt::Made(stream)))
    }

    /// Packets of `pipes[side]` that have arrived are delivered.
    fn pump(&self, inner: &Rc<Inner>, id: u64, side: usize) {
        let mut wakers = Vec::new();
        {
            let mut state = self.0.borrow_mut();
            let state = &mut *state;
            let Some(connection) = state.connections.get_mut(&id) else {
                return;
            };
            let (from, to) = (connection.ends[side].node, connection.ends[1 - side].node);
            connection.pipes[side].pumping = false;
            let dark = !inner.nodes.borrow()[to].powered;
            if dark || state.cuts.contains(&(from, to)) {
                connection.pipes[side].stalled = true;
                return;
            }
            let now = inner.executor.now();
            let mut answer_reset = false;
            while let Some((arrival, _)) = connection.pipes[side].wire.front()
                && *arrival <= now
            {
                let receiver = &connection.ends[1 - side];
                let gone = !receiver.open || receiver.lost;
                let pipe = &mut connection.pipes[side];
                let Some((_, packet)) = pipe.wire.pop_front() else {
                    break;
                };
                match packet {
                    Packet::Data(bytes) => {
                        inner.executor.mark(Mark::Deliver, to, id);
                        inner.executor.mark(Mark::Deliver, to, bytes.len() as u64);
                        pipe.wire_bytes -= bytes.len();
                        if gone {
                            answer_reset = true;
                        } else {
                            pipe.received_bytes += bytes.len();
                            pipe.received.push_back(bytes);
                        }
                    }
                    Packet::Fin => pipe.fin = true,
                    Packet::Reset => {
                        inner.executor.mark(Mark::Reset, to, id);
                        pipe.reset = true;
                        // Whoever got a reset cannot write any more either.
                        connection.pipes[1 - side].reset = true;
                        connection.pipes[1 - side].wake(&mut wakers);
                    }
                }
                connection.pipes[side].wake(&mut wakers);
            }
            if answer_reset {
                state.send(inner, id, 1 - side, Packet::Reset);
            }
            state.schedule_pump(inner, id, side);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells the pipes that were held by a cut or a dark host to try again.
    fn resume_stalled(&self, inner: &Rc<Inner>) {
        let mut wakers = Vec::new();
        {
            let mut state = self.0.borrow_mut();
            let state = &mut *state;
            for (&id, connection) in &mut state.connections {
                for side in 0..2 {
                    let ends = (connection.ends[side].node, connection.ends[1 - side].node);
                    let pipe = &mut connection.pipes[side];
                    if !state.cuts.contains(&(ends.1, ends.0)) && pipe.credit > 0 {
                        pipe.credit = 0;
                        wakers.extend(pipe.writer.take());
                    }
                    if pipe.stalled && !pipe.pumping && !state.cuts.contains(&ends) {
                        pipe.stalled = false;
                        pipe.pumping = true;
                        let at = inner.executor.now() + state.latency.within(RESEND_NANOS);
                        inner
                            .executor
                            .at(at, move |inner| inner.net.pump(inner, id, side));
                    }
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A machine has power again: it answers what belongs to its former life with resets.
    pub(crate) fn host_is_back(&self, inner: &Rc<Inner>, _node: usize) {
        self.resume_stalled(inner);
    }

    /// Closes everything that a dead process had open. With the machine still powered, its kernel
    /// tells the peers.
    pub(crate) fn process_died(&self, inner: &Rc<Inner>, node: usize, powered: bool) {
        let mut wakers = Vec::new();
        {
            let mut state = self.0.borrow_mut();
            let state = &mut *state;
            state.listeners.retain(|&(host, _), _| host != node);
            let ids: Vec<u64> = state.connections.keys().copied().collect();
            for id in ids {
                for side in 0..2 {
                    let Some(connection) = state.connections.get_mut(&id) else {
                        break;
                    };
                    let end = &mut connection.ends[side];
                    if end.node != node || end.lost {
                        continue;
                    }
                    if powered {
                        if end.open {
                            state.close(inner, id, side);
                        }
                    } else {
                        // Also ends that were closed: their packets are lost with the machine.
                        end.lost = true;
                        end.open = false;
                        let pipe = &mut connection.pipes[side];
                        pipe.wire.clear();
                        pipe.wire_bytes = 0;
                        pipe.wake(&mut wakers);
                    }
                    state.forget_if_over(id);
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

enum Attempt {
    Refused,
    Silence,
    Made(SimStream),
}

impl State {
    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Nanoseconds that `bytes` take from one node to another.
    fn delay(&mut self, from: usize, to: usize, bytes: usize) -> u64 {
        let pace = if from == to {
            // The loopback interface.
            &Pace {
                latency: 5_000..30_000,
                rate: 4 << 30,
            }
        } else {
            self.paces.get(&(from, to)).unwrap_or(&self.pace)
        };
        let transfer = (bytes as u64).saturating_mul(1_000_000_000) / pace.rate.max(1);
        let mut latency = self.latency.within(pace.latency.clone());
        if self.latency.chance(self.detour_ppm) {
            latency += self.latency.below(20_000_000);
        }
        latency + transfer
    }

    /// Puts a packet on the wire of `pipes[side]`.
    fn send(&mut self, inner: &Rc<Inner>, id: u64, side: usize, packet: Packet) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (from, to) = (connection.ends[side].node, connection.ends[1 - side].node);
        let bytes = match &packet {
            Packet::Data(bytes) => bytes.len(),
            Packet::Fin | Packet::Reset => 0,
        };
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

    fn schedule_pump(&mut self, inner: &Rc<Inner>, id: u64, side: usize) {
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
    fn close(&mut self, inner: &Rc<Inner>, id: u64, side: usize) {
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
    fn forget_if_over(&mut self, id: u64) {
        if let Some(connection) = self.connections.get(&id)
            && connection.ends.iter().all(|end| !end.open)
        {
            self.connections.remove(&id);
        }
    }
}

fn world(inner: &Weak<Inner>) -> io::Result<Rc<Inner>> {
    inner.upgrade().ok_or_else(dead)
}

fn split(address: &str) -> io::Result<(&str, u32)> {
    address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u32>().ok()?)))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address:?} is not host:port"),
            )
        })
}

/// The node that `host` names for a process on `node`.
fn resolve(inner: &Inner, node: usize, host: &str) -> Option<usize> {
    match host {
        "127.0.0.1" | "localhost" | "0.0.0.0" | "[::]" | "[::1]" | "" => Some(node),
        name => inner.find_node(name),
    }
}

struct SimListener {
    inner: Weak<Inner>,
    node: usize,
    life: u64,
    port: u32,
    address: String,
}

impl ListenerDriver for SimListener {
    fn accept(&mut self) -> LocalBoxFuture<'_, io::Result<Stream>> {
        std::future::poll_fn(|cx| {
            let inner = world(&self.inner)?;
            let mut state = inner.net.0.borrow_mut();
            let state = &mut *state;
            let key = (self.node, self.port);
            let Some(listener) = state.listeners.get_mut(&key) else {
                return Poll::Ready(Err(dead()));
            };
            if listener.life != self.life {
                return Poll::Ready(Err(dead()));
            }
            match listener.backlog.pop_front() {
                Some(id) => Poll::Ready(Ok(Box::new(SimStream {
                    inner: self.inner.clone(),
                    id,
                    side: 1,
                    node: self.node,
                    life: self.life,
                }) as Stream)),
                None => {
                    listener.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .boxed_local()
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        let mut state = inner.net.0.borrow_mut();
        let key = (self.node, self.port);
        if state
            .listeners
            .get(&key)
            .is_some_and(|listener| listener.life == self.life)
            && let Some(listener) = state.listeners.remove(&key)
        {
            for id in listener.backlog {
                state.close(&inner, id, 1);
            }
        }
    }
}

struct SimStream {
    inner: Weak<Inner>,
    id: u64,
    side: usize,
    node: usize,
    life: u64,
}

impl SimStream {
    fn living(&self) -> io::Result<Rc<Inner>> {
        match self.inner.upgrade() {
            Some(inner) if inner.is_alive(self.node, self.life) => Ok(inner),
            _ => Err(dead()),
        }
    }
}

impl StreamDriver for SimStream {
    fn peer(&self) -> String {
        let Some(inner) = self.inner.upgrade() else {
            return String::new();
        };
        let state = inner.net.0.borrow();
        state
            .connections
            .get(&self.id)
            .map_or_else(String::new, |connection| {
                connection.ends[1 - self.side].address.clone()
            })
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let incoming = 1 - self.side;
        let reader = connection.ends[self.side].node;
        let writer = connection.ends[incoming].node;
        let pipe = &mut connection.pipes[incoming];
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if pipe.received_bytes == 0 {
            if pipe.reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if pipe.fin {
                return Poll::Ready(Ok(()));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let most = buffer.remaining().min(pipe.received_bytes);
        // Mostly all that there is; sometimes less, cut anywhere.
        let mut take = if state.chunks.once_in(4) {
            1 + state.chunks.below(most as u64) as usize
        } else {
            most
        };
        pipe.received_bytes -= take;
        if state.cuts.contains(&(reader, writer)) {
            pipe.credit += take;
        } else {
            // A waiting writer is told at once: the acknowledgement's way back is part of the
            // latency that its next packet gets.
            if let Some(waker) = pipe.writer.take() {
                waker.wake();
            }
        }
        while take > 0 {
            let Some(first) = pipe.received.front_mut() else {
                break;
            };
            let part = take.min(first.len());
            buffer.put_slice(&first[..part]);
            first.advance(part);
            take -= part;
            if first.is_empty() {
                pipe.received.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let pipe = &mut connection.pipes[self.side];
        if pipe.reset || pipe.fin_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        let room = pipe.room();
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let most = total.min(room);
        let take = if state.chunks.once_in(8) {
            1 + state.chunks.below(most as u64) as usize
        } else {
            most
        };
        let mut data = Vec::with_capacity(take);
        for buffer in buffers {
            let part = buffer.len().min(take - data.len());
            data.extend_from_slice(&buffer[..part]);
        }
        state.send(&inner, self.id, self.side, Packet::Data(data.into()));
        Poll::Ready(Ok(take))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        if let Some(connection) = state.connections.get_mut(&self.id)
            && !connection.pipes[self.side].fin_sent
        {
            connection.pipes[self.side].fin_sent = true;
            state.send(&inner, self.id, self.side, Packet::Fin);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // What a dead process held has been closed by its death.
        if let Ok(inner) = self.living() {
            inner.net.0.borrow_mut().close(&inner, self.id, self.side);
        }
    }
}

/// The network's faults. Nodes are named as in [`crate::World::node`].
#[derive(Clone)]
pub struct Network(pub(crate) Rc<Inner>);

impl Network {
    fn index(&self, name: &str) -> usize {
        match self.0.find_node(name) {
            Some(index) => index,
            None => panic!("no node is called {name:?}"),
        }
    }

    /// Nothing gets through between `a` and `b`.
    pub fn cut(&self, a: &str, b: &str) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Nothing gets through from `from` to `to`; the other direction works.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        let (from, to) = (self.index(from), self.index(to));
        self.0
            .executor
            .mark(Mark::Fault, from, 0x100 + ((to as u64) << 16));
        if from != to {
            self.0.net.0.borrow_mut().cuts.insert((from, to));
        }
    }

    /// Cuts `name` off from every other node there is.
    pub fn isolate(&self, name: &str) {
        let others: Vec<String> = (0..self.0.nodes.borrow().len())
            .map(|index| self.0.node_name(index).to_string())
            .filter(|other| other != name)
            .collect();
        for other in others {
            self.cut(name, &other);
        }
    }

    /// Ends the cuts between `a` and `b`.
    pub fn heal_between(&self, a: &str, b: &str) {
        let (a, b) = (self.index(a), self.index(b));
        self.0.executor.mark(Mark::Fault, a, 0x101);
        {
            let mut state = self.0.net.0.borrow_mut();
            state.cuts.remove(&(a, b));
            state.cuts.remove(&(b, a));
        }
        self.0.net.resume_stalled(&self.0);
    }

    /// Ends all cuts and slow links.
    pub fn heal(&self) {
        self.0.executor.mark(Mark::Fault, 0, 0x102);
        {
            let mut state = self.0.net.0.borrow_mut();
            state.cuts.clear();
            state.paces.clear();
        }
        self.0.net.resume_stalled(&self.0);
    }

    /// The pace from `from` to `to` (one direction) from now on.
    pub fn set_pace(&self, from: &str, to: &str, pace: Pace) {
        let key = (self.index(from), self.index(to));
        self.0.executor.mark(Mark::Fault, key.0, 0x103);
        self.0.net.0.borrow_mut().paces.insert(key, pace);
    }

    /// The pace of all links that have none of their own.
    pub fn set_default_pace(&self, pace: Pace) {
        self.0.net.0.borrow_mut().pace = pace;
    }

    /// True if there is a cut, or a link that is not at its usual pace, between `a` and `b`.
    pub fn is_disturbed(&self, a: &str, b: &str) -> bool {
        let (a, b) = (self.index(a), self.index(b));
        let state = self.0.net.0.borrow();
        [(a, b), (b, a)]
            .iter()
            .any(|link| state.cuts.contains(link) || state.paces.contains_key(link))
    }

    /// The usual pace again from `from` to `to`.
    pub fn clear_pace(&self, from: &str, to: &str) {
        let key = (self.index(from), self.index(to));
        self.0.executor.mark(Mark::Fault, key.0, 0x105);
        self.0.net.0.borrow_mut().paces.remove(&key);
    }

    /// Breaks all connections between `a` and `b` at once: both sides get a reset.
    pub fn reset(&self, a: &str, b: &str) {
        let (a, b) = (self.index(a), self.index(b));
        self.0.executor.mark(Mark::Fault, a, 0x104);
        let mut wakers = Vec::new();
        for connection in self.0.net.0.borrow_mut().connections.values_mut() {
            let nodes = (connection.ends[0].node, connection.ends[1].node);
            if nodes == (a, b) || nodes == (b, a) {
                for pipe in &mut connection.pipes {
                    pipe.reset = true;
                    pipe.wire.clear();
                    pipe.wire_bytes = 0;
                    pipe.wake(&mut wakers);
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Connections that a process still holds an end of.
    pub fn connections(&self) -> usize {
        self.0.net.0.borrow().connections.len()
    }
}
