//! The calls of the machine: small numbers, which the machine takes modulo what is there.

use proptest::prelude::*;

/// How an admission, a reservation or a guard ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Drop,
    Forget,
    Call,
    Reject,
    OtherThread,
}

/// How a step ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepEnds {
    Ended,
    /// Its value is lost.
    Lost,
    Revoked,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Prove { max: u8 },
    Admit { owner: u8, max: u8, proof: u8 },
    Reserve { owner: u8, max: u8, tokens: u8, claim: Option<u8>, lane: bool, proof: u8 },
    Take { slot: u8, tokens: u8 },
    End { slot: u8, how: End },
    Grow { slot: u8, to: u8 },
    Write { slot: u8, tokens: u8, seed: u8 },
    Writer { slot: u8, tokens: u8 },
    Plane { held: u8, plane: u8, seed: u8 },
    Assume { slot: u8, to: u8 },
    Commit { slot: u8, to: u8 },
    Truncate { slot: u8, to: u8 },
    Shrink { slot: u8, to: u8 },
    Read { slot: u8, from: u8, to: u8, hold: bool },
    ReadHandle { slot: u8, ordinal: u8, owner: u8, hold: bool },
    ReadDead { dead: u8, owner: u8 },
    Forge { slot: u8, ordinal: u8, bit: u8 },
    EndGuard { held: u8, how: End },
    Pin { slot: u8, from: u8, to: u8, write: bool },
    PinHandles { owner: u8, pick: u8, count: u8 },
    Poke { ticket: u8, offset: u8, value: u8 },
    EndTicket { ticket: u8, revoke: bool },
    NameHolder { ticket: u8, dead: bool },
    EndDead { ticket: u8 },
    EndAllDead,
    Detach { slot: u8 },
    ReleasePages { owner: u8, count: u8, spoil: u8, pick: u8 },
    Reclaim { owner: u8 },
    Erase { owner: u8 },
    Clear,
    Suspend,
    Resume,
    Resize { pages: u8 },
    Maintain { pages: u8 },
    Confirm { slot: u8 },
    Expire,
    FinishFence { which: u8 },
    FailFence,
    OpenStep,
    EndStep { which: u8, how: StepEnds },
    Export { slot: u8, step: u8, tokens: u8 },
    Report { slot: u8, step: u8, wrote: bool },
    Kernel { which: u8, plane: u8, value: u8 },
    OnRoom { pages: u8 },
    RefuseCleans { calls: u8 },
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Drop), 1 => Just(End::Forget), 4 => Just(End::Call), 2 => Just(End::Reject),
        1 => Just(End::OtherThread)
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let n = any::<u8>;
    prop_oneof![
        1 => n().prop_map(|max| Op::Prove { max }),
        3 => (n(), n(), n()).prop_map(|(owner, max, proof)| Op::Admit { owner, max, proof }),
        14 => (n(), n(), n(), proptest::option::weighted(0.2, 0u8..4), any::<bool>(), n())
            .prop_map(|(owner, max, tokens, claim, lane, proof)| Op::Reserve { owner, max, tokens, claim, lane, proof }),
        3 => (n(), n()).prop_map(|(slot, tokens)| Op::Take { slot, tokens }),
        12 => (n(), end()).prop_map(|(slot, how)| Op::End { slot, how }),
        4 => (n(), n()).prop_map(|(slot, to)| Op::Grow { slot, to }),
        10 => (n(), n(), n()).prop_map(|(slot, tokens, seed)| Op::Write { slot, tokens, seed }),
        3 => (n(), n()).prop_map(|(slot, tokens)| Op::Writer { slot, tokens }),
        6 => (n(), n(), n()).prop_map(|(held, plane, seed)| Op::Plane { held, plane, seed }),
        3 => (n(), n()).prop_map(|(slot, to)| Op::Assume { slot, to }),
        2 => (n(), n()).prop_map(|(slot, to)| Op::Commit { slot, to }),
        5 => (n(), n()).prop_map(|(slot, to)| Op::Truncate { slot, to }),
        2 => (n(), n()).prop_map(|(slot, to)| Op::Shrink { slot, to }),
        4 => (n(), n(), n(), any::<bool>()).prop_map(|(slot, from, to, hold)| Op::Read { slot, from, to, hold }),
        8 => (n(), n(), n(), any::<bool>())
            .prop_map(|(slot, ordinal, owner, hold)| Op::ReadHandle { slot, ordinal, owner, hold }),
        1 => (n(), n()).prop_map(|(dead, owner)| Op::ReadDead { dead, owner }),
        2 => (n(), n(), 0u8..128).prop_map(|(slot, ordinal, bit)| Op::Forge { slot, ordinal, bit }),
        6 => (n(), end()).prop_map(|(held, how)| Op::EndGuard { held, how }),
        5 => (n(), n(), n(), any::<bool>()).prop_map(|(slot, from, to, write)| Op::Pin { slot, from, to, write }),
        1 => (n(), n(), n()).prop_map(|(owner, pick, count)| Op::PinHandles { owner, pick, count }),
        3 => (n(), n(), n()).prop_map(|(ticket, offset, value)| Op::Poke { ticket, offset, value }),
        5 => (n(), any::<bool>()).prop_map(|(ticket, revoke)| Op::EndTicket { ticket, revoke }),
        3 => (n(), any::<bool>()).prop_map(|(ticket, dead)| Op::NameHolder { ticket, dead }),
        2 => n().prop_map(|ticket| Op::EndDead { ticket }),
        1 => Just(Op::EndAllDead),
        2 => n().prop_map(|slot| Op::Detach { slot }),
        3 => (n(), n(), n(), n())
            .prop_map(|(owner, count, spoil, pick)| Op::ReleasePages { owner, count, spoil, pick }),
        3 => n().prop_map(|owner| Op::Reclaim { owner }),
        1 => n().prop_map(|owner| Op::Erase { owner }),
        1 => Just(Op::Clear),
        1 => Just(Op::Suspend),
        4 => Just(Op::Resume),
        2 => n().prop_map(|pages| Op::Resize { pages }),
        4 => n().prop_map(|pages| Op::Maintain { pages }),
        1 => n().prop_map(|slot| Op::Confirm { slot }),
        1 => Just(Op::Expire),
        7 => n().prop_map(|which| Op::FinishFence { which }),
        2 => Just(Op::FailFence),
        5 => Just(Op::OpenStep),
        7 => (n(), prop_oneof![6 => Just(StepEnds::Ended), 1 => Just(StepEnds::Lost), 2 => Just(StepEnds::Revoked)])
            .prop_map(|(which, how)| Op::EndStep { which, how }),
        8 => (n(), n(), n()).prop_map(|(slot, step, tokens)| Op::Export { slot, step, tokens }),
        6 => (n(), n(), any::<bool>()).prop_map(|(slot, step, wrote)| Op::Report { slot, step, wrote }),
        4 => (n(), n(), n()).prop_map(|(which, plane, value)| Op::Kernel { which, plane, value }),
        2 => n().prop_map(|pages| Op::OnRoom { pages }),
        1 => (0u8..3).prop_map(|calls| Op::RefuseCleans { calls }),
    ]
}
