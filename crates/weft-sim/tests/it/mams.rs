//! What standbys cost in virtual time (`weft_sim::mams`), small.

use weft_sim::mams::{Setting, measure};

fn setting(members: u32) -> Setting {
    Setting {
        members,
        creates: 20,
        ..Setting::default()
    }
}

#[test]
fn a_create_waits_for_a_flush_and_with_a_standby_for_the_way_there_and_back() {
    let alone = measure(&setting(1), 1).unwrap().rate;
    // A way there, a flush, a way back, and little else.
    assert!((1e9 / 620e3 * 0.8..1e9 / 560e3).contains(&alone), "{alone}");
    let pair = measure(&setting(2), 1).unwrap().rate;
    assert!((0.75..0.95).contains(&(pair / alone)), "{pair} of {alone}");
}

#[test]
fn a_slow_link_makes_standbys_dear_where_processors_are_not() {
    let slow = |members| {
        let setting = Setting {
            link: weft_sim::Link::of_rate(500_000),
            ..setting(members)
        };
        measure(&setting, 8).unwrap().rate
    };
    assert!(
        slow(5) < 0.9 * slow(3),
        "the active sends each entry to four instead of two"
    );
}

#[test]
fn the_same_setting_is_the_same_run() {
    let once = measure(&setting(3), 4).unwrap();
    let again = measure(&setting(3), 4).unwrap();
    assert_eq!(once.digest, again.digest);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    assert!(measure(&setting(0), 1).is_err());
    assert!(measure(&setting(1), 0).is_err());
    let setting = Setting {
        flush: 5..5,
        ..setting(1)
    };
    assert!(measure(&setting, 1).is_err());
}
