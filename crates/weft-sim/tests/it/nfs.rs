//! NFS gateways in a simulated cluster, and clients that speak NFS version 3 to them: what one gateway has answered
//! every other one shows, also when gateways die (`docs/protocols/gateway.md`).

mod escapes;

use crate::gates::{Gate, believed, cluster, export, user};
use crate::group::{Group, SECOND, in_world};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_nfs::{ExportSettings, Rule};
use weft_oncrpc::{Connection, Credential, Limits};
use weft_sim::World;
use weft_xdr::mount3::{MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, mountres3, mountstat3};
use weft_xdr::nfs3::*;
use weft_xdr::portmap2::{IPPROTO_TCP, PMAPPROC_GETPORT, mapping};
use weft_xdr::{Encoder, Procedure};

/// A client of one gateway.
struct Nfs {
    connection: Connection,
    credential: Credential,
}

impl Nfs {
    async fn to(world: &World, gate: &Gate, uid: u32) -> Nfs {
        let env = world.node("client").env();
        let address = &gate.settings.listen;
        let connecting = Connection::connect(&env, address, Limits::default(), Vec::new());
        Nfs {
            connection: connecting.await.unwrap(),
            credential: user(uid),
        }
    }

    fn of(&self, uid: u32) -> Nfs {
        Nfs {
            connection: self.connection.clone(),
            credential: user(uid),
        }
    }

    async fn call<P: Procedure>(&self, arguments: P::Arguments) -> P::Results {
        let call = self.connection.call::<P>(&self.credential, &arguments);
        call.await.unwrap()
    }

    async fn mount(&self, path: &str) -> Result<nfs_fh3, mountstat3> {
        match self.call::<MOUNTPROC3_MNT>(path.to_owned().into()).await {
            mountres3::MNT3_OK(mounted) => Ok(nfs_fh3 {
                data: mounted.fhandle,
            }),
            mountres3::default(why) => Err(why),
        }
    }

    async fn mkdir(&self, dir: &nfs_fh3, name: &str, mode: u32) -> nfs_fh3 {
        let args = MKDIR3args {
            r#where: place(dir, name),
            attributes: set(mode),
        };
        match self.call::<NFSPROC3_MKDIR>(args).await {
            MKDIR3res::NFS3_OK(made) => made.obj.unwrap(),
            MKDIR3res::default(why, _) => panic!("{name}: {why:?}"),
        }
    }

    async fn create(
        &self,
        dir: &nfs_fh3,
        name: &str,
        how: createhow3,
    ) -> Result<nfs_fh3, nfsstat3> {
        let args = CREATE3args {
            r#where: place(dir, name),
            how,
        };
        match self.call::<NFSPROC3_CREATE>(args).await {
            CREATE3res::NFS3_OK(made) => Ok(made.obj.unwrap()),
            CREATE3res::default(why, _) => Err(why),
        }
    }

    async fn lookup(&self, dir: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let args = LOOKUP3args {
            what: place(dir, name),
        };
        match self.call::<NFSPROC3_LOOKUP>(args).await {
            LOOKUP3res::NFS3_OK(found) => Ok(found.object),
            LOOKUP3res::default(why, _) => Err(why),
        }
    }

    async fn getattr(&self, object: &nfs_fh3) -> Result<fattr3, nfsstat3> {
        let args = GETATTR3args {
            object: object.clone(),
        };
        match self.call::<NFSPROC3_GETATTR>(args).await {
            GETATTR3res::NFS3_OK(found) => Ok(found.obj_attributes),
            GETATTR3res::default(why) => Err(why),
        }
    }

    async fn write(
        &self,
        file: &nfs_fh3,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<WRITE3resok, nfsstat3> {
        let args = WRITE3args {
            file: file.clone(),
            offset,
            count: data.len() as u32,
            stable,
            data: Bytes::copy_from_slice(data),
        };
        match self.call::<NFSPROC3_WRITE>(args).await {
            WRITE3res::NFS3_OK(written) => Ok(written),
            WRITE3res::default(why, _) => Err(why),
        }
    }

    async fn write_size(&self, file: &nfs_fh3, size: u64) {
        let args = SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 {
                mode: None,
                size: Some(size),
                ..set(0)
            },
            guard: None,
        };
        match self.call::<NFSPROC3_SETATTR>(args).await {
            SETATTR3res::NFS3_OK(_) => {}
            SETATTR3res::default(why, _) => panic!("{why:?}"),
        }
    }

    async fn commit(&self, file: &nfs_fh3) -> [u8; 8] {
        let args = COMMIT3args {
            file: file.clone(),
            offset: 0,
            count: 0,
        };
        match self.call::<NFSPROC3_COMMIT>(args).await {
            COMMIT3res::NFS3_OK(done) => done.verf,
            COMMIT3res::default(why, _) => panic!("{why:?}"),
        }
    }

    async fn read(
        &self,
        file: &nfs_fh3,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool), nfsstat3> {
        let args = READ3args {
            file: file.clone(),
            offset,
            count,
        };
        match self.call::<NFSPROC3_READ>(args).await {
            READ3res::NFS3_OK(read) => {
                assert_eq!(read.count as usize, read.data.len());
                Ok((read.data, read.eof))
            }
            READ3res::default(why, _) => Err(why),
        }
    }

    async fn remove(&self, dir: &nfs_fh3, name: &str) -> Result<(), nfsstat3> {
        let args = REMOVE3args {
            object: place(dir, name),
        };
        match self.call::<NFSPROC3_REMOVE>(args).await {
            REMOVE3res::NFS3_OK(_) => Ok(()),
            REMOVE3res::default(why, _) => Err(why),
        }
    }

    /// All names, page by page.
    async fn list(&self, dir: &nfs_fh3, bytes: u32, plus: bool) -> Vec<String> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let (page, eof) = match plus {
                false => {
                    let args = READDIR3args {
                        dir: dir.clone(),
                        cookie,
                        cookieverf: [0; 8],
                        count: bytes,
                    };
                    let READDIR3res::NFS3_OK(listed) = self.call::<NFSPROC3_READDIR>(args).await
                    else {
                        panic!("no listing")
                    };
                    let page = listed.reply.entries.into_iter();
                    let page: Vec<_> = page.map(|entry| (entry.name, entry.cookie)).collect();
                    (page, listed.reply.eof)
                }
                true => {
                    let args = READDIRPLUS3args {
                        dir: dir.clone(),
                        cookie,
                        cookieverf: [0; 8],
                        dircount: bytes,
                        maxcount: bytes,
                    };
                    let listed = self.call::<NFSPROC3_READDIRPLUS>(args).await;
                    let READDIRPLUS3res::NFS3_OK(listed) = listed else {
                        panic!("no listing")
                    };
                    for entry in &listed.reply.entries {
                        let attributes = entry.name_attributes.as_ref();
                        assert!(attributes.is_none_or(|it| it.fileid == entry.fileid));
                        assert!(entry.name_handle.is_some() || entry.name == "..");
                    }
                    let page = listed.reply.entries.into_iter();
                    let page: Vec<_> = page.map(|entry| (entry.name, entry.cookie)).collect();
                    (page, listed.reply.eof)
                }
            };
            assert!(!page.is_empty() || eof, "a page of nothing is the end");
            for (name, at) in page {
                names.push(String::from_utf8(name.to_vec()).unwrap());
                cookie = at;
            }
            if eof {
                return names;
            }
        }
    }
}

fn place(dir: &nfs_fh3, name: &str) -> diropargs3 {
    diropargs3 {
        dir: dir.clone(),
        name: name.to_owned().into(),
    }
}

fn set(mode: u32) -> sattr3 {
    sattr3 {
        mode: Some(mode),
        uid: None,
        gid: None,
        size: None,
        atime: set_atime::default(time_how::DONT_CHANGE),
        mtime: set_mtime::default(time_how::DONT_CHANGE),
    }
}

fn guarded(mode: u32) -> createhow3 {
    createhow3::GUARDED(set(mode))
}

#[test]
fn what_one_gateway_has_answered_the_other_shows() {
    in_world(1, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let [one, two] = [
            Nfs::to(&world, &gates[0], 0).await,
            Nfs::to(&world, &gates[1], 0).await,
        ];
        let root = one.mount("/").await.unwrap();
        // Handles are the same everywhere.
        assert_eq!(two.mount("/").await.unwrap(), root);
        let dir = one.mkdir(&root, "d", 0o755).await;
        assert_eq!(two.lookup(&root, "d").await.unwrap(), dir);
        let file = one.create(&dir, "f", guarded(0o644)).await.unwrap();
        for round in 0..20_u8 {
            // Not committed, and shown all the same: caches are leased.
            let (at, data) = (u64::from(round) * 1000, vec![round; 1000]);
            let (writer, reader) = match round % 2 {
                0 => (&one, &two),
                _ => (&two, &one),
            };
            writer
                .write(&file, at, &data, stable_how::UNSTABLE)
                .await
                .unwrap();
            assert_eq!(reader.getattr(&file).await.unwrap().size, at + 1000);
            let (found, eof) = reader.read(&file, at, 2000).await.unwrap();
            assert!(found == data && eof, "round {round}");
        }
        let (all, eof) = two.read(&file, 0, 20_000).await.unwrap();
        assert!(eof && all.len() == 20_000);
        let (part, eof) = two.read(&file, 0, 19_999).await.unwrap();
        assert!(!eof && part.len() == 19_999);
        two.remove(&dir, "f").await.unwrap();
        assert_eq!(one.lookup(&dir, "f").await, Err(nfsstat3::NFS3ERR_NOENT));
    });
}

/// Room is free soon after a REMOVE, though gateways keep files open for a while; who goes on reading goes on.
#[test]
fn what_has_no_name_is_kept_only_for_who_uses_it() {
    for by in 0..2 {
        in_world(40 + by, async move |world| {
            let (_group, _servers, gates) = cluster::<2>(&world).await;
            let [writer, reader] = [
                Nfs::to(&world, &gates[0], 0).await,
                Nfs::to(&world, &gates[1], 0).await,
            ];
            let root = writer.mount("/").await.unwrap();
            let data = vec![7; 1 << 20];
            let file = writer.create(&root, "f", guarded(0o644)).await.unwrap();
            let kept = writer.write(&file, 0, &data, stable_how::UNSTABLE).await;
            kept.unwrap();
            let (read, _) = reader.read(&file, 0, 1 << 20).await.unwrap();
            assert_eq!(read, data);
            let remover = [&writer, &reader][by as usize];
            remover.remove(&root, "f").await.unwrap();
            for _ in 0..10 {
                world.sleep(SECOND / 2).await;
                let (read, _) = reader.read(&file, 0, 1000).await.unwrap();
                assert_eq!(read, data[..1000]);
            }
            world.sleep(3 * SECOND).await;
            for client in [&writer, &reader] {
                let gone = client.getattr(&file).await;
                assert_eq!(gone.err(), Some(nfsstat3::NFS3ERR_STALE));
            }
        });
    }
}

#[test]
fn directories_are_listed_page_by_page() {
    in_world(2, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let [one, two] = [
            Nfs::to(&world, &gates[0], 0).await,
            Nfs::to(&world, &gates[1], 0).await,
        ];
        let root = one.mount("/").await.unwrap();
        let dir = one.mkdir(&root, "d", 0o755).await;
        let mut expected = BTreeSet::from([".".to_owned(), "..".to_owned()]);
        for number in 0..700 {
            let name = format!("a-name-of-some-length-{number}");
            one.create(&dir, &name, guarded(0o644)).await.unwrap();
            expected.insert(name);
        }
        for (bytes, plus) in [
            (512, false),
            (65_536, false),
            (1_024, true),
            (1 << 20, true),
        ] {
            for by in [&one, &two] {
                let names = by.list(&dir, bytes, plus).await;
                assert_eq!(names.len(), expected.len(), "{bytes}, {plus}");
                assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
        let args = READDIR3args {
            dir: dir.clone(),
            cookie: 0,
            cookieverf: [0; 8],
            count: 64,
        };
        let READDIR3res::default(why, _) = one.call::<NFSPROC3_READDIR>(args).await else {
            panic!("there is no room for a name");
        };
        assert_eq!(why, nfsstat3::NFS3ERR_TOOSMALL);
    });
}

#[test]
fn who_has_not_committed_learns_that_the_gateway_died() {
    for seed in 0..5 {
        in_world(30 + seed, async move |world| {
            let (_group, _servers, gates) = cluster::<2>(&world).await;
            let one = Nfs::to(&world, &gates[0], 0).await;
            let root = one.mount("/").await.unwrap();
            let file = one.create(&root, "f", guarded(0o644)).await.unwrap();
            let kept = one.write(&file, 0, b"kept", stable_how::FILE_SYNC).await;
            let kept = kept.unwrap();
            assert_eq!(kept.committed, stable_how::FILE_SYNC);
            let lost = one
                .write(&file, 4, b"lost", stable_how::UNSTABLE)
                .await
                .unwrap();
            assert_eq!(lost.committed, stable_how::UNSTABLE);
            assert_eq!(kept.verf, lost.verf);
            gates[0].kill();
            // By the other one, at once, with the handles that it has.
            let two = Nfs::to(&world, &gates[1], 0).await;
            assert_ne!(two.commit(&file).await, lost.verf);
            let (found, _) = two.read(&file, 0, 4).await.unwrap();
            assert_eq!(&found[..], b"kept");
            two.write(&file, 4, b"lost", stable_how::UNSTABLE)
                .await
                .unwrap();
            let verifier = two.commit(&file).await;
            // And by the one that was started again.
            gates[0].begin(&world).await;
            let one = Nfs::to(&world, &gates[0], 0).await;
            assert_ne!(one.commit(&file).await, lost.verf);
            let (found, eof) = one.read(&file, 0, 100).await.unwrap();
            assert!(eof && &found[..] == b"keptlost");
            // Nothing else changes it.
            assert_eq!(two.commit(&file).await, verifier);
        });
    }
}

#[test]
fn exports_say_who_may_do_what_as_whom() {
    in_world(4, async |world| {
        let group = Group::started(&world, 1).await;
        let _servers = group.pair().await;
        world.sleep(SECOND).await;
        let exports = vec![export("/", believed())];
        let gate = Gate::start(&world, &group, "gate1", exports).await;
        let root_user = Nfs::to(&world, &gate, 0).await;
        let root = root_user.mount("/").await.unwrap();
        let open = root_user.mkdir(&root, "open", 0o777).await;
        root_user.mkdir(&open, "inner", 0o777).await;
        root_user.mkdir(&root, "secret", 0o777).await;
        let read_only = Rule {
            read_only: true,
            ..believed()
        };
        let exports = vec![
            export("/open", Rule::default()),
            export("/open/inner", read_only),
            ExportSettings {
                rules: vec![Rule {
                    clients: vec!["10.0.0.0/8".into()],
                    ..believed()
                }],
                ..export("/secret", believed())
            },
        ];
        let gate = Gate::start(&world, &group, "gate2", exports).await;
        let caller = Nfs::to(&world, &gate, 0).await;
        assert_eq!(caller.mount("/").await, Err(mountstat3::MNT3ERR_ACCES));
        assert_eq!(
            caller.mount("/secret").await,
            Err(mountstat3::MNT3ERR_ACCES)
        );
        assert_eq!(
            caller.mount("/open/no").await,
            Err(mountstat3::MNT3ERR_NOENT)
        );
        let shown = caller.call::<MOUNTPROC3_EXPORT>(()).await;
        let shown: Vec<&[u8]> = shown.iter().map(|export| &export.ex_dir[..]).collect();
        assert_eq!(shown, [&b"/open"[..], b"/open/inner"]);
        // Root is nobody, and there is no way up.
        let dir = caller.mount("/open").await.unwrap();
        let file = caller.create(&dir, "f", guarded(0o600)).await.unwrap();
        assert_eq!(caller.getattr(&file).await.unwrap().uid, 65534);
        let up = caller.lookup(&dir, "..").await.unwrap();
        assert_eq!(up, dir);
        // A handle of an export that this gateway does not have; one that was made up.
        assert_eq!(caller.getattr(&root).await, Err(nfsstat3::NFS3ERR_STALE));
        let mut forged = file.data.to_vec();
        forged[10] ^= 1;
        let forged = nfs_fh3 {
            data: forged.into(),
        };
        let refused = caller.getattr(&forged).await;
        assert_eq!(refused, Err(nfsstat3::NFS3ERR_BADHANDLE));
        let inner = caller.mount("/open/inner").await.unwrap();
        let refused = caller.create(&inner, "f", guarded(0o600)).await;
        assert_eq!(refused, Err(nfsstat3::NFS3ERR_ROFS));
        // Whose file it is may write it whatever its mode says; others as that says.
        let owner = caller.of(7);
        let file = owner.create(&dir, "mine", guarded(0o400)).await.unwrap();
        owner
            .write(&file, 0, b"x", stable_how::UNSTABLE)
            .await
            .unwrap();
        let other = caller.of(8);
        let refused = other.write(&file, 0, b"y", stable_how::UNSTABLE).await;
        assert_eq!(refused.map(|it| it.count), Err(nfsstat3::NFS3ERR_ACCES));
        assert_eq!(other.read(&file, 0, 1).await, Err(nfsstat3::NFS3ERR_ACCES));
        let asked = ACCESS3args {
            object: file.clone(),
            access: 0x3f,
        };
        let ACCESS3res::NFS3_OK(access) = owner.call::<NFSPROC3_ACCESS>(asked.clone()).await else {
            panic!("no answer")
        };
        assert_eq!(access.access, ACCESS3_READ);
        let ACCESS3res::NFS3_OK(access) = other.call::<NFSPROC3_ACCESS>(asked).await else {
            panic!("no answer")
        };
        assert_eq!(access.access, 0);
        // And the port, for who asks here.
        let asked = mapping {
            prog: NFS_PROGRAM,
            vers: NFS_V3,
            prot: IPPROTO_TCP,
            port: 0,
        };
        assert_eq!(caller.call::<PMAPPROC_GETPORT>(asked).await, 2049);
    });
}

/// Messages between a gateway and the metadata service so far, there and back.
fn messages(gate: &Gate) -> u64 {
    let slot = gate.slot.borrow();
    let figures = slot.as_ref().unwrap().client().figures();
    2 * (figures.requests + figures.revocations)
}

/// The cases of dNFSp's figure 2 (`docs/protocols/token.md`).
#[test]
fn who_holds_the_token_asks_nobody() {
    in_world(6, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let [one, two] = [
            Nfs::to(&world, &gates[0], 0).await,
            Nfs::to(&world, &gates[1], 0).await,
        ];
        let root = one.mount("/").await.unwrap();
        let told = async |by: &Nfs, file: &nfs_fh3| {
            let before = gates.each_ref().map(messages);
            let size = by.getattr(file).await.unwrap().size;
            let after = gates.each_ref().map(messages);
            (size, [after[0] - before[0], after[1] - before[1]])
        };
        // Nobody has it: the slot's server answers.
        let file = one.create(&root, "f", guarded(0o644)).await.unwrap();
        one.write(&file, 0, b"12345", stable_how::FILE_SYNC)
            .await
            .unwrap();
        gates[0].kill();
        gates[0].begin(&world).await;
        // Longer than the term of what it had before.
        world.sleep(10 * SECOND).await;
        let one = Nfs::to(&world, &gates[0], 0).await;
        assert_eq!(told(&two, &file).await, (5, [0, 2]));
        // Now both may keep what they know.
        assert_eq!(told(&two, &file).await, (5, [0, 0]));
        assert_eq!(told(&one, &file).await, (5, [2, 0]));
        assert_eq!(told(&one, &file).await, (5, [0, 0]));
        assert_eq!(told(&two, &file).await, (5, [0, 0]));
        // Who writes has the token, and answers alone.
        one.write(&file, 5, b"67", stable_how::UNSTABLE)
            .await
            .unwrap();
        for _ in 0..3 {
            assert_eq!(told(&one, &file).await, (7, [0, 0]));
        }
        // By the other it takes four messages: to the server, from there to the holder, and back.
        assert_eq!(told(&two, &file).await, (7, [2, 2]));
        one.write(&file, 7, b"8", stable_how::UNSTABLE)
            .await
            .unwrap();
        assert_eq!(told(&one, &file).await, (8, [0, 0]));
        assert_eq!(told(&two, &file).await, (8, [2, 2]));
    });
}

/// A call as bytes, under a number of our choice.
fn bytes_of<P: Procedure>(xid: u32, arguments: &P::Arguments) -> Vec<u8> {
    let mut out = Encoder::default();
    for word in [xid, 0, 2, P::PROGRAM, P::VERSION, P::NUMBER, 1, 24] {
        out.u32(word);
    }
    // AUTH_SYS: stamp, an empty name, uid, gid, one group; no verifier.
    for word in [0, 0, 0, 0, 1, 0, 0, 0] {
        out.u32(word);
    }
    P::encode_arguments(arguments, &mut out);
    let call = out.joined();
    let mark = (1 << 31) | call.len() as u32;
    [&mark.to_be_bytes()[..], &call].concat()
}

async fn reply(stream: &mut weft_env::Stream) -> Vec<u8> {
    let mark = stream.read_u32().await.unwrap();
    let mut reply = vec![0; (mark & !(1 << 31)) as usize];
    stream.read_exact(&mut reply).await.unwrap();
    reply
}

#[test]
fn what_was_done_is_not_done_again_when_it_is_sent_again() {
    in_world(5, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let one = Nfs::to(&world, &gates[0], 0).await;
        let root = one.mount("/").await.unwrap();
        let create = CREATE3args {
            r#where: place(&root, "f"),
            how: guarded(0o644),
        };
        let create = bytes_of::<NFSPROC3_CREATE>(77, &create);
        let env = world.node("client").env();
        let address = gates[0].settings.listen.clone();
        let mut stream = env.connect(&address).await.unwrap();
        // Twice at once, and once more over another connection.
        stream.write_all(&create).await.unwrap();
        stream.write_all(&create).await.unwrap();
        let first = reply(&mut stream).await;
        assert_eq!(reply(&mut stream).await, first);
        let mut stream = env.connect(&address).await.unwrap();
        stream.write_all(&create).await.unwrap();
        assert_eq!(reply(&mut stream).await, first);
        // xid, reply, accepted, no verifier, success; then NFS3_OK.
        assert_eq!(first[24..28], [0; 4]);
        let remove = REMOVE3args {
            object: place(&root, "f"),
        };
        let remove = bytes_of::<NFSPROC3_REMOVE>(78, &remove);
        for _ in 0..3 {
            stream.write_all(&remove).await.unwrap();
            assert_eq!(reply(&mut stream).await[24..28], [0; 4]);
        }
        // The same number for another call is another call.
        let create = CREATE3args {
            r#where: place(&root, "g"),
            how: guarded(0o644),
        };
        let create = bytes_of::<NFSPROC3_CREATE>(78, &create);
        stream.write_all(&create).await.unwrap();
        assert_eq!(reply(&mut stream).await[24..28], [0; 4]);
        assert!(one.lookup(&root, "g").await.is_ok());
        // An exclusive create that is sent again under another number, to another gateway.
        let two = Nfs::to(&world, &gates[1], 0).await;
        let how = createhow3::EXCLUSIVE(*b"verifier");
        let made = one.create(&root, "e", how.clone()).await.unwrap();
        assert_eq!(two.create(&root, "e", how).await, Ok(made));
        let other = createhow3::EXCLUSIVE(*b"another.");
        let refused = two.create(&root, "e", other).await;
        assert_eq!(refused, Err(nfsstat3::NFS3ERR_EXIST));
    });
}

#[test]
fn a_write_that_comes_slowly_is_written_as_it_comes() {
    in_world(6, async |world| {
        let (_group, _servers, gates) = cluster::<2>(&world).await;
        let [one, two] = [
            Nfs::to(&world, &gates[0], 0).await,
            Nfs::to(&world, &gates[1], 0).await,
        ];
        let root = one.mount("/").await.unwrap();
        let file = one.create(&root, "f", guarded(0o600)).await.unwrap();
        let data: Vec<u8> = (0..300_001).map(|at| (at * 7 / 3) as u8).collect();
        let env = world.node("client").env();
        let address = gates[0].settings.listen.clone();
        let call = |xid, stable| {
            let write = WRITE3args {
                file: file.clone(),
                offset: 4096,
                count: data.len() as u32,
                stable,
                data: data.clone().into(),
            };
            bytes_of::<NFSPROC3_WRITE>(xid, &write)
        };
        let size = async |of: &Nfs| of.getattr(&file).await.unwrap().size;
        for (xid, stable) in [(1, stable_how::UNSTABLE), (2, stable_how::FILE_SYNC)] {
            one.write_size(&file, 0).await;
            let call = call(xid, stable);
            let mut stream = env.connect(&address).await.unwrap();
            for part in [
                &call[..100_000],
                &call[100_000..199_000],
                &call[199_000..200_000],
            ] {
                stream.write_all(part).await.unwrap();
                env.sleep(Duration::from_secs(1)).await;
            }
            // Seen everywhere, though it is not answered.
            let there = 4096 + (192 << 10);
            assert_eq!((size(&one).await, size(&two).await), (there, there));
            stream.write_all(&call[200_000..]).await.unwrap();
            let reply = reply(&mut stream).await;
            // xid, reply, accepted, no verifier, success; then NFS3_OK.
            assert_eq!(reply[24..28], [0; 4]);
            let count = reply[reply.len() - 16..reply.len() - 12]
                .try_into()
                .unwrap();
            assert_eq!(u32::from_be_bytes(count) as usize, data.len());
            assert_eq!(reply[reply.len() - 9], stable as u8);
            let verifier = one.commit(&file).await;
            assert_eq!(reply[reply.len() - 8..], verifier);
            assert_eq!(size(&two).await, 4096 + data.len() as u64);
            let (read, _) = two.read(&file, 4096, data.len() as u32).await.unwrap();
            assert!(read == data);
        }
        // Who may not write is told so when all has come, and nothing was written.
        let write = WRITE3args {
            file: file.clone(),
            offset: 0,
            count: 200_000,
            stable: stable_how::UNSTABLE,
            data: vec![9; 200_000].into(),
        };
        let mut call = bytes_of::<NFSPROC3_WRITE>(3, &write);
        // The uid: behind the mark, eight words, the stamp and an empty name.
        call[4 + 4 * 10..][..4].copy_from_slice(&1000u32.to_be_bytes());
        let mut stream = env.connect(&address).await.unwrap();
        for part in [&call[..100_000], &call[100_000..150_000], &call[150_000..]] {
            stream.write_all(part).await.unwrap();
            env.sleep(Duration::from_secs(1)).await;
        }
        let refused = reply(&mut stream).await;
        assert_eq!(refused[24..28], 13u32.to_be_bytes());
        let (read, _) = two.read(&file, 0, 4096).await.unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
    });
}
