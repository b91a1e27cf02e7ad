//! What an engine has besides a pool of pages: the device's context, a stream, memory, copies and kernels.
//!
//! The library launches nothing for others, so this is a small table of the driver's functions of its own.
#![expect(unsafe_code, reason = "calls the CUDA driver, as an engine does")]

use std::error::Error;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::null_mut;

use libloading::Library;
use pagestamp::memory::cuda::Driver;

use crate::Failure;

type Handle = *mut c_void;

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        #[expect(non_snake_case, reason = "the driver's names")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> c_uint,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the driver's documentation gives the function of this name this type.
                    $($name: *unsafe { library.get(stringify!($name)) }?,)*
                })
            }
        }
    };
}

functions! {
    cuDeviceGet(*mut c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxSetCurrent(Handle);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamSynchronize(Handle);
    cuStreamDestroy_v2(Handle);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleUnload(Handle);
    cuLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
}

/// A call that the driver refused.
#[derive(Debug)]
pub(crate) struct CallError {
    call: &'static str,
    code: c_uint,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {}", self.call, self.code)
    }
}

impl Error for CallError {}

pub(crate) fn judge(call: &'static str, code: c_uint) -> Result<(), CallError> {
    if code == 0 { Ok(()) } else { Err(CallError { call, code }) }
}

/// The first device, with a stream; its context is current on the thread that made it, which alone uses it.
pub(crate) struct Engine {
    pub(crate) functions: Functions,
    device: c_int,
    stream: Handle,
    is_stand_in: bool,
    // the functions point into it
    _library: Library,
}

impl Engine {
    pub(crate) fn new(driver: &Driver) -> Result<Self, Failure> {
        // SAFETY: it is loaded already, by the same name.
        let library = unsafe { Library::new(driver.path()) }?;
        let functions = Functions::find(&library)?;
        // SAFETY: the symbol is looked for and not used.
        let is_stand_in = unsafe { library.get::<*const c_void>("kvstandin_version") }.is_ok();
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: `device` is written and nothing else.
        judge("cuDeviceGet", unsafe { (functions.cuDeviceGet)(&raw mut device, 0) })?;
        // SAFETY: `context` is written and nothing else.
        let retained = unsafe { (functions.cuDevicePrimaryCtxRetain)(&raw mut context, device) };
        judge("cuDevicePrimaryCtxRetain", retained)?;
        // From here on dropping it gives back what there is.
        let mut engine = Self { functions, device, stream: null_mut(), is_stand_in, _library: library };
        // SAFETY: the context is retained.
        judge("cuCtxSetCurrent", unsafe { (engine.functions.cuCtxSetCurrent)(context) })?;
        const NON_BLOCKING: c_uint = 1;
        // SAFETY: `stream` is written and nothing else.
        let made = unsafe { (engine.functions.cuStreamCreate)(&raw mut engine.stream, NON_BLOCKING) };
        judge("cuStreamCreate", made)?;
        Ok(engine)
    }

    /// Which driver and device it is, for people.
    pub(crate) fn describe(&self, driver: &Driver) -> Result<String, Failure> {
        let (path, name, version) = (driver.path().display(), driver.device_name(0)?, driver.version()?);
        let what = if self.is_stand_in { "stand-in, no GPU" } else { "device 0" };
        Ok(format!("{path}: {name}, CUDA {}.{} ({what})", version / 1000, version % 1000 / 10))
    }

    pub(crate) fn stream(&self) -> Handle {
        self.stream
    }

    /// Waits for the stream.
    pub(crate) fn finish(&self) -> Result<(), CallError> {
        // SAFETY: the stream is live.
        judge("cuStreamSynchronize", unsafe { (self.functions.cuStreamSynchronize)(self.stream) })
    }

    /// Takes memory of the device, as it is.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Memory<'_>, CallError> {
        let mut address = 0;
        // SAFETY: `address` is written and nothing else.
        judge("cuMemAlloc_v2", unsafe { (self.functions.cuMemAlloc_v2)(&raw mut address, bytes) })?;
        Ok(Memory { engine: self, address })
    }

    /// Copies bytes to the device, on the stream, and waits.
    ///
    /// # Safety
    ///
    /// 1. As many bytes are at `to`, and the caller may write them.
    pub(crate) unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CallError> {
        // SAFETY: (1), and the slice is borrowed until the stream is done with it.
        let queued =
            unsafe { (self.functions.cuMemcpyHtoDAsync_v2)(to, bytes.as_ptr().cast(), bytes.len(), self.stream) };
        judge("cuMemcpyHtoDAsync_v2", queued)?;
        self.finish()
    }

    /// Copies bytes from the device, on the stream, and waits.
    ///
    /// # Safety
    ///
    /// 1. As many bytes are at `from`, and nobody writes them.
    pub(crate) unsafe fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CallError> {
        // SAFETY: (1), and the slice is borrowed until the stream is done with it.
        let queued =
            unsafe { (self.functions.cuMemcpyDtoHAsync_v2)(bytes.as_mut_ptr().cast(), from, bytes.len(), self.stream) };
        judge("cuMemcpyDtoHAsync_v2", queued)?;
        self.finish()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.stream.is_null() {
            // SAFETY: the stream was made once, and the borrows of everything that names it have ended.
            unsafe { (self.functions.cuStreamDestroy_v2)(self.stream) };
        }
        // SAFETY: the context was retained once.
        unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

/// Memory of the device, freed when it is dropped, behind what the stream does with it.
pub(crate) struct Memory<'e> {
    engine: &'e Engine,
    address: u64,
}

impl Memory<'_> {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // If the stream has failed, nothing of it runs any more.
        let _ = self.engine.finish();
        // SAFETY: allocated once, and the stream is done with it.
        unsafe { (self.engine.functions.cuMemFree_v2)(self.address) };
    }
}
