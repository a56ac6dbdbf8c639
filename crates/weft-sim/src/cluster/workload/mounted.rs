//! A client that is a mount: what it does goes by way of the modelled kernel and the real face.
//!
//! A program knows inodes by what it holds: descriptors of directories and files (O_PATH), and open files. It does
//! what the model has; the other operations are looked up names instead. A call that Linux does in two moments (a name,
//! then what it names) is two operations of the history.

use super::Worker;
use super::draw::{FILE_BYTES, Try};
use crate::kernel::{File, Held, Mount, Stat, Thread};
use crate::oracle::content;
use crate::oracle::history::{Kind, Op, Reply};
use weft_client::Errno;

/// Descriptors of each kind, at most.
const HELD_MAX: usize = 8;
/// Open files, at most.
const FILES_MAX: usize = 5;

/// A program on a mount.
pub(in crate::cluster) struct Mounted {
    thread: Thread,
    /// The root first.
    directories: Vec<Held>,
    files: Vec<Held>,
    open: Vec<Open>,
}

struct Open {
    file: File,
    append: bool,
}

impl Mounted {
    /// One that has nothing but the root.
    pub fn new(mount: &Mount) -> Mounted {
        let thread = mount.thread();
        Mounted {
            directories: vec![thread.root()],
            thread,
            files: Vec::new(),
            open: Vec::new(),
        }
    }

    fn keep(&mut self, held: Held) {
        let list = match held.kind() {
            Kind::Directory => &mut self.directories,
            Kind::File => &mut self.files,
            _ => return self.thread.release(held),
        };
        if list.iter().any(|other| other.ino() == held.ino()) {
            return self.thread.release(held);
        }
        list.push(held);
        if list.len() > HELD_MAX {
            let oldest = list.remove(1);
            self.thread.release(oldest);
        }
    }
}

/// A call's reply, for the history.
fn told<T>(result: &Result<T, Errno>, reply: impl FnOnce(&T) -> Reply) -> Reply {
    match result {
        Ok(value) => reply(value),
        Err(Errno(errno)) => Reply::Error(*errno),
    }
}

fn seen(stat: &Stat) -> Reply {
    Reply::Entry(stat.seen())
}

/// Which inode it was, and nothing of its attributes.
fn number(stat: &Stat) -> Reply {
    let seen = stat.seen();
    Reply::Inode(seen.ino, seen.kind)
}

impl Worker {
    /// One operation, of a worker that is a mount.
    pub(super) async fn attempt_mounted(&mut self, mounted: &mut Mounted, choice: Try) {
        match choice {
            Try::Create => self.create_mounted(mounted).await,
            Try::Mkdir => self.mkdir_mounted(mounted).await,
            Try::Link => self.link_mounted(mounted).await,
            Try::Unlink | Try::Rmdir => self.remove_mounted(mounted, choice == Try::Rmdir).await,
            Try::Rename | Try::Exchange => {
                let flags = match choice {
                    Try::Exchange => libc::RENAME_EXCHANGE,
                    _ if self.rng.once_in(4) => libc::RENAME_NOREPLACE,
                    _ => 0,
                };
                self.rename_mounted(mounted, flags).await;
            }
            Try::List => self.list_mounted(mounted).await,
            Try::Open => self.open_mounted(mounted).await,
            Try::Close => {
                if !mounted.open.is_empty() {
                    let index = self.rng.below(mounted.open.len() as u64) as usize;
                    self.close_mounted(mounted, index).await;
                }
            }
            Try::Read | Try::Write | Try::Append | Try::Fsync => {
                self.on_file_mounted(mounted, choice).await;
            }
            Try::Getattr | Try::Chmod | Try::Truncate => {
                self.on_held_mounted(mounted, choice).await;
            }
            _ => self.lookup_mounted(mounted).await,
        }
    }

    /// Closes what is open.
    pub(super) async fn end_mounted(&mut self, mounted: &mut Mounted) {
        while !mounted.open.is_empty() {
            self.close_mounted(mounted, 0).await;
        }
    }

    fn dir_mounted(&mut self, mounted: &Mounted) -> Held {
        let index = match self.rng.once_in(2) {
            true => 0,
            false => self.rng.below(mounted.directories.len() as u64) as usize,
        };
        mounted.directories[index].clone()
    }

    async fn create_mounted(&mut self, mounted: &mut Mounted) {
        let dir = self.dir_mounted(mounted);
        let name = self.name(false);
        let (exclusive, append) = (self.rng.once_in(3), self.rng.once_in(4));
        let op = Op::Create {
            parent: dir.ino(),
            name: name.clone(),
            mode: 0o644,
            exclusive,
            truncate: false,
        };
        let flags = libc::O_RDWR
            | libc::O_CREAT
            | if exclusive { libc::O_EXCL } else { 0 }
            | if append { libc::O_APPEND } else { 0 };
        let mut opened = None;
        self.record(op, async |_| {
            let result = mounted.thread.open(&dir, &name, flags, 0o644).await;
            let reply = told(&result, |file| Reply::Inode(file.ino(), Kind::File));
            opened = result.ok();
            reply
        })
        .await;
        if let Some(file) = opened {
            mounted.keep(file.held());
            self.keep_open(mounted, file, append).await;
        }
    }

    async fn keep_open(&mut self, mounted: &mut Mounted, file: File, append: bool) {
        mounted.open.push(Open { file, append });
        if mounted.open.len() > FILES_MAX {
            let index = self.rng.below(mounted.open.len() as u64) as usize;
            self.close_mounted(mounted, index).await;
        }
    }

    async fn mkdir_mounted(&mut self, mounted: &mut Mounted) {
        let dir = self.dir_mounted(mounted);
        let name = self.name(true);
        let op = Op::Mkdir {
            parent: dir.ino(),
            name: name.clone(),
            mode: 0o755,
        };
        self.record(op, async |_| {
            let made = mounted.thread.mkdir(&dir, &name, 0o755).await;
            told(&made, number)
        })
        .await;
        self.look_up_mounted(mounted, &dir, &name).await;
    }

    async fn link_mounted(&mut self, mounted: &mut Mounted) {
        let Some(held) = self.rng.choose(&mounted.files).cloned() else {
            return;
        };
        let dir = self.dir_mounted(mounted);
        let name = self.name(false);
        let op = Op::Link {
            ino: held.ino(),
            parent: dir.ino(),
            name: name.clone(),
        };
        self.record(op, async |_| {
            let linked = mounted.thread.link(&held, &dir, &name).await;
            told(&linked, number)
        })
        .await;
    }

    async fn remove_mounted(&mut self, mounted: &mut Mounted, is_dir: bool) {
        let dir = self.dir_mounted(mounted);
        let name = self.name(is_dir);
        let (parent, removed) = (dir.ino(), name.clone());
        let op = match is_dir {
            true => Op::Rmdir {
                parent,
                name: removed,
            },
            false => Op::Unlink {
                parent,
                name: removed,
            },
        };
        self.record(op, async |_| {
            let removed = mounted.thread.remove(&dir, &name, is_dir).await;
            told(&removed, |()| Reply::Done)
        })
        .await;
    }

    async fn rename_mounted(&mut self, mounted: &mut Mounted, flags: u32) {
        let (dir, new_dir) = (self.dir_mounted(mounted), self.dir_mounted(mounted));
        let is_dir = self.rng.once_in(4);
        let (name, new_name) = (self.name(is_dir), self.name(is_dir));
        let op = Op::Rename {
            parent: dir.ino(),
            name: name.clone(),
            new_parent: new_dir.ino(),
            new_name: new_name.clone(),
            no_replace: flags == libc::RENAME_NOREPLACE,
            exchange: flags == libc::RENAME_EXCHANGE,
        };
        self.record(op, async |_| {
            let (from, to) = ((&dir, &name[..]), (&new_dir, &new_name[..]));
            let renamed = mounted.thread.rename(from, to, flags).await;
            told(&renamed, |()| Reply::Done)
        })
        .await;
    }

    async fn lookup_mounted(&mut self, mounted: &mut Mounted) {
        let dir = self.dir_mounted(mounted);
        let is_dir = self.rng.once_in(4);
        let name = self.name(is_dir);
        self.look_up_mounted(mounted, &dir, &name).await;
    }

    async fn look_up_mounted(&mut self, mounted: &mut Mounted, dir: &Held, name: &[u8]) {
        let op = Op::Lookup {
            parent: dir.ino(),
            name: name.to_vec(),
        };
        let mut found = None;
        self.record(op, async |_| {
            let result = mounted.thread.open_path(dir, name).await;
            let reply = match &result {
                Err(Errno(libc::ENOENT)) => Reply::Absent,
                result => told(result, |held| Reply::Inode(held.ino(), held.kind())),
            };
            found = result.ok();
            reply
        })
        .await;
        if let Some(held) = found {
            mounted.keep(held);
        }
    }

    async fn list_mounted(&mut self, mounted: &mut Mounted) {
        let dir = self.dir_mounted(mounted);
        self.record(Op::List { dir: dir.ino() }, async |_| {
            let listed = mounted.thread.list(&dir).await;
            told(&listed, |entries| Reply::Listing(entries.clone()))
        })
        .await;
    }

    async fn open_mounted(&mut self, mounted: &mut Mounted) {
        let Some(held) = self.rng.choose(&mounted.files).cloned() else {
            return;
        };
        let append = self.rng.once_in(4);
        let flags = libc::O_RDWR | if append { libc::O_APPEND } else { 0 };
        let op = Op::Open {
            ino: held.ino(),
            truncate: false,
        };
        let mut opened = None;
        self.record(op, async |_| {
            let result = mounted.thread.open_held(&held, flags).await;
            let reply = told(&result, |_| Reply::Done);
            opened = result.ok();
            reply
        })
        .await;
        if let Some(file) = opened {
            self.keep_open(mounted, file, append).await;
        }
    }

    async fn close_mounted(&mut self, mounted: &mut Mounted, index: usize) {
        let Open { file, .. } = mounted.open.remove(index);
        let op = Op::Close {
            ino: file.ino(),
            owner: 0,
        };
        self.record(op, async |_| {
            told(&mounted.thread.close(file).await, |()| Reply::Done)
        })
        .await;
    }

    async fn on_held_mounted(&mut self, mounted: &mut Mounted, choice: Try) {
        let Some(held) = self.rng.choose(&mounted.files).cloned() else {
            return;
        };
        let mode = [0o600, 0o644, 0o666, 0o755][self.rng.below(4) as usize];
        let size = self.rng.below(FILE_BYTES);
        let ino = held.ino();
        let op = match choice {
            Try::Chmod => Op::Chmod { ino, mode },
            Try::Truncate => Op::Truncate { ino, size },
            _ => Op::Getattr { ino },
        };
        self.record(op, async |_| {
            let thread = &mounted.thread;
            let stat = match choice {
                Try::Chmod => thread.chmod(&held, mode).await,
                Try::Truncate => thread.truncate(&held, size).await,
                _ => thread.stat_held(&held).await,
            };
            // The others tell a program nothing but that they were done.
            match choice {
                Try::Getattr => told(&stat, seen),
                _ => told(&stat, number),
            }
        })
        .await;
    }

    async fn on_file_mounted(&mut self, mounted: &mut Mounted, choice: Try) {
        if mounted.open.is_empty() {
            self.open_mounted(mounted).await;
        }
        let Some(index) = (mounted.open.len() as u64).checked_sub(1) else {
            return;
        };
        let index = self.rng.below(index + 1) as usize;
        let (offset, length) = (self.offset(), self.length());
        let Open { file, append } = &mounted.open[index];
        let (ino, thread) = (file.ino(), &mounted.thread);
        match choice {
            Try::Read => {
                let length = 2 * length;
                let op = Op::Read {
                    ino,
                    offset,
                    length,
                };
                let history = &self.shared.history;
                self.record(op, async |number| {
                    let read = thread.pread_and_how(file, offset, length as usize).await;
                    if let Ok((_, Some(how))) = &read {
                        history.went_by_cache(number, *how);
                    }
                    told(&read, |(bytes, _)| Reply::Bytes(bytes.clone().into()))
                })
                .await;
            }
            Try::Fsync => {
                let data_only = self.rng.once_in(3);
                self.record(Op::Fsync { ino, data_only }, async |_| {
                    let synced = thread.fsync(file, data_only).await;
                    told(&synced, |()| Reply::Done)
                })
                .await;
            }
            _ => {
                let op = Op::Write {
                    ino,
                    offset,
                    length,
                    append: *append,
                    sync: false,
                };
                let history = &self.shared.history;
                self.record(op, async |number| {
                    let data = content::bytes(number, length).into();
                    let sent = |end: u64| history.sent_until(number, end);
                    let written = thread.pwrite_telling(file, offset, data, &sent).await;
                    told(&written, |(_, count)| match *count as u64 == length {
                        true => Reply::Done,
                        false => Reply::Written(*count as u64),
                    })
                })
                .await;
            }
        }
    }
}
