//! The engine's side: streams, events, memory and fills of its own, straight from the driver.

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::Duration;

use libloading::Library;
use pagestamp::PagePool;
use pagestamp::memory::cuda::{CudaMemory, Driver};

pub(crate) type Stream = *mut c_void;
type Event = *mut c_void;

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        #[expect(non_snake_case, reason = "the driver's own names")]
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) -> u32,)*
        }

        impl Functions {
            fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the driver's functions of these names have these types.
                    $($name: *unsafe { library.get(stringify!($name).as_bytes()) }?,)*
                })
            }
        }

        #[expect(non_snake_case, clippy::too_many_arguments, reason = "the driver's own names and arguments")]
        impl Engine {
            $(fn $name(&self, $($argument: $kind),*) {
                // SAFETY: who calls it here gives pointers to what lives, and handles and addresses that this driver gave.
                let answer = unsafe { (self.functions.$name)($($argument),*) };
                assert_eq!(answer, 0, stringify!($name));
            })*
        }
    };
}

functions! {
    cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: i32);
    cuCtxSetCurrent(context: *mut c_void);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: Stream);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Stream);
    cuStreamCreate(stream: *mut Stream, flags: u32);
    cuStreamSynchronize(stream: Stream);
    cuStreamWaitEvent(stream: Stream, event: Event, flags: u32);
    cuEventCreate(event: *mut Event, flags: u32);
    cuEventRecord(event: Event, stream: Stream);
    cuEventSynchronize(event: Event);
    cuEventElapsedTime(milliseconds: *mut f32, start: Event, end: Event);
    cuModuleLoadData(module: *mut *mut c_void, image: *const c_void);
    cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char);
    cuLaunchKernel(
        function: *mut c_void, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: Stream, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    );
}

/// A kernel that does nothing: the least that a launch costs.
const NOTHING: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing()
{
    ret;
}
\0";

pub(crate) struct Engine {
    pub(crate) driver: Driver,
    library: Library,
    functions: Functions,
    nothing: *mut c_void,
    timed: [Event; 2],
    /// Filled to keep a stream busy, and how long that takes once.
    scratch: Scratch,
}

struct Scratch {
    address: u64,
    bytes: usize,
    took: Duration,
}

impl Engine {
    /// Opens the driver that `PAGESTAMP_CUDA_DRIVER` names, else the system's.
    pub(crate) fn open() -> Result<Self, Box<dyn std::error::Error>> {
        let named = std::env::var_os("PAGESTAMP_CUDA_DRIVER").filter(|path| !path.is_empty());
        let path = named.map_or_else(|| PathBuf::from("libcuda.so.1"), PathBuf::from);
        // SAFETY: (1) the system's driver, or what whoever runs the bench names as one.
        let driver = unsafe { Driver::open(&path) }?;
        if driver.devices()? == 0 {
            return Err("the driver finds no device".into());
        }
        // SAFETY: it is loaded already.
        let library = unsafe { Library::new(&path) }?;
        let functions = Functions::load(&library)?;
        let scratch = Scratch { address: 0, bytes: 0, took: Duration::ZERO };
        let mut engine = Self { driver, library, functions, nothing: null_mut(), timed: [null_mut(); 2], scratch };
        engine.begin();
        Ok(engine)
    }

    fn begin(&mut self) {
        let (mut context, mut module, mut nothing) = (null_mut(), null_mut(), null_mut());
        self.cuDevicePrimaryCtxRetain(&raw mut context, 0);
        self.cuCtxSetCurrent(context);
        self.cuModuleLoadData(&raw mut module, NOTHING.as_ptr().cast());
        self.cuModuleGetFunction(&raw mut nothing, module, c"nothing".as_ptr());
        self.nothing = nothing;
        self.timed = [self.event(Timing::On), self.event(Timing::On)];
        self.scratch.bytes = if self.is_standin() { 4 << 10 } else { 256 << 20 };
        self.scratch.address = self.allocate(self.scratch.bytes);
        let stream = self.stream();
        let fill = || self.fill(self.scratch.address, 0, self.scratch.bytes, stream);
        fill(); // the first one loads what later ones find
        self.finish(stream);
        let took = Duration::from_secs_f64(self.between(stream, stream, fill) / 1e6);
        self.scratch.took = took.max(Duration::from_micros(1));
    }

    /// Whether the driver is the stand-in of `tests/kvstandin`.
    pub(crate) fn is_standin(&self) -> bool {
        // SAFETY: the function is not called.
        unsafe { self.library.get::<unsafe extern "C" fn() -> u32>(b"kvstandin_version") }.is_ok()
    }

    pub(crate) fn gpu(&self) -> String {
        self.driver.device_name(0).unwrap()
    }

    /// The CUDA version that the driver serves, and the kernel module's own number where there is one.
    pub(crate) fn driver_version(&self) -> String {
        let version = self.driver.version().unwrap();
        let module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let is_number = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
        let number = module.split_whitespace().find(is_number).map_or(String::new(), |it| format!(", NVIDIA {it}"));
        format!("CUDA {}.{}{number}", version / 1000, version % 1000 / 10)
    }

    pub(crate) fn describe(&self) -> String {
        format!("driver: {} ({}; {})", self.driver.path().display(), self.gpu(), self.driver_version())
    }

    pub(crate) fn stream(&self) -> Stream {
        const NON_BLOCKING: u32 = 1;
        let mut stream = null_mut();
        self.cuStreamCreate(&raw mut stream, NON_BLOCKING);
        stream
    }

    pub(crate) fn event(&self, timing: Timing) -> Event {
        const NO_TIMING: u32 = 2;
        let mut event = null_mut();
        self.cuEventCreate(&raw mut event, if timing == Timing::On { 0 } else { NO_TIMING });
        event
    }

    /// Memory of the device, kept until the process ends.
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        self.cuMemAlloc_v2(&raw mut address, bytes);
        address
    }

    pub(crate) fn fill(&self, address: u64, value: u8, bytes: usize, stream: Stream) {
        self.cuMemsetD8Async(address, value, bytes, stream);
    }

    /// Copies numbers to the device, and waits.
    pub(crate) fn upload(&self, to: u64, from: &[u32], stream: Stream) {
        self.cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), size_of_val(from), stream);
        self.finish(stream);
    }

    pub(crate) fn launch_nothing(&self, stream: Stream) {
        self.cuLaunchKernel(self.nothing, 1, 1, 1, 32, 1, 1, 0, stream, null_mut(), null_mut());
    }

    pub(crate) fn record(&self, event: Event, stream: Stream) {
        self.cuEventRecord(event, stream);
    }

    pub(crate) fn wait_for(&self, event: Event, stream: Stream) {
        self.cuStreamWaitEvent(stream, event, 0);
    }

    pub(crate) fn finish(&self, stream: Stream) {
        self.cuStreamSynchronize(stream);
    }

    /// Gives a stream work for about so long, so that what is queued behind it does not wait for the host.
    pub(crate) fn keep_busy(&self, stream: Stream, time: Duration) {
        // Past this the driver's own queue is full, and the host waits for the device whatever is in front.
        const MOST: Duration = Duration::from_millis(2);
        let fills = time.min(MOST).as_secs_f64() / self.scratch.took.as_secs_f64();
        for _ in 0..(fills.ceil() as u32).clamp(1, 64) {
            self.fill(self.scratch.address, 0, self.scratch.bytes, stream);
        }
    }

    /// Microseconds of the device from the end of what one stream holds to the end of what another does then.
    pub(crate) fn between(&self, from: Stream, to: Stream, queue: impl FnOnce()) -> f64 {
        let [start, end] = self.timed;
        self.record(start, from);
        queue();
        self.record(end, to);
        self.cuEventSynchronize(end);
        let mut milliseconds = 0.0;
        self.cuEventElapsedTime(&raw mut milliseconds, start, end);
        f64::from(milliseconds) * 1e3
    }
}

/// Whether an event knows its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    On,
    Off,
}

/// Waits until every page that left is free again. One that was handed out in front of its fence and has left is
/// quarantined behind it.
pub(crate) fn settle(pool: &PagePool<CudaMemory>) {
    loop {
        pool.maintain(usize::MAX);
        let stats = pool.stats();
        if stats.cleaning_pages == 0 && stats.quarantined_pages == 0 {
            return;
        }
    }
}
