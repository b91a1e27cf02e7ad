//! A pool as small as the protocols allow, on the real stamps, extents, hazards and orders.
//!
//! *Owns* the steps that `src/pool/` and `src/access/` take around those words, repeated here by hand because those
//! files need a whole memory: each function names its original, and `build.rs` stops when that changes its steps. *Does
//! not know* what a model wants to show.
//!
//! The pool's one lock is a loom mutex. Where the order of steps is what can be wrong, the wrong order is here too, behind
//! a [`Plant`].

use std::sync::Arc;

use loom::sync::{Mutex, MutexGuard};

use crate::bytes::Token;
use crate::hazard::{Block, Domain, Hazard, key};
use crate::header::{Header, Revocation};
use crate::id::{Generation, OwnerId};
use crate::stamp::{Extent, PageMeta, PageState, StampWord};
use crate::sync::{AtomicU32, Ordering};

/// Tokens of a page.
pub(crate) const TOKENS: u32 = 2;
const POOL: u32 = 7;

/// A wrong order of steps, or a step left out. Each must be caught by the model that `main.rs` pairs it with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    Sound,
    CheckThenRead,
    CheckThenAnnounce,
    OwnerNotCompared,
    ReleaseIgnoresReaders,
    ScanBeforePublish,
    BumpAfterZero,
    FreeBeforeZero,
    CollectIgnoresReaders,
    ReleaseIgnoresTickets,
    CheckOutsideLock,
    ExtentBeforeBytes,
    RewriteIgnoresReaders,
    ExtentLoweredAfterScan,
    TicketIgnoresReaders,
    WritingAfterScan,
    RelaxedTicketCount,
    FirstEndShowsPage,
    FirstEndClearsCount,
    EndCheckedOutsideLock,
    EndNotChecked,
    ProofNotLookedAtAgain,
    ReleaseClearsCount,
    CountedRecordIsReused,
    ReclaimIgnoresBorrows,
    ReleaseIgnoresSteps,
    StepsLookedAtOutsideLock,
    EndIgnoresOtherSteps,
    PageWaitsForOldestStep,
    TableBeforeStep,
    BorrowTrustsFlagsOfALostPage,
    BothHandBack,
    ReaderResets,
    SharedExtentLoweredAfterScan,
    SharedExtentNotLowered,
    SharersNotCounted,
    SharedPageRewritten,
    EvictionIgnoresReaders,
    EvictionOfAHeldPage,
}

pub(crate) fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).expect("not zero")
}

pub(crate) fn generation(number: u64) -> Generation {
    Generation::new(number).expect("small")
}

/// What `owner` writes into a token in a life of the page: never zero, different for each.
pub(crate) fn text(owner: OwnerId, generation: Generation, token: u32) -> u64 {
    owner.get() << 32 | generation.get() << 8 | (u64::from(token) + 1)
}

/// A ticket on one page, as the registry keeps it.
#[derive(Clone, Debug)]
struct Ticket {
    page: u32,
    core: Option<Arc<Core>>,
}

/// The shared part of a reservation of one page, as `lease::Core`.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) header: Header,
    pub(crate) off_limits: AtomicU32,
}

impl Core {
    fn new() -> Arc<Self> {
        Arc::new(Self { header: Header::new(), off_limits: AtomicU32::new(0) })
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) free: Vec<u32>,
    pub(crate) quarantined: Vec<u32>,
    pub(crate) dirty: Vec<u32>,
    announced: Vec<u32>,
    /// Pages of the index, cached or not.
    published: Vec<u32>,
    /// Tickets that ended stand here still, so that a plant can end one twice.
    tickets: Vec<(Ticket, bool)>,
    /// Records of reservations that ended, for the next.
    idle: Vec<Arc<Core>>,
    /// Open steps, oldest first, and how many there were.
    steps: Vec<u64>,
    opened: u64,
    /// Pages that wait for steps, with the last one that each waits for.
    waiting: Vec<(u64, u32)>,
}

#[derive(Debug)]
pub(crate) struct World {
    plant: Plant,
    metas: Vec<PageMeta>,
    bytes: Vec<[Token; TOKENS as usize]>,
    state: Mutex<State>,
    domain: Domain,
}

/// A guard by handle, as `access::PageGuard`.
#[derive(Debug)]
pub(crate) struct Guard {
    page: u32,
    pub(crate) written: u32,
    hazard: Option<Hazard>,
}

impl World {
    /// A pool of free pages.
    pub(crate) fn new(plant: Plant, pages: u32) -> Arc<Self> {
        let word = StampWord::new(Generation::FIRST, PageState::Free);
        Arc::new(Self {
            plant,
            metas: (0..pages).map(|_| PageMeta::new(word, Extent::default())).collect(),
            bytes: (0..pages).map(|_| Default::default()).collect(),
            state: Mutex::new(State { free: (0..pages).rev().collect(), ..State::default() }),
            domain: Domain::new(),
        })
    }

    /// The same, with page 0 issued to `owner` and its first tokens written.
    pub(crate) fn with_page(plant: Plant, pages: u32, owner: OwnerId, written: u32) -> Arc<Self> {
        let world = Self::new(plant, pages);
        let (page, generation) = world.take(owner).expect("a free page");
        assert_eq!((page, generation), (0, Generation::FIRST));
        world.append(page, 0..written, |token| text(owner, generation, token));
        world
    }

    pub(crate) fn block(&self) -> &'static Block {
        self.domain.claim_block().expect("a block")
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no model panics and goes on")
    }

    pub(crate) fn meta(&self, page: u32) -> &PageMeta {
        &self.metas[page as usize]
    }

    pub(crate) fn token(&self, page: u32, token: u32) -> &Token {
        &self.bytes[page as usize][token as usize]
    }

    /// As `hazard::pages_announced`.
    pub(crate) fn pages_announced(&self) -> Vec<u32> {
        let mut pages = Vec::new();
        self.domain.scan(|key| {
            assert_eq!(key >> 32, u64::from(POOL));
            pages.push(key as u32);
        });
        pages
    }

    pub(crate) fn announce(block: &'static Block, page: u32) -> Hazard {
        block.announce_key(key(POOL, page)).expect("a slot")
    }

    // ---- readers by handle ----

    /// As `Inner::open_guard`: `None` for every refusal.
    pub(crate) fn open_guard(&self, block: &'static Block, who: OwnerId, page: u32, life: Generation) -> Option<Guard> {
        let meta = self.meta(page);
        if self.plant == Plant::CheckThenAnnounce && !meta.word_for_reader().is_readable_as(life) {
            return None;
        }
        let hazard = (self.plant != Plant::CheckThenRead).then(|| Self::announce(block, page));
        if self.plant != Plant::CheckThenAnnounce && !meta.word_for_reader().is_readable_as(life) {
            return None;
        }
        if self.plant != Plant::OwnerNotCompared && meta.owner() != Some(who) {
            return None;
        }
        Some(Guard { page, written: meta.extent().written(), hazard })
    }

    /// Reads a token that the guard covers.
    pub(crate) fn read(&self, guard: &Guard, token: u32) -> u64 {
        assert!(token < guard.written, "the model asks for written tokens only");
        self.token(guard.page, token).get()
    }

    /// As the drop of a `PageGuard`: the hazard ends, then `Inner::reader_ended`.
    pub(crate) fn end_guard(&self, mut guard: Guard) {
        drop(guard.hazard.take());
        if self.meta(guard.page).word_for_reader().state() == PageState::Quarantined
            && let Ok(mut state) = self.state.try_lock()
        {
            self.collect_quarantine(&mut state);
        }
    }

    /// Opens a guard, reads every written token, ends the guard; each token must be this life's.
    pub(crate) fn read_own(&self, block: &'static Block, who: OwnerId, page: u32, life: Generation) -> Option<u32> {
        let guard = self.open_guard(block, who, page, life)?;
        for token in 0..guard.written {
            assert_eq!(self.read(&guard, token), text(who, life, token), "C4: bytes of another life or owner");
        }
        let written = guard.written;
        self.end_guard(guard);
        Some(written)
    }

    // ---- leaving ----

    /// As `Inner::let_go`, with `quarantine_announced`: answers the pages to zero, with their dirty tokens.
    pub(crate) fn let_go(&self, state: &mut State, pages: &[u32], borrowed: bool) -> Vec<(u32, u32)> {
        let mut batch = Vec::new();
        if matches!(self.plant, Plant::ScanBeforePublish | Plant::BumpAfterZero) {
            state.announced = self.pages_announced();
        }
        let first_freed = state.free.len();
        for page in pages.iter().copied() {
            let meta = self.meta(page);
            let (word, extent) = (meta.word(), meta.extent());
            let word = word.released();
            if self.plant == Plant::BumpAfterZero && !state.announced.contains(&page) {
                self.clean(&[(page, extent.dirty_tokens(TOKENS))]);
            }
            let waits_for = self.last_step(state);
            let held = word.holds() > 0 && self.plant != Plant::ReleaseIgnoresTickets;
            if borrowed || waits_for.is_some() || held {
                let word = word.with_state(PageState::Quarantined);
                meta.publish(if borrowed { word.held().unwrap_or(word) } else { word });
                match waits_for {
                    Some(step) => state.waiting.push((step, page)),
                    None => state.quarantined.push(page),
                }
            } else if extent.is_untouched() {
                meta.free(word.with_state(PageState::Free));
                state.free.push(page);
            } else {
                meta.publish(word.with_state(PageState::Cleaning));
                batch.push((page, extent.dirty_tokens(TOKENS)));
            }
        }
        match self.plant {
            Plant::ReleaseIgnoresReaders | Plant::EvictionIgnoresReaders => state.announced.clear(),
            Plant::ScanBeforePublish | Plant::BumpAfterZero => {}
            _ => state.announced = self.pages_announced(),
        }
        let freed = state.free.split_off(first_freed).into_iter().map(|page| (page, 0));
        let (caught, go): (Vec<_>, Vec<_>) = freed.chain(batch).partition(|(page, _)| state.announced.contains(page));
        for (page, _) in caught {
            let meta = self.meta(page);
            meta.publish(StampWord::new(meta.word().generation(), PageState::Quarantined));
            state.quarantined.push(page);
        }
        let is_free = |page: u32| self.meta(page).word().state() == PageState::Free;
        state.free.extend(go.iter().map(|(page, _)| *page).filter(|page| is_free(*page)));
        go.into_iter().filter(|(page, _)| !is_free(*page)).collect()
    }

    /// As `Inner::finish_leaving` and `clean_in_hand`: zeroes outside the lock, then frees under it.
    pub(crate) fn finish_leaving(&self, mut state: MutexGuard<'_, State>, batch: &[(u32, u32)]) {
        if batch.is_empty() {
            return;
        }
        if self.plant == Plant::FreeBeforeZero {
            batch.iter().for_each(|(page, _)| self.make_free(&mut state, *page));
        }
        drop(state);
        if self.plant != Plant::BumpAfterZero {
            self.clean(batch);
        }
        if self.plant != Plant::FreeBeforeZero {
            let mut state = self.lock();
            batch.iter().for_each(|(page, _)| self.make_free(&mut state, *page));
        }
    }

    fn clean(&self, batch: &[(u32, u32)]) {
        for (page, tokens) in batch {
            (0..*tokens).for_each(|token| self.token(*page, token).set(0));
        }
    }

    /// As `Inner::make_free`.
    fn make_free(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        let word = meta.word();
        meta.clear_owner();
        meta.set_extent(Extent::default());
        meta.publish(word.with_state(PageState::Free));
        state.free.push(page);
    }

    /// As `PagePool::release_pages` of one page: `false` when the handle is stale.
    pub(crate) fn release(&self, who: OwnerId, page: u32, life: Generation) -> bool {
        let is_theirs = || {
            let word = self.meta(page).word();
            word.state() == PageState::Live && word.generation() == life && self.meta(page).owner() == Some(who)
        };
        let early = self.plant == Plant::CheckOutsideLock && is_theirs();
        let idle = self.plant == Plant::StepsLookedAtOutsideLock && self.lock().steps.is_empty();
        let mut state = self.lock();
        if !early && !is_theirs() {
            return false;
        }
        let open = std::mem::take(&mut state.steps);
        if !idle {
            state.steps = open.clone();
        }
        let batch = self.let_go(&mut state, &[page], false);
        state.steps = open;
        self.finish_leaving(state, &batch);
        true
    }

    // ---- steps ----

    /// As `Steps::hold`: what a page waits for that leaves now.
    fn last_step(&self, state: &State) -> Option<u64> {
        match self.plant {
            Plant::ReleaseIgnoresSteps => None,
            Plant::PageWaitsForOldestStep => state.steps.first().copied(),
            _ => state.steps.last().map(|_| state.opened),
        }
    }

    /// As `PagePool::open_step`.
    pub(crate) fn open_step(&self) -> u64 {
        let mut state = self.lock();
        state.opened += 1;
        let step = state.opened;
        state.steps.push(step);
        step
    }

    /// As `PagePool::close_step`, with `let_go_of_waiting`.
    pub(crate) fn end_step(&self, step: u64) {
        let mut state = self.lock();
        state.steps.retain(|open| *open != step);
        let oldest = state.steps.first().copied().filter(|_| self.plant != Plant::EndIgnoresOtherSteps);
        let (passed, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut state.waiting)
            .into_iter()
            .partition(|(last, _)| oldest.is_none_or(|oldest| *last < oldest));
        state.waiting = waiting;
        let announced = self.pages_announced();
        let mut batch = Vec::new();
        for (_, page) in passed {
            let meta = self.meta(page);
            let word = meta.word();
            if word.holds() > 0 || announced.contains(&page) {
                state.quarantined.push(page);
            } else {
                meta.publish(word.with_state(PageState::Cleaning));
                batch.push((page, meta.extent().dirty_tokens(TOKENS)));
            }
        }
        self.finish_leaving(state, &batch);
    }

    /// As a row of handles, that is written under an open step: whether a kernel may use the page.
    pub(crate) fn open_step_and_check(&self, page: u32, life: Generation) -> (u64, bool) {
        let is_readable = || self.meta(page).word_for_reader().is_readable_as(life);
        let early = self.plant == Plant::TableBeforeStep && is_readable();
        let step = self.open_step();
        (step, early || is_readable())
    }

    /// As `Inner::collect_quarantine`.
    pub(crate) fn collect_quarantine(&self, state: &mut State) {
        if state.quarantined.is_empty() {
            return;
        }
        let announced = if self.plant == Plant::CollectIgnoresReaders { Vec::new() } else { self.pages_announced() };
        let dirty = &mut state.dirty;
        state.quarantined.retain(|page| {
            let meta = self.meta(*page);
            let word = meta.word();
            let held = word.holds() > 0 || announced.contains(page);
            if !held {
                meta.publish(word.with_state(PageState::Cleaning));
                dirty.push(*page);
            }
            held
        });
    }

    // ---- taking ----

    /// Takes a page that is free now, as `pool/admit.rs` does under the lock; it must be zero (C3).
    pub(crate) fn take(&self, who: OwnerId) -> Option<(u32, Generation)> {
        let page = {
            let mut state = self.lock();
            let page = state.free.pop()?;
            self.meta(page).issue(who);
            page
        };
        assert!((0..TOKENS).all(|token| self.token(page, token).get() == 0), "C3: a page handed out is not zero");
        Some((page, self.meta(page).word().generation()))
    }

    /// As an admission that finds too little free: collects what is quarantined, zeroes what is dirty, takes a page.
    pub(crate) fn reserve(&self, who: OwnerId) -> Option<(u32, Generation)> {
        let mut state = self.lock();
        self.collect_quarantine(&mut state);
        let dirty = std::mem::take(&mut state.dirty);
        let batch: Vec<_> =
            dirty.into_iter().map(|page| (page, self.meta(page).extent().dirty_tokens(TOKENS))).collect();
        self.finish_leaving(state, &batch);
        self.take(who)
    }

    // ---- the holder ----

    /// As `WriteBorrow::prepare` (nothing to rewrite), `store` and `publish`.
    pub(crate) fn append(&self, page: u32, tokens: std::ops::Range<u32>, value: impl Fn(u32) -> u64) {
        let meta = self.meta(page);
        meta.set_extent(meta.extent().with_high(tokens.end));
        if self.plant == Plant::ExtentBeforeBytes {
            meta.set_extent(meta.extent().with_written(tokens.end));
        }
        tokens.clone().for_each(|token| self.token(page, token).set(value(token)));
        meta.set_extent(meta.extent().with_written(tokens.end));
    }

    /// As `Reservation::truncate` to `to` tokens followed by `write` of the rest: answers the page that was written.
    pub(crate) fn rewrite(&self, who: OwnerId, page: u32, to: u32, value: impl Fn(u32) -> u64) -> u32 {
        let meta = self.meta(page);
        let lower = || meta.set_extent(meta.extent().with_written(to));
        if self.plant != Plant::ExtentLoweredAfterScan {
            lower();
        }
        let page = if self.plant == Plant::RewriteIgnoresReaders { page } else { self.keep_readers_off(who, page, to) };
        if self.plant == Plant::ExtentLoweredAfterScan {
            lower();
        }
        self.append(page, to..TOKENS, value);
        page
    }

    /// As `Inner::keep_readers_off`: the page itself when nobody looks at it, else a fresh one.
    fn keep_readers_off(&self, who: OwnerId, page: u32, from: u32) -> u32 {
        let mut state = self.lock();
        state.announced = self.pages_announced();
        if self.meta(page).word().holds() == 0 && !state.announced.contains(&page) {
            return page;
        }
        self.move_away(state, who, page, from)
    }

    /// As `Inner::move_away` of one page.
    fn move_away(&self, mut state: MutexGuard<'_, State>, who: OwnerId, page: u32, from: u32) -> u32 {
        let fresh = state.free.pop().expect("the model has a page left");
        let meta = self.meta(fresh);
        meta.issue(who);
        meta.set_extent(meta.extent().with_high(from));
        (0..from).for_each(|token| self.token(fresh, token).set(self.token(page, token).get()));
        meta.set_extent(meta.extent().with_written(from));
        if self.meta(page).word().is_kept() && self.stays(&mut state, page, true) {
            return fresh;
        }
        let batch = self.let_go(&mut state, &[page], false);
        self.finish_leaving(state, &batch);
        fresh
    }

    // ---- pages with several holders, and cached ones ----

    /// As `Inner::hold_page` of a live page.
    pub(crate) fn share(&self, page: u32) {
        let _state = self.lock();
        let meta = self.meta(page);
        meta.set_sharers(meta.sharers() + 1);
        meta.publish(meta.word().with_kept(true));
    }

    /// As `Inner::publish_page`, of a page that nobody has published.
    pub(crate) fn publish(&self, page: u32) {
        let mut state = self.lock();
        state.published.push(page);
        let meta = self.meta(page);
        meta.publish(meta.word().with_kept(true));
    }

    /// As `Inner::hold_page` after a hit: `false` when the page was cached.
    pub(crate) fn lookup(&self, page: u32) -> bool {
        let mut state = self.lock();
        assert!(state.published.contains(&page), "the model looks up what is published");
        let (meta, word) = (self.meta(page), self.meta(page).word());
        if word.state() == PageState::Cached {
            self.revive(&mut state, page);
            return false;
        }
        meta.set_sharers(meta.sharers() + 1);
        meta.publish(word.with_kept(true));
        true
    }

    /// As `Inner::revive`.
    fn revive(&self, _state: &mut State, page: u32) {
        let meta = self.meta(page);
        meta.publish(meta.word().with_state(PageState::Live));
    }

    /// As `Inner::let_go_of_page` of a kept page, with `stays`, and `finish_leaving`: `true` when it went to the free ones.
    pub(crate) fn leave(&self, page: u32, caches: bool) -> bool {
        let mut state = self.lock();
        if self.meta(page).word().is_kept() && self.stays(&mut state, page, caches) {
            return false;
        }
        let batch = self.let_go(&mut state, &[page], false);
        let goes = state.free.contains(&page) || !batch.is_empty();
        self.finish_leaving(state, &batch);
        goes
    }

    /// As `Inner::stays`.
    fn stays(&self, state: &mut State, page: u32, caches: bool) -> bool {
        let (meta, word) = (self.meta(page), self.meta(page).word());
        let is_published = state.published.contains(&page);
        if meta.sharers() > 0 && self.plant != Plant::SharersNotCounted {
            meta.set_sharers(meta.sharers() - 1);
            meta.publish(word.with_kept(meta.sharers() > 0 || is_published));
            return true;
        }
        if caches && is_published && self.plant != Plant::SharersNotCounted {
            meta.publish(word.cached());
            return true;
        }
        state.published.retain(|at| *at != page);
        meta.publish(meta.word().with_kept(false));
        false
    }

    /// As `Inner::let_go_of_cached` of one page that nothing holds, and `finish_leaving`: `false` when it is not cached.
    pub(crate) fn evict(&self, page: u32) -> bool {
        let mut state = self.lock();
        if self.meta(page).word().state() != PageState::Cached && self.plant != Plant::EvictionOfAHeldPage {
            return false;
        }
        if self.meta(page).word().state() == PageState::Cached {
            self.revive(&mut state, page);
        }
        state.published.retain(|at| *at != page);
        self.meta(page).publish(self.meta(page).word().with_kept(false));
        let batch = self.let_go(&mut state, &[page], false);
        self.finish_leaving(state, &batch);
        true
    }

    /// As `Reservation::truncate` with `move_written`: outside the lock.
    pub(crate) fn roll_back(&self, page: u32, to: u32) {
        let meta = self.meta(page);
        if !meta.word_for_reader().is_kept() {
            meta.set_extent(meta.extent().with_written(to));
        }
    }

    /// As `Reservation::write` behind a rollback on a page that was shared: answers the page that was written.
    pub(crate) fn rewrite_shared(&self, who: OwnerId, page: u32, to: u32, value: impl Fn(u32) -> u64) -> u32 {
        let lower = || {
            let meta = self.meta(page);
            if !meta.word().is_kept() && meta.extent().written() > to {
                meta.set_extent(meta.extent().with_written(to));
            }
        };
        let mut state = self.lock();
        if !matches!(self.plant, Plant::SharedExtentLoweredAfterScan | Plant::SharedExtentNotLowered) {
            lower();
        }
        state.announced = self.pages_announced();
        if self.plant == Plant::SharedExtentLoweredAfterScan {
            lower();
        }
        let word = self.meta(page).word();
        let is_kept = word.is_kept() && self.plant != Plant::SharedPageRewritten;
        let must_move = word.holds() > 0 || is_kept || state.announced.contains(&page);
        let page = if must_move {
            self.move_away(state, who, page, to)
        } else {
            drop(state);
            page
        };
        self.append(page, to..TOKENS, value);
        page
    }

    // ---- tickets ----

    /// As `Inner::pin` for writing, with `check_pinnable`: `false` for `Busy`.
    pub(crate) fn open_write_ticket(&self, page: u32) -> bool {
        let mut state = self.lock();
        let meta = self.meta(page);
        let second = meta.word().is_writing();
        if meta.word().holds() > 0 && !second {
            return false;
        }
        let hide = || meta.publish(meta.word().with_writing(true));
        if self.plant != Plant::WritingAfterScan {
            hide();
        }
        state.announced = if self.plant == Plant::TicketIgnoresReaders { Vec::new() } else { self.pages_announced() };
        if self.plant == Plant::WritingAfterScan {
            hide();
        }
        if state.announced.contains(&page) && !second {
            meta.publish(meta.word().with_writing(false));
            return false;
        }
        meta.set_extent(meta.extent().whole());
        meta.publish(meta.word().held().expect("room"));
        true
    }

    /// As `PagePool::pin` for reading, and for outside writers whose page was released since.
    pub(crate) fn open_read_ticket(&self, page: u32) {
        let _state = self.lock();
        let meta = self.meta(page);
        meta.publish(meta.word().held().expect("room"));
    }

    /// As `PagePool::end_ticket` on one page; `count` are the reservation's open write tickets.
    pub(crate) fn end_ticket(&self, page: u32, count: Option<&AtomicU32>) {
        let mut state = self.lock();
        self.close_ticket(page, count);
        self.collect_quarantine(&mut state);
    }

    /// As `Inner::close_ticket` with `unhold`.
    fn close_ticket(&self, page: u32, count: Option<&AtomicU32>) {
        let meta = self.meta(page);
        let word = meta.word();
        let word = word.unheld().unwrap_or(word);
        let writing = word.is_writing() && word.holds() > 0 && self.plant != Plant::FirstEndShowsPage;
        meta.publish(word.with_writing(writing));
        match (count, self.plant) {
            (None, _) => {}
            (Some(count), Plant::FirstEndClearsCount) => count.store(0, Ordering::Release),
            (Some(count), Plant::RelaxedTicketCount) => drop(count.fetch_sub(1, Ordering::Relaxed)),
            (Some(count), _) => drop(count.fetch_sub(1, Ordering::Release)),
        }
    }

    /// As `Inner::open_ticket`: answers the number of a ticket on a page that one of the calls above has opened.
    pub(crate) fn register(&self, page: u32, core: Option<&Arc<Core>>) -> usize {
        let mut state = self.lock();
        if let Some(core) = core {
            core.off_limits.fetch_add(1, Ordering::Release);
        }
        state.tickets.push((Ticket { page, core: core.cloned() }, true));
        state.tickets.len() - 1
    }

    /// As `PagePool::end_ticket` from the registry on, `done` and `revoke` alike: `false` when the ticket ended before.
    pub(crate) fn end(&self, ticket: usize) -> bool {
        let early = self.plant == Plant::EndCheckedOutsideLock && self.lock().tickets[ticket].1;
        self.end_if_open(ticket, early || self.plant == Plant::EndNotChecked)
    }

    /// As `PagePool::end_dead_holder`: the kernel is asked between two looks at the registry.
    pub(crate) fn end_dead_holder(&self, ticket: usize) -> bool {
        let open = self.lock().tickets[ticket].1;
        open && self.end_if_open(ticket, self.plant == Plant::ProofNotLookedAtAgain)
    }

    fn end_if_open(&self, ticket: usize, unchecked: bool) -> bool {
        let mut state = self.lock();
        let open = std::mem::replace(&mut state.tickets[ticket].1, false);
        if !open && !unchecked {
            return false;
        }
        let Ticket { page, core } = state.tickets[ticket].0.clone();
        self.close_ticket(page, core.as_ref().map(|core| &core.off_limits));
        self.collect_quarantine(&mut state);
        true
    }

    // ---- reservations, of one page ----

    /// As `State::open_record`.
    pub(crate) fn open_record(&self) -> Arc<Core> {
        self.lock().idle.pop().unwrap_or_else(Core::new)
    }

    /// As `Reservation::read` of one token, up to the drop of its guard: `None` for every refusal.
    pub(crate) fn read_reserved(&self, core: &Core, page: u32, token: u32) -> Option<u64> {
        core.header.borrow().ok()?;
        let refused = core.off_limits.load(Ordering::Acquire) > 0 && {
            let word = self.meta(page).word_for_reader();
            match self.plant {
                Plant::BorrowTrustsFlagsOfALostPage => word.is_writing(),
                _ => word.off_limits().is_some(),
            }
        };
        let value = (!refused).then(|| self.token(page, token).get());
        if let Some(value) = value {
            assert_eq!(self.token(page, token).get(), value, "C12: bytes change under a borrow");
        }
        if core.header.end_borrow() {
            self.last_borrow_ended(page);
        }
        value
    }

    /// As `Inner::last_borrow_ended`.
    fn last_borrow_ended(&self, page: u32) {
        let mut state = self.lock();
        let meta = self.meta(page);
        let word = meta.word();
        meta.publish(word.unheld().unwrap_or(word));
        self.collect_quarantine(&mut state);
    }

    /// As `Inner::end_lease`, with `State::close_record`, of a reservation that nobody borrows.
    pub(crate) fn release_reservation(&self, core: Arc<Core>, page: u32) {
        let mut state = self.lock();
        let batch = self.let_go(&mut state, &[page], false);
        if self.plant == Plant::ReleaseClearsCount {
            core.off_limits.store(0, Ordering::Release);
        }
        if core.off_limits.load(Ordering::Acquire) == 0 || self.plant == Plant::CountedRecordIsReused {
            state.idle.push(core);
        }
        self.finish_leaving(state, &batch);
    }

    /// As `Inner::revoke` under `PagePool::reclaim`.
    pub(crate) fn reclaim(&self, core: &Core, page: u32) {
        let mut state = self.lock();
        let borrowed = core.header.revoke() == Revocation::LastBorrower && self.plant != Plant::ReclaimIgnoresBorrows;
        let batch = self.let_go(&mut state, &[page], borrowed);
        self.finish_leaving(state, &batch);
    }

    /// Checks that every page is where its stamp says, once (C1). After all threads have ended.
    pub(crate) fn audit(&self) {
        let state = self.lock();
        for page in 0..self.metas.len() as u32 {
            let times = |list: &[u32]| list.iter().filter(|at| **at == page).count();
            let waiting = state.waiting.iter().filter(|(_, at)| *at == page).count();
            let lists = (times(&state.free), times(&state.quarantined) + waiting, times(&state.dirty));
            let expected = match self.meta(page).word().state() {
                PageState::Free => (1, 0, 0),
                PageState::Quarantined => (0, 1, 0),
                PageState::Cleaning => (0, 0, 1),
                _ => (0, 0, 0),
            };
            assert_eq!(lists, expected, "C1: page {page} is not in exactly one place");
        }
    }
}
