//! `mount.weft`: what mount(8) calls for `mount -t weft` and for lines of fstab(5). It returns once the mount stands; the
//! mount's process goes on without it.

mod order;

use crate::config::{load, needs_met};
use crate::error::Error;
use crate::log::tell;
use crate::tool::connect_first;
use order::Order;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use weft_mount::Settings;

/// What the program is called as. mount(8) looks for the second one where the type is given as the table of mounts shows it.
const NAMES: [&str; 2] = ["mount.weft", "mount.fuse.weft"];

/// Exit codes of mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// Called wrongly, or not permitted.
    Usage = 1,
    /// A system's error.
    System = 2,
    /// A fault of the helper's own.
    Internal = 4,
    /// Not mounted.
    Failed = 32,
}

/// Why there is no mount; None: it was said already.
struct Refused(Code, Option<String>);

impl Refused {
    fn usage(why: impl Into<String>) -> Refused {
        Refused(Code::Usage, Some(why.into()))
    }

    fn system(what: &str, error: &std::io::Error) -> Refused {
        Refused(Code::System, Some(format!("{what}: {error}")))
    }

    fn of(error: &Error) -> Refused {
        let code = match error {
            Error::Usage(_) => Code::Usage,
            _ => Code::Failed,
        };
        Refused(code, Some(error.to_string()))
    }
}

/// What follows the name, if this program was called as the helper.
pub fn called_as() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let name = Path::new(&name).file_name()?;
    NAMES
        .iter()
        .any(|known| name == OsStr::new(known))
        .then(|| arguments.collect())
}

/// Mounts as mount(8) orders, and ends with an exit code of its.
pub fn run(arguments: &[OsString]) -> ExitCode {
    match mount(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Refused(code, why)) => {
            if let Some(why) = why {
                tell!("mount.weft: {why}");
            }
            ExitCode::from(code as u8)
        }
    }
}

fn mount(arguments: &[OsString]) -> Result<(), Refused> {
    let order = Order::parse(arguments).map_err(Refused::usage)?;
    if let Some(name_space) = &order.name_space {
        enter(name_space)?;
    }
    let directory = std::path::absolute(&order.directory)
        .map_err(|error| Refused::system("cannot find the directory to mount on", &error))?;
    let file = match &order.config {
        Some(file) => load::<Settings>(file).map_err(|error| Refused::of(&error))?,
        None => Settings::default(),
    };
    let mut settings = order.settings(file, directory);
    if settings.client.cluster_id.is_empty() {
        settings.client.cluster_id = ask(&settings.client.meta)?;
    }
    settings.check().map_err(Refused::usage)?;
    needs_met(&settings).map_err(Refused::usage)?;
    let text = toml::to_string(&settings)
        .map_err(|error| Refused(Code::Internal, Some(format!("settings: {error}"))))?;
    if order.is_verbose {
        tell!(
            "mount.weft: cluster {:?} at {} on {}",
            settings.client.cluster_id,
            settings.client.meta.join(","),
            settings.mountpoint.display()
        );
    }
    if order.is_fake {
        return Ok(());
    }
    begin(&text, order.log.as_deref())
}

/// Which cluster it is, where the order does not say.
fn ask(meta: &[String]) -> Result<String, Refused> {
    let asked = crate::block_on(|env| async move {
        let status = connect_first(&env, meta).await?.status().await?;
        Ok(status.view.unwrap_or_default().cluster_id)
    });
    asked.map_err(|error| Refused::of(&error))
}

/// Goes where the mount is wanted: mount(8) has left it to us.
fn enter(name_space: &Path) -> Result<(), Refused> {
    let shown = name_space.to_string_lossy();
    let file = match shown.bytes().all(|byte| byte.is_ascii_digit()) {
        true => PathBuf::from(format!("/proc/{shown}/ns/mnt")),
        false => name_space.to_owned(),
    };
    let what = format!("cannot enter the name space {}", file.display());
    let opened = File::open(&file).map_err(|error| Refused::system(&what, &error))?;
    // SAFETY: a descriptor that is open, and a plain number.
    match unsafe { libc::setns(opened.as_raw_fd(), libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(Refused::system(&what, &std::io::Error::last_os_error())),
    }
}

/// Where the mount's process says what it has to say.
enum Says {
    /// In a file, from this position on.
    In(File, u64),
    /// To the journal of systemd, which is there as long as the process is.
    ToJournal,
    /// To whoever has called, until it is mounted.
    ToCaller,
}

impl Says {
    fn of(log: Option<&Path>) -> Result<Says, Refused> {
        if let Some(path) = log {
            let opened = File::options()
                .create(true)
                .append(true)
                .read(true)
                .open(path);
            let what = format!("cannot open the log {}", path.display());
            let file = opened.map_err(|error| Refused::system(&what, &error))?;
            let length = file.metadata().map(|found| found.len());
            let length = length.map_err(|error| Refused::system(&what, &error))?;
            return Ok(Says::In(file, length));
        }
        Ok(match is_journal() {
            true => Says::ToJournal,
            false => Says::ToCaller,
        })
    }
}

/// systemd says which descriptor its journal is.
fn is_journal() -> bool {
    let (Ok(named), Ok(error)) = (
        std::env::var("JOURNAL_STREAM"),
        std::fs::metadata("/proc/self/fd/2"),
    ) else {
        return false;
    };
    named == format!("{}:{}", error.dev(), error.ino())
}

/// Starts the mount's process, and waits until it has mounted.
fn begin(settings: &str, log: Option<&Path>) -> Result<(), Refused> {
    let cannot = |error: &std::io::Error| Refused::system("cannot start the mount", error);
    let mut says = Says::of(log)?;
    let program = std::env::current_exe().map_err(|error| cannot(&error))?;
    let mut command = Command::new(program);
    command
        // Not the helper's own name, where that is the program's.
        .arg0("weft")
        .args(["mount", "--config", "/dev/stdin", "--detach"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    match &says {
        Says::In(file, _) => {
            command.stderr(file.try_clone().map_err(|error| cannot(&error))?);
        }
        Says::ToJournal => {}
        Says::ToCaller => {
            command.arg("--silent-after");
            if std::env::var_os("WEFT_LOG").is_none() {
                command.env("WEFT_LOG", "warn");
            }
        }
    }
    let mut child = command.spawn().map_err(|error| cannot(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended says why.
        let _: std::io::Result<()> = stdin.write_all(settings.as_bytes());
    }
    let mut word = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let read = stdout.read_to_string(&mut word);
        read.map_err(|error| cannot(&error))?;
    }
    match word.as_str() {
        crate::server::READY => Ok(()),
        _ => Err(ended(child, &mut says)),
    }
}

/// It did not come to be.
fn ended(mut child: Child, says: &mut Says) -> Refused {
    let status = child.wait();
    let code = match status.as_ref().map(std::process::ExitStatus::code) {
        Ok(Some(2)) => Code::Usage,
        Ok(Some(101)) => Code::Internal,
        _ => Code::Failed,
    };
    let Says::In(file, from) = says else {
        return Refused(code, None);
    };
    let mut text = String::new();
    let read = file
        .seek(SeekFrom::Start(*from))
        .and_then(|_| file.read_to_string(&mut text));
    // As it would have said it to whoever has called.
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("weft: "));
    match (read, last) {
        (Ok(_), Some(last)) => Refused(code, Some(last.to_owned())),
        _ => Refused(
            code,
            Some("the mount did not come to be: see its log".into()),
        ),
    }
}
