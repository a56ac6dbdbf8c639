//! The suite against all three coordinators, and what happens when servers and processes are killed,
//! stopped and started again. Needs Debian's packages etcd-server and zookeeper.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests act on real processes"
)]

mod support;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use support::{Kind, Process, Server};
use weft_coordinator::suite::{self, epoch, soon, with_epoch};
use weft_coordinator::{
    Announced, Announcement, Answer, Coordinator, CoordinatorError, Embedded, Etcd, Limits,
    Listing, Record, Reply, Service, Unanswered, ViewKeeper, ZooKeeper, connect, written_by,
};
use weft_env::Env;
use weft_wire::proto::View;

const CLUSTER: &str = "test";
/// What `Server::place` says.
const ANSWER: Duration = Duration::from_millis(3_000);
/// For a busy machine, beyond what is promised.
const SLACK: Duration = Duration::from_secs(3);
const TERM_MS: u64 = 1_000;

fn in_the_world<F: Future<Output = ()>>(test: impl FnOnce(Env) -> F) {
    weft_env::real::run(test).unwrap();
}

/// A handle on a server that serves.
async fn serving(env: &Env, place: &str) -> Rc<dyn Coordinator> {
    let handle: Rc<dyn Coordinator> = connect(env, CLUSTER, place).await.unwrap().into();
    wait_serving(env, &*handle).await;
    handle
}

async fn wait_serving(env: &Env, handle: &dyn Coordinator) {
    let serves = async {
        while let Err(error) = handle.view().await {
            assert!(
                matches!(error, CoordinatorError::Unavailable(_)),
                "{error:?}"
            );
            env.sleep(Duration::from_millis(50)).await;
        }
    };
    soon(env, "the start of the server", serves).await;
}

async fn run_suite(env: &Env, place: &str) {
    serving(env, place).await;
    let open = || -> LocalBoxFuture<'static, Rc<dyn Coordinator>> {
        let (env, place) = (env.clone(), place.to_owned());
        Box::pin(async move { connect(&env, CLUSTER, &place).await.unwrap().into() })
    };
    suite::run(env, &open).await;
}

/// Another process, which does what `child_process` says.
fn child(task: &str, place: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child_process", "--ignored", "--nocapture"])
        .env("WEFT_TEST_TASK", task)
        .env("WEFT_TEST_PLACE", place)
        .stdout(Stdio::null());
    Process::start(command, "the test's own binary is gone")
}

#[test]
#[ignore = "what other tests start as a process of its own"]
fn child_process() {
    let task = std::env::var("WEFT_TEST_TASK").expect("another test starts this");
    let place = std::env::var("WEFT_TEST_PLACE").expect("another test starts this");
    in_the_world(|env| async move {
        let handle = connect(&env, CLUSTER, &place).await.unwrap();
        match task.split_once(' ').unwrap() {
            ("announce", name) => loop {
                match handle.announce(name, TERM_MS).await {
                    Ok(announcement) => announcement.lost().await,
                    Err(_) => env.sleep(Duration::from_millis(50)).await,
                }
            },
            ("increment", times) => {
                for _ in 0..times.parse().unwrap() {
                    increment(&*handle).await;
                }
            }
            other => panic!("{other:?}"),
        }
    });
}

async fn increment(handle: &dyn Coordinator) {
    loop {
        let now = handle.view().await.unwrap();
        let next = with_epoch(&now, epoch(&now) + 1);
        match handle.compare_and_set(next).await {
            Ok(_) => return,
            Err(CoordinatorError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn embedded_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("file:{}", dir.path().display());
    in_the_world(|env| async move { run_suite(&env, &place).await });
}

#[test]
fn etcd_passes_the_suite() {
    let server = Server::start(Kind::Etcd);
    in_the_world(|env| async move { run_suite(&env, &server.place()).await });
}

#[test]
fn zookeeper_passes_the_suite() {
    let server = Server::start(Kind::ZooKeeper);
    in_the_world(|env| async move { run_suite(&env, &server.place()).await });
}

#[test]
fn processes_of_one_machine_change_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("file:{}", dir.path().display());
    in_the_world(|env| async move {
        let handle = serving(&env, &place).await;
        let children = [child("increment 25", &place), child("increment 25", &place)];
        for _ in 0..25 {
            increment(&*handle).await;
        }
        let all = async {
            let mut version = 0;
            while version < 75 {
                version = handle.watch(version).await.unwrap().version;
            }
        };
        soon(&env, "all changes", all).await;
        let last = handle.view().await.unwrap();
        assert_eq!((last.version, epoch(&last)), (75, 75));
        drop(children);
    });
}

/// Announced by another process; killed, it vanishes.
async fn killed_vanishes(env: &Env, place: &str) {
    let handle = serving(env, place).await;
    let process = child("announce meta/0/1", place);
    let none = Announced::new();
    let arrived = soon(env, "an arrival", handle.watch_announced(&none)).await;
    let arrived = arrived.unwrap();
    assert_eq!(arrived.keys().collect::<Vec<_>>(), ["meta/0/1"]);
    let began = env.now();
    process.kill();
    let left = soon(env, "a departure", handle.watch_announced(&arrived)).await;
    assert_eq!(left.unwrap(), none);
    let after = env.now().since(began);
    let bound = 2 * Duration::from_millis(TERM_MS) + SLACK;
    assert!(after < bound, "it took {after:?} to vanish");
}

/// Stopped for longer than its term it vanishes; going on, it finds out and announces itself again.
async fn stopped_is_told(env: &Env, place: &str) {
    let handle = serving(env, place).await;
    let process = child("announce meta/0/1", place);
    let none = Announced::new();
    let arrived = soon(env, "an arrival", handle.watch_announced(&none)).await;
    let arrived = arrived.unwrap();
    process.signal(libc::SIGSTOP);
    let left = soon(env, "a departure", handle.watch_announced(&arrived)).await;
    assert_eq!(left.unwrap(), none);
    process.signal(libc::SIGCONT);
    let back = soon(env, "a return", handle.watch_announced(&none)).await;
    assert!(back.unwrap()["meta/0/1"] > arrived["meta/0/1"]);
}

#[test]
fn a_process_that_is_killed_vanishes_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("file:{}", dir.path().display());
    in_the_world(|env| async move { killed_vanishes(&env, &place).await });
}

#[test]
fn processes_that_are_killed_or_stopped_vanish_from_etcd() {
    let server = Server::start(Kind::Etcd);
    in_the_world(|env| async move {
        killed_vanishes(&env, &server.place()).await;
        stopped_is_told(&env, &server.place()).await;
    });
}

#[test]
fn processes_that_are_killed_or_stopped_vanish_from_zookeeper() {
    let server = Server::start(Kind::ZooKeeper);
    in_the_world(|env| async move {
        killed_vanishes(&env, &server.place()).await;
        stopped_is_told(&env, &server.place()).await;
    });
}

async fn assert_unavailable(env: &Env, handle: &dyn Coordinator) {
    let began = env.now();
    let read = handle.view().await;
    assert!(
        matches!(read, Err(CoordinatorError::Unavailable(_))),
        "{read:?}"
    );
    let next = with_epoch(&Default::default(), 1);
    let changed = handle.compare_and_set(next).await;
    assert!(
        matches!(changed, Err(CoordinatorError::Unavailable(_))),
        "{changed:?}"
    );
    let listed = handle.announced().await;
    assert!(
        matches!(listed, Err(CoordinatorError::Unavailable(_))),
        "{listed:?}"
    );
    let took = env.now().since(began);
    assert!(took < 3 * ANSWER + SLACK, "three refusals took {took:?}");
}

/// A service that is killed and comes back is as if nothing had been: watches go on, announcements stand.
fn outage(kind: Kind) {
    let mut server = Server::start(kind);
    in_the_world(|env| async move {
        let handle = serving(&env, &server.place()).await;
        let first = with_epoch(&handle.view().await.unwrap(), 1);
        let first = handle.compare_and_set(first).await.unwrap();
        let announcement = handle.announce("meta/0/2", TERM_MS).await.unwrap();
        let listed = handle.announced().await.unwrap();
        let mut watching = handle.watch(first.version);
        assert!((&mut watching).now_or_never().is_none());

        server.kill();
        assert_unavailable(&env, &*handle).await;
        // Nobody is told of an end that nobody knows of: the term has passed several times.
        env.sleep(4 * Duration::from_millis(announcement.term_ms()))
            .await;
        assert!(!announcement.is_lost());
        assert!((&mut watching).now_or_never().is_none());

        server.start_again();
        wait_serving(&env, &*handle).await;
        assert_eq!(handle.view().await.unwrap(), first);
        env.sleep(2 * Duration::from_millis(announcement.term_ms()))
            .await;
        assert!(!announcement.is_lost());
        assert_eq!(handle.announced().await.unwrap(), listed);

        let other = serving(&env, &server.place()).await;
        let second = other.compare_and_set(with_epoch(&first, 2)).await.unwrap();
        let told = soon(&env, "the change", watching).await.unwrap();
        assert_eq!(told, second);
    });
}

#[test]
fn an_outage_of_etcd_changes_nothing() {
    outage(Kind::Etcd);
}

#[test]
fn an_outage_of_zookeeper_changes_nothing() {
    outage(Kind::ZooKeeper);
}

type Interruption = Box<dyn FnOnce() + 'static>;

/// Does something to the server between a change's read and the first sending of the change.
struct Interrupting<S> {
    service: S,
    before_swap: std::cell::RefCell<Option<Interruption>>,
    /// The first change is made and its answer lost.
    lose_answer: std::cell::Cell<bool>,
}

impl<S: Service> Service for Interrupting<S> {
    fn place(&self) -> String {
        self.service.place()
    }

    fn read(&self) -> Reply<'_, Record> {
        self.service.read()
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        if let Some(interrupt) = self.before_swap.borrow_mut().take() {
            interrupt();
        }
        let swapped = self.service.swap(revision, bytes);
        if self.lose_answer.take() {
            return Box::pin(async {
                assert_eq!(swapped.await, Ok(true));
                Err(Unanswered("the answer was lost".to_owned()))
            });
        }
        swapped
    }

    fn record_changed(&self, seen: u64) -> Reply<'_, ()> {
        self.service.record_changed(seen)
    }

    fn list(&self) -> Reply<'_, Listing> {
        self.service.list()
    }

    fn list_changed(&self, seen: u64) -> Reply<'_, ()> {
        self.service.list_changed(seen)
    }

    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement> {
        self.service.announce(name, term_ms)
    }
}

fn interrupting(
    env: &Env,
    kind: Kind,
    server: &Server,
    interruption: Interruption,
) -> Box<dyn Coordinator> {
    fn between<S: Service + 'static>(
        env: &Env,
        keeper: ViewKeeper<S>,
        interruption: Interruption,
    ) -> Box<dyn Coordinator> {
        let service = Interrupting {
            service: keeper.into_service(),
            before_swap: Some(interruption).into(),
            lose_answer: false.into(),
        };
        Box::new(ViewKeeper::new(env, service, ANSWER))
    }
    let limits = Limits::new(ANSWER.as_millis() as u64).unwrap();
    let servers = [server.address()];
    match kind {
        Kind::Etcd => {
            let etcd = Etcd::open(env, &servers, "weft-test", CLUSTER, limits).unwrap();
            between(env, etcd, interruption)
        }
        Kind::ZooKeeper => {
            let keeper = ZooKeeper::open(env, &servers, "weft-test", CLUSTER, limits).unwrap();
            between(env, keeper, interruption)
        }
    }
}

/// A server that stands still while a change is under way.
fn standstill(kind: Kind) {
    let server = Rc::new(Server::start(kind));
    in_the_world(|env| async move {
        let plain = serving(&env, &server.place()).await;
        let before = plain.view().await.unwrap();

        // For less than a change has patience: it is made, once.
        let stop = {
            let (env, server) = (env.clone(), server.clone());
            Box::new(move || {
                server.signal(libc::SIGSTOP);
                let waking = server.clone();
                let sleep = env.sleep(Duration::from_millis(1_300));
                env.spawn("wake", async move {
                    sleep.await;
                    waking.signal(libc::SIGCONT);
                });
            })
        };
        let handle = interrupting(&env, kind, &server, stop);
        let made = handle.compare_and_set(with_epoch(&before, 1)).await;
        let made = made.unwrap();
        let after = plain.view().await.unwrap();
        assert_eq!(after, made, "one change, whose marks are the writer's");
        assert_eq!(after.version, before.version + 1);

        // For longer: its outcome is unknown, and found out later.
        let stop = {
            let server = server.clone();
            Box::new(move || server.signal(libc::SIGSTOP))
        };
        let handle = interrupting(&env, kind, &server, stop);
        let began = env.now();
        let unknown = handle.compare_and_set(with_epoch(&after, 2)).await;
        let Err(CoordinatorError::Unknown { version, mark, .. }) = unknown else {
            panic!("{unknown:?}");
        };
        assert!(env.now().since(began) < ANSWER + SLACK);
        assert_unavailable(&env, &*plain).await;
        server.signal(libc::SIGCONT);
        wait_serving(&env, &*plain).await;
        // Another change of the same version decides.
        let second = plain.compare_and_set(with_epoch(&after, 3)).await;
        let now = plain.view().await.unwrap();
        let ours = written_by(&now, version, mark).expect("it is decided");
        match &second {
            Ok(view) => assert!(!ours && *view == now && epoch(&now) == 3),
            Err(CoordinatorError::Conflict { .. }) => assert!(ours && epoch(&now) == 2),
            Err(error) => panic!("{error}"),
        }
        // And stays so, however late what was sent arrives.
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(plain.view().await.unwrap(), now);
        assert_eq!(handle.view().await.unwrap(), now);
    });
}

#[test]
fn a_change_is_found_out_after_etcd_stood_still() {
    standstill(Kind::Etcd);
}

#[test]
fn a_change_is_found_out_after_zookeeper_stood_still() {
    standstill(Kind::ZooKeeper);
}

/// A change that was made and not answered is not taken for a rival's, nor made twice.
async fn lost_answer<S: Service>(env: &Env, keeper: ViewKeeper<S>) {
    wait_serving(env, &keeper).await;
    let service = Interrupting {
        service: keeper.into_service(),
        before_swap: None.into(),
        lose_answer: true.into(),
    };
    let keeper = ViewKeeper::new(env, service, ANSWER);
    let made = keeper
        .compare_and_set(with_epoch(&View::default(), 1))
        .await
        .unwrap();
    assert_eq!(keeper.view().await.unwrap(), made);
    assert_eq!((made.version, made.marks.len()), (1, 1));
}

#[test]
fn a_change_whose_answer_was_lost_is_known_again() {
    let dir = tempfile::tempdir().unwrap();
    let (etcd, zookeeper) = (Server::start(Kind::Etcd), Server::start(Kind::ZooKeeper));
    in_the_world(|env| async move {
        let limits = Limits::default();
        let embedded = Embedded::open(&env, dir.path().to_owned()).await.unwrap();
        lost_answer(&env, embedded).await;
        let etcd = Etcd::open(&env, &[etcd.address()], "weft", CLUSTER, limits).unwrap();
        lost_answer(&env, etcd).await;
        let servers = [zookeeper.address()];
        let zookeeper = ZooKeeper::open(&env, &servers, "weft", CLUSTER, limits).unwrap();
        lost_answer(&env, zookeeper).await;
    });
}

#[test]
fn another_server_is_asked_when_one_is_away() {
    let server = Server::start(Kind::Etcd);
    in_the_world(|env| async move {
        serving(&env, &server.place()).await;
        // Nobody listens on port 1; a listener that never answers stands still.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = silent.local_addr().unwrap();
        for away in ["127.0.0.1:1".to_owned(), silent.to_string()] {
            let place = format!("etcd://{away},{}/weft-test", server.address());
            let handle = connect(&env, CLUSTER, &place).await.unwrap();
            let now = handle.view().await.unwrap();
            handle.compare_and_set(with_epoch(&now, 1)).await.unwrap();
        }
    });
}
