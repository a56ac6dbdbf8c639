//! What processes and the whole machine have used of the processors: beside a figure it says whether
//! it was the links that were measured.

use std::fs;

/// Processor seconds that processes have used; one that has ended counts nothing.
pub fn cpu_of(pids: &[u32]) -> f64 {
    let ticks = pids.iter().filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have blanks.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(field(11)? + field(12)?)
    });
    // SAFETY: sysconf takes a plain number.
    ticks.sum::<u64>() as f64 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Ticks of all processors: in use, and all.
pub struct Machine {
    busy: u64,
    all: u64,
}

impl Machine {
    /// Reads them.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn now() -> Result<Machine, String> {
        let text = fs::read_to_string("/proc/stat")
            .map_err(|error| format!("cannot read the processors' times: {error}"))?;
        Ok(Machine::of(&text))
    }

    /// `cpu user nice system idle iowait irq softirq steal ...`; what follows is in user already.
    fn of(stat: &str) -> Machine {
        let first = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = first
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|ticks| ticks.parse().ok())
            .collect();
        let all = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Machine {
            busy: all - idle,
            all,
        }
    }

    /// Share of them that was in use, by whomever.
    pub fn busy_since(&self, before: &Machine) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.busy.saturating_sub(before.busy) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_not_busy() {
        let before = Machine::of("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
        let after = Machine::of("cpu  20 5 20 140 20 5 5 5 99 99\n");
        assert_eq!(after.busy_since(&before), 0.4);
    }

    #[test]
    fn a_process_that_runs_has_used_the_processor() {
        let own = std::process::id();
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        assert!(cpu_of(&[own]) > 0.0);
        assert_eq!(cpu_of(&[]), 0.0);
    }
}
