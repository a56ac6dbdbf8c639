//! One connection: frames in and out, calls waiting for their answers.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use weft_env::{Env, Mono, Stream};
use weft_types::FixedMap;
use weft_wire::proto::{Failure, Identity, PingReply, PingRequest};
use weft_wire::{Failed, FrameError, HEADER_BYTES, Header, Kind, Rpc};

/// Bytes that may wait to be sent before callers of [`Connection::call`] wait too. Several of the
/// largest frames fit, so that the socket never runs dry between two of them.
const OUTGOING_BYTES_MAX: usize = 16 << 20;
/// What the reader asks the socket for at a time: many small frames come in one call, and little of
/// a large payload has to be copied out of it.
const READ_BUFFER_BYTES: usize = 32 << 10;
/// With less room than this in the buffer it is made larger, or begun anew, before the socket is asked.
const READ_ROOM_BYTES: usize = 4 << 10;
/// What is no longer than this is copied out of the buffer, which is used again at once. A slice would keep all
/// of the buffer for as long as somebody keeps the slice: a name in a batch that waits, say, 32 KiB.
const COPIED_BYTES_MAX: usize = 8 << 10;
/// Slices handed to the socket in one call (Linux takes up to 1024).
const SLICES_MAX: usize = 64;

/// Who waits on a silent connection asks so often within the patience whether anybody is there.
const PINGS: u32 = 5;

/// Raw bytes beside a message. They are sent without being joined or copied.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    parts: Vec<Bytes>,
    crc: Option<u32>,
}

impl Payload {
    /// No bytes.
    pub fn none() -> Payload {
        Payload::default()
    }

    /// Several parts, sent one after the other.
    pub fn parts(parts: Vec<Bytes>) -> Payload {
        Payload { parts, crc: None }
    }

    /// Several parts whose CRC-32C (of all, joined) is known already.
    pub fn parts_summed(parts: Vec<Bytes>, crc: u32) -> Payload {
        Payload {
            parts,
            crc: Some(crc),
        }
    }

    /// Bytes whose CRC-32C is known already (as when they are forwarded).
    pub fn summed(bytes: Bytes, crc: u32) -> Payload {
        Payload {
            parts: vec![bytes],
            crc: Some(crc),
        }
    }

    fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    fn crc(&self) -> u32 {
        self.crc.unwrap_or_else(|| {
            self.parts
                .iter()
                .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
        })
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload {
            parts: vec![bytes],
            crc: None,
        }
    }
}

/// Why a call has no reply.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// The other side answered that it did not do it.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The connection broke before the answer came: whether it was done is unknown.
    #[error("connection lost: {0}")]
    Lost(String),
}

/// Called with each request of the other side, in order of arrival, on the connection's reading
/// task. It must not wait: it answers at once or hands the request to a task.
pub type Handler = Rc<dyn Fn(&Connection, Request)>;

/// A request of the other side.
pub struct Request {
    /// Which message it is.
    pub method: u16,
    /// The encoded message.
    pub message: Bytes,
    /// Bytes beside the message, verified.
    pub payload: Bytes,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// Takes the answer.
    pub replier: Replier,
}

impl Request {
    /// The message as `R`, or an answer that it does not decode.
    ///
    /// # Errors
    /// [`Failed::Refused`] for bytes that are no `R`.
    pub fn decode<R: Rpc>(&self) -> Result<R, Failed> {
        R::decode(self.message.clone())
            .map_err(|_| Failed::Refused(format!("a {} does not decode", R::NAME)))
    }
}

/// Says whether answers may leave now.
pub trait Gate {
    /// They may.
    fn is_open(&self) -> bool;
    /// They may not: keeps this one, and calls it when they may, or drops it.
    fn hold(&self, answer: Box<dyn FnOnce()>);
}

/// Answers one request. Dropping it unanswered answers `Unavailable`.
pub struct Replier {
    // Weak: a request that waits for long does not keep a dead connection's state.
    connection: Weak<Inner>,
    // None: one-way, or answered.
    request_id: Option<u64>,
    method: u16,
    gate: Option<Rc<dyn Gate>>,
}

impl Replier {
    /// The same, but its answer leaves when the gate is open.
    #[must_use]
    pub fn through(mut self, gate: Rc<dyn Gate>) -> Replier {
        self.gate = Some(gate);
        self
    }

    /// Answers with `R`'s reply.
    pub fn send<R: Rpc>(mut self, reply: &R::Reply, payload: impl Into<Payload>) {
        debug_assert_eq!(R::METHOD, self.method, "the reply of another request");
        self.answer(Kind::Response, reply.encode_to_vec(), payload.into());
    }

    /// Answers that it was not done.
    pub fn fail(mut self, failed: Failed) {
        self.answer(
            Kind::Failure,
            Failure::from(failed).encode_to_vec(),
            Payload::none(),
        );
    }

    fn answer(&mut self, kind: Kind, message: Vec<u8>, payload: Payload) {
        let Some(request_id) = self.request_id.take() else {
            return;
        };
        let (connection, method) = (self.connection.clone(), self.method);
        let leave = move || {
            if let Some(inner) = connection.upgrade() {
                inner.enqueue(kind, method, request_id, message, payload);
            }
        };
        match self.gate.take() {
            Some(gate) if !gate.is_open() => gate.hold(Box::new(leave)),
            _ => leave(),
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        let failed = Failed::Unavailable("the server gave the request up".into());
        self.answer(
            Kind::Failure,
            Failure::from(failed).encode_to_vec(),
            Payload::none(),
        );
    }
}

type Answer = Result<(Bytes, Bytes), CallError>;

/// Who gets an answer.
enum Asker {
    /// A task that waits.
    Task(oneshot::Sender<Answer>),
    /// Called when the answer is read, if it ever is.
    Reader(Box<dyn FnOnce(Answer)>),
}

fn decoded<R: Rpc>(answer: Answer) -> Result<(R::Reply, Bytes), CallError> {
    let (message, payload) = answer?;
    match R::Reply::decode(message) {
        Ok(reply) => Ok((reply, payload)),
        Err(_) => Err(Failed::Refused(format!("the reply to {} does not decode", R::NAME)).into()),
    }
}

thread_local! {
    static NEXT_NUMBER: Cell<u64> = const { Cell::new(1) };
}

/// When there was a sign of the other side's life: a byte of its, or that it took bytes for which
/// there had been no room on the way. That bytes find room says nothing.
pub(crate) struct Progress {
    env: Env,
    at: Cell<Mono>,
    /// The same without what a ping and its answer are.
    moved: Cell<Mono>,
}

impl Progress {
    pub(crate) fn new(env: &Env) -> Rc<Progress> {
        Rc::new(Progress {
            env: env.clone(),
            at: Cell::new(env.now()),
            moved: Cell::new(env.now()),
        })
    }

    fn made(&self) {
        self.at.set(self.env.now());
    }

    fn moved(&self) {
        self.made();
        self.moved.set(self.at.get());
    }
}

struct Inner {
    number: u64,
    peer: String,
    identity: RefCell<Identity>,
    progress: Rc<Progress>,
    /// When it was asked last whether anybody is there.
    pinged: Cell<Mono>,
    next_id: Cell<u64>,
    waiting: RefCell<FixedMap<u64, Asker>>,
    /// Wakes who waits for somebody to wait.
    owing: Notify,
    /// Answers handed to tasks that have not run since.
    untaken: Cell<usize>,
    /// Wakes who waits for that.
    taken: Notify,
    outgoing: RefCell<VecDeque<Bytes>>,
    outgoing_bytes: Cell<usize>,
    /// Wakes the writer.
    filled: Notify,
    /// Wakes callers that wait for room.
    drained: Notify,
    /// Why the connection is closed; set once.
    closed: RefCell<Option<String>>,
    closing: Notify,
    /// The other side, or its kernel, ended it.
    ended_by_peer: Cell<bool>,
}

impl Inner {
    fn enqueue(&self, kind: Kind, method: u16, id: u64, message: Vec<u8>, payload: Payload) {
        if self.closed.borrow().is_some() {
            return;
        }
        let payload_bytes = payload.len();
        assert!(
            payload_bytes <= weft_wire::frame::PAYLOAD_MAX
                && message.len() <= weft_wire::frame::MESSAGE_MAX,
            "a frame of ours is longer than frames may be: {} + {payload_bytes}",
            message.len()
        );
        let crc = if payload_bytes == 0 { 0 } else { payload.crc() };
        let header = Header::encode(kind, method, id, &message, payload_bytes as u32, crc);
        let mut head = Vec::with_capacity(HEADER_BYTES + message.len());
        head.extend_from_slice(&header);
        head.extend_from_slice(&message);
        self.outgoing_bytes
            .set(self.outgoing_bytes.get() + head.len() + payload_bytes);
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.push_back(head.into());
        outgoing.extend(payload.parts.into_iter().filter(|part| !part.is_empty()));
        drop(outgoing);
        self.filled.notify_one();
    }

    /// Notes the end of the stream: the other side, or its kernel when the process was gone, has said
    /// that nothing more comes. A reset is not that: anything between the two may send one.
    fn note_end(&self, error: Option<&io::Error>) {
        let ends = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
        if self.closed.borrow().is_none() && error.is_none_or(ends) {
            self.ended_by_peer.set(true);
        }
    }

    fn close(&self, why: &str) {
        if self.closed.borrow().is_some() {
            return;
        }
        *self.closed.borrow_mut() = Some(why.to_owned());
        self.outgoing.borrow_mut().clear();
        let mut waiting: Vec<_> = std::mem::take(&mut *self.waiting.borrow_mut())
            .into_iter()
            .collect();
        waiting.sort_by_key(|(id, _)| *id);
        for (_, asker) in waiting {
            if let Asker::Task(sender) = asker {
                // A caller that no longer waits needs no answer.
                let _: Result<(), Answer> = sender.send(Err(CallError::Lost(why.to_owned())));
            }
        }
        self.closing.notify_waiters();
        self.filled.notify_one();
        self.drained.notify_waiters();
    }
}

/// A handle on a connection. Clones share it; it stays open until one side closes it.
#[derive(Clone)]
pub struct Connection(Rc<Inner>);

/// Forgets a call whose future was dropped.
struct Forget<'a>(&'a Inner, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let was_waiting = self.0.waiting.borrow_mut().remove(&self.1).is_some();
        if !was_waiting {
            // Answered, or lost with the connection, when nobody counts any more.
            self.0.untaken.set(self.0.untaken.get().saturating_sub(1));
            self.0.taken.notify_waiters();
        }
    }
}

impl Connection {
    /// Takes over a stream after its handshake.
    pub(crate) fn start(
        env: &Env,
        peer: String,
        identity: Identity,
        reader: FrameReader,
        writer: WriteHalf<Stream>,
        handler: Handler,
    ) -> Connection {
        let inner = Rc::new(Inner {
            number: NEXT_NUMBER.replace(NEXT_NUMBER.get() + 1),
            peer,
            identity: RefCell::new(identity),
            progress: reader.progress.clone(),
            pinged: Cell::new(env.now()),
            next_id: Cell::new(1),
            waiting: RefCell::default(),
            owing: Notify::new(),
            untaken: Cell::new(0),
            taken: Notify::new(),
            outgoing: RefCell::default(),
            outgoing_bytes: Cell::new(0),
            filled: Notify::new(),
            drained: Notify::new(),
            closed: RefCell::default(),
            closing: Notify::new(),
            ended_by_peer: Cell::new(false),
        });
        let connection = Connection(inner.clone());
        let read_side = connection.clone();
        env.spawn("connection reader", async move {
            let reading = read_frames(&read_side, reader, handler);
            let closing = read_side.0.closing.notified();
            let why = match futures_util::future::select(
                std::pin::pin!(reading),
                std::pin::pin!(closing),
            )
            .await
            {
                futures_util::future::Either::Left((Ok(()), _)) => {
                    read_side.0.note_end(None);
                    "closed by the other side".into()
                }
                futures_util::future::Either::Left((Err(error), _)) => {
                    if let ReadError::Io(error) = &error {
                        read_side.0.note_end(Some(error));
                    }
                    error.to_string()
                }
                futures_util::future::Either::Right(_) => return,
            };
            read_side.0.close(&why);
        });
        env.spawn("connection writer", async move {
            if let Err(error) = write_frames(&inner, writer).await {
                inner.note_end(Some(&error));
                inner.close(&error.to_string());
            }
        });
        connection
    }

    /// Sends a request and waits for its reply and payload.
    ///
    /// # Errors
    /// [`CallError::Failed`] if the other side refused; [`CallError::Lost`] if the connection broke
    /// first, when nobody knows whether it was done.
    pub async fn call<R: Rpc>(
        &self,
        request: &R,
        payload: impl Into<Payload>,
    ) -> Result<(R::Reply, Bytes), CallError> {
        while self.0.outgoing_bytes.get() > OUTGOING_BYTES_MAX {
            let drained = self.0.drained.notified();
            if let Some(why) = &*self.0.closed.borrow() {
                return Err(CallError::Lost(why.clone()));
            }
            drained.await;
        }
        decoded::<R>(self.call_now(request, payload.into())?.await)
    }

    /// Sends a request at once and returns. `then` is called with the answer when that is read, and so
    /// before any request is handled that the other side sent after it: a task that waits in
    /// [`Connection::call`] may run later than that. If the connection breaks first, or is broken,
    /// `then` is never called.
    pub fn call_in_order<R: Rpc>(
        &self,
        request: &R,
        then: impl FnOnce(Result<(R::Reply, Bytes), CallError>) + 'static,
    ) {
        if !self.is_open() {
            return;
        }
        let asker = Asker::Reader(Box::new(move |answer| then(decoded::<R>(answer))));
        self.ask(request, Payload::none(), asker);
    }

    fn call_now<R: Rpc>(
        &self,
        request: &R,
        payload: Payload,
    ) -> Result<impl Future<Output = Answer> + '_, CallError> {
        if let Some(why) = &*self.0.closed.borrow() {
            return Err(CallError::Lost(why.clone()));
        }
        let (sender, receiver) = oneshot::channel();
        let id = self.ask(request, payload, Asker::Task(sender));
        let forget = Forget(&self.0, id);
        Ok(async move {
            let _forget = forget;
            receiver
                .await
                .unwrap_or_else(|_| Err(CallError::Lost("forgotten".into())))
        })
    }

    fn ask<R: Rpc>(&self, request: &R, payload: Payload, asker: Asker) -> u64 {
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        self.0.waiting.borrow_mut().insert(id, asker);
        self.0.owing.notify_waiters();
        self.0.enqueue(
            Kind::Request,
            R::METHOD,
            id,
            request.encode_to_vec(),
            payload,
        );
        id
    }

    /// Returns when the tasks whose answers have been read by now have run on with them, or the
    /// connection is closed: a request may have been handled before a task went on with the answer that
    /// came before it.
    pub async fn answers_taken(&self) {
        while self.0.untaken.get() > 0 && self.is_open() {
            let taken = self.0.taken.notified();
            let closing = self.0.closing.notified();
            futures_util::future::select(std::pin::pin!(taken), std::pin::pin!(closing)).await;
        }
    }

    /// Returns when the other side owes an answer. An error, why, if the connection is closed.
    pub(crate) async fn owes(&self) -> Result<(), String> {
        loop {
            let owing = self.0.owing.notified();
            let closing = self.0.closing.notified();
            if let Some(why) = &*self.0.closed.borrow() {
                return Err(why.clone());
            }
            if !self.0.waiting.borrow().is_empty() {
                return Ok(());
            }
            futures_util::future::select(std::pin::pin!(owing), std::pin::pin!(closing)).await;
        }
    }

    /// The newest request, for [`Connection::owes_up_to`].
    pub(crate) fn newest_request(&self) -> u64 {
        self.0.next_id.get() - 1
    }

    /// The other side still owes the answer to this request, or to an older one.
    pub(crate) fn owes_up_to(&self, request: u64) -> bool {
        self.0.waiting.borrow().keys().any(|id| *id <= request)
    }

    /// Sends a message that wants no answer. Lost with the connection.
    pub fn notify<R: Rpc>(&self, message: &R) {
        self.0.enqueue(
            Kind::OneWay,
            R::METHOD,
            0,
            message.encode_to_vec(),
            Payload::none(),
        );
    }

    /// Bytes that have not been handed to the system yet.
    pub fn unsent(&self) -> usize {
        self.0.outgoing_bytes.get()
    }

    /// Returns when all has been handed to the system, or the connection is closed.
    pub async fn sent(&self) {
        while self.unsent() > 0 && self.is_open() {
            let drained = self.0.drained.notified();
            drained.await;
        }
    }

    /// Returns when the other side has been silent for `patience` from now on: no byte came from it, and
    /// it took none that waited for room, though it was asked whether it is there. A side that is slow,
    /// or behind a link that is full, is not silent.
    pub async fn silent(&self, patience: Duration) {
        let Progress { env, at, .. } = &*self.0.progress;
        let began = env.now();
        let pause = patience / PINGS;
        loop {
            let now = env.now();
            let quiet = now.since(at.get().max(began));
            if quiet >= patience {
                return;
            }
            if quiet >= pause && now.since(self.0.pinged.get()) >= pause {
                self.0.pinged.set(now);
                // That an answer comes is all that it says.
                self.call_in_order(&PingRequest {}, |_| {});
            }
            env.sleep(pause.min(patience - quiet)).await;
        }
    }

    /// When bytes of a payload came last, or the other side took bytes for which there had been no room:
    /// it is at work then, however long a whole answer takes. Pings do not count.
    pub fn moved(&self) -> Mono {
        self.0.progress.moved.get()
    }

    /// Closes the connection: calls that wait fail, the other side sees its end.
    pub fn close(&self, why: &str) {
        self.0.close(why);
    }

    /// Returns when the connection is closed, by whichever side; says why.
    pub async fn closed(&self) -> String {
        loop {
            let closing = self.0.closing.notified();
            if let Some(why) = &*self.0.closed.borrow() {
                return why.clone();
            }
            closing.await;
        }
    }

    /// The connection is closed because the other side ended it, which its kernel does for a process
    /// that is gone. False while it is open, when this side closed it or gave it up (silence, a broken
    /// frame), and when it was reset: firewalls do that, too, while the process lives.
    pub fn ended_by_peer(&self) -> bool {
        self.0.ended_by_peer.get()
    }

    /// It can still be used, as far as this side knows.
    pub fn is_open(&self) -> bool {
        self.0.closed.borrow().is_none()
    }

    /// Who is on the other side.
    pub fn identity(&self) -> Identity {
        *self.0.identity.borrow()
    }

    /// Notes who is on the other side when it became known after the handshake (a new session).
    pub fn set_identity(&self, identity: Identity) {
        *self.0.identity.borrow_mut() = identity;
    }

    /// Address of the other side, for logs.
    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    /// Grows from connection to connection of this process, in the order of their handshakes: of two
    /// connections of one peer the one with the greater number is the newer. Not for logs.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The same connection (not merely the same address).
    pub fn same(&self, other: &Connection) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// What ends a connection's reading.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads frames from a stream, with a buffer that spares system calls.
pub(crate) struct FrameReader {
    stream: ReadHalf<Stream>,
    buffer: BytesMut,
    progress: Rc<Progress>,
}

/// A verified frame.
pub(crate) struct Received {
    pub header: Header,
    pub message: Bytes,
    pub payload: Bytes,
}

impl FrameReader {
    pub(crate) fn new(stream: ReadHalf<Stream>, progress: Rc<Progress>) -> FrameReader {
        FrameReader {
            stream,
            buffer: BytesMut::with_capacity(READ_BUFFER_BYTES),
            progress,
        }
    }

    /// Fills the buffer to at least `bytes`; false at an end between frames.
    async fn fill(&mut self, bytes: usize) -> Result<bool, ReadError> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            let room = self.buffer.capacity() - self.buffer.len();
            if room < missing.max(READ_ROOM_BYTES) {
                self.buffer.reserve(missing.max(READ_BUFFER_BYTES));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                if self.buffer.is_empty() {
                    return Ok(false);
                }
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.progress.made();
        }
        Ok(true)
    }

    /// The next bytes of the buffer, which has so many.
    fn take(&mut self, bytes: usize) -> Bytes {
        if bytes > COPIED_BYTES_MAX {
            return self.buffer.split_to(bytes).freeze();
        }
        let copy = Bytes::copy_from_slice(&self.buffer[..bytes]);
        self.buffer.advance(bytes);
        copy
    }

    /// The next frame; None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Received>, ReadError> {
        if !self.fill(HEADER_BYTES).await? {
            return Ok(None);
        }
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(&self.buffer[..HEADER_BYTES]);
        let header = Header::decode(&head)?;
        self.fill(HEADER_BYTES + header.message_bytes as usize)
            .await?;
        self.buffer.advance(HEADER_BYTES);
        let message = self.take(header.message_bytes as usize);
        header.check(&head, &message)?;
        let length = header.payload_bytes as usize;
        let payload = if length == 0 {
            Bytes::new()
        } else if length <= self.buffer.len() {
            self.take(length)
        } else {
            // The rest goes straight from the socket to where it will stay.
            let mut payload = BytesMut::with_capacity(length);
            payload.extend_from_slice(&self.buffer);
            self.buffer.clear();
            let mut rest = (&mut self.stream).take((length - payload.len()) as u64);
            while payload.len() < length {
                if rest.read_buf(&mut payload).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                self.progress.moved();
            }
            payload.freeze()
        };
        if header.payload_crc != 0 && crc32c::crc32c(&payload) != header.payload_crc {
            return Err(FrameError::Checksum("payload").into());
        }
        Ok(Some(Received {
            header,
            message,
            payload,
        }))
    }
}

async fn read_frames(
    connection: &Connection,
    mut reader: FrameReader,
    handler: Handler,
) -> Result<(), ReadError> {
    while let Some(Received {
        header,
        message,
        payload,
    }) = reader.next().await?
    {
        let answer = match header.kind {
            Kind::Request | Kind::OneWay => {
                let request = Request {
                    method: header.method,
                    message,
                    payload,
                    payload_crc: header.payload_crc,
                    replier: Replier {
                        connection: Rc::downgrade(&connection.0),
                        request_id: (header.kind == Kind::Request).then_some(header.request_id),
                        method: header.method,
                        gate: None,
                    },
                };
                match request.method {
                    PingRequest::METHOD => request
                        .replier
                        .send::<PingRequest>(&PingReply {}, Payload::none()),
                    _ => handler(connection, request),
                }
                continue;
            }
            Kind::Response => Ok((message, payload)),
            Kind::Failure => match Failure::decode(message) {
                Ok(failure) => Err(CallError::Failed(failure.into())),
                Err(_) => return Err(FrameError::Message(header.method).into()),
            },
            Kind::Handshake => return Err(FrameError::Kind(Kind::Handshake as u8).into()),
        };
        let asker = connection.0.waiting.borrow_mut().remove(&header.request_id);
        match asker {
            Some(Asker::Task(sender)) => {
                let untaken = &connection.0.untaken;
                untaken.set(untaken.get() + usize::from(sender.send(answer).is_ok()));
            }
            Some(Asker::Reader(then)) => then(answer),
            // A call that was dropped is no longer there.
            None => {}
        }
    }
    Ok(())
}

/// Hands bytes to the socket; that there was no room for them before is progress.
async fn write_some(
    inner: &Inner,
    writer: &mut WriteHalf<Stream>,
    slices: &[io::IoSlice<'_>],
) -> io::Result<usize> {
    let mut has_waited = false;
    let written = poll_fn(|cx| {
        let written = Pin::new(&mut *writer).poll_write_vectored(cx, slices);
        has_waited |= written.is_pending();
        written
    });
    let written = written.await?;
    if has_waited {
        inner.progress.moved();
    }
    Ok(written)
}

async fn write_frames(inner: &Inner, mut writer: WriteHalf<Stream>) -> io::Result<()> {
    loop {
        if inner.closed.borrow().is_some() {
            // The other side is told by the end of the stream; if that fails it knows already.
            let _: io::Result<()> = writer.shutdown().await;
            return Ok(());
        }
        let mut batch: Vec<Bytes> = {
            let mut outgoing = inner.outgoing.borrow_mut();
            let count = outgoing.len().min(SLICES_MAX);
            outgoing.drain(..count).collect()
        };
        if batch.is_empty() {
            inner.filled.notified().await;
            continue;
        }
        let mut written_whole = 0;
        let mut offset = 0;
        while written_whole < batch.len() {
            let slices: Vec<io::IoSlice<'_>> = batch[written_whole..]
                .iter()
                .enumerate()
                .map(|(i, part)| io::IoSlice::new(if i == 0 { &part[offset..] } else { part }))
                .collect();
            let mut written = write_some(inner, &mut writer, &slices).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            inner
                .outgoing_bytes
                .set(inner.outgoing_bytes.get().saturating_sub(written));
            while written > 0 {
                let left = batch[written_whole].len() - offset;
                if written < left {
                    offset += written;
                    break;
                }
                written -= left;
                offset = 0;
                batch[written_whole] = Bytes::new();
                written_whole += 1;
            }
        }
        if inner.outgoing_bytes.get() <= OUTGOING_BYTES_MAX {
            inner.drained.notify_waiters();
        }
    }
}
