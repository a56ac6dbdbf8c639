//! Settings of a gateway, as they stand in a configuration file.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use weft_env::Address;

/// How long operations wait for servers that do not answer: NFS clients wait with them, and know no pause but that.
const PATIENCE_MS: u64 = 600_000;

/// A gateway that is gone has its leases for no longer: whoever takes its place waits for them.
const SESSION_TERM_MS: u64 = 1_500;

/// Less than other servers take: a client that is gone is in nobody's way for long, and so is what a dead gateway had given
/// to one that has nothing to do. Clients say a word after two thirds of it.
const LEASE_SECONDS: u32 = 20;

/// Settings of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Address (`host:port`) for NFS, MOUNT and GETPORT.
    pub listen: String,
    /// Address (`host:port`) for the metrics page; empty: none.
    pub metrics_listen: String,
    /// Seconds for which clients of version 4 that are not heard of keep their opens and locks.
    pub lease_seconds: u32,
    /// What may be mounted. Empty: nothing.
    #[serde(rename = "export")]
    pub exports: Vec<ExportSettings>,
    /// The client behind it.
    pub client: weft_client::Settings,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: "0.0.0.0:2049".into(),
            metrics_listen: String::new(),
            lease_seconds: LEASE_SECONDS,
            exports: Vec::new(),
            client: weft_client::Settings {
                patience_ms: PATIENCE_MS,
                session_term_ms: SESSION_TERM_MS,
                ..weft_client::Settings::default()
            },
        }
    }
}

/// A directory that may be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSettings {
    /// Where it is in the name space.
    pub path: String,
    /// Its number in file handles: the same at all gateways. By default one that follows from the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Who may have it: the first rule that an address fits counts. Empty: nobody.
    #[serde(rename = "rule", default)]
    pub rules: Vec<Rule>,
}

/// What clients of some addresses may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Addresses and networks (`10.1.0.0/16`); `*` is everybody.
    pub clients: Vec<String>,
    /// All changes are refused.
    pub read_only: bool,
    /// Whose identity is not believed.
    pub squash: Squash,
    /// Who those are instead.
    pub anonymous_uid: u32,
    /// Their group.
    pub anonymous_gid: u32,
    /// Only calls from ports below 1024 are served, which only root of a machine can have: a client's kernel says there
    /// who its users are. Without it any program of an address may say that it is anybody.
    pub privileged_ports: bool,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            clients: Vec::new(),
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: 65534,
            anonymous_gid: 65534,
            privileged_ports: true,
        }
    }
}

/// Whose identity is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Everybody is believed.
    None,
    /// Root is anonymous.
    Root,
    /// Everybody is anonymous.
    All,
}

/// Some addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Any,
    Of(IpNet),
}

impl Network {
    /// As it stands in the settings.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Network, String> {
        if text == "*" {
            return Ok(Network::Any);
        }
        let net = match text.parse::<IpAddr>() {
            Ok(address) => Some(IpNet::from(address)),
            Err(_) => text.parse::<IpNet>().ok(),
        };
        net.map(Network::Of).ok_or_else(|| {
            format!("{text:?} is no address: write 10.1.2.3, a network as 10.1.0.0/16, or * for everybody")
        })
    }

    /// An address is in it. Addresses of IPv4 that come as such of IPv6 are those of IPv4.
    pub(crate) fn has(&self, address: Option<IpAddr>) -> bool {
        match self {
            Network::Any => true,
            Network::Of(net) => address.is_some_and(|it| net.contains(&it.to_canonical())),
        }
    }
}

/// Clients renew every third part or so of what they are told.
const LEASES: RangeInclusive<u32> = 3..=3600;

impl Settings {
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds))
    }

    /// Whether they make sense.
    ///
    /// # Errors
    /// What does not, and what to write instead.
    pub fn check(&self) -> Result<(), String> {
        crate::exports::Exports::of(&self.exports).map(drop)?;
        if !LEASES.contains(&self.lease_seconds) {
            let (least, most) = (LEASES.start(), LEASES.end());
            return Err(format!("lease_seconds: from {least} to {most}"));
        }
        let listen = Address::to_listen(&self.listen).map_err(|why| format!("listen: {why}"))?;
        if !self.metrics_listen.is_empty() {
            let metrics = Address::to_listen(&self.metrics_listen)
                .map_err(|why| format!("metrics_listen: {why}"))?;
            if metrics == listen && metrics.port != 0 {
                return Err("metrics_listen is the address of listen: take another port".into());
            }
        }
        self.client.check().map_err(|why| format!("client: {why}"))
    }
}
