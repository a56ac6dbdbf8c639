//! What nobody sends who means well, to a gateway of a simulated cluster: it never panics, what it answers decodes and is
//! no more than was agreed, nothing takes it long or much room, and others are served as ever
//! (`docs/protocols/nfs4.md`, "What is bounded"). `fuzz/targets/gateway.rs` looks for such calls by itself.

use crate::compounds;
use crate::compounds::{ANONYMOUS, Nfs4, channel, put};
use crate::gates::{Gate, believed, cluster, export};
use crate::group::{Group, MS, SECOND, in_world};
use crate::mutations::{Gauntlet, Strange, Verdict, valid};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};
use weft_nfs::{ExportSettings, Rule};
use weft_oncrpc::Limits;
use weft_sim::World;
use weft_xdr::nfs4::nfs_argop4::*;
use weft_xdr::nfs4::*;
use weft_xdr::{Decoder, Encoder, Procedure, nfs3};

/// Calls of one world.
const CALLS: usize = 500;
/// After so many somebody else asks for something.
const OTHERS_EVERY: usize = 100;

#[test]
fn calls_that_make_sense_are_served() {
    let gauntlet = Gauntlet::new(1);
    for (at, call) in valid().iter().enumerate() {
        let verdict = gauntlet.feed(call);
        assert!(matches!(verdict, Verdict::Served(1..)), "{at}: {verdict:?}");
    }
    gauntlet.serves_others();
}

#[test]
fn whatever_is_called_the_gateway_goes_on() {
    let mut served = 0;
    for seed in 0..6 {
        let gauntlet = Gauntlet::new(seed);
        let mut strange = Strange::new(seed);
        for at in 1..=CALLS {
            let call = strange.call();
            let place = Place(seed, at, &call);
            if let Verdict::Served(operations) = gauntlet.feed(&call) {
                served += operations;
            }
            drop(place);
            if at % OTHERS_EVERY == 0 {
                gauntlet.serves_others();
            }
        }
    }
    // They are not all refused at the door.
    assert!(served > 6 * CALLS, "{served} operations were done");
}

/// Says which call it was.
struct Place<'a>(u64, usize, &'a [u8]);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Place(seed, at, call) = self;
            println!("seed {seed}, call {at}: {call:02x?}");
        }
    }
}

// ---- sessions ----

/// A client whose session has these attributes.
async fn with_channel(world: &World, gate: &Gate, name: &str, channel: channel_attrs4) -> Nfs4 {
    let mut client = Nfs4::connect(world, gate, 0).await;
    client.meet(name, 1).await;
    let create = OP_CREATE_SESSION(CREATE_SESSION4args {
        csa_clientid: client.client,
        csa_sequence: 2,
        csa_flags: 0,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 7,
        csa_sec_parms: Vec::new(),
    });
    let made = client.call(vec![create]).await;
    let [nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::NFS4_OK(made))] = &made.resarray[..]
    else {
        panic!("{made:?}")
    };
    client.session = made.csr_sessionid;
    client.sequence.set(0);
    client
}

#[test]
fn what_was_agreed_for_a_session_is_held_to() {
    in_world(1_000, async |world| {
        let (_group, _servers, [gate]) = cluster(&world).await;
        let small = channel_attrs4 {
            ca_maxrequestsize: 1024,
            ca_maxresponsesize: 2048,
            ca_maxresponsesize_cached: 512,
            ca_maxoperations: 4,
            ca_maxrequests: 2,
            ..channel()
        };
        let one = with_channel(&world, &gate, "one", small).await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        // Requests that are too large or have too many operations leave their slot as it was.
        let number = one.sequence.get() + 1;
        let write = |bytes: usize| {
            OP_WRITE(WRITE4args {
                stateid: state.clone(),
                offset: 0,
                stable: stable_how4::FILE_SYNC4,
                data: vec![7; bytes].into(),
            })
        };
        let call = async |operations: Vec<nfs_argop4>| one.call(operations).await;
        let long = vec![one.sequence(number), put(&file), write(1000)];
        let refused = call(long.clone()).await;
        let (status, results) = (refused.status, refused.resarray.len());
        assert_eq!((status, results), (nfsstat4::NFS4ERR_REQ_TOO_BIG, 1));
        let many = [vec![one.sequence(number)], vec![OP_PUTROOTFH; 4]].concat();
        let refused = call(many).await;
        let (status, results) = (refused.status, refused.resarray.len());
        assert_eq!((status, results), (nfsstat4::NFS4ERR_TOO_MANY_OPS, 1));
        for offset in (0..3_000).step_by(500) {
            one.write(&file, &state, offset, &[7; 500]).await.unwrap();
        }
        // So are answers that would be, but what stands before is done.
        assert!(one.read(&file, &state, 0, 1500).await.is_ok());
        let long = one.read(&file, &state, 0, 2500).await;
        assert_eq!(long.unwrap_err(), nfsstat4::NFS4ERR_REP_TOO_BIG);
        let read = OP_READ(READ4args {
            stateid: state.clone(),
            offset: 0,
            count: 600,
        });
        one.sequence.set(one.sequence.get() + 1);
        let OP_SEQUENCE(sequence) = one.sequence(one.sequence.get()) else {
            unreachable!()
        };
        let kept = OP_SEQUENCE(SEQUENCE4args {
            sa_cachethis: true,
            ..sequence
        });
        let refused = call(vec![kept.clone(), put(&file), read.clone()]).await;
        let too_big = nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE;
        assert_eq!((refused.status, refused.resarray.len()), (too_big, 3));
        // Which is what it is answered when it is sent again.
        assert_eq!(call(vec![kept, put(&file), read]).await, refused);
        // Slots are each in an order of their own, and as many as were agreed.
        let in_slot =
            async |slot, number| call(vec![one.in_slot(slot, number), OP_PUTROOTFH]).await;
        for (slot, number, status) in [
            (1, 2, nfsstat4::NFS4ERR_SEQ_MISORDERED),
            (1, 1, nfsstat4::NFS4_OK),
            (1, 1, nfsstat4::NFS4_OK),
            (1, 3, nfsstat4::NFS4ERR_SEQ_MISORDERED),
            (1, 2, nfsstat4::NFS4_OK),
            (1, 1, nfsstat4::NFS4ERR_SEQ_MISORDERED),
            (2, 1, nfsstat4::NFS4ERR_BADSLOT),
            (u32::MAX, 1, nfsstat4::NFS4ERR_BADSLOT),
        ] {
            assert_eq!(
                in_slot(slot, number).await.status,
                status,
                "{slot} {number}"
            );
        }
        let OP_SEQUENCE(sequence) = one.in_slot(1, 3) else {
            unreachable!()
        };
        let high = OP_SEQUENCE(SEQUENCE4args {
            sa_highest_slotid: 2,
            ..sequence
        });
        assert_eq!(
            call(vec![high]).await.status,
            nfsstat4::NFS4ERR_BAD_HIGH_SLOT
        );
        // Another call in a slot whose number was used is told from that one, short or long.
        let number = one.sequence.get() + 1;
        let writes = |bytes| vec![one.sequence(number), put(&file), write(bytes)];
        assert_eq!(call(writes(100)).await.status, nfsstat4::NFS4_OK);
        let get = vec![one.sequence(number), put(&file), OP_GETFH];
        assert_eq!(call(get).await.status, nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
    });
}

#[test]
fn handles_of_others_and_forged_ones_are_no_handles() {
    in_world(1_001, async |world| {
        let group = Group::started(&world, 1).await;
        let _servers = group.pair().await;
        world.sleep(SECOND).await;
        let gate = Gate::start(&world, &group, "gate1", vec![export("/", believed())]).await;
        let all = Nfs4::to(&world, &gate, 0, "one").await;
        let root = all.walk(&[]).await.unwrap();
        for name in ["a", "b", "c"] {
            let mkdir = compounds::mkdir(name, 0o755);
            all.does(vec![put(&root), mkdir]).await.unwrap();
        }
        let hidden = |path: &str| ExportSettings {
            path: path.into(),
            id: None,
            rules: vec![Rule {
                clients: vec!["10.0.0.0/8".into()],
                ..believed()
            }],
        };
        // A gateway that lets everybody have the third: for a handle of it.
        let exports = vec![export("/c", believed())];
        let other = Gate::start(&world, &group, "gate3", exports).await;
        let other = Nfs4::to(&world, &other, 0, "other").await;
        let of_hidden = other.walk(&["c"]).await.unwrap();
        let exports = vec![
            export("/a", believed()),
            export("/b", believed()),
            hidden("/c"),
        ];
        let gate = Gate::start(&world, &group, "gate2", exports).await;
        let some = Nfs4::to(&world, &gate, 0, "two").await;
        let look = async |handle: &Bytes| {
            let get = OP_GETATTR(GETATTR4args {
                attr_request: vec![1 << FATTR4_TYPE],
            });
            some.does(vec![put(handle), get]).await.map(drop)
        };
        // Of an export that is another gateway's; of one that this caller may not have.
        assert_eq!(look(&root).await, Err(nfsstat4::NFS4ERR_STALE));
        assert_eq!(look(&of_hidden).await, Err(nfsstat4::NFS4ERR_ACCESS));
        assert_eq!(some.walk(&["c"]).await, Err(nfsstat4::NFS4ERR_NOENT));
        // Both kinds, with any bit turned, cut, and longer.
        let (way, dir) = (
            some.walk(&[]).await.unwrap(),
            some.walk(&["a"]).await.unwrap(),
        );
        assert_eq!((look(&way).await, look(&dir).await), (Ok(()), Ok(())));
        for handle in [&way, &dir] {
            for bit in 0..handle.len() * 8 {
                let mut forged = handle.to_vec();
                forged[bit / 8] ^= 1 << (bit % 8);
                let refused = look(&forged.into()).await;
                // The number of the key says that it may be an older one's.
                let why = match bit / 8 {
                    2 => nfsstat4::NFS4ERR_STALE,
                    _ => nfsstat4::NFS4ERR_BADHANDLE,
                };
                assert_eq!(refused, Err(why), "bit {bit}");
            }
            for length in [0, 1, 2, 3, 20, handle.len() - 1] {
                let refused = look(&handle.slice(..length)).await;
                assert_eq!(refused, Err(nfsstat4::NFS4ERR_BADHANDLE), "{length} bytes");
            }
            let longer = [&handle[..], &[0; 4]].concat();
            let refused = look(&longer.into()).await;
            assert_eq!(refused, Err(nfsstat4::NFS4ERR_BADHANDLE));
        }
        // Nothing goes from one export to another.
        let (from, to) = (dir, some.walk(&["b"]).await.unwrap());
        let (file, _) = some.make(&from, "f").await;
        let rename = OP_RENAME(RENAME4args {
            oldname: "f".into(),
            newname: "f".into(),
        });
        let moved = some
            .does(vec![put(&from), OP_SAVEFH, put(&to), rename])
            .await;
        assert_eq!(moved.err(), Some(nfsstat4::NFS4ERR_XDEV));
        let link = OP_LINK(LINK4args {
            newname: "f".into(),
        });
        let linked = some.does(vec![put(&file), OP_SAVEFH, put(&to), link]).await;
        assert_eq!(linked.err(), Some(nfsstat4::NFS4ERR_XDEV));
        // State of another file, or of another client, is none of this one.
        let (_, state) = some.make(&to, "g").await;
        let read = some.read(&file, &state, 0, 10).await;
        assert_eq!(read.unwrap_err(), nfsstat4::NFS4ERR_BAD_STATEID);
        let three = Nfs4::to(&world, &gate, 0, "three").await;
        let (file, _) = some
            .open(&to, "g", (3, 0), "me", compounds::there())
            .await
            .unwrap();
        let read = three.read(&file, &state, 0, 10).await;
        assert_eq!(read.unwrap_err(), nfsstat4::NFS4ERR_BAD_STATEID);
        assert!(three.read(&file, &ANONYMOUS, 0, 10).await.is_ok());
    });
}

// ---- many, and such as do not listen ----

fn call_of<P: Procedure>(xid: u32, arguments: &P::Arguments) -> Vec<u8> {
    let mut out = Encoder::default();
    for word in [xid, 0, 2, P::PROGRAM, P::VERSION, P::NUMBER, 1, 20] {
        out.u32(word);
    }
    for word in [0; 7] {
        out.u32(word);
    }
    P::encode_arguments(arguments, &mut out);
    let call = out.joined();
    let mark = (1 << 31) | call.len() as u32;
    [&mark.to_be_bytes()[..], &call].concat()
}

async fn ask<P: Procedure>(stream: &mut Stream, arguments: &P::Arguments) -> P::Results {
    stream.write_all(&call_of::<P>(1, arguments)).await.unwrap();
    let mark = stream.read_u32().await.unwrap();
    let mut reply = vec![0; (mark & !(1 << 31)) as usize];
    stream.read_exact(&mut reply).await.unwrap();
    // xid, reply, accepted, no verifier, success.
    let mut results = Decoder::new(Bytes::from(reply).slice(24..));
    P::decode_results(&mut results).unwrap()
}

/// One operation that stands alone.
async fn alone(stream: &mut Stream, operation: nfs_argop4) -> nfs_resop4 {
    let arguments = COMPOUND4args {
        tag: Bytes::new(),
        minorversion: 1,
        argarray: vec![operation],
    };
    let mut done = ask::<NFSPROC4_COMPOUND>(stream, &arguments).await;
    done.resarray.pop().unwrap()
}

fn owner(name: &str) -> nfs_argop4 {
    OP_EXCHANGE_ID(EXCHANGE_ID4args {
        eia_clientowner: client_owner4 {
            co_verifier: [1; 8],
            co_ownerid: name.to_owned().into(),
        },
        eia_flags: 0,
        eia_state_protect: state_protect4_a::SP4_NONE,
        eia_client_impl_id: Vec::new(),
    })
}

/// As large a session as there is.
fn session(client: u64, number: u32) -> nfs_argop4 {
    let large = channel_attrs4 {
        ca_maxrequests: 64,
        ..channel()
    };
    OP_CREATE_SESSION(CREATE_SESSION4args {
        csa_clientid: client,
        csa_sequence: number,
        csa_flags: CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
        csa_fore_chan_attrs: large.clone(),
        csa_back_chan_attrs: large,
        csa_cb_program: 7,
        csa_sec_parms: Vec::new(),
    })
}

async fn begin(env: &Env, address: &str, name: &str) -> Stream {
    let mut stream = env.connect(address).await.unwrap();
    let met = alone(&mut stream, owner(name)).await;
    let nfs_resop4::OP_EXCHANGE_ID(EXCHANGE_ID4res::NFS4_OK(met)) = met else {
        panic!("{met:?}")
    };
    let made = alone(&mut stream, session(met.eir_clientid, met.eir_sequenceid)).await;
    let is_made = matches!(
        made,
        nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::NFS4_OK(_))
    );
    assert!(is_made, "{made:?}");
    stream
}

fn resident_bytes() -> usize {
    #[allow(clippy::disallowed_methods, reason = "asks the system, not a server")]
    let text = String::from_utf8(std::fs::read("/proc/self/statm").unwrap()).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Clients at one gateway, each with a connection of its own, and what each may cost: its session's slots, the
/// connection's two ends, and what else runs in this process meanwhile.
const IDLE_CLIENTS: usize = 10_000;
const IDLE_BYTES: usize = 24 << 10;

#[test]
fn ten_thousand_idle_clients_cost_little_and_are_in_nobodys_way() {
    in_world_quietly(1_002, async |world| {
        let (_group, _servers, [gate]) = cluster(&world).await;
        let env = world.node("idle").env();
        let address = &gate.settings.listen;
        let before = resident_bytes();
        let mut idle = Vec::new();
        for number in 0..IDLE_CLIENTS {
            idle.push(begin(&env, address, &format!("client{number}")).await);
        }
        let each = resident_bytes().saturating_sub(before) / IDLE_CLIENTS;
        println!("{each} bytes for each of {IDLE_CLIENTS}");
        assert!(each < IDLE_BYTES, "{each} bytes for each of {IDLE_CLIENTS}");
        let one = Nfs4::to(&world, &gate, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let start = world.now();
        let (file, state) = one.make(&root, "f").await;
        one.write(&file, &state, 0, b"as ever").await.unwrap();
        let took = world.now() - start;
        assert!(took < SECOND, "{took:?}");
        // Whoever has nothing to say is forgotten after a while.
        for _ in 0..8 {
            world.sleep(60 * SECOND).await;
            one.reconnect(&env, address).await.unwrap();
            let known = one.try_call(vec![owner("client5")]).await.unwrap();
            assert_eq!(known.status, nfsstat4::NFS4_OK);
        }
        for stream in &mut idle {
            let mut room = [0];
            assert!(matches!(stream.read(&mut room).await, Ok(0) | Err(_)));
        }
    });
}

/// A world whose log is nobody's: ten thousand clients would fill it.
fn in_world_quietly(seed: u64, scenario: impl AsyncFnOnce(World) + 'static) {
    let world = World::new(seed);
    world.set_limit(900 * SECOND);
    world.clone().block_on(async move { scenario(world).await });
}

#[test]
fn who_never_reads_what_he_asked_for_is_not_read_from_and_closed() {
    in_world(1_003, async |world| {
        let (_group, _servers, [gate]) = cluster(&world).await;
        let one = Nfs4::to(&world, &gate, 0, "one").await;
        let root = one.walk(&[]).await.unwrap();
        let (file, state) = one.make(&root, "f").await;
        one.write(&file, &state, 0, &vec![7; 1 << 20])
            .await
            .unwrap();
        let env = world.node("deaf").env();
        let mut deaf = env.connect(&gate.settings.listen).await.unwrap();
        let read = nfs3::READ3args {
            file: nfs3::nfs_fh3 { data: file.clone() },
            offset: 0,
            count: 1 << 20,
        };
        // As long as it is read from it asks for more: a megabyte with each call.
        let call = call_of::<nfs3::NFSPROC3_READ>(1, &read);
        let asks = async {
            let mut asked = 0_usize;
            while deaf.write_all(&call).await.is_ok() {
                asked += 1;
                assert!(asked < 20_000, "it is read from without end");
            }
            (asked, world.now())
        };
        let begun = world.now();
        let others = async {
            for round in 0..20_u64 {
                let start = world.now();
                one.write(&file, &state, round, b"as ever").await.unwrap();
                one.read(&file, &state, 0, 1 << 20).await.unwrap();
                let took = world.now() - start;
                // The first one comes when 64 MiB have just been asked for, all at once.
                let most = if round == 0 { 4 * SECOND } else { SECOND };
                assert!(took < most, "round {round}: {took:?}");
                world.sleep(100 * MS).await;
            }
        };
        let ((asked, closed), ()) = futures_util::join!(asks, others);
        let limits = Limits::default();
        let after = closed - begun;
        assert!(
            after > limits.stall && after < 2 * limits.stall,
            "{after:?}"
        );
        // What was served is what may wait to be sent, and what the calls in between may be; the rest are calls in the
        // socket.
        let read = one_figure(&world, &gate, "weft_nfs_read_bytes_total").await;
        let served = read / (1 << 20);
        let most = (limits.unsent_bytes >> 20) + limits.calls + 20 + 2;
        assert!(served as usize <= most, "{served} of {asked} served");
    });
}

#[test]
fn clients_and_their_sessions_have_a_bound() {
    in_world_quietly(1_004, async |world| {
        let (_group, _servers, [gate]) = cluster(&world).await;
        let one = Nfs4::to(&world, &gate, 0, "one").await;
        let env = world.node("many").env();
        let mut stream = env.connect(&gate.settings.listen).await.unwrap();
        // One has been made.
        let mut made = 1;
        let status = loop {
            let answer = alone(&mut stream, session(one.client, made + 1)).await;
            match answer {
                nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::NFS4_OK(_)) => made += 1,
                nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::default(why)) => break why,
                other => panic!("{other:?}"),
            }
            assert!(made < 1_000, "there is no bound");
        };
        assert_eq!(status, nfsstat4::NFS4ERR_NOSPC);
        let destroy = OP_DESTROY_SESSION(DESTROY_SESSION4args {
            dsa_sessionid: one.session,
        });
        alone(&mut stream, destroy).await;
        let again = alone(&mut stream, session(one.client, made + 1)).await;
        let is_made = matches!(
            again,
            nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::NFS4_OK(_))
        );
        assert!(is_made, "{again:?}");
        let mut met = 1;
        let status = loop {
            let name = format!("client{met}");
            match alone(&mut stream, owner(&name)).await {
                nfs_resop4::OP_EXCHANGE_ID(EXCHANGE_ID4res::NFS4_OK(_)) => met += 1,
                nfs_resop4::OP_EXCHANGE_ID(EXCHANGE_ID4res::default(why)) => break why,
                other => panic!("{other:?}"),
            }
            assert!(met < 20_000, "there is no bound");
        };
        assert_eq!(status, nfsstat4::NFS4ERR_DELAY);
        // They are forgotten, and others come in.
        world.sleep(60 * SECOND).await;
        Nfs4::to(&world, &gate, 0, "two").await;
    });
}

/// A figure of a gateway's metrics page.
async fn one_figure(world: &World, gate: &Gate, name: &str) -> u64 {
    let env = world.node("operator").env();
    let mut stream = env.connect(&gate.settings.metrics_listen).await.unwrap();
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    let mut lines = page.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}"))
        .parse()
        .unwrap()
}
