//! The flexible files layout (RFC 8435).
//!
//! Written by `cargo xtask xdr` from `x/flexfiles.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use super::nfs4::device_error4;
use super::nfs4::deviceid4;
use super::nfs4::fattr4_owner;
use super::nfs4::fattr4_owner_group;
use super::nfs4::io_info4;
use super::nfs4::length4;
use super::nfs4::multipath_list4;
use super::nfs4::netaddr4;
use super::nfs4::nfs_fh4;
use super::nfs4::nfstime4;
use super::nfs4::offset4;
use super::nfs4::stateid4;
use crate::{DecodeError, Decoder, Encoder, Xdr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_device_versions4 {
    pub ffdv_version: u32,
    pub ffdv_minorversion: u32,
    pub ffdv_rsize: u32,
    pub ffdv_wsize: u32,
    pub ffdv_tightly_coupled: bool,
}

impl Xdr for ff_device_versions4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.ffdv_version);
        out.u32(self.ffdv_minorversion);
        out.u32(self.ffdv_rsize);
        out.u32(self.ffdv_wsize);
        out.bool(self.ffdv_tightly_coupled);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_device_versions4 {
            ffdv_version: input.u32()?,
            ffdv_minorversion: input.u32()?,
            ffdv_rsize: input.u32()?,
            ffdv_wsize: input.u32()?,
            ffdv_tightly_coupled: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_device_addr4 {
    pub ffda_netaddrs: multipath_list4,
    pub ffda_versions: Vec<ff_device_versions4>,
}

impl Xdr for ff_device_addr4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.ffda_netaddrs, |out, item| {
            item.encode(out);
        });
        out.vec(u32::MAX, &self.ffda_versions, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_device_addr4 {
            ffda_netaddrs: input.vec(u32::MAX, 8, netaddr4::decode)?,
            ffda_versions: input.vec(u32::MAX, 20, ff_device_versions4::decode)?,
        })
    }
}

pub const FF_FLAGS_NO_LAYOUTCOMMIT: u32 = 1;

pub const FF_FLAGS_NO_IO_THRU_MDS: u32 = 2;

pub const FF_FLAGS_NO_READ_IO: u32 = 4;

pub const FF_FLAGS_WRITE_ONE_MIRROR: u32 = 8;

pub type ff_flags4 = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_data_server4 {
    pub ffds_deviceid: deviceid4,
    pub ffds_efficiency: u32,
    pub ffds_stateid: stateid4,
    pub ffds_fh_vers: Vec<nfs_fh4>,
    pub ffds_user: fattr4_owner,
    pub ffds_group: fattr4_owner_group,
}

impl Xdr for ff_data_server4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.ffds_deviceid);
        out.u32(self.ffds_efficiency);
        self.ffds_stateid.encode(out);
        out.vec(u32::MAX, &self.ffds_fh_vers, |out, item| {
            out.opaque(128, item);
        });
        out.opaque(u32::MAX, &self.ffds_user);
        out.opaque(u32::MAX, &self.ffds_group);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_data_server4 {
            ffds_deviceid: input.fixed::<16>()?,
            ffds_efficiency: input.u32()?,
            ffds_stateid: stateid4::decode(input)?,
            ffds_fh_vers: input.vec(u32::MAX, 4, |input| input.opaque(128))?,
            ffds_user: input.opaque(u32::MAX)?,
            ffds_group: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_mirror4 {
    pub ffm_data_servers: Vec<ff_data_server4>,
}

impl Xdr for ff_mirror4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.ffm_data_servers, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_mirror4 {
            ffm_data_servers: input.vec(u32::MAX, 48, ff_data_server4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_layout4 {
    pub ffl_stripe_unit: length4,
    pub ffl_mirrors: Vec<ff_mirror4>,
    pub ffl_flags: ff_flags4,
    pub ffl_stats_collect_hint: u32,
}

impl Xdr for ff_layout4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.ffl_stripe_unit);
        out.vec(u32::MAX, &self.ffl_mirrors, |out, item| {
            item.encode(out);
        });
        out.u32(self.ffl_flags);
        out.u32(self.ffl_stats_collect_hint);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_layout4 {
            ffl_stripe_unit: input.u64()?,
            ffl_mirrors: input.vec(u32::MAX, 4, ff_mirror4::decode)?,
            ffl_flags: input.u32()?,
            ffl_stats_collect_hint: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_ioerr4 {
    pub ffie_offset: offset4,
    pub ffie_length: length4,
    pub ffie_stateid: stateid4,
    pub ffie_errors: Vec<device_error4>,
}

impl Xdr for ff_ioerr4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.ffie_offset);
        out.u64(self.ffie_length);
        self.ffie_stateid.encode(out);
        out.vec(u32::MAX, &self.ffie_errors, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_ioerr4 {
            ffie_offset: input.u64()?,
            ffie_length: input.u64()?,
            ffie_stateid: stateid4::decode(input)?,
            ffie_errors: input.vec(u32::MAX, 24, device_error4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_io_latency4 {
    pub ffil_ops_requested: u64,
    pub ffil_bytes_requested: u64,
    pub ffil_ops_completed: u64,
    pub ffil_bytes_completed: u64,
    pub ffil_bytes_not_delivered: u64,
    pub ffil_total_busy_time: nfstime4,
    pub ffil_aggregate_completion_time: nfstime4,
}

impl Xdr for ff_io_latency4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.ffil_ops_requested);
        out.u64(self.ffil_bytes_requested);
        out.u64(self.ffil_ops_completed);
        out.u64(self.ffil_bytes_completed);
        out.u64(self.ffil_bytes_not_delivered);
        self.ffil_total_busy_time.encode(out);
        self.ffil_aggregate_completion_time.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_io_latency4 {
            ffil_ops_requested: input.u64()?,
            ffil_bytes_requested: input.u64()?,
            ffil_ops_completed: input.u64()?,
            ffil_bytes_completed: input.u64()?,
            ffil_bytes_not_delivered: input.u64()?,
            ffil_total_busy_time: nfstime4::decode(input)?,
            ffil_aggregate_completion_time: nfstime4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_layoutupdate4 {
    pub ffl_addr: netaddr4,
    pub ffl_fhandle: nfs_fh4,
    pub ffl_read: ff_io_latency4,
    pub ffl_write: ff_io_latency4,
    pub ffl_duration: nfstime4,
    pub ffl_local: bool,
}

impl Xdr for ff_layoutupdate4 {
    fn encode(&self, out: &mut Encoder) {
        self.ffl_addr.encode(out);
        out.opaque(128, &self.ffl_fhandle);
        self.ffl_read.encode(out);
        self.ffl_write.encode(out);
        self.ffl_duration.encode(out);
        out.bool(self.ffl_local);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_layoutupdate4 {
            ffl_addr: netaddr4::decode(input)?,
            ffl_fhandle: input.opaque(128)?,
            ffl_read: ff_io_latency4::decode(input)?,
            ffl_write: ff_io_latency4::decode(input)?,
            ffl_duration: nfstime4::decode(input)?,
            ffl_local: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_iostats4 {
    pub ffis_offset: offset4,
    pub ffis_length: length4,
    pub ffis_stateid: stateid4,
    pub ffis_read: io_info4,
    pub ffis_write: io_info4,
    pub ffis_deviceid: deviceid4,
    pub ffis_layoutupdate: ff_layoutupdate4,
}

impl Xdr for ff_iostats4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.ffis_offset);
        out.u64(self.ffis_length);
        self.ffis_stateid.encode(out);
        self.ffis_read.encode(out);
        self.ffis_write.encode(out);
        out.fixed(&self.ffis_deviceid);
        self.ffis_layoutupdate.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_iostats4 {
            ffis_offset: input.u64()?,
            ffis_length: input.u64()?,
            ffis_stateid: stateid4::decode(input)?,
            ffis_read: io_info4::decode(input)?,
            ffis_write: io_info4::decode(input)?,
            ffis_deviceid: input.fixed::<16>()?,
            ffis_layoutupdate: ff_layoutupdate4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_layoutreturn4 {
    pub fflr_ioerr_report: Vec<ff_ioerr4>,
    pub fflr_iostats_report: Vec<ff_iostats4>,
}

impl Xdr for ff_layoutreturn4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.fflr_ioerr_report, |out, item| {
            item.encode(out);
        });
        out.vec(u32::MAX, &self.fflr_iostats_report, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_layoutreturn4 {
            fflr_ioerr_report: input.vec(u32::MAX, 36, ff_ioerr4::decode)?,
            fflr_iostats_report: input.vec(u32::MAX, 236, ff_iostats4::decode)?,
        })
    }
}

/// `ffmc_valid`: there or not.
pub type ff_mirrors_hint = Option<u32>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ff_layouthint4 {
    pub fflh_mirrors_hint: ff_mirrors_hint,
}

impl Xdr for ff_layouthint4 {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.fflh_mirrors_hint.as_ref(), |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ff_layouthint4 {
            fflh_mirrors_hint: input.option(Decoder::u32)?,
        })
    }
}

pub const RCA4_TYPE_MASK_FF_LAYOUT_MIN: u32 = 16;

pub const RCA4_TYPE_MASK_FF_LAYOUT_MAX: u32 = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum ff_cb_recall_any_mask {
    PNFS_FF_RCA4_TYPE_MASK_READ = 16,
    PNFS_FF_RCA4_TYPE_MASK_RW = 17,
}

impl ff_cb_recall_any_mask {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<ff_cb_recall_any_mask> {
        Some(match value {
            16 => ff_cb_recall_any_mask::PNFS_FF_RCA4_TYPE_MASK_READ,
            17 => ff_cb_recall_any_mask::PNFS_FF_RCA4_TYPE_MASK_RW,
            _ => return None,
        })
    }
}

impl Xdr for ff_cb_recall_any_mask {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        ff_cb_recall_any_mask::from_wire(value).ok_or(DecodeError::Member {
            of: "ff_cb_recall_any_mask",
            value,
        })
    }
}
