//! Bytes between host and device, and work over pages, for the calls that wait for them.
#![expect(unsafe_code, reason = "copies between host and device")]

use std::ptr::copy_nonoverlapping;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::device::{Device, OwnEvent, OwnStream, Pinned, Slab};
use super::driver::{DeviceAddress, DriverError, Stream};

/// Bytes that are on their way at once.
pub(super) const STAGED_BYTES: usize = 256 << 10;

/// A stream of its own, so that a copy waits for no stream of the engine, and bytes that it goes through. The pinned ones are
/// zeroed when the memory is dropped, and overwritten by the next copy.
#[derive(Debug)]
pub(super) struct Staging {
    device: Arc<Device>,
    stream: OwnStream,
    /// Behind a copy from pages of another memory.
    copied: OwnEvent,
    room: Mutex<Room>,
}

#[derive(Debug)]
struct Room {
    pinned: Pinned,
    /// as many bytes on the device, for lists that kernels work through
    there: Slab,
    /// Something was queued, and the driver has not said that it is done. Nobody touches the bytes until it has.
    is_under_way: bool,
}

impl Staging {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, DriverError> {
        let (pinned, there) = (Pinned::new(device, STAGED_BYTES)?, Slab::new(device, STAGED_BYTES as u64)?);
        let room = Mutex::new(Room { pinned, there, is_under_way: false });
        let (stream, copied) = (OwnStream::new(device)?, OwnEvent::new(device)?);
        Ok(Self { device: Arc::clone(device), stream, copied, room })
    }

    /// The stream, behind which a page that leaves is cleaned: a copy that was given up may be on its way.
    pub(super) const fn stream(&self) -> Stream {
        self.stream.raw()
    }

    /// Takes the room once everything that was queued before is done. The context must be current.
    fn enter(&self) -> Result<MutexGuard<'_, Room>, DriverError> {
        let mut room = self.room.lock();
        if room.is_under_way {
            self.finish(&mut room)?;
        }
        room.is_under_way = true;
        Ok(room)
    }

    fn finish(&self, room: &mut Room) -> Result<(), DriverError> {
        self.stream.finish()?;
        room.is_under_way = false;
        Ok(())
    }

    /// Copies to the device, and waits.
    ///
    /// # Safety
    ///
    /// 1. The bytes at `to` are of this context, and nobody else reads or writes them meanwhile.
    pub(super) unsafe fn upload(&self, to: DeviceAddress, src: &[u8]) -> Result<(), DriverError> {
        let _current = self.device.enter()?;
        let mut at = to;
        for piece in src.chunks(STAGED_BYTES) {
            let mut room = self.enter()?;
            room.pinned.bytes()[..piece.len()].copy_from_slice(piece);
            let from = room.pinned.as_ptr().cast();
            // SAFETY: (1) of the caller; nobody touches the pinned bytes until `finish`.
            unsafe { self.device.driver.cuMemcpyHtoDAsync_v2(at, from, piece.len(), self.stream.raw()) }?;
            self.finish(&mut room)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies from the device, and waits.
    ///
    /// # Safety
    ///
    /// 1. The bytes at `from` are of this context, and nobody writes them meanwhile.
    pub(super) unsafe fn download(&self, from: DeviceAddress, dst: &mut [u8]) -> Result<(), DriverError> {
        let _current = self.device.enter()?;
        let mut at = from;
        for piece in dst.chunks_mut(STAGED_BYTES) {
            let mut room = self.enter()?;
            let to = room.pinned.as_ptr().cast();
            // SAFETY: (1) of the caller; nobody touches the pinned bytes until `finish`.
            unsafe { self.device.driver.cuMemcpyDtoHAsync_v2(to, at, piece.len(), self.stream.raw()) }?;
            self.finish(&mut room)?;
            piece.copy_from_slice(&room.pinned.bytes()[..piece.len()]);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Zeroes bytes of the device, and waits.
    ///
    /// # Safety
    ///
    /// 1. As [`upload`](Self::upload).
    pub(super) unsafe fn zero(&self, at: DeviceAddress, bytes: u64) -> Result<(), DriverError> {
        let _current = self.device.enter()?;
        let mut room = self.enter()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: (1) of the caller.
        unsafe { self.device.driver.cuMemsetD8Async(at, 0, bytes, self.stream.raw()) }?;
        self.finish(&mut room)
    }

    /// Makes another memory's stream wait for a copy from its pages that was launched on this one's: its pages are cleaned
    /// behind that stream, even if nobody waits for the copy any more.
    ///
    /// # Safety
    ///
    /// 1. Called within [`work`](Self::work), behind the launch; both are of one context.
    pub(super) unsafe fn hold_back(&self, other: &Self) -> Result<(), DriverError> {
        // SAFETY: (1) the stream is this value's own.
        let ordered = unsafe { self.copied.record(self.stream.raw()) };
        // SAFETY: (1) the stream is the other's own.
        let ordered = ordered.and_then(|()| unsafe { self.copied.hold_back(other.stream.raw()) });
        // Without that order nothing may be under way.
        ordered.or_else(|error| self.stream.finish().and(Err(error)))
    }

    /// Copies a list to the device, launches work over it, and waits for the results that the work wrote behind the list.
    /// Both together have at most [`STAGED_BYTES`].
    ///
    /// # Safety
    ///
    /// 1. What `launch` launches on the stream reads the list at the address, and writes `results.len()` bytes behind it.
    pub(super) unsafe fn work(
        &self,
        list: &[u8],
        results: &mut [u8],
        launch: impl FnOnce(DeviceAddress, Stream) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let _current = self.device.enter()?;
        let mut room = self.enter()?;
        let (driver, stream, there) = (&self.device.driver, self.stream.raw(), room.there.address());
        room.pinned.bytes()[..list.len()].copy_from_slice(list);
        let pinned = room.pinned.as_ptr();
        // SAFETY: (1) the list fits on both sides, and nobody touches the pinned bytes until `finish`.
        unsafe { driver.cuMemcpyHtoDAsync_v2(there, pinned.cast(), list.len(), stream) }?;
        launch(there, stream)?;
        if !results.is_empty() {
            let from = there + list.len() as u64;
            // SAFETY: (1) as above; by the stream's order the list was read before it is overwritten.
            unsafe { driver.cuMemcpyDtoHAsync_v2(pinned.cast(), from, results.len(), stream) }?;
        }
        self.finish(&mut room)?;
        results.copy_from_slice(&room.pinned.bytes()[..results.len()]);
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What was given up may read the pinned bytes still, which are freed next.
        self.stream.finish_at_last();
    }
}

/// Copies a value into bytes at a place, and answers the place behind it.
pub(super) fn put<T: Copy>(bytes: &mut [u8], at: usize, value: &T) -> usize {
    let end = at + size_of::<T>();
    let to = bytes[at..end].as_mut_ptr();
    // SAFETY: both are `size_of::<T>()` bytes long, by the slice above, and a value of its own is not in `bytes`.
    unsafe { copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), to, size_of::<T>()) };
    end
}

/// Copies a value out of the bytes that [`put`] filled with one of this type.
pub(super) fn get<T: Copy + Default>(bytes: &[u8]) -> T {
    let mut value = T::default();
    let from = bytes[..size_of::<T>()].as_ptr();
    // SAFETY: both are `size_of::<T>()` bytes long, by the slice above; a value of the same type was put there.
    unsafe { copy_nonoverlapping(from, (&raw mut value).cast::<u8>(), size_of::<T>()) };
    value
}
