//! Accepting connections, and closing those that nothing comes of.

use crate::connection::{Connection, Inner, Programs, Running};
use crate::limits::Limits;
use crate::pool::Pool;
use crate::program::Program;
use crate::record::READ_BYTES;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_env::{Env, Listener, Mono, Stream, Task};

/// Connections are looked through so many times within the shorter of their two patiences.
const LOOKS: u32 = 4;
/// But not more often than this.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Pause after an accept that failed: too many open files, most likely, and some must be closed first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Refused connections are reported this often at most: who opens many must not fill the log.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

struct Shared {
    env: Env,
    limits: Limits,
    programs: Programs,
    pool: Pool,
    scratch: Rc<RefCell<Vec<u8>>>,
    connections: RefCell<BTreeMap<u64, Weak<Inner>>>,
    next_number: Cell<u64>,
    refused: Cell<u64>,
    reported_at: Cell<Option<Mono>>,
}

/// A listening server. Dropping it changes nothing; [`Server::stop`] ends it.
pub struct Server {
    address: String,
    shared: Rc<Shared>,
    tasks: Vec<Task>,
}

/// Listens on `address` and serves these programs to everybody who connects.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve(
    env: &Env,
    address: &str,
    limits: Limits,
    programs: Vec<Rc<dyn Program>>,
) -> io::Result<Server> {
    let listener = env.listen(address).await?;
    let address = listener.address();
    let shared = Rc::new(Shared {
        env: env.clone(),
        limits,
        programs: programs.into(),
        pool: Pool::new(limits.payload_bytes),
        scratch: Rc::new(RefCell::new(vec![0; READ_BYTES])),
        connections: RefCell::default(),
        next_number: Cell::new(0),
        refused: Cell::new(0),
        reported_at: Cell::new(None),
    });
    let tasks = vec![
        env.spawn("rpc listener", accept(shared.clone(), listener)),
        env.spawn("rpc connections' patience", look_through(shared.clone())),
    ];
    Ok(Server {
        address,
        shared,
        tasks,
    })
}

impl Server {
    /// The address that is listened on, with the real port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.connections.borrow().len()
    }

    /// The buffers of its connections.
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// Stops listening and closes all connections.
    pub fn stop(&self) {
        for task in &self.tasks {
            task.abort();
        }
        for connection in self.shared.open() {
            connection.close("the server stops");
        }
    }
}

impl Shared {
    /// Handles on all connections, so that closing one may change the table.
    fn open(&self) -> Vec<Connection> {
        let connections = self.connections.borrow();
        connections
            .values()
            .filter_map(Weak::upgrade)
            .map(Connection)
            .collect()
    }

    fn take_in(self: &Rc<Shared>, stream: Stream) {
        if self.connections.borrow().len() >= self.limits.connections {
            self.refused.set(self.refused.get() + 1);
            self.report();
            return;
        }
        let (connection, running) = Running::new(
            &self.env,
            stream,
            self.limits,
            self.programs.clone(),
            self.pool.clone(),
            self.scratch.clone(),
        );
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let inner = Rc::downgrade(&connection.0);
        self.connections.borrow_mut().insert(number, inner);
        let shared = self.clone();
        self.env.spawn("rpc connection", async move {
            running.run().await;
            shared.connections.borrow_mut().remove(&number);
        });
    }

    /// Says how many were refused, now and then.
    fn report(&self) {
        let now = self.env.now();
        let is_early = |at: Mono| now.since(at) < REPORT_PAUSE;
        if self.refused.get() == 0 || self.reported_at.get().is_some_and(is_early) {
            return;
        }
        let (refused, bound) = (self.refused.replace(0), self.limits.connections);
        tracing::warn!(
            refused,
            bound,
            "connections refused: as many as are allowed are open"
        );
        self.reported_at.set(Some(now));
    }
}

async fn accept(shared: Rc<Shared>, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => shared.take_in(stream),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                shared.env.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn look_through(shared: Rc<Shared>) {
    let patience = shared.limits.stall.min(shared.limits.idle);
    let pause = (patience / LOOKS).max(LOOK_PAUSE_MIN);
    loop {
        shared.env.sleep(pause).await;
        for connection in shared.open() {
            if let Some(why) = connection.overdue() {
                connection.close(why);
            }
        }
        shared.report();
    }
}
