//! Operations by a user who owns nothing, in a tree that is all root's.

use super::draw::Try;
use super::{Worker, done};
use crate::oracle::history::Op;
use weft_client::{Cred, Errno, OpenFlags, SetAttr};

/// Neither root nor in root's group.
fn user() -> Cred {
    Cred {
        uid: 1000,
        gid: 1000,
        groups: vec![1001],
    }
}

impl Worker {
    pub(super) async fn as_user(&mut self, choice: Try) {
        let cred = user();
        if choice == Try::UnlinkAsUser {
            let (parent, name) = self.existing();
            let op = Op::UnlinkAsUser {
                parent,
                name: name.clone(),
            };
            self.record(op, async |_| {
                done(self.client.unlink(&cred, parent, &name).await)
            })
            .await;
            return;
        }
        let Some(&ino) = self.rng.choose(&self.files) else {
            return;
        };
        let write = self.rng.once_in(2);
        let reply = match choice {
            Try::Access => {
                let mask = self.rng.below(8) as u32;
                let op = Op::Access { ino, mask };
                self.record(op, async |_| {
                    done(self.client.access(&cred, ino, mask).await)
                })
                .await
            }
            Try::OpenAsUser => {
                let op = Op::OpenAsUser { ino, write };
                self.record(op, async |_| done(self.open_as(&cred, ino, write).await))
                    .await
            }
            _ => {
                let set = SetAttr {
                    mode: Some(0o777),
                    ..SetAttr::default()
                };
                self.record(Op::ChmodAsUser { ino }, async |_| {
                    done(self.client.setattr(&cred, ino, set, None).await)
                })
                .await
            }
        };
        self.forget(ino, &reply);
    }

    async fn open_as(&self, cred: &Cred, ino: u64, write: bool) -> Result<(), Errno> {
        let flags = OpenFlags {
            read: !write,
            write,
            ..OpenFlags::default()
        };
        let handle = self.client.open(cred, ino, flags).await?;
        self.client.release(handle, None).await
    }
}
