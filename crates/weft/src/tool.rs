//! Tools' connection to a server, and how they find their cluster.

use crate::dev::Cluster;
use crate::error::{Error, Result};
use crate::mounts;
use clap::Args;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Local};
use weft_wire::proto::identity::Role;
use weft_wire::proto::{Identity, StatusReply, StatusRequest};
use weft_wire::{Failed, Rpc};

/// A tool's question is answered from memory.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Connects to the first that answers.
///
/// # Errors
/// If none does.
pub async fn connect_first(env: &Env, addresses: &[String]) -> Result<Tool> {
    let mut why = Error::Usage("the cluster has no metadata servers".into());
    for address in addresses {
        match Tool::connect(env, address).await {
            Ok(tool) => return Ok(tool),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// A connection to one server, without a session.
pub struct Tool {
    env: Env,
    address: String,
    connection: Connection,
}

impl Tool {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no server answers there.
    pub async fn connect(env: &Env, address: &str) -> Result<Tool> {
        let local = Local {
            cluster_id: String::new(),
            identity: Identity {
                role: Role::Tool as i32,
                id: 0,
                incarnation: env.random(),
            },
        };
        let refuse = Rc::new(|_: &Connection, request: weft_rpc::Request| {
            request
                .replier
                .fail(Failed::Refused("a tool answers nothing".into()));
        });
        let connection = weft_rpc::connect(env, address, &local, refuse)
            .await
            .map_err(|error| {
                Error::Unreachable(format!("no Weft server answers at {address}: {error}"))
            })?;
        Ok(Tool {
            env: env.clone(),
            address: address.to_owned(),
            connection,
        })
    }

    /// Asks one question.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no answer comes, [`Error::Failed`] if it is no.
    pub async fn call<R: Rpc>(&self, request: &R) -> Result<R::Reply> {
        let call = self.connection.call(request, weft_rpc::Payload::none());
        match self.env.timeout(PATIENCE, call).await {
            Ok(Ok((reply, _))) => Ok(reply),
            Ok(Err(CallError::Failed(Failed::Errno(errno)))) => Err(Error::Failed(
                std::io::Error::from_raw_os_error(errno).to_string(),
            )),
            Ok(Err(CallError::Failed(failed))) => {
                Err(Error::Failed(format!("{}: {failed}", self.address)))
            }
            Ok(Err(CallError::Lost(why))) => Err(Error::Unreachable(format!(
                "{} went away: {why}",
                self.address
            ))),
            Err(_) => Err(Error::Unreachable(format!(
                "{} does not answer",
                self.address
            ))),
        }
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
        self.connection.close("the tool is done");
    }
}
