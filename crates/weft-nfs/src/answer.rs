//! From a call to its answer: at once where that is possible, by a task where it is not.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use weft_env::Env;
use weft_oncrpc::{Call, Connection, Credential, Refusal, Replier};
use weft_xdr::Procedure;

/// Who asks, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who it says it is.
    pub credential: Credential,
    /// The address of the connection's other side.
    pub peer: String,
    /// The caller's number for the call: the same when it is sent again.
    pub xid: u32,
}

impl Caller {
    pub(crate) fn of(connection: &Connection, call: &mut Call) -> Caller {
        Caller {
            credential: std::mem::replace(&mut call.credential, Credential::None),
            peer: connection.peer().to_owned(),
            xid: call.xid,
        }
    }
}

/// Decodes, lets `work` begin, and answers now if it does not have to wait.
pub(crate) fn answer<P: Procedure + 'static>(
    env: &Env,
    mut call: Call,
    replier: Replier,
    work: impl FnOnce(P::Arguments) -> LocalBoxFuture<'static, P::Results>,
) {
    let arguments = match call.arguments::<P>() {
        Ok(arguments) => arguments,
        Err(_) => return replier.refuse(Refusal::Arguments),
    };
    let mut working = work(arguments);
    // What it waits for, it registers anew when the task asks it again.
    match (&mut working).now_or_never() {
        Some(results) => replier.send::<P>(&results),
        None => {
            env.spawn(P::NAME, async move {
                let results = working.await;
                replier.send::<P>(&results);
            });
        }
    }
}
