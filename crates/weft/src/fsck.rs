//! `weft fsck`: with `--meta` the name space is checked, and repaired (`fsck/meta.rs`), with `--data` the copies are.
//!
//! `weft fsck --data` compares both copies of everything, from outside: it lists the objects of both members
//! and sets their block checksums side by side.
//!
//! Works while the cluster is in use: a region that differs is looked at again for a while, since a
//! write may have reached one member only just now.

mod meta;

use crate::error::{Error, Result};
use crate::output::say;
use crate::status::mode_name;
use crate::table;
use crate::tool::{Tool, Where};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use weft_env::Env;
use weft_types::REGION_BYTES;
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{ChecksumsRequest, ListRequest, ObjectName, PairStatus};

/// Objects asked for at a time: a page of some tens of kilobytes.
const PAGE: u32 = 1_000;
/// How often a region that differs is looked at again, and how long between: a write in flight is on
/// both members long before that, or the pair has changed its state.
const AGAIN: u32 = 10;
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Differences that are listed; the count tells the rest.
const SHOWN_MAX: usize = 20;

/// `weft fsck`
#[derive(Args)]
pub struct FsckCommand {
    /// Compares both copies of all data.
    #[arg(long, required_unless_present = "meta")]
    data: bool,
    /// Checks the whole name space: that every name has its inode, and every inode its names. Changes nothing without
    /// --repair, and tells what that would do. Of which cluster may be said by the address (host:port) of a metadata
    /// server; with --data that is all it says.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "")]
    meta: Option<String>,
    /// With --meta: sets right what is found, while the cluster is in use. No inode is removed; what has no name gets
    /// one in /lost+found.
    #[arg(long, requires = "meta", conflicts_with = "data")]
    repair: bool,
    /// Directory of a `weft dev`.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// With --data: waits up to this many seconds for recoveries to end first.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "data")]
    wait: u64,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

impl FsckCommand {
    /// Which cluster is meant.
    ///
    /// # Errors
    /// If it is said twice, or two checks are asked for.
    fn cluster(&self) -> Result<Where> {
        let meta = self.meta.clone().filter(|address| !address.is_empty());
        if self.data && self.meta.is_some() && meta.is_none() {
            return Err(Error::Usage(
                "--data and --meta are two checks: give one of them (--meta ADDRESS besides --data only says where)"
                    .into(),
            ));
        }
        if meta.is_some() && self.dir.is_some() {
            return Err(Error::Usage(
                "--meta ADDRESS and --dir both say which cluster: give one of them".into(),
            ));
        }
        Ok(Where {
            meta,
            dir: self.dir.clone(),
        })
    }
}

/// What was compared.
#[derive(Default)]
struct Tally {
    objects: u64,
    regions: u64,
    bytes: u64,
    differences: u64,
    shown: Vec<String>,
}

impl Tally {
    fn differ(&mut self, what: String) {
        self.differences += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(what);
        }
    }
}

/// Runs `weft fsck`.
///
/// # Errors
/// [`Error::Unsound`] if copies differ or a pair has only one, or something in the name space is wrong.
pub async fn run(env: Env, command: FsckCommand) -> Result<()> {
    let cluster = command.cluster()?;
    if !command.data {
        return meta::run(&env, &cluster, command.json, command.repair).await;
    }
    let tool = cluster.connect(&env).await?;
    let start = env.now();
    let deadline = start + Duration::from_secs(command.wait);
    let status = loop {
        let status = tool.status().await?;
        let whole = status.pairs.iter().all(has_both);
        if whole || env.now() >= deadline {
            break status;
        }
        env.sleep(AGAIN_AFTER).await;
    };
    let mut tally = Tally::default();
    let mut alone = Vec::new();
    for pair in &status.pairs {
        if !has_both(pair) {
            let state = pair.state.unwrap_or_default();
            alone.push(format!("pair {} is {}", state.pair, mode_name(&state)));
            continue;
        }
        compare_pair(&env, pair, &mut tally).await?;
    }
    let took = env.now().since(start).as_secs_f64();
    if command.json {
        say!(
            "{}",
            json!({
                "pairs": status.pairs.len(),
                "pairs_without_two_copies": alone,
                "objects": tally.objects,
                "regions": tally.regions,
                "bytes": tally.bytes,
                "differences": tally.differences,
                "shown": tally.shown,
                "equal": tally.differences == 0 && alone.is_empty(),
                "seconds": took,
            })
        )?;
    } else {
        for line in &tally.shown {
            say!("{line}")?;
        }
        say!(
            "{} pair(s), {} objects, {} in each copy: {} (in {})",
            status.pairs.len() - alone.len(),
            tally.objects,
            table::bytes(tally.bytes),
            match tally.differences {
                0 => "both copies are equal".to_owned(),
                count => format!("{count} differences"),
            },
            table::seconds(took)
        )?;
    }
    if tally.differences > 0 {
        return Err(Error::Unsound(format!(
            "{} regions differ between the two copies",
            tally.differences
        )));
    }
    if !alone.is_empty() {
        return Err(Error::Unsound(format!(
            "not compared, for want of a second copy: {}",
            alone.join(", ")
        )));
    }
    Ok(())
}

fn has_both(pair: &PairStatus) -> bool {
    pair.state.unwrap_or_default().mode() == Mode::Both && pair.members.iter().all(|one| one.alive)
}

/// All objects of one member.
async fn list(tool: &Tool) -> Result<BTreeMap<(u64, u32), u64>> {
    let mut all = BTreeMap::new();
    let mut request = ListRequest {
        max: PAGE,
        ..ListRequest::default()
    };
    loop {
        let page = tool.call(&request).await?;
        for one in &page.objects {
            let name = one.object.unwrap_or_default();
            all.insert((name.ino, name.generation), one.length);
            (request.after_ino, request.after_generation) = (name.ino, name.generation);
        }
        if !page.more || page.objects.is_empty() {
            return Ok(all);
        }
    }
}

async fn compare_pair(env: &Env, pair: &PairStatus, tally: &mut Tally) -> Result<()> {
    let state = pair.state.unwrap_or_default();
    let mut tools = Vec::new();
    for member in &pair.members {
        tools.push(Tool::connect(env, &member.address).await?);
    }
    let [zero, one] = &tools[..] else {
        return Err(Error::Failed(format!(
            "pair {} has {} members",
            state.pair,
            tools.len()
        )));
    };
    let mut names = list(zero).await?;
    for (name, length) in list(one).await? {
        let known = names.entry(name).or_default();
        *known = length.max(*known);
    }
    for ((ino, generation), length) in names {
        tally.objects += 1;
        tally.bytes += length;
        let object = ObjectName { ino, generation };
        for region in 0..length.div_ceil(REGION_BYTES).max(1) {
            tally.regions += 1;
            if let Some(why) =
                compare_region(env, zero, one, state.epoch, object, region as u32).await?
            {
                tally.differ(format!(
                    "pair {}, object {ino:016x}.{generation}, region {region}: {why}",
                    state.pair
                ));
            }
        }
    }
    Ok(())
}

/// Why a region differs; None if it is the same on both, or the object is gone from both.
async fn compare_region(
    env: &Env,
    zero: &Tool,
    one: &Tool,
    epoch: u64,
    object: ObjectName,
    region: u32,
) -> Result<Option<String>> {
    let request = ChecksumsRequest {
        epoch,
        object: Some(object),
        region,
        ..ChecksumsRequest::default()
    };
    let mut why = String::new();
    for _ in 0..AGAIN {
        let (mut left, mut right) = (zero.call(&request).await?, one.call(&request).await?);
        // An object of no bytes reads as one that is not there, and a power cut may leave it on one member.
        left.exists &= left.length > 0;
        right.exists &= right.length > 0;
        if left == right {
            return Ok(None);
        }
        why = if left.exists != right.exists {
            format!(
                "only member {} has the object",
                if left.exists { 0 } else { 1 }
            )
        } else if left.length != right.length {
            format!("lengths {} and {}", left.length, right.length)
        } else {
            let blocks = left.checksums.len().max(right.checksums.len());
            let differing = (0..blocks)
                .filter(|&at| left.checksums.get(at) != right.checksums.get(at))
                .count();
            format!("{differing} blocks")
        };
        env.sleep(AGAIN_AFTER).await;
    }
    Ok(Some(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: FsckCommand,
    }

    #[test]
    fn one_check_is_asked_for_and_of_one_cluster() {
        let parse = |arguments: &[&str]| Line::try_parse_from(["weft"].iter().chain(arguments));
        let cluster = |arguments: &[&str]| {
            let command = parse(arguments).ok().unwrap().command;
            command
                .cluster()
                .map(|cluster| (command.data, cluster.meta))
        };
        assert_eq!(cluster(&["--meta"]).unwrap(), (false, None));
        let at = |data| (data, Some("h:1".to_owned()));
        assert_eq!(cluster(&["--meta", "h:1"]).unwrap(), at(false));
        assert_eq!(cluster(&["--data", "--meta", "h:1"]).unwrap(), at(true));
        assert_eq!(cluster(&["--meta", "--dir", "d"]).unwrap(), (false, None));
        assert!(parse(&[]).is_err());
        assert!(parse(&["--meta", "--wait", "3"]).is_err());
        assert!(parse(&["--repair"]).is_err());
        assert!(parse(&["--data", "--meta", "h:1", "--repair"]).is_err());
        let repairs = parse(&["--meta", "h:1", "--repair"]).ok().unwrap().command;
        assert!(repairs.repair);
        for refused in [&["--data", "--meta"][..], &["--meta", "h:1", "--dir", "d"]] {
            assert_eq!(cluster(refused).unwrap_err().exit_code(), 2);
        }
    }
}
