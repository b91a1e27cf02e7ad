//! Tables for kernels: each form as its engine reads it, each row checked, nothing stale after a page moved.
#![expect(unsafe_code, reason = "ends steps and tickets as their engines would")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod forms;
mod refused;
mod updates;

use pagestamp::{
    CapacityPlan, HostMemory, NullMemory, OwnPages, OwnerId, PageGeometry, PageMemory, PagePool, Plane, PoolConfig,
    Request, Reservation, Step,
};

/// Tokens of a page.
const P: u64 = 4;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 2)]).unwrap()
}

/// Pages 0 and 1 are the pool's own.
fn null(pages: u32) -> PagePool<NullMemory> {
    PagePool::new(PoolConfig::new(pages), NullMemory::new(geometry(), pages).unwrap()).unwrap()
}

fn host(pages: u32) -> PagePool<HostMemory> {
    PagePool::new(PoolConfig::new(pages), HostMemory::new(geometry(), pages).unwrap()).unwrap()
}

fn without_own_pages(pages: u32) -> PagePool<NullMemory> {
    let config = PoolConfig::new(pages).with_own_pages(OwnPages::None);
    PagePool::new(config, NullMemory::new(geometry(), pages).unwrap()).unwrap()
}

fn take<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: u64) -> Reservation<M> {
    let proof = pool.prove(CapacityPlan::new(tokens)).unwrap();
    pool.reserve(&proof, Request::new(owner(who), tokens), tokens).unwrap()
}

/// Reserves tokens and takes them for written.
fn written<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: u64) -> Reservation<M> {
    let mut kv = take(pool, who, tokens);
    kv.assume_written(tokens).unwrap();
    kv
}

fn end<M: PageMemory>(pool: &PagePool<M>, step: Step) {
    // SAFETY: (1) the test plays the kernels, and they have finished.
    unsafe { pool.end_step(step) }.unwrap();
}

/// Page numbers of a reservation, in order, as cells.
fn cells<M: PageMemory>(kv: &Reservation<M>) -> Vec<i32> {
    kv.handles().map(|handle| handle.index() as i32).collect()
}
