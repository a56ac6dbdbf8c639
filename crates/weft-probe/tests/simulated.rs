//! The probe in simulated worlds whose links are known: it must find what they were made of.
#![allow(clippy::unwrap_used)]

use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::Env;
use weft_probe::{Driver, Error, Plan, Route, serve};
use weft_rpc::{CallError, Connection, Handler, Local, Payload, Request};
use weft_sim::{Link, Pace, World};
use weft_wire::Failed;
use weft_wire::proto::identity::Role;
use weft_wire::proto::run_lane_request::Kind;
use weft_wire::proto::{Identity, OpenLaneRequest, PingRequest, RunLaneRequest, StatusRequest};

/// What a frame carries of a connection, and what it takes on the wire besides (`weft-sim/src/net/links.rs`).
const FRAME: f64 = 1448.0;
const HEADERS: f64 = 66.0;
/// What goes from one link to the next at a time.
const SEGMENT: f64 = 4.0 * FRAME;
/// The simulator takes a part only of one write in eight, and of what is left again: so many frames more for each write.
const CUTS: f64 = 1.0 / 7.0;
const PORT: u16 = 7500;

/// Peers of these names, with links of one rate, and who drives them.
fn world(seed: u64, names: &[&str], rate: u64, latency: Duration) -> (World, Env) {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(3_600));
    let latency = latency.as_nanos() as u64;
    world.net().set_default_pace(Pace {
        latency: latency..latency + 1,
        ..Pace::default()
    });
    world.net().set_window(128 << 10);
    for name in names {
        start(&world, name);
        world.net().set_link(name, Link::of_rate(rate));
    }
    let driver = world.node("driver").env();
    (world, driver)
}

fn start(world: &World, name: &str) {
    let listen = format!("{name}:{PORT}");
    world.node(name).start(async move |env| {
        let _serving = serve(&env, &listen, 0).await.unwrap();
        std::future::pending().await
    });
}

fn addresses(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name}:{PORT}")).collect()
}

/// Connects when the peers had the time to start.
async fn driver(world: &World, env: &Env, names: &[&str]) -> Driver {
    world.sleep(Duration::from_millis(10)).await;
    Driver::connect(env, &addresses(names)).await.unwrap()
}

fn plan() -> Plan {
    let plan = Plan {
        sizes: vec![64, 1 << 10, 16 << 10, 128 << 10],
        rounds: 5,
        flood: Duration::from_millis(30),
        long_message: 128 << 10,
        together: Duration::from_millis(200),
    };
    plan.checked().unwrap()
}

fn assert_near(what: &str, value: f64, expected: f64, within: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off < within, "{what}: {value} beside {expected}");
}

const THERE: Route = Route { from: 0, to: 1 };

#[test]
fn latency_and_gaps_of_known_links_are_found() {
    for (seed, rate, latency) in [
        (1, 12_500_000u64, Duration::from_micros(200)),
        (2, 1_250_000, Duration::from_millis(1)),
        // Beyond this rate what a poll takes in the simulator is longer than the smallest frame.
        (3, 25_000_000, Duration::from_micros(50)),
    ] {
        let (world, env) = world(seed, &["a", "b"], rate, latency);
        let handle = world.clone();
        let found = world.block_on(async move {
            let driver = driver(&handle, &env, &["a", "b"]).await;
            driver.parameters(THERE, &plan()).await.unwrap()
        });
        let rate = rate as f64;
        let smallest = (1.0 + HEADERS) / rate;
        // Two links, one after the other, send each frame again.
        let expected = latency.as_secs_f64() + smallest;
        assert_near("L", found.latency, expected, 0.03);
        let per_byte = (1.0 + HEADERS / FRAME) / rate;
        assert_near("G", found.gap_per_byte, per_byte, 0.03);
        assert_near("g", found.gap, HEADERS / rate, 0.1);
        for size in &found.sizes {
            let bytes = f64::from(size.bytes);
            let cut = if size.bytes > 1 { CUTS } else { 0.0 };
            let frames = (bytes / FRAME).ceil() + cut;
            let wire = (bytes + frames * HEADERS) / rate;
            assert_near("g(m)", size.gap.median, wire, 0.05);
            assert_near("m/g(m)", size.bandwidth(), bytes / wire, 0.05);
            // The second link begins with what the first has sent whole.
            let segment = bytes.min(SEGMENT);
            let again = (segment + (segment / FRAME).ceil() * HEADERS) / rate;
            let least = latency.as_secs_f64() + wire;
            let within = 0.98 * least..1.02 * (least + again);
            assert!(
                within.contains(&size.delivery),
                "T(m): {size:?}, {within:?}"
            );
            let by_model = latency.as_secs_f64() + 2.0 * smallest + (bytes - 1.0) * per_byte;
            assert_near("T(m) by LogGP", size.delivery_by_model, by_model, 0.03);
        }
    }
}

#[test]
fn there_and_back_is_the_same_from_either_end_and_latency_is_half_of_it() {
    let latency = Duration::from_micros(200);
    let (world, env) = world(4, &["a", "b"], 125_000_000, latency);
    let slow = Pace {
        latency: 5_000_000..5_000_001,
        ..Pace::default()
    };
    world.net().set_pace("a", "b", slow);
    let handle = world.clone();
    world.block_on(async move {
        let driver = driver(&handle, &env, &["a", "b"]).await;
        let back = Route { from: 1, to: 0 };
        for route in [THERE, back] {
            let flow = driver.alone(route, &plan()).await.unwrap();
            assert_near("round trip", flow.round_trip.unwrap(), 5.2e-3, 0.02);
            let found = driver.parameters(route, &plan()).await.unwrap();
            assert_near("L", found.latency, 2.6e-3, 0.02);
        }
    });
}

#[test]
fn routes_that_share_a_link_share_what_it_carries() {
    let names = ["a", "b", "c", "d"];
    let rate = 12_500_000;
    let (world, env) = world(5, &names, rate, Duration::from_micros(100));
    let handle = world.clone();
    world.block_on(async move {
        let driver = driver(&handle, &env, &names).await;
        let goodput = rate as f64 * FRAME / (FRAME + HEADERS);
        let route = |from, to| Route { from, to };
        let expect = async |routes: &[Route], each: f64| {
            let carried = driver.together(routes, &plan()).await.unwrap();
            assert_eq!(carried.flows.len(), routes.len());
            for (flow, route) in carried.flows.iter().zip(routes) {
                assert_eq!(flow.route, *route);
                assert_near("bandwidth", flow.bandwidth, each, 0.06);
            }
            assert_near("in all", carried.shared, each * routes.len() as f64, 0.06);
        };
        expect(&[route(0, 1)], goodput).await;
        expect(&[route(0, 1), route(2, 3)], goodput).await;
        // Into one, out of one, and around: a link carries as much each way.
        let into = [route(0, 3), route(1, 3), route(2, 3)];
        expect(&into, goodput / 3.0).await;
        expect(&[route(0, 1), route(0, 2)], goodput / 2.0).await;
        let around = [route(0, 1), route(1, 2), route(2, 3), route(3, 0)];
        expect(&around, goodput).await;
    });
}

/// Something else of Weft's, as its identity says.
async fn other(env: &Env, address: &str, role: Role, answer: Failed) {
    let identity = Identity {
        role: role as i32,
        ..Identity::default()
    };
    let local = Local::new("blue".into(), identity);
    let handler: Handler = Rc::new(move |_: &Connection, request: Request| {
        request.replier.fail(answer.clone());
    });
    weft_rpc::serve(env, address, local, |_| (), handler)
        .await
        .unwrap();
}

#[test]
fn who_cannot_be_measured_is_named_with_what_to_do() {
    let (world, env) = world(6, &["a", "b"], 12_500_000, Duration::from_micros(100));
    let handle = world.clone();
    world.block_on(async move {
        drop(driver(&handle, &env, &["a", "b"]).await);
        let c = handle.node("c").env();
        let newer = Failed::Refused("version 1 of the probe is not spoken here, only 2".into());
        other(&c, "c:1", Role::Data, newer.clone()).await;
        other(&c, "c:2", Role::Meta, newer.clone()).await;
        other(&c, "c:3", Role::Probe, newer).await;
        let refused = async |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Driver::connect(&env, &names).await.map(drop).unwrap_err()
        };
        let nobody = refused(&["a:7500", "c:9"]).await;
        assert!(matches!(nobody, Error::Unreachable { .. }), "{nobody:?}");
        assert!(
            nobody
                .to_string()
                .contains("weft bench net serve --listen c:9")
        );
        for (address, what) in [("c:1", "data server"), ("c:2", "metadata server")] {
            let error = refused(&["a:7500", address]).await;
            let said = error.to_string();
            assert!(matches!(error, Error::NotAPeer { .. }), "{error:?}");
            assert!(
                said.starts_with(&format!("{address} is a {what}")),
                "{said}"
            );
        }
        let newer = refused(&["a:7500", "c:3"]).await;
        assert!(matches!(newer, Error::Version { .. }), "{newer:?}");
        assert!(
            newer.to_string().contains("only 2. Use the same build"),
            "{newer}"
        );
        for few in [
            &["a:7500"][..],
            &[],
            &["a:7500", "a:7500"],
            &["a:7500", "b"],
        ] {
            let error = refused(few).await;
            assert!(matches!(error, Error::Asked(_)), "{error:?}");
        }
        let many: Vec<String> = (0..65).map(|at| format!("a:{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(matches!(refused(&many).await, Error::Asked(_)));
    });
}

#[test]
fn a_peer_that_goes_or_is_cut_off_ends_the_measurement_in_words() {
    let names = ["a", "b", "c"];
    let (world, env) = world(7, &names, 12_500_000, Duration::from_micros(100));
    let handle = world.clone();
    world.block_on(async move {
        let driver = driver(&handle, &env, &names).await;
        // a and b do not reach each other, though the driver reaches both.
        handle.net().cut("a", "b");
        let error = driver.alone(THERE, &plan()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Between { from, .. } if from == "a:7500"),
            "{error:?}"
        );
        assert!(error.to_string().contains("b:"), "{error}");
        handle.net().heal();
        driver.alone(THERE, &plan()).await.unwrap();

        // Cut in the middle of a flood: not for ever.
        let (net, clock) = (handle.net(), handle.clone());
        let cutter = handle.node("cutter").env();
        cutter.spawn("cut", async move {
            clock.sleep(Duration::from_millis(100)).await;
            net.cut("a", "b");
        });
        let error = driver.together(&[THERE], &plan()).await.unwrap_err();
        assert!(error.to_string().contains("no answer within"), "{error}");
        handle.net().heal();

        // A peer that receives dies; then one that sends.
        handle.node("b").kill();
        let error = driver.alone(THERE, &plan()).await.unwrap_err();
        assert!(matches!(&error, Error::Between { .. }), "{error:?}");
        handle.node("a").power_cut();
        let error = driver.alone(THERE, &plan()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Lost { address, .. } if address == "a:7500"),
            "{error:?}"
        );
        // The others are as they were.
        start(&handle, "b");
        handle.sleep(Duration::from_millis(10)).await;
        let fresh = Driver::connect(&env, &addresses(&["c", "b"]))
            .await
            .unwrap();
        fresh.alone(THERE, &plan()).await.unwrap();
    });
}

/// A connection to a peer, and what it answers to what no driver asks.
async fn connection(env: &Env, address: &str) -> Connection {
    let local = Local::new(String::new(), Identity::default());
    let handler: Handler = Rc::new(|_: &Connection, _: Request| {});
    weft_rpc::connect(env, address, &local, handler)
        .await
        .unwrap()
}

fn is_refused<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Failed(Failed::Refused(_))))
}

fn is_unavailable<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Failed(Failed::Unavailable(_))))
}

#[test]
fn hostile_bytes_and_requests_leave_a_peer_as_it_was() {
    let (world, env) = world(8, &["a", "b"], 125_000_000, Duration::from_micros(100));
    let handle = world.clone();
    world.block_on(async move {
        let driver = driver(&handle, &env, &["a", "b"]).await;
        let b = connection(&env, "b:7500").await;
        let greeting = weft_wire::proto::ProbeGreetRequest { version: 1 };
        let (greeted, _) = b.call(&greeting, Payload::none()).await.unwrap();
        let lanes = format!("b:{}", greeted.lane_port);
        let other = weft_wire::proto::ProbeGreetRequest { version: 2 };
        assert!(is_refused(&b.call(&other, Payload::none()).await));
        assert!(is_refused(
            &b.call(&StatusRequest {}, Payload::none()).await
        ));
        b.call(&PingRequest {}, Payload::none()).await.unwrap();

        // Lanes to nowhere, and measurements out of bounds.
        for target in [String::new(), "x".repeat(300)] {
            let open = OpenLaneRequest { target };
            assert!(is_refused(&b.call(&open, Payload::none()).await));
        }
        let open = OpenLaneRequest {
            target: "b:1".into(),
        };
        assert!(is_unavailable(&b.call(&open, Payload::none()).await));
        let open = OpenLaneRequest {
            target: lanes.clone(),
        };
        let (opened, _) = b.call(&open, Payload::none()).await.unwrap();
        let fair = RunLaneRequest {
            lane: opened.lane,
            kind: Kind::RoundTrips as i32,
            message_bytes: 1,
            rounds: 1,
            nanos: 0,
        };
        for wrong in [
            RunLaneRequest {
                message_bytes: 0,
                ..fair
            },
            RunLaneRequest {
                message_bytes: u32::MAX,
                ..fair
            },
            RunLaneRequest { rounds: 0, ..fair },
            RunLaneRequest {
                rounds: u32::MAX,
                ..fair
            },
            RunLaneRequest {
                nanos: u64::MAX,
                ..fair
            },
            RunLaneRequest { kind: 0, ..fair },
            RunLaneRequest { kind: 99, ..fair },
        ] {
            let answer = b.call(&wrong, Payload::none()).await;
            assert!(is_refused(&answer), "{wrong:?}");
        }
        let (reply, _) = b.call(&fair, Payload::none()).await.unwrap();
        assert_eq!(reply.samples.len(), 1);
        let unknown = RunLaneRequest { lane: 1, ..fair };
        assert!(is_unavailable(&b.call(&unknown, Payload::none()).await));

        // Anything at all on either port, in any number, with or without an end.
        let mut kept = Vec::new();
        for at in 0..600u32 {
            let to = if at % 2 == 0 { &lanes } else { "b:7500" };
            let mut stream = env.connect(to).await.unwrap();
            let greets = at % 4 == 0;
            let mut bytes = Vec::new();
            if greets {
                bytes.extend(*b"WEFTLANE");
                bytes.extend(1u32.to_le_bytes());
            }
            bytes.extend((0..at).map(|byte| (byte * 7 + at) as u8));
            if greets && at % 8 == 0 {
                // Messages are to be as long as they can, and many of them given, which nobody takes.
                bytes.truncate(12);
                bytes.extend([b's', 0, 0, 0, 4, b'g', b'g', b'g']);
            }
            let written = stream.write_all(&bytes).await;
            if at % 3 == 0 && written.is_ok() {
                kept.push(stream);
            }
        }
        // Whoever says nothing is closed, and makes room.
        handle.sleep(Duration::from_secs(300)).await;
        let closed = kept.iter_mut().map(async |stream| {
            let mut rest = vec![0; 1 << 20];
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
        });
        join_all(closed).await;
        driver.alone(THERE, &plan()).await.unwrap();
    });
}
