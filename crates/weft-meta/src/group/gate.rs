//! Answers leave while the member holds the promises that make it the only active.

use std::cell::{Cell, RefCell};
use weft_env::{Env, Mono};

pub(crate) struct Gate {
    env: Env,
    /// Open before that.
    until: Cell<Option<Mono>>,
    /// Shut for good.
    is_shut: Cell<bool>,
    held: RefCell<Vec<Box<dyn FnOnce()>>>,
}

impl Gate {
    /// Begins closed.
    pub(crate) fn new(env: &Env) -> Gate {
        Gate {
            env: env.clone(),
            until: Cell::new(None),
            is_shut: Cell::new(false),
            held: RefCell::default(),
        }
    }

    /// The promises hold until then. None: there are too few.
    pub(crate) fn open_until(&self, until: Option<Mono>) {
        self.until.set(until);
        if !weft_rpc::Gate::is_open(self) {
            return;
        }
        for answer in self.held.take() {
            answer();
        }
    }

    /// Lets nothing out from now on, and forgets what it holds.
    pub(crate) fn shut(&self) {
        self.is_shut.set(true);
        self.until.set(None);
        drop(self.held.take());
    }
}

impl weft_rpc::Gate for Gate {
    fn is_open(&self) -> bool {
        self.until.get().is_some_and(|until| self.env.now() < until)
    }

    fn hold(&self, answer: Box<dyn FnOnce()>) {
        if !self.is_shut.get() {
            self.held.borrow_mut().push(answer);
        }
    }
}
