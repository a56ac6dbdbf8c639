//! What the kernel may believe between a reply, an invalidation and the next request, with no fault at all
//! (docs/protocols/kernel-cache.md): ends of files, pages, modes. (More of that is in crates/weft-programs.)

use crate::support::Stopping;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long what looks for a race goes on.
const RACE: Duration = Duration::from_secs(3);

/// Two mounts make one file longer: what the one's write has returned for, the other reads.
pub fn ends_are_where_the_other_left_them(a: &Path, b: &Path) {
    const PART: usize = 512;
    const PARTS: u64 = 40;
    let end = Instant::now() + RACE;
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        let name = format!("longer-{round}");
        let flags = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.open(path.join(&name)).unwrap()
        };
        let (here, there) = (flags(a), flags(b));
        let reader = File::open(a.join(&name)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..PARTS {
                    let at = 2 * n * PART as u64;
                    here.write_all_at(&[b'x'; PART], at).unwrap();
                }
            });
            for n in 0..PARTS {
                let at = (2 * n + 1) * PART as u64;
                there.write_all_at(&[b'y'; PART], at).unwrap();
                let mut part = [0; PART];
                let count = reader.read_at(&mut part, at).unwrap();
                assert_eq!(count, PART, "round {round}, part {n}");
                assert!(part == [b'y'; PART], "round {round}, part {n}");
            }
        });
    }
}

/// An unprivileged write takes the set-id bits, for who asks the same mount, too.
pub fn set_id_bits_go_with_a_write(a: &Path, b: &Path) {
    let path = a.join("set-id");
    fs::write(&path, b"one\n").unwrap();
    let is_set = |path: &Path| only_mode(path) & 0o6000;
    fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(is_set(&path), 0o6000);
    let written = Command::new("sh")
        .args(["-c", "echo two >> \"$0\""])
        .arg(&path)
        .uid(65_534)
        .gid(65_534)
        .status()
        .unwrap();
    assert!(written.success());
    assert_eq!(is_set(&path), 0);
    assert_eq!(is_set(&b.join("set-id")), 0);
}

/// The mode as the kernel has it: whoever asks for the size, too, has it asked for anew.
fn only_mode(path: &Path) -> u32 {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: all zeros is a statx; the path ends with a NUL, and both live until the call returns.
    let (result, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let mask = libc::STATX_MODE;
        let result = libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, mask, &raw mut found);
        (result, found)
    };
    assert_eq!(result, 0);
    u32::from(found.stx_mode)
}

/// A page that was cached is not read any more once a write past the cache has returned, one that was submitted
/// (io_submit) among them.
pub fn writes_past_the_cache_are_read(a: &Path) {
    let path = a.join("past");
    fs::write(&path, [b'o'; 8192]).unwrap();
    let cached = File::open(&path).unwrap();
    let direct = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path)
        .unwrap();
    let first = || {
        let mut byte = [0];
        cached.read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = Stopping(&is_over);
        // It brings the page back while it is written.
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                first();
            }
        });
        let rounds = (0..50).map(|round| {
            let byte = b'a' + round % 26;
            submit(&direct, &Aligned([byte; 4096]));
            let submitted = first() == byte;
            let byte = byte.to_ascii_uppercase();
            direct.write_all_at(&Aligned([byte; 4096]).0, 0).unwrap();
            (submitted, first() == byte)
        });
        let rounds: Vec<(bool, bool)> = rounds.collect();
        drop(stopping);
        assert!(
            rounds.iter().all(|round| *round == (true, true)),
            "{rounds:?}"
        );
    });
}

#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// Writes a page at the beginning of a file by io_submit, and waits until that is done.
fn submit(file: &File, page: &Aligned) {
    /// struct iocb of linux/aio_abi.h.
    #[repr(C)]
    struct Control {
        data: u64,
        key: u32,
        flags: u32,
        opcode: u16,
        priority: i16,
        fd: u32,
        buffer: u64,
        bytes: u64,
        offset: i64,
        reserved: u64,
        control_flags: u32,
        result_fd: u32,
    }
    const PWRITE: u16 = 1;
    let mut control = Control {
        data: 0,
        key: 0,
        flags: 0,
        opcode: PWRITE,
        priority: 0,
        fd: file.as_raw_fd() as u32,
        buffer: page.0.as_ptr() as u64,
        bytes: page.0.len() as u64,
        offset: 0,
        reserved: 0,
        control_flags: 0,
        result_fd: 0,
    };
    let (mut context, mut event) = (0u64, [0u64; 4]);
    let mut controls = [&raw mut control];
    // SAFETY: all that the calls are given lives until io_getevents has told of the end of the one write.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0);
        let submitted = libc::syscall(libc::SYS_io_submit, context, 1, controls.as_mut_ptr());
        assert_eq!(submitted, 1);
        let none = std::ptr::null_mut::<libc::timespec>();
        let got = libc::syscall(
            libc::SYS_io_getevents,
            context,
            1,
            1,
            event.as_mut_ptr(),
            none,
        );
        assert_eq!(got, 1);
        assert_eq!(event[2], page.0.len() as u64);
        assert_eq!(libc::syscall(libc::SYS_io_destroy, context), 0);
    }
}
