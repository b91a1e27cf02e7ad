//! Stores for machines without a kernel of their own: right, not fast.
#![expect(unsafe_code, reason = "stores to raw addresses")]

use core::arch::asm;
// `crate::sync` is for what loom models; these are no shared variables but page bytes at foreign addresses.
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

const WORD: usize = size_of::<u64>();

/// Plain stores, hot and cold alike.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Stores;

impl Stores {
    pub(super) fn detect() -> Self {
        Self
    }

    /// # Safety
    ///
    /// As [`Zero::zero`](super::Zero::zero).
    #[inline]
    pub(super) unsafe fn hot(&self, at: *mut u8, len: usize) {
        let head = at.align_offset(align_of::<AtomicU64>()).min(len);
        let words = (len - head) / WORD;
        let tail = head + words * WORD;
        for i in (0..head).chain(tail..len) {
            // SAFETY: (1) and (2) of the caller; a byte is always aligned.
            let byte = unsafe { AtomicU8::from_ptr(at.wrapping_add(i)) };
            byte.store(0, Ordering::Relaxed);
        }
        for i in 0..words {
            let word = at.wrapping_add(head + i * WORD).cast::<u64>();
            // SAFETY: (1) and (2) of the caller; `head` aligned it.
            let word = unsafe { AtomicU64::from_ptr(word) };
            word.store(0, Ordering::Relaxed);
        }
        // SAFETY: no instruction; the statement claims to read all memory that `at` can reach.
        unsafe { asm!("/* {0} */", in(reg) at, options(nostack, preserves_flags)) };
    }

    /// # Safety
    ///
    /// As [`Zero::zero`](super::Zero::zero).
    #[inline]
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "only its twin `hot` is tested here"))]
    pub(super) unsafe fn cold(&self, at: *mut u8, len: usize) {
        // SAFETY: (1) and (2) of the caller.
        unsafe { self.hot(at, len) };
    }

    #[inline]
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "used off x86-64 only"))]
    pub(super) fn settle(&self) {
        fence(Ordering::Release);
    }
}
