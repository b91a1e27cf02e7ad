//! Stores of x86-64: string stores and vectors for hot bytes, non-temporal vectors for cold ones.
//!
//! Measured, random pages in huge pages: cold, 32-byte non-temporal stores are the best or within noise of
//! it from 128 B up (64-byte ones, and touching the next page first, gained nothing); hot, `rep stosb` and
//! `write_bytes` are equal from 2 KiB up and vectors faster below.
#![expect(unsafe_code, reason = "stores to raw addresses in inline assembly")]

use std::arch::asm;

/// A cache line; also the shortest length that the vector loops take.
const LINE: usize = 64;

/// From here up a string store is as fast as a vector loop or faster, and leaves the choice of width to the
/// processor.
const STRING_BYTES: usize = 2048;

/// What the processor can do beyond SSE2, which every x86-64 has.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Stores {
    avx2: bool,
    fast_strings: bool,
}

impl Stores {
    pub(super) fn detect() -> Self {
        Self { avx2: is_x86_feature_detected!("avx2"), fast_strings: is_x86_feature_detected!("ermsb") }
    }

    /// Every set of stores that this processor can run.
    #[cfg(test)]
    pub(super) fn variants() -> Vec<(&'static str, Self)> {
        let best = Self::detect();
        let mut variants = vec![("sse2", Self { avx2: false, fast_strings: false }), ("best", best)];
        if best.avx2 {
            variants.push(("avx2", Self { avx2: true, fast_strings: false }));
        }
        variants
    }

    /// Zeroes with stores that keep the lines in the cache.
    ///
    /// # Safety
    ///
    /// As [`Zero::zero`](super::Zero::zero): (1) valid for writes, (2) nobody else's meanwhile.
    #[inline]
    pub(super) unsafe fn hot(&self, at: *mut u8, len: usize) {
        if len < LINE {
            // SAFETY: (1) and (2) of the caller; shorter than a line.
            unsafe { short(at, len) }
        } else if len >= STRING_BYTES && self.fast_strings {
            // SAFETY: (1) and (2) of the caller.
            unsafe { string(at, len) }
        } else {
            // SAFETY: (1) and (2) of the caller; at least a line.
            unsafe { self.vectors(at, len) }
        }
    }

    /// Zeroes whole lines around the cache and the ragged ends through it. Unordered until
    /// [`settle`](Self::settle).
    ///
    /// # Safety
    ///
    /// As [`Zero::zero`](super::Zero::zero): (1) valid for writes, (2) nobody else's meanwhile.
    #[inline]
    pub(super) unsafe fn cold(&self, at: *mut u8, len: usize) {
        if len < LINE {
            // SAFETY: (1) and (2) of the caller; shorter than a line.
            unsafe { short(at, len) };
            return;
        }
        let head = at.addr().wrapping_neg() % LINE;
        let lines = (len - head) / LINE;
        let tail = len - head - lines * LINE;
        if head > 0 {
            // SAFETY: (1) and (2) of the caller; `len` is at least a line, so that the line at `at` lies
            // within.
            unsafe { self.vectors(at, LINE) };
        }
        let body = at.wrapping_add(head);
        if lines == 0 {
            // nothing between the ends
        } else if self.avx2 {
            // SAFETY: (1) and (2) of the caller; aligned by `head`, at least one line, AVX2 was detected.
            unsafe { lines_avx2(body, lines) };
        } else {
            // SAFETY: (1) and (2) of the caller; aligned by `head`, at least one line.
            unsafe { lines_sse2(body, lines) };
        }
        if tail > 0 {
            // SAFETY: (1) and (2) of the caller; `len` is at least a line, so that the last line's worth
            // lies within.
            unsafe { self.vectors(at.wrapping_add(len - LINE), LINE) };
        }
    }

    /// Orders the non-temporal stores of this thread before every later store.
    #[inline]
    pub(super) fn settle(&self) {
        // SAFETY: a fence touches no memory and no flag; the statement claims memory, so that no store
        // moves across.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }

    /// # Safety
    ///
    /// (1) and (2) of `hot`; (3) `len` is at least [`LINE`].
    #[inline]
    unsafe fn vectors(&self, at: *mut u8, len: usize) {
        if self.avx2 {
            // SAFETY: (1) to (3) of the caller; AVX2 was detected.
            unsafe { vectors_avx2(at, len) };
        } else {
            // SAFETY: (1) to (3) of the caller.
            unsafe { vectors_sse2(at, len) };
        }
    }
}

/// Zeroes fewer bytes than a line, with two stores that may overlap for each power of two.
///
/// # Safety
///
/// (1) and (2) of `hot`; (3) `len` is less than [`LINE`].
#[inline]
unsafe fn short(at: *mut u8, len: usize) {
    if len >= 16 {
        // at least 16: up to three steps of 16 from the front, and the last 16
        for step in (0..len - 15).step_by(16) {
            // SAFETY: (1) and (2) of the caller; step + 16 <= len.
            unsafe { store_16(at.wrapping_add(step)) };
        }
        // SAFETY: (1) and (2) of the caller; the last 16 of at least 16 bytes.
        unsafe { store_16(at.wrapping_add(len - 16)) };
    } else if len >= 8 {
        // SAFETY: (1) and (2) of the caller; the first 8 of at least 8 bytes.
        unsafe { store_8(at) };
        // SAFETY: (1) and (2) of the caller; the last 8 of at least 8 bytes.
        unsafe { store_8(at.wrapping_add(len - 8)) };
    } else {
        for i in 0..len {
            // SAFETY: (1) and (2) of the caller; i < len.
            unsafe { store_1(at.wrapping_add(i)) };
        }
    }
}

/// # Safety
///
/// (1) and (2) of `hot`, for 16 bytes.
#[inline]
unsafe fn store_16(at: *mut u8) {
    // SAFETY: stores zero to 16 bytes that (1) and (2) of the caller allow.
    unsafe {
        asm!(
            "xorps {zero}, {zero}",
            "movups [{at}], {zero}",
            at = in(reg) at, zero = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// (1) and (2) of `hot`, for 8 bytes.
#[inline]
unsafe fn store_8(at: *mut u8) {
    // SAFETY: stores zero to 8 bytes that (1) and (2) of the caller allow.
    unsafe { asm!("mov qword ptr [{at}], 0", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// # Safety
///
/// (1) and (2) of `hot`, for one byte.
#[inline]
unsafe fn store_1(at: *mut u8) {
    // SAFETY: stores zero to one byte that (1) and (2) of the caller allow.
    unsafe { asm!("mov byte ptr [{at}], 0", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// # Safety
///
/// (1) and (2) of `hot`.
#[inline]
unsafe fn string(at: *mut u8, len: usize) {
    // SAFETY: stores zero to the `len` bytes at `at`, which (1) and (2) of the caller allow; the direction
    // flag is clear on entry.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") len => _, inout("rdi") at => _, in("al") 0_u8,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// (1) and (2) of `hot`; (3) `len` is at least [`LINE`].
#[inline]
unsafe fn vectors_sse2(at: *mut u8, len: usize) {
    // SAFETY: stores zero to lines from `at` while they begin before the last line's worth, then to that:
    // by (3) all within `at..at + len`, which (1) and (2) of the caller allow.
    unsafe {
        asm!(
            "xorps {zero}, {zero}",
            "2:",
            "movups [{at}], {zero}",
            "movups [{at} + 16], {zero}",
            "movups [{at} + 32], {zero}",
            "movups [{at} + 48], {zero}",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "movups [{last}], {zero}",
            "movups [{last} + 16], {zero}",
            "movups [{last} + 32], {zero}",
            "movups [{last} + 48], {zero}",
            at = inout(reg) at => _,
            last = in(reg) at.wrapping_add(len - LINE),
            zero = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// (1) and (2) of `hot`; (3) `len` is at least [`LINE`]; (4) the processor has AVX2.
#[inline]
unsafe fn vectors_avx2(at: *mut u8, len: usize) {
    // SAFETY: as `vectors_sse2`; by (4) the instructions exist; `vzeroupper` changes the upper halves of
    // registers 0 to 15, all named.
    unsafe {
        asm!(
            "vpxor xmm0, xmm0, xmm0",
            "2:",
            "vmovdqu [{at}], ymm0",
            "vmovdqu [{at} + 32], ymm0",
            "add {at}, 64",
            "cmp {at}, {last}",
            "jb 2b",
            "vmovdqu [{last}], ymm0",
            "vmovdqu [{last} + 32], ymm0",
            "vzeroupper",
            at = inout(reg) at => _,
            last = in(reg) at.wrapping_add(len - LINE),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// (1) and (2) of `hot`, for `lines` lines; (3) `at` is aligned to [`LINE`]; (4) `lines` is not zero.
#[inline]
unsafe fn lines_sse2(at: *mut u8, lines: usize) {
    // SAFETY: stores zero to exactly `lines` lines, by (4) at least one, which (1) and (2) of the caller
    // allow; aligned by (3).
    unsafe {
        asm!(
            "xorps {zero}, {zero}",
            "2:",
            "movntps [{at}], {zero}",
            "movntps [{at} + 16], {zero}",
            "movntps [{at} + 32], {zero}",
            "movntps [{at} + 48], {zero}",
            "add {at}, 64",
            "dec {lines}",
            "jnz 2b",
            at = inout(reg) at => _,
            lines = inout(reg) lines => _,
            zero = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
///
/// (1) and (2) of `hot`, for `lines` lines; (3) `at` is aligned to [`LINE`]; (4) `lines` is not zero; (5)
/// the processor has AVX2.
#[inline]
unsafe fn lines_avx2(at: *mut u8, lines: usize) {
    // SAFETY: as `lines_sse2`; by (5) the instructions exist; `vzeroupper` changes the upper halves of
    // registers 0 to 15, all named.
    unsafe {
        asm!(
            "vpxor xmm0, xmm0, xmm0",
            "2:",
            "vmovntdq [{at}], ymm0",
            "vmovntdq [{at} + 32], ymm0",
            "add {at}, 64",
            "dec {lines}",
            "jnz 2b",
            "vzeroupper",
            at = inout(reg) at => _,
            lines = inout(reg) lines => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
}
