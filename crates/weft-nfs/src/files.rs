//! Open files. NFS version 3 has none: a file is open here from its first READ or WRITE until nobody has asked for it
//! for a while.

use crate::status::Status;
use crate::verifier::Verifier;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred, HandleId, OpenFlags};
use weft_env::{Env, Mono};
use weft_xdr::nfs3::nfsstat3;

/// A file that nobody has asked for so long is closed.
const IDLE: Duration = Duration::from_secs(10);
/// One that has lost its last name, already after this long: its bytes take room, and only who goes on reading or writing
/// it misses it.
const ORPHAN_IDLE: Duration = Duration::from_secs(1);
/// How often it is looked which.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Open files at most: beyond, those that have been idle longest are closed earlier.
const FILES_MAX: usize = 4_096;

/// An open file.
struct OpenFile {
    handle: HandleId,
    ino: u64,
    /// The client's session by which it was opened. If there is another one by now, what was buffered is lost.
    session: u64,
    /// Uses in progress.
    uses: Cell<u32>,
    used_at: Cell<Mono>,
    /// Something was written that no fsync has covered.
    is_dirty: Cell<bool>,
}

/// A use of an open file, for as long as an operation takes.
pub(crate) struct Use {
    file: Rc<OpenFile>,
    env: Env,
}

impl Use {
    pub(crate) fn handle(&self) -> HandleId {
        self.file.handle
    }

    /// The session by which the file was opened is over: an error may be due to that alone.
    pub(crate) fn is_over(&self, client: &Client) -> bool {
        client.session_of(self.file.ino) != self.file.session
    }

    /// It is about to be written.
    pub(crate) fn note_written(&self) {
        self.file.is_dirty.set(true);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.file.uses.set(self.file.uses.get() - 1);
        self.file.used_at.set(self.env.now());
    }
}

/// All of a gateway's.
pub(crate) struct Files {
    env: Env,
    client: Rc<Client>,
    verifier: Rc<Verifier>,
    open: RefCell<BTreeMap<u64, Rc<OpenFile>>>,
}

/// Who opens: whether somebody may read or write is asked with each operation.
pub(crate) fn root() -> Cred {
    Cred::default()
}

impl Files {
    pub(crate) fn new(env: &Env, client: &Rc<Client>, verifier: &Rc<Verifier>) -> Rc<Files> {
        let files = Rc::new(Files {
            env: env.clone(),
            client: client.clone(),
            verifier: verifier.clone(),
            open: RefCell::default(),
        });
        let of = Rc::downgrade(&files);
        let env = env.clone();
        files.env.spawn("idle files", async move {
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(files) = of.upgrade() else { return };
                files.close_idle().await;
            }
        });
        files
    }

    fn take(&self, file: &Rc<OpenFile>) -> Use {
        file.uses.set(file.uses.get() + 1);
        Use {
            file: file.clone(),
            env: self.env.clone(),
        }
    }

    /// A use of a file, which is opened for it if it is not.
    ///
    /// # Errors
    /// As opening it.
    pub(crate) async fn get(&self, ino: u64) -> Result<Use, Status> {
        if let Some(file) = self.open.borrow().get(&ino) {
            return Ok(self.take(file));
        }
        let flags = OpenFlags {
            read: true,
            write: true,
            ..OpenFlags::default()
        };
        let handle = self.client.open(&root(), ino, flags).await?;
        Ok(self.adopt(ino, handle))
    }

    /// Files that are open.
    pub(crate) fn count(&self) -> usize {
        self.open.borrow().len()
    }

    /// Takes over a file that was opened for reading and writing.
    pub(crate) fn adopt(&self, ino: u64, handle: HandleId) -> Use {
        let known = self.open.borrow().get(&ino).cloned();
        if let Some(file) = known {
            // Somebody else was faster.
            self.release(handle);
            return self.take(&file);
        }
        // What an earlier session took with it clients are told by the verifier. To fail a write that has nothing to do
        // with it, or a COMMIT, would be an error that no client tries again.
        if let Ok(true) = self.client.takes_word_of_loss(handle) {
            self.verifier.renew();
        }
        let file = Rc::new(OpenFile {
            handle,
            ino,
            session: self.client.session_of(ino),
            uses: Cell::new(0),
            used_at: Cell::new(self.env.now()),
            is_dirty: Cell::new(false),
        });
        self.open.borrow_mut().insert(ino, file.clone());
        self.take(&file)
    }

    /// All that was written to a file before is on both members, size and times with it.
    ///
    /// # Errors
    /// As fsync; then all clients are to write again what they have not committed. JUKEBOX: the session by which it was
    /// written is over, so that nothing of it is left: who asks again learns that he has to write it again.
    pub(crate) async fn sync(&self, of: &Use) -> Result<(), Status> {
        let was_dirty = of.file.is_dirty.replace(false);
        let synced = self.client.fsync(of.handle(), false).await;
        if synced.is_err() && was_dirty {
            self.verifier.renew();
        }
        if synced.is_err() && of.is_over(&self.client) {
            self.forget_this(&of.file);
            return Err(Status(nfsstat3::NFS3ERR_JUKEBOX));
        }
        Ok(synced?)
    }

    /// Forgets a file whose handle is void, or of which nothing is left.
    pub(crate) fn forget(&self, ino: u64) {
        let gone = self.open.borrow_mut().remove(&ino);
        if let Some(file) = gone {
            if file.is_dirty.get() {
                self.verifier.renew();
            }
            self.release(file.handle);
        }
    }

    /// Forgets an open file, unless it has been opened anew meanwhile.
    fn forget_this(&self, file: &Rc<OpenFile>) {
        let known = self.open.borrow().get(&file.ino).cloned();
        if known.is_some_and(|known| Rc::ptr_eq(&known, file)) {
            self.forget(file.ino);
        }
    }

    /// As [`Files::forget`], of what a use is of.
    pub(crate) fn forget_use(&self, of: &Use) {
        self.forget_this(&of.file);
    }

    fn release(&self, handle: HandleId) {
        let client = self.client.clone();
        self.env.spawn("release", async move {
            if let Err(errno) = client.release(handle, None).await {
                tracing::debug!(%errno, "a file was closed");
            }
        });
    }

    /// Those that are to be closed, longest idle first.
    fn idle(&self) -> Vec<u64> {
        let now = self.env.now();
        let open = self.open.borrow();
        let mut idle: Vec<(Mono, u64)> = open
            .iter()
            .filter(|(_, file)| file.uses.get() == 0)
            .map(|(ino, file)| (file.used_at.get(), *ino))
            .collect();
        idle.sort_unstable();
        let too_many = open.len().saturating_sub(FILES_MAX);
        let patience = |ino| match self.client.is_orphan(ino) {
            true => ORPHAN_IDLE,
            false => IDLE,
        };
        let is_due = |at: usize, (since, ino)| at < too_many || now.since(since) >= patience(ino);
        let due = idle.into_iter().enumerate();
        due.filter(|(at, one)| is_due(*at, *one))
            .map(|(_, (_, ino))| ino)
            .collect()
    }

    /// What was written to a file is on its servers before it is closed: only so an error of that is known as one of
    /// what clients have not committed.
    async fn close_idle(&self) {
        for ino in self.idle() {
            let Some(file) = self.open.borrow().get(&ino).cloned() else {
                continue;
            };
            if file.is_dirty.get() {
                let using = self.take(&file);
                if let Err(status) = self.sync(&using).await {
                    tracing::warn!(
                        ino,
                        ?status,
                        "what was written could not be kept: clients that have not committed it write it again"
                    );
                }
            }
            if file.uses.get() == 0 {
                self.open.borrow_mut().remove(&ino);
                self.release(file.handle);
            }
        }
    }
}
