//! The client library: what every face (FUSE, gateways, bindings, tools) uses.
//!
//! A [`Client`] is a session with each group of the metadata service and connections to the data servers. It
//! caches names, attributes and layouts under leases (`docs/protocols/leases.md`), buffers writes
//! under write leases and flushes them to the pairs (`docs/protocols/a-write.md`), and goes on when
//! a server dies: the application sees a pause, at most `patience_ms` long, then EIO.
//!
//! Single-threaded and `!Send`, over weft-env, so that the simulator runs the same code. Every
//! future may be dropped at any point: what was begun is then finished or forgotten, never left
//! half done.

mod access;
mod alone;
mod announced;
mod api;
mod attrs;
mod behalf;
mod bounds;
mod changes;
mod copies;
mod core;
mod departed;
mod dirops;
mod dirs;
mod doubts;
mod expiring;
mod extents;
mod file;
mod handles;
mod held;
mod keeping;
mod late;
mod leases;
mod locks;
mod lookup;
mod mapped;
mod moved;
mod moving;
mod names;
mod node;
mod owed;
mod pairs;
mod readahead;
mod reads;
mod revoke;
mod session;
mod sessions;
mod settings;
mod slots;
mod sparse;
mod spread;
mod to_the_end;
mod turns;
mod types;
#[cfg(feature = "measuring")]
mod unkept;
mod unnamed;
mod unstable;
mod window;
mod writeback;
mod written;

pub use api::{Believed, Client, ClientError};
pub use moving::Moved;
pub use settings::Settings;
pub use types::*;
