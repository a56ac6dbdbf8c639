//! What `cargo xtask xdr` writes.

pub mod flexfiles;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod portmap2;
pub mod rpc;
