//! Peers of this process: of the node itself, or a few over loopback to try the probe out. Each has a thread, as each of
//! Weft's servers has.

use crate::error::{Error, Result, Tried};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Listening takes no time; whoever needs longer never will.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// They end when it is dropped.
#[derive(Default)]
pub struct Own {
    /// Where they are, with real ports.
    pub addresses: Vec<String>,
    stop: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Own {
    /// One at each of these addresses.
    ///
    /// # Errors
    /// If one cannot be listened on, or not reached by others.
    pub fn at(addresses: Vec<String>) -> Result<Own> {
        let mut own = Own::default();
        for address in addresses {
            if ["0.0.0.0:", "[::]:", ":"]
                .iter()
                .any(|any| address.starts_with(any))
            {
                return Err(Error::Usage(format!(
                    "--here {address}: name the address by which the peers reach this node"
                )));
            }
            own.start(address)?;
        }
        Ok(own)
    }

    fn start(&mut self, address: String) -> Result<()> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let serve = move || {
            let told = tell.clone();
            let run = weft_env::real::run(|env| async move {
                match weft_probe::serve(&env, &address, 0).await {
                    Ok(serving) => {
                        // Nobody listens: the command is over.
                        let _: std::result::Result<_, _> = told.send(Ok(serving.address.clone()));
                        let _: std::result::Result<_, _> = stopped.await;
                    }
                    Err(error) => {
                        let _: std::result::Result<_, _> = told.send(Err(error));
                    }
                }
            });
            if let Err(error) = run {
                let _: std::result::Result<_, _> = tell.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("peer".into()).spawn(serve);
        self.threads
            .push(thread.tried(|| "cannot start a thread".into())?);
        self.stop.push(stop);
        let told = told.recv_timeout(START_PATIENCE);
        let told = told.map_err(|_| Error::Failed("a peer does not start".into()))?;
        self.addresses
            .push(told.map_err(|error| Error::Usage(format!("--here: {error}")))?);
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A peer waits for its sender to be dropped.
        self.stop.clear();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _: std::thread::Result<()> = thread.join();
        }
    }
}
