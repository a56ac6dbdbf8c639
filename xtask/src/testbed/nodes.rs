//! Weft's servers in the nodes of a bed: their configurations, and waiting until they serve.

use super::bed::Bed;
use crate::run::Outcome;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Ports are alike everywhere: every server has an address of its own.
const META_PORT: u16 = 7400;
const DATA_PORT: u16 = 7410;
/// A cluster that does not serve by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(60);
/// The only member of a pair waits so long for another that never comes; where both are to come,
/// the first one waits longer than any start takes.
const ALONE_AFTER_MS: [u64; 2] = [500, 10_000];

/// One data server's place.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its node.
    pub node: String,
    /// Its pair.
    pub pair: u32,
    /// Which member: 0 or 1.
    pub member: u32,
}

impl Seat {
    /// Two servers for each pair.
    pub fn pairs(nodes: &[String]) -> Vec<Seat> {
        let seat = |(at, node): (usize, &String)| Seat {
            node: node.clone(),
            pair: (at / 2) as u32,
            member: (at % 2) as u32,
        };
        nodes.iter().enumerate().map(seat).collect()
    }

    /// Each server alone in a pair whose second member never comes: no mirroring.
    pub fn alone(nodes: &[String]) -> Vec<Seat> {
        let seat = |(at, node): (usize, &String)| Seat {
            node: node.clone(),
            pair: at as u32,
            member: 0,
        };
        nodes.iter().enumerate().map(seat).collect()
    }
}

/// A running cluster.
pub struct Cluster {
    weft: PathBuf,
    /// Where its stores lie.
    directory: PathBuf,
    meta_node: String,
    /// Where clients find the metadata server.
    pub meta: String,
    seats: Vec<Seat>,
}

impl Cluster {
    /// Starts a cluster named `name` and waits until every pair serves as it should. With `relays`
    /// clients and servers meet each server through a relay.
    ///
    /// # Errors
    /// If a server does not start or the cluster does not serve, with what it said last.
    pub fn start(
        bed: &mut Bed,
        weft: &Path,
        name: &str,
        meta_node: &str,
        seats: &[Seat],
        relays: bool,
    ) -> Result<Cluster, String> {
        let directory = bed.directory().join(name);
        fs::create_dir_all(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let own = format!("{}:{META_PORT}", bed.address(meta_node)?);
        let meta = match relays {
            true => bed.add_relay(meta_node, META_PORT)?,
            false => own.clone(),
        };
        let cluster = Cluster {
            weft: weft.to_owned(),
            directory,
            meta_node: meta_node.to_owned(),
            meta,
            seats: seats.to_vec(),
        };
        let settings = format!(
            "dir = {:?}\nlisten = {own:?}\ncluster_id = {name:?}\n\n[pair]\nalone_after_ms = {}\n",
            cluster.store(meta_node),
            ALONE_AFTER_MS[usize::from(cluster.is_mirrored())],
        );
        cluster.run(bed, "meta", meta_node, &settings)?;
        for seat in seats {
            let listen = format!("{}:{DATA_PORT}", bed.address(&seat.node)?);
            let advertise = match relays {
                true => bed.add_relay(&seat.node, DATA_PORT)?,
                false => String::new(),
            };
            let settings = format!(
                "dir = {:?}\nlisten = {listen:?}\nadvertise = {advertise:?}\ncluster_id = {name:?}\nmeta = [{:?}]\n\
                 pair = {}\nmember = {}\n",
                cluster.store(&seat.node),
                cluster.meta,
                seat.pair,
                seat.member
            );
            cluster.run(bed, "data", &seat.node, &settings)?;
        }
        cluster.wait(bed)?;
        Ok(cluster)
    }

    fn store(&self, node: &str) -> PathBuf {
        self.directory.join(node)
    }

    fn run(&self, bed: &mut Bed, kind: &str, node: &str, settings: &str) -> Outcome {
        let config = self.directory.join(format!("{node}.toml"));
        fs::write(&config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
        let config = config.to_string_lossy().into_owned();
        bed.start(
            node,
            &self.weft,
            vec![kind.into(), "--config".into(), config],
        )
    }

    /// How many pairs it has.
    pub fn pairs(&self) -> usize {
        1 + self.seats.iter().map(|seat| seat.pair).max().unwrap_or(0) as usize
    }

    fn is_mirrored(&self) -> bool {
        self.seats.iter().any(|seat| seat.member == 1)
    }

    /// `weft status --json`; None if nobody answers.
    pub fn status(&self, bed: &Bed) -> Option<Value> {
        let mut command = bed.command(&self.meta_node, &self.weft).ok()?;
        let output = command
            .args(["status", "--json", "--meta", &self.meta])
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Waits until every pair has the state that it should have.
    ///
    /// # Errors
    /// If a server has ended, or the patience has.
    pub fn wait(&self, bed: &mut Bed) -> Outcome {
        let expected = if self.is_mirrored() { "both" } else { "only 0" };
        let end = Instant::now() + UP_PATIENCE;
        loop {
            for node in self.nodes() {
                if let Some(why) = bed.has_ended(&node) {
                    return Err(why);
                }
            }
            let status = self.status(bed).unwrap_or_default();
            let states: Vec<&str> = status["pairs"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .filter_map(|pair| pair["state"].as_str())
                .collect();
            if states.len() == self.pairs() && states.iter().all(|state| *state == expected) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!(
                    "the pairs should be {expected}; after {UP_PATIENCE:?} they are: {}",
                    states.join(", ")
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn nodes(&self) -> Vec<String> {
        let data = self.seats.iter().map(|seat| seat.node.clone());
        std::iter::once(self.meta_node.clone())
            .chain(data)
            .collect()
    }
}
