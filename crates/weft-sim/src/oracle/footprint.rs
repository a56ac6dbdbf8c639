//! What an operation touches in a state of the reference: two that touch nothing in common may
//! change places, so that only one order of them has to be tried.
//!
//! Keeps true: if the footprints of two operations do not clash in a state, then both orders lead
//! from there to the same states and answers, and neither changes what the other touches. Where in
//! doubt a footprint is too large, which only costs time.

use super::history::{ClientId, Kind, Op, Outcome, Record, Reply};
use super::model::State;
use std::collections::BTreeMap;

/// Something of a state that an operation looks at or changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Touch {
    /// Which inode has this number, and whether it is still there.
    Number(u64),
    /// An inode's attributes and content, by the record that made it.
    Inode(usize),
    /// A name in the directory with this number.
    Name(u64, Vec<u8>),
    /// All names in the directory with this number.
    Names(u64),
    /// Which directory is below which.
    Tree,
    /// What a client has unsynced, open and locked.
    Client(ClientId),
}

/// What an operation touches; true: it changes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint(BTreeMap<Touch, bool>);

impl Footprint {
    fn looks_at(&mut self, touch: Touch) {
        self.0.entry(touch).or_insert(false);
    }

    fn changes(&mut self, touch: Touch) {
        self.0.insert(touch, true);
    }

    fn names_changed_in(&self, directory: u64) -> bool {
        let from = Touch::Name(directory, Vec::new());
        self.0
            .range(from..)
            .take_while(|(touch, _)| matches!(touch, Touch::Name(of, _) if *of == directory))
            .any(|(_, &changed)| changed)
    }

    fn meets_names_of(&self, other: &Footprint) -> bool {
        self.0.iter().any(|(touch, _)| match touch {
            Touch::Names(directory) => other.names_changed_in(*directory),
            _ => false,
        })
    }

    /// True if the order of the two may matter.
    pub(super) fn clashes(&self, other: &Footprint) -> bool {
        let same = self
            .0
            .iter()
            .any(|(touch, &mine)| matches!(other.0.get(touch), Some(&theirs) if mine || theirs));
        same || self.meets_names_of(other) || other.meets_names_of(self)
    }
}

impl State {
    /// What `record` touches here.
    pub(super) fn footprint(&self, record: &Record) -> Footprint {
        let mut print = Footprint::default();
        if let Some(ino) = record.op.inode() {
            self.touch_number(&mut print, ino);
        }
        if let Op::Copy { source, .. } = record.op {
            self.touch_number(&mut print, source);
        }
        match &record.outcome {
            Outcome::Known(Reply::Entry(seen)) => self.touch_number(&mut print, seen.ino),
            Outcome::Known(Reply::Inode(ino, _)) => self.touch_number(&mut print, *ino),
            _ => {}
        }
        self.touch_named(&mut print, record);
        match &record.op {
            Op::List { dir } => self.touch_listing(&mut print, *dir, &record.outcome),
            Op::Loses | Op::SyncsAll => self.touch_unsynced(&mut print, record.client),
            Op::Dies => {
                self.touch_unsynced(&mut print, record.client);
                self.touch_session(&mut print, record.client);
            }
            Op::SessionEnds => self.touch_session(&mut print, record.client),
            Op::Create { .. } | Op::Truncate { .. } | Op::Lock { .. } => {
                print.looks_at(Touch::Client(record.client));
            }
            op if op.writes_data() || matches!(op, Op::Open { .. }) => {
                print.looks_at(Touch::Client(record.client));
            }
            _ => {}
        }
        print
    }

    /// An inode given by its number. A number that no inode has yet is about to get one.
    fn touch_number(&self, print: &mut Footprint, ino: u64) {
        match self.find(ino) {
            Ok(id) => {
                print.looks_at(Touch::Number(ino));
                print.changes(Touch::Inode(id));
            }
            Err(_) => print.changes(Touch::Number(ino)),
        }
    }

    /// The inode may go.
    fn touch_life(&self, print: &mut Footprint, id: usize) {
        let inode = self.get(id);
        print.changes(Touch::Inode(id));
        if let Some(ino) = inode.ino {
            print.changes(Touch::Number(ino));
            if inode.kind == Kind::Directory {
                print.looks_at(Touch::Names(ino));
            }
        }
    }

    /// A directory given by its number, whose count of directories may change.
    fn touch_count(&self, print: &mut Footprint, parent: u64) {
        if let Ok(id) = self.find(parent) {
            print.changes(Touch::Inode(id));
        }
    }

    fn touch_named(&self, print: &mut Footprint, record: &Record) {
        let changes = !matches!(record.op, Op::Lookup { .. })
            && !matches!(record.outcome, Outcome::Known(Reply::Error(_)));
        for (parent, name) in record.op.names() {
            print.looks_at(Touch::Number(parent));
            let touch = Touch::Name(parent, name.to_vec());
            if changes {
                print.changes(touch);
            } else {
                print.looks_at(touch);
            }
            let child = self
                .directory(parent)
                .ok()
                .and_then(|directory| self.entry(directory, name));
            match (&record.op, child) {
                (Op::Mkdir { .. } | Op::Rmdir { .. }, _) if changes => {
                    self.touch_count(print, parent);
                }
                (Op::Rename { .. }, Some(id)) if self.get(id).kind == Kind::Directory => {
                    print.changes(Touch::Tree);
                    for (parent, _) in record.op.names() {
                        self.touch_count(print, parent);
                    }
                }
                _ => {}
            }
            match (&record.op, child) {
                (Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. }, Some(id)) => {
                    self.touch_life(print, id);
                }
                (_, Some(id)) => print.changes(Touch::Inode(id)),
                (_, None) => {}
            }
        }
    }

    fn touch_listing(&self, print: &mut Footprint, dir: u64, outcome: &Outcome) {
        print.looks_at(Touch::Names(dir));
        print.looks_at(Touch::Number(dir));
        let Outcome::Known(Reply::Listing(entries)) = outcome else {
            return;
        };
        let directory = self.directory(dir).ok();
        for (name, ino, _) in entries {
            if self.find(*ino).is_ok() {
                print.looks_at(Touch::Number(*ino));
                continue;
            }
            print.changes(Touch::Number(*ino));
            if let Some(id) = directory.and_then(|directory| self.entry(directory, name)) {
                print.changes(Touch::Inode(id));
            }
        }
    }

    fn touch_unsynced(&self, print: &mut Footprint, client: ClientId) {
        print.changes(Touch::Client(client));
        for (&id, inode) in &self.inodes {
            if inode.content.is_unsynced_by(client) {
                print.changes(Touch::Inode(id));
            }
        }
    }

    fn touch_session(&self, print: &mut Footprint, client: ClientId) {
        print.changes(Touch::Client(client));
        for &(_, id) in self.opens_of(client) {
            self.touch_life(print, id);
        }
        for ((id, _), holders) in &self.locks {
            if holders.keys().any(|&(holder, _)| holder == client) {
                print.changes(Touch::Inode(*id));
            }
        }
    }
}
