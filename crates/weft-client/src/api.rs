//! The operations of a [`Client`].

use crate::core::Core;
use crate::dirops::Made;
use crate::expiring;
use crate::leases::{Mode, WHOLE};
use crate::session::Session;
use crate::settings::Settings;
use crate::slots::FIRST;
use crate::types::*;
use crate::writeback;
use bytes::Bytes;
use futures_util::future::join_all;
use rangemap::RangeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_wire::proto::{self, ExplainRequest, StatusRequest};

/// Why a client could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings make no sense.
    #[error("settings: {0}")]
    Settings(String),
    /// No metadata server took the client in for as long as its patience.
    #[error("no metadata server could be reached: {0}")]
    Unreachable(String),
    /// The service is there and refused.
    #[error("refused: {0}")]
    Refused(String),
}

/// A session with a cluster. Clones share it.
#[derive(Clone)]
pub struct Client(Rc<Core>);

/// What a client believes that it may do with an inode (see [`Client::leases`]).
#[derive(Clone, Debug)]
pub struct Believed {
    pub ino: u64,
    /// Bytes that it may cache; all of them: attributes, too.
    pub read: RangeSet<u64>,
    /// Bytes that it may cache and write; all of them: it owns attributes, too.
    pub write: RangeSet<u64>,
}

/// Names are bytes without `/` and NUL; `.` and `..` are not names here.
///
/// Every operation fails with an errno as Linux's system call of that name does, and with EIO
/// when servers stay away longer than the patience. Changes that were begun are finished though
/// their futures are dropped.
impl Client {
    /// Opens a session. Waits for a metadata server at most as long as the patience.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect(env: Env, settings: Settings) -> std::result::Result<Client, ClientError> {
        settings.check().map_err(ClientError::Settings)?;
        let core = Core::new(env.clone(), settings);
        env.spawn("session", Session::keep(Rc::downgrade(&core), FIRST));
        let watching = expiring::watch(Rc::downgrade(&core), FIRST);
        env.spawn("session's term", watching);
        env.spawn("write-behind", writeback::age(Rc::downgrade(&core)));
        let refused = async {
            loop {
                env.sleep(REFUSAL_PAUSE).await;
                if let (why, true) = core.first_session().last_failure() {
                    return why;
                }
            }
        };
        let connected = std::pin::pin!(core.first_session().connected());
        let refused = std::pin::pin!(refused);
        let first = futures_util::future::select(connected, refused);
        let outcome = match env.timeout(core.patience(), first).await {
            Ok(futures_util::future::Either::Left((Ok(_), _))) => None,
            Ok(futures_util::future::Either::Right((why, _))) => Some(ClientError::Refused(why)),
            Ok(futures_util::future::Either::Left((Err(_), _))) | Err(_) => Some(
                ClientError::Unreachable(core.first_session().last_failure().0),
            ),
        };
        match outcome {
            None => Ok(Client(core.clone())),
            Some(error) => {
                core.sessions.stop();
                Err(error)
            }
        }
    }

    /// The addresses of metadata servers that servers have told, of which its settings need not know all.
    pub fn meta_learned(&self) -> Vec<String> {
        self.0.first_session().learned()
    }

    /// Writes back everything and ends the sessions. Handles are void afterwards.
    ///
    /// # Errors
    /// The first error of what was written back.
    pub async fn close(&self) -> Result<()> {
        let core = &self.0;
        let synced = core.sync_all().await;
        core.sessions.begin_closing();
        let others = core.sessions.others();
        join_all(others.iter().map(|other| core.say_goodbye(other))).await;
        // Who looks at the first group's sessions finds this client there until it has left all.
        core.say_goodbye(core.first_session()).await;
        core.sessions.stop();
        core.pairs.close();
        synced
    }

    /// The id of the session with the metadata service's first group; 0 while there is none. Another one
    /// than before says that the service ended the earlier one: what had not been synced may be lost.
    pub fn session(&self) -> u64 {
        self.0.first_session().id()
    }

    /// The groups of the metadata service that this client has needed, each with the id of its session, 0
    /// while there is none. The first group comes first.
    pub fn sessions(&self) -> Vec<(u32, u64)> {
        let (first, others) = (self.0.first_session().clone(), self.0.sessions.others());
        let all = std::iter::once(first).chain(others);
        all.map(|session| (session.group, session.id())).collect()
    }

    /// The id of the session with the group that an inode belongs to; 0 while there is none.
    pub fn session_of(&self, ino: u64) -> u64 {
        let session = self.0.sessions.with(self.0.group_of(ino));
        session.map_or(0, |session| session.id())
    }

    /// Somebody has the inode open here.
    pub fn is_open(&self, ino: u64) -> bool {
        self.0.nodes.get(ino).is_some_and(|node| node.is_open())
    }

    /// For how long leases are believed in if no renewal is answered from now on: of the session that ends first.
    pub fn believes_for(&self) -> Duration {
        let (first, others) = (self.0.first_session().clone(), self.0.sessions.others());
        let all = std::iter::once(first).chain(others);
        let left = all.map(|session| session.believes_for());
        left.min().unwrap_or_default()
    }

    /// The replica group that an inode belongs to, by what this client knows of the slots.
    pub fn group_of(&self, ino: u64) -> u32 {
        self.0.group_of(ino)
    }

    /// The leases that this client believes it holds now: of which inode, and which bytes it may read
    /// and write.
    pub fn leases(&self) -> Vec<Believed> {
        let nodes = self.0.nodes.all();
        let valid = nodes.iter().filter(|node| self.0.is_valid(node.ino));
        let held = valid.filter_map(|node| {
            let state = node.state.borrow();
            let whole = || std::iter::once(WHOLE).collect();
            let (read, write) = match state.lease.mode() {
                Mode::None => return None,
                Mode::Read => (whole(), RangeSet::new()),
                Mode::Write => (RangeSet::new(), whole()),
                Mode::Shared => {
                    let ranges = state.lease.ranges();
                    (ranges.read.clone(), ranges.write.clone())
                }
            };
            Some(Believed {
                ino: node.ino,
                read,
                write,
            })
        });
        held.collect()
    }

    /// The states of the pairs that this client has been told.
    pub fn pair_states(&self) -> Vec<weft_pair::PairState> {
        self.0.pairs.states()
    }

    /// Bytes that a file on all pairs can have at most; one on fewer has less room.
    pub fn reach(&self) -> u64 {
        weft_types::reach_of(self.0.pairs.states().len().max(1))
    }

    /// The inode number of the root directory.
    pub fn root(&self) -> u64 {
        self.0.first_session().root.get()
    }

    /// Sets who keeps copies of what this client answers. Before the first operation.
    pub fn set_invalidator(&self, invalidator: Rc<dyn Invalidator>) {
        *self.0.invalidator.borrow_mut() = Some(invalidator);
    }

    // ---- moving files (for `weft-mover`) ----

    /// Tells the service how moves ended and asks for at most `max` more files to move; `working` names
    /// those that this client is moving.
    ///
    /// # Errors
    /// EIO if the service does not answer in time.
    pub async fn move_work(
        &self,
        reports: Vec<proto::MoveReport>,
        working: Vec<u64>,
        max: u32,
    ) -> Result<proto::MoveWorkReply> {
        self.0.move_work(reports, working, max).await
    }

    /// Makes a file lie as an order says, whoever uses it meanwhile. A file that is gone, or lies so,
    /// is well. Not to be dropped half-way: the service would keep the copy's objects until the
    /// session ends.
    ///
    /// # Errors
    /// EBUSY if the file is written all the time, EAGAIN if the order is out of date, EIO if it cannot be
    /// read; what a disk said. After ETIMEDOUT the session has to be given up: something may still be on
    /// its way to the copy's objects.
    pub async fn move_file(&self, order: proto::MoveOrder) -> Result<crate::Moved> {
        self.0.move_file(order).await
    }

    // ---- names ----

    /// What a name in a directory stands for; absence is an answer too.
    pub async fn lookup(&self, cred: &Cred, parent: u64, name: &[u8]) -> Result<Found> {
        self.0.lookup(cred, parent, name).await
    }

    /// A name is known to stand for an inode, under a lease of this client's: a cache may keep it until
    /// [`Invalidator::names`] of the directory. To be asked in the turn in which it is put there.
    pub fn keeps_name(&self, parent: u64, name: &[u8], ino: u64) -> bool {
        self.0.keeps_name(parent, name, ino)
    }

    /// What a name is known to stand for, under a lease of this client's; None if that is not known.
    pub fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.0.named(parent, name)
    }

    /// Others probably write a file that was just opened here: they share it, or have changed it a moment ago.
    pub fn others_write(&self, ino: u64) -> bool {
        let Some(node) = self.0.nodes.get(ino) else {
            return true;
        };
        let state = node.state.borrow();
        let age = |then: Time| self.0.wall().seconds.saturating_sub(then.seconds);
        let mtime = state.attr.and_then(|attr| attr.mtime);
        match state.lease.mode() {
            Mode::None | Mode::Shared => true,
            Mode::Read => mtime.is_some_and(|mtime| age(mtime) <= FRESH_SECONDS),
            Mode::Write => false,
        }
    }

    /// Makes (or opens) a regular file and opens it.
    pub async fn create(
        &self,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: CreateFlags,
    ) -> Result<(Known, HandleId)> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.create(&cred, parent, &name, mode, flags).await })
            .await
    }

    /// Makes a regular file without a name, and opens it. [`Client::link`] may give it one while it is open.
    pub async fn create_unnamed(
        &self,
        cred: &Cred,
        parent: u64,
        mode: u32,
        open: OpenFlags,
    ) -> Result<(Known, HandleId)> {
        let (core, cred) = (self.0.clone(), cred.clone());
        self.0
            .to_the_end(async move { core.create_unnamed(&cred, parent, mode, open).await })
            .await
    }

    async fn make(&self, cred: &Cred, create: proto::Create) -> Result<Known> {
        let (core, cred) = (self.0.clone(), cred.clone());
        let made = self
            .0
            .to_the_end(async move { core.make(&cred, create).await })
            .await?;
        match made {
            Made::Here(made) => Ok(made.known),
            // All that is made here must be new.
            Made::Elsewhere(..) => Err(Errno(libc::EEXIST)),
        }
    }

    /// Makes a directory.
    pub async fn mkdir(&self, cred: &Cred, parent: u64, name: &[u8], mode: u32) -> Result<Known> {
        let create = proto::Create {
            parent,
            name: Bytes::copy_from_slice(name),
            kind: FileKind::Directory as i32,
            mode: mode & 0o7777,
            exclusive: true,
            ..proto::Create::default()
        };
        self.make(cred, create).await
    }

    /// Makes a file of any kind but directory and symlink; `mode` has permission bits only.
    pub async fn mknod(
        &self,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        rdev: u32,
    ) -> Result<Known> {
        let create = proto::Create {
            parent,
            name: Bytes::copy_from_slice(name),
            kind: kind as i32,
            mode: mode & 0o7777,
            rdev,
            exclusive: true,
            ..proto::Create::default()
        };
        self.make(cred, create).await
    }

    /// Makes a symbolic link.
    pub async fn symlink(
        &self,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Known> {
        let create = proto::Create {
            parent,
            name: Bytes::copy_from_slice(name),
            kind: FileKind::Symlink as i32,
            mode: 0o777,
            target: Bytes::copy_from_slice(target),
            exclusive: true,
            ..proto::Create::default()
        };
        self.make(cred, create).await
    }

    /// Where a symbolic link points.
    pub async fn readlink(&self, ino: u64) -> Result<Bytes> {
        self.0.readlink(ino).await
    }

    /// Makes another name for a file.
    pub async fn link(&self, cred: &Cred, ino: u64, parent: u64, name: &[u8]) -> Result<Known> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.link(&cred, ino, parent, &name).await })
            .await
    }

    /// Removes a name of anything but a directory.
    pub async fn unlink(&self, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.unlink(&cred, parent, &name).await })
            .await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, cred: &Cred, parent: u64, name: &[u8]) -> Result<()> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.rmdir(&cred, parent, &name).await })
            .await
    }

    /// Has a directory's entries put into `shards` shards in slots of all groups: a power of two, 0 for as many
    /// as suit the groups. What is in it goes there by and by. Fails with EEXIST if it is spread already.
    pub async fn spread(&self, cred: &Cred, ino: u64, shards: u32) -> Result<()> {
        let (core, cred) = (self.0.clone(), cred.clone());
        self.0
            .to_the_end(async move { core.spread(&cred, ino, shards).await })
            .await
    }

    /// How many shards a directory has, 0 if it is not spread.
    pub async fn shards(&self, ino: u64) -> Result<u32> {
        let (_, known) = self.0.known_here(ino).await?;
        Ok(known.attr.shards)
    }

    /// Renames, over an existing target unless told otherwise.
    pub async fn rename(
        &self,
        cred: &Cred,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let (core, cred) = (self.0.clone(), cred.clone());
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        self.0
            .to_the_end(async move {
                core.rename(&cred, (parent, &name), (new_parent, &new_name), flags)
                    .await
            })
            .await
    }

    // ---- attributes ----

    /// Attributes; size and times include what is buffered here.
    pub async fn getattr(&self, ino: u64) -> Result<Known> {
        self.0.getattr(ino).await
    }

    /// Changes attributes. `handle`: for ftruncate on a handle that is open for writing, which
    /// needs no permission on the inode.
    pub async fn setattr(
        &self,
        cred: &Cred,
        ino: u64,
        set: SetAttr,
        handle: Option<HandleId>,
    ) -> Result<Known> {
        let (core, cred) = (self.0.clone(), cred.clone());
        self.0
            .to_the_end(async move { core.setattr(&cred, ino, set, handle).await })
            .await
    }

    /// The value of an extended attribute; ENODATA if there is none.
    pub async fn getxattr(&self, cred: &Cred, ino: u64, name: &[u8]) -> Result<Bytes> {
        self.0.getxattr(cred, ino, name).await
    }

    /// Sets an extended attribute.
    pub async fn setxattr(
        &self,
        cred: &Cred,
        ino: u64,
        name: &[u8],
        value: Bytes,
        flags: XattrFlags,
    ) -> Result<()> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.setxattr(&cred, ino, &name, value, flags).await })
            .await
    }

    /// The names of the extended attributes.
    pub async fn listxattr(&self, cred: &Cred, ino: u64) -> Result<Vec<Bytes>> {
        Ok(self.0.listxattr(cred, ino).await?.to_vec())
    }

    /// Removes an extended attribute.
    pub async fn removexattr(&self, cred: &Cred, ino: u64, name: &[u8]) -> Result<()> {
        let (core, cred, name) = (self.0.clone(), cred.clone(), name.to_vec());
        self.0
            .to_the_end(async move { core.removexattr(&cred, ino, &name).await })
            .await
    }

    /// Room in the cluster.
    pub async fn statfs(&self) -> Result<Space> {
        self.0.statfs().await
    }

    /// Checks access (R_OK 4, W_OK 2, X_OK 1) as the server would.
    pub async fn access(&self, cred: &Cred, ino: u64, mask: u32) -> Result<()> {
        self.0.access(cred, ino, mask).await
    }

    // ---- directories ----

    /// Opens a directory for reading.
    pub async fn opendir(&self, cred: &Cred, ino: u64) -> Result<HandleId> {
        self.0.opendir(cred, ino).await
    }

    /// At most `max` entries after a cookie (0: from the start); none means the end. With `plus`
    /// entries come with attributes where they can be had. The next page is fetched ahead.
    pub async fn readdir(
        &self,
        handle: HandleId,
        after: u64,
        max: usize,
        plus: bool,
    ) -> Result<Vec<DirEntry>> {
        self.0.readdir(handle, after, max, plus).await
    }

    /// Closes a directory.
    pub fn releasedir(&self, handle: HandleId) {
        self.0.handles.remove_dir(handle);
    }

    // ---- files ----

    /// Opens a regular file, after checking access.
    pub async fn open(&self, cred: &Cred, ino: u64, flags: OpenFlags) -> Result<HandleId> {
        if !flags.truncate {
            return self.0.open(cred, ino, flags).await;
        }
        let (core, cred) = (self.0.clone(), cred.clone());
        self.0
            .to_the_end(async move { core.open(&cred, ino, flags).await })
            .await
    }

    /// close(2) of one descriptor: writes back data and waits for it, drops the fcntl locks of
    /// `lock_owner`. The handle stays until [`Client::release`].
    pub async fn flush(&self, handle: HandleId, lock_owner: Option<u64>) -> Result<()> {
        self.0.flush(handle, lock_owner).await
    }

    /// The last close of a handle; drops its flock if `lock_owner` is given. Never waits for
    /// the application's data: [`Client::flush`] has.
    pub async fn release(&self, handle: HandleId, lock_owner: Option<u64>) -> Result<()> {
        self.0.release(handle, lock_owner).await
    }

    /// Drops the fcntl locks of an owner on a file, if it may hold any.
    pub async fn drop_file_locks(&self, ino: u64, owner: u64) -> Result<()> {
        self.0.drop_locks(ino, false, owner).await
    }

    /// Bytes at an offset: parts whose lengths add up to `length`, less at the end of the file.
    pub async fn read(&self, handle: HandleId, offset: u64, length: usize) -> Result<Vec<Bytes>> {
        self.0.read(handle, offset, length).await
    }

    /// As [`Client::read`], but holes of at least `least` bytes are told and not read. Pieces follow each other from
    /// `offset` on; bytes and holes are of one moment.
    pub async fn read_sparse(
        &self,
        handle: HandleId,
        offset: u64,
        length: usize,
        least: u64,
    ) -> Result<Vec<Piece>> {
        self.0.read_sparse(handle, (offset, length), least).await
    }

    /// Writes (to the end of the file where the handle or the call says append). Returns when the
    /// bytes are buffered, or on both members for a handle with `sync`. `data` is kept until then:
    /// it must not hold on to a buffer much larger than itself.
    pub async fn write(
        &self,
        handle: HandleId,
        offset: u64,
        data: Bytes,
        append: bool,
    ) -> Result<usize> {
        let written = self.0.write(handle, offset, data, append, || true).await?;
        Ok(written.length)
    }

    /// As [`Client::write`] to a place, if `may` says yes once the lease is there that it is written under: a
    /// write may wait for longer than that holds by which its writer was allowed to write. Fails with ECANCELED
    /// else.
    pub async fn write_while(
        &self,
        handle: HandleId,
        offset: u64,
        data: Bytes,
        may: impl Fn() -> bool,
    ) -> Result<usize> {
        let written = self.0.write(handle, offset, data, false, may).await?;
        Ok(written.length)
    }

    /// A file is open here, and kept on the servers until it is closed, because its last name went. It may have it still:
    /// the service asks before it takes the name away, and that may be refused then.
    pub fn is_orphan(&self, ino: u64) -> bool {
        self.0.is_orphan(ino)
    }

    /// Has the service keep an inode that has lost its last name, as if it were open here: until it is not, and the face
    /// does not have it any more ([`Invalidator::has`]). The service lets it linger for a second.
    ///
    /// # Errors
    /// ESTALE: it is gone.
    pub async fn keep_nameless(&self, ino: u64) -> Result<()> {
        let core = self.0.clone();
        let keeping = async move { core.keep_nameless(ino).await };
        self.0.to_the_end(keeping).await
    }

    /// The face does not have an inode any more: what was kept for it may go.
    pub fn face_forgot(&self, ino: u64) {
        self.0.face_forgot(ino);
    }

    /// How a file was opened; None if the handle is none.
    pub fn opened(&self, handle: HandleId) -> Option<OpenFlags> {
        self.0.handles.file(handle).ok().map(|file| file.flags)
    }

    /// As [`Client::write`] to the end of the file, wherever that is; says where it was.
    pub async fn append(&self, handle: HandleId, data: Bytes) -> Result<Written> {
        self.0.write(handle, 0, data, true, || true).await
    }

    /// Takes over pages that were changed by way of a mapping, cut at the end of the file. Never
    /// waits for other clients. Until [`Client::fsync`] or [`Client::flush`], others see them when
    /// they next ask for the file, or later.
    pub async fn write_mapped(&self, handle: HandleId, offset: u64, data: Bytes) -> Result<usize> {
        self.0.write_mapped(handle, offset, data).await
    }

    /// Everything written to the file is on both members (on disk, where the file's durability
    /// says so), and so are size and times, which the data could not be found again without
    /// (`data_only` asks for no less).
    pub async fn fsync(&self, handle: HandleId, _data_only: bool) -> Result<()> {
        self.0.fsync(handle).await
    }

    /// What was written to the file before this was opened is lost in part, and nobody has been told of that: now the
    /// caller is, and neither a write nor an fsync tells it again.
    ///
    /// # Errors
    /// EBADF: it is not open.
    pub fn takes_word_of_loss(&self, handle: HandleId) -> Result<bool> {
        self.0.takes_word_of_loss(handle)
    }

    /// As fsync, for all files.
    pub async fn sync_all(&self) -> Result<()> {
        self.0.sync_all().await
    }

    /// fallocate(2).
    pub async fn fallocate(
        &self,
        handle: HandleId,
        mode: Allocate,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let core = self.0.clone();
        self.0
            .to_the_end(async move { core.fallocate(handle, mode, offset, length).await })
            .await
    }

    /// lseek(2) with SEEK_HOLE or SEEK_DATA; ENXIO beyond the end.
    pub async fn seek(&self, handle: HandleId, offset: u64, whence: Seek) -> Result<u64> {
        self.0.seek(handle, offset, whence).await
    }

    /// copy_file_range(2); returns the bytes copied, which may be fewer than asked.
    pub async fn copy_range(
        &self,
        from: HandleId,
        from_offset: u64,
        to: HandleId,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.0
            .copy_range((from, from_offset), (to, to_offset), length)
            .await
    }

    /// Asks for the lease by which this client alone has a file, attributes and bytes, and says whether it has it now:
    /// what is done in the turn in which this returns is done under it.
    ///
    /// # Errors
    /// ESTALE and others: there is no such file.
    pub async fn own(&self, ino: u64) -> Result<bool> {
        self.0.own(ino).await?;
        Ok(self.owns(ino))
    }

    /// This client alone has a file, and has not been asked to give it back.
    pub fn owns(&self, ino: u64) -> bool {
        self.0.holds(ino, |lease| lease.owns())
    }

    /// Which lease this client has to read an inode: another number once it was lost between. None: it has none, or is
    /// giving it back. Numbers are of no use once the inode is neither open nor leased.
    pub fn read_lease(&self, ino: u64) -> Option<u64> {
        self.0.reads_since(ino)
    }

    /// The same, though it may be giving the lease back: it is not gone before the face has let the inode go.
    pub fn read_lease_until_gone(&self, ino: u64) -> Option<u64> {
        self.0.answers_since(ino)
    }

    /// This client alone has a file, though it may be giving it back: nobody else has read or changed it yet.
    pub fn is_alone(&self, ino: u64) -> bool {
        self.0.holds(ino, |lease| lease.mode() == Mode::Write)
    }

    // ---- locks ----

    /// The lock that is in the way of this one, if any.
    pub async fn getlk(&self, ino: u64, lock: FileLock) -> Result<Option<FileLock>> {
        self.0.getlk(ino, lock).await
    }

    /// Returns when a lock on the inode was freed, as far as the service has told: it tells those whose lock it has
    /// refused, and only once.
    pub async fn lock_freed(&self, ino: u64) {
        self.0.lock_freed(ino).await;
    }

    /// Takes or drops a lock; EAGAIN if another is in the way, or with `wait` waits until it is not.
    /// Dropping the future gives up waiting (the caller answers EINTR).
    pub async fn setlk(&self, cred: &Cred, ino: u64, lock: FileLock, wait: bool) -> Result<()> {
        self.0.setlk(cred, (ino, None), lock, wait).await
    }

    /// The same by way of an open file. Should the lock be lost, with the session, the file's handles by which its owner has
    /// locked fail with EIO from then on (reading, writing, fsync), until they are closed; and so do locks of this owner,
    /// but for unlocking, until it closes the file. Others may have had the lock since.
    pub async fn setlk_by(
        &self,
        handle: HandleId,
        cred: &Cred,
        lock: FileLock,
        wait: bool,
    ) -> Result<()> {
        let ino = self.0.handles.file(handle)?.node.ino;
        self.0.setlk(cred, (ino, Some(handle)), lock, wait).await
    }

    // ---- on behalf of others ----

    /// Takes over a lock that the same owner, on whose behalf it is, has by way of another client, or had by way of a
    /// session of this one that is over.
    ///
    /// # Errors
    /// ENOENT: it has no such lock any more, or not all of it.
    pub async fn reclaim_lock(&self, ino: u64, lock: FileLock) -> Result<()> {
        self.0.reclaim_lock(ino, lock).await
    }

    /// Notes on whose behalf a file is open, for what, and what others are denied; or that it is not open any more.
    ///
    /// # Errors
    /// EAGAIN: somebody else has it open in a way that excludes that. ENOENT: what is to be reclaimed is not there.
    /// ESTALE: the file is gone.
    pub async fn set_open(&self, open: SetOpen) -> Result<()> {
        self.0.set_open(open).await
    }

    /// Somebody has by way of this client all that it wants of what was kept for it: the rest may go.
    ///
    /// # Errors
    /// Of the first group that could not be told: there it goes in its time.
    pub async fn drop_kept(&self, behalf: u64) -> Result<()> {
        self.0.drop_kept(behalf).await
    }

    /// Somebody who has the file open may deny others something, by what the last lease on it said: who opens it on
    /// behalf of anybody says so by [`Client::set_open`].
    pub fn is_denied(&self, ino: u64) -> bool {
        let node = self.0.nodes.get(ino);
        node.is_none_or(|node| node.state.borrow().denied)
    }

    /// The part of the service that keeps an inode can be asked now: the session with it is not being taken up or
    /// opened anew.
    pub fn can_ask(&self, ino: u64) -> bool {
        let session = self.0.sessions.with(self.0.group_of(ino));
        session.is_some_and(|session| session.current().is_some())
    }

    // ---- tools ----

    /// What it counts.
    pub fn figures(&self) -> Figures {
        let core = &self.0;
        let others = core.sessions.others();
        let sessions = others.iter().chain([core.first_session()]);
        Figures {
            requests: sessions.map(|session| session.requests.get()).sum(),
            buffered_bytes: core.writeback.buffered(),
            owed_bytes: core.writeback.owed(),
            cached_inodes: core.nodes.len() as u64,
            revocations: core.revocations.get(),
        }
    }

    /// Tells what is owed and forgets all that is known, as a client that is given no leases. Nothing may be under way.
    ///
    /// # Errors
    /// If what was written cannot be written back, or told.
    #[cfg(feature = "measuring")]
    pub async fn forget_all(&self) -> Result<()> {
        self.0.forget_all().await
    }

    /// The policy in force for what is made in a directory.
    pub async fn policy(&self, ino: u64) -> Result<Policy> {
        self.0.policy(ino).await
    }

    /// Sets a directory's policy; zero fields are inherited.
    pub async fn set_policy(&self, cred: &Cred, ino: u64, policy: Policy) -> Result<()> {
        let (core, cred) = (self.0.clone(), cred.clone());
        self.0
            .to_the_end(async move { core.set_policy(cred, ino, policy).await })
            .await
    }

    /// Where a file (by path from the root) lies and who serves it.
    pub async fn explain(&self, path: &[u8]) -> Result<Explained> {
        let mut request = ExplainRequest {
            path: Bytes::copy_from_slice(path),
            ..ExplainRequest::default()
        };
        let mut at = weft_types::ROOT_INO.0;
        for _ in 0..EXPLAIN_HOPS_MAX {
            let (reply, _) = self.0.ask_at(at, |_| request.clone()).await?;
            let Some(elsewhere) = reply.elsewhere else {
                return Ok(reply);
            };
            at = elsewhere.ino;
            request = ExplainRequest {
                path: elsewhere.rest,
                from: elsewhere.ino,
                within: elsewhere.within,
                links: elsewhere.links,
            };
        }
        Err(Errno(libc::ELOOP))
    }

    /// The cluster's state.
    pub async fn status(&self) -> Result<Status> {
        let session = self.0.first_session();
        let asked = session.ask(&self.0, |_| StatusRequest {}).await?;
        Ok(asked.0)
    }
}

/// Groups that a path may lead through, one after the other: a path has at most some two thousand names.
const EXPLAIN_HOPS_MAX: usize = 5_000;

/// Whoever has changed a file in this time has probably not done with it: a log is written on, and so is what
/// comes to be copied. Longer, and files that are read once they have been written count as being written.
const FRESH_SECONDS: i64 = 2;

/// How often it is looked whether the service has refused this client.
const REFUSAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
