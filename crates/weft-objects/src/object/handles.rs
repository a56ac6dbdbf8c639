//! The objects of a directory by name: finding, making, opening, removing, syncing them.

use super::{Object, Objects};
use crate::error::{Error, IoContext, Result};
use crate::lru::Lru;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::sync::OnceCell;
use weft_env::{Env, OpenMode};
use weft_types::{Ino, ObjectId};

/// Object files kept open, at most. More would not be faster.
const OPEN_FILES: usize = 512;
/// And this part of what the process may have open, so that connections and logs find theirs.
const OPEN_FILES_SHARE: usize = 2;
/// Checksum pages kept in memory: 64 MiB at most, for 32 GiB of data under them.
const PAGES: usize = 16384;
/// Sub-directories that objects are spread over.
pub(crate) const FAN_OUT: usize = 256;

/// The sub-directory of an object: files made one after the other share one for a while, so that
/// few directories are written at a time; the slot sets those of different directories apart.
fn fan_out(id: ObjectId) -> u8 {
    ((id.ino.0 >> 8) as u8).wrapping_add((id.ino.slot().0 as u8).wrapping_mul(37))
}

fn parse_name(name: &str) -> Option<ObjectId> {
    let (ino, generation) = name.split_once('.')?;
    let id = ObjectId {
        ino: Ino(u64::from_str_radix(ino, 16).ok()?),
        generation: generation.parse().ok()?,
    };
    (id.to_string() == name).then_some(id)
}

fn is_not_there(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn is_read_only(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EROFS)
}

impl Objects {
    /// Makes the empty sub-directories.
    pub fn format(env: &Env, dir: &Path) -> Result<()> {
        for number in 0..FAN_OUT {
            let sub = dir.join(format!("{number:02x}"));
            env.create_dir_all(&sub).context("create directory", &sub)?;
        }
        Ok(())
    }

    /// Lists what is there.
    pub fn open(env: Env, dir: PathBuf) -> Result<Objects> {
        let mut index = BTreeSet::new();
        for number in 0..FAN_OUT {
            let sub = dir.join(format!("{number:02x}"));
            for item in env.read_dir(&sub).context("list", &sub)? {
                match parse_name(&item.name) {
                    Some(id) if usize::from(fan_out(id)) == number => {
                        index.insert(id);
                    }
                    _ => tracing::warn!(
                        path = %sub.join(&item.name).display(),
                        "this is not an object's name; left alone"
                    ),
                }
            }
        }
        let open_files = (env.files_max() / OPEN_FILES_SHARE).min(OPEN_FILES);
        Ok(Objects {
            env,
            dir,
            index: RefCell::new(index),
            open: RefCell::new(Lru::new(open_files)),
            groups: RefCell::new(Lru::new(PAGES)),
            unsynced_dirs: RefCell::new((0..=u8::MAX).map(|number| (number, 0)).collect()),
            name_changes: Cell::new(0),
            content_changes: Cell::new(0),
            sync_failed: Cell::new(false),
        })
    }

    pub(super) fn note_change(&self) {
        self.content_changes.set(self.content_changes.get() + 1);
    }

    /// Grows with each change of an object, and with each one that is made or removed.
    pub fn changes(&self) -> u64 {
        self.content_changes.get() + self.name_changes.get()
    }

    fn note_unsynced(&self, id: ObjectId) {
        let change = self.name_changes.get() + 1;
        self.name_changes.set(change);
        self.unsynced_dirs.borrow_mut().insert(fan_out(id), change);
    }

    pub(super) fn path(&self, id: ObjectId) -> PathBuf {
        self.dir.join(format!("{:02x}/{id}", fan_out(id)))
    }

    pub fn count(&self) -> usize {
        self.index.borrow().len()
    }

    pub fn contains(&self, id: ObjectId) -> bool {
        self.index.borrow().contains(&id)
    }

    /// Up to `max` objects after `after`, in order.
    pub fn after(&self, after: Option<ObjectId>, max: usize) -> Vec<ObjectId> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let index = self.index.borrow();
        index
            .range((from, Bound::Unbounded))
            .take(max)
            .copied()
            .collect()
    }

    /// The object if there is one.
    pub async fn existing(&self, id: ObjectId) -> Result<Option<Rc<Object>>> {
        if !self.contains(id) {
            return Ok(None);
        }
        match self.opened(id, OpenMode::Write).await {
            Err(error) if is_not_there(&error) => {
                self.is_gone(id);
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Somebody else has removed the object's file: there is no such object any more.
    fn is_gone(&self, id: ObjectId) {
        let made_anew = self.open.borrow_mut().get(&id);
        if made_anew.is_some_and(|object| object.file.initialized()) {
            return;
        }
        tracing::error!(object = %id, "somebody has removed an object's file");
        self.open.borrow_mut().remove(&id);
        self.groups
            .borrow_mut()
            .remove_range((id, 0)..=(id, u64::MAX));
        self.index.borrow_mut().remove(&id);
    }

    /// The object, made if it is not there.
    pub async fn existing_or_new(&self, id: ObjectId) -> Result<Rc<Object>> {
        match self.existing(id).await? {
            Some(object) => Ok(object),
            None => self.opened(id, OpenMode::Create).await,
        }
    }

    async fn opened(&self, id: ObjectId, mode: OpenMode) -> Result<Rc<Object>> {
        let found = self.open.borrow_mut().get(&id);
        let object = found.unwrap_or_else(|| {
            let object = Rc::new(Object {
                id,
                file: OnceCell::new(),
                physical: Cell::new(0),
            });
            self.open.borrow_mut().insert(id, object.clone());
            object
        });
        let open = async {
            let path = self.path(id);
            let opened = match self.env.open(&path, mode).await {
                // A file system that has given up writing can still be read.
                Err(error) if mode == OpenMode::Write && is_read_only(&error) => {
                    self.env.open(&path, OpenMode::Read).await
                }
                opened => opened,
            };
            let doing = if mode == OpenMode::Create {
                "make"
            } else {
                "open"
            };
            let file = opened.context(doing, &path)?;
            object.physical.set(file.len().context("stat", &path)?);
            if mode == OpenMode::Create {
                self.index.borrow_mut().insert(id);
                self.note_unsynced(id);
            }
            Ok(file)
        };
        object.file.get_or_try_init(|| open).await?;
        Ok(object)
    }

    /// Removes the object; nothing if there is none.
    pub fn remove(&self, id: ObjectId) -> Result<()> {
        if !self.contains(id) {
            return Ok(());
        }
        self.open.borrow_mut().remove(&id);
        self.groups
            .borrow_mut()
            .remove_range((id, 0)..=(id, u64::MAX));
        let path = self.path(id);
        match self.env.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).context("remove", &path);
            }
            _ => {}
        }
        self.index.borrow_mut().remove(&id);
        self.note_unsynced(id);
        Ok(())
    }

    /// Makes the object, and that it is there (or is not), survive a power cut.
    pub async fn sync(&self, id: ObjectId) -> Result<()> {
        self.can_sync()?;
        if let Some(object) = self.existing(id).await? {
            let synced = object.file().sync_data().await;
            self.synced(self.io("sync", &object, synced))?;
        }
        self.sync_names_in(fan_out(id)).await
    }

    /// The sub-directories with creations or removals that a power cut would undo.
    pub fn unsynced(&self) -> Vec<u8> {
        self.unsynced_dirs.borrow().keys().copied().collect()
    }

    /// Makes creations and removals in a sub-directory survive a power cut.
    pub async fn sync_names_in(&self, number: u8) -> Result<()> {
        let unsynced = self.unsynced_dirs.borrow().get(&number).copied();
        if let Some(change) = unsynced {
            self.can_sync()?;
            let sub = self.dir.join(format!("{number:02x}"));
            let synced = self.env.sync_dir(&sub).await;
            self.synced(synced.context("sync", &sub))?;
            // Another sync may wait for this directory too, and names may have come meanwhile: only
            // what was there when the sync began is known to be stable.
            let mut unsynced = self.unsynced_dirs.borrow_mut();
            if unsynced.get(&number) == Some(&change) {
                unsynced.remove(&number);
            }
        }
        Ok(())
    }
}
