//! Steps: iterations of an engine, whose kernels use pages by their numbers.
//!
//! *Owns* the words, and which tokens of a reservation are being written under which step. *Does not know* which pages wait
//! for a step: the pool keeps those.

use std::fmt;
use std::num::NonZeroU64;

use crate::id::{PoolId, PoolIdentity, pack, unpack};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Names one step. `Copy`, for reports and messages; never used twice within the life of a pool.
///
/// # Examples
///
/// [`open_step`](crate::PagePool::open_step) shows a step's life.
///
/// ```
/// use pagestamp::StepId;
/// assert!(StepId::from_bits(0).is_none(), "zero is never a step");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepId {
    pub(crate) identity: PoolIdentity,
    pub(crate) sequence: NonZeroU64,
}

impl StepId {
    /// The pool that opened it.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.identity.pool
    }

    /// Its number: the steps of a pool are counted from 1.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    /// Packs the id for C, C++, Python or the wire; never zero. As [`TicketId::to_bits`](crate::TicketId::to_bits).
    #[must_use]
    pub fn to_bits(self) -> u128 {
        pack(self.identity, self.sequence)
    }

    /// Unpacks what [`to_bits`](Self::to_bits) packed; `None` for what it never gives.
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        unpack(bits).map(|(identity, sequence)| Self { identity, sequence })
    }
}

impl fmt::Debug for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of {:?}", self.sequence, self.identity.pool)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An open step: pages that are released from now on wait for its end, [`end_step`](crate::PagePool::end_step).
///
/// Whoever has the value decides when the step ends, and nobody else can. Nothing rests on its `Drop`: a step whose value
/// is lost stays open, [is shown](crate::PagePool::open_steps), and keeps its pages.
///
/// It is ended once:
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// unsafe fn twice(pool: &PagePool<NullMemory>, step: Step) {
///     let _ = unsafe { pool.end_step(step) };
///     let _ = unsafe { pool.end_step(step) };
/// }
/// ```
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a step that is lost stays open, and keeps every page that is released from now on"]
pub struct Step(pub(crate) StepId);

impl Step {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> StepId {
        self.0
    }
}

/// An open step, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StepInfo {
    /// Which one.
    pub id: StepId,
    /// Released pages that wait for its end. Each may wait for other steps too.
    pub waiting_pages: u64,
    /// Reservations with tokens that it writes and that were reported neither written nor aborted.
    pub exports: u64,
}

/// What the end of a step did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct StepEnd {
    /// Pages that wait for no step any more: they go on to be zeroed.
    pub pages: u64,
    /// Of these, pages that a guard, a borrow or a ticket still holds.
    pub quarantined_pages: u64,
    /// Pages that wait for other open steps still.
    pub waiting_pages: u64,
}

/// How it is known that nothing of a lost step runs any more. Time that has passed is no such knowledge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StepLoss {
    /// Nothing was launched under it.
    NeverLaunched,
    /// All of it was seen to have finished, and only its value was lost.
    Finished,
    /// The device was reset, or the context that ran it was destroyed.
    DeviceReset,
    /// The process that ran it has ended, and no device works for it any more.
    ProcessEnded,
}

/// Steps at once that write one reservation.
pub(crate) const MAX_EXPORTS: usize = 4;

/// The tokens of a reservation that are being written under open steps, in the order of the tokens. They begin at the written
/// extent, and each step's begin where those of the step before end.
///
/// Changed under the pool's lock by the holder of the reservation, who alone reads it without.
#[derive(Default, Debug)]
pub(crate) struct Exports {
    count: AtomicU32,
    entries: [(AtomicU64, AtomicU64); MAX_EXPORTS],
}

/// Tokens that a step writes: those before `to_tokens`, behind the ones of the step before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Export {
    pub(crate) step: u64,
    pub(crate) to_tokens: u64,
}

impl Exports {
    // Relaxed throughout: as for the list of pages, see `lease`.

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Export> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        self.entries[..self.count()]
            .iter()
            .map(move |(step, to_tokens)| Export { step: load(step), to_tokens: load(to_tokens) })
    }

    pub(crate) fn first(&self) -> Option<Export> {
        self.iter().next()
    }

    pub(crate) fn last(&self) -> Option<Export> {
        self.iter().last()
    }

    /// Where the tokens of a step are: their ends, the one before them first.
    pub(crate) fn find(&self, step: u64, written_tokens: u64) -> Option<(u64, u64)> {
        let mut from_tokens = written_tokens;
        for export in self.iter() {
            if export.step == step {
                return Some((from_tokens, export.to_tokens));
            }
            from_tokens = export.to_tokens;
        }
        None
    }

    /// Appends; a step that is the last one already writes on. The caller made sure that there is room.
    pub(crate) fn push(&self, export: Export) {
        let count = self.count();
        let at = if self.last().is_some_and(|last| last.step == export.step) { count - 1 } else { count };
        let Some((step, to_tokens)) = self.entries.get(at) else { return };
        step.store(export.step, Ordering::Relaxed);
        to_tokens.store(export.to_tokens, Ordering::Relaxed);
        self.count.store(at as u32 + 1, Ordering::Relaxed);
    }

    /// Removes the first.
    pub(crate) fn pop_first(&self) {
        let count = self.count();
        for at in 1..count {
            let (from, to) = (&self.entries[at], &self.entries[at - 1]);
            to.0.store(from.0.load(Ordering::Relaxed), Ordering::Relaxed);
            to.1.store(from.1.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.truncate(count.saturating_sub(1));
    }

    /// Forgets all.
    #[inline]
    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    /// Keeps the first `count`.
    pub(crate) fn truncate(&self, count: usize) {
        self.count.store(count.min(self.count()) as u32, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_chain_in_the_order_of_their_tokens() {
        let exports = Exports::default();
        for step in 1..=MAX_EXPORTS as u64 {
            exports.push(Export { step, to_tokens: 10 + step });
        }
        exports.push(Export { step: 4, to_tokens: 20 });
        assert_eq!((exports.count(), exports.find(1, 10), exports.find(4, 10)), (4, Some((10, 11)), Some((13, 20))));
        exports.push(Export { step: 5, to_tokens: 30 });
        assert_eq!((exports.count(), exports.find(5, 10)), (4, None), "no fifth step");
        exports.pop_first();
        assert_eq!((exports.first(), exports.count()), (Some(Export { step: 2, to_tokens: 12 }), 3));
        exports.truncate(1);
        assert_eq!(exports.last(), exports.first());
    }

    // C7
    #[test]
    fn the_128_bit_form_of_a_step_keeps_every_field_and_refuses_what_is_none() {
        let identity = crate::id::next_pool_identity().expect("ids are left");
        let id = StepId { identity, sequence: NonZeroU64::MAX };
        assert_eq!(StepId::from_bits(id.to_bits()), Some(id));
        assert_eq!(StepId::from_bits(id.to_bits() >> 64 << 64), None, "sequence 0");
        assert_eq!(StepId::from_bits(id.to_bits() | 1 << 120), None, "a bit that means nothing");
    }
}
