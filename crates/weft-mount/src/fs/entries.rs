//! What a reply tells the kernel of inodes and their names, and how long it may keep that.

use super::{Body, Face};
use crate::abi::{self, Out};
use crate::aliases::Name;
use crate::narrow;
use crate::translate::attr_out;
use bytes::Bytes;
use weft_client::*;

impl Face {
    /// The inode number that programs see.
    pub(super) fn shown(&self, ino: u64) -> u64 {
        match self.narrow {
            Some(_) => narrow::fold(ino),
            None => ino,
        }
    }

    pub(super) fn attr_out(&self, attr: &Attr) -> abi::AttrOut {
        abi::AttrOut {
            shown: self.shown(attr.ino),
            ..attr_out(attr)
        }
    }

    /// For how many seconds the kernel may keep it.
    pub(super) fn validity(&self, leased: bool) -> u64 {
        if leased { self.cache_seconds } else { 0 }
    }

    pub(super) fn name_validity(&self, leased: bool) -> u64 {
        self.validity(leased && self.kernel.keeps_names())
    }

    /// What the kernel is told of an inode under a name. `name` None: under none that could be renamed.
    pub(super) fn entry(&self, known: &Known, name: Option<Name>, name_leased: bool) -> Out {
        let ino = known.attr.ino;
        self.kernel.told(&known.attr);
        self.tells_size(known);
        if let Some(name) = name.filter(|_| has_aliases(known)) {
            self.kernel.tells_name(ino, name);
        }
        Out::with_capacity(128 + 16).entry_out(
            &self.attr_out(&known.attr),
            self.name_validity(name_leased),
            self.validity(known.leased),
        )
    }

    pub(super) fn tells_size(&self, known: &Known) {
        if known.attr.kind() == FileKind::Regular {
            self.kernel.tells_size(known.attr.ino, known.attr.size);
        }
    }

    pub(crate) fn attributes(&self, known: &Known) -> Body {
        self.tells_size(known);
        Out::with_capacity(104)
            .attr_out(&self.attr_out(&known.attr), self.validity(known.leased))
            .into()
    }

    pub(super) fn name(&self, parent: u64, name: &Bytes) -> Name {
        Name {
            parent,
            name: name.clone(),
        }
    }

    /// The entry of something just made under a name.
    pub(super) fn made(&self, parent: u64, name: &Bytes, known: &Known) -> Body {
        let name_leased = self.client.keeps_name(parent, name, known.attr.ino);
        let name = self.name(parent, name);
        self.entry(known, Some(name), name_leased).into()
    }
}

/// The kernel can be told of it under a second name. (Of a directory it moves the one name that it has itself.)
pub(super) fn has_aliases(known: &Known) -> bool {
    known.attr.kind() != FileKind::Directory
}
