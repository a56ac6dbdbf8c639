//! A member's place in its pair for a directory that is empty: asked for before anything is made in it
//! (`docs/protocols/founding.md`).

use crate::contact;
use crate::server::DataError;
use crate::settings::Settings;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_rpc::{Attempts, CallError, Handler, Local, Payload, Search, Strangers};
use weft_types::NameSpaceId;
use weft_wire::Failed;
use weft_wire::proto::PlaceRequest;

/// Asks the active of the first group for the place, for as long as it takes to find one. Answers the name space's id.
///
/// # Errors
/// [`DataError::Misplaced`]: another directory has the place, or the service is of another cluster.
pub(crate) async fn ask(
    env: &Env,
    settings: &Settings,
    local: &Local,
) -> Result<Option<NameSpaceId>, DataError> {
    let request = PlaceRequest {
        pair: settings.pair,
        member: settings.member,
    };
    let to_connect = Duration::from_millis(settings.link_patience_ms);
    let search = RefCell::new(Search::new(settings.meta.clone(), contact::TERMS));
    let mut attempts = Attempts::new(env, to_connect);
    let nothing: Handler = Rc::new(|_, request| {
        let why = "this server has no place yet".into();
        request.replier.fail(Failed::Refused(why));
    });
    let mut said = BTreeMap::new();
    let mut strangers = Strangers::default();
    loop {
        let step = attempts.step(&search, local, &nothing).await;
        let Some((address, connected)) = step else {
            continue;
        };
        let connection = match connected {
            Ok(connection) => connection,
            Err(why) => {
                if strangers.met(&address, &why, &settings.meta) {
                    return Err(DataError::Misplaced(why.to_string()));
                }
                tell_once(&mut said, &address, why.to_string());
                continue;
            }
        };
        let call = connection.call(&request, Payload::none());
        let patience = search.borrow().answer_patience();
        let answered = env.timeout(patience, call).await;
        connection.close("asked for a place");
        let why = match answered {
            Ok(Ok((reply, _))) => return Ok(NameSpaceId::from_bytes(&reply.name_space)),
            Ok(Err(CallError::Failed(Failed::Misplaced(why)))) => {
                return Err(DataError::Misplaced(why));
            }
            Ok(Err(why)) => why,
            Err(_) => CallError::Lost("the question was not answered".into()),
        };
        tell_once(&mut said, &address, why.to_string());
        search.borrow_mut().not_served(&address, &why, env.now());
    }
}

/// An operator who waits for the server reads what it waits for: of each server that was asked, when that changes.
fn tell_once(said: &mut BTreeMap<String, String>, address: &str, why: String) {
    if said.get(address) != Some(&why) {
        tracing::info!(
            meta = address,
            why,
            "no place has been given to this server's empty directory yet"
        );
        said.insert(address.to_owned(), why);
    }
}
