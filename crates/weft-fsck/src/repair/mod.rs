//! Sets right what a check has found (`docs/protocols/fsck.md`).
//!
//! Each step is one group's, and names what was seen of it: it does nothing when that has changed. Before each,
//! what it follows from is looked at once more. So a repair that ends halfway leaves what the next check finds, and
//! two that run at once do no harm.

mod links;
mod names;

use crate::finding::Finding;
use crate::repaired::Repaired;
use crate::survey::{Ask, Survey};
use crate::{Report, Terms, check};
use std::collections::BTreeSet;
use weft_env::Env;
use weft_types::{GroupId, Ino, ROOT_INO};
use weft_wire::proto::repair::What;
use weft_wire::proto::{
    Repair, RepairEntryGone, RepairParent, SurveyedInode, SurveyedName, SurveyedPlace,
};

/// Checks and repairs, one after the other: damage may hide other damage.
const ROUNDS_MAX: u32 = 8;
/// Looks at one thing that changes, or is locked, whenever it is to be repaired.
const TRIES: u32 = 20;

/// What came of it.
#[derive(Clone, Default, Debug)]
pub struct Mended {
    /// All that was done, in order.
    pub repaired: Vec<Repaired>,
    /// What was not, in the last round, and why.
    pub left: Vec<(Finding, String)>,
    /// The last check.
    pub report: Report,
}

/// How the attempt to repair one thing ended.
enum End {
    Done,
    /// It is right by now, or another thing's matter.
    Settled,
    /// It changed, or was locked, all the time; or other things have to be known first.
    Later(&'static str),
    /// It cannot be repaired.
    Left(String),
}

/// How a group answered.
enum Answer {
    Done(Ino),
    /// It is not as it was seen, or not free.
    Again,
    Exists,
    Refused(String),
}

/// Repairs what `report`, which [`check()`] has just made of the same groups, says is wrong, until a check finds
/// nothing more that it could repair. Tells each thing when it is done.
///
/// # Errors
/// What a group answers that does not serve. What has been told is done.
pub async fn repair<A: Ask>(
    env: &Env,
    ask: &A,
    groups: &[GroupId],
    terms: &Terms,
    report: &Report,
    mut told: impl FnMut(&Repaired),
) -> Result<Mended, A::Error> {
    let mut mended = Mended {
        report: report.clone(),
        ..Mended::default()
    };
    for _ in 0..ROUNDS_MAX {
        mended.left.clear();
        if mended.report.wrong.is_empty() {
            break;
        }
        let before = mended.repaired.len();
        let survey = Survey::of(ask, groups).await?;
        let mut round = Round {
            env,
            survey: &survey,
            terms,
            report: &mended.report,
            repaired: &mut mended.repaired,
            left: Vec::new(),
            is_later: false,
            told: &mut told,
        };
        round.run().await?;
        let (left, is_later) = (round.left, round.is_later);
        mended.left = left;
        if mended.repaired.len() == before && !is_later {
            break;
        }
        mended.report = check(env, ask, groups, terms).await?;
    }
    Ok(mended)
}

/// One time through all that a check has found.
struct Round<'a, A> {
    env: &'a Env,
    survey: &'a Survey<'a, A>,
    terms: &'a Terms,
    report: &'a Report,
    repaired: &'a mut Vec<Repaired>,
    left: Vec<(Finding, String)>,
    is_later: bool,
    told: &'a mut dyn FnMut(&Repaired),
}

fn by_name(name: &SurveyedName) -> SurveyedPlace {
    SurveyedPlace {
        directory: name.directory,
        name: name.name.clone(),
        ino: 0,
    }
}

fn by_ino(directory: Ino, ino: Ino) -> SurveyedPlace {
    SurveyedPlace {
        directory: directory.0,
        ino: ino.0,
        ..SurveyedPlace::default()
    }
}

fn removal(name: &SurveyedName, change: u64) -> What {
    What::EntryGone(RepairEntryGone {
        directory: name.directory,
        name: name.name.clone(),
        ino: name.ino,
        absent: false,
        change,
    })
}

const CHANGES: &str = "it changed, or was locked, whenever it was to be repaired: run it again";
const INCOMPLETE: &str =
    "other things are not decided, so that it may have a name: run it again when less is changed";

const SHARD: &str =
    "it is a shard of a spread directory, or its name there: those are not repaired";

impl<A: Ask> Round<'_, A> {
    async fn run(&mut self) -> Result<(), A::Error> {
        let report = self.report;
        let is_barred = |finding: &&Finding| finding.remedy().is_err();
        if let Some(bar) = report.wrong.iter().find(is_barred) {
            // What a group answers for others cannot be relied upon.
            let why = bar.remedy().err().unwrap_or_default();
            let all = report.wrong.iter().cloned();
            self.left = all.map(|finding| (finding, why.to_owned())).collect();
            return Ok(());
        }
        let mut wrong: Vec<&Finding> = report.wrong.iter().collect();
        wrong.sort_by_key(|finding| order(finding));
        let named: BTreeSet<Ino> = wrong
            .iter()
            .filter(|finding| matches!(finding, Finding::SecondPlace(..)))
            .filter_map(|finding| finding.ino())
            .collect();
        for finding in wrong {
            match self.one(finding, &named).await? {
                End::Done | End::Settled => {}
                End::Later(why) => {
                    self.is_later = true;
                    self.left.push((finding.clone(), why.to_owned()));
                }
                End::Left(why) => self.left.push((finding.clone(), why)),
            }
        }
        Ok(())
    }

    async fn one(&mut self, finding: &Finding, named: &BTreeSet<Ino>) -> Result<End, A::Error> {
        let can_be_nameless = self.report.is_complete();
        match finding {
            Finding::Slot(..) | Finding::Stray(..) => Ok(End::Settled),
            Finding::NamesNothing(name) => self.names_nothing(name).await,
            Finding::OtherKind(name, _) => self.other_kind(name).await,
            Finding::SecondPlace(name, _) => self.second_place(name).await,
            // Its name elsewhere is repaired.
            Finding::NotInParent { ino, names: 0, .. } if named.contains(ino) => Ok(End::Settled),
            Finding::NotInParent { names: 0, .. } if !can_be_nameless => Ok(End::Later(INCOMPLETE)),
            Finding::NotInParent { ino, names, .. } => self.not_in_parent(*ino, *names).await,
            Finding::Circle(ino) => self.circle(*ino).await,
            Finding::Subdirectories { ino, .. } => self.subdirectories(*ino).await,
            Finding::Links { names: 0, .. } | Finding::Nameless { .. } if !can_be_nameless => {
                Ok(End::Later(INCOMPLETE))
            }
            Finding::Links {
                ino, names, change, ..
            } => self.links(*ino, *names, *change).await,
            Finding::Nameless { ino, change } => self.nameless(*ino, *change).await,
        }
    }

    async fn pause(&self) {
        self.env.sleep(self.terms.pause).await;
    }

    fn note(&mut self, repaired: Repaired) -> End {
        (self.told)(&repaired);
        self.repaired.push(repaired);
        End::Done
    }

    async fn ask(&self, of: Ino, what: What) -> Result<Answer, A::Error> {
        let repair = Repair { what: Some(what) };
        let Some(reply) = self.survey.repair(of, repair).await? else {
            return Ok(Answer::Again);
        };
        let errno = i32::try_from(reply.failure_errno).unwrap_or(i32::MAX);
        Ok(match errno {
            0 => Answer::Done(Ino(reply.ino)),
            libc::ESTALE | libc::EAGAIN => Answer::Again,
            libc::EEXIST => Answer::Exists,
            libc::EPERM => Answer::Refused(SHARD.into()),
            errno => Answer::Refused(format!(
                "the group refuses it: {}",
                std::io::Error::from_raw_os_error(errno)
            )),
        })
    }

    /// An inode that nobody has locked. None: it is locked. Some(None): it is not there.
    async fn look(&self, ino: Ino) -> Result<Option<Option<SurveyedInode>>, A::Error> {
        let sight = self.survey.sight(ino).await?;
        Ok((!sight.locked).then_some(sight.inode))
    }

    /// The same for an entry that stands as it was seen.
    async fn look_at(&self, name: &SurveyedName) -> Result<Option<Option<SurveyedName>>, A::Error> {
        let entry = self.survey.place(by_name(name)).await?;
        let stands = entry.first.filter(|first| first.ino == name.ino);
        Ok((!entry.locked).then_some(stands))
    }

    fn note_parent(&mut self, ino: Ino, from: Ino, to: Ino) -> End {
        self.note(Repaired::Parent { ino, from, to })
    }

    async fn not_in_parent(&mut self, ino: Ino, names: u64) -> Result<End, A::Error> {
        if ino == ROOT_INO {
            return self.root_parent().await;
        }
        match names {
            0 => self.lost_directory(ino).await,
            _ => self.only_one_name(ino).await,
        }
    }
}

fn parent_set(inode: &SurveyedInode, parent: Ino) -> What {
    What::Parent(RepairParent {
        ino: inode.ino,
        change: inode.change,
        parent: parent.0,
    })
}

/// Entries first: what they name may be lost else. Links last: they follow from the rest.
fn order(finding: &Finding) -> u32 {
    match finding {
        Finding::Slot(..) | Finding::Stray(..) => 0,
        Finding::NamesNothing(_) => 1,
        Finding::OtherKind(..) => 2,
        Finding::SecondPlace(..) => 3,
        Finding::NotInParent { names: 1.., .. } => 4,
        Finding::Circle(_) => 5,
        Finding::Links { names: 1.., .. } => 6,
        Finding::NotInParent { .. } => 7,
        Finding::Links { .. } | Finding::Nameless { .. } => 8,
        Finding::Subdirectories { .. } => 9,
    }
}
