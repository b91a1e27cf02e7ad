//! loom's atomics, made so that loom tries every order of the accesses to one word.
//!
//! loom 0.7 remembers one last access for each word, and asks whether a store could have come before *that*. A thread
//! that loads a word and then stores it (every change of a stamp does) so hides the loads of others in between its own
//! and theirs: orders in which another's load comes behind the store are never tried. Here each access first steps on a
//! word of its own by a Relaxed read-modify-write. Such steps depend on each other, so their order is tried in full.
//! Fences do the same among themselves.
//!
//! A step adds no happens-before: it is Relaxed, and what a fence makes of it (release before, acquire behind) loom gives
//! to two `SeqCst` fences anyway.

use std::cell::RefCell;

pub(crate) use loom::sync::atomic::Ordering;

/// The word that accesses step on.
#[derive(Debug)]
struct Order(loom::sync::atomic::AtomicUsize);

impl Order {
    fn new() -> Self {
        Self(loom::sync::atomic::AtomicUsize::new(0))
    }

    fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

macro_rules! watched {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            order: Order,
            word: loom::sync::atomic::$name,
        }

        #[allow(dead_code, reason = "not every word uses every access")]
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self { order: Order::new(), word: loom::sync::atomic::$name::new(value) }
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                // Relaxed loads are those of a writer under the pool's lock, or come behind a load that stepped.
                if order != Ordering::Relaxed {
                    self.order.step();
                }
                self.word.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.order.step();
                self.word.store(value, order);
            }

            pub(crate) fn compare_exchange(
                &self,
                now: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.order.step();
                self.word.compare_exchange(now, new, done, failed)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                now: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(now, new, done, failed)
            }

            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.order.step();
                self.word.fetch_or(value, order)
            }
        }
    };
}

macro_rules! counted {
    ($name:ident, $value:ty) => {
        #[allow(dead_code, reason = "not every word uses every access")]
        impl $name {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.order.step();
                self.word.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.order.step();
                self.word.fetch_sub(value, order)
            }
        }
    };
}

watched!(AtomicBool, bool);
watched!(AtomicU16, u16);
watched!(AtomicU32, u32);
watched!(AtomicU64, u64);
counted!(AtomicU32, u32);
counted!(AtomicU64, u64);

thread_local! {
    // All threads of a model run on one thread of the system.
    static FENCES: RefCell<Option<std::rc::Rc<Order>>> = const { RefCell::new(None) };
}

/// Begins an execution: fences of the last one are forgotten.
pub(crate) fn begin() {
    FENCES.set(Some(std::rc::Rc::new(Order::new())));
}

pub(crate) fn fence(order: Ordering) {
    let fences = FENCES.with_borrow(Clone::clone);
    fences.expect("an execution began").step();
    loom::sync::atomic::fence(order);
}
