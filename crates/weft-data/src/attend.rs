//! The replica groups but the first: which there are, and the connection to the active of each.
//!
//! The first group, with which this server is registered, says which groups there are and which slots
//! they hold. Each of the others is *attended*: it tells which of its sessions live, and gives its orders.
//! It decides nothing about the pair, so that such a connection gives no right, and its end proves
//! nothing (docs/protocols/partition.md).

use crate::contact::{self, Contact, Talk};
use crate::fence;
use crate::server::Node;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_rpc::{CallError, Connection, Payload};
use weft_types::{FIRST_GROUP, GroupId, Ino};
use weft_wire::proto::{AttendRequest, Group, LeadsRequest, RegisterReply, SlotRange};

/// The other groups, as the first one has told them last.
#[derive(Default)]
pub(crate) struct Others {
    groups: RefCell<BTreeMap<GroupId, Rc<Attended>>>,
    slots: RefCell<Vec<SlotRange>>,
}

struct Attended {
    contact: Contact,
    /// The group is gone.
    left: Notify,
    /// An answer of the group's is wanted without waiting for the next question.
    ask: Notify,
}

impl Others {
    /// Ends all connections: the server stops.
    pub fn close(&self) {
        for attended in self.groups.borrow().values() {
            if let Some(connection) = attended.contact.connection() {
                connection.close("the server stops");
            }
        }
    }
}

/// All groups, the first one first.
pub(crate) fn groups(node: &Node) -> Vec<GroupId> {
    let others = node.others.groups.borrow();
    let others = others.keys().copied();
    std::iter::once(FIRST_GROUP).chain(others).collect()
}

/// The connection to the active of a group. None: there is none now, or no such group.
pub(crate) fn active_of(node: &Node, group: GroupId) -> Option<Connection> {
    if group == FIRST_GROUP {
        return node.registration.connection();
    }
    let others = node.others.groups.borrow();
    others.get(&group)?.contact.connection()
}

/// Who keeps this inode, by the slots that were told: the first group where they do not say.
pub(crate) fn group_of(node: &Node, ino: Ino) -> GroupId {
    let slot = u32::from(ino.slot().0);
    let slots = node.others.slots.borrow();
    let range = slots
        .iter()
        .find(|range| (range.first..=range.last).contains(&slot));
    range.map_or(FIRST_GROUP, |range| GroupId(range.group))
}

/// The first group has said which groups there are: those that are new are attended, those that are gone
/// are left.
pub(crate) fn told(node: &Rc<Node>, reply: &RegisterReply) {
    node.others.slots.borrow_mut().clone_from(&reply.slots);
    let told = reply.groups.iter().map(|group| (GroupId(group.id), group));
    let told: BTreeMap<GroupId, &Group> = told.filter(|(id, _)| *id != FIRST_GROUP).collect();
    let groups = &mut *node.others.groups.borrow_mut();
    groups.retain(|id, attended| {
        let stays = told.contains_key(id);
        if !stays {
            attended.left.notify_one();
        }
        stays
    });
    for (id, group) in told {
        let members = group.members.iter();
        let mut addresses: Vec<String> = members
            .map(|member| member.address.clone())
            .filter(|address| !address.is_empty())
            .collect();
        if addresses.is_empty() {
            // Any metadata server says where the group is, once it is known.
            addresses.clone_from(&reply.meta_addresses);
        }
        let attended = groups.entry(id).or_insert_with(|| {
            let attended = Rc::new(Attended {
                contact: Contact::new(id, node.settings.meta.clone()),
                left: Notify::new(),
                ask: Notify::new(),
            });
            node.spawn("attending", attend(node.clone(), attended.clone()));
            attended
        });
        attended.contact.learn(addresses);
    }
}

/// This member begins to serve: the groups have to be heard before it serves their sessions.
pub(crate) fn hear_anew(node: &Node) {
    node.sessions.borrow_mut().begin_round();
    for attended in node.others.groups.borrow().values() {
        attended.ask.notify_one();
    }
}

/// Attends a group until it is gone or the server stops.
async fn attend(node: Rc<Node>, attended: Rc<Attended>) {
    let attending = Attending {
        node: node.clone(),
        attended: attended.clone(),
    };
    let kept = contact::keep(&node, &attended.contact, &attending);
    // Only the one ends by itself.
    let _: Either<_, _> = select(pin!(kept), pin!(attended.left.notified())).await;
}

/// What is said over the connection to the active of another group.
struct Attending {
    node: Rc<Node>,
    attended: Rc<Attended>,
}

impl Talk for Attending {
    async fn begin(&self, connection: &Connection) -> Result<(), CallError> {
        let (node, contact) = (&self.node, &self.attended.contact);
        let request = AttendRequest {
            pair: node.pair.0,
            member: node.me.index() as u32,
            incarnation: node.incarnation,
        };
        let round = node.sessions.borrow().round();
        let reply = contact.ask_first(node, connection, &request).await?;
        contact.found(node, connection, reply.meta_addresses);
        let of = (contact.group(), round);
        fence::sessions_told(node, of, reply.fenced_below, reply.live_sessions);
        let (group, meta) = (contact.group(), connection.peer());
        tracing::info!(%group, meta, "attends the group");
        Ok(())
    }

    /// Asks whether it leads, as often as a beat is sent to the first group: nothing else would show that
    /// it hangs, and its orders would not come.
    async fn stay(&self, connection: &Connection) -> CallError {
        let node = &self.node;
        let group = self.attended.contact.group();
        let patience = Duration::from_millis(node.settings.link_patience_ms);
        loop {
            let round = node.sessions.borrow().round();
            let call = connection.call(&LeadsRequest {}, Payload::none());
            match node.env.timeout(patience, call).await {
                Ok(Ok(_)) => node.sessions.borrow_mut().heard(group, round),
                Ok(Err(error)) => return error,
                Err(_) => {
                    return CallError::Lost(format!(
                        "whether it leads was not answered for {patience:?}"
                    ));
                }
            }
            let wait = async {
                futures_util::select_biased! {
                    why = connection.closed().fuse() => Some(why),
                    () = self.attended.ask.notified().fuse() => None,
                    () = node.env.sleep(node.registration.pause()).fuse() => None,
                }
            };
            if let Some(why) = wait.await {
                return CallError::Lost(why);
            }
        }
    }

    fn end(&self) {}

    // The first group decides where this server is to be.
    fn misplaced(&self, _why: &str) {}
}
