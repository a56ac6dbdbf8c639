//! `weft spread`: has a directory's entries kept by several groups (`docs/protocols/spread.md`).

use crate::error::{Error, Result};
use crate::output::show;
use crate::policy::{caller, client_of};
use clap::Args;
use std::path::PathBuf;
use weft_env::Env;
use weft_types::SHARDS_MAX;

/// `weft spread`
#[derive(Args)]
pub struct SpreadCommand {
    /// A directory on a mount, which may be in use. It stays spread for ever; directories in it are not.
    directory: PathBuf,
    /// Into how many shards: a power of two. Else as many as suit the groups.
    #[arg(long, value_parser = parse_shards)]
    shards: Option<u32>,
}

fn parse_shards(text: &str) -> std::result::Result<u32, String> {
    let number = text.parse::<u32>().ok();
    let is_count =
        |number: &u32| number.is_power_of_two() && (2..=SHARDS_MAX).contains(&(*number as usize));
    number
        .filter(is_count)
        .ok_or_else(|| format!("a power of two from 2 to {SHARDS_MAX}"))
}

/// Runs `weft spread`.
///
/// # Errors
/// If the path is no directory on a mount, or is spread, the caller does not own it, or the cluster cannot be
/// reached.
pub async fn run(env: Env, command: SpreadCommand) -> Result<()> {
    let SpreadCommand { directory, shards } = command;
    let (client, ino) = client_of(&env, &directory, "weft spread").await?;
    let spread = async {
        client.spread(&caller(), ino, shards.unwrap_or(0)).await?;
        client.shards(ino).await
    };
    let spread = spread.await;
    let closed = client.close().await;
    let path = directory.display();
    let refused = |errno: weft_client::Errno| {
        let why = match errno.0 {
            libc::EEXIST => "is spread already".into(),
            libc::EPERM => "only who owns it may spread it".into(),
            errno => std::io::Error::from_raw_os_error(errno).to_string(),
        };
        Error::Failed(format!("{path}: {why}"))
    };
    let shards = spread.map_err(refused)?;
    closed.map_err(refused)?;
    show!(
        "{path}: spread over {shards} shards. What is in it goes there while it is used: see `weft explain`\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_a_power_of_two_within_bounds() {
        assert_eq!(parse_shards("2"), Ok(2));
        assert_eq!(parse_shards("128"), Ok(128));
        for wrong in ["", "0", "1", "3", "256", "-2", "x"] {
            assert!(parse_shards(wrong).is_err(), "{wrong}");
        }
    }
}
