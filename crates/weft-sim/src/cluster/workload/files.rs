//! Operations on open files.

use super::draw::Try;
use super::{Worker, done};
use crate::oracle::content;
use crate::oracle::history::{Op, Reply};
use weft_client::{Allocate, Errno, HandleId, OpenFlags, Seek};

/// Handles that a client keeps open.
const HANDLES_MAX: usize = 5;
/// Files that are opened at most to have two of which one can be copied to.
const COPY_TRIES: usize = 3;

pub(super) struct Handle {
    pub ino: u64,
    pub id: HandleId,
    pub append: bool,
    pub sync: bool,
}

fn number(result: Result<u64, Errno>) -> Reply {
    match result {
        Ok(number) => Reply::Number(number),
        Err(Errno(errno)) => Reply::Error(errno),
    }
}

/// Of what was to be written some may have been.
fn leaves_some(errno: Errno) -> bool {
    matches!(errno.0, libc::EIO | libc::ENOSPC | libc::EDQUOT)
}

impl Worker {
    pub(super) async fn keep(&mut self, handle: Handle) {
        self.handles.push(handle);
        if self.handles.len() > HANDLES_MAX {
            let index = self.rng.below(self.handles.len() as u64) as usize;
            self.close(index).await;
        }
    }

    /// Opens a file for reading and writing. Returns false if it could not.
    pub async fn open_file(&mut self, ino: u64, flags: OpenFlags) -> bool {
        let op = Op::Open {
            ino,
            truncate: flags.truncate,
        };
        let mut opened = None;
        let reply = self
            .record(op, async |_| {
                let result = self.client.open(&self.cred, ino, flags).await;
                opened = result.ok();
                done(result)
            })
            .await;
        self.forget(ino, &reply);
        match opened {
            Some(id) => {
                self.keep(Handle {
                    ino,
                    id,
                    append: flags.append,
                    sync: flags.sync,
                })
                .await;
                true
            }
            None => false,
        }
    }

    pub(super) async fn open(&mut self) {
        let Some(&ino) = self.rng.choose(&self.files) else {
            return;
        };
        let flags = OpenFlags {
            read: true,
            write: true,
            append: self.rng.once_in(4),
            truncate: self.rng.once_in(8),
            sync: self.rng.once_in(5),
            ..OpenFlags::default()
        };
        self.open_file(ino, flags).await;
    }

    pub(super) async fn close(&mut self, index: usize) {
        let handle = self.handles.remove(index);
        let owner = self.rng.below(2);
        let op = Op::Close {
            ino: handle.ino,
            owner,
        };
        self.taken.closes(handle.ino, owner, handle.id);
        if owner == 0 {
            self.locked.remove(&handle.ino);
        }
        self.record(op, async |_| {
            let flushed = self.client.flush(handle.id, Some(owner)).await;
            let released = self.client.release(handle.id, Some(owner)).await;
            done(flushed.and(released))
        })
        .await;
    }

    pub(super) async fn on_handle(&mut self, choice: Try) {
        if self.handles.is_empty() {
            self.open().await;
        }
        if self.handles.is_empty() {
            return;
        }
        let index = self.rng.below(self.handles.len() as u64) as usize;
        let Handle {
            ino,
            id,
            append,
            sync,
        } = self.handles[index];
        let offset = self.offset();
        let length = self.length();
        let is_lost = self.taken.has_lost(id, self.client.session());
        let begun = self.shared.history.next();
        match choice {
            Try::Read => {
                self.read(ino, id, offset, length * 2).await;
            }
            Try::Write | Try::Append => {
                let append = append || choice == Try::Append;
                let op = Op::Write {
                    ino,
                    offset,
                    length,
                    append,
                    sync,
                };
                self.record(op, async |number| {
                    let data = content::bytes(number, length).into();
                    match self.client.write(id, offset, data, append).await {
                        Ok(count) if count as u64 == length => Reply::Done,
                        Ok(count) => Reply::Written(count as u64),
                        Err(Errno(errno)) => Reply::Error(errno),
                    }
                })
                .await;
            }
            Try::Fsync => {
                let data_only = self.rng.once_in(3);
                self.record(Op::Fsync { ino, data_only }, async |_| {
                    done(self.client.fsync(id, data_only).await)
                })
                .await;
            }
            Try::Punch => {
                let op = Op::Punch {
                    ino,
                    offset,
                    length,
                };
                self.record(op, async |_| {
                    let mode = Allocate::PunchHole;
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            Try::Zero => {
                let keep_size = self.rng.once_in(2);
                let op = Op::ZeroRange {
                    ino,
                    offset,
                    length,
                    keep_size,
                };
                self.record(op, async |_| {
                    let mode = Allocate::ZeroRange { keep_size };
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            Try::Extend => {
                let op = Op::Extend {
                    ino,
                    offset,
                    length,
                };
                self.record(op, async |_| {
                    let mode = Allocate::Extend;
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            Try::Seek => {
                let hole = self.rng.once_in(2);
                let whence = if hole { Seek::Hole } else { Seek::Data };
                self.record(Op::Seek { ino, offset, hole }, async |_| {
                    number(self.client.seek(id, offset, whence).await)
                })
                .await;
            }
            Try::Copy => self.copy((offset, length)).await,
            Try::WaitForLock => self.wait_for_lock(ino, id).await,
            _ => self.lock(ino, id).await,
        }
        if is_lost {
            self.shared.history.lock_was_lost(begun);
        }
    }

    /// Copies from one open file to another, opening some if there are none. Kernels refuse to copy to a
    /// file that is open to append.
    async fn copy(&mut self, (to, length): (u64, u64)) {
        for _ in 0..COPY_TRIES {
            if self.handles.len() < 2 || self.handles.iter().all(|handle| handle.append) {
                self.open().await;
            }
        }
        let targets = self.handles.iter().filter(|handle| !handle.append);
        let targets: Vec<(u64, HandleId)> = targets.map(|handle| (handle.ino, handle.id)).collect();
        let Some(&(ino, id)) = self.rng.choose(&targets) else {
            return;
        };
        let others = self.handles.iter().filter(|handle| handle.ino != ino);
        let others: Vec<(u64, HandleId)> = others.map(|handle| (handle.ino, handle.id)).collect();
        let Some(&(source, original)) = self.rng.choose(&others) else {
            return;
        };
        let from = self.offset();
        let op = Op::Copy {
            source,
            from,
            ino,
            to,
            length,
        };
        self.record(op, async |_| {
            // As programs do: what is left of a copy that was cut short is asked for again, and fails if a step did.
            let mut done = 0;
            while done < length {
                let (from, to) = (from + done, to + done);
                let copied = self
                    .client
                    .copy_range(original, from, id, to, length - done);
                match copied.await {
                    Ok(0) => break,
                    Ok(count) => done += count,
                    Err(errno) if done == 0 || leaves_some(errno) => return number(Err(errno)),
                    // What came of the part that was done is known.
                    Err(_) => break,
                }
            }
            number(Ok(done))
        })
        .await;
    }

    pub(super) async fn read(&self, ino: u64, id: HandleId, offset: u64, length: u64) {
        let op = Op::Read {
            ino,
            offset,
            length,
        };
        self.record(op, async |_| {
            match self.client.read(id, offset, length as usize).await {
                Ok(parts) => Reply::Bytes(parts.concat().into()),
                Err(Errno(errno)) => Reply::Error(errno),
            }
        })
        .await;
    }
}
