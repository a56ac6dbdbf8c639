//! A server in this process, and plain connections that play its clients and data servers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, Task};
use weft_meta::{Server, Settings, start};
use weft_rpc::{CallError, Connection, Handler, Local, Payload, connect};
use weft_wire::proto::{self, *};
use weft_wire::{Failed, Rpc};

pub const CLUSTER: &str = "test";

/// How long a session lives that is not renewed: a busy machine stands still for some tenths of a second.
pub const TERM: Duration = Duration::from_millis(1000);

pub fn settings(dir: &Path) -> Settings {
    Settings {
        dir: dir.to_owned(),
        listen: "127.0.0.1:0".into(),
        cluster_id: CLUSTER.into(),
        session_term_ms: TERM.as_millis() as u64,
        pair: weft_meta::PairSettings {
            alone_after_ms: 300,
            ..Default::default()
        },
        ..Settings::default()
    }
}

pub async fn server(env: &Env, dir: &Path) -> Server {
    begin(env, settings(dir)).await
}

/// Starts a server; if there is no name space yet it is founded first.
pub async fn begin(env: &Env, settings: Settings) -> Server {
    match weft_meta::found(env, &settings).await {
        Ok(_) | Err(weft_meta::MetaError::Refused(_)) => {}
        Err(error) => panic!("{error}"),
    }
    start(env.clone(), settings).await.unwrap()
}

fn local(role: identity::Role) -> Local {
    Local::new(
        CLUSTER.into(),
        Identity {
            role: role as i32,
            ..Default::default()
        },
    )
}

/// Waits until `condition` holds.
pub async fn until(env: &Env, what: &str, condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        env.sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

/// What a client answers to revocations.
#[derive(Default)]
pub struct Manners {
    /// Revocations that came: (inode, down to, unlinking).
    pub asked: RefCell<Vec<(u64, i32, bool)>>,
    /// Inodes that it says are open.
    pub open: RefCell<BTreeSet<u64>>,
    /// What it owes with the next WRITE lease given back.
    pub owed: RefCell<Option<Setattr>>,
    /// Bytes that it keeps to write, and to read, when a part is asked back.
    pub kept: RefCell<[Vec<weft_wire::proto::Range>; 2]>,
    /// Has READ when it has been asked for size and times.
    pub done: Cell<bool>,
    /// Does not answer.
    pub deaf: Cell<bool>,
    pub states: RefCell<Vec<PairState>>,
    pub freed: RefCell<Vec<u64>>,
    /// Repliers of a deaf client.
    unanswered: RefCell<Vec<weft_rpc::Request>>,
}

pub struct Client {
    pub env: Env,
    pub connection: Connection,
    pub manners: Rc<Manners>,
    pub session: u64,
    pub epoch: u64,
    pub opened: SessionReply,
    next_operation: Cell<u64>,
    renewing: RefCell<Option<Task>>,
}

pub async fn tool(env: &Env, address: &str) -> Connection {
    let nothing: Handler = Rc::new(|_, _| {});
    connect(env, address, &local(identity::Role::Tool), nothing)
        .await
        .unwrap()
}

impl Client {
    pub async fn open(env: &Env, address: &str) -> Client {
        Client::with(
            env,
            address,
            SessionRequest {
                name: "test".into(),
                ..Default::default()
            },
        )
        .await
        .unwrap()
    }

    /// Opens or takes up a session.
    pub async fn with(
        env: &Env,
        address: &str,
        request: SessionRequest,
    ) -> Result<Client, CallError> {
        Client::of_group(env, address, 0, request).await
    }

    /// The same with a group of its own choice.
    pub async fn of_group(
        env: &Env,
        address: &str,
        group: u32,
        request: SessionRequest,
    ) -> Result<Client, CallError> {
        let manners = Rc::new(Manners::default());
        manners.open.borrow_mut().extend(&request.open_inodes);
        if let Some(lease) = request.shared_leases.first() {
            manners.kept.borrow_mut()[0].clone_from(&lease.write);
        }
        let mine = manners.clone();
        let handler: Handler = Rc::new(move |_, request| match request.method {
            RevokeRequest::METHOD => {
                let revoke: RevokeRequest = request.decode().unwrap();
                mine.asked
                    .borrow_mut()
                    .push((revoke.ino, revoke.to, revoke.unlinking));
                if mine.deaf.get() {
                    mine.unanswered.borrow_mut().push(request);
                    return;
                }
                let [kept_write, kept_read] = mine.kept.borrow().clone();
                let reply = RevokeReply {
                    open: mine.open.borrow().contains(&revoke.ino),
                    owed: mine.owed.borrow_mut().take(),
                    kept_write,
                    kept_read,
                    done: mine.done.get(),
                };
                request
                    .replier
                    .send::<RevokeRequest>(&reply, Payload::none());
            }
            PairStates::METHOD => {
                let pushed: PairStates = request.decode().unwrap();
                mine.states.borrow_mut().extend(pushed.states);
            }
            LockFreed::METHOD => {
                let freed: LockFreed = request.decode().unwrap();
                mine.freed.borrow_mut().push(freed.ino);
            }
            _ => {}
        });
        let mut local = local(identity::Role::Client);
        local.identity.group = group;
        let connection = connect(env, address, &local, handler).await.unwrap();
        let (opened, _) = connection.call(&request, Payload::none()).await?;
        Ok(Client {
            env: env.clone(),
            connection,
            manners,
            session: opened.session,
            epoch: opened.epoch,
            opened,
            // One that is taken up has used numbers up.
            next_operation: Cell::new(if request.session == 0 { 1 } else { 1000 }),
            renewing: RefCell::default(),
        })
    }

    /// Keeps the session alive from now on.
    pub fn keep_alive(&self) {
        let (env, connection) = (self.env.clone(), self.connection.clone());
        let (session, epoch) = (self.session, self.epoch);
        let task = self.env.spawn("renewals", async move {
            loop {
                let renew = RenewRequest {
                    session,
                    epoch,
                    ..Default::default()
                };
                if connection.call(&renew, Payload::none()).await.is_err() {
                    return;
                }
                env.sleep(Duration::from_millis(50)).await;
            }
        });
        *self.renewing.borrow_mut() = Some(task);
    }

    pub fn stop_renewing(&self) {
        if let Some(task) = self.renewing.borrow_mut().take() {
            task.abort();
        }
    }

    pub async fn call<R: Rpc>(&self, request: &R) -> Result<R::Reply, CallError> {
        self.connection
            .call(request, Payload::none())
            .await
            .map(|(reply, _)| reply)
    }

    pub fn root() -> Cred {
        Cred::default()
    }

    pub fn request(&self, op: op::Op) -> ChangeRequest {
        let operation = self.next_operation.get();
        self.next_operation.set(operation + 1);
        ChangeRequest {
            session: self.session,
            epoch: self.epoch,
            operation,
            acknowledged_below: 0,
            cred: Some(Client::root()),
            op: Some(proto::Op { op: Some(op) }),
            want_leases: true,
        }
    }

    pub async fn change(&self, op: op::Op) -> Result<ChangeReply, CallError> {
        self.call(&self.request(op)).await
    }

    /// A change that must be done.
    pub async fn done(&self, op: op::Op) -> (OpReply, Vec<Lease>) {
        let reply = self.change(op).await.unwrap();
        let done = reply.reply.unwrap();
        assert_eq!(done.failure_errno, 0, "{done:?}");
        (done, reply.leases)
    }

    pub async fn create(&self, parent: u64, name: &str) -> u64 {
        let (reply, _) = self.done(create(parent, name)).await;
        reply.attr.unwrap().ino
    }

    pub async fn mkdir(&self, parent: u64, name: &str) -> u64 {
        let op = op::Op::Create(Create {
            parent,
            name: name.to_owned().into(),
            kind: FileKind::Directory as i32,
            mode: 0o755,
            exclusive: true,
            ..Default::default()
        });
        self.done(op).await.0.attr.unwrap().ino
    }

    pub async fn lookup(&self, parent: u64, name: &str) -> Result<LookupReply, CallError> {
        let request = LookupRequest {
            session: self.session,
            epoch: self.epoch,
            cred: Some(Client::root()),
            parent,
            name: name.to_owned().into(),
        };
        self.call(&request).await
    }

    pub async fn inode(&self, ino: u64) -> Result<GetInodeReply, CallError> {
        self.inode_for(ino, LeaseMode::LeaseRead).await
    }

    pub async fn inode_for(&self, ino: u64, lease: LeaseMode) -> Result<GetInodeReply, CallError> {
        let (session, epoch) = (self.session, self.epoch);
        self.call(&GetInodeRequest {
            session,
            epoch,
            cred: Some(Client::root()),
            ino,
            lease: lease as i32,
        })
        .await
    }

    pub async fn list(&self, ino: u64, plus: bool) -> ReaddirReply {
        let request = ReaddirRequest {
            session: self.session,
            epoch: self.epoch,
            cred: Some(Client::root()),
            ino,
            after: 0,
            max_entries: 1000,
            plus,
        };
        self.call(&request).await.unwrap()
    }
}

pub fn create(parent: u64, name: &str) -> op::Op {
    op::Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: FileKind::Regular as i32,
        mode: 0o644,
        exclusive: true,
        ..Default::default()
    })
}

pub fn failed(error: CallError) -> Failed {
    match error {
        CallError::Failed(failed) => failed,
        CallError::Lost(why) => panic!("connection lost: {why}"),
    }
}

/// A data server that does nothing but answer.
pub struct Member {
    pub connection: Connection,
    pub state: Rc<RefCell<PairState>>,
    pub fenced: Rc<RefCell<Vec<FenceRequest>>>,
    pub dropped: Rc<RefCell<Vec<ObjectName>>>,
    /// Length it tells of every object.
    pub length: Rc<Cell<u64>>,
    /// Free bytes that it reports, if not half of its disk.
    pub free: Rc<Cell<Option<u64>>>,
    pub welcome: Rc<RefCell<Option<RegisterReply>>>,
    pair: u32,
    beating: RefCell<Option<Task>>,
}

impl Member {
    /// Connects and begins to register; the answer comes when the keeper is ready.
    pub async fn start(env: &Env, address: &str, pair: u32, member: u32) -> Member {
        Member::with_store(
            env,
            address,
            pair,
            member,
            &format!("store-{pair}-{member}"),
        )
        .await
    }

    pub async fn with_store(
        env: &Env,
        address: &str,
        pair: u32,
        member: u32,
        store: &str,
    ) -> Member {
        let knows = PairState::default();
        Member::that_knows(env, address, pair, member, store, &knows).await
    }

    /// Its store remembers this state.
    pub async fn that_knows(
        env: &Env,
        address: &str,
        pair: u32,
        member: u32,
        store: &str,
        last: &PairState,
    ) -> Member {
        let state: Rc<RefCell<PairState>> = Rc::default();
        let fenced: Rc<RefCell<Vec<FenceRequest>>> = Rc::default();
        let dropped: Rc<RefCell<Vec<ObjectName>>> = Rc::default();
        let length = Rc::new(Cell::new(0));
        let free: Rc<Cell<Option<u64>>> = Rc::default();
        let handler: Handler = {
            let (state, fenced, dropped) = (state.clone(), fenced.clone(), dropped.clone());
            let length = length.clone();
            Rc::new(move |_, request| match request.method {
                SetStateRequest::METHOD => {
                    let set: SetStateRequest = request.decode().unwrap();
                    *state.borrow_mut() = set.state.unwrap();
                    request
                        .replier
                        .send::<SetStateRequest>(&SetStateReply {}, Payload::none());
                }
                FenceRequest::METHOD => {
                    let fence: FenceRequest = request.decode().unwrap();
                    let lengths = vec![length.get(); fence.objects.len()];
                    fenced.borrow_mut().push(fence);
                    let reply = FenceReply { lengths };
                    request
                        .replier
                        .send::<FenceRequest>(&reply, Payload::none());
                }
                DropObjectsRequest::METHOD => {
                    let drop: DropObjectsRequest = request.decode().unwrap();
                    dropped.borrow_mut().extend(drop.objects);
                    let reply = DropObjectsReply {};
                    request
                        .replier
                        .send::<DropObjectsRequest>(&reply, Payload::none());
                }
                ScrubRequest::METHOD => {
                    request
                        .replier
                        .send::<ScrubRequest>(&ScrubReply {}, Payload::none());
                }
                _ => {}
            })
        };
        let connection = connect(env, address, &local(identity::Role::Data), handler)
            .await
            .unwrap();
        let welcome: Rc<RefCell<Option<RegisterReply>>> = Rc::default();
        let register = RegisterRequest {
            pair,
            member,
            address: format!("127.0.0.1:{}", 9000 + pair * 2 + member),
            incarnation: env.random(),
            store_id: store.into(),
            last_epoch: last.epoch,
            last_mode: last.mode,
            last_serving: last.serving,
            ..RegisterRequest::default()
        };
        let beating = {
            let (connection, welcome, state) = (connection.clone(), welcome.clone(), state.clone());
            let free = free.clone();
            let inner = env.clone();
            env.spawn("member", async move {
                let Ok((reply, _)) = connection.call(&register, Payload::none()).await else {
                    return;
                };
                *state.borrow_mut() = reply.state.unwrap_or_default();
                *welcome.borrow_mut() = Some(reply);
                loop {
                    let beat = BeatRequest {
                        pair,
                        member,
                        epoch: state.borrow().epoch,
                        report: Some(MemberReport {
                            total_bytes: 1000 * u64::from(member + 1),
                            free_bytes: free.get().unwrap_or(500 * u64::from(member + 1)),
                            ..Default::default()
                        }),
                        ..BeatRequest::default()
                    };
                    let Ok((reply, _)) = connection.call(&beat, Payload::none()).await else {
                        return;
                    };
                    if let Some(told) = reply.state
                        && told.epoch > state.borrow().epoch
                    {
                        *state.borrow_mut() = told;
                    }
                    inner.sleep(Duration::from_millis(20)).await;
                }
            })
        };
        Member {
            connection,
            state,
            fenced,
            dropped,
            length,
            free,
            welcome,
            pair,
            beating: RefCell::new(Some(beating)),
        }
    }

    /// Stops beating but keeps the connection, as a process that hangs.
    pub fn hang(&self) {
        if let Some(task) = self.beating.borrow_mut().take() {
            task.abort();
        }
    }

    /// As a process that is killed.
    pub fn die(&self) {
        self.hang();
        self.connection.close("killed");
    }

    pub async fn recovered(&self) {
        let epoch = self.state.borrow().epoch;
        let request = RecoveredRequest {
            pair: self.pair,
            epoch,
        };
        self.connection
            .call(&request, Payload::none())
            .await
            .unwrap();
    }

    pub fn mode(&self) -> (pair_state::Mode, u32) {
        let state = self.state.borrow();
        (state.mode(), state.serving)
    }
}

/// Both members of pair `pair`, serving.
pub async fn pair(env: &Env, address: &str, pair: u32) -> [Member; 2] {
    let zero = Member::start(env, address, pair, 0).await;
    let one = Member::start(env, address, pair, 1).await;
    until(env, "both members serve", || {
        [&zero, &one].iter().all(|member| {
            member.welcome.borrow().is_some()
                && member.mode().0 == pair_state::Mode::Both
                && member.state.borrow().epoch >= 2
        })
    })
    .await;
    [zero, one]
}

/// Runs a test with an environment and a directory.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Env, std::path::PathBuf) -> F) {
    let dir = tempfile::tempdir().unwrap();
    // Only the first test of a process sets it up; the output of the others is there too.
    let _: Result<(), _> = tracing_subscriber::fmt().with_test_writer().try_init();
    weft_env::real::run(|env| test(env, dir.path().to_owned())).unwrap();
}
