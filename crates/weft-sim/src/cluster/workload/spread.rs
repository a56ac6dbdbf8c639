//! Directories are spread while clients work (`docs/protocols/spread.md`). Nobody is to notice: the reference
//! model knows nothing of it, so it is no operation of the history.

use super::Worker;

/// Few, so that several names of the workload come to be in each.
const SHARDS: [u32; 2] = [2, 4];
/// One operation in so many is preceded by it.
const SELDOM: u64 = 12;

impl Worker {
    /// Has a directory spread now and then that may have been worked in for long.
    pub(super) async fn spread_some(&mut self) {
        if self.shared.spreads.get().is_some() && self.rng.once_in(SELDOM) {
            let dir = self.directory();
            self.spread(dir).await;
        }
    }

    /// Has a directory spread, if that is to be, whoever works in it meanwhile.
    pub(super) async fn spread(&mut self, dir: u64) {
        let Some(count) = self.shared.spreads.get() else {
            return;
        };
        let shards = SHARDS[self.rng.below(2) as usize];
        // Others may have put something into it, or have taken it away, or have been faster.
        if self.client.spread(&self.cred, dir, shards).await.is_ok() {
            let count = self.shared.spreads.get().unwrap_or(count);
            self.shared.spreads.set(Some(count + 1));
        }
    }
}
