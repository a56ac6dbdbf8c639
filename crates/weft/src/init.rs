//! `weft init`: founds a name space. No server does that by starting (`docs/protocols/founding.md`).

use crate::config::load_sound;
use crate::error::{Error, Result};
use crate::output::say;
use clap::Args;
use std::path::PathBuf;
use weft_meta::{MetaError, Settings};

/// `weft init ...`
#[derive(Args)]
pub struct InitCommand {
    /// The configuration of a metadata server: of its settings those count that say where the cluster's view is kept, what
    /// the cluster is called, and into how many groups its name space is divided.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Founds the name space of a configuration.
///
/// # Errors
/// [`Error::Refused`] if there is one already: nothing was changed then.
pub fn run(command: &InitCommand) -> Result<()> {
    let settings: Settings = load_sound(&command.config)?;
    let shown = settings.clone();
    let id =
        crate::block_on(
            |env| async move { weft_meta::found(&env, &settings).await.map_err(of_meta) },
        )?;
    let groups = match shown.groups {
        1 => "one group of metadata servers".to_owned(),
        groups => format!("{groups} groups of metadata servers"),
    };
    say!(
        "cluster {:?} is founded, for {groups}: name space {id}",
        shown.cluster_id
    )?;
    match shown.coordinator.as_str() {
        "" => say!(
            "start its metadata server: weft meta --config {}",
            command.config.display()
        ),
        place => say!(
            "start its metadata servers, each with coordinator = {place:?}: weft meta --config FILE"
        ),
    }
}

/// Why a metadata server does not start, or a name space is not founded.
pub fn of_meta(error: MetaError) -> Error {
    match error {
        MetaError::Refused(why) => Error::Refused(why),
        error @ MetaError::Settings(_) => Error::Usage(error.to_string()),
        error => Error::Failed(error.to_string()),
    }
}
