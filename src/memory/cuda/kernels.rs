//! The shipped kernels, and the words that they take their arguments in.
//!
//! *Owns* the layout of what `kernels.cu` reads; both change together.
#![expect(unsafe_code, reason = "loads a module and launches its functions")]

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::device::Device;
use super::driver::{DeviceAddress, DriverError, Function, Module, Stream};

/// Threads of a block, of every kernel.
const BLOCK_THREADS: u32 = 256;
/// Most blocks of a launch in x; the kernels stride over the rest.
const MOST_BLOCKS: u32 = 4096;
/// Blocks that fill a large device, eight for each of 132 processors: few pages are cut into so many parts.
const FULL_BLOCKS: u32 = 1056;
/// Least bytes of a part: four turns of a block.
const PART_BYTES: u64 = 16 << 10;

/// How much there is to do, for the choice of a grid; any grid does all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) pages: u32,
    /// of a page, in its largest plane
    pub(super) page_bytes: u64,
}

impl Size {
    /// Blocks over pages, planes and the bytes of a page in a plane.
    fn grid(self, n_planes: u32) -> [u32; 3] {
        let (x, y) = (self.pages.clamp(1, MOST_BLOCKS), n_planes.clamp(1, 64));
        // at most FULL_BLOCKS
        let parts = self.page_bytes.div_ceil(PART_BYTES).min(u64::from(FULL_BLOCKS.div_ceil(x * y))) as u32;
        [x, y, parts.max(1)]
    }
}

/// As `Plane` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct DevicePlane {
    pub(super) base: DeviceAddress,
    pub(super) stride_bytes: u64,
    pub(super) whole_bytes: u64,
    pub(super) run_bytes: u32,
    pub(super) runs: u32,
}

/// As `CleanPage` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct DirtyPage {
    pub(super) page: u32,
    pub(super) tokens: u32,
}

/// As `StampWrite` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct StampWrite {
    pub(super) generation: u64,
    pub(super) owner: u64,
    pub(super) page: u32,
    pub(super) reserved: u32,
}

/// As `CleanArgs` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct CleanArgs {
    pub(super) planes: DeviceAddress,
    pub(super) pages: DeviceAddress,
    pub(super) n_pages: DeviceAddress,
    pub(super) n_planes: u32,
    pub(super) max_pages: u32,
    pub(super) page_tokens: u32,
    pub(super) reserved: u32,
}

/// As `StampArgs` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct StampArgs {
    pub(super) stamps: DeviceAddress,
    pub(super) writes: DeviceAddress,
    pub(super) n_writes: DeviceAddress,
    pub(super) max_pages: u32,
    pub(super) reserved: u32,
}

/// As `Entry` in `stamp_check.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entry {
    pub(super) generation: u64,
    pub(super) page: u32,
    pub(super) seen: u32,
}

impl Entry {
    /// In no generation, which have 40 bits: the host knew that the page had left when the table was armed.
    pub(super) const STRUCK_OUT: u64 = 1 << 63;
}

/// As `Fault` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fault {
    pub(super) state: u32,
    pub(super) reason: u32,
    pub(super) row: u32,
    pub(super) index: u32,
    pub(super) page: u32,
    pub(super) seen: u32,
    pub(super) expected_generation: u64,
    pub(super) found_generation: u64,
    pub(super) expected_owner: u64,
    pub(super) found_owner: u64,
    pub(super) faults: u64,
    pub(super) round: u64,
}

/// As `TableHead` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct TableHead {
    pub(super) n_rows: u32,
    pub(super) reserved: u32,
    pub(super) round: u64,
}

/// As `CheckArgs` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckArgs {
    pub(super) stamps: DeviceAddress,
    pub(super) entries: DeviceAddress,
    pub(super) row_offsets: DeviceAddress,
    pub(super) row_owners: DeviceAddress,
    pub(super) head: DeviceAddress,
    pub(super) table: DeviceAddress,
    pub(super) flags: DeviceAddress,
    pub(super) scratch: DeviceAddress,
    pub(super) fault: DeviceAddress,
    pub(super) max_pages: u32,
    pub(super) null_page: u32,
    pub(super) max_rows: u32,
    pub(super) max_entries: u32,
    pub(super) row_cells: u32,
    pub(super) reserved: u32,
}

/// As `CopyPage` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyPage {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) tokens: u32,
    pub(super) reserved: u32,
}

/// As `CopyArgs` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyArgs {
    pub(super) from: DeviceAddress,
    pub(super) to: DeviceAddress,
    pub(super) pages: DeviceAddress,
    pub(super) n_pages: DeviceAddress,
    pub(super) n_planes: u32,
    pub(super) page_tokens: u32,
    pub(super) from_max_pages: u32,
    pub(super) to_max_pages: u32,
}

/// As `DigestPage` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct DigestPage {
    pub(super) page: u32,
    pub(super) tokens: u32,
    pub(super) seed: u32,
    pub(super) reserved: u32,
}

/// As `DigestArgs` in `kernels.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct DigestArgs {
    pub(super) planes: DeviceAddress,
    pub(super) pages: DeviceAddress,
    pub(super) n_pages: DeviceAddress,
    pub(super) crcs: DeviceAddress,
    pub(super) n_planes: u32,
    pub(super) max_pages: u32,
    pub(super) page_tokens: u32,
    pub(super) reserved: u32,
}

const _: () = assert!(size_of::<CopyPage>() == 16 && size_of::<CopyArgs>() == 48);
const _: () = assert!(size_of::<DigestPage>() == 16 && size_of::<DigestArgs>() == 48);
const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Fault>() == 72 && size_of::<CheckArgs>() == 96);
const _: () = assert!(size_of::<DevicePlane>() == 32 && size_of::<DirtyPage>() == 8 && size_of::<StampWrite>() == 24);
const _: () = assert!(size_of::<TableHead>() == 16 && size_of::<CleanArgs>() == 40 && size_of::<StampArgs>() == 32);

/// Bytes of a stamp on the device.
pub(super) const STAMP_BYTES: u64 = 16;

/// The module, loaded into a context.
#[derive(Debug)]
pub(super) struct Kernels {
    device: Arc<Device>,
    module: Module,
    clean: Function,
    stamp: Function,
    check: Function,
    copy: Function,
    digest: Function,
}

// SAFETY: modules and functions may be used by any thread, and their handles are never dereferenced here.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

/// What the kernels were compiled to, by the compiler that `tests/gates/ptx.sh` names.
const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");

impl Kernels {
    pub(super) fn load(device: &Arc<Device>) -> Result<Self, DriverError> {
        let _current = device.enter()?;
        let mut module = null_mut();
        // SAFETY: (1) `module` is written; the image is a string that ends with a zero.
        unsafe { device.driver.cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()) }?;
        let [clean, stamp, check, copy, digest] = [null_mut(); 5];
        // Unloaded should one of the functions be missing.
        let mut kernels = Self { device: Arc::clone(device), module, clean, stamp, check, copy, digest };
        kernels.clean = kernels.find(c"pagestamp_clean")?;
        kernels.stamp = kernels.find(c"pagestamp_stamp")?;
        kernels.check = kernels.find(c"pagestamp_check")?;
        kernels.copy = kernels.find(c"pagestamp_copy")?;
        kernels.digest = kernels.find(c"pagestamp_digest")?;
        Ok(kernels)
    }

    fn find(&self, name: &CStr) -> Result<Function, DriverError> {
        let mut function = null_mut();
        // SAFETY: (1) `function` is written; the module is live and the name ends with a zero.
        unsafe { self.device.driver.cuModuleGetFunction(&raw mut function, self.module, name.as_ptr()) }?;
        Ok(function)
    }

    /// Zeroes pages on a stream.
    ///
    /// # Safety
    ///
    /// 1. The stream is live and of the context, which is current.
    /// 2. The addresses in `args` hold what `kernels.cu` says until the launch is done, and the pages are nobody's.
    pub(super) unsafe fn clean(&self, args: CleanArgs, size: Size, stream: Stream) -> Result<(), DriverError> {
        let grid = size.grid(args.n_planes);
        // SAFETY: (1) and (2) of the caller; the kernel takes one `CleanArgs`.
        unsafe { self.launch(self.clean, grid, &args, stream) }
    }

    /// Writes stamps on a stream.
    ///
    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean).
    pub(super) unsafe fn stamp(&self, args: StampArgs, writes: u32, stream: Stream) -> Result<(), DriverError> {
        let grid = [writes.div_ceil(BLOCK_THREADS).min(MOST_BLOCKS), 1, 1];
        // SAFETY: (1) of the caller; the kernel takes one `StampArgs`.
        unsafe { self.launch(self.stamp, grid, &args, stream) }
    }

    /// Checks a table of pages on a stream, before attention reads by it.
    ///
    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean), but that pages are read by nobody here.
    pub(super) unsafe fn check(&self, args: CheckArgs, stream: Stream) -> Result<(), DriverError> {
        let grid = [args.max_rows.min(MOST_BLOCKS), 2, 1];
        // SAFETY: (1) of the caller; the kernel takes one `CheckArgs`.
        unsafe { self.launch(self.check, grid, &args, stream) }
    }

    /// Copies pages on a stream.
    ///
    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean), and nobody else has the pages.
    pub(super) unsafe fn copy(&self, args: CopyArgs, size: Size, stream: Stream) -> Result<(), DriverError> {
        let grid = size.grid(args.n_planes);
        // SAFETY: (1) of the caller; the kernel takes one `CopyArgs`.
        unsafe { self.launch(self.copy, grid, &args, stream) }
    }

    /// Digests pages on a stream.
    ///
    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean), and nobody writes the pages.
    pub(super) unsafe fn digest(&self, args: DigestArgs, pages: u32, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: (1) of the caller; the kernel takes one `DigestArgs`.
        unsafe { self.launch(self.digest, [pages.min(MOST_BLOCKS), 1, 1], &args, stream) }
    }

    /// # Safety
    ///
    /// 1. The function takes one `T`, and is launched as its own words ask.
    unsafe fn launch<T>(
        &self,
        function: Function,
        grid: [u32; 3],
        args: &T,
        stream: Stream,
    ) -> Result<(), DriverError> {
        let mut arguments = [std::ptr::from_ref(args).cast_mut().cast::<c_void>()];
        let [x, y, z] = grid.map(|blocks| blocks.max(1));
        // SAFETY: (1) of the caller; the driver copies the argument before it returns.
        unsafe {
            self.device.driver.cuLaunchKernel(
                function,
                x,
                y,
                z,
                BLOCK_THREADS,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        }
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let Ok(_current) = self.device.enter() else { return };
        // SAFETY: (1) loaded by `load`, unloaded once.
        let _ = unsafe { self.device.driver.cuModuleUnload(self.module) };
    }
}
