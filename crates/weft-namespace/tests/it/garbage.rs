//! Bytes from anywhere, taken for entries and for images: refused, never a panic, and whatever a
//! state takes in it can save and load again.
//!
//! The helpers `take_entry` and `take_image` are what a fuzzer would call; here a seeded generator
//! feeds them. Most of what it makes is near to being right, because plain noise ends in the decoder.

use prost::Message;
use weft_namespace::State;
use weft_types::{Ino, SessionId};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    self, AddPair, CloseSession, Create, Cred, DropKept, DropLease, Dropped, Entry, FileLock,
    LetGo, Link, NewReign, OpenSession, Orphan, PairState, Policy, Release, Removexattr, Rename,
    Rmdir, SetLock, SetOpen, SetPairState, SetPolicy, Setattr, SettledSize, Setxattr, Time,
    TrimDone, Unlink, WriteLease,
};

/// Applies the bytes to the state if they are an entry.
fn take_entry(state: &mut State, bytes: &[u8]) -> bool {
    let Ok(entry) = Entry::decode(bytes) else {
        return false;
    };
    let touched = state.touches(&entry);
    let reply = state.apply(&entry);
    // Asked twice, it answers the same.
    let again = state.touches(&entry);
    assert!(touched.len() <= 4 && again.len() <= 4);
    reply.failure_errno == 0
}

/// Loads an image of these records; what loads must be a state like any other.
fn take_image<R: AsRef<[u8]>>(records: &[R]) -> bool {
    let Ok(mut state) = State::load(records) else {
        return false;
    };
    state.apply(&Entry::default());
    check(&state);
    true
}

fn records(state: &State) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    state.save(&mut |record| records.push(record.to_vec()));
    records
}

fn check(state: &State) {
    let loaded = State::load(records(state)).expect("what we save, we load");
    assert_eq!(&loaded, state);
    assert_eq!(loaded.digest(), state.digest());
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 5
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Small mostly, sometimes at an end of its range.
    fn number(&mut self) -> u64 {
        match self.below(40) {
            0 => u64::MAX,
            1 => i64::MAX as u64,
            2 => u64::from(u32::MAX),
            3 => self.next() << 5,
            _ => self.below(8),
        }
    }

    fn small(&mut self) -> u32 {
        self.number() as u32
    }

    fn ino(&mut self, known: &[u64]) -> u64 {
        if self.below(10) == 0 {
            self.number()
        } else {
            known[self.below(known.len() as u64) as usize]
        }
    }

    fn name(&mut self) -> bytes::Bytes {
        let plain = ["a", "b", "c", "d", "e", ".", "..", "", "a/b", "a\0b"];
        match self.below(30) {
            0 => vec![b'x'; 256].into(),
            1 => vec![255; 255].into(),
            2 => (*b"user.a").to_vec().into(),
            n => plain[(n % if self.below(6) == 0 { 10 } else { 5 }) as usize].into(),
        }
    }

    fn xattr(&mut self) -> bytes::Bytes {
        let names = [
            "user.a",
            "user.b",
            "trusted.a",
            "security.a",
            "system.a",
            "user.",
            "",
            "x",
        ];
        names[self.below(names.len() as u64) as usize].into()
    }

    fn time(&mut self) -> Option<Time> {
        let seconds = self.number() as i64;
        self.flag().then(|| Time {
            seconds,
            nanos: self.small(),
        })
    }

    fn op(&mut self, inos: &[u64]) -> Op {
        match self.below(29) {
            28 => Op::LetGo(LetGo {
                inos: vec![self.ino(inos), self.number()],
            }),
            0..=4 => Op::Create(Create {
                cuts: self.number(),
                parent: self.ino(inos),
                name: self.name(),
                kind: self.below(9) as i32,
                mode: self.small() | 0o700,
                rdev: self.small(),
                target: self.name(),
                exclusive: self.flag(),
                truncate: self.flag(),
                open_access: self.small(),
                unnamed: false,
            }),
            5 => Op::Link(Link {
                ino: self.ino(inos),
                parent: self.ino(inos),
                name: self.name(),
                unnamed: false,
            }),
            6 => {
                let (parent, name, keep_open) = (self.ino(inos), self.name(), self.flag());
                Op::Unlink(Unlink {
                    parent,
                    name,
                    keep_open,
                    victim: None,
                })
            }
            7 => Op::Rmdir(Rmdir {
                parent: self.ino(inos),
                name: self.name(),
            }),
            8 | 9 => Op::Rename(Rename {
                parent: self.ino(inos),
                name: self.name(),
                new_parent: self.ino(inos),
                new_name: self.name(),
                no_replace: self.below(4) == 0,
                exchange: self.below(4) == 0,
                keep_open: self.flag(),
                victim: None,
                whiteout: false,
            }),
            10..=12 => Op::Setattr(Setattr {
                ino: self.ino(inos),
                mode: (self.below(4) == 0).then(|| self.small()),
                uid: (self.below(4) == 0).then(|| self.small()),
                gid: (self.below(4) == 0).then(|| self.small()),
                size: self.flag().then(|| self.number()),
                atime: self.time(),
                mtime: self.time(),
                atime_now: self.flag(),
                mtime_now: self.flag(),
                owed: self.below(3) == 0,
                allocated: (self.below(4) == 0).then(|| self.number()),
                by_handle: self.flag(),
                allocated_more: (self.below(4) == 0).then(|| self.number()),
                beside_others: self.flag(),
            }),
            13 => Op::Setxattr(Setxattr {
                ino: self.ino(inos),
                name: self.xattr(),
                value: self.name(),
                create_only: self.flag(),
                replace_only: self.flag(),
            }),
            14 => Op::Removexattr(Removexattr {
                ino: self.ino(inos),
                name: self.xattr(),
            }),
            15 => {
                let policy = Policy {
                    stripe_unit: 1 << self.below(31),
                    width: self.small(),
                    protocol: self.below(7) as i32,
                    durability: self.below(4) as i32,
                };
                Op::SetPolicy(SetPolicy {
                    ino: self.ino(inos),
                    policy: self.flag().then_some(policy),
                })
            }
            16 | 17 => {
                let lock = FileLock {
                    kind: self.below(4) as i32,
                    flock: self.flag(),
                    owner: self.below(3),
                    start: self.number(),
                    last: self.number(),
                    pid: self.small(),
                    behalf: self.below(3),
                };
                Op::SetLock(SetLock {
                    ino: self.ino(inos),
                    lock: Some(lock),
                    wait: false,
                    reclaim: self.flag(),
                })
            }
            18 => Op::WriteLease(WriteLease {
                ino: self.ino(inos),
                start: self.number(),
                end: self.number(),
                shared: self.flag(),
            }),
            19 => Op::DropLease(DropLease {
                ino: self.ino(inos),
            }),
            20 => Op::Release(Release {
                ino: self.ino(inos),
            }),
            21 => Op::TrimDone(TrimDone {
                ino: self.ino(inos),
                trim_seq: self.number(),
            }),
            22 => match self.below(12) {
                0 => Op::OpenSession(OpenSession {
                    name: "é".repeat(self.below(200) as usize),
                    keep_ms: self.number(),
                    term_ms: self.number(),
                    only_moves: self.flag(),
                }),
                1 | 2 => Op::CloseSession(CloseSession {
                    session: self.number(),
                    clean: self.flag(),
                    keep: self.flag(),
                    gone: vec![self.below(3)],
                }),
                3..=5 => Op::NewReign(NewReign {
                    epoch: self.number(),
                }),
                _ => Op::AddPair(AddPair { pair: self.small() }),
            },
            23 => {
                let state = PairState {
                    pair: self.small(),
                    epoch: self.number(),
                    mode: self.below(6) as i32,
                    serving: self.small(),
                    ..PairState::default()
                };
                Op::SetPairState(SetPairState { state: Some(state) })
            }
            26 => Op::SetOpen(SetOpen {
                ino: self.ino(inos),
                owner: self.below(3),
                behalf: self.below(3),
                access: self.below(5) as u32,
                deny: self.below(5) as u32,
                kept: self.below(5) as u32,
                reclaim: self.flag(),
            }),
            27 => Op::DropKept(DropKept {
                behalf: self.below(3),
                sessions: vec![self.number(), self.below(4)],
            }),
            24 => Op::Orphan(Orphan {
                ino: self.ino(inos),
                session: self.number(),
            }),
            _ if self.flag() => Op::Dropped(Dropped {
                queue_ids: vec![self.number(), self.number()],
            }),
            _ => Op::SettledSize(SettledSize {
                ino: self.ino(inos),
                size: self.number(),
                session: self.below(4),
            }),
        }
    }

    fn entry(&mut self, inos: &[u64], step: u64) -> Entry {
        let op = self.op(inos);
        let service = matches!(
            op,
            Op::OpenSession(_)
                | Op::CloseSession(_)
                | Op::NewReign(_)
                | Op::AddPair(_)
                | Op::SetPairState(_)
                | Op::Dropped(_)
                | Op::LetGo(_)
                | Op::SettledSize(_)
        );
        Entry {
            session: if service && self.below(8) > 0 {
                0
            } else {
                self.below(4)
            },
            operation: if self.below(10) == 0 {
                self.number()
            } else {
                step
            },
            acknowledged_below: if self.below(1000) == 0 {
                self.number()
            } else {
                step / 2
            },
            cred: (self.below(20) > 0).then(|| Cred {
                uid: self.below(6).saturating_sub(3) as u32,
                gid: self.below(3) as u32,
                groups: vec![self.small()],
            }),
            time: self.time(),
            op: (self.below(40) > 0).then_some(proto::Op { op: Some(op) }),
            random: self.next(),
            lingers: self.flag(),
            avoid: (0..self.below(3)).map(|_| self.below(4) as u32).collect(),
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() as u64 + 1) as usize;
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next() as u8),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => bytes.push(self.next() as u8),
            }
        }
    }
}

fn run(seed: u64, steps: u64) -> (State, u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut state = State::new();
    for op in [
        Op::AddPair(AddPair { pair: 2 }),
        Op::OpenSession(OpenSession {
            name: "a".into(),
            ..OpenSession::default()
        }),
        Op::OpenSession(OpenSession {
            name: "b".into(),
            ..OpenSession::default()
        }),
        Op::Setattr(Setattr {
            ino: 1,
            mode: Some(0o777),
            ..Setattr::default()
        }),
    ] {
        let op = Some(proto::Op { op: Some(op) });
        state.apply(&Entry {
            op,
            ..Entry::default()
        });
    }
    let mut inos = vec![1];
    let mut done = 0;
    for step in 1..=steps {
        let entry = random.entry(&inos, step);
        let mut bytes = entry.encode_to_vec();
        if random.below(5) == 0 {
            random.damage(&mut bytes);
        }
        done += u64::from(take_entry(&mut state, &bytes));
        if let Some(reply) = state.answered(SessionId(entry.session), weft_types::Operation(step))
            && let Some(attr) = reply.attr
            && reply.created
        {
            inos.push(attr.ino);
            if inos.len() > 30 {
                inos.remove(1);
            }
        }
        // Questions about anything have answers.
        let (ino, name) = (Ino(random.ino(&inos)), random.name());
        let _ = state.lookup(&Cred::default(), ino, &name);
        let _ = state.readdir(
            &Cred::default(),
            ino,
            random.number(),
            random.below(5) as usize,
        );
        let from = proto::Elsewhere {
            ino: [0, ino.0, random.number()][random.below(3) as usize],
            rest: name,
            within: random.ino(&inos),
            links: random.number() as u32,
        };
        let _ = state.resolve(&from);
        state.survey_names((ino, random.number()), 3, 3);
        let place = proto::SurveyedPlace {
            directory: random.ino(&inos),
            ino: ino.0,
            ..proto::SurveyedPlace::default()
        };
        let _ = state.survey_place(&place, &mut 100);
        let _ = state.survey_sight(ino, &mut 1);
        let _ = state.getxattr(&Cred::default(), ino, &random.xattr());
        let lock = FileLock {
            start: random.number(),
            last: random.number(),
            ..Default::default()
        };
        let _ = state.get_lock(SessionId(random.number()), ino, &lock);
        state.statistics();
    }
    (state, done)
}

#[test]
fn entries_of_any_kind_are_survived_and_leave_a_sound_state() {
    let mut done = 0;
    for seed in 0..60 {
        let (state, some) = run(seed, 1500);
        check(&state);
        done += some;
        // The same bytes again give the same state.
        if seed % 10 == 0 {
            assert_eq!(run(seed, 1500).0.digest(), state.digest());
        }
    }
    assert!(
        done > 60 * 150,
        "only {done} entries did something: the test is empty"
    );
}

#[test]
fn noise_is_survived() {
    let mut random = Random(77);
    let mut state = State::new();
    for _ in 0..20_000 {
        let length = random.below(60) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        take_entry(&mut state, &bytes);
        take_image(&[bytes]);
    }
    check(&state);
}

#[test]
fn damaged_images_are_refused() {
    let mut random = Random(5);
    for seed in 100..104 {
        let records = records(&run(seed, 600).0);
        assert!(take_image(&records));
        for _ in 0..400 {
            let mut damaged = records.clone();
            let at = random.below(records.len() as u64) as usize;
            random.damage(&mut damaged[at]);
            let changed = damaged != records;
            assert!(
                !(take_image(&damaged) && changed),
                "record {at} of seed {seed}"
            );
        }
    }
}
