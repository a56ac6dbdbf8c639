//! Open files: their bytes, and how the kernel is to treat them.

use super::{Body, Face};
use crate::abi::{self, Header, Out, fopen};
use crate::errno;
use crate::holds::PAGE;
use crate::translate::*;
use bytes::Bytes;
use std::time::Duration;
use weft_client::*;
use weft_env::Mono;

/// A read ahead that fails the kernel does again, page by page: within this time after one that had waited as long, it
/// is told the same at once. Or who reads would wait for servers that are away twice as long as the client's patience.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// How often a read is done again because its bytes were written meanwhile. After that its pages are
/// forgotten once it is answered.
const READ_AGAIN_MAX: usize = 8;

/// A READ of the kernel.
pub(super) struct ReadCall {
    pub fh: u64,
    pub offset: u64,
    pub size: usize,
    /// It fills pages of the kernel: no program is told its answer as it is.
    pub fills_pages: bool,
}

/// A WRITE of the kernel.
pub(super) struct WriteCall {
    pub fh: u64,
    pub offset: u64,
    pub flags: u32,
    pub open_flags: u32,
    pub data: Bytes,
}

impl Face {
    pub(super) async fn open(&self, header: &Header, flags: u32) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        let open = open_flags(flags);
        let handle = self
            .as_caller(
                header,
                |cred| async move { client.open(&cred, ino, open).await },
            )
            .await?;
        self.kernel.make_up_for(ino).await;
        let fopen = self.fopen_of(handle, ino, flags);
        Ok(Out::default().open_out(handle.0, fopen).into())
    }

    /// How the kernel is to treat a file that was just opened.
    fn fopen_of(&self, handle: HandleId, ino: u64, flags: u32) -> u32 {
        // The end of such a file moves under the kernel's cache (docs/protocols/kernel-cache.md).
        let is_written = self.uncached.borrow().is_appended(ino) || self.client.others_write(ino);
        let fopen = fopen_flags(flags, is_written && self.maps_uncached.get());
        if fopen & fopen::DIRECT_IO != 0 {
            let appends = (flags as i32 & libc::O_APPEND != 0).then_some(ino);
            self.uncached.borrow_mut().opened(handle.0, appends);
        }
        fopen
    }

    pub(super) async fn create(
        &self,
        header: &Header,
        name: &Bytes,
        flags: u32,
        mode: u32,
        kill_suidgid: bool,
    ) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let create = CreateFlags {
            exclusive: flags as i32 & libc::O_EXCL != 0,
            open: open_flags(flags),
        };
        let (mut known, handle) = self
            .as_caller(header, |cred| async move {
                client
                    .create(&cred, parent, name, mode & MODE_BITS, create)
                    .await
            })
            .await?;
        if kill_suidgid {
            known = match self.created_without_set_id(known.attr.ino).await {
                Ok(known) => known,
                Err(errno) => {
                    // The kernel takes it for not opened, and will not close it.
                    self.release(known.attr.ino, handle.0, None);
                    return Err(errno);
                }
            };
        }
        let name_leased = client.keeps_name(parent, name, known.attr.ino);
        let fopen = self.fopen_of(handle, known.attr.ino, flags);
        Ok(self
            .entry(&known, Some(self.name(parent, name)), name_leased)
            .open_out(handle.0, fopen)
            .into())
    }

    /// What is known of a file that was there already, after its set-id bits have gone.
    async fn created_without_set_id(&self, ino: u64) -> Result<Known> {
        self.kill_suidgid(ino).await?;
        self.client.getattr(ino).await
    }

    /// A file without a name: no name is leased, and nothing says that there is one.
    pub(super) async fn tmpfile(&self, header: &Header, flags: u32, mode: u32) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let (known, handle) = self
            .as_caller(header, |cred| async move {
                client
                    .create_unnamed(&cred, parent, mode & MODE_BITS, open_flags(flags))
                    .await
            })
            .await?;
        let fopen = self.fopen_of(handle, known.attr.ino, flags);
        Ok(self
            .entry(&known, None, false)
            .open_out(handle.0, fopen)
            .into())
    }

    pub(super) async fn read(&self, header: &Header, call: ReadCall) -> Result<Body> {
        let (began, fh) = (self.env.now(), call.fh);
        let gave_up = self.gave_up.borrow().get(&fh).copied();
        if gave_up.is_some_and(|at| began.since(at) < ASKED_AGAIN) {
            return Err(Errno(libc::EIO));
        }
        let read = self.read_bytes((header, began), call).await;
        let now = self.env.now();
        if matches!(read, Err(Errno(libc::EIO))) && now.since(began) >= ASKED_AGAIN {
            self.gave_up.borrow_mut().insert(fh, now);
        }
        read
    }

    async fn read_bytes(&self, (header, came): (&Header, Mono), call: ReadCall) -> Result<Body> {
        let ReadCall {
            fh, offset, size, ..
        } = call;
        let handle = HandleId(fh);
        let mut parts = self.client.read(handle, offset, size).await?;
        let mut again = READ_AGAIN_MAX;
        while self.kernel.take_outdated(header.node, header.unique) && again > 0 {
            parts = self.client.read(handle, offset, size).await?;
            again -= 1;
        }
        let length: usize = parts.iter().map(Bytes::len).sum();
        if call.fills_pages {
            let end = offset + length as u64;
            let is_short = length < size;
            // The kernel would show zeros up to the end that it has. What it reads ahead it reads again when it is refused.
            // What is one page, or may be one folio and was refused, it may be reading by itself.
            let was_refused = self.refused.borrow_mut().remove(&fh) == Some(offset);
            let may_be_folio = size.is_power_of_two() && offset.is_multiple_of(size as u64);
            let may_be_alone = size as u64 <= PAGE || may_be_folio && was_refused;
            if is_short && !may_be_alone && self.kernel.may_make_up(header.node, end, came) {
                self.refused.borrow_mut().insert(fh, offset);
                return Err(errno::READ_ANEW);
            }
            self.kernel.tells_bytes(header.node, end, is_short, came);
        }
        self.metrics.read_bytes.inc_by(length as u64);
        Ok(Body::Parts(parts))
    }

    pub(super) async fn write(
        &self,
        header: &Header,
        call: WriteCall,
        is_cached: bool,
    ) -> Result<Body> {
        let (ino, fh) = (header.node, HandleId(call.fh));
        if call.flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.lose_suidgid(ino).await?;
            if !is_cached {
                self.lose_capability(ino).await?;
            }
        }
        let (client, offset) = (&self.client, call.offset);
        // Others are not to be told of it before the kernel has no page of before.
        let overwriting = (!is_cached).then(|| self.kernel.overwrite(ino));
        let written = if call.flags & abi::WRITE_CACHE != 0 {
            // Dirty pages of a mapping.
            let length = client.write_mapped(fh, offset, call.data).await?;
            Written { offset, length }
        } else if call.open_flags as i32 & libc::O_APPEND != 0 {
            let written = client.append(fh, call.data).await?;
            if is_cached && written.offset != offset {
                // The kernel took another place for the end, and may have kept the bytes there.
                self.kernel.misplaced(ino);
            }
            written
        } else {
            let length = client.write(fh, offset, call.data, false).await?;
            Written { offset, length }
        };
        if overwriting.is_some() {
            let range = written.offset..written.offset + written.length as u64;
            self.kernel
                .forget_overwritten(ino, header.unique, range)
                .await;
        }
        self.kernel
            .tells_written(ino, written.offset + written.length as u64);
        let length = written.length as u32;
        self.metrics.written_bytes.inc_by(u64::from(length));
        Ok(Out::default().u32(length).u32(0).into())
    }

    /// The kernel closes a handle; `unlock` is the owner of an flock lock that goes with it.
    pub(super) fn release(&self, ino: u64, fh: u64, unlock: Option<u64>) {
        self.uncached.borrow_mut().closed(fh);
        self.gave_up.borrow_mut().remove(&fh);
        self.refused.borrow_mut().remove(&fh);
        let (client, owners) = (self.client.clone(), self.owners.released(fh));
        self.run(async move {
            for owner in owners {
                if let Err(errno) = client.drop_file_locks(ino, owner).await {
                    tracing::warn!(ino, %errno, "locks of a file description that is closed stay");
                }
            }
            if let Err(errno) = client.release(HandleId(fh), unlock).await {
                tracing::debug!(%errno, "a handle was released badly");
            }
        });
    }

    pub(super) async fn flush(&self, fh: u64, lock_owner: u64) -> Result<Body> {
        self.owners.flushed(fh, lock_owner);
        self.client.flush(HandleId(fh), Some(lock_owner)).await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn fallocate(
        &self,
        header: &Header,
        fh: u64,
        (offset, length): (u64, u64),
        mode: u32,
    ) -> Result<Body> {
        let mode = allocate(mode)?;
        self.changed_by(header, header.node).await?;
        let handle = HandleId(fh);
        self.client.fallocate(handle, mode, offset, length).await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn lseek(&self, fh: u64, offset: u64, whence: u32) -> Result<Body> {
        let whence = seek(whence)?;
        let found = self.client.seek(HandleId(fh), offset, whence).await?;
        Ok(Out::default().u64(found).into())
    }

    pub(super) async fn copy_file_range(
        &self,
        header: &Header,
        copy: &abi::CopyIn,
    ) -> Result<Body> {
        self.changed_by(header, copy.node_out).await?;
        let copied = self
            .client
            .copy_range(
                HandleId(copy.fh_in),
                copy.offset_in,
                HandleId(copy.fh_out),
                copy.offset_out,
                // The narrow answer has 32 bits.
                copy.length.min(if copy.wide {
                    u64::MAX
                } else {
                    u64::from(u32::MAX)
                }),
            )
            .await?;
        Ok(if copy.wide {
            Out::default().u64(copied)
        } else {
            Out::default().u32(copied as u32).u32(0)
        }
        .into())
    }
}
