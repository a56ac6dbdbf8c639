//! Files, by offset.

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::io;
use std::rc::Rc;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; must be there.
    Read,
    /// For reading and writing; must be there.
    Write,
    /// For reading and writing; made if it is not there.
    Create,
    /// For reading and writing; made, or cut to nothing.
    CreateEmpty,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirItem {
    /// File name, without the path.
    pub name: String,
    /// It is a directory.
    pub is_dir: bool,
}

/// Room on a file system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// All of it.
    pub total: u64,
    /// What may still be written.
    pub free: u64,
}

/// What an implementation of a file provides.
#[allow(clippy::len_without_is_empty)]
pub trait FileDriver {
    /// See [`File::read_at`].
    fn read_at(&self, offset: u64, length: usize) -> LocalBoxFuture<'static, io::Result<Bytes>>;
    /// See [`File::write_at`].
    fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> LocalBoxFuture<'static, io::Result<()>>;
    /// See [`File::sync_data`].
    fn sync_data(&self) -> LocalBoxFuture<'static, io::Result<()>>;
    /// See [`File::set_len`].
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// See [`File::punch`].
    fn punch(&self, offset: u64, length: u64) -> io::Result<()>;
    /// See [`File::len`].
    fn len(&self) -> io::Result<u64>;
    /// See [`File::next_data`].
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
}

/// An open file. Cloning shares it; it is closed with the last clone.
#[derive(Clone)]
pub struct File(Rc<dyn FileDriver>);

impl File {
    /// Wraps an implementation.
    pub fn new(driver: impl FileDriver + 'static) -> File {
        File(Rc::new(driver))
    }

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn read_at(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        self.0.read_at(offset, length).await
    }

    /// Writes all parts one after the other from `offset` on. A crash may leave any part of them.
    /// Two writes that overlap must not be in flight together: their order is not defined.
    ///
    /// # Errors
    /// As the operating system's (ENOSPC among them); any part may have been written.
    pub async fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> io::Result<()> {
        self.0.write_at(offset, parts).await
    }

    /// When it returns, all writes that had returned survive a power cut.
    ///
    /// # Errors
    /// As the operating system's; what was written since the last sync must be taken as lost.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data().await
    }

    /// Cuts or extends (with a hole).
    ///
    /// # Errors
    /// As the operating system's.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    /// Makes a hole; the length of the file stays.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.0.punch(offset, length)
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// As the operating system's.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    /// The first offset from `offset` on that does not lie in a hole; the length of the file if there
    /// is none. An implementation that does not know its holes answers `offset`.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.0.next_data(offset)
    }
}
