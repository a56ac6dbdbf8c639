//! What standbys, and further groups, cost where nothing fails: operations a second by many clients, and
//! the processor time of the actives, of the standbys, and of the clients.

use super::group::{Cpu, Group, Member, Role, Size, cpu_by_role};
use super::{BENCH, Setting, Sync, add, at_least};
use crate::bench::client::Client;
use crate::bench::machine::Machine;
use crate::bench::report::Line;
use crate::run::Outcome;
use serde_json::Value;

/// In this order: each takes up what the one before it has left.
const STEPS: [&str; 5] = ["create", "getattr", "rename", "delete", "mkdir"];
/// Clients and members of the goals.
const GOAL_CASE: (u32, u32) = (32, 3);
/// Creates of the client that is alone.
const ALONE: u64 = 5_000;
/// Members of its groups.
const ALONE_MEMBERS: [u32; 2] = [1, 3];
/// A rate is offered for so long.
const OFFERED_SECONDS: u64 = 5;

/// Of all rates that are offered: what each further standby may take (the paper: 3.25 to 4.06 %).
pub const GOAL_OF_A_STANDBY: f64 = 0.96;

/// Operations a second that one group of three members is to do for 32 clients.
fn goal_of(step: &str, clients: u32, size: Size) -> Option<f64> {
    match step {
        _ if size.groups != 1 || (clients, size.members) != GOAL_CASE => None,
        "create" => Some(30_000.0),
        "getattr" => Some(100_000.0),
        _ => None,
    }
}

/// What the clients of a process say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    operations: f64,
    seconds: f64,
    cpu: f64,
    p50_us: f64,
}

/// Reads what `weft bench names` says.
fn told_of(line: &str) -> Result<Told, String> {
    let told: Value =
        serde_json::from_str(line).map_err(|error| format!("a client said {line:?}: {error}"))?;
    let number = |key: &str| {
        let number = told[key].as_f64();
        number.ok_or_else(|| format!("a client said {line:?}, without {key}"))
    };
    Ok(Told {
        operations: number("operations")?,
        seconds: number("seconds")?,
        cpu: number("cpu_s")?,
        p50_us: number("p50_us")?,
    })
}

/// One step of all clients.
#[derive(Clone, Copy, Debug)]
struct Point {
    operations: f64,
    /// Of the slowest process.
    seconds: f64,
    cpu: Cpu,
    clients_cpu: f64,
    /// Share of the machine's processors that was in use, by whomever.
    busy: f64,
    /// Microseconds of half of the operations, at most; of the slowest process.
    p50_us: f64,
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
struct Work<'a> {
    step: &'a str,
    clients: u32,
    /// Operations of all clients.
    operations: u64,
    /// Operations a second that all clients together begin at most.
    offered: Option<u64>,
}

/// Why there is no figure.
enum Absent {
    /// It would be of something else; others may be well.
    Disturbed,
    /// What must not happen has.
    Failed(String),
}

impl From<String> for Absent {
    fn from(why: String) -> Absent {
        Absent::Failed(why)
    }
}

/// Every number of standbys, one group after the other.
///
/// # Errors
/// If a group does not come up, or a client fails. What was measured by then is in `lines`.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    for standbys in &setting.options.standbys {
        all_steps(setting, Size::one(standbys + 1), Size::one(1), lines)?;
    }
    ALONE_MEMBERS
        .into_iter()
        .try_for_each(|members| alone(setting, members, lines))
}

/// The same with several groups, each with a standby for each of `--members` but one.
///
/// # Errors
/// As [`run`].
pub fn run_groups(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let members = options.members;
    for &groups in &options.groups {
        all_steps(setting, Size { groups, members }, Size::one(members), lines)?;
    }
    Ok(())
}

fn all_steps(setting: &Setting<'_>, size: Size, baseline: Size, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let group = Group::up(&setting.weft, &setting.parent, size, options.sync)?;
    for &clients in &options.clients {
        for step in STEPS {
            let work = Work {
                step,
                clients,
                operations: options.operations,
                offered: None,
            };
            match point(setting, &group, work) {
                Ok(point) => tell(work, size, baseline, point, lines)?,
                Err(Absent::Disturbed) => disturbed(work, size),
                Err(Absent::Failed(why)) => return Err(why),
            }
        }
    }
    group.down()
}

/// Clients that offer a rate which processors can serve with any number of standbys: what each of these
/// takes of it.
///
/// # Errors
/// As [`run`].
pub fn run_offered(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let mut before: Option<(Size, f64)> = None;
    for standbys in &options.standbys {
        let size = Size::one(standbys + 1);
        let group = Group::up(&setting.weft, &setting.parent, size, options.sync)?;
        let clients = options.clients.iter().copied().max().unwrap_or(1);
        let work = Work {
            step: "create",
            clients,
            operations: options.offered * OFFERED_SECONDS,
            offered: Some(options.offered),
        };
        match point(setting, &group, work) {
            Ok(point) => {
                let rate = tell_offered(options.offered, clients, size, before, point, lines)?;
                before = Some((size, rate));
            }
            Err(Absent::Disturbed) => disturbed(work, size),
            Err(Absent::Failed(why)) => return Err(why),
        }
        group.down()?;
    }
    Ok(())
}

fn disturbed(work: Work<'_>, size: Size) {
    eprintln!(
        "{}, {} clients, {}: no figure, as another member has come to lead meanwhile",
        work.step,
        work.clients,
        size.name()
    );
}

fn point(setting: &Setting<'_>, group: &Group, work: Work<'_>) -> Result<Point, Absent> {
    let options = setting.options;
    let clients = work.clients;
    let each = (work.operations / u64::from(clients)).max(1);
    let shares = shares(clients, options.processes);
    let mut processes = Vec::new();
    for (process, share) in shares.into_iter().enumerate() {
        let mut command = group.names(work.step, &format!("{clients}-{process}"));
        command.args(["--clients", &share.to_string()]);
        command.args(["--each", &each.to_string()]);
        if let Some(offered) = work.offered {
            let own = offered as f64 * f64::from(share) / f64::from(clients);
            command.args(["--rate", &own.to_string()]);
        }
        processes.push(Client::start(command)?);
    }
    processes.iter_mut().try_for_each(Client::wait_ready)?;
    let members = group.wait_whole()?;
    let (before, machine) = (cpu_by_role(&members), Machine::now()?);
    processes.iter_mut().try_for_each(Client::go)?;
    let mut all = Vec::new();
    for process in &mut processes {
        all.push(told_of(&process.line()?)?);
    }
    let (after, busy) = (cpu_by_role(&members), Machine::now()?.busy_since(&machine));
    if leaders(&group.wait_whole()?) != leaders(&members) {
        return Err(Absent::Disturbed);
    }
    Ok(Point {
        operations: all.iter().map(|told| told.operations).sum(),
        seconds: all.iter().map(|told| told.seconds).fold(0.0, f64::max),
        cpu: Cpu {
            active: after.active - before.active,
            standbys: after.standbys - before.standbys,
        },
        clients_cpu: all.iter().map(|told| told.cpu).sum(),
        busy,
        p50_us: all.iter().map(|told| told.p50_us).fold(0.0, f64::max),
    })
}

/// Who leads each group, as which process.
fn leaders(members: &[Member]) -> Vec<(u32, u32, Option<u32>)> {
    let actives = members.iter().filter(|one| one.role == Role::Active);
    actives.map(|one| (one.group, one.id, one.pid)).collect()
}

/// Clients of each process; none has none.
fn shares(clients: u32, processes: u32) -> Vec<u32> {
    let processes = processes.clamp(1, clients.max(1));
    let (least, more) = (clients / processes, clients % processes);
    (0..processes)
        .map(|process| least + u32::from(process < more))
        .collect()
}

fn case_of(clients: u32) -> String {
    match clients {
        1 => "1 client".into(),
        _ => format!("{clients} clients"),
    }
}

fn tell(
    work: Work<'_>,
    size: Size,
    baseline: Size,
    point: Point,
    lines: &mut Vec<Line>,
) -> Outcome {
    let (system, case, step) = (size.name(), case_of(work.clients), work.step);
    let line =
        |figure: &str, value, unit: &str| Line::of(BENCH, &system, figure, &case, value, unit);
    let rate = line(step, point.operations / point.seconds, "op/s");
    let alone = lines
        .iter()
        .find(|line| line.system == baseline.name() && line.figure == step && line.case == case)
        .map(|line| line.value);
    add(lines, rate.clone())?;
    if let Some(goal) = goal_of(step, work.clients, size) {
        add(lines, at_least(&rate, goal))?;
    }
    if let (Some(alone), true) = (alone, system != baseline.name()) {
        add(lines, rate.beside(&baseline.name(), alone, None))?;
    }
    let per = point.operations / 1e4;
    for (role, cpu) in [
        ("active", point.cpu.active),
        ("standbys", point.cpu.standbys),
        ("clients", point.clients_cpu),
    ] {
        let figure = format!("{step}, cpu of {role}");
        add(lines, line(&figure, cpu / per, "cpu s/10000"))?;
    }
    let figure = format!("{step}, processors in use");
    add(lines, line(&figure, 100.0 * point.busy, "%"))
}

/// Answers the rate that came about.
fn tell_offered(
    offered: u64,
    clients: u32,
    size: Size,
    before: Option<(Size, f64)>,
    point: Point,
    lines: &mut Vec<Line>,
) -> Result<f64, String> {
    let (system, case) = (size.name(), case_of(clients));
    let line =
        |figure: &str, value, unit: &str| Line::of(BENCH, &system, figure, &case, value, unit);
    let figure = |what: &str| format!("create at {offered} a second{what}");
    let rate = line(&figure(""), point.operations / point.seconds, "op/s");
    add(lines, rate.clone())?;
    if let Some((before, value)) = before {
        let goal = Some(GOAL_OF_A_STANDBY);
        add(lines, rate.beside(&before.name(), value, goal))?;
    }
    add(lines, line(&figure(", p50"), point.p50_us, "us"))?;
    let busy = 100.0 * point.busy;
    add(lines, line(&figure(", processors in use"), busy, "%"))?;
    let of_all = 1e4 / point.operations;
    for (role, cpu) in [
        ("active", point.cpu.active),
        ("standbys", point.cpu.standbys),
    ] {
        let figure = figure(&format!(", cpu of {role}"));
        add(lines, line(&figure, cpu * of_all, "cpu s/10000"))?;
    }
    Ok(rate.value)
}

/// One client that creates, where no disk is waited for.
fn alone(setting: &Setting<'_>, members: u32, lines: &mut Vec<Line>) -> Outcome {
    let size = Size::one(members);
    let group = Group::up(&setting.weft, &setting.parent, size, Sync::Never)?;
    let mut command = group.names("create", "alone");
    command.args(["--each", &ALONE.to_string()]);
    let mut client = Client::start(command)?;
    client.wait_ready()?;
    client.go()?;
    let told = told_of(&client.line()?)?;
    let figure = "create by one client, journal.sync never";
    let line = Line::of(BENCH, &size.name(), figure, "p50", told.p50_us, "us");
    add(lines, line)?;
    group.down()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread_over_processes() {
        assert_eq!(shares(32, 2), [16, 16]);
        assert_eq!(shares(5, 3), [2, 2, 1]);
        assert_eq!(shares(2, 4), [1, 1]);
    }

    #[test]
    fn what_clients_say_is_read_or_an_error() {
        let told =
            told_of(r#"{"operations":100,"seconds":2.0,"cpu_s":0.5,"p50_us":80.5,"max_us":900.0}"#);
        let told = told.unwrap();
        assert_eq!((told.operations, told.seconds), (100.0, 2.0));
        assert_eq!((told.cpu, told.p50_us), (0.5, 80.5));
        assert!(told_of("ready").is_err());
        assert!(told_of(r#"{"operations":1}"#).is_err());
    }

    #[test]
    fn rates_stand_beside_those_without_standbys_and_have_goals() {
        let point = |operations| Point {
            operations,
            seconds: 2.0,
            cpu: Cpu {
                active: 3.0,
                standbys: 4.0,
            },
            clients_cpu: 5.0,
            busy: 0.5,
            p50_us: 100.0,
        };
        let mut lines = Vec::new();
        let work = Work {
            step: "create",
            clients: 32,
            operations: 100_000,
            offered: None,
        };
        let alone = Size::one(1);
        tell(work, alone, alone, point(100_000.0), &mut lines).unwrap();
        tell(work, Size::one(3), alone, point(50_000.0), &mut lines).unwrap();
        let find = |figure: &str, system: &str, baseline: Option<&str>| {
            let mut all = lines.iter();
            let found = all.find(|line| {
                line.figure == figure
                    && line.system == system
                    && line.baseline.as_deref() == baseline
            });
            found.cloned().unwrap()
        };
        assert_eq!(find("create", "1A2S", None).value, 25_000.0);
        let beside = find("create", "1A2S", Some("1A0S"));
        assert_eq!((beside.ratio, beside.ok), (Some(0.5), None));
        let goal = find("create", "1A2S", Some("30000 op/s"));
        assert_eq!(goal.ok, Some(false));
        assert_eq!(find("create, cpu of standbys", "1A2S", None).value, 0.8);
        assert!(
            !lines
                .iter()
                .any(|line| line.system == "1A0S" && line.ok.is_some())
        );
        let mut lines = Vec::new();
        let before = Some((Size::one(2), 30_000.0));
        tell_offered(
            30_000,
            32,
            Size::one(3),
            before,
            point(50_000.0),
            &mut lines,
        )
        .unwrap();
        let judged = lines.iter().find(|line| line.ok.is_some()).unwrap();
        assert_eq!(
            (judged.baseline.as_deref(), judged.ok),
            (Some("1A1S"), Some(false))
        );
    }
}
