//! What must hold in every run, one file each. Checked while a run goes on or at its end.

pub mod copies_equal;
