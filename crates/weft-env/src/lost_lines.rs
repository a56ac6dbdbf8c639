//! How many log lines of this process could not be written.
//!
//! The binary's log counts them (it never waits for who reads it), and [`crate::serve_text`] shows the count with
//! every process's metrics: where logs are lost, nothing else can tell. In the simulator nobody counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// As in docs/operating/metrics.md.
const NAME: &str = "weft_log_lines_lost";

static LOST: AtomicU64 = AtomicU64::new(0);

/// So many more could not be written.
pub fn count_lost_lines(count: u64) {
    LOST.fetch_add(count, Ordering::Relaxed);
}

/// All that could not be written since the process began.
pub fn lost_lines() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// A page of metrics with this one added, before the line that ends such a page.
pub(crate) fn shown_with(page: &str, lost: u64) -> String {
    const END: &str = "# EOF\n";
    let (figures, end) = match page.strip_suffix(END) {
        Some(figures) => (figures, END),
        None => (page, ""),
    };
    format!(
        "{figures}# HELP {NAME} Log lines that could not be written.\n\
         # TYPE {NAME} counter\n{NAME}_total {lost}\n{end}"
    )
}

#[cfg(test)]
mod tests {
    use super::shown_with;

    #[test]
    fn the_count_stands_before_the_end_of_a_page() {
        let shown = shown_with("a 1\n# EOF\n", 7);
        assert!(shown.starts_with("a 1\n# HELP weft_log_lines_lost "));
        assert!(shown.ends_with("weft_log_lines_lost_total 7\n# EOF\n"));
        assert!(shown_with("a 1\n", 0).ends_with("weft_log_lines_lost_total 0\n"));
    }
}
