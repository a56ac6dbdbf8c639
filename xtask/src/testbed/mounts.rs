//! Mounts in the nodes of a bed. A name space of the network hides no mounts: what is mounted in a node
//! is seen by everyone, below the bed's directory.

use super::bed::Bed;
use super::keeper::mounted_below;
use super::nodes::Cluster;
use crate::run::{Outcome, quiet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A mount that is not there by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(30);

/// A mount of a cluster. Whoever starts it ends it; the bed's end does at the latest.
pub struct Mount {
    name: String,
    point: PathBuf,
}

impl Mount {
    /// Mounts a cluster in a node, and waits until it is there. Nothing is cached in it yet.
    ///
    /// # Errors
    /// If the node has a mount already, or none comes up: what it said last.
    pub fn start(
        bed: &mut Bed,
        weft: &Path,
        cluster: &Cluster,
        node: &str,
    ) -> Result<Mount, String> {
        let name = format!("{node}-mount");
        let directory = bed.directory().join("mounts");
        let (point, config) = (directory.join(node), bed.directory().join(&name));
        let config = config.with_extension("toml");
        let settings = format!("mountpoint = {point:?}\n{}", cluster.client_settings());
        fs::create_dir_all(&point).map_err(|error| format!("{}: {error}", point.display()))?;
        fs::write(&config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
        let config = config.to_string_lossy().into_owned();
        let arguments = vec!["mount".into(), "--config".into(), config];
        bed.start(node, &name, weft, arguments)?;
        let mount = Mount { name, point };
        let up = mount.wait_up(bed);
        match up {
            Ok(()) => Ok(mount),
            Err(why) => {
                // It may have ended by itself.
                let _: Outcome = mount.end(bed);
                Err(why)
            }
        }
    }

    fn wait_up(&self, bed: &mut Bed) -> Outcome {
        let end = Instant::now() + UP_PATIENCE;
        while !self.is_there()? {
            if let Some(why) = bed.has_ended(&self.name) {
                return Err(why);
            }
            if Instant::now() > end {
                let (name, said) = (&self.name, bed.last_words(&self.name));
                return Err(format!("{name} is not up after {UP_PATIENCE:?}:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool, String> {
        Ok(mounted_below(&self.point)?.contains(&self.point))
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// What it said last, for whoever has to tell that something failed on it.
    pub fn last_words(&self, bed: &Bed) -> String {
        bed.last_words(&self.name)
    }

    /// Ends it: what was written is with the servers then, and what was cached is gone.
    ///
    /// # Errors
    /// If it had ended by itself, or did not unmount. The node can have another one in any case.
    pub fn end(self, bed: &mut Bed) -> Outcome {
        let ended = bed.end(&self.name, false);
        if self.is_there()? {
            quiet(Command::new("umount").arg("-l").arg(&self.point))?;
            let (name, said) = (&self.name, self.last_words(bed));
            return Err(format!("{name} did not unmount; it said last:\n{said}"));
        }
        ended
    }
}
