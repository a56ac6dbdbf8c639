//! The ends that processes hold: listeners and streams.

use super::state::Packet;
use super::world;
use crate::driver::dead;
use crate::world::Inner;
use bytes::Buf;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_env::{ListenerDriver, Stream, StreamDriver};

pub(super) struct SimListener {
    pub(super) inner: Weak<Inner>,
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) port: u32,
    pub(super) address: String,
}

impl ListenerDriver for SimListener {
    fn accept(&mut self) -> LocalBoxFuture<'_, io::Result<Stream>> {
        std::future::poll_fn(|cx| {
            let inner = world(&self.inner)?;
            let mut state = inner.net.0.borrow_mut();
            let state = &mut *state;
            let key = (self.node, self.port);
            let Some(listener) = state.listeners.get_mut(&key) else {
                return Poll::Ready(Err(dead()));
            };
            if listener.life != self.life {
                return Poll::Ready(Err(dead()));
            }
            match listener.backlog.pop_front() {
                Some(id) => Poll::Ready(Ok(Box::new(SimStream {
                    inner: self.inner.clone(),
                    id,
                    side: 1,
                    node: self.node,
                    life: self.life,
                }) as Stream)),
                None => {
                    listener.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .boxed_local()
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        let mut state = inner.net.0.borrow_mut();
        let key = (self.node, self.port);
        if state
            .listeners
            .get(&key)
            .is_some_and(|listener| listener.life == self.life)
            && let Some(listener) = state.listeners.remove(&key)
        {
            for id in listener.backlog {
                state.close(&inner, id, 1);
            }
        }
    }
}

pub(super) struct SimStream {
    pub(super) inner: Weak<Inner>,
    pub(super) id: u64,
    pub(super) side: usize,
    pub(super) node: usize,
    pub(super) life: u64,
}

impl SimStream {
    fn living(&self) -> io::Result<Rc<Inner>> {
        match self.inner.upgrade() {
            Some(inner) if inner.is_alive(self.node, self.life) => Ok(inner),
            _ => Err(dead()),
        }
    }
}

impl StreamDriver for SimStream {
    fn peer(&self) -> String {
        let Some(inner) = self.inner.upgrade() else {
            return String::new();
        };
        let state = inner.net.0.borrow();
        state
            .connections
            .get(&self.id)
            .map_or_else(String::new, |connection| {
                connection.ends[1 - self.side].address.clone()
            })
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let incoming = 1 - self.side;
        let reader = connection.ends[self.side].node;
        let writer = connection.ends[incoming].node;
        let pipe = &mut connection.pipes[incoming];
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if pipe.received_bytes == 0 {
            if pipe.reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if pipe.fin {
                return Poll::Ready(Ok(()));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let most = buffer.remaining().min(pipe.received_bytes);
        // Mostly all that there is; sometimes less, cut anywhere.
        let mut take = if state.chunks.once_in(4) {
            1 + state.chunks.below(most as u64) as usize
        } else {
            most
        };
        pipe.received_bytes -= take;
        if state.cuts.contains(&(reader, writer)) {
            pipe.credit += take;
        } else {
            // A waiting writer is told at once: the acknowledgement's way back is part of the
            // latency that its next packet gets.
            if pipe.has_room_for(usize::MAX)
                && let Some(waker) = pipe.writer.take()
            {
                waker.wake();
            }
        }
        while take > 0 {
            let Some(first) = pipe.received.front_mut() else {
                break;
            };
            let part = take.min(first.len());
            buffer.put_slice(&first[..part]);
            first.advance(part);
            take -= part;
            if first.is_empty() {
                pipe.received.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let pipe = &mut connection.pipes[self.side];
        if pipe.reset || pipe.fin_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        let room = pipe.room();
        if !pipe.has_room_for(total) {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let most = total.min(room);
        let take = if state.chunks.once_in(8) {
            1 + state.chunks.below(most as u64) as usize
        } else {
            most
        };
        let mut data = Vec::with_capacity(take);
        for buffer in buffers {
            let part = buffer.len().min(take - data.len());
            data.extend_from_slice(&buffer[..part]);
        }
        state.send(&inner, self.id, self.side, Packet::Data(data.into()));
        Poll::Ready(Ok(take))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.living()?;
        let mut state = inner.net.0.borrow_mut();
        if let Some(connection) = state.connections.get_mut(&self.id)
            && !connection.pipes[self.side].fin_sent
        {
            connection.pipes[self.side].fin_sent = true;
            state.send(&inner, self.id, self.side, Packet::Fin);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // What a dead process held has been closed by its death.
        if let Ok(inner) = self.living() {
            inner.net.0.borrow_mut().close(&inner, self.id, self.side);
        }
    }
}
