//! Rmdir: takes an empty directory away.

use crate::errno::Errno;
use crate::names::Name;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) struct Plan {
    pub victim: Ino,
    cookie: u64,
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Rmdir) -> Result<Plan, Errno> {
    let (parent, directory) = state.searchable(ctx.cred, Ino(op.parent))?;
    let name = match Name::parse(&op.name)? {
        Name::Plain(name) => name,
        Name::Dot => return Err(Errno::EINVAL),
        Name::DotDot => return Err(Errno::ENOTEMPTY),
    };
    let (cookie, victim) = directory.find(name).ok_or(Errno::ENOENT)?;
    state.check_may_delete(ctx.cred, parent, victim, true)?;
    state.check_goes_alone(victim)?;
    Ok(Plan { victim, cookie })
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Rmdir, plan: Plan) -> OpReply {
    let parent = Ino(op.parent);
    state.remove_entry(parent, plan.cookie, &op.name);
    state.touch_directory(parent, ctx.now, -1);
    let victim = state.drop_link(plan.victim, (ctx.now, ctx.unkept), None);
    OpReply {
        parent: state.attr(parent),
        victim,
        ..OpReply::default()
    }
}
