//! `weft slots`: which group has which part of the name space, and moving parts from one to another while they
//! are in use (`docs/protocols/slots.md`).

use crate::error::{Error, Result};
use crate::groups::Groups;
use crate::output::{say, show};
use crate::table;
use crate::tool::Where;
use clap::{Args, Subcommand};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_env::Env;
use weft_types::{GroupId, ROOT_INO, SLOTS};
use weft_wire::proto::{MoveSlotsRequest, SlotsReply, SlotsRequest};

/// What is not done yet is ordered again, and looked at, so often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// `weft slots`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SlotsCommand {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    show: Show,
}

#[derive(Args)]
struct Show {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

#[derive(Subcommand)]
enum What {
    /// Moves slots to a group, while they are in use.
    Move {
        /// A slot, or the first and the last of several: 7, or 1024-2047.
        #[arg(value_name = "FIRST[-LAST]", value_parser = span)]
        slots: (u16, u16),
        /// The group that is to have them.
        #[arg(long)]
        to: u32,
        /// Gives the order, and does not stay until it is done.
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Gives all groups the same number of slots: what a new group needs.
    Even {
        /// Gives the orders, and does not stay until they are done.
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        cluster: Where,
    },
}

fn span(text: &str) -> std::result::Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slot = |text: &str| {
        let slot = text.parse::<u16>().ok().filter(|slot| *slot < SLOTS);
        slot.ok_or_else(|| format!("{text:?} is no slot: they are 0 to {}", SLOTS - 1))
    };
    let (first, last) = (slot(first)?, slot(last)?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("{first} comes after {last}")),
    }
}

/// Runs `weft slots ...`.
///
/// # Errors
/// If a group does not answer, or refuses (the message says why).
pub async fn run(env: Env, command: SlotsCommand) -> Result<()> {
    match command.what {
        None => {
            let groups = Groups::of(command.show.cluster.connect(&env).await?).await?;
            let told = ask_all(&groups).await?;
            match command.show.json {
                true => say!("{}", to_json(&told)),
                false => show!("{}", to_text(&told)),
            }
        }
        Some(What::Move {
            slots: (first, last),
            to,
            no_wait,
            cluster,
        }) => {
            if first == ROOT_INO.slot().0 {
                let why = "slot 0, which has the root directory, stays with the first group: begin with 1";
                return Err(Error::Usage(why.into()));
            }
            let groups = Groups::of(cluster.connect(&env).await?).await?;
            if !groups.ids().contains(&GroupId(to)) {
                let all: Vec<String> = groups.ids().iter().map(GroupId::to_string).collect();
                return Err(Error::Usage(format!(
                    "there is no group {to}: the groups are {}",
                    all.join(", ")
                )));
            }
            let wanted = (first..=last).map(|slot| (slot, to)).collect();
            drive(&env, &groups, &wanted, !no_wait).await
        }
        Some(What::Even { no_wait, cluster }) => {
            let groups = Groups::of(cluster.connect(&env).await?).await?;
            let wanted = evenly(&holders(&ask_all(&groups).await?), &groups.ids());
            drive(&env, &groups, &wanted, !no_wait).await
        }
    }
}

async fn ask_all(groups: &Groups) -> Result<Vec<SlotsReply>> {
    let mut told = Vec::new();
    for group in groups.ids() {
        told.push(groups.tool(group).await?.call(&SlotsRequest {}).await?);
    }
    Ok(told)
}

/// The group of each slot. One that is on its way is nobody's.
fn holders(told: &[SlotsReply]) -> BTreeMap<u16, u32> {
    let ranges = told.iter().flat_map(|reply| {
        let ranges = reply.slots.iter();
        ranges.map(move |range| (range.first..=range.last, reply.group))
    });
    let slots = ranges.flat_map(|(range, group)| range.map(move |slot| (slot as u16, group)));
    slots.collect()
}

/// Which slots are to go where, that all groups have the same number, or one more; as few as can be.
fn evenly(holders: &BTreeMap<u16, u32>, groups: &[GroupId]) -> BTreeMap<u16, u32> {
    let mut of: BTreeMap<u32, Vec<u16>> =
        groups.iter().map(|group| (group.0, Vec::new())).collect();
    for (slot, group) in holders {
        of.entry(*group).or_default().push(*slot);
    }
    let (each, more) = (
        holders.len() / of.len().max(1),
        holders.len() % of.len().max(1),
    );
    // The one more is for those that have most.
    let mut order: Vec<u32> = of.keys().copied().collect();
    order.sort_by_key(|group| std::cmp::Reverse(of[group].len()));
    let bound = |at: usize| each + usize::from(at < more);
    let mut spare: Vec<u16> = Vec::new();
    for (at, group) in order.iter().enumerate() {
        if let Some(slots) = of.get_mut(group) {
            // Never the first ones, one of which has the root.
            let keeps = bound(at).min(slots.len());
            spare.extend(slots.split_off(keeps));
        }
    }
    spare.sort_unstable_by(|a, b| b.cmp(a));
    let mut wanted = BTreeMap::new();
    for (at, group) in order.iter().enumerate() {
        for _ in of[group].len()..bound(at) {
            wanted.extend(spare.pop().map(|slot| (slot, *group)));
        }
    }
    wanted
}

/// Orders that go to one group: slots one after the other, and where they are to go.
fn orders(left: &BTreeMap<u16, u32>, holders: &BTreeMap<u16, u32>) -> Vec<(u32, MoveSlotsRequest)> {
    let mut orders: Vec<(u32, MoveSlotsRequest)> = Vec::new();
    for (slot, to) in left {
        let Some(from) = holders.get(slot) else {
            continue;
        };
        let slot = u32::from(*slot);
        match orders.last_mut() {
            Some((of, order)) if of == from && order.to == *to && order.last + 1 == slot => {
                order.last = slot;
            }
            _ => orders.push((
                *from,
                MoveSlotsRequest {
                    first: slot,
                    last: slot,
                    to: *to,
                },
            )),
        }
    }
    orders
}

/// Has slots moved to where they are wanted. Orders are forgotten by a group whose active changes: they are
/// given until all is done.
async fn drive(env: &Env, groups: &Groups, wanted: &BTreeMap<u16, u32>, waits: bool) -> Result<()> {
    let mut said = None;
    loop {
        let told = ask_all(groups).await?;
        let holders = holders(&told);
        let left: BTreeMap<u16, u32> = wanted
            .iter()
            .filter(|(slot, to)| holders.get(slot) != Some(to))
            .map(|(slot, to)| (*slot, *to))
            .collect();
        if left.is_empty() {
            return match said {
                None => say!("all slots are where they are to be"),
                Some(_) => say!("done: {} slots are where they are to be", wanted.len()),
            };
        }
        for (from, order) in orders(&left, &holders) {
            groups.tool(GroupId(from)).await?.call(&order).await?;
        }
        if !waits {
            return say!("{} slots are to move: see `weft slots`", left.len());
        }
        let moving = told.iter().flat_map(|reply| &reply.moves);
        let stages = moving
            .take(1)
            .map(|it| format!("slot {}: {}", it.slot, it.stage));
        let now = (left.len(), stages.collect::<Vec<_>>().join(", "));
        if said.as_ref() != Some(&now) {
            match now.1.as_str() {
                "" => say!("{} of {} slots are to move", now.0, wanted.len())?,
                stage => say!("{} of {} slots are to move; {stage}", now.0, wanted.len())?,
            }
            said = Some(now);
        }
        env.sleep(LOOK_EVERY).await;
    }
}

fn count(reply: &SlotsReply) -> u32 {
    let ranges = reply.slots.iter();
    ranges.map(|range| range.last - range.first + 1).sum()
}

fn to_text(told: &[SlotsReply]) -> String {
    let rows = told.iter().map(|reply| {
        vec![
            reply.group.to_string(),
            count(reply).to_string(),
            reply.inodes.to_string(),
            reply.moves.len().to_string(),
            reply.arriving.len().to_string(),
            reply.guests.to_string(),
        ]
    });
    let heading = ["group", "slots", "inodes", "leaving", "arriving", "guests"];
    let mut text = table::render(&heading, rows.collect());
    for reply in told {
        for it in &reply.moves {
            text += &format!(
                "slot {} of group {} goes to group {}: {}\n",
                it.slot, reply.group, it.to, it.stage
            );
        }
    }
    text
}

fn to_json(told: &[SlotsReply]) -> serde_json::Value {
    let groups: Vec<serde_json::Value> = told
        .iter()
        .map(|reply| {
            let ranges: Vec<[u32; 2]> = reply.slots.iter().map(|it| [it.first, it.last]).collect();
            let moves: Vec<serde_json::Value> = reply
                .moves
                .iter()
                .map(|it| {
                    json!({ "slot": it.slot, "to": it.to, "stage": it.stage, "attempts": it.attempts })
                })
                .collect();
            json!({
                "group": reply.group,
                "slots": count(reply),
                "ranges": ranges,
                "inodes": reply.inodes,
                "moves": moves,
                "arriving": reply.arriving,
                "guests": reply.guests,
                "moved": reply.moved,
            })
        })
        .collect();
    json!({ "groups": groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_one_by_one_or_from_first_to_last() {
        assert_eq!(span("7"), Ok((7, 7)));
        assert_eq!(span("1024-4095"), Ok((1024, 4095)));
        for odd in ["", "-", "4096", "9-8", "1-x", "-3"] {
            assert!(span(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_new_group_gets_its_share_and_few_slots_move() {
        let holders: BTreeMap<u16, u32> = (0..SLOTS)
            .map(|slot| (slot, u32::from(slot >= 2048)))
            .collect();
        let groups = [GroupId(0), GroupId(1), GroupId(2)];
        let wanted = evenly(&holders, &groups);
        assert!(!wanted.contains_key(&0), "the root stays");
        assert!(wanted.values().all(|to| *to == 2));
        assert_eq!(wanted.len(), 1365);
        let mut after = holders.clone();
        after.extend(wanted);
        for group in 0..3 {
            let has = after.values().filter(|of| **of == group).count();
            assert!((1365..=1366).contains(&has), "{group}: {has}");
        }
        assert!(evenly(&after, &groups).is_empty());
    }

    #[test]
    fn orders_are_few() {
        let holders: BTreeMap<u16, u32> =
            (0..10).map(|slot| (slot, u32::from(slot >= 4))).collect();
        let left = BTreeMap::from([(2, 2), (3, 2), (4, 2), (5, 0), (6, 0), (9, 0), (11, 0)]);
        let told: Vec<(u32, u32, u32, u32)> = orders(&left, &holders)
            .into_iter()
            .map(|(from, order)| (from, order.first, order.last, order.to))
            .collect();
        assert_eq!(
            told,
            [(0, 2, 3, 2), (1, 4, 4, 2), (1, 5, 6, 0), (1, 9, 9, 0)]
        );
    }
}
