//! The metadata service's side of a pair: decides who serves. Pure; docs/protocols/pairs.md is its
//! specification. Called by weft-meta, one [`Keeper`] for each pair.
//!
//! Events go in, [`Action`]s come out. Decisions are level-triggered: after each event the keeper
//! looks at what it knows and decides whether another state has to be journaled. One change is on
//! its way at a time:
//!
//! ```text
//! in force --decides--> journaling --on_journaled--> waiting --right of the other ended--> in force
//!                                                                                (told, published)
//! ```
//!
//! What it keeps true:
//! - nobody is told a state before it is journaled;
//! - the member that a state makes the only server is told only when the other one can no longer
//!   have a right to serve: it has acknowledged, its process is gone, or its right has run out;
//! - a member whose store is not the one that the pair knows is never made a server;
//! - while later states may be lost that the members know of ([`PairState::uncertain`]) nobody is told anything;
//! - a state whose only copy is a member's that may have forgotten something says so ([`PairState::forgot`]).
//!
//! How to drive it: say [`Keeper::committed`] once what it began with is; answer a registration when
//! [`Action::Welcome`] says so, a beat at once, both with [`Keeper::state_for`]; call [`Keeper::tick`] at [`Keeper::wake_at`].

mod lost;

pub use lost::Word;

use crate::Now;
use crate::state::{Disk, Mode, PairState, StoreKey};
use std::cmp::{Ordering, Reverse};
use std::time::Duration;
use weft_types::{Epoch, Member};

/// Both members in order.
const MEMBERS: [Member; 2] = [Member::Zero, Member::One];

/// The times that a pair lives by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long an answered beat lets a member serve, from when the member sent it.
    pub lease: Duration,
    /// Added to `lease` before a silent member's right counts as run out: for clocks that do not
    /// run alike.
    pub margin: Duration,
    /// How long the first of two members that both restarted waits for the second.
    pub alone_after: Duration,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            lease: Duration::from_millis(300),
            margin: Duration::from_millis(50),
            alone_after: Duration::from_secs(10),
        }
    }
}

impl Terms {
    /// After this long without a beat a member's right has run out and it counts as silent.
    fn silence(&self) -> Duration {
        self.lease + self.margin
    }
}

/// What a member says of itself when it registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The caller's name for the connection; never used twice.
    pub connection: u64,
    /// Differs for each start of the process.
    pub incarnation: u64,
    /// The store it serves.
    pub store: StoreKey,
    /// `RegisterRequest.was_serving`: the process was registered before; nothing was cut short.
    pub was_serving: bool,
    /// What it knows of its disk.
    pub disk: Disk,
    /// `RegisterRequest.forgot`: its copy may lack what it had acknowledged and not synced.
    pub forgot: bool,
    /// The last state that it was told, in this life or before.
    pub last: Word,
}

/// What a member says of itself with each beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The link to its twin is broken.
    pub twin_lost: bool,
    /// Requests in progress.
    pub load: u64,
    /// What it knows of its disk.
    pub disk: Disk,
}

/// What the caller has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Journal this state, then call [`Keeper::on_journaled`]. `why` is for the log.
    Journal {
        /// The state to be made durable.
        state: PairState,
        /// What happened.
        why: &'static str,
    },
    /// Answer the registration that came over this connection, with [`Keeper::state_for`].
    Welcome {
        /// Who registered.
        member: Member,
        /// Over which connection.
        connection: u64,
    },
    /// Refuse the registration that came over this connection.
    Refuse {
        /// Over which connection.
        connection: u64,
        /// Why, for people.
        why: &'static str,
    },
    /// Send `SetState` with [`Keeper::state_for`] and the twin's address; when it is answered, call
    /// [`Keeper::acknowledged`]. If the connection breaks first nothing is to be done.
    Tell {
        /// Whom.
        member: Member,
        /// Over which connection.
        connection: u64,
    },
    /// Close this connection: the member has registered again.
    Close {
        /// Which connection.
        connection: u64,
    },
    /// This state is in force: push it to all clients and answer those that asked.
    Publish(PairState),
}

/// A registered member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Registered {
    connection: u64,
    incarnation: u64,
    store: StoreKey,
    /// The registration has been answered.
    welcomed: bool,
    /// The process started anew since the state in force was decided: what it was doing when it
    /// stopped may be on one member only.
    restarted: bool,
    /// Its copy may lack what it had acknowledged and not synced, and nothing has been decided that makes
    /// up for it, or says so.
    forgot: bool,
    /// The state that comes next, or is not in force yet, was decided with that in view.
    considered: bool,
    since: Now,
    /// Presence counts from then.
    heard: Now,
    /// When it last said something, whatever else counts in its favour.
    spoke: Now,
    /// When what it said last was answered.
    answered: Now,
    /// It certainly lived then. What it says can be long under way, and it may have died since; but it says nothing more
    /// before it has the answer to what it said before.
    lived: Option<Now>,
    /// When it was heard again after it had counted as silent.
    back: Now,
    /// Since when it says that it cannot reach its twin.
    accuses: Option<Now>,
    load: u64,
    disk: Disk,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Info {
    registered: Option<Registered>,
    /// Until when it may have a right to serve that a beat gave it. Not about the unlimited right
    /// of the sole server.
    right_until: Now,
    /// When its last connection was lost.
    left: Now,
    /// That right may belong to a process with another store than the registered one: what the
    /// registered one says does not end it.
    right_of_another: bool,
    /// What it said when it registered, if it has in this reign, and with which store.
    word: Option<(Word, StoreKey)>,
    /// An operator has said that its store is lost: its word is not waited for.
    is_given_up: bool,
}

/// How far the journaled state is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// It has been told to all and published.
    InForce,
    /// It makes one member the sole server, who is not told until the other's right has ended: it
    /// still sees the state before (none after a start).
    Waiting { before: Option<PairState> },
}

/// Decides who serves one pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Keeper {
    terms: Terms,
    /// As journaled.
    state: PairState,
    phase: Phase,
    /// The next state, on its way into the journal.
    journaling: Option<PairState>,
    members: [Info; 2],
    /// The serving member has said under the epoch in force that both copies are equal, and with
    /// that has given up its unlimited right.
    equal: bool,
    /// Nothing is decided and nobody is told before: see [`Keeper::stood_still`].
    deaf_until: Now,
    /// The state is what an earlier reign left, and may be void: see [`Keeper::committed`].
    is_inherited: bool,
    /// See [`Keeper::served_last`].
    last: Member,
    /// States may have been lost, as far as this reign knows.
    may_have_lost: bool,
}

impl Keeper {
    /// Takes over a pair whose journaled state is `state`, at the start of a reign: members may
    /// hold rights that somebody else gave until a moment ago. Decides nothing, and nobody is told
    /// anything, before [`Keeper::committed`].
    pub fn new(state: PairState, terms: Terms, now: Now) -> Keeper {
        let info = Info {
            registered: None,
            right_until: now + terms.silence(),
            left: Now::ZERO,
            right_of_another: false,
            word: None,
            is_given_up: false,
        };
        Keeper {
            terms,
            may_have_lost: state.uncertain,
            phase: match state.mode.sole() {
                Some(_) => Phase::Waiting { before: None },
                None => Phase::InForce,
            },
            journaling: None,
            state,
            members: [info.clone(), info],
            equal: false,
            deaf_until: Now::ZERO,
            is_inherited: true,
            last: Member::Zero,
        }
    }

    /// Of a pair that is let in again: the member that served alone when it was removed, if one did. The other one may
    /// not have heard what was dropped since.
    pub fn served_last(&mut self, member: Member) {
        self.last = member;
    }

    /// An operator has given up the member's store, or has taken that back.
    pub fn given_up(&mut self, member: Member, is: bool, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        self.members[member.index()].is_given_up = is;
        self.settle(now, &mut actions);
        actions
    }

    /// Later states than the one that the keeper has may be lost: see [`PairState::uncertain`]. The caller has it journaled.
    /// What is in force in this reign stays so where one serves alone: the other one is judged when it comes.
    pub fn may_have_lost(&mut self) {
        self.state.uncertain = true;
        self.may_have_lost = true;
        if let Some(next) = &mut self.journaling {
            next.uncertain = true;
        }
    }

    /// What members know of later states has not all been heard.
    pub fn is_uncertain(&self) -> bool {
        self.state.uncertain
    }

    /// Whose word is waited for.
    pub fn awaits(&self, member: Member) -> bool {
        let info = &self.members[member.index()];
        self.state.uncertain && info.word.is_none() && !info.is_given_up
    }

    /// The state that the keeper began with is durable. An earlier reign had put it into a journal, perhaps without
    /// having it committed: another that has not seen it could have led.
    pub fn committed(&mut self, now: Now) -> Vec<Action> {
        self.is_inherited = false;
        self.tick(now)
    }

    /// Whoever calls has not run for a while. What the members said and did meanwhile comes now, in
    /// any order and late: a beat of one that has died since, before the end of its connection.
    /// Nothing is decided, and no member is welcomed, for `catch_up`, until all of it has come; and
    /// nobody has been silent.
    pub fn stood_still(&mut self, now: Now, catch_up: Duration) {
        self.deaf_until = now + catch_up;
        for info in &mut self.members {
            if let Some(r) = &mut info.registered {
                r.heard = r.heard.max(now);
            }
        }
    }

    /// The state as journaled (it may not be in force yet).
    pub fn state(&self) -> PairState {
        self.state
    }

    /// The state that clients may be told.
    pub fn published(&self) -> PairState {
        match self.phase {
            Phase::Waiting {
                before: Some(before),
            } => before,
            _ => self.state,
        }
    }

    /// What `member` may be told now: the answer to its beats and its registration. None while it
    /// has no part in the pair.
    pub fn state_for(&self, member: Member) -> Option<PairState> {
        if self.state.uncertain {
            return None;
        }
        // The copy of one that restarted may have lost what was not on its disk. That has to be
        // compared before anybody reads there, and before it says of a region that it has all of
        // it: until that is decided, it knows no state. If it may have lost something, it is the only copy
        // in no state that does not say so.
        let restarted = self.registered(member).is_some_and(|r| r.restarted);
        let forgot = self.has_forgotten(member);
        let is_new = self.state.stores == [None, None];
        self.answer_for(member).filter(|state| match state.mode {
            Mode::Both => is_new || !restarted && !forgot,
            Mode::Recovering(serving) if serving != member => !restarted,
            Mode::Only(serving) | Mode::Recovering(serving) => !forgot || serving != member,
            Mode::Down(_) => true,
        })
    }

    /// As far as rights of others go. None while it has to wait for the answer to its registration.
    fn answer_for(&self, member: Member) -> Option<PairState> {
        match self.phase {
            Phase::Waiting { before } if self.state.mode.sole() == Some(member) => before,
            _ => Some(self.state),
        }
    }

    /// This connection is the member's registered one and its registration has been answered.
    /// Beats over any other are to be refused.
    pub fn is_welcomed(&self, member: Member, connection: u64) -> bool {
        self.registered(member)
            .is_some_and(|r| r.connection == connection && r.welcomed)
    }

    /// The member is registered and heard of: for `weft status`.
    pub fn is_present(&self, member: Member, now: Now) -> bool {
        self.registered(member)
            // It cannot beat before its registration is answered.
            .is_some_and(|r| !r.welcomed || now < r.heard + self.terms.silence())
    }

    /// When [`Keeper::tick`] has something to look at again; None: not before another event.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        let mut times = vec![self.deaf_until];
        for info in &self.members {
            times.push(info.right_until);
            if let Some(r) = &info.registered {
                times.push(r.heard + self.terms.silence());
                times.push(r.since + self.terms.alone_after);
                times.push(r.back + self.terms.silence());
            }
        }
        for member in MEMBERS {
            if self.disk(member) != Disk::Works {
                times.push(self.gone_since(member.twin()) + self.terms.alone_after);
            }
        }
        times.into_iter().filter(|&at| at > now).min()
    }

    /// A member registers. It is answered when [`Action::Welcome`] says so.
    pub fn register(
        &mut self,
        member: Member,
        registration: Registration,
        now: Now,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let present = self.is_present(member, now);
        let was_here = {
            let info = &self.members[member.index()];
            info.registered.is_some() || info.left > Now::ZERO
        };
        let back = if was_here && !present { now } else { Now::ZERO };
        let known = self.state.stores[member.index()];
        if let Some(why) = self.is_of_another_course(member, &registration) {
            return vec![Action::Refuse {
                connection: registration.connection,
                why,
            }];
        }
        let info = &mut self.members[member.index()];
        // A store is locked by its process, and a process stops serving (as far as it needs a right)
        // before it gives up a connection: whoever registers with the same store has no right now.
        let same_store;
        if let Some(old) = &info.registered {
            let same_process = old.incarnation == registration.incarnation;
            if !same_process && old.store != registration.store && present {
                return vec![Action::Refuse {
                    connection: registration.connection,
                    why: "another process with another store serves as this member",
                }];
            }
            actions.push(Action::Close {
                connection: old.connection,
            });
            same_store = same_process || old.store == registration.store;
        } else {
            same_store = known.is_none_or(|known| known == registration.store);
        }
        if same_store && !info.right_of_another {
            info.right_until = Now::ZERO;
        }
        info.right_of_another = info.right_until > now;
        info.word = Some((registration.last, registration.store));
        info.is_given_up &= known == Some(registration.store);
        self.state.uncertain |= registration.last.contradicts(&self.state);
        let info = &mut self.members[member.index()];
        let restarted = !registration.was_serving
            || info
                .registered
                .as_ref()
                .is_some_and(|old| old.restarted || old.incarnation != registration.incarnation);
        info.registered = Some(Registered {
            connection: registration.connection,
            incarnation: registration.incarnation,
            store: registration.store,
            welcomed: false,
            restarted,
            forgot: registration.forgot,
            considered: false,
            since: now,
            heard: now,
            spoke: now,
            answered: now,
            lived: None,
            back,
            accuses: None,
            load: 0,
            disk: registration.disk,
        });
        if restarted {
            // A new process knows nothing of having given up its unlimited right, and a twin that
            // restarted may have lost what it had.
            self.equal = false;
        }
        self.settle(now, &mut actions);
        actions
    }

    /// The member's connection is gone. `proof`: its kernel closed or reset it, so that the process
    /// is gone or has stopped serving under any right of limited time. Not for a connection that
    /// this side closed or gave up.
    pub fn connection_lost(
        &mut self,
        member: Member,
        connection: u64,
        proof: bool,
        now: Now,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let info = &mut self.members[member.index()];
        if info
            .registered
            .as_ref()
            .is_some_and(|r| r.connection == connection)
        {
            info.registered = None;
            info.left = now;
            if proof {
                info.right_until = Now::ZERO;
            }
            self.settle(now, &mut actions);
        }
        actions
    }

    /// A beat came over a connection that [`Keeper::is_welcomed`]. Answer it with
    /// [`Keeper::state_for`] at once, before anything else happens to the keeper.
    pub fn beat(&mut self, member: Member, epoch: Epoch, said: Said, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        let silence = self.terms.silence();
        let Some(r) = &mut self.members[member.index()].registered else {
            return actions;
        };
        if now >= r.heard + silence {
            r.back = now;
        }
        r.heard = now;
        r.spoke = now;
        r.lived = Some(r.answered);
        r.answered = now;
        r.accuses = said.twin_lost.then(|| r.accuses.unwrap_or(now));
        r.load = said.load;
        r.disk = said.disk;
        self.note_epoch(member, epoch);
        self.settle(now, &mut actions);
        let serves = |state: PairState| state.mode.serves(member);
        if self.state_for(member).is_some_and(serves) {
            let info = &mut self.members[member.index()];
            info.right_of_another &= info.right_until > now;
            info.right_until = now + self.terms.silence();
        }
        actions
    }

    /// The member's next word decides who serves: it is to say it as soon as it has the answer to this one. True for one word
    /// of a member after each thing that happened to its twin.
    pub fn is_to_speak_again(&self, member: Member, now: Now) -> bool {
        let may_decide = self.journaling.is_none() && self.phase == Phase::InForce;
        let since = match self.is_gone(member.twin(), now) {
            true => Some(self.gone_since(member.twin())),
            false => self.accused_since(),
        };
        let lived = self.registered(member).and_then(|r| r.lived);
        self.state.mode == Mode::Both && may_decide && since.is_some() && lived < since
    }

    /// The member has put the state of this epoch in force (its answer to `SetState`).
    pub fn acknowledged(&mut self, member: Member, epoch: Epoch, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        self.note_epoch(member, epoch);
        self.settle(now, &mut actions);
        actions
    }

    /// The serving member says that both copies are equal. With this it has given up its unlimited
    /// right until it is told another epoch.
    pub fn recovered(&mut self, member: Member, epoch: Epoch, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.state.mode == Mode::Recovering(member)
            && self.state.epoch == epoch
            && self.registered(member).is_some()
        {
            self.equal = true;
            let info = &mut self.members[member.index()];
            info.right_until = info.right_until.max(now + self.terms.silence());
            self.settle(now, &mut actions);
        }
        actions
    }

    /// The state that [`Action::Journal`] named is durable.
    pub fn on_journaled(&mut self, epoch: Epoch, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        let next = match self.journaling {
            Some(next) if next.epoch == epoch => next,
            _ => return actions,
        };
        self.journaling = None;
        let before = match self.phase {
            // It was in force for nobody.
            _ if self.state.uncertain => None,
            Phase::InForce => Some(self.state),
            // Whoever did not see the last state does not see it now.
            Phase::Waiting { before } => before,
        };
        if next.mode == Mode::Both && self.phase != Phase::InForce {
            // What was decided is taken back: it makes up for nothing.
            for info in &mut self.members {
                if let Some(r) = &mut info.registered {
                    r.considered = false;
                }
            }
        }
        self.state = next;
        self.equal = false;
        self.phase = Phase::Waiting { before };
        // The other one may be told at once: it stops.
        if let Some(sole) = next.mode.sole()
            && self.members[sole.twin().index()].right_until > now
        {
            self.tell(sole.twin(), &mut actions);
        }
        self.settle(now, &mut actions);
        actions
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        self.settle(now, &mut actions);
        actions
    }

    fn registered(&self, member: Member) -> Option<&Registered> {
        self.members[member.index()].registered.as_ref()
    }

    /// A member that has the newest state in force, and is no server in it, has no right. One that is has nothing left to
    /// make up for.
    fn note_epoch(&mut self, member: Member, epoch: Epoch) {
        let info = &mut self.members[member.index()];
        if epoch < self.state.epoch || self.state.uncertain {
            return;
        }
        let known = self.state.stores[member.index()];
        if let Some((word, store)) = &mut info.word
            && known == Some(*store)
        {
            *word = Word {
                epoch,
                mode: Some(self.state.mode),
            };
        }
        if self.state.mode.serves(member) {
            // It is current.
            if let Some(r) = &mut info.registered {
                r.forgot = false;
            }
        } else if !info.right_of_another {
            info.right_until = Now::ZERO;
        }
    }

    fn tell(&self, member: Member, actions: &mut Vec<Action>) {
        if let Some(r) = self.registered(member)
            && r.welcomed
        {
            actions.push(Action::Tell {
                member,
                connection: r.connection,
            });
        }
    }

    fn settle(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.is_inherited || now < self.deaf_until {
            return;
        }
        if self.state.uncertain {
            return self.settle_uncertain(now, actions);
        }
        // What is being journaled may count on it that a state was not told: it stays so.
        if matches!(self.phase, Phase::Waiting { .. }) && self.journaling.is_none() {
            let over = match self.state.mode.sole() {
                Some(sole) => self.members[sole.twin().index()].right_until <= now,
                None => true,
            };
            if over && !self.went_untold(now) {
                self.phase = Phase::InForce;
                for member in MEMBERS {
                    self.made_up_for(member);
                    self.tell(member, actions);
                }
                actions.push(Action::Publish(self.state));
            }
        }
        let decided = match self.phase {
            _ if self.journaling.is_some() => None,
            Phase::InForce => self.decide(now),
            // Who is to be told that it is alone may go away first. It was not told: if the other one
            // served beside it until now, that has as much as it.
            Phase::Waiting { .. } => match self.state.mode.sole() {
                Some(_) if self.went_untold(now) => Some((
                    Mode::Both,
                    "a member is gone before it was told that it is alone",
                )),
                Some(sole) if self.is_gone(sole, now) => {
                    Some((Mode::Down(sole), "the serving member is gone"))
                }
                _ => None,
            },
        };
        if let Some((mode, why)) = decided {
            let state = self.next(mode);
            for info in &mut self.members {
                if let Some(r) = &mut info.registered {
                    r.considered = true;
                }
            }
            self.journaling = Some(state);
            actions.push(Action::Journal { state, why });
        }
        if self.journaling.is_none() {
            for member in MEMBERS {
                self.welcome(member, now, actions);
            }
        }
    }

    /// Who is to be the only one after both served is gone, and has not been told.
    fn went_untold(&self, now: Now) -> bool {
        match (&self.phase, self.state.mode) {
            (
                Phase::Waiting {
                    before: Some(before),
                },
                Mode::Only(sole),
            ) => before.mode == Mode::Both && self.is_gone(sole, now),
            _ => false,
        }
    }

    fn welcome(&mut self, member: Member, now: Now, actions: &mut Vec<Action>) {
        if self.answer_for(member).is_none() && !self.state.uncertain {
            return;
        }
        if let Some(r) = &mut self.members[member.index()].registered
            && !r.welcomed
        {
            r.welcomed = true;
            r.heard = now;
            r.answered = now;
            actions.push(Action::Welcome {
                member,
                connection: r.connection,
            });
            // It learns where its twin is.
            self.tell(member.twin(), actions);
        }
    }

    /// Neither heard of nor in possession of a right.
    fn is_gone(&self, member: Member, now: Now) -> bool {
        !self.is_present(member, now) && self.members[member.index()].right_until <= now
    }

    /// It has lived since its twin was gone. Otherwise it may have died first, with a copy that is the lesser one.
    fn outlives_twin(&self, member: Member) -> bool {
        let gone = self.gone_since(member.twin());
        self.registered(member)
            .is_some_and(|r| r.lived >= Some(gone))
    }

    /// Since when both are registered, and one of them says that it cannot reach the other.
    fn accused_since(&self) -> Option<Now> {
        let [zero, one] = MEMBERS.map(|m| self.registered(m));
        let (zero, one) = (zero?, one?);
        let accused = [zero.accuses, one.accuses].into_iter().flatten().min();
        accused.map(|accused| accused.max(zero.since).max(one.since))
    }

    /// Until a moment ago it had counted as silent, too: the service may have been cut off from both, and hear the twin
    /// next. Not if that one's process is known to have ended.
    fn came_back_first(&self, member: Member, now: Now) -> bool {
        let twin = &self.members[member.twin().index()];
        let is_proven = twin.registered.is_none() && twin.right_until == Now::ZERO;
        let back = self
            .registered(member)
            .map(|r| r.back + self.terms.silence());
        !is_proven && back.is_some_and(|until| now < until)
    }

    /// Since when a member that is not heard of is neither present nor in possession of a right.
    fn gone_since(&self, member: Member) -> Now {
        let info = &self.members[member.index()];
        let silent = info
            .registered
            .as_ref()
            .map(|r| r.spoke + self.terms.silence());
        info.right_until
            .max(info.left)
            .max(silent.unwrap_or_default())
    }

    /// What a registered member has said of its disk.
    fn disk(&self, member: Member) -> Disk {
        self.registered(member)
            .map_or(Disk::Works, |registered| registered.disk)
    }

    /// Whose disk does more of what it is told than the other's.
    fn sounder(&self) -> Option<Member> {
        let [zero, one] = MEMBERS.map(|m| self.disk(m));
        match zero.cmp(&one) {
            Ordering::Less => Some(Member::Zero),
            Ordering::Equal => None,
            Ordering::Greater => Some(Member::One),
        }
    }

    /// The state that follows, with `mode`.
    fn next(&self, mode: Mode) -> PairState {
        let mut next = self.state;
        next.epoch = Epoch(self.state.epoch.0 + 1);
        next.mode = mode;
        let new_pair = self.state.stores == [None, None];
        let joins = |member: Member| match mode {
            Mode::Both => new_pair,
            // The server's store is known, or becomes it with a new pair.
            Mode::Only(m) => member == m,
            Mode::Recovering(_) => true,
            Mode::Down(_) => false,
        };
        for member in MEMBERS {
            let Some(r) = self.registered(member) else {
                continue;
            };
            let known = &mut next.stores[member.index()];
            if joins(member) && *known != Some(r.store) {
                *known = Some(r.store);
                next.fill_all = true;
            }
        }
        next.fill_all &= mode != Mode::Both;
        if mode.sole().is_some_and(|m| self.has_forgotten(m)) {
            next.forgot = next.epoch;
        }
        next
    }

    fn decide(&self, now: Now) -> Option<(Mode, &'static str)> {
        match self.state.mode {
            Mode::Both if self.state.stores == [None, None] => self.decide_new(now),
            Mode::Both => self.decide_both(now),
            Mode::Only(m) => self.decide_only(m, now),
            Mode::Recovering(m) => self.decide_recovering(m, now),
            Mode::Down(m) => self
                .is_current(m, now)
                .then_some((Mode::Only(m), "the last serving member is back")),
        }
    }

    /// Present, with the store that the pair knows.
    fn is_current(&self, member: Member, now: Now) -> bool {
        self.is_present(member, now)
            && self.registered(member).map(|r| r.store) == self.state.stores[member.index()]
    }

    fn has_forgotten(&self, member: Member) -> bool {
        self.registered(member).is_some_and(|r| r.forgot)
    }

    /// The state that comes into force was decided with what the member had said of its past in view.
    fn made_up_for(&mut self, member: Member) {
        let mode = self.state.mode;
        if let Some(r) = &mut self.members[member.index()].registered
            && std::mem::take(&mut r.considered)
        {
            r.restarted = false;
            let is_filled = mode == Mode::Recovering(member.twin());
            r.forgot &= !(mode.serves(member) || is_filled);
        }
    }

    fn waited_alone(&self, member: Member, now: Now) -> bool {
        self.registered(member)
            .is_some_and(|r| now >= r.since + self.terms.alone_after)
    }

    /// A pair nobody has served yet.
    fn decide_new(&self, now: Now) -> Option<(Mode, &'static str)> {
        let is_first_life = self.state.epoch == PairState::new(self.state.pair).epoch;
        match MEMBERS.map(|m| self.is_present(m, now)) {
            [true, true] if is_first_life => Some((Mode::Both, "a new pair is complete")),
            // What a pair had that was removed has been dropped, but one that was away or lost power then may have
            // some of it: one's copy becomes that of the other. One that served alone when the pair was removed, and
            // has not heard of that, does so until it is welcomed with a state of the pair's new life. Then it beats.
            [true, true] => {
                let has_beaten = |m| self.registered(m).is_some_and(|r| r.lived.is_some());
                let all_beat = MEMBERS.into_iter().all(has_beaten);
                all_beat.then_some((Mode::Only(self.last), "a pair has been let in again"))
            }
            [false, false] => None,
            [zero, _] => {
                let first = if zero { Member::Zero } else { Member::One };
                (self.waited_alone(first, now) && self.is_gone(first.twin(), now))
                    .then_some((Mode::Only(first), "a new pair has one member only"))
            }
        }
    }

    fn decide_both(&self, now: Now) -> Option<(Mode, &'static str)> {
        let restarted = |m: Member| self.registered(m).is_some_and(|r| r.restarted);
        match MEMBERS.map(|m| self.is_current(m, now)) {
            [true, true] => {
                let is_doubtful = |m| restarted(m) || self.has_forgotten(m);
                if MEMBERS.into_iter().any(is_doubtful) {
                    // What the new process was doing may be on one copy only: compare the lists. (One that has forgotten,
                    // and was filled, may not have heard that the copies were equal then.) Who cannot read cannot compare.
                    let fitness = |m| {
                        let reads = self.disk(m) < Disk::CannotRead;
                        (reads, !self.has_forgotten(m), !restarted(m))
                    };
                    let serving = match fitness(Member::One) > fitness(Member::Zero) {
                        true => Member::One,
                        false => Member::Zero,
                    };
                    return Some((Mode::Recovering(serving), "a member restarted"));
                }
                // It serves no longer, and does not come back before it is started anew. If both disks fail
                // alike, what they have is read from both.
                if let Some(sounder) = self.sounder() {
                    return Some((Mode::Only(sounder), "a member's disk fails"));
                }
                let accused = self.accused_since()?;
                // The silent one of the two may be dying, or dead since it accused the other: the one that has lived since
                // then goes on.
                let fitness = |m| {
                    let registered = self.registered(m);
                    registered.map(|r| (r.lived, r.spoke, r.accuses.is_some(), Reverse(r.load)))
                };
                let alone = match fitness(Member::One) > fitness(Member::Zero) {
                    true => Member::One,
                    false => Member::Zero,
                };
                // Soon either of the two is heard, or the connection of this one ends.
                let is_alive = self
                    .registered(alone)
                    .is_some_and(|r| r.lived >= Some(accused));
                is_alive.then_some((Mode::Only(alone), "the members cannot reach each other"))
            }
            [false, false] => None,
            [zero, _] => {
                let here = if zero { Member::Zero } else { Member::One };
                // Back after both were away: the other may have been the last to write, but what
                // only it has was acknowledged to nobody.
                if restarted(here) && !self.waited_alone(here, now) {
                    return None;
                }
                if self.is_present(here.twin(), now) {
                    return Some((Mode::Recovering(here), "a member has another store"));
                }
                // Alone, it could not write, and would have to fill the other one: that is worth some waiting.
                // One that cannot read either is of no use alone.
                let waits = match self.disk(here) {
                    Disk::Works => false,
                    Disk::CannotWrite => {
                        now < self.gone_since(here.twin()) + self.terms.alone_after
                    }
                    Disk::CannotRead => true,
                };
                let waits = waits || self.came_back_first(here, now);
                (!waits && self.is_gone(here.twin(), now) && self.outlives_twin(here))
                    .then_some((Mode::Only(here), "a member is gone"))
            }
        }
    }

    fn decide_only(&self, m: Member, now: Now) -> Option<(Mode, &'static str)> {
        if !self.is_current(m, now) {
            return Some((Mode::Down(m), "the serving member is gone"));
        }
        if self.has_forgotten(m) {
            return Some((
                Mode::Only(m),
                "the serving member's machine was started again",
            ));
        }
        // Whose disk failed in this life does not come back in it, as if nothing were wrong.
        let works = self.disk(m.twin()) == Disk::Works;
        let linked = |m: Member| self.registered(m).is_some_and(|r| r.accuses.is_none());
        (works && self.is_present(m.twin(), now) && linked(m) && linked(m.twin()))
            .then_some((Mode::Recovering(m), "the other member is back"))
    }

    fn decide_recovering(&self, m: Member, now: Now) -> Option<(Mode, &'static str)> {
        let twin = m.twin();
        let twin_here = self.is_current(twin, now);
        let accuses = |m: Member| self.registered(m).is_some_and(|r| r.accuses.is_some());
        let restarted = |m: Member| self.registered(m).is_some_and(|r| r.restarted);
        if !self.is_current(m, now) {
            // It said that both are equal and gave up its unlimited right before it went.
            if self.equal && twin_here {
                return Some((Mode::Both, "both copies are equal"));
            }
            return Some((Mode::Down(m), "the serving member is gone"));
        }
        if self.has_forgotten(m) {
            return Some((
                Mode::Only(m),
                "the serving member's machine was started again",
            ));
        }
        if !twin_here || restarted(twin) {
            return Some((Mode::Only(m), "the member that was being filled is gone"));
        }
        if self.disk(twin) != Disk::Works {
            let why = "the disk of the member that was being filled fails";
            return Some((Mode::Only(m), why));
        }
        if accuses(m) {
            return Some((Mode::Only(m), "the serving member cannot reach the other"));
        }
        (self.equal && !accuses(twin)).then_some((Mode::Both, "both copies are equal"))
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
