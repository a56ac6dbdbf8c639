//! An address that can be moved from one gateway to another, as a floating address is.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long the address may be nobody's.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between attempts to reach who has it.
const PAUSE: Duration = Duration::from_millis(10);

/// Forwards connections to whom it leads to now.
pub struct Front {
    port: u16,
    state: Arc<State>,
}

struct State {
    target: Mutex<SocketAddr>,
    open: Mutex<Vec<TcpStream>>,
    has_ended: AtomicBool,
}

impl Front {
    /// Listens on loopback.
    pub fn to(target: SocketAddr) -> Result<Front, String> {
        let failed = |error| format!("a floating address: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let state = Arc::new(State {
            target: Mutex::new(target),
            open: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        let accepting = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.has_ended.load(Ordering::Acquire) {
                    break;
                }
                accepting.connect(client);
            }
        });
        Ok(Front { port, state })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads to another from now on; connections to the one before are cut.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.state.target() = target;
        self.state.cut();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        self.state.cut();
        // Wakes who accepts.
        let _: std::io::Result<_> = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn target(&self) -> std::sync::MutexGuard<'_, SocketAddr> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            // One that has ended by itself is cut already.
            let _: std::io::Result<()> = stream.shutdown(Shutdown::Both);
        }
    }

    /// An address that has moved from a gateway that is away is nobody's for a while: what is sent there is answered
    /// as soon as it is another gateway's.
    fn connect(&self, client: TcpStream) {
        let begin = Instant::now();
        let (server, _target) = loop {
            // Held until both are in the list: who leads elsewhere cuts them, or we connect to the new one.
            let target = self.target();
            match TcpStream::connect(*target) {
                Ok(server) => break (server, target),
                Err(_) if begin.elapsed() > PATIENCE => return,
                Err(_) => drop(target),
            }
            std::thread::sleep(PAUSE);
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in [(&client, &server), (&server, &client)] {
            let _: std::io::Result<()> = from.set_nodelay(true);
            if let (Ok(mut reads), Ok(mut writes), Ok(kept)) =
                (from.try_clone(), to.try_clone(), from.try_clone())
            {
                open.push(kept);
                std::thread::spawn(move || {
                    // However it ends: both ways are over.
                    let _: std::io::Result<u64> = std::io::copy(&mut reads, &mut writes);
                    let _: std::io::Result<()> = writes.shutdown(Shutdown::Both);
                    let _: std::io::Result<()> = reads.shutdown(Shutdown::Both);
                });
            }
        }
    }
}
