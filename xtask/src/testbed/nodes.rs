//! Weft's servers in the nodes of a bed: their configurations, and waiting until they serve.

use super::bed::Bed;
use crate::run::Outcome;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Ports are alike everywhere: every server has an address of its own.
const META_PORT: u16 = 7400;
const DATA_PORT: u16 = 7410;
/// Of a second member that is there for the start only.
const TWIN_PORT: u16 = 7411;
/// A cluster that does not serve by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(60);
/// Where links are full for long on purpose, heartbeats and the answers of twins come late, and what
/// is to be seen is not how soon a server counts as away.
const PATIENT_LEASE_MS: u64 = 2_000;
/// See [`PATIENT_LEASE_MS`].
const PATIENT_LINK_MS: u64 = 20_000;

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

    /// Each server alone in its pair: no mirroring. (A pair begins with two members; the second one
    /// is there for the start only.)
    pub fn alone(nodes: &[String]) -> Vec<Seat> {
        let seat = |(at, node): (usize, &String)| Seat {
            node: node.clone(),
            pair: at as u32,
            member: 0,
        };
        nodes.iter().enumerate().map(seat).collect()
    }
}

fn twin_of(node: &str) -> String {
    format!("{node}-twin")
}

/// Founds the name space of these settings of a metadata server, which are written to `config`.
///
/// # Errors
/// If it cannot be founded, with what was said of that.
pub fn found(weft: &Path, config: &Path, settings: &str) -> Outcome {
    fs::write(config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
    let output = Command::new(weft)
        .args(["init", "--config"])
        .arg(config)
        .output()
        .map_err(|error| format!("weft init: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "weft init: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// A running cluster.
pub struct Cluster {
    weft: PathBuf,
    name: String,
    /// Where its stores lie.
    directory: PathBuf,
    meta_node: String,
    /// Where clients find the metadata server.
    pub meta: String,
    seats: Vec<Seat>,
}

impl Cluster {
    /// Starts a cluster named `name` and waits until every pair serves as it should. With `relays`
    /// clients and servers meet each server through a relay. With `is_patient`
    /// servers that are late do not count as away.
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
        is_patient: bool,
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
            name: name.to_owned(),
            directory,
            meta_node: meta_node.to_owned(),
            meta,
            seats: seats.to_vec(),
        };
        let launched = cluster.launch(bed, name, &own, relays, is_patient);
        if let Err(why) = launched {
            // Another cluster may be started in these nodes. Some may not have come up.
            for node in cluster.nodes() {
                let _: Outcome = bed.end(&node, true);
                let _: Outcome = bed.end(&twin_of(&node), true);
            }
            let _: std::io::Result<()> = fs::remove_dir_all(&cluster.directory);
            return Err(why);
        }
        Ok(cluster)
    }

    fn launch(
        &self,
        bed: &mut Bed,
        name: &str,
        own: &str,
        relays: bool,
        is_patient: bool,
    ) -> Outcome {
        let mut settings = format!(
            "dir = {:?}\nlisten = {own:?}\ncluster_id = {name:?}\n",
            self.store(&self.meta_node),
        );
        if is_patient {
            settings += &format!("\n[pair]\nlease_ms = {PATIENT_LEASE_MS}\n");
        }
        let patience = match is_patient {
            true => format!("link_patience_ms = {PATIENT_LINK_MS}\n"),
            false => String::new(),
        };
        found(&self.weft, &self.directory.join("init.toml"), &settings)?;
        self.run(bed, "meta", [self.meta_node.as_str(); 2], &settings)?;
        let data = |seat: &Seat, process: &str, listen: String, advertise: String, member| {
            format!(
                "dir = {:?}\nlisten = {listen:?}\nadvertise = {advertise:?}\ncluster_id = {name:?}\nmeta = [{:?}]\n\
                 pair = {}\nmember = {member}\n{patience}",
                self.store(process),
                self.meta,
                seat.pair,
            )
        };
        for seat in &self.seats {
            let node = &seat.node;
            let address = bed.address(node)?;
            let advertise = match relays {
                true => bed.add_relay(node, DATA_PORT)?,
                false => String::new(),
            };
            let listen = format!("{address}:{DATA_PORT}");
            let settings = data(seat, node, listen, advertise, seat.member);
            self.run(bed, "data", [node, node], &settings)?;
            if !self.is_mirrored() {
                let twin = twin_of(node);
                let listen = format!("{address}:{TWIN_PORT}");
                let settings = data(seat, &twin, listen, String::new(), 1);
                self.run(bed, "data", [node, &twin], &settings)?;
            }
        }
        self.wait_until(bed, "both")?;
        if !self.is_mirrored() {
            for seat in &self.seats {
                bed.end(&twin_of(&seat.node), false)?;
            }
            self.wait_until(bed, "only 0")?;
        }
        Ok(())
    }

    fn store(&self, node: &str) -> PathBuf {
        self.directory.join(node)
    }

    fn run(&self, bed: &mut Bed, kind: &str, [node, name]: [&str; 2], settings: &str) -> Outcome {
        let config = self.directory.join(format!("{name}.toml"));
        fs::write(&config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
        let config = config.to_string_lossy().into_owned();
        let arguments = vec![kind.into(), "--config".into(), config];
        bed.start(node, name, &self.weft, arguments)
    }

    /// What a mount's configuration says of the cluster.
    pub fn client_settings(&self) -> String {
        let (meta, name) = (&self.meta, &self.name);
        format!("[client]\nmeta = [{meta:?}]\ncluster_id = {name:?}\n")
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

    /// The states of the pairs, and their epochs: another sum of epochs later says that a pair has
    /// changed meanwhile.
    ///
    /// # Errors
    /// If the metadata server does not answer.
    pub fn epochs(&self, bed: &Bed) -> Result<u64, String> {
        let status = self
            .status(bed)
            .ok_or("the metadata server does not answer")?;
        let pairs = status["pairs"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(pairs.iter().filter_map(|pair| pair["epoch"].as_u64()).sum())
    }

    /// Waits until every pair has the state that it should have.
    ///
    /// # Errors
    /// If a server has ended, or the patience has.
    pub fn wait(&self, bed: &mut Bed) -> Outcome {
        self.wait_until(bed, if self.is_mirrored() { "both" } else { "only 0" })
    }

    fn wait_until(&self, bed: &mut Bed, expected: &str) -> Outcome {
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

    /// Ends it, and removes its stores. Metadata first: else each data server that ends is a death.
    ///
    /// # Errors
    /// If a server had ended before, or a store cannot be removed.
    pub fn stop(self, bed: &mut Bed) -> Outcome {
        for node in self.nodes() {
            bed.end(&node, false)?;
        }
        fs::remove_dir_all(&self.directory)
            .map_err(|error| format!("{}: {error}", self.directory.display()))
    }
}
