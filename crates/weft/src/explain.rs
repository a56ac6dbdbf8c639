//! `weft explain FILE`: where a file lies, what an acknowledgement means for it, what each server's
//! death would cost now.

use crate::error::{Error, Result};
use crate::groups::{self, Groups};
use crate::mounts;
use crate::output::{say, show};
use crate::policy::{durability_name, protocol_name};
use crate::status::mode_name;
use crate::table;
use crate::tool::{Tool, connect_first};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use weft_env::Env;
use weft_types::{FIRST_GROUP, PairId, StripeMap};
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{
    Durability, ExplainReply, FileKind, Layout, MapRequest, ObjectName, PairState, Protocol,
    StatusReply,
};

/// `weft explain`
#[derive(Args)]
pub struct ExplainCommand {
    /// A file on a mount.
    file: PathBuf,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    /// How many stripes to show, from the start of the file.
    #[arg(long, default_value_t = 16)]
    stripes: u64,
}

/// One stripe of the file.
struct Stripe {
    index: u64,
    start: u64,
    end: u64,
    pair: u32,
    leader: usize,
    object_offset: u64,
    /// 0 none, 1 or 2 one member, 3 both; None: nobody could say.
    dstatus: Option<u32>,
}

/// What is known of a file.
struct Explanation {
    path: String,
    reply: ExplainReply,
    status: StatusReply,
    stripes: Vec<Stripe>,
    stripes_total: u64,
}

/// Runs `weft explain`.
///
/// # Errors
/// If the file is not on a mount or the metadata service does not answer.
pub async fn run(env: Env, command: ExplainCommand) -> Result<()> {
    let (mount, inside) = mounts::of_path(&command.file)?;
    let tool = connect_first(&env, &mount.meta_addresses()).await?;
    let groups = Groups::of(tool).await?;
    let (mut reply, group) = groups.explain(inside.as_os_str().as_bytes()).await?;
    let status = groups.status;
    if group != FIRST_GROUP {
        // Who of a pair serves only the first group decides.
        reply.pairs = states_of(&status, &reply);
    }
    let (stripes, stripes_total) = stripes_of(&env, &reply, &status, command.stripes).await?;
    let explanation = Explanation {
        path: command.file.display().to_string(),
        reply,
        status,
        stripes,
        stripes_total,
    };
    if command.json {
        say!("{}", explanation.to_json())?;
    } else {
        show!("{}", explanation.to_text())?;
    }
    Ok(())
}

/// The states of the pairs that a file lies on.
fn states_of(status: &StatusReply, reply: &ExplainReply) -> Vec<PairState> {
    let inode = reply.inode.iter();
    let layouts = inode.filter_map(|inode| inode.layout.as_ref());
    let pairs: Vec<u32> = layouts.flat_map(|layout| &layout.pairs).copied().collect();
    let states = status.pairs.iter().filter_map(|pair| pair.state);
    states.filter(|state| pairs.contains(&state.pair)).collect()
}

fn address_of(status: &StatusReply, pair: u32, member: u32) -> Option<&str> {
    status
        .pairs
        .iter()
        .find(|one| one.state.unwrap_or_default().pair == pair)?
        .members
        .iter()
        .find(|one| one.member == member && one.alive)
        .map(|one| one.address.as_str())
}

/// The members to ask about a pair's copies, the one that serves first.
fn members_to_ask(state: &PairState) -> [u32; 2] {
    match state.mode() {
        Mode::Both | Mode::Unspecified => [0, 1],
        Mode::Only | Mode::Recovering | Mode::Down => [state.serving, 1 - state.serving.min(1)],
    }
}

async fn stripes_of(
    env: &Env,
    reply: &ExplainReply,
    status: &StatusReply,
    shown: u64,
) -> Result<(Vec<Stripe>, u64)> {
    let inode = reply.inode.clone().unwrap_or_default();
    let (Some(layout), Some(attr)) = (inode.layout, inode.attr) else {
        return Ok((Vec::new(), 0));
    };
    let pairs = layout.pairs.iter().map(|&pair| PairId(pair)).collect();
    let map = StripeMap::new(layout.stripe_unit, pairs)
        .ok_or_else(|| Error::Failed("the metadata server names a layout that cannot be".into()))?;
    let total = attr.size.div_ceil(map.unit());
    let mut tools: BTreeMap<(u32, u32), Option<Tool>> = BTreeMap::new();
    let mut stripes = Vec::new();
    for index in 0..total.min(shown) {
        let start = index * map.unit();
        let piece = map.piece_at(start, (attr.size - start).min(map.unit()));
        let pair = piece.pair.0;
        let state = reply
            .pairs
            .iter()
            .find(|state| state.pair == pair)
            .copied()
            .unwrap_or_default();
        let mut dstatus = None;
        for member in members_to_ask(&state) {
            if let Entry::Vacant(vacant) = tools.entry((pair, member)) {
                let tool = match address_of(status, pair, member) {
                    Some(address) => Tool::connect(env, address).await.ok(),
                    None => None,
                };
                vacant.insert(tool);
            }
            let Some(Some(tool)) = tools.get(&(pair, member)) else {
                continue;
            };
            let request = MapRequest {
                epoch: state.epoch,
                pair,
                object: Some(ObjectName {
                    ino: attr.ino,
                    generation: layout.generation,
                }),
                start: piece.object_offset,
                end: piece.object_offset + piece.length,
                max: 0,
            };
            if let Ok(map) = tool.call(&request).await {
                dstatus = Some(map.dstatus);
                break;
            }
        }
        stripes.push(Stripe {
            index,
            start,
            end: start + piece.length,
            pair,
            leader: piece.leader.index(),
            object_offset: piece.object_offset,
            dstatus,
        });
    }
    Ok((stripes, total))
}

/// What a returned call promises, in plain words.
fn acknowledgement(layout: &Layout) -> [String; 3] {
    let way = match layout.protocol() {
        Protocol::ServerSync => {
            "the client sends each piece to the leading member, which forwards it to the other and answers when both have it"
        }
        Protocol::ClientSync => "the client sends each piece to both members and waits for both",
        Protocol::ServerAsync => {
            "the client sends each piece to the leading member, which answers when it has it and forwards it meanwhile; the client keeps the piece until both have it, and waits for that here"
        }
        Protocol::ClientAsync => {
            "the client sends each piece to both members and sends on when one has it; it keeps the piece until both do, and waits for that here"
        }
        Protocol::Hybrid => {
            "as under server-sync while fewer clients write than there are pairs, else as under client-async; either way this waits for both"
        }
        Protocol::Unspecified => "the file has no data",
    };
    let stable = match layout.durability() {
        Durability::Disk => "on both members' stable storage",
        _ => {
            "in both members' memory at least (their operating systems write it to disk in their own time; only a power cut of both can lose it)"
        }
    };
    [
        "write or close returns: the bytes are in this client's memory, as on a local file system, and on their way (close waits with client.close_waits, or where room is short)".into(),
        format!("under O_SYNC, or when a close has waited: both members have the bytes; {way}"),
        format!(
            "fsync returns: the bytes are {stable}, and size and times are in the metadata journal"
        ),
    ]
}

/// What one data server's death would cost now.
fn loss(state: &PairState, member: u32, stripes: &[&Stripe]) -> String {
    let only_here = stripes
        .iter()
        .filter(|stripe| stripe.dstatus == Some(member + 1))
        .count();
    match state.mode() {
        Mode::Both if only_here == 0 => {
            format!("nothing: data:{}.{} has everything", state.pair, 1 - member)
        }
        Mode::Both => format!(
            "nothing acknowledged; {only_here} of the stripes shown are still on their way to the twin"
        ),
        Mode::Only | Mode::Recovering if state.serving == member => {
            "it has the only complete copy: its stripes answer EIO until it is back, and are lost if its disk is".into()
        }
        Mode::Only | Mode::Recovering => "nothing: it is not the member that serves".into(),
        Mode::Down => "the pair is down: its stripes cannot be read before the member that served last is back".into(),
        Mode::Unspecified => "unknown".into(),
    }
}

/// Which part of all hashes is below a border.
fn below(border: u64) -> String {
    match border {
        u64::MAX => "all".into(),
        border => format!("{} %", (u128::from(border) * 100) >> u64::BITS),
    }
}

impl Explanation {
    fn state(&self, pair: u32) -> PairState {
        self.reply
            .pairs
            .iter()
            .find(|state| state.pair == pair)
            .copied()
            .unwrap_or_default()
    }

    /// The group that has an inode, by the view.
    fn group_of(&self, ino: u64) -> u32 {
        let view = self.status.view.clone().unwrap_or_default();
        groups::of_inode(&view, weft_types::Ino(ino)).0
    }

    fn losses(&self, layout: &Layout) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for &pair in &layout.pairs {
            let stripes: Vec<&Stripe> =
                self.stripes.iter().filter(|one| one.pair == pair).collect();
            for member in 0..2 {
                out.push((
                    format!("data:{pair}.{member}"),
                    loss(&self.state(pair), member, &stripes),
                ));
            }
        }
        out.push((
            "the active metadata server".into(),
            "nothing: its journal has every acknowledged change; opening and naming files waits until it is back".into(),
        ));
        out.push((
            "this client".into(),
            "what was written in the last moments and not synced".into(),
        ));
        out
    }

    fn to_text(&self) -> String {
        let inode = self.reply.inode.clone().unwrap_or_default();
        let attr = inode.attr.unwrap_or_default();
        let mut out = format!(
            "{}: inode {:#x} (slot {}), {}, change {}\n",
            self.path,
            attr.ino,
            weft_types::Ino(attr.ino).slot(),
            table::bytes(attr.size),
            attr.change
        );
        let Some(layout) = &inode.layout else {
            if attr.shards > 0 {
                let shards = inode.shards.iter().map(|ino| {
                    let slot = weft_types::Ino(*ino).slot();
                    format!("{slot} (group {})", self.group_of(*ino))
                });
                out += &format!(
                    "Spread: {} of its names are in {} shards, in slots {}.\n",
                    below(inode.border),
                    attr.shards,
                    shards.collect::<Vec<_>>().join(", ")
                );
            }
            out += match attr.kind() {
                FileKind::Directory => {
                    "A directory: its names are the metadata service's; `weft policy get` shows how files made in it will lie.\n"
                }
                _ => "No regular file: it has no data on the pairs.\n",
            };
            return out;
        };
        out += &format!(
            "\nLayout: stripes of {} over {} pair(s) {:?}, protocol {}, durability {}, generation {}\n",
            table::bytes(u64::from(layout.stripe_unit)),
            layout.pairs.len(),
            layout.pairs,
            protocol_name(layout.protocol()),
            durability_name(layout.durability()),
            layout.generation
        );
        if self.reply.writer != 0 {
            out += &format!(
                "Session {} holds the write lease: it may have bytes that no server has yet.\n",
                self.reply.writer
            );
        }
        let rows = self
            .stripes
            .iter()
            .map(|one| {
                vec![
                    one.index.to_string(),
                    format!("{}..{}", one.start, one.end),
                    format!(
                        "data:{0}.{1} and data:{0}.{2}",
                        one.pair,
                        one.leader,
                        1 - one.leader
                    ),
                    one.object_offset.to_string(),
                    mode_name(&self.state(one.pair)),
                    match one.dstatus {
                        None => "cannot be asked".into(),
                        Some(0) => "0 (a hole)".into(),
                        Some(3) => "3 (both copies)".into(),
                        Some(member) => {
                            format!(
                                "{member} (only data:{}.{})",
                                one.pair,
                                member.saturating_sub(1)
                            )
                        }
                    },
                ]
            })
            .collect();
        out += "\n";
        out += &table::render(
            &[
                "stripe",
                "bytes",
                "leader and follower",
                "in object at",
                "pair is",
                "dstatus",
            ],
            rows,
        );
        let hidden = self.stripes_total - self.stripes.len() as u64;
        if hidden > 0 {
            out += &format!("... and {hidden} more (--stripes {})\n", self.stripes_total);
        }
        out += "\nWhat an acknowledgement means here:\n";
        for line in acknowledgement(layout) {
            out += &format!("  {line}\n");
        }
        out += "\nWhat would be lost if it died now:\n";
        for (who, what) in self.losses(layout) {
            out += &format!("  {who}: {what}\n");
        }
        out
    }

    fn to_json(&self) -> Value {
        let inode = self.reply.inode.clone().unwrap_or_default();
        let attr = inode.attr.unwrap_or_default();
        let mut object = json!({
            "path": self.path,
            "ino": attr.ino,
            "size": attr.size,
            "cluster": self.status.view.clone().unwrap_or_default().cluster_id,
        });
        if attr.shards > 0 {
            object["shards"] = json!(inode.shards);
            object["all_in_shards"] = json!(inode.border == u64::MAX);
        }
        if let Some(layout) = &inode.layout {
            object["layout"] = json!({
                "stripe_unit": layout.stripe_unit,
                "pairs": layout.pairs,
                "protocol": protocol_name(layout.protocol()),
                "durability": durability_name(layout.durability()),
                "generation": layout.generation,
            });
            object["writer_session"] = json!(self.reply.writer);
            object["stripes_total"] = json!(self.stripes_total);
            object["stripes"] = self
                .stripes
                .iter()
                .map(|one| {
                    json!({
                        "stripe": one.index,
                        "start": one.start,
                        "end": one.end,
                        "pair": one.pair,
                        "leader": one.leader,
                        "object_offset": one.object_offset,
                        "pair_state": mode_name(&self.state(one.pair)),
                        "dstatus": one.dstatus,
                    })
                })
                .collect();
            object["acknowledgement"] = json!(acknowledgement(layout));
            object["lost_if_it_died_now"] = self
                .losses(layout)
                .into_iter()
                .map(|(who, what)| json!({ "server": who, "lost": what }))
                .collect();
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_copy_is_called_that() {
        let mut state = PairState {
            pair: 3,
            serving: 1,
            ..PairState::default()
        };
        state.set_mode(Mode::Only);
        assert!(loss(&state, 1, &[]).contains("only complete copy"));
        assert!(loss(&state, 0, &[]).starts_with("nothing"));
        state.set_mode(Mode::Both);
        assert_eq!(loss(&state, 0, &[]), "nothing: data:3.1 has everything");
    }
}
