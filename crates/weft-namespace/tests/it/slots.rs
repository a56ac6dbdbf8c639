//! Slots that go from group to group (`docs/protocols/slots.md`): all of one goes, nothing of it stays, and
//! wherever reigns end it has one owner.

use crate::groups::{Groups, is_kept_by_images, user};
use std::collections::BTreeSet;
use weft_namespace::{Attempt, Errno, Hashes, Key, State};
use weft_types::{Epoch, GroupId, Ino, ROOT_INO, SessionId, Slot};
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    self, Adopt, CloseSession, Create, Cut, DropCut, FileKind, FileLock, Give, OpReply, Orphan,
    Own, Receive, Release, SetLock, Setattr, Setxattr, SlotPiece, Unlink,
};

const FIRST: Attempt = Attempt {
    epoch: Epoch(1),
    number: 1,
};

fn create(parent: u64, name: &str, kind: FileKind) -> Op {
    Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: kind as i32,
        mode: 0o644,
        exclusive: true,
        target: "to".into(),
        ..Create::default()
    })
}

fn ino_of(reply: &OpReply) -> u64 {
    assert_eq!(reply.failure_errno, 0, "{reply:?}");
    reply.attr.unwrap().ino
}

fn lock(ino: u64, owner: u64, kind: Kind) -> Op {
    Op::SetLock(SetLock {
        ino,
        lock: Some(FileLock {
            kind: kind as i32,
            owner,
            start: 10,
            last: 20,
            ..FileLock::default()
        }),
        wait: false,
        ..SetLock::default()
    })
}

/// A directory in the root whose slot is this group's, and what it is called.
fn directory_in(groups: &mut Groups, group: usize) -> u64 {
    let name = (0..).map(|number| format!("d{number}")).find(|name| {
        let slot = State::directory_slot(ROOT_INO, name.as_bytes());
        groups.group_of(slot) == group && slot != ROOT_INO.slot()
    });
    let make = create(ROOT_INO.0, &name.unwrap(), FileKind::Directory);
    ino_of(&groups.change(&user(0), make))
}

fn done(groups: &mut Groups, group: usize, op: Op) -> OpReply {
    let (clock, session) = (groups.clock, groups.members[group].session);
    let reply = groups.members[group].apply(clock, session, &user(0), op);
    assert_eq!(reply.failure_errno, 0, "{reply:?}");
    reply
}

fn pieces(state: &State, slot: Slot, steps: usize, open: &[(u64, SessionId)]) -> Vec<SlotPiece> {
    let mut pieces = Vec::new();
    let mut at = Some(Key::first_of(slot));
    while let Some(key) = at {
        let open = |ino: Ino| {
            let of = open.iter().filter(|(of, _)| *of == ino.0);
            of.map(|(_, session)| *session).collect()
        };
        at = state.walk_slot(slot, key, steps, &open, &mut |key, content| {
            pieces.push(SlotPiece {
                ino: key.ino.0,
                part: key.part,
                content: content.to_vec().into(),
            });
        });
    }
    pieces
}

fn receive(slot: Slot, number: u64, attempt: Attempt, pieces: Vec<SlotPiece>) -> Op {
    Op::Receive(Receive {
        slot: u32::from(slot.0),
        from: 1,
        attempt: Some(attempt.to_proto()),
        number,
        pieces,
    })
}

fn give(slot: Slot, attempt: Attempt) -> Op {
    Op::Give(Give {
        slot: u32::from(slot.0),
        to: 2,
        attempt: Some(attempt.to_proto()),
    })
}

fn own(slot: Slot, attempt: Attempt) -> Op {
    Op::Own(Own {
        slot: u32::from(slot.0),
        attempt: Some(attempt.to_proto()),
    })
}

/// A directory of group 1 with a bit of everything in it; its slot, and a file that is open without a name.
fn furnished(groups: &mut Groups) -> (u64, u64) {
    let directory = directory_in(groups, 1);
    for number in 0..700 {
        let kind = [FileKind::Symlink, FileKind::Regular, FileKind::Fifo][number % 3];
        let made = groups.change(
            &user(0),
            create(directory, &format!("some file {number}"), kind),
        );
        let ino = ino_of(&made);
        if kind == FileKind::Regular {
            done(groups, 1, Op::DropLease(proto::DropLease { ino }));
        }
        if number % 5 == 0 {
            let unlink = Op::Unlink(Unlink {
                parent: directory,
                name: format!("some file {number}").into(),
                ..Unlink::default()
            });
            groups.change(&user(0), unlink);
        }
    }
    let kept = create(directory, "kept", FileKind::Regular);
    let kept = ino_of(&groups.change(&user(0), kept));
    let size = |size| {
        Op::Setattr(Setattr {
            ino: kept,
            size: Some(size),
            ..Setattr::default()
        })
    };
    done(groups, 1, size(1 << 30));
    // Remains are to be trimmed.
    done(groups, 1, size(77));
    done(groups, 1, Op::DropLease(proto::DropLease { ino: kept }));
    let xattr = Op::Setxattr(Setxattr {
        ino: kept,
        name: "user.x".into(),
        value: "y".into(),
        ..Setxattr::default()
    });
    done(groups, 1, xattr);
    done(groups, 1, lock(kept, 4, Kind::Exclusive));
    let unlink = Op::Unlink(Unlink {
        parent: directory,
        name: "kept".into(),
        keep_open: true,
        ..Unlink::default()
    });
    done(groups, 1, unlink);
    (directory, kept)
}

#[test]
fn a_slot_goes_with_all_that_belongs_to_it() {
    let mut groups = Groups::new(3);
    let (directory, kept) = furnished(&mut groups);
    let slot = Ino(directory).slot();
    let source = groups.members[1].state.clone();
    let next = source.slot_ranges().len();
    assert!(groups.move_slot(slot, 2));
    let [left, here] = [1, 2].map(|group| &groups.members[group].state);
    assert_eq!(left.slot_ranges().len(), next - 1);
    assert_eq!(left.given_to(slot).unwrap().to, GroupId(2));
    assert!(left.inodes_of_slot(slot, Ino(0), 10).is_empty());
    assert!(!left.has_slot(slot) && here.has_slot(slot) && here.given_to(slot).is_none());
    // The same in pieces, whatever the pieces are cut into, but for whose the sessions are.
    assert_eq!(
        pieces(&source, slot, 5, &[]),
        pieces(here, slot, usize::MAX, &[])
    );
    for ino in source.inodes_of_slot(slot, Ino(0), 10_000) {
        assert_eq!(source.inode(ino), here.inode(ino));
    }
    let of_file = here.inode(Ino(kept)).unwrap();
    assert_eq!((of_file.trim_from, of_file.attr.unwrap().nlink), (77, 0));
    assert!(here.has_remains(Ino(kept)) && !left.has_remains(Ino(kept)));
    for state in [left, here] {
        is_kept_by_images(state);
    }
    // Numbers go on where they were.
    let next = create(directory, "new", FileKind::Symlink);
    let next = ino_of(&groups.change(&user(0), next));
    assert!(source.inode(Ino(next)).is_err() && next > kept);
    // And back, with the session of its own group.
    assert!(groups.move_slot(slot, 1));
    let (state, session) = (&groups.members[1].state, groups.members[1].session);
    assert!(state.is_there_for(Ino(kept), SessionId(session)));
    assert_eq!(state.locks_of(SessionId(session)), [Ino(kept)]);
    assert_eq!(groups.members[2].state.guests().count(), 0);
    done(&mut groups, 1, Op::Release(Release { ino: kept }));
    groups.whole();
}

#[test]
fn what_a_guest_has_is_a_sessions_once_it_is_known() {
    let mut groups = Groups::new(3);
    let (directory, kept) = furnished(&mut groups);
    let guest = SessionId(groups.members[1].session);
    assert!(groups.move_slot(Ino(directory).slot(), 2));
    let asks = lock(kept, 4, Kind::Exclusive);
    {
        let state = &groups.members[2].state;
        let known: Vec<_> = state.guests().collect();
        assert_eq!(known, [(guest, Ino(directory).slot())]);
        assert!(state.has_guest(guest) && state.waits_for_guests(&asks));
        assert!(state.is_kept_by_guest(Ino(kept)) && state.is_locked_by_guest(Ino(kept)));
        // It is no session that this group could end, or that opened anything here.
        assert!(state.sessions().all(|session| session.session != guest));
    }
    let mut adopted = Groups::new(1);
    adopted.members[0] = groups.members.remove(2);
    let member = &mut adopted.members[0];
    let session = member.session;
    let mut ended = member.state.clone();
    member.own(Op::Adopt(Adopt {
        guest: guest.0,
        session,
    }));
    let state = &member.state;
    assert!(!state.has_guest(guest) && !state.waits_for_guests(&asks));
    assert_eq!(state.holds_of(SessionId(session)), [Ino(kept)]);
    assert_eq!(state.locks_of(SessionId(session)), [Ino(kept)]);
    is_kept_by_images(state);
    // The owner of the lock can take it again, as it had it before; another one cannot.
    done(&mut adopted, 0, asks);
    let other = lock(kept, 5, Kind::Exclusive);
    let member = &mut adopted.members[0];
    let refused = member.apply(9_000, session, &user(0), other);
    assert_eq!(refused.failure_errno, libc::EAGAIN as u32);

    // One whose session has ended instead takes all with it.
    let close = proto::Entry {
        op: Some(proto::Op {
            op: Some(Op::CloseSession(CloseSession {
                session: guest.0,
                clean: false,
                ..CloseSession::default()
            })),
        }),
        ..proto::Entry::default()
    };
    assert_eq!(ended.apply(&close).failure_errno, 0);
    assert!(ended.inode(Ino(kept)).is_err() && ended.guests().count() == 0);
    is_kept_by_images(&ended);
}

#[test]
fn a_file_that_a_session_has_open_outlives_its_name_elsewhere() {
    let mut groups = Groups::new(3);
    let directory = directory_in(&mut groups, 1);
    let file = ino_of(&groups.change(&user(0), create(directory, "f", FileKind::Symlink)));
    let slot = Ino(directory).slot();
    let session = SessionId(groups.members[1].session);
    let unknown = SessionId(session.0 + 7);
    let open = [(file, session), (file, unknown)];
    let sent = pieces(&groups.members[1].state, slot, 9, &open);
    groups.members[2].own(receive(slot, 0, FIRST, sent));
    groups.members[1].own(give(slot, FIRST));
    groups.members[2].own(own(slot, FIRST));
    groups.owners[usize::from(slot.0)] = 2;
    let unlink = Op::Unlink(Unlink {
        parent: directory,
        name: "f".into(),
        ..Unlink::default()
    });
    done(&mut groups, 2, unlink);
    let state = &groups.members[2].state;
    assert!(state.is_kept_by_guest(Ino(file)), "it is open");
    assert_eq!(state.guests().count(), 1, "nobody knows the other one");
}

#[test]
fn what_still_stands_against_it_keeps_a_slot_where_it_is() {
    let mut groups = Groups::new(3);
    let directory = directory_in(&mut groups, 1);
    let slot = Ino(directory).slot();
    let state = |groups: &Groups| groups.members[1].state.clone();
    let file = ino_of(&groups.change(&user(0), create(directory, "f", FileKind::Regular)));
    assert_eq!(state(&groups).check_give(slot), Err(Errno::EBUSY));
    done(
        &mut groups,
        1,
        Op::DropLease(proto::DropLease { ino: file }),
    );
    assert_eq!(state(&groups).check_give(slot), Ok(()));
    assert_eq!(
        groups.members[0].state.check_give(slot),
        Err(Errno::ESTALE),
        "it is not here"
    );
    assert_eq!(
        groups.members[0].state.check_give(ROOT_INO.slot()),
        Err(Errno::EINVAL),
        "the root stays"
    );
    // A part of a transaction whose outcome is not known.
    let name = proto::NamePart {
        directory,
        name: "n".into(),
        expected: Some(0),
        ..proto::NamePart::default()
    };
    let transaction = Some(proto::TransactionId {
        home: 2,
        epoch: 1,
        number: 1,
    });
    groups.members[1].own(Op::Prepare(proto::Prepare {
        transaction,
        parts: vec![proto::Part {
            tells: 0,
            part: Some(proto::part::Part::Name(name)),
        }],
    }));
    assert_eq!(state(&groups).check_give(slot), Err(Errno::EAGAIN));
    groups.members[1].own(Op::Finish(proto::Finish {
        transaction,
        done: false,
    }));
    assert_eq!(state(&groups).check_give(slot), Ok(()));
}

#[test]
fn a_slot_does_not_move_past_a_cut() {
    let mut groups = Groups::new(3);
    let directory = directory_in(&mut groups, 1);
    let slot = Ino(directory).slot();
    groups.members[1].own(Op::Cut(Cut { id: 1 }));
    assert_eq!(
        groups.members[1].state.check_give(slot),
        Err(Errno::EBUSY),
        "what the cut holds of it is known here only"
    );
    let refused = groups.members[1].apply(1, 0, &user(0), give(slot, FIRST));
    assert_eq!(refused.failure_errno, libc::EBUSY as u32);
    groups.members[1].own(Op::DropCut(DropCut { id: 1 }));

    let sent = pieces(&groups.members[1].state, slot, 50, &[]);
    groups.members[2].own(receive(slot, 0, FIRST, sent));
    groups.members[1].own(give(slot, FIRST));
    let cut = Op::Cut(Cut { id: 2 });
    groups.members[1].own(cut.clone());
    let refused = groups.members[2].apply(1, 0, &user(0), cut);
    assert_eq!(
        refused.failure_errno,
        libc::EBUSY as u32,
        "the slot would be in neither group's cut"
    );
    groups.members[2].own(own(slot, FIRST));
    groups.members[2].own(Op::Cut(Cut { id: 3 }));
}

#[test]
fn pieces_count_in_the_order_in_which_they_were_sent() {
    let mut groups = Groups::new(3);
    let (directory, _) = furnished(&mut groups);
    let slot = Ino(directory).slot();
    let sent = pieces(&groups.members[1].state, slot, 50, &[]);
    let refused = |groups: &mut Groups, op: Op| {
        let member = &mut groups.members[2];
        let before = member.state.clone();
        let reply = member.apply(3_000, 0, &user(0), op);
        assert_eq!(member.state, before, "{reply:?}");
        reply.failure_errno as i32
    };
    let to =
        |number, attempt, pieces: &[SlotPiece]| receive(slot, number, attempt, pieces.to_vec());
    // Not from its beginning, not its own, not of this slot, no piece at all.
    assert_eq!(refused(&mut groups, to(1, FIRST, &sent)), libc::ESTALE);
    let mut odd = sent[0].clone();
    odd.ino = ROOT_INO.0;
    assert_eq!(refused(&mut groups, to(0, FIRST, &[odd])), libc::EINVAL);
    let mut odd = sent[1].clone();
    odd.content = "nonsense".into();
    assert_eq!(refused(&mut groups, to(0, FIRST, &[odd])), libc::EINVAL);

    groups.members[2].own(to(0, FIRST, &sent[..9]));
    groups.members[2].own(to(1, FIRST, &sent[9..]));
    let whole = groups.members[2].state.check_received(slot, FIRST).unwrap();
    // A late one, over an old connection.
    assert_eq!(refused(&mut groups, to(0, FIRST, &sent[..1])), 0);
    let gone = SlotPiece {
        content: Default::default(),
        ..sent[0].clone()
    };
    groups.members[2].own(to(2, FIRST, &[gone]));
    let state = &groups.members[2].state;
    assert!(state.check_received(slot, FIRST).is_err(), "no counter");
    groups.members[2].own(to(3, FIRST, &sent[..1]));
    let state = &groups.members[2].state;
    assert_eq!(state.check_received(slot, FIRST), Ok(whole));
    is_kept_by_images(state);
    // The next attempt begins anew; the one before is over.
    let second = Attempt {
        epoch: Epoch(2),
        number: 1,
    };
    groups.members[2].own(to(0, second, &sent[..1]));
    assert_eq!(refused(&mut groups, to(4, FIRST, &sent)), libc::ESTALE);
    let before = groups.members[2].state.arrives_from(slot);
    assert_eq!(before, Some((GroupId(1), second)));
    let reply = groups.members[2].apply(1, 0, &user(0), own(slot, FIRST));
    assert_eq!(reply.failure_errno, libc::ESTALE as u32);
    groups.members[2].own(Op::Discard(proto::Discard {
        slot: u32::from(slot.0),
        attempt: Some(FIRST.to_proto()),
    }));
    assert!(groups.members[2].state.arrives_from(slot).is_some());
    groups.members[2].own(Op::Discard(proto::Discard {
        slot: u32::from(slot.0),
        attempt: Some(second.to_proto()),
    }));
    assert!(groups.members[2].state.arrives_from(slot).is_none());
}

#[test]
fn what_has_not_all_come_cannot_be_owned() {
    let mut groups = Groups::new(3);
    let (directory, _) = furnished(&mut groups);
    let slot = Ino(directory).slot();
    let sent = pieces(&groups.members[1].state, slot, 50, &[]);
    let mut seen = BTreeSet::new();
    let mut all = Hashes::default();
    for piece in &sent {
        let key = Key {
            ino: Ino(piece.ino),
            part: piece.part,
        };
        all.note(key, &piece.content);
    }
    let whole = all.digest();
    for without in (0..sent.len()).step_by(13).chain([1, sent.len() - 1]) {
        let mut groups = Groups::new(3);
        let mut some = sent.clone();
        let left_out = some.remove(without);
        groups.members[2].own(receive(slot, 0, FIRST, some));
        let state = &groups.members[2].state;
        match state.check_received(slot, FIRST) {
            // An inode without a name is missed by nobody but by who compares.
            Ok(digest) => {
                assert_ne!(digest, whole);
                continue;
            }
            Err(why) => seen.insert(why),
        };
        let reply = groups.members[2].apply(1, 0, &user(0), own(slot, FIRST));
        assert_eq!(reply.failure_errno, libc::EINVAL as u32, "{left_out:?}");
    }
    assert!(seen.len() > 3, "{seen:?}");
}

/// One attempt, step by step; a reign of either may end between two steps, with what it had not committed.
#[test]
fn wherever_reigns_end_a_slot_has_one_owner_and_all_of_it() {
    let mut furnished_groups = Groups::new(3);
    let (directory, _) = furnished(&mut furnished_groups);
    let slot = Ino(directory).slot();
    let whole = furnished_groups.members[1].state.digest();
    let (mut given, mut void) = (0, 0);
    // Steps: 0-2 receive, 3 give, 4 give is committed, 5 own, 6 own is committed.
    for source_ends_before in 0..=7 {
        for destination_ends_before in 0..=7 {
            let mut source = furnished_groups.members[1].state.clone();
            let mut destination = furnished_groups.members[2].state.clone();
            let apply = |state: &mut State, op: Op| {
                let entry = proto::Entry {
                    op: Some(proto::Op { op: Some(op) }),
                    ..proto::Entry::default()
                };
                state.apply(&entry).failure_errno
            };
            let sent = pieces(&source, slot, 50, &[]);
            let third = sent.len() / 3;
            let mut committed = (source.clone(), destination.clone());
            let mut is_under_way = true;
            for step in 0..=7 {
                if step == source_ends_before {
                    source = committed.0.clone();
                    is_under_way = false;
                }
                if step == destination_ends_before {
                    destination = committed.1.clone();
                }
                let has_given = source.given_to(slot).is_some();
                match step {
                    0..3 if is_under_way => {
                        let from = step * third;
                        let to = if step == 2 { sent.len() } else { from + third };
                        let op = receive(slot, step as u64, FIRST, sent[from..to].to_vec());
                        apply(&mut destination, op);
                        // What is not committed is not answered, and would be sent again.
                        committed.1 = destination.clone();
                    }
                    3 if is_under_way && destination.check_received(slot, FIRST).is_ok() => {
                        assert_eq!(apply(&mut source, give(slot, FIRST)), 0);
                    }
                    4 => committed.0 = source.clone(),
                    5 if has_given => {
                        assert!(committed.0.given_to(slot).is_some());
                        assert_eq!(apply(&mut destination, own(slot, FIRST)), 0);
                    }
                    6 => committed.1 = destination.clone(),
                    _ => {}
                }
            }
            // Whoever is left in doubt asks what is committed.
            let (source, mut destination) = committed;
            let was_given = source.given_to(slot).is_some_and(|it| it.attempt == FIRST);
            if destination.arrives_from(slot).is_some() {
                let op = match was_given {
                    true => own(slot, FIRST),
                    false => Op::Discard(proto::Discard {
                        slot: u32::from(slot.0),
                        attempt: Some(FIRST.to_proto()),
                    }),
                };
                assert_eq!(apply(&mut destination, op), 0);
            }
            let place = (source_ends_before, destination_ends_before);
            assert_ne!(
                source.has_slot(slot),
                destination.has_slot(slot),
                "{place:?}"
            );
            assert_eq!(destination.has_slot(slot), was_given, "{place:?}");
            match was_given {
                false => {
                    void += 1;
                    assert_eq!(source.digest(), whole);
                    assert_eq!(
                        destination.digest(),
                        furnished_groups.members[2].state.digest()
                    );
                }
                true => {
                    given += 1;
                    assert_eq!(pieces(&destination, slot, 50, &[]), sent);
                }
            }
        }
    }
    assert!(given > 9 && void > 9, "{given} {void}");
}

#[test]
fn a_session_that_has_ended_keeps_nothing_when_its_slot_comes_back() {
    let mut groups = Groups::new(3);
    let (directory, kept) = furnished(&mut groups);
    let file = ino_of(&groups.change(&user(0), create(directory, "g", FileKind::Symlink)));
    let session = groups.members[1].session;
    let orphan = Orphan { ino: file, session };
    groups.members[1].own(Op::Orphan(orphan));
    let slot = Ino(directory).slot();
    assert!(groups.move_slot(slot, 2));
    let close = CloseSession {
        session,
        clean: true,
        ..CloseSession::default()
    };
    groups.members[1].own(Op::CloseSession(close));
    assert!(groups.move_slot(slot, 1));
    let state = &groups.members[1].state;
    assert!(state.inode(Ino(kept)).is_err(), "nobody has it open");
    assert!(state.inode(Ino(file)).is_ok(), "it has a name");
    assert!(!state.session_exists(SessionId(session)));
    is_kept_by_images(state);
}
