//! pagestamp in a context and on a stream that cudarc made.

use std::sync::{Mutex, MutexGuard};

use cudarc::driver::result::ctx::get_current;
use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, GuardReason, GuardTable};
use pagestamp::{CapacityPlan, OwnerId, PagePool, PoolConfig, ReadError, Request, Reservation};
use pagestamp_cudarc_interop::{
    Engine, PAGE_BYTES, PAGE_TOKENS, PLANES, TOKEN_BYTES, driver, geometry, is_standin, live, settle, start_anew,
};

/// One test at a time, with a driver of its own: one counts what lives, and one ends the context.
fn turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    driver();
    start_anew();
    turn
}

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).expect("not zero")
}

fn take(pool: &PagePool<CudaMemory>, id: u64, pages: u64, lane: Lane) -> Reservation<CudaMemory> {
    let tokens = pages * PAGE_TOKENS;
    let proof = pool.prove(CapacityPlan::new(tokens)).expect("it fits");
    pool.reserve(&proof, Request::new(owner(id), tokens).on_lane(lane), tokens).expect("there are pages")
}

/// Where a page of a reservation lies on the device, plane by plane.
fn addresses(kv: &Reservation<CudaMemory>, page: u32) -> [u64; PLANES] {
    let index = u64::from(kv.handle(page).expect("a page").index());
    // SAFETY: (1) pages that are held are written past their extent, by a stream that the memory was told of, which is what
    // "has stopped" asks of it. (2) addresses are asked for.
    let memory = unsafe { kv.pool().expose() };
    [0, 1].map(|plane| memory.plane_address(plane).expect("a plane") + index * PAGE_BYTES as u64)
}

fn bytes(page: u32, plane: usize) -> Vec<u8> {
    (0..PAGE_BYTES).map(|at| (at as u8).wrapping_mul(31) ^ (page as usize * PLANES + plane) as u8 | 1).collect()
}

/// Writes all pages by cudarc, says so, and reads them by pagestamp.
fn write_and_read(engine: &Engine, kv: &mut Reservation<CudaMemory>, pages: u32) {
    for page in 0..pages {
        for (plane, address) in addresses(kv, page).into_iter().enumerate() {
            engine.write(address, &bytes(page, plane));
        }
    }
    engine.stream.synchronize().expect("the stream works");
    kv.assume_written(u64::from(pages) * PAGE_TOKENS).expect("the pages are reserved");
    let guard = kv.read(0..kv.written_tokens()).expect("the cleaning is done");
    for plane in 0..PLANES {
        let mut found = vec![0; pages as usize * PAGE_BYTES];
        guard.copy(plane, &mut found).expect("so many bytes");
        let written: Vec<u8> = (0..pages).flat_map(|page| bytes(page, plane)).collect();
        assert_eq!(found, written, "plane {plane}");
    }
}

// C3, C4, C7
#[test]
fn a_page_written_by_cudarc_is_read_by_its_owner_and_zero_and_stale_when_it_was_given_back() {
    let _turn = turn();
    let engine = Engine::default();
    // SAFETY: (1) the engine is dropped last.
    let (pool, lane) = unsafe { engine.pool(2) };
    for round in 0..3 {
        let mut kv = take(&pool, 1, 2, lane);
        write_and_read(&engine, &mut kv, 1);
        let handle = kv.handle(1).expect("a page");
        let places = [addresses(&kv, 0), addresses(&kv, 1)];

        let held = engine.hold();
        engine.write(places[1][1], &[0x5E; PAGE_BYTES]); // the engine's last work, queued and late
        kv.release();
        pool.maintain(usize::MAX);
        assert!(matches!(pool.read(owner(1), handle), Err(ReadError::Stale { .. })), "round {round}");

        // The next tenant has the same pages, in the stream's order: cudarc's copies wait for nothing but the stream.
        let mut next = take(&pool, 2, 2, lane);
        if is_standin() {
            next.assume_written(1).expect("the page is reserved");
            assert!(matches!(next.read(0..1), Err(ReadError::Pending { .. })), "the stream is held");
        }
        drop(held);
        let mut again = [addresses(&next, 0), addresses(&next, 1)];
        for place in again.iter().flatten() {
            assert_eq!(engine.read(*place, PAGE_BYTES), [0; PAGE_BYTES], "round {round}: bytes of the tenant before");
        }
        again.sort_unstable();
        let mut before = places;
        before.sort_unstable();
        assert_eq!(again, before, "other pages prove nothing");
        assert!(matches!(pool.read(owner(2), handle), Err(ReadError::Stale { .. })), "round {round}");
        drop(next);
        settle(&pool);
        pool.audit().expect("the books are in order");
        pool.audit_bytes(0..4).expect("free pages are zero");
    }
    drop(pool);
    engine.stream.context().check_err().expect("cudarc saw no error");
}

// C4
#[test]
fn a_block_table_of_cudarc_is_checked_on_its_stream_and_loses_what_is_stale() {
    let _turn = turn();
    let engine = Engine::default();
    // SAFETY: (1) the engine is dropped last.
    let (pool, lane) = unsafe { engine.pool(4) };
    let mut batch = [1, 2].map(|id| Some(take(&pool, id, 2, lane)));
    let mut table = GuardTable::new(&pool, 2, 4).expect("a table");
    let mut cells = Vec::new();
    for kv in batch.iter_mut().flatten() {
        write_and_read(&engine, kv, 2);
        table.push(kv, 2 * PAGE_TOKENS).expect("there is room");
        cells.extend(kv.handles().map(|handle| handle.index()));
    }
    let block_table = engine.stream.clone_htod(&cells).expect("a copy to the device");
    let check = |table: &mut GuardTable| {
        let (address, _use) = cudarc::driver::DevicePtr::device_ptr(&block_table, &engine.stream);
        // SAFETY: (1) two rows of two cells, written before on this stream, freed after it.
        unsafe { table.check(lane, Some(AttentionTable { address, row_cells: 2 })) }.expect("the check is queued");
        engine.stream.synchronize().expect("the stream works");
    };
    check(&mut table);
    assert!(table.verdict().expect("the check ran").is_clean());
    assert_eq!(engine.stream.clone_dtoh(&block_table).expect("a copy"), cells, "a good table is left as it is");

    drop(batch[1].take()); // the engine goes on with a table that names its pages
    settle(&pool);
    check(&mut table);
    let verdict = table.verdict().expect("the check ran");
    let fault = verdict.fault().expect("two pages are stale");
    assert_eq!((fault.row, fault.index, fault.faults), (1, 2, 2), "{fault:?}");
    assert!(matches!(fault.reason, GuardReason::Released), "{fault:?}");
    assert_eq!(verdict.flagged().collect::<Vec<_>>(), [1]);
    let null = pool.null_page().expect("the pool has one");
    let seen = engine.stream.clone_dtoh(&block_table).expect("a copy");
    assert_eq!(seen, [cells[0], cells[1], null, null]);
}

// C11
#[test]
fn the_context_that_is_current_in_a_thread_stays_as_cudarc_left_it() {
    let _turn = turn();
    let engine = Engine::default();
    // SAFETY: (1) the engine is dropped last.
    let (pool, lane) = unsafe { engine.pool(2) };
    let current = || get_current().expect("the driver works").map(|context| context as u64);
    assert_eq!(current(), Some(engine.stream.context().cu_ctx() as u64));
    let (pool, kv) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(current(), None, "a new thread has none");
            let mut kv = take(&pool, 1, 2, lane);
            kv.write(1, &[&[7; TOKEN_BYTES as usize], &[8; TOKEN_BYTES as usize]]).expect("a write");
            assert_eq!(current(), None);
            (&pool, kv)
        });
        other.join().expect("no panic")
    });
    assert_eq!(engine.read(addresses(&kv, 0)[1], TOKEN_BYTES as usize), [8; TOKEN_BYTES as usize]);
    drop(kv);
    settle(pool);
    assert_eq!(current(), Some(engine.stream.context().cu_ctx() as u64));
}

// C1, C11
#[test]
fn pool_and_engine_may_go_in_either_order_and_leave_nothing() {
    let _turn = turn();
    // The pool first.
    let engine = Engine::default();
    // SAFETY: (1) the engine is dropped last.
    let (pool, lane) = unsafe { engine.pool(2) };
    let mut kv = take(&pool, 1, 2, lane);
    write_and_read(&engine, &mut kv, 1);
    engine.write(addresses(&kv, 1)[0], &[3; PAGE_BYTES]); // not waited for
    drop((kv, pool));
    engine.stream.context().check_err().expect("cudarc saw no error");
    drop(engine);
    assert_gone();

    // All of cudarc first, from a pool that retained the same context for itself.
    let engine = Engine::default();
    let memory = CudaMemory::new(driver(), 0, geometry(), 4).expect("memory");
    let pool = PagePool::new(PoolConfig::new(4), memory).expect("a pool");
    settle(&pool);
    let mut kv = take(&pool, 1, 2, Lane::HOST);
    write_and_read(&engine, &mut kv, 2);
    drop(engine);
    let mut found = vec![0; PAGE_BYTES];
    kv.read(0..PAGE_TOKENS).expect("written").copy(0, &mut found).expect("so many bytes");
    assert_eq!(found, bytes(0, 0));
    drop(kv);
    settle(&pool);
    pool.audit_bytes(0..4).expect("free pages are zero");
    drop(pool);
    assert_gone();
}

/// Nothing lives any more. A stream is gone when its work is, which is a moment later.
fn assert_gone() {
    let nothing = live().map(|_| [0; 7]);
    for _ in 0..1_000_000 {
        if live() == nothing {
            return;
        }
        std::thread::yield_now();
    }
    assert_eq!(live(), nothing, "allocations, pinned, streams, events, modules, graphs, retained");
}

// C11
#[test]
fn an_engine_that_ends_its_context_under_a_pool_gets_errors_and_no_panic() {
    let _turn = turn();
    if !is_standin() {
        return; // a real driver may do anything with a context that is gone
    }
    let engine = Engine::default();
    // SAFETY: not kept on purpose: the stand-in knows a context that is gone, and says so.
    let (pool, lane) = unsafe { engine.pool(2) };
    let mut kv = take(&pool, 1, 2, lane);
    write_and_read(&engine, &mut kv, 2);
    let handle = kv.handle(0).expect("a page");
    drop(engine);
    let guard = kv.read(0..1).expect("the books know nothing of devices");
    guard.copy(0, &mut [0; TOKEN_BYTES as usize]).expect_err("709, context is destroyed");
    drop(guard);
    kv.release();
    pool.maintain(usize::MAX);
    assert!(matches!(pool.read(owner(1), handle), Err(ReadError::Stale { .. })));
    let proof = pool.prove(CapacityPlan::new(PAGE_TOKENS)).expect("it fits");
    pool.reserve(&proof, Request::new(owner(2), PAGE_TOKENS), PAGE_TOKENS).expect_err("no page is clean");
    pool.audit().expect("the books are in order");
}
