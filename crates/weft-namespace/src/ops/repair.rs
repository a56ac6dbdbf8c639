//! Repair: what a check of the whole name space has found is set right (`docs/protocols/fsck.md`).
//!
//! Who asks has looked at several groups; a group sees its own part only. So each of these names what was seen
//! here, and is refused with ESTALE when that is not so any more, and with EAGAIN while another group's
//! transaction has it locked. No inode is removed, and no name of anything but a directory that has another one.
//! What the shards of a spread directory are, and that it has them, is not changed.

use super::Touch;
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::names::Name;
use crate::parts::Locked;
use crate::spread::{Role, is_hidden};
use crate::state::{Context, DIRECTORY_LINKS_MAX, LINKS_MAX, State};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::repair::What;
use weft_wire::proto::{
    self, FileKind, OpReply, RepairEntryGone, RepairEntryMade, RepairKind, RepairLinks,
    RepairParent,
};

/// Where in the root directory what has no name is put.
pub const LOST_AND_FOUND: &str = "lost+found";

/// Its mode: what was where nobody could look may come here.
const PLACE_MODE: u16 = 0o700;

/// The inode that a repair changes: of an entry its directory. Its group is asked.
pub fn repaired(op: &proto::Repair) -> Ino {
    Ino(match &op.what {
        Some(What::EntryGone(op)) => op.directory,
        Some(What::EntryMade(op)) => op.directory,
        Some(What::Links(op)) => op.ino,
        Some(What::Parent(op)) => op.ino,
        Some(What::Kind(op)) => op.directory,
        Some(What::Place(_)) | None => ROOT_INO.0,
    })
}

fn is_locked(locked: &Locked, op: &proto::Repair) -> bool {
    let entry = |directory: u64, name: &[u8]| locked.name(Ino(directory), name).is_some();
    let inode = |ino: u64| locked.inode(Ino(ino)).is_some();
    match &op.what {
        Some(What::EntryGone(op)) => entry(op.directory, &op.name) || inode(op.ino),
        Some(What::EntryMade(op)) => {
            let below = || locked.names_in(Ino(op.ino)).next().is_some();
            entry(op.directory, &op.name) || inode(op.ino) || op.change != 0 && below()
        }
        Some(What::Links(op)) => inode(op.ino) || locked.names_in(Ino(op.ino)).next().is_some(),
        Some(What::Parent(op)) => inode(op.ino),
        Some(What::Kind(op)) => entry(op.directory, &op.name),
        Some(What::Place(_)) => entry(ROOT_INO.0, LOST_AND_FOUND.as_bytes()),
        None => false,
    }
}

pub(super) fn touches(op: &proto::Repair) -> Vec<Touch> {
    let mut touched = vec![Touch::change(repaired(op))];
    match &op.what {
        Some(What::EntryMade(op)) if op.change != 0 => touched.push(Touch::change(Ino(op.ino))),
        _ => {}
    }
    touched
}

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::Repair,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    state.check_repair(op)?;
    match op.what.as_ref().ok_or(Errno::EINVAL)? {
        What::EntryGone(op) => entry_gone(state, ctx, op),
        What::EntryMade(op) => entry_made(state, ctx, op),
        What::Links(op) => {
            if let Some(inode) = state.get_mut(Ino(op.ino)) {
                inode.nlink = op.nlink;
                inode.touch(ctx.now);
            }
        }
        What::Parent(op) => {
            state.set_parent(Ino(op.ino), Ino(op.parent));
            if let Some(inode) = state.get_mut(Ino(op.ino)) {
                inode.touch(ctx.now);
            }
        }
        What::Kind(op) => {
            if let Some(foreign) = state.foreign.get_mut(&Ino(op.ino)) {
                foreign.kind = op.kind();
            }
            state.touch_directory(Ino(op.directory), ctx.now, more_directories(state, op));
        }
        What::Place(_) => return place(state, ctx),
    }
    let ino = repaired(op);
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}

impl State {
    /// Whether a repair could be done now, as far as the state tells.
    ///
    /// # Errors
    /// ESTALE: it is not as it was seen. EAGAIN: another group's transaction has locked it. EEXIST: a name that was
    /// to be made stands for something else. ENOTDIR: so does that of the directory for what has no name. EPERM: a
    /// spread directory would lose a shard, or have another one. EINVAL, EMLINK, ENOSPC: it cannot be done at all.
    pub fn check_repair(&self, op: &proto::Repair) -> Result<(), Errno> {
        if is_locked(&self.locked, op) {
            return Err(Errno::EAGAIN);
        }
        match op.what.as_ref().ok_or(Errno::EINVAL)? {
            What::EntryGone(op) => self.check_entry_gone(op),
            What::EntryMade(op) => self.check_entry_made(op),
            What::Links(op) => self.check_links(op),
            What::Parent(op) => self.check_parent(op),
            What::Kind(op) => self.check_kind(op),
            What::Place(_) => self.check_place(),
        }
    }

    /// A transaction, of another group or in `own` of this one's, has locked what a repair is about.
    pub fn locks_repair(&self, own: &Locked, op: &proto::Repair) -> bool {
        is_locked(&self.locked, op) || is_locked(own, op)
    }

    fn seen(&self, ino: Ino, change: u64) -> Result<&Inode, Errno> {
        let inode = self.get(ino)?;
        match inode.change == change {
            true => Ok(inode),
            false => Err(Errno::ESTALE),
        }
    }

    /// An entry stands for this.
    fn check_entry(&self, directory: Ino, name: &[u8], ino: Ino) -> Result<(), Errno> {
        let (_, entries) = self.directory(directory).map_err(|_| Errno::ESTALE)?;
        match entries.find(name) {
            Some((_, found)) if found == ino => Ok(()),
            _ => Err(Errno::ESTALE),
        }
    }

    fn check_entry_gone(&self, op: &RepairEntryGone) -> Result<(), Errno> {
        let (directory, ino) = (Ino(op.directory), Ino(op.ino));
        self.check_entry(directory, &op.name, ino)?;
        if is_hidden(&op.name) {
            return Err(Errno::EPERM);
        }
        if op.absent {
            return match self.inodes.contains_key(&ino) {
                true => Err(Errno::ESTALE),
                false => Ok(()),
            };
        }
        self.seen(directory, op.change)?;
        match self.kind_of(ino) {
            Some(FileKind::Directory) => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn check_entry_made(&self, op: &RepairEntryMade) -> Result<(), Errno> {
        let (parent, ino) = (Ino(op.directory), Ino(op.ino));
        let (inode, directory) = self.directory(parent).map_err(|_| Errno::ESTALE)?;
        let Name::Plain(name) = Name::parse(&op.name)? else {
            return Err(Errno::EINVAL);
        };
        if ino.0 == 0 || ino == ROOT_INO || ino == parent || op.kind() == FileKind::Unspecified {
            return Err(Errno::EINVAL);
        }
        match directory.find(name) {
            Some((_, found)) if found == ino => return Ok(()),
            Some(_) => return Err(Errno::EEXIST),
            None if inode.nlink == 0 => return Err(Errno::ESTALE),
            None => {}
        }
        if inode.nlink >= DIRECTORY_LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        if self.slots.has(ino.slot()) {
            let named = match op.change {
                0 => self.get(ino)?,
                change => self.seen(ino, change)?,
            };
            if named.kind() != op.kind() {
                return Err(Errno::EINVAL);
            }
            if let Body::Directory(named) = &named.body {
                if matches!(named.role, Role::Shard(_)) {
                    return Err(Errno::EPERM);
                }
                if named.parent != parent && op.change == 0 {
                    return Err(Errno::ESTALE);
                }
            }
        } else if op.change != 0 {
            return Err(Errno::ESTALE);
        }
        match self.foreign.get(&ino) {
            Some(foreign) if foreign.kind != op.kind() => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }

    fn check_links(&self, op: &RepairLinks) -> Result<(), Errno> {
        let ino = Ino(op.ino);
        let inode = self.seen(ino, op.change)?;
        match &inode.body {
            Body::Directory(_) => match self.links_of(inode) == op.nlink {
                true => Ok(()),
                false => Err(Errno::ESTALE),
            },
            _ if op.nlink == 0 => Err(Errno::EINVAL),
            _ if op.nlink > LINKS_MAX => Err(Errno::EMLINK),
            _ => Ok(()),
        }
    }

    /// What a directory's link count must be; 1 for anything else, which has one name.
    fn links_of(&self, inode: &Inode) -> u32 {
        let Body::Directory(directory) = &inode.body else {
            return 1;
        };
        let entries = directory.after(0).map(|(_, entry)| entry.ino);
        let below = entries.filter(|ino| self.kind_of(*ino) == Some(FileKind::Directory));
        u32::try_from(below.count() + 2).unwrap_or(u32::MAX)
    }

    fn check_parent(&self, op: &RepairParent) -> Result<(), Errno> {
        let (ino, parent) = (Ino(op.ino), Ino(op.parent));
        let inode = self.seen(ino, op.change)?;
        let Body::Directory(directory) = &inode.body else {
            return Err(Errno::ESTALE);
        };
        if inode.nlink == 0 {
            return Err(Errno::ESTALE);
        }
        if matches!(directory.role, Role::Shard(_)) {
            return Err(Errno::EPERM);
        }
        match ino == ROOT_INO {
            true if parent != ROOT_INO => return Err(Errno::EINVAL),
            false if parent == ino || parent.0 == 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        if self.slots.has(parent.slot()) {
            let above = self.directory(parent).map_err(|_| Errno::ESTALE)?;
            if above.0.nlink == 0 {
                return Err(Errno::ESTALE);
            }
        }
        Ok(())
    }

    fn check_kind(&self, op: &RepairKind) -> Result<(), Errno> {
        let ino = Ino(op.ino);
        self.check_entry(Ino(op.directory), &op.name, ino)?;
        if op.kind() == FileKind::Unspecified {
            return Err(Errno::EINVAL);
        }
        match self.foreign.get(&ino) {
            Some(foreign) if foreign.kind == op.was() => Ok(()),
            _ => Err(Errno::ESTALE),
        }
    }

    fn check_place(&self) -> Result<(), Errno> {
        let name = LOST_AND_FOUND.as_bytes();
        let (root, directory) = self.directory(ROOT_INO).map_err(|_| Errno::ESTALE)?;
        match directory.find(name).map(|(_, ino)| self.kind_of(ino)) {
            Some(Some(FileKind::Directory)) => Ok(()),
            // An entry that names nothing goes first.
            Some(None) => Err(Errno::EAGAIN),
            Some(Some(_)) => Err(Errno::ENOTDIR),
            None if root.nlink >= DIRECTORY_LINKS_MAX => Err(Errno::EMLINK),
            None => self
                .next_ino(ROOT_INO.slot())
                .map(drop)
                .ok_or(Errno::ENOSPC),
        }
    }
}

/// How many entries of the directory have become directories; below 0, have ceased to be.
fn more_directories(state: &State, op: &RepairKind) -> i32 {
    let is_directory = |kind: FileKind| i32::from(kind == FileKind::Directory);
    let Ok((_, directory)) = state.directory(Ino(op.directory)) else {
        return 0;
    };
    let entries = directory.after(0).map(|(_, entry)| entry.ino);
    let named = entries.filter(|ino| *ino == Ino(op.ino)).count();
    let named = i32::try_from(named).unwrap_or(i32::MAX);
    named * (is_directory(op.kind()) - is_directory(op.was()))
}

fn entry_gone(state: &mut State, ctx: &Context, op: &RepairEntryGone) {
    let (parent, ino) = (Ino(op.directory), Ino(op.ino));
    let Ok((inode, directory)) = state.directory(parent) else {
        return;
    };
    let Some((cookie, _)) = directory.find(&op.name) else {
        return;
    };
    let counts = state.kind_of(ino) == Some(FileKind::Directory);
    // One that is wrong anyway must not come to say that the directory has gone.
    let below = -i32::from(counts && inode.nlink > 2);
    state.remove_entry(parent, cookie, &op.name);
    state.unname_foreign(ino);
    state.touch_directory(parent, ctx.now, below);
}

fn entry_made(state: &mut State, ctx: &Context, op: &RepairEntryMade) {
    let (parent, ino) = (Ino(op.directory), Ino(op.ino));
    if state.found(parent, &op.name).is_some() {
        // It has been made before.
        return;
    }
    if !state.slots.has(ino.slot()) {
        state.name_foreign(ino, op.kind());
    }
    state.add_entry(parent, &op.name, ino);
    let below = i32::from(op.kind() == FileKind::Directory);
    state.touch_directory(parent, ctx.now, below);
    if op.change == 0 {
        return;
    }
    state.set_parent(ino, parent);
    let nlink = state.get(ino).map(|inode| state.links_of(inode));
    if let (Ok(nlink), Some(inode)) = (nlink, state.get_mut(ino)) {
        inode.nlink = nlink;
        inode.touch(ctx.now);
    }
}

/// The directory is in the root's slot, so that one group makes it alone.
fn place(state: &mut State, ctx: &Context) -> Result<OpReply, Errno> {
    let name = LOST_AND_FOUND.as_bytes();
    let told = |attr| OpReply {
        attr,
        ..OpReply::default()
    };
    if let Some(ino) = state.found(ROOT_INO, name) {
        let here = state.attr(ino);
        return Ok(told(
            here.or_else(|| Some(State::foreign_attr(ino, FileKind::Directory))),
        ));
    }
    let ino = state.next_ino(ROOT_INO.slot()).ok_or(Errno::ENOSPC)?;
    let (root, directory) = state.directory(ROOT_INO)?;
    let made = Inode {
        mode: PLACE_MODE,
        nlink: 2,
        uid: root.uid,
        gid: root.gid,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        change: 1,
        body: Body::Directory(Box::new(Directory::new(ROOT_INO, directory.policy))),
    };
    state.use_ino(ino);
    state.put_inode(ino, made);
    state.add_entry(ROOT_INO, name, ino);
    state.touch_directory(ROOT_INO, ctx.now, 1);
    Ok(told(state.attr(ino)))
}
