//! CRC-32C (Castagnoli, RFC 3720), with the processor's own instruction where there is one.
//!
//! **Owns** the choice of instructions. **Does not know** what the bytes are. It lies here because instructions that
//! not every processor has are reached by an `unsafe` call.
//!
//! **Cost.** O(bytes); no lock, no allocation. x86-64 with SSE4.2 and PCLMULQDQ takes 8 bytes a cycle, others look up
//! eight tables of 1 KiB.

mod portable;
#[cfg(not(target_arch = "x86_64"))]
use portable::update;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64::update;

/// The polynomial x^32 + x^28 + x^27 + ... + 1, the coefficient of x^31 in the lowest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Bytes so far, as a remainder. The bytes may come in pieces of any size.
#[derive(Clone, Copy)]
pub(crate) struct Crc32c {
    remainder: u32,
}

impl Crc32c {
    pub(crate) const fn new() -> Self {
        Self { remainder: !0 }
    }

    /// Adds bytes.
    #[inline]
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.remainder = update(self.remainder, bytes);
    }

    /// The CRC of all bytes so far.
    pub(crate) const fn finish(self) -> u32 {
        !self.remainder
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = Crc32c::new();
        crc.update(bytes);
        crc.finish()
    }

    /// The definition, bit by bit: the CRCs of no byte, of the first, of the first two...
    fn defined(bytes: &[u8]) -> Vec<u32> {
        let bit = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        let mut crc = !0;
        let add = |byte: &u8| {
            crc = (0..8).fold(crc ^ u32::from(*byte), bit);
            !crc
        };
        [0].into_iter().chain(bytes.iter().map(add)).collect()
    }

    /// Bytes in which no two stretches are alike.
    fn bytes(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    // C10
    #[test]
    fn crc32c_is_that_of_rfc_3720() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        let known = [
            (&[][..], 0),
            (b"123456789", 0xE306_9283),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (&ascending, 0x46DD_794E),
            (&descending, 0x113F_DB5C),
        ];
        for (bytes, expected) in known {
            assert_eq!(crc(bytes), expected, "{bytes:?}");
            assert_eq!(!portable::update(!0, bytes), expected, "portable, {bytes:?}");
            assert_eq!(defined(bytes).last(), Some(&expected), "by definition, {bytes:?}");
        }
    }

    // C10
    #[test]
    fn crc32c_of_every_length_near_a_block_is_the_defined_one() {
        let bytes = bytes(40_000);
        // Around nothing, and some of the blocks that the kernels take at once.
        let near = [0_usize, 192, 384, 1536, 1728, 3072, 12_288, 12_480, 13_824, 24_576, 36_864];
        for offset in [0, 1, 7] {
            let bytes = &bytes[offset..];
            let defined = defined(bytes);
            for len in near.iter().flat_map(|near| near.saturating_sub(20)..near + 20) {
                let part = &bytes[..len];
                assert_eq!(crc(part), defined[len], "{len} bytes at offset {offset}");
                assert_eq!(!portable::update(!0, part), defined[len], "portable, {len} bytes at offset {offset}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        // C10
        #[test]
        fn crc32c_of_any_bytes_in_any_pieces_is_the_portable_one(
            len in 0_usize..30_000,
            cuts in prop::collection::vec(0.0..1.0, 0..6),
            salt in any::<u8>(),
        ) {
            let bytes: Vec<u8> = bytes(len).iter().map(|byte| byte ^ salt).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * len as f64) as usize).collect();
            cuts.extend([0, len]);
            cuts.sort_unstable();
            let mut pieces = Crc32c::new();
            cuts.windows(2).for_each(|cut| pieces.update(&bytes[cut[0]..cut[1]]));
            prop_assert_eq!(pieces.finish(), !portable::update(!0, &bytes));
        }
    }
}
