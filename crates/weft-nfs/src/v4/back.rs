//! The way back: calls of a gateway's to its clients, over the connections that they made (RFC 8881, 2.10.3.1).

use super::sessions::SessionId;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Mutex;
use weft_env::Env;
use weft_oncrpc::{Connection, Credential};
use weft_xdr::nfs4::*;

/// A client that does not answer by then is not reached this way.
const PATIENCE: Duration = Duration::from_secs(2);

/// A session's way back.
pub(super) struct Back {
    /// The minor version that the session's calls have, and so those back.
    minor: u32,
    /// Of the client's program; the version is 1.
    program: Cell<u32>,
    credential: RefCell<Credential>,
    /// None: there is none (yet, or any more).
    connection: RefCell<Option<Connection>>,
    /// The client has made one.
    is_wanted: Cell<bool>,
    /// The number of the call after the last: one is under way at a time, in slot 0.
    next: Mutex<u32>,
}

/// As whom a client wants to be called.
fn credential(parameters: &[callback_sec_parms4]) -> Credential {
    let known = parameters.iter().find_map(|it| match it {
        callback_sec_parms4::AUTH_SYS(user) => Some(Credential::Sys(user.clone())),
        callback_sec_parms4::AUTH_NONE => Some(Credential::None),
        callback_sec_parms4::RPCSEC_GSS(_) => None,
    });
    known.unwrap_or(Credential::None)
}

impl Back {
    pub(super) fn new(minor: u32, program: u32, parameters: &[callback_sec_parms4]) -> Back {
        Back {
            minor,
            program: Cell::new(program),
            credential: RefCell::new(credential(parameters)),
            connection: RefCell::default(),
            is_wanted: Cell::new(false),
            next: Mutex::new(1),
        }
    }

    /// Calls are made in this way from now on.
    pub(super) fn control(&self, program: u32, parameters: &[callback_sec_parms4]) {
        self.program.set(program);
        self.credential.replace(credential(parameters));
    }

    /// Over this connection from now on.
    pub(super) fn bind(&self, connection: &Connection) {
        self.is_wanted.set(true);
        self.connection.replace(Some(connection.clone()));
    }

    pub(super) fn is_up(&self) -> bool {
        let connection = self.connection.borrow();
        connection.as_ref().is_some_and(|it| !it.is_closed())
    }

    /// The client wanted to be called, and cannot be.
    pub(super) fn is_down(&self) -> bool {
        self.is_wanted.get() && !self.is_up()
    }

    /// Calls the client. None: it has not answered.
    pub(super) async fn call(
        &self,
        env: &Env,
        session: SessionId,
        operation: nfs_cb_argop4,
    ) -> Option<CB_COMPOUND4res> {
        let mut next = self.next.lock().await;
        for _ in 0..2 {
            let connection = self.connection.borrow().clone()?;
            let sequence = nfs_cb_argop4::OP_CB_SEQUENCE(CB_SEQUENCE4args {
                csa_sessionid: session,
                csa_sequenceid: *next,
                csa_slotid: 0,
                csa_highest_slotid: 0,
                csa_cachethis: false,
                csa_referring_call_lists: Vec::new(),
            });
            let arguments = CB_COMPOUND4args {
                tag: bytes::Bytes::new(),
                minorversion: self.minor,
                callback_ident: 0,
                argarray: vec![sequence, operation.clone()],
            };
            let credential = self.credential.borrow().clone();
            let program = self.program.get();
            let call = connection.call_program::<CB_COMPOUND>(program, &credential, &arguments);
            let answer = match env.timeout(PATIENCE, call).await {
                Ok(Ok(answer)) => answer,
                failed => {
                    tracing::info!(
                        ?failed,
                        peer = connection.peer(),
                        "a client cannot be called"
                    );
                    self.connection.take();
                    return None;
                }
            };
            let first = answer.resarray.first();
            match first {
                Some(nfs_cb_resop4::OP_CB_SEQUENCE(CB_SEQUENCE4res::NFS4_OK(_))) => {
                    *next = next.wrapping_add(1);
                    return Some(answer);
                }
                // It had heard the call before, whose answer was lost.
                Some(nfs_cb_resop4::OP_CB_SEQUENCE(CB_SEQUENCE4res::default(
                    nfsstat4::NFS4ERR_SEQ_MISORDERED | nfsstat4::NFS4ERR_SEQ_FALSE_RETRY,
                ))) => *next = next.wrapping_add(1),
                _ => return Some(answer),
            }
        }
        None
    }
}
