//! A connection: one task that reads, dispatches and writes.
//!
//! The task takes what the socket has, handles all of it, and only then writes, so that the answers to many calls
//! leave together. It stops reading for as long as too much is unanswered or unsent. Everything else that happens to
//! a connection (an answer from another task, a call of ours) changes [`Inner`] and wakes the task.

use crate::limits::Limits;
use crate::message::{CallHeader, Credential, Header, HeaderError};
use crate::message::{arguments_of, encode_call, encode_denied};
use crate::outgoing::{Outgoing, Sent};
use crate::pool::Pool;
use crate::program::{Call, Incoming, Payload, Program, Replier};
use crate::record::{READ_BYTES, Record, RecordError, Records, Step};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use thiserror::Error;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, oneshot};
use weft_env::{Env, Mono, Stream};
use weft_xdr::rpc::{accept_stat, auth_stat, reject_stat, reply_stat};
use weft_xdr::{DecodeError, Decoder, Encoder, Procedure, Xdr};

/// A payload that has been coming for so long without its end is handed on in parts. Faster links lose little by
/// waiting for the whole, and each part costs about as much as a call.
const PART_AFTER: Duration = Duration::from_millis(2);

/// Why a call of ours has no results.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// The other side does not let this caller call.
    #[error("denied: {0:?}")]
    Denied(auth_stat),
    /// The other side speaks another version of RPC.
    #[error("the other side speaks RPC {low} to {high}")]
    RpcVersion {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// There is no such program there.
    #[error("there is no program {0}")]
    Program(u32),
    /// There are other versions of it.
    #[error("there are versions {low} to {high}")]
    Version {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// The other side did not serve it.
    #[error("not served: {0:?}")]
    Refused(accept_stat),
    /// What came is no reply, or not this procedure's results. Whether it was done is unknown.
    #[error("the reply does not decode: {0}")]
    Undecodable(#[from] DecodeError),
    /// The connection broke before the reply came: whether it was done is unknown.
    #[error("connection lost: {0}")]
    Lost(String),
}

type Answer = Result<Decoder, CallError>;

/// What every handle of a connection and its task share.
pub(crate) struct Inner {
    env: Env,
    peer: String,
    limits: Limits,
    programs: Programs,
    outgoing: RefCell<Outgoing>,
    /// Wakes callers that wait for room.
    drained: Notify,
    /// Wakes the task.
    waker: RefCell<Option<Waker>>,
    /// The task runs now, and looks at everything before it rests.
    is_running: Cell<bool>,
    unanswered: Cell<usize>,
    waiting: RefCell<BTreeMap<u32, oneshot::Sender<Answer>>>,
    next_xid: Cell<u32>,
    /// The other side owes the rest of a record.
    is_inside: Cell<bool>,
    read_at: Cell<Mono>,
    sent_at: Cell<Mono>,
    closed: RefCell<Option<String>>,
}

/// The programs that a side serves.
pub(crate) type Programs = Rc<[Rc<dyn Program>]>;

impl Inner {
    fn wake(&self) {
        if self.is_running.get() {
            return;
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Queues the answer to a call that was handed out.
    pub(crate) fn answer(&self, write: impl FnOnce(&mut Encoder)) {
        self.unanswered.set(self.unanswered.get() - 1);
        if self.closed.borrow().is_some() {
            return;
        }
        self.send(write);
    }

    fn send(&self, write: impl FnOnce(&mut Encoder)) {
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.bytes() == 0 {
            // From now on the other side has something to take.
            self.sent_at.set(self.env.now());
        }
        outgoing.record(write);
        drop(outgoing);
        self.wake();
    }

    fn unsent_bytes(&self) -> usize {
        self.outgoing.borrow().bytes()
    }

    /// Whether another call may be taken.
    fn has_room(&self) -> bool {
        self.unanswered.get() < self.limits.calls && self.unsent_bytes() <= self.limits.unsent_bytes
    }

    fn close(&self, why: &str) {
        if self.closed.borrow().is_some() {
            return;
        }
        *self.closed.borrow_mut() = Some(why.to_owned());
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for asker in waiting.into_values() {
            // Who no longer waits needs no answer.
            let _: Result<(), Answer> = asker.send(Err(CallError::Lost(why.to_owned())));
        }
        self.drained.notify_waiters();
        self.wake();
    }

    /// Who serves a version of a program.
    fn program(&self, number: u32, version: u32) -> Option<&Rc<dyn Program>> {
        let mut programs = self.programs.iter();
        programs.find(|its| its.number() == number && its.versions().contains(&version))
    }

    /// The versions of a program, from the lowest to the highest of all that serve some.
    fn versions(&self, number: u32) -> Option<RangeInclusive<u32>> {
        let programs = self.programs.iter().filter(|its| its.number() == number);
        programs
            .map(|its| its.versions())
            .reduce(|all, its| *all.start().min(its.start())..=*all.end().max(its.end()))
    }

    fn place(&self, head: &[u8]) -> Payload {
        // Any header is shorter; a record that does not show it by then gets no buffer of its own.
        let Some((program, version, procedure, at)) = arguments_of(head) else {
            return match head.len() < 1024 {
                true => Payload::More,
                false => Payload::Nowhere,
            };
        };
        let Some(program) = self.program(program, version) else {
            return Payload::Nowhere;
        };
        let Some(arguments) = head.get(at..) else {
            return Payload::More;
        };
        match program.payload(version, procedure, arguments) {
            Payload::At { start, length } => Payload::At {
                start: at.saturating_add(start),
                length,
            },
            Payload::InParts { start, length } => Payload::InParts {
                start: at.saturating_add(start),
                length,
            },
            other => other,
        }
    }
}

/// A handle on a connection. Clones share it; it stays open until one side closes it.
#[derive(Clone)]
pub struct Connection(pub(crate) Rc<Inner>);

/// Forgets a call whose future was dropped.
struct Forget<'a>(&'a Inner, u32);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.waiting.borrow_mut().remove(&self.1);
    }
}

impl Connection {
    /// Connects, and serves these programs to the other side (callbacks, mostly).
    ///
    /// # Errors
    /// As the operating system's; there is no deadline: wrap it in `Env::timeout`.
    pub async fn connect(
        env: &Env,
        address: &str,
        limits: Limits,
        programs: Vec<Rc<dyn Program>>,
    ) -> io::Result<Connection> {
        let stream = env.connect(address).await?;
        let pool = Pool::new(limits.payload_bytes);
        let scratch = Rc::new(RefCell::new(vec![0; READ_BYTES]));
        let (connection, running) =
            Running::new(env, stream, limits, programs.into(), pool, scratch);
        env.spawn("rpc connection", running.run());
        Ok(connection)
    }

    /// The other side's address.
    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    /// True once it is closed.
    pub fn is_closed(&self) -> bool {
        self.0.closed.borrow().is_some()
    }

    /// Closes it. Calls that wait end with [`CallError::Lost`].
    pub fn close(&self, why: &str) {
        self.0.close(why);
    }

    /// Calls a procedure and waits for its results.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn call<P: Procedure>(
        &self,
        credential: &Credential,
        arguments: &P::Arguments,
    ) -> Result<P::Results, CallError> {
        self.call_program::<P>(P::PROGRAM, credential, arguments)
            .await
    }

    /// As [`Connection::call`], of a program with another number: the one of an NFSv4 client's callbacks is the
    /// client's choice.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn call_program<P: Procedure>(
        &self,
        program: u32,
        credential: &Credential,
        arguments: &P::Arguments,
    ) -> Result<P::Results, CallError> {
        let inner = &self.0;
        loop {
            let drained = inner.drained.notified();
            if let Some(why) = &*inner.closed.borrow() {
                return Err(CallError::Lost(why.clone()));
            }
            if inner.unsent_bytes() <= inner.limits.unsent_bytes {
                break;
            }
            drained.await;
        }
        let xid = inner.next_xid.get();
        inner.next_xid.set(xid.wrapping_add(1));
        let (asker, answer) = oneshot::channel();
        inner.waiting.borrow_mut().insert(xid, asker);
        let _forget = Forget(inner, xid);
        inner.send(|out| {
            encode_call(xid, (program, P::VERSION, P::NUMBER), credential, out);
            P::encode_arguments(arguments, out);
        });
        let Ok(answer) = answer.await else {
            return Err(CallError::Lost("given up".into()));
        };
        let mut input = results_of(answer?, program)?;
        let results = P::decode_results(&mut input)?;
        input.finish()?;
        Ok(results)
    }

    /// Why it should be closed now, if it should.
    pub(crate) fn overdue(&self) -> Option<&'static str> {
        let inner = &self.0;
        let now = inner.env.now();
        let (read, sent) = (
            now.since(inner.read_at.get()),
            now.since(inner.sent_at.get()),
        );
        if inner.unsent_bytes() > 0 {
            return (sent > inner.limits.stall).then_some("it does not take what is sent");
        }
        if inner.is_inside.get() {
            return (read > inner.limits.stall).then_some("it stopped in the middle of a record");
        }
        let is_idle = inner.unanswered.get() == 0 && inner.waiting.borrow().is_empty();
        (is_idle && read.min(sent) > inner.limits.idle).then_some("idle")
    }
}

/// What follows a reply's header, if the call was served.
fn results_of(mut input: Decoder, program: u32) -> Result<Decoder, CallError> {
    match reply_stat::decode(&mut input)? {
        reply_stat::MSG_DENIED => Err(match reject_stat::decode(&mut input)? {
            reject_stat::AUTH_ERROR => CallError::Denied(auth_stat::decode(&mut input)?),
            reject_stat::RPC_MISMATCH => CallError::RpcVersion {
                low: input.u32()?,
                high: input.u32()?,
            },
        }),
        reply_stat::MSG_ACCEPTED => {
            let _verifier = (input.u32()?, input.opaque(400)?);
            match accept_stat::decode(&mut input)? {
                accept_stat::SUCCESS => Ok(input),
                accept_stat::PROG_UNAVAIL => Err(CallError::Program(program)),
                accept_stat::PROG_MISMATCH => Err(CallError::Version {
                    low: input.u32()?,
                    high: input.u32()?,
                }),
                other => Err(CallError::Refused(other)),
            }
        }
    }
}

fn call_of(xid: u32, header: CallHeader, arguments: Decoder) -> Call {
    Call {
        xid,
        version: header.version,
        procedure: header.procedure,
        credential: header.credential,
        arguments,
    }
}

/// A call of which the payload is coming, and its number.
type Coming = (u32, Box<dyn Incoming>);

/// Why a connection ends.
#[derive(Debug, Error)]
enum End {
    #[error("closed by the other side")]
    Closed,
    #[error("{0}")]
    Ours(String),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// The task's own part of a connection.
pub(crate) struct Running {
    inner: Rc<Inner>,
    stream: Stream,
    records: Records,
    /// The call of which the payload comes in parts.
    incoming: Option<Coming>,
    /// Since when something has come of it that was not handed on.
    part_since: Option<Mono>,
    /// Shared by all connections of a thread: one that waits keeps no buffer.
    scratch: Rc<RefCell<Vec<u8>>>,
}

impl Running {
    pub(crate) fn new(
        env: &Env,
        stream: Stream,
        limits: Limits,
        programs: Programs,
        pool: Pool,
        scratch: Rc<RefCell<Vec<u8>>>,
    ) -> (Connection, Running) {
        let inner = Rc::new(Inner {
            env: env.clone(),
            peer: stream.peer(),
            limits,
            programs,
            outgoing: RefCell::default(),
            drained: Notify::new(),
            waker: RefCell::default(),
            is_running: Cell::new(false),
            unanswered: Cell::new(0),
            waiting: RefCell::default(),
            // Not the same after a restart, when the other side may still know the old ones.
            next_xid: Cell::new(env.random() as u32),
            is_inside: Cell::new(false),
            read_at: Cell::new(env.now()),
            sent_at: Cell::new(env.now()),
            closed: RefCell::default(),
        });
        let records = Records::new(limits.record_bytes, pool);
        let connection = Connection(inner.clone());
        let running = Running {
            inner,
            stream,
            records,
            incoming: None,
            part_since: None,
            scratch,
        };
        (connection, running)
    }

    /// Runs it to its end.
    pub(crate) async fn run(mut self) {
        let end = std::future::poll_fn(|cx| self.poll(cx)).await;
        let why = end.to_string();
        match end {
            End::Closed => tracing::debug!(peer = %self.inner.peer, "rpc connection closed"),
            _ => tracing::info!(peer = %self.inner.peer, why, "rpc connection closed"),
        }
        self.inner.close(&why);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let is_known =
            matches!(&*self.inner.waker.borrow(), Some(waker) if waker.will_wake(cx.waker()));
        if !is_known {
            *self.inner.waker.borrow_mut() = Some(cx.waker().clone());
        }
        self.inner.is_running.set(true);
        let end = self.poll_work(cx);
        self.inner.is_running.set(false);
        match end {
            Ok(()) => Poll::Pending,
            Err(end) => Poll::Ready(end),
        }
    }

    /// Works until there is nothing to do but wait.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        loop {
            let wants_bytes = self.take(cx)?;
            let has_sent = self.send(cx)?;
            if let Some(why) = &*self.inner.closed.borrow() {
                return Err(End::Ours(why.clone()));
            }
            if !wants_bytes {
                if has_sent && self.inner.has_room() {
                    continue;
                }
                // It is our turn, not the other side's.
                self.inner.is_inside.set(false);
                return Ok(());
            }
            let filled = {
                let scratch = &mut *self.scratch.borrow_mut();
                self.records.poll_fill(&mut self.stream, scratch, cx)
            };
            match filled {
                Poll::Ready(Ok(true)) => {
                    let now = self.inner.env.now();
                    self.inner.read_at.set(now);
                    if self.records.takes_parts() {
                        self.part_since.get_or_insert(now);
                    }
                }
                Poll::Ready(Ok(false)) => return Err(End::Closed),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => {
                    self.inner.is_inside.set(self.records.is_inside());
                    return self.take_part();
                }
            }
        }
    }

    /// Handles the records that are there. True if more bytes are wanted, false if something else is waited for.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let inner = self.inner.clone();
        while inner.has_room() && inner.closed.borrow().is_none() {
            match self.records.next(cx, &|head| inner.place(head))? {
                Step::Record(record) => self.on_record(record)?,
                Step::Bytes => return Ok(true),
                Step::Room => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Hands on what has come of a payload that comes slowly.
    fn take_part(&mut self) -> Result<(), End> {
        let Some(head) = self.records.before_part().cloned() else {
            return Ok(());
        };
        let now = self.inner.env.now();
        if now.since(*self.part_since.get_or_insert(now)) < PART_AFTER {
            return Ok(());
        }
        self.part_since = Some(now);
        if self.incoming.is_none() {
            self.incoming = self.begin(head)?;
        }
        match &mut self.incoming {
            Some((_, incoming)) => incoming.part(self.records.take_part()),
            None => self.records.keep_whole(),
        }
        Ok(())
    }

    /// Begins the call that a record with this head is, if its program takes it so.
    fn begin(&self, head: Bytes) -> Result<Option<Coming>, End> {
        let mut arguments = Decoder::new(head);
        let Header::Call(xid, Ok(header)) = Header::decode(&mut arguments)? else {
            // It is told so when it is whole.
            return Ok(None);
        };
        let inner = &self.inner;
        let Some(program) = inner.program(header.program, header.version) else {
            return Ok(None);
        };
        let call = call_of(xid, header, arguments);
        let incoming = program.begin(&Connection(inner.clone()), call);
        Ok(incoming.map(|incoming| (xid, incoming)))
    }

    fn on_record(&mut self, record: Record) -> Result<(), End> {
        let inner = &self.inner;
        self.part_since = None;
        if let Some((xid, incoming)) = self.incoming.take() {
            inner.unanswered.set(inner.unanswered.get() + 1);
            let [_, payload, _] = record.0;
            incoming.end(payload, Replier::new(Rc::downgrade(inner), xid));
            return Ok(());
        }
        let mut arguments = Decoder::of_parts(record.0);
        let (xid, header) = match Header::decode(&mut arguments)? {
            Header::Reply(xid) => {
                // Nobody waits for it any more, perhaps.
                if let Some(asker) = inner.waiting.borrow_mut().remove(&xid) {
                    let _: Result<(), Answer> = asker.send(Ok(arguments));
                }
                return Ok(());
            }
            Header::Call(xid, header) => (xid, header),
        };
        let header = match header {
            Ok(header) => header,
            Err(denied) => {
                inner.send(|out| encode_denied(xid, denied, out));
                return Ok(());
            }
        };
        inner.unanswered.set(inner.unanswered.get() + 1);
        let replier = Replier::new(Rc::downgrade(inner), xid);
        let Some(program) = inner.program(header.program, header.version) else {
            replier.mismatch(inner.versions(header.program));
            return Ok(());
        };
        let call = call_of(xid, header, arguments);
        program.call(&Connection(inner.clone()), call, replier);
        Ok(())
    }

    /// Hands what waits to the socket. True if some of it was taken.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let stream = &mut self.stream;
        let mut has_sent = false;
        let stopped = self.inner.outgoing.borrow_mut().send(|slices| {
            match Pin::new(&mut *stream).poll_write_vectored(cx, slices) {
                Poll::Pending => Sent::No(None),
                Poll::Ready(Ok(0)) => Sent::No(Some(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    has_sent = true;
                    Sent::Bytes(bytes)
                }
                Poll::Ready(Err(error)) => Sent::No(Some(error)),
            }
        });
        if has_sent {
            self.inner.sent_at.set(self.inner.env.now());
            if self.inner.unsent_bytes() <= self.inner.limits.unsent_bytes {
                self.inner.drained.notify_waiters();
            }
        }
        match stopped {
            Some(Some(error)) => Err(RecordError::Io(error).into()),
            _ => Ok(has_sent),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The task was aborted, or the node has died: who waits must not wait for ever.
        self.inner.close("the connection's task has ended");
    }
}
