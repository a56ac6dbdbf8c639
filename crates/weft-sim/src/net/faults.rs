//! What scenarios do to the network.

use super::links::LinkState;
use super::{Link, Pace};
use crate::executor::Mark;
use crate::world::Inner;
use std::rc::Rc;
use std::task::Waker;

/// The network's faults. Nodes are named as in [`crate::World::node`].
#[derive(Clone)]
pub struct Network(pub(crate) Rc<Inner>);

impl Network {
    fn index(&self, name: &str) -> usize {
        match self.0.find_node(name) {
            Some(index) => index,
            None => panic!("no node is called {name:?}"),
        }
    }

    /// Nothing gets through between `a` and `b`.
    pub fn cut(&self, a: &str, b: &str) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Nothing gets through from `from` to `to`; the other direction works.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        let (from, to) = (self.index(from), self.index(to));
        self.0
            .executor
            .mark(Mark::Fault, from, 0x100 + ((to as u64) << 16));
        if from != to {
            self.0.net.0.borrow_mut().cuts.insert((from, to));
        }
    }

    /// Cuts `name` off from every other node there is.
    pub fn isolate(&self, name: &str) {
        let others: Vec<String> = (0..self.0.nodes.borrow().len())
            .map(|index| self.0.node_name(index).to_string())
            .filter(|other| other != name)
            .collect();
        for other in others {
            self.cut(name, &other);
        }
    }

    /// Ends the cuts between `a` and `b`.
    pub fn heal_between(&self, a: &str, b: &str) {
        let (a, b) = (self.index(a), self.index(b));
        self.0.executor.mark(Mark::Fault, a, 0x101);
        {
            let mut state = self.0.net.0.borrow_mut();
            state.cuts.remove(&(a, b));
            state.cuts.remove(&(b, a));
        }
        self.0.net.resume_stalled(&self.0);
    }

    /// Ends all cuts and slow links.
    pub fn heal(&self) {
        self.0.executor.mark(Mark::Fault, 0, 0x102);
        {
            let mut state = self.0.net.0.borrow_mut();
            state.cuts.clear();
            state.paces.clear();
        }
        self.0.net.resume_stalled(&self.0);
    }

    /// The pace from `from` to `to` (one direction) from now on.
    pub fn set_pace(&self, from: &str, to: &str, pace: Pace) {
        let key = (self.index(from), self.index(to));
        self.0.executor.mark(Mark::Fault, key.0, 0x103);
        self.0.net.0.borrow_mut().paces.insert(key, pace);
    }

    /// The pace of all links that have none of their own.
    pub fn set_default_pace(&self, pace: Pace) {
        self.0.net.0.borrow_mut().pace = pace;
    }

    /// From now on everything that `name` sends and receives, but to itself, shares this link. See
    /// [`Link`].
    pub fn set_link(&self, name: &str, link: Link) {
        let node = self.index(name);
        self.0.executor.mark(Mark::Fault, node, 0x106);
        let mut state = self.0.net.0.borrow_mut();
        let links = state.links.entry(node);
        links.or_insert_with(|| LinkState::new(link)).link = link;
    }

    /// Bytes that each direction of a new connection may have on its way and unread, at least 1.
    /// Without it each connection draws its own, some as small as 4 KiB.
    pub fn set_window(&self, bytes: usize) {
        self.0.executor.mark(Mark::Fault, 0, 0x107);
        self.0.net.0.borrow_mut().window = Some(bytes.max(1));
    }

    /// True if there is a cut, or a link that is not at its usual pace, between `a` and `b`.
    pub fn is_disturbed(&self, a: &str, b: &str) -> bool {
        let (a, b) = (self.index(a), self.index(b));
        let state = self.0.net.0.borrow();
        [(a, b), (b, a)]
            .iter()
            .any(|link| state.cuts.contains(link) || state.paces.contains_key(link))
    }

    /// The usual pace again from `from` to `to`.
    pub fn clear_pace(&self, from: &str, to: &str) {
        let key = (self.index(from), self.index(to));
        self.0.executor.mark(Mark::Fault, key.0, 0x105);
        self.0.net.0.borrow_mut().paces.remove(&key);
    }

    /// Breaks all connections between `a` and `b` at once: both sides get a reset.
    pub fn reset(&self, a: &str, b: &str) {
        let (a, b) = (self.index(a), self.index(b));
        self.0.executor.mark(Mark::Fault, a, 0x104);
        let mut wakers = Vec::new();
        for connection in self.0.net.0.borrow_mut().connections.values_mut() {
            let nodes = (connection.ends[0].node, connection.ends[1].node);
            if nodes == (a, b) || nodes == (b, a) {
                for pipe in &mut connection.pipes {
                    pipe.reset = true;
                    pipe.lose();
                    pipe.wake(&mut wakers);
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Connections that a process still holds an end of.
    pub fn connections(&self) -> usize {
        self.0.net.0.borrow().connections.len()
    }
}
