//! Gateways in a simulated cluster.
#![allow(dead_code, reason = "each test uses its part")]

use crate::group::{CLUSTER, Group, MS, SECOND};
use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use weft_nfs::{ExportSettings, Gateway, Rule, Settings, Squash};
use weft_oncrpc::Credential;
use weft_sim::{Node, World};
use weft_xdr::rpc::authsys_parms;

pub fn user(uid: u32) -> Credential {
    Credential::Sys(authsys_parms {
        stamp: 0,
        machinename: Bytes::from_static(b"client"),
        uid,
        gid: uid,
        gids: Vec::new(),
    })
}

pub fn export(path: &str, rule: Rule) -> ExportSettings {
    ExportSettings {
        path: path.into(),
        id: None,
        rules: vec![Rule {
            clients: vec!["*".into()],
            // Simulated connections have no ports of root's.
            privileged_ports: false,
            ..rule
        }],
    }
}

pub fn believed() -> Rule {
    Rule {
        squash: Squash::None,
        privileged_ports: false,
        ..Rule::default()
    }
}

/// A gateway on a node of its own.
pub struct Gate {
    pub node: Node,
    pub slot: Rc<RefCell<Option<Gateway>>>,
    pub settings: Settings,
}

impl Gate {
    pub async fn start(
        world: &World,
        group: &Group,
        name: &str,
        exports: Vec<ExportSettings>,
    ) -> Gate {
        let lease_seconds = Settings::default().lease_seconds;
        Gate::start_with(world, group, name, exports, lease_seconds).await
    }

    /// With another lease for its clients.
    pub async fn start_with(
        world: &World,
        group: &Group,
        name: &str,
        exports: Vec<ExportSettings>,
        lease_seconds: u32,
    ) -> Gate {
        let mut settings = Settings {
            lease_seconds,
            listen: format!("{name}:2049"),
            metrics_listen: format!("{name}:9049"),
            exports,
            ..Settings::default()
        };
        settings.client.meta = group.addresses();
        settings.client.cluster_id = CLUSTER.into();
        settings.client.name = name.into();
        let gate = Gate {
            node: world.node(name),
            slot: Rc::default(),
            settings,
        };
        gate.begin(world).await;
        gate
    }

    pub async fn begin(&self, world: &World) {
        let (slot, settings) = (self.slot.clone(), self.settings.clone());
        self.node.start(|env| async move {
            let gateway = weft_nfs::start(env, settings).await.unwrap();
            slot.replace(Some(gateway));
        });
        while self.slot.borrow().is_none() {
            world.sleep(MS).await;
        }
    }

    pub fn kill(&self) {
        self.node.kill();
        // Only now, when nothing that its destructors do has an effect.
        self.slot.take();
    }
}

/// A cluster with gateways `gate1`, `gate2`, ... that export everything to everybody.
pub async fn cluster<const GATEWAYS: usize>(
    world: &World,
) -> (Rc<Group>, impl Sized, [Gate; GATEWAYS]) {
    let group = Group::started(world, 3).await;
    let servers = group.pair().await;
    world.sleep(SECOND).await;
    let mut gates = Vec::new();
    for number in 1..=GATEWAYS {
        let all = vec![export("/", believed())];
        gates.push(Gate::start(world, &group, &format!("gate{number}"), all).await);
    }
    let gates = gates.try_into().ok().unwrap();
    (group, servers, gates)
}
