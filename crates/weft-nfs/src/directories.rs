//! Open directories: a listing that goes on finds the directory open where it broke off, with the next page fetched.

use crate::status::Status;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred, DirEntry, HandleId};
use weft_env::{Env, Mono};

/// A listing that nobody goes on with for so long is given up.
const IDLE: Duration = Duration::from_secs(10);
/// How often it is looked which.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Listings that may be broken off at most.
const LISTINGS_MAX: usize = 1_024;
/// Entries that are asked for at a time.
const PAGE: usize = 256;

/// Which listing: the directory, who reads it, and after which cookie it goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub ino: u64,
    pub uid: u32,
    pub cookie: u64,
}

/// All of a gateway's.
pub(crate) struct Directories {
    env: Env,
    client: Rc<Client>,
    parked: RefCell<BTreeMap<Place, Vec<(Mono, HandleId)>>>,
}

impl Directories {
    pub(crate) fn new(env: &Env, client: &Rc<Client>) -> Rc<Directories> {
        let directories = Rc::new(Directories {
            env: env.clone(),
            client: client.clone(),
            parked: RefCell::default(),
        });
        let of = Rc::downgrade(&directories);
        let env = env.clone();
        directories.env.spawn("idle directories", async move {
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(directories) = of.upgrade() else {
                    return;
                };
                directories.close_idle();
            }
        });
        directories
    }

    /// The directory, opened by this user: where a listing broke off, or anew.
    ///
    /// # Errors
    /// As opening it.
    async fn open(&self, cred: &Cred, place: Place) -> Result<HandleId, Status> {
        let parked = {
            let mut parked = self.parked.borrow_mut();
            let found = parked.get_mut(&place).and_then(Vec::pop);
            if parked.get(&place).is_some_and(Vec::is_empty) {
                parked.remove(&place);
            }
            found
        };
        // Rights may be others by now.
        match parked {
            Some((_, handle))
                if self
                    .client
                    .access(cred, place.ino, libc::R_OK as u32)
                    .await
                    .is_ok() =>
            {
                Ok(handle)
            }
            Some((_, handle)) => {
                self.client.releasedir(handle);
                Ok(self.client.opendir(cred, place.ino).await?)
            }
            None => Ok(self.client.opendir(cred, place.ino).await?),
        }
    }

    /// A listing breaks off.
    fn park(&self, place: Place, handle: HandleId) {
        let mut parked = self.parked.borrow_mut();
        if parked.len() >= LISTINGS_MAX {
            return self.client.releasedir(handle);
        }
        let now = self.env.now();
        parked.entry(place).or_default().push((now, handle));
    }

    /// Entries from a place on, for as long as each `fits`, and whether these are the last. With `plus`, with
    /// attributes where they can be had.
    ///
    /// # Errors
    /// As opening and reading it.
    pub(crate) async fn list(
        &self,
        cred: &Cred,
        place: Place,
        plus: bool,
        fits: impl FnMut(&DirEntry) -> bool,
    ) -> Result<(Vec<DirEntry>, bool), Status> {
        let handle = self.open(cred, place).await?;
        let listed = self.read(handle, place.cookie, plus, fits).await;
        match &listed {
            Ok((all, false)) => {
                let cookie = all.last().map_or(place.cookie, |entry| entry.cookie);
                self.park(Place { cookie, ..place }, handle);
            }
            Ok((_, true)) | Err(_) => self.client.releasedir(handle),
        }
        listed
    }

    async fn read(
        &self,
        handle: HandleId,
        mut after: u64,
        plus: bool,
        mut fits: impl FnMut(&DirEntry) -> bool,
    ) -> Result<(Vec<DirEntry>, bool), Status> {
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let page = self.client.readdir(handle, after, PAGE, plus).await?;
            if page.is_empty() {
                return Ok((all, true));
            }
            for entry in page {
                if !fits(&entry) {
                    return Ok((all, false));
                }
                after = entry.cookie;
                all.push(entry);
            }
        }
    }

    fn close_idle(&self) {
        let now = self.env.now();
        let mut gone = Vec::new();
        self.parked.borrow_mut().retain(|_, parked| {
            parked.retain(|(since, handle)| {
                let stays = now.since(*since) < IDLE;
                if !stays {
                    gone.push(*handle);
                }
                stays
            });
            !parked.is_empty()
        });
        for handle in gone {
            self.client.releasedir(handle);
        }
    }
}
