//! What is asked of the groups.

use crate::finding::{Finding, Waiting};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_types::{Epoch, GroupId, Ino, SLOTS, Slot, TransactionId};
use weft_wire::Rpc;
use weft_wire::proto::surveyed_transaction::Stage;
use weft_wire::proto::{
    Repair, RepairReply, RepairRequest, SlotRange, SurveyGroupReply, SurveyGroupRequest,
    SurveyInodesRequest, SurveyLookRequest, SurveyNamesRequest, SurveyedEntries, SurveyedInode,
    SurveyedName, SurveyedPlace, SurveyedSight,
};

/// Inodes or names of one page.
const PAGE: u32 = 4_096;
/// Inodes or places of one look: what a group takes at once, and fewer.
const LOOKS: usize = 500;

/// Who asks the active of a group.
pub trait Ask {
    /// Why there is no answer.
    type Error;

    /// Asks one question.
    fn ask<R: Rpc>(
        &self,
        group: GroupId,
        request: &R,
    ) -> impl Future<Output = Result<R::Reply, Self::Error>>;
}

/// The first and the last batch that pages of a group were as of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// The groups of a cluster, as they have said which slots they have.
pub struct Survey<'a, A> {
    ask: &'a A,
    groups: Vec<(GroupId, Vec<SlotRange>)>,
    spans: RefCell<BTreeMap<GroupId, Span>>,
}

impl<'a, A: Ask> Survey<'a, A> {
    /// Asks each group what it has.
    ///
    /// # Errors
    /// What a group answers that does not serve.
    pub async fn of(ask: &'a A, groups: &[GroupId]) -> Result<Survey<'a, A>, A::Error> {
        let mut survey = Survey {
            ask,
            groups: Vec::new(),
            spans: RefCell::default(),
        };
        for group in groups {
            let reply = ask.ask(*group, &SurveyGroupRequest {}).await?;
            survey.note(*group, reply.sn);
            survey.groups.push((*group, reply.slots));
        }
        Ok(survey)
    }

    /// No slot has moved since the other one.
    pub(crate) fn is_same(&self, other: &Survey<'_, A>) -> bool {
        self.groups == other.groups
    }

    fn note(&self, group: GroupId, sn: u64) {
        let mut spans = self.spans.borrow_mut();
        let span = spans.entry(group).or_insert(Span {
            first: sn,
            last: sn,
        });
        span.last = span.last.max(sn);
    }

    pub(crate) fn spans(&self) -> Vec<(GroupId, Span)> {
        let spans = self.spans.borrow();
        spans.iter().map(|(group, span)| (*group, *span)).collect()
    }

    /// The groups, in order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.groups.iter().map(|(group, _)| *group)
    }

    fn holders(&self, slot: Slot) -> impl Iterator<Item = GroupId> + '_ {
        let has = move |ranges: &[SlotRange]| {
            let slot = u32::from(slot.0);
            let mut ranges = ranges.iter();
            ranges.any(|range| (range.first..=range.last).contains(&slot))
        };
        let groups = self.groups.iter();
        groups
            .filter(move |(_, ranges)| has(ranges))
            .map(|(group, _)| *group)
    }

    /// The group that has an inode. None: no group says that it has.
    pub(crate) fn group_of(&self, ino: Ino) -> Option<GroupId> {
        self.holders(ino.slot()).next()
    }

    /// Slots that not exactly one group has.
    pub(crate) fn slots_twice(&self) -> Vec<Finding> {
        let slots = (0..SLOTS).map(|slot| (Slot(slot), self.holders(Slot(slot)).collect()));
        let wrong = slots.filter(|(_, groups): &(Slot, Vec<GroupId>)| groups.len() != 1);
        wrong
            .map(|(slot, groups)| Finding::Slot(slot, groups))
            .collect()
    }

    /// All inodes of a group. Answers those that are none of its.
    pub(crate) async fn inodes(
        &self,
        group: GroupId,
        mut each: impl FnMut(&SurveyedInode),
    ) -> Result<Vec<Finding>, A::Error> {
        let mut strays = Vec::new();
        let mut request = SurveyInodesRequest {
            after: 0,
            max: PAGE,
        };
        loop {
            let page = self.ask.ask(group, &request).await?;
            self.note(group, page.sn);
            for inode in &page.inodes {
                let ino = Ino(inode.ino);
                request.after = request.after.max(inode.ino);
                match self.group_of(ino) == Some(group) {
                    true => each(inode),
                    false => strays.push(Finding::Stray(ino, group)),
                }
            }
            if !page.more || page.inodes.is_empty() {
                return Ok(strays);
            }
        }
    }

    /// All entries of a group's directories. Answers how many there are.
    pub(crate) async fn names(
        &self,
        group: GroupId,
        each: impl FnMut(SurveyedName),
    ) -> Result<u64, A::Error> {
        self.names_up_to(group, u64::MAX, each).await
    }

    /// The same, but for what comes after the page with the `max`th.
    pub(crate) async fn names_up_to(
        &self,
        group: GroupId,
        max: u64,
        mut each: impl FnMut(SurveyedName),
    ) -> Result<u64, A::Error> {
        let mut count = 0;
        let mut request = SurveyNamesRequest {
            max: PAGE,
            ..SurveyNamesRequest::default()
        };
        loop {
            let page = self.ask.ask(group, &request).await?;
            self.note(group, page.sn);
            count += page.names.len() as u64;
            page.names.into_iter().for_each(&mut each);
            let next = (page.directory, page.cookie);
            // One that does not go on would be asked for ever.
            if !page.more || count >= max || next <= (request.directory, request.cookie) {
                return Ok(count);
            }
            (request.directory, request.cookie) = next;
        }
    }

    /// Looks at inodes again. Answers what was seen, in their order; of one whose slot is no group's nothing is known,
    /// so it counts as locked.
    pub(crate) async fn sights(&self, inos: &[Ino]) -> Result<Vec<SurveyedSight>, A::Error> {
        let unknown = SurveyedSight {
            locked: true,
            ..SurveyedSight::default()
        };
        let mut seen = vec![unknown; inos.len()];
        for group in self.groups() {
            let of_group: Vec<usize> = self.places_in(group, inos.iter().copied());
            for part in of_group.chunks(LOOKS) {
                let request = SurveyLookRequest {
                    inos: part.iter().map(|at| inos[*at].0).collect(),
                    places: Vec::new(),
                };
                let reply = self.ask.ask(group, &request).await?;
                self.note(group, reply.sn);
                for (at, sight) in part.iter().zip(reply.sights) {
                    seen[*at] = sight;
                }
            }
        }
        Ok(seen)
    }

    /// Looks at entries again, in the same way.
    pub(crate) async fn entries(
        &self,
        places: &[SurveyedPlace],
    ) -> Result<Vec<SurveyedEntries>, A::Error> {
        let unknown = SurveyedEntries {
            locked: true,
            ..SurveyedEntries::default()
        };
        let mut seen = vec![unknown; places.len()];
        for group in self.groups() {
            let directories = places.iter().map(|place| Ino(place.directory));
            let of_group: Vec<usize> = self.places_in(group, directories);
            for part in of_group.chunks(LOOKS) {
                let request = SurveyLookRequest {
                    inos: Vec::new(),
                    places: part.iter().map(|at| places[*at].clone()).collect(),
                };
                let reply = self.ask.ask(group, &request).await?;
                self.note(group, reply.sn);
                for (at, entries) in part.iter().zip(reply.places) {
                    seen[*at] = entries;
                }
            }
        }
        Ok(seen)
    }

    /// One inode, in the same way.
    pub(crate) async fn sight(&self, ino: Ino) -> Result<SurveyedSight, A::Error> {
        Ok(self.sights(&[ino]).await?.pop().unwrap_or_default())
    }

    /// One entry of a directory, or those of it that name an inode, in the same way.
    pub(crate) async fn place(&self, place: SurveyedPlace) -> Result<SurveyedEntries, A::Error> {
        Ok(self.entries(&[place]).await?.pop().unwrap_or_default())
    }

    /// The entries of a directory that name an inode, the oldest first.
    pub(crate) async fn names_of(
        &self,
        directory: Ino,
        ino: Ino,
    ) -> Result<Vec<SurveyedName>, A::Error> {
        let mut found = Vec::new();
        let Some(group) = self.group_of(directory) else {
            return Ok(found);
        };
        let mut request = SurveyNamesRequest {
            directory: directory.0,
            cookie: 0,
            max: PAGE,
        };
        loop {
            let page = self.ask.ask(group, &request).await?;
            let next = (page.directory, page.cookie);
            let names = page.names.into_iter();
            let of_it = names.filter(|name| Ino(name.directory) == directory);
            found.extend(of_it.filter(|name| Ino(name.ino) == ino));
            let is_over = !page.more || next.0 != directory.0;
            if is_over || next <= (request.directory, request.cookie) {
                return Ok(found);
            }
            (request.directory, request.cookie) = next;
        }
    }

    /// Has the group that has this inode repair something of it. None: no group says that it has it.
    pub(crate) async fn repair(
        &self,
        of: Ino,
        repair: Repair,
    ) -> Result<Option<RepairReply>, A::Error> {
        let Some(group) = self.group_of(of) else {
            return Ok(None);
        };
        let request = RepairRequest {
            repair: Some(repair),
        };
        Ok(Some(self.ask.ask(group, &request).await?))
    }

    /// Where in a list the inodes of a group stand.
    fn places_in(&self, group: GroupId, inos: impl Iterator<Item = Ino>) -> Vec<usize> {
        let numbered = inos.enumerate();
        let of_group = numbered.filter(|(_, ino)| self.group_of(*ino) == Some(group));
        of_group.map(|(at, _)| at).collect()
    }

    /// The inodes that transactions concern now of which parts are prepared. None: there are too many to tell.
    pub(crate) async fn concerned(&self) -> Result<Option<BTreeSet<Ino>>, A::Error> {
        let mut concerned = BTreeSet::new();
        let mut are_all = true;
        for group in self.groups() {
            let reply = self.group(group).await?;
            are_all &= !reply.more;
            let inos = reply.transactions.iter().flat_map(|it| &it.inos);
            concerned.extend(inos.map(|ino| Ino(*ino)));
        }
        Ok(are_all.then_some(concerned))
    }

    /// How often entries of directories have gone to shards, in each group. As long as that stands no name goes from one
    /// directory to another unless its inode is changed, or a transaction concerns it.
    pub(crate) async fn splits(&self) -> Result<Vec<u64>, A::Error> {
        let mut splits = Vec::new();
        for group in self.groups() {
            splits.push(self.group(group).await?.splits);
        }
        Ok(splits)
    }

    async fn group(&self, group: GroupId) -> Result<SurveyGroupReply, A::Error> {
        let reply = self.ask.ask(group, &SurveyGroupRequest {}).await?;
        self.note(group, reply.sn);
        Ok(reply)
    }

    /// The transactions that have not ended for so long.
    pub(crate) async fn waiting(&self, long: Duration) -> Result<Vec<Waiting>, A::Error> {
        let mut waiting = Vec::new();
        for group in self.groups() {
            for one in self.group(group).await?.transactions {
                if u128::from(one.age_ms) < long.as_millis() {
                    continue;
                }
                let id = one.transaction.unwrap_or_default();
                waiting.push(Waiting {
                    transaction: TransactionId {
                        home: GroupId(id.home),
                        epoch: Epoch(id.epoch),
                        number: id.number,
                    },
                    group,
                    stage: match one.stage() {
                        Stage::Prepared => "prepared",
                        Stage::Telling => "telling",
                        Stage::Undecided | Stage::Unspecified => "undecided",
                    },
                    age_ms: one.age_ms,
                    asked: one.groups.iter().map(|group| GroupId(*group)).collect(),
                });
            }
        }
        Ok(waiting)
    }
}
