//! The search with a clock of the test's own: whom it tries, in which order, and when.

use super::*;

const MS: u64 = 1_000_000;
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(250), Duration::from_secs(2)],
};

/// A search and the time; pauses are drawn as long as they can be.
struct Bed {
    search: Search,
    now: Mono,
    tries: Vec<String>,
}

impl Bed {
    fn new(settings: &[&str]) -> Bed {
        Bed {
            search: Search::new(strings(settings), TERMS),
            now: Mono(0),
            tries: Vec::new(),
        }
    }

    /// As [`Bed::new`], with a connection to the first that has been good for long, and is lost now.
    fn lost(settings: &[&str]) -> Bed {
        let mut bed = Bed::new(settings);
        bed.connected(settings[0], &[]);
        bed.wait(10_000);
        bed
    }

    fn wait(&mut self, ms: u64) {
        self.now.0 += ms * MS;
    }

    fn connected(&mut self, address: &str, members: &[&str]) {
        self.search.connected(address, strings(members), self.now);
    }

    fn turned_away(&mut self, from: &str, active: &str) {
        self.search.turned_away(from, active, &[], self.now);
    }

    fn step(&mut self) -> Step {
        self.search.next(self.now, 0)
    }

    /// The address that is to be tried at once.
    #[track_caller]
    fn tried(&mut self) -> String {
        match self.step() {
            Step::Try(address) => {
                self.tries.push(address.clone());
                address
            }
            wait => panic!("{wait:?} after {:?} at {:?}", self.tries, self.now),
        }
    }

    /// How long nothing is to be done, in milliseconds, rounded up.
    #[track_caller]
    fn waits_ms(&mut self) -> u64 {
        match self.step() {
            Step::Wait(until) => (until.0 - self.now.0).div_ceil(MS),
            step => panic!("{step:?} after {:?} at {:?}", self.tries, self.now),
        }
    }

    /// Goes on until a pause, while nobody answers but as `answer` says: with the hint of an address.
    /// Returns who was tried.
    fn round(&mut self, answer: impl Fn(&str) -> Option<&'static str>) -> Vec<String> {
        let mut tried = Vec::new();
        while let Step::Try(address) = self.step() {
            match answer(&address) {
                Some(active) => self.turned_away(&address, active),
                None => self.search.failed(&address),
            }
            tried.push(address);
            assert!(tried.len() < 1000, "it spins");
        }
        tried
    }

    /// When `active` serves from `from_ms` on and nobody answers before: the time at which it is found.
    fn found_at_ms(&mut self, active: &str, from_ms: u64) -> u64 {
        let began = self.now;
        loop {
            let ms = self.now.since(began).as_millis() as u64;
            match self.step() {
                Step::Try(address) if address == active && ms >= from_ms => return ms,
                Step::Try(address) => self.search.failed(&address),
                Step::Wait(until) => self.now = until,
            }
        }
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn the_last_active_is_tried_first_and_the_others_right_after() {
    let mut bed = Bed::new(&["a", "b", "c"]);
    assert_eq!(bed.round(|_| None), strings(&["a", "b", "c"]));
    bed.connected("b", &[]);
    bed.wait(10_000);
    assert_eq!(bed.round(|_| None), strings(&["b", "a", "c"]));
    assert_eq!(bed.waits_ms(), 5);
    bed.wait(4);
    assert_eq!(bed.waits_ms(), 1);
    bed.wait(1);
    assert_eq!(bed.round(|_| None), strings(&["b", "a", "c"]));
}

#[test]
fn who_is_silent_is_passed_over_but_not_given_up() {
    let mut bed = Bed::lost(&["a", "b", "c"]);
    assert_eq!(bed.tried(), "a");
    assert_eq!(bed.waits_ms(), 50);
    bed.wait(49);
    assert_eq!(bed.waits_ms(), 1);
    bed.wait(1);
    assert_eq!(bed.tried(), "b");
    bed.turned_away("b", "");
    // Its answer is no reason to wait for the silent one again.
    assert_eq!(bed.tried(), "c");
    bed.turned_away("c", "");
    // Rounds go on beside the attempt, which is not made a second time.
    let pause = bed.waits_ms();
    assert!((5..=20).contains(&pause), "{pause}");
    bed.wait(pause);
    assert_eq!(bed.round(|_| Some("")), strings(&["b", "c"]));
    bed.search.failed("a");
    let pause = bed.waits_ms();
    bed.wait(pause);
    assert_eq!(bed.round(|_| Some("")), strings(&["a", "b", "c"]));
}

#[test]
fn a_hint_at_the_silent_one_waits_for_it() {
    let mut bed = Bed::lost(&["a", "b"]);
    assert_eq!(bed.tried(), "a");
    bed.wait(50);
    assert_eq!(bed.tried(), "b");
    bed.turned_away("b", "a");
    // It is being tried: neither a second time, nor does that one hold up the next round.
    let pause = bed.waits_ms();
    bed.wait(pause);
    assert_eq!(bed.tried(), "b");
}

#[test]
fn who_is_avoided_is_not_tried_whoever_names_it() {
    let mut bed = Bed::new(&["a", "b"]);
    bed.search = Search::new(strings(&["a", "b"]), TERMS).avoiding("silent");
    for _ in 0..3 {
        for address in ["a", "b"] {
            assert_eq!(bed.tried(), address);
            let members = strings(&["a", "b", "silent"]);
            bed.search.turned_away(address, "silent", &members, bed.now);
        }
        assert!(matches!(bed.step(), Step::Wait(_)));
        bed.wait(100);
    }
}

#[test]
fn a_hint_is_tried_next() {
    let mut bed = Bed::lost(&["a", "b", "c", "d"]);
    assert_eq!(bed.tried(), "a");
    bed.search.failed("a");
    assert_eq!(bed.tried(), "b");
    bed.turned_away("b", "d");
    assert_eq!(bed.tried(), "d");
    bed.search.failed("d");
    // Who was tried for a hint is not tried again in this round.
    assert_eq!(bed.round(|_| None), strings(&["c"]));
}

#[test]
fn a_hint_may_be_an_address_that_was_not_known() {
    let mut bed = Bed::lost(&["a"]);
    bed.turned_away("a", "new");
    assert_eq!(bed.tried(), "new");
    bed.connected("new", &[]);
    assert_eq!(bed.search.addresses(), strings(&["new", "a"]));
}

#[test]
fn who_turns_away_an_established_connection_is_not_asked_again_at_once() {
    let mut bed = Bed::new(&["a", "b", "c"]);
    bed.connected("a", &[]);
    bed.wait(10_000);
    bed.turned_away("a", "c");
    assert_eq!(bed.round(|_| None), strings(&["c", "b"]));
    assert_eq!(bed.waits_ms(), 5);

    let mut bed = Bed::new(&["a", "b", "c"]);
    bed.connected("a", &[]);
    bed.wait(10_000);
    bed.turned_away("a", "");
    assert_eq!(bed.round(|_| None), strings(&["b", "c"]));
}

#[test]
fn hints_in_a_circle_end_in_a_pause() {
    let circle = |address: &str| {
        Some(match address {
            "a" => "b",
            "b" => "c",
            _ => "a",
        })
    };
    let mut bed = Bed::lost(&["a", "b", "c"]);
    for _ in 0..5 {
        let tried = bed.round(circle);
        assert!((3..=6).contains(&tried.len()), "{tried:?}");
        let pause = bed.waits_ms();
        assert!(pause >= 5);
        bed.wait(pause);
    }
    // One that calls itself the active and says that it is not is asked once.
    let mut bed = Bed::lost(&["a"]);
    assert_eq!(bed.round(|_| Some("a")), strings(&["a"]));
}

#[test]
fn hints_at_one_that_is_gone_are_followed_once() {
    // The others have not noticed yet.
    let mut bed = Bed::lost(&["a", "b", "c", "d"]);
    let believe = |address: &str| (address != "a").then_some("a");
    assert_eq!(bed.round(believe), strings(&["a", "b", "c", "d"]));
    // Who begins with another than the dead one tries that once, too.
    bed.connected("b", &[]);
    bed.wait(10_000);
    assert_eq!(bed.round(believe), strings(&["b", "a", "c", "d"]));
}

#[test]
fn hints_lead_to_the_active_though_it_was_asked_too_early() {
    let mut bed = Bed::lost(&["a", "b", "c"]);
    assert_eq!(bed.tried(), "a");
    bed.search.failed("a");
    assert_eq!(bed.tried(), "b");
    bed.turned_away("b", "");
    assert_eq!(bed.tried(), "c");
    // Meanwhile it has won.
    bed.turned_away("c", "b");
    assert_eq!(bed.tried(), "b");
}

#[test]
fn a_search_is_late_by_a_third_of_the_outage_at_most() {
    for outage in 0..2_000 {
        let found = Bed::lost(&["a", "b", "c"]).found_at_ms("b", outage);
        let late = found - outage;
        // To the millisecond, hence the one.
        let allowed = (outage / 3 + 1).clamp(5, 100);
        assert!(late <= allowed, "{outage}: {late} ms late");
    }
}

#[test]
fn pauses_grow_to_the_longest() {
    let mut bed = Bed::lost(&["a", "b"]);
    let mut pauses = Vec::new();
    for _ in 0..30 {
        assert_eq!(bed.round(|_| None).len(), 2);
        let pause = bed.waits_ms();
        pauses.push(pause);
        bed.wait(pause);
    }
    assert_eq!(pauses[..3], [5, 5, 5]);
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses[20..], [100; 10]);
    // The next outage begins anew.
    bed.connected("a", &[]);
    bed.wait(10_000);
    bed.round(|_| None);
    assert_eq!(bed.waits_ms(), 5);
}

#[test]
fn pauses_are_drawn_apart() {
    let of = |random| {
        let mut search = Search::new(strings(&["a"]), TERMS);
        search.next(Mono(0), random);
        search.failed("a");
        match search.next(Mono(0), random) {
            Step::Wait(until) => until.since(Mono(0)).as_micros(),
            step => panic!("{step:?}"),
        }
    };
    assert_eq!([of(0), of(u64::MAX / 2), of(u64::MAX)], [5000, 4375, 3750]);
}

#[test]
fn connections_that_break_one_after_the_other_are_made_ever_less_often() {
    let mut bed = Bed::lost(&["a", "b"]);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let address = match bed.step() {
            Step::Try(address) => address,
            Step::Wait(until) => {
                pauses.push(until.since(bed.now).as_millis());
                bed.now = until;
                bed.tried()
            }
        };
        bed.connected(&address, &[]);
        bed.wait(20);
    }
    // The first break is bad luck.
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100]);
    bed.wait(1_000);
    bed.tried();
}

#[test]
fn hints_do_not_lead_round_that() {
    let mut bed = Bed::lost(&["a", "b"]);
    let mut tries = 0;
    while bed.now < Mono(11_000 * MS) {
        match bed.step() {
            Step::Wait(until) => bed.now = until,
            Step::Try(address) => {
                tries += 1;
                let other = if address == "a" { "b" } else { "a" };
                bed.connected(&address, &[]);
                bed.turned_away(&address, other);
            }
        }
        assert!(tries < 30, "{tries} in {:?}", bed.now);
    }
}

#[test]
fn what_is_learned_is_tried_and_replaced() {
    let mut bed = Bed::new(&["a", "b"]);
    bed.connected("a", &["c", "a"]);
    assert_eq!(bed.search.addresses(), strings(&["a", "c", "b"]));
    bed.connected("c", &["d", "c"]);
    assert_eq!(bed.search.addresses(), strings(&["c", "d", "a", "b"]));
    // Nothing told is nothing learned.
    bed.connected("d", &[]);
    assert_eq!(bed.search.addresses(), strings(&["d", "c", "a", "b"]));
    // A member that is not the active may be behind: what it says is added.
    let said = strings(&["e", "a"]);
    bed.search.turned_away("d", "", &said, bed.now);
    let all = strings(&["d", "c", "e", "a", "b"]);
    assert_eq!(bed.search.addresses(), all);
    assert_eq!(bed.round(|_| None).len(), 4);
}

#[test]
fn addresses_of_the_settings_stay_and_the_others_are_bounded() {
    let mut bed = Bed::new(&["a", "b"]);
    let many: Vec<String> = (0..200).map(|i| format!("m{i}")).collect();
    bed.search.turned_away("a", "", &many, bed.now);
    bed.search.turned_away("a", "", &many[100..], bed.now);
    assert_eq!(bed.search.addresses().len(), 64 + 2);
    bed.search.connected("b", many.clone(), bed.now);
    let all = bed.search.addresses();
    assert_eq!(all.len(), 64 + 2);
    assert!(all.contains(&"a".to_owned()) && all[0] == "b");
    bed.search.learn(vec![String::new(), "x".repeat(256)]);
    assert_eq!(bed.search.addresses(), all);
}

#[test]
fn an_answer_is_waited_for_longer_in_each_round() {
    let mut bed = Bed::lost(&["a", "b"]);
    let mut patience = Vec::new();
    for _ in 0..5 {
        bed.round(|_| None);
        patience.push(bed.search.answer_patience().as_millis());
        let pause = bed.waits_ms();
        patience.push(bed.search.answer_patience().as_millis());
        bed.wait(pause);
    }
    assert_eq!(patience[0], 500);
    assert!(patience.is_sorted());
    assert_eq!(patience.last(), Some(&2000));
    // Who knows no other has no reason to be impatient.
    assert_eq!(
        Bed::new(&["a"]).search.answer_patience(),
        Duration::from_secs(2)
    );
    assert_eq!(
        Bed::new(&["a", "b"]).search.answer_patience(),
        Duration::from_millis(250)
    );
}
