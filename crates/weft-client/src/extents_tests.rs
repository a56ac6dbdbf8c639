use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, usize),
    Remove(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..300u64, 1..60usize).prop_map(|(at, n)| Step::Insert(at, n)),
        1 => (0..300u64, 0..90u64).prop_map(|(at, n)| Step::Remove(at, at + n)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Against one byte and one round for each offset.
    #[test]
    fn as_an_array_of_bytes(steps in steps()) {
        let mut map = ExtentMap::default();
        let mut model: Vec<Option<u8>> = vec![None; 400];
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(at, n) => {
                    let content = vec![i as u8; n];
                    for b in &mut model[at as usize..at as usize + n] {
                        *b = Some(i as u8);
                    }
                    map.insert(at, content.into(), i as u64);
                }
                Step::Remove(start, end) => {
                    let mut at = start;
                    for (from, extent) in map.remove(start, end) {
                        prop_assert!(from >= at);
                        for (k, b) in extent.bytes.iter().enumerate() {
                            prop_assert_eq!(model[from as usize + k], Some(*b));
                        }
                        at = from + extent.bytes.len() as u64;
                        prop_assert!(at <= end);
                    }
                    for b in &mut model[start as usize..end as usize] {
                        *b = None;
                    }
                }
            }
            let held = model.iter().filter(|b| b.is_some()).count() as u64;
            prop_assert_eq!(map.bytes(), held);
            prop_assert_eq!(map.rounds.values().sum::<usize>(), map.len());
            let end = model.iter().rposition(Option::is_some).map_or(0, |p| p as u64 + 1);
            prop_assert_eq!(map.end(), end);
            for (start, end) in [(0, 400), (13, 77), (100, 101), (250, 390)] {
                let mut seen: Vec<Option<u8>> = vec![None; 400];
                for (from, bytes) in map.overlapping(start, end) {
                    for (k, b) in bytes.iter().enumerate() {
                        seen[from as usize + k] = Some(*b);
                    }
                }
                let (s, e) = (start as usize, end as usize);
                prop_assert_eq!(&seen[s..e], &model[s..e]);
                prop_assert!(seen[..s].iter().chain(&seen[e..]).all(Option::is_none));
                prop_assert_eq!(map.covers(start, end), model[s..e].iter().all(Option::is_some));
                prop_assert_eq!(map.touches(start, end), model[s..e].iter().any(Option::is_some));
            }
        }
    }
}

#[test]
fn bytes_that_replace_older_ones_inherit_their_round() {
    let mut map = ExtentMap::default();
    map.insert(0, vec![1; 100].into(), 3);
    map.insert(200, vec![1; 100].into(), 4);
    map.insert(50, vec![2; 100].into(), 7);
    assert_eq!(map.oldest_round(), Some(3));
    map.remove(0, 50);
    assert_eq!(map.oldest_round(), Some(3), "50..100 was owed to round 3");
    map.remove(50, 150);
    assert_eq!(map.oldest_round(), Some(4));
}

#[test]
fn tiny_steps_keep_few_buffers() {
    let mut map = ExtentMap::default();
    for i in 0..10_000u64 {
        map.insert(i * 10, vec![7; 10].into(), 0);
    }
    assert_eq!(map.bytes(), 100_000);
    assert!(map.len() < 40, "{}", map.len());
    assert!(map.covers(0, 100_000));
    // Long writes are not copied.
    let long: Bytes = vec![1; 8192].into();
    map.insert(100_000, long.clone(), 0);
    let (_, kept) = map.overlapping(100_000, 108_192).next().unwrap();
    assert_eq!(kept.as_ptr(), long.as_ptr());
}
