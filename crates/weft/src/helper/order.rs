//! What mount(8) asks of `mount.weft`: its words, read into settings. Nothing is done here.

use std::ffi::OsString;
use std::path::PathBuf;
use weft_env::Address;
use weft_mount::Settings;

/// What the table of mounts shows, and a source may begin with.
const SCHEME: &str = "weft:";

/// A mount, as it was ordered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Which cluster.
    pub source: Source,
    /// The directory to mount on.
    pub directory: PathBuf,
    /// All is done but the mount itself.
    pub is_fake: bool,
    /// Say what is done.
    pub is_verbose: bool,
    /// The name space in which to mount: a file, or a process.
    pub name_space: Option<PathBuf>,
    /// A configuration file for all that options do not say.
    pub config: Option<PathBuf>,
    /// Where the mount's process writes its log.
    pub log: Option<PathBuf>,
    /// What the options set.
    changes: Vec<Change>,
}

/// `[weft:][CLUSTER@]HOST:PORT[,HOST:PORT]...[:/]`
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Empty: the metadata servers say.
    pub cluster_id: String,
    /// The metadata servers.
    pub meta: Vec<String>,
}

/// One option that Weft has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    ReadOnly(bool),
    AllowOther,
    Suid(bool),
    Dev(bool),
    NoExec(bool),
    NoAtime(bool),
    Inode32,
}

/// Options that Weft has.
const CHANGES: &[(&str, Change)] = &[
    ("ro", Change::ReadOnly(true)),
    ("rw", Change::ReadOnly(false)),
    ("allow_other", Change::AllowOther),
    ("suid", Change::Suid(true)),
    ("nosuid", Change::Suid(false)),
    ("dev", Change::Dev(true)),
    ("nodev", Change::Dev(false)),
    ("noexec", Change::NoExec(true)),
    ("exec", Change::NoExec(false)),
    ("noatime", Change::NoAtime(true)),
    ("relatime", Change::NoAtime(false)),
    ("atime", Change::NoAtime(false)),
    ("inode32", Change::Inode32),
];

/// Options that are for mount(8), systemd and people, or that say what is so anyhow.
const FOR_OTHERS: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "_netdev",
    "nofail",
    "async",
    "default_permissions",
    "silent",
    "loud",
];

/// The beginnings of such options.
const FOR_OTHERS_BEGIN: &[&str] = &["x-", "X-", "comment=", "uhelper=", "helper="];

impl Source {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(written: &str) -> Result<Source, String> {
        let wrong = |why: &str| {
            format!(
                "{written:?} names no cluster ({why}): write [CLUSTER@]HOST:PORT[,HOST:PORT...], the addresses of metadata servers"
            )
        };
        let rest = written.strip_prefix(SCHEME).unwrap_or(written);
        let (rest, subtree) = match rest.split_once(":/") {
            Some((rest, subtree)) => (rest, subtree),
            None => (rest, ""),
        };
        if !subtree.trim_matches('/').is_empty() {
            return Err(wrong(&format!(
                "/{subtree} is a part of the tree, which cannot be mounted alone: mount the whole, and that part with `mount --bind`"
            )));
        }
        let (cluster_id, addresses) = match rest.split_once('@') {
            Some(("", _)) => return Err(wrong("nothing stands before @")),
            Some((cluster_id, addresses)) => (cluster_id, addresses),
            None => ("", rest),
        };
        let meta: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        for address in &meta {
            Address::to_connect(address).map_err(|why| wrong(&why.to_string()))?;
        }
        Ok(Source {
            cluster_id: cluster_id.to_owned(),
            meta,
        })
    }
}

impl Order {
    /// Reads what follows the helper's name: `SPEC DIR [-sfnvrw] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn parse(arguments: &[OsString]) -> Result<Order, String> {
        let mut order = Order::default();
        let mut places: Vec<OsString> = Vec::new();
        let mut options: Vec<String> = Vec::new();
        let mut is_sloppy = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let letters = match argument.to_str() {
                Some(text) if text.len() > 1 => text.strip_prefix('-'),
                _ => None,
            };
            let Some(letters) = letters else {
                places.push(argument.clone());
                continue;
            };
            for (at, letter) in letters.char_indices() {
                let mut value = || {
                    let attached = &letters[at + letter.len_utf8()..];
                    match attached.is_empty() {
                        false => Ok(OsString::from(attached)),
                        true => rest
                            .next()
                            .cloned()
                            .ok_or_else(|| format!("-{letter} needs a value")),
                    }
                };
                match letter {
                    's' => is_sloppy = true,
                    'f' => order.is_fake = true,
                    'v' => order.is_verbose = true,
                    // There is no table of mounts but the kernel's.
                    'n' => {}
                    'r' => options.push("ro".into()),
                    'w' => options.push("rw".into()),
                    'N' => {
                        order.name_space = Some(value()?.into());
                        break;
                    }
                    't' => {
                        value()?;
                        break;
                    }
                    'o' => {
                        let list = value()?;
                        let list = list
                            .to_str()
                            .ok_or_else(|| format!("the options {list:?} are not in UTF-8"))?;
                        options.push(list.to_owned());
                        break;
                    }
                    _ => return Err(format!("-{letter} is unknown: {USAGE}")),
                }
            }
        }
        let [source, directory] = &places[..] else {
            return Err(USAGE.into());
        };
        let source = source
            .to_str()
            .ok_or_else(|| format!("{source:?} names no cluster: it is not in UTF-8"))?;
        order.source = Source::parse(source)?;
        order.directory = PathBuf::from(directory);
        let list = options.join(",");
        for option in list.split(',').filter(|option| !option.is_empty()) {
            order.option(option, is_sloppy)?;
        }
        Ok(order)
    }

    fn option(&mut self, option: &str, is_sloppy: bool) -> Result<(), String> {
        if let Some((_, change)) = CHANGES.iter().find(|(name, _)| *name == option) {
            self.changes.push(*change);
            return Ok(());
        }
        let is_for_others = FOR_OTHERS.contains(&option)
            || FOR_OTHERS_BEGIN
                .iter()
                .any(|begin| option.starts_with(begin));
        match option.split_once('=') {
            Some(("config", file)) if !file.is_empty() => self.config = Some(file.into()),
            Some(("log", file)) if !file.is_empty() => self.log = Some(file.into()),
            _ if is_for_others || is_sloppy => {}
            _ if option == "remount" => {
                return Err(
                    "remount is not possible: unmount, and mount with the other options".into(),
                );
            }
            _ => {
                let known: Vec<&str> = CHANGES.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "option {option:?} is unknown: Weft has {}, config=FILE and log=FILE; all else stands in that file",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The settings of the mount: of the file, if one was named, and what the order says.
    pub fn settings(&self, mut settings: Settings, directory: PathBuf) -> Settings {
        settings.mountpoint = directory;
        settings.client.meta.clone_from(&self.source.meta);
        if !self.source.cluster_id.is_empty() {
            settings
                .client
                .cluster_id
                .clone_from(&self.source.cluster_id);
        }
        let options = &mut settings.options;
        // The last one counts, as everywhere with mount(8).
        for change in &self.changes {
            match *change {
                Change::ReadOnly(is) => options.read_only = is,
                Change::AllowOther => options.allow_other = Some(true),
                Change::Suid(is) => options.suid = is,
                Change::Dev(is) => options.dev = is,
                Change::NoExec(is) => options.noexec = is,
                Change::NoAtime(is) => options.noatime = is,
                Change::Inode32 => options.inode32 = true,
            }
        }
        settings
    }
}

/// How it is called.
const USAGE: &str =
    "mount.weft [CLUSTER@]HOST:PORT[,HOST:PORT...] DIRECTORY [-sfnvrw] [-N NAMESPACE] [-o OPTIONS]";

#[cfg(test)]
mod tests {
    use super::*;
    use weft_mount::Options;

    fn parse(line: &str) -> Result<Order, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Order::parse(&words)
    }

    fn options(line: &str) -> Options {
        let order = parse(line).unwrap();
        order
            .settings(Settings::default(), order.directory.clone())
            .options
    }

    #[test]
    fn a_source_names_cluster_and_metadata_servers() {
        for (written, cluster_id, meta) in [
            ("10.0.0.1:7400", "", &["10.0.0.1:7400"][..]),
            ("blue@a:1,[::1]:2", "blue", &["a:1", "[::1]:2"]),
            ("weft:blue@a:1,b:2", "blue", &["a:1", "b:2"]),
            ("weft:a:1:/", "", &["a:1"]),
        ] {
            let source = Source::parse(written).unwrap();
            assert_eq!(
                (source.cluster_id.as_str(), &source.meta[..]),
                (
                    cluster_id,
                    &meta.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..]
                )
            );
        }
        for (written, why) in [
            ("", "no port"),
            ("a", "no port"),
            ("a:0", "port 0"),
            ("a:1,", "no port"),
            ("@a:1", "before @"),
            ("blue@a:1:/home", "mount --bind"),
            ("http://a:1", "mount --bind"),
        ] {
            let refused = Source::parse(written).unwrap_err();
            assert!(refused.contains(why), "{written}: {refused}");
            assert!(refused.contains("HOST:PORT"), "{refused}");
        }
    }

    #[test]
    fn every_option_is_set_ignored_or_refused_by_name() {
        let stock = Options::default();
        for (list, expected) in [
            ("rw", stock.clone()),
            (
                "ro",
                Options {
                    read_only: true,
                    ..stock.clone()
                },
            ),
            ("ro,rw", stock.clone()),
            (
                "allow_other",
                Options {
                    allow_other: Some(true),
                    ..stock.clone()
                },
            ),
            (
                "suid,dev",
                Options {
                    suid: true,
                    dev: true,
                    ..stock.clone()
                },
            ),
            ("suid,dev,nosuid,nodev", stock.clone()),
            (
                "noexec,noatime",
                Options {
                    noexec: true,
                    noatime: true,
                    ..stock.clone()
                },
            ),
            ("noexec,noatime,exec,relatime", stock.clone()),
            (
                "inode32",
                Options {
                    inode32: true,
                    ..stock.clone()
                },
            ),
            (
                "defaults,_netdev,nofail,noauto,user,x-systemd.automount,X-mount.mkdir,comment=x,,async",
                stock.clone(),
            ),
        ] {
            assert_eq!(options(&format!("a:1 /mnt -o {list}")), expected, "{list}");
        }
        for (list, why) in [
            ("rw,colour", "option \"colour\" is unknown"),
            ("sync", "option \"sync\" is unknown"),
            ("config=", "option \"config=\" is unknown"),
            ("remount,ro", "remount is not possible"),
        ] {
            let refused = parse(&format!("a:1 /mnt -o {list}")).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(
            options("a:1 /mnt -s -o colour,ro"),
            Options {
                read_only: true,
                ..stock
            }
        );
    }

    #[test]
    fn the_words_of_mount_are_read_in_any_order() {
        let order =
            parse("-fv blue@a:1 -N /proc/7/ns/mnt /mnt -t weft -n -oro,config=/etc/m.toml,log=/l")
                .unwrap();
        assert_eq!(
            order,
            Order {
                source: Source {
                    cluster_id: "blue".into(),
                    meta: vec!["a:1".into()]
                },
                directory: "/mnt".into(),
                is_fake: true,
                is_verbose: true,
                name_space: Some("/proc/7/ns/mnt".into()),
                config: Some("/etc/m.toml".into()),
                log: Some("/l".into()),
                changes: vec![Change::ReadOnly(true)],
            }
        );
        for (line, why) in [
            ("a:1", "DIRECTORY"),
            ("a:1 /mnt /more", "DIRECTORY"),
            ("a:1 /mnt -o", "-o needs a value"),
            ("a:1 /mnt -x", "-x is unknown"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn a_file_says_what_the_order_does_not() {
        let mut file = Settings::default();
        file.client.cluster_id = "blue".into();
        file.client.patience_ms = 7;
        file.client.meta = vec!["old:1".into()];
        file.options.noatime = true;
        let settings = parse("a:1 /mnt -o ro").unwrap().settings(file, "/x".into());
        assert_eq!(settings.client.meta, ["a:1"]);
        assert_eq!(settings.client.cluster_id, "blue");
        assert_eq!(settings.client.patience_ms, 7);
        assert!(settings.options.noatime && settings.options.read_only);
        assert_eq!(settings.mountpoint, PathBuf::from("/x"));
    }
}
