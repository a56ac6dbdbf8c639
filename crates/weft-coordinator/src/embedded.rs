//! The view in a file, for the processes of one machine.
//!
//! ```text
//! view           the record; replaced as a whole: after a crash it holds the old view or the new one
//! view.lock      whoever changes the view has it locked
//! alive.lock     whoever looks at, adds to or removes from `alive` has it locked
//! alive/<name>   locked by the process that announced the name, as long as that lives:
//!                8 bytes incarnation, 4 bytes CRC-32C of it, little-endian
//! incarnation    the last incarnation that was given, in the same form
//! ```
//! A file that is locked for a moment is waited for. A process that is stopped while it has one keeps
//! the others waiting, and they say so: nothing else could be safe.

use crate::{
    Announced, Announcement, Answer, CoordinatorError, Limits, Listing, Record, Reply, Service,
    Unanswered, ViewKeeper, name, record,
};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Env, Lock, OpenMode};

/// How often a watch looks at what another process may have changed. Elections do not wait for that (the
/// members of a group tell each other), and it costs about 20 us each time.
const LOOK: Duration = Duration::from_millis(50);
/// Between two attempts at a lock that another process has for the length of one small write.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A coordinator in a directory.
pub type Embedded = ViewKeeper<Files>;

impl Embedded {
    /// Opens the view in `dir`, or none yet. Any number of processes of one machine may have it open. Nothing is made there
    /// before somebody writes a view or announces a name: it may not be the right directory.
    ///
    /// # Errors
    /// If the file cannot be read or is no view.
    pub async fn open(env: &Env, dir: PathBuf) -> Result<Embedded, CoordinatorError> {
        let files = Files {
            env: env.clone(),
            dir,
            changed: Rc::default(),
        };
        let keeper = ViewKeeper::new(env, files, Limits::default().answer());
        crate::Coordinator::view(&keeper).await?;
        Ok(keeper)
    }
}

/// The files of a coordinator.
#[derive(Clone)]
pub struct Files {
    env: Env,
    dir: PathBuf,
    /// Wakes watches of this handle without waiting for their next look.
    changed: Rc<Notify>,
}

impl Files {
    fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    fn failed(&self, file: &str, error: &io::Error) -> Unanswered {
        Unanswered(format!("{}: {error}", self.path(file).display()))
    }

    /// Makes a directory below this one, or this one.
    fn make(&self, dir: &str) -> Result<(), Unanswered> {
        let made = self.env.create_dir_all(&self.path(dir));
        made.map_err(|error| self.failed(dir, &error))
    }

    /// Locks a file that others have for short times only.
    async fn lock(&self, file: &str) -> Result<Lock, Unanswered> {
        loop {
            if let Some(lock) = self.try_lock(file)? {
                return Ok(lock);
            }
            self.env.sleep(LOCK_PAUSE).await;
        }
    }

    /// `None` if another has it.
    fn try_lock(&self, file: &str) -> Result<Option<Lock>, Unanswered> {
        match self.env.lock(&self.path(file)) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.failed(file, &error)),
        }
    }

    async fn read_file(&self, file: &str) -> Result<Vec<u8>, Unanswered> {
        let content = self.env.read_file(&self.path(file)).await;
        Ok(content
            .map_err(|error| self.failed(file, &error))?
            .unwrap_or_default())
    }

    async fn read_record(&self) -> Result<Record, Unanswered> {
        let bytes = self.read_file("view").await?;
        // What is no view has no version; the keeper says so.
        let version = record::decode(&bytes).map_or(0, |view| view.version);
        Ok(Record {
            bytes,
            revision: version,
            seen: version,
        })
    }

    async fn replace_record(&self, revision: u64, bytes: Vec<u8>) -> Result<bool, Unanswered> {
        self.make("")?;
        let lock = loop {
            if let Some(lock) = self.try_lock("view.lock")? {
                break lock;
            }
            // Whoever has it may have been faster: who waits on would only ever be late.
            if self.read_record().await?.revision != revision {
                return Ok(false);
            }
            self.env.sleep(LOCK_PAUSE).await;
        };
        let files = self.clone();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // A task of its own: who stops waiting for a slow disk must not let the lock go with a write
        // half done.
        self.env.spawn("change of the view", async move {
            let replaced = files.replace_locked(revision, bytes).await;
            drop(lock);
            // Nobody may be waiting any more.
            let _: Result<(), _> = sender.send(replaced);
        });
        receiver
            .await
            .unwrap_or_else(|_| Err(Unanswered("this process is about to end".to_owned())))
    }

    async fn replace_locked(&self, revision: u64, bytes: Vec<u8>) -> Result<bool, Unanswered> {
        if self.read_record().await?.revision != revision {
            return Ok(false);
        }
        let replaced = self.env.replace_file(&self.path("view"), bytes).await;
        self.changed.notify_waiters();
        replaced.map_err(|error| self.failed("view", &error))?;
        Ok(true)
    }

    /// A handle on the same directory wakes watches at once, another process's are found by looking.
    async fn look(&self) -> Result<(), Unanswered> {
        let _: Result<(), weft_env::Elapsed> =
            self.env.timeout(LOOK, self.changed.notified()).await;
        Ok(())
    }

    /// Who is announced. A file that nobody has locked is a dead process's: it is removed.
    async fn read_list(&self) -> Result<Announced, Unanswered> {
        self.make("")?;
        let _lock = self.lock("alive.lock").await?;
        let items = match self.env.read_dir(&self.path("alive")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|error| self.failed("alive", &error))?,
        };
        let mut announced = Announced::new();
        for item in items {
            let Some(name) = name::unescape(&item.name) else {
                continue;
            };
            let file = alive(&name);
            match self.try_lock(&file)? {
                None => {
                    let incarnation = decode_number(&self.read_file(&file).await?);
                    announced.extend(incarnation.map(|number| (name, number)));
                }
                Some(_dead) => self
                    .env
                    .remove_file(&self.path(&file))
                    .map_err(|error| self.failed(&file, &error))?,
            }
        }
        Ok(announced)
    }

    async fn take(&self, name: &str) -> Result<Option<(Lock, u64)>, Unanswered> {
        self.make("alive")?;
        let _lock = self.lock("alive.lock").await?;
        let file = alive(name);
        let Some(held) = self.try_lock(&file)? else {
            return Ok(None);
        };
        let last = self.read_file("incarnation").await?;
        if !last.is_empty() && decode_number(&last).is_none() {
            let damaged = io::Error::other("is damaged; remove it while no server runs");
            return Err(self.failed("incarnation", &damaged));
        }
        let incarnation = decode_number(&last).unwrap_or(0) + 1;
        self.env
            .replace_file(&self.path("incarnation"), encode_number(incarnation))
            .await
            .map_err(|error| self.failed("incarnation", &error))?;
        self.write_number(&self.path(&file), incarnation)
            .await
            .map_err(|error| self.failed(&file, &error))?;
        self.changed.notify_waiters();
        Ok(Some((held, incarnation)))
    }

    /// In place: replacing the file would leave the lock on the one that was there before. Nobody reads
    /// it meanwhile, and after a power cut nobody has it.
    async fn write_number(&self, path: &Path, number: u64) -> io::Result<()> {
        let file = self.env.open(path, OpenMode::Create).await?;
        file.set_len(0)?;
        file.write_at(0, vec![encode_number(number).into()]).await
    }
}

fn alive(name: &str) -> String {
    format!("alive/{}", name::escape(name))
}

fn encode_number(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&number.to_le_bytes()).to_le_bytes());
    bytes
}

fn decode_number(bytes: &[u8]) -> Option<u64> {
    let number = bytes.get(..8)?.try_into().ok().map(u64::from_le_bytes)?;
    (encode_number(number) == bytes).then_some(number)
}

impl Service for Files {
    fn place(&self) -> String {
        self.path("view").display().to_string()
    }

    fn read(&self) -> Reply<'_, Record> {
        Box::pin(self.read_record())
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        Box::pin(self.replace_record(revision, bytes))
    }

    fn record_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(self.look())
    }

    fn list(&self) -> Reply<'_, Listing> {
        Box::pin(async {
            Ok(Listing {
                announced: self.read_list().await?,
                seen: 0,
            })
        })
    }

    fn list_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(self.look())
    }

    fn announce<'a>(&'a self, name: &'a str, _term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(async move {
            let taken = self.take(name).await;
            let taken = taken.map_err(|Unanswered(why)| CoordinatorError::Unavailable(why))?;
            let Some((held, incarnation)) = taken else {
                return Err(CoordinatorError::Taken {
                    name: name.to_owned(),
                });
            };
            let (announcement, holder) = Announcement::new(name, incarnation, 0);
            let changed = self.changed.clone();
            self.env.spawn("announcement", async move {
                holder.withdrawing().await;
                drop(held);
                changed.notify_waiters();
            });
            Ok(announcement)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coordinator;

    #[test]
    fn a_damaged_view_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let keeper = Embedded::open(&env, dir.path().to_owned()).await.unwrap();
            let path = dir.path().join("view");
            env.replace_file(&path, b"WEFTVIEW and no view".to_vec())
                .await
                .unwrap();
            for error in [
                keeper.view().await.unwrap_err(),
                keeper.watch(0).await.unwrap_err(),
                keeper
                    .compare_and_set(Default::default())
                    .await
                    .unwrap_err(),
                Embedded::open(&env, dir.path().to_owned())
                    .await
                    .err()
                    .unwrap(),
            ] {
                assert!(matches!(error, CoordinatorError::Corrupt(_)), "{error:?}");
                assert!(
                    error.to_string().contains(path.to_str().unwrap()),
                    "{error}"
                );
            }
        })
        .unwrap();
    }

    #[test]
    fn what_a_process_has_locked_keeps_others_waiting_for_a_bounded_time() {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let files = Files {
                env: env.clone(),
                dir: dir.path().to_owned(),
                changed: Rc::default(),
            };
            let keeper = ViewKeeper::new(&env, files, Duration::from_millis(200));
            let lock = env.lock(&dir.path().join("view.lock")).unwrap();
            let next = weft_wire::proto::View {
                version: 1,
                ..Default::default()
            };
            let stopped = keeper.compare_and_set(next.clone()).await.unwrap_err();
            assert!(
                matches!(stopped, CoordinatorError::Unknown { .. }),
                "{stopped:?}"
            );
            drop(lock);
            keeper.compare_and_set(next).await.unwrap();
        })
        .unwrap();
    }

    #[test]
    fn an_old_copy_of_the_view_is_not_told_to_who_saw_a_newer_one() {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let keeper = Embedded::open(&env, dir.path().to_owned()).await.unwrap();
            let next = |version| weft_wire::proto::View {
                version,
                ..Default::default()
            };
            keeper.compare_and_set(next(1)).await.unwrap();
            let path = dir.path().join("view");
            let old = env.read_file(&path).await.unwrap().unwrap();
            keeper.compare_and_set(next(2)).await.unwrap();
            env.replace_file(&path, old).await.unwrap();
            let error = keeper.view().await.unwrap_err();
            assert!(error.to_string().contains("old copy"), "{error}");
        })
        .unwrap();
    }
}
