//! Byte streams between nodes.

use futures_util::future::LocalBoxFuture;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connected, ordered, reliable byte stream. Half-closing is not used.
pub trait StreamDriver: AsyncRead + AsyncWrite + Unpin {
    /// Address of the other side, for logs.
    fn peer(&self) -> String;
}

/// A connected stream; read and written by tokio's traits.
pub type Stream = Box<dyn StreamDriver>;

/// Accepts connections.
pub trait ListenerDriver {
    /// The next connection.
    fn accept(&mut self) -> LocalBoxFuture<'_, io::Result<Stream>>;
    /// The address that is listened on, with the real port.
    fn address(&self) -> String;
}

/// Accepts connections.
pub type Listener = Box<dyn ListenerDriver>;
