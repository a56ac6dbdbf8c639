//! Programs that judge names: what they stand for, who took them, whether they are there.

use crate::judge::{Changes, Clock, Register, locked};
use crate::{Fault, Meeting, Step, Told, Turn};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What stands in a file, again and again: more than a page.
const COPIES: usize = 700;

/// Two mounts replace a file and a symbolic link by renaming over them; what a name leads to, read by both, is a register,
/// and always whole.
pub fn replaced(turn: &Turn) -> Result<(), Fault> {
    let (files, links) = (turn.both("file"), turn.both("link"));
    fs::write(&files[0], content(0)).told(files[0].display())?;
    symlink("0", &links[0]).told(links[0].display())?;
    let (clock, file, link) = (
        &Clock::default(),
        &Register::default(),
        &Register::default(),
    );
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (number, (file_path, link_path)) in files.iter().zip(&links).enumerate() {
        let fresh = file_path.with_file_name(format!("fresh-{number}"));
        steps.push(Box::new(move || {
            file.write(clock, |value| {
                fs::write(&fresh, content(value)).told(fresh.display())?;
                fs::rename(&fresh, file_path).told(file_path.display())
            })?;
            link.write(clock, |value| {
                symlink(value.to_string(), &fresh).told(fresh.display())?;
                fs::rename(&fresh, link_path).told(link_path.display())
            })
        }));
        steps.push(Box::new(move || {
            let floor = file.floor();
            let mut opened = File::open(file_path).told(format!("open {}", file_path.display()))?;
            let mut found = Vec::new();
            let read = opened.read_to_end(&mut found);
            read.told(format!("read {}", file_path.display()))?;
            let value = found.first_chunk().map(|first| u64::from_le_bytes(*first));
            let value = value.filter(|value| content(*value) == found);
            let value = value.ok_or_else(|| format!("{} bytes, not whole", found.len()))?;
            file.found(floor, value)
        }));
        steps.push(Box::new(move || {
            let floor = link.floor();
            let found = fs::read_link(link_path).told(link_path.display())?;
            let value = found.to_str().and_then(|value| value.parse().ok());
            let value = value.ok_or_else(|| format!("the link leads to {found:?}"))?;
            link.found(floor, value)
        }));
    }
    turn.together(steps)
}

fn content(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(COPIES)
}

/// A call by which a name is tried. (Not link: it answers ENOENT, on local file systems too, if what it finds loses its
/// last name meanwhile.)
type Call = (&'static str, fn(&Path) -> io::Result<()>);

const CALLS: [Call; 8] = [
    ("open", |path| File::open(path).map(drop)),
    ("open to write", |path| {
        OpenOptions::new().write(true).open(path).map(drop)
    }),
    ("read", |path| {
        File::open(path)?.read_to_end(&mut Vec::new()).map(drop)
    }),
    ("stat", |path| fs::metadata(path).map(drop)),
    ("chmod", |path| {
        fs::set_permissions(path, Permissions::from_mode(0o644))
    }),
    ("truncate", |path| {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a path that ends with NUL.
        called(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
    }),
    ("utime", |path| {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a path that ends with NUL, and no times: now.
        called(unsafe { libc::utimes(path.as_ptr(), std::ptr::null()) }.into())
    }),
    ("listxattr", |path| {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a path that ends with NUL, and no room: how much there is.
        called(unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0) } as i64)
    }),
];

fn called(returned: i64) -> io::Result<()> {
    match returned {
        0.. => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Both mounts rename over a name all the time: no call ever finds that it is not there.
pub fn always_there(turn: &Turn) -> Result<(), Fault> {
    let paths = turn.both("there");
    File::create(&paths[0]).told(paths[0].display())?;
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let fresh = path.with_file_name(format!("fresh-{number}"));
        steps.push(Box::new(move || {
            File::create(&fresh).told(fresh.display())?;
            fs::rename(&fresh, path).told(path.display())
        }));
        for mut call in [0, CALLS.len() / 2] {
            steps.push(Box::new(move || {
                call = (call + 1) % CALLS.len();
                let (name, call) = CALLS[call];
                call(path).told(format!("{name} of {}", path.display()))
            }));
        }
    }
    turn.together(steps)
}

/// A way to take something that only one can have: from a name, to a name, by someone; and what who comes late is told.
type Way = (
    &'static str,
    fn(&Path, &Path, usize) -> io::Result<()>,
    ErrorKind,
);

const WAYS: [Way; 7] = [
    (
        "rename to one name",
        |from, to, _| fs::rename(from, to),
        ErrorKind::NotFound,
    ),
    (
        "rename to names of their own",
        |from, to, who| fs::rename(from, to.with_extension(who.to_string())),
        ErrorKind::NotFound,
    ),
    (
        "unlink",
        |from, _, _| fs::remove_file(from),
        ErrorKind::NotFound,
    ),
    (
        "link",
        |from, to, _| fs::hard_link(from, to),
        ErrorKind::AlreadyExists,
    ),
    (
        "mkdir",
        |_, to, _| fs::create_dir(to),
        ErrorKind::AlreadyExists,
    ),
    (
        "symlink",
        |_, to, _| symlink("x", to),
        ErrorKind::AlreadyExists,
    ),
    (
        "create",
        |_, to, _| File::create_new(to).map(drop),
        ErrorKind::AlreadyExists,
    ),
];

/// Who claim, half of them by each mount.
const CLAIMERS: usize = 4;

/// All of them try for the same thing at the same moment: one gets it.
pub fn claimed(turn: &Turn) -> Result<(), Fault> {
    let meeting = &Meeting::of(CLAIMERS);
    let took = &Mutex::new(Vec::new());
    let mut steps: Vec<Step<'_>> = Vec::new();
    for who in 0..CLAIMERS {
        let dir = &turn.dirs[who % 2];
        let mut number = 0;
        steps.push(Box::new(move || {
            number += 1;
            let (name, take, too_late) = WAYS[number % WAYS.len()];
            let [from, to] = ["from", "to"].map(|it| dir.join(format!("{it}-{number}")));
            if who == 0 {
                locked(took).clear();
                File::create(&from).told(from.display())?;
            }
            if !meeting.waits(turn) {
                return Ok(());
            }
            match take(&from, &to, who) {
                Ok(()) => locked(took).push(who),
                Err(error) if error.kind() == too_late => {}
                Err(error) => return Err(format!("{name}, {}: {error}", dir.display())),
            }
            if meeting.waits(turn) && who == 0 {
                let took = locked(took).clone();
                let [winner] = took[..] else {
                    return Err(format!("{name}: taken by {took:?}"));
                };
                let to = match name {
                    "unlink" => return Ok(()),
                    "rename to names of their own" => to.with_extension(winner.to_string()),
                    _ => to,
                };
                return fs::symlink_metadata(&to)
                    .map(drop)
                    .told(format!("{name}: {}", to.display()));
            }
            Ok(())
        }));
    }
    turn.together(steps)
}

/// Names that are there all the time: more than one reply of a listing holds.
const FIXED: usize = 300;
/// Names that come and go.
const PASSING: usize = 8;

/// Some names are always there, others come and go by both mounts. A listing tells each of the first once, and no name
/// twice; whoever asks for one of the others is told what is so, unless that changes meanwhile.
pub fn listed(turn: &Turn) -> Result<(), Fault> {
    for number in 0..FIXED {
        let path = turn.dirs[number % 2].join(format!("fixed-{number}"));
        File::create(&path).told(path.display())?;
    }
    let changes: [Changes; PASSING] = Default::default();
    let changes = &changes;
    let name = |number: usize| format!("passing-{number}");
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (by, dir) in turn.dirs.iter().enumerate() {
        let mut step = 0;
        steps.push(Box::new(move || {
            // Each name is one mount's.
            let number = step % (PASSING / 2) * 2 + by;
            let path = dir.join(name(number));
            let round = step / (PASSING / 2);
            step += 1;
            changes[number].change(|| {
                match round % 4 {
                    0 => File::create(&path).map(drop),
                    1 => fs::remove_file(&path),
                    2 => {
                        let fresh = dir.join(format!("fresh-{by}"));
                        symlink("nowhere", &fresh).and_then(|()| fs::rename(&fresh, &path))
                    }
                    _ => fs::rename(&path, dir.join(format!("gone-{by}"))),
                }
                .told(path.display())
            })
        }));
        let mut number = 0;
        steps.push(Box::new(move || {
            number = (number + 1) % PASSING;
            let before = changes[number].settled();
            let path = dir.join(name(number));
            let is_there = match fs::symlink_metadata(&path) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            // Each change makes a name that is absent, or takes one that is there.
            let was_there = before.map(|count| count % 2 == 1);
            if was_there == Some(!is_there) && changes[number].settled() == before {
                return Err(format!("{} is there: {is_there}", path.display()));
            }
            Ok(())
        }));
        steps.push(Box::new(move || {
            let before = changes.each_ref().map(Changes::settled);
            let names = list(dir)?;
            let told = |name: &str| names.get(name).copied().unwrap_or(0);
            for number in 0..FIXED {
                let name = format!("fixed-{number}");
                if told(&name) != 1 {
                    let dir = dir.display();
                    return Err(format!("{dir}: {name} was told {} times", told(&name)));
                }
            }
            for (name, count) in &names {
                if *count > 1 {
                    return Err(format!("{}: {name} was told {count} times", dir.display()));
                }
            }
            for (number, before) in before.into_iter().enumerate() {
                let is_there = told(&name(number)) == 1;
                let was_there = before.map(|count| count % 2 == 1);
                if was_there == Some(!is_there) && changes[number].settled() == before {
                    let dir = dir.display();
                    return Err(format!("{dir}: {} was told: {is_there}", name(number)));
                }
            }
            Ok(())
        }));
    }
    turn.together(steps)
}

/// How often each name is told.
fn list(dir: &Path) -> Result<BTreeMap<String, usize>, Fault> {
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(dir).told(dir.display())? {
        let name = entry.told(dir.display())?.file_name();
        *names
            .entry(name.to_string_lossy().into_owned())
            .or_default() += 1;
    }
    Ok(names)
}

/// Who hold a file, half of them by each mount; the first one removes it.
const HOLDERS: usize = 4;

/// A file is removed, or replaced, while several hold it: its name is gone for all of them, its bytes are not, and what one
/// writes others still read.
pub fn held(turn: &Turn) -> Result<(), Fault> {
    let meeting = &Meeting::of(HOLDERS);
    let mut steps: Vec<Step<'_>> = Vec::new();
    for who in 0..HOLDERS {
        let mut number = 0;
        steps.push(Box::new(move || {
            number += 1;
            // By turns the one mount removes it, and the other.
            let dir = &turn.dirs[(who + number) % 2];
            let path = dir.join(format!("held-{number}"));
            hold(turn, meeting, who, number, &path)
                .map_err(|fault| format!("{} held by {who}: {fault}", path.display()))
        }));
    }
    turn.together(steps)
}

fn hold(
    turn: &Turn,
    meeting: &Meeting,
    who: usize,
    number: usize,
    path: &PathBuf,
) -> Result<(), Fault> {
    let is_replaced = number.is_multiple_of(2);
    if who == 0 {
        fs::write(path, content(1)).told("writing it")?;
    }
    if !meeting.waits(turn) {
        return Ok(());
    }
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.told("opening it")?;
    let ino = file.metadata().told("fstat")?.ino();
    see(&file, 1)?;
    if !meeting.waits(turn) {
        return Ok(());
    }
    if who == 0 {
        if is_replaced {
            let fresh = path.with_extension("fresh");
            fs::write(&fresh, "").told("making another one")?;
            fs::rename(&fresh, path).told("replacing it")?;
        } else {
            fs::remove_file(path).told("removing it")?;
        }
    }
    if !meeting.waits(turn) {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(found) if is_replaced && found.ino() != ino => {}
        Err(error) if !is_replaced && error.kind() == ErrorKind::NotFound => {}
        Ok(found) => return Err(format!("its name leads to {}, was {ino}", found.ino())),
        Err(error) => return Err(format!("its name: {error}")),
    }
    let found = file.metadata().told("fstat")?;
    if (found.nlink(), found.ino()) != (0, ino) {
        let found = (found.nlink(), found.ino());
        return Err(format!("(links, inode) are {found:?}, was {ino}"));
    }
    see(&file, 1)?;
    if !meeting.waits(turn) {
        return Ok(());
    }
    if who == number / 2 % HOLDERS {
        file.write_all_at(&content(2), 0).told("writing to it")?;
    }
    match meeting.waits(turn) {
        true => see(&file, 2),
        false => Ok(()),
    }
}

/// Reads all of a file that is held.
fn see(file: &File, value: u64) -> Result<(), Fault> {
    let expected = content(value);
    let mut found = vec![0; expected.len() + 1];
    let count = file.read_at(&mut found, 0).told("reading it")?;
    match found[..count] == expected {
        true => Ok(()),
        false => Err(format!("{count} bytes, begin with {:?}", &found[..16])),
    }
}
