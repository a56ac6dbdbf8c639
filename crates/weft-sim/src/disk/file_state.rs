//! A file: its pages as processes see them, and what of them is durable.

use super::{PAGE, Page, SECTOR};
use crate::rng::Rng;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

#[derive(Default)]
pub(super) struct FileState {
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) length: u64,
    /// Pages whose durable content is another (or none).
    pub(super) differing: BTreeMap<u64, Option<Page>>,
    pub(super) durable_length: u64,
    /// The sync that was begun last of those that have ended well: what an older one found, it has too.
    pub(super) synced: u64,
    /// Pages that a failed sync has lost: a later sync does not make them durable.
    pub(super) lost: BTreeSet<u64>,
    pub(super) names: u32,
    pub(super) open: u32,
}

impl FileState {
    pub(super) fn dirty(&mut self, page: u64) {
        self.lost.remove(&page);
        if !self.differing.contains_key(&page) {
            self.differing.insert(page, self.pages.get(&page).cloned());
        }
    }

    /// Writes within the pages; returns how many pages were added. A whole page that equals `shared`
    /// shares its memory, another one takes its place.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], mut shared: Option<&mut Page>) -> u64 {
        let mut added = 0;
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let (index, within) = (at / PAGE, (at % PAGE) as usize);
            let part = rest.len().min(PAGE as usize - within);
            self.dirty(index);
            if let Some(shared) = shared.as_deref_mut()
                && part == PAGE as usize
            {
                if shared[..] != rest[..part] {
                    Rc::make_mut(shared).copy_from_slice(&rest[..part]);
                }
                let before = self.pages.insert(index, shared.clone());
                added += u64::from(before.is_none());
            } else {
                let page = self.pages.entry(index).or_insert_with(|| {
                    added += 1;
                    Rc::new([0; PAGE as usize])
                });
                Rc::make_mut(page)[within..within + part].copy_from_slice(&rest[..part]);
            }
            rest = &rest[part..];
            at += part as u64;
        }
        self.length = self.length.max(at);
        added
    }

    /// Zeros `start..end`; whole pages become holes. Returns how many pages were taken away.
    pub(super) fn zero(&mut self, start: u64, end: u64) -> u64 {
        let mut taken = 0;
        let indices: Vec<u64> = self
            .pages
            .range(start / PAGE..end.div_ceil(PAGE))
            .map(|(&index, _)| index)
            .collect();
        for index in indices {
            self.dirty(index);
            let from = start.saturating_sub(index * PAGE).min(PAGE) as usize;
            let to = end.saturating_sub(index * PAGE).min(PAGE) as usize;
            if from == 0 && to == PAGE as usize {
                self.pages.remove(&index);
                taken += 1;
            } else if let Some(page) = self.pages.get_mut(&index) {
                Rc::make_mut(page)[from..to].fill(0);
            }
        }
        taken
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> Bytes {
        let end = self.length.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Bytes::new();
        }
        let mut data = vec![0; (end - offset) as usize];
        for (&index, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let begin = (index * PAGE).max(offset);
            let finish = ((index + 1) * PAGE).min(end);
            if begin < finish {
                data[(begin - offset) as usize..(finish - offset) as usize].copy_from_slice(
                    &page[(begin - index * PAGE) as usize..(finish - index * PAGE) as usize],
                );
            }
        }
        data.into()
    }

    /// Leaves what a power cut leaves. Pages are torn at sectors, or once at a multiple of `grain`.
    pub(super) fn lose_power(&mut self, rng: &mut Rng, grain: Option<usize>) {
        let cut_short = self.length < self.durable_length;
        let length = match rng.below(3) {
            0 => self.durable_length,
            1 if !cut_short => rng.within(self.durable_length..self.length + 1),
            _ => self.length,
        };
        for (index, durable) in std::mem::take(&mut self.differing) {
            let lost = self.lost.contains(&index);
            let choice = if lost { 0 } else { rng.below(3) };
            let kept = match choice {
                0 => durable,
                1 => self.pages.get(&index).cloned(),
                _ => {
                    let empty = Rc::new([0; PAGE as usize]);
                    let old = durable.unwrap_or_else(|| empty.clone());
                    let new = self.pages.get(&index).cloned().unwrap_or(empty);
                    Some(Rc::new(match grain {
                        Some(grain) => torn_once(&old, &new, grain, rng),
                        None => torn_at_sectors(&old, &new, rng),
                    }))
                }
            };
            match kept {
                Some(page) => self.pages.insert(index, page),
                None => self.pages.remove(&index),
            };
        }
        self.lost.clear();
        self.pages.split_off(&length.div_ceil(PAGE));
        if !length.is_multiple_of(PAGE)
            && let Some(page) = self.pages.get_mut(&(length / PAGE))
        {
            Rc::make_mut(page)[(length % PAGE) as usize..].fill(0);
        }
        self.length = length;
        self.durable_length = length;
    }
}

fn torn_at_sectors(
    old: &[u8; PAGE as usize],
    new: &[u8; PAGE as usize],
    rng: &mut Rng,
) -> [u8; PAGE as usize] {
    let mut torn = *old;
    for at in (0..PAGE as usize).step_by(SECTOR) {
        if rng.once_in(2) {
            torn[at..at + SECTOR].copy_from_slice(&new[at..at + SECTOR]);
        }
    }
    torn
}

/// New on one side of a place among the bytes that differ, old on the other.
fn torn_once(
    old: &[u8; PAGE as usize],
    new: &[u8; PAGE as usize],
    grain: usize,
    rng: &mut Rng,
) -> [u8; PAGE as usize] {
    let differs = |at: &usize| old[*at] != new[*at];
    let first = (0..old.len()).find(differs).unwrap_or(0);
    let last = (0..old.len()).rfind(differs).unwrap_or(0);
    let at = rng.within(first as u64..last as u64 + 2) as usize / grain * grain;
    let (left, right) = if rng.once_in(2) {
        (new, old)
    } else {
        (old, new)
    };
    let mut torn = *right;
    torn[..at].copy_from_slice(&left[..at]);
    torn
}
