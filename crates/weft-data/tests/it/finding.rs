//! Data servers find the active of the metadata service.

use crate::bed::*;
use std::time::Duration;
use weft_pair::Mode;

#[test]
fn a_hint_leads_to_the_active() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (other, deposed_for) = bed.meta.listen("127.0.0.1:0").await;
        *deposed_for.borrow_mut() = Some(bed.meta_addresses[0].clone());
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        bed.meta_addresses = vec![other];
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        assert_eq!(bed.meta.turned_away.get(), 1);
    });
}

#[test]
fn members_that_point_at_each_other_and_one_that_is_silent_are_passed_over() {
    run(|env| async move {
        let mut bed = Bed::start(env.clone()).await;
        let (a, of_a) = bed.meta.listen("127.0.0.1:0").await;
        let (b, of_b) = bed.meta.listen("127.0.0.1:0").await;
        *of_a.borrow_mut() = Some(b.clone());
        *of_b.borrow_mut() = Some(a.clone());
        // Takes the connection and says nothing, as for a process that is stopped.
        let silent = env.listen("127.0.0.1:0").await.unwrap();
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        bed.meta_addresses = vec![silent.address(), a, b, bed.meta_addresses[0].clone()];
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        // Each by itself, and hints as many times as there are addresses.
        let turned_away = bed.meta.turned_away.get();
        assert!((2..=6).contains(&turned_away), "{turned_away}");
    });
}

#[test]
fn a_server_that_is_turned_away_goes_to_a_member_that_it_was_told() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (first, of_first) = bed.meta.listen("127.0.0.1:0").await;
        let (second, _) = bed.meta.listen("127.0.0.1:0").await;
        *bed.meta.members.borrow_mut() = vec![first.clone(), second];
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        // It knows of the second only by its registration.
        bed.meta_addresses = vec![first];
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        let state = bed.meta.state();
        bed.meta.members.borrow_mut().clear();
        *of_first.borrow_mut() = Some(String::new());
        while bed.meta.turned_away.get() == 0 {
            bed.env.sleep(Duration::from_millis(1)).await;
        }
        bed.env.sleep(Duration::from_millis(200)).await;
        bed.until(Mode::Both, state.epoch.0).await;
        assert_eq!(bed.meta.turned_away.get(), 1, "the beat");
    });
}
