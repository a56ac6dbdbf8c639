//! Futures that are finished though nobody waits for them any more.

use crate::core::Core;
use futures_util::future::LocalBoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use weft_env::Env;

/// A change that was begun must be seen to its end: its reply says what the caches hold. When the
/// caller drops this half-way, a task goes on with it.
pub(crate) struct ToTheEnd<T: 'static> {
    env: Env,
    future: Option<LocalBoxFuture<'static, T>>,
    begun: bool,
}

impl<T> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        let Some(future) = &mut self.future else {
            unreachable!("polled after its end");
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<T: 'static> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && self.begun
        {
            self.env.spawn("finish a change", async move {
                future.await;
            });
        }
    }
}

impl Core {
    /// See [`ToTheEnd`].
    pub fn to_the_end<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> ToTheEnd<T> {
        ToTheEnd {
            env: self.env.clone(),
            future: Some(Box::pin(future)),
            begun: false,
        }
    }
}
