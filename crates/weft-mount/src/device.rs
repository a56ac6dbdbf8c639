//! The kernel's FUSE device: requests in, replies and notifications out.
//!
//! Read without blocking on the client's own thread: a request costs no hand-over between threads
//! (docs/decisions/0002-fuse-library.md has the figures). The kernel's queue is the queue: it is
//! bounded by the processes that wait and by [`crate::fs::BACKGROUND_MAX`], and nothing is read
//! that is not begun at once.
//!
//! Like the mount itself this is a door of its own beside weft-env: no simulation has a kernel.

use crate::abi::{self, Call, Header};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Largest data of one WRITE and READ. Linux allows no more by default (fs.fuse.max_pages_limit).
pub const DATA_MAX: usize = 1 << 20;

/// What is read at once: the largest request, and room for its header.
const BUFFER_BYTES: usize = DATA_MAX + 4096;

/// A WRITE with at least this many bytes keeps the buffer it was read into, instead of being
/// copied. Half of the largest, so that data that waits in the client's write buffer holds at most
/// twice its size.
const KEEP_BYTES: usize = DATA_MAX / 2;

/// Buffers that wait to be used again. More than a few would only be memory: what counts is that a
/// sequential writer finds one whose pages are there already.
const BUFFERS_MAX: usize = 24;

/// A request, or the end of the mount, which the kernel signals as an error.
const INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);

/// Most parts of one reply (IOV_MAX is 1024; the header takes one).
const PARTS_MAX: usize = 1000;

/// One request as read.
pub struct Request {
    /// Its header.
    pub header: Header,
    /// What is asked.
    pub call: Result<Call, abi::Malformed>,
}

/// The reading end. One per mount, on the client's thread.
pub struct Device {
    fd: AsyncFd<Arc<OwnedFd>>,
    buffer: BytesMut,
    /// Buffers handed out with the data of WRITEs; used again once the data is dropped.
    lent: VecDeque<Bytes>,
}

/// The writing end. Never blocks for replies; notifications may, see `invalidate.rs`.
#[derive(Clone)]
pub struct Writer(Arc<OwnedFd>);

impl Device {
    /// Takes the descriptor of a mount, which must not block.
    ///
    /// # Errors
    /// If it cannot be watched.
    pub fn new(fd: OwnedFd) -> io::Result<Device> {
        let fd = Arc::new(fd);
        // SAFETY: the descriptor is owned by the Arc, which always names the same open one and
        // outlives its registration inside the AsyncFd.
        let fd = unsafe { AsyncFd::register_with_interest(fd, INTEREST)? };
        Ok(Device {
            fd,
            buffer: BytesMut::new(),
            lent: VecDeque::new(),
        })
    }

    /// The writing end.
    pub fn writer(&self) -> Writer {
        Writer(self.fd.get_ref().clone())
    }

    /// Waits until [`Device::try_next`] is worth trying.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn readable(&self) -> io::Result<()> {
        self.fd.ready(INTEREST).await?.retain_ready();
        Ok(())
    }

    /// The next request; None if there is none now.
    ///
    /// # Errors
    /// ENODEV once the file system is unmounted; anything else is a broken device.
    pub fn try_next(&mut self) -> io::Result<Option<Request>> {
        self.prepare_buffer();
        let fd = self.fd.get_ref().as_fd();
        let length = loop {
            match rustix::io::read(fd, &mut self.buffer[..]) {
                Ok(length) => break length,
                // ENOENT: the request was taken back while it was read.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    // Only clears the readiness that was seen; a request that came since sets it
                    // again. One interest at a time: joined ones have no readiness to clear, and
                    // the loop would spin.
                    for interest in [Interest::READABLE, Interest::ERROR] {
                        let _ = self
                            .fd
                            .try_io(interest, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    }
                    return Ok(None);
                }
                Err(errno) => return Err(errno.into()),
            }
        };
        Ok(Some(self.decode(length)?))
    }

    fn decode(&mut self, length: usize) -> io::Result<Request> {
        let message = &self.buffer[..length];
        let header = Header::decode(message)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let payload_at = abi::IN_HEADER + abi::WRITE_IN;
        if header.opcode == abi::opcode::WRITE && length >= payload_at + KEEP_BYTES {
            let mut data = std::mem::take(&mut self.buffer).freeze();
            self.lend(data.clone());
            data.truncate(length);
            let body = data.slice(abi::IN_HEADER..payload_at);
            data.advance(payload_at);
            let call = Call::decode(&header, &body, Some(data));
            return Ok(Request { header, call });
        }
        let call = Call::decode(&header, &message[abi::IN_HEADER..], None);
        Ok(Request { header, call })
    }

    fn lend(&mut self, buffer: Bytes) {
        if self.lent.len() < BUFFERS_MAX {
            self.lent.push_back(buffer);
        }
    }

    /// Makes sure that the buffer has its full length: a returned one if there is any.
    fn prepare_buffer(&mut self) {
        if self.buffer.len() == BUFFER_BYTES {
            return;
        }
        // Writers give buffers back in about the order in which they got them.
        for _ in 0..self.lent.len() {
            let Some(front) = self.lent.pop_front() else {
                break;
            };
            match front.try_into_mut() {
                Ok(buffer) => {
                    self.buffer = buffer;
                    return;
                }
                Err(busy) => self.lent.push_back(busy),
            }
            if self.lent.len() < BUFFERS_MAX {
                break;
            }
        }
        self.buffer = BytesMut::zeroed(BUFFER_BYTES);
    }
}

impl Writer {
    /// Answers a request. `error` 0 or a positive errno. ENOENT: nobody waits for it any more.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn reply(&self, unique: u64, error: i32, body: &[u8]) -> io::Result<()> {
        let header = abi::out_header(unique, error, body.len());
        self.write(&[IoSlice::new(&header), IoSlice::new(body)])
    }

    /// Answers a READ with its parts, without joining them.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn reply_parts(&self, unique: u64, parts: &[Bytes]) -> io::Result<()> {
        if parts.len() > PARTS_MAX {
            return self.reply(unique, 0, &parts.concat());
        }
        let total = parts.iter().map(Bytes::len).sum();
        let header = abi::out_header(unique, 0, total);
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&header));
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        self.write(&slices)
    }

    /// Voids the attributes of an inode and its pages in a range of bytes. Waits for pages that are
    /// locked: never call it on the client's thread.
    ///
    /// # Errors
    /// ENOENT: the kernel does not have the inode.
    pub fn invalidate_inode(&self, ino: u64, pages: Option<Range<u64>>) -> io::Result<()> {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&ino.to_ne_bytes());
        // A negative offset leaves the pages alone; length 0 means to the end.
        let (offset, length) = match pages {
            None => (-1, 0),
            Some(range) if range.end > i64::MAX as u64 => (range.start as i64, 0),
            Some(range) => (range.start as i64, (range.end - range.start) as i64),
        };
        body[8..16].copy_from_slice(&offset.to_ne_bytes());
        body[16..].copy_from_slice(&length.to_ne_bytes());
        let header = abi::notify_header(abi::NOTIFY_INVAL_INODE, body.len());
        self.write(&[IoSlice::new(&header), IoSlice::new(&body)])
    }

    /// Voids all names that the kernel has looked up until now. Takes no lock.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn increment_epoch(&self) -> io::Result<()> {
        let header = abi::notify_header(abi::NOTIFY_INC_EPOCH, 0);
        self.write(&[IoSlice::new(&header)])
    }

    /// Has the kernel drop the names of inodes that nobody uses, and with the last name the inode: it is forgotten then.
    /// Takes locks of names only, but may wait for an inode's pages: never call it on the client's thread.
    ///
    /// # Errors
    /// EINVAL: the kernel does not know that.
    pub fn prune(&self, inos: &[u64]) -> io::Result<()> {
        let mut body = vec![0; 16 + 8 * inos.len()];
        body[..4].copy_from_slice(&(inos.len() as u32).to_ne_bytes());
        for (at, ino) in body[16..].chunks_exact_mut(8).zip(inos) {
            at.copy_from_slice(&ino.to_ne_bytes());
        }
        let header = abi::notify_header(abi::NOTIFY_PRUNE, body.len());
        self.write(&[IoSlice::new(&header), IoSlice::new(&body)])
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        loop {
            // The kernel takes a message whole or not at all.
            match rustix::io::writev(&*self.0, parts) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Once all is read, the loop sleeps until there is more: it must not spin.
    #[test]
    fn an_empty_device_is_waited_for() {
        weft_env::real::run(|env| async move {
            let (kernel, ours) = rustix::net::socketpair(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::SEQPACKET,
                rustix::net::SocketFlags::NONBLOCK,
                None,
            )
            .unwrap();
            let mut device = Device::new(ours).unwrap();
            let quiet = Duration::from_millis(20);
            for _ in 0..2 {
                assert!(env.timeout(quiet, device.readable()).await.is_err());
                let request = {
                    let mut message = vec![0; abi::IN_HEADER];
                    message[0] = message.len() as u8;
                    message[4] = abi::opcode::INIT as u8;
                    message
                };
                rustix::io::write(&kernel, &request).unwrap();
                env.timeout(Duration::from_secs(5), device.readable())
                    .await
                    .unwrap()
                    .unwrap();
                assert!(device.try_next().unwrap().is_some());
                assert!(device.try_next().unwrap().is_none());
            }
        })
        .unwrap();
    }
}
