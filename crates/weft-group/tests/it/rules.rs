//! Rules that an exploration with coarse steps of time, and orders close to the usual one, meets too
//! seldom: promises, to the millisecond, and what is late from a disk.

use std::time::Duration;
use weft_group::{Engine, Input, MemberId, Message, Now, Output, Part, Record, Shape, Terms};
use weft_types::{Epoch, Sn};

const A: MemberId = MemberId(0);
const B: MemberId = MemberId(1);
const C: MemberId = MemberId(2);

const LEASE: Duration = Duration::from_millis(200);
const TERMS: Terms = Terms {
    beat: Duration::from_millis(50),
    patience: Duration::from_millis(300),
    patience_max: Duration::from_millis(300),
    lease: LEASE,
    lease_before: LEASE,
    asking: Duration::from_millis(20),
    drop_after: Duration::from_millis(700),
    gap_max: 8,
    window: 4,
};

const fn ms(ms: u64) -> Now {
    Duration::from_millis(ms)
}

/// The first reign is A's, and all count.
fn record() -> Record {
    Record {
        epoch: Epoch(1),
        active: A,
        voters: [A, B, C].into(),
        juniors: [].into(),
    }
}

fn started(me: MemberId, now: Now) -> Engine {
    Engine::new(me, TERMS, record(), (Shape::default(), true), now)
}

/// The message to a member among what is to be done.
fn told(outputs: &[Output], to: MemberId) -> Vec<&Message> {
    let sent = outputs.iter().filter_map(|output| match output {
        Output::Send(member, message) if *member == to => Some(message),
        _ => None,
    });
    sent.collect()
}

/// The coordinator says whose reign this is.
fn reign(engine: &mut Engine, now: Now, active: MemberId, epoch: u64) {
    let record = Record {
        epoch: Epoch(epoch),
        active,
        ..record()
    };
    engine.on(now, Input::Record(record));
}

/// For how long it says that it has promised others to follow nobody else, when that one has the epoch.
fn promised(engine: &mut Engine, now: Now, candidate: MemberId, epoch: u64) -> Duration {
    reign(engine, now, candidate, epoch);
    let epoch = Epoch(epoch);
    let outputs = engine.on(now, Input::Message(candidate, Message::Collect { epoch }));
    let found = told(&outputs, candidate)
        .into_iter()
        .find_map(|message| match message {
            Message::Collected { promised, .. } => Some(*promised),
            _ => None,
        });
    found.unwrap()
}

fn beat(engine: &mut Engine, now: Now, from: MemberId, epoch: u64) {
    let beat = Message::Beat {
        epoch: Epoch(epoch),
        at: now,
        committed: Sn(0),
        late: ms(0),
        lease: LEASE,
    };
    engine.on(now, Input::Message(from, beat));
}

/// B, long after its start, with connections to the others; A has told at `heard` that it lives.
fn follower(heard: Now) -> Engine {
    let mut engine = started(B, Now::ZERO);
    for other in [A, C] {
        engine.on(heard, Input::Connected(other));
    }
    beat(&mut engine, heard, A, 1);
    engine
}

/// B, to whom the coordinator has given the second reign, and whom C has answered.
fn leader(now: Now, mut engine: Engine, promised: Duration) -> Engine {
    engine.on(now, Input::Lost(A));
    engine.on(now, Input::Record(record().claimed_by(B)));
    let collected = Message::Collected {
        epoch: Epoch(2),
        shape: Shape::default(),
        durable: Sn(0),
        promised,
        is_intact: true,
    };
    let outputs = engine.on(now, Input::Message(C, collected));
    assert!(
        outputs.contains(&Output::Lead(Epoch(2), Sn(0))),
        "{outputs:?}"
    );
    engine
}

/// When the first batch of a reign is committed, which both have on their disks at once.
fn commits_at(engine: &mut Engine, begin: Now) -> Now {
    engine.on(begin, Input::Propose);
    let durable = Message::Appended {
        epoch: Epoch(2),
        durable: Sn(1),
    };
    let mut outputs = engine.on(begin, Input::Written(1));
    outputs.extend(engine.on(begin, Input::Message(C, durable)));
    let mut now = begin;
    while !outputs.contains(&Output::Committed(Sn(1))) {
        now += ms(1);
        assert!(now < begin + ms(1_000), "never");
        assert_eq!(engine.reads_until(now), None);
        outputs = engine.on(now, Input::Tick);
    }
    now
}

#[test]
fn a_new_active_waits_for_what_others_have_promised() {
    // Its own promise is over.
    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(70));
    assert_eq!(commits_at(&mut engine, ms(1_300)), ms(1_370));
}

#[test]
fn a_new_active_waits_for_what_it_has_promised_itself() {
    let mut engine = leader(ms(1_050), follower(ms(1_000)), ms(0));
    assert_eq!(commits_at(&mut engine, ms(1_050)), ms(1_000) + LEASE);
}

#[test]
fn nobody_is_waited_for_whose_process_has_ended() {
    let mut engine = follower(ms(1_000));
    engine.on(ms(1_010), Input::ProcessEnded(A));
    let mut engine = leader(ms(1_050), engine, ms(0));
    assert_eq!(commits_at(&mut engine, ms(1_050)), ms(1_050));
}

#[test]
fn nobody_is_waited_for_whose_process_turns_out_to_have_ended() {
    // C hears of the end of A's process only after it has told B what it has promised.
    let mut told_to = follower(ms(1_000));
    assert_eq!(promised(&mut told_to, ms(1_050), C, 2), LEASE - ms(50));
    let outputs = told_to.on(ms(1_060), Input::ProcessEnded(A));
    let [Message::Collected { promised, .. }] = told(&outputs, C)[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(*promised, ms(0));

    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(170));
    let again = Message::Collected {
        epoch: Epoch(2),
        shape: Shape::default(),
        durable: Sn(0),
        promised: ms(0),
        is_intact: true,
    };
    engine.on(ms(1_310), Input::Message(C, again));
    assert_eq!(commits_at(&mut engine, ms(1_320)), ms(1_320));
}

#[test]
fn who_was_started_knows_that_it_may_have_promised_something() {
    let mut engine = started(B, ms(500));
    engine.on(ms(510), Input::Connected(C));
    assert_eq!(promised(&mut engine, ms(520), C, 2), LEASE - ms(20));
    // A promise to whoever asks is none to others.
    let mut engine = follower(ms(1_000));
    assert_eq!(promised(&mut engine, ms(1_010), A, 1), ms(0));
    // Whose own reign was the last one has promised nobody anything since.
    let mut engine = started(A, ms(500));
    engine.on(ms(510), Input::Connected(C));
    assert_eq!(promised(&mut engine, ms(520), C, 2), ms(0));
}

#[test]
fn a_process_that_ends_returns_its_own_promise_only() {
    let mut engine = follower(ms(1_000));
    // C leads now, and A, which stands still, does not know that.
    reign(&mut engine, ms(1_050), C, 2);
    beat(&mut engine, ms(1_050), C, 2);
    engine.on(ms(1_060), Input::ProcessEnded(C));
    engine.on(ms(1_060), Input::Connected(C));
    assert_eq!(
        promised(&mut engine, ms(1_070), C, 3),
        ms(1_000) + LEASE - ms(1_070)
    );
}

#[test]
fn reads_are_answered_for_as_long_as_a_majority_has_promised() {
    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
    let begin = commits_at(&mut engine, ms(1_300));
    assert_eq!(
        engine.reads_until(begin),
        None,
        "nobody has promised anything"
    );
    let at = ms(1_310);
    let answer = Message::BeatAnswer {
        epoch: Epoch(2),
        at,
    };
    engine.on(ms(1_330), Input::Message(C, answer));
    // Less a twentieth, for clocks that differ.
    let until = at + LEASE - LEASE / 20;
    assert_eq!(engine.reads_until(ms(1_330)), Some(until));
    assert_eq!(engine.reads_until(until), None);
    // Another one's word that there is a later reign is a reason to look; that the coordinator says so ends it at once.
    let newer = Message::Newer { epoch: Epoch(3) };
    let outputs = engine.on(ms(1_340), Input::Message(C, newer));
    assert_eq!(outputs, [Output::Look]);
    assert_eq!(engine.reads_until(ms(1_340)), Some(until));
    let later = record().claimed_by(B).claimed_by(C);
    let outputs = engine.on(ms(1_340), Input::Record(later));
    assert!(outputs.contains(&Output::StepDown), "{outputs:?}");
    assert_eq!(engine.reads_until(ms(1_340)), None);
    assert_eq!(*engine.part(), Part::Follower);
}

#[test]
fn who_is_forced_to_lead_counts_alone() {
    let mut engine = started(B, ms(500));
    let outputs = engine.on(ms(1_000), Input::Force);
    let Some(Output::Change { to, .. }) = outputs.first() else {
        panic!("{outputs:?}");
    };
    assert_eq!((to.epoch, to.active), (Epoch(2), B));
    assert_eq!(to.voters, [B].into());
    assert_eq!(to.juniors, [A, C].into());
    let outputs = engine.on(ms(1_010), Input::ChangeEnded(to.clone()));
    assert!(
        outputs.contains(&Output::Lead(Epoch(2), Sn(0))),
        "{outputs:?}"
    );
}

#[test]
fn a_candidate_without_a_quorum_can_be_forced() {
    let mut engine = follower(ms(1_000));
    engine.on(ms(1_300), Input::Record(record().claimed_by(B)));
    assert!(matches!(engine.part(), Part::Candidate(_)));
    let outputs = engine.on(ms(1_400), Input::Force);
    let (_, to) = asked(&outputs).expect("it asks");
    assert_eq!((to.epoch, &to.voters), (Epoch(3), &[B].into()));
    let to = to.clone();
    let outputs = engine.on(ms(1_410), Input::ChangeEnded(to));
    assert!(
        outputs.contains(&Output::Lead(Epoch(3), Sn(0))),
        "{outputs:?}"
    );
    // Told again: it leads.
    let outputs = engine.on(ms(1_420), Input::Force);
    assert_eq!(asked(&outputs), None);
}

#[test]
fn members_come_and_go() {
    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
    let begin = commits_at(&mut engine, ms(1_300));
    let d = MemberId(3);
    let outputs = engine.on(begin, Input::Admit(d));
    let Some(Output::Change { to, .. }) = outputs.first() else {
        panic!("{outputs:?}");
    };
    assert!(to.juniors.contains(&d) && to.voters == [A, B, C].into());
    engine.on(begin, Input::ChangeEnded(to.clone()));
    let outputs = engine.on(begin, Input::Dismiss(A));
    let Some(Output::Change { to, .. }) = outputs.first() else {
        panic!("{outputs:?}");
    };
    assert_eq!(to.voters, [B, C].into());
    assert!(!to.juniors.contains(&A));
    engine.on(begin, Input::ChangeEnded(to.clone()));
    // Under the same number another one may come.
    let outputs = engine.on(begin, Input::Admit(A));
    let Some(Output::Change { to, .. }) = outputs.first() else {
        panic!("{outputs:?}");
    };
    assert!(to.juniors.contains(&A));
    let outputs = engine.on(begin, Input::ChangeEnded(to.clone()));
    let again = asked(&outputs);
    assert!(again.is_none(), "it is to stay: {again:?}");
}

#[test]
fn neither_the_active_nor_the_last_that_counts_is_dismissed() {
    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
    let begin = commits_at(&mut engine, ms(1_300));
    let outputs = engine.on(begin, Input::Dismiss(B));
    assert_eq!(asked(&outputs), None);
    let alone = Record {
        epoch: Epoch(2),
        active: B,
        voters: [C].into(),
        juniors: [B].into(),
    };
    engine.on(begin, Input::Record(alone));
    let outputs = engine.on(begin, Input::Dismiss(C));
    assert!(
        asked(&outputs).is_none_or(|(_, to)| !to.voters.is_empty()),
        "{outputs:?}"
    );
}

#[test]
fn what_is_committed_is_not_discarded_whoever_says_so() {
    let mut engine = follower(ms(1_000));
    let append = |epoch: u64, last: u64, committed: u64| {
        let mut batches = Shape::default();
        batches.extend(Epoch(epoch), Sn(last));
        Message::Append {
            epoch: Epoch(epoch),
            batches,
            committed: Sn(committed),
        }
    };
    let outputs = engine.on(ms(1_010), Input::Message(A, append(1, 3, 2)));
    assert!(outputs.contains(&Output::Committed(Sn(2))), "{outputs:?}");
    let before = engine.shape().clone();
    reign(&mut engine, ms(1_020), C, 2);
    // A journal that differs from the first batch on.
    let outputs = engine.on(ms(1_020), Input::Message(C, append(2, 5, 5)));
    assert_eq!(*engine.shape(), before);
    assert!(
        matches!(told(&outputs, C)[..], [Message::Collected { .. }]),
        "{outputs:?}"
    );
    // It was forced to lead: or it could not be.
    assert!(
        outputs.contains(&Output::Contradicted(Sn(0))),
        "{outputs:?}"
    );
}

#[test]
fn what_was_written_and_discarded_is_not_on_the_disk() {
    let mut engine = follower(ms(1_000));
    let append = |epoch: u64| {
        let mut batches = Shape::default();
        batches.extend(Epoch(epoch), Sn(3));
        Message::Append {
            epoch: Epoch(epoch),
            batches,
            committed: Sn(0),
        }
    };
    engine.on(ms(1_010), Input::Message(A, append(1)));
    reign(&mut engine, ms(1_020), C, 2);
    engine.on(ms(1_020), Input::Message(C, append(2)));
    let durable = |outputs: &[Output]| match told(outputs, C)[..] {
        [Message::Appended { durable, .. }] => *durable,
        _ => panic!("{outputs:?}"),
    };
    // The first three are told late: others have their numbers by now.
    let outputs = engine.on(ms(1_030), Input::Written(1));
    assert_eq!(durable(&outputs), Sn(0));
    let outputs = engine.on(ms(1_040), Input::Written(2));
    assert_eq!(durable(&outputs), Sn(3));
}

/// What it asks of the coordinator.
fn asked(outputs: &[Output]) -> Option<(&Record, &Record)> {
    outputs.iter().find_map(|output| match output {
        Output::Change { from, to } => Some((from, to)),
        _ => None,
    })
}

#[test]
fn a_claim_that_a_change_of_who_counts_has_overtaken_is_made_again_at_once() {
    let now = ms(100);
    let mut engine = follower(now);
    engine.on(now, Input::Lost(A));
    let no = Input::Message(
        C,
        Message::HearsAnswer {
            hears: false,
            lacks: false,
        },
    );
    let outputs = engine.on(now, no.clone());
    assert_eq!(asked(&outputs), Some((&record(), &record().claimed_by(B))));
    // A's last change, of which B had not heard.
    let mut changed = record();
    changed.voters.remove(&C);
    changed.juniors.insert(C);
    let outputs = engine.on(now, Input::ChangeEnded(changed.clone()));
    assert_eq!(told(&outputs, C), [&Message::Hears]);
    let outputs = engine.on(now, no);
    assert_eq!(asked(&outputs), Some((&changed, &changed.claimed_by(B))));
    // But who has lost against another gives it time.
    let outputs = engine.on(now, Input::ChangeEnded(changed.claimed_by(C)));
    assert_eq!(outputs, []);
}

#[test]
fn what_does_not_come_in_one_message_is_fetched_in_several() {
    let now = ms(100);
    let mut engine = follower(now);
    engine.on(now, Input::Lost(A));
    engine.on(now, Input::Record(record().claimed_by(B)));
    let mut shape = Shape::default();
    shape.extend(Epoch(1), Sn(3));
    let epoch = Epoch(2);
    let collected = Message::Collected {
        epoch,
        shape: shape.clone(),
        durable: Sn(3),
        promised: Duration::ZERO,
        is_intact: true,
    };
    let fetch = |after, last| Message::Fetch {
        epoch,
        after: Sn(after),
        last: Sn(last),
    };
    let fetched = |after, last| Message::Fetched {
        epoch,
        batches: shape.slice(Sn(after), Sn(last)),
    };
    let outputs = engine.on(now, Input::Message(C, collected));
    assert_eq!(told(&outputs, C).last(), Some(&&fetch(0, 3)));
    let outputs = engine.on(now, Input::Message(C, fetched(0, 2)));
    assert_eq!(told(&outputs, C), [&fetch(2, 3)]);
    let outputs = engine.on(now, Input::Message(C, fetched(2, 3)));
    assert!(matches!(engine.part(), Part::Active(_)), "{outputs:?}");
    assert_eq!(engine.shape(), &shape);
}

#[test]
fn who_leads_already_does_not_wait_for_a_process_that_turns_out_to_have_ended() {
    let mut engine = leader(ms(1_050), follower(ms(1_000)), ms(0));
    engine.on(ms(1_060), Input::ProcessEnded(A));
    assert_eq!(commits_at(&mut engine, ms(1_070)), ms(1_070));
}

/// C, whose disk has lost what it had, in the second reign.
fn bereft() -> Engine {
    let record = record().claimed_by(B);
    let mut engine = Engine::new(C, TERMS, record, (Shape::default(), false), ms(0));
    engine.on(ms(10), Input::Connected(B));
    engine
}

/// B's batches after `from` up to `last`, each of its epoch.
fn sends(engine: &mut Engine, from: (u64, u64), epoch: u64, last: u64, committed: u64) {
    let mut batches = Shape::after(Epoch(from.0), Sn(from.1));
    batches.extend(Epoch(epoch), Sn(last));
    let append = Message::Append {
        epoch: Epoch(2),
        batches,
        committed: Sn(committed),
    };
    engine.on(ms(20), Input::Message(B, append));
}

#[test]
fn who_has_lost_its_disk_counts_again_as_soon_as_all_is_written() {
    let mut engine = bereft();
    sends(&mut engine, (0, 0), 2, 3, 3);
    assert!(!engine.is_intact(), "it is not on the disk");
    // Nothing more is sent: others have nothing to change.
    engine.on(ms(30), Input::Written(1));
    assert!(engine.is_intact());

    // That all of it was committed may be told later.
    let mut engine = bereft();
    sends(&mut engine, (0, 0), 2, 3, 0);
    engine.on(ms(30), Input::Written(1));
    assert!(!engine.is_intact());
    let beat = Message::Beat {
        epoch: Epoch(2),
        at: ms(40),
        committed: Sn(3),
        late: ms(0),
        lease: LEASE,
    };
    engine.on(ms(40), Input::Message(B, beat));
    assert!(engine.is_intact());
}

#[test]
fn who_has_lost_its_disk_does_not_count_before_the_active_knows_what_is_committed() {
    let mut engine = bereft();
    // Of four batches that the first reign has left the second active knows one to be committed. All may be,
    // the last ones with the copies that are lost.
    sends(&mut engine, (0, 0), 1, 3, 1);
    engine.on(ms(30), Input::Written(1));
    sends(&mut engine, (1, 3), 1, 4, 1);
    assert!(!engine.is_intact());
    engine.on(ms(30), Input::Written(2));
    assert!(!engine.is_intact());
    // With the first batch of its own all before are.
    sends(&mut engine, (1, 4), 2, 5, 5);
    engine.on(ms(30), Input::Written(3));
    assert!(engine.is_intact());
}

/// One that is cut off from the others, but not from the coordinator, would depose whoever leads them, again
/// and again.
#[test]
fn who_cannot_be_elected_claims_nothing() {
    let mut engine = follower(ms(1_000));
    for member in [A, C] {
        let outputs = engine.on(ms(1_010), Input::Lost(member));
        assert_eq!(asked(&outputs), None);
    }
    for now in 1_011..3_000 {
        let outputs = engine.on(ms(now), Input::Tick);
        assert_eq!(asked(&outputs), None, "at {now} ms");
    }
    // One of three that agrees is a quorum with it.
    engine.on(ms(3_000), Input::Connected(C));
    let outputs = engine.on(ms(3_030), Input::Tick);
    assert_eq!(told(&outputs, C), [&Message::Hears]);
    let answer = Message::HearsAnswer {
        hears: false,
        lacks: false,
    };
    let outputs = engine.on(ms(3_031), Input::Message(C, answer));
    assert!(asked(&outputs).is_some(), "{outputs:?}");
}

/// It would have the epoch, and wait for an election quorum for ever.
#[test]
fn nobody_claims_with_the_consent_of_a_new_directory() {
    let mut engine = follower(ms(1_000));
    engine.on(ms(1_310), Input::Tick);
    let answer = |lacks| {
        let hears = false;
        Input::Message(C, Message::HearsAnswer { hears, lacks })
    };
    let outputs = engine.on(ms(1_311), answer(true));
    assert_eq!(asked(&outputs), None);
    for now in 1_312..1_700 {
        let outputs = engine.on(ms(now), Input::Tick);
        assert_eq!(asked(&outputs), None, "at {now} ms");
        let is_asked = told(&outputs, C).contains(&&Message::Hears);
        if is_asked {
            let outputs = engine.on(ms(now), answer(true));
            assert_eq!(asked(&outputs), None, "at {now} ms");
        }
    }
    // When it has caught up, say.
    let outputs: Vec<_> = (1_700..2_500)
        .flat_map(|now| {
            let mut outputs = engine.on(ms(now), Input::Tick);
            if told(&outputs, C).contains(&&Message::Hears) {
                outputs = engine.on(ms(now), answer(false));
            }
            outputs
        })
        .collect();
    assert!(asked(&outputs).is_some());
}

/// A claim that comes to nothing is no word of the active's: who looks whether it is heard must not find so.
#[test]
fn who_claims_in_vain_has_not_heard_the_active() {
    let mut engine = follower(ms(1_000));
    engine.on(ms(1_310), Input::Tick);
    let answer = Message::HearsAnswer {
        hears: false,
        lacks: false,
    };
    // Whoever is silent is not waited for.
    let outputs = engine.on(ms(1_311), Input::Message(C, answer));
    assert!(asked(&outputs).is_some(), "{outputs:?}");
    assert!(!engine.hears(ms(1_345)));
    let mut counts = record();
    counts.voters.remove(&C);
    engine.on(ms(1_350), Input::ChangeEnded(counts));
    assert!(!engine.hears(ms(1_350)));
}

#[test]
fn an_active_that_counts_on_a_longer_promise_gets_it() {
    let mut engine = follower(ms(1_000));
    let longer = LEASE + ms(150);
    let beat = Message::Beat {
        epoch: Epoch(1),
        at: ms(1_010),
        committed: Sn(0),
        late: ms(0),
        lease: longer,
    };
    engine.on(ms(1_010), Input::Message(A, beat));
    assert_eq!(promised(&mut engine, ms(1_030), C, 2), longer - ms(20));
}

#[test]
fn what_a_member_has_not_lived_through_is_no_silence_of_the_active() {
    let looks_for_another = |stalled: Option<Duration>| {
        let mut engine = follower(ms(1_000));
        let mut outputs = Vec::new();
        if let Some(late) = stalled {
            outputs.extend(engine.on(ms(1_400), Input::Stalled(late)));
        }
        outputs.extend(engine.on(ms(1_400), Input::Tick));
        told(&outputs, C).contains(&&Message::Hears)
    };
    assert!(looks_for_another(None));
    assert!(!looks_for_another(Some(ms(350))));
}

#[test]
fn what_an_active_has_not_lived_through_is_no_silence_of_the_others() {
    let drops = |stalled: Option<Duration>| {
        let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
        commits_at(&mut engine, ms(1_300));
        let mut outputs = Vec::new();
        if let Some(late) = stalled {
            outputs.extend(engine.on(ms(2_300), Input::Stalled(late)));
        }
        outputs.extend(engine.on(ms(2_300), Input::Tick));
        asked(&outputs).is_some()
    };
    assert!(drops(None));
    assert!(!drops(Some(ms(900))));
}

#[test]
fn who_was_given_up_and_is_heard_again_is_waited_for_the_next_time() {
    let hears_later = |comes_back: bool| {
        let terms = Terms {
            patience_max: ms(1_500),
            ..TERMS
        };
        let shape = (Shape::default(), true);
        let mut engine = Engine::new(B, terms, record(), shape, Now::ZERO);
        beat(&mut engine, ms(1_000), A, 1);
        reign(&mut engine, ms(1_400), C, 2);
        if comes_back {
            engine.on(ms(1_500), Input::Message(A, Message::Hears));
        }
        reign(&mut engine, ms(3_900), A, 3);
        beat(&mut engine, ms(4_000), A, 3);
        engine.hears(ms(4_800))
    };
    assert!(!hears_later(false));
    assert!(hears_later(true));
}

// ---- what others say of themselves ----

/// Epochs that nobody will ever have.
const FAR: [u64; 2] = [1 << 60, u64::MAX];

/// What a member that had them would say.
fn in_epoch(epoch: u64) -> [Message; 6] {
    let epoch = Epoch(epoch);
    let mut batches = Shape::default();
    batches.extend(epoch, Sn(1));
    [
        Message::Newer { epoch },
        Message::Collect { epoch },
        Message::Beat {
            epoch,
            at: ms(0),
            committed: Sn(u64::MAX),
            late: ms(0),
            lease: LEASE,
        },
        Message::Append {
            epoch,
            batches,
            committed: Sn(1),
        },
        Message::Behind {
            epoch,
            base: Sn(u64::MAX),
        },
        Message::Fetch {
            epoch,
            after: Sn(0),
            last: Sn(1),
        },
    ]
}

#[test]
fn what_another_says_of_later_epochs_only_makes_a_member_look() {
    for message in FAR.into_iter().flat_map(in_epoch) {
        let mut engine = follower(ms(1_000));
        let before = engine.shape().clone();
        let outputs = engine.on(ms(1_010), Input::Message(C, message.clone()));
        assert_eq!(outputs, [Output::Look], "{message:?}");
        assert_eq!(engine.floor(), Epoch(1), "{message:?}");
        assert_eq!((engine.following(), engine.shape()), (Some(A), &before));
        // The active is followed as ever.
        let beat = Message::Beat {
            epoch: Epoch(1),
            at: ms(1_020),
            committed: Sn(0),
            late: ms(0),
            lease: LEASE,
        };
        let outputs = engine.on(ms(1_020), Input::Message(A, beat));
        assert_eq!(told(&outputs, A).len(), 1, "{message:?}: {outputs:?}");
        // And goes on when it hears that itself.
        let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
        commits_at(&mut engine, ms(1_300));
        let outputs = engine.on(ms(1_301), Input::Message(C, message.clone()));
        assert!(outputs.contains(&Output::Look), "{message:?}: {outputs:?}");
        assert!(!outputs.contains(&Output::StepDown), "{message:?}");
    }
}

/// A takeover is no longer for it: who was not heeded is met as soon as the record is there.
#[test]
fn who_collects_before_the_record_is_there_is_answered_when_it_is() {
    let mut engine = follower(ms(1_000));
    let epoch = Epoch(2);
    let outputs = engine.on(ms(1_010), Input::Message(C, Message::Collect { epoch }));
    assert_eq!(outputs, [Output::Look]);
    let outputs = engine.on(ms(1_020), Input::Record(record().claimed_by(C)));
    let [
        Message::Collected {
            epoch: Epoch(2), ..
        },
    ] = told(&outputs, C)[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(engine.following(), Some(C));
    // Not another one that said the same.
    let mut engine = follower(ms(1_000));
    engine.on(ms(1_010), Input::Message(C, Message::Collect { epoch }));
    let outputs = engine.on(ms(1_020), Input::Record(record().claimed_by(A)));
    assert_eq!(told(&outputs, C), Vec::<&Message>::new());
    assert_eq!(engine.following(), None);
}

#[test]
fn only_the_active_of_the_record_speaks_as_the_active() {
    let [_, collect, beat, append, behind, fetch] = in_epoch(1);
    let withdrawn = Message::Withdrawn { epoch: Epoch(1) };
    for message in [collect, beat, append, behind, fetch, withdrawn] {
        let mut engine = follower(ms(1_000));
        let before = engine.clone();
        let outputs = engine.on(ms(1_000), Input::Message(C, message.clone()));
        let is_refused = matches!(outputs[..], [Output::Refuse(C, _)]);
        assert!(is_refused, "{message:?}: {outputs:?}");
        assert_eq!(engine, before, "{message:?}");
    }
}

#[test]
fn numbers_beyond_what_a_member_knows_itself_are_refused() {
    let mut engine = leader(ms(1_300), follower(ms(1_000)), ms(0));
    let begin = commits_at(&mut engine, ms(1_300));
    let epoch = Epoch(2);
    let mut later = Shape::default();
    later.extend(Epoch(3), Sn(1));
    for message in [
        Message::BeatAnswer {
            epoch,
            at: begin + ms(1),
        },
        Message::BeatAnswer {
            epoch,
            at: Duration::MAX,
        },
        Message::Appended {
            epoch,
            durable: Sn(2),
        },
        Message::Appended {
            epoch,
            durable: Sn(u64::MAX),
        },
        Message::Collected {
            epoch,
            shape: later,
            durable: Sn(1),
            promised: ms(0),
            is_intact: true,
        },
    ] {
        let outputs = engine.on(begin, Input::Message(C, message.clone()));
        let is_refused = outputs
            .iter()
            .any(|output| matches!(output, Output::Refuse(C, _)));
        assert!(is_refused, "{message:?}: {outputs:?}");
        assert_eq!(engine.reads_until(begin), None, "{message:?}");
        assert_eq!(engine.committed(), Sn(1), "{message:?}");
    }
}

/// What one of more than are needed says that it has promised, or has: the others lead without it.
#[test]
fn one_that_says_too_much_of_itself_does_not_hold_up_the_others() {
    let five = [A, B, C, MemberId(3), MemberId(4)];
    let record = Record {
        voters: five.into(),
        ..record()
    };
    let shape = (Shape::default(), true);
    let mut engine = Engine::new(B, TERMS, record.clone(), shape, Now::ZERO);
    for other in five.into_iter().filter(|other| *other != B) {
        engine.on(ms(1_000), Input::Connected(other));
    }
    engine.on(ms(1_000), Input::Record(record.claimed_by(B)));
    let mut long = Shape::default();
    long.extend(Epoch(1), Sn(u64::MAX));
    let collected = |shape: &Shape, promised| Message::Collected {
        epoch: Epoch(2),
        shape: shape.clone(),
        durable: shape.last(),
        promised,
        is_intact: true,
    };
    engine.on(ms(1_000), Input::Message(A, collected(&long, ms(0))));
    // It would have the greatest journal, and sends nothing of it.
    let outputs = engine.on(
        ms(1_000),
        Input::Message(C, collected(&Shape::default(), ms(0))),
    );
    assert!(
        matches!(told(&outputs, A)[..], [Message::Fetch { .. }]),
        "{outputs:?}"
    );
    let hour = Duration::from_secs(3_600);
    engine.on(
        ms(1_000),
        Input::Message(five[3], collected(&Shape::default(), hour)),
    );
    engine.on(
        ms(1_000),
        Input::Message(five[4], collected(&Shape::default(), ms(0))),
    );
    let mut now = ms(1_000);
    while !matches!(engine.part(), Part::Active(_)) {
        now += ms(10);
        assert!(now < ms(2_000), "it waits for what it will never get");
        engine.on(now, Input::Tick);
    }
    engine.on(now, Input::Propose);
    engine.on(now, Input::Written(1));
    let durable = Message::Appended {
        epoch: Epoch(2),
        durable: Sn(1),
    };
    engine.on(now, Input::Message(C, durable.clone()));
    let outputs = engine.on(now, Input::Message(five[4], durable));
    assert!(outputs.contains(&Output::Committed(Sn(1))), "{outputs:?}");
}
