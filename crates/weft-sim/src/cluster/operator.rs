//! The operator of a run: drains pairs and lets them in again, fills them evenly, lays trees otherwise,
//! while clients work and faults come. The files are moved by the movers that run beside the data
//! servers (`docs/protocols/relayout.md`).

use super::builder::{CLUSTER, Cluster};
use crate::invariants;
use crate::rng::Rng;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_client::Policy;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Local};
use weft_types::ROOT_INO;
use weft_wire::proto::identity::Role;
use weft_wire::proto::job::What;
use weft_wire::proto::{
    AdmitPairRequest, CancelJobRequest, DrainPair, Durability, Identity, Job, JobStatus,
    JobsRequest, LossesRequest, Protocol, Rebalance, RelayTree, StartJobRequest,
};
use weft_wire::{Failed, Rpc};

/// One run in so many has no jobs: its movers only ask for work.
const IDLE_ONCE_IN: u64 = 3;
/// The pause between two jobs, at most.
const PAUSE_MS: u64 = 1_500;
/// A question is asked again when it has not been answered for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// And a job is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A job ends within this time once all faults have.
const JOBS_FOR: Duration = Duration::from_secs(200);
/// One job in so many is cancelled.
const CANCEL_ONCE_IN: u64 = 5;

/// How files may be laid otherwise.
const PROTOCOLS: [Protocol; 5] = [
    Protocol::ServerSync,
    Protocol::ServerAsync,
    Protocol::ClientSync,
    Protocol::ClientAsync,
    Protocol::Hybrid,
];
const DURABILITIES: [Durability; 2] = [Durability::Memory, Durability::Disk];

/// It was asked whoever does not lead any more.
fn is_elsewhere(failed: &CallError) -> bool {
    matches!(failed, CallError::Failed(Failed::NotActive { .. }))
}

/// The operator of a cluster.
pub struct Operator {
    env: Env,
    cluster: Rc<Cluster>,
    rng: RefCell<Rng>,
    connection: RefCell<Option<Connection>>,
    /// Jobs that were accepted, by number.
    accepted: RefCell<BTreeSet<u64>>,
    is_idle: bool,
}

impl Operator {
    /// For `cluster`; gives no order yet.
    pub fn new(cluster: &Rc<Cluster>) -> Operator {
        let mut rng = cluster.world.rng("operator");
        Operator {
            env: cluster.world.node("operator").env(),
            cluster: cluster.clone(),
            is_idle: rng.once_in(IDLE_ONCE_IN),
            rng: RefCell::new(rng),
            connection: RefCell::default(),
            accepted: RefCell::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    fn any_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    async fn connected(&self) -> Option<Connection> {
        if let Some(connection) = &*self.connection.borrow() {
            return Some(connection.clone());
        }
        let local = Local::new(
            CLUSTER.to_owned(),
            Identity {
                role: Role::Tool as i32,
                id: 0,
                incarnation: self.env.random(),
                group: 0,
            },
        );
        let refuse = Rc::new(|_: &Connection, request: weft_rpc::Request| {
            let refused = Failed::Refused("an operator answers nothing".into());
            request.replier.fail(refused);
        });
        let Some(active) = self.cluster.active_address() else {
            self.env.sleep(LOOK_EVERY).await;
            return None;
        };
        let connecting = weft_rpc::connect(&self.env, &active, &local, refuse);
        let connection = self.env.timeout(PATIENCE, connecting).await.ok()?.ok()?;
        self.connection.replace(Some(connection.clone()));
        Some(connection)
    }

    /// The answer; none if there was none, and nobody knows whether the order was taken.
    async fn ask<R: Rpc>(&self, request: &R) -> Option<Result<R::Reply, CallError>> {
        let connection = self.connected().await?;
        let call = connection.call(request, weft_rpc::Payload::none());
        let answer = self.env.timeout(PATIENCE, call).await;
        match answer {
            Ok(Ok((reply, _))) => Some(Ok(reply)),
            Ok(Err(failed @ CallError::Failed(_))) if !is_elsewhere(&failed) => Some(Err(failed)),
            Ok(Err(_)) | Err(_) => {
                if let Some(connection) = self.connection.take() {
                    connection.close("no answer");
                }
                None
            }
        }
    }

    fn draw(&self) -> What {
        let pairs = self.cluster.data.len() as u64;
        match self.below(4) {
            0 | 1 if pairs > 1 => What::Drain(DrainPair {
                pair: self.below(pairs) as u32,
            }),
            2 if pairs > 1 => What::Rebalance(Rebalance {
                within_percent: 1 + self.below(30) as u32,
            }),
            _ => {
                let policy = Policy {
                    stripe_unit: 64 << 10 << self.below(2),
                    width: 1 + self.below(pairs) as u32,
                    protocol: self.any_of(&PROTOCOLS) as i32,
                    durability: self.any_of(&DURABILITIES) as i32,
                };
                if policy.durability() == Durability::Memory {
                    self.cluster.keeps_in_memory.set(true);
                }
                What::Relay(RelayTree {
                    root: ROOT_INO.0,
                    policy: Some(policy),
                    uid: 0,
                })
            }
        }
    }

    /// Gives orders until the clients are done, or `until` has come. That some are refused is as it
    /// must be: the last pair is not drained, and no tree is laid in two ways at once.
    pub async fn work(&self, until: Duration) {
        while !self.is_idle && self.cluster.world.now() < until && !self.cluster.clients_are_done()
        {
            self.pause().await;
            let job = Job {
                what: Some(self.draw()),
                ..Job::default()
            };
            if let Some(Ok(reply)) = self.ask(&StartJobRequest { job: Some(job) }).await {
                self.accepted.borrow_mut().insert(reply.job);
                if self.below(CANCEL_ONCE_IN) == 0 {
                    self.pause().await;
                    // Whether it is cancelled, over, or neither was heard: it must come to an end.
                    self.ask(&CancelJobRequest { job: reply.job }).await;
                }
            }
            self.admit_removed().await;
        }
    }

    async fn pause(&self) {
        let pause = Duration::from_millis(self.below(PAUSE_MS));
        self.env.sleep(pause).await;
    }

    /// Lets pairs in again that have been drained.
    async fn admit_removed(&self) {
        for pair in self.cluster.removed_pairs().unwrap_or_default() {
            let pair = pair as u32;
            self.ask(&AdmitPairRequest { pair }).await;
        }
    }

    /// After the last fault: every job that was accepted comes to its end, a pair that was drained is
    /// empty, and may come again.
    ///
    /// # Errors
    /// What did not.
    pub async fn finish(&self) -> Result<(), String> {
        let until = self.cluster.world.now() + JOBS_FOR;
        self.jobs_end(until).await?;
        loop {
            let removed = self.cluster.removed_pairs();
            if removed.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
            if self.cluster.world.now() > until {
                return Err(format!("pairs {removed:?} are not let in again"));
            }
            // Servers that were started a moment ago have not opened their stores yet.
            let is_there = |pair, member| {
                self.cluster.store_at(pair, member).is_some()
                    || self.cluster.waits_for_place(pair, member)
            };
            let runs = |pair| (0..2).all(|member| is_there(pair, member));
            if removed.iter().flatten().all(|pair| runs(*pair)) {
                for pair in removed.unwrap_or_default() {
                    invariants::objects_named::check_empty(&self.cluster, pair).await?;
                }
                self.admit_removed().await;
            }
            self.env.sleep(LOOK_EVERY).await;
        }
        if let Some(connection) = self.connection.take() {
            connection.close("the operator goes home");
        }
        Ok(())
    }

    async fn jobs_end(&self, until: Duration) -> Result<(), String> {
        loop {
            let answer = self.ask(&JobsRequest {}).await;
            if let Some(Ok(reply)) = &answer {
                let known: Vec<Job> = reply.jobs.iter().filter_map(|status| status.job).collect();
                self.none_is_lost(&known)?;
                if known.iter().all(|job| job.ended.is_some()) {
                    return Ok(());
                }
                self.cancel_what_waits_for_losses(&reply.jobs).await;
            }
            if self.cluster.world.now() > until {
                return Err(format!("jobs do not come to their end: {answer:?}"));
            }
            self.env.sleep(LOOK_EVERY).await;
        }
    }

    /// A file that is lost in part is not moved until that is written anew or acknowledged, which nobody
    /// does any more: who reads what was lost must hear of it to the end.
    async fn cancel_what_waits_for_losses(&self, jobs: &[JobStatus]) {
        let waits = |status: &&JobStatus| {
            let is_running = status.job.is_some_and(|job| job.ended.is_none());
            is_running && status.last_failure.contains("lost in part")
        };
        let Some(Ok(told)) = self.ask(&LossesRequest {}).await else {
            return;
        };
        for status in jobs.iter().filter(waits) {
            if !told.losses.is_empty() {
                let job = status.job.unwrap_or_default().id;
                self.ask(&CancelJobRequest { job }).await;
            }
        }
    }

    /// Of the jobs that have ended the oldest are forgotten, and no others.
    fn none_is_lost(&self, known: &[Job]) -> Result<(), String> {
        let mut ended = known.iter().filter(|job| job.ended.is_some());
        let oldest = ended.next().map_or(0, |job| job.id);
        let accepted = self.accepted.borrow();
        let mut young = accepted.range(oldest..);
        match young.find(|id| known.iter().all(|job| job.id != **id)) {
            Some(lost) => Err(format!("job {lost} was accepted and is none of {known:?}")),
            None => Ok(()),
        }
    }
}
