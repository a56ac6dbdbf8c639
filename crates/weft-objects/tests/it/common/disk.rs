//! A disk in memory behind weft-env's `Driver`: it can stop at any operation that changes it (the
//! process is killed there: that one is done in part, nothing after it), be full, and lose sectors.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use weft_env::{
    DirItem, Driver, Env, File, FileDriver, Listener, Mono, OpenMode, SpaceReport, Stream,
    TaskDriver, Wall,
};

const PAGE: usize = 4096;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// Random numbers from a seed.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides.max(1)
    }
}

#[derive(Default)]
struct Content {
    pages: BTreeMap<u64, Box<[u8]>>,
    length: u64,
}

impl Content {
    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = (offset + length as u64).min(self.length);
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let within = (at % PAGE as u64) as usize;
            let take = (PAGE - within).min((end - at) as usize);
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => bytes.extend_from_slice(&page[within..within + take]),
                None => bytes.resize(bytes.len() + take, 0),
            }
            at += take as u64;
        }
        bytes
    }

    fn cut(&mut self, length: u64) {
        self.pages.retain(|page, _| page * (PAGE as u64) < length);
        if let Some(page) = self.pages.get_mut(&(length / PAGE as u64)) {
            page[(length % PAGE as u64) as usize..].fill(0);
        }
        self.length = length;
    }

    /// Writes what there is room for, of that at most `limit` pages. What a kill leaves of a write
    /// ends where a page of the page cache ends.
    fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        mut limit: u64,
        mut room: usize,
    ) -> io::Result<()> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() && limit > 0 {
            limit -= 1;
            let within = (at % PAGE as u64) as usize;
            let take = rest.len().min(PAGE - within);
            let number = at / PAGE as u64;
            if !self.pages.contains_key(&number) {
                if room == 0 {
                    return Err(errno(ENOSPC));
                }
                room -= 1;
            }
            let page = self.pages.entry(number);
            let page = page.or_insert_with(|| vec![0; PAGE].into());
            page[within..within + take].copy_from_slice(&rest[..take]);
            at += take as u64;
            self.length = self.length.max(at);
            rest = &rest[take..];
        }
        Ok(())
    }

    fn punch(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        for (number, page) in &mut self.pages {
            let start = number * PAGE as u64;
            let from = offset.clamp(start, start + PAGE as u64) - start;
            let to = end.clamp(start, start + PAGE as u64) - start;
            page[from as usize..to as usize].fill(0);
        }
        self.pages.retain(|number, _| {
            let start = number * PAGE as u64;
            start < offset || start + PAGE as u64 > end
        });
    }
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Rc<RefCell<Content>>>,
    dirs: BTreeSet<PathBuf>,
}

/// The disk; its content outlives the processes that use it.
#[derive(Clone, Default)]
pub struct Disk {
    state: Rc<RefCell<State>>,
    switches: Rc<Switches>,
}

#[derive(Default)]
struct Switches {
    /// Operations that changed the disk so far.
    changes: Cell<u64>,
    /// The process dies in this one.
    stop_at: Cell<Option<u64>>,
    dead: Cell<bool>,
    /// Pages that may be allocated in all.
    room: Cell<Option<usize>>,
    /// Reads that touch these bytes of any file whose name contains the string fail.
    unreadable: RefCell<Option<(String, std::ops::Range<u64>)>>,
    /// Only the first of them.
    once: Cell<bool>,
    /// Writes to files whose name contains the string fail.
    unwritable: RefCell<Option<String>>,
    dice: RefCell<Option<Dice>>,
    random: Cell<u64>,
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Disk {
    /// An environment for one process on this disk.
    pub fn env(&self) -> Env {
        self.switches.dead.set(false);
        Env::new(self.clone())
    }

    /// Kills the process in its `number`th change from now (0 is the next one).
    pub fn stop_at(&self, number: Option<u64>) {
        let at = number.map(|number| self.switches.changes.get() + number);
        self.switches.stop_at.set(at);
    }

    pub fn changes(&self) -> u64 {
        self.switches.changes.get()
    }

    pub fn is_dead(&self) -> bool {
        self.switches.dead.get()
    }

    /// From now on operations take turns and are late by these dice; also tears writes by them.
    pub fn shuffle(&self, dice: Dice) {
        *self.switches.dice.borrow_mut() = Some(dice);
    }

    /// Room for so many pages beyond those in use.
    pub fn leave_room(&self, pages: Option<usize>) {
        let used = self.used();
        self.switches.room.set(pages.map(|pages| used + pages));
    }

    pub fn unreadable(&self, name: &str, bytes: std::ops::Range<u64>) {
        *self.switches.unreadable.borrow_mut() = Some((name.to_owned(), bytes));
    }

    /// As [`Disk::unreadable`], for one read.
    pub fn unreadable_once(&self, name: &str, bytes: std::ops::Range<u64>) {
        self.unreadable(name, bytes);
        self.switches.once.set(true);
    }

    pub fn unwritable(&self, name: Option<&str>) {
        *self.switches.unwritable.borrow_mut() = name.map(str::to_owned);
    }

    pub fn used(&self) -> usize {
        let state = self.state.borrow();
        state
            .files
            .values()
            .map(|file| file.borrow().pages.len())
            .sum()
    }

    /// Changes a file behind the process's back.
    pub fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let state = self.state.borrow();
        let mut file = state.files[path].borrow_mut();
        let length = file.length as usize;
        let mut bytes = file.read(0, length);
        change(&mut bytes);
        file.pages.clear();
        file.length = bytes.len() as u64;
        for (number, page) in bytes.chunks(PAGE).enumerate() {
            let mut whole = page.to_vec();
            whole.resize(PAGE, 0);
            file.pages.insert(number as u64, whole.into());
        }
    }

    pub fn files(&self, containing: &str) -> Vec<PathBuf> {
        let state = self.state.borrow();
        let names = state.files.keys();
        names
            .filter(|path| path.to_string_lossy().contains(containing))
            .cloned()
            .collect()
    }

    pub fn delete(&self, path: &Path) {
        self.state.borrow_mut().files.remove(path);
    }

    fn roll(&self, sides: u64) -> u64 {
        self.switches
            .dice
            .borrow_mut()
            .as_mut()
            .map_or(0, |dice| dice.roll(sides))
    }

    /// Counts a change; `Ok(true)` if it is the one in which the process dies.
    fn change(&self) -> io::Result<bool> {
        self.alive()?;
        let number = self.switches.changes.get();
        self.switches.changes.set(number + 1);
        let dies = self.switches.stop_at.get() == Some(number);
        self.switches.dead.set(dies);
        Ok(dies)
    }

    fn alive(&self) -> io::Result<()> {
        match self.switches.dead.get() {
            true => Err(io::Error::other("the process was killed")),
            false => Ok(()),
        }
    }

    /// A change that is done as a whole or not at all.
    fn step(&self, work: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        if self.change()? {
            if self.roll(2) == 1 {
                work(&mut self.state.borrow_mut())?;
            }
            return Err(io::Error::other("the process was killed"));
        }
        work(&mut self.state.borrow_mut())
    }

    async fn linger(&self) {
        for _ in 0..self.roll(4) {
            let mut turns = 1;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                turns -= 1;
                if turns < 0 {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        }
    }
}

struct Nothing;

impl TaskDriver for Nothing {
    fn abort(&self) {}

    fn is_finished(&self) -> bool {
        true
    }
}

impl Driver for Disk {
    fn now(&self) -> Mono {
        Mono(self.switches.changes.get())
    }

    fn wall(&self) -> Wall {
        Wall(0)
    }

    fn random(&self) -> u64 {
        self.switches.random.set(self.switches.random.get() + 1);
        self.switches.random.get()
    }

    fn sleep(&self, _: Duration) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }

    fn spawn(&self, _: &'static str, _: LocalBoxFuture<'static, ()>) -> Box<dyn TaskDriver> {
        panic!("the store starts no tasks")
    }

    fn connect(&self, _: String) -> LocalBoxFuture<'static, io::Result<Stream>> {
        std::future::ready(Err(io::ErrorKind::Unsupported.into())).boxed_local()
    }

    fn listen(&self, _: String) -> LocalBoxFuture<'static, io::Result<Listener>> {
        std::future::ready(Err(io::ErrorKind::Unsupported.into())).boxed_local()
    }

    fn open(&self, path: PathBuf, mode: OpenMode) -> LocalBoxFuture<'static, io::Result<File>> {
        let disk = self.clone();
        async move {
            disk.alive()?;
            let there = disk.state.borrow().files.contains_key(&path);
            let makes = matches!(mode, OpenMode::Create | OpenMode::CreateEmpty);
            if !there && !makes {
                return Err(io::ErrorKind::NotFound.into());
            }
            if !there || mode == OpenMode::CreateEmpty {
                disk.step(|state| {
                    let parent = path.parent().expect("files lie in directories");
                    if !state.dirs.contains(parent) {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    let file = state.files.entry(path.clone()).or_default();
                    if mode == OpenMode::CreateEmpty {
                        file.borrow_mut().cut(0);
                    }
                    Ok(())
                })?;
            }
            let content = disk.state.borrow().files[&path].clone();
            Ok(File::new(MemoryFile {
                disk,
                name: path.to_string_lossy().into_owned(),
                content,
            }))
        }
        .boxed_local()
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirItem>> {
        self.alive()?;
        let state = self.state.borrow();
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let item = |other: &PathBuf, is_dir| DirItem {
            name: other
                .file_name()
                .expect("names do not end in ..")
                .to_string_lossy()
                .into_owned(),
            is_dir,
        };
        let below = |other: &&PathBuf| other.starts_with(path);
        let child = |other: &&PathBuf| other.parent() == Some(path);
        let from = path.to_path_buf();
        let dirs = state.dirs.range(from.clone()..).take_while(below);
        let mut items: Vec<DirItem> = dirs.filter(child).map(|d| item(d, true)).collect();
        let files = state
            .files
            .range(from..)
            .map(|(name, _)| name)
            .take_while(below);
        items.extend(files.filter(child).map(|f| item(f, false)));
        items.sort();
        Ok(items)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if self.state.borrow().dirs.contains(path) {
            return self.alive();
        }
        self.step(|state| {
            state.dirs.extend(path.ancestors().map(Path::to_path_buf));
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(|state| match state.files.remove(path) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|state| match state.files.remove(from) {
            Some(file) => {
                state.files.insert(to.to_owned(), file);
                Ok(())
            }
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn sync_dir(&self, _: &Path) -> LocalBoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        async move {
            disk.linger().await;
            disk.alive()
        }
        .boxed_local()
    }

    fn space(&self, _: &Path) -> io::Result<SpaceReport> {
        let used = self.used() as u64;
        let total = self.switches.room.get().map_or(1 << 20, |room| room as u64);
        Ok(SpaceReport {
            total: total * PAGE as u64,
            free: total.saturating_sub(used) * PAGE as u64,
        })
    }
}

struct MemoryFile {
    disk: Disk,
    name: String,
    content: Rc<RefCell<Content>>,
}

impl FileDriver for MemoryFile {
    fn read_at(&self, offset: u64, length: usize) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        let (disk, content, name) = (self.disk.clone(), self.content.clone(), self.name.clone());
        async move {
            disk.linger().await;
            disk.alive()?;
            let fails = disk
                .switches
                .unreadable
                .borrow()
                .as_ref()
                .is_some_and(|(which, bytes)| {
                    let end = offset + length as u64;
                    name.contains(which) && offset < bytes.end && bytes.start < end
                });
            if fails {
                if disk.switches.once.take() {
                    disk.switches.unreadable.take();
                }
                return Err(errno(EIO));
            }
            let bytes = content.borrow().read(offset, length);
            disk.linger().await;
            Ok(bytes.into())
        }
        .boxed_local()
    }

    fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> LocalBoxFuture<'static, io::Result<()>> {
        let (disk, content, name) = (self.disk.clone(), self.content.clone(), self.name.clone());
        async move {
            disk.linger().await;
            if let Some(which) = &*disk.switches.unwritable.borrow()
                && name.contains(which)
            {
                return Err(errno(EIO));
            }
            let dies = disk.change()?;
            let bytes = parts.concat();
            let pages = bytes.len().div_ceil(PAGE) as u64;
            let limit = if dies { disk.roll(pages + 1) } else { u64::MAX };
            let room = match disk.switches.room.get() {
                Some(room) => room.saturating_sub(disk.used()),
                None => usize::MAX,
            };
            let result = content.borrow_mut().write(offset, &bytes, limit, room);
            disk.linger().await;
            disk.alive()?;
            result
        }
        .boxed_local()
    }

    fn sync_data(&self) -> LocalBoxFuture<'static, io::Result<()>> {
        let disk = self.disk.clone();
        async move {
            disk.linger().await;
            disk.alive()
        }
        .boxed_local()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.step(|_| {
            self.content.borrow_mut().cut(length);
            Ok(())
        })
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.step(|_| {
            self.content.borrow_mut().punch(offset, length);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.alive()?;
        Ok(self.content.borrow().length)
    }
}
