//! What programs are to connections: calls in, answers out.

use crate::connection::{Connection, Inner};
use crate::message::{Credential, encode_accepted};
use bytes::Bytes;
use std::ops::RangeInclusive;
use std::rc::Weak;
use weft_xdr::rpc::accept_stat;
use weft_xdr::{DecodeError, Decoder, Encoder, Procedure};

/// Where the payload of a record begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// So far nobody can say: show more of it.
    More,
    /// It has none.
    Nowhere,
    /// There, without its length and its padding; `start` is within what was shown.
    At {
        /// Bytes before it.
        start: usize,
        /// Bytes of it.
        length: usize,
    },
    /// The same, and if it comes slowly the program takes it in parts: [`Program::begin`].
    InParts {
        /// Bytes before it.
        start: usize,
        /// Bytes of it.
        length: usize,
    },
}

/// A call that is served while its payload comes. It is dropped if the rest never comes.
pub trait Incoming {
    /// The next bytes of the payload.
    fn part(&mut self, bytes: Bytes);

    /// The last ones: the call is whole, and to be answered.
    fn end(self: Box<Self>, bytes: Bytes, replier: Replier);
}

/// A program: some versions of some procedures. Several may have one number, with versions of their own.
pub trait Program {
    /// Its number.
    fn number(&self) -> u32;

    /// The versions that are spoken.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Where in the arguments of a long call the bytes are that should lie in a buffer of their own. `arguments` is
    /// as much of them as was read so far. What is answered is not trusted: a wrong answer costs a copy, or the call.
    fn payload(&self, _version: u32, _procedure: u32, _arguments: &[u8]) -> Payload {
        Payload::Nowhere
    }

    /// Begins to serve a call of which the payload, with which it ends, comes slowly. `call` has the arguments before it.
    /// None: it is served when it is whole, by [`Program::call`].
    fn begin(&self, _connection: &Connection, _call: Call) -> Option<Box<dyn Incoming>> {
        None
    }

    /// Serves a call of a known version. It must not wait: it answers at once, or hands the call to a task.
    fn call(&self, connection: &Connection, call: Call, replier: Replier);
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// The caller's number for it: the same if it is sent again.
    pub xid: u32,
    /// One of the program's versions.
    pub version: u32,
    /// Any number: the program may not have such a procedure.
    pub procedure: u32,
    /// Who calls.
    pub credential: Credential,
    /// What it brings.
    pub arguments: Decoder,
}

impl Call {
    /// The arguments as `P`'s.
    ///
    /// # Errors
    /// If they are not, or something is left over.
    pub fn arguments<P: Procedure>(&mut self) -> Result<P::Arguments, DecodeError> {
        debug_assert_eq!((P::VERSION, P::NUMBER), (self.version, self.procedure));
        let arguments = P::decode_arguments(&mut self.arguments)?;
        self.arguments.finish()?;
        Ok(arguments)
    }
}

/// Why a call is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The program has no such procedure.
    Procedure,
    /// The arguments do not decode.
    Arguments,
    /// Something is wrong on this side.
    System,
}

/// Answers one call. Dropping it answers [`Refusal::System`].
pub struct Replier {
    // Weak: a call that takes long does not keep what a dead connection had.
    connection: Weak<Inner>,
    // None: answered.
    xid: Option<u32>,
}

impl Replier {
    pub(crate) fn new(connection: Weak<Inner>, xid: u32) -> Replier {
        Replier {
            connection,
            xid: Some(xid),
        }
    }

    /// Answers with `P`'s results.
    pub fn send<P: Procedure>(self, results: &P::Results) {
        self.send_with(|out| P::encode_results(results, out));
    }

    /// Answers with what `write` appends.
    pub fn send_with(mut self, write: impl FnOnce(&mut Encoder)) {
        self.answer(|xid, out| {
            encode_accepted(xid, accept_stat::SUCCESS, out);
            write(out);
        });
    }

    /// Answers that it is not served.
    pub fn refuse(mut self, why: Refusal) {
        self.refuse_now(why);
    }

    fn refuse_now(&mut self, why: Refusal) {
        let outcome = match why {
            Refusal::Procedure => accept_stat::PROC_UNAVAIL,
            Refusal::Arguments => accept_stat::GARBAGE_ARGS,
            Refusal::System => accept_stat::SYSTEM_ERR,
        };
        self.answer(|xid, out| encode_accepted(xid, outcome, out));
    }

    /// Answers that the program has other versions than was asked for.
    pub(crate) fn mismatch(mut self, versions: Option<RangeInclusive<u32>>) {
        self.answer(|xid, out| match versions {
            None => encode_accepted(xid, accept_stat::PROG_UNAVAIL, out),
            Some(versions) => {
                encode_accepted(xid, accept_stat::PROG_MISMATCH, out);
                out.u32(*versions.start());
                out.u32(*versions.end());
            }
        });
    }

    /// Answers by a whole message.
    pub(crate) fn answer(&mut self, write: impl FnOnce(u32, &mut Encoder)) {
        let Some(xid) = self.xid.take() else { return };
        if let Some(connection) = self.connection.upgrade() {
            connection.answer(|out| write(xid, out));
        }
    }

    /// Decodes the arguments, computes results at once, answers.
    pub fn serve<P: Procedure>(
        self,
        mut call: Call,
        results: impl FnOnce(P::Arguments) -> P::Results,
    ) {
        match call.arguments::<P>() {
            Ok(arguments) => self.send::<P>(&results(arguments)),
            Err(_) => self.refuse(Refusal::Arguments),
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        self.refuse_now(Refusal::System);
    }
}
