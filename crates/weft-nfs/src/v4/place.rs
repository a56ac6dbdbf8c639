//! What filehandles stand for. Above the exports there are directories of no name space: only what leads to an export
//! that the caller may have is shown in them.

use super::status::Result;
use crate::caller::{Caller, Object};
use crate::exports::{Export, way_number};
use crate::handle::{HandleError, Kind};
use bytes::Bytes;
use std::collections::BTreeSet;
use weft_client::{Attr, FileKind};
use weft_xdr::nfs3::nfs_fh3;
use weft_xdr::nfs4::{fsid4, nfsstat4};

/// What a filehandle stands for.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Object(Object),
    Way(Way),
}

/// A directory on the way to an export.
#[derive(Clone, Debug)]
pub(super) struct Way(Vec<Vec<u8>>);

impl Way {
    pub(super) fn number(&self) -> u64 {
        way_number(&self.0)
    }

    fn below(&self, name: &[u8]) -> Way {
        let names = self.0.iter().map(Vec::as_slice).chain([name]);
        Way(names.map(<[u8]>::to_vec).collect())
    }
}

/// Attributes of a directory on the way.
pub(super) fn attr_of_way(number: u64) -> Attr {
    Attr {
        ino: number,
        kind: FileKind::Directory as i32,
        mode: 0o555,
        nlink: 2,
        ..Attr::default()
    }
}

/// An inode and its attributes, as they are told.
pub(super) struct Subject {
    pub attr: Attr,
    pub handle: Bytes,
    pub fsid: fsid4,
    /// The number of the directory that an export's covers, or its own.
    pub mounted_on: u64,
}

/// Refuses what is no name in a directory.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        [] => Err(nfsstat4::NFS4ERR_INVAL.into()),
        b"." | b".." => Err(nfsstat4::NFS4ERR_BADNAME.into()),
        name if name.len() > super::names::NAME_MAX => Err(nfsstat4::NFS4ERR_NAMETOOLONG.into()),
        name if name.contains(&b'/') || name.contains(&0) => Err(nfsstat4::NFS4ERR_BADCHAR.into()),
        _ => Ok(()),
    }
}

impl Caller {
    /// What a filehandle stands for.
    ///
    /// # Errors
    /// BADHANDLE: it is none. ACCESS: who calls may not have it. STALE: it is not exported any more.
    pub(super) async fn place(&self, handle: Bytes) -> Result<Place> {
        if handle.get(1) != Some(&(Kind::Way as u8)) {
            let object = self.object(&nfs_fh3 { data: handle }).await?;
            return Ok(Place::Object(object));
        }
        let number = self.shared.sealer.open_way(&handle);
        let number = number.map_err(|error| match error {
            HandleError::Key(_) => nfsstat4::NFS4ERR_STALE,
            _ => nfsstat4::NFS4ERR_BADHANDLE,
        })?;
        let way = self.shared.exports.way(number);
        let way = way.ok_or(nfsstat4::NFS4ERR_STALE)?;
        Ok(Place::Way(Way(way.to_vec())))
    }

    /// Where everybody begins.
    pub(super) async fn root(&self) -> Result<Place> {
        self.way_or_export(Way(Vec::new())).await
    }

    /// The exports that this caller may have.
    fn exports(&self) -> impl Iterator<Item = &Export> {
        let all = self.shared.exports.all().iter();
        all.filter(|export| export.access(self.from, &self.credential).is_some())
    }

    async fn way_or_export(&self, way: Way) -> Result<Place> {
        if let Some(export) = self.exports().find(|export| export.path == way.0) {
            self.root_of(export).await?;
            return Ok(Place::Object(self.top_of(export)?));
        }
        // The root is there even if it is empty.
        let leads = |export: &Export| export.path.starts_with(&way.0);
        match way.0.is_empty() || self.exports().any(leads) {
            true => Ok(Place::Way(way)),
            false => Err(nfsstat4::NFS4ERR_NOENT.into()),
        }
    }

    /// The names in a directory on the way, and what they stand for.
    pub(super) async fn entries_of(&self, way: &Way) -> Result<Vec<(Bytes, Place)>> {
        let below = self.exports().filter(|it| it.path.starts_with(&way.0));
        let names: BTreeSet<&[u8]> = below
            .filter_map(|export| export.path.get(way.0.len()))
            .map(Vec::as_slice)
            .collect();
        let mut entries = Vec::new();
        for name in names {
            // An export whose directory is not there is not shown.
            if let Ok(place) = self.way_or_export(way.below(name)).await {
                entries.push((Bytes::copy_from_slice(name), place));
            }
        }
        Ok(entries)
    }

    /// What a name in a directory stands for.
    pub(super) async fn below(&self, place: &Place, name: &[u8]) -> Result<Place> {
        check_name(name)?;
        match place {
            Place::Way(way) => self.way_or_export(way.below(name)).await,
            Place::Object(dir) => {
                let client = &self.shared.client;
                let found = client.lookup(dir.cred(), dir.ino, name).await?;
                let entry = found.entry.ok_or(nfsstat4::NFS4ERR_NOENT)?;
                let found = self.found_in(dir, entry.attr.ino).await?;
                Ok(Place::Object(found))
            }
        }
    }

    /// The directory above.
    pub(super) async fn above(&self, place: &Place) -> Result<Place> {
        let mut path = match place {
            Place::Way(way) => way.0.clone(),
            Place::Object(dir) if dir.ino == dir.root => {
                let export = self.shared.exports.find(dir.export);
                export.ok_or(nfsstat4::NFS4ERR_STALE)?.path.clone()
            }
            Place::Object(dir) => return Ok(Place::Object(self.parent_of(dir).await?)),
        };
        if path.pop().is_none() {
            return Err(nfsstat4::NFS4ERR_NOENT.into());
        }
        // An export around this one, or a way.
        let around = self
            .exports()
            .filter(|export| path.starts_with(&export.path));
        let Some(export) = around.max_by_key(|export| export.path.len()) else {
            return self.way_or_export(Way(path)).await;
        };
        self.root_of(export).await?;
        let top = self.top_of(export)?;
        // As far as who calls could have come down.
        let rest = &path[export.path.len()..];
        let ino = self.shared.walk(top.cred(), top.ino, rest).await?;
        Ok(Place::Object(Object { ino, ..top }))
    }

    /// The handle of a place.
    pub(super) fn handle_of(&self, place: &Place) -> Bytes {
        match place {
            Place::Object(object) => self.sealed(object.export, object.ino),
            Place::Way(way) => self.shared.sealer.seal_way(way.number()),
        }
    }

    /// What is told of an inode.
    pub(super) fn subject(&self, object: &Object, attr: Attr) -> Subject {
        let is_top = object.ino == object.root;
        let export = self.shared.exports.find(object.export).filter(|_| is_top);
        // Only where a way leads to it the directory that it covers is another one.
        let covered = export.filter(|export| {
            let is_around =
                |its: &&Export| its.id != export.id && export.path.starts_with(&its.path);
            !export.path.is_empty() && !self.exports().any(|its| is_around(&its))
        });
        Subject {
            handle: self.sealed(object.export, object.ino),
            fsid: fsid4 {
                major: self.shared.fsid,
                minor: 0,
            },
            mounted_on: covered.map_or(attr.ino, |export| way_number(&export.path)),
            attr,
        }
    }

    pub(super) fn subject_of_way(&self, way: &Way) -> Subject {
        Subject {
            attr: attr_of_way(way.number()),
            handle: self.shared.sealer.seal_way(way.number()),
            fsid: fsid4 {
                major: !self.shared.fsid,
                minor: 0,
            },
            mounted_on: way.number(),
        }
    }

    /// What is told of a place now.
    pub(super) async fn subject_at(&self, place: &Place) -> Result<Subject> {
        match place {
            Place::Way(way) => Ok(self.subject_of_way(way)),
            Place::Object(object) => {
                let attr = self.attr(object.ino).await?;
                Ok(self.subject(object, attr))
            }
        }
    }
}
