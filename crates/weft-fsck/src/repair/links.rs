//! Link counts, and what has no name.

use super::{Answer, CHANGES, End, Round, TRIES, by_ino, parent_set};
use crate::repaired::Repaired;
use crate::survey::Ask;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::repair::What;
use weft_wire::proto::{FileKind, RepairEntryMade, RepairLinks, RepairPlace, SurveyedInode};

/// Names that are tried in /lost+found, should the first ones stand for something else.
const NAMES_TRIED: u32 = 100;

impl<A: Ask> Round<'_, A> {
    pub(super) async fn subdirectories(&mut self, ino: Ino) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            if let Some(inode) = self.look(ino).await? {
                let Some(inode) = inode else {
                    return Ok(End::Settled);
                };
                let Some(below) = inode.subdirectories else {
                    return Ok(End::Later(CHANGES));
                };
                let to = u32::try_from(below + 2).unwrap_or(u32::MAX);
                if inode.nlink == to || inode.nlink == 0 {
                    return Ok(End::Settled);
                }
                match self.set_links(ino, inode.change, to).await? {
                    Answer::Done(_) => return Ok(self.note_links(ino, inode.nlink, to)),
                    Answer::Refused(why) => return Ok(End::Left(why)),
                    Answer::Again | Answer::Exists => {}
                }
            }
            self.pause().await;
        }
        Ok(End::Later(CHANGES))
    }

    async fn set_links(&self, ino: Ino, change: u64, nlink: u32) -> Result<Answer, A::Error> {
        let links = What::Links(RepairLinks {
            ino: ino.0,
            change,
            nlink,
        });
        self.ask(ino, links).await
    }

    fn note_links(&mut self, ino: Ino, from: u32, to: u32) -> End {
        self.note(Repaired::Links { ino, from, to })
    }

    /// What is no directory: its names were counted when its `change` was this.
    pub(super) async fn links(
        &mut self,
        ino: Ino,
        names: u64,
        change: u64,
    ) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            match self.look(ino).await? {
                Some(Some(inode)) if inode.change == change => {
                    let Ok(to @ 1..) = u32::try_from(names) else {
                        return self.lost_file(&inode).await;
                    };
                    match self.set_links(ino, change, to).await? {
                        Answer::Done(_) => return Ok(self.note_links(ino, inode.nlink, to)),
                        Answer::Refused(why) => return Ok(End::Left(why)),
                        Answer::Again | Answer::Exists => {}
                    }
                }
                Some(None) => return Ok(End::Settled),
                // Its names have to be counted again: perhaps only what a client owed has been told.
                Some(Some(_)) => return Ok(End::Later(CHANGES)),
                None => {}
            }
            self.pause().await;
        }
        Ok(End::Later(CHANGES))
    }

    pub(super) async fn nameless(&mut self, ino: Ino, change: u64) -> Result<End, A::Error> {
        for _ in 0..TRIES {
            match self.look(ino).await? {
                Some(Some(inode)) if inode.change == change && !inode.kept_open => {
                    if inode.kind() != FileKind::Directory {
                        return self.lost_file(&inode).await;
                    }
                    let Some(below) = inode.subdirectories else {
                        return Ok(End::Later(CHANGES));
                    };
                    let to = u32::try_from(below + 2).unwrap_or(u32::MAX);
                    match self.set_links(ino, change, to).await? {
                        Answer::Done(_) => {
                            let _: End = self.note_links(ino, inode.nlink, to);
                            return self.lost_directory(ino).await;
                        }
                        Answer::Refused(why) => return Ok(End::Left(why)),
                        Answer::Again | Answer::Exists => {}
                    }
                }
                Some(None) => return Ok(End::Settled),
                Some(Some(_)) => return Ok(End::Later(CHANGES)),
                None => {}
            }
            self.pause().await;
        }
        Ok(End::Later(CHANGES))
    }

    /// What is no directory gets the only name that it has: its link is counted first. What comes or goes meanwhile
    /// is counted as always.
    async fn lost_file(&mut self, inode: &SurveyedInode) -> Result<End, A::Error> {
        let ino = Ino(inode.ino);
        let place = match self.place_for(ino).await? {
            Ok(place) => place,
            Err(end) => return Ok(end),
        };
        if self.survey.group_of(ino) == self.survey.group_of(place) {
            let change = inode.change;
            return self.give_name(place, ino, inode.kind(), change).await;
        }
        // Also where it has one: nobody has given it a name since its names were counted.
        match self.set_links(ino, inode.change, 1).await? {
            Answer::Done(_) => {}
            Answer::Again | Answer::Exists => return Ok(End::Later(CHANGES)),
            Answer::Refused(why) => return Ok(End::Left(why)),
        }
        self.give_name(place, ino, inode.kind(), 0).await
    }

    /// A directory that has no name where it says that it is, nor anywhere else.
    pub(super) async fn lost_directory(&mut self, ino: Ino) -> Result<End, A::Error> {
        let place = match self.place_for(ino).await? {
            Ok(place) => place,
            Err(end) => return Ok(end),
        };
        let is_near = self.survey.group_of(ino) == self.survey.group_of(place);
        for _ in 0..TRIES {
            if let Some(inode) = self.look(ino).await? {
                let Some(inode) = inode.filter(|it| it.nlink > 0) else {
                    return Ok(End::Settled);
                };
                let parent = Ino(inode.parent);
                let there = self.survey.place(by_ino(parent, ino)).await?;
                match there.count {
                    Some(0) if !there.locked => {
                        let answer = match is_near || parent == place {
                            true => Answer::Done(ino),
                            false => self.ask(ino, parent_set(&inode, place)).await?,
                        };
                        match answer {
                            Answer::Done(_) => {
                                let change = if is_near { inode.change } else { 0 };
                                let kind = FileKind::Directory;
                                return self.give_name(place, ino, kind, change).await;
                            }
                            Answer::Refused(why) => return Ok(End::Left(why)),
                            Answer::Again | Answer::Exists => {}
                        }
                    }
                    Some(1..) if !there.locked => return Ok(End::Settled),
                    _ => {}
                }
            }
            self.pause().await;
        }
        Ok(End::Later(CHANGES))
    }

    /// /lost+found, for something that is to be put there.
    async fn place_for(&mut self, ino: Ino) -> Result<Result<Ino, End>, A::Error> {
        for _ in 0..TRIES {
            match self.ask(ROOT_INO, What::Place(RepairPlace {})).await? {
                Answer::Done(place) if place == ino => break,
                Answer::Done(place) => {
                    if let Some(Some(inode)) = self.look(place).await?
                        && inode.kind() == FileKind::Directory
                        && inode.nlink > 0
                        && Ino(inode.parent) == ROOT_INO
                    {
                        return Ok(Ok(place));
                    }
                }
                Answer::Again | Answer::Exists => {}
                Answer::Refused(why) => {
                    let why = format!(
                        "{why}: /lost+found must be a directory that can be made, or is there"
                    );
                    return Ok(Err(End::Left(why)));
                }
            }
            self.pause().await;
        }
        Ok(Err(End::Later(
            "/lost+found is not in order yet: run it again",
        )))
    }

    /// With `change`: the inode is the same group's as the directory, and comes to fit its name at once.
    async fn give_name(
        &mut self,
        place: Ino,
        ino: Ino,
        kind: FileKind,
        change: u64,
    ) -> Result<End, A::Error> {
        let (mut number, mut tries) = (0, 0);
        while number < NAMES_TRIED && tries < TRIES {
            let name = match number {
                0 => format!("ino-{}", ino.0),
                number => format!("ino-{}-{number}", ino.0),
            };
            let made = What::EntryMade(RepairEntryMade {
                directory: place.0,
                name: name.clone().into(),
                ino: ino.0,
                kind: kind as i32,
                change,
            });
            match self.ask(place, made).await? {
                Answer::Done(_) => return Ok(self.note(Repaired::Found { ino, kind, name })),
                Answer::Exists => number += 1,
                Answer::Again => {
                    tries += 1;
                    self.pause().await;
                }
                Answer::Refused(why) => return Ok(End::Left(why)),
            }
        }
        Ok(End::Later(CHANGES))
    }
}
