//! Making connections: the handshake from both sides.

use crate::connection::{Connection, FrameReader, Handler, Progress, Received};
use bytes::Bytes;
use prost::Message;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use weft_env::{Env, Stream, Task};
use weft_types::NameSpaceId;
use weft_wire::proto::{Failure, Hello, Identity, Welcome};
use weft_wire::{Failed, Header, Kind, PROTOCOL_VERSION};

/// A handshake takes one round trip; a peer that needs longer than this is not there.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// Who this side is.
#[derive(Clone, Debug)]
pub struct Local {
    /// The cluster this side belongs to; empty for a tool that asks which one it is.
    cluster_id: String,
    /// Its role and id.
    pub identity: Identity,
    /// Two name spaces may have one `cluster_id`. All that were made of one know it as soon as one of them does.
    name_space: Rc<Cell<Option<NameSpaceId>>>,
}

impl Local {
    /// One that does not know the id of its name space yet.
    pub fn new(cluster_id: String, identity: Identity) -> Local {
        Local {
            cluster_id,
            identity,
            name_space: Rc::default(),
        }
    }

    /// The same side as somebody else.
    #[must_use]
    pub fn with_identity(&self, identity: Identity) -> Local {
        Local {
            identity,
            ..self.clone()
        }
    }

    /// From now on whoever knows its name space has to be of this one, on connections that are made then.
    pub fn is_of(&self, name_space: NameSpaceId) {
        self.name_space.set(Some(name_space));
    }

    fn name_space(&self) -> Bytes {
        let known = self.name_space.get();
        known.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(&id.to_bytes()))
    }

    /// Says so if the other side, which reads this, is of another name space.
    fn differs(&self, theirs: &[u8]) -> Option<String> {
        let (ours, theirs) = (self.name_space.get()?, NameSpaceId::from_bytes(theirs)?);
        (ours != theirs).then(|| {
            format!(
                "the directory, or what was connected to before, is of name space {theirs}, and the server at this address is \
                 of name space {ours}, both of a cluster {:?}: set the addresses to servers of the one that is meant, or the \
                 directory",
                self.cluster_id
            )
        })
    }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

/// Whoever is there is of another cluster.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misplaced(String);

fn misplaced(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, Misplaced(why))
}

/// The connection was not made because the two sides are of different clusters: an operator has to say who is right.
pub fn is_misplaced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Misplaced>())
}

/// Addresses at which servers of other clusters or name spaces were found. One of several may be out of date; all of them
/// are not.
#[derive(Debug, Default)]
pub struct Strangers(BTreeSet<String>);

impl Strangers {
    /// Nobody could be connected to at `address`. True: at each of `addresses` was a stranger last.
    pub fn met(&mut self, address: &str, why: &io::Error, addresses: &[String]) -> bool {
        match is_misplaced(why) {
            true => self.0.insert(address.to_owned()),
            false => self.0.remove(address),
        };
        !addresses.is_empty() && addresses.iter().all(|at| self.0.contains(at))
    }
}

async fn send(
    writer: &mut WriteHalf<Stream>,
    kind: Kind,
    message: &impl Message,
) -> io::Result<()> {
    let message = message.encode_to_vec();
    let mut bytes = Header::encode(kind, 0, 0, &message, 0, 0).to_vec();
    bytes.extend_from_slice(&message);
    writer.write_all(&bytes).await
}

async fn receive(reader: &mut FrameReader) -> io::Result<Received> {
    match reader.next().await {
        Ok(Some(received)) => Ok(received),
        Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            error.to_string(),
        )),
    }
}

/// Connects and shakes hands.
///
/// # Errors
/// If nobody listens there, the other side is no Weft server of this cluster and protocol version
/// (the error says which), or the handshake takes longer than 5 s.
pub async fn connect(
    env: &Env,
    address: &str,
    local: &Local,
    handler: Handler,
) -> io::Result<Connection> {
    let shake = async {
        let stream = env.connect(address).await?;
        let (reader, mut writer) = tokio::io::split(stream);
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            cluster_id: local.cluster_id.clone(),
            identity: Some(local.identity),
            name_space: local.name_space(),
        };
        send(&mut writer, Kind::Handshake, &hello).await?;
        let mut reader = FrameReader::new(reader, Progress::new(env));
        let received = receive(&mut reader).await?;
        let bad = |what| refused(format!("{address} answered the handshake with {what}"));
        match received.header.kind {
            Kind::Handshake => {}
            Kind::Failure => {
                let failure = Failure::decode(received.message).map_err(|_| bad("nonsense"))?;
                let failed = Failed::from(failure);
                let why = format!("{address}: {failed}");
                return Err(match failed {
                    Failed::Refused(_) => refused(why),
                    Failed::Misplaced(_) => misplaced(why),
                    // It may be otherwise the next time.
                    _ => io::Error::other(why),
                });
            }
            _ => return Err(bad("another frame")),
        }
        let welcome = Welcome::decode(received.message).map_err(|_| bad("nonsense"))?;
        if welcome.protocol_version != PROTOCOL_VERSION {
            return Err(bad("another protocol version"));
        }
        if !local.cluster_id.is_empty() && welcome.cluster_id != local.cluster_id {
            return Err(misplaced(format!(
                "{address} belongs to cluster {:?}, not to {:?}",
                welcome.cluster_id, local.cluster_id
            )));
        }
        if let Some(why) = local.differs(&welcome.name_space) {
            return Err(misplaced(format!("{address}: {why}")));
        }
        Ok((reader, writer, welcome.identity.unwrap_or_default()))
    };
    let (reader, writer, identity) = match env.timeout(HANDSHAKE_PATIENCE, shake).await {
        Ok(shaken) => shaken?,
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
    };
    Ok(Connection::start(
        env,
        address.to_owned(),
        identity,
        reader,
        writer,
        handler,
    ))
}

async fn accept_one(
    env: &Env,
    stream: Stream,
    local: &Local,
) -> io::Result<(FrameReader, WriteHalf<Stream>, Identity)> {
    let (reader, mut writer): (ReadHalf<Stream>, WriteHalf<Stream>) = tokio::io::split(stream);
    let mut reader = FrameReader::new(reader, Progress::new(env));
    let shake = async {
        let received = receive(&mut reader).await?;
        if received.header.kind != Kind::Handshake {
            return Err(refused("the first frame is no handshake".into()));
        }
        let hello = Hello::decode(received.message)
            .map_err(|_| refused("the handshake does not decode".into()))?;
        let failed = if hello.protocol_version != PROTOCOL_VERSION {
            Some(Failed::Refused(format!(
                "protocol version {} is not spoken here, only {PROTOCOL_VERSION}",
                hello.protocol_version
            )))
        } else if !hello.cluster_id.is_empty() && hello.cluster_id != local.cluster_id {
            Some(Failed::Misplaced(format!(
                "this is cluster {:?}, not {:?}: set `cluster_id`, or the address, to the one that is meant",
                local.cluster_id, hello.cluster_id
            )))
        } else {
            local.differs(&hello.name_space).map(Failed::Misplaced)
        };
        if let Some(failed) = failed {
            let failure = Failure::from(failed.clone());
            send(&mut writer, Kind::Failure, &failure).await?;
            writer.shutdown().await?;
            return Err(refused(failed.to_string()));
        }
        let welcome = Welcome {
            protocol_version: PROTOCOL_VERSION,
            cluster_id: local.cluster_id.clone(),
            identity: Some(local.identity),
            name_space: local.name_space(),
        };
        send(&mut writer, Kind::Handshake, &welcome).await?;
        Ok(hello.identity.unwrap_or_default())
    };
    match env.timeout(HANDSHAKE_PATIENCE, shake).await {
        Ok(identity) => Ok((reader, writer, identity?)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The other side ended the connection, and had said nothing wrong by then.
fn is_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ends = [
        UnexpectedEof,
        ConnectionReset,
        ConnectionAborted,
        BrokenPipe,
    ];
    ends.contains(&error.kind())
}

/// Listens on `address` and gives every connection that shakes hands to `on_connection`, its
/// requests to `handler`. Returns the address that is listened on; accepting goes on in a task.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve(
    env: &Env,
    address: &str,
    local: Local,
    on_connection: impl Fn(Connection) + 'static,
    handler: Handler,
) -> io::Result<String> {
    let (bound, _listening) = serve_task(env, address, local, on_connection, handler).await?;
    Ok(bound)
}

/// As [`serve`], with the task that accepts: aborting it closes the listening socket. Connections
/// stay.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve_task(
    env: &Env,
    address: &str,
    local: Local,
    on_connection: impl Fn(Connection) + 'static,
    handler: Handler,
) -> io::Result<(String, Task)> {
    let mut listener = env.listen(address).await?;
    let bound = listener.address();
    let on_connection = Rc::new(on_connection);
    let inner = env.clone();
    let task = env.spawn("listener", async move {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    // Too many open files, most likely: wait for some to close.
                    tracing::warn!(%error, "accepting a connection failed");
                    inner.sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (env, local, handler) = (inner.clone(), local.clone(), handler.clone());
            let on_connection = on_connection.clone();
            inner.spawn("handshake", async move {
                let peer = stream.peer();
                match accept_one(&env, stream, &local).await {
                    Ok((reader, writer, identity)) => on_connection(Connection::start(
                        &env, peer, identity, reader, writer, handler,
                    )),
                    // Who asks several servers at once lets the others go when one has answered.
                    Err(error) if is_hung_up(&error) => {
                        tracing::info!(%peer, %error, "hung up in the handshake");
                    }
                    Err(error) => tracing::warn!(%peer, %error, "handshake refused"),
                }
            });
        }
    });
    Ok((bound, task))
}
