//! The view in ZooKeeper.
//!
//! ```text
//! /<prefix>/<cluster id>/view          the record; its data version is what a change is conditional on
//! /<prefix>/<cluster id>/alive/<name>  ephemeral, in a session of its own; its czxid is the incarnation
//! ```
//! Prefix, cluster id and names are escaped, so that none of them has a slash.
//!
//! Two kinds of sessions. The one of the view matters to nobody: when it ends another is opened. Those of
//! announcements are what keeps these alive, each with the announcement's term.

use crate::{
    Announced, Announcement, Answer, CoordinatorError, Holder, Limits, Listing, Record, Reply,
    Service, Unanswered, ViewKeeper, name,
};
use futures_util::future::join_all;
use futures_util::{FutureExt, select_biased};
use std::cell::RefCell;
use std::time::Duration;
use tokio::sync::Mutex;
use weft_env::{Elapsed, Env};
use zookeeper_client::{Acls, Client, Connector, CreateMode, Error, SessionInfo};

/// Of the session in which the view is read and changed: nothing depends on how long it lasts.
const VIEW_SESSION: Duration = Duration::from_secs(10);
/// Between two attempts to take up the session of an announcement again.
const PAUSE: Duration = Duration::from_millis(200);

/// How often a question is asked before it counts as not answered; as many fit into the time for a call.
const ATTEMPTS: u32 = 3;

/// A coordinator in a ZooKeeper ensemble.
pub type ZooKeeper = ViewKeeper<Nodes>;

impl ZooKeeper {
    /// Uses the ensemble of these servers (`host:port`). Nothing is asked yet: a server that is away now
    /// may be back when it is needed.
    ///
    /// # Errors
    /// If there is no address.
    pub fn open(
        env: &Env,
        servers: &[String],
        prefix: &str,
        cluster_id: &str,
        limits: Limits,
    ) -> Result<ZooKeeper, CoordinatorError> {
        if servers.is_empty() {
            return Err(CoordinatorError::Settings(
                "ZooKeeper needs the address of a server: zookeeper://host:port,host:port/prefix"
                    .to_owned(),
            ));
        }
        name::check("the prefix", prefix)?;
        name::check("the cluster id", cluster_id)?;
        let (prefix, cluster) = (name::escape(prefix), name::escape(cluster_id));
        let root = format!("/{prefix}/{cluster}");
        let nodes = Nodes {
            env: env.clone(),
            servers: servers.join(","),
            view: format!("{root}/view"),
            alive: format!("{root}/alive"),
            attempt: limits.attempt(),
            client: RefCell::default(),
            connecting: Mutex::default(),
        };
        Ok(ViewKeeper::new(env, nodes, limits.answer()))
    }
}

/// The nodes of a coordinator.
pub struct Nodes {
    env: Env,
    servers: String,
    view: String,
    alive: String,
    /// How long one server may be silent before the next is asked.
    attempt: Duration,
    client: RefCell<Option<Client>>,
    /// One connects, the others wait for it.
    connecting: Mutex<()>,
}

impl Nodes {
    fn connector(&self, session: Duration) -> Connector {
        Client::connector()
            .with_session_timeout(session)
            .with_connection_timeout(self.attempt.min(session / 2))
            .with_fail_eagerly()
    }

    fn unanswered(&self, error: &Error) -> Unanswered {
        Unanswered(format!("ZooKeeper at {}: {error}", self.servers))
    }

    /// A reply of the library, within the time for one attempt: it holds back what is asked while it
    /// has no connection.
    async fn limited<T>(
        &self,
        reply: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Unanswered> {
        match self.env.timeout(self.attempt, reply).await {
            Ok(replied) => Ok(replied),
            Err(Elapsed) => Err(Unanswered(format!(
                "ZooKeeper at {}: no answer within {} ms",
                self.servers,
                self.attempt.as_millis()
            ))),
        }
    }

    async fn get<T>(&self, reply: impl Future<Output = Result<T, Error>>) -> Result<T, Unanswered> {
        let replied = self.limited(reply).await?;
        replied.map_err(|error| self.unanswered(&error))
    }

    /// The session of the view, with the nodes made.
    async fn client(&self) -> Result<Client, Unanswered> {
        let _turn = self.connecting.lock().await;
        if let Some(client) = &*self.client.borrow()
            && !client.state().is_terminated()
        {
            return Ok(client.clone());
        }
        let client = self
            .get(self.connector(VIEW_SESSION).connect(&self.servers))
            .await?;
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.get(client.mkdir(&self.alive, &open)).await?;
        match self.limited(client.create(&self.view, &[], &open)).await? {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(self.unanswered(&error)),
        }
        *self.client.borrow_mut() = Some(client.clone());
        Ok(client)
    }

    async fn read_record(&self) -> Result<Record, Unanswered> {
        let client = self.client().await?;
        // Sent together, answered in order: the server has caught up with its leader when it reads.
        let (_, (bytes, stat)) = futures_util::try_join!(
            self.get(client.sync(&self.view)),
            self.get(client.get_data(&self.view))
        )?;
        Ok(Record {
            bytes,
            revision: number(stat.version.into()),
            seen: number(stat.mzxid),
        })
    }

    async fn replace(&self, revision: u64, bytes: Vec<u8>) -> Result<bool, Unanswered> {
        let client = self.client().await?;
        let version = i32::try_from(revision).map_err(|_| {
            Unanswered(format!(
                "revision {revision} of {} is none of ZooKeeper's",
                self.view
            ))
        })?;
        let set = client.set_data(&self.view, &bytes, Some(version));
        match self.limited(set).await? {
            Ok(_) => Ok(true),
            Err(Error::BadVersion) => Ok(false),
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    /// The read that arms the watch tells whether the record has changed before that.
    async fn wait_record(&self, seen: u64) -> Result<(), Unanswered> {
        let client = self.client().await?;
        let (_, stat, watcher) = self.get(client.get_and_watch_data(&self.view)).await?;
        if number(stat.mzxid) <= seen {
            watcher.changed().await;
        }
        Ok(())
    }

    async fn read_list(&self) -> Result<Listing, Unanswered> {
        let client = self.client().await?;
        let (_, (children, stat)) = futures_util::try_join!(
            self.get(client.sync(&self.alive)),
            self.get(client.get_children(&self.alive))
        )?;
        let stats = children.iter().map(|child| {
            let (client, path) = (&client, format!("{}/{child}", self.alive));
            async move { self.get(client.check_stat(&path)).await }
        });
        let mut announced = Announced::new();
        for (child, stat) in children.iter().zip(join_all(stats).await) {
            // One that is gone since is not announced.
            if let (Some(name), Some(stat)) = (name::unescape(child), stat?) {
                announced.insert(name, number(stat.czxid));
            }
        }
        Ok(Listing {
            announced,
            seen: number(stat.pzxid),
        })
    }

    async fn wait_list(&self, seen: u64) -> Result<(), Unanswered> {
        let client = self.client().await?;
        let watching = client.get_and_watch_children(&self.alive);
        let (_, stat, watcher) = self.get(watching).await?;
        if number(stat.pzxid) <= seen {
            watcher.changed().await;
        }
        Ok(())
    }

    async fn take(&self, name: &str, term: Duration) -> Result<Announcement, CoordinatorError> {
        let unavailable = |Unanswered(why)| CoordinatorError::Unavailable(why);
        // Makes the nodes.
        self.client().await.map_err(unavailable)?;
        let connecting = self.connector(term).connect(&self.servers);
        let client = self.get(connecting).await.map_err(unavailable)?;
        let path = format!("{}/{}", self.alive, name::escape(name));
        let incarnation = self.create(&client, &path).await.map_err(unavailable)?;
        let Some(incarnation) = incarnation else {
            return Err(CoordinatorError::Taken {
                name: name.to_owned(),
            });
        };
        let granted = client.session_timeout();
        let term_ms = u64::try_from(granted.as_millis()).unwrap_or(u64::MAX);
        let (announcement, holder) = Announcement::new(name, incarnation, term_ms);
        let session = Session {
            env: self.env.clone(),
            connector: self.connector(granted),
            servers: self.servers.clone(),
            path,
            attempt: self.attempt,
        };
        self.env.spawn("announcement", session.hold(client, holder));
        Ok(announcement)
    }

    /// Makes the node of an announcement in the client's session, unless it is there, and returns its
    /// incarnation. Whose it is its owner tells, also when the answer to our creation was lost.
    async fn create(&self, client: &Client, path: &str) -> Result<Option<u64>, Unanswered> {
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let mut created = self.limited(client.create(path, &[], &ephemeral)).await;
        if !matches!(created, Ok(Ok(_) | Err(Error::NodeExists))) {
            created = self.limited(client.create(path, &[], &ephemeral)).await;
        }
        match created? {
            Ok((stat, _)) => Ok(Some(number(stat.czxid))),
            Err(Error::NodeExists) => {
                let owner = client.session_id().0;
                let stat = self.get(client.check_stat(path)).await?;
                let ours = stat.filter(|stat| stat.ephemeral_owner == owner);
                Ok(ours.map(|stat| number(stat.czxid)))
            }
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    /// Tries again what may be repeated: a connection that breaks takes with it what was asked over it,
    /// and the next one may be to a server that answers.
    async fn insist<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, Unanswered>,
    ) -> Result<T, Unanswered> {
        for _ in 1..ATTEMPTS {
            if let Ok(answer) = ask().await {
                return Ok(answer);
            }
        }
        ask().await
    }
}

/// The session of one announcement.
struct Session {
    env: Env,
    connector: Connector,
    servers: String,
    path: String,
    attempt: Duration,
}

impl Session {
    /// Keeps the session until the announcement is to be withdrawn, or the service has ended it.
    async fn hold(self, mut client: Client, holder: Holder) {
        loop {
            let mut states = client.state_watcher();
            while !client.state().is_terminated() {
                select_biased! {
                    () = holder.withdrawing().fuse() => {
                        // What is not deleted ends with the session, which is closed with the client.
                        let deleted = client.delete(&self.path, None);
                        let _: Result<_, Elapsed> = self.env.timeout(self.attempt, deleted).await;
                        return;
                    }
                    _ = states.changed().fuse() => {}
                }
            }
            // The library gives a session up by its own clock, also while no server answers. Whether it
            // has ended is for the service to say.
            match self.take_up(client.session().clone(), &holder).await {
                Some(again) => client = again,
                None => return,
            }
        }
    }

    /// Connects to the same session again; `None` if the service has ended it, or nobody wants it.
    async fn take_up(&self, info: SessionInfo, holder: &Holder) -> Option<Client> {
        loop {
            let connector = self.connector.clone().with_session(info.clone());
            let connecting = self
                .env
                .timeout(self.attempt, connector.connect(&self.servers));
            select_biased! {
                () = holder.withdrawing().fuse() => return None,
                connected = connecting.fuse() => match connected {
                    Ok(Ok(client)) => return Some(client),
                    Ok(Err(Error::SessionExpired)) => return None,
                    Ok(Err(_)) | Err(Elapsed) => {}
                }
            }
            self.env.sleep(PAUSE).await;
        }
    }
}

/// ZooKeeper's ids of transactions and versions are signed and not negative.
fn number(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

impl Service for Nodes {
    fn place(&self) -> String {
        format!("{} in ZooKeeper at {}", self.view, self.servers)
    }

    fn read(&self) -> Reply<'_, Record> {
        Box::pin(self.insist(|| self.read_record()))
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        Box::pin(self.replace(revision, bytes))
    }

    fn record_changed(&self, seen: u64) -> Reply<'_, ()> {
        Box::pin(self.wait_record(seen))
    }

    fn list(&self) -> Reply<'_, Listing> {
        Box::pin(self.insist(|| self.read_list()))
    }

    fn list_changed(&self, seen: u64) -> Reply<'_, ()> {
        Box::pin(self.wait_list(seen))
    }

    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(self.take(name, Duration::from_millis(term_ms)))
    }
}
