//! Settings of a data server, as they stand in a configuration file.

use crate::server::DataError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weft_env::{Address, NoAddress};
use weft_types::Member;

/// Settings of a data server. All have defaults but `dir`, `meta` and `cluster_id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where the objects are kept; made a store if it is empty.
    pub dir: PathBuf,
    /// Address (`host:port`) to listen on; port 0 takes a free one.
    pub listen: String,
    /// Address that clients and the twin are told; empty: the one listened on.
    pub advertise: String,
    /// The pair this server belongs to.
    pub pair: u32,
    /// Which member of it: 0 or 1.
    pub member: u32,
    /// Addresses of the metadata servers.
    pub meta: Vec<String>,
    /// The cluster to join; another one is refused.
    pub cluster_id: String,
    /// Address for the metrics page; empty: none.
    pub metrics_listen: String,
    /// Share of the bandwidth that recovery gets while clients use the server, 0.01 to 1.
    pub recovery_share: f64,
    /// Recovery never moves more bytes in a second; 0: no bound.
    pub recovery_bytes_per_s: u64,
    /// A scrub or comparison reads no more bytes in a second; 0: no bound.
    pub scrub_bytes_per_s: u64,
    /// A link to the twin, or a metadata server, that does not answer for this long counts as
    /// broken.
    pub link_patience_ms: u64,
    /// A region leaves the modified list this long after the last write to it. By then the
    /// operating system has written it to disk by itself, so that making sure costs little.
    pub clear_after_ms: u64,
    /// `server-async`: bytes that this server may have acknowledged alone, without its twin; 0: none.
    pub owed_bytes: u64,
    /// `server-async`: once the oldest of them has been so for this long, nothing more is
    /// acknowledged alone.
    pub owed_ms: u64,
    /// Bytes of writes that all clients together should have under way at this server: as much as keeps
    /// links and disks busy. Each that writes gets an equal part, but not less than one message.
    pub intake_bytes: u64,
    /// Marks of the modified list survive a power cut before the write they announce begins. Costs
    /// a flush for each region that is newly written.
    pub sync_marks: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dir: PathBuf::new(),
            listen: "127.0.0.1:0".into(),
            advertise: String::new(),
            pair: 0,
            member: 0,
            meta: Vec::new(),
            cluster_id: String::new(),
            metrics_listen: String::new(),
            recovery_share: 0.3,
            recovery_bytes_per_s: 0,
            scrub_bytes_per_s: 64 << 20,
            link_patience_ms: 1000,
            clear_after_ms: 60_000,
            owed_bytes: 64 << 20,
            owed_ms: 1_000,
            intake_bytes: 4 << 20,
            sync_marks: false,
        }
    }
}

impl Settings {
    /// Refuses what cannot work, as a start does before anything else; which member of the pair this is.
    ///
    /// # Errors
    /// [`DataError::Setting`]: what is wrong, and what would do.
    pub fn check(&self) -> Result<Member, DataError> {
        let bad = |name, why: &str| {
            Err(DataError::Setting {
                name,
                why: why.into(),
            })
        };
        let Some(member) = Member::from_index(self.member) else {
            let why = format!("{} is neither 0 nor 1", self.member);
            return bad("member", &why);
        };
        if self.dir.as_os_str().is_empty() {
            return bad("dir", "is not set: where the objects are kept");
        }
        if self.meta.is_empty() {
            return bad("meta", "names no metadata server");
        }
        for address in &self.meta {
            written("meta", Address::to_connect(address))?;
        }
        let listen = written("listen", Address::to_listen(&self.listen))?;
        if !self.advertise.is_empty() {
            let told = written("advertise", Address::to_connect(&self.advertise))?;
            if told.is_all() {
                return bad(
                    "advertise",
                    "is no address at which others reach this server",
                );
            }
        } else if listen.is_all() {
            return bad(
                "listen",
                "is all addresses of this machine, and the others are told it: name the one at which they reach this \
                 server, or set advertise",
            );
        }
        if !self.metrics_listen.is_empty() {
            let metrics = written("metrics_listen", Address::to_listen(&self.metrics_listen))?;
            if metrics == listen && metrics.port != 0 {
                return bad(
                    "metrics_listen",
                    "is the address of listen: take another port",
                );
            }
        }
        if self.cluster_id.is_empty() {
            return bad("cluster_id", "is not set");
        }
        if self.link_patience_ms == 0 {
            return bad("link_patience_ms", "must be above 0");
        }
        Ok(member)
    }
}

fn written<'a>(
    name: &'static str,
    parsed: Result<Address<'a>, NoAddress>,
) -> Result<Address<'a>, DataError> {
    parsed.map_err(|why| DataError::Setting {
        name,
        why: why.to_string(),
    })
}
