//! Filehandles and names: PUTFH to RESTOREFH, LOOKUP, LOOKUPP, READLINK, CREATE, REMOVE, RENAME, LINK, SECINFO.

use super::attributes::{bitmap_of, change_of, set_of};
use super::compound::Compound;
use super::place::{Place, check_name};
use super::status::Result;
use crate::attributes::rdev_of;
use crate::caller::Object;
use crate::delegations::Changing;
use crate::inodes;
use weft_client::{Errno, FileKind, RenameFlags};
use weft_xdr::nfs4::*;
use weft_xdr::rpc::auth_flavor;
use weft_xdr::{Encoder, Xdr};

/// Bytes of a name, as everywhere in the name space.
pub(super) const NAME_MAX: usize = 255;

/// What may be used to get at anything here.
const FLAVORS: [auth_flavor; 2] = [auth_flavor::AUTH_SYS, auth_flavor::AUTH_NONE];

impl Compound {
    pub(super) async fn putfh(&mut self, args: PUTFH4args) -> Result<()> {
        let place = self.caller.place(args.object).await?;
        self.go_to(place);
        Ok(())
    }

    pub(super) async fn putrootfh(&mut self) -> Result<()> {
        let place = self.caller.root().await?;
        self.go_to(place);
        Ok(())
    }

    pub(super) fn getfh(&mut self) -> Result<()> {
        let object = self.caller.handle_of(self.place()?);
        GETFH4resok { object }.encode(&mut self.out);
        Ok(())
    }

    pub(super) fn savefh(&mut self) -> Result<()> {
        self.saved = Some(self.place()?.clone());
        self.saved_id = self.current_id.clone();
        Ok(())
    }

    pub(super) fn restorefh(&mut self) -> Result<()> {
        let saved = self.saved.clone();
        // RFC 8881, 15.1.9.12: NOFILEHANDLE is for the current one.
        self.current = Some(saved.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)?);
        self.current_id = self.saved_id.clone();
        Ok(())
    }

    /// What a name is looked up in is a directory.
    async fn check_directory(&self) -> Result<()> {
        let Place::Object(object) = self.place()? else {
            return Ok(());
        };
        let known = self.caller.shared.client.getattr(object.ino).await?;
        match known.attr.kind() {
            FileKind::Directory => Ok(()),
            FileKind::Symlink => Err(nfsstat4::NFS4ERR_SYMLINK.into()),
            _ => Err(nfsstat4::NFS4ERR_NOTDIR.into()),
        }
    }

    pub(super) async fn lookup(&mut self, args: LOOKUP4args) -> Result<()> {
        self.check_directory().await?;
        let place = self.caller.below(self.place()?, &args.objname).await?;
        self.go_to(place);
        Ok(())
    }

    pub(super) async fn lookupp(&mut self) -> Result<()> {
        self.check_directory().await?;
        let place = self.caller.above(self.place()?).await?;
        self.go_to(place);
        Ok(())
    }

    pub(super) async fn readlink(&mut self) -> Result<()> {
        let object = self.object(nfsstat4::NFS4ERR_WRONG_TYPE)?;
        let client = &self.caller.shared.client;
        let link = match client.readlink(object.ino).await {
            Err(Errno(libc::EINVAL)) => return Err(nfsstat4::NFS4ERR_WRONG_TYPE.into()),
            link => link?,
        };
        READLINK4resok { link }.encode(&mut self.out);
        Ok(())
    }

    /// What a name stands for is about to be changed: other clients give it back.
    async fn change(&self, dir: &Object, name: &[u8]) -> Result<Option<Changing>> {
        let but = Some(self.client()?);
        Ok(inodes::change(&self.caller, dir, name, but).await?)
    }

    /// Where the changes of an inode stand.
    pub(super) async fn change_at(&self, ino: u64) -> changeid4 {
        let known = self.caller.shared.client.getattr(ino).await;
        known.map_or(0, |known| change_of(&known.attr))
    }

    /// An inode that was changed since its changes stood there. Others may have changed it meanwhile.
    pub(super) async fn change_info(&self, ino: u64, before: changeid4) -> change_info4 {
        change_info4 {
            atomic: false,
            before,
            after: self.change_at(ino).await,
        }
    }

    pub(super) async fn create(&mut self, args: CREATE4args) -> Result<()> {
        self.check_directory().await?;
        let dir = self.changed()?;
        let (name, client) = (&args.objname, self.caller.shared.client.clone());
        check_name(name)?;
        let before = self.change_at(dir.ino).await;
        let mut set = set_of(&args.createattrs)?;
        let mode = set.mode.take();
        if set.size.take().is_some() {
            return Err(nfsstat4::NFS4ERR_INVAL.into());
        }
        let (cred, node) = (dir.cred(), async |kind, device: specdata4| {
            let rdev = rdev_of((device.specdata1, device.specdata2));
            let rdev = rdev.ok_or(nfsstat4::NFS4ERR_INVAL)?;
            let mode = mode.unwrap_or_default();
            let made = client.mknod(dir.cred(), dir.ino, name, kind, mode, rdev);
            Result::Ok(made.await?)
        });
        let none = specdata4 {
            specdata1: 0,
            specdata2: 0,
        };
        let made = match args.objtype {
            createtype4::NF4DIR => {
                let mode = mode.unwrap_or_default();
                client.mkdir(cred, dir.ino, name, mode).await?
            }
            // Everybody may do everything with a symbolic link: its mode means nothing.
            createtype4::NF4LNK(target) => client.symlink(cred, dir.ino, name, &target).await?,
            createtype4::NF4BLK(device) => node(FileKind::BlockDevice, device).await?,
            createtype4::NF4CHR(device) => node(FileKind::CharDevice, device).await?,
            createtype4::NF4SOCK => node(FileKind::Socket, none).await?,
            createtype4::NF4FIFO => node(FileKind::Fifo, none).await?,
            createtype4::default(_) => return Err(nfsstat4::NFS4ERR_BADTYPE.into()),
        };
        let object = Object {
            ino: made.attr.ino,
            ..dir.clone()
        };
        if let Some(rest) = inodes::rest_of(&made.attr, set) {
            inodes::set(&self.caller, &object, rest, false).await?;
        }
        let cinfo = self.change_info(dir.ino, before).await;
        CREATE4resok {
            cinfo,
            attrset: args.createattrs.attrmask,
        }
        .encode(&mut self.out);
        self.go_to(Place::Object(object));
        Ok(())
    }

    pub(super) async fn remove(&mut self, args: REMOVE4args) -> Result<()> {
        self.check_directory().await?;
        let dir = self.changed()?;
        check_name(&args.target)?;
        let _changing = self.change(&dir, &args.target).await?;
        let before = self.change_at(dir.ino).await;
        let client = &self.caller.shared.client;
        match client.unlink(dir.cred(), dir.ino, &args.target).await {
            Err(Errno(libc::EISDIR)) => client.rmdir(dir.cred(), dir.ino, &args.target).await?,
            removed => removed?,
        }
        let cinfo = self.change_info(dir.ino, before).await;
        REMOVE4resok { cinfo }.encode(&mut self.out);
        Ok(())
    }

    pub(super) async fn rename(&mut self, args: RENAME4args) -> Result<()> {
        let (from, to) = (self.saved_object()?, self.changed()?);
        from.check_writable()?;
        check_name(&args.oldname)?;
        check_name(&args.newname)?;
        beside(&from, &to)?;
        let client = self.caller.shared.client.clone();
        let _changing = (
            self.change(&from, &args.oldname).await?,
            self.change(&to, &args.newname).await?,
        );
        let before = (self.change_at(from.ino).await, self.change_at(to.ino).await);
        let flags = RenameFlags::default();
        let cred = to.cred();
        let renamed = client
            .rename(cred, from.ino, &args.oldname, to.ino, &args.newname, flags)
            .await;
        match renamed {
            // RFC 8881, 18.26.3: what is in the way and of another kind is EXIST.
            Err(Errno(libc::EISDIR | libc::ENOTDIR)) if self.are_directories(&from, &to).await => {
                return Err(nfsstat4::NFS4ERR_EXIST.into());
            }
            Err(Errno(libc::ENOTEMPTY)) => return Err(nfsstat4::NFS4ERR_EXIST.into()),
            renamed => renamed?,
        }
        let source_cinfo = self.change_info(from.ino, before.0).await;
        let target_cinfo = self.change_info(to.ino, before.1).await;
        RENAME4resok {
            source_cinfo,
            target_cinfo,
        }
        .encode(&mut self.out);
        Ok(())
    }

    async fn are_directories(&self, one: &Object, other: &Object) -> bool {
        for object in [one, other] {
            let known = self.caller.shared.client.getattr(object.ino).await;
            if !known.is_ok_and(|known| known.attr.kind() == FileKind::Directory) {
                return false;
            }
        }
        true
    }

    pub(super) async fn link(&mut self, args: LINK4args) -> Result<()> {
        self.check_directory().await?;
        let (file, dir) = (self.saved_object()?, self.changed()?);
        check_name(&args.newname)?;
        beside(&file, &dir)?;
        let client = &self.caller.shared.client;
        if client.getattr(file.ino).await?.attr.kind() == FileKind::Directory {
            return Err(nfsstat4::NFS4ERR_ISDIR.into());
        }
        let delegations = &self.caller.shared.delegations;
        let _changing = delegations.change(file.ino, Some(self.client()?)).await?;
        let before = self.change_at(dir.ino).await;
        client
            .link(dir.cred(), file.ino, dir.ino, &args.newname)
            .await?;
        let cinfo = self.change_info(dir.ino, before).await;
        LINK4resok { cinfo }.encode(&mut self.out);
        Ok(())
    }

    fn encode_flavors(out: &mut Encoder) {
        let all: Vec<secinfo4> = FLAVORS.map(|it| secinfo4::default(it as u32)).into();
        out.vec(all.len() as u32, &all, |out, it| it.encode(out));
    }

    pub(super) async fn secinfo(&mut self, args: SECINFO4args) -> Result<()> {
        self.check_directory().await?;
        self.caller.below(self.place()?, &args.name).await?;
        Compound::encode_flavors(&mut self.out);
        // RFC 8881, 2.6.3.1.1.8: the filehandle is used up.
        self.current = None;
        Ok(())
    }

    pub(super) async fn secinfo_no_name(&mut self, style: secinfo_style4) -> Result<()> {
        let place = self.place()?;
        if style == secinfo_style4::SECINFO_STYLE4_PARENT {
            self.check_directory().await?;
            self.caller.above(place).await?;
        }
        Compound::encode_flavors(&mut self.out);
        self.current = None;
        Ok(())
    }
}

/// Two objects of one export.
fn beside(one: &Object, other: &Object) -> Result<()> {
    match one.export == other.export {
        true => Ok(()),
        false => Err(nfsstat4::NFS4ERR_XDEV.into()),
    }
}

/// The attributes that hold an exclusive create's verifier.
pub(super) fn verifier_attributes() -> bitmap4 {
    bitmap_of([FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET])
}
