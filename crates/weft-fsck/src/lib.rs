//! Checks the whole name space, over all groups and while it is in use (`docs/protocols/fsck.md`).
//!
//! It asks each group for pages of inodes and of entries and compares them. Since changes go on meanwhile, what
//! does not fit together is only suspicious: it is looked at again, several times and at both ends, before it is
//! called wrong. [`check()`] changes nothing, [`repair()`] sets right what it has found. `weft fsck --meta` calls
//! them, and so does the simulator.
//!
//! It keeps 32 bytes for each inode (up to twice that while the table grows), and what is suspicious, which is
//! bounded.

mod finding;
mod looks;
mod passes;
mod paths;
mod repair;
mod repaired;
mod survey;
mod table;

pub use finding::{Finding, Waiting};
pub use paths::{find_names, path_of};
pub use repair::{Mended, repair};
pub use repaired::Repaired;
pub use survey::{Ask, Survey};

use std::time::Duration;
use survey::Span;
use table::Table;
use weft_env::Env;
use weft_types::GroupId;

/// How patient a check is.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Between two looks at what is suspicious: a change of several groups takes some milliseconds.
    pub pause: Duration,
    /// Something is wrong when it has looked so in as many looks, one after the other.
    pub confirmations: u32,
    /// What has not been decided in so many looks stays undecided.
    pub looks_max: u32,
    /// The same for files, whose names may be anywhere: each such look goes through all entries.
    pub passes_max: u32,
    /// A transaction that has not ended in this time is told.
    pub long: Duration,
    /// Suspicious entries, and inodes, that are kept. More are counted.
    pub suspects_max: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            pause: Duration::from_millis(200),
            confirmations: 5,
            looks_max: 25,
            passes_max: 6,
            long: Duration::from_secs(5),
            suspects_max: 200_000,
        }
    }
}

/// What a check has found.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Inodes, and entries of directories, that were compared.
    pub inodes: u64,
    /// See there.
    pub names: u64,
    /// What was suspicious at first.
    pub suspects: u64,
    /// What is wrong.
    pub wrong: Vec<Finding>,
    /// Transactions that have waited for long.
    pub waiting: Vec<Waiting>,
    /// What was suspicious, and changed, or was locked, whenever it was looked at: neither right nor wrong.
    pub undecided: Vec<String>,
    /// What was suspicious beyond what is kept.
    pub unjudged: u64,
    /// The batches of each group that what was seen is as of.
    pub spans: Vec<(GroupId, Span)>,
}

impl Report {
    /// Nothing is wrong, and no transaction waits.
    pub fn is_sound(&self) -> bool {
        self.wrong.is_empty() && self.waiting.is_empty()
    }

    /// All that was suspicious has been decided.
    pub fn is_complete(&self) -> bool {
        self.undecided.is_empty() && self.unjudged == 0
    }
}

/// Checks the name space of these groups.
///
/// # Errors
/// What a group answers that does not serve.
pub async fn check<A: Ask>(
    env: &Env,
    ask: &A,
    groups: &[GroupId],
    terms: &Terms,
) -> Result<Report, A::Error> {
    let mut survey = Survey::of(ask, groups).await?;
    for _ in 0..terms.confirmations {
        if survey.slots_twice().is_empty() {
            break;
        }
        // One that moves has no owner for a moment.
        env.sleep(terms.pause).await;
        survey = Survey::of(ask, groups).await?;
    }
    let mut report = Report {
        wrong: survey.slots_twice(),
        ..Report::default()
    };
    let mut table = Table::default();
    for group in groups {
        let strays = survey.inodes(*group, |inode| table.add(inode)).await?;
        report.wrong.extend(strays);
    }
    table.sort();
    let mut suspects = table::Suspects::new(terms.suspects_max);
    for group in groups {
        let names = |name| table.name(name, &mut suspects);
        report.names += survey.names(*group, names).await?;
    }
    report.inodes = table.len();
    table.judge(&mut suspects);
    // What follows looks at single inodes.
    drop(table);
    report.suspects = suspects.count();
    report.unjudged = suspects.left_out;
    looks::run(env, &survey, terms, &mut suspects, &mut report).await?;
    passes::run(env, &survey, terms, suspects.files, &mut report).await?;
    report.waiting = survey.waiting(terms.long).await?;
    report.spans = survey.spans();
    if !report.wrong.is_empty() && !survey.is_same(&Survey::of(ask, groups).await?) {
        // Whoever was asked for an inode may not have had it any more.
        let wrong = report.wrong.drain(..);
        let undecided = wrong.map(|finding| format!("{finding} (while slots moved)"));
        report.undecided.extend(undecided);
    }
    Ok(report)
}
