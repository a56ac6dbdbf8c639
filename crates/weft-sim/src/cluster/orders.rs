//! What an operator's tool does: connects to a metadata server, and asks.

use super::builder::{CLUSTER, Cluster};
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Connection, Handler, Local, Payload};
use weft_wire::proto::{Identity, ReplaceMemberRequest, VacateMemberRequest, identity::Role};
use weft_wire::{Failed, Rpc};

/// A tool that is not answered by then tries again.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order that could not be given is given again after this.
pub(super) const AGAIN: Duration = Duration::from_millis(100);

/// A connection to the metadata server at an address, for questions about a group.
///
/// # Errors
/// If nobody answers there.
pub(super) async fn connect(
    cluster: &Cluster,
    address: &str,
    group: usize,
) -> Result<Connection, String> {
    let env = cluster.world.node("operator").env();
    let local = Local::new(
        CLUSTER.into(),
        Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: 1,
            group: group as u32,
        },
    );
    let refuse: Handler = Rc::new(|_, request| {
        let why = "an operator answers nothing".into();
        request.replier.fail(Failed::Refused(why));
    });
    let connected = weft_rpc::connect(&env, address, &local, refuse).await;
    connected.map_err(|error| format!("the operator cannot connect: {error}"))
}

/// Asks one thing.
///
/// # Errors
/// As the server says.
pub(super) async fn ask<R: Rpc>(connection: &Connection, request: &R) -> Result<R::Reply, String> {
    let answer = connection.call(request, Payload::none()).await;
    answer
        .map(|(reply, _)| reply)
        .map_err(|error| format!("{}: {error}", R::NAME))
}

/// Says that a metadata server's disk is lost: an empty one may take its place.
///
/// # Errors
/// If nobody leads its group, or takes the order; it may be given again.
pub(super) async fn vacate(cluster: &Cluster, member: usize) -> Result<(), String> {
    let group = cluster.group_of(member);
    let member = (member - cluster.members_of(group).start) as u32 + 1;
    order(cluster, group, &VacateMemberRequest { member }).await
}

/// Says that a data server's disk is lost: an empty one may take its place. So it may in a pair that was drained meanwhile.
///
/// # Errors
/// If nobody leads the first group, or takes the order; it may be given again.
pub(super) async fn replace(cluster: &Cluster, pair: usize, member: usize) -> Result<(), String> {
    let order = ReplaceMemberRequest {
        pair: pair as u32,
        member: member as u32,
        cancel: false,
    };
    match self::order(cluster, 0, &order).await {
        Err(why) if why.contains("no store of it to give up") => Ok(()),
        answer => answer,
    }
}

/// Gives an order to whoever leads a group.
async fn order<R: Rpc>(cluster: &Cluster, group: usize, order: &R) -> Result<(), String> {
    let active = cluster.active_address_of(group).ok_or("nobody leads")?;
    let env = cluster.world.node("operator").env();
    let asking = async {
        let connection = connect(cluster, &active, group).await?;
        let answer = ask(&connection, order).await;
        connection.close("the operator is done");
        answer.map(drop)
    };
    let answer = env.timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| Err("the operator is not answered".into()))
}
