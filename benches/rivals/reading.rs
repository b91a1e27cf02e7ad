//! Look at one page: by handle, by reservation, and what others do for it.
//!
//! All walk the same shuffled list of 1,024 pages, or stay on one page; each answer goes through `black_box`, the guard
//! included.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use pagestamp::{
    CapacityPlan, HostMemory, OwnerId, PageGeometry, PageHandle, PagePool, Plane, PoolConfig, Request, Reservation,
};
use parking_lot::Mutex;
use slotmap::{DefaultKey, SlotMap};

use super::{Work, repeat};

/// Which pages are looked at.
#[derive(Clone, Copy)]
pub(crate) enum Pages {
    /// All threads at the same one.
    One,
    /// 1,024 in a shuffled order.
    Shuffled,
}

impl Pages {
    fn order(self) -> Vec<u32> {
        match self {
            Self::One => vec![5; 1024],
            // 389 is coprime to 1024: each page once, no two neighbours in a row.
            Self::Shuffled => (0..1024).map(|at| at * 389 % 1024).collect(),
        }
    }
}

fn owner() -> OwnerId {
    OwnerId::new(7).expect("not zero")
}

fn full_reservation() -> Reservation<HostMemory> {
    let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)]).expect("geometry");
    let memory = HostMemory::new(geometry, 1026).expect("memory");
    let pool = PagePool::new(PoolConfig::new(1026), memory).expect("pool");
    let proof = pool.prove(CapacityPlan::new(1024 * 16)).expect("fits");
    let mut kv = pool.reserve(&proof, Request::new(owner(), 1024 * 16), 1024 * 16).expect("room");
    kv.write(1024 * 16, &[&vec![1; 1024 * 1024]]).expect("written");
    kv
}

macro_rules! walk {
    ($go_on:expr, $list:expr, $operation:expr) => {{
        let (list, mut at) = (&$list[..1024], 0_usize);
        repeat($go_on, || {
            let next = list[at & 1023];
            at += 1;
            ($operation)(black_box(next));
        })
    }};
}

/// `PagePool::read`, and the end of its guard.
pub(crate) struct ByHandle {
    pool: PagePool<HostMemory>,
    _kv: Reservation<HostMemory>,
    handles: Vec<PageHandle<HostMemory>>,
}

impl ByHandle {
    pub(crate) fn new(pages: Pages) -> Self {
        let kv = full_reservation();
        let handles = pages.order().into_iter().map(|at| kv.handle(at).expect("page")).collect();
        Self { pool: kv.pool().clone(), _kv: kv, handles }
    }
}

impl Work for ByHandle {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.handles, |handle| {
            let guard = self.pool.read(owner(), handle).expect("live");
            black_box(&guard);
        })
    }
}

/// `Reservation::read` of one page's tokens, and the end of its guard.
pub(crate) struct ByReservation {
    kv: Reservation<HostMemory>,
    order: Vec<u32>,
}

impl ByReservation {
    pub(crate) fn new(pages: Pages) -> Self {
        Self { kv: full_reservation(), order: pages.order() }
    }
}

impl Work for ByReservation {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.order, |page: u32| {
            let first = u64::from(page) * 16;
            let guard = self.kv.read(first..first + 16).expect("written");
            black_box(&guard);
        })
    }
}

/// A load of a stamp with Acquire and its comparison: no guard, nothing keeps the page.
pub(crate) struct AcquireLoad {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
}

impl AcquireLoad {
    pub(crate) fn new(pages: Pages) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order() }
    }
}

impl Work for AcquireLoad {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.order, |page: u32| {
            black_box(self.stamps[page as usize].load(Ordering::Acquire));
        })
    }
}

/// The least that any hazard costs on this machine: store, full fence, load, store.
pub(crate) struct HazardFloor {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
}

impl HazardFloor {
    pub(crate) fn new(pages: Pages) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order() }
    }
}

impl Work for HazardFloor {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        #[repr(align(128))]
        struct Slot(AtomicU64);
        let slot = Slot(AtomicU64::new(0));
        let slot = black_box(&slot);
        walk!(go_on, self.order, |page: u32| {
            slot.0.store(u64::from(page), Ordering::Release);
            fence(Ordering::SeqCst);
            black_box(self.stamps[page as usize].load(Ordering::Acquire));
            slot.0.store(0, Ordering::Release);
        })
    }
}

/// The least that a counted pin costs: one read-modify-write to pin, one to unpin.
pub(crate) struct PinFloor {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
}

impl PinFloor {
    pub(crate) fn new(pages: Pages) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order() }
    }
}

impl Work for PinFloor {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.order, |page: u32| {
            let stamp = &self.stamps[page as usize];
            black_box(stamp.fetch_add(1, Ordering::Acquire));
            stamp.fetch_sub(1, Ordering::Release);
        })
    }
}

/// A look into a slotmap that nobody changes.
pub(crate) struct SlotmapGet {
    map: SlotMap<DefaultKey, u64>,
    keys: Vec<DefaultKey>,
}

impl SlotmapGet {
    pub(crate) fn new(pages: Pages) -> Self {
        let mut map = SlotMap::with_capacity(1024);
        let keys: Vec<DefaultKey> = (0..1024).map(|page| map.insert(page)).collect();
        Self { map, keys: pages.order().into_iter().map(|page| keys[page as usize]).collect() }
    }
}

impl Work for SlotmapGet {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.keys, |key| {
            black_box(self.map.get(key));
        })
    }
}

/// A look into a slotmap under a lock.
pub(crate) struct MutexSlotmapGet {
    map: Mutex<SlotMap<DefaultKey, u64>>,
    keys: Vec<DefaultKey>,
}

impl MutexSlotmapGet {
    pub(crate) fn new(pages: Pages) -> Self {
        let SlotmapGet { map, keys } = SlotmapGet::new(pages);
        Self { map: Mutex::new(map), keys }
    }
}

impl Work for MutexSlotmapGet {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk!(go_on, self.keys, |key| {
            black_box(self.map.lock().get(key).copied());
        })
    }
}
