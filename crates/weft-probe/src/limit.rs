//! Whether the network or Weft is the limit. Pure.
//!
//! Every byte of a file lies on the two members of one pair, and files are striped over pairs. So what is written crosses
//! the client's link once (server-driven protocols: the leader passes it on) or twice (client-driven ones), and comes in at
//! two servers; what is read comes from either member and crosses each link once. The least of what these links carry is
//! what no file system that mirrors could pass; what Weft reaches beside it says who is in the way.

use serde::Serialize;
use std::fmt;

/// From this share of what the network carries on, the network is the limit: headers of Weft's frames, names and
/// attributes take something, and two measurements of one network differ by some percent.
pub const NETWORK_SHARE: f64 = 0.85;
/// Beyond this share it was not the network that was measured: caches, or other links than those of the peers.
pub const IMPOSSIBLE_SHARE: f64 = 1.15;

/// What links carry, bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Links {
    /// Out of a client, to all servers at the same time.
    pub client_out: f64,
    /// Into a client, from all servers at the same time.
    pub client_in: f64,
    /// Into a server, while it sends as well.
    pub server_in: f64,
    /// Out of a server, while it receives as well.
    pub server_out: f64,
}

/// What of a cluster decides how often a byte crosses which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Pairs of data servers.
    pub pairs: u32,
    /// Clients at work at the same time, each behind a link of its own.
    pub clients: u32,
    /// The client sends both copies.
    pub client_driven: bool,
}

/// What is done to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Writing.
    Write,
    /// Reading.
    Read,
}

/// Whose links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// Of the clients.
    Clients,
    /// Into the data servers.
    ServersIn,
    /// Out of the data servers.
    ServersOut,
}

/// What some links carry of files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Whose links.
    pub whose: Whose,
    /// Bytes of files a second.
    pub rate: f64,
}

/// Who is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The network is used up.
    Network,
    /// The network has room: Weft, or the disks and processors that it runs on.
    Weft,
    /// Nothing crossed this network at this rate.
    Neither,
}

/// What Weft reaches beside what the network carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Of what.
    pub work: Work,
    /// Bytes of files a second that Weft moves.
    pub reached: f64,
    /// What the network carries, the least first.
    pub bounds: Vec<Bound>,
    /// What it reaches, as a share of the least of them.
    pub share: f64,
    /// Who is in the way.
    pub limit: Limit,
    /// For how many.
    pub shape: Shape,
}

/// What the network carries of files, the least first.
pub fn bounds(links: &Links, shape: Shape, work: Work) -> Vec<Bound> {
    let (pairs, clients) = (f64::from(shape.pairs), f64::from(shape.clients));
    let copies = if shape.client_driven { 2.0 } else { 1.0 };
    let bound = |whose, rate| Bound { whose, rate };
    let mut bounds = match work {
        Work::Write => vec![
            bound(Whose::Clients, clients * links.client_out / copies),
            // Two servers take each byte, of twice as many as there are pairs.
            bound(Whose::ServersIn, pairs * links.server_in),
        ],
        Work::Read => vec![
            bound(Whose::Clients, clients * links.client_in),
            // Both members send, each other bytes.
            bound(Whose::ServersOut, 2.0 * pairs * links.server_out),
        ],
    };
    if work == Work::Write && !shape.client_driven {
        // One of the two passes it on.
        bounds.push(bound(Whose::ServersOut, 2.0 * pairs * links.server_out));
    }
    bounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    bounds
}

/// Says who is in the way. None if either figure is no rate.
pub fn judge(links: &Links, shape: Shape, work: Work, reached: f64) -> Option<Judgement> {
    let bounds = bounds(links, shape, work);
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    let least = bounds.first().filter(|least| is_rate(least.rate))?;
    if !is_rate(reached) {
        return None;
    }
    let share = reached / least.rate;
    let limit = match share {
        share if share > IMPOSSIBLE_SHARE => Limit::Neither,
        share if share >= NETWORK_SHARE => Limit::Network,
        _ => Limit::Weft,
    };
    Some(Judgement {
        work,
        reached,
        share,
        limit,
        shape,
        bounds,
    })
}

/// Bytes a second, for people.
pub fn rate(bytes: f64) -> String {
    let megabytes = bytes / 1e6;
    match megabytes {
        _ if megabytes >= 1000.0 => format!("{:.2} GB/s", megabytes / 1e3),
        _ if megabytes >= 100.0 => format!("{megabytes:.0} MB/s"),
        _ => format!("{megabytes:.1} MB/s"),
    }
}

impl Judgement {
    fn links(&self, whose: Whose) -> String {
        let Shape {
            pairs,
            clients,
            client_driven,
        } = self.shape;
        let of = match whose {
            Whose::Clients if clients == 1 => "the client's link carries".to_owned(),
            Whose::Clients => format!("the links of {clients} clients carry"),
            Whose::ServersIn | Whose::ServersOut => {
                format!("the links of the {} servers carry", 2 * u64::from(pairs))
            }
        };
        let why = match (whose, self.work) {
            (Whose::Clients, Work::Write) if client_driven => " (it sends each byte twice)",
            (Whose::ServersIn, _) => " (each byte comes to two of them)",
            (Whose::ServersOut, Work::Write) => " (one of two passes each byte on)",
            _ => "",
        };
        format!("{of}{why}")
    }
}

/// A sentence or two.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (doing, does) = match self.work {
            Work::Write => ("Writing", "writes"),
            Work::Read => ("Reading", "reads"),
        };
        let Some(least) = self.bounds.first() else {
            return write!(f, "{doing}: nothing is known of the network");
        };
        let links = self.links(least.whose);
        let (reached, carried) = (rate(self.reached), rate(least.rate));
        let percent = self.share * 100.0;
        match self.limit {
            Limit::Network => {
                write!(
                    f,
                    "{doing}: the network is the limit. Weft {does} {reached}, {percent:.0} % of the {carried} that {links}."
                )?;
                let clients = least.whose == Whose::Clients;
                match self.bounds.get(1).filter(|_| clients) {
                    Some(next) => write!(
                        f,
                        " With more clients it can be up to {} in all: {}.",
                        rate(next.rate),
                        self.links(next.whose)
                    ),
                    None if self.work == Work::Write => {
                        write!(f, " With more pairs, or faster links, it can be more.")
                    }
                    None => write!(f, " With faster links it can be more."),
                }
            }
            Limit::Weft => write!(
                f,
                "{doing}: Weft is the limit (or its disks and processors), not the network. Weft {does} {reached}, \
                 {percent:.0} % of the {carried} that {links}: the network has room for {:.1} times as much.",
                1.0 / self.share
            ),
            Limit::Neither => write!(
                f,
                "{doing}: these links were not the limit. Weft {does} {reached}, more than the {carried} that {links}: \
                 caches answered, or its servers are behind other links than the peers."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: f64 = 12e6;

    fn links(client: f64) -> Links {
        Links {
            client_out: client,
            client_in: client,
            server_in: LINK,
            server_out: LINK,
        }
    }

    fn shape(pairs: u32, clients: u32, client_driven: bool) -> Shape {
        Shape {
            pairs,
            clients,
            client_driven,
        }
    }

    fn least(shape: Shape, work: Work) -> (Whose, f64) {
        let bound = bounds(&links(LINK), shape, work)[0];
        (bound.whose, bound.rate)
    }

    #[test]
    fn a_byte_is_counted_on_each_link_that_it_crosses() {
        // One client: its own link, which the second copy crosses or not.
        assert_eq!(
            least(shape(4, 1, false), Work::Write),
            (Whose::Clients, LINK)
        );
        assert_eq!(
            least(shape(4, 1, true), Work::Write),
            (Whose::Clients, LINK / 2.0)
        );
        assert_eq!(
            least(shape(4, 1, false), Work::Read),
            (Whose::Clients, LINK)
        );
        // Many: all servers take what is written twice, and all send what is read once.
        assert_eq!(
            least(shape(4, 50, false), Work::Write),
            (Whose::ServersIn, 4.0 * LINK)
        );
        assert_eq!(
            least(shape(4, 50, true), Work::Write),
            (Whose::ServersIn, 4.0 * LINK)
        );
        assert_eq!(
            least(shape(4, 50, true), Work::Read),
            (Whose::ServersOut, 8.0 * LINK)
        );
        // Links that carry less out than in: the leaders pass half of what comes in on.
        let mut lame = links(100.0 * LINK);
        lame.server_out = LINK / 4.0;
        let least = bounds(&lame, shape(4, 1, false), Work::Write)[0];
        assert_eq!((least.whose, least.rate), (Whose::ServersOut, 2.0 * LINK));
        let least = bounds(&lame, shape(4, 1, true), Work::Write)[0];
        assert_eq!((least.whose, least.rate), (Whose::ServersIn, 4.0 * LINK));
    }

    #[test]
    fn who_is_in_the_way_is_said_with_by_how_much() {
        let say = |reached, client, shape, work| {
            let judged = judge(&links(client), shape, work, reached).unwrap();
            (judged.limit, judged.to_string())
        };
        let (limit, said) = say(11.4e6, LINK, shape(4, 1, false), Work::Write);
        assert_eq!(limit, Limit::Network);
        assert!(
            said.contains("the network is the limit. Weft writes 11.4 MB/s, 95 % of the 12.0 MB/s that the client's link"),
            "{said}"
        );
        assert!(
            said.contains("With more clients it can be up to 48.0 MB/s"),
            "{said}"
        );
        let (limit, said) = say(22e6, 1e9, shape(2, 1, false), Work::Write);
        assert_eq!(limit, Limit::Network);
        assert!(
            said.contains("the 24.0 MB/s that the links of the 4 servers carry (each byte comes"),
            "{said}"
        );
        assert!(said.contains("more pairs"), "{said}");
        let (limit, said) = say(6e6, 1e9, shape(2, 1, true), Work::Read);
        assert_eq!(limit, Limit::Weft);
        assert!(
            said.contains("Weft is the limit") && said.contains("room for 8.0 times as much"),
            "{said}"
        );
        let (limit, said) = say(60e6, 1e9, shape(2, 1, true), Work::Write);
        assert_eq!(limit, Limit::Neither);
        assert!(said.contains("caches"), "{said}");
    }

    #[test]
    fn the_thresholds_hold_and_nonsense_is_not_judged() {
        let judged = |reached| judge(&links(1.0), shape(1, 1, false), Work::Read, reached);
        let limit = |reached| judged(reached).unwrap().limit;
        assert_eq!(limit(NETWORK_SHARE - 0.001), Limit::Weft);
        assert_eq!(limit(NETWORK_SHARE), Limit::Network);
        assert_eq!(limit(IMPOSSIBLE_SHARE), Limit::Network);
        assert_eq!(limit(IMPOSSIBLE_SHARE + 0.001), Limit::Neither);
        for nonsense in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(judged(nonsense), None);
        }
        assert_eq!(
            judge(&links(1.0), shape(0, 1, false), Work::Write, 1.0),
            None
        );
    }

    #[test]
    fn rates_have_the_unit_that_fits() {
        assert_eq!(rate(11.96e6), "12.0 MB/s");
        assert_eq!(rate(119.6e6), "120 MB/s");
        assert_eq!(rate(2_345e6), "2.35 GB/s");
    }
}
