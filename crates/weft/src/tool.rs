//! Tools' connection to a server, and how they find their cluster.

use crate::dev::Cluster;
use crate::error::{Error, Result};
use crate::mounts;
use clap::Args;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, Mono};
use weft_rpc::{Attempts, CallError, Connection, Handler, Local, Search, Terms};
use weft_wire::proto::identity::Role;
use weft_wire::proto::{Identity, StatusReply, StatusRequest};
use weft_wire::{Failed, Rpc};

/// A tool's question is answered from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// One attempt to connect and shake hands takes at most this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// While nobody leads, a tool waits this long: several takeovers, even from a member that was cut off,
/// take less.
const LEADER_PATIENCE: Duration = Duration::from_secs(3);
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [PATIENCE, PATIENCE],
};

/// Which cluster a tool asks.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// Address (host:port) of a metadata server.
    #[arg(long, value_name = "ADDRESS")]
    pub meta: Option<String>,
    /// Directory of a `weft dev`.
    #[arg(long, value_name = "DIR", conflicts_with = "meta")]
    pub dir: Option<PathBuf>,
}

/// Where `weft dev` keeps its cluster unless told otherwise.
pub const DEFAULT_DIR: &str = "weft-dev";

impl Where {
    /// Addresses of the metadata servers: those that were named, else those of `./weft-dev`, else those of the
    /// only Weft mount of this machine.
    ///
    /// # Errors
    /// If no cluster, or more than one, can be meant.
    pub fn meta_addresses(&self) -> Result<Vec<String>> {
        if let Some(address) = &self.meta {
            return Ok(vec![address.clone()]);
        }
        if let Some(directory) = &self.dir {
            return match Cluster::load(directory)? {
                Some(cluster) => Ok(cluster.meta_addresses()),
                None => Err(Error::Usage(format!(
                    "{} holds no cluster (it has no cluster.toml)",
                    directory.display()
                ))),
            };
        }
        if let Some(cluster) = Cluster::load(Path::new(DEFAULT_DIR))? {
            return Ok(cluster.meta_addresses());
        }
        let mut found: Vec<Vec<String>> = mounts::all()
            .iter()
            .filter(|mount| mount.is_weft())
            .map(mounts::Mount::meta_addresses)
            .collect();
        found.sort();
        found.dedup();
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(Error::Usage(
                "which cluster? Name a metadata server with --meta HOST:PORT or the directory of a `weft dev` with --dir".into(),
            )),
            _ => Err(Error::Usage(
                "several clusters are mounted here: name one with --meta HOST:PORT or --dir".into(),
            )),
        }
    }

    /// Connects to the first metadata server that answers.
    ///
    /// # Errors
    /// If none can be found or none answers.
    pub async fn connect(&self, env: &Env) -> Result<Tool> {
        connect_first(env, &self.meta_addresses()?).await
    }
}

/// Connects to the first that answers. Whether it is the active shows when it is asked something.
///
/// # Errors
/// If none does.
pub async fn connect_first(env: &Env, addresses: &[String]) -> Result<Tool> {
    if addresses.is_empty() {
        return Err(Error::Usage("the cluster has no metadata servers".into()));
    }
    let search = RefCell::new(Search::new(addresses.to_vec(), TERMS));
    let mut attempts = Attempts::new(env, CONNECT_PATIENCE);
    let (local, refuse) = (local(env), refuse());
    let mut why = None;
    // Each is tried once.
    while why.is_none() || search.borrow().rounds() == 0 || !attempts.is_empty() {
        match attempts.step(&search, &local, &refuse).await {
            Some((_, Ok(connection))) => {
                return Ok(Tool::over(env, search.into_inner(), connection));
            }
            Some((address, Err(error))) => why = Some(unreachable(&address, &error)),
            None => {}
        }
    }
    Err(why.unwrap_or_else(|| Error::Unreachable("no Weft server answers".into())))
}

fn unreachable(address: &str, error: &std::io::Error) -> Error {
    Error::Unreachable(format!("no Weft server answers at {address}: {error}"))
}

fn local(env: &Env) -> Local {
    Local {
        cluster_id: String::new(),
        identity: Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
        },
    }
}

fn refuse() -> Handler {
    Rc::new(|_: &Connection, request: weft_rpc::Request| {
        request
            .replier
            .fail(Failed::Refused("a tool answers nothing".into()));
    })
}

/// A connection to one server, without a session. If that is a metadata server that does not lead, and
/// a request needs the one that does, it goes there.
pub struct Tool {
    env: Env,
    search: RefCell<Search>,
    connection: RefCell<Connection>,
}

impl Tool {
    /// Connects to one server.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no server answers there.
    pub async fn connect(env: &Env, address: &str) -> Result<Tool> {
        let connection = weft_rpc::connect(env, address, &local(env), refuse())
            .await
            .map_err(|error| unreachable(address, &error))?;
        let search = Search::new(vec![address.to_owned()], TERMS);
        Ok(Tool::over(env, search, connection))
    }

    fn over(env: &Env, mut search: Search, connection: Connection) -> Tool {
        search.connected(connection.peer(), Vec::new(), env.now());
        Tool {
            env: env.clone(),
            search: RefCell::new(search),
            connection: RefCell::new(connection),
        }
    }

    /// Asks one question; of whoever leads, if it has to be that one.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no answer comes or nobody leads, [`Error::Failed`] if it is no.
    pub async fn call<R: Rpc>(&self, request: &R) -> Result<R::Reply> {
        let answer = self.ask(request).await;
        // Whoever has answered, or has not: the next search begins anew.
        let (at, now) = (self.connection.borrow().peer().to_owned(), self.env.now());
        self.search.borrow_mut().connected(&at, Vec::new(), now);
        answer
    }

    async fn ask<R: Rpc>(&self, request: &R) -> Result<R::Reply> {
        let deadline = self.env.now() + LEADER_PATIENCE;
        let mut attempts = Attempts::new(&self.env, CONNECT_PATIENCE);
        loop {
            let connection = self.connection.borrow().clone();
            let address = connection.peer();
            let call = connection.call(request, weft_rpc::Payload::none());
            match self.env.timeout(PATIENCE, call).await {
                Ok(Ok((reply, _))) => return Ok(reply),
                Ok(Err(error @ CallError::Failed(Failed::NotActive { .. }))) => {
                    // It did nothing: the same request may be asked again.
                    self.leave(&connection, &error, &mut attempts, deadline)
                        .await?;
                }
                Ok(Err(CallError::Failed(Failed::Errno(errno)))) => {
                    return Err(Error::Failed(
                        std::io::Error::from_raw_os_error(errno).to_string(),
                    ));
                }
                Ok(Err(CallError::Failed(failed))) => {
                    return Err(Error::Failed(format!("{address}: {failed}")));
                }
                Ok(Err(CallError::Lost(why))) => {
                    return Err(Error::Unreachable(format!("{address} went away: {why}")));
                }
                Err(_) => {
                    return Err(Error::Unreachable(format!("{address} does not answer")));
                }
            }
        }
    }

    /// Goes from a server that does not lead to another one.
    async fn leave(
        &self,
        from: &Connection,
        why: &CallError,
        attempts: &mut Attempts,
        deadline: Mono,
    ) -> Result<()> {
        from.close("it does not lead");
        let now = self.env.now();
        self.search.borrow_mut().not_served(from.peer(), why, now);
        let (local, refuse) = (local(&self.env), refuse());
        while self.env.now() < deadline {
            if !self.connection.borrow().same(from) {
                // Another question of this tool has found it.
                return Ok(());
            }
            let step = attempts.step(&self.search, &local, &refuse);
            if let Some((_, Ok(connection))) = step.await {
                *self.connection.borrow_mut() = connection;
                return Ok(());
            }
        }
        let asked = self.search.borrow().addresses().join(", ");
        Err(Error::Unreachable(format!(
            "no metadata server leads now (asked: {asked}): look at `weft status --meta ADDRESS` of \
             each, or wait"
        )))
    }

    /// The cluster's state.
    ///
    /// # Errors
    /// As [`Tool::call`].
    pub async fn status(&self) -> Result<StatusReply> {
        self.call(&StatusRequest {}).await
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.connection.borrow().close("the tool is done");
    }
}
