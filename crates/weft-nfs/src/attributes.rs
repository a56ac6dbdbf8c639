//! Attributes, between the client library's words and NFS's.

use weft_client::{Attr, FileKind, SetAttr, SetTime, Time};
use weft_xdr::nfs3::{fattr3, ftype3, nfstime3, sattr3, set_atime, set_mtime, specdata3, time_how};

/// Device numbers, major and minor, as FUSE and the name space have them: the kernel's own packing.
pub(crate) fn device_numbers(rdev: u32) -> (u32, u32) {
    let minor = (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00);
    ((rdev >> 8) & 0xfff, minor)
}

fn device_of(rdev: u32) -> specdata3 {
    let (specdata1, specdata2) = device_numbers(rdev);
    specdata3 {
        specdata1,
        specdata2,
    }
}

/// The other way round. None: the numbers are too large.
pub(crate) fn rdev_of((major, minor): (u32, u32)) -> Option<u32> {
    let fits = major < 1 << 12 && minor < 1 << 20;
    fits.then_some((minor & 0xff) | (major << 8) | ((minor & 0xf_ff00) << 12))
}

/// Seconds before 1970 or after 2106 are the nearest that can be said.
fn time_of(time: Option<&Time>) -> nfstime3 {
    let time = time.copied().unwrap_or_default();
    nfstime3 {
        seconds: u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX),
        nseconds: time.nanos,
    }
}

pub(crate) fn type_of(kind: FileKind) -> ftype3 {
    match kind {
        FileKind::Directory => ftype3::NF3DIR,
        FileKind::Symlink => ftype3::NF3LNK,
        FileKind::Fifo => ftype3::NF3FIFO,
        FileKind::Socket => ftype3::NF3SOCK,
        FileKind::CharDevice => ftype3::NF3CHR,
        FileKind::BlockDevice => ftype3::NF3BLK,
        FileKind::Regular | FileKind::Unspecified => ftype3::NF3REG,
    }
}

/// Attributes as NFS tells them.
pub(crate) fn fattr(attr: &Attr, fsid: u64) -> fattr3 {
    fattr3 {
        r#type: type_of(attr.kind()),
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        used: attr.allocated,
        rdev: device_of(attr.rdev),
        fsid,
        fileid: attr.ino,
        atime: time_of(attr.atime.as_ref()),
        mtime: time_of(attr.mtime.as_ref()),
        ctime: time_of(attr.ctime.as_ref()),
    }
}

/// Nanoseconds are those of one second.
pub(crate) fn fits_time(nanos: u32) -> bool {
    nanos < 1_000_000_000
}

/// A time that a client sets. None: it is no time.
fn set_time(time: &nfstime3) -> Option<SetTime> {
    fits_time(time.nseconds).then_some(SetTime::At(Time {
        seconds: i64::from(time.seconds),
        nanos: time.nseconds,
    }))
}

/// What a client sets. None: it makes no sense.
pub(crate) fn set_of(set: &sattr3) -> Option<SetAttr> {
    let atime = match &set.atime {
        set_atime::SET_TO_CLIENT_TIME(time) => Some(set_time(time)?),
        set_atime::default(time_how::SET_TO_SERVER_TIME) => Some(SetTime::Now),
        set_atime::default(_) => None,
    };
    let mtime = match &set.mtime {
        set_mtime::SET_TO_CLIENT_TIME(time) => Some(set_time(time)?),
        set_mtime::default(time_how::SET_TO_SERVER_TIME) => Some(SetTime::Now),
        set_mtime::default(_) => None,
    };
    Some(SetAttr {
        mode: set.mode.map(|mode| mode & 0o7777),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime,
        mtime,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_times_are_the_same_there_and_back() {
        for (major, minor) in [(0, 0), (8, 1), (4095, 0xf_ffff), (1, 256), (259, 65_537)] {
            let device = specdata3 {
                specdata1: major,
                specdata2: minor,
            };
            let rdev = rdev_of((major, minor)).unwrap();
            // glibc's makedev, of numbers that fit into 32 bits.
            assert_eq!(u64::from(rdev), libc::makedev(major, minor));
            assert_eq!(device_of(rdev), device);
        }
        for (major, minor) in [(4096, 0), (0, 1 << 20)] {
            assert_eq!(rdev_of((major, minor)), None);
        }
        let time = |seconds, nanos| time_of(Some(&Time { seconds, nanos })).seconds;
        assert_eq!(time(-1, 5), 0);
        assert_eq!(time(1 << 40, 5), u32::MAX);
        let wrong = nfstime3 {
            seconds: 1,
            nseconds: 1_000_000_000,
        };
        assert_eq!(set_time(&wrong), None);
    }
}
