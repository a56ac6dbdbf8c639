//! What tokens cost and save (`docs/protocols/token.md`): clients of several gateways do the same things once with tokens,
//! once as if there were none, and messages between the gateways and the metadata service are counted. What the
//! relaxed mode of dNFSp1 would cost, where a gateway fetches a file's attributes once and never again, is computed
//! from the same operations, with how many answers would have been old.
//!
//! Used by the example `tokens` (the figures) and by the test of that name.

#![allow(dead_code, reason = "the example and the test use their parts")]

use crate::gates::{Gate, user};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_oncrpc::{Connection, Credential, Limits};
use weft_sim::World;
use weft_xdr::Procedure;
use weft_xdr::mount3::{MOUNTPROC3_MNT, mountres3};
use weft_xdr::nfs3::*;

/// Gateways close files, and tell what they owe, within this.
const SETTLING: std::time::Duration = std::time::Duration::from_secs(15);

/// Who keeps what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// Leases, as in the product.
    Tokens,
    /// Nothing: each operation asks the service.
    Nothing,
}

/// What the clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Each has files of its own, by its own gateway: makes and writes them, looks at them again and again, reads them.
    Own,
    /// One goes on writing files; by the other gateways they are looked at meanwhile.
    Written,
    /// One has written files; by the other gateways they are looked at again and again.
    Read,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Gateways, each with a client.
    pub gateways: usize,
    /// Files of each client that writes.
    pub files: usize,
    /// How often each file is written, where writing goes on, and looked at.
    pub rounds: usize,
}

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Create,
    Write,
    Commit,
    Lookup,
    Getattr,
    Read,
}

impl Kind {
    /// As NFS calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Create => "CREATE",
            Kind::Write => "WRITE",
            Kind::Commit => "COMMIT",
            Kind::Lookup => "LOOKUP",
            Kind::Getattr => "GETATTR",
            Kind::Read => "READ",
        }
    }

    /// It tells something that could have been fetched before.
    fn is_looking(self) -> bool {
        matches!(self, Kind::Lookup | Kind::Getattr | Kind::Read)
    }
}

/// What operations of one kind cost together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    pub operations: u64,
    /// Between gateways and the service, there and back, those of revocations among them.
    pub messages: u64,
    /// Leases that the service asked back, and questions to who holds one.
    pub revocations: u64,
    /// If attributes were fetched once: messages.
    pub relaxed: u64,
    /// If they were: answers that tell another size than the file has.
    pub stale: u64,
}

impl Cost {
    /// Of one operation.
    pub fn each(&self, of: impl Fn(&Cost) -> u64) -> f64 {
        of(self) as f64 / self.operations.max(1) as f64
    }

    fn add(&mut self, more: Cost) {
        self.operations += more.operations;
        self.messages += more.messages;
        self.revocations += more.revocations;
        self.relaxed += more.relaxed;
        self.stale += more.stale;
    }
}

/// All of one run.
pub type Costs = BTreeMap<Kind, Cost>;

/// All kinds together.
pub fn all(costs: &Costs) -> Cost {
    let mut sum = Cost::default();
    costs.values().for_each(|cost| sum.add(*cost));
    sum
}

/// Does it, in a cluster of which nothing is under way.
pub async fn measure(
    world: &World,
    gates: &[Gate],
    keeping: Keeping,
    workload: Workload,
    amount: Amount,
) -> Costs {
    let mut run = Run::begin(world, &gates[..amount.gateways], keeping).await;
    match workload {
        Workload::Own => {
            for client in 0..amount.gateways {
                run.own(client, amount).await;
            }
        }
        Workload::Written => run.written(amount).await,
        Workload::Read => run.read_by_all(amount).await,
    }
    // What is told later: the time of access of what was read last, or the size of what was written.
    run.settle(match workload {
        Workload::Own | Workload::Read => Kind::Read,
        Workload::Written => Kind::Write,
    })
    .await;
    run.costs
}

/// Requests and revocations so far.
fn figures(gates: &[Gate]) -> (u64, u64) {
    let of = |gate: &Gate| {
        let slot = gate.slot.borrow();
        let figures = slot.as_ref().unwrap().client().figures();
        (figures.requests, figures.revocations)
    };
    let all: Vec<(u64, u64)> = gates.iter().map(of).collect();
    (
        all.iter().map(|it| it.0).sum(),
        all.iter().map(|it| it.1).sum(),
    )
}

struct Run<'a> {
    world: &'a World,
    gates: &'a [Gate],
    keeping: Keeping,
    clients: Vec<Connection>,
    user: Credential,
    /// A directory for each client.
    dirs: Vec<nfs_fh3>,
    costs: Costs,
    /// In the relaxed mode: what each gateway has fetched of which file.
    fetched: BTreeMap<(usize, Bytes), u64>,
    /// In the relaxed mode: names that each gateway has fetched.
    named: BTreeSet<(usize, Bytes, String)>,
}

impl Run<'_> {
    async fn begin<'a>(world: &'a World, gates: &'a [Gate], keeping: Keeping) -> Run<'a> {
        let env = world.node("client").env();
        let mut clients = Vec::new();
        for gate in gates {
            let connecting =
                Connection::connect(&env, &gate.settings.listen, Limits::default(), Vec::new());
            clients.push(connecting.await.unwrap());
        }
        let mut run = Run {
            world,
            gates,
            keeping,
            clients,
            user: user(0),
            dirs: Vec::new(),
            costs: Costs::new(),
            fetched: BTreeMap::new(),
            named: BTreeSet::new(),
        };
        let mounted = run.call::<MOUNTPROC3_MNT>(0, Bytes::from_static(b"/"));
        let mountres3::MNT3_OK(mounted) = mounted.await else {
            panic!("not mounted")
        };
        let root = nfs_fh3 {
            data: mounted.fhandle,
        };
        for client in 0..gates.len() {
            let args = MKDIR3args {
                r#where: place(&root, &format!("of-{client}")),
                attributes: mode(0o755),
            };
            let MKDIR3res::NFS3_OK(made) = run.call::<NFSPROC3_MKDIR>(client, args).await else {
                panic!("no directory")
            };
            run.dirs.push(made.obj.unwrap());
        }
        run.world.sleep(SETTLING).await;
        run
    }

    async fn call<P: Procedure>(&self, client: usize, arguments: P::Arguments) -> P::Results {
        let call = self.clients[client].call::<P>(&self.user, &arguments);
        call.await.unwrap()
    }

    /// As an operation finds it: with nothing known at any gateway, if nothing is kept.
    async fn forget(&self) {
        if self.keeping == Keeping::Nothing {
            for gate in self.gates {
                let client = gate.slot.borrow().as_ref().unwrap().client().clone();
                client.forget_all().await.unwrap();
            }
        }
    }

    /// Does one operation and counts what it costs, with what has to be told of it before the next one if nothing is
    /// kept.
    async fn count<P: Procedure>(
        &mut self,
        kind: Kind,
        client: usize,
        arguments: P::Arguments,
    ) -> P::Results {
        let before = figures(self.gates);
        let results = self.call::<P>(client, arguments).await;
        self.forget().await;
        self.note(kind, before, 1);
        results
    }

    fn note(&mut self, kind: Kind, before: (u64, u64), operations: u64) {
        let after = figures(self.gates);
        let (requests, asked) = (after.0 - before.0, after.1 - before.1);
        // Who is given no leases is asked for none; those that come here are for what was forgotten in silence.
        let revocations = match self.keeping {
            Keeping::Tokens => asked,
            Keeping::Nothing => 0,
        };
        let cost = Cost {
            operations,
            messages: 2 * (requests + revocations),
            revocations,
            // What changes something is done by the service in any case; what this took of others' tokens is none of
            // its own. So is what is told when files are closed.
            relaxed: match kind.is_looking() && operations > 0 {
                true => 0,
                false => 2 * requests,
            },
            stale: 0,
        };
        self.costs.entry(kind).or_default().add(cost);
    }

    /// In the relaxed mode: a gateway tells a file's attributes. The first time it has to fetch them.
    fn relaxed(&mut self, kind: Kind, client: usize, file: &nfs_fh3, size: u64) {
        let cost = self.costs.entry(kind).or_default();
        match self.fetched.get(&(client, file.data.clone())) {
            Some(known) => cost.stale += u64::from(*known != size),
            None => {
                cost.relaxed += 2;
                self.fetched.insert((client, file.data.clone()), size);
            }
        }
    }

    async fn create(&mut self, client: usize, name: &str) -> nfs_fh3 {
        let args = CREATE3args {
            r#where: place(&self.dirs[client], name),
            how: createhow3::GUARDED(mode(0o644)),
        };
        let made = self.count::<NFSPROC3_CREATE>(Kind::Create, client, args);
        let CREATE3res::NFS3_OK(made) = made.await else {
            panic!("{name} was not made")
        };
        let file = made.obj.unwrap();
        self.named
            .insert((client, self.dirs[client].data.clone(), name.to_owned()));
        self.fetched.insert((client, file.data.clone()), 0);
        file
    }

    /// Of so many bytes from the beginning on, which is the file's size.
    async fn write(&mut self, client: usize, file: &nfs_fh3, bytes: usize) {
        let args = WRITE3args {
            file: file.clone(),
            offset: 0,
            count: bytes as u32,
            stable: stable_how::UNSTABLE,
            data: vec![7; bytes].into(),
        };
        let written = self.count::<NFSPROC3_WRITE>(Kind::Write, client, args);
        let WRITE3res::NFS3_OK(written) = written.await else {
            panic!("not written")
        };
        assert_eq!(written.count as usize, bytes);
        self.fetched
            .insert((client, file.data.clone()), bytes as u64);
        let args = COMMIT3args {
            file: file.clone(),
            offset: 0,
            count: 0,
        };
        let kept = self.count::<NFSPROC3_COMMIT>(Kind::Commit, client, args);
        assert!(matches!(kept.await, COMMIT3res::NFS3_OK(_)));
    }

    async fn getattr(&mut self, client: usize, file: &nfs_fh3, size: u64) {
        let args = GETATTR3args {
            object: file.clone(),
        };
        let told = self.count::<NFSPROC3_GETATTR>(Kind::Getattr, client, args);
        let GETATTR3res::NFS3_OK(told) = told.await else {
            panic!("no attributes")
        };
        // Whatever is kept, nothing older is ever told.
        assert_eq!(told.obj_attributes.size, size);
        self.relaxed(Kind::Getattr, client, file, size);
    }

    async fn lookup(&mut self, client: usize, of: usize, name: &str) -> nfs_fh3 {
        let dir = self.dirs[of].clone();
        let args = LOOKUP3args {
            what: place(&dir, name),
        };
        let found = self.count::<NFSPROC3_LOOKUP>(Kind::Lookup, client, args);
        let LOOKUP3res::NFS3_OK(found) = found.await else {
            panic!("{name} is not there")
        };
        if self.named.insert((client, dir.data, name.to_owned())) {
            // Attributes come with it.
            let size = match found.obj_attributes {
                Some(attributes) => attributes.size,
                None => panic!("{name} has no attributes"),
            };
            self.costs.entry(Kind::Lookup).or_default().relaxed += 2;
            self.fetched
                .insert((client, found.object.data.clone()), size);
        }
        found.object
    }

    async fn read(&mut self, client: usize, file: &nfs_fh3, size: u64) {
        let args = READ3args {
            file: file.clone(),
            offset: 0,
            count: 1 << 20,
        };
        let read = self.count::<NFSPROC3_READ>(Kind::Read, client, args).await;
        let READ3res::NFS3_OK(read) = read else {
            panic!("not read")
        };
        assert_eq!(read.data.len() as u64, size);
        self.relaxed(Kind::Read, client, file, size);
    }

    /// Files are closed, and what is owed is told.
    async fn settle(&mut self, kind: Kind) {
        let before = figures(self.gates);
        self.world.sleep(SETTLING).await;
        self.forget().await;
        self.note(kind, before, 0);
    }

    async fn own(&mut self, client: usize, amount: Amount) {
        for number in 0..amount.files {
            let name = number.to_string();
            let file = self.create(client, &name).await;
            self.write(client, &file, SIZE).await;
            for _ in 0..amount.rounds {
                self.lookup(client, client, &name).await;
                self.getattr(client, &file, SIZE as u64).await;
            }
            self.read(client, &file, SIZE as u64).await;
        }
    }

    async fn written(&mut self, amount: Amount) {
        for number in 0..amount.files {
            let file = self.create(0, &number.to_string()).await;
            for round in 1..=amount.rounds {
                self.write(0, &file, SIZE + round).await;
                for client in 1..amount.gateways {
                    self.getattr(client, &file, (SIZE + round) as u64).await;
                }
            }
        }
    }

    async fn read_by_all(&mut self, amount: Amount) {
        let mut files = Vec::new();
        for number in 0..amount.files {
            let name = number.to_string();
            let file = self.create(0, &name).await;
            self.write(0, &file, SIZE).await;
            files.push((name, file));
        }
        self.settle(Kind::Write).await;
        for (name, file) in &files {
            for _ in 0..amount.rounds {
                for client in 1..amount.gateways {
                    self.lookup(client, 0, name).await;
                    self.getattr(client, file, SIZE as u64).await;
                    self.read(client, file, SIZE as u64).await;
                }
            }
        }
    }
}

/// Bytes of a file.
const SIZE: usize = 4096;

fn place(dir: &nfs_fh3, name: &str) -> diropargs3 {
    diropargs3 {
        dir: dir.clone(),
        name: name.to_owned().into(),
    }
}

fn mode(mode: u32) -> sattr3 {
    sattr3 {
        mode: Some(mode),
        uid: None,
        gid: None,
        size: None,
        atime: set_atime::default(time_how::DONT_CHANGE),
        mtime: set_mtime::default(time_how::DONT_CHANGE),
    }
}
