//! Clients that write files: by NFS version 3, each over a connection of its own to a gateway, or on a mount.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use weft_oncrpc::{Connection, Credential, Limits};
use weft_xdr::mount3::{MOUNTPROC3_MNT, mountres3};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::authsys_parms;

/// WRITEs of a client that are on their way at a time.
const IN_FLIGHT: usize = 8;

/// What each client writes: so many bytes, in so many files.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Of all files together.
    pub bytes: u64,
    pub files: u64,
    /// Of one WRITE.
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
    fn pieces(self, file: u64) -> impl Iterator<Item = (u64, usize)> {
        let (bytes, piece) = (self.of_file(file), self.piece);
        let count = bytes.div_ceil(piece);
        (0..count).map(move |at| (at * piece, piece.min(bytes - at * piece) as usize))
    }
}

/// Where a client writes.
#[derive(Clone, Debug)]
pub enum Way {
    Gateway(SocketAddr),
    Mount(PathBuf),
}

/// All clients begin at the same time; how long the slowest takes until all is kept. Each has a new directory of this
/// name, with its number behind.
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
                let (ready, name) = (&ready, format!("{name}-{number}"));
                scope.spawn(move || match way {
                    Way::Gateway(address) => by_gateway(*address, &name, amount, || {
                        ready.wait();
                        Ok(())
                    }),
                    Way::Mount(mount) => on_mount(&mount.join(name), amount, ready),
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

fn on_mount(directory: &Path, amount: Amount, ready: &Barrier) -> Result<Duration, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let made = fs::create_dir(directory);
    let piece = vec![7; amount.piece as usize];
    ready.wait();
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

/// Writes by a gateway, in a new directory, once `ready` has returned; how long that takes.
///
/// # Errors
/// What the client was told.
pub fn by_gateway(
    address: SocketAddr,
    directory: &str,
    amount: Amount,
    ready: impl FnOnce() -> Result<(), String>,
) -> Result<Duration, String> {
    let ran = weft_env::real::run(|env| async move {
        let client = Client::connect(&env, address, directory).await;
        ready()?;
        let client = client?;
        let begin = Instant::now();
        for number in 0..amount.files {
            client.write_file(number, amount).await?;
        }
        Ok(begin.elapsed())
    });
    ran.map_err(|error| error.to_string())?
}

/// A client of one gateway.
struct Client {
    connection: Connection,
    user: Credential,
    directory: nfs_fh3,
}

impl Client {
    /// Connected, with a directory of its own.
    async fn connect(
        env: &weft_env::Env,
        address: SocketAddr,
        directory: &str,
    ) -> Result<Client, String> {
        let failed = |why: String| format!("gateway {address}: {why}");
        let named = address.to_string();
        let connecting = Connection::connect(env, &named, Limits::default(), Vec::new());
        let connection = connecting
            .await
            .map_err(|error| failed(error.to_string()))?;
        let user = Credential::Sys(authsys_parms {
            stamp: 0,
            machinename: Bytes::from_static(b"bench"),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        });
        let mounted = connection
            .call::<MOUNTPROC3_MNT>(&user, &Bytes::from_static(b"/"))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let root = match mounted {
            mountres3::MNT3_OK(mounted) => nfs_fh3 {
                data: mounted.fhandle,
            },
            mountres3::default(why) => return Err(failed(format!("MNT: {why:?}"))),
        };
        let make = MKDIR3args {
            r#where: diropargs3 {
                dir: root,
                name: directory.to_owned().into(),
            },
            attributes: mode(0o755),
        };
        let made = connection
            .call::<NFSPROC3_MKDIR>(&user, &make)
            .await
            .map_err(|error| failed(error.to_string()))?;
        match made {
            MKDIR3res::NFS3_OK(made) => Ok(Client {
                connection,
                user,
                directory: made.obj.ok_or_else(|| failed("no handle".into()))?,
            }),
            MKDIR3res::default(why, _) => Err(failed(format!("MKDIR: {why:?}"))),
        }
    }

    /// As a kernel does it: CREATE, WRITEs beside one another, COMMIT.
    async fn write_file(&self, number: u64, amount: Amount) -> Result<(), String> {
        let failed = |error: weft_oncrpc::CallError| format!("file {number}: {error}");
        let create = CREATE3args {
            r#where: diropargs3 {
                dir: self.directory.clone(),
                name: number.to_string().into(),
            },
            how: createhow3::GUARDED(mode(0o644)),
        };
        let made = self.connection.call::<NFSPROC3_CREATE>(&self.user, &create);
        let file = match made.await.map_err(failed)? {
            CREATE3res::NFS3_OK(made) => made.obj.ok_or("no handle")?,
            CREATE3res::default(why, _) => return Err(format!("CREATE: {why:?}")),
        };
        let piece = Bytes::from(vec![7; amount.piece as usize]);
        let writes = amount.pieces(number).map(|(offset, bytes)| {
            let write = WRITE3args {
                file: file.clone(),
                offset,
                count: bytes as u32,
                stable: stable_how::UNSTABLE,
                data: piece.slice(..bytes),
            };
            async move {
                let written = self.connection.call::<NFSPROC3_WRITE>(&self.user, &write);
                match written.await.map_err(failed)? {
                    WRITE3res::NFS3_OK(written) if written.count as usize == bytes => {
                        Ok(written.verf)
                    }
                    other => Err(format!("WRITE of {bytes} bytes at {offset}: {other:?}")),
                }
            }
        });
        let writes = stream::iter(writes).buffer_unordered(IN_FLIGHT);
        let verifiers: Vec<[u8; 8]> = writes.try_collect().await?;
        let commit = COMMIT3args {
            file: file.clone(),
            offset: 0,
            count: 0,
        };
        let kept = self.connection.call::<NFSPROC3_COMMIT>(&self.user, &commit);
        match kept.await.map_err(failed)? {
            COMMIT3res::NFS3_OK(kept) if verifiers.iter().all(|its| *its == kept.verf) => Ok(()),
            other => Err(format!("COMMIT: {other:?}")),
        }
    }
}

fn mode(mode: u32) -> sattr3 {
    sattr3 {
        mode: Some(mode),
        uid: None,
        gid: None,
        size: None,
        atime: set_atime::default(time_how::DONT_CHANGE),
        mtime: set_mtime::default(time_how::DONT_CHANGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_in_the_files() {
        for (bytes, files) in [(50_000_000, 1), (50_000_000, 128), (7, 3), (8192, 1)] {
            let piece = 4096;
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
