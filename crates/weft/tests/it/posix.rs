//! What single calls do on a mount, beside what they do in a directory of this machine.
//!
//! Left out, with a plain message, where nothing can be mounted. Everything that is started is ended by its id;
//! everything that is written lies in a temporary directory.

use crate::support::{Dev, Process, WEFT, can_mount};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A check: what it saw, line by line. The same is to be seen in a local directory.
type Check = fn(&Path) -> Vec<String>;

const ALIKE: [(&str, Check); 6] = [
    ("files without a name", unnamed),
    ("holes", holes),
    ("blocks of a sparse file", blocks),
    ("locks of open file descriptions", description_locks),
    ("running what cannot be read", running),
    ("writing what has capabilities", capabilities),
];

const NOBODY: u32 = 65_534;

#[test]
fn calls_do_what_they_do_on_a_local_file_system() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
    let (at, local) = (base.path().join("mount"), base.path().join("local"));
    let cluster = base.path().join("cluster");
    let dev = Dev::up(&cluster, &["--mount", at.to_str().unwrap()]);
    for dir in [&at, &local] {
        fs::create_dir_all(dir).unwrap();
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
    let mut wrong = String::new();
    for (name, check) in ALIKE {
        let (here, there) = (check(&local), check(&at));
        if here != there {
            wrong += &format!("{name}:\n  local {here:?}\n  weft  {there:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}{}", dev.logs());
    // Not every local file system has the mark, nor moves times of access.
    whiteouts_are_left(&at);
    no_atime(&at);
    nothing_lies_beyond_the_largest_object(&at);
    let narrow = base.path().join("narrow");
    let _second = second_mount(&cluster, &at, &narrow);
    numbers_fit_32_bits(&at, &narrow);
    times_of_access_stay(&narrow);
}

/// A mount with `noatime` and `inode32`, and else as the first.
fn second_mount(cluster: &Path, first: &Path, at: &Path) -> Process {
    let config = fs::read_to_string(cluster.join("mount.toml")).unwrap();
    let config: String = config
        .lines()
        .filter(|line| !line.starts_with("metrics_listen") && !line.starts_with("noatime"))
        .map(|line| match line {
            "inode32 = false" => "inode32 = true\nnoatime = true\n".to_owned(),
            line => format!("{line}\n"),
        })
        .collect();
    assert!(config.contains("inode32 = true"), "{config}");
    let config = config.replace(
        &format!("mountpoint = {first:?}"),
        &format!("mountpoint = {at:?}"),
    );
    let path = cluster.join("narrow.toml");
    fs::write(&path, config).unwrap();
    fs::create_dir(at).unwrap();
    let outside = fs::metadata(at).unwrap().dev();
    let mut mount = Command::new(WEFT);
    let mount = mount.args(["mount", "--config"]).arg(&path);
    let mount = Process(mount.stdout(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs::metadata(at).unwrap().dev() == outside {
        assert!(Instant::now() < deadline, "the second mount does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    mount
}

fn told<T>(result: io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
    }
}

/// What a system call returned.
fn called(returned: impl Into<i64>) -> io::Result<()> {
    match returned.into() {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn path_of(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// As nobody, with a file as $1.
fn as_nobody(script: &str, file: &Path) -> String {
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script, "sh"]).arg(file);
    let shell = shell.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
    let output = shell.stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    format!("{:?} {text}", output.status.code())
}

/// F_OFD_SETLK or F_SETLK of the whole file.
fn lock(file: &File, command: i32, kind: i32) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: an open file, and a lock that lives as long as the call.
    called(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) })
}

fn description_locks(dir: &Path) -> Vec<String> {
    let path = dir.join("locked");
    fs::write(&path, "locked").unwrap();
    let open = || {
        let mut how = OpenOptions::new();
        how.read(true).write(true).open(&path).unwrap()
    };
    let mut seen = Vec::new();
    let (one, two) = (open(), open());
    let try_two = |patience: Duration| {
        // The end of a description is heard of a little later.
        let deadline = Instant::now() + patience;
        let mut got = lock(&two, libc::F_OFD_SETLK, libc::F_WRLCK);
        while got.is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            got = lock(&two, libc::F_OFD_SETLK, libc::F_WRLCK);
        }
        let _: io::Result<()> = lock(&two, libc::F_OFD_SETLK, libc::F_UNLCK);
        told(got)
    };
    let (no_time, some_time) = (Duration::ZERO, Duration::from_secs(2));
    seen.push(told(lock(&one, libc::F_OFD_SETLK, libc::F_WRLCK)));
    seen.push(try_two(no_time));
    // A descriptor of the same description keeps them; so does a process that has it.
    let again = one.try_clone().unwrap();
    drop(one);
    seen.push(try_two(no_time));
    drop(again);
    seen.push(try_two(some_time));
    // A process's own locks stay for its other descriptors.
    let (one, other) = (open(), open());
    seen.push(told(lock(&one, libc::F_SETLK, libc::F_WRLCK)));
    drop(one);
    seen.push(told(lock(&other, libc::F_SETLK, libc::F_WRLCK)));
    std::thread::sleep(Duration::from_millis(100));
    seen.push(told(lock(&two, libc::F_OFD_SETLK, libc::F_WRLCK)));
    seen
}

fn running(dir: &Path) -> Vec<String> {
    let program = dir.join("program");
    fs::copy("/bin/true", &program).unwrap();
    let mut seen = Vec::new();
    for mode in [0o711, 0o744, 0o755, 0o700] {
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        seen.push(as_nobody("\"$1\"", &program));
        seen.push(as_nobody("cat \"$1\" | wc -c", &program));
    }
    seen
}

fn capabilities(dir: &Path) -> Vec<String> {
    let path = dir.join("capable");
    fs::write(&path, "program").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let name = c"security.capability";
    // struct vfs_cap_data, version 2: CAP_NET_RAW may be had.
    let mut value = [0_u8; 20];
    (value[3], value[5]) = (0x02, 0x20);
    let file = path_of(&path);
    // SAFETY: strings that end and a value of that length.
    let set = || unsafe {
        called(libc::setxattr(
            file.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            20,
            0,
        ))
    };
    let get = || {
        // SAFETY: strings that end; no value is asked for.
        told(called(unsafe {
            libc::getxattr(file.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) as i64
        }))
    };
    let mut seen = Vec::new();
    for script in [
        "echo more >>\"$1\"",
        "echo other 1<>\"$1\"",
        "truncate -s 3 \"$1\"",
        ": >\"$1\"",
        "setfattr -x security.capability \"$1\"",
    ] {
        seen.push(told(set()));
        seen.push(as_nobody(script, &path));
        seen.push(get());
        seen.push(fs::read_to_string(&path).unwrap());
    }
    seen
}

fn no_atime(dir: &Path) {
    let path = dir.join("quiet");
    fs::write(&path, "quiet").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(long_ago);
    let mut how = OpenOptions::new();
    how.write(true)
        .open(&path)
        .unwrap()
        .set_times(times)
        .unwrap();
    for flags in [libc::O_NOATIME, 0] {
        let mut how = OpenOptions::new();
        // Past the pages, of whose reading nobody hears.
        let how = how.read(true).custom_flags(flags | libc::O_DIRECT);
        let mut bytes = [0; 5];
        let file = how.open(&path).unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        let stays = file.metadata().unwrap().atime() == 1_000_000_000;
        assert_eq!(stays, flags != 0, "{flags:#x}");
    }
}

fn unnamed(dir: &Path) -> Vec<String> {
    let home = dir.join("unnamed");
    fs::create_dir(&home).unwrap();
    let make = |flags| {
        let mut how = OpenOptions::new();
        let how = how.read(true).write(true).mode(0o640);
        how.custom_flags(libc::O_TMPFILE | flags).open(&home)
    };
    let name = |file: &File, name: &str| {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        let to = path_of(&home.join(name));
        // SAFETY: strings that end.
        told(called(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        }))
    };
    let seen_of = |file: &File| {
        let known = file.metadata().unwrap();
        format!("{} {:o} {}", known.nlink(), known.mode(), known.len())
    };
    let mut seen = Vec::new();
    let Ok(file) = make(0) else {
        return vec!["none can be made".into()];
    };
    file.write_all_at(b"no name yet", 0).unwrap();
    file.sync_all().unwrap();
    seen.push(seen_of(&file));
    seen.push(format!("{}", fs::read_dir(&home).unwrap().count()));
    seen.push(name(&file, "first"));
    seen.push(seen_of(&file));
    drop(file);
    seen.push(fs::read_to_string(home.join("first")).unwrap());
    // Removed again while it is open, it cannot come back.
    let file = make(0).unwrap();
    file.write_all_at(b"again", 0).unwrap();
    seen.push(name(&file, "second"));
    seen.push(told(fs::remove_file(home.join("second"))));
    seen.push(seen_of(&file));
    let mut text = [0; 5];
    seen.push(told(file.read_exact_at(&mut text, 0)));
    seen.push(name(&file, "third"));
    // With O_EXCL it never gets one.
    seen.push(name(&make(libc::O_EXCL).unwrap(), "fourth"));
    seen.push(told(fs::remove_file(home.join("first"))));
    seen.push(told(fs::remove_dir(&home)));
    seen
}

fn whiteouts_are_left(dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    for _ in 0..2 {
        fs::write(&old, "moved").unwrap();
        let (from, to) = (path_of(&old), path_of(&new));
        // SAFETY: strings that end.
        let renamed = unsafe {
            let here = libc::AT_FDCWD;
            libc::renameat2(
                here,
                from.as_ptr(),
                here,
                to.as_ptr(),
                libc::RENAME_WHITEOUT,
            )
        };
        called(renamed).unwrap();
        let mark = fs::symlink_metadata(&old).unwrap();
        assert_eq!(
            (mark.mode(), mark.rdev(), mark.nlink()),
            (libc::S_IFCHR, 0, 1)
        );
        assert_eq!(fs::read(&new).unwrap(), b"moved");
        fs::remove_file(&old).unwrap();
    }
}

fn seek(file: &File, offset: i64, whence: i32) -> i64 {
    // SAFETY: an open file.
    unsafe { libc::lseek(file.as_raw_fd(), offset, whence) }
}

fn holes(dir: &Path) -> Vec<String> {
    let path = dir.join("holes");
    let mut how = OpenOptions::new();
    let file = how
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    let mut seen = Vec::new();
    let mut look = |file: &File| {
        let found = [0, 5, 4095, 4096, 9000, 70_000, 100_000].map(|at| {
            (
                seek(file, at, libc::SEEK_DATA),
                seek(file, at, libc::SEEK_HOLE),
            )
        });
        seen.push(format!("{found:?}"));
    };
    file.write_all_at(b"0123456789", 0).unwrap();
    look(&file);
    for size in [3000, 10_000, 200_000] {
        file.set_len(size).unwrap();
        for synced in [false, true] {
            if synced {
                file.sync_all().unwrap();
            }
            look(&file);
        }
    }
    file.write_all_at(b"far", 68_000).unwrap();
    look(&file);
    file.sync_all().unwrap();
    look(&file);
    seen
}

/// By a program that writes in small pieces between holes.
fn blocks(dir: &Path) -> Vec<String> {
    let path = dir.join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    for piece in 0..2048_u64 {
        let at = (4 << 20) + piece * 512;
        file.write_all_at(&[7; 512], at).unwrap();
    }
    file.sync_all().unwrap();
    let known = fs::metadata(&path).unwrap();
    // What file systems take beside the data is theirs.
    vec![format!("{} MiB", (known.blocks() * 512) >> 20)]
}

/// What an object cannot hold is refused at once, and nothing is changed by it.
fn nothing_lies_beyond_the_largest_object(dir: &Path) {
    let path = dir.join("far");
    let source = dir.join("near");
    fs::write(&source, "0123456789").unwrap();
    let mut how = OpenOptions::new();
    let file = how
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    let near = File::open(&source).unwrap();
    // `weft dev` has a pair or more; no more than a hundred.
    let far: [i64; 4] = [15 << 47, 1 << 54, 1 << 60, i64::MAX - 100];
    for offset in far {
        let fd = file.as_raw_fd();
        let copy = || {
            let (mut from, mut to) = (0_i64, offset);
            // SAFETY: open files, and offsets that live as long as the call.
            called(unsafe {
                let (source, target) = (near.as_raw_fd(), file.as_raw_fd());
                libc::copy_file_range(source, &raw mut from, target, &raw mut to, 5, 0) as i64
            })
        };
        // SAFETY: an open file.
        let allocated = |mode| called(unsafe { libc::fallocate(fd, mode, offset, 5) });
        let tried = [
            file.write_at(b"abc", offset as u64).map(drop),
            file.set_len(offset as u64),
            allocated(0),
            allocated(libc::FALLOC_FL_KEEP_SIZE),
            allocated(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            allocated(libc::FALLOC_FL_ZERO_RANGE),
            copy(),
        ];
        let tried = tried.map(told);
        let refused = format!("errno {}", libc::EFBIG);
        assert!(tried.iter().all(|it| *it == refused), "{offset}: {tried:?}");
        file.sync_all().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"begin");
    }
    // Up to the end of it all goes as ever.
    let last = 15 << 40;
    file.set_len(last).unwrap();
    file.set_len(9).unwrap();
    file.write_all_at(b"z", last - 1).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), last);
    file.set_len(5).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"begin");
}

/// The entries of a directory as readdir(3) gives them: name, number, position.
fn entries(dir: &Path) -> Vec<(String, u64, i64)> {
    let mut all = Vec::new();
    // SAFETY: a stream that is closed when all has been read; entries are copied before the next one is asked for.
    unsafe {
        let stream = libc::opendir(path_of(dir).as_ptr());
        assert!(!stream.is_null());
        loop {
            let entry = libc::readdir64(stream);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr());
            let name = name.to_str().unwrap().to_owned();
            all.push((name, (*entry).d_ino, (*entry).d_off));
        }
        // And on from each place.
        for at in (0..all.len() - 1).step_by(7) {
            libc::seekdir(stream, all[at].2);
            let entry = libc::readdir64(stream);
            let name = CStr::from_ptr((*entry).d_name.as_ptr());
            assert_eq!(name.to_str().unwrap(), all[at + 1].0);
        }
        libc::closedir(stream);
    }
    all
}

fn numbers_fit_32_bits(wide: &Path, narrow: &Path) {
    for number in 0..40 {
        let dir = wide.join(format!("n{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("f"), "f").unwrap();
    }
    assert!(
        entries(wide)
            .iter()
            .any(|(_, ino, _)| *ino > u64::from(u32::MAX))
    );
    let listed = entries(narrow);
    assert_eq!(listed.len(), entries(wide).len());
    let mut inos = BTreeSet::new();
    for (name, ino, place) in &listed {
        assert!(
            *ino <= u64::from(u32::MAX) && *place <= i64::from(i32::MAX),
            "{name}"
        );
        if name != ".." {
            assert_eq!(
                fs::metadata(narrow.join(name)).unwrap().ino(),
                *ino,
                "{name}"
            );
            assert!(inos.insert(*ino), "{name}");
        }
    }
    let file = fs::metadata(narrow.join("n7/f")).unwrap().ino();
    assert!(file <= u64::from(u32::MAX) && inos.insert(file));
    assert_eq!(fs::read(narrow.join("n7/f")).unwrap(), b"f");
}

fn times_of_access_stay(dir: &Path) {
    let path = dir.join("untouched");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"abc").unwrap();
    let times = fs::FileTimes::new().set_accessed(std::time::SystemTime::UNIX_EPOCH);
    file.set_times(times).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"abc");
    assert_eq!(fs::metadata(&path).unwrap().atime(), 0);
}
