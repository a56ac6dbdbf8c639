//! A journal that is written by one task: whatever waits is written together and flushed once, as a
//! member's journal is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::Notify;
use weft_env::Env;
use weft_journal::{Journal, Location, Reader, Sealed, SyncPolicy};
use weft_types::{GroupId, Sn};
use weft_wire::proto::{Batch, Entry};

type Then = Box<dyn FnOnce()>;

/// See the module.
pub struct Log {
    waiting: RefCell<VecDeque<(Sealed, Then)>>,
    filled: Notify,
    next: Cell<u64>,
}

impl Log {
    /// Opens an empty journal there.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub async fn open(env: &Env, dir: PathBuf, sync: SyncPolicy) -> Result<Rc<Log>, String> {
        let failed = |error: weft_journal::JournalError| error.to_string();
        let location = Location {
            dir,
            cluster_id: "two-phase".into(),
            group: GroupId(0),
        };
        weft_journal::make_dir(env, &location.dir)
            .await
            .map_err(failed)?;
        let mut reader = Reader::open(env, &location, Sn(0)).await.map_err(failed)?;
        while reader.next().await.map_err(failed)?.is_some() {}
        let tail = reader.finish().map_err(failed)?;
        let log = Rc::new(Log {
            waiting: RefCell::default(),
            filled: Notify::new(),
            next: Cell::new(tail.next.0),
        });
        let journal = Journal::open(env, location, sync, tail)
            .await
            .map_err(failed)?;
        env.spawn("log", write(log.clone(), journal));
        Ok(log)
    }

    /// Writes a record: these entries, or those of nobody (a decision). `then` follows when it is on the disk.
    /// Gives the entries back.
    pub fn write(
        &self,
        entries: Vec<Entry>,
        then: impl FnOnce() + 'static,
    ) -> (Sealed, Vec<Entry>) {
        let sn = self.next.get();
        self.next.set(sn + 1);
        let batch = Batch {
            epoch: 1,
            sn,
            entries,
        };
        let sealed = Sealed::new(&batch);
        let waits = (sealed.clone(), Box::new(then) as Then);
        self.waiting.borrow_mut().push_back(waits);
        self.filled.notify_one();
        (sealed, batch.entries)
    }
}

async fn write(log: Rc<Log>, mut journal: Journal) {
    loop {
        let together: Vec<_> = log.waiting.borrow_mut().drain(..).collect();
        if together.is_empty() {
            log.filled.notified().await;
            continue;
        }
        let (sealed, then): (Vec<Sealed>, Vec<Then>) = together.into_iter().unzip();
        if let Err(error) = journal.append(&sealed).await {
            // Nobody is answered any more, and the benchmark ends.
            eprintln!("weft: the log: {error}");
            std::process::exit(1);
        }
        then.into_iter().for_each(|then| then());
    }
}
