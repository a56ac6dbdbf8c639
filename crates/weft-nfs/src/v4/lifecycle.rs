//! Clients and sessions come and go: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, DESTROY_SESSION,
//! DESTROY_CLIENTID, RECLAIM_COMPLETE.

use super::back::Back;
use super::clients::{Creation, Principal};
use super::compound::Compound;
use super::sessions::{Session, agreed};
use super::status::Result;
use bytes::Bytes;
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// What a client may say with EXCHANGE_ID.
const EXCHANGE_FLAGS: u32 = EXCHGID4_FLAG_SUPP_MOVED_REFER
    | EXCHGID4_FLAG_SUPP_MOVED_MIGR
    | EXCHGID4_FLAG_BIND_PRINC_STATEID
    | EXCHGID4_FLAG_MASK_PNFS
    | EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;

/// And with CREATE_SESSION.
const SESSION_FLAGS: u32 = CREATE_SESSION4_FLAG_PERSIST
    | CREATE_SESSION4_FLAG_CONN_BACK_CHAN
    | CREATE_SESSION4_FLAG_CONN_RDMA;

/// Sessions of a client at most: clients have one, and while they replace it two.
const SESSIONS_MAX: usize = 16;

impl Compound {
    fn principal(&self) -> Principal {
        Principal::of(&self.caller.credential)
    }

    pub(super) fn exchange_id(&mut self, args: EXCHANGE_ID4args) -> Result<()> {
        let of_minor = match self.minor {
            1 => 0,
            _ => EXCHGID4_FLAG_SUPP_FENCE_OPS,
        };
        if args.eia_flags & !(EXCHANGE_FLAGS | of_minor) != 0 {
            return Err(nfsstat4::NFS4ERR_INVAL.into());
        }
        // Who protects state by a secret needs RPCSEC_GSS; by a machine's credential, too, but may do without.
        if let state_protect4_a::SP4_SSV(_) = args.eia_state_protect {
            return Err(nfsstat4::NFS4ERR_ENCR_ALG_UNSUPP.into());
        }
        let is_update = args.eia_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A != 0;
        let owner = &args.eia_clientowner;
        let exchanged = self.state.clients.borrow_mut().exchange(
            &owner.co_ownerid,
            owner.co_verifier,
            self.principal(),
            is_update,
            |client| self.state.holds(client) || self.state.has_sessions(client),
        )?;
        for dropped in exchanged.dropped {
            self.state.drop_held(dropped);
        }
        self.state.met(exchanged.id);
        let mut eir_flags = EXCHGID4_FLAG_USE_NON_PNFS;
        if exchanged.is_confirmed {
            eir_flags |= EXCHGID4_FLAG_CONFIRMED_R;
        }
        let fsid = self.caller.shared.fsid;
        EXCHANGE_ID4resok {
            eir_clientid: exchanged.id,
            eir_sequenceid: exchanged.sequence,
            eir_flags,
            eir_state_protect: state_protect4_r::SP4_NONE,
            // Sessions are this gateway's own, and of this life of it.
            eir_server_owner: server_owner4 {
                so_minor_id: 0,
                so_major_id: format!("weft-{fsid:016x}-{:08x}", self.state.instance).into(),
            },
            // Filehandles mean the same at all gateways.
            eir_server_scope: Bytes::from(format!("weft-{fsid:016x}")),
            eir_server_impl_id: Vec::new(),
        }
        .encode(&mut self.out);
        Ok(())
    }

    pub(super) fn create_session(&mut self, args: CREATE_SESSION4args) -> Result<()> {
        let (client, principal) = (args.csa_clientid, self.principal());
        let creation =
            self.state
                .clients
                .borrow()
                .creation(client, args.csa_sequence, principal)?;
        if let Creation::Again(reply) = creation {
            reply.encode(&mut self.out);
            return Ok(());
        }
        if args.csa_flags & !SESSION_FLAGS != 0 {
            return Err(nfsstat4::NFS4ERR_INVAL.into());
        }
        if self.state.sessions_of(client) >= SESSIONS_MAX {
            return Err(nfsstat4::NFS4ERR_NOSPC.into());
        }
        let attributes = agreed(&args.csa_fore_chan_attrs)?;
        let back = agreed(&args.csa_back_chan_attrs)?;
        let way_back = Back::new(self.minor, args.csa_cb_program, &args.csa_sec_parms);
        let is_bound = args.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        if is_bound != 0 {
            way_back.bind(&self.connection);
        }
        let id = self.state.session_id(client);
        let session = Session::new(id, client, attributes.clone(), way_back);
        let reply = CREATE_SESSION4resok {
            csr_sessionid: session.id,
            csr_sequence: args.csa_sequence,
            // Nothing outlives the gateway.
            csr_flags: is_bound,
            csr_fore_chan_attrs: attributes,
            csr_back_chan_attrs: back,
        };
        self.state.add_session(session);
        self.state.met(client);
        let earlier = self
            .state
            .clients
            .borrow_mut()
            .created(client, reply.clone());
        if let Some(earlier) = earlier {
            self.state.drop_held(earlier);
        }
        reply.encode(&mut self.out);
        Ok(())
    }

    pub(super) fn bind_conn_to_session(&mut self, args: &BIND_CONN_TO_SESSION4args) -> Result<()> {
        let session = self.state.session(&args.bctsa_sessid);
        let session = session.ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
        // Calls are taken over any connection.
        let bctsr_dir = match args.bctsa_dir {
            channel_dir_from_client4::CDFC4_FORE => channel_dir_from_server4::CDFS4_FORE,
            channel_dir_from_client4::CDFC4_BACK => channel_dir_from_server4::CDFS4_BACK,
            _ => channel_dir_from_server4::CDFS4_BOTH,
        };
        if bctsr_dir != channel_dir_from_server4::CDFS4_FORE {
            session.back.bind(&self.connection);
        }
        BIND_CONN_TO_SESSION4resok {
            bctsr_sessid: session.id,
            bctsr_dir,
            bctsr_use_conn_in_rdma_mode: false,
        }
        .encode(&mut self.out);
        Ok(())
    }

    pub(super) fn backchannel_ctl(&mut self, args: &BACKCHANNEL_CTL4args) -> Result<()> {
        let session = self.session.as_ref();
        let session = session.ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
        let (program, parameters) = (args.bca_cb_program, &args.bca_sec_parms);
        session.back.control(program, parameters);
        Ok(())
    }

    pub(super) fn destroy_session(&mut self, args: &DESTROY_SESSION4args) -> Result<()> {
        let is_own = self
            .session
            .as_ref()
            .is_some_and(|session| session.id == args.dsa_sessionid);
        if is_own && !self.is_last() {
            return Err(nfsstat4::NFS4ERR_NOT_ONLY_OP.into());
        }
        match self.state.end_session(&args.dsa_sessionid) {
            true => Ok(()),
            false => Err(nfsstat4::NFS4ERR_BADSESSION.into()),
        }
    }

    pub(super) fn destroy_clientid(&mut self, args: &DESTROY_CLIENTID4args) -> Result<()> {
        let (state, client) = (&self.state, args.dca_clientid);
        if !state.clients.borrow().is_known(client) {
            return Err(nfsstat4::NFS4ERR_STALE_CLIENTID.into());
        }
        if state.holds(client) || state.has_sessions(client) {
            return Err(nfsstat4::NFS4ERR_CLIENTID_BUSY.into());
        }
        state.drop_client(client);
        Ok(())
    }

    pub(super) fn reclaim_complete(&mut self, args: &RECLAIM_COMPLETE4args) -> Result<()> {
        if args.rca_one_fs {
            // Of one file system: nothing was moved here.
            self.place()?;
            return Ok(());
        }
        let client = self.client()?;
        let is_first = self.state.clients.borrow_mut().reclaim_complete(client);
        match is_first {
            true => {
                self.drop_rest(client);
                Ok(())
            }
            false => Err(nfsstat4::NFS4ERR_COMPLETE_ALREADY.into()),
        }
    }

    /// What the client had by way of a gateway that is no more, and has not reclaimed, nobody needs to wait for.
    fn drop_rest(&self, client: u64) {
        let behalf = self.state.clients.borrow().behalf(client);
        let library = self.caller.shared.client.clone();
        self.state.env.spawn("drop what was kept", async move {
            if let Err(errno) = library.drop_kept(behalf).await {
                tracing::info!(client, %errno, "what was kept for a client, and not reclaimed, stays for its time");
            }
        });
    }
}
