//! Defects that reading for the model, or the model, found; each reduced to the fewest calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use pagestamp::geometry::{PageGeometry, Plane};
use pagestamp::memory::{HeldControl, HeldMemory, HostMemory, Lane, NullMemory};
use pagestamp::{
    CapacityPlan, CapacityProof, ClaimToken, CleanMode, HolderId, OwnPages, OwnerId, PageMemory, PagePool, PoolConfig,
    ReadError, Request, Resized, WriteError,
};

const TOKENS: u64 = 4;
const SECRET: u8 = 0xa5;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(TOKENS as u32, &[Plane::per_token(1, 8)]).unwrap()
}

fn config(pages: u32) -> PoolConfig {
    PoolConfig::new(pages).with_own_pages(OwnPages::None)
}

fn held(pages: u32) -> (PagePool<HeldMemory>, HeldControl, CapacityProof) {
    let memory = HeldMemory::new(geometry(), pages).unwrap();
    let control = memory.control();
    let pool = PagePool::new(config(pages), memory).unwrap();
    let proof = prove(&pool, pages);
    (pool, control, proof)
}

fn host(pages: u32) -> (PagePool<HostMemory>, CapacityProof) {
    let pool = PagePool::new(config(pages), HostMemory::new(geometry(), pages).unwrap()).unwrap();
    let proof = prove(&pool, pages);
    (pool, proof)
}

fn prove<M: PageMemory>(pool: &PagePool<M>, pages: u32) -> CapacityProof {
    pool.prove(CapacityPlan::new(u64::from(pages) * TOKENS)).unwrap()
}

/// One tenant fills pages with its secret, each page in a reservation and behind a fence of its own, and leaves.
fn leave_secret(pool: &PagePool<HeldMemory>, proof: &CapacityProof, pages: u64) {
    for _ in 0..pages {
        let mut kv = pool.reserve(proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
        kv.write(TOKENS, &[&[SECRET; 8 * TOKENS as usize]]).unwrap();
        drop(kv);
    }
}

fn on_lane(tokens: u64) -> Request {
    Request::new(owner(2), tokens).on_lane(Lane::from_raw(7))
}

// C3
#[test]
fn a_page_whose_lane_fence_failed_is_zeroed_before_anyone_else_has_it() {
    let (pool, control, proof) = held(1);
    leave_secret(&pool, &proof, 1);
    let kv = pool.reserve(&proof, on_lane(TOKENS), TOKENS).unwrap();
    let _ = control.fail_next();
    pool.maintain(0);
    drop(kv);
    control.finish_all();
    pool.maintain(9);
    control.finish_all();
    pool.maintain(9);
    if let Ok(mut kv) = pool.reserve(&proof, Request::new(owner(3), TOKENS), TOKENS) {
        kv.assume_written(TOKENS).unwrap();
        let mut seen = [1; 8 * TOKENS as usize];
        kv.read(0..TOKENS).unwrap().copy(0, &mut seen).unwrap();
        assert_eq!(seen, [0; 8 * TOKENS as usize], "another tenant's bytes");
    }
    pool.audit().unwrap();
    pool.audit_bytes(0..1).unwrap();
}

// C3
#[test]
fn a_page_released_before_its_lane_fence_failed_comes_back_zero_and_readable() {
    let (pool, control, proof) = held(1);
    leave_secret(&pool, &proof, 1);
    let kv = pool.reserve(&proof, on_lane(TOKENS), TOKENS).unwrap();
    drop(kv);
    let _ = control.fail_next();
    for _ in 0..3 {
        pool.maintain(9);
        control.finish_all();
    }
    pool.maintain(9);
    let mut kv = pool.reserve(&proof, Request::new(owner(3), TOKENS), TOKENS).unwrap();
    kv.assume_written(TOKENS).unwrap();
    let handle = kv.handle(0).unwrap();
    let mut seen = [1; 8 * TOKENS as usize];
    pool.read(owner(3), handle).unwrap().copy(0, &mut seen).unwrap();
    assert_eq!(seen, [0; 8 * TOKENS as usize], "another tenant's bytes");
}

// C3, C5
#[test]
fn a_plane_writer_lends_no_page_that_a_device_still_cleans() {
    let (pool, control, proof) = held(2);
    leave_secret(&pool, &proof, 1);
    // The second page of the pool, so that two pages are behind two fences.
    let mut kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
    kv.write(TOKENS, &[&[SECRET; 8 * TOKENS as usize]]).unwrap();
    drop(kv);
    let mut kv = pool.reserve(&proof, on_lane(2 * TOKENS), 2 * TOKENS).unwrap();
    kv.assume_written(TOKENS).unwrap();
    let last = *control.open_fences().last().unwrap();
    control.finish(last).unwrap();
    match kv.writer(1) {
        Ok(writer) => assert!(matches!(writer.run(0, 0, 0), Err(ReadError::Pending { .. })), "a tenant's old bytes"),
        Err(error) => panic!("the second page is clean: {error}"),
    };
}

// C12
#[test]
fn a_plane_writer_lends_no_page_with_an_open_write_ticket() {
    let (pool, proof) = host(2);
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 2 * TOKENS), 2 * TOKENS).unwrap();
    kv.write(TOKENS, &[&[1; 8 * TOKENS as usize]]).unwrap();
    let _ticket = kv.pin_write(0..1, HolderId(1), None).unwrap();
    let writer = kv.writer(1).unwrap();
    assert!(matches!(writer.run(0, 0, 0), Err(ReadError::Busy { .. })));
}

// C5
#[test]
fn a_page_without_bytes_is_unwritten_for_its_next_owner() {
    let pool = PagePool::new(config(1), NullMemory::new(geometry(), 1).unwrap()).unwrap();
    let proof = prove(&pool, 1);
    let mut kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
    kv.assume_written(TOKENS).unwrap();
    drop(kv);
    let kv = pool.reserve(&proof, Request::new(owner(2), TOKENS), TOKENS).unwrap();
    let handle = kv.handle(0).unwrap();
    assert_eq!(pool.read(owner(2), handle).unwrap().written_tokens(), 0);
}

// C8
#[test]
fn a_rewrite_that_lacks_one_fresh_page_leaves_pool_unchanged() {
    let (pool, proof) = host(3);
    let mut kv = pool.reserve(&proof, Request::new(owner(1), 2 * TOKENS), 2 * TOKENS).unwrap();
    kv.write(2 * TOKENS, &[&[1; 16 * TOKENS as usize]]).unwrap();
    let handles: Vec<_> = kv.handles().collect();
    let guards: Vec<_> = handles.iter().map(|handle| pool.read(owner(1), *handle).unwrap()).collect();
    kv.truncate(0).unwrap();
    let before = pool.stats();
    let refused = kv.write(2 * TOKENS, &[&[2; 16 * TOKENS as usize]]);
    assert!(matches!(refused, Err(WriteError::NoFreshPage { .. })));
    assert_eq!(pool.stats(), before);
    assert_eq!(kv.handles().collect::<Vec<_>>(), handles);
    drop(guards);
}

// C1
#[test]
fn a_pending_shrink_ends_when_an_admission_gives_its_promise_back() {
    let (pool, proof) = host(8);
    let admitted = pool.admit(&proof, Request::new(owner(1), 6 * TOKENS)).unwrap();
    assert_eq!(pool.resize(3).unwrap(), Resized::Pending { target_pages: 3, pages: 6 });
    drop(admitted);
    let stats = pool.stats();
    assert_eq!((stats.free_pages, stats.parked_pages), (3, 5));
    pool.audit().unwrap();
}

// C1
#[test]
fn a_pending_shrink_ends_when_pages_detach_and_their_promise_ends() {
    let (pool, proof) = host(8);
    let kv = pool.reserve(&proof, Request::new(owner(1), 6 * TOKENS), TOKENS).unwrap();
    assert_eq!(pool.resize(3).unwrap(), Resized::Pending { target_pages: 3, pages: 6 });
    let handles = kv.into_handles().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.free_pages, stats.live_pages, stats.parked_pages), (2, 1, 5));
    pool.release_pages(owner(1), &handles).unwrap();
    pool.audit().unwrap();
}

// C7
#[test]
fn one_close_is_enough_once_the_fence_of_a_released_lane_page_is_done() {
    let (pool, control, proof) = held(1);
    leave_secret(&pool, &proof, 1);
    drop(pool.reserve(&proof, on_lane(TOKENS), TOKENS).unwrap());
    control.finish_all();
    pool.maintain(9);
    control.finish_all();
    let closed = pool.close();
    assert!(closed.is_ok(), "{closed:?}");
}

// C7
#[test]
fn a_forgotten_guard_of_no_page_does_not_pass_to_the_next_reservation() {
    let (pool, proof) = host(1);
    let kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), 0).unwrap();
    let guard = kv.read(0..0).unwrap();
    std::mem::forget(guard);
    assert!(kv.into_handles().unwrap().is_empty());
    let kv = pool.reserve(&proof, Request::new(owner(2), TOKENS), TOKENS).unwrap();
    assert_eq!(kv.release().quarantined_pages, 0, "nobody borrowed this one");
}

// C3
#[test]
fn an_erase_receipt_does_not_call_a_page_zeroed_that_could_not_be() {
    let memory = HeldMemory::new(geometry(), 1).unwrap();
    let control = memory.control();
    let pool = PagePool::new(config(1).with_clean_mode(CleanMode::Later), memory).unwrap();
    let proof = prove(&pool, 1);
    let mut kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS).unwrap();
    kv.write(TOKENS, &[&[SECRET; 8 * TOKENS as usize]]).unwrap();
    drop(kv);
    pool.maintain(1);
    let _ = control.fail_next();
    let receipt = pool.erase(owner(1));
    assert_eq!((receipt.pages.len(), receipt.in_flight), (1, vec![0]), "the bytes are there still");
}

// C8
#[test]
fn tries_of_one_claim_at_the_same_time_give_its_pages_once() {
    const TRIES: usize = 4;
    for round in 0..200 {
        let (pool, proof) = host(TRIES as u32);
        let barrier = Arc::new(Barrier::new(TRIES));
        let token = ClaimToken { id: round, expires_at_ns: 1 };
        let tries: Vec<_> = (0..TRIES)
            .map(|_| {
                let (pool, barrier) = (pool.clone(), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    barrier.wait();
                    let request = Request::new(owner(1), TOKENS).with_claim(token);
                    let answer = pool.reserve(&proof, request, TOKENS);
                    barrier.wait();
                    answer.is_ok()
                })
            })
            .collect();
        let given = tries.into_iter().map(|each| each.join().unwrap()).filter(|given| *given).count();
        assert_eq!(given, 1, "round {round}");
    }
}

// C4
#[test]
fn a_reader_that_meets_a_release_is_never_told_that_the_owner_is_somebody_else() {
    for _ in 0..40 {
        let (pool, proof) = host(4);
        let handle = Mutex::new(None);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        let Some(handle) = *handle.lock().unwrap() else { continue };
                        let answer = pool.check(owner(1), handle);
                        assert!(matches!(answer, Ok(()) | Err(ReadError::Stale { .. })), "{answer:?}");
                    }
                });
            }
            for _ in 0..500 {
                // Nothing is written: such a page is free again at once.
                let kv = pool.reserve(&proof, Request::new(owner(1), TOKENS), TOKENS);
                if kv.is_err() {
                    pool.maintain(9);
                }
                *handle.lock().unwrap() = kv.as_ref().ok().and_then(|kv| kv.handle(0));
                drop(kv);
            }
            over.store(true, Ordering::Release);
        });
    }
}

// C3, C4
#[test]
fn a_reclaim_while_handles_are_listed_gives_no_handle_of_the_pages_next_life() {
    let (pool, proof) = host(2);
    let kv = pool.reserve(&proof, Request::new(owner(1), 2 * TOKENS), 2 * TOKENS).unwrap();
    let mut listed = kv.handles();
    let first = listed.next().unwrap();
    pool.reclaim(owner(1));
    let kept: Vec<_> = listed.by_ref().chain([first]).collect();
    drop(listed);
    pool.maintain(9);
    // The same owner has the same pages again: only the generation tells the lives apart.
    let again = pool.reserve(&proof, Request::new(owner(1), 2 * TOKENS), 2 * TOKENS).unwrap();
    assert_eq!(again.pages(), 2);
    for handle in kept {
        assert!(matches!(pool.check(owner(1), handle), Err(ReadError::Stale { .. })), "{handle:?}");
    }
}
