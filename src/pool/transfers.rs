//! The registry of handoffs that are open.
//!
//! *Owns* which reservation is one end of which handoff, since when, and who is late. An entry ends with what the reservation
//! is: released, revoked, accepted. Time ends nothing.

use std::num::NonZeroU64;

use super::{Inner, PagePool, RecordKey, State};
use crate::error::TransferError;
use crate::id::TransferId;
use crate::lease::Lease;
use crate::memory::PageMemory;
use crate::reservation::Reservation;
use crate::transfer::{MAX_SERVED, Serving, Side, Transfer, TransferInfo};

impl<M: PageMemory> PagePool<M> {
    /// Shows the open handoffs of the pool, both ends, oldest first. One whose value was forgotten is shown until its owner is
    /// reclaimed.
    ///
    /// # Cost
    ///
    /// O(handoffs), one lock.
    #[must_use]
    pub fn transfers(&self) -> Vec<TransferInfo> {
        let state = self.inner.state.lock();
        state.transfers.iter().filter_map(|(sequence, open)| self.inner.show(&state, *sequence, open)).collect()
    }

    /// Shows the open handoffs whose deadline has passed, oldest first. They stay open: time frees no page.
    #[must_use]
    pub fn overdue_transfers(&self, now_ns: u64) -> Vec<TransferInfo> {
        let mut overdue = self.transfers();
        overdue.retain(|transfer| transfer.deadline_ns.is_some_and(|deadline| deadline <= now_ns));
        overdue
    }

    /// Finds the handoff that a message is about: one that this pool receives, or the sender that serves one of another pool.
    ///
    /// A message that is late, or about nothing, is an answer and not a fault: whoever gets one drops it.
    ///
    /// # Cost
    ///
    /// O(log handoffs), one lock.
    ///
    /// # Errors
    ///
    /// Counted in `stats`.
    ///
    /// - [`TransferError::Over`]: this pool gave the number, and the handoff has ended.
    /// - [`TransferError::Unknown`]: nobody here serves it.
    pub fn transfer(&self, id: TransferId) -> Result<TransferInfo, TransferError> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let ours = id.identity() == inner.identity;
        let number = if ours { Some(id.number()) } else { state.served.get(&id.to_bits()).copied() };
        let found = number.and_then(|number| Some((number, state.transfers.get(&number)?)));
        if let Some(info) = found.and_then(|(number, open)| inner.show(&state, number, open)) {
            return Ok(info);
        }
        state.totals.late_transfers += 1;
        let given = ours && id.number() < state.next_transfer;
        Err(if given { TransferError::Over(id) } else { TransferError::Unknown(id) })
    }
}

impl<M: PageMemory> Inner<M> {
    fn show(&self, state: &State, sequence: NonZeroU64, open: &Transfer) -> Option<TransferInfo> {
        let record = state.records.get(open.key)?;
        Some(TransferInfo {
            id: TransferId::new(self.identity, sequence),
            side: open.side,
            owner: record.owner,
            pages: record.core.pages.len(),
            serves: open.serves.clone(),
            begun_ns: open.begun_ns,
            deadline_ns: open.deadline_ns,
        })
    }

    /// Makes a reservation one end of a new handoff; `None` when it was revoked.
    pub(crate) fn open_transfer(&self, lease: &Lease<M>, side: Side) -> Option<TransferId> {
        let mut state = self.state.lock();
        if lease.core().header.is_revoked() {
            return None;
        }
        let key = lease.key();
        state.end_transfer(key);
        let sequence = state.next_transfer;
        // 2^64 of them outlive any process.
        state.next_transfer = sequence.saturating_add(1);
        state.records.get_mut(key)?.transfer = Some(sequence);
        let open = Transfer { key, side, serves: Vec::new(), begun_ns: None, deadline_ns: None };
        state.transfers.insert(sequence, open);
        Some(TransferId::new(self.identity, sequence))
    }

    /// Notes that a sender serves a transfer of a receiver, if it may.
    pub(crate) fn serve_transfer(&self, key: RecordKey, id: TransferId) -> Serving {
        let mut state = self.state.lock();
        let Some(number) = state.records.get(key).and_then(|record| record.transfer) else { return Serving::Now };
        if let Some(serving) = state.served.get(&id.to_bits()) {
            return if *serving == number { Serving::Now } else { Serving::Elsewhere };
        }
        if state.transfers.get(&number).is_some_and(|open| open.serves.len() >= MAX_SERVED) {
            return Serving::TooMany;
        }
        state.served.insert(id.to_bits(), number);
        if let Some(open) = state.transfers.get_mut(&number) {
            open.serves.push(id);
        }
        Serving::Now
    }

    pub(crate) fn set_transfer_deadline(&self, key: RecordKey, begun_ns: u64, deadline_ns: u64) {
        let mut state = self.state.lock();
        if let Some(open) = state.transfer_of(key) {
            (open.begun_ns, open.deadline_ns) = (Some(begun_ns), Some(deadline_ns));
        }
    }

    pub(crate) fn end_transfer(&self, key: RecordKey) {
        self.state.lock().end_transfer(key);
    }
}

/// A reservation as one end of a handoff.
impl<M: PageMemory> Reservation<M> {
    /// Makes this one end of a new handoff; `None` when revoked.
    pub(crate) fn open_transfer(&self, side: Side) -> Option<TransferId> {
        self.pool().inner.open_transfer(self.lease(), side)
    }

    /// Notes that a sender serves the transfer of a receiver, if it may.
    pub(crate) fn serve_transfer(&self, id: TransferId) -> Serving {
        self.pool().inner.serve_transfer(self.lease().key(), id)
    }

    pub(crate) fn set_transfer_deadline(&self, begun_ns: u64, deadline_ns: u64) {
        self.pool().inner.set_transfer_deadline(self.lease().key(), begun_ns, deadline_ns);
    }

    /// Goes on as a reservation like any other.
    pub(crate) fn end_transfer(self) -> Self {
        self.pool().inner.end_transfer(self.lease().key());
        self
    }
}

impl State {
    fn transfer_of(&mut self, key: RecordKey) -> Option<&mut Transfer> {
        let sequence = self.records.get(key)?.transfer?;
        self.transfers.get_mut(&sequence)
    }

    /// Ends the handoff that a record is an end of, if it is one.
    #[inline]
    pub(crate) fn end_transfer(&mut self, key: RecordKey) {
        let sequence = self.records.get_mut(key).and_then(|record| record.transfer.take());
        if let Some(ended) = sequence.and_then(|sequence| self.transfers.remove(&sequence)) {
            for id in &ended.serves {
                self.served.remove(&id.to_bits());
            }
        }
    }
}
