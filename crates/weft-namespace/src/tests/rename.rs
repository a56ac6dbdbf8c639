use super::*;
use weft_wire::proto::Link;

fn mv(parent: Ino, name: &str, new_parent: Ino, new_name: &str) -> Op {
    Op::Rename(rename(parent, name, new_parent, new_name))
}

fn swap(parent: Ino, name: &str, new_parent: Ino, new_name: &str) -> Op {
    Op::Rename(Rename {
        exchange: true,
        ..rename(parent, name, new_parent, new_name)
    })
}

#[test]
fn a_name_moves_and_keeps_its_inode() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o755);
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    let reply = w.ok(&root(), mv(ROOT_INO, "f", d, "g"));
    assert_eq!(w.find(ROOT_INO, "f"), None);
    assert_eq!(w.find(d, "g"), Some(f));
    assert_eq!(reply.attr.unwrap().ctime, w.now());
    assert_eq!(reply.parent.unwrap().mtime, w.now());
    assert_eq!(reply.new_parent.unwrap().mtime, w.now());
    assert!(reply.victim.is_none());
    let reply = w.ok(&root(), mv(d, "g", d, "h"));
    assert!(reply.new_parent.is_none());
    assert_eq!(w.find(d, "h"), Some(f));
}

#[test]
fn two_names_of_one_file_both_stay_and_the_reply_says_so() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    let link = Link {
        ino: f.0,
        parent: ROOT_INO.0,
        name: "g".into(),
        ..Link::default()
    };
    w.ok(&root(), Op::Link(link));
    for op in [
        mv(ROOT_INO, "f", ROOT_INO, "g"),
        swap(ROOT_INO, "f", ROOT_INO, "g"),
    ] {
        let reply = w.ok(&root(), op);
        let victim = reply.victim.unwrap();
        assert_eq!((victim.ino, victim.nlink), (f.0, 2));
        assert_eq!(w.find(ROOT_INO, "f"), Some(f));
        assert_eq!(w.find(ROOT_INO, "g"), Some(f));
    }
}

#[test]
fn a_directory_that_moves_takes_its_links_along() {
    let mut w = World::new();
    let a = w.mkdir(&root(), ROOT_INO, "a", 0o755);
    let b = w.mkdir(&root(), ROOT_INO, "b", 0o755);
    let s = w.mkdir(&root(), a, "s", 0o755);
    w.ok(&root(), mv(a, "s", b, "t"));
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink), (2, 3));
    assert_eq!(w.find(s, ".."), Some(b));
    // Over an empty directory, and within one directory.
    w.mkdir(&root(), b, "u", 0o755);
    let reply = w.ok(&root(), mv(b, "t", b, "u"));
    assert_eq!(w.attr(b).nlink, 3);
    assert_eq!(reply.victim.unwrap().nlink, 0);
    w.mkdir(&root(), a, "v", 0o755);
    w.ok(&root(), mv(b, "u", a, "v"));
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink), (3, 2));
}

#[test]
fn what_is_replaced_goes_and_its_place_in_the_listing_stays() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    let g = w.file(&root(), ROOT_INO, "g", 0o644);
    let cookie = |w: &World| {
        let (entries, ..) = w.state.readdir(&root(), ROOT_INO, 0, 9).unwrap();
        entries.iter().find(|e| &e.name[..] == b"g").unwrap().cookie
    };
    let before = cookie(&w);
    let reply = w.ok(&root(), mv(ROOT_INO, "f", ROOT_INO, "g"));
    assert_eq!(cookie(&w), before);
    let victim = reply.victim.unwrap();
    assert_eq!((victim.ino, victim.nlink), (g.0, 0));
    assert_eq!(w.find(ROOT_INO, "g"), Some(f));
    assert_eq!(w.state.inode(g), Err(Errno::ESTALE));
    assert_eq!(w.state.deletions(9).len(), 2);

    let h = w.file(&root(), ROOT_INO, "h", 0o644);
    let op = Rename {
        keep_open: true,
        ..rename(ROOT_INO, "g", ROOT_INO, "h")
    };
    w.ok(&root(), Op::Rename(op));
    assert_eq!(w.attr(h).nlink, 0);
    assert_eq!(w.state.holds_of(w.session()), [h]);
}

#[test]
fn two_names_of_one_file_stay_both() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    w.ok(&root(), link(f, ROOT_INO, "g"));
    let before = w.state.clone();
    let reply = w.ok(&root(), mv(ROOT_INO, "f", ROOT_INO, "g"));
    assert_eq!(reply.attr.unwrap().ino, f.0);
    assert_eq!(w.state, before);
    w.ok(&root(), mv(ROOT_INO, "f", ROOT_INO, "f"));
    // Before any permission.
    w.chmod(ROOT_INO, 0o555);
    w.ok(&user(1), mv(ROOT_INO, "f", ROOT_INO, "g"));
}

#[test]
fn no_directory_goes_below_itself() {
    let mut w = World::new();
    let a = w.mkdir(&root(), ROOT_INO, "a", 0o755);
    let b = w.mkdir(&root(), a, "b", 0o755);
    let c = w.mkdir(&root(), b, "c", 0o755);
    assert_eq!(w.fails(&root(), mv(ROOT_INO, "a", c, "x")), Errno::EINVAL);
    assert_eq!(w.fails(&root(), mv(ROOT_INO, "a", a, "x")), Errno::EINVAL);
    assert_eq!(
        w.fails(&root(), mv(b, "c", ROOT_INO, "a")),
        Errno::ENOTEMPTY
    );
    assert_eq!(
        w.fails(&root(), mv(a, "b", ROOT_INO, "a")),
        Errno::ENOTEMPTY
    );
    assert_eq!(w.fails(&root(), swap(b, "c", ROOT_INO, "a")), Errno::EINVAL);
    assert_eq!(w.fails(&root(), swap(ROOT_INO, "a", b, "c")), Errno::EINVAL);
    w.ok(&root(), mv(b, "c", ROOT_INO, "c"));
    w.ok(&root(), mv(ROOT_INO, "a", c, "a"));
    assert_eq!(w.find(a, ".."), Some(c));
}

#[test]
fn kinds_must_agree() {
    let mut w = World::new();
    w.mkdir(&root(), ROOT_INO, "d", 0o755);
    let e = w.mkdir(&root(), ROOT_INO, "e", 0o755);
    w.file(&root(), e, "x", 0o644);
    w.file(&root(), ROOT_INO, "f", 0o644);
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "f", ROOT_INO, "d")),
        Errno::EISDIR
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "d", ROOT_INO, "f")),
        Errno::ENOTDIR
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "d", ROOT_INO, "e")),
        Errno::ENOTEMPTY
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "none", ROOT_INO, "e")),
        Errno::ENOENT
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, ".", ROOT_INO, "e")),
        Errno::EBUSY
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "d", ROOT_INO, "..")),
        Errno::EBUSY
    );
    let long = "n".repeat(256);
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "d", ROOT_INO, &long)),
        Errno::ENAMETOOLONG
    );
    assert_eq!(
        w.fails(&root(), mv(ROOT_INO, "d", Ino(999), "x")),
        Errno::ESTALE
    );
    let x = w.find(e, "x").unwrap();
    assert_eq!(w.fails(&root(), mv(ROOT_INO, "d", x, "x")), Errno::ENOTDIR);
}

#[test]
fn no_replace() {
    let mut w = World::new();
    w.file(&root(), ROOT_INO, "f", 0o644);
    w.file(&root(), ROOT_INO, "g", 0o644);
    let op = Rename {
        no_replace: true,
        ..rename(ROOT_INO, "f", ROOT_INO, "g")
    };
    assert_eq!(w.fails(&root(), Op::Rename(op.clone())), Errno::EEXIST);
    let same = Rename {
        no_replace: true,
        ..rename(ROOT_INO, "f", ROOT_INO, "f")
    };
    assert_eq!(w.fails(&root(), Op::Rename(same)), Errno::EEXIST);
    w.ok(
        &root(),
        Op::Rename(Rename {
            new_name: "h".into(),
            ..op.clone()
        }),
    );
    let both = Rename {
        exchange: true,
        ..op
    };
    assert_eq!(w.fails(&root(), Op::Rename(both)), Errno::EINVAL);
}

#[test]
fn exchange() {
    let mut w = World::new();
    let a = w.mkdir(&root(), ROOT_INO, "a", 0o755);
    let b = w.mkdir(&root(), ROOT_INO, "b", 0o755);
    let d = w.mkdir(&root(), a, "d", 0o755);
    w.file(&root(), d, "inside", 0o644);
    let f = w.file(&root(), b, "f", 0o644);
    assert_eq!(w.fails(&root(), swap(a, "d", b, "none")), Errno::ENOENT);
    let reply = w.ok(&root(), swap(a, "d", b, "f"));
    assert_eq!((w.find(a, "d"), w.find(b, "f")), (Some(f), Some(d)));
    assert_eq!(w.find(d, ".."), Some(b));
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink), (2, 3));
    assert_eq!(reply.attr.unwrap().ino, d.0);
    let other = reply.victim.unwrap();
    assert_eq!((other.ino, other.nlink, other.ctime), (f.0, 1, w.now()));
    // Two directories, two files, and in one directory.
    let e = w.mkdir(&root(), a, "e", 0o755);
    w.ok(&root(), swap(a, "e", b, "f"));
    assert_eq!((w.find(e, ".."), w.find(d, "..")), (Some(b), Some(a)));
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink), (3, 3));
    w.ok(&root(), swap(a, "d", a, "e"));
    assert_eq!((w.find(a, "d"), w.find(a, "e")), (Some(d), Some(f)));
    assert_eq!(w.attr(a).nlink, 3);
}

#[test]
fn permissions() {
    let mut w = World::new();
    let a = w.mkdir(&user(1), ROOT_INO, "a", 0o777);
    let b = w.mkdir(&user(1), ROOT_INO, "b", 0o555);
    w.file(&user(1), a, "f", 0o644);
    assert_eq!(w.fails(&user(1), mv(a, "f", b, "f")), Errno::EACCES);
    assert_eq!(
        w.fails(&user(1), mv(a, "f", b, &"n".repeat(256))),
        Errno::ENAMETOOLONG
    );
    w.chmod(b, 0o777);
    w.chmod(a, 0o555);
    assert_eq!(w.fails(&user(1), mv(a, "f", b, "f")), Errno::EACCES);
    w.chmod(a, 0o777);
    // A directory's ".." is rewritten when it gets another parent.
    w.mkdir(&user(2), a, "d", 0o555);
    assert_eq!(w.fails(&user(2), mv(a, "d", b, "d")), Errno::EACCES);
    assert_eq!(w.fails(&user(1), mv(a, "d", b, "d")), Errno::EACCES);
    w.ok(&user(2), mv(a, "d", a, "e"));
    w.ok(&root(), mv(a, "e", b, "d"));
    // Exchange needs it of both.
    w.mkdir(&user(2), a, "x", 0o777);
    assert_eq!(w.fails(&user(2), swap(a, "x", b, "d")), Errno::EACCES);
    assert_eq!(w.fails(&user(2), swap(b, "d", a, "x")), Errno::EACCES);
}

#[test]
fn sticky_directories() {
    let mut w = World::new();
    let s = w.mkdir(&user(1), ROOT_INO, "s", 0o1777);
    let p = w.mkdir(&user(1), ROOT_INO, "p", 0o777);
    w.file(&user(2), s, "two", 0o666);
    w.file(&user(3), p, "three", 0o666);
    w.file(&user(3), s, "mine", 0o666);
    // Away from, over, and exchanged in a sticky directory.
    assert_eq!(w.fails(&user(3), mv(s, "two", p, "x")), Errno::EPERM);
    assert_eq!(w.fails(&user(3), mv(p, "three", s, "two")), Errno::EPERM);
    assert_eq!(w.fails(&user(3), swap(p, "three", s, "two")), Errno::EPERM);
    assert_eq!(w.fails(&user(3), mv(s, "mine", s, "two")), Errno::EPERM);
    w.ok(&user(3), mv(p, "three", s, "new"));
    w.ok(&user(3), mv(s, "new", s, "mine"));
    w.ok(&user(1), mv(s, "mine", s, "two"));
}
