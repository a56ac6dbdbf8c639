//! A client of NFS version 3, over connections of its own: calls as kernels make them, against whatever server.

use super::writers::Amount;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::net::SocketAddr;
use weft_oncrpc::{CallError, Connection, Credential, Limits};
use weft_xdr::Procedure;
use weft_xdr::mount3::{MOUNTPROC3_MNT, mountres3};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::authsys_parms;

/// Bytes of a READ, and of a WRITE unless said otherwise.
pub const PIECE: u64 = 256 << 10;
/// READs or WRITEs of a client that are on their way at a time.
const IN_FLIGHT: usize = 8;
/// Bytes of a page of a listing: what Linux asks for.
const PAGE_BYTES: u32 = 1 << 20;
/// GETATTRs on their way at a time for entries of a listing that came without attributes.
const GETATTRS_IN_FLIGHT: usize = 64;
/// Pages of one listing at most: a server that never says that it has ended has failed.
const PAGES_MAX: usize = 100_000;

/// What is served where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub nfs: SocketAddr,
    /// Where MOUNT is asked.
    pub mount: SocketAddr,
    pub path: String,
    /// The network name space in which these addresses are, if it is not ours.
    pub space: Option<String>,
}

impl Export {
    /// Everything, by a gateway.
    pub fn of_gateway(address: SocketAddr) -> Export {
        Export {
            nfs: address,
            mount: address,
            path: "/".into(),
            space: None,
        }
    }
}

/// A listing with attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Entries, `.` and `..` among them.
    pub entries: usize,
    /// Of which attributes had to be asked for one by one.
    pub asked: usize,
    /// READDIRPLUS calls.
    pub pages: usize,
}

/// A client of one export.
pub struct Client {
    connection: Connection,
    user: Credential,
    pub root: nfs_fh3,
}

impl Client {
    /// Mounts.
    ///
    /// # Errors
    /// If nobody answers there, or refuses.
    pub async fn connect(env: &weft_env::Env, export: &Export) -> Result<Client, String> {
        let connect = async |address: SocketAddr| {
            let named = address.to_string();
            let connecting = Connection::connect(env, &named, Limits::default(), Vec::new());
            let connected = connecting.await;
            connected.map_err(|error| format!("NFS server {address}: {error}"))
        };
        let user = Credential::Sys(authsys_parms {
            stamp: 0,
            machinename: Bytes::from_static(b"bench"),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        });
        let connection = connect(export.nfs).await?;
        let mounting = match export.mount == export.nfs {
            true => connection.clone(),
            false => connect(export.mount).await?,
        };
        let path = Bytes::copy_from_slice(export.path.as_bytes());
        let mounted = mounting.call::<MOUNTPROC3_MNT>(&user, &path).await;
        let mounted = mounted.map_err(|error| format!("MNT at {}: {error}", export.mount))?;
        let root = match mounted {
            mountres3::MNT3_OK(mounted) => nfs_fh3 {
                data: mounted.fhandle,
            },
            mountres3::default(why) => {
                return Err(format!(
                    "MNT of {} at {}: {why:?}",
                    export.path, export.mount
                ));
            }
        };
        Ok(Client {
            connection,
            user,
            root,
        })
    }

    async fn call<P: Procedure>(
        &self,
        what: &str,
        arguments: &P::Arguments,
    ) -> Result<P::Results, String> {
        let called = self.connection.call::<P>(&self.user, arguments).await;
        called.map_err(|error: CallError| format!("{what}: {error}"))
    }

    /// MKDIR.
    ///
    /// # Errors
    /// What the server said.
    pub async fn make_directory(&self, dir: &nfs_fh3, name: &str) -> Result<nfs_fh3, String> {
        let make = MKDIR3args {
            r#where: place(dir, name),
            attributes: mode(0o755),
        };
        match self.call::<NFSPROC3_MKDIR>(name, &make).await? {
            MKDIR3res::NFS3_OK(made) => match made.obj {
                Some(made) => Ok(made),
                None => self.lookup(dir, name).await,
            },
            MKDIR3res::default(why, _) => Err(format!("MKDIR of {name}: {why:?}")),
        }
    }

    /// CREATE of a file that is not there.
    ///
    /// # Errors
    /// What the server said.
    pub async fn create(&self, dir: &nfs_fh3, name: &str) -> Result<nfs_fh3, String> {
        let create = CREATE3args {
            r#where: place(dir, name),
            how: createhow3::GUARDED(mode(0o644)),
        };
        match self.call::<NFSPROC3_CREATE>(name, &create).await? {
            CREATE3res::NFS3_OK(made) => match made.obj {
                Some(made) => Ok(made),
                None => self.lookup(dir, name).await,
            },
            CREATE3res::default(why, _) => Err(format!("CREATE of {name}: {why:?}")),
        }
    }

    /// LOOKUP.
    ///
    /// # Errors
    /// What the server said.
    pub async fn lookup(&self, dir: &nfs_fh3, name: &str) -> Result<nfs_fh3, String> {
        let what = LOOKUP3args {
            what: place(dir, name),
        };
        match self.call::<NFSPROC3_LOOKUP>(name, &what).await? {
            LOOKUP3res::NFS3_OK(found) => Ok(found.object),
            LOOKUP3res::default(why, _) => Err(format!("LOOKUP of {name}: {why:?}")),
        }
    }

    /// GETATTR.
    ///
    /// # Errors
    /// What the server said.
    pub async fn getattr(&self, object: &nfs_fh3) -> Result<fattr3, String> {
        let object = GETATTR3args {
            object: object.clone(),
        };
        match self.call::<NFSPROC3_GETATTR>("GETATTR", &object).await? {
            GETATTR3res::NFS3_OK(found) => Ok(found.obj_attributes),
            GETATTR3res::default(why) => Err(format!("GETATTR: {why:?}")),
        }
    }

    /// As a kernel writes a new file: CREATE, WRITEs beside one another, COMMIT.
    ///
    /// # Errors
    /// What the server said.
    pub async fn write_file(
        &self,
        dir: &nfs_fh3,
        number: u64,
        amount: Amount,
    ) -> Result<(), String> {
        let name = number.to_string();
        let file = self.create(dir, &name).await?;
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
                match self.call::<NFSPROC3_WRITE>("WRITE", &write).await? {
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
        match self.call::<NFSPROC3_COMMIT>("COMMIT", &commit).await? {
            COMMIT3res::NFS3_OK(kept) if verifiers.iter().all(|its| *its == kept.verf) => Ok(()),
            other => Err(format!("COMMIT of file {name}: {other:?}")),
        }
    }

    /// READs beside one another, to the end.
    ///
    /// # Errors
    /// What the server said, or if a READ tells less than there is.
    pub async fn read_file(&self, file: &nfs_fh3) -> Result<u64, String> {
        let size = self.getattr(file).await?.size;
        let reads = (0..size.div_ceil(PIECE)).map(|at| {
            let offset = at * PIECE;
            let read = READ3args {
                file: file.clone(),
                offset,
                count: PIECE.min(size - offset) as u32,
            };
            async move {
                match self.call::<NFSPROC3_READ>("READ", &read).await? {
                    READ3res::NFS3_OK(found) if found.data.len() == read.count as usize => {
                        Ok(found.data.len() as u64)
                    }
                    READ3res::NFS3_OK(found) => Err(format!(
                        "READ of {} bytes at {offset}: {} came",
                        read.count,
                        found.data.len()
                    )),
                    READ3res::default(why, _) => Err(format!("READ at {offset}: {why:?}")),
                }
            }
        });
        // As they were sent: a reader of a file looks ahead, and no further.
        let reads = stream::iter(reads).buffered(IN_FLIGHT);
        reads.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await
    }

    /// What `ls -l` does by a kernel: READDIRPLUS to the end, and GETATTR for what came without attributes.
    ///
    /// # Errors
    /// What the server said.
    pub async fn list(&self, dir: &nfs_fh3) -> Result<Listed, String> {
        let (mut listed, mut cookie, mut cookieverf) = (Listed::default(), 0, [0; 8]);
        for _ in 0..PAGES_MAX {
            let page = READDIRPLUS3args {
                dir: dir.clone(),
                cookie,
                cookieverf,
                dircount: PAGE_BYTES,
                maxcount: PAGE_BYTES,
            };
            let page = match self
                .call::<NFSPROC3_READDIRPLUS>("READDIRPLUS", &page)
                .await?
            {
                READDIRPLUS3res::NFS3_OK(page) => page,
                READDIRPLUS3res::default(why, _) => return Err(format!("READDIRPLUS: {why:?}")),
            };
            let (entries, eof) = (page.reply.entries, page.reply.eof);
            cookieverf = page.cookieverf;
            listed.pages += 1;
            listed.entries += entries.len();
            match entries.last() {
                Some(last) => cookie = last.cookie,
                None if eof => {}
                None => return Err("READDIRPLUS: a page of nothing that is not the last".into()),
            }
            listed.asked += self.ask_for_attributes(dir, entries).await?;
            if eof {
                return Ok(listed);
            }
        }
        Err(format!("READDIRPLUS: no end after {PAGES_MAX} pages"))
    }

    /// How many attributes were missing.
    async fn ask_for_attributes(
        &self,
        dir: &nfs_fh3,
        entries: Vec<entryplus3>,
    ) -> Result<usize, String> {
        let missing = entries
            .into_iter()
            .filter(|it| it.name_attributes.is_none());
        let asking = missing.map(|entry| async move {
            let object = match entry.name_handle {
                Some(object) => object,
                None => {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    self.lookup(dir, &name).await?
                }
            };
            self.getattr(&object).await.map(|_| 1)
        });
        let asking = stream::iter(asking).buffer_unordered(GETATTRS_IN_FLIGHT);
        asking.try_fold(0, async |sum, one| Ok(sum + one)).await
    }
}

fn place(dir: &nfs_fh3, name: &str) -> diropargs3 {
    diropargs3 {
        dir: dir.clone(),
        name: name.to_owned().into(),
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
