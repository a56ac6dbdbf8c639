//! A gateway that is given bytes as calls: whatever they are, it must go on, and answer what decodes and is within what
//! was agreed. What the bytes stand for is told at [`Gauntlet::feed`]; `fuzz/targets/gateway.rs` and tests share it.
#![allow(dead_code, unused_imports, reason = "each user uses its part")]

mod calls;
mod strange;

pub use calls::{Known, valid};
pub use strange::Strange;

use crate::compounds::{ANONYMOUS, MINOR, Nfs4, made, mkdir, put, there};
use crate::gates::{Gate, believed, export};
use crate::group::{Group, SECOND};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};
use weft_sim::World;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;
use weft_xdr::rpc::accept_stat;
use weft_xdr::{Decoder, Encoder, Xdr, mount3, nfs3};

/// An answer comes by then: who waits for a lock waits for 10 s, who is waited for for 3.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many calls are made with what was set up; then all of it is done anew.
const FRESH_EVERY: u32 = 64;
/// Bytes of an answer at most: the largest READ, and what stands around it.
const ANSWER_BYTES_MAX: u32 = (1 << 20) + (64 << 10);
/// A gateway that does more than this for one call is lost to others.
const STEPS_MAX: u64 = 400_000;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its results decode; of a COMPOUND so many operations were done.
    Served(usize),
    /// It was refused as a whole: no such procedure, arguments that do not decode.
    Refused,
    /// Nobody could have found the next call behind it.
    Closed,
}

/// A small cluster with one gateway, and a client of it.
pub struct Gauntlet {
    world: World,
    /// None while a call is made.
    scene: Rc<RefCell<Option<Scene>>>,
    calls: Cell<u32>,
}

struct Scene {
    gate: Gate,
    _cluster: Box<dyn std::any::Any>,
    client: Option<Client>,
    /// Clients so far, and others.
    lives: u8,
    others: u32,
}

/// What calls are made with.
struct Client {
    nfs: Nfs4,
    stream: Stream,
    known: Known,
    xid: u32,
}

impl Gauntlet {
    pub fn new(seed: u64) -> Gauntlet {
        let world = World::new(seed);
        let of = world.clone();
        let scene = world.block_on(async move {
            let group = Group::started(&of, 1).await;
            let servers = group.pair().await;
            of.sleep(SECOND).await;
            let exports = vec![export("/", believed()), export("/dir", believed())];
            let gate = Gate::start(&of, &group, "gate1", exports).await;
            Scene {
                gate,
                _cluster: Box::new((group, servers)),
                client: None,
                lives: 0,
                others: 0,
            }
        });
        Gauntlet {
            world,
            scene: Rc::new(RefCell::new(Some(scene))),
            calls: Cell::new(0),
        }
    }

    /// Makes a call of bytes. The first says what the others are: operations of a COMPOUND of version 4.2 or 4.1
    /// behind a right SEQUENCE (the second byte is how many), arguments of a procedure of version 3 or of MOUNT (the
    /// second is which), or a whole record. Handles and other names that nobody can know beforehand stand in them as
    /// [`Known`] has it.
    ///
    /// # Panics
    /// If the gateway does what it never should.
    pub fn feed(&self, input: &[u8]) -> Verdict {
        if self.calls.get().is_multiple_of(FRESH_EVERY) {
            self.drop_client();
        }
        self.calls.set(self.calls.get() + 1);
        let (world, scene, input) = (self.world.clone(), self.scene.clone(), input.to_vec());
        let before = self.world.steps();
        let verdict = self.world.block_on(async move {
            let mut working = scene.take().unwrap();
            let verdict = working.feed(&world, &input).await;
            scene.replace(Some(working));
            verdict
        });
        let steps = self.world.steps() - before;
        assert!(steps < STEPS_MAX, "{steps} steps for one call");
        verdict
    }

    fn drop_client(&self) {
        if let Some(scene) = &mut *self.scene.borrow_mut() {
            scene.client.take();
        }
    }

    /// Somebody else is served as if nothing had been.
    pub fn serves_others(&self) {
        let (world, scene) = (self.world.clone(), self.scene.clone());
        self.world.block_on(async move {
            let mut working = scene.take().unwrap();
            working.others += 1;
            let name = format!("other{}", working.others);
            let other = Nfs4::to(&world, &working.gate, 0, &name).await;
            let root = other.walk(&[]).await.unwrap();
            let (file, state) = other.make(&root, &name).await;
            other.write(&file, &state, 0, b"as ever").await.unwrap();
            let read = other.read(&file, &state, 0, 100).await.unwrap();
            assert_eq!(read, (Bytes::from_static(b"as ever"), true));
            other.close(&file, &state).await.unwrap();
            scene.replace(Some(working));
        });
    }
}

/// A file's handle; it is made if it is not there.
async fn file_of(nfs: &Nfs4, dir: &Bytes, name: &str) -> (Bytes, stateid4) {
    match nfs.open(dir, name, (3, 0), "me", made(0o666)).await {
        Ok(opened) => opened,
        Err(_) => nfs.open(dir, name, (3, 0), "me", there()).await.unwrap(),
    }
}

impl Scene {
    async fn client(&mut self, world: &World) -> Client {
        if let Some(client) = self.client.take() {
            return client;
        }
        self.lives = self.lives.wrapping_add(1);
        let mut nfs = Nfs4::connect(world, &self.gate, 0).await;
        nfs.meet("client", self.lives).await;
        let root = nfs.walk(&[]).await.unwrap();
        // Names that earlier calls may have taken away or made something else of.
        let dir_name = format!("dir{}", self.lives);
        let make = mkdir(&dir_name, 0o777);
        nfs.does(vec![put(&root), make]).await.unwrap();
        let dir = nfs.walk(&[&dir_name]).await.unwrap();
        let (file, open) = file_of(&nfs, &dir, "file").await;
        let (other, other_open) = file_of(&nfs, &dir, "other").await;
        nfs.write(&file, &open, 0, &[7; 10_000]).await.unwrap();
        let link = OP_CREATE(CREATE4args {
            objtype: createtype4::NF4LNK(Bytes::from_static(b"file")),
            objname: Bytes::from_static(b"link"),
            createattrs: fattr4 {
                attrmask: bitmap4::new(),
                attr_vals: Bytes::new(),
            },
        });
        nfs.does(vec![put(&dir), link]).await.unwrap();
        let link = nfs.walk(&[&dir_name, "link"]).await.unwrap();
        let some = (nfs_lock_type4::WRITE_LT, 0, 100);
        let locked = nfs.lock(&file, &open, "p", some).await.unwrap();
        let known = Known {
            handles: vec![root, dir, file, other, link],
            stateids: vec![open, other_open, locked, ANONYMOUS],
            client: nfs.client,
            session: nfs.session,
        };
        let env = world.node("attacker").env();
        let stream = env.connect(&self.gate.settings.listen).await.unwrap();
        Client {
            nfs,
            stream,
            known,
            xid: 1,
        }
    }

    async fn feed(&mut self, world: &World, input: &[u8]) -> Verdict {
        let [kind, second, rest @ ..] = input else {
            return Verdict::Refused;
        };
        let env = world.node("attacker").env();
        let mut client = self.client(world).await;
        let rest = client.known.fill(rest);
        let (verdict, is_over) = match kind % 5 {
            0 | 1 => {
                let minor = MINOR - u32::from(kind % 5);
                client.compound(&env, minor, *second, &rest).await
            }
            2 => {
                let numbers = (nfs3::NFS_PROGRAM, nfs3::NFS_V3, u32::from(*second));
                client.procedure(&env, numbers, &rest).await
            }
            3 => {
                let numbers = (mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, u32::from(*second));
                client.procedure(&env, numbers, &rest).await
            }
            _ => client.record(&env, &rest).await,
        };
        if !is_over {
            self.client = Some(client);
        }
        verdict
    }
}

impl Client {
    /// A call's header: AUTH_SYS as root.
    fn header(&mut self, (program, version, procedure): (u32, u32, u32)) -> Encoder {
        self.xid += 1;
        let mut out = Encoder::default();
        for word in [self.xid, 0, 2, program, version, procedure, 1, 20] {
            out.u32(word);
        }
        // Stamp, an empty name, uid, gid, no groups; no verifier.
        for word in [0; 7] {
            out.u32(word);
        }
        out
    }

    /// Sends a record. What is answered; None: the connection is closed.
    async fn exchange(&mut self, env: &Env, record: &[u8]) -> Option<Bytes> {
        let mark = (1 << 31) | record.len() as u32;
        let whole = [&mark.to_be_bytes()[..], record].concat();
        let stream = &mut self.stream;
        let answered = async {
            stream.write_all(&whole).await.ok()?;
            let mark = stream.read_u32().await.ok()?;
            let length = mark & !(1 << 31);
            assert!(length != mark, "an answer in fragments");
            assert!(length <= ANSWER_BYTES_MAX, "an answer of {length} bytes");
            let mut answer = vec![0; length as usize];
            stream.read_exact(&mut answer).await.ok()?;
            Some(Bytes::from(answer))
        };
        let answered = env.timeout(PATIENCE, answered).await;
        answered.unwrap_or_else(|_| panic!("no answer within {PATIENCE:?}"))
    }

    /// What follows an answer's header; None: it was refused.
    fn results(&self, answer: Bytes) -> Option<Decoder> {
        let mut input = Decoder::new(answer);
        assert_eq!(input.u32(), Ok(self.xid));
        // A reply, accepted, with no verifier.
        let head = [(); 4].map(|()| input.u32().unwrap());
        assert_eq!(head, [1, 0, 0, 0]);
        match accept_stat::decode(&mut input).unwrap() {
            accept_stat::SUCCESS => Some(input),
            accept_stat::SYSTEM_ERR => panic!("the gateway gave the call up"),
            _ => None,
        }
    }

    async fn procedure(
        &mut self,
        env: &Env,
        numbers: (u32, u32, u32),
        arguments: &[u8],
    ) -> (Verdict, bool) {
        let mut out = self.header(numbers);
        out.fixed(arguments);
        let answer = self.exchange(env, &out.joined()).await;
        let answer = answer.expect("the connection was closed");
        let Some(results) = self.results(answer) else {
            return (Verdict::Refused, false);
        };
        let bytes = Bytes::copy_from_slice(results.ahead());
        let again = weft_xdr::again::procedure_again(numbers, true, bytes);
        again.expect("served what is none").unwrap();
        (Verdict::Served(1), false)
    }

    /// Operations behind a SEQUENCE. True: the session is over.
    async fn compound(
        &mut self,
        env: &Env,
        minor: u32,
        count: u8,
        operations: &[u8],
    ) -> (Verdict, bool) {
        let numbers = (NFS4_PROGRAM, NFS_V4, 1);
        let mut out = self.header(numbers);
        out.opaque(u32::MAX, &Bytes::from_static(b"tag"));
        out.u32(minor);
        out.u32(u32::from(count) + 1);
        let sequence = &self.nfs.sequence;
        sequence.set(sequence.get() + 1);
        self.nfs.sequence(sequence.get()).encode(&mut out);
        out.fixed(operations);
        let answer = self.exchange(env, &out.joined()).await;
        let answer = answer.expect("the connection was closed");
        let Some(results) = self.results(answer) else {
            return (Verdict::Refused, false);
        };
        let bytes = Bytes::copy_from_slice(results.ahead());
        let done = COMPOUND4res::from_bytes(bytes).expect("an answer that does not decode");
        check(&done, usize::from(count) + 1);
        let is_over = matches!(
            done.status,
            nfsstat4::NFS4ERR_BADSESSION | nfsstat4::NFS4ERR_SEQ_MISORDERED
        );
        (Verdict::Served(done.resarray.len()), is_over)
    }

    /// A whole record. The connection is another one afterwards.
    async fn record(&mut self, env: &Env, record: &[u8]) -> (Verdict, bool) {
        if record.get(4..8) == Some(&[0, 0, 0, 1]) {
            // A reply, which nobody waits for, and nobody answers: what is called next is.
            let mark = (1 << 31) | record.len() as u32;
            let whole = [&mark.to_be_bytes()[..], record].concat();
            self.stream.write_all(&whole).await.unwrap();
            let numbers = (nfs3::NFS_PROGRAM, nfs3::NFS_V3, 0);
            return self.procedure(env, numbers, &[]).await;
        }
        let Some(answer) = self.exchange(env, record).await else {
            return (Verdict::Closed, true);
        };
        let mut input = Decoder::new(answer);
        let (_xid, reply) = (input.u32().unwrap(), input.u32().unwrap());
        assert_eq!(reply, 1);
        (Verdict::Refused, true)
    }
}

/// What must hold of the results of any COMPOUND.
fn check(done: &COMPOUND4res, count: usize) {
    assert!(done.resarray.len() <= count, "{done:?}");
    let statuses: Vec<i32> = done.resarray.iter().map(status_of).collect();
    if let Some((last, before)) = statuses.split_last() {
        assert_eq!(*last, done.status as i32, "{done:?}");
        assert!(before.iter().all(|status| *status == 0), "{done:?}");
    }
    assert!(
        done.status != nfsstat4::NFS4_OK || done.resarray.len() == count,
        "{done:?}"
    );
}

/// The status of an operation: what follows its number.
fn status_of(result: &nfs_resop4) -> i32 {
    let mut input = Decoder::new(result.to_bytes());
    let _number = input.u32().unwrap();
    input.i32().unwrap()
}
