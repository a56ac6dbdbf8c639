//! COMPOUND: operations one after the other, until one fails (RFC 8881, 2.3 and 16.2).

use super::place::Place;
use super::sessions::{Begun, OPERATIONS_MAX, Session};
use super::state::{Heard, State};
use super::status::{Fail, Result};
use crate::caller::{Caller, Object};
use bytes::Bytes;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::rc::Rc;
use weft_oncrpc::{Connection, Refusal, Replier};
use weft_xdr::nfs4::*;
use weft_xdr::{DecodeError, Decoder, Encoder, Xdr};

/// Minor versions that are spoken.
const MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
/// Operations up to this one are those of minor version 1; later ones came with 2.
const LAST_OF_MINOR_1: i32 = nfs_opnum4::OP_RECLAIM_COMPLETE as i32;
/// Bytes of a call by which one that is sent again is told from another one: what stands before any long data.
const HASHED_BYTES: usize = 120;
/// Replies that short are kept though the client does not ask for it.
const KEPT_ANYWAY_BYTES: usize = 1 << 10;
/// Bytes of a reply around a COMPOUND's results: record mark and header.
const AROUND_BYTES: usize = 4 + 24;

/// A COMPOUND that is being done.
pub(super) struct Compound {
    pub state: Rc<State>,
    pub caller: Caller,
    /// That the call came over.
    pub connection: Connection,
    pub minor: u32,
    pub session: Option<Rc<Session>>,
    pub current: Option<Place>,
    pub current_id: Option<stateid4>,
    pub saved: Option<Place>,
    pub saved_id: Option<stateid4>,
    pub out: Encoder,
    /// Operations of it.
    count: u32,
    /// This one's place among them.
    at: u32,
    /// Bytes of the call, and what it is told from others by.
    length: usize,
    hash: u64,
    sequence: Option<SEQUENCE4args>,
    heard: Option<Heard>,
}

/// Whether an operation is done by a change at the metadata service.
fn changes(number: nfs_opnum4) -> bool {
    use nfs_opnum4::*;
    matches!(
        number,
        OP_SETATTR
            | OP_CREATE
            | OP_REMOVE
            | OP_RENAME
            | OP_LINK
            | OP_OPEN
            | OP_OPEN_DOWNGRADE
            | OP_CLOSE
            | OP_LOCK
            | OP_LOCKU
            | OP_SETXATTR
            | OP_REMOVEXATTR
    )
}

/// What stands before the operations.
struct Head {
    tag: Bytes,
    minor: u32,
    count: u32,
}

impl Head {
    fn decode(input: &mut Decoder) -> std::result::Result<Head, DecodeError> {
        Ok(Head {
            tag: input.opaque(u32::MAX)?,
            minor: input.u32()?,
            count: input.u32()?,
        })
    }
}

/// The results of a COMPOUND, so far.
struct Results {
    status_at: usize,
    count_at: usize,
}

impl Results {
    fn begin(tag: &Bytes, out: &mut Encoder) -> Results {
        let status_at = out.gap();
        out.opaque(u32::MAX, tag);
        let count_at = out.gap();
        Results {
            status_at,
            count_at,
        }
    }

    fn end(&self, status: nfsstat4, count: u32, out: &mut Encoder) {
        out.set_u32(self.status_at, status as u32);
        out.set_u32(self.count_at, count);
    }
}

/// Does a COMPOUND and answers it.
pub(super) async fn serve(
    state: Rc<State>,
    (caller, connection): (Caller, Connection),
    mut arguments: Decoder,
    replier: Replier,
) {
    let mut hasher = SipHasher13::new();
    let ahead = arguments.ahead();
    hasher.write(&ahead[..ahead.len().min(HASHED_BYTES)]);
    let length = arguments.remaining();
    let Ok(head) = Head::decode(&mut arguments) else {
        return replier.refuse(Refusal::Arguments);
    };
    let mut out = Encoder::default();
    let results = Results::begin(&head.tag, &mut out);
    if !MINOR_VERSIONS.contains(&head.minor) {
        results.end(nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH, 0, &mut out);
        return replier.send_with(|to| to.absorb(out));
    }
    let mut compound = Compound {
        state,
        caller,
        connection,
        minor: head.minor,
        session: None,
        current: None,
        current_id: None,
        saved: None,
        saved_id: None,
        out,
        count: head.count,
        at: 0,
        length,
        hash: hasher.finish(),
        sequence: None,
        heard: None,
    };
    match compound.operations(&mut arguments).await {
        Ended::Now(status, count) => {
            results.end(status, count, &mut compound.out);
            let out = compound.finish();
            replier.send_with(|to| to.absorb(out));
        }
        Ended::Before(reply) => crate::replies::answer(replier, &reply),
    }
}

/// How a COMPOUND ended.
enum Ended {
    /// With this status, after so many operations.
    Now(nfsstat4, u32),
    /// It had been done: this was answered.
    Before(Bytes),
}

/// What a SEQUENCE says of the rest.
enum Sequence {
    GoOn,
    Again(Bytes),
    NotKept,
}

impl Compound {
    async fn operations(&mut self, arguments: &mut Decoder) -> Ended {
        while self.at < self.count {
            let (number, operation) = self.decode(arguments);
            let metrics = &self.caller.shared.metrics;
            metrics.call((NFS_V4, number as u32), || format!("{number:?}"));
            let mark = self.out.mark();
            self.out.u32(number as u32);
            let status_at = self.out.gap();
            let done = match operation {
                Ok(nfs_argop4::OP_SEQUENCE(args)) => match self.sequence(&args) {
                    Ok(Sequence::GoOn) => Ok(()),
                    Ok(Sequence::Again(reply)) => return Ended::Before(reply),
                    Ok(Sequence::NotKept) => {
                        let status = nfsstat4::NFS4ERR_RETRY_UNCACHED_REP;
                        // What follows is not done: its number is all that is looked at.
                        self.at += 1;
                        let (number, _) = self.decode(arguments);
                        self.out.u32(number as u32);
                        status.encode(&mut self.out);
                        return Ended::Now(status, self.at + 1);
                    }
                    Err(status) => Err(status.into()),
                },
                Ok(operation) => match self.may_come(number) {
                    Ok(()) if changes(number) => self.alter(operation).await,
                    Ok(()) => self.operate(operation).await,
                    Err(status) => Err(status.into()),
                },
                Err(status) => Err(status.into()),
            };
            let done = match done {
                Ok(()) => self.check_length().map_err(Fail::from),
                failed => failed,
            };
            self.at += 1;
            if let Err(fail) = done {
                self.out.rewind(mark);
                let status = self.encode_failure(number, fail);
                return Ended::Now(status, self.at);
            }
            self.out.set_u32(status_at, nfsstat4::NFS4_OK as u32);
        }
        Ended::Now(nfsstat4::NFS4_OK, self.at)
    }

    /// The next operation. What cannot be read is named as well as it can be.
    fn decode(
        &self,
        arguments: &mut Decoder,
    ) -> (nfs_opnum4, std::result::Result<nfs_argop4, nfsstat4>) {
        let number = arguments.clone().u32().map(|number| number as i32);
        let Ok(number) = number else {
            return (nfs_opnum4::OP_ILLEGAL, Err(nfsstat4::NFS4ERR_BADXDR));
        };
        let known = nfs_opnum4::from_wire(number)
            .filter(|it| *it != nfs_opnum4::OP_ILLEGAL)
            .filter(|_| self.minor > 1 || number <= LAST_OF_MINOR_1);
        match known {
            None => (nfs_opnum4::OP_ILLEGAL, Err(nfsstat4::NFS4ERR_OP_ILLEGAL)),
            Some(known) => {
                let operation = nfs_argop4::decode(arguments);
                (known, operation.map_err(|_| nfsstat4::NFS4ERR_BADXDR))
            }
        }
    }

    /// Whether an operation may stand where it stands (RFC 8881, 2.10.2.1 and 18.46.3).
    fn may_come(&self, number: nfs_opnum4) -> std::result::Result<(), nfsstat4> {
        let stands_alone = matches!(
            number,
            nfs_opnum4::OP_EXCHANGE_ID
                | nfs_opnum4::OP_CREATE_SESSION
                | nfs_opnum4::OP_BIND_CONN_TO_SESSION
                | nfs_opnum4::OP_DESTROY_SESSION
                | nfs_opnum4::OP_DESTROY_CLIENTID
        );
        if self.session.is_some() {
            return Ok(());
        }
        match (stands_alone, self.at, self.count) {
            (false, _, _) => Err(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION),
            (true, 0, 1) => Ok(()),
            (true, _, _) => Err(nfsstat4::NFS4ERR_NOT_ONLY_OP),
        }
    }

    fn sequence(&mut self, args: &SEQUENCE4args) -> std::result::Result<Sequence, nfsstat4> {
        if self.at != 0 {
            return Err(nfsstat4::NFS4ERR_SEQUENCE_POS);
        }
        let session = self.state.session(&args.sa_sessionid);
        let session = session.ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
        let agreed = &session.attributes;
        if self.length + AROUND_BYTES > agreed.ca_maxrequestsize as usize {
            return Err(nfsstat4::NFS4ERR_REQ_TOO_BIG);
        }
        if self.count > agreed.ca_maxoperations {
            return Err(nfsstat4::NFS4ERR_TOO_MANY_OPS);
        }
        let begun = session.begin(args, self.hash)?;
        self.heard = Some(self.state.heard(session.client));
        if let Begun::Again(reply) = begun {
            return Ok(Sequence::Again(reply));
        }
        SEQUENCE4resok {
            sr_sessionid: session.id,
            sr_sequenceid: args.sa_sequenceid,
            sr_slotid: args.sa_slotid,
            sr_highest_slotid: session.highest_slot(),
            sr_target_highest_slotid: session.highest_slot(),
            sr_status_flags: self.state.flags(&session),
        }
        .encode(&mut self.out);
        if begun == Begun::NotKept {
            return Ok(Sequence::NotKept);
        }
        self.caller.client = Some(session.client);
        self.session = Some(session);
        self.sequence = Some(args.clone());
        Ok(Sequence::GoOn)
    }

    /// Refuses results that are longer than was agreed.
    fn check_length(&self) -> std::result::Result<(), nfsstat4> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let (length, agreed) = (self.out.len() + AROUND_BYTES, &session.attributes);
        let is_kept = self.sequence.as_ref().is_some_and(|args| args.sa_cachethis);
        if length > agreed.ca_maxresponsesize as usize {
            return Err(nfsstat4::NFS4ERR_REP_TOO_BIG);
        }
        match is_kept && length > agreed.ca_maxresponsesize_cached as usize {
            true => Err(nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE),
            false => Ok(()),
        }
    }

    fn encode_failure(&mut self, number: nfs_opnum4, fail: Fail) -> nfsstat4 {
        let out = &mut self.out;
        out.u32(number as u32);
        match fail {
            Fail::Status(status) => {
                status.encode(out);
                if number == nfs_opnum4::OP_SETATTR {
                    // Nothing was set.
                    out.u32(0);
                }
                status
            }
            Fail::Denied(denied) => {
                nfsstat4::NFS4ERR_DENIED.encode(out);
                denied.encode(out);
                nfsstat4::NFS4ERR_DENIED
            }
        }
    }

    /// All is done: the slot is free for another call, and knows what this one was answered.
    fn finish(mut self) -> Encoder {
        let out = std::mem::take(&mut self.out);
        if let (Some(session), Some(args)) = (&self.session, &self.sequence) {
            let is_short = out.len() <= KEPT_ANYWAY_BYTES;
            if !is_short && !args.sa_cachethis {
                session.done(args.sa_slotid, None);
                return out;
            }
            let reply = out.joined();
            session.done(args.sa_slotid, Some(reply.clone()));
            let mut out = Encoder::default();
            out.fixed(&reply);
            return out;
        }
        out
    }

    /// The current filehandle's place.
    pub(super) fn place(&self) -> Result<&Place> {
        let current = self.current.as_ref();
        Ok(current.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)?)
    }

    /// The inode that the current filehandle stands for; a directory on the way to an export is refused so.
    pub(super) fn object(&self, on_way: nfsstat4) -> Result<Object> {
        match self.place()? {
            Place::Object(object) => Ok(object.clone()),
            Place::Way(_) => Err(on_way.into()),
        }
    }

    /// As [`Compound::object`], for a change.
    pub(super) fn changed(&self) -> Result<Object> {
        let object = self.object(nfsstat4::NFS4ERR_ROFS)?;
        object.check_writable()?;
        Ok(object)
    }

    /// The inode that the saved filehandle stands for.
    pub(super) fn saved_object(&self) -> Result<Object> {
        match self.saved.as_ref() {
            Some(Place::Object(object)) => Ok(object.clone()),
            Some(Place::Way(_)) => Err(nfsstat4::NFS4ERR_ROFS.into()),
            None => Err(nfsstat4::NFS4ERR_NOFILEHANDLE.into()),
        }
    }

    /// Another filehandle is the current one.
    pub(super) fn go_to(&mut self, place: Place) {
        self.current = Some(place);
        self.current_id = None;
    }

    /// The client that calls.
    pub(super) fn client(&self) -> Result<u64> {
        let session = self.session.as_ref();
        Ok(session.ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?.client)
    }

    /// It is the last operation of its COMPOUND.
    pub(super) fn is_last(&self) -> bool {
        self.at + 1 == self.count
    }

    /// Does a change.
    ///
    /// # Errors
    /// As of the change; DELAY: nobody knows whether it was done ([`Caller::is_in_doubt`]).
    async fn alter(&mut self, operation: nfs_argop4) -> Result<()> {
        let began = self.caller.begin();
        match self.operate(operation).await {
            Err(Fail::Status(nfsstat4::NFS4ERR_IO)) if self.caller.is_in_doubt(&began) => {
                Err(nfsstat4::NFS4ERR_DELAY.into())
            }
            done => done,
        }
    }

    async fn operate(&mut self, operation: nfs_argop4) -> Result<()> {
        use nfs_argop4::*;
        if self.at >= OPERATIONS_MAX {
            return Err(nfsstat4::NFS4ERR_TOO_MANY_OPS.into());
        }
        match operation {
            OP_PUTFH(args) => self.putfh(args).await,
            OP_PUTROOTFH | OP_PUTPUBFH => self.putrootfh().await,
            OP_GETFH => self.getfh(),
            OP_SAVEFH => self.savefh(),
            OP_RESTOREFH => self.restorefh(),
            OP_GETATTR(args) => self.getattr(args).await,
            OP_SETATTR(args) => self.setattr(args).await,
            OP_VERIFY(args) => self.verify(&args.obj_attributes, true).await,
            OP_NVERIFY(args) => self.verify(&args.obj_attributes, false).await,
            OP_ACCESS(args) => self.access(args).await,
            OP_LOOKUP(args) => self.lookup(args).await,
            OP_LOOKUPP => self.lookupp().await,
            OP_READLINK => self.readlink().await,
            OP_CREATE(args) => self.create(args).await,
            OP_REMOVE(args) => self.remove(args).await,
            OP_RENAME(args) => self.rename(args).await,
            OP_LINK(args) => self.link(args).await,
            OP_SECINFO(args) => self.secinfo(args).await,
            OP_SECINFO_NO_NAME(style) => self.secinfo_no_name(style).await,
            OP_READDIR(args) => self.readdir(args).await,
            OP_OPEN(args) => self.open(args).await,
            OP_OPEN_DOWNGRADE(args) => self.open_downgrade(args).await,
            OP_CLOSE(args) => self.close(args).await,
            OP_READ(args) => self.read(args).await,
            OP_WRITE(args) => self.write(args).await,
            OP_COMMIT(_) => self.commit().await,
            OP_LOCK(args) => self.lock(args).await,
            OP_LOCKT(args) => self.lockt(args).await,
            OP_LOCKU(args) => self.locku(args).await,
            OP_TEST_STATEID(args) => self.test_stateid(&args),
            OP_FREE_STATEID(args) => self.free_stateid(&args),
            OP_EXCHANGE_ID(args) => self.exchange_id(args),
            OP_CREATE_SESSION(args) => self.create_session(args),
            OP_DESTROY_SESSION(args) => self.destroy_session(&args),
            OP_BIND_CONN_TO_SESSION(args) => self.bind_conn_to_session(&args),
            OP_DESTROY_CLIENTID(args) => self.destroy_clientid(&args),
            OP_RECLAIM_COMPLETE(args) => self.reclaim_complete(&args),
            OP_BACKCHANNEL_CTL(args) => self.backchannel_ctl(&args),
            OP_READ_PLUS(args) => self.read_plus(args).await,
            OP_SEEK(args) => self.seek(args).await,
            OP_ALLOCATE(args) => self.allocate(args).await,
            OP_DEALLOCATE(args) => self.deallocate(args).await,
            OP_COPY(args) => self.copy(args).await,
            OP_GETXATTR(args) => self.getxattr(args).await,
            OP_SETXATTR(args) => self.setxattr(args).await,
            OP_LISTXATTRS(args) => self.listxattrs(args).await,
            OP_REMOVEXATTR(args) => self.removexattr(args).await,
            OP_GET_DIR_DELEGATION(_) => {
                self.place()?;
                // There are none, and there will be none to signal.
                GET_DIR_DELEGATION4res_non_fatal::GDD4_UNAVAIL(false).encode(&mut self.out);
                Ok(())
            }
            OP_DELEGRETURN(args) => self.delegreturn(&args),
            // Secrets are agreed on with RPCSEC_GSS only.
            OP_SET_SSV(_) => Err(nfsstat4::NFS4ERR_INVAL.into()),
            _ => Err(nfsstat4::NFS4ERR_NOTSUPP.into()),
        }
    }
}
