//! A name space as simple as can be: a list of nodes and maps of names, rules written out straight.

use libc::{
    EACCES, EBUSY, EEXIST, EINVAL, EISDIR, ENODATA, ENOENT, ENOTDIR, ENOTEMPTY, EOPNOTSUPP, EPERM,
    ESTALE,
};
use std::collections::BTreeMap;
use weft_wire::proto::FileKind;

/// Uid, gid and further groups of who acts.
pub struct Users;

impl Users {
    pub const ALL: [(u32, u32, &'static [u32]); 4] =
        [(0, 0, &[]), (1, 1, &[]), (2, 2, &[1]), (3, 3, &[2, 0])];
}

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub parent: usize,
    pub entries: BTreeMap<u8, usize>,
    pub xattrs: BTreeMap<u8, u8>,
    held: bool,
}

pub struct Model {
    nodes: Vec<Option<Node>>,
}

type Done = Result<(), i32>;

fn number(done: Done) -> i32 {
    done.err().unwrap_or(0)
}

fn in_group(user: u8, gid: u32) -> bool {
    let (_, own, more) = Users::ALL[usize::from(user)];
    own == gid || more.contains(&gid)
}

fn uid(user: u8) -> u32 {
    Users::ALL[usize::from(user)].0
}

fn may(user: u8, node: &Node, want: u16) -> Done {
    let root = uid(user) == 0;
    let bits = if root {
        let can_run = node.kind == FileKind::Directory || node.mode & 0o111 != 0;
        if can_run { 7 } else { 6 }
    } else if node.uid == uid(user) {
        node.mode / 64 % 8
    } else if in_group(user, node.gid) {
        node.mode / 8 % 8
    } else {
        node.mode % 8
    };
    if want & !bits == 0 {
        Ok(())
    } else {
        Err(EACCES)
    }
}

/// A directory that is gone, though still held open, takes no more names.
fn addable(user: u8, dir: &Node) -> Done {
    if dir.nlink == 0 {
        Err(ENOENT)
    } else {
        may(user, dir, 3)
    }
}

fn owner(user: u8, node: &Node) -> bool {
    uid(user) == 0 || uid(user) == node.uid
}

fn without_set_id(user: u8, node: &Node) -> u16 {
    let mut mode = node.mode & 0o3777;
    let privileged = uid(user) == 0 || in_group(user, node.gid);
    if mode & 0o010 != 0 || !privileged {
        mode &= 0o1777;
    }
    mode
}

impl Model {
    pub fn new() -> Model {
        let root = Node {
            kind: FileKind::Directory,
            mode: 0o1777,
            uid: 0,
            gid: 0,
            nlink: 2,
            size: 0,
            parent: 0,
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            held: false,
        };
        Model {
            nodes: vec![Some(root)],
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)?.as_ref()
    }

    /// The `n`-th directory that was ever made, or any node if there are not so many.
    pub fn directory(&self, n: usize) -> usize {
        let is_directory = |i: &usize| {
            self.node(*i)
                .is_some_and(|node| node.kind == FileKind::Directory)
        };
        (0..self.nodes.len())
            .filter(is_directory)
            .nth(n)
            .unwrap_or(n)
    }

    fn get(&self, node: usize) -> Result<&Node, i32> {
        self.node(node).ok_or(ESTALE)
    }

    fn change<R>(&mut self, node: usize, change: impl FnOnce(&mut Node) -> R) {
        if let Some(Some(node)) = self.nodes.get_mut(node) {
            change(node);
        }
    }

    fn dir(&self, user: u8, dir: usize) -> Result<&Node, i32> {
        let node = self.get(dir)?;
        if node.kind != FileKind::Directory {
            return Err(ENOTDIR);
        }
        may(user, node, 1)?;
        Ok(node)
    }

    fn is_dir(&self, node: usize) -> bool {
        self.node(node)
            .is_some_and(|n| n.kind == FileKind::Directory)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn create(
        &mut self,
        user: u8,
        dir: usize,
        name: u8,
        kind: FileKind,
        mode: u16,
        exclusive: bool,
        truncate: bool,
        open: u8,
    ) -> i32 {
        number(self.try_create(user, dir, name, kind, mode, exclusive, truncate, open))
    }

    #[allow(clippy::too_many_arguments)]
    fn try_create(
        &mut self,
        user: u8,
        dir: usize,
        name: u8,
        kind: FileKind,
        mode: u16,
        exclusive: bool,
        truncate: bool,
        open: u8,
    ) -> Done {
        let parent = self.dir(user, dir)?.clone();
        if let Some(&there) = parent.entries.get(&name) {
            if exclusive || kind != FileKind::Regular {
                return Err(EEXIST);
            }
            let node = self.get(there)?.clone();
            if node.kind == FileKind::Directory {
                return Err(EISDIR);
            }
            if node.kind == FileKind::Symlink {
                return Ok(());
            }
            let cut = truncate && node.kind == FileKind::Regular;
            may(user, &node, u16::from(open) | if cut { 2 } else { 0 })?;
            if cut {
                let mode = if uid(user) == 0 {
                    node.mode
                } else {
                    without_set_id(user, &node)
                };
                self.change(there, |node| (node.size, node.mode) = (0, mode));
            }
            return Ok(());
        }
        addable(user, &parent)?;
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits {
            parent.gid
        } else {
            Users::ALL[usize::from(user)].1
        };
        let is_dir = kind == FileKind::Directory;
        let mode = match kind {
            FileKind::Symlink => 0o777,
            FileKind::Directory if inherits => mode & 0o1777 | 0o2000,
            FileKind::Directory => mode & 0o1777,
            _ if mode & 0o2010 == 0o2010 && inherits && uid(user) != 0 && !in_group(user, gid) => {
                mode & !0o2000
            }
            _ => mode,
        };
        let node = Node {
            kind,
            mode,
            uid: uid(user),
            gid,
            nlink: if is_dir { 2 } else { 1 },
            size: 0,
            parent: dir,
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            held: false,
        };
        let new = self.nodes.len();
        self.nodes.push(Some(node));
        self.change(dir, |dir| {
            dir.entries.insert(name, new);
            dir.nlink += u32::from(is_dir);
        });
        Ok(())
    }

    pub fn link(&mut self, user: u8, node: usize, dir: usize, name: u8) -> i32 {
        number(self.try_link(user, node, dir, name))
    }

    fn try_link(&mut self, user: u8, node: usize, dir: usize, name: u8) -> Done {
        let source = self.get(node)?.clone();
        let parent = self.dir(user, dir)?;
        if parent.entries.contains_key(&name) {
            return Err(EEXIST);
        }
        addable(user, parent)?;
        if source.kind == FileKind::Directory {
            return Err(EPERM);
        }
        if source.nlink == 0 {
            return Err(ENOENT);
        }
        self.change(dir, |dir| dir.entries.insert(name, node));
        self.change(node, |node| node.nlink += 1);
        Ok(())
    }

    /// Takes `node` out of `dir`'s counts; the entry itself is the caller's.
    fn lose(&mut self, dir: usize, node: usize, keep: bool) {
        if self.is_dir(node) {
            self.change(dir, |dir| dir.nlink -= 1);
            self.change(node, |node| node.nlink = 0);
        } else {
            self.change(node, |node| node.nlink -= 1);
        }
        let gone = self.node(node).is_some_and(|n| n.nlink == 0);
        if gone && keep {
            self.change(node, |node| node.held = true);
        } else if gone {
            self.nodes[node] = None;
        }
    }

    fn deletable(&self, user: u8, parent: &Node, node: usize, as_dir: bool) -> Done {
        may(user, parent, 3)?;
        let victim = self.get(node)?;
        if parent.mode & 0o1000 != 0 && !owner(user, parent) && !owner(user, victim) {
            return Err(EPERM);
        }
        match (as_dir, self.is_dir(node)) {
            (true, false) => Err(ENOTDIR),
            (false, true) => Err(EISDIR),
            _ if node == 0 => Err(EBUSY),
            _ => Ok(()),
        }
    }

    pub fn unlink(&mut self, user: u8, dir: usize, name: u8, keep: bool) -> i32 {
        number(self.try_remove(user, dir, name, keep, false))
    }

    pub fn rmdir(&mut self, user: u8, dir: usize, name: u8) -> i32 {
        number(self.try_remove(user, dir, name, false, true))
    }

    fn try_remove(&mut self, user: u8, dir: usize, name: u8, keep: bool, as_dir: bool) -> Done {
        let parent = self.dir(user, dir)?;
        let node = *parent.entries.get(&name).ok_or(ENOENT)?;
        self.deletable(user, parent, node, as_dir)?;
        if as_dir && !self.get(node)?.entries.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.change(dir, |dir| dir.entries.remove(&name));
        self.lose(dir, node, keep);
        Ok(())
    }

    /// `how`: 0 plainly, 1 without replacing, 2 exchanging.
    pub fn rename(
        &mut self,
        user: u8,
        from: (usize, u8),
        to: (usize, u8),
        how: u8,
        keep: bool,
    ) -> i32 {
        number(self.try_rename(user, from, to, how, keep))
    }

    fn above(&self, mut node: usize, top: usize) -> bool {
        while node != top {
            let Some(parent) = self.node(node).map(|n| n.parent) else {
                return false;
            };
            if node == parent {
                return false;
            }
            node = parent;
        }
        true
    }

    fn try_rename(
        &mut self,
        user: u8,
        from: (usize, u8),
        to: (usize, u8),
        how: u8,
        keep: bool,
    ) -> Done {
        let old_dir = self.dir(user, from.0)?.clone();
        let new_dir = self.dir(user, to.0)?.clone();
        let source = *old_dir.entries.get(&from.1).ok_or(ENOENT)?;
        let target = new_dir.entries.get(&to.1).copied();
        if how == 1 && target.is_some() {
            return Err(EEXIST);
        }
        if how == 2 && target.is_none() {
            return Err(ENOENT);
        }
        if self.is_dir(source) && self.above(to.0, source) {
            return Err(EINVAL);
        }
        if let Some(target) = target {
            if self.is_dir(target) && target != source && self.above(from.0, target) {
                return Err(if how == 2 { EINVAL } else { ENOTEMPTY });
            }
            if source == target {
                return Ok(());
            }
        }
        let dir_moves = self.is_dir(source);
        self.deletable(user, &old_dir, source, dir_moves)?;
        match target {
            Some(target) => {
                let as_dir = if how == 2 {
                    self.is_dir(target)
                } else {
                    dir_moves
                };
                self.deletable(user, &new_dir, target, as_dir)?;
            }
            None => addable(user, &new_dir)?,
        }
        if from.0 != to.0 {
            if dir_moves {
                may(user, self.get(source)?, 2)?;
            }
            if let Some(target) = target.filter(|t| how == 2 && self.is_dir(*t)) {
                may(user, self.get(target)?, 2)?;
            }
        }
        if let Some(target) = target.filter(|t| how != 2 && self.is_dir(*t))
            && !self.get(target)?.entries.is_empty()
        {
            return Err(ENOTEMPTY);
        }

        self.change(from.0, |dir| dir.entries.remove(&from.1));
        self.change(to.0, |dir| dir.entries.insert(to.1, source));
        let mut shift = |node: usize, out: usize, into: usize| {
            if self.is_dir(node) {
                self.change(out, |dir| dir.nlink -= 1);
                self.change(into, |dir| dir.nlink += 1);
            }
            self.change(node, |node| node.parent = into);
        };
        shift(source, from.0, to.0);
        if let Some(target) = target {
            if how == 2 {
                shift(target, to.0, from.0);
                self.change(from.0, |dir| dir.entries.insert(from.1, target));
            } else {
                self.lose(to.0, target, keep);
            }
        }
        Ok(())
    }

    pub fn chmod(&mut self, user: u8, node: usize, mode: u16) -> i32 {
        number(self.try_chmod(user, node, mode))
    }

    fn try_chmod(&mut self, user: u8, node: usize, mut mode: u16) -> Done {
        let known = self.get(node)?;
        if known.kind == FileKind::Symlink {
            return Err(EOPNOTSUPP);
        }
        if !owner(user, known) {
            return Err(EPERM);
        }
        if uid(user) != 0 && !in_group(user, known.gid) {
            mode &= !0o2000;
        }
        self.change(node, |node| node.mode = mode);
        Ok(())
    }

    pub fn chown(&mut self, user: u8, node: usize, new: Option<u32>, gid: Option<u32>) -> i32 {
        number(self.try_chown(user, node, new, gid))
    }

    fn try_chown(&mut self, user: u8, node: usize, new: Option<u32>, gid: Option<u32>) -> Done {
        let known = self.get(node)?;
        if uid(user) != 0 {
            let mine = uid(user) == known.uid;
            if new.is_some_and(|new| !mine || new != known.uid) {
                return Err(EPERM);
            }
            if gid.is_some_and(|gid| !mine || (gid != known.gid && !in_group(user, gid))) {
                return Err(EPERM);
            }
        }
        let keeps = known.kind == FileKind::Directory || (new.is_none() && gid.is_none());
        let mode = if keeps {
            known.mode
        } else {
            without_set_id(user, known)
        };
        self.change(node, |node| {
            node.mode = mode;
            node.uid = new.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
        });
        Ok(())
    }

    pub fn truncate(&mut self, user: u8, node: usize, size: u64) -> i32 {
        number(self.try_truncate(user, node, size))
    }

    fn try_truncate(&mut self, user: u8, node: usize, size: u64) -> Done {
        let known = self.get(node)?;
        match known.kind {
            FileKind::Regular => may(user, known, 2)?,
            FileKind::Directory => return Err(EISDIR),
            _ => return Err(EINVAL),
        }
        let mode = if uid(user) == 0 {
            known.mode
        } else {
            without_set_id(user, known)
        };
        self.change(node, |node| (node.size, node.mode) = (size, mode));
        Ok(())
    }

    pub fn set_xattr(&mut self, user: u8, node: usize, name: u8, value: Option<u8>) -> i32 {
        number(self.try_xattr(user, node, name, value))
    }

    fn try_xattr(&mut self, user: u8, node: usize, name: u8, value: Option<u8>) -> Done {
        let known = self.get(node)?;
        let is_dir = known.kind == FileKind::Directory;
        let sticky = is_dir && known.mode & 0o1000 != 0;
        if !(is_dir || known.kind == FileKind::Regular) || (sticky && !owner(user, known)) {
            return Err(EPERM);
        }
        may(user, known, 2)?;
        if value.is_none() && !known.xattrs.contains_key(&name) {
            return Err(ENODATA);
        }
        self.change(node, |node| match value {
            Some(value) => node.xattrs.insert(name, value),
            None => node.xattrs.remove(&name),
        });
        Ok(())
    }

    pub fn release(&mut self, node: usize) {
        self.change(node, |node| node.held = false);
        if self.node(node).is_some_and(|n| n.nlink == 0) {
            self.nodes[node] = None;
        }
    }
}
