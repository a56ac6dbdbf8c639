//! Serving a call: at once if nothing in it waits, else as a task.

use crate::caller::Caller;
use crate::exports::Origin;
use crate::gateway::Shared;
use crate::replies::{CallKey, Known, answer};
use futures_util::FutureExt;
use std::rc::Rc;
use std::task::{Context, Waker};
use weft_oncrpc::{Call, Refusal, Replier};
use weft_xdr::{Encoder, Procedure};

/// Does it now as far as it goes; what has to wait goes on as a task.
pub(crate) fn go(shared: &Rc<Shared>, work: impl Future<Output = ()> + 'static) {
    let mut work = work.boxed_local();
    let mut context = Context::from_waker(Waker::noop());
    // A task asks it again, so that nobody need be woken by this attempt.
    if work.poll_unpin(&mut context).is_pending() {
        shared.env.spawn("nfs call", work);
    }
}

fn caller(shared: &Rc<Shared>, from: Origin, call: &Call) -> Caller {
    Caller {
        shared: shared.clone(),
        from,
        credential: call.credential.clone(),
        client: None,
    }
}

/// Serves a call that may be done any number of times.
pub(crate) fn run<P: Procedure, F: Future<Output = P::Results> + 'static>(
    shared: &Rc<Shared>,
    from: Origin,
    mut call: Call,
    replier: Replier,
    procedure: impl FnOnce(Caller, P::Arguments) -> F,
) {
    shared
        .metrics
        .call((P::VERSION, P::NUMBER), || P::NAME.to_owned());
    let Ok(arguments) = call.arguments::<P>() else {
        return replier.refuse(Refusal::Arguments);
    };
    let results = procedure(caller(shared, from, &call), arguments);
    go(shared, async move { replier.send::<P>(&results.await) });
}

/// Serves a call that writes its results itself.
pub(crate) fn run_with<P: Procedure, F, W>(
    shared: &Rc<Shared>,
    from: Origin,
    mut call: Call,
    replier: Replier,
    procedure: impl FnOnce(Caller, P::Arguments) -> F,
) where
    F: Future<Output = W> + 'static,
    W: FnOnce(&mut Encoder) + 'static,
{
    shared
        .metrics
        .call((P::VERSION, P::NUMBER), || P::NAME.to_owned());
    let Ok(arguments) = call.arguments::<P>() else {
        return replier.refuse(Refusal::Arguments);
    };
    let results = procedure(caller(shared, from, &call), arguments);
    go(shared, async move { replier.send_with(results.await) });
}

/// Serves a call that must be done once, however often it comes.
pub(crate) fn run_once<P: Procedure, F: Future<Output = P::Results> + 'static>(
    shared: &Rc<Shared>,
    from: Origin,
    mut call: Call,
    replier: Replier,
    procedure: impl FnOnce(Caller, P::Arguments) -> F,
) {
    shared
        .metrics
        .call((P::VERSION, P::NUMBER), || P::NAME.to_owned());
    let Ok(arguments) = call.arguments::<P>() else {
        return replier.refuse(Refusal::Arguments);
    };
    let mut out = Encoder::default();
    P::encode_arguments(&arguments, &mut out);
    let key = CallKey::new(from.address, call.xid, P::NUMBER, &out.joined());
    let Known::New(replier) = shared.replies.on_call(key, replier) else {
        return;
    };
    let results = procedure(caller(shared, from, &call), arguments);
    let shared_too = shared.clone();
    go(shared, async move {
        let mut out = Encoder::default();
        P::encode_results(&results.await, &mut out);
        let results = out.joined();
        answer(replier, &results);
        shared_too.replies.on_done(key, &results);
    });
}
