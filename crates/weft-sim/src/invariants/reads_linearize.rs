//! There is an order of all operations, each between its beginning and its end, in which a reference
//! file system answers as Weft did ([`crate::oracle`]).

use crate::oracle::history::Record;
use crate::oracle::linearize;

/// Judges a run's history, of clients that see what is below `root`. `Some` for what could not be decided: too much was unknown.
///
/// # Errors
/// The first operation that no order explains.
pub fn check(records: Vec<Record>, root: u64) -> Result<Option<String>, String> {
    match linearize::check(&linearize::prepared(records), root) {
        Ok(_) => Ok(None),
        Err(violation) if violation.is_undecided => Ok(Some(violation.text)),
        Err(violation) => Err(violation.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::history::{History, Op, Outcome, Reply};

    #[test]
    fn a_name_that_was_made_and_is_gone_is_found_out() {
        let lookup = || Op::Lookup {
            parent: 1,
            name: b"d".to_vec(),
        };
        let history = History::default();
        let missing = history.begin(1, lookup(), 10);
        history.end(missing, Outcome::Known(Reply::Absent), 20);
        assert_eq!(check(history.records(), 1), Ok(None));
        let made = Op::Mkfifo {
            parent: 1,
            name: b"d".to_vec(),
            mode: 0o600,
        };
        let made = history.begin(1, made, 30);
        history.end(made, Outcome::Known(Reply::Done), 40);
        let missing = history.begin(2, lookup(), 50);
        history.end(missing, Outcome::Known(Reply::Absent), 60);
        assert!(check(history.records(), 1).is_err());
    }
}
