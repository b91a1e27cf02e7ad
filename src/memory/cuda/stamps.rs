//! The device's mirror of the stamps, and the engine's streams that may look at it.
//!
//! *Owns* the table on the device, and what is still to be written there. The host's stamp is the authority; the mirror is
//! written before the first check of a new life, and emptied behind the last user of the old one.
//!
//! **Order.** Stamps are written on a stream of their own. A check waits for the last write before it. A cleaning waits for
//! it too, and empties the stamp behind it. A page that is issued was cleaned: its fence is done, or this stream waits for it.
#![expect(unsafe_code, reason = "copies lists to the device and launches kernels over them")]

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::{Device, OwnEvent, OwnStream, Pinned, Slab};
use super::driver::{DriverError, Stream};
use super::kernels::{Kernels, STAMP_BYTES, StampArgs, StampWrite};
use super::staging::put;
use crate::id::{Generation, OwnerId};
use crate::memory::{CleanPage, Lane};

/// Stamps of one list.
const LIST_STAMPS: usize = 1024;
const HEAD_BYTES: usize = 16;
const LIST_BYTES: usize = HEAD_BYTES + LIST_STAMPS * size_of::<StampWrite>();
/// No write of a page waits.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct List {
    pinned: Pinned,
    there: Slab,
    done: OwnEvent,
}

/// Writes that no check has asked for yet, and where each page's stands.
#[derive(Debug)]
struct Waiting {
    writes: Vec<StampWrite>,
    place_of: Box<[u32]>,
}

/// Lists that are on their way, and those that are not.
#[derive(Debug, Default)]
struct Lists {
    idle: Vec<List>,
    busy: VecDeque<List>,
    /// Of sends that failed half way: they stay until the stream is finished, since the device may read them.
    broken: Vec<List>,
    /// `written` does not stand behind all that was sent.
    is_unmarked: bool,
}

#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) device: Arc<Device>,
    pub(super) kernels: Kernels,
    stream: OwnStream,
    /// Behind the last writes.
    written: OwnEvent,
    table: Slab,
    max_pages: u32,
    lanes: Mutex<Vec<u64>>,
    /// Held while the driver is called, and taken before `waiting`; never under the pool's lock.
    lists: Mutex<Lists>,
    /// Held for a moment, also under the pool's lock.
    waiting: Mutex<Waiting>,
}

impl Stamps {
    /// `table` has a stamp for each page, all zero.
    pub(super) fn new(device: &Arc<Device>, table: Slab, max_pages: u32) -> Result<Self, DriverError> {
        let writes = Vec::with_capacity(max_pages as usize);
        let waiting = Mutex::new(Waiting { writes, place_of: vec![NONE; max_pages as usize].into() });
        let (kernels, stream, written) = (Kernels::load(device)?, OwnStream::new(device)?, OwnEvent::new(device)?);
        let _current = device.enter()?;
        // SAFETY: (1) the stream is this value's own. An event that was never recorded would hold nothing back.
        unsafe { written.record(stream.raw()) }?;
        Ok(Self {
            device: Arc::clone(device),
            kernels,
            stream,
            written,
            table,
            max_pages,
            lanes: Mutex::default(),
            lists: Mutex::default(),
            waiting,
        })
    }

    pub(super) const fn address(&self) -> u64 {
        self.table.address()
    }

    pub(super) const fn max_pages(&self) -> u32 {
        self.max_pages
    }

    pub(super) fn add_lane(&self, stream: u64) {
        let mut lanes = self.lanes.lock();
        if !lanes.contains(&stream) {
            lanes.push(stream);
        }
    }

    pub(super) fn has_lane(&self, lane: Lane) -> bool {
        self.lanes.lock().contains(&lane.raw())
    }

    pub(super) fn lanes(&self) -> Vec<u64> {
        self.lanes.lock().clone()
    }

    /// Notes that a page is somebody's.
    pub(super) fn issued(&self, page: u32, generation: Generation, owner: OwnerId) {
        let mut waiting = self.waiting.lock();
        let write = StampWrite { generation: generation.get(), owner: owner.get(), page, reserved: 0 };
        let Waiting { writes, place_of } = &mut *waiting;
        let Some(place) = place_of.get_mut(page as usize) else { return };
        match writes.get_mut(*place as usize) {
            Some(before) => *before = write,
            None => {
                // at most one for each page
                *place = writes.len() as u32;
                writes.push(write);
            }
        }
    }

    /// Forgets what was to be written of pages that leave.
    pub(super) fn forget(&self, pages: &[CleanPage]) {
        // What is being sent is sent, and `written` stands behind it.
        let _lists = self.lists.lock();
        let mut waiting = self.waiting.lock();
        pages.iter().for_each(|dirty| waiting.forget(dirty.page));
    }

    /// Makes a stream wait for the stamps that are being written: those that it empties then stay empty.
    ///
    /// # Safety
    ///
    /// 1. The stream is live, and the context current.
    pub(super) unsafe fn hold_back(&self, stream: Stream) -> Result<(), DriverError> {
        let mut lists = self.lists.lock();
        self.mark(&mut lists)?;
        // SAFETY: (1) of the caller.
        unsafe { self.written.hold_back(stream) }
    }

    /// Puts `written` behind all that was sent. The context must be current.
    fn mark(&self, lists: &mut Lists) -> Result<(), DriverError> {
        if lists.is_unmarked {
            // SAFETY: (1) the stream is this value's own.
            unsafe { self.written.record(self.stream.raw()) }?;
            lists.is_unmarked = false;
        }
        Ok(())
    }

    /// Makes stamps wait for pages that are issued before their cleaning is done.
    ///
    /// # Safety
    ///
    /// 1. The context is current.
    pub(super) unsafe fn wait_for(&self, cleaned: &OwnEvent) -> Result<(), DriverError> {
        // SAFETY: (1) the stream is this value's own.
        unsafe { cleaned.hold_back(self.stream.raw()) }
    }

    /// Writes what waits, and makes a stream wait for it. Stamps that could not be sent are not written: the pages are then
    /// refused by every check, which is safe.
    ///
    /// # Safety
    ///
    /// 1. The stream is live, and the context current.
    pub(super) unsafe fn write_before(&self, stream: Stream) -> Result<(), DriverError> {
        let mut lists = self.lists.lock();
        // SAFETY: (1) of the caller.
        while unsafe { self.send(&mut lists) }? {}
        self.mark(&mut lists)?;
        // SAFETY: (1) of the caller.
        unsafe { self.written.hold_back(stream) }
    }

    /// Sends one list of what waits; `false` when nothing did.
    ///
    /// # Safety
    ///
    /// 1. The context is current.
    unsafe fn send(&self, lists: &mut Lists) -> Result<bool, DriverError> {
        if self.waiting.lock().writes.is_empty() {
            return Ok(false);
        }
        let mut list = self.take_list(lists)?;
        let mut waiting = self.waiting.lock();
        let count = waiting.writes.len().min(LIST_STAMPS);
        let first = waiting.writes.len() - count;
        let bytes = list.pinned.bytes();
        // at most LIST_STAMPS
        put(bytes, 0, &(count as u32));
        let end = waiting.writes[first..].iter().fold(HEAD_BYTES, |at, write| put(bytes, at, write));
        waiting.take_from(first);
        drop(waiting);
        lists.is_unmarked = true;
        // SAFETY: (1) of the caller.
        match unsafe { self.queue(&list, end, count as u32) } {
            Ok(()) => {
                lists.busy.push_back(list);
                Ok(true)
            }
            Err(error) => {
                lists.broken.push(list);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// 1. The context is current, and the list is kept until `done`, or the stream, is.
    unsafe fn queue(&self, list: &List, bytes: usize, count: u32) -> Result<(), DriverError> {
        let (there, stream) = (list.there.address(), self.stream.raw());
        let (writes, n_writes) = (there + HEAD_BYTES as u64, there);
        let args = StampArgs { stamps: self.table.address(), writes, n_writes, max_pages: self.max_pages, reserved: 0 };
        // SAFETY: (1) the list has so many bytes on both sides, and its pinned ones are not touched before `done` is.
        unsafe { self.device.driver.cuMemcpyHtoDAsync_v2(there, list.pinned.as_ptr().cast(), bytes, stream) }?;
        // SAFETY: (1) the stream is live and of the context; the list was copied before, in the stream's order.
        unsafe { self.kernels.stamp(args, count, stream) }?;
        // SAFETY: (1) the stream is live.
        unsafe { list.done.record(stream) }
    }

    fn take_list(&self, lists: &mut Lists) -> Result<List, DriverError> {
        while let Some(true) = lists.busy.front().map(|list| list.done.is_done()).transpose()? {
            let done = lists.busy.pop_front();
            lists.idle.extend(done);
        }
        match lists.idle.pop() {
            Some(list) => Ok(list),
            None => Ok(List {
                pinned: Pinned::new(&self.device, LIST_BYTES)?,
                there: Slab::new(&self.device, LIST_BYTES as u64)?,
                done: OwnEvent::new(&self.device)?,
            }),
        }
    }
}

impl Waiting {
    /// Takes the writes from a place on, in place: nothing is allocated.
    fn take_from(&mut self, first: usize) {
        for write in self.writes.drain(first..) {
            self.place_of[write.page as usize] = NONE;
        }
    }

    fn forget(&mut self, page: u32) {
        let Some(place) = self.place_of.get_mut(page as usize) else { return };
        let at = std::mem::replace(place, NONE);
        if at == NONE {
            return;
        }
        self.writes.swap_remove(at as usize);
        if let Some(moved) = self.writes.get(at as usize) {
            self.place_of[moved.page as usize] = at;
        }
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        // Kernels may read lists and write the table still; both are freed next.
        self.stream.finish_at_last();
    }
}

/// Bytes of the table for so many pages.
pub(super) fn table_bytes(max_pages: u32) -> u64 {
    u64::from(max_pages) * STAMP_BYTES
}
