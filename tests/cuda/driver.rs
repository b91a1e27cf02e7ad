//! The driver under test, and an engine that calls it.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::{Library, Symbol};
use pagestamp::memory::cuda::Driver;
use parking_lot::{Mutex, MutexGuard};

use crate::standin::driver_path;

/// Calls a function of the driver as an engine does, and expects it to succeed.
macro_rules! call {
    ($name:ident($($argument:expr => $kind:ty),* $(,)?)) => {{
        let function = symbol::<unsafe extern "C" fn($($kind),*) -> u32>(stringify!($name)).unwrap();
        // SAFETY: the driver's own function, with its types; what it writes is there.
        let answer = unsafe { function($($argument),*) };
        assert_eq!(answer, 0, stringify!($name));
    }};
}

/// The driver is one for the process, and so is what a test does to it: tests take turns. On the stand-in, a turn ends with
/// nothing left that was not there before.
pub(crate) struct Turn {
    before: Option<Live>,
    _turn: MutexGuard<'static, ()>,
}

thread_local! {
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    HAS_TURN.set(true);
    context();
    Turn { before: live(), _turn: turn }
}

impl Turn {
    /// Ends the turn of a test that leaves something for good, or after which nothing of before is there.
    pub(crate) fn counts_anew(mut self) {
        self.before = live();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
        if std::thread::panicking() {
            if is_stand_in() {
                start_anew(); // so that the next test sees nothing of it
            }
            return;
        }
        // A stream that was destroyed is there until its thread has seen it.
        for _ in 0..1_000_000 {
            let (now, before) = (live().unwrap_or_default(), self.before.unwrap_or_default());
            if now == (Live { streams: now.streams.min(before.streams), ..before }) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("left on the device: {:?} after {:?}", live(), self.before);
    }
}

/// What was made and not taken back, as the stand-in counts it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Live {
    pub(crate) device_allocations: u64,
    pub(crate) pinned: u64,
    pub(crate) streams: u64,
    pub(crate) events: u64,
    pub(crate) modules: u64,
    pub(crate) graphs: u64,
    pub(crate) retained: u64,
}

pub(crate) fn live() -> Option<Live> {
    let function = symbol::<unsafe extern "C" fn(*mut Live)>("kvstandin_live")?;
    let mut live = Live::default();
    // SAFETY: the stand-in's own function; what it writes is there.
    unsafe { function(&raw mut live) };
    Some(live)
}

/// The driver, opened once; and said which it is.
pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    assert!(HAS_TURN.get(), "a test of the device begins with `turn()`");
    DRIVER.get_or_init(|| {
        // SAFETY: (1) the stand-in, or what whoever runs the tests names as a driver.
        let driver = unsafe { Driver::open(driver_path()) }.unwrap();
        let name = driver.device_name(0).unwrap();
        println!("driver: {} ({name})", driver.path().display());
        assert!(std::env::var_os("PAGESTAMP_EXPECT_GPU").is_none() || !is_stand_in(), "no real GPU answered");
        driver
    })
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    // SAFETY: as for `driver`.
    LIBRARY.get_or_init(|| unsafe { Library::new(driver_path()) }.unwrap())
}

fn symbol<T>(name: &str) -> Option<Symbol<'static, T>> {
    // SAFETY: the callers name functions of the driver, or of the stand-in, with their types.
    unsafe { library().get(name.as_bytes()) }.ok()
}

/// Says whether the driver is the stand-in, which can be held and made to fail.
pub(crate) fn is_stand_in() -> bool {
    symbol::<unsafe extern "C" fn() -> u32>("kvstandin_version").is_some()
}

/// Lets the `nth` call of a function of the stand-in from now on fail; 0 takes it back.
pub(crate) fn fail(name: &str, nth: u64, code: u32) {
    let name = CString::new(name).unwrap();
    let function = symbol::<unsafe extern "C" fn(*const c_char, u64, u32)>("kvstandin_fail").unwrap();
    // SAFETY: the stand-in's own function; the name ends with a zero.
    unsafe { function(name.as_ptr(), nth, code) };
}

/// Calls of a function of the driver so far, as the stand-in counts them; 0 on another driver.
pub(crate) fn calls(name: &str) -> u64 {
    let Some(function) = symbol::<unsafe extern "C" fn(*const c_char) -> u64>("kvstandin_calls") else { return 0 };
    let name = CString::new(name).unwrap();
    // SAFETY: the stand-in's own function; the name ends with a zero.
    unsafe { function(name.as_ptr()) }
}

/// Holds every stream of the stand-in, the library's own among them.
pub(crate) fn hold_all() {
    let function = symbol::<unsafe extern "C" fn()>("kvstandin_hold_all").unwrap();
    // SAFETY: the stand-in's own function.
    unsafe { function() };
}

pub(crate) fn release_all() {
    let function = symbol::<unsafe extern "C" fn()>("kvstandin_release_all").unwrap();
    // SAFETY: the stand-in's own function.
    unsafe { function() };
}

/// What lies on the device now, whatever stands in queues.
pub(crate) fn peek(address: u64, bytes: usize) -> Vec<u8> {
    let mut to = vec![0; bytes];
    call!(kvstandin_peek(to.as_mut_ptr() => *mut u8, address => u64, bytes as u64 => u64));
    to
}

/// Takes the context from this thread, as a thread of the engine that never had one.
pub(crate) fn without_context() {
    call!(cuCtxSetCurrent(null_mut() => *mut c_void));
}

/// Starts the stand-in anew, as a new process would after its context died; nothing of before is left.
pub(crate) fn start_anew() {
    let function = symbol::<unsafe extern "C" fn()>("kvstandin_reset").unwrap();
    // SAFETY: the stand-in's own function; the tests take turns.
    unsafe { function() };
    let mut retained = null_mut();
    call!(cuInit(0 => u32));
    call!(cuDevicePrimaryCtxRetain(&raw mut retained => *mut *mut c_void, 0 => i32));
    assert_eq!(retained as u64, context(), "the stand-in has one context");
}

/// Lets the context die of a fault, as a kernel that runs wild does.
pub(crate) fn kill_context() {
    let (bytes, stream) = (EngineBytes::new(64), EngineStream::new());
    stream.hold();
    stream.fill(bytes.0, 0, 64);
    drop(bytes);
    let (raw, function) = (stream.raw(), symbol::<unsafe extern "C" fn(*mut c_void) -> u32>("cuStreamSynchronize"));
    stream.release();
    // SAFETY: the driver's own function, with its types.
    assert_eq!(unsafe { function.unwrap()(raw) }, 700);
    std::mem::forget(stream); // gone with the context
}

/// The streams of the stand-in that were made between two others.
pub(crate) fn streams_between(first: &EngineStream, last: &EngineStream) -> Vec<u64> {
    let is_stream = |handle: &u64| stream_word("kvstandin_pending", *handle) != u64::MAX;
    (first.0 + 1..last.0).filter(is_stream).collect()
}

fn stream_word(name: &str, stream: u64) -> u64 {
    let function = symbol::<unsafe extern "C" fn(*mut c_void) -> u64>(name).unwrap();
    // SAFETY: the stand-in's own function; a handle of nothing is one too.
    unsafe { function(stream as *mut c_void) }
}

/// Lets the next piece of work of a held stream run and waits for its end; `false` when it waits for another stream.
pub(crate) fn run_one(stream: u64) -> bool {
    if stream_word("kvstandin_ready", stream) == 0 {
        return false;
    }
    let pending = stream_word("kvstandin_pending", stream);
    call!(kvstandin_step(stream as *mut c_void => *mut c_void));
    while stream_word("kvstandin_pending", stream) == pending {
        std::thread::yield_now();
    }
    true
}

/// Holds a stream that is the library's own.
pub(crate) fn hold(stream: u64) {
    call!(kvstandin_hold(stream as *mut c_void => *mut c_void));
}

pub(crate) fn release(stream: u64) {
    call!(kvstandin_release(stream as *mut c_void => *mut c_void));
}

/// Pieces of work that a stream holds.
pub(crate) fn pending(stream: u64) -> u64 {
    stream_word("kvstandin_pending", stream)
}

/// The primary context, made current on this thread.
pub(crate) fn context() -> u64 {
    static CONTEXT: OnceLock<u64> = OnceLock::new();
    let context = *CONTEXT.get_or_init(|| {
        let mut context = null_mut();
        call!(cuInit(0 => u32));
        call!(cuDevicePrimaryCtxRetain(&raw mut context => *mut *mut c_void, 0 => i32));
        context as u64
    });
    call!(cuCtxSetCurrent(context as *mut c_void => *mut c_void));
    context
}

/// Memory of the device that the engine has.
pub(crate) struct EngineBytes(pub(crate) u64, usize);

impl EngineBytes {
    pub(crate) fn new(bytes: usize) -> Self {
        context();
        let mut address = 0;
        call!(cuMemAlloc_v2(&raw mut address => *mut u64, bytes => usize));
        Self(address, bytes)
    }

    pub(crate) fn words(words: &[u32], stream: &EngineStream) -> Self {
        let there = Self::new(words.len() * 4);
        stream.put(there.0, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
        there
    }

    pub(crate) fn get_words(&self, stream: &EngineStream) -> Vec<u32> {
        stream.get(self.0, self.1).chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

impl Drop for EngineBytes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // as a stream
        }
        context();
        call!(cuMemFree_v2(self.0 => u64));
    }
}

/// A stream of the engine, in the primary context of the device.
pub(crate) struct EngineStream(pub(crate) u64);

impl EngineStream {
    pub(crate) fn new() -> Self {
        context();
        let mut stream = null_mut();
        call!(cuStreamCreate(&raw mut stream => *mut *mut c_void, 1 => u32));
        Self(stream as u64)
    }

    fn raw(&self) -> *mut c_void {
        context();
        self.0 as *mut c_void
    }

    /// Holds back what has not begun.
    pub(crate) fn hold(&self) {
        call!(kvstandin_hold(self.0 as *mut c_void => *mut c_void));
    }

    pub(crate) fn release(&self) {
        call!(kvstandin_release(self.0 as *mut c_void => *mut c_void));
    }

    /// Writes a byte into bytes of the device, as a kernel of the engine would.
    pub(crate) fn fill(&self, address: u64, value: u8, bytes: usize) {
        call!(cuMemsetD8Async(address => u64, value => u8, bytes => usize, self.raw() => *mut c_void));
    }

    /// Copies bytes to the device, in the stream's order; they are taken at once.
    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        let from = bytes.as_ptr().cast::<c_void>();
        call!(cuMemcpyHtoDAsync_v2(address => u64, from => *const c_void, bytes.len() => usize, self.raw() => *mut c_void));
    }

    /// Copies bytes of the device, as a kernel that reads them would.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) {
        call!(cuMemcpyDtoDAsync_v2(to => u64, from => u64, bytes => usize, self.raw() => *mut c_void));
    }

    /// Copies bytes from the device, and waits.
    pub(crate) fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        let at = to.as_mut_ptr().cast::<c_void>();
        call!(cuMemcpyDtoHAsync_v2(at => *mut c_void, address => u64, bytes => usize, self.raw() => *mut c_void));
        self.finish();
        to
    }

    pub(crate) fn finish(&self) {
        call!(cuStreamSynchronize(self.raw() => *mut c_void));
    }

    /// Captures what is done with the stream meanwhile; nothing else of the process may break that.
    pub(crate) fn capture(&self, within: impl FnOnce()) -> Graph {
        const GLOBAL: u32 = 0;
        let (mut graph, mut executable) = (null_mut(), null_mut());
        call!(cuStreamBeginCapture_v2(self.raw() => *mut c_void, GLOBAL => u32));
        within();
        call!(cuStreamEndCapture(self.raw() => *mut c_void, &raw mut graph => *mut *mut c_void));
        call!(cuGraphInstantiateWithFlags(&raw mut executable => *mut *mut c_void, graph => *mut c_void, 0 => u64));
        call!(cuGraphDestroy(graph => *mut c_void));
        Graph(executable as u64)
    }
}

impl Drop for EngineStream {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // the context may be dead, and what failed is to be seen
        }
        self.finish(); // so that the stand-in counts it no more
        call!(cuStreamDestroy_v2(self.raw() => *mut c_void));
    }
}

/// A graph of the engine.
pub(crate) struct Graph(u64);

impl Drop for Graph {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // as a stream
        }
        context();
        call!(cuGraphExecDestroy(self.0 as *mut c_void => *mut c_void));
    }
}

impl Graph {
    pub(crate) fn launch(&self, stream: &EngineStream) {
        call!(cuGraphLaunch(self.0 as *mut c_void => *mut c_void, stream.raw() => *mut c_void));
    }
}
