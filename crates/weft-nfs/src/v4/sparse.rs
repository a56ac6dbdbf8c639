//! READ_PLUS: bytes, and where there are none (RFC 7862, 15.10).

use super::compound::Compound;
use super::opens::READ;
use super::status::Result;
use crate::io::{TRANSFER_MAX, with_file};
use bytes::Bytes;
use weft_client::Piece;
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// A shorter hole is told as zeros: a segment of its own costs the client more than they do. With it a reply is never
/// longer than READ's but by the head of one segment.
const HOLE_MIN: u64 = 64 << 10;

impl Compound {
    pub(super) async fn read_plus(&mut self, args: READ_PLUS4args) -> Result<()> {
        let object = self.bytes_of(&args.rpa_stateid, READ).await?;
        let shared = self.caller.shared.clone();
        let length = args.rpa_count.min(TRANSFER_MAX) as usize;
        let pieces = with_file(&self.caller, object.ino, async |opened| {
            let (handle, offset) = (opened.handle(), args.rpa_offset);
            let read = shared.client.read_sparse(handle, offset, length, HOLE_MIN);
            Ok(read.await?)
        });
        let pieces = pieces.await?;
        // After the read: an end that lies beyond what was read is no end.
        let size = shared.client.getattr(object.ino).await?.attr.size;
        let count: u64 = pieces.iter().map(length_of).sum();
        let end = args.rpa_offset.saturating_add(count);
        self.out.bool(count < length as u64 || end >= size);
        self.out.u32(pieces.len() as u32);
        let mut at = args.rpa_offset;
        for piece in &pieces {
            let length = length_of(piece);
            match piece {
                Piece::Data(parts) => {
                    data_content4::NFS4_CONTENT_DATA.encode(&mut self.out);
                    self.out.u64(at);
                    self.out.opaque_parts(TRANSFER_MAX, parts);
                    shared.metrics.read_bytes.inc_by(length);
                }
                Piece::Hole(_) => {
                    data_content4::NFS4_CONTENT_HOLE.encode(&mut self.out);
                    data_info4 {
                        di_offset: at,
                        di_length: length,
                    }
                    .encode(&mut self.out);
                }
            }
            at += length;
        }
        Ok(())
    }
}

fn length_of(piece: &Piece) -> u64 {
    match piece {
        Piece::Data(parts) => parts.iter().map(Bytes::len).sum::<usize>() as u64,
        Piece::Hole(length) => *length,
    }
}
