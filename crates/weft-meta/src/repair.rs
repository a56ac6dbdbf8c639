//! What a check of the whole name space has repaired (`docs/protocols/fsck.md`): looked at, cleared of leases, and
//! done in one go.

use crate::changes;
use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_namespace::Errno;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{SessionId, Sn};
use weft_wire::Failed;
use weft_wire::proto::{self, Entry, OpReply, Repair, RepairReply, RepairRequest, op::Op};

/// METHOD 150.
pub(crate) fn on_repair(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: RepairRequest,
    replier: Replier,
) {
    let Some(repair) = request.repair else {
        return replier.fail(Failed::Refused("a repair of nothing".into()));
    };
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    let since = core.leases.next_seq();
    go_on(meta, core, repair, (since, replier));
}

fn go_on(meta: &Rc<Meta>, core: &mut Core, repair: Repair, (since, replier): (u64, Replier)) {
    let is_free = !core.is_in_use(&repair);
    let checked = is_free.then_some(()).ok_or(Errno::EAGAIN);
    if let Err(errno) = checked.and_then(|()| core.state.check_repair(&repair)) {
        let reply = OpReply {
            failure_errno: errno.0 as u32,
            ..OpReply::default()
        };
        // What stands against it may not be committed yet.
        let newest = core.commits.newest();
        return respond(meta, core, reply, newest, replier);
    }
    let entry = Entry {
        cred: Some(proto::Cred::default()),
        op: Some(proto::Op {
            op: Some(Op::Repair(repair.clone())),
        }),
        ..Entry::default()
    };
    let touched = core.state.touches(&entry);
    if let Some(conflict) = changes::conflicts(meta, core, SessionId(0), &entry, &touched, since) {
        let wants = touched.iter().map(|touch| touch.ino).collect();
        return meta.wait_for(
            core,
            conflict,
            (wants, 0..0),
            replier,
            move |meta, core, replier| go_on(meta, core, repair, (since, replier)),
        );
    }
    tracing::info!(?repair, "the name space is repaired");
    let (reply, sn) = meta.apply(core, entry);
    respond(meta, core, reply, sn, replier);
}

fn respond(meta: &Rc<Meta>, core: &mut Core, reply: OpReply, sn: Sn, replier: Replier) {
    let reply = RepairReply {
        failure_errno: reply.failure_errno,
        ino: reply.attr.map_or(0, |attr| attr.ino),
    };
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<RepairRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

impl Core {
    /// A transaction of any group has locked what a repair is about, or its slot is not served here now.
    fn is_in_use(&self, repair: &Repair) -> bool {
        self.state.locks_repair(&self.running.own, repair)
            || self
                .change_is_not_here(&Op::Repair(repair.clone()), false)
                .is_some()
    }
}
