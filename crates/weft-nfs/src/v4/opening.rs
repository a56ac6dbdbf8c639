//! OPEN, OPEN_DOWNGRADE, CLOSE.

use super::attributes::set_of;
use super::compound::Compound;
use super::delegating::{Opened, had};
use super::names::verifier_attributes;
use super::opens::{READ, Share, WRITE};
use super::place::{Place, check_name};
use super::state::Found;
use super::stateids::{INVALID, Named, named};
use super::status::{Fail, Result};
use crate::caller::Object;
use crate::delegations::{Delegation, Kind};
use crate::inodes::{self, is_made_by, new_file, there, times_of};
use std::rc::Rc;
use weft_client::{Attr, Errno, FileKind, SetAttr, SetTime};
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// What a client may say about delegations with its access.
const WANTS: u32 = OPEN4_SHARE_ACCESS_WANT_DELEG_MASK
    | OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL
    | OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED;

/// What there is to open.
struct Opening {
    object: Object,
    /// It was made for this, and whoever made it may do with it what he likes.
    is_new: bool,
    /// It is to be cut to this.
    size: Option<u64>,
    set: bitmap4,
}

fn share_of(args: &OPEN4args) -> Result<Share> {
    let access = args.share_access & !WANTS;
    let is_one = matches!(access, 1..=3) && args.share_deny <= 3;
    match is_one {
        true => Ok(Share {
            access,
            deny: args.share_deny,
        }),
        false => Err(nfsstat4::NFS4ERR_INVAL.into()),
    }
}

impl Compound {
    /// A client that has not said that it has reclaimed what it had may not yet have anything new (RFC 8881, 18.51.3).
    pub(super) fn check_reclaimed(&self) -> Result<()> {
        let client = self.client()?;
        match self.state.clients.borrow().is_reclaimed(client) {
            true => Ok(()),
            false => Err(nfsstat4::NFS4ERR_GRACE.into()),
        }
    }

    pub(super) async fn open(&mut self, args: OPEN4args) -> Result<()> {
        let share = share_of(&args)?;
        let client = self.client()?;
        let place = self.place()?.clone();
        let (mut before, mut under, mut taken) = (0, None, None);
        let mut reclaiming = None;
        let (opening, dir) = match &args.claim {
            open_claim4::CLAIM_NULL(name)
            | open_claim4::CLAIM_DELEGATE_CUR(open_claim_delegate_cur4 { file: name, .. }) => {
                if let open_claim4::CLAIM_DELEGATE_CUR(claim) = &args.claim {
                    under = Some(self.open_under(&claim.delegate_stateid)?);
                }
                check_name(name)?;
                self.check_reclaimed()?;
                let Place::Object(dir) = &place else {
                    let below = self.caller.below(&place, name).await;
                    return Err(match (below, &args.openhow) {
                        (Ok(_), _) => nfsstat4::NFS4ERR_ISDIR.into(),
                        (Err(_), openflag4::OPEN4_CREATE(_)) => nfsstat4::NFS4ERR_ROFS.into(),
                        (Err(fail), _) => fail,
                    });
                };
                before = self.change_at(dir.ino).await;
                (self.by_name(dir, name, &args.openhow).await?, dir.ino)
            }
            open_claim4::CLAIM_FH | open_claim4::CLAIM_DELEG_CUR_FH(_) => {
                if let open_claim4::CLAIM_DELEG_CUR_FH(id) = &args.claim {
                    under = Some(self.open_under(id)?);
                }
                self.check_reclaimed()?;
                let object = self.object(nfsstat4::NFS4ERR_ISDIR)?;
                let ino = object.ino;
                let opening = Opening {
                    object,
                    is_new: false,
                    size: None,
                    set: bitmap4::new(),
                };
                match args.openhow {
                    openflag4::OPEN4_CREATE(_) => return Err(nfsstat4::NFS4ERR_INVAL.into()),
                    openflag4::default(_) => (opening, ino),
                }
            }
            open_claim4::CLAIM_PREVIOUS(_) => {
                // RFC 8881, 8.4.2.1: not once the client has said that it has reclaimed all.
                if self.check_reclaimed().is_ok() {
                    return Err(nfsstat4::NFS4ERR_NO_GRACE.into());
                }
                let object = self.object(nfsstat4::NFS4ERR_ISDIR)?;
                if had(&args.claim).is_some() {
                    let delegations = &self.caller.shared.delegations;
                    reclaiming = Some(delegations.reclaim(object.ino, client)?);
                }
                let behalf = self.state.clients.borrow().behalf(client);
                let of = (behalf, &args.owner.owner[..]);
                taken = Some(self.state.take_over(of, object.ino, share).await?);
                let ino = object.ino;
                let opening = Opening {
                    object,
                    is_new: false,
                    size: None,
                    set: bitmap4::new(),
                };
                match args.openhow {
                    openflag4::OPEN4_CREATE(_) => return Err(nfsstat4::NFS4ERR_INVAL.into()),
                    openflag4::default(_) => (opening, ino),
                }
            }
            open_claim4::CLAIM_DELEGATE_PREV(_) | open_claim4::CLAIM_DELEG_PREV_FH => {
                return Err(nfsstat4::NFS4ERR_NOTSUPP.into());
            }
        };
        let object = &opening.object;
        let reclaims = matches!(args.claim, open_claim4::CLAIM_PREVIOUS(_));
        let is_under = under.is_some();
        let shared = self.caller.shared.clone();
        if !opening.is_new {
            self.check_openable(object).await?;
            // Who has the file has opened it by himself before: whether he might was asked then.
            let may_all = |given: Rc<Delegation>| {
                given.ino == object.ino && (given.kind == Kind::Write || share.access & WRITE == 0)
            };
            match (reclaims, under.is_some_and(may_all)) {
                (true, _) => self.check_access_again(object, share).await?,
                (false, true) => {}
                (false, false) => self.check_access(object, share).await?,
            }
        }
        let using = shared.files.get(object.ino).await?;
        // From here to where the open is noted nothing else is waited for: nobody is given the file between.
        let changing = match share.access & WRITE != 0 || opening.size.is_some() {
            true => Some(shared.delegations.change(object.ino, Some(client)).await?),
            false => {
                shared.delegations.read(object.ino, Some(client)).await?;
                None
            }
        };
        shared.delegations.note_heard(object.ino, client);
        let owner = &args.owner.owner;
        let (open, novelty) = self
            .state
            .open((client, owner), share, (object.ino, using))?;
        if let Some(taken) = taken {
            taken.noted(&open, self.state.session_for(open.ino));
        }
        // Under a delegation the gateway has its lease, perhaps as long only as this open is waited for.
        let is_covered = reclaims || is_under && open.share().deny == 0 && open.kept_in.get() == 0;
        if !is_covered && let Err(status) = self.state.keep_open(&open).await {
            self.state.undo_open(&open, (share, novelty)).await?;
            return Err(status.into());
        }
        if let Some(size) = opening.size {
            let cut = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            if let Err(status) =
                inodes::set(&self.caller, object, cut, share.access & WRITE != 0).await
            {
                self.state.undo_open(&open, (share, novelty)).await?;
                return Err(status.into());
            }
        }
        drop(changing);
        let stateid = open.stateid();
        let using = shared.files.get(object.ino).await?;
        let opened = Opened {
            ino: object.ino,
            handle: self.caller.handle_of(&Place::Object(object.clone())),
            using,
            is_new: opening.is_new,
        };
        let delegation = match had(&args.claim) {
            Some(kind) => match self.delegation_again((share, kind), opened).await {
                Ok(again) => again,
                Err(fail) => {
                    self.state.undo_open(&open, (share, novelty)).await?;
                    return Err(fail);
                }
            },
            None => self.delegation((share, args.share_access), opened).await?,
        };
        // The client has what it had: others may ask it for that.
        drop(reclaiming);
        // By a change of the directory clients learn that the file is theirs.
        let mut cinfo = self.change_info(dir, before).await;
        if !opening.is_new {
            cinfo.before = cinfo.after;
        }
        OPEN4resok {
            stateid: stateid.clone(),
            cinfo,
            rflags: OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_MAY_NOTIFY_LOCK,
            attrset: opening.set,
            delegation,
        }
        .encode(&mut self.out);
        self.current = Some(Place::Object(opening.object));
        self.current_id = Some(stateid);
        Ok(())
    }

    /// Only files can be opened.
    async fn check_openable(&self, object: &Object) -> Result<()> {
        let known = self.caller.shared.client.getattr(object.ino).await?;
        match known.attr.kind() {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(nfsstat4::NFS4ERR_ISDIR.into()),
            FileKind::Symlink => Err(nfsstat4::NFS4ERR_SYMLINK.into()),
            _ => Err(nfsstat4::NFS4ERR_WRONG_TYPE.into()),
        }
    }

    /// Whether who had a file open may have it open again: whose file it is may in any case, for he had it open before
    /// he took the right from himself.
    async fn check_access_again(&self, object: &Object, share: Share) -> Result<()> {
        let known = self.caller.shared.client.getattr(object.ino).await?;
        if known.attr.uid != object.cred().uid {
            return self.check_access(object, share).await;
        }
        match share.access & WRITE {
            0 => Ok(()),
            _ => Ok(object.check_writable()?),
        }
    }

    async fn check_access(&self, object: &Object, share: Share) -> Result<()> {
        let client = &self.caller.shared.client;
        if share.access & WRITE != 0 {
            object.check_writable()?;
            let mask = libc::W_OK as u32;
            client.access(object.cred(), object.ino, mask).await?;
        }
        if share.access & READ != 0 {
            let readable = client
                .access(object.cred(), object.ino, libc::R_OK as u32)
                .await;
            // What may be run may be read, for so it is run.
            if readable.is_err() {
                let mask = libc::X_OK as u32;
                client.access(object.cred(), object.ino, mask).await?;
            }
        }
        Ok(())
    }

    async fn by_name(&self, dir: &Object, name: &[u8], how: &openflag4) -> Result<Opening> {
        let known = self.caller.shared.client.getattr(dir.ino).await?;
        match known.attr.kind() {
            FileKind::Directory => {}
            FileKind::Symlink => return Err(nfsstat4::NFS4ERR_SYMLINK.into()),
            _ => return Err(nfsstat4::NFS4ERR_NOTDIR.into()),
        }
        let openflag4::OPEN4_CREATE(how) = how else {
            return match self.caller.below(&Place::Object(dir.clone()), name).await? {
                Place::Object(object) => Ok(Opening {
                    object,
                    is_new: false,
                    size: None,
                    set: bitmap4::new(),
                }),
                Place::Way(_) => Err(nfsstat4::NFS4ERR_ISDIR.into()),
            };
        };
        dir.check_writable()?;
        match how {
            createhow4::UNCHECKED4(attributes) => self.unchecked(dir, name, attributes).await,
            createhow4::GUARDED4(attributes) => {
                let mut set = set_of(attributes)?;
                let mode = set.mode.take().unwrap_or_default();
                let made = new_file(&self.caller, dir, name, mode).await?;
                self.made(dir, &made, set, &attributes.attrmask).await
            }
            createhow4::EXCLUSIVE4(verifier) => {
                self.exclusive(dir, name, *verifier, SetAttr::default(), bitmap4::new())
                    .await
            }
            createhow4::EXCLUSIVE4_1(how) => {
                let set = set_of(&how.cva_attrs)?;
                if set.atime.is_some() || set.mtime.is_some() {
                    // The verifier is there.
                    return Err(nfsstat4::NFS4ERR_INVAL.into());
                }
                let mask = how.cva_attrs.attrmask.clone();
                self.exclusive(dir, name, how.cva_verf, set, mask).await
            }
        }
    }

    async fn unchecked(&self, dir: &Object, name: &[u8], attributes: &fattr4) -> Result<Opening> {
        let mut set = set_of(attributes)?;
        let mode = set.mode.take().unwrap_or_default();
        loop {
            // Asked first, for to make something may take more rights than to learn that it is there.
            if let Some(there) = there(&self.caller, dir, name).await? {
                // What is there is cut if that is asked for; all else stays as it is.
                let size = set.size.filter(|size| *size == 0);
                return Ok(Opening {
                    object: Object {
                        ino: there.ino,
                        ..dir.clone()
                    },
                    is_new: false,
                    size,
                    set: match size {
                        Some(_) => super::attributes::bitmap_of([FATTR4_SIZE]),
                        None => bitmap4::new(),
                    },
                });
            }
            match new_file(&self.caller, dir, name, mode).await {
                // Somebody else was faster.
                Err(Errno(libc::EEXIST)) => {}
                made => return self.made(dir, &made?, set, &attributes.attrmask).await,
            }
        }
    }

    /// A new file gets the rest of its attributes.
    async fn made(
        &self,
        dir: &Object,
        made: &Attr,
        set: SetAttr,
        mask: &bitmap4,
    ) -> Result<Opening> {
        let object = Object {
            ino: made.ino,
            ..dir.clone()
        };
        if let Some(rest) = inodes::rest_of(made, set) {
            inodes::set(&self.caller, &object, rest, true).await?;
        }
        Ok(Opening {
            object,
            is_new: true,
            size: None,
            set: mask.clone(),
        })
    }

    async fn exclusive(
        &self,
        dir: &Object,
        name: &[u8],
        verifier: verifier4,
        mut set: SetAttr,
        mask: bitmap4,
    ) -> Result<Opening> {
        let mask = super::inodes::with(&mask, &verifier_attributes());
        let mode = set.mode.take().unwrap_or_default();
        match new_file(&self.caller, dir, name, mode).await {
            Ok(made) => {
                let (atime, mtime) = times_of(verifier);
                set.atime = Some(SetTime::At(atime));
                set.mtime = Some(SetTime::At(mtime));
                self.made(dir, &made, set, &mask).await
            }
            Err(Errno(libc::EEXIST)) => {
                let there = there(&self.caller, dir, name).await?;
                // Ours, of a call whose answer was lost.
                let attr = there.filter(|attr| is_made_by(attr, verifier));
                let attr = attr.ok_or(nfsstat4::NFS4ERR_EXIST)?;
                Ok(Opening {
                    object: Object {
                        ino: attr.ino,
                        ..dir.clone()
                    },
                    is_new: true,
                    size: None,
                    set: mask,
                })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The open that an operation on opens names.
    fn named_open(&self, id: &stateid4) -> Result<Rc<super::opens::Open>> {
        let ino = self.object(nfsstat4::NFS4ERR_BAD_STATEID)?.ino;
        let Named::Of(name) = named(id, self.current_id.as_ref())? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID.into());
        };
        match self.state.find(self.client()?, name)? {
            Found::Open(open) if open.ino == ino => Ok(open),
            _ => Err(Fail::from(nfsstat4::NFS4ERR_BAD_STATEID)),
        }
    }

    pub(super) async fn open_downgrade(&mut self, args: OPEN_DOWNGRADE4args) -> Result<()> {
        let open = self.named_open(&args.open_stateid)?;
        let share = Share {
            access: args.share_access & !WANTS,
            deny: args.share_deny,
        };
        open.downgrade(share)?;
        self.state.keep_less(&open, share).await;
        let open_stateid = open.stateid();
        self.current_id = Some(open_stateid.clone());
        OPEN_DOWNGRADE4resok { open_stateid }.encode(&mut self.out);
        Ok(())
    }

    pub(super) async fn close(&mut self, args: CLOSE4args) -> Result<()> {
        let open = self.named_open(&args.open_stateid)?;
        self.state.close(&open).await?;
        self.current_id = Some(INVALID);
        INVALID.encode(&mut self.out);
        Ok(())
    }
}
