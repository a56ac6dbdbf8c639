//! `weft bench stream`: one client of the benchmark of CEFT's figure 7, without a mount.
//!
//! It opens a file through the client library, writes or reads its part of it, closes it, and says
//! how long each step took. Between getting ready and the first step it waits for a line on
//! standard input, so that whoever measures many clients can let all of them go at the same time.

use super::measure::own_cpu;
use super::{noise, stock_settings, wait_for_a_line};
use crate::config::load;
use crate::error::{Error, Result};
use crate::output::say;
use crate::policy::ProtocolName;
use bytes::Bytes;
use clap::Args;
use futures_util::future::{Either, select};
use serde_json::json;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, Errno, HandleId, OpenFlags, Settings};
use weft_env::{Env, Mono};

/// How often it is looked whether all that was written has been answered. Far less than the
/// transfer takes, and a rounding error to the processor.
const LOOK: Duration = Duration::from_millis(1);

/// Bytes of a call may not be more: it is held in memory whole.
const RECORD_MAX: u64 = 64 << 20;

/// One client without a mount. Prints `ready`, waits for a line on standard input, opens the file,
/// writes or reads, closes it, and prints one JSON object: seconds of each step, and the processor
/// time of the process.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("cluster").required(true).args(["config", "meta"]))]
#[command(group = clap::ArgGroup::new("direction").required(true).args(["write", "read"]))]
pub struct StreamOptions {
    /// A mount's configuration: its cluster and its client's settings are used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Addresses (host:port) of metadata servers.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    meta: Vec<String>,
    /// The file, from the root of the cluster. Made, with its directories, where it is to be written.
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
    /// Write this many bytes.
    #[arg(long, value_name = "BYTES")]
    write: Option<u64>,
    /// Read this many bytes.
    #[arg(long, value_name = "BYTES")]
    read: Option<u64>,
    /// Begin at this byte of the file.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: u64,
    /// Bytes of each write or read.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    record: u64,
    /// Before it is ready: give the file's directory this protocol.
    #[arg(long, value_enum)]
    protocol: Option<ProtocolName>,
    /// fsync before the close.
    #[arg(long)]
    sync: bool,
    /// Remove the file afterwards, when the times are taken.
    #[arg(long)]
    remove: bool,
    /// Write, or read, the same bytes so many times.
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// After each so many milliseconds print a JSON object: the bytes that have been answered.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
}

/// What is done to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Read,
}

/// Where the file is: names of directories, and its own.
struct Place {
    directories: Vec<Vec<u8>>,
    name: Vec<u8>,
}

impl Place {
    fn of(path: &Path) -> Result<Place> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                std::path::Component::RootDir => {}
                std::path::Component::Normal(name) => names.push(name.as_bytes().to_vec()),
                _ => {
                    return Err(Error::Usage(format!(
                        "--file {}: give the path from the root of the cluster, without . and ..",
                        path.display()
                    )));
                }
            }
        }
        let name = names
            .pop()
            .ok_or_else(|| Error::Usage("--file: name a file, not the root".into()))?;
        Ok(Place {
            directories: names,
            name,
        })
    }
}

/// Seconds of each step.
struct Times {
    open: f64,
    transfer: f64,
    close: f64,
}

/// Runs `weft bench stream`.
///
/// # Errors
/// If the cluster cannot be reached, refuses, or the file ends before all was read.
pub async fn run(env: Env, options: StreamOptions) -> Result<()> {
    let place = Place::of(&options.file)?;
    let (direction, bytes) = match (options.write, options.read) {
        (Some(bytes), _) => (Direction::Write, bytes),
        (None, bytes) => (Direction::Read, bytes.unwrap_or_default()),
    };
    if bytes == 0 || options.record == 0 || options.record > RECORD_MAX {
        return Err(Error::Usage(format!(
            "--write, --read and --record must not be 0, and --record not more than {RECORD_MAX}"
        )));
    }
    let end = options
        .offset
        .checked_add(bytes)
        .filter(|&end| i64::try_from(end).is_ok())
        .ok_or_else(|| Error::Usage("--offset: the file would be too long".into()))?;
    let settings = settings(&env, &options).await?;
    let client = Client::connect(env.clone(), settings)
        .await
        .map_err(|error| Error::Unreachable(error.to_string()))?;
    let stream = Stream {
        env,
        client,
        path: options.file.clone(),
        record: options.record,
        range: (options.offset, end),
        times: options.times,
        moved: Cell::new(0),
    };
    let done = stream.run(&options, &place, direction).await;
    let closing = stream.env.now();
    let closed = stream.client.close().await;
    let times = done?;
    closed.map_err(|errno| stream.refused("the end of the session", errno))?;
    // The second copies that an asynchronous protocol owed are made by now.
    let settled = seconds(closing, stream.env.now());
    say!(
        "{}",
        json!({
            "bytes": bytes.saturating_mul(options.times),
            "open_s": times.open,
            "transfer_s": times.transfer,
            "close_s": times.close,
            "total_s": times.open + times.transfer + times.close,
            "settle_s": settled,
            "cpu_s": own_cpu(),
        })
    )
}

/// What a client alone reaches that writes a file (with fsync), and another that reads it: bytes a second. The file is
/// removed again. For `weft bench net`.
///
/// # Errors
/// As [`run`].
pub async fn reached(env: &Env, meta: &[String], bytes: u64) -> Result<(f64, f64)> {
    let name = format!("weft-bench.{}", std::process::id());
    let place = Place::of(Path::new(&name))?;
    let write = reached_by(env, meta, bytes, &place, Direction::Write).await?;
    // By another client: this one has the file in its memory.
    let read = reached_by(env, meta, bytes, &place, Direction::Read).await;
    Ok((write, read?))
}

async fn reached_by(
    env: &Env,
    meta: &[String],
    bytes: u64,
    place: &Place,
    direction: Direction,
) -> Result<f64> {
    let settings = stock_settings(env, meta, "weft bench net").await?;
    let client = Client::connect(env.clone(), settings).await;
    let stream = Stream {
        env: env.clone(),
        client: client.map_err(|error| Error::Unreachable(error.to_string()))?,
        path: PathBuf::from(String::from_utf8_lossy(&place.name).as_ref()),
        record: 1 << 20,
        range: (0, bytes),
        times: 1,
        moved: Cell::new(0),
    };
    let directory = stream.client.root();
    let moving = async {
        let begun = stream.env.now();
        let handle = stream.open(place, directory, direction).await?;
        let moved = match direction {
            Direction::Write => stream.write(handle, true).await,
            Direction::Read => stream.read(handle).await,
        };
        let closed = stream.close(handle).await;
        moved.and(closed)?;
        Ok(seconds(begun, stream.env.now()))
    };
    let moved = moving.await;
    if direction == Direction::Read || moved.is_err() {
        let removed = stream.client.unlink(&root(), directory, &place.name).await;
        // What failed before says more than that nothing was there to remove.
        if moved.is_ok() {
            removed.map_err(|errno| stream.refused("remove", errno))?;
        }
    }
    let closed = stream.client.close().await;
    let took = moved?;
    closed.map_err(|errno| stream.refused("the end of the session", errno))?;
    Ok(bytes as f64 / took)
}

async fn settings(env: &Env, options: &StreamOptions) -> Result<Settings> {
    if let Some(path) = &options.config {
        let mount: weft_mount::Settings = load(path)?;
        return Ok(mount.client);
    }
    stock_settings(env, &options.meta, "weft bench stream").await
}

fn seconds(from: Mono, to: Mono) -> f64 {
    to.0.saturating_sub(from.0) as f64 / 1e9
}

/// Whoever runs the benchmark made the cluster for it.
fn root() -> Cred {
    Cred::default()
}

struct Stream {
    env: Env,
    client: Client,
    path: PathBuf,
    record: u64,
    /// First byte and the one after the last.
    range: (u64, u64),
    times: u64,
    /// Bytes read, or given to the library to write.
    moved: Cell<u64>,
}

impl Stream {
    fn refused(&self, what: &str, errno: Errno) -> Error {
        Error::Failed(format!(
            "{}: {what}: {}",
            self.path.display(),
            std::io::Error::from_raw_os_error(errno.0)
        ))
    }

    async fn run(
        &self,
        options: &StreamOptions,
        place: &Place,
        direction: Direction,
    ) -> Result<Times> {
        let directory = self.directory(place, direction).await?;
        if let Some(protocol) = options.protocol {
            self.set_protocol(directory, protocol).await?;
        }
        say!("ready")?;
        wait_for_a_line().await?;
        let start = self.env.now();
        let handle = self.open(place, directory, direction).await?;
        let opened = self.env.now();
        let moving = async {
            match direction {
                Direction::Write => self.write(handle, options.sync).await,
                Direction::Read => self.read(handle).await,
            }
        };
        match options.every {
            Some(every) => {
                let telling = pin!(self.tell(Duration::from_millis(every)));
                match select(pin!(moving), telling).await {
                    Either::Left((moved, _)) | Either::Right((moved, _)) => moved?,
                }
            }
            None => moving.await?,
        }
        let moved = self.env.now();
        self.close(handle).await?;
        let closed = self.env.now();
        if options.remove {
            self.client
                .unlink(&root(), directory, &place.name)
                .await
                .map_err(|errno| self.refused("remove", errno))?;
        }
        Ok(Times {
            open: seconds(start, opened),
            transfer: seconds(opened, moved),
            close: seconds(moved, closed),
        })
    }

    /// The file's directory. A writer makes what is missing; others may do so at the same time.
    async fn directory(&self, place: &Place, direction: Direction) -> Result<u64> {
        let mut at = self.client.root();
        for name in &place.directories {
            if direction == Direction::Write {
                match self.client.mkdir(&root(), at, name, 0o777).await {
                    Ok(made) => {
                        at = made.attr.ino;
                        continue;
                    }
                    Err(Errno(libc::EEXIST)) => {}
                    Err(errno) => return Err(self.refused("make its directory", errno)),
                }
            }
            at = self.entry(at, name).await?;
        }
        Ok(at)
    }

    async fn entry(&self, directory: u64, name: &[u8]) -> Result<u64> {
        let found = self.client.lookup(&root(), directory, name).await;
        found
            .and_then(|found| found.entry.ok_or(Errno(libc::ENOENT)))
            .map(|known| known.attr.ino)
            .map_err(|errno| self.refused("look it up", errno))
    }

    async fn set_protocol(&self, directory: u64, protocol: ProtocolName) -> Result<()> {
        let protocol = protocol.to_proto();
        let set = async {
            let mut policy = self.client.policy(directory).await?;
            policy.set_protocol(protocol);
            self.client.set_policy(&root(), directory, policy).await
        };
        set.await.map_err(|errno| self.refused("--protocol", errno))
    }

    async fn open(&self, place: &Place, directory: u64, direction: Direction) -> Result<HandleId> {
        let refused = |errno| self.refused("open", errno);
        let open = OpenFlags {
            read: direction == Direction::Read,
            write: direction == Direction::Write,
            ..OpenFlags::default()
        };
        if direction == Direction::Read {
            let ino = self.entry(directory, &place.name).await?;
            return self.client.open(&root(), ino, open).await.map_err(refused);
        }
        let flags = CreateFlags {
            exclusive: false,
            open,
        };
        let created = self
            .client
            .create(&root(), directory, &place.name, 0o644, flags)
            .await;
        created.map(|(_, handle)| handle).map_err(refused)
    }

    /// Ends when all is answered as the file's protocol says, not when it lies in this process's
    /// memory: the clients of the paper have no write buffer.
    async fn write(&self, handle: HandleId, sync: bool) -> Result<()> {
        let refused = |errno| self.refused("write", errno);
        for time in 0..self.times {
            // Other bytes each time, and in each process: what is the same need not be recovered.
            let seed = (u64::from(std::process::id()) << 32) + self.range.0 + 2 * time;
            let record = Bytes::from(noise(self.record as usize, seed));
            let (mut at, end) = self.range;
            while at < end {
                let length = self.record.min(end - at);
                let data = record.slice(..length as usize);
                let written = self.client.write(handle, at, data, false).await;
                let written = written.map_err(refused)? as u64;
                at += written;
                self.moved.set(self.moved.get() + written);
            }
            // Sends what is left of the last stripe unit. Before the next time: nothing is replaced before
            // it was sent.
            self.client.flush(handle, None).await.map_err(refused)?;
            while !self.is_answered() {
                self.env.sleep(LOOK).await;
            }
        }
        if sync {
            let synced = self.client.fsync(handle, false).await;
            synced.map_err(|errno| self.refused("fsync", errno))?;
        }
        Ok(())
    }

    /// Every byte is where its protocol lets the writer go on. Where that is one data server, the
    /// library keeps the byte until the second has it too.
    fn is_answered(&self) -> bool {
        self.unanswered() == 0
    }

    /// Bytes that no data server is known to have.
    fn unanswered(&self) -> u64 {
        let figures = self.client.figures();
        figures.buffered_bytes.saturating_sub(figures.owed_bytes)
    }

    async fn read(&self, handle: HandleId) -> Result<()> {
        for _ in 0..self.times {
            self.read_once(handle).await?;
        }
        Ok(())
    }

    async fn read_once(&self, handle: HandleId) -> Result<()> {
        let (mut at, end) = self.range;
        while at < end {
            let length = self.record.min(end - at) as usize;
            let parts = self.client.read(handle, at, length).await;
            let parts = parts.map_err(|errno| self.refused("read", errno))?;
            let got: usize = parts.iter().map(Bytes::len).sum();
            if got == 0 {
                return Err(Error::Failed(format!(
                    "{} ends at byte {at}; write it first, or read less than {}",
                    self.path.display(),
                    end - self.range.0
                )));
            }
            at += got as u64;
            self.moved.set(self.moved.get() + got as u64);
        }
        Ok(())
    }

    /// Says again and again how much is done. Ends only if that cannot be said.
    async fn tell(&self, every: Duration) -> Result<()> {
        loop {
            self.env.sleep(every).await;
            let moved = self.moved.get().saturating_sub(self.unanswered());
            say!("{}", json!({ "moved": moved }))?;
        }
    }

    async fn close(&self, handle: HandleId) -> Result<()> {
        let flushed = self.client.flush(handle, None).await;
        let released = self.client.release(handle, None).await;
        flushed
            .and(released)
            .map_err(|errno| self.refused("close", errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_from_the_root() {
        for path in ["/a/b/c", "a/b/c", "a/./b//c"] {
            let place = Place::of(Path::new(path)).unwrap();
            assert_eq!(place.directories, [b"a".to_vec(), b"b".to_vec()], "{path}");
            assert_eq!(place.name, b"c");
        }
        for wrong in ["/", "", "../a", "a/.."] {
            assert!(Place::of(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
