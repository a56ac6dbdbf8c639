//! What the death of one member of a sound pair costs under each protocol.

use crate::inputs::{Assumed, Measured, Protocol};

/// The probability that the death of a member of a sound pair loses data that the other member does not
/// have yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// For the member of the primary group.
    pub primary: f64,
    /// For the member of the backup group.
    pub backup: f64,
}

/// The probability that a pair is consistent: that nothing waits to be duplicated (CEFT 6.1, equation 1).
///
/// The queue of duplications is M/M/1, and is empty with the probability 1 - MTTD/MTTW. A queue that cannot
/// keep up is never empty.
pub fn consistent(mttd: f64, mttw: f64) -> f64 {
    // Also where both are without end.
    if mttd == 0.0 || mttw.is_infinite() && mttd.is_finite() {
        return 1.0;
    }
    if mttd >= mttw {
        return 0.0;
    }
    1.0 - mttd / mttw
}

impl Exposure {
    /// Nothing is held by one member only.
    pub const NONE: Exposure = Exposure {
        primary: 0.0,
        backup: 0.0,
    };

    /// CEFT's (section 6.1): the primary leads all writes and whatever waits for duplication dies with it;
    /// the backup's death loses nothing.
    ///
    /// The hybrid, which the paper leaves out of its model, is one protocol or the other at a time. Jobs come and go
    /// within hours and nodes fail within months, so that a failure meets either in proportion to its
    /// time: the exposures are mixed by that share. The mixture of the mean times to data loss
    /// would be wrong, since it supposes that the protocol drawn first stays for ever.
    pub fn ceft(protocol: Protocol, load: &Measured) -> Exposure {
        let of = |mttd| 1.0 - consistent(mttd, load.mttw);
        Exposure {
            primary: mixed(protocol, load, of),
            backup: 0.0,
        }
    }

    /// Weft's, which differs from CEFT's in two things.
    ///
    /// Roles turn with the stripe. Each member leads half of the writes, so each has a queue with half of
    /// the arrivals, and its death loses what waits in its own.
    ///
    /// The client keeps what only one member holds, and sends it again if that member dies. So a write is
    /// lost only if its writer is dead as well. Let a member that leads die at time 0, and let a write
    /// that waits have the age a. Its writer cannot help if it died before the member, after -a (when it died before
    /// the write, there was none), or after it, before it has noticed and sent everything again. `window`
    /// is what comes on top of the age:
    ///
    /// - afterwards, the time to notice a member's death and to send again;
    /// - before, under `client-async`, the time for which a dead client's debt stays open: the second copy does
    ///   not come, until its lease ends and the pair makes its copies equal. Under
    ///   `server-async` the leader goes on without the client.
    ///
    /// Both are lengths of time in which one death at a rate of 1/`mttf_client` decides, so only their sum counts
    /// (to the first order in window/`mttf_client`). In an M/M/1 queue with arrivals at rate r and a
    /// drain of v = 1/MTTD - r, writes with an age above a wait in a number of (r/v) exp(-v a) on
    /// the average: a write stays that long with probability exp(-v a). So the mean number of lost writes is
    ///
    /// ```text
    /// r * integral of exp(-v a) (1 - exp(-c (a + window))) da,   c = 1/mttf_client
    ///   = r (1/v - exp(-c window)/(v + c))
    /// ```
    ///
    /// which bounds the probability that any is lost, whoever wrote them. The probability that something waits at all,
    /// which is CEFT's exposure, bounds it too; it is reached as clients become less and less
    /// reliable.
    pub fn weft(protocol: Protocol, assumed: &Assumed, load: &Measured) -> Exposure {
        let client = 1.0 / assumed.mttf_client;
        let of = |mttd: f64| {
            let waiting = 1.0 - consistent(mttd, 2.0 * load.mttw);
            if waiting == 0.0 || waiting == 1.0 {
                return waiting;
            }
            let arrivals = 0.5 / load.mttw;
            let drain = 1.0 / mttd - arrivals;
            let dies_in_window = -(-client * load.window).exp_m1();
            // The difference above, without its cancellation.
            let lost = arrivals * (client + drain * dies_in_window) / (drain * (drain + client));
            lost.min(waiting)
        };
        let exposure = mixed(protocol, load, of);
        Exposure {
            primary: exposure,
            backup: exposure,
        }
    }
}

fn mixed(protocol: Protocol, load: &Measured, exposure: impl Fn(f64) -> f64) -> f64 {
    match protocol {
        Protocol::ServerSync | Protocol::ClientSync => 0.0,
        Protocol::ServerAsync => exposure(load.mttd.server_async),
        Protocol::ClientAsync => exposure(load.mttd.client_async),
        Protocol::Hybrid => load.async_share * exposure(load.mttd.client_async),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NEVER;
    use crate::inputs::Mttd;

    const LOAD: Measured = Measured {
        mttw: 60.0,
        mttd: Mttd {
            server_async: 6.0,
            client_async: 3.0,
        },
        repair: 1.0,
        async_share: 0.5,
        window: 10.0,
    };

    fn clients(mttf_client: f64) -> Assumed {
        Assumed {
            pairs: 1,
            mttf_node: 1.0,
            mttf_switch: NEVER,
            mttf_client,
        }
    }

    #[test]
    fn a_pair_is_consistent_while_its_queue_is_empty() {
        assert_eq!(consistent(0.0, 60.0), 1.0);
        assert_eq!(consistent(6.0, 60.0), 0.9);
        assert_eq!(consistent(60.0, 60.0), 0.0);
        assert_eq!(consistent(61.0, 60.0), 0.0);
        assert_eq!(consistent(NEVER, 60.0), 0.0);
        assert_eq!(consistent(NEVER, NEVER), 0.0);
        assert_eq!(consistent(6.0, NEVER), 1.0);
    }

    #[test]
    fn the_hybrid_mixes_exposures() {
        let async_ = Exposure::ceft(Protocol::ClientAsync, &LOAD);
        let hybrid = Exposure::ceft(Protocol::Hybrid, &LOAD);
        assert_eq!(hybrid.primary, async_.primary / 2.0);
        assert_eq!(Exposure::ceft(Protocol::ServerSync, &LOAD), Exposure::NONE);
    }

    #[test]
    fn clients_that_never_die_lose_nothing_and_clients_that_die_at_once_are_of_no_use() {
        let of = |mttf| Exposure::weft(Protocol::ServerAsync, &clients(mttf), &LOAD).primary;
        assert_eq!(of(NEVER), 0.0);
        // Half of the writes wait at each member.
        assert!((of(1e-9) - 0.05).abs() < 1e-12);
        let year = of(365.0 * 86400.0);
        assert!(year > 0.0 && year < 0.05 * 1e-6, "{year}");
    }

    #[test]
    fn what_clients_lose_grows_with_window_and_with_age() {
        // Small rates: number waiting (r/v) times (window + mean age 1/v) times the rate of deaths.
        let mttf = 1e9;
        let lost = Exposure::weft(Protocol::ServerAsync, &clients(mttf), &LOAD).primary;
        let (arrivals, drain) = (1.0 / 120.0, 1.0 / 6.0 - 1.0 / 120.0);
        let expected = arrivals / drain * (LOAD.window + 1.0 / drain) / mttf;
        assert!((lost / expected - 1.0).abs() < 1e-6, "{lost} {expected}");
    }

    #[test]
    fn a_queue_that_cannot_keep_up_keeps_nothing_safe() {
        let load = Measured {
            mttd: Mttd {
                server_async: 121.0,
                client_async: 3.0,
            },
            ..LOAD
        };
        let exposure = Exposure::weft(Protocol::ServerAsync, &clients(1e9), &load);
        assert_eq!(exposure.backup, 1.0);
    }
}
