//! Cleans up after a bed, even when the chore that made it is killed.
//!
//! The chore starts a keeper before it makes anything: itself again, in a session of its own, with
//! a pipe as standard input whose other end only the chore holds. However the chore ends, the pipe
//! ends with it, and the keeper ends the processes in the bed's name spaces, unmounts what is
//! mounted below the bed's directory, and removes both.

use crate::run::{Outcome, quiet};
use crate::spaces;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What all beds' name spaces begin with; the chore's pid follows.
pub const PREFIX: &str = "weft-bed-";
/// Servers that do not end by then are killed: nothing of a bed is kept.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// What a keeper is told when it is started.
#[derive(clap::Args, Clone)]
pub struct Kept {
    /// What the name spaces begin with.
    #[arg(long)]
    prefix: String,
    /// The bed's directory.
    #[arg(long)]
    directory: PathBuf,
}

/// A running keeper. Dropping it removes the bed.
pub struct Keeper {
    kept: Kept,
    child: Child,
}

impl Keeper {
    /// Starts it. `directory` is made.
    ///
    /// # Errors
    /// In words.
    pub fn start(prefix: &str, directory: &Path) -> Result<Keeper, String> {
        let io = |error: std::io::Error| format!("cannot start the bed's keeper: {error}");
        let mut command = Command::new(std::env::current_exe().map_err(io)?);
        command
            .args(["testbed", "keep", "--prefix", prefix, "--directory"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        // SAFETY: setsid is async-signal-safe and touches no memory.
        unsafe {
            command.pre_exec(|| {
                // Not reached by Ctrl-C, nor by the end of the terminal.
                if libc::setsid() < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(io)?;
        let keeper = Keeper {
            kept: Kept {
                prefix: prefix.to_owned(),
                directory: directory.to_owned(),
            },
            child,
        };
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(keeper)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Err(why) = sweep(&self.kept) {
            eprintln!("{why}");
        }
        // It finds nothing left to do.
        drop(self.child.stdin.take());
        let _: std::io::Result<_> = self.child.wait();
    }
}

/// The keeper's process.
///
/// # Errors
/// What it could not remove.
pub fn keep(kept: &Kept) -> Outcome {
    // What a name begins with decides what is removed.
    if !kept.prefix.starts_with(PREFIX) {
        return Err(format!("--prefix must begin with {PREFIX}"));
    }
    let mut rest = Vec::new();
    // An error ends the wait like the end of the pipe.
    let _: std::io::Result<usize> = std::io::stdin().read_to_end(&mut rest);
    let swept = sweep(kept);
    if let Err(why) = &swept {
        // The terminal may be gone.
        let _: std::io::Result<()> = writeln!(std::io::stderr(), "{why}");
    }
    swept
}

fn sweep(kept: &Kept) -> Outcome {
    // Names of another bed may begin with this bed's pid.
    let own = format!("{}-", kept.prefix);
    let removed = spaces::remove(&spaces::with_prefix(&own), END_PATIENCE);
    let below = mounted_below(&kept.directory)?;
    for point in &below {
        quiet(Command::new("umount").arg("-l").arg(point))?;
    }
    // Never through a mount.
    if mounted_below(&kept.directory)?.is_empty() && kept.directory.exists() {
        std::fs::remove_dir_all(&kept.directory)
            .map_err(|error| format!("{} stays: {error}", kept.directory.display()))?;
    }
    removed
}

/// Mount points in the directory, the innermost first.
pub fn mounted_below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")
        .map_err(|error| format!("cannot read the table of mounts: {error}"))?;
    let mut points: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        // Our own directories have no blanks, which stand there as octal digits.
        .map(PathBuf::from)
        .filter(|point| point.starts_with(directory))
        .collect();
    points.sort();
    points.reverse();
    Ok(points)
}

/// Removes beds whose chore and keeper are both gone.
pub fn sweep_orphans() {
    let orphans: Vec<String> = spaces::with_prefix(PREFIX)
        .into_iter()
        .filter(|name| {
            let pid = name[PREFIX.len()..].split('-').next().unwrap_or_default();
            !pid.is_empty() && !Path::new("/proc").join(pid).exists()
        })
        .collect();
    if !orphans.is_empty()
        && let Err(why) = spaces::remove(&orphans, END_PATIENCE)
    {
        // Its keeper may be at it at this moment.
        eprintln!("of a former bed: {why}");
    }
}
