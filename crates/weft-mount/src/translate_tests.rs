use super::*;

fn setattr(valid: u32) -> SetattrIn {
    SetattrIn {
        valid,
        fh: 0,
        size: 5,
        atime: (-1, 999_999_999),
        mtime: (1, 0),
        mode: libc::S_IFREG | 0o4755,
        uid: 3,
        gid: 4,
    }
}

#[test]
fn only_what_is_said_to_be_given_is_set() {
    assert_eq!(set_attr(&setattr(0)), Ok(SetAttr::default()));
    let set = set_attr(&setattr(fattr::MODE | fattr::GID)).unwrap();
    assert_eq!((set.mode, set.uid, set.gid), (Some(0o4755), None, Some(4)));
    let times = fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW;
    let set = set_attr(&setattr(times)).unwrap();
    assert_eq!(set.mtime, Some(SetTime::Now));
    let before_1970 = Time {
        seconds: -1,
        nanos: 999_999_999,
    };
    assert_eq!(set.atime, Some(SetTime::At(before_1970)));
}

#[test]
fn a_second_has_no_more_nanoseconds() {
    let mut set = setattr(fattr::ATIME);
    set.atime.1 = 1_000_000_000;
    assert_eq!(set_attr(&set), Err(Errno(libc::EINVAL)));
}

#[test]
fn set_group_id_without_group_execution_is_no_privilege() {
    assert_eq!(without_set_id(0o4755), Some(0o755));
    assert_eq!(without_set_id(0o6755), Some(0o755));
    assert_eq!(without_set_id(0o2644), None);
    assert_eq!(without_set_id(0o6644), Some(0o2644));
    assert_eq!(without_set_id(0o1777), None);
}

#[test]
fn open_flags_are_those_of_the_access_mode() {
    let flags = |flags: i32| {
        let open = open_flags(flags as u32);
        (open.read, open.write, open.truncate, open.sync)
    };
    assert_eq!(flags(libc::O_RDONLY), (true, false, false, false));
    assert_eq!(
        flags(libc::O_WRONLY | libc::O_TRUNC),
        (false, true, true, false)
    );
    assert_eq!(
        flags(libc::O_RDWR | libc::O_SYNC),
        (true, true, false, true)
    );
    assert!(!open_flags((libc::O_WRONLY | libc::O_APPEND) as u32).append);
}

#[test]
fn locks_to_the_end_of_the_file_have_one_end_inside() {
    let asked = LockIn {
        owner: 1,
        start: 10,
        end: i64::MAX as u64,
        kind: libc::F_WRLCK,
        pid: 2,
        flock: false,
    };
    let lock = file_lock(&asked).unwrap();
    assert_eq!(lock.last, u64::MAX);
    assert_eq!(lock_kind_out(&lock), libc::F_WRLCK);
    let odd = LockIn { kind: 77, ..asked };
    assert_eq!(file_lock(&odd), Err(Errno(libc::EINVAL)));
}

#[test]
fn what_is_not_there_is_refused_and_not_taken_for_something_else() {
    let collapse = libc::FALLOC_FL_COLLAPSE_RANGE as u32;
    assert_eq!(allocate(collapse), Err(errno::UNSUPPORTED));
    // Punching without keeping the size does not exist.
    let punch = libc::FALLOC_FL_PUNCH_HOLE as u32;
    assert_eq!(allocate(punch), Err(errno::UNSUPPORTED));
    assert!(rename_flags(libc::RENAME_WHITEOUT).unwrap().whiteout);
    assert!(rename_flags(libc::RENAME_WHITEOUT | libc::RENAME_EXCHANGE).is_err());
    assert!(rename_flags(libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE).is_err());
    assert!(xattr_flags(3).is_err());
    assert!(kind_of(libc::S_IFDIR).is_none());
    for name in [&b"system.posix_acl_access"[..], b"security.selinux"] {
        assert_eq!(refuse_foreign_attributes(name), Err(errno::UNSUPPORTED));
    }
    for name in [&b"user.system."[..], b"security.capability"] {
        assert_eq!(refuse_foreign_attributes(name), Ok(()));
    }
}
