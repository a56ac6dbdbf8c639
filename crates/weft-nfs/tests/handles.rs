//! File handles.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use weft_nfs::*;

fn key(fill: u8) -> [u8; KEY_BYTES] {
    [fill; KEY_BYTES]
}

fn file() -> FileHandle {
    FileHandle {
        export: 7,
        inode: 0x0123_4567_89ab_cdef,
        generation: 2,
        rights: Rights {
            read: true,
            write: true,
            sync: false,
        },
    }
}

/// What clients hold must open for ever: these bytes were computed by another implementation of HMAC-SHA-256.
#[test]
fn the_format_stays() {
    let sealer = Sealer::new(&[(5, key(0x11))]).unwrap();
    let handle = sealer.seal_file(&file());
    assert_eq!(handle.len(), FILE_HANDLE_BYTES);
    let text: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        text,
        "01010503000000070123456789abcdef000000000000000254a06fb440987f2ceca9b8f7f7d5059e"
    );
    assert_eq!(sealer.open_file(&handle), Ok(file()));
}

#[test]
fn a_handle_with_anything_changed_is_refused() {
    let sealer = Sealer::new(&[(5, key(1))]).unwrap();
    let handle = sealer.seal_file(&file());
    for bit in 0..handle.len() * 8 {
        let mut changed = handle.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        let wanted = match bit / 8 {
            0 => HandleError::Form,
            2 => HandleError::Key(changed[2]),
            _ => HandleError::Seal,
        };
        assert_eq!(sealer.open_file(&changed.into()), Err(wanted), "bit {bit}");
    }
    for length in 0..handle.len() {
        assert!(sealer.open_file(&handle.slice(..length)).is_err());
    }
    let longer = [&handle[..], &[0]].concat();
    assert_eq!(sealer.open_file(&longer.into()), Err(HandleError::Seal));
    for length in [0, 19, 65, 128] {
        let refused = sealer.open_file(&Bytes::from(vec![1; length]));
        assert_eq!(refused, Err(HandleError::Length(length)));
    }
}

#[test]
fn keys_can_be_changed() {
    let old = Sealer::new(&[(1, key(1))]).unwrap();
    let both = Sealer::new(&[(1, key(1)), (2, key(2))]).unwrap();
    let new = Sealer::new(&[(2, key(2))]).unwrap();
    let (before, after) = (old.seal_file(&file()), both.seal_file(&file()));
    assert_eq!(both.open_file(&before), Ok(file()));
    assert_eq!(new.open_file(&after), Ok(file()));
    assert_eq!(new.open_file(&before), Err(HandleError::Key(1)));
    assert_eq!(old.open_file(&after), Err(HandleError::Key(2)));
    // A number that means another key elsewhere.
    let other = Sealer::new(&[(1, key(9))]).unwrap();
    assert_eq!(other.open_file(&before), Err(HandleError::Seal));
    assert_eq!(Sealer::new(&[]).err(), Some(KeyError::None));
    let twice = Sealer::new(&[(1, key(1)), (1, key(2))]);
    assert_eq!(twice.err(), Some(KeyError::Twice(1)));
}

#[test]
fn kinds_are_not_taken_for_each_other() {
    let sealer = Sealer::new(&[(0, key(3))]).unwrap();
    let rights = Rights {
        write: true,
        ..Rights::default()
    };
    // As long as a file's body, and as long as a body can be.
    for length in [20, 44] {
        let body = vec![7; length];
        let handle = sealer.seal(Kind::Object, rights, &body);
        assert!(handle.len() <= HANDLE_BYTES_MAX);
        assert_eq!(sealer.open_file(&handle), Err(HandleError::Form));
        let opened = sealer.open(&handle).unwrap();
        assert_eq!((opened.kind, opened.rights), (Kind::Object, rights));
        assert_eq!(opened.body, body);
    }
    let short = sealer.seal(Kind::File, rights, &[0; 19]);
    assert_eq!(sealer.open_file(&short), Err(HandleError::Form));
}
