//! Programs that act on two mounts of one cluster at once, for as long as one likes, and judge what they see.
//!
//! No fault is made meanwhile: what they find wrong is what the kernel was let believe (docs/protocols/kernel-cache.md).
//! A test of the binary calls them for seconds, `cargo xtask suites` for minutes or hours. They take turns; a turn is a new
//! directory, so that files are made, opened and shared anew again and again, and what is kept for judging stays small.
#![allow(
    clippy::disallowed_methods,
    reason = "acts on real mounts as any program does, by the machine's own clock"
)]

mod bytes;
mod judge;
mod names;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What was wrong, in words.
pub type Fault = String;

/// The longest turn. Much goes wrong only as files are opened, mapped and first shared: turns are short, and many.
const TURN: Duration = Duration::from_millis(500);

/// A program: its name, and one turn of it.
type Program = (&'static str, fn(&Turn) -> Result<(), Fault>);

const PROGRAMS: [Program; 8] = [
    ("cells", bytes::cells),
    ("log", bytes::log),
    ("sizes", bytes::sizes),
    ("replaced", names::replaced),
    ("always there", names::always_there),
    ("claimed", names::claimed),
    ("listed", names::listed),
    ("held", names::held),
];

/// Runs all of them, in turns, in a new directory of both mounts that is gone afterwards. Returns what each has done.
///
/// # Errors
/// The first thing that was wrong; then the directory is left as it is.
pub fn run(mounts: [&Path; 2], lasting: Duration) -> Result<Vec<(&'static str, usize)>, Fault> {
    let begun = Instant::now();
    let turn_lasts = TURN.min(lasting / PROGRAMS.len() as u32);
    let mut done = PROGRAMS.map(|(name, _)| (name, 0));
    let ground = format!("programs-{}", std::process::id());
    for number in 0.. {
        for ((name, program), (_, done)) in PROGRAMS.iter().zip(&mut done) {
            let within = format!("{ground}/{number}");
            let [a, b] = mounts.map(|mount| mount.join(&within));
            fs::create_dir_all(&a).told(a.display())?;
            let turn = Turn {
                dirs: [a, b],
                lasts: turn_lasts,
                end: OnceLock::new(),
                is_over: AtomicBool::new(false),
                steps: AtomicUsize::new(0),
            };
            program(&turn).map_err(|fault| {
                let after = begun.elapsed().as_secs();
                format!("{name}, turn {number} (after {after} s, in {within}): {fault}")
            })?;
            *done += turn.steps.into_inner();
            // By the other one: that it is gone is seen there, too.
            fs::remove_dir_all(&turn.dirs[1]).told(turn.dirs[1].display())?;
        }
        if begun.elapsed() >= lasting {
            break;
        }
    }
    let ground = mounts[0].join(ground);
    fs::remove_dir(&ground).told(ground.display())?;
    Ok(done.to_vec())
}

/// A turn of a program.
struct Turn {
    /// One directory, by the two mounts.
    dirs: [PathBuf; 2],
    lasts: Duration,
    /// Set when all is prepared.
    end: OnceLock<Instant>,
    is_over: AtomicBool,
    steps: AtomicUsize,
}

/// What one thread does again and again until the turn is over.
type Step<'a> = Box<dyn FnMut() -> Result<(), Fault> + Send + 'a>;

impl Turn {
    /// This name, by the two mounts.
    fn both(&self, name: &str) -> [PathBuf; 2] {
        [self.dirs[0].join(name), self.dirs[1].join(name)]
    }

    fn goes_on(&self) -> bool {
        let end = self.end.get_or_init(|| Instant::now() + self.lasts);
        !self.is_over.load(Ordering::SeqCst) && Instant::now() < *end
    }

    /// Does all of these at once, each in a thread of its own, until the turn is over or one of them finds a fault.
    fn together(&self, steps: Vec<Step<'_>>) -> Result<(), Fault> {
        let fault = Mutex::new(None);
        std::thread::scope(|scope| {
            for mut step in steps {
                let fault = &fault;
                scope.spawn(move || {
                    while self.goes_on() {
                        if let Err(found) = step() {
                            self.is_over.store(true, Ordering::SeqCst);
                            judge::locked(fault).get_or_insert(found);
                        }
                        self.steps.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        match judge::locked(&fault).take() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

/// Where some threads wait for each other, again and again.
struct Meeting {
    of: usize,
    came: AtomicUsize,
}

impl Meeting {
    fn of(count: usize) -> Meeting {
        Meeting {
            of: count,
            came: AtomicUsize::new(0),
        }
    }

    /// Waits until all have come as often; false if the turn is over before that.
    fn waits(&self, turn: &Turn) -> bool {
        let number = self.came.fetch_add(1, Ordering::SeqCst) / self.of;
        while self.came.load(Ordering::SeqCst) < (number + 1) * self.of {
            if !turn.goes_on() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

/// Errors in words.
trait Told<T> {
    fn told(self, what: impl Display) -> Result<T, Fault>;
}

impl<T> Told<T> for std::io::Result<T> {
    fn told(self, what: impl Display) -> Result<T, Fault> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}
