//! The loop of a running `weft dev`: signals, ends of processes, orders.

use super::cluster::{Cluster, Name};
use super::configs::Chosen;
use super::control::{Answer, LINE_MAX, Order, with_socket_path};
use super::supervise::{Supervisor, report_end};
use crate::error::{Error, Result, Tried};
use crate::log::tell;
use crate::output::say;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, select_biased};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use weft_env::Env;

/// Data servers register within a beat or two, and metadata servers catch up; more than this and the user is told.
pub const START_PATIENCE: Duration = Duration::from_secs(15);
/// How often they are looked at while starting.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Signals within this of the first belong to it.
const SAME_PRESS: Duration = Duration::from_millis(500);
/// Orders that wait for the loop; each holds a connection.
const ORDERS_MAX: usize = 16;
/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Asked = (Order, oneshot::Sender<Answer>);

/// The signals that end a cluster.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> Result<Signals> {
        let listen = |kind| signal(kind).tried(|| "cannot listen to signals".into());
        Ok(Signals([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Forgets the signals that have come.
    fn discard(&mut self) {
        for signal in &mut self.0 {
            while signal.recv().now_or_never().flatten().is_some() {}
        }
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        select_biased! {
            _ = interrupt.recv().fuse() => {}
            _ = terminate.recv().fuse() => {}
            _ = hangup.recv().fuse() => {}
        }
    }
}

/// Brings the cluster up, keeps it up until a signal, ends it.
///
/// # Errors
/// If it does not come up; what had started is ended.
pub async fn serve(env: Env, directory: PathBuf, cluster: Cluster, chosen: Chosen) -> Result<()> {
    let mut signals = Signals::new()?;
    let (sender, mut orders) = mpsc::channel(ORDERS_MAX);
    let mount_point = chosen.mount_point.clone();
    let mut supervisor = Supervisor::new(env.clone(), directory.clone(), cluster.clone(), chosen);
    let started = match select(pin!(supervisor.start_all()), pin!(signals.next())).await {
        Either::Left((started, _)) => started,
        Either::Right(_) => Err(Error::Failed("ended while starting".into())),
    };
    if let Err(error) = started {
        end(&env, &mut supervisor, &mut signals).await;
        return Err(error);
    }
    listen(&env, &directory, sender)?;
    if !super::comes_up(&env, &cluster).await {
        tell!(
            "weft dev: not all pairs serve, or not all metadata servers count, yet; see `weft status --dir {}`",
            directory.display()
        );
    }
    // A cluster goes on though nothing can be said of it.
    let _: Result<()> = say!(
        "{}",
        super::ready_message(&directory, &cluster, mount_point.as_deref())
    );
    watch(&mut supervisor, &directory, &mut signals, &mut orders).await;
    let _: Result<()> = say!("ending: unmounting, then the servers");
    end(&env, &mut supervisor, &mut signals).await;
    // The next start makes a new one; a socket nobody listens on says the same as none.
    let _: std::io::Result<()> = std::fs::remove_file(directory.join("control.sock"));
    Ok(())
}

/// Ends all processes, in order; at the next signal at once.
async fn end(env: &Env, supervisor: &mut Supervisor, signals: &mut Signals) {
    let second = async {
        // One press may arrive twice: from the terminal and from whoever started us.
        env.sleep(SAME_PRESS).await;
        signals.discard();
        signals.next().await;
    };
    let patient = match select(pin!(supervisor.stop_all()), pin!(second)).await {
        Either::Left(_) => true,
        Either::Right(_) => false,
    };
    if !patient {
        supervisor.kill_all().await;
    }
}

async fn watch(
    supervisor: &mut Supervisor,
    directory: &Path,
    signals: &mut Signals,
    orders: &mut mpsc::Receiver<Asked>,
) {
    enum Event {
        Signal,
        End(Name, String),
        Order(Asked),
    }
    loop {
        let event = select_biased! {
            _ = signals.next().fuse() => Event::Signal,
            (name, how) = supervisor.next_unexpected_end().fuse() => Event::End(name, how),
            asked = orders.recv().fuse() => match asked {
                Some(asked) => Event::Order(asked),
                None => Event::Signal,
            },
        };
        match event {
            Event::Signal => return,
            Event::End(name, how) => report_end(directory, name, &how),
            Event::Order((order, reply)) => {
                let answer = supervisor.on_order(order).await;
                // Whoever asked may be gone; what was asked is done all the same.
                let _: std::result::Result<(), Answer> = reply.send(answer);
            }
        }
    }
}

fn listen(env: &Env, directory: &Path, orders: mpsc::Sender<Asked>) -> Result<()> {
    let path = directory.join("control.sock");
    if std::fs::symlink_metadata(&path).is_ok() {
        // Left by a `weft dev` that was killed: we hold the directory's lock.
        std::fs::remove_file(&path).tried_on("cannot remove", &path)?;
    }
    let listener = with_socket_path(directory, |path| {
        let listener = UnixListener::bind(path)?;
        // Who can write to it can kill the servers. The directory lets nobody else in meanwhile.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    })
    .tried_on("cannot listen on", &path)?;
    let inner = env.clone();
    env.spawn("control", async move {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many open files, most likely: wait for some to close.
                    tell!("weft dev: an order could not be taken: {error}");
                    inner.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let orders = orders.clone();
            inner.spawn("order", async move {
                // A tool that goes away needs no answer.
                let _: std::io::Result<()> = converse(stream, &orders).await;
            });
        }
    });
    Ok(())
}

async fn converse(stream: UnixStream, orders: &mpsc::Sender<Asked>) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader.take(LINE_MAX)).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str::<Order>(&line) {
            Ok(order) => {
                let (reply, answer) = oneshot::channel();
                if orders.send((order, reply)).await.is_err() {
                    return Ok(());
                }
                answer.await.unwrap_or(Answer::Refused {
                    why: "the cluster is ending".into(),
                })
            }
            Err(error) => Answer::Refused {
                why: format!("no order: {error}"),
            },
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
    }
    Ok(())
}
