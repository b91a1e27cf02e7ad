//! The shape of a page: its tokens and its planes.

use std::ops::Range;
use std::sync::Arc;

use super::fingerprint::{Domain, Encoder};
use super::{Fingerprint, GeometryError, Plane};

/// Holds the shape of a page: how many tokens, and the planes with their bytes per token.
///
/// A clone is cheap: the planes are shared. Two geometries are equal when their page tokens are equal and
/// their planes are equal one by one, in order. A geometry knows sizes, not meanings; what the bytes stand
/// for is said by the layout that made it.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{GeometryError, PageGeometry, Plane};
///
/// // K and V of one layer, 16 tokens per page, 8 heads of 128 f16 elements, token-major
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 2048), Plane::per_token(1, 2048)])?;
/// assert_eq!(geometry.total_page_bytes(), 16 * 4096);
/// assert_eq!(geometry.pages_for_tokens(17), 2);
/// # Ok::<(), GeometryError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PageGeometry {
    page_tokens: u32,
    token_bytes: u64,
    total_page_bytes: u64,
    planes: Arc<[Plane]>,
}

impl PageGeometry {
    /// Most tokens in a page: a page's extent word has 15 bits.
    pub const MAX_PAGE_TOKENS: u32 = 32_767;

    /// Most planes in a page.
    pub const MAX_PLANES: usize = 4096;

    /// Most bytes in one page of all planes together: 1 TiB.
    ///
    /// No real page comes near it; a page beyond it is a wrong unit or an overflow, and below it the
    /// arithmetic inside a page needs no second look.
    pub const MAX_PAGE_BYTES: u64 = 1 << 40;

    /// Most bytes in one plane: what a pointer offset can express on a 64-bit machine.
    pub const MAX_PLANE_BYTES: u64 = i64::MAX as u64;

    /// Makes the shape of a page of `page_tokens` tokens in `planes`, in the order given.
    ///
    /// For a unit that is not made of tokens use [`PageGeometry::bytes`].
    ///
    /// # Cost
    /// O(planes), one allocation.
    ///
    /// # Errors
    /// - [`GeometryError::ZeroPageTokens`], [`GeometryError::TooManyPageTokens`]
    /// - [`GeometryError::ZeroPlanes`], [`GeometryError::TooManyPlanes`]
    /// - [`GeometryError::EmptyPlane`]: a plane has no run or runs of no bytes
    /// - [`GeometryError::PageTooLarge`]: all planes of one page exceed [`PageGeometry::MAX_PAGE_BYTES`]
    pub fn new(page_tokens: u32, planes: &[Plane]) -> Result<Self, GeometryError> {
        if page_tokens == 0 {
            return Err(GeometryError::ZeroPageTokens);
        }
        if page_tokens > Self::MAX_PAGE_TOKENS {
            return Err(GeometryError::TooManyPageTokens { page_tokens, max_page_tokens: Self::MAX_PAGE_TOKENS });
        }
        if planes.is_empty() {
            return Err(GeometryError::ZeroPlanes);
        }
        if planes.len() > Self::MAX_PLANES {
            return Err(GeometryError::TooManyPlanes { planes: planes.len(), max_planes: Self::MAX_PLANES });
        }
        if let Some((plane, shape)) = planes.iter().enumerate().find(|(_, plane)| plane.token_bytes() == 0) {
            return Err(GeometryError::EmptyPlane { plane, runs: shape.runs(), run_bytes: shape.run_bytes() });
        }
        // at most 2^12 planes of 2^64 bytes per token and 2^15 tokens: far below 2^128
        let token_bytes: u128 = planes.iter().map(|plane| u128::from(plane.token_bytes())).sum();
        let page_bytes = token_bytes * u128::from(page_tokens);
        let too_large = GeometryError::PageTooLarge { page_bytes, max_page_bytes: Self::MAX_PAGE_BYTES };
        match (u64::try_from(token_bytes), u64::try_from(page_bytes)) {
            (Ok(token_bytes), Ok(total_page_bytes)) if total_page_bytes <= Self::MAX_PAGE_BYTES => {
                Ok(Self { page_tokens, token_bytes, total_page_bytes, planes: planes.into() })
            }
            _ => Err(too_large),
        }
    }

    /// Makes the shape of one opaque unit of `page_bytes` bytes: one plane, one token per page.
    ///
    /// Use it for session state, recurrent state, and everything else that is not counted in tokens.
    /// A unit is one run, so its limit is [`u32::MAX`] bytes (4 GiB less one byte).
    ///
    /// # Errors
    /// - [`GeometryError::ZeroPageBytes`]
    /// - [`GeometryError::PageTooLarge`]
    pub fn bytes(page_bytes: u64) -> Result<Self, GeometryError> {
        if page_bytes == 0 {
            return Err(GeometryError::ZeroPageBytes);
        }
        let run_bytes = u32::try_from(page_bytes).map_err(|_| GeometryError::PageTooLarge {
            page_bytes: u128::from(page_bytes),
            max_page_bytes: u64::from(u32::MAX),
        })?;
        Self::new(1, &[Plane::per_token(1, run_bytes)])
    }

    /// Returns the tokens in one page.
    #[must_use]
    #[inline]
    pub fn page_tokens(&self) -> u32 {
        self.page_tokens
    }

    /// Returns the planes, in the order in which they were given.
    #[must_use]
    #[inline]
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// Returns the bytes of one page in one plane, or `None` when there is no such plane.
    #[must_use]
    pub fn page_bytes(&self, plane: usize) -> Option<u64> {
        self.planes.get(plane)?.token_bytes().checked_mul(u64::from(self.page_tokens))
    }

    /// Returns the bytes of one page in all planes together.
    #[must_use]
    #[inline]
    pub fn total_page_bytes(&self) -> u64 {
        self.total_page_bytes
    }

    /// Returns the bytes of one token in all planes together.
    #[must_use]
    #[inline]
    pub fn token_bytes(&self) -> u64 {
        self.token_bytes
    }

    /// Returns the pages that `tokens` tokens take: whole pages, the last may be part full.
    #[must_use]
    #[inline]
    pub fn pages_for_tokens(&self, tokens: u64) -> u64 {
        let page_tokens = u64::from(self.page_tokens);
        // A shift takes a tenth of a division's time, and almost every engine's page is a power of two.
        if page_tokens.is_power_of_two() {
            let shift = page_tokens.trailing_zeros();
            (tokens >> shift) + u64::from(tokens & (page_tokens - 1) != 0)
        } else {
            tokens.div_ceil(page_tokens)
        }
    }

    /// Returns the tokens that `pages` pages hold when all are full.
    #[must_use]
    pub fn tokens_in_pages(&self, pages: u32) -> u64 {
        // u32 * u32 always fits in u64
        u64::from(pages) * u64::from(self.page_tokens)
    }

    /// Returns where a token of a sequence lies: the page's ordinal in the sequence, and the token in the page.
    #[must_use]
    pub fn locate_token(&self, token: u64) -> (u64, u32) {
        let page_tokens = u64::from(self.page_tokens);
        let token_in_page = token % page_tokens;
        // below page_tokens, which is a u32
        (token / page_tokens, token_in_page as u32)
    }

    /// Cuts tokens of a sequence at page boundaries: each page's ordinal, and the tokens within it. Nothing for a range
    /// that is empty or runs backward.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{PageGeometry, Plane};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pieces: Vec<_> = geometry.split_tokens(14..33).collect();
    /// assert_eq!(pieces, [(0, 14..16), (1, 0..16), (2, 0..1)]);
    /// # Ok::<(), pagestamp::geometry::GeometryError>(())
    /// ```
    pub fn split_tokens(&self, tokens: Range<u64>) -> impl Iterator<Item = (u64, Range<u32>)> + use<> {
        let page_tokens = u64::from(self.page_tokens);
        let Range { start, end } = tokens;
        let ordinals = if start < end { start / page_tokens..end.div_ceil(page_tokens) } else { 0..0 };
        ordinals.map(move |ordinal| {
            let first = ordinal * page_tokens;
            // both at most page_tokens, which is a u32
            (ordinal, start.saturating_sub(first) as u32..(end - first).min(page_tokens) as u32)
        })
    }

    /// Returns the bytes that `pages` pages of one plane span when their starts are `stride_bytes` apart.
    ///
    /// The last page counts with its own bytes, not with a whole stride, so that a plane which is a
    /// strided view of a larger allocation fits exactly.
    ///
    /// # Errors
    /// - [`GeometryError::NoSuchPlane`]
    /// - [`GeometryError::StrideTooSmall`]: pages would overlap
    /// - [`GeometryError::PlaneTooLarge`]: more than [`PageGeometry::MAX_PLANE_BYTES`]
    pub fn plane_bytes(&self, plane: usize, pages: u32, stride_bytes: u64) -> Result<u64, GeometryError> {
        let page_bytes =
            self.page_bytes(plane).ok_or(GeometryError::NoSuchPlane { plane, planes: self.planes.len() })?;
        if stride_bytes < page_bytes {
            return Err(GeometryError::StrideTooSmall { plane, stride_bytes, page_bytes });
        }
        let Some(last) = pages.checked_sub(1) else {
            return Ok(0);
        };
        // at most 2^32 * 2^64 + 2^40: far below 2^128
        let plane_bytes = u128::from(last) * u128::from(stride_bytes) + u128::from(page_bytes);
        match u64::try_from(plane_bytes) {
            Ok(bytes) if bytes <= Self::MAX_PLANE_BYTES => Ok(bytes),
            _ => Err(GeometryError::PlaneTooLarge {
                plane,
                pages,
                stride_bytes,
                plane_bytes,
                max_plane_bytes: Self::MAX_PLANE_BYTES,
            }),
        }
    }

    /// Returns where one run of one token starts inside a page of one plane, in bytes.
    ///
    /// `None` when the plane, the run or the token does not exist. The run's end is
    /// [`Plane::run_bytes`] further, and always inside the page.
    #[must_use]
    pub fn run_offset(&self, plane: usize, run: u32, token_in_page: u32) -> Option<u64> {
        let shape = self.planes.get(plane)?;
        if run >= shape.runs() || token_in_page >= self.page_tokens {
            return None;
        }
        let run_bytes = u64::from(shape.run_bytes());
        let runs_start = u64::from(run).checked_mul(u64::from(self.page_tokens))?.checked_mul(run_bytes)?;
        runs_start.checked_add(u64::from(token_in_page).checked_mul(run_bytes)?)
    }

    /// Returns the fingerprint of this shape: page tokens, and each plane's runs and run bytes, in order.
    ///
    /// It says nothing of what the bytes mean; across a handoff compare the layouts' fingerprints.
    ///
    /// # Cost
    /// O(planes); allocates.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut encoder = Encoder::new(Domain::PageGeometry);
        encoder.u32(self.page_tokens).count(self.planes.len());
        for plane in self.planes.iter() {
            encoder.u32(plane.runs()).u32(plane.run_bytes());
        }
        encoder.finish()
    }
}
