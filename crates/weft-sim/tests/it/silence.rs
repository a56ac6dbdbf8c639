//! When a connection counts as silent, and when the other side is merely slow.

use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_rpc::{Connection, Handler, Local, Payload};
use weft_sim::{Node, Pace, World};
use weft_wire::proto::{Identity, WriteRequest};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = SECOND;

struct Two {
    world: World,
    here: Node,
    there: Node,
}

fn two(seed: u64) -> Two {
    let world = World::new(seed);
    world.set_limit(600 * SECOND);
    Two {
        here: world.node("here"),
        there: world.node("there"),
        world,
    }
}

/// A connection to a server that answers nothing that it is asked.
async fn join(here: &Env, there: &Env) -> Connection {
    let local = Local::new("test".into(), Identity::default());
    let unanswered = RefCell::new(Vec::new());
    let keeping: Handler = Rc::new(move |_, request| unanswered.borrow_mut().push(request));
    let serving = weft_rpc::serve(there, "there:7000", local.clone(), |_| {}, keeping);
    let address = serving.await.unwrap();
    let nothing: Handler = Rc::new(|_, _| {});
    let connecting = weft_rpc::connect(here, &address, &local, nothing);
    connecting.await.unwrap()
}

/// Whether the connection falls silent within a time.
async fn falls_silent(env: &Env, connection: &Connection, within: Duration) -> bool {
    env.timeout(within, connection.silent(PATIENCE))
        .await
        .is_ok()
}

#[test]
fn who_has_no_answer_yet_is_not_silent() {
    for seed in 0..10 {
        let Two { world, here, there } = two(seed);
        let node = there.clone();
        world.block_on(async move {
            let env = here.env();
            let connection = join(&env, &there.env()).await;
            let asking = connection.clone();
            env.spawn("asks", async move {
                let request = WriteRequest::default();
                let _ = asking.call(&request, Payload::none()).await;
            });
            assert!(!falls_silent(&env, &connection, 20 * SECOND).await);
            node.pause();
            let began = env.now();
            assert!(falls_silent(&env, &connection, 20 * SECOND).await);
            assert!(env.now().since(began) <= PATIENCE * 5 / 4);
            node.resume();
            assert!(!falls_silent(&env, &connection, 20 * SECOND).await);
        });
    }
}

#[test]
fn who_takes_bytes_slowly_is_not_silent_until_it_takes_none() {
    for seed in 0..10 {
        let Two { world, here, there } = two(seed);
        let net = world.net();
        world.block_on(async move {
            let env = here.env();
            let connection = join(&env, &there.env()).await;
            // The answer to a ping would come after megabytes only.
            let slow = Pace {
                latency: 1_000_000..2_000_000,
                rate: 1 << 20,
                ..Pace::default()
            };
            net.set_pace("here", "there", slow);
            for _ in 0..10 {
                let asking = connection.clone();
                env.spawn("writes", async move {
                    let request = WriteRequest::default();
                    let bytes = Bytes::from(vec![1; 1 << 20]);
                    let _ = asking.call(&request, bytes).await;
                });
            }
            assert!(!falls_silent(&env, &connection, 5 * SECOND).await);
            net.cut("here", "there");
            let began = env.now();
            assert!(falls_silent(&env, &connection, 20 * SECOND).await);
            assert!(env.now().since(began) <= PATIENCE * 3 / 2);
        });
    }
}

#[test]
fn bytes_that_find_room_are_no_sign_of_life() {
    let Two { world, here, there } = two(1);
    world.block_on(async move {
        let env = here.env();
        let connection = join(&env, &there.env()).await;
        there.pause();
        let telling = connection.clone();
        let clock = env.clone();
        env.spawn("tells", async move {
            loop {
                clock.sleep(PATIENCE / 10).await;
                telling.notify(&WriteRequest::default());
            }
        });
        assert!(falls_silent(&env, &connection, 2 * PATIENCE).await);
    });
}
