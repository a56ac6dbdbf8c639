//! The active of another replica group than the first: it knows some sessions, and no file.

use super::{CLUSTER, name};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_env::Env;
use weft_rpc::{CallError, Connection, Handler, Local, Payload, Replier, Request};
use weft_types::{GroupId, Ino, Member, ObjectId};
use weft_wire::proto::{self, Identity, identity::Role};
use weft_wire::{Failed, Rpc};

pub struct Group {
    pub id: GroupId,
    pub address: String,
    /// By member, the newest first.
    connections: RefCell<BTreeMap<usize, Connection>>,
    /// How often each member has begun to attend it.
    pub attended: Cell<[usize; 2]>,
    pub live_sessions: RefCell<Vec<u64>>,
    pub fenced_below: Cell<u64>,
    /// Sessions that may have gone on with what only one member had.
    pub unsettled: Cell<u32>,
    /// Of these objects something came back.
    pub returned: RefCell<Vec<ObjectId>>,
    /// Says nothing to these members.
    pub mute_to: Cell<[bool; 2]>,
    unanswered: RefCell<Vec<Replier>>,
    /// Another one leads, or (empty) nobody does.
    pub deposed_for: RefCell<Option<String>>,
}

impl Group {
    pub async fn start(env: &Env, id: GroupId, address: &str) -> Rc<Group> {
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: Role::Meta.into(),
                group: id.0,
                ..Identity::default()
            },
        );
        let cell: Rc<RefCell<Option<Rc<Group>>>> = Rc::default();
        let handled = cell.clone();
        let handler: Handler = Rc::new(move |connection, request| {
            if let Some(group) = handled.borrow().clone() {
                group.on_request(connection, request);
            }
        });
        let address = weft_rpc::serve(env, address, local, |_| {}, handler)
            .await
            .unwrap();
        let group = Rc::new(Group {
            id,
            address,
            connections: RefCell::default(),
            attended: Cell::default(),
            live_sessions: RefCell::default(),
            fenced_below: Cell::default(),
            unsettled: Cell::default(),
            returned: RefCell::default(),
            mute_to: Cell::default(),
            unanswered: RefCell::default(),
            deposed_for: RefCell::default(),
        });
        *cell.borrow_mut() = Some(group.clone());
        group
    }

    /// As the view has it.
    pub fn record(&self) -> proto::Group {
        proto::Group {
            id: self.id.0,
            members: vec![proto::GroupMember {
                id: 1,
                address: self.address.clone(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// The member attends it now.
    pub fn is_attended_by(&self, member: Member) -> bool {
        let connections = self.connections.borrow();
        let connection = connections.get(&member.index());
        connection.is_some_and(Connection::is_open)
    }

    /// Sends an order to a member.
    pub async fn order<R: Rpc>(&self, member: Member, request: &R) -> Result<R::Reply, CallError> {
        let to = self.connections.borrow()[&member.index()].clone();
        Ok(to.call(request, Payload::none()).await?.0)
    }

    /// Ends a session at a member; answers how long the objects are.
    pub async fn fence(&self, member: Member, session: u64, objects: &[ObjectId]) -> Vec<u64> {
        let fence = proto::FenceRequest {
            session,
            objects: objects.iter().map(|object| name(*object)).collect(),
            ..Default::default()
        };
        self.order(member, &fence).await.unwrap().lengths
    }

    fn on_request(self: Rc<Group>, connection: &Connection, request: Request) {
        let from = connection.identity();
        let deposed_for = self.deposed_for.borrow().clone();
        if from.group != self.id.0 || deposed_for.is_some() {
            let active = deposed_for.unwrap_or_default();
            return request.replier.fail(Failed::NotActive {
                members: Vec::from_iter((!active.is_empty()).then(|| active.clone())),
                active,
            });
        }
        let is_data = from.role == i32::from(Role::Data);
        let member = (from.id % 2) as usize;
        if is_data && self.mute_to.get()[member] {
            return self.unanswered.borrow_mut().push(request.replier);
        }
        match request.method {
            proto::AttendRequest::METHOD => {
                let message: proto::AttendRequest = request.decode().unwrap();
                assert!(is_data && message.member as usize == member && message.pair == 0);
                let mut attended = self.attended.get();
                attended[member] += 1;
                self.attended.set(attended);
                self.connections
                    .borrow_mut()
                    .insert(member, connection.clone());
                let reply = proto::AttendReply {
                    live_sessions: self.live_sessions.borrow().clone(),
                    fenced_below: self.fenced_below.get(),
                    meta_addresses: vec![self.address.clone()],
                };
                request
                    .replier
                    .send::<proto::AttendRequest>(&reply, Payload::none());
            }
            proto::LeadsRequest::METHOD => request
                .replier
                .send::<proto::LeadsRequest>(&proto::LeadsReply {}, Payload::none()),
            proto::UnsettledRequest::METHOD => {
                let sessions = self.unsettled.get();
                let reply = proto::UnsettledReply { sessions };
                request
                    .replier
                    .send::<proto::UnsettledRequest>(&reply, Payload::none());
            }
            proto::ReturnedRequest::METHOD => {
                let message: proto::ReturnedRequest = request.decode().unwrap();
                let objects = message.objects.iter().map(|name| ObjectId {
                    ino: Ino(name.ino),
                    generation: name.generation,
                });
                self.returned.borrow_mut().extend(objects);
                request
                    .replier
                    .send::<proto::ReturnedRequest>(&proto::ReturnedReply {}, Payload::none());
            }
            other => panic!("method {other} to a group that decides about no pair"),
        }
    }
}
