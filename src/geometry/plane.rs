//! One plane of a page: how the bytes of a token lie in it.

/// Describes one memory region; page *i* is slice *i* of it.
///
/// A token's bytes inside a page are `runs` runs of `run_bytes` each; run *r* of token *t* starts at
/// `r * page_tokens * run_bytes + t * run_bytes`. Token-major order (NHD) is one run that holds all
/// heads; head-major order (HND) is one run per head; K and V interleaved in one plane are twice as many.
///
/// A plane may be made with a zero: [`PageGeometry::new`](super::PageGeometry::new) refuses it by name.
///
/// # Examples
/// ```
/// use pagestamp::geometry::Plane;
///
/// // 8 heads of 128 f16 elements, head-major
/// let plane = Plane::per_token(8, 256);
/// assert_eq!(plane.token_bytes(), 2048);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Plane {
    runs: u32,
    run_bytes: u32,
}

impl Plane {
    /// Makes a plane in which each token has `runs` runs of `run_bytes` bytes.
    #[must_use]
    pub const fn per_token(runs: u32, run_bytes: u32) -> Plane {
        Plane { runs, run_bytes }
    }

    /// Returns the number of separate runs of one token in a page.
    #[must_use]
    #[inline]
    pub const fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns the bytes of one run of one token.
    #[must_use]
    #[inline]
    pub const fn run_bytes(&self) -> u32 {
        self.run_bytes
    }

    /// Returns the bytes of one token in this plane, all runs together.
    #[must_use]
    #[inline]
    pub const fn token_bytes(&self) -> u64 {
        // u32 * u32 always fits in u64
        self.runs as u64 * self.run_bytes as u64
    }
}
