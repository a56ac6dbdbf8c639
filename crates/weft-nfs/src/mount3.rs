//! MOUNT, version 3 (RFC 1813, appendix I): a path becomes the first handle.

use crate::answer::Caller;
use bytes::Bytes;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_oncrpc::{Call, Connection, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::mount3::*;
use weft_xdr::rpc::auth_flavor;

/// What `showmount -e` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The path that clients mount.
    pub path: Bytes,
    /// Who may; nobody named: everybody.
    pub groups: Vec<Bytes>,
}

/// What is exported to whom.
pub trait Exports {
    /// The handle of a path, for this caller.
    ///
    /// # Errors
    /// As MOUNT has them: MNT3ERR_NOENT, MNT3ERR_ACCES.
    fn mount(&self, caller: &Caller, path: &[u8]) -> Result<Bytes, mountstat3>;

    /// Everything that is exported. Paths and names must not be longer than the protocol allows
    /// ([`MNTPATHLEN`], [`MNTNAMLEN`]): longer ones are left out.
    fn list(&self) -> Vec<Export>;
}

/// MOUNT as a program. Who has mounted what is not kept: it was never more than a guess, and nothing depends on it.
pub struct Mount3 {
    exports: Rc<dyn Exports>,
}

impl Mount3 {
    /// In front of `exports`.
    pub fn new(exports: Rc<dyn Exports>) -> Mount3 {
        Mount3 { exports }
    }

    fn mount(&self, caller: &Caller, path: &Bytes) -> mountres3 {
        match self.exports.mount(caller, path) {
            Ok(fhandle) => mountres3::MNT3_OK(mountres3_ok {
                fhandle,
                auth_flavors: vec![auth_flavor::AUTH_SYS as i32],
            }),
            Err(why) => mountres3::default(why),
        }
    }

    fn list(&self) -> exports {
        let fits = |bytes: &Bytes, bound: u32| bytes.len() <= bound as usize;
        let mut shown = Vec::new();
        for export in self.exports.list() {
            if !fits(&export.path, MNTPATHLEN) {
                continue;
            }
            let groups = export.groups.into_iter();
            let ex_groups = groups
                .filter(|name| fits(name, MNTNAMLEN))
                .map(|gr_name| groupnode { gr_name })
                .collect();
            let ex_dir = export.path;
            shown.push(exportnode { ex_dir, ex_groups });
        }
        shown
    }
}

impl Program for Mount3 {
    fn number(&self) -> u32 {
        MOUNT_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        MOUNT_V3..=MOUNT_V3
    }

    fn call(&self, connection: &Connection, mut call: Call, replier: Replier) {
        let caller = Caller::of(connection, &mut call);
        match call.procedure {
            MOUNTPROC3_NULL::NUMBER => replier.serve::<MOUNTPROC3_NULL>(call, |()| ()),
            MOUNTPROC3_MNT::NUMBER => {
                replier.serve::<MOUNTPROC3_MNT>(call, |path| self.mount(&caller, &path));
            }
            MOUNTPROC3_DUMP::NUMBER => replier.serve::<MOUNTPROC3_DUMP>(call, |()| Vec::new()),
            MOUNTPROC3_UMNT::NUMBER => replier.serve::<MOUNTPROC3_UMNT>(call, |_path| ()),
            MOUNTPROC3_UMNTALL::NUMBER => replier.serve::<MOUNTPROC3_UMNTALL>(call, |()| ()),
            MOUNTPROC3_EXPORT::NUMBER => {
                replier.serve::<MOUNTPROC3_EXPORT>(call, |()| self.list());
            }
            _ => replier.refuse(Refusal::Procedure),
        }
    }
}
