//! The table of docs/protocols/pairs.md, line by line. All interleavings: `tests/interleavings.rs`.

use super::lost::LOST_STATES;
use super::*;
use weft_types::PairId;

const ZERO: Member = Member::Zero;
const ONE: Member = Member::One;

/// A keeper whose journal is durable at once, and what it told.
struct Bed {
    keeper: Keeper,
    now: Now,
    next_connection: u64,
    told: Vec<(Member, PairState)>,
    published: Vec<PairState>,
    refused: usize,
    disks: [Disk; 2],
    /// What they say next of their memory.
    forgot: [bool; 2],
    /// What they say of the last state that they were told.
    words: [Word; 2],
}

fn store(name: &str) -> StoreKey {
    StoreKey::of(name)
}

/// At the start of a reign whose first entry is committed.
fn begun(state: PairState) -> Keeper {
    let mut keeper = Keeper::new(state, Terms::default(), Now::ZERO);
    assert_eq!(keeper.committed(Now::ZERO), []);
    keeper
}

impl Bed {
    fn new(state: PairState) -> Bed {
        Bed {
            keeper: begun(state),
            now: Now::ZERO,
            next_connection: 1,
            told: Vec::new(),
            published: Vec::new(),
            refused: 0,
            disks: [Disk::Works; 2],
            forgot: [false; 2],
            words: [Word::NOTHING; 2],
        }
    }

    /// Both members serve, with stores "s0" and "s1".
    fn both() -> Bed {
        let mut bed = Bed::new(PairState::new(PairId(0)));
        bed.register(ZERO, "s0", false);
        bed.register(ONE, "s1", false);
        bed.beats(&[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Both);
        assert_eq!(
            bed.keeper.state.stores,
            [Some(store("s0")), Some(store("s1"))]
        );
        bed
    }

    fn mode(&self) -> Mode {
        self.keeper.published().mode
    }

    fn run(&mut self, actions: Vec<Action>) {
        let mut actions: std::collections::VecDeque<Action> = actions.into();
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Journal { state, .. } => {
                    let rises = state.epoch.0 == self.keeper.state.epoch.0 + 1;
                    assert!(rises || self.keeper.state.uncertain);
                    actions.extend(self.keeper.on_journaled(state.epoch, self.now));
                }
                Action::Welcome { member, connection } | Action::Tell { member, connection } => {
                    assert!(self.keeper.is_welcomed(member, connection));
                    let state = self.keeper.state_for(member);
                    self.told.extend(state.map(|state| (member, state)));
                }
                Action::Publish(state) => self.published.push(state),
                Action::Refuse { .. } => self.refused += 1,
                Action::Close { .. } => {}
            }
        }
    }

    fn register(&mut self, member: Member, name: &str, was_serving: bool) -> u64 {
        let connection = self.next_connection;
        self.next_connection += 1;
        if !was_serving {
            self.disk(member, Disk::Works);
        }
        let registration = Registration {
            connection,
            incarnation: if was_serving { 7 } else { connection + 100 },
            store: store(name),
            was_serving,
            disk: self.disks[member.index()],
            forgot: std::mem::take(&mut self.forgot[member.index()]),
            last: self.words[member.index()],
        };
        let actions = self.keeper.register(member, registration, self.now);
        self.run(actions);
        connection
    }

    fn connection(&self, member: Member) -> u64 {
        self.keeper.registered(member).unwrap().connection
    }

    fn die(&mut self, member: Member) {
        let connection = self.connection(member);
        let actions = self
            .keeper
            .connection_lost(member, connection, true, self.now);
        self.run(actions);
    }

    fn beat(&mut self, member: Member, twin_lost: bool) {
        let said = Said {
            twin_lost,
            disk: self.disks[member.index()],
            ..Said::default()
        };
        self.say(member, said);
    }

    fn say(&mut self, member: Member, said: Said) {
        self.is_heard(member, said);
        if self.keeper.is_to_speak_again(member, self.now) {
            self.is_heard(member, said);
            assert!(!self.keeper.is_to_speak_again(member, self.now));
        }
    }

    fn is_heard(&mut self, member: Member, said: Said) {
        let state = self.keeper.state_for(member);
        let epoch = state.map_or(Epoch(0), |state| state.epoch);
        let actions = self.keeper.beat(member, epoch, said, self.now);
        self.run(actions);
    }

    /// A beat that was long under way: nobody knows whether its sender lives.
    fn late_beat(&mut self, member: Member) {
        let said = Said {
            disk: self.disks[member.index()],
            ..Said::default()
        };
        self.is_heard(member, said);
    }

    /// What the member says of its disk from its next beat on.
    fn disk(&mut self, member: Member, disk: Disk) {
        self.disks[member.index()] = disk;
    }

    fn beats(&mut self, members: &[Member]) {
        for &member in members {
            self.beat(member, false);
        }
    }

    /// Time passes while these beat.
    fn pass(&mut self, ms: u64, members: &[Member]) {
        for _ in 0..ms / 50 {
            self.now += Duration::from_millis(50);
            self.beats(members);
            let actions = self.keeper.tick(self.now);
            self.run(actions);
        }
    }
}

#[test]
fn a_dead_member_leaves_the_other_alone_at_once() {
    let mut bed = Bed::both();
    bed.told.clear();
    bed.die(ONE);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    assert_eq!(bed.told, [(ZERO, bed.keeper.state())]);
}

#[test]
fn a_member_that_may_have_died_first_is_not_left_alone() {
    let mut bed = Bed::both();
    bed.now += Duration::from_millis(40);
    bed.die(ONE);
    // The other one was heard before that: perhaps it is dead, too.
    assert_eq!(bed.keeper.state().mode, Mode::Both);
    bed.beat(ZERO, true);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn of_two_that_go_one_after_the_other_neither_is_left_alone_unheard() {
    let mut bed = Bed::both();
    // The second is cut off; the first loses its power before that is noticed, and what it had.
    bed.pass(50, &[ZERO]);
    bed.pass(700, &[]);
    assert_eq!(bed.keeper.state().mode, Mode::Both);
    let connection = bed.connection(ONE);
    let no_proof = bed.keeper.connection_lost(ONE, connection, false, bed.now);
    bed.run(no_proof);
    bed.register(ONE, "s1", true);
    bed.pass(400, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
}

#[test]
fn a_silent_member_is_waited_out() {
    let mut bed = Bed::both();
    bed.pass(300, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Both);
    bed.pass(50, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn what_comes_late_after_a_standstill_decides_nothing() {
    let mut bed = Bed::both();
    // While the service stands still the first member beats, dies and loses its disk; the other
    // gives the silent service up. Then all of it comes, the beat first.
    bed.now += Duration::from_secs(2);
    bed.keeper.stood_still(bed.now, Duration::from_millis(100));
    bed.beat(ZERO, false);
    assert_eq!(bed.mode(), Mode::Both);
    bed.die(ONE);
    assert_eq!(bed.mode(), Mode::Both);
    bed.die(ZERO);
    bed.register(ZERO, "new", false);
    bed.register(ONE, "s1", true);
    bed.told.clear();
    let at = bed.keeper.wake_at(bed.now).unwrap();
    assert!(at <= bed.now + Duration::from_millis(100));
    bed.now = at;
    let actions = bed.keeper.tick(bed.now);
    bed.run(actions);
    assert!(
        bed.told
            .iter()
            .all(|(_, state)| state.mode != Mode::Only(ZERO)),
        "{:?}",
        bed.told
    );
    assert_eq!(bed.keeper.state().mode, Mode::Recovering(ONE));
}

#[test]
fn a_cut_between_members_stops_one_before_the_other_is_alone() {
    let mut bed = Bed::both();
    bed.told.clear();
    bed.beat(ONE, true);
    // Journaled, told to the one that stops; the other still thinks BOTH.
    assert_eq!(bed.keeper.state().mode, Mode::Only(ONE));
    assert_eq!(bed.mode(), Mode::Both);
    assert_eq!(bed.told, [(ZERO, bed.keeper.state())]);
    assert_eq!(bed.keeper.state_for(ONE).unwrap().mode, Mode::Both);
    bed.now += Duration::from_millis(50);
    bed.beat(ONE, true);
    assert_eq!(bed.mode(), Mode::Both);
    let epoch = bed.keeper.state().epoch;
    let actions = bed.keeper.acknowledged(ZERO, epoch, bed.now);
    bed.run(actions);
    assert_eq!(bed.mode(), Mode::Only(ONE));
    assert_eq!(bed.told.last(), Some(&(ONE, bed.keeper.state())));
    // No way back before the link stands.
    bed.beat(ONE, true);
    bed.beat(ZERO, false);
    assert_eq!(bed.mode(), Mode::Only(ONE));
    bed.beat(ONE, false);
    assert_eq!(bed.mode(), Mode::Recovering(ONE));
}

#[test]
fn who_is_to_be_alone_may_die_before_it_is_told() {
    let mut bed = Bed::both();
    bed.beat(ONE, true);
    assert_eq!(bed.keeper.state().mode, Mode::Only(ONE));
    bed.die(ONE);
    bed.beats(&[ZERO]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn a_member_returns_is_filled_and_serves() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(!bed.keeper.state().fill_all);
    let epoch = bed.keeper.state().epoch;
    let actions = bed.keeper.recovered(ZERO, epoch, bed.now);
    bed.run(actions);
    assert_eq!(bed.mode(), Mode::Both);
}

#[test]
fn an_old_word_of_recovery_is_ignored() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.register(ONE, "s1", false);
    let epoch = bed.keeper.state().epoch;
    bed.die(ONE);
    bed.register(ONE, "s1", false);
    let actions = bed.keeper.recovered(ZERO, epoch, bed.now);
    bed.run(actions);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
}

#[test]
fn another_store_is_filled_with_everything_until_it_is_equal() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.register(ONE, "new", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(bed.keeper.state().fill_all);
    bed.die(ONE);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    bed.register(ONE, "new", false);
    assert!(bed.keeper.state().fill_all);
    let epoch = bed.keeper.state().epoch;
    let actions = bed.keeper.recovered(ZERO, epoch, bed.now);
    bed.run(actions);
    assert!(!bed.keeper.state().fill_all);
    assert_eq!(bed.keeper.state().stores[1], Some(store("new")));
}

#[test]
fn the_last_server_alone_can_bring_a_pair_back() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.beats(&[ZERO]);
    bed.die(ZERO);
    assert_eq!(bed.mode(), Mode::Down(ZERO));
    bed.register(ONE, "s1", false);
    bed.pass(20_000, &[ONE]);
    assert_eq!(bed.mode(), Mode::Down(ZERO));
    let wiped = bed.register(ZERO, "wiped", false);
    bed.pass(1000, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Down(ZERO));
    let actions = bed.keeper.connection_lost(ZERO, wiped, true, bed.now);
    bed.run(actions);
    bed.register(ZERO, "s0", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
}

#[test]
fn the_serving_member_and_the_filled_one_may_both_go() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    bed.die(ZERO);
    assert_eq!(bed.mode(), Mode::Down(ZERO));
    bed.die(ONE);
    bed.register(ZERO, "s0", false);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn two_that_restart_compare_before_they_serve() {
    let state = Bed::both().keeper.state();
    let mut bed = Bed::new(state);
    bed.register(ZERO, "s0", false);
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    // The one that never stopped is the one that serves.
    let mut bed = Bed::new(state);
    bed.register(ZERO, "s0", false);
    bed.register(ONE, "s1", true);
    assert_eq!(bed.mode(), Mode::Recovering(ONE));
}

#[test]
fn one_that_restarted_has_no_part_in_an_epoch_from_before() {
    let both = Bed::both().keeper.state();
    let mut bed = Bed::new(both);
    bed.register(ONE, "s1", false);
    bed.beats(&[ONE]);
    let connection = bed.connection(ONE);
    assert!(bed.keeper.is_welcomed(ONE, connection) && bed.told.is_empty());
    assert_eq!(bed.keeper.published(), both, "for all others it stands");
    // The other one comes: what may differ is compared.
    let mut bed = Bed::new(both);
    bed.register(ONE, "s1", false);
    bed.register(ZERO, "s0", true);
    bed.pass(400, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert_eq!(bed.keeper.state_for(ONE), Some(bed.keeper.state()));
}

#[test]
fn two_that_only_lost_their_connection_go_on() {
    let state = Bed::both().keeper.state();
    let mut bed = Bed::new(state);
    bed.register(ZERO, "s0", true);
    bed.register(ONE, "s1", true);
    bed.pass(1000, &[ZERO, ONE]);
    assert_eq!(bed.keeper.state(), state);
}

#[test]
fn one_of_two_that_restart_waits_for_the_other() {
    let state = Bed::both().keeper.state();
    let mut bed = Bed::new(state);
    bed.register(ONE, "s1", false);
    bed.pass(9_950, &[ONE]);
    assert_eq!(bed.mode(), Mode::Both);
    bed.pass(100, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
}

#[test]
fn a_new_reign_waits_out_the_rights_of_the_old_one() {
    // ONLY(0) was journaled; whether member 1 knows that it no longer serves is not known.
    let mut state = Bed::both().keeper.state();
    state.mode = Mode::Only(ZERO);
    let mut bed = Bed::new(state);
    bed.register(ZERO, "s0", true);
    assert!(bed.told.is_empty());
    bed.pass(300, &[]);
    assert!(bed.told.is_empty());
    bed.pass(50, &[]);
    assert_eq!(bed.told, [(ZERO, state)]);
    // If the other registers, it no longer serves.
    let mut bed = Bed::new(state);
    bed.register(ZERO, "s0", true);
    bed.register(ONE, "s1", true);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
}

#[test]
fn a_second_process_with_another_store_is_refused_while_the_first_lives() {
    let mut bed = Bed::both();
    bed.register(ONE, "other", false);
    assert_eq!(bed.refused, 1);
    assert_eq!(bed.mode(), Mode::Both);
    bed.pass(1000, &[ZERO]);
    bed.register(ONE, "other", false);
    assert_eq!(bed.refused, 1);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(bed.keeper.state().fill_all);
}

#[test]
fn a_quick_restart_is_noticed_though_the_old_connection_still_stands() {
    let mut bed = Bed::both();
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    // Again, while it is being filled: what it was sent before may be gone.
    let epoch = bed.keeper.state().epoch;
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert_eq!(bed.keeper.state().epoch.0, epoch.0 + 2);
}

#[test]
fn a_server_that_said_equal_and_died_leaves_a_twin_that_serves() {
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.register(ONE, "s1", false);
    bed.beat(ONE, false);
    let state = bed.keeper.state();
    assert_eq!(state.mode, Mode::Recovering(ZERO));
    // Its word arrives, the state is being journaled, it dies.
    let actions = bed.keeper.recovered(ZERO, state.epoch, bed.now);
    let connection = bed.connection(ZERO);
    assert!(
        bed.keeper
            .connection_lost(ZERO, connection, true, bed.now)
            .is_empty()
    );
    bed.run(actions);
    assert_eq!(bed.mode(), Mode::Only(ONE));
}

#[test]
fn a_new_pair_with_one_member_serves_after_a_while() {
    let mut bed = Bed::new(PairState::new(PairId(3)));
    bed.register(ZERO, "s0", false);
    bed.pass(9_950, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Both);
    bed.pass(100, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(bed.keeper.state().fill_all);
}

#[test]
fn a_pair_that_is_let_in_again_is_made_equal_first() {
    let mut bed = Bed::new(PairState {
        epoch: Epoch(7),
        ..PairState::new(PairId(3))
    });
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Both, "nobody's yet");
    bed.register(ZERO, "s0", false);
    bed.beat(ZERO, false);
    assert_eq!(
        bed.mode(),
        Mode::Both,
        "the other one may have served alone until now, and not know that the pair had gone"
    );
    bed.pass(100, &[ONE, ZERO]);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(bed.keeper.state().fill_all);
}

#[test]
fn a_pair_that_is_let_in_again_is_as_the_one_that_served_last() {
    let mut bed = Bed::new(PairState {
        epoch: Epoch(7),
        ..PairState::new(PairId(3))
    });
    bed.keeper.served_last(ONE);
    bed.register(ZERO, "s0", false);
    bed.register(ONE, "s1", false);
    bed.pass(100, &[ONE, ZERO]);
    assert_eq!(bed.mode(), Mode::Recovering(ONE));
    assert!(bed.keeper.state().fill_all);
}

#[test]
fn who_has_accused_the_other_and_been_silent_since_is_not_made_the_only_one() {
    let mut bed = Bed::both();
    bed.die(ONE);
    let state = bed.keeper.state();
    // It comes to be BOTH again, and the service starts anew.
    let mut state = PairState {
        mode: Mode::Both,
        ..state
    };
    state.epoch.0 += 1;
    let mut bed = Bed {
        keeper: begun(state),
        ..Bed::new(state)
    };
    bed.register(ZERO, "s0", true);
    bed.beat(ZERO, true);
    bed.now += Duration::from_millis(50);
    bed.register(ONE, "s1", true);
    bed.beat(ONE, false);
    assert_eq!(bed.keeper.state.mode, Mode::Only(ONE));
}

#[test]
fn who_died_while_its_registration_was_under_way_is_not_made_the_only_one() {
    let mut bed = Bed {
        keeper: begun(Bed::both().keeper.state()),
        ..Bed::new(PairState::new(PairId(0)))
    };
    bed.register(ZERO, "s0", true);
    bed.beat(ZERO, true);
    bed.now += Duration::from_millis(5);
    bed.register(ONE, "s1", true);
    assert_eq!(bed.keeper.state.mode, Mode::Both, "who of them is alive?");
    bed.now += Duration::from_millis(5);
    bed.beat(ZERO, true);
    assert_eq!(bed.keeper.state.mode, Mode::Only(ZERO));
}

#[test]
fn who_died_while_its_registration_was_under_way_is_not_left_alone() {
    let mut bed = Bed {
        keeper: begun(Bed::both().keeper.state()),
        ..Bed::new(PairState::new(PairId(0)))
    };
    // The service hears nothing of member 0, until that has no right any more.
    bed.pass(1_000, &[]);
    bed.register(ONE, "s1", true);
    bed.pass(1_000, &[]);
    assert_eq!(bed.keeper.state.mode, Mode::Both);
    bed.register(ZERO, "s0", true);
    bed.pass(1_000, &[ZERO]);
    assert_eq!(bed.keeper.state.mode, Mode::Only(ZERO));
}

#[test]
fn a_beat_that_was_long_under_way_does_not_leave_its_sender_alone() {
    let mut bed = Bed::both();
    // Member 0 is cut off, and has no right any more.
    bed.pass(300, &[ONE]);
    bed.now += Duration::from_millis(60);
    bed.late_beat(ONE);
    assert_eq!(bed.keeper.state.mode, Mode::Both);
    assert!(bed.keeper.is_to_speak_again(ONE, bed.now));
    bed.die(ONE);
    assert_eq!(bed.keeper.state.mode, Mode::Both);
    bed.pass(400, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn a_beat_that_was_long_under_way_does_not_prefer_its_sender() {
    let mut bed = Bed::both();
    bed.now += Duration::from_millis(40);
    bed.late_beat(ZERO);
    bed.now += Duration::from_millis(50);
    let accuses = Said {
        twin_lost: true,
        ..Said::default()
    };
    bed.is_heard(ZERO, accuses);
    assert_eq!(bed.keeper.state.mode, Mode::Both);
    // Said before the other one found it gone.
    bed.now += Duration::from_millis(1);
    bed.late_beat(ONE);
    assert_eq!(bed.keeper.state.mode, Mode::Both);
    bed.now += Duration::from_millis(1);
    bed.is_heard(ZERO, accuses);
    assert_eq!(bed.keeper.state.mode, Mode::Only(ZERO));
}

#[test]
fn who_dies_before_it_can_be_told_that_it_is_alone_is_not_waited_for() {
    // The last word of member 1 makes it the only one.
    let mut bed = Bed::both();
    bed.pass(300, &[ONE]);
    bed.now += Duration::from_millis(50);
    bed.late_beat(ONE);
    let state = bed.keeper.state_for(ONE).unwrap();
    let said = Said::default();
    let actions = bed.keeper.beat(ONE, state.epoch, said, bed.now);
    let [Action::Journal { state: next, .. }] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(next.mode, Mode::Only(ONE));
    bed.die(ONE);
    let actions = bed.keeper.on_journaled(next.epoch, bed.now);
    bed.run(actions);
    assert_eq!(bed.mode(), Mode::Both);
    bed.pass(1_000, &[ZERO]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn who_was_filled_and_did_not_hear_that_is_filled_again_by_the_next_reign() {
    let mut bed = Bed {
        keeper: begun(Bed::both().keeper.state()),
        ..Bed::new(PairState::new(PairId(0)))
    };
    // Its machine was started again, and it registers for the second time in this life.
    bed.forgot = [true, false];
    bed.register(ZERO, "s0", true);
    bed.register(ONE, "s1", true);
    bed.pass(1_000, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Recovering(ONE));
    let told = bed.keeper.state_for(ZERO).map(|state| state.mode);
    assert_eq!(told, Some(Mode::Recovering(ONE)));
}

#[test]
fn of_two_that_were_both_silent_the_first_to_be_heard_is_not_made_the_only_one_at_once() {
    for registers_anew in [false, true] {
        let mut bed = Bed::both();
        // The service is cut off.
        bed.pass(1_000, &[]);
        assert_eq!(bed.keeper.state.mode, Mode::Both);
        if registers_anew {
            let connection = bed.connection(ONE);
            let actions = bed.keeper.connection_lost(ONE, connection, false, bed.now);
            bed.run(actions);
            bed.register(ONE, "s1", true);
        }
        bed.pass(100, &[ONE]);
        assert_eq!(bed.keeper.state.mode, Mode::Both);
        bed.pass(500, &[ZERO, ONE]);
        assert_eq!(bed.keeper.state.mode, Mode::Both);
        // It does not wait for long.
        bed.pass(1_000, &[]);
        bed.pass(700, &[ONE]);
        assert_eq!(bed.keeper.state.mode, Mode::Only(ONE));
    }
    // Nor for one whose process has ended.
    let mut bed = Bed::both();
    bed.pass(1_000, &[]);
    bed.die(ZERO);
    bed.pass(50, &[ONE]);
    assert_eq!(bed.keeper.state.mode, Mode::Only(ONE));
}

#[test]
fn what_an_earlier_reign_left_is_told_to_nobody_before_it_is_committed() {
    let both = Bed::both().keeper.state();
    let only = PairState {
        mode: Mode::Only(ZERO),
        ..both
    };
    for state in [both, only] {
        let mut bed = Bed {
            keeper: Keeper::new(state, Terms::default(), Now::ZERO),
            ..Bed::new(state)
        };
        bed.register(ZERO, "s0", true);
        bed.register(ONE, "s1", true);
        bed.pass(1_000, &[]);
        assert_eq!((bed.told.len(), bed.published.len()), (0, 0));
        assert_eq!(bed.keeper.state, state, "nothing is decided either");
        let actions = bed.keeper.committed(bed.now);
        bed.run(actions);
        bed.pass(200, &[ZERO, ONE]);
        assert!(bed.keeper.is_welcomed(ZERO, 1) && bed.keeper.is_welcomed(ONE, 2));
    }
}

#[test]
fn whose_disk_fails_leaves_the_pair_and_comes_back_in_another_life_only() {
    for disk in [Disk::CannotWrite, Disk::CannotRead] {
        let mut bed = Bed::both();
        bed.disk(ZERO, disk);
        bed.beat(ZERO, false);
        assert_eq!(bed.keeper.state.mode, Mode::Only(ONE));
        assert_eq!(bed.mode(), Mode::Both, "the other one has not stopped yet");
        bed.beats(&[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Only(ONE));
        bed.pass(60_000, &[ZERO, ONE]);
        // A new connection, of the same life, and a new reign.
        bed.register(ZERO, "s0", true);
        bed.pass(1_000, &[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Only(ONE));
        bed.register(ZERO, "s0", false);
        assert_eq!(bed.mode(), Mode::Recovering(ONE));
        // It fails again.
        bed.disk(ZERO, disk);
        bed.pass(200, &[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Only(ONE));
        // The last one is never taken out, whatever it says of itself.
        bed.disk(ONE, disk);
        bed.pass(60_000, &[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Only(ONE));
    }
}

#[test]
fn of_two_failing_disks_the_better_one_serves() {
    let mut bed = Bed::both();
    // Both are found failing by a new reign at once.
    bed.disks = [Disk::CannotWrite; 2];
    let mut bed = Bed {
        keeper: begun(bed.keeper.state()),
        disks: bed.disks,
        ..Bed::new(bed.keeper.state())
    };
    bed.register(ZERO, "s0", true);
    bed.register(ONE, "s1", true);
    bed.pass(5_000, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Both, "what they have is read from both");
    bed.disk(ONE, Disk::CannotRead);
    bed.pass(200, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
}

#[test]
fn whose_disk_cannot_be_written_waits_for_its_twin_before_it_serves_alone() {
    for (disk, serves) in [(Disk::CannotWrite, true), (Disk::CannotRead, false)] {
        let mut bed = Bed::both();
        bed.die(ZERO);
        assert_eq!(bed.mode(), Mode::Only(ONE));
        let mut bed = Bed::both();
        bed.disk(ONE, disk);
        // It dies before anybody knows.
        let connection = bed.connection(ZERO);
        let keeper = &mut bed.keeper;
        keeper.deaf_until = bed.now + Duration::from_millis(1);
        let actions = keeper.connection_lost(ZERO, connection, true, bed.now);
        bed.run(actions);
        bed.pass(9_900, &[ONE]);
        assert_eq!(bed.mode(), Mode::Both);
        bed.pass(200, &[ONE]);
        assert_eq!(bed.mode() == Mode::Only(ONE), serves);
        // The other one has everything that anybody was told, and who cannot read does not compare.
        bed.register(ZERO, "s0", false);
        bed.pass(200, &[ZERO, ONE]);
        let mode = if serves {
            Mode::Recovering(ONE)
        } else {
            Mode::Only(ZERO)
        };
        assert_eq!(bed.mode(), mode);
    }
}

#[test]
fn an_only_copy_that_a_power_cut_may_have_thinned_is_said_to_be_one() {
    // Alone, and back.
    let mut bed = Bed::both();
    bed.die(ONE);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    assert_eq!(bed.keeper.state.forgot, Epoch(0));
    bed.die(ZERO);
    bed.register(ZERO, "s0", false);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    assert_eq!(bed.keeper.state.forgot, Epoch(0), "its machine ran on");
    bed.die(ZERO);
    bed.forgot = [true, false];
    bed.register(ZERO, "s0", false);
    let told = bed.keeper.state;
    assert_eq!(told.forgot, told.epoch);
    // It stays said, and is not said again.
    bed.forgot = [false, true];
    bed.register(ONE, "s1", false);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert_eq!(bed.keeper.state.forgot, told.epoch);

    // Its machine is started again so quickly that nobody saw it go.
    let mut bed = Bed::both();
    bed.die(ONE);
    bed.forgot = [true, false];
    bed.register(ZERO, "s0", false);
    assert_eq!(bed.mode(), Mode::Only(ZERO));
    assert_eq!(bed.keeper.state.forgot, bed.keeper.state.epoch);
}

#[test]
fn who_has_forgotten_is_filled_by_who_has_not() {
    for forgot in [[true, false], [false, true], [true, true], [false, false]] {
        let mut bed = Bed::new(Bed::both().keeper.state());
        bed.forgot = forgot;
        bed.register(ZERO, "s0", false);
        bed.register(ONE, "s1", false);
        let better = if forgot == [true, false] { ONE } else { ZERO };
        assert_eq!(bed.mode(), Mode::Recovering(better), "{forgot:?}");
        let is_said = bed.keeper.state.forgot == bed.keeper.state.epoch;
        assert_eq!(is_said, forgot == [true, true]);
    }
    // The one that has not forgotten does not come.
    let mut bed = Bed::new(Bed::both().keeper.state());
    bed.forgot = [false, true];
    bed.register(ONE, "s1", false);
    bed.pass(10_050, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
    assert_eq!(bed.keeper.state.forgot, bed.keeper.state.epoch);
}

/// Says that it was told this last.
fn word(epoch: u64, mode: Mode) -> Word {
    Word {
        epoch: Epoch(epoch),
        mode: Some(mode),
    }
}

/// The journal ends with this state of both, and may have lost what came then.
fn forced(epoch: u64) -> Bed {
    let mut bed = Bed::new(PairState {
        epoch: Epoch(epoch),
        stores: [Some(store("s0")), Some(store("s1"))],
        uncertain: true,
        ..PairState::new(PairId(0))
    });
    bed.pass(2_000, &[]);
    bed
}

#[test]
fn after_a_lost_journal_the_one_that_served_last_goes_on() {
    let mut bed = forced(5);
    bed.words = [word(6, Mode::Only(ZERO)), word(5, Mode::Both)];
    bed.register(ONE, "s1", false);
    bed.pass(60_000, &[ONE]);
    assert_eq!(bed.told, []);
    assert_eq!(bed.keeper.state_for(ONE), None);
    bed.register(ZERO, "s0", false);
    bed.pass(2_000, &[ZERO, ONE]);
    let state = bed.keeper.published();
    assert_eq!(state.mode, Mode::Recovering(ZERO));
    assert!(state.fill_all && state.epoch > Epoch(6) && !state.uncertain);
}

#[test]
fn after_a_lost_journal_who_had_to_stop_first_knows_who_served_last() {
    for comes_first in [ZERO, ONE] {
        let mut bed = forced(5);
        // The other one is to serve alone: it is told that after this one.
        bed.words = [word(6, Mode::Only(ONE)), word(5, Mode::Both)];
        bed.register(comes_first, ["s0", "s1"][comes_first.index()], true);
        bed.pass(2_000, &[comes_first]);
        let other = comes_first.twin();
        bed.register(other, ["s0", "s1"][other.index()], true);
        bed.pass(2_000, &[ZERO, ONE]);
        assert_eq!(bed.mode(), Mode::Recovering(ONE));
    }
}

#[test]
fn after_a_lost_journal_that_lost_nothing_of_the_pair_it_goes_on_as_it_was() {
    let mut bed = forced(5);
    bed.words = [word(5, Mode::Both); 2];
    bed.register(ZERO, "s0", true);
    bed.register(ONE, "s1", true);
    bed.pass(100, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Both);
    assert_eq!(bed.keeper.state.epoch, Epoch(6));
    // Those whose process started anew compare.
    let mut bed = forced(5);
    bed.words = [word(5, Mode::Both), word(4, Mode::Recovering(ZERO))];
    bed.register(ONE, "s1", false);
    bed.register(ZERO, "s0", false);
    bed.pass(2_000, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
}

#[test]
fn who_served_alone_when_it_was_told_something_last_need_not_wait_for_the_other() {
    let mut bed = forced(5);
    bed.words[1] = word(9, Mode::Only(ONE));
    bed.register(ONE, "s1", false);
    bed.pass(2_000, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
    // The other one may have been told some more.
    assert!(bed.keeper.state.epoch.0 > LOST_STATES);
}

#[test]
fn who_is_lost_for_good_is_waited_for_until_an_operator_says_so() {
    let mut bed = forced(5);
    bed.words[1] = word(5, Mode::Both);
    assert!(!bed.keeper.may_be_given_up(ZERO, bed.now));
    bed.register(ONE, "s1", false);
    bed.pass(60_000, &[ONE]);
    assert_eq!(bed.keeper.state_for(ONE), None);
    assert!(bed.keeper.awaits(ZERO) && !bed.keeper.awaits(ONE));
    assert!(bed.keeper.may_be_given_up(ZERO, bed.now));
    let actions = bed.keeper.given_up(ZERO, true, bed.now);
    bed.run(actions);
    bed.pass(20_000, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
    assert!(bed.keeper.state.epoch.0 > LOST_STATES);
    // Not the one that the other knows to have served alone.
    let mut bed = forced(5);
    bed.words[1] = word(6, Mode::Only(ZERO));
    bed.register(ONE, "s1", false);
    assert!(!bed.keeper.may_be_given_up(ZERO, bed.now));
}

#[test]
fn an_older_journal_is_noticed_by_what_a_member_knows() {
    let mut bed = forced(5);
    bed.keeper.state.uncertain = false;
    bed.words = [word(6, Mode::Only(ZERO)), word(5, Mode::Both)];
    bed.register(ONE, "s1", false);
    bed.pass(100, &[ONE]);
    bed.register(ZERO, "s0", true);
    bed.pass(2_000, &[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Recovering(ZERO));
    assert!(bed.keeper.state.fill_all);
}

#[test]
fn of_two_that_each_served_alone_neither_is_made_the_copy_of_the_other() {
    // The journal had gone back, and member 1 served alone by it before the other one was heard.
    let served = |at: u64| {
        let mut bed = forced(5);
        bed.keeper.state.uncertain = false;
        bed.keeper.may_have_lost = false;
        bed.words = [word(at, Mode::Only(ZERO)), word(5, Mode::Both)];
        bed.register(ONE, "s1", false);
        bed.pass(20_000, &[ONE]);
        assert_eq!(bed.mode(), Mode::Only(ONE));
        bed
    };
    for at in [5, 6, 7, 40] {
        let mut bed = served(at);
        // What its store notes lately tells of it, where its epoch does not.
        if at < 6 {
            bed.keeper.may_have_lost();
            bed.pass(100, &[ONE]);
        }
        bed.register(ZERO, "s0", false);
        bed.pass(2_000, &[ONE]);
        assert_eq!((bed.refused, bed.mode()), (1, Mode::Only(ONE)), "{at}");
    }
    // Where nothing is lost its store has not written down yet what came then.
    let mut bed = served(5);
    bed.register(ZERO, "s0", false);
    bed.pass(2_000, &[ZERO, ONE]);
    assert_eq!((bed.refused, bed.mode()), (0, Mode::Recovering(ONE)));
    // Of two that a reign asks that knows of neither the first is believed.
    let lost = || {
        let mut bed = forced(5);
        bed.words = [word(6, Mode::Only(ZERO)), word(9, Mode::Only(ONE))];
        bed
    };
    let mut bed = lost();
    bed.register(ZERO, "s0", false);
    bed.register(ONE, "s1", false);
    bed.pass(2_000, &[ZERO]);
    assert_eq!((bed.refused, bed.mode()), (1, Mode::Only(ZERO)));
    // Where both have come before that, none is.
    let mut bed = lost();
    bed.keeper.is_inherited = true;
    bed.register(ZERO, "s0", false);
    bed.register(ONE, "s1", false);
    let actions = bed.keeper.committed(bed.now);
    bed.run(actions);
    bed.pass(60_000, &[ZERO, ONE]);
    assert!(bed.keeper.is_uncertain());
    // The operator chooses.
    assert!(bed.keeper.may_be_given_up(ZERO, bed.now));
    let actions = bed.keeper.given_up(ZERO, true, bed.now);
    bed.run(actions);
    bed.pass(2_000, &[ONE]);
    assert_eq!(bed.mode(), Mode::Only(ONE));
}

#[test]
fn an_epoch_that_no_pair_can_have_come_to_is_refused() {
    let mut bed = Bed::both();
    bed.words[0] = word(u64::MAX, Mode::Only(ZERO));
    bed.register(ZERO, "s0", false);
    assert_eq!(bed.refused, 1);
    bed.beats(&[ZERO, ONE]);
    assert_eq!(bed.mode(), Mode::Both);
}
