//! The state behind all functions, and what each of them begins with.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};

use crate::capture::Capture;
use crate::event::Event;
use crate::injection::Injection;
use crate::ptx::Module;
use crate::result::{
    CONTEXT_IS_DESTROYED, Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_INITIALIZED, NOT_SUPPORTED, SUCCESS,
};
use crate::stream::{LEGACY, Stream};
use crate::work::Work;

/// The one context.
pub(crate) const CONTEXT: u64 = 0xC0_0010;

pub(crate) type Guard = MutexGuard<'static, Driver>;

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new(0)));

/// Something that somebody may wait for has changed.
pub(crate) static CHANGED: Condvar = Condvar::new();

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct Driver {
    /// Counts resets: threads of an earlier life go.
    pub(crate) life: u64,
    pub(crate) initialised: bool,
    /// How often the context was retained.
    pub(crate) retained: u32,
    /// The fault that the context died of.
    pub(crate) sticky: Option<Code>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) hold_new: bool,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) modules: BTreeMap<u64, Arc<Module>>,
    pub(crate) functions: BTreeMap<u64, Function>,
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) graphs: BTreeMap<u64, Arc<[Work]>>,
    pub(crate) executables: BTreeMap<u64, Arc<[Work]>>,
    pub(crate) injection: Injection,
    pub(crate) refusal: String,
    handles: u64,
}

/// A kernel of a module that is loaded.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) owner: u64,
    pub(crate) module: Arc<Module>,
    pub(crate) kernel: usize,
}

impl Driver {
    fn new(life: u64) -> Self {
        Self {
            life,
            initialised: false,
            retained: 0,
            sticky: None,
            streams: BTreeMap::new(),
            hold_new: false,
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            injection: Injection::default(),
            refusal: String::new(),
            handles: 0,
        }
    }

    /// A handle that was never one before, of anything.
    pub(crate) fn handle(&mut self) -> u64 {
        self.handles += 1;
        (self.life << 32) + 0x1_0000 + self.handles * 16
    }

    pub(crate) fn reset(&mut self) {
        *self = Driver::new(self.life + 1);
        CHANGED.notify_all();
    }

    /// The stream of a handle.
    pub(crate) fn stream(&self, handle: u64) -> Result<u64, Code> {
        match handle {
            // CU_STREAM_LEGACY; CU_STREAM_PER_THREAD.
            0 | 1 => Ok(LEGACY),
            2 => Err(NOT_SUPPORTED),
            _ if self.streams.contains_key(&handle) => Ok(handle),
            _ => Err(INVALID_HANDLE),
        }
    }
}

pub(crate) fn lock() -> Guard {
    DRIVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn current() -> u64 {
    CURRENT.get()
}

pub(crate) fn set_current(context: u64) {
    CURRENT.set(context);
}

/// What must be true before a function does anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// `cuInit`.
    Driver,
    /// A context that is current in this thread and alive.
    Context,
}

/// A call of a function: counts it, lets it fail if it is to fail, checks what it needs, does it.
pub(crate) fn call(name: &'static str, needs: Needs, body: impl FnOnce(Guard) -> Result<(), Code>) -> Code {
    let mut driver = lock();
    let checked = driver.injection.call(name).and_then(|()| {
        if !driver.initialised {
            return Err(NOT_INITIALIZED);
        }
        if needs == Needs::Context {
            if current() != CONTEXT {
                return Err(INVALID_CONTEXT);
            }
            if driver.retained == 0 {
                return Err(CONTEXT_IS_DESTROYED);
            }
        }
        driver.sticky.map_or(Ok(()), Err)
    });
    match checked.and_then(|()| body(driver)) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

/// Stores an answer.
///
/// # Safety
///
/// 1. `to` is null or valid for writes.
pub(crate) unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(crate::result::INVALID_VALUE);
    }
    // SAFETY: (1).
    unsafe { to.write(value) };
    Ok(())
}
