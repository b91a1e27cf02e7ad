//! The registry of tickets, and the move of a pinned page.
//!
//! *Owns* the count of tickets in each stamp. Counts come from the registry alone: a second end of a ticket is an error
//! and changes nothing, nothing is clamped.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use super::admit::Gathered;
use super::release::Parting;
use super::{Inner, PagePool, State, StateGuard};
use crate::error::{ReadError, ReleaseError, TicketError, WriteError};
use crate::handle::PageHandle;
use crate::hazard;
use crate::id::OwnerId;
use crate::lease::{Core, Lease};
use crate::memory::{HolderProcess, PageMemory};
use crate::stamp::{OffLimits, PageState};
use crate::sync::Ordering;
use crate::ticket::{Access, HolderId, Ticket, TicketId, TicketInfo};

impl<M: PageMemory> PagePool<M> {
    /// Lets an outside party read pages by handle until its ticket ends. [`ticket_done`](Self::ticket_done) shows a
    /// ticket's life.
    ///
    /// # Errors
    ///
    /// Nothing was pinned.
    ///
    /// - [`ReleaseError::Handle`] names the first handle that is stale, foreign, out of range, being written
    ///   ([`ReadError::Busy`], also when 65,534 tickets and further holders are on the page), or of a page of which nothing is written
    ///   ([`ReadError::Unwritten`]): what a handoff fills is nobody's to read before it is accepted.
    /// - [`ReleaseError::Twice`]: a page stands in the list twice.
    /// - [`ReleaseError::Empty`]: the list names no page.
    pub fn pin(
        &self,
        owner: OwnerId,
        handles: &[PageHandle<M>],
        holder: HolderId,
        deadline_ns: Option<u64>,
    ) -> Result<TicketId, ReleaseError> {
        if handles.is_empty() {
            return Err(ReleaseError::Empty);
        }
        super::release::find_twice(handles)?;
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        if !state.pending.is_empty() {
            inner.poll_fences(&mut state);
        }
        for (position, handle) in handles.iter().enumerate() {
            let at = |source| ReleaseError::Handle { position, source };
            let page = inner.check_owned(owner, handle).map_err(at)?;
            let word = inner.meta(page).word();
            if let Some(why) = word.off_limits() {
                return Err(at(ReadError::off_limits(page, why)));
            }
            // What the engine keeps in its own arrays it writes without telling.
            if inner.meta(page).extent().written() == 0 && !word.is_detached() {
                return Err(at(ReadError::Unwritten { to_tokens: 1, written_tokens: 0 }));
            }
            if !inner.has_room(page) {
                return Err(at(ReadError::Busy { page }));
            }
        }
        let pages: Vec<u32> = handles.iter().map(PageHandle::index).collect();
        Ok(inner.open_ticket(&mut state, pages, Access::Read, holder, deadline_ns, None))
    }

    pub(crate) fn end_ticket(&self, id: TicketId) -> Result<(), TicketError> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        inner.find_ticket(&mut state, id)?;
        let ticket = state.tickets.remove(&id.sequence);
        state.totals.trusted_ends += 1;
        if let Some(ticket) = &ticket {
            inner.close_ticket(&mut state, ticket);
        }
        inner.look_after_holds(&mut state);
        // A named process is closed with its ticket, which is a call into the system.
        drop(state);
        Ok(())
    }

    pub(crate) fn set_holder(&self, id: TicketId, process: HolderProcess) -> Result<(), TicketError> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let named = &mut inner.find_ticket(&mut state, id)?.process;
        if let Some(named) = named {
            return Err(TicketError::HolderNamed { ticket: id, process_id: named.process_id() });
        }
        *named = Some(process);
        Ok(())
    }

    /// Ends a ticket whose named process has ended. Safe: the kernel is asked, and nobody is believed. What becomes of the
    /// pages is as after [`ticket_done`](Self::ticket_done).
    ///
    /// # Cost
    ///
    /// One system call, outside the lock; two locks.
    ///
    /// # Errors
    ///
    /// Nothing changed.
    ///
    /// - [`TicketError::HolderAlive`]: the process has not ended. However late it is, its pages stay.
    /// - [`TicketError::HolderUnnamed`]: no process was named for the ticket.
    /// - [`TicketError::AlreadyDone`], [`TicketError::Unknown`]: counted in `stats`.
    ///
    /// # Examples
    ///
    /// [`name_holder`](Self::name_holder) shows it.
    pub fn end_dead_holder(&self, id: TicketId) -> Result<(), TicketError> {
        let process = {
            let mut state = self.inner.state.lock();
            self.inner.find_ticket(&mut state, id)?.process.clone().ok_or(TicketError::HolderUnnamed(id))?
        };
        if !process.has_ended() {
            return Err(TicketError::HolderAlive { ticket: id, process_id: process.process_id() });
        }
        if self.end_proven(&[id.sequence]) > 0 {
            return Ok(());
        }
        // Somebody else ended it while the kernel was asked.
        self.inner.find_ticket(&mut self.inner.state.lock(), id).map(drop)
    }

    /// Ends every ticket whose named process has ended, and answers how many: for a maintenance loop. What becomes of the
    /// pages is as after [`ticket_done`](Self::ticket_done).
    ///
    /// # Cost
    ///
    /// O(open tickets + their pages). One system call for each named process, outside the lock; two locks.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn end_dead_holders(&self) -> u64 {
        let named: Vec<(NonZeroU64, HolderProcess)> = {
            let state = self.inner.state.lock();
            let named = state.tickets.iter();
            named.filter_map(|(&sequence, ticket)| Some((sequence, ticket.process.clone()?))).collect()
        };
        let mut answers = HashMap::new();
        let mut has_ended =
            |process: &HolderProcess| *answers.entry(process.key()).or_insert_with(|| process.has_ended());
        let dead: Vec<NonZeroU64> =
            named.iter().filter(|(_, process)| has_ended(process)).map(|(sequence, _)| *sequence).collect();
        self.end_proven(&dead)
    }

    /// Ends those of the tickets that are still open. Their processes have ended, and a ticket's process never changes. The
    /// caller keeps the processes, so that none is closed under the lock.
    fn end_proven(&self, dead: &[NonZeroU64]) -> u64 {
        if dead.is_empty() {
            return 0;
        }
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let mut ended = 0;
        for sequence in dead {
            if let Some(ticket) = state.tickets.remove(sequence) {
                inner.close_ticket(&mut state, &ticket);
                ended += 1;
            }
        }
        state.totals.proven_ends += ended;
        inner.look_after_holds(&mut state);
        ended
    }

    /// Says whether a ticket is open. False for one that this pool never gave, and not counted.
    #[must_use]
    pub fn ticket_is_open(&self, id: TicketId) -> bool {
        id.identity == self.inner.identity && self.inner.state.lock().tickets.contains_key(&id.sequence)
    }

    /// Shows the open tickets, oldest first.
    #[must_use]
    pub fn tickets(&self) -> Vec<TicketInfo> {
        let state = self.inner.state.lock();
        let identity = self.inner.identity;
        let show = |(&sequence, ticket): (&NonZeroU64, &Ticket)| TicketInfo {
            id: TicketId { identity, sequence },
            holder: ticket.holder,
            access: ticket.access,
            pages: ticket.pages.len() as u32,
            deadline_ns: ticket.deadline_ns,
            process_id: ticket.process.as_ref().map(HolderProcess::process_id),
        };
        state.tickets.iter().map(show).collect()
    }

    /// Shows the open tickets whose deadline has passed, oldest first. They stay open: time frees no page.
    #[must_use]
    pub fn overdue_tickets(&self, now_ns: u64) -> Vec<TicketInfo> {
        let mut overdue = self.tickets();
        overdue.retain(|ticket| ticket.deadline_ns.is_some_and(|deadline| deadline <= now_ns));
        overdue
    }
}

/// Pages that move to fresh ones: ordinal, first token rewritten, page.
type Moves = Vec<(u32, u32, u32)>;

/// Pages that are being filled before anybody has them. Dropped with pages in it, by an error or a panic of the memory, it
/// lets these go again, to be zeroed.
struct Fresh<'a, M: PageMemory> {
    inner: &'a Inner<M>,
    state: &'a mut State,
    pages: Vec<u32>,
}

impl<M: PageMemory> Fresh<'_, M> {
    /// All are filled: they are somebody's from now on.
    fn keep(mut self) -> Vec<u32> {
        std::mem::take(&mut self.pages)
    }
}

impl<M: PageMemory> Drop for Fresh<'_, M> {
    fn drop(&mut self) {
        let Self { inner, state, pages } = self;
        if !pages.is_empty() {
            let leaving = inner.let_go(state, pages.drain(..), Parting::FOR_GOOD);
            inner.put_off(state, leaving.batch);
        }
    }
}

impl<M: PageMemory> Inner<M> {
    /// Finds an open ticket. Counts the call when there is none.
    fn find_ticket<'a>(&self, state: &'a mut State, id: TicketId) -> Result<&'a mut Ticket, TicketError> {
        let ours = id.identity == self.identity;
        match state.tickets.get_mut(&id.sequence).filter(|_| ours) {
            Some(ticket) => Ok(ticket),
            None => {
                state.totals.late_tickets += 1;
                let given = ours && id.sequence < state.next_ticket;
                Err(if given { TicketError::AlreadyDone(id) } else { TicketError::Unknown(id) })
            }
        }
    }

    /// Lets go of the pages of a ticket that was taken out of the registry.
    fn close_ticket(&self, state: &mut State, ticket: &Ticket) {
        // The last page of a prefix first: it counts as the oldest.
        for page in ticket.pages.iter().rev() {
            self.unhold(state, *page);
        }
        if let Some(core) = &ticket.core {
            // Release: readers of the reservation that see fewer tickets are behind the writer's end.
            core.off_limits.fetch_sub(1, Ordering::Release);
        }
    }

    /// Ends a ticket on a page, or the borrow of a revoked reservation.
    pub(super) fn unhold(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        let word = meta.word();
        let word = word.unheld().unwrap_or(word);
        // Write tickets share a page with nothing else, so the last hold to end is the last writer's.
        let writing = word.is_writing() && word.holds() > 0;
        meta.publish(word.with_writing(writing));
        if word.state() == PageState::Cached
            && word.holds() == 0
            && let Some(owner) = meta.owner()
        {
            state.index.unpin(page, owner);
        }
    }

    fn open_ticket(
        &self,
        state: &mut State,
        pages: Vec<u32>,
        access: Access,
        holder: HolderId,
        deadline_ns: Option<u64>,
        core: Option<Arc<Core>>,
    ) -> TicketId {
        for page in &pages {
            let meta = self.meta(*page);
            let word = meta.word();
            meta.publish(word.held().unwrap_or(word));
        }
        let sequence = state.next_ticket;
        state.next_ticket = sequence.saturating_add(1);
        state.tickets.insert(sequence, Ticket { holder, access, pages, deadline_ns, process: None, core });
        TicketId { identity: self.identity, sequence }
    }

    /// Opens a ticket on pages of a reservation.
    pub(crate) fn pin(
        &self,
        lease: &Lease<M>,
        ordinals: Range<u32>,
        access: Access,
        holder: HolderId,
        deadline_ns: Option<u64>,
    ) -> Result<TicketId, TicketError> {
        let core = lease.core();
        if ordinals.is_empty() {
            return Err(TicketError::Empty);
        }
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(TicketError::Revoked);
        }
        if ordinals.end > core.pages.len() {
            let (to_pages, pages) = (u64::from(ordinals.end), u64::from(core.pages.len()));
            return Err(TicketError::OutOfRange { to_pages, pages });
        }
        if ordinals.start < core.pages.first() {
            return Err(TicketError::Slid { from_pages: ordinals.start, first_pages: core.pages.first() });
        }
        let pages: Vec<u32> = ordinals.filter_map(|ordinal| core.pages.get(ordinal)).collect();
        if !state.pending.is_empty() {
            self.poll_fences(&mut state);
        }
        self.check_pinnable(&mut state, &pages, access)?;
        if access == Access::Read {
            return Ok(self.open_ticket(&mut state, pages, access, holder, deadline_ns, None));
        }
        for page in &pages {
            let meta = self.meta(*page);
            meta.set_extent(meta.extent().whole());
        }
        let shared = state.records.get(core.key).map(|record| Arc::clone(&record.core));
        core.off_limits.fetch_add(1, Ordering::Release);
        Ok(self.open_ticket(&mut state, pages, access, holder, deadline_ns, shared))
    }

    /// Checks that all pages may be pinned; for a writer also hides them from readers, or none of them.
    fn check_pinnable(&self, state: &mut State, pages: &[u32], access: Access) -> Result<(), TicketError> {
        for page in pages.iter().copied() {
            let word = self.meta(page).word();
            match (word.off_limits(), access) {
                (None, Access::Write) if word.holds() > 0 => return Err(TicketError::Busy { page }),
                (None, _) | (Some(OffLimits::Writing), Access::Write) => {}
                (Some(why), _) => return Err(TicketError::off_limits(page, why)),
            }
            if access == Access::Read && self.meta(page).extent().written() == 0 {
                return Err(TicketError::Unwritten { page });
            }
            if access == Access::Write && word.is_kept() {
                return Err(TicketError::Shared { page });
            }
            if !self.has_room(page) {
                return Err(TicketError::TooMany { page });
            }
        }
        if access == Access::Read {
            return Ok(());
        }
        let hidden: Vec<u32> = pages.iter().copied().filter(|page| !self.meta(*page).word().is_writing()).collect();
        hidden.iter().for_each(|page| self.set_writing(*page, true));
        // After the stamps, as in a release: a reader that is not announced now will see the flag.
        hazard::pages_announced(self.identity.pool, &mut state.announced);
        match hidden.iter().find(|page| state.announced.contains(page)) {
            None => Ok(()),
            Some(page) => {
                hidden.iter().for_each(|page| self.set_writing(*page, false));
                Err(TicketError::Busy { page: *page })
            }
        }
    }

    fn set_writing(&self, page: u32, on: bool) {
        let meta = self.meta(page);
        meta.publish(meta.word().with_writing(on));
    }

    /// Makes sure that no reader and no other holder sees tokens that are about to be rewritten: of each page of the list, by
    /// ordinal, those from the second number on. Pages that are read, shared or published move to fresh ones, all of them or
    /// none. Where there is no room for that, a published page that nobody else holds or reads is published no more.
    pub(crate) fn keep_readers_off(
        &self,
        core: &Core,
        rewritten: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Result<(), WriteError> {
        let (mut state, mut moves) = self.room_to_move(core, &rewritten)?;
        if self.fresh_room(&state, core) < moves.len() as u64 {
            self.unpublish_own(&mut state, core, &mut moves);
        }
        let Some(&(_, _, page)) = moves.first() else { return Ok(()) };
        let (needed_pages, free_pages) = (moves.len() as u64, self.fresh_room(&state, core));
        if free_pages < needed_pages {
            return Err(WriteError::NoFreshPage { page, needed_pages, free_pages });
        }
        self.move_away(state, core, &moves)
    }

    /// Finds what has to move, and looks for room for it as long as there is hope. On success the lock is still held.
    fn room_to_move(
        &self,
        core: &Core,
        rewritten: &(impl Iterator<Item = (u32, u32)> + Clone),
    ) -> Result<(StateGuard<'_>, Moves), WriteError> {
        let mut state = self.state.lock();
        let mut is_hopeless = false;
        loop {
            let owner = state.records.get(core.key).filter(|_| !core.header.is_revoked()).map(|record| record.owner);
            let owner = owner.ok_or(WriteError::Revoked)?;
            // Each time anew: while the lock was free readers may have come and gone.
            let moves = self.pages_being_read(&mut state, core, rewritten.clone());
            let needed = moves.len() as u64;
            if is_hopeless || state.unpromised() >= needed {
                return Ok((state, moves));
            }
            (state, is_hopeless) = match self.gather(state, owner, needed) {
                Gathered::Some(state) => (state, false),
                Gathered::Nothing(state) => (state, true),
            };
        }
    }

    /// Finds the pages of the list that a reader is on, or that are kept.
    fn pages_being_read(
        &self,
        state: &mut State,
        core: &Core,
        rewritten: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Moves {
        let page_of = |(ordinal, from)| core.pages.get(ordinal).map(|page| (ordinal, from, page));
        // Before the hazards: a reader that is not announced then will see the lower extent.
        rewritten.clone().filter_map(page_of).for_each(|(_, from, page)| self.lower_extent(page, from));
        hazard::pages_announced(self.identity.pool, &mut state.announced);
        rewritten.filter_map(page_of).filter(|(_, _, page)| self.must_move(state, *page)).collect()
    }

    /// Says whether somebody else sees a page: a reader, a ticket, another holder, a lookup.
    fn must_move(&self, state: &State, page: u32) -> bool {
        let word = self.meta(page).word();
        word.holds() > 0 || word.is_kept() || state.announced.contains(&page)
    }

    /// Fresh pages that a reservation may move to: free ones, within its owner's quota.
    fn fresh_room(&self, state: &State, core: &Core) -> u64 {
        let owner = state.records.get(core.key).map(|record| record.owner);
        state.unpromised().min(owner.map_or(0, |owner| state.quota_room(owner)))
    }

    /// Hides tokens of a page that has one holder, who rolled back behind them while it had others.
    fn lower_extent(&self, page: u32, from: u32) {
        let meta = self.meta(page);
        if !meta.word().is_kept() && meta.extent().written() > from {
            meta.set_extent(meta.extent().with_written(from));
        }
    }

    /// Takes published pages that nobody else holds out of the index, so that they can be rewritten where they are; if then
    /// there is room for the rest.
    fn unpublish_own(&self, state: &mut State, core: &Core, moves: &mut Moves) {
        let is_ours = |page: u32| {
            let (meta, word) = (self.meta(page), self.meta(page).word());
            word.is_kept() && meta.sharers() == 0 && word.holds() == 0 && !state.announced.contains(&page)
        };
        let (ours, others): (Vec<_>, Vec<_>) = moves.iter().partition(|(_, _, page)| is_ours(*page));
        if self.fresh_room(state, core) < others.len() as u64 {
            return;
        }
        for (_, from, page) in ours {
            self.unpublish(state, page);
            self.lower_extent(page, from);
        }
        // Somebody may have begun to read before the extents were lowered.
        hazard::pages_announced(self.identity.pool, &mut state.announced);
        moves.retain(|(_, _, page)| self.must_move(state, *page));
    }

    /// Moves pages to fresh ones, with the tokens that are kept; the caller made sure that enough are free.
    fn move_away(&self, mut state: StateGuard<'_>, core: &Core, moves: &[(u32, u32, u32)]) -> Result<(), WriteError> {
        let owner = state.records.get(core.key).map(|record| record.owner).ok_or(WriteError::Revoked)?;
        let pages = state.free.top(moves.len()).to_vec();
        state.free.drop_top(moves.len());
        state.live += pages.len() as u64;
        state.count_in(owner, pages.len() as u64);
        state.totals.pages_issued += pages.len() as u64;
        for (&(_, from, _), &fresh) in moves.iter().zip(&pages) {
            let meta = self.meta(fresh);
            let generation = meta.issue(owner);
            if M::MIRRORS_STAMPS {
                self.memory.issued(fresh, generation, owner);
            }
            meta.set_extent(meta.extent().with_high(from));
        }
        let fresh = Fresh { inner: self, state: &mut state, pages };
        for (&(_, from, page), &fresh) in moves.iter().zip(&fresh.pages) {
            self.copy_prefix(page, fresh, from)?;
        }
        let fresh = fresh.keep();
        for (&(ordinal, from, _), &fresh) in moves.iter().zip(&fresh) {
            let meta = self.meta(fresh);
            meta.set_extent(meta.extent().with_written(from));
            core.pages.set(ordinal, fresh);
        }
        state.totals.pages_moved += fresh.len() as u64;
        let leaving = self.let_go(&mut state, moves.iter().map(|(_, _, page)| *page), Parting::CACHING);
        self.finish_leaving(state, leaving);
        Ok(())
    }

    /// Gives back the pages of a reservation past `tokens`; `None` when it was revoked.
    pub(crate) fn shrink(&self, lease: &Lease<M>, tokens: u64) -> Option<super::Released> {
        let core = lease.core();
        let keep = self.memory.geometry().pages_for_tokens(tokens) as u32;
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return None;
        }
        self.forget_promise(&mut state, lease.key());
        let borrowed = core.header.borrows() > 0;
        if borrowed {
            // Only a forgotten guard can borrow here; which pages it looks at is not known, so all stay.
            self.park_surplus(&mut state);
            return Some(super::Released::default());
        }
        let leaving = self.let_go_of_list(&mut state, core, keep, Parting::CACHING);
        core.pages.truncate(keep);
        Some(self.finish_leaving(state, leaving))
    }

    /// Lets go of the pages of a reservation before ordinal `first`; `None` when it was revoked.
    pub(crate) fn slide(&self, lease: &Lease<M>, first: u32) -> Option<super::Released> {
        let core = lease.core();
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return None;
        }
        if core.header.borrows() > 0 {
            // As in `shrink`: which pages a forgotten guard looks at is not known.
            return Some(super::Released::default());
        }
        let leaving: Vec<u32> = (core.pages.first()..first).filter_map(|ordinal| core.pages.get(ordinal)).collect();
        let leaving = self.let_go(&mut state, leaving.into_iter(), Parting::CACHING);
        core.pages.drop_below(first);
        Some(self.finish_leaving(state, leaving))
    }

    /// Takes pages out of a reservation into the engine's own arrays.
    pub(crate) fn detach(&self, lease: &Lease<M>) -> Result<Vec<PageHandle<M>>, TicketError> {
        let core = lease.core();
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(TicketError::Revoked);
        }
        let mut handles = Vec::with_capacity(core.pages.len() as usize);
        let mut busy = None;
        core.pages.for_each_from(0, |page| {
            let word = self.meta(page).word();
            debug_assert_eq!(word.state(), PageState::Live);
            if word.is_writing() || core.header.borrows() > 0 {
                busy.get_or_insert(TicketError::Busy { page });
            } else if word.is_kept() {
                busy.get_or_insert(TicketError::Shared { page });
            }
            handles.push(self.handle_of(page));
        });
        if let Some(busy) = busy {
            return Err(busy);
        }
        core.pages.for_each_from(0, |page| {
            let meta = self.meta(page);
            meta.publish(meta.word().with_detached(true));
            meta.set_extent(meta.extent().whole());
        });
        state.detached += handles.len() as u64;
        core.pages.truncate(0);
        if let Some(core) = state.records.get(core.key).map(|record| Arc::clone(&record.core)) {
            state.close_record(core);
        }
        self.park_surplus(&mut state);
        Ok(handles)
    }
}
