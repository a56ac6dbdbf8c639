//! Since when.

use crate::check::{Check, Finding, Severity};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_wire::proto;

/// When something was first found wrong, by whoever looks again and again. A subject that is well again is forgotten.
#[derive(Debug, Default)]
pub struct Ledger {
    since: BTreeMap<(Check, String), Duration>,
    findings: Vec<Finding>,
}

impl Ledger {
    /// What is found at `now` (of a clock that only rises) replaces what was found before.
    pub fn take(&mut self, mut findings: Vec<Finding>, now: Duration) {
        findings.sort_by(|a, b| {
            let key = |finding: &Finding| (std::cmp::Reverse(finding.severity), finding.check);
            key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
        });
        let before = std::mem::take(&mut self.since);
        for finding in &findings {
            let key = (finding.check, finding.subject.clone());
            let since = before.get(&key).copied().unwrap_or(now);
            self.since.insert(key, since);
        }
        self.findings = findings;
    }

    /// What was found last, worst first, and for how long it has been so.
    pub fn findings(&self, now: Duration) -> Vec<proto::Finding> {
        let told = |finding: &Finding| {
            let key = (finding.check, finding.subject.clone());
            let since = self.since.get(&key).copied().unwrap_or(now);
            finding.to_proto(now.saturating_sub(since).as_millis() as u64)
        };
        self.findings.iter().map(told).collect()
    }

    /// The worst that a check has found.
    pub fn worst(&self, check: Check) -> Option<Severity> {
        let of_check = |finding: &&Finding| finding.check == check;
        let found = self.findings.iter().filter(of_check);
        found.map(|finding| finding.severity).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: Check, severity: Severity, subject: &str) -> Finding {
        Finding {
            check,
            severity,
            subject: subject.into(),
            what: String::new(),
            means: "",
            todo: String::new(),
        }
    }

    #[test]
    fn the_worst_comes_first_and_since_when_is_kept() {
        let ms = Duration::from_millis;
        let mut ledger = Ledger::default();
        let room = finding(Check::Room, Severity::Degraded, "data:0.1");
        let away = finding(Check::OneCopy, Severity::Critical, "pair 1");
        ledger.take(vec![room.clone()], ms(1_000));
        ledger.take(vec![room.clone(), away.clone()], ms(3_000));
        let told = ledger.findings(ms(4_000));
        let told: Vec<(&str, u64)> = told.iter().map(|it| (&*it.check, it.for_ms)).collect();
        assert_eq!(told, [("one-copy", 1_000), ("room", 3_000)]);
        assert_eq!(ledger.worst(Check::OneCopy), Some(Severity::Critical));
        assert_eq!(ledger.worst(Check::Disk), None);
        // Well, and wrong anew.
        ledger.take(vec![away], ms(5_000));
        ledger.take(vec![room], ms(6_000));
        assert_eq!(ledger.findings(ms(6_500))[0].for_ms, 500);
    }
}
