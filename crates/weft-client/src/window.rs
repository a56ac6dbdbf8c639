//! What this client may have under way at one data server (docs/protocols/a-write.md, "Windows").
//!
//! The server says with its answers how much. What does not fit waits here, in order, where it is in
//! nobody's way; second copies, for which nobody waits, come after all else.

use std::cell::Cell;
use tokio::sync::{Mutex, Notify};

/// Before the server has said anything: many clients may begin at the same time.
const WINDOW_FIRST: u64 = 256 << 10;

/// See the module.
pub(crate) struct Window {
    bytes_max: Cell<u64>,
    under_way: Cell<u64>,
    /// Others than second copies that wait.
    waiting: Cell<usize>,
    /// What is overdue, and waits.
    overdue: Cell<usize>,
    turn: Mutex<()>,
    last_turn: Mutex<()>,
    changed: Notify,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            bytes_max: Cell::new(WINDOW_FIRST),
            under_way: Cell::new(0),
            waiting: Cell::new(0),
            overdue: Cell::new(0),
            turn: Mutex::default(),
            last_turn: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

/// Bytes that are under way until it is dropped.
pub(crate) struct UnderWay<'a> {
    window: &'a Window,
    bytes: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let window = self.window;
        window.under_way.set(window.under_way.get() - self.bytes);
        window.changed.notify_waiters();
    }
}

/// Counts as waiting until it is dropped.
struct Waits<'a> {
    window: &'a Window,
    count: &'a Cell<usize>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.window.changed.notify_waiters();
    }
}

impl Window {
    /// The server has said how much may be under way. 0: it does not say.
    pub fn told(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes_max.set(bytes);
            self.changed.notify_waiters();
        }
    }

    /// Returns when so many bytes may be sent, in order of the calls; more than all that may be under
    /// way, when nothing else is.
    pub async fn enter(&self, bytes: u64) -> UnderWay<'_> {
        let _waits = self.wait(&self.waiting);
        let _turn = self.turn.lock().await;
        while self.overdue.get() > 0 || !self.fits(bytes) {
            self.changed.notified().await;
        }
        self.begin(bytes)
    }

    /// The same before all that waits.
    pub async fn enter_next(&self, bytes: u64) -> UnderWay<'_> {
        let _waits = self.wait(&self.overdue);
        while !self.fits(bytes) {
            self.changed.notified().await;
        }
        self.begin(bytes)
    }

    /// The same after all that waits, and not before `idle` returns: one after the other.
    pub async fn enter_last(&self, bytes: u64, idle: impl AsyncFn()) -> UnderWay<'_> {
        let _turn = self.last_turn.lock().await;
        loop {
            idle().await;
            if self.waiting.get() + self.overdue.get() == 0 && self.fits(bytes) {
                return self.begin(bytes);
            }
            self.changed.notified().await;
        }
    }

    fn wait<'a>(&'a self, count: &'a Cell<usize>) -> Waits<'a> {
        count.set(count.get() + 1);
        Waits {
            window: self,
            count,
        }
    }

    fn fits(&self, bytes: u64) -> bool {
        let under_way = self.under_way.get();
        under_way == 0 || under_way + bytes <= self.bytes_max.get()
    }

    fn begin(&self, bytes: u64) -> UnderWay<'_> {
        self.under_way.set(self.under_way.get() + bytes);
        UnderWay {
            window: self,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    async fn at_once() {}

    #[test]
    fn bytes_wait_until_they_fit_in_order_and_second_copies_come_last() {
        let window = Window::default();
        window.told(100);
        let first = window.enter(60).now_or_never().unwrap();
        let mut last = pin!(window.enter_last(30, at_once));
        let mut second = pin!(window.enter(60));
        let mut third = pin!(window.enter(10));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut last).now_or_never().is_none(), "somebody waits");
        assert!(
            (&mut third).now_or_never().is_none(),
            "not before the second"
        );
        drop(first);
        let second = second.now_or_never().unwrap();
        let third = third.now_or_never().unwrap();
        let last = last.now_or_never().unwrap();
        assert!(window.enter(1).now_or_never().is_none());
        drop((second, third, last));
        // What is overdue waits for room only.
        let first = window.enter(100).now_or_never().unwrap();
        let mut waits = pin!(window.enter(60));
        let mut next = pin!(window.enter_next(60));
        assert!((&mut waits).now_or_never().is_none());
        assert!((&mut next).now_or_never().is_none());
        drop(first);
        let next = next.now_or_never().unwrap();
        assert!((&mut waits).now_or_never().is_none());
        drop(next);
        drop(waits.now_or_never().unwrap());
        // What comes last waits for a quiet moment, too.
        assert!(
            window
                .enter_last(1, std::future::pending)
                .now_or_never()
                .is_none()
        );
        // Alone it may be any size.
        let large = window.enter(1_000).now_or_never().unwrap();
        assert!(window.enter(1).now_or_never().is_none());
        window.told(0);
        assert!(window.enter(1).now_or_never().is_none());
        window.told(2_000);
        drop((window.enter(1_000).now_or_never().unwrap(), large));
    }

    #[test]
    fn who_gives_up_waiting_is_in_nobodys_way() {
        let window = Window::default();
        window.told(100);
        let first = window.enter(100).now_or_never().unwrap();
        assert!(window.enter(50).now_or_never().is_none());
        drop(first);
        assert!(window.enter_last(100, at_once).now_or_never().is_some());
    }
}
