//! Random operations against a reference model that knows nothing of how the state is built, with
//! repeated changes, images at random points and a second replica.

mod reference;

use proptest::prelude::*;
use reference::{Model, Users};
use weft_namespace::State;
use weft_types::{Ino, Operation, ROOT_INO, SessionId};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    self, AddPair, Create, Cred, Entry, FileKind, Link, OpReply, OpenSession, Release, Removexattr,
    Rename, Rmdir, Setattr, Setxattr, Time, Unlink,
};

/// An operation on nodes by their place in the list of all that were ever made.
#[derive(Clone, Debug)]
pub enum Step {
    Create {
        dir: usize,
        name: u8,
        kind: u8,
        mode: u16,
        exclusive: bool,
        truncate: bool,
        open: u8,
    },
    Link {
        node: usize,
        dir: usize,
        name: u8,
    },
    Unlink {
        dir: usize,
        name: u8,
        keep: bool,
    },
    Rmdir {
        dir: usize,
        name: u8,
    },
    Rename {
        from: (usize, u8),
        to: (usize, u8),
        how: u8,
        keep: bool,
    },
    Chmod {
        node: usize,
        mode: u16,
    },
    Chown {
        node: usize,
        uid: Option<u8>,
        gid: Option<u8>,
    },
    Truncate {
        node: usize,
        size: u16,
    },
    SetXattr {
        node: usize,
        name: u8,
        value: u8,
    },
    RemoveXattr {
        node: usize,
        name: u8,
    },
    Release {
        node: usize,
    },
    /// Sends an earlier change again.
    Again {
        which: usize,
    },
    /// Acknowledges all so far.
    Acknowledge,
    /// Goes on with what an image gives.
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let modes = prop_oneof![
        Just(0o777u16),
        Just(0o755),
        Just(0o700),
        Just(0o644),
        Just(0o1777),
        Just(0o2775),
        Just(0o6755),
        Just(0o2744),
        Just(0o311),
        Just(0),
    ];
    let (node, dir, name) = (0..12usize, 0..5usize, 0..4u8);
    let place = (dir.clone(), name.clone());
    prop_oneof![
        6 => (place.clone(), 0..4u8, modes.clone(), any::<(bool, bool)>(), 0..7u8).prop_map(
            |((dir, name), kind, mode, (exclusive, truncate), open)| Step::Create {
                dir, name, kind, mode, exclusive, truncate, open
            }
        ),
        2 => (node.clone(), place.clone())
            .prop_map(|(node, (dir, name))| Step::Link { node, dir, name }),
        3 => (place.clone(), any::<bool>())
            .prop_map(|((dir, name), keep)| Step::Unlink { dir, name, keep }),
        2 => place.clone().prop_map(|(dir, name)| Step::Rmdir { dir, name }),
        5 => (place.clone(), place.clone(), 0..3u8, any::<bool>())
            .prop_map(|(from, to, how, keep)| Step::Rename { from, to, how, keep }),
        2 => (node.clone(), modes).prop_map(|(node, mode)| Step::Chmod { node, mode }),
        2 => (node.clone(), prop::option::of(0..4u8), prop::option::of(0..4u8))
            .prop_map(|(node, uid, gid)| Step::Chown { node, uid, gid }),
        2 => (node.clone(), 0..3u16)
            .prop_map(|(node, size)| Step::Truncate { node, size: size * 5000 }),
        1 => (node.clone(), 0..3u8, any::<u8>())
            .prop_map(|(node, name, value)| Step::SetXattr { node, name, value }),
        1 => (node.clone(), 0..3u8).prop_map(|(node, name)| Step::RemoveXattr { node, name }),
        1 => node.prop_map(|node| Step::Release { node }),
        1 => (0..200usize).prop_map(|which| Step::Again { which }),
        1 => Just(Step::Acknowledge),
        1 => Just(Step::Reload),
    ]
}

fn cred(user: u8) -> Cred {
    let (uid, gid, groups) = Users::ALL[usize::from(user)];
    Cred {
        uid,
        gid,
        groups: groups.to_vec(),
    }
}

fn name(name: u8) -> bytes::Bytes {
    vec![b'a' + name].into()
}

const KINDS: [FileKind; 4] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
];

struct Run {
    state: State,
    model: Model,
    /// Inode numbers by the model's node.
    inos: Vec<Ino>,
    entries: Vec<(Entry, OpReply)>,
    acknowledged: u64,
    history: Vec<Entry>,
}

const SESSION: u64 = 1;

impl Run {
    fn new() -> Run {
        let mut run = Run {
            state: State::new(),
            model: Model::new(),
            inos: vec![ROOT_INO],
            entries: Vec::new(),
            acknowledged: 1,
            history: Vec::new(),
        };
        for op in [
            Op::AddPair(AddPair { pair: 3 }),
            Op::OpenSession(OpenSession {
                name: "model".into(),
                ..OpenSession::default()
            }),
            Op::Setattr(Setattr {
                ino: ROOT_INO.0,
                mode: Some(0o1777),
                ..Setattr::default()
            }),
        ] {
            let entry = Entry {
                op: Some(proto::Op { op: Some(op) }),
                ..Entry::default()
            };
            assert_eq!(run.state.apply(&entry).failure_errno, 0);
            run.history.push(entry);
        }
        run
    }

    fn apply(&mut self, user: u8, op: Op) -> OpReply {
        let operation = self.entries.len() as u64 + 1;
        let entry = Entry {
            session: SESSION,
            operation,
            acknowledged_below: self.acknowledged,
            cred: Some(cred(user)),
            time: Some(Time {
                seconds: operation as i64,
                nanos: 7,
            }),
            op: Some(proto::Op { op: Some(op) }),
            random: operation * 77,
            lingers: false,
            avoid: Vec::new(),
        };
        let touched = self.state.touches(&entry);
        let before = self.state.clone();
        let reply = self.state.apply(&entry);
        // Whatever changed was announced.
        for node in &self.inos {
            let (was, is) = (before.inode(*node), self.state.inode(*node));
            let Ok(was) = was else { continue };
            // Nobody else can know of an orphan that its last holder lets go.
            let orphan = was.attr.as_ref().is_some_and(|attr| attr.nlink == 0);
            if !(is.is_err() && orphan) && Ok(was) != is {
                assert!(
                    touched.iter().any(|t| t.ino == *node),
                    "{node} changed: {entry:?}"
                );
            }
        }
        let answered = self
            .state
            .answered(SessionId(SESSION), Operation(operation));
        assert_eq!(answered.as_ref(), Some(&reply));
        self.history.push(entry.clone());
        self.entries.push((entry, reply.clone()));
        reply
    }

    fn ino(&self, node: usize) -> u64 {
        // One that was never made, for nodes beyond.
        self.inos.get(node).map_or(0xF00, |ino| ino.0)
    }

    fn step(&mut self, user: u8, step: &Step) {
        let (op, expected) = match step {
            Step::Create {
                dir,
                name: n,
                kind,
                mode,
                exclusive,
                truncate,
                open,
            } => {
                let dir = self.model.directory(*dir);
                let kind = KINDS[usize::from(*kind)];
                let op = Op::Create(Create {
                    parent: self.ino(dir),
                    name: name(*n),
                    kind: kind as i32,
                    mode: u32::from(*mode),
                    target: "t".into(),
                    exclusive: *exclusive,
                    truncate: *truncate,
                    open_access: u32::from(*open),
                    ..Create::default()
                });
                let before = self.model.len();
                let made = self
                    .model
                    .create(user, dir, *n, kind, *mode, *exclusive, *truncate, *open);
                let reply = self.apply(user, op);
                if self.model.len() > before {
                    let attr = reply
                        .attr
                        .as_ref()
                        .expect("made by the model, refused by the state");
                    assert!(reply.created);
                    self.inos.push(Ino(attr.ino));
                }
                return self.compare(step, made, &reply);
            }
            Step::Link { node, dir, name: n } => {
                let dir = self.model.directory(*dir);
                let op = Link {
                    ino: self.ino(*node),
                    parent: self.ino(dir),
                    name: name(*n),
                    unnamed: false,
                };
                (Op::Link(op), self.model.link(user, *node, dir, *n))
            }
            Step::Unlink { dir, name: n, keep } => {
                let dir = self.model.directory(*dir);
                let op = Unlink {
                    parent: self.ino(dir),
                    name: name(*n),
                    keep_open: *keep,
                    victim: None,
                };
                (Op::Unlink(op), self.model.unlink(user, dir, *n, *keep))
            }
            Step::Rmdir { dir, name: n } => {
                let dir = self.model.directory(*dir);
                let op = Rmdir {
                    parent: self.ino(dir),
                    name: name(*n),
                };
                (Op::Rmdir(op), self.model.rmdir(user, dir, *n))
            }
            Step::Rename {
                from,
                to,
                how,
                keep,
            } => {
                let from = (self.model.directory(from.0), from.1);
                let to = (self.model.directory(to.0), to.1);
                let op = Rename {
                    parent: self.ino(from.0),
                    name: name(from.1),
                    new_parent: self.ino(to.0),
                    new_name: name(to.1),
                    no_replace: *how == 1,
                    exchange: *how == 2,
                    whiteout: false,
                    keep_open: *keep,
                    victim: None,
                };
                (
                    Op::Rename(op),
                    self.model.rename(user, from, to, *how, *keep),
                )
            }
            Step::Chmod { node, mode: chmod } => {
                let mode = Some(u32::from(*chmod));
                let op = Setattr {
                    ino: self.ino(*node),
                    mode,
                    ..Setattr::default()
                };
                (Op::Setattr(op), self.model.chmod(user, *node, *chmod))
            }
            Step::Chown { node, uid, gid } => {
                let (uid, gid) = (uid.map(u32::from), gid.map(u32::from));
                let op = Setattr {
                    ino: self.ino(*node),
                    uid,
                    gid,
                    ..Setattr::default()
                };
                (Op::Setattr(op), self.model.chown(user, *node, uid, gid))
            }
            Step::Truncate { node, size: length } => {
                let size = Some(u64::from(*length));
                let op = Setattr {
                    ino: self.ino(*node),
                    size,
                    ..Setattr::default()
                };
                (
                    Op::Setattr(op),
                    self.model.truncate(user, *node, u64::from(*length)),
                )
            }
            Step::SetXattr { node, name, value } => {
                let op = Setxattr {
                    ino: self.ino(*node),
                    name: format!("user.{name}").into(),
                    value: vec![*value].into(),
                    ..Setxattr::default()
                };
                (
                    Op::Setxattr(op),
                    self.model.set_xattr(user, *node, *name, Some(*value)),
                )
            }
            Step::RemoveXattr { node, name } => {
                let name_bytes = format!("user.{name}").into();
                let op = Removexattr {
                    ino: self.ino(*node),
                    name: name_bytes,
                };
                (
                    Op::Removexattr(op),
                    self.model.set_xattr(user, *node, *name, None),
                )
            }
            Step::Release { node } => {
                self.model.release(*node);
                (
                    Op::Release(Release {
                        ino: self.ino(*node),
                    }),
                    0,
                )
            }
            Step::Again { which } => return self.again(*which),
            Step::Acknowledge => {
                self.acknowledged = self.entries.len() as u64 + 1;
                return;
            }
            Step::Reload => return self.reload(),
        };
        let reply = self.apply(user, op);
        self.compare(step, expected, &reply);
    }

    fn again(&mut self, which: usize) {
        let Some((entry, reply)) = self.entries.get(which) else {
            return;
        };
        let before = self.state.clone();
        let again = self.state.apply(entry);
        if self
            .state
            .answered(SessionId(SESSION), Operation(entry.operation))
            .as_ref()
            == Some(reply)
        {
            assert_eq!(&again, reply);
        } else {
            assert_eq!(again.failure_errno, libc::ESTALE as u32);
            assert!(entry.operation < self.acknowledged);
        }
        assert_eq!(self.state, before);
    }

    fn reload(&mut self) {
        let mut records = Vec::new();
        self.state.save(&mut |record| records.push(record.to_vec()));
        let loaded = State::load(&records).expect("our own image");
        assert_eq!(loaded, self.state);
        assert_eq!(loaded.digest(), self.state.digest());
        assert_eq!(loaded.statistics(), self.state.statistics());
        self.state = loaded;
    }

    fn compare(&self, step: &Step, expected: i32, reply: &OpReply) {
        assert_eq!(reply.failure_errno as i32, expected, "{step:?}");
        let root = Cred::default();
        for (node, ino) in self.inos.iter().enumerate() {
            let Some(known) = self.model.node(node) else {
                assert!(
                    self.state.inode(*ino).is_err(),
                    "{ino} should be gone after {step:?}"
                );
                continue;
            };
            let attr = self
                .state
                .inode(*ino)
                .expect("there")
                .attr
                .expect("always told");
            assert_eq!(
                (attr.mode as u16, attr.uid, attr.gid, attr.nlink),
                (known.mode, known.uid, known.gid, known.nlink),
                "{ino} after {step:?}"
            );
            if known.kind == FileKind::Regular {
                assert_eq!(attr.size, known.size, "{ino} after {step:?}");
            }
            let xattrs: Vec<(Vec<u8>, Vec<u8>)> = self
                .state
                .listxattr(&root, *ino)
                .expect("there")
                .into_iter()
                .map(|n| {
                    (
                        n.to_vec(),
                        self.state
                            .getxattr(&root, *ino, n)
                            .expect("listed")
                            .to_vec(),
                    )
                })
                .collect();
            let expected: Vec<(Vec<u8>, Vec<u8>)> = known
                .xattrs
                .iter()
                .map(|(n, v)| (format!("user.{n}").into_bytes(), vec![*v]))
                .collect();
            assert_eq!(xattrs, expected);
            if known.kind == FileKind::Directory {
                let (entries, end, parent) = self
                    .state
                    .readdir(&root, *ino, 0, 100)
                    .expect("a directory");
                assert!(end);
                assert_eq!(parent, self.inos[known.parent]);
                let mut listed: Vec<(u8, u64)> =
                    entries.iter().map(|e| (e.name[0] - b'a', e.ino)).collect();
                listed.sort_unstable();
                let expected: Vec<(u8, u64)> = known
                    .entries
                    .iter()
                    .map(|(n, node)| (*n, self.inos[*node].0))
                    .collect();
                assert_eq!(listed, expected, "{ino} after {step:?}");
            }
        }
        let live = (0..self.inos.len())
            .filter(|node| self.model.node(*node).is_some())
            .count();
        assert_eq!(self.state.statistics().inodes, live as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_does_what_the_model_does(
        steps in prop::collection::vec((0..Users::ALL.len() as u8, step()), 1..300)
    ) {
        let mut run = Run::new();
        for (user, step) in &steps {
            run.step(*user, step);
        }
        // Another replica, from the entries alone.
        let mut replica = State::new();
        for entry in &run.history {
            replica.apply(entry);
        }
        prop_assert_eq!(replica.digest(), run.state.digest());
        prop_assert_eq!(replica, run.state);
    }
}
