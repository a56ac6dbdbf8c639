//! A source tree: several thousand files of the sizes that source code has.

use super::measure::{Count, Report};
use super::{Scratch, drop_caches, next};
use crate::error::Result;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories and files in each: a project of the size of git.
const DIRECTORIES: usize = 220;
const FILES_EACH: usize = 20;

/// What is searched for; stands in every hundredth file.
const NEEDLE: &[u8] = b"warp_and_weft(";

struct Node {
    path: PathBuf,
    content: Vec<u8>,
}

/// The same tree every time: lines of words, most files of a few KiB, some of a hundred.
fn tree() -> (Vec<PathBuf>, Vec<Node>) {
    let mut state = 42;
    let mut directories = vec![PathBuf::from("src")];
    for at in 1..DIRECTORIES {
        let parent = (next(&mut state) % at as u64) as usize;
        directories.push(directories[parent].join(format!("part{at}")));
    }
    let mut nodes = Vec::new();
    for directory in &directories {
        for at in 0..FILES_EACH {
            // Two dice: many small, few large.
            let (one, two) = (next(&mut state) % 300, next(&mut state) % 300);
            let length = 200 + (one * two) as usize;
            let mut content = Vec::with_capacity(length + 80);
            while content.len() < length {
                let word = next(&mut state);
                content.extend_from_slice(
                    format!("    let v{:x} = {:x};\n", word & 0xfff, word >> 40).as_bytes(),
                );
            }
            if nodes.len() % 100 == 0 {
                content.extend_from_slice(NEEDLE);
            }
            nodes.push(Node {
                path: directory.join(format!("file{at}.rs")),
                content,
            });
        }
    }
    (directories, nodes)
}

fn files_below(directory: &Path, visit: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files_below(&entry.path(), visit)?;
        } else {
            visit(&entry.path())?;
        }
    }
    Ok(())
}

/// Runs all figures.
pub fn run(scratch: &Path, report: &Report) -> Result<()> {
    let top = Scratch::inside(scratch, "tree")?;
    let (directories, nodes) = tree();
    let case = format!("{} entries", directories.len() + nodes.len());
    let wrong = |what: &str| io::Error::other(format!("the tree came back different: {what}"));
    report.figure("tree", "unpack", &case, Count::Time, 1, |job| {
        for directory in &directories {
            job.operation(0, || fs::create_dir(top.join(directory)))?;
        }
        for node in &nodes {
            job.operation(node.content.len() as u64, || {
                fs::write(top.join(&node.path), &node.content)
            })?;
        }
        Ok(())
    })?;
    drop_caches();
    report.figure("tree", "find", &case, Count::Time, 1, |job| {
        let (mut found, mut bytes) = (0, 0);
        files_below(&top, &mut |path| {
            bytes += job.operation(0, || fs::symlink_metadata(path))?.size();
            found += 1;
            Ok(())
        })?;
        let expected: usize = nodes.iter().map(|node| node.content.len()).sum();
        if found == nodes.len() && bytes == expected as u64 {
            Ok(())
        } else {
            Err(wrong(&format!("{found} files of {bytes} bytes")))
        }
    })?;
    drop_caches();
    report.figure("tree", "grep", &case, Count::Time, 1, |job| {
        let mut hits = 0;
        files_below(&top, &mut |path| {
            let content = job.operation(0, || fs::read(path))?;
            if content.windows(NEEDLE.len()).any(|window| window == NEEDLE) {
                hits += 1;
            }
            Ok(())
        })?;
        if hits == nodes.len().div_ceil(100) {
            Ok(())
        } else {
            Err(wrong(&format!("{hits} hits")))
        }
    })?;
    report.figure("tree", "remove", &case, Count::Time, 1, |job| {
        job.operation(0, || fs::remove_dir_all(&top))
    })
}
