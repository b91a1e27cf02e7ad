//! Guards that are forgotten: counted, in nobody's hand, until somebody takes the blame.

use pagestamp::{PageState, SlotError};

use crate::stage::{Seat, is_stale, owner, pool, seated};

// C7
#[test]
fn a_forgotten_guard_keeps_its_slot_from_everybody_and_is_counted() {
    let (pool, proof) = pool(2, 1);
    let (me, you) = (owner(1), owner(2));
    let (read, written) = (seated(&pool, &proof, me), seated(&pool, &proof, me));
    std::mem::forget(pool.read(me, read).unwrap());
    std::mem::forget(pool.write(me, written).unwrap());
    assert!(matches!(pool.write(me, read), Err(SlotError::Busy { readers: 1, .. })));
    assert!(matches!(pool.read(me, written), Err(SlotError::Busy { readers: 0, .. })));
    let reclaimed = pool.reclaim(me);
    assert_eq!((reclaimed.slots, reclaimed.quarantined_slots), (2, 2));
    for _ in 0..3 {
        assert_eq!(pool.maintain(9), 0);
        assert!(pool.claim_one(&proof, you).is_err());
    }
    let stats = pool.stats();
    assert_eq!((stats.quarantined_slots, stats.accessed_slots, stats.free_slots), (2, 2, 0));
    assert_eq!(pool.audit(), Ok(()));

    for handle in [read, written] {
        // SAFETY: (1) both guards were forgotten above, and nothing was got from them.
        unsafe { pool.assume_forgotten(handle) }.unwrap();
        assert!(is_stale(pool.read(me, handle), PageState::Quarantined));
        let next = pool.claim_one(&proof, you).unwrap();
        assert_eq!(pool.init_with(you, next, |seat| seat.clone()), Ok(Seat::default()));
    }
    assert_eq!((pool.stats().trusted_ends, pool.audit()), (2, Ok(())));
}

// C7
#[test]
fn only_a_released_slot_with_guards_can_be_said_to_be_forgotten() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    // SAFETY: (1) there is no guard on any of these lives that is used again.
    let say = |handle| unsafe { pool.assume_forgotten(handle) };
    let refused = |result| matches!(result, Err(SlotError::NotQuarantined { .. }));
    assert!(refused(say(handle)), "live");
    std::mem::forget(pool.read(owner(1), handle).unwrap());
    assert!(refused(say(handle)), "live, with a guard");
    pool.release(owner(1), handle).unwrap();
    assert_eq!(say(handle), Ok(()));
    assert!(refused(say(handle)), "nobody is at it any more");
    assert_eq!(pool.maintain(1), 1);
    let next = seated(&pool, &proof, owner(2));
    std::mem::forget(pool.read(owner(2), next).unwrap());
    pool.release(owner(2), next).unwrap();
    assert!(refused(say(handle)), "a later life's guards are not this handle's");
    assert_eq!(pool.stats().trusted_ends, 1);
}
