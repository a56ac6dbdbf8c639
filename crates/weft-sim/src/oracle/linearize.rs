//! Is there an order of all operations in which the reference answers as the system did?
//!
//! Time is followed from one end of an operation to the next. What is kept is every state that the
//! reference may be in, each with the set of operations under way that have already taken effect in
//! it. When an operation ends, it must have taken effect: states in which it has not are
//! continued by every order of operations under way that ends with it (Lowe's just-in-time
//! linearization). The answers are known beforehand, since the check runs after the run, so wrong
//! orders die at once; and operations that touch nothing in common are not tried in both orders
//! ([`super::footprint`]), so the set stays small.

use super::footprint::Footprint;
use super::history::{Op, Outcome, Record, Reply};
use super::lingering::Lingering;
use super::model::State;
use super::{origins, parts, seams};
use std::collections::{BTreeMap, BTreeSet};

/// States looked at for one operation before the check gives up: most take a few dozen.
const STATES_MAX: usize = 20_000;
/// And for all of a history: most take some ten thousand, each of them some ten microseconds. One that takes more
/// is taken apart ([`super::parts`]).
const STATES_AT_ONCE: usize = 60_000;
/// And for each of its parts.
const STATES_IN_PART: usize = 200_000;

/// Why a history is not right.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The operation that no order explains.
    pub number: usize,
    /// What is known about it.
    pub text: String,
    /// There were too many orders to try them all: nothing is said against the history.
    pub is_undecided: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Possible {
    /// Operations under way that have taken effect, or whose bound has passed and that never will.
    done: BTreeSet<usize>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Begin,
    End,
}

/// Operations that may still take effect.
#[derive(Default)]
struct UnderWay<'a> {
    records: BTreeMap<usize, &'a Record>,
    /// Those of unknown outcome whose bound has passed. Whether they have taken effect is asked only
    /// when somebody looks at what they touch: most never matter, and to ask for each would double
    /// the states each time.
    passed: BTreeSet<usize>,
}

/// Checks a history: at once, or in parts if that is too much. Answers the states that the reference may be in
/// at its end, if it was checked at once.
///
/// # Errors
/// The first operation that cannot be explained.
pub fn check(records: &[Record], root_ino: u64) -> Result<Vec<State>, Violation> {
    match check_at_once(records, root_ino, STATES_AT_ONCE) {
        Err(violation) if violation.is_undecided => {
            check_in_parts(records, root_ino, STATES_IN_PART).map(|()| Vec::new())
        }
        decided => decided,
    }
}

/// Checks a history by looking at so many states at most.
pub(super) fn check_at_once(
    records: &[Record],
    root_ino: u64,
    states_left: usize,
) -> Result<Vec<State>, Violation> {
    check_from(State::new(root_ino), records, |_| true, states_left)
}

/// Checks each part of a history by itself, by looking at so many states of it at most.
pub(super) fn check_in_parts(
    records: &[Record],
    root_ino: u64,
    states_left: usize,
) -> Result<(), Violation> {
    let mut undecided = Ok(());
    for part in parts::of(records) {
        let begin = match part.file {
            Some(ino) => State::with_file(ino, parts::MODE, part.unknown_sources()),
            None => State::new(root_ino),
        };
        let mut seen_there = records.to_vec();
        for (number, record) in &part.records {
            seen_there[*number] = record.clone();
        }
        let is_there = |number: usize| part.records.contains_key(&number);
        match check_from(begin, &seen_there, is_there, states_left) {
            Ok(_) => {}
            Err(mut violation) => {
                violation.text = format!("of {}: {}", part.what, violation.text);
                if !violation.is_undecided {
                    return Err(violation);
                }
                undecided = Err(violation);
            }
        }
    }
    undecided
}

fn check_from(
    mut begin: State,
    records: &[Record],
    is_there: impl Fn(usize) -> bool,
    mut states_left: usize,
) -> Result<Vec<State>, Violation> {
    begin.lingering = Lingering::of(records);
    let mut moments: Vec<(u64, Moment, usize)> = Vec::new();
    for (number, record) in records.iter().enumerate() {
        let is_unknown = matches!(record.outcome, Outcome::Unknown { .. });
        if !is_there(number) || is_unknown && record.op.only_looks() {
            continue;
        }
        moments.push((record.invoked, Moment::Begin, number));
        moments.push((record.returned, Moment::End, number));
    }
    // At one instant beginnings come first: the two then overlap, which allows more.
    moments.sort();
    let mut under_way = UnderWay::default();
    let mut possible = BTreeSet::from([Possible {
        done: BTreeSet::new(),
        state: begin,
    }]);
    for (_, moment, number) in moments {
        let record = &records[number];
        if moment == Moment::Begin {
            under_way.records.insert(number, record);
            continue;
        }
        if matches!(record.outcome, Outcome::Unknown { .. }) {
            under_way.passed.insert(number);
        } else {
            possible = advance_all(number, records, &under_way, &possible, &mut states_left)?;
            under_way.records.remove(&number);
        }
        forget_decided(&mut under_way, &mut possible);
    }
    Ok(possible
        .into_iter()
        .map(|possible| possible.state)
        .collect())
}

/// Every state may become others when operation `number` ends.
fn advance_all(
    number: usize,
    records: &[Record],
    under_way: &UnderWay<'_>,
    possible: &BTreeSet<Possible>,
    states_left: &mut usize,
) -> Result<BTreeSet<Possible>, Violation> {
    let mut next = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let states_max = STATES_MAX.min(*states_left);
    for from in possible {
        advance(from, number, under_way, states_max, &mut next, &mut seen);
        if seen.len() > states_max {
            let mut violation = explain(number, records, &under_way.records, possible);
            violation.is_undecided = true;
            violation.text = format!(
                "too many possible states to go on, at {}\n{} before it\n{}",
                records[number],
                possible.len(),
                violation.text
            );
            return Err(violation);
        }
    }
    *states_left -= seen.len();
    if next.is_empty() {
        return Err(explain(number, records, &under_way.records, possible));
    }
    Ok(without_included(next))
}

/// States that differ in what files hold, of which one allows all that the other does, are one.
fn without_included(states: BTreeSet<Possible>) -> BTreeSet<Possible> {
    if states.len() < 2 {
        return states;
    }
    let mut groups: BTreeMap<Possible, Vec<State>> = BTreeMap::new();
    for Possible { done, state } in states {
        let skeleton = Possible {
            done,
            state: state.skeleton(),
        };
        let group = groups.entry(skeleton).or_default();
        if !group.iter().any(|other| other.includes(&state)) {
            group.retain(|other| !state.includes(other));
            group.push(state);
        }
    }
    let mut left = BTreeSet::new();
    for (Possible { done, .. }, group) in groups {
        left.extend(group.into_iter().map(|state| Possible {
            done: done.clone(),
            state,
        }));
    }
    left
}

/// Operations whose bound has passed and that are decided in every state need no more thought.
fn forget_decided(under_way: &mut UnderWay<'_>, possible: &mut BTreeSet<Possible>) {
    let decided: Vec<usize> = under_way
        .passed
        .iter()
        .copied()
        .filter(|number| possible.iter().all(|at| at.done.contains(number)))
        .collect();
    if decided.is_empty() {
        return;
    }
    for number in &decided {
        under_way.passed.remove(number);
        under_way.records.remove(number);
    }
    *possible = std::mem::take(possible)
        .into_iter()
        .map(|mut at| {
            for number in &decided {
                at.done.remove(number);
            }
            at
        })
        .collect();
}

/// Adds to `next` all that `from` may become when operation `number` ends.
fn advance(
    from: &Possible,
    number: usize,
    under_way: &UnderWay<'_>,
    states_max: usize,
    next: &mut BTreeSet<Possible>,
    seen: &mut BTreeSet<Possible>,
) {
    let mut stack = vec![(from.clone(), BTreeSet::new())];
    while let Some((mut at, mut met)) = stack.pop() {
        if at.done.remove(&number) {
            at.done.extend(met);
            next.insert(at);
            continue;
        }
        if seen.len() > states_max || !seen.insert(at.clone()) {
            continue;
        }
        let all = entangled(&at, number, &under_way.records);
        met.extend(
            all.iter()
                .copied()
                .filter(|other| under_way.passed.contains(other)),
        );
        for other in all {
            let record = under_way.records[&other];
            let waits =
                |first: usize| under_way.records.contains_key(&first) && !at.done.contains(&first);
            if record.after.is_some_and(waits) {
                continue;
            }
            // What asks nothing and changes nothing may as well come later, unless something waits for it.
            let is_first = under_way
                .records
                .values()
                .any(|then| then.after == Some(other));
            let asks_nothing = !is_first
                && (matches!(record.outcome, Outcome::Unknown { .. }) || record.op.is_event());
            for state in at.state.apply(other, record) {
                if asks_nothing && other != number && state == at.state {
                    continue;
                }
                let mut done = at.done.clone();
                done.insert(other);
                stack.push((Possible { done, state }, met.clone()));
            }
        }
    }
}

/// The operations under way whose order against `number` may matter here, by themselves or through
/// others: a persistent set. The rest may as well take effect later.
fn entangled(at: &Possible, number: usize, under_way: &BTreeMap<usize, &Record>) -> Vec<usize> {
    let mut rest: Vec<(usize, Footprint)> = under_way
        .iter()
        .filter(|(other, _)| !at.done.contains(other))
        .map(|(&other, record)| (other, at.state.footprint(record)))
        .collect();
    let mut all = Vec::new();
    let mut new = vec![number];
    while let Some(member) = new.pop() {
        let Some(index) = rest.iter().position(|&(other, _)| other == member) else {
            continue;
        };
        let (_, print) = rest.swap_remove(index);
        new.extend(
            rest.iter()
                .filter(|(_, other)| other.clashes(&print))
                .map(|&(other, _)| other),
        );
        new.extend(under_way[&member].after);
        all.push(member);
    }
    all.sort_unstable();
    all
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

fn explain(
    number: usize,
    records: &[Record],
    under_way: &BTreeMap<usize, &Record>,
    possible: &BTreeSet<Possible>,
) -> Violation {
    let record = &records[number];
    let mut text = format!("no order explains #{number} {record}\n");
    if let (Op::Read { offset, .. }, Outcome::Known(Reply::Bytes(data))) =
        (&record.op, &record.outcome)
    {
        for run in origins::of(records, *offset, data) {
            text.push_str(&format!("  read {run}\n"));
        }
    }
    let about = subject(record);
    let named = record.op.names();
    let related: Vec<usize> = (0..records.len())
        .filter(|&other| {
            let other = &records[other];
            other.invoked < record.returned
                && (other.op.is_event()
                    || about.is_some() && subject(other) == about
                    || other.op.names().iter().any(|name| named.contains(name)))
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
    Violation {
        number,
        text,
        is_undecided: false,
    }
}

fn possible_count(_number: usize, _record: &Record, possible: &Possible) -> String {
    format!("(in effect already: {:?})", possible.done)
}

/// Attributes that a change answers with are those of some moment after it took effect, not of that
/// very moment: the client may have asked again. So they are an observation of their own. And a copy
/// that others look at while it goes on has a beginning and an end; and what a kernel does in steps is judged by its
/// steps. [`check`] wants records like that.
pub fn prepared(records: Vec<Record>) -> Vec<Record> {
    let mut records = seams::taken_apart(records);
    for number in 0..records.len() {
        if is_seen_under_way(&records, number) {
            let begins = Record {
                begins: true,
                ..records[number].clone()
            };
            records[number].after = Some(records.len());
            records.push(begins);
        }
        let record = &mut records[number];
        let Outcome::Known(Reply::Entry(seen)) = &record.outcome else {
            continue;
        };
        if record.op.only_looks() && !may_cross(&record.op, seen.ino) {
            continue;
        }
        let seen = seen.clone();
        record.outcome = Outcome::Known(Reply::Inode(seen.ino, seen.kind));
        let look = Record {
            op: Op::Getattr { ino: seen.ino },
            outcome: Outcome::Known(Reply::Entry(seen)),
            after: Some(number),
            ..record.clone()
        };
        records.push(look);
    }
    records
}

/// A name and the inode that it stands for may be two groups': the attributes are asked for when the name has been
/// told (docs/protocols/partition.md), as a program does that looks a name up and then looks at what it found.
fn may_cross(op: &Op, found: u64) -> bool {
    matches!(op, Op::Lookup { parent, .. } if seams::may_be_apart(*parent, found))
}

/// It is a copy, whose steps another client may have seen: nothing says that `copy_file_range(2)` is
/// done at one moment, any more than the reads and writes that it stands for.
fn is_seen_under_way(records: &[Record], number: usize) -> bool {
    let copy = &records[number];
    let (Op::Copy { ino, .. }, Outcome::Known(Reply::Number(1..))) = (&copy.op, &copy.outcome)
    else {
        return false;
    };
    records.iter().any(|other| {
        let reads = matches!(other.op, Op::Copy { source, .. } if source == *ino);
        other.client != copy.client
            && other.invoked <= copy.returned
            && copy.invoked <= other.returned
            && (reads || subject(other) == Some(*ino))
    })
}
