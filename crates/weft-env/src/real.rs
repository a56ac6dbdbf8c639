//! The real world: tokio's single-threaded runtime, sockets and files of the operating system.

use crate::{
    DirItem, Driver, Env, File, FileDriver, Listener, ListenerDriver, Lock, Mono, OpenMode,
    SpaceReport, Stream, StreamDriver, TaskDriver, Wall, private,
};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Writes of at least this many bytes leave the owner loop's thread: copying them into the page
/// cache takes longer than the hand-over (about 20 us), and a device that is behind would stop the
/// loop and with it the beats that keep the server in service.
const OFFLOAD_BYTES: usize = 128 << 10;

/// Runs `main` to its end on this thread, in an environment that is the real one.
///
/// # Errors
/// If the operating system refuses an event queue.
pub fn run<F: Future>(main: impl FnOnce(Env) -> F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let env = Env::new(RealDriver::new()?);
    let output = local.block_on(&runtime, main(env));
    // Blocking work may hang with its device; the process must end all the same.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(output)
}

struct RealDriver {
    origin: Instant,
    random: RefCell<Drawn>,
}

impl RealDriver {
    #[allow(clippy::disallowed_methods)]
    fn new() -> io::Result<RealDriver> {
        let mut random = Drawn::default();
        random.draw()?;
        Ok(RealDriver {
            origin: Instant::now(),
            random: RefCell::new(random),
        })
    }
}

/// Words drawn at a time: so many bytes the kernel gives whole and at once, always, when it has given some before.
const WORDS: usize = 32;

/// Random words of the operating system. Keys and verifiers are made of them, and some of them are told to others: who
/// knows all that were used knows nothing of the next.
#[derive(Default)]
struct Drawn {
    words: [u64; WORDS],
    left: usize,
}

impl Drawn {
    fn draw(&mut self) -> io::Result<()> {
        let bytes = size_of_val(&self.words);
        // SAFETY: the words are valid for writes of their length, and any bytes are words.
        let got = unsafe { libc::getrandom(self.words.as_mut_ptr().cast(), bytes, 0) };
        if got != bytes as isize {
            return Err(io::Error::last_os_error());
        }
        self.left = WORDS;
        Ok(())
    }

    fn next(&mut self) -> io::Result<u64> {
        if self.left == 0 {
            self.draw()?;
        }
        self.left -= 1;
        // Not left behind in memory.
        Ok(std::mem::take(&mut self.words[self.left]))
    }
}

struct RealTask(tokio::task::JoinHandle<()>);

impl TaskDriver for RealTask {
    fn abort(&self) {
        self.0.abort();
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

#[allow(clippy::disallowed_methods)]
impl Driver for RealDriver {
    fn now(&self) -> Mono {
        Mono(self.origin.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> Wall {
        let now = SystemTime::now();
        Wall(match now.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        })
    }

    fn random(&self) -> u64 {
        match self.random.borrow_mut().next() {
            Ok(word) => word,
            Err(error) => {
                // The kernel has given some at the start, and does not take that back. A server that went on would have
                // guessable keys.
                tracing::error!(%error, "the operating system gives no random bytes any more");
                std::process::abort()
            }
        }
    }

    fn boot(&self) -> u64 {
        // A few bytes that the kernel makes up: no reason for another thread.
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        match id.len() {
            0 => 0,
            _ => id.iter().fold(0xcbf2_9ce4_8422_2325, hash).max(1),
        }
    }

    fn files_max(&self) -> usize {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let files = limit.current.unwrap_or(u64::MAX);
        usize::try_from(files).unwrap_or(usize::MAX)
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed_local()
    }

    fn spawn(&self, _name: &'static str, task: LocalBoxFuture<'static, ()>) -> Box<dyn TaskDriver> {
        Box::new(RealTask(tokio::task::spawn_local(task)))
    }

    fn connect(&self, address: String) -> LocalBoxFuture<'static, io::Result<Stream>> {
        async move {
            let stream = tokio::net::TcpStream::connect(&address).await?;
            prepare(&stream)?;
            Ok(Box::new(RealStream {
                stream,
                peer: address,
            }) as Stream)
        }
        .boxed_local()
    }

    fn listen(&self, address: String) -> LocalBoxFuture<'static, io::Result<Listener>> {
        async move {
            let listener = tokio::net::TcpListener::bind(&address).await?;
            Ok(Box::new(RealListener(listener)) as Listener)
        }
        .boxed_local()
    }

    fn open(&self, path: PathBuf, mode: OpenMode) -> LocalBoxFuture<'static, io::Result<File>> {
        let open = move || {
            // Who only reads makes nothing, and may follow links: settings are often behind one.
            let mut options = match mode {
                OpenMode::Read => std::fs::OpenOptions::new(),
                _ => private::options(),
            };
            options.read(true);
            match mode {
                OpenMode::Read => {}
                OpenMode::Write => {
                    options.write(true);
                }
                OpenMode::Create => {
                    options.write(true).create(true).truncate(false);
                }
                OpenMode::CreateEmpty => {
                    options.write(true).create(true).truncate(true);
                }
            }
            let file = private::open(&options, &path)?;
            Ok(File::new(RealFile::new(file)))
        };
        std::future::ready(open()).boxed_local()
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirItem>> {
        let mut items = Vec::new();
        for item in std::fs::read_dir(path)? {
            let item = item?;
            // Weft's own files have ASCII names; anything else in the directory is not ours.
            if let Ok(name) = item.file_name().into_string() {
                items.push(DirItem {
                    name,
                    is_dir: item.file_type()?.is_dir(),
                });
            }
        }
        items.sort();
        Ok(items)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        private::create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> LocalBoxFuture<'static, io::Result<()>> {
        let path = path.to_owned();
        offload(move || std::fs::File::open(path)?.sync_all()).boxed_local()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut options = private::options();
        options.write(true).create(true).truncate(false);
        locked(private::open(&options, path)?)
    }

    fn lock_dir(&self, path: &Path) -> io::Result<Lock> {
        locked(std::fs::File::open(path)?)
    }

    fn close_to_others(&self, path: &Path) -> io::Result<bool> {
        private::close_dir(path)
    }

    fn space(&self, path: &Path) -> io::Result<SpaceReport> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(SpaceReport {
            total: stat.f_blocks * stat.f_frsize,
            free: stat.f_bavail * stat.f_frsize,
        })
    }
}

fn locked(file: std::fs::File) -> io::Result<Lock> {
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(Lock::new(file))
}

/// Runs blocking work on a thread of its own kind.
#[allow(clippy::disallowed_methods)]
async fn offload<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => Err(io::Error::other(failed)),
    }
}

struct RealFile {
    file: Arc<std::fs::File>,
    /// Held by the large write that is with a thread. The kernel lets one write to a file at a time,
    /// and threads that wait for that burn the processor that the others need.
    writing: Rc<tokio::sync::Mutex<()>>,
}

impl RealFile {
    fn new(file: std::fs::File) -> RealFile {
        RealFile {
            file: Arc::new(file),
            writing: Rc::default(),
        }
    }
}

impl FileDriver for RealFile {
    fn read_at(&self, offset: u64, length: usize) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let file = self.file.clone();
        // What the page cache holds is read at once; only what would wait for the device leaves the
        // thread.
        let (mut buffer, mut result) = read_cached(&file, offset, length);
        if matches!(result, Ok(got) if got == length) {
            return std::future::ready(Ok(buffer.freeze())).boxed_local();
        }
        if matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            result = Ok(0);
        }
        async move {
            let got = match result {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            offload(move || {
                buffer.resize(length, 0);
                let mut filled = got;
                while filled < length {
                    match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                        Ok(0) => break,
                        Ok(n) => filled += n,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                buffer.truncate(filled);
                Ok(buffer.freeze())
            })
            .await
        }
        .boxed_local()
    }

    fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> LocalBoxFuture<'static, io::Result<()>> {
        let file = self.file.clone();
        let total: usize = parts.iter().map(Bytes::len).sum();
        if total < OFFLOAD_BYTES {
            return std::future::ready(write_all_at(&file, offset, parts)).boxed_local();
        }
        let writing = self.writing.clone();
        async move {
            let _turn = writing.lock().await;
            offload(move || write_all_at(&file, offset, parts)).await
        }
        .boxed_local()
    }

    fn sync_data(&self) -> LocalBoxFuture<'static, io::Result<()>> {
        let file = self.file.clone();
        offload(move || file.sync_data()).boxed_local()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(
            self.file.as_fd(),
            flags,
            offset,
            length,
        )?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        // Nothing else uses the file's position.
        match rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Ok(at),
            Err(rustix::io::Errno::NXIO) => Ok(self.len()?.max(offset)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Reads what can be read without waiting.
fn read_cached(file: &std::fs::File, offset: u64, length: usize) -> (BytesMut, io::Result<usize>) {
    let mut buffer = BytesMut::with_capacity(length);
    let spare = buffer.spare_capacity_mut();
    let iov = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: length,
    };
    // SAFETY: `iov` describes spare capacity of at least `length` bytes that lives past the call.
    let got = unsafe {
        libc::preadv2(
            std::os::fd::AsRawFd::as_raw_fd(file),
            &iov,
            1,
            offset as libc::off_t,
            libc::RWF_NOWAIT,
        )
    };
    if got < 0 {
        return (buffer, Err(io::Error::last_os_error()));
    }
    // SAFETY: the kernel has initialised the first `got` bytes.
    unsafe { buffer.set_len(got as usize) };
    (buffer, Ok(got as usize))
}

fn write_all_at(file: &std::fs::File, offset: u64, parts: Vec<Bytes>) -> io::Result<()> {
    let mut offset = offset;
    let mut slices: Vec<io::IoSlice<'_>> =
        parts.iter().map(|part| io::IoSlice::new(part)).collect();
    let mut rest = &mut slices[..];
    io::IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match rustix::io::pwritev(file, rest, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                io::IoSlice::advance_slices(&mut rest, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Bytes that a socket takes beyond what is on its way: what finds no room is taken as the other side
/// takes what came before, which is how a slow one is told from one that is gone. Enough that the socket
/// does not run dry between two calls.
const UNSENT_MAX: u32 = 256 << 10;

/// Longest pause before TCP sends again what nobody has acknowledged, the least that can be set. It doubles
/// from one pause to the next, up to two minutes by default: a connection that has lost some packets on
/// a crowded link, or one that was cut for a moment, would stand still for as long again.
const RESEND_PAUSE_MAX_MS: libc::c_int = 1_000;
/// Linux 6.15 and newer (`linux/tcp.h`); the C library's crate does not name it.
const TCP_RTO_MAX_MS: libc::c_int = 44;

fn prepare(stream: &tokio::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // SAFETY: the descriptor is open, and the value is as long as is said.
    unsafe {
        // An older kernel knows no such option, and goes on as it does for everybody.
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            std::ptr::from_ref(&RESEND_PAUSE_MAX_MS).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_MAX)
}

struct RealListener(tokio::net::TcpListener);

impl ListenerDriver for RealListener {
    fn accept(&mut self) -> LocalBoxFuture<'_, io::Result<Stream>> {
        async move {
            let (stream, peer) = self.0.accept().await?;
            prepare(&stream)?;
            Ok(Box::new(RealStream {
                stream,
                peer: peer.to_string(),
            }) as Stream)
        }
        .boxed_local()
    }

    fn address(&self) -> String {
        self.0
            .local_addr()
            .map_or_else(|error| error.to_string(), |address| address.to_string())
    }
}

struct RealStream {
    stream: tokio::net::TcpStream,
    peer: String,
}

impl StreamDriver for RealStream {
    fn peer(&self) -> String {
        self.peer.clone()
    }
}

impl AsyncRead for RealStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for RealStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "acts on a real socket"
)]
mod tests {
    use super::*;

    #[test]
    fn random_words_are_drawn_anew_and_not_kept() {
        let mut drawn = Drawn::default();
        let words: std::collections::BTreeSet<u64> =
            (0..10 * WORDS).map(|_| drawn.next().unwrap()).collect();
        assert_eq!(words.len(), 10 * WORDS);
        assert_eq!(
            drawn.words, [0; WORDS],
            "what was used is not there any more"
        );
    }

    #[tokio::test]
    async fn tcp_sends_again_within_a_second_where_the_kernel_can_be_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let pause_max = || {
            let (mut value, mut length) = (0, size_of::<libc::c_int>() as libc::socklen_t);
            // SAFETY: the descriptor is open, and the value has the length that is said.
            let known = unsafe {
                libc::getsockopt(
                    stream.as_raw_fd(),
                    libc::IPPROTO_TCP,
                    TCP_RTO_MAX_MS,
                    std::ptr::from_mut::<libc::c_int>(&mut value).cast(),
                    &mut length,
                )
            };
            (known == 0).then_some(value)
        };
        // An older kernel has no such setting.
        if pause_max().is_none() {
            return;
        }
        prepare(&stream).unwrap();
        assert_eq!(pause_max(), Some(RESEND_PAUSE_MAX_MS));
    }
}
