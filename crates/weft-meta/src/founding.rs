//! Founding a name space: the act without which no server serves (`docs/protocols/founding.md`).

use crate::group::view;
use crate::{MetaError, Settings};
use bytes::Bytes;
use std::rc::Rc;
use weft_coordinator::Coordinator;
use weft_env::Env;
use weft_types::NameSpaceId;
use weft_wire::proto::{Time, View};

/// Files that a directory may have before a name space is founded in it: what the embedded coordinator makes for itself,
/// and what a file system has in its root.
const HARMLESS: [&str; 5] = ["alive", "alive.lock", "view.lock", "view.new", "lost+found"];

/// Founds the name space of these settings: `cluster_id`, `coordinator`, and into how many `groups` it is divided. Nothing
/// need run but the coordinator. Answers what it drew.
///
/// # Errors
/// [`MetaError::Refused`] if there is a name space already, of whatever cluster; nothing was changed then. Else as
/// [`crate::start`].
pub async fn found(env: &Env, settings: &Settings) -> Result<NameSpaceId, MetaError> {
    settings.check()?;
    // A server that runs there has its name space.
    let _lock = match settings.coordinator.as_str() {
        "" => {
            let lock = crate::server::lock(env, settings).await?;
            check_empty(env, settings)?;
            Some(lock)
        }
        _ => None,
    };
    let coordinator = crate::server::coordinator(env, settings).await?;
    found_with(env, settings, coordinator).await
}

/// Whether the name space of these settings has been founded.
///
/// # Errors
/// If the view cannot be read.
pub async fn is_founded(env: &Env, settings: &Settings) -> Result<bool, MetaError> {
    let coordinator = crate::server::coordinator(env, settings).await?;
    let view = coordinator.view().await?;
    Ok(view.version != 0 && view.cluster_id == settings.cluster_id)
}

/// [`found`] with a coordinator that is there already.
///
/// # Errors
/// As [`found`].
pub async fn found_with(
    env: &Env,
    settings: &Settings,
    coordinator: Rc<dyn Coordinator>,
) -> Result<NameSpaceId, MetaError> {
    settings.check_beside_coordinator()?;
    let id = draw(env);
    let now = env.wall();
    let new = |view: &mut View| {
        if view.version != 0 {
            return Err(MetaError::Refused(format!(
                "cluster {:?} has been founded already{} at {}: nothing was changed. Start its servers; or, for another \
                 cluster, set another place for `coordinator`",
                view.cluster_id,
                view::id_of(view).map_or_else(String::new, |id| format!(" (name space {id})")),
                place_of(settings),
            )));
        }
        *view = View {
            cluster_id: settings.cluster_id.clone(),
            name_space: Bytes::copy_from_slice(&id.to_bytes()),
            founded: Some(Time {
                seconds: now.seconds(),
                nanos: now.subsecond_nanos(),
            }),
            slots: view::shared_out(settings.groups),
            ..View::default()
        };
        Ok(true)
    };
    view::change(env, &*coordinator, new).await?;
    tracing::info!(cluster = settings.cluster_id, name_space = %id, "founded");
    Ok(id)
}

/// The number of a new name space.
pub(crate) fn draw(env: &Env) -> NameSpaceId {
    NameSpaceId(u128::from(env.random()) << 64 | u128::from(env.random().max(1)))
}

/// Where the view of a cluster is, for messages.
pub(crate) fn place_of(settings: &Settings) -> String {
    match settings.coordinator.as_str() {
        "" => settings.dir.display().to_string(),
        place => place.to_owned(),
    }
}

/// Refuses a directory that has something, and no view: what it has is of a name space that lost its view.
fn check_empty(env: &Env, settings: &Settings) -> Result<(), MetaError> {
    let dir = &settings.dir;
    let items = env.read_dir(dir).map_err(|source| MetaError::Io {
        what: format!("listing {}", dir.display()),
        source,
    })?;
    // With a view it is told what there is.
    if items.iter().any(|item| item.name == "view") {
        return Ok(());
    }
    match items
        .iter()
        .find(|item| !HARMLESS.contains(&item.name.as_str()))
    {
        None => Ok(()),
        Some(item) => Err(MetaError::Refused(format!(
            "{} has {:?}, and no view of a name space: nothing was changed. If a name space was here, put its file `view` \
             back; for a new one set `dir` to an empty directory",
            dir.display(),
            item.name
        ))),
    }
}
