//! NFS gateways: what lies between calls and a file system.
//!
//! So far: file handles ([`Sealer`]), and the procedure tables of NFSv3, MOUNT and the port mapper, which decode
//! arguments, hand them to a trait and encode what comes back. No file system is behind them yet.

mod answer;
mod handle;
mod mount3;
mod nfs3;
mod portmap2;

pub use answer::Caller;
pub use handle::{
    FILE_HANDLE_BYTES, FileHandle, HANDLE_BYTES_MAX, HandleError, KEY_BYTES, KeyError, Kind,
    Opened, Rights, Sealer,
};
pub use mount3::{Export, Exports, Mount3};
pub use nfs3::{Nfs3, Procedures3};
pub use portmap2::{Portmap2, Served};
