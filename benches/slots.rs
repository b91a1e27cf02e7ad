//! Claiming, freeing and looking at slots, beside what games use for it: `cargo bench --bench slots`.
//!
//! As in `bars`, all rivals take turns within one run, and the ratios are what to trust. Every rival is reached by many
//! threads at once, so that thunderdome and slotmap stand behind a lock, as a server would have them.

#[expect(dead_code, reason = "the rivals of pages have benches of their own")]
mod rivals;

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pagestamp::{CapacityPlan, CapacityProof, OwnerId, SlotConfig, SlotHandle, SlotPool};
use parking_lot::Mutex;
use rivals::race::{Bar, race, report};
use rivals::{Work, repeat};
use sharded_slab::Slab;
use slotmap::{DefaultKey, SlotMap};
use thunderdome::Arena;

/// Slots of every pool: more than two threads hold at once.
const SLOTS: u32 = 4096;

/// Slots that are looked at.
const SEEN: usize = 1024;

fn main() {
    claims();
    looks();
}

fn claims() {
    println!("claim + free, over Mutex<SlotMap>");
    for threads in [1, 2] {
        for n in [1, 8] {
            let (ours, filled) = (Slots::new(n, First::None), Slots::new(n, First::Value));
            let (slotmap, arena, slab) = (Locked::slotmap(n), Locked::arena(n), Sharded::new(n));
            let times = race(&[&ours, &filled, &slotmap, &arena, &slab], threads);
            let bar = match (n, threads) {
                (1, 1) => Bar::AtMost(2.0),
                (1, _) => Bar::AtMost(1.25),
                _ => Bar::None,
            };
            let per_slot = |at: usize| times[at] / f64::from(n);
            println!("  n={n} threads={threads}, slotmap {:.1} ns/slot", per_slot(2));
            let rows = [("pagestamp", 0, bar), ("pagestamp, init too", 1, Bar::None)];
            let others = [("Mutex<thunderdome::Arena>", 3, Bar::None), ("sharded-slab", 4, Bar::None)];
            for (name, at, bar) in rows.into_iter().chain(others) {
                report(&format!("    {name:<30} {:>6.1} ns/slot", per_slot(at)), times[at] / times[2], bar);
            }
        }
    }
}

fn looks() {
    println!("look at a value by its handle, over Mutex<SlotMap>");
    let ours = SeenSlots::new();
    let (mut map, mut arena, slab) = (SlotMap::new(), Arena::new(), Slab::new());
    let keys: Vec<DefaultKey> = (0..SEEN as u64).map(|value| map.insert(value)).collect();
    let places: Vec<thunderdome::Index> = (0..SEEN as u64).map(|value| arena.insert(value)).collect();
    let numbers: Vec<usize> = (0..SEEN as u64).map(|value| slab.insert(value).expect("room")).collect();
    let (map, arena) = (Mutex::new(map), Mutex::new(arena));
    let shared = Seen { keys: &ours.handles, look: |slot| ours.pool.with(ours.owner, slot, |value| *value).ok() };
    let changed = Seen { keys: &ours.handles, look: |slot| ours.pool.with_mut(ours.owner, slot, |value| *value).ok() };
    let in_map = Seen { keys: &keys, look: |key| map.lock().get(key).copied() };
    let in_arena = Seen { keys: &places, look: |at| arena.lock().get(at).copied() };
    let in_slab = Seen { keys: &numbers, look: |number| slab.get(number).map(|value| *value) };
    for threads in [1, 2] {
        let times = race(&[&shared, &changed, &in_map, &in_arena, &in_slab], threads);
        println!("  threads={threads}, slotmap {:.1} ns", times[2]);
        let names = ["pagestamp, with", "pagestamp, with_mut", "", "Mutex<thunderdome::Arena>", "sharded-slab"];
        for (name, time) in names.iter().zip(&times).filter(|(name, _)| !name.is_empty()) {
            report(&format!("    {name:<30} {time:>6.1} ns"), time / times[2], Bar::None);
        }
    }
}

/// Whether the slots get a value, as those of the others do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    None,
    Value,
}

/// One slot by its handle, more as a group; the reset writes a zero.
struct Slots {
    pool: SlotPool<u64>,
    proof: CapacityProof,
    n: u32,
    first: First,
}

impl Slots {
    fn new(n: u32, first: First) -> Self {
        let pool = SlotPool::zeroing(SlotConfig::new(SLOTS)).expect("pool");
        let proof = pool.prove(CapacityPlan::new(8)).expect("fits");
        Self { pool, proof, n, first }
    }
}

impl Work for Slots {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let owner = OwnerId::new(7).expect("not zero");
        if self.n == 1 {
            return repeat(go_on, || {
                let handle = self.pool.claim_one(&self.proof, black_box(owner)).expect("room");
                if self.first == First::Value {
                    self.pool.init(owner, handle, 7).expect("blank");
                }
                self.pool.release(owner, black_box(handle)).expect("live");
            });
        }
        repeat(go_on, || {
            let group = self.pool.claim(&self.proof, owner, black_box(self.n)).expect("room");
            if self.first == First::Value {
                (0..self.n as usize).for_each(|place| group.init(place, 7).expect("blank"));
            }
            black_box(group).release();
        })
    }
}

/// A container of one thread behind a lock: insert `n`, then remove `n`.
struct Locked<C, K> {
    container: Mutex<C>,
    insert: fn(&mut C) -> K,
    remove: fn(&mut C, K),
    n: u32,
}

impl Locked<SlotMap<DefaultKey, u64>, DefaultKey> {
    fn slotmap(n: u32) -> Self {
        let remove = |map: &mut SlotMap<_, _>, key| {
            black_box(map.remove(key));
        };
        let container = Mutex::new(SlotMap::with_capacity(SLOTS as usize));
        Self { container, insert: |map| map.insert(7), remove, n }
    }
}

impl Locked<Arena<u64>, thunderdome::Index> {
    fn arena(n: u32) -> Self {
        let remove = |arena: &mut Arena<u64>, at| {
            black_box(arena.remove(at));
        };
        let container = Mutex::new(Arena::with_capacity(SLOTS as usize));
        Self { container, insert: |arena| arena.insert(7), remove, n }
    }
}

impl<C: Send, K> Work for Locked<C, K> {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let mut keys = Vec::with_capacity(self.n as usize);
        repeat(go_on, || {
            let n = black_box(self.n);
            let mut container = self.container.lock();
            keys.extend((0..n).map(|_| (self.insert)(&mut container)));
            drop(container);
            black_box(&keys);
            let mut container = self.container.lock();
            keys.drain(..).for_each(|key| (self.remove)(&mut container, key));
        })
    }
}

/// A slab without locks, sharded by thread.
struct Sharded {
    slab: Slab<u64>,
    n: u32,
}

impl Sharded {
    fn new(n: u32) -> Self {
        Self { slab: Slab::new(), n }
    }
}

impl Work for Sharded {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        let mut keys = Vec::with_capacity(self.n as usize);
        repeat(go_on, || {
            keys.extend((0..black_box(self.n)).map(|_| self.slab.insert(7).expect("room")));
            black_box(&keys);
            keys.drain(..).for_each(|key| {
                black_box(self.slab.take(key));
            });
        })
    }
}

/// Slots of one owner, each with a value.
struct SeenSlots {
    pool: SlotPool<u64>,
    owner: OwnerId,
    handles: Vec<SlotHandle<u64>>,
}

impl SeenSlots {
    fn new() -> Self {
        let pool = SlotPool::zeroing(SlotConfig::new(SLOTS)).expect("pool");
        let proof = pool.prove(CapacityPlan::new(8)).expect("fits");
        let owner = OwnerId::new(7).expect("not zero");
        let claim = |value| {
            let handle = pool.claim_one(&proof, owner).expect("room");
            pool.init(owner, handle, value).expect("blank");
            handle
        };
        let handles = (0..SEEN as u64).map(claim).collect();
        Self { pool, owner, handles }
    }
}

/// Looks at one value after the other, in an order that jumps; two threads begin at different ones.
struct Seen<'a, K, F> {
    keys: &'a [K],
    look: F,
}

impl<K: Copy + Sync, F: Fn(K) -> Option<u64> + Sync> Work for Seen<'_, K, F> {
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let mut at = THREADS.fetch_add(1, Ordering::Relaxed) * SEEN / 2;
        repeat(go_on, || {
            at = (at + 389) % SEEN;
            // With threads, one may be at the very slot that the other one wants to change.
            black_box((self.look)(black_box(self.keys[at])));
        })
    }
}
