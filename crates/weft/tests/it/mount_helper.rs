//! Mounting as people do it: `mount -t weft`, by the helper that mount(8) calls; and what is said where something is in the way.

use crate::support::mounts::until;
use crate::support::{Dev, WEFT, can_mount};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// As mount(8) calls it.
fn helper(arguments: &[&str]) -> Output {
    let helper = Command::new(WEFT)
        .arg("mount.weft")
        .args(arguments)
        .output();
    helper.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A setting as it stands in a file.
fn setting(file: &Path, key: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let begin = format!("{key} = \"");
    let line = text.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap().trim_end_matches('"').to_owned()
}

/// A cluster without a mount; how mounts name it.
fn cluster(base: &Path) -> (Dev, String) {
    let dev = Dev::up(
        &base.join("cluster"),
        &["--no-mount", "--pairs", "1", "--members", "1"],
    );
    let config = dev.directory.join("meta-1.toml");
    let source = format!(
        "weft:{}@{}",
        setting(&config, "cluster_id"),
        setting(&config, "listen")
    );
    (dev, source)
}

/// Unmounts when it goes, whatever happened.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        // It may not be mounted any more.
        let _: std::io::Result<Output> = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The processes of mounts on a directory: those whose log or settings are not ours are nobody's here.
fn pids_of(source: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mark = format!("WEFT_TEST_MOUNT={source}");
        if environment
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
        {
            found.push(pid);
        }
    }
    found
}

fn is_root() -> bool {
    // SAFETY: it takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("left out: not root");
    }
    is_root
}

#[test]
fn a_wrong_order_is_refused_with_the_codes_of_mount() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().to_str().unwrap();
    for (arguments, code, reason) in [
        (&["a:1"][..], 1, "DIRECTORY"),
        (&["a", directory], 1, "no port"),
        (
            &["blue@127.0.0.1:1", directory, "-o", "rw,colour=red"],
            1,
            "\"colour=red\" is unknown",
        ),
        (
            &["blue@127.0.0.1:1", "/no/such/place"],
            1,
            "mkdir -p /no/such/place",
        ),
        (
            &["blue@127.0.0.1:1", directory, "-o", "config=/no/such/file"],
            32,
            "/no/such/file",
        ),
        (
            &["blue@no.such.name.invalid:1", directory],
            1,
            "is not known",
        ),
        (&["127.0.0.1:1", directory], 32, "no Weft server answers"),
    ] {
        let refused = helper(arguments);
        let said = said(&refused);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    let fake = helper(&["-f", "blue@127.0.0.1:1", directory, "-o", "ro,nofail,x-a"]);
    assert_eq!(fake.status.code(), Some(0), "{fake:?}");
}

#[test]
fn mounts_do_not_cover_each_other_and_dead_ones_go() {
    if !is_root() || !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let (dev, source) = cluster(base.path());
    let at = base.path().join("mnt");
    fs::create_dir(&at).unwrap();
    fs::write(at.join("hidden"), "local").unwrap();
    let log = base.path().join("log");
    let outside = fs::metadata(&at).unwrap().dev();
    let _end = Unmounted(at.clone());
    let mount = |options: &str| {
        let options = format!("{options},log={}", log.display());
        Command::new(WEFT)
            .args(["mount.weft", &source, at.to_str().unwrap(), "-o", &options])
            .env("WEFT_TEST_MOUNT", &source)
            .output()
            .unwrap()
    };
    let first = mount("rw");
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    // It stands when the helper has returned.
    assert_ne!(fs::metadata(&at).unwrap().dev(), outside);
    fs::write(at.join("file"), "by the first").unwrap();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(
        logged.contains("the directory is not empty") && logged.contains("\\\"hidden\\\"")
            || logged.contains("\"hidden\""),
        "{logged}"
    );
    let second = mount("rw");
    let why = said(&second);
    assert_eq!(second.status.code(), Some(32), "{why}");
    assert!(
        why.contains(&format!("Weft is mounted there already ({source})")),
        "{why}"
    );
    assert!(why.contains("umount "), "{why}");
    assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "by the first");
    let [pid] = pids_of(&source)[..] else {
        panic!("one mount is there: {:?}", pids_of(&source));
    };
    // Its process dies: what is left on the directory is taken away by the next one.
    let sync = Command::new("sync").arg(at.join("file")).status().unwrap();
    assert!(sync.success());
    // SAFETY: kill takes plain numbers; the pid is that of this test's own mount.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    until("the mount is dead", || {
        fs::read_dir(&at).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
    });
    let third = mount("ro,_netdev,x-systemd.automount");
    assert_eq!(third.status.code(), Some(0), "{third:?}");
    assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "by the first");
    let refused = fs::write(at.join("file"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    let done = Command::new("umount").arg(&at).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    until("its process ends", || pids_of(&source).is_empty());
    assert_eq!(fs::read_to_string(at.join("hidden")).unwrap(), "local");
    dev.end();
}

/// Puts the helper where mount(8) looks, in a mount name space of its own; $1 a directory for what is laid over /sbin, $2 the
/// program, $3 the source, $4 the directory to mount on.
const MOUNT: &str = r#"
mount --make-rprivate /
sbin=$(readlink -f /sbin)
mkdir -p "$1/upper" "$1/work" "$1/over"
mount -t tmpfs none "$1/over"
mkdir "$1/over/upper" "$1/over/work"
mount -t overlay none -o "lowerdir=$sbin,upperdir=$1/over/upper,workdir=$1/over/work" "$sbin" || exit 77
ln -s "$2" "$sbin/mount.weft"
mount -t weft "$3" "$4" -o noatime,_netdev,nofail,x-systemd.automount
echo hello > "$4/by-mount"
grep " $4 fuse.weft " /proc/mounts
umount "$4"
echo "$3 $4 weft ro,noauto,_netdev 0 0" > "$1/fstab"
mount -T "$1/fstab" -t weft -a
test ! -e "$4/by-mount"
mount -T "$1/fstab" "$4"
cat "$4/by-mount"
umount "$4"
"#;

#[test]
fn mount_of_type_weft_mounts() {
    if !is_root() || !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let (dev, source) = cluster(base.path());
    let at = base.path().join("mnt");
    fs::create_dir(&at).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-euc", MOUNT, "sh"])
        .arg(base.path())
        .arg(WEFT)
        .arg(&source)
        .arg(&at)
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        println!("left out: nothing can be laid over /sbin here");
        return;
    }
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{}", said(&output));
    assert!(out.contains("noatime") && out.contains(&source), "{out}");
    assert!(out.ends_with("hello\n"), "{out}");
    dev.end();
}
