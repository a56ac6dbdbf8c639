//! Connections to the actives of other groups: one each, made when it is first needed, looked for again
//! when it breaks or its server does not lead any more.

use crate::group::view;
use crate::reign::Meta;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_rpc::{Attempts, CallError, Connection, Handler, Local, Payload, Search, Terms};
use weft_types::GroupId;
use weft_wire::proto::{Identity, LeadsRequest, identity::Role};
use weft_wire::{Failed, Rpc};

/// One attempt to connect and shake hands takes at most this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// As for a client: somebody waits.
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(250), Duration::from_secs(2)],
};
/// A group that the view does not have yet is looked for there again after this.
const UNKNOWN_RETRY: Duration = Duration::from_millis(100);

/// The way to one group's active.
#[derive(Default)]
struct Link {
    connection: RefCell<Option<Connection>>,
    connected: Notify,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Links(RefCell<BTreeMap<GroupId, Rc<Link>>>);

impl Link {
    fn current(&self) -> Option<Connection> {
        let connection = self.connection.borrow();
        connection.as_ref().filter(|it| it.is_open()).cloned()
    }

    async fn connected(&self) -> Connection {
        loop {
            let connected = self.connected.notified();
            if let Some(connection) = self.current() {
                return connection;
            }
            connected.await;
        }
    }
}

impl Meta {
    fn link_to(self: &Rc<Self>, group: GroupId) -> Rc<Link> {
        let mut links = self.links.0.borrow_mut();
        if let Some(link) = links.get(&group) {
            return link.clone();
        }
        let link = Rc::new(Link::default());
        links.insert(group, link.clone());
        self.spawn("group link", keep(self.clone(), group, link.clone()));
        link
    }

    /// Asks the active of a group once, as soon as it can be reached. It may have done what it was asked
    /// though no answer came.
    ///
    /// # Errors
    /// What it answered; [`Failed::Unavailable`] without an answer in `patience`.
    pub(crate) async fn ask_group<R: Rpc>(
        self: &Rc<Self>,
        group: GroupId,
        request: &R,
        patience: Duration,
    ) -> Result<R::Reply, Failed> {
        let link = self.link_to(group);
        let asking = async {
            let connection = link.connected().await;
            let answer = connection.call(request, Payload::none()).await;
            if let Err(CallError::Failed(Failed::NotActive { .. })) = &answer {
                // Whoever keeps the link searches on.
                connection.close("it does not lead any more");
            }
            answer
        };
        match self.env.timeout(patience, asking).await {
            Ok(Ok((reply, _))) => Ok(reply),
            Ok(Err(CallError::Failed(failed))) => Err(failed),
            Ok(Err(CallError::Lost(why))) => Err(Failed::Unavailable(why)),
            Err(_) => Err(Failed::Unavailable(format!(
                "group {group} does not answer"
            ))),
        }
    }

    fn addresses_of(&self, group: GroupId) -> Vec<String> {
        crate::group::addresses(&self.core.borrow().view, group.0).1
    }
}

/// Keeps the link for as long as the reign lasts.
async fn keep(meta: Rc<Meta>, group: GroupId, link: Rc<Link>) {
    let local = Local::new(
        meta.settings.cluster_id.clone(),
        Identity {
            // Not as a member of a group: the end of this connection is to prove nothing.
            role: Role::Tool as i32,
            id: 0,
            incarnation: meta.env.random(),
            group: group.0,
        },
    );
    if let Some(name_space) = view::id_of(&meta.core.borrow().view) {
        local.is_of(name_space);
    }
    let refuse: Handler = Rc::new(|_, request| {
        let why = "groups ask each other on the connections that they have made";
        request.replier.fail(Failed::Refused(why.into()));
    });
    let search = RefCell::new(Search::new(Vec::new(), TERMS));
    let mut attempts = Attempts::new(&meta.env, CONNECT_PATIENCE);
    loop {
        let addresses = meta.addresses_of(group);
        if addresses.is_empty() {
            meta.env.sleep(UNKNOWN_RETRY).await;
            continue;
        }
        search.borrow_mut().learn(addresses.clone());
        let step = attempts.step(&search, &local, &refuse);
        let Some((address, Ok(connection))) = step.await else {
            continue;
        };
        let leads = connection.call(&LeadsRequest {}, Payload::none());
        let patience = search.borrow().answer_patience();
        let answer = meta.env.timeout(patience, leads).await;
        let why = match answer.unwrap_or_else(|_| Err(CallError::Lost("no answer".into()))) {
            Ok(_) => {
                attempts.clear();
                let now = meta.env.now();
                search.borrow_mut().connected(&address, addresses, now);
                tracing::debug!(%group, address, "linked with another group's active");
                link.connection.replace(Some(connection.clone()));
                link.connected.notify_waiters();
                let closed = pin!(connection.closed());
                let (env, search) = (&meta.env, &search);
                let kept = weft_rpc::while_active(env, &connection, search, &local, closed).await;
                link.connection.take();
                match kept {
                    Ok(why) => CallError::Lost(why),
                    Err(why) => why,
                }
            }
            Err(why) => why,
        };
        tracing::debug!(%group, address, %why, "no link with another group's active");
        connection.close("looking for the active again");
        let now = meta.env.now();
        search.borrow_mut().not_served(&address, &why, now);
    }
}
