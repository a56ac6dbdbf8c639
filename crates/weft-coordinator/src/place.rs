//! Where the coordinator is, as one string of the settings.

use crate::{Coordinator, CoordinatorError, Embedded, Etcd, ZooKeeper, name};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use weft_env::Env;

/// Milliseconds that an operation may take unless the place says otherwise. An election that has to wait
/// this long for its coordinator is lost anyway; what a busy etcd does in normal times takes 100.
const ANSWER_MS: u64 = 5_000;
/// More is no patience but a wait for ever, less is less than a disk takes.
const ANSWER_MS_RANGE: std::ops::RangeInclusive<u64> = 100..=600_000;
/// Servers that can be asked one after the other within one operation.
const ATTEMPTS: u32 = 3;
const PREFIX: &str = "weft";
const FORMS: &str = "write file:/directory, etcd://host:port,host:port/prefix or \
                     zookeeper://host:port,host:port/prefix; the prefix may be left out, and \
                     ?answer_ms=5000 may follow";

/// How long a coordinator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    answer_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            answer_ms: ANSWER_MS,
        }
    }
}

impl Limits {
    /// An operation ends within so many milliseconds (100 to 600,000).
    ///
    /// # Errors
    /// If they are too few or too many.
    pub fn new(answer_ms: u64) -> Result<Limits, CoordinatorError> {
        if !ANSWER_MS_RANGE.contains(&answer_ms) {
            let (least, most) = (ANSWER_MS_RANGE.start(), ANSWER_MS_RANGE.end());
            return Err(CoordinatorError::Settings(format!(
                "answer_ms of a coordinator is {answer_ms}: take {least} to {most}"
            )));
        }
        Ok(Limits { answer_ms })
    }

    pub(crate) fn answer(self) -> Duration {
        Duration::from_millis(self.answer_ms)
    }

    /// What one server of several may take of it.
    pub(crate) fn attempt(self) -> Duration {
        self.answer() / ATTEMPTS
    }
}

/// Which coordinator, and where; parsed from a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `file:/directory`: for the processes of one machine.
    File {
        /// The directory of the file.
        dir: PathBuf,
    },
    /// `etcd://host:port,host:port/prefix`.
    Etcd(Servers),
    /// `zookeeper://host:port,host:port/prefix`.
    ZooKeeper(Servers),
}

/// The servers of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// `host:port` each.
    pub addresses: Vec<String>,
    /// Before the cluster id in every key or path; `weft` if it is left out.
    pub prefix: String,
    /// How long they may take.
    pub limits: Limits,
}

impl FromStr for Place {
    type Err = CoordinatorError;

    fn from_str(written: &str) -> Result<Place, CoordinatorError> {
        if let Some(dir) = written.strip_prefix("file:") {
            let dir = PathBuf::from(dir);
            if !dir.is_absolute() {
                return Err(wrong(written, "the directory begins with /"));
            }
            return Ok(Place::File { dir });
        }
        match written.split_once("://") {
            Some(("etcd", rest)) => Ok(Place::Etcd(servers(written, rest)?)),
            Some(("zookeeper", rest)) => Ok(Place::ZooKeeper(servers(written, rest)?)),
            _ => Err(wrong(written, FORMS)),
        }
    }
}

fn wrong(written: &str, what: &str) -> CoordinatorError {
    CoordinatorError::Settings(format!("coordinator is {written:?}: {what}"))
}

fn servers(written: &str, rest: &str) -> Result<Servers, CoordinatorError> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (addresses, prefix) = rest.split_once('/').unwrap_or((rest, PREFIX));
    let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
    for address in &addresses {
        let port = address
            .rsplit_once(':')
            .filter(|(host, _)| !host.is_empty() && !host.contains(char::is_whitespace))
            .and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            let what = format!("{address:?} is no address; {FORMS}");
            return Err(wrong(written, &what));
        }
    }
    let mut limits = Limits::default();
    if !query.is_empty() {
        let answer_ms = query
            .strip_prefix("answer_ms=")
            .and_then(|number| number.parse().ok());
        let answer_ms = answer_ms.ok_or_else(|| wrong(written, FORMS))?;
        limits = Limits::new(answer_ms)?;
    }
    name::check("the prefix", prefix)?;
    Ok(Servers {
        addresses,
        prefix: prefix.to_owned(),
        limits,
    })
}

/// The coordinator that `place` names, for this cluster. etcd and ZooKeeper need not be there yet.
///
/// # Errors
/// `Settings`, with what to write instead; `Unavailable` or `Corrupt` if the view's file cannot be used.
pub async fn connect(
    env: &Env,
    cluster_id: &str,
    place: &str,
) -> Result<Box<dyn Coordinator>, CoordinatorError> {
    Ok(match place.parse()? {
        Place::File { dir } => Box::new(Embedded::open(env, dir).await?),
        Place::Etcd(Servers {
            addresses,
            prefix,
            limits,
        }) => Box::new(Etcd::open(env, &addresses, &prefix, cluster_id, limits)?),
        Place::ZooKeeper(Servers {
            addresses,
            prefix,
            limits,
        }) => Box::new(ZooKeeper::open(
            env, &addresses, &prefix, cluster_id, limits,
        )?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_all_that_is_needed() {
        assert_eq!(
            "file:/var/lib/weft".parse::<Place>().unwrap(),
            Place::File {
                dir: "/var/lib/weft".into()
            }
        );
        assert_eq!(
            "etcd://a:1,[::1]:2/x/y?answer_ms=700"
                .parse::<Place>()
                .unwrap(),
            Place::Etcd(Servers {
                addresses: vec!["a:1".into(), "[::1]:2".into()],
                prefix: "x/y".into(),
                limits: Limits::new(700).unwrap(),
            })
        );
        assert_eq!(
            "zookeeper://a:1".parse::<Place>().unwrap(),
            Place::ZooKeeper(Servers {
                addresses: vec!["a:1".into()],
                prefix: "weft".into(),
                limits: Limits::default(),
            })
        );
    }

    #[test]
    fn what_cannot_be_a_place_is_refused_with_what_to_write() {
        for wrong in [
            "",
            "etcd",
            "consul://a:1",
            "etcd://",
            "etcd://a",
            "etcd://a:1,",
            "etcd://a:99999",
            "etcd:// :1",
            "etcd://a:1/",
            "etcd://a:1?answer=1",
            "etcd://a:1?answer_ms=x",
        ] {
            let error = wrong.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains("write") || error.contains("take"), "{error}");
        }
        let error = "file:view".parse::<Place>().unwrap_err().to_string();
        assert!(error.contains("begins with /"), "{error}");
        let error = "etcd://a:1?answer_ms=1".parse::<Place>().unwrap_err();
        assert!(error.to_string().contains("100 to 600000"), "{error}");
    }
}
