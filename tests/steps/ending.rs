//! Pages wait for every step that was open when they left, and for no other.

use super::*;
use pagestamp::{
    CleanMode, CloseError, HolderId, PageState, ReadError, StepError, StepId, StepLoss, SuspendError, Suspended,
};

// C7
#[test]
fn a_page_waits_for_all_steps_that_were_open_when_it_left_and_for_no_later_one() {
    let pool = null(8);
    let (first, second) = (pool.open_step(), pool.open_step());
    let early = take(&pool, 1, 2 * P);
    early.release();
    let third = pool.open_step();
    let late = take(&pool, 1, 3 * P);
    late.release();
    let waiting =
        |pool: &PagePool<NullMemory>| -> Vec<u64> { pool.open_steps().iter().map(|step| step.waiting_pages).collect() };
    assert_eq!(waiting(&pool), [5, 5, 3]);
    // The second ends in front of the first, and takes nothing along.
    assert_eq!(end(&pool, second).pages, 0);
    assert_eq!(waiting(&pool), [5, 3]);
    let ended = end(&pool, first);
    assert_eq!((ended.pages, ended.waiting_pages), (2, 3));
    let stats = pool.stats();
    assert_eq!((stats.steps, stats.step_pages, stats.quarantined_pages, stats.free_pages), (1, 3, 3, 5));
    assert_sound(&pool);
    assert_eq!(end(&pool, third).pages, 3);
    assert_eq!((pool.stats().free_pages, pool.stats().trusted_step_ends), (8, 3));
    assert_sound(&pool);
}

// C1, C7
#[test]
fn a_page_that_left_when_the_newest_step_had_ended_waits_for_the_older_one_alone() {
    let pool = null(8);
    let (first, second) = (pool.open_step(), pool.open_step());
    take(&pool, 1, 2 * P).release();
    end(&pool, second);
    take(&pool, 1, P).release();
    let third = pool.open_step();
    assert_sound(&pool);
    assert_eq!(end(&pool, first).pages, 3);
    assert_eq!(end(&pool, third).pages, 0);
    assert_sound(&pool);
}

// C3, C7
#[test]
fn written_pages_are_zeroed_when_their_step_ends_and_not_before() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        let memory = HostMemory::new(geometry(), 4).unwrap();
        let pool = PagePool::new(config(4).with_clean_mode(mode), memory).unwrap();
        let mut kv = take(&pool, 1, 4 * P);
        write(&mut kv, 4 * P, 7);
        let handle = kv.handle(0).unwrap();
        let step = pool.open_step();
        assert_eq!(kv.release().quarantined_pages, 4);
        let stale = pool.read(owner(1), handle);
        assert!(matches!(stale, Err(ReadError::Stale { state: PageState::Quarantined, .. })));
        assert_eq!(pool.maintain(usize::MAX).quarantined_pages, 4, "{mode:?}: a kernel reads them");
        assert_eq!(pool.stats().pages_cleaned, 0);
        end(&pool, step);
        let cleaned = if mode == CleanMode::OnRelease { 4 } else { 0 };
        assert_eq!(pool.stats().pages_cleaned, cleaned, "{mode:?}");
        take(&pool, 2, 4 * P).release();
        assert_sound(&pool);
    }
}

// C7: every way of letting go.
#[test]
fn no_way_of_letting_go_gets_past_an_open_step() {
    type Way = (&'static str, fn(&PagePool<HostMemory>, Reservation<HostMemory>));
    let ways: [Way; 9] = [
        ("release", |_, kv| {
            kv.release();
        }),
        ("drop", |_, kv| drop(kv)),
        ("reject", |_, kv| drop(kv.reject("gone"))),
        ("shrink", |_, mut kv| {
            kv.truncate(0).unwrap();
            kv.shrink(0).unwrap();
        }),
        ("slide", |_, mut kv| {
            kv.slide(2 * P).unwrap();
        }),
        ("reclaim", |pool, kv| {
            pool.reclaim(owner(1));
            drop(kv);
        }),
        ("erase", |pool, kv| {
            let receipt = pool.erase(owner(1));
            assert_eq!((receipt.pages.len(), receipt.in_flight.len(), receipt.bytes_zeroed), (2, 2, 0));
            drop(kv);
        }),
        ("clear", |pool, kv| {
            pool.clear();
            drop(kv);
        }),
        ("release_pages", |pool, kv| {
            let handles = kv.into_handles().unwrap();
            pool.release_pages(owner(1), &handles).unwrap();
        }),
    ];
    for (name, way) in ways {
        let pool = host(4);
        let mut kv = take(&pool, 1, 2 * P);
        write(&mut kv, 2 * P, 7);
        let step = pool.open_step();
        way(&pool, kv);
        let stats = pool.stats();
        assert_eq!((stats.step_pages, stats.free_pages + stats.cleaning_pages), (2, 2), "{name}");
        assert_sound(&pool);
        end(&pool, step);
        assert_eq!(pool.stats().free_pages, 4, "{name}");
        assert_sound(&pool);
    }
}

// C7, C12: a page that is rewritten under a reader's eyes moves, and its old place may be in a table.
#[test]
fn the_old_place_of_a_page_that_moved_waits_for_the_step() {
    let pool = host(4);
    let mut kv = take(&pool, 1, P);
    write(&mut kv, P, 7);
    let old = kv.handle(0).unwrap();
    let reader = pool.read(owner(1), old).unwrap();
    let step = pool.open_step();
    kv.truncate(1).unwrap();
    write(&mut kv, 1, 8);
    drop(reader);
    pool.maintain(usize::MAX);
    assert_eq!((pool.stats().step_pages, pool.stats().moved_pages), (1, 1));
    assert_ne!(pages(&kv), [old.index()]);
    end(&pool, step);
    pool.maintain(usize::MAX);
    assert_eq!(pool.stats().free_pages, 3);
    assert_sound(&pool);
}

// C7: the step's end does not stand in for other ends.
#[test]
fn a_page_that_waits_for_a_step_and_a_guard_and_a_ticket_waits_for_all_three() {
    let pool = host(4);
    let mut kv = take(&pool, 1, 2 * P);
    write(&mut kv, 2 * P, 7);
    let guard = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
    let ticket = kv.pin_read(1..2, HolderId(1), None).unwrap();
    let step = pool.open_step();
    kv.release();
    let ended = end(&pool, step);
    assert_eq!((ended.pages, ended.quarantined_pages), (2, 2));
    assert_eq!(pool.stats().step_pages, 0);
    assert_eq!(guard.run(0, 0).unwrap(), [7; 8]);
    drop(guard);
    // SAFETY: (1) nobody reads under the ticket.
    unsafe { pool.ticket_done(ticket) }.unwrap();
    pool.maintain(usize::MAX);
    assert_eq!(pool.stats().free_pages, 4);
    assert_sound(&pool);
}

// C7: time frees nothing, and a lost value frees nothing.
#[test]
fn a_lost_step_stays_visible_and_keeps_its_pages_until_it_is_revoked() {
    let pool = null(4);
    let id = pool.open_step().id();
    assert_eq!(pool.open_step().id().sequence(), 2);
    take(&pool, 1, 4 * P).release();
    assert!(matches!(ask(&pool, 2, P), Err(AdmitError::Full { pending_pages: 4, .. })));
    let shown = pool.open_steps();
    assert_eq!(shown.iter().map(|step| step.waiting_pages).collect::<Vec<_>>(), [4, 4]);
    for step in shown {
        // SAFETY: (1) nothing was launched in this test.
        unsafe { pool.revoke_step(step.id, StepLoss::NeverLaunched) }.unwrap();
    }
    assert!(pool.open_steps().is_empty() && !pool.step_is_open(id));
    assert_eq!((pool.stats().revoked_steps, pool.stats().trusted_step_ends, pool.stats().free_pages), (2, 0, 4));
    assert_sound(&pool);
}

// C8
#[test]
fn an_end_that_comes_twice_or_elsewhere_leaves_pool_unchanged_and_gives_the_step_back() {
    let (pool, other) = (null(4), null(4));
    let step = pool.open_step();
    let id = step.id();
    take(&pool, 1, P).release();
    let before = pool.stats();
    // SAFETY: (1) nothing was launched in this test, here and below.
    let (step, error) = unsafe { other.end_step(step) }.unwrap_err().into_parts();
    assert_eq!((error, pool.stats()), (StepError::Unknown(id), before));
    // SAFETY: as above.
    unsafe { pool.revoke_step(id, StepLoss::Finished) }.unwrap();
    let after = pool.stats();
    // SAFETY: as above.
    let (_, error) = unsafe { pool.end_step(step) }.unwrap_err().into_parts();
    assert_eq!(error, StepError::Over(id));
    let never = StepId::from_bits(id.to_bits() + 7).unwrap();
    // SAFETY: as above.
    let error = unsafe { pool.revoke_step(never, StepLoss::Finished) }.unwrap_err();
    assert_eq!(error, StepError::Unknown(never));
    let mut now = pool.stats();
    assert_eq!(now.late_steps, 2);
    now.late_steps = 0;
    assert_eq!(now, after);
    assert_eq!(other.stats().late_steps, 1);
}

#[test]
fn numbers_of_steps_are_never_used_twice() {
    let pool = null(4);
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let step = pool.open_step();
        numbers.push(step.id().sequence());
        end(&pool, step);
    }
    assert_eq!(numbers, [1, 2, 3]);
}

// C7
#[test]
fn a_pool_with_an_open_step_neither_sleeps_nor_closes() {
    let pool = host(4);
    let step = pool.open_step();
    let busy = SuspendError::Busy { promised_pages: 0, tickets: 0, steps: 1 };
    assert_eq!(pool.suspend(), Err(busy), "kernels would read memory that is gone");
    let CloseError { pool, steps, .. } = pool.close().unwrap_err();
    assert_eq!(steps, 1);
    assert_eq!(pool.resize(2).map(drop), Ok(()), "free pages are in no table");
    pool.resize(4).unwrap();
    end(&pool, step);
    assert!(matches!(pool.suspend(), Ok(Suspended::Done { .. })));
    pool.resume().unwrap();
    drop(pool.close().unwrap());
}

// C1: what a smaller pool has too much of is parked behind the step.
#[test]
fn a_pool_that_shrinks_under_a_step_parks_what_comes_back_after_it() {
    let pool = host(8);
    let kv = take(&pool, 1, 6 * P);
    let step = pool.open_step();
    kv.release();
    pool.resize(3).unwrap();
    assert_eq!((pool.stats().parked_pages, pool.stats().step_pages), (2, 6));
    end(&pool, step);
    assert_eq!((pool.stats().parked_pages, pool.stats().free_pages), (5, 3));
    assert_sound(&pool);
}

// C9: eviction for a request takes no more than what is not on its way back behind a step.
#[test]
fn a_request_under_a_step_evicts_once_and_not_again_while_the_pages_come() {
    use pagestamp::{PrefixTokens, Retention};
    let pool = null(8);
    let mut kv = take(&pool, 1, 8 * P);
    kv.assume_written(8 * P).unwrap();
    kv.commit(8 * P).unwrap();
    let tokens: Vec<u32> = (0..8 * P as u32).collect();
    kv.publish(&PrefixTokens::new(&tokens), Retention::default()).unwrap();
    let step = pool.open_step();
    kv.release();
    assert_eq!(pool.stats().cached_pages, 8);
    for _ in 0..3 {
        assert!(matches!(ask(&pool, 2, 2 * P), Err(AdmitError::Full { pending_pages: 2, .. })));
        assert_eq!(pool.stats().cached_pages, 6);
    }
    end(&pool, step);
    take(&pool, 2, 2 * P).release();
    assert_sound(&pool);
}
