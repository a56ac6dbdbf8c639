//! `weft policy`: how files made in a directory will lie on the pairs.

use crate::error::{Error, Result, Tried};
use crate::groups::Groups;
use crate::jobs;
use crate::mounts;
use crate::output::{say, show};
use crate::table;
use crate::tool::connect_first;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weft_client::{Client, Cred, Policy, Settings};
use weft_env::Env;
use weft_types::{STRIPE_UNIT_MAX, STRIPE_UNIT_MIN};
use weft_wire::proto;
use weft_wire::proto::job::What as JobWhat;

/// `weft policy ...`
#[derive(Args)]
pub struct PolicyCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Shows the policy in force for what is made in a directory.
    Get {
        /// A directory on a mount.
        directory: PathBuf,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Sets it, for files and directories made from now on; what is left out stays as it is.
    Set {
        /// A directory on a mount.
        directory: PathBuf,
        /// How the second copy comes about.
        #[arg(long, value_enum)]
        protocol: Option<ProtocolName>,
        /// Bytes on one pair before the next: a power of two from 64K to 16M.
        #[arg(long, value_parser = parse_unit)]
        stripe_unit: Option<u32>,
        /// How many pairs a file uses; 0 for all.
        #[arg(long)]
        width: Option<u32>,
        /// What fsync waits for: both members' memory or their disks.
        #[arg(long, value_enum)]
        durability: Option<DurabilityName>,
        /// Sets it for all directories below, too, and lays the files that are there as it says, while they
        /// are in use. Other people's directories stay as they are, unless root asks.
        #[arg(long)]
        recursive: bool,
        /// With --recursive: shows progress until it is done.
        #[arg(long, requires = "recursive")]
        wait: bool,
    },
}

/// Protocols by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ProtocolName {
    /// The leader forwards while it receives and answers when both have it.
    ServerSync,
    /// The client sends to both and waits for both.
    ClientSync,
    /// The leader answers when it has it, and forwards it meanwhile.
    ServerAsync,
    /// The client sends to both and goes on when one of them has it.
    ClientAsync,
    /// server-sync while fewer clients write than there are pairs, else client-async.
    Hybrid,
}

/// Durabilities by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityName {
    /// Both members have it.
    Memory,
    /// Both members have it on stable storage.
    Disk,
}

impl ProtocolName {
    /// As the library knows it.
    pub fn to_proto(self) -> proto::Protocol {
        match self {
            ProtocolName::ServerSync => proto::Protocol::ServerSync,
            ProtocolName::ClientSync => proto::Protocol::ClientSync,
            ProtocolName::ServerAsync => proto::Protocol::ServerAsync,
            ProtocolName::ClientAsync => proto::Protocol::ClientAsync,
            ProtocolName::Hybrid => proto::Protocol::Hybrid,
        }
    }
}

/// The name that people use.
pub fn protocol_name(protocol: proto::Protocol) -> &'static str {
    match protocol {
        proto::Protocol::Unspecified => "inherited",
        proto::Protocol::ServerAsync => "server-async",
        proto::Protocol::ServerSync => "server-sync",
        proto::Protocol::ClientAsync => "client-async",
        proto::Protocol::ClientSync => "client-sync",
        proto::Protocol::Hybrid => "hybrid",
    }
}

/// The name that people use.
pub fn durability_name(durability: proto::Durability) -> &'static str {
    match durability {
        proto::Durability::Unspecified => "inherited",
        proto::Durability::Memory => "memory",
        proto::Durability::Disk => "disk",
    }
}

fn parse_unit(text: &str) -> std::result::Result<u32, String> {
    let (digits, factor) = match text.trim_end_matches("iB").trim_end_matches('B') {
        text if text.ends_with(['K', 'k']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['M', 'm']) => (&text[..text.len() - 1], 1 << 20),
        text => (text, 1),
    };
    digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|unit| unit.is_power_of_two() && (STRIPE_UNIT_MIN..=STRIPE_UNIT_MAX).contains(unit))
        .ok_or_else(|| "a power of two from 64K to 16M".into())
}

/// A client of the cluster that a directory lies in, and the directory's inode; `name` is what it calls itself.
///
/// # Errors
/// If the path is no directory on a mount, or the cluster cannot be reached.
pub async fn client_of(env: &Env, path: &Path, name: &str) -> Result<(Client, u64)> {
    let (mount, _) = mounts::of_path(path)?;
    let metadata = std::fs::metadata(path).tried_on("cannot look at", path)?;
    if !metadata.is_dir() {
        return Err(Error::Usage(format!(
            "{} is no directory (a file's layout is shown by `weft explain`)",
            path.display()
        )));
    }
    let addresses = mount.meta_addresses();
    let status = connect_first(env, &addresses).await?.status().await?;
    let settings = Settings {
        meta: addresses,
        cluster_id: status.view.unwrap_or_default().cluster_id,
        name: name.into(),
        ..Settings::default()
    };
    let client = Client::connect(env.clone(), settings)
        .await
        .map_err(|error| Error::Unreachable(error.to_string()))?;
    // The mount's own root is what was mounted.
    let ino = if metadata.ino() == 0 {
        client.root()
    } else {
        metadata.ino()
    };
    Ok((client, ino))
}

/// A tree is laid otherwise by a job, which walks over one group's files only: that it would be refused is said
/// before anything is set.
async fn check_one_group(env: &Env, directory: &Path) -> Result<()> {
    let (mount, _) = mounts::of_path(directory)?;
    let groups = Groups::of(connect_first(env, &mount.meta_addresses()).await?).await?;
    match groups.are_several() {
        false => Ok(()),
        true => Err(Error::Usage(
            "--recursive: this cluster has several groups of metadata servers, and jobs walk over one group's files \
             only. Nothing was set; set the policy of each directory without --recursive"
                .into(),
        )),
    }
}

/// Who runs this.
pub fn caller() -> Cred {
    Cred {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: rustix::process::getgroups()
            .unwrap_or_default()
            .into_iter()
            .map(|gid| gid.as_raw())
            .collect(),
    }
}

/// Runs `weft policy ...`.
///
/// # Errors
/// If the path is not on a mount, the caller may not, or the cluster cannot be reached.
pub async fn run(env: Env, command: PolicyCommand) -> Result<()> {
    let refused = |path: &Path, errno: weft_client::Errno| {
        Error::Failed(format!(
            "{}: {}",
            path.display(),
            std::io::Error::from_raw_os_error(errno.0)
        ))
    };
    match command.what {
        What::Get { directory, json } => {
            let (client, ino) = client_of(&env, &directory, "weft policy").await?;
            let policy = client.policy(ino).await;
            let closed = client.close().await;
            let policy = policy.map_err(|errno| refused(&directory, errno))?;
            closed.map_err(|errno| refused(&directory, errno))?;
            if json {
                say!(
                    "{}",
                    json!({
                        "protocol": protocol_name(policy.protocol()),
                        "stripe_unit": policy.stripe_unit,
                        "width": policy.width,
                        "durability": durability_name(policy.durability()),
                    })
                )?;
            } else {
                show!("{}", in_words(&policy))?;
            }
            Ok(())
        }
        What::Set {
            directory,
            protocol,
            stripe_unit,
            width,
            durability,
            recursive,
            wait,
        } => {
            if protocol.is_none()
                && stripe_unit.is_none()
                && width.is_none()
                && durability.is_none()
                && !recursive
            {
                return Err(Error::Usage(
                    "nothing to set: --protocol, --stripe-unit, --width or --durability".into(),
                ));
            }
            if recursive {
                check_one_group(&env, &directory).await?;
            }
            let protocol = protocol.map(ProtocolName::to_proto);
            let (client, ino) = client_of(&env, &directory, "weft policy").await?;
            let set = async {
                let mut policy = client.policy(ino).await?;
                if let Some(protocol) = protocol {
                    policy.set_protocol(protocol);
                }
                if let Some(unit) = stripe_unit {
                    policy.stripe_unit = unit;
                }
                if let Some(width) = width {
                    policy.width = width;
                }
                match durability {
                    Some(DurabilityName::Memory) => {
                        policy.set_durability(proto::Durability::Memory)
                    }
                    Some(DurabilityName::Disk) => policy.set_durability(proto::Durability::Disk),
                    None => {}
                }
                client.set_policy(&caller(), ino, policy).await?;
                client.policy(ino).await
            };
            let policy = set.await;
            let closed = client.close().await;
            let policy = policy.map_err(|errno| refused(&directory, errno))?;
            closed.map_err(|errno| refused(&directory, errno))?;
            show!("{}", in_words(&policy))?;
            if recursive {
                let (mount, _) = mounts::of_path(&directory)?;
                let tool = connect_first(&env, &mount.meta_addresses()).await?;
                let tree = proto::RelayTree {
                    root: ino,
                    policy: Some(policy),
                    uid: caller().uid,
                };
                jobs::run(&env, &tool, JobWhat::Relay(tree), wait, false).await?;
            }
            Ok(())
        }
    }
}

fn in_words(policy: &Policy) -> String {
    let unit = match policy.stripe_unit {
        0 => "inherited".into(),
        unit => table::bytes(u64::from(unit)),
    };
    let width = match policy.width {
        0 => "all pairs".into(),
        1 => "1 pair".into(),
        width => format!("{width} pairs"),
    };
    format!(
        "protocol     {}\nstripe unit  {unit}\nwidth        {width}\ndurability   {}\n",
        protocol_name(policy.protocol()),
        durability_name(policy.durability())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_unit_is_a_power_of_two_within_bounds() {
        assert_eq!(parse_unit("64K"), Ok(64 << 10));
        assert_eq!(parse_unit("1MiB"), Ok(1 << 20));
        assert_eq!(parse_unit("1048576"), Ok(1 << 20));
        for wrong in ["", "K", "32K", "3M", "32M", "-1", "1G"] {
            assert!(parse_unit(wrong).is_err(), "{wrong}");
        }
    }
}
