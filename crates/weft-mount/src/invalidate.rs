//! What the kernel keeps of this mount, and how it is made to forget.
//!
//! The client calls [`Invalidation`] before it gives a lease back. Kept true
//! here: when such a call has ended, the kernel answers nothing from what it was given before, but
//! for pages that reads and writes in progress hold, if the call said so.
//!
//! Three kinds of forgetting (docs/protocols/leases.md, "The kernel's cache"):
//! - names: one epoch for the whole mount; the kernel looks a name up again if it was learnt in an
//!   older one. It takes no lock, unlike invalidating one name, which takes the lock of the
//!   directory, perhaps held by an operation that waits for us. Kernels without epochs get names
//!   that are valid for no time at all.
//! - attributes and pages of an inode: waits for pages that are locked for a read or a write, which
//!   wait for the client, so it never runs on the client's thread ([`Kernel::invalidate_inode`]); and
//!   leaves out what such requests hold ([`Hold`]), which may themselves wait for the lease that is
//!   given back.
//! - an inode that the kernel has been told of but has not made yet (the answer is on its way
//!   through the caller's thread): it cannot be found to be invalidated. It is tried again while that may be so. If it
//!   is not to be found even then, the epoch moves, so that its names are looked up again, and it is invalidated when
//!   it is first opened.

use crate::aliases::Aliases;
use crate::departures::Departures;
use crate::fills::Fills;
use crate::holds::{FOLIO_MAX, Hold, Holds, PAGE, Split};
use crate::kernel::{Kernel, Runner};
use crate::listed::Listings;
use crate::sizes::Sizes;
use crate::told::{Told, ToldInodes};
use futures_util::future::{Either, LocalBoxFuture, join_all, select};
use futures_util::{FutureExt, StreamExt};
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use weft_client::Attr;
use weft_types::FixedSet;

/// So often it is looked whether an invalidation waits for a page that is locked.
const LATE: Duration = Duration::from_millis(5);

/// One that has waited for longer, for no page that a request holds, waits for pages that the kernel has
/// joined with such a one. (A page whose read was answered is locked until the reader runs.)
const JOINED: Duration = Duration::from_millis(100);

/// An inode that the kernel has not made yet is looked for again after this, and then after twice as long each time.
const MAKING_PAUSE: Duration = Duration::from_millis(1);

/// Inodes that are forgotten at a time when all are: each may wait for a thread, and for pages.
const AT_A_TIME: usize = 64;

/// Bytes of a file.
const ALL: Range<u64> = 0..u64::MAX;

/// A range that the kernel was asked to forget.
struct Asked {
    range: Range<u64>,
    /// That of a write which perhaps keeps it locked.
    request: Option<u64>,
    runner: Runner,
    done: Cell<bool>,
}

/// What the kernel knows of this mount.
pub struct KernelCache {
    env: weft_env::Env,
    pub(crate) kernel: Rc<dyn Kernel>,
    holds: RefCell<Holds>,
    /// A request has come that holds pages.
    held: Notify,
    fills: RefCell<Fills>,
    /// The kernel knows epochs. Set once, by INIT.
    epochs: Cell<bool>,
    /// What has lost its name: the face's.
    departures: RefCell<Weak<Departures>>,
    /// Inodes that are not here need no invalidation.
    told: RefCell<ToldInodes>,
    /// Inodes whose invalidation came before the kernel had made them.
    late: RefCell<FixedSet<u64>>,
    pub(crate) sizes: RefCell<Sizes>,
    /// A write past the page cache is over.
    pub(crate) overwritten: Notify,
    pub(crate) aliases: RefCell<Aliases>,
    pub(crate) listings: RefCell<Listings>,
}

impl KernelCache {
    /// What `kernel` knows before its first request: nothing.
    pub fn new(env: weft_env::Env, kernel: Rc<dyn Kernel>) -> Rc<KernelCache> {
        Rc::new(KernelCache {
            env,
            kernel,
            holds: RefCell::default(),
            held: Notify::new(),
            fills: RefCell::default(),
            epochs: Cell::new(false),
            departures: RefCell::default(),
            told: RefCell::default(),
            late: RefCell::default(),
            sizes: RefCell::default(),
            overwritten: Notify::new(),
            aliases: RefCell::default(),
            listings: RefCell::default(),
        })
    }

    /// Where it is heard of what has lost its name.
    pub(crate) fn set_departures(&self, departures: &Rc<Departures>) {
        *self.departures.borrow_mut() = Rc::downgrade(departures);
    }

    fn departures(&self) -> Option<Rc<Departures>> {
        self.departures.borrow().upgrade()
    }

    /// INIT has told which version the kernel speaks.
    pub fn set_epochs(&self, known: bool) {
        self.epochs.set(known);
    }

    /// Names may be given to the kernel to keep.
    pub fn keeps_names(&self) -> bool {
        self.epochs.get()
    }

    /// The kernel is being told of an inode.
    pub fn told(&self, attr: &Attr) {
        self.told.borrow_mut().tell(attr, 1, self.env.now());
    }

    /// The kernel is being told the attributes of an inode that it knows.
    pub fn told_again(&self, attr: &Attr) {
        self.told.borrow_mut().tell(attr, 0, self.env.now());
    }

    /// The kernel has forgotten so many tellings of an inode. True: it does not know it any more.
    pub fn forgot(&self, ino: u64, count: u64) -> bool {
        let is_last = self.told.borrow_mut().forget(ino, count);
        if is_last {
            self.late.borrow_mut().remove(&ino);
            self.sizes.borrow_mut().forgot(ino);
            self.aliases.borrow_mut().forgot(ino);
        }
        is_last
    }

    /// What the kernel knows of an inode.
    pub fn known(&self, ino: u64) -> Option<Told> {
        self.told.borrow().get(ino)
    }

    /// How many inodes the kernel knows.
    pub fn inodes(&self) -> usize {
        self.told.borrow().len()
    }

    /// An inode is used by its number: what was too early for it is made up for.
    pub async fn make_up_for(self: &Rc<Self>, ino: u64) {
        if self.late.borrow_mut().remove(&ino) {
            self.forget(ino, Some(ALL), Runner::default()).await;
        }
    }

    /// A request holds pages until what is returned says that it is over.
    pub fn hold(self: &Rc<Self>, ino: u64, hold: Hold) -> Held {
        let held = Held {
            kernel: self.clone(),
            ino,
            unique: hold.unique(),
        };
        self.holds.borrow_mut().add(ino, hold);
        self.held.notify_waiters();
        held
    }

    /// The kernel may have put bytes of a write that is in progress at a wrong place: they are
    /// forgotten once the write is answered.
    pub fn misplaced(self: &Rc<Self>, ino: u64) {
        if self.holds.borrow_mut().void_all(ino) {
            return;
        }
        // It is answered in the turn that it came in: before the task's first.
        let kernel = self.clone();
        self.env.spawn("misplaced bytes", async move {
            kernel.invalidate(ino).await;
        });
    }

    /// A read is about to be answered.
    pub fn filled(&self, ino: u64, pages: Range<u64>) {
        self.fills.borrow_mut().filled(ino, pages, self.env.now());
    }

    pub(crate) fn now(&self) -> weft_env::Mono {
        self.env.now()
    }

    /// What reads in progress, but for request `own`, hold of these pages is to be read again.
    pub(crate) fn outdate(&self, ino: u64, own: u64, pages: &Range<u64>) {
        self.holds.borrow_mut().outdate(ino, own, pages);
    }

    /// The kernel asks for an inode's attributes again, and ignores those that it has been told of and has not taken yet.
    /// For an inode of which a request is in progress: one that it is about to drop would be waited for.
    pub fn void_attributes(&self, ino: u64) {
        self.sizes.borrow_mut().forgets(ino, self.env.now());
        match self.kernel.void_attributes(ino) {
            Ok(()) => {}
            Err(error) if is_gone(&error) || error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => tracing::error!(ino, %error, "the kernel refused to forget attributes"),
        }
    }

    /// What a read in progress holds was written since this was last asked: it is to be read again.
    pub fn take_outdated(&self, ino: u64, unique: u64) -> bool {
        self.holds.borrow_mut().take_outdated(ino, unique)
    }

    /// A write has been done and is about to be answered. Where its pages were forgotten since they
    /// were filled, a read may have brought older bytes back: they are forgotten again.
    pub async fn make_sure(self: &Rc<Self>, ino: u64, unique: u64, pages: Range<u64>) {
        let filled = self.fills.borrow().under(ino, &pages, self.env.now());
        let Some(filled) = filled else {
            return;
        };
        self.holds.borrow_mut().outdate(ino, unique, &pages);
        if filled.is_empty() {
            return;
        }
        self.forget_free(ino, filled).await;
    }

    /// Has an inode forgotten, but for pages that are held: false if there were any. These are
    /// forgotten when the request that holds them is over.
    async fn invalidate(self: &Rc<Self>, ino: u64) -> bool {
        self.fills.borrow_mut().asked(ino, self.env.now());
        let all = self.forget_free(ino, vec![ALL]).await;
        self.fills.borrow_mut().asked(ino, self.env.now());
        all
    }

    /// Has ranges forgotten, but for pages that requests hold: false if there were any. These are
    /// forgotten when the request is over.
    pub(crate) async fn forget_free(self: &Rc<Self>, ino: u64, mut left: Vec<Range<u64>>) -> bool {
        let mut all = true;
        let mut grain = PAGE;
        loop {
            let split = self.holds.borrow_mut().split(ino, left, grain);
            all &= split.is_all;
            if split.free.is_empty() && split.perhaps.is_empty() {
                // The attributes at least.
                self.forget(ino, None, Runner::default()).await;
                return all;
            }
            left = match self.forget_pages(ino, split, &mut grain).await {
                left if left.is_empty() => return all,
                left => left,
            };
        }
    }

    /// Has ranges forgotten. What is left when requests turn out to hold some of it: threads go on
    /// waiting for it, and what such requests do not hold is to be forgotten without them. What a write
    /// turns out to keep locked is not waited for: nobody reads it before it is filled anew.
    async fn forget_pages(
        self: &Rc<Self>,
        ino: u64,
        split: Split,
        grain: &mut u64,
    ) -> Vec<Range<u64>> {
        let job = |(request, range)| Asked {
            range,
            request,
            runner: Runner::default(),
            done: Cell::new(false),
        };
        let free = split.free.into_iter().map(|range| (None, range));
        let perhaps = split.perhaps.into_iter();
        let perhaps = perhaps.map(|(request, range)| (Some(request), range));
        let asked: Vec<Asked> = free.chain(perhaps).map(job).collect();
        let forgetting = asked.iter().map(|asked| async {
            let (range, runner) = (asked.range.clone(), asked.runner.clone());
            self.forget(ino, Some(range), runner).await;
            asked.done.set(true);
        });
        let mut forgetting = pin!(join_all(forgetting));
        let began = self.env.now();
        loop {
            let held = pin!(self.held.notified());
            let waited = select(held, self.env.sleep(LATE));
            if let Either::Left(_) = select(forgetting.as_mut(), waited).await {
                return Vec::new();
            }
            let unfinished: Vec<&Asked> = asked.iter().filter(|asked| !asked.done.get()).collect();
            if unfinished.iter().any(|asked| !asked.runner.has_begun()) {
                self.kernel.help();
            }
            let holds = self.holds.borrow();
            let waited = self.env.now().since(began);
            let is_held = |asked: &&Asked| asked.request.is_some_and(|one| holds.holds(ino, one));
            let fills = self.fills.borrow();
            let is_locked = |asked: &&Asked| {
                is_held(asked)
                    && !fills.are_fresh(ino, &asked.range, self.env.now())
                    && self.kernel.is_blocked(&asked.runner)
            };
            let unfinished: Vec<&Asked> = unfinished
                .into_iter()
                .filter(|asked| !is_locked(asked))
                .collect();
            let ranges = |asked: &Asked| asked.range.clone();
            let free = unfinished.iter().copied().filter(|asked| !is_held(asked));
            let free: Vec<Range<u64>> = free.map(ranges).collect();
            let is_joined = waited >= JOINED
                && holds.touch(ino, &free, FOLIO_MAX)
                && unfinished
                    .iter()
                    .all(|asked| self.kernel.is_blocked(&asked.runner));
            if is_joined {
                *grain = FOLIO_MAX;
            }
            if unfinished.is_empty() || holds.touch(ino, &free, *grain) {
                return unfinished.into_iter().map(ranges).collect();
            }
        }
    }

    /// One notification to the kernel: attributes, and the pages of a range if given. It goes on, and what
    /// comes of it is noted, if nobody waits for it any more.
    async fn forget(self: &Rc<Self>, ino: u64, pages: Option<Range<u64>>, runner: Runner) {
        if ino != weft_types::ROOT_INO.0 && self.known(ino).is_none() {
            return;
        }
        let turn = self.fills.borrow_mut().begin();
        self.sizes.borrow_mut().forgets(ino, self.env.now());
        let forgetting = self.kernel.invalidate_inode(ino, pages.clone(), runner);
        let (kernel, (noted, is_noted)) = (self.clone(), oneshot::channel::<()>());
        self.env.spawn("forgetting", async move {
            let mut answer = forgetting.await;
            let mut pause = MAKING_PAUSE;
            while is_absent(&answer)
                && let Some(told) = kernel.known(ino)
                && let Some(left) = told.is_making(kernel.env.now())
            {
                kernel.env.sleep(pause.min(left)).await;
                pause *= 2;
                let again = kernel
                    .kernel
                    .invalidate_inode(ino, pages.clone(), Runner::default());
                answer = again.await;
            }
            kernel.note(ino, pages, turn, answer);
            drop(noted);
        });
        // It ends by being dropped.
        let _ = is_noted.await;
    }

    fn note(&self, ino: u64, pages: Option<Range<u64>>, turn: u64, answer: io::Result<()>) {
        self.sizes.borrow_mut().forgets(ino, self.env.now());
        match answer {
            Ok(()) => {
                if let Some(pages) = &pages {
                    self.fills.borrow_mut().forgotten(ino, pages, turn);
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.late.borrow_mut().insert(ino);
                self.forget_names();
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                tracing::error!(ino, %error, "the kernel refused to forget an inode");
            }
        }
    }

    /// Has everything forgotten that the kernel was ever told, names first: they cost nothing.
    async fn invalidate_all(self: &Rc<Self>) {
        self.forget_names();
        let mut inos = self.told.borrow().inodes();
        inos.push(weft_types::ROOT_INO.0);
        // In one order, whatever the table's is.
        inos.sort_unstable();
        let forgetting = futures_util::stream::iter(inos);
        forgetting
            .for_each_concurrent(AT_A_TIME, async |ino| {
                self.invalidate(ino).await;
            })
            .await;
        // What a listing was still linking when this began.
        self.forget_names();
    }

    fn forget_names(&self) {
        if !self.keeps_names() {
            return;
        }
        match self.kernel.increment_epoch() {
            Ok(()) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::error!(%error, "the kernel refused to forget names"),
        }
    }
}

/// A request that holds pages.
pub struct Held {
    kernel: Rc<KernelCache>,
    ino: u64,
    unique: u64,
}

impl Held {
    /// It has been answered: what was left out for its sake is forgotten now.
    pub fn over(self) {
        let Held {
            kernel,
            ino,
            unique,
        } = self;
        let void = kernel.holds.borrow_mut().remove(ino, unique);
        if let Some(pages) = void {
            let env = kernel.env.clone();
            env.spawn("left out", async move {
                kernel.forget(ino, Some(pages), Runner::default()).await;
            });
        }
    }
}

/// The client's handle on it.
pub struct Invalidation(pub Rc<KernelCache>);

impl weft_client::Invalidator for Invalidation {
    fn inode(&self, ino: u64, data: bool) -> LocalBoxFuture<'static, bool> {
        let kernel = self.0.clone();
        async move {
            if data {
                return kernel.invalidate(ino).await;
            }
            kernel.forget(ino, None, Runner::default()).await;
            true
        }
        .boxed_local()
    }

    fn names(&self, dir: u64) -> LocalBoxFuture<'static, ()> {
        let kernel = self.0.clone();
        kernel.forget_names();
        let again = kernel.listings.borrow_mut().void(dir, kernel.env.now());
        async move {
            if let Some(after) = again {
                kernel.env.sleep(after).await;
                kernel.forget_names();
            }
        }
        .boxed_local()
    }

    fn departs(&self, ino: u64, here: bool) {
        if let Some(departures) = self.0.departures() {
            departures.departs(ino, here);
        }
    }

    fn has(&self, ino: u64) -> bool {
        let departures = self.0.departures();
        departures.is_some_and(|departures| departures.has(ino))
    }

    fn everything(&self) -> LocalBoxFuture<'static, ()> {
        let kernel = self.0.clone();
        async move { kernel.invalidate_all().await }.boxed_local()
    }
}

/// The kernel does not have the inode.
fn is_absent(answer: &io::Result<()>) -> bool {
    let error = answer.as_ref().err();
    error.and_then(io::Error::raw_os_error) == Some(libc::ENOENT)
}

/// The mount is being taken away: there is nothing left to forget.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENOTCONN | libc::ECONNABORTED)
    )
}
