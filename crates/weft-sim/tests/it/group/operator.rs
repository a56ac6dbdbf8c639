//! An operator, as far as the tests of several files need one.

use super::{CLUSTER, Group, MS, SECOND};
use std::rc::Rc;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Local, Payload};
use weft_sim::World;
use weft_wire::proto::{Identity, VacateMemberRequest, identity::Role};
use weft_wire::{Failed, Rpc};

/// An operator at a node of its own, who asks as `weft group` does.
pub struct Operator {
    pub env: Env,
    pub world: World,
    pub group: Rc<Group>,
}

impl Operator {
    pub fn new(group: &Rc<Group>) -> Operator {
        Operator {
            env: group.world.node("operator").env(),
            world: group.world.clone(),
            group: group.clone(),
        }
    }

    /// Asks one server once.
    pub async fn ask<R: Rpc>(&self, member: usize, request: &R) -> Result<R::Reply, CallError> {
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: Role::Tool as i32,
                id: 0,
                incarnation: self.env.random(),
                group: 0,
            },
        );
        let refuse = Rc::new(|_: &Connection, request: weft_rpc::Request| {
            request.replier.fail(Failed::Refused("a tool".into()));
        });
        let address = self.group.address(member);
        let connecting = weft_rpc::connect(&self.env, &address, &local, refuse);
        let connection = match self.env.timeout(SECOND, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(CallError::Lost(error.to_string())),
            Err(_) => return Err(CallError::Lost("no connection".into())),
        };
        let answer = connection.call(request, Payload::none()).await;
        connection.close("answered");
        answer.map(|(reply, _)| reply)
    }

    /// Asks whoever leads, until somebody does.
    pub async fn ask_active<R: Rpc>(&self, request: &R) -> Result<R::Reply, Failed> {
        for _ in 0..500 {
            let active = self.group.led_by(|_| true).await;
            match self.ask(active, request).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::Failed(Failed::NotActive { .. }) | CallError::Lost(_)) => {}
                Err(CallError::Failed(failed)) => return Err(failed),
            }
            self.world.sleep(10 * MS).await;
        }
        panic!("nobody answers");
    }

    /// Says that a member's disk is lost.
    pub async fn replace(&self, member: usize) {
        let request = VacateMemberRequest {
            member: member as u32 + 1,
        };
        self.ask_active(&request).await.unwrap();
    }
}
