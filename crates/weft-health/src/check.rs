//! The checks, and what one of them has found.

use std::fmt;
use weft_wire::proto;

/// How bad something is. Worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// All data can be read, and is there twice; something that is to be there is not, or soon will not be.
    Degraded,
    /// Data is there once only, or cannot be read or written.
    Critical,
}

macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident $name:literal $page:literal,)*) => {
        /// What is looked at. Names are stable: programs and metrics have them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check {
            $($(#[$doc])* $check,)*
        }

        impl Check {
            /// All of them.
            pub const ALL: &[Check] = &[$(Check::$check,)*];

            /// For programs: the label in metrics, and in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Check::$check => $name,)*
                }
            }

            /// Where it is told what to do, under `docs/operating`.
            pub fn page(self) -> &'static str {
                match self {
                    $(Check::$check => $page,)*
                }
            }
        }
    };
}

checks! {
    /// A pair has nobody who may serve it.
    PairDown "pair-down" "pair-down.md",
    /// A pair has one copy that counts.
    OneCopy "one-copy" "data-server-away.md",
    /// The second copy is being made and does not advance.
    Recovery "recovery" "data-server-away.md",
    /// A data server's disk does not do what it is told.
    Disk "disk" "disk-fails.md",
    /// A disk has returned other bytes than were written.
    BadBlocks "bad-blocks" "bad-blocks.md",
    /// The two copies of something are not the same.
    Copies "copies" "copies-differ.md",
    /// A store has far less than it should.
    Shrunk "shrunk" "copies-differ.md",
    /// Data is known to be lost, and nobody has acknowledged that.
    Losses "losses" "losses.md",
    /// A disk has little room.
    Room "room" "full.md",
    /// A member of a metadata group does not count, or is not heard.
    Members "members" "group-members.md",
    /// No metadata server leads a group, or it does not answer.
    Metadata "metadata" "metadata-away.md",
    /// What was changed is not stable in time.
    Journal "journal" "metadata-away.md",
    /// The coordinator does not answer.
    Coordinator "coordinator" "group-members.md",
    /// A job waits.
    Jobs "jobs" "pairs-come-and-go.md",
    /// Clocks are apart.
    Clocks "clocks" "process.md",
    /// Servers of several versions.
    Versions "versions" "process.md",
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is wrong with one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: `pair 3`, `data:3.1`, `meta:0.2`.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// What that means for data and for users.
    pub means: &'static str,
    /// What to do.
    pub todo: String,
}

impl Finding {
    /// For a message; it has been so for `for_ms` milliseconds at least.
    pub fn to_proto(&self, for_ms: u64) -> proto::Finding {
        let severity = match self.severity {
            Severity::Degraded => proto::finding::Severity::Degraded,
            Severity::Critical => proto::finding::Severity::Critical,
        };
        proto::Finding {
            check: self.check.name().into(),
            severity: severity.into(),
            subject: self.subject.clone(),
            what: self.what.clone(),
            means: self.means.into(),
            todo: self.todo.clone(),
            page: self.check.page().into(),
            for_ms,
        }
    }
}

/// What all findings together say. The number is the exit code of `weft health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing is wrong.
    Well = 0,
    /// All data can be read, and is there twice.
    Degraded = 1,
    /// Not so.
    Critical = 2,
    /// Nobody answers who knows.
    Unknown = 3,
}

impl Verdict {
    /// Of what servers have said.
    pub fn of(findings: &[proto::Finding]) -> Verdict {
        let verdict = |finding: &proto::Finding| match finding.severity() {
            proto::finding::Severity::Degraded => Verdict::Degraded,
            // What a later version may add is no better than the worst.
            proto::finding::Severity::Critical | proto::finding::Severity::Unspecified => {
                Verdict::Critical
            }
        };
        findings.iter().map(verdict).max().unwrap_or(Verdict::Well)
    }

    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Well => "well",
            Verdict::Degraded => "degraded",
            Verdict::Critical => "critical",
            Verdict::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_name_of_its_own_and_a_page() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating");
        let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Check::ALL.len());
        for check in Check::ALL {
            let page = std::path::Path::new(pages).join(check.page());
            let text = std::fs::read_to_string(&page).unwrap_or_default();
            assert!(
                text.contains(&format!("`{check}`")),
                "{} does not name the check `{check}`",
                page.display()
            );
        }
    }

    #[test]
    fn the_worst_counts() {
        let of = |severities: &[i32]| {
            let finding = |severity: &i32| proto::Finding {
                severity: *severity,
                ..proto::Finding::default()
            };
            Verdict::of(&severities.iter().map(finding).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), Verdict::Well);
        assert_eq!(of(&[1, 1]), Verdict::Degraded);
        assert_eq!(of(&[1, 2, 1]), Verdict::Critical);
        assert_eq!(of(&[77]), Verdict::Critical);
    }
}
