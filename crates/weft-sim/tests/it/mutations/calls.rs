//! Calls that make sense, to begin with, and the names that stand in them for what nobody knows beforehand.

use bytes::Bytes;
use weft_xdr::mount3::{MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, MOUNTPROC3_UMNT};
use weft_xdr::nfs3::*;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;
use weft_xdr::{Encoder, Procedure, Xdr};

/// Handles stand as 40 bytes that are all the same, from this one on.
const HANDLE: u8 = 0xf0;
const HANDLE_BYTES: usize = 40;
/// State ids as 16.
const STATEID: u8 = 0xe0;
/// The client's number as 8.
const CLIENT: u8 = 0xd0;
/// The session's as 16.
const SESSION: u8 = 0xd1;

/// What calls name, and how it stands in bytes.
pub struct Known {
    /// Of the root, a directory, a file that is open, another one, a symbolic link.
    pub handles: Vec<Bytes>,
    /// Of both files' opens, of a lock, and none.
    pub stateids: Vec<stateid4>,
    pub client: u64,
    pub session: sessionid4,
}

impl Known {
    /// The bytes with everything in its place that stands for something.
    pub fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        let mut at = 0;
        while let Some(first) = out.get(at).copied() {
            let value = match self.stands_for(first) {
                Some(value) if out[at..].len() >= value.len() => value,
                _ => {
                    at += 4;
                    continue;
                }
            };
            let room = &mut out[at..at + value.len()];
            if room.iter().all(|byte| *byte == first) {
                room.copy_from_slice(&value);
                at += value.len();
            } else {
                at += 4;
            }
        }
        out
    }

    fn stands_for(&self, byte: u8) -> Option<Bytes> {
        match byte {
            CLIENT => Some(Bytes::copy_from_slice(&self.client.to_be_bytes())),
            SESSION => Some(Bytes::copy_from_slice(&self.session)),
            HANDLE.. => {
                let handle = self.handles.get(usize::from(byte - HANDLE))?;
                (handle.len() == HANDLE_BYTES).then(|| handle.clone())
            }
            STATEID.. => {
                let stateid = self.stateids.get(usize::from(byte - STATEID))?;
                Some(stateid.to_bytes())
            }
            _ => None,
        }
    }
}

const ROOT: u8 = 0;
const DIR: u8 = 1;
const FILE: u8 = 2;
const OTHER: u8 = 3;
const LINK: u8 = 4;

fn handle(which: u8) -> Bytes {
    vec![HANDLE + which; HANDLE_BYTES].into()
}

fn state(which: u8) -> stateid4 {
    let byte = STATEID + which;
    stateid4 {
        seqid: u32::from_be_bytes([byte; 4]),
        other: [byte; 12],
    }
}

fn client() -> u64 {
    u64::from_be_bytes([CLIENT; 8])
}

fn put(which: u8) -> nfs_argop4 {
    OP_PUTFH(PUTFH4args {
        object: handle(which),
    })
}

fn owner(name: &'static str) -> state_owner4 {
    state_owner4 {
        clientid: client(),
        owner: name.into(),
    }
}

fn text(text: &'static str) -> Bytes {
    text.into()
}

/// Attributes that are words of four or eight bytes.
fn attributes(attrmask: bitmap4, words: &[u64], mode: Option<u32>) -> fattr4 {
    let mut values = Encoder::default();
    for word in words {
        values.u64(*word);
    }
    if let Some(mode) = mode {
        values.u32(mode);
    }
    fattr4 {
        attrmask,
        attr_vals: values.joined(),
    }
}

fn size(size: u64) -> fattr4 {
    attributes(vec![1 << FATTR4_SIZE], &[size], None)
}

fn mode(mode: u32) -> fattr4 {
    attributes(vec![0, 1 << (FATTR4_MODE - 32)], &[], Some(mode))
}

fn open(share_access: u32, openhow: openflag4, claim: open_claim4) -> nfs_argop4 {
    OP_OPEN(OPEN4args {
        seqid: 0,
        share_access,
        share_deny: 0,
        owner: owner("me"),
        openhow,
        claim,
    })
}

fn there() -> openflag4 {
    openflag4::default(opentype4::OPEN4_NOCREATE)
}

fn made(how: createhow4) -> openflag4 {
    openflag4::OPEN4_CREATE(how)
}

fn lock(reclaim: bool, locker: locker4) -> nfs_argop4 {
    OP_LOCK(LOCK4args {
        locktype: nfs_lock_type4::WRITE_LT,
        reclaim,
        offset: 200,
        length: 50,
        locker,
    })
}

fn channel() -> channel_attrs4 {
    channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 4096,
        ca_maxresponsesize: 4096,
        ca_maxresponsesize_cached: 1024,
        ca_maxoperations: 8,
        ca_maxrequests: 4,
        ca_rdma_ird: Vec::new(),
    }
}

/// Operations of COMPOUNDs.
fn names() -> Vec<Vec<nfs_argop4>> {
    let look = |name| {
        OP_LOOKUP(LOOKUP4args {
            objname: text(name),
        })
    };
    let get = OP_GETATTR(GETATTR4args {
        attr_request: vec![u32::MAX, u32::MAX, u32::MAX],
    });
    vec![
        vec![OP_PUTROOTFH, OP_GETFH, get.clone()],
        vec![put(DIR), look("file"), OP_GETFH, get.clone(), OP_LOOKUPP],
        vec![
            put(DIR),
            OP_READDIR(READDIR4args {
                cookie: 0,
                cookieverf: [0; 8],
                dircount: 1000,
                maxcount: 4000,
                attr_request: vec![u32::MAX, u32::MAX, u32::MAX],
            }),
        ],
        vec![
            put(DIR),
            OP_SAVEFH,
            OP_RENAME(RENAME4args {
                oldname: text("other"),
                newname: text("other2"),
            }),
            OP_RESTOREFH,
            OP_REMOVE(REMOVE4args {
                target: text("other2"),
            }),
        ],
        vec![
            put(FILE),
            OP_SAVEFH,
            put(DIR),
            OP_LINK(LINK4args {
                newname: text("another"),
            }),
        ],
        vec![
            put(DIR),
            OP_CREATE(CREATE4args {
                objtype: createtype4::NF4DIR,
                objname: text("new"),
                createattrs: mode(0o755),
            }),
            get.clone(),
        ],
        vec![put(LINK), OP_READLINK, get],
        vec![put(DIR), OP_SECINFO(SECINFO4args { name: text("file") })],
        vec![
            put(ROOT),
            OP_SECINFO_NO_NAME(secinfo_style4::SECINFO_STYLE4_CURRENT_FH),
        ],
        vec![
            put(FILE),
            OP_ACCESS(ACCESS4args { access: 0x3f }),
            OP_VERIFY(VERIFY4args {
                obj_attributes: size(10_000),
            }),
            OP_NVERIFY(NVERIFY4args {
                obj_attributes: size(10_000),
            }),
        ],
    ]
}

fn files() -> Vec<Vec<nfs_argop4>> {
    let write = |stateid, offset, data: &'static [u8]| {
        OP_WRITE(WRITE4args {
            stateid,
            offset,
            stable: stable_how4::FILE_SYNC4,
            data: Bytes::from_static(data),
        })
    };
    let read = |stateid| {
        OP_READ(READ4args {
            stateid,
            offset: 5,
            count: 5_000,
        })
    };
    let set = |attributes| {
        OP_SETATTR(SETATTR4args {
            stateid: state(0),
            obj_attributes: attributes,
        })
    };
    vec![
        vec![put(FILE), write(state(0), 3, b"some bytes"), read(state(3))],
        vec![
            put(FILE),
            write(state(2), 0, b"under a lock"),
            OP_COMMIT(COMMIT4args {
                offset: 0,
                count: 0,
            }),
        ],
        vec![put(FILE), set(size(500)), set(mode(0o600))],
        vec![
            put(FILE),
            OP_ALLOCATE(ALLOCATE4args {
                aa_stateid: state(0),
                aa_offset: 0,
                aa_length: 20_000,
            }),
            OP_DEALLOCATE(DEALLOCATE4args {
                da_stateid: state(0),
                da_offset: 100,
                da_length: 5_000,
            }),
            OP_SEEK(SEEK4args {
                sa_stateid: state(0),
                sa_offset: 0,
                sa_what: data_content4::NFS4_CONTENT_HOLE,
            }),
        ],
        vec![
            put(FILE),
            OP_SAVEFH,
            put(OTHER),
            OP_COPY(COPY4args {
                ca_src_stateid: state(0),
                ca_dst_stateid: state(1),
                ca_src_offset: 0,
                ca_dst_offset: 50,
                ca_count: 1_000,
                ca_consecutive: true,
                ca_synchronous: true,
                ca_source_server: Vec::new(),
            }),
        ],
        vec![
            put(FILE),
            OP_SETXATTR(SETXATTR4args {
                sxa_option: setxattr_option4::SETXATTR4_EITHER,
                sxa_key: text("colour"),
                sxa_value: text("red"),
            }),
            OP_GETXATTR(GETXATTR4args {
                gxa_name: text("colour"),
            }),
            OP_LISTXATTRS(LISTXATTRS4args {
                lxa_cookie: 0,
                lxa_maxcount: 1000,
            }),
            OP_REMOVEXATTR(REMOVEXATTR4args {
                rxa_name: text("colour"),
            }),
        ],
    ]
}

fn states() -> Vec<Vec<nfs_argop4>> {
    let close = |open_stateid| {
        OP_CLOSE(CLOSE4args {
            seqid: 0,
            open_stateid,
        })
    };
    let new_lock = locker4::TRUE(open_to_lock_owner4 {
        open_seqid: 0,
        open_stateid: state(0),
        lock_seqid: 0,
        lock_owner: owner("q"),
    });
    let known_lock = locker4::FALSE(exist_lock_owner4 {
        lock_stateid: state(2),
        lock_seqid: 0,
    });
    let by_name = |name| open_claim4::CLAIM_NULL(text(name));
    vec![
        vec![put(DIR), open(1, there(), by_name("file")), OP_GETFH],
        vec![
            put(DIR),
            open(3, made(createhow4::UNCHECKED4(size(0))), by_name("other")),
            OP_GETFH,
        ],
        vec![
            put(DIR),
            open(
                3,
                made(createhow4::EXCLUSIVE4_1(creatverfattr {
                    cva_verf: *b"verifier",
                    cva_attrs: mode(0o640),
                })),
                by_name("new"),
            ),
            close(stateid4 {
                seqid: 1,
                other: [0; 12],
            }),
        ],
        vec![
            put(FILE),
            open(3, there(), open_claim4::CLAIM_FH),
            OP_OPEN_DOWNGRADE(OPEN_DOWNGRADE4args {
                open_stateid: stateid4 {
                    seqid: 1,
                    other: [0; 12],
                },
                seqid: 0,
                share_access: 3,
                share_deny: 0,
            }),
        ],
        vec![
            put(FILE),
            open(
                1,
                there(),
                open_claim4::CLAIM_PREVIOUS(open_delegation_type4::OPEN_DELEGATE_NONE),
            ),
        ],
        vec![put(OTHER), close(state(1))],
        vec![put(FILE), lock(false, new_lock.clone())],
        vec![put(FILE), lock(false, known_lock)],
        vec![put(FILE), lock(true, new_lock)],
        vec![
            put(FILE),
            OP_LOCKT(LOCKT4args {
                locktype: nfs_lock_type4::READ_LT,
                offset: 0,
                length: u64::MAX,
                owner: owner("r"),
            }),
        ],
        vec![
            put(FILE),
            OP_LOCKU(LOCKU4args {
                locktype: nfs_lock_type4::WRITE_LT,
                seqid: 0,
                lock_stateid: state(2),
                offset: 10,
                length: 20,
            }),
        ],
        vec![
            OP_TEST_STATEID(TEST_STATEID4args {
                ts_stateids: vec![state(0), state(1), state(2), state(3)],
            }),
            OP_FREE_STATEID(FREE_STATEID4args {
                fsa_stateid: state(2),
            }),
        ],
        vec![
            put(FILE),
            OP_DELEGRETURN(DELEGRETURN4args {
                deleg_stateid: state(0),
            }),
        ],
    ]
}

fn lives() -> Vec<Vec<nfs_argop4>> {
    let session = [SESSION; 16];
    vec![
        vec![OP_EXCHANGE_ID(EXCHANGE_ID4args {
            eia_clientowner: client_owner4 {
                co_verifier: [1; 8],
                co_ownerid: text("another"),
            },
            eia_flags: 0,
            eia_state_protect: state_protect4_a::SP4_NONE,
            eia_client_impl_id: Vec::new(),
        })],
        vec![OP_CREATE_SESSION(CREATE_SESSION4args {
            csa_clientid: client(),
            csa_sequence: 2,
            csa_flags: CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
            csa_fore_chan_attrs: channel(),
            csa_back_chan_attrs: channel(),
            csa_cb_program: 7,
            csa_sec_parms: vec![callback_sec_parms4::AUTH_NONE],
        })],
        vec![
            OP_BACKCHANNEL_CTL(BACKCHANNEL_CTL4args {
                bca_cb_program: 7,
                bca_sec_parms: vec![callback_sec_parms4::AUTH_NONE],
            }),
            OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false }),
        ],
        vec![OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args {
            bctsa_sessid: session,
            bctsa_dir: channel_dir_from_client4::CDFC4_FORE_OR_BOTH,
            bctsa_use_conn_in_rdma_mode: false,
        })],
        vec![OP_DESTROY_SESSION(DESTROY_SESSION4args {
            dsa_sessionid: session,
        })],
        vec![OP_DESTROY_CLIENTID(DESTROY_CLIENTID4args {
            dca_clientid: client(),
        })],
        vec![
            put(DIR),
            OP_GET_DIR_DELEGATION(GET_DIR_DELEGATION4args {
                gdda_signal_deleg_avail: false,
                gdda_notification_types: vec![1],
                gdda_child_attr_delay: nfstime4 {
                    seconds: 1,
                    nseconds: 0,
                },
                gdda_dir_attr_delay: nfstime4 {
                    seconds: 1,
                    nseconds: 0,
                },
                gdda_child_attributes: vec![1],
                gdda_dir_attributes: vec![1],
            }),
        ],
    ]
}

fn of_3<P: Procedure>(arguments: &P::Arguments) -> Vec<u8> {
    let mut out = Encoder::default();
    P::encode_arguments(arguments, &mut out);
    let kind = match P::PROGRAM {
        NFS_PROGRAM => 2,
        _ => 3,
    };
    [&[kind, P::NUMBER as u8][..], &out.joined()].concat()
}

fn set3(size: Option<u64>) -> sattr3 {
    sattr3 {
        mode: Some(0o640),
        uid: None,
        gid: Some(5),
        size,
        atime: set_atime::default(time_how::SET_TO_SERVER_TIME),
        mtime: set_mtime::SET_TO_CLIENT_TIME(nfstime3 {
            seconds: 7,
            nseconds: 8,
        }),
    }
}

fn version_3() -> Vec<Vec<u8>> {
    let fh = |which| nfs_fh3 {
        data: handle(which),
    };
    let place = |name| diropargs3 {
        dir: fh(DIR),
        name: text(name),
    };
    let list = READDIRPLUS3args {
        dir: fh(DIR),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 500,
        maxcount: 4000,
    };
    vec![
        of_3::<NFSPROC3_GETATTR>(&GETATTR3args { object: fh(FILE) }),
        of_3::<NFSPROC3_SETATTR>(&SETATTR3args {
            object: fh(FILE),
            new_attributes: set3(Some(700)),
            guard: None,
        }),
        of_3::<NFSPROC3_LOOKUP>(&LOOKUP3args {
            what: place("file"),
        }),
        of_3::<NFSPROC3_ACCESS>(&ACCESS3args {
            object: fh(FILE),
            access: 0x3f,
        }),
        of_3::<NFSPROC3_READLINK>(&READLINK3args { symlink: fh(LINK) }),
        of_3::<NFSPROC3_READ>(&READ3args {
            file: fh(FILE),
            offset: 3,
            count: 5_000,
        }),
        of_3::<NFSPROC3_WRITE>(&WRITE3args {
            file: fh(FILE),
            offset: 3,
            count: 10,
            stable: stable_how::UNSTABLE,
            data: text("some bytes"),
        }),
        of_3::<NFSPROC3_CREATE>(&CREATE3args {
            r#where: place("made"),
            how: createhow3::GUARDED(set3(None)),
        }),
        of_3::<NFSPROC3_MKDIR>(&MKDIR3args {
            r#where: place("new"),
            attributes: set3(None),
        }),
        of_3::<NFSPROC3_SYMLINK>(&SYMLINK3args {
            r#where: place("pointer"),
            symlink: symlinkdata3 {
                symlink_attributes: set3(None),
                symlink_data: text("file"),
            },
        }),
        of_3::<NFSPROC3_REMOVE>(&REMOVE3args {
            object: place("made"),
        }),
        of_3::<NFSPROC3_RENAME>(&RENAME3args {
            from: place("other"),
            to: place("other2"),
        }),
        of_3::<NFSPROC3_LINK>(&LINK3args {
            file: fh(FILE),
            link: place("another"),
        }),
        of_3::<NFSPROC3_READDIR>(&READDIR3args {
            dir: fh(DIR),
            cookie: 0,
            cookieverf: [0; 8],
            count: 1000,
        }),
        of_3::<NFSPROC3_READDIRPLUS>(&list),
        of_3::<NFSPROC3_FSSTAT>(&FSSTAT3args { fsroot: fh(ROOT) }),
        of_3::<NFSPROC3_PATHCONF>(&PATHCONF3args { object: fh(FILE) }),
        of_3::<NFSPROC3_COMMIT>(&COMMIT3args {
            file: fh(FILE),
            offset: 0,
            count: 0,
        }),
        of_3::<MOUNTPROC3_MNT>(&text("/dir")),
        of_3::<MOUNTPROC3_UMNT>(&text("/dir")),
        of_3::<MOUNTPROC3_EXPORT>(&()),
    ]
}

/// Operations as [`super::Gauntlet::feed`] takes them.
pub fn input_of(minor: u32, operations: &[nfs_argop4]) -> Vec<u8> {
    let mut out = vec![(2 - minor) as u8, operations.len() as u8];
    for operation in operations {
        out.extend_from_slice(&operation.to_bytes());
    }
    out
}

/// The operations of version 4 that mutations are put together from, each in bytes.
pub fn operations() -> Vec<Bytes> {
    let all = [names(), files(), states(), lives()].concat();
    all.iter().flatten().map(Xdr::to_bytes).collect()
}

/// All, as [`super::Gauntlet::feed`] takes them.
pub fn valid() -> Vec<Vec<u8>> {
    let all = [names(), files(), states(), lives()].concat();
    let mut inputs: Vec<Vec<u8>> = all.iter().map(|it| input_of(2, it)).collect();
    inputs.extend(version_3());
    inputs
}
