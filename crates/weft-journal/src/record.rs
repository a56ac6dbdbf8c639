//! One record: a length, a checksum, bytes. Both formats are made of them.

use bytes::Bytes;

/// `magic, length, crc`, each 4 bytes, little-endian. The checksum covers length and content.
pub(crate) const HEAD_BYTES: usize = 12;

fn checksum(length: [u8; 4], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), content)
}

/// The 12 bytes before the content.
pub(crate) fn head(magic: &[u8; 4], content: &[u8]) -> [u8; HEAD_BYTES] {
    let length = u32::try_from(content.len())
        .expect("callers bound their records far below 4 GiB")
        .to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(magic);
    head[4..8].copy_from_slice(&length);
    head[8..].copy_from_slice(&checksum(length, content).to_le_bytes());
    head
}

/// Length of the content that this head announces, if it is one and not longer than `max`.
pub(crate) fn length(head: &[u8], magic: &[u8; 4], max: usize) -> Option<usize> {
    let fields = head.get(..HEAD_BYTES)?;
    if fields[..4] != *magic {
        return None;
    }
    let length = u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]) as usize;
    (length <= max).then_some(length)
}

/// True if the record that begins here is whole and as it was written.
pub(crate) fn is_good(bytes: &[u8], magic: &[u8; 4], max: usize) -> bool {
    let Some(length) = length(bytes, magic, max) else {
        return false;
    };
    let Some(content) = bytes.get(HEAD_BYTES..HEAD_BYTES + length) else {
        return false;
    };
    let fields = &bytes[..HEAD_BYTES];
    let stored = u32::from_le_bytes([fields[8], fields[9], fields[10], fields[11]]);
    checksum([fields[4], fields[5], fields[6], fields[7]], content) == stored
}

/// Whether a whole record begins anywhere in these bytes.
pub(crate) fn any_good(bytes: &Bytes, magic: &[u8; 4], max: usize) -> bool {
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(4).position(|four| four == magic) {
        if is_good(&bytes[at + found..], magic, max) {
            return true;
        }
        at += found + 1;
    }
    false
}
