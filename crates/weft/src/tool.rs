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
use weft_types::{FIRST_GROUP, GroupId};
use weft_wire::proto::identity::Role;
use weft_wire::proto::{
    CheckpointsRequest, ExplainRequest, HealthRequest, Identity, JobsRequest, LossesRequest,
    MoveSlotsRequest, SlotsRequest, StatusReply, StatusRequest, SurveyGroupRequest,
    SurveyInodesRequest, SurveyLookRequest, SurveyNamesRequest,
};
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
    /// Addresses (host:port) of metadata servers, with commas between: whichever answers will do. Else WEFT_META says which.
    #[arg(long, value_name = "ADDRESS,...")]
    pub meta: Option<String>,
    /// Directory of a `weft dev`.
    #[arg(long, value_name = "DIR", conflicts_with = "meta")]
    pub dir: Option<PathBuf>,
}

/// Names the metadata servers, as `--meta` does.
const META_VARIABLE: &str = "WEFT_META";
/// The cluster's name (`cluster_id`): servers of another one are not asked.
const CLUSTER_VARIABLE: &str = "WEFT_CLUSTER";
/// What is asked where nothing else says so.
const CLIENT_FILE: &str = "/etc/weft/client.toml";

/// The file for all tools of a machine.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    meta: Vec<String>,
    #[serde(default)]
    cluster_id: String,
}

/// Addresses with commas between.
fn split(addresses: &str) -> Vec<String> {
    let each = addresses.split(',').map(str::trim);
    each.filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A variable of the environment that has been set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where `weft dev` keeps its cluster unless told otherwise.
pub const DEFAULT_DIR: &str = "weft-dev";

impl Where {
    /// Addresses of the metadata servers: those that were named on the command line, else in the environment, else those of
    /// `./weft-dev`, else of [`CLIENT_FILE`], else of the only Weft mount of this machine.
    ///
    /// # Errors
    /// If no cluster, or more than one, can be meant.
    pub fn meta_addresses(&self) -> Result<Vec<String>> {
        if let Some(addresses) = &self.meta {
            return Ok(split(addresses));
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
        if let Some(addresses) = variable(META_VARIABLE) {
            return Ok(split(&addresses));
        }
        if let Some(cluster) = Cluster::load(Path::new(DEFAULT_DIR))? {
            return Ok(cluster.meta_addresses());
        }
        if let Some(file) = client_file()? {
            return Ok(file.meta);
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
            0 => Err(Error::Usage(format!(
                "which cluster? Name metadata servers with --meta HOST:PORT,..., {META_VARIABLE} or {CLIENT_FILE}, or the directory of a `weft dev` with --dir"
            ))),
            _ => Err(Error::Usage(
                "several clusters are mounted here: name one with --meta HOST:PORT or --dir".into(),
            )),
        }
    }

    /// Where nobody has been named, the cluster's name comes from the file that names the servers.
    fn cluster_id(&self) -> Result<String> {
        if let Some(name) = variable(CLUSTER_VARIABLE) {
            return Ok(name);
        }
        let is_named =
            self.meta.is_some() || self.dir.is_some() || variable(META_VARIABLE).is_some();
        if is_named || Cluster::load(Path::new(DEFAULT_DIR))?.is_some() {
            return Ok(String::new());
        }
        Ok(client_file()?.map_or_else(String::new, |file| file.cluster_id))
    }

    /// Connects to the first metadata server that answers.
    ///
    /// # Errors
    /// If none can be found or none answers.
    pub async fn connect(&self, env: &Env) -> Result<Tool> {
        let cluster = self.cluster_id()?;
        connect_to(env, &cluster, FIRST_GROUP, &self.meta_addresses()?).await
    }
}

/// `None`: there is none.
fn client_file() -> Result<Option<ClientFile>> {
    let path = Path::new(CLIENT_FILE);
    match path.try_exists() {
        Ok(true) => crate::config::load(path).map(Some),
        Ok(false) | Err(_) => Ok(None),
    }
}

/// Connects to the first that answers. Whether it is the active shows when it is asked something.
///
/// # Errors
/// If none does.
pub async fn connect_first(env: &Env, addresses: &[String]) -> Result<Tool> {
    connect_to(env, "", FIRST_GROUP, addresses).await
}

/// The same for what this group is to be asked.
async fn connect_to(
    env: &Env,
    cluster: &str,
    group: GroupId,
    addresses: &[String],
) -> Result<Tool> {
    if addresses.is_empty() {
        return Err(Error::Usage("the cluster has no metadata servers".into()));
    }
    let search = RefCell::new(Search::new(addresses.to_vec(), TERMS));
    let mut attempts = Attempts::new(env, CONNECT_PATIENCE);
    let (local, refuse) = (local(env, cluster, group), refuse());
    let mut why = None;
    // Each is tried once.
    while why.is_none() || search.borrow().rounds() == 0 || !attempts.is_empty() {
        match attempts.step(&search, &local, &refuse).await {
            Some((_, Ok(connection))) => {
                let search = search.into_inner();
                return Ok(Tool::over(env, (cluster, group), search, connection));
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

fn local(env: &Env, cluster: &str, group: GroupId) -> Local {
    Local::new(
        cluster.to_owned(),
        Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
            group: group.0,
        },
    )
}

fn refuse() -> Handler {
    Rc::new(|_: &Connection, request: weft_rpc::Request| {
        request
            .replier
            .fail(Failed::Refused("a tool answers nothing".into()));
    })
}

/// Asked twice it does no more than once.
fn is_question<R: Rpc>() -> bool {
    [
        StatusRequest::METHOD,
        HealthRequest::METHOD,
        ExplainRequest::METHOD,
        JobsRequest::METHOD,
        LossesRequest::METHOD,
        SurveyInodesRequest::METHOD,
        SurveyNamesRequest::METHOD,
        SurveyLookRequest::METHOD,
        SurveyGroupRequest::METHOD,
        CheckpointsRequest::METHOD,
        SlotsRequest::METHOD,
        // One that is given twice is as good as one.
        MoveSlotsRequest::METHOD,
    ]
    .contains(&R::METHOD)
}

/// A connection to one server, without a session. If that is a metadata server that does not lead, and
/// a request needs the one that does, or another group's, it goes there.
pub struct Tool {
    env: Env,
    /// The name that the cluster must have; empty: any.
    cluster: String,
    /// Whose active is asked.
    group: GroupId,
    search: RefCell<Search>,
    connection: RefCell<Connection>,
    /// While nobody leads, a question waits this long.
    leader_patience: Duration,
}

impl Tool {
    /// Connects to one server.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no server answers there.
    pub async fn connect(env: &Env, address: &str) -> Result<Tool> {
        Tool::connect_of(env, FIRST_GROUP, address).await
    }

    /// The same for a member of this group.
    ///
    /// # Errors
    /// As [`Tool::connect`].
    pub async fn connect_of(env: &Env, group: GroupId, address: &str) -> Result<Tool> {
        let connection = weft_rpc::connect(env, address, &local(env, "", group), refuse())
            .await
            .map_err(|error| unreachable(address, &error))?;
        let search = Search::new(vec![address.to_owned()], TERMS);
        Ok(Tool::over(env, ("", group), search, connection))
    }

    /// The same for another group: whoever of the known metadata servers answers first says where it is.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if none answers.
    pub async fn of_group(&self, group: GroupId) -> Result<Tool> {
        let addresses = self.search.borrow().addresses();
        connect_to(&self.env, &self.cluster, group, &addresses).await
    }

    /// The same tool, for one who does not wait so long for somebody to lead.
    pub fn impatient(mut self, patience: Duration) -> Tool {
        self.leader_patience = patience;
        self
    }

    fn over(
        env: &Env,
        (cluster, group): (&str, GroupId),
        mut search: Search,
        connection: Connection,
    ) -> Tool {
        search.connected(connection.peer(), Vec::new(), env.now());
        Tool {
            env: env.clone(),
            cluster: cluster.to_owned(),
            group,
            search: RefCell::new(search),
            connection: RefCell::new(connection),
            leader_patience: LEADER_PATIENCE,
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
        let deadline = self.env.now() + self.leader_patience;
        let mut attempts = Attempts::new(&self.env, CONNECT_PATIENCE);
        loop {
            let connection = self.connection.borrow().clone();
            let address = connection.peer();
            let call = connection.call(request, weft_rpc::Payload::none());
            let call = self.env.timeout(PATIENCE, call);
            let local = local(&self.env, &self.cluster, self.group);
            let search = &self.search;
            let asked = weft_rpc::while_active(&self.env, &connection, search, &local, call).await;
            let left = match asked {
                Ok(Ok(Ok((reply, _)))) => return Ok(reply),
                // It did nothing: the same request may be asked again.
                Ok(Ok(Err(error @ CallError::Failed(Failed::NotActive { .. })))) => error,
                Ok(Ok(Err(CallError::Failed(Failed::Errno(errno))))) => {
                    return Err(Error::Failed(
                        std::io::Error::from_raw_os_error(errno).to_string(),
                    ));
                }
                Ok(Ok(Err(CallError::Failed(Failed::Moved { slot, group, .. })))) => {
                    return Err(Error::Moved { slot, group });
                }
                Ok(Ok(Err(CallError::Failed(failed)))) => {
                    return Err(Error::Failed(format!("{address}: {failed}")));
                }
                Ok(Ok(Err(CallError::Lost(why)))) => {
                    return Err(Error::Unreachable(format!("{address} went away: {why}")));
                }
                Ok(Err(_)) => {
                    return Err(Error::Unreachable(format!("{address} does not answer")));
                }
                Err(why) if is_question::<R>() => why,
                Err(why) => {
                    return Err(Error::Unreachable(format!(
                        "{address} did not answer and is not to be waited for ({why}): whether it \
                         has done this is not known. Look at `weft status`, and ask again if it has not"
                    )));
                }
            };
            self.leave(&connection, &left, &mut attempts, deadline)
                .await?;
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
        let (local, refuse) = (local(&self.env, &self.cluster, self.group), refuse());
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
        let of = match self.group {
            FIRST_GROUP => String::new(),
            group => format!(" group {group}"),
        };
        Err(Error::Unreachable(format!(
            "no metadata server leads{of} now (asked: {asked}): look at `weft status --meta ADDRESS` of \
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use weft_rpc::Payload;
    use weft_wire::proto::{LeadsReply, LeadsRequest, StartScrubRequest};

    /// A server that says who leads, and answers for the state of the cluster if it is nobody else.
    async fn server(env: &Env, active: Option<String>) -> (String, Rc<Cell<usize>>) {
        let asked: Rc<Cell<usize>> = Rc::default();
        let counted = asked.clone();
        let handler: Handler = Rc::new(move |_, request| {
            let is_probe = request.method == LeadsRequest::METHOD;
            counted.set(counted.get() + usize::from(!is_probe));
            match &active {
                None if is_probe => request
                    .replier
                    .send::<LeadsRequest>(&LeadsReply {}, Payload::none()),
                None => request
                    .replier
                    .send::<StatusRequest>(&StatusReply::default(), Payload::none()),
                Some(active) => request.replier.fail(Failed::NotActive {
                    active: active.clone(),
                    members: Vec::new(),
                }),
            }
        });
        let serving = weft_rpc::serve(
            env,
            "127.0.0.1:0",
            local(env, "", FIRST_GROUP),
            |_| {},
            handler,
        );
        (serving.await.unwrap(), asked)
    }

    /// An address at which nobody listens.
    async fn nobody(env: &Env) -> String {
        env.listen("127.0.0.1:0").await.unwrap().address()
    }

    #[test]
    fn a_tool_goes_where_it_is_sent_and_stays_there() {
        weft_env::real::run(async |env| {
            let (active, asked) = server(&env, None).await;
            let (other, turned_away) = server(&env, Some(active)).await;
            // One that was named, as for `--meta`, and the first of several that answers.
            for tool in [
                Tool::connect(&env, &other).await,
                connect_first(&env, &[nobody(&env).await, other]).await,
            ] {
                let tool = tool.unwrap();
                tool.status().await.unwrap();
                tool.status().await.unwrap();
            }
            assert_eq!((turned_away.get(), asked.get()), (2, 4));
        })
        .unwrap();
    }

    #[test]
    fn without_a_hint_the_others_are_asked() {
        weft_env::real::run(async |env| {
            let (other, _) = server(&env, Some(String::new())).await;
            let (active, _) = server(&env, None).await;
            let tool = connect_first(&env, &[other, active]).await.unwrap();
            tool.status().await.unwrap();
        })
        .unwrap();
    }

    #[test]
    fn that_nobody_leads_is_said_with_what_to_do() {
        weft_env::real::run(async |env| {
            let (a, _) = server(&env, Some(String::new())).await;
            let (b, of_b) = server(&env, Some(a.clone())).await;
            let gone = nobody(&env).await;
            let addresses = [a, b, gone];
            let mut tool = connect_first(&env, &addresses).await.unwrap();
            tool.leader_patience = Duration::from_millis(100);
            let error = tool.status().await.unwrap_err();
            assert_eq!(error.exit_code(), 3);
            let text = error.to_string();
            for part in ["no metadata server leads now", "`weft status", "wait"] {
                assert!(text.contains(part), "{text}");
            }
            for address in &addresses {
                assert!(text.contains(address.as_str()), "{text}");
            }
            assert!(of_b.get() > 0);
        })
        .unwrap();
    }

    /// A server of a group, that sends whoever wants another one's to `other`.
    async fn server_of(env: &Env, group: GroupId, other: Option<String>) -> String {
        let handler: Handler = Rc::new(move |connection: &Connection, request| {
            let wanted = connection.identity().group;
            if wanted != group.0 {
                return request.replier.fail(Failed::NotActive {
                    active: other.clone().unwrap_or_default(),
                    members: Vec::new(),
                });
            }
            let reply = StatusReply {
                epoch: u64::from(group.0) + 100,
                ..StatusReply::default()
            };
            request
                .replier
                .send::<StatusRequest>(&reply, Payload::none());
        });
        let serving = weft_rpc::serve(env, "127.0.0.1:0", local(env, "", group), |_| {}, handler);
        serving.await.unwrap()
    }

    #[test]
    fn each_group_is_found_whichever_was_named() {
        weft_env::real::run(async |env| {
            let second = server_of(&env, GroupId(1), None).await;
            let first = server_of(&env, GroupId(0), Some(second)).await;
            let tool = connect_first(&env, &[first]).await.unwrap();
            assert_eq!(tool.status().await.unwrap().epoch, 100);
            let second = tool.of_group(GroupId(1)).await.unwrap();
            assert_eq!(second.status().await.unwrap().epoch, 101);
            let mut third = tool.of_group(GroupId(2)).await.unwrap();
            third.leader_patience = Duration::from_millis(100);
            let why = third.status().await.unwrap_err();
            assert_eq!(why.exit_code(), 3);
            assert!(why.to_string().contains("leads group 2"), "{why}");
        })
        .unwrap();
    }

    /// A server that shakes hands, and answers nothing.
    async fn stuck(env: &Env) -> String {
        let unanswered = RefCell::new(Vec::new());
        let handler: Handler = Rc::new(move |_, request| unanswered.borrow_mut().push(request));
        let serving = weft_rpc::serve(
            env,
            "127.0.0.1:0",
            local(env, "", FIRST_GROUP),
            |_| {},
            handler,
        );
        serving.await.unwrap()
    }

    #[test]
    fn one_that_hangs_is_left_for_one_that_leads() {
        weft_env::real::run(async |env| {
            let (active, asked) = server(&env, None).await;
            for is_change in [false, true] {
                let addresses = [stuck(&env).await, active.clone()];
                let tool = connect_first(&env, &addresses).await.unwrap();
                let began = env.now();
                if is_change {
                    // It may have done it.
                    let change = StartScrubRequest::default();
                    let error = tool.call(&change).await.unwrap_err();
                    assert_eq!(error.exit_code(), 3);
                    assert!(error.to_string().contains("not known"), "{error}");
                } else {
                    tool.status().await.unwrap();
                }
                assert!(env.now().since(began) < PATIENCE);
            }
            assert_eq!(asked.get(), 1);
        })
        .unwrap();
    }

    #[test]
    fn that_nobody_answers_is_said_at_once() {
        weft_env::real::run(async |env| {
            let gone = [nobody(&env).await, nobody(&env).await];
            let Err(error) = connect_first(&env, &gone).await else {
                panic!("somebody answers");
            };
            assert_eq!(error.exit_code(), 3);
            assert!(error.to_string().contains(&gone[1]), "{error}");
        })
        .unwrap();
    }
}
