//! Entries that are wrong, and directories that have several names, or are not where they say.

use super::{Answer, CHANGES, End, Round, TRIES, by_ino, parent_set, removal};
use crate::repaired::Repaired;
use crate::survey::Ask;
use std::collections::BTreeSet;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::repair::What;
use weft_wire::proto::{FileKind, RepairEntryGone, RepairKind, SurveyedName};

/// Directories that a way upwards goes through.
const WAY_MAX: usize = 10_000;

impl<A: Ask> Round<'_, A> {
    pub(super) async fn names_nothing(&mut self, name: &SurveyedName) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            // Absent once is absent for ever.
            match self.look(Ino(name.ino)).await? {
                Some(None) => {}
                Some(Some(_)) => return Ok(End::Settled),
                None => {
                    self.pause().await;
                    continue;
                }
            }
            if let Some(None) = self.look_at(name).await? {
                return Ok(End::Settled);
            }
            let gone = What::EntryGone(RepairEntryGone {
                directory: name.directory,
                name: name.name.clone(),
                ino: name.ino,
                absent: true,
                change: 0,
            });
            match self.ask(Ino(name.directory), gone).await? {
                Answer::Done(_) => return Ok(self.note(Repaired::NamedNothing(name.clone()))),
                Answer::Again | Answer::Exists => self.pause().await,
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }

    pub(super) async fn other_kind(&mut self, name: &SurveyedName) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            let inode = self.look(Ino(name.ino)).await?;
            let (Some(inode), Some(entry)) = (inode, self.look_at(name).await?) else {
                self.pause().await;
                continue;
            };
            let (Some(inode), Some(entry)) = (inode, entry) else {
                return Ok(End::Settled);
            };
            if inode.kind == entry.kind {
                return Ok(End::Settled);
            }
            let kind = What::Kind(RepairKind {
                directory: name.directory,
                name: name.name.clone(),
                ino: name.ino,
                was: entry.kind,
                kind: inode.kind,
            });
            match self.ask(Ino(name.directory), kind).await? {
                Answer::Done(_) => return Ok(self.note(Repaired::Kind(entry, inode.kind()))),
                Answer::Again | Answer::Exists => self.pause().await,
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }

    /// An entry of a directory that says that it is in another one. The entry goes if there is one there, and else
    /// is right. What is looked at stands in this order: the directory of the entry, what it names, where that says
    /// that it is, and it once more. Since the entry goes only if its own directory is as at first, what it names
    /// cannot have come here since.
    pub(super) async fn second_place(&mut self, name: &SurveyedName) -> Result<End, A::Error> {
        let (here, ino) = (Ino(name.directory), Ino(name.ino));
        for _ in 0..TRIES {
            let directory = self.look(here).await?;
            let entry = self.look_at(name).await?;
            let before = self.look(ino).await?;
            let (Some(directory), Some(entry), Some(before)) = (directory, entry, before) else {
                self.pause().await;
                continue;
            };
            let (Some(directory), Some(_), Some(before)) = (directory, entry, before) else {
                return Ok(End::Settled);
            };
            let parent = Ino(before.parent);
            let is_root = ino == ROOT_INO;
            if parent == here && !is_root || before.kind() != FileKind::Directory {
                return Ok(End::Settled);
            }
            let there = self.survey.place(by_ino(parent, ino)).await?;
            let after = self.look(ino).await?;
            let is_same = after.flatten().is_some_and(|it| it.change == before.change);
            if there.locked || there.count.is_none() || !is_same {
                self.pause().await;
                continue;
            }
            let is_second = is_root || there.count != Some(0);
            let (of, what) = match is_second {
                true => (here, removal(name, directory.change)),
                false => (ino, parent_set(&before, here)),
            };
            match self.ask(of, what).await? {
                Answer::Done(_) if is_second => {
                    return Ok(self.note(Repaired::SecondName(name.clone())));
                }
                Answer::Done(_) => return Ok(self.note_parent(ino, parent, here)),
                Answer::Again | Answer::Exists => self.pause().await,
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }

    pub(super) async fn root_parent(&mut self) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            match self.look(ROOT_INO).await? {
                Some(Some(root)) if Ino(root.parent) != ROOT_INO => {
                    let what = parent_set(&root, ROOT_INO);
                    if let Answer::Done(_) = self.ask(ROOT_INO, what).await? {
                        return Ok(self.note_parent(ROOT_INO, Ino(root.parent), ROOT_INO));
                    }
                }
                Some(_) => return Ok(End::Settled),
                None => {}
            }
            self.pause().await;
        }
        Ok(End::Later(CHANGES))
    }

    /// Of several entries of a directory in the one that it is in, the oldest stays.
    pub(super) async fn only_one_name(&mut self, ino: Ino) -> Result<End, A::Error> {
        let mut end = End::Settled;
        let mut tries = 0;
        while tries < TRIES {
            let Some(inode) = self.look(ino).await? else {
                tries += 1;
                self.pause().await;
                continue;
            };
            let Some(inode) = inode else { return Ok(end) };
            let parent = Ino(inode.parent);
            let above = self.look(parent).await?;
            let names = self.survey.names_of(parent, ino).await?;
            let (Some(Some(above)), [_, .., last]) = (above, &names[..]) else {
                return Ok(end);
            };
            match self.ask(parent, removal(last, above.change)).await? {
                Answer::Done(_) => end = self.note(Repaired::SecondName(last.clone())),
                Answer::Again | Answer::Exists => {
                    tries += 1;
                    self.pause().await;
                }
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }

    /// Of directories that lie within each other the one with the smallest number loses its name there, and is
    /// lost then.
    pub(super) async fn circle(&mut self, from: Ino) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            let Some(circle) = self.walk_circle(from).await? else {
                return Ok(End::Settled);
            };
            let Some(cut) = circle.first().copied() else {
                self.pause().await;
                continue;
            };
            let Some(Some(inode)) = self.look(cut).await? else {
                self.pause().await;
                continue;
            };
            let parent = Ino(inode.parent);
            let Some(Some(above)) = self.look(parent).await? else {
                self.pause().await;
                continue;
            };
            let names = self.survey.names_of(parent, cut).await?;
            let Some(name) = names.last() else {
                return self.lost_directory(cut).await;
            };
            match self.ask(parent, removal(name, above.change)).await? {
                Answer::Done(_) => drop(self.note(Repaired::SecondName(name.clone()))),
                Answer::Again | Answer::Exists => self.pause().await,
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }

    /// The directories of the circle that the way up from this one ends in. None: it ends; none of them: something
    /// on it is locked.
    async fn walk_circle(&self, from: Ino) -> Result<Option<BTreeSet<Ino>>, A::Error> {
        let mut way: Vec<Ino> = Vec::new();
        let mut at = from;
        while at != ROOT_INO && way.len() < WAY_MAX {
            if let Some(begin) = way.iter().position(|met| *met == at) {
                return Ok(Some(way.drain(begin..).collect()));
            }
            way.push(at);
            at = match self.look(at).await? {
                None => return Ok(Some(BTreeSet::new())),
                Some(Some(inode)) if inode.kind() == FileKind::Directory && inode.nlink > 0 => {
                    Ino(inode.parent)
                }
                Some(_) => return Ok(None),
            };
        }
        Ok(None)
    }
}
