//! What can be set, with defaults. The binary reads this from TOML.

use crate::MetaError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use weft_env::Address;
use weft_journal::SyncPolicy;

/// Most groups that a cluster is founded with: each has slots enough to be moved to others later.
const GROUPS_MAX: u32 = 1024;

/// Settings of one metadata server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Directory of the journal and the images. Made if it is not there.
    pub dir: PathBuf,
    /// Where the view is kept: `file:/directory` (for the processes of one machine),
    /// `etcd://host:port,...` or `zookeeper://host:port,...`. Empty: in a file in `dir`, for a group of
    /// one member.
    pub coordinator: String,
    /// Address to listen on, `host:port`; port 0 takes a free one.
    pub listen: String,
    /// Address for metrics, `host:port`; none: not served.
    pub metrics_listen: Option<String>,
    /// The cluster this server belongs to; at most 64 bytes.
    pub cluster_id: String,
    /// The replica group.
    pub group: u32,
    /// With how many groups `weft init` founds the cluster: each gets the same part of the name space. Afterwards the
    /// coordinator's view says.
    pub groups: u32,
    /// This server's number among the members of its group, from 1.
    pub member: u32,
    /// The members that the group begins with, as whichever of them starts first says; that one is among them in any
    /// case. Later `weft group` says.
    pub members: Vec<u32>,
    /// How the members of the group find out who lives.
    pub group_terms: GroupTerms,
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
    /// For tests: the directory of the points at which this server is to end as if killed (`crash_points.rs`). No
    /// file can name it, and builds for production do not look there.
    #[serde(skip)]
    pub crash_points: Option<PathBuf>,
    /// A directory that has so many entries is spread over the groups by itself (where there are several), as
    /// `weft spread` does it. 0: none is.
    pub spread_entries: u64,
}

/// See [`Settings::group_terms`]. All members must have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupTerms {
    /// Milliseconds between two beats of an active.
    pub beat_ms: u64,
    /// Milliseconds without a sign of the active after which another is looked for, where members and network
    /// have been steady. Who answers a beat follows nobody else for as long.
    pub patience_ms: u64,
    /// Where they have not been, another is looked for after a multiple of the longest stall that was seen lately,
    /// but not later than this. Not more than `patience_ms`: the patience is always the same.
    pub patience_max_ms: u64,
    /// Whether an orderly end of a connection proves that the other's process has ended. False where
    /// something on the way ends connections by itself (a proxy, a service mesh).
    pub trust_closed_connections: bool,
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
    /// A pair of which less than so many per cent are free gets no new files while others have more, and nothing is moved
    /// there. 0: none is left out. At most 50.
    pub room_low_percent: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dir: PathBuf::from("/var/lib/weft/meta"),
            coordinator: String::new(),
            listen: "127.0.0.1:7400".into(),
            metrics_listen: None,
            cluster_id: "weft".into(),
            group: 0,
            groups: 1,
            member: 1,
            members: Vec::new(),
            group_terms: GroupTerms::default(),
            root_uid: 0,
            root_gid: 0,
            journal: JournalSettings::default(),
            session_term_ms: 5000,
            pair: PairSettings::default(),
            image_every_entries: 500_000,
            crash_points: None,
            spread_entries: 100_000,
        }
    }
}

fn listened<'a>(name: &str, written: &'a str) -> Result<Address<'a>, MetaError> {
    Address::to_listen(written).map_err(|why| MetaError::Settings(format!("{name}: {why}")))
}

/// Who answers a beat promises at most so much: a group whose active is gone waits for that.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(60);
/// The default of versions whose actives did not say what they count on: a member that was started may have
/// promised that.
pub(crate) const LEASE_BEFORE: Duration = Duration::from_millis(300);

impl Default for GroupTerms {
    fn default() -> GroupTerms {
        GroupTerms {
            beat_ms: 40,
            patience_ms: 120,
            patience_max_ms: 1_500,
            trust_closed_connections: true,
        }
    }
}

impl GroupTerms {
    /// Nobody waits longer for another member, nor gives a connection up before.
    pub(crate) fn patience_max(&self) -> Duration {
        Duration::from_millis(self.patience_ms.max(self.patience_max_ms))
    }

    pub(crate) fn terms(&self) -> weft_group::Terms {
        let patience = Duration::from_millis(self.patience_ms);
        weft_group::Terms {
            beat: Duration::from_millis(self.beat_ms),
            patience,
            patience_max: self.patience_max(),
            lease: patience,
            lease_before: patience.max(LEASE_BEFORE),
            // A round trip, and what a busy machine takes for it.
            asking: patience / 3,
            drop_after: 6 * patience,
            gap_max: 64,
            window: 64,
        }
    }
}

impl Default for PairSettings {
    fn default() -> PairSettings {
        PairSettings {
            lease_ms: 300,
            beat_ms: 50,
            alone_after_ms: 10_000,
            room_low_percent: 5,
        }
    }
}

impl Settings {
    /// Refuses what cannot work. A start does so too, before anything else.
    ///
    /// # Errors
    /// [`MetaError::Settings`]: what is wrong, and what would do.
    pub fn check(&self) -> Result<(), MetaError> {
        if !self.coordinator.is_empty() {
            self.coordinator.parse::<weft_coordinator::Place>()?;
        }
        self.check_beside_coordinator()
    }

    /// All but the coordinator's place, for where that is given otherwise.
    pub(crate) fn check_beside_coordinator(&self) -> Result<(), MetaError> {
        let refuse = |what: &str| Err(MetaError::Settings(what.to_owned()));
        if self.dir.as_os_str().is_empty() {
            return refuse("dir is not set: the directory of the journal and the images");
        }
        let listen = listened("listen", &self.listen)?;
        if listen.is_all() {
            return refuse(
                "listen is all addresses of this machine, and the others are told it: name the one at which they \
                 reach this server",
            );
        }
        if let Some(metrics) = &self.metrics_listen {
            let taken = listened("metrics_listen", metrics)?;
            if taken == listen && taken.port != 0 {
                return refuse("metrics_listen is the address of listen: take another port");
            }
        }
        if self.cluster_id.is_empty() || self.cluster_id.len() > 64 {
            return refuse("cluster_id must have 1 to 64 bytes");
        }
        if self.groups == 0 || self.groups > GROUPS_MAX {
            return refuse("groups must be 1 to 1024");
        }
        if self.pair.room_low_percent > 50 {
            return refuse("pair.room_low_percent must be 0 to 50");
        }
        if self.groups > 1 && self.coordinator.is_empty() {
            return refuse(
                "several groups need a coordinator that all of them reach: set coordinator, for example to \
                 file:/directory on one machine",
            );
        }
        if self.member == 0 {
            return refuse("member counts from 1");
        }
        if self.members.contains(&0) {
            return refuse("members count from 1");
        }
        if self.members.iter().any(|other| *other != self.member) && self.coordinator.is_empty() {
            return refuse(
                "a group of several members needs a coordinator that all of them reach: set \
                 coordinator, for example to file:/directory on one machine",
            );
        }
        let terms = &self.group_terms;
        if terms.beat_ms == 0 || terms.beat_ms.saturating_mul(3) > terms.patience_ms {
            return refuse(
                "group_terms.patience_ms must be at least three times group_terms.beat_ms, which is not 0",
            );
        }
        if Duration::from_millis(terms.patience_ms) > LEASE_MAX {
            return refuse(
                "group_terms.patience_ms must be at most 60000: nobody promises for longer",
            );
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
