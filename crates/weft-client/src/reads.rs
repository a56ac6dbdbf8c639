//! Reading from pairs: which member each part is asked from, and from whom else when that fails or
//! is late (`docs/protocols/a-read.md`).

use crate::core::Core;
use crate::pairs::{Object, Pair, Pairs, Trouble};
use crate::types::Errno;
use bytes::Bytes;
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::{FutureExt, select_biased};
use std::pin::pin;
use std::rc::Rc;
use weft_env::{Env, Mono};
use weft_pair::LATE_MIN;
use weft_rpc::Payload;
use weft_types::Member;
use weft_wire::proto::{MapReply, MapRequest, ReadRequest};

/// Bytes asked from a member: forgotten by the router if nothing else is said.
struct Asked<'a> {
    env: &'a Env,
    pair: &'a Pair,
    member: Member,
    bytes: u64,
    begun: Mono,
    is_told: bool,
}

impl<'a> Asked<'a> {
    fn new(env: &'a Env, pair: &'a Pair, member: Member, bytes: u64) -> Asked<'a> {
        pair.router.borrow_mut().asked(member, bytes);
        Asked {
            env,
            pair,
            member,
            bytes,
            begun: env.now(),
            is_told: false,
        }
    }

    fn answered(mut self) {
        self.is_told = true;
        let took = self.env.now().since(self.begun);
        let mut router = self.pair.router.borrow_mut();
        router.answered(self.member, self.bytes, took);
    }

    fn failed(mut self) {
        self.is_told = true;
        let now = self.env.now().since(Mono(0));
        let mut router = self.pair.router.borrow_mut();
        router.failed(self.member, self.bytes, now);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            let waited = self.env.now().since(self.begun);
            let mut router = self.pair.router.borrow_mut();
            router.forgotten(self.member, self.bytes, waited);
        }
    }
}

impl Pairs {
    async fn read_from(
        &self,
        pair: &Pair,
        member: Member,
        request: &ReadRequest,
    ) -> Result<Bytes, Trouble> {
        let asked = Asked::new(&self.env, pair, member, u64::from(request.length));
        let answer = self
            .call(pair, member, request.session, request, Payload::none())
            .await;
        match answer {
            Ok((_, data)) => {
                asked.answered();
                if data.len() > request.length as usize {
                    return Err(Trouble::Errno(libc::EIO));
                }
                Ok(data)
            }
            Err(trouble) => {
                asked.failed();
                Err(trouble)
            }
        }
    }

    /// Reads a piece of an object: parts with the lengths they stand for, in order. A part that is
    /// shorter than its length goes on with zeros.
    pub async fn read(
        &self,
        core: &Rc<Core>,
        object: Object,
        offset: u64,
        length: u64,
    ) -> Result<Vec<(u64, Bytes)>, Errno> {
        let (pair, session) = (self.pair(object.pair), core.session_of(object.ino));
        let plan = || {
            let now = self.env.now().since(Mono(0));
            let state = *pair.state.borrow();
            if pair.is_known.get() {
                pair.router.borrow_mut().plan(&state, offset, length, now)
            } else {
                Vec::new()
            }
        };
        let attempt = async {
            let parts = loop {
                let parts = plan();
                if !parts.is_empty() {
                    break parts;
                }
                let epoch = pair.epoch();
                let asked = (&*pair, epoch, Member::Zero);
                self.settle(core, asked, &session, Trouble::Away).await?;
            };
            if let [part] = parts[..] {
                let data = self.read_part(core, &pair, object, part).await?;
                return Ok(vec![(part.length, data)]);
            }
            let reads = parts.iter().map(|part| async {
                let data = self.read_part(core, &pair, object, *part).await?;
                Ok((part.length, data))
            });
            let mut got = Vec::with_capacity(parts.len());
            for result in futures_util::future::join_all(reads).await {
                got.push(result?);
            }
            Ok(got)
        };
        self.patiently(&pair, attempt.boxed_local()).await
    }

    /// An attempt, or EIO when the pair has been in trouble for the whole patience: one that is slow, and
    /// answers, is waited for.
    async fn patiently<T>(
        &self,
        pair: &Pair,
        mut attempt: LocalBoxFuture<'_, Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let over = async {
            loop {
                self.env.sleep(self.patience_left(pair)).await;
                if self.is_given_up(pair) {
                    return;
                }
            }
        };
        match select(&mut attempt, pin!(over)).await {
            Either::Left((result, _)) => result,
            Either::Right(((), _)) => Err(Errno(libc::EIO)),
        }
    }

    /// Reads a part, first where it was planned, until it is there.
    async fn read_part(
        &self,
        core: &Rc<Core>,
        pair: &Pair,
        object: Object,
        part: weft_pair::Part,
    ) -> Result<Bytes, Errno> {
        let mut first = part.member;
        let session = core.session_of(object.ino);
        loop {
            let epoch = pair.epoch();
            let request = ReadRequest {
                session: session.id(),
                epoch,
                pair: object.pair,
                object: Some(object.name()),
                offset: part.offset,
                length: part.length as u32,
            };
            if !pair.serves(first) {
                first = first.twin();
            }
            let trouble = if pair.serves(first) {
                match self.read_with_twin(pair, first, &request).await {
                    Ok(data) => return Ok(data),
                    Err(trouble) => trouble,
                }
            } else {
                Trouble::Away
            };
            self.settle(core, (pair, epoch, first), &session, trouble)
                .await?;
        }
    }

    /// Reads from `first`, and from its twin, where that serves too, when the first fails or is
    /// late.
    async fn read_with_twin(
        &self,
        pair: &Pair,
        first: Member,
        request: &ReadRequest,
    ) -> Result<Bytes, Trouble> {
        let mut reading = pin!(self.read_from(pair, first, request).fuse());
        let state = *pair.state.borrow();
        let Some(other) = pair.router.borrow().other(&state, first) else {
            return reading.await;
        };
        let asked = self.env.now();
        let mut pause = pair
            .router
            .borrow()
            .late_after(first, u64::from(request.length));
        let failed = loop {
            select_biased! {
                result = reading => match result {
                    Ok(data) => return Ok(data),
                    // What one disk cannot read, or one member has not got, the other one may.
                    Err(Trouble::Errno(errno)) if errno != libc::EIO => {
                        return Err(Trouble::Errno(errno));
                    }
                    Err(trouble) => break Some(trouble),
                },
                () = self.env.sleep(pause).fuse() => {
                    let waited = self.env.now().since(asked);
                    if pair.router.borrow().may_help(first, waited) {
                        break None;
                    }
                    pause = LATE_MIN;
                }
            }
        };
        let mut twin = pin!(self.read_from(pair, other, request).fuse());
        let Some(trouble) = failed else {
            return select_biased! {
                result = reading => match result {
                    Ok(data) => Ok(data),
                    Err(_) => twin.await,
                },
                result = twin => match result {
                    Ok(data) => Ok(data),
                    Err(_) => reading.await,
                },
            };
        };
        match twin.await {
            Ok(data) => Ok(data),
            // The first trouble tells more about the state than the twin's.
            Err(_) => Err(trouble),
        }
    }

    /// Where data is in `start..end` of an object.
    ///
    /// # Errors
    /// What a disk said, or EIO when the session or the patience is over, or some of it is lost
    /// (docs/protocols/losses.md).
    pub async fn map(
        &self,
        core: &Rc<Core>,
        object: Object,
        (start, end): (u64, u64),
        max: u32,
    ) -> Result<MapReply, Errno> {
        let (pair, with) = (self.pair(object.pair), core.session_of(object.ino));
        let attempt = async {
            loop {
                let epoch = pair.epoch();
                let request = MapRequest {
                    epoch,
                    pair: object.pair,
                    object: Some(object.name()),
                    start,
                    end,
                    max,
                };
                let session = with.id();
                let member = pair.current().0;
                let trouble = match member {
                    Some(member) => {
                        let call = self.call(&pair, member, session, &request, Payload::none());
                        match call.await {
                            Ok((reply, _)) if reply.lost => return Err(Errno(libc::EIO)),
                            Ok((reply, _)) => return Ok(reply),
                            Err(trouble) => trouble,
                        }
                    }
                    None => Trouble::Away,
                };
                let member = member.unwrap_or(Member::Zero);
                self.settle(core, (&pair, epoch, member), &with, trouble)
                    .await?;
            }
        };
        self.patiently(&pair, attempt.boxed_local()).await
    }
}
