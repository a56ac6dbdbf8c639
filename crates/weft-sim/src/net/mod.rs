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
//!
//! Nodes may have links of a set rate, which all their connections share: see `links.rs`.
mod faults;
mod links;
mod state;
mod stream;

pub use faults::Network;
pub use links::Link;

use crate::driver::dead;
use crate::executor::{Mark, Sleep};
use crate::rng::Rng;
use crate::world::Inner;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use state::{Connection, End, ListenerState, Packet, Pipe, State};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::task::Waker;
use stream::{SimListener, SimStream};
use weft_env::{Listener, Stream};

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
    /// So many messages in a million take a detour, of up to 20 milliseconds. Where links are modelled none do: what
    /// is late waited for one.
    pub detours_ppm: u32,
}

impl Default for Pace {
    /// A local network: 30 to 300 microseconds, 1 GiB/s, and now and then something in the way.
    fn default() -> Pace {
        Pace {
            latency: 30_000..300_000,
            rate: 1 << 30,
            detours_ppm: 2_000,
        }
    }
}

/// The state of the network.
pub(crate) struct Net(RefCell<State>);

impl Net {
    pub(crate) fn new(seed: u64) -> Net {
        Net(RefCell::new(State {
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            cuts: BTreeSet::new(),
            paces: BTreeMap::new(),
            pace: Pace::default(),
            links: BTreeMap::new(),
            window: None,
            next_port: PORT_FIRST,
            latency: Rng::stream(seed, "latency", 0),
            chunks: Rng::stream(seed, "chunks", 0),
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
                    // As the operating system says it: a number, and no more.
                    Attempt::Refused => {
                        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
                    }
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
        let drawn = |chunks: &mut Rng| 4096usize << chunks.below(8);
        let window = state.window.unwrap_or_else(|| drawn(&mut state.chunks));
        let least_room = state.least_room(node, peer, window);
        let pipe = || Pipe {
            window,
            least_room,
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
                connection.pipes[side].wake_for_arrival(&mut wakers);
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
                        pipe.lose();
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
