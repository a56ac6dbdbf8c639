//! The kinds of faults.

/// A kind of fault. Each is a column of the table of what was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    MetaKill,
    MetaPower,
    MetaPause,
    ClientKill,
    ClientPause,
    ClientCut,
    Cut,
    OneWayCut,
    Slow,
    Reset,
    ClockJump,
    DataKill,
    DataPower,
    DataPause,
    DataCut,
    Wipe,
    DiskFull,
    DiskError,
    DiskHang,
    BitFlip,
    ActiveKill,
    MetaMany,
    MetaCut,
    MetaFull,
    MetaDiskError,
    MetaHang,
    MetaSlowDisk,
    MetaWipe,
    Coordinator,
    Refusals,
    DiskDies,
    CutOff,
    Unheard,
}

/// The kinds that there are with one metadata server.
pub const KINDS: &[Kind] = &[
    Kind::MetaKill,
    Kind::MetaPower,
    Kind::MetaPause,
    Kind::ClientKill,
    Kind::ClientPause,
    Kind::ClientCut,
    Kind::Cut,
    Kind::OneWayCut,
    Kind::Slow,
    Kind::Reset,
    Kind::ClockJump,
    Kind::DataKill,
    Kind::DataPower,
    Kind::DataPause,
    Kind::DataCut,
    Kind::Wipe,
    Kind::DiskFull,
    Kind::DiskError,
    Kind::DiskHang,
    Kind::BitFlip,
];

/// And besides these with several.
pub const GROUP_KINDS: &[Kind] = &[
    Kind::ActiveKill,
    Kind::MetaMany,
    Kind::MetaCut,
    Kind::MetaFull,
    Kind::MetaDiskError,
    Kind::MetaHang,
    Kind::MetaSlowDisk,
    Kind::MetaWipe,
    Kind::Coordinator,
];

/// Kinds that no seed draws, or those that are kept would mean something else: for storms.
pub const STORM_KINDS: &[Kind] = &[Kind::Refusals, Kind::DiskDies, Kind::CutOff, Kind::Unheard];

/// The kinds that there are with so many metadata servers.
pub fn all(members: u32) -> impl Iterator<Item = Kind> {
    let of_group = if members > 1 { GROUP_KINDS } else { &[] };
    KINDS.iter().chain(of_group).copied()
}

impl Kind {
    pub(super) fn is_of_data(self) -> bool {
        (Kind::DataKill..=Kind::BitFlip).contains(&self) || self == Kind::DiskDies
    }

    /// Of metadata servers, or what they need.
    pub(super) fn is_of_meta(self) -> bool {
        self <= Kind::MetaPause || GROUP_KINDS.contains(&self)
    }

    /// By which another metadata server may take over. For clients that is what a death of the only one is.
    pub fn takes_over(self) -> bool {
        matches!(
            self,
            Kind::MetaPause | Kind::Cut | Kind::OneWayCut | Kind::Slow | Kind::Reset
        ) || GROUP_KINDS.contains(&self)
    }

    /// The weak member has bad blocks, or may have: its twin must be there.
    pub(super) fn needs_twin(self) -> bool {
        matches!(self, Kind::BitFlip | Kind::DiskError | Kind::DiskDies)
    }

    /// The kind that is called this in code, as in the line that says how to see a run again.
    pub fn called(name: &str) -> Option<Kind> {
        KINDS
            .iter()
            .chain(GROUP_KINDS)
            .chain(STORM_KINDS)
            .copied()
            .find(|kind| format!("{kind:?}") == name)
    }

    /// Its column's title.
    pub fn name(self) -> &'static str {
        match self {
            Kind::MetaKill => "meta kill",
            Kind::MetaPower => "meta power",
            Kind::MetaPause => "meta stop",
            Kind::ClientKill => "client kill",
            Kind::ClientPause => "client stop",
            Kind::ClientCut => "client cut",
            Kind::Cut => "cut",
            Kind::OneWayCut => "one-way cut",
            Kind::Slow => "slow link",
            Kind::Reset => "reset",
            Kind::ClockJump => "clock jump",
            Kind::DataKill => "data kill",
            Kind::DataPower => "data power",
            Kind::DataPause => "data stop",
            Kind::DataCut => "data cut",
            Kind::Wipe => "new disk",
            Kind::DiskFull => "disk full",
            Kind::DiskError => "disk error",
            Kind::DiskHang => "disk hang",
            Kind::BitFlip => "bit flip",
            Kind::ActiveKill => "active kill",
            Kind::MetaMany => "meta many",
            Kind::MetaCut => "meta cut",
            Kind::MetaFull => "meta full",
            Kind::MetaDiskError => "meta error",
            Kind::MetaHang => "meta hang",
            Kind::MetaSlowDisk => "meta slow",
            Kind::MetaWipe => "meta new disk",
            Kind::Coordinator => "coordinator",
            Kind::Refusals => "refusals",
            Kind::DiskDies => "disk dies",
            Kind::CutOff => "cut off",
            Kind::Unheard => "unheard",
        }
    }
}
