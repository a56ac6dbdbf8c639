//! What the coordinator's view says of pairs.

use crate::MetaError;
use crate::group::view;
use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_wire::proto::View;

/// Makes the view what `put` leaves it, in the coordinator, then here; as soon as the coordinator is there, for nobody
/// else would in this reign. `put` does nothing a second time.
///
/// # Errors
/// If the coordinator cannot take it.
pub(super) async fn keep_view(
    meta: &Rc<Meta>,
    put: impl Fn(&Core, &mut View),
) -> Result<(), MetaError> {
    let change = |view: &mut View| {
        let before = view.clone();
        put(&meta.core.borrow(), view);
        Ok(*view != before)
    };
    let view = view::change(&meta.env, &*meta.coordinator, change).await?;
    let core = &mut *meta.core.borrow_mut();
    if core.view.version < view.version {
        core.view = view;
    }
    Ok(())
}
