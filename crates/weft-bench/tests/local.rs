//! Every workload on a plain directory: all figures come, nothing fails, nothing is left behind.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::time::Duration;
use weft_bench::{
    Bench, Direct, Figure, IoPlan, MetaPlan, Processes, TreePlan, run_io, run_meta, run_split,
    run_tree,
};

#[test]
fn all_workloads_run_on_a_plain_directory() {
    let directory = std::env::temp_dir().join(format!("weft-bench-test-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("tree")).unwrap();
    std::fs::write(directory.join("tree/file"), "a word").unwrap();
    let archive = directory.join("tree.tar");
    let packed = std::process::Command::new("tar")
        .arg("cf")
        .arg(&archive)
        .arg("-C")
        .arg(&directory)
        .arg("tree")
        .status()
        .unwrap();
    assert!(packed.success());
    let work = directory.join("work");
    std::fs::create_dir_all(&work).unwrap();

    let mut figures: Vec<Figure> = Vec::new();
    let mut report = |figure| figures.push(figure);
    let processes = Processes::none();
    let mut bench = Bench {
        directory: &work,
        processes: &processes,
        cold: false,
        report: &mut report,
    };
    let plan = IoPlan {
        file_mib: 8,
        random_time: Duration::from_millis(20),
        direct: Direct::No,
    };
    run_io(&mut bench, &plan).unwrap();
    run_meta(
        &mut bench,
        &MetaPlan {
            files: 20,
            workers: vec![1, 2],
            small_files: 10,
        },
    )
    .unwrap();
    run_tree(
        &mut bench,
        &TreePlan {
            archive,
            word: "word".into(),
        },
    )
    .unwrap();
    run_split(&mut bench, 1).unwrap();

    assert_eq!(figures.len(), 9 + 16 + 2 + 4 + 4);
    for figure in &figures {
        assert_eq!(figure.errors, 0, "{figure:?}");
        assert!(figure.value > 0.0, "{figure:?}");
    }
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}
