//! The servers of an etcd cluster, asked one after the other until one answers.

use crate::etcd::rpc::{WATCH, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::{CoordinatorError, Unanswered};
use futures_util::stream::{self, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use std::cell::Cell;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use weft_env::{Elapsed, Env};

/// How often a connection with something under way is tried, and for how long, before it is given up and
/// made anew. etcd takes who asks more often than every 5 s for an attacker.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_PATIENCE: Duration = Duration::from_secs(5);

struct Server {
    address: String,
    channel: Channel,
}

pub struct Servers {
    env: Env,
    all: Vec<Server>,
    /// The one that answered last.
    current: Cell<usize>,
    /// How long one server may take to answer before the next is asked.
    attempt: Duration,
}

impl Servers {
    /// Connects to nothing yet.
    pub fn new(
        env: &Env,
        addresses: &[String],
        attempt: Duration,
    ) -> Result<Servers, CoordinatorError> {
        let mut all = Vec::new();
        for address in addresses {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
                CoordinatorError::Settings(format!(
                    "{address:?} is no address of an etcd server ({error}): write host:port"
                ))
            })?;
            all.push(Server {
                address: address.clone(),
                channel: endpoint
                    .connect_timeout(attempt)
                    .http2_keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(PING_PATIENCE)
                    .connect_lazy(),
            });
        }
        Ok(Servers {
            env: env.clone(),
            all,
            current: Cell::new(0),
            attempt,
        })
    }

    /// All addresses, for messages.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = self.all.iter().map(|server| &*server.address).collect();
        addresses.join(",")
    }

    /// Asks the server that answered last, then the others, each for as long as one may take, or for
    /// `limit` if that is shorter. For what may be done twice.
    pub async fn ask<Q, A>(
        &self,
        method: &'static str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, Unanswered>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Send + 'static,
    {
        for _ in 1..self.all.len() {
            if let Ok(answer) = self.ask_once(method, request, limit).await {
                return Ok(answer);
            }
        }
        self.ask_once(method, request, limit).await
    }

    /// Asks the server that answered last, and the next one the next time if it does not.
    pub async fn ask_once<Q, A>(
        &self,
        method: &'static str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, Unanswered>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Send + 'static,
    {
        let limit = limit.min(self.attempt);
        let at = self.current.get();
        let server = &self.all[at];
        let asked = ask_one(server.channel.clone(), method, request.clone());
        let why = match self.env.timeout(limit, asked).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(status)) => in_words(&status),
            Err(Elapsed) => format!("no answer within {} ms", limit.as_millis()),
        };
        self.leave(at);
        Err(Unanswered(format!("etcd at {}: {why}", server.address)))
    }

    /// Goes on to the next server, unless somebody else has done so.
    fn leave(&self, at: usize) {
        if self.current.get() == at {
            self.current.set((at + 1) % self.all.len());
        }
    }

    /// Returns when one of these keys has changed at or after the revision; until then the stream is
    /// open. The caller limits the time.
    pub async fn changed(&self, create: WatchCreateRequest) -> Result<(), Unanswered> {
        let at = self.current.get();
        let watched = watch_one(self.all[at].channel.clone(), create).await;
        watched.map_err(|status| {
            self.leave(at);
            let address = &self.all[at].address;
            Unanswered(format!("etcd at {address}: {}", in_words(&status)))
        })
    }
}

async fn ask_one<Q, A>(channel: Channel, method: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + Send + 'static,
{
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(not_ready)?;
    // Renewals go over a stream, one at a time: a request that is a stream of one is the same.
    let codec = ProstCodec::<Q, A>::default();
    let path = PathAndQuery::from_static(method);
    let answer = grpc
        .client_streaming(Request::new(stream::iter([request])), path, codec)
        .await?;
    Ok(answer.into_inner())
}

async fn watch_one(channel: Channel, create: WatchCreateRequest) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(not_ready)?;
    let request = WatchRequest {
        create: Some(create),
    };
    // etcd ends a watch whose requests have ended.
    let requests = stream::iter([request]).chain(stream::pending());
    let mut request = Request::new(requests);
    // A server that has lost its cluster ends the watch instead of being silent.
    request
        .metadata_mut()
        .insert("hasleader", MetadataValue::from_static("true"));
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let path = PathAndQuery::from_static(WATCH);
    let mut responses = grpc.streaming(request, path, codec).await?.into_inner();
    while let Some(response) = responses.message().await? {
        if response.canceled {
            return Err(Status::cancelled(response.cancel_reason));
        }
        if !response.events.is_empty() {
            return Ok(());
        }
    }
    Err(Status::cancelled("the server ended the watch"))
}

fn not_ready(error: tonic::transport::Error) -> Status {
    Status::unavailable(error.to_string())
}

fn in_words(status: &Status) -> String {
    let mut words = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        words.push_str(&format!(": {error}"));
        source = error.source();
    }
    words
}
