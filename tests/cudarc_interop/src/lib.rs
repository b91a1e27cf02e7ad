//! An engine that is written with cudarc: its context, its stream, its copies.
//!
//! `tests/gates/cudarc.sh` runs the tests: it names the driver by `PAGESTAMP_CUDA_DRIVER` and lets cudarc, which looks for
//! `libcuda.so` by the loader's own rules, find the same one. `PAGESTAMP_EXPECT_GPU=1` refuses the stand-in.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::culib;
use cudarc::driver::{CudaContext, CudaStream};
use libloading::{Library, Symbol};
use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{CudaMemory, Driver};
use pagestamp::{PageGeometry, PageMemory, PagePool, Plane, PoolConfig};

/// Tokens of a page.
pub const PAGE_TOKENS: u64 = 4;
/// Bytes of a token in each of the two planes.
pub const TOKEN_BYTES: u64 = 64;
/// Bytes of a page in each plane.
pub const PAGE_BYTES: usize = (PAGE_TOKENS * TOKEN_BYTES) as usize;
/// K and V.
pub const PLANES: usize = 2;

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = std::env::var_os("PAGESTAMP_CUDA_DRIVER").filter(|path| !path.is_empty());
        let path = PathBuf::from(path.expect("PAGESTAMP_CUDA_DRIVER names the driver; tests/gates/cudarc.sh sets it"));
        // SAFETY: what whoever runs the tests names as a driver.
        unsafe { Library::new(path) }.expect("the driver opens")
    })
}

/// A function of the driver, or of the stand-in.
fn symbol<T>(name: &str) -> Option<Symbol<'static, T>> {
    // SAFETY: the callers name functions with their types.
    unsafe { library().get(name.as_bytes()) }.ok()
}

/// Whether the driver is the stand-in, whose streams can be held and which counts what lives.
#[must_use]
pub fn is_standin() -> bool {
    symbol::<unsafe extern "C" fn() -> u32>("kvstandin_version").is_some()
}

/// The driver as pagestamp opens it, which is the very one that cudarc opens.
///
/// # Panics
///
/// None is named, cudarc finds another one, or it is the stand-in where a GPU was expected.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let ours = *symbol::<*const c_void>("cuInit").expect("a driver has cuInit");
        // SAFETY: it loads the driver by the system's name and gives it out.
        let theirs = unsafe { culib() };
        // SAFETY: no function is called, addresses are compared.
        let theirs = *unsafe { theirs.get::<*const c_void>(b"cuInit") }.expect("a driver has cuInit");
        // A handle means something to the driver that gave it out, and to no other.
        assert_eq!(ours, theirs, "cudarc found another driver than PAGESTAMP_CUDA_DRIVER names");
        let path = PathBuf::from(std::env::var_os("PAGESTAMP_CUDA_DRIVER").unwrap_or_default());
        // SAFETY: (1) as in `library`.
        let driver = unsafe { Driver::open(&path) }.expect("the driver works");
        println!("driver: {} ({})", path.display(), driver.device_name(0).expect("a device"));
        assert!(std::env::var_os("PAGESTAMP_EXPECT_GPU").is_none() || !is_standin(), "no real GPU answered");
        driver
    })
}

/// Makes the stand-in as a new process finds it, while nobody uses it; does nothing to a real driver.
pub fn start_anew() {
    if let Some(reset) = symbol::<unsafe extern "C" fn()>("kvstandin_reset") {
        // SAFETY: a function of the stand-in.
        unsafe { reset() };
    }
}

/// What the stand-in counts as made and not taken back: allocations, pinned memory, streams, events, modules, graphs, and
/// how often the context is retained. Nothing of a real driver.
#[must_use]
pub fn live() -> Option<[u64; 7]> {
    let mut live = [0; 7];
    let count = symbol::<unsafe extern "C" fn(*mut [u64; 7])>("kvstandin_live")?;
    // SAFETY: it writes seven numbers.
    unsafe { count(&raw mut live) };
    Some(live)
}

/// An engine, with one stream; cudarc's streams keep their context.
#[derive(Debug)]
pub struct Engine {
    /// A stream in the primary context of the device.
    pub stream: Arc<CudaStream>,
}

impl Default for Engine {
    fn default() -> Self {
        driver();
        let context = CudaContext::new(0).expect("a context");
        Self { stream: context.new_stream().expect("a stream") }
    }
}

impl Engine {
    /// A pool of so many pages for requests in the engine's own context, cleaned, and the lane that is the engine's stream.
    ///
    /// # Safety
    ///
    /// 1. The engine is dropped after the pool.
    #[must_use]
    pub unsafe fn pool(&self, pages: u32) -> (PagePool<CudaMemory>, Lane) {
        let context = self.stream.context().cu_ctx() as u64;
        // SAFETY: (1) the driver is the same one, and the stream keeps the context by (1) of the caller.
        let memory = unsafe { CudaMemory::in_context(driver(), context, geometry(), pages + 2) }.expect("memory");
        // SAFETY: (1) of the caller. (2) it is the engine's only stream.
        let lane = unsafe { memory.add_lane(self.stream.cu_stream() as u64) }.expect("a stream of the context");
        let pool = PagePool::new(PoolConfig::new(pages + 2), memory).expect("a pool");
        settle(&pool);
        (pool, lane)
    }

    /// Copies bytes to an address that is not cudarc's, by its own copy, and does not wait for more than that copy does.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        // SAFETY: the callers name bytes of a page that they hold, which is leaked again before it could be freed.
        let mut page = unsafe { self.stream.upgrade_device_ptr::<u8>(address, bytes.len()) };
        let copied = self.stream.memcpy_htod(bytes, &mut page);
        page.leak();
        copied.expect("a copy to the device");
    }

    /// Reads as `write` writes, in the stream's order.
    #[must_use]
    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        // SAFETY: as in `write`.
        let page = unsafe { self.stream.upgrade_device_ptr::<u8>(address, bytes) };
        let copied = self.stream.clone_dtoh(&page);
        page.leak();
        self.stream.synchronize().expect("the stream works");
        copied.expect("a copy from the device")
    }

    /// Holds back what the stream has not begun, until the answer is dropped; nothing of a real driver.
    #[must_use = "dropping it lets the stream go on"]
    pub fn hold(&self) -> Held<'_> {
        self.call("kvstandin_hold");
        Held { engine: self }
    }

    fn call(&self, name: &str) {
        if let Some(call) = symbol::<unsafe extern "C" fn(*mut c_void) -> u32>(name) {
            // SAFETY: a function of the stand-in that takes a stream.
            assert_eq!(unsafe { call(self.stream.cu_stream().cast()) }, 0);
        }
    }
}

/// A stream that starts nothing.
#[derive(Debug)]
pub struct Held<'e> {
    engine: &'e Engine,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.engine.call("kvstandin_release");
    }
}

/// Two planes of the same shape.
///
/// # Panics
///
/// Never: the shape is one.
#[must_use]
pub fn geometry() -> PageGeometry {
    let plane = Plane::per_token(1, TOKEN_BYTES as u32);
    PageGeometry::new(PAGE_TOKENS as u32, &[plane, plane]).expect("a geometry")
}

/// Waits until the device has nothing to clean any more.
///
/// # Panics
///
/// It does not end.
pub fn settle<M: PageMemory>(pool: &PagePool<M>) {
    for _ in 0..1_000_000 {
        pool.maintain(usize::MAX);
        if pool.stats().cleaning_pages == 0 {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the device does not clean: {:?}", pool.stats());
}
