//! Looks again at single entries and directories that seem wrong.
//!
//! What each look proves: inode numbers are never used again, so an entry that stands after its inode was seen
//! absent names nothing. A directory's links and entries are one group's, and are told as of one moment. Where
//! a transaction has locked something, nothing is concluded.

use crate::finding::Finding;
use crate::survey::{Ask, Survey};
use crate::table::Suspects;
use crate::{Report, Terms};
use std::collections::BTreeMap;
use weft_env::Env;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{FileKind, SurveyedInode, SurveyedName, SurveyedPlace};

/// Directories that one walk upwards goes through.
const WAY_MAX: usize = 10_000;

/// What one look says.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It is as it must be, or gone.
    Fine,
    /// It is being changed.
    Unclear,
    Wrong(Finding),
}

/// What is suspicious, and what the looks at it have said.
struct Case<T> {
    what: T,
    /// So many have said that it is wrong since one did not.
    wrong: u32,
}

/// Keeps what is still suspicious; what is certain goes into the report.
fn note<T>(
    cases: Vec<Case<T>>,
    verdicts: Vec<Verdict>,
    terms: &Terms,
    report: &mut Report,
) -> Vec<Case<T>> {
    let mut left = Vec::new();
    for (mut case, verdict) in cases.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Unclear => {
                case.wrong = 0;
                left.push(case);
            }
            Verdict::Wrong(finding) => {
                case.wrong += 1;
                match case.wrong >= terms.confirmations {
                    true => report.wrong.push(finding),
                    false => left.push(case),
                }
            }
        }
    }
    left
}

fn cases<T>(all: impl IntoIterator<Item = T>) -> Vec<Case<T>> {
    let all = all.into_iter();
    all.map(|what| Case { what, wrong: 0 }).collect()
}

fn is_directory(inode: &SurveyedInode) -> bool {
    inode.kind() == FileKind::Directory
}

/// Looks until all is decided, or it has been looked often enough. Files of which more is to be known are added to
/// the suspicious ones.
pub(crate) async fn run<A: Ask>(
    env: &Env,
    survey: &Survey<'_, A>,
    terms: &Terms,
    suspects: &mut Suspects,
    report: &mut Report,
) -> Result<(), A::Error> {
    let mut entries = cases(std::mem::take(&mut suspects.entries));
    let mut directories = cases(std::mem::take(&mut suspects.directories));
    let mut circles = cases(std::mem::take(&mut suspects.circles));
    for look in 0..terms.looks_max {
        if entries.is_empty() && directories.is_empty() && circles.is_empty() {
            return Ok(());
        }
        if look > 0 {
            env.sleep(terms.pause).await;
        }
        let names: Vec<&SurveyedName> = entries.iter().map(|case| &case.what).collect();
        let verdicts = look_at_entries(survey, &names, (look == 0).then_some(&mut *suspects));
        let verdicts = verdicts.await?;
        entries = note(entries, verdicts, terms, report);

        let inos: Vec<Ino> = directories.iter().map(|case| case.what).collect();
        let verdicts = look_at_directories(survey, &inos).await?;
        directories = note(directories, verdicts, terms, report);

        let mut verdicts = Vec::new();
        for case in &circles {
            verdicts.push(walk_up(survey, case.what).await?);
        }
        circles = note(circles, verdicts, terms, report);
    }
    let names = entries.iter().map(|case| &case.what);
    let names = names.map(|name| {
        let text = String::from_utf8_lossy(&name.name);
        format!("entry {text:?} of directory {:#x}", name.directory)
    });
    report.undecided.extend(names);
    let inodes = directories.iter().chain(&circles);
    let inodes = inodes.map(|case| format!("directory {:#x}", case.what.0));
    report.undecided.extend(inodes);
    Ok(())
}

/// The inodes first, the entries after them. With `suspects`, which is for the first look, files that had not been
/// there when inodes were gone through are compared with their names.
async fn look_at_entries<A: Ask>(
    survey: &Survey<'_, A>,
    names: &[&SurveyedName],
    suspects: Option<&mut Suspects>,
) -> Result<Vec<Verdict>, A::Error> {
    let inos: Vec<Ino> = names.iter().map(|name| Ino(name.ino)).collect();
    let sights = survey.sights(&inos).await?;
    let places = names.iter().map(|name| SurveyedPlace {
        directory: name.directory,
        name: name.name.clone(),
        ino: 0,
    });
    let places: Vec<SurveyedPlace> = places.collect();
    let entries = survey.entries(&places).await?;
    let mut verdicts = Vec::new();
    // Of files: their links, and how many of the names that were looked at stand.
    let mut files: BTreeMap<Ino, (u32, u32)> = BTreeMap::new();
    for ((name, sight), entry) in names.iter().zip(sights).zip(entries) {
        let still = entry.first.filter(|first| first.ino == name.ino);
        let Some(still) = still else {
            verdicts.push(Verdict::Fine);
            continue;
        };
        let verdict = match &sight.inode {
            _ if entry.locked || sight.locked => Verdict::Unclear,
            None => Verdict::Wrong(Finding::NamesNothing(still)),
            Some(inode) if inode.kind != still.kind => {
                Verdict::Wrong(Finding::OtherKind(still, inode.kind()))
            }
            Some(inode) if is_directory(inode) && inode.parent != name.directory => {
                Verdict::Wrong(Finding::SecondPlace(still, Ino(inode.parent)))
            }
            Some(inode) if inode.ino == ROOT_INO.0 => {
                Verdict::Wrong(Finding::SecondPlace(still, ROOT_INO))
            }
            Some(inode) => {
                if !is_directory(inode) {
                    files.entry(Ino(inode.ino)).or_insert((inode.nlink, 0)).1 += 1;
                }
                Verdict::Fine
            }
        };
        verdicts.push(verdict);
    }
    if let Some(suspects) = suspects {
        let differ = files
            .into_iter()
            .filter(|(_, (links, names))| links != names);
        differ.for_each(|(ino, _)| suspects.file(ino));
    }
    Ok(verdicts)
}

/// Each directory, then its entry in the one that it says it is in, then it once more, where that is missing.
async fn look_at_directories<A: Ask>(
    survey: &Survey<'_, A>,
    inos: &[Ino],
) -> Result<Vec<Verdict>, A::Error> {
    let sights = survey.sights(inos).await?;
    let parent_of = |at: usize| sights[at].inode.as_ref().map_or(0, |inode| inode.parent);
    let places = inos.iter().enumerate().map(|(at, ino)| SurveyedPlace {
        directory: parent_of(at),
        ino: ino.0,
        ..SurveyedPlace::default()
    });
    let places: Vec<SurveyedPlace> = places.collect();
    let entries = survey.entries(&places).await?;
    let again = survey.sights(inos).await?;
    let mut verdicts = Vec::new();
    for (at, ino) in inos.iter().enumerate() {
        let Some(inode) = &sights[at].inode else {
            verdicts.push(Verdict::Fine);
            continue;
        };
        let stays = again[at].inode.as_ref().is_some_and(|later| {
            later.parent == inode.parent && (later.nlink > 0) == (inode.nlink > 0)
        });
        let is_locked = sights[at].locked || again[at].locked;
        let names = entries[at].count;
        let wanted = u64::from(*ino != ROOT_INO);
        verdicts.push(match (inode.nlink, inode.subdirectories) {
            _ if is_locked => Verdict::Unclear,
            (0, _) if inode.kept_open => Verdict::Fine,
            (0, _) => Verdict::Wrong(Finding::Nameless {
                ino: *ino,
                change: inode.change,
            }),
            (_, None) => Verdict::Unclear,
            (nlink, Some(subdirectories)) if u64::from(nlink) != subdirectories + 2 => {
                Verdict::Wrong(Finding::Subdirectories {
                    ino: *ino,
                    nlink,
                    subdirectories,
                })
            }
            _ if !stays || entries[at].locked => Verdict::Unclear,
            _ if names.is_none() => Verdict::Unclear,
            _ if names.unwrap_or(0) != wanted || (wanted == 0 && inode.parent != ino.0) => {
                Verdict::Wrong(Finding::NotInParent {
                    ino: *ino,
                    parent: Ino(inode.parent),
                    names: names.unwrap_or(0),
                })
            }
            _ => Verdict::Fine,
        });
    }
    Ok(verdicts)
}

/// From a directory to the root, or back to where the way has been.
async fn walk_up<A: Ask>(survey: &Survey<'_, A>, from: Ino) -> Result<Verdict, A::Error> {
    let mut way = std::collections::BTreeSet::new();
    let mut at = from;
    while at != ROOT_INO {
        if !way.insert(at) {
            return Ok(Verdict::Wrong(Finding::Circle(at)));
        }
        if way.len() > WAY_MAX {
            return Ok(Verdict::Unclear);
        }
        let sight = survey.sights(&[at]).await?.pop().unwrap_or_default();
        at = match sight.inode {
            _ if sight.locked => return Ok(Verdict::Unclear),
            // Where it ends is looked at as a directory that has no name.
            None => return Ok(Verdict::Fine),
            Some(inode) if inode.nlink == 0 || !is_directory(&inode) => return Ok(Verdict::Fine),
            Some(inode) => Ino(inode.parent),
        };
    }
    Ok(Verdict::Fine)
}
