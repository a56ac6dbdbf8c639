//! Clients that write files: by NFS version 3, each over a connection of its own, or on a mount.

use super::nfs::{Client, Export};
use crate::spaces;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What each client writes: so many bytes, in so many files.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Of all files together.
    pub bytes: u64,
    pub files: u64,
    /// Bytes of each WRITE, and of each write on a mount.
    pub piece: u64,
}

impl Amount {
    /// Bytes of each file but for the last, which has what remains.
    fn of_file(self, file: u64) -> u64 {
        let each = self.bytes / self.files;
        match file + 1 == self.files {
            true => self.bytes - each * file,
            false => each,
        }
    }

    /// Where pieces of a file begin, and their bytes.
    pub fn pieces(self, file: u64) -> impl Iterator<Item = (u64, usize)> {
        let (bytes, piece) = (self.of_file(file), self.piece);
        let count = bytes.div_ceil(piece);
        (0..count).map(move |at| (at * piece, piece.min(bytes - at * piece) as usize))
    }
}

/// Where a client writes.
#[derive(Clone, Debug)]
pub enum Way {
    Nfs(Export),
    Mount(PathBuf),
}

/// Of a client, in a run of this name.
pub fn directory(name: &str, client: usize) -> String {
    format!("{name}-{client}")
}

/// All clients begin at the same time; how long the slowest takes until all is kept. Each has a new directory of its own
/// ([`directory`]).
///
/// # Errors
/// What a client was told.
pub fn write(ways: &[Way], name: &str, amount: Amount) -> Result<Duration, String> {
    let ready = Barrier::new(ways.len());
    let times: Vec<Result<Duration, String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = ways
            .iter()
            .enumerate()
            .map(|(number, way)| {
                let (ready, name) = (&ready, directory(name, number));
                scope.spawn(move || match way {
                    Way::Nfs(export) => by_nfs(export, &name, amount, || {
                        ready.wait();
                        Ok(())
                    }),
                    Way::Mount(mount) => on_mount(&mount.join(name), amount, || {
                        ready.wait();
                    }),
                })
            })
            .collect();
        let joined = clients.into_iter().map(|client| client.join());
        joined
            .map(|done| done.map_err(|_| "a client panicked".to_owned())?)
            .collect()
    });
    let times: Result<Vec<Duration>, String> = times.into_iter().collect();
    Ok(times?.into_iter().max().unwrap_or_default())
}

/// Writes on a mount, in a new directory, once `ready` has returned; how long that takes.
///
/// # Errors
/// What the system said.
pub fn on_mount(
    directory: &Path,
    amount: Amount,
    ready: impl FnOnce(),
) -> Result<Duration, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let made = fs::create_dir(directory);
    let piece = vec![7; amount.piece as usize];
    ready();
    made.map_err(failed)?;
    let begin = Instant::now();
    for number in 0..amount.files {
        let mut file = File::create_new(directory.join(number.to_string())).map_err(failed)?;
        for (_, bytes) in amount.pieces(number) {
            file.write_all(&piece[..bytes]).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
    }
    Ok(begin.elapsed())
}

/// Writes by NFS, in a new directory, once `ready` has returned; how long that takes. Its thread is in the export's
/// name space from here on.
///
/// # Errors
/// What the client was told.
pub fn by_nfs(
    export: &Export,
    directory: &str,
    amount: Amount,
    ready: impl FnOnce() -> Result<(), String>,
) -> Result<Duration, String> {
    let entered = export.space.as_deref().map_or(Ok(()), spaces::enter);
    let ran = weft_env::real::run(|env| async move {
        let made = async {
            entered?;
            let client = Client::connect(&env, export).await?;
            let directory = client.make_directory(&client.root, directory).await?;
            Ok::<_, String>((client, directory))
        };
        let made = made.await;
        // Or the others would wait for this one for ever.
        ready()?;
        let (client, directory) = made?;
        let begin = Instant::now();
        for number in 0..amount.files {
            client.write_file(&directory, number, amount).await?;
        }
        Ok(begin.elapsed())
    });
    ran.map_err(|error| error.to_string())?
}

/// Does something with an export, on a thread of its own; how long it says that it took.
///
/// # Errors
/// What it was told.
pub fn with_client<T: Send>(
    export: &Export,
    work: impl AsyncFnOnce(Client) -> Result<T, String> + Send,
) -> Result<T, String> {
    let run = || {
        export.space.as_deref().map_or(Ok(()), spaces::enter)?;
        let ran = weft_env::real::run(|env| async move {
            let client = Client::connect(&env, export).await?;
            work(client).await
        });
        ran.map_err(|error| error.to_string())?
    };
    let done = std::thread::scope(|scope| scope.spawn(run).join());
    done.map_err(|_| "a client panicked".to_owned())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_in_the_files() {
        let piece = 1 << 16;
        for (bytes, files) in [(50_000_000, 1), (50_000_000, 128), (7, 3), (piece * 2, 1)] {
            let amount = Amount {
                bytes,
                files,
                piece,
            };
            let of_file = |file| {
                amount
                    .pieces(file)
                    .map(|(_, bytes)| bytes as u64)
                    .sum::<u64>()
            };
            assert_eq!((0..files).map(of_file).sum::<u64>(), bytes);
        }
    }
}
