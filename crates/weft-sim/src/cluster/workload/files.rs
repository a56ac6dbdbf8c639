//! Operations on open files.

use super::draw::Try;
use super::{Worker, done};
use crate::oracle::content;
use crate::oracle::history::{Op, Reply};
use weft_client::{Allocate, Errno, HandleId, OpenFlags};

/// Handles that a client keeps open.
const HANDLES_MAX: usize = 5;

pub(super) struct Handle {
    pub ino: u64,
    pub id: HandleId,
    pub append: bool,
    pub sync: bool,
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
                        Ok(count) => Reply::Names(vec![format!("{count} written").into_bytes()]),
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
            _ => self.lock(ino).await,
        }
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
