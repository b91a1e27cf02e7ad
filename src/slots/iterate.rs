//! Every live slot, in the order in which the values lie in memory.

use super::stamp::{Denied, Purpose};
use super::{SlotHandle, SlotPool};
use crate::id::OwnerId;
use crate::stamp::PageState;

/// Whose slots are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// One owner's.
    Owner(OwnerId),
    /// Everybody's: for what the server does for all matches alike.
    All,
}

/// How a walk over slots went.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Visited {
    /// Slots that the closure saw.
    pub slots: u64,
    /// Slots left out because an access was in the way.
    pub busy_slots: u64,
    /// Slots left out because nobody had initialised them.
    pub blank_slots: u64,
    /// Slots left out because a panic had left them half changed.
    pub poisoned_slots: u64,
}

impl<T> SlotPool<T> {
    /// Reads every initialised live slot, in the order in which they lie in memory. Waits for none: a slot that somebody has
    /// to himself is left out, and counted. Slots claimed or released meanwhile may be seen or not.
    ///
    /// # Cost
    ///
    /// O(slots of the pool), 16 bytes read for each; one shared access for each that is seen. An owner of few slots in a
    /// large pool is better served by the handles of its group.
    pub fn for_each(&self, whose: Whose, mut look: impl FnMut(SlotHandle<T>, &T)) -> Visited {
        self.visit(whose, |owner, handle| self.inner.slots.read(owner, handle).map(|slot| look(handle, &slot)))
    }

    /// Changes every initialised live slot; else as [`for_each`](Self::for_each). A slot that somebody reads is left out, and
    /// counted.
    pub fn for_each_mut(&self, whose: Whose, mut change: impl FnMut(SlotHandle<T>, &mut T)) -> Visited {
        self.visit(whose, |owner, handle| {
            self.inner.slots.write(owner, handle, Purpose::Change).map(|slot| slot.run(|value| change(handle, value)))
        })
    }

    fn visit(&self, whose: Whose, mut access: impl FnMut(OwnerId, SlotHandle<T>) -> Result<(), Denied>) -> Visited {
        let mut visited = Visited::default();
        for (slot, stamp) in self.inner.slots.stamps().iter().enumerate() {
            let word = stamp.word();
            if word.state() != PageState::Live {
                continue;
            }
            let Some(owner) = stamp.owner().filter(|owner| whose == Whose::All || whose == Whose::Owner(*owner)) else {
                continue;
            };
            // The access checks again that this is the owner of that life.
            match access(owner, SlotHandle::new(self.inner.identity, slot as u32, word.generation())) {
                Ok(()) => visited.slots += 1,
                Err(Denied::Busy(_) | Denied::TooMany) => visited.busy_slots += 1,
                Err(Denied::Blank) => visited.blank_slots += 1,
                Err(Denied::Poisoned) => visited.poisoned_slots += 1,
                // It left meanwhile.
                Err(_) => {}
            }
        }
        visited
    }
}
