//! A context of a device, and what lives in it: streams, events, memory. Each is freed when it is dropped.
#![expect(unsafe_code, reason = "makes and frees what the driver gives out")]

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::driver::{Context, DeviceAddress, Driver, DriverError, Event, Stream};

/// Streams and events that take no part in the legacy default stream's order, and measure no time.
const NON_BLOCKING: u32 = 1;
const NO_TIMING: u32 = 2;
/// The mode of a thread that no capture forbids anything.
const RELAXED: u32 = 2;

/// A context that this library may make current.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) driver: Driver,
    context: Context,
    /// the device whose primary context it is, if this library retained it
    retained: Option<i32>,
}

// SAFETY: a context may be made current by any thread, and its handle is never dereferenced here.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's calls are safe from any number of threads.
unsafe impl Sync for Device {}

impl Device {
    /// Retains the primary context of a device.
    pub(super) fn primary(driver: Driver, ordinal: u32) -> Result<Self, DriverError> {
        let (mut device, mut context) = (0, null_mut());
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: (1) `device` is written and nothing else.
        unsafe { driver.cuDeviceGet(&raw mut device, ordinal) }?;
        // SAFETY: (1) `context` is written and nothing else; the device was found above.
        unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
        Ok(Self { driver, context, retained: Some(device) })
    }

    /// Takes the engine's context.
    ///
    /// # Safety
    ///
    /// 1. The context is live until the value is dropped.
    pub(super) unsafe fn borrowed(driver: Driver, context: Context) -> Self {
        Self { driver, context, retained: None }
    }

    /// Whether both are one context of one driver.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.context == other.context && self.driver.is(&other.driver)
    }

    /// Makes the context current on this thread, until the answer is dropped, and lets captures that run elsewhere in the
    /// process be: without that a mere question about an event would break them.
    pub(super) fn enter(&self) -> Result<Current<'_>, DriverError> {
        let mut before = null_mut();
        // SAFETY: (1) `before` is written and nothing else.
        unsafe { self.driver.cuCtxGetCurrent(&raw mut before) }?;
        let mut mode = RELAXED;
        // SAFETY: (1) `mode` is read and written, and nothing else.
        unsafe { self.driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) }?;
        let current = Current { device: self, before, mode };
        if before != self.context {
            // SAFETY: (1) the context is live: retained, or by (1) of `borrowed`.
            unsafe { self.driver.cuCtxSetCurrent(self.context) }?;
        }
        Ok(current)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(device) = self.retained {
            // Nobody could be told of a failure.
            // SAFETY: (1) retained once by `primary`.
            let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(device) };
        }
    }
}

/// A context that is current on this thread.
pub(super) struct Current<'d> {
    pub(super) device: &'d Device,
    before: Context,
    mode: u32,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        // SAFETY: (1) the mode is the one that was there before; it is read and written, and nothing else.
        let _ = unsafe { self.device.driver.cuThreadExchangeStreamCaptureMode(&raw mut self.mode) };
        if self.before != self.device.context {
            // SAFETY: (1) it was current before, and whoever made it so keeps it.
            let _ = unsafe { self.device.driver.cuCtxSetCurrent(self.before) };
        }
    }
}

/// A stream of this library's own.
#[derive(Debug)]
pub(super) struct OwnStream {
    device: Arc<Device>,
    stream: Stream,
}

// SAFETY: a stream's handle may be used by any thread, and is never dereferenced here.
unsafe impl Send for OwnStream {}
// SAFETY: as above.
unsafe impl Sync for OwnStream {}

impl OwnStream {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, DriverError> {
        let current = device.enter()?;
        let mut stream = null_mut();
        // SAFETY: (1) `stream` is written and nothing else.
        unsafe { current.device.driver.cuStreamCreate(&raw mut stream, NON_BLOCKING) }?;
        Ok(Self { device: Arc::clone(device), stream })
    }

    pub(super) const fn raw(&self) -> Stream {
        self.stream
    }

    /// Waits until everything on it is done.
    pub(super) fn finish(&self) -> Result<(), DriverError> {
        // SAFETY: (1) the stream is live while `self` is.
        unsafe { self.device.driver.cuStreamSynchronize(self.stream) }
    }
}

impl OwnStream {
    /// Waits before what the stream works on is freed: an answer that is wrong once is no end of the work. A lost device,
    /// which answers so for good, works on nothing.
    pub(super) fn finish_at_last(&self) {
        const TRIES: usize = 3;
        let is_finished = || self.device.enter().is_ok_and(|_current| self.finish().is_ok());
        let _ = (0..TRIES).any(|_| is_finished());
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        let Ok(_current) = self.device.enter() else { return };
        // SAFETY: (1) made by `new`, destroyed once; the driver keeps it until its work is done.
        let _ = unsafe { self.device.driver.cuStreamDestroy_v2(self.stream) };
    }
}

/// An event.
#[derive(Debug)]
pub(super) struct OwnEvent {
    device: Arc<Device>,
    event: Event,
}

// SAFETY: an event's handle may be used by any thread, and is never dereferenced here.
unsafe impl Send for OwnEvent {}
// SAFETY: as above.
unsafe impl Sync for OwnEvent {}

impl OwnEvent {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, DriverError> {
        let current = device.enter()?;
        let mut event = null_mut();
        // SAFETY: (1) `event` is written and nothing else.
        unsafe { current.device.driver.cuEventCreate(&raw mut event, NO_TIMING) }?;
        Ok(Self { device: Arc::clone(device), event })
    }

    /// Stands from now on behind what a stream holds.
    ///
    /// # Safety
    ///
    /// 1. The stream is live.
    pub(super) unsafe fn record(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: (1) the event is live while `self` is, the stream by (1) of the caller.
        unsafe { self.device.driver.cuEventRecord(self.event, stream) }
    }

    /// Makes what a stream gets from now on wait.
    ///
    /// # Safety
    ///
    /// 1. The stream is live.
    pub(super) unsafe fn hold_back(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: (1) as in `record`.
        unsafe { self.device.driver.cuStreamWaitEvent(stream, self.event, 0) }
    }

    /// Says whether what it stands behind is done.
    pub(super) fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: (1) the event is live while `self` is.
        match unsafe { self.device.driver.cuEventQuery(self.event) } {
            Err(error) if Driver::is_not_ready(&error) => Ok(false),
            answer => answer.map(|()| true),
        }
    }
}

impl Drop for OwnEvent {
    fn drop(&mut self) {
        let Ok(_current) = self.device.enter() else { return };
        // SAFETY: (1) made by `new`, destroyed once; the driver keeps it until it is done.
        let _ = unsafe { self.device.driver.cuEventDestroy_v2(self.event) };
    }
}

/// Memory of the device. Not zero when it is had.
#[derive(Debug)]
pub(super) struct Slab {
    device: Arc<Device>,
    address: DeviceAddress,
    is_left: bool,
}

impl Slab {
    pub(super) fn new(device: &Arc<Device>, bytes: u64) -> Result<Self, DriverError> {
        let current = device.enter()?;
        let mut address = 0;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: (1) `address` is written and nothing else.
        unsafe { current.device.driver.cuMemAlloc_v2(&raw mut address, bytes.max(1)) }?;
        Ok(Self { device: Arc::clone(device), address, is_left: false })
    }

    pub(super) const fn address(&self) -> DeviceAddress {
        self.address
    }

    /// Never frees the memory: the device may use it still.
    pub(super) const fn leave(&mut self) {
        self.is_left = true;
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let Ok(_current) = self.device.enter() else { return };
        // SAFETY: (1) had by `new`, freed once; the call waits for work that uses it.
        let _ = unsafe { self.device.driver.cuMemFree_v2(self.address) };
    }
}

/// Memory of the host that the device copies from and to without a stop.
#[derive(Debug)]
pub(super) struct Pinned {
    device: Arc<Device>,
    bytes: NonNull<u8>,
    len: usize,
    is_left: bool,
}

// SAFETY: the bytes are this value's own; who reads or writes them has it alone.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(super) fn new(device: &Arc<Device>, len: usize) -> Result<Self, DriverError> {
        let current = device.enter()?;
        let mut host: *mut c_void = null_mut();
        // SAFETY: (1) `host` is written and nothing else.
        unsafe { current.device.driver.cuMemHostAlloc(&raw mut host, len.max(1), 0) }?;
        let call = "cuMemHostAlloc";
        let bytes = NonNull::new(host.cast::<u8>());
        let bytes = bytes.ok_or_else(|| DriverError::Failed { call, code: 0, name: "no address".into() })?;
        // SAFETY: the driver just gave `len` bytes there, which nobody else has.
        unsafe { bytes.as_ptr().write_bytes(0, len) };
        Ok(Self { device: Arc::clone(device), bytes, len, is_left: false })
    }

    pub(super) const fn as_ptr(&self) -> *mut u8 {
        self.bytes.as_ptr()
    }

    /// Never frees the memory: the device may use it still.
    pub(super) const fn leave(&mut self) {
        self.is_left = true;
    }

    /// The bytes, for a caller that knows no copy of the device to be under way.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` had these bytes and made them zero; `&mut self` keeps others away, and the caller says that the device
        // does not use them now.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        super::super::wipe(self.bytes());
        let Ok(_current) = self.device.enter() else { return };
        // SAFETY: (1) had by `new`, freed once.
        let _ = unsafe { self.device.driver.cuMemFreeHost(self.bytes.as_ptr().cast()) };
    }
}
