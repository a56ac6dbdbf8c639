//! What the settings of a server want of the machine that it is started on: names that are known, addresses that are its
//! own, a directory to mount on. Asked by `weft config check` and by every start, so that both say the same.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use weft_env::Address;

/// See the module. The settings have been checked: what is no address is nobody's business here.
#[derive(Default)]
pub struct Needs {
    /// Setting, and the address to listen on.
    listens: Vec<(&'static str, String)>,
    /// Setting, and the addresses of which one at least is needed.
    asks: Vec<(&'static str, Vec<String>)>,
    /// Setting, and a directory that must be there.
    directories: Vec<(&'static str, PathBuf)>,
}

impl Needs {
    /// The server listens there, unless it is empty.
    pub fn listens(&mut self, setting: &'static str, address: &str) {
        if !address.is_empty() {
            self.listens.push((setting, address.to_owned()));
        }
    }

    /// The server asks others there.
    pub fn asks(&mut self, setting: &'static str, addresses: &[String]) {
        self.asks.push((setting, addresses.to_vec()));
    }

    /// The server needs a directory.
    pub fn directory(&mut self, setting: &'static str, path: &Path) {
        self.directories.push((setting, path.to_owned()));
    }

    /// Whether this machine has it.
    ///
    /// # Errors
    /// What it has not, and what to do.
    pub fn met(&self) -> Result<(), String> {
        for (setting, path) in &self.directories {
            is_directory(path).map_err(|why| format!("{setting}: {why}"))?;
        }
        for (setting, address) in &self.listens {
            can_listen(address).map_err(|why| format!("{setting}: {why}"))?;
        }
        for (setting, addresses) in &self.asks {
            some_known(addresses).map_err(|why| format!("{setting}: {why}"))?;
        }
        Ok(())
    }
}

fn is_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{shown} is no directory: name one to mount on")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{shown} is not there: make it (mkdir -p {shown})"))
        }
        // A mount whose process has died, which mounting deals with; or something that mounting will say more of.
        Err(_) => Ok(()),
    }
}

/// The addresses that a name stands for.
fn looked_up(address: &Address<'_>) -> Result<Vec<SocketAddr>, String> {
    match (address.host, address.port).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(format!(
            "the name {:?} is not known ({error})",
            address.host
        )),
    }
}

/// An address that is this machine's can be listened on at some port, whoever has the one that is meant: a server that
/// is to be started again may still run.
fn can_listen(written: &str) -> Result<(), String> {
    let Ok(address) = Address::to_listen(written) else {
        return Ok(());
    };
    let found = looked_up(&address).map_err(|why| {
        format!("{why}: write an address of this machine, or have the name in DNS or /etc/hosts")
    })?;
    let is_ours = |ip: IpAddr| match TcpListener::bind((ip, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    };
    match found.iter().any(|found| is_ours(found.ip())) {
        true => Ok(()),
        false => Err(format!(
            "{written} is no address of this machine: take one that `ip address` shows"
        )),
    }
}

/// One that is known is enough: that of a machine that was taken away may be gone from DNS.
fn some_known(addresses: &[String]) -> Result<(), String> {
    let mut unknown = Vec::new();
    for written in addresses {
        let Ok(address) = Address::to_connect(written) else {
            continue;
        };
        match looked_up(&address) {
            Ok(_) => return Ok(()),
            Err(why) => unknown.push(why),
        }
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}: write addresses, or have one of the names in DNS or /etc/hosts",
            unknown.join("; ")
        )),
    }
}
