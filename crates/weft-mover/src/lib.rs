//! Moves files for the jobs of the metadata service (`docs/protocols/relayout.md`).
//!
//! While there is work it is a client session like any other; while there is none, only a question
//! every now and then. It keeps nothing: what it was moving when it died is found again by the service,
//! and the objects of its copies go with its session. Every `weft data` runs one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_client::{Client, Errno, Moved, Settings};
use weft_env::Env;
use weft_rpc::{Attempts, CallError, Connection, Handler, Local, Payload, Search, Terms};
use weft_wire::Failed;
use weft_wire::proto::identity::Role;
use weft_wire::proto::{Identity, JobsRequest, MoveOrder, MoveReport};

/// Files that are moved at a time: enough that the waits of small ones overlap.
const PARALLEL: usize = 4;
/// How often an idle mover asks whether there is work.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Without orders, but with a job, it asks again after this.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// Files are moved again after this when servers failed.
const RETRY: Duration = Duration::from_secs(1);
/// One attempt to connect and shake hands takes at most this long, an answer about jobs, too: it comes
/// from memory.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Nobody waits for a mover that does not know of work: metadata servers that stay away are asked every
/// now and then.
const TERMS: Terms = Terms {
    pause_max: Duration::from_secs(1),
    answer: [Duration::from_millis(500), ANSWER_PATIENCE],
};
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
        only_moves: true,
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
    if meta.is_empty() {
        tracing::error!("a mover without metadata servers has nothing to do");
        return;
    }
    let search = RefCell::new(Search::new(meta, TERMS));
    loop {
        wait_for_work(&env, &search, &cluster_id).await;
        let meta = search.borrow().addresses();
        let settings = settings(meta, cluster_id.clone(), name.clone());
        if let Err(why) = work(&env, &search, &settings).await {
            tracing::info!(why, "moving files is interrupted");
            env.sleep(RETRY).await;
        }
    }
}

/// Returns when files wait to be moved.
async fn wait_for_work(env: &Env, search: &RefCell<Search>, cluster_id: &str) {
    let local = Local::new(
        cluster_id.to_owned(),
        Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
            group: 0,
        },
    );
    let refuse: Handler = Rc::new(|_: &Connection, request: weft_rpc::Request| {
        let refused = Failed::Refused("a mover answers nothing".into());
        request.replier.fail(refused);
    });
    let mut attempts = Attempts::new(env, ANSWER_PATIENCE);
    loop {
        let Some((address, connected)) = attempts.step(search, &local, &refuse).await else {
            continue;
        };
        let asked = match connected {
            Ok(connection) => {
                let asking = ask_for_work(env, search, &connection);
                let asked = weft_rpc::while_active(env, &connection, search, &local, asking).await;
                let asked = asked.and_then(|asked| asked);
                connection.close("the mover has asked");
                asked
            }
            Err(error) => Err(CallError::Lost(error.to_string())),
        };
        match asked {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(address, %why, "cannot ask for jobs");
                search.borrow_mut().not_served(&address, &why, env.now());
            }
        }
    }
}

/// Returns when the other side wants movers, or does not answer what it should.
async fn ask_for_work(
    env: &Env,
    search: &RefCell<Search>,
    connection: &Connection,
) -> Result<(), CallError> {
    let mut patience = search.borrow().answer_patience();
    let mut serves = false;
    loop {
        let call = connection.call(&JobsRequest {}, Payload::none());
        let (reply, _) = env
            .timeout(patience, call)
            .await
            .unwrap_or_else(|_| Err(CallError::Lost("no answer".into())))?;
        if !serves {
            serves = true;
            patience = ANSWER_PATIENCE;
            let now = env.now();
            search
                .borrow_mut()
                .connected(connection.peer(), Vec::new(), now);
        }
        if reply.wants_movers {
            return Ok(());
        }
        env.sleep(LOOK_EVERY).await;
    }
}

/// Opens a session and moves files until there is no job any more.
async fn work(env: &Env, search: &RefCell<Search>, settings: &Settings) -> Result<(), String> {
    let connecting = Client::connect(env.clone(), settings.clone());
    let client = connecting.await.map_err(|error| error.to_string())?;
    // A session is told the members.
    search.borrow_mut().learn(client.meta_learned());
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
                        // The service has begun anew, and another job has it, too: it is free again for that one
                        // when this one ends.
                        if let Entry::Vacant(free) = moving.entry(order.ino) {
                            begin(env, client, &order, &tell);
                            free.insert(order);
                        }
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
