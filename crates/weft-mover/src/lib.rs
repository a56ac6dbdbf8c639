//! Moves files for the jobs of the metadata service (`docs/protocols/relayout.md`).
//!
//! While there is work it is a client session like any other; while there is none, only a question
//! every now and then. It keeps nothing: what it was moving when it died is found again by the service,
//! and the objects of its copies go with its session. Every `weft data` runs one.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_client::{Client, Errno, Moved, Settings};
use weft_env::Env;
use weft_rpc::{Connection, Local, Payload};
use weft_wire::Failed;
use weft_wire::proto::identity::Role;
use weft_wire::proto::{Identity, JobsRequest, MoveOrder, MoveReport};

/// Files that are moved at a time: enough that the waits of small ones overlap.
const PARALLEL: usize = 4;
/// How often an idle mover asks whether there is work.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Without orders, but with a job, it asks again after this.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// A metadata server that cannot be reached, or that fails, is asked again after this.
const RETRY: Duration = Duration::from_secs(1);
/// An answer about jobs comes from memory.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Operations of a move fail when servers have been away for so long; the file is tried again later.
const PATIENCE_MS: u64 = 15_000;
/// Bytes on their way for all files together.
const WINDOW_BYTES: u64 = 16 << 20;
/// Inodes that are remembered: hardly more than are being moved.
const CACHED_INODES: usize = 64;

/// What a mover's client is set to.
fn settings(meta: Vec<String>, cluster_id: String, name: String) -> Settings {
    Settings {
        meta,
        cluster_id,
        name,
        patience_ms: PATIENCE_MS,
        write_window_bytes: WINDOW_BYTES,
        readahead_bytes: 0,
        cached_inodes: CACHED_INODES,
        relatime: false,
        ..Settings::default()
    }
}

/// Moves files whenever there are any to be moved, for ever. `name` is what its sessions are called.
pub async fn run(env: Env, meta: Vec<String>, cluster_id: String, name: String) {
    let settings = settings(meta, cluster_id, name);
    let mut at = 0;
    loop {
        let address = settings.meta.get(at % settings.meta.len().max(1)).cloned();
        at += 1;
        let Some(address) = address else {
            tracing::error!("a mover without metadata servers has nothing to do");
            return;
        };
        if let Err(why) = wait_for_work(&env, &address, &settings.cluster_id).await {
            tracing::debug!(address, why, "cannot ask for jobs");
            env.sleep(RETRY).await;
            continue;
        }
        if let Err(why) = work(&env, &settings).await {
            tracing::info!(why, "moving files is interrupted");
            env.sleep(RETRY).await;
        }
    }
}

/// Returns when files wait to be moved.
async fn wait_for_work(env: &Env, address: &str, cluster_id: &str) -> Result<(), String> {
    let local = Local {
        cluster_id: cluster_id.to_owned(),
        identity: Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
        },
    };
    let refuse = Rc::new(|_: &Connection, request: weft_rpc::Request| {
        let refused = Failed::Refused("a mover answers nothing".into());
        request.replier.fail(refused);
    });
    let connecting = weft_rpc::connect(env, address, &local, refuse);
    let connection = match env.timeout(ANSWER_PATIENCE, connecting).await {
        Ok(connected) => connected.map_err(|error| error.to_string())?,
        Err(_) => return Err("no answer".into()),
    };
    let waited = async {
        loop {
            let call = connection.call(&JobsRequest {}, Payload::none());
            match env.timeout(ANSWER_PATIENCE, call).await {
                Ok(Ok((reply, _))) if reply.wants_movers => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err("no answer".into()),
            }
            env.sleep(LOOK_EVERY).await;
        }
    };
    let waited = waited.await;
    connection.close("the mover has asked");
    waited
}

/// Opens a session and moves files until there is no job any more.
async fn work(env: &Env, settings: &Settings) -> Result<(), String> {
    let connecting = Client::connect(env.clone(), settings.clone());
    let client = connecting.await.map_err(|error| error.to_string())?;
    let outcome = work_in(env, &client).await;
    if outcome.is_ok() {
        // Nothing is on its way: a goodbye ends everything.
        if let Err(errno) = client.close().await {
            tracing::debug!(%errno, "the mover's session ends by its term");
        }
    }
    // Otherwise its term ends it, and data servers refuse what may be late before anything is dropped.
    outcome
}

async fn work_in(env: &Env, client: &Client) -> Result<(), String> {
    let session = client.session();
    // At most PARALLEL senders, each of which sends once.
    let (tell, mut told) = mpsc::unbounded_channel::<(u64, Result<Moved, Errno>)>();
    let mut moving: BTreeMap<u64, MoveOrder> = BTreeMap::new();
    let mut reports: Vec<MoveReport> = Vec::new();
    let mut broken = None;
    loop {
        if client.session() != session {
            broken = Some("the session was lost".to_owned());
        }
        if broken.is_none() && moving.len() < PARALLEL {
            let free = (PARALLEL - moving.len()) as u32;
            let working = moving.keys().copied().collect();
            match client.move_work(reports.clone(), working, free).await {
                Ok(reply) => {
                    reports.clear();
                    if reply.idle && moving.is_empty() {
                        return Ok(());
                    }
                    for order in reply.orders {
                        begin(env, client, &order, &tell);
                        moving.insert(order.ino, order);
                    }
                }
                Err(errno) => broken = Some(format!("no work was given: errno {}", errno.0)),
            }
        }
        if let (true, Some(why)) = (moving.is_empty(), &broken) {
            return Err(why.clone());
        }
        let Ok(ended) = env.timeout(ASK_EVERY, told.recv()).await else {
            continue;
        };
        // All that have ended meanwhile are reported together.
        let mut next = ended;
        while let Some((ino, result)) = next {
            if let Some(order) = moving.remove(&ino) {
                if result == Err(Errno(libc::ETIMEDOUT)) {
                    broken = Some(format!("moving inode {ino} failed in doubt"));
                }
                reports.push(report(&order, &result));
            }
            next = told.try_recv().ok();
        }
    }
}

fn begin(
    env: &Env,
    client: &Client,
    order: &MoveOrder,
    tell: &mpsc::UnboundedSender<(u64, Result<Moved, Errno>)>,
) {
    let (client, order, tell) = (client.clone(), order.clone(), tell.clone());
    env.spawn("move", async move {
        let ino = order.ino;
        let moved = client.move_file(order).await;
        // If nobody listens any more, the session is over.
        let _: Result<(), _> = tell.send((ino, moved));
    });
}

fn report(order: &MoveOrder, result: &Result<Moved, Errno>) -> MoveReport {
    MoveReport {
        job: order.job,
        ino: order.ino,
        errno: result
            .as_ref()
            .err()
            .map_or(0, |errno| errno.0.unsigned_abs()),
        bytes: result.as_ref().map_or(0, |moved| moved.bytes),
    }
}
