//! A client of version 4 that goes from gateway to gateway, as a careful kernel would: a call that is not answered is
//! sent again in its slot; a gateway that is not to be had is left for another one, where everything begins anew; what
//! it was given to keep it believes in for as long as it hears of its gateway.

use crate::compounds::Nfs4;
use crate::gates::{Gate, user};
use crate::group::MS;
use crate::roaming::PATIENCE;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_sim::{Rng, World};
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;

/// How often a client that does nothing else lets its gateway hear of it.
const RENEWS_EVERY: Duration = Duration::from_millis(100);
/// For so long after its gateway answered it a client believes in what it keeps (`docs/protocols/nfs4.md`, "Files
/// that a client may keep").
const BELIEF: Duration = Duration::from_millis(500);
/// A gateway that does not take a connection by then is left for another one.
const REACH: Duration = Duration::from_secs(1);

/// What is done in which slot, one call at a time in each.
#[derive(Clone, Copy)]
enum Slot {
    Work,
    Renewal,
    GiveBack,
}

/// Why there are no results.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    Status(nfsstat4),
    /// The session is over, and with it every open and lock; whether the call was done is not known.
    Lost,
}

pub type Outcome<T> = Result<T, Trouble>;

/// A session with a gateway.
struct Life {
    nfs: Nfs4,
    gateway: usize,
    /// Of the last call in each slot.
    numbers: [Cell<u32>; 3],
    /// Delegations that it was asked for, perhaps before it knew that it has them.
    asked: RefCell<Vec<stateid4>>,
    /// Delegations that it has, as far as it knows.
    given: RefCell<Vec<stateid4>>,
    /// It was told that something was revoked.
    is_flagged: Cell<bool>,
}

/// A file that it may keep.
pub struct Kept {
    stateid: stateid4,
    pub contents: Bytes,
}

/// What a client holds at a gateway, by which it could claim it at another one.
#[derive(Default)]
pub struct Held {
    pub open: Option<stateid4>,
    pub lock: Option<stateid4>,
}

/// What has become of what a client held at a gateway that it has left.
#[derive(Debug, PartialEq, Eq)]
pub enum Reclaimed {
    Lost,
}

pub struct Roamer {
    pub world: World,
    pub name: String,
    addresses: Vec<String>,
    at: Cell<usize>,
    life: RefCell<Option<Rc<Life>>>,
    /// Lives so far: what was held in an earlier one is lost.
    pub lives: Cell<u8>,
    /// When the last call was sent that was answered in a session.
    heard: Cell<Duration>,
    pub held: RefCell<Held>,
    kept: RefCell<BTreeMap<usize, Kept>>,
    rng: RefCell<Rng>,
}

fn is_over(status: nfsstat4) -> bool {
    matches!(
        status,
        nfsstat4::NFS4ERR_BADSESSION
            | nfsstat4::NFS4ERR_DEADSESSION
            | nfsstat4::NFS4ERR_STALE_CLIENTID
    )
}

impl Roamer {
    pub fn new(world: &World, gates: &[Gate], name: &str) -> Rc<Roamer> {
        let mut rng = world.rng(name);
        Rc::new(Roamer {
            world: world.clone(),
            name: name.to_owned(),
            addresses: gates
                .iter()
                .map(|gate| gate.settings.listen.clone())
                .collect(),
            at: Cell::new(rng.below(gates.len() as u64) as usize),
            life: RefCell::default(),
            lives: Cell::new(0),
            heard: Cell::default(),
            held: RefCell::default(),
            kept: RefCell::default(),
            rng: RefCell::new(rng),
        })
    }

    fn env(&self) -> Env {
        self.world.node(&self.name).env()
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    /// The gateway that it has its session with.
    pub fn gateway(&self) -> usize {
        let life = self.life.borrow();
        life.as_ref().map_or(self.at.get(), |life| life.gateway)
    }

    /// Its gateway has answered something that was sent so long ago at most.
    pub fn has_heard_within(&self, time: Duration) -> bool {
        self.world.now() - self.heard.get() <= time
    }

    fn current(&self) -> Option<Rc<Life>> {
        self.life.borrow().clone()
    }

    fn is_current(&self, life: &Rc<Life>) -> bool {
        let current = self.life.borrow();
        current.as_ref().is_some_and(|it| Rc::ptr_eq(it, life))
    }

    /// Its own session; another gateway is tried until one takes it.
    async fn session(&self) -> Rc<Life> {
        loop {
            if let Some(life) = self.current() {
                return life;
            }
            let gateway = self.at.get();
            let met = self.env().timeout(PATIENCE, self.meet(gateway)).await;
            let Some(nfs) = met.ok().flatten() else {
                self.at.set((gateway + 1) % self.addresses.len());
                self.world.sleep(50 * MS).await;
                continue;
            };
            let life = Rc::new(Life {
                numbers: [nfs.sequence.get(), 0, 0].map(Cell::new),
                nfs,
                gateway,
                asked: RefCell::default(),
                given: RefCell::default(),
                is_flagged: Cell::new(false),
            });
            self.life.replace(Some(life));
            let reclaimed = self.reclaim().await;
            assert_eq!(reclaimed, Reclaimed::Lost);
        }
    }

    async fn meet(&self, gateway: usize) -> Option<Nfs4> {
        let env = self.env();
        let reached = Nfs4::reach(&env, &self.addresses[gateway], user(0));
        let mut nfs = env.timeout(REACH, reached).await.ok().flatten()?;
        // Another life at each gateway that it comes to: nothing of an earlier one is taken for this one's.
        nfs.met(&self.name, self.lives.get()).await?;
        Some(nfs)
    }

    /// What it held at the gateway before it claims at this one.
    async fn reclaim(&self) -> Reclaimed {
        self.held.take();
        Reclaimed::Lost
    }

    /// It gives a session up.
    fn leave(&self, life: &Rc<Life>) {
        if !self.is_current(life) {
            return;
        }
        self.life.take();
        self.kept.borrow_mut().clear();
        self.lives.set(self.lives.get() + 1);
        life.nfs.connection.borrow().close("left");
        let away = 1 + self.below(self.addresses.len() as u64 - 1) as usize;
        self.at.set((life.gateway + away) % self.addresses.len());
    }

    /// The client's number at its gateway.
    pub async fn client(&self) -> u64 {
        self.session().await.nfs.client
    }

    /// Does operations in its session, which is made if there is none.
    pub async fn ask(&self, operations: Vec<nfs_argop4>) -> Outcome<Vec<nfs_resop4>> {
        self.ask_within(operations, PATIENCE).await
    }

    pub async fn ask_within(
        &self,
        operations: Vec<nfs_argop4>,
        patience: Duration,
    ) -> Outcome<Vec<nfs_resop4>> {
        let life = self.session().await;
        self.send(&life, Slot::Work, operations, patience).await
    }

    /// Sends a call until it is answered, each time under the same number.
    async fn send(
        &self,
        life: &Rc<Life>,
        slot: Slot,
        operations: Vec<nfs_argop4>,
        patience: Duration,
    ) -> Outcome<Vec<nfs_resop4>> {
        let number = &life.numbers[slot as usize];
        number.set(number.get() + 1);
        let sequence = life.nfs.in_slot(slot as u32, number.get());
        let operations = [vec![sequence], operations].concat();
        let until = self.world.now() + patience;
        while self.is_current(life) {
            let left = until.saturating_sub(self.world.now());
            let sent = self.world.now();
            let calling = life.nfs.try_call(operations.clone());
            match self.env().timeout(left, calling).await {
                Ok(Some(answer)) => match self.judge(life, sent, answer) {
                    Some(outcome) => return outcome,
                    // The first one is still being done.
                    None => self.world.sleep(20 * MS).await,
                },
                Ok(None) => self.reconnect(life).await,
                Err(_) => self.leave(life),
            }
        }
        Err(Trouble::Lost)
    }

    /// None: to be sent again.
    fn judge(
        &self,
        life: &Rc<Life>,
        sent: Duration,
        answer: COMPOUND4res,
    ) -> Option<Outcome<Vec<nfs_resop4>>> {
        let flags = match answer.resarray.first() {
            Some(nfs_resop4::OP_SEQUENCE(SEQUENCE4res::NFS4_OK(done))) => done.sr_status_flags,
            _ if answer.status == nfsstat4::NFS4ERR_DELAY => return None,
            _ if is_over(answer.status) => {
                self.leave(life);
                return Some(Err(Trouble::Lost));
            }
            _ => panic!("{}: {answer:?}", self.name),
        };
        if !self.is_current(life) {
            return Some(Err(Trouble::Lost));
        }
        self.heard.set(self.heard.get().max(sent));
        if flags & SEQ4_STATUS_RECALLABLE_STATE_REVOKED != 0 {
            self.kept.borrow_mut().clear();
            life.is_flagged.set(true);
        }
        match answer.status {
            nfsstat4::NFS4_OK => Some(Ok(answer.resarray[1..].to_vec())),
            nfsstat4::NFS4ERR_RETRY_UNCACHED_REP => {
                self.leave(life);
                Some(Err(Trouble::Lost))
            }
            status => Some(Err(Trouble::Status(status))),
        }
    }

    /// Its connection broke; its session may be there.
    async fn reconnect(&self, life: &Rc<Life>) {
        self.world.sleep(20 * MS).await;
        let nfs = &life.nfs;
        if !nfs.connection.borrow().is_closed() {
            return;
        }
        let (env, address) = (self.env(), &self.addresses[life.gateway]);
        let reached = env.timeout(REACH, nfs.reconnect(&env, address)).await;
        if !matches!(reached, Ok(Some(()))) {
            return self.leave(life);
        }
        let bind = OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args {
            bctsa_sessid: nfs.session,
            bctsa_dir: channel_dir_from_client4::CDFC4_FORE_OR_BOTH,
            bctsa_use_conn_in_rdma_mode: false,
        });
        let bound = env.timeout(REACH, nfs.try_call(vec![bind])).await;
        if matches!(bound, Ok(Some(answer)) if is_over(answer.status)) {
            self.leave(life);
        }
    }

    /// What it was given to keep of a file, if it may still believe in it.
    pub fn kept(&self, file: usize) -> Option<Bytes> {
        let life = self.current()?;
        if life.nfs.connection.borrow().is_closed() || !self.has_heard_within(BELIEF) {
            return None;
        }
        let kept = self.kept.borrow();
        kept.get(&file).map(|kept| kept.contents.clone())
    }

    /// It has been given a file in a life of its, and has read it since.
    pub fn keep(&self, lives: u8, file: usize, stateid: stateid4, contents: Bytes) {
        let Some(life) = self.current().filter(|_| self.lives.get() == lives) else {
            return;
        };
        life.given.borrow_mut().push(stateid.clone());
        if !life.asked.borrow().contains(&stateid) {
            let kept = Kept { stateid, contents };
            self.kept.borrow_mut().insert(file, kept);
        }
    }

    /// Keeps its session, and gives back what it is asked for.
    pub async fn keep_alive(&self, is_over: &Cell<bool>) {
        let renewing = async {
            while !is_over.get() {
                self.world.sleep(RENEWS_EVERY).await;
                if let Some(life) = self.current() {
                    let renewal = self.send(&life, Slot::Renewal, Vec::new(), PATIENCE);
                    let _renewed = renewal.await;
                }
            }
        };
        let giving_back = async {
            while !is_over.get() {
                self.world.sleep(5 * MS).await;
                if let Some(life) = self.current() {
                    self.give_back(&life).await;
                    if life.is_flagged.take() {
                        self.free_revoked(&life).await;
                    }
                }
            }
        };
        futures_util::join!(renewing, giving_back);
    }

    async fn give_back(&self, life: &Rc<Life>) {
        let asked: Vec<CB_RECALL4args> = life.nfs.asked.recalls.take();
        for recall in asked {
            // From now on it may not be taken for what it has.
            life.asked.borrow_mut().push(recall.stateid.clone());
            // Until it has given it back it may go on reading.
            self.world.sleep(self.below(50) as u32 * MS).await;
            if !self.is_current(life) {
                return;
            }
            let is_other = |kept: &Kept| kept.stateid != recall.stateid;
            self.kept.borrow_mut().retain(|_, kept| is_other(kept));
            let give = OP_DELEGRETURN(DELEGRETURN4args {
                deleg_stateid: recall.stateid,
            });
            let put = OP_PUTFH(PUTFH4args { object: recall.fh });
            let given = self.send(life, Slot::GiveBack, vec![put, give], PATIENCE);
            match given.await {
                Ok(_) | Err(Trouble::Lost) => {}
                Err(Trouble::Status(
                    nfsstat4::NFS4ERR_DELEG_REVOKED | nfsstat4::NFS4ERR_BAD_STATEID,
                )) => {}
                Err(Trouble::Status(why)) => panic!("{}: DELEGRETURN: {why:?}", self.name),
            }
        }
    }

    /// Finds out which of its delegations were revoked, and says that it knows.
    async fn free_revoked(&self, life: &Rc<Life>) {
        let given = life.given.borrow().clone();
        let test = OP_TEST_STATEID(TEST_STATEID4args {
            ts_stateids: given.clone(),
        });
        let tested = self.send(life, Slot::GiveBack, vec![test], PATIENCE).await;
        let Ok([nfs_resop4::OP_TEST_STATEID(TEST_STATEID4res::NFS4_OK(tested))]) =
            tested.as_deref()
        else {
            assert_eq!(tested, Err(Trouble::Lost));
            return;
        };
        let revoked = given.into_iter().zip(&tested.tsr_status_codes);
        let revoked = revoked.filter(|(_, status)| **status == nfsstat4::NFS4ERR_DELEG_REVOKED);
        for (stateid, _) in revoked {
            let free = OP_FREE_STATEID(FREE_STATEID4args {
                fsa_stateid: stateid.clone(),
            });
            let freed = self.send(life, Slot::GiveBack, vec![free], PATIENCE).await;
            assert!(matches!(freed, Ok(_) | Err(Trouble::Lost)), "{freed:?}");
            life.given.borrow_mut().retain(|it| *it != stateid);
        }
    }
}
