//! Makes bytes zero, in a way that nothing removes.
//!
//! **Owns** the choice of stores. **Does not know** pages: it is given an address and a length.
//!
//! **Why it cannot be optimised away.** A compiler may drop stores that it proves unread, and pages that
//! leave their owner are exactly that. On x86-64 the stores are inline assembly that claims to read and
//! write memory (neither `nomem` nor `pure`), which a compiler must run and cannot look into. Elsewhere
//! they are relaxed atomic stores followed by an empty assembly statement that receives the address and
//! claims to read all memory, so that the zeroes are observed. `black_box` promises nothing and is not
//! used.
//!
//! **Why two threads may zero one page.** In terms of Rust's memory model each kernel performs relaxed
//! atomic stores of single zero bytes (of aligned words, off x86-64), so that concurrent calls of safe code
//! are no data race. Non-temporal stores leave the processor in no order; [`Zero::settle`] ends that, and
//! every caller calls it before it tells anybody.
#![expect(unsafe_code, reason = "stores to raw addresses")]

use super::Heat;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64::Stores;

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
use portable::Stores;

/// The stores of this machine, chosen once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zero {
    stores: Stores,
}

impl Zero {
    /// Looks at the processor.
    pub(super) fn detect() -> Self {
        Self { stores: Stores::detect() }
    }

    /// Zeroes `len` bytes at `at`, whatever the alignment. Other threads may rely on it only after
    /// [`settle`](Self::settle).
    ///
    /// # Safety
    ///
    /// 1. `at..at + len` is valid for writes, within one allocation, during the call.
    /// 2. Meanwhile nobody else reads or writes these bytes, except by this function.
    #[inline]
    pub(super) unsafe fn zero(&self, at: *mut u8, len: usize, heat: Heat) {
        match heat {
            // SAFETY: obligations (1) and (2) of `hot` are ours.
            Heat::Hot => unsafe { self.stores.hot(at, len) },
            // SAFETY: obligations (1) and (2) of `cold` are ours.
            Heat::Cold => unsafe { self.stores.cold(at, len) },
        }
    }

    /// Ends every store of this thread's earlier [`zero`](Self::zero)s: what the thread publishes
    /// afterwards comes after the zeroes.
    #[inline]
    pub(super) fn settle(&self) {
        self.stores.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Kernel = (&'static str, Box<dyn Fn(*mut u8, usize)>);

    fn kernels() -> Vec<Kernel> {
        let mut kernels: Vec<Kernel> = Vec::new();
        let portable = portable::Stores::detect();
        // SAFETY: the test passes its own buffer.
        kernels.push(("portable", Box::new(move |at, len| unsafe { portable.hot(at, len) })));
        #[cfg(target_arch = "x86_64")]
        for (name, stores) in Stores::variants() {
            // SAFETY: the test passes its own buffer.
            kernels.push((name, Box::new(move |at, len| unsafe { stores.hot(at, len) })));
            // SAFETY: the test passes its own buffer.
            kernels.push((name, Box::new(move |at, len| unsafe { stores.cold(at, len) })));
        }
        kernels
    }

    // C3
    #[test]
    fn every_kernel_zeroes_exactly_the_bytes_named_at_any_alignment_and_length() {
        let short = (0..=200).flat_map(|len| (0..64).map(move |offset| (len, offset)));
        let long = [511, 512, 513, 2047, 2048, 2049, 2111, 2112]
            .into_iter()
            .flat_map(|len| [0, 1, 15, 32, 63].map(|offset| (len, offset)));
        let cases: Vec<(usize, usize)> = short.chain(long).collect();
        for (name, zero) in kernels() {
            for &(len, offset) in &cases {
                // 64 bytes of margin on either side
                let (from, to) = (64 + offset, 64 + offset + len);
                let mut buffer = vec![0xA5_u8; to + 64];
                let mut expected = buffer.clone();
                expected[from..to].fill(0);
                zero(buffer.as_mut_ptr().wrapping_add(from), len);
                assert!(buffer == expected, "{name}: {len} bytes at offset {offset}");
            }
        }
    }

    // C3
    #[test]
    fn zeroes_of_a_dead_buffer_are_stored_in_a_release_build_too() {
        let zero = Zero::detect();
        for heat in [Heat::Hot, Heat::Cold] {
            let mut buffer = [0xA5_u8; 256];
            let at = buffer.as_mut_ptr();
            // SAFETY: (1) and (2): the buffer is this function's alone.
            unsafe { zero.zero(at, buffer.len(), heat) };
            zero.settle();
            for i in 0..buffer.len() {
                // SAFETY: within the buffer.
                let byte = unsafe { at.wrapping_add(i).read_volatile() };
                assert_eq!(byte, 0, "byte {i}, {heat:?}");
            }
        }
    }
}
