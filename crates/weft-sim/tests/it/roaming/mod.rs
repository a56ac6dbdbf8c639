//! What tests have in common in which clients go from gateway to gateway while gateways die, metadata servers change
//! and links are cut.

use crate::gates::{Gate, user};
use crate::group::{Group, MS};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weft_oncrpc::{Connection, Credential, Limits};
use weft_sim::{Rng, World};
use weft_xdr::Procedure;
use weft_xdr::nfs3::{diropargs3, nfs_fh3};

/// Bytes that each version of a file adds to it: its number, and the same once more.
pub const RECORD: usize = 16;
/// A call that is not answered by then is given up: whether it was done is not known.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of a file that one client writes: versions 1, 2, ..., each behind the one before, and each under a
/// name of its own.
#[derive(Default)]
pub struct Course {
    /// The newest that was asked for.
    pub begun: Cell<u64>,
    /// The newest that was acknowledged: as stable, and by its name.
    pub kept: Cell<u64>,
}

/// A client of version 3 that finds gateways by their addresses: each call may go to another one.
pub struct Clients {
    pub world: World,
    addresses: Vec<String>,
    connections: RefCell<Vec<Option<Connection>>>,
    node: String,
    credential: Credential,
}

impl Clients {
    pub fn new(world: &World, gates: &[Gate], node: &str) -> Clients {
        Clients {
            world: world.clone(),
            addresses: gates
                .iter()
                .map(|gate| gate.settings.listen.clone())
                .collect(),
            connections: RefCell::new(vec![None; gates.len()]),
            node: node.to_owned(),
            credential: user(0),
        }
    }

    /// None: no answer.
    pub async fn call<P: Procedure>(
        &self,
        gateway: usize,
        arguments: &P::Arguments,
    ) -> Option<P::Results> {
        let env = self.world.node(&self.node).env();
        let asked = async {
            let known = self.connections.borrow()[gateway].clone();
            let connection = match known.filter(|known| !known.is_closed()) {
                Some(known) => known,
                None => {
                    let address = &self.addresses[gateway];
                    let new = Connection::connect(&env, address, Limits::default(), Vec::new());
                    let new = new.await.ok()?;
                    self.connections.borrow_mut()[gateway] = Some(new.clone());
                    new
                }
            };
            connection.call::<P>(&self.credential, arguments).await.ok()
        };
        let answer = env.timeout(PATIENCE, asked).await.ok().flatten();
        if answer.is_none() {
            // Another connection the next time: what was asked over this one may still be done.
            if let Some(connection) = self.connections.borrow_mut()[gateway].take() {
                connection.close("no answer");
            }
            self.world.sleep(50 * MS).await;
        }
        answer
    }
}

pub fn place(dir: &nfs_fh3, name: String) -> diropargs3 {
    diropargs3 {
        dir: dir.clone(),
        name: name.into(),
    }
}

pub fn name_of(file: usize, version: u64) -> String {
    format!("{file}-{version}")
}

pub fn record(version: u64) -> Bytes {
    let number = version.to_be_bytes();
    [number, number].concat().into()
}

/// What has happened to a gateway.
#[derive(Default)]
pub struct Health {
    /// It is dead, stands still, or does not reach all metadata servers.
    is_ill: Cell<bool>,
    /// When that was over.
    well_since: Cell<Duration>,
}

impl Health {
    /// It has been alive, and in touch with the metadata service, since then.
    pub fn is_well_since(&self, then: Duration) -> bool {
        !self.is_ill.get() && self.well_since.get() < then
    }
}

/// Faults in a cluster with gateways.
pub struct Faults<'a> {
    pub world: &'a World,
    pub group: &'a Group,
    pub gates: &'a [Gate],
    /// Of each gateway.
    pub health: &'a [Health],
    /// Nodes of clients, which are cut off from gateways now and then.
    pub clients: &'a [String],
}

impl Faults<'_> {
    /// One after the other, until it is over. Then nothing is wrong any more.
    pub async fn go_on(&self, rng: &mut Rng, is_over: &Cell<bool>) {
        while !is_over.get() {
            self.world.sleep(rng.within(500..3_000) as u32 * MS).await;
            let pause = rng.within(100..4_000) as u32 * MS;
            let at = rng.below(self.gates.len() as u64) as usize;
            match rng.below(8) {
                0 | 1 => self.ill(at, self.death(at, pause)).await,
                2 => {
                    let member = rng.below(self.group.nodes.len() as u64) as usize;
                    self.ill(at, self.cut(at, &[member], pause)).await;
                }
                3 => {
                    let all: Vec<usize> = (0..self.group.nodes.len()).collect();
                    self.ill(at, self.cut(at, &all, pause)).await;
                }
                4 => self.ill(at, self.standstill(at, pause)).await,
                5 if !self.clients.is_empty() => {
                    let client = rng.below(self.clients.len() as u64) as usize;
                    let (client, gate) = (&self.clients[client], self.gates[at].node.name());
                    self.world.net().cut(client, &gate);
                    self.world.sleep(pause).await;
                    self.world.net().heal_between(client, &gate);
                }
                _ => self.another_leads(pause).await,
            }
        }
    }

    async fn ill(&self, at: usize, fault: impl Future<Output = ()>) {
        self.health[at].is_ill.set(true);
        fault.await;
        self.health[at].is_ill.set(false);
        self.health[at].well_since.set(self.world.now());
    }

    async fn death(&self, at: usize, pause: Duration) {
        self.gates[at].kill();
        self.world.sleep(pause).await;
        self.gates[at].begin(self.world).await;
    }

    /// A gateway does not reach some metadata servers.
    async fn cut(&self, at: usize, members: &[usize], pause: Duration) {
        let gate = self.gates[at].node.name();
        for member in members {
            self.world
                .net()
                .cut(&gate, &self.group.nodes[*member].name());
        }
        self.world.sleep(pause).await;
        for member in members {
            let server = self.group.nodes[*member].name();
            self.world.net().heal_between(&gate, &server);
        }
    }

    /// A gateway's process is stopped, and goes on as if nothing had been.
    async fn standstill(&self, at: usize, pause: Duration) {
        self.gates[at].node.pause();
        self.world.sleep(pause).await;
        self.gates[at].node.resume();
    }

    async fn another_leads(&self, pause: Duration) {
        let Some(active) = self.group.active() else {
            return;
        };
        self.group.kill(active);
        self.world.sleep(pause).await;
        self.group.start(active);
        self.group.all_count().await;
    }
}
