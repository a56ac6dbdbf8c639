//! A lane: a stream from one peer to another that carries measured bytes and nothing else.
//!
//! One side ([`Lane`]) sends and has the clock; the other ([`echo`]) answers. Both are what every connection of Weft's is
//! underneath: a stream of weft-env's, written in pieces of a stripe unit's size.

pub mod echo;
mod order;

use crate::bounds::{
    CHUNK_BYTES, FLOOD_MESSAGES_MAX, FLOOD_MESSAGES_MIN, GREETING_PATIENCE, ROUNDS_MIN,
    RUN_PATIENCE, round_patience,
};
use crate::error::{Error, Result};
use order::{DONE, GIVE, GREETING_BYTES, LAST, MORE, check_greeting, greeting, size};
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};

/// What one round took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Until the answer, or until the message was taken.
    pub whole: Duration,
    /// Until the last byte was handed to the system.
    pub send: Duration,
    /// How many messages.
    pub messages: u64,
}

/// What a round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One message, and the answer.
    RoundTrip,
    /// Messages for so long, and the answer.
    Flood(Duration),
    /// A message that was asked for so long ago.
    Receipt(Duration),
}

impl Kind {
    fn length(self) -> Duration {
        match self {
            Kind::RoundTrip => Duration::ZERO,
            Kind::Flood(length) | Kind::Receipt(length) => length,
        }
    }
}

/// The side that measures.
pub struct Lane {
    env: Env,
    stream: Stream,
    target: String,
    message_bytes: u32,
    /// The front of each message; what else a message has does not matter.
    buffer: Vec<u8>,
}

impl Lane {
    /// Opens one to where another peer takes lanes.
    ///
    /// # Errors
    /// If nobody is there, or no peer of this version.
    pub async fn open(env: &Env, target: &str) -> Result<Lane> {
        let failed = |why: String| Error::Lane {
            peer: target.to_owned(),
            why,
        };
        let opening = async {
            let connected = env.connect(target).await;
            let mut stream = connected.map_err(|error| {
                failed(format!(
                    "cannot be reached ({error}): is a firewall between? Peers take lanes on a port of their own, \
                     which `weft bench net serve --lane-port` sets"
                ))
            })?;
            let mut theirs = [0; GREETING_BYTES];
            let greeted: io::Result<()> = async {
                stream.write_all(&greeting()).await?;
                stream.read_exact(&mut theirs).await.map(drop)
            }
            .await;
            greeted.map_err(|error| failed(error.to_string()))?;
            check_greeting(theirs).map_err(|bad| failed(bad.to_string()))?;
            Ok(stream)
        };
        let opened = env.timeout(GREETING_PATIENCE, opening).await;
        let late = |_| failed("does not answer".into());
        Ok(Lane {
            env: env.clone(),
            stream: opened.map_err(late)??,
            target: target.to_owned(),
            message_bytes: 1,
            buffer: vec![LAST],
        })
    }

    /// So many rounds with messages of so many bytes; fewer, but no less than [`ROUNDS_MIN`], if they take too long.
    ///
    /// # Errors
    /// If the other side is gone, too late, or no peer: the lane is of no use any more.
    pub async fn run(&mut self, kind: Kind, message_bytes: u32, rounds: u32) -> Result<Vec<Round>> {
        let nanos = u64::try_from(kind.length().as_nanos()).unwrap_or(u64::MAX);
        let patience = round_patience(message_bytes, nanos);
        if message_bytes != self.message_bytes {
            self.within(patience, async |lane| lane.set_size(message_bytes).await)
                .await?;
        }
        let begun = self.env.now();
        let mut all = Vec::new();
        for round in 0..rounds {
            if round >= ROUNDS_MIN && self.env.now().since(begun) > RUN_PATIENCE {
                break;
            }
            let done = self.within(patience, async |lane| lane.round(kind).await);
            all.push(done.await?);
        }
        Ok(all)
    }

    async fn within<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&mut Lane) -> io::Result<T>,
    ) -> Result<T> {
        let (env, target) = (self.env.clone(), self.target.clone());
        let why = match timed(&env, patience, work(self)).await {
            Ok(done) => return Ok(done),
            Err(error) => error.to_string(),
        };
        Err(Error::Lane { peer: target, why })
    }

    async fn round(&mut self, kind: Kind) -> io::Result<Round> {
        match kind {
            Kind::RoundTrip => self.round_trip().await,
            Kind::Flood(length) => self.flood(length).await,
            Kind::Receipt(pause) => self.receipt(pause).await,
        }
    }

    async fn set_size(&mut self, message_bytes: u32) -> io::Result<()> {
        self.stream.write_all(&size(message_bytes)).await?;
        self.answer().await?;
        self.message_bytes = message_bytes;
        let front = CHUNK_BYTES.min(message_bytes as usize);
        self.buffer.resize(front, LAST);
        Ok(())
    }

    /// Sends one message.
    async fn send(&mut self, flag: u8) -> io::Result<()> {
        self.buffer[0] = flag;
        let mut left = self.message_bytes as usize;
        while left > 0 {
            let part = left.min(self.buffer.len());
            self.stream.write_all(&self.buffer[..part]).await?;
            left -= part;
        }
        Ok(())
    }

    async fn answer(&mut self) -> io::Result<()> {
        match self.stream.read_u8().await? {
            DONE => Ok(()),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("answered with the byte {other:#04x}"),
            )),
        }
    }

    /// RTT(m), and os(m) as the time of the call that sends.
    async fn round_trip(&mut self) -> io::Result<Round> {
        let begun = self.env.now();
        self.send(LAST).await?;
        let sent = self.env.now();
        self.answer().await?;
        Ok(Round {
            whole: self.env.now().since(begun),
            send: sent.since(begun),
            messages: 1,
        })
    }

    /// Saturates the lane for so long.
    async fn flood(&mut self, length: Duration) -> io::Result<Round> {
        let begun = self.env.now();
        let mut messages = 0;
        loop {
            messages += 1;
            let is_over = messages >= FLOOD_MESSAGES_MAX || self.env.now().since(begun) >= length;
            if is_over && messages >= FLOOD_MESSAGES_MIN {
                break;
            }
            self.send(MORE).await?;
        }
        self.send(LAST).await?;
        let sent = self.env.now();
        self.answer().await?;
        Ok(Round {
            whole: self.env.now().since(begun),
            send: sent.since(begun),
            messages,
        })
    }

    /// or(m): takes a message that has had so long to come.
    async fn receipt(&mut self, pause: Duration) -> io::Result<Round> {
        self.stream.write_all(&[GIVE]).await?;
        self.env.sleep(pause).await;
        let begun = self.env.now();
        let mut left = self.message_bytes as usize;
        while left > 0 {
            let part = left.min(self.buffer.len());
            let came = self.stream.read(&mut self.buffer[..part]).await?;
            if came == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= came;
        }
        Ok(Round {
            whole: self.env.now().since(begun),
            send: Duration::ZERO,
            messages: 1,
        })
    }
}

async fn timed<T>(
    env: &Env,
    patience: Duration,
    io: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match env.timeout(patience, io).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", patience.as_secs()),
        )),
    }
}
