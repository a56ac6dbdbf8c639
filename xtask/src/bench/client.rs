//! Clients without a mount (`weft bench stream`, `weft bench names`) that wait for their turn.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Ended when dropped.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _: std::io::Result<()> = self.child.kill();
        }
        let _: std::io::Result<_> = self.child.wait();
    }
}

impl Client {
    /// Starts `weft bench stream ...`, or `names`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> Result<Client, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a client: {error}"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Client {
                child,
                input,
                output: BufReader::new(output),
            }),
            _ => Err("a client has no pipes".into()),
        }
    }

    /// Waits until it could begin.
    ///
    /// # Errors
    /// If it says something else, or ends.
    pub fn wait_ready(&mut self) -> Result<(), String> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a client said {other:?} instead of ready")),
        }
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// If it has ended.
    pub fn go(&mut self) -> Result<(), String> {
        self.say("go")
    }

    /// Sends it a line.
    ///
    /// # Errors
    /// If it has ended.
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        let told = self.input.write_all(format!("{line}\n").as_bytes());
        told.map_err(|error| format!("a client does not listen: {error}"))
    }

    /// What it says next.
    ///
    /// # Errors
    /// If it has ended: why, as it said.
    pub fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            // It has ended: what it said says why.
            _ => {
                let mut why = String::new();
                if let Some(mut stderr) = self.child.stderr.take() {
                    // What could not be read is not shown.
                    let _: std::io::Result<usize> = stderr.read_to_string(&mut why);
                }
                let last = why.lines().rev().find(|line| line.starts_with("weft: "));
                Err(last.unwrap_or("a client ended without a word").to_owned())
            }
        }
    }
}
