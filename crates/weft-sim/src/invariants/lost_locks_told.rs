//! Whoever has lost a lock with its session is told so by whatever it does with the file by that handle, until it
//! closes it: it must not go on as if nobody else could have had the lock.

use crate::oracle::history::{Op, Outcome, Record, Reply};

/// Judges a run's history.
///
/// # Errors
/// The first operation that was done by a handle that had lost its lock.
pub fn check(records: &[Record]) -> Result<(), String> {
    let is_done = |record: &&Record| {
        let needs_lock = matches!(
            record.op,
            Op::Read { .. }
                | Op::Write { .. }
                | Op::Fsync { .. }
                | Op::Punch { .. }
                | Op::ZeroRange { .. }
                | Op::Extend { .. }
        );
        let is_error = matches!(record.outcome, Outcome::Known(Reply::Error(_)));
        let is_done = matches!(record.outcome, Outcome::Known(_)) && !is_error;
        record.lock_lost && needs_lock && is_done
    };
    match records.iter().find(is_done) {
        None => Ok(()),
        Some(record) => Err(format!("its handle had lost its lock: {record}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::history::History;

    #[test]
    fn a_write_after_the_lock_was_lost_is_found_out() {
        let write = || Op::Write {
            ino: 2,
            offset: 0,
            length: 10,
            append: false,
            sync: false,
        };
        let history = History::default();
        let end = |reply| {
            let number = history.begin(1, write(), 10);
            history.end(number, Outcome::Known(reply), 20);
            number
        };
        let told = end(Reply::Error(libc::EIO));
        let done = end(Reply::Done);
        history.lock_was_lost(told);
        assert_eq!(check(&history.records()), Ok(()));
        history.lock_was_lost(done);
        assert!(check(&history.records()).is_err());
    }
}
