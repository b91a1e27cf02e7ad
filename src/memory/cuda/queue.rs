//! Cleaning on the device, behind whoever had the pages.
//!
//! *Owns* the lists that are on their way, one for each batch, and the fences. A list lies in pinned memory that is not touched again before the
//! event behind its kernels is done.
#![expect(unsafe_code, reason = "copies lists to the device and launches kernels over them")]

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::{Device, OwnEvent, OwnStream, Pinned, Slab};
use super::driver::{DriverError, Stream};
use super::kernels::{CleanArgs, DevicePlane, DirtyPage, Size, StampArgs, StampWrite};
use super::staging::put;
use super::stamps::Stamps;
use crate::memory::{CleanPage, Fence, FenceState, Lane, MemoryError};

/// Least room of a list. Lists are kept, and used again by batches that fit.
const LEAST_PAGES: usize = 1024;
/// The count, then pages, then stamps.
const LIST_HEAD_BYTES: usize = 16;

const fn list_bytes(pages: usize) -> usize {
    LIST_HEAD_BYTES + pages * (size_of::<DirtyPage>() + size_of::<StampWrite>())
}

/// A list, in pinned memory and on the device, and the event behind its kernels.
#[derive(Debug)]
struct List {
    pinned: Pinned,
    there: Slab,
    done: OwnEvent,
    pages: usize,
    most_pages: usize,
}

impl List {
    fn new(device: &Arc<Device>, most_pages: usize) -> Result<Self, DriverError> {
        let bytes = list_bytes(most_pages);
        let (pinned, there) = (Pinned::new(device, bytes)?, Slab::new(device, bytes as u64)?);
        Ok(Self { pinned, there, done: OwnEvent::new(device)?, pages: 0, most_pages })
    }

    /// Writes pages down, each of which becomes nobody's.
    fn fill(&mut self, pages: &[CleanPage]) {
        let bytes = self.pinned.bytes();
        // a batch of distinct pages of a memory, which has a u32 of them
        put(bytes, 0, &(pages.len() as u32));
        let mut at = LIST_HEAD_BYTES;
        for dirty in pages {
            at = put(bytes, at, &DirtyPage { page: dirty.page, tokens: dirty.tokens });
        }
        for dirty in pages {
            at = put(bytes, at, &StampWrite { generation: 0, owner: 0, page: dirty.page, reserved: 0 });
        }
        self.pages = pages.len();
    }

    const fn bytes(&self) -> usize {
        list_bytes(self.pages)
    }
}

/// A list behind a fence.
#[derive(Debug)]
struct Batch {
    list: List,
    state: BatchState,
    /// Answers of the driver since the list was sent well, one after the other, that were errors.
    errors: u32,
}

/// As many errors in a row say that the device is lost: what is wrong once with a context is wrong for good.
const ERRORS_OF_A_LOST_DEVICE: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BatchState {
    /// Not with the device: a lane was being captured, behind which nothing can be ordered then, or it did not go well.
    Kept,
    Sent,
    /// Some of it may be with the device, and nothing stands behind it yet.
    Broken,
    /// Some of it was with the device, and the list's event stands behind that. It is sent again once that is over.
    Marked,
}

impl Batch {
    const fn new(list: List, state: BatchState) -> Self {
        Self { list, state, errors: 0 }
    }

    /// Asks the driver how far a batch is.
    fn ask(&mut self, own: &OwnStream) -> FenceState {
        let done = &self.list.done;
        let answer = match self.state {
            BatchState::Kept => Ok(false),
            // SAFETY: (1) the stream is live while the queue has it.
            BatchState::Broken => unsafe { done.record(own.raw()) }.map(|()| {
                self.state = BatchState::Marked;
                false
            }),
            BatchState::Marked => done.is_done().map(|is_over| {
                if is_over {
                    self.state = BatchState::Kept;
                }
                false
            }),
            BatchState::Sent => done.is_done(),
        };
        match answer {
            Ok(true) => return FenceState::Done,
            Ok(false) if self.state == BatchState::Sent => self.errors = 0,
            Ok(false) => {}
            Err(_) => self.errors += 1,
        }
        if self.errors >= ERRORS_OF_A_LOST_DEVICE { FenceState::Failed } else { FenceState::Pending }
    }
}

/// Why a list was not sent.
enum Unsent {
    /// The device has nothing of it.
    Nothing(DriverError),
    /// The device may have some of it.
    Some,
}

/// What is on its way.
#[derive(Debug, Default)]
struct Work {
    /// The newest fence given out.
    newest: u64,
    open: BTreeMap<u64, Batch>,
    /// Their lists stay until the stream is finished: nobody knows whether the device reads them.
    failed: BTreeMap<u64, List>,
    idle: Vec<List>,
}

#[derive(Debug)]
pub(super) struct Queue {
    device: Arc<Device>,
    stamps: Arc<Stamps>,
    stream: OwnStream,
    /// What the engine's streams held, one after the other.
    behind: OwnEvent,
    planes: Slab,
    n_planes: u32,
    page_tokens: u32,
    /// of a page, in its largest plane
    page_bytes: u64,
    /// Held while the driver is called for a batch; taken before `work`, or tried.
    sending: Mutex<()>,
    /// Held for a moment, also under the pool's lock.
    work: Mutex<Work>,
}

impl Queue {
    /// `planes` were copied to the device.
    pub(super) fn new(
        planes: (Slab, &[DevicePlane]),
        stamps: &Arc<Stamps>,
        page_tokens: u32,
    ) -> Result<Self, DriverError> {
        let device = &stamps.device;
        Ok(Self {
            device: Arc::clone(device),
            stamps: Arc::clone(stamps),
            stream: OwnStream::new(device)?,
            behind: OwnEvent::new(device)?,
            planes: planes.0,
            // at most PageGeometry::MAX_PLANES
            n_planes: planes.1.len() as u32,
            page_tokens,
            page_bytes: planes.1.iter().map(|plane| plane.whole_bytes).max().unwrap_or(0),
            sending: Mutex::new(()),
            work: Mutex::default(),
        })
    }

    /// So many of its pages, for the choice of a grid.
    pub(super) const fn size(&self, pages: u32) -> Size {
        Size { pages, page_bytes: self.page_bytes }
    }

    /// Where the planes stand on the device, for kernels.
    pub(super) const fn planes_address(&self) -> u64 {
        self.planes.address()
    }

    /// Begins to clean a batch that was checked.
    ///
    /// # Safety
    ///
    /// 1. As [`PageMemory::clean`](crate::PageMemory::clean).
    /// 2. Every lane that was named is live.
    pub(super) unsafe fn clean(&self, pages: &[CleanPage]) -> Result<Fence, DriverError> {
        if pages.is_empty() {
            return Ok(Fence::DONE);
        }
        let _current = self.device.enter()?;
        let mut list = self.take_list(pages.len())?;
        list.fill(pages);
        self.stamps.forget(pages);
        let _sending = self.sending.lock();
        // SAFETY: (1) and (2) of the caller; the context is current.
        let state = match unsafe { self.send_behind(&list) } {
            Ok(true) => BatchState::Sent,
            Ok(false) => BatchState::Kept,
            Err(Unsent::Nothing(error)) => {
                self.work.lock().idle.push(list);
                return Err(error);
            }
            // What is under way may be held up by the engine for long: nobody waits for it here.
            Err(Unsent::Some) => BatchState::Broken,
        };
        let mut work = self.work.lock();
        work.newest += 1;
        let fence = work.newest;
        work.open.insert(fence, Batch::new(list, state));
        Ok(Fence::from_raw(fence))
    }

    /// Sends a list behind everybody who may have the pages; `false` when that has to wait for the end of a capture.
    ///
    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean), and the context is current.
    unsafe fn send_behind(&self, list: &List) -> Result<bool, Unsent> {
        // SAFETY: (1) of the caller.
        let is_behind = unsafe { self.go_behind() }.map_err(Unsent::Nothing)?;
        if is_behind {
            // SAFETY: (1) of the caller.
            unsafe { self.send(list) }.map_err(|_| Unsent::Some)?;
        }
        Ok(is_behind)
    }

    /// Makes the queue wait for everybody who may have the pages; `false` when a lane is being captured.
    ///
    /// # Safety
    ///
    /// 1. Every lane that was named is live, and the context current.
    unsafe fn go_behind(&self) -> Result<bool, DriverError> {
        let (own, driver) = (self.stream.raw(), &self.device.driver);
        // SAFETY: (1) the stream is this queue's own, and the context is current.
        unsafe { self.stamps.hold_back(own) }?;
        for stream in self.stamps.lanes().into_iter().map(|lane| lane as Stream) {
            // The default stream must not be touched while another is captured, so that is asked in front ...
            // SAFETY: (1) of the caller.
            if unsafe { driver.is_capturing(stream) }? {
                return Ok(false);
            }
            // SAFETY: (1) of the caller.
            unsafe { self.behind.record(stream) }?;
            // ... and behind, since a capture may have begun between the two. An event of a capture is nothing to wait for: the
            // queue would be captured too.
            // SAFETY: (1) of the caller.
            if unsafe { driver.is_capturing(stream) }? {
                return Ok(false);
            }
            // SAFETY: (1) the stream is this queue's own.
            unsafe { self.behind.hold_back(own) }?;
        }
        Ok(true)
    }

    /// A list that no kernel reads any more, or a new one.
    fn take_list(&self, pages: usize) -> Result<List, DriverError> {
        let idle = {
            let mut work = self.work.lock();
            let fits = work.idle.iter().position(|list| list.most_pages >= pages);
            fits.map(|at| work.idle.swap_remove(at))
        };
        idle.map_or_else(|| List::new(&self.device, pages.next_power_of_two().max(LEAST_PAGES)), Ok)
    }

    /// # Safety
    ///
    /// 1. As [`clean`](Self::clean), and the context is current.
    unsafe fn send(&self, list: &List) -> Result<(), DriverError> {
        let (there, stream) = (list.there.address(), self.stream.raw());
        let pinned = list.pinned.as_ptr().cast();
        // SAFETY: (1) the list has so many bytes on both sides, and its pinned ones are not touched before `done` is.
        unsafe { self.device.driver.cuMemcpyHtoDAsync_v2(there, pinned, list.bytes(), stream) }?;
        let first = there + LIST_HEAD_BYTES as u64;
        let args = CleanArgs {
            planes: self.planes.address(),
            pages: first,
            n_pages: there,
            n_planes: self.n_planes,
            max_pages: self.stamps.max_pages(),
            page_tokens: self.page_tokens,
            reserved: 0,
        };
        // a u32 of them, as in `fill`
        let count = list.pages as u32;
        // SAFETY: (1) the stream is live and of the context; (2) the list was copied before, in the stream's order, and the
        // pages are nobody's by (1) of the caller.
        unsafe { self.stamps.kernels.clean(args, self.size(count), stream) }?;
        let writes = first + (list.pages * size_of::<DirtyPage>()) as u64;
        let (stamps, max_pages) = (self.stamps.address(), self.stamps.max_pages());
        let args = StampArgs { stamps, writes, n_writes: there, max_pages, reserved: 0 };
        // SAFETY: (1) as above.
        unsafe { self.stamps.kernels.stamp(args, count, stream) }?;
        // SAFETY: (1) the stream is live.
        unsafe { list.done.record(stream) }
    }

    /// Tells what became of a batch. One that was kept is sent now, if it can be.
    ///
    /// # Safety
    ///
    /// 1. Every lane that was named is live.
    pub(super) unsafe fn poll(&self, fence: Fence) -> FenceState {
        let Ok(_current) = self.device.enter() else { return FenceState::Pending };
        let mut work = self.work.lock();
        let Work { newest, open, failed, idle } = &mut *work;
        if fence.raw() > *newest || failed.contains_key(&fence.raw()) {
            return FenceState::Failed;
        }
        let Some(batch) = open.get_mut(&fence.raw()) else { return FenceState::Done };
        if batch.state == BatchState::Kept {
            let Some(_sending) = self.sending.try_lock() else { return FenceState::Pending };
            // SAFETY: (1) the batch was checked by `clean`, and its pages are nobody's until the fence is done. (2) of the
            // caller.
            match unsafe { self.send_behind(&batch.list) } {
                Ok(false) => return FenceState::Pending,
                Ok(true) => batch.state = BatchState::Sent,
                Err(unsent) => {
                    batch.errors += 1;
                    if matches!(unsent, Unsent::Some) {
                        batch.state = BatchState::Broken;
                    }
                }
            }
        }
        let answer = batch.ask(&self.stream);
        if answer == FenceState::Pending {
            return answer;
        }
        let list = open.remove(&fence.raw()).map(|batch| batch.list);
        if answer == FenceState::Done {
            idle.extend(list);
        } else {
            failed.extend(list.map(|list| (fence.raw(), list)));
        }
        answer
    }

    /// Makes a lane wait for a fence.
    ///
    /// # Safety
    ///
    /// 1. Every lane that was named is live.
    pub(super) unsafe fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        match unsafe { self.poll(fence) } {
            FenceState::Failed => return Err(MemoryError::UnknownFence { fence: fence.raw() }),
            FenceState::Done => return Ok(()),
            FenceState::Pending => {}
        }
        if !self.stamps.has_lane(lane) {
            return Err(MemoryError::UnknownLane { lane: lane.raw() });
        }
        let stream = lane.raw() as Stream;
        let _current = self.device.enter()?;
        // SAFETY: (1) of the caller: the lane is one that was named.
        if unsafe { self.device.driver.is_capturing(stream) }? {
            return Err(MemoryError::Capturing { lane: lane.raw() });
        }
        let work = self.work.lock();
        // Done between the two looks.
        let Some(batch) = work.open.get(&fence.raw()) else { return Ok(()) };
        if batch.state != BatchState::Sent {
            return Err(MemoryError::UnknownFence { fence: fence.raw() });
        }
        // SAFETY: (1) of the caller: the lane is one that was named.
        unsafe { batch.list.done.hold_back(stream) }?;
        // SAFETY: (1) the context is current.
        Ok(unsafe { self.stamps.wait_for(&batch.list.done) }?)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Kernels may read lists and write pages still; both are freed next.
        self.stream.finish_at_last();
    }
}

/// Puts planes where the kernels find them.
pub(super) fn encode(planes: &[DevicePlane]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(planes)];
    planes.iter().fold(0, |at, plane| put(&mut bytes, at, plane));
    bytes
}
