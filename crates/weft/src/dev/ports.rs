//! Ports of a development cluster: drawn once, and its own while it runs.
//!
//! A port is found free before its server listens on it, and it is free again while the server is
//! away: killed, or not started yet. So that no other `weft dev` of this machine takes it then, each
//! claims its ports for as long as it runs. A claim is an abstract socket of the port's name
//! (unix(7)): it is of the network name space that the ports are of, and gone with its process.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use weft_env::Env;

/// Ports are drawn from below the range out of which the system gives them to outgoing connections
/// (32768 and up on Linux), so that none is taken while its server is away.
const PORTS: Range<u16> = 20_000..32_000;
/// Draws before giving up: with a thousand ports in use, a draw fails once in ten times.
const DRAWS_MAX: usize = 1_000;

/// The ports of one cluster; given back when dropped.
#[derive(Default)]
pub struct Ports {
    /// The sockets only have to be there.
    claims: BTreeMap<u16, UnixDatagram>,
}

impl Ports {
    /// Draws a port that nobody listens on and no other cluster has; its address.
    ///
    /// # Errors
    /// If none was found.
    pub fn draw(&mut self, env: &Env) -> Result<String> {
        let width = u64::from(PORTS.end - PORTS.start);
        for _ in 0..DRAWS_MAX {
            let port = PORTS.start + (env.random() % width) as u16;
            // Claimed first: to listen for a look disturbs the server whose port it is.
            if self.claim(port).is_err() {
                continue;
            }
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Ok(format!("127.0.0.1:{port}"));
            }
            self.claims.remove(&port);
        }
        Err(Error::Failed(format!(
            "no free port between {} and {} on 127.0.0.1",
            PORTS.start, PORTS.end
        )))
    }

    /// Claims the port of an address that was drawn in an earlier run.
    ///
    /// # Errors
    /// If another cluster that runs has it, or the address has no port.
    pub fn take_back(&mut self, address: &str) -> Result<()> {
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok())
            .ok_or_else(|| Error::Usage(format!("{address:?} is no address with a port")))?;
        self.claim(port).map_err(|error| {
            Error::Failed(format!(
                "{address} is of this cluster, and another one that runs on this machine has it ({error}): end that one first"
            ))
        })
    }

    fn claim(&mut self, port: u16) -> io::Result<()> {
        let name = SocketAddr::from_abstract_name(format!("weft-dev-port-{port}"))?;
        let claim = UnixDatagram::bind_addr(&name)?;
        self.claims.insert(port, claim);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_port_is_of_one_cluster_until_it_ends() {
        weft_env::real::run(|env| async move {
            let mut first = Ports::default();
            let address = first.draw(&env).unwrap();
            // Nobody listens on it now: its server is away.
            let mut second = Ports::default();
            let refused = second.take_back(&address).unwrap_err().to_string();
            assert!(refused.contains("end that one first"), "{refused}");
            drop(first);
            second.take_back(&address).unwrap();
        })
        .unwrap();
    }

    #[test]
    fn no_port_is_drawn_twice() {
        let drawn = weft_env::real::run(|env| async move {
            let mut ports = [Ports::default(), Ports::default()];
            let mut draw = |at: usize| ports[at % 2].draw(&env).unwrap();
            // Of so many, three would be equal by chance.
            (0..300).map(&mut draw).collect::<Vec<String>>()
        })
        .unwrap();
        let different: BTreeSet<&String> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let refused = Ports::default().take_back("here").unwrap_err();
        assert!(refused.to_string().contains("no address"), "{refused}");
    }
}
