//! A peer: does on its node what a driver asks, between itself and other peers.
//!
//! It keeps no more than [`LANES_MAX`] lanes, and none that was not used for [`LANE_IDLE`]; what a driver may ask for is
//! bounded in `bounds.rs`. Like all servers of Weft it trusts the network that it is on: whoever reaches it may have it
//! open lanes and fill them.

use crate::VERSION;
use crate::bounds::{LANE_IDLE, LANES_MAX, MESSAGE_BYTES_MAX, ROUNDS_MAX, RUN_NANOS_MAX};
use crate::lane::{Kind, Lane, Round, echo};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, Mono, Task};
use weft_rpc::{Connection, Handler, Local, Payload, Request, serve_task};
use weft_wire::proto::identity::Role;
use weft_wire::proto::run_lane_request::Kind as AskedKind;
use weft_wire::proto::{
    CloseLaneReply, CloseLaneRequest, Identity, LaneSample, OpenLaneReply, OpenLaneRequest,
    ProbeGreetReply, ProbeGreetRequest, RunLaneReply, RunLaneRequest,
};
use weft_wire::{ADDRESS_BYTES_MAX, Failed, Rpc};

/// A peer that serves. Its sockets close when it is dropped.
pub struct Serving {
    /// Where drivers find it.
    pub address: String,
    /// Where it takes lanes.
    pub lanes: String,
    tasks: [Task; 2],
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tasks.iter().for_each(Task::abort);
    }
}

/// Serves drivers at `listen` (host:port), and takes lanes at the same host's `lane_port`; 0 takes a free one.
///
/// # Errors
/// If one of the two cannot be listened on; which one.
pub async fn serve(env: &Env, listen: &str, lane_port: u16) -> io::Result<Serving> {
    let named = |address: &str, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    let (host, _) = listen.rsplit_once(':').ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{listen:?} is not host:port"),
        )
    })?;
    let lanes = format!("{host}:{lane_port}");
    let taking = echo::listen(env, &lanes).await;
    let (lanes, taking) = taking.map_err(|error| named(&lanes, error))?;
    let port = port(&lanes);
    let kept: Rc<RefCell<Lanes>> = Rc::default();
    let inner = env.clone();
    let handler: Handler = Rc::new(move |_: &Connection, request: Request| {
        handle(&inner, &kept, port, request);
    });
    let local = Local::new(
        String::new(),
        Identity {
            role: Role::Probe as i32,
            id: 0,
            incarnation: env.random(),
            group: 0,
        },
    );
    let serving = serve_task(env, listen, local, |_| (), handler).await;
    let (address, serving) = serving.map_err(|error| {
        taking.abort();
        named(listen, error)
    })?;
    Ok(Serving {
        address,
        lanes,
        tasks: [taking, serving],
    })
}

fn port(address: &str) -> u32 {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse());
    // The system told this address.
    port.and_then(Result::ok).unwrap_or_default()
}

/// The lanes that nothing runs on, and how many others there are.
#[derive(Default)]
struct Lanes {
    idle: BTreeMap<u64, (Mono, Lane)>,
    busy: usize,
}

impl Lanes {
    /// Room for another one, after those were closed whose driver has gone.
    fn has_room(&mut self, now: Mono) -> bool {
        self.idle
            .retain(|_, (used, _)| now.since(*used) < LANE_IDLE);
        self.idle.len() + self.busy < LANES_MAX
    }
}

/// Counts a lane as busy until it is dropped.
struct Busy(Rc<RefCell<Lanes>>);

impl Busy {
    fn new(lanes: &Rc<RefCell<Lanes>>) -> Busy {
        lanes.borrow_mut().busy += 1;
        Busy(lanes.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.borrow_mut().busy -= 1;
    }
}

fn handle(env: &Env, lanes: &Rc<RefCell<Lanes>>, lane_port: u32, request: Request) {
    match request.method {
        ProbeGreetRequest::METHOD => {
            answer::<ProbeGreetRequest>(request, |asked| greet(asked, lane_port))
        }
        CloseLaneRequest::METHOD => answer::<CloseLaneRequest>(request, |asked| {
            // One that is gone is closed.
            lanes.borrow_mut().idle.remove(&asked.lane);
            Ok(CloseLaneReply {})
        }),
        OpenLaneRequest::METHOD => {
            let (env, lanes) = (env.clone(), lanes.clone());
            later::<OpenLaneRequest, _>(&env.clone(), request, async move |asked| {
                open(&env, &lanes, asked).await
            });
        }
        RunLaneRequest::METHOD => {
            let (env, lanes) = (env.clone(), lanes.clone());
            later::<RunLaneRequest, _>(&env.clone(), request, async move |asked| {
                run(&env, &lanes, asked).await
            });
        }
        _ => request.replier.fail(Failed::Refused(
            "this is a peer of the probe (weft bench net serve), and no server of a cluster".into(),
        )),
    }
}

fn answer<R: Rpc>(request: Request, work: impl FnOnce(R) -> Result<R::Reply, Failed>) {
    match request.decode::<R>().and_then(work) {
        Ok(reply) => request.replier.send::<R>(&reply, Payload::none()),
        Err(failed) => request.replier.fail(failed),
    }
}

/// The same for what takes time.
fn later<R, W>(env: &Env, request: Request, work: W)
where
    R: Rpc + 'static,
    W: AsyncFnOnce(R) -> Result<R::Reply, Failed> + 'static,
{
    let asked = match request.decode::<R>() {
        Ok(asked) => asked,
        Err(failed) => return request.replier.fail(failed),
    };
    env.spawn("probe run", async move {
        match work(asked).await {
            Ok(reply) => request.replier.send::<R>(&reply, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

fn greet(asked: ProbeGreetRequest, lane_port: u32) -> Result<ProbeGreetReply, Failed> {
    match asked.version {
        VERSION => Ok(ProbeGreetReply {
            version: VERSION,
            lane_port,
        }),
        other => Err(Failed::Refused(format!(
            "version {other} of the probe is not spoken here, only {VERSION}"
        ))),
    }
}

async fn open(
    env: &Env,
    lanes: &Rc<RefCell<Lanes>>,
    asked: OpenLaneRequest,
) -> Result<OpenLaneReply, Failed> {
    if asked.target.is_empty() || asked.target.len() > ADDRESS_BYTES_MAX {
        return Err(Failed::Refused("a lane needs an address".into()));
    }
    if !lanes.borrow_mut().has_room(env.now()) {
        return Err(Failed::Unavailable(format!(
            "it has {LANES_MAX} lanes already: another measurement is under way"
        )));
    }
    let _busy = Busy::new(lanes);
    let opened = Lane::open(env, &asked.target).await;
    let opened = opened.map_err(|error| Failed::Unavailable(error.to_string()))?;
    let lane = env.random();
    let kept = (env.now(), opened);
    lanes.borrow_mut().idle.insert(lane, kept);
    Ok(OpenLaneReply { lane })
}

async fn run(
    env: &Env,
    lanes: &Rc<RefCell<Lanes>>,
    asked: RunLaneRequest,
) -> Result<RunLaneReply, Failed> {
    let kind = checked(&asked).map_err(|why| Failed::Refused(why.to_owned()))?;
    let lane = lanes.borrow_mut().idle.remove(&asked.lane);
    let (_, mut lane) = lane.ok_or_else(|| {
        Failed::Unavailable("there is no such lane, or it is being used".to_owned())
    })?;
    let _busy = Busy::new(lanes);
    // One that fails is dropped: what is under way on it would be taken for what comes next.
    let rounds = lane.run(kind, asked.message_bytes, asked.rounds).await;
    let rounds = rounds.map_err(|error| Failed::Unavailable(error.to_string()))?;
    let kept = (env.now(), lane);
    lanes.borrow_mut().idle.insert(asked.lane, kept);
    let samples = rounds.iter().map(sample).collect();
    Ok(RunLaneReply { samples })
}

fn checked(asked: &RunLaneRequest) -> Result<Kind, &'static str> {
    if !(1..=MESSAGE_BYTES_MAX).contains(&asked.message_bytes) {
        return Err("messages have 1 byte to 64 MiB");
    }
    if !(1..=ROUNDS_MAX).contains(&asked.rounds) {
        return Err("there are 1 to 1000 rounds");
    }
    if asked.nanos > RUN_NANOS_MAX {
        return Err("a flood or a pause has at most 60 s");
    }
    let length = Duration::from_nanos(asked.nanos);
    match asked.kind() {
        AskedKind::RoundTrips => Ok(Kind::RoundTrip),
        AskedKind::Floods => Ok(Kind::Flood(length)),
        AskedKind::Receipts => Ok(Kind::Receipt(length)),
        AskedKind::Unspecified => Err("this kind of measurement is not known here"),
    }
}

fn sample(round: &Round) -> LaneSample {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    LaneSample {
        nanos: nanos(round.whole),
        send_nanos: nanos(round.send),
        messages: round.messages,
    }
}
