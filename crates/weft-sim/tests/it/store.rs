//! The object store killed and cut off from power at any moment.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::{Extent, Purpose, Store};
use weft_sim::{Rng, World};
use weft_types::{BLOCK_BYTES, Ino, Member, ObjectId, PairId};

const BLOCK: usize = BLOCK_BYTES as usize;
const SIZE: u64 = 40 * BLOCK_BYTES;

/// What an object may hold, oldest first: since its last sync, and what is being made of it.
#[derive(Clone, Default)]
struct Versions {
    /// None: not there.
    list: Vec<Option<Vec<u8>>>,
    /// The last one may be there in part.
    under_way: bool,
}

type Model = Rc<RefCell<BTreeMap<ObjectId, Versions>>>;

fn id(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(number),
        generation: 1,
    }
}

fn latest(model: &Model, id: ObjectId) -> Option<Vec<u8>> {
    let model = model.borrow();
    model
        .get(&id)
        .and_then(|object| object.list.last().cloned())
        .flatten()
}

fn begin(model: &Model, id: ObjectId, next: Option<Vec<u8>>) {
    let mut model = model.borrow_mut();
    let object = model.entry(id).or_default();
    if object.list.is_empty() {
        object.list.push(None);
    }
    object.list.push(next);
    object.under_way = true;
}

fn end(model: &Model, id: ObjectId) {
    model.borrow_mut().get_mut(&id).unwrap().under_way = false;
}

async fn churn(store: Store, model: Model, mut rng: Rng) {
    loop {
        let object = id(1 + rng.below(3));
        let before = latest(&model, object);
        match rng.below(12) {
            0..=6 => {
                let mut extents = Vec::new();
                let mut payload = Vec::new();
                let mut after = before.clone().unwrap_or_default();
                let first = rng.below(4);
                for zone in first..(first + 1 + rng.below(3)).min(4) {
                    let length = match rng.below(3) {
                        0 => 1 + rng.below(BLOCK_BYTES),
                        1 => BLOCK_BYTES,
                        _ => 1 + rng.below(4 * BLOCK_BYTES),
                    };
                    // Apart from each other: a block that two extents touch may stay between them.
                    let offset = zone * 10 * BLOCK_BYTES
                        + if rng.once_in(2) {
                            rng.below(6) * BLOCK_BYTES
                        } else {
                            rng.below(5 * BLOCK_BYTES)
                        };
                    let mut data = vec![0; length as usize];
                    rng.fill(&mut data);
                    let range = offset as usize..(offset + length) as usize;
                    after.resize(after.len().max(range.end), 0);
                    after[range].copy_from_slice(&data);
                    payload.extend(data);
                    extents.push(Extent {
                        offset,
                        length: length as u32,
                    });
                }
                begin(&model, object, Some(after));
                let payload = Bytes::from(payload);
                let write = || store.write(object, &extents, payload.clone());
                healing(&store, object, &before, write).await;
            }
            7 => {
                let at = rng.below(SIZE);
                let after = before.clone().map(|mut bytes| {
                    bytes.truncate(at as usize);
                    bytes
                });
                begin(&model, object, after);
                healing(&store, object, &before, || store.truncate(object, at)).await;
            }
            8 => {
                let start = rng.below(SIZE);
                let stop = start + rng.below(10 * BLOCK_BYTES);
                let after = before.clone().map(|mut bytes| {
                    let (from, to) = (
                        bytes.len().min(start as usize),
                        bytes.len().min(stop as usize),
                    );
                    bytes[from..to].fill(0);
                    bytes
                });
                begin(&model, object, after);
                let ranges = [start..stop];
                healing(&store, object, &before, || store.punch(object, &ranges)).await;
            }
            9 => {
                begin(&model, object, None);
                store.remove(object).await.unwrap();
            }
            _ => {
                store.sync(&[object]).await.unwrap();
                model.borrow_mut().entry(object).or_default().list = vec![before];
                continue;
            }
        }
        end(&model, object);
    }
}

/// Does something that may meet bad blocks, which then are fetched from the twin, as the data server
/// does: they hold `before`.
async fn healing<F: Future<Output = weft_objects::Result<()>>>(
    store: &Store,
    id: ObjectId,
    before: &Option<Vec<u8>>,
    action: impl Fn() -> F,
) {
    let mut met = Vec::new();
    for _ in 0..3 {
        match action().await {
            Ok(()) => return,
            Err(weft_objects::Error::BadBlocks { blocks, .. }) => {
                let content = before.as_deref().unwrap_or_default();
                met.push((
                    blocks.clone(),
                    content.len(),
                    store.length(id).await.unwrap(),
                ));
                let payload = blocks.iter().flat_map(|&at| block(content, at as usize));
                let fill = weft_objects::Fill {
                    payload: payload.collect::<Vec<u8>>().into(),
                    blocks,
                    exists: true,
                    ..weft_objects::Fill::default()
                };
                store.fill(id, &fill).await.unwrap();
                // Else a power cut makes them bad again.
                store.sync(&[id]).await.unwrap();
            }
            Err(error) => panic!("{id}: {error}"),
        }
    }
    panic!("{id}: bad blocks come again and again: {met:?}");
}

fn block(bytes: &[u8], index: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    if let Some(part) = bytes.get(index * BLOCK..bytes.len().min((index + 1) * BLOCK)) {
        block[..part.len()].copy_from_slice(part);
    }
    block
}

/// Compares what is there with what may be there; takes it as the new truth.
async fn compare(store: &Store, model: &Model, power_cut: bool, ever_cut: bool) {
    let objects: Vec<(ObjectId, Versions)> = model
        .borrow()
        .iter()
        .map(|(&id, versions)| (id, versions.clone()))
        .collect();
    for (id, versions) in objects {
        let allowed = match (power_cut, versions.under_way) {
            (true, _) => &versions.list[..],
            (false, true) => &versions.list[versions.list.len() - 2..],
            (false, false) => &versions.list[versions.list.len() - 1..],
        };
        let length = store.length(id).await.unwrap() as usize;
        let exists = store.exists(id);
        // A write makes the object before it has bytes.
        assert!(
            allowed.iter().any(|version| version.is_some() == exists) || exists && length == 0,
            "{id}: exists {exists}, power cut {power_cut}, lengths {:?}",
            allowed
                .iter()
                .map(|version| version.as_ref().map(Vec::len))
                .collect::<Vec<_>>()
        );
        if !exists {
            model.borrow_mut().get_mut(&id).unwrap().list = vec![None];
            continue;
        }
        let longest = allowed.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let shortest = allowed
            .iter()
            .map(|version| version.as_ref().map_or(0, Vec::len))
            .min()
            .unwrap_or(0);
        assert!(
            (shortest..=longest).contains(&length),
            "{id}: {length} bytes, must be {shortest}..={longest}"
        );
        let mut content = Vec::new();
        for index in 0..length.div_ceil(BLOCK) {
            let offset = index * BLOCK;
            let end = length.min(offset + BLOCK);
            let choices: Vec<Vec<u8>> = allowed
                .iter()
                .map(|version| {
                    let mut bytes = block(version.as_deref().unwrap_or_default(), index);
                    bytes.truncate(end - offset);
                    bytes
                })
                .collect();
            match store.read(id, offset as u64, (end - offset) as u64).await {
                Ok(parts) => {
                    let mut bytes = parts.concat();
                    bytes.resize(end - offset, 0);
                    assert!(
                        choices.contains(&bytes),
                        "{id}: block {index} of {length} bytes holds none of {} versions, power cut {power_cut}, zeros {}; \
                         lengths {:?}; equal bytes with each {:?}",
                        choices.len(),
                        bytes.iter().all(|&byte| byte == 0),
                        allowed
                            .iter()
                            .map(|version| version.as_ref().map(Vec::len))
                            .collect::<Vec<_>>(),
                        choices
                            .iter()
                            .map(|choice| choice
                                .iter()
                                .zip(&bytes)
                                .take_while(|(a, b)| a == b)
                                .count())
                            .collect::<Vec<_>>()
                    );
                    content.extend(bytes);
                }
                Err(error) => {
                    // Cutting changes a block too.
                    let whole = |version: &Option<Vec<u8>>| {
                        let bytes = version.as_deref().unwrap_or_default();
                        (block(bytes, index), bytes.len().min(offset + BLOCK))
                    };
                    // A page may tell of blocks that the file was not extended by: bad from when it
                    // is extended over them.
                    let nothing = choices[0].iter().all(|&byte| byte == 0);
                    let settled = allowed
                        .iter()
                        .all(|version| whole(version) == whole(&allowed[0]));
                    assert!(
                        ever_cut && settled && nothing || power_cut && !settled,
                        "{id}: block {index} of {length} bytes: {error}; power cut {power_cut}, {} versions, hole {}",
                        choices.len(),
                        nothing
                    );
                    // As the data server would, from the twin.
                    let mut bytes = choices[0].clone();
                    bytes.resize(BLOCK, 0);
                    let fill = weft_objects::Fill {
                        blocks: vec![index as u64],
                        payload: Bytes::from(bytes),
                        exists: true,
                        ..weft_objects::Fill::default()
                    };
                    store.fill(id, &fill).await.unwrap();
                    store.sync(&[id]).await.unwrap();
                    content.extend(&choices[0]);
                }
            }
        }
        let mut model = model.borrow_mut();
        let versions = model.get_mut(&id).unwrap();
        // After a kill nothing is more durable than before.
        let mut list = if power_cut {
            Vec::new()
        } else {
            versions.list.clone()
        };
        list.push(Some(content));
        versions.list = list;
        versions.under_way = false;
    }
}

#[test]
fn the_store_survives_kills_and_power_cuts() {
    for seed in 0..12 {
        let world = World::new(seed);
        world.set_limit(Duration::from_secs(100));
        let node = world.node("data");
        let model = Model::default();
        let scenario = world.clone();
        world.block_on(async move {
            let mut rng = scenario.rng("crashes");
            let mut ever_cut = false;
            let dir = Path::new("/store");
            for round in 0..8 {
                let env = node.env();
                // Whoever installs a server makes its directory.
                env.create_dir_all(dir).unwrap();
                env.sync_dir(Path::new("/")).await.unwrap();
                let store = Store::open(env.clone(), dir, PairId(0), Member::Zero)
                    .await
                    .unwrap();
                let work = churn(store, model.clone(), Rng::stream(seed, "churn", round));
                node.start(|_| work);
                scenario
                    .sleep(Duration::from_micros(500 + rng.below(60_000)))
                    .await;
                let cut = rng.once_in(2);
                if cut {
                    node.power_cut();
                    node.start(|_| async {});
                } else {
                    node.kill();
                }
                let store = Store::open(node.env(), dir, PairId(0), Member::Zero)
                    .await
                    .unwrap();
                ever_cut |= cut;
                compare(&store, &model, cut, ever_cut).await;
                drop(store);
                node.kill();
            }
        });
    }
}

#[test]
fn marks_survive_what_they_promise() {
    for seed in 0..12 {
        let world = World::new(seed);
        world.set_limit(Duration::from_secs(100));
        let node = world.node("data");
        let scenario = world.clone();
        world.block_on(async move {
            let mut rng = scenario.rng("marks");
            let dir = Path::new("/store");
            // Region -> what must be true of its mark: survives a power cut.
            let must: Rc<RefCell<BTreeMap<(ObjectId, u32), bool>>> = Rc::default();
            for round in 0..6 {
                node.env().create_dir_all(dir).unwrap();
                node.env().sync_dir(Path::new("/")).await.unwrap();
                let store = Store::open(node.env(), dir, PairId(0), Member::Zero)
                    .await
                    .unwrap();
                let marks = must.clone();
                let mut choice = Rng::stream(seed, "choice", round);
                node.start(|env| async move {
                    loop {
                        let object = id(1 + choice.below(20));
                        let region = choice.below(8) as u32;
                        match choice.below(8) {
                            0..=4 => {
                                let durable = choice.once_in(3);
                                let last = region + 1 + choice.below(3) as u32;
                                let regions = region..last;
                                store
                                    .mark(object, regions.clone(), Purpose::Write, durable)
                                    .await
                                    .unwrap();
                                for region in regions {
                                    let mut marks = marks.borrow_mut();
                                    let entry = marks.entry((object, region)).or_default();
                                    *entry |= durable;
                                }
                            }
                            5..=6 => {
                                store.clear(object, region..region + 1);
                                marks.borrow_mut().remove(&(object, region));
                            }
                            _ => store.tidy().await.unwrap(),
                        }
                        if choice.once_in(4) {
                            env.sleep(Duration::from_micros(choice.below(2000))).await;
                        }
                    }
                });
                scenario
                    .sleep(Duration::from_micros(500 + rng.below(100_000)))
                    .await;
                let cut = rng.once_in(2);
                if cut {
                    node.power_cut();
                    node.start(|_| async {});
                } else {
                    node.kill();
                }
                let store = Store::open(node.env(), dir, PairId(0), Member::Zero)
                    .await
                    .unwrap();
                for (&(object, region), &durable) in must.borrow().iter() {
                    if durable || !cut {
                        assert!(
                            store.is_dirty(object, region) || store.everything_dirty(),
                            "round {round}: {object} region {region} durable {durable} cut {cut}"
                        );
                    }
                }
                let mut must = must.borrow_mut();
                if cut {
                    must.retain(|_, durable| *durable);
                }
                drop(must);
                drop(store);
                node.kill();
            }
        });
    }
}
