//! Paths, for tools: walked as far as this group's part of the name space goes.

use crate::errno::Errno;
use crate::inode::Body;
use crate::names::Name;
use crate::state::State;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{Elsewhere, FileKind};

/// Symbolic links that are followed before they are taken for a circle (Linux's bound).
const LINKS_MAX: u32 = 40;

/// Where a path leads.
#[derive(Clone, PartialEq, Debug)]
pub enum Resolved {
    /// To this inode of this group.
    Here(Ino),
    /// Out of this group.
    Elsewhere(Elsewhere),
}

/// The names of a path, the next one last.
fn split(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(<[u8]>::to_vec).rev()
}

impl State {
    /// The inode at a path, as root sees it, or how far the path leads here. It begins at the root or, where
    /// another group has come no further, at `from.ino`, with what was left. Symbolic links on the way are
    /// followed where they stay within the name space, a final one is not.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, ENAMETOOLONG, EINVAL, ELOOP; EXDEV for a link to an absolute path, which only the
    /// client's machine could resolve; ESTALE if the beginning is gone.
    pub fn resolve(&self, from: &Elsewhere) -> Result<Resolved, Errno> {
        let mut at = match from.ino {
            0 => ROOT_INO,
            ino => Ino(ino),
        };
        let mut within = Ino(from.within);
        let mut links = from.links;
        let mut parts: Vec<Vec<u8>> = split(&from.rest).collect();
        loop {
            if !self.slots.has(at.slot()) {
                parts.reverse();
                return Ok(Resolved::Elsewhere(Elsewhere {
                    ino: at.0,
                    rest: parts.join(&b'/').into(),
                    within: match self.kind_of(at) {
                        Some(FileKind::Directory) | None => 0,
                        Some(_) => within.0,
                    },
                    links,
                }));
            }
            let inode = self.get(at)?;
            if parts.is_empty() {
                return Ok(Resolved::Here(at));
            }
            if let Body::Symlink(target) = &inode.body {
                if within.0 == 0 {
                    return Err(Errno::ESTALE);
                }
                links = links.saturating_add(1);
                if links > LINKS_MAX {
                    return Err(Errno::ELOOP);
                }
                if target.starts_with(b"/") {
                    return Err(Errno::EXDEV);
                }
                parts.extend(split(target));
                parts.push(b".".to_vec());
                at = within;
                continue;
            }
            let (_, directory) = self.directory(at)?;
            let Some(part) = parts.pop() else {
                return Ok(Resolved::Here(at));
            };
            let next = match Name::parse(&part)? {
                // Whoever comes to a shard from below is in its directory.
                Name::Dot => self.whole(at),
                Name::DotDot => {
                    parts.push(b".".to_vec());
                    directory.parent
                }
                Name::Plain(name) => match directory.role.place(name) {
                    Some(shard) => {
                        parts.push(part.clone());
                        shard
                    }
                    None => directory.find(name).ok_or(Errno::ENOENT)?.1,
                },
            };
            within = at;
            at = next;
        }
    }
}
