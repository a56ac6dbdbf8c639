//! How fast one store is on this machine, without network: `cargo run --release -p weft-objects
//! --example store_bench [DIR]` (a temporary directory if none is named; it must be empty).
//!
//! All of it runs on one thread and is answered from memory (no sync), as a data server does under
//! `durability = memory`; each write is marked in the modified list first, and cleared after.

#![allow(clippy::disallowed_macros)] // prints, as binaries do

use bytes::Bytes;
use std::path::PathBuf;
use weft_env::{Env, real};
use weft_objects::{Extent, Purpose, Result, Store, regions_of};
use weft_types::{Ino, Member, ObjectId, PairId};

const STREAM_BYTES: u64 = 512 << 20;
const OBJECTS: u64 = 20_000;
const ACCESSES: u64 = 50_000;

fn object(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(number),
        generation: 0,
    }
}

async fn write(store: &Store, id: ObjectId, offset: u64, data: Bytes) -> Result<()> {
    let length = data.len() as u64;
    let regions = regions_of(offset, offset + length);
    store
        .mark(id, regions.clone(), Purpose::Write, false)
        .await?;
    let extent = Extent {
        offset,
        length: data.len() as u32,
    };
    store.write(id, &[extent], data).await?;
    store.clear(id, regions);
    Ok(())
}

fn report(env: &Env, begun: weft_env::Mono, what: &str, count: u64, bytes: u64) {
    let seconds = env.now().since(begun).as_secs_f64();
    let mebibytes = (bytes >> 20) as f64 / seconds;
    let micros = seconds * 1e6 / count as f64;
    println!(
        "{what:32} {:>9.0}/s {micros:>8.1} us each {mebibytes:>8.0} MiB/s",
        count as f64 / seconds
    );
}

async fn bench(env: Env, dir: PathBuf) -> Result<()> {
    let store = Store::open(env.clone(), &dir, PairId(0), Member::Zero).await?;
    let random = |below: u64| env.random() % below;
    for piece in [1 << 20, 256 << 10, 64 << 10] {
        let data = Bytes::from(vec![7u8; piece as usize]);
        let id = object(piece);
        for pass in ["write", "overwrite"] {
            let begun = env.now();
            for at in (0..STREAM_BYTES).step_by(piece as usize) {
                write(&store, id, at, data.clone()).await?;
            }
            let count = STREAM_BYTES / piece;
            let what = format!("{pass} in pieces of {} KiB", piece >> 10);
            report(&env, begun, &what, count, STREAM_BYTES);
        }
        store.tidy().await?;
        let begun = env.now();
        for at in (0..STREAM_BYTES).step_by(piece as usize) {
            let parts = store.read(id, at, piece).await?;
            assert_eq!(parts.iter().map(Bytes::len).sum::<usize>(), piece as usize);
        }
        let what = format!("read in pieces of {} KiB", piece >> 10);
        report(&env, begun, &what, STREAM_BYTES / piece, STREAM_BYTES);
    }
    let small = Bytes::from(vec![5u8; 4096]);
    let begun = env.now();
    for _ in 0..ACCESSES {
        let at = random(STREAM_BYTES / 4096) * 4096;
        write(&store, object(1 << 20), at, small.clone()).await?;
    }
    report(
        &env,
        begun,
        "write 4 KiB at random",
        ACCESSES,
        ACCESSES << 12,
    );
    let begun = env.now();
    for _ in 0..ACCESSES {
        let at = random(STREAM_BYTES / 4096) * 4096;
        store.read(object(1 << 20), at, 4096).await?;
    }
    report(
        &env,
        begun,
        "read 4 KiB at random",
        ACCESSES,
        ACCESSES << 12,
    );
    let begun = env.now();
    for number in 0..ACCESSES {
        let data = Bytes::from_static(&[b'x'; 100]);
        write(&store, object(7), number * 100, data).await?;
    }
    report(&env, begun, "append 100 bytes", ACCESSES, ACCESSES * 100);
    let first = 1 << 32;
    let begun = env.now();
    for number in 0..OBJECTS {
        write(&store, object(first + number), 0, small.clone()).await?;
        if number % 5000 == 0 {
            store.tidy().await?;
        }
    }
    report(&env, begun, "create with 4 KiB", OBJECTS, OBJECTS << 12);
    let begun = env.now();
    for number in 0..OBJECTS {
        store.read(object(first + number), 0, 4096).await?;
    }
    report(&env, begun, "read objects of 4 KiB", OBJECTS, OBJECTS << 12);
    drop(store);
    let begun = env.now();
    let store = Store::open(env.clone(), &dir, PairId(0), Member::Zero).await?;
    report(&env, begun, "open again, for each object", OBJECTS, 0);
    let begun = env.now();
    for number in 0..OBJECTS {
        store.remove(object(first + number)).await?;
    }
    report(&env, begun, "remove", OBJECTS, 0);
    Ok(())
}

fn main() -> std::process::ExitCode {
    let temporary = tempfile::tempdir();
    let dir = match (std::env::args_os().nth(1), &temporary) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Ok(dir)) => dir.path().join("store"),
        (None, Err(error)) => {
            println!("no temporary directory: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    match real::run(|env| bench(env, dir)) {
        Ok(Ok(())) => std::process::ExitCode::SUCCESS,
        Ok(Err(error)) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
