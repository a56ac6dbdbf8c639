//! Whether the filling of members advances.

use crate::check::{Check, Finding, Severity};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_wire::proto::PairStatus;
use weft_wire::proto::pair_state::Mode;

/// What stands still for longer stands still: regions are copied within seconds also on slow links.
const STILL: Duration = Duration::from_secs(60);

/// How far each recovery was at the last look, and when it was first so far. By pair: epoch of the state, and bytes done.
#[derive(Debug, Default)]
pub struct Recoveries(BTreeMap<u32, ((u64, u64), Duration)>);

impl Recoveries {
    /// Those that do not advance, at `now` (of a clock that only rises).
    pub fn that_stand_still(&mut self, pairs: &[PairStatus], now: Duration) -> Vec<Finding> {
        let before = std::mem::take(&mut self.0);
        let mut findings = Vec::new();
        for pair in pairs {
            let state = pair.state.unwrap_or_default();
            if state.mode() != Mode::Recovering {
                continue;
            }
            let server = pair.members.iter().find(|it| it.member == state.serving);
            let report = server.and_then(|it| it.report.as_ref());
            let far = (state.epoch, report.map_or(0, |report| report.job_done));
            let since = match before.get(&state.pair) {
                Some((was, since)) if *was == far => *since,
                _ => now,
            };
            self.0.insert(state.pair, (far, since));
            let still = now.saturating_sub(since);
            if still < STILL {
                continue;
            }
            let (from, to) = (state.serving, 1 - state.serving.min(1));
            findings.push(Finding {
                check: Check::Recovery,
                severity: Severity::Critical,
                subject: format!("pair {}", state.pair),
                what: format!(
                    "the filling of data:{}.{to} from data:{}.{from} has not advanced for {} s",
                    state.pair,
                    state.pair,
                    still.as_secs()
                ),
                means: "the pair stays with one whole copy",
                todo: "look at the logs of both: a full or failing disk, or a link that is cut"
                    .into(),
            });
        }
        findings
    }
}
