//! Numbers of 32 bits with a fraction, as PTX computes with them: IEEE 754, denormals kept, to the nearest.

/// An operation on such numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Float {
    Subtract,
    Multiply,
    Divide,
    Maximum,
    /// Rounded once.
    MultiplyAdd,
    /// 2 to the power of `a`. A device may be wrong in the last bits; this is not.
    PowerOfTwo,
}

impl Float {
    /// Operands that it takes.
    pub(super) const fn operands(self) -> usize {
        match self {
            Self::PowerOfTwo => 1,
            Self::Subtract | Self::Multiply | Self::Divide | Self::Maximum => 2,
            Self::MultiplyAdd => 3,
        }
    }

    /// Computes, bits in and bits out. Every NaN that comes out is the one that PTX makes.
    pub(super) fn of(self, operands: [u32; 3]) -> u32 {
        let [a, b, c] = operands.map(f32::from_bits);
        let value = match self {
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            // A NaN gives way, and of two zeroes the positive one is larger.
            Self::Maximum if a == b => f32::from_bits(operands[0] & operands[1]),
            Self::Maximum => a.max(b),
            Self::MultiplyAdd => a.mul_add(b, c),
            Self::PowerOfTwo => a.exp2(),
        };
        if value.is_nan() { 0x7FFF_FFFF } else { value.to_bits() }
    }
}
