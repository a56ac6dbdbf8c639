//! Handles whose reads and writes pass the kernel's page cache by. Pure; `fs.rs` opens them.
//!
//! Linux looks at the end of a file once it has a page of it in hand, without a lock (`filemap_read`, mm/filemap.c). If the
//! reader's thread is kept from running between, and the end has moved on in the same page, it shows zeros that nobody
//! wrote. A handle that passes the page cache by shows what its own question was answered with.

use weft_types::FixedMap;

/// The handles of one mount.
#[derive(Default)]
pub struct Uncached {
    /// Some: of one that was opened to append, its inode.
    handles: FixedMap<u64, Option<u64>>,
    appended: FixedMap<u64, u32>,
}

impl Uncached {
    /// A handle was opened so; `appends` Some: to append to that inode.
    pub fn opened(&mut self, fh: u64, appends: Option<u64>) {
        self.handles.insert(fh, appends);
        if let Some(ino) = appends {
            *self.appended.entry(ino).or_default() += 1;
        }
    }

    /// A handle was closed.
    pub fn closed(&mut self, fh: u64) {
        let Some(Some(ino)) = self.handles.remove(&fh) else {
            return;
        };
        if let Some(count) = self.appended.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.appended.remove(&ino);
            }
        }
    }

    /// A handle was opened so.
    pub fn has(&self, fh: u64) -> bool {
        self.handles.contains_key(&fh)
    }

    /// This inode is open to be appended to.
    pub fn is_appended(&self, ino: u64) -> bool {
        self.appended.contains_key(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_closed_ends_it() {
        let mut uncached = Uncached::default();
        uncached.opened(1, Some(7));
        uncached.opened(2, Some(7));
        uncached.opened(3, None);
        uncached.closed(1);
        uncached.closed(4);
        assert!(uncached.has(2) && uncached.has(3) && !uncached.has(1));
        assert!(uncached.is_appended(7));
        uncached.closed(2);
        assert!(!uncached.is_appended(7));
    }
}
