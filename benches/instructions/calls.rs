//! The hottest calls, each on a pool of its own that is warm.
#![expect(unsafe_code, reason = "ends a step")]

use std::hint::black_box;

use pagestamp::table::{BlockTable, TableRow};
use pagestamp::{
    CapacityPlan, CapacityProof, HostMemory, NullMemory, OwnPages, OwnerId, PageGeometry, PageMemory, PagePool, Plane,
    PoolConfig, PrefixTokens, Request, Reservation, Retention,
};

const PAGE_TOKENS: u64 = 16;
const PAGES: u32 = 4096;

/// A call to count.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Makes what it works on, and answers the call itself.
    pub(crate) prepare: fn() -> Box<dyn FnMut()>,
}

/// All calls, in the order in which they are shown.
pub(crate) fn all() -> Vec<Call> {
    let call = |name, prepare| Call { name, prepare };
    vec![
        call("reserve and release 1 page", || reserve_and_release(1)),
        call("reserve and release 8 pages", || reserve_and_release(8)),
        call("reserve and release 64 pages", || reserve_and_release(64)),
        call("grow by 1 page within the promise", grow),
        call("read a page by its handle", read_by_handle),
        call("read a page by its reservation", read_by_reservation),
        call("check a handle", check),
        call("write a row of 64 pages from a reservation", || write_row(false)),
        call("write a row of 64 pages from handles", || write_row(true)),
        call("export, report and end a step of 1 token", step),
        call("publish 64 pages", publish),
        call("look up 64 pages that are held", || look_up(true)),
        call("look up 64 pages that are cached", || look_up(false)),
        call("look up a prefix that is not there", miss),
        call("fork 64 pages", fork),
        call("evict 64 pages", evict),
    ]
}

fn owner() -> OwnerId {
    OwnerId::new(7).expect("not zero")
}

fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE_TOKENS as u32, &[Plane::per_token(1, 8)]).expect("valid")
}

fn pool<M: PageMemory>(memory: M) -> (PagePool<M>, CapacityProof) {
    let config = PoolConfig::new(PAGES).with_own_pages(OwnPages::None);
    let pool = PagePool::new(config, memory).expect("valid");
    let proof = pool.prove(CapacityPlan::new(u64::from(PAGES) * PAGE_TOKENS)).expect("room");
    (pool, proof)
}

fn null_pool() -> (PagePool<NullMemory>, CapacityProof) {
    pool(NullMemory::new(geometry(), PAGES).expect("small"))
}

fn host_pool() -> (PagePool<HostMemory>, CapacityProof) {
    pool(HostMemory::new(geometry(), PAGES).expect("small"))
}

/// A prompt of so many full pages, committed.
fn committed(pool: &PagePool<NullMemory>, proof: &CapacityProof, pages: u64) -> Reservation<NullMemory> {
    let tokens = pages * PAGE_TOKENS;
    let mut kv = pool.reserve(proof, Request::new(owner(), tokens), tokens).expect("room");
    kv.assume_written(tokens).expect("reserved");
    kv.commit(tokens).expect("written");
    kv
}

fn prompt(pages: u64, first: u32) -> Vec<u32> {
    (first..first + (pages * PAGE_TOKENS) as u32).collect()
}

fn reserve_and_release(pages: u64) -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let tokens = pages * PAGE_TOKENS;
    Box::new(move || {
        let kv = pool.reserve(&proof, Request::new(owner(), black_box(tokens)), tokens).expect("room");
        black_box(kv).release();
    })
}

fn grow() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(), 64 * PAGE_TOKENS), 16 * PAGE_TOKENS).expect("room");
    let mut to = 16 * PAGE_TOKENS;
    Box::new(move || {
        to += PAGE_TOKENS;
        kv.grow(black_box(to)).expect("promised");
    })
}

fn read_by_handle() -> Box<dyn FnMut()> {
    let (pool, proof) = host_pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(), PAGE_TOKENS), PAGE_TOKENS).expect("room");
    kv.write(PAGE_TOKENS, &[&[7; 128]]).expect("reserved");
    let handle = kv.handle(0).expect("reserved");
    Box::new(move || {
        let _held = &kv;
        let guard = pool.read(owner(), black_box(handle)).expect("live");
        black_box(guard.run(0, 0).expect("written")[0]);
    })
}

fn read_by_reservation() -> Box<dyn FnMut()> {
    let (pool, proof) = host_pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(), PAGE_TOKENS), PAGE_TOKENS).expect("room");
    kv.write(PAGE_TOKENS, &[&[7; 128]]).expect("reserved");
    Box::new(move || {
        let guard = kv.read(black_box(0..PAGE_TOKENS)).expect("written");
        black_box(guard.pages().next().expect("a page").run(0, 0).expect("written")[0]);
    })
}

fn check() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let kv = committed(&pool, &proof, 1);
    let handle = kv.handle(0).expect("reserved");
    Box::new(move || {
        let _held = &kv;
        pool.check(owner(), black_box(handle)).expect("live");
    })
}

fn write_row(of_handles: bool) -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let (kv, tokens) = (committed(&pool, &proof, 64), 64 * PAGE_TOKENS);
    let handles: Vec<_> = kv.handles().collect();
    let (mut cells, mut lens) = (vec![0; 64], [0]);
    Box::new(move || {
        let row = if of_handles { TableRow::of_handles(owner(), &handles, tokens) } else { kv.row(tokens) };
        let mut table = BlockTable::new(&pool, &mut cells, 64, &mut lens).expect("shape");
        table.push(black_box(row)).expect("written");
    })
}

fn step() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let mut kv = pool.reserve(&proof, Request::new(owner(), 64 * PAGE_TOKENS), 64 * PAGE_TOKENS).expect("room");
    Box::new(move || {
        let step = pool.open_step();
        kv.export(&step, black_box(1)).expect("reserved");
        kv.wrote(&step).expect("exported");
        // SAFETY: (1) nothing was launched.
        unsafe { pool.end_step(step) }.expect("open");
    })
}

fn publish() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    // The first call is the warm-up, the second is counted.
    let mut coming: Vec<_> = (0..2).map(|at| (committed(&pool, &proof, 64), prompt(64, at * 10_000))).collect();
    let mut done = Vec::with_capacity(2);
    Box::new(move || {
        let (mut kv, text) = coming.pop().expect("two calls");
        kv.publish(&PrefixTokens::new(black_box(&text)), Retention::default()).expect("new");
        done.push(kv);
    })
}

fn look_up(is_held: bool) -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let text = prompt(64, 0);
    let mut kv = committed(&pool, &proof, 64);
    kv.publish(&PrefixTokens::new(&text), Retention::default()).expect("new");
    let kv = is_held.then_some(kv);
    Box::new(move || {
        let _held = &kv;
        let hit = pool.lookup(owner(), &PrefixTokens::new(black_box(&text))).expect("published");
        assert_eq!(hit.tokens(), 64 * PAGE_TOKENS);
    })
}

fn miss() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let mut kv = committed(&pool, &proof, 64);
    kv.publish(&PrefixTokens::new(&prompt(64, 0)), Retention::default()).expect("new");
    let text = prompt(64, 1);
    Box::new(move || {
        let _held = &kv;
        assert!(pool.lookup(owner(), &PrefixTokens::new(black_box(&text))).is_none());
    })
}

fn fork() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    let kv = committed(&pool, &proof, 64);
    Box::new(move || {
        let copy = kv.fork(&proof, Request::new(owner(), black_box(64 * PAGE_TOKENS))).expect("room");
        black_box(copy).release();
    })
}

fn evict() -> Box<dyn FnMut()> {
    let (pool, proof) = null_pool();
    for first in [0, 10_000] {
        let mut kv = committed(&pool, &proof, 64);
        kv.publish(&PrefixTokens::new(&prompt(64, first)), Retention::default()).expect("new");
    }
    Box::new(move || assert_eq!(pool.evict(black_box(64)).pages, 64))
}
