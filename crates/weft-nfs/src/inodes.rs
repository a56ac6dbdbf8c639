//! What is asked of inodes, and changed, for every version of NFS.

use crate::caller::{Caller, Object};
use crate::delegations::Changing;
use crate::status::Status;
use weft_client::{Attr, CreateFlags, Errno, FileKind, OpenFlags, SetAttr, Time};

/// Kinds of access, as ACCESS has them in all versions.
pub(crate) mod rights {
    pub(crate) use weft_xdr::nfs3::{
        ACCESS3_DELETE as DELETE, ACCESS3_EXECUTE as EXECUTE, ACCESS3_EXTEND as EXTEND,
        ACCESS3_LOOKUP as LOOKUP, ACCESS3_MODIFY as MODIFY, ACCESS3_READ as READ,
    };
}

/// Which of the rights somebody has. Those that mean nothing for such an inode he has not.
pub(crate) async fn allowed(caller: &Caller, object: &Object, asked: u32) -> Result<u32, Status> {
    use rights::*;
    let client = &caller.shared.client;
    let known = client.getattr(object.ino).await?;
    let changes = MODIFY | EXTEND | DELETE;
    let is_directory = known.attr.kind() == FileKind::Directory;
    let (search, wrong) = match is_directory {
        true => (LOOKUP, EXECUTE),
        // To remove a name is the directory's matter.
        false => (EXECUTE, LOOKUP | DELETE),
    };
    let mut may = asked & !wrong;
    if object.access.read_only {
        may &= !changes;
    }
    let kinds = [
        (libc::R_OK, READ),
        (libc::W_OK, changes),
        (libc::X_OK, search),
    ];
    for (mask, bits) in kinds {
        if may & bits == 0 {
            continue;
        }
        match client.access(object.cred(), object.ino, mask as u32).await {
            Ok(()) => {}
            Err(Errno(libc::EACCES | libc::EPERM | libc::EROFS)) => may &= !bits,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(may)
}

/// Sets attributes. `is_open`: who asks has it open for writing, and needs no other right to cut it.
pub(crate) async fn set(
    caller: &Caller,
    object: &Object,
    set: SetAttr,
    is_open: bool,
) -> Result<Attr, Status> {
    let client = &caller.shared.client;
    let opened = match set.size {
        Some(_) => {
            let known = client.getattr(object.ino).await?;
            // Whose file it is may cut it: his program opened it for writing, for all that anybody knows.
            let may_cut = is_open || known.attr.uid == object.cred().uid;
            match may_cut && known.attr.kind() == FileKind::Regular {
                true => Some(caller.shared.files.get(object.ino).await?),
                false => None,
            }
        }
        None => None,
    };
    let handle = opened.as_ref().map(|opened| opened.handle());
    let set = client.setattr(object.cred(), object.ino, set, handle);
    Ok(set.await?.attr)
}

/// What a name stands for is about to be changed: no client but `but` has it when this ends.
pub(crate) async fn change(
    caller: &Caller,
    dir: &Object,
    name: &[u8],
    but: Option<u64>,
) -> Result<Option<Changing>, Status> {
    // What cannot be found now the change itself will say.
    match there(caller, dir, name).await {
        Ok(Some(attr)) => Ok(Some(caller.shared.delegations.change(attr.ino, but).await?)),
        _ => Ok(None),
    }
}

/// What a name stands for. None: nothing.
pub(crate) async fn there(
    caller: &Caller,
    dir: &Object,
    name: &[u8],
) -> Result<Option<Attr>, Status> {
    let client = &caller.shared.client;
    let found = client.lookup(dir.cred(), dir.ino, name).await?;
    Ok(found.entry.map(|entry| entry.attr))
}

/// Makes a file that must not be there, and leaves it open: bytes come next.
pub(crate) async fn new_file(
    caller: &Caller,
    dir: &Object,
    name: &[u8],
    mode: u32,
) -> Result<Attr, Errno> {
    let flags = CreateFlags {
        exclusive: true,
        open: OpenFlags {
            read: true,
            write: true,
            ..OpenFlags::default()
        },
    };
    let client = &caller.shared.client;
    let made = client.create(dir.cred(), dir.ino, name, mode, flags);
    let (known, handle) = made.await?;
    drop(caller.shared.files.adopt(known.attr.ino, handle));
    Ok(known.attr)
}

/// What is to be set of something that was just made. Owner and group are left out where they are the maker's anyway.
pub(crate) fn rest_of(made: &Attr, mut set: SetAttr) -> Option<SetAttr> {
    set.uid = set.uid.filter(|uid| *uid != made.uid);
    set.gid = set.gid.filter(|gid| *gid != made.gid);
    (set != SetAttr::default()).then_some(set)
}

fn time_of(half: &[u8]) -> Time {
    let half: [u8; 4] = half.try_into().unwrap_or_default();
    Time {
        seconds: i64::from(u32::from_be_bytes(half)),
        nanos: 0,
    }
}

/// An exclusive create's verifier, as it is kept: in the times, which the client sets afterwards.
pub(crate) fn times_of(verifier: [u8; 8]) -> (Time, Time) {
    (time_of(&verifier[..4]), time_of(&verifier[4..]))
}

/// A file was made by an exclusive create of this verifier, whose answer was lost.
pub(crate) fn is_made_by(attr: &Attr, verifier: [u8; 8]) -> bool {
    let (atime, mtime) = times_of(verifier);
    attr.kind() == FileKind::Regular && (attr.atime, attr.mtime) == (Some(atime), Some(mtime))
}
