//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod exploration;
mod patience;
mod rules;
