//! Starting and stopping a gateway.

use crate::delegations::{Delegations, PassedOn};
use crate::directories::Directories;
use crate::exports::{Export, Exports};
use crate::files::{Files, root};
use crate::handle::{KEY_BYTES, Sealer};
use crate::metrics::{self, Metrics};
use crate::mount::Mount;
use crate::portmap::Portmap;
use crate::replies::Replies;
use crate::settings::Settings;
use crate::status::Status;
use crate::v3::Nfs3;
use crate::v4::{self, Nfs4};
use crate::verifier::Verifier;
use bytes::Bytes;
use siphasher::sip::SipHasher13;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::rc::Rc;
use thiserror::Error;
use weft_client::{Client, ClientError, Cred, Errno, FileKind, XattrFlags};
use weft_env::Env;
use weft_oncrpc::{Limits, Program};
use weft_xdr::nfs3::nfsstat3;

/// The root directory's attribute that holds the key of all gateways: nobody but root reads such.
const KEY_ATTRIBUTE: &[u8] = b"trusted.weft.nfs";

/// The number of the first one.
const FIRST_KEY: u8 = 1;

/// Why a gateway does not start.
#[derive(Debug, Error)]
pub enum NfsError {
    /// Settings that make no sense; what to write instead.
    #[error("{0}")]
    Settings(String),
    /// The cluster cannot be joined.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The key of the cluster's gateways cannot be read or made.
    #[error(
        "the key of this cluster's gateways (attribute trusted.weft.nfs of the root directory): {0}"
    )]
    Key(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As the settings say.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// What all calls of a gateway share.
pub(crate) struct Shared {
    pub env: Env,
    pub client: Rc<Client>,
    pub exports: Exports,
    pub sealer: Sealer,
    pub files: Rc<Files>,
    pub directories: Rc<Directories>,
    pub delegations: Rc<Delegations>,
    pub replies: Replies,
    pub metrics: Metrics,
    pub verifier: Rc<Verifier>,
    /// Of the whole name space.
    pub fsid: u64,
    /// That is listened on.
    pub port: Cell<u16>,
    /// Who has said that he mounts what.
    pub mounts: RefCell<BTreeSet<(Bytes, Bytes)>>,
}

impl Shared {
    /// The directory of an export: an administrator has named it, and nobody else's rights matter.
    ///
    /// # Errors
    /// As [`Shared::walk`].
    pub(crate) async fn directory_of(&self, export: &Export) -> Result<u64, Status> {
        self.walk(&root(), self.client.root(), &export.path).await
    }

    /// The directory or file at the end of a way, as this user finds it. Symbolic links on it are not followed, and it
    /// leads downwards only.
    ///
    /// # Errors
    /// NOENT, NOTDIR, ACCES and others of a lookup.
    pub(crate) async fn walk(
        &self,
        cred: &Cred,
        from: u64,
        names: &[Vec<u8>],
    ) -> Result<u64, Status> {
        let mut at = from;
        for name in names {
            if name == b".." {
                return Err(Status(nfsstat3::NFS3ERR_ACCES));
            }
            let found = self.client.lookup(cred, at, name).await?;
            let entry = found.entry.ok_or(Status(nfsstat3::NFS3ERR_NOENT))?;
            at = entry.attr.ino;
            if entry.attr.kind() == FileKind::Symlink {
                return Err(Status(nfsstat3::NFS3ERR_NOTDIR));
            }
        }
        Ok(at)
    }
}

/// A gateway that serves.
pub struct Gateway {
    shared: Rc<Shared>,
    server: weft_oncrpc::Server,
}

/// Joins the cluster, and serves its exports.
///
/// # Errors
/// As [`NfsError`] says.
pub async fn start(env: Env, settings: Settings) -> Result<Gateway, NfsError> {
    settings.check().map_err(NfsError::Settings)?;
    let exports = Exports::of(&settings.exports).map_err(NfsError::Settings)?;
    let mut hasher = SipHasher13::new();
    hasher.write(settings.client.cluster_id.as_bytes());
    let (lease, address) = (settings.lease(), settings.listen);
    let metrics_address = settings.metrics_listen;
    let of_client = weft_client::Settings {
        // As long as a client may be silent; its locks and opens are kept for it if this gateway is no more.
        session_keep_ms: lease.as_millis() as u64,
        ..settings.client
    };
    let client = Rc::new(Client::connect(env.clone(), of_client).await?);
    let sealer = sealer(&env, &client).await?;
    let verifier = Rc::new(Verifier::new(&env));
    let delegations = Delegations::new(&env, &client);
    let state = v4::State::new(&env, (&client, &delegations), lease);
    client.set_invalidator(Rc::new(PassedOn {
        delegations: delegations.clone(),
        client: Rc::downgrade(&client),
        state: Rc::downgrade(&state),
    }));
    let shared = Rc::new(Shared {
        files: Files::new(&env, &client, &verifier),
        directories: Directories::new(&env, &client),
        delegations,
        replies: Replies::new(&env),
        metrics: Metrics::new(),
        sealer,
        fsid: hasher.finish(),
        port: Cell::default(),
        mounts: RefCell::default(),
        env: env.clone(),
        client,
        exports,
        verifier,
    });
    for export in shared.exports.all() {
        match shared.directory_of(export).await {
            Ok(ino) => export.root.set(ino),
            // It may be made later.
            Err(status) => {
                tracing::warn!(export = export.shown, ?status, "an export cannot be found");
            }
        }
    }
    if !metrics_address.is_empty()
        && let Err(source) = metrics::serve(&shared, &metrics_address).await
    {
        let address = metrics_address;
        return Err(NfsError::Listen { address, source });
    }
    let programs: Vec<Rc<dyn Program>> = vec![
        Rc::new(Nfs3(shared.clone())),
        Rc::new(Nfs4 {
            state,
            shared: shared.clone(),
        }),
        Rc::new(Mount(shared.clone())),
        Rc::new(Portmap(shared.clone())),
    ];
    let server = weft_oncrpc::serve(&env, &address, Limits::default(), programs).await;
    let server = server.map_err(|source| NfsError::Listen { address, source })?;
    let port = server
        .address()
        .rsplit_once(':')
        .map(|(_, port)| port.parse());
    shared
        .port
        .set(port.and_then(Result::ok).unwrap_or_default());
    tracing::info!(address = server.address(), "serving");
    Ok(Gateway { shared, server })
}

/// The keys that an attribute holds: of each its number, and it. The last one seals.
fn keys_of(value: &[u8]) -> Result<Sealer, String> {
    let (keys, rest) = value.as_chunks::<{ 1 + KEY_BYTES }>();
    if !rest.is_empty() {
        return Err(format!("it has {} bytes, which are no keys", value.len()));
    }
    let keys: Vec<(u8, [u8; KEY_BYTES])> = keys
        .iter()
        .map(|[number, key @ ..]| (*number, *key))
        .collect();
    Sealer::new(&keys).map_err(|error| error.to_string())
}

/// The keys of the cluster's gateways; who comes first draws one.
async fn sealer(env: &Env, client: &Client) -> Result<Sealer, NfsError> {
    let (ino, cred) = (client.root(), root());
    loop {
        match client.getxattr(&cred, ino, KEY_ATTRIBUTE).await {
            Ok(value) => {
                return keys_of(&value).map_err(|why| {
                    NfsError::Key(format!(
                        "{why}. Remove the attribute to have a key drawn: then all clients have to mount again"
                    ))
                });
            }
            Err(Errno(libc::ENODATA)) => {}
            Err(errno) => return Err(NfsError::Key(errno.to_string())),
        }
        let drawn = (0..KEY_BYTES / 8).flat_map(|_| env.random().to_be_bytes());
        let value: Vec<u8> = std::iter::once(FIRST_KEY).chain(drawn).collect();
        let set = client.setxattr(&cred, ino, KEY_ATTRIBUTE, value.into(), XattrFlags::Create);
        match set.await {
            // Another gateway may have been faster: it is read in any case.
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return Err(NfsError::Key(errno.to_string())),
        }
    }
}

impl Gateway {
    /// The address that is listened on, with the real port.
    pub fn address(&self) -> &str {
        self.server.address()
    }

    /// The client behind it.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Ends: what clients have written is on the data servers, if they answer.
    pub async fn stop(self) {
        self.server.stop();
        if let Err(errno) = self.shared.client.close().await {
            tracing::warn!(%errno, "not all that was written could be written back: clients that have not committed it write it again");
        }
    }
}
