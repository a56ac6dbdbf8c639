//! Images, written in the background by a shadow.

use crate::server::Meta;
use std::rc::Rc;

pub(crate) async fn run(_meta: Rc<Meta>) {}
