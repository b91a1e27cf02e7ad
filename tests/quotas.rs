//! What an owner may have at the most: exact, shared pages once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cases/stage.rs"]
#[expect(dead_code, reason = "shared with the cases, which use all of it")]
#[expect(unsafe_code, reason = "as there")]
mod stage;

use pagestamp::{
    AdmitError, GrowError, HostMemory, Limit, OwnerQuota, PageMemory, PagePool, PrefixTokens, RejectReason, Request,
    Retention, WriteError,
};
use proptest::prelude::*;
use stage::{admit, assert_sound, host_pool, null_pool, owner, proof, take, take_filled, write};

fn used<M: PageMemory>(pool: &PagePool<M>, who: u64) -> u64 {
    pool.quota(owner(who)).unwrap().used_pages
}

// C9
#[test]
fn a_hard_quota_counts_pages_held_and_promised_and_never_a_page_too_many() {
    let pool = null_pool(16);
    let before = take(&pool, owner(1), 32);
    pool.set_quota(owner(1), OwnerQuota::NONE.with_hard_pages(5));
    assert_eq!(used(&pool, 1), 2, "what it had counts");
    let admitted = admit(&pool, owner(1), 48);
    assert_eq!(used(&pool, 1), 5);
    let full = pool.admit(&proof(&pool, 48), Request::new(owner(1), 16)).unwrap_err();
    assert!(matches!(
        full,
        AdmitError::Full { needed_pages: 1, free_pages: 0, pending_pages: 0, limit: Limit::HardQuota, .. }
    ));
    assert!(pool.admit(&proof(&pool, 48), Request::new(owner(2), 48)).is_ok(), "others are not concerned");
    let never = pool.admit(&proof(&pool, 96), Request::new(owner(1), 96)).unwrap_err();
    let AdmitError::Rejected(never) = never else { panic!("{never:?}") };
    let reason = never.reason();
    assert!(matches!(
        reason,
        RejectReason::NeverFits { needed_pages: 6, usable_pages: 5, limit: Limit::HardQuota, .. }
    ));
    let mut kv = admitted.reserve(20).unwrap();
    kv.grow(48).unwrap();
    assert_eq!(used(&pool, 1), 5);
    let full = kv.grow(49).unwrap_err();
    assert!(matches!(full, GrowError::Full { needed_pages: 1, free_pages: 0, limit: Limit::HardQuota, .. }));
    before.release();
    kv.grow(80).unwrap();
    let never = kv.grow(81).unwrap_err();
    assert!(matches!(never, GrowError::NeverFits { needed_pages: 6, usable_pages: 5, limit: Limit::HardQuota }));
    assert_sound(&pool);
    kv.shrink(16).unwrap();
    assert_eq!(used(&pool, 1), 1);
    let handles = kv.into_handles().unwrap();
    assert_eq!(used(&pool, 1), 1, "an engine's own arrays count");
    pool.release_pages(owner(1), &handles).unwrap();
    assert_eq!(used(&pool, 1), 0);
    pool.set_quota(owner(1), OwnerQuota::NONE);
    assert_eq!(pool.quota(owner(1)), None);
    assert_sound(&pool);
}

// C9
#[test]
fn a_quota_below_what_an_owner_has_takes_nothing_and_lets_nothing_in() {
    let pool = null_pool(16);
    let kv = take(&pool, owner(1), 64);
    pool.set_quota(owner(1), OwnerQuota::NONE.with_hard_pages(2));
    assert_eq!((used(&pool, 1), kv.pages()), (4, 4));
    let full = pool.reserve(&proof(&pool, 16), Request::new(owner(1), 16), 16).unwrap_err();
    assert!(matches!(full, AdmitError::Full { needed_pages: 1, free_pages: 0, limit: Limit::HardQuota, .. }));
    kv.release();
    assert_eq!(take(&pool, owner(1), 32).pages(), 2);
    pool.set_quota(owner(1), OwnerQuota::NONE.with_hard_pages(0));
    let never = pool.reserve(&proof(&pool, 16), Request::new(owner(1), 16), 16).unwrap_err();
    assert!(matches!(never, AdmitError::Rejected(_)));
    assert_sound(&pool);
}

// C2
#[test]
fn shared_pages_count_once_and_cached_ones_not_at_all() {
    let pool = host_pool(16);
    pool.set_quota(owner(1), OwnerQuota::NONE.with_hard_pages(5));
    let text: Vec<u32> = (0..32).collect();
    let mut kv = take_filled(&pool, owner(1), 32, 7);
    kv.commit(32).unwrap();
    kv.publish(&PrefixTokens::new(&text), Retention::default()).unwrap();
    let forks: Vec<_> = (0..3).map(|_| kv.fork(&proof(&pool, 32), Request::new(owner(1), 32)).unwrap()).collect();
    assert_eq!(used(&pool, 1), 2);
    drop(forks);
    assert_eq!(used(&pool, 1), 2);
    kv.release();
    assert_eq!((used(&pool, 1), pool.stats().cached_pages), (0, 2));
    let other = take(&pool, owner(1), 64);
    let hit = pool.lookup(owner(1), &PrefixTokens::new(&text)).unwrap();
    assert_eq!((hit.tokens(), used(&pool, 1)), (16, 5), "a hit that would pass the quota ends before");
    drop(other);
    let mut kv = pool.reserve_with_prefix(&proof(&pool, 80), Request::new(owner(1), 80), hit, 80).unwrap();
    assert_eq!(used(&pool, 1), 5);
    let beam = kv.fork(&proof(&pool, 16), Request::new(owner(1), 16)).unwrap();
    kv.truncate(4).unwrap();
    let planes = [vec![1; 8], vec![1; 6]];
    let full = kv.write(1, &[&planes[0], &planes[1]]).unwrap_err();
    assert!(matches!(full, WriteError::NoFreshPage { needed_pages: 1, free_pages: 0, .. }), "{full}");
    drop(beam);
    write(&mut kv, 1, 1);
    assert_eq!(used(&pool, 1), 5, "published, and rewritten in place");
    assert_sound(&pool);
    pool.reclaim(owner(1));
    assert_eq!(used(&pool, 1), 0);
    assert_sound(&pool);
}

// C9
#[test]
fn past_its_soft_quota_an_owner_evicts_its_own_pages_and_loses_its_own_first() {
    let pool = null_pool(8);
    let text = |seed: u32| (0..32).map(|at| seed * 100 + at).collect::<Vec<u32>>();
    for who in [1, 2] {
        let mut kv = take(&pool, owner(who), 32);
        kv.assume_written(32).unwrap();
        kv.commit(32).unwrap();
        kv.publish(&PrefixTokens::new(&text(who as u32)), Retention::default()).unwrap();
    }
    let hit = |who: u64| pool.lookup(owner(who), &PrefixTokens::new(&text(who as u32))).map_or(0, |hit| hit.tokens());
    pool.set_quota(owner(2), OwnerQuota::NONE.with_soft_pages(3));
    let kv = take(&pool, owner(2), 48);
    assert_eq!(pool.owners_past_soft_quota(), []);
    let more = take(&pool, owner(2), 48);
    assert_eq!((hit(1), hit(2)), (32, 0), "its own went, although they were the newer");
    let full = pool.reserve(&proof(&pool, 16), Request::new(owner(2), 16), 16).unwrap_err();
    assert!(
        matches!(full, AdmitError::Full { needed_pages: 1, free_pages: 0, limit: Limit::SoftQuota, .. }),
        "{full:?}"
    );
    let past = pool.owners_past_soft_quota();
    assert_eq!((past.len(), past[0].owner, past[0].over_soft_pages()), (1, owner(2), 3));
    assert_eq!(take(&pool, owner(3), 16).pages(), 1, "the pool has room for others");
    drop((kv, more));
    assert_sound(&pool);
}

#[derive(Clone, Debug)]
enum Op {
    Reserve { who: u64, max: u64, now: u64 },
    Grow { which: usize, to: u64 },
    Fork { which: usize },
    Publish { which: usize },
    Lookup { who: u64 },
    Cut { which: usize, to: u64 },
    Slide { which: usize, to: u64 },
    Shrink { which: usize },
    Release { which: usize },
    Reclaim { who: u64 },
    Quota { who: u64, hard: u64 },
    Evict { pages: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1..4u64, 1..100u64, 0..100u64).prop_map(|(who, max, now)| Op::Reserve { who, max, now: now.min(max) }),
        2 => (0..6usize, 0..120u64).prop_map(|(which, to)| Op::Grow { which, to }),
        2 => (0..6usize).prop_map(|which| Op::Fork { which }),
        3 => (0..6usize).prop_map(|which| Op::Publish { which }),
        3 => (1..4u64).prop_map(|who| Op::Lookup { who }),
        2 => (0..6usize, 0..60u64).prop_map(|(which, to)| Op::Cut { which, to }),
        2 => (0..6usize, 0..60u64).prop_map(|(which, to)| Op::Slide { which, to }),
        1 => (0..6usize).prop_map(|which| Op::Shrink { which }),
        3 => (0..6usize).prop_map(|which| Op::Release { which }),
        1 => (1..4u64).prop_map(|who| Op::Reclaim { who }),
        2 => (1..4u64, 0..12u64).prop_map(|(who, hard)| Op::Quota { who, hard }),
        1 => (0..4u64).prop_map(|pages| Op::Evict { pages }),
    ]
}

/// Fills what is reserved, so that forks and hits have something to share.
fn fill(kv: &mut pagestamp::Reservation<HostMemory>) {
    let tokens = kv.reserved_tokens() - kv.written_tokens();
    let planes = [vec![3; tokens as usize * 8], vec![3; tokens as usize * 6]];
    let _ = kv.write(tokens, &[&planes[0], &planes[1]]);
    kv.commit(kv.written_tokens().max(kv.committed_tokens())).unwrap_or(());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    // C1, C9
    #[test]
    fn whatever_is_done_the_books_equal_a_full_walk(ops in prop::collection::vec(op(), 1..60)) {
        let pool = host_pool(16);
        let plan = proof(&pool, 120);
        let text: Vec<u32> = (0..120).collect();
        let mut open = Vec::new();
        for op in ops {
            match op {
                Op::Reserve { who, max, now } => {
                    open.extend(pool.reserve(&plan, Request::new(owner(who), max), now).ok().map(|mut kv| { fill(&mut kv); kv }));
                }
                Op::Grow { which, to } => if let Some(kv) = open.get_mut(which)
                    && kv.grow(to).is_ok()
                {
                    fill(kv);
                },
                Op::Fork { which } => if let Some(kv) = open.get(which) {
                    let copy = kv.fork(&plan, Request::new(kv.owner(), kv.written_tokens().max(40)));
                    open.extend(copy.ok());
                },
                Op::Publish { which } => if let Some(kv) = open.get_mut(which) {
                    kv.publish(&PrefixTokens::new(&text), Retention::default()).ok();
                },
                Op::Lookup { who } => if let Some(hit) = pool.lookup(owner(who), &PrefixTokens::new(&text)) {
                    let max = hit.tokens() + 20;
                    open.extend(pool.reserve_with_prefix(&plan, Request::new(owner(who), max), hit, max).ok());
                },
                Op::Cut { which, to } => if let Some(kv) = open.get_mut(which) { kv.truncate(to).ok(); fill(kv) },
                Op::Slide { which, to } => if let Some(kv) = open.get_mut(which) { kv.slide(to).ok(); },
                Op::Shrink { which } => if let Some(kv) = open.get_mut(which) { kv.shrink(kv.written_tokens()).ok(); },
                Op::Release { which } => if which < open.len() { drop(open.remove(which)) },
                Op::Reclaim { who } => {
                    open.retain(|kv| kv.owner() != owner(who));
                    pool.reclaim(owner(who));
                }
                Op::Quota { who, hard } => {
                    let quota = OwnerQuota::NONE.with_hard_pages(hard).with_soft_pages(hard / 2);
                    pool.set_quota(owner(who), if hard == 0 { OwnerQuota::NONE } else { quota });
                }
                Op::Evict { pages } => drop(pool.evict(pages)),
            }
            assert_sound(&pool);
        }
    }
}
