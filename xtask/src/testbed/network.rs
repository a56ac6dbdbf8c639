//! The network of a bed: a name space for each node, joined by a bridge in one of its own.
//!
//! ```text
//!   node's name space                 the switch's name space
//!   eth0 10.77.x.y  --- veth pair ---  port pN on the bridge
//!   tbf: what the node sends           tbf: what the node receives
//! ```
//!
//! A node's rate holds each way by itself, as on a full-duplex link. A cut is made with the qdisc
//! `blackhole`: packets vanish, and TCP tries again, as on a cable that is pulled.

use crate::run::{Outcome, has, quiet};
use crate::spaces;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Nodes of one bed: what the numbering of addresses has room for, and more than a machine bears.
const NODES_MAX: usize = 1000;
/// A burst that a link may send at once: less and the timer's ticks limit it, more and a small
/// transfer does not see the rate.
const BURST_BYTES: u64 = 32 << 10;
/// Largest packet that the kernel hands on before it is cut to size: within a burst, or tbf cuts it
/// to 1500 bytes, and the processor's time for so many packets would be the limit. Not more than a few
/// frames: a full queue drops it as a whole, which no switch does, and TCP recovers badly from that.
const PACKET_BYTES: u64 = 4 << 10;
/// What most systems have, or what every kernel has. A default of BBR takes a link's bursts for its rate,
/// and loses many packets in queues this short, thin streams of heartbeats with them.
const CONGESTION: &str = "cd /proc/sys/net/ipv4; (echo cubic > tcp_congestion_control) 2>/dev/null || \
    echo reno > tcp_congestion_control";
/// How long a packet may wait in the queue of a switch's port before it is dropped. Heartbeats share the
/// link with data and wait as long.
const QUEUE_MILLIS: u64 = 20;
/// What a port may fill of the switch's memory in any case: twenty milliseconds of a slow link are a few
/// dozen packets, less than one for each of many connections.
const PORT_BYTES: u64 = 1 << 20;
/// What waits in the sending node before its link, a thousand packets, as in most systems: a kernel
/// does not drop what its own connections send, it lets them wait.
const SENDER_BYTES: u64 = 1000 * 1500;

/// Below, one full packet takes longer than a queue holds.
const RATE_MIN: u64 = 1_000_000;

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// A part of it, not below what a link can have.
    pub fn part(self, parts: u64) -> Rate {
        Rate((self.0 / parts).max(RATE_MIN))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let units = [
            ("kbit", 1_000),
            ("mbit", 1_000_000),
            ("gbit", 1_000_000_000),
        ];
        let lower = text.to_ascii_lowercase();
        units
            .iter()
            .find_map(|(unit, factor)| {
                let number: u64 = lower.strip_suffix(unit)?.parse().ok()?;
                number.checked_mul(*factor)
            })
            .filter(|bits| (RATE_MIN..=100_000_000_000).contains(bits))
            .map(Rate)
            .ok_or_else(|| format!("{text:?} is no rate: 1mbit to 100gbit, as in 100mbit"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits % 1_000_000_000 == 0 => write!(f, "{}gbit", bits / 1_000_000_000),
            bits if bits % 1_000_000 == 0 => write!(f, "{}mbit", bits / 1_000_000),
            bits => write!(f, "{}kbit", bits / 1_000),
        }
    }
}

/// Which of a link's directions, seen from the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What comes to it.
    In,
    /// What it sends.
    Out,
    /// Both.
    Both,
}

impl Way {
    /// Includes what comes in.
    pub fn is_in(self) -> bool {
        self != Way::Out
    }

    /// Includes what goes out.
    pub fn is_out(self) -> bool {
        self != Way::In
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        match text {
            "in" => Ok(Way::In),
            "out" => Ok(Way::Out),
            "both" => Ok(Way::Both),
            _ => Err(format!("{text:?} is no way: in, out or both")),
        }
    }
}

/// A node: a name space with one link.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name space.
    pub space: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// What its link carries each way; None: as much as the machine can.
    pub rate: Option<Rate>,
    /// The switch's end of the link.
    port: String,
    cut: Option<Way>,
}

/// The name spaces of one bed. Whoever makes one sees to their removal (`keeper.rs`).
pub struct Network {
    prefix: String,
    nodes: BTreeMap<String, Node>,
}

/// Refuses, in words, where no bed can be made.
///
/// # Errors
/// What is missing, and what to do about it.
pub fn check() -> Outcome {
    // SAFETY: has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Err("the test bed makes network name spaces: run it as root".into());
    }
    if !has("ip", "-V") || !has("tc", "-V") {
        return Err("ip or tc is missing: install the package iproute2".into());
    }
    if !has("nsenter", "--version") {
        return Err("nsenter is missing: install the package util-linux".into());
    }
    Ok(())
}

impl Network {
    /// Makes the switch. All name spaces will begin with `prefix`.
    ///
    /// # Errors
    /// In words, if the kernel has no name spaces or bridges, or refuses them.
    pub fn new(prefix: &str) -> Result<Network, String> {
        let network = Network {
            prefix: prefix.to_owned(),
            nodes: BTreeMap::new(),
        };
        let switch = network.switch();
        spaces::add(&switch)?;
        ip(&switch, "link add name br0 type bridge")?;
        ip(&switch, "link set br0 up")?;
        Ok(network)
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.prefix)
    }

    /// Adds a node and gives it an address.
    ///
    /// # Errors
    /// In words, if there is one of this name, or the kernel refuses.
    pub fn add(&mut self, name: &str, rate: Option<Rate>) -> Outcome {
        let index = self.nodes.len();
        if self.nodes.contains_key(name) {
            return Err(format!("the bed has a node {name} already"));
        }
        if index >= NODES_MAX {
            return Err(format!("a bed has at most {NODES_MAX} nodes"));
        }
        let node = Node {
            space: format!("{}-{name}", self.prefix),
            address: address_of(index),
            rate,
            port: format!("p{index}"),
            cut: None,
        };
        let (switch, space, port) = (self.switch(), &node.space, &node.port);
        spaces::add(space)?;
        ip(
            &switch,
            &format!(
                "link add name {port} type veth peer name eth0 address {} netns {space}",
                hardware_of(node.address)
            ),
        )?;
        ip(&switch, &format!("link set {port} master br0 up"))?;
        ip(space, &format!("addr add {}/16 dev eth0", node.address))?;
        for (space, device) in [(space, "eth0"), (&switch, port.as_str())] {
            let order = format!("link set dev {device} gso_max_size {PACKET_BYTES}");
            ip(space, &order)?;
        }
        ip(space, "link set eth0 up")?;
        know_all(space)?;
        // Left as it is where the kernel has no other.
        let _: Outcome = quiet(spaces::command(space, "sh").args(["-c", CONGESTION]));
        self.shape(&node)?;
        self.nodes.insert(name.to_owned(), node);
        Ok(())
    }

    /// A node by name.
    ///
    /// # Errors
    /// If there is none, with the names that there are.
    pub fn node(&self, name: &str) -> Result<&Node, String> {
        self.nodes.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
            format!("the bed has no node {name}; it has {}", names.join(", "))
        })
    }

    /// All nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter()
    }

    /// Sets what a node's link carries; connections go on.
    ///
    /// # Errors
    /// If there is no such node, or the kernel refuses.
    pub fn set_rate(&mut self, name: &str, rate: Option<Rate>) -> Outcome {
        self.change(name, |node| node.rate = rate)
    }

    /// Cuts a node's link one way or both; packets vanish from now on.
    ///
    /// # Errors
    /// As [`Network::set_rate`].
    pub fn cut(&mut self, name: &str, way: Way) -> Outcome {
        self.change(name, |node| node.cut = Some(way))
    }

    /// Ends a cut.
    ///
    /// # Errors
    /// As [`Network::set_rate`].
    pub fn heal(&mut self, name: &str) -> Outcome {
        self.change(name, |node| node.cut = None)
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Node)) -> Outcome {
        let mut node = self.node(name)?.clone();
        change(&mut node);
        self.shape(&node)?;
        self.nodes.insert(name.to_owned(), node);
        Ok(())
    }

    fn shape(&self, node: &Node) -> Outcome {
        let is_cut = |of: fn(Way) -> bool| node.cut.is_some_and(of);
        let (space, port) = (&node.space, &node.port);
        shape(
            space,
            "eth0",
            (node.rate, SENDER_BYTES),
            is_cut(Way::is_out),
        )?;
        shape(
            &self.switch(),
            port,
            (node.rate, PORT_BYTES),
            is_cut(Way::is_in),
        )
    }
}

fn address_of(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (index / 250) as u8, (1 + index % 250) as u8)
}

/// Of a node's link, by its address, so that it is known before the node is there.
fn hardware_of(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Tells a node where all others are. Asking for that (ARP) goes to every port, and is given up after three
/// lost packets: behind links that are full for long nodes did not find each other any more.
fn know_all(space: &str) -> Outcome {
    let mut command = spaces::command(space, "ip");
    let ip = command.args(["-batch", "-"]).stdin(Stdio::piped());
    let told = ip.spawn().and_then(|mut child| {
        if let Some(mut input) = child.stdin.take() {
            for address in (0..NODES_MAX).map(address_of) {
                let hardware = hardware_of(address);
                writeln!(
                    input,
                    "neigh add {address} lladdr {hardware} dev eth0 nud permanent"
                )?;
            }
        }
        child.wait()
    });
    match told {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ip neigh in {space}: {status}")),
        Err(error) => Err(format!("cannot start ip: {error}")),
    }
}

fn shape(
    space: &str,
    device: &str,
    (rate, queue_bytes): (Option<Rate>, u64),
    is_cut: bool,
) -> Outcome {
    let kind = match rate {
        _ if is_cut => "blackhole".to_owned(),
        Some(rate) => format!(
            "tbf rate {}bit burst {} limit {}",
            rate.0,
            // Two milliseconds' worth where that is more.
            BURST_BYTES.max(rate.0 / 8 / 500),
            queue_bytes.max(rate.0 / 8 / 1000 * QUEUE_MILLIS) + BURST_BYTES,
        ),
        None => "pfifo limit 1000".to_owned(),
    };
    // Replacing one kind by another is refused; a link without any has none to be deleted.
    let _: Outcome = tc(space, &format!("qdisc del dev {device} root"));
    tc(space, &format!("qdisc add dev {device} root {kind}"))
}

fn ip(space: &str, order: &str) -> Outcome {
    quiet(
        Command::new("ip")
            .args(["-n", space])
            .args(order.split(' ')),
    )
}

fn tc(space: &str, order: &str) -> Outcome {
    quiet(
        Command::new("tc")
            .args(["-n", space])
            .args(order.split(' ')),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_and_shown() {
        for (text, bits) in [
            ("100mbit", 100_000_000),
            ("1Gbit", 1_000_000_000),
            ("2500kbit", 2_500_000),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.0, bits);
            assert_eq!(rate.to_string(), text.to_ascii_lowercase());
        }
        for wrong in [
            "",
            "mbit",
            "100",
            "100mb",
            "1kbit",
            "-5mbit",
            "99999999999999gbit",
        ] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_way_is_one_of_three() {
        assert!(Way::Both.is_in() && Way::Both.is_out());
        assert!(!"in".parse::<Way>().unwrap().is_out());
        assert!(!"out".parse::<Way>().unwrap().is_in());
        assert!("up".parse::<Way>().is_err());
    }
}
