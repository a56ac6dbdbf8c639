use super::*;
use weft_wire::proto::{LetGo, Orphan, Release};

/// As an active of today writes it.
fn lingering(w: &mut World, session: u64, op: Op) -> OpReply {
    w.clock += 1;
    w.state.apply(&Entry {
        session,
        cred: Some(root()),
        time: w.now(),
        op: Some(proto::Op { op: Some(op) }),
        lingers: true,
        ..Entry::default()
    })
}

fn orphan(ino: Ino, session: u64) -> Op {
    Op::Orphan(Orphan {
        ino: ino.0,
        session,
    })
}

fn let_go(ino: Ino) -> Op {
    Op::LetGo(LetGo { inos: vec![ino.0] })
}

fn is_gone(w: &World, ino: Ino) -> bool {
    !w.state.inodes.contains_key(&ino)
}

#[test]
fn what_has_lost_its_name_lingers_until_it_is_let_go() {
    let mut w = World::new();
    let f = w.file(&root(), ROOT_INO, "f", 0o600);
    let session = w.session;
    let reply = lingering(&mut w, session, unlink(ROOT_INO, "f"));
    assert_eq!(reply.victim.unwrap().nlink, 0);
    assert!(w.state.lingers(f) && w.state.deletions(9).is_empty());
    // It is there for nobody, not even for who writes it; only the service lets it go.
    assert!(!is_gone(&w, f) && !w.state.is_there_for(f, w.session()));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    assert_eq!(w.fails(&root(), link(f, ROOT_INO, "g")), Errno::ESTALE);
    assert_eq!(w.fails(&root(), let_go(f)), Errno::EPERM);
    w.service(let_go(f));
    assert!(is_gone(&w, f) && !w.state.lingers(f));
    assert_eq!(w.state.deletions(9).len(), 2);
    assert!(w.state.write_leases_of(w.session()).is_empty());
    w.service(let_go(f));
    assert_eq!(w.state.deletions(9).len(), 2);
}

#[test]
fn who_holds_what_lingers_keeps_it() {
    let mut w = World::new();
    let (one, two) = (w.session, w.open_session());
    let f = w.file(&root(), ROOT_INO, "f", 0o600);
    w.file(&root(), ROOT_INO, "new", 0o600);
    let over = Op::Rename(rename(ROOT_INO, "new", ROOT_INO, "f"));
    lingering(&mut w, one, over);
    w.ok_in(two, &root(), orphan(f, two));
    assert!(w.state.is_there_for(f, SessionId(two)) && !w.state.is_there_for(f, SessionId(one)));
    w.service(let_go(f));
    // While one holds it another may, too.
    w.ok_in(one, &root(), orphan(f, one));
    let release = || Op::Release(Release { ino: f.0 });
    lingering(&mut w, two, release());
    assert!(w.state.is_there_for(f, SessionId(one)) && !w.state.lingers(f));
    // Who held it last leaves it lingering.
    lingering(&mut w, one, release());
    assert!(w.state.lingers(f) && !is_gone(&w, f));
    w.service(let_go(f));
    assert!(is_gone(&w, f));
    assert_eq!(w.fails_in(two, &root(), orphan(f, two)), Errno::ESTALE);
}

#[test]
fn what_a_writer_owes_of_what_lingers_is_there_for_who_claims_it() {
    let mut w = World::new();
    let session = w.session;
    let f = w.file(&root(), ROOT_INO, "f", 0o600);
    lingering(&mut w, session, unlink(ROOT_INO, "f"));
    let owed = Op::Setattr(proto::Setattr {
        ino: f.0,
        size: Some(5),
        owed: true,
        ..proto::Setattr::default()
    });
    w.ok(&root(), owed);
    let asked = Op::Setattr(proto::Setattr {
        ino: f.0,
        size: Some(7),
        ..proto::Setattr::default()
    });
    assert_eq!(w.fails(&root(), asked), Errno::ESTALE);
    w.ok(&root(), orphan(f, session));
    assert_eq!(w.state.inode(f).unwrap().attr.unwrap().size, 5);
}

#[test]
fn directories_and_entries_of_before_leave_nothing_lingering() {
    let mut w = World::new();
    let session = w.session;
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o700);
    lingering(&mut w, session, rmdir(ROOT_INO, "d"));
    assert!(is_gone(&w, d));
    let f = w.file(&root(), ROOT_INO, "f", 0o600);
    w.ok(&root(), unlink(ROOT_INO, "f"));
    assert!(is_gone(&w, f));
    assert_eq!(w.state.lingering().count(), 0);
}

#[test]
fn an_image_knows_what_lingers() {
    let mut w = World::new();
    let session = w.session;
    let f = w.file(&root(), ROOT_INO, "f", 0o600);
    lingering(&mut w, session, unlink(ROOT_INO, "f"));
    let mut records = Vec::new();
    w.state.save(&mut |record| records.push(record.to_vec()));
    let mut state = State::load(&records).unwrap();
    assert_eq!(state, w.state);
    assert!(state.lingers(f));
    state.apply(&Entry {
        op: Some(proto::Op {
            op: Some(let_go(f)),
        }),
        ..Entry::default()
    });
    assert_eq!(state.deletions(9).len(), 2);
}
