//! Operations on an inode given by its number: attributes, targets of symbolic links, sizes.

use super::draw::{FILE_BYTES, Try};
use super::{Worker, done, known};
use crate::oracle::history::{Op, Reply};
use weft_client::{Errno, SetAttr, XattrFlags};

impl Worker {
    pub(super) async fn on_inode(&mut self, choice: Try) {
        let attribute = vec![b'u', b's', b'e', b'r', b'.', b'a' + self.rng.below(3) as u8];
        let ino = match choice {
            Try::Readlink => match self.rng.choose(&self.symlinks) {
                Some(&ino) => ino,
                None => return,
            },
            Try::Truncate => match self.rng.choose(&self.files) {
                Some(&ino) => ino,
                None => return,
            },
            Try::Setxattr | Try::Getxattr | Try::Listxattr | Try::Removexattr => {
                let mut all = self.files.clone();
                all.extend(&self.directories);
                *self.rng.choose(&all).expect("the root is always there")
            }
            // A symlink's mode cannot be set.
            Try::Chmod => match self.rng.choose(&self.files) {
                Some(&ino) => ino,
                None => return,
            },
            _ => self.inode(),
        };
        let mut value = vec![0; self.rng.below(64) as usize];
        self.rng.fill(&mut value);
        let mode = [0o600, 0o644, 0o666, 0o755][self.rng.below(4) as usize];
        let size = self.rng.below(FILE_BYTES);
        let op = match choice {
            Try::Readlink => Op::Readlink { ino },
            Try::Chmod => Op::Chmod { ino, mode },
            Try::Truncate => Op::Truncate { ino, size },
            Try::Setxattr => Op::Setxattr {
                ino,
                name: attribute.clone(),
                value: value.clone(),
            },
            Try::Getxattr => Op::Getxattr {
                ino,
                name: attribute.clone(),
            },
            Try::Listxattr => Op::Listxattr { ino },
            Try::Removexattr => Op::Removexattr {
                ino,
                name: attribute.clone(),
            },
            _ => Op::Getattr { ino },
        };
        let reply = self
            .record(op, async |_| {
                let (client, cred) = (&self.client, &self.cred);
                let bytes = |result: Result<bytes::Bytes, Errno>| match result {
                    Ok(bytes) => Reply::Bytes(bytes),
                    Err(Errno(errno)) => Reply::Error(errno),
                };
                match choice {
                    Try::Readlink => bytes(client.readlink(ino).await),
                    Try::Chmod => {
                        let set = SetAttr {
                            mode: Some(mode),
                            ..SetAttr::default()
                        };
                        known(client.setattr(cred, ino, set, None).await)
                    }
                    Try::Truncate => {
                        let set = SetAttr {
                            size: Some(size),
                            ..SetAttr::default()
                        };
                        known(client.setattr(cred, ino, set, None).await)
                    }
                    Try::Setxattr => done(
                        client
                            .setxattr(cred, ino, &attribute, value.into(), XattrFlags::Any)
                            .await,
                    ),
                    Try::Getxattr => bytes(client.getxattr(cred, ino, &attribute).await),
                    Try::Listxattr => match client.listxattr(cred, ino).await {
                        Ok(names) => {
                            Reply::Names(names.into_iter().map(|name| name.to_vec()).collect())
                        }
                        Err(Errno(errno)) => Reply::Error(errno),
                    },
                    Try::Removexattr => done(client.removexattr(cred, ino, &attribute).await),
                    _ => known(client.getattr(ino).await),
                }
            })
            .await;
        self.forget(ino, &reply);
    }
}
