//! What clients noticed of a failure, from when their operations began and were answered.

/// An operation that succeeded: nanoseconds, on one clock for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it was asked.
    pub begun: u64,
    /// When its answer was there.
    pub ended: u64,
}

/// What was noticed after a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noticed {
    /// The longest time between an answer to any client and the next one to any client, that ended after
    /// the mark. It is the pause of a failure from the last answer that got through, also where that
    /// came after the mark.
    pub gap: u64,
    /// The longest operation of those that ended after the mark.
    pub slowest: u64,
    /// How many of them there were.
    pub operations: usize,
}

/// None: nothing ended after the mark, or nothing before it.
pub fn noticed(mut done: Vec<Done>, mark: u64) -> Option<Noticed> {
    done.sort_unstable_by_key(|one| one.ended);
    let first_after = done.partition_point(|one| one.ended <= mark);
    let after = &done[first_after..];
    // A gap begins with the answer before it.
    let with_before = &done[first_after.checked_sub(1)?..];
    let gaps = with_before.iter().zip(after);
    Some(Noticed {
        gap: gaps.map(|(one, next)| next.ended - one.ended).max()?,
        slowest: after.iter().map(|one| one.ended - one.begun).max()?,
        operations: after.len(),
    })
}

/// How long after the mark every client had made something again. `made`: of each client, when its creates
/// were answered, in order. None: one has made nothing after the mark.
pub fn all_back(made: &[Vec<u64>], mark: u64) -> Option<u64> {
    let back = made.iter().map(|ends| {
        let next = ends.get(ends.partition_point(|end| *end <= mark))?;
        Some(next - mark)
    });
    back.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(begun: u64, ended: u64) -> Done {
        Done { begun, ended }
    }

    #[test]
    fn the_gap_is_between_answers_of_any_clients() {
        // Two clients; the first waits longer, as its operation was asked earlier.
        let all = vec![
            done(0, 10),
            done(5, 12),
            done(10, 70),
            done(20, 60),
            done(70, 75),
        ];
        let noticed = noticed(all, 11).unwrap();
        assert_eq!((noticed.gap, noticed.slowest), (48, 60));
        assert_eq!(noticed.operations, 4);
    }

    #[test]
    fn answers_that_were_under_way_at_the_mark_do_not_end_the_pause() {
        // Sent by the active before it died, read after.
        let all = vec![done(0, 90), done(95, 101), done(96, 102), done(103, 160)];
        assert_eq!(noticed(all, 100).unwrap().gap, 58);
    }

    #[test]
    fn what_was_before_the_mark_does_not_count() {
        let all = vec![done(0, 10), done(10, 500), done(500, 510), done(510, 530)];
        let noticed = noticed(all, 505).unwrap();
        assert_eq!((noticed.gap, noticed.slowest), (20, 20));
        assert_eq!(noticed.operations, 2);
    }

    #[test]
    fn all_are_back_with_the_last_clients_first_create() {
        let made = [vec![10, 60, 400], vec![12, 90, 95]];
        assert_eq!(all_back(&made, 50), Some(40));
        assert_eq!(all_back(&made, 100), None);
        assert_eq!(all_back(&[], 100), None);
    }

    #[test]
    fn without_answers_on_both_sides_there_is_no_figure() {
        assert_eq!(noticed(Vec::new(), 1), None);
        assert_eq!(noticed(vec![done(0, 10)], 5), None);
        assert_eq!(noticed(vec![done(0, 10)], 15), None);
    }
}
