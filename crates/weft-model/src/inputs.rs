//! What goes into the models. [`Assumed`] is what only experience with the machines tells, [`Measured`] what
//! a running cluster can tell of itself.

use crate::{Error, NEVER, PAIRS_MAX};

/// How the second copy comes about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// CEFT's protocol 1: the leader answers at once and duplicates later.
    ServerAsync,
    /// CEFT's protocol 2: the leader answers when both have it.
    ServerSync,
    /// CEFT's protocol 3: the client goes on after the first answer.
    ClientAsync,
    /// CEFT's protocol 4: the client waits for both.
    ClientSync,
    /// `ServerSync` while fewer clients write than there are pairs, `ClientAsync` else (CEFT 6.6).
    Hybrid,
}

impl Protocol {
    /// All of them, in the order of CEFT's numbers.
    pub const ALL: [Protocol; 5] = [
        Protocol::ServerAsync,
        Protocol::ServerSync,
        Protocol::ClientAsync,
        Protocol::ClientSync,
        Protocol::Hybrid,
    ];

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::ServerAsync => "server-async",
            Protocol::ServerSync => "server-sync",
            Protocol::ClientAsync => "client-async",
            Protocol::ClientSync => "client-sync",
            Protocol::Hybrid => "hybrid",
        }
    }
}

/// What no measurement of a short time tells. Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumed {
    /// Pairs of data servers (CEFT: N).
    pub pairs: u32,
    /// Mean time to the failure of a node that runs a data server.
    pub mttf_node: f64,
    /// Mean time to the failure of the network that all of them share; it ends everything. May be [`NEVER`].
    pub mttf_switch: f64,
    /// Mean time to the failure of a node that runs a client. Only [`crate::Scheme::Weft`] uses it. May be [`NEVER`].
    pub mttf_client: f64,
}

/// Mean time to duplication: how long one write is held by one member only. Under the synchronous protocols
/// it is 0 by definition (CEFT 6.1), so they have no field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mttd {
    /// From the leader's answer to the other member's.
    pub server_async: f64,
    /// Between the two members' answers to the client.
    pub client_async: f64,
}

/// What a running cluster can measure. Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Mean time between two writes to one pair.
    pub mttw: f64,
    /// Mean times to duplication.
    pub mttd: Mttd,
    /// Mean time from a member's failure until its copy is complete again.
    pub repair: f64,
    /// Share of the time in which the hybrid is `ClientAsync`: at least as many clients write as there are
    /// pairs.
    pub async_share: f64,
    /// How long a death of a server and of a client that wrote through it may be apart and still lose what
    /// only these two held; [`Exposure::weft`](crate::Exposure::weft) says more.
    pub window: f64,
}

impl Assumed {
    /// # Errors
    /// If the models say nothing about such a cluster.
    pub fn check(&self) -> Result<(), Error> {
        if self.pairs == 0 || self.pairs > PAIRS_MAX {
            return Err(Error::Pairs(self.pairs));
        }
        mean_time("the mean time to a node's failure", self.mttf_node)?;
        positive("the mean time to the network's failure", self.mttf_switch)?;
        positive("the mean time to a client's failure", self.mttf_client)
    }
}

impl Measured {
    /// # Errors
    /// If the models say nothing about such a load.
    pub fn check(&self) -> Result<(), Error> {
        positive("the mean time between writes", self.mttw)?;
        mean_time("the mean time to repair", self.repair)?;
        delay(
            "the mean time to duplication of server-async",
            self.mttd.server_async,
        )?;
        delay(
            "the mean time to duplication of client-async",
            self.mttd.client_async,
        )?;
        delay("the window", self.window)?;
        if self.window == NEVER {
            return Err(Error::Endless("the window"));
        }
        if !(0.0..=1.0).contains(&self.async_share) {
            return Err(Error::NotAShare("the hybrid's asynchronous part"));
        }
        Ok(())
    }
}

/// Refuses what is not longer than nothing. `NEVER` is allowed.
fn positive(what: &'static str, seconds: f64) -> Result<(), Error> {
    if seconds > 0.0 {
        Ok(())
    } else {
        Err(Error::NotPositive(what))
    }
}

/// Refuses what is not a time between nothing and never.
pub(crate) fn mean_time(what: &'static str, seconds: f64) -> Result<(), Error> {
    positive(what, seconds)?;
    if seconds == NEVER {
        return Err(Error::Endless(what));
    }
    Ok(())
}

/// Refuses what is no time; none at all is allowed.
fn delay(what: &'static str, seconds: f64) -> Result<(), Error> {
    if seconds >= 0.0 {
        Ok(())
    } else {
        Err(Error::Negative(what))
    }
}
