//! How a session is kept: connecting, opening or taking it up, renewing.
//!
//! When the connection breaks, or the active says nothing and another leads, the keeper connects again and
//! takes the session up (`docs/protocols/groups.md`, "Who leads now"). What that gives back, keeps and loses is
//! in `turns.rs`.

use crate::core::Core;
use crate::session::{Link, Session};
use crate::slots::FIRST;
use futures_util::{FutureExt, select_biased};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_env::{Env, Mono};
use weft_rpc::{Attempts, CallError, Connection, Handler, Local, Payload, Search};
use weft_types::NameSpaceId;
use weft_wire::Failed;
use weft_wire::proto::{SessionReply, SessionRequest};

/// One attempt to connect and shake hands takes at most this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

fn is_refusal(error: &std::io::Error) -> bool {
    // weft-rpc says with text why a server of another cluster or version turned us away; the
    // operating system's own refusals carry a number.
    error.kind() == std::io::ErrorKind::ConnectionRefused && error.raw_os_error().is_none()
}

/// The client and its session with a group, while they are there.
pub(crate) fn kept(core: &Weak<Core>, group: u32) -> Option<(Rc<Core>, Rc<Session>)> {
    let core = core.upgrade()?;
    let session = core.sessions.with(group)?;
    Some((core, session))
}

impl Session {
    /// Keeps the session connected and renewed until it is stopped or the client is gone.
    pub async fn keep(core: Weak<Core>, group: u32) {
        let Some((env, search)) =
            kept(&core, group).map(|(_, session)| (session.env.clone(), session.search.clone()))
        else {
            return;
        };
        let weak = core.clone();
        let handler: Handler = Rc::new(move |connection, request| {
            if let Some(core) = weak.upgrade() {
                core.on_request(group, connection, request);
            }
        });
        let mut attempts = Attempts::new(&env, CONNECT_PATIENCE);
        loop {
            let local = match kept(&core, group) {
                Some((_, session)) if !session.is_closed() => session.local(),
                _ => return,
            };
            // Nothing holds the client while its session waits.
            let step = attempts.step(&search, &local, &handler);
            let Some((address, connected)) = step.await else {
                continue;
            };
            let Some((strong, session)) = kept(&core, group) else {
                return;
            };
            match session.establish(&strong, &address, connected).await {
                Ok(()) => {
                    attempts.clear();
                    let link = session.current();
                    drop((strong, session));
                    if let Some(link) = link {
                        Session::stay(&core, &env, &search, (&link, &local)).await;
                    }
                }
                Err((why, refused)) => {
                    tracing::debug!(group, address, why, "no session yet");
                    if refused && group != FIRST && !session.refused.get() {
                        tracing::error!(group, address, why, "a replica group refuses this client");
                    }
                    *session.last_failure.borrow_mut() = format!("{address}: {why}");
                    session.refused.set(refused);
                }
            }
        }
    }

    /// Who this side is, in a handshake.
    pub fn local(&self) -> Local {
        let mut local = self.local.clone();
        local.identity.id = self.id.get();
        local
    }

    /// Opens the session over a connection, or takes it up, if there is one and its other side serves.
    async fn establish(
        &self,
        core: &Rc<Core>,
        address: &str,
        connected: std::io::Result<Connection>,
    ) -> Result<(), (String, bool)> {
        let connection = connected.map_err(|error| (error.to_string(), is_refusal(&error)))?;
        if self.is_closed() {
            connection.close("the client is closed");
            return Err(("the client is closed".into(), false));
        }
        match self.take_up(core, &connection).await {
            Ok(members) => {
                let now = self.env.now();
                self.search.borrow_mut().connected(address, members, now);
                if self.is_closed() {
                    connection.close("the client is closed");
                }
                Ok(())
            }
            Err(error) => {
                let now = self.env.now();
                self.search.borrow_mut().not_served(address, &error, now);
                connection.close(&error.to_string());
                let refused = matches!(error, CallError::Failed(Failed::Refused(_)));
                Err((error.to_string(), refused))
            }
        }
    }

    /// Answers with the addresses of the group's metadata servers that the view names.
    async fn take_up(
        &self,
        core: &Rc<Core>,
        connection: &Connection,
    ) -> Result<Vec<String>, CallError> {
        let mut request = SessionRequest {
            session: self.id.get(),
            name: self.name.clone(),
            ended: self.ended.get(),
            term_ms: self.asked_term_ms,
            keep_ms: self.keep_ms,
            only_moves: self.only_moves,
            ..SessionRequest::default()
        };
        request.siblings = core.sessions.siblings(self.group);
        if request.session != 0 {
            // Coming back gives back what the service may treat as held: READ leases on anything.
            core.drop_read_leases(self.group).await;
            (
                request.open_inodes,
                request.write_leases,
                request.shared_leases,
            ) = core.held(self.group);
            request.settled = core.pairs.settled();
        }
        let sent = self.env.now();
        let call = connection.call(&request, Payload::none());
        let patience = self.search.borrow().answer_patience();
        let reply: SessionReply = match self.env.timeout(patience, call).await {
            Ok(Ok((reply, _))) => reply,
            Ok(Err(error)) => {
                if let CallError::Failed(Failed::Fenced(why)) = &error {
                    let link = Link {
                        connection: connection.clone(),
                        group: self.group,
                        session: request.session,
                        epoch: 0,
                        generation: 0,
                    };
                    self.fenced(core, &link, why);
                }
                return Err(error);
            }
            Err(_) => return Err(CallError::Lost("no answer to the session request".into())),
        };
        if self.is_closed() {
            // One that has just been opened ends by its term.
            return Ok(Vec::new());
        }
        let taken_up = request.session != 0;
        self.id.set(reply.session);
        self.root.set(reply.root_ino);
        let term = Duration::from_millis(reply.term_ms.max(1));
        self.term.set(term);
        self.generation.set(self.generation.get() + 1);
        if let Some(view) = &reply.view {
            if let Some(name_space) = NameSpaceId::from_bytes(&view.name_space) {
                self.local.is_of(name_space);
            }
            core.learn_view(view);
        }
        let view = reply.view.unwrap_or_default();
        core.pairs.learn(self.group, &reply.pairs, &view.pairs);
        if taken_up {
            core.keep_write_leases(self.group, &reply.write_leases, &reply.shared_leases);
        }
        self.believe_from(sent);
        *self.link.borrow_mut() = Some(Link {
            connection: connection.clone(),
            group: self.group,
            session: reply.session,
            epoch: reply.epoch,
            generation: self.generation.get(),
        });
        tracing::info!(
            session = reply.session,
            group = self.group,
            epoch = reply.epoch,
            taken_up,
            server = connection.peer(),
            "session with the metadata service"
        );
        self.linked.notify_waiters();
        core.linked(self.group);
        if !taken_up {
            core.claimed(self, &reply.kept_open);
        }
        if self.claims.get() != self.claimed.get() {
            // At once.
            self.resettled.notify_one();
        }
        let groups = view.groups.iter().filter(|it| it.id == self.group);
        let members = groups.flat_map(|group| &group.members);
        Ok(members.map(|member| member.address.clone()).collect())
    }

    fn believe_from(&self, sent: Mono) {
        // Clocks run at slightly different rates: the client's term ends first.
        self.valid_until.set(sent + self.term.get().mul_f64(0.95));
    }

    /// Renews until the connection breaks, or another than its other side leads.
    async fn stay(
        core: &Weak<Core>,
        env: &Env,
        search: &RefCell<Search>,
        (link, local): (&Link, &Local),
    ) {
        let renewing = Session::renew(core, link.group);
        let stayed = weft_rpc::while_active(env, &link.connection, search, local, renewing);
        if let Err(why) = stayed.await
            && let Some((_, session)) = kept(core, link.group)
        {
            session.turned_away(link, &why);
        }
    }

    /// Renews until the connection breaks.
    async fn renew(core: &Weak<Core>, group: u32) {
        let mut told = Vec::new();
        let mut renewed: Option<Mono> = None;
        loop {
            let (env, link, pause, resettled) = {
                let Some((_, session)) = kept(core, group) else {
                    return;
                };
                let Some(link) = session.current() else {
                    return;
                };
                let pause = session.term.get() / 3;
                let resettled = session.resettled.clone();
                (session.env.clone(), link, pause, resettled)
            };
            let due = *renewed.get_or_insert(env.now()) + pause;
            let is_due = {
                let mut closed = pin!(link.connection.closed().fuse());
                select_biased! {
                    _ = closed => return,
                    () = env.sleep_until(due).fuse() => true,
                    () = resettled.notified().fuse() => false,
                }
            };
            let sent = env.now();
            let (noted, request) = {
                let Some(core) = core.upgrade() else { return };
                let settled = core.pairs.settled();
                let Some(session) = core.sessions.with(group) else {
                    return;
                };
                let claims = session.claims.get();
                if !is_due && settled == told && claims == session.claimed.get() {
                    continue;
                }
                told.clone_from(&settled);
                let noted = (core.handovers.get(), claims);
                (noted, core.renewal(&link, settled))
            };
            renewed = Some(sent);
            let call = link.connection.call(&request, Payload::none());
            let answer = env.timeout(pause, call).await;
            let Some((core, session)) = kept(core, group) else {
                return;
            };
            match answer {
                Ok(Ok((reply, _))) => {
                    session.believe_from(sent);
                    core.renewed(&link, noted, &reply);
                }
                Ok(Err(CallError::Failed(Failed::Fenced(why)))) => {
                    session.fenced(&core, &link, &why);
                }
                Ok(Err(error @ CallError::Failed(Failed::NotActive { .. }))) => {
                    session.turned_away(&link, &error);
                }
                Ok(Err(error)) => link.connection.close(&error.to_string()),
                Err(_) => link.connection.close("a renewal was not answered"),
            }
        }
    }
}
