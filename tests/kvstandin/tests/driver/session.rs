//! The driver, for one test at a time.

use std::ffi::{CString, c_void};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard};

use kvstandin::api::device::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain, cuInit};
use kvstandin::api::event::{cuEventCreate, cuEventQuery, cuEventRecord};
use kvstandin::api::memory::{cuMemAlloc_v2, cuMemHostAlloc, cuMemcpyHtoDAsync_v2, cuMemsetD8Async};
use kvstandin::api::module::{cuLaunchKernel, cuModuleGetFunction, cuModuleLoadData};
use kvstandin::api::stream::{cuStreamCreate, cuStreamSynchronize, cuStreamWaitEvent};
use kvstandin::control::{kvstandin_fail, kvstandin_peek, kvstandin_pending, kvstandin_reset};
use kvstandin::result::{NOT_READY, SUCCESS};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub const BLOCKING: u32 = 0;
pub const NON_BLOCKING: u32 = 1;

/// A kernel that stores its second parameter where the first says.
pub const STORE: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry store(
    .param .u64 store_param_0,
    .param .u64 store_param_1
)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [store_param_0];
    ld.param.u64 %rd2, [store_param_1];
    st.global.u64 [%rd1], %rd2;
    ret;
}
";

/// A driver as a new process finds it, with a context.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

#[track_caller]
pub fn ok(code: u32) {
    assert_eq!(code, SUCCESS);
}

impl Session {
    pub fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        kvstandin_reset();
        let session = Self { _turn: turn };
        let mut context = 0;
        // SAFETY: the pointers are to locals.
        unsafe {
            ok(cuInit(0));
            ok(cuDevicePrimaryCtxRetain(&mut context, 0));
            ok(cuCtxSetCurrent(context));
        }
        session
    }

    pub fn stream(&self, flags: u32) -> u64 {
        let mut stream = 0;
        // SAFETY: a pointer to a local.
        ok(unsafe { cuStreamCreate(&mut stream, flags) });
        stream
    }

    pub fn event(&self) -> u64 {
        let mut event = 0;
        // SAFETY: a pointer to a local.
        ok(unsafe { cuEventCreate(&mut event, 0) });
        event
    }

    pub fn device(&self, bytes: usize) -> u64 {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        ok(unsafe { cuMemAlloc_v2(&mut address, bytes) });
        address
    }

    pub fn pinned(&self, bytes: usize) -> *mut u8 {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        ok(unsafe { cuMemHostAlloc(&mut address, bytes, 0) });
        address as *mut u8
    }

    #[track_caller]
    pub fn fill(&self, to: u64, value: u8, bytes: usize, stream: u64) {
        // SAFETY: no pointer.
        ok(unsafe { cuMemsetD8Async(to, value, bytes, stream) });
    }

    #[track_caller]
    pub fn upload(&self, to: u64, from: &[u8], stream: u64) {
        // SAFETY: the slice has as many bytes.
        ok(unsafe { cuMemcpyHtoDAsync_v2(to, from.as_ptr(), from.len(), stream) });
    }

    #[track_caller]
    pub fn record(&self, event: u64, stream: u64) {
        // SAFETY: no pointer.
        ok(unsafe { cuEventRecord(event, stream) });
    }

    #[track_caller]
    pub fn wait(&self, stream: u64, event: u64) {
        // SAFETY: no pointer.
        ok(unsafe { cuStreamWaitEvent(stream, event, 0) });
    }

    #[track_caller]
    pub fn is_done(&self, event: u64) -> bool {
        // SAFETY: no pointer.
        match unsafe { cuEventQuery(event) } {
            SUCCESS => true,
            NOT_READY => false,
            code => panic!("an event answers {code}"),
        }
    }

    pub fn synchronize(&self, stream: u64) -> u32 {
        // SAFETY: no pointer.
        unsafe { cuStreamSynchronize(stream) }
    }

    /// What is in memory now.
    pub fn peek<const N: usize>(&self, from: u64) -> [u8; N] {
        let mut bytes = [0; N];
        ok(kvstandin_peek(bytes.as_mut_ptr(), from, N as u64));
        bytes
    }

    pub fn load(&self, text: &str) -> Result<u64, u32> {
        let text = CString::new(text).expect("no zero in a text");
        let mut module = 0;
        // SAFETY: a pointer to a local, and a text that ends with a zero.
        match unsafe { cuModuleLoadData(&mut module, text.as_ptr().cast::<c_void>()) } {
            SUCCESS => Ok(module),
            code => Err(code),
        }
    }

    /// The kernel of [`STORE`].
    pub fn store_kernel(&self) -> u64 {
        let module = self.load(STORE).expect("every instruction is known");
        let mut function = 0;
        // SAFETY: a pointer to a local, and a name that ends with a zero.
        ok(unsafe { cuModuleGetFunction(&mut function, module, c"store".as_ptr()) });
        function
    }

    /// Launches the kernel of [`STORE`].
    pub fn store(&self, function: u64, to: u64, value: u64, stream: u64) -> u32 {
        let parameters = [(&raw const to).cast::<u8>(), (&raw const value).cast::<u8>()];
        // SAFETY: a pointer for each of the kernel's parameters, to 8 bytes each.
        unsafe { cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.as_ptr(), null()) }
    }

    /// Waits until nothing of a stream is pending, without a call of the driver.
    pub fn settle(&self, stream: u64) {
        while kvstandin_pending(stream) != 0 {
            std::thread::yield_now();
        }
    }

    pub fn fail(&self, name: &str, nth: u64, code: u32) {
        let name = CString::new(name).expect("no zero in a name");
        kvstandin_fail(name.as_ptr(), nth, code);
    }
}
