//! Number formats of cached elements and of their scales.

use std::fmt;

/// Names the number format of cached elements.
///
/// Formats of one width are different formats: bytes of one read as another are noise without an error.
///
/// # Source
/// fp8 E4M3 and E5M2: OCP 8-bit Floating Point Specification 1.0. The `Fnuz` forms have no infinities, no
/// negative zero and another bias. 4-bit E2M1: OCP Microscaling Formats Specification 1.0.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// 8-bit float with 4 exponent and 3 mantissa bits (OCP, finite only).
    Fp8E4m3,
    /// 8-bit float with 5 exponent and 2 mantissa bits (OCP).
    Fp8E5m2,
    /// 8-bit float with 4 exponent and 3 mantissa bits, unsigned zero, another bias.
    Fp8E4m3Fnuz,
    /// 8-bit float with 5 exponent and 2 mantissa bits, unsigned zero, another bias.
    Fp8E5m2Fnuz,
    /// 8-bit signed integer.
    Int8,
    /// 4-bit float with 2 exponent bits and 1 mantissa bit, two elements per byte.
    Fp4E2m1,
    /// 4-bit signed integer, two elements per byte.
    Int4,
}

impl Dtype {
    /// Every format, for tests and menus.
    pub const ALL: &'static [Dtype] = &[
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::Fp8E4m3,
        Dtype::Fp8E5m2,
        Dtype::Fp8E4m3Fnuz,
        Dtype::Fp8E5m2Fnuz,
        Dtype::Int8,
        Dtype::Fp4E2m1,
        Dtype::Int4,
    ];

    /// Returns the bits of one element.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Dtype::F32 => 32,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::Fp8E4m3 | Dtype::Fp8E5m2 | Dtype::Fp8E4m3Fnuz | Dtype::Fp8E5m2Fnuz | Dtype::Int8 => 8,
            Dtype::Fp4E2m1 | Dtype::Int4 => 4,
        }
    }

    /// The number that stands for the format in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Dtype::F32 => 1,
            Dtype::F16 => 2,
            Dtype::Bf16 => 3,
            Dtype::Fp8E4m3 => 4,
            Dtype::Fp8E5m2 => 5,
            Dtype::Fp8E4m3Fnuz => 6,
            Dtype::Fp8E5m2Fnuz => 7,
            Dtype::Int8 => 8,
            Dtype::Fp4E2m1 => 9,
            Dtype::Int4 => 10,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Fp8E4m3 => "fp8_e4m3",
            Dtype::Fp8E5m2 => "fp8_e5m2",
            Dtype::Fp8E4m3Fnuz => "fp8_e4m3fnuz",
            Dtype::Fp8E5m2Fnuz => "fp8_e5m2fnuz",
            Dtype::Int8 => "int8",
            Dtype::Fp4E2m1 => "fp4_e2m1",
            Dtype::Int4 => "int4",
        })
    }
}

/// Names the number format of scales.
///
/// # Source
/// E8M0: OCP Microscaling Formats Specification 1.0.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScaleDtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// A power of two in 8 bits.
    E8m0,
    /// 8-bit float with 4 exponent and 3 mantissa bits.
    E4m3,
}

impl ScaleDtype {
    /// Every format, for tests and menus.
    pub const ALL: &'static [ScaleDtype] =
        &[ScaleDtype::F32, ScaleDtype::F16, ScaleDtype::Bf16, ScaleDtype::E8m0, ScaleDtype::E4m3];

    /// Returns the bytes of one scale.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            ScaleDtype::F32 => 4,
            ScaleDtype::F16 | ScaleDtype::Bf16 => 2,
            ScaleDtype::E8m0 | ScaleDtype::E4m3 => 1,
        }
    }

    /// The number that stands for the format in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            ScaleDtype::F32 => 1,
            ScaleDtype::F16 => 2,
            ScaleDtype::Bf16 => 3,
            ScaleDtype::E8m0 => 4,
            ScaleDtype::E4m3 => 5,
        }
    }
}

impl fmt::Display for ScaleDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScaleDtype::F32 => "f32",
            ScaleDtype::F16 => "f16",
            ScaleDtype::Bf16 => "bf16",
            ScaleDtype::E8m0 => "e8m0",
            ScaleDtype::E4m3 => "e4m3",
        })
    }
}
