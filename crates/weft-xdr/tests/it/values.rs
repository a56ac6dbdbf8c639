//! Values against bytes that were written down by hand, from the RFCs.

use bytes::Bytes;
use std::fmt::Debug;
use weft_xdr::again::choice_again;
use weft_xdr::flexfiles::*;
use weft_xdr::nfs3::*;
use weft_xdr::{
    CUT_BYTES, DecodeError, Decoder, Encoder, Procedure, Xdr, mount3, nfs4, portmap2, rpc,
};

/// Bytes from hexadecimal digits; blanks and lines are for the reader.
fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Both ways; and every beginning of the bytes is refused, and so is more than the value.
fn is<T: Xdr + PartialEq + Debug>(value: &T, bytes: &Bytes) {
    assert_eq!(value.to_bytes(), bytes, "{value:?}");
    assert_eq!(T::from_bytes(bytes.clone()).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        let result = T::from_bytes(bytes.slice(..length));
        assert_eq!(
            result,
            Err(DecodeError::Short),
            "{length} bytes of {value:?}"
        );
    }
    let more = [&bytes[..], &[0; 4]].concat();
    assert_eq!(T::from_bytes(more.into()), Err(DecodeError::LeftOver(4)));
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn an_nfs3_reply_with_attributes() {
    let time = |seconds| nfstime3 {
        seconds,
        nseconds: 5,
    };
    let results = GETATTR3res::NFS3_OK(GETATTR3resok {
        obj_attributes: fattr3 {
            r#type: ftype3::NF3DIR,
            mode: 0o755,
            nlink: 3,
            uid: 1000,
            gid: 100,
            size: 1 << 32,
            used: 4096,
            rdev: specdata3 {
                specdata1: 8,
                specdata2: 1,
            },
            fsid: 0x0102_0304_0506_0708,
            fileid: 9,
            atime: time(1),
            mtime: time(2),
            ctime: time(3),
        },
    });
    let bytes = hex(
        "00000000 00000002 000001ed 00000003 000003e8 00000064 0000000100000000 0000000000001000
         00000008 00000001 0102030405060708 0000000000000009
         00000001 00000005 00000002 00000005 00000003 00000005",
    );
    is(&results, &bytes);
    assert_eq!(results.status(), nfsstat3::NFS3_OK);
    is(
        &GETATTR3res::default(nfsstat3::NFS3ERR_STALE),
        &hex("00000046"),
    );
    assert_eq!(
        GETATTR3res::from_bytes(hex("0000000b")),
        Err(DecodeError::Member {
            of: "nfsstat3",
            value: 11
        })
    );
}

#[test]
fn optional_values_lists_and_padding() {
    let entry = |fileid, name, cookie| entry3 {
        fileid,
        name: text(name),
        cookie,
    };
    let list = dirlist3 {
        entries: vec![entry(1, ".", 1), entry(7, "abcde", 2)],
        eof: true,
    };
    is(
        &list,
        &hex(
            "00000001 0000000000000001 00000001 2e000000 0000000000000001
              00000001 0000000000000007 00000005 6162636465000000 0000000000000002
              00000000 00000001",
        ),
    );
    // What stands in the padding does not matter; a bool must be one.
    let sloppy =
        hex("00000001 0000000000000001 00000001 2effffff 0000000000000001 00000000 00000000");
    assert_eq!(
        dirlist3::from_bytes(sloppy).unwrap().entries,
        [entry(1, ".", 1)]
    );
    assert_eq!(
        dirlist3::from_bytes(hex("00000002")),
        Err(DecodeError::Bool(2))
    );
    let wcc = wcc_data {
        before: Some(wcc_attr {
            size: 6,
            mtime: nfstime3 {
                seconds: 1,
                nseconds: 2,
            },
            ctime: nfstime3 {
                seconds: 3,
                nseconds: 4,
            },
        }),
        after: None,
    };
    is(
        &wcc,
        &hex("00000001 0000000000000006 00000001 00000002 00000003 00000004 00000000"),
    );
}

#[test]
fn unions_with_several_cases_and_with_a_default() {
    let handle = nfs_fh3 {
        data: hex("0a0b0c"),
    };
    let place = diropargs3 {
        dir: handle,
        name: text("f"),
    };
    let head = "00000003 0a0b0c00 00000001 66000000";
    let nothing = sattr3 {
        mode: Some(0o600),
        uid: None,
        gid: Some(4),
        size: None,
        atime: set_atime::default(time_how::SET_TO_SERVER_TIME),
        mtime: set_mtime::SET_TO_CLIENT_TIME(nfstime3 {
            seconds: 1,
            nseconds: 2,
        }),
    };
    let attributes =
        "00000001 00000180 00000000 00000001 00000004 00000000 00000001 00000002 00000001 00000002";
    for (how, bytes) in [
        (
            createhow3::UNCHECKED(nothing.clone()),
            format!("00000000 {attributes}"),
        ),
        (
            createhow3::GUARDED(nothing.clone()),
            format!("00000001 {attributes}"),
        ),
        (
            createhow3::EXCLUSIVE([7; 8]),
            "00000002 0707070707070707".to_owned(),
        ),
    ] {
        let arguments = CREATE3args {
            r#where: place.clone(),
            how,
        };
        is(&arguments, &hex(&format!("{head} {bytes}")));
    }
    // MKNOD of a directory has no data: RFC 1813 lets the server answer NFS3ERR_BADTYPE.
    let what = MKNOD3args {
        r#where: place,
        what: mknoddata3::default(ftype3::NF3DIR),
    };
    is(&what, &hex(&format!("{head} 00000002")));
}

#[test]
fn lists_in_lists() {
    let exports = vec![
        mount3::exportnode {
            ex_dir: text("/a"),
            ex_groups: vec![
                mount3::groupnode { gr_name: text("x") },
                mount3::groupnode { gr_name: text("y") },
            ],
        },
        mount3::exportnode {
            ex_dir: text("/"),
            ex_groups: vec![],
        },
    ];
    let bytes = hex(
        "00000001 00000002 2f610000 00000001 00000001 78000000 00000001 00000001 79000000 00000000
         00000001 00000001 2f000000 00000000
         00000000",
    );
    let mut out = Encoder::default();
    mount3::MOUNTPROC3_EXPORT::encode_results(&exports, &mut out);
    assert_eq!(out.joined(), bytes);
    let mut input = Decoder::new(bytes);
    assert_eq!(
        mount3::MOUNTPROC3_EXPORT::decode_results(&mut input),
        Ok(exports)
    );
    let map = portmap2::mapping {
        prog: 100_003,
        vers: 3,
        prot: 6,
        port: 2049,
    };
    let list: portmap2::pmaplist = vec![portmap2::pmaplist_entry { map }];
    let mut out = Encoder::default();
    portmap2::PMAPPROC_DUMP::encode_results(&list, &mut out);
    assert_eq!(
        out.joined(),
        hex("00000001 000186a3 00000003 00000006 00000801 00000000")
    );
}

#[test]
fn a_compound_with_what_was_added_later() {
    use nfs4::*;
    let arguments = COMPOUND4args {
        tag: text("t"),
        minorversion: 2,
        argarray: vec![
            nfs_argop4::OP_SEQUENCE(SEQUENCE4args {
                sa_sessionid: *b"0123456789abcdef",
                sa_sequenceid: 1,
                sa_slotid: 2,
                sa_highest_slotid: 3,
                sa_cachethis: true,
            }),
            nfs_argop4::OP_PUTROOTFH,
            nfs_argop4::OP_GETATTR(GETATTR4args {
                attr_request: vec![0x18, 0x0030_0000],
            }),
            nfs_argop4::OP_GETXATTR(GETXATTR4args {
                gxa_name: text("user.a"),
            }),
        ],
    };
    is(
        &arguments,
        &hex("00000001 74000000 00000002 00000004
              00000035 30313233343536373839616263646566 00000001 00000002 00000003 00000001
              00000018
              00000009 00000002 00000018 00300000
              00000048 00000006 757365722e610000"),
    );
    assert_eq!(
        COMPOUND4args::from_bytes(hex("00000000 00000002 00000001 0000004c")),
        Err(DecodeError::Member {
            of: "nfs_opnum4",
            value: 76
        })
    );
}

#[test]
fn a_flexible_files_layout() {
    let layout = ff_layout4 {
        ffl_stripe_unit: 65536,
        ffl_mirrors: vec![ff_mirror4 {
            ffm_data_servers: vec![ff_data_server4 {
                ffds_deviceid: [1; 16],
                ffds_efficiency: 100,
                ffds_stateid: nfs4::stateid4 {
                    seqid: 0,
                    other: [2; 12],
                },
                ffds_fh_vers: vec![hex("aabb")],
                ffds_user: text("17"),
                ffds_group: text("18"),
            }],
        }],
        ffl_flags: FF_FLAGS_NO_READ_IO,
        ffl_stats_collect_hint: 9,
    };
    is(
        &layout,
        &hex("0000000000010000 00000001 00000001
              01010101010101010101010101010101 00000064 00000000 020202020202020202020202
              00000001 00000002 aabb0000 00000002 31370000 00000002 31380000
              00000004 00000009"),
    );
}

#[test]
fn a_call_as_rfc_5531_has_it() {
    let none = || rpc::opaque_auth {
        flavor: rpc::auth_flavor::AUTH_NONE,
        body: Bytes::new(),
    };
    let call = rpc::rpc_msg {
        xid: 5,
        body: rpc::rpc_msg_body::CALL(rpc::call_body {
            rpcvers: 2,
            prog: 100_003,
            vers: 3,
            proc: 1,
            cred: none(),
            verf: none(),
        }),
    };
    is(
        &call,
        &hex(
            "00000005 00000000 00000002 000186a3 00000003 00000001 00000000 00000000 00000000 00000000",
        ),
    );
    let denied = rpc::rpc_msg {
        xid: 5,
        body: rpc::rpc_msg_body::REPLY(rpc::reply_body::MSG_DENIED(
            rpc::rejected_reply::RPC_MISMATCH(rpc::rejected_reply_mismatch_info {
                low: 2,
                high: 2,
            }),
        )),
    };
    is(
        &denied,
        &hex("00000005 00000001 00000001 00000000 00000002 00000002"),
    );
}

#[test]
fn lengths_are_not_believed() {
    let long = |bound| DecodeError::TooLong {
        length: bound + 1,
        bound,
    };
    // A handle of 65 bytes, 17 groups: more than the protocol allows, whether they are there or not.
    assert_eq!(nfs_fh3::from_bytes(hex("00000041")), Err(long(64)));
    let groups = hex("00000000 00000000 00000000 00000000 00000011");
    assert_eq!(rpc::authsys_parms::from_bytes(groups), Err(long(16)));
    // As much as can be said, where the protocol allows it and the record does not have it.
    for bytes in ["ffffffff", "7fffffff 00000000", "00000005 61626364"] {
        let name = format!("00000000 {bytes}");
        assert_eq!(
            diropargs3::from_bytes(hex(&name)),
            Err(DecodeError::Short),
            "{bytes}"
        );
    }
    for count in ["ffffffff", "00000100", "00000002"] {
        let compound = format!("00000000 00000000 {count} 00000018");
        let result = nfs4::COMPOUND4args::from_bytes(hex(&compound));
        assert_eq!(result, Err(DecodeError::Short), "{count}");
    }
}

#[test]
fn long_data_is_a_part_of_its_own_and_names_are_slices() {
    let data = Bytes::from(vec![7; CUT_BYTES + 1]);
    let write = WRITE3args {
        file: nfs_fh3 { data: hex("01") },
        offset: 0,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data: data.clone(),
    };
    let mut out = Encoder::default();
    write.encode(&mut out);
    write.encode(&mut out);
    let length = out.len();
    let mut parts = std::collections::VecDeque::new();
    out.drain_into(&mut parts);
    assert_eq!(parts.len(), 5);
    assert_eq!(parts[1].as_ptr(), data.as_ptr());
    assert_eq!(parts[3].as_ptr(), data.as_ptr());
    assert_eq!(parts.iter().map(Bytes::len).sum::<usize>(), length);
    // And back, from parts that are cut there.
    let mut input = Decoder::of_parts(parts);
    for _ in 0..2 {
        let again = WRITE3args::decode(&mut input).unwrap();
        assert_eq!(again.data.as_ptr(), data.as_ptr());
        assert!(again == write);
    }
    input.finish().unwrap();
    // A cut through a value is refused, not joined.
    let whole = write.to_bytes();
    for at in [2, 10, 100] {
        let mut input = Decoder::of_parts([whole.slice(..at), whole.slice(at..)]);
        let result = WRITE3args::decode(&mut input).map(|_| ());
        assert_eq!(result, Err(DecodeError::Split), "cut at {at}");
    }
    let record = whole.clone();
    let name = WRITE3args::from_bytes(whole).unwrap().file.data;
    assert!(record.as_ptr_range().contains(&name.as_ptr()));
}

/// Every procedure and every type with bytes that are nearly right: small words, so that enums, bools and counts are
/// often valid.
#[test]
fn whatever_decodes_can_be_written_and_read_again() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    // Arguments and results of all procedures, and types that stand alone.
    let choices = (0..=u8::MAX).take_while(|choice| choice_again(*choice, Bytes::new()).is_some());
    let choices = choices.count() as u64;
    assert_eq!(choices, 2 * (6 + 6 + 22 + 2 + 2) + 11);
    let mut decoded = 0;
    for _ in 0..60_000 {
        let count = random(24);
        let bytes: Bytes = (0..count)
            .flat_map(|_| {
                let word = match random(8) {
                    0 => random(1 << 32) as u32,
                    1 => random(80) as u32,
                    2 => 0xffff_ffff - random(4) as u32,
                    _ => random(3) as u32,
                };
                word.to_be_bytes()
            })
            .collect();
        let result = choice_again(random(choices) as u8, bytes);
        decoded += usize::from(result.unwrap().is_ok());
    }
    // Else nothing was tried.
    assert!(decoded > 500, "{decoded} of 60000 decoded");
}

/// The files that fuzzing begins with, changed here and there: what the fuzzer does, in a short form that always runs.
#[test]
fn kept_values_and_what_becomes_of_them() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut decoded = 0;
    for (choice, file) in [
        (40, "create-args.bin"),
        (57, "readdir-results.bin"),
        (70, "compound-args.bin"),
        (78, "layout.bin"),
    ] {
        let path = format!(
            "{}/../../tests/compat/nfs/{file}",
            env!("CARGO_MANIFEST_DIR")
        );
        #[allow(clippy::disallowed_methods, reason = "reads a file of the source")]
        let kept = std::fs::read(path).unwrap();
        assert_eq!(
            choice_again(choice, kept.clone().into()),
            Some(Ok(())),
            "{file}"
        );
        for _ in 0..5_000 {
            let mut bytes = kept.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = [0, 1, 2, 3, 4, 0x7f, 0xff, random(256) as u8][random(8)];
            }
            if random(4) == 0 {
                bytes.truncate(random(bytes.len()));
            }
            decoded += usize::from(choice_again(choice, bytes.into()).unwrap().is_ok());
        }
    }
    assert!(decoded > 1000, "{decoded} of 20000 decoded");
}
