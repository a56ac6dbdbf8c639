//! Processor time of the file system's processes and of the workload.

use std::collections::BTreeSet;

/// The processes of a file system, found by id or by the network name space they live in.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pids: BTreeSet<u32>,
    network: Option<String>,
}

/// Ticks of /proc/PID/stat in a second: 100 on every Linux that user space sees.
const TICKS: f64 = 100.0;

impl Processes {
    /// No processes: costs are zero.
    pub fn none() -> Processes {
        Processes::default()
    }

    /// These processes, and their children of any depth.
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Processes {
        Processes {
            pids: pids.into_iter().collect(),
            network: None,
        }
    }

    /// All processes in the network name space of process `pid`.
    pub fn in_network_of(pid: u32) -> Processes {
        let network = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        Processes {
            pids: BTreeSet::new(),
            network: network.ok().map(|name| name.to_string_lossy().into_owned()),
        }
    }

    /// Seconds of processor used so far by the processes that live now and by children of theirs
    /// that have ended.
    pub fn seconds(&self) -> f64 {
        let mut parents = Vec::new();
        let mut ticks = std::collections::BTreeMap::new();
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return 0.0;
        };
        for entry in entries.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
                continue;
            };
            // The command stands in parentheses and may hold anything; fields follow the last one.
            let Some((_, fields)) = stat.rsplit_once(')') else {
                continue;
            };
            let fields: Vec<u64> = fields
                .split_whitespace()
                .map(|field| field.parse().unwrap_or(0))
                .collect();
            if fields.len() > 14 {
                parents.push((pid, fields[1] as u32));
                ticks.insert(pid, fields[11] + fields[12] + fields[13] + fields[14]);
            }
        }
        let mut ours = self.pids.clone();
        if let Some(network) = &self.network {
            ours.extend(ticks.keys().copied().filter(|pid| {
                std::fs::read_link(format!("/proc/{pid}/ns/net"))
                    .is_ok_and(|name| name.to_string_lossy() == *network)
            }));
        } else {
            loop {
                let before = ours.len();
                ours.extend(
                    parents
                        .iter()
                        .filter(|(_, parent)| ours.contains(parent))
                        .map(|(pid, _)| pid)
                        .copied()
                        .collect::<Vec<u32>>(),
                );
                if ours.len() == before {
                    break;
                }
            }
        }
        ours.iter().filter_map(|pid| ticks.get(pid)).sum::<u64>() as f64 / TICKS
    }
}

/// Seconds of processor used by this process and its ended children.
pub(crate) fn own_seconds() -> f64 {
    let one = |who| {
        // SAFETY: rusage is plain data; getrusage fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    one(libc::RUSAGE_SELF) + one(libc::RUSAGE_CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_is_seen_to_use_the_processor() {
        let own = Processes::of([std::process::id()]);
        let start = own_seconds();
        let mut random = crate::random::Random::new(1);
        let mut sum = 0u64;
        while own_seconds() - start < 0.3 {
            sum = sum.wrapping_add(random.next());
        }
        assert!(own.seconds() >= 0.2, "{sum}");
        assert_eq!(Processes::none().seconds(), 0.0);
    }
}
