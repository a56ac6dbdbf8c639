//! Operations on names: making, removing, renaming, looking up, listing.

use super::draw::{Try, remember};
use super::files::Handle;
use super::{Worker, done, kind_of, known, seen};
use crate::oracle::history::{Kind, Op, Reply};
use weft_client::{CreateFlags, Errno, FileKind, OpenFlags, RenameFlags};

impl Worker {
    pub(super) async fn create(&mut self) {
        let parent = self.directory();
        let name = self.name(false);
        let exclusive = self.rng.once_in(3);
        let truncate = !exclusive && self.rng.once_in(4);
        let append = self.rng.once_in(4);
        let sync = self.rng.once_in(5);
        let op = Op::Create {
            parent,
            name: name.clone(),
            mode: 0o644,
            exclusive,
            truncate,
        };
        let flags = CreateFlags {
            exclusive,
            open: OpenFlags {
                read: true,
                write: true,
                append,
                truncate,
                sync,
                ..OpenFlags::default()
            },
        };
        let mut opened = None;
        let reply = self
            .record(op, async |_| {
                match self
                    .client
                    .create(&self.cred, parent, &name, 0o644, flags)
                    .await
                {
                    Ok((known, handle)) => {
                        opened = Some(handle);
                        Reply::Entry(seen(&known.attr))
                    }
                    Err(Errno(errno)) => Reply::Error(errno),
                }
            })
            .await;
        self.learn(parent, &name, &reply);
        if let (Some(id), Reply::Entry(seen)) = (opened, &reply) {
            self.keep(Handle {
                ino: seen.ino,
                id,
                append,
                sync,
            })
            .await;
        }
    }

    pub(super) async fn make(&mut self, choice: Try) {
        let parent = self.directory();
        let name = self.name(choice == Try::Mkdir);
        let (op, target) = match choice {
            Try::Mkdir => (
                Op::Mkdir {
                    parent,
                    name: name.clone(),
                    mode: 0o755,
                },
                Vec::new(),
            ),
            Try::Mkfifo => (
                Op::Mkfifo {
                    parent,
                    name: name.clone(),
                    mode: 0o600,
                },
                Vec::new(),
            ),
            _ => {
                let target = vec![b'x'; 1 + self.rng.below(300) as usize];
                (
                    Op::Symlink {
                        parent,
                        name: name.clone(),
                        target: target.clone(),
                    },
                    target,
                )
            }
        };
        let reply = self
            .record(op, async |_| {
                let (client, cred) = (&self.client, &self.cred);
                known(match choice {
                    Try::Mkdir => client.mkdir(cred, parent, &name, 0o755).await,
                    Try::Mkfifo => {
                        client
                            .mknod(cred, parent, &name, FileKind::Fifo, 0o600, 0)
                            .await
                    }
                    _ => client.symlink(cred, parent, &name, &target).await,
                })
            })
            .await;
        self.learn(parent, &name, &reply);
        if let (Try::Mkdir, Reply::Entry(seen)) = (choice, &reply) {
            self.spread(seen.ino).await;
        }
    }

    pub(super) async fn link(&mut self) {
        let Some(&ino) = self.rng.choose(&self.files) else {
            return;
        };
        let parent = self.directory();
        let name = self.name(false);
        let op = Op::Link {
            ino,
            parent,
            name: name.clone(),
        };
        let reply = self
            .record(op, async |_| {
                known(self.client.link(&self.cred, ino, parent, &name).await)
            })
            .await;
        self.learn(parent, &name, &reply);
    }

    pub(super) async fn remove(&mut self, choice: Try) {
        let (parent, name) = self.existing();
        let directory = choice == Try::Rmdir;
        let op = if directory {
            Op::Rmdir {
                parent,
                name: name.clone(),
            }
        } else {
            Op::Unlink {
                parent,
                name: name.clone(),
            }
        };
        let reply = self
            .record(op, async |_| {
                done(if directory {
                    self.client.rmdir(&self.cred, parent, &name).await
                } else {
                    self.client.unlink(&self.cred, parent, &name).await
                })
            })
            .await;
        if matches!(reply, Reply::Done | Reply::Error(libc::ENOENT)) {
            self.names.remove(&(parent, name));
        }
    }

    pub(super) async fn rename(&mut self, exchange: bool) {
        let (parent, name) = self.existing();
        let (new_parent, new_name) = if exchange || self.rng.once_in(3) {
            self.existing()
        } else {
            let directory = name.len() > 1;
            (self.directory(), self.name(directory))
        };
        let no_replace = !exchange && self.rng.once_in(4);
        let op = Op::Rename {
            parent,
            name: name.clone(),
            new_parent,
            new_name: new_name.clone(),
            no_replace,
            exchange,
        };
        let flags = RenameFlags {
            no_replace,
            exchange,
            ..RenameFlags::default()
        };
        let reply = self
            .record(op, async |_| {
                done(
                    self.client
                        .rename(&self.cred, parent, &name, new_parent, &new_name, flags)
                        .await,
                )
            })
            .await;
        if reply == Reply::Done {
            let old = self.names.remove(&(parent, name.clone()));
            let replaced = self.names.remove(&(new_parent, new_name.clone()));
            if let Some(ino) = old {
                self.names.insert((new_parent, new_name), ino);
            }
            if let Some(ino) = replaced.filter(|_| exchange) {
                self.names.insert((parent, name), ino);
            }
        }
    }

    pub(super) async fn lookup(&mut self) {
        let (parent, name) = self.existing();
        let op = Op::Lookup {
            parent,
            name: name.clone(),
        };
        let reply = self
            .record(op, async |_| {
                match self.client.lookup(&self.cred, parent, &name).await {
                    Ok(found) => match found.entry {
                        Some(known) => Reply::Entry(seen(&known.attr)),
                        None => Reply::Absent,
                    },
                    Err(Errno(errno)) => Reply::Error(errno),
                }
            })
            .await;
        self.learn(parent, &name, &reply);
        self.forget(parent, &reply);
    }

    /// Lists a directory and learns its names. Returns what it holds.
    pub async fn list_directory(&mut self, dir: u64) -> Vec<(Vec<u8>, u64, Kind)> {
        let reply = self
            .record(Op::List { dir }, async |_| match self.entries(dir).await {
                Ok(entries) => Reply::Listing(entries),
                Err(Errno(errno)) => Reply::Error(errno),
            })
            .await;
        match reply {
            Reply::Listing(entries) => entries,
            reply => {
                self.forget(dir, &reply);
                Vec::new()
            }
        }
    }

    pub(super) async fn list(&mut self) {
        let dir = self.directory();
        for (name, ino, kind) in self.list_directory(dir).await {
            self.names.insert((dir, name), ino);
            match kind {
                Kind::Directory => remember(&mut self.directories, ino),
                Kind::File => remember(&mut self.files, ino),
                Kind::Symlink => remember(&mut self.symlinks, ino),
                Kind::Fifo => {}
            }
        }
    }

    pub(super) async fn entries(&self, dir: u64) -> Result<Vec<(Vec<u8>, u64, Kind)>, Errno> {
        let handle = self.client.opendir(&self.cred, dir).await?;
        let mut entries = Vec::new();
        let mut after = 0;
        let plus = dir.is_multiple_of(2);
        let result = loop {
            match self.client.readdir(handle, after, 100, plus).await {
                Ok(page) => {
                    let Some(last) = page.last() else {
                        break Ok(entries);
                    };
                    after = last.cookie;
                    for entry in page {
                        if !matches!(&entry.name[..], b"." | b"..") {
                            entries.push((
                                entry.name.to_vec(),
                                entry.ino,
                                kind_of(entry.kind as i32),
                            ));
                        }
                    }
                }
                Err(errno) => break Err(errno),
            }
        };
        self.client.releasedir(handle);
        result
    }
}
