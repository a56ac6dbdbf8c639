//! The side of a lane that answers: takes messages, and says when the last has come.

use super::order::{BadLane, DONE, GREETING_BYTES, LAST, Order, Reading, check_greeting, greeting};
use crate::bounds::{CHUNK_BYTES, ECHOES_MAX, GREETING_PATIENCE, LANE_IDLE};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream, Task};

/// After accepting has failed, most likely because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes lanes at this address; returns it with the real port, and the task that accepts.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn listen(env: &Env, address: &str) -> io::Result<(String, Task)> {
    let mut listener = env.listen(address).await?;
    let bound = listener.address();
    let inner = env.clone();
    let task = env.spawn("probe lanes", async move {
        let count = Rc::new(Cell::new(0));
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accepting a lane failed");
                    inner.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if count.get() >= ECHOES_MAX {
                tracing::warn!(peer = %stream.peer(), "a lane too many is closed");
                continue;
            }
            let counted = Counted::new(&count);
            let env = inner.clone();
            inner.spawn("probe echo", async move {
                let _counted = counted;
                let peer = stream.peer();
                if let Err(error) = echo(&env, stream).await {
                    tracing::info!(%peer, %error, "a lane ended");
                }
            });
        }
    });
    Ok((bound, task))
}

struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

fn bad(bad: BadLane) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad.to_string())
}

async fn within<T>(
    env: &Env,
    limit: Duration,
    io: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match env.timeout(limit, io).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Answers until the other side goes, is silent for too long, or sends what is no order.
async fn echo(env: &Env, mut stream: Stream) -> io::Result<()> {
    let mut theirs = [0; GREETING_BYTES];
    within(env, GREETING_PATIENCE, stream.read_exact(&mut theirs)).await?;
    // Also to one of another version, which is told so by it.
    within(env, GREETING_PATIENCE, stream.write_all(&greeting())).await?;
    check_greeting(theirs).map_err(bad)?;
    let mut reading = Reading::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let given = vec![LAST; CHUNK_BYTES];
    loop {
        let came = within(env, LANE_IDLE, stream.read(&mut buffer)).await?;
        if came == 0 {
            return Ok(());
        }
        let mut bytes = &buffer[..came];
        while let Some(order) = reading.next(&mut bytes).map_err(bad)? {
            match order {
                Order::Answer => within(env, LANE_IDLE, stream.write_all(&[DONE])).await?,
                Order::Give(message_bytes) => {
                    let mut left = message_bytes as usize;
                    while left > 0 {
                        let part = left.min(given.len());
                        within(env, LANE_IDLE, stream.write_all(&given[..part])).await?;
                        left -= part;
                    }
                }
            }
        }
    }
}
