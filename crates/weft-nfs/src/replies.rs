//! Calls that come twice: who has heard no answer sends again, and what was done must not be done once more.

use bytes::Bytes;
use siphasher::sip::SipHasher13;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;
use weft_env::{Env, Mono};
use weft_oncrpc::Replier;

/// Answers that are kept at most.
const KEPT_MAX: usize = 4_096;
/// And for how long: clients give up sending a call again sooner, or have another number for it.
const KEPT_FOR: Duration = Duration::from_secs(120);

/// A call, as it is told from others: its number alone may be another's after a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CallKey {
    from: Option<IpAddr>,
    xid: u32,
    procedure: u32,
    arguments: u64,
}

impl CallKey {
    pub(crate) fn new(from: Option<IpAddr>, xid: u32, procedure: u32, arguments: &[u8]) -> CallKey {
        let mut hasher = SipHasher13::new();
        hasher.write(arguments);
        CallKey {
            from,
            xid,
            procedure,
            arguments: hasher.finish(),
        }
    }
}

enum State {
    /// It is being done; those wait for the answer that sent it again.
    Doing(Vec<Replier>),
    Done(Bytes, Mono),
}

/// What is to be done with a call.
pub(crate) enum Known {
    /// It is new, and noted. Who does it says how it ended.
    New(Replier),
    /// It has been seen to.
    Answered,
}

/// The answers of a gateway.
pub(crate) struct Replies {
    env: Env,
    known: RefCell<BTreeMap<CallKey, State>>,
    /// In the order in which they were done.
    done: RefCell<VecDeque<CallKey>>,
}

/// Answers with the results that were encoded before.
pub(crate) fn answer(replier: Replier, results: &Bytes) {
    replier.send_with(|out| out.fixed(results));
}

impl Replies {
    pub(crate) fn new(env: &Env) -> Replies {
        Replies {
            env: env.clone(),
            known: RefCell::default(),
            done: RefCell::default(),
        }
    }

    /// A call has come.
    pub(crate) fn on_call(&self, key: CallKey, replier: Replier) -> Known {
        self.forget_old();
        match self.known.borrow_mut().get_mut(&key) {
            Some(State::Doing(waiting)) => {
                waiting.push(replier);
                return Known::Answered;
            }
            Some(State::Done(results, _)) => {
                answer(replier, results);
                return Known::Answered;
            }
            None => {}
        }
        let doing = State::Doing(Vec::new());
        self.known.borrow_mut().insert(key, doing);
        Known::New(replier)
    }

    /// A new call was done: with these results, encoded. Answers those that sent it again meanwhile.
    pub(crate) fn on_done(&self, key: CallKey, results: &Bytes) {
        let now = self.env.now();
        let state = State::Done(results.clone(), now);
        let was = self.known.borrow_mut().insert(key, state);
        self.done.borrow_mut().push_back(key);
        if let Some(State::Doing(waiting)) = was {
            for replier in waiting {
                answer(replier, results);
            }
        }
    }

    fn forget_old(&self) {
        let now = self.env.now();
        let (mut known, mut done) = (self.known.borrow_mut(), self.done.borrow_mut());
        while let Some(first) = done.front() {
            let is_old = match known.get(first) {
                Some(State::Done(_, since)) => now.since(*since) >= KEPT_FOR,
                _ => true,
            };
            if !is_old && done.len() <= KEPT_MAX {
                return;
            }
            known.remove(first);
            done.pop_front();
        }
    }
}
