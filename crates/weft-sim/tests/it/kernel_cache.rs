//! Programs on mounts, with a model of the kernel between them and the real face; no faults at all. What they are
//! told must be what one file system would have told them, in some order.

mod lingering;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Errno, Policy, Settings};
use weft_env::Env;
use weft_sim::cluster::builder::{Cluster, Shape};
use weft_sim::invariants::reads_linearize;
use weft_sim::kernel::{File, Held, Mount, Stat, Thread};
use weft_sim::oracle::content;
use weft_sim::oracle::history::{ClientId, History, Kind, Op, Outcome, Reply};
use weft_sim::{Clock, Options, Rng, World, run};
use weft_types::ROOT_INO;
use weft_wire::proto::{Durability, Protocol};

const SECOND: Duration = Duration::from_secs(1);
/// For so long a session goes on that is not renewed.
const SESSION_TERM: Duration = Duration::from_secs(10);
/// Seeds of each test: some of each would find each of the faults that it is there for.
const SEEDS: u64 = 12;

/// A cluster with some mounts, each on a machine of its own.
struct Site {
    world: World,
    cluster: Rc<Cluster>,
    mounts: Vec<(Mount, Env)>,
    /// Their clients.
    connected: Vec<Client>,
    history: History,
    clients: Cell<ClientId>,
    running: Rc<Cell<usize>>,
    /// What went wrong, as the programs themselves can tell.
    wrong: Rc<RefCell<Vec<String>>>,
}

/// A thread of a program whose system calls are written down.
struct Program {
    thread: Thread,
    env: Env,
    rng: RefCell<Rng>,
    id: ClientId,
    history: History,
    clock: Clock,
    wrong: Rc<RefCell<Vec<String>>>,
}

impl Site {
    async fn new(world: &World, mounts: usize) -> Site {
        Site::with_members(world, mounts, 1).await
    }

    /// With so many metadata servers.
    async fn with_members(world: &World, mounts: usize, members: u32) -> Site {
        let shape = Shape {
            groups: 1,
            members,
            pairs: 1,
            clients: 0,
            operations: 0,
            even: false,
            session_term: SESSION_TERM,
            client: Settings::default(),
            meta: weft_meta::Settings::default(),
            data: weft_data::Settings::default(),
            room: 1 << 40,
            policy: Policy {
                stripe_unit: 64 << 10,
                width: 1,
                protocol: Protocol::ServerSync as i32,
                durability: Durability::Memory as i32,
            },
        };
        let cluster = Rc::new(Cluster::new(world, shape));
        cluster.start().await.unwrap();
        let (mut all, mut connected) = (Vec::new(), Vec::new());
        for number in 0..mounts {
            let name = format!("mount{number}");
            let env = world.node(&name).env();
            let connecting = Client::connect(env.clone(), cluster.client_settings(&name));
            let rng = Rng::stream(world.seed(), "kernel", number as u64);
            let client = connecting.await.unwrap();
            let mount = Mount::new(env.clone(), client.clone(), rng);
            connected.push(client);
            all.push((mount.await.unwrap(), env));
        }
        Site {
            world: world.clone(),
            cluster,
            mounts: all,
            connected,
            history: History::default(),
            clients: Cell::new(1),
            running: Rc::default(),
            wrong: Rc::default(),
        }
    }

    fn program(&self, mount: usize) -> Program {
        let id = self.clients.get();
        self.clients.set(id + 1);
        self.history.mounted(id);
        let (mount, env) = &self.mounts[mount];
        Program {
            thread: mount.thread(),
            env: env.clone(),
            rng: RefCell::new(Rng::stream(self.world.seed(), "program", u64::from(id))),
            id,
            history: self.history.clone(),
            clock: self.world.clock(),
            wrong: self.wrong.clone(),
        }
    }

    /// Runs a program of its own on a mount.
    fn start<F: Future<Output = ()> + 'static>(
        &self,
        mount: usize,
        run: impl FnOnce(Program) -> F,
    ) {
        let program = self.program(mount);
        let (env, running) = (program.env.clone(), self.running.clone());
        running.set(running.get() + 1);
        let work = run(program);
        env.spawn("program", async move {
            work.await;
            running.set(running.get() - 1);
        });
    }

    /// Waits for all programs.
    async fn finish(&self) {
        while self.running.get() > 0 {
            self.world.sleep(Duration::from_millis(1)).await;
        }
    }

    /// What went wrong, by the programs' own account and by the oracle's.
    fn verdict(self) -> Result<(), String> {
        let wrong = self.wrong.borrow();
        let judged = reads_linearize::check(self.history.records(), ROOT_INO.0).map(drop);
        match (wrong.first(), judged) {
            (None, judged) => judged,
            (Some(first), judged) => Err(format!(
                "{} times wrong, first: {first}; the oracle: {judged:?}",
                wrong.len()
            )),
        }
    }
}

impl Program {
    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    async fn pause(&self, micros: u64) {
        let pause = Duration::from_micros(self.below(micros));
        self.env.sleep(pause).await;
    }

    async fn wait_for(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            self.env.sleep(Duration::from_micros(200)).await;
        }
    }

    fn wrong(&self, what: String) {
        let at = self.clock.now() as f64 / 1e9;
        self.wrong
            .borrow_mut()
            .push(format!("{at:.6} program {}: {what}", self.id));
    }

    /// Writes a call down around what does it.
    async fn record<T>(
        &self,
        op: Op,
        call: impl AsyncFnOnce(usize) -> Result<T, Errno>,
        reply: impl FnOnce(&T) -> Reply,
    ) -> Result<T, Errno> {
        let number = self.history.begin(self.id, op, self.clock.now());
        let result = call(number).await;
        let reply = match &result {
            Ok(result) => reply(result),
            Err(Errno(errno)) => Reply::Error(*errno),
        };
        let outcome = Outcome::Known(reply);
        self.history.end(number, outcome, self.clock.now());
        result
    }

    async fn create(&self, dir: &Held, name: &str, flags: i32) -> File {
        let op = Op::Create {
            parent: dir.ino(),
            name: name.into(),
            mode: 0o644,
            exclusive: true,
            truncate: false,
        };
        let flags = flags | libc::O_CREAT | libc::O_EXCL;
        let create = async |_| self.thread.open(dir, name.as_bytes(), flags, 0o644).await;
        let seen = |file: &File| Reply::Inode(file.ino(), Kind::File);
        self.record(op, create, seen).await.unwrap()
    }

    async fn make(&self, dir: &Held, name: &str) {
        let file = self.create(dir, name, RDWR).await;
        self.thread.close(file).await.unwrap();
    }

    /// Opens what another has made; what the oracle is told of is the handle.
    async fn open(&self, dir: &Held, name: &str, flags: i32) -> File {
        let held = self.thread.open_path(dir, name.as_bytes()).await.unwrap();
        let op = Op::Open {
            ino: held.ino(),
            truncate: false,
        };
        let open = async |_| self.thread.open_held(&held, flags).await;
        self.record(op, open, |_| Reply::Done).await.unwrap()
    }

    /// Opens what a descriptor holds.
    async fn open_held(&self, held: &Held) -> File {
        let op = Op::Open {
            ino: held.ino(),
            truncate: false,
        };
        let open = async |_| self.thread.open_held(held, RDWR).await;
        self.record(op, open, |_| Reply::Done).await.unwrap()
    }

    async fn close(&self, file: File) {
        let op = Op::Close {
            ino: file.ino(),
            owner: 0,
        };
        let close = async |_| self.thread.close(file).await;
        self.record(op, close, |()| Reply::Done).await.unwrap();
    }

    async fn remove(&self, dir: &Held, name: &str) {
        let op = Op::Unlink {
            parent: dir.ino(),
            name: name.into(),
        };
        let remove = async |_| self.thread.remove(dir, name.as_bytes(), false).await;
        self.record(op, remove, |()| Reply::Done).await.unwrap();
    }

    async fn pwrite(&self, file: &File, offset: u64, length: u64, append: bool) {
        let op = Op::Write {
            ino: file.ino(),
            offset,
            length,
            append,
            sync: false,
        };
        let write = async |number| {
            let data = content::bytes(number, length).into();
            self.thread.pwrite(file, offset, data).await
        };
        let (_, count) = self.record(op, write, |_| Reply::Done).await.unwrap();
        assert_eq!(count as u64, length);
    }

    async fn pread(&self, file: &File, offset: u64, length: u64) -> Vec<u8> {
        let op = Op::Read {
            ino: file.ino(),
            offset,
            length,
        };
        let read = async |_| self.thread.pread(file, offset, length as usize).await;
        let bytes = |bytes: &Vec<u8>| Reply::Bytes(bytes.clone().into());
        self.record(op, read, bytes).await.unwrap()
    }

    async fn fstat(&self, file: &File) -> Stat {
        let op = Op::Getattr { ino: file.ino() };
        let stat = async |_| self.thread.fstat(file).await;
        let seen = |stat: &Stat| Reply::Entry(stat.seen());
        self.record(op, stat, seen).await.unwrap()
    }

    async fn rename(&self, dir: &Held, name: &str, new_name: &str) -> Result<(), Errno> {
        let op = Op::Rename {
            parent: dir.ino(),
            name: name.into(),
            new_parent: dir.ino(),
            new_name: new_name.into(),
            no_replace: false,
            exchange: false,
        };
        let (from, to) = ((dir, name.as_bytes()), (dir, new_name.as_bytes()));
        let rename = async |_| self.thread.rename(from, to, 0).await;
        self.record(op, rename, |_| Reply::Done).await
    }
}

/// Runs a scenario under many seeds, and fails with what was found under the first of those that were wrong.
fn under_seeds<F: Future<Output = Result<(), String>> + 'static>(scenario: impl Fn(World) -> F) {
    let told = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let only = told("SEED");
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..told("SEEDS").unwrap_or(SEEDS),
    };
    let mut wrong = Vec::new();
    for seed in seeds {
        let world = World::new(seed);
        world.set_limit(120 * SECOND);
        let logs = weft_sim::Logs::new(match only {
            Some(_) => tracing::Level::TRACE,
            None => tracing::Level::WARN,
        });
        let verdict = logs.collect(|| world.clone().block_on(scenario(world.clone())));
        if only.is_some() {
            for line in logs.lines() {
                println!("{line:?}");
            }
        }
        if let Err(what) = verdict {
            wrong.push((seed, what));
        }
    }
    let numbers: Vec<u64> = wrong.iter().map(|(seed, _)| *seed).collect();
    if let Some((seed, what)) = wrong.first() {
        panic!("seeds {numbers:?}; seed {seed}: {what}");
    }
}

const RDWR: i32 = libc::O_RDWR;

/// A program alone on its mount: whatever the kernel keeps, it reads what it has written.
#[test]
fn a_program_by_itself_is_told_what_it_did() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 1).await;
        site.start(0, |program| async move {
            let root = program.thread.root();
            let file = program.create(&root, "one", RDWR).await;
            for round in 0..30 {
                let (offset, length) = (program.below(20_000), 1 + program.below(10_000));
                match program.below(5) {
                    0 => {
                        program.pread(&file, offset, length).await;
                    }
                    1 => {
                        program.fstat(&file).await;
                    }
                    2 => {
                        let op = Op::Truncate {
                            ino: file.ino(),
                            size: offset,
                        };
                        let cut = async |_| program.thread.ftruncate(&file, offset).await;
                        let number = |_: &Stat| Reply::Inode(file.ino(), Kind::File);
                        program.record(op, cut, number).await.unwrap();
                    }
                    _ => program.pwrite(&file, offset, length, false).await,
                }
                let names = ["one", "two"];
                let (from, to) = (names[round % 2], names[(round + 1) % 2]);
                program.rename(&root, from, to).await.unwrap();
                let there = program.thread.stat(&root, to.as_bytes()).await;
                let gone = program.thread.stat(&root, from.as_bytes()).await;
                let listed = program.thread.list(&root).await.unwrap();
                let is_right = there.is_ok_and(|stat| stat.ino == file.ino())
                    && gone == Err(Errno(libc::ENOENT))
                    && listed.len() == 1
                    && listed[0].0 == to.as_bytes();
                if !is_right {
                    program.wrong(format!("{from} was renamed to {to}: {gone:?}, {listed:?}"));
                }
            }
            program.thread.close(file).await.unwrap();
            let removed = program.thread.remove(&root, b"one", false).await;
            if removed.is_err() {
                program.wrong(format!("{removed:?}"));
            }
        });
        site.finish().await;
        site.verdict()
    });
}

/// The standing workload, no faults; most clients are mounts.
#[test]
fn clients_that_are_mounts_are_told_what_others_did() {
    let told = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (mut wrong, mut first) = (Vec::new(), None);
    for seed in 0..told("SEEDS").unwrap_or(SEEDS) {
        let options = Options {
            operations: 60,
            kinds: Some(Vec::new()),
            mounts: true,
            ..Options::default()
        };
        let report = run(seed, &options);
        if let Some(why) = report.failure {
            wrong.push(seed);
            first.get_or_insert(why);
        }
    }
    if let Some(why) = first {
        panic!("seeds {wrong:?}: {why}");
    }
}

/// Two mounts make one file longer; what a write that has returned on one has written is there on the other.
#[test]
fn a_file_that_two_mounts_make_longer_ends_where_writes_have_ended() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        let maker = site.program(0);
        let root = maker.thread.root();
        maker.make(&root, "log").await;
        // Where the next write begins, and the last one that has returned.
        let next = Rc::new(Cell::new(0));
        let returned = Rc::new(Cell::new((0, 0)));
        for mount in 0..2 {
            let (next, returned) = (next.clone(), returned.clone());
            site.start(mount, |program| async move {
                let root = program.thread.root();
                let file = program.open(&root, "log", RDWR).await;
                for _ in 0..25 {
                    let length = 100 + program.below(3_000);
                    let offset = next.get();
                    next.set(offset + length);
                    program.pwrite(&file, offset, length, false).await;
                    returned.set((offset, length));
                    program.pause(2_000).await;
                    let (offset, length) = returned.get();
                    let got = program.pread(&file, offset, length).await;
                    if (got.len() as u64) < length {
                        program.wrong(format!(
                            "{} of {length} bytes at {offset}, whose write has returned",
                            got.len()
                        ));
                    }
                }
            });
        }
        site.finish().await;
        site.verdict()
    });
}

/// One mount appends to a file, others that open it then follow it on the same mount and on another. (Who has
/// opened it before anybody wrote it may see zeros: docs/protocols/kernel-cache.md, "Ends of files".)
#[test]
fn who_follows_a_file_reads_nothing_that_nobody_wrote() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        let maker = site.program(0);
        let root = maker.thread.root();
        maker.make(&root, "log").await;
        let is_written = Rc::new(Cell::new(false));
        const RECORDS: u64 = 40;
        const RECORD: u64 = 120;
        let written = is_written.clone();
        site.start(0, |program| async move {
            let root = program.thread.root();
            let flags = libc::O_WRONLY | libc::O_APPEND;
            let file = program.open(&root, "log", flags).await;
            for _ in 0..RECORDS {
                program.pwrite(&file, 0, RECORD, true).await;
                written.set(true);
                program.pause(3_000).await;
            }
        });
        for mount in [0, 1] {
            let is_written = is_written.clone();
            site.start(mount, |program| async move {
                program.wait_for(|| is_written.get()).await;
                let root = program.thread.root();
                let file = program.open(&root, "log", libc::O_RDONLY).await;
                let mut position = 0;
                while position < RECORDS * RECORD {
                    position += program.pread(&file, position, 4096).await.len() as u64;
                    program.pause(2_000).await;
                }
            });
        }
        site.finish().await;
        site.verdict()
    });
}

/// Two mounts rename the same files to the same names, one of them wins each.
#[test]
fn a_rename_that_two_mounts_do_is_done_once() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        const JOBS: usize = 12;
        let maker = site.program(0);
        let root = maker.thread.root();
        for job in 0..JOBS {
            maker.make(&root, &format!("job{job}")).await;
        }
        let told = Rc::new(RefCell::new(vec![0; JOBS]));
        for mount in 0..2 {
            let told = told.clone();
            site.start(mount, |program| async move {
                let root = program.thread.root();
                for job in 0..JOBS {
                    let (old, new) = (format!("job{job}"), format!("done{job}"));
                    // Who takes jobs looks at them before.
                    let _ = program.thread.stat(&root, old.as_bytes()).await;
                    program.pause(400).await;
                    match program.rename(&root, &old, &new).await {
                        Ok(()) => told.borrow_mut()[job] += 1,
                        Err(Errno(libc::ENOENT)) => {}
                        Err(errno) => program.wrong(format!("rename: {errno}")),
                    }
                }
            });
        }
        site.finish().await;
        for (job, count) in told.borrow().iter().enumerate() {
            if *count != 1 {
                maker.wrong(format!("job{job} was renamed {count} times"));
            }
        }
        site.verdict()
    });
}

/// Who removes files keeps what it has of them, whoever lists their names again and again.
#[test]
fn who_lists_names_takes_no_files_from_those_who_remove_them() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        const FILES: u64 = 60;
        let remover = site.program(0);
        let root = remover.thread.root();
        let names = (0..FILES).map(|file| format!("file{file}"));
        for name in names.clone() {
            remover.make(&root, &name).await;
        }
        site.start(1, |program| async move {
            let root = program.thread.root();
            loop {
                match program.thread.list(&root).await {
                    Ok(names) if names.is_empty() => return,
                    Ok(_) => {}
                    Err(errno) => return program.wrong(format!("list: {errno}")),
                }
            }
        });
        // The first listing asks what all are like: nobody has changed the directory beside it yet.
        remover.pause(100_000).await;
        let of = |mount: usize| site.connected[mount].figures().revocations;
        let before = [of(0), of(1)];
        for name in names {
            remover.remove(&root, &name).await;
        }
        let [own, listers] = [of(0) - before[0], of(1) - before[1]];
        // What the first listing has asked for, and the directory, which is lent again now and then.
        if own > 0 || listers >= FILES {
            let what =
                format!("leases given back: {own} of the remover's, {listers} of the lister's");
            remover.wrong(what);
        }
        site.finish().await;
        site.verdict()
    });
}

/// A name that is replaced all the time is always there.
async fn a_name_is_replaced(world: World, mounts: usize) -> Result<(), String> {
    let site = Site::new(&world, mounts).await;
    let maker = site.program(0);
    let root = maker.thread.root();
    maker.make(&root, "name").await;
    let over = Rc::new(Cell::new(false));
    let is_over = over.clone();
    site.start(0, |program| async move {
        let root = program.thread.root();
        for round in 0..40 {
            let new = format!("new{round}");
            let file = program.create(&root, &new, RDWR).await;
            program.pwrite(&file, 0, 10, false).await;
            program.thread.close(file).await.unwrap();
            program.rename(&root, &new, "name").await.unwrap();
        }
        is_over.set(true);
    });
    for mount in 0..mounts {
        let over = over.clone();
        site.start(mount, |program| async move {
            let root = program.thread.root();
            while !over.get() {
                let thread = &program.thread;
                let (what, result) = match program.below(3) {
                    0 => match thread.open(&root, b"name", libc::O_RDONLY, 0).await {
                        Ok(file) => ("close", thread.close(file).await),
                        Err(errno) => ("open", Err(errno)),
                    },
                    1 => ("stat", thread.stat(&root, b"name").await.map(drop)),
                    _ => ("chmod", thread.chmod_name(&root, b"name", 0o644).await),
                };
                if let Err(errno) = result {
                    program.wrong(format!("{what}: {errno}"));
                }
                program.pause(500).await;
            }
        });
    }
    site.finish().await;
    site.verdict()
}

#[test]
fn a_name_that_one_mount_replaces_is_there_on_the_same() {
    under_seeds(|world| a_name_is_replaced(world, 1));
}

#[test]
fn a_name_that_one_mount_replaces_is_there_on_another() {
    under_seeds(|world| a_name_is_replaced(world, 2));
}

/// What fstat says is there can be read from the same descriptor.
#[test]
fn a_descriptor_reads_as_much_as_it_says() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        let maker = site.program(0);
        let root = maker.thread.root();
        maker.make(&root, "log").await;
        // Those that append, and of them those that have written.
        let over = Rc::new(Cell::new(2));
        let begun = Rc::new(Cell::new(0));
        for mount in 0..2 {
            let (is_over, has_begun) = (over.clone(), begun.clone());
            site.start(mount, |program| async move {
                let root = program.thread.root();
                let file = program.open(&root, "log", RDWR | libc::O_APPEND).await;
                for round in 0..20 {
                    program
                        .pwrite(&file, 0, 100 + program.below(900), true)
                        .await;
                    if round == 0 {
                        has_begun.set(has_begun.get() + 1);
                    }
                    program.pause(2_000).await;
                }
                is_over.set(is_over.get() - 1);
            });
            let (over, begun) = (over.clone(), begun.clone());
            site.start(mount, |program| async move {
                program.wait_for(|| begun.get() == 2).await;
                let root = program.thread.root();
                let file = program.open(&root, "log", libc::O_RDONLY).await;
                while over.get() > 0 {
                    let size = program.fstat(&file).await.size;
                    let tail = size.min(50);
                    let got = program.pread(&file, size - tail, tail).await;
                    if (got.len() as u64) < tail {
                        let got = got.len();
                        program.wrong(format!("{got} of {tail} bytes before {size}"));
                    }
                    program.pause(2_000).await;
                }
            });
        }
        site.finish().await;
        site.verdict()
    });
}

/// Two mounts; one cuts a file and writes what it cut again, the other, which has opened it before, reads all of it. (It may
/// see zeros in the page where the file ends meanwhile, and, if it is overtaken again, in the next one, and so on:
/// docs/protocols/kernel-cache.md, "Ends of files".)
#[test]
fn whoever_reads_a_file_that_another_cuts_is_shown_no_pages_of_zeros() {
    const LENGTH: u64 = 40_000;
    const CUT: u64 = 5_000;
    // Of 600 seeds two see zeros in the sixth page, of 2,000 none in the eighth.
    const SHOWN: usize = 7 * 4096;
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        let maker = site.program(1);
        let root = maker.thread.root();
        maker.make(&root, "file").await;
        let file = maker.open(&root, "file", RDWR).await;
        maker.pwrite(&file, 0, LENGTH, false).await;
        maker.close(file).await;
        // Of a file that was changed a moment ago nothing is cached.
        world.sleep(5 * SECOND).await;
        let is_over = Rc::new(Cell::new(false));
        let has_opened = Rc::new(Cell::new(false));
        let (over, opened) = (is_over.clone(), has_opened.clone());
        site.start(0, |program| async move {
            let root = program.thread.root();
            let file = program.open(&root, "file", libc::O_RDONLY).await;
            assert!(!file.is_direct());
            opened.set(true);
            while !over.get() {
                let read = program.thread.pread(&file, 0, LENGTH as usize).await;
                let bytes = read.unwrap();
                let zero = bytes.iter().skip(SHOWN).position(|byte| *byte == 0);
                if let Some(at) = zero {
                    program.wrong(format!("byte {} of {} is zero", at + SHOWN, bytes.len()));
                }
                program.pause(500).await;
            }
        });
        site.start(1, |program| async move {
            program.wait_for(|| has_opened.get()).await;
            let root = program.thread.root();
            let file = program.open(&root, "file", RDWR).await;
            for _ in 0..20 {
                let cut = program.thread.ftruncate(&file, CUT).await;
                assert_eq!(cut.unwrap().size, CUT);
                program.pause(1_000).await;
                let data = content::bytes(1, LENGTH - CUT).into();
                program.thread.pwrite(&file, CUT, data).await.unwrap();
                program.pause(1_000).await;
            }
            is_over.set(true);
        });
        site.finish().await;
        site.verdict()
    });
}

/// Two mounts; one changes a file's mode and looks at it, the other makes it longer. What a change of attributes is
/// answered with Linux takes in any case, also after it was made to forget.
#[test]
fn a_change_of_attributes_does_not_bring_old_ones_back() {
    under_seeds(|world| async move {
        let site = Site::new(&world, 2).await;
        let maker = site.program(1);
        let root = maker.thread.root();
        maker.make(&root, "file").await;
        let is_over = Rc::new(Cell::new(false));
        let over = is_over.clone();
        site.start(0, |program| async move {
            let root = program.thread.root();
            let file = program.open(&root, "file", RDWR).await;
            for mode in [0o600, 0o644].into_iter().cycle() {
                let op = Op::Chmod {
                    ino: file.ino(),
                    mode,
                };
                let chmod = async |_| program.thread.chmod(&file.held(), mode).await;
                let number = |_: &Stat| Reply::Inode(file.ino(), Kind::File);
                program.record(op, chmod, number).await.unwrap();
                program.pause(1_000).await;
                program.fstat(&file).await;
                if over.get() {
                    return;
                }
            }
        });
        site.start(1, |program| async move {
            let root = program.thread.root();
            let file = program.open(&root, "file", RDWR).await;
            for round in 0..30 {
                program.pwrite(&file, 100 * round, 100, false).await;
                program.pause(3_000).await;
            }
            is_over.set(true);
        });
        site.finish().await;
        site.verdict()
    });
}

/// One mount finds a file in the moment in which another changes it, and holds it without opening it (`O_PATH`): what
/// it is told of it afterwards is what it is by then, though the kernel had not made the inode when it was to forget it.
#[test]
fn an_inode_that_is_found_while_another_changes_it_is_not_believed_as_it_was() {
    const FILES: usize = 40;
    under_seeds(|world| async move {
        let site = Site::new(&world, 3).await;
        let (maker, changer) = (site.program(1), site.program(2));
        let (root, there) = (maker.thread.root(), changer.thread.root());
        let mut files = Vec::new();
        for n in 0..FILES {
            let name = format!("file{n}");
            maker.make(&root, &name).await;
            // Nobody has it for itself then.
            let held = changer.thread.open_path(&there, name.as_bytes()).await;
            let stat = changer.thread.stat_held(held.as_ref().unwrap());
            stat.await.unwrap();
            files.push(held.unwrap());
        }
        let is_changed = Rc::new(Cell::new(0));
        let begun = Rc::new(Cell::new(0));
        let (changed, begins) = (is_changed.clone(), begun.clone());
        site.start(0, |program| async move {
            let root = program.thread.root();
            for n in 0..FILES {
                begins.set(n + 1);
                program.pause(200).await;
                let name = format!("file{n}");
                let held = program.thread.open_path(&root, name.as_bytes()).await;
                let held = held.unwrap();
                program.wait_for(|| changed.get() > n).await;
                let op = Op::Getattr { ino: held.ino() };
                let stat = async |_| program.thread.stat_held(&held).await;
                let seen = |stat: &Stat| Reply::Entry(stat.seen());
                program.record(op, stat, seen).await.unwrap();
                program.thread.release(held);
            }
        });
        for (n, file) in files.iter().enumerate() {
            changer.wait_for(|| begun.get() > n).await;
            changer.pause(400).await;
            let (ino, mode) = (file.ino(), 0o600);
            let chmod = async |_| changer.thread.chmod(file, mode).await;
            let number = |_: &Stat| Reply::Inode(ino, Kind::File);
            let op = Op::Chmod { ino, mode };
            changer.record(op, chmod, number).await.unwrap();
            is_changed.set(n + 1);
        }
        site.finish().await;
        site.verdict()
    });
}

/// A file of two pages: one mount writes the first and is slow to give it back, another the second. A third looks at both
/// by way of mappings, whose handle passes the page cache by, and reads the whole past the cache besides.
#[test]
fn a_mapping_of_a_file_that_others_write_shows_what_was_written() {
    const BYTES: usize = 2 * 4096;
    under_seeds(|world| async move {
        let site = Site::new(&world, 3).await;
        for member in ["data0.0", "data0.1"] {
            let pace = weft_sim::Pace {
                latency: 10_000_000..100_000_000,
                ..weft_sim::Pace::default()
            };
            world.net().set_pace("mount0", member, pace);
        }
        let maker = site.program(1);
        let root = maker.thread.root();
        maker.make(&root, "file").await;
        let file = maker.open(&root, "file", RDWR).await;
        let fresh = vec![0; BYTES].into();
        maker.thread.pwrite(&file, 0, fresh).await.unwrap();
        // What was written to each page.
        let floors: Rc<[Cell<u64>; 2]> = Rc::default();
        let over = Rc::new(Cell::new(2));
        for (mount, page) in [(0, 0), (2, 1)] {
            let (is_over, written) = (over.clone(), floors.clone());
            site.start(mount, |program| async move {
                let root = program.thread.root();
                let file = program.open(&root, "file", RDWR).await;
                for value in 1..60_u64 {
                    let data = value.to_le_bytes().to_vec().into();
                    let write = program.thread.pwrite(&file, page as u64 * 4096, data);
                    write.await.unwrap();
                    written[page].set(value);
                    program.pause(20_000).await;
                }
                is_over.set(is_over.get() - 1);
            });
        }
        for looks_at in [Some(0), Some(1), None] {
            let (over, floors) = (over.clone(), floors.clone());
            site.start(1, |program| async move {
                let root = program.thread.root();
                let file = program.open(&root, "file", libc::O_RDONLY).await;
                while over.get() > 0 {
                    program.pause(500).await;
                    let Some(page) = looks_at else {
                        let whole = program.thread.pread(&file, 0, BYTES).await;
                        assert_eq!(whole.unwrap().len(), BYTES);
                        continue;
                    };
                    let floor = floors[page].get();
                    let loaded = program.thread.load(&file, page as u64 * 4096).await;
                    let value = u64::from_le_bytes(loaded.unwrap());
                    if value < floor {
                        program.wrong(format!("{value} in page {page}, after {floor}"));
                    }
                }
            });
        }
        site.finish().await;
        site.verdict()
    });
}
