//! Sets the stage of a case: pools of 16-token pages, owners, patterns, and a raw look at bytes.

use pagestamp::memory::{HeldControl, HostBytes};
use pagestamp::{
    Admitted, CapacityPlan, CapacityProof, HeldMemory, HostMemory, NullMemory, OwnPages, OwnerId, PageGeometry,
    PageHandle, PageMemory, PagePool, PageState, Plane, PoolConfig, PoolStats, ReadError, Request, Reservation,
};

/// Tokens of a page.
pub(crate) const P: u64 = 16;

pub(crate) fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

/// A token-major plane, and a head-major one whose page ends before its stride does.
pub(crate) fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 8), Plane::per_token(2, 3)]).unwrap()
}

/// All pages are for reservations, so that the numbers of a case are the numbers of the pool.
pub(crate) fn config(pages: u32) -> PoolConfig {
    PoolConfig::new(pages).with_own_pages(OwnPages::None)
}

pub(crate) fn host_pool(pages: u32) -> PagePool<HostMemory> {
    host_pool_of(config(pages))
}

pub(crate) fn host_pool_of(config: PoolConfig) -> PagePool<HostMemory> {
    let memory = HostMemory::new(geometry(), config.pages()).unwrap();
    PagePool::new(config, memory).unwrap()
}

pub(crate) fn null_pool(pages: u32) -> PagePool<NullMemory> {
    PagePool::new(config(pages), NullMemory::new(geometry(), pages).unwrap()).unwrap()
}

/// A pool whose cleaning ends when the test says so.
pub(crate) fn held_pool(pages: u32) -> (PagePool<HeldMemory>, HeldControl) {
    let memory = HeldMemory::new(geometry(), pages).unwrap();
    let control = memory.control();
    (PagePool::new(config(pages), memory).unwrap(), control)
}

/// A proof that requests of `tokens` tokens are served.
pub(crate) fn proof<M: PageMemory>(pool: &PagePool<M>, tokens: u64) -> CapacityProof {
    pool.prove(CapacityPlan::new(tokens)).unwrap()
}

/// Reserves `tokens` tokens at once and promises no more.
pub(crate) fn take<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, tokens: u64) -> Reservation<M> {
    pool.reserve(&proof(pool, tokens), Request::new(owner, tokens), tokens).unwrap()
}

/// Admits a request of at most `max_tokens` tokens.
pub(crate) fn admit<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, max_tokens: u64) -> Admitted<M> {
    pool.admit(&proof(pool, max_tokens), Request::new(owner, max_tokens)).unwrap()
}

/// Writes `tokens` tokens of one byte value in every plane.
pub(crate) fn write<M: PageMemory>(kv: &mut Reservation<M>, tokens: u64, byte: u8) {
    let planes: Vec<Vec<u8>> =
        kv.pool().geometry().planes().iter().map(|p| vec![byte; (p.token_bytes() * tokens) as usize]).collect();
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    kv.write(tokens, &planes).unwrap();
}

/// Reserves `tokens` tokens and writes all of them.
pub(crate) fn take_filled<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, tokens: u64, byte: u8) -> Reservation<M> {
    let mut kv = take(pool, owner, tokens);
    write(&mut kv, tokens, byte);
    kv
}

/// All written bytes of a reservation, plane after plane.
pub(crate) fn bytes<M: PageMemory>(kv: &Reservation<M>) -> Vec<u8> {
    let guard = kv.read(0..kv.written_tokens()).unwrap();
    let mut all = Vec::new();
    for (plane, shape) in kv.pool().geometry().planes().iter().enumerate() {
        let mut bytes = vec![0xEE; (shape.token_bytes() * kv.written_tokens()) as usize];
        guard.copy(plane, &mut bytes).unwrap();
        all.append(&mut bytes);
    }
    all
}

pub(crate) fn is_all<M: PageMemory>(kv: &Reservation<M>, byte: u8) -> bool {
    let bytes = bytes(kv);
    !bytes.is_empty() && bytes.iter().all(|b| *b == byte)
}

/// Page numbers of a reservation, in order.
pub(crate) fn pages<M: PageMemory>(kv: &Reservation<M>) -> Vec<u32> {
    kv.handles().map(|handle| handle.index()).collect()
}

/// Contents of a page in all planes, padding up to the stride included, past all checks.
pub(crate) fn raw_page<M: HostBytes>(pool: &PagePool<M>, page: u32) -> Vec<u8> {
    // SAFETY: (1) and (2): nothing but reads here, and no test writes while it looks; the bytes stay in the test.
    let memory = unsafe { pool.memory() };
    let mut bytes = Vec::new();
    for plane in 0..pool.geometry().planes().len() {
        let place = memory.plane(plane).unwrap();
        let last = page + 1 == memory.max_pages();
        let len = if last { place.page_bytes() } else { place.stride() };
        // SAFETY: the page exists, its memory lives as long as the pool, and nobody writes it now.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(place.page(page), len) });
    }
    bytes
}

pub(crate) fn is_zero<M: HostBytes>(pool: &PagePool<M>, page: u32) -> bool {
    raw_page(pool, page).iter().all(|byte| *byte == 0)
}

/// A stretch of a page of the second plane's or first plane's raw bytes, set as an outside party would.
pub(crate) fn poke<M: HostBytes>(pool: &PagePool<M>, page: u32, byte: u8) {
    // SAFETY: (1) and (2) of `memory`: the test plays an outside writer that has a ticket on the page.
    let memory = unsafe { pool.memory() };
    for plane in 0..pool.geometry().planes().len() {
        let place = memory.plane(plane).unwrap();
        // SAFETY: the page exists and nobody else touches it: its ticket is open.
        unsafe { std::ptr::write_bytes(place.page(page), byte, place.page_bytes()) };
    }
}

/// The books balance, free pages are zero, and states add up to the pages of the memory.
pub(crate) fn assert_sound<M: PageMemory>(pool: &PagePool<M>) {
    pool.audit().unwrap();
    pool.audit_bytes(0..pool.max_pages()).unwrap();
    assert_eq!(sum(&pool.stats()), u64::from(pool.max_pages()));
}

pub(crate) fn sum(s: &PoolStats) -> u64 {
    s.free_pages
        + s.live_pages
        + s.cached_pages
        + s.quarantined_pages
        + s.cleaning_pages
        + s.parked_pages
        + s.retired_pages
        + s.reserved_pages
}

/// Begins and ends all cleaning that can end now.
pub(crate) fn settle<M: PageMemory>(pool: &PagePool<M>) -> PoolStats {
    pool.maintain(usize::MAX);
    pool.stats()
}

pub(crate) fn is_stale<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, handle: PageHandle<M>) -> bool {
    matches!(pool.check(owner, handle), Err(ReadError::Stale { page, handle_generation, generation, .. })
        if page == handle.index() && handle_generation == handle.generation() && generation > handle_generation)
}

/// The state that a stale handle finds its page in.
pub(crate) fn state_of<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, handle: PageHandle<M>) -> PageState {
    match pool.check(owner, handle) {
        Err(ReadError::Stale { state, .. }) => state,
        other => panic!("{handle} should be stale, not {other:?}"),
    }
}
