//! One anonymous map of the system, with guard pages around it: every call into the system for memory is in
//! this file.
//!
//! **Owns** an address range from its creation to its drop. **Does not know** pages of the pool.
//! **Invariants:** the first and the last system page of the range are never accessible, the bytes between
//! are accessible and private to this process, and start as zero.
//!
//! # Source
//!
//! mmap(2), mprotect(2), madvise(2), mlock(2) of the Linux man pages, 6.x.
#![expect(unsafe_code, reason = "calls mmap, mprotect, madvise, mlock and munmap")]

#[cfg(not(target_os = "linux"))]
compile_error!("pagestamp maps memory, and keeps it out of core dumps, by calls that only Linux has");

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use libc::c_int;

use super::{Exposure, MemoryError};

/// The size of a huge page on the machines that have the plane sizes to use one.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// Rounds up to a multiple of `align`, which is a power of two.
fn round_up(bytes: usize, align: usize) -> Option<usize> {
    Some(bytes.checked_add(align - 1)? & !(align - 1))
}

fn system_page_bytes() -> usize {
    // SAFETY: no pointer is passed and no memory is touched.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A range of addresses of its own: guard, bytes, guard. `Debug` shows no address.
pub(super) struct Map {
    range: NonNull<u8>,
    range_bytes: usize,
    bytes_at: NonNull<u8>,
    bytes: usize,
    system_page_bytes: usize,
}

// SAFETY: a map belongs to the process and not to a thread, and nothing here touches a byte in it.
unsafe impl Send for Map {}
// SAFETY: as above; the methods on `&self` are system calls, which any number of threads may make at once.
unsafe impl Sync for Map {}

impl Map {
    /// Maps at least `bytes` accessible bytes between two guards, aligned to [`HUGE_BYTES`] when a huge
    /// page fits.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Map`]: the size overflows (`ENOMEM`) or the system refused; nothing stays mapped.
    pub(super) fn new(bytes: usize) -> Result<Self, MemoryError> {
        let page = system_page_bytes();
        let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { page };
        let overflow = MemoryError::Map { bytes, os: libc::ENOMEM };
        let inner_bytes = round_up(bytes, page).ok_or(overflow)?;
        // a guard in front, room to align, a guard behind
        let range_bytes = inner_bytes
            .checked_add(page)
            .and_then(|sum| sum.checked_add(align))
            .filter(|&sum| isize::try_from(sum).is_ok())
            .ok_or(overflow)?;
        let failed = |os| MemoryError::Map { bytes: range_bytes, os };
        // SAFETY: a fresh private map at an address of the system's choice touches nobody's memory.
        let range = unsafe {
            libc::mmap(ptr::null_mut(), range_bytes, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if range == libc::MAP_FAILED {
            return Err(failed(last_error()));
        }
        let range = NonNull::new(range.cast::<u8>()).ok_or(failed(libc::EFAULT))?;
        let front = (range.addr().get() + page).wrapping_neg() % align + page;
        // SAFETY: at most `align` into a range of `inner_bytes + page + align`: front + inner_bytes + page
        // <= range_bytes.
        let bytes_at = unsafe { range.add(front) };
        let map = Self { range, range_bytes, bytes_at, bytes: inner_bytes, system_page_bytes: page };
        // SAFETY: within our own fresh range, which nobody else knows.
        let refused =
            unsafe { libc::mprotect(bytes_at.as_ptr().cast(), inner_bytes, libc::PROT_READ | libc::PROT_WRITE) };
        // on refusal `map` is dropped, which unmaps
        if refused == 0 { Ok(map) } else { Err(failed(last_error())) }
    }

    /// Where the accessible bytes begin.
    pub(super) fn bytes_at(&self) -> NonNull<u8> {
        self.bytes_at
    }

    /// Keeps the bytes out of core dumps and out of forked children, which find zeroes in their place.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Protect`]
    pub(super) fn protect(&self) -> Result<(), MemoryError> {
        for (advice, against) in [(libc::MADV_DONTDUMP, Exposure::CoreDump), (libc::MADV_WIPEONFORK, Exposure::Fork)] {
            self.advise(0..self.bytes, advice).map_err(|os| MemoryError::Protect { bytes: self.bytes, against, os })?;
        }
        Ok(())
    }

    /// Asks for huge pages; says whether the system knows them.
    pub(super) fn advise_huge(&self) -> bool {
        self.advise(0..self.bytes, libc::MADV_HUGEPAGE).is_ok()
    }

    /// Gives every byte of a range its physical memory now. The bytes keep their values.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Backing`]
    pub(super) fn populate(&self, bytes: Range<usize>) -> Result<(), MemoryError> {
        let bytes = self.outward(bytes);
        let len = bytes.len();
        match self.advise(bytes, libc::MADV_POPULATE_WRITE) {
            // a system older than this advice brings the pages in when they are used
            Ok(()) | Err(libc::EINVAL) => Ok(()),
            Err(os) => Err(MemoryError::Backing { bytes: len, os }),
        }
    }

    /// Locks the system pages that a range touches into RAM.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Lock`]
    pub(super) fn lock(&self, bytes: Range<usize>) -> Result<(), MemoryError> {
        let bytes = self.outward(bytes);
        // SAFETY: within our range; locking changes no byte.
        let refused = unsafe { libc::mlock(self.at(bytes.start).cast(), bytes.len()) };
        if refused == 0 { Ok(()) } else { Err(MemoryError::Lock { bytes: bytes.len(), os: last_error() }) }
    }

    /// Takes back [`lock`](Self::lock) from the system pages that lie within a range.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Backing`]
    pub(super) fn unlock(&self, bytes: Range<usize>) -> Result<(), MemoryError> {
        let bytes = self.inward(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: within our range; unlocking changes no byte.
        let refused = unsafe { libc::munlock(self.at(bytes.start).cast(), bytes.len()) };
        if refused == 0 { Ok(()) } else { Err(MemoryError::Backing { bytes: bytes.len(), os: last_error() }) }
    }

    /// Gives the system pages that lie within a range back, and answers with the bytes they cover: these
    /// read as zero from now on, like fresh ones. What the range has beyond them is unchanged.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::Backing`]
    pub(super) fn discard(&self, bytes: Range<usize>) -> Result<Range<usize>, MemoryError> {
        let bytes = self.inward(bytes);
        self.advise(bytes.clone(), libc::MADV_DONTNEED)
            .map_err(|os| MemoryError::Backing { bytes: bytes.len(), os })?;
        Ok(bytes)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.bytes_at.as_ptr().wrapping_add(offset)
    }

    /// The system pages that a range touches.
    fn outward(&self, bytes: Range<usize>) -> Range<usize> {
        let start = bytes.start / self.system_page_bytes * self.system_page_bytes;
        let end = bytes.end.next_multiple_of(self.system_page_bytes).min(self.bytes);
        start..end.max(start)
    }

    /// The system pages that lie within a range; empty, at the range's start, when there are none.
    fn inward(&self, bytes: Range<usize>) -> Range<usize> {
        let end = bytes.end / self.system_page_bytes * self.system_page_bytes;
        let start = bytes.start.next_multiple_of(self.system_page_bytes);
        if start < end { start..end } else { bytes.start..bytes.start }
    }

    /// Only for advice that leaves every byte its value, or makes it zero.
    fn advise(&self, bytes: Range<usize>, advice: c_int) -> Result<(), i32> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: within our range, private to us; each advice used here changes bytes at most to zero, and
        // callers that pass MADV_DONTNEED answer for that.
        let refused = unsafe { libc::madvise(self.at(bytes.start).cast(), bytes.len(), advice) };
        if refused == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("range_bytes", &self.range_bytes)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the range of our own `mmap`, unmapped once; by the owner's obligations nobody
        // uses it after this. A refusal leaves the range mapped, which is a leak of addresses and nothing
        // worse.
        let _ = unsafe { libc::munmap(self.range.as_ptr().cast(), self.range_bytes) };
    }
}
