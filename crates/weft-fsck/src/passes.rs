//! Counts the names of single files once more: they may be in any directory of any group.
//!
//! A pass goes through all entries, and says something about a file if that has not changed meanwhile (each
//! change of its names counts its `change` up) and no transaction that concerned it had parts prepared after it
//! had been looked at first: of such a one some names may have come or gone, and others not yet. A file whose entry
//! goes to a shard (`docs/protocols/spread.md`) need not change, so a pass in which any did says nothing is wrong.

use crate::finding::Finding;
use crate::survey::{Ask, Survey};
use crate::{Report, Terms};
use std::collections::{BTreeMap, BTreeSet};
use weft_env::Env;
use weft_types::Ino;
use weft_wire::proto::{SurveyedName, SurveyedSight};

/// Passes that say that something is wrong, before it is.
const CONFIRMATIONS: u32 = 2;

/// What a pass finds of one file.
#[derive(Default)]
struct Counted {
    names: u64,
    first: Option<SurveyedName>,
}

/// Counts until all is decided, or often enough.
pub(crate) async fn run<A: Ask>(
    env: &Env,
    survey: &Survey<'_, A>,
    terms: &Terms,
    files: BTreeSet<Ino>,
    report: &mut Report,
) -> Result<(), A::Error> {
    // How many passes in a row have said that it is wrong.
    let mut left: BTreeMap<Ino, u32> = files.into_iter().map(|ino| (ino, 0)).collect();
    for pass in 0..terms.passes_max {
        if pass > 0 && !left.is_empty() {
            env.sleep(terms.pause).await;
        }
        let inos: Vec<Ino> = left.keys().copied().collect();
        let before = survey.sights(&inos).await?;
        for (ino, sight) in inos.iter().zip(&before) {
            // What is gone, or has no name and is open, is as it must be.
            let is_right = match &sight.inode {
                None => !sight.locked,
                Some(inode) => inode.nlink == 0 && inode.kept_open,
            };
            if is_right {
                left.remove(ino);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        // In this order: what has been counted here was prepared before it is asked what is.
        let splits = survey.splits().await?;
        let concerned = survey.concerned().await?;
        let mut counted: BTreeMap<Ino, Counted> = BTreeMap::new();
        for group in survey.groups() {
            let count = |name: SurveyedName| {
                let ino = Ino(name.ino);
                if left.contains_key(&ino) {
                    let counted = counted.entry(ino).or_default();
                    counted.names += 1;
                    counted.first.get_or_insert(name);
                }
            };
            survey.names(group, count).await?;
        }
        let after = survey.sights(&inos).await?;
        let are_names_where_they_were = survey.splits().await? == splits;
        for ((ino, before), after) in inos.into_iter().zip(before).zip(after) {
            let Some(wrong) = left.get_mut(&ino) else {
                continue;
            };
            let is_concerned = concerned.as_ref().is_none_or(|all| all.contains(&ino));
            let Some((nlink, change, is_kept)) =
                unchanged(&before, &after).filter(|_| !is_concerned && are_names_where_they_were)
            else {
                *wrong = 0;
                continue;
            };
            let counted = counted.remove(&ino).unwrap_or_default();
            let is_nameless = nlink == 0 && !is_kept;
            if counted.names == u64::from(nlink) && !is_nameless {
                left.remove(&ino);
                continue;
            }
            *wrong += 1;
            if *wrong >= CONFIRMATIONS {
                left.remove(&ino);
                report.wrong.push(match is_nameless && counted.names == 0 {
                    true => Finding::Nameless { ino, change },
                    false => Finding::Links {
                        ino,
                        nlink,
                        names: counted.names,
                        change,
                        first: counted.first,
                    },
                });
            }
        }
    }
    let undecided = left.into_keys();
    let undecided = undecided.map(|ino| format!("inode {:#x}", ino.0));
    report.undecided.extend(undecided);
    Ok(())
}

/// The links and the `change` of an inode that has not changed, and is not being changed, and whether it is kept open.
fn unchanged(before: &SurveyedSight, after: &SurveyedSight) -> Option<(u32, u64, bool)> {
    let (was, is) = (before.inode.as_ref()?, after.inode.as_ref()?);
    let is_same = was.change == is.change && was.nlink == is.nlink;
    let is_free = !before.locked && !after.locked;
    (is_same && is_free).then_some((is.nlink, is.change, is.kept_open))
}
