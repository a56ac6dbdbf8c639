//! Who drives a measurement: asks peers, one after another or many at the same time, and computes.

use crate::VERSION;
use crate::bounds::{
    MESSAGE_BYTES_MAX, PEERS_MAX, ROUNDS_MAX, ROUNDS_MIN, RUN_NANOS_MAX, answer_patience,
};
use crate::error::{Error, Result};
use crate::model::{Parameters, SMALLEST, Sample, Samples, Summary, gap};
use futures_util::future::{Either, join_all, select};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Handler, Local, Payload};
use weft_wire::proto::identity::Role;
use weft_wire::proto::run_lane_request::Kind;
use weft_wire::proto::{
    CloseLaneRequest, Identity, LaneSample, OpenLaneRequest, ProbeGreetRequest, RunLaneRequest,
};
use weft_wire::{Failed, Rpc};

/// A peer that answers no ping for so long is gone. Its link may be full of what it measures.
const SILENCE: Duration = Duration::from_secs(30);
/// What takes no measuring is answered by then: a greeting, a lane's opening (which has 5 s itself).
const PATIENCE: Duration = Duration::from_secs(20);
/// Floods for each so many round trips: a flood is a mean over many messages already.
const FLOODS_PART: u32 = 3;
/// The pause before a message is taken is so many round trips, and a little more: it has come by then (Kielmann et al.
/// take a pause that is longer than RTT(m)).
const PAUSE_TRIPS: f64 = 2.0;
/// The little more: timers and the scheduler's turns.
const PAUSE_MORE: Duration = Duration::from_millis(1);

/// What is measured, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of messages.
    pub sizes: Vec<u32>,
    /// Round trips and receipts for each of them.
    pub rounds: u32,
    /// How long a flood is at least.
    pub flood: Duration,
    /// Bytes of the messages of which bandwidth is told, alone and in parallel.
    pub long_message: u32,
    /// How long a flood in parallel is at least.
    pub together: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            sizes: vec![
                SMALLEST,
                64,
                1 << 10,
                4 << 10,
                16 << 10,
                64 << 10,
                256 << 10,
                1 << 20,
            ],
            rounds: 15,
            flood: Duration::from_millis(100),
            long_message: 1 << 20,
            together: Duration::from_secs(1),
        }
    }
}

impl Plan {
    /// Sorts the sizes, adds the smallest one, and refuses what peers would.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn checked(mut self) -> Result<Plan> {
        let asked = |why: String| Err(Error::Asked(why));
        self.sizes.push(SMALLEST);
        self.sizes.sort_unstable();
        self.sizes.dedup();
        let allowed = 1..=MESSAGE_BYTES_MAX;
        let wrong = |size: &&u32| !allowed.contains(*size);
        if let Some(size) = self.sizes.iter().chain([&self.long_message]).find(wrong) {
            return asked(format!(
                "messages have 1 to {MESSAGE_BYTES_MAX} bytes, not {size}"
            ));
        }
        if self.sizes.len() < 2 {
            return asked("give a size above 1 byte: G is how much longer more bytes take".into());
        }
        if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&self.rounds) {
            return asked(format!("there are {ROUNDS_MIN} to {ROUNDS_MAX} rounds"));
        }
        let longest = Duration::from_nanos(RUN_NANOS_MAX);
        if self.flood > longest || self.together > longest || self.flood.is_zero() {
            return asked("a flood is longer than 0 and at most 60 s".into());
        }
        Ok(self)
    }
}

/// From one node to another, by their places among the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
}

/// What one route carried of long messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Which one.
    #[serde(flatten)]
    pub route: Route,
    /// Seconds there and back of the smallest message; none where other routes were in use.
    pub round_trip: Option<f64>,
    /// Seconds from one message to the next.
    pub gap: Summary,
    /// Bytes a second.
    pub bandwidth: f64,
}

/// What several routes carried at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// Each of them.
    pub flows: Vec<Flow>,
    /// Bytes a second of all, until the last had ended: what a link carries that they share. (The sum of their own rates is
    /// more: whoever is slow has the link to himself when the others have ended.)
    pub shared: f64,
}

/// A peer as the driver knows it.
struct Node {
    address: String,
    /// Where it takes lanes.
    lanes: String,
    connection: Connection,
}

/// Connections to all peers. They close when it is dropped.
pub struct Driver {
    env: Env,
    nodes: Vec<Node>,
}

/// A lane at the node that opened it.
struct Opened {
    at: usize,
    lane: u64,
}

impl Drop for Driver {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.connection.close("the measurement is over");
        }
    }
}

impl Driver {
    /// Connects to all peers.
    ///
    /// # Errors
    /// If one does not answer, is something else or another version; if there are too few or too many.
    pub async fn connect(env: &Env, addresses: &[String]) -> Result<Driver> {
        let different: BTreeSet<&String> = addresses.iter().collect();
        if different.len() < addresses.len() {
            return Err(Error::Asked("a peer is named twice".into()));
        }
        if !(2..=PEERS_MAX).contains(&addresses.len()) {
            return Err(Error::Asked(format!(
                "a network is between nodes: name 2 to {PEERS_MAX} peers"
            )));
        }
        let all = join_all(addresses.iter().map(|address| greet(env, address))).await;
        // Those that answered are kept until the end, so that all are closed in one place.
        let (nodes, mut failed): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        let driver = Driver {
            env: env.clone(),
            nodes: nodes.into_iter().flatten().collect(),
        };
        match failed.pop() {
            Some(Err(error)) => Err(error),
            _ => Ok(driver),
        }
    }

    /// The peers' addresses, in order.
    pub fn addresses(&self) -> Vec<String> {
        let addresses = self.nodes.iter().map(|node| node.address.clone());
        addresses.collect()
    }

    /// The parameters of one route, while nothing else is measured. See [`Parameters::of`] for how.
    ///
    /// # Errors
    /// If a peer fails.
    pub async fn parameters(&self, route: Route, plan: &Plan) -> Result<Parameters> {
        let lane = self.open(route).await?;
        // TCP's window opens, buffers grow.
        let warm = self.floods(&lane, plan.long_message, 1, plan.flood).await;
        warm?;
        let mut all = Vec::new();
        for &bytes in &plan.sizes {
            let run = |kind, rounds, length| self.run(&lane, kind, bytes, rounds, length);
            let trips = run(Kind::RoundTrips, plan.rounds, Duration::ZERO).await?;
            let typical = Summary::of(trips.iter().map(|trip| trip.seconds).collect());
            let typical = typical.map_or(0.0, |trips| trips.median);
            let pause = Duration::from_secs_f64(typical * PAUSE_TRIPS) + PAUSE_MORE;
            let pause = pause.min(Duration::from_nanos(RUN_NANOS_MAX));
            let floods = (plan.rounds / FLOODS_PART).max(ROUNDS_MIN);
            all.push(Samples {
                bytes,
                round_trips: trips,
                floods: run(Kind::Floods, floods, plan.flood).await?,
                receipts: run(Kind::Receipts, plan.rounds, pause).await?,
            });
        }
        self.close(&lane).await?;
        let found = Parameters::of(all);
        found.ok_or_else(|| Error::Between {
            from: self.nodes[route.from].address.clone(),
            why: "longer messages took no longer than short ones: take larger sizes (--sizes)"
                .into(),
        })
    }

    /// Round trip and bandwidth of one route, while nothing else is measured.
    ///
    /// # Errors
    /// If a peer fails.
    pub async fn alone(&self, route: Route, plan: &Plan) -> Result<Flow> {
        let lane = self.open(route).await?;
        let trips = async |bytes, rounds| -> Result<f64> {
            let trips = self
                .run(&lane, Kind::RoundTrips, bytes, rounds, Duration::ZERO)
                .await?;
            let trips = Summary::of(trips.iter().map(|trip| trip.seconds).collect());
            Ok(trips.map_or(0.0, |trips| trips.median))
        };
        let round_trip = trips(SMALLEST, plan.rounds).await?;
        // It is only taken off a flood that is much longer.
        let there = trips(plan.long_message, ROUNDS_MIN).await?;
        let floods = self.floods(&lane, plan.long_message, ROUNDS_MIN, plan.flood);
        let floods = floods.await?;
        self.close(&lane).await?;
        let gaps = floods.iter().filter_map(|flood| gap(flood, Some(there)));
        Ok(Flow {
            round_trip: Some(round_trip),
            ..self.flow(route, plan, gaps.collect())?
        })
    }

    /// What several routes carry at the same time.
    ///
    /// # Errors
    /// If a peer fails.
    pub async fn together(&self, routes: &[Route], plan: &Plan) -> Result<Carried> {
        let lanes = join_all(routes.iter().map(|&route| self.open(route))).await;
        let lanes = lanes.into_iter().collect::<Result<Vec<Opened>>>()?;
        let mut gaps: Vec<Vec<f64>> = vec![Vec::new(); lanes.len()];
        let mut shared = Vec::new();
        // The first time is for TCP's windows.
        for time in 0..=ROUNDS_MIN {
            // All begin when all have ended.
            let floods = lanes
                .iter()
                .map(|lane| self.floods(lane, plan.long_message, 1, plan.together));
            let (mut messages, mut longest) = (0, 0.0f64);
            for (at, flood) in join_all(floods).await.into_iter().enumerate() {
                let flood = flood?;
                // No round trip is taken off: one among full queues is not known.
                let new = flood.iter().rev().find_map(|flood| gap(flood, None));
                gaps[at].extend(new.filter(|_| time > 0));
                messages += flood.iter().map(|flood| flood.messages).sum::<u64>();
                let seconds = flood.iter().map(|flood| flood.seconds);
                longest = seconds.fold(longest, f64::max);
            }
            if time > 0 {
                shared.push(messages as f64 * f64::from(plan.long_message) / longest);
            }
        }
        for lane in &lanes {
            self.close(lane).await?;
        }
        let flows = routes.iter().zip(gaps);
        let flows = flows.map(|(&route, gaps)| self.flow(route, plan, gaps));
        Ok(Carried {
            flows: flows.collect::<Result<Vec<Flow>>>()?,
            shared: Summary::of(shared).map_or(0.0, |shared| shared.median),
        })
    }

    fn flow(&self, route: Route, plan: &Plan, gaps: Vec<f64>) -> Result<Flow> {
        let gap = Summary::of(gaps).ok_or_else(|| Error::Between {
            from: self.nodes[route.from].address.clone(),
            why: "messages took no time".into(),
        })?;
        Ok(Flow {
            route,
            round_trip: None,
            gap,
            bandwidth: f64::from(plan.long_message) / gap.median,
        })
    }

    async fn open(&self, route: Route) -> Result<Opened> {
        let target = self.nodes[route.to].lanes.clone();
        let request = OpenLaneRequest { target };
        let opened = self.ask(route.from, &request, PATIENCE).await?;
        Ok(Opened {
            at: route.from,
            lane: opened.lane,
        })
    }

    async fn close(&self, lane: &Opened) -> Result<()> {
        let request = CloseLaneRequest { lane: lane.lane };
        self.ask(lane.at, &request, PATIENCE).await.map(drop)
    }

    async fn floods(
        &self,
        lane: &Opened,
        bytes: u32,
        rounds: u32,
        length: Duration,
    ) -> Result<Vec<Sample>> {
        self.run(lane, Kind::Floods, bytes, rounds, length).await
    }

    async fn run(
        &self,
        lane: &Opened,
        kind: Kind,
        message_bytes: u32,
        rounds: u32,
        length: Duration,
    ) -> Result<Vec<Sample>> {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let request = RunLaneRequest {
            lane: lane.lane,
            kind: kind as i32,
            message_bytes,
            rounds,
            nanos,
        };
        let patience = answer_patience(message_bytes, nanos);
        let reply = self.ask(lane.at, &request, patience).await?;
        Ok(reply.samples.iter().map(sample).collect())
    }

    async fn ask<R: Rpc>(&self, at: usize, request: &R, patience: Duration) -> Result<R::Reply> {
        let node = &self.nodes[at];
        ask(
            &self.env,
            &node.address,
            &node.connection,
            request,
            patience,
        )
        .await
    }
}

fn sample(sample: &LaneSample) -> Sample {
    Sample {
        seconds: sample.nanos as f64 / 1e9,
        send: sample.send_nanos as f64 / 1e9,
        messages: sample.messages,
    }
}

/// Connects to a peer, and learns where it takes lanes.
async fn greet(env: &Env, address: &str) -> Result<Node> {
    let local = Local::new(
        String::new(),
        Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
            group: 0,
        },
    );
    let refuse: Handler = Rc::new(|_: &Connection, request: weft_rpc::Request| {
        let why = "who drives a measurement answers nothing".to_owned();
        request.replier.fail(Failed::Refused(why));
    });
    let unreachable = |why: String| Error::Unreachable {
        address: address.to_owned(),
        why,
    };
    let (host, _) = address
        .rsplit_once(':')
        .ok_or_else(|| Error::Asked(format!("{address:?} is no peer: name it as HOST:PORT")))?;
    let connected = weft_rpc::connect(env, address, &local, refuse).await;
    let connection = connected.map_err(|error| match error.kind() {
        // A refusal in words is an answer; the system's is a number.
        io::ErrorKind::ConnectionRefused if error.get_ref().is_some() => Error::Version {
            address: address.to_owned(),
            why: error.to_string(),
        },
        _ => unreachable(error.to_string()),
    })?;
    let greeted = async {
        let what = match connection.identity().role() {
            Role::Probe => None,
            Role::Data => Some("data server"),
            Role::Meta => Some("metadata server"),
            Role::Client | Role::Tool | Role::Unspecified => Some("part"),
        };
        if let Some(what) = what {
            return Err(Error::NotAPeer {
                address: address.to_owned(),
                what,
            });
        }
        let hello = ProbeGreetRequest { version: VERSION };
        let greeting = ask(env, address, &connection, &hello, PATIENCE).await;
        let greeting = greeting.map_err(|error| match error {
            Error::Between { from, why } => Error::Version { address: from, why },
            other => other,
        })?;
        match greeting.lane_port {
            0 => Err(unreachable("it takes no lanes".into())),
            port => Ok(format!("{host}:{port}")),
        }
    };
    match greeted.await {
        Ok(lanes) => Ok(Node {
            address: address.to_owned(),
            lanes,
            connection,
        }),
        Err(error) => {
            connection.close("not to be measured");
            Err(error)
        }
    }
}

async fn ask<R: Rpc>(
    env: &Env,
    address: &str,
    connection: &Connection,
    request: &R,
    patience: Duration,
) -> Result<R::Reply> {
    let lost = |why: String| Error::Lost {
        address: address.to_owned(),
        why,
    };
    let call = pin!(connection.call(request, Payload::none()));
    let silent = pin!(connection.silent(SILENCE));
    let answer = match env.timeout(patience, select(call, silent)).await {
        Ok(Either::Left((answer, _))) => answer,
        Ok(Either::Right(_)) => {
            return Err(lost(format!(
                "it was silent for {} s: is it there, and its link well?",
                SILENCE.as_secs()
            )));
        }
        Err(_) => {
            return Err(lost(format!("no answer within {} s", patience.as_secs())));
        }
    };
    match answer {
        Ok((reply, _)) => Ok(reply),
        Err(CallError::Lost(why)) => Err(lost(why)),
        Err(CallError::Failed(failed)) => Err(Error::Between {
            from: address.to_owned(),
            why: match failed {
                Failed::Refused(why) | Failed::Misplaced(why) | Failed::Unavailable(why) => why,
                other => other.to_string(),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_sorted_and_kept_within_bounds() {
        let plan = Plan {
            sizes: vec![4096, 64, 4096],
            ..Plan::default()
        };
        assert_eq!(plan.checked().unwrap().sizes, [SMALLEST, 64, 4096]);
        let stock = Plan::default;
        let long = Duration::from_secs(61);
        for wrong in [
            Plan {
                sizes: vec![],
                ..stock()
            },
            Plan {
                sizes: vec![0, 5],
                ..stock()
            },
            Plan {
                sizes: vec![MESSAGE_BYTES_MAX + 1],
                ..stock()
            },
            Plan {
                long_message: 0,
                ..stock()
            },
            Plan {
                rounds: ROUNDS_MIN - 1,
                ..stock()
            },
            Plan {
                rounds: ROUNDS_MAX + 1,
                ..stock()
            },
            Plan {
                flood: long,
                ..stock()
            },
            Plan {
                flood: Duration::ZERO,
                ..stock()
            },
            Plan {
                together: long,
                ..stock()
            },
        ] {
            let refused = wrong.clone().checked();
            assert!(matches!(refused, Err(Error::Asked(_))), "{wrong:?}");
        }
    }
}
