//! What changes nothing: lookup, inodes, directories, extended attributes, locks.
//!
//! A read is answered when what it saw is committed. Answers grant READ leases; where another client
//! owns size and times, it is asked for them first.

use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::rc::Rc;
use weft_namespace::EXECUTE;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, SessionId, Sn, TransactionId};
use weft_wire::Rpc;
use weft_wire::proto::{
    Cred, FileKind, GetInodeReply, GetInodeRequest, GetLockReply, GetLockRequest, GetxattrReply,
    GetxattrRequest, Inode, Lease, LeaseMode, LookupReply, LookupRequest, ReaddirReply,
    ReaddirRequest,
};
use weft_wire::{Failed, proto};

/// Most entries of one answer to readdir.
const READDIR_MAX: usize = 4096;
/// Bytes after which an answer to readdir ends: far below the longest message, and few enough that
/// the answers of others are not held up.
const READDIR_BYTES: usize = 512 << 10;

/// Answers when what was seen is committed.
fn answer<R: Rpc>(meta: &Rc<Meta>, core: &mut Core, seen: Sn, reply: R::Reply, replier: Replier)
where
    R::Reply: 'static,
{
    meta.when_committed(core, seen, move |_, _, result| match result {
        Ok(()) => replier.send::<R>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// Refuses when what was seen is committed: that a name is absent can be news too.
fn refuse(meta: &Rc<Meta>, core: &mut Core, seen: Sn, failed: Failed, replier: Replier) {
    meta.when_committed(core, seen, move |_, _, result| {
        replier.fail(result.err().unwrap_or(failed));
    });
}

/// What it looks at waits for another group's transaction.
fn wait_for_end(
    meta: &Rc<Meta>,
    core: &mut Core,
    by: TransactionId,
    replier: Replier,
    again: impl FnOnce(&Rc<Meta>, &mut Core, Replier) + 'static,
) {
    let waits = (Vec::new(), 0..0);
    meta.wait_for(core, Conflict::Transaction(by), waits, replier, again);
}

/// Refuses what a session asks of an inode that is not there for it.
pub(crate) fn refuse_gone(meta: &Rc<Meta>, core: &mut Core, ino: Ino, replier: Replier) {
    let seen = core.commits.seen([ino]);
    refuse(meta, core, seen, Failed::Errno(libc::ESTALE), replier);
}

/// Who asks.
pub(crate) fn cred_of(cred: Option<Cred>) -> Cred {
    // Who does not say who he is may do what anybody may.
    cred.unwrap_or(Cred {
        uid: 65534,
        gid: 65534,
        groups: Vec::new(),
    })
}

fn ino_of(inode: &Inode) -> Ino {
    Ino(inode.attr.as_ref().map_or(0, |attr| attr.ino))
}

fn is_file(inode: &Inode) -> bool {
    inode
        .attr
        .as_ref()
        .is_some_and(|attr| attr.kind == FileKind::Regular as i32)
}

/// Other sessions own size and times of this inode: they are asked, unless they have been since `since`.
/// What they have to give back depends on what the lease is for.
fn owned_elsewhere(
    meta: &Rc<Meta>,
    core: &mut Core,
    session: SessionId,
    inode: &Inode,
    (lease, since): (LeaseMode, u64),
) -> Option<Conflict> {
    if !is_file(inode) {
        return None;
    }
    let ino = ino_of(inode);
    if let Some(kept) = core.kept_from(session, ino, lease == LeaseMode::LeaseWrite) {
        return Some(kept);
    }
    match lease {
        LeaseMode::LeaseNone => meta.hear(core, ino, session, since),
        LeaseMode::LeaseShared => meta.share(core, ino, session, since),
        LeaseMode::LeaseRead | LeaseMode::LeaseWrite => {
            meta.revoke(core, ino, session, (LeaseMode::LeaseRead, since), false)
        }
    }
}

fn grants(meta: &Rc<Meta>, core: &mut Core, session: SessionId, inos: &[Ino]) -> Vec<Lease> {
    inos.iter()
        .filter_map(|ino| meta.grant(core, *ino, session))
        .collect()
}

pub(crate) fn on_lookup(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: LookupRequest,
    replier: Replier,
) {
    let since = core.leases.next_seq();
    lookup(meta, core, connection, request, (since, replier));
}

fn lookup(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: LookupRequest,
    (since, replier): (u64, Replier),
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let parent = Ino(request.parent);
    if let Some(why) = core.look_is_not_here(parent) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            lookup(meta, core, &connection, request, (since, replier));
        };
        return meta.turn_away(core, why, replier, again);
    }
    if let Some(by) = core.state.hides_name(parent, &request.name) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            lookup(meta, core, &connection, request, (since, replier));
        };
        return wait_for_end(meta, core, by, replier, again);
    }
    if core.state.has_in_shard(parent, &request.name) {
        let seen = core.commits.seen([parent]);
        return refuse(meta, core, seen, Failed::Errno(libc::EREMCHG), replier);
    }
    let cred = cred_of(request.cred.clone());
    match core.state.lookup(&cred, parent, &request.name) {
        Err(errno) => {
            let seen = core.commits.seen([parent]);
            refuse(meta, core, seen, errno.into(), replier);
        }
        Ok(None) => {
            let seen = core.commits.seen([parent]);
            let leases = grants(meta, core, session, &[parent]);
            let reply = LookupReply {
                inode: None,
                leases,
            };
            answer::<LookupRequest>(meta, core, seen, reply, replier);
        }
        Ok(Some(inode)) => {
            let asked = (LeaseMode::LeaseNone, since);
            if let Some(conflict) = owned_elsewhere(meta, core, session, &inode, asked) {
                let connection = connection.clone();
                return meta.wait_for(
                    core,
                    conflict,
                    (Vec::new(), 0..0),
                    replier,
                    move |meta, core, replier| {
                        lookup(meta, core, &connection, request, (since, replier));
                    },
                );
            }
            let ino = ino_of(&inode);
            let seen = core.commits.seen([parent, ino]);
            let leases = grants(meta, core, session, &[parent, ino]);
            let reply = LookupReply {
                inode: Some(inode),
                leases,
            };
            answer::<LookupRequest>(meta, core, seen, reply, replier);
        }
    }
}

pub(crate) fn on_get_inode(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: GetInodeRequest,
    replier: Replier,
) {
    let since = core.leases.next_seq();
    get_inode(meta, core, connection, request, (since, replier));
}

fn get_inode(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: GetInodeRequest,
    (since, replier): (u64, Replier),
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let ino = Ino(request.ino);
    if let Some(why) = core.look_is_not_here(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            get_inode(meta, core, &connection, request, (since, replier));
        };
        return meta.turn_away(core, why, replier, again);
    }
    // First: it may be made by that, and not be here yet.
    if let Some(by) = core.state.hides_entries(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            get_inode(meta, core, &connection, request, (since, replier));
        };
        return wait_for_end(meta, core, by, replier, again);
    }
    if !core.is_there_for(ino, session) {
        return refuse_gone(meta, core, ino, replier);
    }
    let seen = core.commits.seen([ino]);
    match core.state.inode(ino) {
        Err(errno) => refuse(meta, core, seen, errno.into(), replier),
        Ok(inode) => {
            let asked = (request.lease(), since);
            if let Some(conflict) = owned_elsewhere(meta, core, session, &inode, asked) {
                let connection = connection.clone();
                return meta.wait_for(
                    core,
                    conflict,
                    (Vec::new(), 0..0),
                    replier,
                    move |meta, core, replier| {
                        get_inode(meta, core, &connection, request, (since, replier));
                    },
                );
            }
            let leases = grants(meta, core, session, &[ino]);
            let reply = GetInodeReply {
                inode: Some(inode),
                leases,
            };
            answer::<GetInodeRequest>(meta, core, seen, reply, replier);
        }
    }
}

pub(crate) fn on_readdir(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: ReaddirRequest,
    replier: Replier,
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let ino = Ino(request.ino);
    if let Some(why) = core.look_is_not_here(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_readdir(meta, core, &connection, request, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    if let Some(by) = core.state.hides_entries(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_readdir(meta, core, &connection, request, replier);
        };
        return wait_for_end(meta, core, by, replier, again);
    }
    let cred = cred_of(request.cred);
    let max = (request.max_entries as usize).clamp(1, READDIR_MAX);
    let (mut entries, mut end, parent) = match core.state.readdir(&cred, ino, request.after, max) {
        Ok(listed) => listed,
        Err(errno) => {
            let seen = core.commits.seen([ino]);
            return refuse(meta, core, seen, errno.into(), replier);
        }
    };
    let mut leases = grants(meta, core, session, &[ino]);
    // Attributes are shown to who could have looked each name up.
    let plus = request.plus && core.state.access(&cred, ino, EXECUTE).is_ok();
    let mut bytes = 0;
    let mut fits = entries.len();
    for (at, entry) in entries.iter_mut().enumerate() {
        let entry_ino = Ino(entry.ino);
        let writer = core.state.write_lease(entry_ino);
        let is_own = writer.is_none_or(|writer| writer == session);
        let is_hidden = core.state.hides_entries(entry_ino).is_some();
        if plus && is_own && !is_hidden && !core.state.is_shared(entry_ino) {
            entry.inode = core.state.inode(entry_ino).ok();
            leases.extend(meta.grant(core, entry_ino, session));
        }
        bytes += prost::Message::encoded_len(entry) + 4;
        if bytes > READDIR_BYTES && at + 1 < fits {
            fits = at + 1;
            break;
        }
    }
    if fits < entries.len() {
        entries.truncate(fits);
        end = false;
    }
    let named = entries
        .iter()
        .filter(|entry| entry.inode.is_some())
        .map(|entry| Ino(entry.ino));
    let seen = core.commits.seen(std::iter::once(ino).chain(named));
    let reply = ReaddirReply {
        entries,
        end,
        leases,
        parent: parent.0,
        next_cookie: core.state.next_cookie(ino),
        shards: core.state.shards_of(ino) as u32,
    };
    answer::<ReaddirRequest>(meta, core, seen, reply, replier);
}

pub(crate) fn on_getxattr(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: GetxattrRequest,
    replier: Replier,
) {
    if let Err(failed) = core.check(connection, request.session, request.epoch) {
        return replier.fail(failed);
    }
    let ino = Ino(request.ino);
    if let Some(why) = core.look_is_not_here(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_getxattr(meta, core, &connection, request, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    if let Some(by) = core.state.hides_inode(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_getxattr(meta, core, &connection, request, replier);
        };
        return wait_for_end(meta, core, by, replier, again);
    }
    let cred = cred_of(request.cred);
    let found = if request.name.is_empty() {
        core.state.listxattr(&cred, ino).map(|names| GetxattrReply {
            value: Default::default(),
            names: names.into_iter().map(|name| name.to_vec().into()).collect(),
        })
    } else {
        core.state
            .getxattr(&cred, ino, &request.name)
            .map(|value| GetxattrReply {
                value: value.to_vec().into(),
                names: Vec::new(),
            })
    };
    let seen = core.commits.seen([ino]);
    match found {
        Ok(reply) => answer::<GetxattrRequest>(meta, core, seen, reply, replier),
        Err(errno) => refuse(meta, core, seen, errno.into(), replier),
    }
}

pub(crate) fn on_get_lock(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: GetLockRequest,
    replier: Replier,
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let Some(lock) = request.lock else {
        return replier.fail(Failed::Refused("a question for a lock without one".into()));
    };
    let ino = Ino(request.ino);
    if let Some(why) = core.lock_is_not_here(ino) {
        let connection = connection.clone();
        let asked = GetLockRequest {
            lock: Some(lock),
            ..request
        };
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_get_lock(meta, core, &connection, asked, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    if let Some(by) = core.state.hides_inode(ino) {
        let connection = connection.clone();
        let asked = GetLockRequest {
            lock: Some(lock),
            ..request
        };
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_get_lock(meta, core, &connection, asked, replier);
        };
        return wait_for_end(meta, core, by, replier, again);
    }
    // Who waits does not ask; who waited for it has been interrupted.
    core.waits_no_more(session, ino, &lock);
    let seen = core.commits.seen([ino]);
    match core.state.get_lock(session, ino, &lock) {
        Ok(conflict) => {
            let reply: proto::GetLockReply = GetLockReply { conflict };
            answer::<GetLockRequest>(meta, core, seen, reply, replier);
        }
        Err(errno) => refuse(meta, core, seen, errno.into(), replier),
    }
}
