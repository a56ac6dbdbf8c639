//! Operations of one handle side by side.

use crate::{
    Announcement, Answer, Coordinator, CoordinatorError, Listing, Record, Reply, Service,
    ViewKeeper,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_wire::proto::View;

/// A record in memory; the first read is answered when it is let go, with what was there when it came.
#[derive(Default)]
struct Slow {
    record: RefCell<Record>,
    reads: Cell<u32>,
    let_go: Rc<Notify>,
}

impl Service for Slow {
    fn place(&self) -> String {
        "memory".into()
    }

    fn read(&self) -> Reply<'_, Record> {
        let record = self.record.borrow().clone();
        let number = self.reads.replace(self.reads.get() + 1);
        Box::pin(async move {
            if number == 0 {
                self.let_go.notified().await;
            }
            Ok(record)
        })
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        let mut record = self.record.borrow_mut();
        let is_it = record.revision == revision;
        if is_it {
            (record.revision, record.bytes) = (revision + 1, bytes);
        }
        Box::pin(async move { Ok(is_it) })
    }

    fn record_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn list(&self) -> Reply<'_, Listing> {
        Box::pin(async { Ok(Listing::default()) })
    }

    fn list_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn announce<'a>(&'a self, _name: &'a str, _term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(async { Err(CoordinatorError::Settings("not here".into())) })
    }
}

#[test]
fn a_read_that_a_change_overtakes_is_made_again() {
    let told = weft_env::real::run(|env| async move {
        let service = Slow::default();
        let let_go = service.let_go.clone();
        let keeper = ViewKeeper::new(&env, service, Duration::from_secs(60));
        let looking = keeper.view();
        let changing = async {
            let view = View {
                version: 1,
                ..View::default()
            };
            let changed = keeper.compare_and_set(view).await;
            let_go.notify_one();
            changed
        };
        let (looked, changed) = futures_util::join!(looking, changing);
        (
            looked.map(|view| view.version),
            changed.map(|view| view.version),
        )
    });
    let (looked, changed) = told.expect("it runs");
    assert_eq!(changed.expect("nobody else changes it"), 1);
    assert_eq!(looked.expect("nothing is wrong with the service"), 1);
}
