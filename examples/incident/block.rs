//! Quantised blocks: 32 weights, or 32 activations, that share a scale.
//!
//! Owns the block formats Q4_1 and Q8_0 and the integer dot product of one block. Does not know rows or matrices.
//! Everything is widened to `i16` before it is multiplied: a sum of `i16 * i16` products is the one integer dot
//! product that the compiler vectorises for every x86-64, so the example needs neither `unsafe` nor a target flag.

/// Values per block, for weights and for activations.
pub(crate) const BLOCK: usize = 32;

/// 32 weights `scale * q + min`.
pub(crate) trait WeightBlock: Sync {
    /// Writes the 32 integers `q` to `out` and returns `(scale, min)`.
    fn unpack(&self, out: &mut [i16; BLOCK]) -> (f32, f32);
}

/// Q4_1: four bits per weight, a scale and a minimum.
#[derive(Debug, Clone)]
pub(crate) struct Q4Block {
    scale: f32,
    min: f32,
    nibbles: [u8; BLOCK / 2],
}

/// Q8_0: eight bits per weight and a scale.
#[derive(Debug, Clone)]
pub(crate) struct Q8Block {
    scale: f32,
    values: [i8; BLOCK],
}

impl Q4Block {
    /// Bytes of one block in a GGUF file: two f16 and 16 bytes of nibbles.
    pub(crate) const FILE_BYTES: usize = 20;

    /// Makes a block from its parts; the random model uses it.
    #[cfg(test)]
    pub(crate) fn new(scale: f32, min: f32, nibbles: [u8; BLOCK / 2]) -> Self {
        Self { scale, min, nibbles }
    }

    /// Reads one block as the file holds it.
    pub(crate) fn from_file(bytes: &[u8; Self::FILE_BYTES]) -> Self {
        let [s0, s1, m0, m1, nibbles @ ..] = *bytes;
        Self { scale: f16_to_f32([s0, s1]), min: f16_to_f32([m0, m1]), nibbles }
    }
}

impl Q8Block {
    /// Bytes of one block in a GGUF file: one f16 and 32 bytes.
    pub(crate) const FILE_BYTES: usize = 34;

    /// Makes a block from its parts; the random model uses it.
    #[cfg(test)]
    pub(crate) fn new(scale: f32, values: [i8; BLOCK]) -> Self {
        Self { scale, values }
    }

    /// Reads one block as the file holds it.
    pub(crate) fn from_file(bytes: &[u8; Self::FILE_BYTES]) -> Self {
        let [s0, s1, values @ ..] = *bytes;
        Self { scale: f16_to_f32([s0, s1]), values: values.map(u8::cast_signed) }
    }
}

impl WeightBlock for Q4Block {
    fn unpack(&self, out: &mut [i16; BLOCK]) -> (f32, f32) {
        // The low nibbles are weights 0..16, the high nibbles 16..32.
        for (i, &pair) in self.nibbles.iter().enumerate() {
            out[i] = i16::from(pair & 15);
            out[i + BLOCK / 2] = i16::from(pair >> 4);
        }
        (self.scale, self.min)
    }
}

impl WeightBlock for Q8Block {
    fn unpack(&self, out: &mut [i16; BLOCK]) -> (f32, f32) {
        for (to, &from) in out.iter_mut().zip(&self.values) {
            *to = i16::from(from);
        }
        (self.scale, 0.0)
    }
}

/// 32 activations, rounded to eight bits and kept as `i16`.
#[derive(Debug, Clone)]
pub(crate) struct ActivationBlock {
    values: [i16; BLOCK],
    scale: f32,
    /// `scale` times the sum of `values`: what the weights' minimum is multiplied with.
    sum: f32,
}

impl ActivationBlock {
    /// Rounds 32 floats to eight bits with one scale.
    pub(crate) fn quantise(floats: &[f32; BLOCK]) -> Self {
        let largest = floats.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { scale.recip() } else { 0.0 };
        let values = floats.map(|x| round(x * inverse));
        let sum: i32 = values.iter().map(|&v| i32::from(v)).sum();
        Self { values, scale, sum: scale * sum as f32 }
    }

    /// Dot product with 32 unpacked weights.
    #[inline]
    pub(crate) fn dot(&self, weights: &[i16; BLOCK], (scale, min): (f32, f32)) -> f32 {
        let whole: i32 = self.values.iter().zip(weights).map(|(&a, &w)| i32::from(a) * i32::from(w)).sum();
        scale * self.scale * whole as f32 + min * self.sum
    }
}

/// Rounds half away from zero without a call into the maths library, which `f32::round` is on plain x86-64.
#[inline]
fn round(x: f32) -> i16 {
    (x + 0.5_f32.copysign(x)) as i16
}

/// Widens an IEEE half, little-endian.
pub(crate) fn f16_to_f32(bytes: [u8; 2]) -> f32 {
    let half = u16::from_le_bytes(bytes);
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f32::from(half & 0x03ff);
    let magnitude = match (half >> 10) & 0x1f {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2.0_f32.powi(i32::from(exponent) - 15),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_widen_exactly() {
        let cases = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x0001, 2.0_f32.powi(-24)),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
        ];
        for (half, float) in cases {
            assert_eq!(f16_to_f32(u16::to_le_bytes(half)), float);
        }
        assert!(f16_to_f32(u16::to_le_bytes(0x7e00)).is_nan());
    }

    #[test]
    fn q4_block_keeps_low_nibbles_before_high_ones() {
        let mut file = [0_u8; Q4Block::FILE_BYTES];
        file[..4].copy_from_slice(&[0x00, 0x38, 0x00, 0xbc]); // scale 0.5, min -1
        file[4] = 0x72; // weight 0 is 2, weight 16 is 7
        let mut weights = [0; BLOCK];
        assert_eq!(Q4Block::from_file(&file).unpack(&mut weights), (0.5, -1.0));
        assert_eq!((weights[0], weights[16], weights[1]), (2, 7, 0));
    }

    #[test]
    fn dot_of_blocks_is_near_the_dot_of_floats() {
        let floats: [f32; BLOCK] = std::array::from_fn(|i| (i as f32 - 13.0) * 0.37);
        let block = Q8Block::new(0.02, std::array::from_fn(|i| (i * 8) as i8));
        let mut weights = [0; BLOCK];
        let parts = block.unpack(&mut weights);
        let exact: f32 = floats.iter().zip(&weights).map(|(x, &w)| x * parts.0 * f32::from(w)).sum();
        let got = ActivationBlock::quantise(&floats).dot(&weights, parts);
        assert!((got - exact).abs() < exact.abs() * 0.01, "{got} {exact}");
    }

    #[test]
    fn zero_activations_stay_zero() {
        assert_eq!(ActivationBlock::quantise(&[0.0; BLOCK]).dot(&[9; BLOCK], (1.0, 1.0)), 0.0);
    }
}
