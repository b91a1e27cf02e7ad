//! The instruction `crc32` of SSE4.2, three at a time.
//!
//! One takes three cycles and each cycle can begin another, so three stretches of the bytes run side by side. A
//! remainder moves past the bytes behind its stretch by one carry-less product with a power of x; then the three add up.
#![expect(unsafe_code, reason = "calls code that only some processors can run")]

use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64};

use super::{POLYNOMIAL, portable};

/// Words of one of three stretches: long ones first, shorter ones for what they leave. Long ones lie in three pages of the
/// system, so that bytes come from memory in three streams; short ones are worth a product from here up.
const LONG: usize = 512;
const MIDDLE: usize = 64;
const SHORT: usize = 8;

/// Adds bytes to a remainder.
#[inline]
pub(super) fn update(remainder: u32, bytes: &[u8]) -> u32 {
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the one obligation of `by_instruction` is a processor with these two features, and it was asked.
        unsafe { by_instruction(remainder, bytes) }
    } else {
        portable::update(remainder, bytes)
    }
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn by_instruction(remainder: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks();
    let (crc, words) = by_three::<LONG>(u64::from(remainder), words);
    let (crc, words) = by_three::<MIDDLE>(crc, words);
    let (crc, words) = by_three::<SHORT>(crc, words);
    let crc = words.iter().fold(crc, |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    tail.iter().fold(crc as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}

/// Takes blocks of three stretches while there are any; returns the remainder, and the words that are left.
#[target_feature(enable = "sse4.2,pclmulqdq")]
#[inline]
fn by_three<const WORDS: usize>(mut crc: u64, mut words: &[[u8; 8]]) -> (u64, &[[u8; 8]]) {
    let (past_two, past_one) = const { (past(2 * WORDS), past(WORDS)) };
    while let Some((first, rest)) = words.split_first_chunk::<WORDS>()
        && let Some((second, rest)) = rest.split_first_chunk::<WORDS>()
        && let Some((third, rest)) = rest.split_first_chunk::<WORDS>()
    {
        let mut crcs = [crc, 0, 0];
        for at in 0..WORDS {
            crcs[0] = _mm_crc32_u64(crcs[0], u64::from_le_bytes(first[at]));
            crcs[1] = _mm_crc32_u64(crcs[1], u64::from_le_bytes(second[at]));
            crcs[2] = _mm_crc32_u64(crcs[2], u64::from_le_bytes(third[at]));
        }
        let moved = product(crcs[0], past_two) ^ product(crcs[1], past_one);
        crc = _mm_crc32_u64(0, moved) ^ crcs[2];
        words = rest;
    }
    (crc, words)
}

/// The carry-less product of two remainders, a polynomial of 63 coefficients.
#[target_feature(enable = "sse4.2,pclmulqdq")]
#[inline]
fn product(a: u64, b: u64) -> u64 {
    let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64));
    _mm_cvtsi128_si64(product) as u64
}

/// What moves a remainder past `words` words: `x^(64 * words - 33)`, reduced. The product of two remainders stands one
/// bit low in its word, and `crc32` multiplies by x^32: together the 33 that are taken off.
const fn past(words: usize) -> u64 {
    // x^0: the coefficient of x^31 is in the lowest bit
    let mut power = 1_u32 << 31;
    let mut exponent = 0;
    while exponent < 64 * words - 33 {
        power = if power & 1 == 1 { power >> 1 ^ POLYNOMIAL } else { power >> 1 };
        exponent += 1;
    }
    power as u64
}
