//! What concerns a name, done in the shard that has it.

use crate::core::Core;
use crate::dirops::Made;
use crate::names::is_dots;
use crate::types::*;
use std::rc::Rc;
use weft_wire::proto::{self, op};

/// A directory is spread once. Whoever is told more often that a name is not where it should be is told wrong.
const TRIES: u32 = 8;

/// What an answer about a name means for who asked.
enum Answer<T> {
    /// It is the answer.
    Stands(Result<T>),
    /// The directory is spread, and was not known to be.
    Elsewhere,
    /// What it says is gone may be a shard.
    Gone,
}

impl<T> Answer<T> {
    fn of(result: Result<T>, is_in_shard: bool) -> Answer<T> {
        match result {
            Err(Errno(libc::EREMCHG)) => Answer::Elsewhere,
            Err(Errno(libc::ESTALE)) if is_in_shard => Answer::Gone,
            result => Answer::Stands(result),
        }
    }
}

impl Core {
    /// Does something with a name, in the directory or in the shard of it that has the name.
    pub(crate) async fn at_name<T>(
        self: &Rc<Self>,
        dir: u64,
        name: &[u8],
        does: impl AsyncFn(u64) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            let place = self.spreads.place(dir, name);
            // Boxed, as what is done is large: not all of it is to be on the stack of whoever asks.
            match Answer::of(Box::pin(does(place)).await, place != dir) {
                Answer::Stands(result) => return result,
                Answer::Elsewhere => self.learn_shards(dir).await?,
                Answer::Gone => match self.why_gone(dir).await {
                    // It is spread otherwise, or not at all.
                    Errno(libc::ESTALE) if self.spreads.place(dir, name) != place => {}
                    errno => return Err(errno),
                },
            }
        }
        Err(Errno(libc::EIO))
    }

    /// Something in a shard is gone, or the shard is: what is to be said of the directory's name.
    async fn why_gone(self: &Rc<Self>, dir: u64) -> Errno {
        match self.known_here(dir).await {
            // Shards go with the directory's last name.
            Ok((_, known)) if known.attr.nlink == 0 => Errno(libc::ENOENT),
            Ok(_) => Errno(libc::ESTALE),
            Err(errno) => errno,
        }
    }

    pub async fn lookup(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<Found> {
        if is_dots(name) {
            // The directory itself knows, and none of its shards.
            let mut found = self.lookup_at(cred, parent, name).await?;
            found.name_leased = false;
            return Ok(found);
        }
        let looked = async |place| self.lookup_at(cred, place, name).await;
        match self.at_name(parent, name, looked).await {
            // Nothing is in a directory that has gone.
            Err(Errno(libc::ENOENT)) if !name.is_empty() => Ok(Found {
                entry: None,
                name_leased: false,
            }),
            found => found,
        }
    }

    pub async fn make(self: &Rc<Self>, cred: &Cred, create: proto::Create) -> Result<Made> {
        let made = async |parent| {
            let create = proto::Create {
                parent,
                ..create.clone()
            };
            self.make_at(cred, create).await
        };
        self.at_name(create.parent, &create.name, made).await
    }

    pub async fn create(
        self: &Rc<Self>,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: CreateFlags,
    ) -> Result<(Known, HandleId)> {
        let made = async |place| self.create_at(cred, place, name, mode, flags).await;
        self.at_name(parent, name, made).await
    }

    pub async fn link(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        parent: u64,
        name: &[u8],
    ) -> Result<Known> {
        let linked = async |place| self.link_at(cred, ino, place, name).await;
        self.at_name(parent, name, linked).await
    }

    pub async fn unlink(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        let unlinked = async |place| self.unlink_at(cred, place, name).await;
        self.at_name(parent, name, unlinked).await
    }

    pub async fn rmdir(self: &Rc<Self>, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        let removed = async |place| self.rmdir_at(cred, place, name).await;
        self.at_name(parent, name, removed).await
    }

    pub async fn rename(
        self: &Rc<Self>,
        cred: &Cred,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let place = |(dir, name): (u64, &[u8])| self.spreads.place(dir, name);
        for _ in 0..TRIES {
            let places = (place(from), place(to));
            let renamed = self.rename_at(cred, (places.0, from.1), (places.1, to.1), flags);
            let is_in_shard = places != (from.0, to.0);
            match Answer::of(Box::pin(renamed).await, is_in_shard) {
                Answer::Stands(result) => return result,
                Answer::Elsewhere => {
                    self.learn_shards(from.0).await?;
                    self.learn_shards(to.0).await?;
                }
                Answer::Gone => {
                    for (dir, place) in [(from.0, places.0), (to.0, places.1)] {
                        if place != dir {
                            match self.why_gone(dir).await {
                                Errno(libc::ESTALE) => {}
                                errno => return Err(errno),
                            }
                        }
                    }
                    return Err(Errno(libc::ESTALE));
                }
            }
        }
        Err(Errno(libc::EIO))
    }

    /// Has a directory's entries put into shards: so many (a power of two), or 0 for as many as suit the groups.
    pub async fn spread(self: &Rc<Self>, cred: &Cred, ino: u64, shards: u32) -> Result<()> {
        let op = op::Op::Spread(proto::Spread {
            ino,
            shards,
            slots: Vec::new(),
        });
        let (reply, link) = self.change_at(ino, cred.clone(), op, false).await?;
        self.take_leases(&link, &reply.leases, ino);
        self.learn_shards(ino).await
    }
}
