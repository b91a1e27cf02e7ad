//! Steps: what is released while kernels may use it waits for their end, what they write is readable when they say so, and
//! whoever waits for room is called.
#![expect(unsafe_code, reason = "ends steps as their engine would, and looks at bytes past all checks")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ending;
mod room;
mod writing;

use pagestamp::{
    AdmitError, CapacityPlan, CapacityProof, HostMemory, NullMemory, OwnPages, OwnerId, PageGeometry, PageMemory,
    PagePool, Plane, PoolConfig, Request, Reservation, Step, StepEnd,
};

/// Tokens of a page.
const P: u64 = 4;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 2), Plane::per_token(2, 1)]).unwrap()
}

fn config(pages: u32) -> PoolConfig {
    PoolConfig::new(pages).with_own_pages(OwnPages::None)
}

fn host(pages: u32) -> PagePool<HostMemory> {
    PagePool::new(config(pages), HostMemory::new(geometry(), pages).unwrap()).unwrap()
}

fn null(pages: u32) -> PagePool<NullMemory> {
    PagePool::new(config(pages), NullMemory::new(geometry(), pages).unwrap()).unwrap()
}

fn proof<M: PageMemory>(pool: &PagePool<M>) -> CapacityProof {
    pool.prove(CapacityPlan::new(u64::from(pool.max_pages()) * P)).unwrap()
}

fn ask<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: u64) -> Result<Reservation<M>, AdmitError> {
    pool.reserve(&proof(pool), Request::new(owner(who), tokens), tokens)
}

fn take<M: PageMemory>(pool: &PagePool<M>, who: u64, tokens: u64) -> Reservation<M> {
    ask(pool, who, tokens).unwrap()
}

fn write<M: PageMemory>(kv: &mut Reservation<M>, tokens: u64, byte: u8) {
    let (one, two) = (vec![byte; 2 * tokens as usize], vec![byte; 2 * tokens as usize]);
    kv.write(tokens, &[&one, &two]).unwrap();
}

fn end<M: PageMemory>(pool: &PagePool<M>, step: Step) -> StepEnd {
    // SAFETY: (1) the test plays the kernels, and they have finished.
    unsafe { pool.end_step(step) }.unwrap()
}

fn pages<M: PageMemory>(kv: &Reservation<M>) -> Vec<u32> {
    kv.handles().map(|handle| handle.index()).collect()
}

fn assert_sound<M: PageMemory>(pool: &PagePool<M>) {
    pool.audit().unwrap();
    pool.audit_bytes(0..pool.max_pages()).unwrap();
}
