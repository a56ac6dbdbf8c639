//! The pages of one inode (mm/filemap.c, mm/truncate.c).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// A page. Whoever has it may go on using it when it is no longer in the cache.
pub(super) struct Page {
    pub index: u64,
    pub data: RefCell<Vec<u8>>,
    pub is_uptodate: Cell<bool>,
    /// It is in the cache still.
    pub is_mapped: Cell<bool>,
    /// From where on it holds zeros instead of what the file may hold, and since when (virtual nanoseconds): the answer
    /// that filled it was shorter, and was not taken for the file's end.
    pub padded: Cell<Option<(u64, u64)>>,
    locked: Cell<bool>,
    unlocked: Notify,
}

impl Page {
    /// One that is locked and holds nothing.
    fn new(index: u64) -> Rc<Page> {
        Rc::new(Page {
            index,
            data: RefCell::new(vec![0; PAGE as usize]),
            is_uptodate: Cell::new(false),
            is_mapped: Cell::new(true),
            padded: Cell::new(None),
            locked: Cell::new(true),
            unlocked: Notify::new(),
        })
    }

    pub fn is_locked(&self) -> bool {
        self.locked.get()
    }

    /// folio_trylock.
    pub fn try_lock(&self) -> bool {
        !self.locked.replace(true)
    }

    /// folio_lock.
    pub async fn lock(&self) {
        loop {
            let unlocked = self.unlocked.notified();
            if self.try_lock() {
                return;
            }
            unlocked.await;
        }
    }

    /// folio_unlock.
    pub fn unlock(&self) {
        self.locked.set(false);
        self.unlocked.notify_waiters();
    }

    /// What a READ has brought from the page's beginning on; the rest becomes zeros (`page_zeroing`).
    pub fn fill(&self, bytes: &[u8]) {
        let mut data = self.data.borrow_mut();
        let length = bytes.len().min(PAGE as usize);
        data[..length].copy_from_slice(&bytes[..length]);
        data[length..].fill(0);
    }

    /// Copies into it.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.data.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// What the cache holds of one inode.
#[derive(Default)]
pub(super) struct Pages(RefCell<BTreeMap<u64, Rc<Page>>>);

impl Pages {
    pub fn get(&self, index: u64) -> Option<Rc<Page>> {
        self.0.borrow().get(&index).cloned()
    }

    /// The first page from an index on.
    fn next(&self, index: u64) -> Option<Rc<Page>> {
        let pages = self.0.borrow();
        pages.range(index..).next().map(|(_, page)| page.clone())
    }

    /// A new page, locked, where there is none.
    pub fn add(&self, index: u64) -> Rc<Page> {
        let page = Page::new(index);
        self.0.borrow_mut().insert(index, page.clone());
        page
    }

    /// The page, locked; made if it is not there (__filemap_get_folio with FGP_LOCK and FGP_CREAT).
    pub async fn grab(&self, index: u64) -> Rc<Page> {
        loop {
            let Some(page) = self.get(index) else {
                return self.add(index);
            };
            page.lock().await;
            if page.is_mapped.get() {
                return page;
            }
            page.unlock();
        }
    }

    /// Takes a locked page out of the cache.
    pub fn remove(&self, page: &Page) {
        page.is_mapped.set(false);
        self.0.borrow_mut().remove(&page.index);
    }

    /// invalidate_inode_pages2_range of pages `first..=last`: waits for those that are locked, which `waits` is
    /// told.
    pub async fn invalidate(&self, first: u64, last: u64, waits: impl Fn(bool)) {
        let mut index = first;
        while let Some(page) = self.next(index).filter(|page| page.index <= last) {
            if page.is_locked() {
                waits(true);
                page.lock().await;
                waits(false);
            } else {
                page.lock().await;
            }
            if page.is_mapped.get() {
                self.remove(&page);
            }
            page.unlock();
            let Some(next) = page.index.checked_add(1) else {
                return;
            };
            index = next;
        }
    }

    /// truncate_pagecache: what lies beyond `size` goes, and what the page has in which it lies becomes zeros. What
    /// lies before it stays, however long the file was.
    pub async fn truncate(&self, size: u64) {
        let first = size.div_ceil(PAGE);
        let mut index = first;
        while let Some(page) = self.next(index) {
            index = page.index + 1;
            if page.try_lock() {
                self.remove(&page);
                page.unlock();
            }
        }
        if let Some(page) = self.get(size / PAGE).filter(|_| !size.is_multiple_of(PAGE)) {
            page.lock().await;
            if page.is_mapped.get() {
                page.data.borrow_mut()[(size % PAGE) as usize..].fill(0);
            }
            page.unlock();
        }
        while let Some(page) = self.next(first) {
            page.lock().await;
            if page.is_mapped.get() {
                self.remove(&page);
            }
            page.unlock();
        }
    }
}
