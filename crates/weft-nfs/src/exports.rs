//! What may be mounted, by whom, and as whom.

use crate::settings::{ExportSettings, Network, Rule, Squash};
use siphasher::sip::SipHasher13;
use std::cell::Cell;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use weft_client::Cred;
use weft_oncrpc::Credential;

/// A caller's ports below this are root's.
const PRIVILEGED_PORTS: u16 = 1024;

/// Where a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// None: it has a name only (in the simulator), which is in no network but everybody's.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl Origin {
    /// As a connection tells it.
    pub(crate) fn of(peer: &str) -> Origin {
        if let Ok(peer) = SocketAddr::from_str(peer) {
            return Origin {
                address: Some(peer.ip().to_canonical()),
                port: peer.port(),
            };
        }
        let port = peer.rsplit_once(':').map(|(_, port)| port.parse());
        Origin {
            address: None,
            port: port.and_then(Result::ok).unwrap_or(u16::MAX),
        }
    }
}

/// One directory that may be mounted.
#[derive(Debug)]
pub(crate) struct Export {
    pub id: u32,
    /// Names on the way to it, from the root.
    pub path: Vec<Vec<u8>>,
    /// As the settings write it.
    pub shown: String,
    /// Its inode, once it has been looked up. 0: not yet.
    pub root: Cell<u64>,
    rules: Vec<(Vec<Network>, Rule)>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Exports(Vec<Export>);

/// What a caller may do in an export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    pub cred: Cred,
    pub read_only: bool,
}

/// A path's names. The empty ones, and `.`, say nothing.
pub(crate) fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let said = names.filter(|name| !name.is_empty() && *name != b".");
    said.map(<[u8]>::to_vec).collect()
}

/// The number that follows from a path: the same at all gateways, for ever.
fn id_of(path: &[Vec<u8>]) -> u32 {
    let mut hasher = SipHasher13::new();
    for name in path {
        hasher.write(b"/");
        hasher.write(name);
    }
    hasher.finish() as u32
}

/// The number of a directory on the way to an export: the same at all gateways, and no inode's.
pub(crate) fn way_number(path: &[Vec<u8>]) -> u64 {
    let mut hasher = SipHasher13::new();
    for name in path {
        hasher.write(b"/");
        hasher.write(name);
    }
    hasher.finish() | 1 << 63
}

impl Export {
    fn of(settings: &ExportSettings) -> Result<Export, String> {
        let shown = &settings.path;
        let path = names_of(shown.as_bytes());
        if !shown.starts_with('/') || path.iter().any(|name| name == b"..") {
            return Err(format!(
                "export {shown:?}: a path begins with / and has no `..`"
            ));
        }
        let rule = |rule: &Rule| {
            let networks: Result<Vec<Network>, String> = rule
                .clients
                .iter()
                .map(|text| Network::parse(text))
                .collect();
            Ok::<_, String>((networks?, rule.clone()))
        };
        let rules: Result<Vec<_>, String> = settings.rules.iter().map(rule).collect();
        let rules = rules.map_err(|why| format!("export {shown:?}: {why}"))?;
        Ok(Export {
            id: settings.id.unwrap_or_else(|| id_of(&path)),
            path,
            shown: shown.clone(),
            root: Cell::new(0),
            rules,
        })
    }

    fn rule(&self, from: Origin) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        let found = rules.find(|(networks, _)| networks.iter().any(|it| it.has(from.address)));
        found.map(|(_, rule)| rule)
    }

    /// What a caller may do here. None: nothing.
    pub(crate) fn access(&self, from: Origin, credential: &Credential) -> Option<Access> {
        let rule = self.rule(from)?;
        if rule.privileged_ports && from.port >= PRIVILEGED_PORTS {
            return None;
        }
        let anonymous = || Cred {
            uid: rule.anonymous_uid,
            gid: rule.anonymous_gid,
            groups: Vec::new(),
        };
        let cred = match (credential, rule.squash) {
            (Credential::None, _) | (_, Squash::All) => anonymous(),
            (Credential::Sys(user), Squash::Root) if user.uid == 0 => anonymous(),
            (Credential::Sys(user), squash) => {
                let is_believed = |gid: &u32| squash == Squash::None || *gid != 0;
                let group = |gid: u32| match is_believed(&gid) {
                    true => gid,
                    false => rule.anonymous_gid,
                };
                Cred {
                    uid: user.uid,
                    gid: group(user.gid),
                    groups: user.gids.iter().copied().filter(is_believed).collect(),
                }
            }
        };
        Some(Access {
            cred,
            read_only: rule.read_only,
        })
    }

    /// Some caller of this address may have it.
    pub(crate) fn is_shown_to(&self, from: Origin) -> bool {
        self.rule(from).is_some()
    }

    /// Whom it is shown to, as MOUNT's EXPORT tells it.
    pub(crate) fn groups(&self) -> Vec<String> {
        let rules = self.rules.iter();
        rules
            .flat_map(|(_, rule)| rule.clients.iter().cloned())
            .collect()
    }
}

impl Exports {
    /// As the settings say.
    ///
    /// # Errors
    /// What makes no sense in them.
    pub(crate) fn of(settings: &[ExportSettings]) -> Result<Exports, String> {
        let all: Result<Vec<Export>, String> = settings.iter().map(Export::of).collect();
        let all = all?;
        for (at, export) in all.iter().enumerate() {
            if let Some(other) = all[..at].iter().find(|other| other.id == export.id) {
                return Err(format!(
                    "exports {:?} and {:?} have one number, {}: give one of them another `id`, at all gateways",
                    other.shown, export.shown, export.id
                ));
            }
        }
        Ok(Exports(all))
    }

    pub(crate) fn all(&self) -> &[Export] {
        &self.0
    }

    /// The one of a number, with its place.
    pub(crate) fn find(&self, id: u32) -> Option<&Export> {
        self.0.iter().find(|export| export.id == id)
    }

    /// Those whose directories lie in that of this one.
    pub(crate) fn within(&self, id: u32) -> impl Iterator<Item = &Export> {
        let outer = self.find(id);
        let all = self.0.iter();
        all.filter(move |export| {
            export.id != id && outer.is_some_and(|outer| export.path.starts_with(&outer.path))
        })
    }

    /// The path of a directory on the way to exports, by its number.
    pub(crate) fn way(&self, number: u64) -> Option<&[Vec<u8>]> {
        let prefixes = self.0.iter().flat_map(|export| {
            let above = 0..export.path.len();
            above.map(|length| &export.path[..length])
        });
        let mut ways = prefixes.filter(|path| way_number(path) == number);
        ways.next()
    }

    /// The innermost export that a path leads into, and the rest of the way.
    pub(crate) fn of_path<'a>(&self, path: &'a [Vec<u8>]) -> Option<(&Export, &'a [Vec<u8>])> {
        let leads = |export: &&Export| path.starts_with(&export.path);
        let inner = self
            .0
            .iter()
            .filter(leads)
            .max_by_key(|export| export.path.len());
        inner.map(|export| (export, &path[export.path.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_xdr::rpc::authsys_parms;

    fn sys(uid: u32, gid: u32, gids: &[u32]) -> Credential {
        Credential::Sys(authsys_parms {
            stamp: 0,
            machinename: bytes::Bytes::new(),
            uid,
            gid,
            gids: gids.to_vec(),
        })
    }

    fn export(rules: Vec<Rule>) -> Export {
        let settings = ExportSettings {
            path: "/a/b".into(),
            id: None,
            rules,
        };
        Export::of(&settings).unwrap()
    }

    fn rule(clients: &[&str], squash: Squash) -> Rule {
        Rule {
            clients: clients.iter().map(|it| (*it).to_owned()).collect(),
            squash,
            privileged_ports: false,
            ..Rule::default()
        }
    }

    #[test]
    fn what_is_not_said_is_the_safe_way() {
        let said = Rule {
            clients: vec!["10.0.0.0/8".into()],
            ..Rule::default()
        };
        let all = export(vec![said]);
        // No program of an ordinary user's can say whose calls it makes.
        assert_eq!(
            all.access(Origin::of("10.0.0.1:1024"), &sys(7, 8, &[])),
            None
        );
        let low = Origin::of("10.0.0.1:1023");
        let of = |uid| all.access(low, &sys(uid, uid, &[])).unwrap().cred.uid;
        assert_eq!((of(0), of(7)), (65534, 7));
        // And who is not named has nothing.
        let nobody = export(vec![Rule::default()]);
        assert_eq!(nobody.access(low, &sys(7, 8, &[])), None);
    }

    #[test]
    fn the_first_rule_that_fits_an_address_counts() {
        let read_only = Rule {
            read_only: true,
            ..rule(&["10.1.0.0/16", "::1"], Squash::None)
        };
        let all = export(vec![read_only, rule(&["10.0.0.0/8"], Squash::All)]);
        let of = |address: &str| all.access(Origin::of(address), &sys(7, 8, &[9]));
        let believed = Cred {
            uid: 7,
            gid: 8,
            groups: vec![9],
        };
        let found = of("10.1.2.3:900").unwrap();
        assert_eq!((found.cred, found.read_only), (believed.clone(), true));
        assert_eq!(of("[::1]:900").unwrap().cred, believed);
        assert_eq!(of("[::ffff:10.1.0.9]:900").unwrap().cred, believed);
        let found = of("10.2.0.1:900").unwrap();
        assert_eq!((found.cred.uid, found.cred.gid), (65534, 65534));
        assert!(found.cred.groups.is_empty() && !found.read_only);
        assert_eq!(of("11.0.0.1:900"), None);
        assert_eq!(of("client:900"), None);
        let everybody = export(vec![rule(&["*"], Squash::None)]);
        assert!(
            everybody
                .access(Origin::of("client:900"), &sys(7, 8, &[]))
                .is_some()
        );
    }

    #[test]
    fn root_is_nobody_unless_it_is_said() {
        let from = Origin::of("127.0.0.1:5000");
        let squashed = export(vec![rule(&["*"], Squash::Root)]);
        let of = |credential| squashed.access(from, &credential).unwrap().cred;
        assert_eq!(of(sys(0, 0, &[0, 4])).uid, 65534);
        let user = of(sys(5, 0, &[0, 4]));
        assert_eq!((user.uid, user.gid, user.groups), (5, 65534, vec![4]));
        assert_eq!(of(Credential::None).uid, 65534);
        let believed = export(vec![rule(&["*"], Squash::None)]);
        let root = believed.access(from, &sys(0, 0, &[0])).unwrap().cred;
        assert_eq!((root.uid, root.gid, root.groups), (0, 0, vec![0]));
        let guarded = export(vec![Rule {
            privileged_ports: true,
            ..rule(&["*"], Squash::None)
        }]);
        assert_eq!(guarded.access(from, &sys(0, 0, &[])), None);
        let low = Origin::of("127.0.0.1:700");
        assert!(guarded.access(low, &sys(0, 0, &[])).is_some());
    }

    #[test]
    fn paths_lead_into_the_innermost_export() {
        let of = |path: &str| ExportSettings {
            path: path.into(),
            id: None,
            rules: Vec::new(),
        };
        let all = Exports::of(&[of("/"), of("/a/b"), of("/a")]).unwrap();
        let found = |path: &str| {
            let names = names_of(path.as_bytes());
            let (export, rest) = all.of_path(&names).unwrap();
            (export.shown.clone(), rest.len())
        };
        assert_eq!(found("/"), ("/".into(), 0));
        assert_eq!(found("/x/y"), ("/".into(), 2));
        assert_eq!(found("/a/b/"), ("/a/b".into(), 0));
        assert_eq!(found("/a//./b/c"), ("/a/b".into(), 1));
        assert_eq!(found("/ab"), ("/".into(), 1));
        for wrong in ["", "a", "/a/../b"] {
            assert!(Exports::of(&[of(wrong)]).is_err(), "{wrong}");
        }
        assert!(Exports::of(&[of("/a"), of("/a/")]).is_err());
        let twice = ExportSettings {
            id: Some(id_of(&names_of(b"/a"))),
            ..of("/c")
        };
        assert!(Exports::of(&[of("/a"), twice]).is_err());
        for wrong in ["10.0.0.0/33", "host", ""] {
            let rules = vec![rule(&[wrong], Squash::Root)];
            let settings = ExportSettings { rules, ..of("/") };
            assert!(Exports::of(&[settings]).unwrap_err().contains("no address"));
        }
    }
}
