//! A client writes a file, and the active is killed twice meanwhile (figure 10 of the paper): no error, and
//! how long nothing was answered.

use super::group::{Group, Size};
use super::{BENCH, Setting, add};
use crate::bench::client::Client;
use crate::bench::report::Line;
use crate::run::Outcome;
use serde_json::Value;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Bytes of the file, written again and again.
const BYTES: u64 = 64 << 20;
/// A client says so often how far it is.
const EVERY: &str = "10";
/// Times that tell how fast this machine writes.
const TRIED: u64 = 4;
/// About how long is written: both members that are killed have come back by then.
const SECONDS: f64 = 12.0;
/// Before the first kill, and between the return of a member and the next.
const BETWEEN: Duration = Duration::from_secs(1);
/// What a kill does to the client is over by then.
const AFTER: Duration = Duration::from_secs(2);
/// How often the active is killed.
const KILLS: usize = 2;

/// What the client had done when.
struct Course {
    moved: Vec<(Instant, u64)>,
    /// When all was written and the file closed.
    ended: Instant,
}

/// Without and with kills.
///
/// # Errors
/// If the group does not come up or get whole again, or the client fails, which it must not.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let size = Size::one(options.members.max(2));
    let group = Group::up(&setting.weft, &setting.parent, size, options.sync)?;
    let tried = wait(begin(&group, "tried", TRIED)?)?;
    let rate = rate_of(&tried)?;
    let times = (rate * SECONDS / BYTES as f64).ceil().max(1.0) as u64;
    let calm = begin(&group, "calm", times)?;
    let mut marks = Vec::new();
    for _ in 0..KILLS {
        std::thread::sleep(BETWEEN);
        marks.push(Instant::now());
        std::thread::sleep(AFTER);
    }
    let calm = wait(calm)?;
    let killed = begin(&group, "killed", times)?;
    let mut kills = Vec::new();
    for _ in 0..KILLS {
        std::thread::sleep(BETWEEN);
        let active = group.active()?;
        kills.push(Instant::now());
        group.order("kill", active)?;
        group.wait_junior(active)?;
        group.order("start", active)?;
        group.wait_whole()?;
    }
    let killed = wait(killed)?;
    if kills.iter().any(|kill| *kill + AFTER > killed.ended) {
        return Err(
            "the file was written before the last kill had passed: the machine is too fast, or the group \
             too slow"
                .into(),
        );
    }
    group.down()?;
    for (case, course, marks) in [("no kill", &calm, &marks), ("2 kills", &killed, &kills)] {
        let line = |figure: &str, value, unit: &str| {
            Line::of(BENCH, &size.name(), figure, case, value, unit)
        };
        let rate = line("a file is written", rate_of(course)? / 1e6, "MB/s");
        let before = lines
            .iter()
            .find(|known| known.figure == rate.figure && known.case == "no kill")
            .map(|known| known.value);
        add(lines, rate.clone())?;
        if let (Some(before), "2 kills") = (before, case) {
            add(lines, rate.beside("no kill", before, None))?;
        }
        let pauses: Vec<f64> = marks.iter().map(|mark| pause(course, *mark)).collect();
        let total = pauses.iter().sum::<f64>();
        add(
            lines,
            line("a file is written, pauses, sum", 1e3 * total, "ms"),
        )?;
    }
    Ok(())
}

/// Has a client begin.
fn begin(
    group: &Group,
    name: &str,
    times: u64,
) -> Result<Receiver<Result<Course, String>>, String> {
    let mut command = group.stream();
    command.args(["--file", &format!("write/{name}")]);
    command.args(["--write", &BYTES.to_string(), "--times", &times.to_string()]);
    command.args(["--every", EVERY]);
    let mut client = Client::start(command)?;
    client.wait_ready()?;
    client.go()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut moved = vec![(Instant::now(), 0)];
        let ended = loop {
            match client.line().map(|line| far_of(&line)) {
                Ok(Some(far)) => moved.push((Instant::now(), far)),
                // The times of its steps: it is done.
                Ok(None) => {
                    break Ok(Course {
                        moved,
                        ended: Instant::now(),
                    });
                }
                Err(why) => break Err(why),
            }
        };
        // Nobody waits if something else has failed.
        let _: Result<(), _> = sender.send(ended);
    });
    Ok(receiver)
}

/// Waits until a client is done.
fn wait(course: Receiver<Result<Course, String>>) -> Result<Course, String> {
    let ended = course.recv();
    ended.map_err(|_| "nobody listened to a client".to_owned())?
}

/// Bytes that have been answered, of a line that tells it.
fn far_of(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?["moved"].as_u64()
}

/// Bytes a second.
fn rate_of(course: &Course) -> Result<f64, String> {
    let moved = course.moved.last().map_or(0, |(_, moved)| *moved);
    let begun = course.moved.first().map_or(course.ended, |(at, _)| *at);
    match moved {
        0 => Err("nothing was written before the client ended".into()),
        _ => Ok(moved as f64 / course.ended.duration_since(begun).as_secs_f64()),
    }
}

/// The longest time (seconds) for which nothing more was answered, of those that ended after the mark and
/// began before what a kill does is over.
fn pause(course: &Course, mark: Instant) -> f64 {
    let mut longest = Duration::ZERO;
    let Some(&(mut since, mut known)) = course.moved.first() else {
        return 0.0;
    };
    let last = course.moved.last().map_or(0, |(_, moved)| *moved);
    let end = (course.ended, last + 1);
    for &(at, moved) in course.moved.iter().chain(std::iter::once(&end)) {
        if moved <= known {
            continue;
        }
        if at > mark && since < mark + AFTER {
            longest = longest.max(at.duration_since(since));
        }
        (since, known) = (at, moved);
    }
    longest.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_the_longest_time_without_an_answer_about_a_kill() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let course = Course {
            moved: vec![
                (at(0), 0),
                (at(900), 10),
                (at(1_000), 20),
                // It says how far it is, and that is no further.
                (at(1_100), 20),
                (at(1_300), 30),
                (at(1_350), 40),
            ],
            ended: at(1_400),
        };
        assert_eq!(pause(&course, at(1_050)), 0.3);
        assert_eq!(pause(&course, at(1_310)), 0.05);
        assert_eq!(rate_of(&course).unwrap(), 40.0 / 1.4);
        assert_eq!(far_of(r#"{"moved":7}"#), Some(7));
        assert_eq!(far_of(r#"{"open":0.1}"#), None);
    }
}
