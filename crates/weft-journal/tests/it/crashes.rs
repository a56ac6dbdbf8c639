//! A journal on a disk that stops in each of its changes in turn: by kill -9 and by power cut, in the
//! middle of the change, at any byte, and once more while the next process opens it. Whatever the
//! instant, it opens again and holds what was promised: all that was appended, of what was being
//! appended a beginning, of what was being discarded a beginning, and of a journal that was being
//! replaced all or nothing.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_journal::{
    ImageWriter, Journal, JournalError, Location, Reader, Sealed, SyncPolicy, images, make_dir,
    segments,
};
use weft_sim::{Disk, Node, World};
use weft_types::{Epoch, GroupId, Sn};
use weft_wire::proto::{Batch, Entry, Op, OpenSession, op};

/// Segments of this many bytes, so that several are begun in each run.
const SEGMENT: u64 = 6000;
const SOON: Duration = Duration::from_micros(100);

fn location() -> Location {
    Location {
        dir: PathBuf::from("/meta"),
        cluster_id: "crashes".into(),
        group: GroupId(0),
    }
}

/// A batch, by its sn and epoch; its content follows from them.
type Id = (u64, u64);

fn batch((sn, epoch): Id) -> Batch {
    let length = ((sn * 7919 + epoch * 131) % 1500) as usize;
    let name = format!("{sn} {epoch} {}", "x".repeat(length));
    let op = Op {
        op: Some(op::Op::OpenSession(OpenSession {
            name,
            ..OpenSession::default()
        })),
    };
    let entry = Entry {
        random: sn,
        op: Some(op),
        ..Entry::default()
    };
    let entries = vec![entry];
    Batch { epoch, sn, entries }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Kill,
    PowerCut,
}

/// What is under way.
#[derive(Clone, Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Appending(Vec<Id>),
    /// Discarding all after this.
    Cutting(u64),
    /// By the image of this.
    Replacing(u64),
}

/// What must be found: the newest image, the batches after it, and what may differ.
#[derive(Clone, Debug, Default)]
struct Promises {
    image: u64,
    batches: Vec<Id>,
    doing: Doing,
}

impl Promises {
    fn last(&self) -> u64 {
        self.batches.last().map_or(self.image, |id| id.0)
    }

    fn allow(&self, image: u64, found: &[Id]) -> bool {
        let kept = &self.batches;
        match &self.doing {
            Doing::Nothing => image == self.image && found == kept,
            Doing::Appending(more) => {
                let all = [&kept[..], more].concat();
                image == self.image && found.starts_with(kept) && all.starts_with(found)
            }
            Doing::Cutting(sn) => {
                let least: Vec<Id> = kept.iter().copied().filter(|id| id.0 <= *sn).collect();
                image == self.image && found.starts_with(&least) && kept.starts_with(found)
            }
            Doing::Replacing(sn) => {
                (image == self.image && found == kept) || (image == *sn && found.is_empty())
            }
        }
    }
}

/// One thing that is asked of a journal.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many batches together.
    Append(u64),
    /// What is appended from now on is another active's.
    NextEpoch,
    /// Discards so many.
    Cut(u64),
    /// Takes the place of the journal, by an image so far ahead of its last batch, or behind it.
    Replace(i64),
    /// The process ends well and another begins.
    Reopen,
    /// Segments are of another length until then.
    SegmentBytes(u64),
}

/// A process's use of its journal, and what it was promised.
#[derive(Clone)]
struct Life {
    env: Env,
    disk: Disk,
    sync: SyncPolicy,
    epoch: u64,
    promises: Rc<RefCell<Promises>>,
}

impl Life {
    /// The answer came before the disk stopped.
    fn heard(&self) -> bool {
        !self.disk.has_stopped()
    }

    /// Opens as a server does, from the newest image on. The second is what was found.
    async fn open(&self) -> Result<(Journal, u64, Vec<Id>), JournalError> {
        let env = &self.env;
        make_dir(env, &location().dir).await?;
        let image = images(env, &location().dir)?.pop().unwrap_or_default();
        let mut reader = Reader::open(env, &location(), image).await?;
        let mut found = Vec::new();
        while let Some((sealed, read)) = reader.next_sealed().await? {
            let id = (read.sn, read.epoch);
            assert!(read == batch(id) && sealed == Sealed::new(&read), "{id:?}");
            found.push(id);
        }
        let tail = reader.finish()?;
        let mut journal = Journal::open(env, location(), self.sync, tail).await?;
        journal.set_segment_bytes(SEGMENT);
        Ok((journal, image.0, found))
    }

    /// Opens and holds what is found against the promises; then it is what is promised.
    async fn check(&self, what: &str) -> Journal {
        let (journal, image, found) = match self.open().await {
            Ok(opened) => opened,
            Err(error) => panic!("{what}: {error}; {:?}", self.promises),
        };
        let promises = &mut *self.promises.borrow_mut();
        assert!(
            promises.allow(image, &found),
            "{what}: {promises:?}, but found image {image} and {found:?}"
        );
        assert_eq!(
            journal.next_sn().0,
            found.last().map_or(image, |id| id.0) + 1
        );
        *promises = Promises {
            image,
            batches: found,
            doing: Doing::Nothing,
        };
        journal
    }

    fn begin(&self, doing: Doing) {
        self.promises.borrow_mut().doing = doing;
    }

    async fn step(&mut self, journal: &mut Journal, step: Step) -> Result<(), JournalError> {
        let mut then = self.promises.borrow().clone();
        let last = then.last();
        match step {
            Step::NextEpoch => self.epoch += 1,
            Step::SegmentBytes(bytes) => journal.set_segment_bytes(bytes),
            Step::Append(count) => {
                let more: Vec<Id> = (1..=count).map(|i| (last + i, self.epoch)).collect();
                let sealed: Vec<Sealed> = more.iter().map(|id| Sealed::new(&batch(*id))).collect();
                then.batches.extend(&more);
                self.begin(Doing::Appending(more));
                journal.append(&sealed).await?;
            }
            Step::Cut(count) => {
                let sn = last - count;
                then.batches.retain(|id| id.0 <= sn);
                self.begin(Doing::Cutting(sn));
                journal.cut_after(Sn(sn)).await?;
            }
            Step::Replace(ahead) => {
                let sn = last.strict_add_signed(ahead);
                (then.image, then.batches) = (sn, Vec::new());
                self.begin(Doing::Replacing(sn));
                journal.announce_restart(Sn(sn)).await?;
                write_image(&self.env, sn, self.epoch).await?;
                journal.restart_after(Sn(sn)).await?;
            }
            Step::Reopen => {
                let (opened, image, found) = self.open().await?;
                *journal = opened;
                assert!(!self.heard() || then.allow(image, &found), "opened anew");
            }
        }
        if self.heard() {
            then.doing = Doing::Nothing;
            assert_eq!(journal.next_sn().0, then.last() + 1);
            *self.promises.borrow_mut() = then;
        }
        Ok(())
    }
}

async fn write_image(env: &Env, sn: u64, epoch: u64) -> Result<(), JournalError> {
    let mut writer = ImageWriter::create(env, &location(), Sn(sn), Epoch(epoch)).await?;
    writer.add(b"state").await?;
    writer.finish(b"digest").await
}

/// Where and how a run is ended.
#[derive(Clone, Copy, Debug)]
struct End {
    /// In which change of the disk; `None`: after the last.
    stop: Option<u64>,
    death: Death,
    sync: SyncPolicy,
    /// Torn at any byte, not at pages and sectors.
    bytes: bool,
    seed: u64,
}

fn die(node: &Node, death: Death) {
    match death {
        Death::Kill => node.kill(),
        Death::PowerCut => node.power_cut(),
    }
    node.start(|_| async {});
}

/// Runs the steps one after the other until the end comes, and looks at what is left. Returns how
/// many changes of the disk they took.
fn run_to(end: End, before: &[Step], steps: &[Step]) -> u64 {
    let world = World::new(end.seed);
    world.set_limit(Duration::from_secs(100));
    let node = world.node("meta");
    let (before, steps) = (before.to_vec(), steps.to_vec());
    let scenario = world.clone();
    let changes = Rc::new(Cell::new(0));
    let counted = changes.clone();
    world.block_on(async move {
        let what = format!("{end:?}");
        let disk = node.disk();
        if end.bytes {
            disk.tear_at(1);
        }
        node.start(|_| async {});
        let mut life = Life {
            env: node.env(),
            disk: disk.clone(),
            sync: end.sync,
            epoch: 1,
            promises: Rc::default(),
        };
        let mut journal = life.check("the beginning").await;
        for step in before {
            life.step(&mut journal, step).await.unwrap();
        }
        drop(journal);
        node.kill();

        let begun = disk.changes();
        disk.stop_at(end.stop);
        let finished = Rc::new(Cell::new(false));
        let (over, using) = (finished.clone(), life.clone());
        node.start(|env| async move {
            let mut life = Life { env, ..using };
            let mut journal = match life.open().await {
                Ok((journal, ..)) => journal,
                Err(error) if life.heard() => panic!("{error}"),
                Err(_) => return,
            };
            for step in steps {
                match life.step(&mut journal, step).await {
                    Err(error) if life.heard() => panic!("{step:?}: {error}"),
                    Err(_) => return,
                    Ok(()) => {}
                }
            }
            over.set(true);
            std::future::pending().await
        });
        while !finished.get() && !disk.has_stopped() {
            scenario.sleep(SOON).await;
        }
        counted.set(disk.changes() - begun);
        die(&node, end.death);

        // The next process may not get far either.
        let mut rng = scenario.rng("second stop");
        disk.stop_at(Some(rng.below(12)));
        let using = life.clone();
        node.start(|env| async move {
            let life = Life { env, ..using };
            if let Err(error) = life.open().await {
                assert!(!life.heard(), "the second life: {error}");
            }
        });
        scenario.sleep(Duration::from_millis(100)).await;
        die(&node, end.death);

        life.env = node.env();
        drop(life.check(&what).await);
        // What was found counts from now on.
        die(&node, end.death);
        life.env = node.env();
        life.epoch += 100;
        let mut journal = life.check(&format!("{what}, found again")).await;
        let settling = [
            Step::Append(3),
            Step::Cut(2),
            Step::NextEpoch,
            Step::Append(2),
            Step::Append(1),
        ];
        for step in settling {
            life.step(&mut journal, step).await.unwrap();
        }
        drop(journal);
        die(&node, end.death);
        life.env = node.env();
        drop(life.check(&format!("{what}, settled")).await);
        // Whatever was begun has been ended.
        let names: Vec<String> = disk
            .files()
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert!(
            names.iter().all(|name| !name.contains("restart")),
            "{what}: {names:?}"
        );
    });
    changes.get()
}

/// The steps with an end in every change of the disk, of both kinds, each torn in several ways.
fn every_end(before: &[Step], steps: &[Step], at_least: u64) {
    // What was never flushed may be lost with the power, in any order.
    let kinds = [
        (Death::Kill, SyncPolicy::Group),
        (Death::Kill, SyncPolicy::Never),
        (Death::PowerCut, SyncPolicy::Group),
        (Death::PowerCut, SyncPolicy::Always),
    ];
    for (death, sync) in kinds {
        for (seed, bytes) in (0..6).zip([false, true].into_iter().cycle()) {
            let end = End {
                stop: None,
                death,
                sync,
                bytes,
                seed,
            };
            let total = run_to(end, before, steps);
            assert!(total >= at_least, "only {total} changes");
            for stop in 0..total {
                let stop = Some(stop);
                run_to(End { stop, ..end }, before, steps);
            }
        }
    }
}

const USED: [Step; 4] = [
    Step::Append(1),
    Step::Append(5),
    Step::NextEpoch,
    Step::Append(5),
];

#[test]
fn of_batches_that_are_written_together_a_beginning_is_left() {
    let steps = [
        Step::Append(5),
        Step::Append(1),
        Step::Append(12),
        Step::Append(2),
        Step::Append(3),
        Step::NextEpoch,
        Step::Append(5),
        Step::Append(1),
        Step::Append(30),
        Step::Append(4),
    ];
    every_end(&USED, &steps, 25);
}

#[test]
fn of_what_is_discarded_a_beginning_is_left() {
    let steps = [
        // Within a write, of the last segment.
        Step::Append(5),
        Step::Cut(3),
        Step::Append(2),
        Step::NextEpoch,
        // Several writes of it.
        Step::Append(1),
        Step::Append(1),
        Step::Append(2),
        Step::Append(1),
        Step::Cut(4),
        Step::NextEpoch,
        Step::Append(1),
        // Many segments.
        Step::Append(6),
        Step::Append(6),
        Step::Append(6),
        Step::Append(1),
        Step::Reopen,
        Step::Append(2),
        Step::Cut(21),
        Step::NextEpoch,
        Step::Append(2),
        Step::Cut(1),
        Step::Cut(1),
        Step::Append(3),
        Step::Reopen,
        // A whole segment, and the end of the one before.
        Step::Append(2),
        Step::Cut(3),
        Step::Append(1),
    ];
    every_end(&USED, &steps, 60);
}

/// What is discarded was many writes, over many pages: a device that keeps the old length of the file
/// may have zeros in any of them, and old batches behind.
#[test]
fn a_cut_of_many_writes_is_no_damage() {
    let mut steps = vec![Step::SegmentBytes(1 << 20)];
    for count in [12, 15, 30] {
        steps.extend(vec![Step::Append(1); count]);
        steps.push(Step::Append(3));
        steps.extend([Step::Cut(count as u64 + 1), Step::NextEpoch]);
    }
    every_end(&[Step::Append(2)], &steps, 60);
}

#[test]
fn a_journal_of_which_all_is_discarded_is_still_one() {
    let steps = [
        Step::Cut(11),
        Step::NextEpoch,
        Step::Append(6),
        Step::Append(6),
        Step::Cut(12),
        Step::NextEpoch,
        Step::Append(2),
        Step::Reopen,
        Step::Cut(2),
        Step::Reopen,
        Step::Append(1),
    ];
    every_end(&USED, &steps, 30);
}

#[test]
fn a_journal_is_replaced_as_a_whole_or_not_at_all() {
    let steps = [
        // What it holds ends before the image.
        Step::Replace(20),
        Step::NextEpoch,
        Step::Append(6),
        Step::Append(6),
        Step::Append(6),
        Step::Cut(2),
        // It goes beyond the image: what it holds there is not what follows it.
        Step::Replace(-5),
        Step::NextEpoch,
        Step::Append(4),
        // The segment that is begun has the name of one that is there.
        Step::Reopen,
        Step::Append(2),
        Step::Replace(-2),
        Step::Append(3),
        Step::Cut(3),
        Step::Replace(1),
        Step::Append(1),
    ];
    every_end(&USED, &steps, 70);
}

/// Without a note before the image's name, a death before the first step leaves what a start
/// refuses, and after it what it understands.
#[test]
fn a_restart_that_was_not_announced_is_refused_or_carried_out() {
    let mut refused = 0;
    for death in [Death::Kill, Death::PowerCut] {
        for seed in 0..6 {
            for stop in 0..40 {
                let world = World::new(seed);
                let node = world.node("meta");
                let (stopped, was_refused) = world.block_on(async move {
                    node.start(|_| async {});
                    let mut life = Life {
                        env: node.env(),
                        disk: node.disk(),
                        sync: SyncPolicy::Group,
                        epoch: 1,
                        promises: Rc::default(),
                    };
                    let mut journal = life.check("the beginning").await;
                    for step in USED {
                        life.step(&mut journal, step).await.unwrap();
                    }
                    write_image(&life.env, 20, 1).await.unwrap();
                    node.disk().stop_at(Some(stop));
                    let env = life.env.clone();
                    let restart = journal.restart_after(Sn(20));
                    let restarted = env.timeout(Duration::from_secs(1), restart).await;
                    let stopped = node.disk().has_stopped();
                    assert!(stopped || restarted.unwrap().is_ok());
                    die(&node, death);
                    life.env = node.env();
                    let was_refused = match life.open().await {
                        Ok((journal, image, found)) => {
                            assert!(image == 20 && found.is_empty(), "{found:?}");
                            assert_eq!(journal.next_sn(), Sn(21));
                            let left = segments(&life.env, &location().dir).unwrap();
                            assert_eq!(left, [Sn(21)]);
                            false
                        }
                        Err(error) => {
                            assert!(error.to_string().contains("ends before"), "{error}");
                            true
                        }
                    };
                    assert!(stopped || !was_refused);
                    (stopped, was_refused)
                });
                refused += u64::from(was_refused);
                assert!(!was_refused || stop < 4, "{stop}");
                if !stopped {
                    assert!(stop > 6, "{stop}");
                    break;
                }
            }
        }
    }
    assert!(refused > 3, "{refused}");
}

/// What was discarded is gone for good also where nothing else is flushed.
#[test]
fn a_cut_is_durable_whatever_the_policy() {
    for seed in 0..20 {
        let world = World::new(seed);
        let node = world.node("meta");
        world.block_on(async move {
            node.start(|_| async {});
            let mut life = Life {
                env: node.env(),
                disk: node.disk(),
                sync: SyncPolicy::Never,
                epoch: 1,
                promises: Rc::default(),
            };
            let mut journal = life.check("the beginning").await;
            journal.set_segment_bytes(1 << 20);
            for step in [Step::Append(7), Step::Append(20), Step::Append(1)] {
                life.step(&mut journal, step).await.unwrap();
            }
            journal.set_segment_bytes(100);
            for step in [Step::Append(2), Step::Append(4), Step::Cut(17)] {
                life.step(&mut journal, step).await.unwrap();
            }
            drop(journal);
            die(&node, Death::PowerCut);
            life.env = node.env();
            life.check("after the power cut").await;
        });
    }
}
