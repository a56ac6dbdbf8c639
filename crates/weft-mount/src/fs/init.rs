//! What the kernel and the mount agree on when it is mounted.

use super::{Body, Face};
use crate::abi::{self, Out};
use crate::device::DATA_MAX;
use weft_client::*;

/// Reads ahead, writes of dirty pages and releases that the kernel has in flight at a time, beside
/// those that a process waits for. At 1 MiB each they fill the network several times over.
pub const BACKGROUND_MAX: u16 = 64;

/// From here on the kernel calls the mount congested and throttles who dirties pages.
const CONGESTION: u16 = BACKGROUND_MAX / 4 * 3;

/// What the kernel may read ahead by itself, at most.
const READAHEAD_MAX: u32 = 16 << 20;

/// Features asked of the kernel where it has them. Not asked, with reason:
/// - WRITEBACK_CACHE, AUTO_INVAL_DATA: docs/decisions/0003-no-kernel-writeback.md.
/// - ATOMIC_O_TRUNC: a file would be emptied before the kernel finds that it is being executed, and
///   refuses to open it.
/// - DONT_MASK: without POSIX ACLs the kernel's own use of the umask is right.
/// - POSIX_ACL: Weft has none.
/// - NO_OPEN_SUPPORT: the client must know what is open, to keep unlinked files.
const WANTED: u64 = abi::init::ASYNC_READ
    | abi::init::POSIX_LOCKS
    | abi::init::EXPORT_SUPPORT
    | abi::init::BIG_WRITES
    | abi::init::FLOCK_LOCKS
    | abi::init::DO_READDIRPLUS
    | abi::init::READDIRPLUS_AUTO
    | abi::init::ASYNC_DIO
    | abi::init::PARALLEL_DIROPS
    | abi::init::MAX_PAGES
    | abi::init::CACHE_SYMLINKS
    | abi::init::EXPLICIT_INVAL_DATA
    | abi::init::HANDLE_KILLPRIV_V2
    | abi::init::INIT_EXT
    | abi::init::DIRECT_IO_ALLOW_MMAP;

impl Face {
    pub(super) fn init(&self, offer: &abi::InitIn) -> Result<Body> {
        if offer.major > abi::MAJOR {
            // The kernel asks again with the version it is told.
            return Ok(Out::default().u32(abi::MAJOR).u32(abi::MINOR).into());
        }
        if offer.major < abi::MAJOR || offer.minor < abi::MINOR_MIN {
            tracing::error!(
                major = offer.major,
                minor = offer.minor,
                "this kernel's FUSE is too old: Linux 5.4 is the oldest that is served"
            );
            return Err(Errno(libc::EPROTO));
        }
        let epochs = offer.minor >= abi::MINOR_EPOCH;
        self.kernel.set_epochs(epochs);
        self.departures.set_prunes(offer.minor >= abi::MINOR_PRUNE);
        let flags = offer.flags & WANTED;
        self.maps_uncached
            .set(flags & abi::init::DIRECT_IO_ALLOW_MMAP != 0);
        tracing::info!(
            minor = offer.minor,
            flags = format_args!("{flags:#x}"),
            epochs,
            "the kernel has taken up the mount"
        );
        let page = rustix::param::page_size();
        let mut out = Out::default()
            .u32(abi::MAJOR)
            .u32(offer.minor.min(abi::MINOR))
            .u32(offer.max_readahead.max(READAHEAD_MAX))
            .u32(flags as u32)
            .u16(BACKGROUND_MAX)
            .u16(CONGESTION)
            .u32(DATA_MAX as u32)
            // Times have nanoseconds.
            .u32(1)
            .u16((DATA_MAX / page) as u16)
            .u16(0)
            .u32((flags >> 32) as u32);
        for _ in 0..7 {
            out = out.u32(0);
        }
        Ok(out.into())
    }
}
