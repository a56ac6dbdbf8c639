//! Inodes that have lost their last name and that the kernel still knows (`docs/protocols/leases.md`, "What the kernel
//! still has").
//!
//! Most are forgotten a moment after the name went: where that was done by this mount, the kernel drops them by itself. Of
//! the others it is asked to drop the names that nobody uses ([`Kernel::prune`]); what it knows after that is in use, as
//! by an O_PATH descriptor, and the service is to keep it. All of it ends with the kernel's FORGET: what is noted here is
//! bounded by what the kernel knows.

use crate::invalidate::KernelCache;
use crate::kernel::Kernel;
use futures_util::future::join_all;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_client::{Client, Errno};
use weft_env::{Env, Mono};

/// So often the inodes are gone through. The first time the kernel is asked to drop names, the second time what it knows
/// then is kept: half of what the service lets it linger for.
const ROUND: Duration = Duration::from_millis(250);
/// What is kept is asked for again after this: the kernel keeps a name that was in use then, and is not any more.
const AGAIN: Duration = Duration::from_secs(2);
/// Inodes in one notification: some milliseconds.
const PRUNE_MAX: usize = 1024;
/// Questions to the service side by side.
const ASKED_MAX: usize = 64;
/// That a name goes is told before it does, and it may stay. After so many rounds it has.
const STAYS: u32 = 20;
/// A kernel that cannot be asked to drop names has an inode kept for no longer, if another client took its name away:
/// nobody can tell whether it is in use.
const UNASKED_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
struct Departure {
    since: Mono,
    /// This mount has taken the last name away: the kernel has dropped it.
    here: bool,
    /// When the kernel was asked last.
    asked: Option<Mono>,
    /// The service keeps it for this client.
    kept: bool,
    /// In how many rounds it had a name.
    stays: u32,
}

/// What has lost its last name here, or may have, and is known to the kernel.
pub struct Departures {
    env: Env,
    client: Client,
    kernel: Rc<dyn Kernel>,
    cache: Rc<KernelCache>,
    inodes: RefCell<BTreeMap<u64, Departure>>,
    is_running: Cell<bool>,
    /// The kernel knows how to drop names that nobody uses.
    prunes: Cell<bool>,
    own: Weak<Departures>,
}

impl Departures {
    pub(crate) fn new(
        (env, client): (Env, Client),
        (kernel, cache): (Rc<dyn Kernel>, Rc<KernelCache>),
    ) -> Rc<Departures> {
        Rc::new_cyclic(|own| Departures {
            env,
            client,
            kernel,
            cache,
            inodes: RefCell::default(),
            is_running: Cell::new(false),
            prunes: Cell::new(false),
            own: own.clone(),
        })
    }

    /// INIT has told which version the kernel speaks.
    pub fn set_prunes(&self, known: bool) {
        self.prunes.set(known);
    }

    fn prunes(&self) -> bool {
        self.prunes.get()
    }

    /// An inode has lost its last name, or is about to.
    pub fn departs(&self, ino: u64, here: bool) {
        if self.cache.known(ino).is_none() || !here && !self.prunes() {
            return;
        }
        self.note(ino).here |= here;
    }

    /// The service keeps an inode because the kernel came with its number.
    pub fn kept(&self, ino: u64) {
        if self.cache.known(ino).is_some() {
            self.note(ino).kept = true;
        }
    }

    fn note(&self, ino: u64) -> RefMut<'_, Departure> {
        if !self.is_running.replace(true) {
            let own = self.own.clone();
            self.env.spawn("departures", async move {
                while let Some(departures) = own.upgrade() {
                    departures.env.sleep(ROUND).await;
                    departures.go_through().await;
                    if departures.inodes.borrow().is_empty() {
                        departures.is_running.set(false);
                        return;
                    }
                }
            });
        }
        let departure = Departure {
            since: self.env.now(),
            here: false,
            asked: None,
            kept: false,
            stays: 0,
        };
        let inodes = self.inodes.borrow_mut();
        RefMut::map(inodes, |inodes| inodes.entry(ino).or_insert(departure))
    }

    /// The kernel may come with the number of an inode, and it will be heard of when it cannot any more.
    pub fn has(&self, ino: u64) -> bool {
        if self.cache.known(ino).is_none() {
            return false;
        }
        let noted = self.inodes.borrow().get(&ino).copied();
        self.prunes() || noted.is_some_and(|noted| noted.here || !self.is_over(&noted))
    }

    /// A kernel that cannot be asked has had it for as long as it may.
    fn is_over(&self, noted: &Departure) -> bool {
        !self.prunes() && !noted.here && self.env.now().since(noted.since) > UNASKED_MAX
    }

    /// The kernel does not know an inode any more.
    pub fn forgot(&self, ino: u64) {
        self.inodes.borrow_mut().remove(&ino);
        self.client.face_forgot(ino);
    }

    async fn go_through(&self) {
        let now = self.env.now();
        let (mut prune, mut ask, mut over) = (Vec::new(), Vec::new(), Vec::new());
        self.inodes.borrow_mut().retain(|ino, noted| {
            let Some(told) = self.cache.known(*ino) else {
                return false;
            };
            if self.is_over(noted) {
                over.push(*ino);
                return false;
            }
            let was_asked = noted.asked;
            if was_asked.is_none_or(|asked| now.since(asked) >= AGAIN) {
                noted.asked = Some(now);
                prune.push(*ino);
            }
            if was_asked.is_none() || noted.kept {
                return true;
            }
            // Of a directory that is gone the service keeps nothing.
            if !told.is_directory() {
                ask.push(*ino);
            }
            !told.is_directory()
        });
        if self.prunes() {
            for inos in prune.chunks(PRUNE_MAX) {
                self.prune(inos.to_vec());
            }
        }
        for ino in over {
            self.client.face_forgot(ino);
        }
        for inos in ask.chunks(ASKED_MAX) {
            join_all(inos.iter().map(|ino| self.keep_if_nameless(*ino))).await;
        }
    }

    /// Asks the kernel to drop names. Nobody waits for it: what it forgets is heard of.
    fn prune(&self, inos: Vec<u64>) {
        let (asked, own) = (self.kernel.prune(inos), self.own.clone());
        self.env.spawn("pruning", async move {
            if let Err(error) = asked.await
                && error.raw_os_error() == Some(libc::EINVAL)
                && let Some(departures) = own.upgrade()
            {
                departures.prunes.set(false);
            }
        });
    }

    /// The kernel knows it still: it is kept, if it has lost its name.
    async fn keep_if_nameless(&self, ino: u64) {
        let is_nameless = match self.client.getattr(ino).await {
            Ok(known) => known.attr.nlink == 0,
            Err(Errno(libc::ESTALE)) => true,
            // Asked again in the next round.
            Err(_) => false,
        };
        // That its attributes are known does not say that it is kept.
        let is_kept = is_nameless && self.client.keep_nameless(ino).await.is_ok();
        if is_nameless && !is_kept {
            self.inodes.borrow_mut().remove(&ino);
            return;
        }
        let mut inodes = self.inodes.borrow_mut();
        let Some(noted) = inodes.get_mut(&ino) else {
            return;
        };
        noted.kept = is_kept;
        noted.stays += u32::from(!is_kept);
        if noted.stays >= STAYS {
            inodes.remove(&ino);
        }
    }
}
