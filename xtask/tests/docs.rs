//! The pages under docs/ name files of the source in backticks; each of them must be there, so that
//! a reader who follows the life of a request never ends at a file that was renamed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// What stands between backticks and looks like a path of the source.
fn named_files(page: &str) -> Vec<(usize, &str)> {
    page.lines()
        .enumerate()
        .flat_map(|(at, line)| {
            line.split('`')
                .skip(1)
                .step_by(2)
                .filter(|word| {
                    ["crates/", "proto/", "xtask/"]
                        .iter()
                        .any(|p| word.starts_with(p))
                })
                .filter(|word| !word.contains(['*', '{', ' ', '<']))
                .map(move |word| (at + 1, word))
        })
        .collect()
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let root = root();
    let mut found = Vec::new();
    pages(&root.join("docs"), &mut found);
    let mut missing = Vec::new();
    let mut checked = 0;
    for path in &found {
        let page = std::fs::read_to_string(path).unwrap();
        for (line, file) in named_files(&page) {
            checked += 1;
            if !root.join(file).exists() {
                missing.push(format!(
                    "{}:{line}: {file}",
                    path.strip_prefix(&root).unwrap().display()
                ));
            }
        }
    }
    assert!(
        checked > 0,
        "no page names a file: the test looks in the wrong place"
    );
    assert!(
        missing.is_empty(),
        "pages name files that are not there:\n{}",
        missing.join("\n")
    );
}

#[test]
fn the_life_of_a_write_a_read_and_a_create_is_told() {
    for page in ["a-write.md", "a-read.md", "a-create.md"] {
        let text = std::fs::read_to_string(root().join("docs/protocols").join(page)).unwrap();
        let named = named_files(&text);
        assert!(
            named.len() >= 4,
            "{page} follows a request through its files"
        );
    }
}
