use super::*;
use crate::Resolved;
use crate::{EXECUTE, READ, WRITE};

#[test]
fn lookup_needs_search_permission() {
    let mut w = World::new();
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o600);
    let f = w.file(&root(), d, "f", 0o600);
    assert_eq!(w.state.lookup(&user(1), d, b"f"), Err(Errno::EACCES));
    assert_eq!(w.state.lookup(&user(1), d, b"."), Err(Errno::EACCES));
    w.chmod(d, 0o100);
    let found = w.state.lookup(&user(1), d, b"f").unwrap().unwrap();
    assert_eq!(found.attr.unwrap().ino, f.0);
    assert_eq!(w.state.lookup(&user(1), d, b"none"), Ok(None));
    assert_eq!(w.find(d, "."), Some(d));
    assert_eq!(w.find(d, ".."), Some(ROOT_INO));
    assert_eq!(w.find(ROOT_INO, ".."), Some(ROOT_INO));
    assert_eq!(w.state.lookup(&root(), f, b"x"), Err(Errno::ENOTDIR));
    assert_eq!(w.state.lookup(&root(), Ino(99), b"x"), Err(Errno::ESTALE));
    assert_eq!(
        w.state.lookup(&root(), d, &[b'x'; 256]),
        Err(Errno::ENAMETOOLONG)
    );
    assert_eq!(w.state.lookup(&root(), d, b""), Err(Errno::ENOENT));
}

#[test]
fn access_is_decided_by_one_class() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o047);
    let ok = |cred: &Cred, mask| w.state.access(cred, f, mask).is_ok();
    // The owner is not helped by what others may do.
    assert!(!ok(&user(1), READ));
    let member = Cred {
        gid: 9,
        groups: vec![1],
        ..user(2)
    };
    assert!(ok(&member, READ));
    assert!(!ok(&member, WRITE));
    assert!(ok(&user(3), READ | WRITE | EXECUTE));
    assert!(ok(&root(), READ | WRITE | EXECUTE));
    assert!(ok(&user(1), 0));
    w.chmod(f, 0o666);
    assert_eq!(w.state.access(&root(), f, EXECUTE), Err(Errno::EACCES));
    assert_eq!(w.state.access(&root(), f, READ | WRITE), Ok(()));
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0);
    assert_eq!(w.state.access(&root(), d, EXECUTE), Ok(()));
    assert_eq!(w.state.access(&root(), Ino(99), READ), Err(Errno::ESTALE));
}

#[test]
fn listing_goes_on_where_it_was() {
    let mut w = World::new();
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o755);
    for i in 0..10 {
        w.make(&user(1), d, &format!("n{i}"), FileKind::Fifo, 0o644);
    }
    let list = |w: &World, after, max| {
        let (entries, end, parent) = w.state.readdir(&root(), d, after, max).unwrap();
        assert_eq!(parent, ROOT_INO);
        let names: Vec<String> = entries
            .iter()
            .map(|e| String::from_utf8(e.name.to_vec()).unwrap())
            .collect();
        (names, entries.last().map_or(after, |e| e.cookie), end)
    };
    let (names, cookie, end) = list(&w, 0, 4);
    assert_eq!((names.join(" ").as_str(), end), ("n0 n1 n2 n3", false));
    // What was listed goes, what was not comes at the end.
    w.ok(&user(1), unlink(d, "n3"));
    w.ok(&user(1), unlink(d, "n4"));
    w.make(&user(1), d, "n4", FileKind::Fifo, 0o644);
    w.ok(&user(1), Op::Rename(rename(d, "n0", d, "n10")));
    let (names, cookie, end) = list(&w, cookie, 6);
    assert_eq!(
        (names.join(" ").as_str(), end),
        ("n5 n6 n7 n8 n9 n4", false)
    );
    let (names, cookie, end) = list(&w, cookie, 1);
    assert_eq!((names.join(" ").as_str(), end), ("n10", true));
    assert_eq!(list(&w, cookie, 5), (vec![], cookie, true));
    let (entries, ..) = w.state.readdir(&root(), d, 0, 1).unwrap();
    assert!(entries[0].cookie >= 3);
    assert_eq!(entries[0].kind(), FileKind::Fifo);
    w.chmod(d, 0o311);
    assert_eq!(w.state.readdir(&user(1), d, 0, 9), Err(Errno::EACCES));
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    assert_eq!(w.state.readdir(&root(), f, 0, 9), Err(Errno::ENOTDIR));
    assert_eq!(w.state.readdir(&root(), Ino(99), 0, 9), Err(Errno::ESTALE));
    // No room asked for: nothing, and not the end.
    assert!(!w.state.readdir(&root(), d, 0, 0).unwrap().1);
}

#[test]
fn paths_for_tools() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0);
    let e = w.mkdir(&root(), d, "e", 0);
    let f = w.file(&root(), e, "f", 0);
    let mut symlink = |parent, name: &str, target: &str| {
        let op = create(parent, name, FileKind::Symlink, 0);
        let op = Create {
            target: target.to_owned().into(),
            ..op
        };
        Ino(w.ok(&root(), Op::Create(op)).attr.unwrap().ino)
    };
    let up = symlink(e, "up", "../../d/./e");
    symlink(ROOT_INO, "loop", "loop/x");
    symlink(ROOT_INO, "away", "/etc");
    let resolve = |path: &str| {
        let whole = proto::Elsewhere {
            rest: path.to_owned().into(),
            ..proto::Elsewhere::default()
        };
        match w.state.resolve(&whole)? {
            Resolved::Here(ino) => Ok(ino),
            elsewhere => panic!("{elsewhere:?}"),
        }
    };
    assert_eq!(resolve(""), Ok(ROOT_INO));
    assert_eq!(resolve("//"), Ok(ROOT_INO));
    assert_eq!(resolve("/d/e/f"), Ok(f));
    assert_eq!(resolve("d//e/../e/./f"), Ok(f));
    assert_eq!(resolve("../.."), Ok(ROOT_INO));
    assert_eq!(resolve("/d/e/up"), Ok(up));
    assert_eq!(resolve("/d/e/up/up/f"), Ok(f));
    assert_eq!(resolve("/d/x"), Err(Errno::ENOENT));
    assert_eq!(resolve("/d/e/f/x"), Err(Errno::ENOTDIR));
    assert_eq!(resolve("/loop/y"), Err(Errno::ELOOP));
    assert_eq!(resolve("/away/y"), Err(Errno::EXDEV));
    assert_eq!(resolve(&"n".repeat(256)), Err(Errno::ENAMETOOLONG));
}

#[test]
fn statistics_count() {
    let mut w = World::new();
    let before = w.state.statistics();
    assert_eq!(
        (before.inodes, before.directories, before.sessions),
        (1, 1, 1)
    );
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o755);
    w.file(&root(), d, "f", 0o644);
    w.make(&root(), d, "l", FileKind::Symlink, 0);
    let now = w.state.statistics();
    assert_eq!((now.inodes, now.directories, now.deletions), (4, 2, 0));
    assert!(now.memory_bytes > before.memory_bytes + 400);
    w.ok(&root(), unlink(d, "f"));
    w.ok(&root(), unlink(d, "l"));
    w.ok(&root(), rmdir(ROOT_INO, "d"));
    let queue = w.state.deletions(9).iter().map(|d| d.queue_id).collect();
    w.service(Op::Dropped(proto::Dropped { queue_ids: queue }));
    assert_eq!(w.state.statistics(), before);
}
