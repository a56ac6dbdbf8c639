//! A coordinator over any [`Service`]: finds out what became of changes that were not answered, and
//! watches without missing anything. The simulator runs this same code over a service that loses
//! requests and answers.

use crate::{
    Announced, Announcement, Answer, Coordinator, CoordinatorError, Listing, Reply, Service,
    Unanswered, name, record,
};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weft_env::{Elapsed, Env, Mono};
use weft_wire::proto::View;

/// How long a watch trusts the service to wake it. A watch that was lost without a word (a server that
/// stands still, a connection that is cut) costs no more than this; reading once in that time costs
/// the service nothing.
const WAKE_MAX: Duration = Duration::from_secs(5);
/// Between two attempts at a service that does not answer or says no: it would be asked in a circle.
const PAUSE: Duration = Duration::from_millis(100);

/// A record that was read: the view in it, and where it stands in the service.
struct Kept {
    view: View,
    revision: u64,
    seen: u64,
}

/// Keeps the view in a service.
pub struct ViewKeeper<S> {
    env: Env,
    service: S,
    patience: Duration,
    /// The newest version that was read here. Grows only.
    newest: Cell<u64>,
    /// See [`Coordinator::trouble`].
    trouble: RefCell<Option<String>>,
}

impl<S: Service> ViewKeeper<S> {
    /// A keeper over this service. Every operation that does not wait for a change ends within
    /// `patience`.
    pub fn new(env: &Env, service: S, patience: Duration) -> ViewKeeper<S> {
        ViewKeeper {
            env: env.clone(),
            service,
            patience,
            newest: Cell::new(0),
            trouble: RefCell::new(None),
        }
    }

    /// The service, for another keeper with something between.
    pub fn into_service(self) -> S {
        self.service
    }

    fn deadline(&self) -> Mono {
        self.env.now() + self.patience
    }

    /// The service's reply, or that there was none by `deadline`.
    async fn by<T>(&self, deadline: Mono, reply: Reply<'_, T>) -> Result<T, Unanswered> {
        let limit = deadline.since(self.env.now());
        match self.env.timeout(limit, reply).await {
            Ok(replied) => replied,
            Err(Elapsed) => Err(Unanswered(format!(
                "no answer within {} ms",
                self.patience.as_millis()
            ))),
        }
    }

    async fn read(&self, deadline: Mono) -> Result<Kept, CoordinatorError> {
        let read = self.read_newest(deadline).await;
        let trouble = read.as_ref().err().map(CoordinatorError::to_string);
        self.trouble.replace(trouble);
        read
    }

    async fn read_newest(&self, deadline: Mono) -> Result<Kept, CoordinatorError> {
        loop {
            let known = self.newest.get();
            let read = self.read_once(deadline).await?;
            if read.view.version >= self.newest.get() {
                self.newest.set(read.view.version);
                return Ok(read);
            }
            if known == self.newest.get() {
                return Err(CoordinatorError::Unavailable(format!(
                    "{} tells version {} of the view after version {known}: the server that was \
                     asked is behind, or an old copy was put in its place",
                    self.service.place(),
                    read.view.version,
                )));
            }
            // Another operation of this handle has told a later one since this was asked.
        }
    }

    async fn read_once(&self, deadline: Mono) -> Result<Kept, CoordinatorError> {
        let record = self
            .by(deadline, self.service.read())
            .await
            .map_err(unavailable)?;
        let view = record::decode(&record.bytes).ok_or_else(|| {
            CoordinatorError::Corrupt(format!(
                "{} holds no view of a format that this version of Weft knows, or a damaged one; put \
                 a good copy of it in its place",
                self.service.place()
            ))
        })?;
        Ok(Kept {
            view,
            revision: record.revision,
            seen: record.seen,
        })
    }

    async fn change(&self, mut view: View) -> Result<View, CoordinatorError> {
        let deadline = self.deadline();
        let before = self.read(deadline).await?;
        if Some(view.version) != before.view.version.checked_add(1) {
            return Err(CoordinatorError::Conflict {
                current: before.view.version,
            });
        }
        let (version, mark) = (view.version, self.env.random());
        record::stamp(&mut view, &before.view, mark);
        let bytes = record::encode(&view)?;
        let unknown = |why| CoordinatorError::Unknown { version, mark, why };
        // What the last sending got instead of an answer. From the first such on, a no may be due to
        // ourselves, and only a view in which the version is written tells what became of it.
        let mut doubt: Option<String> = None;
        loop {
            let swap = self.service.swap(before.revision, bytes.clone());
            match self.by(deadline, swap).await {
                Ok(true) => {
                    self.newest.set(self.newest.get().max(version));
                    return Ok(view);
                }
                Ok(false) => match (self.read(deadline).await, &doubt) {
                    (Ok(now), _) if now.view.version < version => {} // from before the change
                    (Ok(now), doubt) => {
                        let current = now.view.version;
                        return match (record::written_by(&now.view, version, mark), doubt) {
                            (Some(true), _) => Ok(view),
                            (None, Some(why)) => Err(unknown(why.clone())),
                            _ => Err(CoordinatorError::Conflict { current }),
                        };
                    }
                    (Err(error), None) => return Err(error),
                    (Err(error), Some(_)) => doubt = Some(error.to_string()),
                },
                Err(Unanswered(why)) => doubt = Some(why),
            }
            if self.env.now() + PAUSE >= deadline {
                return Err(match doubt {
                    Some(why) => unknown(why),
                    None => CoordinatorError::Unavailable(format!(
                        "{} takes no change of what it says is the newest view",
                        self.service.place()
                    )),
                });
            }
            self.env.sleep(PAUSE).await;
        }
    }

    async fn list(&self) -> Result<Listing, Unanswered> {
        self.by(self.deadline(), self.service.list()).await
    }

    /// Waits until the service wakes us, or a while.
    async fn wait(&self, woken: Reply<'_, ()>) {
        if let Ok(Err(Unanswered(_))) = self.env.timeout(WAKE_MAX, woken).await {
            self.env.sleep(PAUSE).await;
        }
    }
}

fn unavailable(Unanswered(why): Unanswered) -> CoordinatorError {
    CoordinatorError::Unavailable(why)
}

impl<S: Service> Coordinator for ViewKeeper<S> {
    fn view(&self) -> Answer<'_, View> {
        Box::pin(async { Ok(self.read(self.deadline()).await?.view) })
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    fn compare_and_set(&self, view: View) -> Answer<'_, View> {
        Box::pin(self.change(view))
    }

    fn watch(&self, version: u64) -> Answer<'_, View> {
        Box::pin(async move {
            loop {
                match self.read(self.deadline()).await {
                    Ok(now) if now.view.version > version => return Ok(now.view),
                    Ok(now) => self.wait(self.service.record_changed(now.seen)).await,
                    Err(CoordinatorError::Unavailable(_)) => self.env.sleep(PAUSE).await,
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(async move {
            name::check("the name", name)?;
            let announcing = self.service.announce(name, term_ms);
            match self.env.timeout(self.patience, announcing).await {
                Ok(announced) => announced,
                Err(Elapsed) => Err(CoordinatorError::Unavailable(format!(
                    "no answer within {} ms",
                    self.patience.as_millis()
                ))),
            }
        })
    }

    fn announced(&self) -> Answer<'_, Announced> {
        Box::pin(async { Ok(self.list().await.map_err(unavailable)?.announced) })
    }

    fn watch_announced<'a>(&'a self, known: &'a Announced) -> Answer<'a, Announced> {
        Box::pin(async move {
            loop {
                match self.list().await {
                    Ok(now) if now.announced != *known => return Ok(now.announced),
                    Ok(now) => self.wait(self.service.list_changed(now.seen)).await,
                    Err(Unanswered(_)) => self.env.sleep(PAUSE).await,
                }
            }
        })
    }
}
