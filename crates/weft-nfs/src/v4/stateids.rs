//! Names of state: which client's, and which of its opens or locks (RFC 8881, 8.2).

use weft_xdr::nfs4::{nfsstat4, stateid4};

/// What a state id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// No open: the bytes are read or written as if by version 3.
    Anonymous,
    /// The same; a reader would not mind what others deny.
    Bypass,
    Of(Name),
}

/// An open or a lock owner's state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub client: u64,
    pub number: u32,
    /// 0: whatever it is now.
    pub seqid: u32,
}

const ZERO: [u8; 12] = [0; 12];
const ONES: [u8; 12] = [0xff; 12];

/// That names nothing: what CLOSE answers.
pub(super) const INVALID: stateid4 = stateid4 {
    seqid: u32::MAX,
    other: ZERO,
};

/// That names what the operation before has answered.
const CURRENT: stateid4 = stateid4 {
    seqid: 1,
    other: ZERO,
};

impl Name {
    pub(super) fn stateid(self) -> stateid4 {
        let mut other = ZERO;
        other[..8].copy_from_slice(&self.client.to_be_bytes());
        other[8..].copy_from_slice(&self.number.to_be_bytes());
        stateid4 {
            seqid: self.seqid,
            other,
        }
    }

    /// Whether a state whose sequence stands at `now` is meant.
    pub(super) fn check(self, now: u32) -> Result<(), nfsstat4> {
        match self.seqid {
            0 => Ok(()),
            asked if asked == now => Ok(()),
            // It turns over, and never to 0.
            asked if now.wrapping_sub(asked) < u32::MAX / 2 => Err(nfsstat4::NFS4ERR_OLD_STATEID),
            _ => Err(nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }
}

/// The number after one.
pub(super) fn next(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}

/// What a client names. `current`: what the operation before has answered.
pub(super) fn named(id: &stateid4, current: Option<&stateid4>) -> Result<Named, nfsstat4> {
    let bad = Err(nfsstat4::NFS4ERR_BAD_STATEID);
    let id = match *id == CURRENT {
        true => match current {
            Some(current) => current,
            None => return bad,
        },
        false => id,
    };
    match (id.seqid, id.other) {
        (0, ZERO) => Ok(Named::Anonymous),
        (u32::MAX, ONES) => Ok(Named::Bypass),
        (_, ZERO | ONES) => bad,
        (seqid, other) => {
            let (mut client, mut number) = ([0; 8], [0; 4]);
            client.copy_from_slice(&other[..8]);
            number.copy_from_slice(&other[8..]);
            Ok(Named::Of(Name {
                client: u64::from_be_bytes(client),
                number: u32::from_be_bytes(number),
                seqid,
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_there_and_back_and_special_ones_are_known() {
        let name = Name {
            client: 0x0123_4567_89ab_cdef,
            number: 77,
            seqid: 5,
        };
        let id = name.stateid();
        assert_eq!(named(&id, None), Ok(Named::Of(name)));
        assert_eq!(named(&CURRENT, Some(&id)), Ok(Named::Of(name)));
        let bad = Err(nfsstat4::NFS4ERR_BAD_STATEID);
        assert_eq!(named(&CURRENT, None), bad);
        assert_eq!(named(&INVALID, None), bad);
        let special = |seqid, other| named(&stateid4 { seqid, other }, None);
        assert_eq!(special(0, ZERO), Ok(Named::Anonymous));
        assert_eq!(special(u32::MAX, ONES), Ok(Named::Bypass));
        assert_eq!(special(5, ONES), bad);
    }

    #[test]
    fn old_and_future_ones_are_told_apart() {
        let check = |seqid, now| {
            Name {
                client: 1,
                number: 1,
                seqid,
            }
            .check(now)
        };
        assert_eq!(check(0, 9), Ok(()));
        assert_eq!(check(9, 9), Ok(()));
        assert_eq!(check(8, 9), Err(nfsstat4::NFS4ERR_OLD_STATEID));
        assert_eq!(check(10, 9), Err(nfsstat4::NFS4ERR_BAD_STATEID));
        assert_eq!(check(u32::MAX, 2), Err(nfsstat4::NFS4ERR_OLD_STATEID));
        assert_eq!(next(u32::MAX), 1);
    }
}
