//! Calls into the system, and everything that is taken on trust: the shared memory, a foreign pool over it, the card that
//! writes it, the word of a writer that has stopped.
//!
//! **Invariants**
//! - The mapping is never unmapped: it ends with the process.
//! - Prefill stores into a page only under the offer that named it, and before it says that it has stopped.
//! - Stores are made by calls: when a call has returned, none of its stores is on its way.
#![expect(unsafe_code, reason = "maps memory that two processes share, and vouches for who writes it when")]

use std::error::Error;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr::{self, NonNull};

use pagestamp::geometry::{ModelLayout, Slice};
use pagestamp::handoff::{Region, Regions, Route, Segment, SegmentError, Stretch};
use pagestamp::memory::ForeignPlane;
use pagestamp::{
    ForeignMemory, HolderId, HolderProcess, HostMemory, Outbound, PageGeometry, PageMemory, PagePool, PoolConfig,
    TicketError, TicketId,
};

use crate::Failure;
use crate::channel::Stopped;

const NAME: &CStr = c"pagestamp-disagg";

/// The pages of decode, plane after plane, in a memory that several processes map.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    geometry: PageGeometry,
    pages: u32,
    /// where each plane begins
    planes: Vec<usize>,
}

/// Bytes that would lie outside a page.
#[derive(Debug)]
pub(crate) struct OutOfPage {
    page: u32,
    pages: u32,
    plane: usize,
    at: usize,
    len: usize,
}

impl fmt::Display for OutOfPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, pages, plane, at, len } = self;
        write!(f, "{len} bytes at {at} do not lie in plane {plane} of page {page} of {pages}")
    }
}

impl Error for OutOfPage {}

/// Makes a memory without a name in any file system, of zeroes. It is gone with the last process that has it, and a program
/// started from here has it under the same number.
pub(crate) fn create(bytes: u64) -> io::Result<File> {
    // SAFETY: the name ends with a zero, and the call keeps none of it.
    let number = unsafe { libc::memfd_create(NAME.as_ptr(), 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made the descriptor, and nobody else has it.
    let file = unsafe { File::from_raw_fd(number) };
    file.set_len(bytes)?;
    Ok(file)
}

/// Ends this process as if it had been killed from outside: nothing of it runs any more.
pub(crate) fn die() -> ! {
    // SAFETY: a number is passed and no memory is touched.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("SIGKILL cannot be caught");
}

impl Shared {
    /// Bytes of so many pages.
    ///
    /// # Errors
    /// They are more than a computer has.
    pub(crate) fn bytes(geometry: &PageGeometry, pages: u32) -> Result<u64, Failure> {
        geometry.total_page_bytes().checked_mul(pages.into()).ok_or_else(|| "the pages do not fit".into())
    }

    /// Maps the memory that this process inherited under a number.
    ///
    /// # Errors
    /// No such memory was inherited, it has another size, or it cannot be mapped.
    pub(crate) fn inherited(number: RawFd, geometry: PageGeometry, pages: u32) -> Result<Self, Failure> {
        let file = File::options().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
        let bytes = Self::bytes(&geometry, pages)?;
        if file.metadata()?.len() != bytes {
            return Err("the memory that was inherited has another size".into());
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let length = usize::try_from(bytes)?;
        // SAFETY: no address is asked for, so that nothing that is mapped is replaced.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        let base = NonNull::new(base.cast()).ok_or("the memory was mapped at zero")?;
        let mut planes = Vec::new();
        let mut begin = 0;
        for plane in 0..geometry.planes().len() {
            planes.push(begin);
            begin += plane_page_bytes(&geometry, plane) * pages as usize;
        }
        Ok(Self { base, geometry, pages, planes })
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    pub(crate) fn planes(&self) -> usize {
        self.planes.len()
    }

    /// Bytes of a page in a plane.
    pub(crate) fn page_bytes(&self, plane: usize) -> usize {
        plane_page_bytes(&self.geometry, plane)
    }

    /// Makes a pool of the pages, when no other process has a pool of them any more. From then on this process reaches them
    /// by the pool only.
    ///
    /// # Errors
    /// As [`ForeignMemory::new`] and [`PagePool::new`].
    pub(crate) fn pool(self) -> Result<PagePool<ForeignMemory>, Failure> {
        let plane = |(plane, begin): (usize, &usize)| ForeignPlane {
            // SAFETY: the plane begins within the mapping, as its length was checked.
            base: unsafe { self.base.add(*begin) },
            stride_bytes: self.page_bytes(plane) as u64,
            len_bytes: self.page_bytes(plane) as u64 * u64::from(self.pages),
        };
        let planes: Vec<ForeignPlane> = self.planes.iter().enumerate().map(plane).collect();
        // SAFETY: (1) the mapping stays, and its bytes began as zeroes. (2) prefill alone writes beside this pool, by the
        // invariants of this file: under an offer, of which a ticket is open until prefill has stopped.
        let memory = unsafe { ForeignMemory::new(self.geometry.clone(), self.pages, &planes) }?;
        Ok(PagePool::new(PoolConfig::new(memory.max_pages()), memory)?)
    }

    /// Says where the pages lie, counted from the beginning of the memory: each process maps it elsewhere.
    ///
    /// # Errors
    /// The pages are no slice of the model.
    fn regions(&self, model: &ModelLayout, slice: &Slice) -> Result<Regions, SegmentError> {
        let region = |(plane, begin): (usize, &usize)| {
            let page_bytes = self.page_bytes(plane) as u64;
            Region::new(*begin as u64, page_bytes, page_bytes, 0)
        };
        Regions::new(model, slice.clone(), self.pages, self.planes.iter().enumerate().map(region).collect())
    }

    /// Stores bytes into a page, as a network card would: no pool is asked.
    ///
    /// # Errors
    /// The bytes would lie outside the page: nothing was stored.
    pub(crate) fn store(&self, page: u32, plane: usize, at: usize, bytes: &[u8]) -> Result<(), OutOfPage> {
        let place = self.place(page, plane, at, bytes.len())?;
        // SAFETY: `place` lies in the mapping with all the bytes, which this process reads by copies only:
        // a pool would have taken `self`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        Ok(())
    }

    /// Copies a page's bytes in a plane, whoever has the page.
    ///
    /// # Errors
    /// There is no such page or plane.
    pub(crate) fn load(&self, page: u32, plane: usize) -> Result<Vec<u8>, OutOfPage> {
        let len = self.page_bytes(plane);
        let mut bytes = vec![0; len];
        let place = self.place(page, plane, 0, len)?;
        // SAFETY: `place` lies in the mapping with all the bytes, of which every pattern is one.
        unsafe { ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), len) };
        Ok(bytes)
    }

    fn place(&self, page: u32, plane: usize, at: usize, len: usize) -> Result<*mut u8, OutOfPage> {
        let (pages, page_bytes) = (self.pages, self.page_bytes(plane));
        let begin = self.planes.get(plane).filter(|_| page < pages && at <= page_bytes && len <= page_bytes - at);
        let begin = begin.ok_or(OutOfPage { page, pages, plane, at, len })?;
        // SAFETY: within the page, which lies within the mapping.
        Ok(unsafe { self.base.add(begin + page as usize * page_bytes + at) }.as_ptr())
    }
}

fn plane_page_bytes(geometry: &PageGeometry, plane: usize) -> usize {
    // The planes fit the address space together, as the memory was mapped.
    geometry.page_bytes(plane).unwrap_or(0) as usize
}

/// What a network card is to prefill: it is told once where the pages of both sides lie, and then which of them to copy. It
/// reads the sealed pages under a ticket, and asks no pool.
#[derive(Debug)]
pub(crate) struct Card<'s> {
    shared: &'s Shared,
    /// keeps the memory of the pages
    pool: PagePool<HostMemory>,
    ticket: TicketId,
    route: Route,
    tokens: u64,
    pages: Vec<u32>,
}

impl<'s> Card<'s> {
    /// The number of the card among those that read pages.
    const HOLDER: HolderId = HolderId(1);

    /// Lets the card read the sealed pages until it has [finished](Self::finish).
    ///
    /// # Errors
    /// The pages cannot be pinned, or are not those of the model.
    pub(crate) fn new(shared: &'s Shared, outbound: &mut Outbound<HostMemory>) -> Result<Self, Failure> {
        let (model, slice) = (outbound.model().clone(), outbound.slice().clone());
        let pool = outbound.pool().clone();
        let sources = Regions::of_pool(&model, slice.clone(), &pool)?;
        let route = Route::new(&model, &slice, sources, shared.regions(&model, &slice)?)?;
        let ticket = outbound.open_reader(Self::HOLDER, None)?;
        let pages = outbound.handles().map(|handle| handle.index()).collect();
        Ok(Self { shared, pool, ticket, route, tokens: outbound.tokens(), pages })
    }

    /// Lists what is to be copied for some pages of the sequence, `destinations` being where each page of it goes.
    ///
    /// # Errors
    /// The lists do not name pages of both sides.
    pub(crate) fn segments(&self, destinations: &[u32], ordinals: Range<u32>) -> Result<Segments, SegmentError> {
        let mut segments = Vec::new();
        let stretch = Stretch::new(self.tokens, &self.pages, destinations).with_pages(ordinals);
        self.route.segments(&stretch, &mut segments)?;
        Ok(Segments { sequence: self.ticket, segments })
    }

    /// Copies some of the segments that this card listed, counted in their order.
    ///
    /// # Errors
    /// Another card listed them: nothing is copied.
    pub(crate) fn copy(&self, segments: &Segments, which: Range<usize>) -> Result<(), &'static str> {
        if segments.sequence != self.ticket {
            return Err("the segments are another card's");
        }
        for segment in segments.segments.get(which).unwrap_or_default() {
            // Both are addresses or offsets of this computer.
            let from: *const u8 = ptr::with_exposed_provenance(segment.source as usize);
            // SAFETY: the segment was made of regions of the mapping, within which it begins.
            let to = unsafe { self.shared.base.add(segment.destination as usize) };
            // SAFETY: the segment was made of regions of both memories, which are two; the pool keeps its own. The source is
            // sealed, and stays so under the ticket; the destination is read by copies only in this process.
            unsafe { ptr::copy_nonoverlapping(from, to.as_ptr(), segment.bytes as usize) };
        }
        Ok(())
    }

    /// Ends the card's ticket: it reads the pages no more.
    ///
    /// # Errors
    /// The ticket ended before.
    pub(crate) fn finish(self) -> Result<(), TicketError> {
        // SAFETY: (1) the card copies by calls, which have returned, and there will be none, since it is gone.
        unsafe { self.pool.ticket_done(self.ticket) }
    }
}

/// What a card is to copy.
#[derive(Debug)]
pub(crate) struct Segments {
    /// the ticket of the card that listed them
    sequence: TicketId,
    segments: Vec<Segment>,
}

impl Segments {
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }
}

/// Names the prefill process as the holder of a ticket that it was not told of yet.
pub(crate) fn name_holder(
    pool: &PagePool<ForeignMemory>,
    ticket: TicketId,
    process: HolderProcess,
) -> Result<(), TicketError> {
    // SAFETY: (1) the offer goes to prefill alone, which stores by its CPU and starts no process; it got the pages of no
    // earlier ticket to write, since each of those ended first.
    unsafe { pool.name_holder(ticket, process) }
}

/// Ends the ticket of a writer that said that it has stopped.
pub(crate) fn end_stopped(
    pool: &PagePool<ForeignMemory>,
    ticket: TicketId,
    _word: &Stopped,
) -> Result<(), TicketError> {
    // SAFETY: (1) prefill says so behind its last store, by the invariants of this file. Its word came through a pipe, whose
    // calls into the kernel order the stores before it.
    unsafe { pool.ticket_done(ticket) }
}
