//! The write verifier: by another one clients learn that what they have not committed may be lost.

use std::cell::Cell;
use weft_env::Env;

/// A number of this gateway's life, or of a part of it.
pub(crate) struct Verifier {
    env: Env,
    now: Cell<u64>,
}

impl Verifier {
    pub(crate) fn new(env: &Env) -> Verifier {
        Verifier {
            env: env.clone(),
            now: Cell::new(env.random()),
        }
    }

    pub(crate) fn get(&self) -> [u8; 8] {
        self.now.get().to_be_bytes()
    }

    /// Something that was buffered could not be written.
    pub(crate) fn renew(&self) {
        self.now.set(self.env.random());
    }
}
