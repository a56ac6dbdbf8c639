//! A part takes effect.

use super::check;
use super::locked::of;
use super::{Foreign, Prepared};
use crate::inode::Stamp;
use crate::lingering::Unkept;
use crate::state::State;
use weft_types::Ino;
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{Attr, FileKind, NamePart};

impl State {
    /// Does a part that has been checked, and locked since. Answers what it leaves.
    pub(crate) fn do_part(&mut self, prepared: &Prepared, unkept: Unkept) -> Option<Attr> {
        let now = prepared.time;
        match of(&prepared.part)? {
            Kind::Name(part) => {
                self.do_name(part, now);
                self.attr(Ino(part.directory))
            }
            Kind::Make(part) => {
                let ino = Ino(part.ino);
                let (inode, _) = check::made(part, now)?;
                self.put_inode(ino, inode);
                self.attr(ino)
            }
            Kind::Drop(part) => self.drop_link(Ino(part.ino), (now, unkept), None),
            Kind::Spread(part) => self.do_spread(part, now),
            Kind::Set(part) => self.do_set(part, now),
            Kind::Take(part) => self.do_take(part),
            Kind::Put(part) => self.do_put(part),
            Kind::Add(part) => {
                let inode = self.get_mut(Ino(part.ino))?;
                inode.nlink += 1;
                inode.touch(now);
                self.attr(Ino(part.ino))
            }
            Kind::Move(part) if part.parent == 0 => self.attr(Ino(part.ino)),
            Kind::Move(part) => {
                let ino = Ino(part.ino);
                self.set_parent(ino, Ino(part.parent));
                if !part.quiet {
                    self.get_mut(ino)?.touch(now);
                }
                self.attr(ino)
            }
        }
    }

    fn do_name(&mut self, part: &NamePart, now: Stamp) {
        let (parent, ino) = (Ino(part.directory), Ino(part.ino));
        let Ok((_, directory)) = self.directory(parent) else {
            return;
        };
        let found = directory.find(&part.name);
        let goes = found.and_then(|(_, ino)| self.kind_of(ino));
        let comes = (ino.0 != 0).then(|| part.kind());
        if let (Some(kind), false) = (comes, self.slots.has(ino.slot())) {
            self.name_foreign(ino, kind);
        }
        match (found, comes) {
            (None, None) => {}
            (None, Some(_)) => self.add_entry(parent, &part.name, ino),
            (Some((cookie, _)), Some(_)) => self.replace_entry(parent, cookie, ino),
            (Some((cookie, _)), None) => self.remove_entry(parent, cookie, &part.name),
        }
        if let Some((_, gone)) = found {
            self.unname_foreign(gone);
        }
        let directories = |kind: Option<FileKind>| i32::from(kind == Some(FileKind::Directory));
        self.touch_directory(parent, now, directories(comes) - directories(goes));
    }

    pub(crate) fn name_foreign(&mut self, ino: Ino, kind: FileKind) {
        let unnamed = Foreign { kind, names: 0 };
        self.foreign.entry(ino).or_insert(unnamed).names += 1;
    }

    pub(crate) fn unname_foreign(&mut self, ino: Ino) {
        if let Some(foreign) = self.foreign.get_mut(&ino) {
            foreign.names -= 1;
            if foreign.names == 0 {
                self.foreign.remove(&ino);
            }
        }
    }
}
