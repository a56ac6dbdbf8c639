//! Starting other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a chore returns: the reason in words if it failed.
pub type Outcome = Result<(), String>;

/// The directory that holds the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .to_owned()
}

/// The cargo that started us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command with our output, under a heading; says how long it took.
pub fn step(name: &str, command: &mut Command) -> Outcome {
    println!("== {name}");
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{name}: cannot start {:?}: {error}", command.get_program()))?;
    println!(
        "== {name}: {status}, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    if status.success() {
        Ok(())
    } else {
        Err(name.to_owned())
    }
}

/// True if the program can be started.
pub fn has(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command without showing what it prints, unless it fails.
///
/// # Errors
/// The command and what it printed.
pub fn quiet(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!(
        "{shown}: {}: {}",
        output.status,
        String::from_utf8_lossy(&text).trim()
    ))
}
