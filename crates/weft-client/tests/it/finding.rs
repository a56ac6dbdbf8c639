//! Clients find the active: stand-ins for members that are not it, before a real metadata server.

use crate::support::*;
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Handler, Local, Payload, Replier, Request, serve_task};
use weft_wire::proto::*;
use weft_wire::{Failed, Rpc};

fn local(role: identity::Role) -> Local {
    Local::new(
        CLUSTER.into(),
        Identity {
            role: role as i32,
            id: 0,
            incarnation: 1,
            group: 0,
        },
    )
}

async fn listen(env: &Env, handler: Handler) -> String {
    let meta = local(identity::Role::Meta);
    let serving = serve_task(env, "127.0.0.1:0", meta, |_| {}, handler);
    serving.await.unwrap().0
}

/// A member that is not the active.
struct Other {
    address: String,
    /// Who it says is; nothing: it does not answer.
    active: RefCell<Option<String>>,
    members: RefCell<Vec<String>>,
    asked: Cell<usize>,
    unanswered: RefCell<Vec<Replier>>,
}

impl Other {
    async fn start(env: &Env) -> Rc<Other> {
        let place: Rc<RefCell<Option<Rc<Other>>>> = Rc::default();
        let found = place.clone();
        let handler: Handler = Rc::new(move |_, request| {
            let other = found.borrow().clone().unwrap();
            other.asked.set(other.asked.get() + 1);
            let active = other.active.borrow().clone();
            match active {
                Some(active) => request.replier.fail(Failed::NotActive {
                    active,
                    members: other.members.borrow().clone(),
                }),
                None => other.unanswered.borrow_mut().push(request.replier),
            }
        });
        let other = Rc::new(Other {
            address: listen(env, handler).await,
            active: RefCell::new(Some(String::new())),
            members: RefCell::default(),
            asked: Cell::new(0),
            unanswered: RefCell::default(),
        });
        *place.borrow_mut() = Some(other.clone());
        other
    }

    fn points_at(&self, address: &str) {
        *self.active.borrow_mut() = Some(address.to_owned());
    }
}

/// Takes connections and says nothing, as the system does for a process that is stopped.
async fn deaf(env: &Env) -> String {
    let mut listener = env.listen("127.0.0.1:0").await.unwrap();
    let address = listener.address();
    env.spawn("deaf", async move {
        let mut held = Vec::new();
        loop {
            held.push(listener.accept().await.unwrap());
        }
    });
    address
}

/// An address at which nobody listens.
async fn nobody(env: &Env) -> String {
    env.listen("127.0.0.1:0").await.unwrap().address()
}

async fn client(cluster: &Cluster, meta: &[&str]) -> Client {
    let settings = Settings {
        meta: meta.iter().map(ToString::to_string).collect(),
        ..cluster.settings()
    };
    let connecting = Client::connect(cluster.env.clone(), settings);
    connecting.await.unwrap()
}

#[test]
fn a_hint_leads_to_the_active() {
    with_stand_ins(1, async |cluster| {
        let other = Other::start(&cluster.env).await;
        other.points_at(&cluster.address);
        let a = client(&cluster, &[&other.address]).await;
        assert_eq!(other.asked.get(), 1);
        // What the view names is remembered.
        assert_eq!(a.meta_learned(), std::slice::from_ref(&cluster.address));
        a.mkdir(&root(), a.root(), b"d", 0o755).await.unwrap();
        // With the members named, no hint is needed.
        other.points_at("");
        *other.members.borrow_mut() = vec![cluster.address.clone()];
        client(&cluster, &[&other.address]).await;
        assert_eq!(other.asked.get(), 2);
    });
}

#[test]
fn wrong_hints_and_hints_in_a_circle_cost_a_few_tries() {
    with_stand_ins(1, async |cluster| {
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(Other::start(&cluster.env).await);
        }
        let gone = nobody(&cluster.env).await;
        others[0].points_at(&others[1].address);
        others[1].points_at(&others[0].address);
        others[2].points_at(&gone);
        others[3].points_at(&others[3].address);
        let mut meta: Vec<&str> = others.iter().map(|other| &*other.address).collect();
        meta.push(&cluster.address);
        client(&cluster, &meta).await;
        let asked: usize = others.iter().map(|other| other.asked.get()).sum();
        // Each by itself, and hints as many times as there are addresses; five and the one that is gone.
        assert!((4..=10).contains(&asked), "{asked}");
    });
}

#[test]
fn a_circle_without_an_active_does_not_spin() {
    with_stand_ins(1, async |cluster| {
        let a = Other::start(&cluster.env).await;
        let b = Other::start(&cluster.env).await;
        a.points_at(&b.address);
        b.points_at(&a.address);
        let began = cluster.env.now();
        let asked = || a.asked.get() + b.asked.get();
        let election = async {
            while asked() < 30 {
                cluster.env.sleep(Duration::from_millis(1)).await;
            }
            // At most two tries by themselves and two for hints in a round, and the shortest pause is
            // never below 3 ms.
            let took = cluster.env.now().since(began).as_millis() as usize;
            assert!(asked() <= 4 * (took / 3 + 2), "{} in {took} ms", asked());
            a.points_at(&cluster.address);
        };
        let meta = [&*a.address, &b.address];
        futures_util::future::join(client(&cluster, &meta), election).await;
    });
}

#[test]
fn who_does_not_answer_holds_nobody_up() {
    with_stand_ins(1, async |cluster| {
        let deaf = deaf(&cluster.env).await;
        let silent = Other::start(&cluster.env).await;
        *silent.active.borrow_mut() = None;
        let nothing: Handler = Rc::new(|_, _| {});
        let tool = local(identity::Role::Tool);
        // Sooner than one attempt, or one request for a session, is given up where there is no choice.
        let attempt = weft_rpc::connect(&cluster.env, &deaf, &tool, nothing);
        let attempt = cluster.env.timeout(Duration::from_secs(1), attempt);
        let meta = [&*deaf, &cluster.address];
        let (found, attempt) = (pin!(client(&cluster, &meta)), pin!(attempt));
        assert!(matches!(select(found, attempt).await, Either::Left(_)));
        let wait = cluster.env.sleep(Duration::from_secs(2));
        let meta = [&*silent.address, &cluster.address];
        let found = pin!(client(&cluster, &meta));
        assert!(matches!(select(found, wait).await, Either::Left(_)));
        assert_eq!(silent.asked.get(), 1);
    });
}

/// A member that leads, before the real server: it hands everything on until it is deposed.
struct Front {
    env: Env,
    real: String,
    address: String,
    /// Who leads instead; it does nothing any more.
    deposed_for: RefCell<Option<String>>,
    /// Replies to changes are lost.
    loses_replies: Cell<bool>,
    changes: Cell<usize>,
    turned_away: Cell<usize>,
    /// By the number of the client's connection.
    beyond: RefCell<BTreeMap<u64, Connection>>,
    lost: RefCell<Vec<Replier>>,
}

impl Front {
    async fn start(env: &Env, real: &str) -> Rc<Front> {
        let place: Rc<RefCell<Option<Rc<Front>>>> = Rc::default();
        let found = place.clone();
        let handler: Handler = Rc::new(move |connection, request| {
            let front = found.borrow().clone().unwrap();
            front.on_request(connection, request);
        });
        let front = Rc::new(Front {
            env: env.clone(),
            real: real.to_owned(),
            address: listen(env, handler).await,
            deposed_for: RefCell::default(),
            loses_replies: Cell::new(false),
            changes: Cell::new(0),
            turned_away: Cell::new(0),
            beyond: RefCell::default(),
            lost: RefCell::default(),
        });
        *place.borrow_mut() = Some(front.clone());
        front
    }

    fn on_request(self: Rc<Front>, connection: &Connection, request: Request) {
        if let Some(active) = self.deposed_for.borrow().clone() {
            self.turned_away.set(self.turned_away.get() + 1);
            return request.replier.fail(Failed::NotActive {
                active,
                members: Vec::new(),
            });
        }
        let connection = connection.clone();
        self.env.clone().spawn("front", async move {
            match request.method {
                SessionRequest::METHOD => {
                    self.hand_on::<SessionRequest>(&connection, request).await
                }
                RenewRequest::METHOD => self.hand_on::<RenewRequest>(&connection, request).await,
                LookupRequest::METHOD => self.hand_on::<LookupRequest>(&connection, request).await,
                GetInodeRequest::METHOD => {
                    self.hand_on::<GetInodeRequest>(&connection, request).await;
                }
                ChangeRequest::METHOD => {
                    self.changes.set(self.changes.get() + 1);
                    self.hand_on::<ChangeRequest>(&connection, request).await;
                }
                other => panic!("method {other}"),
            }
        });
    }

    /// The connection to the real server for a client's.
    async fn beyond(&self, connection: &Connection) -> Connection {
        let number = connection.number();
        if let Some(beyond) = self.beyond.borrow().get(&number) {
            return beyond.clone();
        }
        let (env, client) = (self.env.clone(), connection.clone());
        let back: Handler = Rc::new(move |_, request| match request.method {
            PairStates::METHOD => client.notify(&request.decode::<PairStates>().unwrap()),
            RevokeRequest::METHOD => {
                let client = client.clone();
                env.spawn("back", async move {
                    let revoke: RevokeRequest = request.decode().unwrap();
                    if let Ok((reply, _)) = client.call(&revoke, Payload::none()).await {
                        let replier = request.replier;
                        replier.send::<RevokeRequest>(&reply, Payload::none());
                    }
                });
            }
            other => panic!("method {other}"),
        });
        let role = local(identity::Role::Client);
        let beyond = weft_rpc::connect(&self.env, &self.real, &role, back).await;
        let beyond = beyond.unwrap();
        self.beyond.borrow_mut().insert(number, beyond.clone());
        let (ended, closing) = (connection.clone(), beyond.clone());
        self.env.spawn("end", async move {
            ended.closed().await;
            closing.close("the client has gone");
        });
        beyond
    }

    async fn hand_on<R: Rpc>(&self, connection: &Connection, request: Request) {
        let message: R = request.decode().unwrap();
        let beyond = self.beyond(connection).await;
        match beyond.call(&message, Payload::none()).await {
            Ok(_) if R::METHOD == ChangeRequest::METHOD && self.loses_replies.get() => {
                self.lost.borrow_mut().push(request.replier);
            }
            Ok((reply, payload)) => request.replier.send::<R>(&reply, payload),
            Err(CallError::Failed(failed)) => request.replier.fail(failed),
            Err(CallError::Lost(_)) => {}
        }
    }
}

#[test]
fn a_session_that_is_turned_away_goes_on_and_each_change_is_made_once() {
    with_stand_ins(1, async |cluster| {
        for (knows, loses_replies) in [(true, false), (false, false), (true, true)] {
            let front = Front::start(&cluster.env, &cluster.address).await;
            let a = client(&cluster, &[&front.address, &cluster.address]).await;
            let session = a.session();
            let name = |n: usize| format!("{knows} {loses_replies} {n}").into_bytes();
            let work = async {
                for n in 0..100 {
                    a.mkdir(&root(), a.root(), &name(n), 0o755).await.unwrap();
                }
            };
            let takeover = async {
                while front.changes.get() < 30 {
                    cluster.env.sleep(Duration::from_micros(100)).await;
                }
                if loses_replies {
                    // Done, but not told; whatever is asked next is turned away.
                    front.loses_replies.set(true);
                    while front.lost.borrow().is_empty() {
                        cluster.env.sleep(Duration::from_micros(100)).await;
                    }
                }
                let hint = if knows { &*cluster.address } else { "" };
                *front.deposed_for.borrow_mut() = Some(hint.to_owned());
                if loses_replies {
                    a.statfs().await.unwrap();
                }
            };
            futures_util::future::join(work, takeover).await;
            assert_eq!(a.session(), session, "taken up");
            // A renewal may have been on its way as well.
            let turned_away = front.turned_away.get();
            assert!((1..=2).contains(&turned_away), "asked {turned_away} times");
            assert!(front.changes.get() < 100);
            for n in 0..100 {
                let found = a.lookup(&root(), a.root(), &name(n)).await.unwrap();
                assert!(found.entry.is_some(), "{n}");
            }
            a.close().await.unwrap();
        }
    });
}
