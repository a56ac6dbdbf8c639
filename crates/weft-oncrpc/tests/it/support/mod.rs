//! A program to call, and the bytes of calls.

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};
use weft_oncrpc::{Call, Connection, Credential, Incoming, Limits, Payload};
use weft_oncrpc::{Program, Refusal, Replier};
use weft_oncrpc::{Server, serve};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::authsys_parms;
use weft_xdr::{Decoder, Encoder, Procedure, Xdr};

/// Of NFSv3: WRITE and READ move bytes, COMMIT is held until the test answers it, REMOVE is given up without an answer.
#[derive(Default)]
pub struct Program3 {
    pub held: RefCell<VecDeque<Replier>>,
    pub callers: RefCell<Vec<Credential>>,
    pub written: RefCell<Vec<Bytes>>,
    pub connections: RefCell<Vec<Connection>>,
    /// WRITEs that come slowly are taken in parts, if the test wants it so.
    pub in_parts: Cell<bool>,
    pub parts: Rc<RefCell<Vec<Part>>>,
}

/// What was handed on of a call that came slowly.
#[derive(Debug, PartialEq)]
pub enum Part {
    Begun,
    Bytes(Bytes),
    Last(Bytes),
    Dropped,
}

struct InParts(Rc<RefCell<Vec<Part>>>, bool);

impl Incoming for InParts {
    fn part(&mut self, bytes: Bytes) {
        self.0.borrow_mut().push(Part::Bytes(bytes));
    }

    fn end(mut self: Box<Self>, bytes: Bytes, replier: Replier) {
        self.1 = true;
        self.0.borrow_mut().push(Part::Last(bytes));
        replier.send::<NFSPROC3_WRITE>(&WRITE3res::default(
            nfsstat3::NFS3ERR_ROFS,
            WRITE3resfail {
                file_wcc: nothing(),
            },
        ));
    }
}

impl Drop for InParts {
    fn drop(&mut self) {
        if !self.1 {
            self.0.borrow_mut().push(Part::Dropped);
        }
    }
}

pub fn committed(verifier: u8) -> COMMIT3res {
    COMMIT3res::NFS3_OK(COMMIT3resok {
        file_wcc: nothing(),
        verf: [verifier; 8],
    })
}

pub fn nothing() -> wcc_data {
    wcc_data {
        before: None,
        after: None,
    }
}

/// Byte `at` of what READ returns and of what the tests write.
pub fn pattern(length: usize) -> Bytes {
    (0..length).map(|at| (at * 7 / 3) as u8).collect()
}

impl Program for Program3 {
    fn number(&self) -> u32 {
        NFS_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        2..=NFS_V3
    }

    fn payload(&self, _version: u32, procedure: u32, arguments: &[u8]) -> Payload {
        if procedure != NFSPROC3_WRITE::NUMBER {
            return Payload::Nowhere;
        }
        let word = |at: usize| {
            let bytes = arguments.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*bytes) as usize)
        };
        let start = word(0).map(|handle| 4 + handle.next_multiple_of(4) + 16);
        match start.and_then(|at| Some((at + 4, word(at)?))) {
            Some((start, length)) if self.in_parts.get() => Payload::InParts { start, length },
            Some((start, length)) => Payload::At { start, length },
            None => Payload::More,
        }
    }

    fn begin(&self, _connection: &Connection, mut call: Call) -> Option<Box<dyn Incoming>> {
        let file = nfs_fh3::decode(&mut call.arguments).unwrap();
        if file != handle() {
            return None;
        }
        self.parts.borrow_mut().push(Part::Begun);
        Some(Box::new(InParts(self.parts.clone(), false)))
    }

    fn call(&self, connection: &Connection, call: Call, replier: Replier) {
        self.callers.borrow_mut().push(call.credential.clone());
        if self.connections.borrow().is_empty() {
            self.connections.borrow_mut().push(connection.clone());
        }
        match call.procedure {
            NFSPROC3_NULL::NUMBER => replier.serve::<NFSPROC3_NULL>(call, |()| ()),
            NFSPROC3_READ::NUMBER => replier.serve::<NFSPROC3_READ>(call, |mut arguments| {
                arguments.count = arguments.count.min(1 << 20);
                READ3res::NFS3_OK(READ3resok {
                    file_attributes: None,
                    count: arguments.count,
                    eof: false,
                    data: pattern(arguments.count as usize),
                })
            }),
            NFSPROC3_WRITE::NUMBER => replier.serve::<NFSPROC3_WRITE>(call, |arguments| {
                let count = arguments.data.len() as u32;
                self.written.borrow_mut().push(arguments.data);
                WRITE3res::NFS3_OK(WRITE3resok {
                    file_wcc: nothing(),
                    count,
                    committed: arguments.stable,
                    verf: [1; 8],
                })
            }),
            NFSPROC3_COMMIT::NUMBER => self.held.borrow_mut().push_back(replier),
            NFSPROC3_REMOVE::NUMBER => drop(replier),
            _ => replier.refuse(Refusal::Procedure),
        }
    }
}

pub async fn server(env: &Env, limits: Limits) -> (Server, Rc<Program3>) {
    let program = Rc::new(Program3::default());
    let server = serve(env, "127.0.0.1:0", limits, vec![program.clone()])
        .await
        .unwrap();
    (server, program)
}

pub async fn client(env: &Env, server: &Server) -> Connection {
    Connection::connect(env, server.address(), Limits::default(), vec![])
        .await
        .unwrap()
}

pub fn handle() -> nfs_fh3 {
    nfs_fh3 {
        data: Bytes::from_static(b"a handle"),
    }
}

pub fn user(uid: u32) -> Credential {
    Credential::Sys(authsys_parms {
        stamp: 1,
        machinename: Bytes::from_static(b"a client"),
        uid,
        gid: 100,
        gids: (0..16).collect(),
    })
}

pub fn read_of(count: u32) -> READ3args {
    READ3args {
        file: handle(),
        offset: 0,
        count,
    }
}

pub fn write_of(data: Bytes) -> WRITE3args {
    WRITE3args {
        file: handle(),
        offset: 1 << 40,
        count: data.len() as u32,
        stable: stable_how::DATA_SYNC,
        data,
    }
}

pub fn commit() -> COMMIT3args {
    COMMIT3args {
        file: handle(),
        offset: 0,
        count: 0,
    }
}

/// Words, as they lie on the wire.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call with AUTH_NONE, without its mark.
pub fn call_of<P: Procedure>(xid: u32, arguments: &P::Arguments) -> Vec<u8> {
    let mut bytes = words(&[xid, 0, 2, P::PROGRAM, P::VERSION, P::NUMBER, 0, 0, 0, 0]);
    let mut out = Encoder::default();
    P::encode_arguments(arguments, &mut out);
    bytes.extend_from_slice(&out.joined());
    bytes
}

/// One fragment.
pub fn fragment(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut whole = words(&[bytes.len() as u32 | u32::from(is_last) << 31]);
    whole.extend_from_slice(bytes);
    whole
}

/// A record in one fragment.
pub fn record(bytes: &[u8]) -> Vec<u8> {
    fragment(bytes, true)
}

pub async fn raw(env: &Env, server: &Server) -> Stream {
    env.connect(server.address()).await.unwrap()
}

/// The next record of a stream, without its mark; None at its end.
pub async fn reply(stream: &mut Stream) -> Option<Decoder> {
    let mut mark = [0; 4];
    if stream.read_exact(&mut mark).await.is_err() {
        return None;
    }
    let mark = u32::from_be_bytes(mark);
    assert_eq!(mark >> 31, 1, "a reply in several fragments");
    let mut bytes = vec![0; (mark & 0x7fff_ffff) as usize];
    stream.read_exact(&mut bytes).await.unwrap();
    Some(Decoder::new(bytes.into()))
}

/// Sends bytes and returns the words of the next reply.
pub async fn ask(stream: &mut Stream, bytes: &[u8]) -> Vec<u32> {
    stream.write_all(bytes).await.unwrap();
    let mut reply = reply(stream).await.expect("the connection was closed");
    let mut words = Vec::new();
    while reply.remaining() > 0 {
        words.push(reply.u32().unwrap());
    }
    words
}

/// Waits until it is so, a few seconds at most.
pub async fn until(env: &Env, what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        env.sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}
