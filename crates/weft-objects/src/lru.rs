//! A bounded cache that never drops what somebody still holds.
//!
//! Open files and checksum pages live here. Two handles for one page would contradict each other,
//! so an entry that is in use (held outside the cache) is passed over when room is made.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::rc::Rc;

/// Least recently used goes first.
pub(crate) struct Lru<K, V> {
    items: BTreeMap<K, (Rc<V>, u64)>,
    order: BTreeMap<u64, K>,
    clock: u64,
    capacity: usize,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    /// Holds `capacity` items, more only while more are in use.
    pub fn new(capacity: usize) -> Lru<K, V> {
        Lru {
            items: BTreeMap::new(),
            order: BTreeMap::new(),
            clock: 0,
            capacity,
        }
    }

    /// The item, which thereby becomes recently used.
    pub fn get(&mut self, key: &K) -> Option<Rc<V>> {
        let (value, used) = self.items.get_mut(key)?;
        // Among the most recent eighth the order does not matter; most hits end here.
        if self.clock - *used > self.capacity as u64 / 8 {
            self.clock += 1;
            self.order.remove(used);
            self.order.insert(self.clock, key.clone());
            *used = self.clock;
        }
        Some(value.clone())
    }

    /// Adds an item that is not there yet and makes room for it.
    pub fn insert(&mut self, key: K, value: Rc<V>) {
        self.clock += 1;
        self.order.insert(self.clock, key.clone());
        if let Some((_, used)) = self.items.insert(key, (value, self.clock)) {
            self.order.remove(&used);
        }
        let mut tries = self.items.len().saturating_sub(self.capacity) * 2;
        while self.items.len() > self.capacity && tries > 0 {
            tries -= 1;
            let Some((used, key)) = self.order.pop_first() else {
                break;
            };
            match self.items.get_mut(&key) {
                Some((value, at)) if Rc::strong_count(value) > 1 => {
                    self.clock += 1;
                    *at = self.clock;
                    self.order.insert(self.clock, key);
                }
                Some(_) => {
                    self.items.remove(&key);
                }
                None => debug_assert!(false, "order names {used}, which is no item"),
            }
        }
    }

    /// Forgets one item.
    pub fn remove(&mut self, key: &K) {
        if let Some((_, used)) = self.items.remove(key) {
            self.order.remove(&used);
        }
    }

    /// Forgets the items of a range of keys.
    pub fn remove_range(&mut self, range: impl RangeBounds<K>) {
        let keys: Vec<K> = self
            .items
            .range(range)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &keys {
            self.remove(key);
        }
    }

    #[cfg(test)]
    fn keys(&self) -> Vec<K> {
        self.items.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_unless_in_use() {
        let mut lru = Lru::new(3);
        let held = Rc::new("a");
        lru.insert(1, held.clone());
        lru.insert(2, Rc::new("b"));
        lru.insert(3, Rc::new("c"));
        assert!(lru.get(&2).is_some());
        lru.insert(4, Rc::new("d"));
        assert_eq!(lru.keys(), [1, 2, 4]);
        drop(held);
        lru.insert(5, Rc::new("e"));
        lru.insert(6, Rc::new("f"));
        lru.insert(7, Rc::new("g"));
        assert_eq!(lru.keys(), [5, 6, 7]);
        assert_eq!(lru.order.len(), 3);
    }

    #[test]
    fn more_than_the_capacity_stays_only_while_in_use() {
        let mut lru = Lru::new(2);
        let held: Vec<Rc<u32>> = (0..5).map(Rc::new).collect();
        for value in &held {
            lru.insert(**value, value.clone());
        }
        assert_eq!(lru.keys().len(), 5);
        drop(held);
        lru.insert(9, Rc::new(9));
        assert!(lru.keys().len() <= 3, "{:?}", lru.keys());
        lru.remove_range(0..=8);
        assert_eq!(lru.keys(), [9]);
        assert_eq!(lru.order.len(), 1);
    }
}
