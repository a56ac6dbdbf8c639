//! Users and groups, by number: `1000`, as clients without a directory of names have it (RFC 8881, 5.9).

use bytes::Bytes;

use weft_xdr::nfs4::nfsstat4;

pub(super) fn shown(id: u32) -> Bytes {
    id.to_string().into()
}

/// A number, with or without a domain behind it.
///
/// # Errors
/// BADOWNER: it is a name. INVAL: it is nothing.
pub(super) fn read(text: &[u8]) -> Result<u32, nfsstat4> {
    if text.is_empty() {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    let number = text.split(|byte| *byte == b'@').next().unwrap_or_default();
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let parsed = std::str::from_utf8(number)
        .ok()
        .and_then(|it| it.parse().ok());
    match (is_number, parsed) {
        (true, Some(id)) => Ok(id),
        _ => Err(nfsstat4::NFS4ERR_BADOWNER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_numbers() {
        assert_eq!(read(&shown(4_294_967_294)), Ok(4_294_967_294));
        assert_eq!(read(b"7@example.org"), Ok(7));
        assert_eq!(read(b""), Err(nfsstat4::NFS4ERR_INVAL));
        for wrong in [&b"root"[..], b"@x", b"+7", b"4294967296", b"7x"] {
            assert_eq!(read(wrong), Err(nfsstat4::NFS4ERR_BADOWNER));
        }
    }
}
