//! The name space of a real cluster of two groups is damaged, and repaired while files in it are in use.

use crate::support::{Dev, can_mount};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weft_rpc::{Handler, Local, Payload};
use weft_types::{Ino, Slot};
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{
    AddPart, Cred, FileKind, FinishRequest, Identity, MakePart, MovePart, NamePart, Part, Policy,
    PrepareRequest, TransactionId, identity::Role,
};

/// Slots below are the first group's, the others the second's.
const HALF: u64 = 2048;

/// Has a group do its part of a transaction of which nobody else knows.
fn damage(dev: &Dev, group: u32, number: u64, kind: Kind) {
    let told: Value = serde_json::from_str(&dev.done(&["dev", "status", "--json"])).unwrap();
    let name = ["meta:1", "meta:1.1"][group as usize];
    let processes = told["processes"].as_array().unwrap();
    let server = processes.iter().find(|one| one["name"] == name).unwrap();
    let address = server["address"].as_str().unwrap().to_owned();
    let cluster = fs::read_to_string(dev.directory.join("cluster.toml")).unwrap();
    let cluster: toml::Table = cluster.parse().unwrap();
    let cluster_id = cluster["id"].as_str().unwrap().to_owned();
    weft_env::real::run(async move |env| {
        let local = Local::new(
            cluster_id,
            Identity {
                role: Role::Tool as i32,
                group,
                ..Identity::default()
            },
        );
        let nothing: Handler = Rc::new(|_, _| {});
        let connection = weft_rpc::connect(&env, &address, &local, nothing);
        let connection = connection.await.unwrap();
        let transaction = Some(TransactionId {
            home: 1 - group,
            epoch: 1,
            number: (1 << 40) + number,
        });
        let prepare = PrepareRequest {
            transaction,
            cred: Some(Cred::default()),
            parts: vec![Part {
                part: Some(kind),
                ..Part::default()
            }],
            ..PrepareRequest::default()
        };
        let prepared = connection.call(&prepare, Payload::none()).await.unwrap().0;
        assert_eq!(prepared.failure_errno, 0, "{prepare:?}");
        let finish = FinishRequest {
            transaction,
            done: true,
            ..FinishRequest::default()
        };
        connection.call(&finish, Payload::none()).await.unwrap();
    })
    .unwrap();
}

fn ino(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// A directory of this group.
fn directory_of(mount: &Path, group: u64) -> PathBuf {
    let all = (0..).map(|number| mount.join(format!("d{number}")));
    let mut new = all.filter(|path| !path.exists());
    new.find(|path| {
        fs::create_dir(path).unwrap();
        let found = u64::from(ino(path) >> 52 >= HALF);
        if found != group {
            fs::remove_dir(path).unwrap();
        }
        found == group
    })
    .unwrap()
}

#[test]
fn a_damaged_name_space_is_repaired_while_it_is_in_use() {
    if !can_mount() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let more = [
        "--mount",
        mount.to_str().unwrap(),
        "--pairs",
        "1",
        "--members",
        "1",
        "--groups",
        "2",
    ];
    let dev = Dev::up(&base.path().join("dev"), &more);
    let [zero, one] = [0, 1].map(|group| directory_of(&mount, group));
    let moved = directory_of(&mount, 1);
    for (directory, name) in [(&zero, "nameless"), (&one, "twice"), (&moved, "stays")] {
        fs::write(directory.join(name), name).unwrap();
    }
    let (nameless, twice) = (ino(&zero.join("nameless")), ino(&one.join("twice")));
    let never = Ino::new(Slot(7), 1 << 30).0;
    let damages = [
        // A name of nothing.
        (
            1,
            Kind::Name(NamePart {
                directory: ino(&one),
                name: "ghost".into(),
                ino: never,
                kind: FileKind::Regular as i32,
                ..NamePart::default()
            }),
        ),
        // A link too many.
        (
            1,
            Kind::Add(AddPart {
                ino: twice,
                unnamed: false,
            }),
        ),
        // A directory without a name.
        (
            1,
            Kind::Make(MakePart {
                slot: 4000,
                parent: 1,
                mode: 0o755,
                policy: Some(Policy::default()),
                ..MakePart::default()
            }),
        ),
        // A file that has lost its only name.
        (
            0,
            Kind::Name(NamePart {
                directory: ino(&zero),
                name: "nameless".into(),
                expected: Some(nameless),
                ..NamePart::default()
            }),
        ),
        // A directory that says that it is elsewhere.
        (
            1,
            Kind::Move(MovePart {
                ino: ino(&moved),
                parent: ino(&zero),
                exempt: true,
                ..MovePart::default()
            }),
        ),
    ];
    for (number, (group, kind)) in damages.into_iter().enumerate() {
        damage(&dev, group, number as u64, kind);
    }

    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let [from, to] = [&zero, &one].map(|directory| directory.join("busy"));
                fs::write(&from, format!("round {round}")).unwrap();
                fs::rename(&from, &to).unwrap();
                assert_eq!(fs::read_to_string(&to).unwrap(), format!("round {round}"));
                fs::remove_file(&to).unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        // What would be done, and nothing is.
        let output = dev.tool(&["fsck", "--meta"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(4), "{text}");
        for part in [
            "entry \"ghost\"",
            "; with --repair the entry is removed",
            "it gets a name in /lost+found",
            "has 2 links, and 1 names",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!mount.join("lost+found").exists());

        let output = dev.tool(&["fsck", "--meta", "--repair", "--json"]);
        stop.store(true, Ordering::Relaxed);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}\n{}", dev.logs());
        serde_json::from_str::<Value>(&text).unwrap()
    });
    println!("{} rounds: {told}", rounds.load(Ordering::Relaxed));
    assert_eq!(told["sound"], true, "{told}");
    let kinds = told["repaired"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|one| one["kind"].as_str().unwrap()).collect();
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let wanted = [
        "entry_removed",
        "links_set",
        "parent_set",
        "put_in_lost_and_found",
    ];
    assert_eq!(sorted, wanted, "{told}");

    // What a mount sees of it.
    let found = mount.join("lost+found");
    let names: BTreeSet<String> = fs::read_dir(&found)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let file = found.join(format!("ino-{nameless}"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "nameless");
    fs::rename(&file, zero.join("nameless")).unwrap();
    assert!(!one.join("ghost").exists());
    assert_eq!(fs::metadata(one.join("twice")).unwrap().nlink(), 1);
    assert_eq!(fs::read_to_string(moved.join("stays")).unwrap(), "stays");
    fs::rename(&moved, one.join("moved")).unwrap();

    // Once is enough.
    let again = dev.done(&["fsck", "--meta", "--repair"]);
    assert!(
        again.contains("nothing is wrong") && !again.contains("repaired:"),
        "{again}"
    );
    dev.end();
}
