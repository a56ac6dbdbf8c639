//! Names over real sockets: changes, reads, repetition, restarts.

use crate::support::*;
use weft_meta::{Server, Settings};
use weft_wire::Failed;
use weft_wire::proto::{self, *};

#[test]
fn what_is_created_is_found_listed_and_survives_a_restart() {
    run(|env, dir| async move {
        let server_one = server(&env, &dir).await;
        let _members = pair(&env, server_one.address(), 0).await;
        let client = Client::open(&env, server_one.address()).await;
        assert_eq!(client.opened.root_ino, 1);
        assert_eq!(client.opened.pairs.len(), 1);
        let sub = client.mkdir(1, "sub").await;
        let file = client.create(sub, "file").await;

        let found = client.lookup(sub, "file").await.unwrap().inode.unwrap();
        assert_eq!(found.attr.unwrap().ino, file);
        assert_eq!(found.layout.unwrap().pairs, [0]);
        let absent = client.lookup(sub, "other").await.unwrap();
        assert!(absent.inode.is_none());
        assert_eq!(absent.leases[0].ino, sub);
        let listed = client.list(sub, true).await;
        assert!(listed.end);
        assert_eq!(listed.entries[0].name, "file");
        assert_eq!(
            listed.entries[0].inode.as_ref().unwrap().attr.unwrap().ino,
            file
        );
        let digest = |status: StatusReply| status.digest;
        let before = digest(client.call(&StatusRequest {}).await.unwrap());
        server_one.stop().await;

        let again = server(&env, &dir).await;
        let status = tool(&env, again.address())
            .await
            .call(&StatusRequest {}, weft_rpc::Payload::none())
            .await
            .unwrap()
            .0;
        assert_eq!((status.epoch, status.inodes), (2, 3));
        assert!(
            !before.is_empty() && before != status.digest,
            "the reign is part of the state"
        );
        let taken_up = SessionRequest {
            session: client.session,
            open_inodes: vec![file],
            write_leases: vec![file],
            ..Default::default()
        };
        let client = Client::with(&env, again.address(), taken_up).await.unwrap();
        assert_eq!(client.opened.write_leases, [file]);
        let found = client.lookup(sub, "file").await.unwrap().inode.unwrap();
        assert_eq!(found.attr.unwrap().ino, file);
        again.stop().await;
    });
}

#[test]
fn the_root_of_a_new_name_space_has_the_owner_that_the_settings_name() {
    run(|env, dir| async move {
        let owned_by = |uid| Settings {
            root_uid: uid,
            root_gid: 7,
            ..settings(&dir)
        };
        let root = async |server: &Server| {
            let client = Client::open(&env, server.address()).await;
            client.inode(1).await.unwrap().inode.unwrap().attr.unwrap()
        };
        let first = begin(&env, owned_by(1_000)).await;
        let made = root(&first).await;
        assert_eq!((made.uid, made.gid, made.mode), (1_000, 7, 0o755));
        assert!(made.mtime.unwrap().seconds > 1_500_000_000, "not 1970");
        first.stop().await;
        // Only then: what is there is not given away by a setting.
        let again = begin(&env, owned_by(2_000)).await;
        assert_eq!(root(&again).await, made);
        again.stop().await;
    });
}

#[test]
fn a_power_cut_in_the_first_start_leaves_the_root_to_the_next() {
    run(|env, dir| async move {
        let always = || Settings {
            root_uid: 1_000,
            journal: weft_meta::JournalSettings {
                sync: weft_journal::SyncPolicy::Always,
            },
            ..settings(&dir)
        };
        let first = begin(&env, always()).await;
        first.stop().await;
        let mut segments = env.read_dir(&dir.join("journal")).unwrap();
        let segment = dir.join("journal").join(segments.pop().unwrap().name);
        // The second batch is torn.
        let file = env.open(&segment, weft_env::OpenMode::Write).await.unwrap();
        file.set_len(file.len().unwrap() - 1).unwrap();
        let again = begin(&env, always()).await;
        let client = Client::open(&env, again.address()).await;
        let root = client.inode(1).await.unwrap().inode.unwrap().attr.unwrap();
        assert_eq!(root.uid, 1_000);
        again.stop().await;
    });
}

#[test]
fn a_change_that_is_sent_again_is_done_once() {
    run(|env, dir| async move {
        let server_one = server(&env, &dir).await;
        let client = Client::open(&env, server_one.address()).await;
        let request = client.request(op::Op::Create(Create {
            parent: 1,
            name: "d".into(),
            kind: FileKind::Directory as i32,
            exclusive: true,
            ..Default::default()
        }));
        let first = client.call(&request).await.unwrap().reply.unwrap();
        let second = client.call(&request).await.unwrap().reply.unwrap();
        assert_eq!(first, second);
        assert!(first.created);
        server_one.stop().await;

        let again = server(&env, &dir).await;
        let taken_up = SessionRequest {
            session: client.session,
            ..Default::default()
        };
        let client = Client::with(&env, again.address(), taken_up).await.unwrap();
        let request = ChangeRequest {
            epoch: client.epoch,
            ..request
        };
        let third = client.call(&request).await.unwrap().reply.unwrap();
        assert_eq!(first, third);
        again.stop().await;
    });
}

#[test]
fn stale_epochs_strange_sessions_and_requests_of_the_service_are_refused() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let client = Client::open(&env, server.address()).await;
        let mut request = client.request(create(1, "x"));
        request.epoch = 7;
        assert_eq!(
            failed(client.call(&request).await.unwrap_err()),
            Failed::Stale(1)
        );
        request.epoch = 1;
        request.session = 99;
        let fenced = failed(client.call(&request).await.unwrap_err());
        assert!(matches!(fenced, Failed::Fenced(_)));
        let own = op::Op::NewReign(NewReign { epoch: 9 });
        let refused = failed(client.change(own).await.unwrap_err());
        assert!(matches!(refused, Failed::Refused(_)));
        // Another's session over this connection.
        let other = Client::open(&env, server.address()).await;
        let mut request = client.request(create(1, "x"));
        request.session = other.session;
        let refused = failed(client.call(&request).await.unwrap_err());
        assert!(matches!(refused, Failed::Unavailable(_)), "{refused:?}");
        let taken_up = SessionRequest {
            session: 4711,
            ..Default::default()
        };
        let gone = Client::with(&env, server.address(), taken_up)
            .await
            .err()
            .unwrap();
        assert!(matches!(failed(gone), Failed::Fenced(_)));
        server.stop().await;
    });
}

#[test]
fn a_session_that_says_goodbye_is_gone() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let client = Client::open(&env, server.address()).await;
        let session = client.session;
        let goodbye = op::Op::CloseSession(CloseSession {
            session,
            clean: true,
            ..CloseSession::default()
        });
        client.done(goodbye).await;
        let fenced = failed(client.lookup(1, "x").await.unwrap_err());
        assert!(matches!(fenced, Failed::Fenced(_)));
        server.stop().await;
    });
}

#[test]
fn noise_is_refused_and_the_server_lives() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let mut seed = 1u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            seed >> 33
        };
        for _ in 0..300 {
            let noise: Vec<u8> = (0..random() % 40).map(|_| random() as u8).collect();
            // Decodes as some messages and not as others.
            let mut request = client.request(create(1, "y"));
            let bytes = bytes::Bytes::from(noise.clone());
            request.op = prost::Message::decode(bytes.clone()).ok();
            let _: Result<ChangeReply, _> = client.call(&request).await;
            let lookup = LookupRequest {
                session: client.session,
                epoch: client.epoch,
                parent: random() % 4,
                name: bytes,
                cred: None,
            };
            let _: Result<LookupReply, _> = client.call(&lookup).await;
            let beat = BeatRequest {
                pair: random() as u32,
                member: 3,
                ..Default::default()
            };
            assert!(client.call(&beat).await.is_err());
            let register = RegisterRequest {
                pair: 1,
                member: 7,
                ..Default::default()
            };
            assert!(client.call(&register).await.is_err());
            let lock = proto::GetLockRequest {
                session: client.session,
                epoch: client.epoch,
                ino: random(),
                lock: None,
            };
            assert!(client.call(&lock).await.is_err());
        }
        assert!(client.lookup(1, "x").await.unwrap().inode.is_none());
        server.stop().await;
    });
}

#[test]
fn a_second_server_in_the_same_directory_is_refused() {
    run(|env, dir| async move {
        let first = server(&env, &dir).await;
        let error = weft_meta::start(env.clone(), settings(&dir))
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("another server"), "{error}");
        first.stop().await;
        server(&env, &dir).await.stop().await;
    });
}
