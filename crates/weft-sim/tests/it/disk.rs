//! Files: what is read back, what survives, what goes wrong.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;
use weft_env::{Env, OpenMode};
use weft_sim::{DiskFaults, Node, World};

const MS: Duration = Duration::from_millis(1);

fn run<F, Fut>(seed: u64, scenario: F)
where
    F: FnOnce(World, Node, Env) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(100));
    let node = world.node("disk");
    let env = node.env();
    let scenario = scenario(world.clone(), node, env);
    world.block_on(scenario);
}

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn files_behave_as_files() {
    run(1, |_, node, env| async move {
        let kind = |error: io::Error| error.kind();
        assert_eq!(
            env.open(path("/x/f"), OpenMode::Create)
                .await
                .err()
                .map(kind),
            Some(io::ErrorKind::NotFound)
        );
        env.create_dir_all(path("/x/y")).unwrap();
        let file = env.open(path("/x/f"), OpenMode::Create).await.unwrap();
        file.write_at(10_000, vec![Bytes::from_static(b"abc"), "def".into()])
            .await
            .unwrap();
        assert_eq!(file.len().unwrap(), 10_006);
        assert_eq!(&file.read_at(9_998, 100).await.unwrap()[..], b"\0\0abcdef");
        assert_eq!(file.read_at(20_000, 5).await.unwrap().len(), 0);
        file.punch(10_001, 2).unwrap();
        assert_eq!(&file.read_at(10_000, 6).await.unwrap()[..], b"a\0\0def");
        file.set_len(10_001).unwrap();
        file.set_len(10_003).unwrap();
        assert_eq!(&file.read_at(10_000, 6).await.unwrap()[..], b"a\0\0");
        let names: Vec<String> = env
            .read_dir(path("/x"))
            .unwrap()
            .into_iter()
            .map(|item| format!("{}{}", item.name, if item.is_dir { "/" } else { "" }))
            .collect();
        assert_eq!(names, ["f", "y/"]);
        env.rename(path("/x/f"), path("/x/y/g")).unwrap();
        assert!(env.read_file(path("/x/f")).await.unwrap().is_none());
        env.remove_file(path("/x/y/g")).unwrap();
        assert_eq!(file.len().unwrap(), 10_003, "open files stay");
        assert!(node.disk().used() > 0);
        drop(file);
        assert_eq!(node.disk().used(), 0);
        assert_eq!(
            env.remove_file(path("/x/y/g")).err().map(kind),
            Some(io::ErrorKind::NotFound)
        );
        let reader = env.open(path("/x/f"), OpenMode::CreateEmpty).await.unwrap();
        drop(reader);
        let reader = env.open(path("/x/f"), OpenMode::Read).await.unwrap();
        assert!(reader.write_at(0, vec!["x".into()]).await.is_err());
    });
}

#[test]
fn a_kill_keeps_what_was_written() {
    run(2, |world, node, env| async move {
        let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
        file.write_at(0, vec![vec![7; 9000].into()]).await.unwrap();
        node.kill();
        assert!(file.read_at(0, 1).await.is_err(), "the process is dead");
        let content = node.env().read_file(path("/f")).await.unwrap().unwrap();
        assert_eq!(content, vec![7; 9000]);
        drop(world);
    });
}

#[test]
fn a_kill_leaves_any_first_part_of_a_write_in_flight() {
    let mut lengths = BTreeSet::new();
    for seed in 0..400 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        world.block_on(async move {
            let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
            // Not waited for: the write goes on by itself.
            drop(file.write_at(0, vec![vec![7; 9000].into()]));
            let write = file.write_at(0, vec![vec![7; 9000].into()]);
            let _: Result<_, _> = env.timeout(Duration::from_nanos(1), write).await;
            victim.kill();
        });
        let content = node.disk().content("/f").unwrap();
        assert!(content.iter().all(|&byte| byte == 7));
        lengths.insert(content.len());
    }
    let lengths: Vec<usize> = lengths.into_iter().collect();
    assert_eq!(lengths, [0, 4096, 8192, 9000]);
}

#[test]
fn a_sync_that_ends_late_takes_nothing_back() {
    for seed in 0..40 {
        run(seed, |_, node, env| async move {
            let open = |mode| env.open(path("/f"), mode);
            let file = open(OpenMode::Create).await.unwrap();
            env.sync_dir(path("/")).await.unwrap();
            let old = Bytes::from_static(b"old");
            file.write_at(0, vec![old]).await.unwrap();
            // Which of the two ends first the seed says.
            let older = file.sync_data();
            let newer = async {
                let bytes = Bytes::from_static(b"newer");
                file.write_at(0, vec![bytes]).await.unwrap();
                file.sync_data().await
            };
            let (older, newer) = futures_util::future::join(older, newer).await;
            older.and(newer).unwrap();
            node.power_cut();
            assert_eq!(
                &node.disk().content("/f").unwrap()[..],
                b"newer",
                "seed {seed}"
            );
        });
    }
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_anything_of_the_rest() {
    let mut outcomes = BTreeSet::new();
    let mut torn = 0;
    for seed in 0..60 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        world.block_on(async move {
            let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
            file.write_at(0, vec![vec![1; 8192].into()]).await.unwrap();
            file.sync_data().await.unwrap();
            env.sync_dir(path("/")).await.unwrap();
            file.write_at(4096, vec![vec![2; 4096].into()])
                .await
                .unwrap();
            file.write_at(8192, vec![vec![3; 4096].into()])
                .await
                .unwrap();
            victim.power_cut();
        });
        let content = node.disk().content("/f").unwrap();
        assert!(content.len() >= 8192);
        assert!(content[..4096].iter().all(|&byte| byte == 1));
        assert!(
            content[4096..8192]
                .iter()
                .all(|&byte| byte == 1 || byte == 2)
        );
        assert!(content[8192..].iter().all(|&byte| byte == 0 || byte == 3));
        for sector in content[4096..8192].chunks(512) {
            assert!(sector.iter().all(|&byte| byte == sector[0]));
        }
        let twos = content[4096..8192]
            .iter()
            .filter(|&&byte| byte == 2)
            .count();
        torn += usize::from(twos != 0 && twos != 4096);
        outcomes.insert((twos, content.len()));
    }
    assert!(torn > 5, "{torn}");
    assert!(outcomes.len() > 20, "{}", outcomes.len());
}

#[test]
fn a_sync_covers_what_had_returned_and_nothing_later() {
    let mut lost = 0;
    for seed in 0..40 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        world.block_on(async move {
            let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
            env.sync_dir(path("/")).await.unwrap();
            file.write_at(0, vec![vec![1; 4096].into()]).await.unwrap();
            let sync = file.sync_data();
            let late = async {
                file.write_at(0, vec![vec![2; 4096].into()]).await.unwrap();
            };
            let (synced, ()) = futures_util::future::join(sync, late).await;
            synced.unwrap();
            victim.power_cut();
        });
        let content = node.disk().content("/f").unwrap();
        assert_eq!(content.len(), 4096);
        assert!(content.iter().all(|&byte| byte == 1 || byte == 2));
        lost += usize::from(content.contains(&1));
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn names_are_durable_after_a_sync_of_the_directory() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        world.block_on(async move {
            env.create_dir_all(path("/d")).unwrap();
            env.sync_dir(path("/")).await.unwrap();
            for name in ["/d/kept", "/d/old"] {
                let file = env.open(path(name), OpenMode::Create).await.unwrap();
                file.write_at(0, vec![Bytes::copy_from_slice(name.as_bytes())])
                    .await
                    .unwrap();
                file.sync_data().await.unwrap();
            }
            env.sync_dir(path("/d")).await.unwrap();
            env.rename(path("/d/old"), path("/d/new")).unwrap();
            env.open(path("/d/fresh"), OpenMode::Create).await.unwrap();
            victim.power_cut();
        });
        let names: Vec<String> = node
            .disk()
            .files()
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert!(names.contains(&"/d/kept".to_owned()));
        // A rename is done or not, never half.
        let old = names.contains(&"/d/old".to_owned());
        let new = names.contains(&"/d/new".to_owned());
        assert!(old != new, "{names:?}");
        let content = node
            .disk()
            .content(if old { "/d/old" } else { "/d/new" })
            .unwrap();
        assert_eq!(&content[..], b"/d/old");
        seen.insert(names);
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn replace_file_is_all_or_nothing() {
    for seed in 0..60 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        let handle = world.clone();
        world.block_on(async move {
            env.replace_file(path("/state"), b"first".to_vec())
                .await
                .unwrap();
            let inner = env.clone();
            env.spawn("replace", async move {
                let _ = inner.replace_file(path("/state"), b"second".to_vec()).await;
            });
            handle.sleep(MS * (handle.seed() % 8) as u32).await;
            victim.power_cut();
        });
        let content = node.disk().content("/state").unwrap();
        assert!(&content[..] == b"first" || &content[..] == b"second");
    }
}

#[test]
fn errors_on_demand() {
    run(3, |_, node, env| async move {
        let disk = node.disk();
        let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
        let errno = |result: io::Result<()>| result.err().and_then(|error| error.raw_os_error());
        file.write_at(0, vec![vec![1; 4096].into()]).await.unwrap();
        disk.set_faults(DiskFaults {
            read_error_ppm: 1_000_000,
            write_error_ppm: 1_000_000,
            sync_error_ppm: 1_000_000,
            ..DiskFaults::default()
        });
        assert_eq!(errno(file.read_at(0, 1).await.map(|_| ())), Some(libc::EIO));
        assert_eq!(
            errno(file.write_at(0, vec!["x".into()]).await),
            Some(libc::EIO)
        );
        assert_eq!(errno(file.sync_data().await), Some(libc::EIO));
        disk.set_faults(DiskFaults::default());
        disk.set_capacity(disk.used() + 4096);
        assert_eq!(
            errno(file.write_at(4096, vec![vec![1; 8192].into()]).await),
            Some(libc::ENOSPC)
        );
        file.set_len(4096).unwrap();
        file.write_at(4096, vec![vec![1; 4096].into()])
            .await
            .unwrap();
        assert_eq!(env.space(path("/")).unwrap().free, 0);
        file.write_at(0, vec![vec![2; 4096].into()]).await.unwrap();
    });
}

#[test]
fn what_a_failed_sync_lost_stays_lost() {
    let mut lost = 0;
    for seed in 0..20 {
        let world = World::new(seed);
        let node = world.node("disk");
        let env = node.env();
        let victim = node.clone();
        world.block_on(async move {
            let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
            env.sync_dir(path("/")).await.unwrap();
            file.write_at(0, vec![vec![1; 4096].into()]).await.unwrap();
            victim.disk().set_faults(DiskFaults {
                sync_error_ppm: 1_000_000,
                ..DiskFaults::default()
            });
            file.sync_data().await.unwrap_err();
            victim.disk().set_faults(DiskFaults::default());
            file.sync_data().await.unwrap();
            victim.power_cut();
        });
        let content = node.disk().content("/f").unwrap();
        lost += usize::from(!content.contains(&1));
    }
    assert_eq!(lost, 20);
}

#[test]
fn bits_flip_where_they_are_told_to() {
    run(4, |_, node, env| async move {
        env.create_dir_all(path("/o")).unwrap();
        for name in ["/o/a.data", "/o/b.other", "/c.data"] {
            let file = env.open(path(name), OpenMode::Create).await.unwrap();
            file.write_at(0, vec![vec![0; 10_000].into()])
                .await
                .unwrap();
        }
        let disk = node.disk();
        let hit = disk.flip_bit("/o", |path| {
            path.extension().is_some_and(|end| end == "data")
        });
        let (path, offset) = hit.unwrap();
        assert_eq!(path, Path::new("/o/a.data"));
        let content = disk.content("/o/a.data").unwrap();
        assert_eq!(content[offset as usize].count_ones(), 1);
        assert_eq!(content.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert!(disk.flip_bit("/none", |_| true).is_none());
    });
}

#[test]
fn a_hung_device_answers_later() {
    run(5, |_, node, env| async move {
        let file = env.open(path("/f"), OpenMode::Create).await.unwrap();
        node.disk().set_hung(true);
        let write = file.write_at(0, vec!["abc".into()]);
        assert!(env.timeout(1000 * MS, write).await.is_err());
        let inner = env.clone();
        let disk = node.disk();
        env.spawn("thaw", async move {
            inner.sleep(100 * MS).await;
            disk.set_hung(false);
        });
        assert_eq!(&file.read_at(0, 3).await.unwrap()[..], b"abc");
    });
}
