//! The real environment against the real operating system.

#![allow(clippy::unwrap_used)]

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{OpenMode, real};

fn directory(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("weft-env-{name}-{}", std::process::id()));
    #[allow(clippy::disallowed_methods)]
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn files_are_written_read_punched_and_cut() {
    let dir = directory("file");
    let inside = dir.clone();
    real::run(|env| async move {
        let path = inside.join("file");
        let file = env.open(&path, OpenMode::Create).await.unwrap();
        let large = vec![5u8; 300_000];
        file.write_at(10, vec![vec![1u8; 10].into(), large.clone().into()])
            .await
            .unwrap();
        assert_eq!(file.len().unwrap(), 300_020);
        assert_eq!(&file.read_at(10, 10).await.unwrap()[..], [1; 10]);
        assert_eq!(file.read_at(20, 400_000).await.unwrap(), large);
        assert_eq!(file.read_at(1_000_000, 10).await.unwrap().len(), 0);
        file.punch(4096, 4096).unwrap();
        assert_eq!(file.len().unwrap(), 300_020);
        assert!(
            file.read_at(4096, 4096)
                .await
                .unwrap()
                .iter()
                .all(|&byte| byte == 0)
        );
        file.set_len(15).unwrap();
        file.sync_data().await.unwrap();
        assert_eq!(&file.read_at(0, 100).await.unwrap()[10..], [1; 5]);
        assert!(
            env.open(&inside.join("absent"), OpenMode::Write)
                .await
                .is_err()
        );
        assert_eq!(env.read_file(&inside.join("absent")).await.unwrap(), None);
        env.replace_file(&path, b"new".to_vec()).await.unwrap();
        assert_eq!(env.read_file(&path).await.unwrap().unwrap(), b"new");
        let names: Vec<String> = env
            .read_dir(&inside)
            .unwrap()
            .into_iter()
            .map(|item| item.name)
            .collect();
        assert_eq!(names, ["file"]);
        assert!(env.space(&inside).unwrap().total > 0);
    })
    .unwrap();
    #[allow(clippy::disallowed_methods)]
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn streams_carry_bytes_and_tell_their_end() {
    real::run(|env| async move {
        let mut listener = env.listen("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let echo = env.spawn("echo", async move {
            let mut stream = listener.accept().await.unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        });
        let mut stream = env.connect(&address).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).await.unwrap();
        assert_eq!(back, b"hello");
        assert!(echo.is_finished());
    })
    .unwrap();
}

#[test]
fn a_limit_ends_what_takes_too_long_and_tasks_can_be_aborted() {
    real::run(|env| async move {
        let before = env.now();
        let never = env
            .timeout(Duration::from_millis(5), std::future::pending::<()>())
            .await;
        assert!(never.is_err());
        assert!(env.now().since(before) >= Duration::from_millis(5));
        assert_eq!(
            env.timeout(Duration::from_secs(5), async { 3 }).await,
            Ok(3)
        );
        let task = env.spawn("sleeper", std::future::pending());
        task.abort();
        while !task.is_finished() {
            env.sleep(Duration::from_millis(1)).await;
        }
        assert_ne!(env.random(), env.random());
    })
    .unwrap();
}

#[test]
fn a_page_of_text_is_served() {
    real::run(|env| async move {
        let address = weft_env::serve_text(&env, "127.0.0.1:0", || "weft_up 1\n".into())
            .await
            .unwrap();
        let mut stream = env.connect(&address).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("weft_up 1\n"));
    })
    .unwrap();
}
