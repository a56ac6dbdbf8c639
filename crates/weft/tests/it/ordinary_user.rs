//! A cluster of somebody who is not root: mounted by fusermount3, with a root directory of his own.
//!
//! Run by root, who becomes nobody in a mount name space of its own, where /dev/fuse is as udev makes
//! it. Left out, with a plain message, elsewhere.

use crate::support::{Dev, WEFT, can_mount};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65_534;

/// Makes $1 the /dev/fuse of this name space, then runs the rest as nobody.
const BECOME_NOBODY: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1" /dev/fuse
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"#;

/// What nobody can reach: the program, a device, and a directory of his own.
struct Place {
    base: tempfile::TempDir,
    program: PathBuf,
    home: PathBuf,
}

impl Place {
    /// None, with a message, where this cannot be tried.
    fn new(device_mode: &str) -> Option<Place> {
        // SAFETY: it takes nothing and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        let has_helper = Command::new("fusermount3").arg("-V").output().is_ok();
        if !is_root || !has_helper {
            println!("left out: not root, or fusermount3 is not installed");
            return None;
        }
        if !can_mount() {
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = base.path().join("weft");
        fs::copy(WEFT, &program).unwrap();
        let home = base.path().join("home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let made = Command::new("mknod")
            .args(["-m", device_mode])
            .arg(base.path().join("fuse"))
            .args(["c", "10", "229"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        Some(Place {
            base,
            program,
            home,
        })
    }

    /// As nobody: what follows the program's name.
    fn starter(&self) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", BECOME_NOBODY, "sh"])
            .arg(self.base.path().join("fuse"))
            .arg(&self.program);
        command
    }
}

/// Runs a script as nobody where `dev` sees its mount.
fn as_nobody(dev: &Dev, directory: &Path, script: &str) -> Output {
    Command::new("nsenter")
        .arg("-m")
        .args(["-t", &dev.process.0.id().to_string()])
        .args(["setpriv", "--reuid", "65534", "--regid", "65534"])
        .args([
            "--clear-groups",
            "sh",
            "-ec",
            "cd \"$1\"; eval \"$2\"",
            "sh",
        ])
        .arg(directory)
        .arg(script)
        .output()
        .unwrap()
}

#[test]
fn a_user_has_a_cluster_of_his_own() {
    let Some(place) = Place::new("666") else {
        return;
    };
    let (cluster, mount) = (place.home.join("cluster"), place.home.join("mnt"));
    let at = mount.to_str().unwrap();
    let dev = Dev::start_by(place.starter(), &cluster, &["--mount", at, "--pairs", "1"]);
    dev.wait_up();
    let script = "stat -c %u:%g .; mkdir a; echo hello > a/b; mv a/b a/c; cat a/c; stat -c %U a/c";
    let done = as_nobody(&dev, &mount, script);
    assert!(done.status.success(), "{done:?}\n{}", dev.logs());
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "65534:65534\nhello\nnobody\n"
    );
    assert_eq!(fs::metadata(&cluster).unwrap().uid(), NOBODY);
    dev.end();
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    let Some(place) = Place::new("600") else {
        return;
    };
    let cluster = place.home.join("cluster");
    let begun = Instant::now();
    let failed = place
        .starter()
        .args(["dev", "--pairs", "1", "--dir"])
        .arg(&cluster)
        .arg("--mount")
        .arg(place.home.join("mnt"))
        .output()
        .unwrap();
    let said = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(
        said.contains("/dev/fuse is not open to this user"),
        "{said}"
    );
    assert!(said.contains("chmod 666 /dev/fuse"), "{said}");
    // Servers that serve well are ended in good order.
    assert!(
        !said.contains("killed") && !said.contains("stays away"),
        "{said}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60));
}
