//! Claims under a name: the same slots again after a lost answer, and nothing more.

use std::sync::Barrier;

use pagestamp::{ClaimError, ClaimToken, SlotClaimError};

use crate::stage::{Seat, owner, pool};

const TOKEN: ClaimToken = ClaimToken { id: 7, expires_at_ns: 100 };

fn why<T>(result: Result<T, SlotClaimError>) -> ClaimError {
    match result {
        Err(SlotClaimError::Claim(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("slots were given"),
    }
}

// C8
#[test]
fn a_claim_asked_again_after_a_lost_answer_gives_the_same_slots() {
    let (pool, proof) = pool(8, 4);
    let first = pool.claim_named(&proof, owner(1), 3, TOKEN).unwrap();
    first.init(2, Seat::of(owner(1), 1)).unwrap();
    let handles = first.handles().to_vec();
    assert_eq!(why(pool.claim_named(&proof, owner(1), 3, TOKEN)), ClaimError::InUse);
    drop(first);
    assert_eq!(pool.stats().live_slots, 3, "kept");
    assert_eq!(why(pool.claim_named(&proof, owner(2), 3, TOKEN)), ClaimError::ForeignOwner);
    assert_eq!(why(pool.claim_named(&proof, owner(1), 4, TOKEN)), ClaimError::OtherGroup { slots: 3 });
    for _ in 0..3 {
        let again = pool.claim_named(&proof, owner(1), 3, TOKEN).unwrap();
        assert_eq!(again.handles(), handles);
        assert_eq!(again.read(2).unwrap().round, 1);
    }
    let mut arrived = pool.claim_named(&proof, owner(1), 3, TOKEN).unwrap();
    arrived.confirm_claim();
    assert_eq!(why(pool.claim_named(&proof, owner(1), 3, TOKEN)), ClaimError::Ended, "a late duplicate");
    drop(arrived);
    assert_eq!((pool.stats().free_slots, pool.audit()), (8, Ok(())));
}

// C7
#[test]
fn only_a_claim_whose_handles_never_arrived_expires() {
    let (pool, proof) = pool(8, 4);
    let other = ClaimToken { id: 8, ..TOKEN };
    let held = pool.claim_named(&proof, owner(1), 2, TOKEN).unwrap();
    drop(pool.claim_named(&proof, owner(2), 3, other).unwrap());
    assert_eq!(pool.expire_claims(99), 0, "not yet");
    assert_eq!(pool.expire_claims(u64::MAX), 1, "time takes the lost one, not the held one");
    assert_eq!(pool.stats().live_slots, 2);
    assert_eq!(why(pool.claim_named(&proof, owner(2), 3, other)), ClaimError::Ended);
    assert_eq!(held.release().slots, 2);
    assert_eq!(why(pool.claim_named(&proof, owner(1), 2, TOKEN)), ClaimError::Ended);
}

// C2
#[test]
fn a_claim_whose_slots_were_reclaimed_has_ended() {
    let (pool, proof) = pool(8, 4);
    let names = [7, 8, 9].map(|id| ClaimToken { id, ..TOKEN });
    drop(pool.claim_named(&proof, owner(1), 2, names[0]).unwrap());
    std::mem::forget(pool.claim_named(&proof, owner(1), 2, names[1]).unwrap());
    let part = pool.claim_named(&proof, owner(2), 2, names[2]).unwrap();
    assert_eq!(pool.reclaim(owner(1)).slots, 4);
    assert_eq!(why(pool.claim_named(&proof, owner(1), 2, names[0])), ClaimError::Ended);
    assert_eq!(why(pool.claim_named(&proof, owner(1), 2, names[1])), ClaimError::Ended);
    pool.release(owner(2), part.handle(0).unwrap()).unwrap();
    drop(part);
    assert_eq!(why(pool.claim_named(&proof, owner(2), 2, names[2])), ClaimError::Ended, "half a group is none");
    assert_eq!((pool.stats().free_slots, pool.audit()), (8, Ok(())));
}

// C8
#[test]
fn a_named_claim_that_is_refused_leaves_no_name() {
    let (pool, proof) = pool(4, 4);
    let all = pool.claim(&proof, owner(1), 4).unwrap();
    assert!(matches!(pool.claim_named(&proof, owner(2), 2, TOKEN), Err(SlotClaimError::Full { .. })));
    drop(all);
    assert_eq!(pool.claim_named(&proof, owner(3), 1, TOKEN).unwrap().handles().len(), 1);
}

// C7
#[test]
fn asking_again_puts_the_expiry_off() {
    let (pool, proof) = pool(8, 4);
    drop(pool.claim_named(&proof, owner(1), 3, TOKEN).unwrap());
    let later = ClaimToken { expires_at_ns: 200, ..TOKEN };
    drop(pool.claim_named(&proof, owner(1), 3, later).unwrap());
    assert_eq!((pool.expire_claims(199), pool.stats().live_slots), (0, 3), "somebody still asks");
    assert_eq!((pool.expire_claims(200), pool.stats().live_slots), (1, 0));
}

// C2
#[test]
fn a_kept_claim_of_which_a_slot_was_released_gives_back_the_rest() {
    let (pool, proof) = pool(8, 4);
    let lost = pool.claim_named(&proof, owner(1), 3, TOKEN).unwrap();
    let one = lost.handle(1).unwrap();
    drop(lost);
    pool.release(owner(1), one).unwrap();
    assert_eq!(why(pool.claim_named(&proof, owner(1), 3, TOKEN)), ClaimError::Ended, "two of three are no lobby");
    assert_eq!((pool.stats().free_slots, pool.audit()), (8, Ok(())));
}

// C7
#[test]
fn a_claim_ends_with_the_release_of_its_group_and_with_its_handles() {
    let (pool, proof) = pool(8, 4);
    let claim = |id| pool.claim_named(&proof, owner(1), 2, ClaimToken { id, ..TOKEN });
    assert_eq!(claim(1).unwrap().release().slots, 2);
    assert_eq!(why(claim(1)), ClaimError::Ended);
    let handles = claim(2).unwrap().into_handles();
    assert_eq!(why(claim(2)), ClaimError::Ended, "they arrived");
    assert_eq!((pool.expire_claims(u64::MAX), pool.stats().live_slots), (0, 2), "time takes nothing that arrived");
    handles.into_iter().for_each(|handle| pool.release(owner(1), handle).unwrap());
}

// C8
#[test]
fn of_threads_that_ask_under_one_name_one_gets_the_slots() {
    let (pool, proof) = pool(8, 4);
    let barrier = Barrier::new(2);
    for id in 1..400 {
        let ask = || {
            barrier.wait();
            pool.claim_named(&proof, owner(1), 2, ClaimToken { id, ..TOKEN })
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(ask);
            [ask(), other.join().unwrap()]
        });
        assert_eq!(pool.stats().live_slots, 2, "one claim, whoever asks");
        let [here, there] = both;
        match (here, there) {
            (Ok(group), refused) | (refused, Ok(group)) => {
                assert_eq!(why(refused), ClaimError::InUse);
                assert_eq!(group.release().slots, 2);
            }
            (Err(_), Err(error)) => panic!("nobody got them: {error}"),
        }
    }
    assert_eq!((pool.stats().free_slots, pool.audit()), (8, Ok(())));
}

// C8
#[test]
fn a_group_from_before_its_name_was_forgotten_leaves_the_next_claim_of_that_name_alone() {
    let (pool, proof) = pool(4, 1);
    let token = |id| ClaimToken { id, expires_at_ns: id as u64 };
    let mut old = [0, 1].map(|id| pool.claim_named(&proof, owner(1), 1, token(id)).unwrap());
    pool.reclaim(owner(1));
    assert_eq!(pool.expire_claims(1), 0);
    // So many claims have ended since that these names are forgotten.
    for id in 2..9000 {
        pool.claim_named(&proof, owner(1), 1, token(id)).unwrap().release();
    }
    let new = [0, 1].map(|id| pool.claim_named(&proof, owner(1), 1, token(id)).unwrap());
    let handles = new.each_ref().map(|group| group.handles().to_vec());
    old[1].confirm_claim();
    drop(old);
    drop(new); // both answers were lost
    for id in [0, 1] {
        let again = pool.claim_named(&proof, owner(1), 1, token(id as u128)).unwrap();
        assert_eq!(again.handles(), handles[id]);
    }
}
