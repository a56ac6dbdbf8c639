//! All of it for one protocol.

use crate::chain::{Chain, Safety};
use crate::consistency::Exposure;
use crate::inputs::{Assumed, Measured, Protocol};
use crate::limits::striping;
use crate::{Error, availability};

/// Whose protocols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scheme {
    /// The paper's: the primary leads all writes, and nobody else has what it owes.
    Ceft,
    /// Weft's: roles turn, and the client keeps what only one member has.
    Weft,
}

/// What to expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// What a member's death costs.
    pub exposure: Exposure,
    /// Mean time to data loss, seconds.
    pub mttdl: f64,
    /// With the time to repair a node as the system's.
    pub availability: f64,
    /// Times the mean time to data loss of as many nodes without mirrors.
    pub times_striping: f64,
}

/// What to expect of a cluster under a load if all files are written with one protocol.
///
/// # Errors
/// If the model says nothing about it.
pub fn forecast(
    protocol: Protocol,
    scheme: Scheme,
    assumed: &Assumed,
    load: &Measured,
) -> Result<Forecast, Error> {
    let exposure = match scheme {
        Scheme::Ceft => Exposure::ceft(protocol, load),
        Scheme::Weft => Exposure::weft(protocol, assumed, load),
    };
    let mttdl = Chain::new(assumed, load, exposure, Safety::Counted)?.mttdl()?;
    let bare = striping(2 * assumed.pairs, assumed.mttf_node, assumed.mttf_switch);
    Ok(Forecast {
        exposure,
        mttdl,
        availability: availability(mttdl, load.repair),
        times_striping: mttdl / bare,
    })
}
