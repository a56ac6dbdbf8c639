//! READDIR and READDIRPLUS.

use crate::caller::{Caller, Object};
use crate::directories::Place;
use crate::handle::FILE_HANDLE_BYTES;
use crate::io::TRANSFER_MAX;
use crate::status::Status;
use weft_client::DirEntry;
use weft_xdr::nfs3::*;

/// Bytes of the results beside the entries: attributes of the directory, verifier, the ends of lists.
const HEAD_BYTES: usize = 4 + 88 + 8 + 4 + 4;
/// Bytes of an entry without its name: that there is one, its number, the name's length, its cookie.
const ENTRY_BYTES: usize = 4 + 8 + 4 + 8;
/// What READDIRPLUS has of an entry besides: attributes and handle.
const PLUS_BYTES: usize = 4 + 84 + 4 + 4 + FILE_HANDLE_BYTES.next_multiple_of(4);
/// Cookies are the name space's own, and good for ever.
const VERIFIER: cookieverf3 = [0; 8];

/// What of a directory goes into one answer.
struct Room {
    /// Bytes of all.
    all: usize,
    /// Bytes of names, numbers and cookies.
    names: usize,
    /// What an entry takes beside its name.
    each: usize,
}

impl Room {
    fn take(&mut self, entry: &DirEntry) -> bool {
        let name = entry.name.len().next_multiple_of(4);
        let (all, names) = (self.each + name, ENTRY_BYTES + name);
        if all > self.all || names > self.names {
            return false;
        }
        self.all -= all;
        self.names -= names;
        true
    }
}

/// Entries after a cookie, as many as there is room for, and whether these are the last.
async fn entries(
    caller: &Caller,
    dir: &Object,
    cookie: u64,
    plus: bool,
    mut room: Room,
) -> Result<(Vec<DirEntry>, bool), Status> {
    let place = Place {
        ino: dir.ino,
        uid: dir.cred().uid,
        cookie,
    };
    let directories = &caller.shared.directories;
    let listed = directories.list(dir.cred(), place, plus, |entry| room.take(entry));
    let (all, end) = listed.await?;
    match all.is_empty() && !end {
        true => Err(Status(nfsstat3::NFS3ERR_TOOSMALL)),
        false => Ok((all, end)),
    }
}

/// The inode of an entry: nothing above an export is shown.
fn ino_of(dir: &Object, entry: &DirEntry) -> u64 {
    match &entry.name[..] == b".." && dir.ino == dir.root {
        true => dir.ino,
        false => entry.ino,
    }
}

pub(super) async fn readdir(caller: Caller, args: READDIR3args) -> READDIR3res {
    let dir = caller.object(&args.dir).await;
    let listed = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        let room = Room {
            all: (args.count.min(TRANSFER_MAX) as usize).saturating_sub(HEAD_BYTES),
            names: usize::MAX,
            each: ENTRY_BYTES,
        };
        let (all, eof) = entries(&caller, dir, args.cookie, false, room).await?;
        let entries = all.into_iter().map(|entry| entry3 {
            fileid: ino_of(dir, &entry),
            name: entry.name,
            cookie: entry.cookie,
        });
        Ok::<_, Status>(dirlist3 {
            entries: entries.collect(),
            eof,
        })
    };
    let listed = listed.await;
    let dir_attributes = caller.post_of(&dir).await;
    match listed {
        Ok(reply) => READDIR3res::NFS3_OK(READDIR3resok {
            dir_attributes,
            cookieverf: VERIFIER,
            reply,
        }),
        Err(Status(status)) => READDIR3res::default(status, READDIR3resfail { dir_attributes }),
    }
}

pub(super) async fn readdirplus(caller: Caller, args: READDIRPLUS3args) -> READDIRPLUS3res {
    let dir = caller.object(&args.dir).await;
    let listed = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        let room = Room {
            all: (args.maxcount.min(TRANSFER_MAX) as usize).saturating_sub(HEAD_BYTES),
            names: args.dircount as usize,
            each: ENTRY_BYTES + PLUS_BYTES,
        };
        let (all, eof) = entries(&caller, dir, args.cookie, true, room).await?;
        // What a client keeps of one unwritten it is not asked for here: attributes may be left out.
        let is_kept = |ino| caller.shared.delegations.are_kept(ino, None);
        let mut entries = Vec::with_capacity(all.len());
        for entry in all {
            // What is above a directory is not told here: it may lie in no export.
            let object = match &entry.name[..] {
                b".." => None,
                b"." => Some(dir.clone()),
                _ => caller.found_in(dir, entry.ino).await.ok(),
            };
            let known = entry.known.as_ref().filter(|known| {
                object.is_some() && known.attr.ino == entry.ino && !is_kept(known.attr.ino)
            });
            entries.push(entryplus3 {
                fileid: ino_of(dir, &entry),
                name_attributes: known.map(|known| caller.told(&known.attr)),
                name_handle: object.map(|object| caller.handle(&object, object.ino)),
                name: entry.name,
                cookie: entry.cookie,
            });
        }
        Ok::<_, Status>(dirlistplus3 { entries, eof })
    };
    let listed = listed.await;
    let dir_attributes = caller.post_of(&dir).await;
    match listed {
        Ok(reply) => READDIRPLUS3res::NFS3_OK(READDIRPLUS3resok {
            dir_attributes,
            cookieverf: VERIFIER,
            reply,
        }),
        Err(Status(status)) => {
            READDIRPLUS3res::default(status, READDIRPLUS3resfail { dir_attributes })
        }
    }
}
