//! Under an asynchronous protocol what cannot be read was named (docs/protocols/losses.md): every EIO
//! for want of a lost write has a log line of its file before it, both members of a pair name the
//! same once they are equal, and what an operator acknowledges is read again.

use crate::LogLine;
use crate::cluster::builder::Cluster;
use tracing::Level;
use weft_objects::Loss;

/// How the line of a data server begins that names a loss.
const NAMED: &str = "lost with a data server and the client";

/// What the metadata service says when the only copy of a pair is one that a power cut may have thinned.
pub const MAY_BE_FORGOTTEN: &str = "a power cut may have taken what was not synced";

/// How a data server says that a block can be read from nobody: after such a power cut its bytes and its checksum may not
/// be of one write.
const TORN: [&str; 2] = [
    "blocks are bad and there is no other current copy",
    "blocks are bad in the copy that counts",
];

/// What was lost, as logs say.
#[derive(Debug, Default)]
pub struct Lost {
    /// The files of which something was named as lost, and when: virtual nanoseconds.
    pub named: Vec<(u64, u64)>,
    /// When a power cut had taken what nobody had synced yet.
    pub forgotten: Vec<u64>,
}

impl Lost {
    /// What these lines say.
    pub fn of(lines: &[LogLine]) -> Lost {
        let forgotten = forgotten(lines);
        let is_named = |line: &&LogLine| {
            let is_torn = TORN.iter().any(|torn| line.message.starts_with(torn));
            let is_so_by_then = |line: &LogLine| forgotten.iter().any(|at| *at <= line.nanos);
            line.level == Level::ERROR
                && (line.message.starts_with(NAMED) || is_torn && is_so_by_then(line))
        };
        let named = lines.iter().filter(is_named);
        Lost {
            named: named
                .filter_map(|line| Some((ino_in(&line.text)?, line.nanos)))
                .collect(),
            forgotten,
        }
    }
}

/// When the only copy of a pair was one that a power cut may have thinned: virtual nanoseconds.
pub fn forgotten(lines: &[LogLine]) -> Vec<u64> {
    let said = lines.iter();
    let said = said.filter(|line| line.message.starts_with(MAY_BE_FORGOTTEN));
    said.map(|line| line.nanos).collect()
}

/// The files that clients say they have lost bytes of, which nobody would take.
pub fn lost_by_client<'a>(lines: impl Iterator<Item = &'a LogLine>) -> impl Iterator<Item = u64> {
    let lost = lines.filter(|line| line.message == "written bytes are lost");
    lost.filter_map(|line| {
        let (_, after) = line.text.split_once("ino=")?;
        after.split(' ').next()?.parse().ok()
    })
}

/// The inode of `object=HEX.GENERATION`.
fn ino_in(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("object=")?;
    let (ino, _) = after.split_once('.')?;
    u64::from_str_radix(ino, 16).ok()
}

/// Compares what the members of every pair name as lost, and acknowledges all of it as an operator
/// would: what was synced must then be there.
///
/// # Errors
/// The first difference, or a disk's error.
pub async fn acknowledge(cluster: &Cluster) -> Result<(), String> {
    for pair in 0..cluster.data.len() {
        let (Some(zero), Some(one)) = (cluster.store_at(pair, 0), cluster.store_at(pair, 1)) else {
            return Err(format!("a member of pair {pair} does not run"));
        };
        let (of_zero, of_one) = (zero.losses(None), one.losses(None));
        let ranges = |losses: &[Loss]| -> Vec<_> {
            let range = |loss: &Loss| (loss.object, loss.range.clone());
            losses.iter().map(range).collect()
        };
        if ranges(&of_zero) != ranges(&of_one) {
            return Err(format!(
                "pair {pair}: member 0 names as lost {of_zero:?}, member 1 {of_one:?}"
            ));
        }
        for store in [zero, one] {
            for loss in &of_zero {
                let range = std::slice::from_ref(&loss.range);
                let cleared = store.clear_losses(loss.object, range).await;
                cleared.map_err(|error| format!("acknowledging a loss: {error}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_data_server_names_the_file() {
        let said = |nanos, level, message: &str, text: &str| LogLine {
            nanos,
            node: "data 0.1".into(),
            level,
            target: "weft_data::losses".into(),
            text: text.into(),
            message: message.into(),
        };
        let line = |level, message: &str, text: &str| said(7, level, message, text);
        let lost = "lost with a data server and the client that wrote through it";
        let lines = [
            line(
                Level::ERROR,
                lost,
                "lost object=00000000000000ab.3 session=4",
            ),
            line(Level::INFO, lost, "lost object=00000000000000ac.3"),
            line(Level::ERROR, "other", "object=00000000000000ad.3"),
        ];
        assert_eq!(Lost::of(&lines).named, [(0xab, 7)]);
        // A block that was torn is lost where nobody else had it.
        let torn = |nanos| said(nanos, Level::ERROR, TORN[0], "object=00000000000000ae.3");
        let lines = [
            torn(5),
            said(6, Level::WARN, MAY_BE_FORGOTTEN, "state=pair 0 ONLY(0)"),
            torn(7),
        ];
        let lost = Lost::of(&lines);
        assert_eq!((lost.named, lost.forgotten), (vec![(0xae, 7)], vec![6]));
    }
}
