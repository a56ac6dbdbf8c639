//! Programs that judge the bytes and the ends of files.

use crate::judge::{Changes, Clock, Register, locked};
use crate::{Fault, Step, Told, Turn};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Two pages of cells: writers of both mounts share each page.
const CELLS: usize = 1024;
/// Bytes of a cell: one word, which the kernel copies as one.
const CELL: usize = 8;

/// Two mounts write the cells of one file; readers look through descriptors that they keep, that they open anew, past the
/// page cache, and through mappings. Each cell is a register.
pub fn cells(turn: &Turn) -> Result<(), Fault> {
    let paths = turn.both("cells");
    fs::write(&paths[0], [0; CELLS * CELL]).told(paths[0].display())?;
    let clock = Clock::default();
    let registers: Vec<Register> = (0..CELLS).map(|_| Register::default()).collect();
    let (clock, registers) = (&clock, &registers);
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.told(path.display())?;
        let kept = File::open(path).told(path.display())?;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path);
        let direct = direct.told(path.display())?;
        let mapped = Mapped::whole(&kept, CELLS * CELL).told(path.display())?;
        // They come by all cells, each in another order; some often, so that they are fought for.
        let mut cell = number;
        steps.push(Box::new(move || {
            cell = (cell + 509) % CELLS;
            let at = if cell.is_multiple_of(3) { 7 } else { cell };
            registers[at].write(clock, |value| {
                let written = file.write_all_at(&value.to_le_bytes(), (at * CELL) as u64);
                written.told("a write")
            })
        }));
        let look = |file: &File, buffer: &mut [u8]| {
            let floors: Vec<_> = registers.iter().map(Register::floor).collect();
            let count = file.read_at(buffer, 0).told("a read")?;
            if count != CELLS * CELL {
                return Err(format!("{count} bytes of {}", CELLS * CELL));
            }
            for ((number, bytes), floor) in buffer.chunks_exact(CELL).enumerate().zip(floors) {
                let value = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let judged = registers[number].found(floor, value);
                judged.map_err(|fault| format!("cell {number} of {}: {fault}", path.display()))?;
            }
            Ok(())
        };
        let mut buffer = [0; CELLS * CELL];
        steps.push(Box::new(move || look(&kept, &mut buffer)));
        let mut buffer = [0; CELLS * CELL];
        steps.push(Box::new(move || {
            look(&File::open(path).told("an open")?, &mut buffer)
        }));
        let mut buffer = Box::new(Aligned([0; CELLS * CELL]));
        steps.push(Box::new(move || look(&direct, &mut buffer.0)));
        let mut cell = 0;
        steps.push(Box::new(move || {
            cell = (cell + 1) % CELLS;
            let floor = registers[cell].floor();
            let judged = registers[cell].found(floor, mapped.word(cell));
            judged.map_err(|fault| format!("cell {cell} mapped of {}: {fault}", path.display()))
        }));
    }
    turn.together(steps)
}

/// As reads past the page cache want their memory.
#[repr(align(4096))]
struct Aligned([u8; CELLS * CELL]);

/// A mapping to read.
struct Mapped {
    at: *const u64,
    bytes: usize,
}

// SAFETY: it is only read, by volatile loads.
unsafe impl Send for Mapped {}

impl Mapped {
    fn whole(file: &File, bytes: usize) -> std::io::Result<Mapped> {
        // SAFETY: a new mapping of an open file, at a place that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match at {
            libc::MAP_FAILED => Err(std::io::Error::last_os_error()),
            at => Ok(Mapped {
                at: at.cast(),
                bytes,
            }),
        }
    }

    fn word(&self, number: usize) -> u64 {
        assert!(number < self.bytes / CELL, "inside the mapping");
        // SAFETY: inside the mapping, which is aligned to pages and lives as long as self.
        u64::from_le(unsafe { self.at.add(number).read_volatile() })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping as it was made, not used any more.
        unsafe { libc::munmap(self.at.cast_mut().cast(), self.bytes) };
    }
}

/// Who append, half of them by each mount.
const APPENDERS: usize = 4;

/// Several append lines; others follow, while some ask for the size all the time. A follower sees each writer's lines, whole
/// and in order, nothing else, no end before what a write has returned for, and as much as its descriptor told of.
pub fn log(turn: &Turn) -> Result<(), Fault> {
    let paths = turn.both("log");
    let written: [AtomicU64; APPENDERS] = Default::default();
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (writer, written) in written.iter().enumerate() {
        let path = &paths[writer % 2];
        let mut options = OpenOptions::new();
        let mut log = options
            .append(true)
            .create(true)
            .open(path)
            .told(path.display())?;
        steps.push(Box::new(move || {
            let number = written.load(Ordering::SeqCst);
            // Ends fall everywhere in pages.
            let padding = (number as usize * 37 + writer) % 150;
            let line = format!("{writer} {number} {}\n", "-".repeat(padding));
            let count = log.write(line.as_bytes()).told("an append")?;
            if count != line.len() {
                return Err(format!("{count} bytes of a line were appended"));
            }
            written.fetch_add(1, Ordering::SeqCst);
            // Else nobody would ever find the end.
            std::thread::sleep(Duration::from_micros(number % 5 * 300));
            Ok(())
        }));
    }
    for path in &paths {
        // Who asks for the size has the kernel know it.
        for (asks, opens_anew) in [(false, false), (true, false), (false, true)] {
            let mut file = File::open(path).told(path.display())?;
            let mut follower = Follower::new(&written, asks);
            steps.push(Box::new(move || {
                if opens_anew {
                    file = File::open(path).told(path.display())?;
                }
                let read = follower.read_on(&file);
                read.map_err(|fault| format!("a follower of {}: {fault}", path.display()))
            }));
        }
        steps.push(Box::new(move || {
            fs::metadata(path).map(drop).told(path.display())
        }));
    }
    turn.together(steps)
}

struct Follower<'a> {
    written: &'a [AtomicU64; APPENDERS],
    /// For the size, before it reads.
    asks: bool,
    at: u64,
    /// The next line of each writer.
    next: [u64; APPENDERS],
    /// What has been read of a line that is not whole yet.
    part: Vec<u8>,
    buffer: Vec<u8>,
}

impl Follower<'_> {
    fn new(written: &[AtomicU64; APPENDERS], asks: bool) -> Follower<'_> {
        Follower {
            written,
            asks,
            at: 0,
            next: [0; APPENDERS],
            part: Vec::new(),
            buffer: vec![0; 65_536],
        }
    }

    fn read_on(&mut self, file: &File) -> Result<(), Fault> {
        let written = [0, 1, 2, 3].map(|writer: usize| self.written[writer].load(Ordering::SeqCst));
        let told = match self.asks {
            true => file.metadata().told("fstat")?.len(),
            false => 0,
        };
        let count = file.read_at(&mut self.buffer, self.at).told("a read")?;
        let (begin, at) = (self.at, self.at + count as u64);
        if at < told.min(begin + self.buffer.len() as u64) {
            return Err(format!(
                "fstat told of {told} bytes, and {count} were read at {begin}"
            ));
        }
        self.at = at;
        for line in self.buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            self.part.extend_from_slice(line);
            if line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.part);
                take_line(&mut self.next, &line)
                    .ok_or_else(|| format!("before {at}: {:?}", String::from_utf8_lossy(&line)))?;
            }
        }
        match self
            .next
            .iter()
            .zip(written)
            .all(|(next, written)| *next >= written)
        {
            false if count < self.buffer.len() => Err(format!(
                "the end was found at {at}, with {:?} lines of {written:?}",
                self.next
            )),
            _ => Ok(()),
        }
    }
}

/// None if this is not the next line of its writer.
fn take_line(next: &mut [u64; APPENDERS], line: &[u8]) -> Option<()> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.trim_end_matches('\n').split(' ');
    let next = next.get_mut(words.next()?.parse::<usize>().ok()?)?;
    let number: u64 = words.next()?.parse().ok()?;
    let is_padding = words.next()?.bytes().all(|byte| byte == b'-');
    (number == *next && is_padding).then(|| *next += 1)
}

/// Sizes go up to here.
const LARGEST: u64 = 100_003;
const PAGE: u64 = 4096;
/// As many bytes before the end are looked at.
const TAIL: u64 = 300;

/// Two mounts make a file longer and shorter, one after the other, to a size that it never had; others ask for the size in
/// all ways, and read what is before the end.
pub fn sizes(turn: &Turn) -> Result<(), Fault> {
    let paths = turn.both("sizes");
    File::create(&paths[0]).told(paths[0].display())?;
    let (clock, register) = (&Clock::default(), &Register::default());
    let values = &Mutex::new(BTreeMap::from([(0, 0)]));
    let (changes, turns) = (&Changes::default(), &Mutex::new(0_u64));
    let judge = move |floor, size: u64| {
        let value = locked(values).get(&size).copied();
        let value = value.ok_or_else(|| format!("the file never had {size} bytes"))?;
        let judged = register.found(floor, value);
        judged.map_err(|fault| format!("size {size}: {fault}"))
    };
    let mut steps: Vec<Step<'_>> = Vec::new();
    for path in &paths {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.told(path.display())?;
        steps.push(Box::new(move || {
            let mut number = locked(turns);
            let before = *number * 31_337 % LARGEST;
            *number += 1;
            // LARGEST is a prime, so that no size comes again before that many.
            let size = *number * 31_337 % LARGEST;
            let set = |value| {
                locked(values).insert(size, value);
                match size.checked_sub(before) {
                    Some(longer) if *number % 3 > 0 => {
                        // In one page: a local file system moves the end page by page.
                        let in_page = (size - 1) % PAGE + 1;
                        let part = vec![b'x'; longer.min(TAIL / 2).min(in_page) as usize];
                        file.write_all_at(&part, size - part.len() as u64)
                    }
                    _ => file.set_len(size),
                }
                .told(format!("from {before} to {size} bytes"))
            };
            changes.change(|| register.write(clock, set))?;
            drop(number);
            std::thread::sleep(Duration::from_micros(200));
            Ok(())
        }));
        let kept = File::open(path).told(path.display())?;
        let mut way = 0;
        steps.push(Box::new(move || {
            way = (way + 1) % 3;
            let floor = register.floor();
            // (Not lseek: Linux finds the end by what it has itself.)
            let size = match way {
                0 => fs::metadata(path),
                1 => kept.metadata(),
                _ => File::open(path).and_then(|file| file.metadata()),
            };
            let size = size.map(|found| found.len());
            let judged = judge(floor, size.told(path.display())?);
            judged.map_err(|fault| format!("{} (way {way}): {fault}", path.display()))
        }));
        let kept = File::open(path).told(path.display())?;
        steps.push(Box::new(move || read_tail(changes, path, &kept)));
        steps.push(Box::new(move || {
            read_tail(changes, path, &File::open(path).told(path.display())?)
        }));
    }
    turn.together(steps)
}

/// Reads what is before the end that the descriptor tells: unless the file is changed meanwhile, as many bytes.
fn read_tail(changes: &Changes, path: &Path, file: &File) -> Result<(), Fault> {
    let before = changes.settled();
    let told = file.metadata().told(path.display())?.len();
    let at = told.saturating_sub(TAIL);
    let mut buffer = [0; 2 * TAIL as usize];
    let count = file.read_at(&mut buffer, at).told(path.display())? as u64;
    let was_left_alone = before.is_some() && changes.settled() == before;
    if was_left_alone && at + count != told {
        let path = path.display();
        return Err(format!(
            "{path}: fstat told of {told} bytes, and {count} were read at {at}"
        ));
    }
    match buffer[..count as usize]
        .iter()
        .find(|byte| !matches!(byte, 0 | b'x'))
    {
        Some(byte) => Err(format!("{}: nobody wrote {byte:#x}", path.display())),
        None => Ok(()),
    }
}
