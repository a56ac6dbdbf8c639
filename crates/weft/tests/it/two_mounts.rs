//! Two mounts of one cluster, both real: what one has written, synced or changed, the other sees.
//!
//! Left out, with a plain message, where nothing can be mounted. Everything that is started is ended
//! by its id; everything that is written lies in a temporary directory.

mod believed;
mod removed;

use crate::support::Stopping;
use crate::support::mounts::{Mounts, PATIENCE, until};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

fn at(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let got = file.read_at(&mut bytes, offset).unwrap();
    bytes.truncate(got);
    bytes
}

/// A shared mapping of a file's first two pages.
struct Mapping(*mut u8);

const PAGE: usize = 4096;
const MAPPED: usize = 2 * PAGE;

impl Mapping {
    fn of(file: &File) -> Mapping {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of an open file, at a place that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        Mapping(at.cast())
    }

    fn get(&self, offset: usize) -> u8 {
        assert!(offset < MAPPED);
        // SAFETY: inside the mapping, which lives as long as self.
        unsafe { self.0.add(offset).read_volatile() }
    }

    fn set(&self, offset: usize, byte: u8) {
        assert!(offset < MAPPED);
        // SAFETY: inside the mapping, which lives as long as self.
        unsafe { self.0.add(offset).write_volatile(byte) }
    }

    fn sync(&self) {
        // SAFETY: the mapping as it was made.
        let synced = unsafe { libc::msync(self.0.cast(), MAPPED, libc::MS_SYNC) };
        assert_eq!(synced, 0);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping as it was made, not used any more.
        unsafe { libc::munmap(self.0.cast(), MAPPED) };
    }
}

fn data_is_seen(mounts: &Mounts) {
    let (a, b) = mounts.both("data");
    fs::write(&a, b"closed").unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"closed");
    // Cached there now; over and over, both ways, with files that stay open.
    let (fa, fb) = (open(&a), open(&b));
    for round in 0..50_u64 {
        let (writer, reader) = if round % 2 == 0 {
            (&fa, &fb)
        } else {
            (&fb, &fa)
        };
        let text = format!("round {round:04}");
        writer.write_all_at(text.as_bytes(), 3).unwrap();
        match round % 3 {
            0 => writer.sync_all().unwrap(),
            1 => writer.sync_data().unwrap(),
            _ => {}
        }
        assert_eq!(at(reader, 3, text.len()), text.as_bytes());
        assert_eq!(reader.metadata().unwrap().len(), 13);
        assert_eq!(
            reader.metadata().unwrap().mtime_nsec(),
            writer.metadata().unwrap().mtime_nsec()
        );
    }
    let mut sync = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_SYNC)
        .open(&a)
        .unwrap();
    sync.write_all(b"O_SYNC").unwrap();
    assert_eq!(at(&fb, 0, 6), b"O_SYNC");
    // Several megabytes, read on the other side before.
    let large = vec![7_u8; 5 << 20];
    fb.write_all_at(&large, 0).unwrap();
    assert!(fs::read(&a).unwrap() == large);
    fa.write_all_at(b"in the middle", 3 << 20).unwrap();
    assert_eq!(at(&fb, 3 << 20, 13), b"in the middle");
    fb.set_len(100).unwrap();
    assert_eq!(fa.metadata().unwrap().len(), 100);
    assert!(at(&fa, 100, 10).is_empty());
    fa.set_len(3 << 20).unwrap();
    assert_eq!(at(&fb, 100, 10), [0; 10]);
    // Past the page cache.
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&a)
        .unwrap();
    fb.write_all_at(b"direct", 200).unwrap();
    assert_eq!(at(&direct, 200, 6), b"direct");
}

fn names_are_seen(mounts: &Mounts) {
    let (a, b) = mounts.both("names");
    fs::create_dir(&a).unwrap();
    let listed = |dir: &Path| {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert!(listed(&b).is_empty());
    for round in 0..30 {
        let (here, there) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let (name, other) = (format!("f{round}"), format!("g{round}"));
        assert!(!there.join(&name).exists(), "and it remembers that");
        fs::write(here.join(&name), b"x").unwrap();
        assert!(there.join(&name).exists());
        assert_eq!(listed(there), [name.as_str()]);
        fs::rename(there.join(&name), there.join(&other)).unwrap();
        assert!(!here.join(&name).exists() && here.join(&other).exists());
        assert_eq!(listed(here), [other.as_str()]);
        let mode = Permissions::from_mode(0o640 | (round % 2));
        fs::set_permissions(here.join(&other), mode).unwrap();
        let found = fs::metadata(there.join(&other)).unwrap();
        assert_eq!(found.mode() & 0o777, 0o640 | (round % 2));
        fs::hard_link(here.join(&other), here.join("link")).unwrap();
        assert_eq!(fs::metadata(there.join(&other)).unwrap().nlink(), 2);
        fs::remove_file(there.join("link")).unwrap();
        // Open there, unlinked here.
        let kept = File::open(there.join(&other)).unwrap();
        fs::remove_file(here.join(&other)).unwrap();
        assert!(!there.join(&other).exists());
        assert_eq!(at(&kept, 0, 1), b"x");
        assert_eq!(kept.metadata().unwrap().nlink(), 0);
        std::os::unix::fs::symlink("target", here.join("s")).unwrap();
        assert_eq!(fs::read_link(there.join("s")).unwrap(), Path::new("target"));
        fs::remove_file(there.join("s")).unwrap();
        assert!(listed(here).is_empty());
    }
}

fn mappings_are_seen(mounts: &Mounts) {
    let (a, b) = mounts.both("mapped");
    fs::write(&a, [b'.'; 3 * PAGE]).unwrap();
    let (fa, fb) = (open(&a), open(&b));
    let (ma, mb) = (Mapping::of(&fa), Mapping::of(&fb));
    assert_eq!((ma.get(5), mb.get(5)), (b'.', b'.'));
    // A page that is mapped is dropped when another mount writes.
    for round in 0..20 {
        let byte = b'a' + round;
        let (writer, there) = if round % 2 == 0 {
            (&fa, &mb)
        } else {
            (&fb, &ma)
        };
        writer.write_all_at(&[byte], 5).unwrap();
        assert_eq!(there.get(5), byte);
    }
    // msync makes it everybody's.
    ma.set(6, b'1');
    ma.sync();
    assert_eq!(at(&fb, 6, 1), b"1");
    assert_eq!(mb.get(6), b'1');
    mb.set(6, b'2');
    mb.sync();
    assert_eq!(at(&fa, 6, 1), b"2");
    // Changed by the mapping without a lease, and then written by the other: both stay, and nobody
    // waits for a session to end.
    for round in 0..20 {
        let begun = Instant::now();
        let byte = b'A' + round;
        ma.set(100, byte);
        mb.set(PAGE + 200, byte);
        fb.write_all_at(&[byte], 300).unwrap();
        fa.write_all_at(&[byte], PAGE as u64 + 400).unwrap();
        if round % 2 == 0 {
            ma.sync();
            mb.sync();
        } else {
            fa.sync_all().unwrap();
            fb.sync_data().unwrap();
        }
        for (file, map) in [(&fa, &ma), (&fb, &mb)] {
            for place in [100, 300, PAGE + 200, PAGE + 400] {
                assert_eq!(at(file, place as u64, 1), [byte], "{round}: {place}");
                assert_eq!(map.get(place), byte, "{round}: {place}");
            }
        }
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
    }
}

/// A file is mapped by the one mount while the other writes it all the time: each write waits for a page that is being
/// read at most, never for a session to end.
fn mapped_while_written(mounts: &Mounts) {
    let (a, b) = mounts.both("mapped-written");
    fs::write(&a, [0; MAPPED]).unwrap();
    let writer = open(&a);
    let longest = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let together = Barrier::new(3);
    std::thread::scope(|scope| {
        for page in 0..2 {
            let (b, is_over, together) = (&b, &is_over, &together);
            scope.spawn(move || {
                let mapping = Mapping::of(&open(b));
                let mut last = mapping.get(page * PAGE);
                together.wait();
                while !is_over.load(Ordering::SeqCst) {
                    let byte = mapping.get(page * PAGE);
                    assert!(byte >= last, "{byte} after {last}");
                    last = byte;
                }
            });
        }
        let stopping = Stopping(&is_over);
        together.wait();
        for byte in 1..=200 {
            let begun = Instant::now();
            writer.write_all_at(&[byte; MAPPED], 0).unwrap();
            longest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::SeqCst);
        }
        drop(stopping);
    });
    let longest = longest.load(Ordering::SeqCst);
    assert!(longest < 3000, "a write took {longest} ms");
}

fn appends_stay_whole(mounts: &Mounts) {
    let (a, b) = mounts.both("log");
    fs::write(&a, b"").unwrap();
    const RECORDS: usize = 200;
    std::thread::scope(|scope| {
        for (path, who) in [(&a, "a"), (&b, "b"), (&a, "c"), (&b, "d")] {
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                for n in 0..RECORDS {
                    // Of many sizes, so that they do not share pages evenly.
                    let record = format!("{who} {n:04} {}\n", who.repeat(n * 7 % 300));
                    file.write_all(record.as_bytes()).unwrap();
                }
            });
        }
    });
    let texts = [&a, &b].map(|path| fs::read_to_string(path).unwrap());
    assert!(texts[0] == texts[1], "both mounts read the same");
    for who in ["a", "b", "c", "d"] {
        let own: Vec<&str> = texts[0]
            .lines()
            .filter(|line| line.starts_with(who))
            .collect();
        let expected: Vec<String> = (0..RECORDS)
            .map(|n| format!("{who} {n:04} {}", who.repeat(n * 7 % 300)))
            .collect();
        assert_eq!(own, expected);
    }
    assert_eq!(texts[0].lines().count(), 4 * RECORDS);
    // By one that was not opened to append, and has cached the end; and read by the same handle.
    let mut late = open(&a);
    late.seek(SeekFrom::End(0)).unwrap();
    let size = late.metadata().unwrap().len();
    // SAFETY: sets a flag of an open descriptor.
    let set = unsafe { libc::fcntl(late.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
    assert_eq!(set, 0);
    for round in 0..10 {
        OpenOptions::new()
            .append(true)
            .open(&b)
            .unwrap()
            .write_all(b"from b\n")
            .unwrap();
        late.write_all(b"from a\n").unwrap();
        let mut text = String::new();
        let mut reader = File::open(&a).unwrap();
        reader.seek(SeekFrom::Start(size)).unwrap();
        until("what was misplaced is forgotten", || {
            text.clear();
            reader.seek(SeekFrom::Start(size)).unwrap();
            reader.read_to_string(&mut text).unwrap();
            text == "from b\nfrom a\n".repeat(round + 1)
        });
    }
}

/// Both mounts write parts of the same pages while both read them: nobody waits for a session to
/// end, and nothing stale stays.
/// What its writer has had acknowledged of each place: who reads later finds no less.
type Written = [[AtomicU64; 2]; 4];

fn writers_of_one_page_get_on(mounts: &Mounts) {
    let (a, b) = mounts.both("shared");
    fs::write(&a, vec![0_u8; 4 * PAGE]).unwrap();
    let stop = AtomicBool::new(false);
    let written = Written::default();
    let number = |file: &File, page: usize, writer: usize| {
        let found = at(file, (page * PAGE + 8 * writer) as u64, 8);
        u64::from_ne_bytes(found.try_into().unwrap())
    };
    let slowest = std::thread::scope(|scope| {
        for path in [&a, &b] {
            let (stop, written) = (&stop, &written);
            scope.spawn(move || {
                let file = open(path);
                while !stop.load(Ordering::Relaxed) {
                    for (page, places) in written.iter().enumerate() {
                        for (writer, place) in places.iter().enumerate() {
                            let least = place.load(Ordering::SeqCst);
                            let found = number(&file, page, writer);
                            assert!(
                                found >= least,
                                "{found} of {least} by {writer} in {page} of {path:?}"
                            );
                        }
                    }
                }
            });
        }
        let writers = [(&a, 0), (&b, 1)].map(|(path, writer)| {
            let written = &written;
            scope.spawn(move || {
                let file = open(path);
                let mut slowest = Duration::ZERO;
                for n in 1..=150_u64 {
                    let begun = Instant::now();
                    let page = n as usize % 4;
                    let offset = (page * PAGE + 8 * writer) as u64;
                    file.write_all_at(&n.to_ne_bytes(), offset).unwrap();
                    written[page][writer].store(n, Ordering::SeqCst);
                    slowest = slowest.max(begun.elapsed());
                    assert_eq!(number(&file, page, writer), n);
                }
                slowest
            })
        });
        let slowest = writers.map(|writer| writer.join());
        stop.store(true, Ordering::Relaxed);
        slowest.map(Result::unwrap)
    });
    let all = [&a, &b].map(|path| fs::read(path).unwrap());
    assert!(all[0] == all[1], "both mounts read the same");
    for page in 0..4_u64 {
        let last = (147..=150).find(|n| n % 4 == page).unwrap();
        let start = page as usize * PAGE;
        for place in [start, start + 8] {
            assert_eq!(all[0][place..place + 8], last.to_ne_bytes());
        }
    }
    println!("slowest writes {slowest:?}");
    assert!(
        slowest.iter().all(|took| *took < Duration::from_secs(3)),
        "{slowest:?}"
    );
}

/// Sets or frees an fcntl lock on one byte; the errno if it is refused.
fn lock_byte(file: &File, kind: i32, byte: i64, command: i32) -> Result<(), i32> {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and the lock lives until the call returns.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

extern "C" fn nothing(_signal: i32) {}

fn locks_are_of_both(mounts: &Mounts) {
    let (a, b) = mounts.both("locks");
    fs::write(&a, b"locked").unwrap();
    let (fa, fb) = (open(&a), open(&b));
    fa.lock().unwrap();
    assert!(matches!(fb.try_lock(), Err(fs::TryLockError::WouldBlock)));
    fa.unlock().unwrap();
    fb.try_lock().unwrap();
    fb.unlock().unwrap();
    let (write, unlock) = (libc::F_WRLCK, libc::F_UNLCK);
    lock_byte(&fa, write, 1, libc::F_SETLK).unwrap();
    lock_byte(&fb, write, 2, libc::F_SETLK).unwrap();
    assert_eq!(lock_byte(&fb, write, 1, libc::F_SETLK), Err(libc::EAGAIN));
    // SAFETY: a handler that does nothing, so that the signal ends a call and no process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let fa = &fa;
        let waiting = scope.spawn(move || {
            // SAFETY: has no conditions.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            lock_byte(fa, write, 2, libc::F_SETLKW)
        });
        let thread = told.recv().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished());
        assert_eq!(lock_byte(&fb, write, 1, libc::F_SETLKW), Err(libc::EDEADLK));
        // A signal ends the waiting, and with it the circle.
        // SAFETY: the thread waits for its lock, and has not been joined.
        let signalled = unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
        assert_eq!(signalled, 0);
        assert_eq!(waiting.join().unwrap(), Err(libc::EINTR));
    });
    std::thread::sleep(Duration::from_millis(100));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock_byte(&fb, write, 1, libc::F_SETLKW));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished(), "nobody waits for it");
        lock_byte(&fa, unlock, 1, libc::F_SETLK).unwrap();
        waiting.join().unwrap().unwrap();
    });
}

fn no_session_was_lost(mounts: &Mounts) {
    for entry in fs::read_dir(&mounts.dev.directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains("session ends"),
                "{}:\n{text}",
                path.display()
            );
        }
    }
}

/// The first mount has given back leases, and its metrics say so.
fn revocations_were_counted(mounts: &Mounts) {
    let config = fs::read_to_string(mounts.dev.directory.join("mount.toml")).unwrap();
    let setting = config
        .lines()
        .find_map(|line| line.strip_prefix("metrics_listen = "));
    let mut scraper = TcpStream::connect(setting.unwrap().trim_matches('"')).unwrap();
    scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    scraper.read_to_string(&mut page).unwrap();
    let count = page
        .lines()
        .find_map(|line| line.strip_prefix("weft_mount_revocations_total "));
    assert!(count.unwrap().parse::<u64>().unwrap() > 10, "{page}");
}

#[test]
fn two_mounts_see_each_other() {
    let Some(mounts) = Mounts::up() else { return };
    for (name, check) in [
        ("data", data_is_seen as fn(&Mounts)),
        ("names", names_are_seen),
        ("mappings", mappings_are_seen),
        ("mapped while written", mapped_while_written),
        ("appends", appends_stay_whole),
        ("locks", locks_are_of_both),
        ("one page", writers_of_one_page_get_on),
        ("ends", |mounts| {
            believed::ends_are_where_the_other_left_them(&mounts.a, &mounts.b);
        }),
        ("set-id", |mounts| {
            believed::set_id_bits_go_with_a_write(&mounts.a, &mounts.b)
        }),
        ("past the cache", |mounts| {
            believed::writes_past_the_cache_are_read(&mounts.a)
        }),
        ("removed", |mounts| {
            removed::is_as_on_a_local_disk(&mounts.a, &mounts.b)
        }),
    ] {
        let begun = Instant::now();
        check(&mounts);
        println!("{name}: {:?}", begun.elapsed());
        no_session_was_lost(&mounts);
    }
    revocations_were_counted(&mounts);
}

#[test]
fn with_both_members_of_a_pair_gone_calls_fail_and_do_not_hang() {
    let Some(mounts) = Mounts::up() else { return };
    let (a, b) = mounts.both("files");
    fs::create_dir(&a).unwrap();
    let content = |n: u8| vec![n; 100_000];
    let read = |n: u8| fs::read(b.join(n.to_string()));
    for n in 0..8 {
        let mut file = File::create(a.join(n.to_string())).unwrap();
        file.write_all(&content(n)).unwrap();
        file.sync_all().unwrap();
    }
    mounts.dev.done(&["dev", "kill", "data:0.0"]);
    // If both died before one was told that it is alone, the pair would not count as down.
    until("the other one knows that it is alone", || {
        let status = mounts.dev.done(&["dev", "status", "--json"]);
        status.contains("\"state\":\"only 1\"")
    });
    mounts.dev.done(&["dev", "kill", "data:0.1"]);
    let mut failed = 0;
    for n in 0..8 {
        let begun = Instant::now();
        match read(n) {
            // On the other pair.
            Ok(found) => assert!(found == content(n)),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EIO));
                failed += 1;
            }
        }
        let took = begun.elapsed();
        assert!(took < PATIENCE + Duration::from_secs(3), "{took:?}");
    }
    println!("{failed} of 8 files could not be read");
    assert!(failed > 0, "some lie on the pair");
    // New files lie on the other pair, once the service knows that this one is down.
    let begun = Instant::now();
    let write = |n: u8| {
        let mut file = File::create(b.join(format!("new{n}")))?;
        file.write_all(&content(n))?;
        file.sync_all()
    };
    (0..4).for_each(|n| write(n).unwrap());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    mounts.dev.done(&["dev", "start", "data:0.0"]);
    mounts.dev.done(&["dev", "start", "data:0.1"]);
    until("everything is there again", || {
        (0..8).all(|n| read(n).is_ok_and(|found| found == content(n)))
    });
    for n in 0..4 {
        assert!(fs::read(a.join(format!("new{n}"))).unwrap() == content(n));
    }
}

/// `session_term_ms` of the metadata server.
const TERM: Duration = Duration::from_secs(5);

#[test]
fn a_mount_that_hangs_delays_others_by_its_term_and_writes_nothing_afterwards() {
    let Some(mounts) = Mounts::up() else {
        return;
    };
    let (a, b) = mounts.both("f");
    let ours = vec![b'a'; 3 * PAGE];
    fs::write(&b, vec![b'0'; 4 * PAGE]).unwrap();
    let hanging = open(&b);
    hanging.sync_all().unwrap();
    let term = fs::read_to_string(mounts.dev.directory.join("meta-1.toml")).unwrap();
    let term_line = format!("session_term_ms = {}", TERM.as_millis());
    assert!(term.contains(&term_line), "{term}");
    // The second mount has the file for itself, and something that it has not written back.
    hanging.write_all_at(&[b'b'; PAGE], 0).unwrap();
    mounts.second.signal(libc::SIGSTOP);
    let begun = Instant::now();
    let file = open(&a);
    file.write_all_at(&ours, 0).unwrap();
    file.sync_all().unwrap();
    let took = begun.elapsed();
    println!("waited {took:?} for a mount that hangs");
    mounts.second.signal(libc::SIGCONT);
    // What must pass is the term and its margin of a twentieth; the rest is this machine.
    assert!(took < TERM * 2, "{took:?}");
    // A close of one descriptor of several does not take the error from the others.
    drop(hanging.try_clone().unwrap());
    let refused = hanging.sync_all().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EIO));
    let expected = [&ours[..], &[b'0'; PAGE]].concat();
    assert!(at(&file, 0, 5 * PAGE) == expected);
    until("the second mount sees it, too", || {
        fs::read(&b).is_ok_and(|found| found == expected)
    });
}
