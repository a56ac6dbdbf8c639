//! Unlink: takes a name away that is not a directory's.

use crate::errno::Errno;
use crate::names::Name;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) struct Plan {
    pub victim: Ino,
    cookie: u64,
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Unlink) -> Result<Plan, Errno> {
    let (parent, directory) = state.searchable(ctx.cred, Ino(op.parent))?;
    let Name::Plain(name) = Name::parse(&op.name)? else {
        return Err(Errno::EISDIR);
    };
    let (cookie, victim) = directory.find(name).ok_or(Errno::ENOENT)?;
    state.check_may_delete(ctx.cred, parent, victim, false)?;
    Ok(Plan { victim, cookie })
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Unlink, plan: Plan) -> OpReply {
    let parent = Ino(op.parent);
    state.remove_entry(parent, plan.cookie, &op.name);
    state.touch_directory(parent, ctx.now, 0);
    let is_another = op.victim.is_some_and(|told| told != plan.victim.0);
    let keep = (op.keep_open || is_another).then_some(ctx.session);
    let victim = state.drop_link(plan.victim, (ctx.now, ctx.unkept), keep);
    OpReply {
        parent: state.attr(parent),
        victim,
        ..OpReply::default()
    }
}
