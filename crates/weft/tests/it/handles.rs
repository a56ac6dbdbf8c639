//! Handles of files on a mount, as servers of NFS keep them that export it: they lead to the same file for as long as it is
//! there, also when the kernel has forgotten it, and on a mount that takes the place of an earlier one.

use crate::support::{Dev, can_mount};
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

const CONTENT: &[u8] = b"what was written before";

/// A file's handle, as NFS servers keep it.
#[repr(C)]
struct Handle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    handle: [u8; 128],
}

fn handle_of(path: &Path) -> Handle {
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let (path, mut mount) = (CString::new(path.to_str().unwrap()).unwrap(), 0);
    // SAFETY: the path ends in NUL, and the handle has room for as many bytes as it says.
    let got = unsafe {
        let to = std::ptr::from_mut(&mut handle).cast();
        libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), to, &mut mount, 0)
    };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    handle
}

fn open_by(mount: &fs::File, handle: &mut Handle, flags: i32) -> std::io::Result<fs::File> {
    // SAFETY: the handle is one that the kernel has written.
    let fd = unsafe {
        let handle = std::ptr::from_mut(handle).cast();
        libc::open_by_handle_at(mount.as_raw_fd(), handle, flags)
    };
    match fd {
        ..0 => Err(std::io::Error::last_os_error()),
        // SAFETY: it was opened just now, and nobody else has it.
        fd => Ok(unsafe { fs::File::from_raw_fd(fd) }),
    }
}

/// What NFS servers do that export a mount (as root): they keep handles, also of what the kernel has forgotten since.
#[test]
fn files_are_found_by_their_handles_on_a_new_mount() {
    // SAFETY: geteuid has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !can_mount() || !is_root {
        println!("left out: it takes root and a mount");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("mnt");
    let directory = base.path().join("cluster");
    let at = mount.to_str().unwrap();
    let dev = Dev::up(&directory, &["--mount", at, "--pairs", "1"]);
    fs::create_dir_all(mount.join("a/b")).unwrap();
    let (file, gone) = (mount.join("a/b/file"), mount.join("a/b/gone"));
    for path in [&file, &gone] {
        fs::write(path, CONTENT).unwrap();
    }
    let inner = mount.join("a/b");
    let [mut inner, mut kept, mut lost] = [&inner, &file, &gone].map(|it| handle_of(it));
    fs::remove_file(&gone).unwrap();
    dev.done(&["dev", "kill", "mount"]);
    dev.done(&["dev", "start", "mount"]);
    let root = fs::File::open(&mount).unwrap();
    let mut found = open_by(&root, &mut kept, libc::O_RDONLY).unwrap();
    let mut bytes = Vec::new();
    found.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, CONTENT);
    // A directory that is not known is joined to the tree through its parents.
    let found = open_by(&root, &mut inner, libc::O_RDONLY | libc::O_DIRECTORY).unwrap();
    let path = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).unwrap();
    assert_eq!(path, mount.join("a/b"));
    let refused = open_by(&root, &mut lost, libc::O_RDONLY).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ESTALE));
    drop((root, found));
    dev.end();
}
