//! Open files, and the time that what is asked of a disk takes.

use super::file_state::FileState;
use super::state::{DiskState, Turn, WriteInFlight};
use super::{PAGE, Page, eio};
use crate::driver::dead;
use crate::executor::{Mark, Sleep};
use crate::world::Inner;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::task::Poll;
use weft_env::FileDriver;

/// Has `action` done on the disk after `pause`, whether or not anyone still waits for it.
pub(super) fn after<T: 'static>(
    inner: &Rc<Inner>,
    node: usize,
    life: u64,
    pause: u64,
    action: impl FnOnce(&mut DiskState, &Rc<Inner>) -> io::Result<T> + 'static,
) -> LocalBoxFuture<'static, io::Result<T>> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let id = inner.executor.take_id();
    inner.executor.mark(Mark::Disk, node, id);
    let weak = Rc::downgrade(inner);
    // The device works on by itself: a task of the world, not of the process.
    let work = async move {
        let Some(sleep) = weak.upgrade().map(|inner| Sleep::exactly(&inner, pause)) else {
            return;
        };
        sleep.await;
        std::future::poll_fn(|cx| {
            let Some(inner) = weak.upgrade() else {
                return Poll::Ready(());
            };
            inner.disks.with(node, |disk| {
                if (disk.hung || disk.stopped) && inner.is_alive(node, life) {
                    disk.waiting.push(cx.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
        })
        .await;
        if let Some(inner) = weak.upgrade()
            && inner.is_alive(node, life)
        {
            let result = inner.disks.with(node, |disk| action(disk, &inner));
            // The asker may have gone on without it.
            let _ = tell.send(result);
        }
    };
    let inner_weak = inner.weak();
    inner
        .executor
        .spawn(&inner_weak, 0, "disk", work.boxed_local());
    async move {
        match told.await {
            Ok(result) => result,
            Err(_) => std::future::pending().await,
        }
    }
    .boxed_local()
}

pub(super) struct SimFile {
    pub(super) inner: Weak<Inner>,
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) id: u64,
    pub(super) writable: bool,
}

impl SimFile {
    fn living(&self) -> io::Result<Rc<Inner>> {
        match self.inner.upgrade() {
            Some(inner) if inner.is_alive(self.node, self.life) => Ok(inner),
            _ => Err(dead()),
        }
    }

    fn with_file<T>(&self, body: impl FnOnce(&mut FileState) -> T) -> io::Result<T> {
        self.living()?.disks.with(self.node, |disk| {
            disk.files.get_mut(&self.id).map(body).ok_or_else(eio)
        })
    }

    /// Changes the file, as a whole or not at all; `body` returns how many pages it took away.
    fn change_at_once(&self, body: impl FnOnce(&mut FileState) -> u64) -> io::Result<()> {
        let inner = self.living()?;
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        inner.disks.with(self.node, |disk| {
            disk.change_at_once(|disk| {
                let file = disk.files.get_mut(&self.id).ok_or_else(eio)?;
                let taken = body(file);
                disk.used = disk.used.saturating_sub(taken * PAGE);
                Ok(())
            })
        })
    }

    fn begin_write(
        &self,
        offset: u64,
        parts: Vec<Bytes>,
    ) -> io::Result<LocalBoxFuture<'static, io::Result<()>>> {
        let inner = self.living()?;
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let op = inner.executor.take_id();
        let pause = inner.disks.with(self.node, |disk| {
            if disk.begin_change() != Turn::Late {
                let write = WriteInFlight {
                    file: self.id,
                    offset,
                    data: parts.concat(),
                };
                disk.in_flight.insert(op, write);
            }
            let nanos = disk.faults.write_nanos.clone();
            disk.timing.within(nanos)
        });
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| disk.finish_write(op),
        ))
    }

    fn begin_read(
        &self,
        offset: u64,
        length: usize,
    ) -> io::Result<LocalBoxFuture<'static, io::Result<Bytes>>> {
        let inner = self.living()?;
        let pause = inner.disks.with(self.node, |disk| {
            if disk.timing.once_in(4) {
                let nanos = disk.faults.read_nanos.clone();
                disk.timing.within(nanos)
            } else {
                disk.timing.within(1_000..10_000)
            }
        });
        let id = self.id;
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| {
                disk.works_for_reads()?;
                if disk.faulty.chance(disk.faults.read_error_ppm) {
                    return Err(eio());
                }
                let file = disk.files.get(&id).ok_or_else(eio)?;
                Ok(file.read(offset, length))
            },
        ))
    }

    fn begin_sync(&self) -> io::Result<LocalBoxFuture<'static, io::Result<()>>> {
        let inner = self.living()?;
        let id = self.id;
        let number = inner.executor.take_id();
        let (pause, now) = inner.disks.with(self.node, |disk| {
            disk.begin_change();
            let nanos = disk.faults.sync_nanos.clone();
            let pause = disk.timing.within(nanos);
            let snapshot = disk.files.get(&id).map(|file| {
                let pages: BTreeMap<u64, Option<Page>> = file
                    .differing
                    .keys()
                    .map(|&index| (index, file.pages.get(&index).cloned()))
                    .collect();
                (pages, file.length)
            });
            (pause, snapshot)
        });
        let (pages, length) = now.ok_or_else(eio)?;
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| {
                let broken = disk.works_for_changes();
                let failed = broken.is_err() || disk.faulty.chance(disk.faults.sync_error_ppm);
                let file = disk.files.get_mut(&id).ok_or_else(eio)?;
                if failed {
                    file.lost.extend(pages.into_keys());
                    return Err(broken.err().unwrap_or_else(eio));
                }
                if file.synced > number {
                    return Ok(());
                }
                file.synced = number;
                for (index, snapshot) in pages {
                    if file.lost.contains(&index) {
                        continue;
                    }
                    let same = match (&snapshot, file.pages.get(&index)) {
                        (None, None) => true,
                        (Some(old), Some(new)) => Rc::ptr_eq(old, new),
                        _ => false,
                    };
                    if same {
                        file.differing.remove(&index);
                    } else {
                        file.differing.insert(index, snapshot);
                    }
                }
                file.durable_length = length;
                Ok(())
            },
        ))
    }
}

fn flatten<T: 'static>(
    begun: io::Result<LocalBoxFuture<'static, io::Result<T>>>,
) -> LocalBoxFuture<'static, io::Result<T>> {
    begun.unwrap_or_else(|error| std::future::ready(Err(error)).boxed_local())
}

impl FileDriver for SimFile {
    fn read_at(&self, offset: u64, length: usize) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        flatten(self.begin_read(offset, length))
    }

    fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> LocalBoxFuture<'static, io::Result<()>> {
        flatten(self.begin_write(offset, parts))
    }

    fn sync_data(&self) -> LocalBoxFuture<'static, io::Result<()>> {
        flatten(self.begin_sync())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change_at_once(|file| {
            let taken = if length < file.length {
                file.zero(length, file.length.div_ceil(PAGE) * PAGE)
            } else {
                0
            };
            file.length = length;
            taken
        })
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change_at_once(|file| file.zero(offset, offset.saturating_add(length)))
    }

    fn len(&self) -> io::Result<u64> {
        self.with_file(|file| file.length)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.with_file(|file| {
            let next = file.pages.range(offset / PAGE..).next();
            next.map_or(file.length, |(&index, _)| index * PAGE)
                .max(offset)
        })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(inner) = self.living() {
            inner.disks.with(self.node, |disk| {
                if let Some(file) = disk.files.get_mut(&self.id) {
                    file.open = file.open.saturating_sub(1);
                    disk.let_go(self.id);
                }
            });
        }
    }
}
