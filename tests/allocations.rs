//! What allocates nothing once it is warm: counted on this thread's heap, in release and debug builds alike.
#![expect(unsafe_code, reason = "ends steps")]

use std::alloc::System;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, ModelLayout, Slice};
use pagestamp::handoff::{self, Regions, Route, Stretch};
use pagestamp::table::{BlockTable, CsrTable, RowMark, SlotMapping, StampedEntry, StampedTable, TableRow, TokenTable};
use pagestamp::{
    CapacityPlan, CapacityProof, HostMemory, OwnerId, PageGeometry, PageHandle, PagePool, Placement, Plane, PoolConfig,
    Request, Reservation, SlotConfig, SlotPool, Whose,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAGE_TOKENS: u64 = 16;
const TOKEN_BYTES: u64 = 64;
const MAX_TOKENS: u64 = 200 * PAGE_TOKENS;

fn owner() -> OwnerId {
    OwnerId::new(7).expect("not zero")
}

fn pool(placement: Placement) -> (PagePool<HostMemory>, CapacityProof) {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)]).expect("geometry");
    let config = PoolConfig::new(402).with_placement(placement);
    let pool = PagePool::new(config, HostMemory::new(geometry, 402).expect("memory")).expect("pool");
    let proof = pool.prove(CapacityPlan::new(MAX_TOKENS)).expect("fits");
    (pool, proof)
}

fn reserve(pool: &PagePool<HostMemory>, proof: &CapacityProof, tokens: u64) -> Reservation<HostMemory> {
    pool.reserve(proof, Request::new(owner(), MAX_TOKENS), tokens).expect("room")
}

fn write(kv: &mut Reservation<HostMemory>, tokens: u64, bytes: &[u8]) {
    kv.write(tokens, &[&bytes[..(tokens * TOKEN_BYTES) as usize]]).expect("reserved");
}

/// Runs `work` once to warm up, and a hundred times counted: the least of some counts, since the heap is the process's and
/// the test's runner allocates now and then on a thread of its own. What `work` allocates stands in every count.
fn allocations_of(mut work: impl FnMut()) -> usize {
    work();
    let mut count = || {
        let region = Region::new(HEAP);
        (0..100).for_each(|_| work());
        let change = region.change();
        change.allocations + change.reallocations
    };
    (0..5).map(|_| count()).min().unwrap_or(usize::MAX)
}

// One test: the heap is the process's, and tests of one file run side by side.
#[test]
fn what_is_warm_allocates_nothing() {
    count_under(Placement::HotFirst);
    count_under(Placement::Contiguous);
    count_segments();
    count_slots();
}

/// A slot alone costs no allocation in its whole life, held up by a reader or not; a group allocates its handles.
fn count_slots() {
    let pool = SlotPool::<u64>::new(SlotConfig::new(64)).expect("pool");
    let proof = pool.prove(CapacityPlan::new(8)).expect("fits");
    let life = allocations_of(|| {
        let slot = pool.claim_one(&proof, owner()).expect("room");
        pool.init(owner(), slot, 7).expect("blank");
        pool.with_mut(owner(), slot, |value| *value += 1).expect("live");
        assert_eq!(pool.with(owner(), slot, |value| *value), Ok(8));
        assert_eq!(pool.for_each(Whose::All, |_, _| ()).slots, 1);
        pool.release(owner(), slot).expect("live");
        assert!(pool.read(owner(), slot).is_err());
    });
    assert_eq!(life, 0);
    let group = allocations_of(|| {
        assert_eq!(pool.claim(&proof, owner(), 8).expect("room").release().slots, 8);
    });
    assert!(group <= 200, "{group} allocations of 100 groups: the handles, and the slots in hand");
}

fn count_segments() {
    let cache = HeadCache::new(4, 8, ElementFormat::plain(Dtype::F16)).with_order(HeadOrder::Hnd);
    let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 2, cache)).expect("valid");
    let (all, tile) = (Slice::whole(&model), Slice::new(0..2, 1..3).expect("valid"));
    let regions = |base: u64| {
        let plane = |plane: u64| handoff::Region::new(base + (plane << 32), 1024, 1024, 0);
        Regions::new(&model, all.clone(), 200, (0..4).map(plane).collect()).expect("sound")
    };
    let route = Route::new(&model, &tile, regions(0), regions(1 << 40)).expect("fits");
    let (source, destination): (Vec<u32>, Vec<u32>) = (0..200).map(|page| (page, 199 - page)).unzip();
    let stretch = Stretch::new(MAX_TOKENS, &source, &destination);
    let mut segments = Vec::new();
    let written = allocations_of(|| {
        assert_eq!(route.segments(&stretch, &mut segments), Ok(MAX_TOKENS * 4 * 32));
    });
    assert_eq!(written, 0, "segments into a buffer that grew");
    assert_eq!(segments.len(), 4 * 200);
}

/// Tables of 200 pages, from a reservation and from handles.
fn count_tables(pool: &PagePool<HostMemory>, kv: &Reservation<HostMemory>, handles: &[PageHandle<HostMemory>]) {
    let (mut cells, mut lens, mut indptr) = (vec![0_i32; 200], [0_i32; 1], [0_i32; 2]);
    let mut entries = vec![StampedEntry::default(); 200];
    let (mut offsets, mut owners) = ([0_u32; 2], [0_u64; 1]);
    let mut tokens = vec![0_i32; MAX_TOKENS as usize];
    let mut mark = RowMark::default();
    let tables = allocations_of(|| {
        for row in [kv.row(MAX_TOKENS), TableRow::of_handles(owner(), handles, MAX_TOKENS)] {
            let mut table = BlockTable::new(pool, &mut cells, 200, &mut lens).expect("shape");
            table.push(row).expect("written");
            table.update(0, row, &mut mark).expect("written");
            let mut table = CsrTable::new(pool, &mut indptr, &mut cells, &mut lens).expect("shape");
            table.push(row).expect("written");
            let mut table = TokenTable::new(pool, &mut tokens, MAX_TOKENS as usize).expect("shape");
            table.push(row).expect("written");
            let mut table = StampedTable::new(pool, &mut entries, &mut offsets, &mut owners).expect("shape");
            table.push(row).expect("written");
        }
    });
    assert_eq!(tables, 0, "tables");
}

/// A step of an engine: two at once, tokens that they write, a release under both, and their ends.
fn count_steps(pool: &PagePool<HostMemory>, proof: &CapacityProof) {
    let mut slots = [0_i64; 32];
    let steps = allocations_of(|| {
        let (first, second) = (pool.open_step(), pool.open_step());
        let mut kv = reserve(pool, proof, 100);
        kv.export(&first, 20).expect("reserved");
        kv.export(&second, 2).expect("reserved");
        let mut table = SlotMapping::new(pool, &mut slots).expect("shape");
        table.push(&kv, &first).expect("exported");
        table.push(&kv, &second).expect("exported");
        kv.wrote(&first).expect("exported");
        kv.release();
        for step in [first, second] {
            // SAFETY: (1) nothing was launched.
            unsafe { pool.end_step(step) }.expect("open");
        }
    });
    assert_eq!(steps, 0, "a step, and a release under it");
}

fn count_under(placement: Placement) {
    let (pool, proof) = pool(placement);
    let bytes = vec![0xA5; (MAX_TOKENS * TOKEN_BYTES) as usize];
    let mut out = vec![0; bytes.len()];

    let admit_reserve_release = allocations_of(|| {
        let admitted = pool.admit(&proof, Request::new(owner(), MAX_TOKENS)).expect("room");
        admitted.reserve(MAX_TOKENS).expect("promised").release();
    });
    assert_eq!(admit_reserve_release, 0, "admit, reserve, release of pages that nobody wrote");

    let reserve_and_drop = allocations_of(|| drop(reserve(&pool, &proof, MAX_TOKENS)));
    assert_eq!(reserve_and_drop, 0, "admission and reservation in one, and a drop");

    let written = allocations_of(|| {
        let mut kv = reserve(&pool, &proof, MAX_TOKENS);
        write(&mut kv, MAX_TOKENS, &bytes);
        kv.release();
    });
    assert_eq!(written, 0, "write, and a release that zeroes");

    let mut decoding = reserve(&pool, &proof, 0);
    let mut tokens = 0;
    let token_by_token = allocations_of(|| {
        tokens += 1;
        decoding.grow(tokens).expect("promised");
        write(&mut decoding, 1, &bytes);
        decoding.commit(tokens).expect("written");
    });
    assert_eq!(token_by_token, 0, "decode: grow, write and commit a token");
    decoding.release();

    // Two hundred growths of one page each, all within one promise, written as they come.
    let mut kv = reserve(&pool, &proof, 0);
    kv.grow(MAX_TOKENS).expect("promised");
    kv.release();
    let mut kv = reserve(&pool, &proof, 0);
    let region = Region::new(HEAP);
    for tokens in (PAGE_TOKENS..=MAX_TOKENS).step_by(PAGE_TOKENS as usize) {
        kv.grow(tokens).expect("promised");
        write(&mut kv, PAGE_TOKENS, &bytes);
    }
    assert_eq!(region.change().allocations, 0, "growing within the promise");

    let handle = kv.handle(3).expect("page");
    let by_handle = allocations_of(|| {
        let guard = pool.read(owner(), handle).expect("live");
        assert_eq!(guard.run(0, 0).expect("one run"), &bytes[..1024]);
        guard.copy(0, &mut out[..1024]).expect("fits");
    });
    assert_eq!(by_handle, 0, "read by handle");

    let by_reservation = allocations_of(|| {
        let guard = kv.read(0..MAX_TOKENS).expect("written");
        assert_eq!(guard.pages().count(), 200);
        guard.copy(0, &mut out).expect("fits");
    });
    assert_eq!(by_reservation, 0, "read by reservation");

    let handles: Vec<_> = kv.handles().collect();
    count_tables(&pool, &kv, &handles);
    count_steps(&pool, &proof);

    kv.release();
    let stale = allocations_of(|| assert!(pool.read(owner(), handle).is_err()));
    assert_eq!(stale, 0, "a refused read");
    pool.audit().expect("sound");
}
