//! What is wrong, as the active of a group sees it (`docs/protocols/health.md`): looked at each second, for the metrics, and so
//! that it is known since when; and when somebody asks.

use crate::reign::{Core, Meta};
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_health::{Check, Ledger, Own, Recoveries, Severity, of_group, of_pairs};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::Sn;
use weft_wire::proto::{HealthReply, HealthRequest};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// All crates of Weft have one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the last look found.
pub(crate) struct Health {
    ledger: Ledger,
    recoveries: Recoveries,
    next: Mono,
    /// The last batch that was committed at the last look, and when that was first so.
    committed: (Sn, Mono),
}

impl Health {
    pub(crate) fn new(now: Mono) -> Health {
        Health {
            ledger: Ledger::default(),
            recoveries: Recoveries::default(),
            next: now,
            committed: (Sn(0), now),
        }
    }

    /// For how long nothing has been committed of what waits for that.
    fn waits(&mut self, committed: Sn, newest: Sn, now: Mono) -> Duration {
        if committed != self.committed.0 || committed == newest {
            self.committed = (committed, now);
        }
        now.since(self.committed.1)
    }
}

fn since_start(now: Mono) -> Duration {
    Duration::from_nanos(now.0)
}

/// Looks if it is time to.
pub(crate) fn tick(meta: &Meta, core: &mut Core) {
    let now = meta.env.now();
    if now >= core.health.next {
        look(meta, core, now);
    }
}

fn look(meta: &Meta, core: &mut Core, now: Mono) {
    core.health.next = now + EVERY;
    let (committed, newest) = (core.commits.committed(), core.commits.newest());
    let room = meta.env.space(&meta.settings.dir);
    let own = Own {
        member: meta.settings.member,
        room: room.map_or((0, 0), |space| (space.total, space.free)),
        waits: core.health.waits(committed, newest, now),
        coordinator: meta.coordinator.trouble(),
    };
    let mut groups = core.view.groups.iter();
    let group = groups.find(|it| it.id == meta.settings.group);
    let jobs = core.jobs.statuses(&core.state, now);
    let mut findings = group.map_or(Vec::new(), |group| of_group(group, &own, &jobs));
    if core.pairs.decides() {
        if core.pairs.note_room(meta.settings.pair.room_low_percent) {
            meta.pairs_published.notify_waiters();
        }
        let pairs = core.pairs.status(&core.state, now);
        findings.extend(of_pairs(&pairs, VERSION));
        let recoveries = &mut core.health.recoveries;
        findings.extend(recoveries.that_stand_still(&pairs, since_start(now)));
    }
    core.health.ledger.take(findings, since_start(now));
    for check in Check::ALL {
        let worst = match core.health.ledger.worst(*check) {
            None => 0,
            Some(Severity::Degraded) => 1,
            Some(Severity::Critical) => 2,
        };
        core.metrics.health(*check, worst);
    }
}

/// Answered at once, whatever waits for the journal.
pub(crate) fn on_health(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: HealthRequest,
    replier: Replier,
) {
    let now = meta.env.now();
    look(meta, core, now);
    let reply = HealthReply {
        findings: core.health.ledger.findings(since_start(now)),
        version: VERSION.into(),
        groups: core.view.groups.iter().map(|group| group.id).collect(),
    };
    replier.send::<HealthRequest>(&reply, Payload::none());
}
