//! What a data server counts, and the page that shows it (docs/operating/metrics.md).

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Reads of clients that were served.
pub(crate) const READS: &str = "weft_data_reads";
/// Bytes read by clients.
pub(crate) const READ_BYTES: &str = "weft_data_read_bytes";
/// Writes and other changes led for clients.
pub(crate) const WRITES: &str = "weft_data_writes";
/// Of these, writes of which the client itself sends the other copy to the twin.
pub(crate) const DRIVEN_WRITES: &str = "weft_data_driven_writes";
/// Bytes written by clients that this member led.
pub(crate) const WRITTEN_BYTES: &str = "weft_data_written_bytes";
/// Bytes taken from the twin as second copies.
pub(crate) const COPIED_BYTES: &str = "weft_data_copied_bytes";
/// Writes that waited for a new state of the pair because the twin did not answer.
pub(crate) const HELD_WRITES: &str = "weft_data_held_writes";
/// Changes that failed with an errno of a disk.
pub(crate) const DISK_ERRORS: &str = "weft_data_disk_errors";
/// 1 once the disk has failed: this member leaves the pair until it is started anew.
pub(crate) const DISK_FAILED: &str = "weft_data_disk_failed";
/// Reads of clients that were answered with the twin's bytes, since this member could not read its own.
pub(crate) const READS_OF_TWIN: &str = "weft_data_reads_of_twin";
/// Blocks found with a wrong checksum.
pub(crate) const BAD_BLOCKS: &str = "weft_data_bad_blocks";
/// Of these, blocks made good from the twin.
pub(crate) const HEALED_BLOCKS: &str = "weft_data_healed_blocks";
/// Regions whose copies were found to differ by a comparison that was ordered.
pub(crate) const MISMATCHES: &str = "weft_data_mismatched_regions";
/// Bytes that recovery has compared or sent.
pub(crate) const RECOVERED_BYTES: &str = "weft_data_recovered_bytes";
/// Milliseconds that recovery has been at it here.
pub(crate) const RECOVERY_MS: &str = "weft_data_recovery_ms";
/// Epoch of the pair's state in force here.
pub(crate) const EPOCH: &str = "weft_data_epoch";
/// 1 while this member may serve clients.
pub(crate) const SERVING: &str = "weft_data_serving";
/// Regions in the modified list.
pub(crate) const DIRTY_REGIONS: &str = "weft_data_dirty_regions";
/// Regions that recovery has still to compare.
pub(crate) const RECOVERY_LEFT: &str = "weft_data_recovery_regions_left";
/// Bytes that this member alone is known to have: it or the client owes the second copy.
pub(crate) const OWED_BYTES: &str = "weft_data_owed_bytes";
/// Age of the oldest of them, in milliseconds.
pub(crate) const OWED_MS: &str = "weft_data_owed_ms";
/// Bytes that are known to be lost: reading them fails.
pub(crate) const LOST_BYTES: &str = "weft_data_lost_bytes";
/// Bytes that may still be written to the store's file system.
pub(crate) const FREE_BYTES: &str = "weft_data_free_bytes";

/// Counters and gauges of one server.
pub(crate) struct Metrics {
    registry: Registry,
    pub reads: Counter,
    pub read_bytes: Counter,
    pub writes: Counter,
    pub driven_writes: Counter,
    pub written_bytes: Counter,
    pub copied_bytes: Counter,
    pub held_writes: Counter,
    pub disk_errors: Counter,
    pub disk_failed: Gauge,
    pub reads_of_twin: Counter,
    pub bad_blocks: Counter,
    pub healed_blocks: Counter,
    pub mismatches: Counter,
    pub recovered_bytes: Counter,
    pub recovery_ms: Counter,
    pub epoch: Gauge,
    pub serving: Gauge,
    pub dirty_regions: Gauge,
    pub recovery_left: Gauge,
    pub owed_bytes: Gauge,
    pub owed_ms: Gauge,
    pub lost_bytes: Gauge,
    pub free_bytes: Gauge,
}

impl Metrics {
    pub fn new() -> Metrics {
        let mut registry = Registry::default();
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let reads = counter(READS, "Reads served");
        let read_bytes = counter(READ_BYTES, "Bytes read by clients");
        let writes = counter(WRITES, "Changes led for clients");
        let driven_writes = counter(
            DRIVEN_WRITES,
            "Writes whose client sends the other copy itself",
        );
        let written_bytes = counter(WRITTEN_BYTES, "Bytes written by clients, led here");
        let copied_bytes = counter(COPIED_BYTES, "Bytes taken from the twin as second copies");
        let held_writes = counter(
            HELD_WRITES,
            "Changes that waited for a new state of the pair",
        );
        let disk_errors = counter(
            DISK_ERRORS,
            "Operations that failed with an errno of the disk",
        );
        let reads_of_twin = counter(
            READS_OF_TWIN,
            "Reads answered with the twin's bytes, since this member could not read its own",
        );
        let bad_blocks = counter(BAD_BLOCKS, "Blocks found with a wrong checksum");
        let healed_blocks = counter(HEALED_BLOCKS, "Bad blocks made good from the twin");
        let mismatches = counter(MISMATCHES, "Regions whose copies differed in a comparison");
        let recovered_bytes = counter(RECOVERED_BYTES, "Bytes compared or sent by recovery");
        let recovery_ms = counter(RECOVERY_MS, "Milliseconds that recovery was at it");
        let mut gauge = |name: &str, help: &str| {
            let gauge: Gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let epoch = gauge(EPOCH, "Epoch of the pair's state in force here");
        let serving = gauge(SERVING, "1 while this member may serve clients");
        let disk_failed = gauge(
            DISK_FAILED,
            "1 once the disk has failed: this member leaves the pair until it is started anew",
        );
        let dirty_regions = gauge(DIRTY_REGIONS, "Regions in the modified list");
        let recovery_left = gauge(RECOVERY_LEFT, "Regions that recovery has still to compare");
        let owed_bytes = gauge(OWED_BYTES, "Bytes that this member alone is known to have");
        let owed_ms = gauge(OWED_MS, "Age of the oldest of them, in milliseconds");
        let lost_bytes = gauge(LOST_BYTES, "Bytes that are known to be lost");
        let free_bytes = gauge(FREE_BYTES, "Bytes that may still be written");
        Metrics {
            registry,
            reads,
            read_bytes,
            writes,
            driven_writes,
            written_bytes,
            copied_bytes,
            held_writes,
            disk_errors,
            disk_failed,
            reads_of_twin,
            bad_blocks,
            healed_blocks,
            mismatches,
            recovered_bytes,
            recovery_ms,
            epoch,
            serving,
            dirty_regions,
            recovery_left,
            owed_bytes,
            owed_ms,
            lost_bytes,
            free_bytes,
        }
    }

    /// The page in the text format of Prometheus.
    pub fn page(&self) -> String {
        let mut page = String::new();
        encode(&mut page, &self.registry).expect("a String takes everything");
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_page_names_every_figure() {
        let page = include_str!("../../../docs/operating/metrics.md");
        let metrics = Metrics::new().page();
        let types = metrics.lines().filter_map(|l| l.strip_prefix("# TYPE "));
        let mut count = 0;
        for line in types {
            let (name, kind) = line.split_once(' ').unwrap();
            let shown = match kind {
                "counter" => format!("| `{name}_total` | counter |"),
                _ => format!("| `{name}` | gauge |"),
            };
            assert!(page.contains(&shown), "{shown}");
            count += 1;
        }
        assert_eq!(page.matches("| `weft_data_").count(), count);
    }
}
