//! What every coordinator must do, whichever service is behind it.

use crate::{Coordinator, CoordinatorError};
use futures_util::FutureExt;
use weft_wire::proto::{Group, View};

/// Runs the suite over two handles on the same, so far empty, view.
///
/// # Panics
/// Where the implementation does not do what the trait says.
pub async fn run(one: &dyn Coordinator, other: &dyn Coordinator) {
    let empty = one.view().await.expect("an empty view can be read");
    assert_eq!(
        empty,
        View::default(),
        "a new view is empty and of version 0"
    );

    let with_epoch = |version, epoch| View {
        version,
        groups: vec![Group {
            epoch,
            ..Group::default()
        }],
        ..View::default()
    };
    one.compare_and_set(with_epoch(1, 7))
        .await
        .expect("the first view is set");
    assert_eq!(
        other.view().await.expect("it can be read"),
        with_epoch(1, 7)
    );

    let lost = other.compare_and_set(with_epoch(1, 8)).await;
    assert!(
        matches!(lost, Err(CoordinatorError::Conflict { current: 1 })),
        "of two who set the same version one loses: {lost:?}"
    );
    let ahead = other.compare_and_set(with_epoch(3, 8)).await;
    assert!(
        matches!(ahead, Err(CoordinatorError::Conflict { current: 1 })),
        "no version is left out: {ahead:?}"
    );
    assert_eq!(one.view().await.expect("it can be read"), with_epoch(1, 7));

    let seen = one
        .watch(0)
        .await
        .expect("a view that is newer is told at once");
    assert_eq!(seen, with_epoch(1, 7));
    let mut watching = one.watch(1);
    assert!(
        (&mut watching).now_or_never().is_none(),
        "nothing is told before it changes"
    );
    other
        .compare_and_set(with_epoch(2, 9))
        .await
        .expect("the next version is set");
    assert_eq!(
        watching.await.expect("the change is told"),
        with_epoch(2, 9)
    );
}
