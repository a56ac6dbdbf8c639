//! A name space that is damaged all the time, beside what clients work on, and repaired while they do
//! (`docs/protocols/fsck.md`).
//!
//! What is damaged is a tree of its own, and what comes to `/lost+found`; the clients' root is a directory beside
//! it, so that the reference file system, which knows nothing of damage, goes on to hold for all that they do.
//! Damage is a part of a transaction of which no other group knows: each server takes it for what it is asked
//! every day.

use super::builder::Cluster;
use crate::invariants::one_tree::Actives;
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, Errno};
use weft_fsck::{Ask, Repaired, Terms};
use weft_types::{GroupId, Ino, SLOTS, Slot};
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{
    self, AddPart, FileKind, FinishRequest, MakePart, MovePart, NamePart, Part, Policy,
    PrepareRequest, TransactionId,
};

/// The clients' root.
const WORK: &[u8] = b"work";
/// Directories in the tree that is damaged, with a file in each, at least.
const DIRECTORIES: u64 = 10;
/// Between two damages, at most.
const PAUSE_MS: u64 = 400;
/// Between two repairs.
const REPAIR_PAUSE: Duration = Duration::from_millis(500);
/// Once faults have ended, all is repaired within this time.
const END_WITHIN: Duration = Duration::from_secs(120);
/// Numbers of transactions that no home gives.
const FIRST_NUMBER: u64 = 1 << 40;

/// A directory of the tree, its name there, and its file.
struct Made {
    directory: u64,
    name: Vec<u8>,
    file: u64,
}

/// Who damages, and repairs.
pub struct Damager {
    cluster: Rc<Cluster>,
    rng: RefCell<Rng>,
    tree: RefCell<(u64, Vec<Made>)>,
    number: Cell<u64>,
    damaged: Cell<u64>,
    repaired: Cell<u64>,
}

impl Damager {
    /// Of `cluster`; does nothing yet.
    pub fn new(cluster: &Rc<Cluster>) -> Damager {
        Damager {
            rng: RefCell::new(cluster.world.rng("damage")),
            cluster: cluster.clone(),
            tree: RefCell::default(),
            number: Cell::new(FIRST_NUMBER),
            damaged: Cell::default(),
            repaired: Cell::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    /// The group of an inode, as slots are given out at first.
    fn group_of(&self, ino: u64) -> u64 {
        u64::from(Ino(ino).slot().0) * self.cluster.groups() as u64 / u64::from(SLOTS)
    }

    /// Makes the clients' root, and the tree that is to be damaged.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn prepare(&self) -> Result<(), String> {
        let env = self.cluster.world.node("damager").env();
        let client = Client::connect(env, self.cluster.client_settings("damager"))
            .await
            .map_err(|error| format!("the damager cannot connect: {error}"))?;
        let made = self.make(&client).await;
        made.map_err(|error| format!("there is nothing to damage: {error:?}"))?;
        let left = client.close().await;
        left.map_err(|error| format!("the damager leaves with {error}"))
    }

    async fn make(&self, client: &Client) -> Result<(), Errno> {
        let cred = Cred {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let root = client.root();
        let work = client.mkdir(&cred, root, WORK, 0o755).await?;
        self.cluster.shared.root.set(work.attr.ino);
        // The first group's.
        let mut top = 0;
        for number in 0.. {
            let name = format!("damaged{number}").into_bytes();
            top = client.mkdir(&cred, root, &name, 0o755).await?.attr.ino;
            if self.group_of(top) == 0 {
                break;
            }
        }
        let mut all: Vec<Made> = Vec::new();
        let is_in = |all: &[Made], group: u64| {
            let mut groups = all.iter().map(|made| self.group_of(made.directory));
            groups.any(|of| of == group)
        };
        for number in 0.. {
            if number >= DIRECTORIES && is_in(&all, 0) && is_in(&all, 1) {
                break;
            }
            let name = format!("d{number}").into_bytes();
            let directory = client.mkdir(&cred, top, &name, 0o755).await?.attr.ino;
            let flags = CreateFlags::default();
            let (file, handle) = client.create(&cred, directory, b"f", 0o644, flags).await?;
            client.release(handle, None).await?;
            all.push(Made {
                directory,
                name,
                file: file.attr.ino,
            });
        }
        self.tree.replace((top, all));
        Ok(())
    }

    /// What is to be broken, and whose it is. Each is such that its group alone could not tell: what that could, it
    /// would not take from its own images either. So entries of the first group's directories are broken that name
    /// the second group's inodes, and the other way round.
    fn draw(&self) -> (Ino, Kind) {
        let tree = self.tree.borrow();
        let (top, all) = &*tree;
        let of = |group: u64| {
            let mut own: Vec<&Made> = all.iter().collect();
            own.retain(|made| self.group_of(made.directory) == group);
            own[self.below(own.len() as u64) as usize]
        };
        let (zero, one) = (of(0), of(1));
        let fresh = format!("new{}", self.number.get()).into_bytes();
        let name = |directory: u64, name: &[u8], ino: u64, kind: FileKind| {
            let part = NamePart {
                directory,
                name: name.to_vec().into(),
                ino,
                kind: if ino == 0 { 0 } else { kind as i32 },
                ..NamePart::default()
            };
            (Ino(directory), Kind::Name(part))
        };
        let slot = SLOTS / 2 + self.below(u64::from(SLOTS / 2)) as u16;
        let never = Ino::new(Slot(slot), 1 << 35).0;
        match self.below(7) {
            // Names of nothing.
            0 => name(zero.directory, &fresh, never, FileKind::Regular),
            1 => name(*top, &fresh, never, FileKind::Directory),
            // The only name of a file, and of a directory.
            2 => name(one.directory, b"f", 0, FileKind::Unspecified),
            3 => name(*top, &one.name, 0, FileKind::Unspecified),
            // A second name of a directory.
            4 => name(zero.directory, &fresh, one.directory, FileKind::Directory),
            5 => (
                Ino(zero.file),
                Kind::Add(AddPart {
                    ino: zero.file,
                    ..AddPart::default()
                }),
            ),
            6 if self.below(2) == 0 => {
                let moved = MovePart {
                    ino: one.directory,
                    parent: zero.directory,
                    exempt: true,
                    ..MovePart::default()
                };
                (Ino(one.directory), Kind::Move(moved))
            }
            _ => {
                let made = MakePart {
                    slot: u32::from(slot),
                    parent: zero.directory,
                    mode: 0o755,
                    policy: Some(Policy::default()),
                    ..MakePart::default()
                };
                (Ino::new(Slot(slot), 0), Kind::Make(made))
            }
        }
    }

    /// Breaks something. False: the group did not take it, or did not answer.
    async fn damage(&self, actives: &Actives<'_>, group: GroupId, kind: Kind) -> bool {
        self.number.set(self.number.get() + 1);
        let home = (group.0 + 1) % self.cluster.groups() as u32;
        let transaction = Some(TransactionId {
            home,
            epoch: 1,
            number: self.number.get(),
        });
        let prepare = PrepareRequest {
            transaction,
            cred: Some(proto::Cred::default()),
            parts: vec![Part {
                part: Some(kind),
                ..Part::default()
            }],
            ..PrepareRequest::default()
        };
        let prepared = actives.ask(group, &prepare).await;
        if !prepared.is_ok_and(|reply| reply.failure_errno == 0) {
            return false;
        }
        let finish = FinishRequest {
            transaction,
            done: true,
            ..FinishRequest::default()
        };
        actives.ask(group, &finish).await.is_ok()
    }

    /// Damages and repairs until the clients are done, or `until` has come.
    pub async fn work(&self, until: Duration) {
        let is_over = || self.cluster.world.now() >= until || self.cluster.clients_are_done();
        let damaging = async {
            let actives = Actives::of(&self.cluster, "damages");
            while !is_over() {
                let pause = Duration::from_millis(self.below(PAUSE_MS));
                self.cluster.world.sleep(pause).await;
                let (of, kind) = self.draw();
                for group in 0..self.cluster.groups() as u32 {
                    // Whoever does not have it refuses.
                    let is_done = self.damage(&actives, GroupId(group), kind.clone()).await;
                    if is_done {
                        tracing::info!(ino = %of, ?kind, "damaged");
                        self.damaged.set(self.damaged.get() + 1);
                        break;
                    }
                }
            }
            actives.close();
        };
        let repairing = async {
            while !is_over() {
                self.cluster.world.sleep(REPAIR_PAUSE).await;
                if let Err(why) = self.repair().await {
                    tracing::info!(why, "the name space could not be repaired");
                }
            }
        };
        futures_util::future::join(damaging, repairing).await;
    }

    /// Checks and repairs once. True: nothing is wrong, or undecided, any more.
    async fn repair(&self) -> Result<bool, String> {
        let actives = Actives::of(&self.cluster, "repairs");
        let env = self.cluster.world.node("repairs").env();
        let groups: Vec<GroupId> = (0..self.cluster.groups() as u32).map(GroupId).collect();
        let terms = Terms::default();
        let told = |repaired: &Repaired| {
            tracing::info!(%repaired, "repaired");
            self.repaired.set(self.repaired.get() + 1);
        };
        let outcome = async {
            let report = weft_fsck::check(&env, &actives, &groups, &terms).await?;
            weft_fsck::repair(&env, &actives, &groups, &terms, &report, told).await
        };
        let outcome = outcome.await;
        actives.close();
        let mended = outcome?;
        Ok(mended.report.is_sound() && mended.report.is_complete())
    }

    /// All is repaired, now that nothing is in the way.
    ///
    /// # Errors
    /// What is not.
    pub async fn finish(&self) -> Result<(), String> {
        let until = self.cluster.world.now() + END_WITHIN;
        loop {
            let outcome = self.repair().await;
            if outcome == Ok(true) {
                return Ok(());
            }
            if self.cluster.world.now() > until {
                return Err(format!("the name space cannot be repaired: {outcome:?}"));
            }
            self.cluster.world.sleep(REPAIR_PAUSE).await;
        }
    }

    /// How many damages there were, and how many repairs.
    pub fn done(&self) -> (u64, u64) {
        (self.damaged.get(), self.repaired.get())
    }
}
