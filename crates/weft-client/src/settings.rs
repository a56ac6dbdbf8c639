//! Settings of a client, as they stand in a configuration file.

use serde::{Deserialize, Serialize};
use weft_env::Address;

/// Settings of a client. All have defaults but `meta` and `cluster_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Addresses (`host:port`) of the metadata servers.
    pub meta: Vec<String>,
    /// The cluster to join; another one is refused.
    pub cluster_id: String,
    /// What the client calls itself, for people.
    pub name: String,
    /// How long what this client holds stays its own if it is not heard of, in milliseconds, at least 500: shorter
    /// than the service's own term, so that who takes its place waits less. 0: that.
    pub session_term_ms: u64,
    /// How long what this client holds on behalf of others is kept for them after its session has ended, in milliseconds;
    /// at most 10 minutes. 0: not at all.
    pub session_keep_ms: u64,
    /// This client writes nothing but the copies of files that it moves: no byte of a file is missing when it ends.
    pub only_moves: bool,
    /// How long an operation waits for servers that do not serve before it fails with EIO.
    pub patience_ms: u64,
    /// Bytes written by applications that may wait here for the data servers.
    pub write_buffer_bytes: u64,
    /// Bytes that may be on their way to the data servers at a time.
    pub write_window_bytes: u64,
    /// Asynchronous protocols: bytes that one data server alone may have, 0 for none; they stay in the
    /// write buffer until its twin has them too.
    pub owed_bytes: u64,
    /// Asynchronous protocols: once the oldest of them has been so for this long, nothing more is
    /// sent.
    pub owed_ms: u64,
    /// Buffered bytes older than this are flushed without being asked.
    pub flush_age_ms: u64,
    /// A close waits until what was written is on both copies. Otherwise it waits only where that
    /// might fail (`docs/protocols/a-write.md`).
    pub close_waits: bool,
    /// Largest message to a data server, in bytes of data (4 KiB to 1 MiB).
    pub piece_bytes: u32,
    /// How far ahead of a sequential reader data is fetched; 0 switches it off.
    pub readahead_bytes: u64,
    /// Inodes that may be cached.
    pub cached_inodes: usize,
    /// Write atime as relatime does; else never.
    pub relatime: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            meta: Vec::new(),
            cluster_id: String::new(),
            name: String::new(),
            session_term_ms: 0,
            session_keep_ms: 0,
            only_moves: false,
            patience_ms: 60_000,
            write_buffer_bytes: 256 << 20,
            write_window_bytes: 16 << 20,
            owed_bytes: 64 << 20,
            owed_ms: 1_000,
            flush_age_ms: 2_000,
            close_waits: false,
            piece_bytes: 256 << 10,
            readahead_bytes: 8 << 20,
            cached_inodes: 200_000,
            relatime: true,
        }
    }
}

impl Settings {
    /// Refuses what cannot work, as connecting does before anything else.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn check(&self) -> Result<(), String> {
        if self.meta.is_empty() {
            return Err("`meta` names no metadata server".into());
        }
        for address in &self.meta {
            Address::to_connect(address).map_err(|why| format!("`meta`: {why}"))?;
        }
        if self.cluster_id.is_empty() {
            return Err(
                "`cluster_id` is not set: what the cluster was founded as (`weft status` shows it)"
                    .into(),
            );
        }
        Ok(())
    }
}
