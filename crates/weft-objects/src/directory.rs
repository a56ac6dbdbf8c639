//! The directory that a store lies in: whose it is, before anything in it is changed (`docs/protocols/founding.md`).

use crate::error::{Error, IoContext, Result};
use crate::identity::{self, Identity, boot_of};
use crate::modified::Modified;
use crate::object::Objects;
use crate::store::Store;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weft_env::{Env, Lock};
use weft_types::{Epoch, Member, NameSpaceId, PairId};

pub(crate) const OBJECTS: &str = "objects";
/// Names that may be in a directory that is made a store: what making one leaves if it is killed,
/// and what a fresh file system has.
const HARMLESS: [&str; 5] = [
    OBJECTS,
    "lost+found",
    "store.new",
    "modified",
    "modified.new",
];

/// A directory that holds the store of one member of a pair, or nothing. As long as this lives no other process has it.
pub struct Directory {
    env: Env,
    path: PathBuf,
    pair: PairId,
    member: Member,
    /// None: the directory is not there.
    lock: Option<Lock>,
    identity: Option<Identity>,
}

impl Directory {
    /// Looks at a directory, and changes nothing.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Misplaced`] if the directory holds something else, or the store
    /// of another pair or member; [`Error::Format`] if it is of another version; [`Error::Io`].
    pub async fn look(env: Env, path: &Path, pair: PairId, member: Member) -> Result<Directory> {
        let directory = |lock, identity| Directory {
            env: env.clone(),
            path: path.to_owned(),
            pair,
            member,
            lock,
            identity,
        };
        match env.read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(directory(None, None)),
            items => items.context("list", path)?,
        };
        let lock = lock(&env, path)?;
        let identity = Identity::load(&env, path).await?;
        match &identity {
            None => check_empty(&env, path)?,
            Some(identity) if (identity.pair, identity.member) != (pair, member) => {
                return Err(Error::Misplaced {
                    path: path.to_owned(),
                    reason: format!(
                        "this is the store of member {} of pair {}, not of member {member} of pair {pair}: set `dir` to \
                         the directory of that one, or `pair` and `member` to those of this directory",
                        identity.member, identity.pair
                    ),
                });
            }
            Some(_) => {}
        }
        Ok(directory(Some(lock), identity))
    }

    /// The store that is in it. `None`: it is empty, or not there.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Opens its store. Where there is none it is made, for the name space, if that is known.
    ///
    /// # Errors
    /// As [`Directory::look`]; [`Error::Io`].
    pub async fn open(self, name_space: Option<NameSpaceId>) -> Result<Store> {
        let Some(lock) = self.lock else {
            self.env
                .create_dir_all(&self.path)
                .context("create directory", &self.path)?;
            let made = Directory::look(self.env, &self.path, self.pair, self.member).await?;
            return Box::pin(made.open(name_space)).await;
        };
        let identity = match self.identity {
            Some(identity) => identity,
            None => {
                let identity = Identity {
                    store_id: u128::from(self.env.random()) << 64 | u128::from(self.env.random()),
                    name_space,
                    pair: self.pair,
                    member: self.member,
                    last_epoch: Epoch(0),
                    last_mode: None,
                    was_serving: false,
                    was_settled_alone: false,
                    life: 0,
                    offered: 0,
                    // Nothing of what is written from now on has been taken by then.
                    boot: boot_of(&self.env),
                };
                make(&self.env, &self.path, &identity).await?;
                identity
            }
        };
        // Now it is known that it is this one.
        self.env.close_to_others(&self.path);
        Store::of(self.env, &self.path, identity, lock).await
    }
}

fn lock(env: &Env, path: &Path) -> Result<Lock> {
    match env.lock_dir(path) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::Locked(path.to_owned())),
        locked => locked.context("lock", path),
    }
}

/// Refuses a directory that has something, and is no store.
fn check_empty(env: &Env, path: &Path) -> Result<()> {
    let objects = path.join(OBJECTS);
    for item in env.read_dir(path).context("list", path)? {
        if !HARMLESS.contains(&item.name.as_str()) {
            return Err(not_a_store(path, &item.name));
        }
        if item.name == OBJECTS {
            for sub in env.read_dir(&objects).context("list", &objects)? {
                let below = objects.join(&sub.name);
                if !sub.is_dir {
                    return Err(not_a_store(&objects, &sub.name));
                }
                let files = env.read_dir(&below).context("list", &below)?;
                if let Some(file) = files.first() {
                    return Err(not_a_store(&below, &file.name));
                }
            }
        }
    }
    Ok(())
}

/// Makes an empty directory a store. The identity comes last: a kill before it leaves a directory
/// that is made a store again.
async fn make(env: &Env, path: &Path, identity: &Identity) -> Result<()> {
    let objects = path.join(OBJECTS);
    Objects::format(env, &objects)?;
    env.sync_dir(&objects).await.context("sync", &objects)?;
    Modified::create(env, path, identity.store_id).await?;
    identity.save(env, path).await?;
    tracing::info!(dir = %path.display(), pair = %identity.pair, member = %identity.member, "made a new store");
    Ok(())
}

fn not_a_store(path: &Path, name: &str) -> Error {
    Error::Misplaced {
        path: path.to_owned(),
        reason: format!(
            "holds `{name}` but no file `{}`: not a Weft store, and not empty. Set `dir` to the directory of the store, \
             or to an empty one",
            identity::FILE
        ),
    }
}
