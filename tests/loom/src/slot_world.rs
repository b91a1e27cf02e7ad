//! A slot pool as small as the protocols allow: the real stamps and lists, and values that loom watches.
//!
//! *Owns* the steps that `src/slots/cell.rs`, `claim.rs` and `release.rs` take around them, repeated by hand; `build.rs` stops
//! when those change. *Does not know* what a model wants to show.

use std::sync::Arc;

use crate::bytes::Token;
use crate::id::{Generation, OwnerId};
use crate::saw;
use crate::slots::lane::Lane;
use crate::slots::stamp::{Denied, Ending, Left, Purpose, SlotStamp};
use crate::slots::stock::Stock;
use crate::stamp::PageState;
use crate::world::Plant;

/// What `owner` writes in a life of a slot: never zero, different for each.
pub(crate) fn value(owner: OwnerId, life: Generation) -> u64 {
    owner.get() << 32 | life.get()
}

#[derive(Debug)]
pub(crate) struct SlotWorld {
    plant: Plant,
    pub(crate) stamps: Vec<SlotStamp>,
    values: Vec<Token>,
    pub(crate) stock: Stock,
}

impl SlotWorld {
    /// A pool of free slots.
    pub(crate) fn new(plant: Plant, slots: u32, magazines: u32) -> Arc<Self> {
        Arc::new(Self {
            plant,
            stamps: (0..slots).map(|_| SlotStamp::new()).collect(),
            values: (0..slots).map(|_| Token::default()).collect(),
            stock: Stock::try_new(slots, magazines).expect("small"),
        })
    }

    /// The same, with slot 0 issued to `owner`, and initialised.
    pub(crate) fn with_slot(plant: Plant, owner: OwnerId) -> Arc<Self> {
        let world = Self::new(plant, 1, 1);
        let (slot, life) = world.claim(owner, &Lane::new(0)).expect("free");
        assert!(world.write(owner, slot, life, Purpose::Initialise, Ending::Initialised).is_ok(), "C5: blank");
        world
    }

    /// As `SlotPool::claim_one` and `Inner::take`. Whoever has the slot now finds it reset.
    pub(crate) fn claim(&self, owner: OwnerId, lane: &Lane) -> Option<(u32, Generation)> {
        let mut found = None;
        let mut give = |slot, life| found = Some((slot, life));
        if !self.stock.issue(&self.stamps, owner, 1, lane, &mut give) {
            loop {
                let mut central = self.stock.central();
                if self.stock.issue_last(&mut central, &self.stamps, owner, 1, &mut give).is_ok() {
                    break;
                }
                let idle = central.quarantined.iter().position(|slot| self.stamps[*slot as usize].collect());
                let slot = central.quarantined.remove(idle?);
                drop(central);
                self.finish(slot, lane);
            }
        }
        let (slot, life) = found?;
        assert_eq!(self.values[slot as usize].get(), 0, "C3: a slot that is handed out is not reset");
        Some((slot, life))
    }

    /// As `Slots::read` and the drop of its guard.
    pub(crate) fn read(&self, owner: OwnerId, slot: u32, life: Generation) -> Result<u64, Denied> {
        let (stamp, cell) = (&self.stamps[slot as usize], &self.values[slot as usize]);
        if self.plant == Plant::CheckThenRead {
            stamp.look(owner, life)?;
            return Ok(cell.get());
        }
        stamp.share(owner, life)?;
        let seen = cell.get();
        assert_eq!(cell.get(), seen, "C12: changed under a reader");
        stamp.end_share();
        if self.plant == Plant::ReaderResets && stamp.word().state() == PageState::Quarantined {
            cell.set(0);
        }
        Ok(seen)
    }

    /// As `Slots::write` and the drop of its guard.
    pub(crate) fn write(
        &self,
        owner: OwnerId,
        slot: u32,
        life: Generation,
        purpose: Purpose,
        ending: Ending,
    ) -> Result<(), Denied> {
        let stamp = &self.stamps[slot as usize];
        stamp.seize(owner, life, purpose)?;
        self.values[slot as usize].set(value(owner, life));
        stamp.end_seize(ending);
        Ok(())
    }

    /// As a change that depends on what was there: `with_mut(|value| *value += 1)`.
    pub(crate) fn add_one(&self, owner: OwnerId, slot: u32, life: Generation) -> Result<(), Denied> {
        let (stamp, cell) = (&self.stamps[slot as usize], &self.values[slot as usize]);
        stamp.seize(owner, life, Purpose::Change)?;
        cell.set(cell.get() + 1);
        stamp.end_seize(Ending::Changed);
        Ok(())
    }

    /// What an exclusive access leaves that a panic ends.
    pub(crate) fn spoil(&self, slot: u32) {
        self.values[slot as usize].set(u64::MAX);
    }

    /// The value, for who has an access.
    pub(crate) fn peek(&self, slot: u32) -> u64 {
        self.values[slot as usize].get()
    }

    /// As `SlotPool::release`.
    pub(crate) fn release(&self, owner: OwnerId, slot: u32, life: Generation, lane: &Lane) -> Result<Left, Denied> {
        let left = self.stamps[slot as usize].leave(owner, life)?;
        match left {
            Left::InHand => self.finish(slot, lane),
            Left::Accessed => self.stock.central().quarantined.push(slot),
        }
        Ok(left)
    }

    /// As `SlotPool::maintain`; answers whether a slot came out of quarantine.
    pub(crate) fn maintain(&self, lane: &Lane) -> bool {
        let mut central = self.stock.central();
        let idle = central.quarantined.iter().position(|slot| self.stamps[*slot as usize].collect());
        let Some(slot) = idle.map(|at| central.quarantined.remove(at)) else { return false };
        drop(central);
        self.finish(slot, lane);
        true
    }

    /// As `Inner::finish`: the reset, then the list.
    fn finish(&self, slot: u32, lane: &Lane) {
        let reset = || self.values[slot as usize].set(0);
        let put = || self.stock.put(&self.stamps, std::iter::once(slot), lane);
        if self.plant == Plant::FreeBeforeZero {
            put();
            reset();
        } else {
            reset();
            put();
        }
    }

    /// After all threads: every slot is somewhere once, and the stamps agree.
    pub(crate) fn audit(&self) {
        let stopped = self.stock.stop();
        let mut listed: Vec<u32> = stopped.shelves().flat_map(|shelf| shelf.free.iter().collect::<Vec<_>>()).collect();
        for slot in &listed {
            assert_eq!(self.stamps[*slot as usize].word().state(), PageState::Free, "C1: listed as free");
        }
        listed.extend(&stopped.central.quarantined);
        let live = (0..self.stamps.len() as u32).filter(|s| self.stamps[*s as usize].word().state() == PageState::Live);
        listed.extend(live);
        listed.sort_unstable();
        assert_eq!(listed, (0..self.stamps.len() as u32).collect::<Vec<_>>(), "C1: each slot once");
        if stopped.magazines.iter().any(|magazine| magazine.issued + magazine.returned > 0) {
            saw("magazine");
        } else {
            saw("central");
        }
    }
}
