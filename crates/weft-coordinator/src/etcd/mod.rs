//! The view in etcd, by its version 3 interface.
//!
//! ```text
//! <prefix>/<cluster id>/view          the record; its mod_revision is what a change is conditional on
//! <prefix>/<cluster id>/alive/<name>  a key with the lease of whoever announced the name; its create_revision
//!                                     is the incarnation
//! ```
//! Prefix, cluster id and names are escaped, so that none of them has a slash.

mod rpc;
mod servers;

use crate::{
    Announcement, Answer, CoordinatorError, Holder, Limits, Listing, Record, Reply, Service,
    Unanswered, ViewKeeper, name,
};
use futures_util::{FutureExt, select_biased};
use rpc::{
    Compare, KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest, RangeRequest,
    RangeResponse, RequestOp, ResponseHeader, TxnRequest, TxnResponse, WatchCreateRequest,
};
use servers::Servers;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;

/// A coordinator in an etcd cluster.
pub type Etcd = ViewKeeper<Keys>;

impl Etcd {
    /// Uses the cluster of these servers (`host:port`). Nothing is asked yet: a server that is away now
    /// may be back when it is needed.
    ///
    /// # Errors
    /// If there is no address, or one is none.
    pub fn open(
        env: &Env,
        servers: &[String],
        prefix: &str,
        cluster_id: &str,
        limits: Limits,
    ) -> Result<Etcd, CoordinatorError> {
        if servers.is_empty() {
            return Err(CoordinatorError::Settings(
                "etcd needs the address of a server: etcd://host:port,host:port/prefix".to_owned(),
            ));
        }
        name::check("the prefix", prefix)?;
        name::check("the cluster id", cluster_id)?;
        let (prefix, cluster) = (name::escape(prefix), name::escape(cluster_id));
        let keys = Keys {
            env: env.clone(),
            servers: Rc::new(Servers::new(env, servers, limits.attempt())?),
            root: format!("{prefix}/{cluster}"),
        };
        Ok(ViewKeeper::new(env, keys, limits.answer()))
    }
}

/// The keys of a coordinator.
pub struct Keys {
    env: Env,
    servers: Rc<Servers>,
    root: String,
}

impl Keys {
    fn view_key(&self) -> Vec<u8> {
        format!("{}/view", self.root).into_bytes()
    }

    fn alive_key(&self, name: &str) -> Vec<u8> {
        format!("{}/alive/{}", self.root, name::escape(name)).into_bytes()
    }

    /// The keys of all announcements: from the first to behind the last.
    fn alive_range(&self) -> (Vec<u8>, Vec<u8>) {
        let bound = |end| format!("{}/alive{end}", self.root).into_bytes();
        // What follows '/' in ASCII.
        (bound('/'), bound('0'))
    }

    async fn ask<Q, A>(&self, method: &'static str, request: &Q) -> Result<A, Unanswered>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + Send + 'static,
    {
        self.servers.ask(method, request, Duration::MAX).await
    }

    async fn read_record(&self) -> Result<Record, Unanswered> {
        let request = RangeRequest {
            key: self.view_key(),
            ..Default::default()
        };
        let response: RangeResponse = self.ask(rpc::RANGE, &request).await?;
        let seen = revision(response.header);
        Ok(match response.kvs.into_iter().next() {
            None => Record {
                seen,
                ..Record::default()
            },
            Some(kept) => Record {
                bytes: kept.value,
                revision: number(kept.mod_revision),
                seen,
            },
        })
    }

    async fn replace(&self, revision: u64, bytes: Vec<u8>) -> Result<bool, Unanswered> {
        let request = TxnRequest {
            compare: vec![Compare {
                target: rpc::TARGET_MOD,
                key: self.view_key(),
                mod_revision: Some(signed(revision)),
                create_revision: None,
            }],
            success: vec![put(self.view_key(), bytes, 0)],
            failure: vec![],
        };
        // One server: a no of the second could be due to what the first has done without answering.
        let asked = self.servers.ask_once(rpc::TXN, &request, Duration::MAX);
        let response: TxnResponse = asked.await?;
        Ok(response.succeeded)
    }

    async fn read_list(&self) -> Result<Listing, Unanswered> {
        let (key, range_end) = self.alive_range();
        let prefix = key.len();
        let request = RangeRequest { key, range_end };
        let response: RangeResponse = self.ask(rpc::RANGE, &request).await?;
        let named = |kept: KeyValue| {
            let escaped = String::from_utf8(kept.key.get(prefix..)?.to_vec()).ok()?;
            Some((name::unescape(&escaped)?, number(kept.create_revision)))
        };
        Ok(Listing {
            seen: revision(response.header),
            announced: response.kvs.into_iter().filter_map(named).collect(),
        })
    }

    async fn changed(&self, key: Vec<u8>, range_end: Vec<u8>, seen: u64) -> Result<(), Unanswered> {
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: signed(seen + 1),
        };
        self.servers.changed(create).await
    }

    async fn take(&self, name: &str, term_ms: u64) -> Result<Announcement, CoordinatorError> {
        let unavailable = |Unanswered(why)| CoordinatorError::Unavailable(why);
        let request = LeaseGrantRequest {
            ttl: signed(term_ms.div_ceil(1000).max(1)),
        };
        let granted: LeaseGrantResponse = self
            .ask(rpc::LEASE_GRANT, &request)
            .await
            .map_err(unavailable)?;
        let lease = granted.id;
        // If this does not come to its end, nobody keeps the lease alive, and what it may have left
        // vanishes with it.
        let incarnation = match self.put_under(name, lease).await {
            Ok(Some(incarnation)) => incarnation,
            Ok(None) => {
                self.revoke_later(lease);
                return Err(CoordinatorError::Taken {
                    name: name.to_owned(),
                });
            }
            Err(silent) => {
                self.revoke_later(lease);
                return Err(unavailable(silent));
            }
        };
        let term_ms = number(granted.ttl) * 1000;
        let (announcement, holder) = Announcement::new(name, incarnation, term_ms);
        let renewing = renew(
            self.env.clone(),
            self.servers.clone(),
            lease,
            Duration::from_millis(term_ms),
            holder,
        );
        self.env.spawn("announcement", renewing);
        Ok(announcement)
    }

    /// Puts the name's key under the lease, unless it is there, and returns its incarnation.
    async fn put_under(&self, name: &str, lease: i64) -> Result<Option<u64>, Unanswered> {
        let key = self.alive_key(name);
        // Which of two sendings took effect does not matter: the lease tells whose the key is.
        let mark = lease.to_string().into_bytes();
        let request = TxnRequest {
            compare: vec![Compare {
                target: rpc::TARGET_CREATE,
                key: key.clone(),
                create_revision: Some(0),
                mod_revision: None,
            }],
            success: vec![put(key.clone(), mark.clone(), lease)],
            failure: vec![RequestOp {
                range: Some(RangeRequest {
                    key,
                    range_end: vec![],
                }),
                put: None,
            }],
        };
        let response: TxnResponse = self.ask(rpc::TXN, &request).await?;
        if response.succeeded {
            return Ok(Some(revision(response.header)));
        }
        let found = response.responses.into_iter().find_map(|found| found.range);
        let ours = found
            .into_iter()
            .flat_map(|range| range.kvs)
            .find(|kept| kept.value == mark);
        Ok(ours.map(|kept| number(kept.create_revision)))
    }

    /// Nobody waits for it: what is not revoked ends with its term.
    fn revoke_later(&self, lease: i64) {
        let servers = self.servers.clone();
        self.env.spawn("revocation of a lease", async move {
            let _: Result<(), Unanswered> = revoke(&servers, lease).await;
        });
    }
}

/// Keeps a lease alive until it is to be withdrawn, or is no more.
async fn renew(env: Env, servers: Rc<Servers>, lease: i64, term: Duration, holder: Holder) {
    // Two attempts, each at several servers, before a term has passed.
    let (pause, limit) = (term / 3, term / 6);
    loop {
        select_biased! {
            () = holder.withdrawing().fuse() => {
                // What is not revoked ends with its term.
                let _: Result<(), Unanswered> = revoke(&servers, lease).await;
                return;
            }
            () = env.sleep(pause).fuse() => {}
        }
        let request = LeaseKeepAliveRequest { id: lease };
        let renewed: Result<LeaseKeepAliveResponse, _> =
            servers.ask(rpc::LEASE_KEEP_ALIVE, &request, limit).await;
        if matches!(renewed, Ok(renewed) if renewed.ttl <= 0) {
            return;
        }
    }
}

async fn revoke(servers: &Servers, lease: i64) -> Result<(), Unanswered> {
    let request = LeaseRevokeRequest { id: lease };
    let revoked: Result<LeaseRevokeResponse, _> = servers
        .ask(rpc::LEASE_REVOKE, &request, Duration::MAX)
        .await;
    revoked.map(|_| ())
}

fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> RequestOp {
    RequestOp {
        range: None,
        put: Some(PutRequest { key, value, lease }),
    }
}

fn revision(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| number(header.revision))
}

/// etcd's revisions and times are signed and never negative.
fn number(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Service for Keys {
    fn place(&self) -> String {
        format!("{} in etcd at {}", self.root, self.servers.addresses())
    }

    fn read(&self) -> Reply<'_, Record> {
        Box::pin(self.read_record())
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        Box::pin(self.replace(revision, bytes))
    }

    fn record_changed(&self, seen: u64) -> Reply<'_, ()> {
        Box::pin(self.changed(self.view_key(), vec![], seen))
    }

    fn list(&self) -> Reply<'_, Listing> {
        Box::pin(self.read_list())
    }

    fn list_changed(&self, seen: u64) -> Reply<'_, ()> {
        let (key, end) = self.alive_range();
        Box::pin(self.changed(key, end, seen))
    }

    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(self.take(name, term_ms))
    }
}
