//! Pages of the documentation, and the commands on them.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// What stands behind its fence.
    pub info: String,
    /// The page's line at which it begins.
    pub line: usize,
    pub text: String,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The fenced blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut found: Vec<Block> = Vec::new();
    let mut is_inside = false;
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), is_inside) {
            (Some(info), false) => {
                found.push(Block {
                    info: info.trim().to_owned(),
                    line: at + 1,
                    text: String::new(),
                });
                is_inside = true;
            }
            (Some(_), true) => is_inside = false,
            (None, true) => {
                let block = found.last_mut().unwrap();
                block.text += line;
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    assert!(!is_inside, "{page}: a fence is not closed");
    found
}
