//! The same inside the simulator: bytes arrive in pieces of any size, links break, and a seed says how.

use crate::support::*;
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use weft_oncrpc::{CallError, Connection, Limits, serve};
use weft_sim::World;
use weft_xdr::nfs3::*;

fn run(seed: u64) -> (u64, usize) {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(600));
    let (a, b) = (world.node("a"), world.node("b"));
    let program = Rc::new(Program3::default());
    let served = program.clone();
    b.start(move |env| async move {
        let _server = serve(&env, "b:2049", Limits::default(), vec![served])
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
    let env = a.env();
    let lost = world.block_on(async move {
        let mut lost = 0;
        for round in 0..4u32 {
            env.sleep(Duration::from_millis(100)).await;
            let limits = Limits::default();
            let client = Connection::connect(&env, "b:2049", limits, vec![]).await;
            let client = client.unwrap();
            let user = user(round);
            let calls = join_all((0..8u32).map(|at| {
                let (client, user) = (client.clone(), user.clone());
                async move {
                    let data = pattern((at * 17_001) as usize);
                    let write = write_of(data);
                    client.call::<NFSPROC3_WRITE>(&user, &write).await?;
                    let read = read_of(at * 9_001);
                    client.call::<NFSPROC3_READ>(&user, &read).await
                }
            }));
            let cut = async {
                if round % 2 == 1 {
                    env.sleep(Duration::from_millis(2)).await;
                    client.close("the test");
                }
            };
            let (results, ()) = futures_util::future::join(calls, cut).await;
            for (at, result) in results.into_iter().enumerate() {
                match result {
                    Ok(READ3res::NFS3_OK(read)) => assert!(read.data == pattern(at * 9_001)),
                    Err(CallError::Lost(_)) if round % 2 == 1 => lost += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        lost
    });
    for data in program.written.borrow().iter() {
        assert!(*data == pattern(data.len()));
    }
    (world.digest(), lost)
}

#[test]
fn every_seed_serves_and_the_same_seed_runs_the_same() {
    let mut lost = 0;
    for seed in 0..20 {
        lost += run(seed).1;
    }
    assert!(lost > 0, "no connection was closed while calls waited");
    assert_eq!(run(3), run(3));
}
