//! Attributes of version 4 (RFC 8881, 5.6 to 5.8 and 6.2).

use super::place::Subject;
use super::{open_arguments, owners};
use crate::attributes::{device_numbers, fits_time};
use crate::handle::FILE_HANDLE_BYTES;
use crate::io::TRANSFER_MAX;
use std::time::Duration;
use weft_client::{Attr, FileKind, SetAttr, SetTime, Space, Time};
use weft_xdr::nfs4::*;
use weft_xdr::{Decoder, Encoder, Xdr};

/// What can be told and set, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Told,
    Set,
    Both,
}

/// Longer names of users are not made here: a number of 32 bits.
const OWNER_BYTES: usize = 4 + 12;
/// An entry of an access control list, with the longest name that is used.
const ACE_BYTES: usize = 4 * 3 + 4 + 12;

/// Attributes that are known here: their numbers, what they are good for, and bytes of a value at most.
const KNOWN: [(u32, Use, usize); 49] = [
    (FATTR4_SUPPORTED_ATTRS, Use::Told, 4 + 3 * 4),
    (FATTR4_TYPE, Use::Told, 4),
    (FATTR4_FH_EXPIRE_TYPE, Use::Told, 4),
    (FATTR4_CHANGE, Use::Told, 8),
    (FATTR4_SIZE, Use::Both, 8),
    (FATTR4_LINK_SUPPORT, Use::Told, 4),
    (FATTR4_SYMLINK_SUPPORT, Use::Told, 4),
    (FATTR4_NAMED_ATTR, Use::Told, 4),
    (FATTR4_FSID, Use::Told, 16),
    (FATTR4_UNIQUE_HANDLES, Use::Told, 4),
    (FATTR4_LEASE_TIME, Use::Told, 4),
    (FATTR4_RDATTR_ERROR, Use::Told, 4),
    (FATTR4_ACL, Use::Told, 4 + 5 * ACE_BYTES),
    (FATTR4_ACLSUPPORT, Use::Told, 4),
    (FATTR4_CANSETTIME, Use::Told, 4),
    (FATTR4_CASE_INSENSITIVE, Use::Told, 4),
    (FATTR4_CASE_PRESERVING, Use::Told, 4),
    (FATTR4_CHOWN_RESTRICTED, Use::Told, 4),
    (
        FATTR4_FILEHANDLE,
        Use::Told,
        4 + FILE_HANDLE_BYTES.next_multiple_of(4),
    ),
    (FATTR4_FILEID, Use::Told, 8),
    (FATTR4_FILES_AVAIL, Use::Told, 8),
    (FATTR4_FILES_FREE, Use::Told, 8),
    (FATTR4_FILES_TOTAL, Use::Told, 8),
    (FATTR4_HOMOGENEOUS, Use::Told, 4),
    (FATTR4_MAXFILESIZE, Use::Told, 8),
    (FATTR4_MAXLINK, Use::Told, 4),
    (FATTR4_MAXNAME, Use::Told, 4),
    (FATTR4_MAXREAD, Use::Told, 8),
    (FATTR4_MAXWRITE, Use::Told, 8),
    (FATTR4_MODE, Use::Both, 4),
    (FATTR4_NO_TRUNC, Use::Told, 4),
    (FATTR4_NUMLINKS, Use::Told, 4),
    (FATTR4_OWNER, Use::Both, OWNER_BYTES),
    (FATTR4_OWNER_GROUP, Use::Both, OWNER_BYTES),
    (FATTR4_RAWDEV, Use::Told, 8),
    (FATTR4_SPACE_AVAIL, Use::Told, 8),
    (FATTR4_SPACE_FREE, Use::Told, 8),
    (FATTR4_SPACE_TOTAL, Use::Told, 8),
    (FATTR4_SPACE_USED, Use::Told, 8),
    (FATTR4_TIME_ACCESS, Use::Told, 12),
    (FATTR4_TIME_ACCESS_SET, Use::Set, 0),
    (FATTR4_TIME_DELTA, Use::Told, 12),
    (FATTR4_TIME_METADATA, Use::Told, 12),
    (FATTR4_TIME_MODIFY, Use::Told, 12),
    (FATTR4_TIME_MODIFY_SET, Use::Set, 0),
    (FATTR4_MOUNTED_ON_FILEID, Use::Told, 8),
    (FATTR4_SUPPATTR_EXCLCREAT, Use::Told, 4 + 3 * 4),
    // Of RFC 8276, which goes with minor version 2; others may ask all the same.
    (FATTR4_XATTR_SUPPORT, Use::Told, 4),
    (open_arguments::NUMBER, Use::Told, open_arguments::BYTES),
];

/// Attributes of the whole file system, for which it has to be asked.
const OF_SPACE: [u32; 4] = [
    FATTR4_FILES_TOTAL,
    FATTR4_SPACE_AVAIL,
    FATTR4_SPACE_FREE,
    FATTR4_SPACE_TOTAL,
];

/// Hard links of one file.
const LINKS_MAX: u32 = 65_000;
/// Inodes are bounded by memory only; this is what is shown as free.
const INODES_FREE: u64 = 1 << 40;

fn known(number: u32) -> Option<Use> {
    let found = KNOWN.iter().find(|(its, _, _)| *its == number);
    found.map(|(_, good_for, _)| *good_for)
}

/// Whether a bitmap has an attribute.
pub(super) fn has(bitmap: &bitmap4, number: u32) -> bool {
    let word = bitmap.get(number as usize / 32).copied().unwrap_or(0);
    word & 1 << (number % 32) != 0
}

/// The attributes of a bitmap, in order.
fn numbers(bitmap: &bitmap4) -> impl Iterator<Item = u32> {
    let words = bitmap.iter().zip(0u32..);
    words.flat_map(|(word, at)| {
        (0..32).filter_map(move |bit| (word & 1 << bit != 0).then_some(at * 32 + bit))
    })
}

/// The bitmap of some attributes.
pub(super) fn bitmap_of(numbers: impl IntoIterator<Item = u32>) -> bitmap4 {
    let mut bitmap = bitmap4::new();
    for number in numbers {
        let word = number as usize / 32;
        if bitmap.len() <= word {
            bitmap.resize(word + 1, 0);
        }
        bitmap[word] |= 1 << (number % 32);
    }
    bitmap
}

/// What can be told or set at all.
fn supported() -> bitmap4 {
    bitmap_of(KNOWN.iter().map(|(number, _, _)| *number))
}

/// What can be set with an exclusive create: its verifier is kept in the times.
fn set_with_exclusive_create() -> bitmap4 {
    let settable = KNOWN
        .iter()
        .filter(|(_, good_for, _)| *good_for == Use::Both);
    bitmap_of(settable.map(|(number, _, _)| *number))
}

/// Refuses to tell what can only be set.
pub(super) fn check_told(asked: &bitmap4) -> Result<(), nfsstat4> {
    let is_wrong = |number| known(number) == Some(Use::Set);
    match numbers(asked).any(is_wrong) {
        true => Err(nfsstat4::NFS4ERR_INVAL),
        false => Ok(()),
    }
}

/// The room of the whole file system has to be known for these.
pub(super) fn needs_space(asked: &bitmap4) -> bool {
    OF_SPACE.iter().any(|number| has(asked, *number))
}

/// More than an entry of a listing says: attributes of the inode itself.
pub(super) fn needs_inode(asked: &bitmap4) -> bool {
    let of_entry = [FATTR4_FILEID, FATTR4_FILEHANDLE, FATTR4_RDATTR_ERROR];
    numbers(asked).any(|number| known(number).is_some() && !of_entry.contains(&number))
}

/// Bytes that a `fattr4` of these attributes takes at most.
pub(super) fn bytes_max(asked: &bitmap4) -> usize {
    let told = KNOWN.iter().filter(|(number, _, _)| has(asked, *number));
    4 + 3 * 4 + 4 + told.map(|(_, _, bytes)| bytes).sum::<usize>()
}

/// A number that is another one after every change: by the time of the last one, and what the name space counts.
pub(super) fn change_of(attr: &Attr) -> changeid4 {
    let ctime = attr.ctime.unwrap_or_default();
    let nanos = ctime.seconds.wrapping_mul(1_000_000_000);
    let nanos = nanos.wrapping_add(i64::from(ctime.nanos));
    (nanos as u64).wrapping_add(attr.change)
}

fn type_of(kind: FileKind) -> nfs_ftype4 {
    match kind {
        FileKind::Directory => nfs_ftype4::NF4DIR,
        FileKind::Symlink => nfs_ftype4::NF4LNK,
        FileKind::Fifo => nfs_ftype4::NF4FIFO,
        FileKind::Socket => nfs_ftype4::NF4SOCK,
        FileKind::CharDevice => nfs_ftype4::NF4CHR,
        FileKind::BlockDevice => nfs_ftype4::NF4BLK,
        FileKind::Regular | FileKind::Unspecified => nfs_ftype4::NF4REG,
    }
}

fn time_of(time: Option<&Time>) -> nfstime4 {
    let time = time.copied().unwrap_or_default();
    nfstime4 {
        seconds: time.seconds,
        nseconds: time.nanos,
    }
}

/// What a class of users may do, as a mask of an access control entry.
fn mask_of(bits: u32, is_directory: bool) -> acemask4 {
    let mut mask = 0;
    if bits & 4 != 0 {
        mask |= ACE4_READ_DATA;
    }
    if bits & 2 != 0 {
        mask |= ACE4_WRITE_DATA | ACE4_APPEND_DATA;
        if is_directory {
            mask |= ACE4_DELETE_CHILD;
        }
    }
    if bits & 1 != 0 {
        mask |= ACE4_EXECUTE;
    }
    mask
}

/// The list that says what a mode says (RFC 8881, 6.4.1.1): each class has just its own bits, so that what a class
/// lacks is denied to it before a wider one is allowed it.
fn acl_of(attr: &Attr) -> Vec<nfsace4> {
    let is_directory = attr.kind() == FileKind::Directory;
    let class = |shift: u32| mask_of(attr.mode >> shift & 7, is_directory);
    let (owner, group, others) = (class(6), class(3), class(0));
    let always = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
    let of_owner = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL;
    let ace = |r#type, flag, access_mask, who: &'static str| nfsace4 {
        r#type,
        flag,
        access_mask,
        who: who.into(),
    };
    let allow = |flag, mask, who| ace(ACE4_ACCESS_ALLOWED_ACE_TYPE, flag, mask, who);
    let deny = |flag, mask, who| ace(ACE4_ACCESS_DENIED_ACE_TYPE, flag, mask, who);
    let mut list = vec![
        deny(0, (group | others) & !owner, "OWNER@"),
        allow(0, owner | always | of_owner, "OWNER@"),
        deny(ACE4_IDENTIFIER_GROUP, others & !group, "GROUP@"),
        allow(ACE4_IDENTIFIER_GROUP, group | always, "GROUP@"),
        allow(0, others | always, "EVERYONE@"),
    ];
    list.retain(|ace| ace.access_mask != 0);
    list
}

/// What is told beside an inode.
pub(super) struct Beside {
    pub lease: Duration,
    /// Bytes of the largest file.
    pub reach: u64,
    /// If [`needs_space`].
    pub space: Option<Space>,
}

fn encode_value(number: u32, subject: &Subject, beside: &Beside, out: &mut Encoder) {
    let attr = &subject.attr;
    let space = beside.space.unwrap_or_default();
    match number {
        FATTR4_SUPPORTED_ATTRS => encode_bitmap(&supported(), out),
        FATTR4_SUPPATTR_EXCLCREAT => encode_bitmap(&set_with_exclusive_create(), out),
        FATTR4_TYPE => type_of(attr.kind()).encode(out),
        FATTR4_FH_EXPIRE_TYPE => out.u32(FH4_PERSISTENT),
        FATTR4_CHANGE => out.u64(change_of(attr)),
        FATTR4_SIZE => out.u64(attr.size),
        FATTR4_FSID => subject.fsid.encode(out),
        FATTR4_LEASE_TIME => out.u32(beside.lease.as_secs() as u32),
        FATTR4_RDATTR_ERROR => nfsstat4::NFS4_OK.encode(out),
        FATTR4_ACL => {
            let acl = acl_of(attr);
            out.vec(acl.len() as u32, &acl, |out, ace| ace.encode(out));
        }
        FATTR4_ACLSUPPORT => out.u32(ACL4_SUPPORT_ALLOW_ACL | ACL4_SUPPORT_DENY_ACL),
        FATTR4_LINK_SUPPORT
        | FATTR4_SYMLINK_SUPPORT
        | FATTR4_CANSETTIME
        | FATTR4_CASE_PRESERVING
        | FATTR4_CHOWN_RESTRICTED
        | FATTR4_HOMOGENEOUS
        | FATTR4_NO_TRUNC
        | FATTR4_XATTR_SUPPORT => out.bool(true),
        // One inode has a handle by each export that it is in.
        FATTR4_UNIQUE_HANDLES | FATTR4_NAMED_ATTR | FATTR4_CASE_INSENSITIVE => out.bool(false),
        FATTR4_FILEHANDLE => out.opaque(NFS4_FHSIZE, &subject.handle),
        FATTR4_FILEID => out.u64(attr.ino),
        FATTR4_FILES_AVAIL | FATTR4_FILES_FREE => out.u64(INODES_FREE),
        FATTR4_FILES_TOTAL => out.u64(space.inodes + INODES_FREE),
        FATTR4_MAXFILESIZE => out.u64(beside.reach),
        FATTR4_MAXLINK => out.u32(LINKS_MAX),
        FATTR4_MAXNAME => out.u32(super::names::NAME_MAX as u32),
        FATTR4_MAXREAD | FATTR4_MAXWRITE => out.u64(u64::from(TRANSFER_MAX)),
        FATTR4_MODE => out.u32(attr.mode),
        FATTR4_NUMLINKS => out.u32(attr.nlink),
        FATTR4_OWNER => out.opaque(NFS4_OPAQUE_LIMIT, &owners::shown(attr.uid)),
        FATTR4_OWNER_GROUP => out.opaque(NFS4_OPAQUE_LIMIT, &owners::shown(attr.gid)),
        FATTR4_RAWDEV => {
            let (major, minor) = device_numbers(attr.rdev);
            out.u32(major);
            out.u32(minor);
        }
        FATTR4_SPACE_AVAIL | FATTR4_SPACE_FREE => out.u64(space.free_bytes),
        FATTR4_SPACE_TOTAL => out.u64(space.total_bytes),
        FATTR4_SPACE_USED => out.u64(attr.allocated),
        FATTR4_TIME_ACCESS => time_of(attr.atime.as_ref()).encode(out),
        FATTR4_TIME_METADATA => time_of(attr.ctime.as_ref()).encode(out),
        FATTR4_TIME_MODIFY => time_of(attr.mtime.as_ref()).encode(out),
        FATTR4_TIME_DELTA => nfstime4 {
            seconds: 0,
            nseconds: 1,
        }
        .encode(out),
        FATTR4_MOUNTED_ON_FILEID => out.u64(subject.mounted_on),
        open_arguments::NUMBER => open_arguments::encode(out),
        _ => unreachable!("attribute {number} is not told"),
    }
}

fn encode_bitmap(bitmap: &bitmap4, out: &mut Encoder) {
    out.vec(u32::MAX, bitmap, |out, word| out.u32(*word));
}

/// Attributes as they are told: those of the ones asked for that are known.
pub(super) fn encode(asked: &bitmap4, subject: &Subject, beside: &Beside, out: &mut Encoder) {
    let is_told = |number: &u32| matches!(known(*number), Some(good_for) if good_for != Use::Set);
    let told = bitmap_of(numbers(asked).filter(is_told));
    encode_bitmap(&told, out);
    let length_at = out.gap();
    let before = out.len();
    for number in numbers(&told) {
        encode_value(number, subject, beside, out);
    }
    out.set_u32(length_at, (out.len() - before) as u32);
}

/// Why an entry of a listing has no attributes.
pub(super) fn encode_error(status: nfsstat4, out: &mut Encoder) {
    encode_bitmap(&bitmap_of([FATTR4_RDATTR_ERROR]), out);
    out.u32(4);
    status.encode(out);
}

/// Whether a client's attributes are these.
///
/// # Errors
/// ATTRNOTSUPP, INVAL.
pub(super) fn are(theirs: &fattr4, subject: &Subject, beside: &Beside) -> Result<bool, nfsstat4> {
    for number in numbers(&theirs.attrmask) {
        match known(number) {
            None => return Err(nfsstat4::NFS4ERR_ATTRNOTSUPP),
            Some(Use::Set) => return Err(nfsstat4::NFS4ERR_INVAL),
            Some(_) if number == FATTR4_RDATTR_ERROR => return Err(nfsstat4::NFS4ERR_INVAL),
            Some(_) => {}
        }
    }
    let mut ours = Encoder::default();
    for number in numbers(&theirs.attrmask) {
        encode_value(number, subject, beside, &mut ours);
    }
    Ok(ours.joined() == theirs.attr_vals)
}

fn set_time(input: &mut Decoder) -> Result<SetTime, nfsstat4> {
    match settime4::decode(input) {
        Ok(settime4::SET_TO_CLIENT_TIME4(time)) if fits_time(time.nseconds) => {
            Ok(SetTime::At(Time {
                seconds: time.seconds,
                nanos: time.nseconds,
            }))
        }
        Ok(settime4::SET_TO_CLIENT_TIME4(_)) => Err(nfsstat4::NFS4ERR_INVAL),
        Ok(settime4::default(_)) => Ok(SetTime::Now),
        Err(_) => Err(nfsstat4::NFS4ERR_BADXDR),
    }
}

/// What a client sets.
///
/// # Errors
/// ATTRNOTSUPP, BADXDR, BADOWNER; INVAL: it can only be told, or is no such value.
pub(super) fn set_of(theirs: &fattr4) -> Result<SetAttr, nfsstat4> {
    let mut input = Decoder::new(theirs.attr_vals.clone());
    let mut set = SetAttr::default();
    let bad = |_| nfsstat4::NFS4ERR_BADXDR;
    for number in numbers(&theirs.attrmask) {
        match number {
            FATTR4_SIZE => set.size = Some(input.u64().map_err(bad)?),
            FATTR4_MODE => {
                let mode = input.u32().map_err(bad)?;
                if mode > 0o7777 {
                    return Err(nfsstat4::NFS4ERR_INVAL);
                }
                set.mode = Some(mode);
            }
            FATTR4_OWNER => {
                let owner = input.opaque(NFS4_OPAQUE_LIMIT).map_err(bad)?;
                set.uid = Some(owners::read(&owner)?);
            }
            FATTR4_OWNER_GROUP => {
                let group = input.opaque(NFS4_OPAQUE_LIMIT).map_err(bad)?;
                set.gid = Some(owners::read(&group)?);
            }
            FATTR4_TIME_ACCESS_SET => set.atime = Some(set_time(&mut input)?),
            FATTR4_TIME_MODIFY_SET => set.mtime = Some(set_time(&mut input)?),
            // The list follows from the mode, and cannot be set itself.
            FATTR4_ACL => return Err(nfsstat4::NFS4ERR_ATTRNOTSUPP),
            other if known(other).is_some() => return Err(nfsstat4::NFS4ERR_INVAL),
            _ => return Err(nfsstat4::NFS4ERR_ATTRNOTSUPP),
        }
    }
    input.finish().map_err(bad)?;
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn subject() -> Subject {
        Subject {
            attr: Attr {
                ino: u64::MAX,
                mode: 0o7777,
                uid: u32::MAX,
                gid: u32::MAX,
                kind: FileKind::Directory as i32,
                ..Attr::default()
            },
            handle: Bytes::from_static(&[7; FILE_HANDLE_BYTES]),
            fsid: fsid4 { major: 1, minor: 2 },
            mounted_on: 3,
        }
    }

    const BESIDE: Beside = Beside {
        lease: Duration::from_secs(45),
        reach: 15 << 40,
        space: None,
    };

    #[test]
    fn each_attribute_that_is_told_is_told_and_fits_its_bound() {
        for (number, good_for, bytes) in KNOWN {
            let asked = bitmap_of([number]);
            assert_eq!(numbers(&asked).collect::<Vec<_>>(), [number]);
            assert_eq!(check_told(&asked).is_err(), good_for == Use::Set);
            let mut out = Encoder::default();
            encode(&asked, &subject(), &BESIDE, &mut out);
            let told = fattr4::from_bytes(out.joined()).unwrap();
            assert!(told.attr_vals.len() <= bytes, "attribute {number}");
            if good_for == Use::Set {
                assert!(told.attrmask.is_empty());
                continue;
            }
            assert_eq!(told.attrmask, asked);
            let same = are(&told, &subject(), &BESIDE);
            assert_eq!(same.is_ok(), number != FATTR4_RDATTR_ERROR);
            assert!(same.is_err() || same == Ok(true));
        }
        let mut out = Encoder::default();
        encode(&supported(), &subject(), &BESIDE, &mut out);
        assert!(out.len() <= bytes_max(&supported()));
    }

    #[test]
    fn all_that_is_set_is_read_and_all_else_refused() {
        let fattr = |numbers: &[u32], write: &dyn Fn(&mut Encoder)| {
            let mut out = Encoder::default();
            write(&mut out);
            fattr4 {
                attrmask: bitmap_of(numbers.iter().copied()),
                attr_vals: out.joined(),
            }
        };
        let all = fattr(
            &[
                FATTR4_SIZE,
                FATTR4_MODE,
                FATTR4_OWNER,
                FATTR4_TIME_MODIFY_SET,
            ],
            &|out| {
                out.u64(9);
                out.u32(0o640);
                out.opaque(99, &Bytes::from_static(b"12"));
                time_how4::SET_TO_SERVER_TIME4.encode(out);
            },
        );
        let set = set_of(&all).unwrap();
        assert_eq!(
            (set.size, set.mode, set.uid),
            (Some(9), Some(0o640), Some(12))
        );
        assert_eq!((set.gid, set.mtime), (None, Some(SetTime::Now)));
        let of = |number, value: u32| set_of(&fattr(&[number], &|out| out.u32(value)));
        assert_eq!(of(FATTR4_MODE, 0o10000), Err(nfsstat4::NFS4ERR_INVAL));
        assert_eq!(of(FATTR4_SIZE, 1), Err(nfsstat4::NFS4ERR_BADXDR));
        assert_eq!(of(FATTR4_TYPE, 1), Err(nfsstat4::NFS4ERR_INVAL));
        assert_eq!(of(FATTR4_ACL, 0), Err(nfsstat4::NFS4ERR_ATTRNOTSUPP));
        assert_eq!(of(FATTR4_SYSTEM, 0), Err(nfsstat4::NFS4ERR_ATTRNOTSUPP));
        assert_eq!(of(100, 0), Err(nfsstat4::NFS4ERR_ATTRNOTSUPP));
    }

    #[test]
    fn a_list_says_what_the_mode_says() {
        // By the rule of RFC 8881, 6.2.1: the first entry that names a bit decides it.
        let decides = |list: &[nfsace4], whos: &[&str], bit: u32| {
            let mut fits = list
                .iter()
                .filter(|ace| whos.iter().any(|who| ace.who == who.as_bytes()));
            let first = fits.find(|ace| ace.access_mask & bit != 0);
            first.is_some_and(|ace| ace.r#type == ACE4_ACCESS_ALLOWED_ACE_TYPE)
        };
        for mode in 0..0o1000 {
            let attr = Attr {
                mode,
                ..Attr::default()
            };
            let list = acl_of(&attr);
            let classes: [(&[&str], u32); 3] = [
                (&["OWNER@", "EVERYONE@"], 6),
                (&["GROUP@", "EVERYONE@"], 3),
                (&["EVERYONE@"], 0),
            ];
            for (whos, shift) in classes {
                for (bit, mask) in [(4, ACE4_READ_DATA), (2, ACE4_WRITE_DATA), (1, ACE4_EXECUTE)] {
                    let may = mode >> shift & bit != 0;
                    assert_eq!(decides(&list, whos, mask), may, "{mode:o} {whos:?}");
                }
            }
        }
    }
}
