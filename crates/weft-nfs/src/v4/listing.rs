//! READDIR.

use super::attributes::{self, Beside, bytes_max, check_told, has, needs_inode};
use super::compound::Compound;
use super::place::{Place, Subject, Way};
use super::status::{Fail, Result};
use crate::caller::Object;
use crate::directories;
use crate::io::TRANSFER_MAX;
use bytes::Bytes;
use futures_util::future::join_all;
use weft_client::{Attr, DirEntry};
use weft_xdr::nfs4::*;

/// Cookies are the name space's own, and good for ever.
const VERIFIER: verifier4 = [0; 8];
/// The cookie of `..`, which is not shown: whatever is shown comes after.
const FIRST_COOKIE: u64 = 2;
/// Bytes of the results beside the entries: verifier, the ends of lists.
const HEAD_BYTES: usize = 8 + 4 + 4;
/// Bytes of an entry without name and attributes: that there is one, its cookie, the name's length.
const ENTRY_BYTES: usize = 4 + 8 + 4;
/// Inodes that are asked for at a time, where a listing has not brought them with it.
const ASKED_AT_ONCE: usize = 32;

/// One entry: where to go on after it, its name, and what is told of it.
struct Entry {
    cookie: u64,
    name: Bytes,
    subject: std::result::Result<Subject, nfsstat4>,
}

impl Compound {
    pub(super) async fn readdir(&mut self, args: READDIR4args) -> Result<()> {
        let place = self.place()?.clone();
        check_told(&args.attr_request)?;
        if matches!(args.cookie, 1..=FIRST_COOKIE) {
            return Err(nfsstat4::NFS4ERR_BAD_COOKIE.into());
        }
        if args.cookie != 0 && args.cookieverf != VERIFIER {
            return Err(nfsstat4::NFS4ERR_NOT_SAME.into());
        }
        let beside = self.beside(&args.attr_request).await?;
        let (entries, eof) = match &place {
            Place::Object(dir) => self.entries(dir, &args).await?,
            Place::Way(way) => self.entries_on_way(way, &args).await?,
        };
        if entries.is_empty() && !eof {
            return Err(nfsstat4::NFS4ERR_TOOSMALL.into());
        }
        self.encode(&args.attr_request, &beside, entries, eof)
    }

    fn encode(
        &mut self,
        asked: &bitmap4,
        beside: &Beside,
        entries: Vec<Entry>,
        eof: bool,
    ) -> Result<()> {
        let out = &mut self.out;
        out.fixed(&VERIFIER);
        for entry in entries {
            let subject = match &entry.subject {
                Ok(subject) => subject,
                Err(status) if has(asked, FATTR4_RDATTR_ERROR) => {
                    out.bool(true);
                    out.u64(entry.cookie);
                    out.opaque(NFS4_OPAQUE_LIMIT, &entry.name);
                    attributes::encode_error(*status, out);
                    continue;
                }
                // It went between the listing and the question; or it is an export that who asks may not have.
                Err(
                    nfsstat4::NFS4ERR_STALE | nfsstat4::NFS4ERR_NOENT | nfsstat4::NFS4ERR_ACCESS,
                ) => continue,
                Err(status) => return Err((*status).into()),
            };
            out.bool(true);
            out.u64(entry.cookie);
            out.opaque(NFS4_OPAQUE_LIMIT, &entry.name);
            attributes::encode(asked, subject, beside, out);
        }
        out.bool(false);
        out.bool(eof);
        Ok(())
    }

    /// Entries of a directory, as many as there is room for, and whether these are the last.
    async fn entries(&self, dir: &Object, args: &READDIR4args) -> Result<(Vec<Entry>, bool)> {
        let mut room = (args.maxcount.min(TRANSFER_MAX) as usize).saturating_sub(HEAD_BYTES);
        let each = ENTRY_BYTES + bytes_max(&args.attr_request);
        let fits = |entry: &DirEntry| {
            if entry.cookie <= FIRST_COOKIE {
                return true;
            }
            let bytes = each + entry.name.len().next_multiple_of(4);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let at = directories::Place {
            ino: dir.ino,
            uid: dir.cred().uid,
            cookie: args.cookie,
        };
        let directories = &self.caller.shared.directories;
        let plus = needs_inode(&args.attr_request);
        let (listed, eof) = directories.list(dir.cred(), at, plus, fits).await?;
        let shown: Vec<DirEntry> = listed
            .into_iter()
            .filter(|entry| entry.cookie > FIRST_COOKIE)
            .collect();
        let mut entries = Vec::with_capacity(shown.len());
        for some in shown.chunks(ASKED_AT_ONCE) {
            entries.extend(join_all(some.iter().map(|entry| self.entry(dir, entry, plus))).await);
        }
        Ok((entries, eof))
    }

    async fn entry(&self, dir: &Object, entry: &DirEntry, plus: bool) -> Entry {
        let attr = match &entry.known {
            Some(known) if plus => self.caller.attr_now(known.attr).await,
            Some(known) => Ok(known.attr),
            // Nobody asks for more than the number.
            None if !plus => Ok(Attr {
                ino: entry.ino,
                kind: entry.kind as i32,
                ..Attr::default()
            }),
            None => self.caller.attr(entry.ino).await,
        };
        let object = self.caller.found_in(dir, entry.ino).await;
        let subject = object.and_then(|object| Ok(self.caller.subject(&object, attr?)));
        Entry {
            cookie: entry.cookie,
            name: entry.name.clone(),
            subject: subject.map_err(|status| Fail::from(status).status()),
        }
    }

    /// What is on the way to exports; cookies are places among the names.
    async fn entries_on_way(&self, way: &Way, args: &READDIR4args) -> Result<(Vec<Entry>, bool)> {
        let below = self.caller.entries_of(way).await?;
        let mut room = (args.maxcount.min(TRANSFER_MAX) as usize).saturating_sub(HEAD_BYTES);
        let each = ENTRY_BYTES + bytes_max(&args.attr_request);
        let mut entries = Vec::new();
        let after = below.into_iter().zip(FIRST_COOKIE + 1..);
        for ((name, place), cookie) in after.filter(|(_, cookie)| *cookie > args.cookie) {
            let bytes = each + name.len().next_multiple_of(4);
            if bytes > room {
                return Ok((entries, false));
            }
            room -= bytes;
            let subject = self.caller.subject_at(&place).await;
            entries.push(Entry {
                cookie,
                name,
                subject: subject.map_err(|fail| fail.status()),
            });
        }
        Ok((entries, true))
    }
}
