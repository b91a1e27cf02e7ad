//! Which free pages a request gets, under each placement.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use pagestamp::{
    CapacityPlan, CleanMode, HostMemory, OwnPages, OwnerId, PageGeometry, PagePool, Placement, Plane, PoolConfig,
    Request, Reservation, Resized,
};

const PAGE_TOKENS: u64 = 4;

fn pool_of(pages: u32, config: impl Fn(PoolConfig) -> PoolConfig) -> PagePool<HostMemory> {
    let geometry = PageGeometry::new(PAGE_TOKENS as u32, &[Plane::per_token(1, 8)]).unwrap();
    let config = config(PoolConfig::new(pages).with_own_pages(OwnPages::None));
    PagePool::new(config, HostMemory::new(geometry, pages).unwrap()).unwrap()
}

fn pool(pages: u32, placement: Placement) -> PagePool<HostMemory> {
    pool_of(pages, |config| config.with_placement(placement))
}

fn take(pool: &PagePool<HostMemory>, pages: u64) -> Reservation<HostMemory> {
    let tokens = pages * PAGE_TOKENS;
    let proof = pool.prove(CapacityPlan::new(tokens)).unwrap();
    pool.reserve(&proof, Request::new(OwnerId::new(1).unwrap(), tokens), tokens).unwrap()
}

fn pages(kv: &Reservation<HostMemory>) -> Vec<u32> {
    kv.handles().map(|handle| handle.index()).collect()
}

fn write(kv: &mut Reservation<HostMemory>) {
    kv.write(kv.reserved_tokens(), &[&vec![0xA5; kv.reserved_tokens() as usize * 8]]).unwrap();
}

/// Takes and writes all pages one by one, and gives those back that are to be free.
fn leave_free(pool: &PagePool<HostMemory>, free: &[std::ops::Range<u32>]) -> Vec<Reservation<HostMemory>> {
    let mut all: Vec<_> = (0..pool.stats().free_pages).map(|_| take(pool, 1)).collect();
    all.iter_mut().for_each(write);
    all.retain(|kv| !free.iter().any(|run| run.contains(&pages(kv)[0])));
    all
}

// C1
#[test]
fn hot_first_hands_out_what_came_back_last() {
    let pool = pool(100, Placement::HotFirst);
    assert_eq!(pool.config().placement(), PoolConfig::new(1).placement(), "the default");
    let mut held: Vec<_> = (0..9).map(|_| take(&pool, 1)).collect();
    let back: Vec<u32> = [7, 2, 4].iter().map(|at| pages(&held.remove(*at))[0]).collect();
    assert_eq!(back, [7, 2, 5]);
    assert_eq!(pages(&take(&pool, 4)), [5, 2, 7, 9]);
    pool.audit().unwrap();
}

// C1
#[test]
fn contiguous_hands_out_the_first_run_that_is_long_enough() {
    let pool = pool(300, Placement::Contiguous);
    let held = leave_free(&pool, &[3..5, 60..70, 120..200, 250..300]);
    assert_eq!(pages(&take(&pool, 2)), [3, 4]);
    let twelve = take(&pool, 12);
    assert_eq!(pages(&twelve), (120..132).collect::<Vec<_>>());
    assert_eq!(pages(&take(&pool, 60)), (132..192).collect::<Vec<_>>());
    pool.audit().unwrap();
    drop(held);
    drop(twelve);
    assert_eq!(pages(&take(&pool, 300)), (0..300).collect::<Vec<_>>());
    pool.audit().unwrap();
}

// C1
#[test]
fn contiguous_hands_out_the_longest_runs_when_none_is_long_enough() {
    let pool = pool(300, Placement::Contiguous);
    let _held = leave_free(&pool, &[3..5, 60..70, 120..180, 250..300]);
    let all: Vec<u32> = (120..180).chain(250..300).chain(60..70).chain(3..5).collect();
    for asked in [61, 110, 111, 121, 122] {
        let kv = take(&pool, asked);
        let got = pages(&kv);
        let runs = 1 + got.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
        let fewest = [60, 110, 120].iter().filter(|most| asked > **most).count() + 1;
        assert_eq!((got.len(), runs), (asked as usize, fewest), "{got:?}");
        assert!(got.iter().all(|page| all.contains(page)));
        assert_eq!(got[..60], all[..60]);
        pool.audit().unwrap();
    }
}

// C1
#[test]
fn contiguous_finds_the_runs_that_cleaning_gives_back_however_late() {
    for mode in [CleanMode::OnRelease, CleanMode::Later] {
        let pool = pool_of(128, |config| config.with_placement(Placement::Contiguous).with_clean_mode(mode));
        let mut held: Vec<_> = (0..128).map(|_| take(&pool, 1)).collect();
        held.iter_mut().for_each(write);
        // scattered, and back in no order
        for step in [5, 3, 2, 1] {
            let mut at = 0;
            held.retain(|_| {
                at += 1;
                at % step != 0
            });
        }
        assert_eq!(held.len(), 0);
        pool.maintain(usize::MAX);
        assert_eq!(pages(&take(&pool, 128)), (0..128).collect::<Vec<_>>(), "{mode:?}");
        pool.audit().unwrap();
    }
}

// C1
#[test]
fn contiguous_parks_the_highest_pages_and_brings_them_back_in_their_place() {
    let pool = pool(200, Placement::Contiguous);
    let kv = take(&pool, 10);
    assert_eq!(pool.resize(100).unwrap(), Resized::Done { pages: 100 });
    pool.audit().unwrap();
    assert_eq!(pages(&take(&pool, 90)), (10..100).collect::<Vec<_>>());
    assert_eq!(pool.resize(150).unwrap(), Resized::Done { pages: 150 });
    pool.audit().unwrap();
    assert_eq!(pages(&take(&pool, 140)), (10..150).collect::<Vec<_>>());
    drop(kv);
    assert_eq!(pool.stats().free_pages, 150);
    pool.audit().unwrap();
}
