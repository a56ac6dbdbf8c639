//! Whether the active on a connection still leads, and who does if it does not say so.
//!
//! A process that was killed is missed at once: its connections end. One that hangs, or is cut off, says
//! nothing, and one that has lost the others of its group, but not its clients, takes requests and answers
//! none. So while somebody waits for an answer, the active is asked now and then whether it leads
//! ([`LeadsRequest`]). It answers that from nothing, whatever else it is busy with or waits for: a slow disk
//! or a lock that somebody holds delay answers, but not this one.
//!
//! Without that answer there is *doubt*: the members are asked who leads, over connections of their own.
//! What keeps it cheap, and who is merely slow from being given up:
//! - A connection is left only when another member has answered that it leads, or the same one over
//!   another connection while this one stays dead. An answer on it ends the doubt.
//! - Nothing is asked while nobody waits, nor where only one address is known.

use crate::{Attempts, CallError, Connection, Handler, Local, Payload, Search, Terms};
use futures_util::future::{Either, select};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_wire::Failed;
use weft_wire::proto::identity::Role;
use weft_wire::proto::{Identity, LeadsRequest};

/// An answer that is waited for longer than this is reason to ask. Most take less.
const ASK_AFTER: Duration = Duration::from_millis(40);
/// While the same one is waited for it is asked again after twice as long, up to this: an operation that takes
/// long costs ten small messages a second.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Without an answer to that for this long there is doubt. Together with the time before about what
/// members wait before they look for another active that was steady (`group_terms.patience_ms`).
const DOUBT_AFTER: Duration = Duration::from_millis(80);
/// If the active answers over a new connection, for so long more over the old one: nothing is taken over, so there
/// is no hurry, and what is behind a full link is better waited for than sent again.
const DEAD_AFTER: Duration = Duration::from_millis(300);
/// For so long only the others are asked who leads: one of them is likely to, in a moment. Each round that the
/// silent one has a part in waits for it a while, and a takeover in that while would be noticed late.
const OTHERS_FIRST: Duration = Duration::from_millis(200);
/// One attempt to connect and shake hands takes at most this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// A server that is replaced is so within a second; one that only hangs is asked for no more often than one
/// that is gone.
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(200),
    answer: [Duration::from_millis(250), Duration::from_secs(2)],
};

/// A connection that ends with whoever asks.
struct Asking(Connection);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.close("who leads has been asked");
    }
}

/// Does `work` over a connection to the active, unless that is to be left: it does not lead any more, or
/// cannot be reached over this connection. `search` says whom else to ask, and is left as it is; `local` says
/// of which cluster they must be.
///
/// # Errors
/// Why to leave, for [`Search::not_served`]; that the connection is closed, too, if `work` goes on then.
/// Never that the server is slow.
pub async fn while_active<T>(
    env: &Env,
    connection: &Connection,
    search: &RefCell<Search>,
    local: &Local,
    work: impl Future<Output = T>,
) -> Result<T, CallError> {
    let doubted = doubted(env, connection, search, local);
    match select(pin!(work), pin!(doubted)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right((why, _)) => Err(why),
    }
}

/// Returns when the active is to be left, or the connection is closed.
async fn doubted(
    env: &Env,
    connection: &Connection,
    search: &RefCell<Search>,
    local: &Local,
) -> CallError {
    // The newest request that has been waited for, and for how long at a time.
    let mut waited: Option<(u64, Duration)> = None;
    loop {
        if let Err(why) = connection.owes().await {
            return CallError::Lost(why);
        }
        let pause = match waited {
            Some((request, pause)) if connection.owes_up_to(request) => {
                (2 * pause).min(ASK_AGAIN_AFTER)
            }
            _ => ASK_AFTER,
        };
        let newest = connection.newest_request();
        env.sleep(pause).await;
        let addresses = search.borrow().addresses();
        if !connection.owes_up_to(newest) || addresses.len() < 2 {
            continue;
        }
        waited = Some((newest, pause));
        let mut question = pin!(connection.call(&LeadsRequest {}, Payload::none()));
        let mut answer = env.timeout(DOUBT_AFTER, question.as_mut()).await;
        if answer.is_err() {
            tracing::debug!(server = connection.peer(), "does not say whether it leads");
            let led = led_elsewhere(env, connection, addresses, local);
            match select(question.as_mut(), pin!(led)).await {
                Either::Left((late, _)) => answer = Ok(late),
                Either::Right((Elsewhere { why, is_other }, _)) => {
                    if !is_other {
                        // One that stood still may be quicker with a new connection than with what it
                        // finds in an old one.
                        answer = env.timeout(DEAD_AFTER, question).await;
                    }
                    if answer.is_err() {
                        tracing::info!(server = connection.peer(), %why, "silent: leaving it");
                        return why;
                    }
                }
            }
        }
        // What else it answers, it is there: whether it is of use is told to the requests that wait.
        if let Ok(Err(why @ (CallError::Lost(_) | CallError::Failed(Failed::NotActive { .. })))) =
            answer
        {
            return why;
        }
    }
}

/// Somebody has said over another connection that it leads.
struct Elsewhere {
    /// Why the one in doubt is to be left.
    why: CallError,
    /// It is another process.
    is_other: bool,
}

/// Asks the members until one says that it leads.
async fn led_elsewhere(
    env: &Env,
    doubted: &Connection,
    mut addresses: Vec<String>,
    local: &Local,
) -> Elsewhere {
    // Nobody in particular: a server must not take this for a session's connection, or a data server's.
    let local = local.with_identity(Identity {
        role: Role::Tool as i32,
        id: 0,
        incarnation: env.random(),
        group: local.identity.group,
    });
    addresses.retain(|address| address != doubted.peer());
    // They go on naming the one in doubt until they know better.
    let others = Search::new(addresses.clone(), TERMS).avoiding(doubted.peer());
    let others = led_by_one_of(env, doubted, others, &local);
    if let Ok(found) = env.timeout(OTHERS_FIRST, others).await {
        return found;
    }
    // The one in doubt comes last, but comes: its connection may be dead, and it alive.
    addresses.push(doubted.peer().to_owned());
    led_by_one_of(env, doubted, Search::new(addresses, TERMS), &local).await
}

/// Asks these until one says that it leads.
async fn led_by_one_of(
    env: &Env,
    doubted: &Connection,
    search: Search,
    local: &Local,
) -> Elsewhere {
    let search = RefCell::new(search);
    let refuse: Handler = Rc::new(|_, request| {
        let refused = Failed::Refused("who asks who leads answers nothing".into());
        request.replier.fail(refused);
    });
    let mut attempts = Attempts::new(env, CONNECT_PATIENCE);
    loop {
        let Some((address, Ok(connection))) = attempts.step(&search, local, &refuse).await else {
            continue;
        };
        let asking = Asking(connection);
        let call = asking.0.call(&LeadsRequest {}, Payload::none());
        let patience = search.borrow().answer_patience();
        let answer = env.timeout(patience, call).await;
        match answer.unwrap_or_else(|_| Err(CallError::Lost("no answer".into()))) {
            Ok(_) => {
                let why = match address == doubted.peer() {
                    true => CallError::Lost("its server answers over another connection".into()),
                    false => CallError::Failed(Failed::NotActive {
                        active: address,
                        members: search.borrow().learned().to_vec(),
                    }),
                };
                let is_other = asking.0.identity() != doubted.identity();
                return Elsewhere { why, is_other };
            }
            Err(why) => search.borrow_mut().not_served(&address, &why, env.now()),
        }
    }
}
