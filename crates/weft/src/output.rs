//! What tools print on standard output.

use crate::error::{Result, Tried};
use std::fmt;
use std::io::{self, Write};

/// Writes at once. A reader that has gone (`weft status | head`) is no failure: what the command
/// does, and its exit code, do not depend on it.
///
/// # Errors
/// If it cannot be written, as on a full disk.
pub fn write(text: fmt::Arguments<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.tried(|| "cannot write the output".into()),
    }
}

/// One line, as `println!`.
macro_rules! say {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// As `print!`.
macro_rules! show {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

pub(crate) use {say, show};
