//! When the active on a connection is left, and when it is merely slow.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Elapsed, Env};
use weft_rpc::{CallError, Connection, Handler, Local, Payload, Request, Search, Terms};
use weft_sim::{Node, Pace, World};
use weft_wire::proto::{Identity, LeadsReply, LeadsRequest, StatfsRequest};
use weft_wire::{Failed, Rpc};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(250), Duration::from_secs(2)],
};

/// Answers of [`Member`] to the question whether it leads.
#[derive(Clone)]
enum Leads {
    Yes,
    /// And it answers all that it owes when it is asked.
    YesAndAnswers,
    /// Says who does.
    No(String),
    /// Says nothing to whoever connected first.
    NotToTheFirst,
}

/// A server that answers nothing but whether it leads.
struct Member {
    node: Node,
    address: String,
    leads: RefCell<Leads>,
    asked: Cell<usize>,
    /// Numbers of connections.
    connections: RefCell<Vec<u64>>,
    unanswered: RefCell<Vec<Request>>,
}

impl Member {
    async fn start(world: &World, name: &str, leads: Leads) -> Rc<Member> {
        let node = world.node(name);
        let member = Rc::new(Member {
            address: format!("{name}:7400"),
            node: node.clone(),
            leads: RefCell::new(leads),
            asked: Cell::new(0),
            connections: RefCell::default(),
            unanswered: RefCell::default(),
        });
        let (of, on) = (member.clone(), member.clone());
        let handler: Handler = Rc::new(move |connection, request| of.on(connection, request));
        let on_connection = move |connection: Connection| {
            on.connections.borrow_mut().push(connection.number());
        };
        let env = node.env();
        let local = local(env.random());
        let serving = weft_rpc::serve(&env, &member.address, local, on_connection, handler);
        serving.await.unwrap();
        member
    }

    fn on(&self, connection: &Connection, request: Request) {
        if request.method != LeadsRequest::METHOD {
            return self.unanswered.borrow_mut().push(request);
        }
        self.asked.set(self.asked.get() + 1);
        let is_first = self.connections.borrow()[0] == connection.number();
        if let Leads::YesAndAnswers = &*self.leads.borrow() {
            // Who is given up is answered, too.
            self.unanswered.borrow_mut().clear();
        }
        match &*self.leads.borrow() {
            Leads::NotToTheFirst if is_first => self.unanswered.borrow_mut().push(request),
            Leads::Yes | Leads::YesAndAnswers | Leads::NotToTheFirst => request
                .replier
                .send::<LeadsRequest>(&LeadsReply {}, Payload::none()),
            Leads::No(active) => request.replier.fail(Failed::NotActive {
                active: active.clone(),
                members: Vec::new(),
            }),
        }
    }
}

fn local(incarnation: u64) -> Local {
    Local::new(
        "test".into(),
        Identity {
            incarnation,
            ..Identity::default()
        },
    )
}

/// One who has connected to a member, and knows others.
struct Asker {
    env: Env,
    connection: Connection,
    search: RefCell<Search>,
}

impl Asker {
    async fn of(world: &World, active: &Member, others: &[&Member]) -> Asker {
        let env = world.node("asker").env();
        let (nothing, me): (Handler, Local) = (Rc::new(|_, _| {}), local(1));
        let connecting = weft_rpc::connect(&env, &active.address, &me, nothing);
        let connection = connecting.await.unwrap();
        let addresses = std::iter::once(active).chain(others.iter().copied());
        let addresses = addresses.map(|member| member.address.clone()).collect();
        let mut search = Search::new(addresses, TERMS);
        search.connected(&active.address, Vec::new(), env.now());
        Asker {
            env,
            connection,
            search: RefCell::new(search),
        }
    }

    /// Something that is not answered.
    fn wait_for_an_answer(&self) {
        let connection = self.connection.clone();
        self.env.spawn("waits", async move {
            let _ = connection
                .call(&StatfsRequest::default(), Payload::none())
                .await;
        });
    }

    /// Why it is left within a time, and after which.
    async fn left(&self, within: Duration) -> Result<(CallError, Duration), Elapsed> {
        let (env, local) = (&self.env, local(1));
        let began = env.now();
        let work = std::future::pending::<()>();
        let staying = weft_rpc::while_active(env, &self.connection, &self.search, &local, work);
        let why = env.timeout(within, staying).await?.unwrap_err();
        Ok((why, env.now().since(began)))
    }
}

fn in_worlds(scenario: impl AsyncFn(World) + Copy + 'static) {
    for seed in 0..10 {
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        let at = world.clone();
        world.block_on(async move { scenario(at).await });
    }
}

#[test]
fn one_who_leads_is_not_left_however_late_its_answers() {
    in_worlds(async |world| {
        let active = Member::start(&world, "active", Leads::Yes).await;
        let other = Member::start(&world, "other", Leads::No(active.address.clone())).await;
        let asker = Asker::of(&world, &active, &[&other]).await;
        // Nobody waits: nothing is asked.
        assert!(asker.left(5 * SECOND).await.is_err());
        assert_eq!(active.asked.get(), 0);
        asker.wait_for_an_answer();
        assert!(asker.left(5 * SECOND).await.is_err());
        let asked = active.asked.get();
        assert!((10..=50).contains(&asked), "asked {asked} times in 5 s");
        assert!(other.connections.borrow().is_empty());
        assert_eq!(active.connections.borrow().len(), 1);
    });
}

#[test]
fn who_hangs_is_left_when_another_leads_and_not_before() {
    in_worlds(async |world| {
        let active = Member::start(&world, "active", Leads::Yes).await;
        let other = Member::start(&world, "other", Leads::No(active.address.clone())).await;
        let third = Member::start(&world, "third", Leads::No(active.address.clone())).await;
        // The asker has to be told of the third.
        let asker = Asker::of(&world, &active, &[&other]).await;
        asker.wait_for_an_answer();
        active.node.pause();
        assert!(asker.left(SECOND).await.is_err());
        let asked = other.asked.get();
        assert!((5..=40).contains(&asked), "asked {asked} times in 1 s");
        // It was only slow.
        active.node.resume();
        assert!(asker.left(SECOND).await.is_err());
        assert_eq!(other.asked.get(), asked);
        active.node.pause();
        let takeover = async {
            world.sleep(350 * MS).await;
            *third.leads.borrow_mut() = Leads::Yes;
            *other.leads.borrow_mut() = Leads::No(third.address.clone());
        };
        let (left, ()) = futures_util::join!(asker.left(5 * SECOND), takeover);
        let (why, after) = left.unwrap();
        let leads = Failed::NotActive {
            active: third.address.clone(),
            members: Vec::new(),
        };
        assert_eq!(why, CallError::Failed(leads));
        assert!(after < 500 * MS, "{after:?}");
    });
}

#[test]
fn who_takes_over_soon_is_found_within_20_ms() {
    in_worlds(async |world| {
        world.net().set_default_pace(Pace {
            detours_ppm: 0,
            ..Pace::default()
        });
        let active = Member::start(&world, "active", Leads::Yes).await;
        // It goes on naming the silent one: that holds nobody up.
        let other = Member::start(&world, "other", Leads::No(active.address.clone())).await;
        let third = Member::start(&world, "third", Leads::No(active.address.clone())).await;
        let asker = Asker::of(&world, &active, &[&other, &third]).await;
        asker.wait_for_an_answer();
        active.node.pause();
        let takeover = async {
            world.sleep(150 * MS).await;
            *third.leads.borrow_mut() = Leads::Yes;
        };
        let (left, ()) = futures_util::join!(asker.left(5 * SECOND), takeover);
        let (_, after) = left.unwrap();
        assert!(after < 170 * MS, "{after:?}");
    });
}

#[test]
fn who_was_slow_once_is_not_asked_later_for_that() {
    in_worlds(async |world| {
        world.net().set_default_pace(Pace {
            detours_ppm: 0,
            ..Pace::default()
        });
        let active = Member::start(&world, "active", Leads::YesAndAnswers).await;
        let other = Member::start(&world, "other", Leads::No(active.address.clone())).await;
        let asker = Asker::of(&world, &active, &[&other]).await;
        asker.wait_for_an_answer();
        let begins = 500 * MS;
        let silence = async {
            world.sleep(begins).await;
            assert_eq!(active.asked.get(), 1);
            active.node.pause();
            asker.wait_for_an_answer();
            world.sleep(125 * MS).await;
            *other.leads.borrow_mut() = Leads::Yes;
        };
        let (left, ()) = futures_util::join!(asker.left(5 * SECOND), silence);
        let (_, after) = left.unwrap();
        assert!(after < begins + 150 * MS, "{after:?}");
    });
}

#[test]
fn one_that_says_that_another_leads_is_left_at_once() {
    in_worlds(async |world| {
        let active = Member::start(&world, "active", Leads::No("other:7400".into())).await;
        let other = Member::start(&world, "other", Leads::Yes).await;
        let asker = Asker::of(&world, &active, &[&other]).await;
        asker.wait_for_an_answer();
        let (why, after) = asker.left(5 * SECOND).await.unwrap();
        assert!(matches!(why, CallError::Failed(Failed::NotActive { .. })));
        assert!(after < 150 * MS, "{after:?}");
        assert!(other.connections.borrow().is_empty());
    });
}

#[test]
fn a_dead_connection_to_one_who_leads_is_left() {
    in_worlds(async |world| {
        let active = Member::start(&world, "active", Leads::NotToTheFirst).await;
        let other = Member::start(&world, "other", Leads::No(active.address.clone())).await;
        let asker = Asker::of(&world, &active, &[&other]).await;
        asker.wait_for_an_answer();
        let (why, after) = asker.left(5 * SECOND).await.unwrap();
        assert!(matches!(why, CallError::Lost(_)), "{why:?}");
        assert!((400 * MS..750 * MS).contains(&after), "{after:?}");
    });
}

#[test]
fn the_only_one_that_is_known_is_asked_nothing() {
    in_worlds(async |world| {
        let active = Member::start(&world, "active", Leads::Yes).await;
        let asker = Asker::of(&world, &active, &[]).await;
        asker.wait_for_an_answer();
        active.node.pause();
        assert!(asker.left(5 * SECOND).await.is_err());
        active.node.resume();
        world.sleep(SECOND).await;
        assert_eq!(active.asked.get(), 0);
        assert_eq!(active.connections.borrow().len(), 1);
    });
}
