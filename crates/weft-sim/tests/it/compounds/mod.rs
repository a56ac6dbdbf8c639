//! Clients that speak NFS version 4 to simulated gateways.
#![allow(dead_code, reason = "each test uses its part")]

use crate::gates::{Gate, user};
use crate::group::MS;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_env::Env;
use weft_oncrpc::{Call, CallError, Connection, Credential, Limits, Program, Replier};
use weft_sim::World;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;
use weft_xdr::{Encoder, Xdr};

pub const ANONYMOUS: stateid4 = stateid4 {
    seqid: 0,
    other: [0; 12],
};

/// What a client is called for, and what it says.
#[derive(Default)]
pub struct Asked {
    /// Files that it is asked to give back.
    pub recalls: RefCell<Vec<CB_RECALL4args>>,
    /// Locks that it is told are free.
    pub freed: RefCell<Vec<CB_NOTIFY_LOCK4args>>,
    /// Where the changes of what it keeps stand, and how large that is. None: it does not say.
    pub kept: Cell<Option<(u64, u64)>>,
    /// So many more times it does not know of what it is asked to give back.
    pub unknown: Cell<u32>,
    /// How often it was asked what it keeps.
    pub looks: Cell<u32>,
}

impl Asked {
    fn answer(&self, asked: &nfs_cb_argop4) -> (nfsstat4, nfs_cb_resop4) {
        let ok = nfsstat4::NFS4_OK;
        match asked {
            nfs_cb_argop4::OP_CB_RECALL(_) if self.unknown.get() > 0 => {
                self.unknown.set(self.unknown.get() - 1);
                let status = nfsstat4::NFS4ERR_BADHANDLE;
                let done = CB_RECALL4res { status };
                (status, nfs_cb_resop4::OP_CB_RECALL(done))
            }
            nfs_cb_argop4::OP_CB_RECALL(recall) => {
                self.recalls.borrow_mut().push(recall.clone());
                let done = CB_RECALL4res { status: ok };
                (ok, nfs_cb_resop4::OP_CB_RECALL(done))
            }
            nfs_cb_argop4::OP_CB_NOTIFY_LOCK(freed) => {
                self.freed.borrow_mut().push(freed.clone());
                let done = CB_NOTIFY_LOCK4res { cnlr_status: ok };
                (ok, nfs_cb_resop4::OP_CB_NOTIFY_LOCK(done))
            }
            nfs_cb_argop4::OP_CB_GETATTR(_) => {
                self.looks.set(self.looks.get() + 1);
                let Some((change, size)) = self.kept.get() else {
                    let unknown = nfsstat4::NFS4ERR_BADHANDLE;
                    let done = CB_GETATTR4res::default(unknown);
                    return (unknown, nfs_cb_resop4::OP_CB_GETATTR(done));
                };
                let mut values = Encoder::default();
                values.u64(change);
                values.u64(size);
                let done = CB_GETATTR4res::NFS4_OK(CB_GETATTR4resok {
                    obj_attributes: fattr4 {
                        attrmask: vec![1 << FATTR4_CHANGE | 1 << FATTR4_SIZE],
                        attr_vals: values.joined(),
                    },
                });
                (ok, nfs_cb_resop4::OP_CB_GETATTR(done))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A client's own program.
struct Callback(Rc<Asked>);

impl Program for Callback {
    fn number(&self) -> u32 {
        CALLBACKS
    }

    fn versions(&self) -> RangeInclusive<u32> {
        NFS_CB..=NFS_CB
    }

    fn call(&self, _connection: &Connection, call: Call, replier: Replier) {
        replier.serve::<CB_COMPOUND>(call, |arguments| {
            let [nfs_cb_argop4::OP_CB_SEQUENCE(sequence), asked] = &arguments.argarray[..] else {
                panic!("{arguments:?}")
            };
            // That of the client's own calls.
            assert_eq!(arguments.minorversion, MINOR);
            let (status, answer) = self.0.answer(asked);
            let sequence = CB_SEQUENCE4resok {
                csr_sessionid: sequence.csa_sessionid,
                csr_sequenceid: sequence.csa_sequenceid,
                csr_slotid: 0,
                csr_highest_slotid: 0,
                csr_target_highest_slotid: 0,
            };
            CB_COMPOUND4res {
                status,
                tag: arguments.tag,
                resarray: vec![
                    nfs_cb_resop4::OP_CB_SEQUENCE(CB_SEQUENCE4res::NFS4_OK(sequence)),
                    answer,
                ],
            }
        });
    }
}

/// The minor version that clients speak, where nothing else is said.
pub const MINOR: u32 = 2;

/// A number of its own.
pub const CALLBACKS: u32 = 0x4000_0007;

/// A client's connection, over which it can be called.
async fn connect(env: &Env, address: &str, asked: &Rc<Asked>) -> Option<Connection> {
    let programs: Vec<Rc<dyn Program>> = vec![Rc::new(Callback(asked.clone()))];
    let connecting = Connection::connect(env, address, Limits::default(), programs);
    connecting.await.ok()
}

/// A client with a session.
pub struct Nfs4 {
    pub connection: RefCell<Connection>,
    pub credential: Credential,
    pub minor: u32,
    pub client: u64,
    pub session: sessionid4,
    /// Of the last call in slot 0.
    pub sequence: Cell<u32>,
    pub asked: Rc<Asked>,
}

pub fn channel() -> channel_attrs4 {
    channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 2 << 20,
        ca_maxresponsesize: 2 << 20,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 16,
        ca_maxrequests: 8,
        ca_rdma_ird: Vec::new(),
    }
}

impl Nfs4 {
    pub async fn connect(world: &World, gate: &Gate, uid: u32) -> Nfs4 {
        let env = world.node("client").env();
        let reached = Nfs4::reach(&env, &gate.settings.listen, user(uid));
        reached.await.unwrap()
    }

    /// Connected, and nothing more. None: there is nobody.
    pub async fn reach(env: &Env, address: &str, credential: Credential) -> Option<Nfs4> {
        let asked = Rc::new(Asked::default());
        let connection = connect(env, address, &asked).await?;
        Some(Nfs4 {
            connection: RefCell::new(connection),
            credential,
            minor: MINOR,
            client: 0,
            session: [0; 16],
            sequence: Cell::new(0),
            asked,
        })
    }

    /// Over another connection from now on.
    pub async fn reconnect(&self, env: &Env, address: &str) -> Option<()> {
        let connection = connect(env, address, &self.asked).await?;
        self.connection.replace(connection);
        Some(())
    }

    /// Connected, known, with a session, and with nothing to reclaim.
    pub async fn to(world: &World, gate: &Gate, uid: u32, name: &str) -> Nfs4 {
        let mut client = Nfs4::connect(world, gate, uid).await;
        client.meet(name, 1).await;
        client
    }

    /// Makes itself known.
    pub async fn meet(&mut self, name: &str, life: u8) {
        self.met(name, life).await.unwrap();
    }

    /// Makes itself known, and may have something to reclaim. None: there is no answer any more.
    pub async fn meets(&mut self, name: &str, life: u8) -> Option<()> {
        let exchange = OP_EXCHANGE_ID(EXCHANGE_ID4args {
            eia_clientowner: client_owner4 {
                co_verifier: [life; 8],
                co_ownerid: name.to_owned().into(),
            },
            eia_flags: 0,
            eia_state_protect: state_protect4_a::SP4_NONE,
            eia_client_impl_id: Vec::new(),
        });
        let met = self.try_call(vec![exchange]).await?;
        let [nfs_resop4::OP_EXCHANGE_ID(EXCHANGE_ID4res::NFS4_OK(met))] = &met.resarray[..] else {
            panic!("{met:?}")
        };
        let create = OP_CREATE_SESSION(CREATE_SESSION4args {
            csa_clientid: met.eir_clientid,
            csa_sequence: met.eir_sequenceid,
            csa_flags: CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
            csa_fore_chan_attrs: channel(),
            csa_back_chan_attrs: channel(),
            csa_cb_program: CALLBACKS,
            csa_sec_parms: Vec::new(),
        });
        let made = self.try_call(vec![create]).await?;
        let [nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::NFS4_OK(made))] = &made.resarray[..]
        else {
            panic!("{made:?}")
        };
        (self.client, self.session) = (met.eir_clientid, made.csr_sessionid);
        self.sequence.set(0);
        Some(())
    }

    /// The same, with nothing to reclaim.
    pub async fn met(&mut self, name: &str, life: u8) -> Option<()> {
        self.meets(name, life).await?;
        self.sequence.set(1);
        let complete = OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
        let completed = self.try_call(vec![self.sequence(1), complete]).await?;
        let is_known = matches!(
            completed.status,
            nfsstat4::NFS4_OK | nfsstat4::NFS4ERR_COMPLETE_ALREADY
        );
        assert!(is_known, "{completed:?}");
        Some(())
    }

    pub async fn call(&self, operations: Vec<nfs_argop4>) -> COMPOUND4res {
        self.try_call(operations).await.unwrap()
    }

    /// None: the connection broke first.
    pub async fn try_call(&self, operations: Vec<nfs_argop4>) -> Option<COMPOUND4res> {
        let arguments = COMPOUND4args {
            tag: Bytes::from_static(b"test"),
            minorversion: self.minor,
            argarray: operations,
        };
        let connection = self.connection.borrow().clone();
        let called = connection.call::<NFSPROC4_COMPOUND>(&self.credential, &arguments);
        match called.await {
            Ok(answer) => {
                assert_eq!(answer.tag, arguments.tag);
                Some(answer)
            }
            Err(CallError::Lost(_)) => None,
            Err(other) => panic!("{other}: {arguments:?}"),
        }
    }

    pub fn sequence(&self, number: u32) -> nfs_argop4 {
        self.in_slot(0, number)
    }

    pub fn in_slot(&self, slot: u32, number: u32) -> nfs_argop4 {
        OP_SEQUENCE(SEQUENCE4args {
            sa_sessionid: self.session,
            sa_sequenceid: number,
            sa_slotid: slot,
            sa_highest_slotid: slot,
            sa_cachethis: false,
        })
    }

    /// In the session: the results of all operations after SEQUENCE, or the status of the one that failed.
    pub async fn does(&self, operations: Vec<nfs_argop4>) -> Result<Vec<nfs_resop4>, nfsstat4> {
        self.sequence.set(self.sequence.get() + 1);
        let first = self.sequence(self.sequence.get());
        let count = operations.len();
        let answer = self.call([vec![first], operations].concat()).await;
        match answer.status {
            nfsstat4::NFS4_OK => {
                assert_eq!(answer.resarray.len(), count + 1);
                Ok(answer.resarray[1..].to_vec())
            }
            status => Err(status),
        }
    }

    /// The filehandle at the end of a path.
    pub async fn walk(&self, path: &[&str]) -> Result<Bytes, nfsstat4> {
        let names = path.iter().map(|name| {
            OP_LOOKUP(LOOKUP4args {
                objname: (*name).to_owned().into(),
            })
        });
        let operations = [OP_PUTROOTFH].into_iter().chain(names).chain([OP_GETFH]);
        let done = self.does(operations.collect()).await?;
        match done.last() {
            Some(nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found))) => Ok(found.object.clone()),
            other => panic!("{other:?}"),
        }
    }

    pub async fn open(
        &self,
        dir: &Bytes,
        name: &str,
        (access, deny): (u32, u32),
        owner: &str,
        openhow: openflag4,
    ) -> Result<(Bytes, stateid4), nfsstat4> {
        let open = OP_OPEN(OPEN4args {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: state_owner4 {
                clientid: self.client,
                owner: owner.to_owned().into(),
            },
            openhow,
            claim: open_claim4::CLAIM_NULL(name.to_owned().into()),
        });
        let done = self.does(vec![put(dir), open, OP_GETFH]).await?;
        match &done[..] {
            [
                _,
                nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened)),
                nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found)),
            ] => Ok((found.object.clone(), opened.stateid.clone())),
            other => panic!("{other:?}"),
        }
    }

    /// Reads a file, so that the gateway has a lease on it, opens it for reading, and may be given it to keep.
    pub async fn keep(&self, dir: &Bytes, name: &str) -> Option<(Bytes, stateid4)> {
        let file = self.walk(&[name]).await.unwrap();
        self.read(&file, &ANONYMOUS, 0, 1).await.unwrap();
        let open = OP_OPEN(OPEN4args {
            seqid: 0,
            share_access: OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
            share_deny: 0,
            owner: state_owner4 {
                clientid: self.client,
                owner: Bytes::from_static(b"reader"),
            },
            openhow: there(),
            claim: open_claim4::CLAIM_NULL(name.to_owned().into()),
        });
        let done = self.does(vec![put(dir), open, OP_GETFH]).await.unwrap();
        let [
            _,
            nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened)),
            nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found)),
        ] = &done[..]
        else {
            panic!("{done:?}")
        };
        self.close(&found.object, &opened.stateid).await.unwrap();
        match &opened.delegation {
            open_delegation4::OPEN_DELEGATE_READ(given) => {
                Some((found.object.clone(), given.stateid.clone()))
            }
            _ => None,
        }
    }

    /// Opens a file, wanting this of delegations; what it has of it then is for [`Nfs4::close`] too.
    pub async fn open_wanting(
        &self,
        dir: &Bytes,
        name: &str,
        access: u32,
        openhow: openflag4,
    ) -> (Bytes, stateid4, open_delegation4) {
        let open = OP_OPEN(OPEN4args {
            seqid: 0,
            share_access: access,
            share_deny: 0,
            owner: state_owner4 {
                clientid: self.client,
                owner: Bytes::from_static(b"wants"),
            },
            openhow,
            claim: open_claim4::CLAIM_NULL(name.to_owned().into()),
        });
        let done = self.does(vec![put(dir), open, OP_GETFH]).await.unwrap();
        let [
            _,
            nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened)),
            nfs_resop4::OP_GETFH(GETFH4res::NFS4_OK(found)),
        ] = &done[..]
        else {
            panic!("{done:?}")
        };
        (
            found.object.clone(),
            opened.stateid.clone(),
            opened.delegation.clone(),
        )
    }

    /// Makes a file, has it for writing, and closes it: the file, and what it is had by. What the client says of it is
    /// what it is like.
    pub async fn have(&self, dir: &Bytes, name: &str) -> (Bytes, stateid4) {
        let wants = 3 | OPEN4_SHARE_ACCESS_WANT_ANY_DELEG;
        let (file, open, given) = self.open_wanting(dir, name, wants, made(0o644)).await;
        let open_delegation4::OPEN_DELEGATE_WRITE(given) = given else {
            panic!("{given:?}")
        };
        assert_eq!(given.space_limit, nfs_space_limit4::NFS_LIMIT_SIZE(0));
        let (size, change) = self.getattr(&file).await.unwrap();
        self.asked.kept.set(Some((change, size)));
        self.close(&file, &open).await.unwrap();
        (file, given.stateid)
    }

    /// Opens, at its gateway, a file that it has been given and opened by itself.
    pub async fn open_again(&self, file: &Bytes, access: u32, had: &stateid4) -> stateid4 {
        let open = OP_OPEN(OPEN4args {
            seqid: 0,
            share_access: access,
            share_deny: 0,
            owner: state_owner4 {
                clientid: self.client,
                owner: Bytes::from_static(b"local"),
            },
            openhow: there(),
            claim: open_claim4::CLAIM_DELEG_CUR_FH(had.clone()),
        });
        match &self.does(vec![put(file), open]).await.unwrap()[..] {
            [_, nfs_resop4::OP_OPEN(OPEN4res::NFS4_OK(opened))] => opened.stateid.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Says that it keeps changes of a file, which is so large with them.
    pub fn keeps(&self, size: u64) {
        let (change, _) = self.asked.kept.get().unwrap();
        self.asked.kept.set(Some((change + 1, size)));
    }

    /// Waits until it is asked for a file.
    pub async fn recalled(&self, world: &World) -> CB_RECALL4args {
        while self.asked.recalls.borrow().is_empty() {
            world.sleep(MS).await;
        }
        self.asked.recalls.borrow_mut().remove(0)
    }

    pub async fn read_plus(
        &self,
        file: &Bytes,
        stateid: &stateid4,
        offset: u64,
        count: u32,
    ) -> Result<read_plus_res4, nfsstat4> {
        let read = OP_READ_PLUS(READ_PLUS4args {
            rpa_stateid: stateid.clone(),
            rpa_offset: offset,
            rpa_count: count,
        });
        match &self.does(vec![put(file), read]).await?[..] {
            [_, nfs_resop4::OP_READ_PLUS(READ_PLUS4res::NFS4_OK(read))] => Ok(read.clone()),
            other => panic!("{other:?}"),
        }
    }

    pub async fn give_back(&self, file: &Bytes, delegation: &stateid4) {
        let give = OP_DELEGRETURN(DELEGRETURN4args {
            deleg_stateid: delegation.clone(),
        });
        self.does(vec![put(file), give]).await.unwrap();
    }

    /// Makes a file and opens it for everything.
    pub async fn make(&self, dir: &Bytes, name: &str) -> (Bytes, stateid4) {
        self.open(dir, name, (3, 0), "me", made(0o644))
            .await
            .unwrap()
    }

    pub async fn write(
        &self,
        file: &Bytes,
        stateid: &stateid4,
        offset: u64,
        data: &[u8],
    ) -> Result<WRITE4resok, nfsstat4> {
        let write = OP_WRITE(WRITE4args {
            stateid: stateid.clone(),
            offset,
            stable: stable_how4::FILE_SYNC4,
            data: Bytes::copy_from_slice(data),
        });
        match &self.does(vec![put(file), write]).await?[..] {
            [_, nfs_resop4::OP_WRITE(WRITE4res::NFS4_OK(written))] => Ok(written.clone()),
            other => panic!("{other:?}"),
        }
    }

    pub async fn read(
        &self,
        file: &Bytes,
        stateid: &stateid4,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool), nfsstat4> {
        let read = OP_READ(READ4args {
            stateid: stateid.clone(),
            offset,
            count,
        });
        match &self.does(vec![put(file), read]).await?[..] {
            [_, nfs_resop4::OP_READ(READ4res::NFS4_OK(read))] => Ok((read.data.clone(), read.eof)),
            other => panic!("{other:?}"),
        }
    }

    pub async fn close(&self, file: &Bytes, stateid: &stateid4) -> Result<(), nfsstat4> {
        let close = OP_CLOSE(CLOSE4args {
            seqid: 0,
            open_stateid: stateid.clone(),
        });
        self.does(vec![put(file), close]).await.map(drop)
    }

    /// Size and change of a file.
    pub async fn getattr(&self, file: &Bytes) -> Result<(u64, u64), nfsstat4> {
        let get = OP_GETATTR(GETATTR4args {
            attr_request: vec![1 << FATTR4_CHANGE | 1 << FATTR4_SIZE],
        });
        match &self.does(vec![put(file), get]).await?[..] {
            [_, nfs_resop4::OP_GETATTR(GETATTR4res::NFS4_OK(found))] => {
                let mut values = weft_xdr::Decoder::new(found.obj_attributes.attr_vals.clone());
                let change = values.u64().unwrap();
                Ok((values.u64().unwrap(), change))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Locks under an open, by an owner of its own.
    pub async fn lock(
        &self,
        file: &Bytes,
        open: &stateid4,
        owner: &str,
        (locktype, offset, length): (nfs_lock_type4, u64, u64),
    ) -> Result<stateid4, Option<LOCK4denied>> {
        self.sequence.set(self.sequence.get() + 1);
        let lock = OP_LOCK(LOCK4args {
            locktype,
            reclaim: false,
            offset,
            length,
            locker: locker4::TRUE(open_to_lock_owner4 {
                open_seqid: 0,
                open_stateid: open.clone(),
                lock_seqid: 0,
                lock_owner: state_owner4 {
                    clientid: self.client,
                    owner: owner.to_owned().into(),
                },
            }),
        });
        let operations = vec![self.sequence(self.sequence.get()), put(file), lock];
        let answer = self.call(operations).await;
        match answer.resarray.last() {
            Some(nfs_resop4::OP_LOCK(LOCK4res::NFS4_OK(locked))) => Ok(locked.lock_stateid.clone()),
            Some(nfs_resop4::OP_LOCK(LOCK4res::NFS4ERR_DENIED(denied))) => {
                Err(Some(denied.clone()))
            }
            _ => Err(None),
        }
    }

    pub async fn unlock(&self, file: &Bytes, lock: &stateid4, offset: u64, length: u64) {
        let unlock = OP_LOCKU(LOCKU4args {
            locktype: nfs_lock_type4::WRITE_LT,
            seqid: 0,
            lock_stateid: lock.clone(),
            offset,
            length,
        });
        self.does(vec![put(file), unlock]).await.unwrap();
    }

    /// All names of a directory and the numbers of what they stand for, page by page.
    pub async fn list(&self, dir: &Bytes, maxcount: u32) -> Result<Vec<(String, u64)>, nfsstat4> {
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let readdir = OP_READDIR(READDIR4args {
                cookie,
                cookieverf: [0; 8],
                dircount: maxcount,
                maxcount,
                attr_request: vec![1 << FATTR4_TYPE | 1 << FATTR4_SIZE | 1 << FATTR4_FILEID],
            });
            let done = self.does(vec![put(dir), readdir]).await?;
            let [_, nfs_resop4::OP_READDIR(READDIR4res::NFS4_OK(page))] = &done[..] else {
                panic!("{done:?}")
            };
            assert!(page.to_bytes().len() <= maxcount as usize);
            for entry in &page.reply.entries {
                let mut values = weft_xdr::Decoder::new(entry.attrs.attr_vals.clone());
                let _type_and_size = (values.u32().unwrap(), values.u64().unwrap());
                let name = String::from_utf8(entry.name.to_vec()).unwrap();
                all.push((name, values.u64().unwrap()));
                cookie = entry.cookie;
            }
            if page.reply.eof {
                return Ok(all);
            }
            assert!(!page.reply.entries.is_empty());
        }
    }
}

pub fn put(handle: &Bytes) -> nfs_argop4 {
    OP_PUTFH(PUTFH4args {
        object: handle.clone(),
    })
}

pub fn mode(mode: u32) -> fattr4 {
    let mut values = Encoder::default();
    values.u32(mode);
    fattr4 {
        attrmask: vec![0, 1 << (FATTR4_MODE - 32)],
        attr_vals: values.joined(),
    }
}

pub fn made(bits: u32) -> openflag4 {
    openflag4::OPEN4_CREATE(createhow4::GUARDED4(mode(bits)))
}

pub fn there() -> openflag4 {
    openflag4::default(opentype4::OPEN4_NOCREATE)
}

pub fn mkdir(name: &str, bits: u32) -> nfs_argop4 {
    OP_CREATE(CREATE4args {
        objtype: createtype4::NF4DIR,
        objname: name.to_owned().into(),
        createattrs: mode(bits),
    })
}
