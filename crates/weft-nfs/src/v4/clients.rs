//! Who the clients are: EXCHANGE_ID and CREATE_SESSION as tables (RFC 8881, 18.35.4 and 18.36.4). Pure: no clock, no
//! randomness, no I/O.

use bytes::Bytes;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use weft_oncrpc::Credential;
use weft_xdr::nfs4::{CREATE_SESSION4resok, nfsstat4};

/// Clients of a gateway at most: as many as it has connections, so that each of those may be one's. One that says nothing is
/// forgotten after its lease. (A client that has just started again counts twice.)
const CLIENTS_MAX: usize = 16_384;

/// As whom a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Principal {
    Nobody,
    User(u32),
}

impl Principal {
    pub(super) fn of(credential: &Credential) -> Principal {
        match credential {
            Credential::None => Principal::Nobody,
            Credential::Sys(user) => Principal::User(user.uid),
        }
    }
}

#[derive(Debug)]
struct Record {
    owner: Bytes,
    verifier: [u8; 8],
    principal: Principal,
    is_confirmed: bool,
    /// That the next CREATE_SESSION is to have.
    sequence: u32,
    /// What the last one was answered.
    created: Option<CREATE_SESSION4resok>,
    /// RECLAIM_COMPLETE has come.
    is_reclaimed: bool,
}

impl Record {
    /// As whom all gateways know this life of the client; never 0.
    fn behalf(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.verifier);
        hasher.write(&self.owner);
        hasher.finish().max(1)
    }
}

/// All that a gateway knows of.
#[derive(Debug)]
pub(super) struct Clients {
    /// Drawn when the gateway started: the first half of all ids.
    instance: u32,
    next: u32,
    /// Records from which on only those are taken in that are known.
    max: usize,
    records: BTreeMap<u64, Record>,
}

/// What EXCHANGE_ID is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub id: u64,
    pub sequence: u32,
    pub is_confirmed: bool,
    /// Clients that are no more: nothing is held by them.
    pub dropped: Vec<u64>,
}

/// What CREATE_SESSION is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Creation {
    New,
    /// It came before, and was answered so.
    Again(CREATE_SESSION4resok),
}

impl Clients {
    pub(super) fn new(instance: u32) -> Clients {
        Clients {
            instance,
            next: 1,
            max: CLIENTS_MAX,
            records: BTreeMap::new(),
        }
    }

    fn of_owner(&self, owner: &Bytes, is_confirmed: bool) -> Option<u64> {
        let mut records = self.records.iter();
        let found = records.find(|(_, it)| it.owner == owner && it.is_confirmed == is_confirmed);
        found.map(|(id, _)| *id)
    }

    /// A client says who it is. `holds`: whether a client has opens, locks or sessions.
    ///
    /// # Errors
    /// As of 18.35.4; DELAY: there are as many as may be, and it is none of them.
    pub(super) fn exchange(
        &mut self,
        owner: &Bytes,
        verifier: [u8; 8],
        principal: Principal,
        is_update: bool,
        holds: impl Fn(u64) -> bool,
    ) -> Result<Exchanged, nfsstat4> {
        let confirmed = self.of_owner(owner, true);
        let mut dropped = Vec::new();
        if let Some(id) = confirmed {
            let known = &self.records[&id];
            let (same_life, same_principal) =
                (known.verifier == verifier, known.principal == principal);
            let found = Exchanged {
                id,
                sequence: known.sequence,
                is_confirmed: true,
                dropped: Vec::new(),
            };
            match (is_update, same_life, same_principal) {
                // Cases 6 and 2.
                (_, true, true) => return Ok(found),
                // Case 8.
                (true, false, true) => return Err(nfsstat4::NFS4ERR_NOT_SAME),
                // Case 9.
                (true, _, false) => return Err(nfsstat4::NFS4ERR_PERM),
                // Case 3: somebody else's name, as long as that one has something.
                (false, _, false) if holds(id) => return Err(nfsstat4::NFS4ERR_CLID_INUSE),
                (false, _, false) => {
                    self.records.remove(&id);
                    dropped.push(id);
                }
                // Case 5: it has started again. What it had goes when this is confirmed.
                (false, false, true) => {}
            }
        } else if is_update {
            // Case 7.
            return Err(nfsstat4::NFS4ERR_NOENT);
        }
        let unconfirmed = self.of_owner(owner, false);
        let is_known = confirmed.is_some() || unconfirmed.is_some();
        if !is_known && self.records.len() >= self.max {
            return Err(nfsstat4::NFS4ERR_DELAY);
        }
        // Case 4: one that was never confirmed is replaced.
        if let Some(id) = unconfirmed {
            self.records.remove(&id);
            dropped.push(id);
        }
        // Case 1.
        let id = u64::from(self.instance) << 32 | u64::from(self.next);
        self.next += 1;
        self.records.insert(
            id,
            Record {
                owner: owner.clone(),
                verifier,
                principal,
                is_confirmed: false,
                sequence: 1,
                created: None,
                is_reclaimed: false,
            },
        );
        Ok(Exchanged {
            id,
            sequence: 1,
            is_confirmed: false,
            dropped,
        })
    }

    /// Whether a session may be created.
    pub(super) fn creation(
        &self,
        id: u64,
        sequence: u32,
        principal: Principal,
    ) -> Result<Creation, nfsstat4> {
        let record = self.records.get(&id);
        let record = record.ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        if sequence == record.sequence.wrapping_sub(1) {
            return match &record.created {
                Some(created) => Ok(Creation::Again(created.clone())),
                None => Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            };
        }
        if sequence != record.sequence {
            return Err(nfsstat4::NFS4ERR_SEQ_MISORDERED);
        }
        match !record.is_confirmed && record.principal != principal {
            true => Err(nfsstat4::NFS4ERR_CLID_INUSE),
            false => Ok(Creation::New),
        }
    }

    /// A session was created: the client is confirmed. Returns its earlier life, of which nothing stays.
    pub(super) fn created(&mut self, id: u64, reply: CREATE_SESSION4resok) -> Option<u64> {
        let owner = self.records.get(&id)?.owner.clone();
        let earlier = self.of_owner(&owner, true).filter(|other| *other != id);
        if let Some(earlier) = earlier {
            self.records.remove(&earlier);
        }
        if let Some(record) = self.records.get_mut(&id) {
            record.is_confirmed = true;
            record.sequence = record.sequence.wrapping_add(1);
            record.created = Some(reply);
        }
        earlier
    }

    /// As whom the metadata service knows the client, whatever its gateway: by that what it held is found at another
    /// one. 0: there is no such client.
    pub(super) fn behalf(&self, id: u64) -> u64 {
        self.records.get(&id).map_or(0, Record::behalf)
    }

    pub(super) fn is_known(&self, id: u64) -> bool {
        self.records.contains_key(&id)
    }

    pub(super) fn is_reclaimed(&self, id: u64) -> bool {
        self.records.get(&id).is_some_and(|it| it.is_reclaimed)
    }

    /// True: it had not said so before.
    pub(super) fn reclaim_complete(&mut self, id: u64) -> bool {
        let record = self.records.get_mut(&id);
        record.is_some_and(|it| !std::mem::replace(&mut it.is_reclaimed, true))
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.records.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_xdr::nfs4::channel_attrs4;

    const ROOT: Principal = Principal::User(0);
    const OTHER: Principal = Principal::User(7);

    fn reply() -> CREATE_SESSION4resok {
        let attributes = channel_attrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 1,
            ca_maxresponsesize: 2,
            ca_maxresponsesize_cached: 3,
            ca_maxoperations: 4,
            ca_maxrequests: 5,
            ca_rdma_ird: Vec::new(),
        };
        CREATE_SESSION4resok {
            csr_sessionid: [1; 16],
            csr_sequence: 1,
            csr_flags: 0,
            csr_fore_chan_attrs: attributes.clone(),
            csr_back_chan_attrs: attributes,
        }
    }

    struct World {
        clients: Clients,
        holds: bool,
    }

    impl World {
        fn new() -> World {
            World {
                clients: Clients::new(9),
                holds: true,
            }
        }

        fn exchange(
            &mut self,
            verifier: u8,
            principal: Principal,
            is_update: bool,
        ) -> Result<Exchanged, nfsstat4> {
            let (owner, holds) = (Bytes::from_static(b"me"), self.holds);
            self.clients
                .exchange(&owner, [verifier; 8], principal, is_update, |_| holds)
        }

        fn confirmed(&mut self, verifier: u8, principal: Principal) -> u64 {
            let found = self.exchange(verifier, principal, false).unwrap();
            assert!(!found.is_confirmed);
            let new = self.clients.creation(found.id, found.sequence, principal);
            assert_eq!(new, Ok(Creation::New));
            self.clients.created(found.id, reply());
            found.id
        }
    }

    #[test]
    fn a_new_owner_gets_an_id_and_until_it_is_confirmed_another_one_each_time() {
        let mut world = World::new();
        let first = world.exchange(1, ROOT, false).unwrap();
        assert_eq!((first.is_confirmed, first.sequence), (false, 1));
        let second = world.exchange(1, ROOT, false).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(second.dropped, [first.id]);
        assert_eq!(
            world.clients.creation(first.id, 1, ROOT),
            Err(nfsstat4::NFS4ERR_STALE_CLIENTID)
        );
    }

    #[test]
    fn a_confirmed_owner_is_known_again() {
        let mut world = World::new();
        let id = world.confirmed(1, ROOT);
        for is_update in [false, true] {
            let again = world.exchange(1, ROOT, is_update).unwrap();
            assert_eq!((again.id, again.is_confirmed), (id, true));
            assert_eq!(again.sequence, 2);
        }
    }

    #[test]
    fn somebody_else_may_not_have_the_name_while_it_is_used() {
        let mut world = World::new();
        let id = world.confirmed(1, ROOT);
        for verifier in [1, 2] {
            let refused = world.exchange(verifier, OTHER, false);
            assert_eq!(refused, Err(nfsstat4::NFS4ERR_CLID_INUSE));
        }
        world.holds = false;
        let other = world.exchange(1, OTHER, false).unwrap();
        assert_eq!((other.is_confirmed, &other.dropped[..]), (false, &[id][..]));
    }

    #[test]
    fn a_client_that_started_again_loses_what_it_had_once_it_is_confirmed() {
        let mut world = World::new();
        let before = world.confirmed(1, ROOT);
        let after = world.exchange(2, ROOT, false).unwrap();
        assert!(after.dropped.is_empty() && world.clients.is_known(before));
        assert_eq!(world.clients.created(after.id, reply()), Some(before));
        assert!(!world.clients.is_known(before));
    }

    #[test]
    fn an_update_is_of_a_confirmed_record_of_this_life_and_principal() {
        let mut world = World::new();
        assert_eq!(world.exchange(1, ROOT, true), Err(nfsstat4::NFS4ERR_NOENT));
        world.exchange(1, ROOT, false).unwrap();
        assert_eq!(world.exchange(1, ROOT, true), Err(nfsstat4::NFS4ERR_NOENT));
        world.confirmed(1, ROOT);
        assert_eq!(
            world.exchange(2, ROOT, true),
            Err(nfsstat4::NFS4ERR_NOT_SAME)
        );
        assert_eq!(world.exchange(1, OTHER, true), Err(nfsstat4::NFS4ERR_PERM));
    }

    #[test]
    fn a_life_of_a_client_is_known_at_all_gateways() {
        let (mut here, mut there) = (World::new(), World::new());
        there.clients = Clients::new(10);
        let (one, other) = (here.confirmed(1, ROOT), there.confirmed(1, ROOT));
        assert_ne!(one, other);
        assert_eq!(here.clients.behalf(one), there.clients.behalf(other));
        let next = there.confirmed(2, ROOT);
        assert_ne!(here.clients.behalf(one), there.clients.behalf(next));
        assert_eq!(here.clients.behalf(next), 0);
    }

    #[test]
    fn who_is_known_comes_in_though_there_are_as_many_as_may_be() {
        let mut world = World::new();
        world.clients.max = 1;
        let id = world.confirmed(1, ROOT);
        let other = Bytes::from_static(b"other");
        let exchange = |world: &mut World| {
            world
                .clients
                .exchange(&other, [1; 8], ROOT, false, |_| true)
        };
        assert_eq!(exchange(&mut world), Err(nfsstat4::NFS4ERR_DELAY));
        assert_eq!(world.exchange(1, ROOT, false).unwrap().id, id);
        // It has started again.
        world.confirmed(2, ROOT);
        assert_eq!(world.clients.records.len(), 1);
        world.clients.max = 2;
        assert!(exchange(&mut world).is_ok());
    }

    #[test]
    fn create_session_has_a_sequence_and_one_reply_that_is_kept() {
        let mut world = World::new();
        let found = world.exchange(1, ROOT, false).unwrap();
        let creation = |world: &World, sequence, by| world.clients.creation(found.id, sequence, by);
        let misordered = Err(nfsstat4::NFS4ERR_SEQ_MISORDERED);
        assert_eq!(creation(&world, 0, ROOT), misordered);
        assert_eq!(creation(&world, 2, ROOT), misordered);
        let in_use = Err(nfsstat4::NFS4ERR_CLID_INUSE);
        assert_eq!(creation(&world, 1, OTHER), in_use);
        assert_eq!(creation(&world, 1, ROOT), Ok(Creation::New));
        world.clients.created(found.id, reply());
        assert_eq!(creation(&world, 1, ROOT), Ok(Creation::Again(reply())));
        assert_eq!(creation(&world, 2, OTHER), Ok(Creation::New));
        assert_eq!(creation(&world, 3, ROOT), misordered);
    }
}
