//! Look at one page: by handle, by reservation, and what others do for it.
//!
//! All walk the same list: 1,024 pages in a shuffled order, or one page over and over. Each look takes the place of the
//! next one in the list from what it read, as a reader does that follows a table: so a look is the time from having a
//! handle to having its answer. Looks that do not wait for each other overlap within one core, all but those with a full
//! fence or a read-modify-write; `Pace::Overlapping` measures that.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use pagestamp::{
    CapacityPlan, HostMemory, OwnerId, PageGeometry, PageHandle, PagePool, Plane, PoolConfig, Request, Reservation,
};
use parking_lot::Mutex;
use slotmap::{DefaultKey, SlotMap};

use super::{Work, repeat};

/// Whether a look waits for the answer of the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Chained,
    Overlapping,
}

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
    let geometry = PageGeometry::new(1, &[Plane::per_token(1, 64)]).expect("geometry");
    let memory = HostMemory::new(geometry, 1026).expect("memory");
    let pool = PagePool::new(PoolConfig::new(1026), memory).expect("pool");
    let proof = pool.prove(CapacityPlan::new(1024)).expect("fits");
    let mut kv = pool.reserve(&proof, Request::new(owner(), 1024), 1024).expect("room");
    kv.write(1024, &[&vec![1; 1024 * 64]]).expect("written");
    kv
}

/// Walks a list; `look` answers 1 for every page, which the compiler does not know.
#[inline(always)]
fn walk<T: Copy>(
    pace: Pace,
    list: &[T],
    go_on: &mut dyn FnMut() -> bool,
    mut look: impl FnMut(T) -> u64,
) -> (Duration, u64) {
    let (list, mut at) = (&list[..1024], 0);
    match pace {
        Pace::Chained => repeat(go_on, || at += look(list[at as usize & 1023])),
        Pace::Overlapping => repeat(go_on, || {
            black_box(look(list[at as usize & 1023]));
            at += 1;
        }),
    }
}

/// `PagePool::read`, and the end of its guard.
pub(crate) struct ByHandle {
    pool: PagePool<HostMemory>,
    _kv: Reservation<HostMemory>,
    handles: Vec<PageHandle<HostMemory>>,
    pace: Pace,
}

impl ByHandle {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        let kv = full_reservation();
        let handles = pages.order().into_iter().map(|at| kv.handle(at).expect("page")).collect();
        Self { pool: kv.pool().clone(), _kv: kv, handles, pace }
    }
}

impl Work for ByHandle {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.handles, go_on, |handle| {
            let guard = self.pool.read(owner(), handle).expect("live");
            u64::from(black_box(&guard).written_tokens())
        })
    }
}

/// `Reservation::read` of one page's tokens, and the end of its guard.
pub(crate) struct ByReservation {
    kv: Reservation<HostMemory>,
    order: Vec<u32>,
    pace: Pace,
}

impl ByReservation {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        Self { kv: full_reservation(), order: pages.order(), pace }
    }
}

impl Work for ByReservation {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.order, go_on, |page| {
            let guard = self.kv.read(u64::from(page)..u64::from(page) + 1).expect("written");
            let tokens = black_box(&guard).tokens();
            tokens.end - tokens.start
        })
    }
}

/// A load of a stamp with Acquire and its comparison: no guard, nothing keeps the page.
pub(crate) struct AcquireLoad {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
    pace: Pace,
}

impl AcquireLoad {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order(), pace }
    }
}

impl Work for AcquireLoad {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.order, go_on, |page| self.stamps[page as usize].load(Ordering::Acquire))
    }
}

/// The least that any hazard costs on this machine: store, full fence, load, store.
pub(crate) struct HazardFloor {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
    pace: Pace,
}

impl HazardFloor {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order(), pace }
    }
}

impl Work for HazardFloor {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        #[repr(align(128))]
        struct Slot(AtomicU64);
        let slot = Slot(AtomicU64::new(0));
        let slot = black_box(&slot);
        walk(self.pace, &self.order, go_on, |page| {
            slot.0.store(u64::from(page), Ordering::Release);
            fence(Ordering::SeqCst);
            let stamp = self.stamps[page as usize].load(Ordering::Acquire);
            slot.0.store(0, Ordering::Release);
            stamp
        })
    }
}

/// The least that a counted pin costs: one read-modify-write to pin, one to unpin.
pub(crate) struct PinFloor {
    stamps: Vec<AtomicU64>,
    order: Vec<u32>,
    pace: Pace,
}

impl PinFloor {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        Self { stamps: (0..1024).map(|_| AtomicU64::new(1)).collect(), order: pages.order(), pace }
    }
}

impl Work for PinFloor {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.order, go_on, |page| {
            let stamp = &self.stamps[page as usize];
            stamp.fetch_add(2, Ordering::Acquire);
            stamp.fetch_sub(2, Ordering::Release) & 1
        })
    }
}

/// A look into a slotmap that nobody changes.
pub(crate) struct SlotmapGet {
    map: SlotMap<DefaultKey, u64>,
    keys: Vec<DefaultKey>,
    pace: Pace,
}

impl SlotmapGet {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        let mut map = SlotMap::with_capacity(1024);
        let keys: Vec<DefaultKey> = (0..1024).map(|_| map.insert(1)).collect();
        Self { map, keys: pages.order().into_iter().map(|page| keys[page as usize]).collect(), pace }
    }
}

impl Work for SlotmapGet {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.keys, go_on, |key| black_box(self.map.get(key).copied()).unwrap_or(0))
    }
}

/// A look into a slotmap under a lock.
pub(crate) struct MutexSlotmapGet {
    map: Mutex<SlotMap<DefaultKey, u64>>,
    keys: Vec<DefaultKey>,
    pace: Pace,
}

impl MutexSlotmapGet {
    pub(crate) fn new(pages: Pages, pace: Pace) -> Self {
        let SlotmapGet { map, keys, pace } = SlotmapGet::new(pages, pace);
        Self { map: Mutex::new(map), keys, pace }
    }
}

impl Work for MutexSlotmapGet {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        walk(self.pace, &self.keys, go_on, |key| self.map.lock().get(key).copied().unwrap_or(0))
    }
}
