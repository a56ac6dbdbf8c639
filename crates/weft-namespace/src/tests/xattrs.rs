use super::*;
use crate::{XATTR_TOTAL_MAX, XATTR_VALUE_MAX};
use weft_wire::proto::{Removexattr, Setxattr};

fn set(ino: Ino, name: &str, value: &[u8]) -> Setxattr {
    let (name, value) = (name.to_owned().into(), value.to_vec().into());
    Setxattr {
        ino: ino.0,
        name,
        value,
        ..Setxattr::default()
    }
}

fn remove(ino: Ino, name: &str) -> Op {
    Op::Removexattr(Removexattr {
        ino: ino.0,
        name: name.to_owned().into(),
    })
}

fn names(w: &World, cred: &Cred, ino: Ino) -> Vec<String> {
    let names = w.state.listxattr(cred, ino).unwrap();
    names
        .iter()
        .map(|n| String::from_utf8(n.to_vec()).unwrap())
        .collect()
}

#[test]
fn set_get_list_remove() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let reply = w.ok(&user(1), Op::Setxattr(set(f, "user.b", b"2")));
    assert_eq!(reply.attr.unwrap().ctime, w.now());
    w.ok(&user(1), Op::Setxattr(set(f, "user.a", b"")));
    assert_eq!(w.state.getxattr(&user(2), f, b"user.b").unwrap(), b"2");
    assert_eq!(w.state.getxattr(&user(2), f, b"user.a").unwrap(), b"");
    assert_eq!(names(&w, &user(2), f), ["user.a", "user.b"]);
    let create_only = Setxattr {
        create_only: true,
        ..set(f, "user.a", b"x")
    };
    assert_eq!(
        w.fails(&user(1), Op::Setxattr(create_only.clone())),
        Errno::EEXIST
    );
    let replace_only = Setxattr {
        replace_only: true,
        ..set(f, "user.c", b"x")
    };
    assert_eq!(
        w.fails(&user(1), Op::Setxattr(replace_only.clone())),
        Errno::ENODATA
    );
    let both = Setxattr {
        replace_only: true,
        ..create_only
    };
    assert_eq!(w.fails(&user(1), Op::Setxattr(both)), Errno::EINVAL);
    w.ok(
        &user(1),
        Op::Setxattr(Setxattr {
            name: "user.a".into(),
            ..replace_only
        }),
    );
    assert_eq!(w.state.getxattr(&user(1), f, b"user.a").unwrap(), b"x");
    w.ok(&user(1), remove(f, "user.a"));
    assert_eq!(w.fails(&user(1), remove(f, "user.a")), Errno::ENODATA);
    assert_eq!(
        w.state.getxattr(&user(1), f, b"user.a"),
        Err(Errno::ENODATA)
    );
    w.ok(&user(1), remove(f, "user.b"));
    assert!(names(&w, &root(), f).is_empty());
}

#[test]
fn user_attributes_go_by_file_permission() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o640);
    w.ok(&user(1), Op::Setxattr(set(f, "user.a", b"x")));
    assert_eq!(
        w.fails(&user(2), Op::Setxattr(set(f, "user.a", b"y"))),
        Errno::EACCES
    );
    assert_eq!(w.fails(&user(2), remove(f, "user.a")), Errno::EACCES);
    assert_eq!(w.state.getxattr(&user(2), f, b"user.a"), Err(Errno::EACCES));
    let p = w.make(&user(1), ROOT_INO, "p", FileKind::Fifo, 0o777);
    let l = w.make(&user(1), ROOT_INO, "l", FileKind::Symlink, 0o777);
    for ino in [p, l] {
        assert_eq!(
            w.fails(&root(), Op::Setxattr(set(ino, "user.a", b"y"))),
            Errno::EPERM
        );
        assert_eq!(
            w.state.getxattr(&root(), ino, b"user.a"),
            Err(Errno::ENODATA)
        );
    }
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o1777);
    assert_eq!(
        w.fails(&user(2), Op::Setxattr(set(d, "user.a", b"y"))),
        Errno::EPERM
    );
    w.ok(&user(1), Op::Setxattr(set(d, "user.a", b"y")));
    w.chmod(d, 0o777);
    w.ok(&user(2), Op::Setxattr(set(d, "user.b", b"y")));
}

#[test]
fn trusted_and_security_are_roots() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o666);
    for name in ["trusted.a", "security.a"] {
        assert_eq!(
            w.fails(&user(1), Op::Setxattr(set(f, name, b"y"))),
            Errno::EPERM
        );
        w.ok(&root(), Op::Setxattr(set(f, name, b"y")));
        assert_eq!(w.fails(&user(1), remove(f, name)), Errno::EPERM);
    }
    assert_eq!(
        w.state.getxattr(&user(1), f, b"trusted.a"),
        Err(Errno::ENODATA)
    );
    assert_eq!(w.state.getxattr(&user(2), f, b"security.a").unwrap(), b"y");
    assert_eq!(names(&w, &user(1), f), ["security.a"]);
    assert_eq!(names(&w, &root(), f), ["security.a", "trusted.a"]);
    w.ok(&root(), remove(f, "trusted.a"));
}

#[test]
fn names_and_bounds() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o666);
    let long = format!("user.{}", "x".repeat(251));
    for (name, errno) in [
        ("", Errno::ERANGE),
        (&long[..], Errno::ERANGE),
        ("user.", Errno::EINVAL),
        ("user.a\0b", Errno::EINVAL),
        ("system.posix_acl_access", Errno::EOPNOTSUPP),
        ("system.posix_acl_default", Errno::EOPNOTSUPP),
        ("system.other", Errno::EOPNOTSUPP),
        ("plain", Errno::EOPNOTSUPP),
    ] {
        assert_eq!(
            w.fails(&root(), Op::Setxattr(set(f, name, b"v"))),
            errno,
            "{name}"
        );
        assert_eq!(w.fails(&root(), remove(f, name)), errno, "{name}");
        assert_eq!(
            w.state.getxattr(&root(), f, name.as_bytes()),
            Err(errno),
            "{name}"
        );
    }
    w.ok(&root(), Op::Setxattr(set(f, &long[..255], b"v")));
    let big = vec![1; XATTR_VALUE_MAX];
    let bigger = vec![1; XATTR_VALUE_MAX + 1];
    assert_eq!(
        w.fails(&root(), Op::Setxattr(set(f, "user.a", &bigger))),
        Errno::E2BIG
    );
    for i in 0..XATTR_TOTAL_MAX / XATTR_VALUE_MAX - 1 {
        w.ok(&root(), Op::Setxattr(set(f, &format!("user.{i}"), &big)));
    }
    assert_eq!(
        w.fails(&root(), Op::Setxattr(set(f, "user.last", &big))),
        Errno::ENOSPC
    );
    // In place of another it fits.
    w.ok(&root(), Op::Setxattr(set(f, "user.0", &big)));

    let g = w.file(&root(), ROOT_INO, "g", 0o666);
    let mut fitted = 0;
    loop {
        let name = format!("user.{fitted:0>250}");
        if w.apply(w.session, &root(), Op::Setxattr(set(g, &name, b"")))
            .failure_errno
            != 0
        {
            break;
        }
        fitted += 1;
    }
    assert_eq!(fitted, 256);
    w.ok(&root(), unlink(ROOT_INO, "g"));
    w.ok(&root(), unlink(ROOT_INO, "f"));
    let rest = w.state.counts;
    assert_eq!((rest.xattrs, rest.xattr_bytes), (0, 0));
}
