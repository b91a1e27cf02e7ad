//! Bytes of a secret are gone when its owner says so.
#![expect(unsafe_code, reason = "zeroes its own bytes with the kernels of this folder")]

use super::Heat;
use super::zero::Zero;

/// Zeroes bytes by stores that no compiler removes, though nobody may read them again.
pub(crate) fn wipe(bytes: &mut [u8]) {
    let zero = Zero::detect();
    // SAFETY: (1) and (2) of `Zero::zero`: the bytes are borrowed alone.
    unsafe { zero.zero(bytes.as_mut_ptr(), bytes.len(), Heat::Hot) };
    zero.settle();
}

#[cfg(test)]
mod tests {
    use super::*;

    // C11
    #[test]
    fn wiping_zeroes_the_bytes_named_and_no_others() {
        let mut bytes = [0xA5; 96];
        wipe(&mut bytes[32..64]);
        let expected: [u8; 96] = std::array::from_fn(|at| if (32..64).contains(&at) { 0 } else { 0xA5 });
        assert_eq!(bytes, expected);
    }
}
