//! Operations on open files: reading and writing under leases (`docs/protocols/a-read.md`,
//! `docs/protocols/a-write.md`).

use crate::access;
use crate::core::{Core, Use, root_cred};
use crate::handles::FileHandle;
use crate::leases::{Mode, Need};
use crate::node::{FileLayout, Node, mark_changed};
use crate::pairs::Object;
use crate::readahead::{Chunk, slice_parts};
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_types::{BLOCK_BYTES, FILE_BYTES_MAX, pieces};
use weft_wire::proto::{self, Durability, op};

/// A close waits where less room is left than this: what sixteen clients may have in their buffers.
const CLOSE_ROOM: u64 = 4 << 30;
/// A reader at the end of a file that others make longer tries this often to see a moment of it.
const SIZE_TRIES: u32 = 4;
/// Zeros for holes are slices of this.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
/// Bytes that one copy_range call moves: the application asks again for the rest, and can be
/// interrupted between.
const COPY_BYTES_MAX: u64 = 32 << 20;
/// Bytes that one copy_range call holds at a time.
const COPY_STEP: u64 = 4 << 20;

/// Appends zeros without allocating.
fn push_zeros(parts: &mut Vec<Bytes>, mut length: u64) {
    while length > 0 {
        let step = length.min(ZEROS.len() as u64);
        parts.push(Bytes::from_static(&ZEROS[..step as usize]));
        length -= step;
    }
}

impl Core {
    // ---- open and close ----

    pub async fn open(
        self: &Rc<Self>,
        cred: &Cred,
        ino: u64,
        flags: OpenFlags,
    ) -> Result<HandleId> {
        // Or it was taken over from another client that had it open (`Core::set_open`).
        let is_kept =
            |node: &Node| node.is_kept_for(self.session_of(ino).id()) || node.state.borrow().orphan;
        let (node, attr, held) = loop {
            let (node, known) = self.known(ino).await?;
            match known.attr.kind() {
                FileKind::Regular => {}
                FileKind::Directory if flags.write || flags.truncate => {
                    return Err(Errno(libc::EISDIR));
                }
                _ => return Err(Errno(libc::EINVAL)),
            }
            // Whoever takes the last name away asks for the lease first, and then sees it open.
            let held = self.begin(&node, Mode::Shared).await?;
            let attr = node.state.borrow().attr.unwrap_or(known.attr);
            // Opened before or not at all: the server was told of no handle. And what it is asked to keep may be opened
            // when it has said so.
            let is_awaited = || {
                let has_gone = attr.nlink == 0 && !is_kept(&node);
                node.unlinking.get() > 0 || has_gone && node.keeping.get() > 0
            };
            if !is_awaited() {
                break (node, attr, held);
            }
            drop(held);
            self.patiently(async {
                while is_awaited() {
                    node.wake.notified().await;
                }
                Ok(())
            })
            .await?;
        };
        if attr.nlink == 0 && !is_kept(&node) {
            // It lives as long as others have it open, and the service would not know of this one.
            return Err(Errno(libc::ESTALE));
        }
        let write = flags.write || flags.truncate;
        let read = match flags.execute {
            true => access::EXECUTE,
            false => access::READ,
        };
        let mask = if flags.read { read } else { 0 } | if write { access::WRITE } else { 0 };
        access::check(&attr, cred, mask)?;
        if flags.write && !flags.read && node.state.borrow().lease.mode() == Mode::Read {
            // It will be written: the lease is fetched while the application goes on.
            let (core, node) = (self.clone(), node.clone());
            self.env.spawn("lease for writing", async move {
                // The first write finds out what is wrong.
                let _: Result<_> = core.begin(&node, Mode::Write).await.map(drop);
            });
        }
        let session = self.session_of(ino).id();
        let handle = self.handles.add_file(node, flags, session);
        drop(held);
        if flags.truncate {
            let cut = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            if let Err(errno) = self.setattr(cred, ino, cut, None).await {
                self.close_handle(handle);
                return Err(errno);
            }
        }
        Ok(handle)
    }

    /// The service keeps a file because it is open here: its last name has gone, or was about to when that was asked.
    pub fn is_orphan(&self, ino: u64) -> bool {
        let node = self.nodes.get(ino);
        node.is_some_and(|node| node.state.borrow().orphan)
    }

    /// Takes a handle out; the last one of an unlinked file tells the server, unless the face knows it still.
    pub fn close_handle(self: &Rc<Self>, id: HandleId) -> Option<Rc<FileHandle>> {
        let (handle, is_last) = self.handles.remove_file(id)?;
        if is_last {
            self.end_if_unused(&handle.node);
        }
        Some(handle)
    }

    /// The server need not keep an unlinked file for this client any more.
    pub fn let_go(self: &Rc<Self>, node: Rc<Node>) {
        let core = self.clone();
        // Not opened again before the server has been told.
        node.unlinking.set(node.unlinking.get() + 1);
        self.env.spawn("release", async move {
            // Nothing may be on its way to objects that are dropped; and another session that has the
            // file open reads what was written.
            core.flush_closed(&node).await;
            // Who began to have it kept before this was decided may be answered before it is released.
            while node.keeping.get() > 0 {
                node.wake.notified().await;
            }
            let ino = node.ino;
            if !node.state.borrow().orphan {
                let release = op::Op::Release(proto::Release { ino });
                // The end of the session releases it, if nothing else does.
                let released = core.change_at(ino, root_cred(), release, false);
                if let Err(errno) = released.await {
                    tracing::debug!(ino, %errno, "a release was not taken");
                }
            }
            node.unlinking.set(node.unlinking.get() - 1);
            node.wake.notify_waiters();
        });
    }

    pub async fn flush(self: &Rc<Self>, id: HandleId, lock_owner: Option<u64>) -> Result<()> {
        let handle = self.handles.file(id)?;
        let node = &handle.node;
        self.announced(node).await;
        // How much room there is the first answers tell.
        let may_close_behind = || self.may_close_behind(node);
        let flushed = self.flush_until(node, may_close_behind).await;
        if !may_close_behind() {
            node.state.borrow_mut().replaced &= flushed.is_err();
        }
        self.want_tell(node);
        if let Some(owner) = lock_owner {
            self.drop_locks(node.ino, false, owner).await?;
        }
        // Not for the last time: a child process that begins another program closes what it shares with
        // its parent, too, and nobody hears what that close was told.
        self.refused(&handle, false).await?;
        flushed
    }

    /// A close need not wait for what was written: it goes to pairs that are well and have room
    /// (errors could be told to nobody later), to a file of which nothing has failed yet, and no
    /// older content has made way for it.
    fn may_close_behind(&self, node: &Node) -> bool {
        let state = node.state.borrow();
        let Some(layout) = &state.layout else {
            return false;
        };
        let is_safe = !state.replaced && state.buffer.failures == 0;
        let mut pairs = layout.map.pairs().iter();
        !self.settings.close_waits
            && is_safe
            && pairs.all(|pair| self.pairs.has_room(*pair, CLOSE_ROOM))
    }

    pub async fn release(self: &Rc<Self>, id: HandleId, lock_owner: Option<u64>) -> Result<()> {
        let Some(handle) = self.close_handle(id) else {
            return Err(Errno(libc::EBADF));
        };
        self.want_tell(&handle.node);
        self.leave_if_shared(&handle.node);
        if let Some(owner) = lock_owner {
            self.drop_locks(handle.node.ino, true, owner).await?;
        }
        Ok(())
    }

    pub async fn fsync(self: &Rc<Self>, id: HandleId) -> Result<()> {
        let handle = self.handles.file(id)?;
        let synced = self.sync_node(&handle.node).await;
        self.refused(&handle, true).await?;
        handle.check_lock()?;
        synced
    }

    pub fn takes_word_of_loss(&self, id: HandleId) -> Result<bool> {
        let handle = self.handles.file(id)?;
        Ok(handle.node.failure_since(&handle.seen_failures).is_err())
    }

    /// An errno that a write by anybody has left for those who have the file open, `once` or as often as it is asked. What
    /// was refused is not to be seen any more when they hear of it: the face forgets it before.
    async fn refused(&self, handle: &FileHandle, once: bool) -> Result<()> {
        let node = &handle.node;
        let refused = match once {
            true => node.failure_since(&handle.seen_failures),
            false => node.failure_beyond(handle.seen_failures.get()),
        };
        if refused.is_err() {
            self.invalidate(node).await;
        }
        refused
    }

    /// Data on both members (on disk where the layout says so), size and times with the server.
    pub async fn sync_node(self: &Rc<Self>, node: &Rc<Node>) -> Result<()> {
        self.announced(node).await;
        self.flush_data(node).await?;
        let (unstable, layout) = {
            let mut state = node.state.borrow_mut();
            // What is written from now on is for the next one.
            (std::mem::take(&mut state.unstable), state.layout.clone())
        };
        if let Some(layout) = layout {
            let kept = match layout.durability {
                Durability::Disk => self.make_stable(node.ino, &layout, &unstable).await,
                _ => Ok(!unstable.is_forgotten(&self.pairs)),
            };
            match kept {
                Ok(true) => {}
                Ok(false) => {
                    // Whoever has the file open is told.
                    tracing::error!(
                        ino = node.ino,
                        "written bytes may be lost: the machine that has the only copy was started again"
                    );
                    self.failed(node, &mut node.state.borrow_mut(), libc::EIO);
                }
                Err(errno) => {
                    node.state.borrow_mut().unstable.join(unstable);
                    return Err(errno);
                }
            }
        }
        loop {
            self.tell(node).await?;
            // Told with a lease that was given back: that counts when the service has it for good.
            if self.confirm(node).await? {
                return Ok(());
            }
        }
    }

    /// Everything is with the servers.
    ///
    /// # Errors
    /// That of a file that was not synced; or, once, what was lost since the last time, though it
    /// was of a file that nobody has open any more.
    pub async fn sync_all(self: &Rc<Self>) -> Result<()> {
        let mut first = Ok(());
        let mut nodes = self.unwritten();
        // One that is there twice has nothing left to do at the second time.
        nodes.extend(self.unconfirmed_nodes());
        for node in &nodes {
            self.want_flush(node);
        }
        self.pump();
        for node in &nodes {
            self.want_tell(node);
        }
        for node in &nodes {
            let synced = self.sync_node(node).await;
            first = first.and(synced);
        }
        match self.writeback.failure.take() {
            Some(errno) => Err(Errno(errno)),
            None => first,
        }
    }

    // ---- reading ----

    pub async fn read(
        self: &Rc<Self>,
        id: HandleId,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Bytes>> {
        let handle = self.handles.file(id)?;
        if !handle.flags.read {
            return Err(Errno(libc::EBADF));
        }
        let node = &handle.node;
        self.announced(node).await;
        loop {
            let begun = self.begin_read(node, offset, length).await?;
            if !handle.flags.keep_atime {
                self.was_read(node);
            }
            let parts = self.read_here(&handle, offset, length).await;
            // Where the lease was lost on the way, some parts may be older than others.
            if self.has_stood(&begun) {
                handle.check_lock()?;
                return parts;
            }
        }
    }

    /// Begins a use for reading; the size that is known then is the file's, as far as the bytes go.
    pub async fn begin_read(
        self: &Rc<Self>,
        node: &Rc<Node>,
        offset: u64,
        length: usize,
    ) -> Result<Use> {
        let end = offset.saturating_add(length as u64).min(FILE_BYTES_MAX);
        let need = Need::bytes(Mode::Read, offset.min(FILE_BYTES_MAX)..end);
        let mut tries = 0;
        loop {
            let begun = self.begin(node, need.clone()).await?;
            let (is_short, version) = {
                let state = node.state.borrow();
                let size = state.attr.map_or(0, |attr| attr.size);
                let is_shared = state.lease.mode() == Mode::Shared;
                (is_shared && size < end, state.version)
            };
            if !is_short {
                return Ok(begun);
            }
            // Others may have made the file longer. They are asked while the bytes are held but not in
            // use; if both stay as they are, what is read then is of the moment of the answer.
            let losses = begun.losses();
            drop(begun);
            let ask = async || self.fetch_inode(node.ino, Mode::Shared).await;
            let (_, known) = self.asked_of_open(node, ask).await?;
            if let Some(begun) = self.begin_now(node, need.clone()) {
                let state = node.state.borrow();
                let size = state.attr.map_or(0, |attr| attr.size);
                let is_same = begun.losses() == losses && state.version == version;
                drop(state);
                if is_same && (size == known.attr.size || size >= end) {
                    return Ok(begun);
                }
            }
            tries += 1;
            if tries == SIZE_TRIES {
                // Too much is going on there: for this moment alone.
                return self.begin(node, Mode::Write).await;
            }
        }
    }

    /// Reads under a READ use of the caller's, from what was read ahead if that is there.
    pub async fn read_here(
        self: &Rc<Self>,
        handle: &FileHandle,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Bytes>> {
        let node = &handle.node;
        let (size, version) = {
            let state = node.state.borrow();
            (state.attr.map_or(0, |attr| attr.size), state.version)
        };
        let end = size.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Ok(Vec::new());
        }
        let wanted = handle.readahead.borrow_mut().advance(
            offset,
            end - offset,
            version,
            self.settings.readahead_bytes,
            size,
        );
        for chunk in wanted {
            self.fetch_chunk(node, chunk);
        }
        let ahead = handle
            .readahead
            .borrow()
            .covering(offset, end - offset, version);
        if let Some(chunks) = ahead
            && let Some(parts) = self.take_chunks(&chunks, offset, end).await
        {
            // What was written here while it was on its way makes another version.
            if node.state.borrow().version == version {
                return Ok(parts);
            }
        }
        self.read_range(node, offset, end).await
    }

    fn fetch_chunk(self: &Rc<Self>, node: &Rc<Node>, chunk: Rc<Chunk>) {
        let (core, node) = (self.clone(), node.clone());
        self.env.spawn("read ahead", async move {
            // Under the lease like any read; without one nothing is fetched.
            let span = chunk.start..chunk.start + chunk.length;
            let begun = core.begin_now(&node, Need::bytes(Mode::Read, span));
            let parts = match &begun {
                Some(_) => {
                    let end = chunk.start + chunk.length;
                    core.read_range(&node, chunk.start, end).await.ok()
                }
                None => None,
            };
            drop(begun);
            *chunk.parts.borrow_mut() = Some(parts);
            chunk.wake.notify_waiters();
        });
    }

    async fn take_chunks(&self, chunks: &[Rc<Chunk>], offset: u64, end: u64) -> Option<Vec<Bytes>> {
        let mut found = Vec::new();
        for chunk in chunks {
            loop {
                let wake = chunk.wake.notified();
                if let Some(parts) = &*chunk.parts.borrow() {
                    let from = offset.max(chunk.start) - chunk.start;
                    let to = end.min(chunk.start + chunk.length) - chunk.start;
                    found.extend(slice_parts(parts.as_ref()?, from, to));
                    break;
                }
                wake.await;
            }
        }
        Some(found)
    }

    /// Reads `start..end`, which lies within the file, under a READ use of the caller's: what is
    /// buffered here, over what the pairs hold, over zeros.
    pub async fn read_range(
        self: &Rc<Self>,
        node: &Rc<Node>,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>> {
        let (layout, trim, mut over) = {
            let state = node.state.borrow();
            let layout = state.layout.clone().ok_or(Errno(libc::EIO))?;
            let trim = state.trim.map_or(u64::MAX, |(_, from)| from);
            let buffer = &state.buffer;
            // Waiting bytes are newer than flying ones. The servers are asked after this look, so
            // nothing can be missed between.
            let mut over: Vec<(u64, Bytes)> = buffer.waiting.overlapping(start, end).collect();
            let newer = over.len();
            for (at, bytes) in buffer.flying.overlapping(start, end) {
                let to = at + bytes.len() as u64;
                let mut from = at;
                for i in 0..newer {
                    let (w, wb) = &over[i];
                    let (w, we) = (*w, *w + wb.len() as u64);
                    if we <= from || w >= to {
                        continue;
                    }
                    if w > from {
                        let cut = bytes.slice((from - at) as usize..(w - at) as usize);
                        over.push((from, cut));
                    }
                    from = from.max(we);
                }
                if from < to {
                    over.push((from, bytes.slice((from - at) as usize..)));
                }
            }
            over.sort_unstable_by_key(|(at, _)| *at);
            (layout, trim, over)
        };
        // Ranges that nobody holds here, below the remains of a shorter size.
        let mut fetches = Vec::new();
        let mut at = start;
        for (from, bytes) in &over {
            self.plan_fetch(node, &layout, at, (*from).min(trim), &mut fetches);
            at = from + bytes.len() as u64;
        }
        self.plan_fetch(node, &layout, at, end.min(trim), &mut fetches);
        if fetches.is_empty() && over.len() == 1 && over[0].0 == start && at >= end {
            return Ok(vec![over.remove(0).1]);
        }
        let mut got: Vec<(u64, u64, Bytes)> = Vec::with_capacity(2 * fetches.len());
        let mut take = |mut at: u64, parts: Vec<(u64, Bytes)>| {
            for (length, data) in parts {
                got.push((at, length, data));
                at += length;
            }
        };
        if let [fetch] = &fetches[..] {
            let parts = self
                .pairs
                .read(self, fetch.object, fetch.offset, fetch.length);
            take(fetch.at, parts.await?);
        } else {
            let reads = fetches.iter().map(|fetch| {
                self.pairs
                    .read(self, fetch.object, fetch.offset, fetch.length)
            });
            let all = futures_util::future::join_all(reads).await;
            for (fetch, parts) in fetches.iter().zip(all) {
                take(fetch.at, parts?);
            }
        }
        let all = over
            .into_iter()
            .map(|(at, bytes)| (at, bytes.len() as u64, bytes))
            .chain(got);
        let mut all: Vec<(u64, u64, Bytes)> = all.collect();
        all.sort_unstable_by_key(|(at, _, _)| *at);
        let mut parts = Vec::with_capacity(all.len() + 1);
        let mut at = start;
        for (from, length, bytes) in all {
            push_zeros(&mut parts, from - at);
            let held = bytes.len() as u64;
            if held > 0 {
                parts.push(bytes);
            }
            push_zeros(&mut parts, length - held);
            at = from + length;
        }
        push_zeros(&mut parts, end - at);
        Ok(parts)
    }

    fn plan_fetch(
        &self,
        node: &Node,
        layout: &FileLayout,
        start: u64,
        end: u64,
        to: &mut Vec<Fetch>,
    ) {
        // The largest that one answer can hold; the router cuts it further.
        let limit = weft_types::PAYLOAD_MAX as u64;
        for piece in pieces(&layout.map, start, end.max(start)) {
            // Aligned, so that the two members are asked for whole blocks of their own.
            let mut at = 0;
            while at < piece.length {
                let offset = piece.object_offset + at;
                let length = (limit - offset % limit).min(piece.length - at);
                to.push(Fetch {
                    at: piece.file_offset + at,
                    object: Object {
                        pair: piece.pair.0,
                        ino: node.ino,
                        generation: layout.generation,
                    },
                    offset,
                    length,
                });
                at += length;
            }
        }
    }

    // ---- writing ----

    pub async fn write(
        self: &Rc<Self>,
        id: HandleId,
        offset: u64,
        data: Bytes,
        append: bool,
        may: impl Fn() -> bool,
    ) -> Result<Written> {
        let handle = self.handles.file(id)?;
        if !handle.flags.write {
            return Err(Errno(libc::EBADF));
        }
        let node = &handle.node;
        handle.check_failures()?;
        if data.is_empty() {
            return Ok(Written { offset, length: 0 });
        }
        self.announced(node).await;
        self.buffer_room().await?;
        let append = append || handle.flags.append;
        let end = offset.saturating_add(data.len() as u64).min(FILE_BYTES_MAX);
        let need = match append {
            // Where the file ends only one that writes alone knows.
            true => Mode::Write.into(),
            false => Need::bytes(Mode::Write, offset.min(FILE_BYTES_MAX)..end),
        };
        let begun = self.begin(node, need).await?;
        handle.check_lock()?;
        if !may() {
            return Err(Errno(libc::ECANCELED));
        }
        let written = self.write_here(node, offset, data, append)?;
        drop(begun);
        self.pump();
        if handle.flags.sync {
            let synced = self.sync_node(node).await;
            self.refused(&handle, true).await?;
            synced?;
        }
        Ok(written)
    }

    /// Buffers a write, under a WRITE use of the caller's.
    pub fn write_here(
        self: &Rc<Self>,
        node: &Rc<Node>,
        offset: u64,
        data: Bytes,
        append: bool,
    ) -> Result<Written> {
        let now = self.wall();
        let mut state = node.state.borrow_mut();
        let reach = state.reach()?;
        let counted = state.counted.clone();
        let attr = state.attr.as_mut().ok_or(Errno(libc::EIO))?;
        let offset = if append { attr.size } else { offset };
        if offset >= reach {
            return Err(Errno(libc::EFBIG));
        }
        let length = (data.len() as u64).min(reach - offset);
        let data = data.slice(..length as usize);
        let end = offset + length;
        let grown = attr.size.max(end);
        // Blocks of holes that are filled cannot be told from blocks that are overwritten without
        // asking; the bound keeps the figure possible.
        let fresh_from = if attr.allocated < attr.size {
            offset
        } else {
            attr.size
                .next_multiple_of(BLOCK_BYTES)
                .max(offset - offset % BLOCK_BYTES)
        };
        let blocks = fresh_from - fresh_from % BLOCK_BYTES..end.next_multiple_of(BLOCK_BYTES);
        let goes_on = counted.contains(&blocks.start) || counted.end == blocks.start;
        let from = match goes_on {
            true => counted.end,
            false => blocks.start,
        };
        let fresh = blocks.end.saturating_sub(from);
        let most = grown.next_multiple_of(BLOCK_BYTES);
        attr.allocated = (attr.allocated + fresh).min(most);
        attr.size = grown;
        attr.mtime = Some(now);
        mark_changed(attr, now);
        state.counted = match goes_on {
            true => counted.start..counted.end.max(blocks.end),
            false => blocks,
        };
        if state.lease.mode() == Mode::Shared {
            state.buffer.allocated_more += fresh;
        }
        state.buffer.changes += 1;
        state.version += 1;
        self.buffer_write(node, &mut state, offset, data);
        Ok(Written {
            offset,
            length: length as usize,
        })
    }

    // ---- shape ----

    pub async fn fallocate(
        self: &Rc<Self>,
        id: HandleId,
        mode: Allocate,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let handle = self.handles.file(id)?;
        if !handle.flags.write {
            return Err(Errno(libc::EBADF));
        }
        if length == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(Errno(libc::EFBIG))?;
        let node = &handle.node;
        self.announced(node).await;
        let grows = match mode {
            Allocate::Extend | Allocate::ZeroRange { keep_size: false } => true,
            Allocate::KeepSize | Allocate::PunchHole | Allocate::ZeroRange { keep_size: true } => {
                false
            }
        };
        let begun = loop {
            let begun = self.begin(node, Mode::Write).await?;
            handle.check_lock()?;
            if end > node.state.borrow().reach()? {
                return Err(Errno(libc::EFBIG));
            }
            if matches!(mode, Allocate::PunchHole | Allocate::ZeroRange { .. }) {
                self.punch(node, offset, end).await?;
            }
            // Or there would be nothing here to note the new size in.
            if !begun.is_lost() {
                break begun;
            }
        };
        let now = self.wall();
        let mut state = node.state.borrow_mut();
        state.version += 1;
        if let Some(attr) = &mut state.attr
            && (mode != Allocate::KeepSize)
        {
            if grows {
                attr.size = attr.size.max(end);
            }
            attr.mtime = Some(now);
            mark_changed(attr, now);
            state.buffer.changes += 1;
        }
        drop(state);
        drop(begun);
        Ok(())
    }

    /// Makes `start..end` a hole, under a WRITE use of the caller's.
    async fn punch(self: &Rc<Self>, node: &Rc<Node>, start: u64, end: u64) -> Result<()> {
        // What is on its way there must not arrive afterwards.
        let kept_back = self.keep_back(node, start..end).await?;
        let layout = node.state.borrow().layout.clone();
        let layout = layout.ok_or(Errno(libc::EIO))?;
        let size = node.state.borrow().attr.map_or(0, |attr| attr.size);
        let end = end.min(size).max(start);
        let sent = self.sent_to(&layout);
        let shapes = layout.map.pairs().iter().enumerate();
        let shapes = shapes.map(|(index, pair)| (pair, layout.map.object_range(index, start, end)));
        let shapes = shapes.filter(|(_, hole)| !hole.is_empty());
        let shapes = shapes.map(|(pair, hole)| {
            let object = Object {
                pair: pair.0,
                ino: node.ino,
                generation: layout.generation,
            };
            let hole = proto::Range {
                start: hole.start,
                end: hole.end,
            };
            self.pairs
                .shape(self, object, layout.protocol, None, vec![hole])
        });
        // A pair that refuses leaves what waits, which is written over whatever others have made of it.
        let shaped = futures_util::future::join_all(shapes).await;
        // Also if some of it failed: the rest is done.
        node.state.borrow_mut().unstable.join(sent);
        shaped.into_iter().collect::<Result<()>>()?;
        kept_back.make_void().await;
        // The hole is there, whoever can say now what it is worth.
        match self.allocated(node, &layout).await {
            Ok(allocated) => {
                let mut state = node.state.borrow_mut();
                state.counted = 0..0;
                if let Some(attr) = &mut state.attr {
                    attr.allocated = allocated;
                }
            }
            Err(errno) => tracing::debug!(ino = node.ino, %errno, "allocation is not known"),
        }
        Ok(())
    }

    /// Bytes allocated for the file by the word of the pairs, and what waits here.
    async fn allocated(self: &Rc<Self>, node: &Node, layout: &FileLayout) -> Result<u64> {
        let mut total = 0;
        for pair in layout.map.pairs() {
            let object = Object {
                pair: pair.0,
                ino: node.ino,
                generation: layout.generation,
            };
            let mut from = 0;
            loop {
                let map = self.pairs.map(self, object, (from, u64::MAX), 0).await?;
                total += map.allocated;
                match map.data.last() {
                    Some(last) if map.more && last.end > from => from = last.end,
                    _ => break,
                }
            }
        }
        let state = node.state.borrow();
        Ok(total + state.buffer.waiting.bytes() + state.buffer.flying.bytes())
    }

    pub async fn seek(self: &Rc<Self>, id: HandleId, offset: u64, whence: Seek) -> Result<u64> {
        let handle = self.handles.file(id)?;
        let node = &handle.node;
        loop {
            let begun = self.begin(node, Mode::Read).await?;
            let found = self.seek_here(node, offset, whence).await;
            if self.has_stood(&begun) {
                return found;
            }
        }
    }

    /// Seeks under a READ use of the caller's.
    async fn seek_here(self: &Rc<Self>, node: &Rc<Node>, offset: u64, whence: Seek) -> Result<u64> {
        let (size, layout, trim) = {
            let state = node.state.borrow();
            (
                state.attr.map_or(0, |attr| attr.size),
                state.layout.clone().ok_or(Errno(libc::EIO))?,
                state.trim.map_or(u64::MAX, |(_, from)| from),
            )
        };
        if offset >= size {
            return Err(Errno(libc::ENXIO));
        }
        if whence == Seek::Data {
            let found = self.first_data(node, &layout, (offset, size), trim).await?;
            return found.ok_or(Errno(libc::ENXIO));
        }
        let mut at = offset;
        // Window by window, so that a large file is not mapped at once.
        let window = layout.map.unit() * layout.map.pairs().len() as u64 * 64;
        while at < size {
            let end = size.min((at / window + 1) * window);
            let data = self.data_ranges(node, &layout, at, end, trim).await?;
            let mut hole = at;
            for (from, to) in &data {
                if *from > hole {
                    break;
                }
                hole = hole.max(*to);
            }
            if hole < end {
                return Ok(hole);
            }
            at = end;
        }
        // Every file ends with a hole.
        Ok(size)
    }

    /// Where the first data is in `start..end`, if there is any: a question to each pair, however long the
    /// holes are.
    async fn first_data(
        self: &Rc<Self>,
        node: &Node,
        layout: &FileLayout,
        (start, end): (u64, u64),
        trim: u64,
    ) -> Result<Option<u64>> {
        // As in `data_ranges`.
        let block = start - start % BLOCK_BYTES;
        let mut first = {
            let state = node.state.borrow();
            let (waiting, flying) = (&state.buffer.waiting, &state.buffer.flying);
            let buffered = [waiting, flying].map(|held| held.ranges(block).next());
            // File systems tell holes by blocks.
            let begins = buffered
                .into_iter()
                .flatten()
                .map(|(from, _)| from - from % BLOCK_BYTES);
            begins.min().map_or(end, |from| from.max(start))
        };
        for (index, pair) in layout.map.pairs().iter().enumerate() {
            let object = Object {
                pair: pair.0,
                ino: node.ino,
                generation: layout.generation,
            };
            let from = layout.map.object_length(index, block);
            let to = layout.map.object_length(index, first.min(trim).max(block));
            if from < to {
                let map = self.pairs.map(self, object, (from, to), 1).await?;
                if let Some(range) = map.data.first() {
                    first = first.min(layout.map.file_offset(index, range.start).max(start));
                }
            }
        }
        Ok((first < end).then_some(first))
    }

    /// Where data is in `start..end`, in order, joined where it touches.
    pub async fn data_ranges(
        self: &Rc<Self>,
        node: &Node,
        layout: &FileLayout,
        start: u64,
        end: u64,
        trim: u64,
    ) -> Result<Vec<(u64, u64)>> {
        // Of the block in which it starts an object may have the beginning alone.
        let block = start - start % BLOCK_BYTES;
        let mut ranges: Vec<(u64, u64)> = {
            let state = node.state.borrow();
            let waiting = state.buffer.waiting.ranges(block);
            let flying = state.buffer.flying.ranges(block);
            waiting
                .take_while(|r| r.0 < end)
                .chain(flying.take_while(|r| r.0 < end))
                // Filesystems tell holes by blocks.
                .map(|(from, to)| (from - from % BLOCK_BYTES, to.next_multiple_of(BLOCK_BYTES)))
                .collect()
        };
        let held = end.min(trim);
        for (index, pair) in layout.map.pairs().iter().enumerate() {
            let object = Object {
                pair: pair.0,
                ino: node.ino,
                generation: layout.generation,
            };
            let mut from = layout.map.object_length(index, block);
            let to = layout.map.object_length(index, held.max(block));
            while from < to {
                let map = self.pairs.map(self, object, (from, to), 0).await?;
                for range in &map.data {
                    let mut at = range.start;
                    while at < range.end {
                        let unit = layout.map.unit();
                        let length = (unit - at % unit).min(range.end - at);
                        let file = layout.map.file_offset(index, at);
                        // Where an object ends in a block, the rest of that is no hole if the file is longer.
                        ranges.push((file, (file + length).next_multiple_of(BLOCK_BYTES)));
                        at += length;
                    }
                }
                from = match map.data.last() {
                    Some(last) if map.more && last.end > from => last.end,
                    _ => to,
                };
            }
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        let of_start = ranges.into_iter().filter(|(_, to)| *to > start);
        for (from, to) in of_start.map(|(from, to)| (from.max(start), to)) {
            match joined.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        Ok(joined)
    }

    pub async fn copy_range(
        self: &Rc<Self>,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: u64,
    ) -> Result<u64> {
        let (source, target) = (self.handles.file(from.0)?, self.handles.file(to.0)?);
        if !source.flags.read || !target.flags.write {
            return Err(Errno(libc::EBADF));
        }
        let length = length.min(COPY_BYTES_MAX);
        let overlaps = from.1 < to.1.saturating_add(length) && to.1 < from.1.saturating_add(length);
        if source.node.ino == target.node.ino && overlaps {
            return Err(Errno(libc::EINVAL));
        }
        let mut done = 0;
        while done < length {
            let step = (length - done).min(COPY_STEP) as usize;
            let parts = match self.read(from.0, from.1 + done, step).await {
                Ok(parts) => parts,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            };
            if parts.is_empty() {
                break;
            }
            for part in parts {
                let bytes = part.len();
                match self.write(to.0, to.1 + done, part, false, || true).await {
                    Ok(written) => done += written.length as u64,
                    Err(errno) if done == 0 => return Err(errno),
                    Err(_) => return Ok(done),
                }
                debug_assert!(bytes > 0);
            }
        }
        Ok(done)
    }
}

/// A piece to ask a pair for.
struct Fetch {
    /// Where it lies in the file.
    at: u64,
    object: Object,
    offset: u64,
    length: u64,
}
