//! What can be set, with defaults. The binary reads this from TOML.

use crate::MetaError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use weft_journal::SyncPolicy;

/// Settings of one metadata server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Directory of the journal, the images and the view. Made if it is not there.
    pub dir: PathBuf,
    /// Address to listen on, `host:port`; port 0 takes a free one.
    pub listen: String,
    /// Address for metrics, `host:port`; none: not served.
    pub metrics_listen: Option<String>,
    /// The cluster this server belongs to; at most 64 bytes.
    pub cluster_id: String,
    /// The replica group.
    pub group: u32,
    /// This server's number among the members of its group, from 1.
    pub member: u32,
    /// Owner of the root directory of a name space that is made now; later chown says.
    pub root_uid: u32,
    /// Its group.
    pub root_gid: u32,
    /// The journal.
    pub journal: JournalSettings,
    /// Milliseconds without a renewal after which a client's session ends. A client renews three
    /// times in it.
    pub session_term_ms: u64,
    /// The pairs of data servers.
    pub pair: PairSettings,
    /// Entries of the journal after which an image is written. In a name space with more than twice
    /// as many inodes half the number of inodes counts instead, so that images do not take more and
    /// more of the server's time.
    pub image_every_entries: u64,
}

/// See [`Settings::journal`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// When a change counts as written: `always`, `group` or `never` (see
    /// `docs/formats/journal.md`).
    pub sync: SyncPolicy,
}

/// See [`Settings::pair`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairSettings {
    /// Milliseconds for which an answered beat lets a data server serve.
    pub lease_ms: u64,
    /// Milliseconds between two beats of a data server.
    pub beat_ms: u64,
    /// Milliseconds that the first of two members, both of which were away, waits for the second.
    pub alone_after_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dir: PathBuf::from("/var/lib/weft/meta"),
            listen: "127.0.0.1:7400".into(),
            metrics_listen: None,
            cluster_id: "weft".into(),
            group: 0,
            member: 1,
            root_uid: 0,
            root_gid: 0,
            journal: JournalSettings::default(),
            session_term_ms: 5000,
            pair: PairSettings::default(),
            image_every_entries: 500_000,
        }
    }
}

impl Default for PairSettings {
    fn default() -> PairSettings {
        PairSettings {
            lease_ms: 300,
            beat_ms: 50,
            alone_after_ms: 10_000,
        }
    }
}

impl Settings {
    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), MetaError> {
        let refuse = |what: &str| Err(MetaError::Settings(what.to_owned()));
        if self.cluster_id.is_empty() || self.cluster_id.len() > 64 {
            return refuse("cluster_id must have 1 to 64 bytes");
        }
        if self.member == 0 {
            return refuse("member counts from 1");
        }
        if self.root_uid == u32::MAX || self.root_gid == u32::MAX {
            return refuse("root_uid and root_gid must be ids: 4294967295 is none");
        }
        if self.session_term_ms < 100 {
            return refuse("session_term_ms must be at least 100: clients renew three times in it");
        }
        if self.pair.beat_ms == 0 || self.pair.beat_ms.saturating_mul(2) > self.pair.lease_ms {
            return refuse("pair.lease_ms must be at least twice pair.beat_ms, which is not 0");
        }
        if self.image_every_entries == 0 {
            return refuse("image_every_entries must not be 0");
        }
        Ok(())
    }

    pub(crate) fn session_term(&self) -> Duration {
        Duration::from_millis(self.session_term_ms)
    }

    pub(crate) fn terms(&self) -> weft_pair::Terms {
        weft_pair::Terms {
            lease: Duration::from_millis(self.pair.lease_ms),
            alone_after: Duration::from_millis(self.pair.alone_after_ms),
            ..weft_pair::Terms::default()
        }
    }
}
