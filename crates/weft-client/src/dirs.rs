//! Listing directories: pages from the server, the next one fetched while the last is handed out.
//!
//! Cookies of the service are shifted by two to make room for `.` and `..`.

use crate::access;
use crate::bounds::Bounds;
use crate::core::Core;
use crate::handles::{DirHandle, PageEntry, Pages};
use crate::names::NameState;
use crate::types::*;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use std::rc::Rc;
use std::time::Duration;
use weft_types::FixedSet;
use weft_wire::proto::ReaddirRequest;

/// Entries asked for at a time: with attributes about 100 KiB.
const PAGE_ENTRIES: u32 = 1024;
/// The next page is fetched when fewer entries than this wait.
const LOW_ENTRIES: usize = 512;
/// Inodes that are asked for at a time where a page has not brought what they are like: files that others have for
/// themselves, for the most part.
const ASKED_AT_ONCE: usize = 64;
/// Names are not kept waiting for attributes for longer than this.
const ATTRIBUTES_PATIENCE: Duration = Duration::from_secs(1);
/// `.` and `..`.
const DOTS: u64 = 2;

impl Core {
    pub async fn opendir(self: &Rc<Self>, cred: &Cred, ino: u64) -> Result<HandleId> {
        let (node, known) = self.known_here(ino).await?;
        if known.attr.kind() != FileKind::Directory {
            return Err(Errno(libc::ENOTDIR));
        }
        access::check(&known.attr, cred, access::READ)?;
        Ok(self.handles.add_dir(node))
    }

    pub async fn readdir(
        self: &Rc<Self>,
        id: HandleId,
        after: u64,
        max: usize,
        plus: bool,
    ) -> Result<Vec<DirEntry>> {
        let handle = self.handles.dir(id)?;
        let mut found = Vec::new();
        if max == 0 {
            return Ok(found);
        }
        position(&mut handle.pages.borrow_mut(), after, plus);
        self.have_page(&handle).await?;
        {
            let pages = handle.pages.borrow();
            let dots = [(&b"."[..], 1, handle.node.ino), (b"..", 2, pages.parent)];
            let dots = dots.into_iter().map(|(name, cookie, ino)| PageEntry {
                name: Bytes::from_static(name),
                ino,
                kind: FileKind::Directory,
                cookie,
            });
            let dots = dots.filter(|entry| after < entry.cookie);
            found.extend(dots.take(max).map(|entry| entry.hand_out()));
            let rest = max - found.len();
            found.extend(pages.entries.iter().take(rest).map(PageEntry::hand_out));
        }
        let is_low = {
            let pages = handle.pages.borrow();
            !pages.end && pages.entries.len() < found.len() + LOW_ENTRIES
        };
        let dir = handle.node.ino;
        if is_low && !handle.fetching.get() {
            let core = self.clone();
            self.env.spawn("next page", async move {
                core.fetch_page(&handle).await;
            });
        }
        if plus {
            self.look_at(dir, &mut found).await;
        }
        Ok(found)
    }

    /// What entries stand for as they are handed out: since their page came, others may have changed it. Asks side by side
    /// for what is known under no lease: a program that is told one after the other waits for each.
    async fn look_at(self: &Rc<Self>, dir: u64, entries: &mut [DirEntry]) {
        let mut unknown = Vec::new();
        for entry in entries.iter_mut().filter(|entry| entry.cookie > DOTS) {
            entry.known = self.known_now(entry.ino).map(|(_, known)| known);
            if entry.known.is_none() {
                unknown.push(entry);
            }
        }
        let has_waited = !unknown.is_empty();
        if has_waited {
            let asking = stream::iter(unknown).for_each_concurrent(ASKED_AT_ONCE, async |entry| {
                // One that has gone, or cannot be asked for, is a name.
                let known = self.known_here(entry.ino).await.ok();
                entry.known = known.map(|(_, known)| known);
            });
            let in_time = self.env.timeout(ATTRIBUTES_PATIENCE, asking).await;
            if in_time.is_err() {
                tracing::debug!(
                    dir,
                    "listed without some attributes: they did not come in time"
                );
            }
        }
        // From here to the reply nothing waits: what stands now may be kept.
        for entry in entries.iter_mut().filter(|entry| entry.cookie > DOTS) {
            if has_waited && let Some(known) = &mut entry.known {
                match self.known_now(entry.ino) {
                    Some((_, now)) => *known = now,
                    None => known.leased = false,
                }
            }
            // What is spread has attributes in many places: they are asked for when they are wanted.
            // What has lost its name meanwhile is not what the entry is of.
            let is_whole = |known: &Known| known.attr.shards == 0 && known.attr.nlink > 0;
            entry.known = entry.known.take().filter(is_whole);
            entry.name_leased = self.keeps_name(dir, &entry.name, entry.ino);
        }
    }

    /// Waits until there are entries, or the end is known.
    async fn have_page(self: &Rc<Self>, handle: &Rc<DirHandle>) -> Result<()> {
        loop {
            let wake = handle.wake.notified();
            {
                let mut pages = handle.pages.borrow_mut();
                if let Some(errno) = pages.failed.take() {
                    return Err(errno);
                }
                if !pages.entries.is_empty() || pages.end {
                    return Ok(());
                }
            }
            if handle.fetching.get() {
                wake.await;
            } else {
                self.fetch_page(handle).await;
            }
        }
    }

    async fn fetch_page(self: &Rc<Self>, handle: &Rc<DirHandle>) {
        struct Fetching<'a>(&'a DirHandle);
        impl Drop for Fetching<'_> {
            fn drop(&mut self) {
                self.0.fetching.set(false);
                self.0.wake.notify_waiters();
            }
        }
        if handle.fetching.replace(true) {
            return;
        }
        let _fetching = Fetching(handle);
        let (after, plus, jump) = {
            let pages = handle.pages.borrow();
            (pages.next, pages.plus, pages.jump)
        };
        let result = self.ask_page(handle, after, plus, jump).await;
        if let Err(errno) = result {
            let mut pages = handle.pages.borrow_mut();
            if pages.jump == jump {
                pages.failed = Some(errno);
            }
        }
    }

    async fn ask_page(
        self: &Rc<Self>,
        handle: &Rc<DirHandle>,
        after: u64,
        plus: bool,
        jump: u64,
    ) -> Result<()> {
        let node = &handle.node;
        let listed = self.list(node.ino, after, plus).await?;
        {
            let mut state = node.state.borrow_mut();
            let mut pages = handle.pages.borrow_mut();
            if after == 0 {
                pages.listing = listed.lease;
            } else if pages.listing != listed.lease || pages.jump != jump {
                pages.listing = None;
            }
            if listed.end
                && pages.listing.is_some()
                && let Some(names) = &mut state.names
            {
                names.end_listing();
            }
        }
        let known = handle.pages.borrow().parent;
        let parent = match listed.parent {
            0 => known,
            parent => self.whole_parent(node.ino, parent).await,
        };
        let mut pages = handle.pages.borrow_mut();
        pages.parent = parent;
        if pages.jump != jump {
            return Ok(());
        }
        pages.end = listed.end || listed.entries.is_empty();
        pages.next = listed.entries.last().map_or(after, |it| it.cookie - DOTS);
        if after == 0 {
            pages.bounds = Some(listed.bounds);
        }
        let Some(bounds) = pages.bounds.clone() else {
            pages.entries.extend(listed.entries);
            return Ok(());
        };
        let known = listed.entries.into_iter();
        let known = known.filter(|entry| bounds.has(entry.cookie - DOTS));
        pages.entries.extend(known);
        // What is new in one part is followed by nothing but by what other parts have.
        let is_past = !bounds.has(pages.next);
        pages.end |= is_past && listed.shards == 0;
        pages.next = bounds.next(pages.next);
        Ok(())
    }

    /// A page of a directory, as everybody sees it.
    async fn list(self: &Rc<Self>, dir: u64, after: u64, plus: bool) -> Result<Listed> {
        if self.spreads.shards(dir).is_none() {
            let listed = self.list_one(dir, after, plus).await?;
            if listed.shards == 0 {
                return Ok(listed);
            }
            self.learn_shards(dir).await?;
        }
        match self.spreads.shards(dir) {
            Some(shards) => {
                let listed = Box::pin(self.list_spread(dir, &shards, (after, plus))).await?;
                // What the directory itself has says nothing of its names.
                Ok(Listed {
                    lease: None,
                    shards: shards.len() as u32,
                    ..listed
                })
            }
            // It has lost its last name since.
            None => self.list_one(dir, after, plus).await,
        }
    }

    /// A page of this directory, or of one shard. Notes what the names stand for.
    pub async fn list_one(self: &Rc<Self>, ino: u64, after: u64, plus: bool) -> Result<Listed> {
        let node = self.nodes.get_or_new(ino);
        let change = node.state.borrow().attr.map_or(0, |attr| attr.change);
        let losses = node.state.borrow().lease.losses();
        let xattr_changes = self.xattr_changes.get();
        let (reply, link) = self
            .ask_at(node.ino, |link| ReaddirRequest {
                session: link.session,
                epoch: link.epoch,
                cred: Some(Cred::default()),
                ino: node.ino,
                after,
                max_entries: PAGE_ENTRIES,
                plus,
            })
            .await?;
        self.take_leases(&link, &reply.leases, node.ino);
        let granted = self.granted(&link, &reply.leases, node.ino);
        let standing = reply.leases.iter().filter(|l| self.stands(&link, l));
        let leased: FixedSet<u64> = standing.map(|lease| lease.ino).collect();
        let mut entries = Vec::with_capacity(reply.entries.len());
        for mut entry in reply.entries {
            // What another group keeps is asked of that.
            if let Some(inode) = entry.inode.take().filter(|inode| !inode.elsewhere) {
                let is_leased = leased.contains(&entry.ino);
                let (node, _) = self.take_inode(&inode, is_leased);
                if inode.no_xattrs && is_leased {
                    self.take_no_xattrs(&node, xattr_changes);
                }
            }
            entries.push(PageEntry {
                kind: entry.kind(),
                ino: entry.ino,
                cookie: entry.cookie + DOTS,
                name: entry.name,
            });
        }
        let mut state = node.state.borrow_mut();
        // Or the answer may be of before a change of this client's own that was in doubt.
        let holds = granted && state.lease.may_answer() && state.lease.losses() == losses;
        if holds && reply.shards == 0 {
            let names = state.names.get_or_insert_default();
            if after == 0 {
                names.begin_listing();
            }
            for entry in &entries {
                names.put(&entry.name, NameState::Present(entry.ino), change);
            }
            if after == 0 && reply.end {
                names.end_listing();
            }
        }
        Ok(Listed {
            ino,
            end: reply.end || entries.is_empty(),
            entries,
            parent: reply.parent,
            bounds: Bounds::of_part(reply.next_cookie),
            shards: reply.shards,
            lease: holds.then(|| state.lease.losses()),
        })
    }

    /// What was listed has stood since, under the lease that came with it.
    pub fn still_stands(&self, listed: &Listed) -> bool {
        let node = self.nodes.get(listed.ino);
        let node = node.filter(|_| self.is_valid(listed.ino));
        node.is_some_and(|node| {
            let state = node.state.borrow();
            state.lease.may_answer() && listed.lease == Some(state.lease.losses())
        })
    }

    /// The parent as everybody knows it: another group's may be a shard.
    async fn whole_parent(self: &Rc<Self>, dir: u64, parent: u64) -> u64 {
        let is_known = self.spreads.whole(parent) != parent
            || self.group_of(parent) == self.group_of(dir)
            || self
                .nodes
                .get(parent)
                .is_some_and(|node| node.known().is_some());
        // If it has gone meanwhile, nobody knows better.
        if !is_known && let Err(errno) = self.learn_shards(parent).await {
            tracing::debug!(dir, parent, %errno, "nothing is known of a parent");
        }
        self.spreads.whole(parent)
    }
}

/// A page that was asked for.
pub(crate) struct Listed {
    /// Of which directory, or shard.
    pub ino: u64,
    /// With cookies as they are given to others.
    pub entries: Vec<PageEntry>,
    pub end: bool,
    pub parent: u64,
    /// Of what there was at the time.
    pub bounds: Bounds,
    /// How many shards the directory has.
    pub shards: u32,
    /// How often the lease that came with it had been lost; None: none came.
    pub lease: Option<u64>,
}

impl Listed {
    /// To which entries are added.
    pub fn nothing() -> Listed {
        Listed {
            ino: 0,
            entries: Vec::new(),
            end: true,
            parent: 0,
            bounds: Bounds::default(),
            shards: 0,
            lease: None,
        }
    }
}

/// Moves to what comes after a cookie: within what was fetched, or to another place.
fn position(pages: &mut Pages, after: u64, plus: bool) {
    let next = pages.entries.back().map_or(pages.after, |e| e.cookie);
    let is_within = after >= pages.after && after <= next && pages.plus == plus;
    // The first reading from the start, and every rewind to it, begins a listing.
    if is_within && after > 0 {
        while pages.entries.front().is_some_and(|e| e.cookie <= after) {
            pages.entries.pop_front();
        }
        pages.after = after;
        return;
    }
    // A rewind sees what has changed since.
    let bounds = pages.bounds.take().filter(|_| after > 0);
    *pages = Pages {
        bounds,
        after,
        next: after.saturating_sub(DOTS),
        plus,
        jump: pages.jump + 1,
        parent: pages.parent,
        ..Pages::default()
    };
}
