//! Files that clients may keep as they are: a token that a gateway has, passed on. A client that has been given one for
//! reading reads, opens and locks the file by itself; for writing, it keeps what it writes, too. It is asked for it
//! before anybody is in the way of that, be it at this gateway or, when the gateway is asked for its own token,
//! anywhere else (`docs/protocols/token.md`). Before the gateway's own lease ends, because it hears of the metadata service
//! no more, they are asked for everything.
//!
//! Keeps true: a file is given for writing to one client only, and then to nobody else for anything; while it is, the
//! gateway's library has it alone.

use crate::files::Use;
use crate::status::Status;
use crate::v4::State;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, future::join_all};
use std::cell::{Cell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use weft_client::{Client, Invalidator};
use weft_env::{Env, Mono};
use weft_xdr::nfs3::nfsstat3;

/// A client that is asked for a file and neither gives it back nor writes to it for so long has it no more. Less than
/// the term in which the gateway itself has to give back what it is asked for, though it may take longer while it says
/// that it does.
const PATIENCE: Duration = Duration::from_secs(3);
/// A client that writes back what it keeps of a file has so long for all of it, however it goes on: who waits for it is
/// to see an end. At 10 MB a second this is enough for what a client's machine keeps of one file.
const WRITING_BACK: Duration = Duration::from_secs(60);
/// A call waits so long for a file to come back, and is told to come again then: longer than a client may be silent, so
/// that only who writes back for long has others come again.
const CALL_PATIENCE: Duration = Duration::from_secs(4);
/// What was asked back is not given out again for so long: somebody else uses it.
const CONTENDED: Duration = Duration::from_secs(20);
/// The service notes within milliseconds that a client has a file again, or starts anew; so long others wait for that.
const NOTED_PATIENCE: Duration = Duration::from_secs(1);
/// What is left of the gateway's own lease when its clients are asked for what they were given: renewals come every
/// third of a term of 1.5 s, so one is late by then, and there is time for the question and the answers.
const LEFT: Duration = Duration::from_millis(700);
/// How often it is looked how much that is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Files of a gateway that are given out at most.
const GIVEN_MAX: usize = 20_000;

/// What a client may do with a file by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// All.
    Write,
}

/// How far a delegation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Given,
    /// The client was asked for it.
    Asked,
    /// It has given it back.
    Returned,
    /// It has not, in time.
    Revoked,
}

/// What a client says of a file that it was given for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub size: u64,
    /// It keeps what it has changed.
    pub is_changed: bool,
}

/// The way to a client that has been given a file.
pub(crate) trait Holder {
    /// Asks it for the file.
    fn recall(&self);
    /// Asks what the file is like there. None: it does not say.
    fn ask(&self) -> LocalBoxFuture<'static, Option<Kept>>;
    /// It has the file no more.
    fn has_it_no_more(&self);
}

/// A file that a client may keep.
pub(crate) struct Delegation {
    pub ino: u64,
    pub client: u64,
    pub number: u32,
    pub kind: Kind,
    /// The gateway's session with the metadata service under which it was given: with another one it is void.
    pub session: u64,
    /// Who opened the file, when it was given, might read it.
    pub may_read: bool,
    stage: Cell<Stage>,
    holder: Box<dyn Holder>,
    /// While it is given the gateway has the file open, and so does not forget it.
    using: RefCell<Option<Use>>,
    /// When the client was asked for it, or last wrote to it after that.
    heard: Cell<Mono>,
    over: Notify,
}

impl std::fmt::Debug for Delegation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ino, client, kind, stage) = (self.ino, self.client, self.kind, self.stage.get());
        write!(f, "delegation of {ino} to {client:x}, {kind:?}: {stage:?}")
    }
}

/// What is given: which file, to whom, under which number.
pub(crate) struct Gift {
    pub ino: u64,
    pub client: u64,
    pub number: u32,
    pub kind: Kind,
    pub session: u64,
    pub may_read: bool,
}

impl Delegation {
    pub(crate) fn new(gift: Gift, using: Use, holder: Box<dyn Holder>) -> Rc<Delegation> {
        Rc::new(Delegation {
            ino: gift.ino,
            client: gift.client,
            number: gift.number,
            kind: gift.kind,
            session: gift.session,
            may_read: gift.may_read,
            stage: Cell::new(Stage::Given),
            holder,
            using: RefCell::new(Some(using)),
            heard: Cell::default(),
            over: Notify::new(),
        })
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.stage.get() == Stage::Revoked
    }

    /// The client was asked for it.
    pub(crate) fn is_asked(&self) -> bool {
        self.stage.get() == Stage::Asked
    }

    /// The client has it, asked for it or not.
    fn is_out(&self) -> bool {
        matches!(self.stage.get(), Stage::Given | Stage::Asked)
    }

    fn end(&self, how: Stage) {
        self.stage.set(how);
        self.using.take();
        self.holder.has_it_no_more();
        self.over.notify_waiters();
    }

    /// The client has it no more.
    async fn ended(&self) {
        loop {
            let over = self.over.notified();
            if !self.is_out() {
                return;
            }
            over.await;
        }
    }
}

/// A change of a file that is under way, or about to be: nobody is given the file until it is dropped. What an open
/// says of writers is not enough, for not every change has one: version 3 has none, and others may write with none.
#[must_use]
pub(crate) struct Changing {
    delegations: Rc<Delegations>,
    ino: u64,
}

impl Drop for Changing {
    fn drop(&mut self) {
        let mut changing = self.delegations.changing.borrow_mut();
        if let Entry::Occupied(mut count) = changing.entry(self.ino) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// A client takes up again what it had of a file by way of a gateway that is no more. Until this is dropped nobody else
/// uses the file here.
#[must_use]
pub(crate) struct Reclaiming {
    delegations: Rc<Delegations>,
    ino: u64,
}

impl Drop for Reclaiming {
    fn drop(&mut self) {
        self.delegations.reclaimed.borrow_mut().remove(&self.ino);
    }
}

/// While this is there, the gateway gives no lease of a file back: a client's having it again is being noted.
pub(crate) struct Noting {
    delegations: Rc<Delegations>,
    ino: u64,
}

impl Noting {
    /// It has taken too long: the lease goes all the same.
    pub(crate) fn is_over(&self) -> bool {
        !self.delegations.noting.borrow().contains(&self.ino)
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.delegations.noting.borrow_mut().remove(&self.ino);
        self.delegations.noted.notify_waiters();
    }
}

/// All of a gateway's.
pub(crate) struct Delegations {
    env: Env,
    /// Of the gateway. Weak: it calls this when it is asked for a lease.
    client: Weak<Client>,
    /// How many changes of each file are under way.
    changing: RefCell<BTreeMap<u64, usize>>,
    /// By whom files are being taken up again.
    reclaimed: RefCell<BTreeMap<u64, u64>>,
    /// See [`Noting`].
    noting: RefCell<BTreeSet<u64>>,
    noted: Notify,
    /// Those that count, by file.
    given: RefCell<BTreeMap<u64, Vec<Rc<Delegation>>>>,
    /// Files that were asked for, and when.
    asked: RefCell<BTreeMap<u64, Mono>>,
}

impl Delegations {
    pub(crate) fn new(env: &Env, client: &Rc<Client>) -> Rc<Delegations> {
        let delegations = Rc::new(Delegations {
            env: env.clone(),
            client: Rc::downgrade(client),
            changing: RefCell::default(),
            reclaimed: RefCell::default(),
            noting: RefCell::default(),
            noted: Notify::new(),
            given: RefCell::default(),
            asked: RefCell::default(),
        });
        let (of, env) = (Rc::downgrade(&delegations), env.clone());
        delegations.env.spawn("delegations' lease", async move {
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(delegations) = of.upgrade() else {
                    return;
                };
                delegations.look();
            }
        });
        delegations
    }

    /// What is left of the gateway's own lease.
    fn left(&self) -> Duration {
        let client = self.client.upgrade();
        client.map_or(Duration::ZERO, |client| client.believes_for())
    }

    /// Asks clients for everything while the gateway's own lease still keeps others from changing it.
    fn look(self: &Rc<Self>) {
        if self.given.borrow().is_empty() || self.left() >= LEFT {
            return;
        }
        self.revoke_lapsed();
        for delegation in self.all() {
            self.recall(&delegation);
        }
    }

    fn all(&self) -> Vec<Rc<Delegation>> {
        let given = self.given.borrow();
        given.values().flatten().cloned().collect()
    }

    /// If the gateway's own lease is over, so is everything that it gave its clients by it.
    pub(crate) fn revoke_lapsed(&self) {
        if self.given.borrow().is_empty() || !self.left().is_zero() {
            return;
        }
        for delegation in self.all() {
            self.revoke(&delegation, "the gateway's own lease is over");
        }
    }

    /// Whether a file may be given to a client that has nothing of it: nobody changes it, or has wanted it lately, and
    /// who has it already does not mind; and the gateway's own lease goes on.
    pub(crate) fn may_give(&self, ino: u64, kind: Kind) -> bool {
        let now = self.env.now();
        let mut asked = self.asked.borrow_mut();
        asked.retain(|_, since| now.since(*since) < CONTENDED);
        let given = self.given.borrow();
        let fits = |it: &Rc<Delegation>| {
            (it.kind, kind, it.stage.get()) == (Kind::Read, Kind::Read, Stage::Given)
        };
        !self.changing.borrow().contains_key(&ino)
            && !asked.contains_key(&ino)
            && given.get(&ino).is_none_or(|all| all.iter().all(fits))
            && given.len() < GIVEN_MAX
            && self.left() >= LEFT
    }

    /// Files that were given to clients.
    pub(crate) fn count(&self) -> usize {
        self.given.borrow().len()
    }

    /// What a client has of a file.
    pub(crate) fn of(&self, ino: u64, client: u64) -> Option<Rc<Delegation>> {
        let given = self.given.borrow();
        let found = given.get(&ino)?.iter().find(|it| it.client == client);
        found.cloned()
    }

    /// Gives a file to a client. The gateway has a lease on it now.
    pub(crate) fn give(&self, delegation: &Rc<Delegation>) {
        let mut given = self.given.borrow_mut();
        let of_file = given.entry(delegation.ino).or_default();
        of_file.push(delegation.clone());
    }

    /// A client gives a file back, or is no more.
    pub(crate) fn returned(&self, delegation: &Delegation) {
        self.end(delegation, Stage::Returned);
    }

    fn end(&self, delegation: &Delegation, how: Stage) {
        if !delegation.is_out() {
            return;
        }
        if delegation.stage.get() == Stage::Asked {
            // Who has asked is to have it first.
            self.note_asked(delegation.ino);
        }
        let mut given = self.given.borrow_mut();
        if let Some(of_file) = given.get_mut(&delegation.ino) {
            of_file.retain(|it| !std::ptr::eq(it.as_ref(), delegation));
            if of_file.is_empty() {
                given.remove(&delegation.ino);
            }
        }
        drop(given);
        delegation.end(how);
    }

    fn revoke(&self, delegation: &Delegation, why: &str) {
        if delegation.is_out() {
            let (ino, client, kind) = (delegation.ino, delegation.client, delegation.kind);
            tracing::info!(ino, client, ?kind, why, "a file is taken from a client");
            self.end(delegation, Stage::Revoked);
        }
    }

    /// The gateway's own token, under which a file was given, has ended with its session: what was kept under it may be
    /// older than what others have written since.
    pub(crate) fn lost(&self, delegation: &Delegation) {
        self.revoke(delegation, "the gateway's session has ended");
    }

    fn note_asked(&self, ino: u64) {
        self.asked.borrow_mut().insert(ino, self.env.now());
    }

    /// A client is about to take up a file again.
    ///
    /// # Errors
    /// JUKEBOX: a change of it waits here, which would be done as soon as the client has opened it; or another client is
    /// doing the same.
    pub(crate) fn reclaim(self: &Rc<Self>, ino: u64, client: u64) -> Result<Reclaiming, Status> {
        let mut reclaimed = self.reclaimed.borrow_mut();
        if self.changing.borrow().contains_key(&ino) || reclaimed.contains_key(&ino) {
            tracing::debug!(
                ino,
                client,
                "a client waits for what it had: a change of it waits here"
            );
            return Err(Status(nfsstat3::NFS3ERR_JUKEBOX));
        }
        reclaimed.insert(ino, client);
        Ok(Reclaiming {
            delegations: self.clone(),
            ino,
        })
    }

    /// That a client has a file again is about to be noted. One client at a time takes it up.
    pub(crate) fn note(self: &Rc<Self>, ino: u64) -> Noting {
        self.noting.borrow_mut().insert(ino);
        Noting {
            delegations: self.clone(),
            ino,
        }
    }

    /// Returns when nobody's having a file again is being noted, or [`NOTED_PATIENCE`] is over: then it was in vain.
    async fn once_noted(&self, ino: u64) {
        let noted = async {
            loop {
                let noted = self.noted.notified();
                if !self.noting.borrow().contains(&ino) {
                    return;
                }
                noted.await;
            }
        };
        if self.env.timeout(NOTED_PATIENCE, noted).await.is_err() {
            tracing::debug!(ino, "a lease goes that a client was about to have again");
            self.noting.borrow_mut().remove(&ino);
        }
    }

    /// Nobody but `but` is taking up a file again.
    fn check_reclaimed(&self, ino: u64, but: Option<u64>) -> Result<(), Status> {
        match self.reclaimed.borrow().get(&ino) {
            Some(client) if but != Some(*client) => Err(Status(nfsstat3::NFS3ERR_JUKEBOX)),
            _ => Ok(()),
        }
    }

    /// A file is about to be changed: no client but `but` has it when this ends, nor is given it before what is
    /// returned is dropped.
    ///
    /// # Errors
    /// JUKEBOX: a client is still writing back what it keeps of it, or is taking it up again.
    pub(crate) async fn change(
        self: &Rc<Self>,
        ino: u64,
        but: Option<u64>,
    ) -> Result<Changing, Status> {
        self.check_reclaimed(ino, but)?;
        *self.changing.borrow_mut().entry(ino).or_default() += 1;
        let changing = Changing {
            delegations: self.clone(),
            ino,
        };
        self.ask_back_for_call(ino, but, Kind::Read).await?;
        Ok(changing)
    }

    /// A file is about to be read, or opened for it: no client but `but` keeps what it has written when this ends.
    ///
    /// # Errors
    /// As [`Delegations::change`].
    pub(crate) async fn read(self: &Rc<Self>, ino: u64, but: Option<u64>) -> Result<(), Status> {
        self.check_reclaimed(ino, but)?;
        self.ask_back_for_call(ino, but, Kind::Write).await
    }

    /// A file is about to be locked by one alone (`alone`) or to read: no client but `but` has locked it by itself, in the
    /// way of that, when this ends.
    ///
    /// # Errors
    /// As [`Delegations::change`].
    pub(crate) async fn lock(
        self: &Rc<Self>,
        ino: u64,
        but: Option<u64>,
        alone: bool,
    ) -> Result<(), Status> {
        self.check_reclaimed(ino, but)?;
        let least = match alone {
            true => Kind::Read,
            false => Kind::Write,
        };
        self.ask_back_for_call(ino, but, least).await
    }

    async fn ask_back_for_call(
        self: &Rc<Self>,
        ino: u64,
        but: Option<u64>,
        least: Kind,
    ) -> Result<(), Status> {
        if self.others(ino, but, least).is_empty() {
            // As nearly always.
            return Ok(());
        }
        let back = self.ask_back(ino, but, least);
        let back = self.env.timeout(CALL_PATIENCE, back).await;
        back.map_err(|_| Status(nfsstat3::NFS3ERR_JUKEBOX))
    }

    /// What clients, but `but`, have of a file by which they may do at least this.
    fn others(&self, ino: u64, but: Option<u64>, least: Kind) -> Vec<Rc<Delegation>> {
        let given = self.given.borrow();
        let of_file = given.get(&ino).into_iter().flatten();
        let others = of_file
            .filter(|it| but != Some(it.client))
            .filter(|it| least == Kind::Read || it.kind == Kind::Write);
        others.cloned().collect()
    }

    /// When this ends, no client but `but` may do this, or more, with a file by itself.
    async fn ask_back(self: &Rc<Self>, ino: u64, but: Option<u64>, least: Kind) {
        let held = self.others(ino, but, least);
        for delegation in &held {
            self.recall(delegation);
        }
        join_all(held.iter().map(|it| it.ended())).await;
    }

    /// Asks a client for a file, if it was not asked, and sees to it that it comes back or is revoked.
    pub(crate) fn recall(self: &Rc<Self>, delegation: &Rc<Delegation>) {
        if delegation.stage.get() != Stage::Given {
            return;
        }
        let began = self.env.now();
        delegation.stage.set(Stage::Asked);
        delegation.heard.set(began);
        self.note_asked(delegation.ino);
        delegation.holder.recall();
        let (all, delegation) = (self.clone(), delegation.clone());
        self.env.spawn("recalled", async move {
            loop {
                let heard = delegation.heard.get() + PATIENCE;
                let until = heard.min(began + WRITING_BACK);
                let left = until.since(all.env.now());
                if left.is_zero() {
                    return all.revoke(&delegation, "it was not given back in time");
                }
                if all.env.timeout(left, delegation.ended()).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// A client that has a file for writing does something with it. If it was asked for it, it is writing back.
    pub(crate) fn note_heard(&self, ino: u64, client: u64) {
        if let Some(delegation) = self.of(ino, client)
            && delegation.kind == Kind::Write
        {
            delegation.heard.set(self.env.now());
        }
    }

    /// Somebody else than `who` may keep changes of a file.
    pub(crate) fn are_kept(&self, ino: u64, who: Option<u64>) -> bool {
        !self.others(ino, who, Kind::Write).is_empty()
    }

    /// What another client than `who` keeps of a file, which `who` asks the attributes of.
    ///
    /// # Errors
    /// As [`Delegations::change`].
    pub(crate) async fn kept(
        self: &Rc<Self>,
        ino: u64,
        who: Option<u64>,
    ) -> Result<Option<Kept>, Status> {
        if !self.are_kept(ino, who) {
            return Ok(None);
        }
        let kept = self.env.timeout(CALL_PATIENCE, self.kept_or_back(ino, who));
        kept.await.map_err(|_| Status(nfsstat3::NFS3ERR_JUKEBOX))
    }

    /// The same, for who waits as long as it takes. Who does not say what he keeps gives it back.
    async fn kept_or_back(self: &Rc<Self>, ino: u64, who: Option<u64>) -> Option<Kept> {
        let delegation = self.others(ino, who, Kind::Write).pop()?;
        match delegation.holder.ask().await {
            Some(kept) if delegation.is_out() => Some(kept),
            // It has written it, and given it back, meanwhile.
            Some(_) => None,
            None => {
                self.ask_back(ino, who, Kind::Write).await;
                None
            }
        }
    }
}

/// What the gateway is asked to give back, its clients are asked for; and who has it open the service is told.
pub(crate) struct PassedOn {
    pub delegations: Rc<Delegations>,
    pub client: Weak<Client>,
    pub state: Weak<State>,
}

impl PassedOn {
    /// A lease that was held alone, and is gone without having been asked back, went with the session.
    fn revoke_lost(&self, ino: u64) {
        let client = self.client.upgrade();
        if client.is_some_and(|client| client.is_alone(ino)) {
            return;
        }
        for delegation in self.delegations.others(ino, None, Kind::Write) {
            self.delegations.lost(&delegation);
        }
    }
}

impl Invalidator for PassedOn {
    fn inode(&self, ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        self.revoke_lost(ino);
        let (delegations, state) = (self.delegations.clone(), self.state.upgrade());
        async move {
            delegations.once_noted(ino).await;
            delegations.ask_back(ino, None, Kind::Read).await;
            if let Some(state) = state {
                state.before_lease_goes(ino).await;
            }
            true
        }
        .boxed_local()
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        // Clients have no directories.
        std::future::ready(()).boxed_local()
    }

    fn write_back(&self, ino: u64) -> LocalBoxFuture<'static, ()> {
        let delegations = self.delegations.clone();
        async move {
            delegations.once_noted(ino).await;
            delegations.ask_back(ino, None, Kind::Write).await;
        }
        .boxed_local()
    }

    fn size(&self, ino: u64) -> LocalBoxFuture<'static, Option<u64>> {
        let delegations = self.delegations.clone();
        async move {
            delegations.once_noted(ino).await;
            let kept = delegations.kept_or_back(ino, None).await;
            kept.filter(|kept| kept.is_changed).map(|kept| kept.size)
        }
        .boxed_local()
    }
}
