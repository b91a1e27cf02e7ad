//! Many threads, by content: who sees what another life wrote.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use pagestamp::{SlotConfig, SlotError};

use crate::stage::{Seat, made, owner, seated};

const THREADS: u64 = 4;

// C2, C3, C4
#[test]
fn threads_that_claim_and_free_never_see_each_others_values() {
    let (pool, proof) = made(SlotConfig::new(96).with_magazines(2), 8);
    let round = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for id in 1..=THREADS {
            let (pool, round) = (&pool, &round);
            scope.spawn(move || {
                let me = owner(id);
                for step in 0..2000 {
                    let mine = round.fetch_add(1, Ordering::Relaxed);
                    let one = pool.claim_one(&proof, me).unwrap();
                    let blank = pool.init_with(me, one, |seat| std::mem::replace(seat, Seat::of(me, mine)));
                    assert_eq!(blank, Ok(Seat::default()), "C3");
                    if step % 5 == 0 {
                        let group = pool.claim(&proof, me, 8).unwrap();
                        (0..8).for_each(|place| group.init(place, Seat::of(me, mine)).unwrap());
                        (0..8).for_each(|place| assert_eq!(group.read(place).unwrap().round, mine, "C2"));
                    }
                    assert_eq!(pool.with(me, one, Seat::clone), Ok(Seat::of(me, mine)), "C2");
                    pool.release(me, one).unwrap();
                    assert!(matches!(pool.read(me, one), Err(SlotError::Stale { .. })), "C4");
                    if step % 100 == 0 {
                        assert_eq!(pool.audit(), Ok(()), "while others go on");
                    }
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!(
        (stats.free_slots, stats.slots_issued, stats.slots_returned),
        (96, 4 * (2000 + 3200), 4 * (2000 + 3200))
    );
    assert_eq!(pool.audit(), Ok(()));
}

// C1, C4
#[test]
fn of_threads_that_release_one_handle_one_does() {
    let (pool, proof) = made(SlotConfig::new(2), 1);
    let barrier = Barrier::new(THREADS as usize);
    for _ in 0..200 {
        let handle = seated(&pool, &proof, owner(1));
        let won: u64 = std::thread::scope(|scope| {
            let one = || {
                barrier.wait();
                u64::from(pool.release(owner(1), handle).is_ok())
            };
            let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((won, pool.stats().free_slots), (1, 2));
    }
    assert_eq!(pool.audit(), Ok(()));
}

// C7, C12
#[test]
fn a_reader_that_races_a_release_sees_its_own_life_or_stale() {
    let (pool, proof) = made(SlotConfig::new(1), 1);
    let barrier = Barrier::new(2);
    for life in 1..500 {
        let me = owner(life);
        let handle = pool.claim_one(&proof, me).unwrap();
        pool.init(me, handle, Seat::of(me, life)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                match pool.read(me, handle) {
                    Ok(seat) => (0..20).for_each(|_| assert_eq!(*seat, Seat::of(me, life))),
                    Err(error) => assert!(matches!(error, SlotError::Stale { .. }), "{error}"),
                }
            });
            barrier.wait();
            pool.release(me, handle).unwrap();
            if let Ok(next) = pool.claim_one(&proof, owner(9999)) {
                let blank = pool.init_with(owner(9999), next, |seat| std::mem::replace(seat, Seat::of(me, 0)));
                assert_eq!(blank, Ok(Seat::default()));
                pool.release(owner(9999), next).unwrap();
            }
        });
        pool.maintain(1);
    }
    assert_eq!((pool.stats().free_slots, pool.audit()), (1, Ok(())));
}

// C9
#[test]
fn slots_in_the_magazines_of_other_threads_are_found_before_full_is_said() {
    // Two threads fight, so that slots lie in magazines; then one claims all there are.
    let (pool, proof) = made(SlotConfig::new(64).with_magazines(4), 64);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for id in 1..=THREADS {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..500 {
                        let one = pool.claim_one(&proof, owner(id)).unwrap();
                        pool.release(owner(id), one).unwrap();
                    }
                });
            }
        });
        let all = pool.claim(&proof, owner(1), 64).unwrap();
        assert_eq!(all.release().slots, 64);
    }
    assert_eq!(pool.audit(), Ok(()));
}
