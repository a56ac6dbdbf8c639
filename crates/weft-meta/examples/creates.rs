//! How fast one metadata server creates files: `cargo run --release --example creates -- [sync]`.
//!
//! Server and client run in threads of their own. Prints the time of one create after another, and the
//! rate and the server's processor time with many under way.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use futures_util::future::join_all;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;
use weft_env::real;
use weft_journal::SyncPolicy;
use weft_meta::{JournalSettings, Settings, start};
use weft_rpc::{Handler, Local, Payload, connect};
use weft_wire::Rpc;
use weft_wire::proto::*;

const SERIAL: u64 = 5_000;
const PIPELINED: u64 = 200_000;
const OUTSTANDING: u64 = 64;

fn thread_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable and zero is a valid value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn main() {
    let sync = match std::env::args().nth(1).as_deref() {
        Some("always") => SyncPolicy::Always,
        Some("group") => SyncPolicy::Group,
        _ => SyncPolicy::Never,
    };
    let dir = std::env::temp_dir().join(format!("weft-creates-{}", std::process::id()));
    let (tell, address) = mpsc::channel::<String>();
    let (ask_cpu, asked) = mpsc::channel::<mpsc::Sender<Duration>>();
    let server_dir = dir.clone();
    std::thread::spawn(move || {
        real::run(|env| async move {
            let settings = Settings {
                dir: server_dir,
                listen: "127.0.0.1:0".into(),
                journal: JournalSettings { sync },
                ..Settings::default()
            };
            let server = start(env.clone(), settings).await.unwrap();
            tell.send(server.address().to_owned()).unwrap();
            loop {
                if let Ok(answer) = asked.try_recv() {
                    answer.send(thread_cpu()).unwrap();
                }
                env.sleep(Duration::from_millis(5)).await;
            }
        })
        .unwrap();
    });
    let address = address.recv().unwrap();
    let server_cpu = move || {
        let (answer, answered) = mpsc::channel();
        ask_cpu.send(answer).unwrap();
        answered.recv().unwrap()
    };
    real::run(|env| async move {
        let local = |role: identity::Role| Local::new("weft".into(), Identity { role: role as i32, ..Default::default() });
        // Data servers that register, so that files can be made.
        let mut members = Vec::new();
        for member in 0..2 {
            let quiet: Handler = Rc::new(|_, request| {
                if request.method == SetStateRequest::METHOD {
                    request.replier.send::<SetStateRequest>(&SetStateReply {}, Payload::none());
                }
            });
            let connection =
                connect(&env, &address, &local(identity::Role::Data), quiet).await.unwrap();
            let register = RegisterRequest {
                member,
                address: "127.0.0.1:1".into(),
                store_id: format!("{member}"),
                ..Default::default()
            };
            let calling = connection.clone();
            env.spawn("register", async move {
                calling.call(&register, Payload::none()).await.unwrap();
            });
            members.push(connection);
        }
        env.sleep(Duration::from_millis(200)).await;
        let silent: Handler = Rc::new(|_, _| {});
        let connection =
            connect(&env, &address, &local(identity::Role::Client), silent).await.unwrap();
        let (session, _) =
            connection.call(&SessionRequest::default(), Payload::none()).await.unwrap();
        let create = |number: u64| ChangeRequest {
            session: session.session,
            epoch: session.epoch,
            operation: number + 1,
            acknowledged_below: (number + 1).saturating_sub(OUTSTANDING * 2),
            cred: Some(Cred::default()),
            op: Some(Op {
                op: Some(op::Op::Create(Create {
                    parent: 1,
                    name: format!("file-{number}").into(),
                    kind: FileKind::Regular as i32,
                    mode: 0o644,
                    exclusive: true,
                    ..Default::default()
                })),
            }),
            want_leases: true,
        };
        let renewing = connection.clone();
        let renew = RenewRequest { session: session.session, epoch: session.epoch, ..Default::default() };
        let inner = env.clone();
        env.spawn("renew", async move {
            while renewing.call(&renew, Payload::none()).await.is_ok() {
                inner.sleep(Duration::from_millis(500)).await;
            }
        });
        let (calling, create) = (&connection, &create);
        let one = |number| async move {
            let (reply, _) = calling.call(&create(number), Payload::none()).await.unwrap();
            assert!(reply.reply.unwrap().created);
        };

        let one = &one;

        let mut times = Vec::new();
        let cpu = server_cpu();
        for number in 0..SERIAL {
            let begin = env.now();
            one(number).await;
            times.push(env.now().since(begin));
        }
        let cpu = server_cpu() - cpu;
        times.sort();
        println!(
            "{sync:?}: one after another: median {:?}, 99 % {:?}; server {:?} each",
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            cpu / SERIAL as u32
        );

        let (begin, cpu) = (env.now(), server_cpu());
        let lanes = (0..OUTSTANDING).map(|lane| async move {
            let mut number = SERIAL + lane;
            while number < SERIAL + PIPELINED {
                one(number).await;
                number += OUTSTANDING;
            }
        });
        join_all(lanes).await;
        let took = env.now().since(begin);
        let cpu = server_cpu() - cpu;
        println!(
            "{sync:?}: {OUTSTANDING} under way: {:.0} creates/s; server {:?} each, {:.0}/s of its core",
            PIPELINED as f64 / took.as_secs_f64(),
            cpu / PIPELINED as u32,
            PIPELINED as f64 / cpu.as_secs_f64()
        );
    })
    .unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}
