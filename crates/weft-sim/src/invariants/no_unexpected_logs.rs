//! Nothing is logged as odd (WARN) or for someone to look at (ERROR) that the faults of the run do not
//! explain; in a calm run nothing at all. A line that cries wolf would teach operators to look away.

use super::losses_named::MAY_BE_FORGOTTEN;
use crate::LogLine;
use crate::cluster::faults::Kind;
use std::collections::BTreeSet;
use tracing::Level;

/// Faults by which a client's renewals do not arrive for as long as a session's term.
const SESSION_ENDS: &[Kind] = &[
    Kind::ClientKill,
    Kind::ClientPause,
    Kind::ClientCut,
    Kind::Cut,
    Kind::OneWayCut,
    Kind::CutOff,
    Kind::Unheard,
];
/// Faults by which connections end, some before their handshakes have.
const CONNECTION_ENDS: &[Kind] = &[
    Kind::MetaKill,
    Kind::MetaPower,
    Kind::MetaPause,
    Kind::ClientKill,
    Kind::ClientPause,
    Kind::ClientCut,
    Kind::Cut,
    Kind::OneWayCut,
    Kind::Slow,
    Kind::Reset,
    Kind::DataKill,
    Kind::DataPower,
    Kind::DataPause,
    Kind::DataCut,
    Kind::Wipe,
    // Its server is started again with another one.
    Kind::DiskDies,
    Kind::CutOff,
    Kind::Unheard,
];
const DISKS: &[Kind] = &[Kind::DiskFull, Kind::DiskError, Kind::DiskDies];
const FAILING: &[Kind] = &[Kind::DiskError, Kind::DiskDies];
const BAD_BLOCKS: &[Kind] = &[
    Kind::BitFlip,
    Kind::DiskError,
    Kind::DiskFull,
    Kind::DataPower,
    Kind::DiskDies,
];
const META_DIES: &[Kind] = &[Kind::MetaKill, Kind::MetaPower];
const REFUSALS: &[Kind] = &[Kind::Refusals];
const META_FULL: &[Kind] = &[Kind::MetaFull];
const META_DISK: &[Kind] = &[Kind::MetaDiskError];

/// How a message begins, and any one of the faults that explain it.
const EXPLAINED: &[(&str, &[Kind])] = &[
    // Its client is dead, or could not renew it.
    ("session ends: not renewed in time", SESSION_ENDS),
    // A client that leaves waits but a moment for the answer. That one lost its session which works,
    // the errors that its callers are told say.
    ("session ends: not renewed in time", META_DIES),
    (
        "a session has not given a lease back in its term",
        SESSION_ENDS,
    ),
    ("the session has been ended", SESSION_ENDS),
    ("a write lease was lost", SESSION_ENDS),
    // Of a file whose last name had gone, and that its release, unanswered, had removed. That a lease
    // on another one is not lost so, the errors that its writer would be told say.
    ("a write lease was lost", META_DIES),
    ("a write lease was lost", &[Kind::MetaPause]),
    ("file locks were lost", SESSION_ENDS),
    ("written bytes are lost", SESSION_ENDS),
    // The service went away again and again, for as long as a client's patience: that it waited so
    // long, the errors that its callers are told say.
    ("written bytes are lost", META_DIES),
    ("size and times were not taken", SESSION_ENDS),
    // Cut off, or standing still, before it had said who it is. (One that hangs up is no warning.)
    ("handshake refused", CONNECTION_ENDS),
    // Whoever was asked for one has died, is cut off or waits for its disk: others are asked.
    ("no image from there", CONNECTION_ENDS),
    // Nothing comes back: the other side is gone, cut off, or waits for its disk.
    ("silent", CONNECTION_ENDS),
    ("silent", &[Kind::DiskHang]),
    // A full or failing disk refuses writes and syncs, and what was buffered by then has nowhere to go.
    ("the store refused an operation", DISKS),
    ("pairs with little room", &[Kind::DiskFull]),
    ("the pair's epoch could not be recorded", DISKS),
    ("objects could not be made stable", DISKS),
    ("an object could not be made stable", DISKS),
    ("cannot undo a failed write", DISKS),
    ("a region cannot be made equal now", DISKS),
    ("a refused write cannot be undone now", DISKS),
    ("housekeeping of the modified list failed", DISKS),
    ("cannot write the modified list anew", DISKS),
    ("no room in the modified list", DISKS),
    ("cannot read a checksum page", DISKS),
    ("bad blocks were not healed", DISKS),
    ("written bytes are lost", DISKS),
    ("write-back for a revocation failed", DISKS),
    ("write-back for a revocation failed", &[Kind::Unheard]),
    // Its member leaves the pair.
    ("the disk fails", FAILING),
    // No room for what a new store holds, or its disk fails as it is opened.
    ("a server could not be started", DISKS),
    // Written in part, or turned over by a disk; the twin has the block.
    ("bad blocks were healed", BAD_BLOCKS),
    ("a checksum page is damaged", BAD_BLOCKS),
    ("bad blocks would be written in part", BAD_BLOCKS),
    // That is what an operator does then.
    (
        "an operator says that this member's directory is lost",
        &[Kind::MetaWipe],
    ),
    // Of a write that nobody had been told of: that others can be read, the last reader says.
    (
        "blocks are bad and there is no other current copy",
        BAD_BLOCKS,
    ),
    ("blocks are bad in the copy that counts", BAD_BLOCKS),
    // A write of a part of such a block, which cannot be made whole again.
    ("written bytes are lost", BAD_BLOCKS),
    // A batch was being written when the server died: nobody had been told of it.
    ("cutting the torn tail of the journal", META_DIES),
    // A client gave leases back, and the connection or the server ended before that was journaled.
    (
        "settling files whose leases were given back",
        CONNECTION_ENDS,
    ),
    // A client and a data server died within the same window.
    ("lost with a data server and the client", SESSION_ENDS),
    // Of one that left unheard: to the service it has died.
    ("lost with a data server and the client", META_DIES),
    (
        "the twin is back, but may have lost what it had alone",
        &[Kind::DataPower],
    ),
    // Of a pair whose other member was away.
    (MAY_BE_FORGOTTEN, &[Kind::DataPower]),
    ("written bytes may be lost", &[Kind::DataPower]),
    ("what was lost cannot be taken back", DISKS),
    ("what was lost cannot be taken back", BAD_BLOCKS),
    // A client had died with a write at that twin only, and the twin's power cut has taken its mark and not its bytes.
    ("somebody has cut off a part", &[Kind::DataPower]),
    // A power cut left records out of order; everything is compared then.
    ("the modified list is damaged", &[Kind::DataPower]),
    // A metadata server's disk has no room for a while, or fails: others have the journal, too.
    ("the journal's disk is full", META_FULL),
    ("writing an image failed", META_FULL),
    ("size and times were not taken", META_FULL),
    ("the journal cannot be written", META_DISK),
    ("this server takes no part in its group", META_DISK),
    ("a server could not be started", META_FULL),
    ("a server could not be started", META_DISK),
    // Where it notes that its journal is whole.
    ("a restart of this server will not count", META_FULL),
    ("a restart of this server will not count", META_DISK),
    ("writing an image failed", META_DISK),
    // That is what being stopped is.
    ("this server stood still", &[Kind::MetaPause]),
];

/// A mover is a client on the node of a data server, and its sessions are called this.
const MOVER: &str = "mover at ";
/// What is said of a file that a mover could not move for these reasons, and the faults that explain it.
const NOT_MOVED: &str = "a file cannot be moved now";
const NOT_MOVED_FOR: &[(&str, &[&[Kind]])] = &[
    ("Disk quota exceeded", &[REFUSALS]),
    // A pair, or the service, was away for a mover's patience; or what is to be copied cannot be read.
    (
        "Input/output error",
        &[CONNECTION_ENDS, DISKS, BAD_BLOCKS, REFUSALS],
    ),
    ("No space left", &[DISKS, META_FULL, REFUSALS]),
];

/// What the servers of a pair are to say that the run's operator has drained, until it lets them in again.
const REFUSES: &str = "the metadata service refuses this server";
const REMOVED: &str = "was drained and removed";
/// What one with a new store is told while the end of the process before it has not been heard of.
const REPLACED_SOON: &str = "another process with another store serves";

/// Judges the grave lines of a run by the faults that it had.
///
/// # Errors
/// The lines that nothing explains.
pub fn check(lines: &[LogLine], faults: &BTreeSet<Kind>) -> Result<(), String> {
    let unexpected: Vec<String> = lines
        .iter()
        .filter(|line| line.level <= Level::WARN && !is_explained(line, faults))
        .map(LogLine::to_string)
        .collect();
    if unexpected.is_empty() {
        return Ok(());
    }
    let first = &unexpected[..unexpected.len().min(5)];
    Err(format!(
        "{} log lines that the faults {faults:?} do not explain:\n  {}",
        unexpected.len(),
        first.join("\n  ")
    ))
}

fn is_explained(line: &LogLine, faults: &BTreeSet<Kind>) -> bool {
    if line.message.starts_with(REFUSES) && line.text.contains(REMOVED) {
        return true;
    }
    if line.text.contains(REPLACED_SOON) && faults.contains(&Kind::Wipe) {
        return true;
    }
    if line.message.starts_with(NOT_MOVED) {
        return NOT_MOVED_FOR.iter().any(|(why, kinds)| {
            let mut kinds = kinds.iter().copied().flatten();
            line.text.contains(why) && kinds.any(|kind| faults.contains(kind))
        });
    }
    let is_of_mover = line.text.contains(MOVER)
        || (line.node.starts_with("data") && line.target.starts_with("weft_client"));
    let befell = |kind: &Kind| {
        faults.contains(kind) || (is_of_mover && faults.iter().any(|at| of_client(*at) == *kind))
    };
    EXPLAINED
        .iter()
        .any(|(message, kinds)| line.message.starts_with(message) && kinds.iter().any(befell))
}

/// What befalls a data server's node, as the client there sees it.
fn of_client(kind: Kind) -> Kind {
    match kind {
        Kind::DataKill | Kind::DataPower | Kind::Wipe => Kind::ClientKill,
        // A mover whose write failed leaves its session to the term, for nobody knows whether it is done.
        kind if DISKS.contains(&kind) || REFUSALS.contains(&kind) => Kind::ClientKill,
        Kind::DataPause => Kind::ClientPause,
        Kind::DataCut => Kind::ClientCut,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: Level, message: &str) -> LogLine {
        LogLine {
            nanos: 5,
            node: "meta".into(),
            level,
            target: "weft_meta".into(),
            text: format!("{message} session=5"),
            message: message.into(),
        }
    }

    #[test]
    fn a_line_needs_a_fault_that_explains_it() {
        let ends = line(Level::WARN, "session ends: not renewed in time");
        let strange = line(Level::ERROR, "a batch was lost");
        let told = line(Level::INFO, "serving");
        let calm = BTreeSet::new();
        let kill = BTreeSet::from([Kind::ClientKill]);
        let other = BTreeSet::from([Kind::DataKill]);
        assert!(check(&[ends.clone(), told.clone()], &kill).is_ok());
        assert!(check(std::slice::from_ref(&ends), &calm).is_err());
        assert!(check(&[ends], &other).is_err());
        assert!(check(&[strange], &kill).is_err());
        assert!(check(&[told], &calm).is_ok());
        let mut refused = line(Level::ERROR, REFUSES);
        assert!(check(std::slice::from_ref(&refused), &calm).is_err());
        refused.text = format!("{REFUSES} why=pair 1 {REMOVED}");
        assert!(check(&[refused], &calm).is_ok());
    }

    #[test]
    fn a_mover_suffers_what_its_data_server_does() {
        let mut ends = line(Level::WARN, "session ends: not renewed in time");
        let kill = BTreeSet::from([Kind::DataKill]);
        assert!(check(std::slice::from_ref(&ends), &kill).is_err());
        ends.text.push_str(" name=\"mover at data0.1\"");
        assert!(check(std::slice::from_ref(&ends), &kill).is_ok());
        let disk = BTreeSet::from([Kind::DiskError]);
        assert!(check(std::slice::from_ref(&ends), &disk).is_ok());
        assert!(check(&[ends], &BTreeSet::from([Kind::BitFlip])).is_err());
        let mut stays = line(Level::WARN, NOT_MOVED);
        assert!(check(std::slice::from_ref(&stays), &kill).is_err());
        stays
            .text
            .push_str("inode 2: Input/output error (os error 5)");
        assert!(check(std::slice::from_ref(&stays), &kill).is_ok());
        assert!(check(&[stays], &BTreeSet::new()).is_err());
    }
}
