//! What must hold of any bytes: they decode or are refused, and what decodes can be written and read again.
//!
//! Fuzzing and tests call this with bytes that nobody would send.

use crate::{DecodeError, Decoder, Encoder, Procedure, Visitor, Xdr};
use crate::{flexfiles, mount3, nfs3, nfs4, portmap2, rpc};
use bytes::Bytes;

/// Shows `visitor` the procedure with these numbers, of whichever program, if there is one.
pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {
    match program {
        portmap2::PMAP_PROG => portmap2::visit(program, version, number, visitor),
        mount3::MOUNT_PROGRAM => mount3::visit(program, version, number, visitor),
        nfs3::NFS_PROGRAM if version == nfs3::NFS_V3 => {
            nfs3::visit(program, version, number, visitor)
        }
        nfs4::NFS4_PROGRAM | nfs4::NFS4_CALLBACK => nfs4::visit(program, version, number, visitor),
        _ => None,
    }
}

/// Reads arguments (`is_results`: results) of the procedure with these numbers, writes what was read, and reads it
/// again. None if there is no such procedure.
///
/// # Errors
/// If the bytes are no such thing.
///
/// # Panics
/// If what is read again is not the same: then the decoder or the encoder is wrong.
pub fn procedure_again(
    (program, version, number): (u32, u32, u32),
    is_results: bool,
    bytes: Bytes,
) -> Option<Result<(), DecodeError>> {
    visit(program, version, number, Again { is_results, bytes })
}

struct Again {
    is_results: bool,
    bytes: Bytes,
}

impl Visitor for Again {
    type Output = Result<(), DecodeError>;

    fn visit<P: Procedure>(self) -> Self::Output {
        match self.is_results {
            false => again(self.bytes, P::decode_arguments, P::encode_arguments),
            true => again(self.bytes, P::decode_results, P::encode_results),
        }
    }
}

/// Versions of programs, and how many procedures each has.
const PROGRAMS: &[(u32, u32, u8)] = &[
    (portmap2::PMAP_PROG, portmap2::PMAP_VERS, 6),
    (mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, 6),
    (nfs3::NFS_PROGRAM, nfs3::NFS_V3, 22),
    (nfs4::NFS4_PROGRAM, nfs4::NFS_V4, 2),
    (nfs4::NFS4_CALLBACK, nfs4::NFS_CB, 2),
];

/// The same, with arguments and results of all procedures numbered through, and behind them types that stand alone.
/// None past the last.
///
/// # Errors
/// If the bytes are no such thing.
///
/// # Panics
/// As [`procedure_again`].
pub fn choice_again(choice: u8, bytes: Bytes) -> Option<Result<(), DecodeError>> {
    let mut number = choice / 2;
    for &(program, version, count) in PROGRAMS {
        if number < count {
            let numbers = (program, version, u32::from(number));
            return procedure_again(numbers, choice % 2 == 1, bytes);
        }
        number -= count;
    }
    type_again(number * 2 + choice % 2, bytes)
}

fn type_again(choice: u8, bytes: Bytes) -> Option<Result<(), DecodeError>> {
    fn of<T: Xdr + PartialEq + std::fmt::Debug>(bytes: Bytes) -> Result<(), DecodeError> {
        again(bytes, T::decode, T::encode)
    }
    Some(match choice {
        0 => of::<rpc::rpc_msg>(bytes),
        1 => of::<rpc::authsys_parms>(bytes),
        2 => of::<flexfiles::ff_layout4>(bytes),
        3 => of::<flexfiles::ff_device_addr4>(bytes),
        4 => of::<flexfiles::ff_layoutreturn4>(bytes),
        5 => of::<flexfiles::ff_layouthint4>(bytes),
        6 => of::<nfs4::nfsv4_1_file_layout4>(bytes),
        7 => of::<nfs4::nfsv4_1_file_layout_ds_addr4>(bytes),
        8 => of::<nfs4::fattr4>(bytes),
        9 => of::<nfs4::nfs_argop4>(bytes),
        10 => of::<nfs4::nfs_resop4>(bytes),
        _ => return None,
    })
}

fn again<T: PartialEq + std::fmt::Debug>(
    bytes: Bytes,
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Encoder),
) -> Result<(), DecodeError> {
    let whole = |bytes: Bytes| {
        let mut input = Decoder::new(bytes);
        let value = decode(&mut input)?;
        input.finish()?;
        Ok(value)
    };
    let length = bytes.len();
    let first = whole(bytes)?;
    let mut out = Encoder::default();
    encode(&first, &mut out);
    assert_eq!(out.len(), length, "written longer or shorter: {first:?}");
    let second = whole(out.joined());
    assert_eq!(second.as_ref(), Ok(&first), "reads as something else");
    Ok(())
}
