//! The page of metrics, and the operators' table of it.

use crate::support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_meta::{METRICS, Settings};

const TABLE: &str = include_str!("../../../../docs/operating/metrics.md");

#[test]
fn every_metric_is_served_and_stands_in_the_table() {
    run(|env, dir| async move {
        let settings = Settings {
            metrics_listen: Some("127.0.0.1:0".into()),
            ..settings(&dir)
        };
        let server = begin(&env, settings).await;
        let client = Client::open(&env, server.address()).await;
        client.mkdir(1, "d").await;
        let mut stream = env
            .connect(server.metrics_address().unwrap())
            .await
            .unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        for (name, unit, _) in METRICS {
            let kind = page
                .lines()
                .find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")))
                .unwrap_or_else(|| panic!("{name} is not served"));
            let total = if kind == "counter" { "_total" } else { "" };
            let row = format!("| `{name}{total}` | {kind} | {unit} |");
            assert!(TABLE.contains(&row), "the table lacks: {row}");
        }
        assert!(page.contains("weft_meta_inodes 2\n"), "{page}");
        assert!(
            page.contains("weft_meta_requests_total{message=\"ChangeRequest\"} 1\n"),
            "{page}"
        );
        let known = |name: &str| METRICS.iter().any(|(known, _, _)| *known == name);
        for row in TABLE.lines().filter(|row| row.starts_with("| `weft_meta_")) {
            let name = row.split('`').nth(1).unwrap();
            let name = name.strip_suffix("_total").unwrap_or(name);
            assert!(known(name), "the table has {name}, which is not served");
        }
        server.stop().await;
    });
}
