//! A client that keeps nothing from one operation to the next: what gateways would cost without leases. For measuring
//! what leases are worth (`cargo xtask bench dnfsp --parts messages`): only with the feature `measuring`, which no
//! product is built with.

use crate::core::Core;
use crate::types::Result;
use std::rc::Rc;

impl Core {
    /// Writes and tells whatever is owed; then all that is known is forgotten. That it was is not said to the service: a
    /// client that never had a lease would have nothing to say. If the service asks for one, nothing is owed.
    pub async fn forget_all(self: &Rc<Self>) -> Result<()> {
        for node in self.nodes.all() {
            self.flush_data(&node).await?;
            self.tell(&node).await?;
            self.lose_node(&node);
            self.invalidate(&node).await;
        }
        Ok(())
    }
}
