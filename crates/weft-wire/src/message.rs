//! Which method carries which message.

use crate::proto::{self, Failure, failure};
use thiserror::Error;

/// A request: its method number and the type of its reply.
pub trait Rpc: prost::Message + Default {
    /// The number in the frame's header; each stands in `proto/` above its message.
    const METHOD: u16;
    /// For logs and metrics.
    const NAME: &'static str;
    /// What a good answer holds.
    type Reply: prost::Message + Default;
}

macro_rules! methods {
    ($($number:literal $request:ident -> $reply:ty;)*) => {
        $(
            impl Rpc for proto::$request {
                const METHOD: u16 = $number;
                const NAME: &'static str = stringify!($request);
                type Reply = $reply;
            }
        )*

        /// The name of a method's request, for logs and metrics.
        pub fn method_name(method: u16) -> &'static str {
            match method {
                $($number => stringify!($request),)*
                _ => "unknown",
            }
        }

        /// Decodes bytes as the request of a method and as its reply, and says which of them they
        /// are; for tests of the decoders. None if there is no such method.
        pub fn decodes(method: u16, message: &[u8]) -> Option<(bool, bool)> {
            use prost::Message as _;
            match method {
                $($number => Some((
                    proto::$request::decode(message).is_ok(),
                    <$reply>::decode(message).is_ok(),
                )),)*
                _ => None,
            }
        }
    };
}

methods! {
    16 ChangeRequest -> proto::ChangeReply;
    17 LookupRequest -> proto::LookupReply;
    18 GetInodeRequest -> proto::GetInodeReply;
    19 ReaddirRequest -> proto::ReaddirReply;
    20 GetxattrRequest -> proto::GetxattrReply;
    21 GetLockRequest -> proto::GetLockReply;
    22 StatfsRequest -> proto::StatfsReply;
    23 SessionRequest -> proto::SessionReply;
    24 RenewRequest -> proto::RenewReply;
    25 RevokeRequest -> proto::RevokeReply;
    26 PairStates -> ();
    27 LockFreed -> ();
    28 SuspectRequest -> proto::SuspectReply;
    29 StatusRequest -> proto::StatusReply;
    30 ExplainRequest -> proto::ExplainReply;
    31 StartScrubRequest -> proto::StartScrubReply;
    32 LeaseRangeRequest -> proto::LeaseRangeReply;
    33 LeadsRequest -> proto::LeadsReply;
    34 HealthRequest -> proto::HealthReply;
    46 RenewLifeRequest -> proto::RenewLifeReply;
    47 PlaceRequest -> proto::PlaceReply;
    48 RegisterRequest -> proto::RegisterReply;
    49 BeatRequest -> proto::BeatReply;
    50 SetStateRequest -> proto::SetStateReply;
    51 FenceRequest -> proto::FenceReply;
    52 DropObjectsRequest -> proto::DropObjectsReply;
    53 RecoveredRequest -> proto::RecoveredReply;
    54 ScrubRequest -> proto::ScrubReply;
    55 AttendRequest -> proto::AttendReply;
    56 FollowPairsRequest -> proto::FollowPairsReply;
    64 WriteRequest -> proto::WriteReply;
    65 ReadRequest -> proto::ReadReply;
    66 ShapeRequest -> proto::ShapeReply;
    67 SyncRequest -> proto::SyncReply;
    68 MapRequest -> proto::MapReply;
    69 DataStatusRequest -> proto::DataStatusReply;
    70 Copied -> ();
    71 Confirmed -> ();
    80 ForwardRequest -> proto::ForwardReply;
    81 DirtyRequest -> proto::DirtyReply;
    82 ChecksumsRequest -> proto::ChecksumsReply;
    83 FillRequest -> proto::FillReply;
    84 FetchRequest -> proto::FetchReply;
    85 ListRequest -> proto::ListReply;
    86 FilledRequest -> proto::FilledReply;
    87 ClearRequest -> proto::ClearReply;
    88 PingRequest -> proto::PingReply;
    90 StartJobRequest -> proto::StartJobReply;
    91 JobsRequest -> proto::JobsReply;
    92 MoveWorkRequest -> proto::MoveWorkReply;
    93 CancelJobRequest -> proto::CancelJobReply;
    94 AdmitPairRequest -> proto::AdmitPairReply;
    95 ReplaceMemberRequest -> proto::ReplaceMemberReply;
    96 SurveyInodesRequest -> proto::SurveyInodesReply;
    97 SurveyNamesRequest -> proto::SurveyNamesReply;
    98 SurveyLookRequest -> proto::SurveyLookReply;
    99 SurveyGroupRequest -> proto::SurveyGroupReply;
    100 PrepareRequest -> proto::PrepareReply;
    101 FinishRequest -> proto::FinishReply;
    102 OutcomeRequest -> proto::OutcomeReply;
    103 WalkRequest -> proto::WalkReply;
    110 UnsettledRequest -> proto::UnsettledReply;
    111 ReturnedRequest -> proto::ReturnedReply;
    112 LossesRequest -> proto::LossesReply;
    113 AcknowledgeRequest -> proto::AcknowledgeReply;
    114 ReceiveSlotRequest -> proto::ReceiveSlotReply;
    115 CheckSlotRequest -> proto::CheckSlotReply;
    116 OwnSlotRequest -> proto::OwnSlotReply;
    117 SlotOutcomeRequest -> proto::SlotOutcomeReply;
    118 GuestsRequest -> proto::GuestsReply;
    119 SlotMoved -> ();
    120 GroupMessage -> ();
    121 FetchImageRequest -> proto::FetchImageReply;
    122 GroupStatusRequest -> proto::GroupStatusReply;
    123 AdmitMemberRequest -> proto::AdmitMemberReply;
    124 DismissMemberRequest -> proto::DismissMemberReply;
    125 ForceMemberRequest -> proto::ForceMemberReply;
    126 MoveSlotsRequest -> proto::MoveSlotsReply;
    127 SlotsRequest -> proto::SlotsReply;
    128 VacateMemberRequest -> proto::VacateMemberReply;
    130 CreateCheckpointRequest -> proto::CreateCheckpointReply;
    131 CheckpointsRequest -> proto::CheckpointsReply;
    132 RestoreCheckpointRequest -> proto::RestoreCheckpointReply;
    133 DeleteCheckpointRequest -> proto::DeleteCheckpointReply;
    134 CutRequest -> proto::CutReply;
    135 GoOnRequest -> proto::GoOnReply;
    136 CutStatusRequest -> proto::CutStatusReply;
    137 DropCutRequest -> proto::DropCutReply;
    138 RestoreStepRequest -> proto::RestoreStepReply;
    139 WriteBackRequest -> proto::WriteBackReply;
    150 RepairRequest -> proto::RepairReply;
    160 ProbeGreetRequest -> proto::ProbeGreetReply;
    161 OpenLaneRequest -> proto::OpenLaneReply;
    162 RunLaneRequest -> proto::RunLaneReply;
    163 CloseLaneRequest -> proto::CloseLaneReply;
}

/// Members whose addresses are taken from one `NotActive`: more than any group has.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of one address that are taken: a host name has at most 253. Longer ones are none.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Why the other side did not do a request: `Failure` as a Rust enum.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Failed {
    /// The answer an application sees: a Linux errno.
    #[error("errno {0}")]
    Errno(i32),
    /// The request named another epoch than the current one.
    #[error("stale epoch, the current one is {0}")]
    Stale(u64),
    /// Cannot serve now: try again later or elsewhere.
    #[error("not available: {0}")]
    Unavailable(String),
    /// The session has been ended.
    #[error("session ended: {0}")]
    Fenced(String),
    /// The request broke the protocol; never retried.
    #[error("refused: {0}")]
    Refused(String),
    /// Who asks is of another cluster or name space, or another server has its place. Of no use before an operator has
    /// done what it says.
    #[error("misplaced: {0}")]
    Misplaced(String),
    /// Another member leads: ask there.
    #[error("not the active ({})", leader(active))]
    NotActive {
        /// Address of the active as far as the one that answers knows; empty if it does not.
        active: String,
        /// Addresses of the members that it knows.
        members: Vec<String>,
    },
    /// Another group has the slot: it was not done here, and never will be.
    #[error("slot {slot} is group {group}'s")]
    Moved {
        /// Of what was asked about.
        slot: u32,
        /// Who has it, as far as the one that answers knows.
        group: u32,
        /// Addresses of that group's members that it knows.
        members: Vec<String>,
    },
}

fn leader(active: &str) -> String {
    match active {
        "" => "it does not know who leads".into(),
        active => format!("it is said to be {active}"),
    }
}

/// Keeps what can be an address: whoever is asked next must be somebody, and a server that is out of its
/// mind must not fill the memory of who asks it.
pub fn bounded_addresses(addresses: impl IntoIterator<Item = String>) -> Vec<String> {
    let addresses = addresses.into_iter();
    let possible =
        addresses.filter(|address| !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX);
    possible.take(MEMBERS_MAX).collect()
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Failure {
        let kind = match failed {
            Failed::Errno(errno) => failure::Kind::Errno(errno as u32),
            Failed::Stale(current_epoch) => failure::Kind::Stale(proto::Stale { current_epoch }),
            Failed::Unavailable(why) => failure::Kind::Unavailable(why),
            Failed::Fenced(why) => failure::Kind::Fenced(why),
            Failed::Refused(why) => failure::Kind::Refused(why),
            Failed::Misplaced(why) => failure::Kind::Misplaced(why),
            Failed::NotActive { active, members } => {
                failure::Kind::NotActive(proto::NotActive { active, members })
            }
            Failed::Moved {
                slot,
                group,
                members,
            } => failure::Kind::Moved(proto::Moved {
                slot,
                group,
                members,
            }),
        };
        Failure { kind: Some(kind) }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        match failure.kind {
            Some(failure::Kind::Errno(errno)) => Failed::Errno(errno as i32),
            Some(failure::Kind::Stale(stale)) => Failed::Stale(stale.current_epoch),
            Some(failure::Kind::Unavailable(why)) => Failed::Unavailable(why),
            Some(failure::Kind::Fenced(why)) => Failed::Fenced(why),
            Some(failure::Kind::Refused(why)) => Failed::Refused(why),
            Some(failure::Kind::Misplaced(why)) => Failed::Misplaced(why),
            Some(failure::Kind::NotActive(proto::NotActive { active, members })) => {
                Failed::NotActive {
                    active: bounded_addresses([active]).pop().unwrap_or_default(),
                    members: bounded_addresses(members),
                }
            }
            Some(failure::Kind::Moved(proto::Moved {
                slot,
                group,
                members,
            })) => Failed::Moved {
                slot,
                group,
                members: bounded_addresses(members),
            },
            None => Failed::Refused("a failure without a reason".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    /// What the other side reads of a failure.
    fn over_the_wire(failed: Failed) -> Failed {
        let bytes = Failure::from(failed).encode_to_vec();
        Failure::decode(bytes.as_slice()).unwrap().into()
    }

    fn not_active(active: &str, members: Vec<String>) -> Failed {
        Failed::NotActive {
            active: active.into(),
            members,
        }
    }

    #[test]
    fn each_failure_arrives_as_it_was_sent() {
        for failed in [
            Failed::Errno(2),
            Failed::Stale(7),
            Failed::Unavailable("starting".into()),
            Failed::Fenced("gone".into()),
            Failed::Refused("nonsense".into()),
            Failed::Misplaced("another cluster".into()),
            not_active("b:1", vec!["a:1".into(), "b:1".into()]),
            not_active("", Vec::new()),
            Failed::Moved {
                slot: 7,
                group: 2,
                members: vec!["c:1".into()],
            },
        ] {
            assert_eq!(over_the_wire(failed.clone()), failed);
        }
    }

    #[test]
    fn addresses_of_members_are_bounded() {
        let longest = "a".repeat(ADDRESS_BYTES_MAX);
        let kept = not_active(&longest, vec![longest.clone()]);
        assert_eq!(over_the_wire(kept.clone()), kept);

        let long = "a".repeat(ADDRESS_BYTES_MAX + 1);
        let members = vec![long.clone(), String::new(), "b:1".into()];
        let heard = over_the_wire(not_active(&long, members));
        assert_eq!(heard, not_active("", vec!["b:1".into()]));

        let many: Vec<String> = (0..=MEMBERS_MAX).map(|i| format!("m{i}:1")).collect();
        let heard = over_the_wire(not_active("", many.clone()));
        assert_eq!(heard, not_active("", many[..MEMBERS_MAX].to_vec()));
        // What is dropped takes nobody's place.
        let mut with_long = many.clone();
        with_long[0] = long;
        let heard = over_the_wire(not_active("", with_long));
        assert_eq!(heard, not_active("", many[1..].to_vec()));
    }
}
