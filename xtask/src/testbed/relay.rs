//! A TCP relay: stands before one server, and does to its connections what networks do.
//!
//! A process of its own in a name space of its own, told by lines on standard input, each answered
//! by `ok` or by what is wrong with it. Seen from the server, `in` is what clients send to it.
//!
//! ```text
//! delay IN_MS OUT_MS    every byte comes so much later
//! hold WAY              bytes stay, and come after `heal` (TCP over a cut that heals)
//! lose WAY              bytes vanish and the connection stays; `heal` resets those that lost any
//! heal                  ends hold and lose
//! reset                 resets all connections
//! ```

use super::network::Way;
use crate::run::Outcome;
use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;
/// Chunks on their way in one direction of a connection: 32 MiB, what a second of delay needs at
/// 250 Mbit/s. More waits in the sender.
const QUEUE: usize = 512;
/// How soon a blocked thread sees that its connection was reset or a hold has ended.
const LOOK: Duration = Duration::from_millis(5);
/// A server that does not take a connection by then is away.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Longest delay: beyond, everything times out.
const DELAY_MAX_MS: u64 = 60_000;

const PASS: u8 = 0;
const HOLD: u8 = 1;
const LOSE: u8 = 2;

/// Where a relay stands.
#[derive(clap::Args, Clone)]
pub struct RelayOptions {
    /// Where clients connect.
    #[arg(long)]
    listen: SocketAddr,
    /// The server.
    #[arg(long)]
    target: SocketAddr,
}

/// One direction, as all connections see it.
#[derive(Default)]
struct Lane {
    delay_ms: AtomicU64,
    mode: AtomicU8,
}

#[derive(Default)]
struct Control {
    /// To the server, and from it.
    lanes: [Lane; 2],
    links: Mutex<Vec<Arc<Link>>>,
}

/// One connection through the relay.
struct Link {
    client: TcpStream,
    server: TcpStream,
    has_lost: AtomicBool,
    is_over: AtomicBool,
}

impl Link {
    /// Ends it so that both sides get a reset.
    fn reset(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // SAFETY: the descriptor is open and the pointer is to a value of that size.
            unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    size_of::<libc::linger>() as libc::socklen_t,
                )
            };
            // Wakes the readers without a word to the other side; the last one to let go closes.
            let _: std::io::Result<()> = stream.shutdown(Shutdown::Read);
        }
    }
}

/// The relay's process: until standard input ends.
///
/// # Errors
/// If it cannot listen.
pub fn run(options: &RelayOptions) -> Outcome {
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    let control = Arc::new(Control::default());
    let (accepting, target) = (control.clone(), options.target);
    std::thread::spawn(move || accept(&listener, target, &accepting));
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match control.obey(&line) {
            Ok(()) => println!("ok"),
            Err(why) => println!("{why}"),
        }
    }
    Ok(())
}

fn accept(listener: &TcpListener, target: SocketAddr, control: &Arc<Control>) {
    for client in listener.incoming().flatten() {
        let control = control.clone();
        std::thread::spawn(move || {
            // A server that is away: the client sees its connection end.
            let Ok(server) = TcpStream::connect_timeout(&target, CONNECT_PATIENCE) else {
                return;
            };
            control.join(client, server);
        });
    }
}

impl Control {
    fn obey(&self, line: &str) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["delay", to, from] => {
                for (lane, text) in self.lanes.iter().zip([to, from]) {
                    let delay = text.parse().ok().filter(|&ms| ms <= DELAY_MAX_MS);
                    let delay = delay
                        .ok_or_else(|| format!("{text:?} is no delay: 0 to {DELAY_MAX_MS} ms"))?;
                    lane.delay_ms.store(delay, Ordering::SeqCst);
                }
            }
            ["hold", way] => self.set(way.parse()?, HOLD),
            ["lose", way] => self.set(way.parse()?, LOSE),
            ["heal"] => {
                self.set(Way::Both, PASS);
                self.reset(|link| link.has_lost.load(Ordering::SeqCst));
            }
            ["reset"] => self.reset(|_| true),
            _ => {
                return Err(format!(
                    "{line:?} is no order: delay IN_MS OUT_MS, hold WAY, lose WAY, heal, reset"
                ));
            }
        }
        Ok(())
    }

    fn set(&self, way: Way, mode: u8) {
        for (lane, is_meant) in self.lanes.iter().zip([way.is_in(), way.is_out()]) {
            if is_meant {
                lane.mode.store(mode, Ordering::SeqCst);
            }
        }
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self, is_meant: impl Fn(&Link) -> bool) {
        self.links().retain(|link| {
            let meant = is_meant(link);
            if meant {
                link.reset();
            }
            !meant
        });
    }

    /// Relays until both sides have ended.
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        for stream in [&client, &server] {
            // Without them it is only slower to see a reset.
            let _: std::io::Result<()> = stream.set_nodelay(true);
            let _: std::io::Result<()> = stream.set_write_timeout(Some(LOOK));
        }
        let link = Arc::new(Link {
            client,
            server,
            has_lost: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        self.links().push(link.clone());
        std::thread::scope(|scope| {
            for lane in 0..2 {
                let (sender, receiver) = sync_channel(QUEUE);
                let link = &*link;
                scope.spawn(move || self.receive(link, lane, &sender));
                scope.spawn(move || deliver(link, lane, &receiver));
            }
        });
        self.links().retain(|other| !Arc::ptr_eq(other, &link));
    }

    /// Bytes with the time at which they are due; none: the end.
    fn receive(&self, link: &Link, lane: usize, to: &SyncSender<(Instant, Vec<u8>)>) {
        let mut from = [&link.client, &link.server][lane];
        let Lane { delay_ms, mode } = &self.lanes[lane];
        let mut chunk = vec![0; CHUNK];
        loop {
            // An error is an end.
            let got = from.read(&mut chunk).unwrap_or(0);
            while mode.load(Ordering::SeqCst) == HOLD && !link.is_over.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK);
            }
            if link.is_over.load(Ordering::SeqCst) {
                return;
            }
            let due = Instant::now() + Duration::from_millis(delay_ms.load(Ordering::SeqCst));
            if mode.load(Ordering::SeqCst) == LOSE {
                link.has_lost.store(true, Ordering::SeqCst);
                if got == 0 {
                    // So is the end, until the heal resets what is left.
                    while !link.is_over.load(Ordering::SeqCst) {
                        std::thread::sleep(LOOK);
                    }
                }
                continue;
            }
            if to.send((due, chunk[..got].to_vec())).is_err() || got == 0 {
                return;
            }
        }
    }
}

fn deliver(link: &Link, lane: usize, from: &Receiver<(Instant, Vec<u8>)>) {
    let mut to = [&link.server, &link.client][lane];
    while let Ok((due, chunk)) = from.recv() {
        while !link.is_over.load(Ordering::SeqCst) {
            match due.saturating_duration_since(Instant::now()) {
                Duration::ZERO => break,
                wait => std::thread::sleep(wait.min(LOOK)),
            }
        }
        if chunk.is_empty() {
            let _: std::io::Result<()> = to.shutdown(Shutdown::Write);
            return;
        }
        let mut rest = &chunk[..];
        while !rest.is_empty() && !link.is_over.load(Ordering::SeqCst) {
            match to.write(rest) {
                Ok(0) => return link.reset(),
                Ok(sent) => rest = &rest[sent..],
                Err(error) => match error.kind() {
                    std::io::ErrorKind::WouldBlock
                    | std::io::ErrorKind::TimedOut
                    | std::io::ErrorKind::Interrupted => {}
                    // One side is gone: so is the connection.
                    _ => return link.reset(),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo behind a relay, and a connection to it.
    fn echo() -> (Arc<Control>, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in server.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut back = stream.try_clone().unwrap();
                    // Ends with the connection.
                    let _: std::io::Result<u64> = std::io::copy(&mut stream, &mut back);
                });
            }
        });
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = relay.local_addr().unwrap();
        let control = Arc::new(Control::default());
        let accepting = control.clone();
        std::thread::spawn(move || accept(&relay, target, &accepting));
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        (control, stream)
    }

    fn round(mut stream: &TcpStream, word: &[u8]) -> std::io::Result<Duration> {
        let start = Instant::now();
        stream.write_all(word)?;
        let mut back = vec![0; word.len()];
        stream.read_exact(&mut back)?;
        assert_eq!(back, word);
        Ok(start.elapsed())
    }

    #[test]
    fn bytes_come_later_by_both_delays() {
        let (control, stream) = echo();
        round(&stream, b"at once").unwrap();
        control.obey("delay 40 60").unwrap();
        let took = round(&stream, b"later").unwrap();
        assert!(took >= Duration::from_millis(100), "{took:?}");
    }

    #[test]
    fn held_bytes_come_after_the_heal() {
        let (control, stream) = echo();
        round(&stream, b"first").unwrap();
        control.obey("hold out").unwrap();
        assert!(round(&stream, b"held").is_err());
        control.obey("heal").unwrap();
        let mut back = [0; 4];
        (&stream).read_exact(&mut back).unwrap();
        assert_eq!(&back, b"held");
        round(&stream, b"and on").unwrap();
    }

    #[test]
    fn a_connection_that_lost_bytes_is_reset_by_the_heal() {
        let (control, stream) = echo();
        round(&stream, b"first").unwrap();
        control.obey("lose in").unwrap();
        let error = round(&stream, b"lost").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "it stays");
        control.obey("heal").unwrap();
        let error = (&stream).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_reset_reaches_the_client() {
        let (control, stream) = echo();
        round(&stream, b"first").unwrap();
        control.obey("reset").unwrap();
        let error = (&stream).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let control = Control::default();
        for wrong in [
            "",
            "delay",
            "delay 1 x",
            "delay 1 99999999",
            "hold up",
            "stop",
        ] {
            assert!(control.obey(wrong).is_err(), "{wrong}");
        }
    }
}
