//! NFSv3 (RFC 1813): which procedure is which method.

use crate::answer::{Caller, answer};
use futures_util::future::LocalBoxFuture;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_env::Env;
use weft_oncrpc::{Call, Connection, Payload, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::nfs3::*;

/// Makes the trait and the table of one list, so that no procedure is in one and not in the other.
macro_rules! procedures {
    ($($about:literal $procedure:ident $method:ident $arguments:ident $results:ident)*) => {
        /// What serves NFSv3. Arguments are decoded; handles and names in them are as the client sent them.
        ///
        /// A future that is ready when it is first asked is answered at once, on the connection's own task; any other
        /// goes on in a task of its own.
        pub trait Procedures3 {
            $(
                #[doc = $about]
                fn $method(&self, caller: Caller, arguments: $arguments) -> LocalBoxFuture<'static, $results>;
            )*
        }

        fn dispatch(served: &Rc<dyn Procedures3>, env: &Env, caller: Caller, call: Call, replier: Replier) {
            match call.procedure {
                NFSPROC3_NULL::NUMBER => replier.serve::<NFSPROC3_NULL>(call, |()| ()),
                $(
                    $procedure::NUMBER => answer::<$procedure>(env, call, replier, |arguments| {
                        served.$method(caller, arguments)
                    }),
                )*
                _ => replier.refuse(Refusal::Procedure),
            }
        }
    };
}

procedures! {
    "Attributes." NFSPROC3_GETATTR getattr GETATTR3args GETATTR3res
    "Changes attributes." NFSPROC3_SETATTR setattr SETATTR3args SETATTR3res
    "Looks a name up." NFSPROC3_LOOKUP lookup LOOKUP3args LOOKUP3res
    "What the caller may do." NFSPROC3_ACCESS access ACCESS3args ACCESS3res
    "A symbolic link's content." NFSPROC3_READLINK readlink READLINK3args READLINK3res
    "Reads." NFSPROC3_READ read READ3args READ3res
    "Writes; the data lie in a buffer of their own if they are long." NFSPROC3_WRITE write WRITE3args WRITE3res
    "Makes a file." NFSPROC3_CREATE create CREATE3args CREATE3res
    "Makes a directory." NFSPROC3_MKDIR mkdir MKDIR3args MKDIR3res
    "Makes a symbolic link." NFSPROC3_SYMLINK symlink SYMLINK3args SYMLINK3res
    "Makes a device, a socket or a pipe." NFSPROC3_MKNOD mknod MKNOD3args MKNOD3res
    "Removes what is no directory." NFSPROC3_REMOVE remove REMOVE3args REMOVE3res
    "Removes a directory." NFSPROC3_RMDIR rmdir RMDIR3args RMDIR3res
    "Gives another name." NFSPROC3_RENAME rename RENAME3args RENAME3res
    "Gives one name more." NFSPROC3_LINK link LINK3args LINK3res
    "Names in a directory." NFSPROC3_READDIR readdir READDIR3args READDIR3res
    "Names with attributes and handles." NFSPROC3_READDIRPLUS readdirplus READDIRPLUS3args READDIRPLUS3res
    "How much room there is." NFSPROC3_FSSTAT fsstat FSSTAT3args FSSTAT3res
    "What the server prefers." NFSPROC3_FSINFO fsinfo FSINFO3args FSINFO3res
    "What POSIX asks about names and links." NFSPROC3_PATHCONF pathconf PATHCONF3args PATHCONF3res
    "Makes what was written durable." NFSPROC3_COMMIT commit COMMIT3args COMMIT3res
}

/// NFSv3 as a program.
pub struct Nfs3 {
    env: Env,
    served: Rc<dyn Procedures3>,
}

impl Nfs3 {
    /// In front of `served`.
    pub fn new(env: &Env, served: Rc<dyn Procedures3>) -> Nfs3 {
        Nfs3 {
            env: env.clone(),
            served,
        }
    }
}

impl Program for Nfs3 {
    fn number(&self) -> u32 {
        NFS_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        NFS_V3..=NFS_V3
    }

    fn payload(&self, _version: u32, procedure: u32, arguments: &[u8]) -> Payload {
        match procedure {
            NFSPROC3_WRITE::NUMBER => written(arguments),
            _ => Payload::Nowhere,
        }
    }

    fn call(&self, connection: &Connection, mut call: Call, replier: Replier) {
        let caller = Caller::of(connection, &mut call);
        dispatch(&self.served, &self.env, caller, call, replier);
    }
}

/// Where the data of a WRITE are: behind the handle, the offset (8), the count (4), how stable (4) and their length.
fn written(arguments: &[u8]) -> Payload {
    let word = |at: usize| {
        let bytes = arguments.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*bytes))
    };
    let Some(handle) = word(0) else {
        return Payload::More;
    };
    if handle > NFS3_FHSIZE {
        return Payload::Nowhere;
    }
    let at = 4 + (handle as usize).next_multiple_of(4) + 16;
    match word(at) {
        Some(length) => Payload::At {
            start: at + 4,
            length: length as usize,
        },
        None => Payload::More,
    }
}
