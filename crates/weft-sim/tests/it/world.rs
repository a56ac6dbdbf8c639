//! The executor, the clocks and the life of nodes.

use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_sim::{Logs, World};

const MS: Duration = Duration::from_millis(1);

/// Some of everything: tasks, timers, messages, files, a kill and a restart.
fn busy_run(seed: u64) -> (u64, Vec<u64>) {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(60));
    let server = world.node("server");
    let serve = |env: weft_env::Env| async move {
        env.create_dir_all("/d".as_ref()).unwrap();
        let file = env
            .open("/d/f".as_ref(), weft_env::OpenMode::Create)
            .await
            .unwrap();
        let mut listener = env.listen("server:7").await.unwrap();
        while let Ok(mut stream) = listener.accept().await {
            let file = file.clone();
            env.clone().spawn("echo", async move {
                let mut word = [0; 8];
                while stream.read_exact(&mut word).await.is_ok() {
                    file.write_at(0, vec![word.to_vec().into()]).await.unwrap();
                    file.sync_data().await.unwrap();
                    if stream.write_all(&word).await.is_err() {
                        break;
                    }
                }
            });
        }
    };
    server.start(serve);
    let seen = Rc::new(RefCell::new(Vec::new()));
    for number in 0..3u64 {
        let client = world.node(&format!("client{number}"));
        let seen = seen.clone();
        client.start(move |env| async move {
            for round in 0..20u64 {
                let word = number << 32 | round;
                loop {
                    let exchange = async {
                        let mut stream = env.connect("server:7").await?;
                        stream.write_all(&word.to_le_bytes()).await?;
                        stream.read_u64_le().await
                    };
                    if let Ok(Ok(echo)) = env.timeout(50 * MS, exchange).await {
                        assert_eq!(echo, word);
                        break;
                    }
                    env.sleep(MS * (1 + (env.random() % 5) as u32)).await;
                }
                seen.borrow_mut().push(word);
            }
        });
    }
    let handle = world.clone();
    let all = seen.clone();
    world.block_on(async move {
        handle.sleep(5 * MS).await;
        server.kill();
        handle.sleep(20 * MS).await;
        server.start(serve);
        while all.borrow().len() < 60 {
            handle.sleep(MS).await;
        }
    });
    let seen = seen.borrow().clone();
    (world.digest(), seen)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let runs: Vec<(u64, Vec<u64>)> = (0..6).map(busy_run).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert_eq!(&busy_run(seed as u64), run, "seed {seed}");
    }
    let digests: std::collections::BTreeSet<u64> = runs.iter().map(|run| run.0).collect();
    assert_eq!(digests.len(), runs.len(), "seeds must differ");
    let orders: std::collections::BTreeSet<&Vec<u64>> = runs.iter().map(|run| &run.1).collect();
    assert!(orders.len() > 1, "the order must depend on the seed");
}

#[test]
fn ready_tasks_run_in_any_order() {
    let order = |seed| {
        let world = World::new(seed);
        let env = world.env();
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..5 {
            let order = order.clone();
            env.spawn("n", async move { order.borrow_mut().push(number) });
        }
        let handle = world.clone();
        world.block_on(async move { handle.sleep(MS).await });
        order.take()
    };
    let orders: std::collections::BTreeSet<Vec<i32>> = (0..50).map(order).collect();
    assert!(orders.len() > 20, "{} orders", orders.len());
}

#[test]
fn time_is_virtual_and_sleeps_are_long_enough() {
    let world = World::new(3);
    let node = world.node("a");
    let env = node.env();
    let handle = world.clone();
    world.block_on(async move {
        for _ in 0..50 {
            let before = env.now();
            env.sleep(Duration::from_secs(3600)).await;
            let slept = env.now().since(before);
            assert!(slept >= Duration::from_secs(3600), "{slept:?}");
            assert!(slept < Duration::from_secs(3601), "{slept:?}");
        }
        assert_eq!(env.timeout(MS, env.sleep(2 * MS)).await.ok(), None);
        assert!(env.timeout(5 * MS, env.sleep(2 * MS)).await.is_ok());
        assert!(handle.now() > Duration::from_secs(50 * 3600 - 3600));
    });
}

#[test]
fn a_killed_process_does_nothing_more() {
    let world = World::new(4);
    let node = world.node("a");
    let beats = Rc::new(Cell::new(0));
    struct Last(weft_env::Env, Rc<Cell<i32>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let beats = self.1.clone();
            // A dead process cannot start anything or leave a trace.
            self.0.spawn("ghost", async move { beats.set(-1000) });
            assert!(self.0.create_dir_all("/ghost".as_ref()).is_err());
            assert!(self.0.remove_file("/kept".as_ref()).is_err());
        }
    }
    let counter = beats.clone();
    node.start(|env| async move {
        let _last = Last(env.clone(), counter.clone());
        env.open("/kept".as_ref(), weft_env::OpenMode::Create)
            .await
            .unwrap();
        loop {
            env.sleep(MS).await;
            counter.set(counter.get() + 1);
        }
    });
    let handle = world.clone();
    let count = beats.clone();
    world.block_on(async move {
        handle.sleep(100 * MS).await;
        let beaten = count.get();
        assert!(beaten > 50);
        node.kill();
        handle.sleep(100 * MS).await;
        assert_eq!(count.get(), beaten);
        assert!(!node.is_running());
        assert_eq!(node.disk().files().len(), 1);
    });
}

#[test]
fn a_paused_process_stands_still_and_goes_on() {
    let world = World::new(5);
    let node = world.node("a");
    let beats = Rc::new(Cell::new(0));
    let counter = beats.clone();
    node.start(|env| async move {
        loop {
            env.sleep(MS).await;
            counter.set(counter.get() + 1);
        }
    });
    let handle = world.clone();
    world.block_on(async move {
        handle.sleep(50 * MS).await;
        node.pause();
        let before = beats.get();
        let clock = node.env().now();
        handle.sleep(500 * MS).await;
        assert_eq!(beats.get(), before);
        let stood = node.env().now().since(clock);
        assert!(stood > 400 * MS, "its clock goes on: {stood:?}");
        node.resume();
        handle.sleep(50 * MS).await;
        assert!(beats.get() > before + 20);
    });
}

#[test]
fn wall_clocks_jump_and_monotonic_ones_do_not() {
    let world = World::new(6);
    let node = world.node("a");
    let env = node.env();
    let wall = env.wall();
    let mono = env.now();
    node.jump_wall(-3_600_000_000_000);
    assert_eq!(env.wall().0, wall.0 - 3_600_000_000_000);
    assert_eq!(env.now(), mono);
    assert_ne!(world.node("b").env().now(), mono, "clocks have own origins");
}

#[test]
fn tasks_can_be_aborted() {
    let world = World::new(7);
    let env = world.node("a").env();
    let handle = world.clone();
    world.block_on(async move {
        let gone = Rc::new(());
        let held = gone.clone();
        let task = env.spawn("forever", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        handle.sleep(MS).await;
        assert!(!task.is_finished());
        assert_eq!(Rc::strong_count(&gone), 2);
        task.abort();
        handle.sleep(MS).await;
        assert!(task.is_finished());
        assert_eq!(Rc::strong_count(&gone), 1);
        let task = env.spawn("short", async {});
        handle.sleep(MS).await;
        assert!(task.is_finished());
    });
}

#[test]
#[should_panic(expected = "seed 8: nothing can happen any more")]
fn a_hang_is_found() {
    let world = World::new(8);
    world.block_on(std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "the time bound passed")]
fn a_run_without_end_is_found() {
    let world = World::new(9);
    world.set_limit(Duration::from_secs(10));
    let env = world.env();
    world.block_on(async move {
        loop {
            env.sleep(MS).await;
        }
    });
}

#[test]
#[should_panic(expected = "the time bound passed")]
fn a_task_that_never_waits_is_found() {
    let world = World::new(10);
    world.set_limit(MS);
    world.block_on(async move {
        std::future::poll_fn::<(), _>(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    });
}

#[test]
fn tokio_sync_works_across_tasks() {
    let world = World::new(11);
    let env = world.env();
    world.block_on(async move {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(2);
        let inner = env.clone();
        env.spawn("sender", async move {
            for number in 0..100 {
                sender.send(number).await.unwrap();
                if number % 7 == 0 {
                    inner.sleep(MS).await;
                }
            }
        });
        let mut sum = 0;
        while let Some(number) = receiver.recv().await {
            sum += number;
        }
        assert_eq!(sum, 4950);
        let notify = Rc::new(tokio::sync::Notify::new());
        let other = notify.clone();
        env.spawn("notify", async move { other.notify_one() });
        let notified = pin!(notify.notified());
        let either = select(notified, env.sleep(100 * MS)).await;
        assert!(matches!(either, Either::Left(_)));
    });
}

#[test]
fn log_lines_have_virtual_time_and_node() {
    let logs = Logs::new(tracing::Level::INFO);
    logs.collect(|| {
        let world = World::new(12);
        let node = world.node("meta0");
        node.start(|env| async move {
            env.sleep(Duration::from_secs(5)).await;
            let span = tracing::info_span!("group", epoch = 4);
            span.in_scope(|| tracing::warn!(pair = 3, "lost a member"));
            tracing::debug!("not collected");
        });
        let handle = world.clone();
        world.block_on(async move { handle.sleep(Duration::from_secs(6)).await });
    });
    let lines = logs.of_level(tracing::Level::WARN);
    assert_eq!(lines.len(), 1);
    assert_eq!(logs.lines().len(), 1);
    assert_eq!(lines[0].node, "meta0");
    assert_eq!(lines[0].text, "{group epoch=4} lost a member pair=3");
    assert!((5_000_000_000..5_002_000_000).contains(&lines[0].nanos));
}
