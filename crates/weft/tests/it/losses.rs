//! kill -9 of a data server and of the mount that writes through it, within the same window: what is
//! lost is named, reading it fails, old content is never read in its place, and it is back when the
//! server is.

use crate::support::{Dev, WEFT, can_mount};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// More than the sockets between two members hold: the twin that hangs gets the first part only.
const LENGTH: usize = 24 << 20;
const OLD: u8 = b'o';
const NEW: u8 = b'n';
/// The machine may be too busy to kill two processes within a third of a second.
const ATTEMPTS: u32 = 8;

fn json(dev: &Dev, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&dev.done(arguments)).unwrap()
}

fn pid(dev: &Dev, name: &str) -> i32 {
    let status = json(dev, &["dev", "status", "--json"]);
    let processes = status["processes"].as_array().unwrap();
    let process = processes.iter().find(|one| one["name"] == name).unwrap();
    process["pid"].as_i64().unwrap() as i32
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers; the pid is that of a process of this test's own cluster.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn state_of(dev: &Dev) -> String {
    let status = json(dev, &["status", "--json"]);
    status["pairs"][0]["state"].as_str().unwrap().to_owned()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What each block of the file reads as; None: EIO.
fn blocks(file: &Path) -> Vec<Option<u8>> {
    let file = fs::File::open(file).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    assert_eq!(length, LENGTH);
    let mut block = [0; BLOCK];
    let read = |at: usize| match file.read_exact_at(&mut block, (at * BLOCK) as u64) {
        Ok(()) => {
            assert!(block.iter().all(|byte| *byte == block[0]), "block {at}");
            Some(block[0])
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "block {at}: {error}");
            None
        }
    };
    (0..LENGTH / BLOCK).map(read).collect()
}

fn count(blocks: &[Option<u8>], what: Option<u8>) -> usize {
    blocks.iter().filter(|block| **block == what).count()
}

#[test]
fn a_server_and_its_writer_die_together() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let dev = Dev::up(
        &base.path().join("cluster"),
        &["--mount", mount.to_str().unwrap(), "--pairs", "1"],
    );
    let directory = mount.join("d");
    fs::create_dir(&directory).unwrap();
    let policy = Command::new(WEFT)
        .args(["policy", "set", "--protocol", "server-async"])
        .arg(&directory)
        .output()
        .unwrap();
    assert!(policy.status.success());
    let file = directory.join("f");
    let none = dev.done(&["losses"]);
    assert!(none.contains("Nothing is known to be lost"), "{none}");

    let mut attempt = 0;
    loop {
        attempt += 1;
        assert!(attempt <= ATTEMPTS, "never killed in time:\n{}", dev.logs());
        fs::write(&file, vec![OLD; LENGTH]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
        let [leader, twin, writer] = ["data:0.0", "data:0.1", "mount"].map(|name| pid(&dev, name));
        // The twin hangs: what the leader takes now it alone has.
        let mut open = fs::OpenOptions::new().write(true).open(&file).unwrap();
        signal(twin, libc::SIGSTOP);
        open.write_all(&vec![NEW; LENGTH]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        signal(leader, libc::SIGKILL);
        signal(writer, libc::SIGKILL);
        signal(twin, libc::SIGCONT);
        drop(open);
        wait_for("another state", || state_of(&dev) != "both");
        if state_of(&dev) == "only 1" {
            break;
        }
        // The leader had been made the only server before it died. Again.
        dev.done(&["dev", "start", "data:0.0"]);
        dev.done(&["dev", "start", "mount"]);
        wait_for("both", || state_of(&dev) == "both");
    }
    dev.done(&["dev", "start", "mount"]);
    let found = blocks(&file);
    let lost = count(&found, None);
    println!(
        "attempt {attempt}: {} blocks old, {} new, {lost} lost",
        count(&found, Some(OLD)),
        count(&found, Some(NEW)),
    );
    assert!(lost > 0, "nothing was lost:\n{}", dev.logs());
    let told = json(&dev, &["losses", "--json"]);
    let named = told["losses"].as_array().unwrap();
    assert!(!named.is_empty());
    for loss in named {
        assert_eq!(loss["path"], "/d/f");
        assert_eq!(loss["server"], "data:0.0");
        assert_eq!(loss["can_return"], true);
    }
    for (at, block) in found.iter().enumerate() {
        let at = (at * BLOCK) as u64;
        let is_named = named.iter().any(|loss| {
            let number = |name: &str| loss[name].as_u64().unwrap();
            (number("file_start")..number("file_end")).contains(&at)
        });
        assert!(
            block.is_some() || is_named,
            "byte {at} is refused, not named"
        );
    }
    let status = dev.done(&["status"]);
    assert!(status.contains("lost: see weft losses"), "{status}");
    let log = fs::read_to_string(dev.directory.join("data-0.1.log")).unwrap_or_else(|_| dev.logs());
    assert!(
        log.contains("lost with a data server and the client"),
        "{log}"
    );

    // The server is back, and with it all that it had.
    dev.done(&["dev", "start", "data:0.0"]);
    dev.done(&["fsck", "--data", "--wait", "60"]);
    let again = blocks(&file);
    println!(
        "back: {} blocks old, {} new",
        count(&again, Some(OLD)),
        count(&again, Some(NEW)),
    );
    assert_eq!(count(&again, None), 0, "{}", dev.done(&["losses"]));
    assert!(count(&again, Some(NEW)) > count(&found, Some(NEW)));
    for (at, (before, after)) in found.iter().zip(&again).enumerate() {
        let was_hidden = *before == Some(OLD) && *after == Some(NEW);
        assert!(!was_hidden, "block {at} read as old though there was newer");
    }
    let none = dev.done(&["losses"]);
    assert!(none.contains("Nothing is known to be lost"), "{none}");
    dev.end();
}
