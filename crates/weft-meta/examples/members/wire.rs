//! Messages of plain two-phase commit, on a connection each.
//!
//! ```text
//! 0   kind      1: prepare, 2: commit, 3: yes, 4: done
//! 1   length    of the batch (prepare; else 0), 4 bytes, little endian
//! 5   number    of the transaction, 8 bytes, little endian
//! 13  batch
//! ```

use bytes::Bytes;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use weft_env::{Env, Stream};

/// What is said.
#[derive(Clone, Debug)]
pub enum Message {
    /// A batch: is it on the disk?
    Prepare(u64, Bytes),
    /// It is decided.
    Commit(u64),
    /// The batch is on the disk.
    Yes(u64),
    /// The decision is.
    Done(u64),
}

const HEADER_BYTES: usize = 13;

impl Message {
    fn encode(self) -> [Bytes; 2] {
        let (kind, number, batch) = match self {
            Message::Prepare(number, batch) => (1, number, batch),
            Message::Commit(number) => (2, number, Bytes::new()),
            Message::Yes(number) => (3, number, Bytes::new()),
            Message::Done(number) => (4, number, Bytes::new()),
        };
        let mut header = vec![kind];
        header.extend_from_slice(&(batch.len() as u32).to_le_bytes());
        header.extend_from_slice(&number.to_le_bytes());
        [header.into(), batch]
    }
}

/// One side of a connection.
pub struct Sender(mpsc::UnboundedSender<Message>);

impl Sender {
    /// After all that was sent before. Whoever has gone reads nothing, and the reader tells.
    pub fn send(&self, message: Message) {
        let _: Result<(), _> = self.0.send(message);
    }
}

/// Sends from one task, and calls `on` with all that comes, until the connection ends.
pub fn converse(
    env: &Env,
    stream: Stream,
    on: impl Fn(&Rc<Sender>, Message) + 'static,
) -> Rc<Sender> {
    let (reader, writer) = tokio::io::split(stream);
    let (queue, waiting) = mpsc::unbounded_channel();
    let sender = Rc::new(Sender(queue));
    env.spawn("send", async move {
        // The reader's end tells what there is to tell.
        let _: std::io::Result<()> = send(writer, waiting).await;
    });
    let own = sender.clone();
    env.spawn("receive", async move {
        if let Err(error) = receive(reader, |message| on(&own, message)).await {
            eprintln!("weft: a connection: {error}");
            std::process::exit(1);
        }
    });
    sender
}

async fn send(
    mut writer: WriteHalf<Stream>,
    mut waiting: mpsc::UnboundedReceiver<Message>,
) -> std::io::Result<()> {
    let mut all = Vec::new();
    while let Some(message) = waiting.recv().await {
        let mut next = Some(message);
        // What waits leaves together.
        while let Some(message) = next {
            message
                .encode()
                .iter()
                .for_each(|part| all.extend_from_slice(part));
            next = waiting.try_recv().ok();
        }
        writer.write_all(&all).await?;
        all.clear();
    }
    Ok(())
}

async fn receive(mut reader: ReadHalf<Stream>, on: impl Fn(Message)) -> std::io::Result<()> {
    loop {
        let mut header = [0; HEADER_BYTES];
        match reader.read_exact(&mut header).await {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let (mut length, mut number) = ([0; 4], [0; 8]);
        length.copy_from_slice(&header[1..5]);
        number.copy_from_slice(&header[5..13]);
        let (length, number) = (u32::from_le_bytes(length), u64::from_le_bytes(number));
        if length as usize > weft_journal::BATCH_BYTES_MAX {
            return Err(std::io::Error::other("a batch that is too long"));
        }
        let mut batch = vec![0; length as usize];
        reader.read_exact(&mut batch).await?;
        on(match header[0] {
            1 => Message::Prepare(number, batch.into()),
            2 => Message::Commit(number),
            3 => Message::Yes(number),
            4 => Message::Done(number),
            kind => return Err(std::io::Error::other(format!("no message: {kind}"))),
        });
    }
}
