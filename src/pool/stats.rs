//! Numbers about the pool, each exact when taken.

use std::collections::HashSet;

use super::PagePool;
use crate::memory::PageMemory;
use crate::sync::Ordering;
use crate::transfer::Side;

/// Pages by state, overlays, and events since the pool was made.
///
/// `free + live + cached + quarantined + cleaning + parked + retired + reserved` is the number of pages of the memory.
/// Promised and pinned pages are overlays: they are counted in one of these already.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PoolStats {
    /// Zero, and nobody's.
    pub free_pages: u64,
    /// Held by owners.
    pub live_pages: u64,
    /// Reclaimable prefixes.
    pub cached_pages: u64,
    /// Released, held by a guard, a borrow, a ticket or an open step.
    pub quarantined_pages: u64,
    /// Released, being zeroed or waiting for it.
    pub cleaning_pages: u64,
    /// Out of circulation by a resize.
    pub parked_pages: u64,
    /// Out of circulation for good.
    pub retired_pages: u64,
    /// The pool's own (null, sink).
    pub reserved_pages: u64,
    /// Overlay: free pages that admissions and reservations hold for growth.
    pub promised_pages: u64,
    /// Overlay: pages, live or quarantined, that open tickets name.
    pub pinned_pages: u64,
    /// Overlay: live pages that the engine keeps in its own arrays.
    pub detached_pages: u64,
    /// Overlay: quarantined pages that wait for open steps.
    pub step_pages: u64,
    /// Pages behind device fences: a part of `cleaning_pages`, and live pages that a lane waits for.
    pub fenced_pages: u64,
    /// Pages that requests can use.
    pub usable_pages: u64,
    /// The capacity epoch.
    pub epoch: u64,
    /// Reservations and admissions that exist. Revoked ones count until they are dropped, or until their last borrow ends.
    pub reservations: u64,
    /// Open tickets.
    pub tickets: u64,
    /// Open steps.
    pub steps: u64,
    /// Those who wait for room by `on_room`.
    pub room_waiters: u64,
    /// Open handoffs that this pool receives.
    pub inbound_transfers: u64,
    /// Open handoffs that this pool sends.
    pub outbound_transfers: u64,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests that had to wait.
    pub full: u64,
    /// Requests rejected for good.
    pub rejected: u64,
    /// Pages handed out.
    pub pages_issued: u64,
    /// Pages that left their owner.
    pub pages_released: u64,
    /// Pages zeroed.
    pub pages_cleaned: u64,
    /// Bytes whose zeroing was begun; on a device it may still run, or fail (see `poisoned_pages`).
    pub bytes_zeroed: u64,
    /// Times that the memory refused to clean, or panicked.
    pub clean_errors: u64,
    /// Pages retired because they could not be zeroed.
    pub poisoned_pages: u64,
    /// Pages moved because their tokens were rewritten while they were read, shared or published.
    pub moved_pages: u64,
    /// Overlay: pages that a lookup finds, live or cached.
    pub published_pages: u64,
    /// Pages that lookups found.
    pub hit_pages: u64,
    /// Cached pages that went because their room was needed.
    pub evicted_pages: u64,
    /// Calls for tickets that had ended, or that never were.
    pub late_tickets: u64,
    /// Messages about handoffs that had ended, or that never were.
    pub late_transfers: u64,
    /// Ends of tickets taken on trust.
    pub trusted_ticket_ends: u64,
    /// Ends of tickets whose process had ended, as the kernel said.
    pub proven_ticket_ends: u64,
    /// Ends of steps, taken on trust.
    pub trusted_step_ends: u64,
    /// Lost steps that were revoked, on trust.
    pub revoked_steps: u64,
    /// Calls for steps that had ended, or that never were.
    pub late_steps: u64,
    /// Callbacks of `on_room` that panicked.
    pub callback_panics: u64,
    /// Whether raw addresses were given out for writing by `expose`. What is written under a ticket is not among it.
    pub addresses_exposed: bool,
    /// Tokens that `assume_written` took on trust.
    pub assumed_tokens: u64,
    /// Reads by handle that were refused.
    pub refused_reads: u64,
}

impl<M: PageMemory> PagePool<M> {
    /// Counts.
    ///
    /// # Cost
    ///
    /// O(open fences + open handoffs + pages that open tickets name), one lock.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let inner = &*self.inner;
        let state = inner.state.lock();
        let totals = state.totals;
        let fenced: usize = state.fenced.iter().map(|f| f.pages.len()).sum();
        let pending: usize = state.pending.iter().map(|p| p.pages.len()).sum();
        let pinned: HashSet<u32> = state.tickets.values().flat_map(|ticket| &ticket.pages).copied().collect();
        let inbound_transfers = state.transfers.values().filter(|open| open.side == Side::Receiver).count() as u64;
        PoolStats {
            free_pages: state.free.len() as u64,
            live_pages: state.live,
            cached_pages: state.index.cached(),
            quarantined_pages: state.in_quarantine(),
            cleaning_pages: state.cleaning(),
            parked_pages: state.parked.len() as u64,
            retired_pages: state.retired,
            reserved_pages: u64::from(inner.config.own_page_count()),
            promised_pages: state.promised,
            pinned_pages: pinned.len() as u64,
            detached_pages: state.detached,
            step_pages: state.steps.pages(),
            fenced_pages: (fenced + pending) as u64,
            usable_pages: inner.usable(&state),
            epoch: state.epoch,
            reservations: (state.records.len() - state.idle.len()) as u64,
            tickets: state.tickets.len() as u64,
            steps: state.steps.open(),
            room_waiters: state.waiting.len(),
            inbound_transfers,
            outbound_transfers: state.transfers.len() as u64 - inbound_transfers,
            admitted: totals.admitted,
            full: totals.full,
            rejected: totals.rejected,
            pages_issued: totals.pages_issued,
            pages_released: totals.pages_released,
            pages_cleaned: totals.pages_cleaned,
            bytes_zeroed: totals.bytes_zeroed,
            clean_errors: totals.clean_errors,
            poisoned_pages: totals.poisoned,
            moved_pages: totals.pages_moved,
            published_pages: state.index.len() as u64,
            hit_pages: totals.hit_pages,
            evicted_pages: totals.evicted,
            late_tickets: totals.late_tickets,
            late_transfers: totals.late_transfers,
            trusted_ticket_ends: totals.trusted_ends,
            proven_ticket_ends: totals.proven_ends,
            trusted_step_ends: totals.step_ends,
            revoked_steps: totals.revoked_steps,
            late_steps: totals.late_steps,
            callback_panics: totals.callback_panics,
            addresses_exposed: inner.exposed.load(Ordering::Relaxed),
            assumed_tokens: totals.assumed_tokens,
            refused_reads: inner.refused_reads.load(Ordering::Relaxed),
        }
    }
}
