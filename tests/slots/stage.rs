//! What the tests stand on.

use pagestamp::{CapacityPlan, CapacityProof, OwnerId, PageState, SlotConfig, SlotError, SlotHandle, SlotPool};

/// What a slot holds: who wrote it, and for which match. Blank is nobody, for none.
#[derive(Default, Debug, PartialEq, Eq, Clone)]
pub(crate) struct Seat {
    pub(crate) owner: u64,
    pub(crate) round: u64,
    pub(crate) items: Vec<u64>,
}

impl Seat {
    pub(crate) fn of(owner: OwnerId, round: u64) -> Self {
        Self { owner: owner.get(), round, items: vec![round] }
    }
}

pub(crate) fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

/// A pool of `slots` slots, and a proof for groups of up to `group`.
pub(crate) fn pool(slots: u32, group: u64) -> (SlotPool<Seat>, CapacityProof) {
    made(SlotConfig::new(slots), group)
}

pub(crate) fn made(config: SlotConfig, group: u64) -> (SlotPool<Seat>, CapacityProof) {
    let pool = SlotPool::new(config).unwrap();
    let proof = pool.prove(CapacityPlan::new(group)).unwrap();
    (pool, proof)
}

/// One slot, initialised.
pub(crate) fn seated(pool: &SlotPool<Seat>, proof: &CapacityProof, owner: OwnerId) -> SlotHandle<Seat> {
    let handle = pool.claim_one(proof, owner).unwrap();
    pool.init(owner, handle, Seat::of(owner, 1)).unwrap();
    handle
}

pub(crate) fn is_stale<R>(result: Result<R, SlotError>, now: PageState) -> bool {
    matches!(result, Err(SlotError::Stale { state, .. }) if state == now)
}
