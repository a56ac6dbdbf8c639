//! How long an active may be silent, by the settings' defaults: three members on steady links, one of which stands
//! still or is cut off. What is counted is who leads, and when it may answer.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use weft_group::{Engine, Input, MemberId, Message, Now, Output, Record, Shape, Terms};
use weft_types::Epoch;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const TERMS: Terms = Terms {
    beat: ms(40),
    patience: ms(120),
    patience_max: ms(1_500),
    lease: ms(120),
    lease_before: ms(300),
    asking: ms(40),
    drop_after: ms(720),
    gap_max: 64,
    window: 64,
};
/// Members that do nothing odd for so long are steady.
const STEADY_AFTER: Duration = Duration::from_secs(20);
/// The clock is looked at as often; less late than `LATE_MIN` says nothing.
const STEP: Duration = ms(1);
const LATE_MIN: Duration = ms(3);

struct Member {
    engine: Engine,
    /// What has come and was not read.
    inbox: VecDeque<Input>,
    asleep_until: Now,
    wakes_at: Now,
}

struct Bed {
    now: Now,
    record: Record,
    members: Vec<Member>,
    /// Its links carry nothing.
    cut_off: Option<usize>,
    step_downs: usize,
}

impl Bed {
    fn steady(terms: Terms) -> Bed {
        let ids: BTreeSet<MemberId> = (0..3).map(MemberId).collect();
        let record = Record {
            epoch: Epoch(1),
            active: MemberId(0),
            voters: ids.clone(),
            juniors: [].into(),
        };
        let member = |me: &MemberId| {
            let journal = (Shape::default(), true);
            let others = ids.iter().filter(|other| *other != me);
            Member {
                engine: Engine::new(*me, terms, record.clone(), journal, Now::ZERO),
                inbox: others.map(|other| Input::Connected(*other)).collect(),
                asleep_until: Now::ZERO,
                wakes_at: Now::ZERO,
            }
        };
        let members = ids.iter().map(member).collect();
        let mut bed = Bed {
            now: Now::ZERO,
            record,
            members,
            cut_off: None,
            step_downs: 0,
        };
        bed.run(STEADY_AFTER);
        bed.step_downs = 0;
        bed
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        for me in 0..self.members.len() {
            let member = &mut self.members[me];
            if member.asleep_until > self.now {
                continue;
            }
            let late = self.now.saturating_sub(member.wakes_at);
            let mut inputs = std::mem::take(&mut member.inbox);
            if self.now >= member.wakes_at {
                inputs.push_back(Input::Tick);
            }
            if late >= LATE_MIN && !member.wakes_at.is_zero() {
                inputs.push_front(Input::Stalled(late));
            }
            while let Some(input) = inputs.pop_front() {
                for output in self.members[me].engine.on(self.now, input) {
                    self.carry_out(me, output, &mut inputs);
                }
            }
            let member = &mut self.members[me];
            member.wakes_at = member.engine.wakes_at(self.now);
        }
    }

    fn carry_out(&mut self, me: usize, output: Output, inputs: &mut VecDeque<Input>) {
        match output {
            Output::Send(to, message) => self.deliver(me, to.0 as usize, message),
            Output::Take { number, .. } => inputs.push_back(Input::Written(number)),
            Output::Change { from, to } => {
                if self.record == from {
                    self.record = to;
                    for member in &mut self.members {
                        member.inbox.push_back(Input::Record(self.record.clone()));
                    }
                }
                inputs.push_back(Input::ChangeEnded(self.record.clone()));
            }
            Output::Look => inputs.push_back(Input::Record(self.record.clone())),
            Output::Lead(..) => inputs.push_back(Input::Propose),
            Output::StepDown => self.step_downs += 1,
            Output::Refuse(_, why) => panic!("{me} refuses what was said in good faith: {why}"),
            Output::Committed(_) | Output::Restore(_) | Output::Contradicted(_) => {}
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        if ![Some(from), Some(to)].contains(&self.cut_off) {
            let said = Input::Message(MemberId(from as u32), message);
            self.members[to].inbox.push_back(said);
        }
    }

    /// Who may answer.
    fn active(&self) -> Option<usize> {
        let mut awake = (0..3).filter(|me| self.members[*me].asleep_until <= self.now);
        awake.find(|me| self.members[*me].engine.reads_until(self.now).is_some())
    }

    fn active_by_then(&mut self) -> usize {
        loop {
            if let Some(active) = self.active() {
                return active;
            }
            self.step();
        }
    }

    /// How long it takes until another may answer.
    fn replaced_after(&mut self, active: usize) -> Duration {
        let begin = self.now;
        while self.active().is_none_or(|other| other == active) {
            self.step();
            assert!(self.now - begin < ms(5_000), "nobody leads");
        }
        self.now - begin
    }
}

/// Stalls from 350 to 480 ms.
fn stall(number: u64) -> Duration {
    ms(350 + number * 37 % 131)
}

/// How often somebody has stepped down by each of a hundred stalls of whoever leads, five minutes in all.
fn stalls(terms: Terms) -> Vec<usize> {
    let mut bed = Bed::steady(terms);
    let each = |number| {
        let active = bed.active_by_then();
        bed.members[active].asleep_until = bed.now + stall(number);
        bed.run(ms(3_000));
        bed.step_downs
    };
    (0..100).map(each).collect()
}

#[test]
fn a_steady_active_that_falls_silent_is_replaced_within_200_ms() {
    for (phase, is_cut) in (0..60).flat_map(|phase| [(phase, false), (phase, true)]) {
        let mut bed = Bed::steady(TERMS);
        bed.run(ms(phase));
        let active = bed.active_by_then();
        match is_cut {
            true => bed.cut_off = Some(active),
            false => bed.members[active].asleep_until = bed.now + ms(2_000),
        }
        let time = bed.replaced_after(active);
        assert!(time < ms(200), "phase {phase}, cut off {is_cut}: {time:?}");
    }
}

#[test]
fn who_was_seen_to_stall_is_borne_with() {
    let counts = stalls(TERMS);
    // Each member stalls once before that is known of it.
    assert!(*counts.last().unwrap() <= 3, "{counts:?}");
    assert_eq!(counts[3], *counts.last().unwrap(), "{counts:?}");
    // Where nobody is waited for longer each stall is a change.
    let always = Terms {
        patience_max: TERMS.patience,
        ..TERMS
    };
    assert_eq!(stalls(always).last(), Some(&100));
}

#[test]
fn a_machine_that_stops_all_its_members_at_once_deposes_nobody() {
    let mut bed = Bed::steady(TERMS);
    for number in 0..100 {
        for member in &mut bed.members {
            member.asleep_until = bed.now + stall(number);
        }
        bed.run(ms(3_000));
    }
    assert_eq!(bed.step_downs, 0);
}

#[test]
fn what_one_did_before_it_led_is_known_of_it() {
    let mut bed = Bed::steady(TERMS);
    let active = bed.active_by_then();
    for member in (0..3).filter(|member| *member != active) {
        bed.members[member].asleep_until = bed.now + stall(0);
        bed.run(ms(2_000));
    }
    // Another leads, of whom the third has seen nothing yet.
    bed.members[active].asleep_until = bed.now + ms(2_000);
    bed.replaced_after(active);
    bed.run(ms(5_000));
    let next = bed.active_by_then();
    assert_ne!(next, active);
    bed.step_downs = 0;
    bed.members[next].asleep_until = bed.now + stall(99);
    bed.run(ms(3_000));
    assert_eq!((bed.step_downs, bed.active()), (0, Some(next)));
}
