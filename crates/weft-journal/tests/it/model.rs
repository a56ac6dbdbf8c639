//! Any sequence of appends, cuts, images, restarts and reopenings leaves what a list of batches
//! would hold.

use proptest::prelude::*;
use std::path::PathBuf;
use weft_env::Env;
use weft_journal::{
    ImageWriter, Journal, JournalError, Location, Reader, Sealed, SyncPolicy, images, make_dir,
    remove_segments, segments,
};
use weft_sim::World;
use weft_types::{Epoch, GroupId, Sn};
use weft_wire::proto::{Batch, Entry};

fn location() -> Location {
    Location {
        dir: PathBuf::from("/meta"),
        cluster_id: "model".into(),
        group: GroupId(1),
    }
}

fn sealed(sn: u64, epoch: u64, entries: u8) -> Sealed {
    Sealed::new(&Batch {
        epoch,
        sn,
        entries: vec![Entry::default(); entries.into()],
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// Batches by how many entries they have, and whether another active makes them.
    Append(Vec<(u8, bool)>),
    /// All after a batch: so many from the end, which may be more than there are.
    Cut(u64),
    /// An image is made of it, so many batches before its end; what it makes superfluous goes.
    Image(u64),
    /// An image is announced, so far behind the end, that never comes.
    Announce(u64),
    /// An image from elsewhere takes its place, so far from its end.
    Replace(i64),
    Reopen,
    SegmentBytes(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let batch = (0..60u8, proptest::bool::weighted(0.1));
    prop_oneof![
        8 => proptest::collection::vec(batch, 1..6).prop_map(Step::Append),
        4 => (0..14u64).prop_map(Step::Cut),
        1 => (0..10u64).prop_map(Step::Image),
        1 => (0..10u64).prop_map(Step::Announce),
        1 => (-10..10i64).prop_map(Step::Replace),
        2 => Just(Step::Reopen),
        1 => (0..1500u64).prop_map(Step::SegmentBytes),
    ]
}

/// What the journal holds.
#[derive(Default)]
struct Model {
    /// Newest image.
    image: u64,
    /// All batches after `begin`.
    batches: Vec<Sealed>,
    begin: u64,
    epoch: u64,
}

impl Model {
    fn last(&self) -> u64 {
        self.begin + self.batches.len() as u64
    }

    fn cut(&mut self, sn: u64) {
        self.batches.truncate((sn - self.begin) as usize);
    }
}

async fn write_image(env: &Env, sn: u64, epoch: u64) {
    let image = ImageWriter::create(env, &location(), Sn(sn), Epoch(epoch))
        .await
        .unwrap();
    image.finish(b"").await.unwrap();
}

/// Reads all after the newest image.
async fn read(env: &Env, model: &Model) -> Reader {
    let newest = images(env, &location().dir).unwrap().pop();
    assert_eq!(newest.unwrap_or_default().0, model.image);
    let mut reader = Reader::open(env, &location(), Sn(model.image))
        .await
        .unwrap();
    for batch in &model.batches {
        if batch.sn().0 > model.image {
            let (found, _) = reader.next_sealed().await.unwrap().unwrap();
            assert_eq!(found, *batch);
        }
    }
    assert_eq!(reader.next().await.unwrap(), None);
    reader
}

async fn open(env: &Env, model: &Model, segment_bytes: u64) -> Journal {
    let tail = read(env, model).await.finish().unwrap();
    let mut journal = Journal::open(env, location(), SyncPolicy::Never, tail)
        .await
        .unwrap();
    journal.set_segment_bytes(segment_bytes);
    journal
}

async fn run(env: Env, steps: Vec<Step>) {
    let dir = location().dir;
    make_dir(&env, &dir).await.unwrap();
    let mut model = Model::default();
    let mut segment_bytes = 1000;
    let mut journal = open(&env, &model, segment_bytes).await;
    for step in steps {
        let last = model.last();
        match step {
            Step::Append(wanted) => {
                let mut batches = Vec::new();
                for (entries, is_another) in wanted {
                    model.epoch += u64::from(is_another);
                    let sn = last + 1 + batches.len() as u64;
                    batches.push(sealed(sn, model.epoch, entries));
                }
                journal.append(&batches).await.unwrap();
                model.batches.extend(batches);
            }
            Step::Cut(back) => {
                // Who has cut follows another active.
                model.epoch += 1;
                let Some(sn) = last.checked_sub(back) else {
                    continue;
                };
                let oldest = segments(&env, &dir).unwrap()[0].0;
                let cut = journal.cut_after(Sn(sn)).await;
                if sn == last || sn >= model.image.max(oldest - 1) {
                    cut.unwrap();
                    model.cut(sn);
                } else {
                    let error = cut.unwrap_err();
                    assert!(matches!(error, JournalError::Refused { .. }), "{error}");
                }
            }
            Step::Image(back) => {
                let sn = last.saturating_sub(back);
                if sn > model.image.max(model.begin) {
                    write_image(&env, sn, model.epoch).await;
                    remove_segments(&env, &dir, Sn(sn)).unwrap();
                    model.image = sn;
                }
            }
            Step::Announce(back) => {
                let sn = last.saturating_sub(back);
                if sn > model.image {
                    journal.announce_restart(Sn(sn)).await.unwrap();
                    if back % 2 == 0 {
                        // The same in another life.
                        journal = open(&env, &model, segment_bytes).await;
                    }
                    journal.cut_after(Sn(last - 1)).await.ok();
                    model.cut(journal.next_sn().0 - 1);
                    let next = sealed(model.last() + 1, model.epoch, 1);
                    journal.append(std::slice::from_ref(&next)).await.unwrap();
                    model.batches.push(next);
                    // It is the journal's own image now and means no restart.
                    write_image(&env, sn, model.epoch).await;
                    model.image = sn;
                }
            }
            Step::Replace(ahead) => {
                let sn = last.saturating_add_signed(ahead);
                let replaced = journal.restart_after(Sn(sn)).await;
                if sn > model.image {
                    replaced.unwrap_err();
                    write_image(&env, sn, model.epoch).await;
                    journal.restart_after(Sn(sn)).await.unwrap();
                    (model.image, model.begin) = (sn, sn);
                    model.batches.clear();
                } else if sn < model.image {
                    let error = replaced.unwrap_err();
                    assert!(matches!(error, JournalError::Refused { .. }), "{error}");
                } else if replaced.is_ok() {
                    model.begin = sn;
                    model.batches.clear();
                }
            }
            Step::Reopen => journal = open(&env, &model, segment_bytes).await,
            Step::SegmentBytes(bytes) => {
                segment_bytes = bytes;
                journal.set_segment_bytes(bytes);
            }
        }
        assert_eq!(journal.next_sn().0, model.last() + 1);
        read(&env, &model).await;
    }
    open(&env, &model, segment_bytes).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_journal_holds_what_a_list_would(
        steps in proptest::collection::vec(step(), 1..40),
        seed in any::<u64>(),
    ) {
        let world = World::new(seed);
        let node = world.node("meta");
        world.block_on(async move {
            node.start(|_| async {});
            run(node.env(), steps).await;
        });
    }
}
