//! NFS gateways: servers that any unmodified NFS client can mount, in front of one cluster. Each serves some of the
//! clients; all show the same, for each is a client of the metadata service like any mount
//! (`docs/protocols/gateway.md`).

mod attributes;
mod caller;
mod delegations;
mod directories;
mod exports;
mod files;
mod gateway;
mod handle;
mod inodes;
mod io;
mod metrics;
mod mount;
mod portmap;
mod replies;
mod run;
mod settings;
mod status;
mod v3;
mod v4;
mod verifier;

pub use gateway::{Gateway, NfsError, start};
pub use handle::{
    FILE_HANDLE_BYTES, FileHandle, HANDLE_BYTES_MAX, HandleError, KEY_BYTES, KeyError, Kind,
    Opened, Rights, Sealer,
};
pub use settings::{ExportSettings, Rule, Settings, Squash};
