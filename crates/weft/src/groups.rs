//! The replica groups of a cluster as tools see them: which of them has an inode, and where a path leads
//! from group to group.

use crate::error::{Error, Result};
use crate::tool::Tool;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_fsck::Ask;
use weft_types::{FIRST_GROUP, GroupId, Ino};
use weft_wire::Rpc;
use weft_wire::proto::{ExplainReply, ExplainRequest, StatusReply, View};

/// Groups that a path may lead through, one after the other: a path has at most some two thousand names, and
/// the links on it add few.
const HOPS_MAX: usize = 5_000;

/// The number of each group, in order; only the first one's where the view names none.
pub fn ids(view: &View) -> Vec<GroupId> {
    let mut ids: Vec<GroupId> = view.groups.iter().map(|group| GroupId(group.id)).collect();
    if ids.is_empty() {
        ids.push(FIRST_GROUP);
    }
    ids.sort_unstable();
    ids
}

/// The group that has an inode.
pub fn of_inode(view: &View, ino: Ino) -> GroupId {
    let slot = u32::from(ino.slot().0);
    let mut ranges = view.slots.iter();
    let range = ranges.find(|range| (range.first..=range.last).contains(&slot));
    range.map_or(FIRST_GROUP, |range| GroupId(range.group))
}

/// A cluster's groups. Each is connected to when it is first asked.
pub struct Groups {
    tools: RefCell<BTreeMap<GroupId, Rc<Tool>>>,
    /// What the first group has said.
    pub status: StatusReply,
    /// As the first group knows it.
    pub view: View,
}

impl Groups {
    /// Those of the cluster whose first group `first` asks.
    ///
    /// # Errors
    /// If that does not answer.
    pub async fn of(first: Tool) -> Result<Groups> {
        let status = first.status().await?;
        Ok(Groups {
            view: status.view.clone().unwrap_or_default(),
            tools: RefCell::new(BTreeMap::from([(FIRST_GROUP, Rc::new(first))])),
            status,
        })
    }

    /// Their numbers, in order.
    pub fn ids(&self) -> Vec<GroupId> {
        ids(&self.view)
    }

    /// Several groups have a part of the name space each.
    pub fn are_several(&self) -> bool {
        self.ids().len() > 1
    }

    /// What asks a group.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no metadata server answers.
    pub async fn tool(&self, group: GroupId) -> Result<Rc<Tool>> {
        let known = |group| self.tools.borrow().get(&group).cloned();
        if let Some(tool) = known(group) {
            return Ok(tool);
        }
        let Some(first) = known(FIRST_GROUP) else {
            return Err(Error::Unreachable("the first group is not known".into()));
        };
        let tool = Rc::new(first.of_group(group).await?);
        self.tools.borrow_mut().insert(group, tool.clone());
        Ok(tool)
    }

    /// What the group that has it says of the inode at a path from the root, and which group that is. Symbolic
    /// links on the way are followed, a final one is not.
    ///
    /// # Errors
    /// If there is none, or a group on the way does not answer.
    pub async fn explain(&self, path: &[u8]) -> Result<(ExplainReply, GroupId)> {
        let mut group = FIRST_GROUP;
        let mut request = ExplainRequest {
            path: path.to_vec().into(),
            ..ExplainRequest::default()
        };
        for _ in 0..HOPS_MAX {
            let reply = match self.tool(group).await?.call(&request).await {
                Err(Error::Moved { group: other, .. }) if GroupId(other) != group => {
                    group = GroupId(other);
                    continue;
                }
                answer => answer?,
            };
            let Some(elsewhere) = reply.elsewhere else {
                return Ok((reply, group));
            };
            let next = of_inode(&self.view, Ino(elsewhere.ino));
            if next == group {
                return Err(Error::Failed(format!(
                    "group {group} says that another one has inode {:#x}, and the view says that it has: ask again",
                    elsewhere.ino
                )));
            }
            group = next;
            request = ExplainRequest {
                path: elsewhere.rest,
                from: elsewhere.ino,
                within: elsewhere.within,
                links: elsewhere.links,
            };
        }
        Err(Error::Failed(format!(
            "{} leads through more than {HOPS_MAX} groups",
            String::from_utf8_lossy(path)
        )))
    }
}

impl Ask for Groups {
    type Error = Error;

    async fn ask<R: Rpc>(&self, group: GroupId, request: &R) -> Result<R::Reply> {
        self.tool(group).await?.call(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::Slot;
    use weft_wire::proto::{Group, SlotRange};

    #[test]
    fn the_view_says_which_group_has_an_inode() {
        let range = |first, last, group| SlotRange { first, last, group };
        let group = |id| Group {
            id,
            ..Group::default()
        };
        let mut view = View::default();
        assert_eq!(ids(&view), [FIRST_GROUP]);
        assert_eq!(of_inode(&view, Ino::new(Slot(4000), 1)), FIRST_GROUP);
        view.groups = vec![group(1), group(0)];
        view.slots = vec![range(0, 99, 0), range(100, 4095, 1)];
        assert_eq!(ids(&view), [GroupId(0), GroupId(1)]);
        assert_eq!(of_inode(&view, Ino::new(Slot(99), 7)), GroupId(0));
        assert_eq!(of_inode(&view, Ino::new(Slot(100), 7)), GroupId(1));
    }
}
