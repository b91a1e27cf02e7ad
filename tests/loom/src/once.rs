//! `OnceLock` on loom's parts: what std promises, where the checker can see it.
//!
//! A value that is there is seen with Acquire, paired with the Release of who made it; who comes while it is being made
//! waits. std's own one would not disturb the models, but loom would see no order between maker and user.

use std::fmt;

use loom::sync::Mutex;

use crate::watched::{AtomicBool, Ordering};

pub(crate) struct OnceLock<T> {
    done: AtomicBool,
    making: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { done: AtomicBool::new(false), making: Mutex::new(()), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.done.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _making = self.making.lock().expect("no model panics and goes on");
            if self.value.get().is_none() {
                assert!(self.value.set(make()).is_ok(), "made twice");
                self.done.store(true, Ordering::Release);
            }
        }
        self.value.get().expect("made above, or by who held the lock before")
    }
}

impl<T> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceLock")
    }
}
