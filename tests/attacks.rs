//! Attacks of a hostile reviewer: each sequence once made the pool leak, lie, lose a page or tell the wrong story.
#![expect(unsafe_code, reason = "implements a memory that fails where a test says, and looks at bytes past all checks")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pagestamp::memory::{CleanPage, Fence, FenceState, HeldControl, HostBytes, HostPlane, Lane, MemoryError, Span};
use pagestamp::{
    AdmitError, CapacityPlan, CapacityProof, ClaimError, ClaimToken, CleanMode, HeldMemory, HolderId, HostMemory,
    NullMemory, OwnPages, OwnerId, PageGeometry, PageMemory, PagePool, Plane, PoolConfig, ReadError, Request,
    Reservation, Resized,
};

const P: u64 = 16;
const TOKEN: usize = 8;
const SECRET: u8 = 0x5A;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, TOKEN as u32)]).unwrap()
}

fn config(pages: u32) -> PoolConfig {
    PoolConfig::new(pages).with_own_pages(OwnPages::None)
}

fn proof<M: PageMemory>(pool: &PagePool<M>, tokens: u64) -> CapacityProof {
    pool.prove(CapacityPlan::new(tokens)).unwrap()
}

fn take<M: PageMemory>(pool: &PagePool<M>, id: u64, tokens: u64) -> Reservation<M> {
    pool.reserve(&proof(pool, tokens), Request::new(owner(id), tokens), tokens).unwrap()
}

fn fill<M: PageMemory>(kv: &mut Reservation<M>, tokens: u64, byte: u8) {
    kv.write(tokens, &[&vec![byte; tokens as usize * TOKEN]]).unwrap();
}

/// What the next tenant would read who takes the kernel's word for a page.
fn peek<M: PageMemory>(kv: &mut Reservation<M>) -> Vec<u8> {
    let tokens = kv.reserved_tokens();
    kv.assume_written(tokens).unwrap();
    let mut bytes = vec![0xEE; tokens as usize * TOKEN];
    kv.read(0..tokens).unwrap().copy(0, &mut bytes).unwrap();
    bytes
}

fn raw_page<M: HostBytes>(pool: &PagePool<M>, page: u32) -> Vec<u8> {
    // SAFETY: (1) and (2): nothing but a read, and nobody writes while the test looks.
    let memory = unsafe { pool.memory() };
    let place = memory.plane(0).unwrap();
    // SAFETY: the page exists and lives as long as the pool.
    unsafe { std::slice::from_raw_parts(place.page(page), place.page_bytes()) }.to_vec()
}

type Hook = Box<dyn FnMut() + Send>;

/// What a [`Rigged`] memory does beside its work.
#[derive(Default)]
struct Rig {
    poll: AtomicU32,
    read: AtomicU32,
    commit: Mutex<Option<Hook>>,
    /// Pages without memory.
    gone: Mutex<BTreeSet<u32>>,
}

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rig")
    }
}

/// Panics when it is told to, once for each time.
fn trip(calls: &AtomicU32) {
    if calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        panic!("planted");
    }
}

/// Held memory whose calls panic, or run a hook, when the test says so.
#[derive(Debug)]
struct Rigged {
    held: HeldMemory,
    rig: Arc<Rig>,
}

// SAFETY: (1) to (7): all is passed on to held memory; a panic comes before anything was done.
unsafe impl PageMemory for Rigged {
    const NAME: &'static str = "rigged";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.held.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.held.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.held.clean(batch) }
    }

    fn poll(&self, fence: Fence) -> FenceState {
        trip(&self.rig.poll);
        self.held.poll(fence)
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.held.order_after(fence, lane)
    }

    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.rig.gone.lock().unwrap().extend(pages.clone());
        self.held.decommit(pages)
    }

    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        if let Some(hook) = &mut *self.rig.commit.lock().unwrap() {
            hook();
        }
        self.rig.gone.lock().unwrap().retain(|page| !pages.contains(page));
        self.held.commit(pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.held.write(at, src) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        trip(&self.rig.read);
        // SAFETY: (1) of the caller.
        unsafe { self.held.read(at, dst) }
    }
}

// SAFETY: (1) to (3): those of held memory.
unsafe impl HostBytes for Rigged {
    fn plane(&self, plane: usize) -> Option<HostPlane> {
        self.held.plane(plane)
    }
}

fn rigged(pages: u32) -> (PagePool<Rigged>, HeldControl, Arc<Rig>) {
    let (held, rig) = (HeldMemory::new(geometry(), pages).unwrap(), Arc::<Rig>::default());
    let control = held.control();
    (PagePool::new(config(pages), Rigged { held, rig: Arc::clone(&rig) }).unwrap(), control, rig)
}

fn held(pages: u32) -> (PagePool<HeldMemory>, HeldControl) {
    let memory = HeldMemory::new(geometry(), pages).unwrap();
    let control = memory.control();
    (PagePool::new(config(pages), memory).unwrap(), control)
}

// C3
#[test]
fn memory_that_comes_back_from_a_pool_holds_no_tenants_bytes() {
    let (pool, control) = held(2);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    kv.release();
    let _failed = control.fail_next().unwrap();
    pool.maintain(0);
    assert_eq!(pool.stats().poisoned_pages, 1);
    let memory = pool.close().unwrap();
    let pool = PagePool::new(config(2), memory).unwrap();
    pool.audit_bytes(0..2).unwrap();
    let mut kv = take(&pool, 2, 2 * P);
    assert!(peek(&mut kv).iter().all(|byte| *byte == 0), "a pool made anew hands out the last pool's secret");
}

// C3: the check of `close` and the taking of the memory are one step
#[test]
fn a_pool_that_closes_while_the_last_other_clone_leaves_gives_back_clean_memory() {
    for round in 0..400 {
        let pool = PagePool::new(config(1).with_clean_mode(CleanMode::Later), HostMemory::new(geometry(), 1).unwrap());
        let pool = pool.unwrap();
        let proof = proof(&pool, P);
        let clone = pool.clone();
        let other = thread::spawn(move || {
            for _ in 0..20 {
                if let Ok(mut kv) = clone.reserve(&proof, Request::new(owner(1), P), P) {
                    fill(&mut kv, P, SECRET);
                    kv.release();
                }
            }
        });
        let mut closing = pool;
        let memory = loop {
            match closing.close() {
                Ok(memory) => break memory,
                Err(error) => closing = error.pool,
            }
        };
        other.join().unwrap();
        let pool = PagePool::new(config(1), memory).unwrap();
        assert!(raw_page(&pool, 0).iter().all(|byte| *byte == 0), "round {round}");
    }
}

// C1, C11
#[test]
fn a_poll_that_panics_under_the_lock_loses_no_page() {
    let (pool, control, rig) = rigged(2);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    kv.release();
    rig.poll.store(1, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| pool.maintain(0))).is_err());
    pool.audit().unwrap();
    control.finish_all();
    pool.maintain(0);
    pool.audit().unwrap();
    assert_eq!(pool.stats().free_pages, 2);
}

// C3, C7
#[test]
fn a_poll_that_panics_at_once_leaves_the_pages_behind_their_fence() {
    let (pool, control, rig) = rigged(1);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    rig.poll.store(1, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| kv.release())).is_err());
    pool.audit().unwrap();
    let first = control.open_fences()[0];
    // Whatever is begun anew and ends: the page waits for the first fence, whose zeroes are still on their way.
    pool.maintain(usize::MAX);
    for fence in control.open_fences() {
        if fence != first {
            control.finish(fence).unwrap();
        }
    }
    pool.maintain(usize::MAX);
    if let Ok(mut kv) = pool.reserve(&proof(&pool, P), Request::new(owner(2), P), P) {
        fill(&mut kv, P, 7);
        control.finish_all();
        assert!(peek(&mut kv).iter().all(|byte| *byte == 7), "a late zeroing wiped the next tenant's bytes");
    }
    control.finish_all();
    pool.maintain(usize::MAX);
    assert_eq!(pool.stats().free_pages, 1);
}

// C1, C11
#[test]
fn a_memory_that_panics_while_a_page_moves_loses_no_page() {
    let (pool, control, rig) = rigged(4);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    let handle = kv.handle(0).unwrap();
    let guard = pool.read(owner(1), handle).unwrap();
    kv.truncate(4).unwrap();
    rig.read.store(1, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| kv.write(1, &[&[1; TOKEN]]))).is_err());
    pool.audit().unwrap();
    drop(guard);
    kv.write(1, &[&[1; TOKEN]]).unwrap();
    kv.release();
    pool.maintain(usize::MAX);
    control.finish_all();
    pool.maintain(usize::MAX);
    control.finish_all();
    pool.maintain(usize::MAX);
    pool.audit().unwrap();
    assert_eq!(pool.stats().free_pages, 4);
}

// C3: the receipt of an erasure
#[test]
fn a_receipt_names_pages_that_failed_to_be_zeroed_before_it_was_asked_for() {
    let (pool, control) = held(2);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    let page = kv.handle(0).unwrap().index();
    kv.release();
    let _failed = control.fail_next().unwrap();
    pool.maintain(0);
    assert!(raw_page(&pool, page).contains(&SECRET), "the owner's bytes are still there");
    let receipt = pool.erase(owner(1));
    assert_eq!(receipt.in_flight, [page], "so the receipt must say so");
    pool.audit().unwrap();
}

// C3: the receipt of an erasure
#[test]
fn a_receipt_names_pages_that_are_still_being_zeroed_in_front_of_the_next_owners_lane() {
    let (pool, control) = held(1);
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    let page = kv.handle(0).unwrap().index();
    kv.release();
    let request = Request::new(owner(2), P).on_lane(Lane::from_raw(1));
    let next = pool.reserve(&proof(&pool, P), request, P).unwrap();
    assert!(raw_page(&pool, page).contains(&SECRET), "the owner's bytes are still there");
    let receipt = pool.erase(owner(1));
    assert_eq!(receipt.in_flight, [page], "so the receipt must say so");
    control.finish_all();
    pool.maintain(0);
    assert_eq!(pool.erase(owner(1)).in_flight, []);
    drop(next);
    pool.audit().unwrap();
}

#[test]
fn a_receipt_of_a_memory_without_bytes_claims_none_zeroed() {
    let pool = PagePool::new(config(2), NullMemory::new(geometry(), 2).unwrap()).unwrap();
    let mut kv = take(&pool, 1, P);
    kv.assume_written(P).unwrap();
    assert_eq!(pool.erase(owner(1)).bytes_zeroed, 0);
}

// C2, C4: who reads its own page while it is released is told that it is stale, not that it is another tenant's
#[test]
fn a_release_under_a_reader_looks_like_no_attack() {
    let pool = PagePool::new(config(1), HostMemory::new(geometry(), 1).unwrap()).unwrap();
    let proof = proof(&pool, P);
    let (handles, stop) = (Arc::new(Mutex::new(None)), AtomicBool::new(false));
    let alarms = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let Some(handle) = *handles.lock().unwrap() else { continue };
                for _ in 0..20 {
                    if let Err(ReadError::ForeignOwner { .. }) = pool.read(owner(1), handle) {
                        alarms.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        for _ in 0..200_000 {
            if let Ok(kv) = pool.reserve(&proof, Request::new(owner(1), P), P) {
                *handles.lock().unwrap() = kv.handle(0);
                kv.release();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(alarms.into_inner(), 0);
}

// C11
#[test]
fn a_scrubber_does_not_spin_on_a_memory_that_refuses() {
    let memory = HeldMemory::new(geometry(), 1).unwrap();
    let control = memory.control();
    let pool = PagePool::new(config(1).with_clean_mode(CleanMode::Later), memory).unwrap();
    let mut kv = take(&pool, 1, P);
    fill(&mut kv, P, SECRET);
    control.fail_clean_calls(usize::MAX);
    let scrubber = pool.start_scrubber().unwrap();
    kv.release();
    thread::sleep(Duration::from_millis(200));
    let tries = pool.stats().clean_errors;
    assert!((1..=400).contains(&tries), "{tries} tries in 200 ms");
    control.fail_clean_calls(0);
    for _ in 0..1000 {
        control.finish_all();
        thread::sleep(Duration::from_millis(1));
        if pool.stats().free_pages == 1 {
            break;
        }
    }
    assert_eq!(pool.stats().free_pages, 1, "and goes on once the memory cleans again");
    drop(scrubber);
}

// C1, C9
#[test]
fn a_resize_that_grows_is_not_undone_by_a_release_that_parks_meanwhile() {
    let (pool, control, rig) = rigged(4);
    let kv = take(&pool, 1, 3 * P);
    assert_eq!(pool.resize(1).unwrap(), Resized::Pending { target_pages: 1, pages: 3 });
    let mut leaving = Some(kv);
    // While the memory of the parked page comes back, a release finds the pool too large still.
    let (again, fences) = (pool.clone(), control.clone());
    *rig.commit.lock().unwrap() = Some(Box::new(move || {
        drop(leaving.take());
        fences.finish_all();
        again.maintain(0);
    }));
    let resized = pool.resize(4).unwrap();
    *rig.commit.lock().unwrap() = None;
    control.finish_all();
    pool.maintain(usize::MAX);
    assert_eq!(resized, Resized::Done { pages: 4 });
    assert_eq!(pool.stats().usable_pages, 4);
    pool.audit().unwrap();
}

// C3, C11
#[test]
fn memory_that_comes_back_from_a_suspended_or_shrunk_pool_is_there_for_the_next() {
    for shrink in [false, true] {
        let (pool, _, rig) = rigged(4);
        if shrink {
            assert_eq!(pool.resize(1).unwrap(), Resized::Done { pages: 1 });
        } else {
            let _done = pool.suspend().unwrap();
        }
        assert!(!rig.gone.lock().unwrap().is_empty());
        let pool = PagePool::new(config(4), pool.close().unwrap()).unwrap();
        let kv = take(&pool, 1, 4 * P);
        let gone = rig.gone.lock().unwrap();
        assert!(kv.handles().all(|handle| !gone.contains(&handle.index())), "pages without memory: {gone:?}");
    }
}

// C9
#[test]
fn a_claim_whose_reservation_was_forgotten_and_reclaimed_has_ended() {
    let pool = PagePool::new(config(2), HostMemory::new(geometry(), 2).unwrap()).unwrap();
    let proof = proof(&pool, P);
    let ask = || pool.reserve(&proof, Request::new(owner(1), P).with_claim(ClaimToken { id: 7, expires_at_ns: 9 }), P);
    std::mem::forget(ask().unwrap());
    let refusal = |refused: AdmitError| match refused {
        AdmitError::Claim { source, .. } => source,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(ask().unwrap_err()), ClaimError::InUse);
    pool.reclaim(owner(1));
    assert_eq!(refusal(ask().unwrap_err()), ClaimError::Ended, "nothing is in use any more");
    pool.audit().unwrap();
}

// C8
#[test]
fn a_reservation_from_before_its_name_was_forgotten_leaves_the_next_claim_of_that_name_alone() {
    let pool = PagePool::new(config(4), HostMemory::new(geometry(), 4).unwrap()).unwrap();
    let proof = proof(&pool, P);
    let ask = |id| {
        let token = ClaimToken { id, expires_at_ns: id as u64 };
        pool.reserve(&proof, Request::new(owner(1), P).with_claim(token), P).unwrap()
    };
    let mut old = [0, 1].map(ask);
    pool.reclaim(owner(1));
    pool.expire_claims(1);
    // So many claims have ended since that these names are forgotten.
    for id in 2..9000 {
        ask(id).release();
    }
    let new = [0, 1].map(ask);
    let handles = new.each_ref().map(|kv| kv.handle(0));
    old[1].confirm_claim();
    drop(old);
    drop(new); // both answers were lost
    assert_eq!([0, 1].map(ask).each_ref().map(|kv| kv.handle(0)), handles);
    pool.audit().unwrap();
}

/// A cheap source of numbers, so that a round can be told from its seed.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// One tenant at work: whatever it reads is its own byte, or zero.
fn tenant(pool: &PagePool<HeldMemory>, proof: &CapacityProof, id: u64, rounds: u32) {
    let (mut seed, byte) = (id * 77, id as u8);
    let own = |bytes: &[u8]| assert!(bytes.iter().all(|b| *b == byte || *b == 0), "owner {id} sees {bytes:?}");
    for _ in 0..rounds {
        let tokens = next(&mut seed) % (3 * P) + 1;
        let mut request = Request::new(owner(id), 4 * P);
        if next(&mut seed).is_multiple_of(2) {
            request = request.on_lane(Lane::from_raw(id));
        }
        let Ok(mut kv) = pool.reserve(proof, request, tokens) else {
            pool.maintain(2);
            continue;
        };
        let handles: Vec<_> = kv.handles().collect();
        let part = next(&mut seed) % tokens + 1;
        let _ = kv.write(part, &[&vec![byte; part as usize * TOKEN]]);
        let ticket = kv.pin_read(0..1, HolderId(id), None).ok();
        for step in 0..4 {
            let guard = handles.first().and_then(|handle| pool.read(owner(id), *handle).ok());
            if let Some(guard) = &guard {
                own(guard.run(0, 0).unwrap());
            }
            match next(&mut seed) % 6 {
                0 => drop(kv.truncate(next(&mut seed) % (kv.written_tokens() + 1))),
                1 => drop(kv.grow(tokens + step * P)),
                2 => drop(kv.write(1, &[&[byte; TOKEN]])),
                3 => drop(kv.assume_written(kv.reserved_tokens())),
                4 => drop(kv.shrink(kv.written_tokens())),
                _ => {
                    if let Ok(read) = kv.read(0..kv.written_tokens()) {
                        let mut bytes = vec![0xEE; read.tokens().end as usize * TOKEN];
                        read.copy(0, &mut bytes).unwrap();
                        own(&bytes);
                    }
                }
            }
        }
        match next(&mut seed) % 5 {
            0 => std::mem::forget(kv),
            1 => {
                if let Ok(handles) = kv.into_handles() {
                    let _ = pool.release_pages(owner(id), &handles);
                }
            }
            _ => drop(kv),
        }
        if let Some(ticket) = ticket {
            // SAFETY: (1) there is no outside party.
            let _ = unsafe { pool.ticket_done(ticket) };
        }
        match next(&mut seed) % 8 {
            0 => drop(pool.erase(owner(id))),
            1 => drop(pool.reclaim(owner(id))),
            _ => {}
        }
    }
    pool.reclaim(owner(id));
}

// C1, C2, C3, C5, C7, C12: the audit holds at any time, and nobody sees a foreign byte
#[test]
fn tenants_a_resizer_a_sleeper_and_an_auditor_at_once_break_nothing() {
    const PAGES: u32 = 12;
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        let memory = HeldMemory::new(geometry(), PAGES).unwrap();
        let control = memory.control();
        let pool = PagePool::new(config(PAGES).with_clean_mode(mode), memory).unwrap();
        let proof = proof(&pool, 4 * P);
        let (done, pool_) = (AtomicU32::new(0), &pool);
        thread::scope(|scope| {
            for id in 1..=3 {
                let (done, proof) = (&done, &proof);
                scope.spawn(move || {
                    tenant(pool_, proof, id, 600);
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < 3 {
                    let _fence = control.finish_next();
                    thread::yield_now();
                }
            });
            scope.spawn(|| {
                let mut seed = 5;
                while done.load(Ordering::Relaxed) < 3 {
                    let _ = pool_.resize(next(&mut seed) as u32 % PAGES + 1);
                    if next(&mut seed).is_multiple_of(4) {
                        let _ = pool_.suspend();
                        let _ = pool_.resume();
                    }
                    let _ = pool_.resize(PAGES);
                    thread::sleep(Duration::from_micros(300));
                }
            });
            while done.load(Ordering::Relaxed) < 3 {
                pool.audit().unwrap();
                pool.audit_bytes(0..PAGES).unwrap();
            }
        });
        let _ = pool.resume();
        let _resized = pool.resize(PAGES).unwrap();
        for _ in 0..4 {
            control.finish_all();
            pool.maintain(usize::MAX);
        }
        pool.audit().unwrap();
        pool.audit_bytes(0..PAGES).unwrap();
        let stats = pool.stats();
        assert_eq!((stats.free_pages, stats.promised_pages, stats.tickets), (u64::from(PAGES), 0, 0), "{stats:?}");
    }
}
