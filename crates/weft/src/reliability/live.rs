//! What a running cluster has measured of itself: the inputs of the model that are not a matter of
//! experience with machines. Pure; [`super::run`] asks the cluster.

use super::in_words;
use crate::table;
use serde_json::{Value, json};
use weft_wire::proto::{MemberReport, PairStatus, StatusReply};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The cluster.
    Measured,
    /// The command line.
    Given,
    /// Nothing was measured yet, or nothing can be: the default.
    Default,
}

impl From {
    fn name(self) -> &'static str {
        match self {
            From::Measured => "measured",
            From::Given => "given",
            From::Default => "default",
        }
    }
}

/// An input of the model, in seconds, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub seconds: f64,
    pub from: From,
}

/// The first of them that there is.
pub fn choose(given: Option<f64>, measured: Option<f64>, default: f64) -> Figure {
    let figure = |seconds, from| Figure { seconds, from };
    match (given, measured) {
        (Some(seconds), _) => figure(seconds, From::Given),
        (None, Some(seconds)) => figure(seconds, From::Measured),
        (None, None) => figure(default, From::Default),
    }
}

/// What the data servers have counted. None: nothing of that has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Pairs there are.
    pub pairs: u32,
    /// For how long, on the average of the data servers. Seconds.
    pub over: f64,
    /// Mean time between two writes to one pair. Seconds.
    pub mttw: Option<f64>,
    /// Mean time for which a leader owed the second copy of a write. Seconds.
    pub server_async: Option<f64>,
    /// Mean time for which a client let a write be on one member. Seconds.
    pub client_async: Option<f64>,
    /// Bytes a second that recoveries compared or sent.
    pub recovery_rate: Option<f64>,
    /// Bytes on the fullest data server: what a recovery of everything has to look at.
    pub fullest: u64,
}

/// What was counted between two looks at a cluster; without the first one, since each data server
/// started.
pub fn counted(before: Option<&StatusReply>, after: &StatusReply) -> Counted {
    let mut all = MemberReport::default();
    let mut writes_per_second = 0.0;
    let mut members = 0_u32;
    let mut fullest = 0;
    for pair in &after.pairs {
        for member in &pair.members {
            let Some(report) = &member.report else {
                continue;
            };
            fullest = fullest.max(report.total_bytes.saturating_sub(report.free_bytes));
            let earlier = before.and_then(|before| report_of(before, pair, member.member));
            let news = since(earlier, report);
            if news.counted_ms == 0 {
                continue;
            }
            members += 1;
            // Both members count what the client sends to both.
            let writes = news.writes as f64 - news.driven_writes as f64 / 2.0;
            writes_per_second += writes / (news.counted_ms as f64 / 1e3);
            all.counted_ms += news.counted_ms;
            all.server_async_writes += news.server_async_writes;
            all.server_async_us += news.server_async_us;
            all.client_async_writes += news.client_async_writes;
            all.client_async_us += news.client_async_us;
            all.recovered_bytes += news.recovered_bytes;
            all.recovery_ms += news.recovery_ms;
        }
    }
    let mean = |us: u64, writes: u64| (writes > 0).then(|| us as f64 / writes as f64 / 1e6);
    let pairs = u32::try_from(after.pairs.len()).unwrap_or(u32::MAX);
    Counted {
        pairs,
        over: all.counted_ms as f64 / 1e3 / f64::from(members.max(1)),
        mttw: (writes_per_second > 0.0).then(|| f64::from(pairs) / writes_per_second),
        server_async: mean(all.server_async_us, all.server_async_writes),
        client_async: mean(all.client_async_us, all.client_async_writes),
        recovery_rate: (all.recovery_ms > 0 && all.recovered_bytes > 0)
            .then(|| all.recovered_bytes as f64 / (all.recovery_ms as f64 / 1e3)),
        fullest,
    }
}

fn report_of<'a>(
    status: &'a StatusReply,
    of: &PairStatus,
    member: u32,
) -> Option<&'a MemberReport> {
    let id = |pair: &PairStatus| pair.state.unwrap_or_default().pair;
    let pair = status.pairs.iter().find(|pair| id(pair) == id(of))?;
    let member = pair.members.iter().find(|one| one.member == member)?;
    member.report.as_ref()
}

/// What came since. A server that has started anew meanwhile counts from its start.
fn since(earlier: Option<&MemberReport>, report: &MemberReport) -> MemberReport {
    let Some(earlier) = earlier.filter(|earlier| earlier.counted_ms <= report.counted_ms) else {
        return report.clone();
    };
    let less = |of: fn(&MemberReport) -> u64| of(report).saturating_sub(of(earlier));
    MemberReport {
        writes: less(|r| r.writes),
        driven_writes: less(|r| r.driven_writes),
        counted_ms: less(|r| r.counted_ms),
        server_async_writes: less(|r| r.server_async_writes),
        server_async_us: less(|r| r.server_async_us),
        client_async_writes: less(|r| r.client_async_writes),
        client_async_us: less(|r| r.client_async_us),
        recovered_bytes: less(|r| r.recovered_bytes),
        recovery_ms: less(|r| r.recovery_ms),
        ..MemberReport::default()
    }
}

/// How long after its death a node's copy is complete again: somebody replaces the node, and it is
/// filled with everything at the rate that was measured.
pub fn repair(counted: &Counted, replaced_after: f64) -> Option<f64> {
    let rate = counted.recovery_rate?;
    Some(replaced_after + counted.fullest as f64 / rate)
}

/// The inputs of a plan that a cluster has told, or could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Live {
    pub counted: Counted,
    pub mttw: Figure,
    pub server_async: Figure,
    pub client_async: Figure,
    pub repair: Figure,
    pub replaced_after: f64,
}

impl Live {
    fn rows(&self) -> [(&'static str, Figure, String); 4] {
        let rate = match self.counted.recovery_rate {
            Some(rate) if self.repair.from == From::Measured => format!(
                "replaced after {}, then {} at {}/s",
                in_words(self.replaced_after),
                table::bytes(self.counted.fullest),
                table::bytes(rate as u64)
            ),
            _ if self.repair.from == From::Default => "no recovery has run yet".into(),
            _ => String::new(),
        };
        let none = |figure: Figure, why: &str| match figure.from {
            From::Default => why.to_owned(),
            From::Measured | From::Given => String::new(),
        };
        [
            (
                "between two writes to a pair",
                self.mttw,
                none(self.mttw, "nothing has been written yet"),
            ),
            (
                "on one member, server-async",
                self.server_async,
                none(self.server_async, "no write has waited for its second copy"),
            ),
            (
                "on one member, client-async",
                self.client_async,
                none(self.client_async, "no write has waited for its second copy"),
            ),
            ("until a copy is complete again", self.repair, rate),
        ]
    }

    /// For people.
    pub fn to_text(self) -> String {
        let rows = self
            .rows()
            .into_iter()
            .map(|(what, figure, note)| {
                vec![
                    what.to_owned(),
                    in_words(figure.seconds),
                    figure.from.name().to_owned(),
                    note,
                ]
            })
            .collect();
        let mut out = format!("What the cluster tells of the last {}:\n", {
            in_words(self.counted.over)
        });
        out += &table::render(&["mean time", "", "from", "note"], rows);
        out.push('\n');
        out
    }

    /// For programs.
    pub fn to_json(self) -> Value {
        let rows = self.rows();
        let names = [
            "mttw",
            "mttd_server_async",
            "mttd_client_async",
            "mttr_node",
        ];
        let from: serde_json::Map<String, Value> = names
            .iter()
            .zip(&rows)
            .map(|(name, (_, figure, _))| ((*name).to_owned(), json!(figure.from.name())))
            .collect();
        json!({
            "over_seconds": self.counted.over,
            "from": from,
            "recovery_bytes_per_second": self.counted.recovery_rate,
            "fullest_bytes": self.counted.fullest,
            "replaced_after_seconds": self.replaced_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::{MemberStatus, PairState};

    fn status(pairs: &[[MemberReport; 2]]) -> StatusReply {
        let pair = |(number, members): (usize, &[MemberReport; 2])| PairStatus {
            state: Some(PairState {
                pair: number as u32,
                ..PairState::default()
            }),
            members: (0..)
                .zip(members)
                .map(|(member, report)| MemberStatus {
                    member,
                    report: Some(report.clone()),
                    ..MemberStatus::default()
                })
                .collect(),
        };
        StatusReply {
            pairs: pairs.iter().enumerate().map(pair).collect(),
            ..StatusReply::default()
        }
    }

    fn report(seconds: u64, writes: u64, driven_writes: u64) -> MemberReport {
        MemberReport {
            counted_ms: seconds * 1000,
            writes,
            driven_writes,
            total_bytes: 10_000,
            free_bytes: 4_000,
            ..MemberReport::default()
        }
    }

    #[test]
    fn writes_are_counted_once_for_each_pair() {
        // Pair 0: 100 led by one, 50 by the other in 100 s: 1.5 a second. Pair 1: 200 that clients
        // sent to both in 100 s: 2 a second. Together 3.5 a second to two pairs.
        let all = counted(
            None,
            &status(&[
                [report(100, 100, 0), report(100, 50, 0)],
                [report(100, 200, 200), report(100, 200, 200)],
            ]),
        );
        assert_eq!(all.pairs, 2);
        assert_eq!(all.over, 100.0);
        assert!((all.mttw.unwrap() - 2.0 / 3.5).abs() < 1e-12);
        assert_eq!(all.fullest, 6_000);
        assert_eq!((all.server_async, all.client_async), (None, None));
        assert_eq!(all.recovery_rate, None);
    }

    #[test]
    fn times_on_one_member_are_means_over_all_servers() {
        let mut one = report(10, 10, 0);
        one.server_async_writes = 3;
        one.server_async_us = 3_000;
        one.client_async_writes = 1;
        one.client_async_us = 500_000;
        let mut two = report(10, 10, 0);
        two.server_async_writes = 1;
        two.server_async_us = 5_000;
        two.recovered_bytes = 8_000;
        two.recovery_ms = 4_000;
        let all = counted(None, &status(&[[one, two]]));
        assert_eq!(all.server_async, Some(0.002));
        assert_eq!(all.client_async, Some(0.5));
        assert_eq!(all.recovery_rate, Some(2_000.0));
        // 6,000 bytes at 2,000 a second.
        assert_eq!(repair(&all, 60.0), Some(63.0));
    }

    #[test]
    fn between_two_looks_only_the_news_count() {
        let before = status(&[[report(100, 1_000, 0), report(100, 1_000, 0)]]);
        // The second one has started anew.
        let after = status(&[[report(110, 1_005, 0), report(5, 10, 0)]]);
        let all = counted(Some(&before), &after);
        // 0.5 and 2 a second.
        assert_eq!(all.mttw, Some(1.0 / 2.5));
        assert_eq!(all.over, 7.5);
        let idle = counted(Some(&after), &after);
        assert_eq!((idle.mttw, idle.over), (None, 0.0));
        assert_eq!(repair(&idle, 60.0), None);
    }

    #[test]
    fn what_was_not_measured_is_told_as_a_default() {
        assert_eq!(choose(Some(1.0), Some(2.0), 3.0).from, From::Given);
        let measured = choose(None, Some(2.0), 3.0);
        assert_eq!((measured.seconds, measured.from), (2.0, From::Measured));
        let default = choose(None, None, 3.0);
        assert_eq!((default.seconds, default.from), (3.0, From::Default));
        let live = Live {
            counted: Counted::default(),
            mttw: measured,
            server_async: default,
            client_async: default,
            repair: default,
            replaced_after: 60.0,
        };
        let text = live.to_text();
        assert!(text.contains("no recovery has run yet"), "{text}");
        assert!(text.contains("has waited for its second copy"), "{text}");
        assert!(!text.contains("nothing has been written yet"), "{text}");
        assert_eq!(live.to_json()["from"]["mttr_node"], "default");
        assert_eq!(live.to_json()["from"]["mttw"], "measured");
    }
}
