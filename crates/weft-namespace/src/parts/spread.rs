//! The parts by which a directory is spread, and what it has in common with its shards is set
//! (`docs/protocols/spread.md`).

use super::check::touched;
use crate::access;
use crate::errno::Errno;
use crate::inode::{Body, Inode, Stamp};
use crate::lingering::Unkept;
use crate::moves::effective;
use crate::ops::{set_policy, setattr};
use crate::parts::Foreign;
use crate::slots::slot_of;
use crate::spread::{NO_BORDER, Role, is_count, shard_name};
use crate::state::{Context, State};
use std::collections::BTreeSet;
use weft_types::{Ino, SessionId};
use weft_wire::proto::part::{Part as Kind, Tells};
use weft_wire::proto::{
    self, Access, Attr, Cred, FileKind, MakePart, Part, SetPart, SetPolicy, Setattr, Spread,
    SpreadPart, Time,
};

fn access_of(inode: &Inode) -> Access {
    Access {
        mode: u32::from(inode.mode),
        uid: inode.uid,
        gid: inode.gid,
    }
}

fn part(tells: Tells, kind: Kind) -> Part {
    Part {
        tells: tells as i32,
        part: Some(kind),
    }
}

/// A time of a part. Err: it makes no sense.
fn time(told: Option<&Time>, is_now: bool, now: Stamp) -> Result<Option<Stamp>, Errno> {
    match told {
        _ if is_now => Ok(Some(now)),
        Some(time) => Stamp::new(time).map(Some).ok_or(Errno::EINVAL),
        None => Ok(None),
    }
}

impl State {
    /// What it takes to spread a directory: its own part, and one for each shard, in order.
    pub(super) fn spreading(&self, cred: &Cred, op: &Spread) -> Result<(Part, Vec<Part>), Errno> {
        let ino = Ino(op.ino);
        let (inode, directory) = self.directory(ino)?;
        let policy = Some(directory.policy.to_proto());
        let spread = SpreadPart {
            ino: op.ino,
            shards: Vec::new(),
            mode: u32::from(inode.mode),
            uid: inode.uid,
            gid: inode.gid,
            policy,
        };
        self.check_spread(cred, &spread, Stamp::default())?;
        let slots: BTreeSet<u32> = op.slots.iter().copied().collect();
        let are_slots = op.slots.iter().all(|slot| slot_of(*slot).is_some());
        if slots.len() != op.slots.len() || !are_slots || !is_count(op.slots.len()) {
            return Err(Errno::EINVAL);
        }
        let shard = |(at, slot): (usize, &u32)| {
            let make = MakePart {
                slot: *slot,
                parent: op.ino,
                mode: u32::from(inode.mode),
                uid: inode.uid,
                gid: inode.gid,
                policy,
                ino: 0,
                shard: at as u32 + 1,
            };
            part(Tells::Nothing, Kind::Make(make))
        };
        let shards = op.slots.iter().enumerate().map(shard).collect();
        Ok((part(Tells::Attr, Kind::Spread(spread)), shards))
    }

    pub(super) fn check_spread(
        &self,
        cred: &Cred,
        part: &SpreadPart,
        now: Stamp,
    ) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let (inode, directory) = self.directory(ino)?;
        if !access::owns(cred, inode) {
            return Err(Errno::EPERM);
        }
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        match directory.role {
            Role::Plain => {}
            Role::Spread { .. } => return Err(Errno::EEXIST),
            Role::Shard(_) => return Err(Errno::EINVAL),
        }
        let was = Access {
            mode: part.mode,
            uid: part.uid,
            gid: part.gid,
        };
        if was != access_of(inode) || part.policy != Some(directory.policy.to_proto()) {
            // It has changed since that was planned.
            return Err(Errno::EAGAIN);
        }
        let mut attr = touched(inode, ino, now);
        attr.shards = part.shards.len() as u32;
        match part.shards.is_empty() || Role::spread(&part.shards, 0).is_some() {
            true => Ok(attr),
            false => Err(Errno::EINVAL),
        }
    }

    pub(super) fn do_spread(&mut self, part: &SpreadPart, now: Stamp) -> Option<Attr> {
        let ino = Ino(part.ino);
        let (_, directory) = self.directory(ino).ok()?;
        // What is in it goes to the shards by and by.
        let border = if directory.is_empty() { NO_BORDER } else { 0 };
        let role = Role::spread(&part.shards, border)?;
        for (at, shard) in role.shards().iter().enumerate() {
            if !self.slots.has(shard.slot()) {
                let foreign = Foreign {
                    kind: FileKind::Directory,
                    names: 0,
                };
                self.foreign.entry(*shard).or_insert(foreign).names += 1;
            }
            self.add_entry(ino, &shard_name(at), *shard);
        }
        let inode = self.get_mut(ino)?;
        inode.nlink += role.shards().len() as u32;
        // Of what can be seen nothing has changed but what is known of it.
        inode.touch(now);
        if let Body::Directory(directory) = &mut inode.body {
            directory.role = role;
        }
        self.note_splitting(ino);
        self.attr(ino)
    }

    /// A change of attributes of a spread directory: a part for it and for each of its shards.
    pub(super) fn setting(&self, cred: &Cred, op: &Setattr) -> Result<Vec<Part>, Errno> {
        let ctx = &Context {
            session: SessionId(0),
            cred,
            now: Stamp::default(),
            random: 0,
            avoid: &[],
            unkept: Unkept::Goes,
        };
        let setattr::Plan::Set { mode, uid, gid, .. } = setattr::check_set(self, ctx, op)? else {
            return Err(Errno::EINVAL);
        };
        let access = Access {
            mode: u32::from(mode),
            uid,
            gid,
        };
        let set = SetPart {
            access: Some(access),
            atime: op.atime.filter(|_| !op.atime_now),
            mtime: op.mtime.filter(|_| !op.mtime_now),
            atime_now: op.atime_now,
            mtime_now: op.mtime_now,
            ..SetPart::default()
        };
        self.set_all(Ino(op.ino), set)
    }

    /// The same for a policy.
    pub(super) fn setting_policy(&self, cred: &Cred, op: &SetPolicy) -> Result<Vec<Part>, Errno> {
        let policy = set_policy::check_set(self, cred, op)?.to_proto();
        let set = SetPart {
            policy: Some(policy),
            ..SetPart::default()
        };
        self.set_all(Ino(op.ino), set)
    }

    fn set_all(&self, ino: Ino, set: SetPart) -> Result<Vec<Part>, Errno> {
        let inode = self.get(ino)?;
        let whole = SetPart {
            ino: ino.0,
            was: Some(access_of(inode)),
            ..set
        };
        let shards = inode.shards().iter().map(|shard| {
            let of_shard = SetPart {
                ino: shard.0,
                ..set
            };
            part(Tells::Nothing, Kind::Set(of_shard))
        });
        let whole = part(Tells::Attr, Kind::Set(whole));
        Ok(std::iter::once(whole).chain(shards).collect())
    }

    pub(super) fn check_set(&self, part: &SetPart, now: Stamp) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let (inode, directory) = self.directory(ino)?;
        if directory.role == Role::Plain {
            return Err(Errno::EINVAL);
        }
        if part.was.is_some_and(|was| was != access_of(inode)) {
            // Who may set it may be another one now.
            return Err(Errno::EAGAIN);
        }
        if part.access.is_some_and(|access| access.mode > 0o7777) {
            return Err(Errno::EINVAL);
        }
        part.policy.as_ref().map(effective).transpose()?;
        let mut attr = touched(inode, ino, now);
        if let Some(access) = &part.access {
            (attr.mode, attr.uid, attr.gid) = (access.mode, access.uid, access.gid);
        }
        let time = |told, is_now| time(told, is_now, now);
        if let Some(atime) = time(part.atime.as_ref(), part.atime_now)? {
            attr.atime = Some(atime.to_proto());
        }
        if let Some(mtime) = time(part.mtime.as_ref(), part.mtime_now)? {
            attr.mtime = Some(mtime.to_proto());
        }
        Ok(attr)
    }

    pub(super) fn do_set(&mut self, part: &SetPart, now: Stamp) -> Option<Attr> {
        let ino = Ino(part.ino);
        let inode = self.get_mut(ino)?;
        let policy = part.policy.as_ref().map(effective);
        if let (Some(Ok(policy)), Body::Directory(directory)) = (policy, &mut inode.body) {
            directory.policy = policy;
        }
        if let Some(access) = &part.access {
            (inode.mode, inode.uid, inode.gid) = (access.mode as u16, access.uid, access.gid);
        }
        let time = |told, is_now| time(told, is_now, now).ok().flatten();
        inode.atime = time(part.atime.as_ref(), part.atime_now).unwrap_or(inode.atime);
        inode.mtime = time(part.mtime.as_ref(), part.mtime_now).unwrap_or(inode.mtime);
        inode.touch(now);
        self.attr(ino)
    }
}

/// Those parts that drop the shards of a directory that goes.
pub(super) fn drops(shards: &[u64]) -> Vec<Part> {
    let drop = |shard: &u64| {
        let drop = proto::DropPart {
            ino: *shard,
            as_directory: true,
            exempt: true,
        };
        part(Tells::Nothing, Kind::Drop(drop))
    };
    shards.iter().map(drop).collect()
}
