//! The end of a session's term by this client's own clock (`docs/protocols/leases.md`, "Sessions"): nothing that was
//! leased is believed any more, so the face forgets it, though nobody asks for anything and the service is out of reach.
//!
//! A process that stood still does so as soon as it goes on: the time is over by then.

use crate::core::Core;
use crate::keeping::kept;
use std::rc::Weak;
use std::time::Duration;
use weft_env::Mono;

/// How often it is looked whether a session whose term has passed is believed again. Shorter than any term, or the end
/// of a short one could be missed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Has the face forget everything whenever the term of the session with a group passes, until the client is gone.
pub(crate) async fn watch(core: Weak<Core>, group: u32) {
    // When the term ended that was noticed last.
    let mut noticed = Mono(0);
    loop {
        // Nothing holds the client while its session's term runs.
        let (env, until, invalidator) = match kept(&core, group) {
            Some((core, session)) if !session.is_closed() => {
                let invalidator = core.invalidator.borrow().clone();
                (core.env.clone(), session.believed_until(), invalidator)
            }
            _ => return,
        };
        if env.now() < until {
            env.sleep_until(until).await;
            continue;
        }
        // A session that has not begun, or has been ended, has nothing that could be believed.
        if until != Mono(0) && until != noticed {
            noticed = until;
            tracing::info!(
                group,
                "the session's term has passed: nothing that was leased is believed"
            );
            if let Some(invalidator) = invalidator {
                invalidator.everything().await;
            }
        }
        env.sleep(LOOK_EVERY).await;
    }
}
