//! What a change that spans groups is made of, step by step: the home's plan.
//!
//! A plan knows nothing of who does which part: it is told what each has found, and says what is next.

use crate::errno::Errno;
use crate::names::Name;
use crate::state::State;
use weft_types::Ino;
use weft_wire::proto::op::Op;
use weft_wire::proto::part::{Part as Kind, Tells};
use weft_wire::proto::{
    self, AddPart, Attr, Cred, DropPart, FileKind, MakePart, MovePart, NamePart, OpReply,
    PartReply, Rename, Told,
};

/// What is to be done next.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Have these checked and locked, each by the group of [`Plan::place`], and tell all replies.
    Prepare(Vec<proto::Part>),
    /// Find out whether the first directory lies within (or is) the second, which is locked.
    Walk(Ino, Ino),
    /// All is prepared: decide.
    Decide,
    /// There is nothing to do: what was prepared is void, and this is the answer.
    Answer(Box<OpReply>),
}

/// A rename on its way.
#[derive(Clone, PartialEq, Debug)]
struct Renaming {
    op: Rename,
    source: Ino,
    kind: FileKind,
    exempt: bool,
    /// The directory that the old name's is a shard of, or itself.
    whole: Ino,
    target: Ino,
    target_kind: FileKind,
}

#[derive(Clone, PartialEq, Debug)]
enum Stage {
    /// Mkdir: the name is being prepared, then the directory is.
    Making(MakePart),
    /// The last parts of a mkdir or a link are being prepared: what the name is to stand for is the last.
    Naming,
    /// Those of a removal.
    Removing,
    /// The shards of a directory that goes; then the rest of these is to be walked.
    Emptying(Vec<(Ino, Ino)>),
    /// A directory that is to be spread is being locked; then these are made.
    Spreading(Vec<proto::Part>),
    /// Its shards are.
    Sharding,
    /// All that there is: what a spread directory has in common with its shards is set, or entries of it go to
    /// a shard.
    Only,
    /// The new name is: it has to be known what stands there.
    NewName(Renaming),
    /// The old name, what moves, and what is replaced.
    Rest(Renaming),
    /// A directory must not come to be within itself: the rest of these is to be walked.
    Walks(Vec<(Ino, Ino)>),
    /// Both names stand for the same inode.
    Same,
    Decided,
}

/// The plan of a change at its home. See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    stage: Stage,
    /// What the home's name comes to stand for, once that is known.
    names: Option<Attr>,
    /// The shards of the directory that is spread, once these are known.
    shards: Vec<u64>,
}

fn part(tells: Tells, kind: Kind) -> proto::Part {
    proto::Part {
        tells: tells as i32,
        part: Some(kind),
    }
}

impl Plan {
    /// Plans a change of which [`State::spans_groups`] is true; answers the first step. What the home's
    /// own state says is checked here.
    ///
    /// # Errors
    /// Those of the change.
    pub fn begin(state: &State, cred: &Cred, op: &Op) -> Result<(Plan, Step), Errno> {
        if state.is_misplaced(op) {
            return Err(Errno::EREMCHG);
        }
        let (stage, parts) = match op {
            Op::Create(op) => {
                let parent = Ino(op.parent);
                state.searchable(cred, parent)?;
                let name = plain(&op.name, Errno::EEXIST)?;
                let slot = State::directory_slot(parent, name);
                let make = MakePart {
                    slot: u32::from(slot.0),
                    ..state.directory_below(cred, parent, op.mode)?
                };
                let named = NamePart {
                    directory: op.parent,
                    name: op.name.clone(),
                    expected: Some(0),
                    kind: FileKind::Directory as i32,
                    ..NamePart::default()
                };
                let named = part(Tells::Parent, Kind::Name(named));
                (Stage::Making(make), vec![named])
            }
            Op::Link(op) => {
                state.searchable(cred, Ino(op.parent))?;
                plain(&op.name, Errno::EEXIST)?;
                let named = NamePart {
                    directory: op.parent,
                    name: op.name.clone(),
                    expected: Some(0),
                    ino: op.ino,
                    ..NamePart::default()
                };
                let named = part(Tells::Parent, Kind::Name(named));
                let added = AddPart {
                    ino: op.ino,
                    unnamed: op.unnamed,
                };
                let added = part(Tells::Attr, Kind::Add(added));
                (Stage::Naming, vec![named, added])
            }
            Op::Unlink(op) => {
                state.searchable(cred, Ino(op.parent))?;
                plain(&op.name, Errno::EISDIR)?;
                (
                    Stage::Removing,
                    removal(state, cred, op.parent, &op.name, false)?,
                )
            }
            Op::Rmdir(op) => {
                state.searchable(cred, Ino(op.parent))?;
                let dots = match Name::parse(&op.name)? {
                    Name::Dot => Errno::EINVAL,
                    Name::Plain(_) | Name::DotDot => Errno::ENOTEMPTY,
                };
                plain(&op.name, dots)?;
                (
                    Stage::Removing,
                    removal(state, cred, op.parent, &op.name, true)?,
                )
            }
            Op::Rename(op) => {
                let (renaming, parts) = renaming(state, cred, op)?;
                (Stage::NewName(renaming), parts)
            }
            Op::Spread(op) => {
                let (spread, shards) = state.spreading(cred, op)?;
                (Stage::Spreading(shards), vec![spread])
            }
            Op::Setattr(op) => (Stage::Only, state.setting(cred, op)?),
            Op::SetPolicy(op) => (Stage::Only, state.setting_policy(cred, op)?),
            Op::Split(op) => (Stage::Only, state.split(Ino(op.ino))?),
            _ => return Err(Errno::EINVAL),
        };
        let plan = Plan {
            stage,
            names: None,
            shards: Vec::new(),
        };
        Ok((plan, Step::Prepare(parts)))
    }

    /// Where a part is to be done: at the group that has this slot.
    pub fn place(part: &proto::Part) -> weft_types::Slot {
        match &part.part {
            Some(Kind::Name(part)) => Ino(part.directory).slot(),
            Some(Kind::Make(part)) => {
                let slot = u16::try_from(part.slot).unwrap_or_default();
                weft_types::Slot(slot)
            }
            Some(Kind::Drop(part)) => Ino(part.ino).slot(),
            Some(Kind::Add(part)) => Ino(part.ino).slot(),
            Some(Kind::Move(part)) => Ino(part.ino).slot(),
            Some(Kind::Spread(part)) => Ino(part.ino).slot(),
            Some(Kind::Set(part)) => Ino(part.ino).slot(),
            Some(Kind::Take(part)) => Ino(part.ino).slot(),
            Some(Kind::Put(part)) => Ino(part.ino).slot(),
            None => weft_types::Slot(0),
        }
    }

    /// All parts of the last step are prepared; the replies are in its order.
    ///
    /// # Errors
    /// Those of the change: what has been prepared is void then.
    pub fn prepared(&mut self, replies: &[PartReply]) -> Result<Step, Errno> {
        let reply = |number: usize| replies.get(number).ok_or(Errno::EINVAL);
        match std::mem::replace(&mut self.stage, Stage::Decided) {
            Stage::Making(make) => {
                self.stage = Stage::Naming;
                Ok(Step::Prepare(vec![part(Tells::Attr, Kind::Make(make))]))
            }
            Stage::Naming => {
                self.names = Some(replies.last().and_then(|it| it.attr).ok_or(Errno::EINVAL)?);
                Ok(Step::Decide)
            }
            Stage::Removing => Ok(self.empty(replies, Vec::new())),
            Stage::Emptying(walks) => Ok(self.walk(walks)),
            Stage::Spreading(shards) => {
                self.stage = Stage::Sharding;
                Ok(Step::Prepare(shards))
            }
            Stage::Sharding => {
                let made = replies.iter().map(|reply| reply.attr.map(|attr| attr.ino));
                self.shards = made.collect::<Option<_>>().ok_or(Errno::EINVAL)?;
                Ok(Step::Decide)
            }
            Stage::Only => Ok(Step::Decide),
            Stage::NewName(mut renaming) => {
                let found = reply(0)?;
                renaming.target = Ino(found.found);
                renaming.target_kind = found.found_kind();
                let whole = match found.shard_of {
                    0 => Ino(renaming.op.new_parent),
                    whole => Ino(whole),
                };
                Ok(self.after_new_name(renaming, found.exempt, whole))
            }
            Stage::Rest(renaming) => {
                let is_directory = |kind| kind == FileKind::Directory;
                let op = &renaming.op;
                let mut walks = Vec::new();
                if op.parent != op.new_parent {
                    if is_directory(renaming.kind) {
                        walks.push((Ino(op.new_parent), renaming.source));
                    }
                    if op.exchange && is_directory(renaming.target_kind) {
                        walks.push((Ino(op.parent), renaming.target));
                    }
                }
                // The old name: absent, but in an exchange.
                self.names = op.exchange.then(|| Attr {
                    ino: renaming.target.0,
                    kind: renaming.target_kind as i32,
                    ..Attr::default()
                });
                Ok(self.empty(replies, walks))
            }
            Stage::Same => {
                let attr = reply(0)?.attr;
                Ok(Step::Answer(Box::new(OpReply {
                    attr,
                    victim: attr,
                    ..OpReply::default()
                })))
            }
            Stage::Walks(_) | Stage::Decided => Err(Errno::EINVAL),
        }
    }

    /// The walk of the last step is over: it has met the second directory, or not.
    ///
    /// # Errors
    /// A directory would come to be within itself: what has been prepared is void.
    pub fn walked(&mut self, is_within: bool) -> Result<Step, Errno> {
        match std::mem::replace(&mut self.stage, Stage::Decided) {
            Stage::Walks(_) if is_within => Err(Errno::EINVAL),
            Stage::Walks(rest) => Ok(self.walk(rest)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The home's own parts as they take effect, now that all is known.
    pub fn completed(&self, own: &mut [proto::Part]) {
        for part in own.iter_mut() {
            if let Some(Kind::Spread(spread)) = &mut part.part {
                spread.shards.clone_from(&self.shards);
            }
        }
        let Some(attr) = &self.names else { return };
        let mut names = own.iter_mut().filter_map(|part| match &mut part.part {
            Some(Kind::Name(name)) => Some(name),
            _ => None,
        });
        // Of a rename's the old one: what the new one stands for is known from the beginning.
        let is_unknown =
            |name: &&mut NamePart| name.ino == 0 || name.kind() == FileKind::Unspecified;
        if let Some(name) = names.find(is_unknown) {
            (name.ino, name.kind) = (attr.ino, attr.kind);
        }
    }

    /// The shards of a directory that goes go with it.
    fn empty(&mut self, replies: &[PartReply], walks: Vec<(Ino, Ino)>) -> Step {
        let shards = replies.iter().flat_map(|reply| &reply.shards);
        let shards: Vec<u64> = shards.copied().collect();
        if shards.is_empty() {
            return self.walk(walks);
        }
        self.stage = Stage::Emptying(walks);
        Step::Prepare(super::spread::drops(&shards))
    }

    fn walk(&mut self, mut walks: Vec<(Ino, Ino)>) -> Step {
        match walks.pop() {
            Some((from, sought)) => {
                self.stage = Stage::Walks(walks);
                Step::Walk(from, sought)
            }
            None => Step::Decide,
        }
    }

    fn after_new_name(
        &mut self,
        renaming: Renaming,
        is_target_exempt: bool,
        new_whole: Ino,
    ) -> Step {
        let within = renaming.whole == new_whole;
        let (op, source, target) = (&renaming.op, renaming.source, renaming.target);
        if target == source {
            self.stage = Stage::Same;
            let stays = MovePart {
                ino: source.0,
                parent: 0,
                exempt: true,
                within,
                quiet: false,
            };
            return Step::Prepare(vec![part(Tells::Attr, Kind::Move(stays))]);
        }
        let moves = MovePart {
            ino: source.0,
            parent: op.new_parent,
            exempt: renaming.exempt,
            within,
            quiet: false,
        };
        let from = NamePart {
            directory: op.parent,
            name: op.name.clone(),
            expected: Some(source.0),
            ..NamePart::default()
        };
        let mut parts = vec![
            part(Tells::Parent, Kind::Name(from)),
            part(Tells::Attr, Kind::Move(moves)),
        ];
        if target.0 != 0 {
            let goes = match op.exchange {
                true => Kind::Move(MovePart {
                    ino: target.0,
                    parent: op.parent,
                    exempt: is_target_exempt,
                    within,
                    quiet: false,
                }),
                false => Kind::Drop(DropPart {
                    ino: target.0,
                    as_directory: renaming.kind == FileKind::Directory,
                    exempt: is_target_exempt,
                }),
            };
            parts.push(part(Tells::Victim, goes));
        }
        self.stage = Stage::Rest(renaming);
        Step::Prepare(parts)
    }
}

/// What the replies of other groups tell the client.
pub fn told(parts: &[proto::Part], replies: &[PartReply]) -> Vec<Told> {
    let told = parts.iter().zip(replies).filter_map(|(part, reply)| {
        let is_told = part.tells() != Tells::Nothing && reply.attr.is_some();
        is_told.then_some(Told {
            tells: part.tells,
            attr: reply.attr,
        })
    });
    told.collect()
}

/// A name that is none of the two that every directory has.
fn plain(name: &[u8], dots: Errno) -> Result<&[u8], Errno> {
    match Name::parse(name)? {
        Name::Plain(name) => Ok(name),
        Name::Dot | Name::DotDot => Err(dots),
    }
}

fn removal(
    state: &State,
    cred: &Cred,
    parent: u64,
    name: &bytes::Bytes,
    as_directory: bool,
) -> Result<Vec<proto::Part>, Errno> {
    let (_, directory) = state.searchable(cred, Ino(parent))?;
    let (_, victim) = directory.find(name).ok_or(Errno::ENOENT)?;
    let named = NamePart {
        directory: parent,
        name: name.clone(),
        expected: Some(victim.0),
        ..NamePart::default()
    };
    let goes = DropPart {
        ino: victim.0,
        as_directory,
        exempt: state.is_exempt_in(cred, Ino(parent)),
    };
    let goes = part(Tells::Victim, Kind::Drop(goes));
    Ok(vec![part(Tells::Parent, Kind::Name(named)), goes])
}

fn renaming(
    state: &State,
    cred: &Cred,
    op: &Rename,
) -> Result<(Renaming, Vec<proto::Part>), Errno> {
    if op.exchange && (op.no_replace || op.whiteout) {
        return Err(Errno::EINVAL);
    }
    if op.whiteout {
        // The mark would have to be made along with it; who renames so copies instead.
        return Err(Errno::EXDEV);
    }
    let (_, old) = state.searchable(cred, Ino(op.parent))?;
    plain(&op.name, Errno::EBUSY)?;
    let dots = match op.no_replace {
        true => Errno::EEXIST,
        false => Errno::EBUSY,
    };
    plain(&op.new_name, dots)?;
    let (_, source) = old.find(&op.name).ok_or(Errno::ENOENT)?;
    let kind = state.kind_of(source).unwrap_or_default();
    let to = NamePart {
        directory: op.new_parent,
        name: op.new_name.clone(),
        ino: source.0,
        kind: kind as i32,
        no_replace: op.no_replace,
        exchange: op.exchange,
        ..NamePart::default()
    };
    let to_tells = match op.parent == op.new_parent {
        true => Tells::Nothing,
        false => Tells::NewParent,
    };
    let parts = vec![part(to_tells, Kind::Name(to))];
    let renaming = Renaming {
        op: op.clone(),
        source,
        kind,
        exempt: state.is_exempt_in(cred, Ino(op.parent)),
        whole: state.whole(Ino(op.parent)),
        target: Ino(0),
        target_kind: FileKind::Unspecified,
    };
    Ok((renaming, parts))
}
