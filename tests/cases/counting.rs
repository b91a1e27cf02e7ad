//! Group 11: statistics.

use pagestamp::{HolderId, HostMemory, OwnPages, PagePool, PoolConfig, Request};

use crate::stage::*;

// B99, C1
#[test]
fn pages_that_move_between_two_pools_are_counted_in_the_right_one() {
    let tiers = [host_pool(4), host_pool(4)];
    let mut fast: Vec<pagestamp::Reservation<HostMemory>> = Vec::new();
    let mut slow: Vec<pagestamp::Reservation<HostMemory>> = Vec::new();
    for round in 0..100u64 {
        if fast.len() == 4 {
            // Offload the oldest: copy it down, then release it here.
            if slow.len() == 4 {
                drop(slow.remove(0));
            }
            let victim = fast.remove(0);
            slow.push(take_filled(&tiers[1], victim.owner(), P, bytes(&victim)[0]));
            victim.release();
        }
        fast.push(take_filled(&tiers[0], owner(1 + round), P, round as u8));
        for (tier, held) in tiers.iter().zip([&fast, &slow]) {
            let stats = tier.stats();
            assert_eq!((stats.live_pages, stats.free_pages), (held.len() as u64, 4 - held.len() as u64));
            assert_eq!(stats.pages_issued - stats.pages_released, stats.live_pages);
            assert_sound(tier);
        }
    }
    assert!(slow.iter().chain(&fast).all(|kv| is_all(kv, (kv.owner().get() - 1) as u8)));
}

/// One page in every state that a pool of this issue can have it in.
fn one_of_each() -> (PagePool<HostMemory>, Vec<Box<dyn std::any::Any>>) {
    let memory = HostMemory::new(geometry(), 12).unwrap();
    let config = PoolConfig::new(11)
        .with_own_pages(OwnPages::NullAndSink)
        .with_clean_mode(pagestamp::CleanMode::Later)
        .with_last_generation(pagestamp::Generation::new(2).unwrap());
    let pool = PagePool::new(config, memory).unwrap();
    let retired = take_filled(&pool, owner(1), P, 1);
    retired.release();
    settle(&pool);
    let pinned = take_filled(&pool, owner(1), P, 1);
    pinned.pin_read(0..1, HolderId(1), None).unwrap();
    pinned.release();
    let live = take_filled(&pool, owner(2), 2 * P, 2);
    let promise = admit(&pool, owner(3), 3 * P);
    take_filled(&pool, owner(4), P, 4).release();
    (pool, vec![Box::new(live), Box::new(promise)])
}

// B100, C1
#[test]
fn every_kind_of_page_has_its_own_number_and_they_add_up() {
    let (pool, held) = one_of_each();
    let stats = pool.stats();
    assert_eq!((stats.reserved_pages, stats.parked_pages, stats.retired_pages), (2, 1, 1));
    assert_eq!((stats.live_pages, stats.quarantined_pages, stats.cleaning_pages, stats.cached_pages), (2, 1, 1, 0));
    assert_eq!((stats.free_pages, stats.promised_pages), (4, 3), "a promise is an overlay of the free pages");
    assert_eq!((stats.usable_pages, stats.tickets, stats.reservations), (8, 1, 2));
    assert_eq!(sum(&stats), 12);
    assert_sound(&pool);
    drop(held);
    assert_eq!((pool.stats().live_pages, pool.stats().promised_pages), (0, 0), "after a drain nothing is live");
    assert_sound(&pool);
}

// B100, C1
#[test]
fn requests_that_came_and_went_leave_no_page_that_looks_used() {
    let pool = host_pool(24);
    let proof = proof(&pool, 2 * P);
    for who in 1..=24 {
        let mut kv = pool.reserve(&proof, Request::new(owner(who), 2 * P), P).unwrap();
        write(&mut kv, P, who as u8);
        kv.commit(P).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.live_pages, stats.cached_pages, stats.free_pages), (0, 0, 24));
    assert_eq!((stats.admitted, stats.pages_issued, stats.pages_released, stats.pages_cleaned), (24, 24, 24, 24));
    assert_eq!(stats.bytes_zeroed, 24 * geometry().total_page_bytes());
}
