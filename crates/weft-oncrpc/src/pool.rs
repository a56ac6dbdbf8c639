//! Buffers for payloads: they begin on a page, and are used again.
//!
//! A payload may be with a thread that writes it to a disk when the last slice of it goes, so the pool is shared by
//! threads; everything else of a connection is not.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

const PAGE_BYTES: usize = 4096;
/// Buffers that nobody uses are kept up to so many bytes; a burst's are given back to the system.
const KEPT_BYTES_MAX: usize = 32 << 20;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

struct State {
    /// Buffers that nobody uses, by their pages.
    kept: BTreeMap<usize, Vec<Vec<Page>>>,
    kept_bytes: usize,
    lent_bytes: usize,
    waiting: Vec<Waker>,
}

struct Inner {
    bytes_max: usize,
    state: Mutex<State>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between lock and unlock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, bytes: usize, pages: Option<Vec<Page>>) {
        let mut state = self.state();
        state.lent_bytes -= bytes;
        if let Some(pages) = pages
            && state.kept_bytes + bytes <= KEPT_BYTES_MAX
        {
            state.kept_bytes += bytes;
            state.kept.entry(pages.len()).or_default().push(pages);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waker in waiting {
            waker.wake();
        }
    }
}

/// Lends buffers, up to a number of bytes.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

impl Pool {
    /// A pool that lends so many bytes.
    pub fn new(bytes_max: usize) -> Pool {
        Pool(Arc::new(Inner {
            bytes_max,
            state: Mutex::new(State {
                kept: BTreeMap::new(),
                kept_bytes: 0,
                lent_bytes: 0,
                waiting: Vec::new(),
            }),
        }))
    }

    /// Bytes that are lent now.
    pub fn lent_bytes(&self) -> usize {
        self.0.state().lent_bytes
    }

    /// Counts bytes as lent, or has `cx` woken when some come back. Who asks for more than there will ever be gets it
    /// when nothing else is lent.
    fn poll_lend(&self, bytes: usize, cx: &mut Context<'_>) -> Poll<MutexGuard<'_, State>> {
        let mut state = self.0.state();
        if state.lent_bytes > 0 && state.lent_bytes + bytes > self.0.bytes_max {
            if !state
                .waiting
                .iter()
                .any(|there| there.will_wake(cx.waker()))
            {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        state.lent_bytes += bytes;
        Poll::Ready(state)
    }

    /// A buffer of this length, of unspecified content.
    pub(crate) fn poll_buffer(&self, length: usize, cx: &mut Context<'_>) -> Poll<Buffer> {
        // Powers of two, so that one that comes back suits the next.
        let count = length.div_ceil(PAGE_BYTES).next_power_of_two();
        let Poll::Ready(mut state) = self.poll_lend(count * PAGE_BYTES, cx) else {
            return Poll::Pending;
        };
        let kept = state.kept.get_mut(&count).and_then(Vec::pop);
        if kept.is_some() {
            state.kept_bytes -= count * PAGE_BYTES;
        }
        drop(state);
        let pages = kept.unwrap_or_else(|| vec![Page([0; PAGE_BYTES]); count]);
        let lent = Lent {
            pages: Box::into_raw(pages.into_boxed_slice()),
            pool: self.clone(),
        };
        Poll::Ready(Buffer {
            lent: Arc::new(lent),
            length,
            filled: 0,
            taken: 0,
        })
    }

    /// Room for bytes that are kept elsewhere.
    pub(crate) fn poll_room(&self, bytes: usize, cx: &mut Context<'_>) -> Poll<Room> {
        self.poll_lend(bytes, cx).map(|_| Room {
            bytes,
            pool: self.clone(),
        })
    }
}

/// Bytes that count as lent.
pub(crate) struct Room {
    bytes: usize,
    pool: Pool,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.pool.0.give_back(self.bytes, None);
    }
}

/// The pages of a buffer, until nobody has a slice of them any more.
struct Lent {
    /// Only by this pointer they are used: those who have read slices of them while the rest is being filled.
    pages: *mut [Page],
    pool: Pool,
}

// SAFETY: it owns its pages, which are nothing but bytes.
unsafe impl Send for Lent {}
// SAFETY: through a shared one bytes are only read, and those that may still be written are `Buffer`'s alone.
unsafe impl Sync for Lent {}

impl Lent {
    /// The first byte.
    fn first(&self) -> *mut u8 {
        self.pages.cast()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and with the last owner nobody has a slice of it.
        let pages = unsafe { Box::from_raw(self.pages) }.into_vec();
        self.pool.0.give_back(pages.len() * PAGE_BYTES, Some(pages));
    }
}

/// A buffer that is filled from its beginning. What is filled can be taken while the rest is not.
pub(crate) struct Buffer {
    lent: Arc<Lent>,
    length: usize,
    filled: usize,
    taken: usize,
}

impl Buffer {
    /// Where the next bytes belong; after that [`Buffer::advance`].
    pub(crate) fn room(&mut self) -> &mut [u8] {
        // SAFETY: pages are nothing but bytes, lie side by side and have at least this length. Slices that were taken
        // end before `filled`, and as long as this one is borrowed no other is taken.
        unsafe {
            let first = self.lent.first().add(self.filled);
            std::slice::from_raw_parts_mut(first, self.length - self.filled)
        }
    }

    /// So many bytes were put where they belong.
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.length - self.filled);
        self.filled += bytes;
    }

    /// Nothing more belongs in it.
    pub(crate) fn is_full(&self) -> bool {
        self.filled == self.length
    }

    /// Bytes that are there and were not taken.
    pub(crate) fn there(&self) -> usize {
        self.filled - self.taken
    }

    /// The next bytes, as many as that, of those that are there. With the last slice of them all the buffer goes back.
    pub(crate) fn take(&mut self, bytes: usize) -> Bytes {
        assert!(bytes <= self.there());
        let taken = Taken {
            lent: self.lent.clone(),
            at: self.taken,
            length: bytes,
        };
        self.taken += bytes;
        Bytes::from_owner(taken)
    }
}

/// A part of a buffer that nobody writes any more.
struct Taken {
    lent: Arc<Lent>,
    at: usize,
    length: usize,
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `Buffer::room`; these bytes lie before `filled`, which never falls.
        unsafe { std::slice::from_raw_parts(self.lent.first().add(self.at), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;

    fn buffer(pool: &Pool, length: usize) -> Option<Buffer> {
        match pool.poll_buffer(length, &mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(buffer) => Some(buffer),
            Poll::Pending => None,
        }
    }

    #[test]
    fn buffers_begin_on_a_page_and_come_back_with_their_last_slice() {
        let pool = Pool::new(1 << 20);
        let mut first = buffer(&pool, 5000).unwrap();
        first.room().fill(7);
        first.advance(5000);
        assert!(first.is_full());
        let bytes = first.take(5000);
        drop(first);
        assert_eq!(bytes.as_ptr() as usize % PAGE_BYTES, 0);
        assert_eq!(bytes.len(), 5000);
        let slice = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(pool.lent_bytes(), 8192);
        drop(slice);
        assert_eq!(pool.lent_bytes(), 0);
        // The same one again: its content is still there.
        assert_eq!(buffer(&pool, 8192).unwrap().room()[4999], 7);
    }

    #[test]
    fn what_is_there_can_be_taken_while_the_rest_is_not() {
        let pool = Pool::new(1 << 20);
        let mut whole = buffer(&pool, 10_000).unwrap();
        whole.room()[..6000].fill(1);
        whole.advance(6000);
        let first = whole.take(4096);
        assert_eq!(whole.there(), 1904);
        whole.room().fill(2);
        whole.advance(4000);
        assert!(whole.is_full());
        let rest = whole.take(5904);
        drop(whole);
        assert!(first.iter().all(|byte| *byte == 1));
        let ones = rest.iter().filter(|byte| **byte == 1).count();
        assert_eq!((ones, rest[1904]), (1904, 2));
        drop(rest);
        assert!(pool.lent_bytes() > 0, "a part is in use");
        drop(first);
        assert_eq!(pool.lent_bytes(), 0);
    }

    #[test]
    fn what_is_lent_is_bounded_and_who_waits_is_woken() {
        let pool = Pool::new(8192);
        let first = buffer(&pool, 8192).unwrap();
        let (waker, count) = futures_test_waker();
        let mut cx = Context::from_waker(&waker);
        assert!(pool.poll_buffer(1, &mut cx).is_pending());
        assert!(pool.poll_room(1, &mut cx).is_pending());
        drop(first);
        assert_eq!(Arc::strong_count(&count), 2, "one waker is left, ours");
        assert!(count.load(std::sync::atomic::Ordering::SeqCst) >= 1);
        // More than there will ever be is lent to one at a time.
        let large = buffer(&pool, 1 << 20).unwrap();
        assert!(buffer(&pool, 1).is_none());
        drop(large);
        assert!(buffer(&pool, 1).is_some());
    }

    fn futures_test_waker() -> (Waker, Arc<std::sync::atomic::AtomicUsize>) {
        struct Counts(Arc<std::sync::atomic::AtomicUsize>);
        impl std::task::Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        (Arc::new(Counts(count.clone())).into(), count)
    }
}
