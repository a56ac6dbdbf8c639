//! kill -9 of real data servers at random instants, again and again, while a mount writes: afterwards
//! both copies are equal and every byte is as it was written last.

use crate::support::{Dev, can_mount};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const ROUNDS: u64 = 8;
const WRITERS: u64 = 3;
const FILE_BYTES: u64 = 6 << 20;

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pause(&mut self, milliseconds: u64) {
        std::thread::sleep(Duration::from_millis(self.roll(milliseconds)));
    }
}

/// A file and what it must hold.
struct Written {
    path: PathBuf,
    content: Vec<u8>,
}

/// Overwrites random places of its file until it is told to stop; what it wrote is then on the servers.
fn write(
    mut written: Written,
    mut dice: Dice,
    stop: Arc<AtomicBool>,
) -> JoinHandle<(Written, u64)> {
    std::thread::spawn(move || {
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&written.path)
            .unwrap();
        let mut writes = 0;
        while !stop.load(Ordering::Relaxed) {
            let length = 1 + dice.roll(150_000);
            let offset = dice.roll(FILE_BYTES - length);
            let byte = dice.roll(255) as u8 + 1;
            let end = (offset + length) as usize;
            let bytes = vec![byte; length as usize];
            file.write_all_at(&bytes, offset).unwrap();
            if written.content.len() < end {
                written.content.resize(end, 0);
            }
            written.content[offset as usize..end].copy_from_slice(&bytes);
            writes += 1;
            if writes % 8 == 0 {
                file.sync_all().unwrap();
            }
        }
        file.sync_all().unwrap();
        (written, writes)
    })
}

#[test]
fn nothing_is_lost_whenever_a_data_server_is_killed() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("cluster");
    let mount = base.path().join("mnt");
    let dev = Dev::up(&directory, &["--mount", mount.to_str().unwrap()]);
    // The instants are those of a busy machine: the seed makes only the plan repeatable.
    let mut dice = Dice(20);
    let mut files: Vec<Written> = (0..WRITERS)
        .map(|number| Written {
            path: mount.join(format!("written {number}")),
            content: Vec::new(),
        })
        .collect();
    let mut writes = 0;
    for round in 0..ROUNDS {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = files
            .drain(..)
            .enumerate()
            .map(|(number, file)| {
                let seed = round * WRITERS + number as u64;
                write(file, Dice(seed), stop.clone())
            })
            .collect();
        let victim = format!("data:{}.{}", dice.roll(2), dice.roll(2));
        // Every other time again: while it starts, recovers, or has just become current.
        for _ in 0..1 + round % 2 {
            dice.pause(700);
            dev.done(&["dev", "kill", &victim]);
            dice.pause(400);
            dev.done(&["dev", "start", &victim]);
        }
        dice.pause(500);
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            let (file, done) = writer.join().unwrap();
            writes += done;
            files.push(file);
        }
        dev.done(&["fsck", "--data", "--wait", "60"]);
        for file in &files {
            let found = fs::read(&file.path).unwrap();
            assert!(
                found == file.content,
                "round {round}: {} came back different after {victim} was killed:\n{}",
                file.path.display(),
                dev.logs()
            );
        }
    }
    assert!(writes > 20 * ROUNDS, "only {writes} writes");
    dev.end();
    // The page cache may have answered all that: a new mount asks the servers.
    let dev = Dev::up(&directory, &["--mount", mount.to_str().unwrap()]);
    for file in &files {
        assert!(fs::read(&file.path).unwrap() == file.content);
    }
    dev.done(&["scrub"]);
    dev.end();
}
