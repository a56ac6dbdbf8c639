//! What every coordinator must do, whichever service is behind it.

use crate::{Announced, Coordinator, CoordinatorError, written_by};
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_wire::proto::{Group, View};

/// Makes another handle on the same service, as another process would have it.
pub type Open<'a> = &'a dyn Fn() -> LocalBoxFuture<'static, Rc<dyn Coordinator>>;

/// Handles that change the view at the same time, and changes of each.
const WRITERS: u64 = 5;
const CHANGES: u64 = 12;
/// The shortest that all services can do, in milliseconds.
const TERM_MS: u64 = 1_000;
/// For what happens by itself. The slowest is an announcement whose term the service has made longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Less than a watch that is not woken would take: it reads again after five seconds.
const WOKEN: Duration = Duration::from_secs(3);

/// Runs the whole suite on a service in which no view has been set.
///
/// # Panics
/// Where the implementation does not do what the trait says.
pub async fn run(env: &Env, open: Open<'_>) {
    views(open).await;
    increments(open).await;
    watches(env, open).await;
    announcements(env, open).await;
}

/// The next version after `view`, with this epoch in its only group.
pub fn with_epoch(view: &View, epoch: u64) -> View {
    View {
        version: view.version + 1,
        groups: vec![Group {
            epoch,
            ..Group::default()
        }],
        ..View::default()
    }
}

/// The epoch of the only group, 0 if there is none yet.
pub fn epoch(view: &View) -> u64 {
    view.groups.first().map_or(0, |group| group.epoch)
}

/// The future's output; panics if that takes too long.
pub async fn soon<F: Future>(env: &Env, what: &str, future: F) -> F::Output {
    match env.timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

async fn views(open: Open<'_>) {
    let (one, other) = (open().await, open().await);
    let empty = one.view().await.expect("an empty view can be read");
    assert_eq!(
        empty,
        View::default(),
        "a new view is empty and of version 0"
    );

    let first = one
        .compare_and_set(with_epoch(&empty, 7))
        .await
        .expect("the first view is set");
    assert_eq!(epoch(&first), 7);
    assert_eq!(first.marks.len(), 1, "a version is marked by its writer");
    assert_eq!(other.view().await.expect("it can be read"), first);

    let lost = other.compare_and_set(with_epoch(&empty, 8)).await;
    assert!(
        matches!(lost, Err(CoordinatorError::Conflict { current: 1 })),
        "of two who set the same version one loses: {lost:?}"
    );
    let mut ahead = with_epoch(&first, 8);
    ahead.version = 3;
    let ahead = other.compare_and_set(ahead).await;
    assert!(
        matches!(ahead, Err(CoordinatorError::Conflict { current: 1 })),
        "no version is left out: {ahead:?}"
    );
    assert_eq!(one.view().await.expect("it can be read"), first);

    let mut last = first.clone();
    for epoch in 8..=50 {
        last = other
            .compare_and_set(with_epoch(&last, epoch))
            .await
            .expect("nobody else writes");
    }
    let seen = one.view().await.expect("it can be read");
    assert_eq!(seen, last);
    assert_eq!(seen.marks.len(), 32, "marks are kept for so many versions");
    assert_eq!(
        written_by(&seen, last.version, last.marks[0]),
        Some(true),
        "a writer knows its version again"
    );
    assert_eq!(written_by(&seen, first.version, first.marks[0]), None);
    drop(one);
    let again = open().await;
    assert_eq!(again.view().await.expect("it can be read"), last);
}

/// Everybody raises the epoch by one, again and again: every success is the only one of its version,
/// and none is lost.
async fn increments(open: Open<'_>) {
    let first = open().await;
    let before = first.view().await.expect("it can be read");
    let reached = Rc::new(RefCell::new(BTreeSet::new()));
    let writers = (0..WRITERS).map(|_| async {
        let handle = open().await;
        for _ in 0..CHANGES {
            let set = loop {
                let now = handle.view().await.expect("it can be read");
                match handle
                    .compare_and_set(with_epoch(&now, epoch(&now) + 1))
                    .await
                {
                    Ok(set) => break set,
                    Err(CoordinatorError::Conflict { current }) => {
                        assert!(current > now.version, "a conflict is with something newer");
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            let alone = reached.borrow_mut().insert((set.version, epoch(&set)));
            assert!(alone, "version {} was reached twice", set.version);
        }
    });
    join_all(writers).await;
    let after = first.view().await.expect("it can be read");
    let total = WRITERS * CHANGES;
    assert_eq!(after.version, before.version + total);
    assert_eq!(epoch(&after), epoch(&before) + total);
    assert_eq!(reached.borrow().len() as u64, total);
}

async fn watches(env: &Env, open: Open<'_>) {
    let (one, other) = (open().await, open().await);
    let mut now = one.view().await.expect("it can be read");
    let at_once = soon(env, "a newer view", one.watch(now.version - 1)).await;
    assert_eq!(at_once.expect("what is newer is told"), now);

    let mut watching = one.watch(now.version);
    assert!(
        (&mut watching).now_or_never().is_none(),
        "nothing is told before it changes"
    );
    // The watch is armed by now, where the service arms it.
    let armed = env.timeout(Duration::from_millis(300), &mut watching).await;
    assert!(armed.is_err(), "nothing is told before it changes");
    now = other
        .compare_and_set(with_epoch(&now, 1))
        .await
        .expect("the next version is set");
    let changed = env.now();
    let told = soon(env, "a change", watching).await;
    assert_eq!(told.expect("the change is told"), now);
    let took = env.now().since(changed);
    assert!(
        took < WOKEN,
        "a change wakes a watch, not only time: {took:?}"
    );

    // Whoever watches from what it was told last sees versions rise, and ends with the last.
    let target = now.version + 40;
    let follow = async {
        let mut at = now.version;
        while at < target {
            let told = soon(env, "a change", one.watch(at)).await;
            let told = told.expect("the change is told");
            assert!(told.version > at, "{} after {at}", told.version);
            at = told.version;
        }
        assert_eq!(at, target);
    };
    let write = async {
        let mut last = now.clone();
        while last.version < target {
            last = other
                .compare_and_set(with_epoch(&last, last.version))
                .await
                .expect("the next version is set");
        }
    };
    futures_util::join!(follow, write);

    let told = soon(env, "the newest", one.watch(now.version)).await;
    let told = told.expect("the newest is told");
    assert_eq!(
        told.version, target,
        "of several changes the newest is told"
    );
}

async fn announcements(env: &Env, open: Open<'_>) {
    let (one, other) = (open().await, open().await);
    let none = Announced::new();
    let listed = one.announced().await.expect("it can be asked");
    assert_eq!(listed, none, "nobody is announced at first");

    let watching = other.watch_announced(&none);
    let announce = async {
        // The watch is armed by then.
        env.sleep(Duration::from_millis(200)).await;
        one.announce("meta/0/2", TERM_MS).await
    };
    let (seen, held) = futures_util::join!(soon(env, "an arrival", watching), announce);
    let (seen, held) = (seen.expect("it is told"), held.expect("it is announced"));
    let with_one = Announced::from([(held.name().to_owned(), held.incarnation())]);
    assert_eq!(held.name(), "meta/0/2");
    assert_eq!(seen, with_one);
    assert_eq!(other.announced().await.expect("it can be asked"), with_one);

    for handle in [&one, &other] {
        let twice = handle.announce("meta/0/2", TERM_MS).await;
        assert!(
            matches!(twice.err(), Some(CoordinatorError::Taken { name }) if name == "meta/0/2"),
            "a name is announced once"
        );
    }
    let bad = other.announce("a b", TERM_MS).await;
    assert!(matches!(bad.err(), Some(CoordinatorError::Settings(_))));

    // It outlives its term by far, and others come and go beside it.
    let beside = other
        .announce("data/7", TERM_MS)
        .await
        .expect("it is announced");
    env.sleep(Duration::from_millis(3 * held.term_ms().max(TERM_MS)))
        .await;
    let both = other.announced().await.expect("it can be asked");
    assert_eq!(both.keys().collect::<Vec<_>>(), ["data/7", "meta/0/2"]);
    assert!(!held.is_lost() && !beside.is_lost());
    beside.withdraw().await;
    let left = one.announced().await.expect("it can be asked");
    assert_eq!(left, with_one, "what was withdrawn is not listed");

    let watching = other.watch_announced(&with_one);
    let withdraw = async {
        env.sleep(Duration::from_millis(200)).await;
        drop(held);
        env.now()
    };
    let (left, withdrawn) = futures_util::join!(soon(env, "a withdrawal", watching), withdraw);
    assert_eq!(left.expect("it is told"), none);
    let took = env.now().since(withdrawn);
    assert!(
        took < WOKEN,
        "a withdrawal wakes a watch, not only time: {took:?}"
    );
    let again = other
        .announce("meta/0/2", TERM_MS)
        .await
        .expect("the name is free");
    let incarnation = with_one["meta/0/2"];
    assert!(
        again.incarnation() > incarnation,
        "each announcement has a greater incarnation"
    );
    let seen = soon(env, "a return", one.watch_announced(&with_one)).await;
    assert_eq!(
        seen.expect("it is told")["meta/0/2"],
        again.incarnation(),
        "who went and came back is told from who stayed"
    );
    again.withdraw().await;
    assert_eq!(one.announced().await.expect("it can be asked"), none);
}
