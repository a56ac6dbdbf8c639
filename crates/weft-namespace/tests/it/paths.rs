//! Paths that lead from group to group: each goes as far as it can, and another one goes on.

use crate::groups::{Groups, user};
use weft_namespace::{Errno, Resolved, State};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::{Create, Elsewhere, FileKind, Rename};

/// Makes something, and answers its number.
fn make(groups: &mut Groups, parent: u64, name: &str, kind: FileKind, target: &str) -> u64 {
    let op = Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: kind as i32,
        mode: 0o755,
        target: target.to_owned().into(),
        ..Create::default()
    });
    let reply = groups.change(&user(0), op);
    assert_eq!(reply.failure_errno, 0, "{name}");
    reply.attr.unwrap().ino
}

/// A directory that comes to be in this group.
fn directory_in(groups: &mut Groups, parent: u64, group: usize, hint: &str) -> (u64, String) {
    let is_there = |name: &String| {
        groups.group_of(State::directory_slot(Ino(parent), name.as_bytes())) == group
    };
    let mut names = (0..).map(|number| format!("{hint}{number}"));
    let name = names.find(is_there).unwrap();
    let ino = make(groups, parent, &name, FileKind::Directory, "");
    (ino, name)
}

/// From group to group, as tools go. Answers the number, and how many groups were asked.
fn walk(groups: &Groups, path: &str) -> Result<(u64, usize), Errno> {
    let mut group = 0;
    let mut at = Elsewhere {
        rest: path.to_owned().into(),
        ..Elsewhere::default()
    };
    for asked in 1..1_000 {
        match groups.members[group].state.resolve(&at)? {
            Resolved::Here(ino) => return Ok((ino.0, asked)),
            Resolved::Elsewhere(next) => at = next,
        }
        group = groups.group_of(Ino(at.ino).slot());
    }
    panic!("{path} has no end");
}

#[test]
fn a_path_is_followed_through_all_groups() {
    let mut groups = Groups::new(2);
    let (one, one_name) = directory_in(&mut groups, ROOT_INO.0, 1, "one");
    let (zero, zero_name) = directory_in(&mut groups, one, 0, "zero");
    let file = make(&mut groups, zero, "f", FileKind::Regular, "");
    let below = format!("/{one_name}/{zero_name}");
    assert_eq!(walk(&groups, &format!("{below}/f")), Ok((file, 3)));
    assert_eq!(walk(&groups, &format!("{below}/..")), Ok((one, 4)));
    assert_eq!(
        walk(&groups, &format!("{below}/../../{one_name}")),
        Ok((one, 6))
    );
    assert_eq!(walk(&groups, &format!("{below}/none")), Err(Errno::ENOENT));
    assert_eq!(walk(&groups, &format!("{below}/f/x")), Err(Errno::ENOTDIR));

    // A symbolic link that leads from its directory on, and one that has been put into another group's.
    let target = format!("../{zero_name}/./f");
    make(&mut groups, zero, "link", FileKind::Symlink, &target);
    let link = make(
        &mut groups,
        one,
        "moved",
        FileKind::Symlink,
        &format!("../../{below}"),
    );
    let rename = Rename {
        parent: one,
        name: "moved".into(),
        new_parent: zero,
        new_name: "moved".into(),
        ..Rename::default()
    };
    assert_eq!(groups.change(&user(0), Op::Rename(rename)).failure_errno, 0);
    let ino = |path: String| walk(&groups, &path).map(|(ino, _)| ino);
    assert!(ino(format!("{below}/link")).is_ok_and(|ino| ino != file));
    assert_eq!(ino(format!("{below}/link/.")), Err(Errno::ENOTDIR));
    // The link itself, where it is the end; else what it leads to, from the directory that it is in now.
    assert_eq!(ino(format!("{below}/moved")), Ok(link));
    assert_eq!(ino(format!("{below}/moved/f")), Ok(file));

    // A circle of links that goes through both groups.
    make(
        &mut groups,
        ROOT_INO.0,
        "round",
        FileKind::Symlink,
        &format!("{one_name}/round/x"),
    );
    make(&mut groups, one, "round", FileKind::Symlink, "../round/x");
    assert_eq!(walk(&groups, "/round/y"), Err(Errno::ELOOP));
}
