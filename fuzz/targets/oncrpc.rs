//! Records and headers: any bytes are a stream of records, or refused; cut into pieces of any size they are the same
//! records.
#![no_main]

use futures_util::FutureExt;
use weft_oncrpc::{Payload, Pool, Record, RecordError, Records, header_of};

const RECORD_BYTES_MAX: usize = 128 << 10;

/// Gives so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl tokio::io::AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
        room: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let length = self.1.min(self.0.len()).min(room.remaining());
        let (piece, rest) = self.0.split_at(length);
        room.put_slice(piece);
        self.0 = rest;
        std::task::Poll::Ready(Ok(()))
    }
}

fn records(bytes: &[u8], piece: usize, place: &dyn Fn(&[u8]) -> Payload) -> (Vec<Vec<u8>>, bool) {
    let pool = Pool::new(1 << 30);
    let mut reader = Records::new(RECORD_BYTES_MAX, pool.clone());
    let mut stream = Pieces(bytes, piece);
    let mut found = Vec::new();
    let is_whole = loop {
        match reader.read(&mut stream, place).now_or_never() {
            Some(Ok(Some(Record(parts)))) => {
                let _ = header_of(parts[0].clone());
                found.push(parts.concat());
            }
            Some(Ok(None)) => break true,
            Some(Err(RecordError::Io(error))) => panic!("{error}"),
            Some(Err(_)) => break false,
            None => panic!("it waits, for nothing"),
        }
    };
    drop(reader);
    assert_eq!(pool.lent_bytes(), 0);
    (found, is_whole)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [lie, bytes @ ..] = bytes else {
        return;
    };
    // A program that lies about where its payload is.
    let lies = |_: &[u8]| Payload::At {
        start: usize::from(lie % 16) * 30,
        length: usize::from(lie / 16) * 5000,
    };
    let whole = records(bytes, usize::MAX, &|_| Payload::Nowhere);
    assert_eq!(whole, records(bytes, 13, &lies));
    assert_eq!(whole, records(bytes, 4096, &|_| Payload::More));
});
