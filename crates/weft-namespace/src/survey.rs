//! What a check of the whole name space is told of this group's part (`docs/protocols/fsck.md`): inodes
//! and entries by the page, and single ones to look at again.

use crate::inode::Body;
use crate::state::State;
use std::ops::Bound::{Excluded, Included, Unbounded};
use weft_types::{Ino, TransactionId};
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{
    SlotRange, SurveyNamesReply, SurveyedEntries, SurveyedInode, SurveyedName, SurveyedPlace,
    SurveyedSight,
};

/// Bytes of names after which a page of them ends.
const NAME_BYTES: usize = 512 << 10;

impl State {
    /// Which slots this group has.
    pub fn slot_ranges(&self) -> Vec<SlotRange> {
        self.slots.ranges(self.group.0)
    }

    /// Since when, in nanoseconds since 1970, parts of another group's transaction wait here for the outcome.
    pub fn prepared_at(&self, transaction: TransactionId) -> Option<i128> {
        let parts = self.prepared.get(&transaction)?;
        let time = parts.iter().map(|prepared| prepared.time).min()?.to_proto();
        Some(i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos))
    }

    /// The inodes that this other group's transaction concerns here, those that its names stand for now, too.
    pub fn concerned_by(&self, transaction: TransactionId) -> Vec<Ino> {
        let mut inos = Vec::new();
        for prepared in self.prepared.get(&transaction).into_iter().flatten() {
            match &prepared.part.part {
                Some(Kind::Name(part)) => {
                    inos.push(Ino(part.ino));
                    inos.extend(self.found(Ino(part.directory), &part.name));
                }
                Some(Kind::Make(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Drop(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Add(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Move(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Spread(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Set(part)) => inos.push(Ino(part.ino)),
                Some(Kind::Take(part)) => {
                    inos.push(Ino(part.ino));
                    inos.extend(part.entries.iter().map(|entry| Ino(entry.ino)));
                }
                Some(Kind::Put(part)) => {
                    inos.push(Ino(part.ino));
                    inos.extend(part.entries.iter().map(|entry| Ino(entry.ino)));
                }
                None => {}
            }
        }
        inos.retain(|ino| ino.0 != 0);
        inos
    }

    /// At most `max` inodes after this one, by number, and whether there are more. Subdirectories are not
    /// counted.
    pub fn survey_inodes(&self, after: Ino, max: usize) -> (Vec<SurveyedInode>, bool) {
        let mut rest = self.inodes.range((Excluded(after), Unbounded));
        let page = rest.by_ref().take(max);
        let page = page.filter_map(|(ino, _)| self.surveyed(*ino)).collect();
        (page, rest.next().is_some())
    }

    /// At most `max` entries after this place, directory by directory; at most `steps` inodes are gone through
    /// for them. `sn` of the reply is for the caller to fill in.
    pub fn survey_names(
        &self,
        (directory, cookie): (Ino, u64),
        max: usize,
        steps: usize,
    ) -> SurveyNamesReply {
        let mut reply = SurveyNamesReply {
            directory: directory.0,
            cookie,
            more: true,
            ..SurveyNamesReply::default()
        };
        let mut bytes = 0;
        let inodes = self.inodes.range((Included(directory), Unbounded));
        for (gone_through, (ino, inode)) in inodes.enumerate() {
            if gone_through == steps {
                return reply;
            }
            let after = if *ino == directory { cookie } else { 0 };
            (reply.directory, reply.cookie) = (ino.0, after);
            let Body::Directory(entries) = &inode.body else {
                continue;
            };
            for (cookie, entry) in entries.after(after) {
                if reply.names.len() == max || bytes > NAME_BYTES {
                    return reply;
                }
                bytes += entry.name.len();
                reply
                    .names
                    .push(self.surveyed_name(*ino, &entry.name, entry.ino));
                reply.cookie = cookie;
            }
        }
        reply.more = false;
        reply
    }

    fn surveyed_name(&self, directory: Ino, name: &[u8], ino: Ino) -> SurveyedName {
        SurveyedName {
            directory: directory.0,
            name: name.to_vec().into(),
            ino: ino.0,
            kind: self.kind_of(ino).map_or(0, |kind| kind as i32),
        }
    }

    fn surveyed(&self, ino: Ino) -> Option<SurveyedInode> {
        let inode = self.inodes.get(&ino)?;
        Some(SurveyedInode {
            ino: ino.0,
            kind: inode.kind() as i32,
            nlink: inode.nlink,
            parent: match &inode.body {
                Body::Directory(directory) => directory.parent.0,
                _ => 0,
            },
            subdirectories: None,
            change: inode.change,
            kept_open: self.holds.contains_key(&ino) || self.lingers(ino),
        })
    }

    /// Looks at one inode. Of a directory its subdirectories are counted, unless that takes more steps than
    /// there are left.
    pub fn survey_sight(&self, ino: Ino, steps: &mut usize) -> SurveyedSight {
        let mut inode = self.surveyed(ino);
        if let (Some(seen), Ok((_, directory))) = (&mut inode, self.directory(ino))
            && let Some(left) = steps.checked_sub(directory.len())
        {
            *steps = left;
            let entries = directory.after(0);
            let below = entries.filter(|(_, entry)| self.is_directory(entry.ino));
            seen.subdirectories = Some(below.count() as u64);
        }
        SurveyedSight {
            locked: self.locked.inode(ino).is_some() || !self.slots.has(ino.slot()),
            inode,
        }
    }

    /// Looks at what a directory has: the entry of a name, or those that name an inode, unless that takes
    /// more steps than there are left.
    pub fn survey_place(&self, place: &SurveyedPlace, steps: &mut usize) -> SurveyedEntries {
        let of = Ino(place.directory);
        let by = match place.name.is_empty() {
            true => {
                let named = self.locked.names_in(of).next();
                named.or_else(|| self.locked.inode(of))
            }
            false => self.locked.name(of, &place.name),
        };
        let mut seen = SurveyedEntries {
            count: Some(0),
            locked: by.is_some() || !self.slots.has(of.slot()),
            ..SurveyedEntries::default()
        };
        let Ok((_, directory)) = self.directory(of) else {
            return seen;
        };
        if !place.name.is_empty() {
            if let Some((_, ino)) = directory.find(&place.name) {
                seen.count = Some(1);
                seen.first = Some(self.surveyed_name(of, &place.name, ino));
            }
            return seen;
        }
        let Some(left) = steps.checked_sub(directory.len()) else {
            seen.count = None;
            return seen;
        };
        *steps = left;
        let entries = directory.after(0).map(|(_, entry)| entry);
        let mut named = entries.filter(|entry| entry.ino == Ino(place.ino));
        if let Some(first) = named.next() {
            seen.first = Some(self.surveyed_name(of, &first.name, first.ino));
            seen.count = Some(1 + named.count() as u64);
        }
        seen
    }
}
