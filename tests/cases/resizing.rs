//! Group 8: changing capacity at run time.

use pagestamp::{AdmitError, CapacityPlan, Request, Resized};

use crate::stage::*;

// B84, C1, C9
#[test]
fn a_shrink_below_what_is_live_and_promised_is_pending_and_moves_nothing() {
    let pool = host_pool(16);
    let proof = proof(&pool, 4 * P);
    let live: Vec<_> = (0..6).map(|n| take_filled(&pool, owner(1), P, n + 1)).collect();
    let mut promised = pool.reserve(&proof, Request::new(owner(2), 4 * P), 0).unwrap();
    let before: Vec<_> = live.iter().flat_map(|kv| kv.handles().collect::<Vec<_>>()).collect();

    assert_eq!(pool.resize(8).unwrap(), Resized::Pending { target_pages: 8, pages: 10 });
    assert_sound(&pool);
    // The promise is honoured, and nobody else gets anything.
    let refused = pool.admit(&proof, Request::new(owner(3), P)).unwrap_err();
    assert!(matches!(refused, AdmitError::Full { free_pages: 0, .. }), "{refused:?}");
    promised.grow(4 * P).unwrap();
    assert!(live.iter().zip(1u8..).all(|(kv, byte)| is_all(kv, byte)));
    assert!(before.iter().all(|handle| pool.check(owner(1), *handle).is_ok()));

    // It completes as pages come back, with no other call.
    drop(promised);
    let stats = settle(&pool);
    assert_eq!((stats.parked_pages, stats.live_pages, stats.usable_pages), (8, 6, 8));
    assert_eq!(pool.resize(8).unwrap(), Resized::Done { pages: 8 });
    drop(live);
    assert_eq!(settle(&pool).free_pages, 8);
    assert_sound(&pool);
}

// B84, C9
#[test]
fn a_shrink_completes_when_promises_end_unused() {
    for end in 0..5 {
        let pool = host_pool(16);
        let live = take_filled(&pool, owner(1), 6 * P, 1);
        let mut kv = pool.reserve(&proof(&pool, 4 * P), Request::new(owner(2), 4 * P), 0).unwrap();
        let small = proof(&pool, P);
        assert_eq!(pool.resize(8).unwrap(), Resized::Pending { target_pages: 8, pages: 10 });
        match end {
            0 => drop(kv),
            1 => drop(kv.reject("gone")),
            2 => drop(kv.shrink(0)),
            3 => drop(kv.into_handles()),
            _ => drop(pool.reclaim(owner(2))),
        }
        let stats = pool.stats();
        assert_eq!((stats.parked_pages, stats.free_pages), (8, 2), "way {end}: no page above the target is had again");
        let mut more = Vec::new();
        while let Ok(kv) = pool.reserve(&small, Request::new(owner(3), P), P) {
            more.push(kv);
        }
        assert_eq!(pool.stats().live_pages, 8);
        drop(live);
        assert_sound(&pool);
    }
}

// B84, C9
#[test]
fn a_proof_is_void_after_a_shrink_below_its_plan_and_admissions_stand() {
    let pool = host_pool(16);
    let large = proof(&pool, 10 * P);
    let admitted = pool.admit(&large, Request::new(owner(1), 10 * P)).unwrap();
    pool.resize(8).unwrap();
    let refused = pool.admit(&large, Request::new(owner(1), P)).unwrap_err();
    assert!(
        matches!(refused, AdmitError::ProofVoid { required_pages: 10, usable_pages: 8, proof_epoch: 1, epoch: 2, .. }),
        "{refused:?}"
    );
    assert!(pool.prove(CapacityPlan::new(10 * P)).is_err());
    let kv = admitted.reserve(10 * P).unwrap();
    assert_eq!(kv.pages(), 10, "what was admitted is honoured");
    drop(kv);
    pool.resize(16).unwrap();
    assert!(pool.admit(&large, Request::new(owner(1), P)).is_ok(), "the plan holds again");
    assert_sound(&pool);
}

// B84, C1
#[test]
fn every_order_of_shrinking_and_growing_keeps_the_books() {
    let pool = host_pool(9);
    let kv = take_filled(&pool, owner(1), 3 * P, 0x84);
    for from in 1..=9 {
        for to in 1..=9 {
            pool.resize(from).unwrap();
            pool.resize(to).unwrap();
            assert_sound(&pool);
            let stats = pool.stats();
            assert_eq!(stats.parked_pages, u64::from(9 - to.max(3)), "{from} to {to}");
            assert_eq!((stats.live_pages, stats.usable_pages), (3, u64::from(to)));
        }
    }
    assert!(is_all(&kv, 0x84));
}
