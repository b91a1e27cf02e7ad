//! Misuse that compiles: whatever safe code forgets, drops out of order, sends away or does at the same time, no byte of
//! one owner reaches another, and the pool goes on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use pagestamp::geometry::{PageGeometry, Plane};
use pagestamp::memory::{HeldMemory, HostMemory, NullMemory};
use pagestamp::{
    Admitted, CapacityPlan, CapacityProof, CleanMode, HolderId, OwnPages, OwnerId, PageGuard, PageHandle, PageMemory,
    PagePool, PlaneWriter, PoolConfig, ReadError, ReadGuard, Rejected, Request, Reservation, ReserveError, Scrubber,
    TicketId,
};

const TOKENS: u64 = 16;
const TOKEN_BYTES: usize = 32;
const PAGES: u32 = 8;
const FULL: usize = TOKENS as usize * TOKEN_BYTES;

type Pool = PagePool<HostMemory>;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(TOKENS as u32, &[Plane::per_token(1, TOKEN_BYTES as u32)]).unwrap()
}

fn pool_with(mode: CleanMode) -> (Pool, CapacityProof) {
    let config = PoolConfig::new(PAGES).with_own_pages(OwnPages::None).with_clean_mode(mode);
    let pool = PagePool::new(config, HostMemory::new(geometry(), PAGES).unwrap()).unwrap();
    let proof = pool.prove(CapacityPlan::new(u64::from(PAGES) * TOKENS)).unwrap();
    (pool, proof)
}

fn pool() -> (Pool, CapacityProof) {
    pool_with(CleanMode::OnRelease)
}

/// A reservation of some pages, full of one byte.
fn filled(pool: &Pool, proof: &CapacityProof, id: u64, pages: u64, byte: u8) -> Reservation<HostMemory> {
    let mut kv = pool.reserve(proof, Request::new(owner(id), pages * TOKENS), pages * TOKENS).unwrap();
    kv.write(pages * TOKENS, &[&vec![byte; FULL * pages as usize]]).unwrap();
    kv
}

/// `mem::forget`, but where the leak sanitizer finds it: what is forgotten here is never dropped either.
fn forget<T>(value: T) {
    static FORGOTTEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    FORGOTTEN.lock().unwrap().push(Box::into_raw(Box::new(value)) as usize);
}

/// All pages can be had by somebody else, and every one of them is zero.
fn all_pages_are_clean(pool: &Pool, proof: &CapacityProof, pages: u64) {
    let mut kv = pool.reserve(proof, Request::new(owner(99), pages * TOKENS), pages * TOKENS).unwrap();
    kv.assume_written(pages * TOKENS).unwrap();
    let mut seen = vec![1; FULL * pages as usize];
    kv.read(0..pages * TOKENS).unwrap().copy(0, &mut seen).unwrap();
    assert!(seen.iter().all(|byte| *byte == 0), "bytes of an earlier owner");
    drop(kv);
    pool.audit().unwrap();
    pool.audit_bytes(0..PAGES).unwrap();
}

// C3, C4
#[test]
fn a_forgotten_reservation_is_reclaimed_and_its_pages_come_back_clean() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 3, 7);
    let handle = kv.handle(0).unwrap();
    forget(kv);
    let reclaimed = pool.reclaim(owner(1));
    assert_eq!((reclaimed.revoked, reclaimed.pages, reclaimed.quarantined_pages), (1, 3, 0));
    assert!(matches!(pool.read(owner(1), handle), Err(ReadError::Stale { .. })));
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C9
#[test]
fn a_forgotten_admission_gives_its_promise_back_when_reclaimed() {
    let (pool, proof) = pool();
    forget(pool.admit(&proof, Request::new(owner(1), 5 * TOKENS)).unwrap());
    assert_eq!(pool.stats().promised_pages, 5);
    pool.reclaim(owner(1));
    assert_eq!(pool.stats().promised_pages, 0);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C9
#[test]
fn an_admission_that_was_reclaimed_reserves_nothing() {
    let (pool, proof) = pool();
    let admitted = pool.admit(&proof, Request::new(owner(1), TOKENS)).unwrap();
    pool.reclaim(owner(1));
    let refused = admitted.reserve(TOKENS).unwrap_err();
    assert!(matches!(refused.error(), ReserveError::Revoked));
    drop(refused.into_value());
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C7
#[test]
fn a_forgotten_read_guard_keeps_its_pages_from_everyone_for_ever() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 2, 7);
    std::mem::forget(kv.read(0..TOKENS).unwrap());
    pool.reclaim(owner(1));
    drop(kv);
    pool.maintain(99);
    assert_eq!(pool.stats().quarantined_pages, 2);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES) - 2);
}

// C7
#[test]
fn a_forgotten_guard_by_handle_keeps_its_page_from_everyone_for_ever() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 2, 7);
    std::mem::forget(pool.read(owner(1), kv.handle(1).unwrap()).unwrap());
    drop(kv);
    pool.maintain(99);
    assert_eq!(pool.stats().quarantined_pages, 1);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES) - 1);
}

// C5, C7
#[test]
fn a_forgotten_plane_writer_counts_as_nothing_written_and_keeps_its_pages() {
    let (pool, proof) = pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
    forget_writer(kv.writer(TOKENS).unwrap());
    assert_eq!(kv.written_tokens(), 0);
    assert!(matches!(kv.read(0..1), Err(ReadError::Unwritten { .. })));
    drop(kv);
    pool.reclaim(owner(1));
    pool.maintain(99);
    assert_eq!(pool.stats().quarantined_pages, 1);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES) - 1);
}

/// A writer has no `'static` life, so that it is forgotten by way of its box.
fn forget_writer<'a>(writer: PlaneWriter<'a, HostMemory>) -> &'a mut PlaneWriter<'a, HostMemory> {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let leaked = Box::leak(Box::new(writer));
    KEPT.lock().unwrap().push(std::ptr::from_mut(leaked).cast::<u8>() as usize);
    leaked
}

// C8
#[test]
fn a_writer_held_across_a_reclaim_ends_without_a_byte_in_another_owners_page() {
    let (pool, proof) = pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
    let mut writer = kv.writer(TOKENS).unwrap();
    let reclaimed = pool.reclaim(owner(1));
    assert_eq!(reclaimed.quarantined_pages, 1);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES) - 1);
    writer.plane(0, &[7; FULL]).unwrap();
    drop(writer);
    assert!(kv.read(0..1).is_err() && kv.handle(0).is_none(), "revoked");
    drop(kv);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C7, C12
#[test]
fn readers_on_other_threads_see_the_old_owners_bytes_until_their_guards_end() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        let (pool, proof) = pool_with(mode);
        let kv = filled(&pool, &proof, 1, 4, 7);
        let handles: Vec<_> = kv.handles().collect();
        let (taken, go) = (Arc::new(Barrier::new(5)), Arc::new(AtomicBool::new(false)));
        thread::scope(|scope| {
            for handle in handles {
                let (pool, taken, go) = (&pool, taken.clone(), go.clone());
                scope.spawn(move || {
                    let guard = pool.read(owner(1), handle).unwrap();
                    taken.wait();
                    while !go.load(Ordering::Acquire) {
                        assert_eq!(guard.run(0, 0).unwrap(), [7; FULL]);
                    }
                    assert_eq!(guard.run(0, 0).unwrap(), [7; FULL]);
                });
            }
            taken.wait();
            let reclaimed = pool.reclaim(owner(1));
            assert_eq!((reclaimed.pages, reclaimed.quarantined_pages), (4, 4));
            for round in 0..50 {
                let other = filled(&pool, &proof, 2, 4, 9);
                assert_eq!(other.pages(), 4, "round {round}");
            }
            assert_eq!(pool.stats().quarantined_pages, 4);
            go.store(true, Ordering::Release);
        });
        drop(kv);
        all_pages_are_clean(&pool, &proof, u64::from(PAGES));
    }
}

// C7, C12
#[test]
fn a_borrowed_reservation_shows_its_bytes_until_its_last_guard_ends() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 4, 7);
    let (first, second) = (kv.read(0..TOKENS).unwrap(), kv.read(0..4 * TOKENS).unwrap());
    pool.reclaim(owner(1));
    drop(filled(&pool, &proof, 2, 4, 9));
    drop(first);
    drop(filled(&pool, &proof, 2, 4, 9));
    assert_eq!(pool.stats().quarantined_pages, 4);
    let mut seen = vec![0; 4 * FULL];
    second.copy(0, &mut seen).unwrap();
    assert_eq!(seen, vec![7; 4 * FULL]);
    drop(second);
    assert_eq!(pool.stats().quarantined_pages, 0);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C4, C7
#[test]
fn two_threads_on_one_handle_read_its_life_or_are_told_that_it_is_stale() {
    let (pool, proof) = pool();
    for round in 0..300u64 {
        let byte = round as u8 | 1;
        let kv = filled(&pool, &proof, 1, 1, byte);
        let handle = kv.handle(0).unwrap();
        let barrier = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..20 {
                        match pool.read(owner(1), handle) {
                            Ok(guard) => assert_eq!(guard.run(0, 0).unwrap(), [byte; FULL]),
                            Err(error) => assert!(matches!(error, ReadError::Stale { .. }), "{error:?}"),
                        }
                    }
                });
            }
            barrier.wait();
            drop(kv);
            drop(filled(&pool, &proof, 2, u64::from(PAGES) / 2, !byte));
        });
    }
    pool.maintain(99);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C7, C11
#[test]
fn guards_end_on_other_threads_and_after_the_thread_that_took_them() {
    let (pool, proof) = pool();
    let pool: &'static Pool = Box::leak(Box::new(pool));
    static KEPT: Mutex<usize> = Mutex::new(0);
    *KEPT.lock().unwrap() = std::ptr::from_ref(pool) as usize;
    let kv = filled(pool, &proof, 1, 2, 7);
    let (one, two) = (kv.handle(0).unwrap(), kv.handle(1).unwrap());
    let of_ended_thread = thread::spawn(move || pool.read(owner(1), one).unwrap()).join().unwrap();
    let sent_away = pool.read(owner(1), two).unwrap();
    drop(kv);
    assert_eq!(pool.stats().quarantined_pages, 2);
    thread::spawn(move || drop(sent_away)).join().unwrap();
    assert_eq!(pool.stats().quarantined_pages, 1);
    assert_eq!(of_ended_thread.run(0, 0).unwrap(), [7; FULL]);
    drop(of_ended_thread);
    assert_eq!(pool.stats().quarantined_pages, 0);
    all_pages_are_clean(pool, &proof, u64::from(PAGES));
}

// C7, C11
#[test]
fn the_first_read_of_a_thread_works_after_others_forgot_all_their_guards() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 1, 7);
    let handle = kv.handle(0).unwrap();
    for _ in 0..40 {
        thread::scope(|scope| {
            let forgets = scope.spawn(|| (0..13).for_each(|_| std::mem::forget(pool.read(owner(1), handle).unwrap())));
            forgets.join().unwrap();
        });
        thread::scope(|scope| {
            let reads = scope.spawn(|| pool.read(owner(1), handle).map(|guard| guard.written_tokens()));
            assert_eq!(reads.join().unwrap().unwrap(), TOKENS as u32);
        });
    }
}

// C1, C11
#[test]
fn pools_reservations_admissions_and_proofs_are_dropped_in_any_order() {
    for order in 0..24usize {
        let (pool, proof) = pool();
        let again = pool.clone();
        let kv = filled(&pool, &proof, 1, 2, 7);
        let admitted = pool.admit(&proof, Request::new(owner(2), TOKENS)).unwrap();
        let mut things: Vec<Option<Box<dyn FnOnce()>>> = vec![
            Some(Box::new(move || drop(pool))),
            Some(Box::new(move || drop(kv))),
            Some(Box::new(move || drop(admitted))),
            Some(Box::new(move || {
                again.reclaim(owner(1));
                again.audit().unwrap();
            })),
        ];
        let mut code = order;
        for left in (1..=4).rev() {
            let nth = code % left;
            code /= left;
            let at = (0..4).filter(|at| things[*at].is_some()).nth(nth).unwrap();
            things[at].take().unwrap()();
        }
    }
}

// C7
#[test]
fn a_reservation_keeps_the_memory_of_a_dropped_pool_alive() {
    let (pool, proof) = pool();
    let mut kv = filled(&pool, &proof, 1, 1, 7);
    drop(pool);
    kv.truncate(8).unwrap();
    kv.write(8, &[&[9; FULL / 2]]).unwrap();
    let guard = kv.read(0..TOKENS).unwrap();
    let mut seen = [0; FULL];
    guard.copy(0, &mut seen).unwrap();
    assert_eq!((seen[0], seen[FULL - 1]), (7, 9));
}

// C1, C8
#[test]
fn close_says_who_holds_the_pool_and_then_gives_the_memory_back() {
    let (pool, proof) = pool();
    let mut kv = filled(&pool, &proof, 1, 2, 7);
    let ticket = kv.pin_read(0..1, HolderId(4), None).unwrap();
    let refused = pool.close().unwrap_err();
    assert_eq!((refused.handles, refused.live_pages, refused.tickets), (1, 2, 1));
    let pool = refused.pool;
    assert!(kv.grow(2 * TOKENS).is_ok(), "the pool goes on");
    drop(kv);
    let refused = pool.close().unwrap_err();
    assert_eq!((refused.live_pages, refused.quarantined_pages, refused.tickets), (0, 1, 1));
    let pool = refused.pool;
    end(&pool, ticket);
    let admitted = pool.admit(&proof, Request::new(owner(1), TOKENS)).unwrap();
    let refused = pool.close().unwrap_err();
    assert_eq!((refused.handles, refused.live_pages), (1, 0));
    drop(admitted);
    let pool = refused.pool;
    let handles = filled(&pool, &proof, 1, 1, 7).into_handles().unwrap();
    let refused = pool.close().unwrap_err();
    assert_eq!(
        (refused.handles, refused.live_pages),
        (0, 1),
        "pages that an engine keeps are live, though nobody else is"
    );
    let pool = refused.pool;
    pool.release_pages(owner(1), &handles).unwrap();
    let memory = pool.close().unwrap();
    assert_eq!(memory.max_pages(), PAGES);
}

#[expect(unsafe_code, reason = "ends a ticket that nobody outside has")]
fn end(pool: &Pool, ticket: TicketId) {
    // SAFETY: (1) no outside party was ever told of the ticket.
    unsafe { pool.ticket_done(ticket) }.unwrap();
}

// C11
#[test]
fn a_panic_while_a_writer_or_a_guard_is_held_leaves_the_pool_usable() {
    let (pool, proof) = pool();
    let mut kv = filled(&pool, &proof, 1, 1, 7);
    let handle = kv.handle(0).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = pool.read(owner(1), handle).unwrap();
        kv.truncate(4).unwrap();
        let mut writer = kv.writer(4).unwrap();
        writer.plane(0, &[9; 4 * TOKEN_BYTES]).unwrap();
        panic!("in the middle");
    }));
    assert!(panicked.is_err());
    assert_eq!(kv.written_tokens(), 8);
    kv.write(8, &[&[5; FULL / 2]]).unwrap();
    drop(kv);
    pool.maintain(99);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

/// A reason whose conversion panics: the one place where the library runs a caller's code.
struct Bomb;

impl From<Bomb> for Box<dyn std::error::Error + Send + Sync> {
    fn from(_: Bomb) -> Self {
        panic!("a caller's code")
    }
}

// C6, C11
#[test]
fn a_reason_that_panics_still_ends_what_it_rejects() {
    let (pool, proof) = pool();
    let kv = filled(&pool, &proof, 1, 2, 7);
    let admitted = pool.admit(&proof, Request::new(owner(1), TOKENS)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| kv.reject(Bomb))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| admitted.reject(Bomb))).is_err());
    let stats = pool.stats();
    assert_eq!((stats.live_pages, stats.promised_pages, stats.reservations), (0, 0, 0));
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C11
#[test]
fn a_thread_that_panics_with_a_reservation_gives_its_pages_back_clean() {
    let (pool, proof) = pool();
    let (theirs, quiet) = (pool.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(|_| {}));
    let ended = thread::spawn(move || {
        let kv = filled(&theirs, &proof, 1, 4, 7);
        let _guard = kv.read(0..4 * TOKENS).unwrap();
        panic!("with a reservation");
    });
    assert!(ended.join().is_err());
    std::panic::set_hook(quiet);
    pool.maintain(99);
    all_pages_are_clean(&pool, &proof, u64::from(PAGES));
}

// C11
#[test]
fn what_crosses_threads_may_and_what_outlives_the_pool_does() {
    fn crosses<T: Send + Sync>() {}
    fn outlives<T: Send + Sync + 'static>() {}
    fn of<M: PageMemory>() {
        outlives::<PagePool<M>>();
        outlives::<Reservation<M>>();
        outlives::<Admitted<M>>();
        outlives::<PageHandle<M>>();
        crosses::<PageGuard<'_, M>>();
        crosses::<ReadGuard<'_, M>>();
        crosses::<PlaneWriter<'_, M>>();
    }
    of::<HostMemory>();
    of::<NullMemory>();
    of::<HeldMemory>();
    outlives::<Request>();
    outlives::<Rejected>();
    outlives::<CapacityProof>();
    outlives::<Scrubber>();
    outlives::<TicketId>();
}

// C11
#[test]
fn nothing_prints_the_secret_that_its_pages_hold() {
    const SECRET: &[u8] = b"correct horse battery staple    ";
    const NUMBERS: &str = "99, 111, 114, 114, 101, 99, 116";
    let (pool, proof) = pool();
    let secret = SECRET.repeat(TOKENS as usize);
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 4 * TOKENS), 2 * TOKENS).unwrap();
    kv.write(TOKENS, &[&secret]).unwrap();
    let handle = kv.handle(0).unwrap();
    let mut said = Vec::new();
    let mut hear = |thing: &dyn std::fmt::Debug| said.push(format!("{thing:?} {thing:#?}"));
    hear(&kv.write(1, &[&secret]));
    hear(&kv.write(9 * TOKENS, &[&secret.repeat(9)]));
    hear(&kv.write(1, &[&secret[..TOKEN_BYTES], &secret]));
    hear(&kv.writer(1).unwrap());
    hear(&kv.writer(1).unwrap().plane(0, &secret));
    hear(&kv.read(0..TOKENS).unwrap());
    hear(&kv.read(0..TOKENS).unwrap().pages().collect::<Vec<_>>());
    hear(&kv.read(0..99));
    hear(&kv.read(0..1).unwrap().copy(0, &mut [0; 3]));
    hear(&pool.read(owner(1), handle).unwrap());
    hear(&pool.read(owner(1), handle).unwrap().view());
    hear(&pool.read(owner(2), handle));
    hear(&(&pool, &proof, handle, &kv, pool.stats(), pool.config(), pool.geometry()));
    let ticket = kv.pin_read(0..1, HolderId(1), None).unwrap();
    hear(&(ticket, pool.tickets(), kv.pin_write(0..1, HolderId(1), None)));
    hear(&(kv.shrink(99), kv.commit(99), kv.truncate(99), kv.assume_written(99), kv.grow(1), kv.grow(9999)));
    hear(&pool.release_pages(owner(1), &[handle, handle]));
    hear(&pool.release_pages(owner(1), &[handle]));
    hear(&pool.admit(&proof, Request::new(owner(2), 999_999)));
    hear(&pool.admit(&proof, Request::new(owner(2), u64::from(PAGES) * TOKENS)));
    hear(&pool.admit(&proof, Request::new(owner(2), TOKENS)));
    hear(&(pool.suspend(), pool.resize(0), pool.audit(), pool.audit_bytes(0..PAGES)));
    hear(&kv.reject("an error of the caller"));
    hear(&pool.read(owner(1), handle));
    end(&pool, ticket);
    hear(&pool.erase(owner(1)));
    hear(&pool.close());
    for said in said {
        assert!(!said.contains("correct") && !said.contains(NUMBERS), "{said}");
    }
}
