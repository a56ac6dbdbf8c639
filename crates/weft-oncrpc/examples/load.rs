//! How fast calls go over one connection: NFSv3 in front of nothing, on loopback, beside a plain socket that moves
//! the same bytes in the same run.
//!
//! ```text
//! cargo run --release -p weft-oncrpc --example load -- [seconds for each]
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "measures with the machine's own clock, threads and sockets"
)]

use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use weft_oncrpc::{Call, Connection, Credential, Limits, Payload, Program, Replier, serve};
use weft_xdr::Procedure;
use weft_xdr::nfs3::*;
use weft_xdr::rpc::authsys_parms;

const BLOCK: usize = 1 << 20;

/// Answers at once, from nothing.
struct Null {
    block: Bytes,
}

fn attributes() -> fattr3 {
    let time = nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    fattr3 {
        r#type: ftype3::NF3REG,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 1000,
        size: 1 << 40,
        used: 1 << 40,
        rdev: specdata3 {
            specdata1: 0,
            specdata2: 0,
        },
        fsid: 1,
        fileid: 2,
        atime: time.clone(),
        mtime: time.clone(),
        ctime: time,
    }
}

impl Program for Null {
    fn number(&self) -> u32 {
        NFS_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        NFS_V3..=NFS_V3
    }

    fn payload(&self, _version: u32, procedure: u32, arguments: &[u8]) -> Payload {
        if procedure != NFSPROC3_WRITE::NUMBER {
            return Payload::Nowhere;
        }
        let word = |at: usize| {
            let bytes = arguments.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*bytes) as usize)
        };
        // The handle, offset, count, stable, and the data's length.
        let start = word(0).map(|handle| 4 + handle.next_multiple_of(4) + 16);
        match start.and_then(|at| Some((at + 4, word(at)?))) {
            Some((start, length)) => Payload::At { start, length },
            None => Payload::More,
        }
    }

    fn call(&self, _connection: &Connection, call: Call, replier: Replier) {
        match call.procedure {
            NFSPROC3_GETATTR::NUMBER => replier.serve::<NFSPROC3_GETATTR>(call, |_| {
                GETATTR3res::NFS3_OK(GETATTR3resok {
                    obj_attributes: attributes(),
                })
            }),
            NFSPROC3_READ::NUMBER => replier.serve::<NFSPROC3_READ>(call, |arguments| {
                READ3res::NFS3_OK(READ3resok {
                    file_attributes: None,
                    count: arguments.count,
                    eof: false,
                    data: self.block.slice(..arguments.count as usize),
                })
            }),
            NFSPROC3_WRITE::NUMBER => replier.serve::<NFSPROC3_WRITE>(call, |arguments| {
                WRITE3res::NFS3_OK(WRITE3resok {
                    file_wcc: wcc_data {
                        before: None,
                        after: None,
                    },
                    count: arguments.data.len() as u32,
                    committed: stable_how::UNSTABLE,
                    verf: [0; 8],
                })
            }),
            _ => replier.refuse(weft_oncrpc::Refusal::Procedure),
        }
    }
}

fn user() -> Credential {
    Credential::Sys(authsys_parms {
        stamp: 0,
        machinename: Bytes::from_static(b"load"),
        uid: 1000,
        gid: 1000,
        gids: vec![1000, 4, 24, 27],
    })
}

fn handle() -> nfs_fh3 {
    nfs_fh3 {
        data: Bytes::from_static(&[7; 32]),
    }
}

/// Calls a second, with so many on their way.
fn calls<P: Procedure + 'static>(
    address: &str,
    in_flight: usize,
    period: Duration,
    arguments: impl Fn() -> P::Arguments + 'static,
) -> f64
where
    P::Arguments: Clone,
{
    weft_env::real::run(|env| async move {
        let connection = Connection::connect(&env, address, Limits::default(), vec![])
            .await
            .unwrap();
        let (arguments, user) = (arguments(), user());
        let begin = Instant::now();
        let one = || async {
            let mut count = 0u64;
            while begin.elapsed() < period {
                connection.call::<P>(&user, &arguments).await.unwrap();
                count += 1;
            }
            count
        };
        let counts = futures_util::future::join_all((0..in_flight).map(|_| one())).await;
        counts.iter().sum::<u64>() as f64 / begin.elapsed().as_secs_f64()
    })
    .unwrap()
}

/// Round trips a second of a plain socket: so many bytes there and so many back, with so many on their way.
fn plain(there: usize, back: usize, in_flight: usize, period: Duration) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        // As much as is there, so that small ones come and go in batches.
        let mut room = vec![0; there.max(64 << 10)];
        let answer = vec![0; back * (room.len() / there)];
        let mut have = 0;
        loop {
            let got = stream
                .read(&mut room[..there.max(64 << 10) - have])
                .unwrap_or(0);
            if got == 0 {
                return;
            }
            let (whole, rest) = ((have + got) / there, (have + got) % there);
            if stream.write_all(&answer[..whole * back]).is_err() {
                return;
            }
            have = rest;
        }
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let (answered, answers) = mpsc::sync_channel::<u64>(1 << 16);
    let reading = std::thread::spawn(move || {
        let mut room = vec![0; back.max(64 << 10)];
        let mut have = 0;
        while let Ok(got @ 1..) = reader.read(&mut room) {
            let whole = (have + got) / back;
            have = (have + got) % back;
            if whole > 0 && answered.send(whole as u64).is_err() {
                return;
            }
        }
    });
    let message = vec![0; there * in_flight];
    let begin = Instant::now();
    let (mut sent, mut done) = (0u64, 0u64);
    while begin.elapsed() < period {
        let free = in_flight as u64 - (sent - done);
        stream.write_all(&message[..there * free as usize]).unwrap();
        sent += free;
        done += answers.recv().unwrap();
        while let Ok(more) = answers.try_recv() {
            done += more;
        }
    }
    let rate = done as f64 / begin.elapsed().as_secs_f64();
    drop(stream.shutdown(std::net::Shutdown::Both));
    drop(answers);
    server.join().unwrap();
    reading.join().unwrap();
    rate
}

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .map_or(3.0, |text| text.parse().unwrap());
    let period = Duration::from_secs_f64(seconds);
    let (ready, address) = mpsc::channel();
    std::thread::spawn(move || {
        weft_env::real::run(|env| async move {
            let program = Rc::new(Null {
                block: Bytes::from(vec![7; BLOCK]),
            });
            let server = serve(&env, "127.0.0.1:0", Limits::default(), vec![program])
                .await
                .unwrap();
            ready.send(server.address().to_owned()).unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    });
    let address = address.recv().unwrap();
    let gib = |rate: f64| rate * BLOCK as f64 / (1u64 << 30) as f64;

    let rate =
        calls::<NFSPROC3_GETATTR>(&address, 32, period, || GETATTR3args { object: handle() });
    let limit = plain(148, 116, 32, period);
    println!(
        "GETATTR, 32 in flight: {:.0}/s, {:.2} of a plain socket's {:.0}/s",
        rate,
        rate / limit,
        limit
    );

    let data = Bytes::from(vec![3; BLOCK]);
    let rate = calls::<NFSPROC3_WRITE>(&address, 8, period, move || WRITE3args {
        file: handle(),
        offset: 0,
        count: BLOCK as u32,
        stable: stable_how::UNSTABLE,
        data: data.clone(),
    });
    let limit = plain(BLOCK + 172, 52, 8, period);
    println!(
        "WRITE of 1 MiB, 8 in flight: {:.2} GiB/s, {:.2} of a plain socket's {:.2} GiB/s",
        gib(rate),
        rate / limit,
        gib(limit)
    );

    let rate = calls::<NFSPROC3_READ>(&address, 8, period, || READ3args {
        file: handle(),
        offset: 0,
        count: BLOCK as u32,
    });
    let limit = plain(160, BLOCK + 44, 8, period);
    println!(
        "READ of 1 MiB, 8 in flight: {:.2} GiB/s, {:.2} of a plain socket's {:.2} GiB/s",
        gib(rate),
        rate / limit,
        gib(limit)
    );
}
