//! Which metadata server to try next: the search for the active of a replica group.
//!
//! Clients, data servers, movers and tools know the addresses of several members, of which one, the
//! active, serves them. [`Search`] only decides: it is told what became of attempts and says which
//! address to try or how long to wait ([`Step`]). [`Attempts`] connects as it says.
//!
//! The life of one search. An established connection breaks. The address that served last is tried, then
//! the others, without a pause: each as soon as the one before has failed (a process that was killed
//! refuses at once), or has not answered for [`PATIENCE_BEFORE_NEXT`]; an attempt that is slow goes on
//! beside the next. A member that is not the active says who is ([`Failed::NotActive`]): that one is tried
//! next. When all have been tried, that was a round, and only then is there a pause.
//!
//! What it keeps true:
//! - An address of the settings is tried in every round, whatever servers say.
//! - In a round each address is tried once by itself, and hints are followed at most as many times as
//!   there are addresses: members that point at each other, or at one that is gone, cost a bounded number
//!   of tries before the pause.
//! - The end of an outage is noticed after at most a third of the time that it has lasted, or after the
//!   shortest pause, never later than after the longest.

use crate::{CallError, Connection, Handler, Local};
use futures_util::future::{Either, LocalBoxFuture, select, select_all};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use weft_env::{Env, Mono};
use weft_wire::Failed;

/// After this long without an answer the next address is tried as well. A server in the same room
/// connects and shakes hands within a millisecond; one that has been stopped, or that is cut off, never
/// does. So short that it adds little to a takeover, and so long that a busy server is not given up
/// for every small wait; if it was only slow, the price is a handshake with another one.
pub const PATIENCE_BEFORE_NEXT: Duration = Duration::from_millis(50);
/// The shortest pause between two rounds: less than what a takeover takes at best.
pub const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Pauses are this part of the time that has been searched for: who finds the active is late by at most
/// this part of the outage, and an outage of minutes costs no more than the longest pause allows.
const PAUSE_PART: u32 = 3;
/// A connection that breaks sooner than this after it was made was no good. The first such break is
/// taken for bad luck; whoever loses one after the other pauses before each, longer each time.
const STEADY: Duration = Duration::from_secs(1);
/// Addresses that are remembered besides those of the settings: as many as one server may name.
const LEARNED_MAX: usize = weft_wire::MEMBERS_MAX;

/// How patient a search is.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The longest pause between two rounds.
    pub pause_max: Duration,
    /// What is waited for the answer to the first request on a new connection while there are others who
    /// could be asked, and at most. It doubles with each round: a server that is only slow must be heard
    /// at last.
    pub answer: [Duration; 2],
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Connect there; say with [`Search::failed`], [`Search::turned_away`], [`Search::not_served`] or
    /// [`Search::connected`] what became of it.
    Try(String),
    /// Nothing before then, unless an attempt ends.
    Wait(Mono),
}

/// The search for the active. See the module.
#[derive(Debug)]
pub struct Search {
    settings: Vec<String>,
    terms: Terms,
    /// What servers have told.
    learned: Vec<String>,
    /// Who served last.
    active: Option<String>,
    /// When that began; until it is lost.
    since: Mono,
    /// Connections in a row that broke before they were [`STEADY`].
    short: u32,
    /// When the search began; None while there is a connection.
    began: Option<Mono>,
    /// Still to be tried in this round, in this order.
    queue: VecDeque<String>,
    /// To be tried before the queue.
    hint: Option<String>,
    /// Hints followed in this round.
    hops: usize,
    /// Who could not be reached in this round.
    unreachable: Vec<String>,
    /// Attempts in progress and when they began.
    trying: Vec<(String, Mono)>,
    /// Rounds that ended without success.
    rounds: u32,
    paused_until: Option<Mono>,
    /// Never tried, whoever names it.
    avoided: Option<String>,
}

impl Search {
    /// Nothing is known but the settings' addresses.
    pub fn new(settings: Vec<String>, terms: Terms) -> Search {
        assert!(terms.pause_max >= PAUSE_MIN, "pauses cannot be drawn");
        Search {
            settings,
            terms,
            learned: Vec::new(),
            active: None,
            since: Mono(0),
            short: 0,
            began: None,
            queue: VecDeque::new(),
            hint: None,
            hops: 0,
            unreachable: Vec::new(),
            trying: Vec::new(),
            rounds: 0,
            paused_until: None,
            avoided: None,
        }
    }

    /// The same, but who answers at this address is known not to say anything: an attempt there would only hold up
    /// those at others.
    #[must_use]
    pub fn avoiding(self, address: &str) -> Search {
        let avoided = Some(address.to_owned());
        Search { avoided, ..self }
    }

    /// All addresses in the order in which a round tries them: who served last, whom servers named, those
    /// of the settings. Members may have come and gone since the settings were written.
    pub fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<String> = Vec::new();
        let all = self.active.iter().chain(&self.learned);
        for address in all.chain(&self.settings) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses
    }

    /// The addresses that servers have told.
    pub fn learned(&self) -> &[String] {
        &self.learned
    }

    /// Rounds that ended without success since the last connection.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How long to wait for the answer to the first request on a new connection. Who knows only one
    /// address gains nothing by giving up early.
    pub fn answer_patience(&self) -> Duration {
        let [first, longest] = self.terms.answer;
        if self.addresses().len() < 2 {
            return longest;
        }
        let doubled = first.saturating_mul(2u32.saturating_pow(self.rounds.min(30)));
        doubled.min(longest)
    }

    /// What to do now. `random` draws the pauses apart, so that many that lost the same server do not
    /// come back all at the same moment for ever.
    pub fn next(&mut self, now: Mono, random: u64) -> Step {
        if self.began.is_none() {
            self.begin(now, random);
        }
        loop {
            if let Some(address) = self.hint.take() {
                return self.attempt(address, now);
            }
            if let Some(until) = self.paused_until {
                if now < until {
                    return Step::Wait(until);
                }
                self.new_round();
            }
            let newest = self.trying.iter().map(|(_, began)| *began).max();
            if let Some(began) = newest
                && now < began + PATIENCE_BEFORE_NEXT
            {
                return Step::Wait(began + PATIENCE_BEFORE_NEXT);
            }
            if let Some(address) = self.queue.pop_front() {
                return self.attempt(address, now);
            }
            // Attempts that are still in progress hold up nobody: one of the others may lead by now.
            self.rounds = self.rounds.saturating_add(1);
            let searched = now.since(self.began.unwrap_or(now));
            let pause = (searched / PAUSE_PART).clamp(PAUSE_MIN, self.terms.pause_max);
            self.paused_until = Some(now + apart(pause, random));
        }
    }

    /// The attempt has failed: nobody answers there, or not so that it is of use.
    pub fn failed(&mut self, address: &str) {
        self.ended(address);
        self.unreachable.push(address.to_owned());
    }

    /// This one does not serve, or not any more, as this answer or its absence says.
    pub fn not_served(&mut self, address: &str, why: &CallError, now: Mono) {
        match why {
            CallError::Failed(Failed::NotActive { active, members }) => {
                self.turned_away(address, active, members, now);
            }
            // It is there, and another may rightly say that it leads.
            CallError::Failed(_) => self.ended(address),
            CallError::Lost(_) => self.failed(address),
        }
    }

    /// A member said that it is not the active: in an attempt, or on an established connection, which is
    /// lost by that.
    pub fn turned_away(&mut self, from: &str, active: &str, members: &[String], now: Mono) {
        self.ended(from);
        for member in members {
            let is_known = self.learned.contains(member) || self.settings.contains(member);
            if !is_known && self.learned.len() < LEARNED_MAX {
                self.learned.push(member.clone());
            }
        }
        if self.began.is_none() {
            self.begin(now, 0);
            self.queue.retain(|queued| queued != from);
        }
        // Who could not be reached in this round leads no more: whoever names it does not know yet.
        let is_of_use = !active.is_empty()
            && active != from
            && self.avoided.as_deref() != Some(active)
            && !self.unreachable.iter().any(|address| address == active)
            && !self.trying.iter().any(|(address, _)| address == active);
        if is_of_use && self.hops < self.addresses().len() {
            self.hops += 1;
            self.hint = Some(active.to_owned());
        }
    }

    /// This one serves: the search is over. `members` replaces what was learned before, unless it is
    /// empty.
    pub fn connected(&mut self, address: &str, members: Vec<String>, now: Mono) {
        self.active = Some(address.to_owned());
        self.since = now;
        self.began = None;
        self.queue.clear();
        self.hint = None;
        self.trying.clear();
        self.rounds = 0;
        self.paused_until = None;
        self.learn(members);
    }

    /// Takes over a newer list of the members, from one who knows: addresses that are not in it are
    /// forgotten, but those of the settings.
    pub fn learn(&mut self, members: Vec<String>) {
        let members = weft_wire::bounded_addresses(members);
        if !members.is_empty() {
            self.learned = members;
            self.learned.truncate(LEARNED_MAX);
        }
    }

    /// A search begins: the connection that there was is lost.
    fn begin(&mut self, now: Mono, random: u64) {
        let was_short = self.active.is_some() && now.since(self.since) < STEADY;
        self.short = if was_short { self.short + 1 } else { 0 };
        self.began = Some(now);
        self.rounds = 0;
        self.new_round();
        if self.short > 1 {
            let pause = PAUSE_MIN.saturating_mul(2u32.saturating_pow(self.short.min(30) - 2));
            let pause = pause.clamp(PAUSE_MIN, self.terms.pause_max);
            self.paused_until = Some(now + apart(pause, random));
            // Hints do not lead round the pause.
            self.hops = usize::MAX;
        }
    }

    fn new_round(&mut self) {
        self.paused_until = None;
        self.hops = 0;
        self.unreachable.clear();
        self.queue = self.addresses().into();
        let (trying, avoided) = (&self.trying, self.avoided.as_ref());
        self.queue.retain(|queued| {
            avoided != Some(queued) && !trying.iter().any(|(address, _)| address == queued)
        });
    }

    fn attempt(&mut self, address: String, now: Mono) -> Step {
        self.queue.retain(|queued| *queued != address);
        self.trying.push((address.clone(), now));
        Step::Try(address)
    }

    fn ended(&mut self, address: &str) {
        self.trying.retain(|(tried, _)| tried != address);
    }
}

/// Between three quarters of it and all of it.
fn apart(pause: Duration, random: u64) -> Duration {
    pause - (pause / 4).mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
}

/// The attempts in progress of one search.
pub struct Attempts {
    env: Env,
    /// A server that has not shaken hands by then is not there.
    patience: Duration,
    connecting: Vec<(String, Connecting)>,
}

type Connecting = LocalBoxFuture<'static, io::Result<Connection>>;

impl Attempts {
    /// None yet; each will take at most as long as the patience.
    pub fn new(env: &Env, patience: Duration) -> Attempts {
        Attempts {
            env: env.clone(),
            patience,
            connecting: Vec::new(),
        }
    }

    /// None is in progress.
    pub fn is_empty(&self) -> bool {
        self.connecting.is_empty()
    }

    /// Gives all up: who searched has found.
    pub fn clear(&mut self) {
        self.connecting.clear();
    }

    /// Goes on as the search says until an attempt has ended or a wait is over (None). A failure is told
    /// to the search here. With a connection, the caller asks whether the other side serves, and tells it.
    pub async fn step(
        &mut self,
        search: &RefCell<Search>,
        local: &Local,
        handler: &Handler,
    ) -> Option<(String, io::Result<Connection>)> {
        let until = loop {
            let step = search.borrow_mut().next(self.env.now(), self.env.random());
            match step {
                Step::Try(address) => {
                    let connecting = self.connect(&address, local, handler);
                    self.connecting.push((address, connecting));
                }
                Step::Wait(until) => break until,
            }
        };
        let waiting = self.env.sleep_until(until);
        if self.connecting.is_empty() {
            waiting.await;
            return None;
        }
        let any = select_all(self.connecting.iter_mut().map(|(_, connecting)| connecting));
        let (ended, at) = match select(any, waiting).await {
            Either::Left(((ended, at, _), _)) => (ended, at),
            Either::Right(_) => return None,
        };
        let (address, _) = self.connecting.remove(at);
        if ended.is_err() {
            search.borrow_mut().failed(&address);
        }
        Some((address, ended))
    }

    fn connect(&self, address: &str, local: &Local, handler: &Handler) -> Connecting {
        let (env, patience) = (self.env.clone(), self.patience);
        let (address, local, handler) = (address.to_owned(), local.clone(), handler.clone());
        Box::pin(async move {
            let connecting = crate::connect(&env, &address, &local, handler);
            match env.timeout(patience, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer")),
            }
        })
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
