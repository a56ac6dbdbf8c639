//! The same behind links of a rate, in name spaces of the network: there links are the limit, as they were where the
//! paper measured, and each gateway has its own.

use super::writers::Amount;
use super::{BENCH, CLIENTS, DnfspOptions, GATEWAYS};
use crate::bench::bed_of;
use crate::bench::client::Client;
use crate::bench::report::Line;
use crate::run::Outcome;
use crate::testbed::{Bed, Cluster, Seat};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where a gateway listens.
const PORT: u16 = 2049;
/// A gateway that does not serve by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(30);
/// Data servers of figure 3.
const SERVERS: usize = 4;
/// As many as are not the limit of four gateways: each byte comes to two of them, so that eight would be
/// used to the full.
pub const SERVERS_MANY: usize = 16;
/// Two by each of four gateways: while one waits for its COMMIT, the other writes.
const CLIENTS_MANY: usize = 8;

/// How many of each kind a bed has.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Data servers.
    pub servers: usize,
    /// Gateways.
    pub gateways: usize,
    /// Clients, dealt to the gateways in turn.
    pub clients: usize,
}

/// Figure 3 behind links.
///
/// # Errors
/// If no bed can be made, or a client fails.
pub fn files(options: &DnfspOptions, weft: &Path, lines: &mut Vec<Line>) -> Outcome {
    let size = Size {
        servers: SERVERS,
        gateways: CLIENTS,
        clients: CLIENTS,
    };
    let mut bed = bed(options, weft, size)?;
    let behind = Behind::start(&mut bed, weft, "files", size)?;
    for files in &options.files {
        let amount = options.amount(*files);
        let took = behind.write(&bed, &format!("files-{files}"), amount)?;
        let case = format!("{files} files each");
        let seconds = took.as_secs_f64();
        println!("behind links, {files} files: {seconds:.2} s");
        let figure = format!("4 clients write behind links of {}", options.rate);
        lines.push(Line::of(BENCH, GATEWAYS, &figure, &case, seconds, "s"));
    }
    behind.stop(&mut bed)
}

/// What eight clients write in all by 1, 2 and 4 gateways.
///
/// # Errors
/// As [`files`].
pub fn gateways(options: &DnfspOptions, weft: &Path, lines: &mut Vec<Line>) -> Outcome {
    let mut size = Size {
        servers: SERVERS_MANY,
        gateways: CLIENTS,
        clients: CLIENTS_MANY,
    };
    let mut bed = bed(options, weft, size)?;
    let mut alone = None;
    for gateways in [1, 2, 4] {
        let name = format!("by-{gateways}");
        size.gateways = gateways;
        // More by more, so that all take as long and begin and end weigh the same.
        let mut amount = options.amount(4 * gateways as u64);
        amount.bytes *= gateways as u64;
        let behind = Behind::start(&mut bed, weft, &name, size)?;
        let took = behind.write(&bed, &name, amount);
        behind.stop(&mut bed)?;
        let rate = amount.bytes as f64 * CLIENTS_MANY as f64 / took?.as_secs_f64() / 1e6;
        println!("behind links, {gateways} gateways: {rate:.1} MB/s");
        let figure = format!(
            "8 clients write, by gateways, behind links of {}",
            options.rate
        );
        let case = format!("{gateways} gateways");
        let line = Line::of(BENCH, "weft", &figure, &case, rate, "MB/s");
        let first = *alone.get_or_insert(rate);
        if gateways > 1 {
            lines.push(line.beside("1 gateway", first, Some(0.9 * gateways as f64)));
        }
        lines.push(line);
    }
    Ok(())
}

fn bed(options: &DnfspOptions, weft: &Path, size: Size) -> Result<Bed, String> {
    let dir = options.dir.as_deref();
    let many = [size.servers, size.clients];
    let (mut bed, _) = bed_of(dir, Some(weft), options.rate, many)?;
    for gateway in 0..size.gateways {
        bed.add(&format!("g{gateway}"), Some(options.rate))?;
    }
    Ok(bed)
}

/// A cluster, with gateways in nodes of their own.
pub struct Behind {
    cluster: Cluster,
    size: Size,
}

impl Behind {
    /// Starts the cluster with its gateways.
    ///
    /// # Errors
    /// If something does not come up.
    pub fn start(bed: &mut Bed, weft: &Path, name: &str, size: Size) -> Result<Behind, String> {
        let nodes: Vec<String> = (0..size.servers)
            .map(|server| format!("s{server}"))
            .collect();
        let seats = Seat::pairs(&nodes);
        let cluster = Cluster::start(bed, weft, name, "meta", &seats, false, true)?;
        let behind = Behind { cluster, size };
        for gateway in 0..size.gateways {
            behind.start_gateway(bed, weft, &format!("g{gateway}"))?;
        }
        Ok(behind)
    }

    fn start_gateway(&self, bed: &mut Bed, weft: &Path, node: &str) -> Outcome {
        let config = bed.directory().join(format!("{node}.toml"));
        let address = bed.address(node)?;
        let settings = format!(
            "listen = \"{address}:{PORT}\"\n\
             [[export]]\npath = \"/\"\n[[export.rule]]\nclients = [\"*\"]\nsquash = \"none\"\n\
             privileged_ports = false\n{}",
            self.cluster.client_settings()
        );
        fs::write(&config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
        let config = config.to_string_lossy().into_owned();
        bed.start(
            node,
            node,
            weft,
            vec!["nfs".into(), "--config".into(), config],
        )
    }

    /// Ends all of it.
    ///
    /// # Errors
    /// If something does not end.
    pub fn stop(self, bed: &mut Bed) -> Outcome {
        for gateway in 0..self.size.gateways {
            bed.end(&format!("g{gateway}"), false)?;
        }
        self.cluster.stop(bed)
    }

    /// Starts this program's benchmark of this name for each client in its node, by its gateway.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn clients(
        &self,
        bed: &Bed,
        bench: &str,
        arguments: impl Fn(usize) -> Vec<String>,
    ) -> Result<Vec<Client>, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let start = |client: usize| {
            let gateway = bed.address(&format!("g{}", client % self.size.gateways))?;
            let mut command = bed.command(&format!("c{client}"), &own)?;
            command.args(["bench", bench, "--gateway", &format!("{gateway}:{PORT}")]);
            command.args(arguments(client));
            Client::start(command)
        };
        (0..self.size.clients).map(start).collect()
    }

    /// All clients write at the same time, each by its gateway; the time of the slowest.
    fn write(&self, bed: &Bed, name: &str, amount: Amount) -> Result<Duration, String> {
        let mut clients = self.clients(bed, "dnfsp-client", |client| {
            let (name, bytes) = (format!("{name}-{client}"), amount.bytes.to_string());
            let (files, piece) = (amount.files.to_string(), amount.piece.to_string());
            let of_files = ["--name", &name, "--bytes", &bytes, "--files", &files];
            let arguments = [&of_files[..], &["--piece", &piece]].concat();
            arguments.into_iter().map(str::to_owned).collect()
        })?;
        clients.iter_mut().try_for_each(Client::wait_ready)?;
        clients.iter_mut().try_for_each(Client::go)?;
        let mut longest = Duration::ZERO;
        for client in &mut clients {
            let line = client.line()?;
            let said: Value = serde_json::from_str(&line)
                .map_err(|error| format!("a client said {line:?}: {error}"))?;
            let seconds = said["seconds"].as_f64();
            let seconds = seconds.ok_or_else(|| format!("a client said {line:?}"))?;
            longest = longest.max(Duration::from_secs_f64(seconds));
        }
        Ok(longest)
    }
}

/// Tries for a while, since a gateway may just be starting.
pub fn patiently<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(_) if begin.elapsed() < UP_PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}
