//! The view in a file, for a cluster with one metadata server.
//!
//! ```text
//! 0   8  magic "WEFTVIEW"
//! 8   4  version of the format, 1
//! 12  4  CRC-32C of what follows
//! 16     the View message
//! ```
//! Numbers are little-endian. The file is replaced as a whole: after a crash it holds the old view or the
//! new one.

use crate::{Coordinator, CoordinatorError};
use futures_util::future::LocalBoxFuture;
use prost::Message;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::{Mutex, Notify};
use weft_env::Env;
use weft_wire::proto::View;

const MAGIC: &[u8; 8] = b"WEFTVIEW";
const FORMAT_VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;

struct Shared {
    env: Env,
    path: PathBuf,
    view: RefCell<View>,
    /// One change at a time: the file is written while other tasks run.
    changing: Mutex<()>,
    changed: Notify,
}

/// A handle; clones share the view. At most one process may have it open.
#[derive(Clone)]
pub struct Embedded(Rc<Shared>);

impl Embedded {
    /// Opens the view in `dir` (the file `view`), or none yet.
    ///
    /// # Errors
    /// If the file cannot be read or is no view.
    pub async fn open(env: &Env, dir: PathBuf) -> Result<Embedded, CoordinatorError> {
        let unavailable = |error| {
            CoordinatorError::Unavailable(format!("{}: {error}", dir.join("view").display()))
        };
        env.create_dir_all(&dir).map_err(unavailable)?;
        let path = dir.join("view");
        let view = match env.read_file(&path).await.map_err(unavailable)? {
            None => View::default(),
            Some(bytes) => decode(&bytes).ok_or_else(|| {
                CoordinatorError::Corrupt(format!(
                    "{}: is no view of format version {FORMAT_VERSION}, or is damaged; put a good \
                     copy of it in its place",
                    path.display()
                ))
            })?,
        };
        Ok(Embedded(Rc::new(Shared {
            env: env.clone(),
            path,
            view: RefCell::new(view),
            changing: Mutex::new(()),
            changed: Notify::new(),
        })))
    }
}

fn encode(view: &View) -> Vec<u8> {
    let message = view.encode_to_vec();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&message).to_le_bytes());
    bytes.extend_from_slice(&message);
    bytes
}

fn decode(bytes: &[u8]) -> Option<View> {
    let message = bytes.get(HEAD_BYTES..)?;
    let good = bytes[..8] == *MAGIC
        && bytes[8..12] == FORMAT_VERSION.to_le_bytes()
        && bytes[12..16] == crc32c::crc32c(message).to_le_bytes();
    good.then(|| View::decode(message).ok()).flatten()
}

impl Coordinator for Embedded {
    fn view(&self) -> LocalBoxFuture<'_, Result<View, CoordinatorError>> {
        Box::pin(async { Ok(self.0.view.borrow().clone()) })
    }

    fn compare_and_set(&self, view: View) -> LocalBoxFuture<'_, Result<(), CoordinatorError>> {
        Box::pin(async move {
            let _changing = self.0.changing.lock().await;
            let current = self.0.view.borrow().version;
            if view.version != current + 1 {
                return Err(CoordinatorError::Conflict { current });
            }
            self.0
                .env
                .replace_file(&self.0.path, encode(&view))
                .await
                .map_err(|error| {
                    CoordinatorError::Unavailable(format!("{}: {error}", self.0.path.display()))
                })?;
            *self.0.view.borrow_mut() = view;
            self.0.changed.notify_waiters();
            Ok(())
        })
    }

    fn watch(&self, version: u64) -> LocalBoxFuture<'_, Result<View, CoordinatorError>> {
        Box::pin(async move {
            loop {
                let changed = self.0.changed.notified();
                {
                    let view = self.0.view.borrow();
                    if view.version > version {
                        return Ok(view.clone());
                    }
                }
                changed.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn passes_the_suite() {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let one = Embedded::open(&env, dir.path().to_owned()).await.unwrap();
            crate::suite::run(&one, &one.clone()).await;
            let before = one.view().await.unwrap();
            drop(one);
            let again = Embedded::open(&env, dir.path().to_owned()).await.unwrap();
            assert_eq!(again.view().await.unwrap(), before);
        })
        .unwrap();
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut good = encode(&View {
            version: 3,
            ..View::default()
        });
        assert_eq!(decode(&good).unwrap().version, 3);
        for at in 0..good.len() {
            good[at] ^= 1;
            assert!(decode(&good).is_none(), "byte {at}");
            good[at] ^= 1;
        }
        good.pop();
        let mut file = tempfile::Builder::new().tempfile_in(dir.path()).unwrap();
        file.write_all(&good).unwrap();
        file.persist(dir.path().join("view")).unwrap();
        weft_env::real::run(|env| async move {
            let error = Embedded::open(&env, dir.path().to_owned())
                .await
                .err()
                .unwrap();
            assert!(error.to_string().contains("view"), "{error}");
        })
        .unwrap();
    }
}
