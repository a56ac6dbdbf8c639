//! Images of other members: who lacks what journals no longer hold takes one, piece by piece.

use super::{Ended, Member, view};
use crate::{MetaError, Settings, startup};
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use weft_env::{Env, File, OpenMode};
use weft_journal::{Journal, image_path, images, kept, kept_path};
use weft_rpc::{Connection, Local, Payload, Request};
use weft_types::Sn;
use weft_wire::Failed;
use weft_wire::proto::{FetchImageReply, FetchImageRequest, Identity, identity::Role};

/// What has come of an image, in the server's directory.
const PART: &str = "image.part";
/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// A piece that has not come by then is asked for again, perhaps of another.
const PIECE_PATIENCE: Duration = Duration::from_secs(5);
/// After all members were asked in vain.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
/// Times that a connection is made anew for the rest of an image before another member is asked.
const RESUMED_MAX: usize = 5;

/// Answers one that asks for a piece of an image.
pub(crate) fn on_image(member: &Rc<Member>, request: Request) {
    let asked = match request.decode::<FetchImageRequest>() {
        Ok(asked) if asked.group == member.settings.group => asked,
        Ok(_) => {
            return request
                .replier
                .fail(Failed::Refused("another group's".into()));
        }
        Err(failed) => return request.replier.fail(failed),
    };
    let (member, replier) = (member.clone(), request.replier);
    member.env.clone().spawn("image piece", async move {
        match piece(&member, asked).await {
            Ok((reply, bytes)) => replier.send::<FetchImageRequest>(&reply, bytes),
            Err(error) => replier.fail(Failed::Unavailable(error.to_string())),
        }
    });
}

/// One piece, and of which image.
async fn piece(
    member: &Member,
    asked: FetchImageRequest,
) -> std::io::Result<(FetchImageReply, Bytes)> {
    let dir = &member.settings.dir;
    if asked.checkpoint != 0 {
        let there = kept(&member.env, dir).map_err(std::io::Error::other)?;
        if !there.contains(&asked.checkpoint) {
            return Ok((FetchImageReply::default(), Bytes::new()));
        }
        let path = kept_path(dir, asked.checkpoint);
        let file = member.env.open(&path, OpenMode::Read).await?;
        let reply = FetchImageReply {
            sn: asked.checkpoint,
            total_bytes: file.len()?,
        };
        let bytes = match asked.look {
            true => Bytes::new(),
            false => file.read_at(asked.offset, PIECE_BYTES).await?,
        };
        return Ok((reply, bytes));
    }
    let known = images(&member.env, dir).map_err(std::io::Error::other)?;
    let wanted = match asked.sn {
        0 => known.last(),
        sn => known.iter().find(|known| known.0 == sn),
    };
    let Some(sn) = wanted else {
        return Ok((FetchImageReply::default(), Bytes::new()));
    };
    let file = member
        .env
        .open(&image_path(dir, *sn), OpenMode::Read)
        .await?;
    let reply = FetchImageReply {
        sn: sn.0,
        total_bytes: file.len()?,
    };
    let bytes = file.read_at(asked.offset, PIECE_BYTES).await?;
    Ok((reply, bytes))
}

/// Fetches the newest image of any member that has one that will do. The life is over then: the next one begins with it.
/// Unless another active has had meanwhile what was missing here: then the journal has gone on, and others may count on
/// what it has taken.
pub(super) async fn run(member: Rc<Member>) {
    while let Some(base) = member.wants_image() {
        let (active, addresses) = view::addresses(&member.view.borrow(), member.settings.group);
        let own = member.address.clone();
        // Who leads has the most to do: it is asked last.
        let others = addresses.into_iter().filter(|address| *address != own);
        let (last, first): (Vec<_>, Vec<_>) = others.partition(|it| Some(it) == active.as_ref());
        for address in first.into_iter().chain(last) {
            match fetch(&member, &address, base).await {
                // Others may have gone on meanwhile without keeping what follows it.
                Ok(Some(sn)) if member.wants_image().is_some_and(|base| base <= sn) => {
                    tracing::info!(%sn, from = address, "another member's image is here");
                    return member.end(Ended::Restored(sn));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(from = address, %error, "no image from there"),
            }
        }
        member.env.sleep(ROUND_PAUSE).await;
    }
    member.is_restoring.set(false);
    tracing::info!("what was missing here has come from another active: no image is needed");
}

/// Fetches a member's newest image. None: it has none that is new enough.
async fn fetch(member: &Rc<Member>, address: &str, base: Sn) -> std::io::Result<Option<Sn>> {
    let part = member.settings.dir.join(PART);
    let file = member.env.open(&part, OpenMode::CreateEmpty).await?;
    let mut arriving = Arriving {
        sn: Sn(0),
        total: 0,
        offset: 0,
        file,
    };
    let mut resumed = 0;
    loop {
        match receive(member, address, base, &mut arriving).await {
            Ok(true) => break,
            Ok(false) => return Ok(None),
            Err(error) if resumed < RESUMED_MAX && arriving.offset > 0 => {
                tracing::debug!(%error, offset = arriving.offset, "going on with an image");
                resumed += 1;
                member.env.sleep(ROUND_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
    arriving.file.sync_data().await?;
    Ok(Some(arriving.sn))
}

/// An image of which some has come.
struct Arriving {
    sn: Sn,
    total: u64,
    offset: u64,
    file: File,
}

/// Asks for pieces until all are there. False: there is no such image.
async fn receive(
    member: &Rc<Member>,
    address: &str,
    base: Sn,
    arriving: &mut Arriving,
) -> std::io::Result<bool> {
    let connection = connect(&member.env, &member.settings, address, PIECE_PATIENCE).await?;
    let result = async {
        while arriving.offset < arriving.total || arriving.total == 0 {
            let request = FetchImageRequest {
                group: member.settings.group,
                sn: arriving.sn.0,
                offset: arriving.offset,
                ..FetchImageRequest::default()
            };
            let call = connection.call(&request, Payload::none());
            let answer = member.env.timeout(PIECE_PATIENCE, call).await;
            let (reply, bytes) = answer
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
                .map_err(std::io::Error::other)?;
            if reply.sn == 0 || Sn(reply.sn) < base || reply.total_bytes == 0 {
                return Ok(false);
            }
            (arriving.sn, arriving.total) = (Sn(reply.sn), reply.total_bytes);
            member.image_progress.set((arriving.offset, arriving.total));
            if bytes.is_empty() {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let length = bytes.len() as u64;
            arriving.file.write_at(arriving.offset, vec![bytes]).await?;
            arriving.offset += length;
        }
        Ok(true)
    }
    .await;
    connection.close("no more is asked for");
    result
}

/// Connects to a member, to ask it something.
pub(crate) async fn connect(
    env: &Env,
    settings: &Settings,
    address: &str,
    patience: Duration,
) -> std::io::Result<Connection> {
    let local = Local::new(
        settings.cluster_id.clone(),
        Identity {
            // Not as a member: the end of this connection is to prove nothing.
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
            group: settings.group,
        },
    );
    let refuse = Rc::new(|_: &Connection, request: Request| {
        let why = "who only asks answers nothing";
        request.replier.fail(Failed::Refused(why.into()));
    });
    let connecting = weft_rpc::connect(env, address, &local, refuse);
    let connected = env.timeout(patience, connecting).await;
    connected.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
}

/// Has the image take the place of the journal.
///
/// # Errors
/// If the disk refuses, or the image is damaged; the journal is as it was then.
pub(crate) async fn adopt(
    env: &Env,
    settings: &Settings,
    journal: &mut Journal,
    sn: Sn,
) -> Result<(), MetaError> {
    let path = image_path(&settings.dir, sn);
    let io = |what: &str| {
        let what = format!("{what} {}", path.display());
        move |source| MetaError::Io { what, source }
    };
    journal.announce_restart(sn).await?;
    env.rename(&settings.dir.join(PART), &path)
        .map_err(io("making"))?;
    env.sync_dir(&settings.dir).await.map_err(io("flushing"))?;
    if let Err(error) = startup::read_image(env, &startup::location(settings), sn).await {
        env.remove_file(&path).map_err(io("removing"))?;
        env.sync_dir(&settings.dir).await.map_err(io("removing"))?;
        return Err(error.into());
    }
    Ok(journal.restart_after(sn).await?)
}
