//! ONC remote procedure calls (RFC 5531) over weft-env's streams, as NFS clients speak them.
//!
//! A [`Connection`] is one task. It reads records, hands calls to [`Program`]s, which answer at once or later and in
//! any order, and writes what is answered with one `writev` for many replies. Both sides may call: the callbacks of
//! NFSv4 go over the connection that the client made. `docs/protocols/nfs.md` follows one call.
//!
//! What a call means is the programs' affair; nothing here knows NFS.

mod connection;
mod limits;
mod message;
mod outgoing;
mod pool;
mod program;
mod record;
mod server;

pub use connection::{CallError, Connection};
pub use limits::Limits;
pub use message::{Credential, HeaderError, header_of};
pub use pool::Pool;
pub use program::{Call, Incoming, Payload, Program, Refusal, Replier};
pub use record::{Record, RecordError, Records};
pub use server::{Server, serve};
