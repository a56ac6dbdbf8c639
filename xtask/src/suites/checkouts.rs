//! Suites that are built by hand, from checkouts of theirs: xfstests and LTP.
//!
//! xfstests has a test file system and one that it empties, each mounted and unmounted as it likes: two clusters, and a
//! `mount` in front of the system's own that knows `fuse.weft`. Of LTP each test of a file call is run by itself in a
//! directory of a mount. What is left out stands in a file for each, a test in a line with its reason.

use super::logged;
use crate::cluster::Cluster;
use crate::run::{Outcome, root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Which tests of xfstests.
const GROUP: &str = "generic/quick";
/// The calls of which LTP's tests are run: names of tests begin so.
const CALLS: &str = "access chdir chmod chown close copy_file_range creat dup faccessat fallocate fchdir fchmod fchmodat \
    fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fpathconf fremovexattr fsetxattr fstat fstatat \
    fstatfs fsync ftruncate futimesat getcwd getdents getxattr inotify io_submit lchown lgetxattr link linkat \
    listxattr llistxattr llseek lremovexattr lseek lstat mkdir mkdirat mknod mknodat mmap msync \
    name_to_handle_at nftw open open_by_handle_at openat pathconf posix_fadvise pread preadv pwrite pwritev \
    read readahead readdir readlink readlinkat readv realpath removexattr rename renameat rmdir sendfile \
    setxattr splice stat statfs statvfs statx symlink symlinkat sync sync_file_range syncfs tee truncate \
    umask unlink unlinkat utime utimensat utimes vmsplice write writev";
/// A test of LTP that takes longer has failed.
const TEST_PATIENCE: Duration = Duration::from_secs(300);
/// The exit status of a test of LTP has this bit if it failed, or broke; others say that it does not apply, or warn.
const FAILED: i32 = 1 | 2;

/// Mounts as mount(8) does, with options, what a configuration in this directory is named after; leaves all other file
/// systems to the system's own mount, and remounts, which FUSE's helper cannot.
const MOUNT: &str = r#"#!/bin/sh
all="$*"
case " $all " in *" fuse.weft "*|*"-tfuse.weft "*) ;; *) exec /bin/mount -i "$@" ;; esac
case "$all" in *remount*) exec /bin/mount -i "$@" ;; esac
options= device= at=
while [ $# -gt 0 ]; do
  case "$1" in
    -t) shift ;;
    -o) options="$options,$2"; shift ;;
    -o*) options="$options,${1#-o}" ;;
    -*) ;;
    *) if [ -z "$device" ]; then device="$1"; else at="$1"; fi ;;
  esac
  shift
done
config="RUN/$device.mounted.toml"
edit="s|^mountpoint = .*|mountpoint = \"$at\"|"
set_if() { case "$options," in *,"$1",*) edit="$edit;s|^$2 = .*|$2 = $3|" ;; esac; }
set_if ro read_only true
set_if noatime noatime true
set_if nosuid suid false
set_if nodev dev false
set_if noexec noexec true
sed "$edit" "RUN/$device.toml" >"$config" || exit 1
setsid WEFT mount --config "$config" >>"RUN/$device.log" 2>&1 </dev/null &
until mountpoint -q "$at"; do
  kill -0 $! || exit 32
  sleep 0.05
done
"#;

/// xfstests takes the type of a mount, as df shows it, for FSTYP, without the part that it has for FUSE alone.
const DF: &str = r#"#!/bin/sh
shown=$(/bin/df "$@")
status=$?
printf '%s\n' "$shown" | sed 's/ fuse\.weft / fuse      /'
exit $status
"#;

/// What they need of the chore.
pub struct Checkouts<'a> {
    pub weft: &'a Path,
    /// For logs and what suites leave behind.
    pub run: &'a Path,
    /// For mount points.
    pub home: &'a Path,
    /// Only tests whose names contain it.
    pub filter: Option<&'a str>,
}

/// Says how a suite went.
pub fn report(name: &str, outcome: Outcome, failed: &mut Vec<String>) {
    match outcome {
        Ok(()) => println!("== {name}: passed"),
        Err(why) => {
            println!("== {name}: FAILED: {why}");
            failed.push(name.to_owned());
        }
    }
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

fn exclusions(name: &str) -> PathBuf {
    root()
        .join("xtask/src/suites")
        .join(format!("{name}.exclude"))
}

/// The generic tests of xfstests whose names contain this.
fn named(checkout: &Path, filter: &str) -> Result<Vec<String>, String> {
    let directory = checkout.join("tests/generic");
    let entries = at(&directory, fs::read_dir(&directory))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_test = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let names = names.filter(is_test).map(|name| format!("generic/{name}"));
    Ok(names.filter(|name| name.contains(filter)).collect())
}

/// The search path, with this directory before all others.
fn path_after(directory: PathBuf) -> std::ffi::OsString {
    let mut path = directory.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

impl Checkouts<'_> {
    pub fn xfstests(&self, checkout: &Path) -> Outcome {
        if !checkout.join("ltp/fsstress").exists() {
            return Err(format!(
                "{} is no xfstests, or not built",
                checkout.display()
            ));
        }
        let run = self.run.join("xfstests");
        let results = run.join("results");
        at(&results, fs::create_dir_all(&results))?;
        let mut clusters = Vec::new();
        let mut config = String::from("export FSTYP=fuse\nexport FUSE_SUBTYP=.weft\n");
        for (name, device, directory) in [
            ("weft-test", "TEST_DEV", "TEST_DIR"),
            ("weft-scratch", "SCRATCH_DEV", "SCRATCH_MNT"),
        ] {
            let (own, mounted) = (self.home.join(format!("{name}-own")), self.home.join(name));
            for place in [&own, &mounted] {
                at(place, fs::create_dir_all(place))?;
            }
            // Two clusters on one machine, and nothing is killed: no standbys.
            let parts = ["--pairs", "2", "--members", "1"];
            let cluster = Cluster::up(self.weft, &run.join(name), &own, &parts)?;
            // It finds its mounts by what they show as their device.
            let settings = cluster.mount_config(&mounted)?;
            let named = settings.lines().map(|line| match line.split(" = ").next() {
                Some("source") => format!("source = {name:?}\n"),
                // As other file systems are mounted.
                Some(option @ ("suid" | "dev")) => format!("{option} = true\n"),
                _ => format!("{line}\n"),
            });
            let file = run.join(format!("{name}.toml"));
            at(&file, fs::write(&file, named.collect::<String>()))?;
            clusters.push((cluster, mounted.clone()));
            config += &format!(
                "export {device}={name}\nexport {directory}={}\n",
                mounted.display()
            );
        }
        config += &format!("export RESULT_BASE={}\n", results.display());
        let host = run.join("local.config");
        at(&host, fs::write(&host, config))?;
        let mut check = Command::new("./check");
        match self.filter {
            Some(filter) => check.args(named(checkout, filter)?),
            None => check.args(["-g", GROUP, "-E"]).arg(exclusions("xfstests")),
        };
        let check = check.current_dir(checkout).env("HOST_OPTIONS", &host);
        let check = check.env("PATH", self.path_with_weft(&run)?);
        let outcome = logged(check, &run.join("check.log"));
        for (cluster, mounted) in clusters {
            // It may have left them mounted.
            let mut unmount = Command::new("umount");
            let unmount = unmount.arg(&mounted).stderr(Stdio::null());
            at(&mounted, unmount.status())?;
            cluster.down()?;
        }
        for line in at(&run, fs::read_to_string(run.join("check.log")))?.lines() {
            if ["Failures:", "Failed ", "Passed "]
                .iter()
                .any(|begin| line.starts_with(begin))
            {
                println!("   {line}");
            }
        }
        outcome.map(drop)
    }

    /// A search path on which `mount` and `df` are those above.
    fn path_with_weft(&self, run: &Path) -> Result<std::ffi::OsString, String> {
        use std::os::unix::fs::PermissionsExt;
        let directory = run.join("bin");
        at(&directory, fs::create_dir_all(&directory))?;
        for (name, text) in [("mount", MOUNT), ("df", DF)] {
            let text = text
                .replace("RUN", &run.to_string_lossy())
                .replace("WEFT", &self.weft.to_string_lossy());
            let script = directory.join(name);
            let written = fs::write(&script, text)
                .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
            at(&script, written)?;
        }
        Ok(path_after(directory))
    }

    /// In a directory of this mount.
    pub fn ltp(&self, installed: &Path, mount: &Path) -> Outcome {
        let programs = installed.join("testcases/bin");
        let list = installed.join("runtest/syscalls");
        let list = at(&list, fs::read_to_string(&list))?;
        let excluded = at(&exclusions("ltp"), fs::read_to_string(exclusions("ltp")))?;
        let is_excluded = |name: &str| {
            let names = excluded
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            names.into_iter().any(|excluded| excluded == name)
        };
        let is_of_files = |name: &str| {
            let call = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '_');
            CALLS.split_whitespace().any(|known| known == call)
        };
        let ground = mount.join("ltp");
        at(&ground, fs::create_dir_all(&ground))?;
        // As /tmp: some tests begin as another user.
        let open = fs::Permissions::from_mode(0o1777);
        at(&ground, fs::set_permissions(&ground, open))?;
        let run = self.run.join("ltp");
        at(&run, fs::create_dir_all(&run))?;
        let path = path_after(programs);
        let (mut passed, mut failed) = (0, Vec::new());
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, command)) = line.split_once(char::is_whitespace) else {
                continue;
            };
            let is_wanted = match self.filter {
                Some(filter) => name.contains(filter),
                None => !is_excluded(name),
            };
            if !is_of_files(name) || !is_wanted {
                continue;
            }
            let log = run.join(format!("{name}.log"));
            let output = at(&log, fs::File::create(&log))?;
            let errors = at(&log, output.try_clone())?;
            let mut test = Command::new("sh");
            let test = test.args(["-c", command]).current_dir(&ground);
            let test = test
                .env("PATH", &path)
                .env("TMPDIR", &ground)
                .env("LTPROOT", installed)
                // Of file systems that a test mounts by itself one is enough.
                .env("LTP_SINGLE_FS_TYPE", "tmpfs");
            // What it has started ends with it.
            let test = test.process_group(0).stdin(Stdio::null());
            let test = test.stdout(output).stderr(errors);
            let mut child = test.spawn().map_err(|error| format!("{name}: {error}"))?;
            let deadline = Instant::now() + TEST_PATIENCE;
            let status = loop {
                match child
                    .try_wait()
                    .map_err(|error| format!("{name}: {error}"))?
                {
                    Some(status) => break Some(status),
                    None if Instant::now() > deadline => {
                        // SAFETY: kill takes plain numbers; the group is that of a child not yet waited for.
                        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
                        let _: std::io::Result<_> = child.wait();
                        break None;
                    }
                    None => std::thread::sleep(Duration::from_millis(10)),
                }
            };
            match status.and_then(|status| status.code()) {
                Some(code) if code & FAILED == 0 => passed += 1,
                _ => failed.push(name),
            }
        }
        println!("   {passed} passed, {} failed", failed.len());
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed.join(" ")),
        }
    }
}
