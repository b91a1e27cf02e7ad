//! parking_lot's face on loom's lock, made so that loom tries every order of the takers.
//!
//! As with atomics (`watched.rs`), each attempt first steps on a word of its own: loom does not see by itself that an
//! attempt that fails depends on who held the lock. Nobody panics under a lock, so that none is poisoned.

use loom::sync::atomic::{AtomicUsize, Ordering};

pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

#[derive(Debug)]
pub(crate) struct Mutex<T> {
    order: AtomicUsize,
    lock: loom::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { order: AtomicUsize::new(0), lock: loom::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.order.fetch_add(1, Ordering::Relaxed);
        self.lock.lock().expect("no model panics and goes on")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.order.fetch_add(1, Ordering::Relaxed);
        self.lock.try_lock().ok()
    }
}
