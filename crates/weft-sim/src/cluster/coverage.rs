//! What a run has reached: which operations met which faults.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

/// No fault at the time.
pub const CALM: &str = "calm";

/// Counts operations by the faults that were in force when they began or ended. Clones share it.
#[derive(Clone, Default)]
pub struct Coverage(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    active: BTreeMap<&'static str, u32>,
    counts: Table,
}

/// How often an operation met a fault.
pub type Table = BTreeMap<(&'static str, &'static str), u64>;

impl Coverage {
    /// A fault begins.
    pub fn begin(&self, fault: &'static str) {
        *self.0.borrow_mut().active.entry(fault).or_default() += 1;
    }

    /// It ends.
    pub fn end(&self, fault: &'static str) {
        let mut inner = self.0.borrow_mut();
        if let Some(count) = inner.active.get_mut(fault) {
            *count -= 1;
            if *count == 0 {
                inner.active.remove(fault);
            }
        }
    }

    /// The faults in force.
    pub fn active(&self) -> BTreeSet<&'static str> {
        self.0.borrow().active.keys().copied().collect()
    }

    /// An operation went on while these (from its beginning) and the present faults were in force.
    pub fn met(&self, operation: &'static str, before: &BTreeSet<&'static str>) {
        let mut inner = self.0.borrow_mut();
        let mut met: BTreeSet<&'static str> = inner.active.keys().copied().collect();
        met.extend(before);
        if met.is_empty() {
            met.insert(CALM);
        }
        for fault in met {
            *inner.counts.entry((operation, fault)).or_default() += 1;
        }
    }

    /// The counts.
    pub fn table(&self) -> Table {
        self.0.borrow().counts.clone()
    }
}

/// Adds the counts of another run.
pub fn add(into: &mut Table, other: &Table) {
    for (key, count) in other {
        *into.entry(*key).or_default() += count;
    }
}

/// The table as text, and the cells that are zero.
pub fn render(
    table: &Table,
    operations: &[&'static str],
    faults: &[&'static str],
) -> (String, Vec<(&'static str, &'static str)>) {
    let mut text = format!("{:12}", "");
    for fault in faults {
        let _ = write!(text, " {fault:>13}");
    }
    text.push('\n');
    let mut zeros = Vec::new();
    for operation in operations {
        let _ = write!(text, "{operation:12}");
        for fault in faults {
            let count = table.get(&(*operation, *fault)).copied().unwrap_or(0);
            if count == 0 {
                zeros.push((*operation, *fault));
            }
            let _ = write!(text, " {count:>13}");
        }
        text.push('\n');
    }
    (text, zeros)
}
