//! Reading everything, as the last client of a run does.

use super::draw::FILE_BYTES;
use super::{Worker, seen};
use crate::oracle::history::{Kind, Op, Reply};
use weft_client::{Errno, OpenFlags};

impl Worker {
    /// Reads the whole tree: attributes, contents, targets and extended attributes.
    pub async fn read_everything(&mut self) {
        let mut waiting = vec![self.directories[0]];
        while let Some(dir) = waiting.pop() {
            for (name, ino, kind) in self.list_directory(dir).await {
                let op = Op::Lookup {
                    parent: dir,
                    name: name.clone(),
                };
                self.record(op, async |_| {
                    match self.client.lookup(&self.cred, dir, &name).await {
                        Ok(found) => match found.entry {
                            Some(known) => Reply::Entry(seen(&known.attr)),
                            None => Reply::Absent,
                        },
                        Err(Errno(errno)) => Reply::Error(errno),
                    }
                })
                .await;
                match kind {
                    Kind::Directory => waiting.push(ino),
                    Kind::File => {
                        let flags = OpenFlags {
                            read: true,
                            ..OpenFlags::default()
                        };
                        if self.open_file(ino, flags).await {
                            let id = self.handles[self.handles.len() - 1].id;
                            self.read(ino, id, 0, FILE_BYTES * 8).await;
                            self.close(self.handles.len() - 1).await;
                        }
                    }
                    Kind::Symlink => {
                        self.record(Op::Readlink { ino }, async |_| {
                            match self.client.readlink(ino).await {
                                Ok(target) => Reply::Bytes(target),
                                Err(Errno(errno)) => Reply::Error(errno),
                            }
                        })
                        .await;
                    }
                    Kind::Fifo => {}
                }
            }
        }
    }
}
