//! Group 7: admission, capacity and exhaustion.

use std::sync::Barrier;
use std::thread;

use pagestamp::{
    AdmitError, CapacityError, CapacityPlan, ClaimError, ClaimToken, CleanMode, GrowError, HolderId, HostMemory,
    NullMemory, OwnPages, PageGeometry, PagePool, Plane, PoolConfig, RejectReason, Request, Reservation,
};
use proptest::prelude::*;

use crate::stage::*;

// B72, C9
#[test]
fn a_request_that_never_fits_is_refused_at_once_and_blocks_nobody() {
    // 13 pages, one retired for the pool's own use would be 12; here two are the pool's own.
    let geometry = PageGeometry::new(8192, &[Plane::per_token(1, 1)]).unwrap();
    let memory = NullMemory::new(geometry, 14).unwrap();
    let pool = PagePool::new(PoolConfig::new(14).with_own_pages(OwnPages::NullAndSink), memory).unwrap();
    let page = 8192;
    // The advertised context does not fit: no proof, so no request of that size is ever admitted.
    for tokens in [12 * page + 1, 13 * page, 14 * page, u64::MAX] {
        let refused = pool.prove(CapacityPlan::new(tokens)).unwrap_err();
        assert!(
            matches!(refused, CapacityError::PoolTooSmall { usable_pages: 12, required_pages, max_request_tokens, .. }
                if max_request_tokens == tokens && required_pages == tokens.div_ceil(page)),
            "{refused:?}"
        );
    }
    let proof = pool.prove(CapacityPlan::new(12 * page)).unwrap();
    for tokens in [12 * page + 1, 13 * page, u64::MAX] {
        for _ in 0..3 {
            let refused = pool.admit(&proof, Request::new(owner(1), tokens)).unwrap_err();
            let AdmitError::Rejected(rejected) = refused else { panic!("{refused:?}") };
            let RejectReason::NeverFits { asked_tokens, usable_pages: 12, .. } = rejected.reason() else {
                panic!("{:?}", rejected.reason())
            };
            assert_eq!(*asked_tokens, tokens);
        }
    }
    assert_eq!((pool.stats().free_pages, pool.stats().rejected), (12, 9));
    let small = pool.reserve(&proof, Request::new(owner(2), 1), 1).unwrap();
    drop(small);
    let largest = pool.reserve(&proof, Request::new(owner(1), 12 * page), 12 * page).unwrap();
    // Full, not never: the request comes back and succeeds later.
    let AdmitError::Full { request, needed_pages: 1, free_pages: 0, .. } =
        pool.admit(&proof, Request::new(owner(2), 1)).unwrap_err()
    else {
        panic!("full")
    };
    drop(largest);
    drop(pool.admit(&proof, request).unwrap());
    assert_sound(&pool);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    // B73, C9
    #[test]
    fn what_admission_counts_is_what_the_taking_takes(
        total in 1u32..20,
        page_tokens in 1u32..20,
        requests in prop::collection::vec((1u64..400, 0u64..400, any::<bool>()), 1..20),
    ) {
        let geometry = PageGeometry::new(page_tokens, &[Plane::per_token(1, 1)]).unwrap();
        let memory = NullMemory::new(geometry, total).unwrap();
        let pool = PagePool::new(config(total), memory).unwrap();
        let proof = proof(&pool, u64::from(total * page_tokens));
        let mut held = Vec::new();
        for (max_tokens, now, in_two_steps) in requests {
            let now = now.min(max_tokens);
            let before = pool.stats();
            let free = before.free_pages - before.promised_pages;
            let needed = max_tokens.div_ceil(u64::from(page_tokens));
            let request = Request::new(owner(1), max_tokens);
            let taken = if in_two_steps {
                pool.admit(&proof, request).map(|admitted| admitted.reserve(now).unwrap())
            } else {
                pool.reserve(&proof, request, now)
            };
            match taken {
                Ok(mut kv) => {
                    prop_assert!(needed <= free && max_tokens <= proof.plan().max_request_tokens());
                    prop_assert_eq!(u64::from(kv.pages()), now.div_ceil(u64::from(page_tokens)));
                    kv.grow(now + (max_tokens - now) / 2).unwrap();
                    held.push(kv);
                }
                Err(AdmitError::Full { needed_pages, free_pages, .. }) => {
                    prop_assert!(needed > free);
                    prop_assert_eq!((needed_pages, free_pages), (needed, free));
                }
                Err(AdmitError::Rejected(_)) => prop_assert!(max_tokens > proof.plan().max_request_tokens()),
                Err(other) => prop_assert!(false, "{:?}", other),
            }
            pool.audit().unwrap();
        }
        // Everything that was admitted can have everything that it was promised.
        for mut kv in held {
            let max = kv.max_tokens();
            kv.grow(max).unwrap();
        }
        prop_assert_eq!(settle(&pool).free_pages, u64::from(total));
    }
}

// B74, C1, C9
#[test]
fn sixteen_threads_on_ten_pages_never_hold_eleven() {
    let pool = null_pool(10);
    let proof = proof(&pool, P);
    let start = Barrier::new(16);
    let taken: u64 = thread::scope(|scope| {
        let run = || {
            start.wait();
            let mut taken = 0;
            for _ in 0..1000 {
                match pool.reserve(&proof, Request::new(owner(1), P), P) {
                    Ok(kv) => {
                        let stats = pool.stats();
                        assert!(stats.live_pages <= 10 && sum(&stats) == 10, "{stats:?}");
                        taken += 1;
                        drop(kv);
                    }
                    Err(AdmitError::Full { .. }) => thread::yield_now(),
                    Err(other) => panic!("{other:?}"),
                }
            }
            taken
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    let stats = pool.stats();
    assert_eq!((stats.pages_issued, stats.pages_released, stats.free_pages), (taken, taken, 10));
    assert_sound(&pool);
}

// B74, C9
#[test]
fn the_last_page_goes_to_one_of_many_threads() {
    for _ in 0..50 {
        let pool = null_pool(1);
        let proof = proof(&pool, P);
        let start = Barrier::new(4);
        let winners: Vec<_> = thread::scope(|scope| {
            let run = || {
                start.wait();
                pool.reserve(&proof, Request::new(owner(1), P), P).ok()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().filter_map(|t| t.join().unwrap()).collect()
        });
        assert_eq!((winners.len(), pool.stats().live_pages), (1, 1));
    }
}

/// Generations of all pages that owners hold or held, seen through fresh handles.
fn generations<'a>(held: impl IntoIterator<Item = &'a Reservation<HostMemory>>) -> Vec<u64> {
    held.into_iter().flat_map(|kv| kv.handles().map(|h| h.generation().get()).collect::<Vec<_>>()).collect()
}

// B75, C8
#[test]
fn a_reserve_that_is_refused_leaves_pool_unchanged_at_every_size() {
    for used in 0..=10u64 {
        let pool = host_pool(10);
        let proof = proof(&pool, 10 * P);
        let held: Vec<_> = (0..used).map(|_| take_filled(&pool, owner(1), P, 1)).collect();
        let before = generations(&held);
        for asked in 11 - used..=10 {
            let stats = pool.stats();
            let refused = pool.reserve(&proof, Request::new(owner(2), asked * P), asked * P).unwrap_err();
            assert!(
                matches!(refused, AdmitError::Full { needed_pages, free_pages, .. }
                    if needed_pages == asked && free_pages == 10 - used),
                "{refused:?}"
            );
            assert!(pool.admit(&proof, Request::new(owner(2), asked * P)).is_err());
            let after = pool.stats();
            assert_eq!((after.free_pages, after.live_pages, after.promised_pages), (10 - used, used, 0));
            assert_eq!((after.pages_issued, after.pages_released, after.reservations), (used, 0, stats.reservations));
        }
        assert_eq!(generations(&held), before);
        assert!(held.iter().all(|kv| is_all(kv, 1)));
        // What was refused took nothing: all that is left can be had, in its first life.
        if used < 10 {
            let rest = take(&pool, owner(3), (10 - used) * P);
            assert!(generations([&rest]).iter().all(|g| *g == 1));
        }
        assert_sound(&pool);
    }
}

// B75, C8
#[test]
fn a_growth_that_is_refused_leaves_pool_unchanged_at_every_size() {
    for free in 0..5u64 {
        let pool = host_pool(8);
        let mut kv = take_filled(&pool, owner(1), (8 - free) * P, 7);
        let handles: Vec<_> = kv.handles().collect();
        for more in free + 1..=free + 3 {
            let stats = pool.stats();
            let to = (8 - free + more) * P;
            let refused = kv.grow(to).unwrap_err();
            match refused {
                GrowError::Full { needed_pages, free_pages, .. } => {
                    assert_eq!((needed_pages, free_pages), (more, free))
                }
                GrowError::NeverFits { needed_pages, usable_pages: 8, .. } => assert_eq!(needed_pages, 8 - free + more),
                other => panic!("{other:?}"),
            }
            assert_eq!(pool.stats(), stats);
            assert_eq!((kv.reserved_tokens(), kv.handles().collect::<Vec<_>>()), ((8 - free) * P, handles.clone()));
        }
        assert!(is_all(&kv, 7));
        assert_sound(&pool);
    }
}

// B75, C8
#[test]
fn zeroing_that_fails_half_way_through_an_admission_loses_no_page() {
    for failing in 0..4 {
        let memory = pagestamp::HeldMemory::new(geometry(), 4).unwrap();
        let control = memory.control();
        let pool = PagePool::new(config(4).with_clean_mode(CleanMode::Later), memory).unwrap();
        take_filled(&pool, owner(1), 4 * P, 9).release();
        // Some of the dirty pages are cleaned, then the memory refuses.
        pool.maintain(failing);
        control.finish_all();
        control.fail_clean_calls(1);
        let refused = pool.reserve(&proof(&pool, 4 * P), Request::new(owner(2), 4 * P), 4 * P).unwrap_err();
        assert!(matches!(refused, AdmitError::Full { needed_pages: 4, .. }), "{refused:?}");
        let stats = pool.stats();
        assert_eq!((stats.free_pages, stats.cleaning_pages), (failing as u64, 4 - failing as u64));
        pool.audit().unwrap();
        settle(&pool);
        control.finish_all();
        assert_eq!(settle(&pool).free_pages, 4);
        assert_sound(&pool);
    }
}

// B76, C9
#[test]
fn growth_that_was_admitted_never_fails_and_comes_back_unused() {
    let pool = host_pool(16);
    let proof = proof(&pool, 6 * P);
    let mut admitted = Vec::new();
    for who in 1..=4 {
        match pool.reserve(&proof, Request::new(owner(who), 6 * P), 2 * P) {
            Ok(kv) => admitted.push(kv),
            Err(AdmitError::Full { needed_pages, free_pages, promised_pages, .. }) => {
                assert_eq!((needed_pages, free_pages, promised_pages), (6, 4, 8));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((admitted.len(), pool.stats().promised_pages), (2, 8));
    // Somebody takes all that nobody was promised: the promises hold.
    let rest = take(&pool, owner(9), 4 * P);
    for kv in &mut admitted {
        for tokens in 2 * P..=6 * P {
            kv.grow(tokens).unwrap();
        }
    }
    assert_eq!(pool.stats().promised_pages, 0);
    drop(rest);
    drop(admitted.pop());
    // One that stops early gives the rest of its promise back.
    let early = pool.reserve(&proof, Request::new(owner(5), 6 * P), P).unwrap();
    assert_eq!(pool.stats().promised_pages, 5);
    drop(early);
    assert_eq!(pool.stats().promised_pages, 0);
    assert_sound(&pool);
}

// B76, C9
#[test]
fn best_effort_growth_is_refused_and_takes_no_promised_page() {
    let pool = host_pool(4);
    let mut greedy = take(&pool, owner(1), P);
    let mut promised = admit(&pool, owner(2), 3 * P).reserve(0).unwrap();
    assert!(matches!(greedy.grow(2 * P), Err(GrowError::Full { max_tokens: 16, needed_pages: 1, free_pages: 0, .. })));
    promised.grow(3 * P).unwrap();
    assert_sound(&pool);
}

// B78, C9
#[test]
fn one_victim_lets_all_the_others_go_on() {
    let pool = host_pool(8);
    let mut leases: Vec<_> = (1..=4).map(|who| take_filled(&pool, owner(who), 2 * P, who as u8)).collect();
    for kv in &mut leases {
        let refused = kv.grow(3 * P).unwrap_err();
        assert!(
            matches!(refused, GrowError::Full { needed_pages: 1, free_pages: 0, pending_pages: 0, .. }),
            "{refused:?}"
        );
    }
    leases.pop().unwrap().release();
    let grown: Vec<bool> = leases.iter_mut().map(|kv| kv.grow(3 * P).is_ok()).collect();
    assert_eq!(grown, [true, true, false], "two pages came back");
    leases.pop().unwrap().release();
    assert!(leases.iter().zip(1u8..).all(|(kv, byte)| is_all(kv, byte)), "nobody else was reset");
    assert_sound(&pool);
}

// B78, C7, C9
#[test]
fn pending_pages_tell_how_many_victims_are_enough() {
    let (pool, control) = held_pool(16);
    let mut leases: Vec<_> = (1..=4).map(|who| take_filled(&pool, owner(who), 4 * P, 1)).collect();
    let proof = proof(&pool, 4 * P);
    let mut victims = 0;
    loop {
        match pool.admit(&proof, Request::new(owner(9), 4 * P)) {
            Err(AdmitError::Full { needed_pages, free_pages, pending_pages, .. }) => {
                if free_pages + pending_pages >= needed_pages {
                    break;
                }
                drop(leases.pop());
                victims += 1;
            }
            other => panic!("nothing was zeroed yet: {other:?}"),
        }
    }
    assert_eq!(victims, 1);
    control.finish_all();
    assert!(pool.admit(&proof, Request::new(owner(9), 4 * P)).is_ok());
    assert_sound(&pool);
}

// B79, C7
#[test]
fn two_pools_that_wait_for_each_other_refuse_and_are_freed_by_an_end() {
    let (src, dst) = (host_pool(8), host_pool(8));
    let proof = proof(&src, 4 * P);
    // The sender's pages stay until the receiver has fetched them; the receiver wants three before it begins.
    let mut exports = Vec::new();
    let mut received = Vec::new();
    let mut steps = 0;
    while received.len() < 3 {
        steps += 1;
        assert!(steps < 20, "no call waits, so bounded steps end it");
        match src.reserve(&proof, Request::new(owner(1), 4 * P), 4 * P) {
            Ok(mut kv) => {
                write(&mut kv, 4 * P, steps);
                exports.push(kv.pin_read(0..4, HolderId(u64::from(steps)), Some(10)).unwrap());
                kv.release();
            }
            Err(AdmitError::Full { pending_pages, .. }) => {
                assert_eq!((pending_pages, src.tickets().len()), (8, 2), "held by exports, and it says so");
                assert_eq!(src.overdue_tickets(11).len(), 2);
                // The receiver may take a request in without starting it; that ends an export.
                received.push(take(&dst, owner(1), 2 * P));
                // SAFETY: (1): the receiver is this test and reads no more.
                unsafe { src.ticket_done(exports.remove(0)) }.unwrap();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    drop(received);
    assert_sound(&src);
    assert_sound(&dst);
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

// B80, C1, C3, C4
#[test]
fn ten_thousand_aborts_at_random_points_leak_no_page() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        let pool = host_pool_of(config(12).with_clean_mode(mode));
        let proof = proof(&pool, 12 * P);
        let (mut dice, mut forgotten) = (Dice(0x9E37_79B9_7F4A_7C15), 0);
        for round in 0..10_000u64 {
            let (who, tokens) = (owner(1 + dice.below(3)), 1 + dice.below(4 * P));
            let admitted = pool.admit(&proof, Request::new(who, tokens)).unwrap();
            let abort = dice.below(9);
            if abort == 0 {
                continue; // before it has pages
            }
            let mut kv = admitted.reserve(dice.below(tokens + 1)).unwrap();
            if abort == 1 {
                continue; // before a write
            }
            kv.grow(tokens).unwrap();
            if abort == 2 {
                let mut writer = kv.writer(tokens).unwrap();
                writer.plane(0, &vec![0xBB; (tokens * 8) as usize]).unwrap();
                continue; // in the middle of a write
            }
            write(&mut kv, 1 + dice.below(tokens), 0xCC);
            match abort {
                3 => drop(kv.reject("gone")),
                4 => {
                    // while an outside party reads
                    let ticket = kv.pin_read(0..1, HolderId(round), None).unwrap();
                    kv.release();
                    // SAFETY: (1): nobody reads.
                    unsafe { pool.ticket_done(ticket) }.unwrap();
                }
                5 => {
                    let guard = pool.read(who, kv.handle(0).unwrap()).unwrap();
                    kv.release();
                    drop(guard);
                }
                6 => {
                    pool.reclaim(who);
                }
                7 => {
                    let handles = kv.into_handles().unwrap();
                    pool.release_pages(who, &handles).unwrap();
                }
                _ => {
                    // Never dropped: its record stays, its pages do not.
                    std::mem::forget(kv);
                    forgotten += 1;
                    pool.reclaim(who);
                }
            }
            if round % 500 == 0 {
                assert_eq!(settle(&pool).free_pages, 12);
                assert_sound(&pool);
            }
        }
        let stats = settle(&pool);
        assert_eq!((stats.free_pages, stats.reservations, stats.tickets), (12, forgotten, 0));
        assert_eq!(stats.pages_issued, stats.pages_released);
        // Each life of a page ended once: what the generations rose by is what was released.
        let all = take(&pool, owner(1), 12 * P);
        let risen: u64 = all.handles().map(|h| h.generation().get() - 1).sum();
        assert_eq!(risen, stats.pages_released);
        assert_sound(&pool);
    }
}

const TOKEN: ClaimToken = ClaimToken { id: 77, expires_at_ns: 1000 };

fn claim(pool: &PagePool<HostMemory>, who: u64, token: ClaimToken) -> Result<Reservation<HostMemory>, Box<AdmitError>> {
    pool.reserve(&proof(pool, P), Request::new(owner(who), P).with_claim(token), P).map_err(Box::new)
}

fn claim_error(refused: Result<Reservation<HostMemory>, Box<AdmitError>>) -> ClaimError {
    match refused.map_err(|error| *error) {
        Err(AdmitError::Claim { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

// B83, C8
#[test]
fn a_claim_asked_again_after_a_lost_answer_gives_the_same_pages() {
    let pool = host_pool(3);
    let mut first = claim(&pool, 1, TOKEN).unwrap();
    write(&mut first, 5, 0x83);
    let handle = first.handle(0).unwrap();
    assert_eq!(claim_error(claim(&pool, 1, TOKEN)), ClaimError::InUse);
    drop(first); // the answer was lost
    assert_eq!(claim_error(claim(&pool, 2, TOKEN)), ClaimError::ForeignOwner);
    let mut again = claim(&pool, 1, TOKEN).unwrap();
    assert_eq!((again.handle(0), again.written_tokens()), (Some(handle), 5));
    assert_eq!(pool.stats().live_pages, 1);
    again.confirm_claim();
    drop(again);
    assert_eq!(claim_error(claim(&pool, 1, TOKEN)), ClaimError::Ended);
    assert!(is_stale(&pool, owner(1), handle));
    assert_eq!(settle(&pool).free_pages, 3);
    assert_sound(&pool);
}

// B83, C3, C4
#[test]
fn a_claim_that_nobody_asks_for_again_expires_zeroed_and_late_tries_are_refused() {
    let pool = host_pool(1);
    let mut first = claim(&pool, 1, TOKEN).unwrap();
    write(&mut first, P, 0x83);
    let handle = first.handle(0).unwrap();
    assert_eq!(pool.expire_claims(u64::MAX), 0, "a claim that is out is never touched");
    drop(first);
    assert_eq!(pool.expire_claims(999), 0);
    assert!(pool.check(owner(1), handle).is_ok());
    assert_eq!(pool.expire_claims(1000), 1);
    assert!(is_stale(&pool, owner(1), handle) && is_zero(&pool, 0));
    assert_eq!(claim_error(claim(&pool, 1, TOKEN)), ClaimError::Ended);
    assert_eq!(pool.expire_claims(u64::MAX), 0);
    assert_eq!(pool.stats().free_pages, 1);
    assert_sound(&pool);
}

// B83, C2
#[test]
fn two_threads_with_one_claim_never_get_pages_each() {
    for round in 0..300 {
        let pool = host_pool(4);
        let start = Barrier::new(4);
        let token = ClaimToken { id: round, expires_at_ns: 1 };
        let got: Vec<_> = thread::scope(|scope| {
            let run = || {
                start.wait();
                claim(&pool, 1, token)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let winners = got.iter().filter(|g| g.is_ok()).count();
        assert_eq!((winners, pool.stats().live_pages), (1, 1), "round {round}");
        drop(got);
        pool.expire_claims(1);
        assert_eq!(settle(&pool).free_pages, 4);
        assert_sound(&pool);
    }
}
