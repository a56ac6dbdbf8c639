//! `weft dev`: a whole cluster on one machine, each server a process of its own, so that killing one
//! really kills it.

mod cluster;
mod configs;
mod control;
mod own;
mod ports;
mod serve;
mod supervise;

pub use cluster::Cluster;
use cluster::Counts;
use control::{Answer, Order, ask};

use crate::error::{Error, Result, Tried};
use crate::output::{say, show};
use crate::tool::DEFAULT_DIR;
use crate::{status, table};
use clap::{Args, Subcommand, ValueEnum};
use configs::Chosen;
use ports::Ports;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_env::{Env, private};

/// `weft dev ...`
#[derive(Args)]
pub struct DevCommand {
    /// Directory of the cluster; made if it is not there, found again if it is.
    #[arg(long, global = true, default_value = DEFAULT_DIR)]
    dir: PathBuf,
    #[command(subcommand)]
    order: Option<DevOrder>,
    #[command(flatten)]
    up: Up,
}

/// What to bring up.
#[derive(Args)]
struct Up {
    /// Where to mount it [default: DIR/mnt].
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Do not mount it.
    #[arg(long, conflicts_with = "mount")]
    no_mount: bool,
    /// Pairs of data servers [default: 2, or as many as the directory has].
    #[arg(long)]
    pairs: Option<u32>,
    /// Metadata servers of each group, of which one leads and the others take its place [default: 3, or as
    /// many as the directory has].
    #[arg(long)]
    members: Option<u32>,
    /// Groups of metadata servers that share the name space [default: 1, or as many as the directory has].
    #[arg(long)]
    groups: Option<u32>,
    /// NFS gateways, each on a port of its own of this machine [default: 0, or as many as the directory has].
    #[arg(long)]
    nfs: Option<u32>,
    /// Whose identity the gateways do not believe. `all`: whoever comes is the user who started this.
    #[arg(long, value_enum, default_value_t = NfsSquash::All)]
    nfs_squash: NfsSquash,
    /// When a change is called committed.
    #[arg(long, value_enum, default_value_t = JournalSync::Group)]
    journal_sync: JournalSync,
}

/// `squash` of the gateways' only rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum NfsSquash {
    /// Everybody is the user who started the cluster.
    All,
    /// Root of a client is nobody, others are who they say.
    Root,
    /// Everybody is who he says: any user of this machine may say that he is root.
    None,
}

/// `journal.sync`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum JournalSync {
    /// When it alone is on stable storage.
    Always,
    /// When its batch is on stable storage.
    Group,
    /// When it is in the journal's file; a power cut may take it back.
    Never,
}

#[derive(Subcommand)]
enum DevOrder {
    /// Kills a process (SIGKILL): meta:MEMBER, active (the metadata server that leads), data:PAIR.MEMBER, nfs:NUMBER, mount;
    /// of other groups than the first meta:GROUP.MEMBER and active:GROUP.
    Kill { name: String },
    /// Makes a process hang (SIGSTOP).
    Stop { name: String },
    /// Lets a hanging process go on (SIGCONT); active: the only metadata server that hangs.
    Cont { name: String },
    /// Starts a process that has ended, and waits until it serves; active: the only metadata server that has ended.
    Start { name: String },
    /// Removes all that a killed data server kept, as if its disk were new. The cluster is told that the store is lost, so
    /// its twin has to be there with a current copy.
    Wipe { name: String },
    /// Processes, pids, and the state of the pairs.
    Status {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs `weft dev ...`.
///
/// # Errors
/// If the cluster cannot be brought up, or an order is refused.
pub fn run(command: DevCommand) -> Result<()> {
    let directory = command.dir;
    let order = match command.order {
        None => return up(&directory, &command.up),
        Some(DevOrder::Status { json }) => return show_status(&directory, json),
        Some(DevOrder::Kill { name }) => Order::Kill { name },
        Some(DevOrder::Stop { name }) => Order::Stop { name },
        Some(DevOrder::Cont { name }) => Order::Cont { name },
        Some(DevOrder::Start { name }) => Order::Start { name },
        Some(DevOrder::Wipe { name }) => Order::Wipe { name },
    };
    order.name().map_err(Error::Usage)?;
    match ask(&directory, &order)? {
        Answer::Done { what } => {
            say!("{what}")?;
            Ok(())
        }
        Answer::Refused { why } => Err(Error::Failed(why)),
        Answer::Processes { .. } => Err(Error::Failed("an answer to another question".into())),
    }
}

/// Holds a directory for one `weft dev`; given back by the kernel with the process.
struct DirectoryLock(#[allow(dead_code)] fs::File);

fn lock(directory: &Path) -> Result<DirectoryLock> {
    let path = directory.join("lock");
    let mut options = private::options();
    options.create(true).truncate(false).read(true).write(true);
    let mut file = private::open(&options, &path).tried_on("cannot open", &path)?;
    private::close_file(&file).tried_on("cannot close to others", &path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            return Err(Error::Usage(format!(
                "a `weft dev` (pid {}) already runs on {}; choose another directory with --dir",
                pid.trim(),
                directory.display()
            )));
        }
        Err(fs::TryLockError::Error(error)) => return Err(error).tried_on("cannot lock", &path),
    }
    file.set_len(0).tried_on("cannot write", &path)?;
    writeln!(file, "{}", std::process::id()).tried_on("cannot write", &path)?;
    Ok(DirectoryLock(file))
}

fn up(directory: &Path, up: &Up) -> Result<()> {
    if let Some(members) = up.members
        && !(1..=cluster::MEMBERS_MAX).contains(&members)
    {
        return Err(Error::Usage(format!(
            "--members: from 1 to {}",
            cluster::MEMBERS_MAX
        )));
    }
    if let Some(groups) = up.groups
        && !(1..=cluster::GROUPS_MAX).contains(&groups)
    {
        return Err(Error::Usage(format!(
            "--groups: from 1 to {}",
            cluster::GROUPS_MAX
        )));
    }
    if let Some(pairs) = up.pairs
        && !(1..=cluster::PAIRS_MAX).contains(&pairs)
    {
        return Err(Error::Usage(format!(
            "--pairs: from 1 to {}",
            cluster::PAIRS_MAX
        )));
    }
    if let Some(gateways) = up.nfs
        && gateways > cluster::GATEWAYS_MAX
    {
        return Err(Error::Usage(format!(
            "--nfs: from 0 to {}",
            cluster::GATEWAYS_MAX
        )));
    }
    own::make(directory)?;
    // Servers get absolute paths: they may be started again from anywhere.
    let directory = directory
        .canonicalize()
        .tried_on("cannot find", directory)?;
    let _lock = lock(&directory)?;
    let mount_point = if up.no_mount {
        None
    } else {
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::Usage(
                "this machine has no /dev/fuse (modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN); --no-mount brings up the servers alone".into(),
            ));
        }
        let point = up.mount.clone().unwrap_or_else(|| directory.join("mnt"));
        Some(std::path::absolute(&point).tried_on("cannot name", &point)?)
    };
    let chosen = Chosen {
        mount_point,
        journal_sync: up.journal_sync,
        nfs_squash: up.nfs_squash,
    };
    let (groups, members, pairs, gateways) = (up.groups, up.members, up.pairs, up.nfs);
    weft_env::real::run(move |env| async move {
        // Claimed until the cluster has ended.
        let mut ports = Ports::default();
        let cluster = match Cluster::load(&directory)? {
            None => {
                let counts = Counts {
                    groups: groups.unwrap_or(1),
                    members: members.unwrap_or(cluster::MEMBERS),
                    pairs: pairs.unwrap_or(2),
                    gateways: gateways.unwrap_or(0),
                };
                let drawn = Cluster::drawn(&directory)?;
                let cluster = match drawn {
                    // An earlier start ended before its last step.
                    Some(drawn) if configs::is_founded(&env, &directory, &drawn, &chosen).await? => {
                        drawn
                    }
                    _ => {
                        let cluster = Cluster::draw(&env, counts, &mut ports)?;
                        cluster.draft(&directory)?;
                        configs::found(&env, &directory, &cluster, &chosen).await?;
                        cluster
                    }
                };
                // Only now: without this file the directory has no cluster.
                cluster.keep(&directory)?;
                cluster
            }
            Some(mut cluster) => {
                let there = cluster.groups;
                if groups.is_some_and(|groups| groups != there) {
                    return Err(Error::Usage(format!(
                        "the cluster in {} was made with {there} groups of metadata servers: leave --groups out",
                        directory.display()
                    )));
                }
                let there = cluster.members();
                if members.is_some_and(|members| members != there) {
                    return Err(Error::Usage(format!(
                        "the cluster in {} was made with {there} metadata servers in each group: leave --members out",
                        directory.display()
                    )));
                }
                let there = cluster.data.len() as u32;
                if pairs.is_some_and(|pairs| pairs != there) {
                    return Err(Error::Usage(format!(
                        "the cluster in {} was made with {there} pairs: leave --pairs out, and see `weft pair --help` for adding and removing some",
                        directory.display()
                    )));
                }
                cluster.take_back(&mut ports)?;
                if let Some(gateways) = gateways {
                    cluster.set_gateways(&env, &directory, gateways, &mut ports)?;
                }
                cluster
            }
        };
        serve::serve(env, directory, cluster, chosen).await
    })
    .tried(|| "cannot start".into())?
}

fn show_status(directory: &Path, json: bool) -> Result<()> {
    let (processes, mount_point) = match ask(directory, &Order::Status)? {
        Answer::Processes {
            processes,
            mount_point,
        } => (processes, mount_point),
        Answer::Refused { why } => return Err(Error::Failed(why)),
        Answer::Done { .. } => return Err(Error::Failed("an answer to another question".into())),
    };
    let addresses: Vec<String> = match Cluster::load(directory)? {
        Some(cluster) => cluster.meta_addresses(),
        None => Vec::new(),
    };
    let service = crate::block_on(|env: Env| async move {
        let tool = crate::tool::connect_first(&env, &addresses).await?;
        tool.status().await
    });
    if json {
        let mut object = serde_json::json!({
            "directory": directory,
            "mount_point": mount_point,
            "processes": processes,
        });
        match &service {
            Ok(reply) => object["service"] = status::to_json(reply),
            Err(error) => object["service_error"] = error.to_string().into(),
        }
        say!("{object}")?;
        return Ok(());
    }
    let rows = processes
        .iter()
        .map(|one| {
            vec![
                one.name.clone(),
                one.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
                one.state.clone(),
                one.address.clone().unwrap_or_default(),
                one.log.clone(),
            ]
        })
        .collect();
    show!(
        "{}",
        table::render(&["process", "pid", "state", "address", "log"], rows)
    )?;
    if let Some(point) = mount_point {
        say!("\nmounted at {point}")?;
    }
    say!()?;
    match &service {
        Ok(reply) => show!("{}", status::to_text(reply)),
        Err(error) => say!("{error}"),
    }?;
    Ok(())
}

/// What a person can type next.
fn ready_message(directory: &Path, cluster: &Cluster, mount_point: Option<&Path>) -> String {
    let shown = |path: &Path| {
        // As the user would write it, if it lies below the current directory.
        std::env::current_dir()
            .ok()
            .and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned))
            .unwrap_or_else(|| path.to_owned())
            .display()
            .to_string()
    };
    let weft = std::env::args().next().unwrap_or_else(|| "weft".into());
    let dir = shown(directory);
    let dir_option = if dir == DEFAULT_DIR {
        String::new()
    } else {
        format!(" --dir {dir}")
    };
    let mut out = format!(
        "Weft is up: {} pairs of data servers, metadata servers: {}{}, cluster {}.\n",
        cluster.data.len(),
        cluster.meta.len(),
        match cluster.groups {
            1 => String::new(),
            groups => format!(" in {groups} groups"),
        },
        cluster.id
    );
    match mount_point {
        Some(point) => {
            let point = shown(point);
            out += &format!(
                "Mounted at {point}; data and logs in {dir}.\n\n\
                 Try, in another terminal:\n\
                 \x20 echo hello > {point}/hi && {weft} explain {point}/hi\n\
                 \x20 {weft} dev{dir_option} kill data:0.1   # then go on reading and writing: a pause, not an error\n\
                 \x20 {weft} dev{dir_option} start data:0.1\n"
            );
            if cluster.members() > 1 {
                out += &format!(
                    "\x20 {weft} dev{dir_option} kill active     # another metadata server takes over; `start active` starts it again\n"
                );
            }
        }
        None => {
            out += &format!("Not mounted; data and logs in {dir}.\n\nTry, in another terminal:\n")
        }
    }
    for (at, address) in cluster.nfs.iter().enumerate() {
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        out += &format!(
            "\x20 mount -t nfs -o vers=4.2,port={port} 127.0.0.1:/ DIR   # by gateway nfs:{}; or vers=4.1\n\
             \x20 mount -t nfs -o vers=3,port={port},mountport={port},nolock 127.0.0.1:/ DIR\n",
            at + 1
        );
    }
    out += &format!(
        "\x20 {weft} dev{dir_option} status\n\nCtrl-C ends it; the same command brings it back with its data."
    );
    out
}

/// Waits until every pair serves, and every metadata server could take over; false if that takes too long.
async fn comes_up(env: &Env, cluster: &Cluster) -> bool {
    let deadline = env.now() + serve::START_PATIENCE;
    while env.now() < deadline {
        if let Ok(tool) = crate::tool::connect_first(env, &cluster.meta_addresses()).await
            && let Ok(reply) = tool.status().await
            && reply.pairs.len() + reply.removed_pairs.len() == cluster.data.len()
            && reply.pairs.iter().all(status::pair_serves)
            && reply.view.is_some_and(|view| {
                view.groups.len() as u32 == cluster.groups
                    && view.groups.iter().all(status::all_count)
            })
        {
            return true;
        }
        env.sleep(serve::LOOK_EVERY).await;
    }
    false
}
