//! Where everything goes that a process says on standard error: by a bounded queue to a thread that alone
//! writes there.
//!
//! Keeps true: to log never stops service, and never ends it. A disk without room and a reader that has gone
//! refuse lines; a reader that does not read takes none, and would hold whoever writes. Such lines are counted
//! (`weft_log_lines_lost_total`), and the next one that can be written comes after one that says how many are
//! missing. What was said before the process ends is waited for, but not for ever.

use crate::error::{Result, Tried};
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use weft_env::{count_lost_lines, lost_lines};

/// Lines that wait to be written: what a burst of all clients' connections ending gives, in less than a MiB.
const LINES_MAX: usize = 4_096;
/// At its end a process waits for what it has said for so long: far longer than a disk takes, and short enough
/// for whoever waits to start it again.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// A queue that is full when the last words come is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(1);

enum Item {
    /// With its end of line.
    Line(Vec<u8>),
    /// All before that has been written, or lost.
    Flush(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();

/// One line on standard error, as `eprintln!`, which panics where it cannot write and waits where nobody reads.
macro_rules! tell {
    ($($text:tt)*) => { $crate::log::line(format_args!($($text)*)) };
}

pub(crate) use tell;

/// Starts the thread, and has log lines sent to it.
///
/// # Errors
/// If the operating system gives no thread.
pub fn start(default: &str) -> Result<()> {
    let (queue, items) = sync_channel(LINES_MAX);
    let write = move || write_all(&items, &mut io::stderr());
    let thread = std::thread::Builder::new().name("log".into()).spawn(write);
    thread.tried(|| "cannot start the thread that logs".into())?;
    // Once in a process.
    let _: std::result::Result<(), _> = QUEUE.set(queue);
    let filter = EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .init();
    Ok(())
}

/// See [`tell!`].
pub fn line(text: fmt::Arguments<'_>) {
    enqueue(format!("{text}\n").into_bytes());
}

fn enqueue(line: Vec<u8>) {
    let Some(queue) = QUEUE.get() else {
        // Before the start: nothing serves yet.
        if io::stderr().write_all(&line).is_err() {
            count_lost_lines(1);
        }
        return;
    };
    if queue.try_send(Item::Line(line)).is_err() {
        count_lost_lines(1);
    }
}

/// What the log's formatter writes to: a line at a time.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        enqueue(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until what was said has been written, for a while.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        let deadline = Instant::now() + END_PATIENCE;
        let (done, written) = sync_channel(1);
        if insist(queue, Item::Flush(done), deadline) {
            let left = deadline.saturating_duration_since(Instant::now());
            // Whatever is not written by then nobody waits for any more.
            let _: std::result::Result<(), _> = written.recv_timeout(left);
        }
    }
}

/// Says a last line, and waits until it has been written, for a while.
pub fn last_words(line: &str) {
    let line = format!("{line}\n").into_bytes();
    match QUEUE.get() {
        Some(queue) => {
            if !insist(queue, Item::Line(line), Instant::now() + END_PATIENCE) {
                return;
            }
            flush();
        }
        None => enqueue(line),
    }
}

/// False: there was no room until the deadline.
fn insist(queue: &SyncSender<Item>, mut item: Item, deadline: Instant) -> bool {
    loop {
        match queue.try_send(item) {
            Ok(()) => return true,
            Err(TrySendError::Full(left)) if Instant::now() < deadline => item = left,
            Err(_) => return false,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The thread. It ends with the process.
fn write_all(items: &Receiver<Item>, out: &mut impl Write) {
    let mut writer = Writer {
        out,
        told: 0,
        is_cut: false,
    };
    while let Ok(item) = items.recv() {
        match item {
            Item::Line(line) => writer.line(&line, lost_lines),
            Item::Flush(done) => {
                writer.say_lost(lost_lines());
                // Who asked may not wait any more.
                let _: std::result::Result<(), _> = done.send(());
            }
        }
    }
}

struct Writer<'a, W> {
    out: &'a mut W,
    /// Lost lines that have been told.
    told: u64,
    /// A line was refused, perhaps in its middle.
    is_cut: bool,
}

impl<W: Write> Writer<'_, W> {
    fn line(&mut self, line: &[u8], lost: impl Fn() -> u64) {
        self.say_lost(lost());
        if self.out.write_all(line).is_err() {
            self.is_cut = true;
            count_lost_lines(1);
        }
    }

    /// Says how many are missing, if that is possible by now.
    fn say_lost(&mut self, lost: u64) {
        if lost == self.told {
            return;
        }
        let begin = if self.is_cut { "\n" } else { "" };
        let count = lost - self.told;
        let line = format!("{begin}weft: {count} lines could not be logged\n");
        if self.out.write_all(line.as_bytes()).is_ok() {
            self.is_cut = false;
            self.told = lost;
        }
    }
}

/// A panic anywhere, in any task or thread, ends the process at once, with one line that says where: what it left
/// half done no other part of it may go on with, and whoever supervises it starts it again. Exit code
/// [`PANICKED`].
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let place = panic
            .location()
            .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let thread = std::thread::current();
        let now = humantime::format_rfc3339_micros(std::time::SystemTime::now());
        last_words(&format!(
            "{now} ERROR weft: panic at {place}, thread {}: {}; this process ends, exit code {PANICKED}",
            thread.name().unwrap_or("without a name"),
            message.replace('\n', " "),
        ));
        // The rest is for whoever has asked for it (RUST_BACKTRACE).
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            last_words(&backtrace.to_string());
        }
        // SAFETY: it takes a number, and returns to nobody. Nothing is unwound, and no handler of the process's
        // end runs: they might wait for what has just failed.
        unsafe { libc::_exit(PANICKED) }
    }));
}

/// What a process ends with after a panic: as Rust's own.
pub const PANICKED: i32 = 101;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Takes so many bytes, then refuses as a full disk does.
    struct Disk {
        room: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= length;
            self.bytes.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_missing_is_told_when_there_is_room_again() {
        let mut disk = Disk {
            room: 8,
            bytes: Vec::new(),
        };
        let mut writer = Writer {
            out: &mut disk,
            told: 0,
            is_cut: false,
        };
        let lost = Cell::new(0);
        writer.line(b"one\n", || lost.get());
        writer.line(b"two, cut\n", || lost.get());
        lost.set(1);
        writer.line(b"three\n", || lost.get());
        lost.set(2);
        writer.out.room = 1_000;
        writer.line(b"four\n", || lost.get());
        writer.line(b"five\n", || lost.get());
        let text = String::from_utf8(disk.bytes).unwrap();
        assert_eq!(
            text,
            "one\ntwo,\nweft: 2 lines could not be logged\nfour\nfive\n"
        );
    }

    #[test]
    fn a_queue_that_nobody_empties_is_not_waited_for_for_ever() {
        let (queue, _items) = sync_channel(1);
        assert!(insist(&queue, Item::Line(Vec::new()), Instant::now()));
        let deadline = Instant::now() + Duration::from_millis(20);
        assert!(!insist(&queue, Item::Line(Vec::new()), deadline));
    }
}
