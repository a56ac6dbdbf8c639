//! What a program sees of inodes whose last name is gone, or goes at that moment: the same as on the machine's own file
//! system, whichever mount took the name away.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a name is tried by while it is replaced: so long each.
const TRIED: Duration = Duration::from_millis(400);
/// What is held is looked at again after this: nothing lingers so long by itself.
const HELD: Duration = Duration::from_secs(3);

/// What was tried, and what came of it.
type Seen = Vec<(String, String)>;

fn show<T: std::fmt::Debug>(result: std::io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn held_open(path: &Path, flags: i32) -> OwnedFd {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends with NUL.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    assert!(fd >= 0, "{path:?}: {}", std::io::Error::last_os_error());
    // SAFETY: it was just opened, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn links_and_mode(fd: &OwnedFd) -> std::io::Result<(u64, u32)> {
    // SAFETY: a place for the answer.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor and that place.
    match unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } {
        0 => Ok((stat.st_nlink, stat.st_mode)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn target(fd: &OwnedFd) -> std::io::Result<String> {
    let mut buffer = [0_u8; 64];
    let place = buffer.as_mut_ptr().cast();
    // SAFETY: a descriptor, an empty path, and a place of that size.
    let length = unsafe { libc::readlinkat(fd.as_raw_fd(), c"".as_ptr(), place, buffer.len()) };
    match usize::try_from(length) {
        Ok(length) => Ok(String::from_utf8_lossy(&buffer[..length]).into_owned()),
        Err(_) => Err(std::io::Error::last_os_error()),
    }
}

/// A shell whose current directory will be removed: it looks around when it is told to.
fn shell_in(directory: &Path) -> Child {
    let script = "read go; stat -c '%h %F' .; ls -a; echo $?; mkdir x 2>/dev/null; echo $?; \
                  chmod 700 .; echo $?; stat -c %a .; stat -c %F ..; read go; stat -c '%h %a' .; ls -a";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script]).current_dir(directory);
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    shell.unwrap()
}

/// Holds things by way of `hold` that are removed by way of `by`, the same directory.
fn held(hold: &Path, by: &Path) -> Seen {
    let mut seen = Seen::new();
    let (file, fifo, link, dir) = (
        hold.join("f"),
        hold.join("p"),
        hold.join("s"),
        hold.join("d"),
    );
    fs::write(&file, "data").unwrap();
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o640) }, 0);
    std::os::unix::fs::symlink("where", &link).unwrap();
    fs::create_dir(&dir).unwrap();
    let by_path = held_open(&file, libc::O_PATH);
    let opened = File::open(&file).unwrap();
    let pipe = held_open(&fifo, libc::O_RDWR);
    let symlink = held_open(&link, libc::O_PATH | libc::O_NOFOLLOW);
    let directory = held_open(&dir, libc::O_RDONLY | libc::O_DIRECTORY);
    let mut shell = shell_in(&dir);
    for name in ["f", "p", "s"] {
        fs::remove_file(by.join(name)).unwrap();
    }
    fs::remove_dir(by.join("d")).unwrap();
    let again = |fd: &dyn AsRawFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    for time in ["at once", "later"] {
        let mut note = |what: &str, result: String| seen.push((format!("{what}, {time}"), result));
        note("O_PATH", show(links_and_mode(&by_path)));
        note("O_PATH, opened", show(fs::read_to_string(again(&by_path))));
        let write = OpenOptions::new().write(true).open(again(&opened));
        note(
            "open, opened to write",
            show(write.and_then(|mut file| file.write(b"x"))),
        );
        let mut bytes = Vec::new();
        note("open, read", show((&opened).read_to_end(&mut bytes)));
        note("fifo", show(links_and_mode(&pipe)));
        note("symlink", show(links_and_mode(&symlink)));
        note("symlink's target", show(target(&symlink)));
        note("directory", show(links_and_mode(&directory)));
        let listed = fs::read_dir(again(&directory)).map(|list| list.count());
        note("directory, listed", show(listed));
        let made = Path::new(&again(&directory)).join("x");
        let made = OpenOptions::new().write(true).create_new(true).open(made);
        note("directory, made in", show(made.map(drop)));
        let mode = fs::Permissions::from_mode(0o711);
        note(
            "directory, mode",
            show(fs::set_permissions(again(&directory), mode)),
        );
        note("directory, after", show(links_and_mode(&directory)));
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        if time == "at once" {
            std::thread::sleep(HELD);
        }
    }
    let output = shell.wait_with_output().unwrap();
    seen.push((
        "a shell".into(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    ));
    seen
}

/// A name is replaced all the time by way of `by`: whoever uses it by way of `hold` finds it.
fn replaced(hold: &Path, by: &Path) -> Seen {
    let (name, stop) = (hold.join("v"), &AtomicBool::new(false));
    fs::write(&name, "").unwrap();
    let path = CString::new(name.as_os_str().as_bytes()).unwrap();
    let list = || {
        // SAFETY: a path that ends with NUL, and no place for an answer.
        match unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0) } {
            0.. => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let now = || std::time::SystemTime::now();
    let opened = |flags: i32| OpenOptions::new().read(true).write(flags != 0).open(&name);
    let tries: [(&str, &dyn Fn() -> std::io::Result<()>); 8] = [
        ("stat", &|| fs::metadata(&name).map(drop)),
        ("read", &|| fs::read(&name).map(drop)),
        ("open to write", &|| opened(1).map(drop)),
        ("truncate", &|| {
            OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_TRUNC)
                .open(&name)
                .map(drop)
        }),
        ("chmod", &|| {
            fs::set_permissions(&name, fs::Permissions::from_mode(0o600))
        }),
        ("utime", &|| opened(1)?.set_modified(now())),
        ("listxattr", &list),
        ("link", &|| match fs::hard_link(&name, hold.join("l")) {
            Ok(()) => fs::remove_file(hold.join("l")),
            // Linux says so of an inode without a name, on every file system.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }),
    ];
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (new, name) = (by.join(format!("new{n}")), by.join("v"));
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    File::create(&new).unwrap();
                    fs::rename(&new, &name).unwrap();
                }
            });
        }
        let mut seen = Seen::new();
        for (what, tried) in tries {
            let (end, mut failed) = (Instant::now() + TRIED, None);
            while Instant::now() < end && failed.is_none() {
                failed = tried().err().map(|error| show::<()>(Err(error)));
            }
            seen.push((what.into(), failed.unwrap_or_else(|| "done".into())));
        }
        stop.store(true, Ordering::Relaxed);
        seen
    })
}

/// Compares a directory of both mounts with one of the machine's own file system.
pub fn is_as_on_a_local_disk(a: &Path, b: &Path) {
    let local = tempfile::tempdir().unwrap();
    for (n, (hold, by)) in [(a, a), (a, b)].into_iter().enumerate() {
        let name = format!("removed{n}");
        let (of_local, of_hold) = (local.path().join(&name), hold.join(&name));
        fs::create_dir(&of_local).unwrap();
        fs::create_dir(&of_hold).unwrap();
        let there = by.join(&name);
        let (right, seen) = std::thread::scope(|scope| {
            let local = scope.spawn(|| held(&of_local, &of_local));
            let seen = held(&of_hold, &there);
            (local.join().unwrap(), seen)
        });
        assert_eq!(seen, right, "held by {hold:?}, removed by {by:?}");
        let seen = replaced(&of_hold, &there);
        let is_right = |(_, result): &(String, String)| result == "done";
        assert!(seen.iter().all(is_right), "replaced by {by:?}: {seen:?}");
        assert!(fs::metadata(&of_hold).unwrap().nlink() >= 2);
    }
}
