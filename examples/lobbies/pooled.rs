//! Seats in a [`SlotPool`].

use pagestamp::{
    CapacityPlan, CapacityProof, Error, OwnerId, SlotClaimError, SlotConfig, SlotError, SlotGroup, SlotHandle, SlotPool,
};

use crate::seat::{Denied, SEATS, Seat, Seats};

pub(crate) struct Pooled {
    pool: SlotPool<Seat>,
    proof: CapacityProof,
}

impl Pooled {
    pub(crate) fn new(seats: u32) -> Result<Self, Error> {
        let pool = SlotPool::new(SlotConfig::new(seats))?;
        let proof = pool.prove(CapacityPlan::new(SEATS as u64))?;
        Ok(Self { pool, proof })
    }
}

/// The match owns its seats.
fn owner(match_id: u64) -> OwnerId {
    OwnerId::new(match_id).expect("matches are numbered from 1")
}

impl Seats for Pooled {
    /// What a message carries: 128 bits that name the slot, its life and its pool.
    type Address = u128;
    type Group = SlotGroup<Seat>;

    fn open(&self, match_id: u64) -> Option<(Self::Group, [u128; SEATS])> {
        let group = room(self.pool.claim(&self.proof, owner(match_id), SEATS as u32))?;
        let addresses = std::array::from_fn(|place| group.handles()[place].to_bits());
        Some((group, addresses))
    }

    fn open_one(&self, match_id: u64) -> Option<u128> {
        room(self.pool.claim_one(&self.proof, owner(match_id))).map(|handle| handle.to_bits())
    }

    fn sit(&self, match_id: u64, at: u128, player: u64) -> Result<Seat, Denied> {
        let sit_down = |slot: &mut Seat| std::mem::replace(slot, Seat::of(match_id, player));
        self.pool.init_with(owner(match_id), unpack(at)?, sit_down).map_err(denied)
    }

    fn look(&self, match_id: u64, at: u128) -> Result<Seat, Denied> {
        self.pool.with(owner(match_id), unpack(at)?, |seat| *seat).map_err(denied)
    }

    fn change(&self, match_id: u64, at: u128, change: impl FnOnce(&mut Seat)) -> Result<Seat, Denied> {
        let changed = self.pool.with_mut(owner(match_id), unpack(at)?, |seat| {
            change(seat);
            *seat
        });
        changed.map_err(denied)
    }

    fn leave(&self, match_id: u64, at: u128) -> Result<(), Denied> {
        self.pool.release(owner(match_id), unpack(at)?).map_err(denied)
    }

    fn close(&self, match_id: u64, group: SlotGroup<Seat>, seats: &[u128]) {
        group.release();
        for at in seats {
            // Those of the group are gone by now; the others came one by one, and go so.
            assert!(matches!(self.leave(match_id, *at), Ok(()) | Err(Denied::Late)), "nobody waits for a seat");
        }
    }

    fn crash(&self, match_id: u64, group: SlotGroup<Seat>, _seats: &[u128]) {
        // Nothing that the match knew is needed: whatever it had is taken back.
        std::mem::forget(group);
        self.pool.reclaim(owner(match_id));
    }

    fn audit(&self) -> Result<(), String> {
        self.pool.audit().map_err(|error| error.to_string())?;
        self.pool.maintain(usize::MAX);
        let stats = self.pool.stats();
        if stats.free_slots == u64::from(self.pool.slots()) {
            Ok(())
        } else {
            Err(format!("{} of {} seats came back", stats.free_slots, self.pool.slots()))
        }
    }
}

fn room<T>(claimed: Result<T, SlotClaimError>) -> Option<T> {
    match claimed {
        Ok(claimed) => Some(claimed),
        Err(SlotClaimError::Full { .. }) => None,
        Err(other) => panic!("the plan fits, and no seat retires: {other}"),
    }
}

fn unpack(at: u128) -> Result<SlotHandle<Seat>, Denied> {
    SlotHandle::from_bits(at).ok_or(Denied::Late)
}

fn denied(error: SlotError) -> Denied {
    match error {
        SlotError::Stale { .. } => Denied::Late,
        SlotError::Busy { .. } => Denied::Busy,
        SlotError::Uninitialised { .. } => Denied::Empty,
        other => panic!("every seat is of this pool and of the match that asks: {other}"),
    }
}
