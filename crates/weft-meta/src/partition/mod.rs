//! Several groups, one name space: the actives' talk with each other (`docs/protocols/partition.md`), and
//! changes that several of them take part in (`docs/protocols/transactions.md`).
//!
//! `home.rs` is a change's way at the group of its directory, `parts.rs` what a group does of others'
//! changes, `links.rs` how they reach each other.

mod home;
mod links;
mod parts;
mod running;

pub(crate) use home::{Asked, begin, do_own, finish_decided};
pub(crate) use links::Links;
pub(crate) use parts::{ask_in_doubt, on_finish, on_outcome, on_prepare, on_walk};
pub(crate) use running::Running;
