//! Is there an order of all operations in which the reference answers as the system did?
//!
//! Time is followed from one end of an operation to the next. What is kept is every state that the
//! reference may be in, each with the set of operations under way that have already taken effect in
//! it. When an operation ends, it must have taken effect: states in which it has not are
//! continued by every order of operations under way that ends with it (Lowe's just-in-time
//! linearization). The answers are known beforehand, since the check runs after the run, so wrong
//! orders die at once and the set stays small.

use super::history::{Op, Outcome, Record, Reply};
use super::model::State;
use std::collections::{BTreeMap, BTreeSet};

/// States kept at a time before the check gives up: a run has a few dozen.
const STATES_MAX: usize = 4_000;

/// Why a history is not right.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The operation that no order explains.
    pub number: usize,
    /// What is known about it.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Possible {
    /// Operations under way that have taken effect.
    done: BTreeSet<usize>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Begin,
    End,
}

/// Checks a history.
///
/// # Errors
/// The first operation that cannot be explained.
pub fn check(records: &[Record], root_ino: u64) -> Result<Vec<State>, Violation> {
    let mut moments: Vec<(u64, Moment, usize)> = Vec::new();
    for (number, record) in records.iter().enumerate() {
        moments.push((record.invoked, Moment::Begin, number));
        moments.push((record.returned, Moment::End, number));
    }
    // At one instant beginnings come first: the two then overlap, which allows more.
    moments.sort();
    let mut under_way: BTreeMap<usize, &Record> = BTreeMap::new();
    let mut possible = BTreeSet::from([Possible {
        done: BTreeSet::new(),
        state: State::new(root_ino),
    }]);
    for (_, moment, number) in moments {
        let record = &records[number];
        if moment == Moment::Begin {
            under_way.insert(number, record);
            continue;
        }
        let must = !matches!(record.outcome, Outcome::Unknown { .. });
        let mut next = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for from in &possible {
            advance(from, number, must, &under_way, &mut next, &mut seen);
            if seen.len() > STATES_MAX {
                let mut violation = explain(number, records, &under_way, &possible);
                violation.text = format!(
                    "too many possible states to go on, at {record}\n{} before it\n{}",
                    possible.len(),
                    violation.text
                );
                return Err(violation);
            }
        }
        if next.is_empty() {
            return Err(explain(number, records, &under_way, &possible));
        }
        under_way.remove(&number);
        possible = next;
    }
    Ok(possible
        .into_iter()
        .map(|possible| possible.state)
        .collect())
}

/// Adds to `next` all that `from` may become when operation `number` ends.
fn advance(
    from: &Possible,
    number: usize,
    must: bool,
    under_way: &BTreeMap<usize, &Record>,
    next: &mut BTreeSet<Possible>,
    seen: &mut BTreeSet<Possible>,
) {
    let mut stack = vec![from.clone()];
    while let Some(mut at) = stack.pop() {
        if at.done.remove(&number) {
            next.insert(at);
            continue;
        }
        if !must {
            // Its bound has passed without effect. (With effect: `done`, above.)
            next.insert(at);
            continue;
        }
        if seen.len() > STATES_MAX || !seen.insert(at.clone()) {
            continue;
        }
        for (&other, record) in under_way {
            if at.done.contains(&other) {
                continue;
            }
            // What asks nothing and changes nothing may as well come later.
            let asks_nothing =
                matches!(record.outcome, Outcome::Unknown { .. }) || record.op == Op::SessionEnds;
            for state in at.state.apply(other, record) {
                if asks_nothing && other != number && state == at.state {
                    continue;
                }
                let mut done = at.done.clone();
                done.insert(other);
                stack.push(Possible { done, state });
            }
        }
    }
}

/// Operations on the same inode that the report of a violation shows.
const RELATED_MAX: usize = 30;

/// The inode that an operation is about, by its own words or its answer's.
fn subject(record: &Record) -> Option<u64> {
    record.op.inode().or(match &record.outcome {
        Outcome::Known(Reply::Entry(seen)) => Some(seen.ino),
        _ => None,
    })
}

/// The name that an operation is about.
fn names(op: &Op) -> Vec<(u64, &[u8])> {
    match op {
        Op::Lookup { parent, name }
        | Op::Create { parent, name, .. }
        | Op::Mkdir { parent, name, .. }
        | Op::Mkfifo { parent, name, .. }
        | Op::Symlink { parent, name, .. }
        | Op::Link { parent, name, .. }
        | Op::Unlink { parent, name }
        | Op::Rmdir { parent, name } => vec![(*parent, name)],
        Op::Rename {
            parent,
            name,
            new_parent,
            new_name,
            ..
        } => vec![(*parent, name), (*new_parent, new_name)],
        _ => Vec::new(),
    }
}

fn explain(
    number: usize,
    records: &[Record],
    under_way: &BTreeMap<usize, &Record>,
    possible: &BTreeSet<Possible>,
) -> Violation {
    let record = &records[number];
    let mut text = format!("no order explains #{number} {record}\n");
    let about = subject(record);
    let named = names(&record.op);
    let related: Vec<usize> = (0..records.len())
        .filter(|&other| {
            let other = &records[other];
            other.invoked < record.returned
                && (other.op == Op::SessionEnds
                    || about.is_some() && subject(other) == about
                    || names(&other.op).iter().any(|name| named.contains(name)))
        })
        .collect();
    for &other in related.iter().rev().take(RELATED_MAX).rev() {
        text.push_str(&format!("  related: #{other} {}\n", records[other]));
    }
    for (other, record) in under_way.iter().filter(|(other, _)| **other != number) {
        text.push_str(&format!("  under way: #{other} {record}\n"));
    }
    for (index, possible) in possible.iter().enumerate().take(3) {
        text.push_str(&format!(
            "  possible state {} of {}{}:\n",
            index + 1,
            possible_count(number, record, possible),
            possible
                .state
                .why_not(record)
                .map(|why| format!(" ({why})"))
                .unwrap_or_default()
        ));
        for line in possible.state.describe().lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    Violation { number, text }
}

fn possible_count(_number: usize, _record: &Record, possible: &Possible) -> String {
    format!("(in effect already: {:?})", possible.done)
}

/// True for an operation that says nothing and does nothing when its outcome is unknown.
pub fn only_looks(op: &Op) -> bool {
    matches!(
        op,
        Op::Lookup { .. }
            | Op::Readlink { .. }
            | Op::Getattr { .. }
            | Op::Getxattr { .. }
            | Op::Listxattr { .. }
            | Op::List { .. }
            | Op::Read { .. }
    )
}

/// Records without those that neither say nor do anything, with their numbers kept (the reference
/// names inodes and bytes by them): such a record becomes an empty interval at time 0.
pub fn without_idle(records: &[Record]) -> Vec<Record> {
    records
        .iter()
        .cloned()
        .map(|mut record| {
            if matches!(record.outcome, Outcome::Unknown { .. }) && only_looks(&record.op) {
                record.invoked = 0;
                record.returned = 0;
            }
            record
        })
        .collect()
}

/// True if the operation failed with EIO, which says nothing of what happened.
pub fn is_unknown(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(libc::EIO))
}
