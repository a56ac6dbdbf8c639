//! A member of a replica group, around the engine of `weft-group`: what it keeps, what it writes, whom it
//! talks to. `docs/protocols/members.md` tells how a batch and a takeover go through here.

mod batches;
mod follower;
mod gate;
mod member;
mod message;
mod orders;
mod peers;
mod place;
mod restore;
mod superblock;
pub(crate) mod view;
mod watermarks;
mod writer;

pub(crate) use member::{Ended, Member};
pub(crate) use orders::on_order;
pub(crate) use place::{check_vacant, not_founded, removed};
pub(crate) use restore::{adopt, connect, on_image};
pub(crate) use view::{addresses, another_leads, change, holder, is_partitioned, voters};
