use super::*;

/// A request as the kernel lays it out.
fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    Out::default()
        .u32((IN_HEADER + body.len()) as u32)
        .u32(opcode)
        .u64(77)
        .u64(node)
        .u32(1000)
        .u32(1001)
        .u32(4242)
        .u32(0)
        .raw(body)
        .into_bytes()
}

fn decode(opcode: u32, body: &[u8]) -> Result<Call, Malformed> {
    let message = message(opcode, 9, body);
    let header = Header::decode(&message)?;
    Call::decode(&header, &message[IN_HEADER..], None)
}

#[test]
fn a_header_is_decoded_and_a_wrong_length_refused() {
    let good = message(3, 5, &[0; 16]);
    let header = Header::decode(&good).unwrap();
    assert_eq!((header.opcode, header.unique, header.node), (3, 77, 5));
    assert_eq!((header.uid, header.gid, header.pid), (1000, 1001, 4242));
    assert_eq!(Header::decode(&good[..good.len() - 1]), Err(Malformed));
    assert_eq!(Header::decode(&good[..20]), Err(Malformed));
    assert_eq!(Header::decode(&[]), Err(Malformed));
}

#[test]
fn names_end_at_their_nul() {
    let name = Bytes::from_static;
    assert_eq!(
        decode(1, b"file\0"),
        Ok(Call::Lookup {
            name: name(b"file")
        })
    );
    assert_eq!(decode(1, b"file"), Err(Malformed));
    assert_eq!(
        decode(6, b"name\0target/of it\0"),
        Ok(Call::Symlink {
            name: name(b"name"),
            target: name(b"target/of it"),
        })
    );
    let body = Out::default().u64(12).u32(1).u32(0).raw(b"a\0b\0");
    assert_eq!(
        decode(45, &body.into_bytes()),
        Ok(Call::Rename {
            name: name(b"a"),
            new_parent: 12,
            new_name: name(b"b"),
            flags: 1,
        })
    );
}

#[test]
fn a_read_tells_whether_it_names_the_owner_of_locks() {
    // Handle, offset, size, flags, owner of locks, flags of the open, padding.
    let read = |flags| {
        let body = Out::default().u64(3).u64(8192).u32(4096).u32(flags);
        decode(15, &body.u64(6).u32(1).u32(0).into_bytes())
    };
    for flags in [0, READ_LOCKOWNER] {
        let call = Call::Read {
            fh: 3,
            offset: 8192,
            size: 4096,
            flags,
        };
        assert_eq!(read(flags), Ok(call));
    }
}

#[test]
fn a_write_takes_its_data_from_either_place() {
    let fields = |size: u32| {
        Out::default()
            .u64(3)
            .u64(4096)
            .u32(size)
            .u32(WRITE_KILL_SUIDGID)
            .u64(0)
            .u32(libc::O_APPEND as u32)
            .u32(0)
    };
    let expected = Call::Write {
        fh: 3,
        offset: 4096,
        flags: WRITE_KILL_SUIDGID,
        open_flags: libc::O_APPEND as u32,
        data: Bytes::from_static(b"hello"),
    };
    let inline = fields(5).raw(b"hello").into_bytes();
    assert_eq!(decode(opcode::WRITE, &inline), Ok(expected.clone()));
    assert_eq!(inline.len() - 5, WRITE_IN);

    let whole = message(opcode::WRITE, 9, &inline);
    let header = Header::decode(&whole).unwrap();
    let taken = |data: &'static [u8]| {
        let fixed = &inline[..WRITE_IN];
        Call::decode(&header, fixed, Some(Bytes::from_static(data)))
    };
    assert_eq!(taken(b"hello"), Ok(expected));
    // The size told is not the size sent.
    assert_eq!(taken(b"hell"), Err(Malformed));
    assert_eq!(
        decode(opcode::WRITE, &fields(6).raw(b"hello").into_bytes()),
        Err(Malformed)
    );
}

#[test]
fn batches_of_forgets_are_bounded_by_their_bytes() {
    let body = Out::default().u32(2).u32(0).u64(7).u64(1).u64(8).u64(2);
    assert_eq!(
        decode(42, &body.into_bytes()),
        Ok(Call::Forget(vec![(7, 1), (8, 2)]))
    );
    let lie = Out::default().u32(u32::MAX).u32(0).u64(7).u64(1);
    assert_eq!(decode(42, &lie.into_bytes()), Err(Malformed));
    assert_eq!(
        decode(2, &5u64.to_ne_bytes()),
        Ok(Call::Forget(vec![(9, 5)]))
    );
}

#[test]
fn no_cut_of_any_request_panics() {
    let body: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
    for opcode in 0..64 {
        for length in 0..body.len() {
            let _ = decode(opcode, &body[..length]);
        }
    }
    assert_eq!(decode(9999, &[]), Ok(Call::Unknown(9999)));
}

#[test]
fn init_reads_the_upper_flags_only_if_they_are_announced() {
    let plain = Out::default().u32(7).u32(31).u32(131_072).u32(1);
    let Ok(Call::Init(offer)) = decode(26, &plain.into_bytes()) else {
        panic!();
    };
    assert_eq!((offer.minor, offer.flags), (31, 1));
    let wide = Out::default()
        .u32(7)
        .u32(45)
        .u32(131_072)
        .u32(init::INIT_EXT as u32)
        .u32(1 << 4);
    let Ok(Call::Init(offer)) = decode(26, &wide.into_bytes()) else {
        panic!();
    };
    assert_eq!(offer.flags, init::INIT_EXT | init::DIRECT_IO_ALLOW_MMAP);
}

#[test]
fn replies_have_the_sizes_that_the_kernel_expects() {
    let attr = AttrOut::default();
    assert_eq!(Out::default().attr_out(&attr, 1).len(), 104);
    assert_eq!(Out::default().entry_out(&attr, 1, 1).len(), 128);
    assert_eq!(Out::default().open_out(1, 0).len(), 16);
    assert_eq!(
        out_header(5, libc::EIO, 0)[4..8],
        (-libc::EIO).to_ne_bytes()
    );
    // A notification names itself by a positive number where replies have their error.
    assert_eq!(notify_header(NOTIFY_INC_EPOCH, 0)[4..8], 8i32.to_ne_bytes());
}

#[test]
fn entries_of_a_listing_are_whole_or_absent() {
    let mut out = Out::default();
    assert!(out.dirent(5, 1, libc::S_IFREG, b"abc", 32));
    assert_eq!(out.len(), 32);
    assert!(!out.dirent(6, 2, libc::S_IFREG, b"d", 63));
    assert_eq!(out.len(), 32);
    assert!(out.dirent(6, 2, libc::S_IFREG, b"d", 64));
    let bytes = out.into_bytes();
    assert_eq!(bytes[20..24], 8u32.to_ne_bytes());
    assert_eq!(bytes[24..27], *b"abc");

    let mut plus = Out::default();
    let attr = AttrOut {
        ino: 5,
        ..AttrOut::default()
    };
    assert!(plus.direntplus(5, 1, libc::S_IFDIR, b"abc", Some((&attr, 9, 9)), 160));
    assert!(!plus.direntplus(6, 2, libc::S_IFDIR, b"d", None, 160));
    let bytes = plus.into_bytes();
    assert_eq!(bytes.len(), 160);
    assert_eq!(bytes[..8], 5u64.to_ne_bytes());
    // Without attributes the entry has no inode, so that the kernel counts no lookup.
    let mut bare = Out::default();
    assert!(bare.direntplus(6, 2, libc::S_IFDIR, b"d", None, 160));
    let bytes = bare.into_bytes();
    assert_eq!(bytes[..8], 0u64.to_ne_bytes());
    assert_eq!(bytes[128..136], 6u64.to_ne_bytes());
}
