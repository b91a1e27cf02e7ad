//! Take `n` pages and give them back.

use std::hint::black_box;
use std::time::Duration;

use pagestamp::{CapacityPlan, CapacityProof, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
use parking_lot::Mutex;
use slotmap::SlotMap;

use super::{Work, repeat};

const PAGE_TOKENS: u32 = 16;
/// Pages of every pool: enough for two threads at 1,024.
const PAGES: u32 = 4096;

/// Admit, reserve and release through the public API, on memory without bytes.
pub(crate) struct Pagestamp {
    pool: PagePool<NullMemory>,
    proof: CapacityProof,
    n: u32,
}

impl Pagestamp {
    pub(crate) fn new(n: u32) -> Self {
        let geometry = PageGeometry::new(PAGE_TOKENS, &[Plane::per_token(1, 1024)]).expect("geometry");
        let memory = NullMemory::new(geometry, PAGES + 2).expect("memory");
        let pool = PagePool::new(PoolConfig::new(PAGES + 2), memory).expect("pool");
        let proof = pool.prove(CapacityPlan::new(1024 * u64::from(PAGE_TOKENS))).expect("fits");
        Self { pool, proof, n }
    }
}

impl Work for Pagestamp {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let owner = OwnerId::new(7).expect("not zero");
        let tokens = u64::from(self.n) * u64::from(PAGE_TOKENS);
        repeat(go_on, || {
            let request = Request::new(owner, black_box(tokens));
            let kv = self.pool.reserve(&self.proof, request, tokens).expect("room");
            black_box(&kv);
            kv.release();
        })
    }
}

/// A generation of 31 bits: insert `n` under one lock, remove `n` under one lock.
pub(crate) struct MutexSlotmap {
    map: Mutex<SlotMap<slotmap::DefaultKey, u64>>,
    n: u32,
}

impl MutexSlotmap {
    pub(crate) fn new(n: u32) -> Self {
        Self { map: Mutex::new(SlotMap::with_capacity(PAGES as usize)), n }
    }
}

impl Work for MutexSlotmap {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let mut keys = Vec::with_capacity(self.n as usize);
        repeat(go_on, || {
            let n = black_box(self.n);
            let mut map = self.map.lock();
            keys.extend((0..n).map(|_| map.insert(7)));
            drop(map);
            black_box(&keys);
            let mut map = self.map.lock();
            for key in keys.drain(..) {
                black_box(map.remove(key));
            }
        })
    }
}

/// The floor: nothing but indices.
pub(crate) struct MutexVec {
    free: Mutex<Vec<u32>>,
    n: u32,
}

impl MutexVec {
    pub(crate) fn new(n: u32) -> Self {
        Self { free: Mutex::new((0..PAGES).collect()), n }
    }
}

impl Work for MutexVec {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let mut taken = Vec::with_capacity(self.n as usize);
        repeat(go_on, || {
            let n = black_box(self.n) as usize;
            let mut free = self.free.lock();
            let from = free.len() - n;
            taken.extend_from_slice(&free[from..]);
            free.truncate(from);
            drop(free);
            black_box(&taken);
            self.free.lock().append(&mut taken);
        })
    }
}
