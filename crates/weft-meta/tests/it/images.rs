//! Images: written while the server serves, read by the next one, passed over when damaged.

use crate::support;
use crate::support::*;
use std::path::Path;
use weft_meta::{Settings, start};
use weft_rpc::Payload;
use weft_wire::proto::*;

fn images(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|item| item.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("image-")
        })
        .collect();
    found.sort();
    found
}

async fn status(env: &weft_env::Env, address: &str) -> StatusReply {
    tool(env, address)
        .await
        .call(&StatusRequest {}, Payload::none())
        .await
        .unwrap()
        .0
}

#[test]
fn a_restart_reads_image_and_journal_and_a_damaged_image_is_passed_over() {
    run(|env, dir| async move {
        let often = Settings {
            image_every_entries: 40,
            ..settings(&dir)
        };
        let server = begin(&env, often.clone()).await;
        let client = Client::open(&env, server.address()).await;
        client.keep_alive();
        let mut made = 0;
        // An image is due when half as many entries have come as there were inodes.
        for (round, count) in [50, 60, 70, 100].into_iter().enumerate() {
            for _ in 0..count {
                client.mkdir(1, &format!("d{made}")).await;
                made += 1;
            }
            let wanted = (round + 1).min(2);
            until(&env, "an image is written", || {
                let all = images(&dir);
                all.len() == wanted && all.iter().all(|path| path.extension().is_none())
            })
            .await;
            env.sleep(std::time::Duration::from_millis(600)).await;
        }
        client.mkdir(1, "after the image").await;
        let before = status(&env, server.address()).await;
        server.stop().await;

        let server = begin(&env, often.clone()).await;
        let after = status(&env, server.address()).await;
        assert_eq!(
            (after.inodes, after.epoch),
            (before.inodes, before.epoch + 1)
        );
        server.stop().await;

        // A bit of the newest one goes over: the older one and the journal say the same.
        let newest = images(&dir).pop().unwrap();
        let mut bytes = std::fs::read(&newest).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&newest, bytes).unwrap();
        let server = begin(&env, often.clone()).await;
        let again = status(&env, server.address()).await;
        assert_eq!(
            (again.inodes, again.epoch),
            (before.inodes, before.epoch + 2)
        );
        server.stop().await;

        // Both damaged: the journal is still there from its beginning.
        for path in images(&dir) {
            std::fs::write(path, b"nothing").unwrap();
        }
        let server = begin(&env, often.clone()).await;
        assert_eq!(status(&env, server.address()).await.inodes, before.inodes);
        server.stop().await;

        // Without its beginning there is nothing to go on from, and that is said.
        let mut segments: Vec<_> = std::fs::read_dir(dir.join("journal"))
            .unwrap()
            .map(|item| item.unwrap().path())
            .collect();
        segments.sort();
        std::fs::remove_file(&segments[0]).unwrap();
        let error = start(env.clone(), often).await.err().unwrap().to_string();
        assert!(error.contains("here should be batch 1,"), "{error}");
    });
}

#[test]
fn a_damaged_journal_is_refused_and_a_torn_one_is_cut() {
    run(|env, dir| async move {
        let server = server(&env, &dir).await;
        let client = Client::open(&env, server.address()).await;
        for i in 0..20 {
            client.mkdir(1, &format!("d{i}")).await;
        }
        server.stop().await;
        let journal = std::fs::read_dir(dir.join("journal"))
            .unwrap()
            .next()
            .unwrap();
        let path = journal.unwrap().path();
        let good = std::fs::read(&path).unwrap();

        // Zeros follow the last batch.
        let end = good.iter().rposition(|byte| *byte != 0).unwrap();
        let torn = &good[..end - 2];
        std::fs::write(&path, torn).unwrap();
        let server = support::server(&env, &dir).await;
        assert_eq!(status(&env, server.address()).await.inodes, 20);
        server.stop().await;

        // Nineteen directories are left, and two reigns more; damage in their middle is refused.
        let mut damaged = std::fs::read(&path).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let error = start(env.clone(), settings(&dir))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("damaged at byte") && error.contains(".journal"),
            "{error}"
        );
    });
}
