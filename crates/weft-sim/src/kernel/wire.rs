//! The bodies of answers, taken apart (include/uapi/linux/fuse.h).

use bytes::{Buf, Bytes};
use weft_client::Errno;

/// fuse_attr: what of it is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attr {
    pub ino: u64,
    pub size: u64,
    pub mode: u32,
    pub nlink: u32,
}

/// fuse_entry_out. Node 0: the name is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub node: u64,
    pub entry_valid: u64,
    pub attr_valid: u64,
    pub attr: Attr,
}

/// fuse_open_out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub fh: u64,
    pub flags: u32,
}

/// One of a listing; with what READDIRPLUS tells of it.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub ino: u64,
    pub cookie: u64,
    pub kind: u32,
    pub name: Vec<u8>,
    pub entry: Option<Entry>,
}

const ATTR: usize = 88;
const ENTRY: usize = 40 + ATTR;
const DIRENT: usize = 24;

/// An answer that is too short: the kernel makes it EIO.
fn long_enough(body: &Bytes, length: usize) -> Result<(), Errno> {
    match body.len() >= length {
        true => Ok(()),
        false => Err(Errno(libc::EIO)),
    }
}

fn take_attr(body: &mut Bytes) -> Attr {
    let (ino, size) = (body.get_u64_ne(), body.get_u64_ne());
    // Blocks and times.
    body.advance(4 * 8 + 3 * 4);
    let (mode, nlink) = (body.get_u32_ne(), body.get_u32_ne());
    body.advance(5 * 4);
    Attr {
        ino,
        size,
        mode,
        nlink,
    }
}

fn take_entry(body: &mut Bytes) -> Entry {
    let node = body.get_u64_ne();
    body.advance(8);
    let (entry_valid, attr_valid) = (body.get_u64_ne(), body.get_u64_ne());
    body.advance(8);
    let attr = take_attr(body);
    Entry {
        node,
        entry_valid,
        attr_valid,
        attr,
    }
}

fn take_open(body: &mut Bytes) -> Opened {
    Opened {
        fh: body.get_u64_ne(),
        flags: body.get_u32_ne(),
    }
}

/// The flags of INIT's answer.
pub(super) fn init_flags(mut body: Bytes) -> Result<u64, Errno> {
    long_enough(&body, 64)?;
    body.advance(12);
    let low = body.get_u32_ne();
    body.advance(16);
    Ok(u64::from(low) | u64::from(body.get_u32_ne()) << 32)
}

pub(super) fn entry(mut body: Bytes) -> Result<Entry, Errno> {
    long_enough(&body, ENTRY)?;
    Ok(take_entry(&mut body))
}

/// Attributes, and for how many seconds they hold.
pub(super) fn attr(mut body: Bytes) -> Result<(Attr, u64), Errno> {
    long_enough(&body, 16 + ATTR)?;
    let valid = body.get_u64_ne();
    body.advance(8);
    Ok((take_attr(&mut body), valid))
}

pub(super) fn open(mut body: Bytes) -> Result<Opened, Errno> {
    long_enough(&body, 16)?;
    Ok(take_open(&mut body))
}

pub(super) fn create(mut body: Bytes) -> Result<(Entry, Opened), Errno> {
    long_enough(&body, ENTRY + 16)?;
    let entry = take_entry(&mut body);
    Ok((entry, take_open(&mut body)))
}

/// Bytes that a WRITE has taken.
pub(super) fn written(mut body: Bytes) -> Result<usize, Errno> {
    long_enough(&body, 8)?;
    Ok(body.get_u32_ne() as usize)
}

pub(super) fn listing(mut body: Bytes, plus: bool) -> Result<Vec<Listed>, Errno> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let before = if plus { ENTRY } else { 0 };
        long_enough(&body, before + DIRENT)?;
        let entry = plus.then(|| take_entry(&mut body));
        let (ino, cookie) = (body.get_u64_ne(), body.get_u64_ne());
        let (length, kind) = (body.get_u32_ne() as usize, body.get_u32_ne());
        let padded = length.next_multiple_of(8);
        long_enough(&body, padded)?;
        let name = body.split_to(padded)[..length].to_vec();
        all.push(Listed {
            ino,
            cookie,
            kind,
            name,
            entry,
        });
    }
    Ok(all)
}
