//! Configuration files: TOML into the settings of a server, and `weft config check`.
//!
//! A key that no setting has is refused, and the nearest one that exists is named: a misspelt bound
//! that silently stays at its default is found out at the worst time.

use crate::descriptors;
use crate::error::{Error, Result, Tried};
use crate::needs::Needs;
use crate::output::{say, show};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use weft_coordinator::Place;

/// `weft config ...`
#[derive(Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Prints the values in effect, defaults included; refuses what a server would refuse.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Which server it is for; found out from the file where that is clear.
        #[arg(long)]
        kind: Option<ServerKind>,
        /// The file is for another machine: names are not looked up, nor are addresses and directories looked for.
        #[arg(long)]
        elsewhere: bool,
    },
}

/// The servers that have a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServerKind {
    /// A metadata server.
    Meta,
    /// A data server.
    Data,
    /// A FUSE mount.
    Mount,
    /// `weft nfs`
    Nfs,
}

impl ServerKind {
    /// All of them.
    pub const ALL: [ServerKind; 4] = [
        ServerKind::Meta,
        ServerKind::Data,
        ServerKind::Mount,
        ServerKind::Nfs,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Meta => "meta",
            ServerKind::Data => "data",
            ServerKind::Mount => "mount",
            ServerKind::Nfs => "nfs",
        }
    }

    /// What a server of this kind makes of a file.
    fn read(self, text: &str, path: &Path) -> Result<Read> {
        fn both<T: Configured>(text: &str, path: &Path) -> Result<Read> {
            let settings: T = parse(text, path)?;
            let effective = toml::to_string_pretty(&settings)
                .map_err(|error| Error::Failed(format!("cannot print the settings: {error}")))?;
            Ok(Read {
                effective,
                checked: settings.sound(path),
                needs: settings.needs(),
            })
        }
        match self {
            ServerKind::Meta => both::<weft_meta::Settings>(text, path),
            ServerKind::Data => both::<weft_data::Settings>(text, path),
            ServerKind::Mount => both::<weft_mount::Settings>(text, path),
            ServerKind::Nfs => both::<weft_nfs::Settings>(text, path),
        }
    }
}

/// A file, as a server of one kind reads it.
struct Read {
    /// The settings as TOML.
    effective: String,
    /// Whether a start would take them, wherever it is.
    checked: Result<()>,
    /// What it would want of the machine.
    needs: Needs,
}

/// Settings of a server. `weft config check` and a start judge them by the same functions: what one refuses, the other does.
pub trait Configured: Serialize + DeserializeOwned {
    /// Whether they make sense, wherever the server is.
    ///
    /// # Errors
    /// What does not, and what to write instead.
    fn check(&self) -> std::result::Result<(), String>;

    /// What they want of the machine that the server is started on.
    fn needs(&self) -> Needs;

    /// [`Configured::check`], with the file's name.
    ///
    /// # Errors
    /// [`Error::Usage`].
    fn sound(&self, path: &Path) -> Result<()> {
        self.check().map_err(|why| wrong(path, &why))
    }
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::Usage(format!("{}: {why}", path.display()))
}

impl Configured for weft_meta::Settings {
    fn check(&self) -> std::result::Result<(), String> {
        weft_meta::Settings::check(self).map_err(|error| error.to_string())
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.listens("listen", &self.listen);
        needs.listens(
            "metrics_listen",
            self.metrics_listen.as_deref().unwrap_or_default(),
        );
        if let Ok(Place::Etcd(servers) | Place::ZooKeeper(servers)) = self.coordinator.parse() {
            needs.asks("coordinator", &servers.addresses);
        }
        needs
    }
}

impl Configured for weft_data::Settings {
    fn check(&self) -> std::result::Result<(), String> {
        let checked = weft_data::Settings::check(self);
        checked.map(drop).map_err(|error| error.to_string())
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.listens("listen", &self.listen);
        needs.listens("metrics_listen", &self.metrics_listen);
        needs.asks("meta", &self.meta);
        needs
    }
}

impl Configured for weft_mount::Settings {
    fn check(&self) -> std::result::Result<(), String> {
        weft_mount::Settings::check(self)
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.listens("metrics_listen", &self.metrics_listen);
        needs.asks("client.meta", &self.client.meta);
        needs.directory("mountpoint", &self.mountpoint);
        needs
    }
}

impl Configured for weft_nfs::Settings {
    fn check(&self) -> std::result::Result<(), String> {
        weft_nfs::Settings::check(self)
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.listens("listen", &self.listen);
        needs.listens("metrics_listen", &self.metrics_listen);
        needs.asks("client.meta", &self.client.meta);
        needs
    }
}

/// Reads the configuration of a server that is to start on this machine now, and refuses what `weft config check` does.
///
/// # Errors
/// As [`load_sound`]; and if this machine lacks what the settings want of it.
pub fn load_to_start<T: Configured>(path: &Path) -> Result<T> {
    let settings: T = load_sound(path)?;
    settings.needs().met().map_err(|why| wrong(path, &why))?;
    descriptors::suffice()?;
    Ok(settings)
}

/// Whether this machine has what settings that came from no file want of it.
///
/// # Errors
/// What it has not, and what to do.
pub fn needs_met(settings: &impl Configured) -> std::result::Result<(), String> {
    settings.needs().met()
}

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read, is not TOML, or has a key or value that the settings do not take; the
/// message has file, line and, for a misspelt key, the nearest one.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T> {
    parse(&read(path)?, path)
}

/// Reads the configuration of a server, and refuses values that make no sense together.
///
/// # Errors
/// As [`load`] and [`Configured::sound`].
pub fn load_sound<T: Configured>(path: &Path) -> Result<T> {
    let settings: T = load(path)?;
    settings.sound(path)?;
    Ok(settings)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).tried_on("cannot read the configuration file", path)
}

fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            1 + text.as_bytes()[..span.start.min(text.len())]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count()
        });
        Error::Usage(format!(
            "{}:{line}: {}",
            path.display(),
            explain(error.message())
        ))
    })
}

/// Turns serde's "unknown field `x`, expected one of `a`, `b`" into the one name that was meant.
fn explain(message: &str) -> String {
    let message = message.trim().replace('\n', ": ");
    let Some(rest) = message.strip_prefix("unknown field ") else {
        return message;
    };
    let mut names = rest.split('`').skip(1).step_by(2);
    let Some(unknown) = names.next() else {
        return message;
    };
    let known: Vec<&str> = names.collect();
    match nearest(unknown, &known) {
        Some(meant) => format!("unknown key `{unknown}`; the nearest known key is `{meant}`"),
        None => format!("unknown key `{unknown}`"),
    }
}

fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().max_by(|a, b| {
        let (a, b) = (
            strsim::jaro_winkler(unknown, a),
            strsim::jaro_winkler(unknown, b),
        );
        a.total_cmp(&b)
    })
}

/// Which server a file is for: the only kind that takes it, else the one its name begins with.
fn kind_of(path: &Path, text: &str) -> Result<ServerKind> {
    let taking: Vec<ServerKind> = ServerKind::ALL
        .into_iter()
        .filter(|kind| kind.read(text, path).is_ok())
        .collect();
    if let [only] = taking[..] {
        return Ok(only);
    }
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    ServerKind::ALL
        .into_iter()
        .find(|kind| file_name.starts_with(kind.name()))
        .ok_or_else(|| {
            Error::Usage(format!(
                "cannot tell which server {} is for: add --kind meta, data, mount or nfs",
                path.display()
            ))
        })
}

/// Runs `weft config ...`.
///
/// # Errors
/// As a server started with the file would fail.
pub fn run(command: &ConfigCommand) -> Result<()> {
    let What::Check {
        file,
        kind,
        elsewhere,
    } = &command.what;
    let text = read(file)?;
    let kind = match kind {
        Some(kind) => *kind,
        None => kind_of(file, &text)?,
    };
    let read = kind.read(&text, file)?;
    read.checked?;
    if !elsewhere {
        read.needs.met().map_err(|why| wrong(file, &why))?;
        descriptors::suffice()?;
    }
    say!("# weft {}, values in effect", kind.name())?;
    show!("{}", read.effective)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_names_the_nearest() {
        let why = explain("unknown field `adress`, expected one of `address`, `directory`, `id`");
        assert_eq!(
            why,
            "unknown key `adress`; the nearest known key is `address`"
        );
        let why = explain("unknown field `sink`, expected `sync`");
        assert_eq!(why, "unknown key `sink`; the nearest known key is `sync`");
    }

    #[test]
    fn every_kind_refuses_an_unknown_key_with_its_line() {
        for kind in ServerKind::ALL {
            let text = "\n# a comment\nadresss = \"127.0.0.1:1\"\n";
            let why = kind
                .read(text, Path::new("x.toml"))
                .err()
                .unwrap()
                .to_string();
            assert!(
                why.starts_with("x.toml:3: unknown key `adresss`; the nearest known key is `"),
                "{kind:?}: {why}"
            );
        }
    }

    #[test]
    fn the_defaults_of_every_kind_are_read_back_as_they_were() {
        for kind in ServerKind::ALL {
            let printed = kind.read("", Path::new("x.toml")).unwrap().effective;
            let again = kind.read(&printed, Path::new("x.toml")).unwrap().effective;
            assert_eq!(printed, again);
        }
    }
}
