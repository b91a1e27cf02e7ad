//! Pages of a device have the lives of any others.

use pagestamp::geometry::*;
use pagestamp::memory::cuda::CudaMemory;
use pagestamp::*;

use crate::driver::{driver, turn};

pub(crate) const P: u64 = 4;

pub(crate) fn geometry() -> PageGeometry {
    PageGeometry::new(P as u32, &[Plane::per_token(1, 64), Plane::per_token(2, 24)]).unwrap()
}

/// A pool of so many pages for requests, whose first cleaning is done.
pub(crate) fn pool(pages: u32) -> PagePool<CudaMemory> {
    let memory = CudaMemory::new(driver(), 0, geometry(), pages + 2).unwrap();
    let pool = PagePool::new(PoolConfig::new(pages + 2), memory).unwrap();
    settle(&pool);
    pool
}

/// Waits until the device has nothing to clean any more.
pub(crate) fn settle<M: PageMemory>(pool: &PagePool<M>) {
    for turn in 0..100_000 {
        pool.maintain(usize::MAX);
        if pool.stats().cleaning_pages == 0 {
            return;
        }
        // A busy machine may not have let the device run yet.
        if turn < 1_000 { std::thread::yield_now() } else { std::thread::sleep(std::time::Duration::from_micros(200)) }
    }
    panic!("the device does not clean: {:?}", pool.stats());
}

pub(crate) fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).unwrap()
}

pub(crate) fn take<M: PageMemory>(pool: &PagePool<M>, id: u64, tokens: u64) -> Reservation<M> {
    let proof = pool.prove(CapacityPlan::new(tokens)).unwrap();
    pool.reserve(&proof, Request::new(owner(id), tokens), tokens).unwrap()
}

pub(crate) fn write<M: PageMemory>(kv: &mut Reservation<M>, tokens: u64, seed: u8) {
    let planes: Vec<Vec<u8>> = kv
        .pool()
        .geometry()
        .planes()
        .iter()
        .map(|plane| (0..tokens * plane.token_bytes()).map(|at| (at as u8).wrapping_mul(31) ^ seed | 1).collect())
        .collect();
    kv.write(tokens, &planes.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
}

/// Everything readable of a reservation, plane by plane.
pub(crate) fn read<M: PageMemory>(kv: &Reservation<M>) -> Vec<Vec<u8>> {
    let guard = kv.read(0..kv.written_tokens()).unwrap();
    kv.pool()
        .geometry()
        .planes()
        .iter()
        .enumerate()
        .map(|(plane, shape)| {
            let mut bytes = vec![0; (kv.written_tokens() * shape.token_bytes()) as usize];
            guard.copy(plane, &mut bytes).unwrap();
            bytes
        })
        .collect()
}

// C3, C4
#[test]
fn a_page_of_a_device_is_zero_when_it_is_handed_out_and_stale_when_it_was_given_back() {
    let _turn = turn();
    let pool = pool(6);
    for round in 0..5 {
        let mut kv = take(&pool, 1 + round % 2, 6 * P);
        kv.assume_written(6 * P).unwrap(); // nothing was: what is read is what cleaning left
        assert!(read(&kv).iter().flatten().all(|byte| *byte == 0), "round {round}: bytes of the tenant before");
        kv.truncate(0).unwrap();
        write(&mut kv, 6 * P, round as u8);
        let handle = kv.handle(3).unwrap();
        let mut token = [0; 64];
        pool.read(owner(1 + round % 2), handle).unwrap().view().copy(0, &mut vec![0; 64 * P as usize]).unwrap();
        kv.read(3..4).unwrap().copy(0, &mut token).unwrap();
        assert!(token.iter().all(|byte| *byte != 0));
        kv.release();
        assert!(matches!(pool.read(owner(1 + round % 2), handle), Err(ReadError::Stale { .. })));
        settle(&pool);
        pool.audit().unwrap();
        pool.audit_bytes(0..8).unwrap();
    }
}

// C3, C10
#[test]
fn tokens_move_between_a_device_and_the_host_and_are_what_they_were() {
    let _turn = turn();
    let device = pool(6);
    let host = PagePool::new(PoolConfig::new(8), HostMemory::new(geometry(), 8).unwrap()).unwrap();
    let mut kv = take(&device, 1, 6 * P);
    write(&mut kv, 5 * P + 3, 9);
    kv.commit(9).unwrap();
    let before = read(&kv);
    let kv = kv.move_into(take(&host, 1, 6 * P)).unwrap();
    assert_eq!(read(&kv), before);
    settle(&device);
    let kv = kv.move_into(take(&device, 1, 6 * P)).unwrap();
    assert_eq!((read(&kv), kv.committed_tokens()), (before, 9));
    assert_eq!(host.stats().free_pages, 6);
    drop(kv);
    settle(&device);
    device.audit_bytes(0..8).unwrap();
}

// C10
#[test]
fn a_prompt_is_handed_over_from_one_device_pool_to_another() {
    let _turn = turn();
    let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16)).with_order(HeadOrder::Hnd);
    let model = ModelLayout::new("tiny", "r1", KvLayout::new(4, 2, cache)).unwrap();
    let slice = Slice::whole(&model);
    let pool = || {
        let memory = CudaMemory::new(driver(), 0, model.geometry(&slice).unwrap(), 8).unwrap();
        let pool = PagePool::new(PoolConfig::new(8), memory).unwrap();
        settle(&pool);
        pool
    };
    let (prefill, decode) = (pool(), pool());
    let mut kv = take(&prefill, 1, 11);
    write(&mut kv, 11, 3);
    kv.commit(11).unwrap();
    let sealed = read(&kv);
    let mut outbound = Outbound::seal(kv, &model, &slice).unwrap();
    let plan = InboundPlan::new(&model, &slice, 11).with_checksum(Checksum::Crc32c);
    let mut inbound = Inbound::open(take(&decode, 1, 11), plan).unwrap();
    let offer = inbound.offer();
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).unwrap()).unwrap();
    inbound.receive(&receipt).unwrap();
    assert_eq!(read(&inbound.accept().unwrap()), sealed);
}

// C1
#[test]
fn a_pool_on_a_device_gives_its_memory_back_and_another_takes_it() {
    let _turn = turn();
    let pool = pool(4);
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 5);
    drop(kv);
    settle(&pool);
    pool.resize(4).unwrap();
    settle(&pool);
    pool.audit().unwrap();
    pool.resize(6).unwrap();
    settle(&pool);
    let memory = pool.close().unwrap();
    assert_eq!(memory.plane_address(2), None);
    let pool = PagePool::new(PoolConfig::new(6), memory).unwrap();
    settle(&pool);
    assert!(take(&pool, 2, 4 * P).handle(0).is_some());
}
