//! The functions of the CUDA driver that this library calls, found at run time.
//!
//! *Owns* the library while it is open, and what each call answered. *Does not know* pages. Nothing here panics for want of a
//! driver: a missing library, a missing function and an error code are values that say which.
#![expect(unsafe_code, reason = "loads a library and calls its functions")]

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;
use thiserror::Error;

/// The driver's own name, by which the system finds it.
const DRIVER_NAME: &str = "libcuda.so.1";

/// What a driver's function answered, whatever number a newer driver may use.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Answer(u32);

impl Answer {
    const SUCCESS: Self = Self(0);
    /// The work before an event is not done.
    const NOT_READY: Self = Self(600);
    /// The default stream is asked about while a stream that it waits for is being captured.
    const CAPTURE_IMPLICIT: Self = Self(906);
}

/// An address in a device's memory.
pub(super) type DeviceAddress = u64;
/// Handles of the driver: numbers here, whatever they are there.
pub(super) type Context = *mut c_void;
pub(super) type Stream = *mut c_void;
pub(super) type Event = *mut c_void;
pub(super) type Module = *mut c_void;
pub(super) type Function = *mut c_void;

/// Says why the driver cannot be had, or what it refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverError {
    /// No driver was found, or not one that can be loaded here.
    #[error("no CUDA driver could be loaded as {}: {reason}; install one, or name its path", path.display())]
    NotFound {
        /// The library that was looked for.
        path: PathBuf,
        /// What the system's loader said.
        reason: String,
    },
    /// The driver lacks a function: it is older than 12.0, or no CUDA driver.
    #[error("the CUDA driver {} has no function {function}; it is too old, or another library", path.display())]
    NoFunction {
        /// The library.
        path: PathBuf,
        /// The function.
        function: &'static str,
    },
    /// A call was refused.
    #[error("{call} answered {code} ({name})")]
    Failed {
        /// The function that was called.
        call: &'static str,
        /// The driver's number for what is wrong.
        code: u32,
        /// The driver's name for it.
        name: String,
    },
}

impl DriverError {
    /// Says whether a device is out of memory, so that less may be had.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Failed { code: 2, .. })
    }
}

/// Finds a function.
///
/// # Safety
///
/// 1. The library is a CUDA driver.
/// 2. `F` is the type of its function of this name.
unsafe fn find<F: Copy>(library: &Library, path: &Path, function: &'static str) -> Result<F, DriverError> {
    let missing = |_| DriverError::NoFunction { path: path.into(), function };
    // SAFETY: (1) and (2) of the caller: the ABI is fixed by the name, of which `_v2` is a part.
    Ok(*unsafe { library.get::<F>(function.as_bytes()) }.map_err(missing)?)
}

macro_rules! table {
    ($($function:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        /// One pointer for each function.
        #[expect(non_snake_case, reason = "the driver's own names")]
        struct Table {
            $($function: unsafe extern "C" fn($($kind),*) -> Answer,)*
        }

        impl Table {
            /// # Safety
            ///
            /// 1. The library is a CUDA driver.
            unsafe fn load(library: &Library, path: &Path) -> Result<Self, DriverError> {
                Ok(Self {
                    // SAFETY: (1) of the caller. (2) the driver's header says so.
                    $($function: unsafe { find(library, path, stringify!($function)) }?,)*
                })
            }
        }

        #[expect(non_snake_case, clippy::too_many_arguments, reason = "the driver's own names and arguments")]
        impl Driver {
            $(
                /// The driver's function of this name.
                ///
                /// # Safety
                ///
                /// 1. As the driver's documentation asks of the arguments: pointers are valid for what it reads or writes
                ///    there until it says it is done, handles are live.
                pub(super) unsafe fn $function(&self, $($argument: $kind),*) -> Result<(), DriverError> {
                    // SAFETY: (1) of the caller; the pointer is of the library that `self` keeps loaded.
                    self.judge(stringify!($function), unsafe { (self.inner.table.$function)($($argument),*) })
                }
            )*
        }
    };
}

table! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut Context, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuCtxGetCurrent(context: *mut Context);
    cuCtxSetCurrent(context: Context);
    cuMemAlloc_v2(address: *mut DeviceAddress, bytes: usize);
    cuMemFree_v2(address: DeviceAddress);
    cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(host: *mut c_void);
    cuMemsetD8Async(address: DeviceAddress, value: u8, bytes: usize, stream: Stream);
    cuMemcpyHtoDAsync_v2(to: DeviceAddress, from: *const c_void, bytes: usize, stream: Stream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: DeviceAddress, bytes: usize, stream: Stream);
    cuStreamCreate(stream: *mut Stream, flags: c_uint);
    cuStreamDestroy_v2(stream: Stream);
    cuStreamSynchronize(stream: Stream);
    cuStreamWaitEvent(stream: Stream, event: Event, flags: c_uint);
    cuEventCreate(event: *mut Event, flags: c_uint);
    cuEventDestroy_v2(event: Event);
    cuEventRecord(event: Event, stream: Stream);
    cuEventQuery(event: Event);
    cuModuleLoadData(module: *mut Module, image: *const c_void);
    cuModuleGetFunction(function: *mut Function, module: Module, name: *const c_char);
    cuModuleUnload(module: Module);
    cuLaunchKernel(
        function: Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: Stream, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuStreamIsCapturing(stream: Stream, status: *mut c_uint);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
}

/// `cuGetErrorName`, which is asked when another call has failed.
type ErrorName = unsafe extern "C" fn(Answer, *mut *const c_char) -> Answer;

struct Inner {
    table: Table,
    error_name: ErrorName,
    path: PathBuf,
    /// Kept loaded: the table points into it.
    _library: Library,
}

/// A CUDA driver that was found and can be called. Cheap to clone.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

impl Driver {
    /// Loads the system's CUDA driver.
    ///
    /// # Errors
    ///
    /// [`DriverError`]: there is none, it is too old, or it finds no device to work with.
    pub fn system() -> Result<Self, DriverError> {
        // SAFETY: (1) a library of this name is NVIDIA's driver, or what stands in for it, by the convention of the system.
        unsafe { Self::open(Path::new(DRIVER_NAME)) }
    }

    /// Loads a CUDA driver by its path: another one than the system's, or a stand-in for tests.
    ///
    /// # Errors
    ///
    /// As [`system`](Self::system).
    ///
    /// # Safety
    ///
    /// 1. The file is a CUDA driver: what it exports by the driver's names does what the driver's documentation says, and
    ///    loading it runs no code that breaks this process.
    pub unsafe fn open(path: &Path) -> Result<Self, DriverError> {
        // SAFETY: (1) of the caller.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| {
            // What the system's loader said stands behind what the crate says.
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            DriverError::NotFound { path: path.into(), reason }
        })?;
        // SAFETY: (1) of the caller.
        let table = unsafe { Table::load(&library, path) }?;
        // SAFETY: (1) of the caller. (2) the driver's header says so.
        let error_name = unsafe { find(&library, path, "cuGetErrorName") }?;
        let driver = Self { inner: Arc::new(Inner { table, error_name, path: path.into(), _library: library }) };
        // SAFETY: (1) no pointers; it may be called any number of times.
        unsafe { driver.cuInit(0) }?;
        Ok(driver)
    }

    /// Returns the library that was loaded.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the version of CUDA that the driver serves: 1000 for each major, 10 for each minor number.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`]
    pub fn version(&self) -> Result<u32, DriverError> {
        let mut version = 0;
        // SAFETY: (1) `version` is written and nothing else.
        unsafe { self.cuDriverGetVersion(&raw mut version) }?;
        Ok(version.unsigned_abs())
    }

    /// Counts the devices.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`]
    pub fn devices(&self) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: (1) `count` is written and nothing else.
        unsafe { self.cuDeviceGetCount(&raw mut count) }?;
        Ok(count.unsigned_abs())
    }

    /// Returns a device's name.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`]: there is no such device.
    pub fn device_name(&self, ordinal: u32) -> Result<String, DriverError> {
        let (mut device, mut name) = (0, [0_u8; 256]);
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: (1) `device` is written and nothing else.
        unsafe { self.cuDeviceGet(&raw mut device, ordinal) }?;
        // SAFETY: (1) at most 255 bytes of `name` are written, and it ends with a zero whatever is.
        unsafe { self.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) }?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or(c"");
        Ok(name.to_string_lossy().into_owned())
    }

    /// Whether both are one library, opened once or twice.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.inner.table.cuInit as usize == other.inner.table.cuInit as usize
    }

    fn judge(&self, call: &'static str, answer: Answer) -> Result<(), DriverError> {
        if answer == Answer::SUCCESS {
            return Ok(());
        }
        Err(DriverError::Failed { call, code: answer.0, name: self.name_of(answer) })
    }

    fn name_of(&self, answer: Answer) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is of the library that `self` keeps loaded; `name` is written and nothing else.
        let named = unsafe { (self.inner.error_name)(answer, &raw mut name) };
        if named != Answer::SUCCESS || name.is_null() {
            return "a code that this driver has no name for".into();
        }
        // SAFETY: the driver gave a string that ends with a zero and lives as long as the driver.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// Whether an error says that work is not done yet.
    pub(super) const fn is_not_ready(error: &DriverError) -> bool {
        matches!(error, DriverError::Failed { code, .. } if *code == Answer::NOT_READY.0)
    }

    /// Says whether what a stream is told goes into a graph instead of to the device.
    ///
    /// # Safety
    ///
    /// 1. The stream is live, and its context current.
    pub(super) unsafe fn is_capturing(&self, stream: Stream) -> Result<bool, DriverError> {
        let mut status = 0;
        // SAFETY: (1) of the caller; `status` is written and nothing else.
        match unsafe { self.cuStreamIsCapturing(stream, &raw mut status) } {
            Err(DriverError::Failed { code, .. }) if code == Answer::CAPTURE_IMPLICIT.0 => Ok(true),
            answer => answer.map(|()| status != 0),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
