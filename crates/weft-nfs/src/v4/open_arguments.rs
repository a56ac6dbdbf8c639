//! What an OPEN may say here, as an attribute of the file system (RFC 9754, 3): by it newer clients know that they may
//! say what they want of delegations.

use super::attributes::bitmap_of;
use weft_xdr::Encoder;
use weft_xdr::nfs4::{
    OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
    OPEN4_SHARE_ACCESS_WANT_CANCEL, OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN4_SHARE_ACCESS_WRITE,
    OPEN4_SHARE_DENY_BOTH, OPEN4_SHARE_DENY_NONE, OPEN4_SHARE_DENY_READ, OPEN4_SHARE_DENY_WRITE,
    createmode4, open_claim_type4,
};

/// The attribute's number: it came after the text that the codecs are made from.
pub(super) const NUMBER: u32 = 86;
/// Bytes of its value: five bitmaps of one word each.
pub(super) const BYTES: usize = 5 * 8;
/// Wants are numbered by what they have above the accesses.
const WANT_SHIFT: u32 = 8;

/// What may be said of each: a bit has the number of what it stands for.
pub(super) fn encode(out: &mut Encoder) {
    let accesses = [
        OPEN4_SHARE_ACCESS_READ,
        OPEN4_SHARE_ACCESS_WRITE,
        OPEN4_SHARE_ACCESS_BOTH,
    ];
    let denies = [
        OPEN4_SHARE_DENY_NONE,
        OPEN4_SHARE_DENY_READ,
        OPEN4_SHARE_DENY_WRITE,
        OPEN4_SHARE_DENY_BOTH,
    ];
    let wants = [
        OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        OPEN4_SHARE_ACCESS_WANT_CANCEL,
    ];
    let claims = [
        open_claim_type4::CLAIM_NULL,
        open_claim_type4::CLAIM_PREVIOUS,
        open_claim_type4::CLAIM_DELEGATE_CUR,
        open_claim_type4::CLAIM_FH,
        open_claim_type4::CLAIM_DELEG_CUR_FH,
    ];
    let modes = [
        createmode4::UNCHECKED4,
        createmode4::GUARDED4,
        createmode4::EXCLUSIVE4,
        createmode4::EXCLUSIVE4_1,
    ];
    for bitmap in [
        bitmap_of(accesses),
        bitmap_of(denies),
        bitmap_of(wants.map(|want| want >> WANT_SHIFT)),
        bitmap_of(claims.map(|claim| claim as u32)),
        bitmap_of(modes.map(|mode| mode as u32)),
    ] {
        out.vec(u32::MAX, &bitmap, |out, word| out.u32(*word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_numbers_of_the_standard() {
        let mut out = Encoder::default();
        encode(&mut out);
        let bytes = out.joined();
        assert_eq!(bytes.len(), BYTES);
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        // READ, WRITE, BOTH; NONE to BOTH; ANY, NO, CANCEL; all claims but those of an earlier life's delegations; all.
        assert_eq!(
            words,
            [1, 0b1110, 1, 0b1111, 1, 0b11_1000, 1, 0b11_0111, 1, 0b1111]
        );
    }
}
