//! Whether a group can do its part.

use super::locked::of;
use crate::access::{self, STICKY, WRITE};
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::{Body, Inode, Stamp};
use crate::layouts::{DEFAULT_POLICY, merge_policy};
use crate::names::Name;
use crate::ops::link::check_links;
use crate::spread::{self, Role};
use crate::state::{DIRECTORY_LINKS_MAX, State};
use weft_types::{Ino, ROOT_INO, SLOTS, Slot};
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{
    self, AddPart, Attr, Cred, DropPart, FileKind, MakePart, MovePart, NamePart, PartReply,
};

impl State {
    /// Checks a part for its caller, without regard to what is locked. The reply tells what was found
    /// and what will be, but for its times; of a directory that is to be made, which number it would get now.
    ///
    /// # Errors
    /// Those of the change that the part is of; EINVAL for what makes no sense, ESTALE for what is not here.
    pub fn check_part(&self, cred: &Cred, part: &proto::Part) -> Result<PartReply, Errno> {
        self.check_part_at(cred, part, Stamp::default())
    }

    pub(crate) fn check_part_at(
        &self,
        cred: &Cred,
        part: &proto::Part,
        now: Stamp,
    ) -> Result<PartReply, Errno> {
        let attr = match of(part).ok_or(Errno::EINVAL)? {
            Kind::Name(part) => return self.check_name(cred, part),
            Kind::Make(part) => self.check_make(part, now)?,
            Kind::Drop(part) => return self.check_drop(cred, part, now),
            Kind::Spread(part) => self.check_spread(cred, part, now)?,
            Kind::Set(part) => self.check_set(part, now)?,
            Kind::Take(part) => self.check_take(part)?,
            Kind::Put(part) => self.check_put(part)?,
            Kind::Add(part) => self.check_add(part, now)?,
            Kind::Move(part) => self.check_move(cred, part, now)?,
        };
        Ok(PartReply {
            attr: Some(attr),
            ..PartReply::default()
        })
    }

    /// The kind of an inode of this group, or of another's that is named here.
    pub(crate) fn kind_of(&self, ino: Ino) -> Option<FileKind> {
        let here = self.inodes.get(&ino).map(|inode| inode.kind());
        here.or_else(|| self.foreign.get(&ino).map(|foreign| foreign.kind))
    }

    fn check_name(&self, cred: &Cred, part: &NamePart) -> Result<PartReply, Errno> {
        let (inode, directory) = self.searchable(cred, Ino(part.directory))?;
        let Name::Plain(name) = Name::parse(&part.name)? else {
            return Err(Errno::EINVAL);
        };
        let goes = FileKind::try_from(part.kind).map_err(|_| Errno::EINVAL)?;
        if self.has_in_shard(Ino(part.directory), name) {
            return Err(Errno::EREMCHG);
        }
        let found = directory.find(name).map(|(_, ino)| ino);
        match part.expected {
            Some(0) if found.is_some() => return Err(Errno::EEXIST),
            // It has changed since that was planned.
            Some(expected) if expected != found.map_or(0, |ino| ino.0) => {
                return Err(Errno::EAGAIN);
            }
            _ => {}
        }
        match found {
            Some(_) if part.no_replace => return Err(Errno::EEXIST),
            None if part.exchange => return Err(Errno::ENOENT),
            None if inode.nlink == 0 => return Err(Errno::ENOENT),
            _ => {}
        }
        // That it stands for the same already is all that is to be said, to whomever.
        let stays = part.ino != 0 && found == Some(Ino(part.ino));
        if !stays {
            access::check(cred, inode, WRITE | access::EXECUTE)?;
        }
        let kind = found.and_then(|ino| self.kind_of(ino));
        let is_directory = |kind| kind == FileKind::Directory;
        if is_directory(goes)
            && !kind.is_some_and(is_directory)
            && inode.nlink >= DIRECTORY_LINKS_MAX
        {
            return Err(Errno::EMLINK);
        }
        Ok(PartReply {
            found: found.map_or(0, |ino| ino.0),
            found_kind: kind.unwrap_or_default() as i32,
            exempt: is_exempt(cred, inode),
            shard_of: directory.role.shard().map_or(0, |_| directory.parent.0),
            ..PartReply::default()
        })
    }

    fn check_make(&self, part: &MakePart, now: Stamp) -> Result<Attr, Errno> {
        let slot = u16::try_from(part.slot).ok().filter(|slot| *slot < SLOTS);
        let slot = slot.map(Slot).ok_or(Errno::EINVAL)?;
        let (inode, parent) = made(part, now).ok_or(Errno::EINVAL)?;
        if !self.slots.has(slot) {
            return Err(Errno::ESTALE);
        }
        let ino = match part.ino {
            0 => self.next_ino(slot).ok_or(Errno::ENOSPC)?,
            // It was taken for this.
            number => Ino(number),
        };
        let is_free = part.ino == 0 || self.is_taken_number(ino) && ino.slot() == slot;
        if parent == ino || !is_free {
            return Err(Errno::EINVAL);
        }
        Ok(inode.attr(ino))
    }

    fn check_drop(&self, cred: &Cred, part: &DropPart, now: Stamp) -> Result<PartReply, Errno> {
        let ino = Ino(part.ino);
        let inode = self.get(ino)?;
        if inode.nlink == 0 {
            return Err(Errno::ESTALE);
        }
        check_owner(cred, inode, part.exempt)?;
        match (part.as_directory, inode.is_directory()) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ if ino == ROOT_INO => return Err(Errno::EBUSY),
            (true, true) if !self.directory(ino)?.1.is_vacant() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        let mut attr = touched(inode, ino, now);
        attr.nlink = if part.as_directory { 0 } else { attr.nlink - 1 };
        attr.shards = 0;
        Ok(PartReply {
            attr: Some(attr),
            shards: inode.shards().iter().map(|shard| shard.0).collect(),
            ..PartReply::default()
        })
    }

    fn check_add(&self, part: &AddPart, now: Stamp) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let inode = self.get(ino)?;
        if inode.is_directory() {
            return Err(Errno::EPERM);
        }
        check_links(self, ino, inode.nlink, part.unnamed)?;
        let mut attr = touched(inode, ino, now);
        attr.nlink += 1;
        Ok(attr)
    }

    fn check_move(&self, cred: &Cred, part: &MovePart, now: Stamp) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let inode = self.get(ino)?;
        if inode.nlink == 0 {
            return Err(Errno::ESTALE);
        }
        check_owner(cred, inode, part.exempt)?;
        if part.parent == 0 {
            return Ok(inode.attr(ino));
        }
        if ino == ROOT_INO {
            return Err(Errno::EINVAL);
        }
        // Its ".." is rewritten.
        if let Ok((_, directory)) = self.directory(ino)
            && directory.parent != Ino(part.parent)
            && !part.within
        {
            access::check(cred, inode, WRITE)?;
        }
        Ok(touched(inode, ino, now))
    }
}

/// The directory that a part makes, and its parent. None: it makes no sense.
pub(super) fn made(part: &MakePart, now: Stamp) -> Option<(Inode, Ino)> {
    let policy = merge_policy(part.policy.as_ref()?, DEFAULT_POLICY).ok()?;
    let mode = u16::try_from(part.mode).ok();
    let parent = Ino(part.parent);
    let mut directory = Directory::new(parent, policy);
    if part.shard != 0 {
        directory.role = Role::of_image(&[], 0, part.shard)?;
        directory.set_next_cookie(spread::first_cookie(part.shard - 1));
    }
    let inode = Inode {
        mode: mode.filter(|mode| mode & !0o7777 == 0)?,
        nlink: 2,
        uid: part.uid,
        gid: part.gid,
        atime: now,
        mtime: now,
        ctime: now,
        change: 1,
        body: Body::Directory(Box::new(directory)),
    };
    (parent.0 != 0).then_some((inode, parent))
}

/// The caller may take names in this directory away, whoever owns what they stand for.
pub(super) fn is_exempt(cred: &Cred, directory: &Inode) -> bool {
    directory.mode & STICKY == 0 || access::owns(cred, directory)
}

fn check_owner(cred: &Cred, inode: &Inode, exempt: bool) -> Result<(), Errno> {
    if exempt || access::owns(cred, inode) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// As it is once its names have changed.
pub(super) fn touched(inode: &Inode, ino: Ino, now: Stamp) -> Attr {
    let mut attr = inode.attr(ino);
    attr.ctime = Some(now.to_proto());
    attr.change += 1;
    attr
}

impl State {
    /// What a new directory below this one, made by this caller, is like, but for its slot.
    pub(super) fn directory_below(
        &self,
        cred: &Cred,
        parent: Ino,
        mode: u32,
    ) -> Result<MakePart, Errno> {
        let (inode, directory) = self.directory(parent)?;
        let (mode, gid) =
            crate::ops::create::mode_and_group(cred, inode, FileKind::Directory, mode);
        Ok(MakePart {
            slot: 0,
            parent: parent.0,
            mode: u32::from(mode),
            uid: cred.uid,
            gid,
            policy: Some(directory.policy.to_proto()),
            ino: 0,
            shard: 0,
        })
    }

    /// See [`is_exempt`].
    pub(super) fn is_exempt_in(&self, cred: &Cred, directory: Ino) -> bool {
        self.get(directory)
            .is_ok_and(|inode| is_exempt(cred, inode))
    }
}
