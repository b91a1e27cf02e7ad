//! Group 3: stale, uninitialised or badly zeroed memory.

use pagestamp::memory::{HeldControl, Lane};
use pagestamp::{
    AdmitError, CleanMode, HeldMemory, HostMemory, OwnPages, OwnerId, PageGeometry, PageHandle, PagePool, PageState,
    Plane, PoolConfig, ReadError, Request, WriteError,
};

use crate::stage::*;

/// Quiet NaN as f32; as two f16 it is a NaN and a zero.
const NAN: [u8; 4] = 0x7FC0_0000u32.to_le_bytes();

// B33, C3, C5
#[test]
fn a_page_that_changes_its_element_type_is_zero_where_nobody_wrote() {
    // The same bytes seen as f32 by one use, as f16, fp8 or packed 4-bit by the next.
    for (runs, run_bytes) in [(1, 8), (2, 4), (8, 1), (1, 4)] {
        let geometry = PageGeometry::new(P as u32, &[Plane::per_token(runs, run_bytes)]).unwrap();
        for mode in [CleanMode::OnRelease, CleanMode::Later] {
            let memory = HostMemory::new(geometry.clone(), 1).unwrap();
            let pool = PagePool::new(config(1).with_clean_mode(mode), memory).unwrap();
            let mut f32s = take(&pool, owner(1), P);
            let nans: Vec<u8> = NAN.iter().copied().cycle().take((geometry.token_bytes() * P) as usize).collect();
            f32s.write(P, &[&nans]).unwrap();
            f32s.release();

            let mut f16s = take(&pool, owner(2), P);
            f16s.write(3, &[&vec![1; (3 * geometry.token_bytes()) as usize]]).unwrap();
            let page = raw_page(&pool, 0);
            assert_eq!(page.iter().filter(|b| **b == 1).count() as u64, 3 * geometry.token_bytes());
            assert!(page.iter().all(|b| *b <= 1), "nothing of the last tenant, {runs} x {run_bytes}");
            assert!(matches!(f16s.read(0..P), Err(ReadError::Unwritten { to_tokens: 16, written_tokens: 3 })));
            let tail = f16s.handle(0).unwrap();
            assert_eq!(pool.read(owner(2), tail).unwrap().written_tokens(), 3);
            assert_sound(&pool);
        }
    }
}

// B34, C3, C5
#[test]
fn the_tail_of_the_last_page_is_zero_and_exact_multiples_have_none() {
    for (tokens, expected_pages) in [(1, 1), (15, 1), (16, 1), (17, 2), (31, 2), (32, 2), (33, 3)] {
        let pool = host_pool(4);
        take_filled(&pool, owner(1), 4 * P, 0xFF).release();
        let kv = take_filled(&pool, owner(2), tokens, 0xAB);
        assert_eq!(u64::from(kv.pages()), expected_pages);
        let written: usize =
            pages(&kv).iter().map(|p| raw_page(&pool, *p).iter().filter(|b| **b == 0xAB).count()).sum();
        let others: usize = (0..4).map(|p| raw_page(&pool, p).iter().filter(|b| **b != 0 && **b != 0xAB).count()).sum();
        assert_eq!((written as u64, others), (tokens * geometry().token_bytes(), 0));
        assert!(matches!(kv.read(0..tokens + 1), Err(ReadError::Unwritten { .. })));
        assert_sound(&pool);
    }
}

// B36, C3, C7
#[test]
fn zeroing_that_is_late_never_meets_the_next_tenants_bytes() {
    let (pool, control) = held_pool(2);
    take_filled(&pool, owner(1), P, 0x11).release();
    assert_eq!(pool.stats().cleaning_pages, 1);

    // One clean page is left; the other is not to be had before its zeroing has ended.
    let kv = take_filled(&pool, owner(2), P, 0x22);
    let full = pool.reserve(&proof(&pool, P), Request::new(owner(2), P), P).unwrap_err();
    assert!(matches!(full, AdmitError::Full { needed_pages: 1, free_pages: 0, pending_pages: 1, .. }), "{full:?}");
    assert_eq!(control.finish_all(), 1);
    assert!(is_all(&kv, 0x22), "the late zeroing touched the page it was for");

    let next = take_filled(&pool, owner(3), P, 0x33);
    assert_eq!(control.finish_all(), 0);
    assert!(is_all(&next, 0x33) && is_all(&kv, 0x22));
    assert_sound(&pool);
}

// B36, C3, C7
#[test]
fn pages_that_a_resize_adds_are_zero_before_anybody_has_them() {
    let pool = host_pool(4);
    take_filled(&pool, owner(1), 4 * P, 0x77).release();
    pool.resize(1).unwrap();
    pool.resize(4).unwrap();
    let mut kv = take(&pool, owner(2), 4 * P);
    kv.assume_written(4 * P).unwrap();
    assert!(is_all(&kv, 0));
    assert_sound(&pool);
}

/// One page, written by owner 1, released, and given to owner 2 in front of a lane while its zeroing is open.
fn one_page_behind_a_fence() -> (PagePool<HeldMemory>, HeldControl, pagestamp::Reservation<HeldMemory>) {
    let (pool, control) = held_pool(1);
    take_filled(&pool, owner(1), P, 0x5A).release();
    let request = Request::new(owner(2), P).on_lane(Lane::from_raw(7));
    let kv = pool.reserve(&proof(&pool, P), request, P).unwrap();
    (pool, control, kv)
}

// B36, C3, C7
#[test]
fn a_lane_that_waits_for_zeroing_gets_the_page_and_the_host_keeps_off_until_then() {
    let (pool, control, mut kv) = one_page_behind_a_fence();
    assert_eq!(control.waits().len(), 1);
    let handle = kv.handle(0).unwrap();
    assert!(matches!(pool.check(owner(2), handle), Err(ReadError::Pending { page: 0 })));
    assert!(matches!(kv.write(1, &[&[1; 8], &[1; 6]]), Err(WriteError::Pending { page: 0 })));
    pool.audit().unwrap();
    control.finish_all();
    write(&mut kv, P, 0x66);
    assert!(is_all(&kv, 0x66));
    assert_sound(&pool);
}

// B36, C3
#[test]
fn a_page_whose_zeroing_failed_under_a_waiting_lane_is_zeroed_before_the_next_owner() {
    let (pool, control, kv) = one_page_behind_a_fence();
    assert!(control.fail_next().is_some());
    settle(&pool);
    kv.release();
    assert_ne!(pool.stats().free_pages, 1, "the page was never zeroed");
    settle(&pool);
    control.finish_all();
    let mut next = take(&pool, owner(3), P);
    next.assume_written(P).unwrap();
    assert!(is_all(&next, 0), "a lie about what was written shows zeros, never another tenant");
    assert_sound(&pool);
}

// B36, C3
#[test]
fn a_page_released_before_its_zeroing_failed_is_zeroed_before_the_next_owner() {
    let (pool, control, kv) = one_page_behind_a_fence();
    kv.release();
    assert_eq!(pool.stats().quarantined_pages, 1, "a lane waits for it");
    assert!(control.fail_next().is_some());
    settle(&pool);
    settle(&pool);
    control.finish_all();
    let mut next = take(&pool, owner(3), P);
    next.assume_written(P).unwrap();
    assert!(is_all(&next, 0));
    assert_sound(&pool);
}

// B36, C3
#[test]
fn a_page_that_could_not_be_zeroed_is_retired_and_never_handed_out() {
    let (pool, control) = held_pool(2);
    take_filled(&pool, owner(1), P, 0x11).release();
    assert!(control.fail_next().is_some());
    let stats = settle(&pool);
    assert_eq!((stats.retired_pages, stats.poisoned_pages, stats.usable_pages), (1, 1, 1));
    let kv = take(&pool, owner(2), P);
    assert!(is_zero(&pool, pages(&kv)[0]));
    assert_sound(&pool);
}

// B36, C3
#[test]
fn a_refused_zeroing_is_tried_again_and_the_page_waits() {
    let (pool, control) = held_pool(1);
    let kv = take_filled(&pool, owner(1), P, 0x11);
    control.fail_clean_calls(1);
    kv.release();
    let stats = pool.stats();
    assert_eq!((stats.free_pages, stats.cleaning_pages, stats.clean_errors), (0, 1, 1));
    settle(&pool);
    control.finish_all();
    assert_eq!(settle(&pool).free_pages, 1);
    assert!(is_zero(&pool, 0));
    assert_sound(&pool);
}

fn own_pages_pool() -> PagePool<HostMemory> {
    host_pool_of(PoolConfig::new(4).with_own_pages(OwnPages::NullAndSink))
}

// B37, C2, C5
#[test]
fn no_handle_names_the_null_or_the_sink_page() {
    let pool = own_pages_pool();
    let kv = take_filled(&pool, owner(1), P, 0xAA);
    let good = kv.handle(0).unwrap().to_bits();
    for page in [pool.null_page().unwrap(), pool.sink_page().unwrap()] {
        let forged = PageHandle::from_bits(good & !0xffff_ffff | u128::from(page)).unwrap();
        let refused = pool.check(owner(1), forged).unwrap_err();
        assert!(matches!(refused, ReadError::Stale { state: PageState::Reserved, .. }), "{refused:?}");
        assert!(pool.release_pages(owner(1), &[forged]).is_err());
        assert!(!pages(&kv).contains(&page));
    }
    assert_sound(&pool);
}

// B37, C5
#[test]
fn a_slot_of_minus_one_reaches_no_page() {
    let pool = host_pool(2);
    let victim = take_filled(&pool, owner(1), P, 0x44);
    let mine = take_filled(&pool, owner(2), P, 0x55);
    assert_eq!(pages(&mine), [1], "the victim could be reached by no wrap, nor the last page");
    let bits = mine.handle(0).unwrap().to_bits();
    let minus_one = PageHandle::from_bits(bits | 0xffff_ffff).unwrap();
    assert!(matches!(pool.check(owner(2), minus_one), Err(ReadError::OutOfRange { page: u32::MAX, pages: 2 })));
    assert!(matches!(mine.read(0..u64::MAX), Err(ReadError::Unwritten { to_tokens: u64::MAX, written_tokens: 16 })));
    assert!(mine.handle(u32::MAX).is_none());
    assert!(is_all(&victim, 0x44) && is_all(&mine, 0x55));
    assert_sound(&pool);
}

// B37, C3
#[test]
fn padding_writes_soil_the_sink_alone() {
    let pool = own_pages_pool();
    let mut kv = take_filled(&pool, owner(1), P, 0xAA);
    poke(&pool, pool.sink_page().unwrap(), 0xDD);
    assert!(is_zero(&pool, pool.null_page().unwrap()));
    kv.grow(P).unwrap();
    assert!(is_all(&kv, 0xAA));
    kv.release();
    assert_sound(&pool);
    assert!((2..4).all(|page| is_zero(&pool, page)), "all but the sink");
}

/// A conversation slot: an opaque unit of state.
fn slots(count: u32) -> PagePool<HostMemory> {
    PagePool::new(config(count), HostMemory::new(PageGeometry::bytes(2000).unwrap(), count).unwrap()).unwrap()
}

// B43, C3, C4
#[test]
fn a_slot_taken_over_by_another_conversation_shows_nothing_of_the_first() {
    let pool = slots(4);
    let (first, second) = (owner(1), owner(2));
    // The state, and three checkpoints of it.
    let mut session = take(&pool, first, 4);
    session.write(4, &[&[0x9C; 8000]]).unwrap();
    let old: Vec<_> = session.handles().collect();
    drop(session);

    let mut takeover = take(&pool, second, 4);
    for handle in &old {
        assert!(is_stale(&pool, first, *handle) && is_stale(&pool, second, *handle));
    }
    assert!(matches!(takeover.read(0..1), Err(ReadError::Unwritten { to_tokens: 1, written_tokens: 0 })));
    takeover.assume_written(4).unwrap();
    assert!(is_all(&takeover, 0));
    assert_sound(&pool);
}

// B43, C3
#[test]
fn a_takeover_in_place_is_no_way_around_the_release() {
    let pool = slots(1);
    let first: OwnerId = owner(1);
    let mut session = take(&pool, first, 1);
    session.write(1, &[&[0x9C; 2000]]).unwrap();
    let handle = session.handle(0).unwrap();
    // Rolling back and writing again is the same owner's; another owner's name opens nothing.
    assert!(
        matches!(pool.check(owner(2), handle), Err(ReadError::ForeignOwner { page: 0, asked_owner }) if asked_owner == owner(2))
    );
    assert!(pool.reclaim(owner(2)).pages == 0);
    assert!(pool.check(first, handle).is_ok());
    session.truncate(0).unwrap();
    assert_eq!(pool.read(first, handle).unwrap().written_tokens(), 0);
    assert_sound(&pool);
}
