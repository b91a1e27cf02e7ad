//! How a row of elements is stored: number format, and scales if it has any.

use super::fingerprint::Encoder;
use super::{Dtype, LayoutDim, LayoutError, ScaleDtype};

/// Describes the scales of a row: one for every so many elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scales {
    block_elements: u32,
    dtype: ScaleDtype,
}

impl Scales {
    /// One scale for every `block_elements` elements of a token's row.
    ///
    /// One scale per token and head is a block as long as the head. The block must divide the row.
    #[must_use]
    pub const fn every(block_elements: u32, dtype: ScaleDtype) -> Self {
        Self { block_elements, dtype }
    }

    /// Returns the elements that share a scale.
    #[must_use]
    pub const fn block_elements(&self) -> u32 {
        self.block_elements
    }

    /// Returns the number format of the scales.
    #[must_use]
    pub const fn dtype(&self) -> ScaleDtype {
        self.dtype
    }
}

/// Describes how elements are stored: number format, and scales that lie in the pages.
///
/// Scales per tensor or per layer do not lie in pages. When the model's revision does not fix them, name
/// them in the revision string of the [`ModelLayout`](super::ModelLayout), since they change what bytes mean.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, ScaleDtype, Scales};
///
/// // int8 with one f32 scale per token and head, for heads of 128 elements
/// let format = ElementFormat::scaled(Dtype::Int8, Scales::every(128, ScaleDtype::F32));
/// assert_eq!(format.dtype(), Dtype::Int8);
/// assert_eq!(ElementFormat::nvfp4().scales(), Some(Scales::every(16, ScaleDtype::E4m3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ElementFormat {
    dtype: Dtype,
    scales: Option<Scales>,
}

impl ElementFormat {
    /// Elements without scales in the pages.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, scales: None }
    }

    /// Elements with scales that lie in the pages.
    #[must_use]
    pub const fn scaled(dtype: Dtype, scales: Scales) -> Self {
        Self { dtype, scales: Some(scales) }
    }

    /// MXFP4: 4-bit E2M1 elements, an E8M0 scale for every 32.
    ///
    /// # Source
    /// OCP Microscaling Formats Specification 1.0.
    #[must_use]
    pub const fn mxfp4() -> Self {
        Self::scaled(Dtype::Fp4E2m1, Scales::every(32, ScaleDtype::E8m0))
    }

    /// NVFP4: 4-bit E2M1 elements, an E4M3 scale for every 16. Its second scale, per tensor, is not in pages.
    #[must_use]
    pub const fn nvfp4() -> Self {
        Self::scaled(Dtype::Fp4E2m1, Scales::every(16, ScaleDtype::E4m3))
    }

    /// Returns the number format of the elements.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the scales, if they lie in the pages.
    #[must_use]
    pub const fn scales(&self) -> Option<Scales> {
        self.scales
    }

    /// Bytes of the elements of one row, without scales.
    pub(super) fn row_bytes(&self, dim: LayoutDim, elements: u32) -> Result<u64, LayoutError> {
        if elements == 0 {
            return Err(LayoutError::ZeroDim { dim });
        }
        // 2^32 elements of at most 2^5 bits
        let bits = u64::from(elements) * u64::from(self.dtype.bits());
        if !bits.is_multiple_of(8) {
            return Err(LayoutError::PartialByte { dim, elements, dtype: self.dtype });
        }
        Ok(bits / 8)
    }

    /// Bytes of the scales of one row; 0 without scales.
    pub(super) fn row_scale_bytes(&self, dim: LayoutDim, elements: u32) -> Result<u64, LayoutError> {
        let Some(scales) = self.scales else {
            return Ok(0);
        };
        let block_elements = scales.block_elements;
        match elements.checked_rem(block_elements) {
            None => Err(LayoutError::ZeroScaleBlock { dim }),
            Some(0) => Ok(u64::from(elements / block_elements) * u64::from(scales.dtype.bytes())),
            Some(_) => Err(LayoutError::UnevenScaleBlock { dim, elements, block_elements }),
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        let Self { dtype, scales } = *self;
        encoder.u32(dtype.code());
        match scales {
            None => encoder.u32(0),
            Some(Scales { block_elements, dtype }) => encoder.u32(1).u32(block_elements).u32(dtype.code()),
        };
    }
}
