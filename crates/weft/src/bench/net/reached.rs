//! What Weft reaches: measured here by a mount or as a client without one, or as it was given.

use super::WeftOptions;
use crate::bench::{Scratch, drop_caches, noise, stock_settings, stream};
use crate::error::{Error, Result, Tried};
use crate::mounts;
use crate::policy::protocol_name;
use crate::tool::connect_first;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use weft_client::Client;
use weft_env::Env;
use weft_probe::limit::Shape;
use weft_wire::proto::Protocol;

/// What is written and read at a time, as `cp` does about.
const RECORD: usize = 1 << 20;

/// Bytes a second, and in which cluster.
pub struct Reached {
    /// Written.
    pub write: Option<f64>,
    /// Read.
    pub read: Option<f64>,
    /// Of what.
    pub shape: Shape,
}

enum Way {
    /// Bytes a second, given.
    Given(Option<f64>, Option<f64>),
    /// By a directory on a mount.
    Mount(PathBuf),
    /// By the library, from these metadata servers.
    Library(Vec<String>),
}

/// What is to be set beside the network.
pub struct Subject {
    way: Way,
    bytes: u64,
    shape: Shape,
}

impl Subject {
    /// None if nothing was said of Weft.
    ///
    /// # Errors
    /// If the cluster does not answer, the directory is not on a mount of it, or what is asked does not go together.
    pub async fn of(env: &Env, options: &WeftOptions) -> Result<Option<Subject>> {
        let cluster = &options.cluster;
        let (way, meta) = if let Some(directory) = &options.mount {
            let (mount, _) = mounts::of_path(directory)?;
            (Way::Mount(directory.clone()), mount.meta_addresses())
        } else if cluster.meta.is_some() || cluster.dir.is_some() {
            let meta = cluster.meta_addresses()?;
            (Way::Library(meta.clone()), meta)
        } else if options.writes.is_some() || options.reads.is_some() {
            (Way::Given(options.writes, options.reads), Vec::new())
        } else {
            return Ok(None);
        };
        if !matches!(way, Way::Given(..)) && options.clients > 1 {
            return Err(Error::Usage(
                "what is measured here is what one client reaches: give what --clients reach with --writes and --reads"
                    .into(),
            ));
        }
        let pairs = match options.pairs {
            Some(pairs) => pairs,
            None => pairs_of(env, &meta).await?,
        };
        let protocol = match options.protocol {
            Some(protocol) => protocol.to_proto(),
            None if meta.is_empty() => Protocol::ServerSync,
            None => protocol_of(env, &meta).await?,
        };
        let shape = Shape {
            pairs,
            clients: options.clients,
            client_driven: is_client_driven(protocol, pairs, options.clients),
        };
        tracing::debug!(protocol = protocol_name(protocol), pairs, "the cluster");
        Ok(Some(Subject {
            way,
            bytes: options.size << 20,
            shape,
        }))
    }

    /// Measures it, or takes what was given.
    ///
    /// # Errors
    /// If a file cannot be written, read or removed.
    pub async fn measure(self, env: &Env) -> Result<Reached> {
        let (write, read) = match self.way {
            Way::Given(write, read) => (write, read),
            Way::Mount(directory) => {
                let (write, read) = by_mount(&directory, self.bytes)?;
                (Some(write), Some(read))
            }
            Way::Library(meta) => {
                let (write, read) = stream::reached(env, &meta, self.bytes).await?;
                (Some(write), Some(read))
            }
        };
        Ok(Reached {
            write,
            read,
            shape: self.shape,
        })
    }
}

async fn pairs_of(env: &Env, meta: &[String]) -> Result<u32> {
    let status = connect_first(env, meta).await?.status().await?;
    match u32::try_from(status.pairs.len()) {
        Ok(pairs @ 1..) => Ok(pairs),
        _ => Err(Error::Unsound(
            "the cluster has no pairs of data servers".into(),
        )),
    }
}

/// The policy of the root: what files are written with where no directory says otherwise.
async fn protocol_of(env: &Env, meta: &[String]) -> Result<Protocol> {
    let settings = stock_settings(env, meta, "weft bench net").await?;
    let client = Client::connect(env.clone(), settings).await;
    let client = client.map_err(|error| Error::Unreachable(error.to_string()))?;
    let policy = client.policy(client.root()).await;
    let closed = client.close().await;
    let policy = policy.and_then(|policy| closed.map(|()| policy));
    let policy = policy.map_err(|errno| Error::Io {
        what: "cannot ask for the policy of the root".into(),
        source: io::Error::from_raw_os_error(errno.0),
    })?;
    Ok(policy.protocol())
}

/// Each byte crosses the writing client's link twice.
fn is_client_driven(protocol: Protocol, pairs: u32, clients: u32) -> bool {
    match protocol {
        Protocol::ClientSync | Protocol::ClientAsync => true,
        Protocol::ServerSync | Protocol::ServerAsync | Protocol::Unspecified => false,
        Protocol::Hybrid => clients >= pairs,
    }
}

/// Writes a file with fsync, and reads it when it is in no cache of this node any more.
fn by_mount(directory: &Path, bytes: u64) -> Result<(f64, f64)> {
    let scratch = Scratch::new(directory)?;
    let path = scratch.0.join("net");
    let block = noise(RECORD, 1);
    let timed = |work: &dyn Fn() -> io::Result<()>| -> io::Result<f64> {
        let begun = Instant::now();
        work()?;
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    };
    let writing = || {
        let mut file = File::create(&path)?;
        let records = bytes.div_ceil(RECORD as u64);
        (0..records).try_for_each(|_| file.write_all(&block))?;
        file.sync_all()
    };
    let write = timed(&writing).tried_on("cannot write", &path)?;
    forget(&path).tried_on("cannot forget what is cached of", &path)?;
    let reading = || {
        let (mut file, mut buffer) = (File::open(&path)?, vec![0; RECORD]);
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    };
    let read = timed(&reading).tried_on("cannot read", &path)?;
    Ok((write, read))
}

/// Takes a file out of this node's page cache; of all others too, where we may.
fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    drop_caches();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_the_second_copy_is_the_protocols_matter() {
        let driven = |protocol, clients| is_client_driven(protocol, 4, clients);
        for protocol in [Protocol::ServerSync, Protocol::ServerAsync] {
            assert!(!driven(protocol, 1) && !driven(protocol, 100));
        }
        for protocol in [Protocol::ClientSync, Protocol::ClientAsync] {
            assert!(driven(protocol, 1) && driven(protocol, 100));
        }
        assert!(!driven(Protocol::Hybrid, 3));
        assert!(driven(Protocol::Hybrid, 4));
    }
}
