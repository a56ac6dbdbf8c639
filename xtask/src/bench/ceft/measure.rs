//! One point of a figure: so many clients that all begin at the same time, of which the slowest
//! counts.

use crate::bench::client::Client;
use crate::bench::machine::{Machine, cpu_of};
use crate::testbed::{Bed, Cluster};
use serde_json::Value;
use std::path::Path;

/// What each client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Writes a file of its own.
    Write,
    /// The same, and leaves the file to be read.
    Prepare,
    /// Writes its part of a file of all.
    WriteShared,
    /// Reads a file of its own.
    Read,
}

/// What all clients of a point did together.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// MB/s with open and close, by the slowest client.
    pub overall: f64,
    /// MB/s of the transfer alone, by the slowest.
    pub raw: f64,
    /// Processor seconds of servers and clients for each GiB of the files.
    pub cpu_per_gib: f64,
    /// Share of the machine's processors that was in use, by whomever.
    pub busy: f64,
}

/// Whom to measure.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The binary.
    pub weft: &'a Path,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The protocol of the files; None: as a new cluster has it.
    pub protocol: Option<&'a str>,
    /// Bytes of each client.
    pub bytes: u64,
}

impl Subject<'_> {
    /// Clients in the nodes `c0`, `c1`, ...
    ///
    /// # Errors
    /// If a client fails, or a pair has changed its state meanwhile: then it was not the protocol
    /// that was measured.
    pub fn measure(&self, bed: &mut Bed, clients: usize, work: Work) -> Result<Point, String> {
        let mut all = Vec::new();
        for client in 0..clients {
            all.push(self.client(bed, client, work)?);
        }
        all.iter_mut().try_for_each(Client::wait_ready)?;
        let epochs = self.cluster.epochs(bed)?;
        let (servers, machine) = (cpu_of(&bed.pids()), Machine::now()?);
        all.iter_mut().try_for_each(Client::go)?;
        let (mut total, mut transfer, mut own) = (0.0_f64, 0.0_f64, 0.0);
        for client in &mut all {
            let line = client.line()?;
            let times: Value = serde_json::from_str(&line)
                .map_err(|error| format!("a client said {line:?}: {error}"))?;
            let seconds = |key: &str| times[key].as_f64().unwrap_or(f64::NAN);
            total = total.max(seconds("total_s"));
            transfer = transfer.max(seconds("transfer_s"));
            own += seconds("cpu_s");
        }
        let busy = Machine::now()?.busy_since(&machine);
        let servers = cpu_of(&bed.pids()) - servers;
        if self.cluster.epochs(bed)? != epochs {
            self.cluster.wait(bed)?;
            return Err("a pair changed its state meanwhile".into());
        }
        let bytes = (clients as u64 * self.bytes) as f64;
        Ok(Point {
            overall: bytes / 1e6 / total,
            raw: bytes / 1e6 / transfer,
            cpu_per_gib: (servers + own) / (bytes / f64::from(1 << 30)),
            busy,
        })
    }

    fn client(&self, bed: &Bed, client: usize, work: Work) -> Result<Client, String> {
        let mut command = bed.command(&format!("c{client}"), self.weft)?;
        let directory = self.protocol.unwrap_or("plain");
        let file = match work {
            Work::WriteShared => format!("{directory}/shared"),
            _ => format!("{directory}/{client}"),
        };
        command.args([
            "bench",
            "stream",
            "--meta",
            &self.cluster.meta,
            "--file",
            &file,
        ]);
        let bytes = self.bytes.to_string();
        command.args([
            if work == Work::Read {
                "--read"
            } else {
                "--write"
            },
            bytes.as_str(),
        ]);
        if work == Work::WriteShared {
            command.args(["--offset", &(client as u64 * self.bytes).to_string()]);
        }
        if work == Work::Write {
            command.arg("--remove");
        }
        if let Some(protocol) = self.protocol
            && work != Work::Read
        {
            command.args(["--protocol", protocol]);
        }
        Client::start(command)
    }
}
