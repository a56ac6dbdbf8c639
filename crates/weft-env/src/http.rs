//! Just enough HTTP to give a page of text to a scraper.

use crate::Env;
use crate::lost_lines::{lost_lines, shown_with};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest request head that is read: scrapers send a few hundred bytes.
const HEAD_MAX: usize = 8192;
/// A scraper that has not sent its request by then is hung up on.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers every GET on `address` with what `page` returns, and what is true of every process
/// (`lost_lines.rs`). Returns the address that is listened on; the serving goes on in a task of its own.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve_text(
    env: &Env,
    address: &str,
    page: impl Fn() -> String + 'static,
) -> io::Result<String> {
    let mut listener = env.listen(address).await?;
    let bound = listener.address();
    let page = Rc::new(page);
    let inner = env.clone();
    env.spawn("metrics", async move {
        loop {
            let mut stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    // Too many open files, most likely: wait for some to close.
                    tracing::warn!(%error, "accepting a scraper's connection failed");
                    inner.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let page = page.clone();
            let env = inner.clone();
            inner.spawn("metrics request", async move {
                let exchange = async {
                    let mut head = Vec::new();
                    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                        if head.len() > HEAD_MAX || stream.read_buf(&mut head).await? == 0 {
                            return Ok(());
                        }
                    }
                    let body = shown_with(&page(), lost_lines());
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    stream.write_all(answer.as_bytes()).await?;
                    stream.shutdown().await
                };
                // A scraper that goes away or dawdles is its own loss.
                let _: Result<io::Result<()>, _> = env.timeout(PATIENCE, exchange).await;
            });
        }
    });
    Ok(bound)
}
