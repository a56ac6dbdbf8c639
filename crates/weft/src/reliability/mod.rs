//! `weft reliability`: how long a cluster would keep its data under each protocol. The model is
//! weft-model's, told in docs/reliability.md; here are its inputs, and its answers for people, for
//! programs and as a plot.

mod live;
mod plot;

use crate::error::{Error, Result, Tried};
use crate::output::{say, show};
use crate::table;
use crate::tool::Where;
use clap::Args;
use live::Live;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;
use weft_env::Env;
use weft_model::{
    Assumed, Exposure, Forecast, Group, Measured, Mttd, NEVER, PAIRS_MAX, Protocol, Repair, Scheme,
    availability, consistency, forecast, limits,
};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
/// As in the times that are given: 1y is this long.
const YEAR: f64 = 365.25 * DAY;

/// What is taken where nothing is given, and nothing measured: CEFT's cluster.
const PAIRS: u32 = 8;
const MTTW: f64 = MINUTE;
const MTTR_NODE: f64 = 2.0 * DAY;

/// The times to duplication with which CEFT's figures for eight pairs come out (docs/reliability.md).
const MTTD: Mttd = Mttd {
    server_async: 0.241,
    client_async: 0.133,
};

/// `weft reliability`
#[derive(Args)]
#[command(
    after_help = "Times are as in 1y, 2d, 12h, 1min, 250ms or 1h 30min; a year has 365.25 days.\n\
                  CEFT is the design of the paper, where what waits for its second copy dies with the server. In Weft the client keeps it and sends it again."
)]
pub struct ReliabilityCommand {
    /// Uses what a running cluster has measured: how often it is written to, how long writes are on one member only,
    /// how fast it recovers. What it has not measured yet is told, and the defaults are used.
    #[arg(long)]
    live: bool,
    /// With --live: only what is measured in this time from now on; otherwise all since the data servers started.
    #[arg(long, value_name = "TIME", requires = "live", value_parser = parse_time)]
    over: Option<f64>,
    /// With --live: how long after its death a node is replaced; then it is filled with everything.
    #[arg(long, value_name = "TIME", requires = "live", default_value = "1d", value_parser = parse_delay)]
    replaced_after: f64,
    #[command(flatten)]
    cluster: Where,
    /// Pairs of data servers [default: 8, with --live as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAIRS_MAX)))]
    pairs: Option<u32>,
    /// Mean time to the failure of a node that runs a data or metadata server.
    #[arg(long, value_name = "TIME", default_value = "1y", value_parser = parse_time)]
    mttf_node: f64,
    /// Mean time from a member's failure until its copy is complete again [default: 2d, with --live as measured].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    mttr_node: Option<f64>,
    /// Mean time to the failure of the network that all share, which ends everything; or `never`.
    #[arg(long, value_name = "TIME", default_value = "3y", value_parser = parse_time_or_never)]
    mttf_switch: f64,
    /// Mean time to the failure of a node that runs a client; or `never`.
    #[arg(long, value_name = "TIME", default_value = "1y", value_parser = parse_time_or_never)]
    mttf_client: f64,
    /// Mean time between two writes to one pair [default: 1min, with --live as measured].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    mttw: Option<f64>,
    /// Mean time for which a write is on one member only, for server-async or client-async; may be given for each.
    #[arg(long, value_name = "PROTOCOL=TIME", value_parser = MttdOf::from_str)]
    mttd: Vec<MttdOf>,
    /// How far apart the deaths of a server and of a client that wrote through it may be and still lose data, beyond
    /// the time that the write has waited: the session's term, and the time to notice and to send again.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_delay)]
    window: f64,
    /// Share of the time in which at least as many clients write as there are pairs, so that hybrid is client-async.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    async_share: f64,
    /// Servers in each group of metadata servers.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(weft_model::MEMBERS_MAX)))]
    metadata_members: u32,
    /// Only this protocol; may be given more than once.
    #[arg(long, value_parser = parse_protocol)]
    protocol: Vec<Protocol>,
    /// As one JSON object; times are seconds, null is never.
    #[arg(long)]
    json: bool,
    /// Writes a plot as SVG: how much longer than without mirrors, and for how long by the number of pairs.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// One protocol's time to duplication, as given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MttdOf {
    ServerAsync(f64),
    ClientAsync(f64),
}

impl FromStr for MttdOf {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (protocol, time) = text
            .split_once('=')
            .ok_or("give a protocol and a time, as in server-async=250ms")?;
        let time = parse_delay(time);
        match parse_protocol(protocol)? {
            Protocol::ServerAsync => Ok(MttdOf::ServerAsync(time?)),
            Protocol::ClientAsync => Ok(MttdOf::ClientAsync(time?)),
            Protocol::ServerSync | Protocol::ClientSync => Err(format!(
                "{protocol} answers when both members have the write: it has no time to duplication"
            )),
            Protocol::Hybrid => Err(
                "hybrid is server-sync or client-async: give client-async=TIME, and --async-share"
                    .into(),
            ),
        }
    }
}

/// Seconds; none at all is allowed.
fn parse_delay(text: &str) -> std::result::Result<f64, String> {
    humantime::parse_duration(text)
        .map(|time| time.as_secs_f64())
        .map_err(|error| format!("{error}; give a time as in 1y, 2d, 1min or 250ms"))
}

/// Seconds.
fn parse_time(text: &str) -> std::result::Result<f64, String> {
    match parse_delay(text)? {
        0.0 => Err("give a time longer than nothing".into()),
        seconds => Ok(seconds),
    }
}

/// Seconds.
fn parse_time_or_never(text: &str) -> std::result::Result<f64, String> {
    if text == "never" {
        return Ok(NEVER);
    }
    parse_time(text).map_err(|why| format!("{why}, or `never`"))
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "give a number from 0 to 1".into())
}

fn parse_protocol(name: &str) -> std::result::Result<Protocol, String> {
    let found = Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.name() == name);
    found.ok_or_else(|| {
        let names = Protocol::ALL.map(Protocol::name).join(", ");
        format!("no protocol has this name; there are {names}")
    })
}

/// Runs `weft reliability`.
///
/// # Errors
/// If the model says nothing about such a cluster, the plot cannot be written, or (with `--live`) no
/// metadata server answers.
pub fn run(command: &ReliabilityCommand) -> Result<()> {
    let counted = match command.live {
        true => Some(crate::block_on(|env| ask(env, command))?),
        false => None,
    };
    let plan = Plan::of(command, counted);
    let answers = plan.answers()?;
    if let Some(path) = &command.plot {
        let drawn = plot::draw(&plan).map_err(|why| Error::Failed(format!("no plot: {why}")))?;
        std::fs::write(path, drawn).tried_on("cannot write", path)?;
    }
    if command.json {
        say!("{}", plan.to_json(&answers))
    } else {
        show!("{}", plan.to_text(&answers))
    }
}

/// What the cluster has counted.
async fn ask(env: Env, command: &ReliabilityCommand) -> Result<live::Counted> {
    let tool = command.cluster.connect(&env).await?;
    let status = tool.status().await?;
    let Some(over) = command.over else {
        return Ok(live::counted(None, &status));
    };
    env.sleep(Duration::from_secs_f64(over)).await;
    Ok(live::counted(Some(&status), &tool.status().await?))
}

/// What is asked: a cluster, its load, and about which protocols.
#[derive(Clone, Debug)]
struct Plan {
    assumed: Assumed,
    load: Measured,
    protocols: Vec<Protocol>,
    group: Group,
    /// With `--live`: what the cluster tells.
    live: Option<Live>,
    /// What has been asked already, by number of pairs: table, bars and curves ask the same, and a thousand pairs take
    /// a second or two. All else is equal among the plans that share it.
    known: Rc<RefCell<Known>>,
}

type Known = BTreeMap<(u32, Protocol, Scheme), Forecast>;

/// What the model answers for one protocol.
struct Answer {
    protocol: Protocol,
    ceft: Forecast,
    weft: Forecast,
}

struct Answers {
    protocols: Vec<Answer>,
    group_fails: f64,
    group_alone: f64,
}

impl Plan {
    fn of(command: &ReliabilityCommand, counted: Option<live::Counted>) -> Plan {
        let (mut server_async, mut client_async) = (None, None);
        for given in &command.mttd {
            match *given {
                MttdOf::ServerAsync(time) => server_async = Some(time),
                MttdOf::ClientAsync(time) => client_async = Some(time),
            }
        }
        let known = counted.unwrap_or_default();
        let inputs = Live {
            counted: known,
            mttw: live::choose(command.mttw, known.mttw, MTTW),
            server_async: live::choose(server_async, known.server_async, MTTD.server_async),
            client_async: live::choose(client_async, known.client_async, MTTD.client_async),
            repair: live::choose(
                command.mttr_node,
                live::repair(&known, command.replaced_after),
                MTTR_NODE,
            ),
            replaced_after: command.replaced_after,
        };
        let measured = (known.pairs > 0).then_some(known.pairs);
        let chosen = |protocol: &Protocol| {
            command.protocol.is_empty() || command.protocol.contains(protocol)
        };
        Plan {
            assumed: Assumed {
                pairs: command.pairs.or(measured).unwrap_or(PAIRS),
                mttf_node: command.mttf_node,
                mttf_switch: command.mttf_switch,
                mttf_client: command.mttf_client,
            },
            load: Measured {
                mttw: inputs.mttw.seconds,
                mttd: Mttd {
                    server_async: inputs.server_async.seconds,
                    client_async: inputs.client_async.seconds,
                },
                repair: inputs.repair.seconds,
                async_share: command.async_share,
                window: command.window,
            },
            protocols: Protocol::ALL.into_iter().filter(chosen).collect(),
            group: Group {
                members: command.metadata_members,
                mttf: command.mttf_node,
                mttr: inputs.repair.seconds,
                repair: Repair::OneAtATime,
            },
            live: counted.map(|_| inputs),
            known: Rc::default(),
        }
    }

    /// The same with another number of pairs.
    fn with_pairs(&self, pairs: u32) -> Plan {
        let mut plan = self.clone();
        plan.assumed.pairs = pairs;
        plan
    }

    fn forecast(&self, protocol: Protocol, scheme: Scheme) -> Result<Forecast> {
        let key = (self.assumed.pairs, protocol, scheme);
        let known = self.known.borrow().get(&key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let new = forecast(protocol, scheme, &self.assumed, &self.load).map_err(usage)?;
        self.known.borrow_mut().insert(key, new);
        Ok(new)
    }

    fn answers(&self) -> Result<Answers> {
        let answer = |&protocol: &Protocol| {
            Ok(Answer {
                protocol,
                ceft: self.forecast(protocol, Scheme::Ceft)?,
                weft: self.forecast(protocol, Scheme::Weft)?,
            })
        };
        Ok(Answers {
            protocols: self.protocols.iter().map(answer).collect::<Result<_>>()?,
            group_fails: self.group.mttf().map_err(usage)?,
            group_alone: self.group.mean_time_to_last().map_err(usage)?,
        })
    }

    /// As many nodes, no mirrors.
    fn striping(&self) -> f64 {
        limits::striping(
            2 * self.assumed.pairs,
            self.assumed.mttf_node,
            self.assumed.mttf_switch,
        )
    }

    /// What the table says of how long a write is on one member only.
    fn mttd_in_words(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::ServerAsync => in_words(self.load.mttd.server_async),
            Protocol::ClientAsync => in_words(self.load.mttd.client_async),
            Protocol::ServerSync | Protocol::ClientSync => "none".into(),
            Protocol::Hybrid => format!(
                "{:.0} % of {}",
                self.load.async_share * 100.0,
                in_words(self.load.mttd.client_async)
            ),
        }
    }

    /// Asynchronous protocols that owe more and more, of those asked about.
    fn saturated(&self) -> impl Iterator<Item = Protocol> {
        let of = |protocol| match protocol {
            Protocol::ServerAsync => self.load.mttd.server_async,
            Protocol::ClientAsync | Protocol::Hybrid => self.load.mttd.client_async,
            Protocol::ServerSync | Protocol::ClientSync => 0.0,
        };
        self.protocols
            .iter()
            .copied()
            .filter(move |protocol| consistency::consistent(of(*protocol), self.load.mttw) == 0.0)
    }

    /// For people.
    fn to_text(&self, answers: &Answers) -> String {
        let assumed = &self.assumed;
        let mut out = self.live.map(Live::to_text).unwrap_or_default();
        out += &format!(
            "{} pairs; a node fails after {} and is back after {}; the network fails after {}, a client's node after {};\n\
             a write to each pair every {}; with one copy only, Weft loses it if server and writer die within {} and the time that it waits\n\n",
            assumed.pairs,
            in_words(assumed.mttf_node),
            in_words(self.load.repair),
            in_words(assumed.mttf_switch),
            in_words(assumed.mttf_client),
            in_words(self.load.mttw),
            in_words(self.load.window),
        );
        let bare = self.striping();
        let cells = |mttdl: f64| {
            let up = availability(mttdl, self.load.repair);
            [
                in_words(mttdl),
                times_in_words(mttdl / bare),
                format!("{up:.4}"),
            ]
        };
        let mut rows = Vec::new();
        for answer in &answers.protocols {
            let mut row = vec![
                answer.protocol.name().to_owned(),
                self.mttd_in_words(answer.protocol),
            ];
            row.extend(cells(answer.weft.mttdl));
            row.extend(cells(answer.ceft.mttdl));
            rows.push(row);
        }
        // What no protocol changes.
        for (name, mttdl) in [
            ("no mirrors", bare),
            ("RAID-0 limit", limits::raid0(assumed)),
            ("RAID-1 limit", limits::raid1(assumed, self.load.repair)),
        ] {
            let mut row = vec![name.to_owned(), String::new()];
            row.extend(cells(mttdl));
            rows.push(row);
        }
        out += &table::render(
            &[
                "protocol",
                "on one member",
                "Weft keeps data",
                "times bare",
                "available",
                "CEFT keeps data",
                "times bare",
                "available",
            ],
            rows,
        );
        out += "\nTimes are means to the first loss of data. Bare: as many nodes without mirrors. The RAID limits have a network that never fails.\n";
        for protocol in self.saturated() {
            out += &format!(
                "{}: writes come faster than they are duplicated, so the model takes none as safe; Weft slows writers down instead.\n",
                protocol.name()
            );
        }
        out += &format!(
            "A group of {} metadata servers, repaired one at a time: all away at once after {}, at most one there after {}.\n",
            self.group.members,
            in_words(answers.group_fails),
            in_words(answers.group_alone),
        );
        out
    }

    /// For programs.
    fn to_json(&self, answers: &Answers) -> Value {
        let exposure =
            |exposure: Exposure| json!({"primary": exposure.primary, "backup": exposure.backup});
        let forecast = |forecast: Forecast| {
            json!({
                "exposure": exposure(forecast.exposure),
                "mttdl_seconds": forecast.mttdl,
                "availability": forecast.availability,
                "times_striping": forecast.times_striping,
            })
        };
        let protocols: Vec<Value> = answers
            .protocols
            .iter()
            .map(|answer| {
                json!({
                    "protocol": answer.protocol.name(),
                    "weft": forecast(answer.weft),
                    "ceft": forecast(answer.ceft),
                })
            })
            .collect();
        let bare = self.striping();
        json!({
            "live": self.live.map(Live::to_json),
            "pairs": self.assumed.pairs,
            "mttf_node_seconds": self.assumed.mttf_node,
            "mttr_node_seconds": self.load.repair,
            "mttf_switch_seconds": self.assumed.mttf_switch,
            "mttf_client_seconds": self.assumed.mttf_client,
            "mttw_seconds": self.load.mttw,
            "mttd_seconds": {
                "server-async": self.load.mttd.server_async,
                "client-async": self.load.mttd.client_async,
            },
            "window_seconds": self.load.window,
            "async_share": self.load.async_share,
            "protocols": protocols,
            "saturated": self.saturated().map(Protocol::name).collect::<Vec<_>>(),
            "striping": {"mttdl_seconds": bare, "availability": availability(bare, self.load.repair)},
            "raid0_mttdl_seconds": limits::raid0(&self.assumed),
            "raid1_mttdl_seconds": limits::raid1(&self.assumed, self.load.repair),
            "metadata_group": {
                "members": self.group.members,
                "mttf_seconds": answers.group_fails,
                "one_left_seconds": answers.group_alone,
            },
        })
    }
}

/// What the command line could not see by itself.
fn usage(error: weft_model::Error) -> Error {
    match error {
        weft_model::Error::RepairTooSlow => Error::Usage(format!(
            "{error}: give an --mttr-node no longer than --mttf-node"
        )),
        _ => Error::Usage(error.to_string()),
    }
}

/// A factor for people.
fn times_in_words(factor: f64) -> String {
    if factor < 1e5 {
        format!("{factor:.1}")
    } else {
        format!("{factor:.1e}")
    }
}

/// A time for people, from milliseconds to ages.
fn in_words(seconds: f64) -> String {
    let (value, unit) = match seconds {
        NEVER => return "never".into(),
        0.0 => return "none".into(),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ if seconds < 2.0 * MINUTE => (seconds, "s"),
        _ if seconds < 2.0 * HOUR => (seconds / MINUTE, "min"),
        _ if seconds < 2.0 * DAY => (seconds / HOUR, "h"),
        _ if seconds < YEAR => (seconds / DAY, "days"),
        _ if seconds == YEAR => return "1 year".into(),
        _ => (seconds / YEAR, "years"),
    };
    // Three digits, without zeros that say nothing.
    if !(1e-2..1e5).contains(&value) {
        format!("{value:.1e} {unit}")
    } else if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else if value >= 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: ReliabilityCommand,
    }

    fn plan(arguments: &[&str]) -> Plan {
        let line = Line::try_parse_from(["weft"].iter().chain(arguments)).unwrap();
        Plan::of(&line.command, None)
    }

    fn refusal(arguments: &[&str]) -> String {
        let line = ["weft"].iter().chain(arguments);
        Line::try_parse_from(line).err().unwrap().to_string()
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("1y"), Ok(YEAR));
        assert_eq!(parse_time("2d"), Ok(2.0 * DAY));
        assert_eq!(parse_time("1min"), Ok(MINUTE));
        assert_eq!(parse_delay("0s"), Ok(0.0));
        assert_eq!(parse_time_or_never("never"), Ok(NEVER));
        for bad in ["", "5", "-1d", "1 fortnight", "inf"] {
            let why = parse_time(bad).unwrap_err();
            assert!(why.contains("as in 1y"), "{bad}: {why}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (arguments, what_to_do) in [
            (["--pairs", "0"], "1..=1000"),
            (["--pairs", "1001"], "1..=1000"),
            (["--mttf-node", "0s"], "longer than nothing"),
            (["--mttf-node", "never"], "as in 1y"),
            (["--mttf-switch", "sometimes"], "or `never`"),
            (["--mttd", "250ms"], "server-async=250ms"),
            (["--mttd", "server-sync=1s"], "no time to duplication"),
            (["--mttd", "hybrid=1s"], "--async-share"),
            (["--mttd", "client-async=soon"], "as in 1y"),
            (["--async-share", "2"], "from 0 to 1"),
            (["--async-share", "NaN"], "from 0 to 1"),
            (["--protocol", "paxos"], "there are server-async"),
            (["--metadata-members", "0"], "1..=32"),
        ] {
            let why = refusal(&arguments);
            assert!(why.contains(what_to_do), "{arguments:?}: {why}");
        }
        let slow = plan(&["--mttf-node", "1d"]).answers().err().unwrap();
        assert!(matches!(&slow, Error::Usage(why) if why.contains("--mttr-node")));
    }

    #[test]
    fn a_plan_takes_what_is_given() {
        let plan = plan(&[
            "--mttd",
            "client-async=2s",
            "--mttf-switch",
            "never",
            "--protocol",
            "hybrid",
            "--protocol",
            "server-sync",
            "--mttr-node",
            "12h",
        ]);
        assert_eq!(plan.load.mttd.client_async, 2.0);
        assert_eq!(plan.load.mttd.server_async, MTTD.server_async);
        assert_eq!(plan.load.repair, 12.0 * HOUR);
        assert_eq!(plan.assumed.mttf_switch, NEVER);
        assert_eq!(plan.protocols, [Protocol::ServerSync, Protocol::Hybrid]);
    }

    #[test]
    fn text_and_json_say_the_same() {
        let plan = plan(&[]);
        let answers = plan.answers().unwrap();
        let text = plan.to_text(&answers);
        let json = plan.to_json(&answers);
        assert_eq!(json["protocols"].as_array().unwrap().len(), 5);
        for protocol in json["protocols"].as_array().unwrap() {
            let name = protocol["protocol"].as_str().unwrap();
            let row = text.lines().find(|line| line.starts_with(name)).unwrap();
            // Weft's columns first.
            let mut rest = row;
            for scheme in ["weft", "ceft"] {
                let of = |key: &str| protocol[scheme][key].as_f64().unwrap();
                for cell in [
                    in_words(of("mttdl_seconds")),
                    times_in_words(of("times_striping")),
                    format!("{:.4}", of("availability")),
                ] {
                    let (_, after) = rest.split_once(&cell).expect(row);
                    rest = after;
                }
            }
        }
        // Whoever asks for less waits for less.
        let ceft = |at: usize| {
            json["protocols"][at]["ceft"]["mttdl_seconds"]
                .as_f64()
                .unwrap()
        };
        assert!(ceft(0) < ceft(2) && ceft(2) < ceft(4) && ceft(4) < ceft(1));
        assert_eq!(ceft(1), ceft(3));
        let share = ceft(0) / ceft(1);
        assert!((share - 0.93).abs() < 0.002, "{share}");
    }

    #[test]
    fn a_queue_that_cannot_keep_up_is_told() {
        let plan = plan(&["--mttd", "server-async=2min"]);
        let answers = plan.answers().unwrap();
        assert!(
            plan.to_text(&answers)
                .contains("server-async: writes come faster")
        );
        assert_eq!(plan.to_json(&answers)["saturated"][0], "server-async");
    }

    #[test]
    fn times_are_told_with_the_unit_that_fits() {
        assert_eq!(in_words(0.25), "250 ms");
        assert_eq!(in_words(1e-9), "1.0e-6 ms");
        assert_eq!(in_words(60.0), "60 s");
        assert_eq!(in_words(YEAR), "1 year");
        assert_eq!(in_words(2.0 * DAY), "2 days");
        assert_eq!(in_words(43.8 * DAY), "43.8 days");
        assert_eq!(in_words(2.383 * YEAR), "2.38 years");
        assert_eq!(in_words(1e30), "3.2e22 years");
        assert_eq!(in_words(NEVER), "never");
    }
}
