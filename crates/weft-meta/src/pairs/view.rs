//! What the coordinator's view says of pairs.

use crate::reign::{Core, Meta};
use std::rc::Rc;
use std::time::Duration;
use weft_coordinator::CoordinatorError;
use weft_wire::proto::View;

/// A coordinator that is away is asked again after this.
const VIEW_RETRY: Duration = Duration::from_secs(1);

/// Changes the view as [`record_view`] does, as soon as the coordinator is there: nobody else would in this
/// reign.
pub(super) async fn keep_view(
    meta: &Rc<Meta>,
    change: impl Fn(&Core, &mut View),
) -> Result<(), CoordinatorError> {
    loop {
        match record_view(meta, &change).await {
            Err(CoordinatorError::Unavailable(why)) => {
                tracing::debug!(why, "the view cannot be changed now");
                meta.env.sleep(VIEW_RETRY).await;
            }
            result => return result,
        }
    }
}

/// Changes the view in the coordinator, then here.
async fn record_view(
    meta: &Rc<Meta>,
    change: impl Fn(&Core, &mut View),
) -> Result<(), CoordinatorError> {
    loop {
        let mut view = meta.coordinator.view().await?;
        change(&meta.core.borrow(), &mut view);
        view.version += 1;
        match meta.coordinator.compare_and_set(view).await {
            Ok(view) => {
                let core = &mut *meta.core.borrow_mut();
                if core.view.version < view.version {
                    core.view = view;
                }
                return Ok(());
            }
            Err(CoordinatorError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
